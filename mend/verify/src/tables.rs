//! What the dynamic table leads to: strings, symbols, versions, hash tables, relocations, and where each of them lies.

use crate::bytes::{Format, text};
use crate::file::{Elf, Reason};
use crate::spec::*;
use std::collections::{BTreeMap, BTreeSet};

/// A table that is reached through the dynamic table only, so that a rewriter may move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// The tag that leads to it.
    pub(crate) tag: u64,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// One dynamic symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Where in the string table its name begins. Names are all over that, so that they are read only where they count.
    pub(crate) name: u32,
    pub(crate) value: u64,
    pub(crate) len: u64,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: u16,
}

impl Symbol {
    pub(crate) fn is_defined(&self) -> bool {
        self.section != 0
    }

    pub(crate) fn kind(&self) -> u8 {
        self.info & 0xf
    }
}

/// Reads entry `index` of a symbol table.
pub(crate) fn symbol(format: Format, table: &[u8], index: usize) -> Option<Symbol> {
    let len = format.pick(16_usize, 24);
    let raw = table.get(index.checked_mul(len)?..index.checked_add(1)?.checked_mul(len)?)?;
    let byte = |narrow: usize, wide: usize| raw[format.pick(narrow, wide)];
    Some(Symbol {
        name: format.u32(raw, 0)?,
        value: format.word(raw, format.pick(4, 8))?,
        len: format.word(raw, format.pick(8, 16))?,
        info: byte(12, 4),
        other: byte(13, 5),
        section: format.u16(raw, format.pick(14, 6))?,
    })
}

/// A version that an index of the version table stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version<'a> {
    /// The library that has it; `None`: this object defines it.
    pub(crate) library: Option<&'a [u8]>,
    pub(crate) name: &'a [u8],
    pub(crate) flags: u16,
    /// Names that a defined version inherits from.
    pub(crate) parents: Vec<&'a [u8]>,
}

/// A relocation of DT_REL, DT_RELA or DT_JMPREL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    pub(crate) at: u64,
    pub(crate) kind: u32,
    pub(crate) symbol: u32,
    /// `None`: it lies at `at`.
    pub(crate) addend: Option<u64>,
}

/// Relocations that are applied one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Batch<'a> {
    table: &'a [u8],
    format: Format,
    has_addends: bool,
    /// How many at the beginning the loader takes for relative without looking.
    pub(crate) trusted: u64,
    /// How many at the beginning are relative.
    leading: usize,
    /// Those that are not relative or name a symbol, by their index: few of many, which are looked at again and again.
    others: Vec<usize>,
    /// The highest symbol that any names.
    highest: u32,
}

impl<'a> Batch<'a> {
    fn of(table: &'a [u8], format: Format, has_addends: bool, relative: u32) -> Self {
        let mut batch = Self { table, format, has_addends, trusted: 0, leading: 0, others: Vec::new(), highest: 0 };
        let (mut leading, mut others, mut highest) = (0, Vec::new(), 0);
        for (index, Relocation { kind, symbol, .. }) in batch.relocations().enumerate() {
            highest = highest.max(symbol);
            leading += usize::from(kind == relative && leading == index);
            if kind != relative || symbol != 0 {
                others.push(index);
            }
        }
        (batch.leading, batch.others, batch.highest) = (leading, others, highest);
        batch
    }

    /// The loader does not look at the type of as many relocations as DT_RELACOUNT says: they have to be relative.
    pub(crate) fn check_trusted(&self) -> Result<(), String> {
        let limit = usize::try_from(self.trusted).unwrap_or(usize::MAX);
        if self.leading < limit {
            let leading = self.leading;
            return Err(format!("{limit} relocations are said to be relative at the beginning, and {leading} are"));
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.table.len() < self.entry_len()
    }

    fn entry_len(&self) -> usize {
        let words = if self.has_addends { 3 } else { 2 };
        words * self.format.word_len() as usize
    }

    pub(crate) fn relocations(&self) -> impl Iterator<Item = Relocation> {
        let (format, has_addends) = (self.format, self.has_addends);
        self.table.chunks_exact(self.entry_len()).map(move |raw| relocation(format, has_addends, raw))
    }

    /// Those that are not relative or name a symbol, in their order.
    pub(crate) fn others(&self) -> impl Iterator<Item = Relocation> {
        let len = self.entry_len();
        let raw = move |index: &usize| &self.table[index * len..(index + 1) * len];
        self.others.iter().map(move |index| relocation(self.format, self.has_addends, raw(index)))
    }
}

#[inline]
fn relocation(format: Format, has_addends: bool, raw: &[u8]) -> Relocation {
    let [at, info, addend] = format.words(raw);
    let (symbol, kind) = format.pick((info >> 8, info & 0xff), (info >> 32, info & 0xffff_ffff));
    Relocation { at, kind: kind as u32, symbol: symbol as u32, addend: has_addends.then_some(addend) }
}

/// Everything that the loader reads of an object.
pub(crate) struct Tables<'a> {
    pub(crate) strings: &'a [u8],
    pub(crate) symbols: Vec<Symbol>,
    /// Version index of each symbol, where there are versions.
    pub(crate) version_of: Option<Vec<u16>>,
    pub(crate) versions: BTreeMap<u16, Version<'a>>,
    pub(crate) sysv: Option<SysvHash<'a>>,
    pub(crate) gnu: Option<GnuHash<'a>>,
    pub(crate) relr: &'a [u8],
    /// In the order in which the loader applies them.
    pub(crate) batches: Vec<Batch<'a>>,
    pub(crate) regions: Vec<Region>,
    /// Faults that the loader would or might not survive.
    pub(crate) faults: Vec<Reason>,
}

impl<'a> Tables<'a> {
    /// Follows the dynamic table. Errors: the first table that does not lie in the file.
    pub(crate) fn read(elf: &Elf<'a>) -> Result<Self, Reason> {
        let mut tables = Self {
            strings: b"",
            symbols: Vec::new(),
            version_of: None,
            versions: BTreeMap::new(),
            sysv: None,
            gnu: None,
            relr: b"",
            batches: Vec::new(),
            regions: Vec::new(),
            faults: Vec::new(),
        };
        tables.strings = tables.sized(elf, DT_STRTAB, DT_STRSZ)?;
        if tables.strings.last().is_some_and(|last| *last != 0) {
            tables.faults.push("the dynamic string table does not end with a NUL".to_owned());
        }
        tables.read_hashes(elf)?;
        tables.read_relocations(elf)?;
        tables.read_version_definitions(elf)?;
        tables.read_version_needs(elf)?;
        tables.read_symbols(elf)?;
        Ok(tables)
    }

    /// A table with its size in another tag; empty where the object has none.
    fn sized(&mut self, elf: &Elf<'a>, tag: u64, size: u64) -> Result<&'a [u8], Reason> {
        let Some(at) = elf.dynamic.value(tag) else { return Ok(b"") };
        let len = elf.dynamic.value(size).ok_or_else(|| format!("{} without {}", tag_name(tag), tag_name(size)))?;
        if len == 0 {
            return Ok(b"");
        }
        self.regions.push(Region { tag, at, len });
        elf.slice(at, len).ok_or_else(|| format!("{} leads outside the file", tag_name(tag)))
    }

    fn read_hashes(&mut self, elf: &Elf<'a>) -> Result<(), Reason> {
        if let Some(at) = elf.dynamic.value(DT_HASH) {
            let hash = elf.rest(at).and_then(|rest| SysvHash::read(elf.format, rest));
            let hash = hash.ok_or("DT_HASH is damaged")?;
            self.regions.push(Region { tag: DT_HASH, at, len: hash.table.len() as u64 });
            self.sysv = Some(hash);
        }
        if let Some(at) = elf.dynamic.value(DT_GNU_HASH) {
            let hash = elf.rest(at).and_then(|rest| GnuHash::read(elf.format, rest)).ok_or("DT_GNU_HASH is damaged")?;
            self.regions.push(Region { tag: DT_GNU_HASH, at, len: hash.table.len() as u64 });
            self.gnu = Some(hash);
        }
        Ok(())
    }

    fn read_relocations(&mut self, elf: &Elf<'a>) -> Result<(), Reason> {
        let dynamic = &elf.dynamic;
        let format = elf.format;
        let word = format.word_len();
        self.relr = self.sized(elf, DT_RELR, DT_RELRSZ)?;
        if !self.relr.is_empty() && dynamic.value(DT_RELRENT) != Some(word) {
            self.faults.push("DT_RELRENT is not the size of a word".to_owned());
        }
        if dynamic.value(DT_RELR).is_none() && dynamic.value(DT_RELRSZ).is_some_and(|len| len > 0) {
            return Err("DT_RELRSZ without DT_RELR".to_owned());
        }
        let plt = self.sized(elf, DT_JMPREL, DT_PLTRELSZ)?;
        let plt_kind = dynamic.value(DT_PLTREL).unwrap_or(DT_REL);
        for (tag, size, entry, count) in
            [(DT_REL, DT_RELSZ, DT_RELENT, DT_RELCOUNT), (DT_RELA, DT_RELASZ, DT_RELAENT, DT_RELACOUNT)]
        {
            let mut table = self.sized(elf, tag, size)?;
            if dynamic.value(tag).is_none() && dynamic.value(size).is_some_and(|len| len > 0) {
                return Err(format!("{} without {}", tag_name(size), tag_name(tag)));
            }
            let has_addends = tag == DT_RELA;
            let entry_len = word * if has_addends { 3 } else { 2 };
            if !table.is_empty() && dynamic.value(entry) != Some(entry_len) {
                self.faults.push(format!("{} is not {entry_len}", tag_name(entry)));
            }
            // Some linkers count the lazily bound ones at the end twice; the loader then takes them once.
            let end = |at: u64, bytes: &[u8]| at.wrapping_add(bytes.len() as u64);
            if let (Some(at), Some(plt_at), true) = (dynamic.value(tag), dynamic.value(DT_JMPREL), plt_kind == tag)
                && end(at, table) == end(plt_at, plt)
                && plt.len() <= table.len()
            {
                table = &table[..table.len() - plt.len()];
            }
            if !(table.len() as u64).is_multiple_of(entry_len) {
                self.faults.push(format!("{} is not a multiple of its entries", tag_name(size)));
            }
            let trusted = dynamic.value(count).unwrap_or(0);
            self.batches.push(Batch { trusted, ..Batch::of(table, format, has_addends, elf.machine.relative) });
        }
        let batch = Batch::of(plt, format, plt_kind == DT_RELA, elf.machine.relative);
        if !plt.len().is_multiple_of(batch.entry_len()) {
            self.faults.push("DT_PLTRELSZ is not a multiple of its entries".to_owned());
        }
        self.batches.push(batch);
        Ok(())
    }

    fn read_version_definitions(&mut self, elf: &Elf<'a>) -> Result<(), Reason> {
        let Some(start) = elf.dynamic.value(DT_VERDEF) else { return Ok(()) };
        let format = elf.format;
        let table = elf.rest(start).ok_or("DT_VERDEF leads outside the file")?;
        let damaged = || "the version definitions are damaged".to_owned();
        let name = |at: u32| text(self.strings, at.into()).ok_or_else(damaged);
        let (mut at, mut end) = (0_usize, 0_usize);
        for _ in 0..elf.dynamic.value(DT_VERDEFNUM).unwrap_or(0) {
            let half = |field: usize| format.u16(table, at.checked_add(field)?);
            let full = |field: usize| format.u32(table, at.checked_add(field)?);
            let flags = half(2).ok_or_else(damaged)?;
            let index = half(4).ok_or_else(damaged)?;
            let count = half(6).ok_or_else(damaged)?;
            let hash = full(8).ok_or_else(damaged)?;
            let (mut names, mut aux) = (Vec::new(), at.saturating_add(full(12).ok_or_else(damaged)? as usize));
            for _ in 0..count {
                names.push(name(format.u32(table, aux).ok_or_else(damaged)?)?);
                let next = format.u32(table, aux.saturating_add(4)).ok_or_else(damaged)? as usize;
                end = end.max(aux.saturating_add(8));
                if next == 0 {
                    break;
                }
                aux = aux.saturating_add(next);
            }
            end = end.max(at.saturating_add(20));
            if names.is_empty() {
                return Err(damaged());
            }
            if sysv_hash(names[0]) != hash {
                self.faults.push("a version definition has the wrong hash".to_owned());
            }
            let own = names.remove(0);
            let version = Version { library: None, name: own, flags, parents: names };
            if self.versions.insert(index & 0x7fff, version).is_some() {
                self.faults.push(format!("version index {index} is given twice"));
            }
            match full(16).ok_or_else(damaged)? as usize {
                0 => break,
                next => at = at.saturating_add(next),
            }
        }
        self.regions.push(Region { tag: DT_VERDEF, at: start, len: end as u64 });
        Ok(())
    }

    fn read_version_needs(&mut self, elf: &Elf<'a>) -> Result<(), Reason> {
        let Some(start) = elf.dynamic.value(DT_VERNEED) else { return Ok(()) };
        let format = elf.format;
        let table = elf.rest(start).ok_or("DT_VERNEED leads outside the file")?;
        let damaged = || "the version needs are damaged".to_owned();
        let name = |at: u32| text(self.strings, at.into()).ok_or_else(damaged);
        let (mut at, mut end) = (0_usize, 0_usize);
        let number = elf.dynamic.value(DT_VERNEEDNUM).unwrap_or(0);
        let mut seen = 0;
        // The loader follows the chain and does not look at the count; other tools look at the count only.
        loop {
            let half = |field: usize| format.u16(table, at.checked_add(field)?);
            let full = |field: usize| format.u32(table, at.checked_add(field)?);
            let count = half(2).ok_or_else(damaged)?;
            let library = name(full(4).ok_or_else(damaged)?)?;
            let mut aux = at.saturating_add(full(8).ok_or_else(damaged)? as usize);
            let mut auxiliaries = 0;
            loop {
                let full = |field: usize| format.u32(table, aux.checked_add(field)?);
                let half = |field: usize| format.u16(table, aux.checked_add(field)?);
                let version = name(full(8).ok_or_else(damaged)?)?;
                if full(0) != Some(sysv_hash(version)) {
                    self.faults.push("a version need has the wrong hash".to_owned());
                }
                let flags = half(4).ok_or_else(damaged)?;
                let index = half(6).ok_or_else(damaged)? & 0x7fff;
                let version = Version { library: Some(library), name: version, flags, parents: Vec::new() };
                if self.versions.insert(index, version).is_some() {
                    self.faults.push(format!("version index {index} is given twice"));
                }
                end = end.max(aux.saturating_add(16));
                auxiliaries += 1;
                let next = full(12).ok_or_else(damaged)? as usize;
                // An index has 15 bits: a longer chain is a damaged one.
                if next == 0 || auxiliaries > 0x8000 {
                    break;
                }
                aux = aux.saturating_add(next);
            }
            if auxiliaries != u32::from(count) {
                self.faults.push(format!("a version need says {count} and has {auxiliaries}"));
            }
            end = end.max(at.saturating_add(16));
            seen += 1;
            let next = full(12).ok_or_else(damaged)? as usize;
            if next == 0 || seen > 0x8000 {
                break;
            }
            at = at.saturating_add(next);
        }
        if seen != number {
            self.faults.push(format!("DT_VERNEEDNUM is {number}, and {seen} version needs are there"));
        }
        self.regions.push(Region { tag: DT_VERNEED, at: start, len: end as u64 });
        Ok(())
    }

    fn read_symbols(&mut self, elf: &Elf<'a>) -> Result<(), Reason> {
        let format = elf.format;
        let Some(start) = elf.dynamic.value(DT_SYMTAB) else { return Ok(()) };
        let entry_len = format.pick(16_u64, 24);
        if elf.dynamic.value(DT_SYMENT) != Some(entry_len) {
            self.faults.push(format!("DT_SYMENT is not {entry_len}"));
        }
        let used = self.batches.iter().filter(|batch| !batch.is_empty()).map(|batch| u64::from(batch.highest) + 1);
        let used = used.max().unwrap_or(0);
        let hashed = self.sysv.map_or(0, |hash| hash.symbols()).max(self.gnu.map_or(0, |hash| hash.symbols()));
        // A GNU hash table does not say how many undefined symbols there are. The section does, else what follows.
        let section = elf.sections.iter().find(|section| section.is_loaded() && section.at == start);
        let room = section.map_or_else(
            || {
                let versions = elf.dynamic.value(DT_VERSYM);
                let next = self.regions.iter().map(|region| region.at).chain(versions).filter(|at| *at > start).min();
                // Only a table right behind it bounds it: linkers leave at most an alignment between.
                let end = next.unwrap_or(start);
                let count = (end - start) / entry_len;
                if count < 0x10_0000 { count } else { 0 }
            },
            |section| section.len / entry_len,
        );
        let count = if self.sysv.is_some() { hashed.max(used) } else { hashed.max(used).max(room) };
        let len = count.checked_mul(entry_len).ok_or("DT_SYMTAB is damaged")?;
        let table = elf.slice(start, len).ok_or("DT_SYMTAB leads outside the file")?;
        let count = count as usize;
        let ends = self.strings.last() == Some(&0);
        let has_name = |symbol: &Symbol| match self.strings.get(symbol.name as usize..) {
            Some(rest) if ends => !rest.is_empty(),
            _ => text(self.strings, symbol.name.into()).is_some(),
        };
        self.symbols = Vec::with_capacity(count);
        for index in 0..count {
            let symbol = symbol(format, table, index).filter(&has_name);
            self.symbols.push(symbol.ok_or_else(|| format!("the name of dynamic symbol {index} lies outside"))?);
        }
        self.regions.push(Region { tag: DT_SYMTAB, at: start, len });
        if let Some(at) = elf.dynamic.value(DT_VERSYM) {
            let len = 2 * count as u64;
            let table = elf.slice(at, len).ok_or("DT_VERSYM leads outside the file")?;
            self.version_of = Some((0..count).map(|index| format.u16(table, 2 * index).unwrap_or(0)).collect());
            self.regions.push(Region { tag: DT_VERSYM, at, len });
        }
        Ok(())
    }

    /// The name of a dynamic symbol.
    pub(crate) fn name(&self, symbol: &Symbol) -> &'a [u8] {
        text(self.strings, symbol.name.into()).unwrap_or(b"")
    }

    /// What the version table says of a symbol, for comparing: the version and whether it is hidden.
    pub(crate) fn version(&self, symbol: usize) -> Result<(Option<&Version<'a>>, bool), u16> {
        let Some(index) = self.version_of.as_ref().and_then(|all| all.get(symbol)) else { return Ok((None, false)) };
        let hidden = index & 0x8000 != 0;
        match index & 0x7fff {
            0 => Ok((None, true)),
            1 => Ok((self.versions.get(&1), hidden)),
            other => self.versions.get(&other).map(|version| (Some(version), hidden)).ok_or(other),
        }
    }

    /// All versions that are defined or needed.
    pub(crate) fn all_versions(&self) -> BTreeSet<&Version<'a>> {
        self.versions.values().collect()
    }

    /// Relocations in the order in which the loader applies them.
    pub(crate) fn relocations(&self) -> impl Iterator<Item = Relocation> {
        self.batches.iter().flat_map(Batch::relocations)
    }
}

/// DT_HASH.
#[derive(Clone, Copy)]
pub(crate) struct SysvHash<'a> {
    format: Format,
    pub(crate) table: &'a [u8],
    buckets: u32,
    chains: u32,
}

impl<'a> SysvHash<'a> {
    fn read(format: Format, rest: &'a [u8]) -> Option<Self> {
        let (buckets, chains) = (format.u32(rest, 0)?, format.u32(rest, 4)?);
        let len = (u64::from(buckets) + u64::from(chains)).checked_mul(4)?.checked_add(8)?;
        Some(Self { format, table: rest.get(..usize::try_from(len).ok()?)?, buckets, chains })
    }

    fn symbols(&self) -> u64 {
        self.chains.into()
    }

    /// Symbols that a look-up of a name passes, until `steps` is used up.
    pub(crate) fn candidates<'b>(
        &'b self,
        name: &[u8],
        steps: &'b mut u64,
    ) -> impl Iterator<Item = usize> + use<'a, 'b> {
        let hash = sysv_hash(name);
        let mut next = (self.buckets > 0).then(|| 8 + 4 * (hash % self.buckets.max(1)) as usize);
        std::iter::from_fn(move || {
            let index = self.format.u32(self.table, next?)?;
            *steps = steps.checked_sub(1)?;
            next = (index < self.chains).then(|| 8 + 4 * (self.buckets as usize + index as usize));
            (index != 0).then_some(index as usize)
        })
    }
}

/// DT_GNU_HASH.
#[derive(Clone, Copy)]
pub(crate) struct GnuHash<'a> {
    format: Format,
    pub(crate) table: &'a [u8],
    buckets: u32,
    first: u32,
    bloom_words: u32,
    bloom_shift: u32,
    symbols: u64,
}

impl<'a> GnuHash<'a> {
    fn read(format: Format, rest: &'a [u8]) -> Option<Self> {
        let number = |index: usize| format.u32(rest, 4 * index);
        let mut hash = Self {
            format,
            table: rest,
            buckets: number(0)?,
            first: number(1)?,
            bloom_words: number(2)?,
            bloom_shift: number(3)?,
            symbols: 0,
        };
        let buckets = rest.get(hash.bucket(0)..hash.bucket(hash.buckets))?;
        let highest = buckets.chunks_exact(4).filter_map(|raw| format.u32(raw, 0)).max().unwrap_or(0);
        let mut end = hash.bucket(hash.buckets);
        hash.symbols = hash.first.into();
        if highest >= hash.first && highest > 0 {
            // The chain of the highest bucket is the last one, and ends with an odd hash.
            let mut index = highest;
            while format.u32(rest, hash.chain(index)?)? & 1 == 0 {
                index = index.checked_add(1)?;
            }
            end = hash.chain(index)? + 4;
            hash.symbols = u64::from(index) + 1;
        }
        hash.table = rest.get(..end)?;
        Some(hash)
    }

    fn bucket(&self, index: u32) -> usize {
        16 + self.bloom_words as usize * self.format.word_len() as usize + 4 * index as usize
    }

    fn chain(&self, symbol: u32) -> Option<usize> {
        Some(self.bucket(self.buckets) + 4 * symbol.checked_sub(self.first)? as usize)
    }

    fn symbols(&self) -> u64 {
        self.symbols
    }

    /// Whether the filter lets a hash pass, as the loader asks it.
    fn passes(&self, hash: u32) -> bool {
        let bits = 8 * self.format.word_len() as u32;
        if !self.bloom_words.is_power_of_two() {
            return false;
        }
        let at = 16 + ((hash / bits) & (self.bloom_words - 1)) as usize * self.format.word_len() as usize;
        let Some(word) = self.format.word(self.table, at) else { return false };
        let second = hash.checked_shr(self.bloom_shift).unwrap_or(0);
        word >> (hash % bits) & word >> (second % bits) & 1 == 1
    }

    /// Symbols that a look-up of a name passes with an equal hash, until `steps` is used up.
    pub(crate) fn candidates<'b>(
        &'b self,
        name: &[u8],
        steps: &'b mut u64,
    ) -> impl Iterator<Item = usize> + use<'a, 'b> {
        let hash = gnu_hash(name);
        let start = (self.buckets > 0 && self.passes(hash))
            .then(|| self.format.u32(self.table, self.bucket(hash % self.buckets.max(1))))
            .flatten();
        let mut next = start.filter(|index| *index != 0);
        std::iter::from_fn(move || {
            loop {
                let index = next?;
                let entry = self.format.u32(self.table, self.chain(index)?)?;
                *steps = steps.checked_sub(1)?;
                next = if entry & 1 == 1 { None } else { index.checked_add(1) };
                if (entry ^ hash) >> 1 == 0 {
                    return Some(index as usize);
                }
            }
        })
    }
}

/// The hash of the System V ABI, also used for versions.
pub(crate) fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// The hash of DT_GNU_HASH.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::{gnu_hash, sysv_hash};

    #[test]
    fn hashes_of_the_standards() {
        // The values that readelf and the GNU ABI's text give.
        assert_eq!(sysv_hash(b"GLIBC_2.2.5"), 0x0969_1a75);
        assert_eq!(sysv_hash(b"GLIBC_ABI_DT_RELR"), 0x00fd_0e42);
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        assert_eq!(gnu_hash(b""), 5381);
    }
}

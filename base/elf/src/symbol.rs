//! Symbol tables: the one that the loader searches, and the full one of files that are not stripped.

use crate::{Class, Image, Order, text_at};
use object::ReadRef;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_SYMTAB, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK,
    STV_DEFAULT, SymbolBind, SymbolInfo, SymbolOther, SymbolType, SymbolVisibility,
};

/// Longest name that is read; C++ makes names of some kilobytes.
const NAME_LIMIT: usize = 1 << 16;

/// Longest chain of a hash table that is believed; real ones have a few links.
const CHAIN_LIMIT: u64 = 1 << 16;

/// A table of symbols and their names.
#[derive(Clone, Copy, Debug)]
pub struct SymbolTable<'data> {
    bytes: &'data [u8],
    names: &'data [u8],
    class: Class,
    order: Order,
}

/// One symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'data> {
    /// Its name, without a version.
    pub name: &'data [u8],
    /// Where it is; for a thread-local symbol, in its block.
    pub address: u64,
    /// Its bytes; 0 where nobody said.
    pub len: u64,
    /// STT_FUNC, STT_OBJECT, ...
    pub kind: SymbolType,
    /// STB_GLOBAL, STB_WEAK, ...
    pub bind: SymbolBind,
    /// STV_DEFAULT, STV_PROTECTED, ...
    pub visibility: SymbolVisibility,
    /// Number of its section; SHN_UNDEF: another file defines it.
    pub section: u16,
}

impl Symbol<'_> {
    /// This file has it.
    pub fn is_defined(&self) -> bool {
        self.section != SHN_UNDEF.0
    }

    /// Another file may define it too, and win.
    pub fn is_preemptible(&self) -> bool {
        self.visibility == STV_DEFAULT && matches!(self.bind, STB_GLOBAL | STB_WEAK | STB_GNU_UNIQUE)
    }
}

impl<'data> SymbolTable<'data> {
    const fn entry_len(&self) -> usize {
        match self.class {
            Class::Elf32 => 16,
            Class::Elf64 => 24,
        }
    }

    /// How many there are; the first one, which is always empty, included.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.entry_len()
    }

    /// The symbol of this number.
    pub fn get(&self, index: usize) -> Option<Symbol<'data>> {
        let from = index.checked_mul(self.entry_len())?;
        self.read(self.bytes.get(from..from.checked_add(self.entry_len())?)?)
    }

    /// All of them, in their order; the first one, which is always empty, left out.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'data>> + use<'data> {
        let table = *self;
        self.bytes.chunks_exact(self.entry_len()).skip(1).filter_map(move |entry| table.read(entry))
    }

    fn read(&self, entry: &'data [u8]) -> Option<Symbol<'data>> {
        let order = self.order;
        let name = text_at(self.names, order.word(*entry.first_chunk()?).into(), NAME_LIMIT).unwrap_or_default();
        let (address, len, rest) = match self.class {
            Class::Elf32 => (order.address(&entry[4..8])?, order.address(&entry[8..12])?, &entry[12..16]),
            Class::Elf64 => (order.address(&entry[8..16])?, order.address(&entry[16..24])?, &entry[4..8]),
        };
        let info = SymbolInfo(rest[0]);
        Some(Symbol {
            name,
            address,
            len,
            kind: info.st_type(),
            bind: info.st_bind(),
            visibility: SymbolOther(rest[1]).visibility(),
            section: order.half([rest[2], rest[3]]),
        })
    }
}

impl<'data, R: ReadRef<'data>> Image<R> {
    /// The symbols that the loader searches (DT_SYMTAB). `None` where there are none, or they cannot be read.
    pub fn dynamic_symbols(&self) -> Option<SymbolTable<'data>> {
        let address = self.dynamic.as_ref()?.value(DT_SYMTAB)?;
        let table = SymbolTable { bytes: &[], names: self.strings()?, class: self.class, order: self.order };
        let entry_len = table.entry_len() as u64;
        let listed = self.sections.iter().find(|section| section.kind == SHT_DYNSYM && section.address == address);
        let len = match listed {
            Some(section) => section.len,
            None => self.hashed_symbols()?.checked_mul(entry_len)?,
        };
        Some(SymbolTable { bytes: self.at(address, len)?, ..table })
    }

    /// All symbols (`.symtab`). `None` for stripped files.
    pub fn all_symbols(&self) -> Option<SymbolTable<'data>> {
        let table = self.sections.iter().find(|section| section.kind == SHT_SYMTAB)?;
        let names = self.sections.get(usize::try_from(table.link).ok()?)?;
        Some(SymbolTable {
            bytes: self.bytes_of(table)?,
            names: self.bytes_of(names)?,
            class: self.class,
            order: self.order,
        })
    }

    /// How many symbols the hash tables know: no tag says how long the symbol table is.
    fn hashed_symbols(&self) -> Option<u64> {
        let dynamic = self.dynamic.as_ref()?;
        let word = |address: u64| self.order.address(self.at(address, 4)?);
        if let Some(table) = dynamic.value(DT_HASH) {
            // nbucket, nchain: one chain per symbol.
            return word(table.checked_add(4)?);
        }
        // nbuckets, symoffset, bloom_size, bloom_shift; the filter; the buckets; the chains.
        let table = dynamic.value(DT_GNU_HASH)?;
        let (buckets, first, filter) = (word(table)?, word(table.checked_add(4)?)?, word(table.checked_add(8)?)?);
        let buckets_at = table.checked_add(16)?.checked_add(filter.checked_mul(self.class.word().bytes())?)?;
        let heads = self.at(buckets_at, buckets.checked_mul(4)?)?;
        let highest = heads.chunks_exact(4).filter_map(|head| self.order.address(head)).max()?;
        if highest < first {
            return Some(first);
        }
        let chains = buckets_at.checked_add(buckets * 4)?;
        let mut last = highest;
        // The last entry of a chain is odd.
        while last - highest < CHAIN_LIMIT && word(chains.checked_add((last - first).checked_mul(4)?)?)? & 1 == 0 {
            last += 1;
        }
        Some(last + 1)
    }
}

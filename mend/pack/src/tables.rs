//! The loader's tables: where each one is and how long, and the run of neighbours around the relocation table that can
//! be laid out anew, because nothing reaches them but through the dynamic section.

use crate::canvas::Fill;
use crate::dynamic::Dynamic;
use crate::image::{Image, Section, symbol_len, u32_at};
use crate::relocations::Places;
use crate::report::Reason;
use crate::stop::{Stop, refuse};
use crate::versions::{self, Kind as Version};
use elf::relr::Word;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_JMPREL, DT_REL, DT_RELA, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERNEED, DT_VERSYM,
    DynamicTag, SHT_DYNSYM,
};
use std::ops::Range;

/// Which of the tables that the loader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Symbols,
    Strings,
    Hash,
    GnuHash,
    SymbolVersions,
    Definitions,
    Needs,
    Relocations,
    PltRelocations,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Symbols,
        Self::Strings,
        Self::Hash,
        Self::GnuHash,
        Self::SymbolVersions,
        Self::Definitions,
        Self::Needs,
        Self::Relocations,
        Self::PltRelocations,
    ];

    /// The usual name of its section.
    pub fn name(self, places: &Places) -> &'static str {
        let form = |rel, rela| if places.main.form == crate::relocations::Form::Rel { rel } else { rela };
        match self {
            Self::Symbols => ".dynsym",
            Self::Strings => ".dynstr",
            Self::Hash => ".hash",
            Self::GnuHash => ".gnu.hash",
            Self::SymbolVersions => ".gnu.version",
            Self::Definitions => ".gnu.version_d",
            Self::Needs => ".gnu.version_r",
            Self::Relocations => form(".rel.dyn", ".rela.dyn"),
            Self::PltRelocations => form(".rel.plt", ".rela.plt"),
        }
    }

    /// The tag that points to it.
    pub fn tag(self, places: &Places) -> DynamicTag {
        match self {
            Self::Symbols => DT_SYMTAB,
            Self::Strings => DT_STRTAB,
            Self::Hash => DT_HASH,
            Self::GnuHash => DT_GNU_HASH,
            Self::SymbolVersions => DT_VERSYM,
            Self::Definitions => DT_VERDEF,
            Self::Needs => DT_VERNEED,
            Self::Relocations => places.main.form.tags()[0],
            Self::PltRelocations => DT_JMPREL,
        }
    }

    /// The alignment that its readers expect.
    pub fn align(self, word: Word) -> u64 {
        match self {
            Self::Strings => 1,
            Self::SymbolVersions => 2,
            Self::Definitions | Self::Needs => 4,
            _ => word.bytes(),
        }
    }
}

/// A table in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub kind: Kind,
    pub vaddr: u64,
    /// Its bytes and the gap behind it.
    pub len: u64,
}

impl Table {
    pub fn range(&self) -> Range<u64> {
        self.vaddr..self.vaddr + self.len
    }

    /// What is left of it when it has moved.
    pub fn zero(&self) -> (u64, Fill) {
        (self.vaddr, Fill::Zero(self.len))
    }
}

/// More room than this between two tables is not alignment.
const MAX_GAP: u64 = 64;

/// All tables whose place and length is known, by address.
///
/// # Errors
/// They overlap.
pub fn all(image: &Image<'_>, dynamic: &Dynamic, places: &Places) -> Result<Vec<Table>, Stop> {
    let mut tables: Vec<Table> = Kind::ALL
        .into_iter()
        .filter_map(|kind| {
            let vaddr = match kind {
                Kind::Relocations => Some(places.main.vaddr),
                Kind::PltRelocations => places.plt.map(|plt| plt.vaddr),
                kind => dynamic.get(kind.tag(places)),
            }?;
            let len = len_of(image, dynamic, places, kind).filter(|len| *len != 0)?;
            // The section may know of a few bytes more, of alignment.
            let section = section_at(image, vaddr).map_or(0, |section| section.size);
            let len = match kind {
                Kind::Relocations | Kind::PltRelocations | Kind::Strings => len,
                _ => len.max(section.min(len + MAX_GAP)),
            };
            image.at(vaddr, len).map(|_| Table { kind, vaddr, len })
        })
        .collect();
    tables.sort_by_key(|table| table.vaddr);
    for pair in tables.windows(2) {
        if pair[0].range().end > pair[1].vaddr {
            return Err(refuse(Reason::RelocationLayout, "the loader's tables overlap in it"));
        }
    }
    Ok(tables)
}

/// The loaded section that begins at an address.
pub fn section_at<'s>(image: &'s Image<'_>, vaddr: u64) -> Option<&'s Section> {
    image.sections.iter().find(|section| section.is_loaded() && section.addr == vaddr && section.size != 0)
}

fn len_of(image: &Image<'_>, dynamic: &Dynamic, places: &Places, kind: Kind) -> Option<u64> {
    match kind {
        Kind::Relocations => Some(places.main.len),
        Kind::PltRelocations => places.plt.map(|plt| plt.len),
        Kind::Strings => dynamic.get(DT_STRSZ),
        Kind::Needs => versions::table_len(image, dynamic, Version::Need),
        Kind::Definitions => versions::table_len(image, dynamic, Version::Definition),
        Kind::Hash => hash_counts(image, dynamic).map(|(buckets, chains)| (2 + buckets + chains) * 4),
        Kind::GnuHash => gnu_hash(image, dynamic, symbol_count(image, dynamic)).map(|hash| hash.len),
        Kind::Symbols => symbol_count(image, dynamic)?.checked_mul(symbol_len(image.word)),
        Kind::SymbolVersions => symbol_count(image, dynamic)?.checked_mul(2),
    }
}

/// How many symbols the table holds, or a few more: what it must be at most where nothing says.
fn symbol_count(image: &Image<'_>, dynamic: &Dynamic) -> Option<u64> {
    let table = dynamic.get(DT_SYMTAB)?;
    let len = symbol_len(image.word);
    if let Some(section) = section_at(image, table).filter(|section| section.kind == SHT_DYNSYM.0) {
        return Some(section.size / len);
    }
    if let Some((_, chains)) = hash_counts(image, dynamic) {
        return Some(chains);
    }
    // Symbols that others look up come last, so that the last of them is the last of all.
    if let Some(count) = gnu_hash(image, dynamic, None).and_then(|hash| hash.symbols) {
        return Some(count);
    }
    // It ends before the next table, whichever that is.
    let others = [DT_STRTAB, DT_HASH, DT_GNU_HASH, DT_VERSYM, DT_VERDEF, DT_VERNEED, DT_RELA, DT_REL, DT_JMPREL];
    let next = others.into_iter().filter_map(|tag| dynamic.get(tag)).filter(|at| *at > table).min()?;
    Some((next - table) / len)
}

/// Buckets and chains of DT_HASH; there is a chain for each symbol.
fn hash_counts(image: &Image<'_>, dynamic: &Dynamic) -> Option<(u64, u64)> {
    let raw = image.from(dynamic.get(DT_HASH)?)?;
    let (buckets, chains) = (u64::from(u32_at(raw, 0)?), u64::from(u32_at(raw, 4)?));
    ((2 + buckets + chains) * 4 <= raw.len() as u64).then_some((buckets, chains))
}

struct GnuHash {
    len: u64,
    /// How many symbols there are; `None` where none is hashed.
    symbols: Option<u64>,
}

/// Walks DT_GNU_HASH. Chains end with the last hashed symbol, or at `symbols` if that is known.
fn gnu_hash(image: &Image<'_>, dynamic: &Dynamic, symbols: Option<u64>) -> Option<GnuHash> {
    let raw = image.from(dynamic.get(DT_GNU_HASH)?)?;
    let number = |index: u64| u32_at(raw, index * 4).map(u64::from);
    let (buckets, first, bloom) = (number(0)?, number(1)?, number(2)?);
    let heads = 4 + bloom.checked_mul(image.word.bytes() / 4)?;
    let chains = heads.checked_add(buckets)?;
    if chains.checked_mul(4)? > raw.len() as u64 {
        return None;
    }
    let last = (heads..chains).filter_map(number).max().filter(|last| *last >= first);
    let symbols_hashed = last.and_then(|last| {
        // The chain of the last bucket ends at the last symbol.
        let mut symbol = last;
        while number(chains + (symbol - first))? & 1 == 0 {
            symbol += 1;
        }
        Some(symbol + 1)
    });
    let end = match (symbols_hashed, symbols) {
        (Some(count), Some(known)) => count.max(known),
        (Some(count), None) => count,
        (None, _) if last.is_some() => return None,
        (None, _) => first,
    };
    let len = (chains + end.saturating_sub(first)).checked_mul(4)?;
    (len <= raw.len() as u64).then_some(GnuHash { len, symbols: symbols_hashed })
}

/// Neighbours that can be laid out anew.
#[derive(Clone, Debug)]
pub struct Run {
    /// By address; gaps of alignment belong to the table before.
    pub tables: Vec<Table>,
}

impl Run {
    pub fn range(&self) -> Range<u64> {
        let start = self.tables.first().map_or(0, |table| table.vaddr);
        start..self.tables.last().map_or(start, |table| table.range().end)
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.tables.iter().any(|table| table.kind == kind)
    }

    /// The longest run around a table.
    ///
    /// # Errors
    /// Sections do not agree with it.
    pub fn around(image: &Image<'_>, tables: &[Table], center: Kind) -> Result<Self, Stop> {
        let odd = |why: &str| refuse(Reason::RelocationLayout, why);
        let center = tables.iter().position(|table| table.kind == center);
        let center = center.ok_or_else(|| odd("a table of the loader's is not loaded in it"))?;
        let load = image.loads().find(|load| load.in_file().contains(&tables[center].vaddr));
        let load = load.ok_or_else(|| odd("a table of the loader's is not loaded in it"))?.in_file();
        // A table of unknown length, or something else, may begin between two tables.
        let joined = |left: &Table, right: &Table| {
            let gap = left.range().end..right.vaddr;
            let zero = image.at(gap.start, gap.end - gap.start).is_some_and(|gap| gap.iter().all(|byte| *byte == 0));
            let begins = |address: u64| (gap.start..gap.end).contains(&address);
            load.contains(&left.vaddr)
                && right.range().end <= load.end
                && gap.end - gap.start <= MAX_GAP
                && zero
                && !image
                    .sections
                    .iter()
                    .any(|section| section.is_loaded() && section.size != 0 && begins(section.addr))
                && !image.segments.iter().any(|segment| segment.filesz != 0 && begins(segment.vaddr))
        };
        let (mut first, mut last) = (center, center);
        while first > 0 && joined(&tables[first - 1], &tables[first]) {
            first -= 1;
        }
        while last + 1 < tables.len() && joined(&tables[last], &tables[last + 1]) {
            last += 1;
        }
        let mut run = Self { tables: tables[first..=last].to_vec() };
        for index in 1..run.tables.len() {
            run.tables[index - 1].len = run.tables[index].vaddr - run.tables[index - 1].vaddr;
        }
        let range = run.range();
        for section in image.sections.iter().filter(|section| section.is_loaded() && section.size != 0) {
            let memory = section.in_memory();
            let meets = memory.start < range.end && range.start < memory.end;
            let table = run.tables.iter().find(|table| table.vaddr == section.addr);
            if meets && table.is_none_or(|table| memory.end > table.range().end) {
                return Err(odd(
                    "the loader's tables in it are split over sections in a way that thaw does not rewrite",
                ));
            }
        }
        Ok(run)
    }
}

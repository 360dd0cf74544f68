//! How the loader is made to call the code: whether the object may wait for its initialiser, and which words may not.
//! The reasons are in the head of [`init`](crate::init).

use super::Machine;
use crate::dynamic::{Dynamic, Entries};
use crate::image::{self, Image, symbol_len, text_at, u16_at, u32_at, word_at};
use crate::options::Copies;
use crate::passes::is_allocator;
use crate::relocations::{Partition, Places, has_indirect};
use crate::report::{Loader, Reason, Why};
use crate::stop::{Stop, refuse};
use crate::tables::{Kind, Table};
use elf::relr::Word;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, DT_INIT, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, DynamicTag, PT_INTERP, PT_TLS, SHN_UNDEF,
    STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_TLS,
};
use std::ops::Range;

impl From<image::Machine> for Machine {
    fn from(machine: image::Machine) -> Self {
        match machine {
            image::Machine::X86_64 => Self::X86_64,
            image::Machine::I386 => Self::I386,
            image::Machine::Aarch64 => Self::Aarch64,
            image::Machine::Arm => Self::Arm,
        }
    }
}

/// Enough for the instructions of every machine; more would waste room behind code, which is scarce.
pub const CODE_ALIGN: u64 = 4;

/// How the loader is made to call the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// By DT_INIT, which led to another initialiser before, or to none.
    Library { original: Option<u64> },
    /// By DT_PREINIT_ARRAY, which has one entry, behind the end of the dynamic table.
    Program,
}

/// Where the code goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// Among the loader's tables: they lie in an executable segment.
    Tables,
    /// At this address.
    At(u64),
}

/// The code that applies the table, in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialiser {
    pub code: Range<u64>,
    /// The entry of DT_PREINIT_ARRAY.
    pub slot: Option<Range<u64>>,
    /// What the dynamic table says about it.
    pub tags: Vec<(DynamicTag, u64)>,
}

/// A dynamic symbol, as far as it matters here.
struct Symbol<'a> {
    name: &'a [u8],
    kind: u8,
    range: Range<u64>,
}

/// Symbols that other files can bind to.
fn exported<'a>(image: &Image<'a>, tables: &[Table]) -> impl Iterator<Item = Symbol<'a>> {
    let bytes = |kind| {
        tables.iter().find(|table: &&Table| table.kind == kind).and_then(|table| image.at(table.vaddr, table.len))
    };
    let (symbols, strings) = (bytes(Kind::Symbols).unwrap_or_default(), bytes(Kind::Strings).unwrap_or_default());
    let word = image.word;
    symbols.chunks_exact(symbol_len(word) as usize).filter_map(move |raw| {
        let name = text_at(strings, u32_at(raw, 0)?.into())?;
        let (info, section, at, len) = match word {
            Word::Four => (raw.get(12)?, u16_at(raw, 14)?, word_at(raw, 4, word)?, word_at(raw, 8, word)?),
            Word::Eight => (raw.get(4)?, u16_at(raw, 6)?, word_at(raw, 8, word)?, word_at(raw, 16, word)?),
        };
        let visible = section != SHN_UNDEF.0 && info >> 4 != STB_LOCAL.0;
        visible.then(|| Symbol { name, kind: info & 15, range: at..at.saturating_add(len) })
    })
}

impl Call {
    /// How the code of this object is to be called.
    ///
    /// # Errors
    /// A refusal: its words may be needed before any initialiser runs, or no initialiser runs for sure.
    pub fn of(
        image: &Image<'_>,
        dynamic: &Dynamic,
        loader: Loader,
        places: &Places,
        tables: &[Table],
    ) -> Result<Self, Stop> {
        let chooses = exported(image, tables).any(|symbol| symbol.kind == STT_GNU_IFUNC.0);
        if chooses || has_indirect(image, places)? {
            let sentence = "it chooses functions while it is relocated (IFUNC), when the table is not applied yet";
            return Err(refuse(Reason::Indirect, sentence));
        }
        let is_started = image.segment(PT_INTERP).is_some();
        // A program's operators are called by initialisers at the earliest; the loader itself calls malloc before any.
        let early = |name: &[u8]| is_allocator(name) && !(is_started && name.starts_with(b"_Z"));
        if let Some(symbol) = exported(image, tables).find(|symbol| early(symbol.name)) {
            let name = String::from_utf8_lossy(symbol.name);
            let sentence = format!("it is an allocator ('{name}'), which others call before its initialiser runs");
            return Err(refuse(Reason::Allocator, sentence));
        }
        let is_pie = dynamic.get(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE.0 != 0);
        match (is_started, is_pie) {
            (false, _) => Ok(Self::Library { original: dynamic.get(DT_INIT).filter(|original| *original != 0) }),
            (true, false) => {
                let sentence = "it can be both started and loaded as a library: no initialiser is called both ways";
                Err(refuse(Reason::ProgramAndLibrary, sentence))
            }
            // musl calls the program's DT_INIT itself, after those of its libraries; it has no DT_PREINIT_ARRAY.
            (true, true) if loader == Loader::Musl => {
                let libc = |name: &[u8]| name == b"libc.so" || name.starts_with(b"libc.musl-");
                let alone = dynamic.needed.iter().all(|(name, _)| libc(name));
                let own = |symbol: &Symbol<'_>| ![&b"_init"[..], b"_fini"].contains(&symbol.name);
                match exported(image, tables).find(own) {
                    Some(symbol) if !alone => {
                        let name = String::from_utf8_lossy(symbol.name);
                        let sentence = format!(
                            "its libraries, which musl initialises before it, may use what it exports ('{name}')"
                        );
                        Err(refuse(Reason::UnknownLoader, sentence))
                    }
                    _ => Ok(Self::Library { original: dynamic.get(DT_INIT).filter(|original| *original != 0) }),
                }
            }
            (true, true) if loader != Loader::Glibc => {
                Err(refuse(Reason::UnknownLoader, "its loader does not call DT_PREINIT_ARRAY, as glibc's does"))
            }
            (true, true) if dynamic.get(DT_PREINIT_ARRAYSZ).is_some_and(|len| len != 0) => {
                let sentence = "it has functions that run before all initialisers (DT_PREINIT_ARRAY)";
                Err(refuse(Reason::PreinitArray, sentence))
            }
            (true, true) => Ok(Self::Program),
        }
    }

    /// Words that are needed before the code runs, rising and apart.
    pub fn early(&self, image: &Image<'_>, copies: Copies, tables: &[Table]) -> Vec<(Range<u64>, Why)> {
        let template = image.segments.iter().filter(|segment| segment.kind == PT_TLS.0);
        let mut early: Vec<_> = template.map(|segment| (segment.in_file(), Why::ThreadLocal)).collect();
        if matches!(self, Self::Library { .. }) && copies == Copies::MayHappen {
            let data =
                |symbol: &Symbol<'_>| ![STT_FUNC.0, STT_TLS.0].contains(&symbol.kind) && !symbol.range.is_empty();
            early.extend(exported(image, tables).filter(data).map(|symbol| (symbol.range, Why::MayBeCopied)));
        }
        early.sort_by_key(|(range, _)| (range.start, range.end));
        let mut apart: Vec<(Range<u64>, Why)> = Vec::new();
        for (mut range, why) in early {
            range.start = range.start.max(apart.last().map_or(0, |(last, _)| last.end));
            if !range.is_empty() {
                apart.push((range, why));
            }
        }
        apart
    }

    /// Makes room in the relocation table for the one relocation that the code itself needs.
    pub fn make_room(&self, partition: &mut Partition, places: &Places, word: Word) {
        if *self == Self::Program {
            // R_*_NONE, until its place is known; it counts as a relative one, as it will be.
            partition.rest.splice(0..0, std::iter::repeat_n(0, places.main.form.entry_len(word) as usize));
            partition.rest_leading += u64::from(partition.rest_leading != 0);
        }
    }

    /// Gives the entries of the dynamic section their place; their values come last.
    pub fn enter(&self, entries: &mut Entries, word: Word) {
        match self {
            Self::Library { .. } => entries.set(DT_INIT, 0),
            Self::Program => {
                entries.set(DT_PREINIT_ARRAY, 0);
                entries.set(DT_PREINIT_ARRAYSZ, word.bytes());
            }
        }
    }

    /// Entries of the dynamic section that are taken behind its last DT_NULL.
    pub fn entries_behind(&self) -> usize {
        usize::from(*self == Self::Program)
    }
}

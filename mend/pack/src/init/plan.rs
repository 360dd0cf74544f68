//! Decides for [`Backend::Init`](crate::Backend::Init): whether the object may wait for its initialiser, which words may
//! not, how the code is called, where it goes. The layout itself is `crate::plan`'s. The reasons are in the head of
//! [`init`](crate::init).

use super::{Layout, Machine, assemble, may_be_read_only};
use crate::dynamic::{Dynamic, Entries, entry_len};
use crate::image::{Image, push_word, symbol_len, u16_at, u32_at, word_at};
use crate::layout::Load;
use crate::options::Copies;
use crate::passes::is_allocator;
use crate::plan::{Draft, Facts, Fill, Moves, Room, add_segment, granule, is_free};
use crate::refuse::{Stop, refuse};
use crate::relocations::{Form, Partition, Places};
use crate::report::{Loader, Reason, Why};
use crate::tables::{Kind, Table};
use crate::verify::Allowed;
use elf::relr::Word;
use model::Error;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, DT_INIT, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, DynamicTag, PF_R, PF_X, PT_INTERP, PT_TLS,
    SHN_UNDEF, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_TLS,
};
use std::ops::Range;

impl From<crate::image::Machine> for Machine {
    fn from(machine: crate::image::Machine) -> Self {
        match machine {
            crate::image::Machine::X86_64 => Self::X86_64,
            crate::image::Machine::I386 => Self::I386,
            crate::image::Machine::Aarch64 => Self::Aarch64,
            crate::image::Machine::Arm => Self::Arm,
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
    slot: Option<Range<u64>>,
    /// What the dynamic table says about it.
    tags: Vec<(DynamicTag, u64)>,
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
        let name = crate::image::text_at(strings, u32_at(raw, 0)?.into())?;
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
        if chooses || crate::relocations::has_indirect(image, places)? {
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

    /// What the code is made of: only the addresses are open, which its length does not depend on.
    fn layout(&self, facts: &Facts<'_, '_>, relro: Option<&Range<u64>>) -> Layout {
        let word = facts.image.word.bytes();
        let packed = &facts.partition.packed;
        let protects = |relro: &&Range<u64>| {
            let range = may_be_read_only(facts.image.machine.into(), relro);
            let first = packed.partition_point(|at| at.saturating_add(word) <= range.start);
            packed.get(first).is_some_and(|at| *at < range.end)
        };
        let original = match self {
            Self::Library { original } => *original,
            Self::Program => None,
        };
        Layout { code: 0, table: 0..word, relro: relro.filter(protects).cloned(), original }
    }

    /// Bytes of the code, where the loader protects `relro`.
    pub fn code_len(&self, facts: &Facts<'_, '_>, relro: Option<&Range<u64>>) -> Result<u64, Stop> {
        Ok(assemble(facts.image.machine.into(), &self.layout(facts, relro))?.len() as u64)
    }

    /// Finds room for the code; may let a segment grow, or add one.
    pub fn find_room(&self, facts: &Facts<'_, '_>, moves: Moves, room: &mut Room) -> Result<Spot, Stop> {
        let image = facts.image;
        let len = self.code_len(facts, room.relro.as_ref())?;
        let run = facts.run.range();
        let is_code = |load: &Load| load.head.flags & PF_X.0 != 0 && !load.head.is_writable();
        if room.loads.iter().any(|load| is_code(load) && load.head.in_file().contains(&run.start)) {
            return Ok(Spot::Tables);
        }
        for index in 0..room.loads.len() {
            let next = room.loads.get(index + 1).map(|next| next.head.vaddr);
            let load = &mut room.loads[index];
            let file_end = load.head.in_file().end;
            let at = crate::image::up(file_end, CODE_ALIGN);
            let limit = next.map_or(u64::MAX, |next| crate::image::down(next, granule(image, &load.head)));
            let fits = load.head.memsz == load.head.filesz && at.checked_add(len).is_some_and(|end| end <= limit);
            if is_code(load) && fits && is_free(image, moves, file_end, at + len) {
                load.head.filesz = at + len - load.head.vaddr;
                load.head.memsz = load.head.filesz;
                return Ok(Spot::At(at));
            }
        }
        let none = |_| refuse(Reason::NoCodeRoom, "there is no room for the code that applies the table");
        add_segment(facts, moves, room, len, PF_R.0 | PF_X.0).map(Spot::At).map_err(none)
    }

    /// Writes the code and everything that leads to it. Edits are to be painted in their order, the dynamic section before.
    pub fn write(
        &self,
        facts: &Facts<'_, '_>,
        at: u64,
        table: Range<u64>,
        relro: Option<&Range<u64>>,
        dynamic_at: u64,
        entries: &mut Entries,
    ) -> Result<(Initialiser, Vec<(u64, Fill)>), Stop> {
        let (image, word) = (facts.image, facts.image.word);
        let layout = Layout { code: at, table, ..self.layout(facts, relro) };
        let code = assemble(image.machine.into(), &layout)?;
        let range = at..at + code.len() as u64;
        let mut edits = vec![(at, Fill::Bytes(code))];
        let mut initialiser = Initialiser { code: range, slot: None, tags: Vec::new() };
        match self {
            Self::Library { .. } => initialiser.tags.push((DT_INIT, at)),
            Self::Program => {
                let slot = dynamic_at + entries.len() as u64 * entry_len(word);
                let main = entries.list.iter().find(|entry| entry.0 == facts.places.main.form.tags()[0]);
                let main = main.ok_or_else(|| Error::bug("the relocation of the initialiser has no table"))?.1;
                let mut relocation = Vec::new();
                push_word(&mut relocation, slot, word);
                push_word(&mut relocation, image.machine.relative().into(), word);
                if facts.places.main.form == Form::Rela {
                    push_word(&mut relocation, at, word);
                }
                let mut target = Vec::new();
                push_word(&mut target, at, word);
                edits.extend([(main, Fill::Bytes(relocation)), (slot, Fill::Bytes(target))]);
                initialiser.slot = Some(slot..slot + word.bytes());
                initialiser.tags.extend([(DT_PREINIT_ARRAY, slot), (DT_PREINIT_ARRAYSZ, word.bytes())]);
            }
        }
        initialiser.tags.iter().for_each(|(tag, value)| entries.set(*tag, *value));
        Ok((initialiser, edits))
    }
}

/// What the oracle may find different.
pub fn expected(draft: &Draft) -> Vec<Allowed> {
    let Some(initialiser) = &draft.initialiser else { return Vec::new() };
    let new = |range: &Range<u64>| Allowed::New { at: range.start, len: range.end - range.start };
    let mut allowed = vec![new(&initialiser.code)];
    allowed.push(Allowed::Initialiser { table: draft.relr.start, len: draft.relr.end - draft.relr.start });
    allowed.extend(initialiser.slot.iter().map(new));
    let tag = |(tag, value): &(DynamicTag, u64)| Allowed::Dynamic { tag: tag.0 as u64, value: Some(*value) };
    allowed.extend(initialiser.tags.iter().map(tag));
    allowed
}

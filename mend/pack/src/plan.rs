//! Decides, and changes nothing: what of the relocation table can go, where the loader's tables, the dynamic section and
//! the program headers find their room, and which segment is split or cut. The world is one argument: the file.

use crate::dynamic::{self, Dynamic, Entries};
use crate::headers;
use crate::image::{Image, Section, Segment, down, push_word, up};
use crate::init::plan::{CODE_ALIGN, Call, Initialiser, Spot};
use crate::layout::{self, Load};
use crate::options::{Backend, Options};
use crate::refuse::{self, Stop, refuse};
use crate::relocations::{Partition, Places, partition};
use crate::report::{DynamicPlace, HeaderSlot, Loader, Reason, Refusal, VersionNeed};
use crate::slots::{self, Neighbour};
use crate::tables::{self, Kind, Run, Table};
use crate::versions::{self, Needs};
use object::elf::{
    DT_RELAENT, DT_RELENT, DT_RELR, DT_RELRENT, DT_RELRSZ, DT_STRSZ, DT_VERNEEDNUM, PF_R, PF_W, PT_GNU_RELRO,
    PT_INTERP, PT_LOAD,
};
use std::ops::Range;

/// All that is known about a file before anything is decided.
pub struct Facts<'i, 'a> {
    pub image: &'i Image<'a>,
    pub dynamic: Dynamic,
    pub places: Places,
    pub loader: Loader,
    pub partition: Partition,
    /// The packed table.
    pub relr: Vec<u8>,
    pub needs: Needs,
    /// How the code that applies the table is called; none where the loader applies it.
    pub call: Option<Call>,
    pub tables: Vec<Table>,
    pub run: Run,
}

/// Whether what follows in the file may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// It moves up.
    Up,
    /// It stays where it is.
    Not,
}

/// Whether the dynamic section shall go to the front, read-only, although it need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// It shall, if there is room.
    Wanted,
    /// It stays writable.
    NotWanted,
}

/// New bytes at an address.
#[derive(Clone, Debug)]
pub enum Fill {
    Bytes(Vec<u8>),
    Zero(u64),
}

/// One of the loader's tables, or a neighbour of the program headers, at its new address.
#[derive(Clone, Debug)]
pub struct Moved {
    pub name: String,
    /// Where its section was; none for a new one.
    pub from: Option<u64>,
    pub to: u64,
    pub len_before: u64,
    pub len: u64,
}

/// What was decided; only offsets in the file are open.
pub struct Draft {
    pub loads: Vec<Load>,
    /// The new program headers; offsets are open.
    pub headers: Vec<Segment>,
    pub slots: Vec<HeaderSlot>,
    /// New bytes, in the order in which they are put down.
    pub edits: Vec<(u64, Fill)>,
    pub moved: Vec<Moved>,
    /// Where the packed table is.
    pub relr: Range<u64>,
    pub dynamic_place: DynamicPlace,
    /// The dynamic section.
    pub dynamic: Range<u64>,
    pub entries: Entries,
    /// Addresses that nothing uses any more.
    pub freed: Range<u64>,
    /// What the loader protects after relocation.
    pub relro: Option<Range<u64>>,
    /// The code that applies the table, where the loader does not.
    pub initialiser: Option<Initialiser>,
}

impl<'i, 'a> Facts<'i, 'a> {
    pub fn of(image: &'i Image<'a>, options: &Options) -> Result<Self, Stop> {
        let dynamic = refuse::judge(image)?;
        let loader = refuse::loader(image, &dynamic)?;
        let places = Places::of(&dynamic, image.word)?;
        let tables = tables::all(image, &dynamic, &places)?;
        let run = Run::around(image, &tables, Kind::Relocations)?;
        let call = match options.backend {
            Backend::Relr => None,
            Backend::Init => Some(Call::of(image, &dynamic, loader, &places, &tables)?),
        };
        let early = call.as_ref().map(|call| call.early(image, options.copies, &tables)).unwrap_or_default();
        let mut partition = partition(image, &dynamic, &places, &early)?;
        if partition.packed.is_empty() {
            let stop = refuse(Reason::NothingToPack, "it has no relative relocation that could be packed");
            return Err(crate::packing::without_copies(&partition, stop));
        }
        let mut relr = Vec::new();
        for entry in elf::relr::encode(&partition.packed, image.word) {
            push_word(&mut relr, entry, image.word);
        }
        let needs = match loader {
            _ if call.is_some() => Needs::NotAsked,
            Loader::Musl => Needs::NotAsked,
            Loader::Glibc | Loader::Either => versions::needs(image, &dynamic)?,
        };
        if let Some(call) = &call {
            call.make_room(&mut partition, &places, image.word);
        }
        let facts = Self { image, dynamic, places, loader, partition, relr, needs, call, tables, run };
        facts.nothing_else_reaches_the_tables()?;
        Ok(facts)
    }

    /// No relocation writes to what is laid out anew, and no pointer leads there.
    fn nothing_else_reaches_the_tables(&self) -> Result<(), Stop> {
        let run = self.run.range();
        let pointers = self.partition.addends.iter().chain(&self.partition.kept_targets);
        if let Some(pointer) = pointers.copied().find(|pointer| run.contains(pointer)) {
            let sentence = format!("a pointer in its data leads to {pointer:#x}, into the loader's tables");
            return Err(refuse(Reason::PointerIntoTables, sentence));
        }
        let table = self.dynamic.vaddr..self.dynamic.vaddr + self.dynamic_len();
        let meets =
            |range: &Range<u64>, start: u64, len: u64| start < range.end && start.saturating_add(len) > range.start;
        let touched = &self.partition.touched;
        if let Some((at, _)) = touched.iter().find(|(at, len)| meets(&run, *at, *len) || meets(&table, *at, *len)) {
            let sentence = format!("a relocation changes {at:#x}, in the loader's tables");
            return Err(refuse(Reason::RelocationLayout, sentence));
        }
        Ok(())
    }

    /// Bytes of the dynamic section.
    fn dynamic_len(&self) -> u64 {
        self.dynamic.capacity as u64 * dynamic::entry_len(self.image.word)
    }

    pub fn is_program(&self) -> bool {
        self.image.segment(PT_INTERP).is_some()
    }

    pub fn version_need(&self) -> VersionNeed {
        match &self.needs {
            Needs::Lacks(need) if need.new_record => VersionNeed::AddedRecord,
            Needs::Lacks(_) => VersionNeed::Added,
            Needs::Has | Needs::NotAsked => VersionNeed::NotNeeded,
        }
    }

    /// Entries of the dynamic section with the lengths of the tables of versions.
    pub fn version_entries(&self) -> Entries {
        let mut entries = Entries::of(&self.dynamic);
        if let Needs::Lacks(need) = &self.needs {
            entries.set(DT_VERNEEDNUM, need.records);
            let len = self.dynamic.get(DT_STRSZ).unwrap_or(0) + need.strings.len() as u64;
            entries.set(DT_STRSZ, len);
        }
        entries
    }

    /// The new entries of the dynamic section; addresses of tables that move are still the old ones.
    fn entries(&self) -> Entries {
        let mut entries = self.version_entries();
        let [table, size, count] = self.places.main.form.tags();
        if self.partition.rest.is_empty() {
            [table, size, count, DT_RELAENT, DT_RELENT].into_iter().for_each(|tag| entries.remove(tag));
        } else {
            entries.set(size, self.partition.rest.len() as u64);
            match self.partition.rest_leading {
                0 => entries.remove(count),
                leading => entries.set(count, leading),
            }
        }
        match &self.call {
            Some(call) => call.enter(&mut entries, self.image.word),
            None => {
                entries.set(DT_RELR, 0);
                entries.set(DT_RELRSZ, self.relr.len() as u64);
                entries.set(DT_RELRENT, self.image.word.bytes());
            }
        }
        entries
    }

    /// Entries of the dynamic section that there must be room for.
    fn dynamic_room(&self, entries: &Entries) -> usize {
        entries.len() + self.call.as_ref().map_or(0, Call::entries_behind)
    }

    /// Whether the bytes of a table change.
    fn changes(&self, kind: Kind) -> bool {
        let lacks = matches!(self.needs, Needs::Lacks(_));
        kind == Kind::Relocations || (lacks && matches!(kind, Kind::Needs | Kind::Strings))
    }

    /// The bytes of a table that changes.
    pub fn new_content(&self, kind: Kind) -> Option<Vec<u8>> {
        match (&self.needs, kind) {
            (_, Kind::Relocations) => Some(self.partition.rest.clone()),
            (Needs::Lacks(need), Kind::Needs) => Some(need.table.clone()),
            (Needs::Lacks(need), Kind::Strings) => {
                let table = self.tables.iter().find(|table| table.kind == kind)?;
                let old = self.image.at(table.vaddr, self.dynamic.get(DT_STRSZ)?)?;
                Some([old, &need.strings].concat())
            }
            _ => None,
        }
    }
}

/// The room to which a segment's pages reach: segments that share a page of this size cannot be apart in memory.
pub fn granule(image: &Image<'_>, segment: &Segment) -> u64 {
    match image.machine.has_fixed_pages() {
        true => model::PAGE,
        false => segment.align.max(model::PAGE),
    }
}

/// Alignment that a segment can do with. Old linkers align every segment to 2 MiB, which the processor does not ask for;
/// what was put at such an address on purpose stays.
fn relaxed_align(image: &Image<'_>, segment: &Segment) -> u64 {
    let modest = |section: &Section| !section.is_loaded() || section.align <= model::PAGE;
    let by_habit = segment.vaddr == 0 || !segment.vaddr.is_multiple_of(segment.align.max(1));
    let can = image.machine.has_fixed_pages() && !image.sections.is_empty() && image.sections.iter().all(modest);
    if can && by_habit { segment.align.min(model::PAGE) } else { segment.align }
}

/// Decides everything, with the first place for the dynamic section that works.
pub fn decide(facts: &Facts<'_, '_>, moves: Moves, front: Front) -> Result<Draft, Stop> {
    if front == Front::Wanted
        && let Ok(draft) = attempt(facts, moves, DynamicPlace::ReadOnly)
    {
        return Ok(draft);
    }
    let places: &[DynamicPlace] = if facts.dynamic_room(&facts.entries()) <= facts.dynamic.capacity {
        &[DynamicPlace::Stays]
    } else {
        // Read-only among the loader's tables, which some tools do not expect, it goes only where that is asked for.
        use DynamicPlace::{NewSegment, SegmentHead, SegmentTail};
        &[SegmentTail, SegmentHead, NewSegment]
    };
    let mut first = None;
    for place in places {
        match attempt(facts, moves, *place) {
            Ok(draft) => return Ok(draft),
            Err(Stop::Failed(error)) => return Err(Stop::Failed(error)),
            Err(stop) => {
                // That there is no room in one place is no reason while another may do.
                let is_about_room = matches!(&stop, Stop::Refused(refusal) if refusal.reason == Reason::NoDynamicSlot);
                if first.is_none() || !is_about_room {
                    first = Some(stop);
                }
            }
        }
    }
    Err(match first {
        Some(Stop::Refused(refusal)) if refusal.reason == Reason::NoDynamicSlot && !facts.is_program() => {
            let hint = "`--dynamic-first` puts it among the loader's tables, read-only".to_owned();
            Stop::Refused(Refusal { hint: Some(hint), ..refusal })
        }
        Some(stop) => stop,
        None => no_room(),
    })
}

/// What one place for the dynamic section asks for.
pub struct Room {
    pub loads: Vec<Load>,
    /// The address of the table; none if it goes among the loader's tables.
    table: Option<u64>,
    /// Segments that are added.
    new_segments: usize,
    /// What the loader protects after relocation.
    pub relro: Option<Range<u64>>,
}

fn no_room() -> Stop {
    refuse(Reason::NoDynamicSlot, "there is no room for its dynamic section, which gets longer")
}

fn room_for_dynamic(facts: &Facts<'_, '_>, moves: Moves, place: DynamicPlace, len: u64) -> Result<Room, Stop> {
    let image = facts.image;
    let word = image.word.bytes();
    let mut loads: Vec<Load> = image.loads().map(Load::of).collect();
    if moves == Moves::Up {
        loads.iter_mut().for_each(|load| load.head.align = relaxed_align(image, &load.head));
    }
    let relro = image.segment(PT_GNU_RELRO).map(Segment::in_memory);
    let mut room = Room { loads, table: None, new_segments: 0, relro };
    let index = room.loads.iter().position(|load| load.head.in_file().contains(&facts.dynamic.vaddr));
    let index = index.ok_or_else(no_room)?;
    let next = room.loads.get(index + 1).map(|next| next.head.clone());
    let before = index.checked_sub(1).map(|before| room.loads[before].head.clone());
    let load = &mut room.loads[index];
    let grain = granule(image, &load.head);
    match place {
        DynamicPlace::Stays => room.table = Some(facts.dynamic.vaddr),
        DynamicPlace::SegmentTail => {
            let (file, memory) = (load.head.in_file(), load.head.in_memory());
            let table = up(memory.end, word);
            let end = table + len;
            let limit = next.map_or(u64::MAX, |next| down(next.vaddr, grain));
            if table - file.end > model::PAGE || end > limit || !is_free(image, moves, file.end, end) {
                return Err(no_room());
            }
            load.head.filesz = end - load.head.vaddr;
            load.head.memsz = load.head.memsz.max(load.head.filesz);
            if let Some(relro) = &mut room.relro
                && (relro.start..=relro.end).contains(&table)
                && end > relro.end
            {
                // The page is ours to its end.
                relro.end = up(end, grain).min(limit);
                load.head.memsz = load.head.memsz.max(relro.end - load.head.vaddr);
            }
            room.table = Some(table);
        }
        DynamicPlace::SegmentHead => {
            let table = down(load.head.vaddr.checked_sub(len).ok_or_else(no_room)?, word);
            let grows = load.head.vaddr - table;
            let before_end = before.map_or(0, |before| up(before.in_memory().end, grain));
            let fits = table >= down(load.head.vaddr, grain) && table >= before_end && load.head.offset >= grows;
            if !fits || !is_free(image, moves, table, load.head.vaddr) {
                return Err(no_room());
            }
            if let Some(relro) = &mut room.relro
                && relro.start == load.head.vaddr
            {
                relro.start = table;
            }
            load.head.paddr = load.head.paddr.wrapping_sub(grows);
            load.head.offset -= grows;
            load.head.filesz += grows;
            load.head.memsz += grows;
            load.head.vaddr = table;
            room.table = Some(table);
        }
        DynamicPlace::NewSegment => {
            room.table = Some(add_segment(facts, moves, &mut room, len, PF_R.0 | PF_W.0)?);
        }
        // The kernel's and the debugger's ways to the table of a program want it writable.
        DynamicPlace::ReadOnly if facts.is_program() => return Err(no_room()),
        DynamicPlace::ReadOnly => {}
    }
    Ok(room)
}

/// Adds a segment behind all others, with `len` bytes of its own, and gives its address.
///
/// # Errors
/// [`Reason::NoDynamicSlot`].
pub fn add_segment(facts: &Facts<'_, '_>, moves: Moves, room: &mut Room, len: u64, flags: u32) -> Result<u64, Stop> {
    let image = facts.image;
    let word = image.word.bytes();
    let last = room.loads.last().ok_or_else(no_room)?;
    let align = last.head.align.max(model::PAGE);
    let end = room.loads.iter().map(|load| load.head.in_memory().end).max().unwrap_or(0);
    let mut vaddr = up(end, align.max(granule(image, &last.head)));
    let last = room.loads.iter().map(|load| load.covers.end).max().unwrap_or(0);
    let (mut offset, mut place) = (0, last);
    if moves == Moves::Not {
        // Where the file grows, at whatever offset; the address follows.
        let new_end = room.loads.iter().filter(|load| load.origin.is_none()).map(|load| load.head.file_range().end);
        let at = layout::growth(image).ok_or_else(no_room)?.at;
        offset = up(at.max(new_end.max().unwrap_or(0)), 2 * word);
        vaddr += offset % align;
        place = offset;
    }
    let fits = vaddr.checked_add(len + align).is_some_and(|end| end <= image.top());
    if !fits {
        return Err(no_room());
    }
    let head = Segment { kind: PT_LOAD.0, flags, offset, vaddr, paddr: vaddr, filesz: len, memsz: len, align };
    room.loads.push(Load { head, chunks: Vec::new(), covers: place..place, origin: None });
    room.new_segments += 1;
    Ok(vaddr)
}

/// Whether the bytes beside a segment are nobody's in the file. Where everything moves, room is made.
pub fn is_free(image: &Image<'_>, moves: Moves, start: u64, end: u64) -> bool {
    if moves == Moves::Up {
        return true;
    }
    let place = |vaddr: u64| image.loads().find(|load| (load.vaddr..=load.in_file().end).contains(&vaddr));
    let offsets = place(start).map(|load| load.offset + (start - load.vaddr)).map(|from| from..from + (end - start));
    let before = place(end).and_then(|load| {
        let to = load.offset + (end - load.vaddr);
        Some(to.checked_sub(end - start)?..to)
    });
    let Some(range) = offsets.or(before) else { return false };
    let bytes = crate::image::part(image.bytes, range.start, range.end - range.start);
    let meets = |other: Range<u64>| other.start < range.end && range.start < other.end;
    let table =
        image.header.shoff..image.header.shoff + image.sections.len() as u64 * crate::image::section_len(image.word);
    bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        && !image.loads().any(|load| meets(load.file_range()))
        && !image
            .sections
            .iter()
            .any(|section| section.has_bytes() && meets(section.offset..section.offset + section.size))
        && !meets(table)
}

/// Where what the loader makes read-only ends. Where that is the end of a segment that became one with the next, it has to be the end of a page,
/// or the loader leaves its last page writable; the rest of the page is nobody's.
fn sealed_to(image: &Image<'_>, loads: &[Load], end: u64) -> u64 {
    let Some(home) = image.loads().find(|load| load.in_memory().end == end) else { return end };
    if loads.iter().any(|load| load.head.in_memory().end == end) {
        return end;
    }
    let page = up(end, granule(image, home));
    let next = image.loads().map(|load| load.vaddr).filter(|start| *start >= end).min();
    if next.is_some_and(|next| page <= next) { page } else { end }
}

/// Decides everything but the offsets, for one place of the dynamic section.
fn attempt(facts: &Facts<'_, '_>, moves: Moves, place: DynamicPlace) -> Result<Draft, Stop> {
    let image = facts.image;
    let word = image.word;
    let damaged = || refuse(Reason::Damaged, "the loader's tables are not all there");
    let mut entries = facts.entries();
    let capacity = if place == DynamicPlace::Stays { facts.dynamic.capacity } else { facts.dynamic_room(&entries) };
    let dynamic_len = capacity as u64 * dynamic::entry_len(word);
    let mut room = room_for_dynamic(facts, moves, place, dynamic_len)?;
    let spot = facts.call.as_ref().map(|call| call.find_room(facts, moves, &mut room)).transpose()?;
    let run = facts.run.range();

    // Does the segment of the run end with it, or is it to be split?
    let home = image.loads().find(|load| load.in_file().contains(&run.start)).ok_or_else(damaged)?.clone();
    let home_end = home.in_file().end;
    let behind = |start: u64| (run.end..home_end).contains(&start);
    let next_section = image.sections.iter().filter(|section| section.is_loaded() && section.size != 0);
    let next_section = next_section.map(|section| section.addr).filter(|addr| behind(*addr)).min();
    let ends = next_section.is_none()
        && image.at(run.end, home_end - run.end).is_none_or(|rest| rest.iter().all(|byte| *byte == 0))
        && home.memsz == home.filesz
        && !image.segments.iter().any(|other| !other.is_load() && other.filesz != 0 && behind(other.vaddr));
    let splits = moves == Moves::Up && !ends;
    let mut loads = room.loads;
    let slots = slots::find(facts, moves, &mut loads, room.new_segments + usize::from(splits))?;
    if let Some(relro) = &mut room.relro {
        relro.end = sealed_to(image, &loads, relro.end);
    }

    // The loader's tables, from the first one that changes on.
    let mut stack = Stack::default();
    let mut first = facts.run.tables.iter().position(|table| facts.changes(table.kind)).unwrap_or(0);
    stack.cursor = facts.run.tables[first].vaddr;
    if let Some(start) = slots.neighbours_to {
        // What made room for the program headers comes in front, and all tables behind it.
        (first, stack.cursor) = (0, start);
    }
    let start = stack.cursor;
    let mut left = Vec::new();
    for neighbour in &slots.neighbours {
        left.push(neighbour.zero());
        stack.neighbour(image, neighbour)?;
    }
    // Tables that change and lie elsewhere come to the others.
    let elsewhere = facts.tables.iter().filter(|table| !facts.run.has(table.kind) && facts.changes(table.kind));
    let mut relr = 0..0;
    for table in facts.run.tables[first..].iter().chain(elsewhere) {
        let bytes = match facts.changes(table.kind) {
            true => facts.new_content(table.kind).ok_or_else(damaged)?,
            false => image.at(table.vaddr, table.len).ok_or_else(damaged)?.to_vec(),
        };
        if !facts.run.has(table.kind) {
            left.push(table.zero());
        }
        let is_gone = bytes.is_empty();
        let name = table.kind.name(&facts.places);
        let to = stack.put(name, Some((table.vaddr, table.len)), bytes, alignment(image, table));
        if !is_gone {
            entries.set(table.kind.tag(&facts.places), to);
        }
        if table.kind == Kind::Relocations {
            let name = if facts.call.is_some() { ".thaw.relr" } else { ".relr.dyn" };
            let at = stack.put(name, None, facts.relr.clone(), word.bytes());
            relr = at..stack.cursor;
            if facts.call.is_none() {
                entries.set(DT_RELR, at);
            }
        }
    }
    let dynamic_at = match room.table {
        Some(table) => table,
        None => stack.reserve(dynamic_len, word.bytes()),
    };
    let code_at = match (&facts.call, spot) {
        (Some(call), Some(Spot::Tables)) => stack.reserve(call.code_len(facts, room.relro.as_ref())?, CODE_ALIGN),
        (_, Some(Spot::At(at))) => at,
        _ => 0,
    };
    let Stack { cursor: end, mut edits, moved } = stack;
    if end > run.end {
        let sentence = "the packed table and what comes with it take more room than becomes free";
        return Err(refuse(Reason::NoGain, sentence));
    }
    let mut initialiser = None;
    let mut last_edits = Vec::new();
    if let Some(call) = &facts.call {
        let (written, edits) =
            call.write(facts, code_at, relr.clone(), room.relro.as_ref(), dynamic_at, &mut entries)?;
        initialiser = Some(written);
        last_edits = edits;
    }
    if dynamic_at != facts.dynamic.vaddr {
        // Readers of the table's own address (`_DYNAMIC`) find everything but the packed table at the old place.
        let old = dynamic::encode(&entries.known_to(&facts.dynamic), facts.dynamic.capacity, word);
        edits.push((facts.dynamic.vaddr, Fill::Bytes(old)));
    }
    edits.push((dynamic_at, Fill::Bytes(dynamic::encode(&entries.list, capacity, word))));
    edits.append(&mut last_edits);

    // The segment of the run.
    let index = loads.iter().position(|load| load.head.in_file().contains(&run.start)).ok_or_else(damaged)?;
    let mut freed = end..run.end;
    match moves {
        Moves::Not => {}
        Moves::Up if ends => {
            loads[index].truncate(end);
            freed.end = home_end;
        }
        Moves::Up => {
            // The first byte behind need not begin a page; both parts only must not share one in memory.
            let grain = granule(image, &loads[index].head);
            if down(run.end, grain) < up(end, grain) {
                return Err(refuse(Reason::NoGain, "the room that becomes free is less than a page"));
            }
            let tail = loads[index].split_off(run.end);
            loads[index].truncate(end);
            loads.insert(index + 1, tail);
        }
    }
    // Nothing of the old tables shows through, not even between the new ones.
    let old_end = if moves == Moves::Not { run.end } else { end };
    edits.insert(0, (start, Fill::Zero(old_end - start)));
    edits.splice(0..0, left);
    let mut draft = Draft {
        loads,
        headers: Vec::new(),
        slots: slots.used,
        edits,
        moved,
        relr,
        dynamic_place: place,
        dynamic: dynamic_at..dynamic_at + dynamic_len,
        entries,
        freed,
        relro: room.relro,
        initialiser,
    };
    draft.headers = headers::renew(facts, &draft, &slots.neighbours)?;
    Ok(draft)
}

/// Tables on top of each other, from an address on.
#[derive(Default)]
pub struct Stack {
    pub cursor: u64,
    pub edits: Vec<(u64, Fill)>,
    pub moved: Vec<Moved>,
}

impl Stack {
    pub fn neighbour(&mut self, image: &Image<'_>, neighbour: &Neighbour) -> Result<(), Stop> {
        let bytes = image.at(neighbour.vaddr, neighbour.len);
        let bytes =
            bytes.ok_or_else(|| refuse(Reason::Damaged, "what lies behind its program headers is not loaded"))?;
        self.put(&neighbour.name, Some((neighbour.vaddr, neighbour.len)), bytes.to_vec(), neighbour.align);
        Ok(())
    }

    pub fn put(&mut self, name: &str, from: Option<(u64, u64)>, bytes: Vec<u8>, align: u64) -> u64 {
        let len = bytes.len() as u64;
        let to = self.reserve(len, align);
        self.edits.push((to, Fill::Bytes(bytes)));
        let (from, len_before) = from.map_or((None, 0), |(from, len)| (Some(from), len));
        self.moved.push(Moved { name: name.to_owned(), from, to, len_before, len });
        to
    }

    fn reserve(&mut self, len: u64, align: u64) -> u64 {
        let at = up(self.cursor, align);
        self.cursor = at + len;
        at
    }
}

/// What a table was aligned to, within reason.
pub fn alignment(image: &Image<'_>, table: &Table) -> u64 {
    let section = tables::section_at(image, table.vaddr).map_or(1, |section| section.align);
    let section = if section.is_power_of_two() { section.min(16) } else { 1 };
    table.kind.align(image.word).max(section)
}

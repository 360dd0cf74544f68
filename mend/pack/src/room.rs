//! Room beside, before and behind the segments: for a longer dynamic section, and for segments that are added.

use crate::draft::Moves;
use crate::facts::Facts;
use crate::image::{Image, Section, Segment, down, part, section_len, up};
use crate::layout::{self, Load};
use crate::report::{DynamicPlace, Reason};
use crate::stop::{Stop, refuse};
use object::elf::{PF_R, PF_W, PT_GNU_RELRO, PT_LOAD};
use std::ops::Range;

/// Where the dynamic section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAt {
    /// At this address.
    Address(u64),
    /// Among the loader's tables, read-only.
    Tables,
    /// Its bytes lie among the loader's tables; the segment with this index in [`Room::loads`] maps them once more,
    /// writable, from this address up: so much above it as the offset asks for.
    Mapped { load: usize, above: u64 },
}

/// What one place for the dynamic section asks for.
pub struct Room {
    pub loads: Vec<Load>,
    pub table: TableAt,
    /// Segments that are added.
    pub new_segments: usize,
    /// What the loader protects after relocation.
    pub relro: Option<Range<u64>>,
}

/// The refusal where a dynamic section that gets longer finds none.
pub fn no_room() -> Stop {
    refuse(Reason::NoDynamicSlot, "there is no room for its dynamic section, which gets longer")
}

/// Makes room for a dynamic section of `len` bytes at a place.
///
/// # Errors
/// [`Reason::NoDynamicSlot`].
pub fn room_for_dynamic(facts: &Facts<'_, '_>, moves: Moves, place: DynamicPlace, len: u64) -> Result<Room, Stop> {
    let image = facts.image;
    let word = image.word.bytes();
    let mut loads: Vec<Load> = image.loads().map(Load::of).collect();
    if moves == Moves::Up {
        loads.iter_mut().for_each(|load| load.head.align = relaxed_align(image, &load.head));
    }
    let relro = image.segment(PT_GNU_RELRO).map(Segment::in_memory);
    let mut room = Room { loads, table: TableAt::Tables, new_segments: 0, relro };
    let index = room.loads.iter().position(|load| load.head.in_file().contains(&facts.dynamic.vaddr));
    let index = index.ok_or_else(no_room)?;
    let next = room.loads.get(index + 1).map(|next| next.head.clone());
    let before = index.checked_sub(1).map(|before| room.loads[before].head.clone());
    let load = &mut room.loads[index];
    let grain = granule(image, &load.head);
    match place {
        DynamicPlace::Stays => room.table = TableAt::Address(facts.dynamic.vaddr),
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
            room.table = TableAt::Address(table);
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
            room.table = TableAt::Address(table);
        }
        // The file cannot grow, but much of it becomes free.
        DynamicPlace::NewSegment if moves == Moves::Not && layout::growth(image).is_none() => {
            let above = add_segment_at(facts, &mut room, 0, len, PF_R.0 | PF_W.0)?;
            room.table = TableAt::Mapped { load: room.loads.len() - 1, above };
        }
        DynamicPlace::NewSegment => {
            room.table = TableAt::Address(add_segment(facts, moves, &mut room, len, PF_R.0 | PF_W.0)?);
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
    let mut offset = 0;
    if moves == Moves::Not {
        // Where the file grows, at whatever offset; the address follows.
        let new_end = room.loads.iter().filter(|load| load.origin.is_none()).map(|load| load.head.file_range().end);
        let at = layout::growth(facts.image).ok_or_else(no_room)?.at;
        offset = up(at.max(new_end.max().unwrap_or(0)), 2 * facts.image.word.bytes());
    }
    let vaddr = add_segment_at(facts, room, offset, len, flags)?;
    if moves == Moves::Not
        && let Some(load) = room.loads.last_mut()
    {
        load.covers = offset..offset;
    }
    Ok(vaddr)
}

/// Adds a segment behind all others that maps `len` bytes at an offset of the file, and gives its address.
fn add_segment_at(facts: &Facts<'_, '_>, room: &mut Room, offset: u64, len: u64, flags: u32) -> Result<u64, Stop> {
    let image = facts.image;
    let last = room.loads.last().ok_or_else(no_room)?;
    let align = last.head.align.max(model::PAGE);
    let end = room.loads.iter().map(|load| load.head.in_memory().end).max().unwrap_or(0);
    let vaddr = up(end, align.max(granule(image, &last.head))) + offset % align;
    let place = room.loads.iter().map(|load| load.covers.end).max().unwrap_or(0);
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
    let bytes = part(image.bytes, range.start, range.end - range.start);
    let meets = |other: Range<u64>| other.start < range.end && range.start < other.end;
    let table = image.header.shoff..image.header.shoff + image.sections.len() as u64 * section_len(image.word);
    bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
        && !image.loads().any(|load| meets(load.file_range()))
        && !image.sections.iter().any(|section| section.in_file().is_some_and(&meets))
        && !meets(table)
}

/// The room to which a segment's pages reach: segments that share a page of this size cannot be apart in memory.
pub fn granule(image: &Image<'_>, segment: &Segment) -> u64 {
    match image.machine.has_fixed_pages() {
        true => model::PAGE,
        false => segment.align.max(model::PAGE),
    }
}

/// Alignment that a segment can do with. Old linkers align every segment to 2 MiB, which the processor does not ask
/// for; what was put at such an address on purpose stays.
fn relaxed_align(image: &Image<'_>, segment: &Segment) -> u64 {
    let modest = |section: &Section| !section.is_loaded() || section.align <= model::PAGE;
    let by_habit = segment.vaddr == 0 || !segment.vaddr.is_multiple_of(segment.align.max(1));
    let can = image.machine.has_fixed_pages() && !image.sections.is_empty() && image.sections.iter().all(modest);
    if can && by_habit { segment.align.min(model::PAGE) } else { segment.align }
}

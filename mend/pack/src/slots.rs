//! Room for more program headers. The table stays where it is, because kernels, loaders and tools look for it there.

use crate::canvas::Fill;
use crate::draft::Moves;
use crate::facts::Facts;
use crate::image::{Image, part, segment_len, up};
use crate::layout::Load;
use crate::refuse::notes;
use crate::report::{HeaderSlot, Reason};
use crate::stop::{Stop, refuse, refuse_with_hint};
use object::elf::{NT_GNU_ABI_TAG, NT_GNU_BUILD_ID, NT_GNU_PROPERTY_TYPE_0, PT_INTERP, PT_NULL, PT_PHDR};

/// Where headers find room.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    pub used: Vec<HeaderSlot>,
    /// What has to move away from behind the table, in its new order.
    pub neighbours: Vec<Neighbour>,
    /// Where the first of them goes; the loader's tables follow the last.
    pub neighbours_to: Option<u64>,
}

/// Something behind the table of program headers that may lie anywhere: only headers lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub name: String,
    pub vaddr: u64,
    pub len: u64,
    pub align: u64,
}

impl Neighbour {
    /// What is left of it when it has moved.
    pub fn zero(&self) -> (u64, Fill) {
        (self.vaddr, Fill::Zero(self.len))
    }
}

/// Finds room for some more headers; may merge segments.
///
/// # Errors
/// [`Reason::NoHeaderSlot`].
pub fn find(facts: &Facts<'_, '_>, moves: Moves, loads: &mut Vec<Load>, mut missing: usize) -> Result<Slots, Stop> {
    let image = facts.image;
    let mut slots = Slots::default();
    let mut take = |slot: HeaderSlot, count: usize, missing: &mut usize| {
        if *missing > 0 && count > 0 {
            slots.used.push(slot);
            *missing -= count.min(*missing);
        }
    };
    let count = |kind: object::elf::ProgramType| image.segments.iter().filter(|segment| segment.kind == kind.0).count();
    take(HeaderSlot::Unused, count(PT_NULL), &mut missing);
    take(HeaderSlot::Room, room_behind(image), &mut missing);
    if !facts.is_program() {
        take(HeaderSlot::DropsPhdr, count(PT_PHDR), &mut missing);
    }
    if missing > 0 {
        let len = missing as u64 * segment_len(image.word);
        if evict(facts, len, Pinned::BuildId, &mut slots) {
            return Ok(slots);
        }
        while missing > 0 && moves == Moves::Up && merge(image, loads) {
            slots.used.push(HeaderSlot::MergesSegments);
            missing -= 1;
        }
        let len = missing as u64 * segment_len(image.word);
        if missing > 0 && !evict(facts, len, Pinned::Nothing, &mut slots) {
            let sentence = "there is no room for one more program header, and what lies behind them must stay";
            return Err(match moves {
                Moves::Up => refuse_with_hint(Reason::NoHeaderSlot, sentence, "`--no-shrink` needs none in most files"),
                Moves::Not => refuse(Reason::NoHeaderSlot, sentence),
            });
        }
    }
    Ok(slots)
}

/// Headers that fit between the table and what follows. Only the section table can tell that nothing is there.
fn room_behind(image: &Image<'_>) -> usize {
    let end = image.headers_end();
    let sections = image.sections.iter().filter(|section| section.has_bytes() && section.size != 0);
    let next = sections.map(|section| section.offset).filter(|offset| *offset >= end).min();
    let load = image.loads().find(|load| load.file_range().contains(&image.header.phoff));
    let (Some(next), Some(load)) = (next, load) else { return 0 };
    let mut next = next.min(load.file_range().end);
    if image.header.shoff >= end {
        next = next.min(image.header.shoff);
    }
    let bytes = part(image.bytes, end, next.saturating_sub(end)).unwrap_or_default();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count() as u64;
    (zeros / segment_len(image.word)) as usize
}

/// Makes one segment of two writable neighbours. Costs the room between them in the file.
fn merge(image: &Image<'_>, loads: &mut Vec<Load>) -> bool {
    let fits = |pair: &[Load]| {
        let (left, right) = (&pair[0].head, &pair[1].head);
        let page = left.align.max(right.align).max(model::PAGE);
        let zeros = left.memsz - left.filesz;
        left.is_writable()
            && left.flags == right.flags
            && pair[0].origin.is_some()
            && pair[1].origin.is_some()
            && zeros <= model::PAGE
            && right.vaddr - left.in_file().end <= 2 * page
            && pair[0].covers.end <= pair[1].covers.start
            && left.vaddr.wrapping_sub(left.paddr) == right.vaddr.wrapping_sub(right.paddr)
            // Only nothing lies between them in the file.
            && part(image.bytes, pair[0].covers.end, pair[1].covers.start - pair[0].covers.end)
                .is_some_and(|gap| gap.len() < model::PAGE as usize && gap.iter().all(|byte| *byte == 0))
    };
    let Some(index) = loads.windows(2).position(fits) else { return false };
    let right = loads.remove(index + 1);
    let left = &mut loads[index];
    left.head.align = left.head.align.max(right.head.align);
    left.head.filesz = right.head.in_file().end - left.head.vaddr;
    left.head.memsz = right.head.in_memory().end - left.head.vaddr;
    left.covers.end = right.covers.end;
    left.chunks.extend(right.chunks);
    true
}

/// What must not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pinned {
    /// Some readers know the place of the build ID.
    BuildId,
    Nothing,
}

/// Moves what takes the bytes behind the table to the end of the notes, from where the loader's tables give way. Notes
/// that are not known, which may hold distances from their own place, stay.
fn evict(facts: &Facts<'_, '_>, len: u64, pinned: Pinned, slots: &mut Slots) -> bool {
    let Some((neighbours, to)) = neighbours(facts, len, pinned) else { return false };
    slots.used.push(HeaderSlot::MovesNeighbours);
    slots.neighbours = neighbours;
    slots.neighbours_to = Some(to);
    true
}

fn neighbours(facts: &Facts<'_, '_>, len: u64, pinned: Pinned) -> Option<(Vec<Neighbour>, u64)> {
    let image = facts.image;
    let run = facts.run.range();
    let load = image.loads().find(|load| load.file_range().contains(&image.header.phoff))?;
    let start = load.vaddr + (image.headers_end() - load.offset);
    if !load.in_file().contains(&run.start) || run.start < start {
        return None;
    }
    // Everything between the headers and the loader's tables.
    let is_between = |addr: u64| (start..run.start).contains(&addr);
    let mut between: Vec<(Neighbour, bool)> = notes(image)
        .filter(|note| is_between(note.vaddr))
        .map(|note| {
            let name = match note.kind {
                kind if note.owner != b"GNU" || kind == 0 => None,
                kind if kind == NT_GNU_ABI_TAG.0 => Some(".note.ABI-tag"),
                kind if kind == NT_GNU_PROPERTY_TYPE_0.0 => Some(".note.gnu.property"),
                kind if kind == NT_GNU_BUILD_ID.0 && pinned == Pinned::Nothing => Some(".note.gnu.build-id"),
                _ => None,
            };
            let align = if note.vaddr % 8 == 0 && note.len % 8 == 0 { 8 } else { 4 };
            let neighbour =
                Neighbour { name: name.unwrap_or_default().to_owned(), vaddr: note.vaddr, len: note.len, align };
            (neighbour, name.is_some())
        })
        .collect();
    let interpreter = image.segments.iter().find(|segment| segment.kind == PT_INTERP.0 && is_between(segment.vaddr));
    between.extend(interpreter.map(|segment| {
        let (vaddr, len) = (segment.vaddr, segment.filesz);
        (Neighbour { name: ".interp".to_owned(), vaddr, len, align: 1 }, true)
    }));
    between.sort_by_key(|(neighbour, _)| neighbour.vaddr);
    between.dedup_by_key(|(neighbour, _)| neighbour.vaddr);
    let mut cursor = start;
    for (neighbour, _) in &between {
        // Alignment lies between them, nothing else.
        if !is_gap(image, cursor, neighbour.vaddr) {
            return None;
        }
        cursor = neighbour.vaddr + neighbour.len;
    }
    let known = |addr: u64| between.iter().any(|(neighbour, _)| neighbour.vaddr == addr);
    let mut sections = image.sections.iter().filter(|section| section.is_loaded() && section.size != 0);
    if !is_gap(image, cursor, run.start) || sections.any(|section| is_between(section.addr) && !known(section.addr)) {
        return None;
    }
    let evicted: Vec<_> = between.into_iter().filter(|(neighbour, _)| neighbour.vaddr < start + len).collect();
    if evicted.iter().any(|(_, movable)| !movable) || evicted.is_empty() {
        return None;
    }
    // Notes whose segment stays in part come first, so that they join it again at its end; the name of the loader last.
    let to = cursor.max(start + len);
    let last = evicted.last().map_or(0, |(last, _)| last.vaddr + last.len);
    let staying = |neighbour: &Neighbour| {
        image.segments.iter().find(|segment| {
            let file = segment.in_file();
            file.contains(&neighbour.vaddr) && !segment.is_load() && file.end > last
        })
    };
    let stays = |neighbour: &Neighbour| staying(neighbour).is_some();
    // Room for alignment before the first would tear the segment apart.
    let first = evicted.iter().map(|(neighbour, _)| neighbour).find(|neighbour| stays(neighbour));
    if first.is_some_and(|first| staying(first).is_some_and(|segment| up(to, first.align) != segment.in_file().end)) {
        return None;
    }
    let mut order: Vec<(u8, Neighbour)> = evicted
        .iter()
        .map(|(neighbour, _)| {
            let rank = if neighbour.align == 1 { 2 } else { u8::from(!stays(neighbour)) };
            (rank, neighbour.clone())
        })
        .collect();
    order.sort_by_key(|(rank, neighbour)| (*rank, neighbour.vaddr));
    Some((order.into_iter().map(|(_, neighbour)| neighbour).collect(), to))
}

/// Only alignment lies there.
fn is_gap(image: &Image<'_>, start: u64, end: u64) -> bool {
    let gap = end.checked_sub(start).filter(|len| *len < 16).and_then(|len| image.at(start, len));
    start == end || gap.is_some_and(|gap| gap.iter().all(|byte| *byte == 0))
}

//! Room for more program headers. The table stays where it is, because kernels, loaders and tools look for it there.

use crate::image::{Image, part, segment_len};
use crate::layout::Load;
use crate::plan::{Facts, Moves};
use crate::refuse::{Stop, notes, refuse_with_hint};
use crate::report::{HeaderSlot, Reason};
use object::elf::{NT_GNU_ABI_TAG, NT_GNU_BUILD_ID, NT_GNU_PROPERTY_TYPE_0, PT_INTERP, PT_NULL, PT_PHDR};

/// Where headers find room.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    pub used: Vec<HeaderSlot>,
    /// What has to move away from behind the table.
    pub neighbours: Vec<Neighbour>,
}

/// Something behind the table of program headers that may lie anywhere: only headers lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    pub name: String,
    pub vaddr: u64,
    pub len: u64,
    pub align: u64,
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
    while missing > 0 && moves == Moves::Up && merge(image, loads) {
        take(HeaderSlot::MergesSegments, 1, &mut missing);
    }
    if missing > 0 {
        let len = missing as u64 * segment_len(image.word);
        let found = neighbours(image, len, Pinned::BuildId).or_else(|| neighbours(image, len, Pinned::Nothing));
        slots.neighbours = found.ok_or_else(|| {
            let sentence = "there is no room for one more program header, and what lies behind them must stay";
            refuse_with_hint(Reason::NoHeaderSlot, sentence, "`--no-shrink` needs none in most files")
        })?;
        slots.used.push(HeaderSlot::MovesNeighbours);
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
    /// Readers of a running program look for the build ID in its first page.
    BuildId,
    Nothing,
}

/// What takes the bytes behind the table, if all of it may move.
fn neighbours(image: &Image<'_>, len: u64, pinned: Pinned) -> Option<Vec<Neighbour>> {
    let load = image.loads().find(|load| load.file_range().contains(&image.header.phoff))?;
    let start = load.vaddr + (image.headers_end() - load.offset);
    let mut movable: Vec<Neighbour> = notes(image)
        .filter(|note| note.owner == b"GNU")
        .filter_map(|note| {
            let name = match note.kind {
                kind if kind == NT_GNU_ABI_TAG.0 => ".note.ABI-tag",
                kind if kind == NT_GNU_PROPERTY_TYPE_0.0 => ".note.gnu.property",
                kind if kind == NT_GNU_BUILD_ID.0 && pinned == Pinned::Nothing => ".note.gnu.build-id",
                _ => return None,
            };
            let align = if note.vaddr % 8 == 0 && note.len % 8 == 0 { 8 } else { 4 };
            Some(Neighbour { name: name.to_owned(), vaddr: note.vaddr, len: note.len, align })
        })
        .collect();
    movable.extend(image.segments.iter().filter(|segment| segment.kind == PT_INTERP.0).map(|segment| Neighbour {
        name: ".interp".to_owned(),
        vaddr: segment.vaddr,
        len: segment.filesz,
        align: 1,
    }));
    let (mut cursor, mut found) = (start, Vec::new());
    while cursor < start + len {
        // Alignment lies between them, nothing else.
        let next = movable.iter().filter(|next| next.len != 0 && (cursor..cursor + 8).contains(&next.vaddr));
        let next = next.min_by_key(|next| next.vaddr)?.clone();
        let gap = image.at(cursor, next.vaddr - cursor);
        if cursor != next.vaddr && !gap?.iter().all(|byte| *byte == 0) {
            return None;
        }
        cursor = next.vaddr + next.len;
        found.push(next);
    }
    // A section that is not one of them would be overwritten.
    let whole = |addr: u64| found.iter().any(|neighbour| neighbour.vaddr == addr);
    let mut sections = image.sections.iter().filter(|section| section.is_loaded() && section.size != 0);
    let strange = sections.any(|section| (start..cursor).contains(&section.addr) && !whole(section.addr));
    (!strange).then_some(found)
}

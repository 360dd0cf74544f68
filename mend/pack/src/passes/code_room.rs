//! Room for a few instructions in code that is already there, without moving anything: the padding behind an executable
//! section. The section grows over it, so that tools which copy a file section by section (strip) keep the new bytes.

use super::draft::Draft;
use elf::{SectionHead, Segment};
use object::elf::SHF_EXECINSTR;
use std::ops::Range;

/// Where code can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub address: u64,
    pub offset: u64,
    section: usize,
    /// The segment whose end it lies behind.
    tail_of: Option<usize>,
}

/// Room for `len` bytes; `align` is a power of two.
pub fn find(draft: &Draft<'_>, len: u64, align: u64) -> Option<Room> {
    (0..draft.image.sections.len()).find_map(|index| behind(draft, index, len, align))
}

fn behind(draft: &Draft<'_>, index: usize, len: u64, align: u64) -> Option<Room> {
    let image = draft.image;
    let section = image.sections.get(index)?;
    // Only behind code; and tools count on the length of tables of jumps.
    if !section.is_loaded() || !section.flags.contains(SHF_EXECINSTR) || section.name.contains("plt") {
        return None;
    }
    let holds = |load: &&Segment| load.is_load() && load.is_executable() && load.backs(section.address, section.len);
    let segment_index = image.segments.iter().position(|load| holds(&load))?;
    let segment = image.segments.get(segment_index)?;
    let address = section.address.checked_add(section.len)?.checked_next_multiple_of(align)?;
    let offset = segment.offset.checked_add(address - segment.address)?;
    let (end, end_offset) = (address.checked_add(len)?, offset.checked_add(len)?);
    let padding = image.data.get(usize::try_from(offset).ok()?..usize::try_from(end_offset).ok()?)?;
    let is_padding = [0, 0xcc, 0x90].iter().any(|fill| padding.iter().all(|byte| byte == fill));

    // From the end of the section on, so that the section grows over nothing that is another's.
    let (section_end, file_end) = (section.address + section.len, section.offset.checked_add(section.len)?);
    let in_memory = |at: u64, len: u64| at < end && at.saturating_add(len) > section_end;
    let in_file = |at: u64, len: u64| at < end_offset && at.saturating_add(len) > file_end;
    let of_section = |other: &SectionHead| {
        (other.is_loaded() && in_memory(other.address, other.len))
            || (other.in_file() && other.len != 0 && in_file(other.offset, other.len))
    };
    let of_segment = |load: &Segment| {
        load.is_load()
            && load != segment
            && (in_memory(page_of(load.address, load.align), load.memory_len) || in_file(load.offset, load.file_len))
    };
    let of_table = |table: Range<u64>| in_file(table.start, table.end - table.start);
    let taken = image.sections.iter().any(of_section)
        || image.segments.iter().any(of_segment)
        || of_table(draft.program_headers())
        || of_table(draft.section_headers());
    let inside = segment.backs(section.address, end - section.address);
    // Behind a segment's end, memory has to end where the file does.
    let extends = segment.file_len == segment.memory_len;
    let room = Room { address, offset, section: index, tail_of: (!inside).then_some(segment_index) };
    (is_padding && !taken && (inside || extends)).then_some(room)
}

/// Puts code there.
pub fn fill(draft: &mut Draft<'_>, room: Room, code: &[u8]) {
    let image = draft.image;
    let end = room.address + code.len() as u64;
    if let Some(section) = image.sections.get(room.section) {
        draft.set_section_len(room.section, end - section.address);
    }
    if let Some((index, segment)) = room.tail_of.and_then(|index| Some((index, image.segments.get(index)?))) {
        draft.set_segment_len(index, end - segment.address, end - segment.address);
    }
    draft.add_code(room.offset, room.address, code);
}

/// Where the page of the largest size that the file is made for begins.
fn page_of(address: u64, align: u64) -> u64 {
    address - address % align.max(4096)
}

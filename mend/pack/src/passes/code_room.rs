//! Room for a few instructions in code that is already there, without moving anything: the padding behind an executable
//! section. The section grows over it, so that tools which copy a file section by section (strip) keep the new bytes.

use super::draft::Draft;
use elf::SectionHead;
use object::elf::SHT_NOBITS;

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
    let image = draft.image;
    let loaded = |section: &&SectionHead| section.is_loaded() && section.kind != SHT_NOBITS;
    for (index, section) in image.sections.iter().enumerate() {
        // Tools count on the length of tables of jumps.
        if !loaded(&section) || section.name.contains("plt") {
            continue;
        }
        let Some((segment_index, segment)) = image.segments.iter().enumerate().find(|(_, segment)| {
            segment.is_load() && segment.is_executable() && segment.backs(section.address, section.len)
        }) else {
            continue;
        };
        let address = section.address.checked_add(section.len)?.checked_next_multiple_of(align)?;
        let offset = segment.offset.checked_add(address - segment.address)?;
        let (end, end_offset) = (address.checked_add(len)?, offset.checked_add(len)?);
        let is_padding = image
            .data
            .get(usize::try_from(offset).ok()?..usize::try_from(end_offset).ok()?)
            .is_some_and(|bytes| [0, 0xcc, 0x90].iter().any(|fill| bytes.iter().all(|byte| byte == fill)));
        let begins_within = |from: u64, to: u64, at: u64, len: u64| at < to && at.saturating_add(len) > from;
        // From the end of the section on, so that the section grows over nothing that is another's.
        let section_end = section.address + section.len;
        let in_file = section.offset.checked_add(section.len)?;
        let free = image.sections.iter().all(|other| {
            !(other.is_loaded() && begins_within(section_end, end, other.address, other.len))
                && !(other.in_file() && other.len != 0 && begins_within(in_file, end_offset, other.offset, other.len))
        });
        let apart = image.segments.iter().enumerate().all(|(other, load)| {
            other == segment_index
                || !load.is_load()
                || (!begins_within(section_end, end, page_of(load.address, load.align), load.memory_len)
                    && !begins_within(in_file, end_offset, load.offset, load.file_len))
        });
        let tables = [draft.program_headers(), draft.section_headers()];
        let clear =
            tables.iter().all(|table| !begins_within(in_file, end_offset, table.start, table.end - table.start));
        let inside = segment.backs(section.address, end - section.address);
        // Behind a segment's end, memory has to end where the file does.
        let extends = segment.file_len == segment.memory_len;
        if is_padding && free && apart && clear && (inside || extends) {
            return Some(Room { address, offset, section: index, tail_of: (!inside).then_some(segment_index) });
        }
    }
    None
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

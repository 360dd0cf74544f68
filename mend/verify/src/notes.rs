//! The notes of a file, each with its address.

use crate::bytes::shown;
use crate::file::Elf;
use crate::spec::{PT_LOAD, PT_NOTE};

const NT_GNU_ABI_TAG: u32 = 1;
const NT_GNU_BUILD_ID: u32 = 3;
const NT_GNU_PROPERTY_TYPE_0: u32 = 5;

/// One note.
pub(crate) struct Note<'a> {
    pub(crate) at: u64,
    len: u64,
    kind: u32,
    name: &'a [u8],
    content: &'a [u8],
}

impl Note<'_> {
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.at, self.len)
    }

    fn is_gnu(&self, kind: u32) -> bool {
        self.name == b"GNU\0" && self.kind == kind
    }

    /// Notes that hold nothing but numbers of a standard may move; others may hold distances from their place. The
    /// kernel looks for the build-id in the first page only.
    pub(crate) fn may_move_to(&self, at: u64) -> bool {
        self.is_gnu(NT_GNU_ABI_TAG)
            || self.is_gnu(NT_GNU_PROPERTY_TYPE_0)
            || self.is_gnu(NT_GNU_BUILD_ID) && at / 4096 == self.at / 4096
    }

    /// Equal, apart from the place, and from the content of a build-id where another one is expected.
    pub(crate) fn same_as(&self, other: &Self, other_build_id: bool) -> bool {
        let content = self.content == other.content
            || other_build_id && self.is_gnu(NT_GNU_BUILD_ID) && self.content.len() == other.content.len();
        (self.name, self.kind) == (other.name, other.kind) && content
    }

    pub(crate) fn shown(&self) -> String {
        let name = self.name.strip_suffix(b"\0").unwrap_or(self.name);
        format!("the note {} of type {}", shown(name), self.kind)
    }

    /// Where the content of the build-id lies; `None`: another note.
    pub(crate) fn build_id(&self) -> Option<(u64, u64)> {
        let len = self.content.len() as u64;
        self.is_gnu(NT_GNU_BUILD_ID).then(|| (self.at + 12 + (self.name.len() as u64).next_multiple_of(4), len))
    }
}

/// All notes of all PT_NOTEs that are loaded. A damaged note ends its segment's list.
pub(crate) fn notes<'a>(elf: &Elf<'a>) -> Vec<Note<'a>> {
    let mut notes: Vec<Note> = Vec::new();
    for segment in elf.segments_of(PT_NOTE) {
        let Some(bytes) = elf.in_file(segment.offset, segment.file_len) else { continue };
        let align = if segment.align == 8 { 8 } else { 4 };
        let mut at = 0;
        while let Some(note) = read(elf, segment.at, bytes, at, align) {
            at += note.len as usize;
            // Segments can overlap, and no file needs so many.
            if notes.len() < 10_000 && !notes.iter().any(|known| known.at == note.at) {
                notes.push(note);
            }
        }
    }
    notes
}

fn read<'a>(elf: &Elf, start: u64, bytes: &'a [u8], at: usize, align: usize) -> Option<Note<'a>> {
    let number = |field: usize| elf.format.u32(bytes, at.checked_add(field)?).map(|number| number as usize);
    let (name_len, content_len, kind) = (number(0)?, number(4)?, number(8)? as u32);
    let name_at = at.checked_add(12)?;
    let name = bytes.get(name_at..name_at.checked_add(name_len)?)?;
    let content_at = at.checked_add(name_len.checked_add(12)?.checked_next_multiple_of(align)?)?;
    let content_end = content_at.checked_add(content_len)?;
    let content = bytes.get(content_at..content_end)?;
    // The last note need not be padded.
    let end = content_end.checked_next_multiple_of(align)?.min(bytes.len());
    Some(Note { at: start.checked_add(at as u64)?, len: (end - at) as u64, kind, name, content })
}

/// Whether a PT_NOTE lies where it says it is loaded.
pub(crate) fn are_loaded(elf: &Elf) -> bool {
    elf.segments_of(PT_NOTE).all(|note| {
        elf.segments_of(PT_LOAD).any(|load| {
            load.at <= note.at
                && note.end() <= load.file_end()
                && note.at - load.at == note.offset.wrapping_sub(load.offset)
        })
    })
}

//! The build-id, which tells whether two files are of the same build.

use crate::{Class, class, head};
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};

/// Longest build-id that is believed; those of today's linkers have 8 to 20 bytes.
const LIMIT: usize = 64;
/// Notes that are looked through for a build-id: a damaged file may name thousands, each as long as the file.
pub(crate) const NOTES_LIMIT: u64 = 1 << 20;

/// The GNU build-id in lower-case hex, if the file has one.
pub fn build_id(bytes: &[u8]) -> Option<String> {
    let id = match class(bytes).ok()? {
        Class::Elf32 => build_id_of::<FileHeader32<Endianness>, _>(bytes, u64::MAX),
        Class::Elf64 => build_id_of::<FileHeader64<Endianness>, _>(bytes, u64::MAX),
    }?;
    Some(hex(id))
}

/// In lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// From the loaded notes; where there are none (an object file, a file of debug data), from the sections. Notes longer
/// than `limit` are not looked at.
pub(crate) fn build_id_of<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    data: R,
    limit: u64,
) -> Option<&'data [u8]> {
    let (header, endian) = head::<Elf, R>(data).ok()?;
    let segments = header.program_headers(endian, data).unwrap_or_default();
    let loaded = segments
        .iter()
        .filter(|segment| segment.p_filesz(endian).into() <= limit)
        .filter_map(|segment| segment.notes(endian, data).ok()?);
    if let Some(id) = loaded.into_iter().find_map(|notes| among(notes, endian)) {
        return Some(id);
    }
    let sections = header.section_headers(endian, data).unwrap_or_default();
    sections
        .iter()
        .filter(|section| section.sh_size(endian).into() <= limit)
        .filter_map(|section| section.notes(endian, data).ok()?)
        .find_map(|notes| among(notes, endian))
}

fn among<'data, Elf: FileHeader<Endian = Endianness>>(
    notes: NoteIterator<'data, Elf>,
    endian: Endianness,
) -> Option<&'data [u8]> {
    notes
        .map_while(Result::ok)
        .filter(|note| note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID)
        .map(|note| note.desc())
        .find(|id| (1..=LIMIT).contains(&id.len()))
}

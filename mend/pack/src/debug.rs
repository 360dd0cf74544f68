//! Keeps a separate debug file in step with the file that it describes: program headers, addresses of sections and
//! symbols that moved, and the build ID. Its debug information needs no change, because code and data keep their
//! addresses; but profilers find symbols by offsets in the packed file.

use crate::canvas::Canvas;
use crate::draft::Draft;
use crate::facts::Facts;
use crate::image::{Image, Section, Segment, part, push_segment, push_word, u32_at, up};
use crate::refuse::notes;
use crate::sections::{Renewed, write_table};
use crate::stop::Stop;
use elf::relr::Word;
use model::{Error, Exit};
use object::elf::SHT_NOBITS;
use std::path::Path;

/// The section of a debug file's checksum in the file that it describes.
pub const LINK: &[u8] = b".gnu_debuglink";

/// The debug file for the packed file. `draft` has its offsets, `packed` the sections of the packed file.
///
/// # Errors
/// It is not the debug file of this file.
pub fn follow(
    path: &Path,
    bytes: &[u8],
    facts: &Facts<'_, '_>,
    draft: &Draft,
    packed: &Renewed,
    build_id: Option<&[u8]>,
) -> Result<Vec<u8>, Stop> {
    let foreign = |why: &str| {
        let error = Error::on(Exit::Data, format!("is not the debug file of what is packed ({why}):"), path);
        Stop::Failed(error)
    };
    let image = Image::read(bytes).map_err(|_| foreign("it is not an ELF file of the same kind"))?;
    if image.machine != facts.image.machine || image.sections.is_empty() {
        return Err(foreign("it has no sections, or is for another machine"));
    }
    let ids = [facts.image, &image].map(|image| own_id(image).map(|(_, id)| id));
    if ids[0] != ids[1] {
        return Err(foreign("its build ID is another"));
    }
    let same = |section: &Section| {
        let name = image.section_name(section);
        let place = (section.addr, section.size);
        let index =
            facts.image.sections.iter().position(|own| {
                own.is_loaded() && (own.addr, own.size) == place && facts.image.section_name(own) == name
            });
        index.map(|index| &packed.sections[index])
    };
    let loaded: Vec<&Section> = image.sections.iter().filter(|section| section.is_loaded()).collect();
    if ids[0].is_none() && !loaded.iter().any(|section| same(section).is_some()) {
        return Err(foreign("it has no build ID, and no section is the same"));
    }

    let mut canvas = Canvas::blank(bytes.len() as u64);
    canvas.paint(0, bytes);
    // Symbols first: they are looked up by where the sections were.
    let mut own = Renewed::plain(&image);
    for (index, section) in image.sections.iter().enumerate() {
        let Some(new) = same(section) else { continue };
        own.shift(index, section.addr, new.addr);
        let place = &mut own.sections[index];
        (place.addr, place.size) = (new.addr, new.size);
        if !place.has_bytes() {
            place.offset = new.offset;
        }
    }
    for (at, bytes) in own.symbols(&image) {
        canvas.paint(at, bytes);
    }
    if let (Some(id), Some((at, _))) = (build_id, own_id(&image)) {
        canvas.paint(at, id.to_vec());
    }
    // What is new in the packed file, without its bytes.
    for (section, name) in packed.added(facts.image) {
        let kind = SHT_NOBITS.0;
        own.add(Section { kind, ..section.clone() }, name);
    }

    // Both tables go to the end: nothing else has to move.
    let word = image.word;
    let names_at = canvas.len();
    let names = &mut own.sections[image.header.shstrndx as usize];
    (names.offset, names.size) = (names_at, own.names.len() as u64);
    canvas.paint(names_at, own.names.clone());
    let mut table = Vec::new();
    program_headers(facts, &image, draft, &own.sections)
        .iter()
        .for_each(|header| push_segment(&mut table, header, word));
    let headers_at = up(canvas.len(), word.bytes());
    canvas.paint(headers_at, table);
    let mut place = Vec::new();
    push_word(&mut place, headers_at, word);
    canvas.paint(if word == Word::Four { 28 } else { 32 }, place);
    canvas.paint(if word == Word::Four { 44 } else { 56 }, (draft.headers.len() as u16).to_le_bytes().to_vec());
    let table_at = up(canvas.len(), word.bytes());
    write_table(word, &mut own, table_at, &mut canvas);
    Ok(canvas.to_vec())
}

/// The program headers. Some tools leave those of the described file in place (elfutils), and then they go on to be
/// its; others let them lead to what the debug file has of the segments (binutils), which stays where it is.
fn program_headers(facts: &Facts<'_, '_>, debug: &Image<'_>, draft: &Draft, sections: &[Section]) -> Vec<Segment> {
    let place = |segment: &Segment| (segment.vaddr, segment.offset, segment.filesz);
    if debug.loads().map(place).eq(facts.image.loads().map(place)) {
        return draft.headers.clone();
    }
    let with_bytes =
        || sections.iter().filter(|section| section.is_loaded() && section.has_bytes() && section.size != 0);
    let renewed = draft.headers.iter().map(|header| {
        let old = debug.segments.iter().find(|old| old.kind == header.kind && old.vaddr == header.vaddr);
        let first = with_bytes().find(|section| section.addr == header.vaddr);
        let (offset, filesz) = match (old, first) {
            (Some(old), _) => (old.offset, old.filesz),
            (None, Some(first)) => {
                // As far as its sections follow each other.
                let end = with_bytes().fold(first.offset + first.size, |end, next| {
                    let follows = next.offset == end && next.addr.wrapping_sub(first.addr) == end - first.offset;
                    if follows { end + next.size } else { end }
                });
                (first.offset, (end - first.offset).min(header.filesz))
            }
            (None, None) => (0, 0),
        };
        Segment { offset, filesz, ..header.clone() }
    });
    renewed.collect()
}

/// The build ID, and where it is in the file.
pub fn own_id<'a>(image: &Image<'a>) -> Option<(u64, &'a [u8])> {
    // The segments of a debug file need not lead to its notes.
    let named = image.sections.iter().find(|section| image.section_name(section) == b".note.gnu.build-id");
    let by_section = named.filter(|section| section.has_bytes()).and_then(|section| {
        // The head has 12 bytes, the owner 4.
        let raw = part(image.bytes, section.offset, section.size)?;
        let len = u64::from(u32_at(raw, 4)?);
        part(raw, 16, len).filter(|id| !id.is_empty()).map(|id| (section.offset + 16, id))
    });
    by_section.or_else(|| notes(image).find(|note| note.is_build_id()).map(|note| (note.desc_at, note.desc)))
}

/// A new build ID, as long as the old one: of the old one and of what was packed, so that packing the same file again
/// gives the same.
pub fn new_id(facts: &Facts<'_, '_>) -> Option<(u64, Vec<u8>)> {
    let (at, old) = own_id(facts.image)?;
    // FNV-1a, from a beginning of its own for each eight bytes.
    let hash = |round: u64| {
        let start = 0xcbf2_9ce4_8422_2325_u64.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = old.iter().chain(&facts.relr).chain(&facts.partition.rest);
        bytes.fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    let mut id: Vec<u8> = (0..old.len().div_ceil(8) as u64).flat_map(|round| hash(round).to_le_bytes()).collect();
    id.truncate(old.len());
    Some((at, id))
}

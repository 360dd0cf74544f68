//! Turns a draft into the new file: gives everything its offset and puts the pieces together. Decides nothing.

use crate::canvas::Canvas;
use crate::canvas::Fill;
use crate::debug;
use crate::draft::{Draft, Moves};
use crate::facts::Facts;
use crate::image::{Image, Section, Segment, part, push_segment, push_word, set_word};
use crate::init::code;
use crate::layout::{self, Load, Part};
use crate::options::{BuildId, Options};
use crate::relocations::Form;
use crate::report::DynamicPlace;
use crate::sections::{Renewed, write_table};
use crate::stop::Stop;
use elf::relr::Word;
use model::Error;
use std::ops::Range;
use std::path::Path;
use verify::{Allowed, Expected, Original};

/// The new file, not written yet.
pub struct Built<'a> {
    pub canvas: Canvas<'a>,
    /// Free bytes of the file, zero now; empty where what followed moved up.
    pub freed: Range<u64>,
    /// What differs on purpose, for the oracle.
    pub expected: Expected,
    /// What the new file was made of, as the oracle has read it, if it has.
    pub original: Option<Box<Original<'a>>>,
    /// The debug file for the new file, if there was one for the old.
    pub debug: Option<Vec<u8>>,
}

/// Puts the new file together; the draft gets its offsets.
///
/// # Errors
/// There is no place for a part; the debug file is another file's; a bug.
pub fn build<'a>(
    facts: &Facts<'_, 'a>,
    draft: &mut Draft,
    moves: Moves,
    options: &Options,
    debug: Option<(&Path, &[u8])>,
) -> Result<Built<'a>, Stop> {
    let image = facts.image;
    let mut sections = Renewed::of(facts, draft, moves, options.section_type);
    let mut freed = 0..0;
    let places = match moves {
        Moves::Up => layout::shrink(image, &mut draft.loads, sections.lens())?,
        Moves::Not => {
            let start = offset(&draft.loads, draft.freed.start).ok_or_else(|| lost(draft.freed.start))?;
            freed = start..start + (draft.freed.end - draft.freed.start);
            layout::keep(image, &draft.loads, sections.lens(), &mut freed)?
        }
    };
    let mut canvas = Canvas::blank(places.len);
    match moves {
        // A file without a payload may end earlier than it did: its section table is written anew.
        Moves::Not => {
            canvas.paint(0, &image.bytes[..image.bytes.len().min(places.len as usize)]);
            for placed in places.parts.iter().filter(|placed| matches!(placed.part, Part::Section(_))) {
                if placed.at != placed.old.start
                    && let Some(bytes) = part(image.bytes, placed.old.start, placed.old.end - placed.old.start)
                {
                    canvas.paint(placed.at, bytes);
                }
            }
        }
        Moves::Up => {
            let mut copy = |from: Range<u64>, to: u64| match part(image.bytes, from.start, from.end - from.start) {
                Some(bytes) => {
                    canvas.paint(to, bytes);
                    Ok(())
                }
                None => Err(lost(from.start)),
            };
            for load in &draft.loads {
                for chunk in &load.chunks {
                    copy(chunk.from.clone(), load.head.offset + (chunk.vaddr - load.head.vaddr))?;
                }
            }
            for (from, to) in &places.fillers {
                copy(from.clone(), *to)?;
            }
            for placed in places.parts.iter().filter(|placed| matches!(placed.part, Part::Section(_))) {
                copy(placed.old.clone(), placed.at)?;
            }
        }
    }
    words(facts, &draft.loads, &mut canvas)?;
    for (vaddr, fill) in std::mem::take(&mut draft.edits) {
        let at = offset(&draft.loads, vaddr).ok_or_else(|| lost(vaddr))?;
        match fill {
            Fill::Bytes(bytes) => canvas.paint(at, bytes),
            Fill::Zero(len) => canvas.erase(at, len),
        }
    }
    program_headers(image, draft, &places, &mut canvas)?;
    if !image.sections.is_empty() {
        sections.settle(image, &draft.loads, &places);
        for (at, bytes) in sections.symbols(image) {
            canvas.paint(places.moved(at), bytes);
        }
        let table = places.of(Part::Table).ok_or_else(|| lost(image.header.shoff))?.at;
        write_table(image.word, &mut sections, table, &mut canvas);
        if let Some(names) = places.of(Part::Names) {
            canvas.paint(names.at, sections.names.clone());
        }
    }
    let mut expected = expected(draft);
    let id = (options.build_id == BuildId::New).then(|| debug::new_id(facts)).flatten();
    if let Some((at, id)) = &id {
        canvas.paint(id_place(image, draft, &places, *at)?, id.clone());
        expected.allowed.push(Allowed::BuildId);
    }
    let id = id.as_ref().map(|(_, id)| id.as_slice());
    let debug = debug.map(|(path, bytes)| debug::follow(path, bytes, facts, draft, &sections, id)).transpose()?;
    let link = image.sections.iter().find(|section| image.section_name(section) == debug::LINK);
    let link = link.and_then(Section::in_file).filter(|range| range.end - range.start >= 4);
    if let (Some(debug), Some(link)) = (&debug, link) {
        let crc = crc32fast::hash(debug).to_le_bytes().to_vec();
        canvas.paint(places.moved(link.end - 4), crc);
        expected.allowed.push(Allowed::DebugLink);
    }
    Ok(Built { canvas, freed, expected, original: None, debug })
}

/// What the oracle has to let pass besides the form of the relocations: nothing, unless a back-end, a pass or another
/// option was asked for, so that a file packed without any is proven as `thaw elf verify` proves it.
fn expected(draft: &Draft) -> Expected {
    let mut allowed = code::expected(draft);
    if draft.dynamic_place == DynamicPlace::ReadOnly {
        allowed.push(Allowed::ReadOnlyDynamic);
    }
    Expected { allowed }
}

/// Where a byte of the build ID is now.
fn id_place(image: &Image<'_>, draft: &Draft, places: &layout::Places, at: u64) -> Result<u64, Stop> {
    let load = image.loads().find(|load| load.file_range().contains(&at));
    let Some(vaddr) = load.map(|load| load.vaddr + (at - load.offset)) else { return Ok(places.moved(at)) };
    let moved = draft.moved.iter().find_map(|moved| {
        let within = vaddr.checked_sub(moved.from?).filter(|within| *within < moved.len_before)?;
        Some(moved.to + within)
    });
    offset(&draft.loads, moved.unwrap_or(vaddr)).ok_or_else(|| lost(vaddr))
}

fn lost(vaddr: u64) -> Stop {
    Stop::Failed(Error::bug(format!("the byte at {vaddr:#x} has no place in the packed file")))
}

/// The place of an address in the new file.
pub fn offset(loads: &[Load], vaddr: u64) -> Option<u64> {
    let heads = || loads.iter().map(|load| &load.head);
    let load = heads().find(|load| load.in_file().contains(&vaddr));
    // Ends count too, for what is empty, or about to be behind the end of a segment that keeps its offset.
    let load = load.or_else(|| heads().find(|load| load.in_file().end == vaddr && load.filesz != 0))?;
    Some(load.offset + (vaddr - load.vaddr))
}

/// Writes what packed words must hold. Most linkers have done so already.
fn words<'a>(facts: &Facts<'_, 'a>, loads: &[Load], canvas: &mut Canvas<'a>) -> Result<(), Stop> {
    if facts.places.main.form == Form::Rel {
        return Ok(());
    }
    let image = facts.image;
    let (packed, addends) = (&facts.partition.packed, &facts.partition.addends);
    for load in image.loads().filter(|load| load.is_writable()) {
        let first = packed.partition_point(|at| *at < load.vaddr);
        let last = packed.partition_point(|at| *at < load.in_file().end);
        let raw = part(image.bytes, load.offset, load.filesz).unwrap_or_default();
        let differs = |index: &usize| word_at_fast(raw, packed[*index] - load.vaddr, image.word) != addends[*index];
        let Some(low) = (first..last).find(|index| differs(index)) else { continue };
        let high = (first..last).rfind(|index| differs(index)).unwrap_or(low);
        let (start, end) = (packed[low], packed[high] + image.word.bytes());
        let mut bytes = image.at(start, end - start).ok_or_else(|| lost(start))?.to_vec();
        for index in low..=high {
            if !set_word(&mut bytes, packed[index] - start, addends[index], image.word) {
                return Err(lost(packed[index]));
            }
        }
        canvas.paint(offset(loads, start).ok_or_else(|| lost(start))?, bytes);
    }
    Ok(())
}

/// A word that is there; zero where it is not.
fn word_at_fast(raw: &[u8], at: u64, word: Word) -> u64 {
    crate::image::word_at(raw, at, word).unwrap_or_default()
}

fn program_headers<'a>(
    image: &Image<'a>,
    draft: &mut Draft,
    places: &layout::Places,
    canvas: &mut Canvas<'a>,
) -> Result<(), Stop> {
    let word = image.word;
    for header in &mut draft.headers {
        let load = draft.loads.iter().map(|load| &load.head).find(|load| load.vaddr == header.vaddr);
        match load {
            Some(load) if header.is_load() => header.offset = load.offset,
            _ if header.filesz == 0 && header.memsz == 0 => {}
            _ => header.offset = offset(&draft.loads, header.vaddr).unwrap_or_else(|| places.moved(header.offset)),
        }
    }
    // The table keeps its address.
    let home = image.loads().find(|load| load.file_range().contains(&image.header.phoff));
    let home = home.ok_or_else(|| lost(image.header.phoff))?;
    let phoff = offset(&draft.loads, home.vaddr + (image.header.phoff - home.offset));
    let phoff = phoff.ok_or_else(|| lost(image.header.phoff))?;
    let mut table = Vec::new();
    draft.headers.iter().for_each(|header: &Segment| push_segment(&mut table, header, word));
    table.resize(table.len().max((image.headers_end() - image.header.phoff) as usize), 0);
    canvas.paint(phoff, table);
    let mut place = Vec::new();
    push_word(&mut place, phoff, word);
    canvas.paint(if word == Word::Four { 28 } else { 32 }, place);
    let count = if word == Word::Four { 44 } else { 56 };
    canvas.paint(count, (draft.headers.len() as u16).to_le_bytes().to_vec());
    Ok(())
}

//! Fills the last page of data in the file with zeros, so that .bss begins with a page of its own.
//!
//! The loader clears the rest of the last page of data by itself, for which it has to read and copy that page. That is
//! saved, where nothing else writes to the page while the program starts. What is behind the data in the file (sections
//! that are not loaded) moves up by less than a page. Bytes for bytes nothing is gained, so it is only done where the
//! file takes no further page.

use super::draft::Draft;
use super::report::{Outcome, Pass, Report, Worth};

const PAGE: u64 = 4096;

pub fn run(draft: &mut Draft<'_>) -> Report {
    let outcome = match align(draft) {
        Ok(outcome) => outcome,
        Err(sentence) => Outcome::NotDone { sentence },
    };
    Report { pass: Pass::AlignBss, outcome, withheld: Vec::new() }
}

fn align(draft: &mut Draft<'_>) -> Result<Outcome, String> {
    let image = draft.image;
    let loads = || image.segments.iter().enumerate().filter(|(_, segment)| segment.is_load());
    let last = loads().filter(|(_, segment)| segment.memory_len > segment.file_len && segment.is_writable());
    let (index, segment) = last.max_by_key(|(_, segment)| segment.address).ok_or("it has no .bss")?;
    let overflow = || "its last segment ends beyond the end of the file".to_owned();
    let end = segment.address.checked_add(segment.file_len).ok_or_else(overflow)?;
    let end_offset = segment.offset.checked_add(segment.file_len).ok_or_else(overflow)?;
    let memory_end = segment.address.checked_add(segment.memory_len).ok_or_else(overflow)?;
    let file_len = image.data.len() as u64;
    if end_offset > file_len {
        return Err(overflow());
    }
    if end.is_multiple_of(PAGE) {
        return Err(".bss begins with a page already".to_owned());
    }
    let page_end = end.next_multiple_of(PAGE).min(memory_end);
    let fill = page_end - end;
    let page = end - end % PAGE;
    let saves = Worth { pages: 1, ..Worth::default() };

    let written = draft.targets()?.filter(|target| (page..end).contains(target)).count();
    if written != 0 {
        let sentence = format!("{written} relocations write to the last page of data anyway");
        return Ok(Outcome::CostsMore { saves: Worth::default(), costs: Worth { bytes: fill, ..saves }, sentence });
    }
    if loads().any(|(other, load)| other != index && load.offset.saturating_add(load.file_len) > end_offset) {
        return Err("another segment lies behind its data in the file".to_owned());
    }
    // Zeros that belong to nobody can be taken as they are.
    let behind = image.sections.iter().filter(|section| section.in_file() && section.len != 0);
    let behind =
        behind.map(|section| section.offset).chain([draft.section_headers().start, draft.program_headers().start]);
    let next = behind.filter(|offset| *offset >= end_offset).min().unwrap_or(file_len);
    let free = image.data.get(end_offset as usize..(end_offset + fill) as usize);
    let taken = next >= end_offset + fill && free.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
    if !taken {
        // Rounded, so that what moves keeps its alignment.
        let inserted = fill.next_multiple_of(64);
        if draft.program_headers().start >= end_offset {
            return Err("the program headers lie behind its data".to_owned());
        }
        let more_pages = (file_len + inserted).div_ceil(PAGE) - file_len.div_ceil(PAGE);
        let costs = Worth { pages: more_pages, bytes: inserted, ..Worth::default() };
        if more_pages != 0 {
            let sentence = format!("the file would take {more_pages} page more");
            return Ok(Outcome::CostsMore { saves, costs, sentence });
        }
        draft.insert(end_offset, inserted);
    }
    draft.set_segment_len(index, segment.file_len + fill, segment.memory_len);
    let sentence = format!("the last page of data is filled up by {fill} bytes");
    Ok(Outcome::Done { saves, sentence })
}

//! Memory against memory: what may move, the bytes of everything else, and how its pages are protected.

use crate::bytes::shown;
use crate::expected::{Allowed, Expected, Word};
use crate::file::{Elf, Section};
use crate::image::{Image, Piece};
use crate::notes::{Note, notes};
use crate::spans::Spans;
use crate::spec::*;
use crate::tables::Tables;
use crate::{Findings, Kind, both};

/// Addresses of the original whose bytes are not compared, because what they hold is compared by meaning: the headers,
/// the tables that only the dynamic table leads to, the dynamic table, and the interpreter's name and the notes that
/// moved.
pub(crate) fn movable(old: &Elf, tables: &Tables, new: &Elf) -> Spans {
    let mut ranges: Vec<(u64, u64)> = tables.regions.iter().map(|region| (region.at, region.len)).collect();
    ranges.push((old.dynamic.at, old.dynamic.len));
    ranges.extend(old.address_of(0).map(|at| (at, old.header_len)));
    ranges.extend(old.address_of(old.segments_offset).map(|at| (at, old.segments_len)));
    for kind in [PT_INTERP, PT_GNU_PROPERTY] {
        if let (Some(before), Some(after)) = (old.segment(kind), new.segment(kind))
            && before.at != after.at
        {
            ranges.push((before.at, before.mem_len));
        }
    }
    let kept = notes(new);
    ranges.extend(notes(old).iter().filter(|note| !kept.iter().any(|kept| kept.at == note.at)).map(Note::range));
    let tight = Spans::new(ranges.clone());
    // What stays ends the padding of what moves, too.
    ranges.extend(old.segment(PT_INTERP).map(|segment| (segment.at, segment.mem_len)));
    ranges.extend(notes(old).iter().map(Note::range));
    let known = Spans::new(ranges);
    let loose = tight.ranges().iter().map(|(start, end)| {
        let (start, end) = (start - padding_before(old, &known, *start), end + padding_behind(old, &known, *end));
        (start, end - start)
    });
    Spans::new(loose.collect::<Vec<_>>())
}

/// Padding only aligns what comes next: it is short, zero, and of no section.
const MOST_PADDING: u64 = 64;

fn padding_behind(elf: &Elf, known: &Spans, end: u64) -> u64 {
    let rest = elf.rest(end).unwrap_or(b"");
    let zeros = rest.iter().take(MOST_PADDING as usize).take_while(|byte| **byte == 0).count();
    let limit = end.saturating_add(zeros as u64);
    if elf.sections.is_empty() {
        // Nothing says what the bytes belong to, unless another known table follows.
        let next = known.ranges().iter().map(|range| range.0).find(|start| *start >= end);
        return next.filter(|start| *start <= limit).map_or(0, |start| start - end);
    }
    let next = elf.loaded_sections().filter(|section| section.end() > end).map(|section| section.at).min();
    next.map_or(limit, |next| next.clamp(end, limit)) - end
}

fn padding_before(elf: &Elf, known: &Spans, start: u64) -> u64 {
    let first = elf.load_at(start).map_or(start, |load| load.at.max(start.saturating_sub(MOST_PADDING)));
    let bytes = elf.slice(first, start - first).unwrap_or(b"");
    let limit = start - bytes.iter().rev().take_while(|byte| **byte == 0).count() as u64;
    if elf.sections.is_empty() {
        // As behind: only between two known tables.
        let before = known.ranges().iter().map(|range| range.1).filter(|end| *end <= start).max();
        return before.filter(|end| *end >= limit).map_or(0, |end| start - end);
    }
    let last = elf.loaded_sections().filter(|section| section.at < start).map(Section::end).max();
    start - last.unwrap_or(limit).clamp(limit, start)
}

/// Every byte of the original's memory outside `skipped`, and that the packed file adds nothing but zeros to it.
pub(crate) fn memory(old: &Image, new: &Image, skipped: &Spans, findings: &mut Findings) {
    let parts: Vec<(u64, u64)> = old.memory().flat_map(|(start, end)| skipped.outside(start, end)).collect();
    let total: u64 = parts.iter().map(|(from, to)| to - from).sum();
    let [front, back] = halves(&parts, total / 2);
    let compare = |parts: &[(u64, u64)]| {
        let mut found = Findings::default();
        parts.iter().for_each(|(from, to)| stretch(old, new, *from, *to, &mut found));
        found
    };
    let (front, back) = both(total as usize, || compare(&front), || compare(&back));
    findings.append(front);
    findings.append(back);
}

/// The first so many bytes of some ranges, and the rest.
fn halves(parts: &[(u64, u64)], len: u64) -> [Vec<(u64, u64)>; 2] {
    let (mut front, mut back, mut room) = (Vec::new(), Vec::new(), len);
    for (from, to) in parts {
        let middle = from + room.min(to - from);
        room -= middle - from;
        front.push((*from, middle));
        back.push((middle, *to));
    }
    [front, back].map(|part| part.into_iter().filter(|(from, to)| from < to).collect())
}

/// The same for the pages that relocations touch; all others do not depend on the base.
pub(crate) fn touched_memory(old: &Image, new: &Image, skipped: &Spans, findings: &mut Findings) {
    let touched = Spans::new(old.touched().chain(new.touched()));
    for (start, end) in old.memory() {
        let first = touched.ranges().partition_point(|range| range.1 <= start);
        for range in touched.ranges()[first..].iter().take_while(|range| range.0 < end) {
            for (from, to) in skipped.outside(range.0.max(start), range.1.min(end)) {
                stretch(old, new, from, to, findings);
            }
        }
    }
}

fn stretch(old: &Image, new: &Image, from: u64, to: u64, findings: &mut Findings) {
    let mut at = from;
    while at < to {
        let before = old.piece(at, to - at);
        let after = new.piece(at, before.len());
        let len = after.len();
        let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        match (&before, &after) {
            (Piece::Bytes(before), Piece::Bytes(after)) => {
                let before = &before[..after.len()];
                if before != *after {
                    for (start, run) in differing_runs(before, after) {
                        findings.add(Kind::Memory, Some(at + start as u64), || {
                            let (before, after) = (&before[start..start + run], &after[start..start + run]);
                            format!("{} became {} at base {:#x}", hex(before), hex(after), old.base())
                        });
                    }
                }
            }
            (Piece::Bytes(before), Piece::Zeros(_)) if !zeros(&before[..len as usize]) => {
                findings.add(Kind::Memory, Some(at), || format!("{len} bytes of the file became zero"));
            }
            (Piece::Zeros(_), Piece::Bytes(after)) if !zeros(after) => {
                findings.add(Kind::Memory, Some(at), || format!("{len} zero bytes became bytes of the file"));
            }
            (_, Piece::Nothing(_)) => {
                findings.add(Kind::Memory, Some(at), || format!("{len} bytes are not in memory any more"));
            }
            _ => {}
        }
        findings.checked_bytes(len);
        at += len;
    }
}

/// Memory that only the packed file has must be zero, or a table that is compared by meaning, or expected.
pub(crate) fn additions(
    old: &Image,
    new: &Image,
    elf: &Elf,
    tables: &Tables,
    expected: &Expected,
    findings: &mut Findings,
) {
    let mut ranges: Vec<(u64, u64)> = old.memory().map(|(start, end)| (start, end - start)).collect();
    ranges.extend(tables.regions.iter().map(|region| (region.at, region.len)));
    ranges.push((elf.dynamic.at, elf.dynamic.len));
    ranges.extend(elf.address_of(elf.segments_offset).map(|at| (at, elf.segments_len)));
    ranges.extend(elf.segment(PT_INTERP).map(|segment| (segment.at, segment.mem_len)));
    ranges.extend(notes(elf).iter().map(Note::range));
    ranges.extend(expected.new_ranges());
    let known = Spans::new(ranges);
    for (start, end) in new.memory() {
        for (from, to) in known.outside(start, end) {
            let mut at = from;
            while at < to {
                let piece = new.piece(at, to - at);
                if let Piece::Bytes(bytes) = &piece
                    && bytes.iter().any(|byte| *byte != 0)
                {
                    findings.add(Kind::Memory, Some(at), || format!("{} bytes are new", bytes.len()));
                }
                at += piece.len();
            }
        }
    }
}

/// Words that the rewriter said it changes hold what it said.
pub(crate) fn expected_words(new: &Image, expected: &Expected, findings: &mut Findings) {
    for (at, word) in expected.words() {
        let wanted = match word {
            Word::Plain(value) => value,
            Word::Address(value) => new.wrap(value.wrapping_add(new.base())),
        };
        if new.read(at) != Some(wanted) {
            findings.add(Kind::Expected, Some(at), || {
                let found = new.read(at).map_or("nothing".to_owned(), |found| format!("{found:#x}"));
                format!("the word was to become {wanted:#x}, and holds {found} at base {:#x}", new.base())
            });
        }
    }
}

/// Relocations that both or neither of the files write outside its memory.
pub(crate) fn misplaced(old: &Image, new: &Image, findings: &mut Findings) {
    let (mut before, mut after) = (old.misplaced.clone(), new.misplaced.clone());
    before.sort_unstable();
    after.sort_unstable();
    if before != after {
        let at = after.iter().find(|at| !before.contains(at)).or(before.first()).copied();
        findings.add(Kind::Relocation, at, || {
            format!("{} relocations lie outside the memory, and {} did before", after.len(), before.len())
        });
    }
}

/// Where two equally long pieces differ: start and length of each run.
pub(crate) fn differing_runs<'a>(before: &'a [u8], after: &'a [u8]) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let len = before.len().min(after.len());
    let mut at = 0;
    std::iter::from_fn(move || {
        // Whole blocks first: that is a memcmp, and most of them are equal.
        while at + 512 <= len && before[at..at + 512] == after[at..at + 512] {
            at += 512;
        }
        while at < len && before[at] == after[at] {
            at += 1;
            if at % 512 == 0 {
                while at + 512 <= len && before[at..at + 512] == after[at..at + 512] {
                    at += 512;
                }
            }
        }
        let start = at;
        while at < len && before[at] != after[at] {
            at += 1;
        }
        (start < at).then_some((start, at - start))
    })
}

/// A few bytes as people read them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const MOST: usize = 16;
    let mut text: String = bytes.iter().take(MOST).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > MOST {
        text.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    text
}

/// Access to every byte outside `skipped`, after RELRO is applied. What the original asks to seal may be sealed also
/// where its own last page was too short for that.
pub(crate) fn protections(old: &Elf, new: &Elf, skipped: &Spans, findings: &mut Findings) {
    for page in old.machine.pages {
        for load in old.loads() {
            for (from, to) in skipped.outside(load.at, load.end()) {
                let mut at = from;
                while at < to {
                    let (before, until) = access(old, at, *page);
                    let (after, end) = access(new, at, *page);
                    let meant = old.segment(PT_GNU_RELRO).filter(|relro| relro.at <= at && at < relro.end());
                    let until = meant.map_or(until, |relro| until.min(relro.end()));
                    let next = until.min(end).min(to).max(at + 1);
                    let sealed = meant.is_some() && before.map(|flags| flags & !PF_W) == after;
                    if before != after && !sealed {
                        findings.add(Kind::Protection, Some(at), || {
                            let len = next - at;
                            format!("{len} bytes were {} and are {}, pages of {page}", letters(before), letters(after))
                        });
                    }
                    at = next;
                }
            }
        }
    }
}

/// Access to an address, and how far it is the same.
fn access(elf: &Elf, at: u64, page: u64) -> (Option<u32>, u64) {
    let Some(load) = elf.load_at(at) else {
        let next = elf.loads().map(|load| load.at).filter(|start| *start > at).min();
        return (None, next.unwrap_or(u64::MAX));
    };
    // The loader rounds both ends down.
    let sealed = elf.segment(PT_GNU_RELRO).map(|relro| (relro.at / page * page, relro.end() / page * page));
    let flags = load.flags & (PF_R | PF_W | PF_X);
    match sealed {
        Some((start, end)) if start <= at && at < end => (Some(flags & !PF_W), end.min(load.end())),
        Some((start, _)) if at < start => (Some(flags), start.min(load.end())),
        _ => (Some(flags), load.end()),
    }
}

fn letters(flags: Option<u32>) -> String {
    let Some(flags) = flags else { return "not there".to_owned() };
    let letter = |flag, letter| if flags & flag != 0 { letter } else { '-' };
    [letter(PF_R, 'r'), letter(PF_W, 'w'), letter(PF_X, 'x')].iter().collect()
}

/// The interpreter and the notes, by what they say.
pub(crate) fn interpreter_and_notes(old: &Elf, new: &Elf, expected: &Expected, findings: &mut Findings) {
    let interpreter = |elf: &Elf| -> Option<Vec<u8>> {
        let segment = elf.segment(PT_INTERP)?;
        Some(elf.in_file(segment.offset, segment.file_len).unwrap_or(b"").to_vec())
    };
    let (before, after) = (interpreter(old), interpreter(new));
    if before != after {
        let text = |name: &Option<Vec<u8>>| name.as_ref().map_or("nothing".to_owned(), |name| shown(name));
        findings.add(Kind::Segment, None, || format!("the interpreter was {} and is {}", text(&before), text(&after)));
    }
    let (before, mut after) = (notes(old), notes(new));
    for note in &before {
        let found = after.iter().position(|other| other.same_as(note, expected.allows(&Allowed::BuildId)));
        match found.map(|index| after.remove(index)) {
            None => findings.add(Kind::Note, Some(note.at), || format!("{} is gone or changed", note.shown())),
            Some(kept) if kept.at != note.at && !note.may_move_to(kept.at) => {
                findings.add(Kind::Note, Some(note.at), || {
                    format!("{} moved to {:#x}, where it may not lie", note.shown(), kept.at)
                });
            }
            Some(_) => {}
        }
    }
    for note in &after {
        findings.add(Kind::Note, Some(note.at), || format!("{} is new", note.shown()));
    }
    fn property<'a>(elf: &Elf<'a>) -> Option<Option<&'a [u8]>> {
        elf.segment(PT_GNU_PROPERTY).map(|segment| elf.in_file(segment.offset, segment.file_len))
    }
    let same = match (property(old), property(new)) {
        (Some(before), Some(after)) => before == after,
        (before, after) => before.is_none() && after.is_none(),
    };
    if !same {
        findings.add(Kind::Note, None, || "PT_GNU_PROPERTY is gone or changed".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_that_a_walk_byte_by_byte_finds() {
        let lists: [&[usize]; 10] = [
            &[],
            &[0],
            &[511],
            &[512],
            &[511, 512],
            &[0, 1, 2, 600, 1023, 1024],
            &[1535],
            &[5, 7, 9, 1400],
            &[1536, 1537, 1599],
            &[1598, 1599],
        ];
        for changed in lists {
            let before = vec![7_u8; 1600];
            let mut after = before.clone();
            changed.iter().for_each(|at| after[*at] = 8);
            let mut expected: Vec<(usize, usize)> = Vec::new();
            for at in changed {
                match expected.last_mut() {
                    Some((start, len)) if *start + *len == *at => *len += 1,
                    _ => expected.push((*at, 1)),
                }
            }
            assert_eq!(differing_runs(&before, &after).collect::<Vec<_>>(), expected);
        }
        assert_eq!(differing_runs(&[1, 2, 3], &[0, 0, 0]).collect::<Vec<_>>(), [(0, 3)]);
        assert_eq!(differing_runs(&[], &[]).count(), 0);
    }

    #[test]
    fn ranges_are_cut_into_a_front_and_the_rest() {
        let parts = [(0, 10), (20, 25), (30, 40)];
        assert_eq!(halves(&parts, 12), [vec![(0, 10), (20, 22)], vec![(22, 25), (30, 40)]]);
        assert_eq!(halves(&parts, 10), [vec![(0, 10)], vec![(20, 25), (30, 40)]]);
        assert_eq!(halves(&parts, 0), [vec![], parts.to_vec()]);
        assert_eq!(halves(&parts, 25), [parts.to_vec(), vec![]]);
    }

    #[test]
    fn sixteen_bytes_are_shown_and_more_are_counted() {
        assert_eq!(hex(&[0xab, 1]), "ab01");
        assert_eq!(hex(&[0; 16]), "0".repeat(32));
        assert_eq!(hex(&[0; 17]), format!("{}... (17 bytes)", "0".repeat(32)));
    }
}

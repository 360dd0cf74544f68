//! Entries whose first bytes cannot be replaced by a jump, because code of other functions jumps into them.

use super::starts::Function;
use super::stub::JUMP;
use std::ops::Range;
use std::panic::resume_unwind;

/// So far back a short branch reaches behind its own two bytes, and one byte less forward.
const SHORT: u64 = 128;

/// Indexes of functions, in their order, that code outside of them may enter behind their first byte and before the end
/// of a jump. Each byte is taken for the begin of a branch, as nobody knows where instructions begin: that finds too
/// many, never too few of those that are encoded as branches.
///
/// `text` begins at `from` in the file; `functions` are those of the file, by offset.
pub fn jumped_into(text: &[u8], from: u64, functions: &[Function]) -> Vec<usize> {
    let within = functions.partition_point(|function| function.offset < from)
        ..functions.partition_point(|function| function.offset < from + text.len() as u64);
    let mut inner = vec![0_u64; text.len().div_ceil(64)];
    for function in &functions[within.clone()] {
        for at in (1..JUMP).map(|more| (function.offset - from) as usize + more).take_while(|at| *at < text.len()) {
            inner[at / 64] |= 1 << (at % 64);
        }
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let part = |worker: usize| {
        let of = |all: Range<usize>| {
            let share = all.len().div_ceil(workers);
            (all.start + worker * share).min(all.end)..(all.start + (worker + 1) * share).min(all.end)
        };
        let mut found = by_long(text, of(0..text.len()), from, functions, &inner);
        found.extend(of(within.clone()).filter(|index| is_short_target(text, functions[*index], from)));
        found
    };
    let mut found: Vec<usize> = std::thread::scope(|scope| {
        let part = &part;
        let others: Vec<_> = (1..workers).map(|worker| scope.spawn(move || part(worker))).collect();
        let first = part(0);
        // Entries that were not looked at are not known to be safe.
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|cause| resume_unwind(cause)));
        joined.flatten().chain(first).collect()
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// Branches that lead into one of these places, which are in order and apart, in offsets of the file: the number of the
/// place, and where the branch is. Each byte is taken for the begin of a branch, as above.
pub fn branches_into(text: &[u8], from: u64, places: &[Range<u64>]) -> Vec<(usize, u64)> {
    let mut inner = vec![0_u64; text.len().div_ceil(64)];
    let end = from + text.len() as u64;
    for target in places.iter().cloned().flatten().filter(|target| (from..end).contains(target)) {
        let at = (target - from) as usize;
        inner[at / 64] |= 1 << (at % 64);
    }
    let is_inner = |at: usize| inner.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0);
    let place_of = |target: u64| places.partition_point(|place| place.end <= target);
    let long = |part: Range<usize>| -> Vec<(usize, u64)> {
        let candidates = memchr::memchr3_iter(0xe8, 0xe9, 0x0f, &text[part.clone()]).map(|at| part.start + at);
        let found = candidates.filter_map(|at| {
            let target = long_target(text, at).filter(|target| is_inner(*target))?;
            Some((place_of(from + target as u64), from + at as u64))
        });
        found.collect()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let share = text.len().div_ceil(workers);
    let parts = (0..workers).map(|worker| (worker * share).min(text.len())..((worker + 1) * share).min(text.len()));
    let mut found: Vec<(usize, u64)> = std::thread::scope(|scope| {
        let long = &long;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || long(part))).collect();
        // Places that were not looked at are not known to be safe.
        let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|cause| resume_unwind(cause)));
        joined.flatten().collect()
    });
    for (number, place) in places.iter().enumerate() {
        let sources = place.start.saturating_sub(SHORT + 1).max(from)..(place.end + SHORT).min(end);
        found.extend(sources.filter_map(|source| {
            let at = (source - from) as usize;
            let way = text.get(at + 1)?.cast_signed();
            let target = (source + 2).checked_add_signed(way.into())?;
            (is_short(text[at]) && place.contains(&target)).then_some((number, source))
        }));
    }
    found
}

/// Where a branch with a way of four bytes would lead, if one were at an offset.
fn long_target(text: &[u8], at: usize) -> Option<usize> {
    let operand = match text[at] {
        0x0f if text.get(at + 1).is_some_and(|second| second & 0xf0 == 0x80) => at + 2,
        0x0f => return None,
        _ => at + 1,
    };
    let bytes = text.get(operand..operand + 4)?;
    let way = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    (operand + 4).checked_add_signed(way as isize)
}

fn is_short(byte: u8) -> bool {
    matches!(byte, 0x70..=0x7f | 0xe0..=0xe3 | 0xeb)
}

/// Functions that branches with a way of four bytes lead into.
fn by_long(text: &[u8], part: Range<usize>, from: u64, functions: &[Function], inner: &[u64]) -> Vec<usize> {
    let mut found = Vec::new();
    for at in memchr::memchr3_iter(0xe8, 0xe9, 0x0f, &text[part.clone()]).map(|at| part.start + at) {
        let Some(target) = long_target(text, at) else { continue };
        if inner.get(target / 64).is_none_or(|word| word & (1 << (target % 64)) == 0) {
            continue;
        }
        let (source, target) = (from + at as u64, from + target as u64);
        // Two may begin close to each other.
        let after = functions.partition_point(|function| function.offset < target);
        let near = functions[..after].iter().enumerate().rev();
        let near = near.take_while(|(_, function)| target - function.offset < JUMP as u64);
        found.extend(near.filter(|(_, function)| !is_inside(**function, source)).map(|(index, _)| index));
    }
    found
}

fn is_inside(function: Function, offset: u64) -> bool {
    (function.offset..function.offset.saturating_add(function.len)).contains(&offset)
}

/// Whether a branch with a way of one byte leads into a function from outside.
fn is_short_target(text: &[u8], function: Function, from: u64) -> bool {
    let entry = (function.offset - from) as usize;
    let leads = |sources: Range<u64>| {
        if sources.is_empty() {
            return false;
        }
        let (start, end) = (sources.start.max(from) - from, sources.end.saturating_sub(from));
        let (start, end) = (start as usize, (end as usize).min(text.len().saturating_sub(1)));
        let ways = text.get(start + 1..end + 1).unwrap_or_default();
        // The way that would lead to the second byte of the function, and three more.
        let first = entry.wrapping_sub(start + 1) as u8;
        let mut places = ways.iter().zip(0_u8..).enumerate();
        places.any(|(at, (way, more))| {
            way.wrapping_sub(first.wrapping_sub(more)) < JUMP as u8 - 1 && is_short(text[start + at])
        })
    };
    let before = function.offset.saturating_sub(SHORT)..function.offset;
    let after = function.offset.saturating_add(function.len.max(1))..function.offset + SHORT + JUMP as u64;
    leads(before) || leads(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(offset: u64, len: u64) -> Function {
        Function { offset, len }
    }

    #[test]
    fn branches_from_elsewhere_are_found_and_loops_are_not() {
        // At 0x1000: 16 bytes whose loop leads to its second byte. At 0x1010: entered at its fourth byte from 0x1030.
        let mut text = vec![0x90; 0x60];
        text[8..10].copy_from_slice(&[0xeb, 0xf7]);
        text[0x30] = 0xe9;
        text[0x31..0x35].copy_from_slice(&(0x13_i32 - 0x35).to_le_bytes());
        // Entered at its first byte, and at its sixth.
        text[0x40..0x42].copy_from_slice(&[0x74, (0x20_i8 - 0x42).cast_unsigned()]);
        text[0x48..0x4a].copy_from_slice(&[0x7f, (0x25_i8 - 0x4a).cast_unsigned()]);
        let functions = [function(0x1000, 16), function(0x1010, 16), function(0x1020, 16), function(0x1030, 0x30)];
        assert_eq!(jumped_into(&text, 0x1000, &functions), [1]);
    }

    #[test]
    fn branches_of_the_function_itself_lead_into_places_too() {
        let mut text = vec![0x90; 0x200];
        text[8..10].copy_from_slice(&[0xeb, 0xf7]);
        text[0x1f0] = 0xe8;
        text[0x1f1..0x1f5].copy_from_slice(&(0x104_i32 - 0x1f5).to_le_bytes());
        // Too far for one byte, and to the place's end.
        text[0x110..0x112].copy_from_slice(&[0x74, (0x105_i32 - 0x112) as i8 as u8]);
        let mut found = branches_into(&text, 0x1000, &[0x1001..0x1005, 0x1101..0x1105]);
        found.sort_unstable();
        assert_eq!(found, [(0, 0x1008), (1, 0x11f0)]);
        let place = 0..5;
        assert_eq!(branches_into(&[], 0, std::slice::from_ref(&place)), []);
    }

    #[test]
    fn a_length_that_no_file_has_runs_over_nothing() {
        let mut text = vec![0x90; 0x40];
        text[0x20] = 0xe8;
        text[0x21..0x25].copy_from_slice(&(0x02_i32 - 0x25).to_le_bytes());
        assert_eq!(jumped_into(&text, 0, &[function(0, u64::MAX), function(1, 2), function(0x20, u64::MAX)]), [1]);
    }

    #[test]
    fn a_branch_of_six_bytes_and_one_of_unknown_length_count() {
        let mut text = vec![0x90; 0x40];
        text[0x20..0x22].copy_from_slice(&[0x0f, 0x8f]);
        text[0x22..0x26].copy_from_slice(&(0x02_i32 - 0x26).to_le_bytes());
        assert_eq!(jumped_into(&text, 0, &[function(0, 0), function(0x20, 32)]), [0]);
        assert_eq!(jumped_into(&[], 0, &[function(0, 0)]), Vec::<usize>::new());
    }
}

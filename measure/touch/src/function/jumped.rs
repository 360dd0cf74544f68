//! Entries whose first bytes cannot be replaced by a jump, because code of other functions jumps into them.

use super::displaced::instructions;
use super::starts::Function;
use super::stub::JUMP;
use std::ops::Range;
use std::panic::resume_unwind;

/// So far back a short branch reaches behind its own two bytes, and one byte less forward.
const SHORT: u64 = 128;
/// So many bytes of text are looked at together.
const BLOCK: usize = 64;
/// Functions begin at multiples of it, nearly all of them.
const ALIGNED: usize = 16;
/// Bits of what is told of the others at a glance: it stays in a processor's nearest cache but one.
const GLANCE: usize = 1 << 19;

/// Bytes of a text that no branch may lead to. Nearly every call of a text is asked about, and a bit for each byte of a
/// large one is in no cache: what leads to a begin of a function, as calls do, is told apart before.
struct Inner {
    bits: Vec<u64>,
    /// Whether there may be one of these that is not right behind a multiple of [`ALIGNED`].
    glance: Vec<u64>,
}

impl Inner {
    fn of(len: usize, places: impl Iterator<Item = usize>) -> Self {
        let mut inner = Self { bits: vec![0; len.div_ceil(64)], glance: vec![0; GLANCE / 64] };
        for at in places.filter(|at| *at < len) {
            inner.bits[at / 64] |= 1 << (at % 64);
            if !Self::is_usual(at) {
                let (word, bit) = Self::glanced(at);
                inner.glance[word] |= bit;
            }
        }
        inner
    }

    fn is_usual(at: usize) -> bool {
        (1..JUMP).contains(&(at % ALIGNED))
    }

    fn glanced(at: usize) -> (usize, u64) {
        let bit = at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - GLANCE.ilog2());
        (bit / 64, 1 << (bit % 64))
    }

    fn has(&self, at: usize) -> bool {
        let may_be = Self::is_usual(at) || {
            let (word, bit) = Self::glanced(at);
            self.glance[word] & bit != 0
        };
        may_be && self.bits.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }
}

/// Indexes of functions, in their order, that code outside of them may enter behind their first byte and before the end
/// of a jump: where a branch is or may be one, see [`Branches`]. That finds too many, never too few of those that are
/// encoded as branches.
///
/// `text` begins at `from` in the file; `functions` are those of the file, by offset.
pub fn jumped_into(text: &[u8], from: u64, functions: &[Function]) -> Vec<usize> {
    let mut found = maybe_jumped_into(text, from, functions);
    // The others cannot begin with a jump anyway. Few are left: the second look through the text asks about these.
    let apart: Vec<usize> = found.iter().copied().filter(|index| is_apart(functions, *index)).collect();
    let place = |index: &usize| functions[*index].offset + 1..functions[*index].offset + JUMP as u64;
    let places: Vec<_> = apart.iter().map(place).collect();
    let mut branches = Branches::of(text, from, functions);
    let mut entered: Vec<usize> = branches_into(text, from, &places)
        .into_iter()
        .map(|(place, source)| (apart[place], source))
        .filter(|(index, source)| !is_inside(functions[*index], *source) && branches.may_be(*source))
        .map(|(index, _)| index)
        .collect();
    entered.sort_unstable();
    found.retain(|index| !is_apart(functions, *index) || entered.binary_search(index).is_ok());
    found
}

/// Whether a jump fits between the begin of a function and that of the next one.
pub fn is_apart(functions: &[Function], index: usize) -> bool {
    functions.get(index + 1).is_none_or(|next| next.offset - functions[index].offset >= JUMP as u64)
}

/// Tells branches from bytes that look like one and lie within an instruction, by the instructions of the function
/// around them. Where nobody knows these, or they do not agree with the function's length and its own branches (there
/// is data among them), it may be a branch.
pub struct Branches<'a> {
    text: &'a [u8],
    from: u64,
    functions: &'a [Function],
    /// The function that was looked at last, and where its instructions begin.
    last: Option<(Function, Option<Vec<bool>>)>,
}

impl<'a> Branches<'a> {
    /// Of a text that begins at `from` in the file; `functions` are those of the file, by offset.
    pub fn of(text: &'a [u8], from: u64, functions: &'a [Function]) -> Self {
        Self { text, from, functions, last: None }
    }

    /// Whether there may be a branch at an offset. Fastest in the order of offsets.
    pub fn may_be(&mut self, source: u64) -> bool {
        let after = self.functions.partition_point(|function| function.offset <= source);
        let Some(function) = after.checked_sub(1).map(|last| self.functions[last]) else { return true };
        if function.offset < self.from || source - function.offset >= function.len {
            return true;
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last != function) {
            let begin = (function.offset - self.from) as usize;
            let code = usize::try_from(function.len).ok().and_then(|len| self.text.get(begin..)?.get(..len));
            self.last = Some((function, code.and_then(instructions)));
        }
        let begins = self.last.as_ref().and_then(|(_, begins)| begins.as_ref());
        begins.is_none_or(|begins| begins[(source - function.offset) as usize])
    }
}

/// Those that [`jumped_into`] has to look at: each byte is taken for the begin of a branch.
fn maybe_jumped_into(text: &[u8], from: u64, functions: &[Function]) -> Vec<usize> {
    let within = functions.partition_point(|function| function.offset < from)
        ..functions.partition_point(|function| function.offset < from + text.len() as u64);
    let begins = functions[within.clone()].iter().map(|function| (function.offset - from) as usize);
    let inner = Inner::of(text.len(), begins.flat_map(|begin| begin + 1..begin + JUMP));
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
/// place, and where the branch is. Each byte is taken for the begin of a branch: see [`Branches`] for which are.
pub fn branches_into(text: &[u8], from: u64, places: &[Range<u64>]) -> Vec<(usize, u64)> {
    let end = from + text.len() as u64;
    let targets = places.iter().cloned().flatten().filter(|target| (from..end).contains(target));
    let inner = Inner::of(text.len(), targets.map(|target| (target - from) as usize));
    let place_of = |target: u64| places.partition_point(|place| place.end <= target);
    let long = |part: Range<usize>| -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        each_long(text, part, |at, target| {
            if inner.has(target) {
                found.push((place_of(from + target as u64), from + at as u64));
            }
        });
        found
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

/// Calls `each` with every place in a part of a text where a branch with a way of four bytes (`call`, `jmp`, `jcc`) may
/// begin, and with where it would lead.
fn each_long(text: &[u8], part: Range<usize>, mut each: impl FnMut(usize, usize)) {
    for begin in part.clone().step_by(BLOCK) {
        let marks = match (text[begin..].first_chunk(), text.get(begin + 1..).and_then(|rest| rest.first_chunk())) {
            (Some(firsts), Some(seconds)) => marks(firsts, seconds),
            _ => {
                let mut last = [0; BLOCK + 1];
                last[..text.len() - begin].copy_from_slice(&text[begin..]);
                let (firsts, seconds) = (last.first_chunk().unwrap_or(&[0; BLOCK]), last.last_chunk());
                marks(firsts, seconds.unwrap_or(&[0; BLOCK]))
            }
        };
        for (eight, word) in marks.as_chunks().0.iter().enumerate() {
            let mut word = u64::from_le_bytes(*word);
            while word != 0 {
                let at = begin + eight * 8 + word.trailing_zeros() as usize / 8;
                word &= word - 1;
                let operand = if text[at] == 0x0f { at + 2 } else { at + 1 };
                let way = text.get(operand..).and_then(|rest| rest.first_chunk()).copied().map(i32::from_le_bytes);
                if let Some(target) = way.and_then(|way| (operand + 4).checked_add_signed(way as isize))
                    && at < part.end
                {
                    each(at, target);
                }
            }
        }
    }
}

/// 1 where such a branch may begin, of a block and the bytes behind each of its bytes.
fn marks(firsts: &[u8; BLOCK], seconds: &[u8; BLOCK]) -> [u8; BLOCK] {
    let mut marks = [0; BLOCK];
    for ((mark, first), second) in marks.iter_mut().zip(firsts).zip(seconds) {
        let (jumps, branches) = (first & 0xfe == 0xe8, (*first == 0x0f) & (second & 0xf0 == 0x80));
        *mark = u8::from(jumps | branches);
    }
    marks
}

/// Without a jump, so that many are asked about together.
fn is_short(byte: u8) -> bool {
    (byte & 0xf0 == 0x70) | (byte & 0xfc == 0xe0) | (byte == 0xeb)
}

/// Functions that branches with a way of four bytes lead into.
fn by_long(text: &[u8], part: Range<usize>, from: u64, functions: &[Function], inner: &Inner) -> Vec<usize> {
    let mut found = Vec::new();
    each_long(text, part, |at, target| {
        if !inner.has(target) {
            return;
        }
        let (source, target) = (from + at as u64, from + target as u64);
        // Two may begin close to each other.
        let after = functions.partition_point(|function| function.offset < target);
        let near = functions[..after].iter().enumerate().rev();
        let near = near.take_while(|(_, function)| target - function.offset < JUMP as u64);
        found.extend(near.filter(|(_, function)| !is_inside(**function, source)).map(|(index, _)| index));
    });
    found
}

fn is_inside(function: Function, offset: u64) -> bool {
    (function.offset..function.offset.saturating_add(function.len.max(1))).contains(&offset)
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
        let codes = text.get(start..end).unwrap_or_default();
        ways.iter().zip(codes).enumerate().fold(false, |leads, (at, (way, code))| {
            leads | ((way.wrapping_sub(first.wrapping_sub(at as u8)) < JUMP as u8 - 1) & is_short(*code))
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
    fn what_lies_within_an_instruction_is_no_branch_where_the_instructions_are_known() {
        // At 0x30, into the second function: `mov eax, imm32`, in which is a short branch to 0x12, then `ret`.
        let mut text = vec![0x90; 0x60];
        text[0x30..0x36].copy_from_slice(&[0xb8, 0xeb, (0x12_i8 - 0x33).cast_unsigned(), 0, 0, 0xc3]);
        let functions = |len| [function(0x1000, 16), function(0x1010, 16), function(0x1020, 16), function(0x1030, len)];
        assert_eq!(maybe_jumped_into(&text, 0x1000, &functions(6)), [1]);
        assert_eq!(jumped_into(&text, 0x1000, &functions(6)), Vec::<usize>::new());
        // Not known: how long it is, where its last instruction ends, or that there is data in it.
        assert_eq!(jumped_into(&text, 0x1000, &functions(0)), [1]);
        assert_eq!(jumped_into(&text, 0x1000, &functions(4)), [1]);
        text[0x36..0x38].copy_from_slice(&[0xeb, 0xf9]);
        assert_eq!(jumped_into(&text, 0x1000, &functions(8)), [1], "a branch into the middle of that instruction");
        // And one that is a branch.
        text[0x30] = 0x90;
        text[0x36..0x38].copy_from_slice(&[0x90, 0xc3]);
        assert_eq!(jumped_into(&text, 0x1000, &functions(8)), [1]);
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

    /// What a search byte by byte finds, which asks about every pair of a place and a function.
    fn by_hand(text: &[u8], from: u64, functions: &[Function]) -> Vec<usize> {
        let target = |at: usize| {
            let long = |operand: usize| {
                let way = i32::from_le_bytes(*text.get(operand..)?.first_chunk()?);
                (from + operand as u64 + 4).checked_add_signed(way.into())
            };
            match (text[at], text.get(at + 1)) {
                (0xe8 | 0xe9, _) => long(at + 1),
                (0x0f, Some(0x80..=0x8f)) => long(at + 2),
                (0x70..=0x7f | 0xe0..=0xe3 | 0xeb, Some(way)) => {
                    (from + at as u64 + 2).checked_add_signed(way.cast_signed().into())
                }
                _ => None,
            }
        };
        let targets: Vec<_> = (0..text.len()).filter_map(|at| Some((from + at as u64, target(at)?))).collect();
        let is_entered = |function: &Function| {
            let inner = function.offset + 1..function.offset + JUMP as u64;
            // Of a function whose length nobody knows, its first instruction is its own.
            let own = function.offset..function.offset + function.len.max(1);
            targets.iter().any(|(source, target)| inner.contains(target) && !own.contains(source))
        };
        (0..functions.len()).filter(|index| is_entered(&functions[*index])).collect()
    }

    proptest::proptest! {
        #[test]
        fn no_function_that_is_entered_is_missed(
            noise in proptest::collection::vec(proptest::prop_oneof![
                proptest::num::u8::ANY,
                proptest::sample::select(vec![0xe8, 0xe9, 0x0f, 0x84, 0xeb, 0x74, 0xe2, 0, 0, 0xff, 0xff]),
            ], 0..900),
            gaps in proptest::collection::vec((1..40_u64, 0..40_u64, proptest::bool::ANY), 0..60),
        ) {
            let mut functions: Vec<Function> = Vec::new();
            let mut at = 0x1000;
            for (gap, len, aligned) in gaps {
                at += gap;
                if aligned {
                    at = at.next_multiple_of(16);
                }
                functions.push(function(at, len));
            }
            functions.retain(|function| function.offset < 0x1000 + noise.len() as u64);
            let (found, entered) = (maybe_jumped_into(&noise, 0x1000, &functions), by_hand(&noise, 0x1000, &functions));
            let missed: Vec<_> = entered.iter().filter(|index| found.binary_search(index).is_err()).collect();
            proptest::prop_assert!(missed.is_empty(), "{:?} of {:?}", missed, entered);
        }
    }

    #[test]
    fn a_length_that_no_file_has_runs_over_nothing() {
        let mut text = vec![0x90; 0x40];
        text[0x20] = 0xe8;
        text[0x21..0x25].copy_from_slice(&(0x02_i32 - 0x25).to_le_bytes());
        assert_eq!(
            maybe_jumped_into(&text, 0, &[function(0, u64::MAX), function(1, 2), function(0x20, u64::MAX)]),
            [1]
        );
    }

    #[test]
    fn a_branch_of_six_bytes_and_one_of_unknown_length_count() {
        let mut text = vec![0x90; 0x40];
        text[0x20..0x22].copy_from_slice(&[0x0f, 0x8f]);
        text[0x22..0x26].copy_from_slice(&(0x02_i32 - 0x26).to_le_bytes());
        assert_eq!(maybe_jumped_into(&text, 0, &[function(0, 0), function(0x20, 32)]), [0]);
        assert_eq!(maybe_jumped_into(&[], 0, &[function(0, 0)]), Vec::<usize>::new());
    }
}

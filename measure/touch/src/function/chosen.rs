//! Functions of a file that a user chose, and how the calls of each can be counted.

use super::displaced::{self, HEAD, Piece};
use super::jumped::{Branches, branches_into};
use super::patterns::Patterns;
use super::shared::writes_text;
use super::starts::{Function, Hooks, Texts, each_named};
use super::stub::JUMP;
use std::collections::BTreeMap;
use std::ops::Range;

/// So much of a function is looked through for loops to its begin.
const LONGEST: u64 = 1 << 20;

/// A function that was chosen.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its number among the functions of its file.
    pub function: usize,
    /// As people type it.
    pub name: String,
    /// As the linker knows it.
    pub symbol: String,
    /// What a jump at its begin replaces; else why there is a breakpoint.
    pub jump: Result<Piece, &'static str>,
    /// A jump of its own leads to its begin and counts as a call.
    pub loops: bool,
    /// It is called once to choose the one that others call by its name.
    pub chooses: bool,
    /// Thaw has a breakpoint of its own there.
    pub is_hook: bool,
}

/// A function by the names that patterns mean.
#[derive(Clone, Debug)]
pub struct Meant {
    len: u64,
    name: String,
    symbol: String,
    chooses: bool,
}

impl std::fmt::Display for Meant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// What of a file patterns mean, by offset, and how many functions of it each pattern has found.
pub fn meant(bytes: &[u8], patterns: &Patterns) -> (BTreeMap<u64, Meant>, Vec<u64>) {
    let mut meant: BTreeMap<u64, (Meant, Vec<usize>)> = BTreeMap::new();
    each_named(bytes, |named| {
        let Some((name, numbers)) = patterns.matching(named.symbol) else { return };
        let symbol = String::from_utf8_lossy(named.symbol).into_owned();
        let known = Meant { len: named.function.len, name, symbol, chooses: named.chooses };
        let (first, found) = meant.entry(named.function.offset).or_insert_with(|| (known.clone(), Vec::new()));
        // Of several names the shortest, then the first by alphabet.
        if (known.symbol.len(), &known.symbol) < (first.symbol.len(), &first.symbol) {
            *first = known;
        }
        found.extend(numbers);
    });
    let found = |number: usize| meant.values().filter(|(_, numbers)| numbers.contains(&number)).count() as u64;
    let found = (0..patterns.typed().len()).map(found).collect();
    (meant.into_iter().map(|(offset, (meant, _))| (offset, meant)).collect(), found)
}

/// Puts functions that have a name and are not known otherwise among the known ones.
pub fn add_missing(functions: &mut Vec<Function>, meant: &BTreeMap<u64, Meant>) {
    let is_known = |offset: &u64| functions.binary_search_by_key(offset, |function| function.offset).is_ok();
    let missing: Vec<Function> = meant
        .iter()
        .filter(|(offset, _)| !is_known(offset))
        .map(|(offset, meant)| Function { offset: *offset, len: meant.len })
        .collect();
    functions.extend(missing);
    functions.sort_unstable_by_key(|function| function.offset);
}

/// How each of the functions can be counted that patterns mean; those that are not among the file's are left out.
pub fn choose(bytes: &[u8], functions: &[Function], hooks: &Hooks, meant: BTreeMap<u64, Meant>) -> Vec<Chosen> {
    let is_32 = bytes.get(4) == Some(&1);
    let writes_text = !is_32 && writes_text(bytes);
    let is_hook = |offset| [hooks.entry, hooks.loader, hooks.relocating, hooks.sigaction].contains(&Some(offset));
    let mut chosen: Vec<Chosen> = meant
        .into_iter()
        .filter_map(|(offset, meant)| {
            let function = functions.binary_search_by_key(&offset, |function| function.offset).ok()?;
            let code = part(bytes, offset, HEAD as u64);
            let room = functions.get(function + 1).map_or(u64::MAX, |next| next.offset - offset);
            let len = functions[function].len;
            let jump = match () {
                () if is_hook(offset) => Err("thaw has a breakpoint of its own there"),
                () if is_32 => Err("it is 32-bit code"),
                () if writes_text => Err("the loader writes into the code of its file"),
                () => displaced::for_jump(code, len, room),
            };
            let loops = !is_32 && displaced::jumps_to_its_begin(part(bytes, offset, len.min(LONGEST)));
            let (name, symbol, chooses) = (meant.name, meant.symbol, meant.chooses);
            Some(Chosen { function, name, symbol, jump, loops, chooses, is_hook: is_hook(offset) })
        })
        .collect();
    for (from, len) in Texts::of(bytes).pieces() {
        leave_entered(part(bytes, from, len), from, functions, &mut chosen);
    }
    chosen
}

fn part(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[at(offset)..at(offset.saturating_add(len))]
}

/// Takes the jumps away where code leads into their middle; behind an `endbr64`, to their begin as well, which would
/// count as a call.
fn leave_entered(text: &[u8], from: u64, functions: &[Function], chosen: &mut [Chosen]) {
    let mut numbers = Vec::new();
    let mut places: Vec<Range<u64>> = Vec::new();
    for (number, it) in chosen.iter().enumerate() {
        let Ok(piece) = &it.jump else { continue };
        let jump = functions[it.function].offset + piece.skipped as u64;
        if (from..from + text.len() as u64).contains(&jump) {
            numbers.push(number);
            places.push(jump + u64::from(piece.skipped == 0)..jump + JUMP as u64);
        }
    }
    if places.is_empty() {
        return;
    }
    let mut branches = Branches::of(text, from, functions);
    for (place, source) in branches_into(text, from, &places) {
        if let Some(number) = numbers.get(place)
            && branches.may_be(source)
        {
            chosen[*number].jump = Err("other code jumps into what a jump would replace");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_instruction_is_no_branch_into_a_function() {
        // At 0: a function; at 0x20: mov eax, 0xd9eb (in which is "jmp 0xfd"), then a real one to 3.
        let mut text = vec![0x90; 0x40];
        text[0x20..0x25].copy_from_slice(&[0xb8, 0xeb, 0xe0, 0, 0]);
        let functions = [Function { offset: 0, len: 0x10 }, Function { offset: 0x20, len: 0x10 }];
        let chosen = |function| Chosen {
            function,
            name: String::new(),
            symbol: String::new(),
            jump: displaced::for_jump(&[0x90; HEAD], 0, 64),
            loops: false,
            chooses: false,
            is_hook: false,
        };
        let mut one = [chosen(0)];
        leave_entered(&text, 0, &functions, &mut one);
        assert!(one[0].jump.is_ok());
        text[0x25..0x27].copy_from_slice(&[0xeb, (3_i8 - 0x27).cast_unsigned()]);
        leave_entered(&text, 0, &functions, &mut one);
        assert!(one[0].jump.is_err());
    }
}

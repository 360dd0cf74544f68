//! Reverses .ctors and .dtors, the lists of constructors of compilers up to GCC 4.6 and of some others since. The
//! start-up code works through .ctors from its end to its beginning, so that constructors in the order of linking run
//! backwards through the code, against read-ahead.
//!
//! The order of constructors of different source files changes, which C++ leaves open and programs may still depend on.
//! .init_array, which replaced the lists, runs forwards and is left alone.

use super::draft::{Draft, Entry};
use super::report::{Outcome, Pass, Report, Worth};
use std::collections::HashMap;

pub fn run(draft: &mut Draft<'_>) -> Report {
    let outcome = match reverse(draft) {
        Ok(outcome) => outcome,
        Err(sentence) => Outcome::NotDone { sentence },
    };
    Report { pass: Pass::Ctors, outcome, withheld: Vec::new() }
}

fn reverse(draft: &mut Draft<'_>) -> Result<Outcome, String> {
    let relative = elf::relative_type(draft.image.machine);
    let lists = [".ctors", ".dtors"].map(|name| list(draft, name));
    let mut by_address: HashMap<u64, Option<Entry>> =
        lists.iter().flatten().flat_map(List::slots).map(|slot| (slot, None)).collect();
    if by_address.is_empty() {
        return Err("it has no list of constructors of the old kind (.ctors, .dtors)".to_owned());
    }
    for entry in draft.entries() {
        if let Some(known) = by_address.get_mut(&entry.relocation.offset) {
            *known = Some(entry);
        }
    }
    let mut swaps = Vec::new();
    let (mut before, mut after) = (0, 0);
    for list in lists.iter().flatten() {
        let entries: Option<Vec<Entry>> = list.slots().map(|slot| by_address.get(&slot).copied().flatten()).collect();
        let entries = entries.filter(|entries| entries.iter().all(|entry| Some(entry.relocation.kind) == relative));
        let entries =
            entries.ok_or_else(|| format!("{} holds something else than addresses in the file", list.name))?;
        let targets: Option<Vec<u64>> = entries.iter().map(|entry| draft.addend(entry)).collect();
        let targets = targets.ok_or_else(|| format!("{} is not in the file", list.name))?;
        let forward = targets.windows(2).filter(|pair| page(pair[1]) < page(pair[0])).count() as u64;
        let backward = targets.windows(2).filter(|pair| page(pair[1]) > page(pair[0])).count() as u64;
        // The list runs from its end now, which is its beginning once it is reversed; .dtors runs from its beginning.
        let (now, then) = if list.name == ".ctors" { (backward, forward) } else { (forward, backward) };
        before += now;
        after += then;
        swaps.extend(entries.into_iter().zip(targets.into_iter().rev()));
    }
    let (saves, costs) =
        (Worth { steps_back: before, ..Worth::default() }, Worth { steps_back: after, ..Worth::default() });
    let sentence = format!(
        "of {} steps from constructor to constructor, {before} go back by a page or more, and {after} if reversed",
        by_address.len()
    );
    if after >= before {
        return Ok(Outcome::CostsMore { saves, costs, sentence });
    }
    // Every word was found in the file above.
    let moved = swaps.iter().filter(|(entry, target)| draft.move_relative(entry, *target)).count();
    debug_assert_eq!(moved, swaps.len());
    Ok(Outcome::Done { saves: Worth { steps_back: before - after, ..Worth::default() }, sentence })
}

fn page(address: u64) -> u64 {
    address / 4096
}

/// A list between its marks: -1 at its beginning, 0 at its end.
struct List {
    name: &'static str,
    first: u64,
    end: u64,
    word: u64,
}

impl List {
    fn slots(&self) -> impl Iterator<Item = u64> + use<> {
        (self.first..self.end).step_by(self.word as usize)
    }
}

/// `None` where there is no such section, or less than two entries in it.
fn list(draft: &Draft<'_>, name: &'static str) -> Option<List> {
    let image = draft.image;
    let word = image.class.word().bytes();
    let section = image.section(name).filter(|section| section.is_loaded() && section.len.is_multiple_of(word))?;
    let bytes = image.bytes_of(section)?;
    let marked = bytes.len() as u64 >= 4 * word
        && bytes[..word as usize].iter().all(|byte| *byte == 0xff)
        && bytes[bytes.len() - word as usize..].iter().all(|byte| *byte == 0);
    let end = section.address.checked_add(section.len)?;
    marked.then(|| List { name, first: section.address + word, end: end - word, word })
}

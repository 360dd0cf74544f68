//! Relocations against symbols that the file itself defines become relative ones: `-Bsymbolic` after the fact, where a
//! closed set of files proves that it changes nothing.
//!
//! What it saves is the search: for every such relocation the loader looks through all libraries of the process, only
//! to find what lies in the same file. Relocations of the PLT are left: bound lazily they cost nothing at a start, and
//! the stubs name them by number.

use super::closed::ClosedSet;
use super::draft::{Draft, Formula, formula};
use super::report::{Example, Hindrance, Outcome, Pass, Report, Withheld, Worth};
use elf::Meaning;
use object::elf::STT_TLS;
use std::collections::BTreeMap;

pub fn run(draft: &mut Draft<'_>, set: &ClosedSet<'_>) -> Report {
    let mut withheld = Tally::default();
    let outcome = match convert(draft, set, &mut withheld) {
        Err(sentence) => Outcome::NotDone { sentence },
        Ok(0) => Outcome::NotDone { sentence: "no relocation against a symbol of its own can be proven".to_owned() },
        Ok(lookups) => Outcome::Done {
            saves: Worth { lookups, ..Worth::default() },
            sentence: format!("{lookups} relocations against its own symbols are relative now"),
        },
    };
    Report { pass: Pass::Symbolic, outcome, withheld: withheld.finish() }
}

fn convert(draft: &mut Draft<'_>, set: &ClosedSet<'_>, withheld: &mut Tally) -> Result<u64, String> {
    let image = draft.image;
    let proof = set.prove(image).map_err(|open| open.to_string())?;
    let Some(symbols) = image.dynamic_symbols() else {
        return Err("its symbols cannot be read".to_owned());
    };
    let mut converted = 0;
    for entry in draft.entries() {
        let relocation = &entry.relocation;
        if relocation.symbol == 0 || elf::meaning(image.machine, relocation.kind) != Meaning::Symbolic {
            continue;
        }
        let symbol =
            symbols.get(relocation.symbol as usize).filter(|symbol| symbol.is_defined() && symbol.kind != STT_TLS);
        let Some(symbol) = symbol else { continue };
        let value = match formula(image.machine, relocation.kind) {
            None => Err(Hindrance::OtherType),
            Some(Formula::Symbol) => Ok(symbol.address),
            Some(Formula::SymbolAndAddend) => {
                let addend = draft.addend(&entry).ok_or(Hindrance::NotInFile);
                addend.map(|addend| draft.wrapped(symbol.address.wrapping_add(addend)))
            }
        };
        let hindrance = match (proof.hindrance(&symbol), value) {
            (Some(known), _) => Some(known),
            (None, Err(why)) => Some((why, None)),
            (None, Ok(value)) if draft.make_relative(&entry, value) => None,
            (None, Ok(_)) => Some((Hindrance::NotInFile, None)),
        };
        match hindrance {
            Some((why, file)) => withheld.add(why, symbol.name, file),
            None => converted += 1,
        }
    }
    Ok(converted)
}

/// Counts what is withheld.
#[derive(Default)]
pub struct Tally(BTreeMap<Hindrance, (u64, Option<Example>)>);

impl Tally {
    /// `file` is the other file because of which it is withheld.
    pub fn add(&mut self, why: Hindrance, symbol: &[u8], file: Option<&str>) {
        let known = self.0.entry(why).or_default();
        known.0 += 1;
        known.1.get_or_insert_with(|| Example {
            symbol: String::from_utf8_lossy(symbol).into_owned(),
            file: file.map(str::to_owned),
        });
    }

    pub fn finish(self) -> Vec<Withheld> {
        let each =
            self.0.into_iter().filter_map(|(why, (count, example))| Some(Withheld { why, count, example: example? }));
        let mut all: Vec<_> = each.collect();
        all.sort_by_key(|withheld| std::cmp::Reverse(withheld.count));
        all
    }
}

//! What symbols tell about relocations: virtual tables, and names that the file itself defines.

use super::{Depth, Facts};
use crate::report::{Internal, Kind, Vtables};
use elf::{Meaning, Relocations, Role, Symbol};
use object::ReadRef;
use object::elf::{DF_SYMBOLIC, DT_FLAGS, DT_SYMBOLIC, STB_WEAK, STT_FUNC, STT_GNU_IFUNC};
use std::collections::HashMap;

/// Virtual tables, those during construction, tables of tables, and type information. Source: the Itanium C++ ABI,
/// 5.1.4.
const TABLES: [&[u8]; 4] = [b"_ZTV", b"_ZTC", b"_ZTT", b"_ZTI"];
const PURE_VIRTUAL: &[u8] = b"__cxa_pure_virtual";
/// Where linkers put constants that need relocation.
const CONSTANT_DATA: &str = ".data.rel.ro";

pub(super) fn vtables<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Vtables {
    let image = facts.image;
    let exported = image.dynamic_symbols();
    let full = if facts.depth == Depth::Detail { image.all_symbols() } else { None };
    let mut found = Vtables::default();
    let mut tables: Vec<(u64, u64)> = Vec::new();
    let mut pure: Option<u64> = None;
    for symbol in full.or(exported).iter().flat_map(|table| table.iter()).filter(Symbol::is_defined) {
        if TABLES.iter().any(|prefix| symbol.name.starts_with(prefix)) && symbol.len > 0 {
            tables.push((symbol.address, symbol.address.saturating_add(symbol.len)));
        } else if symbol.name == PURE_VIRTUAL {
            pure = Some(symbol.address);
        }
    }
    tables.sort_unstable();
    tables.dedup();
    found.symbols = tables.len() as u64;
    let tables = model::joined(tables);
    let inside = |address: u64| {
        let index = tables.partition_point(|(start, _)| *start <= address);
        index.checked_sub(1).is_some_and(|index| address < tables[index].1)
    };
    let pure_index = exported.and_then(|table| table.iter().position(|symbol| symbol.name == PURE_VIRTUAL));
    // The first symbol is left out by `iter`.
    let pure_index = pure_index.and_then(|index| u32::try_from(index + 1).ok());
    let constant: Vec<_> = image.sections.iter().filter(|section| section.name == CONSTANT_DATA).collect();
    let mut meanings = Meanings::default();
    let mut count = |address: u64, value: Option<u64>| {
        found.in_symbols += u64::from(inside(address));
        found.in_constant_data += u64::from(constant.iter().any(|section| section.covers(address)));
        found.pure_virtual_inside += u64::from(pure.is_some() && value == pure);
    };
    for table in &facts.tables {
        for relocation in table.iter() {
            let value = match (facts.is_relative(&relocation), table.with_addends) {
                (true, true) => Some(relocation.addend as u64),
                (true, false) => facts.content(relocation.offset),
                (false, _) => None,
            };
            // What is copied into a program lies in the copy of a table; nothing in it is relocated by that.
            if relocation.symbol == 0 || meanings.of(facts, relocation.kind) != Meaning::Copy {
                count(relocation.offset, value);
            }
        }
    }
    for address in facts.relr_addresses() {
        count(address, facts.content(address));
    }
    let names = facts.tables.iter().flat_map(Relocations::iter);
    found.pure_virtual = match pure_index {
        Some(index) => names.filter(|relocation| relocation.symbol == index).count() as u64,
        None => 0,
    };
    found
}

/// What each type means, asked once.
#[derive(Default)]
struct Meanings(HashMap<u32, Meaning>);

impl Meanings {
    fn of<R>(&mut self, facts: &Facts<'_, '_, R>, kind: u32) -> Meaning {
        *self.0.entry(kind).or_insert_with(|| elf::meaning(facts.image.machine, kind))
    }
}

pub(super) fn internal<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>, kind: Kind) -> Internal {
    let mut found = Internal::default();
    let Some(dynamic) = &facts.image.dynamic else { return found };
    let flags = dynamic.value(DT_FLAGS).unwrap_or(0);
    found.bound_inside = dynamic.value(DT_SYMBOLIC).is_some() || flags & DF_SYMBOLIC.0 != 0;
    let symbols = facts.image.dynamic_symbols();
    let mut meanings = Meanings::default();
    for table in &facts.tables {
        for relocation in table.iter().filter(|relocation| relocation.symbol != 0) {
            if meanings.of(facts, relocation.kind) != Meaning::Symbolic {
                continue;
            }
            let symbol = symbols.and_then(|table| table.get(usize::try_from(relocation.symbol).ok()?));
            let inside = symbol.filter(Symbol::is_defined);
            match table.role {
                Role::Plt => {
                    found.of_plt += 1;
                    found.plt += u64::from(inside.is_some());
                }
                Role::Load => {
                    found.of += 1;
                    let Some(symbol) = inside else { continue };
                    found.load += 1;
                    // A program comes first in the search: nobody redirects its own symbols.
                    let redirectable = kind == Kind::Library && !found.bound_inside && symbol.is_preemptible();
                    found.preemptible += u64::from(redirectable);
                    found.weak += u64::from(symbol.bind == STB_WEAK);
                    match symbol.kind {
                        STT_FUNC | STT_GNU_IFUNC => found.functions += 1,
                        _ => found.data += 1,
                    }
                }
            }
        }
    }
    found
}

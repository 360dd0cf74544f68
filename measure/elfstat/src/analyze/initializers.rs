//! Code that runs before `main`, or when a library is loaded: which functions, from which lists.

use super::{Depth, Facts, counts};
use crate::report::{Initializer, Initializers};
use elf::{Image, Meaning, Relocation, Symbol, SymbolTable};
use object::ReadRef;
use object::elf::{
    DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, SHT_INIT_ARRAY, SHT_PREINIT_ARRAY,
    STT_FUNC, STT_GNU_IFUNC,
};
use std::collections::HashMap;

/// Functions that are listed at most; the largest real program has some thousands.
const LIST_LIMIT: u64 = 1 << 16;

/// A list of addresses in the file.
struct List {
    name: &'static str,
    address: u64,
    len: u64,
}

pub(super) fn initializers<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Initializers {
    let image = facts.image;
    let word = image.class.word().bytes();
    let lists = lists(image);
    let mut found = Initializers::default();
    let values = values(facts, &lists);
    let names = (facts.depth == Depth::Detail).then(|| Names::of(facts));
    let mut add = |list: &'static str, entry: u64, value: Value| {
        let Some(names) = &names else { return };
        if (found.functions.len() as u64) < LIST_LIMIT {
            found.functions.push(names.initializer(list, entry, value));
        }
    };
    let listed = |name: &'static str| lists.iter().filter(move |list| list.name == name);
    let mut count = 0;
    let mut each = |list: &List, entry: u64| {
        let address = list.address.wrapping_add(entry * word);
        let value = values.get(&address).copied().or_else(|| Some(Value::At(image.word_at(address)?)));
        match value {
            // `.ctors` begins with -1 and ends with 0; 0 in the other lists would end the program.
            Some(Value::At(0)) => {}
            Some(Value::At(end)) if end == u64::MAX >> (64 - 8 * word) => {}
            Some(value) => {
                count += 1;
                add(list.name, entry, value);
            }
            None => {}
        }
    };
    for list in listed(".preinit_array") {
        (0..list.len / word).for_each(|entry| each(list, entry));
    }
    // Code that DT_INIT leads to works through `.ctors`, from its end.
    for list in listed(".ctors") {
        (0..list.len / word).rev().for_each(|entry| each(list, entry));
    }
    for list in listed(".init_array") {
        (0..list.len / word).for_each(|entry| each(list, entry));
    }
    found.count = count;
    if let Some(address) =
        image.dynamic.as_ref().and_then(|dynamic| dynamic.value(DT_INIT)).filter(|address| *address != 0)
        && let Some(names) = &names
    {
        let before = found.functions.iter().take_while(|function| function.list == ".preinit_array").count();
        found.functions.insert(before, names.initializer("DT_INIT", 0, Value::At(address)));
    }
    found
}

/// The lists, as far as they are in the file: by the dynamic table, by sections where there is none.
fn lists<'data, R: ReadRef<'data>>(image: &Image<R>) -> Vec<List> {
    let mut lists = Vec::new();
    let tagged = [
        (".preinit_array", DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, SHT_PREINIT_ARRAY),
        (".init_array", DT_INIT_ARRAY, DT_INIT_ARRAYSZ, SHT_INIT_ARRAY),
    ];
    for (name, tag, len_tag, kind) in tagged {
        match &image.dynamic {
            Some(dynamic) => {
                if let (Some(address), Some(len)) = (dynamic.value(tag), dynamic.value(len_tag)) {
                    lists.push(List { name, address, len });
                }
            }
            None => {
                let sections = image.loaded_sections().filter(|section| section.kind == kind);
                lists.extend(sections.map(|section| List { name, address: section.address, len: section.len }));
            }
        }
    }
    let ctors = image.loaded_sections().filter(|section| section.name == ".ctors" && section.in_file());
    lists.extend(ctors.map(|section| List { name: ".ctors", address: section.address, len: section.len }));
    // A damaged segment may claim more bytes than the file has.
    lists.retain(|list| image.at(list.address, list.len).is_some());
    lists
}

/// What an entry of a list comes to hold.
#[derive(Clone, Copy)]
enum Value {
    /// An address of this file.
    At(u64),
    /// That of a symbol (its number) plus a number.
    Symbol(u32, i64),
}

/// Entries that are relocated with a value that is not in the file, or not yet.
fn values<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>, lists: &[List]) -> HashMap<u64, Value> {
    let mut values = HashMap::new();
    let inside =
        |address: u64| lists.iter().any(|list| address.checked_sub(list.address).is_some_and(|from| from < list.len));
    for table in &facts.tables {
        for relocation in table.iter().filter(|relocation| inside(relocation.offset)) {
            if let Some(value) = value(facts, table.with_addends, &relocation) {
                values.insert(relocation.offset, value);
            }
        }
    }
    values
}

fn value<'data, R: ReadRef<'data>>(
    facts: &Facts<'_, 'data, R>,
    with_addends: bool,
    relocation: &Relocation,
) -> Option<Value> {
    let addend = match with_addends {
        true => relocation.addend,
        false => facts.image.word_at(relocation.offset)? as i64,
    };
    match elf::meaning(facts.image.machine, relocation.kind) {
        Meaning::Relative => Some(Value::At(addend as u64)),
        Meaning::Symbolic if relocation.symbol != 0 => Some(Value::Symbol(relocation.symbol, addend)),
        _ => None,
    }
}

/// Names of functions by address.
struct Names<'facts, 'image, 'data, R> {
    facts: &'facts Facts<'image, 'data, R>,
    functions: Vec<Symbol<'data>>,
    symbols: Option<SymbolTable<'data>>,
}

impl<'facts, 'image, 'data, R: ReadRef<'data>> Names<'facts, 'image, 'data, R> {
    fn of(facts: &'facts Facts<'image, 'data, R>) -> Self {
        let symbols = facts.image.dynamic_symbols();
        let named = facts.image.all_symbols().or(symbols);
        let is_function = |symbol: &Symbol| {
            matches!(symbol.kind, STT_FUNC | STT_GNU_IFUNC) && symbol.is_defined() && !symbol.name.is_empty()
        };
        let mut functions: Vec<_> = named.iter().flat_map(SymbolTable::iter).filter(is_function).collect();
        functions.sort_by_key(|symbol| facts.code_address(symbol.address));
        Self { facts, functions, symbols }
    }

    fn initializer(&self, list: &'static str, entry: u64, value: Value) -> Initializer {
        let (address, symbol) = match value {
            Value::At(address) => (Some(self.facts.code_address(address)), None),
            Value::Symbol(index, addend) => {
                let symbol = self.symbols.and_then(|table| table.get(usize::try_from(index).ok()?));
                let inside = symbol.filter(Symbol::is_defined);
                let address = inside.map(|symbol| self.facts.code_address(symbol.address.wrapping_add_signed(addend)));
                (address, symbol.map(|symbol| counts::shortened(symbol.name)))
            }
        };
        let symbol = symbol.or_else(|| address.and_then(|address| self.at(address)));
        Initializer { list, entry, address, symbol, source: None }
    }

    fn at(&self, address: u64) -> Option<String> {
        let start = |symbol: &Symbol| self.facts.code_address(symbol.address);
        let index = self.functions.partition_point(|symbol| start(symbol) <= address).checked_sub(1)?;
        let symbol = &self.functions[index];
        (address - start(symbol) < symbol.len.max(1)).then(|| counts::shortened(symbol.name))
    }
}

//! What an object's file says of its load: which initialisers it lists, what is relocated, what is protected. Pure.

use super::{Relocations, Table};
use elf::{Image, Meaning, Role, Segment, meaning, relr};
use model::PAGE;
use object::ReadRef;
use object::elf::{
    DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, ET_EXEC, PT_GNU_RELRO,
};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

/// A file that the loader has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    /// Where it is, without symbolic links.
    pub path: PathBuf,
    /// What is added to its addresses.
    pub bias: u64,
    /// From its first to its last byte in memory.
    pub memory: Range<u64>,
    /// The first address that the loader protects once it is relocated.
    pub relro: Option<u64>,
    /// What is relocated.
    pub relocations: Relocations,
    /// Its initialisers in the order in which they are called.
    pub slots: Vec<Slot>,
}

/// An initialiser that a file lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The table.
    pub table: Table,
    /// Its place there.
    pub place: u32,
    /// Where it is, or where the word is that says so.
    pub is: Is,
}

/// How the address of an initialiser is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    /// It is this address in memory.
    At(u64),
    /// This word in memory holds it, once relocated; and this is what the file says that it will hold.
    In(u64, Option<u64>),
}

/// Entries of a table of initialisers that are believed.
const MOST_ENTRIES: u64 = 1 << 16;

impl Object {
    /// Of a file that is mapped with this bias.
    ///
    /// # Errors
    /// Its tables are damaged; a sentence.
    pub fn of<'data, R: ReadRef<'data>>(path: PathBuf, image: &Image<R>, bias: u64) -> Result<Self, String> {
        let bias = if image.kind == ET_EXEC { 0 } else { bias };
        let start = image.loads().map(|load| load.address).min().unwrap_or(0);
        let end = image.loads().map(|load| load.address.saturating_add(load.memory_len)).max().unwrap_or(0);
        Ok(Self {
            path,
            bias,
            memory: bias.wrapping_add(start)..bias.wrapping_add(end),
            relro: image.segments.iter().find_map(|segment| protected(segment, bias)),
            relocations: relocations(image).map_err(|miss| miss.to_string())?,
            slots: slots(image, bias),
        })
    }
}

/// As glibc does it: whole pages, the end rounded down.
fn protected(segment: &Segment, bias: u64) -> Option<u64> {
    if segment.kind != PT_GNU_RELRO {
        return None;
    }
    let from = bias.wrapping_add(segment.address);
    let (start, end) = (from & !(PAGE - 1), from.wrapping_add(segment.memory_len) & !(PAGE - 1));
    (start != end).then_some(start)
}

fn relocations<'data, R: ReadRef<'data>>(image: &Image<R>) -> Result<Relocations, elf::Miss> {
    let mut counts = Relocations::default();
    for table in image.relocations()? {
        for relocation in table.iter() {
            let count = match (meaning(image.machine, relocation.kind), table.role) {
                (Meaning::Relative, _) => &mut counts.relative,
                (Meaning::Indirect, _) => &mut counts.indirect,
                (Meaning::Copy, _) => &mut counts.copies,
                (Meaning::ThreadLocal, _) => &mut counts.thread_local,
                (Meaning::Symbolic, Role::Load) => &mut counts.symbolic,
                (Meaning::Symbolic, Role::Plt) => &mut counts.calls,
                (Meaning::Nothing, _) => continue,
            };
            *count += 1;
        }
    }
    if let Some((_, words)) = image.relr()? {
        for address in relr::addresses(words, image.class.word()) {
            address?;
            counts.relative += 1;
        }
    }
    counts.bound_at_once = image.dynamic.as_ref().is_some_and(elf::Dynamic::binds_at_once);
    Ok(counts)
}

fn value<R>(image: &Image<R>, tag: object::elf::DynamicTag) -> Option<u64> {
    let entries = &image.dynamic.as_ref()?.entries;
    entries.iter().rev().find(|(found, _)| *found == tag).map(|(_, value)| *value)
}

fn slots<'data, R: ReadRef<'data>>(image: &Image<R>, bias: u64) -> Vec<Slot> {
    let mut slots = Vec::new();
    let mut words = HashMap::new();
    let mut array = |table, tag, len_tag, slots: &mut Vec<Slot>| {
        let (Some(address), Some(len)) = (value(image, tag), value(image, len_tag)) else { return };
        if words.is_empty() {
            words = relocated_words(image, bias);
        }
        for place in 0..(len / 8).min(MOST_ENTRIES) {
            let at = address.wrapping_add(8 * place);
            // Without a relocation, the word is what the file has: that of a program at a fixed address.
            let known = words.get(&at).copied().unwrap_or_else(|| image.word_at(at));
            slots.push(Slot { table, place: place as u32, is: Is::In(bias.wrapping_add(at), known) });
        }
    };
    array(Table::PreInit, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, &mut slots);
    if let Some(address) = value(image, DT_INIT) {
        slots.push(Slot { table: Table::Init, place: 0, is: Is::At(bias.wrapping_add(address)) });
    }
    array(Table::InitArray, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, &mut slots);
    slots
}

/// What words will hold after relocation, by their address in the file. Of a symbol that the file defines, its own
/// definition: another object may have one that wins, but then nobody calls this one as an initialiser. `None`: the
/// function is another object's.
fn relocated_words<'data, R: ReadRef<'data>>(image: &Image<R>, bias: u64) -> HashMap<u64, Option<u64>> {
    let mut words = HashMap::new();
    let symbols = image.dynamic_symbols();
    for table in image.relocations().unwrap_or_default() {
        for relocation in table.iter() {
            let own = match meaning(image.machine, relocation.kind) {
                Meaning::Relative => Some(0),
                Meaning::Symbolic => symbols
                    .and_then(|symbols| symbols.get(relocation.symbol as usize))
                    .filter(elf::Symbol::is_defined)
                    .map(|symbol| symbol.address),
                _ => None,
            };
            let known = own.map(|own| bias.wrapping_add(own).wrapping_add_signed(relocation.addend));
            words.insert(relocation.offset, known);
        }
    }
    if let Ok(Some((_, table))) = image.relr() {
        for address in relr::addresses(table, image.class.word()).map_while(Result::ok) {
            words.insert(address, image.word_at(address).map(|word| word.wrapping_add(bias)));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_protected_is_whole_pages() {
        let segment = |address, memory_len| Segment {
            kind: PT_GNU_RELRO,
            flags: object::elf::PF_R,
            offset: 0,
            address,
            physical: 0,
            file_len: 0,
            memory_len,
            align: 1,
        };
        assert_eq!(protected(&segment(0x3da0, 0x260), 0x10000), Some(0x13000));
        assert_eq!(protected(&segment(0x3da0, 0x25f), 0x10000), None, "it ends within the page where it begins");
        assert_eq!(protected(&segment(0x3da0, 0x1260), 0), Some(0x3000));
    }

    #[test]
    fn a_real_program_lists_its_initialisers() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let image = Image::of(bytes.as_slice()).unwrap();
        let object = Object::of("it".into(), &image, 0x7000_0000).unwrap();
        assert!(object.relocations.relative > 100, "{:?}", object.relocations);
        let arrays: Vec<_> = object.slots.iter().filter(|slot| slot.table == Table::InitArray).collect();
        assert!(!arrays.is_empty());
        for slot in arrays {
            let Is::In(_, Some(known)) = slot.is else { panic!("{slot:?}: relative, so the file says it") };
            assert!(object.memory.contains(&known), "{slot:x?}");
        }
    }
}

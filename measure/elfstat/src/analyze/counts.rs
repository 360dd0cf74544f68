//! How many relocations there are: by type, table, target and symbol; how they follow each other; what they waste.

use super::places::Places;
use super::{Depth, Facts, packing};
use crate::report::{Group, Relocations, Relr, Waste, WasteRow};
use elf::{Class, Image, Role};
use model::Bytes;
use object::ReadRef;
use object::elf::DT_NEEDED;
use std::collections::HashMap;
use std::hash::Hash;

/// Longest symbol name that is kept; C++ makes names of some kilobytes.
pub(super) const NAME_LIMIT: usize = 512;
/// The version by which a file asks for a loader that knows RELR.
const RELR_ABI: &[u8] = b"GLIBC_ABI_DT_RELR";

/// Count and bytes of what has something in common.
struct Tally<Key> {
    sums: HashMap<Key, (u64, u64)>,
    /// What came last and is not in `sums` yet: relocations of a kind stand together.
    last: Option<(Key, (u64, u64))>,
}

impl<Key: Copy + Eq + Hash> Tally<Key> {
    fn new() -> Self {
        Self { sums: HashMap::new(), last: None }
    }

    fn add(&mut self, key: Key, count: u64, bytes: u64) {
        match &mut self.last {
            Some((last, sum)) if *last == key => *sum = (sum.0 + count, sum.1 + bytes),
            last => {
                let before = last.replace((key, (count, bytes)));
                self.keep(before);
            }
        }
    }

    fn keep(&mut self, sum: Option<(Key, (u64, u64))>) {
        let Some((key, (count, bytes))) = sum else { return };
        let entry = self.sums.entry(key).or_default();
        *entry = (entry.0 + count, entry.1 + bytes);
    }

    fn finish(mut self) -> HashMap<Key, (u64, u64)> {
        let last = self.last.take();
        self.keep(last);
        self.sums
    }
}

/// The first ones by count, with names; what has the same name is one.
fn groups<Key>(sums: HashMap<Key, (u64, u64)>, first: usize, name: impl Fn(&Key) -> String) -> Vec<Group> {
    let mut sorted: Vec<(Key, (u64, u64))> = sums.into_iter().collect();
    sorted.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    // Names are made only for those that can be among the first.
    let least = sorted.get(first.saturating_sub(1)).map_or(0, |(_, (count, _))| *count);
    let mut named: HashMap<String, (u64, u64)> = HashMap::new();
    for (key, (count, bytes)) in sorted.into_iter().take_while(|(_, (count, _))| *count >= least) {
        let entry = named.entry(name(&key)).or_default();
        *entry = (entry.0 + count, entry.1 + bytes);
    }
    let mut groups: Vec<Group> =
        named.into_iter().map(|(name, (count, bytes))| Group { name, count, bytes: Bytes(bytes) }).collect();
    sort(&mut groups);
    groups.truncate(first);
    groups
}

/// Most first; the same count by name.
pub(crate) fn sort(groups: &mut [Group]) {
    groups.sort_by(|left, right| right.count.cmp(&left.count).then_with(|| left.name.cmp(&right.name)));
}

pub(super) fn relocations<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Relocations {
    let image = facts.image;
    let word = image.class.word().bytes();
    let places = Places::of(image);
    let mut found = Relocations::default();
    let (mut by_type, mut by_target, mut by_symbol) = (Tally::new(), Tally::new(), Tally::new());
    for table in &facts.tables {
        let each = table.entry_len();
        let mut before: Option<u64> = None;
        for relocation in table.iter() {
            found.relative += u64::from(facts.is_relative(&relocation));
            by_type.add(Some(relocation.kind), 1, each);
            by_target.add(places.find(relocation.offset), 1, each);
            if relocation.symbol != 0 {
                by_symbol.add(relocation.symbol, 1, each);
            }
            if table.role == Role::Load {
                let follows = before.is_some_and(|before| before.checked_add(word) == Some(relocation.offset));
                found.adjacency.following += u64::from(follows);
                found.adjacency.of += 1;
                before = Some(relocation.offset);
            } else {
                found.plt += 1;
            }
        }
        found.entries += table.count();
        found.entry_bytes += Bytes(table.len());
        let tag = match (table.role, table.with_addends) {
            (Role::Plt, _) => "DT_JMPREL",
            (Role::Load, true) => "DT_RELA",
            (Role::Load, false) => "DT_REL",
        };
        found.by_table.push(table_group(image, table.address, tag, table.count(), table.len()));
    }
    if let Some(table) = &facts.relr {
        let bytes = table.words.len() as u64 * word;
        let mut count = 0;
        for address in facts.relr_addresses() {
            by_target.add(places.find(address), 1, 0);
            count += 1;
        }
        by_type.add(None, count, bytes);
        found.by_table.push(table_group(image, table.address, "DT_RELR", count, bytes));
        found.relr = Some(Relr { count, bytes: Bytes(bytes), asks_for_abi: asks_for_abi(image) });
    }
    found.count = found.entries + found.relr.map_or(0, |relr| relr.count);
    found.bytes = found.entry_bytes + found.relr.map_or(Bytes(0), |relr| relr.bytes);
    sort(&mut found.by_table);
    found.by_type = groups(by_type.finish(), usize::MAX, |kind| match kind {
        Some(kind) => elf::relocation_name(image.machine, *kind),
        None => "RELR".to_owned(),
    });
    found.by_target = groups(by_target.finish(), usize::MAX, |place| places.name(*place));
    let by_symbol = by_symbol.finish();
    found.symbols = by_symbol.len() as u64;
    let symbols = image.dynamic_symbols();
    let first = if facts.depth == Depth::Detail { 20 } else { 5 };
    found.by_symbol =
        groups(by_symbol, first, |index| match symbols.and_then(|table| table.get(usize::try_from(*index).ok()?)) {
            Some(symbol) if !symbol.name.is_empty() => shortened(symbol.name),
            Some(_) => format!("symbol {index} (without a name)"),
            None => format!("symbol {index} (not in the table)"),
        });
    (found.adjacency.runs, found.adjacency.longest_run) = packing::runs(&facts.relative_addresses(), word);
    found
}

/// At most [`NAME_LIMIT`] bytes of a name.
pub(super) fn shortened(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(NAME_LIMIT)]).into_owned()
}

/// A table by the name of its section; by its tag where there are no sections.
fn table_group<'data, R: ReadRef<'data>>(image: &Image<R>, address: u64, tag: &str, count: u64, bytes: u64) -> Group {
    let name = image.section_at(address).map_or_else(|| tag.to_owned(), |section| section.name.clone());
    Group { name, count, bytes: Bytes(bytes) }
}

/// glibc insists on the version where a file has versions and names libc. Source: glibc's elf/dl-version.c.
fn asks_for_abi<'data, R: ReadRef<'data>>(image: &Image<R>) -> Option<bool> {
    let versions = image.needed_versions();
    let dynamic = image.dynamic.as_ref()?;
    let needs_libc =
        dynamic.values(DT_NEEDED).any(|name| image.string(name).is_some_and(|name| name.starts_with(b"libc.so.")));
    let insists = needs_libc && !versions.is_empty();
    insists.then(|| versions.iter().any(|(_, version)| *version == RELR_ABI))
}

pub(super) fn waste<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Waste {
    let mut waste = Waste::default();
    let class = facts.image.class;
    for table in &facts.tables {
        waste.of += Bytes(table.len());
        if table.with_addends {
            waste.addend.add(table.count(), class.word().bytes());
        }
        // r_info has 32 + 32 bits in 64-bit files, 24 + 8 in 32-bit files.
        let symbol_len = match class {
            Class::Elf32 => 3,
            Class::Elf64 => 4,
        };
        if class == Class::Elf64 {
            waste.type_bits.add(table.count(), 3);
        }
        waste.no_symbol.add(table.iter().filter(|relocation| relocation.symbol == 0).count() as u64, symbol_len);
    }
    waste.total = waste.addend.bytes + waste.type_bits.bytes + waste.no_symbol.bytes;
    waste
}

impl WasteRow {
    fn add(&mut self, entries: u64, each: u64) {
        self.entries += entries;
        self.bytes += Bytes(entries * each);
    }
}

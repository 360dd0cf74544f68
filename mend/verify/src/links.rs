//! What the loader reads: dynamic table, symbols, versions, hash tables and relocations, by meaning.

use crate::bytes::{shown, text};
use crate::expected::{Allowed, Expected, is_followed};
use crate::file::Elf;
use crate::image::Image;
use crate::spans::Spans;
use crate::spec::*;
use crate::tables::{Batch, Relocation, Symbol, Tables, Version};
use crate::{Findings, Kind};
use std::collections::{BTreeMap, BTreeSet};

const ABI_DT_RELR: &[u8] = b"GLIBC_ABI_DT_RELR";

/// One side of the comparison.
pub(crate) struct Side<'a, 'b> {
    pub(crate) elf: &'b Elf<'a>,
    pub(crate) tables: &'b Tables<'a>,
    pub(crate) tokens: &'b [u64],
}

/// Entries of the dynamic table.
pub(crate) fn dynamic(old: &Side, new: &Side, expected: &Expected, findings: &mut Findings) {
    let tags: BTreeSet<u64> =
        [old, new].iter().flat_map(|side| &side.elf.dynamic.entries).map(|entry| entry.0).collect();
    for tag in tags {
        let values = |side: &Side| side.elf.dynamic.values(tag).collect::<Vec<_>>();
        let (before, after) = (values(old), values(new));
        if let Some(wanted) = expected.tag(tag) {
            if after.last().copied() != wanted {
                findings.add(Kind::Expected, None, || {
                    format!("{} was to become {wanted:x?}, and is {after:x?}", tag_name(tag))
                });
            }
            continue;
        }
        let same = match tag {
            DT_NEEDED | DT_SONAME | DT_RPATH | DT_RUNPATH | DT_CONFIG | DT_DEPAUDIT | DT_AUDIT | DT_AUXILIARY
            | DT_FILTER => {
                let texts = |side: &Side<'_, '_>, values: &[u64]| {
                    values.iter().map(|value| text(side.tables.strings, *value).map(<[u8]>::to_vec)).collect::<Vec<_>>()
                };
                texts(old, &before) == texts(new, &after)
            }
            DT_RELR | DT_RELRSZ | DT_RELRENT => true,
            // What is said twice stays said twice.
            DT_RELA | DT_RELASZ | DT_RELACOUNT | DT_REL | DT_RELSZ | DT_RELCOUNT if before == after => true,
            // A table of relocations that became empty may go, with all that is said of it.
            DT_RELA | DT_RELASZ | DT_RELACOUNT => after.len() <= 1 && (!after.is_empty() || is_empty(new, DT_RELA)),
            DT_REL | DT_RELSZ | DT_RELCOUNT => after.len() <= 1 && (!after.is_empty() || is_empty(new, DT_REL)),
            DT_RELAENT if after.is_empty() => is_empty(new, DT_RELA),
            DT_RELENT if after.is_empty() => is_empty(new, DT_REL),
            _ if is_followed(tag) => before.len() == after.len(),
            _ => before == after,
        };
        // RELACOUNT is an offer that the loader need not get.
        let same = same || matches!(tag, DT_RELACOUNT | DT_RELCOUNT) && after.is_empty();
        if !same {
            findings.add(Kind::Dynamic, None, || format!("{} was {before:x?} and is {after:x?}", tag_name(tag)));
        }
    }
    moved_dynamic(old, new, expected, findings);
}

fn is_empty(side: &Side, tag: u64) -> bool {
    !side.tables.regions.iter().any(|region| region.tag == tag)
}

/// Code may know the dynamic table's old address as `_DYNAMIC`, so that a copy must stay there.
fn moved_dynamic(old: &Side, new: &Side, expected: &Expected, findings: &mut Findings) {
    let writable = |elf: &Elf| elf.load_at(elf.dynamic.at).is_some_and(|load| load.flags & PF_W != 0);
    if writable(old.elf) && !writable(new.elf) && !expected.allows(&Allowed::ReadOnlyDynamic) {
        findings
            .add(Kind::Dynamic, Some(new.elf.dynamic.at), || "the dynamic table is not writable any more".to_owned());
    }
    let at = old.elf.dynamic.at;
    if at == new.elf.dynamic.at {
        return;
    }
    let format = new.elf.format;
    let word = format.word_len() as usize;
    let table = new.elf.rest(at).unwrap_or(b"");
    let mut entries = table.chunks_exact(2 * word).map(|raw| (format.word(raw, 0), format.word(raw, word)));
    let known: BTreeSet<(u64, u64)> = new.elf.dynamic.entries.iter().copied().collect();
    loop {
        match entries.next() {
            Some((Some(DT_NULL), _)) => break,
            Some((Some(tag), Some(value))) if known.contains(&(tag, value)) => {}
            _ => {
                findings.add(Kind::Dynamic, Some(at), || {
                    "the dynamic table moved, and what stayed at its old place is not a copy of it".to_owned()
                });
                break;
            }
        }
    }
}

/// Dynamic symbols, by index, with their versions.
pub(crate) fn symbols(old: &Side, new: &Side, findings: &mut Findings) {
    let (before, after) = (&old.tables.symbols, &new.tables.symbols);
    if before.len() != after.len() {
        findings
            .add(Kind::Symbol, None, || format!("there were {} dynamic symbols, now {}", before.len(), after.len()));
    }
    findings.verdict.checked.symbols += before.len() as u64;
    let (old_name, new_name) = (|symbol| old.tables.name(symbol), |symbol| new.tables.name(symbol));
    // Where the new strings begin with all old ones, what begins at one place is one name.
    let strings = old.tables.strings;
    let kept = strings.last() == Some(&0) && new.tables.strings.starts_with(strings);
    for (index, (one, other)) in before.iter().zip(after).enumerate() {
        let same_name = (kept && one.name == other.name) || old_name(one) == new_name(other);
        let mut value = one.value;
        if value == old.elf.dynamic.at && old_name(one) == b"_DYNAMIC" {
            value = new.elf.dynamic.at;
        }
        if !same_name || (Symbol { name: other.name, value, ..*one }) != *other {
            findings.add(Kind::Symbol, Some(other.value), || {
                format!(
                    "dynamic symbol {index} was {} and is {}, or its value, size or type differs",
                    shown(old_name(one)),
                    shown(new_name(other))
                )
            });
        }
        if old.tables.version(index) != new.tables.version(index) {
            findings.add(Kind::Version, None, || format!("the version of {} differs", shown(old_name(one))));
        }
    }
}

/// Versions that are defined and needed; only what DT_RELR asks for may be new.
pub(crate) fn versions(old: &Side, new: &Side, findings: &mut Findings) {
    let (before, after) = (old.tables.all_versions(), new.tables.all_versions());
    let named = |version: &Version| {
        let library = version.library.map_or("this object".to_owned(), shown);
        format!("version {} of {library}", shown(version.name))
    };
    for gone in before.difference(&after) {
        findings.add(Kind::Version, None, || format!("{} is gone or changed", named(gone)));
    }
    let asks = |version: &Version| version.library.is_some_and(is_libc) && version.name == ABI_DT_RELR;
    for added in after.difference(&before) {
        if !(asks(added) && added.flags == 0 && !new.tables.relr.is_empty()) {
            findings.add(Kind::Version, None, || format!("{} is new", named(added)));
        }
    }
    // glibc's loader refuses DT_RELR in an object that has version needs and needs libc, but does not ask for it.
    let needs_libc = new.elf.dynamic.values(DT_NEEDED).any(|name| text(new.tables.strings, name).is_some_and(is_libc));
    let defines_private = after.iter().any(|version| version.library.is_none() && version.name == b"GLIBC_PRIVATE");
    if old.tables.relr.is_empty()
        && new.elf.dynamic.value(DT_RELR).is_some()
        && new.elf.dynamic.value(DT_VERNEED).is_some()
        && needs_libc
        && !defines_private
        && !after.iter().any(|version| asks(version))
    {
        findings.add(Kind::Version, None, || "DT_RELR is there, and GLIBC_ABI_DT_RELR is not required".to_owned());
    }
}

fn is_libc(library: &[u8]) -> bool {
    library.starts_with(b"libc.so.")
}

/// Looks every symbol up in both hash tables, as the loader does.
pub(crate) fn hashes(old: &Side, new: &Side, findings: &mut Findings) {
    // Equal tables find equal symbols, and those are compared by index.
    if let (Some(before), Some(after)) = (&old.tables.sysv, &new.tables.sysv)
        && before.table != after.table
    {
        let find = |name: &[u8], steps: &mut Steps| {
            let before = named(old, name, before.candidates(name, &mut steps.old));
            before.eq(named(new, name, after.candidates(name, &mut steps.new)))
        };
        look_up_all(old, "DT_HASH", find, findings);
    }
    if let (Some(before), Some(after)) = (&old.tables.gnu, &new.tables.gnu)
        && before.table != after.table
    {
        let find = |name: &[u8], steps: &mut Steps| {
            let before = named(old, name, before.candidates(name, &mut steps.old));
            before.eq(named(new, name, after.candidates(name, &mut steps.new)))
        };
        look_up_all(old, "DT_GNU_HASH", find, findings);
    }
}

/// Look-ups that may still pass a symbol: a damaged table can make every one of them pass all symbols.
struct Steps {
    old: u64,
    new: u64,
}

fn named<'a>(
    side: &Side<'a, 'a>,
    name: &'a [u8],
    found: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = usize> {
    let symbols = &side.tables.symbols;
    found.filter(move |index| symbols.get(*index).is_some_and(|symbol| side.tables.name(symbol) == name))
}

fn look_up_all(old: &Side, table: &str, find: impl Fn(&[u8], &mut Steps) -> bool, findings: &mut Findings) {
    let symbols = &old.tables.symbols;
    let limit = 1_000_000 + 256 * symbols.len() as u64;
    let mut steps = Steps { old: limit, new: limit };
    for name in symbols.iter().map(|symbol| old.tables.name(symbol)) {
        if !find(name, &mut steps) {
            findings.add(Kind::Hash, None, || format!("{table} does not find {} as before", shown(name)));
        }
    }
    if steps.old == 0 || steps.new == 0 {
        findings.add(Kind::Hash, None, || format!("the chains of {table} are too long to follow"));
    }
}

/// Every relocation that is not relative, in order; those of the PLT by index, because code counts them.
pub(crate) fn relocations(old: &Side, new: &Side, expected: &Expected, findings: &mut Findings) {
    let gone: BTreeMap<u64, u64> = expected.relatives().collect();
    became_relative(old, new, expected, &gone, findings);
    let plt = old.tables.batches.len().max(1) - 1;
    for (index, (before, after)) in old.tables.batches.iter().zip(&new.tables.batches).enumerate() {
        let counts = |side: &Side, relocation: &Relocation| {
            index == plt || ![side.elf.machine.relative, side.elf.machine.none].contains(&relocation.kind)
        };
        let mut one = in_order(before, index == plt).filter(|one| counts(old, one) && !gone.contains_key(&one.at));
        let mut other = in_order(after, index == plt).filter(|other| counts(new, other));
        loop {
            let (one, other) = (one.next(), other.next());
            let (Some(before), Some(after)) = (one, other) else {
                if one != other {
                    differs(old, one, new, other, findings);
                }
                break;
            };
            findings.verdict.checked.relocations += 1;
            if !same(old, &before, new, &after) {
                differs(old, one, new, other, findings);
                if before.at != after.at {
                    // One is missing or new, which shifts all that follow: the first tells enough.
                    break;
                }
            }
        }
        if let Err(reason) = after.check_trusted() {
            findings.add(Kind::Relocation, None, || reason);
        }
    }
}

/// All relocations, or those that are more than the base and a number.
fn in_order<'b>(batch: &'b Batch, all: bool) -> Box<dyn Iterator<Item = Relocation> + 'b> {
    if all { Box::new(batch.relocations()) } else { Box::new(batch.others()) }
}

/// Relocations that the rewriter says it made relative: they were symbolic, and meant what the word holds now.
fn became_relative(old: &Side, new: &Side, expected: &Expected, gone: &BTreeMap<u64, u64>, findings: &mut Findings) {
    if gone.is_empty() {
        return;
    }
    let added = Spans::new(expected.new_ranges());
    let mut missing: BTreeSet<u64> = gone.keys().copied().collect();
    for relocation in old.tables.relocations() {
        let Some(value) = gone.get(&relocation.at) else { continue };
        missing.remove(&relocation.at);
        let symbol = old.tables.symbols.get(relocation.symbol as usize).filter(|_| relocation.symbol != 0);
        let addend = relocation.addend.or_else(|| {
            let raw = old.elf.slice(relocation.at, old.elf.format.word_len())?;
            old.elf.format.word(raw, 0)
        });
        let right = match (symbol, addend) {
            (Some(symbol), Some(addend)) if symbol.is_defined() => {
                !matches!(symbol.kind(), STT_TLS | STT_GNU_IFUNC)
                    && old.elf.format.wrap(symbol.value.wrapping_add(addend)) == *value
            }
            (Some(_), Some(_)) => {
                added.holds(*value) && new.elf.load_at(*value).is_some_and(|load| load.flags & PF_X != 0)
            }
            _ => false,
        };
        if !right {
            findings.add(Kind::Expected, Some(relocation.at), || {
                format!("{} may not become relative to {value:#x}", described(old, Some(relocation)))
            });
        }
    }
    for at in missing {
        findings.add(Kind::Expected, Some(at), || "no symbolic relocation was there to become relative".to_owned());
    }
}

fn same(old: &Side, before: &Relocation, new: &Side, after: &Relocation) -> bool {
    let token = |side: &Side, relocation: &Relocation| side.tokens.get(relocation.symbol as usize).copied();
    (before.at, before.kind, before.addend) == (after.at, after.kind, after.addend)
        && token(old, before) == token(new, after)
        && (before.symbol == 0) == (after.symbol == 0)
}

fn differs(old: &Side, before: Option<Relocation>, new: &Side, after: Option<Relocation>, findings: &mut Findings) {
    findings.add(Kind::Relocation, after.or(before).map(|relocation| relocation.at), || {
        format!("a relocation was {} and is {}", described(old, before), described(new, after))
    });
}

fn described(side: &Side, relocation: Option<Relocation>) -> String {
    let Some(Relocation { at, kind, symbol, addend }) = relocation else { return "not there".to_owned() };
    let name =
        side.tables.symbols.get(symbol as usize).map_or("?".to_owned(), |symbol| shown(side.tables.name(symbol)));
    let addend = addend.map_or(String::new(), |addend| format!("{:+#x}", addend as i64));
    format!("type {kind} at {at:#x} to '{name}'{addend}")
}

/// Whether the arrays of functions that the loader calls lie where they lay.
pub(crate) fn same_arrays(old: &Elf, new: &Elf) -> bool {
    let places = |elf: &Elf| {
        let tags =
            [DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAY, DT_FINI_ARRAYSZ];
        tags.map(|tag| elf.dynamic.value(tag))
    };
    places(old) == places(new)
}

/// The initialiser and finaliser arrays, with the values that they hold after relocation: nothing is lost or exchanged.
/// (Where the arrays stay, their bytes are compared too; this is for those that a rewriter moves.)
pub(crate) fn arrays(old: &Elf, before: &Image, new: &Elf, after: &Image, findings: &mut Findings) {
    for (tag, size) in
        [(DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ), (DT_INIT_ARRAY, DT_INIT_ARRAYSZ), (DT_FINI_ARRAY, DT_FINI_ARRAYSZ)]
    {
        let entries = |elf: &Elf, image: &Image| -> Vec<Option<u64>> {
            let at = elf.dynamic.value(tag).unwrap_or(0);
            let len = elf.dynamic.value(size).unwrap_or(0).min(elf.bytes.len() as u64);
            (0..len / elf.format.word_len())
                .map(|index| image.read(at.wrapping_add(index * elf.format.word_len())))
                .collect()
        };
        let now = entries(new, after);
        let mut rest = now.iter();
        // Entries may come in between, but every one of the original is still called, and in its order.
        if !entries(old, before).iter().all(|entry| rest.any(|other| other == entry)) {
            findings.add(Kind::Dynamic, new.dynamic.value(tag), || {
                format!("{} does not call all that it did, in that order", tag_name(tag))
            });
        }
    }
}

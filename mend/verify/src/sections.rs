//! Section headers, what is not loaded, and what lies behind the end: debug data, symbol tables, appended payloads.

use crate::bytes::{shown, text};
use crate::compare::{differing_runs, hex};
use crate::expected::{Allowed, Expected};
use crate::file::{Elf, Section};
use crate::spans::Spans;
use crate::spec::*;
use crate::tables::{Symbol, symbol};
use crate::{Findings, Kind};

/// Every section of the original is there under its index, unchanged unless it holds what may move. New ones come after
/// them, so that no symbol's section index changes its meaning.
pub(crate) fn sections(old: &Elf, new: &Elf, movable: &Spans, expected: &Expected, findings: &mut Findings) {
    if new.sections.len() < old.sections.len() {
        findings.add(Kind::Section, None, || {
            format!("there were {} sections, now {}", old.sections.len(), new.sections.len())
        });
    }
    for (index, (before, after)) in old.sections.iter().zip(&new.sections).enumerate() {
        let may_move = before.flags & SHF_ALLOC != 0 && movable.covers(before.at, before.len);
        let read_only = before.kind == SHT_DYNAMIC && expected.allows(&Allowed::ReadOnlyDynamic);
        let flags = |section: &Section| if read_only { section.flags & !SHF_WRITE } else { section.flags };
        let fixed = |section: &Section| (section.kind, flags(section), section.link, section.entry);
        let info = may_move || before.info == after.info;
        if before.name != after.name || fixed(before) != fixed(after) || !info {
            findings.add(Kind::Section, Some(after.at), || {
                let (before, after) = (shown(before.name), shown(after.name));
                format!("section {index} was '{before}' and is '{after}', or its type, flags or links differ")
            });
            continue;
        }
        if may_move || index == old.names_index {
            continue;
        }
        // A section may grow over new bytes behind it, so that tools keep them.
        let end = before.end();
        let grows = expected.new_ranges().any(|(at, len)| at >= end && at.saturating_add(len) == after.end());
        if before.at != after.at || (before.len != after.len && !grows) {
            findings.add(Kind::Section, Some(before.at), || {
                let (name, from, to) = (shown(before.name), before.len, after.len);
                format!("section {name} of {from} bytes lies at {:#x} with {to} bytes", after.at)
            });
        } else if before.flags & SHF_ALLOC == 0 && before.in_file() {
            let other_link = before.name == b".gnu_debuglink" && expected.allows(&Allowed::DebugLink);
            if !other_link {
                content(old, before, new, after, findings);
            }
        }
    }
    payload(old, new, findings);
}

/// A section that is not loaded.
fn content(old: &Elf, before: &Section, new: &Elf, after: &Section, findings: &mut Findings) {
    let name = || shown(before.name);
    let (one, other) = (old.in_file(before.offset, before.len), new.in_file(after.offset, after.len));
    let (Some(one), Some(other)) = (one, other) else {
        if one.is_some() {
            findings.add(Kind::Section, None, || format!("section {} lies outside the file", name()));
        }
        return;
    };
    findings.checked_bytes(before.len);
    if one == other {
        return;
    }
    if before.kind == SHT_SYMTAB {
        return symbols(old, before, one, new, after, other, findings);
    }
    for (start, len) in differing_runs(one, other) {
        findings.add(Kind::Section, None, || {
            let (one, other) = (hex(&one[start..start + len]), hex(&other[start..start + len]));
            format!("byte {start:#x} of section {}: {one} became {other}", name())
        });
    }
}

/// A symbol table that is not loaded: symbols may follow what they name where that moved.
fn symbols(old: &Elf, before: &Section, one: &[u8], new: &Elf, after: &Section, other: &[u8], findings: &mut Findings) {
    let strings = |elf: &Elf<'_>, section: &Section| -> Option<Vec<u8>> {
        let strings = elf.sections.get(section.link as usize)?;
        Some(elf.in_file(strings.offset, strings.len)?.to_vec())
    };
    let (Some(old_strings), Some(new_strings)) = (strings(old, before), strings(new, after)) else { return };
    for index in 0..one.len() / old.format.pick(16, 24) {
        let entries = (named(old, one, &old_strings, index), named(new, other, &new_strings, index));
        let same = match &entries {
            (Some((name, one)), Some((new_name, other))) => {
                let moved =
                    || Symbol { value: other.value, ..*one } == *other && followed(old, name, one, new, other.value);
                name == new_name && (one == other || moved())
            }
            (one, other) => one == other,
        };
        if !same {
            findings.add(Kind::Section, entries.1.map(|(_, symbol)| symbol.value), || {
                let name = entries.0.map_or("?".to_owned(), |(name, _)| shown(name));
                format!("symbol {index} ({name}) of section {} differs", shown(before.name))
            });
        }
    }
}

/// The name of an entry of a symbol table, and all else that it says.
fn named<'s>(elf: &Elf, table: &[u8], strings: &'s [u8], index: usize) -> Option<(&'s [u8], Symbol)> {
    let symbol = symbol(elf.format, table, index)?;
    Some((text(strings, symbol.name.into())?, Symbol { name: 0, ..symbol }))
}

/// Whether a symbol's value moved as far as its section or the dynamic table did.
fn followed(old: &Elf, name: &[u8], symbol: &Symbol, new: &Elf, value: u64) -> bool {
    let section = usize::from(symbol.section);
    let moved = match (old.sections.get(section), new.sections.get(section)) {
        (Some(before), Some(after)) => symbol.value.wrapping_sub(before.at).wrapping_add(after.at) == value,
        _ => false,
    };
    moved || name == b"_DYNAMIC" && symbol.value == old.dynamic.at && value == new.dynamic.at
}

/// Bytes behind everything that the headers know: an appended archive finds itself from the end of the file.
fn payload(old: &Elf, new: &Elf, findings: &mut Findings) {
    let (before, after) = (behind(old), behind(new));
    findings.checked_bytes(before.len() as u64);
    if before != after {
        findings.add(Kind::Payload, None, || {
            format!("{} bytes were appended to the file, and now {} others are", before.len(), after.len())
        });
    }
}

fn behind<'a>(elf: &Elf<'a>) -> &'a [u8] {
    let sections = elf.sections.iter().filter(|section| section.in_file()).map(|section| (section.offset, section.len));
    let segments = elf.segments.iter().map(|segment| (segment.offset, segment.file_len));
    let headers = [(elf.segments_offset, elf.segments_len), (elf.sections_offset, elf.sections_len)];
    let end = sections.chain(segments).chain(headers).map(|(at, len)| at.saturating_add(len)).max().unwrap_or(0);
    usize::try_from(end).ok().and_then(|end| elf.bytes.get(end..)).unwrap_or(b"")
}

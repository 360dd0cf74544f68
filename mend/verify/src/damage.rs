//! What is wrong with a file itself, before anybody rewrote it: so that its refusal names the file's fault, and not one
//! of the rewriter.

use crate::Original;
use crate::file::Elf;
use crate::lint;
use crate::spans::Spans;
use crate::spec::*;
use crate::tables::Tables;

/// Tags that come together.
const PAIRS: [(u64, u64); 8] = [
    (DT_STRTAB, DT_STRSZ),
    (DT_SYMTAB, DT_SYMENT),
    (DT_JMPREL, DT_PLTRELSZ),
    (DT_VERNEED, DT_VERNEEDNUM),
    (DT_VERDEF, DT_VERDEFNUM),
    (DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
    (DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
    (DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ),
];

/// What contradicts itself in a file whose rewritten form could not be proven: also what no loader looks at, and what
/// files of odd linkers get away with. `None`: nothing was found.
pub fn contradiction(original: &[u8]) -> Option<String> {
    let Original { elf, tables } = match Original::read(original) {
        Ok(read) => read,
        Err(reason) => return Some(reason),
    };
    let no_hash = || {
        let has_none = tables.sysv.is_none() && tables.gnu.is_none() && elf.dynamic.value(DT_SYMTAB).is_some();
        has_none.then(|| "its symbols have neither DT_HASH nor DT_GNU_HASH".to_owned())
    };
    let no_versions = || {
        let has = |tag| elf.dynamic.value(tag).is_some();
        let lacks = (has(DT_VERNEED) || has(DT_VERDEF)) && !has(DT_VERSYM);
        lacks
            .then(|| "it has versions (DT_VERNEED, DT_VERDEF) and does not say of which symbols (DT_VERSYM)".to_owned())
    };
    let half = || {
        let has = |tag| elf.dynamic.value(tag).is_some();
        let (one, other) = PAIRS.into_iter().find(|(one, other)| has(*one) != has(*other))?;
        let (there, missing) = if has(one) { (one, other) } else { (other, one) };
        Some(format!("{} without {}", tag_name(there), tag_name(missing)))
    };
    let cut = || {
        let named = elf.segments.iter().find(|segment| {
            [PT_INTERP, PT_NOTE, PT_DYNAMIC].contains(&segment.kind) && segment.file_len != segment.mem_len
        });
        named.map(|segment| format!("the program header of type {:#x} has two lengths", segment.kind))
    };
    overlap(&elf, &tables)
        .or_else(|| array(&elf))
        .or_else(no_hash)
        .or_else(no_versions)
        .or_else(half)
        .or_else(cut)
        .or_else(|| lint::contradiction(&elf, &tables))
}

/// Two tables that share bytes; that of the PLT may be part of the other.
fn overlap(elf: &Elf, tables: &Tables) -> Option<String> {
    let mut ranges: Vec<(u64, u64, String)> =
        tables.regions.iter().map(|region| (region.at, region.len, tag_name(region.tag))).collect();
    ranges.push((elf.dynamic.at, elf.dynamic.len, "the dynamic table".to_owned()));
    ranges
        .extend(elf.address_of(elf.segments_offset).map(|at| (at, elf.segments_len, "the program headers".to_owned())));
    let notes: Vec<(u64, u64)> = elf.segments_of(PT_NOTE).map(|segment| (segment.at, segment.mem_len)).collect();
    ranges.extend(Spans::new(notes).ranges().iter().map(|(start, end)| (*start, end - start, "a PT_NOTE".to_owned())));
    ranges.extend(elf.segment(PT_INTERP).map(|segment| (segment.at, segment.mem_len, "PT_INTERP".to_owned())));
    ranges.extend(arrays(elf).map(|(tag, at, len)| (at, len, tag_name(tag))));
    ranges.retain(|(_, len, name)| *len > 0 && name != "DT_JMPREL");
    ranges.sort();
    let pair = ranges.windows(2).find(|pair| pair[0].0.saturating_add(pair[0].1) > pair[1].0)?;
    Some(format!("{} and {} share bytes", pair[0].2, pair[1].2))
}

/// An array of initialisers that is not in memory.
fn array(elf: &Elf) -> Option<String> {
    let outside = |(_, at, len): &(u64, u64, u64)| *len > 0 && elf.load_of(*at, *len).is_none();
    let (tag, ..) = arrays(elf).find(outside)?;
    Some(format!("{} leads outside the file", tag_name(tag)))
}

fn arrays(elf: &Elf) -> impl Iterator<Item = (u64, u64, u64)> {
    [(DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ), (DT_INIT_ARRAY, DT_INIT_ARRAYSZ), (DT_FINI_ARRAY, DT_FINI_ARRAYSZ)]
        .into_iter()
        .filter_map(|(tag, size)| Some((tag, elf.dynamic.value(tag)?, elf.dynamic.value(size)?)))
}

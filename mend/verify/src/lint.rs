//! What must hold of any file that a loader, strip and readelf take, whether or not there is an original to compare
//! with. A file is blamed only for what its original did right.

use crate::expected::Expected;
use crate::file::Elf;
use crate::image::relr_addresses;
use crate::notes;
use crate::spans::Spans;
use crate::spec::*;
use crate::tables::Tables;
use crate::{Findings, Kind};
use std::collections::BTreeMap;

/// A fault, and where.
pub(crate) struct Fault {
    rule: Rule,
    at: Option<u64>,
    what: String,
}

/// Which rule a fault breaks: an original that breaks it too is the measure for its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    Alignment,
    SegmentOrder,
    SegmentPlace,
    ZeroFill,
    SealedRange,
    DynamicTable,
    HeaderTable,
    SectionPlace,
    SectionOverlap,
    Coverage,
    TableSection,
    Packed,
    Readable,
    Table,
}

/// Faults of the packed file that its original does not have.
pub(crate) fn lint(old: (&Elf, &Tables), new: (&Elf, &Tables), expected: &Expected, findings: &mut Findings) {
    let mut known: BTreeMap<Rule, usize> = BTreeMap::new();
    let headers = loaded_headers(old.0);
    for fault in faults(old.0, old.1, headers, &Expected::default()) {
        *known.entry(fault.rule).or_default() += 1;
    }
    for fault in faults(new.0, new.1, headers, expected) {
        match known.get_mut(&fault.rule) {
            Some(count) if *count > 0 => *count -= 1,
            _ => findings.add(Kind::Structure, fault.at, || fault.what),
        }
    }
}

/// The first fault by which a file contradicts itself; not those that linkers of all times make.
pub(crate) fn contradiction(elf: &Elf, tables: &Tables) -> Option<String> {
    let tolerated = [Rule::Alignment, Rule::SegmentOrder, Rule::SealedRange, Rule::TableSection, Rule::HeaderTable];
    faults(elf, tables, loaded_headers(elf), &Expected::default())
        .into_iter()
        .find(|fault| !tolerated.contains(&fault.rule))
        .map(|fault| fault.what)
}

/// The section headers, if they are loaded with the code, as Go's linker does it. In a copy they may be elsewhere, and
/// what the program has in memory stays.
fn loaded_headers(elf: &Elf) -> Option<(u64, u64)> {
    elf.address_of(elf.sections_offset).filter(|_| elf.sections_len > 0).map(|at| (at, elf.sections_len))
}

/// `headers`: where the section headers of the original are loaded.
fn faults(elf: &Elf, tables: &Tables, headers: Option<(u64, u64)>, expected: &Expected) -> Vec<Fault> {
    let mut faults = Faults(Vec::new());
    segments(elf, &mut faults);
    sealed(elf, &mut faults);
    header_table(elf, &mut faults);
    dynamic_table(elf, &mut faults);
    packed(elf, tables, expected, &mut faults);
    readable(elf, tables, &mut faults);
    if !elf.sections.is_empty() {
        sections(elf, &mut faults);
        table_sections(elf, tables, &mut faults);
        coverage(elf, headers, &mut faults);
    }
    for what in &tables.faults {
        faults.add(Rule::Table, None, what.clone());
    }
    faults.0
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, rule: Rule, at: impl Into<Option<u64>>, what: impl Into<String>) {
        // Hostile tables can have a fault an entry; so many say no more than the first.
        if self.0.len() < 1000 {
            self.0.push(Fault { rule, at: at.into(), what: what.into() });
        }
    }
}

fn segments(elf: &Elf, faults: &mut Faults) {
    let mut last = 0;
    for load in elf.segments_of(PT_LOAD) {
        let align = load.align.max(1);
        if !align.is_power_of_two() {
            faults.add(Rule::Alignment, load.at, format!("the alignment {align:#x} of a PT_LOAD is no power of two"));
        } else if load.offset % align != load.at % align {
            faults.add(Rule::Alignment, load.at, "offset and address of a PT_LOAD differ modulo its alignment");
        }
        if align < 4096 {
            faults.add(Rule::Alignment, load.at, "a PT_LOAD is aligned to less than a page");
        }
        // A mapping is made of whole pages, and would replace the end of the one before.
        if load.mem_len > 0 {
            if load.at / 4096 * 4096 < last {
                faults.add(Rule::SegmentOrder, load.at, "a PT_LOAD shares a page with the one before");
            }
            last = load.end().checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        }
        if load.mem_len > load.file_len && load.flags & PF_W == 0 {
            faults.add(Rule::ZeroFill, load.at, "a PT_LOAD that is not writable is to be filled with zeros");
        }
    }
    for segment in &elf.segments {
        if [PT_LOAD, PT_GNU_STACK].contains(&segment.kind) || segment.mem_len == 0 {
            continue;
        }
        // .tbss has no place in memory.
        let len = if segment.kind == PT_TLS { segment.file_len } else { segment.mem_len };
        let Some(load) = elf.load_of(segment.at, len.max(1)) else {
            if len > 0 {
                faults.add(
                    Rule::SegmentPlace,
                    segment.at,
                    format!("segment type {:#x} lies outside every PT_LOAD", segment.kind),
                );
            }
            continue;
        };
        if segment.file_len > 0 && segment.at - load.at != segment.offset.wrapping_sub(load.offset) {
            faults.add(
                Rule::SegmentPlace,
                segment.at,
                format!("segment type {:#x} lies elsewhere in the file than in memory", segment.kind),
            );
        }
    }
    if !notes::are_loaded(elf) {
        faults.add(Rule::SegmentPlace, None, "a PT_NOTE is not loaded");
    }
}

fn sealed(elf: &Elf, faults: &mut Faults) {
    let Some(relro) = elf.segment(PT_GNU_RELRO) else { return };
    // Rounded down, the last page would stay writable; on the largest page size that the file is made for, too.
    let page = elf.load_at(relro.at).map_or(4096, |load| load.align.max(4096));
    let small = page.is_power_of_two() && relro.end() % page == 0 || relro.end() % 4096 == 0;
    let ends_a_load = elf.loads().any(|load| load.end() == relro.end());
    if !small && !ends_a_load {
        faults.add(Rule::SealedRange, relro.end(), "PT_GNU_RELRO does not end at a page");
    }
    let sealed = Spans::new([(relro.at / 4096 * 4096, relro.end() / 4096 * 4096 - relro.at / 4096 * 4096)]);
    for load in elf.loads().filter(|load| load.flags & PF_W == 0) {
        if sealed.holds(load.at) {
            faults.add(Rule::SealedRange, load.at, "PT_GNU_RELRO covers memory that is not writable anyway");
        }
    }
}

fn header_table(elf: &Elf, faults: &mut Faults) {
    let at = elf.address_of(elf.segments_offset);
    let loaded = at.is_some_and(|at| elf.slice(at, elf.segments_len).is_some());
    if !loaded {
        faults.add(Rule::HeaderTable, at, "the program headers are not loaded");
    }
    if let Some(own) = elf.segment(PT_PHDR)
        && (Some(own.at), own.offset, own.file_len) != (at, elf.segments_offset, elf.segments_len)
    {
        faults.add(Rule::HeaderTable, own.at, "PT_PHDR does not name the program headers");
    }
    // strip keeps what lies in the first page by itself, and elsewhere only what a section holds.
    let behind_header = elf.segments_offset == elf.header_len;
    let in_section = elf.sections.iter().any(|section| {
        section.in_file()
            && section.offset <= elf.segments_offset
            && elf.segments_offset.saturating_add(elf.segments_len) <= section.file_end()
    });
    if !behind_header && !in_section && !elf.sections.is_empty() {
        faults.add(Rule::HeaderTable, at, "the program headers lie neither behind the header nor in a section");
    }
}

fn dynamic_table(elf: &Elf, faults: &mut Faults) {
    let dynamic = &elf.dynamic;
    if !dynamic.terminated {
        faults.add(Rule::DynamicTable, dynamic.at, "the dynamic table has no end");
    }
    let mut sections = elf.sections.iter().filter(|section| section.kind == 6);
    if let Some(section) = sections.next()
        && (section.at, section.len) != (dynamic.at, dynamic.len)
    {
        faults.add(Rule::DynamicTable, section.at, "PT_DYNAMIC and its section differ");
    }
    if !dynamic.at.is_multiple_of(elf.format.word_len()) {
        faults.add(Rule::DynamicTable, dynamic.at, "the dynamic table is not aligned");
    }
}

fn packed(elf: &Elf, tables: &Tables, expected: &Expected, faults: &mut Faults) {
    let own = expected.initialiser().and_then(|(at, len)| elf.slice(at, len));
    for table in [tables.relr, own.unwrap_or(b"")] {
        let len = elf.format.word_len();
        if !(table.len() as u64).is_multiple_of(len) {
            faults.add(Rule::Packed, None, "the RELR table is not a whole number of words");
        }
        if elf.format.word(table, 0).is_some_and(|word| word & 1 == 1) {
            faults.add(Rule::Packed, None, "the RELR table begins with a bitmap");
        }
        let mut next = 0;
        let mut load = None;
        for at in relr_addresses(elf.format, table) {
            if at < next {
                faults.add(Rule::Packed, at, "a RELR address comes before the one before it");
            }
            if !at.is_multiple_of(len) && at & 1 == 1 {
                faults.add(Rule::Packed, at, "a RELR address is odd");
            }
            next = at.saturating_add(len);
            let inside = |load: &&crate::file::Segment| load.at <= at && next <= load.file_end();
            load = load.filter(inside).or_else(|| elf.loads().find(inside));
            if load.is_none_or(|load| load.flags & PF_W == 0) {
                faults.add(Rule::Packed, at, "a RELR address is not in writable bytes of the file");
            }
        }
    }
}

fn readable(elf: &Elf, tables: &Tables, faults: &mut Faults) {
    for region in &tables.regions {
        if elf.load_of(region.at, region.len).is_none_or(|load| load.flags & PF_R == 0) {
            faults.add(Rule::Readable, region.at, format!("what {} leads to cannot be read", tag_name(region.tag)));
        }
        let align = match region.tag {
            DT_STRTAB => 1,
            DT_VERSYM => 2,
            DT_HASH | DT_VERDEF | DT_VERNEED => 4,
            _ => elf.format.word_len(),
        };
        if !region.at.is_multiple_of(align) {
            faults.add(Rule::Readable, region.at, format!("what {} leads to is not aligned", tag_name(region.tag)));
        }
    }
}

fn sections(elf: &Elf, faults: &mut Faults) {
    let shown = crate::bytes::shown;
    for section in elf.loaded_sections() {
        let Some(load) = elf.load_of(section.at, section.len) else {
            faults.add(Rule::SectionPlace, section.at, format!("section {} lies in no PT_LOAD", shown(section.name)));
            continue;
        };
        let from_file = section.end() <= load.file_end();
        let in_place = section.at - load.at == section.offset.wrapping_sub(load.offset);
        if section.kind != SHT_NOBITS && !(from_file && in_place) {
            faults.add(
                Rule::SectionPlace,
                section.at,
                format!("section {} lies elsewhere in the file than in memory", shown(section.name)),
            );
        }
    }
    let mut in_file: Vec<_> = elf.sections.iter().filter(|section| section.in_file()).collect();
    in_file.sort_by_key(|section| (section.offset, section.len));
    for pair in in_file.windows(2) {
        let end = pair[0].file_end();
        if end > pair[1].offset {
            let (one, other) = (shown(pair[0].name), shown(pair[1].name));
            faults.add(Rule::SectionOverlap, pair[1].at, format!("sections {one} and {other} overlap in the file"));
        }
    }
    for section in &in_file {
        if elf.in_file(section.offset, section.len).is_none() {
            faults.add(
                Rule::SectionPlace,
                section.at,
                format!("section {} ends outside the file", shown(section.name)),
            );
        }
    }
    let headers_end = elf.sections_offset.saturating_add(elf.sections_len);
    if in_file.iter().any(|section| section.offset < headers_end && elf.sections_offset < section.file_end()) {
        faults.add(Rule::SectionOverlap, None, "the section headers overlap a section");
    }
    if elf.names_index >= elf.sections.len() || elf.sections[elf.names_index].kind != 3 {
        faults.add(Rule::SectionPlace, None, "the names of the sections are missing");
    }
}

/// Each table that the loader reads is one section, with the same place and size.
fn table_sections(elf: &Elf, tables: &Tables, faults: &mut Faults) {
    for region in &tables.regions {
        let exact = matches!(region.tag, DT_STRTAB | DT_RELR | DT_RELA | DT_REL | DT_VERSYM | DT_SYMTAB);
        let found = elf.loaded_sections().any(|section| {
            section.at == region.at && if exact { section.len == region.len } else { section.len >= region.len }
        });
        if !found {
            faults.add(Rule::TableSection, region.at, format!("no section agrees with {}", tag_name(region.tag)));
        }
    }
}

/// Tools that write a file anew take the bytes of the sections and drop what lies between.
fn coverage(elf: &Elf, headers: Option<(u64, u64)>, faults: &mut Faults) {
    let header = elf.address_of(0).map(|at| (at, elf.header_len));
    let table = elf.address_of(elf.segments_offset).map(|at| (at, elf.segments_len));
    let sections = elf.loaded_sections().map(|section| (section.at, section.len));
    let covered = Spans::new(sections.chain(header).chain(table).chain(headers));
    // What is mapped twice is in a section once, at the other address.
    let in_file = elf.loaded_sections().filter(|section| section.in_file());
    let kept = Spans::new(in_file.map(|section| (section.offset, section.len)));
    for load in elf.loads() {
        for (from, to) in covered.outside(load.at, load.file_end()) {
            let place = load.offset.saturating_add(from - load.at);
            for (start, end) in kept.outside(place, place.saturating_add(to - from)) {
                let bytes = elf.in_file(start, end - start).unwrap_or(b"");
                if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
                    let (at, to) = (from + (start - place) + first as u64, from + (end - place));
                    let what = format!("bytes from {at:#x} to {to:#x} are loaded and in no section");
                    faults.add(Rule::Coverage, at, what);
                }
            }
        }
    }
}

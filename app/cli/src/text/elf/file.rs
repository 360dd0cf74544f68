//! All about one ELF file, as text.

use super::parts::{following, groups, internal, packed_forms, vtables, waste};
use super::{more, share};
use crate::text::table::{Align, Table};
use crate::text::{Page, errors, harmless, units};
use elfstat::Depth;
use elfstat::report::{FileReport, Initializer, Kind, Packing, Surveyed};
use model::{Bytes, shown};

/// The page; `rows` of each table.
pub(super) fn detail(page: &mut Page, file: &Surveyed, rows: usize) {
    let report = &file.report;
    page.heading(&harmless(&shown(&file.path)));
    identity(page, report);
    let relocations = &report.relocations;
    if relocations.count > 0 {
        page.gap();
        page.paragraph(&format!(
            "{} in tables of {}, {} of the file.",
            units::plural(relocations.count, "relocation", "relocations"),
            units::bytes(relocations.bytes),
            share(relocations.bytes.0, report.size.0)
        ));
        if let Some(relr) = relocations.relr {
            page.paragraph(&format!(
                "{} of them are packed already, in {}.",
                units::count(relr.count),
                units::bytes(relr.bytes)
            ));
        }
        if relocations.entries > 0 {
            packed_forms(page, &report.packing, report.size);
            in_place(page, &report.packing);
        }
        groups(page, "By type", "type", &relocations.by_type, rows);
        groups(page, "By table", "section of the table", &relocations.by_table, rows);
        groups(page, "By target", "section that is relocated", &relocations.by_target, rows);
        symbols(page, report, rows);
        waste(page, &report.waste);
        page.heading("How they lie");
        following(page, relocations.adjacency.following, relocations.adjacency.of);
        if relocations.adjacency.runs > 0 {
            page.paragraph(&format!(
                "The {} relative ones make {} of consecutive words; the longest has {}.",
                units::count(relocations.relative),
                units::plural(relocations.adjacency.runs, "run", "runs"),
                units::count(relocations.adjacency.longest_run)
            ));
        }
        vtables(page, &report.vtables, relocations.count, Depth::Detail);
        internal(page, &report.internal, Some(report.identity.kind));
    } else {
        page.gap();
        page.paragraph("The dynamic loader has no relocation to apply.");
    }
    layout(page, report);
    initializers(page, report, rows);
    if !report.warnings.is_empty() {
        page.gap();
        errors::warnings(page, &report.warnings);
    }
}

fn identity(page: &mut Page, report: &FileReport) {
    let identity = &report.identity;
    let kind = match identity.kind {
        Kind::Pie => "program (position independent)",
        Kind::FixedProgram => "program (at a fixed address)",
        Kind::Library => "shared library",
        Kind::Static => "static program",
        Kind::StaticPie => "static program (position independent)",
        Kind::Object => "object file",
        Kind::Core => "memory dump",
        Kind::DebugData => "debug data of another file",
        Kind::Other => "file of another kind",
    };
    let word = match identity.class {
        elf::Class::Elf32 => "32 bits",
        elf::Class::Elf64 => "64 bits",
    };
    let order = match identity.order {
        elf::Order::Little => "little-endian",
        elf::Order::Big => "big-endian",
    };
    let symbols = if identity.has_symbols { "with a symbol table" } else { "stripped" };
    page.paragraph(&format!(
        "{kind} for {}, {word}, {order}, {}, {symbols}",
        identity.machine,
        units::bytes(report.size)
    ));
    let made = identity.linker.iter().chain(&identity.compilers).map(|name| harmless(name)).collect::<Vec<_>>();
    if !made.is_empty() {
        page.labelled("", "made by   ", &made.join("; "));
    }
    if let Some(id) = &identity.build_id {
        page.labelled("", "build-id  ", id);
    }
}

fn in_place(page: &mut Page, packing: &Packing) {
    if let Some(in_place) = packing.addend_in_place.filter(|_| packing.packable > 0) {
        page.paragraph(&match in_place {
            0 => "None of the words holds its addend already.".to_owned(),
            all if all == packing.packable => "All of the words hold their addend already.".to_owned(),
            some => format!("{} of the words hold their addend already.", units::count(some)),
        });
    }
}

fn symbols(page: &mut Page, report: &FileReport, rows: usize) {
    let relocations = &report.relocations;
    let named: u64 = relocations.by_symbol.iter().map(|group| group.count).sum();
    if named == 0 {
        return;
    }
    page.heading(&format!("By symbol ({} named)", units::plural(relocations.symbols, "symbol is", "symbols are")));
    let mut table = Table::new([("relocations", Align::Right), ("symbol", Align::Elastic)]);
    for group in relocations.by_symbol.iter().take(rows) {
        table.row([units::count(group.count), harmless(&group.name)]);
    }
    page.table(&table);
}

fn layout(page: &mut Page, report: &FileReport) {
    if report.dynamic.is_none() && report.last_data_page.is_none() {
        return;
    }
    page.heading("Layout");
    if let Some(place) = report.dynamic {
        page.paragraph(&format!(
            "The dynamic table lies {} into the file ({} of it), has {} and {}, and is {}.",
            units::bytes(Bytes(place.offset.0)),
            share(place.offset.0, report.size.0),
            units::plural(place.entries, "entry", "entries"),
            units::plural(place.spare, "free slot", "free slots"),
            if place.writable { "writable" } else { "read-only" }
        ));
    }
    if let Some(last) = report.last_data_page {
        let begins =
            format!("The last page of the data has {} of .bss, which the loader clears", units::bytes(last.unused));
        let text = match (last.unused.0, last.relocated) {
            (0, _) => "The data end with a page before .bss.".to_owned(),
            (_, true) => format!("{begins}; relocations write to that page in any case."),
            (_, false) => format!("{begins}: it is read and copied only for that."),
        };
        page.paragraph(&text);
    }
}

fn initializers(page: &mut Page, report: &FileReport, rows: usize) {
    let initializers = &report.initializers;
    if initializers.functions.is_empty() {
        return;
    }
    page.heading(&format!(
        "What runs at the start: {} in lists",
        units::plural(initializers.count, "function", "functions")
    ));
    let mut table = Table::new([
        ("list", Align::Left),
        ("entry", Align::Right),
        ("address", Align::Right),
        ("symbol", Align::Elastic),
        ("source", Align::Left),
    ]);
    for Initializer { list, entry, address, symbol, source } in initializers.functions.iter().take(rows) {
        table.row([
            (*list).to_owned(),
            if *list == "DT_INIT" { String::new() } else { units::count(*entry) },
            address.map_or_else(|| "elsewhere".to_owned(), |address| format!("{address:#x}")),
            symbol.as_deref().map(harmless).unwrap_or_default(),
            source.as_deref().map(harmless).unwrap_or_default(),
        ]);
    }
    page.table(&table.without_empty_columns());
    more(page, initializers.functions.len(), rows);
}

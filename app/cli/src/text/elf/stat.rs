//! `thaw elf stat` as text: one file in detail, or a table of files and what could be saved in all of them.

use super::{file, more, share};
use crate::text::table::{Align, Table};
use crate::text::{Page, harmless, units};
use elfstat::Depth;
use elfstat::report::{Group, Internal, Kind, Packing, Summary, Surveyed, Vtables, Waste};
use model::{Bytes, shown};
use work::rewrite::stat::StatDocument;

/// The answer; `rows` of each table.
pub fn stat(document: &StatDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    match (document.depth, document.files.as_slice()) {
        (Depth::Detail, [file]) => file::detail(&mut page, file, rows),
        (_, files) => {
            table(&mut page, files, rows);
            summary(&mut page, &document.summary, rows);
            super::left_out(&mut page, &document.left_out, rows);
        }
    }
    page
}

fn table(page: &mut Page, files: &[Surveyed], rows: usize) {
    if files.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("saves", Align::Right),
        ("of file", Align::Right),
        ("RELR", Align::Right),
        ("relocations", Align::Right),
        ("tables", Align::Right),
        ("wasted", Align::Right),
        ("internal", Align::Right),
        ("init", Align::Right),
        ("file", Align::Elastic),
    ]);
    for Surveyed { path, report } in files.iter().take(rows) {
        let relocations = &report.relocations;
        let relr = match relocations.relr {
            Some(_) => "has it".to_owned(),
            None if report.packing.packable > 0 => units::bytes(report.packing.relr),
            None => String::new(),
        };
        table.row([
            units::bytes(report.packing.saves()),
            share(report.packing.saves().0, report.size.0),
            relr,
            units::count(relocations.count),
            units::bytes(relocations.bytes),
            share(report.waste.total.0, report.waste.of.0),
            units::count(report.internal.load),
            units::count(report.initializers.count),
            harmless(&shown(path)),
        ]);
    }
    page.table(&table);
    more(page, files.len(), rows);
}

fn summary(page: &mut Page, sum: &Summary, rows: usize) {
    page.heading("What could be saved in these files");
    page.paragraph(&format!(
        "{} with {} are looked at; the dynamic loader works on {}. They have {} in tables of {}.",
        units::plural(sum.files, "ELF file", "ELF files"),
        units::bytes(sum.bytes),
        units::count(sum.dynamic),
        units::plural(sum.relocations, "relocation", "relocations"),
        units::bytes(sum.entry_bytes + sum.relr_bytes),
    ));
    packed_forms(page, &sum.packing, sum.bytes);
    if sum.packing.packable > 0 {
        let mut table =
            Table::new([("saving at least", Align::Right), ("files", Align::Right), ("saved", Align::Right)]);
        for saving in &sum.savings {
            table.row([page_size(saving.at_least), units::count(saving.files), units::bytes(saving.bytes)]);
        }
        page.table(&table);
    }
    if sum.with_relr > 0 {
        let packed = sum.by_type.iter().find(|group| group.name == "RELR").map_or(0, |group| group.count);
        page.paragraph(&format!(
            "{} already: {} in {}.",
            match sum.with_relr {
                1 => "1 file has RELR".to_owned(),
                many => format!("{} files have RELR", units::count(many)),
            },
            units::plural(packed, "relocation", "relocations"),
            units::bytes(sum.relr_bytes)
        ));
    }
    groups(page, "Relocations by type", "type", &sum.by_type, rows);
    waste(page, &sum.waste);
    page.heading("What else they hold");
    following(page, sum.following, sum.load_entries);
    vtables(page, &sum.vtables, sum.relocations, Depth::Survey);
    internal(page, &sum.internal, None);
    page.paragraph(&format!(
        "{} at the start; {} data by COPY relocations.",
        match sum.initializers {
            1 => "1 function runs".to_owned(),
            many => format!("{} functions run", units::count(many)),
        },
        match sum.with_copy {
            1 => "1 program takes".to_owned(),
            many => format!("{} programs take", units::count(many)),
        }
    ));
    page.paragraph(&format!(
        "In {} the data do not end with a page before .bss; in {} of them nothing else writes to that page.",
        units::plural(sum.unaligned_bss, "file", "files"),
        units::count(sum.unaligned_bss_clean)
    ));
    for path in &sum.without_abi {
        page.labelled(
            crate::text::YELLOW,
            "warning: ",
            &format!("{} has DT_RELR and does not ask for GLIBC_ABI_DT_RELR: glibc does not load it", harmless(path)),
        );
        page.labelled("", "   hint: ", "thaw elf fix-relr FILE --in-place");
    }
}

/// Steps of powers of two: `4 KiB`.
fn page_size(bytes: Bytes) -> String {
    match bytes.0 {
        small if small < 1 << 10 => format!("{small} B"),
        medium if medium < 1 << 20 => format!("{} KiB", medium >> 10),
        large => format!("{} MiB", large >> 20),
    }
}

pub(super) fn packed_forms(page: &mut Page, packing: &Packing, of: Bytes) {
    if packing.packable == 0 {
        page.paragraph("There is no relative relocation to pack.");
        return;
    }
    page.paragraph(&format!(
        "Packing would save {} ({} of all bytes): {} take {} and would take {} as RELR ({} less), {} as runs of \
         offset and count ({} less).",
        units::bytes(packing.saves()),
        share(packing.saves().0, of.0),
        units::plural(packing.packable, "relative relocation", "relative relocations"),
        units::bytes(packing.now),
        units::bytes(packing.relr),
        share(packing.saves().0, packing.now.0),
        units::bytes(packing.runs),
        share(packing.runs_save().0, packing.now.0),
    ));
    let kept = [
        (packing.odd, "at odd addresses"),
        (packing.not_in_writable_data, "outside of the writable data of the file"),
        (packing.overlapping, "overlapping with others"),
    ];
    let kept: Vec<String> = kept
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{} {why}", units::count(*count)))
        .collect();
    if !kept.is_empty() {
        page.paragraph(&format!("RELR cannot hold: {}.", kept.join(", ")));
    }
}

pub(super) fn groups(page: &mut Page, heading: &str, what: &str, groups: &[Group], rows: usize) {
    if groups.is_empty() {
        return;
    }
    page.heading(heading);
    let all: u64 = groups.iter().map(|group| group.count).sum();
    let mut table = Table::new([
        ("relocations", Align::Right),
        ("share", Align::Right),
        ("in tables", Align::Right),
        (what, Align::Elastic),
    ]);
    for group in groups.iter().take(rows) {
        table.row([
            units::count(group.count),
            share(group.count, all),
            // What is relocated by RELR has no entries of its own.
            if group.bytes.0 > 0 { units::bytes(group.bytes) } else { String::new() },
            harmless(&group.name),
        ]);
    }
    page.table(&table.without_empty_columns());
    more(page, groups.len(), rows);
}

pub(super) fn waste(page: &mut Page, waste: &Waste) {
    if waste.of.0 == 0 {
        return;
    }
    page.heading("Bytes of the relocation tables that say nothing, or say it twice");
    let mut table = Table::new([
        ("entries", Align::Right),
        ("bytes", Align::Right),
        ("of tables", Align::Right),
        ("waste", Align::Left),
    ]);
    let rows = [
        (waste.addend, "addend, which fits into the word that is relocated"),
        (waste.type_bits, "type on 32 bits, which needs 8"),
        (waste.no_symbol, "number of a symbol where there is none"),
    ];
    for (row, what) in rows.into_iter().filter(|(row, _)| row.entries > 0) {
        table.row([units::count(row.entries), units::count(row.bytes.0), two(row.bytes, waste.of), what.to_owned()]);
    }
    table.row(["".to_owned(), units::count(waste.total.0), two(waste.total, waste.of), "all".to_owned()]);
    page.table(&table);
}

/// The seed of this table had two digits.
fn two(part: Bytes, whole: Bytes) -> String {
    format!("{:.2} %", part.0 as f64 / whole.0 as f64 * 100.0)
}

pub(super) fn following(page: &mut Page, following: u64, of: u64) {
    if of > 0 {
        page.paragraph(&format!(
            "{} of {} entries to apply at load time ({}) are for the word after that of the entry before.",
            units::count(following),
            units::count(of),
            share(following, of)
        ));
    }
}

pub(super) fn vtables(page: &mut Page, vtables: &Vtables, relocations: u64, depth: Depth) {
    if relocations == 0 {
        return;
    }
    let known = match depth {
        Depth::Detail => "known",
        Depth::Survey => "exported",
    };
    let constant = format!(
        "{} relocations ({}) are in .data.rel.ro, where virtual tables are among other constants.",
        units::count(vtables.in_constant_data),
        share(vtables.in_constant_data, relocations),
    );
    if vtables.symbols > 0 {
        page.paragraph(&format!(
            "{} relocations ({}) fill the {} {known} virtual tables and type descriptions of C++. {constant}",
            units::count(vtables.in_symbols),
            share(vtables.in_symbols, relocations),
            units::count(vtables.symbols),
        ));
    } else {
        page.paragraph(&format!("No symbol tells where virtual tables are. {constant}"));
    }
    let pure = vtables.pure_virtual + vtables.pure_virtual_inside;
    if pure > 0 {
        page.paragraph(&format!(
            "{} are for __cxa_pure_virtual, {} of them relative.",
            units::plural(pure, "relocation", "relocations"),
            units::count(vtables.pure_virtual_inside)
        ));
    }
}

pub(super) fn internal(page: &mut Page, internal: &Internal, kind: Option<Kind>) {
    if internal.of + internal.of_plt == 0 {
        return;
    }
    page.paragraph(&format!(
        "{} of {} symbolic relocations at load time, and {} of {} for the PLT, look up a symbol that the file has \
         itself: {} functions, {} data; {} weak.",
        units::count(internal.load),
        units::count(internal.of),
        units::count(internal.plt),
        units::count(internal.of_plt),
        units::count(internal.functions),
        units::count(internal.data),
        units::count(internal.weak),
    ));
    match kind {
        _ if internal.bound_inside => page.paragraph("It is linked so that its own symbols win (DF_SYMBOLIC)."),
        Some(Kind::Library) | None if internal.preemptible > 0 => page.paragraph(&format!(
            "{} of them may be redirected by another file; bound inside, as the linker's -Bsymbolic does, they would \
             be relative.",
            units::count(internal.preemptible)
        )),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elfstat::report::{
        Adjacency, DynamicPlace, FileReport, Identity, Initializer, Initializers, LastDataPage, LeftOut, Relocations,
        Unreadable, WasteRow,
    };
    use model::{FileOffset, Warning, WarningKind};

    fn group(name: &str, count: u64, bytes: u64) -> Group {
        Group { name: name.to_owned(), count, bytes: Bytes(bytes) }
    }

    fn library(path: &str) -> Surveyed {
        let initializer = |entry, symbol: &str, source: &str| Initializer {
            list: ".init_array",
            entry,
            address: Some(0x1000 + entry * 64),
            symbol: Some(symbol.to_owned()),
            source: Some(source.to_owned()),
        };
        let report = FileReport {
            identity: Identity {
                class: elf::Class::Elf64,
                order: elf::Order::Little,
                machine: "x86-64".to_owned(),
                kind: Kind::Library,
                linker: Some("LLD 14.0.6".to_owned()),
                compilers: vec!["clang 14.0.6".to_owned()],
                build_id: Some("0102".to_owned()),
                interpreter: None,
                has_symbols: false,
            },
            size: Bytes(1_000_000),
            relocations: Relocations {
                count: 10_016,
                bytes: Bytes(240_384),
                entries: 10_016,
                entry_bytes: Bytes(240_384),
                relative: 10_000,
                by_type: vec![
                    group("R_X86_64_RELATIVE", 10_000, 240_000),
                    group("R_X86_64_64", 15, 360),
                    group("R_X86_64_JUMP_SLOT", 1, 24),
                ],
                by_table: vec![group(".rela.dyn", 10_015, 240_360), group(".rela.plt", 1, 24)],
                by_target: vec![group(".data.rel.ro", 10_015, 240_360), group(".got.plt", 1, 24)],
                by_symbol: vec![group("__cxa_pure_virtual", 12, 288), group("a\x1b[2J", 3, 72)],
                symbols: 3,
                plt: 1,
                adjacency: Adjacency { following: 9_000, of: 10_015, runs: 1_000, longest_run: 77 },
                relr: None,
            },
            waste: Waste {
                addend: WasteRow { entries: 10_016, bytes: Bytes(80_128) },
                type_bits: WasteRow { entries: 10_016, bytes: Bytes(30_048) },
                no_symbol: WasteRow { entries: 10_000, bytes: Bytes(40_000) },
                total: Bytes(150_176),
                of: Bytes(240_384),
            },
            packing: Packing {
                packable: 9_990,
                odd: 10,
                now: Bytes(239_760),
                relr: Bytes(2_000),
                runs: Bytes(8_000),
                addend_in_place: Some(0),
                ..Packing::default()
            },
            vtables: Vtables {
                in_symbols: 6_000,
                symbols: 400,
                in_constant_data: 10_015,
                pure_virtual: 12,
                pure_virtual_inside: 0,
            },
            internal: Internal { load: 3, preemptible: 3, data: 3, weak: 1, of: 15, of_plt: 1, ..Internal::default() },
            initializers: Initializers {
                count: 2,
                functions: vec![
                    initializer(0, "_GLOBAL__sub_I_a.cpp", "/src/a.cpp:12"),
                    initializer(1, "_GLOBAL__sub_I_b.cpp", "/src/b.cpp:7"),
                ],
            },
            last_data_page: Some(LastDataPage { address: 0x5100, unused: Bytes(3840), relocated: false }),
            dynamic: Some(DynamicPlace {
                offset: FileOffset(990_000),
                address: 0x4000,
                entries: 30,
                spare: 0,
                writable: true,
            }),
            warnings: vec![Warning::new(WarningKind::Note, "something is odd").hint("do something")],
        };
        Surveyed { path: path.into(), report }
    }

    fn plain(document: &StatDocument, rows: usize) -> String {
        let text = stat(document, rows, 100).text().to_owned();
        [crate::text::BOLD, crate::text::DIM, crate::text::YELLOW, crate::text::RESET]
            .iter()
            .fold(text, |text, code| text.replace(code, ""))
    }

    fn document(depth: Depth, files: Vec<Surveyed>, left_out: LeftOut) -> StatDocument {
        StatDocument { schema: "", depth, summary: elfstat::summarize(&files), files, left_out }
    }

    #[test]
    fn one_file_as_text() {
        let text = plain(&document(Depth::Detail, vec![library("/opt/lib.so")], LeftOut::default()), 20);
        assert_eq!(text, include_str!("golden/detail.txt"));
    }

    #[test]
    fn many_files_as_text() {
        let mut left_out = LeftOut::default();
        left_out.skipped.not_elf = 1;
        left_out.unreadable.push(Unreadable { path: "/opt/cut.so".into(), reason: "denied (os error 13)".to_owned() });
        let files = ["/opt/a.so", "/opt/b.so", "/opt/c.so"].map(library).to_vec();
        let text = plain(&document(Depth::Survey, files, left_out), 2);
        assert_eq!(text, include_str!("golden/survey.txt"));
    }
}

//! `thaw elf stat` as text: one file in detail, or a table of files and what could be saved in all of them.

use super::parts::{following, groups, internal, packed_forms, vtables, waste};
use super::{file, more, share};
use crate::text::table::{Align, Table};
use crate::text::{Page, harmless, units};
use elfstat::Depth;
use elfstat::report::{Summary, Surveyed};
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

#[cfg(test)]
mod tests {
    use super::*;
    use elfstat::report::{
        Adjacency, DynamicPlace, FileReport, Group, Identity, Initializer, Initializers, Internal, Kind, LastDataPage,
        LeftOut, Packing, Relocations, Unreadable, Vtables, Waste, WasteRow,
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

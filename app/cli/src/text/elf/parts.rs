//! What a file and a whole survey say alike: packed forms, groups, waste, virtual tables, internal names.

use super::{more, share};
use crate::text::table::{Align, Table};
use crate::text::{Page, harmless, units};
use elfstat::Depth;
use elfstat::report::{Group, Internal, Kind, Packing, Vtables, Waste};
use model::Bytes;

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

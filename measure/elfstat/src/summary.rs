//! Sums over the files of a survey: what could be saved on this machine. Pure.

use crate::analyze::sort;
use crate::report::{Group, Internal, Packing, Saving, Summary, Surveyed, Vtables, Waste, WasteRow};
use model::Bytes;
use std::collections::HashMap;

/// The steps of [`Summary::savings`]: a byte, a page, 64 KiB, 1 MiB.
const STEPS: [Bytes; 4] = [Bytes(1), Bytes(4 << 10), Bytes(64 << 10), Bytes(1 << 20)];

/// Adds up.
pub fn summarize(files: &[Surveyed]) -> Summary {
    let mut sum = Summary::default();
    let mut types: HashMap<&str, (u64, Bytes)> = HashMap::new();
    for file in files {
        let report = &file.report;
        let relocations = &report.relocations;
        sum.files += 1;
        sum.bytes += report.size;
        sum.dynamic += u64::from(report.identity.kind.is_dynamic());
        sum.relocations += relocations.count;
        sum.entry_bytes += relocations.entry_bytes;
        sum.relative += relocations.relative;
        sum.files_with_relative += u64::from(relocations.relative > 0);
        for group in &relocations.by_type {
            let entry = types.entry(&group.name).or_default();
            entry.0 += group.count;
            entry.1 += group.bytes;
        }
        sum.with_copy += u64::from(relocations.by_type.iter().any(|group| group.name.ends_with("_COPY")));
        sum.waste.add(&report.waste);
        sum.packing.add(&report.packing);
        sum.following += relocations.adjacency.following;
        sum.load_entries += relocations.adjacency.of;
        if let Some(relr) = &relocations.relr {
            sum.with_relr += 1;
            sum.relr_bytes += relr.bytes;
            if relr.asks_for_abi == Some(false) {
                sum.without_abi.push(model::shown(&file.path));
            }
        }
        sum.vtables.add(&report.vtables);
        sum.internal.add(&report.internal);
        sum.initializers += report.initializers.count;
        let unaligned = report.last_data_page.filter(|page| page.unused > Bytes(0));
        sum.unaligned_bss += u64::from(unaligned.is_some());
        sum.unaligned_bss_clean += u64::from(unaligned.is_some_and(|page| !page.relocated));
    }
    sum.by_type =
        types.into_iter().map(|(name, (count, bytes))| Group { name: name.to_owned(), count, bytes }).collect();
    sort(&mut sum.by_type);
    sum.savings = STEPS.map(|at_least| saving(files, at_least)).to_vec();
    sum
}

fn saving(files: &[Surveyed], at_least: Bytes) -> Saving {
    let saved = files.iter().map(|file| file.report.packing.saves()).filter(|saved| *saved >= at_least);
    saved.fold(Saving { at_least, files: 0, bytes: Bytes(0) }, |sum, saved| Saving {
        files: sum.files + 1,
        bytes: sum.bytes + saved,
        ..sum
    })
}

impl Waste {
    fn add(&mut self, other: &Self) {
        let rows = [
            (&mut self.addend, other.addend),
            (&mut self.type_bits, other.type_bits),
            (&mut self.no_symbol, other.no_symbol),
        ];
        for (row, WasteRow { entries, bytes }) in rows {
            row.entries += entries;
            row.bytes += bytes;
        }
        self.total += other.total;
        self.of += other.of;
    }
}

impl Packing {
    fn add(&mut self, other: &Self) {
        self.packable += other.packable;
        self.odd += other.odd;
        self.not_in_writable_data += other.not_in_writable_data;
        self.overlapping += other.overlapping;
        self.now += other.now;
        self.relr += other.relr;
        self.runs += other.runs;
    }
}

impl Vtables {
    fn add(&mut self, other: &Self) {
        self.in_symbols += other.in_symbols;
        self.symbols += other.symbols;
        self.in_constant_data += other.in_constant_data;
        self.pure_virtual += other.pure_virtual;
        self.pure_virtual_inside += other.pure_virtual_inside;
    }
}

impl Internal {
    fn add(&mut self, other: &Self) {
        self.load += other.load;
        self.plt += other.plt;
        self.preemptible += other.preemptible;
        self.functions += other.functions;
        self.data += other.data;
        self.weak += other.weak;
        self.of += other.of;
        self.of_plt += other.of_plt;
    }
}

//! `thaw heap resident` as text: what the memory of each process consists of.

use super::names;
use crate::text::table::{Align, Table};
use crate::text::{Page, harmless, units, width};
use heap::resident::{Kind, Of, Part};
use work::heaps::ResidentReport;

/// Frames of a place in a row.
const FRAMES: usize = 4;
/// Columns of a place.
const ROOM: usize = 90;

/// All processes, each with so many lines of a kind.
pub fn page(report: &ResidentReport, top: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for process in &report.processes {
        let rss = process.rss_bytes.0;
        let explained = share(process.explained_bytes.0, rss);
        page.heading(&format!(
            "Process {} ({}): {} resident, {explained} of it explained",
            process.pid,
            harmless(&process.exe),
            units::bytes(process.rss_bytes)
        ));
        let columns = [("bytes", Align::Right), ("share", Align::Right), ("what it is", Align::Elastic)];
        let mut table = Table::new(columns);
        for part in &process.parts {
            rows(&mut table, part, rss, top);
        }
        page.table(&table);
        super::look::warnings(&mut page, &process.warnings);
    }
    page
}

fn rows(table: &mut Table, part: &Part, rss: u64, top: usize) {
    let what = match part.kind {
        Kind::Blocks => "live blocks",
        Kind::Allocator => "the allocator: freed, rounded up, its tables",
        Kind::Mapped => "memory that the program mapped",
        Kind::Files => "files",
        Kind::Shared => "shared memory",
        Kind::Devices => "devices",
        Kind::Stacks => "stacks of threads",
        Kind::Kernel => "mapped by the kernel",
        Kind::Recorder => "the recorder",
        Kind::Unknown => "unknown: nobody was seen to map it",
    };
    table.row([units::bytes(part.bytes), share(part.bytes.0, rss), what.to_owned()]);
    for of in part.of.iter().take(top) {
        table.row([units::bytes(of.bytes), String::new(), format!("  {}", place(of))]);
    }
    if let Some(rest) = part.of.get(top..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().fold(0, |sum, of| sum + of.bytes.0);
        let more = units::plural(rest.len() as u64, "other", "others");
        table.row([units::bytes(model::Bytes(bytes)), String::new(), format!("  {more} (--top)")]);
    }
}

fn share(bytes: u64, of: u64) -> String {
    units::percent(bytes as f64 / of.max(1) as f64)
}

fn place(of: &Of) -> String {
    if !of.name.is_empty() {
        return harmless(&of.name);
    }
    if of.frames.is_empty() {
        return "no stack".to_owned();
    }
    let names = of.frames.iter().take(FRAMES).map(|frame| names::shorter(&harmless(&frame.label()), ROOM / FRAMES));
    width::shorten(&names.collect::<Vec<_>>().join(" < "), 2 * ROOM)
}

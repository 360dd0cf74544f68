//! `thaw timeline` as text.

use super::table::{Align, Table};
use super::{Page, YELLOW, harmless, units};
use model::Nanos;
use std::path::{Path, PathBuf};
use timeline::usdt::record::ProbesDocument;
use timeline::{Document, FileReport, Phase, Report, Trace, WaitRow};
use work::shell::command_line;

/// Types, the longest waits, and what is missing, of each process.
pub fn page(document: &Document, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for (number, file) in document.files.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        one(&mut page, file, rows);
    }
    page
}

fn one(page: &mut Page, file: &FileReport, rows: usize) {
    let report = &file.report;
    page.paragraph(&format!(
        "{}: {} of {} on {}, over {}.",
        who(report),
        units::plural(report.events, "event", "events"),
        units::plural(report.objects, "object", "objects"),
        units::plural(report.threads, "thread", "threads"),
        units::nanos(Nanos(report.span_ns)),
    ));
    types(page, report, rows);
    waits(page, report);
    missing(page, file);
}

fn who(report: &Report) -> String {
    match report.processes.as_slice() {
        [only] => format!("{} (process {})", harmless(&only.program), only.pid),
        several => units::plural(several.len() as u64, "process", "processes"),
    }
}

fn types(page: &mut Page, report: &Report, rows: usize) {
    let mut table = Table::new([
        ("waited", Align::Right),
        ("longest", Align::Right),
        ("worked", Align::Right),
        ("times", Align::Right),
        ("marks", Align::Right),
        ("not ended", Align::Right),
        ("type", Align::Elastic),
        ("source", Align::Elastic),
    ]);
    let some = |count: u64| if count > 0 { units::count(count) } else { String::new() };
    let time = |ns: u64| if ns > 0 { units::nanos(Nanos(ns)) } else { String::new() };
    for row in report.types.iter().take(rows) {
        table.row([
            time(row.waited_ns),
            time(row.longest_wait_ns),
            time(row.worked_ns),
            some(row.intervals),
            some(row.marks),
            some(row.open),
            harmless(&row.name),
            harmless(&row.source),
        ]);
    }
    if !table.is_empty() {
        page.gap();
        page.table(&table.without_empty_columns());
    }
    if report.types.len() > rows {
        page.remark(&format!("and {} more (--all lists them)", units::count((report.types.len() - rows) as u64)));
    }
}

fn waits(page: &mut Page, report: &Report) {
    if report.waits.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("at", Align::Right),
        ("waited", Align::Right),
        ("worked", Align::Right),
        ("posted by", Align::Right),
        ("worked on by", Align::Right),
        ("type", Align::Elastic),
        ("object", Align::Elastic),
    ]);
    for row in &report.waits {
        table.row([
            units::nanos(Nanos(row.at_ns)),
            units::nanos(Nanos(row.waited_ns)),
            worked(row),
            row.posted_by.to_string(),
            row.worked_by.map_or_else(|| "nobody".to_owned(), |tid| tid.to_string()),
            harmless(&row.name),
            harmless(&called(row)),
        ]);
    }
    page.gap();
    page.line("The longest waits:");
    page.table(&table);
}

fn worked(row: &WaitRow) -> String {
    match row.worked_ns {
        Some(ns) if row.is_open => format!("{} (did not end)", units::nanos(Nanos(ns))),
        Some(ns) => units::nanos(Nanos(ns)),
        None if row.is_open => "did not end".to_owned(),
        None => String::new(),
    }
}

fn called(row: &WaitRow) -> String {
    if row.object.is_empty() { format!("{:#x}", row.address) } else { row.object.clone() }
}

fn missing(page: &mut Page, file: &FileReport) {
    let report = &file.report;
    let parts: Vec<String> = [
        (report.lost.overwritten, "older event overwritten", "older events overwritten"),
        (report.lost.events, "event lost for want of room", "events lost for want of room"),
        (report.lost.types, "type lost for want of room", "types lost for want of room"),
        (report.lost.texts_cut, "text cut", "texts cut"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| units::plural(count, one, many))
    .collect();
    if !parts.is_empty() {
        page.gap();
        page.remark(&format!("Not in the file: {}.", parts.join(", ")));
    }
    if !report.clock.is_calibrated {
        let what = "times are ticks of the processor: the file is of another boot and too short to tell their rate";
        page.labelled(YELLOW, "warning: ", what);
    }
    for damage in &report.damage {
        page.labelled(YELLOW, "damaged: ", &harmless(&format!("{}: {damage}", file.path)));
    }
}

/// What was recorded, and how to see it.
pub fn recorded(trace: &Trace, paths: &[PathBuf], directory: &Path, width: usize) -> Page {
    let mut page = Page::new(width);
    let events = trace.events.iter().filter(|event| event.phase != Phase::Name).count() as u64;
    page.paragraph(&format!(
        "{} of {} in {}.",
        units::plural(events, "hit", "hits"),
        units::plural(trace.types.len() as u64, "kind of probe", "kinds of probes"),
        units::plural(paths.len() as u64, "process", "processes"),
    ));
    if trace.lost.events > 0 {
        page.remark(&format!("The kernel lost {}.", units::plural(trace.lost.events, "hit", "hits")));
    }
    if events == 0 {
        page.line("No wanted probe was hit: nothing was written.");
    } else {
        let words = ["thaw".into(), "timeline".into(), "report".into(), directory.as_os_str().to_owned()];
        page.next(&command_line(&words), "what waited and what worked, by type and object");
    }
    page
}

/// Probes of files.
pub fn probes(document: &ProbesDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for (number, file) in document.files.iter().enumerate() {
        if number > 0 {
            page.gap();
        }
        if file.probes.is_empty() {
            page.line(&format!("{} offers no probes.", harmless(&file.path)));
            continue;
        }
        page.line(&format!("{}:", harmless(&file.path)));
        let mut table = Table::new([("places", Align::Right), ("arguments", Align::Right), ("probe", Align::Elastic)]);
        for row in &file.probes {
            let arguments = match row.arguments == row.readable {
                true => units::count(row.arguments),
                false => format!("{} of {}", row.readable, row.arguments),
            };
            let name = format!("{}:{}", harmless(&row.provider), harmless(&row.name));
            table.row([units::count(row.places), arguments, name]);
        }
        page.table(&table);
    }
    page
}

//! `thaw heap` as text: what each process allocated, and what is missing.

pub mod dark;
pub mod look;
pub mod names;

use super::table::{Align, Table};
use super::{Page, harmless, units};
use crate::verbs::heap::{FinishDocument, RunDocument};
use heap::report::{Leak, ProcessReport};
use model::Bytes;

/// Processes in the table.
const MOST: usize = 20;
/// Longest name of a function in a line of several.
const FUNCTION: usize = 40;
/// Processes whose leaks are printed.
const MOST_LEAKING: usize = 3;

/// `3 processes of the program still run (Ctrl-C ends waiting)`.
pub fn waiting(left: u64) -> String {
    format!("{} of the program still there (Ctrl-C ends waiting)", units::plural(left, "process", "processes"))
}

/// `recording process 1234 (Ctrl-C lets it go)`
pub fn recording(pid: u32, seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) => format!("recording process {pid} for {seconds} s (Ctrl-C lets it go now)"),
        None => format!("recording process {pid} (Ctrl-C lets it go)"),
    }
}

/// `12.3M events`.
pub fn finishing(events: u64) -> String {
    format!("{} rewritten", units::plural(events, "event", "events"))
}

/// What rewriting a recording did.
pub fn finished(document: &FinishDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let file = harmless(&model::shown(&document.file));
    if document.streams == 0 {
        page.line(&format!("{file} is finished already"));
        return page;
    }
    let streams = units::plural(document.streams, "process", "processes");
    let (before, after) = (units::bytes(document.before_bytes), units::bytes(document.after_bytes));
    page.line(&format!(
        "{file}: {} of {streams}, {before} before, {after} now",
        units::plural(document.events, "event", "events")
    ));
    page
}

/// The summary of a recording.
pub fn page(document: &RunDocument, leaks: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let report = &document.report;
    let mut largest: Vec<&ProcessReport> = report.processes.iter().collect();
    if largest.len() > MOST {
        largest.sort_by_key(|process| std::cmp::Reverse(process.allocations));
        largest.truncate(MOST);
    }
    if !largest.is_empty() {
        page.table(&processes(&largest));
    }
    let rest = report.processes.len() - largest.len();
    if rest > 0 {
        page.remark(&format!(
            "and {} that allocated less (--json)",
            units::plural(rest as u64, "process", "processes")
        ));
    }
    largest.sort_by_key(|process| std::cmp::Reverse(process.leaked_bytes));
    for process in largest.into_iter().take(MOST_LEAKING) {
        leaked(&mut page, process, leaks);
    }
    for process in &report.processes {
        if !process.inside.is_empty() {
            let names = harmless(&process.inside.join(", "));
            page.gap();
            page.labelled(&format!("hooked inside of process {}", process.pid), "  ", &names);
        }
    }
    look::warnings(&mut page, &report.warnings);
    page.gap();
    page.line(&ended(document));
    if let Some(stopped) = &document.recording.stopped {
        page.line(&format!(
            "stopped for it: {} together for {} ({}, {} at most), one of them for {}",
            units::plural(stopped.threads as u64, "thread", "threads"),
            units::nanos(stopped.all_ns),
            units::plural(stopped.times.into(), "time", "times"),
            units::nanos(stopped.longest_ns),
            units::nanos(stopped.borrowed_ns),
        ));
    }
    page.line(&format!("recorded in {}", harmless(&model::shown(&document.file))));
    page
}

fn processes(processes: &[&ProcessReport]) -> Table {
    let columns = [
        ("process", Align::Right),
        ("allocations", Align::Right),
        ("frees", Align::Right),
        ("allocated", Align::Right),
        ("peak", Align::Right),
        ("not freed", Align::Right),
        ("blocks", Align::Right),
        ("threads", Align::Right),
        ("wrong", Align::Right),
        ("lost", Align::Right),
        ("program", Align::Elastic),
    ];
    let mut table = Table::new(columns);
    let if_any = |count: u64| if count == 0 { String::new() } else { units::count(count) };
    for process in processes {
        let forked = process.forked_from.map(|pid| format!(" (forked from {pid})")).unwrap_or_default();
        table.row([
            process.pid.to_string(),
            units::count(process.allocations),
            units::count(process.frees),
            give_or_take(process.allocated_bytes, process.allocated_error_bytes),
            units::bytes(process.peak_bytes),
            give_or_take(process.leaked_bytes, process.leaked_error_bytes),
            units::count(process.leaked_blocks),
            process.threads.to_string(),
            if_any(process.inconsistencies),
            if_any(process.lost),
            harmless(&format!("{}{forked}", process.exe)),
        ]);
    }
    table.without_empty_columns()
}

/// An estimate with its standard error.
fn give_or_take(bytes: Bytes, error: Option<Bytes>) -> String {
    match error {
        Some(error) => format!("{} ± {}", units::bytes(bytes), units::bytes(error)),
        None => units::bytes(bytes),
    }
}

fn leaked(page: &mut Page, process: &ProcessReport, most: usize) {
    let shown: Vec<&Leak> = process.leaks.iter().take(most).collect();
    if shown.is_empty() {
        return;
    }
    page.gap();
    page.line(&format!(
        "Not freed by process {}: {} in {} from {}",
        process.pid,
        units::bytes(process.leaked_bytes),
        units::plural(process.leaked_blocks, "block", "blocks"),
        units::plural(process.leaks.len() as u64, "stack", "stacks"),
    ));
    for leak in shown {
        let frames: Vec<String> = leak.stack.iter().flat_map(functions).take(4).collect();
        let blocks = units::plural(leak.blocks, "block", "blocks");
        page.labelled("", "  ", &format!("{} in {blocks}: {}", units::bytes(leak.bytes), frames.join(" < ")));
    }
}

/// What a frame is called: several functions if some are inlined, object and address if nothing names it.
fn functions(frame: &heap::report::Frame) -> Vec<String> {
    if frame.functions.is_empty() {
        let module = frame.module.as_deref().unwrap_or("(no file)");
        let name = module.rsplit('/').next().unwrap_or(module);
        return vec![format!("{}+{:#x}", harmless(name), frame.address)];
    }
    frame.functions.iter().map(|function| names::shorter(&harmless(function), FUNCTION)).collect()
}

fn ended(document: &RunDocument) -> String {
    let recording = &document.recording;
    if recording.attached {
        return match recording.running.is_empty() {
            true => "the program has ended".into(),
            false => "the program goes on without its hooks; what it had before is not counted".into(),
        };
    }
    match (recording.code, recording.signal) {
        (Some(code), _) => format!("the program exited with {code}"),
        (_, Some(signal)) => format!("the program was ended by signal {signal}"),
        _ => "the program's end was not seen".into(),
    }
}

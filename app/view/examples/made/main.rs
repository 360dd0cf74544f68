//! Writes pages of made-up recordings, for the viewer's tests and its claim:
//! `cargo run -p view --example made -- FOLDER [laptop|million|small|hostile|empty|no-trace|comparison]...`; of events:
//! `[load|path|busy|million-events|ten-million-events|lane|hostile-events|no-events]`;
//! of where time went: `[why|no-why]`; recordings themselves, not pages:
//! `[usual-recording|large-recording|many-recording]`

mod document;
mod events;
mod recording;
mod rows;
mod touches;
mod why;

use model::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use view::{PathStep, TimelineOf, TouchOf, TraceOf, WhyOf, WhyStartOf};

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().expect("a folder to write into"));
    let mut kinds: Vec<String> = words.collect();
    if kinds.is_empty() {
        kinds = ["laptop", "hostile", "empty", "no-trace", "comparison"]
            .into_iter()
            .chain(["load", "path", "busy", "hostile-events", "no-events", "why", "no-why"])
            .map(String::from)
            .collect();
    }
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    kinds.iter().for_each(|kind| write(&folder, kind));
}

/// A page of events of a program; `None`: no such kind.
fn write_events(folder: &Path, kind: &str) -> Option<()> {
    let trace = match kind {
        "load" | "path" => events::load(),
        "busy" => events::busy(60_000),
        "million-events" => events::busy(1_000_000),
        "ten-million-events" => events::busy(10_000_000),
        "lane" => events::lane(1_000_000),
        "hostile-events" => events::hostile(),
        "no-events" => timeline::Trace::default(),
        _ => return None,
    };
    let path = (kind == "path").then(events::path);
    let of = TimelineOf { name: kind, trace: &trace, path: path.as_deref() };
    let html = view::timeline_page(&of).expect("the page is made");
    println!("{kind}: {} bytes, {} events", html.len(), trace.events.len());
    std::fs::write(folder.join(format!("{kind}.html")), html).expect("the page is written");
    Some(())
}

/// A page of where the time of a start went; `None`: no such kind.
fn write_why(folder: &Path, kind: &str) -> Option<()> {
    let trace = match kind {
        "why" => why::start(),
        "no-why" => ::cpu::Trace { cannot: vec!["who ran when".to_owned()], lost: 3, ..::cpu::Trace::default() },
        _ => return None,
    };
    let report = ::cpu::analyze(&trace, 2_000);
    let picture = ::cpu::picture(&trace, &report, 2_000);
    let owners = ::cpu::together(std::slice::from_ref(&report));
    let start = WhyStartOf {
        variant_name: "app",
        state: CacheState::Hot,
        runs: &[RunId(1)],
        ready_ns: report.ready_ns,
        explained_share: report.explained_share,
        owners: &owners,
        run: RunId(1),
        report: &report,
        picture: &picture,
        milestones: &[Milestone { name: "line:Started".to_owned(), at_ns: Nanos(70_000_000) }],
    };
    let html = view::why_page(&WhyOf { file: "app.thaw", starts: vec![start], warnings: &[] });
    std::fs::write(folder.join(format!("{kind}.html")), html.expect("the page is made")).expect("it is written");
    Some(())
}

fn write(folder: &Path, kind: &str) {
    if write_events(folder, kind).is_some() || write_why(folder, kind).is_some() {
        return;
    }
    match kind {
        "usual-recording" => return recording::write(&folder.join("usual.thaw"), recording::USUAL),
        "large-recording" => return recording::write(&folder.join("large.thaw"), recording::LARGE),
        "many-recording" => return recording::write(&folder.join("many.thaw"), recording::MANY),
        _ => {}
    }
    let laptop = || rows::rows(rows::LAPTOP);
    let (mut document, rows, comparison) = match kind {
        "laptop" => traced("firefox-esr", laptop()),
        "million" => traced("firefox-esr", rows::rows(rows::MILLION)),
        "small" => traced("firefox-esr", rows::rows(rows::SMALL)),
        "hostile" => traced(
            "</script><script>alert(1)</script>",
            hostile(rows::rows(rows::Wish { events: 4_000, ..rows::LAPTOP })),
        ),
        "empty" => (document::document("nothing", &[], None), None, None),
        "no-trace" => (document::document("firefox-esr", &document::runs(17.9, 3), None), None, None),
        "comparison" => {
            let (document, rows, _) = traced("firefox-esr", laptop());
            (document, rows, Some(comparison()))
        }
        other => panic!("no kind of page: {other}"),
    };
    let traces: Vec<TraceOf<'_>> = rows.iter().map(|rows| TraceOf { run: RunId(1), rows }).collect();
    // The others were made before anybody looked at what a start touches.
    let watched = match &rows {
        Some(rows) if kind == "laptop" => vec![touches::pages(rows), touches::functions(rows)],
        Some(rows) if kind == "hostile" => vec![touches::pages(rows), hostile_names(touches::functions(rows))],
        _ => Vec::new(),
    };
    if let (Some(rows), Some(pages)) = (&rows, watched.first()) {
        let report = io::report_with_needed(rows, pages);
        document["traces"][0]["report"] = serde_json::to_value(report).expect("a report is JSON");
    }
    let input = touch::Input { read: rows.as_ref(), touched: &watched };
    let report = touch::report(&input);
    let touched = TouchOf { variant: "firefox-esr", report: &report, details: touch::details(&input) };
    let touched = if watched.is_empty() { &[][..] } else { std::slice::from_ref(&touched) };
    let html = view::page(&document, &traces, touched, comparison.as_ref()).expect("the page is made");
    let events =
        rows.as_ref().map_or(0, |rows| rows.fills.len() + rows.blocks.len() + rows.reads.len() + rows.faults.len());
    println!("{kind}: {} bytes, {events} events", html.len());
    if let Some(rows) = &rows {
        println!(
            "  {} requests, {} fills, {} reads, {} faults",
            rows.blocks.len(),
            rows.fills.len(),
            rows.reads.len(),
            rows.faults.len()
        );
    }
    std::fs::write(folder.join(format!("{kind}.html")), html).expect("the page is written");
    std::fs::write(folder.join(format!("{kind}.json")), document.to_string()).expect("the document is written");
    std::fs::write(
        folder.join(format!("{kind}.touch.json")),
        serde_json::to_string(&report).expect("a report is JSON"),
    )
    .expect("the report is written");
}

fn traced(name: &str, rows: TraceRows) -> (Value, Option<TraceRows>, Option<Value>) {
    (document::document(name, &document::runs(17.9, 3), Some(&rows)), Some(rows), None)
}

/// Names that try to get out of their quotes, their element, their line.
fn hostile(mut rows: TraceRows) -> TraceRows {
    let names = [
        "/tmp/</script><script>window.hurt=1;alert(1)</script>",
        "/tmp/\"quotes' and `ticks`",
        "/tmp/new\nline\tand tab",
        "/tmp/bad \u{fffd}\u{fffd} utf-8",
        "/tmp/<img src=x onerror=\"window.hurt=1\">",
        "/tmp/\u{202e}gnp.evil \u{2028}\u{2029}",
        "/tmp/<!--<script>",
        "=cmd|' /C calc'!A0",
    ];
    for (file, name) in rows.files.iter_mut().zip(names) {
        file.path = name.into();
    }
    rows.processes[0].comm = "<b>\"x\"</b>".into();
    rows.info.cannot.push("<i>no tags</i>".into());
    rows
}

fn hostile_names(mut rows: TraceRows) -> TraceRows {
    let names =
        ["</script><script>window.hurt=1</script>", "<img src=x onerror=\"window.hurt=1\">", "a\0b\nc", "", "=1+1"];
    for (touch, name) in rows.touches.iter_mut().zip(names) {
        touch.name = Some(name.into());
    }
    rows
}

/// This recording against one before read-ahead was sorted out.
fn comparison() -> Value {
    let names = ["firefox-esr".to_owned()];
    let (before, after) = (document::runs(23.1, 5), document::runs(17.9, 3));
    let facts = |kb: &str| [("disk:vda read_ahead_kb".to_owned(), kb.to_owned())];
    let (facts_before, facts_after) = (facts("8192"), facts("128"));
    let input = |runs, facts| bench::analyze::Input {
        variants: &names,
        runs,
        facts,
        options: bench::analyze::Options { runs: 12, ..Default::default() },
    };
    let compared = bench::compare::compare(&input(&before, &facts_before), &input(&after, &facts_after));
    serde_json::to_value(compared).expect("a comparison is JSON")
}

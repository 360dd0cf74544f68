//! `thaw fleet` as text.

use super::table::{Align, Table};
use super::{Page, RED, harmless, units};
use fleet::answer::{
    AppCell, Cells, Class, ColdCell, Document, Percentile, PercentileCell, Regression, RemedyEffect, Verdict,
};
use fleet::forget::Forgotten;
use fleet::import::Imported;
use fleet::report::Report;
use stats::{Estimate, Interval};
use std::path::Path;

/// What an import did.
pub fn imported(document: &Imported, store: &Path, width: usize) -> Page {
    let mut page = Page::new(width);
    let segments = units::plural(document.segments, "segment", "segments");
    let pings = units::plural(document.pings, "new ping", "new pings");
    page.line(&format!("{pings} of {segments} in {}.", harmless(&model::shown(store))));
    if document.segments_known > 0 {
        page.remark(&format!(
            "{} had been imported before.",
            units::plural(document.segments_known, "segment", "segments")
        ));
    }
    if document.duplicates > 0 {
        page.remark(&format!("{} came again and counts once.", units::plural(document.duplicates, "ping", "pings")));
    }
    if let Some(first) = &document.first_refused {
        let lines = units::plural(document.refused, "line", "lines");
        page.labelled(RED, "refused", &format!("{lines}; the first: {}", harmless(first)));
    }
    for damaged in &document.damaged {
        let text = format!("{}: {}; it is left out", harmless(&damaged.segment), harmless(&damaged.because));
        page.labelled(RED, "damaged", &text);
    }
    page
}

/// What was forgotten.
pub fn forgotten(document: &Forgotten, width: usize) -> Page {
    let mut page = Page::new(width);
    let changed = units::plural(document.segments_changed, "segment", "segments");
    let lines = units::plural(document.lines, "ping", "pings");
    page.line(&format!("{lines} taken out of {changed} of {}.", units::count(document.segments)));
    if let Some(pings) = document.pings {
        page.line(&format!("{} deleted from the store.", units::plural(pings, "ping", "pings")));
    }
    for (segment, why) in &document.unread {
        page.labelled(RED, "damaged", &format!("{}: {}; it may hold the machine", harmless(segment), harmless(why)));
    }
    page
}

/// The answer to a question.
pub fn answer(document: &Document, width: usize) -> Page {
    let mut page = Page::new(width);
    put(&mut page, document);
    page
}

/// All answers.
pub fn report(report: &Report, width: usize) -> Page {
    let mut page = Page::new(width);
    for document in &report.answers {
        let pair = document.version_old.as_ref().zip(document.version_new.as_ref());
        let of = pair.map(|(old, new)| format!(" of {}: {old} to {new}", document.app.as_deref().unwrap_or_default()));
        page.heading(&format!("{}{}", document.question, harmless(&of.unwrap_or_default())));
        put(&mut page, document);
    }
    page
}

fn put(page: &mut Page, document: &Document) {
    let table = match &document.cells {
        Cells::Apps(cells) => apps(cells),
        Cells::Percentiles(cells) => percentiles(cells),
        Cells::Cold(cells) => cold(cells),
        Cells::Regressions(cells) => regressions(cells),
        Cells::Remedies(cells) => remedies(cells),
    };
    if table.is_empty() {
        page.line("There is nothing to show.");
    } else {
        page.table(&table.without_empty_columns());
    }
    let hidden = document.suppressed;
    if hidden.small > 0 {
        let cells = units::plural(hidden.small, "cell", "cells");
        page.remark(&format!("suppressed: {cells} of fewer than {} machines", units::count(document.k)));
    }
    if hidden.beside_small > 0 {
        let cells = units::plural(hidden.beside_small, "cell", "cells");
        page.remark(&format!("suppressed: {cells} more, from which those could be reckoned"));
    }
}

fn apps(cells: &[AppCell]) -> Table {
    let names = [("app", Align::Left), ("from", Align::Left), ("to", Align::Left)];
    let counts = ["versions", "starts", "machines"].map(|name| (name, Align::Right));
    let mut table = Table::new(names.into_iter().chain(counts));
    for cell in cells {
        let counts = [cell.versions, cell.starts, cell.machines].map(|value| units::count(value as u64));
        let words = [&cell.app, &cell.first_day, &cell.last_day].map(|word| harmless(word));
        table.row(words.into_iter().chain(counts));
    }
    table
}

fn head<'a>(rest: &[&'a str]) -> Vec<(&'a str, Align)> {
    let words = ["app", "version", "cpus", "memory", "disk", "cache"].map(|name| (name, Align::Left));
    words.into_iter().chain(rest.iter().map(|name| (*name, Align::Right))).collect()
}

fn keys(app: &str, version: &str, class: Option<&Class>, state: Option<&String>) -> Vec<String> {
    let class = class.map_or([""; 3], |class| [&class.cpus, &class.memory, &class.disk]);
    let state = state.map_or("", String::as_str);
    [app, version].into_iter().chain(class).chain([state]).map(harmless).collect()
}

/// In seconds.
pub(super) fn estimate(percentile: &Percentile) -> Estimate {
    let seconds = |us: i64| us as f64 / 1e6;
    let interval = percentile.low_us.zip(percentile.high_us);
    let interval = interval.map(|(low, high)| Interval { low: seconds(low), high: seconds(high) });
    Estimate { value: seconds(percentile.wall_us), interval }
}

/// `median`, `95 %`
pub(super) fn percent(percentile: &Percentile) -> String {
    if percentile.percent == 50.0 { "median".into() } else { format!("{} %", percentile.percent) }
}

/// `slower`, `faster`, `unclear`
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Unclear => "unclear",
    }
}

/// What moved most with a class that became slower.
pub(super) fn moved_most(cell: &Regression) -> &'static str {
    match (cell.verdict, cell.moved_most) {
        (Verdict::Slower, None) => "unknown",
        (_, most) => most.unwrap_or_default(),
    }
}

fn percentiles(cells: &[PercentileCell]) -> Table {
    let names = cells.first().map_or(Vec::new(), |cell| cell.percentiles.iter().map(percent).collect());
    let rest: Vec<&str> = ["starts", "machines"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new(head(&rest));
    for cell in cells {
        let counts = [units::count(cell.starts as u64), units::count(cell.machines as u64)];
        let keys = keys(&cell.app, &cell.version, cell.class.as_ref(), cell.state.as_ref());
        table.row(
            keys.into_iter().chain(counts).chain(cell.percentiles.iter().map(|one| units::estimate_s(&estimate(one)))),
        );
    }
    table
}

fn cold(cells: &[ColdCell]) -> Table {
    let mut table = Table::new(head(&["starts", "machines", "state unknown", "cold", "between"]));
    for cell in cells {
        let between =
            cell.interval.map(|ends| format!("{} and {}", units::percent(ends.low), units::percent(ends.high)));
        let figures = [
            units::count(cell.starts as u64),
            units::count(cell.machines as u64),
            units::count(cell.unknown as u64),
            cell.share.map_or_else(|| "unknown".into(), units::percent),
            between.unwrap_or_default(),
        ];
        table.row(keys(&cell.app, &cell.version, Some(&cell.class), None).into_iter().chain(figures));
    }
    table
}

fn regressions(cells: &[Regression]) -> Table {
    let mut table = Table::new(head(&["machines", "old", "new", "change", "p", "verdict", "moved most"]));
    for cell in cells {
        let ratio = Estimate { value: cell.ratio, interval: cell.interval };
        let figures = [
            units::count(cell.old.machines.min(cell.new.machines) as u64),
            units::seconds(cell.old.median.wall_us as f64 / 1e6),
            units::seconds(cell.new.median.wall_us as f64 / 1e6),
            units::change_estimate(&ratio),
            units::p_value(cell.p),
            verdict(cell.verdict).into(),
            moved_most(cell).into(),
        ];
        table.row(keys(&cell.app, "", Some(&cell.class), None).into_iter().chain(figures));
    }
    table
}

fn remedies(cells: &[RemedyEffect]) -> Table {
    let mut table = Table::new([
        ("app", Align::Left),
        ("remedy", Align::Left),
        ("groups", Align::Right),
        ("starts with", Align::Right),
        ("starts without", Align::Right),
        ("change", Align::Right),
        ("p", Align::Right),
    ]);
    for cell in cells {
        let change = cell.ratio.map(|value| units::change_estimate(&Estimate { value, interval: cell.interval }));
        table.row([
            harmless(&cell.app),
            harmless(&cell.remedy),
            units::count(cell.strata),
            units::count(cell.starts_with as u64),
            units::count(cell.starts_without as u64),
            change.unwrap_or_else(|| "unknown".into()),
            units::p_value(cell.p),
        ]);
    }
    table
}

//! `thaw pageload` as text.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use pageload::report::{PageLoads, Row};
use stats::Estimate;

/// What was loaded, the table, and what is to be known of it.
pub fn page(document: &PageLoads, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&subject(document));
    page.gap();
    let mut table = Table::new([
        ("browser", Align::Left),
        ("cache", Align::Left),
        ("state", Align::Left),
        ("loaded", Align::Right),
        ("first paint", Align::Right),
        ("largest paint", Align::Right),
        ("requests", Align::Right),
        ("at origin", Align::Right),
        ("received", Align::Right),
        ("disk reads", Align::Right),
        ("read", Align::Right),
    ]);
    for row in document.rows.iter().filter(|row| row.missing.is_none()) {
        table.row(cells(row));
    }
    page.table(&table.without_empty_columns());
    page.gap();
    remarks(&mut page, document);
    errors::warnings(&mut page, &document.warnings);
    page
}

fn subject(document: &PageLoads) -> String {
    let facts = &document.page;
    let what = match (&facts.url, facts.answers, facts.bytes, facts.latency_ns) {
        (Some(url), ..) => harmless(url),
        (None, Some(answers), Some(bytes), Some(latency)) => format!(
            "A page of {} and {}, {} for each",
            units::plural(answers, "answer", "answers"),
            units::bytes(model::Bytes(bytes)),
            units::nanos(latency)
        ),
        _ => "A page".to_owned(),
    };
    let disk = document.disk.as_ref().map_or_else(String::new, |disk| format!(", the cache on {}", harmless(disk)));
    let runs = units::plural(u64::from(document.runs), "load", "loads");
    format!("{what}; medians of {runs}{disk}.")
}

fn cells(row: &Row) -> [String; 11] {
    let time = |estimate: &Option<Estimate>| estimate.as_ref().map_or_else(unknown, units::estimate_s);
    let count = |value: Option<f64>| value.map_or_else(unknown, units::count_f);
    let bytes = |value: Option<f64>| value.map_or_else(unknown, units::bytes_f);
    [
        row.browser.to_string(),
        harmless(&row.via),
        row.state.name().to_owned(),
        time(&row.load_s),
        time(&row.first_paint_s),
        time(&row.largest_paint_s),
        count(row.requests),
        row.origin_requests.map_or_else(String::new, units::count_f),
        bytes(row.bytes),
        count(row.reads),
        bytes(row.read_bytes),
    ]
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Reasons for what is not in the table, each once.
fn remarks(page: &mut Page, document: &PageLoads) {
    let mut said = Vec::new();
    for row in &document.rows {
        let missing =
            row.missing.as_ref().map(|why| format!("{} not loaded {}: {why}", harmless(&row.via), row.state.name()));
        let unknown =
            row.reads_unknown.as_ref().map(|why| format!("{}: disk reads are unknown: {why}", harmless(&row.via)));
        for text in missing.into_iter().chain(unknown) {
            if !said.contains(&text) {
                page.remark(&text);
                said.push(text);
            }
        }
    }
    if document.interrupted {
        page.remark("Interrupted: the figures are of the loads until then.");
    }
}

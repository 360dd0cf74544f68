//! `thaw cache` as text.

use super::table::{Align, Table};
use super::{Page, RED, harmless, units};
use model::Nanos;
use work::caches::{Answer, CacheDocument, VerifyDocument};

/// One line for each answer.
pub fn list(document: &CacheDocument, rows: usize, width: usize) -> Page {
    let mut page = stat(document, width);
    if document.answers.is_empty() {
        return page;
    }
    page.gap();
    let mut table = Table::new([
        ("status", Align::Right),
        ("size", Align::Right),
        ("fresh for", Align::Right),
        ("varies by", Align::Left),
        ("URL", Align::Elastic),
    ]);
    for answer in document.answers.iter().take(rows) {
        let cells = [answer.status.to_string(), units::bytes(answer.bytes), fresh(answer), selecting(answer)];
        table.row(cells.into_iter().chain([harmless(&answer.url)]));
    }
    page.line(table.without_empty_columns().text(width).trim_end());
    let left = document.answers.len().saturating_sub(rows);
    if left > 0 {
        page.remark(&format!("{} more: --all shows them.", units::count(left as u64)));
    }
    page
}

/// All that is known of each variant.
pub fn show(document: &CacheDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for answer in &document.answers {
        page.heading(&format!("{} {}", answer.status, harmless(&answer.url)));
        page.line(&format!("{}, {}", units::bytes(answer.bytes), state(answer)));
        if !answer.selecting.is_empty() {
            page.line(&format!("for {}", selecting(answer)));
        }
        for (name, value) in &answer.fields {
            page.line(&format!("  {}: {}", harmless(name), harmless(value)));
        }
    }
    page
}

/// The sums.
pub fn stat(document: &CacheDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&format!(
        "{}, {} of them fresh, with {} in {} of files.",
        units::plural(document.count, "answer", "answers"),
        units::count(document.fresh),
        units::bytes(document.body_bytes),
        units::bytes(document.file_bytes)
    ));
    if document.unknown > 0 {
        let entries = units::plural(document.unknown, "entry is", "entries are");
        page.remark(&format!("{entries} not of thaw proxy."));
    }
    page
}

/// What cannot be read.
pub fn verify(document: &VerifyDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let broken = document.broken.len() as u64;
    page.paragraph(&format!(
        "{} with {} read; {} cannot be read.",
        units::plural(document.entries, "entry", "entries"),
        units::bytes(document.bytes),
        units::count(broken)
    ));
    document.broken.iter().for_each(|name| page.labelled(RED, "broken: ", &harmless(name)));
    page
}

/// How much was taken out.
pub fn cleared(count: u64, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line(&format!("{} taken out.", units::plural(count, "entry", "entries")));
    page
}

fn selecting(answer: &Answer) -> String {
    let one = |(name, value): &(String, Option<String>)| match value {
        Some(value) => format!("{}: {}", harmless(name), harmless(value)),
        None => format!("no {}", harmless(name)),
    };
    answer.selecting.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn seconds(count: i64) -> String {
    units::nanos(Nanos(count.unsigned_abs().saturating_mul(1_000_000_000)))
}

fn fresh(answer: &Answer) -> String {
    if answer.fresh_for_s > 0 { seconds(answer.fresh_for_s) } else { "stale".into() }
}

fn state(answer: &Answer) -> String {
    match answer.fresh_for_s {
        left @ 1.. => format!("fresh for {}", seconds(left)),
        since => format!("stale for {}", seconds(since)),
    }
}

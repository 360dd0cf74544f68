//! `thaw heap report` and `thaw heap diff` as text.

use super::names;
use crate::text::table::{Align, Table};
use crate::text::{Page, errors, harmless, units};
use heap::diff::Change;
use heap::modes::{Figures, Held, Measure, Reach, Window};
use heap::named::Row;
use heap::tree::Node;
use model::{Bytes, Nanos, Warning};
use work::heaps::look::{DiffDocument, ReportDocument};

/// Processes in the table.
const MOST: usize = 20;

/// Sites, or a tree, of a recording.
pub fn report(document: &ReportDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.table(&processes(document));
    let rest = document.processes.len().saturating_sub(MOST) as u64;
    if rest > 0 {
        page.remark(&format!("and {} that allocated less (--json)", units::plural(rest, "process", "processes")));
    }
    let all = document.measure.of(&document.total);
    page.heading(&format!("{}: {}", what(document.measure, document.window), held(all)));
    match &document.tree {
        Some(tree) => node(&mut page, tree, all, 0, width),
        None => {
            for (number, row) in document.rows.iter().enumerate() {
                self::row(&mut page, document.measure, number + 1, row, all, width);
            }
            if document.sites == 0 && all.blocks > 0 {
                page.remark("no site has as many bytes as --min-bytes asks for");
            }
            let rest = document.sites - document.rows.len() as u64;
            if rest > 0 {
                page.gap();
                page.remark(&format!("and {} (--top)", units::plural(rest, "more site", "more sites")));
            }
        }
    }
    warnings(&mut page, &document.warnings);
    page
}

fn processes(document: &ReportDocument) -> Table {
    let columns = [
        ("process", Align::Right),
        ("made", Align::Right),
        ("blocks", Align::Right),
        ("temporary", Align::Right),
        ("other thread frees", Align::Right),
        ("peak", Align::Right),
        ("at", Align::Right),
        ("at the end", Align::Right),
        ("program", Align::Elastic),
    ];
    let mut table = Table::new(columns);
    let mut processes: Vec<_> = document.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.figures.made));
    let if_any = |blocks: u64| if blocks == 0 { String::new() } else { units::count(blocks) };
    for process in processes.into_iter().take(MOST) {
        let figures = &process.figures;
        table.row([
            process.pid.to_string(),
            units::bytes(Bytes(figures.made.bytes)),
            units::count(figures.made.blocks),
            if_any(figures.temporary.blocks),
            if_any(figures.handed_over.blocks),
            units::bytes(Bytes(figures.peak.bytes)),
            units::nanos(process.peak_at_ns),
            units::bytes(Bytes(figures.end.bytes)),
            harmless(&process.exe),
        ]);
    }
    table.without_empty_columns()
}

/// Which blocks, and of which time.
fn what(measure: Measure, window: Window) -> String {
    let mut what = match (measure, window.until_ns) {
        (Measure::Made, _) => "All blocks that were made".into(),
        (Measure::End, Some(until)) => format!("Live after {}", units::nanos(until)),
        (Measure::End, None) => "Live at the end".into(),
        (Measure::Peak, _) => "Live at the peak".into(),
        (Measure::Reached(Reach::Lost), _) => "Lost: nothing points to them".into(),
        (Measure::Reached(Reach::Indirect), _) => "Only lost blocks point to them".into(),
        (Measure::Reached(Reach::Possible), _) => "Possibly lost: something points into their middle".into(),
        (Measure::Reached(Reach::Reachable), _) => "Still reachable when their process exited".into(),
        (Measure::Temporary, _) => "Freed by the next thing that their thread did".into(),
    };
    if window.since_ns.0 > 0 {
        let made = if measure == Measure::Made { "" } else { ", made" };
        what.push_str(&format!("{made} after {}", units::nanos(window.since_ns)));
    }
    if let Some(until) = window.until_ns.filter(|_| measure != Measure::End) {
        what.push_str(&format!(", until {}", units::nanos(until)));
    }
    what
}

fn held(held: Held) -> String {
    format!("{} in {}", units::bytes(Bytes(held.bytes)), units::plural(held.blocks, "block", "blocks"))
}

pub(super) fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

fn row(page: &mut Page, measure: Measure, number: usize, row: &Row, all: Held, width: usize) {
    let of = measure.of(&row.figures);
    page.gap();
    let from = if row.stacks == 1 { String::new() } else { format!(" from {} stacks", units::count(row.stacks)) };
    page.line(&format!("{number}. {} ({}){from}", held(of), units::percent(share(of.bytes, all.bytes))));
    page.labelled("", "   ", &history(&row.figures));
    if row.frames.is_empty() {
        page.line("     (no stack)");
    }
    for frame in &row.frames {
        page.line(&format!("     {}", names::frame(frame, width.saturating_sub(5))));
    }
}

/// What became of a site's blocks.
fn history(figures: &Figures) -> String {
    let mut parts = vec![format!("made {}", held(figures.made))];
    let lived = figures.lifetime_ns.0 / figures.made.blocks.max(1);
    parts.push(format!("each lived {}", units::nanos(Nanos(lived))));
    for (what, part) in [
        ("temporary", figures.temporary),
        ("freed by another thread", figures.handed_over),
        ("at the peak", figures.peak),
        ("at the end", figures.end),
        ("lost", figures.reached.lost),
        ("only lost blocks point to", figures.reached.indirect),
        ("possibly lost", figures.reached.possible),
        ("still reachable", figures.reached.reachable),
    ] {
        if part.blocks > 0 {
            parts.push(format!("{what} {}", held(part)));
        }
    }
    parts.join(", ")
}

fn node(page: &mut Page, node: &Node, all: Held, depth: usize, width: usize) {
    let figures = format!(
        "{:>6}  {:>9}  {:>9}  {:depth$}",
        units::percent(share(node.total.bytes, all.bytes)),
        units::bytes(Bytes(node.total.bytes)),
        units::count(node.total.blocks),
        "",
    );
    let room = width.saturating_sub(figures.len());
    let name = match &node.object {
        // A name of an object and an address already has it.
        Some(object) if !node.label.starts_with(&format!("{object}+0x")) => {
            names::with_object(&node.label, object, room)
        }
        _ => harmless(&node.label),
    };
    page.line(&format!("{figures}{name}"));
    for child in &node.children {
        self::node(page, child, all, depth + 1, width);
    }
}

/// What changed between two recordings.
pub fn diff(document: &DiffDocument, top: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let difference = &document.difference;
    page.heading(&what(document.measure, document.window));
    page.line(&format!("before  {}", held(difference.before)));
    page.line(&format!("after   {}", held(difference.after)));
    let all = Change { before: difference.before, after: difference.after, frames: Vec::new() };
    page.line(&format!("change  {}", change(&all)));
    for (number, one) in difference.changes.iter().take(top).enumerate() {
        page.gap();
        let kind = match (one.before.blocks, one.after.blocks) {
            (0, _) => ", new",
            (_, 0) => ", gone",
            _ => "",
        };
        page.line(&format!("{}. {}{kind}", number + 1, change(one)));
        page.labelled("", "   ", &format!("before {}, after {}", held(one.before), held(one.after)));
        for frame in &one.frames {
            let (function, object) = frame.rsplit_once(" (").unwrap_or((frame, ""));
            let name = match object.trim_end_matches(')') {
                object if function.starts_with(&format!("{object}+0x")) => harmless(function),
                object => names::with_object(function, object, width.saturating_sub(5)),
            };
            page.line(&format!("     {name}"));
        }
    }
    page.gap();
    let rest = difference.changes.len().saturating_sub(top) as u64;
    if rest > 0 {
        page.remark(&format!("and {} (--top)", units::plural(rest, "more change", "more changes")));
    }
    page.line(&units::plural(difference.same, "site is the same in both", "sites are the same in both"));
    warnings(&mut page, &document.warnings);
    page
}

fn change(change: &Change) -> String {
    let sign = |less: bool| if less { "-" } else { "+" };
    let bytes = u64::try_from(change.bytes().unsigned_abs()).unwrap_or(u64::MAX);
    let blocks = u64::try_from(change.blocks().unsigned_abs()).unwrap_or(u64::MAX);
    format!(
        "{}{} in {}{}",
        sign(change.bytes() < 0),
        units::bytes(Bytes(bytes)),
        sign(change.blocks() < 0),
        units::plural(blocks, "block", "blocks")
    )
}

/// Below a line of their own.
pub fn warnings(page: &mut Page, warnings: &[Warning]) {
    if !warnings.is_empty() {
        page.gap();
        errors::warnings(page, warnings);
    }
}

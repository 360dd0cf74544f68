//! `thaw memory` as text: trees as about:memory draws them, and tables of checkpoints.

use super::table::{Align, Table};
use super::{BOLD, DIM, Page, RESET, YELLOW, errors, harmless, units};
use memory::course::Figure;
use memory::tree::{Below, Node, Process, is_doubtful};
use memory::watch::Total;
use memory::{Presence, Units};
use model::Bytes;
use serde_json::Value;
use stats::Interval;
use std::fmt::Write;
use work::footprint::course::CourseDocument;
use work::footprint::{CompareDocument, RunsDocument, TreesDocument, WatchDocument};

/// How amounts of bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amounts {
    /// `79.20 MiB`
    Rounded,
    /// `83,048,448 B`
    Exact,
}

/// How trees are drawn.
#[derive(Clone, Copy)]
struct Style {
    amounts: Amounts,
    /// Amounts are changes: negative ones are right.
    difference: bool,
}

/// `7 processes have 410.2 MB`, while watching.
pub fn now(total: &Total) -> String {
    format!("{}: PSS {}", units::plural(total.processes, "process", "processes"), units::bytes(total.pss))
}

/// The trees of all processes.
pub fn trees(document: &TreesDocument, amounts: Amounts, width: usize) -> Page {
    let mut page = Page::new(width);
    if let Some(resident) = document.resident {
        page.line(&format!("Total resident memory (approximate) -- {}", amount(resident, Units::Bytes, amounts)));
        page.gap();
    }
    for process in &document.processes {
        page.heading(&harmless(&process.name));
        errors::warnings(&mut page, &process.warnings);
        one_process(&mut page, process, Style { amounts, difference: document.difference });
    }
    if document.difference && document.processes.is_empty() {
        page.line("Nothing has changed.");
    }
    let by_rules = |value: &&Value| value["schema"] == "thaw.memory-rules/1";
    for value in document.reporters.iter().filter(|value| !by_rules(value)) {
        reporters(&mut page, value);
    }
    page.gap();
    errors::warnings(&mut page, &document.warnings);
    page
}

fn one_process(page: &mut Page, process: &Process, style: Style) {
    let (explicit, others): (Vec<&Node>, Vec<&Node>) = process.trees.iter().partition(|tree| tree.name == "explicit");
    for tree in explicit {
        page.line("Explicit Allocations");
        page.gap();
        draw(page, tree, style);
        page.gap();
    }
    if !others.is_empty() || !process.others.is_empty() {
        page.line("Other Measurements");
        page.gap();
    }
    for tree in others {
        draw(page, tree, style);
        page.gap();
    }
    let figures: Vec<String> =
        process.others.iter().map(|node| amount(node.amount, node.units, style.amounts)).collect();
    let widest = figures.iter().map(|figure| figure.len()).max().unwrap_or(0);
    for (node, figure) in process.others.iter().zip(figures) {
        let name = named(node, node.amount, style);
        page.line(&format!("{figure:>widest$} {DIM}──{RESET} {name}"));
    }
    page.gap();
    if !style.difference && (process.trees.iter().any(has_doubtful) || process.others.iter().any(has_doubtful)) {
        page.remark("[?!]: negative, or more than its whole tree. A reporter is wrong.");
        page.gap();
    }
}

fn has_doubtful(tree: &Node) -> bool {
    fn below(node: &Node, total: i64) -> bool {
        is_doubtful(node.amount, total) || node.kids.iter().any(|kid| below(kid, total))
    }
    below(tree, tree.amount)
}

fn draw(page: &mut Page, tree: &Node, style: Style) {
    let figure = amount(tree.amount, tree.units, style.amounts);
    let name = named(tree, tree.amount, style);
    page.line(&format!("{figure} (100.0%) {DIM}--{RESET} {BOLD}{name}{RESET}"));
    kids(page, tree, &figure, tree.amount, "", style);
}

/// Lines of the kids; `indent` is what stands before them. Figures that are narrower than `parent` are moved to the
/// right.
fn kids(page: &mut Page, node: &Node, parent: &str, total: i64, indent: &str, style: Style) {
    if node.below == Below::Folded {
        return;
    }
    for (number, kid) in node.kids.iter().enumerate() {
        let is_last = number + 1 == node.kids.len();
        let (elbow, below) = if is_last { ("└──", "   ") } else { ("├──", "│  ") };
        let sign = match (kid.kids.is_empty(), kid.below) {
            (true, _) => "──",
            (false, Below::Open) => "--",
            (false, Below::Folded) => "++",
        };
        let figure = amount(kid.amount, kid.units, style.amounts);
        let narrower = parent.len().saturating_sub(figure.len());
        let (line, share, name) = ("─".repeat(narrower), share(kid.amount, total), named(kid, total, style));
        page.line(&format!("{DIM}{indent}{elbow}{line}{RESET}{figure} ({share}) {DIM}{sign}{RESET} {name}"));
        kids(page, kid, &figure, total, &format!("{indent}{below}{:narrower$}", ""), style);
    }
}

/// The name with slashes, and what there is to say about it: `[?!]` cannot be right, `[3]` reports, `[+]`, `[-]`,
/// `[!]`.
fn named(node: &Node, total: i64, style: Style) -> String {
    let mut name = harmless(&node.name).replace('\\', "/");
    if !style.difference && is_doubtful(node.amount, total) {
        name.push_str(" [?!]");
    }
    if node.reports > 1 {
        let _ = write!(name, " [{}]", node.reports);
    }
    match node.presence {
        Some(Presence::FirstOnly) => name.push_str(" [-]"),
        Some(Presence::SecondOnly) => name.push_str(" [+]"),
        Some(Presence::Added) => name.push_str(" [!]"),
        None => {}
    }
    name
}

/// Of nothing, only nothing has a share. What rounds to 100 without being more has one digit less, for the width.
fn share(part: i64, of: i64) -> String {
    if of == 0 {
        return if part == 0 { "100.0%".into() } else { "n/a".into() };
    }
    let minus = if (part < 0) == (of < 0) { "" } else { "-" };
    let (part, of) = (u128::from(part.unsigned_abs()), u128::from(of.unsigned_abs()));
    if minus.is_empty() && part <= of && part * 100_000 >= of * 99_995 {
        return "100.0%".into();
    }
    let (whole, rest) = hundredths(part * 10_000, of);
    if whole < 10 {
        format!("{minus}0{whole}.{rest:02}%")
    } else {
        format!("{minus}{}.{rest:02}%", units::count(whole))
    }
}

/// `part / of`, rounded: the number before the point and the two digits behind it, if `part` is in hundredths.
fn hundredths(part: u128, of: u128) -> (u64, u128) {
    let rounded = (part + of / 2) / of;
    (u64::try_from(rounded / 100).unwrap_or(u64::MAX), rounded % 100)
}

fn amount(amount: i64, unit: Units, amounts: Amounts) -> String {
    let minus = if amount < 0 { "-" } else { "" };
    let size = amount.unsigned_abs();
    let with_digits =
        |(whole, rest): (u64, u128), unit: &str| format!("{minus}{}.{rest:02}{unit}", units::count(whole));
    match (unit, amounts) {
        (Units::Bytes, Amounts::Rounded) => with_digits(hundredths(u128::from(size) * 100, 1 << 20), " MiB"),
        (Units::Bytes, Amounts::Exact) => format!("{minus}{} B", units::count(size)),
        (Units::Count | Units::CountCumulative, _) => format!("{minus}{}", units::count(size)),
        (Units::Percentage, _) => with_digits(hundredths(size.into(), 1), "%"),
    }
}

/// What `thaw_memreport` found out about the reporters. The value comes from a file: what is not as expected is not
/// shown.
fn reporters(page: &mut Page, value: &Value) {
    let list = |key: &str| value[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| harmless(value.as_str().unwrap_or("?"));
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let bytes = |value: &Value| units::bytes(Bytes(number(value)));
    page.heading(&format!("Reporters of {}", text(&value["process"])));
    page.line(&format!(
        "measured: {} in {}",
        bytes(&value["measured_bytes"]),
        units::plural(number(&value["measured_blocks"]), "block", "blocks")
    ));
    let heads =
        [("reporter", Align::Left), ("measured", Align::Right), ("reported", Align::Right), ("", Align::Sentence)];
    let mut table = Table::new(heads);
    for one in list("reporters") {
        let (measured, reported) = (number(&one["measured_bytes"]), number(&one["reported_heap_bytes"]));
        let verdict = match measured {
            0 => String::new(),
            _ if reported > measured => {
                format!("reports {} more than it measures", units::bytes(Bytes(reported - measured)))
            }
            _ if reported < measured => {
                format!("reports {} less than it measures", units::bytes(Bytes(measured - reported)))
            }
            _ => String::new(),
        };
        table.row([text(&one["name"]), units::bytes(Bytes(measured)), units::bytes(Bytes(reported)), verdict]);
    }
    if !table.is_empty() {
        page.gap();
        page.table(&table);
    }
    for group in list("reported_more_than_once") {
        let by: Vec<String> = group["reports"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .map(|report| format!("{} as {}", text(&report["reporter"]), text(&report["path"])))
            .collect();
        page.gap();
        let label = format!("reported {} times: ", by.len());
        let blocks = units::plural(number(&group["blocks"]), "block", "blocks");
        page.labelled(YELLOW, &label, &format!("{} in {blocks}, by {}", bytes(&group["bytes"]), by.join("; ")));
    }
    for wrong in list("wrong_pointers") {
        page.gap();
        page.labelled(
            YELLOW,
            "wrong pointer: ",
            &format!(
                "{} measured {} as {}: {} (such as {})",
                text(&wrong["reporter"]),
                units::plural(number(&wrong["count"]), "pointer", "pointers"),
                text(&wrong["path"]),
                text(&wrong["why"]),
                text(&wrong["example"]),
            ),
        );
    }
    for rule in list("broken_rules") {
        page.gap();
        page.labelled(YELLOW, "broken rule: ", &text(rule));
    }
    page.gap();
}

/// The checkpoints of a watch.
pub fn checkpoints(document: &WatchDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let right = ["at", "processes", "RSS", "PSS", "USS", "swap"].map(|head| (head, Align::Right));
    let mut table = Table::new([("checkpoint", Align::Left)].into_iter().chain(right));
    for point in &document.checkpoints {
        let total = &point.total;
        let swap = if total.swap.0 == 0 { String::new() } else { units::bytes(total.swap) };
        table.row([
            harmless(&point.name),
            units::seconds(point.at_s),
            units::count(total.processes),
            units::bytes(total.rss),
            units::bytes(total.pss),
            units::bytes(total.uss),
            swap,
        ]);
    }
    page.table(&table.without_empty_columns());
    if document.unseen > 0 {
        let count = units::plural(document.unseen.into(), "process", "processes");
        page.labelled(
            YELLOW,
            "warning: ",
            &format!("the memory of {count} is not for us to see: they are missing in the sums"),
        );
        page.labelled("", "hint: ", "watch as root, or as the user that they run as");
    }
    page.gap();
    let samples = units::plural(document.samples as u64, "sample", "samples");
    page.line(&format!("{samples} in {}", harmless(&document.file)));
    page
}

/// Two watches side by side.
pub fn compare(document: &CompareDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let heads = ["PSS before", "after", "change", "USS before", "after", "change"].map(|head| (head, Align::Right));
    let mut table = Table::new([("checkpoint", Align::Left)].into_iter().chain(heads));
    for pair in &document.checkpoints {
        let mut row = vec![harmless(&pair.name)];
        for of in [|total: &Total| total.pss, |total: &Total| total.uss] {
            let (first, second) = (pair.first.as_ref().map(of), pair.second.as_ref().map(of));
            let shown = |value: Option<Bytes>| value.map_or("-".into(), units::bytes);
            row.extend([shown(first), shown(second), change(first, second)]);
        }
        table.row(row);
    }
    page.table(&table);
    page.gap();
    page.remark("One run each: what differs from run to run is in the change too.");
    page
}

/// Two versions side by side, by the medians of their runs.
pub fn compare_runs(document: &RunsDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let heads = ["runs", "PSS before", "after", "change", "USS before", "after", "change"];
    let heads = heads.map(|head| (head, Align::Right));
    let mut table = Table::new([("checkpoint", Align::Left)].into_iter().chain(heads));
    for point in &document.checkpoints {
        let mut row = vec![harmless(&point.name), format!("{}, {}", point.pss.before.len(), point.pss.after.len())];
        for runs in [&point.pss, &point.uss] {
            let shown = |median: Option<f64>| median.map_or("-".into(), units::bytes_f);
            let change = runs.ratio.as_ref().map(units::change_estimate).unwrap_or_default();
            row.extend([shown(runs.before_median), shown(runs.after_median), change]);
        }
        table.row(row);
    }
    page.table(&table);
    page.gap();
    page.remark("Medians, and 95 % intervals of the change from three runs of each on.");
    page
}

/// Versions at each checkpoint of a course.
pub fn course(document: &CourseDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for point in &document.checkpoints {
        page.heading(&harmless(&point.name));
        let heads = ["runs", "PSS", "[95 %]", "to the first", "[95 %]", "USS", "RSS", "processes", "after"];
        let aligned = heads.map(|head| (head, if head == "[95 %]" { Align::Left } else { Align::Right }));
        let mut table = Table::new([("version", Align::Left)].into_iter().chain(aligned));
        for version in &point.versions {
            let median = |figure: &Figure| figure.median.map(|median| median.value);
            let shown = |figure: &Figure| median(figure).map_or("-".into(), units::bytes_f);
            let range = |of: Option<Interval>| {
                of.map(|range| format!("[{}, {}]", units::bytes_f(range.low), units::bytes_f(range.high)))
            };
            let (ratio, ratio_range) = version.pss.to_first.as_ref().map(units::ratio).unwrap_or_default();
            table.row([
                harmless(&version.version),
                version.pss.runs.len().to_string(),
                shown(&version.pss),
                range(version.pss.median.and_then(|median| median.interval)).unwrap_or_default(),
                ratio,
                ratio_range,
                shown(&version.uss),
                shown(&version.rss),
                median(&version.processes).map_or("-".into(), |count| format!("{count:.0}")),
                version.at_s.map(units::seconds).unwrap_or_default(),
            ]);
        }
        page.table(&table.without_empty_columns());
    }
    page.gap();
    page.remark(
        "Medians of the runs; intervals from three runs on. PSS: shared pages are divided by those who have them.",
    );
    page
}

fn change(first: Option<Bytes>, second: Option<Bytes>) -> String {
    match (first, second) {
        (Some(first), Some(second)) if first.0 > 0 => units::change(second.0 as f64 / first.0 as f64),
        _ => String::new(),
    }
}

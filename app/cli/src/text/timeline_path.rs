//! `thaw timeline path`, `waits`, `whatif` and `compare` as text.

use super::table::{Align, Table};
use super::units::ns as time;
use super::{Page, YELLOW, harmless, units};
use timeline::{
    Beside, Blocked, Change, Class, ComparisonDocument, Owner, Path, PathDocument, Place, Step, Via, Waits,
    WaitsDocument, WhatIfDocument,
};

fn share(part: u64, of: u64) -> String {
    if of == 0 { String::new() } else { units::percent(part as f64 / of as f64) }
}

/// What is known of it.
fn class(of: Class) -> &'static str {
    match of {
        Class::Work => "work",
        Class::Linked => "linked",
        Class::Resource => "resource",
        Class::Queue => "queue",
        Class::Kernel => "kernel",
        Class::Heuristic => "heuristic",
        Class::Unexplained => "unexplained",
    }
}

fn by(step: &Step) -> String {
    let via = match step.via {
        Via::End => "",
        Via::Nested => "in its midst",
        Via::Posted => "posted by it",
        Via::Same => "same object",
        Via::Linked => "link",
        Via::Resource => "held it before",
        Via::Queue => "thread was busy",
        Via::Kernel => "woken by it",
        Via::Heuristic => "heuristic",
    };
    if step.through.is_empty() { via.to_owned() } else { harmless(&format!("{via} ({})", step.through)) }
}

/// The steps, the owners, and what is known of how much.
pub fn path(document: &PathDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let path = &document.path;
    page.paragraph(&format!(
        "The critical path from {} to {}: {}.",
        time(path.from_ns),
        time(path.to_ns),
        units::plural(path.steps.len() as u64 + document.left_out, "step", "steps"),
    ));
    let classes = path.classes.iter().map(|row| format!("{} {}", class(row.class), share(row.ns, path.span_ns)));
    page.paragraph(&format!("Known by: {}.", classes.collect::<Vec<_>>().join(", ")));
    for circle in &path.circles {
        let names: Vec<String> = circle.iter().chain(circle.first()).map(|name| harmless(name)).collect();
        page.labelled(YELLOW, "circle: ", &format!("each waits for the next: {}", names.join(" -> ")));
    }
    contended(&mut page, path);
    owners(&mut page, path, path.types.iter(), "By type:", rows);
    owners(&mut page, path, path.owners.iter(), "By object and type:", rows);
    steps(&mut page, path, document.left_out);
    let head = [("slack", Align::Right), ("took", Align::Right), ("type", Align::Elastic), ("object", Align::Elastic)];
    let mut table = Table::new(head);
    for row in path.others.iter().take(rows) {
        table.row([time(row.slack_ns), time(row.ns), harmless(&row.name), harmless(&row.object)]);
    }
    show(&mut page, "Not on the path, and how much later it could have been done:", table);
    if path.open > 0 {
        page.gap();
        page.remark(&format!(
            "{} had not ended; --to TYPE walks back from one.",
            units::plural(path.open, "interval", "intervals")
        ));
    }
    page
}

fn contended(page: &mut Page, path: &Path) {
    let mut table = Table::new([
        ("behind others", Align::Right),
        ("share", Align::Right),
        ("handed over", Align::Right),
        ("resource", Align::Elastic),
    ]);
    for row in &path.contended {
        let share = share(row.ns, path.span_ns);
        table.row([time(row.ns), share, units::count(row.handed_over), harmless(&row.resource)]);
    }
    if !table.is_empty() {
        page.gap();
        page.line("It stood in line for:");
        page.table(&table);
    }
}

fn owners<'a>(page: &mut Page, path: &Path, all: impl ExactSizeIterator<Item = &'a Owner>, title: &str, rows: usize) {
    let count = all.len();
    let mut table = Table::new([
        ("on the path", Align::Right),
        ("share", Align::Right),
        ("work", Align::Right),
        ("wait", Align::Right),
        ("steps", Align::Right),
        ("type", Align::Elastic),
        ("object", Align::Elastic),
    ]);
    for owner in all.take(rows) {
        let sum = owner.work_ns + owner.wait_ns;
        table.row([
            time(sum),
            share(sum, path.span_ns),
            time(owner.work_ns),
            time(owner.wait_ns),
            units::count(owner.steps),
            harmless(&owner.name),
            harmless(&owner.object),
        ]);
    }
    page.gap();
    page.line(title);
    page.table(&table.without_empty_columns());
    if count > rows {
        page.remark(&format!("and {} more (--all lists them)", units::count((count - rows) as u64)));
    }
}

fn steps(page: &mut Page, path: &Path, left_out: u64) {
    let mut table = Table::new([
        ("at", Align::Right),
        ("for", Align::Right),
        ("class", Align::Left),
        ("by", Align::Left),
        ("thread", Align::Right),
        ("type", Align::Elastic),
        ("object", Align::Elastic),
    ]);
    for step in &path.steps {
        table.row([
            time(step.at_ns),
            time(step.ns),
            class(step.class).to_owned(),
            by(step),
            step.thread.to_string(),
            harmless(&step.name),
            harmless(&step.object),
        ]);
    }
    page.gap();
    page.line(if left_out > 0 { "The longest steps, in the order of time:" } else { "Step by step:" });
    page.table(&table);
    if left_out > 0 {
        page.remark(&format!("and {} shorter ones (--all lists them)", units::count(left_out)));
    }
}

/// All waits added up.
pub fn waits(document: &WaitsDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let sums = &document.sums;
    page.paragraph(&format!(
        "{} of {} altogether; half of them at most {}, the longest {}.",
        units::plural(sums.all.count, "wait", "waits"),
        time(sums.all.waited_ns),
        time(sums.all.median_ns),
        time(sums.all.longest_ns),
    ));
    let classes = sums
        .classes
        .iter()
        .map(|row| format!("{} {}", class(row.class), share(row.waits.waited_ns, sums.all.waited_ns)));
    if sums.all.count > 0 {
        page.paragraph(&format!("What was waited for is known by: {}.", classes.collect::<Vec<_>>().join(", ")));
    }
    list(&mut page, "By type:", "type", &sums.types);
    list(&mut page, "By object:", "object", &sums.objects);
    blockers(&mut page, &sums.blockers);
    page
}

fn cells(of: &Waits) -> [String; 5] {
    let open = if of.open > 0 { units::count(of.open) } else { String::new() };
    [time(of.waited_ns), units::count(of.count), time(of.median_ns), time(of.longest_ns), open]
}

const HEADS: [(&str, Align); 5] = [
    ("waited", Align::Right),
    ("times", Align::Right),
    ("median", Align::Right),
    ("longest", Align::Right),
    ("not ended", Align::Right),
];

fn list(page: &mut Page, title: &str, what: &str, rows: &[Waits]) {
    let mut table = Table::new(HEADS.into_iter().chain([(what, Align::Elastic)]));
    for row in rows {
        table.row(cells(row).into_iter().chain([harmless(&row.name)]));
    }
    show(page, title, table);
}

fn blockers(page: &mut Page, rows: &[Blocked]) {
    let more = [("class", Align::Left), ("held", Align::Left), ("type", Align::Elastic), ("object", Align::Elastic)];
    let mut table = Table::new(HEADS.into_iter().chain(more));
    for row in rows {
        let named = [class(row.class).to_owned(), harmless(&row.resource)];
        let of = [harmless(&row.type_name), harmless(&row.waits.name)];
        table.row(cells(&row.waits).into_iter().chain(named).chain(of));
    }
    show(page, "By what was waited for:", table);
}

fn show(page: &mut Page, title: &str, table: Table) {
    if !table.is_empty() {
        page.gap();
        page.line(title);
        page.table(&table.without_empty_columns());
    }
}

fn change(of: &Change) -> String {
    match of {
        Change::Resource { name, capacity } => format!("{} of {}", units::count(*capacity as u64), harmless(name)),
        Change::Faster { name, factor } => format!("{} {factor} times as fast", harmless(name)),
        Change::Without { name } => format!("no {}", harmless(name)),
    }
}

/// What a change would bring, and how sure that is.
pub fn whatif(document: &WhatIfDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let it = &document.whatif;
    if it.changes.is_empty() {
        page.paragraph(&format!("It took {}; nothing is changed.", time(it.measured_ns)));
    } else {
        let changes: Vec<String> = it.changes.iter().map(change).collect();
        page.paragraph(&format!(
            "It took {}; with {} it would take {} ({}).",
            time(it.measured_ns),
            changes.join(", "),
            time(it.predicted_ns),
            units::change(it.predicted_ns as f64 / it.measured_ns.max(1) as f64),
        ));
    }
    page.paragraph(&format!(
        "Error: the replay of the unchanged trace takes {}, which is {} off; its intervals end {} off (median).",
        time(it.replayed_ns),
        units::percent(it.error),
        units::percent(it.median_error),
    ));
    let mut table = Table::new([("at once", Align::Right), ("taken", Align::Right), ("resource", Align::Elastic)]);
    for row in it.resources.iter().take(RESOURCES) {
        table.row([units::count(row.capacity as u64), units::count(row.taken), harmless(&row.name)]);
    }
    show(&mut page, "Resources (--resource NAME=N):", table);
    if it.resources.len() > RESOURCES {
        let more = units::count((it.resources.len() - RESOURCES) as u64);
        page.remark(&format!("and {more} that are taken less often (--json lists them)"));
    }
    page
}

/// Rows of the table of resources.
const RESOURCES: usize = 20;

/// Two paths side by side.
pub fn compare(document: &ComparisonDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let it = &document.comparison;
    page.paragraph(&format!(
        "The critical path took {} and takes {} ({}).",
        time(it.before_ns),
        time(it.after_ns),
        units::change(it.after_ns as f64 / it.before_ns.max(1) as f64),
    ));
    if it.is_coarse {
        page.remark("Its steps are too many to be laid side by side; only what both begin and end with is.");
    }
    pairs(&mut page, "By type:", it.types.iter().take(rows), it.types.len());
    pairs(&mut page, "By object and type:", it.owners.iter().take(rows), it.owners.len());
    let mut steps: Vec<(usize, &Beside)> = it.steps.iter().enumerate().collect();
    steps.sort_by_key(|(_, pair)| std::cmp::Reverse(pair.before_ns.abs_diff(pair.after_ns)));
    steps.truncate(rows);
    steps.sort_by_key(|(place, _)| *place);
    let title = "Step by step, those that differ most, in their order:";
    pairs(&mut page, title, steps.into_iter().map(|(_, pair)| pair), it.steps.len());
    page
}

fn pairs<'a>(page: &mut Page, title: &str, all: impl Iterator<Item = &'a Beside>, of: usize) {
    let mut table = Table::new([
        ("before", Align::Right),
        ("after", Align::Right),
        ("difference", Align::Right),
        ("", Align::Left),
        ("type", Align::Elastic),
        ("object", Align::Elastic),
    ]);
    let mut shown = 0;
    for pair in all {
        shown += 1;
        let sign = if pair.after_ns < pair.before_ns { "-" } else { "+" };
        let place = match pair.place {
            Place::Both => "",
            Place::Gone => "gone",
            Place::New => "new",
        };
        table.row([
            time(pair.before_ns),
            time(pair.after_ns),
            format!("{sign}{}", time(pair.before_ns.abs_diff(pair.after_ns))),
            place.to_owned(),
            harmless(&pair.name),
            harmless(&pair.object),
        ]);
    }
    show(page, title, table);
    if of > shown {
        page.remark(&format!("and {} more (--all lists them)", units::count((of - shown) as u64)));
    }
}

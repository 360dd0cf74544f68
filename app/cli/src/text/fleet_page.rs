//! The answers about a fleet as a page. Only what they show is in it: where they hide a cell, the page says that there
//! is none, and why that may be.

use super::fleet::{estimate, moved_most, percent, verdict};
use super::units;
use fleet::answer::{Class, PercentileCell, Regression, RemedyEffect, Verdict};
use fleet::questions::Question;
use fleet::report::{Course, Report};
use stats::Estimate;
use std::collections::BTreeSet;
use view::{AppOf, BodyOf, CellOf, FleetOf, MapOf, MarkOf, SectionOf, Shade, SpreadOf, TableOf};

/// The page.
pub fn html(report: &Report) -> String {
    let k = units::count(report.k);
    let title = match report.courses.as_slice() {
        [course] => format!("Fleet: {}", course.app),
        courses => format!("Fleet: {}", units::plural(courses.len() as u64, "application", "applications")),
    };
    let sentence = match report.courses.as_slice() {
        [] => format!("No version has {k} machines: there is nothing to show."),
        _ => format!(
            "Starts on users' machines, until ready. No figure is of fewer than {k} machines, or lets one be \
             reckoned. Intervals are 95 %."
        ),
    };
    let apps = report.courses.iter().map(|course| app(report, course)).collect();
    view::fleet_page(&FleetOf { title, sentence, apps, remarks: hidden(report) })
}

fn hidden(report: &Report) -> Vec<String> {
    let one_answer = report.answers.iter().filter(|document| document.question != Question::Regressions.name());
    let of = |document: &fleet::answer::Document| {
        let hidden = document.suppressed;
        let cells = units::plural(hidden.small + hidden.beside_small, "cell", "cells");
        let beside = match hidden.beside_small {
            0 => String::new(),
            beside => format!(" ({} for the sake of others)", units::count(beside)),
        };
        (hidden.small > 0).then(|| format!("{cells} of {}{beside}", document.question))
    };
    let all: Vec<String> = one_answer.filter_map(of).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let (k, all) = (units::count(report.k), all.join(", "));
    vec![format!(
        "Hidden, of all versions: {all}. A cell of fewer than {k} machines is hidden, and as many beside it as it \
         takes that it cannot be reckoned from a total."
    )]
}

fn app(report: &Report, course: &Course) -> AppOf {
    let starts = report.percentiles(Question::Versions).filter(|cell| cell.app == course.app);
    let mut sections = vec![section(
        "Start times by version",
        "The dot is the median, its band the interval; ticks are the 75th and the 95th percentile.",
        spreads(in_order(starts, course), |cell| cell.version.clone()),
    )];
    sections.extend(changes(report, course));
    sections.extend(regressions(report, course));
    sections.extend(cold(report, course));
    sections.extend(remedies(report, course));
    sections.extend(worst(report, course));
    AppOf { name: course.app.clone(), facts: facts(report, course), sections }
}

fn section(title: &str, note: impl Into<String>, body: BodyOf) -> SectionOf {
    SectionOf { title: title.into(), note: note.into(), body }
}

fn facts(report: &Report, course: &Course) -> Vec<(String, String)> {
    let Some(cell) = report.apps().find(|cell| cell.app == course.app) else { return Vec::new() };
    let count = |value: i64| units::count(value as u64);
    let shown = course.versions.len() as i64;
    let versions = match shown == cell.versions {
        true => count(shown),
        false => format!("{} of {}", count(shown), count(cell.versions)),
    };
    let facts = [
        ("starts", count(cell.starts)),
        ("machines", count(cell.machines)),
        ("versions", versions),
        ("days", format!("{} to {}", cell.first_day, cell.last_day)),
    ];
    facts.map(|(what, figure)| (what.to_owned(), figure)).to_vec()
}

/// Cells in the order of the versions.
fn in_order<'a>(cells: impl Iterator<Item = &'a PercentileCell>, course: &Course) -> Vec<&'a PercentileCell> {
    let mut cells: Vec<&PercentileCell> = cells.collect();
    cells.sort_by_key(|cell| course.versions.iter().position(|version| *version == cell.version));
    cells
}

fn spreads(cells: Vec<&PercentileCell>, name: impl Fn(&PercentileCell) -> String) -> BodyOf {
    let spread = |cell: &PercentileCell| SpreadOf {
        name: name(cell),
        count: counts(cell.starts, cell.machines),
        marks: cell
            .percentiles
            .iter()
            .map(|one| {
                let time = estimate(one);
                let interval = time.interval.map(|ends| (ends.low, ends.high));
                MarkOf { text: format!("{} {}", percent(one), units::estimate_s(&time)), value: time.value, interval }
            })
            .collect(),
    };
    BodyOf::Spreads(cells.into_iter().map(spread).collect(), units::seconds)
}

fn counts(starts: i64, machines: i64) -> String {
    let starts = units::plural(starts as u64, "start", "starts");
    format!("{starts}, {}", units::plural(machines as u64, "machine", "machines"))
}

/// `5-8 CPUs, 8-16G, nvme`
fn name(class: &Class) -> String {
    let cpus = if class.cpus == "1" { "CPU" } else { "CPUs" };
    format!("{} {cpus}, {}, {}", class.cpus, class.memory, class.disk)
}

/// How deep a cell is coloured: a value and the limits of the depths.
fn depth(value: f64, limits: [f64; 4]) -> u8 {
    limits.iter().filter(|limit| value >= **limit).count() as u8
}

/// Rows of classes, columns of versions.
fn map<'a>(
    course: &Course,
    classes: impl Iterator<Item = &'a Class>,
    cell: impl Fn(&Class, usize) -> CellOf,
) -> Option<BodyOf> {
    let classes: BTreeSet<&Class> = classes.collect();
    let mut classes: Vec<&Class> = classes.into_iter().collect();
    // By the number of CPUs, not by its letters.
    let number = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).find_map(|part| part.parse().ok());
    classes.sort_by_key(|class| {
        (number(&class.cpus).unwrap_or(0_u64), !class.memory.starts_with('<'), number(&class.memory).unwrap_or(0_u64))
    });
    let row = |class: &&Class| (name(class), (0..course.versions.len()).map(|at| cell(class, at)).collect());
    let rows: Vec<_> = classes.iter().map(row).collect();
    let columns = course.versions.clone();
    (!rows.is_empty()).then(|| BodyOf::Map(MapOf { of: "class of hardware".into(), columns, rows }))
}

fn hidden_cell(more: &str) -> CellOf {
    CellOf { text: "hidden".into(), more: more.into(), shade: Shade::Hidden }
}

/// Each class in each version, against the version before.
fn changes(report: &Report, course: &Course) -> Option<SectionOf> {
    let cells: Vec<_> = report.percentiles(Question::Classes).filter(|cell| cell.app == course.app).collect();
    let of = |class: &Class, version: &str| {
        cells.iter().find(|cell| cell.class.as_ref() == Some(class) && cell.version == version)
    };
    let one = |class: &Class, at: usize| {
        let version = &course.versions[at];
        let Some(shown) = of(class, version) else { return hidden_cell("") };
        let median = shown.percentiles.first().map(|one| units::seconds(estimate(one).value)).unwrap_or_default();
        let Some(before) = at.checked_sub(1).map(|before| &course.versions[before]) else {
            return CellOf { text: median, more: String::new(), shade: Shade::Amount(0) };
        };
        let compared = report.regressions().find(|(old, new, cell)| {
            cell.app == course.app && cell.class == *class && *old == *before && *new == *version
        });
        let Some((_, _, change)) = compared else {
            return CellOf { text: median, more: format!("{before} is hidden"), shade: Shade::Amount(0) };
        };
        let is_sure = change.verdict != Verdict::Unclear;
        let depth = depth((change.ratio.max(1.0 / change.ratio) - 1.0) * 100.0, [1.0, 5.0, 10.0, 20.0]);
        let shade = if change.ratio > 1.0 { Shade::Worse(depth, is_sure) } else { Shade::Better(depth, is_sure) };
        CellOf { text: units::change(change.ratio), more: median, shade }
    };
    let classes = cells.iter().filter_map(|cell| cell.class.as_ref());
    let note = format!(
        "How the median changed against the version before it, and below that the median. Red: slower, blue: faster, \
         deeper from 1, 5, 10 and 20 % on. Framed: more than chance (p at most 0.05, corrected over the classes). \
         Hidden: fewer than {} machines, or what would let such a cell be reckoned.",
        units::count(report.k)
    );
    Some(section("Change by class of hardware", note, map(course, classes, one)?))
}

fn ratio(value: f64, interval: Option<stats::Interval>) -> String {
    units::change_estimate(&Estimate { value, interval })
}

/// What became slower or faster, the surest and largest first.
fn regressions(report: &Report, course: &Course) -> Option<SectionOf> {
    let all: Vec<_> = report.regressions().filter(|(_, _, cell)| cell.app == course.app).collect();
    if all.is_empty() {
        return None;
    }
    let mut clear: Vec<_> = all.iter().filter(|(_, _, cell)| cell.verdict != Verdict::Unclear).collect();
    clear.sort_by(|a, b| f64::total_cmp(&b.2.ratio, &a.2.ratio));
    let row = |(old, new, cell): &&(&str, &str, &Regression)| {
        let most = cell.moved.iter().find(|moved| Some(moved.figure) == cell.moved_most);
        let moved = most.and_then(|moved| moved.ratio.map(|value| ratio(value, moved.interval)));
        vec![
            format!("{old} to {new}"),
            name(&cell.class),
            verdict(cell.verdict).into(),
            [moved_most(cell), moved.as_deref().unwrap_or_default()].join(" ").trim_end().to_owned(),
            ratio(cell.ratio, cell.interval),
            units::p_value(cell.p),
            units::seconds(estimate(&cell.old.median).value),
            units::seconds(estimate(&cell.new.median).value),
            units::count(cell.old.machines.min(cell.new.machines) as u64),
        ]
    };
    let head = ["versions", "class of hardware", "verdict", "moved most", "change", "p", "old", "new", "machines"];
    let rows: Vec<_> = clear.iter().map(row).collect();
    let others = units::plural((all.len() - rows.len()) as u64, "comparison", "comparisons");
    let note = format!(
        "In {others} no change shows that is more than chance. What moved most with a class that became slower is its \
         companion, and not proven to be its cause."
    );
    let table = TableOf { head: head.map(str::to_owned).to_vec(), words: 4, rows };
    let title = if clear.is_empty() { "No regression shows" } else { "What became slower or faster" };
    Some(section(title, note, BodyOf::Table(table)))
}

fn cold(report: &Report, course: &Course) -> Option<SectionOf> {
    let cells: Vec<_> = report.cold().filter(|cell| cell.app == course.app).collect();
    let one = |class: &Class, at: usize| {
        let shown = cells.iter().find(|cell| cell.class == *class && cell.version == course.versions[at]);
        let Some(shown) = shown else { return hidden_cell("") };
        let Some(share) = shown.share else {
            return CellOf { text: "unknown".into(), more: String::new(), shade: Shade::Amount(0) };
        };
        let ends = shown.interval.map(|ends| format!("[{}, {}]", units::percent(ends.low), units::percent(ends.high)));
        let depth = depth(share, [0.05, 0.1, 0.25, 0.5]);
        CellOf { text: units::percent(share), more: ends.unwrap_or_default(), shade: Shade::Amount(depth) }
    };
    let note =
        "Share of cold starts among those whose state is known, with its interval; deeper from 5, 10, 25 and 50 % on.";
    Some(section("Cold starts", note, map(course, cells.iter().map(|cell| &cell.class), one)?))
}

fn remedies(report: &Report, course: &Course) -> Option<SectionOf> {
    let row = |cell: &RemedyEffect| {
        vec![
            cell.remedy.clone(),
            cell.ratio.map_or_else(|| "unknown".into(), |value| ratio(value, cell.interval)),
            units::p_value(cell.p),
            units::count(cell.strata),
            units::count(cell.starts_with as u64),
            units::count(cell.starts_without as u64),
        ]
    };
    let rows: Vec<_> = report.remedies().filter(|cell| cell.app == course.app).map(row).collect();
    let head = ["remedy", "change", "p", "groups", "starts with", "starts without"];
    let table = TableOf { head: head.map(str::to_owned).to_vec(), words: 1, rows };
    let note = "Starts with a remedy against those without it, of the same version, class and use of the other remedy. \
                All versions count. Who installs a remedy may differ in more than that.";
    (!table.rows.is_empty()).then(|| section("Remedies in the field", note, BodyOf::Table(table)))
}

/// The worst starts, each cache state on its own scale.
fn worst(report: &Report, course: &Course) -> Vec<SectionOf> {
    let of_state = |state: &ping::State| {
        let cells = report.percentiles(Question::Worst);
        let cells = cells.filter(|cell| cell.app == course.app && cell.state.as_deref() == Some(state.as_str()));
        let cells = in_order(cells, course);
        let title = format!("Worst starts: {}", state.as_str());
        let note = "The dot is the 90th percentile, ticks are the 95th, the 99th and the 99.9th; bands are intervals.";
        (!cells.is_empty()).then(|| section(&title, note, spreads(cells, |cell| cell.version.clone())))
    };
    ping::State::ALL.iter().filter_map(of_state).collect()
}

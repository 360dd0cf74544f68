//! Two recordings side by side, or two variants of one. Pure.
//!
//! Two recordings are independent: their runs are no pairs. Variants of one are, block by block. An interval says how
//! far chance among the runs can have moved the ratio; it knows nothing of what changed on the machine between the
//! recordings. Where two programs can be started on one machine, one recording with two variants shows smaller
//! differences.

use crate::analyze::contrasts::paired;
use crate::analyze::{
    Group, Input, cpu_s, difference_of_differences, doubts_about_cells, groups, median, permutation_p,
    ratio_of_medians, wall_s,
};
use crate::report::{ChangedFact, Comparison, Difference, MetricChange, REPORT_VERSION, StateComparison};
use model::{CacheState, RunKind, RunRow, Warning, WarningKind};
use stats::Pairing;
use std::collections::{BTreeMap, BTreeSet};

/// Keys of facts that differ from one moment to the next and say nothing about the machine.
const MOMENTARY: [&str; 8] = ["boot_id", "mhz", "free", "available", "load", "uptime", "used", "late"];
/// How many differing facts a warning names.
const NAMED_FACTS: usize = 5;

/// What changed from `before` to `after`.
///
/// Variants are matched by name where both recordings have the same names, else by their order.
pub fn compare(before: &Input, after: &Input) -> Comparison {
    let (old, new) = (groups(before, RunKind::Timed), groups(after, RunKind::Timed));
    let pairs = matching(before, after, &old, &new);
    let changed = changed(before.facts, after.facts);
    let mut warnings = Vec::new();
    if pairs.is_empty() {
        warnings.push(nothing_in_common(&old, &new));
    }
    warnings.extend(unlike_machines(&changed));
    warnings.extend(doubts(Some("before"), before));
    warnings.extend(doubts(Some("after"), after));
    Comparison {
        version: REPORT_VERSION,
        states: pairs.iter().filter_map(|(old, new)| state(old, new, Pairing::Independent)).collect(),
        differences: differences(&pairs),
        changed,
        warnings,
    }
}

/// What is to be said of machines that differ.
pub fn unlike_machine(before: &Input, after: &Input) -> Vec<Warning> {
    unlike_machines(&changed(before.facts, after.facts))
}

fn unlike_machines(changed: &[ChangedFact]) -> Vec<Warning> {
    read_ahead(changed).into_iter().chain(other_machine(changed)).collect()
}

/// What differs between two variants of one recording, by their names. `None`: it lacks one of them.
pub fn variants(input: &Input, before: &str, after: &str) -> Option<Comparison> {
    let of = |name: &str| {
        let mut timed = groups(input, RunKind::Timed);
        timed.retain(|group| group.variant_name == name);
        (!timed.is_empty()).then_some(timed)
    };
    let (old, new) = (of(before)?, of(after)?);
    let pairs: Vec<Pair> =
        old.iter().filter_map(|old| new.iter().find(|new| new.state == old.state).map(|new| (old, new))).collect();
    Some(Comparison {
        version: REPORT_VERSION,
        states: pairs.iter().filter_map(|(old, new)| state(old, new, Pairing::Paired)).collect(),
        differences: differences(&pairs),
        changed: Vec::new(),
        warnings: doubts(None, input),
    })
}

type Pair<'a, 'b> = (&'a Group<'b>, &'a Group<'b>);

/// Cells that both recordings have.
fn matching<'a, 'b>(before: &Input, after: &Input, old: &'a [Group<'b>], new: &'a [Group<'b>]) -> Vec<Pair<'a, 'b>> {
    let names = |input: &Input| input.variants.iter().cloned().collect::<BTreeSet<String>>();
    // The same name twice (a program against itself) tells nothing.
    let by_name = names(before) == names(after) && names(before).len() == before.variants.len();
    let same = |old: &Group, new: &Group| match by_name {
        true => old.variant_name == new.variant_name,
        false => old.variant == new.variant,
    };
    old.iter()
        .filter_map(|old| new.iter().find(|new| new.state == old.state && same(old, new)).map(|new| (old, new)))
        .collect()
}

/// `None` if the runs before took no time at all: nothing is a multiple of that.
fn state(old: &Group, new: &Group, pairing: Pairing) -> Option<StateComparison> {
    let (old_wall, new_wall) = (old.wall(), new.wall());
    let ratio = ratio_of_medians(&new_wall, &old_wall);
    let p = match pairing {
        Pairing::Independent => permutation_p(&new_wall, &old_wall, pairing),
        Pairing::Paired => {
            let (new, old) = paired(new, old, wall_s);
            permutation_p(&new, &old, pairing)
        }
    };
    ratio.value.is_finite().then(|| StateComparison {
        before_name: old.variant_name.clone(),
        after_name: new.variant_name.clone(),
        state: new.state,
        before_runs: old.runs.len() as u32,
        after_runs: new.runs.len() as u32,
        before_s: median(&old_wall),
        after_s: median(&new_wall),
        ratio,
        p,
        metrics: metrics(old, new),
    })
}

/// A figure of a program that was started and waited for. A run that had no memory was none: a page load in a browser
/// that ran already.
fn of_process(row: &RunRow, figure: f64) -> Option<f64> {
    (row.max_rss.0 > 0).then_some(figure)
}

/// Medians of the figures beside the wall time, those that both recordings have.
fn metrics(old: &Group, new: &Group) -> Vec<MetricChange> {
    type Figure = fn(&RunRow) -> Option<f64>;
    let figures: [(&str, Figure); 9] = [
        ("cpu_s", |row| of_process(row, cpu_s(row))),
        ("instructions", |row| row.instructions.map(|count| count as f64)),
        ("cycles", |row| row.cycles.map(|count| count as f64)),
        ("max_rss_bytes", |row| of_process(row, row.max_rss.0 as f64)),
        ("minor_faults", |row| of_process(row, row.minor_faults as f64)),
        ("major_faults", |row| of_process(row, row.major_faults as f64)),
        ("read_bytes", |row| row.read_bytes.map(|bytes| bytes.0 as f64)),
        ("read_requests", |row| row.read_requests.map(|count| count as f64)),
        ("written_bytes", |row| row.written_bytes.map(|bytes| bytes.0 as f64)),
    ];
    let median = |group: &Group, figure: Figure| -> Option<f64> {
        let known: Vec<f64> = group.runs.iter().filter_map(|(row, _)| figure(row)).collect();
        (!known.is_empty()).then(|| stats::quantile(&known, 0.5))
    };
    let change = |(metric, figure): (&str, Figure)| {
        let (before, after) = (median(old, figure)?, median(new, figure)?);
        let ratio = (before != 0.0).then(|| after / before);
        Some(MetricChange { metric: metric.to_owned(), before, after, ratio })
    };
    figures.into_iter().filter_map(change).collect()
}

/// By how much the cost of every colder state changed.
fn differences(pairs: &[Pair]) -> Vec<Difference> {
    let fast = CacheState::Hot;
    let mut differences = Vec::new();
    for (old, new) in pairs.iter().filter(|(old, _)| old.state != fast) {
        let hot = |(other, _): &&Pair| other.state == fast && other.variant == old.variant;
        let Some((old_hot, new_hot)) = pairs.iter().find(hot) else { continue };
        let slow = old.state;
        let of = if old.variant_name == new.variant_name { format!(" of {}", old.variant_name) } else { String::new() };
        let what = format!("({slow}-hot){of} after minus before");
        let difference_s = difference_of_differences([&new.wall(), &new_hot.wall(), &old.wall(), &old_hot.wall()]);
        let (old, new) = (old.variant_name.clone(), new.variant_name.clone());
        differences.push(Difference { what, slow, fast, old, new, difference_s });
    }
    differences
}

/// Facts that differ, by name.
fn changed(before: &[(String, String)], after: &[(String, String)]) -> Vec<ChangedFact> {
    let by_name = |facts: &[(String, String)]| facts.iter().cloned().collect::<BTreeMap<String, String>>();
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| ChangedFact {
            name: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}

/// Whether a fact is a read-ahead: a setting more than a machine.
pub fn is_read_ahead(name: &str) -> bool {
    name.contains("read_ahead") || name.contains("readahead")
}

/// Whether a fact differs from one moment to the next.
pub fn is_momentary(name: &str) -> bool {
    let key = name.rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    MOMENTARY.iter().any(|word| key == *word || key.split(['_', '-', '.']).any(|part| part == *word))
}

/// `cpu model: A before, B after`
fn both(fact: &ChangedFact) -> String {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "not recorded".to_owned());
    format!("{}: {} before, {} after", fact.name, or_none(&fact.before), or_none(&fact.after))
}

fn read_ahead(changed: &[ChangedFact]) -> Vec<Warning> {
    let known = |fact: &&ChangedFact| is_read_ahead(&fact.name) && fact.before.is_some() && fact.after.is_some();
    let warning = |fact| {
        Warning::new(
            WarningKind::ReadAhead,
            format!("the read-ahead differs ({}), which changes every cold start", both(fact)),
        )
        .hint("record both with the same --readahead")
    };
    changed.iter().filter(known).map(warning).collect()
}

fn other_machine(changed: &[ChangedFact]) -> Option<Warning> {
    let facts: Vec<&ChangedFact> =
        changed.iter().filter(|fact| !is_momentary(&fact.name) && !is_read_ahead(&fact.name)).collect();
    if facts.is_empty() {
        return None;
    }
    let mut named: Vec<String> = facts.iter().take(NAMED_FACTS).map(|fact| both(fact)).collect();
    if facts.len() > named.len() {
        named.push(format!("{} more", facts.len() - named.len()));
    }
    let text = format!("the machine differs between the recordings ({})", named.join("; "));
    Some(
        Warning::new(WarningKind::Note, text)
            .hint("compare recordings of the same machine in the same set-up, or say why it does not matter"),
    )
}

fn nothing_in_common(old: &[Group], new: &[Group]) -> Warning {
    let states = |groups: &[Group]| {
        let names: BTreeSet<CacheState> = groups.iter().map(|group| group.state).collect();
        let names: Vec<&str> = names.into_iter().map(CacheState::name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let text = format!(
        "there is nothing to compare: the states with runs that count are {} before and {} after",
        states(old),
        states(new)
    );
    Warning::new(WarningKind::Note, text).hint("record the same --state for the same program twice")
}

/// Doubts about the times of a recording; `which` of two it is.
pub fn doubts(which: Option<&str>, input: &Input) -> Vec<Warning> {
    let mut warnings = doubts_about_cells(input);
    warnings.retain(|warning| about_times(warning.kind));
    for warning in &mut warnings {
        if let Some(which) = which {
            warning.text = format!("{which}: {}", warning.text);
            // Its number would be looked for in the other recording as well.
            warning.run = None;
        }
    }
    warnings
}

fn about_times(kind: WarningKind) -> bool {
    use WarningKind::{Autocorrelation, BusyMachine, Drift, TooFewRuns};
    matches!(kind, Drift | Autocorrelation | BusyMachine | TooFewRuns)
}

#[cfg(test)]
mod tests;

//! Two recordings side by side, and the gate for CI. Pure.
//!
//! Two recordings are independent: their runs are no pairs. An interval says how far chance among the runs can have
//! moved the ratio; it knows nothing of what changed on the machine between the recordings. Where two programs can be
//! started on one machine, one recording with two variants shows smaller differences.

use crate::analyze::words::{change, changes, runs, typed_percent};
use crate::analyze::{Group, Input, cpu_s, doubts_about_cells, groups};
use crate::report::{
    ChangedFact, Comparison, Difference, MetricChange, Outcome, REPORT_VERSION, StateComparison, StateVerdict, Verdict,
};
use model::{CacheState, RunKind, RunRow, Warning, WarningKind};
use stats::{Interval, Pairing};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of facts that differ from one moment to the next and say nothing about the machine.
const MOMENTARY: [&str; 7] = ["mhz", "free", "available", "load", "uptime", "used", "late"];
/// More runs than this nobody makes for a verdict.
const MOST_RUNS: f64 = 10_000.0;
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
    warnings.extend(read_ahead(&changed));
    warnings.extend(other_machine(&changed));
    warnings.extend(set_up_differently(before, after));
    warnings.extend(other_user(before, after));
    warnings.extend(doubts("before", before));
    warnings.extend(doubts("after", after));
    Comparison {
        version: REPORT_VERSION,
        states: pairs.iter().filter_map(|(old, new)| state(before, old, new)).collect(),
        differences: differences(before, &pairs),
        changed,
        warnings,
    }
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
fn state(before: &Input, old: &Group, new: &Group) -> Option<StateComparison> {
    let (old_wall, new_wall) = (old.wall(), new.wall());
    let figure = |what: &str| before.random(&format!("{what} {} {}", old.variant, old.state));
    let ratio = stats::ratio_of_medians(&new_wall, &old_wall, &mut figure("ratio"));
    ratio.value.is_finite().then(|| StateComparison {
        before_name: old.variant_name.clone(),
        after_name: new.variant_name.clone(),
        state: new.state,
        before_runs: old.runs.len() as u32,
        after_runs: new.runs.len() as u32,
        before_s: stats::median(&old_wall, &mut figure("before")),
        after_s: stats::median(&new_wall, &mut figure("after")),
        ratio,
        p: stats::permutation_p(&new_wall, &old_wall, Pairing::Independent, &mut figure("p")),
        metrics: metrics(old, new),
    })
}

/// Medians of the figures beside the wall time, those that both recordings have.
fn metrics(old: &Group, new: &Group) -> Vec<MetricChange> {
    type Figure = fn(&RunRow) -> Option<f64>;
    let figures: [(&str, Figure); 9] = [
        ("cpu_s", |row| Some(cpu_s(row))),
        ("instructions", |row| row.instructions.map(|count| count as f64)),
        ("cycles", |row| row.cycles.map(|count| count as f64)),
        ("max_rss_bytes", |row| Some(row.max_rss.0 as f64)),
        ("minor_faults", |row| Some(row.minor_faults as f64)),
        ("major_faults", |row| Some(row.major_faults as f64)),
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
fn differences(before: &Input, pairs: &[Pair]) -> Vec<Difference> {
    let fast = CacheState::Hot;
    let mut differences = Vec::new();
    for (old, new) in pairs.iter().filter(|(old, _)| old.state != fast) {
        let hot = |(other, _): &&Pair| other.state == fast && other.variant == old.variant;
        let Some((old_hot, new_hot)) = pairs.iter().find(hot) else { continue };
        let slow = old.state;
        let of = if old.variant_name == new.variant_name { format!(" of {}", old.variant_name) } else { String::new() };
        let what = format!("({slow}-hot){of} after minus before");
        let random = &mut before.random(&format!("{what} {}", old.variant));
        let (cold2, hot2, cold1, hot1) = (new.wall(), new_hot.wall(), old.wall(), old_hot.wall());
        let difference_s = stats::difference_of_differences(&cold2, &hot2, &cold1, &hot1, random);
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

fn is_read_ahead(fact: &ChangedFact) -> bool {
    fact.name.contains("read_ahead") || fact.name.contains("readahead")
}

fn is_momentary(fact: &ChangedFact) -> bool {
    let key = fact.name.rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    MOMENTARY.iter().any(|word| key.split(['_', '-', '.']).any(|part| part == *word))
}

/// `cpu model: A before, B after`
fn both(fact: &ChangedFact) -> String {
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "not recorded".to_owned());
    format!("{}: {} before, {} after", fact.name, or_none(&fact.before), or_none(&fact.after))
}

fn read_ahead(changed: &[ChangedFact]) -> Vec<Warning> {
    let known = |fact: &&ChangedFact| is_read_ahead(fact) && fact.before.is_some() && fact.after.is_some();
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
    let facts: Vec<&ChangedFact> = changed.iter().filter(|fact| !is_momentary(fact) && !is_read_ahead(fact)).collect();
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

/// Options of the recording that change what a time means.
fn set_up_differently(before: &Input, after: &Input) -> Vec<Warning> {
    let (old, new) = (&before.options, &after.options);
    [
        ("--disk throttle", old.throttled, new.throttled),
        ("--cpu steady", old.steady_cpu, new.steady_cpu),
        ("--restore", old.restores, new.restores),
    ]
    .into_iter()
    .filter(|(_, old, new)| old != new)
    .map(|(option, old, _)| {
        let (with, without) = if old { ("before", "after") } else { ("after", "before") };
        let text = format!("the recording {with} was made with {option}, the one {without} was not");
        Warning::new(WarningKind::Note, text).hint("record both in the same way")
    })
    .collect()
}

/// A program has another sandbox, another home and other limits as another user.
fn other_user(before: &Input, after: &Input) -> Option<Warning> {
    let (old, new) = (before.options.user.as_ref()?, after.options.user.as_ref()?);
    let text = format!("the program ran as user {old} before and as user {new} after");
    (old != new).then(|| Warning::new(WarningKind::Note, text).hint("record both in the same way: --user"))
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

/// Doubts about the times of one of the recordings.
fn doubts(which: &str, input: &Input) -> Vec<Warning> {
    let about_times = |kind| {
        use WarningKind::{Autocorrelation, BusyMachine, Drift, TooFewRuns};
        matches!(kind, Drift | Autocorrelation | BusyMachine | TooFewRuns)
    };
    let mut warnings = doubts_about_cells(input);
    warnings.retain(|warning| about_times(warning.kind));
    for warning in &mut warnings {
        warning.text = format!("{which}: {}", warning.text);
        // Its number would be looked for in the other recording as well.
        warning.run = None;
    }
    warnings
}

/// Whether `comparison` stays within `max_regression` (0.05: 5 % slower). Decided on the interval, never on the point:
/// a state fails if its whole interval lies above the limit. An interval on both sides of the limit counts as
/// passed and says how many runs would decide.
pub fn gate(comparison: &Comparison, max_regression: f64) -> Verdict {
    let several = comparison.states.iter().any(|state| state.after_name != comparison.states[0].after_name);
    let naming = if several { Naming::VariantAndState } else { Naming::State };
    let states = comparison.states.iter().map(|state| verdict(state, max_regression, naming)).collect();
    Verdict { max_regression, states }
}

/// What a verdict calls its state.
#[derive(Clone, Copy)]
enum Naming {
    State,
    VariantAndState,
}

fn verdict(state: &StateComparison, max_regression: f64, naming: Naming) -> StateVerdict {
    let limit = 1.0 + max_regression;
    let allowed = typed_percent(max_regression);
    let said = |text: String, outcome, runs_needed| StateVerdict {
        variant_name: state.after_name.clone(),
        state: state.state,
        ratio: state.ratio,
        outcome,
        runs_needed,
        text: match naming {
            Naming::State => format!("{}: {text}", state.state),
            Naming::VariantAndState => format!("{}, {}: {text}", state.after_name, state.state),
        },
    };
    let Some(interval) = state.ratio.interval else {
        let few = runs(state.before_runs.min(state.after_runs) as usize);
        return said(
            format!("too few runs for a verdict ({few} in one of the recordings)"),
            Outcome::Undecided,
            Some(10),
        );
    };
    let figures = format!("{} {}", change(state.ratio.value), changes(interval));
    if interval.low > limit {
        said(format!("{figures}, more than the {allowed} that is allowed"), Outcome::Fail, None)
    } else if interval.high <= limit {
        said(format!("{figures}, within the {allowed} that is allowed"), Outcome::Pass, None)
    } else {
        let needed = runs_needed(state, interval, limit);
        let advice = match needed {
            Some(needed) => format!("about {needed} runs of each would decide"),
            None => "it is too close to the limit for any number of runs to decide".to_owned(),
        };
        said(format!("{figures}: {allowed} lies inside the interval; {advice}"), Outcome::Undecided, needed)
    }
}

/// About how many runs per recording make the interval so narrow that it no longer holds the limit, should the ratio
/// stay as it is: its width falls with the square root of the number of runs.
fn runs_needed(state: &StateComparison, interval: Interval, limit: f64) -> Option<u32> {
    let half_width = (interval.high / interval.low).ln() / 2.0;
    let distance = (state.ratio.value / limit).ln().abs();
    // As good as this many runs in both.
    let now = 2.0 / (1.0 / f64::from(state.before_runs) + 1.0 / f64::from(state.after_runs));
    let needed = (now * (half_width / distance).powi(2)).ceil();
    let more = needed.max(now.floor() + 1.0);
    (more.is_finite() && more <= MOST_RUNS).then_some(more as u32)
}

#[cfg(test)]
mod tests;

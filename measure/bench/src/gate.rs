//! The gate: has a program become slower, or heavier, than is allowed? Pure.
//!
//! Each figure of each state is asked two questions, with a one-sided test each ([`stats::against_limit`]): does it lie
//! above its limit, and does it lie below? The gate *fails* if one lies above: over all figures and states together
//! that happens by chance once in twenty at most (Holm). It *passes* if all lie below: should one of them truly lie
//! above, that one alone would have to be judged wrongly, which happens once in twenty at most. Else it is *undecided*.
//!
//! Two recordings are independent samples; variants of one recording, taken in the same random blocks, are pairs. A
//! baseline is what the gate knows of a recording, small enough for a repository. A budget ([`Bound::AtMost`]) needs
//! nothing to compare with: does the median lie above it, does it lie within ([`stats::against_value`])?

pub mod budgets;
mod identity;

pub use identity::{Difference, Identity, Kind, differences};

use crate::analyze::words::{change, changes, runs, seconds, typed_percent};
use crate::analyze::{Group, Input, cpu_s, groups, wall_s};
use model::{Bytes, CacheState, Milestone, RunKind, RunRow};
use serde::{Deserialize, Serialize};
use stats::{Estimate, Limit, Pairing};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// What a file with a [`Baseline`] says of itself.
pub const BASELINE_SCHEMA: &str = "thaw.baseline/1";
/// Chance of a wrong verdict.
pub const LEVEL: f64 = 0.05;

/// A figure of a run that can be judged. More is worse in all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Metric {
    /// Time until ready.
    Time,
    /// CPU time, in user mode and in the kernel.
    Cpu,
    /// Bytes read from block devices.
    Bytes,
    /// Read requests to block devices.
    Requests,
    /// Page faults of both kinds.
    Faults,
    /// Page faults that waited for the disk.
    MajorFaults,
    /// Instructions retired.
    Instructions,
    /// The largest resident set.
    Memory,
    /// Dynamic relocations of the files whose code a traced start mapped: one figure for all runs.
    Relocations,
    /// Time until a readiness probe fired.
    Milestone(String),
}

/// Words of the metrics without a name of their own.
const METRICS: [(Metric, &str); 9] = [
    (Metric::Time, "time"),
    (Metric::Cpu, "cpu"),
    (Metric::Bytes, "bytes"),
    (Metric::Requests, "requests"),
    (Metric::Faults, "faults"),
    (Metric::MajorFaults, "major-faults"),
    (Metric::Instructions, "instructions"),
    (Metric::Memory, "memory"),
    (Metric::Relocations, "relocations"),
];

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match METRICS.iter().find(|(metric, _)| metric == self) {
            Some((_, word)) => out.write_str(word),
            None => match self {
                Self::Milestone(name) => write!(out, "milestone:{name}"),
                _ => unreachable!("every other metric has a word"),
            },
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(name) = word.strip_prefix("milestone:").filter(|name| !name.is_empty()) {
            return Ok(Self::Milestone(name.to_owned()));
        }
        METRICS.iter().find(|(_, known)| *known == word).map(|(metric, _)| metric.clone()).ok_or_else(|| {
            let words: Vec<&str> = METRICS.iter().map(|(_, word)| *word).collect();
            format!("'{word}' is no metric; they are {} and milestone:NAME", words.join(", "))
        })
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        word.parse()
    }
}

impl Metric {
    /// Of one run; `None`: this machine could not tell, or the probe did not fire.
    fn of(&self, (row, milestones): &(RunRow, Vec<Milestone>)) -> Option<f64> {
        let count = |value: u64| value as f64;
        match self {
            Self::Time => Some(wall_s(row)),
            Self::Cpu => Some(cpu_s(row)),
            Self::Bytes => row.read_bytes.map(|bytes| count(bytes.0)),
            Self::Requests => row.read_requests.map(count),
            Self::Faults => Some(count(row.minor_faults + row.major_faults)),
            Self::MajorFaults => Some(count(row.major_faults)),
            Self::Instructions => row.instructions.map(count),
            Self::Memory => Some(count(row.max_rss.0)),
            Self::Relocations => None,
            Self::Milestone(name) => milestones
                .iter()
                .filter(|milestone| milestone.name == *name)
                .map(|milestone| milestone.at_ns.seconds())
                .min_by(f64::total_cmp),
        }
    }

    /// A value in words.
    fn shown(&self, value: f64) -> String {
        match self {
            Self::Time | Self::Cpu | Self::Milestone(_) => seconds(value),
            Self::Bytes | Self::Memory => Bytes(value.round() as u64).to_string(),
            _ => format!("{value:.0}"),
        }
    }
}

/// What the gate knows of a recording: whose it is, and the figures of each run that counts. As JSON it is the file of
/// a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`BASELINE_SCHEMA`]
    pub schema: String,
    /// What was measured, how and where.
    pub identity: Identity,
    /// One per variant and state, in that order.
    pub series: Vec<Series>,
}

/// The runs of a variant in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Index of the variant.
    pub variant: u32,
    /// Its name.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// The random block of each run.
    pub blocks: Vec<u32>,
    /// Metric to the figure of each run, in base units; `null`: not known.
    pub figures: BTreeMap<Metric, Vec<Option<f64>>>,
}

impl Baseline {
    /// What the timed runs of a recording say.
    pub fn of(input: &Input, identity: Identity) -> Self {
        let series = groups(input, RunKind::Timed).iter().map(series).collect();
        Self { schema: BASELINE_SCHEMA.to_owned(), identity, series }
    }

    /// The same, and how many relocations the programs of its variants have, by index; a variant that is not there:
    /// unknown.
    #[must_use]
    pub fn with_relocations(mut self, relocations: &BTreeMap<u32, u64>) -> Self {
        for series in &mut self.series {
            let Some(entries) = relocations.get(&series.variant) else { continue };
            let values = vec![Some(*entries as f64); series.blocks.len()];
            series.figures.insert(Metric::Relocations, values);
        }
        self
    }

    /// Reads the file of a baseline.
    ///
    /// # Errors
    /// Why it is none: no JSON, another schema, or figures that no run can have.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| format!("it is no baseline: {error}"))?;
        if head.schema != BASELINE_SCHEMA {
            return Err(format!("it says that it is '{}', and this thaw reads {BASELINE_SCHEMA}", head.schema));
        }
        let baseline: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for series in &baseline.series {
            for (metric, values) in &series.figures {
                let sane = |value: &Option<f64>| value.is_none_or(|value| value.is_finite() && value >= 0.0);
                if values.len() != series.blocks.len() || !values.iter().all(sane) {
                    return Err(format!("the figures '{metric}' of {} are damaged", series.state));
                }
            }
        }
        Ok(baseline)
    }

    /// Only the variant of this name.
    ///
    /// # Errors
    /// There is none; the text names those that there are.
    pub fn only(&self, name: &str) -> Result<Self, String> {
        let series: Vec<Series> = self.series.iter().filter(|series| series.variant_name == name).cloned().collect();
        if series.is_empty() {
            let names: BTreeSet<&str> = self.series.iter().map(|series| series.variant_name.as_str()).collect();
            return Err(format!("its variants are {}", names.into_iter().collect::<Vec<_>>().join(", ")));
        }
        Ok(Self { series, ..self.clone() })
    }
}

fn series(group: &Group) -> Series {
    let mut metrics: Vec<Metric> = METRICS.iter().map(|(metric, _)| metric.clone()).collect();
    let names: BTreeSet<&str> =
        group.runs.iter().flat_map(|(_, milestones)| milestones).map(|milestone| milestone.name.as_str()).collect();
    metrics.extend(names.into_iter().map(|name| Metric::Milestone(name.to_owned())));
    let values = |metric: &Metric| group.runs.iter().map(|run| metric.of(run)).collect::<Vec<_>>();
    Series {
        variant: group.variant,
        variant_name: group.variant_name.clone(),
        state: group.state,
        blocks: group.runs.iter().map(|(row, _)| row.block).collect(),
        figures: metrics
            .into_iter()
            .map(|metric| (values(&metric), metric))
            .filter(|(values, _)| values.iter().any(Option::is_some))
            .map(|(values, metric)| (metric, values))
            .collect(),
    }
}

/// What a figure may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// So much more than before, as a share (0.05: 5 %).
    Growth(f64),
    /// So much, in the metric's base unit, whatever was before.
    AtMost(f64),
}

/// A figure that is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which.
    pub metric: Metric,
    /// What it may be.
    pub bound: Bound,
    /// In this state alone; `None`: in each.
    pub state: Option<CacheState>,
    /// Of the variant of this name alone; `None`: of each.
    pub variant: Option<String>,
}

impl Rule {
    /// In every state, of every variant.
    pub fn of(metric: Metric, bound: Bound) -> Self {
        Self { metric, bound, state: None, variant: None }
    }

    /// Whether it is about these runs.
    pub fn is_about(&self, series: &Series) -> bool {
        self.holds(series.state, &series.variant_name)
    }

    /// Whether this is what it asks for.
    pub fn asks_for(&self, figure: &FigureVerdict) -> bool {
        (&self.metric, self.bound) == (&figure.metric, figure.limit) && self.holds(figure.state, &figure.variant_name)
    }

    fn holds(&self, state: CacheState, variant: &str) -> bool {
        self.state.is_none_or(|own| own == state) && self.variant.as_ref().is_none_or(|own| own == variant)
    }
}

/// What is to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The figures.
    pub rules: Vec<Rule>,
    /// Chance of a wrong verdict: [`LEVEL`], less where the gate looks at growing data more than once.
    pub level: f64,
}

/// What the gate says of a figure, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It lies below the limit.
    Pass,
    /// It lies above.
    Fail,
    /// The runs cannot tell.
    Undecided,
}

impl Outcome {
    /// As JSON says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Undecided => "undecided",
        }
    }
}

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Fail if one figure fails; pass if all pass, and there is one.
    pub outcome: Outcome,
    /// Chance of a wrong verdict.
    pub level: f64,
    /// Whether the runs are pairs.
    pub paired: bool,
    /// One per variant, state and metric.
    pub figures: Vec<FigureVerdict>,
}

/// What the gate says of one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureVerdict {
    /// Name of the variant after.
    pub variant_name: String,
    /// Cache state.
    pub state: CacheState,
    /// Which figure.
    pub metric: Metric,
    /// What it may be.
    pub limit: Bound,
    /// Runs before, or pairs; 0 where it is judged by itself.
    pub before_runs: u32,
    /// Runs after, or pairs.
    pub after_runs: u32,
    /// Median before, in base units; `None`: not known, or it is judged by itself.
    pub before: Option<f64>,
    /// Median after.
    pub after: Option<f64>,
    /// after / before, of the medians, with its BCa bootstrap interval; `None`: before is 0 or not known.
    pub ratio: Option<Estimate>,
    /// One-sided p of "above the limit", for this figure alone.
    pub p_above: f64,
    /// The same, adjusted for all figures (Holm).
    pub p_above_of_all: f64,
    /// One-sided p of "below the limit".
    pub p_below: f64,
    /// What follows.
    pub outcome: Outcome,
    /// When undecided: about how many runs of each would decide, if the ratio stays; `None`: not foreseeable.
    pub runs_needed: Option<u32>,
    /// One sentence with the figures.
    pub text: String,
}

/// Judges `after` against `before`; without `before`, only what is judged by itself. Variants are matched by name where
/// both have the same, else by their order.
pub fn decide(before: Option<&Baseline>, after: &Baseline, wanted: &Wanted, pairing: Pairing) -> Verdict {
    let judged = judge(before, after, wanted, pairing);
    let several = judged.iter().any(|(figure, ..)| figure.after.variant != judged[0].0.after.variant);
    let outcome = of_all(judged.iter().map(|(.., outcome)| *outcome));
    let strictest = wanted.level / judged.len() as f64;
    let figures =
        judged.into_iter().map(|(figure, p, outcome)| figure.verdict(p, outcome, strictest, several)).collect();
    Verdict { outcome, level: wanted.level, paired: pairing == Pairing::Paired, figures }
}

/// The outcome of [`decide`] alone, for simulations: without intervals and words.
pub fn outcome(before: &Baseline, after: &Baseline, wanted: &Wanted, pairing: Pairing) -> Outcome {
    of_all(judge(Some(before), after, wanted, pairing).into_iter().map(|(.., outcome)| outcome))
}

/// Fail if one fails; pass if all pass, and there is one.
fn of_all(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let outcomes: Vec<Outcome> = outcomes.collect();
    if outcomes.contains(&Outcome::Fail) {
        Outcome::Fail
    } else if !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Pass) {
        Outcome::Pass
    } else {
        Outcome::Undecided
    }
}

/// All figures with their tests, the p of "above the limit" adjusted for all of them (Holm), and what follows.
fn judge<'a>(
    before: Option<&'a Baseline>,
    after: &'a Baseline,
    wanted: &Wanted,
    pairing: Pairing,
) -> Vec<(Judged<'a>, f64, Outcome)> {
    let mut judged: Vec<Judged> = Vec::new();
    for (old, new) in before.map(|before| matching(before, after)).unwrap_or_default() {
        for rule in wanted.rules.iter().filter(|rule| rule.is_about(new)) {
            if let Bound::Growth(limit) = rule.bound {
                judged.push(Judged::against(old, new, &rule.metric, limit, pairing));
            }
        }
    }
    for new in &after.series {
        for rule in wanted.rules.iter().filter(|rule| rule.is_about(new)) {
            if let Bound::AtMost(value) = rule.bound {
                judged.push(Judged::by_itself(new, &rule.metric, value));
            }
        }
    }
    let p: Vec<f64> = judged.iter().map(|figure| figure.tests.p_above).collect();
    let with_outcome = |(figure, p): (Judged<'a>, f64)| {
        let outcome = if p <= wanted.level {
            Outcome::Fail
        } else if figure.tests.p_below <= wanted.level || figure.is_steady() {
            Outcome::Pass
        } else {
            Outcome::Undecided
        };
        (figure, p, outcome)
    };
    judged.into_iter().zip(stats::holm(&p)).map(with_outcome).collect()
}

/// Series that both sides have.
pub fn matching<'a>(before: &'a Baseline, after: &'a Baseline) -> Vec<(&'a Series, &'a Series)> {
    let names = |side: &Baseline| {
        side.series.iter().map(|series| (series.variant, series.variant_name.clone())).collect::<BTreeSet<_>>()
    };
    let bare = |names: &BTreeSet<(u32, String)>| names.iter().map(|(_, name)| name.clone()).collect::<BTreeSet<_>>();
    let (old, new) = (names(before), names(after));
    // The same name twice (a program against itself) tells nothing.
    let by_name = bare(&old) == bare(&new) && bare(&old).len() == old.len();
    let place = |names: &BTreeSet<(u32, String)>, variant| names.iter().position(|(index, _)| *index == variant);
    let same = |a: &Series, b: &Series| match by_name {
        true => a.variant_name == b.variant_name,
        false => place(&old, a.variant) == place(&new, b.variant),
    };
    before
        .series
        .iter()
        .filter_map(|a| after.series.iter().find(|b| b.state == a.state && same(a, b)).map(|b| (a, b)))
        .collect()
}

/// A figure that is counted in files and not measured: chance has no part in it.
fn counted_once(value: f64, limit: f64) -> Limit {
    let (above, below) = if value > limit { (0.0, 1.0) } else { (1.0, 0.0) };
    Limit { p_above: above, p_below: below }
}

/// A figure with its tests, before it is known what the others say.
struct Judged<'a> {
    after: &'a Series,
    metric: Metric,
    limit: Bound,
    pairing: Pairing,
    /// Empty where it is judged by itself.
    old: Vec<f64>,
    new: Vec<f64>,
    tests: Limit,
}

impl<'a> Judged<'a> {
    fn against(before: &Series, after: &'a Series, metric: &Metric, limit: f64, pairing: Pairing) -> Self {
        let (old, new) = match pairing {
            Pairing::Independent => (known(before, metric), known(after, metric)),
            Pairing::Paired => in_pairs(before, after, metric),
        };
        let tests = match (metric, old.first(), new.first()) {
            (Metric::Relocations, Some(old), Some(new)) => counted_once(*new, old * (1.0 + limit)),
            _ => stats::against_limit(&new, &old, 1.0 + limit, pairing),
        };
        Self { after, metric: metric.clone(), limit: Bound::Growth(limit), pairing, old, new, tests }
    }

    fn by_itself(after: &'a Series, metric: &Metric, at_most: f64) -> Self {
        let new = known(after, metric);
        let tests = match (metric, new.first()) {
            (Metric::Relocations, Some(new)) => counted_once(*new, at_most),
            _ => stats::against_value(&new, at_most),
        };
        let limit = Bound::AtMost(at_most);
        // As exact as the test of pairs: what holds for those on few values and levels holds for it.
        Self { after, metric: metric.clone(), limit, pairing: Pairing::Paired, old: Vec::new(), new, tests }
    }

    /// No run differs from another, and the figure is not beyond the limit: nothing is left to chance.
    fn is_steady(&self) -> bool {
        let same = |x: &[f64]| x.len() >= 2 && x.iter().all(|value| *value == x[0]);
        match self.limit {
            Bound::Growth(limit) => same(&self.old) && same(&self.new) && self.new[0] <= self.old[0] * (1.0 + limit),
            Bound::AtMost(value) => same(&self.new) && self.new[0] <= value,
        }
    }

    /// About how many runs of each would decide.
    fn runs_needed(&self, strictest: f64) -> Option<u32> {
        let (needed, runs) = match self.limit {
            Bound::Growth(limit) => (
                stats::values_needed(&self.new, &self.old, 1.0 + limit, self.pairing, strictest),
                self.old.len().min(self.new.len()),
            ),
            Bound::AtMost(value) => (stats::values_needed_against(&self.new, value, strictest), self.new.len()),
        };
        needed.map(|needed| needed.max(runs as u32 + 1))
    }

    fn ratio(&self) -> Option<Estimate> {
        if self.old.is_empty() {
            return None;
        }
        let random = &mut stats::Random::of_values(&[&self.new, &self.old]);
        let ratio = stats::ratio_of_medians(&self.new, &self.old, random);
        ratio.value.is_finite().then_some(ratio)
    }

    /// `strictest`: the level of the strictest of all tests.
    fn verdict(self, p_of_all: f64, outcome: Outcome, strictest: f64, several: bool) -> FigureVerdict {
        let median = |x: &[f64]| (!x.is_empty()).then(|| stats::quantile(x, 0.5));
        let ratio = self.ratio();
        let needed = (outcome == Outcome::Undecided).then(|| self.runs_needed(strictest)).flatten();
        let whose = if several { format!("{}, ", self.after.variant_name) } else { String::new() };
        let said = self.sentence(ratio.as_ref(), outcome, needed, strictest);
        FigureVerdict {
            variant_name: self.after.variant_name.clone(),
            state: self.after.state,
            limit: self.limit,
            before_runs: self.old.len() as u32,
            after_runs: self.new.len() as u32,
            before: median(&self.old),
            after: median(&self.new),
            ratio,
            p_above: self.tests.p_above,
            p_above_of_all: p_of_all,
            p_below: self.tests.p_below,
            outcome,
            runs_needed: needed,
            text: format!("{whose}{} {}: {said}", self.after.state, self.metric),
            metric: self.metric,
        }
    }

    /// `20.0 % more [+19.1 %, +21.0 %], more than the 5 % that is allowed`,
    /// `1.20 s [1.19 s, 1.22 s], more than the 1 s that is allowed`
    fn sentence(&self, ratio: Option<&Estimate>, outcome: Outcome, needed: Option<u32>, strictest: f64) -> String {
        let by_itself = matches!(self.limit, Bound::AtMost(_));
        let at_most = |allowed: String| {
            let may = format!("the {allowed} that is allowed");
            [format!("within {may}"), format!("more than {may}"), format!("is more than {allowed}")]
        };
        // What it may be, what it is beyond that, and the question.
        let [within, beyond, whether] = match self.limit {
            Bound::Growth(limit) if limit < 0.0 => {
                let share = typed_percent(-limit);
                let must = format!("the {share} that it must shrink at least");
                [format!("more than {must}"), format!("not {must}"), format!("shrank by {share}")]
            }
            Bound::Growth(limit) => at_most(typed_percent(limit)),
            Bound::AtMost(value) => at_most(self.metric.shown(value)),
        };
        let missing = match (self.old.is_empty() && !by_itself, self.new.is_empty()) {
            (true, _) => Some(" before"),
            (_, true) if by_itself => Some(""),
            (_, true) => Some(" after"),
            _ => None,
        };
        if let Some(side) = missing {
            return format!("unknown, for no run{side} has this figure");
        }
        let median = |x: &[f64]| self.metric.shown(stats::quantile(x, 0.5));
        let figures = match ratio {
            Some(ratio) => {
                let interval = ratio.interval.map(|interval| format!(" {}", changes(interval))).unwrap_or_default();
                format!("{}{interval}", self.changed(ratio.value))
            }
            None if by_itself => {
                let whole = stats::median(&self.new, &mut stats::Random::of_values(&[&self.new]));
                let ends = whole.interval.map(|it| [it.low, it.high].map(|end| self.metric.shown(end)).join(", "));
                format!("{}{}", median(&self.new), ends.map(|ends| format!(" [{ends}]")).unwrap_or_default())
            }
            None => format!("{} before, {} after", median(&self.old), median(&self.new)),
        };
        match outcome {
            Outcome::Fail => format!("{figures}, {beyond}"),
            Outcome::Pass => format!("{figures}, {within}"),
            Outcome::Undecided => {
                let new = self.new.len();
                let old = if by_itself { new } else { self.old.len() };
                let each = if by_itself { "" } else { " of each" };
                let few = stats::smallest_p(new, old, self.pairing);
                if few > strictest {
                    let least = (2..100).find(|&n| stats::smallest_p(n, n, self.pairing) <= strictest);
                    let least = least.map(|least| format!("; it takes {least}{each}")).unwrap_or_default();
                    return format!("{figures}: too few runs for a verdict ({}{least})", runs(old.min(new)));
                }
                let advice = match needed {
                    Some(needed) => format!("about {needed} runs{each} would decide"),
                    None => "it is too close to the limit for any number of runs to decide".to_owned(),
                };
                format!("{figures}: these runs cannot tell whether it {whether}; {advice}")
            }
        }
    }

    /// `20.0 % slower`, `3.0 % less`
    fn changed(&self, ratio: f64) -> String {
        match self.metric {
            Metric::Time | Metric::Milestone(_) => change(ratio),
            _ => change(ratio).replace("slower", "more").replace("faster", "less"),
        }
    }
}

/// The values that are known.
fn known(series: &Series, metric: &Metric) -> Vec<f64> {
    series.figures.get(metric).map(|values| values.iter().flatten().copied().collect()).unwrap_or_default()
}

/// The values of blocks in which both are known, block by block.
fn in_pairs(before: &Series, after: &Series, metric: &Metric) -> (Vec<f64>, Vec<f64>) {
    let by_block = |series: &Series| -> BTreeMap<u32, f64> {
        let values = series.figures.get(metric).cloned().unwrap_or_default();
        series.blocks.iter().zip(values).filter_map(|(block, value)| Some((*block, value?))).collect()
    };
    let new = by_block(after);
    by_block(before).into_iter().filter_map(|(block, old)| new.get(&block).map(|new| (old, *new))).unzip()
}

#[cfg(test)]
mod tests;

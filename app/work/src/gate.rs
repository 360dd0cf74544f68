//! Whether a change may go in: two recordings, two variants, or a recording and a baseline's file, judged.

use crate::compare::{load, no_variants, nothing_in_common};
use crate::plan::Plans;
use crate::progress::Tell;
use crate::record::more::{self, More};
use crate::recorded::Loaded;
use crate::why::difference::{self, Explained, Pair, RECORD, StartsDiffer};
use bench::gate::{
    Baseline, Bound, Difference, FigureVerdict, Kind, LEVEL, Metric, Outcome, Rule, Series, Verdict, Wanted, budgets,
};
use model::{Error, Exit, Result, Warning, WarningKind, shown};
use os::replace::{Existing, Rights};
use serde::Serialize;
use stats::Pairing;
use std::path::Path;
use std::time::{Duration, Instant};

/// A baseline in a repository is small; what is larger is none.
const LARGEST_BASELINE: u64 = 16 << 20;
/// So is a file of budgets.
const LARGEST_BUDGETS: u64 = 1 << 20;

/// `thaw.gate/3`
#[derive(Serialize)]
pub struct GateDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// File of the recording or baseline before; `None`: it is judged by budgets alone.
    pub before: Option<String>,
    /// File of the recording that is judged.
    pub after: String,
    /// The verdict, figure by figure.
    pub verdict: Verdict,
    /// How often the gate looked while runs were added; the looks share the error of 5 %.
    pub looks: u32,
    /// What `--undecided` says.
    pub undecided: Undecided,
    /// Whether the exit code is 0.
    pub passes: bool,
    /// Differences that `--allow` let through.
    pub allowed: Vec<Difference>,
    /// Doubts about the figures.
    pub warnings: Vec<Warning>,
    /// Why starts take longer, by owners; `None`: no time of a start fails.
    pub why: Option<Explained>,
}

/// What is judged against what.
#[derive(Clone, Copy, Debug)]
pub enum Against<'a> {
    /// Another recording.
    Recording(&'a Path),
    /// Two variants of the recording itself: the old one, and the new one that is judged.
    Variants(&'a str, &'a str),
    /// A baseline's file.
    Baseline(&'a Path),
    /// The runs since the last step in a history, of the same machine, program and set-up.
    History(&'a Path),
    /// Nothing: budgets say what its figures may be.
    Nothing,
}

/// What the gate does when the runs cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Undecided {
    /// It does not pass.
    Fail,
    /// It passes, and this is said.
    Warn,
    /// It passes.
    Pass,
}

/// How it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// What it is judged against.
    pub against: Against<'a>,
    /// What to judge.
    pub judged: &'a [Rule],
    /// What to do when the runs cannot tell.
    pub undecided: Undecided,
    /// Differences that are overlooked.
    pub allowed: &'a [Kind],
}

/// What may grow by how much: by `max_regression`, where a metric has no limit of its own.
pub fn growing(metrics: &[(Metric, Option<f64>)], max_regression: f64) -> Vec<Rule> {
    let rule =
        |(metric, own): &(Metric, Option<f64>)| Rule::of(metric.clone(), Bound::Growth(own.unwrap_or(max_regression)));
    metrics.iter().map(rule).collect()
}

/// What a file of budgets asks for.
///
/// # Errors
/// It cannot be read, or is none; something in it may grow, and there is nothing to compare with.
pub fn budgets(path: &Path, against: &Against<'_>) -> Result<Vec<Rule>> {
    let hint = "docs/gates.md shows one";
    let text = text_of(path, LARGEST_BUDGETS, "budgets", hint)?;
    let wrong = |why| Error::on(Exit::Data, "cannot read the budgets", path).because(why).hint(hint);
    let rules = budgets::parse(&text).map_err(wrong)?;
    let growth = rules.iter().find(|rule| matches!(rule.bound, Bound::Growth(_)));
    match (against, growth) {
        (Against::Nothing, Some(rule)) => Err(Error::on(Exit::Usage, "cannot judge growth by the budgets", path)
            .because(format!("{} may grow, and there is nothing to compare with", rule.metric))
            .hint("name the recording before, or --variants, --baseline or --against")),
        _ => Ok(rules),
    }
}

/// Judges a recording.
///
/// # Errors
/// Files that are no recordings or no baseline; nothing in common; differences that were not allowed.
pub fn judge(recording: &Path, rules: &Rules<'_>) -> Result<GateDocument> {
    document(recording, rules, &load(recording)?, LEVEL)
}

/// Fewest blocks that are added before the next look.
const FEWEST_ADDED: u32 = 3;

/// How runs are added to a recording.
pub struct Adding<'a> {
    /// No block is begun after this time.
    pub budget: Duration,
    /// What the recording's command line means.
    pub plans: &'a dyn Plans,
    /// Somebody who is told of the runs, for each time that some are added.
    pub told: &'a dyn Fn() -> Box<dyn Tell>,
}

/// Looks, and adds half as many blocks as there are, until it is decided or the budget ends. Returns whether it was
/// interrupted.
///
/// # Errors
/// As [`judge`], and all that can go wrong with a program or a machine.
pub fn until_decided(recording: &Path, rules: &Rules<'_>, adding: &Adding<'_>) -> Result<(GateDocument, bool)> {
    let mut judged = load(recording)?;
    let path = std::path::absolute(recording)
        .map_err(|cause| Error::on(Exit::Usage, "cannot find the recording", recording).because(cause))?;
    let began = Instant::now();
    let (mut look, mut interrupted) = (1, false);
    loop {
        let mut found = document(&path, rules, &judged, stats::spend(LEVEL, look))?;
        found.looks = look;
        let left = adding.budget.saturating_sub(began.elapsed());
        if found.verdict.outcome != Outcome::Undecided || left.is_zero() || interrupted {
            return Ok((found, interrupted));
        }
        let pairs = found.verdict.figures.iter().map(|figure| figure.after_runs).min().unwrap_or(0);
        interrupted = more::add(
            &path,
            &judged,
            More { blocks: pairs.div_ceil(2).max(FEWEST_ADDED), budget: left },
            adding.plans,
            (adding.told)(),
        )?;
        judged = load(&path)?;
        look += 1;
    }
}

fn document(recording: &Path, rules: &Rules<'_>, judged: &Loaded, level: f64) -> Result<GateDocument> {
    let (before, after, pairing, mut warnings) = sides(rules, judged)?;
    let differences = match (&before, pairing) {
        (Some(before), Pairing::Independent) => bench::gate::differences(&before.side, &after),
        // Two variants differ on purpose, and nothing else of one recording can.
        _ => Vec::new(),
    };
    refuse(&differences, rules.allowed)?;
    for allowed in &differences {
        let text = format!("the {} differs: {} before, {} after", allowed.name, allowed.before, allowed.after);
        warnings.insert(0, Warning::new(WarningKind::Note, text));
    }
    let wanted = Wanted { rules: rules.judged.to_vec(), level };
    let verdict = bench::gate::decide(before.as_ref().map(|before| &before.side), &after, &wanted, pairing);
    // What no run is about would be passed unseen.
    if let Some(rule) = rules.judged.iter().find(|rule| !verdict.figures.iter().any(|it| rule.asks_for(it))) {
        let is_there = after.series.iter().any(|series| rule.is_about(series));
        return Err(match &before {
            Some(before) if is_there && verdict.figures.is_empty() => before.nothing_in_common(judged),
            Some(before) if is_there => no_such_runs(rule, &before.side, &before.file),
            _ => no_such_runs(rule, &after, &judged.source.file),
        });
    }
    let passes = match verdict.outcome {
        Outcome::Pass => true,
        Outcome::Fail => false,
        Outcome::Undecided => rules.undecided != Undecided::Fail,
    };
    let why = why(recording, rules, before.as_ref().map(|before| &before.side), &after, &verdict);
    Ok(GateDocument {
        schema: "thaw.gate/3",
        before: before.map(|before| before.file),
        after: judged.source.file.clone(),
        verdict,
        looks: 1,
        undecided: rules.undecided,
        passes,
        allowed: differences,
        warnings,
        why,
    })
}

/// Whether it fails, and is the time of a start, or of a part of it that begins with exec.
fn is_late(figure: &FigureVerdict) -> bool {
    figure.outcome == Outcome::Fail && matches!(figure.metric, Metric::Time | Metric::Milestone(_))
}

/// Why starts take longer whose time fails; `None`: none does. What goes wrong here is no matter of the verdict.
fn why(
    recording: &Path,
    rules: &Rules<'_>,
    before: Option<&Baseline>,
    after: &Baseline,
    verdict: &Verdict,
) -> Option<Explained> {
    let has_late = |series: &Series| {
        let of = |figure: &&FigureVerdict| (&figure.variant_name, figure.state) == (&series.variant_name, series.state);
        verdict.figures.iter().filter(of).any(is_late)
    };
    if !after.series.iter().any(has_late) {
        return None;
    }
    let pair = |(old, new): (&Series, &Series)| Pair {
        before: old.variant_name.clone(),
        after: new.variant_name.clone(),
        state: new.state,
    };
    let pairs = before.map(|before| bench::gate::matching(before, after)).unwrap_or_default();
    let pairs: Vec<Pair> = pairs.into_iter().filter(|(_, new)| has_late(new)).map(pair).collect();
    let explained = match rules.against {
        Against::Recording(path) if !pairs.is_empty() => difference::between(path, recording, &pairs),
        Against::Variants(..) => difference::between(recording, recording, &pairs),
        Against::Baseline(path) | Against::History(path) => {
            Ok(Explained::unknown(&format!("{} has figures alone; {RECORD}, then thaw gate BEFORE AFTER", shown(path))))
        }
        Against::Recording(_) | Against::Nothing => difference::of_one(recording),
    };
    Some(explained.unwrap_or_else(|error| Explained::unknown(&error.to_string())))
}

impl GateDocument {
    /// Why a figure that fails does; `None`: it passes, is no time of a start, or that is not known.
    pub fn why_of(&self, figure: &FigureVerdict) -> Option<&StartsDiffer> {
        self.why.as_ref().filter(|_| is_late(figure))?.of(&figure.variant_name, figure.state)
    }
}

fn no_such_runs(rule: &Rule, side: &Baseline, file: &str) -> Error {
    let about = [rule.state.map(|state| state.to_string()), rule.variant.clone()];
    let about: Vec<String> = about.into_iter().flatten().collect();
    let has = side.series.iter().map(|series| format!("{} of {}", series.state, series.variant_name));
    let has = has.collect::<Vec<_>>().join(", ");
    let why = match has.as_str() {
        "" => "it has no timed runs".to_owned(),
        has => format!("the limit of {} is for {}; the runs are {has}", rule.metric, about.join(" of ")),
    };
    Error::new(Exit::Data, "there is nothing to judge in", file)
        .because(why)
        .hint("record these runs, too, or take the limit out")
}

/// What is judged against.
struct Before {
    file: String,
    side: Baseline,
    /// `None`: it is a baseline's file, or the recording itself.
    loaded: Option<Loaded>,
}

impl Before {
    fn nothing_in_common(&self, judged: &Loaded) -> Error {
        match &self.loaded {
            Some(loaded) => nothing_in_common(loaded, judged),
            None => Error::new(Exit::Data, "there is nothing to compare in", &self.file)
                .because(format!("it has no state in common with {}", judged.source.file))
                .hint("record with the same --state, or write the baseline again: --write-baseline"),
        }
    }
}

fn sides(rules: &Rules<'_>, judged: &Loaded) -> Result<(Option<Before>, Baseline, Pairing, Vec<Warning>)> {
    let mut warnings = bench::compare::doubts(Some("after"), &judged.input());
    let all = judged.baseline();
    let before = match rules.against {
        Against::Variants(old, new) => {
            let only = |name: &str| all.only(name).map_err(|_| no_variants(judged, old, new));
            let before = Before { file: judged.source.file.clone(), side: only(old)?, loaded: None };
            let doubts = bench::compare::doubts(None, &judged.input());
            return Ok((Some(before), only(new)?, Pairing::Paired, doubts));
        }
        Against::Nothing => {
            let doubts = bench::compare::doubts(None, &judged.input());
            return Ok((None, all, Pairing::Independent, doubts));
        }
        Against::Baseline(path) => Before { file: shown(path), side: read_baseline(path)?, loaded: None },
        Against::History(path) => {
            Before { file: shown(path), side: crate::histories::baseline(path, judged)?, loaded: None }
        }
        Against::Recording(path) => {
            let loaded = load(path)?;
            warnings.splice(0..0, bench::compare::doubts(Some("before"), &loaded.input()));
            Before { file: shown(path), side: loaded.baseline(), loaded: Some(loaded) }
        }
    };
    Ok((Some(before), all, Pairing::Independent, warnings))
}

/// # Errors
/// A difference that was not allowed.
fn refuse(differences: &[Difference], allowed: &[Kind]) -> Result<()> {
    let is_allowed = |difference: &Difference| allowed.contains(&difference.kind);
    let refused: Vec<&Difference> = differences.iter().filter(|difference| !is_allowed(difference)).collect();
    let Some(first) = refused.first() else { return Ok(()) };
    let what = match first.kind {
        Kind::Program => "these are recordings of different programs",
        Kind::Setup => "these recordings were made in different ways",
        Kind::Machine => "these recordings were made on different machines",
    };
    let named: Vec<String> =
        refused.iter().map(|it| format!("{}: {} before, {} after", it.name, it.before, it.after)).collect();
    let mut kinds: Vec<&str> = refused.iter().map(|it| it.kind.word()).collect();
    kinds.dedup();
    let hint = format!("record both alike, or add --allow {} if it does not matter", kinds.join(","));
    Err(Error::new(Exit::Usage, what, "").because(named.join("; ")).hint(hint))
}

fn read_baseline(path: &Path) -> Result<Baseline> {
    let hint = "write one: thaw gate RECORDING --baseline FILE --write-baseline";
    let text = text_of(path, LARGEST_BASELINE, "baseline", hint)?;
    let cannot = || Error::on(Exit::Data, "cannot read the baseline", path);
    Baseline::parse(&text).map_err(|error| cannot().because(error).hint(hint))
}

/// A small file's text; `what` it should be.
fn text_of(path: &Path, largest: u64, what: &str, hint: &str) -> Result<String> {
    let cannot = || Error::on(Exit::Data, format!("cannot read the {what}"), path);
    let file = os::file::open_regular(path).map_err(|error| cannot().because(error).hint(hint))?;
    let size = file.metadata().map_err(|error| cannot().because(error))?.len();
    if size > largest {
        return Err(cannot().because(format!("it has {size} bytes, which is more than it can be")).hint(hint));
    }
    std::io::read_to_string(file).map_err(|error| cannot().because(error).hint(hint))
}

/// Writes a recording's figures as a baseline; returns how many runs they are of, and the recording's file. Replaces
/// only what is a baseline.
///
/// # Errors
/// No recording, or none with timed runs; a file that is something else.
pub fn write_baseline(path: &Path, recording: &Path) -> Result<(usize, String)> {
    let judged = load(recording)?;
    let baseline = judged.baseline();
    if baseline.series.is_empty() {
        return Err(Error::new(Exit::Data, "there is no timed run in", &judged.source.file).hint("record some runs"));
    }
    if std::fs::symlink_metadata(path).is_ok() && read_baseline(path).is_err() {
        return Err(Error::on(Exit::Usage, "will not replace", path)
            .because("it is no baseline of thaw")
            .hint("choose another name with --baseline FILE"));
    }
    let mut text = serde_json::to_string_pretty(&baseline).map_err(|error| Error::bug(error.to_string()))?;
    text.push('\n');
    os::replace::write_whole(path, text.as_bytes(), Rights::Usual, Existing::Replace)?;
    let runs: usize = baseline.series.iter().map(|series| series.blocks.len()).sum();
    Ok((runs, judged.source.file))
}

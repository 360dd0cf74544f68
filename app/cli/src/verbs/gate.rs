//! `thaw gate`: may this change go in?

use super::compare::{load, no_variants, nothing_in_common};
use crate::args::compare::{Allow, GateArgs, Undecided};
use crate::progress::Progress;
use crate::{output, plan, text};
use bench::gate::{Baseline, Difference, Kind, LEVEL, Outcome, Verdict, Wanted};
use model::{Error, Exit, Result, Warning, WarningKind, shown};
use os::replace::{Existing, Rights};
use serde::Serialize;
use stats::Pairing;
use std::path::Path;
use std::time::Instant;
use work::record::more::{self, More};
use work::recorded::Loaded;

/// A baseline in a repository is small; what is larger is none.
const LARGEST_BASELINE: u64 = 16 << 20;

/// `thaw.gate/2`
#[derive(Serialize)]
pub struct GateDocument {
    schema: &'static str,
    /// File of the recording or baseline before.
    pub before: String,
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
}

/// Prints the verdict; [`Exit::No`] if a figure fails, or if it is undecided and that is not allowed.
///
/// # Errors
/// Files that are no recordings or no baseline; nothing in common; differences that were not allowed.
pub fn run(args: &GateArgs, quiet: bool) -> Result<Exit> {
    let judged = load(args.after.as_ref().unwrap_or(&args.before))?;
    if let (Some(path), true) = (&args.baseline, args.write_baseline) {
        return write_baseline(path, &judged);
    }
    let (document, interrupted) = match args.until_decided {
        true => until_decided(args, judged, quiet)?,
        false => (document(args, &judged, LEVEL)?, false),
    };
    if args.json {
        output::json(&document)?;
    } else if args.markdown {
        output::bytes(text::gate::markdown(&document).as_bytes())?;
    } else {
        output::page(&text::gate::page(&document, text::width::of_terminal()))?;
    }
    if document.verdict.outcome == Outcome::Undecided && args.undecided == Undecided::Warn {
        let hint = "record more runs, or choose another --max-regression";
        output::complain(&text::errors::warning_line("the gate is undecided", Some(hint)));
    }
    Ok(match document.passes {
        _ if interrupted => Exit::Interrupted,
        true => Exit::Done,
        false => Exit::No,
    })
}

/// Fewest blocks that are added before the next look.
const FEWEST_ADDED: u32 = 3;

/// Looks, and adds half as many blocks as there are, until it is decided or the budget ends. Returns whether it was
/// interrupted.
fn until_decided(args: &GateArgs, judged: Loaded, quiet: bool) -> Result<(GateDocument, bool)> {
    let path = std::path::absolute(&args.before)
        .map_err(|cause| Error::on(Exit::Usage, "cannot find the recording", &args.before).because(cause))?;
    let began = Instant::now();
    let (mut judged, mut look, mut interrupted) = (judged, 1, false);
    loop {
        let mut found = document(args, &judged, stats::spend(LEVEL, look))?;
        found.looks = look;
        let left = args.budget.saturating_sub(began.elapsed());
        if found.verdict.outcome != Outcome::Undecided || left.is_zero() || interrupted {
            return Ok((found, interrupted));
        }
        let pairs = found.verdict.figures.iter().map(|figure| figure.before_runs).min().unwrap_or(0);
        interrupted = more::add(
            &path,
            &judged,
            More { blocks: pairs.div_ceil(2).max(FEWEST_ADDED), budget: left },
            &plan::planned,
            Box::new(Progress::new(quiet)),
        )?;
        judged = load(&path)?;
        look += 1;
    }
}

fn document(args: &GateArgs, judged: &Loaded, level: f64) -> Result<GateDocument> {
    let (before, after, pairing, mut warnings) = sides(args, judged)?;
    let differences = match pairing {
        Pairing::Independent => bench::gate::differences(&before.side, &after),
        // Two variants differ on purpose, and nothing else of one recording can.
        Pairing::Paired => Vec::new(),
    };
    refuse(&differences, &args.allow)?;
    for allowed in &differences {
        let text = format!("the {} differs: {} before, {} after", allowed.name, allowed.before, allowed.after);
        warnings.insert(0, Warning::new(WarningKind::Note, text));
    }
    let limit = |own: Option<f64>| own.unwrap_or(args.max_regression);
    let metrics = args.metric.iter().map(|(metric, own)| (metric.clone(), limit(*own))).collect();
    let verdict = bench::gate::decide(&before.side, &after, &Wanted { metrics, level }, pairing);
    if verdict.figures.is_empty() {
        return Err(before.nothing_in_common(judged));
    }
    let passes = match verdict.outcome {
        Outcome::Pass => true,
        Outcome::Fail => false,
        Outcome::Undecided => args.undecided != Undecided::Fail,
    };
    Ok(GateDocument {
        schema: "thaw.gate/2",
        before: before.file,
        after: judged.source.file.clone(),
        verdict,
        looks: 1,
        undecided: args.undecided,
        passes,
        allowed: differences,
        warnings,
    })
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

fn sides(args: &GateArgs, judged: &Loaded) -> Result<(Before, Baseline, Pairing, Vec<Warning>)> {
    let all = judged.baseline();
    let file = |path: &Path| shown(path);
    if let Some((old, new)) = &args.variants {
        let only = |name: &str| all.only(name).map_err(|_| no_variants(judged, old, new));
        let before = Before { file: judged.source.file.clone(), side: only(old)?, loaded: None };
        return Ok((before, only(new)?, Pairing::Paired, bench::compare::doubts(None, &judged.input())));
    }
    let mut warnings = bench::compare::doubts(Some("after"), &judged.input());
    let before = match &args.baseline {
        Some(path) => Before { file: file(path), side: read_baseline(path)?, loaded: None },
        None => {
            let loaded = load(&args.before)?;
            warnings.splice(0..0, bench::compare::doubts(Some("before"), &loaded.input()));
            Before { file: file(&args.before), side: loaded.baseline(), loaded: Some(loaded) }
        }
    };
    Ok((before, all, Pairing::Independent, warnings))
}

/// # Errors
/// A difference that was not allowed.
fn refuse(differences: &[Difference], allowed: &[Allow]) -> Result<()> {
    let kind = |allow: &Allow| match allow {
        Allow::Program => Kind::Program,
        Allow::Setup => Kind::Setup,
        Allow::Machine => Kind::Machine,
    };
    let is_allowed = |difference: &Difference| allowed.iter().any(|allow| kind(allow) == difference.kind);
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
    let cannot = || Error::on(Exit::Data, "cannot read the baseline", path);
    let hint = "write one: thaw gate RECORDING --baseline FILE --write-baseline";
    let file = os::file::open_regular(path).map_err(|error| cannot().because(error).hint(hint))?;
    let size = file.metadata().map_err(|error| cannot().because(error))?.len();
    if size > LARGEST_BASELINE {
        return Err(cannot().because(format!("it has {size} bytes, which is no baseline")).hint(hint));
    }
    let text = std::io::read_to_string(file).map_err(|error| cannot().because(error).hint(hint))?;
    Baseline::parse(&text).map_err(|error| cannot().because(error).hint(hint))
}

/// Replaces only what is a baseline.
fn write_baseline(path: &Path, judged: &Loaded) -> Result<Exit> {
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
    let runs = text::units::plural(runs as u64, "run", "runs");
    output::bytes(format!("{}: the figures of {runs} of {}\n", shown(path), judged.source.file).as_bytes())?;
    Ok(Exit::Done)
}

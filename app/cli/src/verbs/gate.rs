//! `thaw gate`: may this change go in?

use crate::args::compare::{Allow, GateArgs, Undecided as Typed};
use crate::plan::FromWords;
use crate::progress::Progress;
use crate::{output, text};
use bench::gate::{Kind, Outcome};
use model::{Exit, Result, shown};
use std::path::PathBuf;
use work::gate::{self, Adding, Against, GateDocument, Rules, Undecided};

/// Prints the verdict; [`Exit::No`] if a figure fails, or if it is undecided and that is not allowed.
///
/// # Errors
/// Files that are no recordings or no baseline; nothing in common; differences that were not allowed.
pub fn run(args: &GateArgs, quiet: bool) -> Result<Exit> {
    let judged = args.after.as_ref().unwrap_or(&args.before);
    if let (Some(path), true) = (&args.baseline, args.write_baseline) {
        let (runs, recording) = gate::write_baseline(path, judged)?;
        let runs = text::units::plural(runs as u64, "run", "runs");
        output::bytes(format!("{}: the figures of {runs} of {recording}\n", shown(path)).as_bytes())?;
        return Ok(Exit::Done);
    }
    let existing = args.force.existing();
    let files = [&args.junit, &args.export_bencher, &args.export_github_benchmark, &args.export_perfherder];
    files.into_iter().flatten().try_for_each(|path| os::replace::check(path, existing))?;
    let allowed: Vec<Kind> = args.allow.iter().map(kind).collect();
    let against = against(args);
    let wanted = match &args.budgets {
        Some(path) => gate::budgets(path, &against)?,
        None => gate::growing(&args.metric, args.max_regression),
    };
    let rules = Rules { against, judged: &wanted, undecided: undecided(args), allowed: &allowed };
    let (document, interrupted) = match args.until_decided {
        true => {
            let told = Progress::telling(quiet);
            gate::until_decided(judged, &rules, &Adding { budget: args.budget, plans: &FromWords, told: &told })?
        }
        false => (gate::judge(judged, &rules)?, false),
    };
    forms(args, &document)?;
    if args.json {
        output::json(&document)?;
    } else if args.markdown {
        output::bytes(text::gate::markdown(&document).as_bytes())?;
    } else {
        output::page(&text::gate::page(&document, text::width::of_terminal()))?;
    }
    if args.annotations.is_some() {
        // stdout may go into the summary of the job; the log of the job has stderr too.
        output::complain(&text::gate_forms::annotations(&document));
    }
    if document.verdict.outcome == Outcome::Undecided && document.undecided == Undecided::Warn {
        let hint = "record more runs, or choose another --max-regression";
        output::complain(&text::errors::warning_line("the gate is undecided", Some(hint)));
    }
    Ok(match document.passes {
        _ if interrupted => Exit::Interrupted,
        true => Exit::Done,
        false => Exit::No,
    })
}

/// Writes the verdict and its figures for other programs.
fn forms(args: &GateArgs, document: &GateDocument) -> Result<()> {
    let put = |path: &Option<PathBuf>, make: &dyn Fn() -> Result<Vec<u8>>| match path {
        Some(path) => output::file(path, &make()?, args.force.existing()),
        None => Ok(()),
    };
    put(&args.junit, &|| Ok(text::gate_forms::junit(document).into_bytes()))?;
    put(&args.export_bencher, &|| output::json_text(&text::gate_forms::bencher(document)))?;
    put(&args.export_github_benchmark, &|| output::json_text(&text::gate_forms::github_benchmark(document)))?;
    put(&args.export_perfherder, &|| Ok(text::gate_forms::perfherder_line(document).into_bytes()))
}

fn against(args: &GateArgs) -> Against<'_> {
    match (&args.variants, &args.baseline, &args.against, &args.after) {
        (Some((old, new)), ..) => Against::Variants(old, new),
        (None, Some(path), ..) => Against::Baseline(path),
        (None, None, Some(history), _) => Against::History(history),
        (None, None, None, Some(_)) => Against::Recording(&args.before),
        (None, None, None, None) => Against::Nothing,
    }
}

fn undecided(args: &GateArgs) -> Undecided {
    match args.undecided {
        Typed::Fail => Undecided::Fail,
        Typed::Warn => Undecided::Warn,
        Typed::Pass => Undecided::Pass,
    }
}

fn kind(allow: &Allow) -> Kind {
    match allow {
        Allow::Program => Kind::Program,
        Allow::Setup => Kind::Setup,
        Allow::Machine => Kind::Machine,
    }
}

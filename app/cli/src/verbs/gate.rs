//! `thaw gate`: may this change go in?

use crate::args::compare::{Allow, GateArgs, Undecided as Typed};
use crate::plan::FromWords;
use crate::progress::Progress;
use crate::{output, text};
use bench::gate::{Kind, Outcome};
use model::{Exit, Result, shown};
use work::gate::{self, Adding, Against, Rules, Undecided};

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
    let allowed: Vec<Kind> = args.allow.iter().map(kind).collect();
    let rules = rules(args, &allowed);
    let (document, interrupted) = match args.until_decided {
        true => {
            let told = Progress::telling(quiet);
            gate::until_decided(judged, &rules, &Adding { budget: args.budget, plans: &FromWords, told: &told })?
        }
        false => (gate::judge(judged, &rules)?, false),
    };
    if args.json {
        output::json(&document)?;
    } else if args.markdown {
        output::bytes(text::gate::markdown(&document).as_bytes())?;
    } else {
        output::page(&text::gate::page(&document, text::width::of_terminal()))?;
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

fn rules<'a>(args: &'a GateArgs, allowed: &'a [Kind]) -> Rules<'a> {
    Rules {
        against: match (&args.variants, &args.baseline) {
            (Some((old, new)), _) => Against::Variants(old, new),
            (None, Some(path)) => Against::Baseline(path),
            (None, None) => Against::Recording(&args.before),
        },
        max_regression: args.max_regression,
        metrics: &args.metric,
        undecided: match args.undecided {
            Typed::Fail => Undecided::Fail,
            Typed::Warn => Undecided::Warn,
            Typed::Pass => Undecided::Pass,
        },
        allowed,
    }
}

fn kind(allow: &Allow) -> Kind {
    match allow {
        Allow::Program => Kind::Program,
        Allow::Setup => Kind::Setup,
        Allow::Machine => Kind::Machine,
    }
}

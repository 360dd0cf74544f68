//! `thaw frag`: in how many pieces files lie, and putting them together.

use crate::args::frag::FragArgs;
use crate::progress::Progress;
use crate::{output, text};
use disk::model::{Kind, Model};
use disk::preset::Presets;
use layout::frag::{Outcome, Refused, Survey, fix, measure};
use model::{Bytes, Error, Exit, Nanos, Result};
use serde::Serialize;
use std::sync::Mutex;
use work::progress::Tell;

/// `thaw.frag/1`
#[derive(Serialize)]
pub struct FragDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The disk whose jumps are counted.
    pub disk: String,
    /// What was seen, after `--fix` too.
    #[serde(flatten)]
    pub survey: Survey,
    /// What `--fix` did with each scattered file.
    pub fixed: Option<Vec<FixOutcome>>,
}

/// What became of a file.
#[derive(Serialize)]
#[serde(untagged)]
pub enum FixOutcome {
    /// It was put together, or left alone.
    Tried(Outcome),
    /// It could not be worked on.
    Failed {
        /// Why.
        error: String,
    },
}

/// Looks, mends if asked, and says what was found.
///
/// # Errors
/// A path that is not there; an unknown disk.
pub fn run(args: &FragArgs, quiet: bool) -> Result<Exit> {
    for path in &args.paths {
        path.metadata().map_err(|cause| Error::on(Exit::Usage, "cannot look at", path).because(cause))?;
    }
    os::interrupt::install()?;
    let presets = Presets::builtin();
    let model = &presets.get(&args.disk)?.model;
    let progress = Mutex::new(Progress::new(quiet));
    let show = |done, of, what| progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).files(done, of, what);
    let look = || measure(&args.paths, &|distance| jump(model, distance), &|now| show(now.done, now.of, "looked at"));
    let mut survey = look();
    let fixed = args.fix.then(|| {
        let scattered = survey.files.iter().filter(|file| file.pieces > 1);
        let paths: Vec<_> = scattered.map(|file| file.path.clone()).collect();
        let mut outcomes = Vec::new();
        for (done, path) in paths.iter().enumerate() {
            if os::interrupt::requested() {
                break;
            }
            show(done as u64, paths.len() as u64, "put together");
            outcomes.push(match fix(path) {
                Ok(outcome) => FixOutcome::Tried(outcome),
                Err(error) => FixOutcome::Failed { error: error.to_string() },
            });
        }
        outcomes
    });
    if fixed.is_some() && !os::interrupt::requested() {
        survey = look();
    }
    let document = FragDocument { schema: "thaw.frag/1", disk: model.name.clone(), survey, fixed };
    progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).done();
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::frag::page(&document, args.rows.most(), text::width::of_terminal()))?;
    }
    Ok(exit(&document))
}

fn exit(document: &FragDocument) -> Exit {
    let left_alone = |outcome: &FixOutcome| match outcome {
        FixOutcome::Tried(Outcome::Fixed(_)) => false,
        FixOutcome::Tried(Outcome::Refused(refusal)) => refusal.kind != Refused::NoGain,
        FixOutcome::Failed { .. } => true,
    };
    match &document.fixed {
        _ if os::interrupt::requested() => Exit::Interrupted,
        Some(outcomes) if outcomes.iter().any(left_alone) => Exit::No,
        _ => Exit::Done,
    }
}

/// What it costs to go on so many bytes away, without the transfer.
fn jump(model: &Model, distance: Bytes) -> Nanos {
    match &model.kind {
        Kind::Rotating(arm) => model.overhead + arm.seek.time(distance.0, model.capacity.0) + arm.half_turn,
        Kind::Flash(chips) => chips.latency - chips.next_latency,
    }
}

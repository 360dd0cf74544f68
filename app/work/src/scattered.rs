//! In how many pieces files lie, what that costs on a disk, and putting them together.

use disk::model::{Kind, Model};
use disk::preset::Presets;
use layout::frag::{Outcome, Refused, Survey, fix, measure};
use model::{Bytes, Error, Exit, Nanos, Result};
use serde::Serialize;
use std::path::PathBuf;

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

/// What is done with files that lie in several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// They are counted.
    Counted,
    /// They are put together.
    Joined,
}

/// Looks at files, and puts them together if that is asked for; the exit code is [`Exit::No`] if one of them stays as
/// it is.
/// `told` hears how many files are done, and what is done with them, from several threads.
///
/// # Errors
/// A path that is not there; an unknown disk.
pub fn run(
    paths: &[PathBuf],
    disk: &str,
    pieces: Pieces,
    told: &(dyn Fn(u64, u64, &'static str) + Sync),
) -> Result<(FragDocument, Exit)> {
    for path in paths {
        path.metadata().map_err(|cause| Error::on(Exit::Usage, "cannot look at", path).because(cause))?;
    }
    os::interrupt::install()?;
    let presets = Presets::builtin();
    let model = &presets.get(disk)?.model;
    let look = || measure(paths, &|distance| jump(model, distance), &|now| told(now.done, now.of, "looked at"));
    let mut survey = look();
    let fixed = (pieces == Pieces::Joined).then(|| {
        let scattered = survey.files.iter().filter(|file| file.pieces > 1);
        let paths: Vec<_> = scattered.map(|file| file.path.clone()).collect();
        let mut outcomes = Vec::new();
        for (done, path) in paths.iter().enumerate() {
            if os::interrupt::requested() {
                break;
            }
            told(done as u64, paths.len() as u64, "put together");
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
    let exit = exit(&document);
    Ok((document, exit))
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

//! More blocks for a recording that is there: of the same programs, in the same states, made as its command line says.

use super::sink::{EngineTracer, Recorder};
use super::stage::Stage;
use super::{check_states, open_engine, warm_up};
use crate::document::Loaded;
use crate::progress::Progress;
use crate::verbs::optimize::source::planned;
use bench::conduct::{End, conduct};
use bench::record::Lab;
use model::{Error, Exit, Result};
use recording::{Reader, Writer};
use std::path::Path;
use std::time::Duration;

/// Adds at most `blocks` blocks, and begins none after `budget`. Returns whether it was interrupted.
///
/// # Errors
/// A recording on a simulated disk, or one whose command line is not understood any more; everything that can go wrong
/// with a program or a machine. What was finished is in the recording.
pub fn add(recording: &Path, loaded: &Loaded, blocks: u32, budget: Duration, quiet: bool) -> Result<bool> {
    let path = std::path::absolute(recording)
        .map_err(|cause| Error::on(Exit::Usage, "cannot add to the recording", recording).because(cause))?;
    let header = Reader::open(&path)?.header()?;
    std::env::set_current_dir(&header.cwd).map_err(|cause| {
        Error::on(Exit::Data, "cannot go to where it was recorded:", &header.cwd).because(cause).hint("record it again")
    })?;
    let mut plan = planned(recording, &header)?;
    if plan.disk.is_some() {
        return Err(Error::on(Exit::Usage, "no runs can be added to a recording from a simulated disk:", recording)
            .hint("record it again with more --runs"));
    }
    let first_block = loaded.starts.next_block();
    plan.output = path.clone();
    plan.lab.recording = Some(path.clone());
    plan.schedule.first_block = first_block;
    plan.schedule.blocks = blocks;
    plan.schedule.budget = Some(budget);
    (plan.schedule.precision, plan.schedule.trace_runs) = (None, 0);
    // Another order than that of the blocks before, and the same whenever it is repeated.
    plan.schedule.seed = loaded.source.seed.wrapping_add(u64::from(first_block));

    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    check_states(&plan.schedule.states)?;
    let mut progress = Progress::new(quiet);
    let stage = Stage::set(&plan)?;
    warm_up(&stage, &mut progress)?;
    let (mut lab, warnings) = Lab::open(stage.programs.clone(), stage.lab.clone())?;
    let (engine, _) = open_engine(&plan, &stage)?;
    let writer = Writer::open(&path)?;
    let (mut tracer, seen) = EngineTracer::new(engine);
    let mut recorder = Recorder::new(writer, seen, &stage, progress);
    recorder.warn_all(warnings)?;
    let conducted = conduct(&plan.schedule, &mut lab, &mut recorder, Some(&mut tracer));
    let stays = lab.close();
    let ended = recorder.end(&stays, false);
    let summary = conducted?;
    ended?;
    Ok(summary.end == End::Interrupted)
}

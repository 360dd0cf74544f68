//! More blocks for a recording that is there: of the same programs, in the same states, made as its command line says.

use crate::plan::Plans;
use crate::progress::Tell;
use crate::recorded::Loaded;
use crate::start::head::{check_states, open_engine, warm_up};
use crate::start::sink::{EngineTracer, Recorder};
use crate::start::stage::Stage;
use bench::conduct::{End, conduct};
use bench::record::Lab;
use model::{Error, Exit, Result};
use recording::{Reader, Writer};
use std::path::Path;
use std::time::Duration;

/// How much is added.
#[derive(Clone, Copy, Debug)]
pub struct More {
    /// At most so many blocks.
    pub blocks: u32,
    /// None is begun after this time.
    pub budget: Duration,
}

/// Adds blocks; `plans` says how the recording was made. Returns whether it was interrupted.
///
/// # Errors
/// A recording on a simulated disk, or one whose command line is not understood any more; everything that can go wrong
/// with a program or a machine. What was finished is in the recording.
pub fn add(
    recording: &Path,
    loaded: &Loaded,
    more: More,
    plans: &dyn Plans,
    mut progress: Box<dyn Tell>,
) -> Result<bool> {
    let path = std::path::absolute(recording)
        .map_err(|cause| Error::on(Exit::Usage, "cannot add to the recording", recording).because(cause))?;
    let header = Reader::open(&path)?.header()?;
    std::env::set_current_dir(&header.cwd).map_err(|cause| {
        Error::on(Exit::Data, "cannot go to where it was recorded:", &header.cwd).because(cause).hint("record it again")
    })?;
    let mut plan = plans.of_recording(recording, &header)?;
    if plan.disk.is_some() {
        return Err(Error::on(Exit::Usage, "no runs can be added to a recording from a simulated disk:", recording)
            .hint("record it again with more --runs"));
    }
    let first_block = loaded.starts.next_block();
    plan.output = path.clone();
    plan.lab.recording = Some(path.clone());
    plan.schedule.first_block = first_block;
    plan.schedule.blocks = more.blocks;
    plan.schedule.budget = Some(more.budget);
    (plan.schedule.precision, plan.schedule.trace_runs) = (None, 0);
    // Another order than that of the blocks before, and the same whenever it is repeated.
    plan.schedule.seed = loaded.source.seed.wrapping_add(u64::from(first_block));

    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    check_states(&plan.schedule.states)?;
    let stage = Stage::set(&plan)?;
    warm_up(&stage, &mut *progress)?;
    let (mut lab, warnings) = Lab::open(stage.programs.clone(), stage.lab.clone())?;
    let (engine, _) = open_engine(&plan, &stage)?;
    let writer = Writer::open(&path)?;
    let (mut tracer, seen) = EngineTracer::new(engine, None, None);
    let mut recorder = Recorder::new(writer, seen, &stage, progress);
    recorder.warn_all(warnings)?;
    let conducted = conduct(&plan.schedule, &mut lab, &mut recorder, Some(&mut tracer));
    let stays = lab.close();
    let ended = recorder.end(&stays, false);
    let summary = conducted?;
    ended?;
    Ok(summary.end == End::Interrupted)
}

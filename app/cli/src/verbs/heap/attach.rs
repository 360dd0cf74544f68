//! `thaw heap attach`: recording a program that is running already.

use crate::args::heap::AttachArgs;
use model::{Exit, Result};

/// Records until the program ends, the time is over, or Ctrl-C.
///
/// # Errors
/// The process cannot be attached to: it goes on as it was.
#[cfg(target_arch = "x86_64")]
pub fn attach(args: &AttachArgs, quiet: bool) -> Result<Exit> {
    use crate::progress::Progress;
    use crate::text;
    use heaprec::attach::Plan;
    use heaprec::record::{Existing, FreeStacks, Functions, Keep, Phase, Sample};
    use std::time::Instant;
    use work::heaps::conclude::{Early, Streams};
    use work::progress::Tell;

    os::interrupt::install()?;
    let thaw = work::own::file()?;
    let plan = Plan {
        pid: args.pid(),
        output: args.output.clone(),
        existing: if args.force { Existing::Replace } else { Existing::Keep },
        seconds: args.seconds,
        depth: args.depth,
        frees: if args.free_stacks { FreeStacks::With } else { FreeStacks::Without },
        functions: if args.native_stacks { Functions::Native } else { Functions::Interpreted },
        sample: args.sample.map(|bytes| Sample { bytes: bytes.0, seed: None }),
        keep: if args.aggregate { Keep::Sums { ahead: Keep::AHEAD } } else { Keep::Events },
        states: args.states.states(),
        agent: heaprec::guest::find(&thaw)?,
    };
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let mut early = if args.aggregate { None } else { Some(Early::new()) };
    let ahead = early.as_mut().map(|early| &mut early.ahead);
    heaprec::attach::run_ahead(&plan, env!("CARGO_PKG_VERSION"), ahead, &mut |phase| {
        let what = match phase {
            Phase::Running(pid) => text::heap::recording(pid, args.seconds),
            _ => "reading the recording".into(),
        };
        progress.note(&what, began.elapsed());
    })?;
    let streams = early.map_or(Streams::Stay, Streams::Finish);
    let form = if args.json { super::Form::Json } else { super::Form::Text };
    super::conclude(&plan.output, &mut progress, began, args.leaks, form, streams)?;
    work::heaps::hand_over(&plan.output)?;
    Ok(Exit::Done)
}

#[cfg(not(target_arch = "x86_64"))]
pub fn attach(_: &AttachArgs, _: bool) -> Result<Exit> {
    Err(model::Error::new(Exit::Machine, "heap recording works on x86-64 only so far", std::env::consts::ARCH))
}

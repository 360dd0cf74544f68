//! Commands around the starts of a program: what makes its world before them, and tidies it after them.
//!
//! They are started as the program is (its user, environment, directory, control group, the files that lie over others
//! for it) and end before anything goes on; what they leave running is ended. They are never measured, and a slow disk
//! is not slow for them.

use crate::conduct::with_tail;
pub use crate::program::Around;
use crate::program::Program;
use crate::start::{self, Which};
use crate::states::Beat;
use model::{CacheState, Error, Exit, Result, RunKind};
use os::cgroup::RunCgroup;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// As long as anybody could want a build to take; Ctrl-C ends it.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// One of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Setup,
    Prepare,
    Conclude,
    Cleanup,
}

impl Command {
    pub fn of(self, around: &Around) -> Option<&OsString> {
        match self {
            Self::Setup => around.setup.as_ref(),
            Self::Prepare => around.prepare.as_ref(),
            Self::Conclude => around.conclude.as_ref(),
            Self::Cleanup => around.cleanup.as_ref(),
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Setup => "--setup",
            Self::Prepare => "--prepare",
            Self::Conclude => "--conclude",
            Self::Cleanup => "--cleanup",
        }
    }
}

/// Runs this line of a program, and has what it wrote written out: dirty pages cannot be evicted, and writing
/// them must not fall into a run.
///
/// # Errors
/// It failed; interrupted, unless the beat goes on to the end.
pub(crate) fn run(
    program: &Program,
    variant: u32,
    (which, line): (Command, &OsStr),
    cgroup: Option<&Rc<RunCgroup>>,
    beat: &mut Beat<'_>,
) -> Result<()> {
    let shell = program.around.shell.clone().unwrap_or_else(|| PathBuf::from("/bin/sh"));
    let argv = [shell.into_os_string(), "-c".into(), line.to_owned()];
    let plain = Program::new(which.option(), argv);
    let started = Program {
        name: plain.name,
        argv: plain.argv,
        ready: plain.ready,
        success: plain.success,
        output: plain.output,
        // After Ctrl-C nobody waits longer than for the program itself.
        timeout: if beat.listens() { LONG } else { program.timeout },
        ..program.clone()
    };
    let run = Which { variant, state: CacheState::Hot, kind: RunKind::Warmup };
    let outcome = start::start(&started, run, cgroup, None, None, beat)?;
    rustix::fs::sync();
    let Some(why) = outcome.row.rejected_because else { return Ok(()) };
    let text = format!("the command of {} for {} failed:", which.option(), program.name);
    Err(Error::new(Exit::Target, text, line.to_string_lossy())
        .because(with_tail(why, &outcome.output_tail))
        .hint("run it by hand, in the same directory and as the same user"))
}

//! Starts a program, watches it, and leaves nothing of it behind.

use super::session::Session;
use super::{Start, Watched};
use model::{Error, Exit, Result};
use os::spawn::{Launch, spawn_gated};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Until when to watch.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// Until main of the first program that has one; a script's is its interpreter's.
    Main,
    /// Until this says so, asked about a hundred times a second, or the program ends: libraries that are loaded later
    /// are seen too, and programs that a script executes.
    Enough(&'a (dyn Fn() -> bool + Sync)),
}

impl std::fmt::Debug for Until<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Main => "Main",
            Self::Enough(_) => "Enough",
        })
    }
}

/// Starts a program under watch, at most for a while. At the end of the watch it is killed with its children and
/// theirs. (Whose parent has ended meanwhile is found by nobody: [`Launch::cgroups`] hold such ones.)
///
/// # Errors
/// It cannot be started, or not be traced (Yama, a container); interrupted.
pub fn watch(launch: Launch, until: Until<'_>, at_most: Duration) -> Result<Watched> {
    // The tracer is a thread, and the program dies with the one that started it.
    os::ptrace::apart(|| watch_here(launch, until, at_most))
}

fn watch_here(launch: Launch, until: Until<'_>, at_most: Duration) -> Result<Watched> {
    let program = launch.argv.first().map(PathBuf::from).unwrap_or_default();
    let gated = spawn_gated(launch)?;
    let pid = gated.pid();
    let mut session =
        Session::of(pid, matches!(until, Until::Main)).map_err(|cause| cannot(&program).because(cause))?;
    let (timed_out, killed) = (AtomicBool::new(false), AtomicBool::new(false));
    let (over, ended) = channel();
    let (followed, running) = std::thread::scope(|scope| {
        let (late, killed) = (&timed_out, &killed);
        scope.spawn(move || guard(pid, until, at_most, &ended, late, killed));
        // Opening the gate waits for exec, at which this thread stops the program.
        let release = scope.spawn(|| gated.release());
        let followed = session.run();
        session.kill();
        drop(over);
        (followed, release.join())
    });
    let running = running.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    os::interrupt::check()?;
    let timed_out = timed_out.into_inner();
    let code = match running {
        Ok(mut running) => running.wait()?.code,
        // It was killed before its exec, and then cannot be started.
        Err(_) if killed.into_inner() => None,
        Err(error) => return Err(error),
    };
    followed.map_err(|cause| cannot(&program).because(cause))?;
    let (starts, cost) = session.finish();
    Ok(Watched { starts, cost, timed_out, code })
}

fn cannot(program: &Path) -> Error {
    Error::on(Exit::Machine, "cannot watch the loader of", program)
        .hint("a container may forbid ptrace: allow it (CAP_SYS_PTRACE); `thaw doctor` says what this machine can do")
}

/// Ends the program when it is time, so that the tracer, which waits for it, need not look at a clock.
fn guard(
    pid: u32,
    until: Until<'_>,
    at_most: Duration,
    ended: &Receiver<()>,
    timed_out: &AtomicBool,
    killed: &AtomicBool,
) {
    let began = Instant::now();
    while ended.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
        let late = began.elapsed() >= at_most;
        timed_out.store(late, Ordering::Relaxed);
        let enough = matches!(until, Until::Enough(enough) if enough());
        if late || enough || os::interrupt::requested() {
            killed.store(true, Ordering::Relaxed);
            os::tracer::kill_with_descendants(pid);
            return;
        }
    }
}

impl Watched {
    /// Those starts that were seen.
    pub fn loaded(&self) -> impl Iterator<Item = &super::Loaded> {
        self.starts.iter().filter_map(|start| match start {
            Start::Loaded(loaded) => Some(&**loaded),
            Start::Unknown { .. } => None,
        })
    }
}

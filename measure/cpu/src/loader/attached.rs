//! Watches a program that somebody else starts, waits for and ends: the lab, which does that in the same way for every
//! run.

use super::session::Session;
use super::{Start, Watched};
use model::loader::Cost;
use model::{Error, Exit, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

/// A program under watch, by a thread of its own: a tracer is a thread, and the one that starts the program has to wait
/// for its readiness. If that thread fails, the kernel kills the program.
#[derive(Debug)]
pub struct Attached {
    pid: u32,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<(Vec<Start>, Cost)>>,
}

impl Attached {
    /// Begins with a process that waits at its gate.
    ///
    /// # Errors
    /// It may not be traced (Yama, a container), or somebody else traces it.
    pub fn to(pid: u32) -> Result<Self> {
        let enough = Arc::new(AtomicBool::new(false));
        let (seized, told) = channel();
        let until = enough.clone();
        let thread = std::thread::spawn(move || {
            let mut session = Session::of(pid, false)?.until(until);
            // Nobody listens any more: then the process is ended, which is told here too.
            let _ = seized.send(());
            session.run()?;
            Ok(session.finish())
        });
        if told.recv().is_ok() {
            return Ok(Self { pid, enough, thread });
        }
        Err(failed(pid, thread.join().map(|seen| seen.err())))
    }

    /// It is ready: initialisers that begin from now on are of no interest. The program goes on under watch until it
    /// ends, so that it can be asked to end as any other.
    pub fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// What was seen. To be called when the program has ended or is being killed: this waits for its end.
    ///
    /// # Errors
    /// The kernel did not allow something.
    pub fn finish(self) -> Result<Watched> {
        match self.thread.join() {
            Ok(Ok((starts, cost))) => Ok(Watched { starts, cost, timed_out: false, code: None }),
            seen => Err(failed(self.pid, seen.map(|seen| seen.err()))),
        }
    }
}

fn failed(pid: u32, why: std::thread::Result<Option<io::Error>>) -> Error {
    match why {
        Ok(cause) => {
            let error = Error::new(Exit::Machine, "cannot watch the loader of process", pid)
                .hint("a container may forbid ptrace: allow it (CAP_SYS_PTRACE), or leave this out: --no-loader");
            cause.into_iter().fold(error, Error::because)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

//! The process that traces. It is not thaw itself, because who waits for a program's stops would also be handed the
//! program's end, which thaw waits for (see "Ptrace and the real parent" in ptrace(2)).
//!
//! It talks over a socket, its standard input, in lines of JSON: [`Ask`] comes in, [`Answer`] goes out: first what is
//! to be made ready, if anything, then whom to attach, last that it shall stop and say what was seen. It serves its
//! tracees until they are gone, and if thaw ends, it ends, and they with it.

use super::library::Library;
use super::seen::Seen;
use super::tracer::Tracer;
use os::tracee::Waited;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What thaw asks, one line each.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Make ready for programs that map these files.
    Prepare(Vec<PathBuf>),
    /// Count the calls of functions with these names, and watch no others.
    Count(Vec<String>),
    /// Trace this process, which waits to call exec.
    Attach(i32),
    /// Say what was seen.
    Stop,
}

/// What the helper answers, one line each.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// What could be made ready is.
    Prepared,
    /// It is traced.
    Attached,
    /// The kernel said this.
    Refused(i32),
    /// What was seen.
    Seen(Box<Seen>),
    /// The tracer failed on the way.
    Failed(String),
}

/// How often a tracer that waits is woken until it has heard that it shall stop.
const KNOCK: Duration = Duration::from_millis(2);
/// Its signal; the handler does nothing, so that a wait is interrupted.
const KNOCKING: i32 = libc::SIGUSR1;

/// Serves one thaw over this socket; returns when thaw has gone and nobody is traced any more.
///
/// # Errors
/// The socket fails.
pub fn serve(socket: UnixStream) -> io::Result<()> {
    // Ctrl-C is thaw's matter: the traced programs live until thaw ends them.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: no handler runs; the signal is ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    interrupt_waits()?;
    let mut asks = BufReader::new(socket.try_clone()?).lines();
    let mut library = Library::new();
    let pid = loop {
        match next_ask(&mut asks)? {
            Some(Ask::Prepare(files)) => {
                library.prepare(&files);
                answer(&socket, &Answer::Prepared)?;
            }
            Some(Ask::Count(patterns)) => {
                library.count(patterns);
                answer(&socket, &Answer::Prepared)?;
            }
            Some(Ask::Attach(pid)) => break pid,
            _ => return Ok(()),
        }
    };
    let mut tracer = match Tracer::attach(pid, library) {
        Ok(tracer) => tracer,
        Err(error) => return answer(&socket, &Answer::Refused(error.raw_os_error().unwrap_or(libc::EINVAL))),
    };
    answer(&socket, &Answer::Attached)?;
    let stop = Arc::new(AtomicBool::new(false));
    // SAFETY: pthread_self takes nothing and cannot fail.
    let tracing_thread = unsafe { libc::pthread_self() };
    let asked = Arc::clone(&stop);
    let listener = std::thread::spawn(move || {
        if !matches!(next_ask(&mut asks), Ok(Some(Ask::Stop))) {
            // Thaw is gone. Whoever is still traced ends with us (PTRACE_O_EXITKILL).
            std::process::exit(0);
        }
        while !asked.load(Ordering::Acquire) {
            // SAFETY: the thread is the main one, which lives as long as the process.
            unsafe { libc::pthread_kill(tracing_thread, KNOCKING) };
            std::thread::sleep(KNOCK);
        }
        let _ = next_ask(&mut asks);
        std::process::exit(0);
    });
    let seen = run(&mut tracer).map(|()| Box::new(tracer.take()));
    stop.store(true, Ordering::Release);
    answer(&socket, &seen.map_or_else(|error| Answer::Failed(error.to_string()), Answer::Seen))?;
    while !tracer.is_over() {
        tracer.run()?;
    }
    // Thaw closes the socket when it needs nothing more.
    let _ = listener.join();
    Ok(())
}

/// Traces until thaw knocks.
fn run(tracer: &mut Tracer) -> io::Result<()> {
    if tracer.run()? != Waited::Interrupted {
        // Everybody is gone; thaw will knock.
        // SAFETY: pause takes nothing, and returns after a signal. If that came just before, the next one follows.
        unsafe { libc::pause() };
    }
    Ok(())
}

fn next_ask(asks: &mut impl Iterator<Item = io::Result<String>>) -> io::Result<Option<Ask>> {
    let Some(line) = asks.next().transpose()? else { return Ok(None) };
    serde_json::from_str(&line).map(Some).map_err(io::Error::other)
}

fn answer(mut socket: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    socket.write_all(&line)
}

extern "C" fn nothing(_: i32) {}

/// A handler without SA_RESTART: a wait returns EINTR.
fn interrupt_waits() -> io::Result<()> {
    // SAFETY: all zero bytes are a valid sigaction, and the handler touches nothing.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as *const () as usize;
        libc::sigaction(KNOCKING, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

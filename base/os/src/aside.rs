//! A process beside this one that is nobody's child: it looks at the program that this process becomes.

use model::{Error, Exit, Result};
use std::io;

/// Runs `work` in a process of its own, which ends after it. It has no terminal and no standard streams, and whatever
/// this process becomes never hears of it: its parent is whoever takes orphans.
///
/// # Errors
/// This process has more than one thread, of which only one would be there (a bug); there can be no more processes.
pub fn aside(work: impl FnOnce()) -> Result<()> {
    let cannot =
        |cause: io::Error| Error::new(Exit::Machine, "cannot start a process beside this one", "").because(cause);
    let threads = std::fs::read_dir("/proc/self/task").map_err(cannot)?.count();
    if threads != 1 {
        return Err(Error::bug(format!("a process of {threads} threads was to be doubled")));
    }
    // SAFETY: this process has one thread, so that everything that it holds is whole in the other one too.
    let between = unsafe { libc::fork() };
    match between {
        -1 => Err(cannot(io::Error::last_os_error())),
        0 => {
            // SAFETY: as above; what comes after it in either process is async-signal-safe, or the work of the one
            // thread that there is.
            let code = match unsafe { libc::fork() } {
                -1 => 1,
                0 => {
                    alone();
                    // A panic has nobody to tell.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                    0
                }
                _ => 0,
            };
            // SAFETY: ends this process without what the other one has registered for its own end.
            unsafe { libc::_exit(code) }
        }
        between => wait_for(between).and_then(|code| match code {
            0 => Ok(()),
            _ => Err(cannot(io::Error::from(io::ErrorKind::OutOfMemory))),
        }),
    }
}

/// Away from the terminal and the streams: who waits for the end of a pipe must not wait for this process.
fn alone() {
    // SAFETY: these calls take numbers and a constant text, and touch no memory of ours.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for stream in 0..3 {
            libc::dup2(null, stream);
        }
    }
}

/// The exit code of a child.
fn wait_for(pid: i32) -> Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the address is that of a variable of ours.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return Ok(libc::WEXITSTATUS(status));
        }
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(Error::bug("a child is gone").because(cause));
        }
    }
}

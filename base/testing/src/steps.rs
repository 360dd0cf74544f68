//! Processes that stand still before and after each of their system calls, so that a test can look, or kill them there.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// What becomes of a process that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on to its next stop.
    On,
    /// It is killed.
    Kill,
}

/// For the process itself: the calling thread stands still here, and from here on at each of its system calls, for who
/// calls [`steps`].
pub fn stand_still() {
    // SAFETY: both calls take and change nothing but the state of this process, which is all ours.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::raise(libc::SIGSTOP);
    }
}

/// Leads a child that calls [`stand_still`] to its end. `look` gets the thread that stands still. The child is reaped.
///
/// # Panics
/// The calling thread did not start it.
pub fn steps(child: &Child, mut look: impl FnMut(i32) -> Next) -> ExitStatus {
    let pid = i32::try_from(child.id()).unwrap();
    loop {
        let mut status = 0;
        // The thread that stands still may not be the first of its process: both are waited for.
        // SAFETY: status lives through the call.
        let who = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(who > 0, "{}", std::io::Error::last_os_error());
        if libc::WIFSTOPPED(status) {
            if look(who) == Next::Kill {
                // SAFETY: a signal to our own child, which is not reaped yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            // SAFETY: the thread is stopped, and traced by this thread; the request passes no pointer. If the kill has
            // ended the stop already, the call fails, which is as good.
            unsafe { libc::ptrace(libc::PTRACE_SYSCALL, who, 0, 0) };
        } else if who == pid {
            return ExitStatus::from_raw(status);
        }
    }
}

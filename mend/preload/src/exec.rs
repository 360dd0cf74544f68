//! Becomes the program: same process number, environment, working directory, open files, signals and limits, as `env(1)` does it.
//!
//! The standard library's own way is not taken: it would reset the signal mask and what happens on SIGPIPE.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Why there is no program; `exit_code` is that of env(1) and of shells: 127 where nothing has the name, else 126.
#[derive(Debug)]
pub struct NoProgram {
    /// What the kernel said.
    pub cause: io::Error,
    /// 126 or 127.
    pub exit_code: u8,
}

/// What happened on SIGPIPE when this process began.
static ON_SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// Runs before `main`, where the standard library makes SIGPIPE ignored and forgets what was before.
extern "C" fn remember() {
    // SAFETY: an all-zero `sigaction` is a value of it; the call only reads what is set into it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0 {
            ON_SIGPIPE.store(action.sa_sigaction, Ordering::Relaxed);
        }
    }
}

// SAFETY: the loader calls each pointer in this section once, before `main`; `remember` allocates nothing and uses
// nothing that has to be set up before.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

/// Replaces this process by the program; returns only if that is not possible. A name without `/` is looked for in PATH.
pub fn exec(argv: &[OsString]) -> NoProgram {
    let words: Result<Vec<CString>, _> = argv.iter().map(|word| CString::new(word.as_bytes())).collect();
    let cause = match words {
        Ok(words) if !words.is_empty() => replace(&words),
        _ => io::ErrorKind::InvalidInput.into(),
    };
    let exit_code = if cause.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    NoProgram { cause, exit_code }
}

fn replace(words: &[CString]) -> io::Error {
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let inherited = ON_SIGPIPE.load(Ordering::Relaxed);
    // SAFETY: `inherited` is default or ignore: a new process has no other. `pointers` ends with null, and its
    // strings live in `words` beyond the call; no other thread of this process changes the environment.
    unsafe {
        let ours = libc::signal(libc::SIGPIPE, inherited);
        libc::execvp(pointers[0], pointers.as_ptr());
        let cause = io::Error::last_os_error();
        libc::signal(libc::SIGPIPE, ours);
        cause
    }
}

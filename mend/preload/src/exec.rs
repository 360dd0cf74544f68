//! Becomes the program: same process number, environment, working directory, open files, signals and limits, as
//! `env(1)` does it.
//!
//! The standard library's own way is not taken: it would reset the signal mask and what happens on SIGPIPE.

use model::{Error, Exit};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Why there is no program; `exit_code` is that of env(1) and of shells: 127 where nothing has the name, else 126.
#[derive(Debug)]
pub struct NoProgram {
    /// What the kernel said.
    pub cause: io::Error,
    /// What to exit with, as `env(1)` does: 126 if it cannot be started, 127 if it is not there.
    pub exit_code: u8,
}

impl NoProgram {
    fn because(cause: io::Error) -> Self {
        let exit_code = if cause.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        Self { cause, exit_code }
    }
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

/// A program and its arguments, ready to be started.
#[derive(Debug)]
pub struct Program {
    path: CString,
    words: Vec<CString>,
    /// `NAME=VALUE`; `None`: this process's own.
    environment: Option<Vec<CString>>,
}

impl Program {
    /// Looks for the program: a name without `/` in PATH.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn find(argv: &[OsString]) -> Result<Self, NoProgram> {
        let words: Result<Vec<CString>, _> = argv.iter().map(|word| CString::new(word.as_bytes())).collect();
        let (Ok(words), Some(name)) = (words, argv.first()) else {
            return Err(NoProgram::because(io::ErrorKind::InvalidInput.into()));
        };
        let path = if name.as_bytes().contains(&b'/') { PathBuf::from(name) } else { in_path(name)? };
        let path = CString::new(path.into_os_string().into_vec());
        let path = path.map_err(|_| NoProgram::because(io::ErrorKind::InvalidInput.into()))?;
        Ok(Self { path, words, environment: None })
    }

    /// With these variables set, or removed, in its environment.
    pub fn with_changes(mut self, changes: &[(OsString, Option<OsString>)]) -> Self {
        let changed = |name: &OsString| changes.iter().any(|(other, _)| other == name);
        let kept = std::env::vars_os().filter(|(name, _)| !changed(name));
        let set = changes.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        let entry =
            |(name, value): (OsString, OsString)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
        // Neither names nor values of an environment hold zeros.
        self.environment = Some(kept.chain(set).filter_map(|both| entry(both).ok()).collect());
        self
    }

    /// Does what is `last`, then replaces this process by the program; returns only if that is not possible.
    pub fn start(&self, last: impl FnOnce()) -> NoProgram {
        // Nothing has this name: the code behind the real call is in memory after this, and need not be read behind
        // what `last` asks for.
        self.replace(c"");
        last();
        let cause = self.replace(&self.path);
        if cause.raw_os_error() != Some(libc::ENOEXEC) {
            return NoProgram::because(cause);
        }
        // A script without a first line: the shell's, as for execvp(3).
        let shell = self.path.clone();
        let words = [c"/bin/sh".to_owned(), shell].into_iter().chain(self.words.iter().skip(1).cloned()).collect();
        let script = Self { path: c"/bin/sh".to_owned(), words, environment: self.environment.clone() };
        NoProgram::because(script.replace(&script.path))
    }

    fn replace(&self, path: &CStr) -> io::Error {
        let mut words: Vec<*const libc::c_char> = self.words.iter().map(|word| word.as_ptr()).collect();
        words.push(std::ptr::null());
        let environment = self.environment.as_ref().map(|entries| {
            let entries = entries.iter().map(|entry| entry.as_ptr());
            entries.chain([std::ptr::null()]).collect::<Vec<_>>()
        });
        let inherited = ON_SIGPIPE.load(Ordering::Relaxed);
        // SAFETY: `inherited` is default or ignore: a new process has no other. `words` and `environment` end with
        // null, and their strings live in `self` beyond the call; no other thread of this process changes the
        // environment.
        unsafe {
            let ours = libc::signal(libc::SIGPIPE, inherited);
            match &environment {
                None => libc::execv(path.as_ptr(), words.as_ptr()),
                Some(environment) => libc::execve(path.as_ptr(), words.as_ptr(), environment.as_ptr()),
            };
            let cause = io::Error::last_os_error();
            libc::signal(libc::SIGPIPE, ours);
            cause
        }
    }
}

/// The small program that reads a manifest and becomes the program of a launcher. It lies beside this one.
///
/// # Errors
/// It is not there.
pub fn runner() -> model::Result<PathBuf> {
    let beside = std::env::current_exe().map(|own| own.with_file_name("thaw-preload"));
    let runner = beside.map_err(|cause| Error::new(Exit::Machine, "cannot find", "thaw-preload").because(cause))?;
    match runner.is_file() {
        true => Ok(runner),
        false => Err(Error::on(Exit::Machine, "what launchers call is not beside thaw:", &runner)
            .hint("install both programs in the same directory")),
    }
}

/// Becomes the `thaw` beside this program, with these words; returns if there is none: where it was looked for, why.
pub fn hand_over(verb: &[&str], words: &[OsString]) -> (PathBuf, NoProgram) {
    let thaw = std::env::current_exe().map_or_else(|_| "thaw".into(), |own| own.with_file_name("thaw"));
    let verb = verb.iter().map(OsString::from);
    let command: Vec<OsString> =
        std::iter::once(thaw.clone().into_os_string()).chain(verb).chain(words.iter().cloned()).collect();
    let failed = become_it(&command);
    (thaw, failed)
}

/// Says why something is otherwise, on stderr, without what a terminal would obey: for small programs, which have no
/// other words.
pub fn complain(text: &str) {
    let is_harmless = |letter: char| letter == '\n' || !letter.is_control();
    let text: String = text.chars().map(|letter| if is_harmless(letter) { letter } else { '\u{fffd}' }).collect();
    eprintln!("{text}");
}

/// Becomes a program; returns if that is not possible.
pub fn become_it(command: &[OsString]) -> NoProgram {
    match Program::find(command) {
        Ok(program) => program.start(|| ()),
        Err(failed) => failed,
    }
}

/// The first file of this name in the directories of PATH that may be executed.
fn in_path(name: &OsStr) -> Result<PathBuf, NoProgram> {
    // The C library's default.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut cause = io::Error::from_raw_os_error(libc::ENOENT);
    for directory in std::env::split_paths(&path).filter(|_| !name.is_empty()) {
        let candidate = directory.join(name);
        if !candidate.is_file() {
            continue;
        }
        match rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK) {
            Ok(()) => return Ok(candidate),
            Err(error) => cause = error.into(),
        }
    }
    Err(NoProgram::because(cause))
}

//! One error type for the program: what failed, on which object, because of what, and what to type next.

use std::fmt;

/// Exit codes of `thaw`; the table is in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is "no": a regression, a gate that is not met.
    No = 1,
    /// The command line does not make sense.
    Usage = 2,
    /// This machine cannot: no root, no tracefs, no cgroup.
    Machine = 3,
    /// The program under test failed.
    Target = 4,
    /// A file holds bad data.
    Data = 5,
    /// A bug of ours.
    Bug = 70,
    /// Ctrl-C or SIGTERM; what was done until then is kept.
    Interrupted = 130,
}

impl Exit {
    /// For a file that the user named and that cannot be read: one that is not there was mistyped, everything else is
    /// bad data.
    pub fn of_unreadable(cause: &std::io::Error) -> Self {
        match cause.kind() {
            std::io::ErrorKind::NotFound => Self::Usage,
            _ => Self::Data,
        }
    }
}

/// `Result` with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error that names its object. Text parts are lower-case fragments without a full stop.
///
/// ```
/// use model::{Error, Exit};
/// let error = Error::new(Exit::Data, "cannot open the recording", "ff.thaw").hint("make one with `thaw record`");
/// assert_eq!(error.to_string(), "cannot open the recording 'ff.thaw'");
/// ```
#[derive(Debug)]
pub struct Error {
    /// Which row of the exit table this is.
    pub exit: Exit,
    /// What failed: "cannot open the recording".
    pub what: String,
    /// On which object: a path, a program, a tracepoint. May be empty.
    pub object: String,
    /// Because of what.
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// What to type next.
    pub hint: Option<String>,
}

impl Error {
    /// An error without a cause or a hint; add them with [`Error::because`] and [`Error::hint`].
    pub fn new(exit: Exit, what: impl Into<String>, object: impl ToString) -> Self {
        Self { exit, what: what.into(), object: object.to_string(), cause: None, hint: None }
    }

    /// An error on a path.
    pub fn on(exit: Exit, what: impl Into<String>, path: &std::path::Path) -> Self {
        Self::new(exit, what, crate::shown(path))
    }

    /// Adds the cause.
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds what the user can do now.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A bug of ours: an invariant that does not hold.
    pub fn bug(what: impl Into<String>) -> Self {
        Self::new(Exit::Bug, what, "").hint("this is a bug in thaw: please report it with the command line")
    }

    /// Ctrl-C or SIGTERM came.
    pub fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted", "")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)?;
        if !self.object.is_empty() {
            write!(out, " '{}'", self.object)?;
        }
        if let Some(cause) = &self.cause {
            write!(out, ": {cause}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

//! From what SQLite says to an error with an object and a hint.

use crate::{APPLICATION_ID, OLDEST_VERSION, SCHEMA_VERSION};
use model::{Error, Exit};
use rusqlite::ErrorCode;
use std::io::Read;
use std::path::Path;

/// Why a statement failed, before it is known on whose behalf it ran.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite said so.
    Sql(rusqlite::Error),
    /// A row that no writer of ours would have written.
    Damage(String),
    /// The caller passed something that does not fit together.
    Misuse(String),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Failure {
    /// SQLite's primary result code.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) => error.sqlite_error_code(),
            _ => None,
        }
    }

    /// SQLite's extended result code.
    pub fn extended_code(&self) -> Option<i32> {
        match self {
            Self::Sql(error) => error.sqlite_error().map(|error| error.extended_code),
            _ => None,
        }
    }

    /// As the cause of an error.
    fn cause(self) -> Box<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Sql(error) => Box::new(error),
            Self::Damage(what) | Self::Misuse(what) => what.into(),
        }
    }
}

/// What the first bytes of a file say, without SQLite.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A recording, of whatever schema version.
    Recording,
    /// An SQLite file of another application.
    OtherDatabase,
    /// No bytes at all.
    Empty,
    /// Anything else.
    Other,
}

/// Looks at the first bytes: SQLite's magic, and the application id at byte 68.
///
/// Closing the file drops this process's POSIX locks on it, SQLite's among them. So this is called only where no writer
/// of this process can be inside a transaction on the same file.
pub(crate) fn kind_of(path: &Path) -> std::io::Result<Kind> {
    let mut start = Vec::with_capacity(72);
    os::file::open_regular(path)?.take(72).read_to_end(&mut start)?;
    Ok(match start {
        start if start.is_empty() => Kind::Empty,
        start if !start.starts_with(b"SQLite format 3\0") => Kind::Other,
        start if start.get(68..72) == Some(&APPLICATION_ID.to_be_bytes()) => Kind::Recording,
        _ => Kind::OtherDatabase,
    })
}

const CANNOT_OPEN: &str = "cannot open the recording";
const CANNOT_READ: &str = "cannot read the recording";

/// A file that is no recording.
pub(crate) fn foreign(path: &Path, kind: &Kind) -> Error {
    let cause = match kind {
        Kind::OtherDatabase => "it is an SQLite file, but not one that thaw wrote",
        Kind::Empty => "the file is empty",
        Kind::Recording | Kind::Other => "it is not a thaw recording",
    };
    Error::on(Exit::Data, CANNOT_OPEN, path)
        .because(cause)
        .hint("make a recording with `thaw record -o FILE -- PROGRAM`")
}

/// A recording of another schema version.
pub(crate) fn other_version(path: &Path, found: i32) -> Error {
    let error = Error::on(Exit::Data, CANNOT_OPEN, path);
    if found > SCHEMA_VERSION {
        error
            .because(format!("it has schema version {found}, and this thaw reads up to version {SCHEMA_VERSION}"))
            .hint("a newer thaw wrote it: update thaw, or open it with the thaw that wrote it")
    } else {
        error
            .because(format!("it has schema version {found}, and this thaw reads from version {OLDEST_VERSION} on"))
            .hint("open it with the thaw that wrote it, or record again")
    }
}

/// A hot journal that cannot be rolled back.
pub(crate) fn unrecoverable(path: &Path, failure: Failure) -> Error {
    let shown = model::shown(path);
    Error::on(Exit::Data, "cannot undo the unfinished write of a killed thaw in", path).because(failure.cause()).hint(
        format!(
            "undoing needs write access to the file and its directory: copy '{shown}' and '{shown}-journal' \
             together to a directory that you can write to, and open the copy"
        ),
    )
}

/// A failure to open or to read.
pub(crate) fn reading(path: &Path, failure: Failure) -> Error {
    let shown = model::shown(path);
    if failure.extended_code() == Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK) {
        // Only a recording that was already open comes here: opening it undoes the write.
        return Error::on(Exit::Data, CANNOT_READ, path)
            .because("the thaw that was writing to it was killed")
            .hint("open it again: that undoes the unfinished write");
    }
    match (failure.code(), &failure) {
        (Some(ErrorCode::CannotOpen), _) => {
            let error = Error::on(Exit::Data, CANNOT_OPEN, path).hint("check the permissions of the file");
            match os::file::open_regular(path).err() {
                Some(cause) => error.because(cause),
                None => error.because(failure.cause()),
            }
        }
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => Error::on(Exit::Data, CANNOT_READ, path)
            .because("a `thaw record` is writing to it")
            .hint("try again when it is between two runs"),
        (Some(ErrorCode::OperationInterrupted), _) => Error::on(Exit::Usage, CANNOT_READ, path)
            .because("it took longer than the time that was allowed")
            .hint("allow more with --time-limit"),
        (Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown), _)
        | (_, Failure::Damage(_)) => Error::on(Exit::Data, CANNOT_READ, path).because(failure.cause()).hint(format!(
            "the file was cut short or changed after thaw wrote it: restore it from a copy, record again, or try what \
             `sqlite3 '{shown}' .recover` still finds"
        )),
        _ => Error::on(Exit::Data, CANNOT_READ, path).because(failure.cause()),
    }
}

/// A failure to write. `os_error` is what the system said last to SQLite; `finished_runs` is what stays safe.
pub(crate) fn writing(path: &Path, what: &str, failure: Failure, os_error: i32, finished_runs: Option<u64>) -> Error {
    if let Failure::Misuse(what) = failure {
        return Error::bug(what);
    }
    let limits = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
    let full = failure.code() == Some(ErrorCode::DiskFull) || (os_error != 0 && limits.contains(&os_error));
    let kept = match finished_runs {
        Some(0) | None => String::new(),
        Some(1) => "; the finished run in it is safe".to_owned(),
        Some(count) => format!("; the {count} finished runs in it are safe"),
    };
    let error = Error::on(Exit::Machine, what, path);
    match (full, failure.code()) {
        (true, _) => {
            let code = if os_error == 0 { libc::ENOSPC } else { os_error };
            error
                .because(std::io::Error::from_raw_os_error(code))
                .hint(format!("make room on its disk, or record to another one with `-o FILE`{kept}"))
        }
        (false, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => error
            .because("another program holds a lock on it")
            .hint(format!("end long queries on a recording that is being made{kept}")),
        (false, _) if os_error != 0 => {
            error.because(std::io::Error::from_raw_os_error(os_error)).hint(format!("check its disk{kept}"))
        }
        (false, _) => error.because(failure.cause()).hint(format!("check its disk and its directory{kept}")),
    }
}

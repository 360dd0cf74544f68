//! The run directory: what {profile}, {tmp} and {home} of a preset or a command line become.
//!
//! One per recording, on a disk and not in memory (a profile in a tmpfs would never be cold), removed at the
//! end; `thaw doctor --mend` removes what a killed run left.

use crate::shell::replaced;
use model::{Error, Exit, Result};
use os::journal::{Entry, Undo, hold};
use os::user::Account;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Placeholders that become directories of the run directory.
const DIRECTORIES: [&str; 3] = ["profile", "tmp", "home"];

/// Whether a text has a placeholder that needs a run directory.
pub fn is_needed_by(text: &OsStr) -> bool {
    let bytes = text.as_bytes();
    DIRECTORIES.iter().any(|name| find(bytes, format!("{{{name}}}").as_bytes()).is_some())
}

/// A word without the number of the run directory in it, which is another one in each recording.
pub fn without_number(word: &str) -> String {
    let is_number = |part: &str| {
        let numbers = part.strip_prefix("thaw-").and_then(|rest| rest.split_once('-'));
        numbers.is_some_and(|(pid, clock)| {
            let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|letter| letter.is_digit(radix));
            digits(pid, 10) && digits(clock, 16)
        })
    };
    word.split('/').map(|part| if is_number(part) { "thaw-N" } else { part }).collect::<Vec<_>>().join("/")
}

/// The directories; dropping it removes them.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _entry: Entry,
}

impl RunDir {
    /// Makes them below `$THAW_RUN_DIR`, or `/var/tmp`; they are the user's whose program will use them.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(user: Option<&Account>) -> Result<Self> {
        Self::with(&DIRECTORIES, user)
    }

    /// A run directory with these directories in it.
    ///
    /// # Errors
    /// As [`RunDir::create`].
    pub fn with(directories: &[&str], user: Option<&Account>) -> Result<Self> {
        let path = base().join(format!("thaw-{}-{:x}", std::process::id(), os::spawn::monotonic_ns()));
        let make = || -> Result<()> {
            for name in directories {
                let directory = path.join(name);
                std::fs::create_dir_all(&directory).map_err(|error| cannot(&directory).because(error))?;
            }
            private(&path)?;
            let Some(user) = user else { return Ok(()) };
            directories.iter().try_for_each(|name| user.take_over(&path.join(name)))?;
            user.take_over(&path)
        };
        let entry = hold(Undo::RemoveTree { path: path.clone() }, make)?;
        Ok(Self { path, _entry: entry })
    }

    /// Replaces {profile}, {tmp} and {home} in a text.
    pub fn fill(&self, text: &OsStr) -> OsString {
        DIRECTORIES.iter().fold(text.to_owned(), |text, name| {
            replaced(&text, &format!("{{{name}}}"), self.path.join(name).as_os_str())
        })
    }

    /// All of it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `$THAW_RUN_DIR`, or `/var/tmp`: unlike `/tmp` it is hardly ever in memory.
pub fn base() -> PathBuf {
    std::env::var_os("THAW_RUN_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Others may not look into a profile; without this its mode would be the umask's.
fn private(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(path, mode).map_err(|error| cannot(path).because(error))
}

fn cannot(path: &Path) -> Error {
    Error::on(Exit::Machine, "cannot make the run directory", path)
        .hint("set THAW_RUN_DIR to a directory on a disk that you may write to")
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_two_recordings_are_the_same() {
        let word = |number: &str| without_number(&format!("--user-data-dir=/var/tmp/thaw-{number}/profile/x"));
        assert_eq!(word("12-3fa9"), word("4711-aa"));
        assert_eq!(without_number("/opt/thaw-files/a"), "/opt/thaw-files/a");
    }

    #[test]
    fn placeholders_are_known() {
        assert!(is_needed_by(OsStr::new("--user-data-dir={profile}")));
        assert!(!is_needed_by(OsStr::new("{beacon} and {other} and {tmp")));
    }
}

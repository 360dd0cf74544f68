//! Whose journals are obeyed: an entry says what to remove and what to write, so nobody else may have written it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A journal, or an entry of one, that is not obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The journal's directory, or the entry's file.
    pub path: PathBuf,
    /// What is wrong with it, for people.
    pub why: String,
    /// A command line that mends it, or what to do before one.
    pub hint: String,
}

/// Why what lies here cannot be believed: somebody other than this user and root can have written it. `None`: it can,
/// or nothing is there.
pub(crate) fn distrust(path: &Path) -> Option<String> {
    let about = path.symlink_metadata().ok()?;
    let mode = about.permissions().mode();
    if about.file_type().is_symlink() {
        Some("it is a link".to_owned())
    } else if ![0, rustix::process::geteuid().as_raw()].contains(&about.uid()) {
        Some(format!("it belongs to {}, not to the user that thaw runs as", owner_name(about.uid())))
    } else if mode & 0o022 != 0 {
        Some(format!("others than its owner may write to it (mode {:o})", mode & 0o7777))
    } else if about.is_file() && about.nlink() != 1 {
        Some("it has a second name".to_owned())
    } else {
        None
    }
}

/// `bob`, or `user 1000`.
fn owner_name(uid: u32) -> String {
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| format!("user {uid}"))
}

/// What to type about a journal or entry that is not obeyed.
pub(super) fn what_to_type(path: &Path, journal: &Path) -> String {
    let shown = model::shown(path);
    let Ok(about) = path.symlink_metadata() else { return String::new() };
    let state = journal.parent().map(model::shown).unwrap_or_default();
    match about.uid() {
        uid if about.file_type().is_symlink() => format!("look at it, then: rm '{shown}' (made by user {uid})"),
        0 if !rustix::process::geteuid().is_root() => "run `thaw doctor --mend` as root".to_owned(),
        uid if uid != rustix::process::geteuid().as_raw() => {
            format!("as its owner: sudo -u '#{uid}' env THAW_STATE_DIR='{state}' thaw doctor --mend")
        }
        _ => format!("look at what it says, then make it yours alone: chmod go-w '{shown}'"),
    }
}

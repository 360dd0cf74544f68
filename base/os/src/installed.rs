//! Launchers and systemd units that start a program in another way, for good: what is written, what was there before,
//! and how it is taken away again. One mechanism for every verb that has `install` and `uninstall`.
//!
//! What will be written, and what was there before, is on disk before anything is changed. So an installation that was
//! cut short can be taken away like a whole one: `thaw doctor` lists them all, and `--mend` takes away those that a
//! kill left half done.
//!
//! - [`places`]: the directories of this user, or of all;
//! - [`desktop`]: pure: the text of a desktop entry whose commands go through another program;
//! - [`unit`]: the same for a service of systemd, and the words of its files.

pub mod desktop;
pub mod places;
pub mod unit;

use crate::records::{self, Records};
use crate::replace::{Existing, Fresh, Rights, write_link, write_whole};
use model::{Error, Exit, Result};
use places::Scope;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What starts, or is there, in another way than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "lowercase")]
pub enum Subject {
    /// A desktop entry: `firefox-esr.desktop`.
    Launcher(String),
    /// A unit of systemd, without `.service`.
    Unit(String),
    /// An image that is mounted for all users.
    Image(String),
}

/// Which verb of thaw's installs it, and takes it away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// `thaw preload`
    #[default]
    Preload,
    /// `thaw image`
    Image,
}

/// What was changed, and how to change it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    /// Who installs it. Older versions had one verb that did.
    #[serde(default)]
    pub by: By,
    /// What starts otherwise.
    pub subject: Subject,
    /// Whose.
    pub scope: Scope,
    /// The file that it starts from: an image.
    #[serde(default)]
    pub from: Option<PathBuf>,
    /// It was not installed for its own sake, and goes with the last one that needs it.
    #[serde(default)]
    pub is_needed_only: bool,
    /// Files, in the order in which they are written.
    changes: Vec<Change>,
    /// Directories that were made for them.
    made: Vec<PathBuf>,
    /// Who is about to install it or to take it away; it is whole without.
    #[serde(default)]
    pub doing: Option<Doing>,
    /// What else there is to know or to do.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A process that has begun with an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// Its number.
    pub pid: u32,
    /// When it began, nanoseconds since 1970.
    pub since_unix_ns: u64,
}

/// A file that is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    path: PathBuf,
    after: Content,
    /// `None`: there was nothing.
    before: Option<Content>,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// A text.
    Text(String),
    /// What may be no text.
    Bytes(Vec<u8>),
    /// A symbolic link to there.
    Link(PathBuf),
    /// A copy of a large file, in a place of thaw's own: what lies there is thaw's, whatever is in it.
    Copy(PathBuf),
}

/// A file that was not taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// Why it was left, in a few words.
    pub why: String,
}

/// What is to be installed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which verb installs it.
    pub by: By,
    /// What starts otherwise.
    pub subject: Subject,
    /// Whose.
    pub scope: Scope,
    /// See [`Installation::from`].
    pub from: Option<PathBuf>,
    /// See [`Installation::is_needed_only`].
    pub is_needed_only: bool,
    /// Files, in the order in which they are to be written.
    pub files: Vec<(PathBuf, Content)>,
    /// What else there is to know or to do.
    pub notes: Vec<String>,
}

impl By {
    /// The verb's name.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Preload => "preload",
            Self::Image => "image",
        }
    }
}

impl Subject {
    /// Its name, as it was typed.
    pub fn name(&self) -> &str {
        match self {
            Self::Launcher(name) | Self::Unit(name) | Self::Image(name) => name,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Launcher(_) => "launcher",
            Self::Unit(_) => "unit",
            Self::Image(_) => "image",
        }
    }

    /// Sees that it is a name, and none that leads elsewhere.
    ///
    /// # Errors
    /// It is none.
    pub fn check(&self) -> Result<()> {
        let plain = |name: &str| {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.:@".contains(letter);
            !name.is_empty() && name.chars().all(letter) && !name.starts_with('.')
        };
        let (good, hint) = match self {
            Self::Launcher(name) => (plain(name) && name.ends_with(".desktop"), "--desktop firefox-esr.desktop"),
            Self::Unit(name) => (plain(name) && !name.contains('@'), "--unit firefox"),
            Self::Image(name) => {
                (plain(name) && !name.contains('@'), "an image's name has letters, digits, - and _: firefox-esr.img")
            }
        };
        match good {
            true => Ok(()),
            false => Err(Error::new(Exit::Usage, "this is no name for it:", self.name()).hint(hint)),
        }
    }
}

impl Installation {
    /// The files that were written.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.changes.iter().map(|change| &change.path)
    }

    /// The text of the last file, as it was written: what a launcher or a unit says.
    pub fn text(&self) -> Option<&str> {
        self.changes.iter().rev().find_map(|change| match &change.after {
            Content::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// What to type to get rid of it.
    pub fn undo_command(&self) -> String {
        let what = match &self.subject {
            Subject::Launcher(name) => format!("--desktop {name}"),
            Subject::Unit(name) => format!("--unit {name}"),
            Subject::Image(name) => format!("--image {name}"),
        };
        let scope = if self.scope == Scope::System { " --system" } else { "" };
        format!("thaw {} uninstall {what}{scope}", self.by.verb())
    }

    fn record(&self) -> String {
        record_of(self.by, &self.subject, self.scope)
    }

    fn begin(&self) -> Self {
        let doing = Doing { pid: std::process::id(), since_unix_ns: crate::machine::now_unix_ns() };
        Self { doing: Some(doing), ..self.clone() }
    }
}

fn records() -> Result<Records> {
    Records::of("installed")
}

fn record_of(by: By, subject: &Subject, scope: Scope) -> String {
    let scope = if scope == Scope::System { "system" } else { "user" };
    format!("{}-{scope}-{}-{}", by.verb(), subject.kind(), subject.name())
}

/// Everything that is installed, half done or whole, and an error for each record of it that cannot be read.
///
/// # Errors
/// The records are there and cannot be listed.
pub fn list() -> Result<(Vec<Installation>, Vec<Error>)> {
    records()?.list()
}

/// What a killed thaw left half installed, or half taken away.
///
/// # Errors
/// The records are there and cannot be listed.
pub fn half_done() -> Result<Vec<Installation>> {
    let records = records()?;
    // Who is at work holds the lock.
    let Some(_lock) = records.try_lock()? else { return Ok(Vec::new()) };
    let (mut all, _) = records.list::<Installation>()?;
    all.retain(|installation| installation.doing.is_some());
    Ok(all)
}

/// What is installed under this name; `None`: nothing.
///
/// # Errors
/// This is no name for it; the record cannot be read.
pub fn find(by: By, subject: &Subject, scope: Scope) -> Result<Option<Installation>> {
    subject.check()?;
    records()?.read(&record_of(by, subject, scope))
}

/// What is installed under this name.
///
/// # Errors
/// Nothing is; otherwise as for [`find`].
pub fn expect(by: By, subject: &Subject, scope: Scope) -> Result<Installation> {
    find(by, subject, scope)?.ok_or_else(|| {
        Error::new(Exit::Usage, "thaw has not installed", subject.name())
            .hint("`thaw doctor` lists what is installed; --system for what is for all users")
    })
}

/// Sees that nothing of this name is installed, by whichever verb: two that change the same launcher could not be taken
/// away in any order.
///
/// # Errors
/// Something is.
pub fn check_free(by: By, subject: &Subject, scope: Scope) -> Result<()> {
    subject.check()?;
    let records = records()?;
    if records.has(&record_of(by, subject, scope)) {
        let undo = format!("`thaw {} uninstall` it first; `thaw doctor` lists what is installed", by.verb());
        return Err(Error::new(Exit::Usage, "it is installed already:", subject.name()).hint(undo));
    }
    let other = if by == By::Preload { By::Image } else { By::Preload };
    match matches!(subject, Subject::Launcher(_)) && records.has(&record_of(other, subject, scope)) {
        true => Err(Error::new(Exit::Usage, "this launcher starts in another way already:", subject.name())
            .hint(format!("thaw {} uninstall --desktop {}", other.verb(), subject.name()))),
        false => Ok(()),
    }
}

/// Writes what is planned.
///
/// # Errors
/// It is installed already, or a file cannot be written. Nothing is changed then.
pub fn install(plan: Plan) -> Result<Installation> {
    check_free(plan.by, &plan.subject, plan.scope)?;
    let changes: Vec<Change> = (plan.files.into_iter())
        .map(|(path, after)| {
            // What lies where thaw keeps its copies is nobody else's.
            let before = if matches!(after, Content::Copy(_)) { None } else { content(&path, &after)? };
            Ok(Change { before, path, after })
        })
        .collect::<io::Result<_>>()
        .map_err(|cause| {
            Error::new(Exit::Machine, "cannot look at what is there", plan.subject.name()).because(cause)
        })?;
    let made = changes.iter().filter_map(|change| change.path.parent()).flat_map(missing).collect();
    let mut installation = Installation {
        by: plan.by,
        subject: plan.subject,
        scope: plan.scope,
        from: plan.from,
        is_needed_only: plan.is_needed_only,
        changes,
        made,
        doing: None,
        notes: plan.notes,
    };
    let (records, record) = (records()?, installation.record());
    let lock = records.lock()?;
    records.write(&record, &installation.begin())?;
    let written = installation.changes.iter().try_for_each(|change| put(&change.path, &change.after));
    if let Err(error) = written.and_then(|()| records.write(&record, &installation)) {
        drop(lock);
        // Its own error says more than one of the way back, and the record stays if that fails.
        let _ = uninstall(&installation);
        return Err(match error.hint {
            None if installation.scope == Scope::System => error.hint("run as root"),
            None => error.hint("is it a directory of this user?"),
            Some(_) => error,
        });
    }
    installation.notes.extend(verified(&installation));
    Ok(installation)
}

/// Takes an installation away: what was there before is put back. A file that was changed since is kept.
///
/// # Errors
/// A file cannot be written or removed; what is left can be taken away by calling it again.
pub fn uninstall(installation: &Installation) -> Result<Vec<Kept>> {
    let cannot = |path: &Path, cause: io::Error| Error::on(Exit::Machine, "cannot put back", path).because(cause);
    let (records, record) = (records()?, installation.record());
    let _lock = records.lock()?;
    if installation.doing.is_none() && records.has(&record) {
        records.write(&record, &installation.begin())?;
    }
    let mut kept = Vec::new();
    for Change { path, after, before } in installation.changes.iter().rev() {
        let now = content(path, after).map_err(|cause| cannot(path, cause))?;
        if now == *before {
            continue;
        }
        if now.as_ref().is_some_and(|now| now != after) {
            kept.push(Kept { path: path.clone(), why: "it was changed since".into() });
            continue;
        }
        match before {
            Some(before) => put(path, before)?,
            None => records::remove(path)?,
        }
    }
    for directory in installation.made.iter().rev() {
        // One that somebody else uses by now stays.
        let _ = fs::remove_dir(directory);
    }
    records.forget(&record)?;
    Ok(kept)
}

/// Directories that are not there yet, the outermost first.
fn missing(directory: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        directory.ancestors().take_while(|ancestor| !ancestor.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

/// What is there, told in the way of what is to be there.
fn content(path: &Path, wanted: &Content) -> io::Result<Option<Content>> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if places::is_not_there(&error) => {
            return Ok(None);
        }
        meta => meta?,
    };
    if matches!(wanted, Content::Copy(_)) {
        return Ok(Some(wanted.clone()));
    }
    if meta.is_symlink() {
        return fs::read_link(path).map(|target| Some(Content::Link(target)));
    }
    let bytes = fs::read(path)?;
    // What is kept as bytes is so whatever is in it, so that it compares equal.
    Ok(Some(match String::from_utf8(bytes) {
        Ok(text) if !matches!(wanted, Content::Bytes(_)) => Content::Text(text),
        Ok(text) => Content::Bytes(text.into_bytes()),
        Err(error) => Content::Bytes(error.into_bytes()),
    }))
}

fn put(path: &Path, content: &Content) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot write", path).because(cause);
    crate::replace::make_directory(crate::file::directory_of(path), 0o755).map_err(cannot)?;
    match content {
        Content::Text(text) => write_whole(path, text.as_bytes(), Rights::Usual, Existing::Replace),
        Content::Bytes(bytes) => write_whole(path, bytes, Rights::Usual, Existing::Replace),
        Content::Link(target) => write_link(path, target),
        Content::Copy(from) => copy(from, path),
    }
}

/// Copies a large file. Who may not read it may not read the copy.
fn copy(from: &Path, path: &Path) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot copy", from).because(cause);
    let mut file = crate::file::open_regular(from).map_err(cannot)?;
    let is_open = file.metadata().map_err(cannot)?.mode() & 0o004 != 0;
    let fresh = Fresh::beside(path, Existing::Replace)?;
    if rustix::fs::ioctl_ficlone(fresh.file(), &file).is_err() {
        copy_bytes(&mut file, fresh.file(), &fresh)?;
    }
    fresh.grant(if is_open { Rights::Usual } else { Rights::Private })?;
    fresh.place()
}

/// In pieces, so that Ctrl-C ends it.
fn copy_bytes(from: &mut File, mut to: &File, fresh: &Fresh) -> Result<()> {
    let mut bytes = vec![0; 1 << 20];
    loop {
        crate::interrupt::check()?;
        let len = from.read(&mut bytes).map_err(|cause| fresh.failed("cannot read what is copied to", cause))?;
        if len == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..len]).map_err(|cause| fresh.failed("cannot write", cause))?;
    }
}

/// What systemd says of the units, if it is here.
fn verified(installation: &Installation) -> Option<String> {
    let unit = installation.paths().find(|path| path.extension().is_some_and(|extension| extension == "service"))?;
    let scope = if installation.scope == Scope::User { "--user" } else { "--system" };
    let output = Command::new("systemd-analyze").args([scope, "verify"]).arg(unit).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (!output.status.success()).then(|| format!("systemd-analyze verify: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in ["../x.desktop", ".desktop", "", "x", "a/b.desktop", "a b.desktop", "a\n.desktop"] {
            assert_eq!(Subject::Launcher(name.into()).check().unwrap_err().exit, Exit::Usage, "{name:?}");
        }
        for name in ["../x", "", "a b", "a@b", ".x"] {
            assert!(Subject::Unit(name.into()).check().is_err(), "{name:?}");
            assert!(Subject::Image(name.into()).check().is_err(), "{name:?}");
        }
        Subject::Launcher("org.gnome.Epiphany.desktop".into()).check().unwrap();
        Subject::Unit("firefox-esr".into()).check().unwrap();
        Subject::Image("firefox-esr".into()).check().unwrap();
    }

    #[test]
    fn a_record_of_an_older_version_is_one_of_preload() {
        let old = r#"{"subject":{"kind":"launcher","name":"a.desktop"},"scope":"user","changes":[],"made":[]}"#;
        let read: Installation = serde_json::from_str(old).unwrap();
        assert!(read.by == By::Preload && read.doing.is_none() && read.from.is_none());
        assert_eq!(read.undo_command(), "thaw preload uninstall --desktop a.desktop");
    }
}

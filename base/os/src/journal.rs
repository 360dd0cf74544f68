//! Guards that survive `kill -9`: how to undo a change is on disk before anything is changed.
//!
//! Every guard is one small JSON file in `/var/lib/thaw/journal` (root), `$XDG_STATE_HOME/thaw/journal`
//! (others), or `$THAW_STATE_DIR/journal`. Its owner holds a lock on the file as long as it lives, so that `thaw
//! doctor` can tell a guard in use from one that a killed thaw left behind. Not a general
//! transaction log: an entry undoes one change, and undoing it twice must do no harm.

use crate::file::directory_of;
use crate::replace::filesystem::{self, Place};
use crate::replace::{self, Existing};
use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a change is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Undo {
    /// Write this text into this file (a sysfs or procfs setting).
    WriteFile {
        /// The file.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// What it held before.
        text: String,
    },
    /// Kill everything in these control groups and remove them.
    RemoveCgroup {
        /// Their directories.
        #[serde(with = "paths_text")]
        paths: Vec<PathBuf>,
    },
    /// Make `live` equal to `pristine`, then remove `pristine`.
    /// Nothing is restored from a copy that was not completed: make the copy as
    /// [`partial`]`(pristine)` and rename it to `pristine` when it is whole ([`hold_directory`] does that).
    RestoreDirectory {
        /// The complete copy.
        #[serde(with = "path_text")]
        pristine: PathBuf,
        /// The directory that a program changes.
        #[serde(with = "path_text")]
        live: PathBuf,
    },
    /// Remove a directory tree (or a file).
    RemoveTree {
        /// Its path.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Remove a file that was not finished.
    RemoveFile {
        /// Its path.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Remove a tracefs instance.
    RemoveTracefsInstance {
        /// Its name below `instances/`.
        name: String,
    },
    /// End a helper process of thaw that ends by itself unless somebody still uses it.
    EndProcess {
        /// Its number.
        pid: u32,
        /// When it started, in clock ticks since boot: another process may get the same number later.
        start_ticks: u64,
        /// What it is, for people.
        what: String,
    },
    /// Put code of a running process back that was replaced by jumps to thaw's guest in it.
    #[cfg(target_arch = "x86_64")]
    PutBackCode {
        /// Its number.
        pid: u32,
        /// When it started, in clock ticks since boot.
        start_ticks: u64,
        /// The places.
        places: Vec<crate::ptrace::Replaced>,
    },
    /// An entry that this version of thaw cannot read.
    #[serde(other)]
    Unknown,
}

impl Undo {
    /// Whether the change is gone by itself after a reboot.
    fn is_volatile(&self) -> bool {
        match self {
            Self::WriteFile { path, .. } => ["/sys", "/proc", "/dev"].iter().any(|place| path.starts_with(place)),
            Self::RemoveCgroup { .. } | Self::RemoveTracefsInstance { .. } | Self::EndProcess { .. } => true,
            #[cfg(target_arch = "x86_64")]
            Self::PutBackCode { .. } => true,
            Self::RestoreDirectory { .. } | Self::RemoveTree { .. } | Self::RemoveFile { .. } | Self::Unknown => false,
        }
    }

    fn perform(&self) -> Result<()> {
        match self {
            Self::WriteFile { path, text } => fs::write(path, text).map_err(|cause| {
                Error::on(Exit::Machine, "cannot put back", path)
                    .because(cause)
                    .hint(format!("write '{}' into it by hand", text.trim_end()))
            }),
            Self::RemoveCgroup { paths } => crate::cgroup::remove(paths),
            Self::RestoreDirectory { pristine, live } => restore_directory(pristine, live),
            Self::RemoveTree { path } => crate::tree::remove(path),
            Self::RemoveFile { path } => crate::records::remove(path),
            Self::RemoveTracefsInstance { name } => crate::tracefs::remove_instance(name),
            Self::EndProcess { pid, start_ticks, what } => end_process(*pid, *start_ticks, what),
            #[cfg(target_arch = "x86_64")]
            Self::PutBackCode { pid, start_ticks, places } => put_back_code(*pid, *start_ticks, places),
            Self::Unknown => Err(Error::new(Exit::Data, "cannot read the journal entry", "")
                .hint("it was written by another version of thaw: run that version's `thaw doctor`")),
        }
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFile { path, text } => {
                write!(out, "set {} back to '{}'", path.display(), text.trim_end())
            }
            Self::RemoveCgroup { paths } => {
                write!(out, "remove the control group")?;
                paths.iter().enumerate().try_for_each(|(index, path)| {
                    write!(out, "{}{}", if index == 0 { " " } else { ", " }, path.display())
                })
            }
            Self::RestoreDirectory { pristine, live } => {
                write!(out, "restore {} from {}", live.display(), pristine.display())
            }
            Self::RemoveTree { path } | Self::RemoveFile { path } => write!(out, "remove {}", path.display()),
            Self::RemoveTracefsInstance { name } => write!(out, "remove the tracefs instance {name}"),
            Self::EndProcess { pid, what, .. } => write!(out, "end {what} (process {pid})"),
            #[cfg(target_arch = "x86_64")]
            Self::PutBackCode { pid, .. } => write!(out, "take the hooks of a heap recording out of process {pid}"),
            Self::Unknown => write!(out, "undo what this version of thaw cannot read"),
        }
    }
}

/// Kills a process, if it is still the one that was meant, and waits for its end.
fn end_process(pid: u32, ticks: u64, what: &str) -> Result<()> {
    let failed = |cause: rustix::io::Errno| {
        Error::new(Exit::Machine, format!("cannot end {what}, process"), pid).because(io::Error::from(cause))
    };
    let Some(number) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
    let process = match rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        process => process.map_err(failed)?,
    };
    // Looked at after it was opened: from here on the number cannot come to mean another one.
    if start_ticks(pid) != Some(ticks) {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(cause) => return Err(failed(cause)),
    }
    // Long enough for any process that ends at all; one that the kernel holds must not hold us.
    let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    match rustix::event::poll(&mut ended, Some(&patience)) {
        Ok(0) => Err(failed(rustix::io::Errno::TIMEDOUT)),
        Err(cause) if cause != rustix::io::Errno::INTR => Err(failed(cause)),
        _ => Ok(()),
    }
}

#[cfg(target_arch = "x86_64")]
fn put_back_code(pid: u32, ticks: u64, places: &[crate::ptrace::Replaced]) -> Result<()> {
    use crate::ptrace::NotStopped;
    if start_ticks(pid) != Some(ticks) {
        return Ok(());
    }
    let failed = |cause: io::Error| {
        Error::new(Exit::Machine, "cannot take the hooks of a heap recording out of process", pid).because(cause)
    };
    match crate::ptrace::put_back(pid, places) {
        Ok(_) | Err(NotStopped::Gone) => Ok(()),
        Err(NotStopped::Refused(cause)) => Err(failed(cause)),
        Err(NotStopped::Stuck(tid)) => Err(failed(io::Error::other(format!("its thread {tid} does not stop")))),
    }
}

/// Paths as JSON: text if they are UTF-8, else their bytes.
mod path_text {
    use super::{Deserialize, Path, PathBuf, Serialize};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(super) enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    impl Form {
        pub(super) fn of(path: &Path) -> Self {
            match path.to_str() {
                Some(text) => Self::Text(text.to_owned()),
                None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
            }
        }
        pub(super) fn path(self) -> PathBuf {
            match self {
                Self::Text(text) => text.into(),
                Self::Bytes(bytes) => std::ffi::OsString::from_vec(bytes).into(),
            }
        }
    }

    pub(super) fn serialize<S: serde::Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        Form::of(path).serialize(out)
    }
    pub(super) fn deserialize<'a, D: serde::Deserializer<'a>>(from: D) -> Result<PathBuf, D::Error> {
        Form::deserialize(from).map(Form::path)
    }
}

/// The same for lists of paths.
mod paths_text {
    use super::path_text::Form;
    use super::{Deserialize, PathBuf};

    pub(super) fn serialize<S: serde::Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(paths.iter().map(|path| Form::of(path)))
    }
    pub(super) fn deserialize<'a, D: serde::Deserializer<'a>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Form>::deserialize(from)?.into_iter().map(Form::path).collect())
    }
}

/// Where a copy is built before it is renamed to its real name.
pub fn partial(pristine: &Path) -> PathBuf {
    let mut name = pristine.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn restore_directory(pristine: &Path, live: &Path) -> Result<()> {
    crate::tree::remove(&partial(pristine))?;
    if pristine.symlink_metadata().is_err() {
        return Ok(());
    }
    crate::tree::restore(pristine, live)?;
    // Renamed first: a removal that is cut short must not leave half a copy that looks like a whole one.
    let spent = partial(pristine);
    fs::rename(pristine, &spent).map_err(|cause| Error::on(Exit::Machine, "cannot rename", pristine).because(cause))?;
    crate::tree::remove(&spent)
}

/// Copies `live` to `pristine` (which must not exist) and holds the duty to put `live` back.
///
/// # Errors
/// The copy failed: nothing was changed, nothing is left.
pub fn hold_directory(pristine: &Path, live: &Path) -> Result<Entry> {
    let undo = Undo::RestoreDirectory { pristine: pristine.to_path_buf(), live: live.to_path_buf() };
    hold(undo, || {
        let building = partial(pristine);
        crate::tree::remove(&building)?;
        crate::tree::copy(live, &building)?;
        // After a power cut the copy must be whole, or not be there.
        File::open(&building)
            .and_then(|copy| Ok(rustix::fs::syncfs(copy)?))
            .and_then(|()| fs::rename(&building, pristine))
            .map_err(|cause| Error::on(Exit::Machine, "cannot save the copy", &building).because(cause))
    })
}

/// An entry as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    boot_id: String,
    pid: u32,
    pid_start_ticks: u64,
    created_unix_ns: u64,
    undo: Undo,
}

/// A change that is in force; dropping it undoes it. If undoing fails, the entry stays for `thaw doctor`.
#[derive(Debug)]
pub struct Entry {
    file: PathBuf,
    undo: Undo,
    /// Holds the lock that says "the owner lives".
    _lock: File,
    done: bool,
}

impl Entry {
    /// Undoes the change and says whether that worked (dropping cannot).
    ///
    /// # Errors
    /// Undoing failed; the entry stays for `thaw doctor`.
    pub fn undo(mut self) -> Result<()> {
        self.perform()
    }

    /// Forgets the change without undoing it: it was not made, or is to stay.
    ///
    /// # Errors
    /// The entry cannot be removed; it stays for `thaw doctor`.
    pub fn forget(mut self) -> Result<()> {
        self.done = true;
        forget(&self.file)
    }

    /// Leaves the change to `thaw doctor`, because it cannot be undone now.
    pub fn leave(mut self) {
        self.done = true;
    }

    /// What it will do.
    pub fn plan(&self) -> &Undo {
        &self.undo
    }

    fn perform(&mut self) -> Result<()> {
        self.done = true;
        self.undo.perform()?;
        forget(&self.file)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.done {
            // The entry stays on disk when this fails, and `thaw doctor` reports it.
            let _ = self.perform();
        }
    }
}

/// What a dead process left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The entry's file.
    pub entry: PathBuf,
    /// Who left it.
    pub pid: u32,
    /// When it was written, nanoseconds since 1970.
    pub created_unix_ns: u64,
    /// How to mend it.
    pub undo: Undo,
    /// `true`: the machine was rebooted since and the change is gone by itself; mending only forgets it.
    pub forgotten_by_reboot: bool,
}

/// A journal in one directory. The program uses the default one through [`hold`], [`leftovers`] and [`mend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    directory: PathBuf,
}

/// thaw's state directory: `$THAW_STATE_DIR`, else `/var/lib/thaw` for root, else `$XDG_STATE_HOME/thaw`,
/// else `~/.local/state/thaw`.
///
/// # Errors
/// None of them is set and the user is not root.
pub fn state_dir() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = variable("THAW_STATE_DIR") {
        return Ok(chosen);
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/thaw".into());
    }
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("thaw"))
        .ok_or_else(|| {
            Error::new(Exit::Machine, "there is no place for thaw's state: neither HOME nor XDG_STATE_HOME is set", "")
                .hint("set THAW_STATE_DIR to a directory that you can write")
        })
}

/// Writes down how to undo a change, makes it, and returns its guard. If the change fails, it is
/// undone as far as it went and its error is returned.
///
/// # Errors
/// The journal cannot be written (then nothing was changed), or the change's own error.
pub fn hold(undo: Undo, change: impl FnOnce() -> Result<()>) -> Result<Entry> {
    Journal::at(&state_dir()?).hold(undo, change)
}

/// What dead processes left behind, the newest first: the order in which to mend it.
///
/// # Errors
/// The journal is there and cannot be read.
pub fn leftovers() -> Result<Vec<Leftover>> {
    Journal::at(&state_dir()?).leftovers()
}

/// Undoes one leftover and forgets it.
///
/// # Errors
/// Undoing failed (the entry stays), or another thaw is mending it right now.
pub fn mend(leftover: &Leftover) -> Result<()> {
    let Ok(file) = File::open(&leftover.entry) else { return Ok(()) };
    let mut tries = 0;
    while let Err(cause) = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        // Somebody who only looks holds the lock for an instant.
        tries += 1;
        if tries == 100 {
            return Err(Error::on(Exit::Machine, "cannot mend what is in use", &leftover.entry)
                .because(io::Error::from(cause))
                .hint("another thaw is mending it: wait for it"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if !leftover.entry.exists() {
        return Ok(());
    }
    if !leftover.forgotten_by_reboot {
        leftover.undo.perform()?;
    }
    forget(&leftover.entry)
}

/// Nothing waits for this to be on the disk: undoing twice does no harm.
fn forget(entry: &Path) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Machine, "cannot remove the journal entry", entry).because(cause);
    let directory = replace::open_directory(directory_of(entry)).map_err(cannot)?;
    let name = entry.file_name().unwrap_or_default();
    match filesystem::current().remove(Place { directory: &directory, name }) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cannot(cause)),
        _ => Ok(()),
    }
}

impl Journal {
    /// The journal of this state directory; nothing is created yet.
    pub fn at(state_dir: &Path) -> Self {
        Self { directory: state_dir.join("journal") }
    }

    /// See [`hold`].
    ///
    /// # Errors
    /// The journal cannot be written (then nothing was changed), or the change's own error.
    pub fn hold(&self, undo: Undo, change: impl FnOnce() -> Result<()>) -> Result<Entry> {
        let undo = self.to_the_first(undo);
        let (file, lock) = self.write(&undo).map_err(|cause| {
            Error::on(Exit::Machine, "cannot write the journal in", &self.directory).because(cause).hint(
                "thaw changes nothing that it could not put back: set THAW_STATE_DIR to a directory that you can write",
            )
        })?;
        let mut entry = Entry { file, undo, _lock: lock, done: false };
        match change() {
            Ok(()) => Ok(entry),
            Err(error) => {
                // The error of the change says more than a second one; a failed undo stays on disk.
                let _ = entry.perform();
                Err(error)
            }
        }
    }

    /// What a setting was before any thaw changed it: the value that is there now may be that of another one, which lives or was killed.
    fn to_the_first(&self, undo: Undo) -> Undo {
        let Undo::WriteFile { path, .. } = &undo else { return undo };
        let mut entries: Vec<_> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|entry| entry.extension().is_some_and(|extension| extension == "json"))
            .collect();
        entries.sort();
        let boot = boot_id();
        let of_others = |entry: &PathBuf| {
            let stored: Stored = serde_json::from_slice(&fs::read(entry).ok()?).ok()?;
            // Changes of one process lie in one another: the inner one goes back to the outer one's.
            let same = matches!(&stored.undo, Undo::WriteFile { path: other, .. } if other == path);
            (same && stored.boot_id == boot && stored.pid != std::process::id()).then_some(stored.undo)
        };
        entries.iter().find_map(of_others).unwrap_or(undo)
    }

    /// The entry under its final name, locked, and safe on disk.
    fn write(&self, undo: &Undo) -> io::Result<(PathBuf, File)> {
        static SEQUENCE: AtomicU64 = AtomicU64::new(0);
        replace::make_directory(&self.directory, 0o755)?;
        let pid = std::process::id();
        let created_unix_ns = crate::machine::now_unix_ns();
        let stored = Stored {
            boot_id: boot_id(),
            pid,
            pid_start_ticks: start_ticks(pid).unwrap_or(0),
            created_unix_ns,
            undo: undo.clone(),
        };
        // Fixed width, so that names sort by time.
        let name = format!("{created_unix_ns:020}-{:06}-{pid}.json", SEQUENCE.fetch_add(1, Ordering::Relaxed));
        let (system, directory) = (filesystem::current(), replace::open_directory(&self.directory)?);
        let fresh = format!("{name}.new");
        let at = |name| Place { directory: &directory, name: OsStr::new(name) };
        let mut file = system.create(at(&fresh))?;
        let written = (|| {
            // Where locks do not work (some network file systems) the process id alone decides.
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
            file.write_all(&serde_json::to_vec(&stored)?)?;
            system.sync_file(&file)?;
            system.rename(at(&fresh), at(&name), Existing::Keep)?;
            system.sync_directory(&directory)
        })();
        if let Err(cause) = written {
            let _ = system.remove(at(&fresh));
            let _ = system.remove(at(&name));
            return Err(cause);
        }
        Ok((self.directory.join(&name), file))
    }

    /// See [`leftovers`].
    ///
    /// # Errors
    /// The journal is there and cannot be read.
    pub fn leftovers(&self) -> Result<Vec<Leftover>> {
        let unreadable =
            |cause: io::Error| Error::on(Exit::Machine, "cannot read the journal in", &self.directory).because(cause);
        let entries = match fs::read_dir(&self.directory) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut paths =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        paths.sort();
        let boot = boot_id();
        Ok(paths.iter().rev().filter_map(|path| leftover(path, &boot)).collect())
    }
}

/// The entry as a leftover, unless its owner lives (or it is gone meanwhile).
fn leftover(path: &Path, boot: &str) -> Option<Leftover> {
    let file = File::open(path).ok()?;
    let lock = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared);
    if lock == Err(rustix::io::Errno::WOULDBLOCK) {
        return None;
    }
    if path.extension().is_some_and(|extension| extension == "new") {
        // Its owner died while writing it: nothing was changed yet.
        let _ = fs::remove_file(path);
        return None;
    }
    let text = fs::read(path).ok()?;
    let stored = serde_json::from_slice::<Stored>(&text).unwrap_or(Stored {
        boot_id: boot.to_owned(),
        pid: 0,
        pid_start_ticks: 0,
        created_unix_ns: 0,
        undo: Undo::Unknown,
    });
    let same_boot = stored.boot_id == boot;
    let owner_runs = || start_ticks(stored.pid).is_some_and(|ticks| ticks == stored.pid_start_ticks);
    if lock.is_err() && same_boot && owner_runs() {
        return None;
    }
    Some(Leftover {
        entry: path.to_path_buf(),
        pid: stored.pid,
        created_unix_ns: stored.created_unix_ns,
        forgotten_by_reboot: !same_boot && stored.undo.is_volatile(),
        undo: stored.undo,
    })
}

/// Differs after each boot.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim_end().to_owned()
}

/// When a process started, in clock ticks since boot: with its number, a name that is not used twice.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and brackets; the last ')' ends it. The 22nd field is the 20th after it.
    let rest = &stat[stat.iter().rposition(|&byte| byte == b')')? + 1..];
    let field = rest.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    fn journal() -> (tempfile::TempDir, Journal) {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::at(home.path());
        (home, journal)
    }

    fn setting(home: &Path, text: &str) -> PathBuf {
        let path = home.join("read_ahead_kb");
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_helper_process_is_ended_and_no_other_with_its_number() {
        let (_home, journal) = journal();
        let mut helper = Command::new("sleep").arg("infinity").spawn().unwrap();
        let (pid, what) = (helper.id(), "the helper".to_owned());
        let ticks = start_ticks(pid).unwrap();
        let other = Undo::EndProcess { pid, start_ticks: ticks + 1, what: what.clone() };
        journal.hold(other, || Ok(())).unwrap().undo().unwrap();
        assert!(helper.try_wait().unwrap().is_none(), "a process with the same number was ended");
        let undo = Undo::EndProcess { pid, start_ticks: ticks, what };
        assert_eq!(undo.to_string(), format!("end the helper (process {pid})"));
        let entry = journal.hold(undo.clone(), || Ok(())).unwrap();
        entry.undo().unwrap();
        assert!(helper.try_wait().unwrap().is_some());
        undo.perform().unwrap();
    }

    #[test]
    fn an_entry_is_on_disk_before_the_change_and_gone_after_the_undo() {
        let (home, journal) = journal();
        let path = setting(home.path(), "8192\n");
        let undo = Undo::WriteFile { path: path.clone(), text: "8192\n".into() };
        let entry = journal
            .hold(undo.clone(), || {
                let entries: Vec<_> = fs::read_dir(home.path().join("journal")).unwrap().collect();
                assert_eq!(entries.len(), 1);
                let stored: Stored =
                    serde_json::from_slice(&fs::read(entries[0].as_ref().unwrap().path()).unwrap()).unwrap();
                assert_eq!((stored.undo, stored.pid), (undo, std::process::id()));
                fs::write(&path, "128\n").unwrap();
                Ok(())
            })
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "128\n");
        assert_eq!(journal.leftovers().unwrap(), [], "the owner lives");
        drop(entry);
        assert_eq!(fs::read_to_string(&path).unwrap(), "8192\n");
        assert_eq!(fs::read_dir(home.path().join("journal")).unwrap().count(), 0);
    }

    #[test]
    fn a_setting_goes_back_to_what_it_was_before_any_thaw_changed_it() {
        let (home, journal) = journal();
        let path = setting(home.path(), "8192");
        let hold = |text: &str| {
            let undo = Undo::WriteFile { path: path.clone(), text: fs::read_to_string(&path).unwrap() };
            let change = || {
                fs::write(&path, text).unwrap();
                Ok(())
            };
            journal.hold(undo, change).unwrap()
        };
        // Two of one process.
        let outer = hold("256");
        hold("0").undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "256");
        // The outer one is another process's.
        let mut stored: Stored = serde_json::from_slice(&fs::read(&outer.file).unwrap()).unwrap();
        stored.pid += 1;
        fs::write(&outer.file, serde_json::to_vec(&stored).unwrap()).unwrap();
        hold("0").undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "8192");
        // It is from before a reboot.
        stored.boot_id.push('x');
        fs::write(&outer.file, serde_json::to_vec(&stored).unwrap()).unwrap();
        fs::write(&path, "128").unwrap();
        hold("0").undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "128");
    }

    #[test]
    fn a_change_that_fails_is_undone_and_reported() {
        let (home, journal) = journal();
        let path = setting(home.path(), "8192");
        let result = journal.hold(Undo::WriteFile { path: path.clone(), text: "8192".into() }, || {
            fs::write(&path, "half").unwrap();
            Err(Error::new(Exit::Machine, "no", ""))
        });
        assert_eq!(result.unwrap_err().what, "no");
        assert_eq!(fs::read_to_string(&path).unwrap(), "8192");
        assert_eq!(journal.leftovers().unwrap(), []);
    }

    #[test]
    fn an_undo_that_fails_stays_in_the_journal() {
        let (home, journal) = journal();
        let path = home.path().join("gone/setting");
        let entry = journal.hold(Undo::WriteFile { path: path.clone(), text: "1".into() }, || Ok(())).unwrap();
        assert!(entry.undo().is_err());
        let left = journal.leftovers().unwrap();
        assert_eq!(left.len(), 1);
        fs::create_dir(home.path().join("gone")).unwrap();
        mend(&left[0]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        assert_eq!(journal.leftovers().unwrap(), []);
        mend(&left[0]).unwrap();
    }

    #[test]
    fn without_a_place_for_the_journal_nothing_is_changed() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("journal"), "a file is in the way").unwrap();
        let result = Journal::at(home.path()).hold(Undo::RemoveTree { path: "/nowhere".into() }, || panic!("changed"));
        let error = result.unwrap_err();
        assert_eq!(error.exit, Exit::Machine);
        assert!(error.hint.unwrap().contains("THAW_STATE_DIR"));
    }

    #[test]
    fn other_boots_volatile_changes_are_only_forgotten() {
        let (home, journal) = journal();
        fs::create_dir_all(home.path().join("journal")).unwrap();
        let lasting = home.path().join("lasting");
        fs::write(&lasting, "x").unwrap();
        for (name, undo) in [
            ("1.json", Undo::WriteFile { path: "/sys/kernel/thaw-test-nowhere".into(), text: "1".into() }),
            ("2.json", Undo::RemoveTree { path: lasting.clone() }),
        ] {
            let stored = Stored { boot_id: "another".into(), pid: 1, pid_start_ticks: 1, created_unix_ns: 7, undo };
            fs::write(home.path().join("journal").join(name), serde_json::to_vec(&stored).unwrap()).unwrap();
        }
        let left = journal.leftovers().unwrap();
        assert_eq!(left.iter().map(|left| left.forgotten_by_reboot).collect::<Vec<_>>(), [false, true]);
        left.iter().for_each(|left| mend(left).unwrap());
        assert!(!lasting.exists());
        assert_eq!(journal.leftovers().unwrap(), []);
    }

    #[test]
    fn entries_of_other_versions_and_torn_entries_are_reported() {
        let (home, journal) = journal();
        fs::create_dir_all(home.path().join("journal")).unwrap();
        let newer =
            br#"{"boot_id":"b","pid":1,"pid_start_ticks":1,"created_unix_ns":7,"undo":{"kind":"fly-home","to":3}}"#;
        fs::write(home.path().join("journal/1.json"), newer).unwrap();
        fs::write(home.path().join("journal/2.json"), b"{\"boot_id\":").unwrap();
        fs::write(home.path().join("journal/3.json.new"), b"{").unwrap();
        let left = journal.leftovers().unwrap();
        assert_eq!(left.iter().map(|left| &left.undo).collect::<Vec<_>>(), [&Undo::Unknown, &Undo::Unknown]);
        assert!(mend(&left[0]).is_err());
        assert_eq!(journal.leftovers().unwrap().len(), 2);
        assert!(!home.path().join("journal/3.json.new").exists(), "an entry that was never finished is garbage");
    }

    #[test]
    fn paths_that_are_not_utf8_survive_json() {
        use std::os::unix::ffi::OsStrExt;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(b"/a\xffb"));
        for undo in [
            Undo::RestoreDirectory { pristine: path.clone(), live: "/live".into() },
            Undo::RemoveCgroup { paths: vec![path.clone(), "/plain".into()] },
        ] {
            let text = serde_json::to_string(&undo).unwrap();
            assert_eq!(serde_json::from_str::<Undo>(&text).unwrap(), undo, "{text}");
        }
    }

    /// What the process does that the next test starts (itself, again) and kills.
    fn hold_until_killed(home: &Path) -> ! {
        let path = home.join("read_ahead_kb");
        let _setting = hold(Undo::WriteFile { path: path.clone(), text: "8192".into() }, || {
            fs::write(&path, "128").unwrap();
            Ok(())
        })
        .unwrap();
        let _tree = hold(Undo::RemoveTree { path: home.join("copies") }, || {
            fs::create_dir_all(home.join("copies/deep")).unwrap();
            Ok(())
        })
        .unwrap();
        let _profile = hold_directory(&home.join("pristine"), &home.join("profile")).unwrap();
        fs::write(home.join("profile/tabs"), "one more").unwrap();
        println!("\nholding");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn what_a_killed_process_held_is_found_and_mended() {
        if let Some(home) = std::env::var_os("THAW_TEST_CHILD") {
            hold_until_killed(Path::new(&home));
        }
        let home = tempfile::tempdir().unwrap();
        setting(home.path(), "8192");
        fs::create_dir(home.path().join("profile")).unwrap();
        fs::write(home.path().join("profile/tabs"), "none").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "journal::tests::what_a_killed_process_held_is_found_and_mended", "--nocapture"])
            .env("THAW_TEST_CHILD", home.path())
            .env("THAW_STATE_DIR", home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "holding"), "the child did not get ready");

        let journal = Journal::at(home.path());
        assert_eq!(journal.leftovers().unwrap(), [], "the owner lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(home.path().join("read_ahead_kb")).unwrap(), "128");

        let left = journal.leftovers().unwrap();
        assert_eq!(left.len(), 3);
        assert!(matches!(left[0].undo, Undo::RestoreDirectory { .. }), "the newest comes first");
        assert!(left.iter().all(|left| left.pid == child.id() && !left.forgotten_by_reboot));
        left.iter().for_each(|left| mend(left).unwrap());
        assert_eq!(fs::read_to_string(home.path().join("read_ahead_kb")).unwrap(), "8192");
        assert_eq!(fs::read_to_string(home.path().join("profile/tabs")).unwrap(), "none");
        assert!(!home.path().join("copies").exists() && !home.path().join("pristine").exists());
        assert_eq!(journal.leftovers().unwrap(), []);
    }

    #[test]
    fn a_copy_that_was_cut_short_restores_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (live, pristine) = (home.path().join("live"), home.path().join("pristine"));
        fs::create_dir_all(&live).unwrap();
        fs::write(live.join("bookmarks"), "precious").unwrap();
        fs::create_dir(partial(&pristine)).unwrap();
        Undo::RestoreDirectory { pristine: pristine.clone(), live: live.clone() }.perform().unwrap();
        assert_eq!(fs::read_to_string(live.join("bookmarks")).unwrap(), "precious");
        assert!(!partial(&pristine).exists());
    }
}

//! Settings of the whole machine (a disk's read-ahead, a CPU's governor), and whose turn it is to use its caches.
//!
//! A setting has one value at a time, whoever asks for it and wherever that one keeps its state. So everybody who needs
//! a value *holds* it: by an entry in the journal below `/run/thaw` (root's, see [`machine_dir`]). Who needs the same
//! value shares it; who needs another one waits. The last to let go puts back what was there before the first. Those
//! who were killed count as gone, and their entries tell what was there before.
//!
//! Recordings that run at once take turns ([`Turn`]): a run that empties the caches must not do so under another one's.
//! Not for settings of what belongs to one process alone (its loop device, its control group): those are the journal's.

use super::journal::{Entry, Held, Journal, Undo, distrust, machine_dir};
use crate::filesystem::remove;
use crate::proc::value::read_value;
use model::{Error, Exit, Result, shown};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::Serialize;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often somebody who waits looks again.
const AGAIN: Duration = Duration::from_millis(20);

/// Who holds a setting, at which value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The number of the process.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// The file of the setting.
    pub setting: String,
    /// The value that it needs.
    pub value: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "process {} ({}) needs {} at {}", self.pid, self.command, self.setting, self.value)
    }
}

/// How long to wait for others, and how to say that one does.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Zero: refuse at once.
    pub limit: Duration,
    /// Told once per wait, and once when it is over.
    pub say: fn(&str),
}

impl Default for Wait {
    fn default() -> Self {
        Self { limit: Duration::from_secs(3600), say: |_| {} }
    }
}

impl Wait {
    /// Tries until it works; `attempt` says who is in the way.
    fn until<T>(self, what: &str, mut attempt: impl FnMut() -> Result<std::result::Result<T, String>>) -> Result<T> {
        let began = Instant::now();
        let mut waits = false;
        loop {
            let who = match attempt()? {
                Ok(got) => {
                    if waits {
                        (self.say)(&format!("waited {:.0} s for {what}", began.elapsed().as_secs_f64()));
                    }
                    return Ok(got);
                }
                Err(who) => who,
            };
            if began.elapsed() >= self.limit {
                return Err(Error::new(Exit::Machine, format!("somebody else uses {what}"), "")
                    .because(who)
                    .hint("wait until it has ended; --wait 1h does so, --wait 0 refuses at once"));
            }
            if !waits {
                waits = true;
                (self.say)(&format!("waiting for {what}: {who}"));
            }
            crate::interrupt::check()?;
            std::thread::sleep(AGAIN);
        }
    }
}

/// A value that is held. Dropping it lets go: the last one puts back what was there before the first.
#[derive(Debug)]
pub struct Hold {
    entry: Entry,
    path: PathBuf,
    value: String,
}

impl Hold {
    /// Holds a setting at a value, or (`None`) at the one that is there: nobody changes it from then on.
    ///
    /// # Errors
    /// Somebody needs another value for longer than `wait` says; the setting cannot be written or does not take the
    /// value; no journal can be kept. Nothing is changed then.
    pub fn take(path: &Path, value: Option<&str>, wait: Wait) -> Result<Self> {
        let what = format!("the setting {}", shown(path));
        wait.until(&what, || {
            let _registry = Registry::lock()?;
            let held = held(path)?;
            let value = value.map_or_else(|| present(path), |value| Ok(value.to_owned()))?;
            let other = held.iter().find(|held| is_of_others(held) && (held.for_a_run || held.value != value));
            match other {
                Some(other) => Ok(Err(holder(other).to_string())),
                None => Self::enter(path, &value, &held, false).map(Ok),
            }
        })?
        .in_force()
    }

    /// Another value for one run, during an exclusive [`Turn`]: nobody else's run can meet it.
    ///
    /// # Errors
    /// The setting cannot be written or does not take the value; no journal can be kept.
    pub fn for_a_run(path: &Path, value: &str, _turn: &Turn) -> Result<Self> {
        let registry = Registry::lock()?;
        let hold = Self::enter(path, value, &held(path)?, true)?;
        drop(registry);
        hold.in_force()
    }

    fn enter(path: &Path, value: &str, held: &[Held], for_a_run: bool) -> Result<Self> {
        let before = held.first().map_or_else(|| present(path), |first| Ok(first.before.clone()))?;
        let undo =
            Undo::LetGo { path: path.to_owned(), value: value.to_owned(), before, command: own_command(), for_a_run };
        let entry = Journal::machine().hold(undo, self::undo, || Ok(()))?;
        Ok(Self { entry, path: path.to_owned(), value: value.to_owned() })
    }

    /// Writes the value if it is not there. On failure the hold is let go.
    fn in_force(self) -> Result<Self> {
        set(&self.path, &self.value).map(|_| self)
    }

    /// Sees to it that the value is in force; `true` if somebody had changed it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn renew(&self) -> Result<bool> {
        set(&self.path, &self.value)
    }

    /// The file of the setting.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value that is held.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Lets go and says whether that worked.
    ///
    /// # Errors
    /// The value of before cannot be written; the entry stays for `thaw doctor`.
    pub fn undo(self) -> Result<()> {
        self.entry.undo()
    }
}

fn is_of_others(held: &Held) -> bool {
    held.alive && held.pid != std::process::id()
}

fn holder(held: &Held) -> Holder {
    Holder { pid: held.pid, command: held.command.clone(), setting: shown(&held.path), value: held.value.clone() }
}

/// Entries about one setting, the oldest first, those of killed processes too.
fn held(path: &Path) -> Result<Vec<Held>> {
    Ok(Journal::machine().held()?.into_iter().filter(|held| held.path == path).collect())
}

/// Who holds which settings just now.
///
/// # Errors
/// The journal is there and cannot be read.
pub fn holders() -> Result<Vec<Holder>> {
    Ok(Journal::machine().held()?.iter().filter(|held| held.alive).map(holder).collect())
}

/// Lets go of what an entry holds.
pub(super) fn undo(undo: &Undo, entry: &Path) -> Result<()> {
    match undo {
        Undo::LetGo { path, value, before, .. } => let_go(entry, path, value, before),
        other => Err(other.is_of_another_hand()),
    }
}

/// Takes an entry out of the count: what the others need is in force afterwards, or what was there before the first.
fn let_go(entry: &Path, path: &Path, value: &str, before: &str) -> Result<()> {
    let _registry = Registry::lock()?;
    let others: Vec<Held> = held(path)?.into_iter().filter(|held| held.file != entry).collect();
    if let Some(other) = others.iter().find(|held| held.alive) {
        return set(path, &other.value).map(drop);
    }
    // Who held what was there has nothing to put back.
    if value != before {
        set(path, before)?;
    }
    // Those of killed processes wanted the same.
    others.iter().try_for_each(|dead| {
        remove(&dead.file).map_err(|cause| Error::on(Exit::Machine, "cannot remove", &dead.file).because(cause))
    })
}

/// The value of a setting apart from single runs that need another one for themselves. `None`: it cannot be read.
pub fn lasting(path: &Path) -> Option<String> {
    let held: Vec<Held> = held(path).unwrap_or_default().into_iter().filter(|held| held.alive).collect();
    if !held.iter().any(|held| held.for_a_run) {
        return read_value(path);
    }
    let kept = held.iter().find(|held| !held.for_a_run).map(|held| &held.value);
    kept.or(held.first().map(|first| &first.before)).cloned()
}

fn present(path: &Path) -> Result<String> {
    read_value(path).ok_or_else(|| Error::on(Exit::Machine, "cannot read the setting", path))
}

/// `true`: it had to be written.
fn set(path: &Path, value: &str) -> Result<bool> {
    if present(path)? == value {
        return Ok(false);
    }
    fs::write(path, value).map_err(|cause| {
        Error::on(Exit::Machine, "cannot set", path)
            .because(cause)
            .hint("run as root, or leave the option out: the value that is there is then recorded")
    })?;
    match present(path)? {
        after if after == value => Ok(true),
        after => Err(Error::on(Exit::Machine, "the kernel does not take the setting", path)
            .because(format!("'{value}' was written, '{after}' is there"))),
    }
}

/// This process's command line, short enough for a message.
fn own_command() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ").chars().take(120).collect()
}

/// Whoever reads or changes the list of holders has this lock meanwhile.
struct Registry(#[expect(dead_code, reason = "it is the lock")] File);

impl Registry {
    fn lock() -> Result<Self> {
        let file = lock_file("lock")?;
        // Held for the time of a few small files.
        while let Err(cause) = rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            if cause != rustix::io::Errno::INTR {
                return Err(cannot(&machine_dir()).because(io::Error::from(cause)));
            }
        }
        Ok(Self(file))
    }
}

/// What a run does to the caches of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nothing: others that do nothing either may run at the same time.
    Beside,
    /// It empties them, or runs under a setting of its own: nobody else runs meanwhile.
    Alone,
}

/// A turn on the machine's caches; dropping it lets the next one go.
#[derive(Debug)]
pub struct Turn {
    _runs: File,
    share: Share,
}

impl Turn {
    /// Waits for one. Those who wait are served one after the other, so that many short turns cannot keep out a long
    /// one. `None`: this user has no part in it (the list is root's), and runs that were disturbed must be found
    /// afterwards.
    ///
    /// # Errors
    /// It took longer than `wait` says; interrupted; the directory is not root's alone.
    pub fn take(share: Share, wait: Wait) -> Result<Option<Self>> {
        let (Some(queue), Some(runs)) = (own_lock_file("queue")?, own_lock_file("runs")?) else { return Ok(None) };
        let try_lock = |file: &File, operation| match rustix::fs::flock(file, operation) {
            Ok(()) => Ok(Ok(())),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                Ok(Err("another thaw has a run under way that needs the machine's caches".to_owned()))
            }
            Err(cause) => Err(cannot(&machine_dir()).because(io::Error::from(cause))),
        };
        let operation = match share {
            Share::Beside => FlockOperation::NonBlockingLockShared,
            Share::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        let mut first = false;
        wait.until("its turn on the page cache", || {
            if !first {
                if let Err(who) = try_lock(&queue, FlockOperation::NonBlockingLockExclusive)? {
                    return Ok(Err(who));
                }
                first = true;
            }
            try_lock(&runs, operation)
        })?;
        Ok(Some(Self { _runs: runs, share }))
    }

    /// How it was taken.
    pub fn share(&self) -> Share {
        self.share
    }
}

/// `None`: this user cannot take part.
fn own_lock_file(name: &str) -> Result<Option<File>> {
    match lock_file(name) {
        Ok(file) => Ok(Some(file)),
        Err(_) if !rustix::process::geteuid().is_root() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file for locks. Only its owner opens it: whoever could would keep everybody waiting.
fn lock_file(name: &str) -> Result<File> {
    let directory = make_directory()?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory.join(name), flags, Mode::RUSR | Mode::WUSR);
    opened.map(File::from).map_err(|cause| cannot(&directory).because(io::Error::from(cause)))
}

/// Makes the directory, and refuses one that is not this user's alone.
fn make_directory() -> Result<PathBuf> {
    let directory = machine_dir();
    let made = DirBuilder::new().recursive(true).mode(0o755).create(&directory);
    made.map_err(|cause| cannot(&directory).because(cause))?;
    match distrust(&directory) {
        None => Ok(directory),
        Some(why) => Err(cannot(&directory).because(why)),
    }
}

fn cannot(directory: &Path) -> Error {
    Error::on(Exit::Machine, "settings of the machine cannot be held in", directory)
        .hint("run thaw as root; the directory must be root's, and nobody else may write to it")
}

//! A scratch folder and a command: `scratch.thaw(["report", "x.thaw"]).exits(0).says("starts in")`.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Dropping the machine's caches under another test's hot start would make that start read. Hot starts go beside each
/// other.
static MACHINE: RwLock<()> = RwLock::new(());

/// The verbs that evict files which every program needs, or whose result depends on nobody doing that meanwhile.
const EVICT: [&str; 9] = ["record", "why", "ablate", "sweep", "bisect", "optimize", "flush", "frag", "pageload"];

thread_local! {
    /// How many [`Alone`]s this test's thread has.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The machine's caches are this test's.
pub struct Alone(Option<RwLockWriteGuard<'static, ()>>);

impl Drop for Alone {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
        drop(self.0.take());
    }
}

/// Holds the machine's caches for one test at a time; who holds them may take them again.
pub fn alone() -> Alone {
    let first = HELD.replace(HELD.get() + 1) == 0;
    Alone(first.then(|| MACHINE.write().unwrap_or_else(|poisoned| poisoned.into_inner())))
}

/// Keeps the machine's caches as they are; nothing for a test that holds them for itself.
fn beside() -> Option<RwLockReadGuard<'static, ()>> {
    (HELD.get() == 0).then(|| MACHINE.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// The checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A folder on a disk, removed at the end, with thaw's own directories inside.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// On a disk: what lies in memory is never cold.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("thaw-test-").tempdir_in("/var/tmp").unwrap();
        for name in ["run", "state", "config"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// A path inside.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes a shell script that can be run.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        testing::write_script(&path, &format!("#!/bin/sh\n{body}\n"));
        path
    }

    /// thaw, about to be run in the folder.
    pub fn command(&self) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_thaw")))
    }

    /// The same by another path or another user's command line.
    pub fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("THAW_STATE_DIR", self.path("state"))
            .env("THAW_RUN_DIR", self.path("run"))
            .env("THAW_CACHE_DIR", self.path("cache"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null());
        // A shell without job control lets what it runs in the background ignore SIGINT, tests and what they start too.
        // SAFETY: one system call on a number between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        command
    }

    /// Runs thaw.
    pub fn thaw<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Said {
        let mut command = self.command();
        command.args(words);
        Said::of(command)
    }

    /// Runs thaw as user nobody, from a copy that this user may run. `None` where there is no setpriv or no root.
    pub fn thaw_as_nobody<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Option<Said> {
        if !testing::root_or_skip() {
            return None;
        }
        let setpriv = Path::new("/usr/bin/setpriv");
        if !setpriv.exists() {
            testing::skip("needs setpriv");
            return None;
        }
        let copy = self.path("thaw-for-all");
        if !copy.exists() {
            testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &copy);
            for (path, mode) in [("thaw-for-all", 0o755), ("run", 0o777), ("config", 0o755), ("", 0o777)] {
                std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
            }
            // A journal is its owner's alone.
            std::fs::create_dir(self.path("state-of-nobody")).unwrap();
            std::os::unix::fs::chown(self.path("state-of-nobody"), Some(65534), Some(65534)).unwrap();
        }
        let mut command = self.command_of(setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
        command.arg(&copy).args(words).env("HOME", self.path("run"));
        command.env("THAW_STATE_DIR", self.path("state-of-nobody"));
        Some(Said::of(command))
    }

    /// Names in a folder inside.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Nothing that thaw must undo is left: no journal entry, no run directory.
    pub fn nothing_left(&self) {
        assert_eq!(self.names("run"), Vec::<String>::new(), "directories of runs are left");
        let journal = self.path("state/journal");
        if journal.exists() {
            assert_eq!(self.names("state/journal"), Vec::<String>::new(), "journal entries are left");
        }
    }
}

impl Drop for Scratch {
    /// A test that failed between a `kill -9` and its mending must not leave the machine changed.
    fn drop(&mut self) {
        let left = std::fs::read_dir(self.path("state/journal")).map_or(0, Iterator::count);
        if left > 0 {
            let _ = self.command().args(["doctor", "--mend"]).output();
        }
    }
}

/// A child that does not outlive its test.
pub struct Mortal(pub Child);

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What thaw said and how it ended.
pub struct Said {
    words: String,
    output: Output,
}

impl Said {
    /// Runs a command to its end; with the machine's caches to itself where the verb evicts.
    pub fn of(mut command: Command) -> Self {
        let given: Vec<&OsStr> = command.get_args().collect();
        let says = |words: &[&str]| given.iter().any(|word| words.iter().any(|verb| *word == *verb));
        let has = |option: &str, value: &str| given.windows(2).any(|pair| pair[0] == option && pair[1] == value);
        // These read a recording then, and start nothing.
        let reads = says(&["--from"]) && says(&["why", "ablate", "sweep"]);
        let is_hot = match says(&["ablate", "sweep"]) {
            true => !says(&["--state"]),
            false => says(&["record"]) && has("--state", "hot") && has("--needed", "no"),
        };
        let evicts = says(&EVICT) && !reads;
        let _alone = (evicts && !is_hot).then(alone);
        let _beside = (evicts && is_hot).then(beside);
        let words = format!("{command:?}");
        Self { output: command.output().unwrap(), words }
    }

    /// The exit code; `None`: a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// stdout.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// stderr.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The exit code is this one.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.output.status.code(), Some(code), "{}", self.framed());
        self
    }

    /// stdout has this text.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.out().contains(part), "stdout lacks '{part}'\n{}", self.framed());
        self
    }

    /// stdout does not have this text.
    #[track_caller]
    pub fn says_not(self, part: &str) -> Self {
        assert!(!self.out().contains(part), "stdout has '{part}'\n{}", self.framed());
        self
    }

    /// stderr has this text.
    #[track_caller]
    pub fn complains(self, part: &str) -> Self {
        assert!(self.err().contains(part), "stderr lacks '{part}'\n{}", self.framed());
        self
    }

    /// stderr has a hint with this text.
    #[track_caller]
    pub fn hints(self, part: &str) -> Self {
        let found = self.err().lines().any(|line| line.starts_with("hint: ") && line.contains(part));
        assert!(found, "no hint has '{part}'\n{}", self.framed());
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.output.stdout).unwrap_or_else(|error| panic!("{error}\n{}", self.framed()))
    }

    /// Everything, for the message of a failing test.
    pub fn framed(&self) -> String {
        format!(
            "--- {}\n--- exit {:?}\n--- stdout\n{}\n--- stderr\n{}\n---",
            self.words,
            self.output.status,
            self.out(),
            self.err()
        )
    }
}

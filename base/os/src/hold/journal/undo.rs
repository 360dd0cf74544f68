//! What an entry of the journal says: which change is to be undone. How that is done is for those to know who make such
//! changes; see [`Hand`].

use super::paths::{path_text, paths_text};
use model::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Undoes changes of one kind: given what the entry says, and the entry's file. Undoing twice must do no harm.
/// Whoever makes changes hands it over with each ([`super::Journal::hold`]), so that the journal knows none of them.
pub(crate) type Hand = fn(&Undo, &Path) -> Result<()>;

/// How a change is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Undo {
    /// Write this text into this file (a sysfs or procfs setting).
    WriteFile {
        /// The file of the setting.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// What it held before.
        text: String,
    },
    /// Let go of a setting of the whole machine; the last who does puts back what was there before the first.
    LetGo {
        /// The file of the setting.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// The value that is needed.
        value: String,
        /// What it held before anybody needed another value.
        before: String,
        /// Who needs it: a command line.
        command: String,
        /// For one run that nobody else's meets, beside what is held for the whole recording.
        for_a_run: bool,
    },
    /// Kill everything in these control groups and remove them.
    RemoveCgroup {
        /// The directories of one group, one for each hierarchy.
        #[serde(with = "paths_text")]
        paths: Vec<PathBuf>,
    },
    /// Make `live` equal to `pristine`, then remove `pristine`. [`hold_directory`](crate::journal::hold_directory)
    /// sees to it that `pristine` is whole or not there: nothing is restored from half a copy.
    RestoreDirectory {
        /// The copy, complete if it is there at all.
        #[serde(with = "path_text")]
        pristine: PathBuf,
        /// The directory that a program changes.
        #[serde(with = "path_text")]
        live: PathBuf,
    },
    /// Remove a directory tree (or a file).
    RemoveTree {
        /// The tree, or the file.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Remove a file that was not finished.
    RemoveFile {
        /// The file, or what has its name: nothing is followed.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Unmount what is mounted at a place of thaw's own, remove that directory, and a note of what it is beside it.
    Unmount {
        /// The directory.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// The file that says what is mounted there.
        #[serde(with = "path_text")]
        note: PathBuf,
    },
    /// Remove a tracefs instance.
    RemoveTracefsInstance {
        /// Its name below `instances/`.
        name: String,
    },
    /// Remove tracepoints that thaw defined at places of programs.
    RemoveUprobes {
        /// Their group in tracefs.
        group: String,
    },
    /// End a helper process of thaw that ends by itself unless somebody still uses it.
    EndProcess {
        /// The number of the helper.
        pid: u32,
        /// When it started, in clock ticks since boot: another process may get the same number later.
        start_ticks: u64,
        /// What it is, for people.
        what: String,
    },
    /// Put code of a running process back that was replaced by jumps to thaw's guest in it.
    #[cfg(target_arch = "x86_64")]
    PutBackCode {
        /// The number of the process.
        pid: u32,
        /// When it started, in clock ticks since boot.
        start_ticks: u64,
        /// What was there, and where.
        places: Vec<crate::ptrace::Replaced>,
    },
    /// An entry that this version of thaw cannot read.
    #[serde(other)]
    Unknown,
}

impl Undo {
    /// An entry came to a hand that undoes another kind of change.
    pub(crate) fn is_of_another_hand(&self) -> Error {
        Error::bug(format!("whoever was asked cannot {self}"))
    }

    /// Whether the change is gone by itself after a reboot.
    pub(super) fn is_volatile(&self) -> bool {
        match self {
            Self::WriteFile { path, .. } | Self::LetGo { path, .. } => {
                ["/sys", "/proc", "/dev"].iter().any(|place| path.starts_with(place))
            }
            Self::RemoveCgroup { .. }
            | Self::Unmount { .. }
            | Self::RemoveTracefsInstance { .. }
            | Self::RemoveUprobes { .. }
            | Self::EndProcess { .. } => true,
            #[cfg(target_arch = "x86_64")]
            Self::PutBackCode { .. } => true,
            Self::RestoreDirectory { .. } | Self::RemoveTree { .. } | Self::RemoveFile { .. } | Self::Unknown => false,
        }
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteFile { path, text } => {
                write!(out, "set {} back to '{}'", path.display(), text.trim_end())
            }
            Self::LetGo { path, value, before, .. } if value == before => {
                write!(out, "let go of {}, which stayed at '{value}'", path.display())
            }
            Self::LetGo { path, before, .. } => {
                write!(out, "set {} back to '{before}' once nobody needs another value", path.display())
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
            Self::Unmount { path, .. } => write!(out, "unmount {}", path.display()),
            Self::RemoveTracefsInstance { name } => write!(out, "remove the tracefs instance {name}"),
            Self::RemoveUprobes { group } => write!(out, "remove the uprobes {group}"),
            Self::EndProcess { pid, what, .. } => write!(out, "end {what} (process {pid})"),
            #[cfg(target_arch = "x86_64")]
            Self::PutBackCode { pid, .. } => write!(out, "take the hooks of a heap recording out of process {pid}"),
            Self::Unknown => write!(out, "undo what this version of thaw cannot read"),
        }
    }
}

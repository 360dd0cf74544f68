//! What is known of a recording as a whole: `recording.json`, and which files beside it are believed.

use model::{Error, Exit, Nanos, Result, Warning, WarningKind};
use os::file::Access;
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// File name of what is known of the whole.
pub const FILE: &str = "recording.json";
const SCHEMA: &str = "thaw.heap/1";

/// What `recording.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Name and version of this document.
    pub schema: String,
    /// Version of thaw that made it.
    pub thaw_version: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// Nanoseconds since 1970 (UTC).
    pub created_unix_ns: u64,
    /// Time stamp counter right before the start.
    pub start_ticks: u64,
    /// Its rate; `None`: not measured, because recording did not end properly.
    pub ticks_per_second: Option<f64>,
    /// Whether recording ended properly: all processes had ended, or their hooks were taken out.
    pub finished: bool,
    /// Whether the program was running already when recording began.
    #[serde(default)]
    pub attached: bool,
    /// How long a process that was running already was stopped for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Pauses>,
    /// Whether processes were looked at when they exited ([`crate::check`]).
    #[serde(default)]
    pub leak_check: bool,
    /// Exit code of the first process, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Its CPU time and that of the children that it waited for, seconds.
    pub cpu_s: Option<f64>,
    /// Largest resident set of one of these, bytes.
    pub max_rss_bytes: Option<u64>,
    /// Why there is no stream.
    pub nothing: Option<String>,
    /// Processes that were started and left none.
    #[serde(default)]
    pub unseen: Vec<Unseen>,
    /// How many more began to be recorded and left nothing.
    #[serde(default)]
    pub missing: u64,
    /// Processes that were still running when recording ended.
    pub running: Vec<u32>,
}

/// How long the threads of a process were stopped to begin and end its recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// Threads that it had.
    pub threads: usize,
    /// How often all of them were stopped.
    pub times: u32,
    /// For how long together.
    pub all_ns: Nanos,
    /// The longest of these.
    pub longest_ns: Nanos,
    /// One thread alone, which loaded the guest, while the others ran.
    pub borrowed_ns: Nanos,
}

impl Pauses {
    /// All threads were stopped once more, and go on again after this time.
    pub fn all(&mut self, took: Nanos) {
        self.longest_ns = self.longest_ns.max(took);
        self.all_ns = Nanos(self.all_ns.0 + took.0);
        self.times += 1;
    }
}

impl Recording {
    /// What is known when a recording begins.
    pub fn begin(version: &str, command: Vec<String>, cwd: String, start_ticks: u64) -> Self {
        Self {
            schema: SCHEMA.into(),
            thaw_version: version.into(),
            command,
            cwd,
            created_unix_ns: os::machine::now_unix_ns(),
            start_ticks,
            ticks_per_second: None,
            finished: false,
            attached: false,
            stopped: None,
            leak_check: false,
            code: None,
            signal: None,
            cpu_s: None,
            max_rss_bytes: None,
            nothing: None,
            unseen: Vec::new(),
            missing: 0,
            running: Vec::new(),
        }
    }

    /// Reads it.
    ///
    /// # Errors
    /// No recording, or of another version.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        let text = fs::read(&path).map_err(|cause| none(directory, cause))?;
        let bad = |cause: String| {
            Error::on(Exit::Data, "not the head of a heap recording", &path)
                .because(cause)
                .hint("record it again, or copy it again if it is a copy")
        };
        let recording: Self = serde_json::from_slice(&text).map_err(|cause| bad(cause.to_string()))?;
        if recording.schema != SCHEMA {
            let why = format!("it is {}, this thaw reads {SCHEMA}", recording.schema);
            return Err(bad(why).hint("the thaw that made it reads it"));
        }
        Ok(recording)
    }

    /// Writes it.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::bug(format!("cannot make JSON: {error}")))?;
        os::replace::write_whole(&directory.join(FILE), &text, Rights::Private, Existing::Replace)
    }
}

/// Why there is no heap recording at a path, and what reads what is there instead.
fn none(path: &Path, cause: std::io::Error) -> Error {
    let error = Error::on(Exit::of_unreadable(&cause), "no heap recording", path);
    let error = if path.is_file() {
        error.because("it is a file; heap recordings are directories")
    } else {
        error.because(cause)
    };
    error.hint("make one: thaw heap run -- PROGRAM")
}

/// A process that was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// Path of the program that it executed.
    pub file: String,
    /// Why it was not recorded.
    pub why: String,
}

/// Numbers that a warning names.
const NAMED: usize = 5;

/// What is said of them: those of one file and reason together. `missing`: others, of which nothing is known.
pub(crate) fn unseen_warnings(unseen: &[Unseen], missing: u64) -> Vec<Warning> {
    let mut alike: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for process in unseen {
        alike.entry(&process.why).or_default().push(process.pid.to_string());
    }
    let text = |(why, pids): (&str, Vec<String>)| {
        let named = pids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        match pids.len() {
            1 => format!("process {named} was not recorded: {why}"),
            count @ 2..=NAMED => format!("{count} processes ({named}) were not recorded: {why}"),
            count => format!("{count} processes ({named}, ...) were not recorded: {why}"),
        }
    };
    let unknown = (missing > 0).then(|| {
        let text = format!("{missing} more process images began to be recorded and left nothing; why is unknown");
        Warning::new(WarningKind::LostRecords, text)
    });
    alike.into_iter().map(|alike| Warning::new(WarningKind::Note, text(alike))).chain(unknown).collect()
}

/// Opens a file of a recording, if it is what it seems to be: one file, of the same owner as the directory, and no way
/// to another file.
///
/// # Errors
/// Why it is not believed.
pub fn believed(directory: &fs::Metadata, path: &Path, access: Access) -> std::io::Result<File> {
    let file = os::file::open_unlinked(path, access)?;
    let owner = file.metadata()?.uid();
    match owner == directory.uid() {
        true => Ok(file),
        false => Err(std::io::Error::other(format!(
            "it belongs to user {owner}, and the recording to user {}",
            directory.uid()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_alike_are_said_together() {
        let unseen = |pid, why: &str| Unseen { pid, file: "/x".into(), why: why.into() };
        let all: Vec<Unseen> = (1..=7).map(|pid| unseen(pid, "/x is b")).chain([unseen(9, "/x is a")]).collect();
        let texts: Vec<String> = unseen_warnings(&all, 2).into_iter().map(|warning| warning.text).collect();
        assert_eq!(
            texts,
            [
                "process 9 was not recorded: /x is a",
                "7 processes (1, 2, 3, 4, 5, ...) were not recorded: /x is b",
                "2 more process images began to be recorded and left nothing; why is unknown"
            ]
        );
    }
}

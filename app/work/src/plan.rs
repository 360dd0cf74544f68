//! What a recording is to be, as a value: what `app/cli` makes of the typed arguments, and what is kept of it in the
//! recording.

pub mod stored;

use crate::rundir;
use bench::record::{LabOptions, Program};
use bench::schedule::Plan as Schedule;
use disk::preset::Preset as Disk;
use disk::simulated::{Image, Pace};
use io::EngineChoice;
use model::{Bytes, CacheState, OwnerRule, Result, Warning};
use os::user::Account;
use recording::{Header, Replace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether a start without read-ahead is taken, which tells what a start needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Needed {
    /// Where root can empty the caches and trace; what goes wrong is a warning.
    #[default]
    Auto,
    /// Yes; what goes wrong is an error.
    Yes,
    /// No.
    No,
}

/// How often a run is tried that was not in its state.
pub const ATTEMPTS: u32 = 4;
/// How long it waits for others to let go of the program's files before the second try: 2 s, then 6, then 18.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What `record` will do.
#[derive(Debug)]
pub struct RecordPlan {
    /// Where the recording goes.
    pub output: PathBuf,
    /// What may be replaced there.
    pub replace: Replace,
    /// The programs; {profile}, {tmp} and {home} are not filled in yet.
    pub programs: Vec<Program>,
    /// Directories of the preset that belong to the program, placeholders unfilled.
    pub own: Vec<(OsString, OwnerRule)>,
    /// A placeholder asks for directories that thaw makes.
    pub needs_run_dir: bool,
    /// What is run, in which order.
    pub schedule: Schedule,
    /// How the machine is set up; paths are not filled in yet.
    pub lab: LabOptions,
    /// The disk to start from, if it is not the machine's own.
    pub disk: Option<DiskPlan>,
    /// What to trace with.
    pub engine: EngineChoice,
    /// Whether to take a start without read-ahead.
    pub needed: Needed,
    /// Which events of the traced starts are recorded; `None`: none.
    pub events: Option<EventsPlan>,
    /// Whether to take down where the time of the traced starts goes.
    pub why: bool,
    /// Whether to watch the loader, in a start of each program of its own.
    pub loader: bool,
    /// For the recording: decides what the report says later.
    pub asked: Asked,
    /// What was typed, for the recording.
    pub command_line: Vec<OsString>,
    /// Whom the programs run as; `None`: as thaw.
    pub user: Option<Account>,
    /// What is to be said of that.
    pub warnings: Vec<Warning>,
}

/// Events of traced starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsPlan {
    /// Files that the program writes, in any form that `timeline` reads; {profile}, {tmp} and {home} are not filled in
    /// yet. Events of `embed/events` are recorded always.
    pub files: Vec<PathBuf>,
}

/// A simulated disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskPlan {
    /// Its figures.
    pub preset: Disk,
    /// Where they may stand, beside thaw's own.
    pub disks_file: Option<PathBuf>,
    /// How it answers while a run is measured.
    pub pace: Pace,
    /// What is on it beside the program's own directories.
    pub include: Vec<PathBuf>,
    /// Where its bytes are kept.
    pub image: Image,
    /// The kernel's read-ahead on it.
    pub read_ahead_kib: u64,
}

/// What was asked for, as it is kept in the recording. Fields that another version of thaw did not know have defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Name of the preset.
    pub app: Option<String>,
    /// Cache states.
    pub states: Vec<CacheState>,
    /// `--runs`
    pub runs: u32,
    /// `--precision`, as a share.
    pub precision: Option<f64>,
    /// `--budget`, seconds.
    pub budget_s: Option<f64>,
    /// `--aa`
    pub aa: bool,
    /// `thaw ablate`: what was taken away in which variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ablation: Option<Ablation>,
    /// `thaw sweep --cycles`: nothing was put back between the starts.
    pub cycles: bool,
    /// Probes, the one that stops the clock first.
    pub ready: Vec<String>,
    /// `--timeout`, seconds.
    pub timeout_s: f64,
    /// `--grace`, seconds.
    pub grace_s: f64,
    /// Directories put back before every run.
    pub restore: Vec<String>,
    /// `--disk NAME` or `--disk quick:NAME`
    pub disk: Option<String>,
    /// `--disk-include`
    pub disk_include: Vec<String>,
    /// Limit on requests per second.
    pub throttle_iops: Option<u64>,
    /// Limit on bytes per second.
    pub throttle_bps: Option<u64>,
    /// `--readahead`, KiB.
    pub readahead_kib: Option<u64>,
    /// `--cpu steady`
    pub steady_cpu: bool,
    /// `--base`: files of the base lists.
    pub base_lists: Vec<String>,
    /// `--engine`
    pub engine: String,
    /// `--trace-runs`
    pub trace_runs: u32,
    /// `--warmup`, above 1.
    pub warmup: Option<u32>,
    /// `--max-runs`
    pub max_runs: Option<u32>,
    /// `--shell`
    pub shell: Option<String>,
    /// `--setup`
    pub setup: Vec<String>,
    /// `--prepare`
    pub prepare: Vec<String>,
    /// `--conclude`
    pub conclude: Vec<String>,
    /// `--cleanup`
    pub cleanup: Vec<String>,
    /// `--pty`
    pub pty: bool,
    /// Name of the user as whom the programs ran.
    pub user: Option<String>,
}

/// What was taken away in which variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// How the factors are combined.
    pub design: ablate::design::Design,
    /// What can be taken away.
    pub factors: Vec<ablate::factor::Factor>,
    /// Of each variant, which factors are there.
    pub cells: Vec<ablate::design::Cell>,
}

/// Fields of [`Asked`] that change how much is known, not what is measured.
const ABOUT_EFFORT: [&str; 10] =
    ["warmup", "max_runs", "runs", "precision", "budget_s", "timeout_s", "grace_s", "engine", "trace_runs", "needed"];

impl Asked {
    /// What changes the meaning of a figure, by name. All fields but those about effort, so that one that is added
    /// later is looked at too; `aa` and the order of states change nothing.
    pub fn setup(&self) -> BTreeMap<String, String> {
        let mut asked = self.clone();
        asked.states.sort();
        asked.aa = false;
        let fields = match serde_json::to_value(asked) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => unreachable!("a structure of plain fields is a JSON object"),
        };
        fields
            .into_iter()
            .filter(|(name, value)| !ABOUT_EFFORT.contains(&name.as_str()) && !value.is_null())
            .map(|(name, value)| match value {
                serde_json::Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .collect()
    }
}

/// Programs that a verb of thaw wants to have recorded: with everything that belongs to them, as values.
#[derive(Debug)]
pub struct Handed {
    /// The programs, nothing to be filled in; their names differ.
    pub programs: Vec<Program>,
    /// Directories whose files are the programs' own.
    pub own: Vec<PathBuf>,
}

/// What `app/cli` makes of words: plans of recordings.
pub trait Plans {
    /// How this recording was made.
    ///
    /// # Errors
    /// Its plan is not understood any more, or it was made by another verb.
    fn of_recording(&self, recording: &Path, header: &Header) -> Result<RecordPlan>;

    /// How these copies are to be recorded.
    ///
    /// # Errors
    /// The disk is none.
    fn of_copies(&self, wanted: Wanted) -> Result<RecordPlan>;
}

/// A recording of copies.
pub struct Wanted {
    /// Where it goes.
    pub output: PathBuf,
    /// Of which files nothing is in memory.
    pub states: Vec<CacheState>,
    /// Timed runs of each.
    pub runs: u32,
    /// Traced runs of each.
    pub trace_runs: u32,
    /// Read-ahead of the disk, in bytes; `None`: as it is.
    pub read_ahead: Option<Bytes>,
    /// As `--disk` has it.
    pub disk: Option<String>,
    /// What lies on a simulated disk beside the program's own directories.
    pub include: Vec<PathBuf>,
    /// As whom the programs run; `None`: as thaw.
    pub user: Option<u32>,
    /// The programs.
    pub handed: Handed,
}

/// Whether a placeholder in words, variables or directories asks for directories that thaw makes.
pub fn needs_run_dir(programs: &[Program]) -> bool {
    let of_program = |program: &Program| {
        let words = program.argv.iter().chain(program.env.iter().filter_map(|(_, value)| value.as_ref()));
        let restore = program.restore.iter().map(|path| path.as_os_str());
        let mut around = program.around.clone();
        let mut lines = around.lines().map(|line| rundir::is_needed_by(line));
        lines.any(|needed| needed) || words.map(OsString::as_os_str).chain(restore).any(rundir::is_needed_by)
    };
    programs.iter().any(of_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_another_version_is_read_with_defaults() {
        let asked: Asked = serde_json::from_str(r#"{"runs": 7, "from_the_future": true}"#).unwrap();
        assert_eq!(asked.runs, 7);
    }
}

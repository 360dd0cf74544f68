//! What a recording is to be, as a value: what `app/cli` makes of the typed arguments, and what is kept of it in the
//! recording.

use bench::record::{LabOptions, Program};
use bench::schedule::Plan as Schedule;
use disk::preset::Preset as Disk;
use disk::simulated::{Image, Pace};
use io::EngineChoice;
use model::{CacheState, Error, Exit, OwnerRule, Result, Warning};
use os::replace::{Existing, Rights, write_whole};
use os::user::Account;
use recording::Replace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
    /// For the recording: decides what the report says later.
    pub asked: Asked,
    /// What was typed, for the recording.
    pub command_line: Vec<OsString>,
    /// Whom the programs run as; `None`: as thaw.
    pub user: Option<Account>,
    /// What is to be said of that.
    pub warnings: Vec<Warning>,
}

/// A simulated disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskPlan {
    /// Its figures.
    pub preset: Disk,
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
    /// The base list's file.
    pub base: Option<String>,
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

/// Programs that one verb of thaw hands to the `record` that it starts: with everything that belongs to them, as
/// values.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handed {
    /// The programs, nothing to be filled in; their names differ.
    pub programs: Vec<Program>,
    /// Directories whose files are the programs' own.
    pub own: Vec<PathBuf>,
}

impl Handed {
    /// Reads what another thaw wrote.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = || Error::on(Exit::Data, "cannot read the programs in", path);
        let bytes = std::fs::read(path).map_err(|cause| wrong().because(cause))?;
        serde_json::from_slice(&bytes).map_err(|cause| wrong().because(cause))
    }

    /// Writes it for `thaw record --programs`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes =
            serde_json::to_vec(self).map_err(|cause| Error::bug(format!("cannot hand over programs: {cause}")))?;
        write_whole(path, &bytes, Rights::Private, Existing::Replace)
    }
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

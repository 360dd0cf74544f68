//! The plan of a recording: everything that is needed to make more runs as it made its own, as versioned JSON.
//!
//! It stands in column `plan` of table `header` under the key `how`, beside what the application keeps there for its
//! reports. Recordings that were made before it was there have only the words that were typed; for them
//! [`Plan::of_header`] says `None`. One process of thaw hands it to another in the same form.
//!
//! Nothing in it is a choice that is still to be made: names of presets, defaults and variables are filled in. Only
//! placeholders such as `{profile}` stand, because what they become is made anew for each recording.

use crate::Header;
use model::{Bytes, CacheState, Error, Exit, Nanos, OwnerRule, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The form that this thaw writes, and the only one that there is yet.
const SCHEMA: &str = "thaw.plan/1";

/// The key in the header's JSON.
const KEY: &str = "how";

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its form.
    pub schema: Schema,
    /// What is started; several are variants.
    pub programs: Vec<Planned>,
    /// Files and directories that belong to the programs, and which rule says so.
    pub own: Vec<(Word, OwnerRule)>,
    /// Name of the user whom the programs run as; `None`: as thaw.
    pub user: Option<String>,
    /// The states that each is started in.
    pub states: Vec<CacheState>,
    /// Timed runs of each program in each state; with `precision` the fewest.
    pub runs: u32,
    /// With `precision`: the most.
    pub most_runs: u32,
    /// Until half the width of each median's interval is below this share of it.
    pub precision: Option<f64>,
    /// No block of runs begins after this time.
    pub budget_ns: Option<Nanos>,
    /// Traced runs of each program.
    pub trace_runs: u32,
    /// Starts of a program before its first run that counts.
    pub warm_ups: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// How the machine is set up.
    pub machine: Machine,
    /// The simulated disk; `None`: the machine's own.
    pub disk: Option<Disk>,
    /// What to trace with: `auto`, `perf`, `tracefs`, `probe`.
    pub engine: String,
    /// Whether a start without read-ahead is taken: `auto`, `yes`, `no`.
    pub needed: String,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Its name in reports.
    pub name: String,
    /// Its words.
    pub argv: Vec<Word>,
    /// Changes of thaw's own environment; `None` removes the variable.
    pub env: Vec<(Word, Option<Word>)>,
    /// Where it starts; `None`: where thaw is.
    pub cwd: Option<Word>,
    /// Probes, the one that stops the clock first.
    pub ready: Vec<String>,
    /// Directories to put back before every run.
    pub restore: Vec<Word>,
    /// A run that is not ready by then has failed.
    pub timeout_ns: Nanos,
    /// Between SIGTERM and SIGKILL.
    pub grace_ns: Nanos,
    /// Where its output goes.
    pub output: Output,
    /// Exit codes that are a success; `None`: all, and signals.
    pub ok_exit: Option<Vec<i32>>,
    /// Files that lie over others for it alone: what is seen, and where.
    pub covers: Vec<(Word, Word)>,
    /// It is started as thaw and becomes the plan's user by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub becomes_user: bool,
    /// Lines that are run around its starts.
    pub around: Around,
    /// File with the paths that state `boot` warms; `None`: the system's libraries among its needs.
    pub base_list: Option<Word>,
}

/// Where a program's output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Two pipes.
    #[default]
    Pipe,
    /// A terminal.
    Pty,
}

/// Lines for a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Around {
    /// The shell; `None`: `/bin/sh`.
    pub shell: Option<Word>,
    /// Once, before the first start.
    pub setup: Option<Word>,
    /// Before each start.
    pub prepare: Option<Word>,
    /// After each start.
    pub conclude: Option<Word>,
    /// Once, after the last start.
    pub cleanup: Option<Word>,
}

/// How the machine is set up while programs are started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Read-ahead of its disks, KiB; `None`: as found.
    pub read_ahead_kib: Option<u64>,
    /// Limit on requests per second.
    pub throttle_iops: Option<u64>,
    /// Limit on bytes per second.
    pub throttle_bps: Option<Bytes>,
    /// What is done to the CPUs.
    pub cpu: Cpu,
    /// How long to wait for other recordings.
    pub wait_ns: Nanos,
}

/// What is done to the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cpu {
    /// Nothing.
    #[default]
    AsFound,
    /// Governor and idle states are held.
    Steady,
}

/// A simulated disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Its name among the disks of thaw and of `disks_file`.
    pub name: String,
    /// More disks to choose from.
    pub disks_file: Option<Word>,
    /// How it answers.
    pub answers: Answers,
    /// What is on it beside the program's own directories.
    pub include: Vec<Word>,
    /// Directory of the file that its bytes are kept in; `None`: in memory.
    pub image: Option<Word>,
    /// The kernel's read-ahead on it, KiB.
    pub read_ahead_kib: u64,
}

/// How a simulated disk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// As late as its model says.
    Model,
    /// At once.
    Quick,
}

impl Plan {
    /// Puts it into what is kept in the header: a JSON object of the application.
    ///
    /// # Errors
    /// What is kept is no object: a bug.
    pub fn put_into(&self, kept: &mut serde_json::Value) -> Result<()> {
        let plan = serde_json::to_value(self).map_err(|error| Error::bug(format!("cannot store the plan: {error}")))?;
        let kept = kept.as_object_mut().ok_or_else(|| Error::bug("what is kept of a plan is no object"))?;
        kept.insert(KEY.to_owned(), plan);
        Ok(())
    }

    /// The plan of a recording; `None`: it was made before plans were stored.
    ///
    /// # Errors
    /// Data: a newer thaw wrote it in another form, or it is damaged.
    pub fn of_header(header: &Header) -> Result<Option<Self>> {
        let Some(plan) = header.plan.get(KEY) else { return Ok(None) };
        let cannot = |cause: serde_json::Error| {
            Error::new(Exit::Data, "cannot understand the plan of the recording", "")
                .because(cause)
                .hint(format!("thaw {} wrote it: use that one, or record the program again", header.thaw_version))
        };
        Plan::deserialize(plan).map(Some).map_err(cannot)
    }
}

/// The form `thaw.plan/1`: any other word in its place is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schema;

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(SCHEMA)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        match String::deserialize(from)? {
            word if word == SCHEMA => Ok(Self),
            other => Err(de::Error::custom(format!("its form is '{other}', and this thaw knows '{SCHEMA}'"))),
        }
    }
}

/// A word of a command line or a path. In JSON it is text; one that is not UTF-8 is `{"hex": "ff00"}`, as in the
/// answers of queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(pub OsString);

impl Word {
    /// As a path.
    pub fn path(self) -> PathBuf {
        self.0.into()
    }
}

impl<T: Into<OsString>> From<T> for Word {
    fn from(word: T) -> Self {
        Self(word.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Shown {
    Text(String),
    Bytes { hex: String },
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => to.serialize_str(text),
            None => Shown::Bytes { hex: crate::nouns::hex(self.0.as_encoded_bytes()) }.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        match Shown::deserialize(from)? {
            Shown::Text(text) => Ok(Self(text.into())),
            Shown::Bytes { hex } => unhex(&hex)
                .map(|bytes| Self(OsString::from_vec(bytes)))
                .ok_or_else(|| de::Error::custom(format!("'{hex}' is no sequence of bytes in hexadecimal digits"))),
        }
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let value = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| Some((value(pair[0])? << 4 | value(pair[1])?) as u8);
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header(plan: serde_json::Value) -> Header {
        Header {
            thaw_version: "9.9.9".into(),
            created_unix_ns: 0,
            command_line: Vec::new(),
            cwd: "/".into(),
            environment: Vec::new(),
            plan,
            seed: 1,
        }
    }

    fn plan() -> Plan {
        let program = Planned {
            name: "app".into(),
            argv: vec!["app".into(), Word(OsString::from_vec(vec![b'x', 0xff]))],
            env: vec![("LANG".into(), Some("C".into())), ("DISPLAY".into(), None)],
            cwd: Some("/srv".into()),
            ready: vec!["line:Listening on".into()],
            restore: vec!["{profile}".into()],
            timeout_ns: Nanos(120_000_000_000),
            grace_ns: Nanos(5_000_000_000),
            output: Output::Pty,
            ok_exit: Some(vec![0, 3]),
            covers: vec![("/a".into(), "/b".into())],
            becomes_user: false,
            around: Around { prepare: Some("rm -rf cache".into()), ..Around::default() },
            base_list: Some("/tmp/base.list".into()),
        };
        Plan {
            schema: Schema,
            programs: vec![program],
            own: vec![("/srv/app".into(), OwnerRule::Option)],
            user: Some("www".into()),
            states: vec![CacheState::Cold, CacheState::Hot],
            runs: 10,
            most_runs: 1000,
            precision: Some(0.02),
            budget_ns: Some(Nanos(600_000_000_000)),
            trace_runs: 3,
            warm_ups: 2,
            seed: u64::MAX,
            machine: Machine {
                read_ahead_kib: Some(64),
                throttle_iops: Some(200),
                throttle_bps: Some(Bytes(30_000_000)),
                cpu: Cpu::Steady,
                wait_ns: Nanos(3_600_000_000_000),
            },
            disk: Some(Disk {
                name: "laptop2010".into(),
                disks_file: None,
                answers: Answers::Quick,
                include: vec!["/opt/x".into()],
                image: None,
                read_ahead_kib: 128,
            }),
            engine: "perf".into(),
            needed: "no".into(),
        }
    }

    #[test]
    fn a_plan_comes_back_from_the_header_beside_what_the_application_keeps_there() {
        let mut kept = json!({ "runs": 10 });
        plan().put_into(&mut kept).unwrap();
        assert_eq!(kept["runs"], 10);
        assert_eq!(kept["how"]["programs"][0]["argv"], json!(["app", { "hex": "78ff" }]));
        let text = serde_json::to_string(&kept).unwrap();
        let read = Plan::of_header(&header(serde_json::from_str(&text).unwrap())).unwrap();
        assert_eq!(read, Some(plan()));
        let mut later = plan();
        later.programs[0].becomes_user = true;
        later.put_into(&mut kept).unwrap();
        assert_eq!(Plan::of_header(&header(kept)).unwrap(), Some(later));
        assert_eq!(Plan::of_header(&header(json!({ "runs": 10 }))).unwrap(), None, "made before plans were stored");
        assert_eq!(plan().put_into(&mut json!(7)).unwrap_err().exit, Exit::Bug);
    }

    /// Recordings keep this form: who changes it writes another schema and reads this one on.
    #[test]
    fn the_form_is_the_one_of_its_first_day() {
        let first = include_str!("../../../fixtures/recording/plan-1.json");
        let mut kept: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!(Plan::of_header(&header(kept.clone())).unwrap(), Some(plan()));
        let stored = kept.clone();
        plan().put_into(&mut kept).unwrap();
        assert_eq!(kept, stored);
    }

    #[test]
    fn a_plan_of_another_form_is_refused_by_name() {
        let mut kept = json!({});
        plan().put_into(&mut kept).unwrap();
        kept["how"]["schema"] = "thaw.plan/2".into();
        let error = Plan::of_header(&header(kept.clone())).unwrap_err();
        assert!(error.cause.unwrap().to_string().contains("its form is 'thaw.plan/2'"));
        assert!(error.hint.unwrap().contains("thaw 9.9.9 wrote it"));
        for (field, value) in [("schema", json!(1)), ("programs", json!(7)), ("states", json!(["lukewarm"]))] {
            let mut damaged = json!({});
            plan().put_into(&mut damaged).unwrap();
            damaged["how"][field] = value;
            assert_eq!(Plan::of_header(&header(damaged)).unwrap_err().exit, Exit::Data, "{field}");
        }
    }

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(unhex("00fF"), Some(vec![0, 255]));
        assert_eq!((unhex("0"), unhex("0g"), unhex("")), (None, None, Some(vec![])));
    }
}

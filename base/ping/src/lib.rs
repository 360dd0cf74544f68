//! A ping: what one start of a program on one user's machine may tell, as one flat line of JSON. Strict to read, and
//! portable to SQL; and the spool where pings lie until they are sent. Sends nothing and measures nothing.

mod day;
mod parse;
mod schema;
pub mod spool;
mod words;

pub use day::Day;
pub use parse::{MOST_BYTES, Reason, Refused};
pub use schema::{Field, MOST_MILESTONES, SCHEMA, document, fields, is_allowed};
pub use words::{Cpus, Disk, Memory, Ready, Remedy, State};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One start. Every field has a bound; docs/ping.schema.json says why each is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// [`SCHEMA`].
    pub schema: String,
    /// 32 hexadecimal digits by chance, new for each ping.
    pub id: String,
    /// 32 hexadecimal digits by chance, the same until the user throws them away.
    pub machine: String,
    /// The program's name, as whoever packs it chose.
    pub app: String,
    /// Its version.
    pub version: String,
    /// The day in UTC: no finer time leaves the machine.
    pub day: String,
    /// How much of the start came from the disk.
    pub state: State,
    /// What stopped the clock.
    pub ready: Ready,
    /// Time from start to ready, µs.
    pub wall_us: u64,
    /// CPU time in the program, µs.
    pub user_us: u64,
    /// CPU time in the kernel, µs.
    pub system_us: u64,
    /// Page faults that read nothing.
    pub minor_faults: u64,
    /// Page faults that read.
    pub major_faults: u64,
    /// Bytes from the disk; `None` where the kernel does not tell.
    #[serde(deserialize_with = "parse::present")]
    pub read_bytes: Option<u64>,
    /// The largest resident memory, bytes.
    pub max_rss_bytes: u64,
    /// What the program reached on the way, µs from its start.
    #[serde(deserialize_with = "parse::milestones")]
    pub milestones: BTreeMap<String, u64>,
    /// How many CPUs.
    pub cpus: Cpus,
    /// How much memory.
    pub memory: Memory,
    /// The kind of disk.
    pub disk: Disk,
    /// Major and minor of the kernel's version.
    pub kernel: String,
    /// ID of os-release.
    pub distribution: String,
    /// Remedies of thaw that this start had, sorted.
    pub remedies: Vec<Remedy>,
}

impl Ping {
    /// Reads one ping, at the receiver's day.
    ///
    /// # Errors
    /// Anything that the schema does not allow, with the field and the reason.
    pub fn parse(line: &[u8], today: Day) -> Result<Self, Refused> {
        parse::parse(line, today)
    }

    /// Holds this ping to the schema's bounds.
    ///
    /// # Errors
    /// The first field that is out of them.
    pub fn check(&self, today: Day) -> Result<(), Refused> {
        parse::check(self, today)
    }

    /// The one way to write it: a line of JSON, its fields in the order of the schema, with its end of line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("words, numbers and a map of words");
        line.push('\n');
        line
    }
}

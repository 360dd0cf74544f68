//! What a recording says, as one value: the text and the JSON document are both made of it. Types without logic.
//!
//! JSON has base units (seconds, bytes) whatever the screen shows, and a `schema` field; a field is never renamed or
//! given another meaning under the same schema.

use crate::plan::Asked;
use bench::growth::Swept;
use model::{CacheState, Milestone, RunId, RunRow, Warning};
use serde::Serialize;
use std::collections::BTreeMap;

/// `thaw.report/1`: the answer of one recording.
#[derive(Debug, Serialize)]
pub struct ReportDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where it comes from.
    pub recording: Source,
    /// What was asked for.
    pub asked: Asked,
    /// The programs.
    pub variants: Vec<VariantDocument>,
    /// Three sentences: how long, where the time goes, what would help most.
    pub answer: Vec<String>,
    /// Times with their intervals.
    pub statistics: bench::report::Report,
    /// How the starts grow with each parameter that has enough values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Swept>,
    /// What the traced starts read: one trace of each variant.
    pub traces: Vec<TraceDocument>,
    /// The machine: subject, key, value.
    pub facts: BTreeMap<String, BTreeMap<String, String>>,
    /// The binaries that ran.
    pub binaries: Vec<BinaryDocument>,
    /// What makes the figures less certain.
    pub warnings: Vec<Warning>,
    /// What to type next.
    pub next: Vec<Next>,
    /// Every run, counted or not: for CSV. JSON has the counted ones in `statistics.cells[].samples`.
    #[serde(skip)]
    pub runs: Vec<(RunRow, Vec<Milestone>)>,
}

/// Where a document comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// The file.
    pub file: String,
    /// `false`: the recording was interrupted; it holds the runs that were finished.
    pub finished: bool,
    /// Nanoseconds since 1970 (UTC).
    pub created_unix_ns: u64,
    /// Version of thaw that made it.
    pub thaw_version: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// Where it was typed.
    pub cwd: String,
    /// Seed of all random choices.
    pub seed: u64,
}

/// A program that was started.
#[derive(Clone, Debug, Serialize)]
pub struct VariantDocument {
    /// Its name.
    pub name: String,
    /// Its words.
    pub argv: Vec<String>,
}

/// What one traced start read.
#[derive(Debug, Serialize)]
pub struct TraceDocument {
    /// The run.
    pub run: RunId,
    /// Name of its variant.
    pub variant: String,
    /// The state that it started in.
    pub state: CacheState,
    /// Its wall time until ready, seconds; not comparable with the timed runs.
    pub wall_s: Option<f64>,
    /// Traced runs of this variant in the recording.
    pub traced_runs: usize,
    /// What it read.
    pub report: io::Report,
    /// What its requests would have cost on disks of 2010. `None`: it made none.
    pub disks: Option<disk::report::Report>,
}

/// A binary that ran.
#[derive(Clone, Debug, Serialize)]
pub struct BinaryDocument {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// GNU build-id in hex.
    pub build_id: Option<String>,
}

/// A command and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Next {
    /// What to type.
    pub command: String,
    /// What it tells or does.
    pub why: String,
}

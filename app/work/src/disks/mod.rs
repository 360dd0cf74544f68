//! What another disk, or another order, would make of a recorded start.

mod model;
mod replay;

pub use self::model::{DisksDocument, ModelDocument, Modelled, ModelledStart, all, modelled};
pub use self::replay::{Fio, Replay, ReplayDocument, export, replay};

use crate::recorded::{self, Loaded};
use ::model::{Error, Exit, Nanos, Result, RunRow, TraceRows};
use recording::Reader;
use std::path::Path;

/// A traced start.
struct Start<'a> {
    row: &'a RunRow,
    variant: String,
    trace: TraceRows,
}

impl Start<'_> {
    fn length(&self) -> Nanos {
        recorded::length(&self.trace, self.row)
    }
}

/// The traced start of this run, or the one of each program that tells most.
fn starts<'a>(path: &Path, reader: &Reader, loaded: &'a Loaded, run: Option<i64>) -> Result<Vec<Start<'a>>> {
    let traced: Vec<&RunRow> = loaded.starts.all_traced().collect();
    let mut chosen: Vec<&RunRow> = match run {
        Some(run) => traced.iter().filter(|row| row.id.0 == run).copied().collect(),
        None => (0..).zip(&loaded.names).filter_map(|(variant, _)| loaded.starts.coldest(variant)).collect(),
    };
    chosen.sort_by_key(|row| row.id);
    if chosen.is_empty() {
        return Err(no_trace(path, &traced, run));
    }
    let name = |row: &RunRow| loaded.names.get(row.variant as usize).cloned().unwrap_or_default();
    chosen.into_iter().map(|row| Ok(Start { row, variant: name(row), trace: reader.trace(row.id)? })).collect()
}

fn no_trace(path: &Path, traced: &[&RunRow], run: Option<i64>) -> Error {
    let runs: Vec<String> = traced.iter().map(|row| row.id.0.to_string()).collect();
    match run.filter(|_| !traced.is_empty()) {
        Some(run) => Error::new(Exit::Usage, "this run was not traced, or does not count:", run)
            .hint(format!("the traced runs are {}", runs.join(", "))),
        None => Error::on(Exit::Data, "there is no traced start in the recording", path)
            .hint("record one: as root, `thaw record` traces a cold start; `thaw doctor` says what is missing"),
    }
}

//! A memory report of a program that reports nothing, from its heap recording and rules.

use crate::progress::Telling;
use heap::dark::explicit::{self, Explicit, Moment};
use heap::dark::rules::{Region, Rules};
use heapfile::reader::Reader;
use memory::{Kind, MemoryFile, Report, Units};
use model::{Error, Exit, Result, shown};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A report of all processes that had anything at the moment; `rules` go before those of thaw.
///
/// # Errors
/// The recording cannot be read; a rule cannot be used; nothing was live.
pub fn report(recording: &Path, rules: &[PathBuf], moment: Moment, told: &Telling<'_>) -> Result<MemoryFile> {
    let mut own = Vec::new();
    for path in rules {
        own.push(Rules::read(path)?);
    }
    own.push(Rules::shipped()?);
    let reader = Reader::open(recording)?;
    let mut progress = told();
    progress.note(&format!("reading {}", shown(recording)), Duration::ZERO);
    let trees = explicit::explicit(&reader, moment, &own)?;
    progress.done();
    if trees.processes.is_empty() {
        return Err(Error::on(Exit::No, "nothing was live at that moment in", recording)
            .hint(format!("thaw heap report {} says when there was", shown(recording))));
    }
    let mut file = MemoryFile::new(trees.processes.iter().flat_map(of_process).collect());
    file.thaw = trees.processes.iter().map(by_rule).collect();
    file.warnings.extend(trees.warnings);
    Ok(file)
}

/// `python3 (pid 12)`
fn name(process: &Explicit) -> String {
    let program = process.exe.rsplit('/').next().unwrap_or_default();
    format!("{program} (pid {})", process.pid)
}

fn of_process(process: &Explicit) -> Vec<Report> {
    let report = |path: &str, kind, units, amount: u64, description: &str| Report {
        process: name(process),
        path: path.to_owned(),
        kind,
        units,
        amount: i64::try_from(amount).unwrap_or(i64::MAX),
        description: description.to_owned(),
        presence: None,
    };
    let mut reports: Vec<Report> = process
        .leaves
        .iter()
        .map(|leaf| {
            let kind = match leaf.place {
                Region::Heap => Kind::Heap,
                Region::NonHeap => Kind::NonHeap,
            };
            report(&leaf.path, kind, Units::Bytes, leaf.sum.usable_bytes, &leaf.description)
        })
        .collect();
    let heap = &process.heap;
    let mut other =
        |path, units, amount, description| reports.push(report(path, Kind::Other, units, amount, description));
    other("heap-allocated", Units::Bytes, heap.usable_bytes, "What the allocator gave for all live blocks.");
    other("heap-requested", Units::Bytes, heap.requested_bytes, "What was requested for all live blocks.");
    other("heap-blocks", Units::Count, heap.blocks, "Live blocks.");
    let mapped = process.unclassified_non_heap.usable_bytes;
    other(
        "non-heap-unclassified",
        Units::Bytes,
        mapped,
        "Private writable mappings without a file that no rule fits; not all of it need be resident.",
    );
    reports
}

/// What each rule caught, for the report's list of findings; about:memory ignores it.
fn by_rule(process: &Explicit) -> serde_json::Value {
    json!({
        "schema": "thaw.memory-rules/1",
        "process": name(process),
        "at_ns": process.at_ns,
        "rules": process.caught
    })
}

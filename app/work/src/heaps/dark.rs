//! A recording beside what the program's own memory reporters know.

use crate::progress::Telling;
use heap::dark::{self, Amounts, Dark, Marks};
use heapfile::reader::Reader;
use memory::file::{self, MemoryFile};
use memory::{Kind, Units};
use model::{Error, Exit, Result, shown};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `thaw.heap-dark/1`.
#[derive(Debug, Serialize)]
pub struct DarkDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The recording.
    pub file: PathBuf,
    /// The memory report.
    pub reported: PathBuf,
    /// Each process whose blocks are in the report.
    pub processes: Vec<Dark>,
}

/// Compares a recording with what reporters know. `told` hears that it is read.
///
/// # Errors
/// The recording or the report cannot be read, or they are not of the same process.
pub fn dark(recording: &Path, reported: &Path, options: &dark::Options, told: &Telling<'_>) -> Result<DarkDocument> {
    let marks = marks(reported)?;
    let reader = Reader::open(recording)?;
    let mut progress = told();
    progress.note(&format!("reading {}", shown(recording)), Duration::ZERO);
    let processes = marks.iter().map(|marks| dark::analyze(&reader, marks, options)).collect::<Result<_>>()?;
    progress.done();
    Ok(DarkDocument {
        schema: "thaw.heap-dark/1",
        file: recording.to_owned(),
        reported: reported.to_owned(),
        processes,
    })
}

/// What reporters measured, by process.
///
/// # Errors
/// The report cannot be read, or does not list its blocks.
pub(super) fn marks(path: &Path) -> Result<Vec<Marks>> {
    let name = shown(path);
    let bytes = std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
    let report = file::parse(&bytes, &name)?;
    let mut marks = Vec::new();
    for value in &report.thaw {
        let process = value["process"].as_str().unwrap_or_default();
        marks.extend(Marks::parse(value, amounts(&report, process), &name)?);
    }
    if marks.is_empty() {
        return Err(Error::on(Exit::Data, "this memory report does not list its blocks:", path).hint(
            "thaw memory show --pid PID --blocks -o FILE, or the word blocks in THAW_MEMREPORT \
             (embed/memreport/README.md)",
        ));
    }
    Ok(marks)
}

/// What a process says of its heap as a whole.
fn amounts(report: &MemoryFile, process: &str) -> Option<Amounts> {
    let of = || report.reports.iter().filter(|report| report.process == process && report.units == Units::Bytes);
    let heap_allocated = of().find(|report| report.path == "heap-allocated")?.amount;
    let heap = of().filter(|report| report.kind == Kind::Heap && report.path.starts_with("explicit/"));
    Some(Amounts { heap_allocated, reported: heap.fold(0, |sum: i64, report| sum.saturating_add(report.amount)) })
}

//! The page of memory reports, watches and courses: the about:memory trees of reports and of their differences,
//! resident memory over time and by version. What the document holds is in `docs/view-format.md`;
//! `viewer/src/logic/memory.ts` reads it.
//!
//! Trees are whole: the page itself puts tiny nodes together. Long watches are thinned, and say so.

use crate::columns::{Column, Texts};
use crate::events::{Table, micros};
use crate::html;
use ::memory::course::AtCheckpoint;
use ::memory::tree::Process;
use ::memory::watch::{Checkpoint, Head, Pair, Resident, Sample, Watched};
use model::{Bytes, Error, Nanos, Result, Warning};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Version of what a page holds of memory reports and watches.
pub const MEMORY_SCHEMA: &str = "thaw.memory-view/1";

/// Samples of a watch that a page holds at most; marks come on top.
const MOST_SAMPLES: usize = 4000;

/// Trees of one report, or of the difference of two.
#[derive(Clone, Debug)]
pub struct TreesOf {
    /// A file, a checkpoint, or `difference`.
    pub name: String,
    /// Whether amounts are those of the second report less those of the first.
    pub difference: bool,
    /// Each with all nodes (`memory::tree::Detail::All`).
    pub processes: Vec<Process>,
    /// What was found out about the reporters, one value for each process.
    pub reporters: Vec<Value>,
    /// Rules of reporters that a report breaks.
    pub warnings: Vec<Warning>,
}

/// Resident memory of a process tree over time.
#[derive(Clone, Copy, Debug)]
pub struct WatchOf<'a> {
    /// Its file name.
    pub name: &'a str,
    /// Samples and checkpoints, by time.
    pub watched: &'a Watched,
}

/// Versions of a program at the checkpoints of a scenario.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CourseOf<'a> {
    /// The checkpoints, each with all versions.
    pub checkpoints: &'a [AtCheckpoint],
    /// By checkpoint and version: the index of their trees; `None`: there are none.
    pub trees: &'a [Vec<Option<usize>>],
}

/// All that a page shows.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOf<'a> {
    /// The program or file, for the title.
    pub name: &'a str,
    /// What is shown first stands first.
    pub trees: &'a [TreesOf],
    /// One watch, two that are compared, or one of each version of a course.
    pub watches: &'a [WatchOf<'a>],
    /// The checkpoints of two watches.
    pub pairs: &'a [Pair],
    /// Where the trees and watches are those of a course.
    pub course: Option<CourseOf<'a>>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    name: &'a str,
    trees: Vec<PackedTrees<'a>>,
    watches: Vec<PackedWatch<'a>>,
    pairs: &'a [Pair],
    course: Option<CourseOf<'a>>,
}

#[derive(Debug, Serialize)]
struct PackedTrees<'a> {
    name: &'a str,
    difference: bool,
    /// JSON of the processes: reports of browsers repeat themselves for megabytes.
    processes: Texts,
    reporters: &'a [Value],
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize)]
struct PackedWatch<'a> {
    name: &'a str,
    head: &'a Head,
    checkpoints: Vec<Checkpoint>,
    unseen: u32,
    /// Samples of the file; the page has those of `samples`.
    taken: usize,
    processes: Vec<ProcessName<'a>>,
    samples: Table,
    residents: Table,
}

#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy, Serialize)]
struct ProcessName<'a> {
    pid: u32,
    name: &'a str,
}

/// The page of memory reports and watches, as one HTML file.
///
/// # Errors
/// None that the caller can bring about.
pub fn memory_page(of: &MemoryOf<'_>) -> Result<String> {
    let bug = |error: serde_json::Error| Error::bug("cannot write the memory reports into the page").because(error);
    let trees = of.trees.iter().map(|trees| {
        let text = serde_json::to_string(&trees.processes).map_err(bug)?;
        Ok(PackedTrees {
            name: &trees.name,
            difference: trees.difference,
            processes: Texts::pack(std::iter::once(text.as_str())),
            reporters: &trees.reporters,
            warnings: &trees.warnings,
        })
    });
    let document = Document {
        schema: MEMORY_SCHEMA,
        name: of.name,
        trees: trees.collect::<Result<_>>()?,
        watches: of.watches.iter().map(packed_watch).collect(),
        pairs: of.pairs,
        course: of.course,
    };
    html::single(&format!("Memory: {} · thaw", of.name), "thaw memory show", "thaw-memory", &document)
}

fn packed_watch<'a>(of: &WatchOf<'a>) -> PackedWatch<'a> {
    let WatchOf { name, watched } = *of;
    let samples = thinned(&watched.samples);
    let mut numbers: HashMap<ProcessName<'_>, u64> = HashMap::new();
    let mut processes = Vec::new();
    let mut residents: Vec<(u64, u64, &Resident)> = Vec::new();
    for (number, sample) in (0u64..).zip(&samples) {
        for resident in &sample.processes {
            let process = ProcessName { pid: resident.pid, name: &resident.name };
            let fresh = processes.len() as u64;
            let known = *numbers.entry(process).or_insert(fresh);
            if known == fresh {
                processes.push(process);
            }
            residents.push((number, known, resident));
        }
    }
    let at: Vec<u64> =
        samples.iter().map(|sample| micros(Nanos(sample.at_ns.saturating_sub(watched.head.began_ns)))).collect();
    let column = |each: &dyn Fn(&(u64, u64, &Resident)) -> u64| residents.iter().map(each).collect::<Vec<u64>>();
    PackedWatch {
        name,
        head: &watched.head,
        checkpoints: watched.checkpoints(),
        unseen: watched.samples.iter().map(|sample| sample.unseen).max().unwrap_or(0),
        taken: watched.samples.len(),
        processes,
        samples: Table { count: samples.len(), columns: BTreeMap::from([("at", Column::delta(&at))]) },
        residents: Table {
            count: residents.len(),
            columns: BTreeMap::from([
                ("sample", Column::delta(&column(&|row| row.0))),
                ("process", Column::plain(&column(&|row| row.1))),
                ("rss", Column::plain(&column(&|row| row.2.rss.0))),
                ("pss", Column::plain(&column(&|row| row.2.pss.0))),
                ("uss", Column::plain(&column(&|row| row.2.uss.0))),
                ("swap", Column::plain(&column(&|row| row.2.swap.0))),
            ]),
        },
    }
}

/// At most [`MOST_SAMPLES`], and all marks: of each stretch of time the sample with the largest PSS.
fn thinned(samples: &[Sample]) -> Vec<&Sample> {
    if samples.len() <= MOST_SAMPLES {
        return samples.iter().collect();
    }
    let largest = |chunk: &[Sample]| -> Option<usize> {
        let totals: Vec<Bytes> = chunk.iter().map(|sample| sample.total().pss).collect();
        (0..chunk.len()).max_by_key(|index| totals[*index])
    };
    samples
        .chunks(samples.len().div_ceil(MOST_SAMPLES))
        .flat_map(|chunk| {
            let largest = largest(chunk);
            let kept = move |(index, sample): &(usize, &Sample)| Some(*index) == largest || sample.mark.is_some();
            chunk.iter().enumerate().filter(kept).map(|(_, sample)| sample)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_watch_keeps_its_peak_and_its_marks() {
        let sample = |at: u64| Sample {
            at_ns: at,
            processes: vec![Resident { pss: Bytes(if at == 7001 { 99 } else { at % 13 }), ..Resident::default() }],
            mark: (at == 5000).then(|| "loaded".into()),
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..10_000).map(sample).collect();
        let kept = thinned(&samples);
        assert!(kept.len() <= MOST_SAMPLES + 1 && kept.len() > MOST_SAMPLES / 2, "{}", kept.len());
        assert!(kept.iter().any(|sample| sample.at_ns == 7001) && kept.iter().any(|sample| sample.mark.is_some()));
        assert!(kept.is_sorted_by_key(|sample| sample.at_ns));
        assert_eq!(thinned(&samples[..100]).len(), 100);
    }
}

//! What a recorded start needed, in the words of `mend/preload`. The only place that knows where in a recording that stands.

use crate::document::Loaded;
use crate::plan::Asked;
use model::{
    Bytes, CacheState, Cause, Error, Exit, FileId, FileKind, FileOffset, Nanos, Result, RunId, RunKind, TraceRows,
};
use preload::make::Recorded;
use preload::manifest::Kind;
use preload::plan::{Extent, Piece};
use recording::Reader;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

/// How needs are known, the most exact last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// What was in memory after the start.
    Cached,
    /// What was read and what was mapped around faults.
    Asked,
    /// The pages that came into memory where nothing was read ahead.
    Exact,
}

impl Source {
    /// The word in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Asked => "asked",
            Self::Exact => "exact",
        }
    }
}

/// A read so small that its transfer takes no time.
const SMALL: Bytes = Bytes(16 << 10);
/// So many small reads tell what the disk is.
const ENOUGH: usize = 50;

/// What was needed.
pub struct Needed {
    /// The least exact way in which some of it is known.
    pub source: Source,
    /// The files.
    pub files: Vec<Recorded>,
    /// How the first recording was made.
    pub asked: Asked,
    /// Median time that a small read took on the disk; `None`: too few were seen.
    pub small_read: Option<Nanos>,
}

/// What any traced start of a variant needed that was not hot.
///
/// # Errors
/// There is no such variant, or a recording holds no such start.
pub fn of(recordings: &[PathBuf], variant: Option<&str>) -> Result<Needed> {
    let mut needed = Needed { source: Source::Exact, files: Vec::new(), asked: Asked::default(), small_read: None };
    let mut small_reads = Vec::new();
    // A file can stand for its file system too.
    let mut files: BTreeMap<(PathBuf, Kind), Recorded> = BTreeMap::new();
    for (number, path) in recordings.iter().enumerate() {
        let reader = Reader::open(path)?;
        let loaded = Loaded::of(path, &reader)?;
        for run in cold_traces(&reader, &loaded, variant)? {
            let rows = reader.trace(run)?;
            let source = match rows.info.engine.as_str() {
                "probe" => Source::Cached,
                _ if loaded.asked.readahead_kib == Some(0) => Source::Exact,
                _ => Source::Asked,
            };
            needed.source = needed.source.min(source);
            let reads = rows.blocks.iter().filter(|block| !block.write && block.len.0 <= SMALL.0);
            small_reads.extend(reads.filter_map(|block| Some(block.done_ns? - block.start_ns)));
            for file in of_trace(&rows, source) {
                match files.entry((file.path.clone(), file.kind)) {
                    // The same ranges again cost nothing: the plan joins them.
                    Entry::Occupied(mut known) => known.get_mut().pieces.extend(file.pieces),
                    Entry::Vacant(place) => {
                        place.insert(file);
                    }
                }
            }
        }
        if number == 0 {
            needed.asked = loaded.asked;
        }
    }
    needed.files = files.into_values().collect();
    small_reads.sort_unstable();
    needed.small_read = (small_reads.len() >= ENOUGH).then(|| small_reads[small_reads.len() / 2]);
    Ok(needed)
}

fn cold_traces(reader: &Reader, loaded: &Loaded, variant: Option<&str>) -> Result<Vec<RunId>> {
    let variant = match variant {
        None => 0,
        Some(name) => loaded.names.iter().position(|known| known == name).ok_or_else(|| {
            Error::new(Exit::Usage, "the recording has no variant", name)
                .hint(format!("it has: {}", loaded.names.join(", ")))
        })?,
    };
    let traced = reader.trace_runs()?;
    let runs: Vec<RunId> = loaded
        .runs
        .iter()
        .map(|(run, _)| run)
        .filter(|run| run.variant as usize == variant && run.kind == RunKind::Trace && run.accepted)
        .filter(|run| run.state != CacheState::Hot && traced.contains(&run.id))
        .map(|run| run.id)
        .collect();
    match runs.is_empty() {
        false => Ok(runs),
        true => Err(Error::new(Exit::Usage, "it holds no traced, cold start:", &loaded.source.file).hint(
            "thaw record -o FILE --state cold --runs 1 --readahead 0 -- PROGRAM (or --state app, which needs no root)",
        )),
    }
}

fn of_trace(rows: &TraceRows, source: Source) -> Vec<Recorded> {
    let mut pieces: Vec<Vec<Piece>> = vec![Vec::new(); rows.files.len()];
    let mut written = vec![false; rows.files.len()];
    let mut need = |file: FileId, offset: FileOffset, len: Bytes, first: Nanos| {
        pieces[file.0 as usize].push(Piece { offset, len, first });
    };
    for fill in &rows.fills {
        match fill.cause {
            Cause::Write => written[fill.file.0 as usize] = true,
            // Where nothing is read ahead by the kernel's guess, such a fill is part of a longer read.
            Cause::ReadAhead if source == Source::Asked => {}
            _ => need(fill.file, fill.offset, fill.len, fill.at_ns),
        }
    }
    if source == Source::Asked {
        rows.reads.iter().for_each(|read| need(read.file, read.offset, read.len, read.at_ns));
        rows.faults.iter().for_each(|fault| need(fault.file, fault.offset, fault.len, fault.at_ns));
    }
    let mut extents: Vec<Vec<Extent>> = vec![Vec::new(); rows.files.len()];
    for row in &rows.extents {
        extents[row.file.0 as usize].push(Extent { offset: row.offset, disk: row.disk, len: row.len });
    }
    let mut files = Vec::new();
    for (index, row) in rows.files.iter().enumerate() {
        let (pieces, extents) = (std::mem::take(&mut pieces[index]), std::mem::take(&mut extents[index]));
        let (path, ino, kind) = match row.kind {
            FileKind::Regular if written[index] => (row.path.clone(), row.ino, Kind::Changing),
            FileKind::Regular => (row.path.clone(), row.ino, Kind::Regular),
            FileKind::Metadata => match witness(rows, row.dev) {
                Some((path, ino)) => (path.to_owned(), ino, Kind::Device),
                None => continue,
            },
            FileKind::Memory | FileKind::Unnamed => continue,
        };
        if !pieces.is_empty() {
            let (dev, size, build_id) = (row.dev, row.size, row.build_id.clone());
            files.push(Recorded { path, kind, dev, ino, size, build_id, pieces, extents });
        }
    }
    files
}

/// The file that stands for the file system on a device: the largest one that the start used.
fn witness(rows: &TraceRows, dev: u64) -> Option<(&Path, u64)> {
    let on_it = rows.files.iter().filter(|file| file.kind == FileKind::Regular && file.dev == dev);
    on_it.max_by_key(|file| (file.size, &file.path)).map(|file| (&*file.path, file.ino))
}

//! What a recorded start needed, in the words of `mend/preload`. The only place that knows where in a recording that stands.

use crate::document::Loaded;
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

/// What was needed and how that is known.
pub struct Needed {
    /// `exact`: the pages that came into memory where nothing was read ahead. `asked`: what was read and what was mapped around
    /// faults. `cached`: what was in memory after the start.
    pub source: &'static str,
    /// The files.
    pub files: Vec<Recorded>,
}

/// The needs of all traced starts of a variant that were not hot.
///
/// # Errors
/// There is no such variant, or none of its starts was cold and traced.
pub fn of(reader: &Reader, loaded: &Loaded, variant: Option<&str>) -> Result<Needed> {
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
    if runs.is_empty() {
        return Err(Error::new(Exit::Usage, "it holds no traced, cold start:", &loaded.source.file).hint(
            "thaw record -o FILE --state cold --runs 1 --readahead 0 -- PROGRAM (or --state app, which needs no root)",
        ));
    }
    let mut source = "cached";
    // A file can stand for its file system too.
    let mut files: BTreeMap<(PathBuf, Kind), Recorded> = BTreeMap::new();
    for run in runs {
        let rows = reader.trace(run)?;
        source = match rows.info.engine.as_str() {
            "probe" => source,
            _ if loaded.asked.readahead_kib == Some(0) => "exact",
            _ => "asked",
        };
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
    Ok(Needed { source, files: files.into_values().collect() })
}

fn of_trace(rows: &TraceRows, source: &str) -> Vec<Recorded> {
    let mut pieces: Vec<Vec<Piece>> = vec![Vec::new(); rows.files.len()];
    let mut written = vec![false; rows.files.len()];
    let mut need = |file: FileId, offset: FileOffset, len: Bytes, first: Nanos| {
        pieces[file.0 as usize].push(Piece { offset, len, first });
    };
    for fill in &rows.fills {
        match fill.cause {
            Cause::Write => written[fill.file.0 as usize] = true,
            // Where nothing is read ahead by the kernel's guess, such a fill is part of a longer read.
            Cause::ReadAhead if source == "asked" => {}
            _ => need(fill.file, fill.offset, fill.len, fill.at_ns),
        }
    }
    if source == "asked" {
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

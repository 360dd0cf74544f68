//! What a recorded start needed, in the words of `mend/preload`. The only place that knows where in a recording that
//! stands.

use crate::plan::Asked;
use crate::recorded::Loaded;
use model::{
    Bytes, Cause, Error, Exit, FileId, FileKind, FileOffset, FileRow, Nanos, Result, TouchEngine, TouchRow, TraceRows,
};
use preload::make::Recorded;
use preload::manifest::Kind;
use preload::plan::{Extent, Piece};
use recording::Reader;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How needs are known, the most exact last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// What was in memory after the start.
    Cached,
    /// What was read and what was mapped around faults.
    Asked,
    /// What was seen to be touched, or the pages that came into memory where nothing was read ahead.
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
    /// The files, each with what any of the starts needed of it.
    pub files: Vec<Recorded>,
    /// How many recorded starts tell of it.
    pub starts: usize,
    /// How the first recording was made.
    pub asked: Asked,
    /// Median time that a small read took on the disk; `None`: too few were seen.
    pub small_read: Option<Nanos>,
}

/// What the starts of a variant needed: traced ones that were not hot. Where there are some that were made to see what
/// is touched, they tell what one start needs, and the others add what differs from start to start.
///
/// # Errors
/// There is no such variant, or a recording holds no such start.
pub fn of(recordings: &[PathBuf], variant: Option<&str>) -> Result<Needed> {
    let mut needed =
        Needed { source: Source::Exact, files: Vec::new(), starts: 0, asked: Asked::default(), small_read: None };
    let mut small_reads = Vec::new();
    let mut written = BTreeSet::new();
    // A file can stand for its file system too.
    let mut files: BTreeMap<(PathBuf, Kind), Recorded> = BTreeMap::new();
    needed.asked = each_start(recordings, variant, &mut |rows, knows| {
        needed.starts += 1;
        small_reads.extend(small_reads_of(rows));
        written.extend(written_by(rows).map(Path::to_path_buf));
        needed.source = needed.source.min(knows.source());
        for file in of_start(rows, knows) {
            match files.entry((file.path.clone(), file.kind)) {
                // The same ranges again cost nothing: the plan joins them.
                Entry::Occupied(mut known) => known.get_mut().pieces.extend(file.pieces),
                Entry::Vacant(place) => {
                    place.insert(file);
                }
            }
        }
    })?;
    needed.files = files.into_values().collect();
    for file in needed.files.iter_mut().filter(|file| file.kind == Kind::Regular && written.contains(&file.path)) {
        file.kind = Kind::Changing;
    }
    small_reads.sort_unstable();
    needed.small_read = (small_reads.len() >= ENOUGH).then(|| small_reads[small_reads.len() / 2]);
    Ok(needed)
}

/// What one start needed.
pub struct OfStart {
    /// How that is known.
    pub source: Source,
    /// Whether it tells all that it needed; if not, what it did not find in memory.
    pub tells_all: bool,
    /// The files, each with what was needed of it.
    pub files: Vec<Recorded>,
}

/// What each of the starts of [`of`] needed, so that what all need can be told from what some need.
///
/// # Errors
/// As [`of`].
pub fn by_start(recordings: &[PathBuf], variant: Option<&str>) -> Result<Vec<OfStart>> {
    let mut starts = Vec::new();
    each_start(recordings, variant, &mut |rows, knows| {
        let files = of_start(rows, knows);
        starts.push(OfStart { source: knows.source(), tells_all: knows != Knows::Missed, files });
    })?;
    Ok(starts)
}

/// Hands out the starts of a variant, and what each tells; how the first recording was made.
fn each_start(recordings: &[PathBuf], variant: Option<&str>, take: &mut dyn FnMut(&TraceRows, Knows)) -> Result<Asked> {
    let mut asked = None;
    for path in recordings {
        let reader = Reader::open(path)?;
        let loaded = Loaded::of(path, &reader)?;
        let starts = starts(&reader, &loaded, variant)?;
        let touched = starts.iter().any(|rows| touched_pages(rows).next().is_some());
        for rows in starts {
            let knows = match rows.info.engine.as_str() {
                "probe" => Knows::Cached,
                _ if touched_pages(&rows).next().is_some() || loaded.asked.readahead_kib == Some(0) => Knows::All,
                // No start is as the one before: what another one waited for belongs to it too.
                _ if touched => Knows::Missed,
                _ => Knows::Asked,
            };
            take(&rows, knows);
        }
        asked.get_or_insert(loaded.asked);
    }
    Ok(asked.unwrap_or_default())
}

/// The starts of a variant that tell what is needed: not those of which only first calls are known, or that ran inside
/// Valgrind.
fn starts(reader: &Reader, loaded: &Loaded, variant: Option<&str>) -> Result<Vec<TraceRows>> {
    let variant = match variant {
        None => 0,
        Some(name) => loaded.names.iter().position(|known| known == name).ok_or_else(|| {
            Error::new(Exit::Usage, "the recording has no variant", name)
                .hint(format!("it has: {}", loaded.names.join(", ")))
        })?,
    };
    let starts = loaded.starts.telling_needs(reader, variant as u32)?;
    match starts.is_empty() {
        false => Ok(starts.into_iter().map(|start| start.rows).collect()),
        true => Err(Error::new(Exit::Usage, "it holds no traced, cold start:", &loaded.source.file).hint(
            "thaw record -o FILE --state cold --runs 3 --readahead 0 -- PROGRAM (or --state app, which needs no root)",
        )),
    }
}

/// How long each small read took on the disk.
fn small_reads_of(rows: &TraceRows) -> impl Iterator<Item = Nanos> {
    let reads = rows.blocks.iter().filter(|block| !block.write && block.len.0 <= SMALL.0);
    reads.filter_map(|block| Some(block.done_ns? - block.start_ns))
}

/// Files that the program wrote.
fn written_by(rows: &TraceRows) -> impl Iterator<Item = &Path> {
    rows.fills.iter().filter(|fill| fill.cause == Cause::Write).map(|fill| &*rows.files[fill.file.0 as usize].path)
}

/// What was seen to be touched, by pages: functions are code alone, without the tables and data that a start needs too.
fn touched_pages(rows: &TraceRows) -> impl Iterator<Item = &TouchRow> {
    rows.touches.iter().filter(|touch| matches!(touch.engine, TouchEngine::Page | TouchEngine::Probe))
}

/// What a start tells of the pages that it needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    /// All of them and no other: nothing was read ahead, or it was seen what is touched.
    All,
    /// Those that were not in memory when they were asked for.
    Missed,
    /// Those, and what was read or lies around faults.
    Asked,
    /// Those that were in memory afterwards.
    Cached,
}

impl Knows {
    fn source(self) -> Source {
        match self {
            Self::Cached => Source::Cached,
            Self::Asked => Source::Asked,
            Self::All | Self::Missed => Source::Exact,
        }
    }
}

/// The ranges that a start needed, with the time of their first use.
fn pieces(rows: &TraceRows, knows: Knows) -> Vec<(FileId, Piece)> {
    let piece = |file: FileId, offset: FileOffset, len: Bytes, first: Nanos| (file, Piece { offset, len, first });
    let order = |touch: &TouchRow| touch.at_ns.unwrap_or(Nanos(u64::from(touch.order.unwrap_or(0))));
    let mut pieces: Vec<(FileId, Piece)> =
        touched_pages(rows).map(|touch| piece(touch.file, touch.offset, touch.len, order(touch))).collect();
    // Beside what was asked for, a usual read-ahead brings what nobody needs.
    let ahead_counts = matches!(knows, Knows::All | Knows::Cached);
    let counts = |cause: Cause| cause != Cause::Write && (cause != Cause::ReadAhead || ahead_counts);
    let fills = rows.fills.iter().filter(|fill| counts(fill.cause));
    pieces.extend(fills.map(|fill| piece(fill.file, fill.offset, fill.len, fill.at_ns)));
    if knows == Knows::Asked {
        pieces.extend(rows.reads.iter().map(|read| piece(read.file, read.offset, read.len, read.at_ns)));
        pieces.extend(rows.faults.iter().map(|fault| piece(fault.file, fault.offset, fault.len, fault.at_ns)));
    }
    pieces
}

fn of_start(rows: &TraceRows, knows: Knows) -> Vec<Recorded> {
    let mut needed: Vec<Vec<Piece>> = vec![Vec::new(); rows.files.len()];
    for (file, piece) in pieces(rows, knows) {
        needed[file.0 as usize].push(piece);
    }
    let mut extents: Vec<Vec<Extent>> = vec![Vec::new(); rows.files.len()];
    for row in &rows.extents {
        extents[row.file.0 as usize].push(Extent { offset: row.offset, disk: row.disk, len: row.len });
    }
    let mut files = Vec::new();
    // Between fork and exec the program is thaw: that is no need of the program's.
    let own = std::env::current_exe().ok();
    let of_program = |row: &FileRow| Some(&row.path) != own.as_ref();
    for ((row, pieces), extents) in rows.files.iter().zip(needed).zip(extents).filter(|((row, _), _)| of_program(row)) {
        let (path, ino, kind) = match row.kind {
            FileKind::Regular => (row.path.clone(), row.ino, Kind::Regular),
            FileKind::Metadata => match witness(rows.files.iter().filter(|row| of_program(row)), row.dev) {
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
fn witness<'a>(files: impl Iterator<Item = &'a FileRow>, dev: u64) -> Option<(&'a Path, u64)> {
    let on_it = files.filter(|file| file.kind == FileKind::Regular && file.dev == dev);
    on_it.max_by_key(|file| (file.size, &file.path)).map(|file| (&*file.path, file.ino))
}

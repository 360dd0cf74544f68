//! What an archive is like: sizes, where its directory is, and how scattered the entries are that a start uses. Pure.

use super::form::{DirectoryPlace, Method, Signed};
use super::plan::{Options, Plan, plan};
use super::reads::{Reads, WINDOW, reads};
use super::usage::Uses;
use super::zip::{END_LEN, EntryId, FRONT, Obstacle, Zip};
use model::{Bytes, FileOffset};
use serde::Serialize;
use std::ops::Range;

/// What an archive holds, and what it costs to read.
#[derive(Clone, Debug, Serialize)]
pub struct Stat {
    /// Bytes of the archive file.
    pub size: Bytes,
    /// Where its directories are.
    pub directory: DirectoryPlace,
    /// Where the directory begins that most tools use.
    pub directory_offset: FileOffset,
    /// Bytes of the directory, without the end record.
    pub directory_size: Bytes,
    /// The read-ahead hint, if there is a directory in front.
    pub hint: Option<Bytes>,
    /// How many entries.
    pub entries: u64,
    /// Of them, stored ones.
    pub stored: u64,
    /// Bytes of content of stored entries.
    pub stored_size: Bytes,
    /// How many entries are deflated.
    pub deflated: u64,
    /// Their bytes in the archive.
    pub deflated_size: Bytes,
    /// Their bytes of content.
    pub deflated_content: Bytes,
    /// What a start uses; `None`: not asked.
    pub used: Option<Used>,
    /// Why the archive would not be rewritten; empty: it would.
    pub obstacles: Vec<Obstacle>,
    /// All entries, in the order in which they lie in the file.
    pub list: Vec<StatEntry>,
}

/// What a start uses of an archive.
#[derive(Clone, Debug, Serialize)]
pub struct Used {
    /// How many entries.
    pub entries: u64,
    /// Their bytes in the archive, headers included.
    pub size: Bytes,
    /// Reading the directory and them, in the order of their use.
    pub before: Reads,
    /// The same after reordering; `None`: the archive would not be rewritten.
    pub after: Option<Reads>,
    /// Used names that are not in the archive.
    pub unknown: u64,
}

/// One entry, for a table.
#[derive(Clone, Debug, Serialize)]
pub struct StatEntry {
    /// Its name as text; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Where its header begins in the archive.
    pub offset: FileOffset,
    /// Bytes in the archive, header included.
    pub size: Bytes,
    /// Bytes of its content.
    pub content: Bytes,
    /// How it is compressed.
    pub method: Method,
    /// Its number in the order of first use, from 0.
    pub used: Option<u32>,
}

/// Adds up what an archive holds; with `uses`, what a start uses of it too.
pub fn stat(zip: &Zip<'_>, uses: Option<&Uses>) -> Stat {
    let of = |method: Method| zip.entries.iter().filter(move |entry| entry.method == method);
    let compressed = |method| of(method).map(|entry| Bytes(u64::from(entry.compressed))).sum();
    let mut places = vec![None; zip.entries.len()];
    for (number, id) in uses.iter().flat_map(|uses| &uses.order).enumerate() {
        places[id.0] = u32::try_from(number).ok();
    }
    let line = |id: EntryId| {
        let entry = zip.entry(id);
        StatEntry {
            name: entry.shown(),
            offset: FileOffset(entry.span.start),
            size: Bytes(entry.span.end - entry.span.start),
            content: Bytes(u64::from(entry.size)),
            method: entry.method,
            used: places[id.0],
        }
    };
    let mut list: Vec<StatEntry> = zip.ids().map(line).collect();
    list.sort_by_key(|entry| entry.offset);
    Stat {
        size: Bytes(zip.bytes.len() as u64),
        directory: zip.place,
        directory_offset: FileOffset(zip.directory.start),
        directory_size: Bytes(zip.directory.end - zip.directory.start),
        hint: zip.hint.map(|hint| Bytes(u64::from(hint))),
        entries: zip.entries.len() as u64,
        stored: of(Method::Stored).count() as u64,
        stored_size: compressed(Method::Stored),
        deflated: of(Method::Deflated).count() as u64,
        deflated_size: compressed(Method::Deflated),
        deflated_content: of(Method::Deflated).map(|entry| Bytes(u64::from(entry.size))).sum(),
        used: uses.map(|uses| used(zip, uses)),
        obstacles: zip.obstacles.clone(),
        list,
    }
}

fn used(zip: &Zip<'_>, uses: &Uses) -> Used {
    let options = Options { signed: Signed::Accept, ..Options::default() };
    let span = |id: &EntryId| Bytes(zip.entry(*id).span.end - zip.entry(*id).span.start);
    Used {
        entries: uses.order.len() as u64,
        size: uses.order.iter().map(span).sum(),
        before: reads_now(zip, uses),
        after: plan(zip, uses, &options).ok().map(|plan| reads_planned(&plan)),
        unknown: uses.unknown.len() as u64,
    }
}

/// Reading the directory and what is used, in the order of its use, as the archive is.
pub fn reads_now(zip: &Zip<'_>, uses: &Uses) -> Reads {
    let end = zip.bytes.len() as u64;
    let mut pieces = index(zip.place, &zip.directory, end);
    pieces.extend(uses.order.iter().map(|id| zip.entry(*id).span.clone()));
    reads(&pieces, Bytes(end), WINDOW)
}

/// The same of a planned archive.
pub fn reads_planned(plan: &Plan) -> Reads {
    let mut pieces = index(plan.directory, &plan.records, plan.len.0);
    pieces.extend(plan.entries[..plan.used].iter().map(|placed| placed.at.0..placed.end.0));
    reads(&pieces, plan.len, WINDOW)
}

/// What is read to find the entries: the directory in front, or the end record and then the directory.
fn index(place: DirectoryPlace, directory: &Range<u64>, end: u64) -> Vec<Range<u64>> {
    match place {
        DirectoryPlace::End => vec![end.saturating_sub(END_LEN as u64)..end, directory.clone()],
        DirectoryPlace::Front | DirectoryPlace::Both => {
            let front = 0..FRONT + (directory.end - directory.start) + END_LEN as u64;
            vec![front]
        }
    }
}

//! Zip archives in the order of their use: which of them the start reads, what that would gain, and the new archive.
//!
//! `--apply` makes the archive anew from the original, in the order of the one that was measured: DIR may be another
//! user's.

use super::source::Source;
use crate::archives::used as archive_used;
use crate::words::units;
use disk::model::{Ask, Direction, Drive, Model};
use layout::archive::{self, DirectoryPlace, EntryId, Format, Options, Reads, Target, Uses, Zip};
use model::{Bytes, DiskOffset, Error, Exit, FileId, FileOffset, Nanos, PAGE, Result, Served};
use optimize::files::Seen;
use optimize::manifest::Identity;
use optimize::predict::Change;
use preload::plan::Piece;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An archive that is worth a try.
pub struct Found {
    /// Number in the trace.
    pub id: FileId,
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub identity: Identity,
    /// How long the disk takes for what is read of the new one.
    pub time: Nanos,
    /// What of the new one is read.
    needed: Vec<Range<u64>>,
    uses: Uses,
}

/// What was found.
#[derive(Default)]
pub struct Survey {
    /// Archives that are worth a try.
    pub found: Vec<Found>,
    /// What would change of each, in a sentence.
    pub changes: Vec<String>,
    /// Archives that are left alone, by reason.
    pub left_alone: BTreeMap<String, Vec<String>>,
    /// Doubts about the order.
    pub doubts: BTreeSet<String>,
}

/// Looks at the archives that the start read. `gain` is the start's time with a change over that without; `None`
/// without requests.
///
/// # Errors
/// The recording cannot be read; interrupted.
pub fn survey(source: &Source, disk: &Model, gain: &dyn Fn(&Change) -> Option<f64>) -> Result<Survey> {
    let mut survey = Survey::default();
    let candidates = source.candidates.iter().filter(|candidate| is_zip(&candidate.path));
    let paths: Vec<(FileId, PathBuf)> = candidates.map(|it| (it.id, it.path.clone())).collect();
    if paths.is_empty() {
        return Ok(survey);
    }
    let start = archive_used::Start::read(&source.recording, Some(&source.variant))?;
    for (id, path) in paths {
        os::interrupt::check()?;
        match look(source, id, &path, &start, disk, gain) {
            Ok(Looked::Worth(found, change, doubts)) => {
                survey.found.push(found);
                survey.changes.push(change);
                survey.doubts.extend(doubts);
            }
            Ok(Looked::LeftAlone(why)) => survey.left_alone.entry(why).or_default().push(source.shown(&path)),
            Err(error) => survey.left_alone.entry(sentence(&error)).or_default().push(source.shown(&path)),
        }
    }
    Ok(survey)
}

enum Looked {
    /// What would change, in a sentence; doubts.
    Worth(Found, String, Vec<String>),
    /// Why.
    LeftAlone(String),
}

fn look(
    source: &Source,
    id: FileId,
    path: &Path,
    start: &archive_used::Start,
    disk: &Model,
    gain: &dyn Fn(&Change) -> Option<f64>,
) -> Result<Looked> {
    if Seen::of(path)?.is_privileged(path) {
        return Ok(Looked::LeftAlone("it runs with rights of its own".into()));
    }
    let bytes = read(path)?;
    let zip = archive::parse(&bytes)?;
    if let Some(obstacle) = zip.obstacles.first() {
        return Ok(Looked::LeftAlone(obstacle.to_string()));
    }
    let order = archive_used::in_start(&zip, path, start)?;
    let plan = archive::plan(&zip, &order.uses, &options(&zip))?;
    let (now, planned) = (archive::reads_now(&zip, &order.uses), archive::reads_planned(&plan));
    let figures = format!(
        "{} -> {}, {} -> {}",
        now.requests,
        units::plural(planned.requests, "request", "requests"),
        units::bytes(now.bytes),
        units::bytes(planned.bytes)
    );
    let time = time(disk, first_read(source, id), &planned);
    let cut = BTreeMap::from([(id, every_byte())]);
    let ratio = gain(&Change { cut, read: time, ..Change::default() });
    // The log alone does not tell: it may be of a start with another read-ahead than the one that the figures are for.
    let is_less = planned.requests < now.requests || planned.bytes < now.bytes;
    if !is_less {
        return Ok(Looked::LeftAlone(format!("no gain predicted, its used entries lie together: {figures}")));
    }
    if let Some(ratio) = ratio.filter(|ratio| *ratio >= 1.0) {
        return Ok(Looked::LeftAlone(format!("no gain predicted, {ratio:.2} of the time: {figures}")));
    }
    let change = format!(
        "{}: {} of {} entries come first; {figures}",
        source.shown(path),
        units::count(plan.used as u64),
        units::count(zip.entries.len() as u64)
    );
    let end = plan.entries[..plan.used].last().map_or(0, |placed| placed.end.0);
    let tail = plan.entries.last().map_or(0, |placed| placed.end.0)..plan.len.0;
    let needed = match plan.directory {
        DirectoryPlace::End => vec![0..end, tail],
        DirectoryPlace::Front | DirectoryPlace::Both => std::iter::once(0..end).collect(),
    };
    let doubts = order.warnings.into_iter().map(|warning| warning.text);
    let path = path.to_owned();
    let found = Found { id, path, identity: Identity::of_bytes(&bytes), time, needed, uses: order.uses };
    Ok(Looked::Worth(found, change, doubts.collect()))
}

impl Found {
    /// What a start needs of the new archive, in whole pages, as far as the file of today goes: from the moment of the
    /// first of these pieces on.
    pub fn pieces(&self, old: &[Piece]) -> Vec<Piece> {
        let Some(first) = old.iter().map(|piece| piece.first).min() else { return Vec::new() };
        let pages = |range: &Range<u64>| {
            let (start, end) = (range.start / PAGE * PAGE, range.end.min(self.identity.size).next_multiple_of(PAGE));
            (start < end).then(|| Piece { offset: FileOffset(start), len: Bytes(end - start), first })
        };
        self.needed.iter().filter_map(pages).collect()
    }

    /// Writes the new archive over that of a copy.
    ///
    /// # Errors
    /// The original is another file than when it was looked at; it cannot be written.
    pub fn write(&self, target: &Path) -> Result<()> {
        let original = &self.path;
        let bytes = read(original)?;
        if Identity::of_bytes(&bytes) != self.identity {
            return Err(Error::on(Exit::Data, "the program was changed while its copies were made:", original)
                .hint("wait until it is installed, and begin again"));
        }
        let zip = archive::parse(&bytes)?;
        let plan = archive::plan(&zip, &self.uses, &options(&zip))?;
        archive::apply(&zip, &plan, original, Target::Replace(target)).map(|_| ())
    }
}

/// Puts in the place of `path`, whose original is kept as `original`, the archive with the order of `copy`, which must
/// be the one that was measured.
///
/// # Errors
/// The order of the copy does not make that archive; it cannot be written. Nothing is changed then.
pub fn apply(original: &Path, copy: &Path, measured: Identity, path: &Path) -> Result<()> {
    let other = || {
        Error::on(Exit::Data, "reordering gives another file than the one that was measured:", path)
            .hint("the copy was changed, or measured with another version of thaw: run `thaw optimize` again")
    };
    let about = copy.metadata().map_err(|cause| Error::on(Exit::Machine, "cannot read", copy).because(cause))?;
    if !about.is_file() || about.len() != measured.size {
        return Err(other());
    }
    let (bytes, copied) = (read(original)?, read(copy)?);
    let (zip, copied) = (archive::parse(&bytes)?, archive::parse(&copied)?);
    let plan = archive::plan(&zip, &order_of(&zip, &copied), &options(&zip))?;
    let mut built = Vec::with_capacity(bytes.len());
    archive::build(&zip, &plan, &mut built)?;
    if Identity::of_bytes(&built) != measured {
        return Err(other());
    }
    archive::apply(&zip, &plan, original, Target::InPlaceOf(path)).map(|_| ())
}

/// The order of use that a new archive was made with: its entries as they lie, up to the hint where it has one.
fn order_of(zip: &Zip<'_>, copy: &Zip<'_>) -> Uses {
    let by_name: BTreeMap<&[u8], EntryId> = zip.ids().map(|id| (zip.entry(id).name, id)).collect();
    let used = copy.hint.map_or(u64::MAX, u64::from);
    let mut entries: Vec<_> = copy.entries.iter().filter(|entry| entry.data.end <= used).collect();
    entries.sort_by_key(|entry| entry.span.start);
    let order = entries.into_iter().filter_map(|entry| by_name.get(entry.name).copied()).collect();
    Uses { order, ..Uses::default() }
}

/// A directory in front is for programs that look for one there.
fn options(zip: &Zip<'_>) -> Options {
    let directory = if zip.place == DirectoryPlace::End || !Format::of(zip).bears_front() {
        DirectoryPlace::End
    } else {
        DirectoryPlace::Both
    };
    Options { directory, ..Options::default() }
}

/// All that can be cut out of a file.
pub fn every_byte() -> Vec<Range<u64>> {
    std::iter::once(0..u64::MAX).collect()
}

/// How long the disk takes for these reads, one after the other, from a place on.
fn time(disk: &Model, from: DiskOffset, reads: &Reads) -> Nanos {
    let mut drive = Drive::new(disk.clone(), disk.capacity);
    let len = reads.bytes.0.checked_div(reads.requests).unwrap_or(0);
    (0..reads.requests).fold(Nanos(0), |now, number| {
        let disk = DiskOffset(from.0.saturating_add(number.saturating_mul(len)));
        drive.serve(now, &Ask { disk, len: Bytes(len), direction: Direction::Read }).done
    })
}

/// Where the first read of a file was, by offset.
fn first_read(source: &Source, id: FileId) -> DiskOffset {
    let of_file = source.rows.blocks.iter().filter_map(|block| match block.served {
        Served::File(file, offset) if file == id && !block.write => Some((offset, block.disk)),
        _ => None,
    });
    of_file.min().map_or(DiskOffset(0), |(_, disk)| disk)
}

/// Begins or ends as an archive does, with a directory in front or without.
fn is_zip(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Some(len) = file.metadata().ok().filter(|about| about.is_file()).map(|about| about.len()) else { return false };
    let has = |at: u64, mark: &[u8]| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at).is_ok() && bytes == mark
    };
    let end = b"PK\x05\x06";
    has(0, b"PK\x03\x04") || has(4, b"PK\x01\x02") || len.checked_sub(22).is_some_and(|at| has(at, end))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))
}

/// An error within a sentence that names the file.
fn sentence(error: &Error) -> String {
    let what = error.what.trim_end_matches(", of").trim_end_matches(':');
    error.cause.as_ref().map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}"))
}

//! The request log that a remedy would leave, and how long a disk takes for it. Pure: the disk is a function.
//!
//! A request that is not made any more takes its time with it: the time in which nothing but such requests was in
//! flight is cut out of the log, and everything later moves up:
//!
//! ```text
//! t' = t - |G(t)|      G(t) = the time before t in which a request that goes was in flight, and none that stays
//! ```
//!
//! A request counts as issued when its first page was put into the page cache, because on a disk with a limit the
//! kernel holds requests back before it traces them: what is held back is the disk's time, not the program's.
//!
//! What the program computed in that time on other threads is thereby lost to the prediction, so that it is a little
//! too good.
//!
//! ```text
//! before = D(log)                  D = the length of a start on the disk, as `thaw io model` has it
//! pack   = D(log - bytes of the tables that go)
//! archive = A + D(log - requests for the archives)
//! preload = P + D(log - requests for files that are read before)
//! image  = I + U + D(log - requests for files of the directory)
//! joined = D(log with each request for a file at its offset behind the file's first one)
//! ```
//!
//! `A` is the disk's time for what is read of the archives when their entries lie in the order of use, one request
//! after the other.
//!
//! `I` is the disk's time for the stretch of the image that a start needs, in one piece; `U` the time in which one
//! processor unpacks it.
//!
//! `P` is the disk's time for all reads of the manifest, one after the other, without the program. The program starts
//! when all of them were asked for, not when they are done: where it computes much while they come, the start is
//! shorter.

use model::{
    BlockRow, Bytes, CacheState, Cause, DiskOffset, FileId, FileKind, Nanos, Owner, Served, TraceRows, joined,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A start as its disk saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// The program's requests, by issue.
    pub blocks: Vec<BlockRow>,
    /// Until it was ready.
    pub length: Nanos,
}

/// What remedies change in a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Ranges of files that are gone.
    pub cut: BTreeMap<FileId, Vec<Range<u64>>>,
    /// How long the disk takes for what is read in their place, while nothing else happens.
    pub read: Nanos,
    /// Files that lie in one piece, from where the first request for them went.
    pub joined: BTreeSet<FileId>,
    /// What is read before the start.
    pub preload: Option<Preloaded>,
    /// The image that has some of the files.
    pub image: Option<Imaged>,
}

/// An image in the place of files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imaged {
    /// Files that are read from it.
    pub files: BTreeSet<FileId>,
    /// How long the disk takes for what a start needs of it.
    pub reading: Nanos,
    /// How long one processor takes to unpack that.
    pub unpacking: Nanos,
}

/// What is read before the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preloaded {
    /// Files whose needed ranges are read; what else of them was read came with these.
    pub files: BTreeSet<FileId>,
    /// Devices (as `makedev` packs them) whose metadata is read too.
    pub metadata: BTreeSet<u64>,
    /// How long the disk takes for all of it.
    pub time: Nanos,
}

/// The length of a start before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Seconds as it is.
    pub before_s: f64,
    /// Seconds with the change.
    pub after_s: f64,
    /// `after_s / before_s`; 1 where the start takes no time.
    pub ratio: f64,
}

/// What no remedy of reads can beat, and how long each part of it takes. Reading and computing can go on at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Bytes that any of the recorded starts needed and that are not in memory in this state.
    pub needed: Bytes,
    /// Seconds that the disk takes for so many bytes in one stretch.
    pub reading_s: f64,
    /// Seconds that are left of the start when it reads nothing.
    pub computing_s: f64,
}

impl Limit {
    /// The longer one, seconds.
    pub fn seconds(&self) -> f64 {
        self.reading_s.max(self.computing_s)
    }
}

impl Start {
    /// The start without any read.
    pub fn without_reads(&self) -> Self {
        self.keeping(|block| if block.write { block.len } else { Bytes(0) })
    }

    /// The program's own requests within its start, and of these the ones that it makes in this state: where only the
    /// program's own files are cold, the system's are in memory.
    pub fn of(rows: &TraceRows, length: Nanos, state: CacheState) -> Self {
        let own = rows.blocks.iter().filter(|block| block.pid.is_some() && block.start_ns <= length);
        let issues = Issues::of(rows);
        let blocks = own.map(|block| BlockRow { start_ns: issues.of_block(block), ..block.clone() });
        let mut all = Self { blocks: blocks.collect(), length };
        all.blocks.sort_by_key(|block| block.start_ns);
        if state == CacheState::Cold {
            return all;
        }
        let warm = |block: &BlockRow| match block.served {
            Served::File(file, _) => rows.files.get(file.0 as usize).is_some_and(|file| file.owner == Owner::System),
            Served::Metadata | Served::Unknown => false,
        };
        all.keeping(|block| if warm(block) { Bytes(0) } else { block.len })
    }

    /// The log that a change would leave; what is read in place of something is not in it.
    pub fn changed(&self, change: &Change) -> Self {
        let mut left = self.keeping(|block| match block.served {
            _ if block.write => block.len,
            Served::File(file, offset) => {
                let preloaded = change.preload.as_ref().is_some_and(|preload| preload.files.contains(&file));
                let imaged = change.image.as_ref().is_some_and(|image| image.files.contains(&file));
                let range = offset.0..offset.0.saturating_add(block.len.0);
                let gone: u64 = change.cut.get(&file).into_iter().flatten().map(|cut| overlap(cut, &range)).sum();
                if preloaded || imaged { Bytes(0) } else { Bytes(block.len.0.saturating_sub(gone)) }
            }
            Served::Metadata => {
                let preloaded = change.preload.as_ref().is_some_and(|preload| preload.metadata.contains(&block.dev));
                if preloaded { Bytes(0) } else { block.len }
            }
            Served::Unknown => block.len,
        });
        change.joined.iter().for_each(|file| left.join(*file));
        left
    }

    /// Puts the requests for a file where they would be if it lay in one piece.
    fn join(&mut self, file: FileId) {
        let offset = |block: &BlockRow| match block.served {
            Served::File(served, offset) if served == file && !block.write => Some(offset.0),
            _ => None,
        };
        let first = self.blocks.iter().filter_map(|block| Some((offset(block)?, block.disk.0))).min();
        let Some((first, disk)) = first else { return };
        for block in &mut self.blocks {
            if let Some(offset) = offset(block) {
                block.disk = DiskOffset(disk.saturating_add(offset - first));
            }
        }
    }

    /// The log with as much of each request as is left of it.
    fn keeping(&self, left: impl Fn(&BlockRow) -> Bytes) -> Self {
        let (mut stays, mut goes) = (Vec::new(), Vec::new());
        for block in &self.blocks {
            let left = left(block);
            let span = (block.start_ns.0, block.done_ns.unwrap_or(block.start_ns).max(block.start_ns).0);
            // A flush has no bytes before either.
            if left.0 == 0 && block.len.0 > 0 {
                goes.push(span);
            } else {
                stays.push((span, BlockRow { len: left, ..block.clone() }));
            }
        }
        let gone = without(&joined(goes), &joined(stays.iter().map(|(span, _)| *span).collect()));
        let moved = |at: Nanos| Nanos(at.0 - before(&gone, at.0));
        let blocks = stays.into_iter().map(|(_, block)| BlockRow {
            start_ns: moved(block.start_ns),
            done_ns: block.done_ns.map(moved),
            ..block
        });
        Self { blocks: blocks.collect(), length: moved(self.length) }
    }
}

/// When pages were put into the page cache: by file, by offset.
struct Issues<'a> {
    rows: &'a TraceRows,
    fills: BTreeMap<FileId, Vec<(Range<u64>, Nanos)>>,
}

impl<'a> Issues<'a> {
    fn of(rows: &'a TraceRows) -> Self {
        let mut fills: BTreeMap<FileId, Vec<(Range<u64>, Nanos)>> = BTreeMap::new();
        for fill in rows.fills.iter().filter(|fill| fill.cause != Cause::Write) {
            let range = fill.offset.0..fill.offset.0.saturating_add(fill.len.0);
            fills.entry(fill.file).or_default().push((range, fill.at_ns));
        }
        fills.values_mut().for_each(|fills| fills.sort_by_key(|(range, at)| (range.start, *at)));
        Self { rows, fills }
    }

    /// The fill that a read is for, where one was seen; else when the read was traced.
    fn of_block(&self, block: &BlockRow) -> Nanos {
        let metadata = || {
            let is = |file: &model::FileRow| file.kind == FileKind::Metadata && file.dev == block.dev;
            Some((FileId(self.rows.files.iter().position(is)? as u32), block.disk.0))
        };
        let place = match block.served {
            _ if block.write => None,
            Served::File(file, offset) => Some((file, offset.0)),
            Served::Metadata => metadata(),
            Served::Unknown => None,
        };
        let seen = place.and_then(|(file, offset)| {
            let fills = self.fills.get(&file)?;
            let until = fills.partition_point(|(range, _)| range.start <= offset);
            let fits = |(range, at): &&(Range<u64>, Nanos)| range.contains(&offset) && *at <= block.start_ns;
            fills[..until].iter().rev().take(4).filter(fits).map(|(_, at)| *at).max()
        });
        seen.unwrap_or(block.start_ns)
    }
}

/// Predicts. `time` is the length of a start on the disk.
pub fn predict(start: &Start, change: &Change, time: &dyn Fn(&Start) -> Nanos) -> Prediction {
    let before = time(start).seconds();
    let ahead = change.preload.as_ref().map_or(Nanos(0), |preload| preload.time);
    let image = change.image.as_ref().map_or(Nanos(0), |image| Nanos(image.reading.0 + image.unpacking.0));
    let after = ahead.seconds() + image.seconds() + change.read.seconds() + time(&start.changed(change)).seconds();
    Prediction { before_s: before, after_s: after, ratio: if before > 0.0 { after / before } else { 1.0 } }
}

/// Files of a trace by their paths.
pub fn files_at<'a>(
    rows: &'a TraceRows,
    is: impl Fn(&std::path::Path) -> bool + 'a,
) -> impl Iterator<Item = FileId> + 'a {
    let files = rows.files.iter().enumerate().filter(move |(_, file)| file.kind == FileKind::Regular && is(&file.path));
    files.map(|(index, _)| FileId(index as u32))
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

type Span = (u64, u64);

/// What is left of sorted, disjoint spans outside of others.
fn without(spans: &[Span], others: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for &(from, to) in spans {
        let mut at = from;
        let first = others.partition_point(|other| other.1 <= from);
        for other in others[first..].iter().take_while(|other| other.0 < to) {
            if at < other.0 {
                left.push((at, other.0));
            }
            at = at.max(other.1);
        }
        if at < to {
            left.push((at, to));
        }
    }
    left
}

/// How much of sorted, disjoint spans lies before a time.
fn before(spans: &[Span], at: u64) -> u64 {
    spans.iter().take_while(|span| span.0 < at).map(|span| span.1.min(at) - span.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FileOffset, FileRow};
    use proptest::prelude::*;

    const APP: FileId = FileId(0);
    const SYSTEM: FileId = FileId(1);

    fn rows(blocks: Vec<BlockRow>) -> TraceRows {
        let file = |path: &str, owner| FileRow {
            path: path.into(),
            kind: FileKind::Regular,
            owner,
            dev: 1,
            ino: 1,
            size: Bytes(1 << 20),
            extents: None,
            build_id: None,
        };
        let files = vec![file("/opt/app/app", Owner::App), file("/lib/libc.so", Owner::System)];
        TraceRows { files, blocks, ..TraceRows::default() }
    }

    /// A read of `len` from offset `at` of a file, in flight from `from` to `to`.
    fn read(file: FileId, at: u64, len: u64, (from, to): Span) -> BlockRow {
        BlockRow {
            start_ns: Nanos(from),
            done_ns: Some(Nanos(to)),
            pid: Some(1),
            dev: 1,
            disk: DiskOffset(at),
            len: Bytes(len),
            write: false,
            served: Served::File(file, FileOffset(at)),
            flags: "R".into(),
        }
    }

    fn cut_from_start(len: u64) -> BTreeMap<FileId, Vec<Range<u64>>> {
        BTreeMap::from([(APP, std::iter::once(0..len).collect())])
    }

    fn spans(start: &Start) -> Vec<Span> {
        start.blocks.iter().map(|block| (block.start_ns.0, block.done_ns.unwrap().0)).collect()
    }

    #[test]
    fn a_request_that_goes_takes_its_time_with_it_unless_another_one_was_waited_for() {
        // Alone from 10 to 20; beside another one from 30 to 40, of which 35 to 40 alone.
        let log = vec![
            read(APP, 0, 8, (10, 20)),
            read(SYSTEM, 0, 8, (25, 35)),
            read(APP, 8, 8, (30, 40)),
            read(SYSTEM, 8, 8, (50, 60)),
        ];
        let start = Start::of(&rows(log), Nanos(70), CacheState::Cold);
        let cut = cut_from_start(16);
        let left = start.changed(&Change { cut, ..Change::default() });
        assert_eq!(spans(&left), [(15, 25), (35, 45)]);
        assert_eq!(left.length, Nanos(55));
    }

    #[test]
    fn a_request_that_is_cut_stays_and_is_shorter() {
        let start = Start::of(&rows(vec![read(APP, 0, 100, (10, 20))]), Nanos(30), CacheState::Cold);
        let cut = BTreeMap::from([(APP, vec![90..200, 0..30])]);
        let left = start.changed(&Change { cut, ..Change::default() });
        assert_eq!((left.blocks[0].len, left.length), (Bytes(60), Nanos(30)));
    }

    #[test]
    fn in_the_state_app_the_files_of_the_system_are_not_read() {
        let log = vec![read(SYSTEM, 0, 8, (0, 10)), read(APP, 0, 8, (10, 20))];
        let start = Start::of(&rows(log.clone()), Nanos(25), CacheState::App);
        assert_eq!((spans(&start), start.length), (vec![(0, 10)], Nanos(15)));
        assert_eq!(Start::of(&rows(log), Nanos(25), CacheState::Cold).blocks.len(), 2);
    }

    #[test]
    fn what_others_ask_for_and_what_comes_after_the_start_does_not_count() {
        let mut others = read(APP, 0, 8, (0, 10));
        others.pid = None;
        let start = Start::of(&rows(vec![others, read(APP, 0, 8, (90, 95))]), Nanos(50), CacheState::Cold);
        assert_eq!(start, Start { blocks: Vec::new(), length: Nanos(50) });
    }

    #[test]
    fn preloading_costs_its_own_time_and_saves_that_of_the_requests() {
        let log = vec![read(APP, 0, 8, (0, 40)), read(SYSTEM, 0, 8, (50, 60))];
        let start = Start::of(&rows(log), Nanos(70), CacheState::Cold);
        let preload = Preloaded { files: BTreeSet::from([APP]), metadata: BTreeSet::new(), time: Nanos(5) };
        let change = Change { preload: Some(preload), ..Change::default() };
        // On a disk that is as the recorded one, which takes as long as recorded.
        let prediction = predict(&start, &change, &|start| start.length);
        assert!(
            (prediction.before_s - 70e-9).abs() < 1e-12 && (prediction.after_s - 35e-9).abs() < 1e-12,
            "{prediction:?}"
        );
        assert!((prediction.ratio - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_reads_computing_and_writing_are_left() {
        let write = BlockRow { write: true, ..read(SYSTEM, 8, 8, (60, 65)) };
        let log = vec![read(APP, 0, 8, (0, 40)), read(SYSTEM, 0, 8, (50, 60)), write];
        let left = Start::of(&rows(log), Nanos(70), CacheState::Cold).without_reads();
        assert_eq!((spans(&left), left.length), (vec![(10, 15)], Nanos(20)));
        let limit = Limit { needed: Bytes(16), reading_s: 3.0, computing_s: 2.0 };
        assert!(limit.seconds() == 3.0 && Limit { computing_s: 4.0, ..limit }.seconds() == 4.0);
    }

    #[test]
    fn what_is_read_in_place_of_something_costs_its_time() {
        let log = vec![read(APP, 0, 8, (0, 40)), read(SYSTEM, 0, 8, (50, 60))];
        let start = Start::of(&rows(log), Nanos(70), CacheState::Cold);
        let change = Change { cut: cut_from_start(u64::MAX), read: Nanos(7), ..Change::default() };
        let prediction = predict(&start, &change, &|start| start.length);
        assert!((prediction.after_s - 37e-9).abs() < 1e-12, "{prediction:?}");
    }

    #[test]
    fn files_of_an_image_are_read_of_it_and_unpacked() {
        let log = vec![read(APP, 0, 8, (0, 40)), read(SYSTEM, 0, 8, (50, 60))];
        let start = Start::of(&rows(log), Nanos(70), CacheState::Cold);
        let image = Imaged { files: BTreeSet::from([APP]), reading: Nanos(6), unpacking: Nanos(3) };
        let change = Change { image: Some(image), ..Change::default() };
        let prediction = predict(&start, &change, &|start| start.length);
        assert!((prediction.after_s - 39e-9).abs() < 1e-12, "{prediction:?}");
    }

    #[test]
    fn a_file_in_one_piece_is_read_from_behind_its_first_request() {
        let at = |file, offset: u64, disk: u64, time: u64| BlockRow {
            disk: DiskOffset(disk),
            ..read(file, offset, 8, (time, time + 5))
        };
        let write = BlockRow { write: true, ..at(APP, 0, 1, 40) };
        let log = vec![at(APP, 4096, 500, 0), at(APP, 16, 9000, 10), at(SYSTEM, 0, 77, 20), at(APP, 32, 3, 30), write];
        let start = Start::of(&rows(log), Nanos(70), CacheState::Cold);
        let left = start.changed(&Change { joined: BTreeSet::from([APP, FileId(9)]), ..Change::default() });
        let places: Vec<u64> = left.blocks.iter().map(|block| block.disk.0).collect();
        assert_eq!(places, [9000 + 4080, 9000, 77, 9016, 1]);
        assert_eq!((spans(&left), left.length), (spans(&start), start.length));
    }

    #[test]
    fn what_is_held_back_before_it_is_traced_is_the_disks_time() {
        let fill = |offset: u64, len: u64, at| model::FillRow {
            at_ns: Nanos(at),
            pid: 1,
            tid: 1,
            file: APP,
            offset: FileOffset(offset),
            len: Bytes(len),
            cause: Cause::Read,
        };
        let mut rows =
            rows(vec![read(APP, 4096, 4096, (50, 51)), read(APP, 0, 4096, (55, 56)), read(SYSTEM, 0, 8, (60, 61))]);
        rows.fills = vec![fill(0, 8192, 10), fill(0, 8192, 90), fill(4096, 4096, 90)];
        let start = Start::of(&rows, Nanos(70), CacheState::Cold);
        assert_eq!(spans(&start), [(10, 51), (10, 56), (60, 61)]);
    }

    #[test]
    fn nothing_changed_predicts_nothing() {
        let start = Start::of(&rows(vec![read(APP, 0, 8, (0, 40))]), Nanos(70), CacheState::Cold);
        assert_eq!(start.changed(&Change::default()), start);
        assert_eq!(predict(&start, &Change::default(), &|start| start.length).ratio, 1.0);
        assert_eq!(predict(&Start::default(), &Change::default(), &|start| start.length).ratio, 1.0);
    }

    proptest! {
        /// Whatever goes, the rest keeps its order, its overlaps and its own time, and nothing gets longer.
        #[test]
        fn a_log_stays_a_log(spans in prop::collection::vec((0_u64..500, 0_u64..60, any::<bool>()), 0..30)) {
            let file = |app: bool| if app { APP } else { SYSTEM };
            let log = spans.iter().map(|(from, len, app)| read(file(*app), 0, 8, (*from, from + len)));
            let start = Start::of(&rows(log.collect()), Nanos(500), CacheState::Cold);
            let left = start.changed(&Change { cut: cut_from_start(8), ..Change::default() });
            prop_assert!(left.length <= start.length);
            let of_system = Served::File(SYSTEM, FileOffset(0));
            let kept: Vec<&BlockRow> = start.blocks.iter().filter(|block| block.served == of_system).collect();
            prop_assert_eq!(kept.len(), left.blocks.len());
            for (was, is) in kept.iter().zip(&left.blocks) {
                prop_assert!(is.start_ns <= was.start_ns);
                // Time in which a request that stays was in flight is never cut.
                prop_assert_eq!(is.done_ns.unwrap() - is.start_ns, was.done_ns.unwrap() - was.start_ns);
            }
        }
    }
}

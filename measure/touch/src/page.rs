//! Pages, from traces of fills. The `page` engine: a traced cold start without read-ahead. With `read_ahead_kb` 0 a
//! page comes into the cache only if it is asked for, so the fills of that run are the pages that a start touches.
//! Pure: another room takes the trace.

use model::{Bytes, Cause, FileId, FileKind, FileOffset, FillRow, PAGE, TouchEngine, TouchRow, TraceRows};
use std::collections::HashSet;

/// What the page engine cannot know, one sentence each.
const CANNOT: [&str; 3] = [
    "pages that other programs kept in memory during the run: they did not have to be read",
    "whether the program used what it requested with readahead, MAP_POPULATE or huge pages: it counts as touched",
    "which metadata is needed: file systems read groups of inodes whatever the disk's read-ahead is",
];
/// More pages than any file has; rows of a damaged recording may claim more.
const MOST_PAGES: u64 = 1 << 32;

/// What the probe engine cannot know, beside what its trace says.
const CANNOT_TELL_NEED: &str = "what was needed and what was only read ahead";

/// What a trace without read-ahead touched: each page once, in the order of its first fill. Fills that are contiguous
/// in time and place, by one thread, are one row. What the program wrote and what lies in memory is left out. Of the
/// trace itself remain files, sections, extents and processes.
pub fn pages(trace: TraceRows) -> TraceRows {
    let touches = touched(&trace, TouchEngine::Page);
    let mut rows = kept(trace, touches);
    // What the tracer cannot know of requests and opens is not asked here.
    rows.info.cannot = CANNOT.map(String::from).into();
    rows
}

/// What a trace of a probe found in the cache: pages without order, time or thread.
pub fn resident_pages(trace: TraceRows) -> TraceRows {
    let mut touches = touched(&trace, TouchEngine::Probe);
    for touch in &mut touches {
        (touch.order, touch.at_ns, touch.tid) = (None, None, None);
    }
    let mut rows = kept(trace, touches);
    rows.info.cannot.insert(0, CANNOT_TELL_NEED.into());
    rows
}

fn kept(trace: TraceRows, touches: Vec<TouchRow>) -> TraceRows {
    TraceRows {
        info: trace.info,
        files: trace.files,
        sections: trace.sections,
        extents: trace.extents,
        processes: trace.processes,
        touches,
        held: trace.held,
        ..TraceRows::default()
    }
}

fn touched(trace: &TraceRows, engine: TouchEngine) -> Vec<TouchRow> {
    let mut touches: Vec<TouchRow> = Vec::new();
    let mut seen: HashSet<(FileId, u64)> = HashSet::new();
    let on_disk = |fill: &&FillRow| {
        let file = trace.files.get(fill.file.0 as usize);
        fill.cause != Cause::Write
            && file.is_some_and(|file| matches!(file.kind, FileKind::Regular | FileKind::Metadata))
    };
    for fill in trace.fills.iter().filter(on_disk) {
        let first = fill.offset.0 / PAGE;
        let pages = fill.len.0.div_ceil(PAGE).min(MOST_PAGES);
        for page in first..first.saturating_add(pages) {
            if seen.insert((fill.file, page)) {
                add(&mut touches, fill, page, engine);
            }
        }
    }
    touches
}

/// Adds a page that was not seen before.
fn add(touches: &mut Vec<TouchRow>, fill: &FillRow, page: u64, engine: TouchEngine) {
    let offset = page.saturating_mul(PAGE);
    let order = u32::try_from(touches.len()).ok();
    match touches.last_mut() {
        Some(last)
            if last.file == fill.file
                && last.offset.0 + last.len.0 == offset
                && last.at_ns == Some(fill.at_ns)
                && last.tid == Some(fill.tid) =>
        {
            last.len.0 += PAGE;
        }
        _ => touches.push(TouchRow {
            file: fill.file,
            offset: FileOffset(offset),
            len: Bytes(PAGE),
            order,
            at_ns: Some(fill.at_ns),
            tid: Some(fill.tid),
            engine,
            name: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FileRow, Nanos, Owner};

    fn file(kind: FileKind) -> FileRow {
        FileRow {
            path: "/x".into(),
            kind,
            owner: Owner::App,
            dev: 1,
            ino: 1,
            size: Bytes(0),
            extents: None,
            build_id: None,
        }
    }

    fn fill(at: u64, file: u32, page: u64, pages: u64, cause: Cause) -> FillRow {
        let (offset, len) = (FileOffset(page * PAGE), Bytes(pages * PAGE));
        FillRow { at_ns: Nanos(at), pid: 7, tid: 8, file: FileId(file), offset, len, cause }
    }

    #[test]
    fn each_page_counts_once_in_the_order_of_its_first_fill() {
        let fills = vec![
            fill(1, 0, 5, 1, Cause::Fault),
            fill(2, 1, 0, 2, Cause::Metadata),
            fill(3, 0, 4, 3, Cause::Read),
            fill(4, 0, 5, 1, Cause::Fault),
            fill(5, 2, 0, 9, Cause::Read),
            fill(6, 0, 9, 1, Cause::Write),
        ];
        let files = vec![file(FileKind::Regular), file(FileKind::Metadata), file(FileKind::Memory)];
        let touched = pages(TraceRows { files, fills, ..TraceRows::default() });
        let seen: Vec<(u32, u64, u64, Option<u32>)> =
            touched.touches.iter().map(|row| (row.file.0, row.offset.0 / PAGE, row.len.0 / PAGE, row.order)).collect();
        assert_eq!(seen, [(0, 5, 1, Some(0)), (1, 0, 2, Some(1)), (0, 4, 1, Some(2)), (0, 6, 1, Some(3))]);
        assert_eq!(touched.touches[0].at_ns, Some(Nanos(1)));
        assert!(touched.fills.is_empty());
    }

    #[test]
    fn rows_of_a_damaged_recording_do_not_run_away() {
        let fills = vec![
            fill(1, 7, 0, 1, Cause::Read),
            FillRow { offset: FileOffset(u64::MAX - 5), len: Bytes(PAGE), ..fill(1, 0, 0, 1, Cause::Read) },
        ];
        let touched = pages(TraceRows { files: vec![file(FileKind::Regular)], fills, ..TraceRows::default() });
        assert_eq!(touched.touches.len(), 1);
    }
}

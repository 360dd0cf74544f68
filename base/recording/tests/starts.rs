//! Which starts of a stored recording tell what a program needs, and which of them is believed.

mod common;

use common::{created, run_row, trace};
use model::{Bytes, FileId, FileOffset, RunId, RunKind, RunRow, TouchEngine, TouchRow, TraceRows};
use recording::{Reader, Starts, Told, Variant};

/// A start that was watched by this engine and saw one page of file 0.
fn watched(engine: TouchEngine, page: u64) -> TraceRows {
    let touch = TouchRow {
        file: FileId(0),
        offset: FileOffset(page * 4096),
        len: Bytes(4096),
        order: None,
        at_ns: None,
        tid: None,
        engine,
        name: None,
    };
    TraceRows { touches: vec![touch], ..trace(1) }
}

/// Of the first variant one traced start and four that were watched, of the second one that tells nothing.
fn recorded() -> (tempfile::TempDir, Reader) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ff.thaw");
    let mut writer = created(&path);
    for index in 0..2 {
        writer.add_variant(&Variant { index, name: format!("{index}"), argv: vec!["program".into()] }).unwrap();
    }
    let runs = [
        (0, RunKind::Trace, trace(3)),
        (0, RunKind::Touch, watched(TouchEngine::Function, 0)),
        (0, RunKind::Touch, watched(TouchEngine::Page, 1)),
        (0, RunKind::Touch, watched(TouchEngine::Page, 2)),
        (0, RunKind::Touch, watched(TouchEngine::Probe, 3)),
        (1, RunKind::Touch, watched(TouchEngine::Function, 4)),
    ];
    for (block, (variant, kind, rows)) in (0..).zip(runs) {
        let id = writer.add_run(&RunRow { variant, kind, ..run_row(block) }, &[], &[]).unwrap();
        writer.add_trace(id, &rows).unwrap();
    }
    writer.finish().unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

fn page(rows: Option<TraceRows>) -> Option<u64> {
    rows.map(|rows| rows.touches[0].offset.0 / 4096)
}

#[test]
fn the_last_watched_start_that_satisfies_is_asked() {
    let (_folder, reader) = recorded();
    let starts = Starts::of(&reader).unwrap();
    assert_eq!(page(starts.last_watched(&reader, 0, |_| true).unwrap()), Some(3));
    assert_eq!(page(starts.last_watched(&reader, 1, |_| true).unwrap()), Some(4));
    assert_eq!(page(starts.last_watched(&reader, 0, |_| false).unwrap()), None);
    assert_eq!(page(starts.last_watched(&reader, 2, |_| true).unwrap()), None, "there is no such variant");
}

#[test]
fn needed_pages_are_those_of_the_last_start_without_read_ahead() {
    let (_folder, reader) = recorded();
    let starts = Starts::of(&reader).unwrap();
    assert_eq!(page(starts.needed_pages(&reader, 0).unwrap()), Some(2));
    assert_eq!(page(starts.needed_pages(&reader, 1).unwrap()), None, "first calls do not tell it");
}

#[test]
fn of_the_starts_that_tell_needs_the_first_of_the_best_is_taken() {
    let (_folder, reader) = recorded();
    let starts = Starts::of(&reader).unwrap();
    let all: Vec<(RunId, Told)> =
        starts.telling_needs(&reader, 0).unwrap().iter().map(|telling| (telling.run, telling.told)).collect();
    let expected = [(1, Told::ByAsking), (3, Told::ByPages), (4, Told::ByPages), (5, Told::ByCache)];
    assert_eq!(all, expected.map(|(run, told)| (RunId(run), told)));
    let best = starts.best_of_needs(&reader, 0).unwrap().expect("a start that tells");
    assert_eq!((best.run, best.told, page(Some(best.rows))), (RunId(3), Told::ByPages, Some(1)));
    assert!(starts.best_of_needs(&reader, 1).unwrap().is_none());
    assert!(starts.telling_needs(&reader, 1).unwrap().is_empty());
}

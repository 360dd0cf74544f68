//! What becomes of each list of a trace, and which rows are believed.

use super::super::{
    picture::{DISK, PROG, Scene, inode},
    sound::sound,
};
use crate::{raw::*, report};
use model::*;

/// A scene with something in every list.
fn everything() -> Scene {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 7, 3), (3, 50, 2)]).sections =
        vec![elf::Section { name: ".text".into(), offset: FileOffset(64), len: Bytes(100) }];
    scene.play("prog a |f  |\n prog a |#  |\n prog a |R  |\n prog a |rr |");
    scene.raw.info = TraceInfo { engine: "perf".into(), records: 9, ..TraceInfo::default() };
    let (at, pid, tid) = (Nanos(100), PROG, PROG + 1);
    scene.raw.mmaps.push(RawMmap {
        at,
        pid,
        inode: inode("a"),
        path: "/a".into(),
        offset: 4096,
        len: Bytes(5000),
        exec: true,
    });
    scene.raw.syncs.push(RawSync { at, done: Some(Nanos(130)), pid, tid, inode: Some(inode("b")) });
    scene.raw.syncs.push(RawSync { at: Nanos(140), done: None, pid, tid, inode: Some(inode("b")) });
    scene.raw.direct.push(RawDirect { at, pid, tid, inode: inode("c"), offset: 512, len: Bytes(1024), write: false });
    scene.raw.opens.push(RawOpen { inode: Some(inode("a")), path: None, count: 2 });
    scene.raw.opens.push(RawOpen { inode: None, path: Some("/d".into()), count: 3 });
    scene.raw.opens.push(RawOpen { inode: None, path: Some("/a".into()), count: 4 });
    scene.raw.opens.push(RawOpen { inode: None, path: None, count: 5 });
    scene.raw.opens.push(RawOpen { inode: None, path: Some("/b".into()), count: 3 });
    // One that the trace has, and one that it does not.
    scene.resolved.held.insert(inode("c"), (2, "1 init".into()));
    scene.resolved.held.insert(inode("a"), (7, "5 other".into()));
    scene.resolved.held.insert(inode("z"), (1, "8 nobody".into()));
    scene.resolved.file_systems.push(FileSystemRow {
        dev: DISK,
        kind: "ext4".into(),
        point: "/".into(),
        source: "/dev/disk".into(),
        on_disk: true,
    });
    scene
}

#[test]
fn everything_that_was_seen_becomes_a_row() {
    let scene = everything();
    let rows = scene.rows();
    let (a, b, c) = (FileId(0), FileId(1), FileId(2));
    assert_eq!(rows.files.iter().map(|file| shown(&file.path)).collect::<Vec<_>>(), ["/a", "/b", "/c"]);
    assert_eq!(rows.info, scene.raw.info);
    assert_eq!(rows.file_systems, scene.resolved.file_systems);
    let text = SectionRow { file: a, name: ".text".into(), offset: FileOffset(64), len: Bytes(100) };
    assert_eq!(rows.sections, [text]);
    let extent = |file, offset: u64, disk: u64, pages: u64| ExtentRow {
        file,
        offset: FileOffset(offset * PAGE),
        disk: DiskOffset(disk * PAGE),
        len: Bytes(pages * PAGE),
    };
    let extents = [extent(a, 0, 7, 3), extent(a, 3, 50, 2), extent(b, 0, 100, 100), extent(c, 0, 200, 100)];
    assert_eq!(rows.extents, extents);
    let (at_ns, pid, tid) = (Nanos(100), PROG, PROG + 1);
    let map = MmapRow { at_ns, pid, file: a, offset: FileOffset(4096), len: Bytes(5000), exec: true };
    assert_eq!(rows.mmaps, [map]);
    let sync = |at_ns, took_ns| SyncRow { at_ns, pid, file: b, took_ns };
    assert_eq!(rows.syncs, [sync(at_ns, Some(Nanos(30))), sync(Nanos(140), None)]);
    let direct = DirectRow { at_ns, pid, tid, file: c, offset: FileOffset(512), len: Bytes(1024), write: false };
    assert_eq!(rows.direct, [direct]);
    let held = |file, processes, example: &str| HeldRow { file, processes, example: example.into() };
    assert_eq!(rows.held, [held(a, 7, "5 other"), held(c, 2, "1 init")]);
    let open = |path: &str, count| OpenRow { path: path.into(), count };
    assert_eq!(rows.opens, [open("/a", 6), open("/b", 3), open("/d", 3)], "the most often opened first, then by path");
    let reads: Vec<_> = rows.reads.iter().map(|row| (row.file, row.offset.0, row.len.0)).collect();
    assert_eq!(reads, [(a, 0, 2 * PAGE)]);
    let faults: Vec<_> = rows.faults.iter().map(|row| (row.file, row.offset.0, row.len.0, row.missed)).collect();
    assert_eq!(faults, [(a, 0, PAGE, true)]);
    assert_eq!(rows.processes.iter().map(|row| (row.pid, row.comm.as_str())).collect::<Vec<_>>(), [(PROG, "prog")]);
}

#[test]
fn a_file_of_an_overlay_is_that_of_its_layer() {
    let mut scene = Scene::usual();
    scene.play("prog b |#  |\n prog x |#  |\n prog a | # |\n prog c |#  |");
    // What the program opened is `x` of the overlay; its pages are those of `a` below it.
    scene.resolved.stands_for.insert(inode("x"), inode("a"));
    // Nothing of this one was touched, so that it has no number.
    scene.resolved.stands_for.insert(inode("y"), inode("q"));
    let rows = scene.rows();
    // `a` was first touched as `x`.
    assert_eq!(rows.files.iter().map(|file| shown(&file.path)).collect::<Vec<_>>(), ["/b", "/a", "/c"]);
    assert_eq!(rows.fills.iter().map(|row| row.file.0).collect::<Vec<_>>(), [0, 1, 1, 2]);
    // The other way round: first as itself.
    let mut scene = Scene::usual();
    scene.play("prog a |#  |\n prog b |#  |\n prog x | # |");
    scene.resolved.stands_for.insert(inode("x"), inode("a"));
    assert_eq!(scene.rows().fills.iter().map(|row| row.file.0).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn whatever_touches_a_file_first_gives_it_its_number() {
    let mut scene = everything();
    scene.raw.fills.clear();
    scene.raw.faults.clear();
    scene.raw.blocks.clear();
    scene.raw.reads.clear();
    let paths = |scene: &Scene| scene.rows().files.iter().map(|file| shown(&file.path)).collect::<Vec<_>>();
    scene.raw.mmaps[0].at = Nanos(5);
    scene.raw.direct[0].at = Nanos(4);
    scene.raw.syncs[0].at = Nanos(3);
    assert_eq!(paths(&scene), ["/b", "/c", "/a"]);
    // A sync of which the file is not known is one of a file without a name.
    scene.raw.syncs[0].inode = None;
    assert_eq!(paths(&scene), ["(unknown file)", "/c", "/a", "/b"]);
}

/// One wrong row beside good ones is left out and counted, and changes nothing else.
#[track_caller]
fn is_left_out(spoil: impl FnOnce(&mut TraceRows)) {
    let good = everything().rows();
    let mut bad = good.clone();
    spoil(&mut bad);
    let (kept, wrong) = sound(&bad);
    assert_eq!(wrong, 1);
    assert_eq!(*kept, good, "all others are kept");
    let mut answer = report(&bad);
    let warning = answer.warnings.pop().expect("a warning");
    assert!(warning.text.starts_with("1 rows of this trace make no sense"), "{}", warning.text);
    assert_eq!(answer, report(&good));
    assert_eq!(crate::needs(&bad), crate::needs(&good));
}

/// What is far, but possible, is believed.
#[track_caller]
fn is_believed(change: impl FnOnce(&mut TraceRows)) {
    let mut rows = everything().rows();
    change(&mut rows);
    let wrong = report(&rows).warnings.into_iter().find(|warning| warning.text.contains("make no sense"));
    assert_eq!(wrong, None);
}

/// The first length and offset that no file has, the first length of a fill that no machine can hold, and of a request
/// that the kernel cannot make.
const TOO_FAR: u64 = 1 << 60;
const TOO_MUCH: u64 = (1 << 36) + 1;
const NO_REQUEST: u64 = 1 << 32;

#[test]
fn a_row_of_no_file_is_left_out() {
    let none = FileId(3);
    is_left_out(|rows| rows.sections.push(SectionRow { file: none, ..rows.sections[0].clone() }));
    is_left_out(|rows| rows.extents.push(ExtentRow { file: none, ..rows.extents[0].clone() }));
    is_left_out(|rows| rows.fills.push(FillRow { file: none, ..rows.fills[0].clone() }));
    is_left_out(|rows| rows.reads.push(ReadRow { file: none, ..rows.reads[0].clone() }));
    is_left_out(|rows| rows.faults.push(FaultRow { file: none, ..rows.faults[0].clone() }));
    is_left_out(|rows| rows.mmaps.push(MmapRow { file: none, ..rows.mmaps[0].clone() }));
    is_left_out(|rows| rows.syncs.push(SyncRow { file: none, ..rows.syncs[0].clone() }));
    is_left_out(|rows| rows.direct.push(DirectRow { file: none, ..rows.direct[0].clone() }));
    let served = Served::File(none, FileOffset(0));
    is_left_out(|rows| rows.blocks.push(BlockRow { served, ..rows.blocks[0].clone() }));
}

#[test]
fn a_row_that_lies_where_no_file_reaches_is_left_out() {
    let far = FileOffset(TOO_FAR);
    is_left_out(|rows| rows.sections.push(SectionRow { offset: far, ..rows.sections[0].clone() }));
    is_left_out(|rows| rows.extents.push(ExtentRow { offset: far, ..rows.extents[0].clone() }));
    is_left_out(|rows| rows.extents.push(ExtentRow { disk: DiskOffset(TOO_FAR), ..rows.extents[0].clone() }));
    is_left_out(|rows| rows.fills.push(FillRow { offset: far, ..rows.fills[0].clone() }));
    is_left_out(|rows| rows.reads.push(ReadRow { offset: far, ..rows.reads[0].clone() }));
    is_left_out(|rows| rows.faults.push(FaultRow { offset: far, ..rows.faults[0].clone() }));
    is_left_out(|rows| rows.direct.push(DirectRow { offset: far, ..rows.direct[0].clone() }));
    is_left_out(|rows| rows.blocks.push(BlockRow { disk: DiskOffset(TOO_FAR), ..rows.blocks[0].clone() }));
    let served = Served::File(FileId(0), far);
    is_left_out(|rows| rows.blocks.push(BlockRow { served, ..rows.blocks[0].clone() }));
    is_believed(|rows| rows.reads[0].offset.0 = TOO_FAR - PAGE);
    is_believed(|rows| rows.extents[0].disk.0 = TOO_FAR - PAGE);
    is_believed(|rows| rows.blocks[0].disk.0 = TOO_FAR - PAGE);
}

#[test]
fn a_row_that_is_longer_than_any_is_left_out() {
    let long = Bytes(TOO_FAR);
    is_left_out(|rows| rows.sections.push(SectionRow { len: long, ..rows.sections[0].clone() }));
    is_left_out(|rows| rows.extents.push(ExtentRow { len: long, ..rows.extents[0].clone() }));
    is_left_out(|rows| rows.reads.push(ReadRow { len: long, ..rows.reads[0].clone() }));
    is_left_out(|rows| rows.faults.push(FaultRow { len: long, ..rows.faults[0].clone() }));
    is_left_out(|rows| rows.direct.push(DirectRow { len: long, ..rows.direct[0].clone() }));
    is_left_out(|rows| rows.fills.push(FillRow { len: Bytes(TOO_MUCH), ..rows.fills[0].clone() }));
    let mut block = everything().rows().blocks[0].clone();
    block.len = Bytes(NO_REQUEST);
    is_left_out(|rows| rows.blocks.push(block.clone()));
    for served in [Served::Metadata, Served::Unknown] {
        is_left_out(|rows| rows.blocks.push(BlockRow { served, ..block.clone() }));
    }
    is_believed(|rows| rows.reads[0].len.0 = TOO_FAR - 1);
    // Each page of a file's request is looked at, and that ends.
    is_believed(|rows| rows.blocks[0].len.0 = NO_REQUEST - 1);
}

#[test]
fn every_wrong_row_is_counted_once() {
    let mut rows = everything().rows();
    let files = rows.files.len();
    rows.sections.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    rows.extents.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    rows.fills.iter_mut().for_each(|row| row.file.0 = files as u32);
    rows.reads.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    rows.faults.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    rows.blocks.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    rows.mmaps.iter_mut().for_each(|row| row.file.0 = files as u32);
    rows.syncs.iter_mut().for_each(|row| row.file.0 = files as u32);
    rows.direct.iter_mut().for_each(|row| row.len.0 = TOO_FAR);
    let lists = [
        rows.sections.len(),
        rows.extents.len(),
        rows.fills.len(),
        rows.reads.len(),
        rows.faults.len(),
        rows.blocks.len(),
        rows.mmaps.len(),
        rows.syncs.len(),
        rows.direct.len(),
    ];
    assert!(lists.iter().all(|rows| *rows > 0), "{lists:?}");
    let text = format!("{} rows of this trace make no sense and were left out", lists.iter().sum::<usize>());
    assert_eq!(report(&rows).warnings.pop().map(|warning| warning.text), Some(text));
}

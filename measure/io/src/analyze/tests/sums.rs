//! The sums of the report: who waited for what, and how much of it.

use super::super::picture::{DISK, PROG, Scene};
use super::{mapped_by_others, touched_by};
use crate::{OwnedBy, Report, report, report_with_needed};
use model::*;

/// Metadata, a file of the program, one that it writes, one that it asks for last; and others.
fn start() -> TraceRows {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 0, 100)]).row.owner = Owner::App;
    scene.play(
        "
        prog    $ |#     |
        prog    $ |R     |
        prog    a |####  |
        prog    a |RRRR  |
        prog    b |##    |
        kworker b |WW    |
        prog    c |r     |
        kworker c |W     |
        prog    c | R    |
        other   x |R     |
        ",
    );
    scene.raw.blocks[4].done = None;
    let mut rows = scene.rows();
    let owner = |file, rule| OwnerRow { file: FileId(file), rule, what: None, because: None };
    rows.owners = vec![
        owner(0, OwnerRule::Metadata),
        owner(1, OwnerRule::Program),
        owner(2, OwnerRule::Other),
        owner(3, OwnerRule::Other),
        owner(4, OwnerRule::Home),
    ];
    rows.processes.push(ProcessRow { pid: 77, comm: "idle".into(), ..rows.processes[0].clone() });
    rows
}

fn pages(count: u64) -> Bytes {
    Bytes(count * PAGE)
}

#[test]
fn the_totals_are_those_of_the_program() {
    let totals = report(&start()).totals;
    assert_eq!(totals.filled, pages(7));
    assert_eq!((totals.requests, totals.metadata_requests, totals.read_from_disk), (3, 1, pages(6)));
    // From the end of the metadata's page back to 0, and from 4 to 201.
    assert_eq!((totals.seeks, totals.seek_distance), (2, pages(1 + 197)));
    assert_eq!(totals.waiting, Nanos(15 + 15), "the one whose end was not seen waits for nothing");
    assert_eq!((totals.writes, totals.written), (1, pages(2)), "not what others write");
    assert_eq!((totals.others_requests, totals.unfinished_requests), (2, 1));
    assert_eq!((totals.unattributed_requests, totals.attributed_share), (0, 1.0));
    assert_eq!((totals.needed, totals.needed_of, totals.need_unknown_files), (None, None, 0));
}

#[test]
fn causes_come_with_the_most_bytes_first() {
    let causes: Vec<_> = report(&start()).by_cause.iter().map(|line| (line.cause, line.filled)).collect();
    assert_eq!(causes, [(Cause::ReadAhead, pages(4)), (Cause::Write, pages(2)), (Cause::Metadata, pages(1))]);
}

#[test]
fn owners_get_what_their_files_cost_and_the_rules_that_gave_them() {
    let answer = report(&start());
    let line = |owner: &crate::OwnerReport| (owner.owner, owner.files, owner.filled, owner.requests, owner.waiting.0);
    let lines: Vec<_> = answer.by_owner.iter().map(line).collect();
    assert_eq!(lines, [(Owner::App, 1, pages(4), 1, 15), (Owner::System, 3, pages(3), 2, 15)]);
    let brought: Vec<_> = answer.by_owner.iter().map(|owner| owner.bytes_from_disk).collect();
    assert_eq!(brought, [pages(4), pages(2)]);
    let rules = |owner: usize| {
        let rules = answer.by_owner[owner].rules.iter();
        rules.map(|line| (line.by.rule, line.files, line.filled)).collect::<Vec<_>>()
    };
    assert_eq!(rules(0), [(OwnerRule::Program, 1, pages(4))]);
    assert_eq!(rules(1), [(OwnerRule::Other, 2, pages(2)), (OwnerRule::Metadata, 1, pages(1))]);
    let by = OwnedBy { rule: OwnerRule::Metadata, what: None, because: None };
    assert_eq!(answer.files[0].owned_by, Some(by));
}

#[test]
fn processes_get_what_they_asked_for() {
    let answer = report(&start());
    let lines = answer.processes.iter().map(|line| (line.pid, line.filled, line.requests, line.waiting.0));
    assert_eq!(lines.collect::<Vec<_>>(), [(PROG, pages(7), 3, 30), (77, pages(0), 0, 0)]);
}

#[test]
fn files_get_their_requests_and_what_was_asked_of_them() {
    let answer = report(&start());
    let line = |line: &crate::FileReport| (line.path.clone(), line.filled, line.requests, line.asked, line.waiting.0);
    assert_eq!(
        answer.files.iter().map(line).collect::<Vec<_>>(),
        [
            ("/dev/disk".into(), pages(1), 1, pages(0), 15),
            ("/a".into(), pages(4), 1, pages(0), 15),
            ("/b".into(), pages(2), 0, pages(0), 0),
            ("/c".into(), pages(0), 1, pages(1), 0),
        ]
    );
    assert_eq!(answer.files.iter().map(|line| line.bytes_from_disk.0 / PAGE).collect::<Vec<_>>(), [1, 4, 0, 1]);
    let first: Vec<_> = answer.files.iter().map(|line| line.first_touch_ns.map(|at| at.0)).collect();
    assert_eq!(first, [Some(10), Some(30), Some(50), Some(70)]);
    assert_eq!(answer.files.iter().map(|line| line.size.0 / PAGE).collect::<Vec<_>>(), [10_000, 100, 100, 100]);
}

#[test]
fn any_event_may_be_the_first_touch_of_a_file() {
    let mut rows = start();
    let template = (FileId(3), PROG);
    let first = |rows: &TraceRows| report(rows).files[3].first_touch_ns.map(|at| at.0);
    let (file, pid) = template;
    let fault = FaultRow { at_ns: Nanos(60), pid, tid: pid, file, offset: FileOffset(0), len: pages(1), missed: false };
    rows.faults.push(fault);
    assert_eq!(first(&rows), Some(60));
    rows.mmaps.push(MmapRow { at_ns: Nanos(50), pid, file, offset: FileOffset(0), len: pages(1), exec: false });
    assert_eq!(first(&rows), Some(50));
    rows.syncs.push(SyncRow { at_ns: Nanos(40), pid, file, took_ns: None });
    assert_eq!(first(&rows), Some(40));
    let direct = DirectRow { at_ns: Nanos(30), pid, tid: pid, file, offset: FileOffset(0), len: pages(1), write: true };
    rows.direct.push(direct);
    assert_eq!(first(&rows), Some(30));
    rows.fills.push(FillRow { at_ns: Nanos(20), file, ..rows.fills[0].clone() });
    assert_eq!(first(&rows), Some(20));
}

#[test]
fn asked_are_the_pages_of_reads_and_faults_inside_the_file_and_one_of_each_window() {
    let asked = |picture: &str| {
        let mut scene = Scene::usual();
        scene.lies("a", &[(0, 0, 100)]).row.size = Bytes(2 * PAGE + 100);
        scene.lies("b", &[(0, 100, 100)]);
        scene.play(picture);
        report(&scene.rows()).files[0].asked.0 / PAGE
    };
    assert_eq!(asked("prog a |rr      |"), 2);
    assert_eq!(asked("prog a |rrrrrrrr|"), 3, "up to the page with its end");
    assert_eq!(asked("prog a |     rrr|"), 0, "behind the end is nothing to ask for");
    assert_eq!(asked("prog b |f  f    |"), 2);
    assert_eq!(asked("prog b |mmmm    |"), 1, "one of a window at least");
    assert_eq!(asked("prog a |    mmmm|"), 0, "a window behind the end holds nothing");
    assert_eq!(asked("prog b |mmmm    |\n prog b |    mmmm|"), 2, "windows side by side share no page");
    assert_eq!(asked("prog b |mmmmmm  |\n prog b |  f     |"), 1, "a page that is known counts for its window");
    // What has no known size is not cut.
    assert_eq!(asked("prog x |rrrrrrrr|"), 8);
}

/// A read request for the program, of what `served` says.
fn block(start: u64, done: u64, page: u64, len: u64, served: Served) -> BlockRow {
    BlockRow {
        start_ns: Nanos(start),
        done_ns: Some(Nanos(done)),
        pid: Some(PROG),
        dev: DISK,
        disk: DiskOffset(page * PAGE),
        len: pages(len),
        write: false,
        served,
        flags: "R".into(),
    }
}

#[test]
fn requests_of_no_known_file_get_lines_of_their_own() {
    let mut rows = start();
    rows.files.iter_mut().for_each(|file| file.kind = FileKind::Regular);
    let other = 0x0801;
    rows.blocks = vec![
        block(100, 110, 20_000, 1, Served::Unknown),
        block(200, 210, 20_001, 1, Served::Metadata),
        block(300, 310, 20_002, 1, Served::Unknown),
        BlockRow { dev: other, ..block(400, 410, 0, 1, Served::Metadata) },
        block(500, 510, 20_003, 1, Served::Metadata),
    ];
    let answer = report(&rows);
    let line = |line: &crate::FileReport| (line.path.clone(), line.kind, line.owner, line.requests, line.waiting.0);
    assert_eq!(
        answer.files[4..].iter().map(line).collect::<Vec<_>>(),
        [
            ("(not attributed, device 254:0)".into(), FileKind::Unnamed, Owner::System, 2, 20),
            ("(metadata of device 254:0)".into(), FileKind::Metadata, Owner::System, 2, 20),
            ("(metadata of device 8:1)".into(), FileKind::Metadata, Owner::System, 1, 10),
        ]
    );
    assert_eq!(answer.totals.seeks, 0, "each disk has a head of its own");
}

/// Two file systems whose metadata lie at the same places of two disks, pages 10 to 19, and two requests for them.
fn two_disks() -> TraceRows {
    let mut rows = start();
    rows.files.truncate(2);
    rows.owners.clear();
    (rows.fills, rows.reads, rows.blocks, rows.extents) = Default::default();
    for (number, file) in (0_u32..).zip(&mut rows.files) {
        file.kind = FileKind::Metadata;
        file.dev = u64::from(number) + 1;
        file.path = format!("/dev/{number}").into();
        let (file, offset) = (FileId(number), FileOffset(5 * PAGE));
        rows.extents.push(ExtentRow { file, offset, disk: DiskOffset(10 * PAGE), len: pages(10) });
    }
    rows
}

fn lines(rows: &TraceRows) -> Vec<(String, u64)> {
    let answer = report(rows);
    let used = answer.files.iter().filter(|line| line.requests > 0);
    used.map(|line| (line.path.clone(), line.waiting.0)).collect()
}

#[test]
fn a_metadata_request_belongs_to_the_device_that_waits_for_it_then_to_the_one_it_was_made_to() {
    let mut rows = two_disks();
    rows.blocks.push(BlockRow { dev: 2, ..block(100, 110, 12, 1, Served::Metadata) });
    assert_eq!(lines(&rows), [("/dev/1".into(), 10)]);
    // Page 12 of the disk is page 7 of the device.
    let fill = |page: u64| FillRow {
        at_ns: Nanos(90),
        pid: PROG,
        tid: PROG,
        file: FileId(0),
        offset: FileOffset(page * PAGE),
        len: pages(1),
        cause: Cause::Metadata,
    };
    rows.fills = vec![fill(12)];
    assert_eq!(lines(&rows), [("/dev/1".into(), 10)]);
    rows.fills = vec![fill(7)];
    assert_eq!(lines(&rows), [("/dev/0".into(), 20)], "it was asked for when its page came");
    rows.fills.clear();
    rows.blocks[0].dev = 3;
    assert_eq!(lines(&rows), [("/dev/0".into(), 10)], "else the first that lies there");
}

#[test]
fn a_metadata_request_beside_all_devices_is_of_none() {
    for (page, known) in [(9, false), (10, true), (19, true), (20, false)] {
        let mut rows = two_disks();
        rows.blocks.push(block(100, 110, page, 1, Served::Metadata));
        assert_eq!(lines(&rows)[0].0.starts_with("/dev/"), known, "page {page}");
    }
}

#[test]
fn a_request_is_in_flight_from_the_last_of_its_pages_and_only_the_first_request_for_them() {
    let mut rows = start();
    (rows.fills, rows.blocks) = Default::default();
    let (file, at) = (FileId(1), FileOffset(PAGE));
    let fill = |at_ns: u64, page: u64, count: u64| FillRow {
        at_ns: Nanos(at_ns),
        pid: PROG,
        tid: PROG,
        file,
        offset: FileOffset(page * PAGE),
        len: pages(count),
        cause: Cause::ReadAhead,
    };
    rows.fills = vec![fill(10, 1, 2), fill(20, 3, 1), fill(22, 0, 1), fill(25, 4, 1), fill(31, 1, 1)];
    rows.blocks = vec![block(30, 40, 1, 3, Served::File(file, at))];
    assert_eq!(report(&rows).totals.waiting, Nanos(20));
    rows.fills.pop();
    rows.blocks.push(block(50, 55, 1, 3, Served::File(file, at)));
    assert_eq!(report(&rows).totals.waiting, Nanos(20 + 5));
    // A page that comes in the moment of the request is one of it.
    rows.blocks.truncate(1);
    rows.fills = vec![fill(10, 1, 2), fill(30, 3, 1), fill(31, 1, 1)];
    assert_eq!(report(&rows).totals.waiting, Nanos(10));
}

#[test]
fn a_request_that_touches_a_page_in_part_waits_for_that_page() {
    let mut rows = start();
    (rows.fills, rows.blocks) = Default::default();
    let (file, offset) = (FileId(1), FileOffset(PAGE));
    let fill = FillRow {
        at_ns: Nanos(10),
        pid: PROG,
        tid: PROG,
        file,
        offset: FileOffset(2 * PAGE),
        len: Bytes(100),
        cause: Cause::ReadAhead,
    };
    rows.fills = vec![fill];
    rows.blocks = vec![BlockRow { len: Bytes(PAGE + 1), ..block(30, 40, 1, 1, Served::File(file, offset)) }];
    assert_eq!(report(&rows).totals.waiting, Nanos(30));
    rows.blocks[0].len = Bytes(PAGE);
    assert_eq!(report(&rows).totals.waiting, Nanos(10));
}

#[test]
fn sections_get_only_what_overlaps_them() {
    let mut rows = start();
    (rows.fills, rows.blocks) = Default::default();
    let file = FileId(1);
    let section =
        |name: &str, offset, len| SectionRow { file, name: name.into(), offset: FileOffset(offset), len: Bytes(len) };
    // Not in the order of their places; one without bytes lies within another.
    rows.sections = vec![
        section("third", 2 * PAGE, 2 * PAGE),
        section("first", 0, PAGE),
        section("second", PAGE, PAGE),
        section("empty", PAGE + 8, 0),
    ];
    let shown = |rows: &TraceRows| -> Vec<(String, u64, u64)> {
        let answer = report(rows);
        answer.files[1].sections.iter().map(|line| (line.name.clone(), line.filled.0, line.waiting.0)).collect()
    };
    let fill = |offset: u64, len: u64| FillRow {
        at_ns: Nanos(10),
        pid: PROG,
        tid: PROG,
        file,
        offset: FileOffset(offset),
        len: Bytes(len),
        cause: Cause::ReadAhead,
    };
    rows.fills = vec![fill(PAGE, PAGE)];
    assert_eq!(shown(&rows), [("second".into(), PAGE, 0)]);
    rows.fills = vec![fill(PAGE - 10, PAGE + 30)];
    assert_eq!(shown(&rows), [("first".into(), 10, 0), ("second".into(), PAGE, 0), ("third".into(), 20, 0)]);
    // The one without bytes does not hide the one around it.
    rows.fills = vec![fill(PAGE + 100, PAGE)];
    assert_eq!(shown(&rows), [("second".into(), PAGE - 100, 0), ("third".into(), 100, 0)]);
    // A wait without a fill is shown too: 40 ns over two pages.
    rows.fills.clear();
    rows.blocks = vec![block(60, 100, 1, 2, Served::File(file, FileOffset(PAGE)))];
    assert_eq!(shown(&rows), [("second".into(), 0, 20), ("third".into(), 0, 20)]);
    assert_eq!(report(&rows).files[1].sections.iter().map(|line| line.size.0).collect::<Vec<_>>(), [PAGE, 2 * PAGE]);
}

#[test]
fn reads_past_the_cache_count_up_to_the_end_of_the_file() {
    let mut rows = start();
    let read = |file: u32, offset: u64, len: u64, write: bool| DirectRow {
        at_ns: Nanos(500),
        pid: PROG,
        tid: PROG,
        file: FileId(file),
        offset: FileOffset(offset),
        len: Bytes(len),
        write,
    };
    rows.files[1].size = Bytes(10_000);
    rows.files[2].kind = FileKind::Unnamed;
    rows.files[2].size = Bytes(1);
    rows.direct =
        vec![read(1, 0, 8192, false), read(1, 8192, 8192, false), read(1, 0, 77, true), read(2, 0, 512, false)];
    let direct: Vec<_> = report(&rows).files.iter().map(|line| line.direct.0).collect();
    assert_eq!(direct, [0, 10_000, 512, 0]);
}

#[test]
fn files_in_pieces_come_with_the_most_pieces_first() {
    let mut rows = start();
    for (file, extents) in rows.files.iter_mut().zip([Some(9), Some(2), Some(1), Some(5)]) {
        file.extents = extents;
    }
    let pieces: Vec<_> = report(&rows).fragmented.iter().map(|file| (file.path.clone(), file.extents)).collect();
    assert_eq!(pieces, [("/c".into(), 5), ("/a".into(), 2)], "neither a whole file nor the metadata");
}

#[test]
fn synced_files_come_with_the_longest_first() {
    let mut rows = start();
    let sync = |file: u32, took: Option<u64>| SyncRow {
        at_ns: Nanos(500),
        pid: PROG,
        file: FileId(file),
        took_ns: took.map(Nanos),
    };
    rows.syncs = vec![sync(1, Some(30)), sync(2, Some(25)), sync(2, None), sync(2, Some(25))];
    let answer = report(&rows);
    let synced: Vec<_> = answer.synced.iter().map(|line| (line.path.clone(), line.count, line.took.0)).collect();
    assert_eq!(synced, [("/b".into(), 3, 50), ("/a".into(), 1, 30)]);
    assert_eq!(answer.files.iter().map(|line| line.syncs).collect::<Vec<_>>(), [0, 1, 3, 0]);
}

#[test]
fn files_that_were_opened_ten_times_are_listed() {
    let mut rows = start();
    rows.opens = [("/a", 10), ("/b", 9), ("/q", 30)].map(|(path, count)| OpenRow { path: path.into(), count }).to_vec();
    let answer = report(&rows);
    let often: Vec<_> = answer.opened_often.iter().map(|line| (line.path.clone(), line.count)).collect();
    assert_eq!(often, [("/q".into(), 30), ("/a".into(), 10)]);
    assert_eq!(answer.files.iter().map(|line| line.opens).collect::<Vec<_>>(), [None, Some(10), Some(9), None]);
}

/// The texts of the warnings.
fn doubts(rows: &TraceRows) -> Vec<String> {
    let Report { warnings, .. } = report(rows);
    warnings.into_iter().map(|warning| warning.text).collect()
}

#[test]
fn doubts_are_told_and_only_where_there_are_some() {
    let mut rows = start();
    assert_eq!(doubts(&rows), ["1 read requests were still on their way when the trace ended"]);
    rows.blocks.iter_mut().for_each(|block| block.done_ns = Some(Nanos(1000)));
    assert_eq!(doubts(&rows), [""; 0]);
    rows.info = TraceInfo { engine: "perf".into(), records: 7, lost: 3, ..TraceInfo::default() };
    assert_eq!(doubts(&rows), ["the trace lost 3 of 10 records"]);
    rows.info = TraceInfo { engine: "probe".into(), ..TraceInfo::default() };
    assert!(doubts(&rows)[0].starts_with("taken without rights"), "{:?}", doubts(&rows));
}

#[test]
fn up_to_one_request_in_twenty_may_be_unknown_without_a_doubt() {
    let mut rows = start();
    rows.blocks = (0..20).map(|number| block(number, number + 1, 9, 1, Served::Metadata)).collect();
    rows.blocks[3].served = Served::Unknown;
    assert_eq!(doubts(&rows), [""; 0]);
    assert_eq!(report(&rows).totals.attributed_share, 0.95);
    rows.blocks[4].served = Served::Unknown;
    assert_eq!(doubts(&rows), ["2 of 20 read requests could not be attributed to a file or to metadata"]);
    rows.blocks.clear();
    assert_eq!((doubts(&rows).len(), report(&rows).totals.attributed_share), (0, 1.0));
}

#[test]
fn touches_that_no_file_can_have_and_those_of_other_engines_are_not_needed() {
    let mut scene = Scene::usual();
    scene.play("prog a | ###  |");
    let rows = scene.rows();
    let good = touched_by("prog a | ##  |");
    let expected = report_with_needed(&rows, &good);
    assert_eq!(expected.totals.needed, Some(pages(2)));
    let far = 1 << 60;
    let mut touched = good.clone();
    let row = touched.touches[0].clone();
    touched.touches.push(TouchRow { offset: FileOffset(far), ..row.clone() });
    touched.touches.push(TouchRow { len: Bytes(far), ..row.clone() });
    touched.touches.push(TouchRow { offset: FileOffset(50 * PAGE), engine: TouchEngine::Function, ..row });
    assert_eq!(report_with_needed(&rows, &touched), expected);
}

#[test]
fn a_file_that_others_map_in_both_runs_is_held_by_the_more() {
    let mut scene = Scene::usual();
    scene.play("prog a | ##     |\n prog b | ##     |");
    let mut rows = scene.rows();
    let mut touched = touched_by("prog a | #  |\n prog b | #  |");
    let held =
        |file: u32, processes| HeldRow { file: FileId(file), processes, example: format!("{processes} of them") };
    rows.held = vec![held(0, 3), held(1, 8)];
    touched.held = vec![held(0, 7), held(1, 2)];
    let answer = report_with_needed(&rows, &touched);
    let by = |file: usize| answer.files[file].held_by.as_ref().map(|held| (held.processes, held.example.clone()));
    assert_eq!((by(0), by(1)), (Some((7, "7 of them".into())), Some((8, "8 of them".into()))));
    assert_eq!(answer.totals.need_unknown_files, 2);
    // What lies in memory is not read from a disk, whoever maps it.
    rows.files[0].kind = FileKind::Memory;
    assert_eq!(report_with_needed(&rows, &touched).files[0].held_by, None);
}

#[test]
fn what_a_section_needs_is_cut_at_its_borders() {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 0, 100)]).sections = vec![
        elf::Section { name: "front".into(), offset: FileOffset(0), len: Bytes(PAGE) },
        elf::Section { name: "middle".into(), offset: FileOffset(PAGE), len: Bytes(2 * PAGE + 8) },
        elf::Section { name: "back".into(), offset: FileOffset(3 * PAGE + 8), len: Bytes(2 * PAGE) },
    ];
    scene.play("prog a |########|\n prog a |RRRRRRRR|");
    let rows = scene.rows();
    let need = |picture: &str| -> Vec<(String, u64)> {
        let answer = report_with_needed(&rows, &touched_by(picture));
        let needed = |line: &crate::SectionReport| (line.name.clone(), line.needed.map_or(9, |bytes| bytes.0));
        answer.files[0].sections.iter().map(needed).collect()
    };
    let three = |front, middle, back| [("front".into(), front), ("middle".into(), middle), ("back".into(), back)];
    assert_eq!(need("prog a |#       |"), three(PAGE, 0, 0));
    assert_eq!(need("prog a | # #    |"), three(0, PAGE + 8, PAGE - 8));
    assert_eq!(need("prog a |# ## #  |"), three(PAGE, PAGE + 8, PAGE - 8 + 8));
    assert_eq!(need("prog a |########|"), three(PAGE, 2 * PAGE + 8, 2 * PAGE));
}

#[test]
fn files_that_the_other_run_does_not_have_need_nothing_and_total_counts_only_known_files() {
    let mut scene = Scene::usual();
    scene.play("prog a |##|\n prog b |##|");
    let answer = report_with_needed(&scene.rows(), &mapped_by_others(touched_by("prog a |#|\n prog c |###|"), "/c"));
    assert_eq!(answer.files.iter().map(|line| line.needed).collect::<Vec<_>>(), [Some(pages(1)), Some(pages(0))]);
    assert_eq!((answer.totals.needed, answer.totals.needed_of), (Some(pages(1)), Some(pages(4))));
}

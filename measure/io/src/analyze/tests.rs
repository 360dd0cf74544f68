//! Attribution and report, on traces drawn as pictures.

mod places;
mod rows;
mod sums;

use super::picture::{DISK, PROG, Scene, filled, inode, served};
use crate::{Totals, needs, raw::*, report, report_with_needed, resolve::*};
use model::*;

#[test]
fn a_fault_fills_its_page_and_what_was_read_ahead_around_it() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |   mmmm   |
        prog a |    f     |
        prog a |  ######  |
        prog a |  RRRRRR  |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "  ..f...");
}

#[test]
fn a_read_names_its_range_after_the_fill() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |######## |
        prog a |RRRRRRRR |
        prog a |rrr      |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "rrr.....");
}

#[test]
fn a_second_read_that_finds_its_pages_read_ahead_more() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |####         |
        prog a |RRRR         |
        prog a |rr           |
        prog a |    ####     |
        prog a |    RRRR     |
        prog a |  rr         |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "rr......");
}

#[test]
fn a_large_folio_with_the_asked_page_in_it_was_asked_for() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |     f           |
        prog a |    OOOO         |
        prog a |        OOOO     |
        prog a |    RRRRRRRR     |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "    ffff....");
}

#[test]
fn threads_do_not_answer_for_each_other() {
    let mut scene = Scene::usual();
    // The thread reads page 0 of the file while the program's fault is on its way.
    scene.play(
        "
        prog   a |    f    |
        thread a |##       |
        thread a |RR       |
        prog   a |    ##   |
        thread a |r        |
        prog   a |    RR   |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "r.  f.");
}

#[test]
fn what_the_program_writes_is_not_read() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    a |rr       |
        prog    b |###      |
        kworker b |WWW      |
        ",
    );
    let rows = scene.rows();
    assert_eq!(filled(&rows, "b"), "www");
    assert_eq!(served(&rows), ["/b+0 ours"], "the kernel thread writes what the program wrote");
    assert!(needs(&rows).is_empty());
}

#[test]
fn what_was_written_evicted_and_read_came_in_twice() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    b |####     |
        kworker b |WWWW     |
        prog    b |####     |
        prog    b |RRRR     |
        prog    b |rrrr     |
        ",
    );
    let causes = |cause| scene.rows().fills.iter().filter(|fill| fill.cause == cause).count();
    assert_eq!((causes(Cause::Write), causes(Cause::Read)), (4, 4));
}

#[test]
fn what_was_written_and_read_again_of_a_file_without_a_place_was_written() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    x |####     |
        kworker x |WWWW     |
        prog    x |####     |
        prog    x |RRRR     |
        prog    x |rrrr     |
        ",
    );
    let causes = |cause| scene.rows().fills.iter().filter(|fill| fill.cause == cause).count();
    assert_eq!((causes(Cause::Write), causes(Cause::Read)), (4, 4));
}

#[test]
fn a_page_written_between_two_reads_of_its_file_is_no_read_ahead() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |##       |
        prog a |RR       |
        prog a |rr       |
        prog a |     #   |
        prog a |rr       |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "rr   w");
}

#[test]
fn pages_that_nobody_asked_for_but_the_disk_read_are_read_ahead() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |####     |
        prog a |RRRR     |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "....");
}

#[test]
fn a_hole_is_read_without_the_disk() {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 0, 2), (6, 2, 2)]);
    scene.play(
        "
        prog a |########|
        prog a |RR      |
        prog a |      RR|
        prog a |rrr     |
        ",
    );
    let rows = scene.rows();
    assert_eq!(filled(&rows, "a"), "rrr.....");
    assert_eq!(served(&rows), ["/a+0 ours", "/a+6 ours"]);
}

#[test]
fn a_file_of_another_machine_has_no_requests_and_no_doubtful_causes() {
    let mut scene = Scene::usual();
    let file = scene.lies("a", &[]);
    file.place = Place::Elsewhere;
    scene.play(
        "
        prog b |R   |
        prog a |f   |
        prog a |##  |
        prog c |m   |
        prog a |  # |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "f.?");
}

#[test]
fn an_engine_that_sees_no_requests_or_no_asks_does_not_guess_causes() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |####     |
        prog a |rr       |
        ",
    );
    scene.raw.sees.blocks = false;
    assert_eq!(filled(&scene.rows(), "a"), "rr??");
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |####     |
        prog a |RR       |
        ",
    );
    scene.raw.sees.asks = false;
    assert_eq!(filled(&scene.rows(), "a"), "??ww");
}

#[test]
fn metadata_is_the_device_itself() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    $ |                        #  |
        prog    $ |                        R  | 
        prog    a |####                       |
        kworker a |RRRR                       |
        prog    a |rrrr                       |
        ",
    );
    let rows = scene.rows();
    assert_eq!(filled(&rows, "$").trim(), "m");
    assert_eq!(served(&rows), ["metadata ours", "/a+0 ours"]);
    assert_eq!(needs(&rows).iter().map(|need| shown(&need.path)).collect::<Vec<_>>(), ["/dev/disk", "/a"]);
}

#[test]
fn the_kernels_metadata_flag_and_its_journal_are_metadata() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog        x M | R |
        jbd2/disk-8 x   | W |
        ",
    );
    assert_eq!(served(&scene.rows()), ["metadata ours", "metadata others"]);
}

#[test]
fn requests_of_others_are_counted_and_left_out() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    a |##       |
        kworker a |RR       |
        prog    a |rr       |
        other   a |    RR   |
        other   x |R        |
        ",
    );
    let rows = scene.rows();
    assert_eq!(served(&rows), ["/a+0 ours", "/a+4 others", "unknown others"]);
    let totals = report(&rows).totals;
    assert_eq!((totals.requests, totals.others_requests), (1, 2));
    assert_eq!(totals.attributed_share, 1.0);
}

#[test]
fn a_page_that_was_read_once_does_not_claim_a_later_request_of_somebody_else() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog  a |##  |
        prog  a |RR  |
        prog  a |rr  |
        other a |RR  |
        ",
    );
    assert_eq!(served(&scene.rows()), ["/a+0 ours", "/a+0 others"]);
}

#[test]
fn a_merged_request_belongs_to_the_file_that_waits_for_most_of_it() {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 0, 2)]);
    scene.lies("b", &[(0, 2, 98)]);
    scene.play(
        "
        prog a |##      |
        prog b |####    |
        prog a |RRRRRR  |
        prog b |rrrr    |
        ",
    );
    let rows = scene.rows();
    assert_eq!(served(&rows), ["/b+0 ours"]);
    assert_eq!(filled(&rows, "a"), "..", "the request brought these pages too");
}

#[test]
fn fragments_of_a_file_are_found_at_their_places() {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 400, 3), (3, 50, 3)]);
    scene.play(
        "
        prog a |f       |
        prog a |######  |
        prog a |RRR     |
        prog a |   RRR  |
        ",
    );
    assert_eq!(served(&scene.rows()), ["/a+0 ours", "/a+3 ours"]);
}

#[test]
fn a_deleted_file_is_found_by_the_thread_that_filled_it_just_before() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog   x |##     |
        prog   x |RR     |
        prog   x |rr     |
        thread x |      R|
        ",
    );
    let rows = scene.rows();
    let unnamed = format!("{}:{}:{}+0 ours", libc::major(DISK), libc::minor(DISK), inode("x").ino);
    assert_eq!(served(&rows), [unnamed, "unknown ours".into()]);
    assert_eq!(filled(&rows, "x"), "rr");
    let answer = report(&rows);
    assert_eq!((answer.totals.requests, answer.totals.unattributed_requests), (2, 1));
    assert_eq!(answer.totals.attributed_share, 0.5);
    assert_eq!(answer.warnings[0].kind, WarningKind::Unattributed);
    assert_eq!(needs(&rows), []);
}

#[test]
fn a_stacked_device_leads_to_the_file_above() {
    let mut scene = Scene::usual();
    let above = 0xfc00;
    for extent in &mut scene.lies("a", &[(0, 10, 20)]).extents {
        extent.dev = above;
    }
    // Pages 0 to 99 of the volume lie at page 700 of the disk.
    for (from, pages) in [(10, 2), (12, 4)] {
        scene.raw.remaps.push(RawRemap {
            at: Nanos(0),
            dev: DISK,
            disk: DiskOffset((700 + from) * PAGE),
            len: Bytes(pages * PAGE),
            old_dev: above,
            old_disk: DiskOffset(from * PAGE),
        });
    }
    scene.play("prog a |  ##  |");
    scene.raw.blocks.push(RawBlock {
        start: Nanos(50),
        done: Some(Nanos(60)),
        pid: None,
        tid: 7,
        comm: "kworker/0:1".into(),
        dev: DISK,
        disk: DiskOffset(712 * PAGE),
        len: Bytes(2 * PAGE),
        flags: "R".into(),
    });
    assert_eq!(served(&scene.rows()), ["/a+2 ours"]);
}

#[test]
fn a_fault_missed_if_its_page_came_for_it_or_was_on_its_way() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog   a |f       |
        prog   a |####    |
        prog   a |RRRR    |
        ",
    );
    // While the request is on its way (5 ns), another thread wants page 2; later the program does.
    let template = scene.raw.faults[0];
    let on_its_way = scene.raw.blocks[0].start + Nanos(1);
    scene.raw.faults.push(RawFault { at: on_its_way, tid: PROG + 1, span: Span { first: 2, pages: 1 }, ..template });
    scene.raw.faults.push(RawFault { at: Nanos(900), span: Span { first: 2, pages: 1 }, ..template });
    scene.raw.faults.push(RawFault { at: Nanos(910), span: Span { first: 0, pages: 4 }, around: true, ..template });
    let rows = scene.rows();
    assert_eq!(rows.faults.iter().map(|fault| fault.missed).collect::<Vec<_>>(), [true, true, false, false]);
}

#[test]
fn a_fault_in_the_moment_its_page_was_asked_for_missed_and_one_when_it_had_come_did_not() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog   a |f       |
        prog   a |####    |
        prog   a |RRRR    |
        ",
    );
    let (template, asked, done) = (scene.raw.faults[0], scene.raw.fills[2].at, scene.raw.blocks[0].done.unwrap());
    for at in [asked, done] {
        scene.raw.faults.push(RawFault { at, tid: PROG + 1, span: Span { first: 2, pages: 1 }, ..template });
    }
    let rows = scene.rows();
    assert_eq!(rows.faults.iter().map(|fault| fault.missed).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn a_read_in_the_moment_of_its_last_fill_asked_for_it() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |####     |
        prog a |RRRR     |
        prog a |rrrr     |
        ",
    );
    scene.raw.reads[0].at = scene.raw.fills[3].at;
    assert_eq!(filled(&scene.rows(), "a"), "rrrr");
    // A fault in the moment of a fill came too late to be its cause.
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |f        |
        prog a |####     |
        prog a |RRRR     |
        ",
    );
    assert_eq!(filled(&scene.rows(), "a"), "f...");
    scene.raw.faults[0].at = scene.raw.fills[0].at;
    assert_eq!(filled(&scene.rows(), "a"), "....");
}

#[test]
fn a_page_that_came_again_in_the_moment_of_the_read_was_written_before() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    b |#        |
        kworker b |W        |
        prog    b |#        |
        prog    b |R        |
        prog    b |r        |
        ",
    );
    scene.raw.reads[0].at = scene.raw.fills[1].at;
    let causes: Vec<Cause> = scene.rows().fills.iter().map(|fill| fill.cause).collect();
    assert_eq!(causes, [Cause::Write, Cause::Read]);
}

#[test]
fn files_come_in_the_order_of_their_first_touch() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog c |m   |
        prog a |#   |
        prog c |#   |
        prog b |r   |
        ",
    );
    let rows = scene.rows();
    assert_eq!(rows.files.iter().map(|file| shown(&file.path)).collect::<Vec<_>>(), ["/c", "/a", "/b"]);
    let answer = report(&rows);
    assert_eq!(answer.files[0].first_touch_ns, Some(Nanos(10)));
}

#[test]
fn needs_are_joined_ranges() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |f              |
        prog a |####           |
        prog a |RRRR           |
        prog a |        f      |
        prog a |    #########  |
        prog a |    RRRRRRRRR  |
        prog a |                    f |
        prog a |                    # |
        prog a |                    R |
        ",
    );
    let needs = needs(&scene.rows());
    let pages = |from: u64, count: u64| (FileOffset(from * PAGE), Bytes(count * PAGE));
    assert_eq!(needs.len(), 1);
    assert_eq!(needs[0].ranges, [pages(0, 13), pages(20, 1)]);
}

/// A disk head's travel: one line per request in issue order, one column per page of the disk.
fn travel(picture: &str) -> Totals {
    let mut scene = Scene::new();
    scene.lies("a", &[(0, 0, 1000)]);
    for line in picture.lines().map(str::trim).filter(|line| line.contains('=')) {
        let pages = line.replace('.', " ");
        scene.play(&format!("prog a |{}|\n prog a |{}|", pages.replace('=', "#"), pages.replace('=', "R")));
    }
    report(&scene.rows()).totals
}

#[test]
fn a_head_that_goes_straight_on_does_not_seek() {
    let totals = travel(
        "
        ===.....
        ...===..
        ......==
        ",
    );
    assert_eq!((totals.seeks, totals.seek_distance), (0, Bytes(0)));
    assert_eq!((totals.requests, totals.read_from_disk), (3, Bytes(8 * PAGE)));
}

#[test]
fn a_head_that_jumps_forth_and_back_seeks() {
    let totals = travel(
        "
        ..==......
        .......==.
        ====......
        ....=.....
        ",
    );
    // From 4 to 7, from 9 to 0, then straight on.
    assert_eq!((totals.seeks, totals.seek_distance), (2, Bytes((3 + 9) * PAGE)));
}

#[test]
fn waiting_is_shared_and_begins_with_the_fill() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |#    |
        prog b |#    |
        kworker a |R |
        kworker b |R |
        prog a |r    |
        prog b |r    |
        ",
    );
    // Fills at 10 and 20, issued at 30 and 40 (a throttled disk), done at 50 and 60.
    scene.raw.blocks[0].done = Some(Nanos(50));
    scene.raw.blocks[1].done = Some(Nanos(60));
    let answer = report(&scene.rows());
    assert_eq!(answer.totals.waiting, Nanos(50));
    // a: 10 to 20 alone, 20 to 50 shared; b: 20 to 50 shared, 50 to 60 alone.
    assert_eq!(answer.files.iter().map(|file| file.waiting.0).collect::<Vec<_>>(), [25, 25]);
    assert_eq!(answer.processes[0].waiting, Nanos(50));
}

#[test]
fn sections_get_what_lies_in_them() {
    let mut scene = Scene::usual();
    let file = scene.lies("a", &[(0, 0, 100)]);
    let section =
        |name: &str, offset, len| elf::Section { name: name.into(), offset: FileOffset(offset), len: Bytes(len) };
    file.sections = vec![
        section(".text", 2 * PAGE, PAGE + 1024),
        section(".data", 4 * PAGE - 1024, PAGE),
        section(".unused", 50 * PAGE, 9),
    ];
    scene.play(
        "
        prog a |  f    |
        prog a |  ##   |
        prog a |  RR   |
        ",
    );
    let answer = report(&scene.rows());
    let sections: Vec<_> = answer.files[0].sections.iter().map(|part| (part.name.as_str(), part.filled.0)).collect();
    assert_eq!(sections, [(".text", PAGE + 1024), (".data", 1024)]);
    // The request was in flight for 15 ns from its fill on; its bytes are 5/8 text and 1/8 data.
    let waits: Vec<_> = answer.files[0].sections.iter().map(|part| part.waiting.0).collect();
    assert_eq!(waits, [9, 2]);
}

#[test]
fn rows_that_make_no_sense_are_left_out_and_counted() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog a |##  |
        prog a |RR  |
        prog a |rr  |
        ",
    );
    let good = scene.rows();
    let mut bad = good.clone();
    bad.fills.push(FillRow { file: FileId(77), ..good.fills[0].clone() });
    bad.fills.push(FillRow { len: Bytes(u64::MAX), ..good.fills[0].clone() });
    bad.reads.push(ReadRow { offset: FileOffset(u64::MAX), ..good.reads[0].clone() });
    bad.blocks.push(BlockRow { disk: DiskOffset(u64::MAX), ..good.blocks[0].clone() });
    bad.blocks.push(BlockRow { served: Served::File(FileId(9), FileOffset(0)), ..good.blocks[0].clone() });
    let mut answer = report(&bad);
    let warning = answer.warnings.pop().unwrap();
    assert!(warning.text.starts_with("5 rows"), "{}", warning.text);
    assert_eq!(answer, report(&good));
    assert_eq!(needs(&bad), needs(&good));
}

/// The rows of a run without read-ahead: what it filled is what it touched.
fn touched_by(script: &str) -> TraceRows {
    let mut scene = Scene::usual();
    scene.play(script);
    let rows = scene.rows();
    let touch = |fill: &FillRow| TouchRow {
        file: fill.file,
        offset: fill.offset,
        len: fill.len,
        order: None,
        at_ns: None,
        tid: None,
        engine: TouchEngine::Page,
        name: None,
    };
    TraceRows { touches: rows.fills.iter().map(touch).collect(), fills: Vec::new(), ..rows }
}

#[test]
fn needed_is_what_another_run_touched_of_the_same_files() {
    let mut scene = Scene::usual();
    scene.lies("a", &[(0, 0, 100)]).sections = vec![
        elf::Section { name: ".text".into(), offset: FileOffset(0), len: Bytes(2 * PAGE + 100) },
        elf::Section { name: ".data".into(), offset: FileOffset(2 * PAGE + 100), len: Bytes(6 * PAGE - 100) },
    ];
    scene.play(
        "
        prog b |   f      |
        prog b |   #      |
        prog a |  f       |
        prog a | #######  |
        prog a | RRRRRRR  |
        ",
    );
    let rows = scene.rows();
    // The other run meets the files in another order, sees some pages twice, and one file more.
    let touched = touched_by(
        "
        prog a |  #  #    |
        prog a |  #       |
        prog c | ##       |
        ",
    );
    let report = report_with_needed(&rows, &touched);
    let needed: Vec<_> = report.files.iter().map(|file| (file.path.as_str(), file.needed)).collect();
    assert_eq!(needed, [("/b", Some(Bytes(0))), ("/a", Some(Bytes(2 * PAGE)))]);
    assert_eq!(report.totals.needed, Some(Bytes(2 * PAGE)), "the other file did not come in");
    let sections: Vec<_> =
        report.files[1].sections.iter().map(|section| (section.name.as_str(), section.needed)).collect();
    assert_eq!(sections, [(".text", Some(Bytes(100))), (".data", Some(Bytes(2 * PAGE - 100)))]);

    let mut moved = touched;
    moved.files.iter_mut().for_each(|file| file.ino += 1000);
    assert_eq!(report_with_needed(&rows, &moved).files, report.files, "a restored profile has new inodes: by path");
    assert_eq!(crate::report(&rows).totals.needed, None);
}

#[test]
fn what_others_map_is_unknown_and_no_part_of_any_share() {
    let scene = |picture: &str| {
        let mut scene = Scene::usual();
        scene.lies("a", &[(0, 0, 100)]);
        scene.lies("b", &[(0, 200, 100)]);
        scene.play(picture);
        scene.rows()
    };
    let rows = scene("prog a | ####     |\nprog b | ##       |");
    // The other run saw one page of each; seven processes mapped b meanwhile.
    let mut touched = touched_by("prog a | #  |\nprog b | #  |");
    let held = |file| HeldRow { file, processes: 7, example: "1 systemd".into() };
    let b = touched.files.iter().position(|file| file.path == std::path::Path::new("/b")).unwrap();
    touched.held.push(held(FileId(b as u32)));
    let told = report_with_needed(&rows, &touched);
    let line = |path: &str| told.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!((line("/a").needed, &line("/a").held_by), (Some(Bytes(PAGE)), &None));
    assert_eq!(line("/b").needed, None);
    assert_eq!(line("/b").held_by.as_ref().map(|held| held.processes), Some(7));
    assert_eq!((told.totals.needed, told.totals.needed_of), (Some(Bytes(PAGE)), Some(Bytes(4 * PAGE))));
    assert_eq!(told.totals.need_unknown_files, 1);
    // The same if it was mapped in the run that is told about.
    let mut rows = rows;
    touched.held.clear();
    let b = rows.files.iter().position(|file| file.path == std::path::Path::new("/b")).unwrap();
    rows.held.push(held(FileId(b as u32)));
    assert_eq!(report_with_needed(&rows, &touched).files[b].needed, None);
}

#[test]
fn metadata_has_no_need() {
    let mut scene = Scene::usual();
    scene.lies("a", &[]).row.kind = FileKind::Metadata;
    scene.play("prog a | ##       |");
    let mut touched = touched_by("prog a | #  |");
    touched.files[0].kind = FileKind::Metadata;
    let report = report_with_needed(&scene.rows(), &touched);
    assert_eq!((report.files[0].needed, report.totals.needed), (None, Some(Bytes(0))));
}

#[test]
fn what_lies_in_memory_needs_no_disk_and_has_no_figure() {
    let mut scene = Scene::usual();
    scene.lies("a", &[]).row.kind = FileKind::Memory;
    scene.play("prog a | ##       |");
    let report = report_with_needed(&scene.rows(), &touched_by("prog a | #  |"));
    assert_eq!(report.files[0].needed, None);
}

/// The same rows, where others map one of the files.
fn mapped_by_others(mut rows: TraceRows, path: &str) -> TraceRows {
    let file = rows.files.iter().position(|file| file.path == std::path::Path::new(path)).expect("a file of the trace");
    rows.held.push(HeldRow { file: FileId(file as u32), processes: 1, example: "1 init".into() });
    rows
}

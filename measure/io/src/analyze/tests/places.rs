//! Which file a request served, where more than one could be meant.

use super::super::picture::{DISK, PROG, Scene, filled, served};
use crate::{raw::*, report};
use model::*;

/// A read request of pages of the disk that begins at `at`.
fn request(at: u64, pages: std::ops::Range<u64>) -> RawBlock {
    RawBlock {
        start: Nanos(at),
        done: Some(Nanos(at + 5)),
        pid: Some(PROG),
        tid: PROG,
        comm: "prog".into(),
        dev: DISK,
        disk: DiskOffset(pages.start * PAGE),
        len: Bytes((pages.end - pages.start) * PAGE),
        flags: "R".into(),
    }
}

#[test]
fn a_request_brings_its_own_pages_and_none_beside_them() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog b |######   |
        prog b |  RR     |
        ",
    );
    assert_eq!(filled(&scene.rows(), "b"), "ww..ww");
}

#[test]
fn a_request_that_ends_within_a_page_brings_that_page() {
    let mut scene = Scene::usual();
    scene.play("prog a |####     |");
    scene.raw.blocks.push(RawBlock { len: Bytes(PAGE + 512), ..request(50, 0..1) });
    assert_eq!(filled(&scene.rows(), "a"), "..ww");
}

#[test]
fn a_request_that_nobody_waits_for_belongs_to_the_file_with_the_longest_piece_then_to_the_first() {
    let mut scene = Scene::new();
    scene.lies("a", &[(0, 0, 3)]);
    scene.lies("b", &[(0, 3, 2)]);
    scene.lies("c", &[(0, 5, 2)]);
    scene.play("prog a |r|\n prog b |r|\n prog c |r|");
    scene.raw.blocks.push(request(50, 0..5));
    scene.raw.blocks.push(request(60, 2..5));
    scene.raw.blocks.push(request(70, 3..7));
    assert_eq!(served(&scene.rows()), ["/a+0 ours", "/b+0 ours", "/b+0 ours"]);
    // Writes by the same rule.
    for block in &mut scene.raw.blocks {
        block.flags = "W".into();
    }
    assert_eq!(served(&scene.rows()), ["/a+0 ours", "/b+0 ours", "/b+0 ours"]);
}

#[test]
fn of_two_files_with_as_many_waiting_pages_one_is_better_than_metadata() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog $ |#        |
        prog a |#        |
        prog a |R        |
        ",
    );
    assert_eq!(served(&scene.rows()), ["/a+0 ours"]);
    // More pages of the metadata than of the file wait for it.
    let mut scene = Scene::usual();
    scene.play(
        "
        prog $ |##       |
        prog a |#        |
        prog a |RR       |
        ",
    );
    assert_eq!(served(&scene.rows()), ["metadata ours"]);
}

#[test]
fn a_request_that_the_file_system_marks_is_metadata_also_where_a_file_lies() {
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    a M |RR   |
        kworker a M |WW   |
        ",
    );
    assert_eq!(served(&scene.rows()), ["metadata ours", "metadata others"]);
}

#[test]
fn a_write_where_no_file_lies_is_of_nothing_that_is_known() {
    let mut scene = Scene::usual();
    scene.play("prog $ |#  |\n prog $ |R  |\n kworker x |WW   |");
    assert_eq!(served(&scene.rows()), ["metadata ours", "unknown others"]);
}

#[test]
fn a_read_of_the_disk_that_no_page_of_its_metadata_waits_for_is_of_nothing_that_is_known() {
    let mut scene = Scene::usual();
    scene.play("prog $ |#  |\n prog $ |R  |\n prog x |RR   |");
    assert_eq!(served(&scene.rows()), ["metadata ours", "unknown ours"]);
}

#[test]
fn a_write_belongs_to_who_last_wrote_the_file_before_it() {
    let mut scene = Scene::usual();
    scene.play(
        "
        kworker a |W    |
        prog    a |#    |
        kworker a |W    |
        prog    b |r    |
        kworker b |W    |
        ",
    );
    assert_eq!(served(&scene.rows()), ["/a+0 others", "/a+0 ours", "/b+0 others"]);
    // What it wrote in the moment of the request is written by it.
    scene.raw.blocks[1].start = scene.raw.fills[0].at;
    assert_eq!(served(&scene.rows())[1], "/a+0 ours");
    // What it only read is not its to write; and a read request is nobody's because of it.
    let mut scene = Scene::usual();
    scene.play(
        "
        prog    a |#    |
        kworker a |R    |
        prog    a |r    |
        kworker a |W    |
        prog    b |#    |
        kworker b | R   |
        ",
    );
    assert_eq!(served(&scene.rows()), ["/a+0 ours", "/a+0 others", "/b+1 others"]);
}

/// Fills of a deleted file, and what a request for `pages` at 5,000 is taken for.
fn deleted(fills: &str, at: u64, pages: u64) -> (String, String) {
    let mut scene = Scene::usual();
    scene.play(fills);
    scene.raw.blocks.push(request(at, 5_000..5_000 + pages));
    let rows = scene.rows();
    let place = match rows.blocks[0].served {
        Served::File(_, offset) => format!("page {}", offset.0 / PAGE),
        Served::Metadata => "metadata".into(),
        Served::Unknown => "unknown".into(),
    };
    // Pages that the disk was read for are read-ahead as nobody asked; the others were written.
    (filled(&rows, "x"), place)
}

#[test]
fn a_request_without_a_place_takes_as_many_of_the_last_pages_as_it_is_long() {
    assert_eq!(deleted("prog x |####|", 20, 2), ("ww..".into(), "page 2".into()));
    assert_eq!(deleted("prog x |####|", 20, 4), ("....".into(), "page 0".into()));
    assert_eq!(deleted("prog x |####|", 20, 9), ("....".into(), "page 0".into()));
    assert_eq!(deleted("prog x |OOOO|\n prog x |    ##|", 30, 3), ("......".into(), "page 0".into()));
}

#[test]
fn a_request_without_a_place_takes_only_pages_that_follow_each_other_in_one_file() {
    assert_eq!(deleted("prog x |## ##|", 30, 4), ("ww ..".into(), "page 3".into()));
    assert_eq!(deleted("prog x |##|\n prog y |  ##|", 30, 4), ("ww".into(), "page 2".into()));
}

#[test]
fn a_request_without_a_place_takes_no_page_that_came_long_before() {
    let after = 10 + 20_000_000;
    assert_eq!(deleted("prog x |##|", after, 2), ("..".into(), "page 0".into()));
    assert_eq!(deleted("prog x |##|", after + 1, 2), ("ww".into(), "unknown".into()));
}

#[test]
fn a_request_without_a_place_by_nobody_of_the_tree_is_unknown() {
    let mut scene = Scene::usual();
    scene.play("prog x |##|");
    scene.raw.blocks.push(RawBlock { pid: None, ..request(20, 5_000..5_002) });
    assert_eq!(served(&scene.rows()), ["unknown others"]);
    assert_eq!(report(&scene.rows()).totals.requests, 0);
}

#[test]
fn only_what_came_before_a_request_or_with_it_waits_for_it() {
    let mut scene = Scene::usual();
    scene.play("prog x |##|");
    scene.raw.blocks.push(request(9, 5_000..5_002));
    assert_eq!(served(&scene.rows()), ["unknown ours"]);
    scene.raw.blocks[0].start = Nanos(10);
    assert_ne!(served(&scene.rows()), ["unknown ours"]);
}

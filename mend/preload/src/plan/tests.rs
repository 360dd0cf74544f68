//! Plans, on files drawn as pictures: a letter is a needed page (`a` is needed first), a dot is not needed.

use super::*;
use crate::manifest::Kind;
use proptest::prelude::*;

/// A file of one extent that begins at this page of the disk.
fn file(ino: u64, disk_page: u64, picture: &str) -> Wanted {
    let pieces = picture.chars().enumerate().filter(|(_, letter)| *letter != '.').map(|(page, letter)| Piece {
        offset: FileOffset(page as u64 * PAGE),
        len: Bytes(PAGE),
        first: Nanos(u64::from(letter as u32)),
    });
    let len = Bytes(picture.len() as u64 * PAGE);
    Wanted {
        entry: Entry {
            kind: Kind::Regular,
            dev: 1,
            ino,
            size: len,
            mtime_ns: 0,
            identity: None,
            path: format!("/{ino}").into(),
        },
        pieces: pieces.collect(),
        extents: vec![Extent { offset: FileOffset(0), disk: DiskOffset(disk_page * PAGE), len }],
        disk: 1,
    }
}

fn planned(files: Vec<Wanted>, gap_pages: u64, order: Order) -> Manifest {
    let free = |_: &[DiskRead]| Nanos(0);
    plan(files, Gap::UpTo(Bytes(gap_pages * PAGE)), order, &free, About::default()).manifest
}

/// `inode:first page+pages` of each read.
fn reads(manifest: &Manifest) -> String {
    let text = |read: &Read| format!("{}:{}+{}", manifest.file(read).ino, read.offset.0 / PAGE, read.len.0 / PAGE);
    manifest.reads.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn gaps_up_to_the_limit_are_read_too() {
    let picture = "aa.b..c...d";
    for (gap, expected) in
        [(0, "1:0+2 1:3+1 1:6+1 1:10+1"), (1, "1:0+4 1:6+1 1:10+1"), (2, "1:0+7 1:10+1"), (3, "1:0+11")]
    {
        assert_eq!(reads(&planned(vec![file(1, 0, picture)], gap, Order::FirstUse)), expected);
    }
}

#[test]
fn the_order_is_that_of_the_disk_or_of_the_need() {
    let files = || vec![file(1, 500, "d.a"), file(2, 100, "c.b")];
    assert_eq!(reads(&planned(files(), 0, Order::Disk)), "2:0+1 2:2+1 1:0+1 1:2+1");
    let by_need = planned(files(), 0, Order::FirstUse);
    assert_eq!(reads(&by_need), "1:2+1 2:2+1 2:0+1 1:0+1");
    assert_eq!(by_need.reads.iter().map(|read| read.rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let ranks: Vec<u32> = planned(files(), 0, Order::Disk).reads.iter().map(|read| read.rank).collect();
    assert_eq!(ranks, [2, 1, 3, 0], "the need is known in every order");
}

#[test]
fn metadata_comes_first_in_both_orders() {
    let mut device = file(9, 0, "..z");
    device.entry.kind = Kind::Device;
    for order in [Order::Disk, Order::FirstUse] {
        let manifest = planned(vec![file(1, 0, "a"), device.clone()], 0, order);
        assert_eq!(reads(&manifest), "9:2+1 1:0+1");
        assert_eq!(manifest.files[0].kind, Kind::Device, "it is opened first too");
    }
}

#[test]
fn files_are_opened_in_the_order_of_their_inodes() {
    let manifest = planned(vec![file(30, 0, "a"), file(4, 0, "b"), file(12, 0, "..")], 0, Order::FirstUse);
    assert_eq!(
        manifest.files.iter().map(|file| file.ino).collect::<Vec<_>>(),
        [4, 30],
        "and only those that are needed"
    );
}

#[test]
fn no_read_is_longer_than_the_kernel_takes() {
    let whole = "a".repeat(300);
    assert_eq!(reads(&planned(vec![file(1, 0, &whole)], 0, Order::Disk)), "1:0+128 1:128+128 1:256+44");
}

#[test]
fn a_gap_is_not_read_where_the_file_goes_on_elsewhere() {
    let mut split = file(1, 0, "aa.aa");
    split.extents = vec![
        Extent { offset: FileOffset(0), disk: DiskOffset(0), len: Bytes(2 * PAGE) },
        Extent { offset: FileOffset(2 * PAGE), disk: DiskOffset(700 * PAGE), len: Bytes(3 * PAGE) },
    ];
    assert_eq!(reads(&planned(vec![split.clone()], 9, Order::FirstUse)), "1:0+2 1:3+2");
    // Needed without a gap, it is two requests all the same, each at its place.
    split.pieces.push(Piece { offset: FileOffset(2 * PAGE), len: Bytes(PAGE), first: Nanos(0) });
    assert_eq!(reads(&planned(vec![file(2, 300, "a"), split], 9, Order::Disk)), "1:0+2 2:0+1 1:2+3");
}

#[test]
fn a_file_whose_place_is_unknown_is_merged_as_it_is() {
    let mut unknown = file(1, 0, "a.a");
    unknown.extents.clear();
    assert_eq!(reads(&planned(vec![unknown, file(2, 5, "b")], 1, Order::Disk)), "2:0+1 1:0+3");
}

#[test]
fn nothing_is_read_behind_the_end_or_twice() {
    let mut file = file(1, 0, "a..a");
    file.entry.size = Bytes(3 * PAGE + 1);
    file.pieces.push(Piece { offset: FileOffset(0), len: Bytes(2 * PAGE), first: Nanos(1) });
    file.pieces.push(Piece { offset: FileOffset(3 * PAGE), len: Bytes(u64::MAX), first: Nanos(2) });
    file.pieces.push(Piece { offset: FileOffset(u64::MAX - 5), len: Bytes(100), first: Nanos(2) });
    assert_eq!(reads(&planned(vec![file], 0, Order::FirstUse)), "1:0+2 1:3+1");
}

/// A disk on which each request costs as much as so many pages.
fn disk(pages_per_request: u64) -> impl Fn(&[DiskRead]) -> Nanos {
    move |reads| Nanos(reads.iter().map(|read| pages_per_request + read.len.0 / PAGE).sum())
}

#[test]
fn the_gap_is_the_one_that_the_disk_is_fastest_with() {
    let files = || vec![file(1, 0, &format!("a.a..a...a{}a", ".".repeat(20)))];
    let gap = |request| {
        let plan = plan(files(), Gap::Fastest, Order::FirstUse, &disk(request), About::default());
        (plan.manifest.about.gap.0 / PAGE, plan.time.0, plan.needed.0 / PAGE)
    };
    assert_eq!(gap(0), (0, 5, 5));
    assert_eq!(gap(2), (1, 4 * 2 + 6, 5), "a gap that costs as much as a request is not read");
    assert_eq!(gap(3), (2, 3 * 3 + 8, 5));
    assert_eq!(gap(1000), (20, 1000 + 31, 5));
}

#[test]
fn disks_work_at_the_same_time() {
    let mut other = file(2, 0, "aaaa");
    other.disk = 2;
    let plan = plan(vec![file(1, 0, "a"), other], Gap::Fastest, Order::FirstUse, &disk(1), About::default());
    assert_eq!(plan.time, Nanos(5));
}

proptest! {
    #[test]
    fn every_needed_page_is_read_once_and_no_gap_is_too_long(
        pictures in prop::collection::vec("[a-c.]{1,40}", 1..5),
        cuts in prop::collection::vec((1u64..40, 0u64..5000), 0..3),
        gap in 0u64..6,
        order in prop::sample::select(&[Order::Disk, Order::FirstUse][..]),
    ) {
        let mut files: Vec<Wanted> =
            (1..).zip(&pictures).map(|(ino, picture)| file(ino, ino * 1000, picture)).collect();
        for (page, disk) in cuts {
            // Part of the first file lies elsewhere.
            let first = &mut files[0];
            let whole = first.extents[0];
            if page * PAGE < whole.len.0 {
                first.extents[0].len = Bytes(page * PAGE);
                first.extents.truncate(1);
                first.extents.push(Extent {
                    offset: FileOffset(page * PAGE),
                    disk: DiskOffset(disk * PAGE),
                    len: Bytes(whole.len.0 - page * PAGE),
                });
            }
        }
        let manifest = planned(files, gap, order);
        for (ino, picture) in (1..).zip(&pictures) {
            let mut pages = vec![0; picture.len()];
            for read in manifest.reads.iter().filter(|read| manifest.file(read).ino == ino) {
                let first = (read.offset.0 / PAGE) as usize;
                pages[first..first + (read.len.0 / PAGE) as usize].iter_mut().for_each(|count| *count += 1);
            }
            let mut idle = 0;
            for (page, letter) in picture.chars().enumerate() {
                prop_assert!(pages[page] <= 1, "{picture}: page {page} is read twice");
                prop_assert!(letter == '.' || pages[page] == 1, "{picture}: page {page} is not read");
                idle = if letter == '.' && pages[page] == 1 { idle + 1 } else { 0 };
                prop_assert!(idle <= gap, "{picture}: {idle} pages of gap are read");
            }
        }
        let mut ranks: Vec<u32> = manifest.reads.iter().map(|read| read.rank).collect();
        ranks.sort_unstable();
        prop_assert!(ranks.iter().copied().eq(0..manifest.reads.len() as u32));
    }
}

#[test]
fn devices_on_one_disk_wait_for_each_other() {
    let on = |dev: u64, disk: u64| {
        let mut file = file(dev, 0, "a.b");
        file.entry.dev = dev;
        file.disk = disk;
        file
    };
    // A second for each request.
    let cost = |reads: &[DiskRead]| Nanos(reads.len() as u64 * 1_000_000_000);
    let time = |files: Vec<Wanted>| plan(files, Gap::UpTo(Bytes(0)), Order::Disk, &cost, About::default()).time;
    assert_eq!(time(vec![on(1, 1), on(2, 2)]), Nanos(2_000_000_000));
    assert_eq!(time(vec![on(1, 7), on(2, 7)]), Nanos(4_000_000_000));
}

#[test]
fn short_reads_go_along_with_long_ones() {
    // Eight pages take as long as a request: a read of 24 pages leaves two requests to spare.
    let cost = |reads: &[DiskRead]| {
        let bytes: u64 = reads.iter().map(|read| read.len.0).sum();
        Nanos((reads.len() as u64 * 8 * PAGE).max(bytes))
    };
    let long = file(1, 0, &format!("{}....{}", "a".repeat(24), "c".repeat(24)));
    let later = (2..6).map(|ino| file(ino, ino * 1000, "d")).collect::<Vec<_>>();
    let files = || [long.clone()].into_iter().chain(later.clone()).collect::<Vec<_>>();
    let plan = |order| plan(files(), Gap::UpTo(Bytes(0)), order, &cost, About::default()).manifest;
    assert_eq!(reads(&plan(Order::FirstUse)), "1:0+24 2:0+1 3:0+1 1:28+24 4:0+1 5:0+1");
    assert_eq!(reads(&plan(Order::Disk)), "1:0+24 1:28+24 2:0+1 3:0+1 4:0+1 5:0+1");
}

#[test]
fn extents_of_a_damaged_recording_do_no_harm() {
    let mut damaged = file(1, 0, "a.b");
    let extent = |offset, disk, len| Extent { offset: FileOffset(offset), disk: DiskOffset(disk), len: Bytes(len) };
    damaged.extents = vec![extent(0, u64::MAX, u64::MAX), extent(u64::MAX, 1, 1), extent(PAGE, u64::MAX, u64::MAX)];
    for order in [Order::Disk, Order::FirstUse] {
        assert_eq!(planned(vec![damaged.clone()], 0, order).bytes(), Bytes(2 * PAGE), "{order:?}");
    }
}

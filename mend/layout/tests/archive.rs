//! Archives: what is refused and why, what reordering keeps, and what other programs say of the result.

mod common;

use common::{Entry, archive, end, text};
use layout::archive::{
    Compression, Costs, DirectoryPlace, EntryId, Method, ObstacleKind, Options, Signed, Target, Touched, Uses, Zip,
    apply, build, pack, parse, plan, reads_now, reads_planned, stat, unpack, used_by_names, used_by_pages, verify,
};
use model::{Bytes, Exit, FileOffset};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

const PLACES: [DirectoryPlace; 3] = [DirectoryPlace::End, DirectoryPlace::Front, DirectoryPlace::Both];

fn usual() -> Vec<Entry> {
    vec![
        Entry::new("first.txt", &text(5000, 1)).deflated(),
        Entry::new("dir/", b""),
        Entry { descriptor: true, ..Entry::new("dir/second.bin", &text(70_000, 2)).deflated() },
        Entry {
            extra: b"UT\x05\0\x01abcd".to_vec(),
            comment: b"third".to_vec(),
            ..Entry::new("dir/third", &text(9000, 3))
        },
        Entry::new("empty", b""),
        Entry { flags: 1 << 11, ..Entry::new("größe.js", &text(300, 4)) },
    ]
}

fn rebuilt(zip: &Zip<'_>, uses: &Uses, options: &Options) -> Vec<u8> {
    let plan = plan(zip, uses, options).unwrap();
    let mut out = Vec::new();
    build(zip, &plan, &mut out).unwrap();
    assert_eq!(out.len() as u64, plan.len.0, "the plan knows the size");
    out
}

fn names(zip: &Zip<'_>) -> Vec<String> {
    let mut entries: Vec<_> = zip.entries.iter().collect();
    entries.sort_by_key(|entry| entry.span.start);
    entries.iter().map(|entry| entry.shown()).collect()
}

#[test]
fn used_entries_come_first_and_the_rest_keeps_its_order() {
    let bytes = archive(&usual(), b"a comment");
    let zip = parse(&bytes).unwrap();
    assert_eq!(zip.obstacles, []);
    let uses = used_by_names(&zip, ["größe.js", "dir/third", "nowhere", "größe.js"]);
    assert_eq!((uses.order.len(), uses.unknown.as_slice()), (2, ["nowhere".to_owned()].as_slice()));
    for directory in PLACES {
        let out = rebuilt(&zip, &uses, &Options { directory, ..Options::default() });
        let again = parse(&out).unwrap();
        assert_eq!(again.obstacles, []);
        assert_eq!((again.place, again.comment), (directory, b"a comment".as_slice()));
        assert_eq!(names(&again), ["größe.js", "dir/third", "first.txt", "dir/", "dir/second.bin", "empty"]);
        assert_eq!(verify(&zip, &again).unwrap().entries, 6);
        // Twice is once.
        let uses = used_by_names(&again, ["größe.js", "dir/third"]);
        assert_eq!(rebuilt(&again, &uses, &Options { directory, ..Options::default() }), out);
    }
}

#[test]
fn in_front_it_is_as_firefox_reads_it() {
    let bytes = archive(&usual(), b"");
    let zip = parse(&bytes).unwrap();
    let uses = used_by_names(&zip, ["dir/third"]);
    for directory in [DirectoryPlace::Front, DirectoryPlace::Both] {
        let out = rebuilt(&zip, &uses, &Options { directory, ..Options::default() });
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        let again = parse(&out).unwrap();
        let third = again.entries.iter().find(|entry| entry.name == b"dir/third").unwrap();
        assert_eq!(u64::from(word(0)), third.data.end, "the hint ends with the last used entry");
        // nsZipArchive::BuildFileList: records from offset 4 on, then an end record.
        let mut at = 4;
        let mut records = 0;
        while word(at) == 0x0201_4b50 {
            let len =
                |field: usize| usize::from(u16::from_le_bytes(out[at + field..at + field + 2].try_into().unwrap()));
            at += 46 + len(28) + len(30) + len(32);
            records += 1;
        }
        assert_eq!((records, word(at)), (6, 0x0605_4b50));
    }
    let unused = rebuilt(&zip, &Uses::default(), &Options::default());
    assert_eq!(unused[..4], [0; 4], "without use there is no hint");
}

#[test]
fn other_programs_say_that_it_is_clean() {
    let home = tempfile::tempdir().unwrap();
    let original = home.path().join("a.zip");
    fs::write(&original, archive(&usual(), b"c")).unwrap();
    let bytes = fs::read(&original).unwrap();
    let zip = parse(&bytes).unwrap();
    let uses = used_by_names(&zip, ["dir/third", "first.txt"]);
    let costs = Costs { disk_rate: 1e6, inflate_rate: 1e9 };
    let compressions = [Compression::Keep, Compression::Store, Compression::Deflate, Compression::Auto(costs)];
    for (number, compression) in compressions.into_iter().enumerate() {
        for (directory, align) in [(DirectoryPlace::Both, 1), (DirectoryPlace::End, 4096), (DirectoryPlace::Both, 64)] {
            let path = home.path().join(format!("{number}-{directory:?}-{align}.zip"));
            let options = Options { directory, compression, align, ..Options::default() };
            let plan = plan(&zip, &uses, &options).unwrap();
            assert_eq!(apply(&zip, &plan, &original, Target::New(&path)).unwrap().entries, 6);
            for mut judge in [judge("unzip", &["-tqq"]), judge("python3", &["-c", PYTHON])].into_iter().flatten() {
                let said = judge.arg(&path).output().unwrap();
                assert!(said.status.success(), "{judge:?}: {said:?}");
            }
            let again = fs::read(&path).unwrap();
            let stored = parse(&again)
                .unwrap()
                .entries
                .into_iter()
                .filter(|entry| entry.method == layout::archive::Method::Stored);
            for entry in stored.filter(|entry| entry.size > 0) {
                assert_eq!(entry.data.start % u64::from(align), 0, "{} in {path:?}", entry.shown());
            }
        }
    }
}

/// Reads every entry, and wants nothing in front or between that the format does not know.
const PYTHON: &str = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); \
                      sys.exit(z.testzip() is not None or len(z.namelist()) != 6)";

fn judge(program: &str, words: &[&str]) -> Option<Command> {
    if Command::new(program).arg("-h").output().is_err() {
        testing::skip(&format!("needs {program}"));
        return None;
    }
    let mut command = Command::new(program);
    command.args(words);
    Some(command)
}

#[test]
fn what_is_odd_is_refused_with_its_name() {
    let one = |entry: Entry| archive(&[Entry::new("good", b"good"), entry], b"");
    let plain = || Entry::new("odd", b"content");
    let overlap = {
        let mut bytes = one(plain());
        let at = bytes.windows(4).rposition(|word| word == b"PK\x01\x02").unwrap();
        // The second entry is the first again, under its own name.
        bytes[at + 42..at + 46].copy_from_slice(&0_u32.to_le_bytes());
        bytes
    };
    let descriptor = {
        let mut bytes = one(Entry { descriptor: true, ..plain() });
        let at = bytes.windows(4).position(|word| word == b"PK\x07\x08").unwrap();
        bytes[at + 4] ^= 1;
        bytes
    };
    let foreign = {
        let mut bytes = archive(&[plain()], b"");
        let start = bytes.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
        let records = bytes[start..bytes.len() - 22].to_vec();
        bytes.truncate(start);
        bytes.extend(b"signing block");
        let at = bytes.len() as u32;
        bytes.extend(&records);
        bytes.extend(end(1, records.len() as u32, at, b""));
        bytes
    };
    let cases: [(Vec<u8>, ObstacleKind, &str); 13] = [
        (one(Entry { flags: 1, ..plain() }), ObstacleKind::Encrypted, "the entry 'odd' is encrypted"),
        (one(Entry { method: Some(14), ..plain() }), ObstacleKind::Method, "'odd' is compressed with method 14"),
        (
            one(Entry { extra: b"\x01\0\x08\0abcdefgh".to_vec(), ..plain() }),
            ObstacleKind::Zip64,
            "64-bit sizes (zip64)",
        ),
        (one(Entry::new("good", b"other")), ObstacleKind::Duplicate, "there are two entries 'good'"),
        (one(Entry::new("a/../../odd", b"")), ObstacleKind::Name, "leads out of the archive with '..'"),
        (one(Entry::new("..\\odd", b"")), ObstacleKind::Name, "leads out of the archive with '..'"),
        (one(Entry::new("/etc/odd", b"")), ObstacleKind::Name, "is an absolute path"),
        (one(Entry::new("", b"")), ObstacleKind::Name, "is empty"),
        (one(Entry { lie: 1, ..plain() }), ObstacleKind::Disagrees, "a header that disagrees with the directory"),
        (descriptor, ObstacleKind::Disagrees, "its data descriptor"),
        (overlap, ObstacleKind::Disagrees, "disagrees with the directory: the name"),
        (foreign, ObstacleKind::Foreign, "13 bytes at offset 40 belong to no entry"),
        (one(Entry::new("META-INF/MOZILLA.RSA", b"")), ObstacleKind::Signed, "it is signed"),
    ];
    for (bytes, kind, said) in cases {
        let zip = parse(&bytes).unwrap();
        assert_eq!(zip.obstacles.iter().map(|it| it.kind).collect::<Vec<_>>(), [kind], "{:?}", zip.obstacles);
        let error = plan(&zip, &Uses::default(), &Options::default()).unwrap_err();
        assert_eq!(error.exit, Exit::Data);
        assert!(error.what.contains(said), "{error}");
        assert_eq!(stat(&zip, None).obstacles.len(), 1, "it is still shown");
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("inner/target");
        fs::create_dir(target.parent().unwrap()).unwrap();
        if kind != ObstacleKind::Signed {
            unpack(&zip, &target).unwrap_err();
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
            assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 0, "nothing is left of it");
        }
    }
    let signed = one(Entry::new("META-INF/MOZILLA.RSA", b""));
    let zip = parse(&signed).unwrap();
    plan(&zip, &Uses::default(), &Options { signed: Signed::Accept, ..Options::default() }).unwrap();
}

#[test]
fn what_is_no_whole_archive_is_said_to_be_none() {
    let good = archive(&usual(), b"");
    let cut = |len: usize| good[..len].to_vec();
    let in_front = [b"#!/bin/sh\n".as_slice(), &good].concat();
    let mut volumes = good.clone();
    let at = good.len() - 22;
    volumes[at + 4] = 1;
    let mut zip64 = good.clone();
    zip64[at + 12..at + 16].copy_from_slice(&u32::MAX.to_le_bytes());
    let behind = [good.as_slice(), b"x"].concat();
    for (bytes, said) in [
        (Vec::new(), "too short"),
        (b"hello, this is no archive at all".to_vec(), "no end record"),
        (cut(good.len() - 1), "no end record"),
        (cut(good.len() / 2), "no end record"),
        (good[100..].to_vec(), "not where the end record says"),
        (in_front, "something lies in front of it"),
        (volumes, "one volume of several"),
        (zip64, "zip64"),
        (behind, "no end record"),
    ] {
        let error = parse(&bytes).unwrap_err();
        assert!(error.exit == Exit::Data && error.what.contains(said), "{said}: {error}");
    }
}

#[test]
fn damage_is_found_before_a_new_archive_gets_its_name() {
    let home = tempfile::tempdir().unwrap();
    let mut bytes = archive(&[Entry::new("a", &text(9000, 1)), Entry::new("b", &text(9000, 2)).deflated()], b"");
    for at in [5000, 10_000] {
        bytes[at] ^= 0x55;
        let (original, target) = (home.path().join("a.zip"), home.path().join("b.zip"));
        fs::write(&original, &bytes).unwrap();
        let zip = parse(&bytes).unwrap();
        let plan = plan(&zip, &Uses::default(), &Options::default()).unwrap();
        let error = apply(&zip, &plan, &original, Target::New(&target)).unwrap_err();
        assert!(error.exit == Exit::Data && error.what.contains("the archive is damaged: the entry"), "{error}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        bytes[at] ^= 0x55;
    }
}

#[test]
fn targets_are_not_replaced_by_accident() {
    let home = tempfile::tempdir().unwrap();
    let (original, target) = (home.path().join("a.zip"), home.path().join("b.zip"));
    let bytes = archive(&usual(), b"");
    fs::write(&original, &bytes).unwrap();
    fs::write(&target, b"other").unwrap();
    let zip = parse(&bytes).unwrap();
    let plan = plan(&zip, &Uses::default(), &Options::default()).unwrap();
    let refused = apply(&zip, &plan, &original, Target::New(&target)).unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    let itself = apply(&zip, &plan, &original, Target::Replace(&original)).unwrap_err();
    assert!(itself.exit == Exit::Usage && itself.what.contains("would replace its original"), "{itself}");
    assert_eq!(fs::read(&original).unwrap(), bytes);
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&original, fs::Permissions::from_mode(0o640)).unwrap();
    apply(&zip, &plan, &original, Target::Replace(&target)).unwrap();
    let about = fs::metadata(&target).unwrap();
    assert_eq!(about.permissions().mode() & 0o7777, 0o640);
    assert_eq!(about.modified().unwrap(), fs::metadata(&original).unwrap().modified().unwrap());
    // Devices, pipes and the names of streams stay what they are.
    let (device, stream) = (home.path().join("device"), home.path().join("stream"));
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    std::os::unix::fs::symlink("/proc/self/fd/1", &stream).unwrap();
    for target in [&device, &stream] {
        let refused = apply(&zip, &plan, &original, Target::Replace(target)).unwrap_err();
        assert!(refused.to_string().contains("no regular file"), "{refused}");
        assert!(target.is_symlink());
    }
    let nowhere = home.path().join("missing/b.zip");
    let refused = apply(&zip, &plan, &original, Target::New(&nowhere)).unwrap_err();
    assert!(refused.exit == Exit::Usage && refused.to_string().contains("missing/b.zip"), "{refused}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("mkdir -p") && hint.ends_with("missing'")));
}

#[test]
fn a_packed_archive_is_as_private_as_other_new_files() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("tree")).unwrap();
    fs::write(home.path().join("tree/file"), "content").unwrap();
    let (usual, target) = (home.path().join("usual"), home.path().join("a.zip"));
    fs::write(&usual, "").unwrap();
    pack(&home.path().join("tree"), &[], &Options::default(), Target::New(&target)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&target), mode(&usual));
}

#[test]
fn an_entry_is_used_if_all_its_pages_were_touched_and_not_before_the_last_of_them() {
    // Pages of 4096 bytes: "a" on 0..4, "b" on 3 alone, "c" on 3..5, "d" on 4..7.
    let sizes = [("a", 3 * 4096 + 100), ("b", 1000), ("c", 6000), ("d", 8000)];
    let entries: Vec<Entry> = sizes.iter().map(|(name, len)| Entry::new(name, &text(*len, 5))).collect();
    let bytes = archive(&entries, b"");
    let zip = parse(&bytes).unwrap();
    let touch = |page: u64, pages: u64, order: u64| Touched {
        offset: FileOffset(page * 4096),
        len: Bytes(pages * 4096),
        order,
    };
    let used = |touched: &[Touched]| used_by_pages(&zip, touched).order.iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(used(&[touch(3, 2, 1)]), [1, 2], "b shares the page: it may have been used");
    assert_eq!(used(&[touch(5, 2, 1)]), [0_usize; 0], "most of d");
    assert_eq!(used(&[touch(5, 2, 5), touch(4, 1, 7), touch(3, 1, 2), touch(0, 3, 4)]), [1, 0, 2, 3]);
    assert_eq!(used(&[touch(3, 1, 9), touch(3, 1, 2), touch(0, 3, 4)]), [1, 0], "the first touch of a page counts");
    assert_eq!(used(&[Touched { offset: FileOffset(u64::MAX - 3), len: Bytes(u64::MAX), order: 0 }]), [0_usize; 0]);
    assert_eq!(used(&[Touched { offset: FileOffset(0), len: Bytes(u64::MAX), order: 0 }]), [0, 1, 2, 3]);
}

#[test]
fn fewer_requests_read_what_is_used() {
    let entries: Vec<Entry> = (0..2000).map(|number| Entry::new(&format!("{number}"), &text(3000, number))).collect();
    let bytes = archive(&entries, b"");
    let zip = parse(&bytes).unwrap();
    let uses = Uses { order: (0..2000).step_by(100).map(EntryId).collect(), unknown: Vec::new() };
    let before = reads_now(&zip, &uses);
    let after = reads_planned(&plan(&zip, &uses, &Options::default()).unwrap());
    assert!(before.requests > 20 && after.requests < 6, "{before:?} {after:?}");
    assert_eq!(after.stretches, 1);
    assert!(after.bytes < before.bytes);
}

#[test]
fn what_takes_less_time_is_chosen_for_used_entries() {
    let bytes = archive(
        &[
            Entry::new("a", &text(50_000, 1)),
            Entry::new("b", &text(50_000, 2)).deflated(),
            Entry::new("c", &text(50_000, 3)),
        ],
        b"",
    );
    let zip = parse(&bytes).unwrap();
    let uses = used_by_names(&zip, ["a", "b"]);
    let methods = |disk_rate: f64, inflate_rate: f64| {
        let compression = Compression::Auto(Costs { disk_rate, inflate_rate });
        let out = rebuilt(&zip, &uses, &Options { compression, ..Options::default() });
        let again = parse(&out).unwrap();
        verify(&zip, &again).unwrap();
        again.entries.iter().map(|entry| format!("{:?}", entry.method)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(methods(1e6, 1e9), "Deflated Deflated Stored", "a slow disk");
    assert_eq!(methods(1e9, 1e6), "Stored Stored Stored", "a slow machine");
}

#[test]
fn a_directory_and_its_archive_are_the_same() {
    let home = tempfile::tempdir().unwrap();
    let tree = home.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir_all(tree.join("void")).unwrap();
    for (name, content) in [("a/b/one", text(5000, 1)), ("a/two", Vec::new()), ("three", text(100_000, 3))] {
        fs::write(tree.join(name), content).unwrap();
    }
    let archive = home.path().join("tree.zip");
    let packed = pack(&tree, &["three", "missing"], &Options::default(), Target::New(&archive)).unwrap();
    assert_eq!((packed.entries, packed.used, packed.content), (4, 1, Bytes(105_000)));
    assert_eq!(packed.unknown, ["missing"]);
    assert!(packed.size.0 < 80_000, "{packed:?}");
    let bytes = fs::read(&archive).unwrap();
    let zip = parse(&bytes).unwrap();
    assert_eq!(names(&zip), ["three", "a/b/one", "a/two", "void/"]);
    for (disk_rate, used) in [(1.0, Method::Deflated), (1e18, Method::Stored)] {
        let compression = Compression::Auto(Costs { disk_rate, inflate_rate: f64::INFINITY });
        let by_time = home.path().join(format!("{used:?}.zip"));
        pack(&tree, &["three"], &Options { compression, ..Options::default() }, Target::New(&by_time)).unwrap();
        let bytes = fs::read(&by_time).unwrap();
        let methods: Vec<Method> = parse(&bytes).unwrap().entries.iter().map(|entry| entry.method).collect();
        assert_eq!(methods[..2], [used, Method::Deflated], "what is not used is as small as it can be");
    }
    let back = home.path().join("back");
    assert_eq!(unpack(&zip, &back).unwrap().files, 3);
    let diff = Command::new("diff").arg("-r").args([&tree, &back]).output().unwrap();
    assert!(diff.status.success(), "{diff:?}");
    assert!(unpack(&zip, &back).unwrap_err().what.contains("there is already something in"));
    std::os::unix::fs::symlink("three", tree.join("link")).unwrap();
    let refused = pack(&tree, &[], &Options::default(), Target::Replace(&archive)).unwrap_err();
    assert!(refused.to_string().contains("no regular file"), "{refused}");
    assert_eq!(fs::read(&archive).unwrap(), bytes, "what was there is still there");
}

#[test]
fn links_are_not_unpacked() {
    let mut bytes = archive(&[Entry::new("link", b"/etc")], b"");
    let at = bytes.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
    bytes[at + 38..at + 42].copy_from_slice(&(0o120_777_u32 << 16).to_le_bytes());
    let home = tempfile::tempdir().unwrap();
    let error = unpack(&parse(&bytes).unwrap(), &home.path().join("x")).unwrap_err();
    assert!(error.what.contains("'link' is a link or a special file"), "{error}");
    assert!(!Path::new(&home.path().join("x")).exists());
}

#[test]
fn two_directories_that_differ_are_refused() {
    let bytes = archive(&usual(), b"");
    let zip = parse(&bytes).unwrap();
    let mut out = rebuilt(&zip, &Uses::default(), &Options::default());
    // The time of the first entry, in the directory in front alone.
    out[4 + 12] ^= 1;
    assert_eq!(parse(&out).unwrap().obstacles[0].kind, ObstacleKind::TwoDirectories);
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = ("[a-z/]{1,12}", 0_usize..20_000, any::<u32>(), any::<bool>(), any::<bool>(), 0_u16..8);
    prop::collection::vec(entry, 0..20).prop_map(|all| {
        let make = |(number, (name, len, seed, deflated, descriptor, extra)): (
            usize,
            (String, usize, u32, bool, bool, u16),
        )| Entry {
            deflated,
            descriptor,
            extra: vec![0; usize::from(extra)],
            ..Entry::new(&format!("{number}{name}"), &text(len, seed))
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

fn options() -> impl Strategy<Value = Options> {
    let compression = prop_oneof![Just(Compression::Keep), Just(Compression::Store), Just(Compression::Deflate)];
    let place = prop_oneof![Just(PLACES[0]), Just(PLACES[1]), Just(PLACES[2])];
    (place, compression, 1_u16..5000).prop_map(|(directory, compression, align)| Options {
        directory,
        compression,
        align,
        ..Options::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_archive_stays_what_it_is(
        entries in entries(),
        options in options(),
        uses in prop::collection::vec(0_usize..20, 0..30),
    ) {
        let bytes = archive(&entries, b"");
        let zip = parse(&bytes).unwrap();
        prop_assert_eq!(&zip.obstacles, &vec![]);
        let order = uses.into_iter().filter(|id| *id < entries.len()).map(EntryId).collect();
        let out = rebuilt(&zip, &Uses { order, unknown: Vec::new() }, &options);
        let again = parse(&out).unwrap();
        prop_assert_eq!(&again.obstacles, &vec![]);
        prop_assert_eq!(verify(&zip, &again).unwrap().entries, entries.len() as u64);
    }

    #[test]
    fn damaged_archives_do_no_harm(
        entries in entries(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = archive(&entries, b"comment");
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())], &bytes[cut.index(bytes.len())..]] {
            let Ok(zip) = parse(bytes) else { continue };
            stat(&zip, Some(&Uses { order: zip.ids().collect(), unknown: Vec::new() }));
            let Ok(plan) = plan(&zip, &Uses::default(), &Options::default()) else { continue };
            let mut out = Vec::new();
            if build(&zip, &plan, &mut out).is_ok() {
                let again = parse(&out).unwrap();
                if let Err(error) = verify(&zip, &again) {
                    prop_assert_eq!(error.exit, Exit::Data, "{}", error);
                }
            }
        }
    }
}

/// What the readers of a format ask for stays, however its entries are ordered and compressed.
#[test]
fn a_document_keeps_its_type_in_front() {
    let mimetype = Entry::new("mimetype", b"application/vnd.oasis.opendocument.text");
    let bytes = archive(&[mimetype, Entry::new("content.xml", &text(4000, 1)), Entry::new("meta.xml", b"<x/>")], b"");
    let zip = parse(&bytes).unwrap();
    let uses = used_by_names(&zip, ["meta.xml", "content.xml"]);
    for (compression, align) in [(Compression::Keep, 0), (Compression::Deflate, 0), (Compression::Keep, 4096)] {
        let end = Options { directory: DirectoryPlace::End, compression, align, ..Options::default() };
        let out = rebuilt(&zip, &uses, &end);
        assert_eq!(names(&parse(&out).unwrap()), ["mimetype", "meta.xml", "content.xml"]);
        // Name at 30, no extra field, stored content behind it.
        assert_eq!(&out[26..30], [8, 0, 0, 0]);
        assert!(out[30..].starts_with(b"mimetypeapplication/vnd.oasis.opendocument.text"));
        let unused = rebuilt(&zip, &Uses::default(), &end);
        assert!(unused[30..].starts_with(b"mimetypeapplication/"));
    }
    for directory in [DirectoryPlace::Front, DirectoryPlace::Both] {
        let error = plan(&zip, &uses, &Options { directory, ..Options::default() }).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.to_string().contains("OpenDocument"), "{error}");
    }
}

const JAR_READER: &str = "
    import java.io.*;
    import java.util.jar.*;
    public class Read {
        public static void main(String[] args) throws Exception {
            JarInputStream in = new JarInputStream(new FileInputStream(args[0]));
            boolean none = in.getManifest() == null;
            System.out.print(none ? \"none\" : in.getManifest().getMainAttributes().getValue(\"Who\"));
            for (JarEntry entry; (entry = in.getNextJarEntry()) != null;) {
                System.out.print(\" \" + entry.getName() + in.readAllBytes().length);
            }
        }
    }
";

#[test]
fn a_java_stream_finds_the_manifest() {
    let manifest = b"Manifest-Version: 1.0\r\nWho: me\r\n\r\n";
    let entries = [
        Entry::new("META-INF/", b""),
        Entry::new("META-INF/MANIFEST.MF", manifest).deflated(),
        Entry::new("a.txt", &text(500, 1)).deflated(),
        Entry { descriptor: true, ..Entry::new("b.txt", &text(700, 2)).deflated() },
    ];
    let bytes = archive(&entries, b"");
    let zip = parse(&bytes).unwrap();
    let uses = used_by_names(&zip, ["b.txt"]);
    let out = rebuilt(&zip, &uses, &Options { directory: DirectoryPlace::End, ..Options::default() });
    assert_eq!(names(&parse(&out).unwrap()), ["META-INF/", "META-INF/MANIFEST.MF", "b.txt", "a.txt"]);
    assert!(plan(&zip, &uses, &Options { directory: DirectoryPlace::Both, ..Options::default() }).is_err());

    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("new.jar"), &out).unwrap();
    fs::write(home.path().join("Read.java"), JAR_READER).unwrap();
    // A runtime without the compiler does not run sources.
    let Ok(said) = Command::new("java").current_dir(home.path()).args(["Read.java", "new.jar"]).output() else {
        return testing::skip("needs java");
    };
    let told = String::from_utf8_lossy(&said.stderr);
    if !said.status.success() && (told.contains("jdk.compiler") || told.contains("ClassNotFoundException")) {
        return testing::skip("needs a JDK");
    }
    assert!(said.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "me b.txt700 a.txt500");
}

#[test]
fn stored_data_stay_aligned() {
    let padded = |name: &str, at: usize| {
        // The header has 30 bytes; the field fills it up.
        let pad = (64 - (at + 30 + name.len() + 4) % 64) % 64;
        Entry {
            extra: [&b"FB"[..], &(pad as u16).to_le_bytes(), &vec![0; pad]].concat(),
            ..Entry::new(name, &text(100, 1))
        }
    };
    let mut entries = Vec::new();
    for name in ["one", "second", "three.bin", "fourth"] {
        let at = archive(&entries, b"").len() - end(0, 0, 0, b"").len();
        let records: usize = entries.iter().map(|entry: &Entry| 46 + entry.name.len() + entry.extra.len()).sum();
        entries.push(padded(name, at - records));
    }
    let bytes = archive(&entries, b"");
    let zip = parse(&bytes).unwrap();
    assert!(zip.entries.iter().all(|entry| entry.data.start % 64 == 0), "as it was made");
    let uses = used_by_names(&zip, ["three.bin", "fourth"]);
    let out = rebuilt(&zip, &uses, &Options { directory: DirectoryPlace::End, ..Options::default() });
    let again = parse(&out).unwrap();
    assert_eq!(names(&again)[0], "three.bin");
    assert!(again.entries.iter().all(|entry| entry.data.start % 64 == 0), "{:?}", again.entries);
    assert_eq!(verify(&zip, &again).unwrap().entries, 4);
}

#[test]
fn a_streamed_archive_is_refused_for_its_own_reason() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), text(5000, 1)).unwrap();
    let Ok(said) = Command::new("sh").current_dir(home.path()).args(["-c", "zip - - < a.txt | cat"]).output() else {
        return;
    };
    if said.stdout.is_empty() {
        return testing::skip("needs zip");
    }
    let zip = parse(&said.stdout).unwrap();
    assert!(zip.obstacles.iter().any(|it| it.text.contains("written as a stream")), "{:?}", zip.obstacles);
}

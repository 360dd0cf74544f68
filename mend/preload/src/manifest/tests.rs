//! Manifests: there and back, and everything that can be wrong with one.

use super::*;
use os::replace::Existing;
use proptest::prelude::*;

fn entry(path: &[u8]) -> Entry {
    Entry {
        kind: Kind::Regular,
        dev: 65024,
        ino: 7,
        size: Bytes(1 << 20),
        mtime_ns: -5,
        identity: Some("ab12".parse().unwrap()),
        path: OsString::from_vec(path.to_vec()).into(),
    }
}

fn manifest() -> Manifest {
    Manifest {
        about: About {
            made_unix_ns: 1,
            thaw: "0.1.0".into(),
            host: "here".into(),
            recording: "/a b\nc\\d.thaw".into(),
            source: "exact".into(),
            disk: "nvme".into(),
            gap: Bytes(8192),
            order: Order::Disk,
        },
        files: vec![entry(b"/usr/lib/a b.so"), Entry { identity: None, kind: Kind::Device, ..entry(b"/\n\\\xff") }],
        reads: vec![
            Read { file: FileIndex(1), offset: FileOffset(0), len: Bytes(4096), rank: 1 },
            Read { file: FileIndex(0), offset: FileOffset(8192), len: LONGEST, rank: 0 },
        ],
    }
}

fn refused(bytes: &[u8]) -> String {
    Manifest::parse(bytes).unwrap_err()
}

/// The text with a sum that fits.
fn summed(body: &str) -> Vec<u8> {
    format!("{body}sum {:016x}\n", sum(body.as_bytes())).into_bytes()
}

#[test]
fn a_manifest_is_read_back_whatever_the_names() {
    let manifest = manifest();
    assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest));
    assert_eq!(Manifest::parse(&Manifest::default().to_bytes()), Ok(Manifest::default()));
}

#[test]
fn the_sum_is_fnv_1a() {
    // Vectors of the FNV reference (isthe.com/chongo/tech/comp/fnv).
    assert_eq!(sum(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(sum(b"foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed() {
    let whole = manifest().to_bytes();
    for len in 0..whole.len() {
        assert!(Manifest::parse(&whole[..len]).is_err(), "cut to {len} bytes");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        // The case of a hexadecimal digit of the sum means nothing; no other byte does.
        assert!(Manifest::parse(&changed).is_err(), "byte {at}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    assert!(refused(b"").contains("not a preload manifest"));
    assert!(refused(b"SQLite format 3\0").contains("not a preload manifest"));
    assert!(refused(b"thaw preload manifest 2\nsum 0\n").contains("version 2"));
    assert!(refused(b"thaw preload manifest 1\nfile ").contains("cut off"));
    assert!(refused(b"thaw preload manifest 1\nsum 0000000000000000\n").contains("damaged"));
}

#[test]
fn lines_that_make_no_sense_are_named() {
    let head = "thaw preload manifest 1\n";
    let file = "file regular 1 2 3 4 - /a\n";
    for line in [
        "read 0 0 4096 0",
        "noise",
        "",
        "file",
        "file regular 1 2 3 4 - relative",
        "file regular 1 2 3 4 - /a\\x",
        "file regular 1 2 3 4 - /a\0b",
        "file regular 1 2 3 4  /a",
        "file pipe 1 2 3 4 - /a",
        "file regular -1 2 3 4 - /a",
        "about order sideways",
        "about gap much",
    ] {
        assert_eq!(refused(&summed(&format!("{head}{line}\n"))), "line 2 makes no sense", "{line:?}");
    }
    for line in [
        "read 1 0 4096 0",
        "read 0 0 0 0",
        "read 0 0 524289 0",
        "read 0 18446744073709551615 4096 0",
        "read 0 9223372036854775807 1 0",
        "read 0 0 4096",
        "read 0 0 4096 0 0",
        "read 4294967296 0 4096 0",
    ] {
        assert_eq!(refused(&summed(&format!("{head}{file}{line}\n"))), "line 3 makes no sense", "{line:?}");
    }
    let later = summed(&format!("{head}about colour blue\n{file}"));
    assert_eq!(Manifest::parse(&later).unwrap().files.len(), 1, "facts of later versions are left out");
}

#[test]
fn a_manifest_is_written_whole_and_replaces_only_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.preload");
    manifest().write(&path, Existing::Replace).unwrap();
    Manifest::default().write(&path, Existing::Replace).unwrap();
    assert_eq!(Manifest::read(&path).unwrap(), Manifest::default());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    std::fs::write(&path, "dear diary").unwrap();
    assert_eq!(manifest().write(&path, Existing::Replace).unwrap_err().exit, Exit::Usage);
    assert_eq!(std::fs::read(&path).unwrap(), b"dear diary");
    let nowhere = folder.path().join("no/folder/a.preload");
    assert_eq!(manifest().write(&nowhere, Existing::Keep).unwrap_err().exit, Exit::Usage);
}

#[test]
fn what_cannot_be_read_is_an_error_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let missing = (folder.path().join("missing"), Exit::Usage);
    for (path, exit) in [missing, (folder.path().to_owned(), Exit::Data), ("/dev/zero".into(), Exit::Data)] {
        let error = Manifest::read(&path).unwrap_err();
        assert_eq!(error.exit, exit, "{error}");
        assert!(error.hint.unwrap().contains("thaw preload make"));
    }
}

proptest! {
    #[test]
    fn any_path_and_number_survives(
        path in prop::collection::vec(1u8.., 0..60),
        numbers in any::<(u64, u64, u64, i64)>(),
        offset in 0..i64::MAX as u64 - LONGEST.0,
        len in 1..=LONGEST.0,
        rank in any::<u32>(),
    ) {
        let path = [b"/", path.as_slice()].concat();
        let (dev, ino, size, mtime_ns) = numbers;
        let manifest = Manifest {
            files: vec![Entry { dev, ino, size: Bytes(size), mtime_ns, ..entry(&path) }],
            reads: vec![Read { file: FileIndex(0), offset: FileOffset(offset), len: Bytes(len), rank }],
            ..Manifest::default()
        };
        prop_assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest));
    }

    #[test]
    fn garbage_never_panics(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Manifest::parse(&body);
        let mut text = b"thaw preload manifest 1\n".to_vec();
        text.extend(body);
        text.push(b'\n');
        let sum = format!("sum {:016x}\n", sum(&text));
        text.extend(sum.bytes());
        let _ = Manifest::parse(&text);
    }
}

#[test]
fn a_file_is_forgotten_with_its_reads() {
    let mut manifest = manifest();
    let (first, second) = (manifest.files[0].clone(), manifest.files[1].clone());
    manifest.retain(|entry| *entry == second);
    assert_eq!(manifest.files, [second]);
    assert_eq!(manifest.reads.len(), 1);
    assert_eq!((manifest.reads[0].file, manifest.reads[0].rank), (FileIndex(0), 1));
    assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest.clone()));
    manifest.retain(|entry| *entry == first);
    assert!(manifest.files.is_empty() && manifest.reads.is_empty());
}

//! Reading for real: files on a disk, evicted and brought back.

use super::*;
use crate::manifest::{About, Entry};
use elf::Identity;
use model::PAGE;
use std::path::Path;

/// A folder on a disk: what lies in memory cannot be evicted.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn entry(path: &Path, kind: Kind) -> Entry {
    let stat = rustix::fs::stat(path).unwrap();
    Entry {
        kind,
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: identity::size(&stat),
        mtime_ns: identity::mtime_ns(&stat),
        identity: None,
        path: path.to_owned(),
    }
}

fn read(file: u32, page: u64, pages: u64, rank: u32) -> Read {
    Read { file: FileIndex(file), offset: FileOffset(page * PAGE), len: Bytes(pages * PAGE), rank }
}

fn manifest(files: Vec<Entry>, reads: Vec<Read>) -> Manifest {
    Manifest { about: About::default(), files, reads }
}

/// Writes a file of so many pages and takes it out of memory; `None` where that is not possible.
fn cold(path: &Path, pages: u64) -> Option<File> {
    std::fs::write(path, vec![7; (pages * PAGE) as usize]).unwrap();
    let file = os::cache::open_quietly(path).unwrap();
    os::cache::evict(&file).unwrap();
    let left = os::cache::residency(&file, FileOffset(0), Bytes(pages * PAGE)).ok()?;
    if left.resident > 0 {
        testing::skip("files in /var/tmp cannot be evicted");
        return None;
    }
    Some(file)
}

/// Pages that are in memory once everything that was asked for has come.
fn resident(file: &File, page: u64, pages: u64) -> u64 {
    os::cache::residency(file, FileOffset(page * PAGE), Bytes(pages * PAGE)).unwrap().resident
}

#[test]
fn every_engine_reads_what_is_listed_and_nothing_else() {
    let folder = folder();
    for engine in [Engine::ReadAhead, Engine::Fadvise, Engine::IoUring] {
        let path = folder.path().join(format!("{engine:?}"));
        let Some(file) = cold(&path, 1024) else { return };
        let manifest = manifest(vec![entry(&path, Kind::Regular)], vec![read(0, 512, 128, 0), read(0, 3, 1, 1)]);
        let mut prepared = prepare(&manifest, engine, Window::All);
        assert_eq!((prepared.report.calls, prepared.report.asked), (2, Bytes(129 * PAGE)));
        match prepared.ask() {
            Err(error) if engine == Engine::IoUring && error.raw_os_error() == Some(libc::EPERM) => {
                testing::skip("io_uring is not allowed here");
            }
            outcome => outcome.unwrap(),
        }
        assert_eq!(resident(&file, 512, 128), 128, "{engine:?}");
        assert_eq!(resident(&file, 0, 1024), 129, "{engine:?}");
    }
}

#[test]
fn what_is_in_memory_is_not_asked_for() {
    let folder = folder();
    let path = folder.path().join("hot");
    let Some(_file) = cold(&path, 16) else { return };
    os::cache::warm(&path, None).unwrap();
    let manifest = manifest(vec![entry(&path, Kind::Regular)], vec![read(0, 0, 16, 0)]);
    let prepared = prepare(&manifest, Engine::ReadAhead, Window::All);
    assert_eq!((prepared.report.calls, prepared.report.resident), (0, Bytes(16 * PAGE)));
    let looked = look(&manifest);
    assert_eq!((looked.resident, looked.calls), (Bytes(16 * PAGE), 0));
}

#[test]
fn a_file_that_is_there_in_part_is_asked_for_whole_and_in_order() {
    let folder = folder();
    let path = folder.path().join("part");
    let Some(file) = cold(&path, 64) else { return };
    os::cache::warm(&path, Some(&[(FileOffset(0), Bytes(40 * PAGE))])).unwrap();
    let reads = vec![read(0, 50, 2, 0), read(0, 0, 4, 1), read(0, 30, 8, 2), read(0, 8, 1, 3)];
    let offsets = |reads: &[Read]| reads.iter().map(|read| (read.offset.0, read.len.0)).collect::<Vec<_>>();
    let expected = offsets(&reads);
    let manifest = manifest(vec![entry(&path, Kind::Regular)], reads);
    let mut prepared = prepare(&manifest, Engine::ReadAhead, Window::All);
    assert_eq!(prepared.calls.iter().map(|call| (call.1, call.2)).collect::<Vec<_>>(), expected);
    prepared.ask().unwrap();
    assert_eq!(resident(&file, 40, 24), 2);
    assert_eq!(prepare(&manifest, Engine::ReadAhead, Window::All).calls, []);
}

#[test]
fn files_that_changed_are_left_out_with_a_reason() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    for name in ["size", "date", "gone", "kind", "log"] {
        std::fs::write(path(name), "1234").unwrap();
    }
    let files = ["size", "date", "gone", "kind"].map(|name| entry(&path(name), Kind::Regular));
    let mut files = files.to_vec();
    files.push(entry(&path("log"), Kind::Changing));
    std::fs::write(path("size"), "12345").unwrap();
    std::fs::write(path("log"), "123456").unwrap();
    files[1].mtime_ns -= 1;
    std::fs::remove_file(path("gone")).unwrap();
    std::fs::remove_file(path("kind")).unwrap();
    std::os::unix::fs::symlink(path("size"), path("kind")).unwrap();
    let reads = (0..5).map(|file| read(file, 0, 1, file)).collect();
    let manifest = manifest(files, reads);
    let report = look(&manifest);
    let why: Vec<String> = report.stale.iter().map(|stale| stale.why.to_string()).collect();
    assert_eq!(
        why,
        ["its size was 4 B and is 5 B", "it was written since", "it is gone", "something else has its name"]
    );
    assert!(!report.nothing_fits(), "the log may change");
}

#[test]
fn the_build_id_decides_where_only_the_date_differs() {
    let folder = folder();
    let path = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let identity = Identity::of(&File::open(&path).unwrap()).unwrap();
    let Identity::BuildId(_) = &identity else { return testing::skip("this linker writes no build-id") };
    let of_date = Entry { identity: Some(identity), mtime_ns: 5, ..entry(&path, Kind::Regular) };
    let of_build = Entry { identity: Some(Identity::BuildId("00".into())), ..of_date.clone() };
    let report = look(&manifest(vec![of_date], vec![read(0, 0, 1, 0)]));
    assert_eq!(report.stale, []);
    let report = look(&manifest(vec![of_build], vec![read(0, 0, 1, 0)]));
    assert_eq!(report.stale[0].why, Stale::Build);
    assert!(report.nothing_fits());
}

#[test]
fn the_content_decides_of_a_file_without_a_build_id() {
    let folder = folder();
    let path = folder.path().join("archive");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let recorded = |build_id| crate::make::Recorded {
        path: path.clone(),
        kind: Kind::Regular,
        dev: 1,
        ino: 1,
        size: Bytes(100_000),
        build_id,
        pieces: Vec::new(),
        extents: Vec::new(),
    };
    let (wanted, _) = crate::make::look(vec![recorded(None)]);
    // As a package that is installed again leaves it: another date, the same bytes.
    let of_date = || Entry { mtime_ns: 5, ..wanted[0].entry.clone() };
    assert_eq!(look(&manifest(vec![of_date()], vec![read(0, 0, 1, 0)])).stale, []);
    std::fs::write(&path, vec![8; 100_000]).unwrap();
    let report = look(&manifest(vec![of_date()], vec![read(0, 0, 1, 0)]));
    assert_eq!(report.stale[0].why, Stale::Content);
    let (wanted, lost) = crate::make::look(vec![recorded(Some("deadbeef".into()))]);
    assert_eq!((wanted.len(), &lost[0].why), (0, &Stale::Build), "it had a build-id when it was recorded");
}

#[test]
fn a_device_is_found_by_a_file_on_it() {
    let folder = folder();
    let path = folder.path().join("witness");
    std::fs::write(&path, "1").unwrap();
    let device = entry(&path, Kind::Device);
    let other = Entry { ino: device.ino + 1, ..device.clone() };
    let report = look(&manifest(vec![other], vec![read(0, 0, 1, 0)]));
    assert_eq!(report.stale[0].why, Stale::OtherKind, "another file system has a file of this name");
    // Whether the device may be read is this machine's business; that it is found is ours.
    let report = look(&manifest(vec![device], vec![read(0, 0, 1, 0)]));
    let on_disk = os::disk::Disk::of_path(&path).is_ok();
    assert!(!on_disk || report.stale.is_empty(), "{report:?}");
}

#[test]
fn what_is_used_first_is_read_where_there_is_no_room_for_all() {
    let reads = vec![read(0, 0, 10, 2), read(0, 20, 10, 0), read(0, 40, 10, 1)];
    let of = |pages: u64| {
        let (first, rest) = first_ones(reads.clone(), Bytes(pages * PAGE));
        let ranks = |reads: &[Read]| reads.iter().map(|read| read.rank).collect::<Vec<_>>();
        (ranks(&first), ranks(&rest))
    };
    assert_eq!(of(30), (vec![2, 0, 1], vec![]), "all, in their order");
    assert_eq!(of(29), (vec![0, 1], vec![2]));
    assert_eq!(of(19), (vec![0], vec![2, 1]));
    assert_eq!(of(0), (vec![], vec![2, 0, 1]));
}

#[test]
fn no_manifest_is_too_long_for_the_files_that_may_be_open() {
    let folder = folder();
    let limit = getrlimit(Resource::Nofile);
    let paths: Vec<_> = (0..200).map(|number| folder.path().join(number.to_string())).collect();
    paths.iter().for_each(|path| std::fs::write(path, "1").unwrap());
    let reads = (0..200).map(|file| read(file, 0, 1, file)).collect();
    let manifest = manifest(paths.iter().map(|path| entry(path, Kind::Regular)).collect(), reads);
    // Other tests of this process use few files at a time.
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..limit }).unwrap();
    let report = look(&manifest);
    let after = getrlimit(Resource::Nofile).current;
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(report.stale, []);
    assert_eq!(after, Some(128), "the program gets the limit that was there");
}

/// An ELF file with nothing but a build-id (deadbeef) behind so many bytes of other content.
fn elf_with_note_at(at: u64) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([3_u16.to_le_bytes(), 62_u16.to_le_bytes()].concat());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0_u64, 64, 0].map(u64::to_le_bytes).concat());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    bytes.extend([4_u32, 4].map(u32::to_le_bytes).concat());
    bytes.extend([at, at, at, 20, 20, 4].map(u64::to_le_bytes).concat());
    bytes.resize(at as usize, 7);
    bytes.extend([4_u32, 4, 3].map(u32::to_le_bytes).concat());
    bytes.extend(b"GNU\0\xde\xad\xbe\xef");
    bytes
}

#[test]
fn a_library_whose_note_lies_far_behind_its_head_is_known_by_it() {
    let folder = folder();
    // As patchelf leaves it: the notes are moved behind everything else.
    for at in [120, 1 << 20] {
        let path = folder.path().join("library.so");
        std::fs::write(&path, elf_with_note_at(at)).unwrap();
        let stat = rustix::fs::stat(&path).unwrap();
        let recorded = crate::make::Recorded {
            path: path.clone(),
            kind: Kind::Regular,
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: identity::size(&stat),
            build_id: Some("deadbeef".into()),
            pieces: Vec::new(),
            extents: Vec::new(),
        };
        let (wanted, lost) = crate::make::look(vec![recorded]);
        assert_eq!((wanted.len(), lost), (1, vec![]), "note at {at}");
        let of_date = Entry { mtime_ns: 5, ..wanted[0].entry.clone() };
        let report = look(&manifest(vec![of_date], vec![read(0, 0, 1, 0)]));
        assert_eq!(report.stale, [], "note at {at}");
    }
}

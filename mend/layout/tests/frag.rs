//! Files on an ext4 of the test's own: scattered on purpose, put together again, and left alone where that is right.

#[path = "common/disk.rs"]
mod disk;

use disk::{Disk, STEP, content};
use layout::frag::{Outcome, Refused, Survey, Way, fix, look, measure};
use model::{Bytes, Nanos};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

fn surveyed(disk: &Disk) -> Survey {
    measure(std::slice::from_ref(&disk.point), &|distance| Nanos(distance.0), &|_| ())
}

/// With extents, of 96 MiB.
fn ext4() -> Option<Disk> {
    Disk::new(Path::new("/var/tmp"), &["-q", "-b", "4096", "-E", "lazy_itable_init=0"], "mkfs.ext4", 96 << 20)
}

/// Two files, written in turn and each time to the disk, so that each lies between the pieces of the other.
fn interleaved(disk: &Disk) -> (PathBuf, PathBuf) {
    let paths = (disk.path("one"), disk.path("two"));
    let files = (File::create(&paths.0).unwrap(), File::create(&paths.1).unwrap());
    for turn in 0..8_u64 {
        for (number, file) in [&files.0, &files.1].into_iter().enumerate() {
            let content = content(turn * 2 + number as u64);
            // Without room in advance the allocator keeps a stretch for each file.
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), turn * STEP, STEP).unwrap();
            file.write_all_at(&content, turn * STEP).unwrap();
            file.sync_all().unwrap();
        }
    }
    paths
}

fn pieces(path: &Path) -> usize {
    look(&File::open(path).unwrap()).unwrap().pieces.len()
}

fn refusal(path: &Path) -> (Refused, String) {
    match fix(path).unwrap() {
        Outcome::Refused(refusal) => (refusal.kind, refusal.sentence),
        other => panic!("{other:?}"),
    }
}

/// Nothing lies beside the files.
fn only(directory: &Path, names: &[&str]) {
    let mut found: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    found.retain(|name| name != "lost+found");
    assert_eq!(found, names);
}

#[test]
fn interleaved_files_are_found_and_put_together() {
    let Some(disk) = ext4() else { return };
    let (one, two) = interleaved(&disk);
    let survey = surveyed(&disk);
    assert_eq!((survey.summary.files, survey.summary.scattered), (2, 2), "{survey:?}");
    assert!(survey.summary.interleaved == 2 && survey.summary.jumps_cost > Nanos(0), "{survey:?}");
    let found = survey.files.iter().find(|file| file.path == one).unwrap();
    assert!(found.between >= Bytes(7 * STEP) && found.neighbours[0].path == two, "{found:?}");
    let before = (fs::read(&one).unwrap(), fs::metadata(&one).unwrap(), pieces(&one));
    // More names than one are no matter where blocks move.
    fs::hard_link(&one, disk.path("three")).unwrap();
    let Outcome::Fixed(fixed) = fix(&one).unwrap() else { panic!("refused") };
    assert_eq!((fixed.pieces_before, fixed.pieces_after, fixed.way), (before.2 as u64, 1, Way::Moved));
    assert_eq!(pieces(&one), 1);
    let after = fs::metadata(&one).unwrap();
    assert!(fs::read(&one).unwrap() == before.0, "the content changed");
    let stays = |about: &fs::Metadata| (about.ino(), about.mode(), about.mtime(), about.mtime_nsec(), about.len());
    assert_eq!(stays(&after), stays(&before.1));
    only(&disk.point, &["one", "three", "two"]);
    assert_eq!(refusal(&one).0, Refused::NoGain);
    let survey = surveyed(&disk);
    assert_eq!((survey.summary.scattered, survey.left_out.hard_links), (1, 1));
}

#[test]
fn blocks_move_whatever_the_page_cache_holds_of_the_file() {
    let Some(disk) = ext4() else { return };
    let (one, _) = interleaved(&disk);
    let file = File::options().write(true).open(&one).unwrap();
    let other = File::create(disk.path("other")).unwrap();
    // Long enough that reading ahead takes large folios.
    for turn in 0..24 {
        for file in [&file, &other] {
            let at = file.metadata().unwrap().len();
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), at, STEP).unwrap();
            file.write_all_at(&content(turn), at).unwrap();
            file.sync_all().unwrap();
        }
    }
    drop(file);
    fs::hard_link(&one, disk.path("three")).unwrap();
    // Cold, and then read from the beginning to the end as any program does.
    os::cache::evict(&File::open(&one).unwrap()).unwrap();
    let before = (fs::read(&one).unwrap(), pieces(&one) as u64);
    assert!(before.1 > 20, "{}", before.1);
    match fix(&one).unwrap() {
        Outcome::Fixed(fixed) => {
            assert_eq!((fixed.pieces_before, fixed.way), (before.1, Way::Moved));
            assert_eq!((fixed.pieces_after, fixed.blocks), (pieces(&one) as u64, Some(before.0.len() as u64 / 4096)));
        }
        other => panic!("{other:?}"),
    }
    assert!(pieces(&one) <= 2 && fs::read(&one).unwrap() == before.0);
}

#[test]
fn a_file_in_use_is_left_alone_and_who_uses_it_is_named() {
    let Some(disk) = ext4() else { return };
    let (one, _) = interleaved(&disk);
    let before = pieces(&one);
    let mut reader = Command::new("sleep").arg("600").stdin(File::open(&one).unwrap()).spawn().unwrap();
    let (kind, sentence) = refusal(&one);
    reader.kill().unwrap();
    reader.wait().unwrap();
    assert_eq!(kind, Refused::InUse);
    assert!(sentence.contains(&format!("in use by sleep {}", reader.id())), "{sentence}");
    let mapped = os::mapped::Mapped::of(&File::open(&one).unwrap()).unwrap();
    assert_eq!(refusal(&one).0, Refused::InUse, "a mapping holds it without a descriptor");
    drop(mapped);
    assert_eq!(pieces(&one), before);
    // A running program, scattered.
    let program = disk.path("program");
    let bytes = fs::read("/bin/sleep").unwrap();
    let (file, other) = (File::create(&program).unwrap(), File::create(disk.path("other")).unwrap());
    for (number, piece) in bytes.chunks(4096).enumerate() {
        let at = number as u64 * 4096;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), at, piece.len() as u64).unwrap();
        rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), at, 4096).unwrap();
        file.write_all_at(piece, at).unwrap();
        file.sync_all().unwrap();
    }
    drop(file);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut running = Command::new(&program).arg("600").spawn().unwrap();
    let (kind, sentence) = refusal(&program);
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(kind == Refused::InUse && sentence.contains("in use by program"), "{sentence}");
    assert!(pieces(&program) > 1);
    assert!(matches!(fix(&program).unwrap(), Outcome::Fixed(_)));
    assert!(fs::read(&program).unwrap() == bytes);
}

#[test]
fn what_would_not_be_kept_or_gained_is_left_alone() {
    let Some(disk) = ext4() else { return };
    let (one, two) = interleaved(&disk);
    let hole = File::options().write(true).open(&one).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&hole, punch, STEP, 8192).unwrap();
    drop(hole);
    let (kind, sentence) = refusal(&one);
    assert!(kind == Refused::Unusual && sentence.contains("it has holes"), "{sentence}");
    // No room for a second copy.
    let full = File::create(disk.path("full")).unwrap();
    let (mut at, mut step) = (0, 16 << 20);
    while step >= STEP {
        match rustix::fs::fallocate(&full, rustix::fs::FallocateFlags::empty(), at, step) {
            Ok(()) => at += step,
            Err(_) => step /= 2,
        }
    }
    let before = fs::read(&two).unwrap();
    let (kind, sentence) = refusal(&two);
    assert!(kind == Refused::NoGain && sentence.contains("no room for a second copy"), "{sentence}");
    assert!(fs::read(&two).unwrap() == before && pieces(&two) > 1);
    only(&disk.point, &["full", "one", "two"]);
    let empty = disk.path("empty");
    File::create(&empty).unwrap();
    assert_eq!(refusal(&empty).0, Refused::NoGain);
    assert!(fix(&disk.point).is_err(), "a directory");
    assert!(fix(&disk.path("nowhere")).is_err());
}

#[test]
fn file_systems_that_place_blocks_by_themselves_are_named() {
    if Path::new("/dev/shm").is_dir() {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        fs::write(file.path(), b"in memory").unwrap();
        let (kind, sentence) = refusal(file.path());
        assert!(kind == Refused::FileSystem && sentence.contains("tmpfs"), "{sentence}");
    } else {
        testing::skip("needs /dev/shm");
    }
}

#[test]
fn where_blocks_cannot_be_moved_a_copy_takes_the_name() {
    let words = ["-q", "-b", "4096", "-O", "^extent,^64bit", "-E", "lazy_itable_init=0"];
    // Files without extents: the kernel exchanges no blocks, and allocates none in advance.
    let Some(disk) = Disk::new(Path::new("/var/tmp"), &words, "mkfs.ext4", 96 << 20) else { return };
    let paths = (disk.path("one"), disk.path("two"));
    let files = (File::create(&paths.0).unwrap(), File::create(&paths.1).unwrap());
    for turn in 0..4_u64 {
        for file in [&files.0, &files.1] {
            file.write_all_at(&content(turn), turn * STEP).unwrap();
            file.sync_all().unwrap();
        }
    }
    drop(files);
    let before = fs::read(&paths.0).unwrap();
    fs::set_permissions(&paths.0, fs::Permissions::from_mode(0o600)).unwrap();
    let about = fs::metadata(&paths.0).unwrap();
    let Outcome::Fixed(fixed) = fix(&paths.0).unwrap() else { panic!("refused") };
    assert!(fixed.way == Way::Copied && fixed.pieces_after < fixed.pieces_before, "{fixed:?}");
    let after = fs::metadata(&paths.0).unwrap();
    assert_eq!((after.mode(), after.mtime_nsec(), after.uid()), (about.mode(), about.mtime_nsec(), about.uid()));
    fs::hard_link(&paths.1, disk.path("three")).unwrap();
    assert_eq!(refusal(&paths.1).0, Refused::HardLinks);
    only(&disk.point, &["one", "three", "two"]);
    assert!(fs::read(&paths.0).unwrap() == before);
}

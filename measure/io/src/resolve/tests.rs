//! Resolution on this machine's own files.

use super::*;
use crate::raw::{RawFill, RawMmap, Span};
use model::{Cause, PAGE};
use std::{io::Write, os::unix::fs::MetadataExt, path::Path};

/// A trace that touches these inodes at a moment after its start.
fn touching(inodes: &[Inode], at: Nanos) -> RawTrace {
    let fill = |inode: &Inode| RawFill { at, pid: 1, tid: 1, inode: *inode, span: Span { first: 0, pages: 1 } };
    RawTrace { fills: inodes.iter().map(fill).collect(), ..RawTrace::default() }
}

fn inode_of(path: &Path) -> Inode {
    let found = path.symlink_metadata().unwrap();
    Inode { dev: found.dev(), ino: found.ino() }
}

/// A directory beside this test, on a disk; `/tmp` may be memory.
fn directory() -> tempfile::TempDir {
    let own = std::env::current_exe().unwrap().canonicalize().unwrap();
    tempfile::tempdir_in(own.parent().unwrap()).unwrap()
}

#[test]
fn a_file_is_found_with_its_extents() {
    if !testing::root_or_skip() {
        return;
    }
    let directory = directory();
    let path = directory.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[1; 3 * PAGE as usize]).unwrap();
    file.sync_all().unwrap();
    let inode = inode_of(&path);
    let resolved = resolve(&touching(&[inode], Nanos(5)));
    let found = &resolved.files[&inode];
    let mounts = Mounts::load().unwrap();
    if mounts.of_path(&path).map(Mount::backing) != Some(Backing::Disk) {
        return testing::skip("the target directory is not on a disk with extents");
    }
    assert_eq!((&found.row.path, found.row.kind), (&path, FileKind::Regular));
    assert_eq!(found.row.size, Bytes(3 * PAGE));
    assert_eq!(found.place, Place::Known);
    assert!(found.lies_on_disk(0) && found.lies_on_disk(3 * PAGE - 1) && !found.lies_on_disk(3 * PAGE));
    assert_eq!(found.row.extents, Some(found.extents.len() as u32));
}

#[test]
fn an_executable_has_sections_and_perhaps_a_build_id() {
    let path = std::env::current_exe().unwrap().canonicalize().unwrap();
    let inode = inode_of(&path);
    let mut raw = touching(&[inode], Nanos(5));
    raw.names.push((inode, path.clone()));
    let found = &resolve(&raw).files[&inode];
    assert_eq!((&found.row.path, found.row.kind), (&path, FileKind::Regular));
    assert!(found.sections.iter().any(|section| section.name == ".text" && section.len.0 > 0));
}

#[test]
fn a_number_that_was_given_to_a_new_file_is_not_the_old_one() {
    let directory = directory();
    let path = directory.path().join("new");
    File::create(&path).unwrap();
    let inode = inode_of(&path);
    // The trace began ten seconds ago and touched this number in its first second.
    let mut raw = touching(&[inode], Nanos(1_000_000_000));
    raw.t0_monotonic_ns = os::spawn::monotonic_ns().saturating_sub(10_000_000_000);
    raw.names.push((inode, directory.path().join("old")));
    let found = &resolve(&raw).files[&inode];
    assert_eq!(found.row.path, directory.path().join("old"));
    assert_eq!(found.row.kind, FileKind::Unnamed);
    assert!(found.extents.is_empty());
    // Had the trace touched it now, it would be this file.
    let mut raw = touching(&[inode], Nanos(10_000_000_000));
    (raw.t0_monotonic_ns, raw.names) = (os::spawn::monotonic_ns() - 10_000_000_000, vec![(inode, path.clone())]);
    assert_eq!(resolve(&raw).files[&inode].row.path, path);
}

#[test]
fn a_deleted_file_keeps_the_name_that_was_heard() {
    let directory = directory();
    let path = directory.path().join("file");
    let file = File::create(&path).unwrap();
    let inode = inode_of(&path);
    std::fs::remove_file(&path).unwrap();
    let mut raw = RawTrace::default();
    raw.mmaps.push(RawMmap {
        at: Nanos(5),
        pid: 1,
        inode,
        path: path.clone(),
        offset: 0,
        len: Bytes(PAGE),
        exec: false,
    });
    raw.names.push((inode, path.clone()));
    let found = &resolve(&raw).files[&inode];
    assert_eq!((&found.row.path, found.row.kind), (&path, FileKind::Unnamed));
    drop(file);
}

#[test]
fn a_renamed_file_has_its_new_name() {
    let directory = directory();
    let (old, new) = (directory.path().join("data.tmp"), directory.path().join("data"));
    File::create(&old).unwrap();
    let inode = inode_of(&old);
    std::fs::rename(&old, &new).unwrap();
    let mut raw = touching(&[inode], Nanos(5));
    raw.names.push((inode, old));
    assert_eq!(resolve(&raw).files[&inode].row.path, new);
}

#[test]
fn a_block_device_is_metadata_in_one_piece() {
    let Ok(devices) = std::fs::read_dir("/sys/dev/block") else { return testing::skip("no block devices") };
    let Some(name) = devices.flatten().map(|entry| entry.file_name()).next() else {
        return testing::skip("no block devices");
    };
    let name = name.into_string().unwrap();
    let (major, minor) = name.split_once(':').unwrap();
    let number = major.parse::<u64>().unwrap() << 20 | minor.parse::<u64>().unwrap();
    // No file system is mounted from this device number.
    let inode = Inode { dev: libc::makedev(0, 0xf_fff0), ino: number };
    let raw = touching(&[inode], Nanos(5));
    let resolved = resolve(&raw);
    let found = &resolved.files[&inode];
    assert_eq!(found.row.kind, FileKind::Metadata);
    assert!(found.row.path.starts_with("/dev"), "{:?}", found.row.path);
    assert_eq!(found.extents.len(), 1);
    assert_eq!(found.extents[0].len, found.row.size);
    assert_eq!(crate::attribute(&raw, &resolved).fills[0].cause, Cause::Metadata);
}

#[test]
fn memory_is_memory() {
    let file = rustix::fs::memfd_create("thaw-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let stat = rustix::fs::fstat(&file).unwrap();
    let inode = Inode { dev: stat.st_dev, ino: stat.st_ino };
    let found = &resolve(&touching(&[inode], Nanos(5))).files[&inode];
    assert_eq!(found.row.kind, FileKind::Memory);
}

#[test]
fn what_cannot_be_found_is_unnamed() {
    let here = inode_of(Path::new(env!("CARGO_MANIFEST_DIR")));
    let inodes = [Inode { dev: here.dev, ino: 0xffff_fff0 }, Inode { dev: libc::makedev(99, 99), ino: 5 }];
    let resolved = resolve(&touching(&inodes, Nanos(5)));
    assert!(inodes.iter().all(|inode| resolved.files[inode].row.kind == FileKind::Unnamed));
    assert_eq!(resolved.files[&inodes[1]].row.path, Path::new("99:99:5"));
}

#[test]
fn naming_tells_how_far_it_is_and_stops_when_asked() {
    let directory = directory();
    let files: Vec<PathBuf> = (0..300).map(|number| directory.path().join(format!("file-{number}"))).collect();
    files.iter().for_each(|path| drop(File::create(path).unwrap()));
    let inodes: Vec<Inode> = files.iter().map(|path| inode_of(path)).collect();
    let mut raw = touching(&inodes, Nanos(5));
    raw.names = inodes.iter().copied().zip(files.clone()).collect();
    let mut told = Vec::new();
    let all = resolve_with(&raw, &mut |done, of| {
        told.push((done, of));
        ControlFlow::Continue(())
    });
    assert!(told.len() > 5 && told.iter().all(|(done, of)| done <= of && *of == 300), "{told:?}");
    assert!(told.is_sorted() && told.last().unwrap().0 > 200, "{told:?}");
    assert!(all.files.values().all(|file| file.row.kind == FileKind::Regular) && all.file_systems.len() == 1);
    // Of half of them no name was heard, and then nobody waits for the rest.
    raw.names.truncate(150);
    let mut left = 3;
    let some = resolve_with(&raw, &mut |_, _| {
        left -= 1;
        if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!(left, 0, "nobody is asked any more");
    assert_eq!(some.files.len(), 300, "no file is lost");
    assert!(inodes[..150].iter().zip(&files).all(|(inode, path)| some.files[inode].row.path == *path), "it is known");
    let named = some.files.values().filter(|file| files.contains(&file.row.path)).count();
    assert!(named < 250, "{named} are named");
    let other = some.files.values().find(|file| !files.contains(&file.row.path)).unwrap();
    let text = model::shown(&other.row.path);
    assert!(text.starts_with("(unknown file ") && text.ends_with(": thaw was interrupted)"), "{text}");
    assert!(some.warnings.iter().any(|warning| warning.text.contains("were not looked into")), "{:?}", some.warnings);
}

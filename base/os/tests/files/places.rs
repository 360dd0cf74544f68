//! Where files are: on disk (extents), in the tree (paths of inodes), among mounts and partitions.

use crate::ground::{Mounted, as_nobody, content, entry, folder, loop_disk, undisturbed};
use model::{Bytes, DiskOffset, PAGE};
use os::cache;
use os::device::{DiskPart, part_in, part_of};
use os::disk::Disk;
use os::extents::{Extent, ExtentKind, extents, pieces};
use os::handle::{InodeName, path_of_inode, paths_by_walk};
use os::mounts::{Backing, Mounts};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Allocates or punches pages of a file.
fn fallocate(file: &File, mode: i32, first: u64, count: u64) {
    // SAFETY: takes numbers only.
    let answer = unsafe { libc::fallocate(file.as_raw_fd(), mode, (first * PAGE) as i64, (count * PAGE) as i64) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Extents in pages, without their place.
fn shape(extents: &[Extent]) -> Vec<(u64, u64, ExtentKind)> {
    extents.iter().map(|extent| (extent.offset.0 / PAGE, extent.len.0 / PAGE, extent.kind)).collect()
}

#[test]
fn extents_show_holes_and_what_was_never_written_and_lead_to_the_data() {
    undisturbed(|| {
        use ExtentKind::{Data, Unwritten};
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let path = disk.point.join("file");
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        fallocate(&file, 0, 0, 40);
        file.write_all_at(&content(20), 0).unwrap();
        file.sync_all().unwrap();
        fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 5, 3);
        fallocate(&file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, 12, 1);
        file.sync_all().unwrap();

        let found = extents(&file).unwrap();
        assert_eq!(shape(&found), [(0, 5, Data), (8, 4, Data), (13, 7, Data), (20, 20, Unwritten)]);
        assert_eq!(pieces(&found), 3, "the holes still lie between the pieces on disk");

        cache::evict(&file).unwrap();
        let device = File::open(entry(&disk).source).unwrap();
        cache::evict(&device).unwrap();
        for extent in found.iter().filter(|extent| extent.kind == Data) {
            let mut on_disk = vec![0; extent.len.0 as usize];
            device.read_exact_at(&mut on_disk, extent.disk.unwrap().0).unwrap();
            let (from, to) = (extent.offset.0 as usize, (extent.offset.0 + extent.len.0) as usize);
            assert!(on_disk == content(20)[from..to], "the device holds other bytes at {extent:?}");
        }
    });
}

#[test]
fn more_extents_than_fit_one_answer_are_all_told() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let file = File::create(disk.point.join("file")).unwrap();
        let mut expected = Vec::new();
        for island in 0..1000 {
            file.write_all_at(b"x", island * 3 * PAGE).unwrap();
            expected.push(island * 3);
        }
        file.sync_all().unwrap();
        let found = extents(&file).unwrap();
        assert_eq!(found.iter().map(|extent| extent.offset.0 / PAGE).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|extent| extent.len == Bytes(PAGE) && extent.disk.is_some()));
    });
}

#[test]
fn data_that_is_only_in_memory_has_no_place() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let path = disk.point.join("file");
        // Somebody's `sync` may allocate it before we look; not twenty times.
        let seen = (0..20).any(|_| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, content(8)).unwrap();
            let found = extents(&File::open(&path).unwrap()).unwrap();
            found.iter().all(|extent| extent.kind == ExtentKind::Delayed && extent.disk.is_none()) && !found.is_empty()
        });
        assert!(seen, "eight pages just written already have a place");
        assert_eq!(
            extents(&tempfile::tempfile_in("/dev/shm").unwrap()).unwrap_err().kind(),
            std::io::ErrorKind::Unsupported
        );
        std::fs::write(&path, "").unwrap();
        assert_eq!(extents(&File::open(&path).unwrap()).unwrap(), []);
    });
}

fn name_of(mount: &Path, ino: u64) -> Option<InodeName> {
    path_of_inode(File::open(mount).unwrap().as_fd(), ino)
}

#[test]
fn an_inode_leads_to_its_path_whatever_happens_to_the_file() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let at = |name: &str| disk.point.join(name);
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("directory/file"), "x").unwrap();
        let ino = at("directory/file").metadata().unwrap().ino();
        assert_eq!(name_of(&disk.point, ino), Some(InodeName::Path(at("directory/file"))));
        let directory = at("directory").metadata().unwrap().ino();
        assert_eq!(name_of(&disk.point, directory), Some(InodeName::Path(at("directory"))));

        std::fs::rename(at("directory/file"), at("a name with (deleted)")).unwrap();
        std::fs::rename(at("a name with (deleted)"), at("file (deleted)")).unwrap();
        assert_eq!(name_of(&disk.point, ino), Some(InodeName::Path(at("file (deleted)"))), "its name, not its state");

        let open = File::open(at("file (deleted)")).unwrap();
        std::fs::remove_file(at("file (deleted)")).unwrap();
        assert_eq!(name_of(&disk.point, ino), Some(InodeName::Deleted(at("file (deleted)"))));
        drop(open);
        assert_eq!(name_of(&disk.point, ino), None, "gone for good");
        assert_eq!(name_of(&disk.point, 4_000_000), None, "no such inode");
        assert_eq!(name_of(&disk.point, u64::MAX), None);
    });
}

#[test]
fn an_inode_whose_name_was_forgotten_has_no_path_rather_than_a_wrong_one() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let path = disk.point.join("file");
        std::fs::write(&path, "x").unwrap();
        let ino = path.metadata().unwrap().ino();
        disk.remount("loop");
        assert_eq!(name_of(&disk.point, ino), None, "the kernel would say '/' here");
        assert_eq!(paths_by_walk(&disk.point, &HashSet::from([ino])), HashMap::from([(ino, path.clone())]));
        path.metadata().unwrap();
        assert_eq!(name_of(&disk.point, ino), Some(InodeName::Path(path)), "looked up, it is known again");
    });
}

#[test]
fn unusual_mounts_and_users_without_rights_get_no_path() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let path = disk.point.join("file");
        std::fs::write(&path, "x").unwrap();
        let ino = path.metadata().unwrap().ino();
        as_nobody(|| assert_eq!(name_of(&disk.point, ino), None));

        let memory = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        assert_eq!(name_of(Path::new("/dev/shm"), memory.path().metadata().unwrap().ino()), None);
        for odd in ["/proc", "/sys", "/dev/pts"] {
            let root = Path::new(odd).metadata().unwrap().ino();
            let name = name_of(Path::new(odd), root);
            assert!(name.is_none() || name == Some(InodeName::Path(odd.into())), "{odd}: {name:?}");
        }

        let at = |name: &str| folder.path().join(name);
        for name in ["lower", "upper", "work"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        std::fs::write(at("lower/file"), "x").unwrap();
        let shown = |name: &str| at(name).display().to_string();
        let options = format!("lowerdir={},upperdir={},workdir={}", shown("lower"), shown("upper"), shown("work"));
        let Some(_overlay) = Mounted::new("overlay", &options, &at("merged")) else {
            return testing::skip("needs overlayfs");
        };
        let ino = at("merged/file").metadata().unwrap().ino();
        let name = name_of(&at("merged"), ino);
        assert!(name.is_none() || name == Some(InodeName::Path(at("merged/file"))), "{name:?}");

        // What hides a file hides its path, too.
        let (hidden, cover) = (disk.point.join("covered/file"), disk.point.join("covered"));
        std::fs::create_dir(&cover).unwrap();
        std::fs::write(&hidden, "x").unwrap();
        let ino = hidden.metadata().unwrap().ino();
        let Some(_cover) = Mounted::new("tmpfs", "size=64k", &cover) else {
            return testing::skip("cannot mount tmpfs");
        };
        assert_eq!(name_of(&disk.point, ino), None);
    });
}

#[test]
fn a_walk_finds_all_names_and_stays_on_the_file_system() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let mut wanted = HashMap::new();
        for name in ["a", "b/c", "b/d/e"] {
            let path = disk.point.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            wanted.insert(path.metadata().unwrap().ino(), path);
        }
        wanted.insert(disk.point.metadata().unwrap().ino(), disk.point.clone());
        let inodes: HashSet<u64> = wanted.keys().copied().chain([999_999]).collect();
        assert_eq!(paths_by_walk(&disk.point, &inodes), wanted);
        let other: HashSet<u64> =
            [wanted.iter().find(|(_, path)| path.ends_with("a")).unwrap()].iter().map(|(ino, _)| **ino).collect();
        let from_above = paths_by_walk(folder.path(), &other);
        assert!(from_above.values().all(|path| !path.starts_with(&disk.point)), "the same number on another disk");
    });
}

#[test]
fn mounts_are_found_by_path_and_device() {
    undisturbed(|| {
        let mounts = Mounts::load().unwrap();
        let root = mounts.of_path(Path::new("/")).unwrap();
        assert_eq!(root.point, Path::new("/"));
        assert_eq!(mounts.of_path(Path::new("/proc/self/status")).unwrap().backing(), Backing::Kernel);
        assert_eq!(mounts.of_path(Path::new("/not/there/at all")), Some(root));

        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let file = disk.point.join("new file");
        symlink(&disk.point, folder.path().join("link")).unwrap();
        let mounts = Mounts::load().unwrap();
        let mount = mounts.of_path(&file).unwrap();
        assert_eq!(
            (mount.point.as_path(), mount.fstype.as_str(), mount.backing()),
            (disk.point.as_path(), "ext4", Backing::Disk)
        );
        assert_eq!(mounts.of_path(&folder.path().join("link/new file")), Some(mount));
        assert_eq!(mounts.of_dev(disk.dev()), Some(mount));
        assert_eq!(mount.block_device(), Some(disk.dev()));
        assert_eq!(part_of(disk.dev()), Some(DiskPart { disk: disk.dev(), start: DiskOffset(0) }));
        assert!(mount.facts().contains(&(
            format!("filesystem:{}", disk.point.display()),
            "type".into(),
            "ext4".into()
        )));
    });
}

/// A sysfs with a disk `sda` (8:0) that has a partition `sda1` (8:1), and a mapped device `dm-0` (253:0).
fn sysfs() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("devices/pci/ata1/sda/dev", "8:0\n");
    write("devices/pci/ata1/sda/size", "1000215216\n");
    write("devices/pci/ata1/sda/device/model", "ROTATING RUST   \n");
    write("devices/pci/ata1/sda/queue/rotational", "1\n");
    write("devices/pci/ata1/sda/queue/read_ahead_kb", "128\n");
    write("devices/pci/ata1/sda/queue/scheduler", "none [mq-deadline] bfq\n");
    write("devices/pci/ata1/sda/queue/logical_block_size", "4096\n");
    write("devices/pci/ata1/sda/queue/max_sectors_kb", "1280\n");
    write("devices/pci/ata1/sda/sda1/dev", "8:1\n");
    write("devices/pci/ata1/sda/sda1/partition", "1\n");
    write("devices/pci/ata1/sda/sda1/start", "2048\n");
    write("devices/virtual/block/dm-0/dev", "253:0\n");
    write("devices/virtual/block/dm-0/dm/name", "vg-root\n");
    std::fs::create_dir_all(root.path().join("dev/block")).unwrap();
    let link = |name: &str, to: &str| {
        symlink(PathBuf::from("../../devices").join(to), root.path().join("dev/block").join(name)).unwrap()
    };
    link("8:0", "pci/ata1/sda");
    link("8:1", "pci/ata1/sda/sda1");
    link("253:0", "virtual/block/dm-0");
    root
}

#[test]
fn a_partition_begins_somewhere_on_its_disk() {
    undisturbed(|| {
        let sysfs = sysfs();
        let sda = libc::makedev(8, 0);
        let place = |major, minor| part_in(sysfs.path(), libc::makedev(major, minor));
        assert_eq!(place(8, 0), Some(DiskPart { disk: sda, start: DiskOffset(0) }));
        assert_eq!(
            place(8, 1),
            Some(DiskPart { disk: sda, start: DiskOffset(2048 * 512) }),
            "sectors of 512, whatever its blocks"
        );
        assert_eq!(place(253, 0), None, "where a mapped device's blocks are, only its table tells");
        assert_eq!(place(8, 2), None);
    });
}

#[test]
fn a_disk_tells_its_facts_also_through_its_partition() {
    undisturbed(|| {
        let sysfs = sysfs();
        let disk = Disk::of_dev_in(sysfs.path(), libc::makedev(8, 1)).unwrap();
        assert_eq!(
            (disk.name.as_str(), disk.dev, disk.model.as_deref()),
            ("sda", libc::makedev(8, 0), Some("ROTATING RUST"))
        );
        assert_eq!((disk.rotational, disk.read_ahead_kb, disk.scheduler.as_str()), (true, 128, "mq-deadline"));
        assert_eq!(
            (disk.logical_block, disk.max_sectors_kb, disk.size),
            (Bytes(4096), 1280, Bytes(1_000_215_216 * 512))
        );
        let facts = disk.facts();
        assert!(facts.contains(&("disk:sda".into(), "read_ahead_kb".into(), "128".into())), "{facts:?}");
        let missing = Disk::of_dev_in(sysfs.path(), libc::makedev(9, 9)).unwrap_err();
        assert_eq!(missing.exit, model::Exit::Machine);
        assert!(missing.to_string().contains("9:9"));
    });
}

#[test]
fn the_disk_of_a_path_is_the_one_that_holds_it() {
    undisturbed(|| {
        let Some(folder) = folder() else { return };
        let Some(disk) = loop_disk(folder.path()) else { return };
        let found = Disk::of_path(&disk.point.join("new file")).unwrap();
        assert_eq!(Path::new("/dev").join(&found.name), entry(&disk).source);
        assert_eq!((found.dev, found.size), (disk.dev(), Bytes(32 << 20)));

        let at = |name: &str| folder.path().join(name);
        for name in ["upper", "work"] {
            std::fs::create_dir(disk.point.join(name)).unwrap();
        }
        std::fs::create_dir(at("lower")).unwrap();
        let upper = disk.point.display();
        let options = format!("lowerdir={},upperdir={upper}/upper,workdir={upper}/work", at("lower").display());
        if let Some(_overlay) = Mounted::new("overlay", &options, &at("merged")) {
            assert_eq!(Disk::of_path(&at("merged")).unwrap(), found, "an overlay's writes go there");
        }
        let nowhere = Disk::of_path(Path::new("/dev/shm")).unwrap_err();
        assert_eq!(nowhere.exit, model::Exit::Machine);
        assert!(nowhere.to_string().contains("tmpfs"), "{nowhere}");
    });
}

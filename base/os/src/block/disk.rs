//! Facts of disks. Their read-ahead is held by [`crate::settings`].
//!
//! Read-ahead decides how much a start reads: the same start of one browser read 363 MB from a disk with 8 MiB of
//! it and 240 MB with the kernel's default of 128 KiB. So it is recorded always, and can be set for the runs.

use super::device::{device_directory, parse_dev};
use super::mounts::{Backing, Mounts};
use crate::machine::Fact;
use crate::proc::number::dev_text;
use crate::proc::value::{active, read_value};
use model::{Bytes, Error, Exit, Result};
use std::path::{Path, PathBuf};

/// A whole disk (or loop device, RAID, mapped device).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's name: `vda`, `nvme0n1`.
    pub name: String,
    /// Its number, packed by `makedev`.
    pub dev: u64,
    /// What it calls itself, if it does.
    pub model: Option<String>,
    /// `true`: the kernel believes that it rotates.
    pub rotational: bool,
    /// Read-ahead of the files on it, KiB.
    pub read_ahead_kb: u64,
    /// Active I/O scheduler; empty if it has none.
    pub scheduler: String,
    /// The smallest piece that a request can ask for.
    pub logical_block: Bytes,
    /// How much one request can ask for, KiB; 0: not told.
    pub max_sectors_kb: u64,
    /// How much it holds.
    pub size: Bytes,
    /// The file that shows and sets the read-ahead: the disk's own, or that of the btrfs on it.
    pub read_ahead_file: PathBuf,
}

impl Disk {
    /// The disk under a path. Of an overlay, the disk of what is written; of a file system on several disks, the one
    /// that was named when it was mounted.
    pub fn of_path(path: &Path) -> Result<Self> {
        let mounts = Mounts::load()?;
        let mut here = path.to_owned();
        // Overlays of overlays end somewhere.
        for _ in 0..4 {
            let Some(mount) = mounts.of_path(&here) else { break };
            if let Some(dev) = mount.block_device() {
                let mut disk = Self::of_dev(dev)?;
                if mount.backing() == Backing::Volume {
                    disk.use_read_ahead_of_btrfs(Path::new("/sys"), dev);
                }
                return Ok(disk);
            }
            let Some(below) = mount.option("upperdir").or_else(|| mount.option("lowerdir")?.split(':').next()) else {
                let error = Error::on(Exit::Machine, "there is no disk", path);
                return Err(error.because(format!("it is on {}", mount.fstype)).hint("put it on a disk's file system"));
            };
            here = below.into();
            // From inside a container the overlay's folders cannot be seen, and something else may have their path.
            if !here.exists() {
                break;
            }
        }
        Err(Error::on(Exit::Machine, "cannot find the disk of", path)
            .hint("in a container, put it on a volume: the disk below an overlay is known to the host only"))
    }

    /// The disk of a block device (a partition's whole disk), packed by `makedev`.
    pub fn of_dev(dev: u64) -> Result<Self> {
        Self::of_dev_in(Path::new("/sys"), dev)
    }

    /// [`Disk::of_dev`] under another sysfs root, for tests and containers.
    pub fn of_dev_in(sysfs: &Path, dev: u64) -> Result<Self> {
        Self::read(sysfs, dev).ok_or_else(|| {
            Error::new(Exit::Machine, "the kernel tells nothing about the block device", dev_text(dev))
                .hint("thaw needs /sys: mount it with `mount -t sysfs sysfs /sys`")
        })
    }

    /// The number of the disk whose requests all requests to a block device become in the end: of a partition its disk,
    /// of a loop device the disk of its file, of a mapped device or RAID the only one below it. What stands on several,
    /// and what the kernel does not know, bears itself.
    pub fn bearer(dev: u64) -> u64 {
        let file = |path: &Path| Mounts::load().ok()?.of_path(path)?.block_device();
        Self::bearer_in(Path::new("/sys"), dev, &file)
    }

    /// [`Disk::bearer`] under another sysfs root; `file` tells the block device that a file lies on.
    fn bearer_in(sysfs: &Path, dev: u64, file: &dyn Fn(&Path) -> Option<u64>) -> u64 {
        // Stacks end somewhere.
        (0..8).fold(dev, |dev, _| match Self::below_in(sysfs, dev, file)[..] {
            [only] => only,
            _ => dev,
        })
    }

    /// The whole disks that a block device passes its requests on to, one step down: of a partition its disk, of a loop
    /// device the disk of its file, of a mapped device or RAID all that it stands on. None: it is a disk itself.
    pub fn below(dev: u64) -> Vec<u64> {
        let file = |path: &Path| Mounts::load().ok()?.of_path(path)?.block_device();
        let sysfs = Path::new("/sys");
        let whole = |dev: u64| {
            let partition = device_directory(sysfs, dev).is_some_and(|it| it.join("partition").exists());
            if partition { Self::below_in(sysfs, dev, &file) } else { vec![dev] }
        };
        let mut below: Vec<u64> = Self::below_in(sysfs, dev, &file).into_iter().flat_map(whole).collect();
        below.sort_unstable();
        below.dedup();
        below
    }

    fn below_in(sysfs: &Path, dev: u64, file: &dyn Fn(&Path) -> Option<u64>) -> Vec<u64> {
        let Some(directory) = device_directory(sysfs, dev) else { return Vec::new() };
        let number = |file: PathBuf| read_value(&file).as_deref().and_then(parse_dev);
        if directory.join("partition").exists() {
            return directory.parent().and_then(|disk| number(disk.join("dev"))).into_iter().collect();
        }
        if let Some(backing) = read_value(&directory.join("loop/backing_file")) {
            return file(Path::new(&backing)).into_iter().collect();
        }
        let slaves = std::fs::read_dir(directory.join("slaves")).into_iter().flatten().flatten();
        slaves.filter_map(|slave| number(slave.path().join("dev"))).collect()
    }

    fn read(sysfs: &Path, dev: u64) -> Option<Self> {
        let mut directory = device_directory(sysfs, dev)?;
        if directory.join("partition").exists() {
            directory.pop();
        }
        let value = |name: &str| read_value(&directory.join(name));
        let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
        let read_ahead_file = directory.join("queue/read_ahead_kb");
        Some(Self {
            name: directory.file_name()?.to_string_lossy().into_owned(),
            dev: parse_dev(&value("dev")?)?,
            model: value("device/model").or_else(|| value("device/name")),
            rotational: number("queue/rotational") == Some(1),
            read_ahead_kb: number("queue/read_ahead_kb")?,
            scheduler: active(&value("queue/scheduler").unwrap_or_default()).to_owned(),
            logical_block: Bytes(number("queue/logical_block_size").unwrap_or(512)),
            max_sectors_kb: number("queue/max_sectors_kb").unwrap_or(0),
            size: Bytes(number("size")? * 512),
            read_ahead_file,
        })
    }

    /// Btrfs has a read-ahead of its own, whatever its disks have.
    fn use_read_ahead_of_btrfs(&mut self, sysfs: &Path, dev: u64) {
        let Some(device) = device_directory(sysfs, dev) else { return };
        let Some(name) = device.file_name() else { return };
        let Ok(volumes) = std::fs::read_dir(sysfs.join("fs/btrfs")) else { return };
        for volume in volumes.flatten().map(|entry| entry.path()) {
            let file = volume.join("bdi/read_ahead_kb");
            if volume.join("devices").join(name).exists()
                && let Some(kib) = read_value(&file).and_then(|text| text.parse().ok())
            {
                self.read_ahead_kb = kib;
                self.read_ahead_file = file;
            }
        }
    }

    /// Reads the read-ahead again.
    pub fn look_again(&mut self) {
        if let Some(kib) = read_value(&self.read_ahead_file).and_then(|text| text.parse().ok()) {
            self.read_ahead_kb = kib;
        }
    }

    /// The file that shows and sets its I/O scheduler.
    pub fn scheduler_file(&self) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/scheduler", self.name))
    }

    /// Facts for the recording, subject `disk:NAME`.
    pub fn facts(&self) -> Vec<Fact> {
        let subject = format!("disk:{}", self.name);
        let fact = |key: &str, value: String| (subject.clone(), key.to_owned(), value);
        let mut facts = vec![
            fact("dev", dev_text(self.dev)),
            fact("size_bytes", self.size.0.to_string()),
            fact("rotational", self.rotational.to_string()),
            fact("read_ahead_kb", self.read_ahead_kb.to_string()),
            fact("scheduler", self.scheduler.clone()),
            fact("logical_block_bytes", self.logical_block.0.to_string()),
            fact("max_sectors_kb", self.max_sectors_kb.to_string()),
        ];
        let below: Vec<String> =
            Self::below(self.dev).iter().filter_map(|dev| Some(Self::of_dev(*dev).ok()?.name)).collect();
        if !below.is_empty() {
            facts.push(fact("stands_on", below.join(",")));
        }
        facts.extend(self.model.as_ref().map(|model| fact("model", model.clone())));
        facts
    }
}

/// Read-ahead in KiB as the kernel takes it: whole pages.
pub fn read_ahead_text(kib: u64) -> String {
    (kib / 4 * 4).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// A machine with a disk sda (8:0), its partition (8:1), a loop device (7:0) of a file, a mapped device on the
    /// partition (253:0), and one on both the loop device and the disk (253:1).
    fn sysfs() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        let device = |name: &str, number: &str| {
            let directory = root.join("devices").join(name);
            create_dir_all(directory.join("slaves")).unwrap();
            write(directory.join("dev"), number).unwrap();
            create_dir_all(root.join("dev/block")).unwrap();
            symlink(&directory, root.join("dev/block").join(number)).unwrap();
            directory
        };
        let (disk, partition) = (device("sda", "8:0"), device("sda/sda1", "8:1"));
        write(partition.join("partition"), "1").unwrap();
        let looped = device("loop0", "7:0");
        create_dir_all(looped.join("loop")).unwrap();
        write(looped.join("loop/backing_file"), "/images/one").unwrap();
        symlink(&partition, device("dm-0", "253:0").join("slaves/sda1")).unwrap();
        let both = device("dm-1", "253:1");
        symlink(&looped, both.join("slaves/loop0")).unwrap();
        symlink(&disk, both.join("slaves/sda")).unwrap();
        scratch
    }

    #[test]
    fn every_device_is_borne_by_the_disk_at_the_bottom() {
        let sysfs = sysfs();
        let file = |path: &Path| (path == Path::new("/images/one")).then(|| libc::makedev(253, 0));
        let bearer = |major, minor| {
            let dev = Disk::bearer_in(sysfs.path(), libc::makedev(major, minor), &file);
            (libc::major(dev), libc::minor(dev))
        };
        assert_eq!(bearer(8, 0), (8, 0));
        assert_eq!(bearer(8, 1), (8, 0));
        assert_eq!(bearer(253, 0), (8, 0));
        assert_eq!(bearer(7, 0), (8, 0), "its file lies on the mapped device");
        assert_eq!(bearer(253, 1), (253, 1), "two disks bear it");
        assert_eq!(bearer(9, 9), (9, 9), "nobody knows it");
        let below = |major, minor| Disk::below_in(sysfs.path(), libc::makedev(major, minor), &file).len();
        assert_eq!([below(8, 0), below(8, 1), below(7, 0), below(253, 1), below(9, 9)], [0, 1, 1, 2, 0]);
    }
}

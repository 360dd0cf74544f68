//! Block devices: their directory in sysfs, and where a partition lies on its disk.

use crate::proc::number::dev_text;
use crate::proc::value::read_value;
use model::DiskOffset;
use std::path::{Path, PathBuf};

pub use crate::proc::number::{from_kernel_dev, parse_dev};

/// A block device inside its whole disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPart {
    /// The whole disk, packed by `makedev`: the device that block trace events name.
    pub disk: u64,
    /// Where on it the device begins, in bytes.
    pub start: DiskOffset,
}

/// Where a partition (or whole disk) lies: add `start` to an offset on the device to get one on the disk.
/// `None`: no block device, or one that is spread over others (device mapper, RAID), where the requests go to
/// those others at places that only their tables tell.
pub fn part_of(dev: u64) -> Option<DiskPart> {
    part_in(Path::new("/sys"), dev)
}

/// [`part_of`] under another sysfs root, for tests and containers.
pub fn part_in(sysfs: &Path, dev: u64) -> Option<DiskPart> {
    /// Sysfs counts in these, whatever the disk's blocks are.
    const SECTOR: u64 = 512;
    let device = device_directory(sysfs, dev)?;
    if device.join("dm").is_dir() || device.join("md").is_dir() {
        return None;
    }
    if !device.join("partition").exists() {
        return Some(DiskPart { disk: dev, start: DiskOffset(0) });
    }
    let start: u64 = read_value(&device.join("start"))?.parse().ok()?;
    let disk = parse_dev(&read_value(&device.parent()?.join("dev"))?)?;
    Some(DiskPart { disk, start: DiskOffset(start.checked_mul(SECTOR)?) })
}

/// `/sys/dev/block/254:1`, without symbolic links.
pub(crate) fn device_directory(sysfs: &Path, dev: u64) -> Option<PathBuf> {
    sysfs.join("dev/block").join(dev_text(dev)).canonicalize().ok()
}

/// The disk that a partition is on; a disk itself, and what stands on several, as it is. In `makedev` form.
pub(crate) fn whole_disk(dev: u64) -> u64 {
    part_of(dev).map_or(dev, |part| part.disk)
}

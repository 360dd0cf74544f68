//! What a group is asked, whichever version of control groups answers: [`super::v1`] and [`super::v2`] do.

use model::{Bytes, Error, Exit, Nanos, Result};
use std::fmt::Debug;
use std::fs;
use std::path::Path;

/// Which kind of hierarchy holds a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy, the unified one, with all controllers.
    V2,
}

/// CPU time of everything that ever ran in the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode, children included.
    pub user: Nanos,
    /// In the kernel, children included.
    pub system: Nanos,
    /// Both, as the scheduler counted it.
    pub total: Nanos,
}

/// Block I/O of everything that ever ran in the group, on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceIo {
    /// The device, packed by `makedev`.
    pub dev: u64,
    /// Bytes that requests read from the device.
    pub read_bytes: Bytes,
    /// How many requests read from the device.
    pub read_requests: u64,
    /// Bytes that requests wrote to the device.
    pub written_bytes: Bytes,
    /// How many requests wrote to the device.
    pub write_requests: u64,
}

/// Limits on reads from one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// Requests per second; `None`: as many as the disk can.
    pub iops: Option<u64>,
    /// Bytes per second; `None`: as many as the disk can.
    pub bps: Option<Bytes>,
}

/// What [`RunCgroup::reclaim`](super::RunCgroup::reclaim) found and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Charged page cache before.
    pub before: Bytes,
    /// Charged page cache after: what other processes use and what could not be written back.
    pub after: Bytes,
}

/// What is charged to a group, bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemoryStat {
    /// Page cache of files, without tmpfs.
    pub(super) cache: u64,
    /// Of it, what is not on its disk yet.
    pub(super) unwritten: u64,
}

/// A group's memory controller.
pub(super) trait MemoryControl: Debug + Send + Sync {
    fn version(&self) -> Version;

    /// # Errors
    /// Somebody removed the group.
    fn stat(&self) -> Result<MemoryStat>;

    /// All that is charged, bytes.
    ///
    /// # Errors
    /// Somebody removed the group.
    fn usage(&self) -> Result<u64>;

    /// Evicts what it can in one round. What was busy stays, and that is no error.
    ///
    /// # Errors
    /// This kernel cannot.
    fn reclaim_once(&self) -> Result<()>;
}

/// A group's controller of block I/O. Disks are named by their numbers: `254:0`.
pub(super) trait BlockIo: Debug + Send + Sync {
    /// What was read and written so far, by device.
    ///
    /// # Errors
    /// Somebody removed the group.
    fn counted(&self) -> Result<Vec<DeviceIo>>;

    /// Limits reads; no limit takes the one of before away.
    ///
    /// # Errors
    /// No such disk.
    fn limit(&self, disk: &str, limits: &Throttle) -> Result<()>;

    /// The limits that are in force.
    ///
    /// # Errors
    /// Somebody removed the group.
    fn limits(&self, disk: &str) -> Result<Throttle>;
}

/// What counts a group's CPU time.
pub(super) trait CpuTime: Debug + Send + Sync {
    fn is_there(&self) -> bool;

    /// CPU time so far; `None`: it does not count.
    ///
    /// # Errors
    /// Somebody removed the group.
    fn counted(&self) -> Result<Option<CpuTimes>>;
}

/// What one directory of a group can do.
#[derive(Debug, Default)]
pub(super) struct Controls {
    pub(super) memory: Option<Box<dyn MemoryControl>>,
    pub(super) io: Option<Box<dyn BlockIo>>,
    pub(super) cpu: Option<Box<dyn CpuTime>>,
}

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|cause| Error::on(Exit::Machine, "cannot read", path).because(cause))
}

/// The number in a file of one number; 0 where it is none.
pub(super) fn read_number(path: &Path) -> Result<u64> {
    Ok(read(path)?.trim().parse().unwrap_or(0))
}

/// Sets a limit on a disk by writing to a file of the group.
pub(super) fn set_limit(path: &Path, text: &str, disk: &str) -> Result<()> {
    fs::write(path, text).map_err(|cause| {
        let error = Error::on(Exit::Machine, "cannot write to", path).because(cause);
        error.hint(format!("is {disk} a disk? `lsblk` shows the numbers (tmpfs and overlays have none)"))
    })
}

/// Writes what makes the kernel evict.
pub(super) fn evict(path: &Path, text: &str) -> Result<()> {
    match fs::write(path, text) {
        Ok(()) => Ok(()),
        // It could not evict all of it: the caller looks at what is left.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) => Ok(()),
        Err(cause) => Err(Error::on(Exit::Machine, "cannot write to", path)
            .because(cause)
            .hint("this kernel cannot evict by control group (v2 needs Linux 5.19)")),
    }
}

/// The number behind a word at the start of a line, as in `memory.stat` and `cpu.stat`.
pub(super) fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

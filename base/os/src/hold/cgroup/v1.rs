//! Version 1: a group of its own in the hierarchy of each controller.

use super::control::{
    BlockIo, Controls, CpuTime, CpuTimes, DeviceIo, MemoryControl, MemoryStat, Throttle, Version, evict, read,
    read_number, set_limit, value,
};
use crate::proc::number::parse_dev;
use model::{Bytes, Nanos, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What the group in `dir` can do, whose hierarchy has these controllers.
pub(super) fn controls(dir: &Path, controllers: &[String]) -> Controls {
    let has = |controller: &str| controllers.iter().any(|name| name == controller);
    let mut controls = Controls::default();
    if has("memory") {
        controls.memory = Some(Box::new(Charged(dir.to_owned())));
    }
    if has("blkio") {
        count_io(dir);
        controls.io = Some(Box::new(Blkio(dir.to_owned())));
    }
    if has("cpuacct") {
        controls.cpu = Some(Box::new(Cpuacct(dir.to_owned())));
    }
    controls
}

/// A directory of the memory controller.
#[derive(Debug)]
struct Charged(PathBuf);

impl MemoryControl for Charged {
    fn version(&self) -> Version {
        Version::V1
    }

    fn stat(&self) -> Result<MemoryStat> {
        Ok(memory_stat(&read(&self.0.join("memory.stat"))?))
    }

    fn usage(&self) -> Result<u64> {
        read_number(&self.0.join("memory.usage_in_bytes"))
    }

    fn reclaim_once(&self) -> Result<()> {
        evict(&self.0.join("memory.force_empty"), "0")
    }
}

/// A directory of the controller of block I/O.
#[derive(Debug)]
struct Blkio(PathBuf);

const IOPS: &str = "blkio.throttle.read_iops_device";
const BPS: &str = "blkio.throttle.read_bps_device";

impl BlockIo for Blkio {
    fn counted(&self) -> Result<Vec<DeviceIo>> {
        Ok(io_from_blkio(
            &read(&self.0.join("blkio.throttle.io_service_bytes_recursive"))?,
            &read(&self.0.join("blkio.throttle.io_serviced_recursive"))?,
        ))
    }

    fn limit(&self, disk: &str, limits: &Throttle) -> Result<()> {
        let set = |file: &str, limit: Option<u64>| {
            set_limit(&self.0.join(file), &format!("{disk} {}", limit.unwrap_or(0)), disk)
        };
        set(IOPS, limits.iops)?;
        set(BPS, limits.bps.map(|bps| bps.0))
    }

    fn limits(&self, disk: &str) -> Result<Throttle> {
        let limit = |file: &str| Ok::<_, model::Error>(limit_of(&read(&self.0.join(file))?, disk));
        Ok(Throttle { iops: limit(IOPS)?, bps: limit(BPS)?.map(Bytes) })
    }
}

/// A directory of the controller that counts CPU time.
#[derive(Debug)]
struct Cpuacct(PathBuf);

impl CpuTime for Cpuacct {
    fn is_there(&self) -> bool {
        true
    }

    fn counted(&self) -> Result<Option<CpuTimes>> {
        let number = |file: &str| read_number(&self.0.join(file));
        let (total, user) = (number("cpuacct.usage")?, number("cpuacct.usage_user")?);
        Ok(Some(cpu_from_ticks(total, user, number("cpuacct.usage_sys")?)))
    }
}

/// Kernels from 6.10 on count a group's requests to a disk only once some limit was ever set on that disk.
/// "No limit" counts as one, so it is set for all disks; that is never seen again by anybody.
fn count_io(group: &Path) {
    let Ok(disks) = fs::read_dir("/sys/block") else { return };
    for disk in disks.flatten() {
        let text = |file: &str| fs::read_to_string(disk.path().join(file)).unwrap_or_default();
        if text("size").trim() != "0" {
            let _ = fs::write(group.join("blkio.throttle.read_bps_device"), format!("{} 0", text("dev").trim()));
        }
    }
}

fn memory_stat(text: &str) -> MemoryStat {
    let value = |name: &str| value(text, name).unwrap_or(0);
    MemoryStat {
        cache: value("total_cache").saturating_sub(value("total_shmem")),
        unwritten: value("total_dirty") + value("total_writeback"),
    }
}

/// The total is exact; the parts are sampled by the clock tick, so they only say how to divide it.
fn cpu_from_ticks(total: u64, user: u64, system: u64) -> CpuTimes {
    let share = if user + system == 0 { 0.0 } else { user as f64 / (user + system) as f64 };
    let user = ((total as f64 * share) as u64).min(total);
    CpuTimes { user: Nanos(user), system: Nanos(total - user), total: Nanos(total) }
}

fn io_from_blkio(bytes: &str, requests: &str) -> Vec<DeviceIo> {
    let mut all: BTreeMap<u64, DeviceIo> = BTreeMap::new();
    let mut take = |text: &str, set: fn(&mut DeviceIo, &str, u64)| {
        for line in text.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // "254:0 Read 8388608"; the last line, "Total 8388608", has no device.
            let &[dev, what, value] = &words[..] else { continue };
            let (Some(dev), Ok(value)) = (parse_dev(dev), value.parse()) else { continue };
            set(all.entry(dev).or_insert(DeviceIo { dev, ..DeviceIo::default() }), what, value);
        }
    };
    take(bytes, |io, what, value| match what {
        "Read" => io.read_bytes = Bytes(value),
        "Write" => io.written_bytes = Bytes(value),
        _ => {}
    });
    take(requests, |io, what, value| match what {
        "Read" => io.read_requests = value,
        "Write" => io.write_requests = value,
        _ => {}
    });
    all.into_values().collect()
}

/// `254:0 200` of a file that has a line for each disk with a limit.
fn limit_of(text: &str, disk: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(disk)?.trim().parse().ok()).filter(|limit| *limit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_io_is_read_by_device() {
        let bytes = "254:0 Read 8388608\n254:0 Write 4096\n254:0 Sync 8388608\n254:0 Total 8392704\n\
            7:1 Read 5\nTotal 8392709\n";
        let requests = "254:0 Read 4\n254:0 Write 1\n254:0 Discard 0\nTotal 5\n";
        let vda = DeviceIo {
            dev: rustix::fs::makedev(254, 0),
            read_bytes: Bytes(8388608),
            read_requests: 4,
            written_bytes: Bytes(4096),
            write_requests: 1,
        };
        let lo = DeviceIo { dev: rustix::fs::makedev(7, 1), read_bytes: Bytes(5), ..DeviceIo::default() };
        assert_eq!(io_from_blkio(bytes, requests), [lo, vda]);
        assert_eq!(io_from_blkio("Total 0\n", "Total 0\n"), []);
    }

    #[test]
    fn cpu_time_is_divided_by_ticks() {
        let times = CpuTimes { user: Nanos(750), system: Nanos(250), total: Nanos(1000) };
        assert_eq!(cpu_from_ticks(1000, 30, 10), times);
        assert_eq!(cpu_from_ticks(7, 0, 0).total, Nanos(7));
    }

    #[test]
    fn charged_cache_does_not_count_tmpfs() {
        let text = "cache 1\nshmem 1\ndirty 1\ntotal_cache 100\ntotal_shmem 40\ntotal_dirty 2\ntotal_writeback 3\n";
        assert_eq!(memory_stat(text), MemoryStat { cache: 60, unwritten: 5 });
    }

    #[test]
    fn limits_are_read_by_disk() {
        assert_eq!(limit_of("7:0 5\n254:0 200\n", "254:0"), Some(200));
        assert_eq!(limit_of("254:0 0\n", "254:0"), None);
    }
}

//! Version 2: one group with all controllers, in the unified hierarchy.

use super::control::{
    BlockIo, Controls, CpuTime, CpuTimes, DeviceIo, MemoryControl, MemoryStat, Throttle, Version, evict, read,
    read_number, set_limit, value,
};
use crate::proc::number::parse_dev;
use model::{Bytes, Nanos, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the group in `dir` can do, with the controllers that it turns out to have.
pub(super) fn controls(dir: &Path) -> Controls {
    enable_controllers(dir);
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_ascii_whitespace().any(|word| word == name);
    let unified = || Unified(dir.to_owned());
    let mut controls = Controls { cpu: Some(Box::new(unified())), ..Controls::default() };
    if has("memory") {
        controls.memory = Some(Box::new(unified()));
    }
    if has("io") {
        controls.io = Some(Box::new(unified()));
    }
    controls
}

/// The directory of the group, which holds the files of all controllers.
#[derive(Debug)]
struct Unified(PathBuf);

impl MemoryControl for Unified {
    fn version(&self) -> Version {
        Version::V2
    }

    fn stat(&self) -> Result<MemoryStat> {
        Ok(memory_stat(&read(&self.0.join("memory.stat"))?))
    }

    fn usage(&self) -> Result<u64> {
        read_number(&self.0.join("memory.current"))
    }

    fn reclaim_once(&self) -> Result<()> {
        evict(&self.0.join("memory.reclaim"), &self.usage()?.to_string())
    }
}

impl BlockIo for Unified {
    fn counted(&self) -> Result<Vec<DeviceIo>> {
        Ok(io_from_stat(&read(&self.0.join("io.stat"))?))
    }

    fn limit(&self, disk: &str, limits: &Throttle) -> Result<()> {
        let text = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
        let (iops, bps) = (text(limits.iops), text(limits.bps.map(|bps| bps.0)));
        set_limit(&self.0.join("io.max"), &format!("{disk} riops={iops} rbps={bps}"), disk)
    }

    fn limits(&self, disk: &str) -> Result<Throttle> {
        Ok(limits_of(&read(&self.0.join("io.max"))?, disk))
    }
}

impl CpuTime for Unified {
    fn is_there(&self) -> bool {
        self.0.join("cpu.stat").exists()
    }

    /// The unified hierarchy counts exactly also without a controller.
    fn counted(&self) -> Result<Option<CpuTimes>> {
        Ok(cpu_from_stat(&read(&self.0.join("cpu.stat"))?))
    }
}

/// Enables the controllers that a v2 group needs in its parent, as far as that is allowed. They stay enabled: nobody
/// is limited by that, and somebody else may have come to rely on it when we end.
fn enable_controllers(group: &Path) {
    let Some(parent) = group.parent() else { return };
    let words = |file: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(parent.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().map(str::to_owned).collect()
    };
    for name in words("cgroup.controllers").difference(&words("cgroup.subtree_control")) {
        if matches!(name.as_str(), "memory" | "io" | "cpu") {
            // A refusal (processes in the parent, not permitted) leaves the ability missing, and that is said.
            let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{name}"));
        }
    }
}

fn memory_stat(text: &str) -> MemoryStat {
    let value = |name: &str| value(text, name).unwrap_or(0);
    MemoryStat {
        cache: value("file").saturating_sub(value("shmem")),
        unwritten: value("file_dirty") + value("file_writeback"),
    }
}

fn cpu_from_stat(text: &str) -> Option<CpuTimes> {
    let time = |name: &str| value(text, name).map(|micros| Nanos(micros * 1000));
    Some(CpuTimes { user: time("user_usec")?, system: time("system_usec")?, total: time("usage_usec")? })
}

fn io_from_stat(text: &str) -> Vec<DeviceIo> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(dev) = words.next().and_then(parse_dev) else { continue };
        let mut io = DeviceIo { dev, ..DeviceIo::default() };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let value = value.parse().unwrap_or(0);
            match name {
                "rbytes" => io.read_bytes = Bytes(value),
                "wbytes" => io.written_bytes = Bytes(value),
                "rios" => io.read_requests = value,
                "wios" => io.write_requests = value,
                _ => {}
            }
        }
        all.push(io);
    }
    all
}

/// `254:0 rbps=max wbps=max riops=200 wiops=max`
fn limits_of(text: &str, disk: &str) -> Throttle {
    let line = text.lines().find_map(|line| line.strip_prefix(disk)?.strip_prefix(' '));
    let value =
        |name: &str| line.unwrap_or_default().split(' ').find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    Throttle { iops: value("riops="), bps: value("rbps=").map(Bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_io_is_read_by_device() {
        let text = "254:0 rbytes=8388608 wbytes=4096 rios=4 wios=1 dbytes=0 dios=0\n7:1 rbytes=5\n7:2 \n";
        let dev = rustix::fs::makedev;
        let vda = DeviceIo {
            dev: dev(254, 0),
            read_bytes: Bytes(8388608),
            read_requests: 4,
            written_bytes: Bytes(4096),
            write_requests: 1,
        };
        let lo = DeviceIo { dev: dev(7, 1), read_bytes: Bytes(5), ..DeviceIo::default() };
        let none = DeviceIo { dev: dev(7, 2), ..DeviceIo::default() };
        assert_eq!(io_from_stat(text), [vda, lo, none]);
    }

    #[test]
    fn cpu_time_is_read() {
        let text = "usage_usec 3585\nuser_usec 585\nsystem_usec 3000\nnice_usec 0\n";
        let times = CpuTimes { user: Nanos(585_000), system: Nanos(3_000_000), total: Nanos(3_585_000) };
        assert_eq!(cpu_from_stat(text), Some(times));
        assert_eq!(cpu_from_stat("nr_periods 0\n"), None);
    }

    #[test]
    fn charged_cache_does_not_count_tmpfs() {
        let text = "anon 9\nfile 100\nfile_mapped 7\nfile_dirty 2\nfile_writeback 0\nshmem 40\n";
        assert_eq!(memory_stat(text), MemoryStat { cache: 60, unwritten: 2 });
    }

    #[test]
    fn limits_are_read_by_disk() {
        let text = "7:0 rbps=1 wbps=max riops=2 wiops=max\n254:0 rbps=max wbps=max riops=200 wiops=max\n";
        assert_eq!(limits_of(text, "254:0"), Throttle { iops: Some(200), bps: None });
        assert_eq!(limits_of(text, "254:1"), Throttle::default());
    }
}

//! What a run used, and what everybody else used meanwhile: readings of counters at two moments, and their difference.

use model::{Bytes, Nanos};
use os::cgroup::RunCgroup;
use os::disk::Disk;
use os::process::MachineCpu;
use std::time::Duration;

/// Clock ticks of `/proc/stat` are 10 ms: a share of a shorter run than this would be a guess.
const SHORTEST_FOR_SHARES: Duration = Duration::from_millis(50);

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPU time of the run's group.
    pub cpu: Option<os::cgroup::CpuTimes>,
    /// Block I/O of the run's group, over all devices.
    pub io: Option<Io>,
    machine: Option<MachineCpu>,
    /// CPU time of thaw itself, all threads.
    thaw_ns: u64,
    /// Time in which any task of the machine waited for the disk, microseconds.
    machine_stall_us: Option<u64>,
    /// The same of the run's group, where the kernel tells (cgroup v2).
    group_stall_us: Option<u64>,
}

/// Block I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Io {
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Read requests.
    pub read_requests: u64,
    /// Bytes written.
    pub written_bytes: Bytes,
}

impl Reading {
    /// Reads everything that this machine tells.
    pub fn now(cgroup: Option<&RunCgroup>) -> Self {
        let stall = |pressure: os::pressure::Pressure| pressure.io.map(|io| io.some_us);
        Self {
            cpu: cgroup.and_then(|group| group.cpu().ok().flatten()),
            io: cgroup.and_then(|group| group.io().ok().flatten()).map(|devices| sum(&devices, Disk::below)),
            machine: os::process::machine_cpu(),
            thaw_ns: thaw_ns(),
            machine_stall_us: stall(os::pressure::machine()),
            group_stall_us: cgroup.and_then(RunCgroup::v2_path).and_then(|path| stall(os::pressure::of_cgroup(&path))),
            at_ns: os::spawn::monotonic_ns(),
        }
    }

    /// CPU time of the run between two readings: (user, system).
    pub fn cpu_since(&self, before: &Self) -> Option<(Nanos, Nanos)> {
        let (now, then) = (self.cpu?, before.cpu?);
        Some(split(now.total - then.total, now.user - then.user, now.system - then.system))
    }

    /// I/O of the run between two readings.
    pub fn io_since(&self, before: &Self) -> Option<Io> {
        let (now, then) = (self.io?, before.io?);
        Some(Io {
            read_bytes: now.read_bytes - then.read_bytes,
            read_requests: now.read_requests.saturating_sub(then.read_requests),
            written_bytes: now.written_bytes - then.written_bytes,
        })
    }

    /// CPU time that neither the run nor thaw used, as a share of all CPUs. Time stolen by the hypervisor is others'
    /// time. `None` for a run too short to tell.
    pub fn others_cpu_share(&self, before: &Self) -> Option<f64> {
        let wall = self.at_ns.checked_sub(before.at_ns)?;
        let (now, then) = (self.machine?, before.machine?);
        let run = self.cpu?.total - before.cpu?.total;
        if Duration::from_nanos(wall) < SHORTEST_FOR_SHARES || now.cpus == 0 {
            return None;
        }
        let busy = now.busy_ns.saturating_sub(then.busy_ns);
        let ours = run.0 + self.thaw_ns.saturating_sub(before.thaw_ns);
        let share = busy.saturating_sub(ours) as f64 / (f64::from(now.cpus) * wall as f64);
        Some(share.clamp(0.0, 1.0))
    }

    /// Share of the time in which others waited for the disk.
    ///
    /// The kernel tells it of the whole machine, and the run itself is part of that. Where it tells it of the run's
    /// group as well (cgroup v2), the difference is what others add: a lower bound, since both may wait at once. On v1
    /// it is only told of runs that moved nothing from or to a disk themselves, for then all the waiting was
    /// others'; of other runs nothing honest can be said.
    pub fn others_io_pressure(&self, before: &Self) -> Option<f64> {
        let wall_us = self.at_ns.checked_sub(before.at_ns)? / 1000;
        let machine = self.machine_stall_us?.saturating_sub(before.machine_stall_us?);
        if wall_us == 0 {
            return None;
        }
        let own = match (self.group_stall_us, before.group_stall_us) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ if self.io_since(before)? == Io::default() => 0,
            _ => return None,
        };
        Some((machine.saturating_sub(own) as f64 / wall_us as f64).clamp(0.0, 1.0))
    }
}

/// Splits an exact sum in the proportion of its coarse parts: some kernels count user and system time in clock ticks.
fn split(total: Nanos, user: Nanos, system: Nanos) -> (Nanos, Nanos) {
    let parts = user.0 + system.0;
    if parts == 0 {
        return (total, Nanos(0));
    }
    let user = (u128::from(total.0) * u128::from(user.0) / u128::from(parts)) as u64;
    (Nanos(user), Nanos(total.0 - user))
}

/// Adds devices up, each request once: at the device that the file system is on. What a device passes on (LVM, RAID,
/// encryption, a loop device) the kernel counts again below, so that is taken off there. A lower device may serve the
/// same bytes in fewer requests; then nothing of it counts, and the sum of requests is at least so much.
fn sum(devices: &[os::cgroup::DeviceIo], below: impl Fn(u64) -> Vec<u64>) -> Io {
    let passed_on_to = |dev: u64| {
        let above = devices.iter().filter(|above| above.dev != dev && below(above.dev).contains(&dev));
        above.fold(Io::default(), |sum, above| Io {
            read_bytes: sum.read_bytes + above.read_bytes,
            read_requests: sum.read_requests + above.read_requests,
            written_bytes: sum.written_bytes + above.written_bytes,
        })
    };
    devices.iter().fold(Io::default(), |sum, device| {
        let passed = passed_on_to(device.dev);
        let own = |all: Bytes, passed: Bytes| Bytes(all.0.saturating_sub(passed.0));
        Io {
            read_bytes: sum.read_bytes + own(device.read_bytes, passed.read_bytes),
            read_requests: sum.read_requests + device.read_requests.saturating_sub(passed.read_requests),
            written_bytes: sum.written_bytes + own(device.written_bytes, passed.written_bytes),
        }
    })
}

fn thaw_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::cgroup::CpuTimes;

    fn reading(at_ms: u64, busy_ms: u64, run_ms: u64, machine_stall_ms: u64, read_requests: u64) -> Reading {
        let ms = 1_000_000;
        Reading {
            at_ns: at_ms * ms,
            cpu: Some(CpuTimes { total: Nanos(run_ms * ms), ..CpuTimes::default() }),
            io: Some(Io { read_requests, ..Io::default() }),
            machine: Some(MachineCpu { busy_ns: busy_ms * ms, cpus: 2, ..MachineCpu::default() }),
            thaw_ns: 0,
            machine_stall_us: Some(machine_stall_ms * 1000),
            group_stall_us: None,
        }
    }

    #[test]
    fn what_the_run_did_not_use_is_others() {
        let (before, after) = (reading(0, 0, 0, 0, 0), reading(1000, 1500, 500, 0, 0));
        assert_eq!(after.others_cpu_share(&before), Some(0.5));
        let short = reading(10, 15, 5, 0, 0);
        assert_eq!(short.others_cpu_share(&before), None, "a tick is 10 ms");
        let rounding = reading(1000, 490, 500, 0, 0);
        assert_eq!(rounding.others_cpu_share(&before), Some(0.0));
    }

    #[test]
    fn thaws_own_time_is_nobody_elses() {
        let (before, mut after) = (reading(0, 0, 0, 0, 0), reading(1000, 1000, 500, 0, 0));
        after.thaw_ns = 500_000_000;
        assert_eq!(after.others_cpu_share(&before), Some(0.0));
    }

    #[test]
    fn waiting_is_others_only_where_that_can_be_known() {
        let before = reading(0, 0, 0, 0, 0);
        assert_eq!(reading(1000, 0, 0, 250, 0).others_io_pressure(&before), Some(0.25));
        assert_eq!(reading(1000, 0, 0, 250, 7).others_io_pressure(&before), None, "the run itself read");
        let (mut v2_before, mut v2_after) = (before, reading(1000, 0, 0, 250, 7));
        v2_before.group_stall_us = Some(0);
        v2_after.group_stall_us = Some(100_000);
        assert_eq!(v2_after.others_io_pressure(&v2_before), Some(0.15));
    }

    #[test]
    fn what_a_loop_device_reads_is_counted_once() {
        let device = |dev, megabytes: u64, read_requests| os::cgroup::DeviceIo {
            dev,
            read_bytes: Bytes(megabytes * 1_000_000),
            read_requests,
            ..os::cgroup::DeviceIo::default()
        };
        let (disk, looped, mapped) = (1, 7, 9);
        let below = |dev| if dev == looped || dev == mapped { vec![disk] } else { Vec::new() };
        let read = |devices: &[os::cgroup::DeviceIo]| {
            let sum = sum(devices, below);
            (sum.read_bytes.0 / 1_000_000, sum.read_requests)
        };
        assert_eq!(read(&[device(disk, 238, 400), device(looped, 238, 500)]), (238, 500));
        assert_eq!(
            read(&[device(disk, 240, 520), device(looped, 238, 500)]),
            (240, 520),
            "2 MB of the disk's own files"
        );
        assert_eq!(read(&[device(disk, 30, 30), device(looped, 10, 10), device(mapped, 20, 20)]), (30, 30));
        assert_eq!(read(&[device(disk, 5, 6)]), (5, 6));
    }

    #[test]
    fn an_exact_sum_is_split_like_its_coarse_parts() {
        assert_eq!(split(Nanos(1000), Nanos(10), Nanos(30)), (Nanos(250), Nanos(750)));
        assert_eq!(split(Nanos(1000), Nanos(0), Nanos(0)), (Nanos(1000), Nanos(0)));
    }
}

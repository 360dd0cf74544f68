//! CPU time of the whole machine: `/proc/stat`.

use super::stat::ticks_to_ns;

/// CPU time of the whole machine, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCpu {
    /// Nanoseconds that any CPU was busy, summed over CPUs.
    pub busy_ns: u64,
    /// Nanoseconds that CPUs were idle or waited for the disk.
    pub idle_ns: u64,
    /// Of the busy ones, those that the hypervisor gave to others.
    pub steal_ns: u64,
    /// How many CPUs are online.
    pub cpus: u32,
}

/// CPU time of the machine since boot; `None`: no `/proc/stat`.
pub fn machine_cpu() -> Option<MachineCpu> {
    parse_machine_cpu(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse_machine_cpu(text: &str) -> Option<MachineCpu> {
    let total = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = total.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks.as_slice() else { return None };
    let cpus = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
    Some(MachineCpu {
        busy_ns: ticks_to_ns(user + nice + system + irq + softirq + steal),
        idle_ns: ticks_to_ns(idle + iowait),
        steal_ns: ticks_to_ns(steal),
        cpus: cpus as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_the_machine_counts_guests_once_and_steal_as_busy() {
        let text = "cpu  100 10 50 1000 40 1 2 7 60 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n";
        let cpu = parse_machine_cpu(text).unwrap();
        assert_eq!(cpu.busy_ns, ticks_to_ns(170));
        assert_eq!((cpu.idle_ns, cpu.steal_ns, cpu.cpus), (ticks_to_ns(1040), ticks_to_ns(7), 2));
        assert_eq!(parse_machine_cpu("cpu  1 2 3\n"), None);
        assert_eq!(parse_machine_cpu("intr 5\n"), None);
    }
}

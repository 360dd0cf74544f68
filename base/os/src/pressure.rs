//! Pressure stall information: how long tasks waited for CPU, disk and memory.

use crate::proc::value::read_value;
use std::path::Path;

/// Totals since boot (or since the control group was made) in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stall {
    /// At least one task waited.
    pub some_us: u64,
    /// All tasks that were not idle waited. Always 0 for the CPU of the whole machine.
    pub full_us: u64,
}

/// The three resources; `None`: this kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Time that somebody waited for a CPU.
    pub cpu: Option<Stall>,
    /// Time that somebody waited for a disk.
    pub io: Option<Stall>,
    /// Time that somebody waited for memory to be freed.
    pub memory: Option<Stall>,
}

/// Of the whole machine.
pub fn machine() -> Pressure {
    let directory = Path::new("/proc/pressure");
    of(|resource| read_value(&directory.join(resource)))
}

/// Of a v2 control group, by its directory. All `None` on v1, which has no such files.
pub fn of_cgroup(directory: &Path) -> Pressure {
    of(|resource| read_value(&directory.join(format!("{resource}.pressure"))))
}

fn of(text: impl Fn(&str) -> Option<String>) -> Pressure {
    let stall = |resource| parse(&text(resource)?);
    Pressure { cpu: stall("cpu"), io: stall("io"), memory: stall("memory") }
}

/// `some avg10=0.57 avg60=0.23 avg300=0.18 total=4445056`, and the same with `full` (before 5.13 not for the CPU).
fn parse(text: &str) -> Option<Stall> {
    let total = |kind: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(kind))?;
        line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
    };
    Some(Stall { some_us: total("some")?, full_us: total("full").unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_averages_are_not() {
        let text = "some avg10=0.57 avg60=0.23 avg300=0.18 total=4445056\n\
            full avg10=0.57 avg60=0.23 avg300=0.18 total=4179036";
        assert_eq!(parse(text), Some(Stall { some_us: 4_445_056, full_us: 4_179_036 }));
        assert_eq!(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=5"), Some(Stall { some_us: 5, full_us: 0 }));
        assert_eq!(parse(""), None);
        assert_eq!(parse("some avg10=0.00"), None);
    }

    #[test]
    fn a_group_has_its_own_files_and_v1_has_none() {
        let group = tempfile::tempdir().unwrap();
        assert_eq!(of_cgroup(group.path()), Pressure::default());
        std::fs::write(group.path().join("io.pressure"), "some avg10=0 avg60=0 avg300=0 total=9\n").unwrap();
        let pressure = of_cgroup(group.path());
        assert_eq!(pressure.io, Some(Stall { some_us: 9, full_us: 0 }));
        assert_eq!(pressure.cpu, None);
    }

    #[test]
    fn the_machine_tells_or_has_no_such_folder() {
        let told = machine();
        if Path::new("/proc/pressure/io").exists() {
            let later = machine();
            assert!(later.io >= told.io && told.io.is_some());
        } else {
            assert_eq!(told, Pressure::default());
        }
    }
}

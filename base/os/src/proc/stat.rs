//! `/proc/PID/stat`: the state of a process and what it used.

/// `/proc/PID/stat`, the parts that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of the process or thread.
    pub pid: u32,
    /// Its name (at most 15 bytes; may hold blanks and parentheses).
    pub comm: String,
    /// `R`, `S`, `D`, `Z` ...
    pub state: char,
    /// The number of its parent.
    pub parent: u32,
    /// It runs no code of its program any more (`PF_EXITING`, or a zombie): its control group lists it no longer,
    /// although its state may be `R` for a moment.
    pub is_ending: bool,
    /// Start, in clock ticks since boot: together with the number it names a process for good.
    pub start_ticks: u64,
    /// CPU time in user mode, clock ticks; see [`ticks_to_ns`].
    pub user_ticks: u64,
    /// CPU time in the kernel, clock ticks.
    pub system_ticks: u64,
    /// Page faults that waited for no disk, children apart.
    pub minor_faults: u64,
    /// Page faults that waited for a disk, children apart.
    pub major_faults: u64,
    /// The CPU that it ran on last, by number.
    pub last_cpu: Option<u32>,
}

/// Parses the text of a `stat` file; `None`: it is not one.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses, and may hold more of them: only the last closing one ends it.
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest: Vec<&str> = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace().collect();
    // proc(5) counts from 1 and `rest` begins with field 3.
    let field = |number: usize| rest.get(number - 3).copied();
    const PF_EXITING: u32 = 4; // include/linux/sched.h
    let state = field(3)?.chars().next()?;
    Some(Stat {
        pid,
        comm,
        state,
        is_ending: matches!(state, 'Z' | 'X') || field(9)?.parse::<u32>().ok()? & PF_EXITING != 0,
        parent: field(4)?.parse().ok()?,
        user_ticks: field(14)?.parse().ok()?,
        system_ticks: field(15)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        minor_faults: field(10)?.parse().ok()?,
        major_faults: field(12)?.parse().ok()?,
        last_cpu: field(39).and_then(|cpu| cpu.parse().ok()),
    })
}

/// What a process is and used; `None`: it is gone.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The same of one thread; `None`: it is gone.
pub fn thread_stat(pid: u32, tid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// Start in clock ticks since boot; `None`: it is gone.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.start_ticks)
}

/// Clock ticks (10 ms on every machine of today) as nanoseconds.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let text = b"42 (a) b (c) S 7 42 42 0 -1 4194304 1 0 0 0 11 12 0 0 20 0 1 0 9876 1 2 3\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.pid, stat.comm.as_str(), stat.state, stat.parent), (42, "a) b (c", 'S', 7));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.start_ticks), (11, 12, 9876));
        assert!(!stat.is_ending);
        assert_eq!((stat.minor_faults, stat.major_faults, stat.last_cpu), (1, 0, None), "cut off behind the start");
        assert!(parse_stat(b"42 (a) R 7 42 42 0 -1 4194308 1 0 0 0 11 12 0 0 20 0 1 0 9876 1\n").unwrap().is_ending);
        assert_eq!(parse_stat(b"42 (a S 7"), None);
        assert_eq!(parse_stat(b"42 )a( S 7"), None);
        assert_eq!(parse_stat(b"42 (a) S 7 1 2"), None, "cut off");
    }

    #[test]
    fn faults_and_the_last_cpu_are_told() {
        let text = b"42 (a) S 7 42 42 0 -1 4194304 101 102 103 104 11 12 0 0 20 0 1 0 9876 \
            23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 17 3 40 41\n";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.minor_faults, stat.major_faults, stat.last_cpu), (101, 103, Some(3)));
        let me = std::process::id();
        assert_eq!(thread_stat(me, me).unwrap().comm, super::stat(me).unwrap().comm);
        assert_eq!(thread_stat(me, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            parse_stat(&text);
        }

        #[test]
        fn any_name_is_read_back(name in "[^\n]{0,15}", pid in 1u32.., parent: u32, ticks: u32) {
            let text = format!("{pid} ({name}) R {parent} 1 1 0 -1 0 1 0 0 0 3 4 0 0 20 0 1 0 {ticks} 1");
            let stat = parse_stat(text.as_bytes()).unwrap();
            prop_assert_eq!((stat.pid, stat.parent), (pid, parent));
            prop_assert_eq!((stat.comm, stat.start_ticks), (name, u64::from(ticks)));
        }
    }
}

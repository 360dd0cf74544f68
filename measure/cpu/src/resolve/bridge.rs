//! Changes of a CPU that the kernel did not tell, where they can be concluded. Pure.
//!
//! Some kernels were seen (Linux 6.18 in a virtual machine, claims/why) to leave out changes of an idle CPU to a
//! thread: the CPU went idle, and its next record says that it leaves a thread. If that thread was woken meanwhile and
//! was on no CPU, it has run since: an idle CPU that a thread is woken for takes it within microseconds.

use crate::trace::{Switch, Trace, Went};
use model::Nanos;
use std::collections::HashMap;

/// A thread can be woken for a CPU that is about to go idle, by at most this before it does.
const RACE: Nanos = Nanos(100_000);

/// Adds the changes that can be concluded; what is missing is less by them.
pub fn bridge(trace: &mut Trace) {
    let found = concluded(trace);
    if found.is_empty() {
        return;
    }
    let count = found.len() as u64;
    trace.lost_switches = trace.lost_switches.saturating_sub(count);
    trace.cannot.push(format!(
        "when exactly {count} times a CPU that had been idle took a thread: the kernel did not tell, and the moment of \
         the wake is taken"
    ));
    trace.switches.extend(found);
    trace.switches.sort_by_key(|switch| switch.at);
}

fn concluded(trace: &Trace) -> Vec<Switch> {
    let mut wakes: HashMap<u32, Vec<Nanos>> = HashMap::new();
    trace.wakes.iter().for_each(|wake| wakes.entry(wake.woken).or_default().push(wake.at));
    let mut found = Vec::new();
    let mut of_cpu: HashMap<u32, &Switch> = HashMap::new();
    // When a record spoke of a thread last.
    let mut seen: HashMap<u32, Nanos> = HashMap::new();
    for switch in &trace.switches {
        if let Some(before) = of_cpu.insert(switch.cpu, switch).filter(|before| before.to == 0 && switch.from != 0) {
            let own = wakes.get(&switch.from).map_or(&[][..], Vec::as_slice);
            let woken = own[..own.partition_point(|at| *at < switch.at)].last().copied();
            let is_fresh =
                |at: &Nanos| *at + RACE >= before.at && seen.get(&switch.from).is_none_or(|last| *last <= *at);
            if let Some(woken) = woken.filter(is_fresh) {
                let at = woken.max(before.at);
                found.push(Switch {
                    at,
                    cpu: switch.cpu,
                    from: 0,
                    went: Went::Preempted,
                    to: switch.from,
                    stack: None,
                });
            }
        }
        seen.insert(switch.from, switch.at);
        seen.insert(switch.to, switch.at);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Wake, Waker};

    fn trace(switches: &[(u64, u32, u32, u32)], wakes: &[(u64, u32)]) -> Trace {
        let switch = |(at, cpu, from, to): &(u64, u32, u32, u32)| Switch {
            at: Nanos(at * 1_000_000),
            cpu: *cpu,
            from: *from,
            went: Went::Asleep,
            to: *to,
            stack: None,
        };
        let wake = |(at, woken): &(u64, u32)| Wake {
            at: Nanos(at * 1_000_000),
            by: Waker::Interrupt,
            woken: *woken,
            new: false,
            stack: None,
        };
        Trace {
            switches: switches.iter().map(switch).collect(),
            wakes: wakes.iter().map(wake).collect(),
            lost_switches: 3,
            ..Trace::default()
        }
    }

    fn bridged(switches: &[(u64, u32, u32, u32)], wakes: &[(u64, u32)]) -> (Vec<(u64, u32, u32)>, u64) {
        let mut trace = trace(switches, wakes);
        bridge(&mut trace);
        let changes = trace.switches.iter().map(|it| (it.at.0 / 1_000_000, it.from, it.to)).collect();
        (changes, trace.lost_switches)
    }

    #[test]
    fn a_thread_that_was_woken_for_an_idle_cpu_has_run_since() {
        let (changes, lost) = bridged(&[(1, 0, 7, 0), (9, 0, 8, 0)], &[(4, 8)]);
        assert_eq!((changes, lost), (vec![(1, 7, 0), (4, 0, 8), (9, 8, 0)], 2));
    }

    #[test]
    fn what_nothing_says_is_not_concluded() {
        let same = |switches: &[(u64, u32, u32, u32)], wakes: &[(u64, u32)]| {
            let (changes, lost) = bridged(switches, wakes);
            assert_eq!((changes.len(), lost), (switches.len(), 3), "{switches:?} {wakes:?}");
        };
        // No wake; one before the CPU went idle; one behind; the CPU was not idle; it ran on another CPU since.
        same(&[(1, 0, 7, 0), (9, 0, 8, 0)], &[]);
        same(&[(3, 0, 7, 0), (9, 0, 8, 0)], &[(1, 8)]);
        same(&[(1, 0, 7, 0), (9, 0, 8, 0)], &[(10, 8)]);
        same(&[(1, 0, 7, 6), (9, 0, 8, 0)], &[(4, 8)]);
        same(&[(1, 0, 7, 0), (5, 1, 0, 8), (6, 1, 8, 0), (9, 0, 8, 0)], &[(4, 8)]);
        // Nothing is missing.
        same(&[(1, 0, 7, 0), (4, 0, 0, 8), (9, 0, 8, 0)], &[(4, 8)]);
    }
}

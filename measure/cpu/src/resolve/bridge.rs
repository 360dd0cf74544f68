//! Changes of a CPU that the kernel did not tell, where they can be concluded. Pure.
//!
//! Some kernels were seen (Linux 6.18 in a virtual machine, claims/why) to leave out changes of an idle CPU to a
//! thread: the CPU went idle, and then it leaves a thread, or the clock finds it at one. If that thread was woken
//! meanwhile and was on no CPU, it has run since: an idle CPU that a thread is woken for takes it within microseconds.
//! A thread that another CPU took back and that an idle one took later is woken by nobody: there only the clock tells,
//! and it ran at most a tick before.

use crate::raw::{RawSample, Tick};
use crate::trace::{Switch, Trace, Went};
use model::Nanos;
use std::collections::HashMap;

/// A thread can be woken for a CPU that is about to go idle, by at most this before it does.
const RACE: Nanos = Nanos(100_000);

/// Adds the changes that can be concluded; what is missing is less by them. The samples lie by time.
pub fn bridge(trace: &mut Trace, samples: &[&RawSample]) {
    let found = concluded(trace, samples);
    if found.is_empty() {
        return;
    }
    let count = found.len() as u64;
    trace.lost_switches = trace.lost_switches.saturating_sub(count);
    trace.cannot.push(format!(
        "when exactly {count} times a CPU that had been idle took a thread: the kernel did not tell, and the moment of \
         the wake is taken, or a tick before the first sample"
    ));
    trace.switches.extend(found);
    trace.switches.sort_by_key(|switch| switch.at);
}

/// What is known of the CPUs and threads up to a record.
struct Known {
    /// So far apart are the samples of a thread that runs.
    tick: Nanos,
    /// All wakes of a thread, by time.
    wakes: HashMap<u32, Vec<Nanos>>,
    /// Since when CPUs are idle that are.
    idle: HashMap<u32, Nanos>,
    /// When a record spoke of a thread last, and whether it was taken from its CPU then.
    seen: HashMap<u32, (Nanos, bool)>,
}

fn concluded(trace: &Trace, samples: &[&RawSample]) -> Vec<Switch> {
    let mut wakes: HashMap<u32, Vec<Nanos>> = HashMap::new();
    trace.wakes.iter().for_each(|wake| wakes.entry(wake.woken).or_default().push(wake.at));
    let mut known = Known { tick: trace.tick, wakes, idle: HashMap::new(), seen: HashMap::new() };
    let mut found = Vec::new();
    let mut ticks = samples.iter().filter(|sample| sample.tick == Tick::Clock).peekable();
    for switch in &trace.switches {
        while let Some(tick) = ticks.next_if(|tick| tick.at < switch.at) {
            found.extend(known.took(tick.cpu, tick.tid, tick.at, true));
        }
        found.extend(known.took(switch.cpu, switch.from, switch.at, false));
        match switch.to {
            0 => known.idle.insert(switch.cpu, switch.at),
            _ => known.idle.remove(&switch.cpu),
        };
        known.seen.insert(switch.from, (switch.at, switch.went == Went::Preempted));
        known.seen.insert(switch.to, (switch.at, false));
    }
    found.extend(ticks.filter_map(|tick| known.took(tick.cpu, tick.tid, tick.at, true)));
    found
}

impl Known {
    /// The CPU is at this thread: if it is said to be idle, it has taken the thread since.
    fn took(&mut self, cpu: u32, tid: u32, at: Nanos, ticked: bool) -> Option<Switch> {
        let idle = *self.idle.get(&cpu).filter(|_| tid != 0)?;
        let own = self.wakes.get(&tid).map_or(&[][..], Vec::as_slice);
        let woken = own[..own.partition_point(|wake| *wake < at)].last().copied();
        let seen = self.seen.get(&tid).copied();
        let is_fresh = |wake: &Nanos| *wake + RACE >= idle && seen.is_none_or(|(last, _)| last <= *wake);
        let since = match (woken.filter(is_fresh), seen) {
            (Some(woken), _) => woken,
            (None, Some((last, true))) if ticked => last.max(Nanos(at.0.saturating_sub(self.tick.0))),
            _ => return None,
        };
        let at = since.max(idle);
        self.idle.remove(&cpu);
        self.seen.insert(tid, (at, false));
        Some(Switch { at, cpu, from: 0, went: Went::Preempted, to: tid, stack: None })
    }
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
        changes(trace(switches, wakes), &[])
    }

    /// With samples of a thread: moment, CPU, thread.
    fn changes(mut trace: Trace, ticks: &[(u64, u32, u32)]) -> (Vec<(u64, u32, u32)>, u64) {
        let sample = |&(at, cpu, tid): &(u64, u32, u32)| RawSample {
            at: Nanos(at * 1_000_000),
            pid: tid,
            tid,
            cpu,
            tick: Tick::Clock,
            kernel: Vec::new(),
            user: None,
        };
        let samples: Vec<RawSample> = ticks.iter().map(sample).collect();
        bridge(&mut trace, &samples.iter().collect::<Vec<_>>());
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

    #[test]
    fn a_thread_that_an_idle_cpu_took_from_another_runs_where_the_clock_finds_it() {
        let of = |went, ticks: &[(u64, u32, u32)]| {
            // CPU 1 goes idle; CPU 0 goes over from thread 8 to 9.
            let mut trace = trace(&[(2, 1, 7, 0), (5, 0, 8, 9)], &[]);
            trace.switches[1].went = went;
            trace.tick = Nanos(1_000_000);
            changes(trace, ticks)
        };
        let own = [(2, 7, 0), (5, 8, 9)];
        let ticks = [(11, 1, 8), (12, 1, 8), (13, 1, 8)];
        assert_eq!(of(Went::Preempted, &ticks), ([&own[..], &[(10, 0, 8)]].concat(), 2));
        // Within the first tick: it cannot have run before it was taken from its CPU.
        assert_eq!(of(Went::Preempted, &[(5, 1, 8)]).0, [&own[..], &[(5, 0, 8)]].concat());
        // It slept, and nothing woke it; the CPU is not idle; no sample.
        assert_eq!(of(Went::Asleep, &ticks), (own.to_vec(), 3));
        assert_eq!(of(Went::Preempted, &[(11, 0, 8)]), (own.to_vec(), 3));
        assert_eq!(of(Went::Preempted, &[]), (own.to_vec(), 3));
    }

    #[test]
    fn a_woken_thread_that_never_leaves_its_cpu_runs_where_the_clock_finds_it() {
        let (changes, lost) = changes(trace(&[(1, 0, 7, 0)], &[(4, 8)]), &[(9, 0, 8), (10, 0, 8)]);
        assert_eq!((changes, lost), (vec![(1, 7, 0), (4, 0, 8)], 2));
    }
}

//! Which thread made a start ready. Pure.
//!
//! thaw waits for the sign of readiness, so whoever woke thaw gave it: the path back to exec begins with thaw's own
//! thread, goes over to an X server or a shell that passed the sign on, and from there to the program. A probe that
//! looks from time to time is woken by a timer, which says nothing of the program.

use crate::trace::{Trace, Waker};
use model::Nanos;
use std::collections::HashSet;

/// Who waits for a CPU for longer than this share of the start after it was woken may have been woken by something
/// before the sign, and see the sign only then.
const LATE_SHARE: u64 = 50;

/// So many programs may pass the sign on.
const MOST_BETWEEN: usize = 4;

/// Takes down with which thread the way back begins, by the one that waited for readiness; what is guessed is said.
pub fn noticed_by(trace: &mut Trace, observer: u32) {
    let (first, is_known) = ready_by(trace, observer);
    trace.ready_by = first;
    if !is_known {
        trace.cannot.push(GUESSED.to_owned());
    }
}

/// What a trace says that has no such thread.
const GUESSED: &str = "which thread made it ready (it was looked at from time to time, or thaw had no CPU when the \
                           sign came): the way back begins with the thread that ran last";

/// The thread that the way back begins with: `observer`, a thread outside of the tree that waited for readiness, if
/// the tree woke it; else the thread of the tree that ran last, and the second value is `false`.
fn ready_by(trace: &Trace, observer: u32) -> (Option<u32>, bool) {
    let of_tree: HashSet<u32> = trace.threads.iter().filter(|it| it.of_tree).map(|it| it.tid).collect();
    if let Some(tid) = ran_while_it_had_no_cpu(trace, observer, &of_tree) {
        return (Some(tid), false);
    }
    let (mut tid, mut at) = (observer, trace.ready);
    for _ in 0..=MOST_BETWEEN {
        let Some(waker) = woken_by(trace, tid, at) else { break };
        if of_tree.contains(&waker.0) {
            return (Some(observer), true);
        }
        (tid, at) = waker;
    }
    (ran_last(trace, Nanos(0), trace.ready, &of_tree), false)
}

/// The thread of the tree that ran last between two moments.
fn ran_last(trace: &Trace, from: Nanos, to: Nanos, of_tree: &HashSet<u32>) -> Option<u32> {
    let ran = trace.switches.iter().filter(|switch| from < switch.at && switch.at <= to);
    ran.flat_map(|switch| [switch.from, switch.to]).rfind(|tid| of_tree.contains(tid))
}

/// The observer was woken early (a line before the sign), and got its CPU late: the thread of the tree that went on
/// meanwhile, for it may have given the sign. `None`: it was not so.
fn ran_while_it_had_no_cpu(trace: &Trace, observer: u32, of_tree: &HashSet<u32>) -> Option<u32> {
    let (_, woken) = woken_by(trace, observer, trace.ready)?;
    let behind = trace.switches.partition_point(|switch| switch.at <= trace.ready);
    let got = trace.switches[..behind].iter().rev().find(|switch| switch.to == observer)?.at;
    (got > woken && (got - woken).0 > trace.ready.0 / LATE_SHARE)
        .then(|| ran_last(trace, woken, got, of_tree))
        .flatten()
}

/// The thread outside of the tree that waited for readiness, where the way back begins with it.
pub(crate) fn observer(trace: &Trace) -> Option<u32> {
    let is_of_tree = |tid: &u32| trace.threads.iter().any(|thread| thread.tid == *tid && thread.of_tree);
    trace.ready_by.filter(|tid| *tid != trace.root && !is_of_tree(tid))
}

/// The thread that woke this one last, and when; `None`: an interrupt did, or nothing.
fn woken_by(trace: &Trace, tid: u32, until: Nanos) -> Option<(u32, Nanos)> {
    let behind = trace.wakes.partition_point(|wake| wake.at <= until);
    let wake = trace.wakes[..behind].iter().rev().find(|wake| wake.woken == tid)?;
    match wake.by {
        Waker::Thread(by) if by != 0 => Some((by, wake.at)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Switch, Thread, Wake, Went};

    fn trace(wakes: &[(u64, Waker, u32)]) -> Trace {
        let thread = |tid, of_tree| Thread {
            tid,
            pid: tid,
            name: String::new(),
            of_tree,
            made_by: None,
            start: Nanos(0),
            end: None,
        };
        let wake = |(at, by, woken): &(u64, Waker, u32)| Wake {
            at: Nanos(*at),
            by: *by,
            woken: *woken,
            new: false,
            stack: None,
        };
        let switch = |at, from, to| Switch { at: Nanos(at), cpu: 0, from, went: Went::Asleep, to, stack: None };
        Trace {
            root: 10,
            ready: Nanos(100),
            threads: vec![thread(10, true), thread(11, true), thread(5, false), thread(7, false)],
            switches: vec![switch(10, 0, 10), switch(60, 10, 11), switch(90, 11, 0), switch(110, 0, 10)],
            wakes: wakes.iter().map(wake).collect(),
            ..Trace::default()
        }
    }

    /// thaw is thread 5, another program 7, the program 10 and 11.
    #[test]
    fn whoever_woke_thaw_made_it_ready_also_through_another_program() {
        let by = Waker::Thread;
        assert_eq!(ready_by(&trace(&[(95, by(10), 5)]), 5), (Some(5), true));
        assert_eq!(ready_by(&trace(&[(80, by(11), 7), (95, by(7), 5)]), 5), (Some(5), true));
        assert_eq!(ready_by(&trace(&[(95, by(10), 5), (105, Waker::Interrupt, 5)]), 5), (Some(5), true), "too late");
    }

    #[test]
    fn whoever_ran_while_thaw_had_no_cpu_may_have_given_the_sign() {
        let by = Waker::Thread;
        let mut late = trace(&[(20, by(10), 5)]);
        let took = |at| Switch { at: Nanos(at), cpu: 1, from: 0, went: Went::Preempted, to: 5, stack: None };
        late.switches.insert(3, took(95));
        assert_eq!(ready_by(&late, 5), (Some(11), false), "10 gave an earlier one, 11 went on");
        let mut soon = trace(&[(94, by(11), 5)]);
        soon.switches.insert(3, took(95));
        assert_eq!(ready_by(&soon, 5), (Some(5), true));
        // Nobody of the tree ran in between: whoever woke it gave the sign.
        let mut alone = trace(&[(91, by(11), 5)]);
        alone.switches.insert(3, took(99));
        assert_eq!(ready_by(&alone, 5), (Some(5), true));
    }

    #[test]
    fn a_look_from_time_to_time_says_nothing_and_the_thread_that_ran_last_is_taken() {
        for wakes in [&[(95, Waker::Interrupt, 5)][..], &[], &[(95, Waker::Thread(7), 5)]] {
            assert_eq!(ready_by(&trace(wakes), 5), (Some(11), false));
        }
        // Two programs that wake each other do not hold us up.
        let round = [(80, Waker::Thread(5), 7), (80, Waker::Thread(7), 5)];
        assert_eq!(ready_by(&trace(&round), 5), (Some(11), false));
    }
}

//! Several starts of one program together. Pure.
//!
//! Each start is sampled at another phase, so what many starts say is finer than what one says. Times are means over
//! all starts, those without an owner among them as 0: so they still add up to the mean time until ready.

use crate::path::Ran;
use crate::phase::Phase;
use crate::report::{Confidence, Does, Owner, Report, Taker, ThreadName};
use crate::words;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Whose time it is, over all starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// What it does.
    pub what: Does,
    /// Name of the thread that does it.
    pub thread: String,
    /// In which part of the start; `None`: nothing tells, or there is none.
    pub phase: Option<Phase>,
    /// Who had the CPU, where others had it: means, longest first.
    pub takers: Vec<Taker>,
    /// How long, in nanoseconds: the mean.
    pub ns: u64,
    /// Of the mean time until ready, 0 to 1.
    pub share: f64,
    /// How long at least, at 95 %: by what differs from start to start (a t interval of the mean), or, of a single
    /// start, by its samples. `None`: a single start in which it is measured.
    pub low_ns: Option<u64>,
    /// How long at most.
    pub high_ns: Option<u64>,
    /// In how many starts it was seen.
    pub starts: u32,
    /// So many samples say so.
    pub samples: u64,
    /// How it is known: as where it is known least.
    pub confidence: Confidence,
    /// For people.
    pub text: String,
}

/// What is the same in several starts: numbers of threads and lines of samples are not.
pub(crate) type Kind = (Does, Option<Phase>, String);

pub(crate) fn kind(owner: &Owner) -> Kind {
    alike(&owner.what, owner.phase.as_ref(), &owner.thread.name)
}

fn alike(what: &Does, phase: Option<&Phase>, thread: &str) -> Kind {
    let what = match what.key() {
        Does::Cpu { ran: Ran::Thread(_), name } => Does::Cpu { ran: Ran::Thread(0), name },
        what => what,
    };
    (what, phase.cloned().filter(|phase| *phase != Phase::Main), thread.to_owned())
}

impl Shared {
    /// Whether an owner of one start is this one.
    pub fn is_of(&self, owner: &Owner) -> bool {
        alike(&self.what, self.phase.as_ref(), &self.thread) == kind(owner)
    }
}

/// Who took CPUs in several starts, each with the mean over so many.
fn takers(owners: &[(usize, &Owner)], starts: usize) -> Vec<Taker> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for taker in owners.iter().flat_map(|(_, owner)| &owner.takers) {
        *sums.entry(&taker.name).or_default() += taker.ns;
    }
    let mean = |(name, sum): (&str, u64)| Taker { name: name.to_owned(), ns: mean(sum, starts) };
    let mut takers: Vec<Taker> = sums.into_iter().map(mean).collect();
    takers.sort_by_key(|taker| Reverse(taker.ns));
    takers
}

fn mean(sum: u64, starts: usize) -> u64 {
    (sum as f64 / starts as f64).round() as u64
}

/// The owners of all these starts: longest first.
pub fn together(starts: &[Report]) -> Vec<Shared> {
    let mut by_kind: BTreeMap<Kind, Vec<(usize, &Owner)>> = BTreeMap::new();
    for (index, start) in starts.iter().enumerate() {
        for owner in &start.owners {
            by_kind.entry(kind(owner)).or_default().push((index, owner));
        }
    }
    let ready: u64 = starts.iter().map(|start| start.ready_ns).sum();
    let mut shared: Vec<Shared> =
        by_kind.into_iter().map(|(kind, owners)| of_kind(kind, &owners, starts.len(), ready)).collect();
    shared.sort_by_key(|it| (Reverse(it.ns), it.what.clone(), it.phase.clone(), it.thread.clone()));
    shared
}

fn of_kind((what, _, thread): Kind, owners: &[(usize, &Owner)], starts: usize, ready: u64) -> Shared {
    let mut times = vec![0.0; starts];
    owners.iter().for_each(|(start, owner)| times[*start] += owner.ns as f64);
    let sum: u64 = owners.iter().map(|(_, owner)| owner.ns).sum();
    let (low_ns, high_ns) = match owners {
        [(_, owner)] if starts == 1 => (owner.low_ns, owner.high_ns),
        _ => {
            // Of two starts it would be wider than what it is about.
            let interval = stats::mean_of_positive(&times).interval.filter(|_| starts > 2);
            let end = |end: f64| Some(end.max(0.0).round() as u64);
            interval.map_or((None, None), |it| (end(it.low), end(it.high)))
        }
    };
    let mut seen: Vec<usize> = owners.iter().map(|(start, _)| *start).collect();
    seen.dedup();
    let first = owners[0].1;
    // A line of source is told where it is that of all.
    let is_exact = owners.iter().all(|(_, owner)| owner.what == first.what);
    let example = Owner {
        what: if is_exact { first.what.clone() } else { what },
        thread: ThreadName { name: thread, pid: 0, tid: 0 },
        phase: owners.iter().find_map(|(_, owner)| owner.phase.clone()),
        takers: takers(owners, starts),
        ns: mean(sum, starts),
        text: String::new(),
        ..first.clone()
    };
    Shared {
        text: words::owner(&example),
        what: example.what,
        thread: example.thread.name,
        phase: example.phase,
        takers: example.takers,
        ns: example.ns,
        share: if ready == 0 { 0.0 } else { sum as f64 / ready as f64 },
        low_ns,
        high_ns,
        starts: seen.len() as u32,
        samples: owners.iter().map(|(_, owner)| owner.samples).sum(),
        confidence: owners.iter().map(|(_, owner)| owner.confidence).max().unwrap_or(Confidence::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::Kind as Wait;

    fn owner(what: Does, tid: u32, ns: u64) -> Owner {
        Owner {
            what,
            thread: ThreadName { name: "app".into(), pid: tid, tid },
            phase: None,
            takers: Vec::new(),
            ns,
            share: 0.0,
            pieces: 1,
            samples: 3,
            low_ns: Some(ns / 2),
            high_ns: Some(ns * 2),
            confidence: Confidence::Measured,
            text: String::new(),
        }
    }

    fn start(owners: Vec<Owner>) -> Report {
        Report {
            version: Report::VERSION,
            ready_ns: owners.iter().map(|owner| owner.ns).sum(),
            explained_share: 1.0,
            owners,
            ..Report::default()
        }
    }

    #[test]
    fn owners_are_the_same_whatever_their_numbers_and_add_up_to_the_mean_start() {
        let sleeps = Does::Waits { kind: Wait::Sleep, call: None, function: None, callers: Vec::new() };
        let cpu = |tid| Does::Cpu { ran: Ran::Thread(tid), name: "own".into() };
        let starts = [
            start(vec![owner(sleeps.clone(), 10, 80_000_000), owner(cpu(7), 10, 4_000_000)]),
            start(vec![owner(sleeps.clone(), 20, 82_000_000), owner(cpu(8), 20, 6_000_000)]),
            start(vec![owner(sleeps, 30, 81_000_000)]),
        ];
        let shared = together(&starts);
        assert_eq!(shared.len(), 2);
        let [sleeps, cpu] = &shared[..] else { panic!("{shared:?}") };
        assert_eq!((sleeps.ns, sleeps.starts, sleeps.samples), (81_000_000, 3, 9));
        assert!(sleeps.low_ns.unwrap() < 81_000_000 && sleeps.high_ns.unwrap() > 81_000_000, "{sleeps:?}");
        assert_eq!(sleeps.text, "sleeps 81.0 ms");
        assert_eq!((cpu.ns, cpu.starts), (3_333_333, 2), "0 where it was not");
        let mean: u64 = starts.iter().map(|start| start.ready_ns).sum::<u64>() / 3;
        assert!(sleeps.ns.abs_diff(mean - cpu.ns) <= 1);
        assert!((shared.iter().map(|it| it.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn takers_are_means_and_a_line_is_told_where_all_starts_have_the_same() {
        let taken = |tid, stress| {
            let taker = |name: &str, ns| Taker { name: name.into(), ns };
            let takers = vec![taker("stress", stress), taker("ld", 1_000_000)];
            Owner { takers, ..owner(Does::CpuOfOthers, tid, stress + 1_000_000) }
        };
        let asks = |line: u32| {
            let source = Some(format!("app.c:{line}"));
            let caller = Some(crate::Caller { function: "spin".into(), object: "app".into(), source });
            owner(Does::Kernel { request: None, caller }, 10, 100)
        };
        let starts = [start(vec![taken(10, 4_000_000), asks(7)]), start(vec![taken(20, 8_000_000), asks(7)])];
        let shared = together(&starts);
        let text = "waits for a CPU 7.0 ms, which other programs took (stress 6.0 ms, ld 1.0 ms)";
        assert_eq!((shared.len(), &shared[0].text[..]), (2, text));
        assert_eq!(shared[1].text, "runs 100 ns in the kernel, called by spin (app.c:7)");
        let shared = together(&[start(vec![asks(7)]), start(vec![asks(8)])]);
        assert_eq!((shared.len(), &shared[0].text[..]), (1, "runs 100 ns in the kernel, called by spin"));
    }

    #[test]
    fn a_single_start_has_the_interval_of_its_samples() {
        let shared = together(&[start(vec![owner(Does::Runs, 10, 10)])]);
        assert_eq!((shared[0].low_ns, shared[0].high_ns), (Some(5), Some(20)));
    }
}

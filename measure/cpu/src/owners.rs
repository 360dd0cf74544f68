//! Who owns the path, added up: waits by what they are for, running time by the functions that samples name. Pure.
//!
//! How long a thread ran is measured; in which function is known by samples, with Wilson's interval for the share of
//! the thread's time on the path that each function has.

use crate::callers;
use crate::cuts::{self, Cutter, Seen};
use crate::path::{Ran, Step, Whose};
use crate::phase::{self, Phase};
use crate::ready;
use crate::report::{Confidence, Does, ObjectRow, Owner, Taker, ThreadName, Unexplained};
use crate::states::States;
use crate::trace::{StackId, Trace};
use crate::waits::{self, Kind, Wait};
use crate::words;
use model::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Who owns a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// Longest first.
    pub owners: Vec<Owner>,
    /// What runs, by object; longest first.
    pub objects: Vec<ObjectRow>,
    /// What has no owner, longest first.
    pub unexplained: Vec<Unexplained>,
}

/// A thread's names, as they are at a moment.
pub fn name(states: &States, tid: u32, at: Nanos) -> ThreadName {
    match states.life_at(tid, at) {
        Some(life) => ThreadName::of(&states.lives[life].thread),
        None => ThreadName { name: format!("thread {tid}"), pid: tid, tid },
    }
}

#[derive(Default)]
struct Sum {
    ns: Nanos,
    pieces: u64,
    samples: BTreeSet<usize>,
    is_concluded: bool,
    /// Whether some of it is known to be of `main`: where nothing else is known, all of it is.
    in_main: bool,
    /// With the lines of source, which the key has not.
    exact: BTreeSet<Does>,
    takers: BTreeMap<String, Nanos>,
}

/// By what is done in which part of the start, and by the life of who does it; of a thread that is not known by its
/// number.
type Key = (Does, Option<Phase>, Option<usize>, u32);

/// A piece of an owner's time.
struct Part {
    what: Does,
    phase: Option<Phase>,
    ns: Nanos,
    sample: Option<usize>,
    taker: Option<String>,
    is_concluded: bool,
}

impl Part {
    fn of(what: Does, ns: Nanos) -> Self {
        Self { what, phase: None, ns, sample: None, taker: None, is_concluded: false }
    }
}

struct Adder<'a> {
    trace: &'a Trace,
    states: &'a States,
    cutter: Cutter<'a>,
    /// The thread of thaw that waited for readiness.
    observer: Option<u32>,
    places: HashMap<(Option<StackId>, Seen), Does>,
    phases: HashMap<Option<StackId>, Option<Phase>>,
    sums: BTreeMap<Key, Sum>,
    /// Whose each part of each step is.
    order: Vec<Vec<Key>>,
    /// Of a thread's time on the path: how long it ran, and the samples of that.
    ran: HashMap<usize, (Nanos, BTreeSet<usize>)>,
}

/// Adds a path up.
pub fn owners(trace: &Trace, states: &States, steps: &[Step]) -> Owners {
    owners_of_parts(trace, states, steps).0
}

/// The same, and by step which of the owners its parts have: those of [`Cutter::step`]. Where changes were not
/// recorded, samples of the step come before.
pub fn owners_of_parts(trace: &Trace, states: &States, steps: &[Step]) -> (Owners, Vec<Vec<u32>>) {
    let mut adder = Adder {
        trace,
        states,
        cutter: Cutter::of(trace, states),
        observer: ready::observer(trace),
        places: HashMap::new(),
        phases: HashMap::new(),
        sums: BTreeMap::new(),
        order: Vec::new(),
        ran: HashMap::new(),
    };
    for step in steps {
        adder.step(step);
    }
    let mut owners: Vec<(&Key, Owner)> = adder.sums.iter().map(|(key, sum)| (key, adder.owner(key, sum))).collect();
    owners.sort_by(|(_, a), (_, b)| (Reverse(a.ns), &a.thread, &a.what).cmp(&(Reverse(b.ns), &b.thread, &b.what)));
    let numbers: BTreeMap<&Key, u32> = owners.iter().map(|(key, _)| *key).zip(0..).collect();
    let parts = adder.order.iter().map(|parts| parts.iter().map(|key| numbers[key]).collect()).collect();
    let owners: Vec<Owner> = owners.into_iter().map(|(_, owner)| owner).collect();
    (Owners { objects: objects(&owners), unexplained: unexplained(&owners), owners }, parts)
}

impl Adder<'_> {
    fn add(&mut self, step: &Step, part: Part) {
        let in_main = part.phase == Some(Phase::Main);
        let phase = part.phase.filter(|_| !in_main);
        let key = (part.what.key(), phase, self.states.life_at(step.thread, step.to), step.thread);
        let sum = self.sums.entry(key.clone()).or_default();
        sum.ns += part.ns;
        sum.pieces += u64::from(self.order.iter().rev().find_map(|parts| parts.last()) != Some(&key));
        sum.samples.extend(part.sample);
        sum.is_concluded |= part.is_concluded;
        sum.in_main |= in_main;
        sum.exact.insert(part.what);
        if let Some(taker) = part.taker {
            *sum.takers.entry(taker).or_default() += part.ns;
        }
        self.order.last_mut().unwrap_or_else(|| unreachable!("a part is of a step")).push(key);
    }

    fn step(&mut self, step: &Step) {
        self.order.push(Vec::new());
        let ns = step.to - step.from;
        match step.whose {
            Whose::Running => self.running(step),
            Whose::Cpu { ran, is_sure } => self.lacks_cpu(step, ran, !is_sure),
            Whose::Waits { kind, stack, is_sure } => {
                let phase = self.phase(stack);
                let what = self.waits_for(kind, stack);
                self.add(step, Part { phase, is_concluded: !is_sure, ..Part::of(what, ns) });
            }
            Whose::Other(_) if self.observer == Some(step.thread) => self.add(step, Part::of(Does::Notices, ns)),
            Whose::Other(doing) => self.add(step, Part::of(Does::Other { doing }, ns)),
            Whose::Unexplained(why) => {
                let left = if self.trace.switches.is_empty() { ns - self.sampled(step) } else { ns };
                if left > Nanos(0) {
                    let what = Does::Unexplained { why: why.to_owned() };
                    self.add(step, Part { is_concluded: true, ..Part::of(what, left) });
                }
            }
        }
    }

    /// Where changes were not recorded, a thread's samples still say that it had a tick of CPU time each, and where:
    /// how long that is.
    fn sampled(&mut self, step: &Step) -> Nanos {
        let Some(life) = self.states.life_at(step.thread, step.to) else { return Nanos(0) };
        let of_life = self.cutter.samples(life);
        let within = of_life.iter().filter(|(_, sample)| sample.at > step.from && sample.at <= step.to);
        let numbers: Vec<usize> = within.map(|(index, _)| *index).collect();
        let mut owned = Nanos(0);
        for sample in numbers {
            let ns = self.trace.tick.min(step.to - step.from - owned);
            let (seen_as, stack) = cuts::place(self.trace, sample);
            let (what, phase) = (self.place(seen_as, stack), self.phase(stack));
            let (ran, seen) = self.ran.entry(life).or_default();
            *ran += ns;
            seen.insert(sample);
            self.add(step, Part { phase, sample: Some(sample), is_concluded: true, ..Part::of(what, ns) });
            owned += ns;
        }
        owned
    }

    fn lacks_cpu(&mut self, step: &Step, ran: Ran, is_concluded: bool) {
        let name = match ran {
            Ran::Thread(tid) => name(self.states, tid, step.to).name,
            Ran::Idle | Ran::Unknown => String::new(),
        };
        let is_other = matches!(ran, Ran::Thread(tid) if !self.is_of_tree(tid, step.to));
        let (what, taker) = match is_other {
            true => (Does::CpuOfOthers, Some(name)),
            false => (Does::Cpu { ran, name }, None),
        };
        self.add(step, Part { taker, is_concluded, ..Part::of(what, step.to - step.from) });
    }

    fn waits_for(&mut self, kind: Kind, stack: Option<StackId>) -> Does {
        let Wait { call, function, mut callers, .. } = (*self.cutter.waits.wait(stack)).clone();
        let function = function.filter(|_| kind == Kind::Other);
        if kind.is_device() || kind == Kind::KernelLock {
            callers = callers.first().map(|caller| caller.without_line()).into_iter().collect();
        }
        Does::Waits { kind, call, function, callers }
    }

    fn phase(&mut self, stack: Option<StackId>) -> Option<Phase> {
        self.phases.entry(stack).or_insert_with(|| phase::phase(&self.trace.stacks, stack)).clone()
    }

    fn is_of_tree(&self, tid: u32, at: Nanos) -> bool {
        self.states.life_at(tid, at).is_some_and(|life| self.states.lives[life].thread.of_tree)
    }

    fn running(&mut self, step: &Step) {
        let Some(life) = self.states.life_at(step.thread, step.to) else { return };
        for cut in self.cutter.step(step) {
            let what = self.place(cut.seen, cut.stack);
            let phase = cut.sample.and_then(|_| self.phase(cut.stack));
            let ns = cut.to - cut.from;
            let (ran, seen) = self.ran.entry(life).or_default();
            *ran += ns;
            seen.extend(cut.sample);
            self.add(step, Part { phase, sample: cut.sample, ..Part::of(what, ns) });
        }
    }

    /// What is done in a piece in which a thread runs.
    fn place(&mut self, seen: Seen, stack: Option<StackId>) -> Does {
        let stacks = &self.trace.stacks;
        let found = self.places.entry((stack, seen)).or_insert_with(|| match (seen, stacks.walk(stack).next()) {
            (Seen::Kernel, _) => {
                Does::Kernel { request: waits::request(stacks, stack), caller: callers::asker(stacks, stack) }
            }
            (Seen::User, Some(frame)) => Does::User {
                object: frame.object.clone(),
                function: frame.function.clone(),
                source: frame.file().map(str::to_owned),
                caller: callers::asker(stacks, stack).filter(|_| callers::is_library(frame)),
            },
            _ => Does::Runs,
        });
        found.clone()
    }

    fn owner(&self, (what, phase, life, tid): &Key, sum: &Sum) -> Owner {
        let at = life.map_or(Nanos(0), |life| self.states.lives[life].from);
        let ready = self.trace.ready.0 as f64;
        let interval = life.and_then(|life| self.interval(what, life, sum));
        let confidence = match what {
            Does::Unexplained { .. } | Does::Waits { kind: Kind::Unknown, .. } => Confidence::Unknown,
            Does::User { .. } | Does::Kernel { .. } => Confidence::Sampled,
            _ if sum.is_concluded => Confidence::Inferred,
            _ => Confidence::Measured,
        };
        // Where all lie in one line, it is said.
        let mut exact = sum.exact.iter();
        let exact = exact.next().filter(|_| exact.next().is_none());
        let mut takers: Vec<Taker> =
            sum.takers.iter().map(|(name, ns)| Taker { name: name.clone(), ns: ns.0 }).collect();
        takers.sort_by_key(|taker| Reverse(taker.ns));
        let mut owner = Owner {
            what: exact.unwrap_or(what).clone(),
            thread: name(self.states, *tid, at),
            phase: phase.clone().or(sum.in_main.then_some(Phase::Main)),
            takers,
            ns: sum.ns.0,
            share: sum.ns.0 as f64 / ready,
            pieces: sum.pieces,
            samples: sum.samples.len() as u64,
            low_ns: interval.map(|(low, _)| low),
            high_ns: interval.map(|(_, high)| high),
            confidence,
            text: String::new(),
        };
        owner.text = words::owner(&owner);
        owner
    }

    /// How long at least and at most, of what the thread ran on the path.
    fn interval(&self, what: &Does, life: usize, sum: &Sum) -> Option<(u64, u64)> {
        let is_sampled = matches!(what, Does::User { .. } | Does::Kernel { .. });
        let (ran, samples) = self.ran.get(&life).filter(|_| is_sampled)?;
        let whole = ran.0 as f64;
        let interval = stats::share(sum.ns.0 as f64, whole, samples.len() as f64).interval?;
        // A share is rounded, and a time must lie in its own interval.
        let low = ((interval.low * whole).floor() as u64).min(sum.ns.0);
        Some((low, ((interval.high * whole).ceil() as u64).max(sum.ns.0)))
    }
}

fn objects(owners: &[Owner]) -> Vec<ObjectRow> {
    let mut rows: BTreeMap<String, ObjectRow> = BTreeMap::new();
    for owner in owners {
        let object = match &owner.what {
            Does::User { object, .. } => object.clone(),
            Does::Kernel { request: Some(request), .. } => format!("{} {request}", crate::trace::Frame::KERNEL),
            Does::Kernel { request: None, .. } => crate::trace::Frame::KERNEL.to_owned(),
            _ => continue,
        };
        let new = ObjectRow { object: object.clone(), ns: 0, share: 0.0, samples: 0 };
        let row = rows.entry(object).or_insert(new);
        (row.ns, row.share, row.samples) = (row.ns + owner.ns, row.share + owner.share, row.samples + owner.samples);
    }
    let mut rows: Vec<ObjectRow> = rows.into_values().collect();
    rows.sort_by_key(|row| Reverse(row.ns));
    rows
}

fn unexplained(owners: &[Owner]) -> Vec<Unexplained> {
    let mut rows: BTreeMap<&str, Unexplained> = BTreeMap::new();
    for owner in owners {
        let why = match &owner.what {
            Does::Unexplained { why } => why,
            Does::Waits { kind: Kind::Unknown, .. } => "no stack names what the thread waits for",
            _ => continue,
        };
        let row = rows.entry(why).or_insert_with(|| Unexplained { why: why.to_owned(), ns: 0, pieces: 0 });
        (row.ns, row.pieces) = (row.ns + owner.ns, row.pieces + owner.pieces);
    }
    let mut rows: Vec<Unexplained> = rows.into_values().collect();
    rows.sort_by_key(|row| Reverse(row.ns));
    rows
}

#[cfg(test)]
mod tests;

//! Why starts before and after a change take different times: the same owners side by side. Pure.
//!
//! Owners are the same by what they do and in which thread; functions by their names and the file names of their
//! objects without versions, so that what moved to another path or line stays the same. Each time belongs to one owner
//! on either side, so the differences add up to the difference of the means.

use crate::callers::Caller;
use crate::path::{Ran, is_kernel_thread};
use crate::phase::Phase;
use crate::report::{Confidence, Does, Owner, Report, ThreadName};
use crate::several;
use crate::waits::Kind;
use crate::words;
use model::Nanos;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// So many causes are named in the sentence.
const MOST_NAMED: usize = 3;
/// What is less than this share of the difference is not named.
const LEAST_NAMED: i64 = 20;

/// What makes starts slower or faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Mean time until ready before, in nanoseconds.
    pub before_ns: u64,
    /// After.
    pub after_ns: u64,
    /// How much more after: negative is faster.
    pub ns: i64,
    /// At least so much more, at 95 % (Welch); `None`: one start on a side says nothing of how much starts differ.
    pub low_ns: Option<i64>,
    /// At most so much more.
    pub high_ns: Option<i64>,
    /// By owner, largest first: they add up to `ns`.
    pub owners: Vec<Changed>,
    /// The same by cause: what belongs to a part of the start before `main`, or waits for another program, is one.
    /// They add up to `ns`, too.
    pub causes: Vec<Changed>,
    /// What the causes leave that are named in `text`: what has no owner, and what is small or may be chance.
    pub not_explained_ns: i64,
    /// For people.
    pub text: String,
}

/// Who owns more or less time than before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Its thread; of a cause that several have, empty.
    pub thread: String,
    /// In which part of the start.
    pub phase: Option<Phase>,
    /// Mean before, in nanoseconds.
    pub before_ns: u64,
    /// Mean after.
    pub after_ns: u64,
    /// How much more after.
    pub ns: i64,
    /// At least so much more, at 95 %: by how starts differ (Welch), or with a single start on a side by its samples.
    /// `None`: neither tells.
    pub low_ns: Option<i64>,
    /// At most so much more.
    pub high_ns: Option<i64>,
    /// How it is known: as where it is known least.
    pub confidence: Confidence,
    /// What it does, for people.
    pub text: String,
}

impl Changed {
    /// Whether the difference may be chance; without an interval that is not known.
    fn may_be_chance(&self) -> bool {
        self.low_ns.is_some_and(|low| low <= 0) && self.high_ns.is_some_and(|high| high >= 0)
    }
}

/// Without what differs from version to version: `/usr/lib/libfoo.so.1.2` and `libfoo-1.3.so` are `libfoo.so`.
fn unversioned(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, version)) = name.split_once(".so") else { return name.to_owned() };
    let is_version = |text: &str| text.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    if !is_version(version) {
        return name.to_owned();
    }
    let stem = stem
        .rsplit_once('-')
        .filter(|(_, behind)| behind.contains('.') && is_version(behind))
        .map_or(stem, |(stem, _)| stem);
    format!("{stem}.so")
}

/// A function's name; addresses are others in each version.
fn unplaced(function: &str, object: &str) -> String {
    let is_address = function.rsplit_once("+0x").is_some_and(|(before, _)| before == object);
    if is_address { "a function without a name".to_owned() } else { function.to_owned() }
}

/// What is the same before and after.
fn key(owner: &Owner) -> (Does, Option<Phase>, String) {
    let (mut what, mut phase, mut thread) = several::kind(owner);
    let plain = |caller: &mut Caller| {
        caller.function = unplaced(&caller.function, &caller.object);
        (caller.object, caller.source) = (unversioned(&caller.object), None);
    };
    match &mut what {
        Does::User { object, source, caller, .. } => {
            (*object, *source) = (unversioned(object), None);
            caller.iter_mut().for_each(plain);
        }
        Does::Kernel { caller, .. } => caller.iter_mut().for_each(plain),
        Does::Waits { callers, .. } => callers.iter_mut().for_each(plain),
        Does::Cpu { ran: ran @ Ran::Thread(_), .. } => *ran = Ran::Thread(0),
        _ => {}
    }
    if let Some(Phase::Initialisers { object }) = &mut phase {
        *object = unversioned(object);
    }
    // The kernel's workers have numbers.
    if matches!(what, Does::Other { .. }) && is_kernel_thread(&thread) {
        thread = thread.split('/').next().unwrap_or_default().to_owned();
    }
    (what, phase, thread)
}

/// By which cause a time is: in words, and its part of the start.
fn cause(owner: &Owner, thread: &str) -> (String, Option<Phase>, String) {
    let is_unknown = matches!(owner.what, Does::Unexplained { .. } | Does::Runs)
        || matches!(owner.what, Does::Waits { kind: Kind::Unknown, .. });
    match &owner.phase {
        _ if is_unknown => (NOT_EXPLAINED.to_owned(), None, String::new()),
        Some(phase) if *phase != Phase::Main => (phase.to_string(), owner.phase.clone(), String::new()),
        _ => match &owner.what {
            Does::Other { .. } => (format!("waiting for {thread}"), None, String::new()),
            Does::Cpu { .. } | Does::CpuOfOthers => ("waiting for a CPU".to_owned(), None, String::new()),
            _ => (words::deed(owner), None, thread.to_owned()),
        },
    }
}

/// What no rule can name.
const NOT_EXPLAINED: &str = "not explained";

/// The times of an owner on both sides, of each start.
#[derive(Default)]
struct Times<'a> {
    /// Of each start, in nanoseconds, and the owners that they come from.
    sides: [BTreeMap<usize, u64>; 2],
    owners: [Vec<&'a Owner>; 2],
}

/// The means over the starts on both sides.
struct Sides {
    counts: [usize; 2],
    /// What was given away of the difference until now, so that rounded parts add up.
    exact: i128,
}

impl Sides {
    /// The next part of the difference, so rounded that all parts add up to the rounded whole.
    fn part(&mut self, sums: [u64; 2]) -> i64 {
        let before = self.rounded();
        self.exact += self.scaled(sums);
        (self.rounded() - before) as i64
    }

    /// The difference of the means, times both counts.
    fn scaled(&self, sums: [u64; 2]) -> i128 {
        i128::from(sums[1]) * self.counts[0] as i128 - i128::from(sums[0]) * self.counts[1] as i128
    }

    fn rounded(&self) -> i128 {
        let whole = (self.counts[0] * self.counts[1]) as i128;
        (2 * self.exact + whole).div_euclid(2 * whole)
    }

    fn changed(&mut self, times: &Times<'_>) -> Changed {
        let sums = [0, 1].map(|side: usize| times.sides[side].values().sum::<u64>());
        let mean = |side: usize| (sums[side] as f64 / self.counts[side] as f64).round() as u64;
        let interval = self.interval(times);
        let all = times.owners.iter().flatten();
        let confidence = all.map(|owner| owner.confidence).max().unwrap_or(Confidence::Unknown);
        Changed {
            thread: String::new(),
            phase: None,
            before_ns: mean(0),
            after_ns: mean(1),
            ns: self.part(sums),
            low_ns: interval.map(|(low, _)| low.floor() as i64),
            high_ns: interval.map(|(_, high)| high.ceil() as i64),
            confidence,
            text: String::new(),
        }
    }

    fn of_starts(&self, times: &Times<'_>) -> [Vec<f64>; 2] {
        [0, 1].map(|side: usize| {
            let of = |start| times.sides[side].get(&start).copied().unwrap_or(0) as f64;
            (0..self.counts[side]).map(of).collect()
        })
    }

    /// Welch's interval; where a side has one start, of the intervals of samples (Zou and Donner 2008).
    fn interval(&self, times: &Times<'_>) -> Option<(f64, f64)> {
        let [before, after] = self.of_starts(times);
        if self.counts.iter().all(|count| *count >= 2) {
            let interval = stats::difference_of_means(&after, &before).interval?;
            return Some((interval.low, interval.high));
        }
        if self.counts != [1, 1] {
            return None;
        }
        let side = |side: usize| match &times.owners[side][..] {
            [owner] => Some((owner.ns as f64, owner.low_ns? as f64, owner.high_ns? as f64)),
            _ => None,
        };
        let (old, new) = (side(0)?, side(1)?);
        let value = new.0 - old.0;
        Some((value - (new.0 - new.1).hypot(old.2 - old.0), value + (new.2 - new.0).hypot(old.0 - old.1)))
    }
}

/// What differs between starts before and after; `None`: there are none on a side.
pub fn differ(before: &[Report], after: &[Report]) -> Option<Difference> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let mut by_owner: BTreeMap<(Does, Option<Phase>, String), Times<'_>> = BTreeMap::new();
    let mut by_cause: BTreeMap<(String, Option<Phase>, String), Times<'_>> = BTreeMap::new();
    for (side, starts) in [before, after].into_iter().enumerate() {
        for (start, owner) in
            starts.iter().enumerate().flat_map(|(start, it)| it.owners.iter().map(move |of| (start, of)))
        {
            let key = key(owner);
            let example = shown(&key, owner);
            let cause = cause(&example, &key.2);
            for times in [by_owner.entry(key).or_default(), by_cause.entry(cause).or_default()] {
                *times.sides[side].entry(start).or_default() += owner.ns;
                times.owners[side].push(owner);
            }
        }
    }
    let counts = [before.len(), after.len()];
    let sides = || Sides { counts, exact: 0 };
    let mut whole = Times::default();
    for (side, starts) in [before, after].into_iter().enumerate() {
        whole.sides[side] = starts.iter().map(|start| start.ready_ns).enumerate().collect();
    }
    let whole = sides().changed(&whole);
    let mut adding = sides();
    let owners = by_owner.iter().map(|(key, times)| {
        let last = times.owners[1].last().or(times.owners[0].last());
        let example = shown(key, last.unwrap_or_else(|| unreachable!("a time comes from an owner")));
        let text = words::deed(&example);
        Changed { thread: key.2.clone(), phase: example.phase, text, ..adding.changed(times) }
    });
    let owners = sorted(owners.collect());
    let mut adding = sides();
    let causes = by_cause.iter().map(|((text, phase, thread), times)| {
        let (thread, phase, text) = (thread.clone(), phase.clone(), text.clone());
        Changed { thread, phase, text, ..adding.changed(times) }
    });
    let causes = sorted(causes.collect());
    let named = named(&causes, whole.ns);
    let not_explained_ns = whole.ns - named.iter().map(|cause| cause.ns).sum::<i64>();
    let text = sentence(whole.ns, &named, not_explained_ns);
    let Changed { before_ns, after_ns, ns, low_ns, high_ns, .. } = whole;
    Some(Difference { before_ns, after_ns, ns, low_ns, high_ns, owners, causes, not_explained_ns, text })
}

/// An owner as it is shown: with the names that both sides have.
fn shown((what, phase, thread): &(Does, Option<Phase>, String), owner: &Owner) -> Owner {
    let thread = ThreadName { name: thread.clone(), pid: 0, tid: 0 };
    let phase = phase.clone().or_else(|| owner.phase.clone());
    Owner { what: what.clone(), thread, phase, takers: Vec::new(), ..owner.clone() }
}

fn sorted(mut rows: Vec<Changed>) -> Vec<Changed> {
    rows.sort_by(|a, b| (Reverse(a.ns.abs()), &a.text, &a.thread).cmp(&(Reverse(b.ns.abs()), &b.text, &b.thread)));
    rows
}

/// The causes that are worth a name: large, and not to be taken for chance.
fn named(causes: &[Changed], whole: i64) -> Vec<&Changed> {
    let largest = causes.iter().map(|cause| cause.ns.abs()).max().unwrap_or(0).max(whole.abs());
    let is_named = |cause: &&Changed| {
        cause.text != NOT_EXPLAINED
            && !cause.may_be_chance()
            && cause.ns != 0
            && cause.ns.abs() >= largest / LEAST_NAMED
    };
    causes.iter().filter(is_named).take(MOST_NAMED).collect()
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, Nanos(ns.unsigned_abs()))
}

fn sentence(whole: i64, named: &[&Changed], not_explained: i64) -> String {
    let part = |ns: i64| if (ns < 0) == (whole < 0) { Nanos(ns.unsigned_abs()).to_string() } else { signed(ns) };
    let mut parts: Vec<String> = named.iter().map(|cause| format!("{} {}", part(cause.ns), cause.text)).collect();
    if not_explained != 0 || parts.is_empty() {
        parts.push(format!("{} {NOT_EXPLAINED}", part(not_explained)));
    }
    format!("{}: {}", signed(whole), parts.join(", "))
}

#[cfg(test)]
mod tests;

//! Messages between threads and processes: which sending belongs to which receiving, and what a thread woke for.

use super::row::Settled;
use crate::import::json;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A thread and its object.
pub type Place = (u32, u64);

/// Sender, receiver, number and kind.
type Key = (u32, u32, i64, String);

/// When, and on which thread.
type End = (u64, Place);

/// Ends of messages.
#[derive(Debug, Default)]
pub struct Messages {
    all: BTreeMap<Key, (Vec<End>, Vec<End>)>,
    /// Of each process: when it was first sent something.
    first: BTreeMap<u32, End>,
}

/// A message with both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: String,
    pub from_pid: u32,
    pub to_pid: u32,
    pub sent: End,
    pub received: End,
    /// Whether only these two ends can belong together.
    pub is_sure: bool,
}

impl Messages {
    /// An end that a marker tells.
    pub fn marker(&mut self, data: &Value, pid: u32, at: u64, place: Place) {
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let other = data.get("otherPid").and_then(json::number).map(|pid| pid as u32);
        let number = data.get("messageSeqno").and_then(Value::as_i64);
        let (Some("endpoint"), Some(other), Some(number)) = (text("phase"), other, number) else { return };
        let kind = text("messageType").unwrap_or_default().to_owned();
        match text("direction") {
            Some("sending") => {
                self.all.entry((pid, other, number, kind)).or_default().0.push((at, place));
                let first = self.first.entry(other).or_insert((at, place));
                *first = (*first).min((at, place));
            }
            Some("receiving") => self.all.entry((other, pid, number, kind)).or_default().1.push((at, place)),
            _ => {}
        }
    }

    /// When, and from where, another thread first sent something to a process.
    pub fn first_to(&self, pid: u32, by_others_than: u64) -> Option<End> {
        self.first.get(&pid).copied().filter(|(_, (_, object))| *object != by_others_than)
    }

    /// Those with both ends, on different threads. Where several have one number and kind (each channel counts for
    /// itself), they are taken in their order.
    pub fn tied(self) -> Vec<Message> {
        let mut tied = Vec::new();
        for ((from_pid, to_pid, _, kind), (mut sent, mut received)) in self.all {
            sent.sort_unstable();
            received.sort_unstable();
            let is_sure = sent.len() == 1 && received.len() == 1 && !kind.starts_with('<');
            for (sent, received) in sent.into_iter().zip(received) {
                if sent.0 <= received.0 && sent.1 != received.1 {
                    tied.push(Message { kind: kind.clone(), from_pid, to_pid, sent, received, is_sure });
                }
            }
        }
        tied
    }
}

/// Something that a thread began with, and which other one had posted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    pub at: u64,
    pub posted: End,
    pub type_id: u32,
    pub is_sure: bool,
}

/// What ended a wait: whose, when it began and ended, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    pub object: u64,
    pub from: u64,
    pub to: u64,
    pub by: Handed,
}

/// What ended the waits of a thread: the first that it was handed when it went on, if it was posted while it waited.
/// Sure is what it did before anything else. `handed`: all of the thread, in the order of time.
pub fn wakes(object: u64, of: &Settled, handed: &[Handed]) -> Vec<Wake> {
    let mut ends: Vec<u64> = of.works.iter().map(|span| span.to).collect();
    ends.sort_unstable();
    let mut waits = of.waits.clone();
    waits.sort_unstable_by_key(|wait| wait.from);
    let until = |place: usize| waits.get(place + 1).map_or(u64::MAX, |next| next.from);
    let woken = waits.iter().enumerate().filter_map(|(place, wait)| {
        let next = handed.partition_point(|one| one.at < wait.to);
        let then = handed[next..].iter().take_while(|one| one.at < until(place));
        let mut fitting = then.filter(|one| (wait.from..=wait.to).contains(&one.posted.0));
        let found = *fitting.next()?;
        let is_first = ends.partition_point(|end| *end <= wait.to) == ends.partition_point(|end| *end <= found.at);
        let by = Handed { is_sure: found.is_sure && is_first, ..found };
        Some(Wake { object, from: wait.from, to: wait.to, by })
    });
    woken.collect()
}

/// Those by threads whose own last wait ended by such a wake, or that were there from the beginning (`is_known`). Of
/// others nothing is known before they woke: the path would be lost there. `all`: of all threads.
pub fn followed(
    mut all: Vec<Wake>,
    settled: &BTreeMap<u64, Settled>,
    is_known: impl Fn(u64, bool) -> bool,
) -> Vec<Wake> {
    all.sort_by_key(|wake| (wake.to, wake.object));
    let mut begins: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (object, of) in settled {
        let begins = begins.entry(*object).or_default();
        begins.extend(of.waits.iter().map(|wait| wait.from));
        begins.sort_unstable();
    }
    let mut woken = BTreeSet::new();
    all.retain(|wake| {
        let (posted, (_, by)) = wake.by.posted;
        let begins = begins.get(&by).map_or(&[][..], Vec::as_slice);
        let last = begins.partition_point(|begin| *begin < posted).checked_sub(1).map(|place| begins[place]);
        let is_followed = is_known(by, last.is_some()) || last.is_some_and(|begin| woken.contains(&(by, begin)));
        if is_followed {
            woken.insert((wake.object, wake.from));
        }
        is_followed
    });
    all
}

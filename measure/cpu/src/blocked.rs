//! What held up each thread of the path, by its own account: its waits, who ended them, and what that one did
//! meanwhile. Pure.
//!
//! The path goes over to whoever ends a wait, so the wait itself is not on it. Whoever looks at one thread, as at the
//! one that draws a window, asks for just that.

use crate::callers::Caller;
use crate::path::{Step, ended_by};
use crate::report::{BlockedRow, EndedBy, ThreadName};
use crate::states::{Life, Piece, State, States};
use crate::trace::{StackId, Thread, Trace, Waker};
use crate::waits::{self, Kind, Waits};
use crate::words;
use model::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The waits of the first thread, then those of the other threads of the tree that are on the path; longest first.
pub fn blocked(trace: &Trace, states: &States, steps: &[Step]) -> Vec<BlockedRow> {
    let mut on_path: HashMap<usize, Vec<&Step>> = HashMap::new();
    for step in steps {
        if let Some(life) = states.life_at(step.thread, step.to) {
            on_path.entry(life).or_default().push(step);
        }
    }
    let first = states.life_at(trace.root, Nanos(0));
    let is_told =
        |(index, life): &(usize, &Life)| life.thread.of_tree && (Some(*index) == first || on_path.contains_key(index));
    let mut teller = Teller { trace, states, waits: Waits::of(&trace.stacks), conditions: HashMap::new() };
    let mut rows = Vec::new();
    for (index, life) in states.lives.iter().enumerate().filter(is_told) {
        let own = Own::of(on_path.get(&index).map_or(&[][..], Vec::as_slice));
        rows.extend(teller.thread(life, Some(index) == first, &own));
    }
    rows.sort_by(|a, b| (!a.is_first, Reverse(a.ns), &a.text).cmp(&(!b.is_first, Reverse(b.ns), &b.text)));
    rows
}

/// Where a thread is on the path.
struct Own {
    /// By time: from, to, and how much of the path lay on it before.
    parts: Vec<(Nanos, Nanos, Nanos)>,
}

impl Own {
    fn of(steps: &[&Step]) -> Self {
        let mut before = Nanos(0);
        let mut parts = Vec::new();
        for step in steps {
            parts.push((step.from, step.to, before));
            before += step.to - step.from;
        }
        Self { parts }
    }

    /// How much of the path lies on it until a moment.
    fn until(&self, at: Nanos) -> Nanos {
        let begun = self.parts.partition_point(|(from, ..)| *from < at);
        let last = begun.checked_sub(1).map(|last| self.parts[last]);
        last.map_or(Nanos(0), |(from, to, before)| before + (at.min(to) - from))
    }

    /// How much of the path lies elsewhere in a time before ready.
    fn elsewhere(&self, from: Nanos, to: Nanos) -> Nanos {
        (to - from) - (self.until(to) - self.until(from))
    }
}

/// What is the same of two waits of a thread.
type Key = (Kind, bool, Place, EndedBy);
/// In which call, and called by whom.
type Place = (Option<String>, Vec<Caller>);

#[derive(Default)]
struct Sum {
    count: u64,
    ns: Nanos,
    elsewhere: Nanos,
    ran: Nanos,
    waited: Nanos,
    lacked: Nanos,
}

struct Teller<'a> {
    trace: &'a Trace,
    states: &'a States,
    waits: Waits<'a>,
    conditions: HashMap<Option<StackId>, bool>,
}

impl Teller<'_> {
    fn thread(&mut self, life: &Life, is_first: bool, own: &Own) -> Vec<BlockedRow> {
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        for piece in &life.pieces {
            let Some((key, ended_by)) = self.wait(&life.thread, piece) else { continue };
            let sum = sums.entry(key).or_default();
            sum.count += 1;
            sum.ns += piece.to - piece.from;
            sum.elsewhere += own.elsewhere(piece.from, piece.to);
            if let Some(life) = ended_by {
                self.meanwhile(life, piece, sum);
            }
        }
        let name = ThreadName::of(&life.thread);
        let row = |((kind, is_condition, place, ended), sum): (Key, Sum)| {
            let (call, callers) = place;
            let mut row = BlockedRow {
                thread: name.clone(),
                is_first,
                kind,
                is_condition,
                call,
                callers,
                ended,
                count: sum.count,
                ns: sum.ns.0,
                path_elsewhere_ns: sum.elsewhere.0,
                ran_ns: sum.ran.0,
                waited_ns: sum.waited.0,
                lacked_cpu_ns: sum.lacked.0,
                text: String::new(),
            };
            row.text = words::blocked(&row);
            row
        };
        sums.into_iter().map(row).collect()
    }

    /// What a piece waits for and the life that ended it; `None`: it is no wait, or a new thread's until it may run.
    fn wait(&mut self, waiter: &Thread, piece: &Piece) -> Option<(Key, Option<usize>)> {
        let State::Waiting { stack, wake, .. } = piece.state else { return None };
        let wake = wake.map(|wake| &self.trace.wakes[wake]);
        if wake.is_some_and(|wake| wake.new) {
            return None;
        }
        let found = self.waits.wait(stack);
        let stacks = &self.trace.stacks;
        let waker = wake.and_then(|wake| match wake.by {
            // What the idle task does it does for an interrupt.
            Waker::Thread(0) | Waker::Interrupt => None,
            Waker::Thread(tid) => self.states.life_at(tid, wake.at),
        });
        let (mut kind, mut life) = (found.kind, waker);
        let ended = match (wake, waker.map(|life| &self.states.lives[life].thread)) {
            (None, _) => EndedBy::Nobody,
            (Some(_), Some(thread)) if thread.of_tree => {
                let of_other_process = thread.pid != waiter.pid;
                EndedBy::Thread { name: thread.name.clone(), of_other_process }
            }
            (Some(_), Some(thread)) if !kind.is_device() => EndedBy::Program { name: thread.name.clone() },
            (Some(wake), None) => {
                kind = ended_by(kind, waits::interrupt(stacks, wake.stack)).0;
                EndedBy::Interrupt
            }
            _ => EndedBy::Interrupt,
        };
        life = life.filter(|_| ended != EndedBy::Interrupt);
        let is_condition =
            kind == Kind::Lock && *self.conditions.entry(stack).or_insert_with(|| waits::is_condition(stacks, stack));
        let place = (found.call.clone(), found.callers.clone());
        Some(((kind, is_condition, place, ended), life))
    }

    /// Adds what a thread did in the time of a wait.
    fn meanwhile(&self, life: usize, wait: &Piece, sum: &mut Sum) {
        let pieces = &self.states.lives[life].pieces;
        let first = pieces.partition_point(|piece| piece.to <= wait.from);
        for piece in pieces[first..].iter().take_while(|piece| piece.from < wait.to) {
            let ns = piece.to.min(wait.to) - piece.from.max(wait.from);
            match piece.state {
                State::Running { .. } => sum.ran += ns,
                State::Waiting { .. } => sum.waited += ns,
                State::Runnable { .. } => sum.lacked += ns,
                State::Unknown(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! What would make a start faster, and by how much at most. Pure.
//!
//! Each owner of the critical path that a rule knows is a help; so are the loader's figures, and waits of one process
//! for another. A gain is what the owner has on the path, cut where the path would become another one: who is woken by
//! a thread had begun to wait at some moment, and cannot be woken before it. What is gained before such a wake is at
//! most the length of that wait.
//!
//! Gains do not add up: two helps may be about the same time.

mod bound;
mod loads;
mod owned;

use crate::report::Report;
use crate::several::Shared;
use bound::Bound;
use model::loader::{Cost, LoaderStart};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Something that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Help {
    /// What to do.
    pub what: String,
    /// Whose time it is.
    pub owner: String,
    /// How much earlier it would be ready, in nanoseconds.
    pub gain_ns: u64,
    /// How much at least, at 95 %. `None`: not known.
    pub low_ns: Option<u64>,
    /// How much at most, at 95 %. `None`: not known.
    pub high_ns: Option<u64>,
    /// The gain is an upper bound: something else is then waited for, or what takes its place costs time too.
    pub is_at_most: bool,
    /// How the gain was predicted.
    pub how: String,
    /// What could be done about it from outside, if that is one of these.
    #[serde(skip)]
    pub eases: Option<Eases>,
    /// The words of a command; empty: none does this.
    #[serde(skip)]
    pub command: Vec<String>,
}

/// Time that something outside of the program could make less of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eases {
    /// Page faults in memory.
    PageFaults,
    /// Requests to the kernel for memory, and to take it back.
    MemoryCalls,
    /// The loader looks up functions after main began.
    LateBinding,
}

/// What is known of a program's starts in a state.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Their mean time until ready, in nanoseconds.
    pub ready_ns: u64,
    /// Who owns it.
    pub owners: &'a [Shared],
    /// One of them whole: who waits for whom.
    pub report: &'a Report,
    /// What the loader was seen to do, in a hot start, for each program that the first process executed; and what
    /// watching that cost.
    pub loader: Option<(&'a [LoaderStart], Cost)>,
    /// The recording's file, for commands.
    pub recording: &'a str,
}

/// What gains less than this share of the start is left out.
const LEAST_SHARE: f64 = 0.005;

/// What would help, the largest gain first.
pub fn helps(known: &Known<'_>) -> Vec<Help> {
    let bound = Bound::of(known.report);
    let mut helps = owned::helps(known, &bound);
    helps.extend(owned::waits(&bound));
    if let Some((starts, cost)) = known.loader {
        helps.extend(loads::helps(starts, cost, &bound));
    }
    let least = (known.ready_ns as f64 * LEAST_SHARE).max(1.0) as u64;
    helps.retain(|help| help.gain_ns >= least);
    helps.sort_by(|a, b| (Reverse(a.gain_ns), &a.what, &a.owner).cmp(&(Reverse(b.gain_ns), &b.what, &b.owner)));
    helps
}

#[cfg(test)]
mod tests;

//! What a page draws of a start: a lane for each thread of the report, and the path over them. Pure.
//!
//! Finer than the report's lanes: it tells the program from the kernel, and has the stack of each piece, as a node of
//! the flames.

use crate::cuts::{Cut, Cutter, Seen};
use crate::flames::{Flames, Grower, grow};
use crate::merged::{Span, joined, merged};
use crate::owners::owners_of_parts;
use crate::path;
use crate::report::Report;
use crate::states::States;
use crate::trace::Trace;
use crate::waits::Kind;
use std::collections::HashMap;

/// A piece of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnPiece {
    /// From then on, in nanoseconds since exec.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// What the thread does; of a merged piece for the longest.
    pub seen: Seen,
    /// Where, by the nodes of [`Picture::flames`]: of a merged piece in the longest piece of it.
    pub node: Option<u32>,
}

/// A piece of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPiece {
    /// From then on, in nanoseconds since exec.
    pub from_ns: u64,
    /// Until then.
    pub to_ns: u64,
    /// On which lane it lies, by [`Report::threads`].
    pub lane: Option<u32>,
    /// What is done.
    pub seen: Seen,
    /// Where, by the nodes of [`Picture::flames`].
    pub node: Option<u32>,
    /// Whose it is, by [`Report::owners`].
    pub owner: Option<u32>,
    /// What the thread of the piece behind it waited for when this one woke it.
    pub link: Option<Kind>,
}

/// What is drawn of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Pieces of each of [`Report::threads`], side by side.
    pub lanes: Vec<Vec<DrawnPiece>>,
    /// The path, by time.
    pub path: Vec<PathPiece>,
    /// Its stacks, with times.
    pub flames: Flames,
}

/// The picture of a start and its report; lanes of at most so many pieces.
pub fn picture(trace: &Trace, report: &Report, most_pieces: usize) -> Picture {
    let states = States::of(trace);
    let steps = path::path(trace, &states);
    let mut cutter = Cutter::of(trace, &states);
    let mut grower = Grower::of(trace);
    grow(trace, &states, &steps, &mut cutter, &mut grower);
    let lives = lives(report, &states);
    let lanes = lives.iter().map(|life| {
        let Some(life) = *life else { return Vec::new() };
        let thread = &states.lives[life].thread;
        let span = |cut: &Cut| Span {
            from: cut.from.0,
            to: cut.to.0,
            kind: cut.seen,
            with: cut.stack.map(|stack| grower.node(&thread.name, Some(stack))),
        };
        let all = joined(cutter.life(life).iter().map(span).collect());
        merged(&all, most_pieces).into_iter().map(drawn).collect()
    });
    let lanes = lanes.collect();
    let lane_of: HashMap<usize, u32> =
        lives.iter().zip(0..).filter_map(|(life, lane)| Some(((*life)?, lane))).collect();
    let (_, owner_of) = owners_of_parts(trace, &states, &steps);
    let mut path = Vec::new();
    for (step, owner_of) in steps.iter().zip(owner_of) {
        let life = states.life_at(step.thread, step.to);
        let thread = life.map_or("", |life| &states.lives[life].thread.name);
        let cuts = cutter.step(step);
        // What comes before are samples that own time of the step, and nobody knows which.
        let owner_of = &owner_of[owner_of.len().saturating_sub(cuts.len())..];
        for (cut, owner) in cuts.iter().zip(owner_of) {
            path.push(PathPiece {
                from_ns: cut.from.0,
                to_ns: cut.to.0,
                lane: life.and_then(|life| lane_of.get(&life).copied()),
                seen: cut.seen,
                node: cut.stack.map(|stack| grower.node(thread, Some(stack))),
                owner: Some(*owner),
                link: None,
            });
        }
        if let (Some(last), Some(link)) = (path.last_mut(), step.link) {
            last.link = Some(link.kind);
        }
    }
    Picture { lanes, path, flames: grower.grown() }
}

fn drawn(span: Span<Seen, Option<u32>>) -> DrawnPiece {
    DrawnPiece { from_ns: span.from, to_ns: span.to, seen: span.kind, node: span.with }
}

/// The life of each lane of a report.
fn lives(report: &Report, states: &States) -> Vec<Option<usize>> {
    let mut known: HashMap<(u32, u64), usize> = HashMap::new();
    for (index, life) in states.lives.iter().enumerate() {
        known.insert((life.thread.tid, life.from.0), index);
    }
    let of = |lane: &crate::report::Lane| known.get(&(lane.thread.tid, lane.pieces.first()?.from_ns)).copied();
    report.threads.iter().map(of).collect()
}

#[cfg(test)]
mod tests;

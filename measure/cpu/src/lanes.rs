//! What threads did, as lanes of a waterfall: few enough pieces to draw. Pure.

use crate::cuts::{Seen, still};
use crate::merged::{Span, merged};
use crate::path::Step;
use crate::report::{Lane, LanePiece, LaneState, ThreadName};
use crate::states::{Life, Piece, States};
use crate::trace::Trace;
use crate::waits::Waits;
use model::Nanos;
use std::collections::HashMap;

/// The lanes of the tree's threads and of those on the path, each of at most so many pieces; by their beginning.
pub fn lanes(trace: &Trace, states: &States, steps: &[Step], most: usize) -> Vec<Lane> {
    let mut on_path: HashMap<usize, Nanos> = HashMap::new();
    for step in steps {
        if let Some(life) = states.life_at(step.thread, step.to) {
            *on_path.entry(life).or_default() += step.to - step.from;
        }
    }
    let mut waits = Waits::of(&trace.stacks);
    let told = |(index, life): &(usize, &Life)| life.thread.of_tree || on_path.contains_key(index);
    let mut lives: Vec<(usize, &Life)> = states.lives.iter().enumerate().filter(told).collect();
    lives.sort_by_key(|(_, life)| (!life.thread.of_tree, life.from, life.thread.tid));
    let path = |index: &usize| on_path.get(index).map_or(0, |ns| ns.0);
    lives.iter().map(|(index, life)| lane(trace, &mut waits, life, path(index), most)).collect()
}

/// A lane does not tell the program from the kernel.
fn lane_state(seen: Seen) -> LaneState {
    match seen {
        Seen::User | Seen::Kernel | Seen::Runs => LaneState::Runs,
        Seen::LacksCpu => LaneState::LacksCpu,
        Seen::Waits(kind) => LaneState::Waits(kind),
        Seen::Unknown => LaneState::Unknown,
    }
}

fn lane(trace: &Trace, waits: &mut Waits<'_>, life: &Life, path_ns: u64, most: usize) -> Lane {
    let told = |piece: &Piece| Span {
        from: piece.from.0,
        to: piece.to.0,
        kind: lane_state(still(trace, waits, piece).0),
        with: (),
    };
    let all: Vec<Span<LaneState, ()>> = life.pieces.iter().map(told).collect();
    let sum = |wanted: fn(LaneState) -> bool| -> u64 {
        all.iter().filter(|piece| wanted(piece.kind)).map(|piece| piece.to - piece.from).sum()
    };
    let drawn = |span: Span<LaneState, ()>| LanePiece { from_ns: span.from, to_ns: span.to, state: span.kind };
    let thread = &life.thread;
    Lane {
        thread: ThreadName::of(thread),
        of_tree: thread.of_tree,
        made_by: thread.made_by,
        is_merged: all.len() > most,
        ran_ns: sum(|state| state == LaneState::Runs),
        lacked_cpu_ns: sum(|state| state == LaneState::LacksCpu),
        waited_ns: sum(|state| matches!(state, LaneState::Waits(_))),
        unknown_ns: sum(|state| state == LaneState::Unknown),
        path_ns,
        pieces: merged(&all, most).into_iter().map(drawn).collect(),
    }
}

//! From a trace to a report. Pure.

use crate::axis::samples_by_life;
use crate::blocked;
use crate::lanes;
use crate::owners::{self, name};
use crate::path::{self, Doing, Ran, Step, Whose};
use crate::ready;
use crate::report::{Confidence, LaneState, LinkRow, OffPath, Report, StepRow, ThreadName};
use crate::states::{State, States};
use crate::trace::Trace;
use crate::waits::{self, Kind};
use crate::words;
use model::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Who owns each millisecond of a start; lanes of at most so many pieces. The same trace gives the same report.
pub fn analyze(trace: &Trace, most_pieces: usize) -> Report {
    let states = States::of(trace);
    let steps = path::path(trace, &states);
    let found = owners::owners(trace, &states, &steps);
    let unknown: u64 = found.unexplained.iter().map(|row| row.ns).sum();
    let explained_share = match trace.ready.0 {
        0 => 1.0,
        ready => (ready - unknown) as f64 / ready as f64,
    };
    let competes = competes(&states, &steps);
    Report {
        version: Report::VERSION,
        ready_ns: trace.ready.0,
        explained_share,
        owners: found.owners,
        objects: found.objects,
        links: links(trace, &states, &steps),
        blocked: blocked::blocked(trace, &states, &steps),
        steps: steps.iter().map(told).collect(),
        threads: lanes::lanes(trace, &states, &steps, most_pieces),
        off_path: off_path(trace, &states, &steps, &competes),
        competes_ns: competes.values().map(|ns| ns.0).sum(),
        unexplained: found.unexplained,
        cannot: trace.cannot.clone(),
        lost: trace.lost,
        lost_switches: trace.lost_switches,
        own_ns: trace.own.0,
    }
}

fn told(step: &Step) -> StepRow {
    let (state, ran) = match step.whose {
        Whose::Running | Whose::Other(Doing::Runs) => (LaneState::Runs, None),
        Whose::Cpu { ran, .. } => (LaneState::LacksCpu, Some(ran)),
        Whose::Other(Doing::LacksCpu) => (LaneState::LacksCpu, None),
        Whose::Waits { kind, .. } => (LaneState::Waits(kind), None),
        Whose::Other(Doing::Waits) => (LaneState::Waits(Kind::Unknown), None),
        Whose::Unexplained(_) => (LaneState::Unknown, None),
    };
    let link = step.link.map(|link| link.kind);
    StepRow { from_ns: step.from.0, to_ns: step.to.0, tid: step.thread, state, ran, link }
}

/// For how long the path waited for a CPU that a thread of the tree had, by its life.
fn competes(states: &States, steps: &[Step]) -> BTreeMap<usize, Nanos> {
    let mut found: BTreeMap<usize, Nanos> = BTreeMap::new();
    for step in steps {
        let Whose::Cpu { ran: Ran::Thread(tid), .. } = step.whose else { continue };
        if let Some(life) = states.life_at(tid, step.to).filter(|life| states.lives[*life].thread.of_tree) {
            *found.entry(life).or_default() += step.to - step.from;
        }
    }
    found
}

fn links(trace: &Trace, states: &States, steps: &[Step]) -> Vec<LinkRow> {
    let mut rows: BTreeMap<_, (u64, Nanos)> = BTreeMap::new();
    let observer = ready::observer(trace);
    let mut met = HashSet::new();
    for step in steps {
        met.insert(step.thread);
        // That thaw waits for the sign of readiness is no wait of the program's.
        let Some(link) = step.link.filter(|link| observer != Some(link.woken)) else { continue };
        let (woken, waker) = (name(states, link.woken, link.at), name(states, link.waker, link.at));
        let is_condition = waits::is_condition(&trace.stacks, link.waits_in);
        let key = (link.kind, is_condition, met.contains(&link.woken), woken, waker);
        let (count, ns) = rows.entry(key).or_default();
        *count += 1;
        *ns += link.at - link.since;
    }
    let told = rows.into_iter().map(|((kind, is_condition, was_met, woken, waker), (count, ns))| {
        let mut row = LinkRow { kind, woken, waker, was_met, count, ns: ns.0, text: String::new() };
        row.text = words::link(&row, is_condition);
        row
    });
    let mut rows: Vec<LinkRow> = told.collect();
    rows.sort_by_key(|row| Reverse(row.ns));
    rows
}

fn off_path(trace: &Trace, states: &States, steps: &[Step], competes: &BTreeMap<usize, Nanos>) -> Vec<OffPath> {
    let mut on_path: HashMap<usize, Vec<&Step>> = HashMap::new();
    // Where changes were not recorded, all samples of the thread that is followed own time.
    let is_sampled = trace.switches.is_empty();
    for step in steps.iter().filter(|step| step.whose == Whose::Running || is_sampled) {
        if let Some(life) = states.life_at(step.thread, step.to) {
            on_path.entry(life).or_default().push(step);
        }
    }
    let samples = samples_by_life(trace, states);
    let mut rows = Vec::new();
    for (index, life) in states.lives.iter().enumerate().filter(|(_, life)| life.thread.of_tree) {
        let own = on_path.get(&index).map_or(&[][..], Vec::as_slice);
        let runs = life.pieces.iter().filter(|piece| matches!(piece.state, State::Running { .. }));
        let ran: Nanos = runs.map(|piece| piece.to - piece.from).sum();
        let lies_on = |at: Nanos| {
            let after = own.partition_point(|step| step.to < at);
            own.get(after).is_some_and(|step| step.from < at)
        };
        let of_life = samples.get(&index).map_or(&[][..], Vec::as_slice);
        let count = of_life.iter().filter(|(_, sample)| !lies_on(sample.at)).count() as u64;
        let (ran_ns, confidence) = match is_sampled {
            true => (count * trace.tick.0, Confidence::Sampled),
            false => ((ran - own.iter().map(|step| step.to - step.from).sum()).0, Confidence::Measured),
        };
        let competes_ns = competes.get(&index).map_or(0, |ns| ns.0);
        let thread = ThreadName::of(&life.thread);
        if ran_ns > 0 || competes_ns > 0 {
            rows.push(OffPath { thread, ran_ns, samples: count, competes_ns, confidence });
        }
    }
    rows.sort_by(|a, b| (Reverse(a.ran_ns), &a.thread).cmp(&(Reverse(b.ran_ns), &b.thread)));
    rows
}

#[cfg(test)]
mod tests;

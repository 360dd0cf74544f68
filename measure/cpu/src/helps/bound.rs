//! How much of what is saved on the path arrives at its end. Pure.
//!
//! Along the path, from exec on, a gain is carried: how much earlier the path is than it was. Where it goes over to a
//! thread that was woken, that thread had begun to wait at some moment, and cannot be woken before it; but that moment,
//! too, is earlier by what the thread itself had gained when the path left it, or when it was made.

use crate::report::{Lane, LaneState, Report, StepRow};
use crate::waits::Kind;
use std::collections::{HashMap, HashSet};

/// A piece of the path, and what may be saved until its end.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    step: &'a StepRow,
    /// The path goes over to this thread, which had waited for so long.
    woken: Option<(u32, u64)>,
}

/// The path of a start, as a bound on gains.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    pieces: Vec<Piece<'a>>,
    lanes: HashMap<u32, &'a Lane>,
    /// Since when some of the waits lasted is not known: pieces of lanes were merged.
    is_loose: bool,
}

/// A thread waited for another on the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met<'a> {
    /// What for.
    pub kind: Kind,
    /// Who.
    pub woken: &'a Lane,
    /// For whom.
    pub waker: &'a Lane,
    /// Since when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

/// What arrives of a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrives {
    /// So much, in nanoseconds.
    pub ns: u64,
    /// Something else is waited for then, or may be.
    pub is_cut: bool,
}

impl<'a> Bound<'a> {
    /// Of a start.
    pub fn of(report: &'a Report) -> Self {
        let lanes: HashMap<u32, &Lane> = report.threads.iter().map(|lane| (lane.thread.tid, lane)).collect();
        let mut is_loose = false;
        let mut pieces = Vec::new();
        // Who looks on has no other work: a sign that comes earlier is seen earlier, whenever this wait for it began.
        let of_tree = |step: &StepRow| lanes.get(&step.tid).is_some_and(|lane| lane.of_tree);
        let last = report.steps.iter().rposition(of_tree);
        for (index, step) in report.steps.iter().enumerate() {
            let goes_over = step.link.is_some_and(|kind| kind != Kind::New) && last.is_none_or(|last| index < last);
            let next = report.steps.get(index + 1).filter(|_| goes_over);
            let woken = next.and_then(|next| {
                let waited = lanes.get(&next.tid).and_then(|lane| waited(lane, step.to_ns));
                is_loose |= waited.is_none();
                Some((next.tid, waited?))
            });
            pieces.push(Piece { step, woken });
        }
        Self { pieces, lanes, is_loose }
    }

    /// The lane of a thread.
    pub fn lane(&self, tid: u32) -> Option<&'a Lane> {
        self.lanes.get(&tid).copied()
    }

    /// Where the path comes back to a thread that waited, where it is known since when. A thread that it has not met
    /// yet had nothing to do: it is the others' work, and not its wait, that makes it late.
    pub fn met(&self) -> impl Iterator<Item = Met<'a>> {
        let mut seen = HashSet::new();
        self.pieces.iter().filter_map(move |piece| {
            seen.insert(piece.step.tid);
            let ((tid, waited), to_ns) = (piece.woken?, piece.step.to_ns);
            let (woken, waker) = (self.lane(tid).filter(|_| seen.contains(&tid))?, self.lane(piece.step.tid)?);
            Some(Met { kind: piece.step.link?, woken, waker, from_ns: to_ns - waited, to_ns })
        })
    }

    /// Name of the thread of a step.
    pub fn name(&self, step: &StepRow) -> &str {
        self.lane(step.tid).map_or("", |lane| &lane.thread.name)
    }

    /// Name of the thread outside of the tree that the path ends in: who waited for the program to be ready, thaw.
    pub fn observer(&self) -> Option<&'a str> {
        let lane = self.lane(self.pieces.last()?.step.tid)?;
        (!lane.of_tree).then_some(&lane.thread.name)
    }

    /// What arrives of these nanoseconds, which an owner has in steps of this kind.
    pub fn of_steps(&self, ns: u64, is_its: impl Fn(&StepRow) -> bool) -> Arrives {
        let took = |piece: &Piece<'_>| piece.step.to_ns - piece.step.from_ns;
        let all: u64 = self.pieces.iter().filter(|piece| is_its(piece.step)).map(took).sum();
        let left = self.carried(0, |piece| if is_its(piece.step) { took(piece) } else { 0 });
        // An owner may have a part of these steps alone, and other starts more of it than this one.
        let is_cut = left < all && left < ns;
        Arrives { ns: if is_cut { left } else { ns }, is_cut: is_cut || self.is_loose }
    }

    /// What arrives of what is saved before the program makes its first thread.
    pub fn of_beginning(&self, ns: u64) -> Arrives {
        let left = self.carried(ns, |_| 0);
        Arrives { ns: left, is_cut: left < ns || self.is_loose }
    }

    /// The gain at the end, of one at the beginning and of what each piece adds.
    fn carried(&self, first: u64, adds: impl Fn(&Piece<'_>) -> u64) -> u64 {
        let mut gain = first;
        let mut left_with: HashMap<u32, u64> = HashMap::new();
        let mut passed: Vec<(&StepRow, u64)> = Vec::new();
        for piece in &self.pieces {
            gain += adds(piece);
            left_with.insert(piece.step.tid, gain);
            passed.push((piece.step, gain));
            if let Some((tid, waited)) = piece.woken {
                let own = left_with.get(&tid).copied().unwrap_or_else(|| self.born_with(tid, first, &passed));
                gain = gain.min(own.saturating_add(waited));
            }
        }
        gain
    }

    /// The gain of a thread that the path has not met, when it was made.
    fn born_with(&self, tid: u32, first: u64, passed: &[(&StepRow, u64)]) -> u64 {
        let Some(lane) = self.lane(tid).filter(|lane| lane.of_tree) else { return 0 };
        let at = lane.pieces.first().map_or(0, |piece| piece.from_ns);
        let made =
            |(step, _): &&(&StepRow, u64)| Some(step.tid) == lane.made_by && (step.from_ns..=step.to_ns).contains(&at);
        passed.iter().find(made).map_or(first, |(_, gain)| *gain)
    }
}

/// How long a thread had waited that is woken at this time.
fn waited(lane: &Lane, at: u64) -> Option<u64> {
    let piece = lane.pieces.iter().find(|piece| piece.to_ns == at)?;
    matches!(piece.state, LaneState::Waits(_)).then(|| piece.to_ns - piece.from_ns)
}

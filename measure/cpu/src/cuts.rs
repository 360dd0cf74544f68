//! What threads and the path did, cut so fine that each piece has one stack: for pictures, flame graphs and exports.
//! Pure.
//!
//! A piece in which a thread runs is cut where another sample begins to speak for it, as owners are added up.

use crate::axis::{Axis, samples_by_life};
use crate::path::{Doing, Step, Whose};
use crate::states::{Piece, State, States};
use crate::trace::{Frame, Sample, StackId, Trace};
use crate::waits::{Kind, Waits};
use model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What is done in a piece, as finely as it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The program runs.
    User,
    /// The kernel runs for it.
    Kernel,
    /// It runs, and no sample says where.
    Runs,
    /// It could run, and has no CPU.
    LacksCpu,
    /// It waits.
    Waits(Kind),
    /// Not known.
    Unknown,
}

impl Seen {
    /// Whether the thread has a CPU.
    pub fn runs(self) -> bool {
        matches!(self, Self::User | Self::Kernel | Self::Runs)
    }
}

/// A piece of a thread's life, or of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// From then on.
    pub from: Nanos,
    /// Until then.
    pub to: Nanos,
    /// What is done.
    pub seen: Seen,
    /// Where: by the sample that speaks for it, or where the wait began.
    pub stack: Option<StackId>,
    /// The sample that speaks for it, of [`Trace::samples`].
    pub sample: Option<usize>,
}

/// Cuts the lives and the path of a trace.
pub struct Cutter<'a> {
    trace: &'a Trace,
    states: &'a States,
    samples: HashMap<usize, Vec<(usize, &'a Sample)>>,
    axes: HashMap<usize, Axis>,
    /// What waits are for.
    pub waits: Waits<'a>,
}

impl<'a> Cutter<'a> {
    /// Of a trace and what its threads did.
    pub fn of(trace: &'a Trace, states: &'a States) -> Self {
        let samples = samples_by_life(trace, states);
        Self { trace, states, samples, axes: HashMap::new(), waits: Waits::of(&trace.stacks) }
    }

    /// Samples of a life, by time, each with its number.
    pub fn samples(&self, life: usize) -> &[(usize, &'a Sample)] {
        self.samples.get(&life).map_or(&[], Vec::as_slice)
    }

    /// A life: its pieces lie side by side and fill it.
    pub fn life(&mut self, life: usize) -> Vec<Cut> {
        let states = self.states;
        let mut cuts = Vec::new();
        for piece in &states.lives[life].pieces {
            match piece.state {
                State::Running { .. } => self.running(life, piece.from, piece.to, &mut cuts),
                _ => {
                    let (seen, stack) = still(self.trace, &mut self.waits, piece);
                    cuts.push(Cut { from: piece.from, to: piece.to, seen, stack, sample: None });
                }
            }
        }
        cuts
    }

    /// A step of the path.
    pub fn step(&mut self, step: &Step) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let (seen, stack) = match step.whose {
            Whose::Running => {
                if let Some(life) = self.states.life_at(step.thread, step.to) {
                    self.running(life, step.from, step.to, &mut cuts);
                }
                return cuts;
            }
            Whose::Cpu { .. } | Whose::Other(Doing::LacksCpu) => (Seen::LacksCpu, None),
            Whose::Waits { kind, stack, .. } => (Seen::Waits(kind), stack),
            Whose::Other(Doing::Runs) => (Seen::Runs, None),
            Whose::Other(Doing::Waits) => (Seen::Waits(Kind::Unknown), None),
            Whose::Unexplained(_) => (Seen::Unknown, None),
        };
        cuts.push(Cut { from: step.from, to: step.to, seen, stack, sample: None });
        cuts
    }

    fn running(&mut self, life: usize, from: Nanos, to: Nanos, cuts: &mut Vec<Cut>) {
        let samples = self.samples.get(&life).map_or(&[][..], Vec::as_slice);
        let (states, tick) = (self.states, self.trace.tick);
        let axis = self.axes.entry(life).or_insert_with(|| Axis::of(&states.lives[life], samples, tick));
        let mut now = from;
        for cell in axis.cells(from, to) {
            let (seen, stack) = cell.sample.map_or((Seen::Runs, None), |sample| place(self.trace, sample));
            cuts.push(Cut { from: now, to: now + cell.ns, seen, stack, sample: cell.sample });
            now += cell.ns;
        }
    }
}

/// What a thread does in a piece, as far as it is known without samples, and where it began to wait.
pub fn still(trace: &Trace, waits: &mut Waits<'_>, piece: &Piece) -> (Seen, Option<StackId>) {
    match piece.state {
        State::Running { .. } => (Seen::Runs, None),
        State::Runnable { .. } => (Seen::LacksCpu, None),
        State::Unknown(_) => (Seen::Unknown, None),
        State::Waiting { wake: Some(wake), .. } if trace.wakes[wake].new => (Seen::Waits(Kind::New), None),
        State::Waiting { stack, .. } => (Seen::Waits(waits.wait(stack).kind), stack),
    }
}

/// Whose code a sample was in.
pub fn place(trace: &Trace, sample: usize) -> (Seen, Option<StackId>) {
    let Sample { stack, in_kernel, .. } = trace.samples[sample];
    let seen = match trace.stacks.walk(stack).next() {
        first if in_kernel || first.is_some_and(Frame::is_kernel) => Seen::Kernel,
        Some(_) => Seen::User,
        None => Seen::Runs,
    };
    (seen, stack)
}

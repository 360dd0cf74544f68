//! Which sample speaks for which time of a thread: samples lie on the axis of its CPU time, and each moment of it
//! belongs to the nearest one. Pure.

use crate::states::{Life, State, States};
use crate::trace::{Sample, Trace};
use model::Nanos;
use std::collections::HashMap;

/// So many ticks from a sample on it says nothing: in between others are missing.
const FAR: u64 = 8;

/// Samples by the life of their thread, each with its number.
pub fn samples_by_life<'a>(trace: &'a Trace, states: &States) -> HashMap<usize, Vec<(usize, &'a Sample)>> {
    let mut found: HashMap<usize, Vec<(usize, &Sample)>> = HashMap::new();
    for (index, sample) in trace.samples.iter().enumerate().filter(|(_, sample)| sample.at <= trace.ready) {
        if let Some(life) = states.life_at(sample.tid, sample.at) {
            found.entry(life).or_default().push((index, sample));
        }
    }
    found
}

/// The CPU time of a thread.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Where it ran, and how much CPU time it had had before.
    runs: Vec<(Nanos, Nanos, Nanos)>,
    /// CPU time that a sample speaks for, by time: from, to, which sample.
    cells: Vec<(Nanos, Nanos, usize)>,
}

/// CPU time of one sample, or of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How long.
    pub ns: Nanos,
    /// The sample that speaks for it; `None`: there is none near.
    pub sample: Option<usize>,
}

impl Axis {
    /// Of a life, and its samples by time with their numbers.
    pub fn of(life: &Life, samples: &[(usize, &Sample)], tick: Nanos) -> Self {
        let mut had = Nanos(0);
        let mut runs = Vec::new();
        for piece in life.pieces.iter().filter(|piece| matches!(piece.state, State::Running { .. })) {
            runs.push((piece.from, piece.to, had));
            had += piece.to - piece.from;
        }
        let mut axis = Self { runs, cells: Vec::new() };
        let at: Vec<u64> = samples.iter().map(|(_, sample)| axis.coordinate(sample.at).0).collect();
        let far = if tick == Nanos(0) { u64::MAX } else { tick.0.saturating_mul(FAR) };
        let middle = |left: u64, right: u64| left + (right - left) / 2;
        for (index, (number, _)) in samples.iter().enumerate() {
            let own = at[index];
            let from = if index == 0 { 0 } else { middle(at[index - 1], own) }.max(own.saturating_sub(far));
            let to = at.get(index + 1).map_or(had.0, |next| middle(own, *next)).min(own.saturating_add(far));
            axis.cells.push((Nanos(from), Nanos(to), *number));
        }
        axis
    }

    /// How much CPU time it had had at a moment.
    fn coordinate(&self, at: Nanos) -> Nanos {
        let index = self.runs.partition_point(|(from, ..)| *from <= at);
        match index.checked_sub(1).map(|index| self.runs[index]) {
            Some((from, to, had)) => had + (at.min(to) - from),
            None => Nanos(0),
        }
    }

    /// Who speaks for the time from when to when, in which it ran; the sum is that time.
    pub fn cells(&self, from: Nanos, to: Nanos) -> Vec<Cell> {
        let (mut now, end) = (self.coordinate(from), self.coordinate(to));
        let mut found = Vec::new();
        let first = self.cells.partition_point(|(_, to, _)| *to <= now);
        for (from, to, sample) in self.cells[first..].iter().take_while(|(from, ..)| *from < end) {
            let (from, to) = ((*from).max(now), (*to).min(end));
            if now < from {
                found.push(Cell { ns: from - now, sample: None });
            }
            if from < to {
                found.push(Cell { ns: to - from, sample: Some(*sample) });
            }
            now = now.max(to);
        }
        if now < end {
            found.push(Cell { ns: end - now, sample: None });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::Piece;
    use crate::trace::Thread;

    fn life(runs: &[(u64, u64)]) -> Life {
        let thread =
            Thread { tid: 1, pid: 1, name: String::new(), of_tree: true, made_by: None, start: Nanos(0), end: None };
        let state = State::Running { cpu: Some(0) };
        let piece = |(from, to): &(u64, u64)| Piece { from: Nanos(*from), to: Nanos(*to), state };
        Life { thread, from: Nanos(0), to: Nanos(1000), pieces: runs.iter().map(piece).collect() }
    }

    fn cells(runs: &[(u64, u64)], samples: &[u64], tick: u64, from: u64, to: u64) -> Vec<(u64, Option<usize>)> {
        let sample = |at: &u64| Sample { at: Nanos(*at), tid: 1, in_kernel: false, stack: None };
        let samples: Vec<Sample> = samples.iter().map(sample).collect();
        let numbered: Vec<(usize, &Sample)> = samples.iter().enumerate().collect();
        let axis = Axis::of(&life(runs), &numbered, Nanos(tick));
        axis.cells(Nanos(from), Nanos(to)).iter().map(|cell| (cell.ns.0, cell.sample)).collect()
    }

    #[test]
    fn each_moment_belongs_to_the_nearest_sample() {
        assert_eq!(cells(&[(0, 40)], &[10, 30], 20, 0, 40), [(20, Some(0)), (20, Some(1))]);
        assert_eq!(cells(&[(0, 40)], &[10, 30], 20, 15, 25), [(5, Some(0)), (5, Some(1))]);
        assert_eq!(cells(&[(0, 40)], &[], 20, 0, 40), [(40, None)]);
    }

    #[test]
    fn time_without_a_cpu_does_not_count() {
        let runs = [(0, 10), (500, 510)];
        assert_eq!(cells(&runs, &[8, 508], 10, 0, 10), [(10, Some(0))], "8 and 18 of 20: the middle is 13");
        assert_eq!(cells(&runs, &[8, 508], 10, 500, 510), [(3, Some(0)), (7, Some(1))]);
    }

    #[test]
    fn a_sample_does_not_speak_for_what_is_far() {
        assert_eq!(cells(&[(0, 500)], &[100], 10, 0, 500), [(20, None), (160, Some(0)), (320, None)]);
        assert_eq!(cells(&[(0, 500)], &[100], 0, 0, 500), [(500, Some(0))], "no tick is known");
    }
}

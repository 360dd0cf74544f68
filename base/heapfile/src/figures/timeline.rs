//! What was live over time, in at most [`MOST`] steps of equal length, however long it takes.

use super::Held;
use model::Nanos;
use serde::{Deserialize, Serialize};

/// Most steps.
const MOST: usize = 1024;
/// First length of a step, nanoseconds; a power of two.
const FIRST: u64 = 1 << 10;

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Live after its last event.
    pub live: Held,
    /// Most bytes live within it.
    pub max_bytes: u64,
    /// Bytes allocated since the beginning.
    pub allocated_bytes: u64,
    /// Blocks allocated since the beginning.
    pub allocations: u64,
}

/// Steps of equal length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of a step.
    pub step_ns: Nanos,
    /// The steps, from the beginning of the process to its last event.
    pub points: Vec<Point>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { step_ns: Nanos(FIRST), points: Vec::new() }
    }
}

impl Timeline {
    /// Enters what is live at a time.
    pub fn enter(&mut self, at: Nanos, live: Held, allocated_bytes: u64, allocations: u64) {
        while at.0 / self.step_ns.0 >= MOST as u64 {
            self.halve();
        }
        let step = (at.0 / self.step_ns.0) as usize;
        let last = self.points.last().copied().unwrap_or_default();
        // In a step without events, what was live stays live.
        let still = Point { max_bytes: last.live.bytes, ..last };
        if self.points.len() <= step {
            self.points.resize(step + 1, still);
        }
        let point = &mut self.points[step];
        let max_bytes = point.max_bytes.max(live.bytes);
        *point = Point { live, max_bytes, allocated_bytes, allocations };
    }

    fn halve(&mut self) {
        self.points = self
            .points
            .chunks(2)
            .map(|pair| {
                let last = pair[pair.len() - 1];
                Point { max_bytes: pair[0].max_bytes.max(last.max_bytes), ..last }
            })
            .collect();
        self.step_ns = Nanos(self.step_ns.0 * 2);
    }

    /// Whether it can be: steps that can be made longer.
    pub(crate) fn is_sound(&self) -> bool {
        self.step_ns.0.is_power_of_two() && self.step_ns.0 >= FIRST && self.points.len() <= MOST
    }

    /// When a step ends, since the process began.
    pub fn end_of(&self, step: usize) -> Nanos {
        Nanos(self.step_ns.0.saturating_mul(step as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_keeps_its_maximum_in_few_steps() {
        let mut timeline = Timeline::default();
        for second in 0..5000u64 {
            let bytes = if second == 1234 { 999 } else { second % 7 };
            timeline.enter(Nanos(second * 1_000_000_000), Held { bytes, blocks: 1 }, second, second);
        }
        assert!(timeline.points.len() <= MOST && timeline.points.len() > MOST / 4);
        let highest = timeline.points.iter().position(|point| point.max_bytes == 999).unwrap();
        let end = timeline.end_of(highest).0;
        assert!((end - timeline.step_ns.0..end).contains(&1_234_000_000_000));
        assert_eq!(timeline.points.last().unwrap().allocations, 4999);
    }
}

//! How far to read ahead of a record that is not in memory. Entries of one group lie side by side, and who reads two of
//! them reads the others: on a slow disk a few long requests take the time of a few short ones. Pure.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes at first; each time twice as many.
const FIRST: u64 = 128 << 10;
/// Bytes at most: what a disk of 200 requests and 100 MB a second reads in the time of one request.
const MOST: u64 = 512 << 10;
/// Bytes that are read before a record that lies before the others.
const BACK: u64 = 64 << 10;
/// A read so near to an earlier one goes on with it.
const NEAR: u64 = 256 << 10;
/// Groups that are read at the same time.
const RUNS: usize = 8;

/// Reads of one group that lay near one another.
struct Run {
    group: u64,
    segment: u32,
    /// What was read, or will have been.
    bytes: Range<u64>,
    /// How far the next read goes.
    next: u64,
}

/// The groups that are being read.
#[derive(Default)]
pub(crate) struct Ahead {
    runs: VecDeque<Run>,
}

impl Ahead {
    fn near(&mut self, segment: u32, at: u64) -> Option<usize> {
        let near = |run: &Run| run.segment == segment && at + NEAR >= run.bytes.start && at <= run.bytes.end + NEAR;
        self.runs.iter().position(near)
    }

    /// What to read when these bytes of a segment are read: what lies between others and them too.
    pub fn around(&mut self, segment: u32, bytes: &Range<u64>) -> Range<u64> {
        let Some(at) = self.near(segment, bytes.start) else { return bytes.clone() };
        let run = &self.runs[at];
        let back = bytes.start < run.bytes.start;
        let start = if back { bytes.start.saturating_sub(BACK) } else { bytes.start.min(run.bytes.end) };
        start..bytes.end.max(start + run.next)
    }

    /// These bytes were read, as [`Ahead::around`] said, for a record of a group.
    pub fn read(&mut self, segment: u32, bytes: Range<u64>, group: u64) {
        let run = self.near(segment, bytes.start).and_then(|at| self.runs.remove(at)).filter(|run| run.group == group);
        if group == 0 {
            return;
        }
        let run = match run {
            Some(run) => Run {
                bytes: run.bytes.start.min(bytes.start)..run.bytes.end.max(bytes.end),
                next: (2 * run.next).min(MOST),
                ..run
            },
            None => Run { group, segment, bytes, next: FIRST },
        };
        self.runs.push_front(run);
        self.runs.truncate(RUNS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a record of 10 kB, and tells what with it.
    fn read(ahead: &mut Ahead, segment: u32, at: u64, group: u64) -> Range<u64> {
        let bytes = ahead.around(segment, &(at..at + 10_000));
        ahead.read(segment, bytes.clone(), group);
        bytes
    }

    #[test]
    fn a_group_is_read_in_steps_that_grow_and_others_record_by_record() {
        let mut ahead = Ahead::default();
        let (mut at, mut steps) = (1 << 20, Vec::new());
        for gap in [0, 0, 0, 50_000, 0] {
            let bytes = read(&mut ahead, 1, at + gap, 7);
            steps.push(bytes.end - bytes.start);
            // Without a hole.
            assert_eq!(bytes.start, at);
            at = bytes.end;
        }
        assert_eq!(steps, [10_000, FIRST, 2 * FIRST, MOST, MOST]);
        let before = (1 << 20) - 20_000;
        assert_eq!(read(&mut ahead, 1, before, 7), before - BACK..before - BACK + MOST);
        // Not far away, nor in another segment.
        let alone = |at| at..at + 10_000;
        assert_eq!(read(&mut ahead, 2, at, 7), alone(at));
        assert_eq!(read(&mut ahead, 1, at + NEAR + 10_000, 7), alone(at + NEAR + 10_000));
    }

    #[test]
    fn what_is_of_another_group_or_of_none_ends_it() {
        let behind = 10_000 + FIRST;
        for (other, end) in [(0, behind + 10_000), (8, behind + FIRST)] {
            let mut ahead = Ahead::default();
            assert_eq!(read(&mut ahead, 1, 0, 7), 0..10_000);
            assert_eq!(read(&mut ahead, 1, 10_000, other), 10_000..behind);
            assert_eq!(read(&mut ahead, 1, behind, 7), behind..end);
        }
        let mut ahead = Ahead::default();
        (0..100).for_each(|at| assert_eq!(read(&mut ahead, 1, at * 10_000, 0), at * 10_000..(at + 1) * 10_000));
    }

    #[test]
    fn so_many_groups_at_the_same_time_are_followed() {
        let mut ahead = Ahead::default();
        for group in 1..=RUNS as u64 {
            read(&mut ahead, group as u32, 0, group);
        }
        (1..=RUNS as u64)
            .for_each(|group| assert_eq!(read(&mut ahead, group as u32, 10_000, group).end, 10_000 + FIRST));
        read(&mut ahead, 100, 0, 100);
        assert_eq!(read(&mut ahead, 1, 10_000 + FIRST, 1).end, 20_000 + FIRST);
    }
}

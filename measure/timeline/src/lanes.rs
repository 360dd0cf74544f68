//! What is innermost on each thread, and of each object, at each moment. Pure.

use crate::intervals::{Folded, Interval};
use std::cmp::Reverse;

/// No interval.
pub const NONE: u32 = u32::MAX;

/// A time in which one interval is the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub from: u64,
    pub to: u64,
    pub interval: u32,
}

/// Such times of one thread or object, in their order.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    parts: Vec<Part>,
    /// How long all parts up to each one last together.
    busy: Vec<u64>,
}

impl Lane {
    /// Of these times, which may lie in, beside or across one another: what began last is innermost.
    pub fn of(mut all: Vec<Part>) -> Self {
        all.retain(|part| part.from < part.to);
        all.sort_by_key(|part| (part.from, Reverse(part.to)));
        let (mut parts, mut open): (Vec<Part>, Vec<Part>) = (Vec::with_capacity(all.len()), Vec::new());
        let mut now = 0;
        let mut advance = |open: &mut Vec<Part>, until: u64| {
            while let Some(top) = open.last().copied() {
                if top.to > now && now < until {
                    parts.push(Part { from: now, to: top.to.min(until), interval: top.interval });
                    now = top.to.min(until);
                }
                if top.to > now {
                    break;
                }
                open.pop();
            }
            now = until;
        };
        for part in all {
            advance(&mut open, part.from);
            open.push(part);
        }
        advance(&mut open, u64::MAX);
        let busy = parts
            .iter()
            .scan(0_u64, |sum, part| {
                *sum += part.to - part.from;
                Some(*sum)
            })
            .collect();
        Self { parts, busy }
    }

    /// All parts, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The last part that begins before this moment.
    pub fn last_before(&self, at: u64) -> Option<Part> {
        let after = self.parts.partition_point(|part| part.from < at);
        after.checked_sub(1).map(|index| self.parts[index])
    }

    /// The part of this moment, or that ended at most `slack` before it.
    pub fn before(&self, at: u64, slack: u64) -> Option<Part> {
        self.last_before(at).filter(|part| part.to.saturating_add(slack) >= at)
    }

    /// How much of a time something was innermost, in nanoseconds.
    pub fn busy(&self, from: u64, to: u64) -> u64 {
        let up_to = |at: u64| {
            let after = self.parts.partition_point(|part| part.from < at);
            after.checked_sub(1).map_or(0, |index| {
                let part = self.parts[index];
                self.busy[index] - part.to.saturating_sub(at.max(part.from))
            })
        };
        up_to(to).saturating_sub(up_to(from))
    }
}

/// All threads and objects.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// By place of the thread: what it works on, and waits of which it does nothing else.
    pub threads: Vec<Lane>,
    /// By object; those of several threads at once have none.
    pub objects: Vec<Lane>,
    /// Of each interval: whether its work keeps its thread busy, from its beginning to its end.
    pub occupies: Vec<bool>,
    /// Of each interval whose work keeps its thread busy: the one around it there, or [`NONE`].
    pub around: Vec<u32>,
    /// By thread: whether works lie across one another there, so that it is no thread that does one thing at a time.
    pub is_track: Vec<bool>,
}

/// When the work of an interval begins and ends.
fn work(one: &Interval, end: u64) -> Option<(u64, u64, u32)> {
    one.exec.map(|(from, thread)| (from, one.done.unwrap_or(end), thread))
}

impl Lanes {
    /// Of all intervals but those that `is_left_out`. What has not ended lasts until `end`. Nothing keeps a thread busy
    /// that `is_track`.
    pub fn of(
        folded: &Folded,
        threads: usize,
        is_track: &dyn Fn(usize) -> bool,
        end: u64,
        is_left_out: &dyn Fn(u32) -> bool,
    ) -> Self {
        let all = &folded.intervals;
        let mut lanes = Self {
            occupies: vec![false; all.len()],
            around: vec![NONE; all.len()],
            is_track: (0..threads).map(is_track).collect(),
            ..Self::default()
        };
        let mut by_thread: Vec<Vec<Part>> = vec![Vec::new(); threads];
        let mut by_object: Vec<Vec<Part>> = vec![Vec::new(); folded.objects.len()];
        let mut waits: Vec<Vec<Part>> = vec![Vec::new(); threads];
        for (index, one) in all.iter().enumerate() {
            let (interval, manner) = (index as u32, folded.manners[index]);
            if is_left_out(interval) {
                continue;
            }
            if let Some((from, to, thread)) = work(one, end) {
                match manner.ended_on.is_none_or(|on| on == thread) {
                    true => by_thread[thread as usize].push(Part { from, to, interval }),
                    false => lanes.is_track[thread as usize] = true,
                }
            }
            if let (Some((from, thread)), true) = (one.wait, manner.is_blocking) {
                let to = one.exec.map_or_else(|| one.done.unwrap_or(end), |(at, _)| at);
                waits[thread as usize].push(Part { from, to, interval });
            }
            if !manner.is_shared {
                let (from, to) = (one.begin(), one.done.unwrap_or(end));
                by_object[one.object.0 as usize].push(Part { from, to, interval });
            }
        }
        for (thread, (mut works, waits)) in by_thread.into_iter().zip(waits).enumerate() {
            works.sort_by_key(|part| (part.from, Reverse(part.to)));
            if is_track(thread) || !lanes.nest(thread, &works) {
                lanes.threads.push(Lane::default());
                continue;
            }
            works.retain(|part| lanes.occupies[part.interval as usize]);
            works.extend(waits);
            lanes.threads.push(Lane::of(works));
        }
        lanes.objects = by_object.into_iter().map(Lane::of).collect();
        lanes
    }

    /// Which works lie in one another as those of a thread do, and in which. Says whether it is a thread: where more
    /// than a tenth lies across others, what does not is chance.
    fn nest(&mut self, thread: usize, works: &[Part]) -> bool {
        let mut open: Vec<Part> = Vec::new();
        works.iter().for_each(|part| self.occupies[part.interval as usize] = true);
        for part in works {
            while let Some(top) = open.last().copied() {
                if top.to <= part.from {
                    open.pop();
                } else if part.to > top.to {
                    // Across: neither keeps the thread.
                    self.occupies[top.interval as usize] = false;
                    self.occupies[part.interval as usize] = false;
                    self.is_track[thread] = true;
                    open.pop();
                } else {
                    break;
                }
            }
            open.push(*part);
        }
        open.clear();
        let across = works.iter().filter(|part| !self.occupies[part.interval as usize]).count();
        if across * 10 > works.len() {
            works.iter().for_each(|part| self.occupies[part.interval as usize] = false);
            return false;
        }
        for part in works.iter().filter(|part| self.occupies[part.interval as usize]).copied().collect::<Vec<_>>() {
            while open.last().is_some_and(|top| top.to <= part.from) {
                open.pop();
            }
            self.around[part.interval as usize] = open.last().map_or(NONE, |top| top.interval);
            open.push(part);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(all: &[(u64, u64)]) -> Lane {
        let part = |(index, (from, to)): (usize, &(u64, u64))| Part { from: *from, to: *to, interval: index as u32 };
        Lane::of(all.iter().enumerate().map(part).collect())
    }

    #[test]
    fn what_began_last_is_innermost_and_what_is_around_comes_back() {
        let seen = |all| lane(all).parts.iter().map(|part| (part.from, part.to, part.interval)).collect::<Vec<_>>();
        assert_eq!(seen(&[(0, 10), (2, 5), (7, 8)]), [(0, 2, 0), (2, 5, 1), (5, 7, 0), (7, 8, 2), (8, 10, 0)]);
        assert_eq!(seen(&[(0, 10), (5, 20), (30, 40)]), [(0, 5, 0), (5, 20, 1), (30, 40, 2)]);
        assert_eq!(seen(&[(5, 5), (0, 4), (0, 2)]), [(0, 2, 2), (2, 4, 1)]);
    }

    #[test]
    fn how_busy_a_time_was_is_counted_from_any_moment_to_any() {
        let lane = lane(&[(0, 10), (2, 5), (20, 30)]);
        assert_eq!((lane.busy(0, 100), lane.busy(4, 25), lane.busy(10, 20), lane.busy(25, 26)), (20, 11, 0, 1));
        assert_eq!(lane.before(32, 1), None);
        assert_eq!(lane.before(31, 1).map(|part| part.interval), Some(2));
        assert_eq!(lane.last_before(20).map(|part| part.to), Some(10));
    }
}

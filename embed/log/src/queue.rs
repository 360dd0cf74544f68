//! What the I/O thread does next: levels of priority, by place within a level, and nothing starves. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The levels, the first ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Opens and reads that a first paint waits for.
    UrgentRead,
    /// Flushes, clearing, visits.
    Manage,
    /// Other opens and reads.
    Read,
    /// Writes that somebody waits for.
    UrgentWrite,
    /// Other writes.
    Write,
    /// Start, snapshots of the index, footers, the commit.
    Index,
    /// Eviction.
    Evict,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; LEVELS] =
        [Level::UrgentRead, Level::Manage, Level::Read, Level::UrgentWrite, Level::Write, Level::Index, Level::Evict];
}

/// How many levels there are.
pub const LEVELS: usize = 7;
/// After so many steps of higher levels a level that waits has one.
pub const PATIENCE: u32 = 64;

/// Where a job's bytes lie: segment and offset.
pub type Place = (u32, u32);

/// Jobs, each known by a number.
#[derive(Default)]
pub struct Queue {
    /// Reads, by place.
    placed: [BTreeMap<(Place, u64), ()>; LEVELS],
    /// Jobs without a place, in the order they came.
    lined: [VecDeque<u64>; LEVELS],
    /// Where each placed job stands.
    known: HashMap<u64, (Level, Place)>,
    passed: [u32; LEVELS],
    head: Place,
}

impl Queue {
    /// Puts a job at the end of its level.
    pub fn line(&mut self, level: Level, job: u64) {
        self.lined[level as usize].push_back(job);
    }

    /// Puts a job back at the head of its level: it yielded.
    pub fn again(&mut self, level: Level, job: u64) {
        self.lined[level as usize].push_front(job);
    }

    /// Puts a read into its level by its place.
    pub fn place(&mut self, level: Level, place: Place, job: u64) {
        self.take(job);
        self.placed[level as usize].insert((place, job), ());
        self.known.insert(job, (level, place));
    }

    /// Takes a read out.
    pub fn take(&mut self, job: u64) -> bool {
        let Some((level, place)) = self.known.remove(&job) else { return false };
        self.placed[level as usize].remove(&(place, job)).is_some()
    }

    /// Gives a read that waits another level.
    pub fn raise(&mut self, job: u64, level: Level) -> bool {
        let Some((_, place)) = self.known.get(&job).copied() else { return false };
        self.place(level, place, job);
        true
    }

    /// The reads of a level that lie at a place or behind it, in that order.
    pub fn behind(&self, level: Level, place: Place) -> impl Iterator<Item = (Place, u64)> {
        self.placed[level as usize].range((place, 0)..).map(|(job, ())| *job)
    }

    /// Jobs at or above a level.
    pub fn ahead(&self, level: Level) -> usize {
        (0..=level as usize).map(|at| self.placed[at].len() + self.lined[at].len()).sum()
    }

    fn waits(&self, level: usize) -> bool {
        !(self.placed[level].is_empty() && self.lined[level].is_empty())
    }

    /// Takes out the first of a level's jobs without a place.
    pub fn first(&mut self, level: Level) -> Option<u64> {
        self.lined[level as usize].pop_front()
    }

    /// The next job, and its level.
    pub fn pop(&mut self) -> Option<(Level, u64)> {
        let first = (0..LEVELS).find(|level| self.waits(*level))?;
        let starved = (first + 1..LEVELS).find(|level| self.waits(*level) && self.passed[*level] >= PATIENCE);
        let chosen = starved.unwrap_or(first);
        self.passed[chosen] = 0;
        for level in chosen + 1..LEVELS {
            self.passed[level] = if self.waits(level) { self.passed[level] + 1 } else { 0 };
        }
        if let Some(job) = self.lined[chosen].pop_front() {
            return Some((Level::ALL[chosen], job));
        }
        // On in the direction of the last read; at the end from the start.
        let jobs = &self.placed[chosen];
        let ((place, job), ()) = jobs.range((self.head, 0)..).next().or_else(|| jobs.first_key_value())?;
        let (place, job) = (*place, *job);
        self.head = place;
        self.take(job);
        Some((Level::ALL[chosen], job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_read_goes_before_400_others_and_those_go_by_place() {
        let mut queue = Queue::default();
        for job in 0..400_u64 {
            queue.place(Level::Read, (1 + (job * 37 % 400) as u32, 0), job);
        }
        assert_eq!(queue.pop(), Some((Level::Read, 0)));
        queue.place(Level::UrgentRead, (7, 7), 1000);
        assert_eq!(queue.pop(), Some((Level::UrgentRead, 1000)));
        assert!(queue.raise(5, Level::UrgentRead) && queue.take(6) && !queue.take(6));
        assert_eq!(queue.pop(), Some((Level::UrgentRead, 5)));
        let rest: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(_, job)| job * 37 % 400).collect();
        assert_eq!(rest.len(), 397);
        let turns = rest.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert_eq!(turns, 1, "one way across the disk, and once back");
    }

    #[test]
    fn nothing_starves() {
        let mut queue = Queue::default();
        queue.line(Level::Evict, 1);
        for job in 10..1000 {
            queue.place(Level::UrgentRead, (1, 1), job);
        }
        let steps = std::iter::from_fn(|| queue.pop()).take_while(|(level, _)| *level != Level::Evict).count();
        assert_eq!(steps, PATIENCE as usize);
    }
}

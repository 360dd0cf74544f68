//! Whether an HTTP/2 connection goes on. Its streams share one connection, on which something may always move: a peer
//! that takes nothing is seen only by what it owes.

use crate::guard::Clocks;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What the clocks say of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Goes,
    /// Nothing was asked for too long.
    Idle,
    /// All that is under way waits for the client to take it, for too long.
    Stalled,
}

/// What moves on one connection.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    /// Milliseconds after `began`.
    moved: AtomicU64,
    /// Answers of which the client has to take a piece before the next one is asked for.
    owed: AtomicUsize,
}

impl Pace {
    /// Of a connection that begins.
    pub fn new(now: Instant) -> Self {
        Self { began: now, moved: AtomicU64::new(0), owed: AtomicUsize::new(0) }
    }

    /// Something moved.
    pub fn moved(&self, now: Instant) {
        self.moved.store((now - self.began).as_millis() as u64, Ordering::Release);
    }

    /// A piece of an answer was given to the connection.
    pub fn given(&self, now: Instant) {
        self.owed.fetch_add(1, Ordering::AcqRel);
        self.moved(now);
    }

    /// It was taken, or given up.
    pub fn taken(&self) {
        self.owed.fetch_sub(1, Ordering::AcqRel);
    }

    /// What the clocks say, where so many requests and tunnels are under way. Those that wait for an origin have clocks
    /// of their own.
    pub fn verdict(&self, under_way: usize, clocks: &Clocks, now: Instant) -> Verdict {
        let still = (now - self.began).saturating_sub(Duration::from_millis(self.moved.load(Ordering::Acquire)));
        let owed = self.owed.load(Ordering::Acquire);
        match under_way {
            0 if still >= clocks.idle => Verdict::Idle,
            1.. if owed >= under_way && still >= clocks.stall => Verdict::Stalled,
            _ => Verdict::Goes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_nothing_is_stalled_and_who_waits_is_not() {
        let seconds = Duration::from_secs;
        let clocks = Clocks { idle: seconds(10), head: seconds(1), stall: seconds(5) };
        let began = Instant::now();
        let pace = Pace::new(began);
        let verdict = |under_way, after| pace.verdict(under_way, &clocks, began + seconds(after));
        assert_eq!([verdict(0, 9), verdict(0, 10), verdict(1, 100)], [Verdict::Goes, Verdict::Idle, Verdict::Goes]);
        pace.given(began + seconds(20));
        assert_eq!([verdict(1, 24), verdict(1, 25)], [Verdict::Goes, Verdict::Stalled]);
        assert_eq!(verdict(2, 25), Verdict::Goes, "another one waits for its origin");
        pace.moved(began + seconds(25));
        assert_eq!([verdict(1, 29), verdict(1, 30)], [Verdict::Goes, Verdict::Stalled]);
        pace.taken();
        assert_eq!(verdict(1, 100), Verdict::Goes);
    }
}

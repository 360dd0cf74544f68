//! Single flight: requests for one key that wait for the answer to the first (RFC 9111 section 4, collapsed requests).
//! A table of who waits for whom; waking is the caller's.

use crate::key::Key;
use std::collections::HashMap;

/// What a request that comes to a key is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It is the first: it asks the origin and calls [`Flights::done`] in every case, also when its client is gone.
    Lead,
    /// It waits until `done` names it, then looks up again.
    Wait,
}

/// Requests on their way to the origin, and those that wait for them. `W` names a waiter for the caller.
#[derive(Debug)]
pub struct Flights<W> {
    of: HashMap<Key, Vec<W>>,
}

impl<W> Default for Flights<W> {
    fn default() -> Self {
        Flights { of: HashMap::new() }
    }
}

impl<W: PartialEq> Flights<W> {
    /// A request that [`lookup`](crate::Cache::lookup) wants to forward comes to a key. Only requests with
    /// [`Forward::may_wait`](crate::Forward::may_wait) are to ask; others go to the origin alone.
    pub fn join(&mut self, key: &Key, waiter: W) -> Joined {
        match self.of.get_mut(key) {
            Some(waiting) => {
                waiting.push(waiter);
                Joined::Wait
            }
            None => {
                self.of.insert(key.clone(), Vec::new());
                Joined::Lead
            }
        }
    }

    /// The leader has its answer: all who waited, to be woken. To be called as soon as the response's head says that
    /// it is not stored, else when a look-up can find it. What was not stored must be nobody else's answer: where
    /// `stored` is false, those who are woken go to the origin each for themselves and do not join again.
    pub fn done(&mut self, key: &Key, stored: bool) -> Vec<(W, Woken)> {
        let how = if stored { Woken::LookAgain } else { Woken::GoAlone };
        self.of.remove(key).unwrap_or_default().into_iter().map(|waiter| (waiter, how)).collect()
    }

    /// A waiter's client is gone.
    pub fn leave(&mut self, key: &Key, waiter: &W) {
        if let Some(waiting) = self.of.get_mut(key) {
            waiting.retain(|of| of != waiter);
        }
    }
}

/// What a woken waiter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Look up again; it may find itself another variant and lead or wait once more.
    LookAgain,
    /// Forward without joining.
    GoAlone,
}

//! Callers ask for many things one after the other: what comes in one burst is read or written in one go, as far as it
//! lies side by side.

use crate::log::Log;
use std::time::{Duration, Instant};
use thaw_log::queue::Level;

/// A burst has come to its end when nothing was asked for so long: a part of one read of the fastest disks, several
/// times what a caller needs for its next call.
const QUIET: Duration = Duration::from_micros(15);
/// It is not waited for longer.
const BURST: Duration = Duration::from_micros(300);

/// Lets the burst of calls come to its end that is under way, for a job of this level: none goes on when one waits that
/// is to be done before. Returns the last ticket; nothing is waited for if that is `settled`.
pub(crate) fn settle(log: &Log, settled: u64, level: Level) -> u64 {
    let began = Instant::now();
    let before = Level::ALL.into_iter().take_while(|other| *other < level).last();
    let (mut known, mut since) = (log.shared.lock().next, began);
    while known != settled && since.elapsed() < QUIET && began.elapsed() < BURST {
        std::thread::yield_now();
        let state = log.shared.lock();
        if before.is_some_and(|before| state.queue.ahead(before) > 0) {
            break;
        }
        if state.next != known {
            (known, since) = (state.next, Instant::now());
        }
    }
    known
}

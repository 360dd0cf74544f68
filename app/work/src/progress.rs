//! Whom the work tells what is going on. The app shows it; tests and other callers may not care.

use bench::conduct::Progress;
use std::time::Duration;

/// Somebody who is told.
pub trait Tell {
    /// A step outside the schedule, and for how long it has been going on.
    fn note(&mut self, what: &str, in_step: Duration);

    /// A step of the schedule; `names` are those of the variants.
    fn show(&mut self, now: &Progress, names: &[String]);

    /// Work on many files: how many are done, and what is done with them.
    fn files(&mut self, done: u64, of: u64, what: &'static str);

    /// There is nothing more to be told.
    fn done(&mut self);
}

/// Makes somebody who is told, for each piece of work that has a beginning and an end of its own.
pub type Telling<'a> = dyn Fn() -> Box<dyn Tell> + 'a;

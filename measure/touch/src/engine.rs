//! The engines behind one trait, and how precise each is.

use model::{Result, TouchEngine, TraceRows};

/// How precise an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// The smallest thing that it tells apart: `page`, `function`.
    pub unit: &'static str,
    /// What it can and cannot tell, as one sentence.
    pub says: &'static str,
}

/// How precise each engine is.
pub fn precision(engine: TouchEngine) -> Precision {
    match engine {
        TouchEngine::Page => Precision { unit: "page", says: "exactly the pages that the start requested, in order" },
        TouchEngine::Probe => Precision {
            unit: "page",
            says: "the pages that were in the cache after the start; it cannot tell what was needed from what was \
                read ahead, \
                   and knows no order",
        },
        TouchEngine::Function => Precision {
            unit: "function",
            says: "the first call of each function, in order; it cannot tell which part of a function ran",
        },
        TouchEngine::Byte => {
            Precision { unit: "byte", says: "every byte of every mapped file, in order of first touch" }
        }
    }
}

/// What looking at a start may have to do with its failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What was seen to have gone wrong by it.
    pub because: Option<String>,
    /// What to type instead.
    pub hint: String,
}

/// Looks at one start. The I/O room has tracers of page-cache fills, and the application lends them to [`Pages`] and
/// [`Probed`].
pub trait Trace {
    /// Starts looking at `pid` and everything that it will start. Call it after fork and before exec.
    fn attach(&mut self, pid: u32) -> Result<()>;
    /// Stops looking. `t0_monotonic_ns` is the moment just before exec.
    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows>;
    /// After a start that failed: what this way of looking may have to do with it. `None`: it changes nothing in a
    /// program.
    fn doubt(&self) -> Option<Doubt> {
        None
    }
}

/// A way of seeing what a start touches: what it saw is in `touches` of its rows.
pub trait Engine: Trace {
    /// Which one it is.
    fn kind(&self) -> TouchEngine;
}

/// The `page` engine: a tracer of fills, while the disks' read-ahead is 0. Who starts the program sees to that.
pub struct Pages<T>(pub T);

impl<T: Trace> Engine for Pages<T> {
    fn kind(&self) -> TouchEngine {
        TouchEngine::Page
    }
}

impl<T: Trace> Trace for Pages<T> {
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.0.attach(pid)
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows> {
        self.0.stop(t0_monotonic_ns).map(crate::pages)
    }
}

/// The `probe` engine: a tracer that evicts before the run and looks after it what is in the page cache.
pub struct Probed<T>(pub T);

impl<T: Trace> Engine for Probed<T> {
    fn kind(&self) -> TouchEngine {
        TouchEngine::Probe
    }
}

impl<T: Trace> Trace for Probed<T> {
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.0.attach(pid)
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows> {
        self.0.stop(t0_monotonic_ns).map(crate::resident_pages)
    }
}

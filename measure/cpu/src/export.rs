//! A start in the formats of other tools: where it ran, when it waited, and the path. Not for reading these formats.
//!
//! A format tells what it can: folded stacks and speedscope know samples alone; pprof knows sums, those of the path and
//! of waits among them; the Firefox Profiler has samples and waits as markers; Perfetto has what the scheduler did and
//! the path, and no stacks.

mod firefox;
mod folded;
mod perfetto;
mod pprof;
mod speedscope;

use crate::trace::{Sample, Thread, Trace};
use std::io::{self, Write};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `thread;outer;inner ns` a line: CPU time by samples.
    Folded,
    /// speedscope's JSON: samples of each thread.
    Speedscope,
    /// A processed profile of the Firefox Profiler.
    Firefox,
    /// pprof's protocol buffer, gzipped.
    Pprof,
    /// Perfetto's protocol buffer.
    Perfetto,
}

/// What a trace does not say of itself.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The program's name.
    pub name: &'a str,
    /// Wall-clock time of exec, in nanoseconds since 1970.
    pub started_unix_ns: u64,
}

/// Writes a start, from exec to ready.
///
/// # Errors
/// Those of `out`.
pub fn export(trace: &Trace, about: &About<'_>, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Folded => folded::write(trace, out),
        Format::Speedscope => speedscope::write(trace, about, out),
        Format::Firefox => firefox::write(trace, about, out),
        Format::Pprof => pprof::write(trace, about, out),
        Format::Perfetto => perfetto::write(trace, about, out),
    }
}

/// The threads of the tree, each with its samples until ready; a number that was given again has the samples of its
/// time.
fn sampled(trace: &Trace) -> Vec<(&Thread, Vec<&Sample>)> {
    let mut threads: Vec<(&Thread, Vec<&Sample>)> =
        trace.threads.iter().filter(|thread| thread.of_tree).map(|thread| (thread, Vec::new())).collect();
    for sample in trace.samples.iter().filter(|sample| sample.at <= trace.ready) {
        let own = |thread: &Thread| thread.tid == sample.tid;
        let last = threads.iter().rposition(|(thread, _)| own(thread) && thread.start <= sample.at);
        let found = last.or_else(|| threads.iter().position(|(thread, _)| own(thread)));
        if let Some(found) = found {
            threads[found].1.push(sample);
        }
    }
    threads
}

#[cfg(test)]
mod tests;

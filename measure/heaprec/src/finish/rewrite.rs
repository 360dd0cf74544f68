//! Entering the events of a stream into a finished file and into sums, in one pass, in which it may be interrupted.

use super::write::Writer;
use heapfile::event::{Brief, Process};
use heapfile::finished::{QUANTUM, Quantum};
use heapfile::reader::Events;
use heapfile::summary::Summary;
use model::Error;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Why it could not be done.
pub enum Broken {
    /// The events cannot be read, or not be told apart.
    Reading(Error),
    /// The finished file cannot be written.
    Writing(io::Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Reading(error)
    }
}

impl From<io::Error> for Broken {
    fn from(cause: io::Error) -> Self {
        Self::Writing(cause)
    }
}

/// Steps of time of a process's finished file, where so many ticks are a second.
pub fn quantum(process: &Process, rate: f64) -> Quantum {
    let ticks = NonZeroU64::new((QUANTUM.0 as f64 * rate / 1e9) as u64);
    Quantum { start: process.start_ticks, ticks: ticks.unwrap_or(NonZeroU64::MIN) }
}

/// The events of one process on their way.
pub struct Rewriting<W> {
    stream: PathBuf,
    summary: Summary,
    writer: Writer<W>,
    /// Those that were read and not entered: it is not full.
    batch: Vec<Brief>,
}

impl<W: Write> Rewriting<W> {
    /// Writes blocks of events to `out`, without the head of the file.
    pub fn new(process: &Process, quantum: Quantum, out: W) -> io::Result<Self> {
        let (stream, summary) = (process.file.clone(), Summary::new(process));
        Ok(Self { stream, summary, writer: Writer::new(out, quantum)?, batch: Vec::new() })
    }

    /// Enters some events; `false`: there are no more of them, or none so far.
    pub fn step(&mut self, events: &mut Events) -> Result<bool, Broken> {
        // Blocks of the file end between batches: full ones are the same however often reading came to an end.
        let more = events.fill(&mut self.batch)?;
        if more {
            self.enter(events)?;
        }
        Ok(more)
    }

    fn enter(&mut self, events: &Events) -> Result<(), Broken> {
        let Self { summary, writer, batch, .. } = self;
        if summary.live().is_full() {
            return Err(summary.live().full(&self.stream).into());
        }
        summary.begin(batch);
        for event in &*batch {
            let step = summary.enter(event, events.stacks());
            writer.enter(event, step, summary.live(), events)?;
        }
        writer.between(events)?;
        batch.clear();
        Ok(())
    }

    /// After the last event: the sums, how many events there were, and what was written to.
    pub fn end(mut self, events: &Events) -> Result<(Summary, u64, W), Broken> {
        if !self.batch.is_empty() {
            self.enter(events)?;
        }
        let (count, out) = self.writer.end(events)?;
        Ok((self.summary, count, out))
    }
}

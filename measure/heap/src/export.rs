//! Recordings in the formats of other tools. What needs only sums is made from [`Named`]; event logs read the events
//! once more as they are written.
//!
//! A format tells what it can: most know neither threads nor lifetimes. Not for reading these formats.

mod dhat;
mod dmd;
mod events;
mod firefox;
mod massif;
mod openmetrics;
mod pprof;
mod stacks;

use crate::dark::Blocks;
use crate::modes::{Heap, Measure, Split, Window};
use crate::named::Named;
use crate::symbols::Frame;
use heapfile::event::Process;
use heapfile::reader::Reader;
use heapfile::sums;
use model::{Error, Exit, Result, Warning};
use os::replace::{Existing, Rights};
use std::io::{self, Write};
use std::path::Path;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DMD's JSON, version 5.
    Dmd,
    /// DHAT's JSON, version 2.
    Dhat,
    /// pprof's protocol buffer, gzipped.
    Pprof,
    /// A processed profile of the Firefox Profiler.
    Firefox,
    /// heaptrack's interpreted events, version 3.
    Heaptrack,
    /// Massif's snapshots.
    Massif,
    /// Folded stacks.
    Folded,
    /// speedscope's JSON.
    Speedscope,
    /// LogAlloc's lines.
    LogAlloc,
    /// OpenMetrics' text.
    OpenMetrics,
}

impl Format {
    /// How sites must be split for it.
    pub fn split(self) -> Split {
        if self == Self::Dmd { Split::Size } else { Split::Stack }
    }

    /// Whether it is made of events: then only processes can be chosen.
    pub fn is_log(self) -> bool {
        matches!(self, Self::Heaptrack | Self::LogAlloc)
    }
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The recording, for event logs.
    pub reader: &'a Reader,
    /// Its sums, split as [`Format::split`] says.
    pub named: &'a Named,
    /// Which blocks, for formats that can tell one measure only.
    pub measure: Measure,
    /// The part of the recording's time, for event logs.
    pub window: Window,
}

impl<'a> Export<'a> {
    /// Writes a file; what it says otherwise than the program did.
    ///
    /// # Errors
    /// It cannot be written; the recording has no process.
    pub fn write(&self, format: Format, path: &Path, existing: Existing) -> Result<Vec<Warning>> {
        let main = self.main().ok_or_else(|| {
            Error::new(Exit::Data, "nothing to export", "the recording has no process").hint("thaw heap report")
        })?;
        if (format == Format::Dhat || format.is_log()) && self.named.processes.iter().any(Process::is_summed) {
            let why = "this format is a log of events, or wants the most of each stack at a time";
            return Err(sums::no_events(self.reader.directory(), why));
        }
        let mut otherwise = Vec::new();
        os::replace::write_by(path, Rights::Usual, existing, |out| match format {
            Format::Dmd => dmd::write(self, out),
            Format::Dhat => dhat::write(self, main, out),
            Format::Pprof => pprof::write(self, main, out),
            Format::Firefox => firefox::write(self, out),
            Format::Heaptrack => events::heaptrack(self, main, out),
            Format::Massif => massif::write(self, main, out),
            Format::Folded => stacks::folded(self.named, self.measure, out),
            Format::Speedscope => stacks::speedscope(self, out),
            Format::OpenMetrics => openmetrics::write(self.named, out),
            Format::LogAlloc => {
                otherwise.extend(events::logalloc(self, out)?);
                Ok(())
            }
        })?;
        Ok(otherwise)
    }

    /// The process that allocated most blocks.
    fn main(&self) -> Option<(&'a Process, &'a Heap)> {
        let heaps = self.named.processes.iter().zip(&self.named.heaps);
        heaps.min_by_key(|(process, heap)| (std::cmp::Reverse(heap.totals.allocations), process.id))
    }
}

/// DMD's dark matter: live blocks at the moment of a memory report, with what was reported of them.
///
/// # Errors
/// The file cannot be written.
pub fn dark_matter(blocks: &Blocks, path: &Path, existing: Existing) -> Result<()> {
    os::replace::write_by(path, Rights::Usual, existing, |out| dmd::dark_matter(blocks, out))
}

/// OpenMetrics' text.
pub fn metrics(named: &Named) -> Vec<u8> {
    let mut text = Vec::new();
    // Nothing fails that is written into memory.
    let _ = openmetrics::write(named, &mut text);
    text
}

/// Folded stacks of a measure, in bytes.
///
/// # Errors
/// The file cannot be written.
pub fn folded(named: &Named, measure: Measure, path: &Path, existing: Existing) -> Result<()> {
    os::replace::write_by(path, Rights::Usual, existing, |out| stacks::folded(named, measure, out))
}

/// The words of a process on one line.
fn command(process: &Process) -> String {
    let words: Vec<_> = process.cmdline.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").replace('\n', " ")
}

/// `function (file:line)`, or `(in object)` where no source is known.
fn described(frame: &Frame) -> String {
    match frame.source() {
        Some(source) => format!("{} ({source})", frame.label()),
        None => format!("{} (in {})", frame.label(), frame.object()),
    }
}

fn json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

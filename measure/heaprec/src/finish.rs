//! The finished form of a recording: each stream rewritten as one small file when its program has ended.
//!
//! It is smaller and quicker to read; what it looks like is told in `finished`. Killed at any moment, finishing leaves
//! each stream or its finished file.

mod settle;
mod write;

pub use heapfile::finished::QUANTUM;

use heapfile::event::{Brief, Process};
use heapfile::finished::Quantum;
use heapfile::form::{EVENTS, REACH, STREAM, SUMS, is_stream};
use heapfile::live::Live;
use heapfile::reader::{Events, Reader};
use heapfile::stream::{first_page, is_whole};
use heapfile::summary::Summary;
use model::{Error, Exit, Result, shown};
use os::replace::{Existing, Rights};
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Of zstd: chosen by measurement.
const LEVEL: i32 = 4;

/// What finishing did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Streams that were rewritten.
    pub streams: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes of these streams, all together.
    pub before: u64,
    /// Bytes of the finished files.
    pub after: u64,
    /// Processes that have sums in the place of events.
    pub sums: u64,
    /// Those of them whose sums do not have all events.
    pub cut: u64,
    /// Bytes of events that were not added up before thaw was killed, and cannot be any more: removed.
    pub left_out: u64,
}

/// Rewrites all streams of a recording whose processes have ended, and removes them; also those beside sums that a
/// killed thaw left: if a part of the stream was freed, the rest cannot be read without it.
///
/// Killed at any moment, it leaves each stream or its finished file, and does the rest when it is called again.
///
/// # Errors
/// The recording cannot be read, its directory cannot be written, a process still writes it.
pub fn finish(directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Finished> {
    let mut reader = Reader::open(directory)?;
    prepare(&reader)?;
    // Where thaw was killed early, the stream still has everything, and more than the sums.
    let summed = reader.processes().iter().filter(|process| process.is_summed());
    let mut again = false;
    for sums in summed.map(|process| &process.file) {
        let stream = sums.with_extension(STREAM);
        if stream.exists() && is_whole(&stream)? {
            remove(sums)?;
            again = true;
        }
    }
    if again {
        reader = Reader::open(directory)?;
    }
    let mut done = Finished::default();
    for process in reader.processes() {
        if is_stream(&process.file) {
            one(&reader, process, &mut done)?;
            progress(done.events);
        } else if process.is_summed() {
            let sums = settle::settle(process)?;
            done.sums += 1;
            done.cut += u64::from(!sums.whole);
            done.left_out += sums.left_out;
        }
    }
    Ok(done)
}

/// Sees that nobody writes a recording any more, and removes what finishing that was killed left.
///
/// # Errors
/// A process still writes it, its directory cannot be written.
pub fn prepare(reader: &Reader) -> Result<()> {
    let directory = reader.directory();
    is_own(directory)?;
    // If it ended properly, nobody is left.
    let recording = reader.recording();
    let over = recording.finished && recording.running.is_empty();
    let writer = if over { None } else { writer_of(directory) };
    if let Some(pid) = writer {
        return Err(Error::on(Exit::Usage, "the recording is still being written", directory)
            .because(format!("process {pid} has a stream of it open"))
            .hint("it can be read as it is; finish it when that process has ended"));
    }
    remove_leftovers(directory)
}

/// Root rewrites no recording of another user, who may put links in its way; nor one that others may write.
fn is_own(directory: &Path) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
    let (about, ours) = (directory.metadata().map_err(cannot)?, rustix::process::geteuid());
    if !ours.is_root() || about.uid() == ours.as_raw() && about.mode() & 0o022 == 0 {
        return Ok(());
    }
    let error = Error::on(Exit::Usage, "root does not rewrite a recording that others can change", directory);
    Err(match about.uid() {
        0 => error.because("others may write its directory").hint(format!("chmod 700 {}", shown(directory))),
        user => error.because(format!("it belongs to user {user}")).hint(format!(
            "finish it as that user: setpriv --reuid={user} --clear-groups thaw heap finish {}",
            shown(directory)
        )),
    })
}

/// A process that has a stream of this recording open or mapped.
fn writer_of(directory: &Path) -> Option<u32> {
    let directory = directory.canonicalize().ok()?;
    let is_stream = |path: &Path| path.starts_with(&directory) && is_stream(path);
    os::process::all().into_iter().find(|pid| {
        let mapped = os::process::maps(*pid).unwrap_or_default();
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        mapped.iter().any(|mapping| is_stream(&mapping.path))
            || open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| is_stream(&path))
    })
}

fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Removes a file for good: what is written next may count on it.
fn remove(path: &Path) -> Result<()> {
    os::replace::remove(path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", path).because(cause))
}

/// What a killed writer left, and streams whose finished files are there.
fn remove_leftovers(directory: &Path) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let half = |extension| name.starts_with('.') && name.contains(&format!(".{extension}.thaw-"));
        let done = is_stream(&path) && path.with_extension(EVENTS).exists();
        if half(EVENTS) || half(SUMS) || half(REACH) || done {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Rewrites one stream and removes it; its sums, and what gave its events, after the last one.
///
/// # Errors
/// The stream cannot be read or removed, its directory cannot be written.
pub fn one(reader: &Reader, process: &Process, done: &mut Finished) -> Result<(Summary, Events)> {
    let page = first_page(&process.file)?;
    let finished = process.file.with_extension(EVENTS);
    let (mut summary, mut events) = (Summary::new(process), reader.events(process.id)?);
    let ticks = (QUANTUM.0 as f64 * reader.rate() / 1e9) as u64;
    let quantum = Quantum { start: process.start_ticks, ticks: NonZeroU64::new(ticks).unwrap_or(NonZeroU64::MIN) };
    let mut failed = None;
    let written = os::replace::write_by(&finished, Rights::Private, Existing::Replace, |out| {
        let mut writer = write::Writer::new(out, &page, quantum, LEVEL)?;
        let mut batch = Vec::new();
        let mut more = |events: &mut Events, live: &Live, batch: &mut Vec<Brief>| {
            let more = events
                .next_few(batch)
                .and_then(|more| if live.is_full() { Err(live.full(&process.file)) } else { Ok(more) });
            more.map_err(|error| {
                failed = Some(error);
                io::Error::other("the stream cannot be read")
            })
        };
        while more(&mut events, summary.live(), &mut batch)? {
            summary.begin(&batch);
            for event in &batch {
                let step = summary.enter(event, events.stacks());
                writer.enter(event, step, summary.live(), &events)?;
            }
            writer.between(&events)?;
        }
        done.events += writer.end(&events)?;
        Ok(())
    });
    failed.map_or(written, Err)?;
    done.before += size_of(&process.file);
    done.after += size_of(&finished);
    done.streams += 1;
    remove(&process.file)?;
    Ok((summary, events))
}

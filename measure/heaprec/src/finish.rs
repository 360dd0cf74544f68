//! The finished form of a recording: each stream rewritten as one small file, while its program runs (`ahead`) and
//! when it has ended.
//!
//! It is smaller and quicker to read; what it looks like is told in `finished`. Killed at any moment, finishing leaves
//! each stream or its finished file.

pub(crate) mod ahead;
mod rewrite;
mod settle;
mod write;

pub use ahead::{Ahead, Ended, Following};
pub use heapfile::finished::QUANTUM;

use heapfile::event::Process;
use heapfile::form::{EVENTS, REACH, STREAM, SUMS, is_stream};
use heapfile::reader::{Events, Reader};
use heapfile::stream::{first_page, is_whole};
use heapfile::summary::Summary;
use model::{Error, Exit, Result, shown};
use os::replace::{Existing, Rights};
use rewrite::{Broken, Rewriting, quantum};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What finishing did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Streams that were rewritten.
    pub streams: u64,
    /// Those of them that were followed while their program ran: only the rest was read in the end.
    pub ahead: u64,
    /// Those that were followed in vain, because an event was written too late or something failed: they were
    /// rewritten as a whole in the end.
    pub again: u64,
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
    finish_ahead(directory, Ahead::default(), progress)
}

/// The same; what was done `ahead` is not done again.
///
/// # Errors
/// As [`finish`].
pub fn finish_ahead(directory: &Path, mut ahead: Ahead, progress: &mut dyn FnMut(u64)) -> Result<Finished> {
    let mut reader = Reader::open(directory)?;
    prepare(&reader, &ahead)?;
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
    for process in reader.processes() {
        let done = &mut ahead.done;
        if is_stream(&process.file) {
            one(&reader, process, &mut ahead)?;
            progress(ahead.done.events);
        } else if process.is_summed() {
            let sums = settle::settle(process)?;
            done.sums += 1;
            done.cut += u64::from(!sums.whole);
            done.left_out += sums.left_out;
        }
    }
    Ok(ahead.done)
}

/// Sees that nobody writes a recording any more, of which something was done `ahead`, and removes what finishing that
/// was killed left.
///
/// # Errors
/// A process still writes it, its directory cannot be written.
pub fn prepare(reader: &Reader, ahead: &Ahead) -> Result<()> {
    let directory = reader.directory();
    is_own(directory)?;
    // If it ended properly, nobody is left.
    let recording = reader.recording();
    let over = recording.finished && recording.running.is_empty();
    let writer = if over { None } else { writer_of(directory, ahead) };
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

/// A process that has a stream of this recording open or mapped; not this one, if it follows streams.
fn writer_of(directory: &Path, ahead: &Ahead) -> Option<u32> {
    let directory = directory.canonicalize().ok()?;
    let is_stream = |path: &Path| path.starts_with(&directory) && is_stream(path);
    let mut others = os::process::all().into_iter().filter(|pid| !ahead.follows() || *pid != std::process::id());
    others.find(|pid| {
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

/// Rewrites one stream and removes it; its sums, and what gave its events, after the last one. What was done `ahead`
/// is not done again.
///
/// # Errors
/// The stream cannot be read or removed, its directory cannot be written.
pub fn one(reader: &Reader, process: &Process, ahead: &mut Ahead) -> Result<(Summary, Events)> {
    let stream = &process.file;
    let half = ahead.take(stream);
    let begun = half.is_some();
    // A disk that is too full for it may have room without what was made ahead.
    let placed = half.and_then(|half| half.end(reader.rate())).and_then(|whole| whole.place(stream));
    let both = match placed {
        Some((whole, after)) => {
            ahead.done.add(&whole, after);
            (whole.summary, whole.events)
        }
        None => {
            ahead.done.again += u64::from(begun);
            from_stream(reader, process, &mut ahead.done)?
        }
    };
    remove(stream)?;
    Ok(both)
}

fn from_stream(reader: &Reader, process: &Process, done: &mut Finished) -> Result<(Summary, Events)> {
    let (page, quantum) = (first_page(&process.file)?, quantum(process, reader.rate()));
    let mut events = reader.events(process.id)?;
    let mut read = None;
    let after = place(&process.file, |out| {
        write::head(out, &page, quantum)?;
        let mut rewriting = Rewriting::new(process, quantum, out)?;
        while rewriting.step(&mut events)? {}
        let (summary, count, _) = rewriting.end(&events)?;
        read = Some((summary, count));
        Ok(())
    })?;
    let (summary, count) = read.ok_or_else(|| Error::bug("a finished file was written without its events"))?;
    done.streams += 1;
    done.events += count;
    done.before += size_of(&process.file);
    done.after += after;
    Ok((summary, events))
}

/// Makes the finished file of a stream, which `fill` writes; its size.
fn place(stream: &Path, fill: impl FnOnce(&mut dyn Write) -> std::result::Result<(), Broken>) -> Result<u64> {
    let finished = stream.with_extension(EVENTS);
    let mut failed = None;
    let written = os::replace::write_by(&finished, Rights::Private, Existing::Replace, |out| {
        fill(out).map_err(|broken| match broken {
            Broken::Writing(cause) => cause,
            Broken::Reading(error) => {
                failed = Some(error);
                io::Error::other("the stream cannot be read")
            }
        })
    });
    failed.map_or(written, Err)?;
    Ok(size_of(&finished))
}

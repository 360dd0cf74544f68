//! What is done once, when a recorded program has ended: the summary, the names of its functions, the finished form.
//! Each stream is read once.

use heap::report::{self, Report};
use heap::symbols::{self, Wanted};
use heapfile::form::is_stream;
use heapfile::reader::Reader;
use heapfile::summary::Summary;
use heaprec::finish::{self, Finished};
use model::{Error, Result};

/// What becomes of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// They are rewritten, if no process of the recording writes any more ([`heaprec::finish`]).
    Finish,
    /// They stay.
    Stay,
}

/// The part of concluding that is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Events are read, and rewritten.
    Reading,
    /// Functions are named.
    Naming,
}

/// What is known of a recording when it is concluded.
#[derive(Debug)]
pub struct Conclusion {
    /// The summary.
    pub report: Report,
    /// What finishing did; `None`: there was none.
    pub finished: Option<Finished>,
    /// How many addresses of code were looked up for their names.
    pub looked_up: usize,
    /// Why streams stay that should have been rewritten: the recording is whole all the same.
    pub failed: Option<Error>,
}

/// Concludes a recording.
///
/// # Errors
/// The recording cannot be read, the names cannot be written.
pub fn conclude(reader: &Reader, streams: Streams, progress: &mut dyn FnMut(Phase)) -> Result<Conclusion> {
    progress(Phase::Reading);
    let (mut finished, mut failed) = (None, None);
    // A program that was attached to goes on, without the stream; finishing looks whether anybody still has it.
    let recording = reader.recording();
    if streams == Streams::Finish && (recording.running.is_empty() || recording.attached) {
        match finish::prepare(reader) {
            Ok(()) => finished = Some(Finished::default()),
            Err(error) => failed = Some(error),
        }
    }
    let (mut processes, mut wanted) = (Vec::new(), Wanted::default());
    for process in reader.processes() {
        let rewritten = match finished.as_mut().filter(|_| failed.is_none() && is_stream(&process.file)) {
            Some(done) => finish::one(reader, process, done).map_err(|error| failed = Some(error)).ok(),
            None => None,
        };
        let (summary, events) = match rewritten {
            Some(both) => both,
            None => Summary::read(reader, process)?,
        };
        wanted.add(process, recording, &events, summary.leaking());
        processes.push(report::end(summary, process, &events, reader)?);
    }
    progress(Phase::Naming);
    let mut report = report::of_processes(reader, processes);
    let remembered = symbols::remember(reader.directory(), wanted)?;
    report.warnings.extend(remembered.warnings);
    report.name(&remembered.memory);
    Ok(Conclusion { report, finished, looked_up: remembered.looked_up, failed })
}

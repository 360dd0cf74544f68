//! What is done once for a fresh recording: the summary, the names of its functions, the finished form. Each stream is
//! read once, if that can be while the program runs.

use heap::report::{self, ProcessReport, Report};
use heap::symbols::{self, Wanted};
use heapfile::event::Process;
use heapfile::form::is_stream;
use heapfile::reader::{Events, Reader};
use heapfile::summary::Summary;
use heaprec::finish::{self, Ahead, Finished};
use model::{Error, Result, Warning};
use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::mpsc::{self, Receiver};

/// What becomes of the streams.
pub enum Streams {
    /// They are rewritten, if no process of the recording writes any more ([`heaprec::finish`]).
    Finish(Early),
    /// They stay.
    Stay,
}

/// What is done of it while the program runs.
#[derive(Default)]
pub struct Early {
    /// Finishes the streams.
    pub ahead: Ahead,
    /// What is said of processes that ended before the program, by the names of their files.
    said: Option<Receiver<(OsString, Said)>>,
}

impl Early {
    /// Nothing yet: for who records.
    pub fn new() -> Self {
        let (told, said) = mpsc::channel();
        let ended = move |process: &Process, summary: Summary, events: &Events| {
            // In the end nobody may listen any more. What cannot be said is read, and told, in the end.
            if let Ok(known) = Said::of(process, summary, events) {
                let _ = told.send((name(process), known));
            }
        };
        Self { ahead: Ahead::new(Box::new(ended)), said: Some(said) }
    }

    fn said(&mut self) -> HashMap<OsString, Said> {
        self.said.take().map(|said| said.try_iter().collect()).unwrap_or_default()
    }
}

/// The name of a process's files, which is the same whatever they are.
fn name(process: &Process) -> OsString {
    process.file.file_stem().unwrap_or_default().to_owned()
}

/// What is said of a process.
struct Said {
    report: ProcessReport,
    doubts: Vec<Warning>,
    wanted: Wanted,
}

impl Said {
    fn of(process: &Process, summary: Summary, events: &Events) -> Result<Self> {
        let mut wanted = Wanted::default();
        wanted.add(process, events, summary.leaking());
        let (report, doubts) = report::end(summary, process, events)?;
        Ok(Self { report, doubts, wanted })
    }
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
    let (mut early, mut failed) = (None, None);
    let mut said = HashMap::new();
    // A program that was attached to goes on, without the stream; finishing looks whether anybody still has it.
    let recording = reader.recording();
    if let Streams::Finish(mut begun) = streams {
        said = begun.said();
        if recording.running.is_empty() || recording.attached {
            match finish::prepare(reader, &begun.ahead) {
                Ok(()) => early = Some(begun.ahead),
                Err(error) => failed = Some(error),
            }
        }
    }
    let (mut processes, mut wanted) = (Vec::new(), Wanted::default());
    for process in reader.processes() {
        let said = match said.remove(&name(process)) {
            Some(said) => said,
            None => {
                let rewritten = match early.as_mut().filter(|_| failed.is_none() && is_stream(&process.file)) {
                    Some(ahead) => finish::one(reader, process, ahead).map_err(|error| failed = Some(error)).ok(),
                    None => None,
                };
                let (summary, events) = match rewritten {
                    Some(both) => both,
                    None => Summary::read(reader, process)?,
                };
                Said::of(process, summary, &events)?
            }
        };
        wanted.extend(process.id, said.wanted);
        processes.push((said.report, said.doubts));
    }
    progress(Phase::Naming);
    let mut report = report::of_processes(reader, processes);
    let remembered = symbols::remember(reader.directory(), recording, wanted)?;
    report.warnings.extend(remembered.warnings);
    report.name(&remembered.memory);
    let finished = early.map(|ahead| ahead.done);
    Ok(Conclusion { report, finished, looked_up: remembered.looked_up, failed })
}

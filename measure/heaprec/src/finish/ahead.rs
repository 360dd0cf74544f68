//! Finishing while the program runs: each stream is followed, and its events entered into the finished file as they
//! come. When the program has ended, only the rest is to be done.
//!
//! The order of events is that of their time, but a thread that was kept from running writes one later than it was. So
//! they are entered when they are [`MARGIN`] old, and if one comes later still, all that was made of its stream is
//! thrown away: the stream is whole, and is finished in the end as if nobody had followed it. The same is done if
//! anything else fails.
//!
//! What was made lies in a file without a name, so that nothing is left of it when thaw is killed; the finished file
//! comes to be as all do ([`super::place`]), when its process has ended. The stream of one that ends before the program
//! stays beside it until then: guests and thaw know by the names of streams which are taken.

use super::Finished;
use super::rewrite::{Broken, Rewriting, quantum};
use super::write::head;
use crate::clock::Clock;
use crate::follow::{Stream, Streams};
use heapfile::event::Process;
use heapfile::finished::Quantum;
use heapfile::form::EVENTS;
use heapfile::reader::Events;
use heapfile::stream::{AfterRead, first_page};
use heapfile::summary::Summary;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How old events are when they are entered: a busy machine lets a thread wait for some hundredths of a second.
const MARGIN: Duration = Duration::from_millis(100);
/// How often is read on.
const EVERY: Duration = Duration::from_millis(50);
/// Streams that are followed at a time, which bounds memory and open files: further ones wait until one of these has
/// ended. A machine that runs more processes at once has no idle core anyway.
const MOST: usize = 32;

/// What is told of a process that has ended: its sums, and what gave its events.
pub type Ended = Box<dyn FnMut(&Process, Summary, &Events) + Send>;

/// What was made of the streams of a recording while its program ran.
pub struct Ahead {
    /// Streams of processes that go on, by name.
    begun: HashMap<OsString, Half>,
    ended: Ended,
    /// What was done.
    pub done: Finished,
}

impl Default for Ahead {
    fn default() -> Self {
        Self::new(Box::new(|_, _, _| {}))
    }
}

impl Ahead {
    /// Nothing so far; `ended` is told of each process that ends before the program.
    pub fn new(ended: Ended) -> Self {
        Self { begun: HashMap::new(), ended, done: Finished::default() }
    }

    /// Whether it has streams open.
    pub(super) fn follows(&self) -> bool {
        !self.begun.is_empty()
    }

    /// What was made of a stream, if anything.
    pub(super) fn take(&mut self, stream: &Path) -> Option<Half> {
        self.begun.remove(stream.file_name()?)
    }
}

/// The finished file of a process as far as its stream is read.
pub(super) struct Half {
    stream: Stream,
    quantum: Quantum,
    rewriting: Rewriting<BufWriter<File>>,
}

/// All of it, but for the head of the file.
pub(super) struct Whole {
    pub summary: Summary,
    pub events: Events,
    pub count: u64,
    /// Bytes of the stream.
    pub before: u64,
    quantum: Quantum,
    blocks: File,
}

impl Half {
    fn begin(stream: Stream, rate: f64) -> io::Result<Self> {
        let process = &stream.process;
        let path = os::file::name_beside(&process.file.with_extension(EVENTS));
        let blocks = os::file::create_private(&path)?;
        fs::remove_file(&path)?;
        let quantum = quantum(process, rate);
        let rewriting = Rewriting::new(process, quantum, BufWriter::new(blocks))?;
        Ok(Self { quantum, rewriting, stream })
    }

    /// Enters what is older than `limit`; whether there was anything. `None`: it does not hold.
    fn advance(&mut self, limit: u64, stop: &AtomicBool) -> Option<bool> {
        let Self { stream, rewriting, .. } = self;
        stream.events.advance(limit).ok()?;
        let mut some = false;
        while stream.events.late() == 0 {
            if !rewriting.step(&mut stream.events).ok()? || stop.load(Ordering::Relaxed) {
                return Some(some);
            }
            some = true;
        }
        None
    }

    /// Enters the rest, when nobody writes any more and `rate` ticks are a second; `None`: it does not hold.
    pub(super) fn end(self, rate: f64) -> Option<Whole> {
        let Self { mut stream, quantum, mut rewriting } = self;
        stream.events.advance(u64::MAX).ok()?;
        if stream.events.late() > 0 {
            return None;
        }
        while rewriting.step(&mut stream.events).ok()? {}
        let before = stream.events.consumed();
        stream.events.close();
        stream.events.retime(rate);
        // Where a stream is damaged, reading it as a whole decides what there is.
        if !stream.events.warnings().is_empty() {
            return None;
        }
        let (summary, count, out) = rewriting.end(&stream.events).ok()?;
        let mut blocks = out.into_inner().ok()?;
        blocks.rewind().ok()?;
        Some(Whole { summary, events: stream.events, count, before, quantum, blocks })
    }
}

impl Finished {
    /// One more stream.
    pub(super) fn add(&mut self, whole: &Whole, after: u64) {
        self.streams += 1;
        self.ahead += 1;
        self.events += whole.count;
        self.before += whole.before;
        self.after += after;
    }
}

impl Whole {
    /// Writes the finished file of this stream, and its size; `None`: it cannot.
    pub(super) fn place(mut self, stream: &Path) -> Option<(Self, u64)> {
        let page = first_page(stream).ok()?;
        let placed = super::place(stream, |mut out| {
            head(&mut out, &page, self.quantum)?;
            io::copy(&mut self.blocks, &mut out).map_err(Broken::Writing)?;
            Ok(())
        });
        Some((self, placed.ok()?))
    }
}

/// Follows the streams of a recording.
pub struct Following {
    streams: Streams,
    halves: Vec<Half>,
    ahead: Ahead,
}

impl Following {
    /// For a recording that began at `first_ticks`.
    pub fn new(directory: &Path, first_ticks: u64, ahead: Ahead) -> Self {
        Self { streams: Streams::new(directory, first_ticks, AfterRead::Kept), halves: Vec::new(), ahead }
    }

    /// Reads on to this moment, or until it shall `stop`; `rate` ticks are a second. What fails is done in the end, and
    /// says then why.
    pub fn poll(&mut self, limit: u64, rate: f64, stop: &AtomicBool) {
        let room = MOST - self.halves.len();
        let found = self.streams.discover(rate, room).unwrap_or_default();
        self.halves.extend(found.into_iter().filter_map(|stream| Half::begin(stream, rate).ok()));
        for mut half in std::mem::take(&mut self.halves) {
            match half.advance(limit, stop) {
                None => self.ahead.done.again += 1,
                Some(read) if stop.load(Ordering::Relaxed) || half.stream.goes_on(read) => self.halves.push(half),
                Some(_) => self.end(half, rate),
            }
        }
    }

    /// A process has ended while the program goes on.
    fn end(&mut self, half: Half, rate: f64) {
        let path = half.stream.process.file.clone();
        let process = self.streams.process_of(&half.stream, rate);
        let placed = half.end(rate).and_then(|whole| whole.place(&path));
        let (Ok(process), Some((whole, after))) = (process, placed) else {
            self.ahead.done.again += 1;
            return;
        };
        self.ahead.done.add(&whole, after);
        (self.ahead.ended)(&process, whole.summary, &whole.events);
    }

    /// What was made.
    pub fn stop(mut self) -> Ahead {
        let by_name = |half: Half| Some((half.stream.process.file.file_name()?.to_owned(), half));
        self.ahead.begun.extend(self.halves.into_iter().filter_map(by_name));
        self.ahead
    }
}

/// The thread that follows.
pub(crate) struct Thread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ahead>>,
}

impl Thread {
    /// Starts it.
    pub(crate) fn start(directory: &Path, clock: Clock, ahead: Ahead) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut following) = (Arc::clone(&stop), Following::new(directory, clock.ticks, ahead));
        let thread = std::thread::Builder::new().name("finish".into()).spawn(move || {
            os::threads::step_back();
            while !stopped.load(Ordering::Relaxed) {
                following.poll(clock.before(MARGIN), clock.rate(), &stopped);
                std::thread::park_timeout(EVERY);
            }
            following.stop()
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends it: what it made.
    pub(crate) fn end(mut self) -> Option<Ahead> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Ahead> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

//! Long runs: the streams are added up while the program writes them, and what was read is freed on the disk.
//!
//! What is live and what each site adds up to is kept here, in thaw; nothing grows in the recorded process. Each stream
//! gets a file of sums beside it, written anew from time to time, and goes when its process has ended.
//! The file is described in [`heapfile::sums`]. Not for questions that need every event: moments, marks, threads, logs,
//! growth.

mod late;

use crate::clock::Clock;
use crate::follow::{Stream, Streams};
use heap_wire::{FileHeader, PAGE};
use heapfile::books::Books;
use heapfile::event::{Event, ThreadId, What};
use heapfile::figures::{MissingFrames, Split, Window};
use heapfile::form::SUMS;
use heapfile::stack::{End, StackId};
use heapfile::stream::{AfterRead, first_page, held_back, punch};
use heapfile::sums::{self, Added, Sums, Whole};
use late::Late;
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Events younger than this may still be on their way into a stream, because their thread does not run.
const MARGIN: Duration = Duration::from_millis(500);
/// How often sums are written, if that takes no more than a [`SHARE`]th of the time.
const WRITE_EVERY: Duration = Duration::from_secs(10);
const SHARE: u32 = 20;
/// After so many events the process is told how far it is read, if it is.
const TELL_EVERY: u64 = 4096;

/// States of the sums that stay, so that moments of a long run can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// How far they are apart.
    pub every: Duration,
    /// How long each is kept.
    pub keep: Duration,
}

/// Adds up all streams of a recording while they grow.
pub(crate) struct Aggregator {
    streams: Streams,
    open: Vec<Followed>,
    /// Streams that are read to their ends. They stay until the program ends, freed but for their heads: a process that
    /// executes another program takes the first name that is free.
    read: Vec<PathBuf>,
    states: Option<States>,
    /// When the next states are written.
    state_at: Instant,
    /// States that are there, the oldest first.
    kept: VecDeque<(Instant, PathBuf)>,
}

impl Aggregator {
    /// Finds out first whether the file system can free parts of files.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn new(directory: &Path, first_ticks: u64, states: Option<States>) -> Result<Self> {
        let path = os::file::name_beside(&directory.join("hole"));
        let cannot = |cause| Error::on(Exit::Machine, "cannot write", &path).because(cause);
        let file = File::create_new(&path).map_err(cannot)?;
        let holes = file.set_len(PAGE as u64).map_err(cannot).and_then(|()| punch(&file, &path, 0, PAGE as u64));
        fs::remove_file(&path).map_err(cannot)?;
        holes.map_err(|error| Error { object: shown(directory), ..error })?;
        let streams = Streams::new(directory, first_ticks, AfterRead::Freed);
        let state_at = Instant::now() + states.map_or(Duration::ZERO, |states| states.every);
        Ok(Self { streams, open: Vec::new(), read: Vec::new(), states, state_at, kept: VecDeque::new() })
    }

    /// Takes what there is, but for the youngest events.
    ///
    /// # Errors
    /// A stream cannot be read, sums cannot be written.
    pub(crate) fn poll(&mut self, clock: &Clock) -> Result<()> {
        let limit = clock.before(MARGIN);
        self.discover(clock)?;
        let mut index = 0;
        while let Some(stream) = self.open.get_mut(index) {
            if stream.advance(limit)? {
                index += 1;
            } else {
                self.read.push(self.open.swap_remove(index).take_rest(Whole::Yes)?);
            }
        }
        self.keep_states(clock, limit)
    }

    /// Writes a state of each process's sums if it is time, and removes those that are too old.
    fn keep_states(&mut self, clock: &Clock, limit: u64) -> Result<()> {
        let Some(states) = self.states.filter(|_| Instant::now() >= self.state_at) else { return Ok(()) };
        let ticks = limit.saturating_sub(self.streams.first_ticks);
        let at = Duration::from_secs_f64(ticks as f64 / clock.rate());
        if at.as_millis() == 0 {
            // Nothing is that old yet.
            return Ok(());
        }
        let now = Instant::now();
        for stream in &mut self.open {
            stream.late.settle(limit, &mut stream.books);
            let path = sums::state(&stream.stream.process.file, at);
            // The sums beside it become the same: so who looks now sees it, too.
            stream.write_beside(&[&path], Whole::No)?;
            self.kept.push_back((now, path));
        }
        while let Some((_, path)) = self.kept.front().filter(|(made, _)| now.duration_since(*made) > states.keep) {
            fs::remove_file(path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", path).because(cause))?;
            self.kept.pop_front();
        }
        self.state_at = now + states.every;
        Ok(())
    }

    /// Takes all that there is; how many streams there were. Those that are still being written, by processes that run
    /// (`running`), stay: what comes is not looked at any more.
    ///
    /// # Errors
    /// As [`Aggregator::poll`].
    pub(crate) fn end(mut self, clock: &Clock, running: &[u32]) -> Result<usize> {
        self.discover(clock)?;
        for stream in self.open {
            // Asked first: what nobody writes any more is complete.
            if !running.is_empty() && stream.stream.is_written() {
                stream.take_rest(Whole::No)?;
            } else {
                self.read.push(stream.take_rest(Whole::Yes)?);
            }
        }
        for path in self.read {
            fs::remove_file(&path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", &path).because(cause))?;
        }
        Ok(self.streams.count())
    }

    fn discover(&mut self, clock: &Clock) -> Result<()> {
        for stream in self.streams.discover(clock.rate(), usize::MAX)? {
            self.open.push(Followed::open(stream)?);
        }
        Ok(())
    }
}

/// One stream that is being added up.
struct Followed {
    stream: Stream,
    books: Books,
    late: Late,
    threads: HashSet<ThreadId>,
    /// How a stack ended, and whether frames are missing in it.
    ends: HashMap<StackId, (End, bool)>,
    missing: MissingFrames,
    /// What the process was told that is read.
    consumed: u64,
    /// When sums are written next.
    write_at: Instant,
}

impl Followed {
    /// Its sums are there before anything of it is freed.
    fn open(stream: Stream) -> Result<Self> {
        let process = &stream.process;
        let mut books = Books::new(process.origin, Nanos(0), Window::default(), Split::Size);
        books.sampled = process.sample_bytes > 0;
        let mut followed = Self {
            stream,
            books,
            late: Late::default(),
            threads: HashSet::new(),
            ends: HashMap::new(),
            missing: MissingFrames::default(),
            consumed: 0,
            write_at: Instant::now(),
        };
        followed.write(Whole::No)?;
        Ok(followed)
    }

    /// Takes the events up to this moment; `false`: nobody writes it any more.
    fn advance(&mut self, limit: u64) -> Result<bool> {
        self.stream.events.advance(limit)?;
        self.tell()?;
        let mut count = 0u64;
        while let Some(event) = self.stream.events.next()? {
            count += 1;
            self.enter(&event);
            if count.is_multiple_of(TELL_EVERY) {
                self.tell()?;
            }
        }
        self.tell()?;
        if Instant::now() >= self.write_at {
            self.late.settle(limit, &mut self.books);
            self.write(Whole::No)?;
        }
        Ok(self.stream.goes_on(count > 0))
    }

    /// Tells the process how far its stream is read, if it was read on.
    fn tell(&mut self) -> Result<()> {
        let consumed = self.stream.events.consumed();
        if consumed > self.consumed {
            self.consumed = consumed;
            let place = offset_of!(FileHeader, consumed) as u64;
            self.stream
                .file
                .write_all_at(&consumed.to_le_bytes(), place)
                .map_err(|cause| Error::on(Exit::Machine, "cannot write", &self.stream.process.file).because(cause))?;
        }
        Ok(())
    }

    fn enter(&mut self, event: &Event) {
        if let What::Alloc { count, .. } = event.what {
            self.threads.insert(event.thread);
            if let Some(stack) = event.stack {
                let stacks = self.stream.events.stacks();
                let look = || (stacks.ended(stack), stacks.skips(stack));
                let (end, skips) = *self.ends.entry(stack).or_insert_with(look);
                self.missing.add(end, skips, count);
            }
        }
        self.late.enter(event, &mut self.books);
    }

    /// Takes all that is there; which file it is.
    fn take_rest(mut self, whole: Whole) -> Result<PathBuf> {
        self.stream.events.advance(u64::MAX)?;
        while let Some(event) = self.stream.events.next()? {
            self.enter(&event);
        }
        self.stream.events.close();
        self.late.settle(u64::MAX, &mut self.books);
        self.write(whole)?;
        Ok(self.stream.process.file)
    }

    /// Whether thaw was too slow for the process.
    fn held_back(&self, page: &[u8]) -> Option<Warning> {
        let head = held_back(page)?;
        let who = format!("process {}", self.stream.process.pid);
        if head.restless != 0 {
            let why = std::io::Error::from_raw_os_error(head.restless as i32);
            let text = format!("{who} may not wait for thaw ({why}): its stream grew where thaw was too slow");
            return Some(Warning::new(WarningKind::Note, text));
        }
        let waited = Duration::from_nanos(head.pauses.saturating_mul(heap_wire::follow::PAUSE_NS));
        (head.pauses > 0).then(|| {
            let text =
                format!("the threads of {who} waited {waited:.1?} in all, because thaw read its events more slowly");
            Warning::new(WarningKind::Note, text)
        })
    }

    fn write(&mut self, whole: Whole) -> Result<()> {
        self.write_beside(&[], whole)
    }

    /// The sums, and other files that are the same.
    fn write_beside(&mut self, more: &[&Path], whole: Whole) -> Result<()> {
        let began = Instant::now();
        let mut warnings = self.stream.events.warnings().to_vec();
        warnings.extend(self.stream.events.remarks(&self.stream.process));
        if self.late.count > 0 {
            let text = format!(
                "process {}: {} events came out of order and were put right",
                self.stream.process.pid, self.late.count
            );
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        // What it says of losses may have changed.
        let page = first_page(&self.stream.process.file)?;
        warnings.extend(self.held_back(&page));
        let books = &mut self.books;
        let added = Added {
            sites: books.sites(),
            totals: *books.ledger.totals(),
            peak: books.peak,
            peak_at: books.peak_at,
            last: books.last,
            timeline: books.timeline.clone(),
            threads: self.threads.len() as u64,
            missing: self.missing,
            warnings,
            whole,
        };
        let sums = Sums::of(added, self.stream.events.stacks(), self.stream.events.modules());
        let own = self.stream.process.file.with_extension(SUMS);
        let all: Vec<&Path> = more.iter().copied().chain([own.as_path()]).collect();
        sums.write(&all, &page)?;
        self.write_at = Instant::now() + WRITE_EVERY.max(began.elapsed() * SHARE);
        Ok(())
    }
}

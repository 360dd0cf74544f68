//! Long runs: the streams are added up while the program writes them, and what was read is freed on the disk.
//!
//! What is live and what each site adds up to is kept here, in thaw; nothing grows in the recorded process. Each stream
//! gets a file of sums beside it, written anew from time to time, and goes when its process has ended.
//! The file is described in [`heapfile::sums`]. Not for questions that need every event: moments, marks, threads, logs,
//! growth.

mod late;

use crate::clock::Clock;
use heap_wire::{FileHeader, PAGE};
use heapfile::books::Books;
use heapfile::event::{Event, Process, ThreadId, What};
use heapfile::figures::{MissingFrames, Split, Window};
use heapfile::form::{STREAM, SUMS};
use heapfile::reader::{Events, process_of};
use heapfile::recording::believed;
use heapfile::stack::{End, StackId};
use heapfile::stream::{first_page, held_back, punch};
use heapfile::sums::{Added, Sums, Whole};
use late::Late;
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Events younger than this may still be on their way into a stream, because their thread does not run.
const MARGIN: Duration = Duration::from_millis(500);
/// How often sums are written, if that takes no more than a [`SHARE`]th of the time.
const WRITE_EVERY: Duration = Duration::from_secs(10);
const SHARE: u32 = 20;
/// Which signal tells that somebody wants a file that is leased (`fcntl.h`).
const F_SETSIG: libc::c_int = 10;
/// How often it is looked whether anybody still writes a stream.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so many events the process is told how far it is read, if it is.
const TELL_EVERY: u64 = 4096;

/// Adds up all streams of a recording while they grow.
pub(crate) struct Aggregator {
    directory: PathBuf,
    first_ticks: u64,
    /// Streams that were seen.
    known: HashSet<OsString>,
    open: Vec<Followed>,
}

impl Aggregator {
    /// Finds out first whether the file system can free parts of files.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn new(directory: &Path, first_ticks: u64) -> Result<Self> {
        let path = os::file::name_beside(&directory.join("hole"));
        let cannot = |cause| Error::on(Exit::Machine, "cannot write", &path).because(cause);
        let file = File::create_new(&path).map_err(cannot)?;
        let holes = file.set_len(PAGE as u64).map_err(cannot).and_then(|()| punch(&file, &path, 0, PAGE as u64));
        fs::remove_file(&path).map_err(cannot)?;
        holes.map_err(|error| Error { object: shown(directory), ..error })?;
        Ok(Self { directory: directory.to_owned(), first_ticks, known: HashSet::new(), open: Vec::new() })
    }

    /// Takes what there is, but for the youngest events.
    ///
    /// # Errors
    /// A stream cannot be read, sums cannot be written.
    pub(crate) fn poll(&mut self, clock: &Clock) -> Result<()> {
        let rate = clock.rate();
        let limit = Clock::now().saturating_sub((MARGIN.as_secs_f64() * rate) as u64);
        self.discover(rate)?;
        let mut index = 0;
        while let Some(stream) = self.open.get_mut(index) {
            if stream.advance(limit)? {
                index += 1;
            } else {
                self.open.swap_remove(index).end()?;
            }
        }
        Ok(())
    }

    /// Takes all that there is; how many streams there were. Those that are still being written, by processes that run
    /// (`running`), stay: what comes is not looked at any more.
    ///
    /// # Errors
    /// As [`Aggregator::poll`].
    pub(crate) fn end(mut self, clock: &Clock, running: &[u32]) -> Result<usize> {
        self.discover(clock.rate())?;
        for stream in self.open {
            // Asked first: what nobody writes any more is complete.
            if !running.is_empty() && stream.is_written() {
                stream.take_rest(Whole::No)?;
            } else {
                stream.end()?;
            }
        }
        Ok(self.known.len())
    }

    fn discover(&mut self, rate: f64) -> Result<()> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot read the recording", &self.directory).because(cause);
        let about = fs::metadata(&self.directory).map_err(cannot)?;
        for entry in fs::read_dir(&self.directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().unwrap_or_default();
            if path.extension() != Some(OsStr::new(STREAM)) || self.known.contains(name) {
                continue;
            }
            // Readers of the recording say that it was left out.
            if believed(&about, &path, os::file::Access::Write).is_err() {
                continue;
            }
            if let Some(process) = process_of(&path, self.first_ticks, rate)? {
                self.known.insert(name.to_owned());
                self.open.push(Followed::open(process, rate)?);
            }
        }
        Ok(())
    }
}

/// One stream that is being added up.
struct Followed {
    process: Process,
    file: Rc<File>,
    events: Events,
    books: Books,
    late: Late,
    threads: HashSet<ThreadId>,
    /// How a stack ended, and whether frames are missing in it.
    ends: HashMap<StackId, (End, bool)>,
    missing: MissingFrames,
    /// What the process was told that is read.
    consumed: u64,
    /// When sums are written next, and when it is looked next whether anybody writes.
    write_at: Instant,
    look_at: Instant,
}

impl Followed {
    /// Its sums are there before anything of it is freed.
    fn open(process: Process, rate: f64) -> Result<Self> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot open", &process.file).because(cause);
        let file = os::file::open_unlinked(&process.file, os::file::Access::Write).map_err(cannot)?;
        let file = Rc::new(file);
        let now = Instant::now();
        let mut stream = Self {
            events: Events::follow(&process, Rc::clone(&file), rate),
            books: Books::new(process.origin, Nanos(0), Window::default(), Split::Size),
            late: Late::default(),
            threads: HashSet::new(),
            ends: HashMap::new(),
            missing: MissingFrames::default(),
            consumed: 0,
            write_at: now,
            look_at: now + LOOK_EVERY,
            process,
            file,
        };
        stream.books.sampled = stream.process.sample_bytes > 0;
        stream.write(Whole::No)?;
        Ok(stream)
    }

    /// Takes the events up to this moment; `false`: nobody writes it any more.
    fn advance(&mut self, limit: u64) -> Result<bool> {
        self.events.advance(limit)?;
        self.tell()?;
        let mut count = 0u64;
        while let Some(event) = self.events.next()? {
            count += 1;
            self.enter(&event);
            if count.is_multiple_of(TELL_EVERY) {
                self.tell()?;
            }
        }
        self.tell()?;
        let now = Instant::now();
        if now >= self.write_at {
            self.late.settle(limit, &mut self.books);
            self.write(Whole::No)?;
        }
        if count > 0 || now < self.look_at {
            return Ok(true);
        }
        self.look_at = now + LOOK_EVERY;
        Ok(self.is_written())
    }

    /// Tells the process how far its stream is read, if it was read on.
    fn tell(&mut self) -> Result<()> {
        let consumed = self.events.consumed();
        if consumed > self.consumed {
            self.consumed = consumed;
            let place = offset_of!(FileHeader, consumed) as u64;
            self.file
                .write_all_at(&consumed.to_le_bytes(), place)
                .map_err(|cause| Error::on(Exit::Machine, "cannot write", &self.process.file).because(cause))?;
        }
        Ok(())
    }

    fn enter(&mut self, event: &Event) {
        if let What::Alloc { count, .. } = event.what {
            self.threads.insert(event.thread);
            if let Some(stack) = event.stack {
                let stacks = self.events.stacks();
                let look = || (stacks.ended(stack), stacks.skips(stack));
                let (end, skips) = *self.ends.entry(stack).or_insert_with(look);
                self.missing.add(end, skips, count);
            }
        }
        self.late.enter(event, &mut self.books);
    }

    /// Whether another process has it open or mapped: only what nobody else has can be leased for writing.
    fn is_written(&self) -> bool {
        let fd = self.file.as_raw_fd();
        // Who opens it meanwhile makes the kernel tell us: by a signal that does nothing.
        // SAFETY: an open descriptor; the commands take a number.
        let leased = unsafe {
            libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
        };
        if leased {
            // SAFETY: as above.
            unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        }
        !leased
    }

    /// Takes the rest of what nobody writes any more, and removes it.
    fn end(self) -> Result<()> {
        let path = self.take_rest(Whole::Yes)?;
        fs::remove_file(&path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", &path).because(cause))
    }

    /// Takes all that is there; which file it is.
    fn take_rest(mut self, whole: Whole) -> Result<PathBuf> {
        self.events.advance(u64::MAX)?;
        while let Some(event) = self.events.next()? {
            self.enter(&event);
        }
        self.events.close();
        self.late.settle(u64::MAX, &mut self.books);
        self.write(whole)?;
        Ok(self.process.file)
    }

    /// Whether thaw was too slow for the process.
    fn held_back(&self, page: &[u8]) -> Option<Warning> {
        let head = held_back(page)?;
        let who = format!("process {}", self.process.pid);
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
        let began = Instant::now();
        let mut warnings = self.events.warnings().to_vec();
        if self.late.count > 0 {
            let text = format!(
                "process {}: {} events came out of order and were put right",
                self.process.pid, self.late.count
            );
            warnings.push(Warning::new(WarningKind::Note, text));
        }
        // What it says of losses may have changed.
        let page = first_page(&self.process.file)?;
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
        let sums = Sums::of(added, self.events.stacks(), self.events.modules());
        sums.write(&self.process.file.with_extension(SUMS), &page)?;
        self.write_at = Instant::now() + WRITE_EVERY.max(began.elapsed() * SHARE);
        Ok(())
    }
}

//! Streams of a recording while their processes write them: which there are, and whether anybody still writes one.
//!
//! What is made of their events is others' affair: sums (`aggregate`) or finished files (`finish`).

use heapfile::event::Process;
use heapfile::form::STREAM;
use heapfile::reader::{Events, process_of};
use heapfile::recording::believed;
use heapfile::stream::AfterRead;
use model::{Error, Exit, Result};
use os::file::Access;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Which signal tells that somebody wants a file that is leased (`fcntl.h`).
const F_SETSIG: libc::c_int = 10;
/// How often it is looked whether anybody still writes a stream.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The streams of a recording that grows.
pub(crate) struct Streams {
    directory: PathBuf,
    /// When the recording began.
    pub(crate) first_ticks: u64,
    after: AfterRead,
    /// Those that were found.
    known: HashSet<OsString>,
}

impl Streams {
    /// Those of a recording that began at `first_ticks`.
    pub(crate) fn new(directory: &Path, first_ticks: u64, after: AfterRead) -> Self {
        Self { directory: directory.to_owned(), first_ticks, after, known: HashSet::new() }
    }

    /// How many were found.
    pub(crate) fn count(&self) -> usize {
        self.known.len()
    }

    /// Those that came since it was called last, at most so many.
    ///
    /// # Errors
    /// The recording or a stream cannot be read.
    pub(crate) fn discover(&mut self, rate: f64, most: usize) -> Result<Vec<Stream>> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot read the recording", &self.directory).because(cause);
        let about = fs::metadata(&self.directory).map_err(cannot)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(cannot)? {
            if found.len() == most {
                break;
            }
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().unwrap_or_default();
            if path.extension() != Some(OsStr::new(STREAM)) || self.known.contains(name) {
                continue;
            }
            // Readers of the recording say that it was left out.
            if believed(&about, &path, Access::Write).is_err() {
                continue;
            }
            if let Some(process) = process_of(&path, self.first_ticks, rate)? {
                self.known.insert(name.to_owned());
                found.push(Stream::open(process, rate, self.after)?);
            }
        }
        Ok(found)
    }

    /// What a stream says of its process by now.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn process_of(&self, stream: &Stream, rate: f64) -> Result<Process> {
        let now = process_of(&stream.process.file, self.first_ticks, rate)?;
        Ok(now.unwrap_or_else(|| stream.process.clone()))
    }
}

/// One of them.
pub(crate) struct Stream {
    pub process: Process,
    pub file: Arc<File>,
    pub events: Events,
    look_at: Instant,
}

impl Stream {
    fn open(process: Process, rate: f64, after: AfterRead) -> Result<Self> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot open", &process.file).because(cause);
        let file = Arc::new(os::file::open_unlinked(&process.file, Access::Write).map_err(cannot)?);
        let events = Events::follow(&process, Arc::clone(&file), rate, after);
        Ok(Self { events, look_at: Instant::now(), process, file })
    }

    /// Whether its process goes on, asked after it was read: there was something (`read`), or somebody has it.
    pub(crate) fn goes_on(&mut self, read: bool) -> bool {
        let now = Instant::now();
        if read || now < self.look_at {
            return true;
        }
        self.look_at = now + LOOK_EVERY;
        self.is_written()
    }

    /// Whether another process has it open or mapped: only what nobody else has can be leased for writing.
    pub(crate) fn is_written(&self) -> bool {
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
}

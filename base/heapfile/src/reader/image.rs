//! One process image, without the rest of its recording: while others still run.

use super::{Events, process, read_head};
use crate::event::{Process, ProcessId};
use crate::form::{EVENTS, Form, STREAM};
use heap_wire::origin;
use model::{Nanos, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A process image whose recording is not looked at as a whole. Its times are those of the time stamp counter only.
#[derive(Debug)]
pub struct Image {
    /// It.
    pub process: Process,
    /// The stream of the process that it was forked from.
    pub parent: Option<PathBuf>,
    /// Where in its memory the guest lists its own ([`heap_wire::own::Own`]); 0: nowhere.
    pub own: u64,
    /// Whether its events are added up while it runs, and freed on the disk.
    pub is_followed: bool,
}

impl Image {
    /// Reads the head of a stream, or of the finished file in its place. `None`: there is neither, or it is being set
    /// up.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(stream: &Path) -> Result<Option<Self>> {
        let finished = stream.with_extension(EVENTS);
        let (file, form) = match (finished.exists(), stream.exists()) {
            (true, _) => (finished, Form::Finished),
            (_, true) => (stream.to_owned(), Form::Stream),
            _ => return Ok(None),
        };
        let Ok(head) = read_head(&file, form)? else { return Ok(None) };
        let (own, is_followed) = (head.own, head.ahead > 0);
        // A name beside this one, wherever it says that it is.
        let beside =
            Path::new(&OsString::from_vec(head.parent.clone())).file_name().map(|name| file.with_file_name(name));
        let parent = beside.filter(|_| head.origin == origin::FORK).map(|path| path.with_extension(STREAM));
        Ok(Some(Self { process: process(ProcessId(0), file, head, None, Nanos(0)), parent, own, is_followed }))
    }
}

impl Events {
    /// The events of a process as far as they are written now. Their times mean nothing, only their ticks do.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(process: &Process) -> Result<Self> {
        Self::open(process, 1e9)
    }
}

//! Switching a process's events on and off from outside: one word in the head of its file.

use model::{Error, Exit, Result};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// What a process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Write events.
    On,
    /// Write none.
    Off,
}

/// Bytes of the head in which the word and its value for "on" are.
const WORD: u64 = 128;
const GENERATION: u64 = 332;

/// Tells the process that writes this file. It obeys at its next event.
///
/// # Errors
/// It is no file of events, or may not be written to.
pub fn switch(path: &Path, to: Switch) -> Result<()> {
    let cannot = |cause| Error::on(Exit::Machine, "cannot switch events of", path).because(cause);
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path).map_err(cannot)?;
    let mut magic = [0; 8];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *super::MAGIC {
        return Err(Error::on(Exit::Data, "not a file of events:", path));
    }
    let mut word = [0; 4];
    if to == Switch::On {
        file.read_exact_at(&mut word, GENERATION).map_err(cannot)?;
    }
    file.write_all_at(&word, WORD).map_err(cannot)
}

//! A process that writes events, from outside: which files it writes, switching it on and off by one word in the head
//! of its file, and a copy of what it has written so far.

use super::{CHUNK_HEAD, HEADER, MAGIC, parse, u32_at, u64_at};
use model::{Error, Exit, Result, shown};
use os::process::{Mapping, maps};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *MAGIC {
        return Err(Error::on(Exit::Data, "not a file of events:", path));
    }
    let mut word = [0; 4];
    if to == Switch::On {
        file.read_exact_at(&mut word, GENERATION).map_err(cannot)?;
    }
    file.write_all_at(&word, WORD).map_err(cannot)
}

/// Files that a running process writes events to, one of each copy of the library in it.
///
/// # Errors
/// There is no such process, it may not be looked at, or it writes none; one of its files has no name here.
pub fn files_of(pid: u32) -> Result<Vec<PathBuf>> {
    let process = format!("process {pid}");
    let mapped = maps(pid)
        .map_err(|cause| Error::new(Exit::of_unreadable(&cause), "cannot look at", &process).because(cause))?;
    let mut found = Vec::new();
    for mapping in mapped.iter().filter(|of| of.permissions.ends_with('s') && of.offset == 0) {
        if let Some(path) = name_of(pid, mapping) {
            found.push(path);
        } else if mapping.deleted && mapping.path.extension().is_some_and(|ending| ending == "events") {
            return Err(Error::on(Exit::Usage, "a file of events is deleted:", &mapping.path));
        }
    }
    found.dedup();
    match found.is_empty() {
        true => Err(Error::new(Exit::Usage, "no events are written by", process)
            .hint("start the program with THAW_EVENTS=DIR, or THAW_EVENTS=DIR,off for later")),
        false => Ok(found),
    }
}

/// The name of a mapped file of events: as the process has it, or by way of its root where that is another one.
fn name_of(pid: u32, mapping: &Mapping) -> Option<PathBuf> {
    let below = mapping.path.strip_prefix("/").ok()?;
    [mapping.path.clone(), Path::new(&format!("/proc/{pid}/root")).join(below)].into_iter().find(|path| {
        let mut magic = [0; 8];
        let Ok(file) = os::file::open_regular(path) else { return false };
        file.metadata().is_ok_and(|about| about.ino() == mapping.ino)
            && file.read_exact_at(&mut magic, 0).is_ok()
            && magic == *MAGIC
    })
}

/// What a process has written so far, as the bytes of a file of events, while it goes on writing. It has the chunks
/// that were begun before it was made and were not emptied meanwhile: of each thread all events between its first and
/// its last one here.
///
/// # Errors
/// It is no file of events, or cannot be read.
pub fn snapshot(path: &Path) -> Result<Vec<u8>> {
    let cannot = |cause| Error::on(Exit::Machine, "cannot read", path).because(cause);
    let file = os::file::open_regular(path).map_err(cannot)?;
    let mut head = [0; HEADER];
    let begun = file.read_exact_at(&mut head, 0).map_or(0, |()| u64_at(&head, 192));
    let mut bytes = Vec::new();
    // From the front to the end: of a record, the word that says that it is whole is read before the rest of it.
    (&file).read_to_end(&mut bytes).map_err(cannot)?;
    parse(&bytes, None).map_err(|error| error.hint(format!("it is {}", shown(path))))?;
    let (chunk_size, first) = (u32_at(&bytes, 20) as usize, HEADER + u32_at(&bytes, 28) as usize);
    for at in (first..bytes.len().saturating_sub(CHUNK_HEAD)).step_by(chunk_size) {
        let mut number = [0; 8];
        file.read_exact_at(&mut number, at as u64 + 8).map_err(cannot)?;
        if !is_kept(u64_at(&bytes, at + 8), begun, u64::from_le_bytes(number)) {
            // As one that was never begun.
            bytes[at..at + CHUNK_HEAD].fill(0);
        }
    }
    // Types of all events that were copied, and how many were overwritten up to now, are in the head as it is now.
    let tables = first.min(bytes.len());
    file.read_exact_at(&mut bytes[..tables], 0).map_err(cannot)?;
    Ok(bytes)
}

/// Whether a copied chunk stays: it was begun before the copy (another one of its thread may lie in front of it, where
/// the copy had been already), and nobody has emptied it meanwhile.
fn is_kept(copied: u64, begun: u64, now: u64) -> bool {
    copied <= begun && copied == now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_stays_if_it_was_begun_before_and_is_the_same_afterwards() {
        assert!(is_kept(3, 3, 3) && is_kept(1, 3, 1));
        assert!(!is_kept(4, 3, 4), "begun since");
        assert!(!is_kept(1, 3, 9) && !is_kept(1, 3, 0), "taken for others, or about to be");
    }
}

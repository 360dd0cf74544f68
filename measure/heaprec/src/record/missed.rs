//! What process images say themselves that could not make their stream: the table that all of a recording share
//! ([`heap_wire::missed`]).
//!
//! A forked child in a sandbox has another root directory and reaches no file any more, but it inherits the mapped
//! table. Its numbers are those of its own namespace. Guests may have written anything.

use heap_wire::missed::{BYTES, ENTRIES, Entry, FILE, Table, kind};
use model::{Error, Exit, Result};
use os::file::{Access, create_private, open_unlinked};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// Time stamp counter when it was told.
    pub ticks: u64,
    /// Why, as an error number.
    pub errno: u32,
    /// What it is told of.
    pub what: Subject,
}

/// What an entry is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A process that was forked from the one with this stream.
    Forked(Vec<u8>),
    /// A program that was executed, and has the guest.
    Began,
    /// An exec that could not be noted: its path.
    Exec(Vec<u8>),
}

/// What the table says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Process images in which the guest began.
    pub images: u64,
    /// Those that said why they have no stream, and execs.
    pub told: Vec<Told>,
}

/// Makes the table of thaw's own user. Its blocks exist before guests write there.
pub fn begin(directory: &Path) -> Result<()> {
    let path = place(directory);
    make(&path).map(drop).map_err(|cause| cannot(&path, cause))
}

/// The table of another user's processes. One for each user: whoever has a table can cut it short under the others who
/// map it.
pub fn table_of(directory: &Path, user: u32) -> io::Result<File> {
    let path = directory.join(format!("{}-{user}", String::from_utf8_lossy(FILE)));
    match make(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => open_unlinked(&path, Access::Write),
        made => made,
    }
}

fn make(path: &Path) -> io::Result<File> {
    let mut file = create_private(path)?;
    file.write_all(&vec![0; BYTES])?;
    Ok(file)
}

/// Reads all tables; removes them, unless processes are running that go on telling.
pub fn end(directory: &Path, running: &[u32]) -> Result<Missed> {
    let mut all = Missed::default();
    for path in tables(directory).map_err(|cause| cannot(directory, cause))? {
        let mut bytes = Vec::new();
        // A user may have made it as long as the disk.
        let read = open_unlinked(&path, Access::Read).and_then(|file| file.take(BYTES as u64).read_to_end(&mut bytes));
        read.map_err(|cause| cannot(&path, cause))?;
        let of_one = of(&bytes);
        all.images = all.images.saturating_add(of_one.images);
        all.told.extend(of_one.told);
        if running.is_empty() {
            fs::remove_file(&path).map_err(|cause| cannot(&path, cause))?;
        }
    }
    Ok(all)
}

/// The one of thaw's own user first.
fn tables(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let own = place(directory);
    let name = String::from_utf8_lossy(FILE);
    let mut others = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file = entry.file_name();
        let user = file.to_str().and_then(|file| file.strip_prefix(&*name)?.strip_prefix('-'));
        if user.is_some_and(|user| user.parse::<u32>().is_ok()) {
            others.push(entry.path());
        }
    }
    others.sort();
    Ok([own].into_iter().chain(others).collect())
}

fn place(directory: &Path) -> PathBuf {
    directory.join(OsStr::from_bytes(FILE))
}

fn cannot(path: &Path, cause: std::io::Error) -> Error {
    Error::on(Exit::Machine, "cannot note which processes have no stream", path).because(cause)
}

fn of(bytes: &[u8]) -> Missed {
    let entry = |number: usize| {
        let at = offset_of!(Table, entries) + number * size_of::<Entry>();
        bytes.get(at..at + size_of::<Entry>()).and_then(told)
    };
    Missed { images: number(bytes, offset_of!(Table, images)), told: (0..ENTRIES).filter_map(entry).collect() }
}

fn told(entry: &[u8]) -> Option<Told> {
    let small = |at| number(entry, at) as u32;
    let text = |at: usize, end: usize| -> Option<Vec<u8>> {
        let text = entry.get(at..end)?.split(|byte| *byte == 0).next()?;
        (!text.is_empty()).then(|| text.to_vec())
    };
    let parent = offset_of!(Entry, parent);
    let path = offset_of!(Entry, path);
    let what = match small(offset_of!(Entry, kind)) {
        kind::IMAGE => text(parent, path).map_or(Subject::Began, Subject::Forked),
        kind::EXEC => Subject::Exec(text(path, entry.len())?),
        _ => return None,
    };
    let (pid, errno) = (small(offset_of!(Entry, pid)), small(offset_of!(Entry, errno)));
    Some(Told { pid, ticks: number(entry, offset_of!(Entry, ticks)), errno, what })
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// What an error number means for one that wants to write into the recording.
pub fn reason(errno: u32) -> String {
    match errno.cast_signed() {
        // A sandbox's root directory may be one of a process that is gone.
        libc::ENOENT | libc::ESRCH => {
            "its root directory is another one (a sandbox), from which the recording is not reached".into()
        }
        libc::EACCES | libc::EPERM => "it may not write the recording (another user, or a sandbox)".into(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(what: u32, parent: &[u8], path: &[u8]) -> Vec<u8> {
        let mut bytes = [what, 2, 7, 0].map(u32::to_le_bytes).concat();
        bytes.extend(9u64.to_le_bytes());
        bytes.extend(parent);
        bytes.resize(offset_of!(Entry, path), 0);
        bytes.extend(path);
        bytes.resize(size_of::<Entry>(), 0);
        bytes
    }

    #[test]
    fn complete_entries_count() {
        let entries = [
            entry(kind::NONE, b"x", b""),
            entry(kind::IMAGE, b"5-0.stream", b""),
            entry(kind::EXEC, b"", b"/bin/x"),
            entry(kind::TAKEN_BACK, b"", b"/bin/y"),
            entry(kind::IMAGE, b"", b""),
        ];
        let mut bytes = 6u64.to_le_bytes().to_vec();
        bytes.resize(offset_of!(Table, entries), 0);
        bytes.extend(entries.concat());
        let told = |what| Told { pid: 7, ticks: 9, errno: 2, what };
        let expected =
            [Subject::Forked(b"5-0.stream".to_vec()), Subject::Exec(b"/bin/x".to_vec()), Subject::Began].map(told);
        assert_eq!(of(&bytes), Missed { images: 6, told: expected.to_vec() });
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
            let _ = of(&bytes);
        }
    }
}

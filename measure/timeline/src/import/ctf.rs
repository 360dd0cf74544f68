//! The Common Trace Format 1.8, which LTTng writes: a directory with `metadata`, which describe every bit, and streams
//! of packets.
//!
//! An event is a mark of its thread, with its contexts and fields as arguments. Pairs whose names end in `_begin` and
//! `_end` (and a few others) on one thread are work: of the thread, or of an object of its own where fields tell one
//! from another. What the tracer discarded is counted as lost.

mod bits;
mod blocks;
mod layout;
mod meaning;
mod packets;
mod streams;
mod tokens;
mod tsdl;
mod values;

pub use packets::is_metadata;

use crate::trace::Trace;
use model::{Error, Exit, Result, shown};
use std::path::{Path, PathBuf};

/// What the file of a trace is called that describes the others.
const METADATA: &str = "metadata";
/// So deep below a directory traces are looked for: `lttng` puts them six deep at most.
const DEEPEST: u32 = 8;

/// Reads a trace. `name`: of the metadata, for errors. `streams`: what they are called, and their bytes, which are
/// asked for one after the other.
///
/// # Errors
/// The metadata describe no trace, or a stream cannot be had.
pub fn read<B: AsRef<[u8]>>(
    name: &str,
    metadata: &[u8],
    streams: impl Iterator<Item = Result<(String, B)>>,
) -> Result<Trace> {
    let cannot = |why: String| Error::new(Exit::Data, "cannot read the metadata of a CTF trace", name).because(why);
    let (text, damage) = packets::text(metadata).map_err(cannot)?;
    let described = tsdl::metadata(&text).map_err(|fault| cannot(format!("line {}: {}", fault.line, fault.why)))?;
    let mut held = streams::Held::default();
    held.damage.extend(damage);
    if let Some(line) = described.cut_at {
        held.damage.push(format!("the metadata end early, in line {line}: what is described behind it is not known"));
    }
    for stream in streams {
        let (name, bytes) = stream?;
        streams::read(&described, &name, bytes.as_ref(), &mut held)
            .map_err(|why| Error::new(Exit::Data, "cannot read a stream of a CTF trace", &name).because(why))?;
    }
    Ok(meaning::trace(&described, held))
}

/// Reads the trace that a file of metadata describes, with the streams beside it.
///
/// # Errors
/// As [`read`].
pub fn read_beside(path: &Path, metadata: &[u8]) -> Result<Trace> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut streams: Vec<PathBuf> = entries(directory)?;
    streams.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name != METADATA && !name.starts_with('.') && path.is_file()
    });
    let bytes = streams.into_iter().map(|path| {
        let bytes = std::fs::read(&path).map_err(|cause| unreadable(&path, cause))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, bytes))
    });
    read(&shown(path), metadata, bytes)
}

/// The metadata of all traces in a directory, and in those below it.
///
/// # Errors
/// A directory cannot be read.
pub fn traces_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    look(directory, 0, &mut found)?;
    Ok(found)
}

fn look(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<()> {
    for path in entries(directory)? {
        let Ok(kind) = path.symlink_metadata() else { continue };
        if kind.is_dir() && depth < DEEPEST {
            look(&path, depth + 1, found)?;
        } else if kind.is_file() && path.file_name().is_some_and(|name| name == METADATA) {
            found.extend(begins_as_metadata(&path).then_some(path));
        }
    }
    Ok(())
}

fn begins_as_metadata(path: &Path) -> bool {
    use std::io::Read;
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && is_metadata(&head)
}

/// What is in a directory, by name.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |cause| unreadable(directory, cause);
    let all: std::io::Result<Vec<_>> =
        directory.read_dir().map_err(cannot)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut all = all.map_err(cannot)?;
    all.sort();
    Ok(all)
}

fn unreadable(path: &Path, cause: std::io::Error) -> Error {
    Error::on(Exit::of_unreadable(&cause), "cannot read", path).because(cause)
}

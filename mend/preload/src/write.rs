//! Writing a file so that after a kill or a power cut there is either the old one or the whole new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a whole file beside its place, has it on disk, and renames it.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut fresh = name.to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(fresh);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let written = (|| {
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    })();
    if let Err(error) = written {
        // Nothing half-written stays; that it may not be there at all is no second error.
        let _ = fs::remove_file(&fresh);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

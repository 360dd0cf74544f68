//! Writing a file so that it is there whole or not at all, also after a kill or a power cut.

use model::{Error, Exit, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes `bytes` to `path`, replacing what is there in one step: into a new file beside it first, which is then renamed.
///
/// # Errors
/// The directory cannot be written, or is full. What was at `path` is still there then, and nothing else is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_by(path, |file| file.write_all(bytes))
}

/// As [`write_whole`], for what is too large to be in memory: `fill` writes the new file.
///
/// # Errors
/// As [`write_whole`], and what `fill` says.
pub fn write_by(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = File::create(&fresh)
        .and_then(|file| {
            let mut file = BufWriter::new(file);
            fill(&mut file)?;
            file.into_inner()?.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| File::open(directory)?.sync_all());
    written.map_err(|cause| {
        // It may not be there at all, or have its name already.
        let _ = fs::remove_file(&fresh);
        Error::on(Exit::Machine, "cannot write", path).because(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_lies_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        write_whole(&path, b"first and longer").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_left_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert_eq!(write_whole(&path, b"text").unwrap_err().exit, Exit::Machine);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        assert!(write_whole(&home.path().join("no/such/place"), b"text").is_err());
    }
}

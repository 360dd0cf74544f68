//! The `byte` engine: every byte of every mapped file, once, in the order of first touch. Our Valgrind tool `icegrind`
//! (`inject/icegrind`, a program of its own under the GPL) sees them; here its output is read and becomes rows.

mod output;
mod rows;
mod tool;

pub use output::{Access, Image, ImageFile, Piece, ReadCall, parse};
pub use rows::rows;
pub use tool::Tool;

use crate::engine::{Engine, Trace};
use model::{Error, Exit, Result, TouchEngine, TraceRows};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The byte engine: what a program that was started by [`Tool::command`] wrote into a directory. Who starts it sees to
/// that.
#[derive(Debug)]
pub struct Written {
    directory: PathBuf,
    /// Files that Valgrind brings into the program: none of the program's.
    foreign: Vec<PathBuf>,
}

impl Written {
    /// The engine whose tool writes into this directory, and nobody else does.
    pub fn new(tool: &Tool, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), foreign: tool.guests() }
    }

    /// All images of programs that ran, by their start.
    ///
    /// # Errors
    /// Data: a file that the tool did not write so.
    fn images(&self) -> Result<Vec<Image>> {
        let cannot = |path: &Path, cause: std::io::Error| {
            Error::on(Exit::Machine, "cannot read what the byte engine wrote:", path).because(cause)
        };
        let mut images = Vec::new();
        for entry in std::fs::read_dir(&self.directory).map_err(|cause| cannot(&self.directory, cause))? {
            let path = entry.map_err(|cause| cannot(&self.directory, cause))?.path();
            let Some(bytes) = read(&path).map_err(|cause| cannot(&path, cause))? else { continue };
            // A program that was killed before its first byte was written.
            if bytes.is_empty() {
                continue;
            }
            images.push(
                parse(&bytes).map_err(|because| {
                    Error::on(Exit::Data, "this is no output of icegrind:", &path).because(because)
                })?,
            );
        }
        images.sort_by_key(|image| image.start_ns);
        Ok(images)
    }
}

/// The bytes of a regular file; `None`: it is something else. Where the programs of the tree may be of several users,
/// others may leave pipes and links.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    os::cache::open_quietly(path)?.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

impl Engine for Written {
    fn kind(&self) -> TouchEngine {
        TouchEngine::Byte
    }
}

impl Trace for Written {
    fn attach(&mut self, _pid: u32) -> Result<()> {
        Ok(())
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows> {
        let images = self.images()?;
        if images.is_empty() {
            return Err(Error::on(
                Exit::Target,
                "the byte engine saw no program run; nothing was written to",
                &self.directory,
            )
            .because("valgrind did not start it")
            .hint("its own words are in the program's output: run `valgrind --tool=none PROGRAM` by hand"));
        }
        Ok(rows(&images, &self.foreign, t0_monotonic_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_leave_beside_the_output_is_not_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("icegrind.1.0");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", home.path().join("icegrind.2.0")).unwrap();
        std::fs::write(home.path().join("icegrind.3.0"), "").unwrap();
        let engine = Written { directory: home.path().to_owned(), foreign: Vec::new() };
        assert!(engine.images().unwrap().is_empty());
        std::fs::write(home.path().join("icegrind.3.0"), "dear diary").unwrap();
        assert_eq!(engine.images().unwrap_err().exit, Exit::Data);
    }
}

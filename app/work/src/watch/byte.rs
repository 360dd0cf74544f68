//! What the byte engine needs beside the room `touch`: where its tool is installed, a directory that the tool may write
//! into, and the program with Valgrind before it.

use crate::rundir;
use crate::start::stage::Stage;
use bench::record::Program;
use model::{Error, Exit, Result};
use os::journal::{Entry, Undo, hold};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use touch::byte::{Tool, Written};

/// Finds Valgrind and the tool: where THAW_ICEGRIND says, beside an installed thaw, where `dev/icegrind` builds it.
///
/// # Errors
/// Machine: one of them is not there.
pub fn find() -> Result<Tool> {
    if let Some(told) = std::env::var_os("THAW_ICEGRIND") {
        return Tool::find(&[told.into()]);
    }
    let thaw = crate::own::file()?;
    let beside = thaw.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    Tool::find(&["libexec/thaw", "icegrind"].map(|place| beside.join(place)))
}

/// The program inside Valgrind. Dropping it removes what the tool has written.
pub struct Inside {
    /// It.
    pub program: Program,
    tool: Tool,
    directory: PathBuf,
    _entry: Entry,
}

impl Inside {
    /// Makes the directory.
    ///
    /// # Errors
    /// The directory cannot be made; a program that Valgrind does not start.
    pub fn set(tool: Tool, stage: &Stage) -> Result<Self> {
        let (Some(first), Some(file)) = (stage.programs.first(), stage.program_files.first()) else {
            return Err(Error::bug("no program was given"));
        };
        let directory =
            rundir::base().join(format!("thaw-byte-{}-{:x}", std::process::id(), os::spawn::monotonic_ns()));
        let argv = tool.command(&directory, file, &first.argv)?;
        let mut program = Program { argv, ..first.clone() };
        program.env.extend(tool.environment());
        let make = || {
            // Of root's programs one may have become another user: then everybody may add a file, nobody list or remove
            // them.
            let mode = if rustix::process::geteuid().is_root() { 0o1733 } else { 0o700 };
            std::fs::create_dir(&directory)
                .and_then(|()| std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)))
                .map_err(|cause| {
                    Error::on(Exit::Machine, "cannot make a directory for the byte engine:", &directory)
                        .because(cause)
                        .hint("set THAW_RUN_DIR to a directory on a disk that you may write to")
                })
        };
        let entry = hold(Undo::RemoveTree { path: directory.clone() }, make)?;
        Ok(Self { program, tool, directory, _entry: entry })
    }

    /// The engine that reads what the tool writes.
    pub fn engine(&self) -> Written {
        Written::new(&self.tool, &self.directory)
    }
}

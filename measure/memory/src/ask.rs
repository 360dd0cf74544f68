//! Asks a running program that has `thaw_memreport` in it. The protocol (one line there, one memory report back) is in
//! `embed/memreport/README.md`.

use crate::file::{self, MemoryFile};
use model::{Error, Exit, Result, shown};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A program that holds its locks for longer does not answer.
const PATIENCE: Duration = Duration::from_secs(60);
const MOST_BYTES: u64 = 1 << 30;

/// What the program is to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Nothing.
    Nothing,
    /// Give back what it can do without.
    Minimize,
}

/// What its report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Figures.
    Figures,
    /// Every block that was measured too.
    Blocks,
}

/// Where the socket of a process may be: the directory for sockets of its user, or one below /tmp.
pub fn places(pid: u32) -> Vec<PathBuf> {
    let Ok(user) = std::fs::metadata(format!("/proc/{pid}")).map(|data| data.uid()) else { return Vec::new() };
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directories = told.into_iter().chain([PathBuf::from(format!("/run/user/{user}"))]);
    let mut places: Vec<PathBuf> = directories.map(|directory| directory.join("thaw-memreport")).collect();
    places.push(PathBuf::from(format!("/tmp/thaw-memreport-{user}")));
    places.iter().map(|directory| directory.join(format!("{pid}.sock"))).collect()
}

/// The socket of a process; `None`: it has none.
pub fn socket(pid: u32) -> Option<PathBuf> {
    places(pid).into_iter().find(|place| place.exists())
}

/// Asks a process for its report.
///
/// # Errors
/// It has no socket, does not answer, or answers with something else.
pub fn ask(pid: u32, first: First, detail: Detail) -> Result<MemoryFile> {
    let Some(path) = socket(pid) else {
        return Err(Error::new(Exit::Machine, "no memory reporters in process", pid).because("it has no socket").hint(
            "the program must call thaw_memreport_start() (docs/memory.md); Firefox writes reports itself: kill -34 \
                PID",
        ));
    };
    let mut text = Vec::new();
    let mut talk = || -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(match (first, detail) {
            (First::Nothing, Detail::Figures) => b"report\n".as_slice(),
            (First::Minimize, Detail::Figures) => b"minimize report\n",
            (First::Nothing, Detail::Blocks) => b"blocks\n",
            (First::Minimize, Detail::Blocks) => b"minimize blocks\n",
        })?;
        stream.take(MOST_BYTES).read_to_end(&mut text)?;
        Ok(())
    };
    talk().map_err(|cause| {
        let hint = match cause.kind() {
            ErrorKind::PermissionDenied => "only the program's user and root may ask",
            ErrorKind::ConnectionRefused => "the socket was left by a killed program: remove it",
            _ => "the program may be stopped, or wait for a lock that a reporter needs",
        };
        let error = Error::on(Exit::Machine, "cannot ask", &path).hint(hint);
        match cause.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                error.because(format!("no answer within {} s", PATIENCE.as_secs()))
            }
            _ => error.because(cause),
        }
    })?;
    file::parse(&text, &shown(&path))
}

//! Whether a file is still the one that was planned for.

use crate::manifest::{Entry, Kind};
use elf::Identity;
use model::Bytes;
use rustix::fs::{Advice, FileType, Mode, OFlags, Stat};
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

/// Why a file of a manifest is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Stale {
    /// It is not there.
    Gone,
    /// This user may not open it.
    Forbidden,
    /// It cannot be opened for another reason.
    Unopened {
        /// What the system said.
        error: String,
    },
    /// Something else has its name: a directory, a link; another file system.
    OtherKind,
    /// Another size.
    Size {
        /// Its bytes when the manifest was made.
        was: Bytes,
        /// Its bytes now.
        is: Bytes,
    },
    /// The same size, but written since, and the manifest does not tell its content.
    Date,
    /// The same size, but of another build.
    Build,
    /// The same size, but another content.
    Content,
}

impl fmt::Display for Stale {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => out.write_str("it is gone"),
            Self::Forbidden => out.write_str("this user may not read it"),
            Self::Unopened { error } => out.write_str(error),
            Self::OtherKind => out.write_str("something else has its name"),
            Self::Size { was, is } => write!(out, "its size was {was} and is {is}"),
            Self::Date => out.write_str("it was written since"),
            Self::Build => out.write_str("it is of another build"),
            Self::Content => out.write_str("its content is another one"),
        }
    }
}

impl Stale {
    /// A file that is known by something else now.
    pub(crate) fn other(known: &Identity, now: &Identity) -> Self {
        match (known, now) {
            (Identity::Sample(_), Identity::Sample(_)) => Self::Content,
            _ => Self::Build,
        }
    }

    fn of_open(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Gone,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            _ if error.raw_os_error() == Some(libc::ELOOP) => Self::OtherKind,
            _ => Self::Unopened { error: error.to_string() },
        }
    }
}

impl From<io::Error> for Stale {
    fn from(error: io::Error) -> Self {
        Self::of_open(&error)
    }
}

/// Date of the last change, nanoseconds since 1970.
pub(crate) fn mtime_ns(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64)
}

pub(crate) fn size(stat: &Stat) -> Bytes {
    Bytes(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Opens what an entry means, if it still is what was planned for: never waits for a pipe, follows no link, leaves no
/// access time where that is allowed. Reads of the file only what its identity needs, and that only where the date
/// alone differs.
pub(crate) fn open(entry: &Entry) -> Result<File, Stale> {
    if entry.kind == Kind::Device {
        return open_device(entry);
    }
    let file = os::cache::open_quietly(&entry.path)?;
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    let is = size(&stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Stale::OtherKind);
    }
    if entry.kind == Kind::Changing {
        return Ok(file);
    }
    if is != entry.size {
        return Err(Stale::Size { was: entry.size, is });
    }
    match &entry.identity {
        _ if mtime_ns(&stat) == entry.mtime_ns => Ok(file),
        None => Err(Stale::Date),
        Some(known) => match of(&file)? {
            now if now == *known => Ok(file),
            now => Err(Stale::other(known, &now)),
        },
    }
}

/// The block device of the file system that holds a file: numbers of devices change with every boot, and that of a file
/// on it tells whether it is the same file system.
fn open_device(entry: &Entry) -> Result<File, Stale> {
    let stat = rustix::fs::lstat(&entry.path).map_err(io::Error::from)?;
    if stat.st_ino != entry.ino {
        return Err(Stale::OtherKind);
    }
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let facts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"))?;
    let name = facts.lines().find_map(|line| line.strip_prefix("DEVNAME=")).ok_or(Stale::Gone)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let device = rustix::fs::open(Path::new("/dev").join(name), flags, Mode::empty()).map_err(io::Error::from)?;
    let is = rustix::fs::fstat(&device).map_err(io::Error::from)?;
    match FileType::from_raw_mode(is.st_mode) == FileType::BlockDevice && is.st_rdev == stat.st_dev {
        true => Ok(device.into()),
        false => Err(Stale::OtherKind),
    }
}

/// What a file is known by where its date says nothing. Reads single pages, and nothing ahead of them: the disk has
/// other things to do at a start.
pub(crate) fn of(file: &File) -> io::Result<Identity> {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
    let identity = Identity::of(file);
    let _ = rustix::fs::fadvise(file, 0, None, Advice::Normal);
    identity
}

//! Directories that files are written to: opened once, never through a link that another user put into a directory of
//! everybody's; made with their names on the disk.

use super::{NameIn, current};
use crate::file::directory_of;
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;
/// A directory in which everybody may make names, and only their owners may take them away.
const OF_EVERYBODY: u32 = libc::S_ISVTX | libc::S_IWOTH;

/// Opens a directory for its names to be looked up in, made and synced. What the path means is decided here and once.
///
/// # Errors
/// It is not there, is none, or may not be read; a link on the way lies in a directory of everybody's and belongs to
/// somebody else.
pub fn open(path: &Path) -> io::Result<File> {
    let mut todo = VecDeque::from(parts(path));
    let mut here = step(rustix::fs::CWD, if path.is_absolute() { "/" } else { "." }.as_ref())?;
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        let next = step(&here, &name)?;
        let about = next.metadata()?;
        if !about.is_symlink() {
            here = next;
            continue;
        }
        check_link(&about, &here.metadata()?)?;
        links += 1;
        if links > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        if target.is_absolute() {
            here = step(rustix::fs::CWD, "/".as_ref())?;
        }
        parts(target).into_iter().rev().for_each(|part| todo.push_front(part));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&here, ".", flags, Mode::empty())?.into())
}

/// The names that a path leads through, root apart.
fn parts(path: &Path) -> Vec<OsString> {
    let named = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}

/// What a name in a directory stands for, itself if it is a link.
fn step(from: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(from, name, flags, Mode::empty())?.into())
}

/// Whether a link may be followed, by the rule of `fs.protected_symlinks` (proc_sys_fs(5)), which not every machine has
/// set.
///
/// # Errors
/// It may not.
pub fn check_link(link: &Metadata, directory: &Metadata) -> io::Result<()> {
    let is_of_everybody = directory.mode() & OF_EVERYBODY == OF_EVERYBODY;
    let is_trusted = link.uid() == rustix::process::geteuid().as_raw() || link.uid() == directory.uid();
    match is_of_everybody && !is_trusted {
        true => Err(io::Error::other("a symbolic link of another user is on the way")),
        false => Ok(()),
    }
}

/// Makes a directory, and those above it that are missing; on the disk when this returns. `mode` (of all that are made)
/// loses what the umask takes.
///
/// # Errors
/// One of them cannot be made, or is something else.
pub fn make(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = directory_of(path);
    if above != path {
        make(above, mode)?;
    }
    let system = current();
    match system.make_directory(path, mode) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| system.sync_directory(&open(above)?)),
    }
}

/// As [`make`], for what nobody else is to see: only this user may look into what is made.
///
/// # Errors
/// As [`make`].
pub fn make_private(path: &Path) -> io::Result<()> {
    make(path, 0o700)
}

/// Removes a file, if it is there, and waits until its name is off the disk.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let name: &OsStr = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let directory = match open(directory_of(path)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        directory => directory?,
    };
    match current().remove(NameIn { directory: &directory, name }) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| current().sync_directory(&directory)),
    }
}

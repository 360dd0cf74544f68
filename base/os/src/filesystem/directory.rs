//! Directories that files are written to: opened once, never through a link that another user put into a directory of
//! everybody's; made with their names on the disk.

use super::{NameIn, current};
use crate::file::directory_of;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

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
    let (here, _) = resolve(path, check_link)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&here, ".", flags, Mode::empty())?.into())
}

/// As [`open`], of a path that [`real_path`] gave: where a link is on the way now, somebody put it there.
///
/// # Errors
/// It is not there, or a link is on the way.
pub fn open_real(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?.into())
}

/// The absolute path of a file that is there, without links: for what is changed where it lies. A link of another user
/// is not followed, whatever directory it is in: root would change a file of that user's choice.
///
/// # Errors
/// It is not there; a link on the way belongs to somebody else than this user and root.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let of_others = |link: &Metadata, _: &Metadata| match [0, rustix::process::geteuid().as_raw()].contains(&link.uid())
    {
        true => Ok(()),
        false => Err(io::Error::other("a symbolic link of another user is on the way")),
    };
    resolve(path, of_others).map(|(_, path)| path)
}

/// Walks a path, link by link: what it leads to, and by which path without links.
fn resolve(path: &Path, may_follow: impl Fn(&Metadata, &Metadata) -> io::Result<()>) -> io::Result<(File, PathBuf)> {
    let mut todo = VecDeque::from(parts(path));
    let mut here = step(rustix::fs::CWD, if path.is_absolute() { "/" } else { "." }.as_ref())?;
    let mut real = if path.is_absolute() { PathBuf::from("/") } else { std::env::current_dir()? };
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        let next = step(&here, &name)?;
        let about = next.metadata()?;
        if !about.is_symlink() {
            here = next;
            match name == ".." {
                true => drop(real.pop()),
                false => real.push(&name),
            }
            continue;
        }
        may_follow(&about, &here.metadata()?)?;
        links += 1;
        if links > MOST_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.as_bytes()));
        if target.is_absolute() {
            here = step(rustix::fs::CWD, "/".as_ref())?;
            real = "/".into();
        }
        parts(target).into_iter().rev().for_each(|part| todo.push_front(part));
    }
    Ok((here, real))
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
pub fn remove(path: &Path) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_real_path_has_no_links_and_is_opened_only_where_it_has_none() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("a/b")).unwrap();
        std::fs::write(home.join("a/b/file"), "").unwrap();
        symlink("a/b", home.join("short")).unwrap();
        symlink(home.join("short/../b/file"), home.join("long")).unwrap();
        for (typed, real) in [("short/file", "a/b/file"), ("long", "a/b/file"), ("a/../short", "a/b"), ("./a/.", "a")] {
            assert_eq!(real_path(&home.join(typed)).unwrap(), home.join(real), "{typed}");
            assert_eq!(home.join(typed).canonicalize().unwrap(), home.join(real), "{typed}");
        }
        assert!(real_path(&home.join("nothing")).is_err());
        assert!(open_real(&home.join("a/b")).is_ok() && open_real(&home.join("short")).is_err());
        assert!(crate::file::open_real(&home.join("a/b/file")).is_ok());
        for typed in ["short/file", "long"] {
            assert!(crate::file::open_real(&home.join(typed)).is_err(), "{typed}");
        }
    }

    #[test]
    fn links_of_other_users_lead_nowhere_in_any_directory() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("secret"), "").unwrap();
        std::fs::create_dir(home.path().join("theirs")).unwrap();
        symlink("../secret", home.path().join("theirs/link")).unwrap();
        assert!(real_path(&home.path().join("theirs/link")).is_ok(), "root's own link");
        let (user, group) = (Some(testing::SECOND_USER), Some(testing::SECOND_USER));
        std::os::unix::fs::lchown(home.path().join("theirs/link"), user, group).unwrap();
        std::os::unix::fs::lchown(home.path().join("theirs"), user, group).unwrap();
        let refused = real_path(&home.path().join("theirs/link")).unwrap_err();
        assert!(refused.to_string().contains("link of another user"), "{refused}");
    }
}

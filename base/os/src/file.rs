//! Small things about files: opening what is none, names beside one, attributes and times. How a file is written:
//! [`crate::replace`].

use rustix::fs::{Mode, OFlags, ResolveFlags, Timespec, Timestamps, openat2};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a file's name is in a name beside it, bytes; file systems take 255.
const LONGEST: usize = 200;

/// A name in the directory of `target` that nobody else uses. Files of that name are hidden.
pub fn name_beside(target: &Path) -> PathBuf {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    let own = target.file_name().unwrap_or_default().as_bytes();
    // A name of the greatest length leaves no room for more.
    name.push(OsStr::from_bytes(&own[..own.len().min(LONGEST)]));
    name.push(format!(".thaw-{}-{}", std::process::id(), SEQUENCE.fetch_add(1, Ordering::Relaxed)));
    target.with_file_name(name)
}

/// The path that a variable of the environment names; `None`: it is not set, or empty.
pub fn of_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A directory of this user's, by the XDG Base Directory Specification: what its variable names, else this one at home.
/// `None`: there is no home either.
pub fn of_user(variable: &str, below_home: &str) -> Option<PathBuf> {
    of_variable(variable).or_else(|| Some(of_variable("HOME")?.join(below_home)))
}

/// The directory that a file's name is in.
pub fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a regular file for reading, through links. What became a pipe since it was named is not waited for.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    regular(File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?))
}

/// As [`open_regular`], of a path that [`crate::replace::real_path`] gave: where a link is on the way now, somebody put
/// it there.
///
/// # Errors
/// As [`open_regular`]; a link is on the way.
pub fn open_real(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(File::from(openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?))
}

/// Opens a regular file below a directory that stands for `/`: whatever links are on the way, they lead to nothing
/// outside of it.
///
/// # Errors
/// As [`open_regular`].
pub fn open_below(root: impl AsFd, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(File::from(openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?))
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading alone.
    Read,
    /// To be read and written.
    Write,
}

/// Opens a regular file of one name, not through a link: in a directory that others may have written too, a link or a
/// further name leads to what is not meant. What became a pipe is not waited for.
///
/// # Errors
/// It cannot be opened, or is something else: the text says what.
pub fn open_unlinked(path: &Path, access: Access) -> io::Result<File> {
    let wanted = if access == Access::Write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = wanted | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("it is a symbolic link")),
        Err(cause) => return Err(cause.into()),
    };
    let about = file.metadata()?;
    match (about.is_file(), about.nlink()) {
        (true, 0 | 1) => Ok(file),
        (true, names) => Err(io::Error::other(format!("it has {names} names (hard links)"))),
        (false, _) if about.is_dir() => Err(io::Error::other("it is a directory")),
        (false, _) => Err(not_regular()),
    }
}

/// A new file that nobody else may open.
///
/// # Errors
/// The name is taken, or the directory cannot be written.
pub fn create_private(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// A new directory that nobody else may enter, whatever the umask.
///
/// # Errors
/// The name is taken, or the directory above cannot be written.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkdir(path, Mode::RWXU)?)
}

pub(crate) fn not_regular() -> io::Error {
    io::Error::other("it is no regular file")
}

/// All extended attributes of a file (access lists and capabilities among them), as far as they can be read.
pub fn attributes(file: impl AsFd) -> Vec<(CString, Vec<u8>)> {
    let file = file.as_fd();
    let names = attribute_names(file).unwrap_or_default();
    names.into_iter().filter_map(|name| attribute(file, name).ok().flatten()).collect()
}

/// All extended attributes of a file; none where its file system has no such thing.
///
/// # Errors
/// They cannot be read: nobody knows what the file would lose without them.
pub fn all_attributes(file: impl AsFd) -> io::Result<Vec<(CString, Vec<u8>)>> {
    let file = file.as_fd();
    let read = attribute_names(file)?.into_iter().filter_map(|name| attribute(file, name).transpose());
    read.collect()
}

fn attribute_names(file: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = vec![0_u8; 64 << 10];
    let len = match rustix::fs::flistxattr(file, &mut names[..]) {
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => 0,
        len => len?,
    };
    Ok(names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).flat_map(CString::new).collect())
}

/// `None`: it was taken away since it was listed, or is not for this user to read.
fn attribute(file: BorrowedFd<'_>, name: CString) -> io::Result<Option<(CString, Vec<u8>)>> {
    use rustix::io::Errno;
    let mut value = vec![0_u8; 64 << 10];
    match rustix::fs::fgetxattr(file, name.as_c_str(), &mut value[..]) {
        Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(cause) => Err(cause.into()),
        Ok(len) => {
            value.truncate(len);
            Ok(Some((name, value)))
        }
    }
}

/// Gives a file the times of last access and modification of another one.
///
/// # Errors
/// The file belongs to somebody else.
pub fn set_times(file: &File, about: &Metadata) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: about.atime(), tv_nsec: about.atime_nsec() as _ },
        last_modification: Timespec { tv_sec: about.mtime(), tv_nsec: about.mtime_nsec() as _ },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_a_file_are_in_its_directory_and_differ() {
        let (one, other) = (name_beside(Path::new("/lib/a.so")), name_beside(Path::new("/lib/a.so")));
        assert_eq!((directory_of(&one), directory_of(&other)), (Path::new("/lib"), Path::new("/lib")));
        assert_ne!(one, other);
        assert_eq!(directory_of(&name_beside(Path::new("a.so"))), Path::new("."));
    }

    #[test]
    fn times_and_attributes_are_those_of_the_other_file() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(home.path().join(name)).unwrap();
        let (old, new) = (file("old"), file("new"));
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
        old.set_times(std::fs::FileTimes::new().set_accessed(time).set_modified(time)).unwrap();
        set_times(&new, &old.metadata().unwrap()).unwrap();
        assert_eq!(new.metadata().unwrap().modified().unwrap(), time);
        assert_eq!(new.metadata().unwrap().accessed().unwrap(), time);
        if rustix::fs::fsetxattr(&old, c"user.thaw", b"value", rustix::fs::XattrFlags::empty()).is_err() {
            return testing::skip("needs a file system with extended attributes");
        }
        assert!(attributes(&old).contains(&(c"user.thaw".to_owned(), b"value".to_vec())));
        assert!(!attributes(&new).iter().any(|(name, _)| name.as_c_str() == c"user.thaw"));
    }
}

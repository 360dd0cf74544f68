//! Writing a file so that it is there whole or not at all, also after a kill or a power cut; and what a file must get that takes
//! the place of another one.

use model::{Error, Exit, Result};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use std::ffi::{CString, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot write", path).because(cause);
    check_replaceable(path).map_err(cannot)?;
    let (fresh, file) = create_beside(path).map_err(cannot)?;
    let mut file = BufWriter::new(file);
    let written = fill(&mut file)
        .and_then(|()| file.into_inner()?.sync_all())
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| sync_directory_of(path));
    written.map_err(|cause| {
        // It may have its name already.
        let _ = fs::remove_file(&fresh);
        cannot(cause)
    })
}

/// Whether a new file may take this name: it is free, or a regular file's. The rename would take the name of a device or a pipe away from everybody, as
/// with `-o /dev/stdout` by root.
///
/// # Errors
/// It may not.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    let is_stream = fs::read_link(path).is_ok_and(|target| target.starts_with("/proc"));
    match is_stream || fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        true => Err(not_regular()),
        false => Ok(()),
    }
}

/// A new file beside `target`. Where others may write too, a name that can be guessed may be theirs, and a link to anywhere: such a name is not taken.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let fresh = name_beside(target);
        match File::create_new(&fresh) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (fresh, file)),
        }
    }
}

/// A name in the directory of `target` that nobody else uses. Files of that name are hidden.
pub fn name_beside(target: &Path) -> PathBuf {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".thaw-{}-{}", std::process::id(), SEQUENCE.fetch_add(1, Ordering::Relaxed)));
    target.with_file_name(name)
}

/// The directory that a file's name is in.
pub fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the names in the directory of a file are on the disk.
///
/// # Errors
/// The directory cannot be opened or written.
pub fn sync_directory_of(file: &Path) -> io::Result<()> {
    File::open(directory_of(file))?.sync_all()
}

/// Opens a regular file for reading, through links. What became a pipe since it was named is not waited for.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
}

/// Opens a regular file of one name, not through a link: in a directory that others may have written too, a link or a further name leads to what is
/// not meant. What became a pipe is not waited for.
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

fn not_regular() -> io::Error {
    io::Error::other("it is no regular file")
}

/// All extended attributes of a file (access lists and capabilities among them), as far as they can be read.
pub fn attributes(file: impl AsFd) -> Vec<(CString, Vec<u8>)> {
    let file = file.as_fd();
    let mut names = vec![0_u8; 64 << 10];
    let Ok(len) = rustix::fs::flistxattr(file, &mut names[..]) else { return Vec::new() };
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let name = CString::new(name).ok()?;
        let mut value = vec![0_u8; 64 << 10];
        let len = rustix::fs::fgetxattr(file, name.as_c_str(), &mut value[..]).ok()?;
        value.truncate(len);
        Some((name, value))
    };
    names.filter_map(value).collect()
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
    fn a_file_is_replaced_as_a_whole_and_nothing_lies_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        write_whole(&path, b"first and longer").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

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

    #[test]
    fn what_cannot_be_written_is_left_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert_eq!(write_whole(&path, b"text").unwrap_err().exit, Exit::Machine);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        assert!(write_whole(&home.path().join("no/such/place"), b"text").is_err());
    }

    #[test]
    fn devices_pipes_and_streams_keep_their_names() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::os::unix::fs::symlink("/dev/null", at("device")).unwrap();
        std::os::unix::fs::symlink("/proc/self/fd/1", at("stdout")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for name in ["device", "stdout", "pipe"] {
            assert!(write_whole(&at(name), b"text").unwrap_err().to_string().contains("no regular file"), "{name}");
            assert!(!at(name).symlink_metadata().unwrap().is_file());
        }
        // A link to a file is replaced, and what it leads to stays as it is.
        fs::write(at("other"), "other").unwrap();
        std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
        write_whole(&at("link"), b"text").unwrap();
        assert_eq!(
            (fs::read(at("link")).unwrap(), fs::read(at("other")).unwrap()),
            (b"text".to_vec(), b"other".to_vec())
        );
    }

    #[test]
    fn a_name_that_is_taken_is_not_written_through() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("theirs"), "theirs").unwrap();
        let path = home.path().join("mine");
        // Whatever number the next names have, these links are there first.
        let next = name_beside(&path).to_string_lossy().rsplit('-').next().unwrap().parse::<u64>().unwrap();
        let (start, _) = path.to_str().unwrap().rsplit_once('/').unwrap();
        for number in next..next + 50 {
            let name = format!("{start}/.mine.thaw-{}-{number}", std::process::id());
            std::os::unix::fs::symlink(home.path().join("theirs"), name).unwrap();
        }
        write_whole(&path, b"mine").unwrap();
        assert_eq!(fs::read(home.path().join("theirs")).unwrap(), b"theirs");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert!(path.symlink_metadata().unwrap().is_file());
    }
}

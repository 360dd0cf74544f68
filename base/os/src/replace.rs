//! The one way in which thaw makes or replaces a file: written beside its target under a hidden name, for its owner
//! alone; given its rights; synced; renamed; its directory synced. A reader of the target sees what was there before or
//! the new file, whole, also after a kill or a power cut. The hidden name is in the journal before it is made, so that
//! `thaw doctor --mend` removes what a kill left.
//!
//! The directory is opened once, and every name is looked up in it: nobody who may change the path can lead the file
//! elsewhere. A symbolic link at the target is replaced and never followed. Not for settings of the kernel, and not for
//! devices, pipes and streams.

mod rights;

pub use crate::filesystem::directory::{
    check_link, make as make_directory, make_private as make_private_directory, open as open_directory, open_real,
    real_path, remove,
};
pub use crate::filesystem::existing::Existing;
pub use rights::{Rights, Strictness, grant};

use crate::file::{directory_of, name_beside, not_regular};
use crate::filesystem::{NameIn, current};
use crate::hold::journal::{Entry, Journal, Undo};
use model::{Error, Exit, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`, for its owner alone where it should be (see [`Rights`]).
///
/// # Errors
/// The file may not be replaced; the directory cannot be written, or is full. What was at `path` is still there then,
/// and nothing else is.
pub fn write_whole(path: &Path, bytes: &[u8], rights: Rights<'_>, existing: Existing) -> Result<()> {
    write_by(path, rights, existing, |file| file.write_all(bytes))
}

/// As [`write_whole`], for what is too large to be in memory: `fill` writes the new file.
///
/// # Errors
/// As [`write_whole`], and what `fill` says.
pub fn write_by(
    path: &Path,
    rights: Rights<'_>,
    existing: Existing,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let fresh = Fresh::beside(path, existing)?;
    let mut file = BufWriter::new(fresh.file());
    fill(&mut file).and_then(|()| file.flush()).map_err(|cause| fresh.failed("cannot write", cause))?;
    drop(file);
    fresh.grant(rights)?;
    fresh.place()
}

/// As [`write_whole`], but a device, a pipe or a stream (`/dev/stdout`) that is there is written to.
///
/// # Errors
/// As [`write_whole`], or the device's own.
pub fn write_or_send(path: &Path, bytes: &[u8], rights: Rights<'_>, existing: Existing) -> Result<()> {
    if !is_sent_to(path) {
        return write_whole(path, bytes, rights, existing);
    }
    let mut options = fs::OpenOptions::new();
    let sent = options.append(true).open(path).and_then(|mut stream| stream.write_all(bytes));
    sent.map_err(|cause| Error::on(Exit::Machine, "cannot write to", path).because(cause))
}

/// Whether what has this name is a device, a pipe or a stream: [`write_or_send`] writes to it and replaces nothing.
pub fn is_sent_to(path: &Path) -> bool {
    is_stream(path) || fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// Makes a symbolic link, in place of what has its name.
///
/// # Errors
/// The directory cannot be written. What was at `path` is still there then, and nothing else is.
pub fn write_link(path: &Path, target: &Path) -> Result<()> {
    let hidden = Hidden::beside(path, Existing::Replace, |at| current().make_link(at, target))?;
    hidden.place(Existing::Replace)
}

/// Whether a new file may take this name: it is free, or a regular file's that may be replaced. Asked before long work;
/// asked again, and for good, when the file is placed.
///
/// # Errors
/// It may not.
pub fn check(path: &Path, existing: Existing) -> Result<()> {
    check_replaceable(path).map_err(|cause| no_place(path, cause))?;
    match existing == Existing::Keep && path.symlink_metadata().is_ok() {
        true => Err(taken(path)),
        false => Ok(()),
    }
}

/// The rename would take the name of a device or a pipe away from everybody, as with `-o /dev/stdout` by root.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let is_other = fs::metadata(path).is_ok_and(|about| !about.is_file());
    if is_stream(path) || is_other { Err(not_regular()) } else { Ok(()) }
}

/// Whether a name stands for an open file of some process, as `/dev/stdout` does.
fn is_stream(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.starts_with("/proc"))
}

fn taken(path: &Path) -> Error {
    Error::on(Exit::Usage, "there is already", path).hint("replace it with --force, or write to another file")
}

/// Nothing can be made beside a target. The hidden name would tell nobody what is wrong.
pub fn no_place(target: &Path, cause: io::Error) -> Error {
    let is_missing = cause.kind() == io::ErrorKind::NotFound;
    let exit = if is_missing { Exit::Usage } else { Exit::Machine };
    let error = Error::on(exit, "cannot write to", target).because(cause);
    match is_missing {
        true => error.hint(format!("the directory must exist: mkdir -p '{}'", model::shown(directory_of(target)))),
        false => error,
    }
}

/// A name beside a target, in an open directory. Dropped before it is placed, it is removed.
struct Hidden {
    directory: File,
    /// The hidden name with its directory, absolute.
    path: PathBuf,
    target: OsString,
    /// `None`: the name is gone, also from the disk.
    entry: Option<Entry>,
}

impl Hidden {
    /// Lets `make` make something under a new name.
    fn beside(target: &Path, existing: Existing, make: impl FnMut(NameIn<'_>) -> io::Result<()>) -> Result<Self> {
        let directory = open_directory(directory_of(target)).map_err(|cause| no_place(target, cause))?;
        Self::inside(directory, target, existing, make)
    }

    /// In the target's directory, which is open.
    fn inside(
        directory: File,
        target: &Path,
        existing: Existing,
        mut make: impl FnMut(NameIn<'_>) -> io::Result<()>,
    ) -> Result<Self> {
        check(target, existing)?;
        let cannot = |cause: io::Error| no_place(target, cause);
        let name = name_of(target).map_err(cannot)?;
        loop {
            let path = std::path::absolute(name_beside(target)).map_err(cannot)?;
            let entry = Journal::own()?.hold(Undo::RemoveFile { path: path.clone() }, undo, || Ok(()))?;
            match make(NameIn { directory: &directory, name: path.file_name().unwrap_or_default() }) {
                Ok(()) => return Ok(Self { directory, path, target: name.to_owned(), entry: Some(entry) }),
                // Where others may write too, a name that can be guessed may be theirs, and a link to anywhere. It
                // stays theirs.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => entry.forget()?,
                Err(cause) => return entry.forget().and(Err(cannot(cause))),
            }
        }
    }

    fn at(&self) -> NameIn<'_> {
        NameIn { directory: &self.directory, name: self.path.file_name().unwrap_or_default() }
    }

    fn target(&self) -> PathBuf {
        self.path.with_file_name(&self.target)
    }

    /// Takes the name of the target.
    fn place(mut self, existing: Existing) -> Result<()> {
        let to = NameIn { directory: &self.directory, name: &self.target };
        let renamed = current().rename(self.at(), to, existing);
        renamed.map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => taken(&self.target()),
            _ => Error::on(Exit::Machine, "cannot replace", &self.target()).because(cause),
        })?;
        // After a power cut before this, the hidden name is there again: the entry stays as long.
        let synced = current().sync_directory(&self.directory);
        let (entry, target) = (self.entry.take(), self.target());
        match (synced, entry) {
            (Ok(()), Some(entry)) => entry.forget(),
            (Ok(()), None) => Ok(()),
            (Err(cause), entry) => {
                entry.into_iter().for_each(Entry::leave);
                Err(Error::on(Exit::Machine, "cannot write the directory of", &target).because(cause))
            }
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        let removed = current().remove(self.at()).and_then(|()| current().sync_directory(&self.directory));
        match removed {
            // An entry that cannot be removed is one that `thaw doctor` shows.
            Ok(()) => drop(entry.forget()),
            Err(_) => entry.leave(),
        }
    }
}

/// A new file that has no name of its own yet. Dropped before it is placed, it is removed.
pub struct Fresh {
    hidden: Hidden,
    file: File,
    existing: Existing,
}

impl Fresh {
    /// Creates one in the directory of `target`, open for reading and writing, for its owner alone.
    ///
    /// # Errors
    /// `target` may not be replaced, or nothing can be made beside it.
    pub fn beside(target: &Path, existing: Existing) -> Result<Self> {
        let directory = open_directory(directory_of(target)).map_err(|cause| no_place(target, cause))?;
        Self::inside(directory, target, existing)
    }

    /// The same for what takes the place of a file of a [`real_path`]: no link leads it elsewhere.
    ///
    /// # Errors
    /// As [`Fresh::beside`]; a link is on the way now.
    pub fn in_place_of(real: &Path) -> Result<Self> {
        let directory = open_real(directory_of(real)).map_err(|cause| no_place(real, cause))?;
        Self::inside(directory, real, Existing::Replace)
    }

    fn inside(directory: File, target: &Path, existing: Existing) -> Result<Self> {
        let mut file = None;
        let hidden = Hidden::inside(directory, target, existing, |at| {
            file = Some(current().create(at)?);
            Ok(())
        })?;
        let file = file.ok_or_else(|| Error::bug("the journal made no change"))?;
        Ok(Self { hidden, file, existing })
    }

    /// The new file, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its hidden name, absolute: for what can only be told paths.
    pub fn path(&self) -> &Path {
        &self.hidden.path
    }

    /// What was written, as a reader will see it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn content(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|cause| self.failed("cannot read again", cause))?;
        Ok(bytes)
    }

    /// An error about what is being written, by the name that the user knows.
    pub fn failed(&self, what: &str, cause: impl Into<io::Error>) -> Error {
        Error::on(Exit::Machine, what, &self.hidden.target()).because(cause.into())
    }

    /// Lets the disk begin with what is written so far, and does not wait for it: only a hint, so that
    /// [`Fresh::place`] has less to wait for.
    pub fn start_writing(&self) {
        // SAFETY: takes numbers only; the descriptor is open for as long as `self` lives.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }

    /// Gives it its rights. After the last write: times are among them.
    ///
    /// # Errors
    /// The file system refuses, or the user may not and must.
    pub fn grant(&self, rights: Rights<'_>) -> Result<()> {
        grant(&self.file, rights).map_err(|(what, cause)| self.failed(what, cause))
    }

    /// Takes the name of the target, when all of it is on the disk.
    ///
    /// # Errors
    /// The target may not be replaced; the disk is full or broken. What was there stays then.
    pub fn place(self) -> Result<()> {
        current().sync_file(&self.file).map_err(|cause| self.failed("cannot write", cause))?;
        self.hidden.place(self.existing)
    }
}

/// Moves a file to another name, in place of what has it, and waits until both names are on the disk.
///
/// # Errors
/// As rename(2): [`io::ErrorKind::CrossesDevices`] among them.
pub fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    move_into(open_directory(directory_of(to))?, from, to)
}

/// As [`move_to`], in place of a file of a [`real_path`]: no link leads it elsewhere.
///
/// # Errors
/// As [`move_to`]; a link is on the way now.
pub fn move_in_place_of(from: &Path, real: &Path) -> io::Result<()> {
    move_into(open_real(directory_of(real))?, from, real)
}

/// The last name of a path; `/` and `..` have none.
fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::ErrorKind::IsADirectory.into())
}

fn move_into(new: File, from: &Path, to: &Path) -> io::Result<()> {
    let old = open_directory(directory_of(from))?;
    let places = (NameIn { directory: &old, name: name_of(from)? }, NameIn { directory: &new, name: name_of(to)? });
    current().rename(places.0, places.1, Existing::Replace)?;
    current().sync_directory(&new)?;
    let id = |directory: &File| directory.metadata().map(|about| (about.dev(), about.ino()));
    if id(&old)? == id(&new)? { Ok(()) } else { current().sync_directory(&old) }
}

/// Gives a directory, with all that was written into it, its name: in place of nothing, of an empty directory, or of a
/// full one, which gets the other name then. Who looks sees one of the two as a whole, also after a power cut.
///
/// # Errors
/// As rename(2), and as syncfs(2). Nothing has another name then, unless only the last sync fails.
pub fn place_directory(made: &Path, target: &Path) -> io::Result<()> {
    let (old, new) = (open_directory(directory_of(made))?, open_directory(directory_of(target))?);
    let places = (NameIn { directory: &old, name: name_of(made)? }, NameIn { directory: &new, name: name_of(target)? });
    current().sync_everything(&old)?;
    match fs::read_dir(target).is_ok_and(|mut inside| inside.next().is_some()) {
        true => current().exchange(places.0, places.1)?,
        false => current().rename(places.0, places.1, Existing::Replace)?,
    }
    current().sync_directory(&new)
}

/// Removes what a kill left beside a target.
pub(crate) fn undo(undo: &Undo, _entry: &Path) -> Result<()> {
    match undo {
        Undo::RemoveFile { path } => {
            remove(path).map_err(|cause| Error::on(Exit::Machine, "cannot remove", path).because(cause))
        }
        other => Err(other.is_of_another_hand()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        write_whole(path, bytes, Rights::Usual, Existing::Replace)
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_lies_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        write(&path, b"first and longer").unwrap();
        write(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_left_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert_eq!(write(&path, b"text").unwrap_err().exit, Exit::Machine);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        assert!(write(&home.path().join("no/such/place"), b"text").is_err());
    }

    #[test]
    fn devices_pipes_and_streams_keep_their_names() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::os::unix::fs::symlink("/dev/null", at("device")).unwrap();
        std::os::unix::fs::symlink("/proc/self/fd/1", at("stdout")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for name in ["device", "stdout", "pipe"] {
            assert!(write(&at(name), b"text").unwrap_err().to_string().contains("no regular file"), "{name}");
            assert!(!at(name).symlink_metadata().unwrap().is_file());
        }
        // A link to a file is replaced, and what it leads to stays as it is.
        fs::write(at("other"), "other").unwrap();
        std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
        write(&at("link"), b"text").unwrap();
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
        write(&path, b"mine").unwrap();
        assert_eq!(fs::read(home.path().join("theirs")).unwrap(), b"theirs");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert!(path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn what_is_there_stays_without_being_told_otherwise() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("theirs");
        fs::write(&path, "theirs").unwrap();
        let error = write_whole(&path, b"mine", Rights::Usual, Existing::Keep).unwrap_err();
        assert_eq!((error.exit, error.hint.is_some()), (Exit::Usage, true));
        // One that appears while the new one is written is not replaced either.
        let late = home.path().join("late");
        let error = write_by(&late, Rights::Usual, Existing::Keep, |_| fs::write(&late, "first")).unwrap_err();
        assert_eq!(error.exit, Exit::Usage, "{error}");
        assert_eq!((fs::read(&path).unwrap(), fs::read(&late).unwrap()), (b"theirs".to_vec(), b"first".to_vec()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "nothing lies beside them");
    }

    #[test]
    fn a_file_for_its_owner_alone_is_never_for_others() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("private");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        write_by(&path, Rights::Private, Existing::Keep, |_| {
            let hidden = fs::read_dir(home.path()).unwrap().next().unwrap().unwrap().path();
            assert_eq!(mode(&hidden), 0o600);
            Ok(())
        })
        .unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn links_of_others_in_directories_of_everybody_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("all")).unwrap();
        fs::create_dir(at("root-only")).unwrap();
        fs::set_permissions(at("all"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(at("root-only"), at("all/ours")).unwrap();
        symlink(at("root-only"), at("all/theirs")).unwrap();
        lchown(at("all/theirs"), Some(65534), Some(65534)).unwrap();
        write(&at("all/ours/file"), b"text").unwrap();
        let error = write(&at("all/theirs/file"), b"planted").unwrap_err().to_string();
        assert!(error.contains("link of another user"), "{error}");
        assert_eq!(fs::read(at("root-only/file")).unwrap(), b"text");
        // In a directory that is somebody's own, its owner says what a name means.
        fs::set_permissions(at("all"), fs::Permissions::from_mode(0o755)).unwrap();
        write(&at("all/theirs/file"), b"asked for").unwrap();
        assert_eq!(fs::read(at("root-only/file")).unwrap(), b"asked for");
    }
}

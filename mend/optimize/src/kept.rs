//! Originals of files that are replaced in place, kept so that each can be put back byte for byte, with owner, mode and
//! dates. Not for what `pack` replaces: it keeps its own originals.

use crate::manifest::Identity;
use model::{Error, Exit, Result};
use os::file::directory_of;
use os::filesystem::{NameIn, current};
use os::replace::{Existing, Fresh, Rights, Strictness, move_in_place_of, open_directory};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Keeps a file under another name: a hard link where that is possible, else a copy. On the disk when this returns.
///
/// # Errors
/// It cannot be written, there is something, or the file is another one than expected.
pub fn keep(path: &Path, expected: Identity, original: &Path) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot keep the original as", original).because(cause);
    // What is there may be all that is left of another file.
    if original.symlink_metadata().is_ok() {
        return Err(cannot(io::ErrorKind::AlreadyExists.into()));
    }
    let link = || {
        let (file, directory) = (os::file::open_real(path)?, open_directory(directory_of(original))?);
        current().add_name(&file, NameIn { directory: &directory, name: original.file_name().unwrap_or_default() })?;
        current().sync_directory(&directory)
    };
    if link().is_err() {
        copy(os::file::open_real(path).map_err(cannot)?, Fresh::beside(original, Existing::Keep)?, None)?;
    }
    check(original, expected)
}

/// Puts a kept original back in the place of what replaced it.
///
/// # Errors
/// The original is damaged or gone, or the place cannot be written; it is as it was then.
pub fn put_back(path: &Path, expected: Identity, original: &Path) -> Result<()> {
    check(original, expected)?;
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot put the original back:", path).because(cause);
    match move_in_place_of(original, path) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved.map_err(cannot),
    }
    copy(os::file::open_regular(original).map_err(cannot)?, Fresh::in_place_of(path)?, None)
}

/// Puts a copy of a file where there is one or none, with the date of now: a cache must be no older than its directory.
///
/// # Errors
/// It is another file than expected or belongs to another user, or the place cannot be written; it is as it was then.
pub fn place(made: &Path, expected: Identity, path: &Path) -> Result<()> {
    let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot copy", made).because(cause);
    check(made, expected)?;
    let file = os::file::open_regular(made).map_err(cannot)?;
    let owner = file.metadata().map_err(cannot)?.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(Error::on(Exit::Data, "this file belongs to another user, who could change it meanwhile:", made)
            .hint("apply it as that user"));
    }
    let fresh =
        if path.symlink_metadata().is_ok() { Fresh::in_place_of(path) } else { Fresh::beside(path, Existing::Keep) };
    let now = SystemTime::now();
    copy(file, fresh?, Some(now))?;
    // The rename made the directory newer. It is its date that is set: to touch the file once more would be a write to
    // it that is not on the disk.
    let directory = directory_of(path);
    let dated = open_directory(directory).and_then(|directory| directory.set_modified(now));
    dated.map_err(|cause| Error::on(Exit::Machine, "cannot set the date of", directory).because(cause))
}

/// A copy of a file, with its owner, mode, attributes and times, or with this date. On the disk when this returns.
fn copy(mut file: File, fresh: Fresh, date: Option<SystemTime>) -> Result<()> {
    let about = file.metadata().map_err(|cause| fresh.failed("cannot look at what is copied to", cause))?;
    if rustix::fs::ioctl_ficlone(fresh.file(), &file).is_err() {
        io::copy(&mut file, &mut fresh.file()).map_err(|cause| fresh.failed("cannot copy to", cause))?;
    }
    fresh.grant(Rights::Like { file: &file, about: &about, strictness: Strictness::AsAllowed })?;
    if let Some(date) = date {
        fresh.file().set_modified(date).map_err(|cause| fresh.failed("cannot set the date of", cause))?;
    }
    fresh.place()
}

fn check(original: &Path, expected: Identity) -> Result<()> {
    let is = Identity::of(original)
        .map_err(|cause| Error::on(Exit::Machine, "cannot read the kept original", original).because(cause))?;
    match is == expected {
        true => Ok(()),
        false => Err(Error::on(Exit::Data, "the kept original is another file than was kept:", original)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_goes_back_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let (path, original) = (home.path().join("a.zip"), home.path().join("kept"));
        fs::write(&path, "first").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = (Identity::of(&path).unwrap(), fs::metadata(&path).unwrap());
        keep(&path, before.0, &original).unwrap();
        keep(&path, before.0, &original).expect_err("it would be lost");
        fs::write(home.path().join("new"), "second").unwrap();
        fs::rename(home.path().join("new"), &path).unwrap();
        put_back(&path, before.0, &original).unwrap();
        let after = (Identity::of(&path).unwrap(), fs::metadata(&path).unwrap());
        assert_eq!(before.0, after.0);
        let about = |about: &fs::Metadata| (about.mode(), about.uid(), about.mtime(), about.mtime_nsec());
        assert_eq!(about(&before.1), about(&after.1));
        assert!(!original.exists());
    }

    #[test]
    fn what_is_placed_is_new_and_what_is_not_as_expected_is_not_placed() {
        let home = tempfile::tempdir().unwrap();
        let (made, path) = (home.path().join("made"), home.path().join("place"));
        fs::write(&made, "cache").unwrap();
        fs::File::open(&made).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let expected = Identity::of(&made).unwrap();
        place(&made, expected, &path).unwrap();
        assert_eq!(Identity::of(&path).unwrap(), expected);
        let mtime = |path: &Path| fs::metadata(path).unwrap().mtime();
        assert!(mtime(&path) >= mtime(home.path()), "a cache that is older than its directory is stale");
        fs::write(&made, "other").unwrap();
        place(&made, expected, &path).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"cache");
        place(&made, Identity::of(&made).unwrap(), &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn an_original_on_another_file_system_goes_back_too_and_a_damaged_one_does_not() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let dev = |directory: &tempfile::TempDir| fs::metadata(directory.path()).unwrap().dev();
        if dev(&home) == dev(&other) {
            testing::skip("the temporary directory is on the same file system as /dev/shm");
            return;
        }
        let (path, original) = (home.path().join("a.zip"), other.path().join("kept"));
        fs::write(&path, "first").unwrap();
        let before = (Identity::of(&path).unwrap(), fs::metadata(&path).unwrap());
        keep(&path, before.0, &original).unwrap();
        fs::write(&path, "second").unwrap();
        put_back(&path, before.0, &original).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mtime(), after.mtime_nsec()), (before.1.mtime(), before.1.mtime_nsec()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&original, "rotten").unwrap();
        assert_eq!(put_back(&path, before.0, &original).unwrap_err().exit, Exit::Data);
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }
}

//! What thaw keeps between runs because it takes long to make, and can make anew at any time. Files of one kind lie in
//! a directory of their own below [`directory`]; nobody misses one that is gone.
//!
//! What somebody else than this user and root can have written is not read. Files are written whole
//! ([`crate::replace`]), and the oldest make room.

use crate::file::{of_user, of_variable};
use crate::replace::{Existing, Rights, make_private_directory, write_whole};
use crate::user::{Account, who_changes_but};
use model::{Bytes, Error, Exit, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How the names of these files end: nothing else is thrown away, wherever the directory was said to be.
const ENDING: &str = "kept";

/// Where all of it lies: `$THAW_CACHE_DIR`, else `/var/cache/thaw` for root, else `$XDG_CACHE_HOME/thaw`, else
/// `~/.cache/thaw`. `None`: nowhere.
pub fn directory() -> Option<PathBuf> {
    let of_root = || rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/cache/thaw"));
    of_variable("THAW_CACHE_DIR").or_else(of_root).or_else(|| Some(of_user("XDG_CACHE_HOME", ".cache")?.join("thaw")))
}

/// Files of one kind.
#[derive(Clone, Debug)]
pub struct Kept {
    directory: PathBuf,
    most: u64,
}

impl Kept {
    /// In a directory of this name, and together so large at most.
    pub fn in_directory(directory: PathBuf, most: Bytes) -> Self {
        Self { directory, most: most.0 }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of a name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{ENDING}"))
    }

    /// What is kept by a name; `None`: nothing.
    ///
    /// # Errors
    /// Somebody else can have written it; it cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            file => File::from(file?),
        };
        let user = rustix::process::geteuid().as_raw();
        let account = if user == 0 { None } else { Account::of(user).map_err(io::Error::other)? };
        if let Some((place, why)) = who_changes_but(&path, account.as_ref()) {
            return Err(io::Error::other(format!("{}: {why}", model::shown(&place))));
        }
        // What the path leads to by now is no matter: this is what is read.
        let about = file.metadata()?;
        if !about.is_file() || about.uid() != user || about.mode() & 0o022 != 0 || about.len() > self.most {
            return Err(io::Error::other("it is no file that only this user writes"));
        }
        let mut bytes = Vec::with_capacity(about.len() as usize);
        file.take(self.most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Keeps something by a name; the oldest make room.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        make_private_directory(&self.directory)
            .map_err(|cause| Error::on(Exit::Machine, "cannot make the directory", &self.directory).because(cause))?;
        write_whole(&self.path(name), bytes, Rights::Private, Existing::Replace)?;
        let mut files = self.files();
        files.sort_by_key(|(_, about)| (about.mtime(), about.mtime_nsec()));
        let mut total: u64 = files.iter().map(|(_, about)| about.len()).sum();
        for (path, about) in files {
            if total <= self.most {
                break;
            }
            total -= about.len();
            // One that somebody else has just removed is gone, which is as well.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn files(&self) -> Vec<(PathBuf, fs::Metadata)> {
        files_in(&self.directory)
    }
}

fn files_in(directory: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    let is_kept = |path: &Path| path.extension().is_some_and(|ending| ending == ENDING);
    files.filter(|(path, about)| about.is_file() && is_kept(path)).collect()
}

/// How much is kept below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Files of all kinds.
    pub files: u64,
    /// In all of them.
    pub bytes: Bytes,
}

/// How much is kept of all kinds.
pub fn amount(directory: &Path) -> Amount {
    let files: Vec<_> = all(directory);
    Amount { files: files.len() as u64, bytes: Bytes(files.iter().map(|(_, about)| about.len()).sum()) }
}

/// Throws all kinds away.
///
/// # Errors
/// A file cannot be removed.
pub fn empty(directory: &Path) -> Result<()> {
    for (path, _) in all(directory) {
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(Error::on(Exit::Machine, "cannot remove", &path).because(cause));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Files one directory down: what is there, links not followed.
fn all(directory: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let kinds = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    kinds.flat_map(|kind| files_in(&kind.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_was_kept_is_read_and_the_oldest_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::in_directory(folder.path().join("kind"), Bytes(100));
        assert_eq!(kept.read("one").unwrap(), None);
        for (name, age) in [("one", 3), ("two", 2), ("three", 1)] {
            kept.write(name, &[7; 40]).unwrap();
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            File::options().write(true).open(kept.path(name)).map(|file| file.set_modified(time)).ok();
        }
        assert_eq!(kept.read("one").unwrap(), None, "the oldest");
        assert_eq!(kept.read("three").unwrap(), Some(vec![7; 40]));
        assert_eq!(amount(folder.path()), Amount { files: 2, bytes: Bytes(80) });
        fs::write(kept.directory().join("other"), "of somebody").unwrap();
        empty(folder.path()).unwrap();
        assert!(kept.directory().join("other").exists());
        assert_eq!(amount(folder.path()).files, 0);
    }

    #[test]
    fn what_others_can_have_written_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::in_directory(folder.path().join("kind"), Bytes(100));
        kept.write("one", b"it").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&kept.path("one"), 0o602);
        assert!(kept.read("one").is_err());
        set(&kept.path("one"), 0o600);
        set(kept.directory(), 0o707);
        assert!(kept.read("one").is_err());
        set(kept.directory(), 0o700);
        assert_eq!(kept.read("one").unwrap(), Some(b"it".to_vec()));
        symlink("one.kept", kept.path("link")).unwrap();
        assert!(kept.read("link").is_err());
    }
}

//! Regular files at and below paths, each once: the list of what a survey looks at. Opens nothing but directories.

use std::collections::HashSet;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What was found, and what was left out and why.
#[derive(Debug, Default)]
pub struct Walked {
    /// Regular files, in the order of the paths; of a directory by name.
    pub files: Vec<PathBuf>,
    /// Paths that could not be looked at.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Symbolic links inside of directories.
    pub symlinks: u64,
    /// Further names of files already seen.
    pub hard_links: u64,
    /// How many devices, pipes and sockets were met.
    pub special: u64,
    /// Directories on which another file system is mounted.
    pub mount_points: u64,
    /// (device, inode) of files and directories.
    seen: HashSet<(u64, u64)>,
}

/// Finds every regular file at and below the paths; of a directory on its own file system only. Symbolic links are
/// followed where they are named in `paths`, not inside of directories. Ends early when [`crate::interrupt`] says so.
pub fn files(paths: &[PathBuf]) -> Walked {
    let mut walked = Walked::default();
    for path in paths {
        match path.metadata() {
            Ok(about) if about.is_dir() => walked.directory(path.clone(), &about),
            Ok(about) => walked.file(path.clone(), about.file_type(), (about.dev(), about.ino())),
            Err(error) => walked.trouble(path, error),
        }
    }
    walked
}

impl Walked {
    fn trouble(&mut self, path: &Path, error: io::Error) {
        self.unreadable.push((path.to_owned(), error));
    }

    fn file(&mut self, path: PathBuf, kind: FileType, key: (u64, u64)) {
        if kind.is_symlink() {
            self.symlinks += 1;
        } else if !kind.is_file() {
            self.special += 1;
        } else if self.seen.insert(key) {
            self.files.push(path);
        } else {
            self.hard_links += 1;
        }
    }

    /// A directory and all below it, by name.
    fn directory(&mut self, path: PathBuf, about: &Metadata) {
        let dev = about.dev();
        let mut waiting = vec![(path, about.ino())];
        while let Some((path, ino)) = waiting.pop() {
            // A directory may be mounted into itself.
            if crate::interrupt::requested() || !self.seen.insert((dev, ino)) {
                continue;
            }
            let entries = std::fs::read_dir(&path).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
            let mut entries = match entries {
                Ok(entries) => entries,
                Err(error) => {
                    self.trouble(&path, error);
                    continue;
                }
            };
            entries.sort_by_key(std::fs::DirEntry::file_name);
            let mut below = Vec::new();
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => match entry.metadata() {
                        Ok(about) if about.dev() == dev => below.push((entry.path(), about.ino())),
                        Ok(_) => self.mount_points += 1,
                        Err(error) => self.trouble(&entry.path(), error),
                    },
                    Ok(kind) => self.file(entry.path(), kind, (dev, entry.ino())),
                    Err(error) => self.trouble(&entry.path(), error),
                }
            }
            waiting.extend(below.into_iter().rev());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_found_once_and_what_is_left_out_is_counted() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        std::fs::create_dir_all(path("b/deep")).unwrap();
        for name in ["b/deep/one", "b/two", "a"] {
            std::fs::write(path(name), name).unwrap();
        }
        std::fs::hard_link(path("a"), path("c")).unwrap();
        std::os::unix::fs::symlink("a", path("d")).unwrap();
        std::os::unix::fs::symlink("b", path("e")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("f")).unwrap();
        let walked = files(&[home.path().to_owned(), path("e"), path("d"), path("nowhere")]);
        assert_eq!(walked.files, [path("a"), path("b/two"), path("b/deep/one")]);
        let counts = (walked.symlinks, walked.hard_links, walked.special, walked.mount_points);
        assert_eq!(counts, (2, 2, 1, 0), "the named links lead to what was seen: {walked:?}");
        let [(missing, error)] = walked.unreadable.as_slice() else { panic!("{walked:?}") };
        assert_eq!((missing, error.kind()), (&path("nowhere"), io::ErrorKind::NotFound));
    }
}

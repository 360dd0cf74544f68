//! Whose file it is: the program's or the system's.

use crate::raw::RawTrace;
use model::Owner;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Who owns what: a file below one of these directories belongs to the program, any other to the system.
/// Files whose name is not known belong to the program: mostly it made and deleted them itself.
/// The file system's metadata belongs to the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The program's install directory, its profile, the directories that are put back before each run.
    pub app_dirs: Vec<PathBuf>,
}

/// The rule, ready to be asked.
pub(super) struct Owners {
    directories: Vec<PathBuf>,
}

impl Owners {
    /// Directories as given and as they are without symbolic links.
    pub(super) fn new(ownership: &Ownership) -> Self {
        let mut directories = ownership.app_dirs.clone();
        directories.extend(ownership.app_dirs.iter().filter_map(|directory| directory.canonicalize().ok()));
        Self { directories }
    }

    pub(super) fn of(&self, path: &Path) -> Owner {
        match self.directories.iter().any(|directory| path.starts_with(directory)) {
            true => Owner::App,
            false => Owner::System,
        }
    }
}

/// Install directories of the executables that the traced processes ran, without the directories that
/// all programs share (`/usr/bin`, `/usr/lib`, ...). Add them to [`Ownership::app_dirs`].
pub fn install_dirs(raw: &RawTrace) -> Vec<PathBuf> {
    let executables = raw.processes.iter().filter_map(|process| process.exe.as_deref());
    let real = executables.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let directories: BTreeSet<PathBuf> = real.filter_map(|path| os::install::directory_of(&path)).collect();
    directories.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_the_programs_directories_are_its_own() {
        let owners = Owners::new(&Ownership { app_dirs: vec!["/usr/lib/app".into(), "/home/u/.app".into()] });
        assert_eq!(owners.of(Path::new("/usr/lib/app/lib/x.so")), Owner::App);
        assert_eq!(owners.of(Path::new("/usr/lib/application/x.so")), Owner::System);
        assert_eq!(owners.of(Path::new("/home/u/.app")), Owner::App);
        assert_eq!(owners.of(Path::new("/usr/lib/libc.so.6")), Owner::System);
    }
}

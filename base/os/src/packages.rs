//! Which installed package a file comes from, and what packages have to do with each other: from the package database
//! of the machine (dpkg, pacman, rpm). No process per file: dpkg's and pacman's files are read here, rpm is asked once.
//!
//! Interprets nothing: which packages are a program's own is for the rooms above to say.

mod dpkg;
mod pacman;
mod rpm;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A package that is installed, by the words of its package manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// What the package manager calls it: `libpq5`.
    pub name: String,
    /// What it was built from: `postgresql-15`. Its own name where the database does not tell.
    pub source: String,
    /// It is a library for programs of many packages (dpkg's sections `libs` and `oldlibs`).
    pub library: bool,
    /// Every system has it (dpkg: essential, or of priority `required`).
    pub essential: bool,
    /// Names of what it depends on or recommends: packages, or what packages provide. Of alternatives, all.
    pub wants: Vec<String>,
    /// Further names that it goes by.
    pub provides: Vec<String>,
}

/// A package by its place in [`Packages::all`].
pub type PackageId = u32;

/// Packages and the paths that they list.
type Listed = (Vec<Package>, Vec<(PathBuf, PackageId)>);

/// The packages of this machine, and who lists which path.
#[derive(Debug)]
pub struct Packages {
    /// Which package manager answers: `dpkg`, `pacman` or `rpm`.
    pub manager: &'static str,
    /// All that are installed.
    pub all: Vec<Package>,
    lists: Lists,
    /// What was looked up; an empty list: nobody lists it.
    known: HashMap<PathBuf, Vec<PackageId>>,
    /// `/bin`, `/lib` and the like are links to their namesakes in `/usr`.
    merged: bool,
}

/// Who lists which path. All of it is read when the database is, and stays (8 MB for 900 packages): who empties the
/// caches again and again would wait for a thousand small files each time.
#[derive(Debug)]
enum Lists {
    /// A text per package, one path per line; in the order of [`Packages::all`].
    Texts(Vec<Vec<u8>>),
    /// Paths with the package of each.
    Paths(Vec<(PathBuf, PackageId)>),
}

impl Packages {
    /// The database of this machine; `None`: it has none that thaw reads.
    pub fn load() -> Option<Self> {
        Self::load_in(Path::new("/"))
    }

    /// [`Packages::load`] below another root.
    pub fn load_in(root: &Path) -> Option<Self> {
        let (manager, all, lists) = dpkg::read(root)
            .map(|(all, lists)| ("dpkg", all, Lists::Texts(lists)))
            .or_else(|| pacman::read(root).map(|(all, lists)| ("pacman", all, Lists::Paths(lists))))
            .or_else(|| rpm::read(root).map(|(all, lists)| ("rpm", all, Lists::Paths(lists))))?;
        let merged = std::fs::read_link(root.join("lib")).is_ok_and(|target| target.ends_with("usr/lib"));
        Some(Self { manager, all, lists, known: HashMap::new(), merged })
    }

    /// A database that is given: packages and the paths that they list.
    pub fn of(all: Vec<Package>, lists: Vec<(PathBuf, PackageId)>) -> Self {
        Self { manager: "dpkg", all, lists: Lists::Paths(lists), known: HashMap::new(), merged: true }
    }

    /// The package of this name.
    pub fn find(&self, name: &str) -> Option<PackageId> {
        self.all.iter().position(|package| package.name == name).map(|at| at as PackageId)
    }

    /// Looks paths and the directories above them up, all in one pass over the lists; what is known is not looked up
    /// again.
    pub fn look_up<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        let _span = tracing::info_span!("look up").entered();
        let mut wanted: HashSet<PathBuf> = HashSet::new();
        for path in paths {
            for above in path.ancestors().filter(|above| above.is_absolute()) {
                let above = self.plain(above);
                if self.known.contains_key(&above) || !wanted.insert(above) {
                    break;
                }
            }
        }
        if wanted.is_empty() {
            return;
        }
        let mut found: HashMap<PathBuf, Vec<PackageId>> = wanted.into_iter().map(|path| (path, Vec::new())).collect();
        let merged = self.merged;
        let mut take = |line: &[u8], package: PackageId| {
            let line = plain_bytes(line, merged);
            if let Some(listed) = found.get_mut(Path::new(OsStr::from_bytes(line)))
                && !listed.contains(&package)
            {
                listed.push(package);
            }
        };
        match &self.lists {
            Lists::Texts(texts) => {
                for (package, text) in (0..).zip(texts) {
                    text.split(|byte| *byte == b'\n').for_each(|line| take(line, package));
                }
            }
            Lists::Paths(lines) => {
                lines.iter().for_each(|(path, package)| take(path.as_os_str().as_bytes(), *package));
            }
        }
        self.known.extend(found);
    }

    /// Who lists a path, as far as it was looked up: packages share directories.
    pub fn who_lists(&self, path: &Path) -> &[PackageId] {
        self.known.get(&self.plain(path)).map_or(&[], Vec::as_slice)
    }

    /// The paths that a package lists: files, links and directories.
    pub fn paths_of(&self, package: PackageId) -> Vec<PathBuf> {
        let path = |line: &[u8]| PathBuf::from(OsStr::from_bytes(line));
        match &self.lists {
            Lists::Texts(texts) => {
                let text = texts.get(package as usize).map(Vec::as_slice).unwrap_or_default();
                text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(path).collect()
            }
            Lists::Paths(lines) => {
                lines.iter().filter(|(_, other)| *other == package).map(|(path, _)| path.clone()).collect()
            }
        }
    }

    /// The path as both the kernel and the lists would write it.
    fn plain(&self, path: &Path) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(plain_bytes(path.as_os_str().as_bytes(), self.merged)))
    }
}

/// Where `/lib` is a link to `/usr/lib`, packages list either name: the short one stands for both. No slash at the end.
fn plain_bytes(path: &[u8], merged: bool) -> &[u8] {
    const MERGED: [&[u8]; 6] = [b"bin", b"sbin", b"lib", b"lib32", b"lib64", b"libx32"];
    let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
    let path = if path == b"/." { b"/" } else { path };
    let Some(rest) = path.strip_prefix(b"/usr").filter(|_| merged) else { return path };
    let first = rest.strip_prefix(b"/").and_then(|rest| rest.split(|byte| *byte == b'/').next());
    if first.is_some_and(|first| MERGED.contains(&first)) { rest } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str) -> Package {
        Package { name: name.into(), source: name.into(), ..Package::default() }
    }

    #[test]
    fn a_file_is_found_by_either_name_of_a_merged_directory() {
        let lists = vec![("/lib/x/libc.so.6".into(), 0), ("/usr/bin/emacs".into(), 1), ("/usr/share".into(), 1)];
        let mut packages = Packages::of(vec![package("libc6"), package("emacs")], lists);
        packages.look_up(["/usr/lib/x/libc.so.6", "/bin/emacs", "/usr/share/none"].map(Path::new));
        assert_eq!(packages.who_lists(Path::new("/usr/lib/x/libc.so.6")), [0]);
        assert_eq!(packages.who_lists(Path::new("/lib/x/libc.so.6")), [0]);
        assert_eq!(packages.who_lists(Path::new("/usr/bin/emacs")), [1]);
        assert_eq!(packages.who_lists(Path::new("/usr/share/none")), Vec::<u32>::new());
        assert_eq!(packages.who_lists(Path::new("/usr/share")), [1], "directories above are looked up, too");
    }

    #[test]
    fn this_machines_database_knows_who_owns_its_programs() {
        let Some(mut packages) = Packages::load() else { return testing::skip("no package database here") };
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        packages.look_up([shell.as_path()]);
        let owners = packages.who_lists(&shell);
        assert_eq!(owners.len(), 1, "{owners:?}");
        let files = packages.paths_of(owners[0]);
        assert!(files.iter().any(|path| path.canonicalize().is_ok_and(|path| path == shell)), "{files:?}");
    }
}

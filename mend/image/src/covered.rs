//! What of the file system an image covers: a program's directory, and, where it is of a whole set, of other
//! directories (trees) those files that starts need.
//!
//! Of a tree the image holds needed files, the symbolic links to them that lie beside needed files, and the directories
//! on the way. It is laid over the tree by overlayfs ([`covers`]): what it does not hold is still found there.

use crate::about::Origin;
use model::{Error, Exit, Result, shown};
use os::covers::Covers;
use os::mounts::Mounts;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What of the file system an image covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    /// What all names are below: the program's directory, or, of a set, the root of the file system.
    root: PathBuf,
    /// The directory of which everything is in the image, below the root.
    whole: PathBuf,
    /// The trees, below the root.
    trees: Vec<PathBuf>,
    /// Of directories outside of the whole one: which names are in the image.
    names: BTreeMap<PathBuf, BTreeSet<OsString>>,
}

impl Covered {
    /// One directory.
    pub fn directory(root: &Path) -> Self {
        Self { root: root.to_owned(), whole: PathBuf::new(), trees: Vec::new(), names: BTreeMap::new() }
    }

    /// A directory, and of trees these files and links. All paths are absolute, without links on the way.
    pub(crate) fn set<'a>(whole: &Path, trees: &[PathBuf], files: impl IntoIterator<Item = &'a Path>) -> Self {
        let below = |path: &Path| path.strip_prefix("/").unwrap_or(path).to_owned();
        let mut set = Self {
            root: PathBuf::from("/"),
            whole: below(whole),
            trees: trees.iter().map(|tree| below(tree)).collect(),
            names: BTreeMap::new(),
        };
        let Self { whole: inside, names, .. } = &mut set;
        let mut add = |path: &Path| {
            let mut path = below(path);
            // All of what is in there is known by itself.
            while (path == *inside || !path.starts_with(&*inside))
                && let (Some(above), Some(name)) = (path.parent(), path.file_name())
                && names.entry(above.to_owned()).or_default().insert(name.to_owned())
            {
                path = above.to_owned();
            }
        };
        files.into_iter().for_each(&mut add);
        trees.iter().for_each(|tree| add(tree));
        add(whole);
        set
    }

    /// A directory, and what starts need of trees, with the links to it. Trees within others are left out.
    ///
    /// # Errors
    /// A tree is no directory, is in the whole one, or on another file system; a directory cannot be listed.
    pub fn needed<'a>(
        whole: &Path,
        trees: &[PathBuf],
        files: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(Self, Vec<PathBuf>)> {
        let unreadable = |path: &Path, cause: io::Error| {
            Error::on(Exit::of_unreadable(&cause), "cannot look at", path).because(cause)
        };
        let device = fs::metadata(whole).map_err(|cause| unreadable(whole, cause))?.dev();
        let mut known: Vec<PathBuf> = Vec::new();
        for tree in trees {
            let path = fs::canonicalize(tree).map_err(|cause| unreadable(tree, cause))?;
            let about = path.metadata().map_err(|cause| unreadable(tree, cause))?;
            let refused = |what: &'static str, hint: &'static str| Err(Error::on(Exit::Usage, what, tree).hint(hint));
            if !about.is_dir() {
                return refused("this is no directory:", "--tree names directories of which starts need some files");
            }
            if path.starts_with(whole) {
                return refused("this is in the image anyway:", "leave it out: all of the program's directory is");
            }
            if path == Path::new("/") {
                return refused("the root is not covered:", "name the directories below it that starts need");
            }
            if about.dev() != device {
                return refused("this is on another file system than the program's directory:", "leave it out");
            }
            known.push(path);
        }
        known.sort();
        known.dedup_by(|inner, outer| inner.starts_with(&*outer));
        check_nothing_hidden(known.iter().map(PathBuf::as_path), whole)?;
        let in_tree = |path: &Path| !path.starts_with(whole) && known.iter().any(|tree| path.starts_with(tree));
        let mut taken: BTreeSet<PathBuf> = BTreeSet::new();
        for file in files.into_iter().filter(|file| in_tree(file)) {
            // By another name it would not be found where it is covered.
            if fs::canonicalize(file).is_ok_and(|path| path == file && path.is_file()) {
                taken.insert(file.to_owned());
            }
        }
        let beside: BTreeSet<PathBuf> = taken.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        let mut links = Vec::new();
        for directory in &beside {
            os::interrupt::check()?;
            for entry in fs::read_dir(directory).map_err(|cause| unreadable(directory, cause))? {
                let entry = entry.map_err(|cause| unreadable(directory, cause))?;
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if is_link && fs::canonicalize(entry.path()).is_ok_and(|target| taken.contains(&target)) {
                    links.push(entry.path());
                }
            }
        }
        taken.extend(links);
        Ok((Self::set(whole, &known, taken.iter().map(PathBuf::as_path)), known))
    }

    /// The same names below another root.
    pub fn below(self, root: &Path) -> Self {
        Self { root: root.to_owned(), ..self }
    }

    /// What all names are below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of which everything is in the image.
    pub fn whole(&self) -> PathBuf {
        // Joined with nothing, a path would end with a slash.
        if self.whole.as_os_str().is_empty() { self.root.clone() } else { self.root.join(&self.whole) }
    }

    /// The directories that it is laid over.
    pub fn places(&self) -> Vec<PathBuf> {
        self.trees.iter().map(|tree| self.root.join(tree)).chain([self.whole()]).collect()
    }

    /// Which names of a directory are in the image; `None`: all.
    pub(crate) fn names(&self, directory: &Path) -> Option<Vec<OsString>> {
        (!directory.starts_with(&self.whole))
            .then(|| self.names.get(directory).into_iter().flatten().cloned().collect())
    }

    /// Whether a directory is only on the way to what is covered: nobody sees it in the image.
    pub(crate) fn is_above(&self, directory: &Path) -> bool {
        !directory.starts_with(&self.whole) && !self.trees.iter().any(|tree| directory.starts_with(tree))
    }
}

/// Sees that nothing is mounted in trees, which an overlay would hide.
fn check_nothing_hidden<'a>(trees: impl IntoIterator<Item = &'a Path>, whole: &Path) -> Result<()> {
    let Mounts(mounts) = Mounts::load()?;
    for tree in trees {
        let is_hidden = |point: &Path| point.starts_with(tree) && point != tree && point != whole;
        if let Some(hidden) = mounts.iter().find(|mount| is_hidden(&mount.point)) {
            return Err(Error::on(Exit::Usage, "another file system is mounted in the directory:", tree)
                .because(format!("{} would be hidden", shown(&hidden.point)))
                .hint("name directories without it"));
        }
    }
    Ok(())
}

/// What lies over what, where an image is mounted at `mounted`: of a set, first the trees, then the whole directory,
/// which may lie in one of them.
///
/// # Errors
/// A name holds a zero byte; a directory is not there; something is mounted in a tree.
pub fn covers(origin: &Origin, mounted: &Path) -> Result<Covers> {
    let whole = Path::new(&origin.directory);
    let inside = |path: &Path| mounted.join(path.strip_prefix("/").unwrap_or(path));
    match &origin.trees[..] {
        [] => Covers::new([(mounted, whole)]),
        trees => {
            check_nothing_hidden(trees.iter().map(Path::new), whole)?;
            let pairs: Vec<_> = trees.iter().map(|tree| (inside(Path::new(tree)), Path::new(tree))).collect();
            Covers::merged(pairs.iter().map(|(seen, place)| (&**seen, *place)))?.and((&inside(whole), whole))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> &Path {
        Path::new(text)
    }

    #[test]
    fn what_is_on_the_way_is_told_from_what_is_seen() {
        let trees = [PathBuf::from("/usr/lib"), PathBuf::from("/etc/fonts")];
        let covered = Covered::set(path("/usr/lib/app"), &trees, [path("/usr/lib/x/libc.so"), path("/usr/lib/app/in")]);
        let names = |directory: &str| covered.names(path(directory));
        let list = |names: &[&str]| Some(names.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(names(""), list(&["etc", "usr"]));
        assert_eq!(names("usr/lib"), list(&["app", "x"]));
        assert_eq!(names("usr/lib/x"), list(&["libc.so"]));
        assert_eq!((names("usr/lib/app"), names("usr/lib/app/in")), (None, None), "all of it");
        assert_eq!(names("etc/fonts"), list(&[]));
        assert!(["", "usr", "etc"].iter().all(|above| covered.is_above(path(above))));
        assert!(["usr/lib", "usr/lib/x", "usr/lib/app", "etc/fonts"].iter().all(|seen| !covered.is_above(path(seen))));
        let one = Covered::directory(path("/opt/app"));
        assert!(one.names(path("")).is_none() && !one.is_above(path("")));
        assert_eq!((one.whole(), one.places()), (PathBuf::from("/opt/app"), vec![PathBuf::from("/opt/app")]));
    }
}

//! A directory as values: which names it has, what each is, and what is known of it. The same for one on a disk and for
//! one in an image, so that they can be compared.

use crate::about::Origin;
use crate::covered::Covered;
use model::{Error, Exit, Result};
use rustix::fs::{lgetxattr, llistxattr};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Names, and what one call for each tells.
    Names,
    /// Extended attributes and what links point to, too.
    Whole,
}

/// A file, a directory, or what else has an inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The first of its names, below the root; the root's is empty.
    pub path: PathBuf,
    /// Kind and permissions, as `st_mode`.
    pub mode: u32,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When the content was last changed, seconds since 1970.
    pub mtime: i64,
    /// The nanoseconds of that.
    pub mtime_ns: u32,
    /// Bytes of a file, or of what a link points to; 0 for all else.
    pub size: u64,
    /// The number of a device.
    pub device: u64,
    /// What a symbolic link points to.
    pub target: Vec<u8>,
    /// Extended attributes, by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// What a directory holds, by name: the numbers of nodes.
    pub children: Vec<(Vec<u8>, usize)>,
    /// Names within the tree; of a directory two, and one for each directory in it.
    pub names: u32,
    /// When anything of the inode was last changed; nobody can set it. An image does not know it.
    pub changed: (i64, i64),
    /// A changed copy of the file whose content is taken in its place.
    pub instead: Option<PathBuf>,
}

impl Node {
    /// The part of the mode that says what it is.
    pub fn kind(&self) -> u32 {
        self.mode & libc::S_IFMT
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    fn of(path: PathBuf, about: &Metadata, covered: &Covered) -> Self {
        let names = if about.is_dir() { 2 } else { 1 };
        let mut node = Self { path, names, ..Self::default() };
        node.set_looked_at(about, covered);
        node
    }

    /// All that one call tells; of a directory that an image does not show without what changes with every name in it.
    pub(crate) fn set_looked_at(&mut self, about: &Metadata, covered: &Covered) {
        let kind = about.mode() & libc::S_IFMT;
        self.mode = about.mode();
        (self.uid, self.gid) = (about.uid(), about.gid());
        (self.mtime, self.mtime_ns) = (about.mtime(), about.mtime_nsec() as u32);
        self.size = if kind == libc::S_IFREG || kind == libc::S_IFLNK { about.size() } else { 0 };
        self.device = if kind == libc::S_IFCHR || kind == libc::S_IFBLK { about.rdev() } else { 0 };
        self.changed = (about.ctime(), about.ctime_nsec());
        if covered.is_above(&self.path) {
            (self.mtime, self.mtime_ns, self.changed) = (0, 0, (0, 0));
        }
    }
}

/// A directory and all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The root first, each directory before what is in it, names in the order of their bytes.
    pub nodes: Vec<Node>,
}

impl Tree {
    /// Looks at a directory. Two looks at the same directory are equal.
    ///
    /// # Errors
    /// It is none, or something in it cannot be looked at; another file system is mounted in it.
    pub fn walk(root: &Path, detail: Detail) -> Result<Self> {
        Self::of(&Covered::directory(root), detail)
    }

    /// Looks at what an image covers. Of what it covers in part, what is gone is missing in the tree.
    ///
    /// # Errors
    /// As [`Tree::walk`].
    pub fn of(covered: &Covered, detail: Detail) -> Result<Self> {
        let (root, whole) = (covered.root(), covered.whole());
        let about = fs::symlink_metadata(&whole).map_err(|cause| unreadable(&whole, cause))?;
        if !about.is_dir() {
            return Err(Error::on(Exit::Usage, "this is no directory:", &whole).hint("name the program's directory"));
        }
        let dev = about.dev();
        let about = fs::symlink_metadata(root).map_err(|cause| unreadable(root, cause))?;
        let mut walk = Walk { covered, dev, detail, nodes: Vec::new(), linked: BTreeMap::new() };
        walk.add(PathBuf::new(), &about)?;
        Ok(Self { nodes: walk.nodes })
    }

    /// What an image covers that comes from there and holds this.
    pub fn covered(&self, origin: &Origin) -> Covered {
        let whole = Path::new(&origin.directory);
        if origin.trees.is_empty() {
            return Covered::directory(whole);
        }
        let trees: Vec<PathBuf> = origin.trees.iter().map(PathBuf::from).collect();
        let files: Vec<PathBuf> = self
            .names()
            .filter(|(_, node)| !self.nodes[*node].is_directory())
            .map(|(path, _)| Path::new("/").join(path))
            .collect();
        Covered::set(whole, &trees, files.iter().map(PathBuf::as_path))
    }

    /// A sum of all that one call for each name tells, with the times of change, which nobody can set. It differs when
    /// anything in the directory was changed, came or went.
    pub fn sum(&self) -> [u8; 32] {
        let mut sum = Sha256::new();
        for node in &self.nodes {
            let words = [
                u64::from(node.mode),
                u64::from(node.uid),
                u64::from(node.gid),
                node.mtime as u64,
                u64::from(node.mtime_ns),
                node.size,
                node.device,
                node.changed.0 as u64,
                node.changed.1 as u64,
                node.children.len() as u64,
            ];
            words.iter().for_each(|word| sum.update(word.to_le_bytes()));
            for (name, child) in &node.children {
                sum.update([name.len() as u8]);
                sum.update(name);
                sum.update((*child as u64).to_le_bytes());
            }
        }
        sum.finalize().into()
    }

    /// Has the content of a copy in the place of a file's own, all else as it is. [`Tree::sum`] is another one then.
    ///
    /// # Errors
    /// There is no such file, or no copy of it.
    pub fn replace(&mut self, name: &Path, copy: &Path) -> Result<()> {
        let is_it = |node: &&mut Node| node.is_file() && node.path == name;
        let node = self.nodes.iter_mut().find(is_it).ok_or_else(|| Error::on(Exit::Data, "there is no file", name))?;
        let about = fs::symlink_metadata(copy).map_err(|cause| unreadable(copy, cause))?;
        node.size = about.size();
        node.instead = Some(copy.to_owned());
        Ok(())
    }

    /// All names but the root's, each with its node.
    pub fn names(&self) -> impl Iterator<Item = (PathBuf, usize)> {
        let directories = self.nodes.iter().filter(|node| node.is_directory());
        directories.flat_map(|node| {
            node.children.iter().map(|(name, child)| (node.path.join(OsStr::from_bytes(name)), *child))
        })
    }

    /// The nodes by all their names.
    pub fn by_name(&self) -> BTreeMap<PathBuf, usize> {
        self.names().chain([(PathBuf::new(), 0)]).collect()
    }
}

struct Walk<'a> {
    covered: &'a Covered,
    dev: u64,
    detail: Detail,
    nodes: Vec<Node>,
    /// Files that have several names, by device and inode.
    linked: BTreeMap<(u64, u64), usize>,
}

impl Walk<'_> {
    fn add(&mut self, path: PathBuf, about: &Metadata) -> Result<usize> {
        let id = (about.dev(), about.ino());
        let has_names = !about.is_dir() && about.nlink() > 1;
        if has_names && let Some(known) = self.linked.get(&id) {
            self.nodes[*known].names += 1;
            return Ok(*known);
        }
        let number = self.nodes.len();
        let full = self.covered.root().join(&path);
        let mut node = Node::of(path.clone(), about, self.covered);
        if self.detail == Detail::Whole {
            node.attributes = attributes(&full).map_err(|cause| unreadable(&full, cause))?;
            if about.is_symlink() {
                node.target =
                    fs::read_link(&full).map_err(|cause| unreadable(&full, cause))?.into_os_string().into_vec();
            }
        }
        self.nodes.push(node);
        if has_names {
            self.linked.insert(id, number);
        }
        if about.is_dir() {
            self.fill(number, &path, &full, about)?;
        }
        Ok(number)
    }

    fn fill(&mut self, number: usize, path: &Path, full: &Path, about: &Metadata) -> Result<()> {
        os::interrupt::check()?;
        if about.dev() != self.dev && !self.covered.is_above(path) {
            return Err(Error::on(Exit::Usage, "another file system is mounted in the directory:", full)
                .hint("an image is of one file system; name a directory without it"));
        }
        let some = self.covered.names(path);
        let is_in_part = some.is_some();
        let names = some.map_or_else(
            || fs::read_dir(full)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>(),
            Ok,
        );
        let mut names = names.map_err(|cause| unreadable(full, cause))?;
        names.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        for name in names {
            let full = full.join(&name);
            let about = match fs::symlink_metadata(&full) {
                Err(cause) if is_in_part && cause.kind() == io::ErrorKind::NotFound => continue,
                about => about.map_err(|cause| unreadable(&full, cause))?,
            };
            let child = self.add(path.join(&name), &about)?;
            self.nodes[number].names += u32::from(about.is_dir());
            self.nodes[number].children.push((name.into_vec(), child));
        }
        Ok(())
    }
}

fn unreadable(path: &Path, cause: io::Error) -> Error {
    let error = Error::on(Exit::of_unreadable(&cause), "cannot look at", path);
    match cause.kind() {
        io::ErrorKind::PermissionDenied => error.because(cause).hint("run it as root, or as who may read all of it"),
        _ => error.because(cause),
    }
}

/// All extended attributes that this user may see, by name. A link's are its own.
fn attributes(path: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    // The kernel's own limits for lists and for values.
    let mut room = vec![0_u8; 64 << 10];
    let listed = match llistxattr(path, &mut room[..]) {
        // A file system without any.
        Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
        listed => listed?,
    };
    let names: Vec<Vec<u8>> =
        room[..listed].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    let mut attributes = Vec::with_capacity(names.len());
    for name in names {
        match lgetxattr(path, &name[..], &mut room[..]) {
            Ok(len) => attributes.push((name, room[..len].to_vec())),
            // Gone meanwhile.
            Err(rustix::io::Errno::NODATA) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    attributes.sort_unstable();
    Ok(attributes)
}

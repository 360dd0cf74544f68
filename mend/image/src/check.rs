//! Whether an image is whole, and how what it holds differs from a directory.

use crate::about::{About, Sum};
use crate::covered::Covered;
use crate::format::BLOCK;
use crate::inodes;
use crate::read::{Contents, Image, Source};
use crate::tree::{Detail, Node, Tree};
use model::{Bytes, Error, Exit, Result, shown};
use os::mounts::Mounts;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// How much is read at a time.
const AT_ONCE: u64 = 1 << 20;

/// An image that is open, with what thaw wrote behind it.
#[derive(Debug)]
pub struct Opened {
    /// Where it is.
    pub path: PathBuf,
    /// The file.
    pub file: File,
    /// What is known of it.
    pub about: About,
}

impl Opened {
    /// Opens an image. That its metadata are those that were written is checked: the kernel looks at nothing else
    /// before a file is read.
    ///
    /// # Errors
    /// It is no image of thaw's, was cut off, or its metadata were changed.
    pub fn open(path: &Path) -> Result<Self> {
        let file = os::file::open_regular(path)
            .map_err(|cause| Error::on(Exit::of_unreadable(&cause), "cannot open the image", path).because(cause))?;
        let about = About::decode(file.size(), &mut |at, bytes| file.read_into(at, bytes));
        let about = about.map_err(|why| damaged(path, why))?;
        let opened = Self { path: path.to_owned(), file, about };
        opened.compare(0, opened.about.metadata.0, opened.about.metadata_sum, "its metadata were changed")?;
        Ok(opened)
    }

    /// Checks the sum of all data too, which reads all of it.
    ///
    /// # Errors
    /// They were changed.
    pub fn check_data(&self) -> Result<()> {
        let About { metadata, image, data_sum, .. } = &self.about;
        self.compare(metadata.0, image.0, *data_sum, "its data were changed")?;
        self.inodes().map(drop)
    }

    /// What names the directory's inodes.
    fn inodes(&self) -> Result<Vec<u8>> {
        let About { image, inodes, inodes_sum, .. } = &self.about;
        let mut bytes = vec![0; inodes.0 as usize];
        self.file
            .read_into(image.0, &mut bytes)
            .map_err(|cause| Error::on(Exit::Data, "cannot read the image", &self.path).because(cause))?;
        match inodes_sum.0[..] == Sha256::digest(&bytes)[..] {
            true => Ok(bytes),
            false => Err(damaged(&self.path, "the names of inodes in it were changed".to_owned())),
        }
    }

    fn compare(&self, from: u64, to: u64, expected: Sum, why: &str) -> Result<()> {
        let mut sum = Sha256::new();
        let mut bytes = vec![0; AT_ONCE as usize];
        let mut at = from;
        while at < to {
            os::interrupt::check()?;
            let piece = &mut bytes[..AT_ONCE.min(to - at) as usize];
            self.file
                .read_into(at, piece)
                .map_err(|cause| Error::on(Exit::Data, "cannot read the image", &self.path).because(cause))?;
            sum.update(&piece);
            at += piece.len() as u64;
        }
        match expected.0[..] == sum.finalize()[..] {
            true => Ok(()),
            false => Err(damaged(&self.path, why.to_owned())),
        }
    }

    /// Its directories, read with thaw's own code.
    ///
    /// # Errors
    /// They are damaged.
    pub fn contents(&self) -> Result<(Image<'_>, Contents)> {
        let read = || {
            let image = Image::open(&self.file)?;
            if image.size() != self.about.image.0 {
                return Err("it says another length in front than at its end".to_owned());
            }
            let contents = image.contents()?;
            Ok((image, contents))
        };
        read().map_err(|why| damaged(&self.path, why))
    }
}

fn damaged(path: &Path, why: String) -> Error {
    Error::on(Exit::Data, "cannot use the image", path)
        .because(why)
        .hint("make it again with `thaw image make`; nothing of it was given to the kernel")
}

/// What was found to be whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Files of which every byte was read.
    pub files: u64,
    /// Their bytes.
    pub content: Bytes,
    /// Bytes of the image that belong to nothing.
    pub unused: Bytes,
}

/// Where everything lies: how many bytes of the image belong to nothing.
///
/// # Errors
/// It is damaged.
pub fn unused(opened: &Opened, (image, contents): (&Image<'_>, &Contents)) -> Result<Bytes> {
    image.unused(contents, opened.about.metadata.0).map(Bytes).map_err(|why| damaged(&opened.path, why))
}

/// The content of each node's file, as a sum; `None`: it is no file.
pub type Sums = Vec<Option<[u8; 32]>>;

/// Reads every file of an image, once, and checks all sums and where everything lies.
///
/// # Errors
/// It is damaged.
pub fn whole(opened: &Opened, (image, contents): (&Image<'_>, &Contents)) -> Result<(Checked, Sums)> {
    opened.check_data()?;
    let failed = |why| damaged(&opened.path, why);
    let mut checked = Checked { unused: unused(opened, (image, contents))?, ..Checked::default() };
    let mut sums = vec![None; contents.tree.nodes.len()];
    for (number, node) in contents.tree.nodes.iter().enumerate().filter(|(_, node)| node.is_file()) {
        os::interrupt::check()?;
        let (mut len, mut sum) = (0, Sha256::new());
        let mut take = |bytes: &[u8]| {
            len += bytes.len() as u64;
            sum.update(bytes);
            Ok(())
        };
        image.read(contents, number, &mut take).map_err(failed)?;
        if len != node.size {
            return Err(failed(format!("'{}' is longer or shorter than it says", shown(&node.path))));
        }
        sums[number] = Some(sum.finalize().into());
        checked.files += 1;
        checked.content += Bytes(len);
    }
    Ok((checked, sums))
}

/// Something that is otherwise in an image than in its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name, below the directory.
    pub path: String,
    /// What differs.
    pub what: String,
}

/// The content of a node's file, as a sum.
pub type ContentOf<'a> = dyn FnMut(usize) -> Result<[u8; 32]> + 'a;

/// The content of files in a directory.
pub fn on_disk<'a>(root: &'a Path, tree: &'a Tree) -> impl FnMut(usize) -> Result<[u8; 32]> + 'a {
    |node| {
        let node = &tree.nodes[node];
        let path = node.instead.clone().unwrap_or_else(|| root.join(&node.path));
        let mut bytes = vec![0; AT_ONCE as usize];
        let read = os::file::open_regular(&path).and_then(|mut file| {
            let mut sum = Sha256::new();
            loop {
                match file.read(&mut bytes)? {
                    0 => return Ok(sum.finalize().into()),
                    len => sum.update(&bytes[..len]),
                }
            }
        });
        read.map_err(|cause| Error::on(Exit::Machine, "cannot read", &path).because(cause))
    }
}

/// The content of files in an image, as [`whole`] found it.
pub fn in_image(sums: &Sums) -> impl FnMut(usize) -> Result<[u8; 32]> + '_ {
    |node| sums.get(node).copied().flatten().ok_or_else(|| Error::bug("content of what is no file was to be compared"))
}

/// Every name, kind, mode, owner, time, attribute, link, device and byte that differs.
///
/// # Errors
/// Content cannot be read.
pub fn differences(expected: (&Tree, &mut ContentOf<'_>), is: (&Tree, &mut ContentOf<'_>)) -> Result<Vec<Difference>> {
    let (names, other_names) = (expected.0.by_name(), is.0.by_name());
    let mut found = Vec::new();
    let mut differs = |path: &Path, what: &str| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        found.push(Difference { path: shown(path), what: what.to_owned() });
    };
    for path in other_names.keys().filter(|path| !names.contains_key(*path)) {
        differs(path, ONLY_THERE);
    }
    // Which node is which: hard links are nodes of several names.
    let mut same: BTreeMap<usize, usize> = BTreeMap::new();
    for (path, node) in &names {
        let Some(other) = other_names.get(path) else {
            differs(path, MISSING);
            continue;
        };
        let (one, two) = (&expected.0.nodes[*node], &is.0.nodes[*other]);
        if let Some(known) = same.insert(*node, *other) {
            if known != *other {
                differs(path, "is no hard link of the same file");
            }
            continue;
        }
        for what in about_nodes(one, two) {
            differs(path, what);
        }
        if one.is_file() && two.is_file() && one.size == two.size && (expected.1)(*node)? != (is.1)(*other)? {
            differs(path, OTHER_CONTENT);
        }
    }
    Ok(found)
}

/// What is said of a name that the directory does not have, of one that the image does not have, of another time.
const ONLY_THERE: &str = "is only in the image";
const MISSING: &str = "is not in the image";
const OTHER_TIME: &str = "has another time";
const OTHER_SIZE: &str = "has another size";
const OTHER_CONTENT: &str = "has other content";

fn about_nodes(one: &Node, two: &Node) -> Vec<&'static str> {
    if one.kind() != two.kind() {
        return vec!["is of another kind"];
    }
    let pairs = [
        (one.mode == two.mode, "has another mode"),
        ((one.uid, one.gid) == (two.uid, two.gid), "has another owner"),
        ((one.mtime, one.mtime_ns) == (two.mtime, two.mtime_ns), OTHER_TIME),
        (one.size == two.size, OTHER_SIZE),
        (one.device == two.device, "is another device"),
        (one.target == two.target, "points to something else"),
        (one.attributes == two.attributes, "has other extended attributes"),
        (one.names == two.names, "has another number of names"),
    ];
    pairs.into_iter().filter(|(same, _)| !same).map(|(_, what)| what).collect()
}

/// What differs from the directory, without what has to: the content of files of which the image holds changed copies.
pub fn beside_copies(about: &About, mut found: Vec<Difference>) -> Vec<Difference> {
    let has_to = |found: &Difference| {
        about.origin.replaced.contains(&found.path) && [OTHER_SIZE, OTHER_CONTENT].contains(&&*found.what)
    };
    found.retain(|found| !has_to(found));
    found
}

/// What an image is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The very directory that it was made of: when the kernel saw the last change of each inode counts, which nobody
    /// can set.
    Directory,
    /// A copy of it, on another machine or disk: the dates of the files count, which the copier has set.
    Copy,
    /// A directory of which who starts the program knows that nothing was changed: nothing of it is looked at.
    Unchanged,
}

/// What differs between what an image covers and the image, as far as names, sizes and times tell; `None`: nothing was
/// changed since it was made. `known`: the image's own directories ([`Opened::contents`]).
///
/// # Errors
/// A directory cannot be looked at; the image is damaged.
pub fn changed_since(opened: &Opened, known: &Tree, of: Of) -> Result<Option<String>> {
    match of {
        Of::Unchanged => Ok(None),
        Of::Directory | Of::Copy => changed_in(&known.covered(&opened.about.origin), opened, known, of),
    }
}

fn changed_in(covered: &Covered, opened: &Opened, known: &Tree, of: Of) -> Result<Option<String>> {
    if of == Of::Directory && by_inodes(opened, known, covered)? {
        return Ok(None);
    }
    let now = Tree::of(covered, Detail::Names)?;
    if now.sum() == opened.about.tree_sum.0 {
        return Ok(None);
    }
    // What only one call for each name tells.
    let as_looked_at = |tree: &Tree| {
        let nodes = tree.nodes.iter().map(|node| Node { attributes: Vec::new(), target: Vec::new(), ..node.clone() });
        Tree { nodes: nodes.collect() }
    };
    let nothing = |_: usize| Ok([0; 32]);
    let mut found = differences((&as_looked_at(&now), &mut { nothing }), (&as_looked_at(known), &mut { nothing }))?;
    found.retain(|found| !opened.about.origin.replaced.contains(&found.path));
    // A directory's time is another one because of what is in it.
    let first = found.iter().min_by_key(|found| match found.what.as_str() {
        ONLY_THERE | MISSING => 0,
        OTHER_TIME => 2,
        _ => 1,
    });
    let first = first.map(|first| match first.what.as_str() {
        MISSING => format!("{} is new", first.path),
        ONLY_THERE => format!("{} is gone", first.path),
        what => format!("{} {what}", first.path),
    });
    let unnamed = || (of == Of::Directory).then(|| "something in it was written or renamed".to_owned());
    Ok(first.or_else(unnamed))
}

/// Whether the inodes alone tell that nothing was changed. If not, names have to be looked at: that is slower, but
/// knows what is other.
fn by_inodes(opened: &Opened, known: &Tree, covered: &Covered) -> Result<bool> {
    let About { inodes, tree_sum, .. } = &opened.about;
    if inodes.0 == 0 {
        return Ok(false);
    }
    let bytes = opened.inodes()?;
    let look = || {
        // What is mounted in the directory is no part of the image: a look at names says so.
        let mounts = Mounts::load().map_err(io::Error::other)?;
        match covered.places().iter().any(|place| mounts.has_below(place)) {
            true => Ok(None),
            false => inodes::look(&bytes, covered, known),
        }
    };
    let now: io::Result<Option<Tree>> = look();
    Ok(now.is_ok_and(|now| now.is_some_and(|now| now.sum() == tree_sum.0)))
}

/// Pages of needed clusters and where they lie: how many of an image's clusters lie in the stretch of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Clusters {
    /// Clusters, and stored pages in a row.
    pub all: u64,
    /// Of these, in the stretch that starts need.
    pub needed: u64,
    /// Bytes of files that are in that stretch.
    pub needed_content: Bytes,
}

/// Counts clusters.
///
/// # Errors
/// The image is damaged.
pub fn clusters(opened: &Opened, image: &Image<'_>, contents: &Contents) -> Result<Clusters> {
    let mut counted = Clusters::default();
    for node in 0..contents.tree.nodes.len() {
        for piece in image.pieces(contents, node).map_err(|why| damaged(&opened.path, why))? {
            counted.all += 1;
            if (piece.block + piece.blocks()) * BLOCK <= opened.about.start.0 {
                counted.needed += 1;
                counted.needed_content += Bytes(piece.pages * BLOCK);
            }
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::Origin;
    use crate::write::{Compression, Source, write};
    use std::fs;

    /// The inodes alone tell that a directory is as it was, and notice what a look at names would.
    #[test]
    fn inodes_tell_whether_anything_was_changed() {
        if !testing::root_or_skip() {
            return;
        }
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let (root, target) = (home.path().join("root"), home.path().join("a.img"));
        let make = || {
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("deep/er")).unwrap();
            ["a", "b", "deep/c", "deep/er/d"].iter().for_each(|name| fs::write(root.join(name), name).unwrap());
            std::os::unix::fs::symlink("nowhere", root.join("link")).unwrap();
            fs::hard_link(root.join("a"), root.join("deep/a too")).unwrap();
            let tree = Tree::walk(&root, Detail::Whole).unwrap();
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&target).unwrap();
            let origin = Origin {
                directory: root.to_string_lossy().into_owned(),
                recordings: Vec::new(),
                source: "exact".to_owned(),
                starts: 1,
                trees: Vec::new(),
                replaced: Vec::new(),
            };
            let source =
                Source { covered: &Covered::directory(&root), tree: &tree, sum: tree.sum(), needs: &[], whole: &[] };
            write(&source, Compression::Lz4, origin, &file).unwrap();
            Opened::open(&target).unwrap()
        };
        if make().about.inodes.0 == 0 {
            return testing::skip("this file system has no handles of inodes");
        }
        // All that can be set is the same: a copy, which only who says so accepts.
        let opened = make();
        let copied = std::process::Command::new("cp").arg("-a").args([&root, &home.path().join("copy")]).status();
        assert!(copied.unwrap().success());
        let copy = home.path().join("copy");
        let known = opened.contents().unwrap().1.tree;
        let there = Covered::directory(&copy);
        assert!(!by_inodes(&opened, &known, &there).unwrap());
        assert!(changed_in(&there, &opened, &known, Of::Directory).unwrap().is_some());
        assert_eq!(changed_in(&there, &opened, &known, Of::Copy).unwrap(), None);
        let changes: [(&str, &dyn Fn()); 7] = [
            ("nothing", &|| ()),
            ("content", &|| fs::write(root.join("deep/c"), "C").unwrap()),
            ("a new name", &|| fs::write(root.join("deep/er/new"), "").unwrap()),
            ("a name gone", &|| fs::remove_file(root.join("deep/a too")).unwrap()),
            ("an inode gone", &|| fs::remove_file(root.join("link")).unwrap()),
            ("another file of that name", &|| {
                fs::write(root.join("other"), "b").unwrap();
                fs::rename(root.join("other"), root.join("b")).unwrap();
            }),
            ("another directory of that name", &|| {
                fs::rename(&root, home.path().join("away")).unwrap();
                fs::create_dir(&root).unwrap();
            }),
        ];
        for (number, (what, change)) in changes.iter().enumerate() {
            let opened = make();
            change();
            let known = opened.contents().unwrap().1.tree;
            assert_eq!(by_inodes(&opened, &known, &Covered::directory(&root)).unwrap(), number == 0, "{what}");
            for of in [Of::Directory, Of::Copy] {
                assert_eq!(changed_since(&opened, &known, of).unwrap().is_none(), number == 0, "{what}, {of:?}");
            }
            assert_eq!(changed_since(&opened, &known, Of::Unchanged).unwrap(), None, "{what}: nobody looks");
        }
    }
}

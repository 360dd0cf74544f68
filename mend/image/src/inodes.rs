//! Which inodes the names of a directory are. With them a later look at the directory needs none of its names, and so
//! reads nothing of its directories from the disk, only the tables of inodes, in the order in which they lie there:
//! what a directory holds is what it held if nothing of its own inode was changed.

use crate::tree::Tree;
use os::handle::Handle;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Before each identifier: the number of the node, the kind of handle, the length.
const HEAD: usize = 4 + 4 + 1;

/// The handles of all inodes of a tree, in the order of their numbers.
///
/// # Errors
/// This file system has none; the tree was changed meanwhile.
pub(crate) fn of(root: &Path, tree: &Tree) -> io::Result<Vec<u8>> {
    let mut handles = Vec::with_capacity(tree.nodes.len());
    for (number, node) in (0_u32..).zip(&tree.nodes) {
        // What ends with a slash would be the directory that a link points to.
        let path = if number == 0 { root.to_owned() } else { root.join(&node.path) };
        handles.push((path.symlink_metadata()?.ino(), number, Handle::of(&path)?));
    }
    handles.sort_unstable_by_key(|(ino, number, _)| (*ino, *number));
    let mut bytes = Vec::new();
    for (_, number, handle) in &handles {
        let (kind, id) = handle.parts();
        bytes.extend(number.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.push(id.len() as u8);
        bytes.extend(id);
    }
    Ok(bytes)
}

/// The directory as it is now, if its names are still those of `known`, which comparing sums tells ([`Tree::sum`]);
/// `None`: an inode is gone, or there is another directory in the place.
///
/// # Errors
/// As open_by_handle_at(2): only root may; this file system takes no handles.
pub(crate) fn look(mut bytes: &[u8], root: &File, known: &Tree) -> io::Result<Option<Tree>> {
    let root_is = root.metadata()?;
    let mut now = known.clone();
    let mut seen = 0;
    while let Some((number, handle, rest)) = next(bytes) {
        bytes = rest;
        let about = match handle.open(root.as_fd()) {
            Ok(inode) => File::from(inode).metadata()?,
            Err(cause) if cause.raw_os_error() == Some(libc::ESTALE) => return Ok(None),
            Err(cause) => return Err(cause),
        };
        let is_other_root = number == 0 && (about.dev(), about.ino()) != (root_is.dev(), root_is.ino());
        match now.nodes.get_mut(number as usize) {
            Some(node) if !is_other_root => node.set_looked_at(&about),
            _ => return Ok(None),
        }
        seen += 1;
    }
    Ok((seen == known.nodes.len()).then_some(now))
}

/// The next handle: of which node it is, and what follows; `None` before the zeros up to the end of a block.
fn next(bytes: &[u8]) -> Option<(u32, Handle, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (id, rest) = rest.split_at_checked(usize::from(head[8]))?;
    let (number, kind) = head[..8].split_at(4);
    let handle = Handle::new(i32::from_le_bytes(kind.try_into().ok()?), id)?;
    Some((u32::from_le_bytes(number.try_into().ok()?), handle, rest))
}

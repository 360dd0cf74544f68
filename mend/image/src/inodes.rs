//! Which inodes the names of a directory are. With them a later look at the directory needs few of its names: what a
//! directory holds is what it held if nothing of its own inode was changed.
//!
//! Files are looked at by inode, directories by name: opened by a handle, each directory would be read to find the way
//! from it to the root. So of the directories those alone are read that have directories in them, a request each; where
//! they lie is kept too, so that few requests read them all before, where root may read the disk.

use crate::about::MOST_PLACES;
use crate::covered::Covered;
use crate::tree::Tree;
use model::{Bytes, DiskOffset, joined};
use os::extents::{Extent, ExtentKind, extents};
use os::handle::Handle;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Directories that lie nearer to each other than this are read in one request, with what is between them: it takes a
/// disk of 30 MB/s 2 ms, and the next request more.
const NEAR: u64 = 64 << 10;
/// `f_type` of ext2, ext3 and ext4, the file systems whose metadata are pages of their device.
const EXT: u64 = 0xef53;

/// Before each identifier: the number of the node, the kind of handle, the length.
const HEAD: usize = 4 + 4 + 1;

/// The handles of all inodes of a tree that are no directories, in the order of their numbers.
///
/// # Errors
/// This file system has none; the tree was changed meanwhile.
pub(crate) fn of(root: &Path, tree: &Tree) -> io::Result<Vec<u8>> {
    let mut handles = Vec::with_capacity(tree.nodes.len());
    for (number, node) in (0_u32..).zip(&tree.nodes).filter(|(_, node)| !node.is_directory()) {
        let path = root.join(&node.path);
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

/// Where on their file system's device the directories of a tree lie that have directories in them, in stretches; none
/// where reading the device does not bring them into memory.
///
/// # Errors
/// A directory cannot be opened; the file system does not tell.
pub(crate) fn places(covered: &Covered, tree: &Tree) -> io::Result<Vec<(DiskOffset, Bytes)>> {
    if rustix::fs::statfs(covered.whole())?.f_type as u64 != EXT {
        return Ok(Vec::new());
    }
    let mut spans = Vec::new();
    for node in &tree.nodes {
        let has_directories = node.children.iter().any(|(_, child)| tree.nodes[*child].is_directory());
        if !has_directories || covered.is_above(&node.path) {
            continue;
        }
        let is_there = |extent: &Extent| extent.kind == ExtentKind::Data;
        let there = extents(&File::open(covered.root().join(&node.path))?)?.into_iter().filter(is_there);
        spans.extend(there.filter_map(|extent| Some((extent.disk?.0, extent.disk?.0 + extent.len.0 + NEAR))));
    }
    let whole = |(from, to): (u64, u64)| (DiskOffset(from), Bytes(to - NEAR - from));
    let found: Vec<(DiskOffset, Bytes)> = joined(spans).into_iter().map(whole).collect();
    let is_much = found.iter().map(|(_, len)| len.0).sum::<u64>() > MOST_PLACES.0;
    Ok(if is_much { Vec::new() } else { found })
}

/// The directory as it is now, if its names are still those of `known`, which comparing sums tells ([`Tree::sum`]);
/// `None`: an inode or a directory is gone.
///
/// # Errors
/// As open_by_handle_at(2): only root may; this file system takes no handles.
pub(crate) fn look(mut bytes: &[u8], covered: &Covered, known: &Tree) -> io::Result<Option<Tree>> {
    let mount = File::open(covered.whole())?;
    let mut now = known.clone();
    for node in now.nodes.iter_mut().filter(|node| node.is_directory()) {
        match covered.root().join(&node.path).symlink_metadata() {
            Ok(about) => node.set_looked_at(&about, covered),
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => return Ok(None),
            Err(cause) => return Err(cause),
        }
    }
    let mut seen = 0;
    while let Some((number, handle, rest)) = next(bytes) {
        bytes = rest;
        let about = match handle.open(mount.as_fd()) {
            Ok(inode) => File::from(inode).metadata()?,
            Err(cause) if cause.raw_os_error() == Some(libc::ESTALE) => return Ok(None),
            Err(cause) => return Err(cause),
        };
        match now.nodes.get_mut(number as usize) {
            Some(node) if !node.is_directory() => node.set_looked_at(&about, covered),
            _ => return Ok(None),
        }
        seen += 1;
    }
    Ok((seen == known.nodes.iter().filter(|node| !node.is_directory()).count()).then_some(now))
}

/// The next handle: of which node it is, and what follows; `None` before the zeros up to the end of a block.
fn next(bytes: &[u8]) -> Option<(u32, Handle, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (id, rest) = rest.split_at_checked(usize::from(head[8]))?;
    let (number, kind) = head[..8].split_at(4);
    let handle = Handle::new(i32::from_le_bytes(kind.try_into().ok()?), id)?;
    Some((u32::from_le_bytes(number.try_into().ok()?), handle, rest))
}

//! The directory of an image again: files, links, special files, with modes, times, attributes and, for root, owners.

use crate::check::Opened;
use crate::tree::Node;
use model::{Bytes, Error, Exit, Result};
use os::file::name_beside;
use os::filesystem::current;
use os::journal::{self, Undo};
use os::replace::{move_to, no_place};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Extracted {
    /// Regular files.
    pub files: u64,
    /// Bytes of them.
    pub content: Bytes,
    /// What belongs to this user now, because only root can give files away; it has no rights of its own then.
    pub owned_otherwise: u64,
}

/// Writes the directory of an image. It appears whole or not at all.
///
/// # Errors
/// There is something under its name, or it cannot be written; the image is damaged.
pub fn extract(opened: &Opened, directory: &Path) -> Result<Extracted> {
    if directory.symlink_metadata().is_ok() {
        return Err(Error::on(Exit::Usage, "there is already", directory).hint("name a new directory"));
    }
    opened.check_data()?;
    let (image, contents) = opened.contents()?;
    let cannot = |what: &str, path: &Path, cause: io::Error| Error::on(Exit::Machine, what, path).because(cause);
    let fresh =
        std::path::absolute(name_beside(directory)).map_err(|cause| cannot("cannot write to", directory, cause))?;
    let _guard = journal::hold(Undo::RemoveTree { path: fresh.clone() }, || {
        os::file::create_private_directory(&fresh).map_err(|cause| no_place(directory, cause))
    })?;
    let mut extracted = Extracted::default();
    // By node: the first of its names that was written.
    let mut written: Vec<Option<PathBuf>> = vec![None; contents.tree.nodes.len()];
    let nodes = &contents.tree.nodes;
    for parent in nodes.iter().filter(|node| node.is_directory()) {
        for (name, number) in &parent.children {
            os::interrupt::check()?;
            let path = fresh.join(&parent.path).join(OsStr::from_bytes(name));
            let node = &nodes[*number];
            let failed = |cause: io::Error| cannot("cannot write", &path, cause);
            if let Some(first) = &written[*number] {
                fs::hard_link(first, &path).map_err(failed)?;
                continue;
            }
            match node.kind() {
                libc::S_IFDIR => os::file::create_private_directory(&path).map_err(failed)?,
                libc::S_IFLNK => std::os::unix::fs::symlink(OsStr::from_bytes(&node.target), &path).map_err(failed)?,
                libc::S_IFREG => {
                    let mut file = os::file::create_private(&path).map_err(failed)?;
                    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(|cause| cause.to_string());
                    image.read(&contents, *number, &mut put).map_err(|why| failed(io::Error::other(why)))?;
                    extracted.files += 1;
                    extracted.content += Bytes(node.size);
                }
                kind => {
                    let kind = FileType::from_raw_mode(kind);
                    rustix::fs::mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, node.device)
                        .map_err(|cause| failed(cause.into()))?;
                }
            }
            written[*number] = Some(path);
        }
    }
    // Directories after what is in them: writing into one changes its time, and a mode may forbid it.
    for node in nodes.iter().rev() {
        let path = fresh.join(&node.path);
        let kept = like(&path, node).map_err(|cause| cannot("cannot set the rights and times of", &path, cause))?;
        extracted.owned_otherwise += u64::from(!kept);
    }
    let synced = File::open(&fresh).and_then(|file| current().sync_everything(&file));
    synced.map_err(|cause| cannot("cannot write", &fresh, cause))?;
    move_to(&fresh, directory).map_err(|cause| cannot("cannot create", directory, cause))?;
    Ok(extracted)
}

/// Gives what was written its owner, mode, attributes and time; whether it has its owner.
fn like(path: &Path, node: &Node) -> io::Result<bool> {
    let about = rustix::fs::lstat(path)?;
    let mut kept = (about.st_uid, about.st_gid) == (node.uid, node.gid);
    if !kept && rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
        rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        kept = true;
    }
    for (name, value) in &node.attributes {
        // Only root sets capabilities and what is trusted.
        let is_own = name.starts_with(b"user.") || name.starts_with(b"system.");
        if kept && rustix::process::geteuid().is_root() || is_own {
            rustix::fs::lsetxattr(path, &name[..], value, XattrFlags::empty())?;
        }
    }
    if node.kind() != libc::S_IFLNK {
        // Rights of their own do not go to another owner.
        let mode = node.mode & if kept { 0o7777 } else { 0o777 };
        rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    let time = Timespec { tv_sec: node.mtime, tv_nsec: node.mtime_ns.into() };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(kept)
}

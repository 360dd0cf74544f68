//! Looks at the files of a recording as they are now, so that they can be planned for.

use crate::identity::{self, Stale};
use crate::manifest::{Entry, Kind, shown};
use crate::plan::{Extent, Piece, Wanted};
use elf::Identity;
use model::Bytes;
use os::disk::Disk;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A file as the recording knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Where it was; of a [`Kind::Device`] a file on it.
    pub path: PathBuf,
    /// What it was; [`Kind::Changing`] where the program wrote it.
    pub kind: Kind,
    /// Number of the file system's device.
    pub dev: u64,
    /// Inode number of the file at `path`.
    pub ino: u64,
    /// Size; of a [`Kind::Device`] that of the device.
    pub size: Bytes,
    /// GNU build-id in hex.
    pub build_id: Option<String>,
    /// What the start needed of it.
    pub pieces: Vec<Piece>,
    /// Where it lay on the disk, by file offset; empty if the file system does not tell.
    pub extents: Vec<Extent>,
}

/// A recorded file that cannot be planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it was, for people: its path, or the metadata of a file system.
    pub shown: String,
    /// What happened to it.
    pub why: Stale,
}

/// The files that are still as recorded, and the others.
pub fn look(recorded: Vec<Recorded>) -> (Vec<Wanted>, Vec<Lost>) {
    let mut wanted = Vec::new();
    let mut lost = Vec::new();
    let mut bearers: BTreeMap<u64, u64> = BTreeMap::new();
    for file in recorded {
        let shown = shown(file.kind, &file.path);
        let disk = *bearers.entry(file.dev).or_insert_with(|| Disk::bearer(file.dev));
        match found(file, disk) {
            Ok(found) => wanted.push(found),
            Err(why) => lost.push(Lost { shown, why }),
        }
    }
    (wanted, lost)
}

fn found(recorded: Recorded, disk: u64) -> Result<Wanted, Stale> {
    let Recorded { path, kind, dev, ino, size, build_id, pieces, extents } = recorded;
    let planned = Entry { kind, dev, ino, size, mtime_ns: 0, identity: None, path };
    if kind == Kind::Device {
        // One that may not be read now is not read by this user later either. Else nothing of it is looked at: the file
        // system may be one that is mounted for a recording only.
        if let Err(why @ Stale::Forbidden) = identity::open(&planned) {
            return Err(why);
        }
        return Ok(Wanted { entry: planned, pieces, extents, disk });
    }
    let file = os::cache::open_quietly(&planned.path)?;
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    let is = identity::size(&stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Stale::OtherKind);
    }
    if kind == Kind::Regular && is != size {
        return Err(Stale::Size { was: size, is });
    }
    let identity = if kind == Kind::Regular { Some(identity::of(&file)?) } else { None };
    let known = build_id.map(Identity::BuildId);
    if let (Some(known), Some(now)) = (&known, &identity)
        && known != now
    {
        return Err(Stale::Build);
    }
    let entry = Entry { size: is, mtime_ns: identity::mtime_ns(&stat), identity, ..planned };
    Ok(Wanted { entry, pieces, extents, disk })
}

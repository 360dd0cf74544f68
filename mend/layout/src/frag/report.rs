//! What is known about the layout of files. Values only.

use model::{Bytes, DiskOffset, Nanos};
use serde::Serialize;
use std::path::PathBuf;

/// How a file lies on its disk, as far as its file system tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lying {
    /// Where each piece begins and how long it is, in the order of the file.
    pub pieces: Vec<(DiskOffset, Bytes)>,
    /// Extents that the file system keeps; several may lie side by side.
    pub extents: u64,
    /// Bytes that are not on the disk yet.
    pub delayed: Bytes,
    /// Bytes that read as zeros without the disk: allocated and never written.
    pub unwritten: Bytes,
    /// Bytes whose place is not byte-exact: compressed, encrypted, inside of metadata.
    pub elsewhere: Bytes,
    /// Whether other files may share some of the blocks.
    pub shared: bool,
}

/// A file and the pieces in which it lies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileLayout {
    /// Where the file is.
    pub path: PathBuf,
    /// Bytes of its content.
    pub size: Bytes,
    /// Pieces; 1 is ideal, 0: nothing on the disk.
    pub pieces: u64,
    /// How many extents the file system keeps for it; several may make one piece.
    pub extents: u64,
    /// From its first to its last byte on the disk.
    pub span: Bytes,
    /// What jumping from piece to piece costs when it is read from its beginning to its end, on the disk that was
    /// asked about.
    pub jumps_cost: Nanos,
    /// Bytes of other looked-at files between its first and its last byte.
    pub between: Bytes,
    /// Pieces of others there.
    pub pieces_between: u64,
    /// Files that lie there, those with most bytes first; a few.
    pub neighbours: Vec<Neighbour>,
    /// Whether other files may share its blocks.
    pub shared: bool,
    /// Bytes that are not on the disk yet.
    pub delayed: Bytes,
}

/// A file between the pieces of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Where the file is.
    pub path: PathBuf,
    /// Bytes of it that lie there.
    pub bytes: Bytes,
}

/// All files together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Files on a disk.
    pub files: u64,
    /// Bytes of the content of all files.
    pub size: Bytes,
    /// How many pieces all files lie in.
    pub pieces: u64,
    /// Files in more than one piece.
    pub scattered: u64,
    /// Files with others between their pieces.
    pub interleaved: u64,
    /// What all jumps cost.
    pub jumps_cost: Nanos,
}

/// A path that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// What could not be looked at.
    pub path: PathBuf,
    /// Why not, as the system says it.
    pub reason: String,
}

/// What was not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Paths with an error.
    pub unreadable: Vec<Unreadable>,
    /// Symbolic links inside of directories.
    pub symlinks: u64,
    /// Devices, pipes, sockets.
    pub special: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Directories of other file systems.
    pub mount_points: u64,
    /// Files of file systems that do not tell where their files lie.
    pub untold: u64,
    /// Files without a byte that has a place: empty, only holes, inside of metadata, or not written to the disk yet.
    pub nowhere: u64,
    /// The work was stopped.
    pub interrupted: bool,
}

/// Files and how they lie.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Sums over all files that were looked at.
    pub summary: Summary,
    /// The files, those with the dearest jumps first.
    pub files: Vec<FileLayout>,
    /// What was not looked at.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

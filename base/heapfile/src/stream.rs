//! The streams as the recorded processes write them: chunks of lanes, one after the other.

mod frames;
mod lane;

pub(crate) use frames::Frames;
pub use lane::AfterRead;
pub(crate) use lane::{Common, Lane, Taken};

use crate::wire;
use heap_wire::PAGE;
use model::{Error, Exit, Result};
use os::file::Access;
use rustix::fs::FallocateFlags;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The first page of a stream, as far as there is one.
pub fn first_page(path: &Path) -> Result<Vec<u8>> {
    let mut page = vec![0; PAGE];
    let file = open(path)?;
    let length = read_at(&file, path, &mut page, 0)?;
    page.truncate(length);
    Ok(page)
}

/// How the process of a stream waited for who reads it.
#[derive(Clone, Copy, Debug)]
pub struct HeldBack {
    /// How often its threads did, for `heap_wire::follow::PAUSE_NS` each time.
    pub pauses: u64,
    /// Error number: why they may not; 0: they may.
    pub restless: u32,
}

/// What the first page of a stream says of that; `None`: it is none.
pub fn held_back(page: &[u8]) -> Option<HeldBack> {
    let head = wire::head(page).ok()?;
    Some(HeldBack { pauses: head.pauses, restless: head.restless })
}

/// Opens a stream for reading.
pub fn open(path: &Path) -> Result<File> {
    let file = os::file::open_unlinked(path, Access::Read);
    file.map_err(|cause| Error::on(Exit::Data, "cannot open", path).because(cause))
}

/// Reads as much as there is.
pub(crate) fn read_at(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(Error::on(Exit::Data, "cannot read", path).because(cause)),
        }
    }
    Ok(filled)
}

/// Visits the chunks of a stream; returns where they end.
pub(crate) fn each_chunk(file: &File, path: &Path, mut visit: impl FnMut(wire::Chunk, u64)) -> Result<u64> {
    let (mut offset, mut end) = (PAGE as u64, PAGE as u64);
    let mut header = [0; size_of::<heap_wire::ChunkHeader>()];
    while read_at(file, path, &mut header, offset)? == header.len() {
        // Without a header: its process was killed before it wrote one. The next chunk begins at some later page.
        let Some(chunk) = wire::chunk(&header) else {
            offset += PAGE as u64;
            continue;
        };
        visit(chunk, offset);
        offset += u64::from(chunk.bytes);
        end = offset;
    }
    Ok(end)
}

/// Where the chunks of a stream end: what follows was only allocated ahead.
pub fn end_of(file: &File, path: &Path) -> Result<u64> {
    each_chunk(file, path, |_, _| {})
}

/// Whether nothing of a stream was freed while it was followed: of each lane the first chunk is still there.
pub fn is_whole(path: &Path) -> Result<bool> {
    let file = open(path)?;
    let mut begun = HashSet::new();
    let mut offset = PAGE as u64;
    let mut header = [0; size_of::<heap_wire::ChunkHeader>()];
    while read_at(&file, path, &mut header, offset)? == header.len() {
        match wire::chunk(&header) {
            Some(chunk) if chunk.sequence > 0 && !begun.contains(&chunk.lane) => return Ok(false),
            Some(chunk) => {
                begun.insert(chunk.lane);
                offset += u64::from(chunk.bytes);
            }
            // What was freed may be long.
            None => match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(offset + PAGE as u64)) {
                Ok(data) => offset = data & !(PAGE as u64 - 1),
                Err(_) => break,
            },
        }
    }
    Ok(true)
}

/// Frees a part of a file on the disk.
pub fn punch(file: &File, path: &Path, offset: u64, bytes: u64) -> Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, hole, offset, bytes).map_err(|cause| {
        Error::on(Exit::Machine, "cannot free a part of a file on the disk", path)
            .because(std::io::Error::from(cause))
            .hint("record to another file system (ext4, xfs, btrfs, tmpfs): -o, or without --aggregate")
    })
}

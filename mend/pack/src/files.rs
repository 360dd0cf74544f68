//! Files as packing needs them: mapped for reading, written with holes, copied.

use crate::canvas::{Canvas, Piece};
use model::{Error, Exit, Result};
use os::replace::{Fresh, Rights, Strictness};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::fs::{File, Metadata};
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

pub fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::on(Exit::Machine, what, path).because(cause.into())
}

/// A file in memory, read when it is looked at.
pub struct Mapping {
    start: *mut std::ffi::c_void,
    len: usize,
}

impl Mapping {
    /// Maps all of a file. Should another process cut the file short meanwhile, reading it ends this process by SIGBUS;
    /// nothing is half-written then.
    pub fn of(file: &File, path: &Path) -> Result<Self> {
        let len = file.metadata().map_err(|cause| failed("cannot look at", path, cause))?.len() as usize;
        if len == 0 {
            return Ok(Self { start: std::ptr::null_mut(), len });
        }
        let (prot, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory of ours.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, 0) };
        Ok(Self { start: start.map_err(|cause| failed("cannot map", path, cause))?, len })
    }
}

impl Mapping {
    /// Where in the file these bytes lie, if they are a part of it and no copy.
    fn place_of(&self, bytes: &[u8]) -> Option<u64> {
        let at = bytes.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        at.checked_add(bytes.len()).filter(|end| *end <= self.len).map(|_| at as u64)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `start` begins a readable mapping of `len` bytes that lives as long as `self`. It is private: what
        // others write to the file meanwhile may show, which parsers of hostile bytes take as bytes.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: this is the mapping that was made, and no slice of it outlives `self`. A failure leaves it
            // mapped.
            let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
        }
    }
}

/// Writes the pieces; what is zero stays a hole where the file system can. What is a stretch of `original` goes from
/// file to file: it shares blocks where the file system can, and is copied in blocks where it cannot. The disk begins
/// at once, and is waited for by nobody yet.
pub fn paint(fresh: &Fresh, canvas: &Canvas<'_>, original: Option<(&File, &Mapping)>) -> Result<()> {
    let shares = original.map_or(Ok(false), |(file, _)| shares_blocks(file, fresh.file()));
    let written = shares.and_then(|shares| write(fresh, canvas, original, shares));
    written.map_err(|cause| fresh.failed("cannot write", cause))?;
    fresh.start_writing();
    Ok(())
}

fn write(
    fresh: &Fresh,
    canvas: &Canvas<'_>,
    original: Option<(&File, &Mapping)>,
    shares_blocks: bool,
) -> io::Result<()> {
    fresh.file().set_len(canvas.len())?;
    let mut block = Vec::new();
    canvas.pieces().iter().try_for_each(|piece| {
        let from = original.and_then(|(file, mapping)| Some((file, mapping.place_of(&piece.bytes)?)));
        match from.filter(|_| piece.bytes.len() >= LEAST) {
            Some((file, from)) if shares_blocks => copy_range(file, from, fresh, piece),
            Some((file, from)) => copy_blocks(file, from, fresh, piece, &mut block),
            None => fresh.file().write_all_at(&piece.bytes, piece.at),
        }
    })
}

/// Whether what is copied from one file to another shares its blocks: asked by sharing the first ones.
fn shares_blocks(from: &File, to: &File) -> io::Result<bool> {
    /// As ioctl_ficlonerange(2) takes it.
    #[repr(C)]
    struct FileCloneRange {
        file: i64,
        offset: u64,
        len: u64,
        to: u64,
    }
    const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);
    let range = FileCloneRange { file: from.as_raw_fd().into(), offset: 0, len: LEAST as u64, to: 0 };
    // SAFETY: this is the request's number, and what it takes; the kernel keeps nothing of it.
    let shares = unsafe { ioctl(to, Setter::<FICLONERANGE, _>::new(range)) }.is_ok();
    if shares {
        // Nothing of what was tried stays.
        to.set_len(0)?;
    }
    Ok(shares)
}

/// Below, a call of its own costs more than it saves.
const LEAST: usize = 1 << 16;

/// A block stays in the processor's cache from reading to writing, and gets large pages of the kernel's: both together
/// are cheaper than copy_file_range(2), which goes through a pipe page by page. Larger blocks gain nothing.
const BLOCK: u64 = 1 << 18;

/// After so much the disk is told to begin, so that it works while the rest is copied.
const STRETCH: u64 = 1 << 23;

/// Copies a piece from another file, block by block.
fn copy_blocks(file: &File, from: u64, fresh: &Fresh, piece: &Piece<'_>, block: &mut Vec<u8>) -> io::Result<()> {
    reserve(fresh.file(), piece)?;
    block.resize(BLOCK as usize, 0);
    let mut at = piece.at;
    while at < piece.end() {
        let end = (at / BLOCK + 1).saturating_mul(BLOCK).min(piece.end());
        let part = &mut block[..(end - at) as usize];
        file.read_exact_at(part, from + (at - piece.at))?;
        fresh.file().write_all_at(part, at)?;
        at = end;
        if at.is_multiple_of(STRETCH) {
            fresh.start_writing();
        }
    }
    Ok(())
}

/// Finds the room for a piece at once: else ext4 looks for each block of it twice, as it comes and as it goes to disk.
fn reserve(file: &File, piece: &Piece<'_>) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), piece.at, piece.bytes.len() as u64) {
        Err(cause @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => Err(cause.into()),
        // Where it cannot be had, the room is found as before.
        _ => Ok(()),
    }
}

/// Lets the file system copy a piece from another file, with which it shares the blocks that lie in both files at
/// borders of blocks: what is in front of the first one is written.
fn copy_range(file: &File, from: u64, fresh: &Fresh, piece: &Piece<'_>) -> io::Result<()> {
    let block = fresh.file().metadata()?.blksize().max(1);
    let mut done = (piece.at.next_multiple_of(block) - piece.at) as usize;
    // Nothing can be shared where they lie at different places in their blocks, or are few.
    if from % block != piece.at % block || done > piece.bytes.len() {
        done = piece.bytes.len();
    }
    fresh.file().write_all_at(&piece.bytes[..done], piece.at)?;
    let whole = done + (piece.bytes.len() - done) / block as usize * block as usize;
    while whole - done >= LEAST {
        let (mut from, mut to) = (from + done as u64, piece.at + done as u64);
        match rustix::fs::copy_file_range(file, Some(&mut from), fresh.file(), Some(&mut to), whole - done) {
            Ok(0) => break,
            Ok(copied) => done += copied,
            Err(Errno::INTR) => {}
            Err(cause @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => return Err(cause.into()),
            Err(_) => break,
        }
    }
    fresh.file().write_all_at(&piece.bytes[done..], piece.at + done as u64)
}

/// Gives the blocks of a stretch of zeros back to the file system.
pub fn punch(fresh: &Fresh, range: &Range<u64>) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fresh.file(), mode, range.start, range.end - range.start).map_err(|cause| {
        fresh.failed("cannot punch a hole into", cause).hint("pack with `--no-shrink` and without `--punch-holes` here")
    })
}

/// A copy of a file in another place; shares its blocks where the file system can.
pub fn copy(from: &File, about: &Metadata, fresh: Fresh) -> Result<()> {
    match rustix::fs::ioctl_ficlone(fresh.file(), from) {
        Ok(()) => {}
        Err(cause @ (Errno::NOSPC | Errno::DQUOT | Errno::IO)) => return Err(fresh.failed("cannot copy to", cause)),
        Err(_) => {
            // Shares its offset with `from`, which nobody else uses.
            let mut source = from.try_clone().map_err(|cause| failed("cannot read for", fresh.path(), cause))?;
            let copied = io::Seek::rewind(&mut source).and_then(|()| io::copy(&mut source, &mut fresh.file()));
            copied.map_err(|cause| fresh.failed("cannot copy to", cause))?;
        }
    }
    fresh.grant(Rights::Like { file: from, about, strictness: Strictness::AsAllowed })?;
    fresh.place()
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::replace::Existing;

    #[test]
    fn pieces_come_where_they_belong_with_shared_blocks_or_without() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("original");
        let bytes: Vec<u8> =
            (0..1_500_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        let mapping = Mapping::of(&file, &path).unwrap();
        let mut canvas = Canvas::blank(2_000_000);
        canvas.paint(0, &mapping[100_000..900_000]);
        canvas.paint(800_123, &mapping[..700_001]);
        canvas.paint(400_000, vec![7; 100_000]);
        canvas.paint(1_900_000, &mapping[1_450_000..]);
        for shares_blocks in [false, true] {
            let fresh = Fresh::beside(&home.path().join("new"), Existing::Keep).unwrap();
            write(&fresh, &canvas, Some((&file, &mapping)), shares_blocks).unwrap();
            assert!(fresh.content().unwrap() == canvas.to_vec(), "blocks are shared: {shares_blocks}");
        }
    }

    /// Bytes that are in use on a disk.
    fn used(point: &Path) -> u64 {
        rustix::fs::syncfs(File::open(point).unwrap()).unwrap();
        let about = rustix::fs::statvfs(point).unwrap();
        (about.f_blocks - about.f_bfree) * about.f_frsize
    }

    #[test]
    fn what_moves_by_whole_blocks_takes_no_room_where_blocks_can_be_shared() {
        for kind in ["xfs", "btrfs"] {
            let home = tempfile::tempdir_in("/var/tmp").unwrap();
            let disk = testing::LoopDisk::new(home.path(), &format!("mkfs.{kind}"), &[], 512 << 20);
            let Some(disk) = disk else { continue };
            let path = disk.point.join("original");
            let bytes: Vec<u8> =
                (0..32_u64 << 20).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let file = File::open(&path).unwrap();
            let mapping = Mapping::of(&file, &path).unwrap();
            let before = used(&disk.point);
            // As in a packed file: what is behind the tables lies some pages before where it was.
            let mut canvas = Canvas::blank(30_000_000);
            canvas.paint(0, &mapping[..200_000]);
            canvas.paint(200_500, &mapping[200_500 + (1 << 20)..30_000_000 + (1 << 20)]);
            let fresh = Fresh::beside(&disk.point.join("new"), Existing::Keep).unwrap();
            paint(&fresh, &canvas, Some((&file, &mapping))).unwrap();
            assert!(fresh.content().unwrap() == canvas.to_vec(), "{kind}");
            let more = used(&disk.point) - before;
            assert!(more < 4 << 20, "{kind}: {more} bytes of 30,000,000");
        }
    }
}

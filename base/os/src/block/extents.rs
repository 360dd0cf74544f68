//! Where a file lies on its disk (`FS_IOC_FIEMAP`).
//!
//! Offsets are those that the file system tells: on most of them from the beginning of its device; see
//! [`crate::mounts::Mount::backing`] for the others, and [`crate::device::part_of`] for the step from the
//! device to the whole disk.

use model::{Bytes, DiskOffset, FileOffset};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What an extent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// Data at a known place.
    Data,
    /// Allocated, never written: reads as zeros without the disk.
    Unwritten,
    /// Compressed or encrypted: `len` bytes of the file are another number of bytes on disk.
    Encoded,
    /// Inside the inode or packed into a block with other files.
    Inline,
    /// Not yet allocated: still only in memory.
    Delayed,
    /// The file system does not say where.
    Unknown,
}

/// A contiguous piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file.
    pub offset: FileOffset,
    /// Where on the file system's device; `None`: nowhere that is known, or not yet. (An `Encoded` extent's place
    /// is where its encoded form begins; an `Inline` one's is where its metadata block is, if told.)
    pub disk: Option<DiskOffset>,
    /// How long in the file.
    pub len: Bytes,
    /// What its bytes are on the disk: data, or something that has no exact place.
    pub kind: ExtentKind,
    /// Other files may share the same blocks (reflink).
    pub shared: bool,
}

impl Extent {
    /// Where on the device a byte of the file is; `None`: outside this extent, or not at a byte-exact place.
    pub fn disk_of(&self, offset: FileOffset) -> Option<DiskOffset> {
        let into = offset.0.checked_sub(self.offset.0).filter(|into| *into < self.len.0)?;
        let disk = self.disk.filter(|_| matches!(self.kind, ExtentKind::Data | ExtentKind::Unwritten))?;
        Some(DiskOffset(disk.0 + into))
    }
}

/// `struct fiemap` of linux/fiemap.h, with room for a batch of extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// Extents per call: one call does for nearly all files.
const BATCH: usize = 128;

const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELALLOC: u32 = 0x4;
const ENCODED: u32 = 0x8;
const DATA_ENCRYPTED: u32 = 0x80;
const NOT_ALIGNED: u32 = 0x100;
const DATA_INLINE: u32 = 0x200;
const DATA_TAIL: u32 = 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// Extents of a file, by file offset; holes are where none is. Does not sync the file: what is not yet
/// allocated is [`ExtentKind::Delayed`]. `Unsupported`: a file system without FIEMAP (tmpfs, most network ones).
pub fn extents(file: &File) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut request = Box::new(Request {
        start: 0,
        length: 0,
        flags: 0,
        mapped_extents: 0,
        extent_count: BATCH as u32,
        reserved: 0,
        extents: [RawExtent::default(); BATCH],
    });
    loop {
        request.start = start;
        request.length = u64::MAX - start;
        request.mapped_extents = 0;
        fiemap(file, &mut request)?;
        let batch = &request.extents[..(request.mapped_extents as usize).min(BATCH)];
        found.extend(batch.iter().map(decode));
        match batch.last() {
            // An extent that does not get us any further would keep us here for ever.
            Some(last) if last.flags & LAST == 0 && last.logical.saturating_add(last.length) > start => {
                start = last.logical + last.length;
            }
            _ => return Ok(found),
        }
    }
}

fn fiemap(file: &File, request: &mut Request) -> io::Result<()> {
    /// `_IOWR('f', 11, struct fiemap)`: 32 bytes, the extents behind it do not count.
    const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
    // SAFETY: `request` has the layout of `struct fiemap` followed by the `extent_count` extents that it claims
    // room for; the kernel writes nowhere else.
    match unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, request as *mut Request) } {
        0 => Ok(()),
        _ => Err(match io::Error::last_os_error() {
            // What file systems without an inode operation for it, and old ones, answer.
            error if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
                io::ErrorKind::Unsupported.into()
            }
            error => error,
        }),
    }
}

fn decode(raw: &RawExtent) -> Extent {
    let has = |flags| raw.flags & flags != 0;
    let kind = if has(DELALLOC) {
        ExtentKind::Delayed
    } else if has(DATA_INLINE | DATA_TAIL) {
        ExtentKind::Inline
    } else if has(UNKNOWN) {
        ExtentKind::Unknown
    } else if has(ENCODED | DATA_ENCRYPTED) {
        ExtentKind::Encoded
    } else if has(NOT_ALIGNED) {
        ExtentKind::Inline
    } else if has(UNWRITTEN) {
        ExtentKind::Unwritten
    } else {
        ExtentKind::Data
    };
    let placed = match kind {
        ExtentKind::Delayed | ExtentKind::Unknown => false,
        ExtentKind::Inline => raw.physical != 0,
        _ => true,
    };
    Extent {
        offset: FileOffset(raw.logical),
        disk: placed.then_some(DiskOffset(raw.physical)),
        len: Bytes(raw.length),
        kind,
        shared: has(SHARED),
    }
}

/// In how many pieces the file's data lies on disk: a piece ends where the next data is not right behind it.
/// Holes and what needs no disk do not count. 1 is perfect, 0 an empty file.
pub fn pieces(extents: &[Extent]) -> u32 {
    let mut pieces = 0;
    let mut end = None;
    for extent in extents.iter().filter(|extent| matches!(extent.kind, ExtentKind::Data | ExtentKind::Encoded)) {
        let Some(disk) = extent.disk else { continue };
        if end != Some(disk.0) {
            pieces += 1;
        }
        // Of an encoded extent the length on disk is not known: what follows cannot be known to be adjacent.
        end = (extent.kind == ExtentKind::Data).then_some(disk.0 + extent.len.0);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(logical: u64, physical: u64, length: u64, flags: u32) -> RawExtent {
        RawExtent { logical, physical, length, flags, ..Default::default() }
    }

    #[test]
    fn flags_that_mean_no_place_never_give_a_disk_offset() {
        for (flags, kind, disk) in [
            (0, ExtentKind::Data, Some(8192)),
            (LAST, ExtentKind::Data, Some(8192)),
            (UNKNOWN | DELALLOC, ExtentKind::Delayed, None),
            (DELALLOC, ExtentKind::Delayed, None),
            (UNKNOWN, ExtentKind::Unknown, None),
            (UNWRITTEN, ExtentKind::Unwritten, Some(8192)),
            (ENCODED, ExtentKind::Encoded, Some(8192)),
            (ENCODED | DATA_ENCRYPTED, ExtentKind::Encoded, Some(8192)),
            (DATA_INLINE | NOT_ALIGNED, ExtentKind::Inline, Some(8192)),
            (DATA_TAIL | NOT_ALIGNED, ExtentKind::Inline, Some(8192)),
        ] {
            let extent = decode(&raw(0, 8192, 4096, flags));
            assert_eq!((extent.kind, extent.disk), (kind, disk.map(DiskOffset)), "flags {flags:#x}");
        }
        assert!(decode(&raw(0, 0, 60, DATA_INLINE | NOT_ALIGNED)).disk.is_none(), "inside the inode");
        assert!(decode(&raw(0, 4096, 4096, SHARED)).shared);
    }

    #[test]
    fn pieces_count_jumps_of_the_disk_head() {
        let data = |logical, physical, length| decode(&raw(logical, physical, length, 0));
        assert_eq!(pieces(&[]), 0);
        assert_eq!(pieces(&[data(0, 4096, 8192)]), 1);
        assert_eq!(pieces(&[data(0, 4096, 8192), data(8192, 12288, 4096)]), 1, "two extents in a row are one piece");
        assert_eq!(pieces(&[data(0, 4096, 8192), data(8192, 16384, 4096)]), 2);
        assert_eq!(pieces(&[data(0, 12288, 4096), data(4096, 4096, 8192)]), 2, "backwards is a jump too");
        let unwritten = decode(&raw(8192, 90 << 12, 4096, UNWRITTEN));
        assert_eq!(pieces(&[data(0, 4096, 8192), unwritten, data(12288, 12288, 4096)]), 1, "zeros need no disk");
    }

    #[test]
    fn a_byte_of_the_file_is_found_on_disk() {
        let extent = decode(&raw(8192, 1 << 20, 8192, 0));
        assert_eq!(extent.disk_of(FileOffset(8192 + 5000)), Some(DiskOffset((1 << 20) + 5000)));
        assert_eq!(extent.disk_of(FileOffset(8191)), None);
        assert_eq!(extent.disk_of(FileOffset(16384)), None);
        assert_eq!(decode(&raw(0, 4096, 4096, ENCODED)).disk_of(FileOffset(0)), None);
    }
}

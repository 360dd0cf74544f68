//! Takes files out of the page cache and puts them in.

use super::look::{is_dirty, is_stacked, not_needed};
use model::{Bytes, Error, Exit, FileOffset, Result};
use rustix::fs::{Advice, AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Writes dirty pages to disk, then evicts the whole file from the page cache. Needs no right but to read it.
/// No error says that everything went: what others map, lock or use stays (see [`super::residency`]).
pub fn evict(file: &File) -> io::Result<()> {
    clean(file)?;
    not_needed(file)
}

/// Makes all pages clean, since only clean ones can be evicted.
fn clean(file: &File) -> io::Result<()> {
    match is_dirty(file) {
        Some(false) => Ok(()),
        // Not told: this writes whatever is dirty, and costs nothing if nothing is.
        None if !is_stacked(file) && write_out(file).is_ok() => Ok(()),
        _ => match rustix::fs::fdatasync(file) {
            // Nothing can be dirty on a file system that is mounted read-only or that cannot be synced.
            Ok(()) | Err(Errno::ROFS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        },
    }
}

/// Starts writing all dirty pages and waits for them, without the disk-cache flush and journal commit that
/// would make them durable.
fn write_out(file: &File) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes numbers only; the descriptor is open for as long as `file` lives.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads ranges (or everything) into the page cache and nothing around them, and waits until it is there.
/// Returns how many bytes the ranges hold inside the file. Follows symbolic links; works on block devices.
pub fn warm(path: &Path, ranges: Option<&[(FileOffset, Bytes)]>) -> io::Result<Bytes> {
    /// Large enough to keep a disk busy, small enough to stay in the processor's cache.
    const STEP: u64 = 1 << 20;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty())?.into(),
        opened => opened?.into(),
    };
    // Without this, read-ahead would fill up to 8 MiB behind each range.
    rustix::fs::fadvise(&file, 0, None, Advice::Random)?;
    let everything = [(FileOffset(0), Bytes(u64::MAX))];
    let mut buffer = vec![0; STEP as usize];
    let mut total = 0;
    for (offset, len) in ranges.unwrap_or(&everything) {
        let (mut at, end) = (offset.0, offset.0.saturating_add(len.0));
        while at < end {
            match file.read_at(&mut buffer[..(end - at).min(STEP) as usize], at) {
                Ok(0) => break,
                Ok(read) => at += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        total += at - offset.0;
    }
    Ok(Bytes(total))
}

/// Reads a directory and looks at each entry, so that its blocks and the dentries and inodes of its entries
/// are cached, as if somebody had listed it. Returns the number of entries.
pub fn warm_directory(path: &Path) -> io::Result<u64> {
    let directory = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = Vec::with_capacity(1 << 16);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            // An entry that vanished meanwhile needs no warming.
            let _ = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            count += 1;
        }
    }
    Ok(count)
}

/// Drops the page cache, dentries and inodes of the whole machine, after writing everything dirty to disk.
/// What processes map or use stays.
pub fn drop_all() -> Result<()> {
    let _span = tracing::info_span!("drop all").entered();
    rustix::fs::sync();
    let control = Path::new("/proc/sys/vm/drop_caches");
    std::fs::write(control, "3\n").map_err(|error| {
        Error::on(Exit::Machine, "cannot drop the machine's caches", control)
            .because(error)
            .hint("run as root on the host; without it, `thaw flush` evicts single files and `hot` can be measured")
    })
}

/// How often anybody has dropped the caches of this machine since boot. `None`: this kernel does not count.
pub fn drops() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
    let count = |name: &str| counts.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(count("drop_pagecache ")? + count("drop_slab ")?)
}

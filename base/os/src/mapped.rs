//! A file as bytes in memory, for looking at a few places of large ELF files.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::{
    fs::File,
    ops::{Deref, Range},
    os::fd::AsFd,
    ptr::NonNull,
};

/// A private read-only mapping that is read page by page, without read-ahead: looking must not change
/// what is in the page cache more than it has to.
#[derive(Debug)]
pub struct Mapped {
    address: NonNull<std::ffi::c_void>,
    len: usize,
}

impl Mapped {
    /// Maps a regular file; `None` if it is empty or cannot be mapped.
    pub fn of(file: &File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() > 0)?;
        let len = usize::try_from(metadata.len()).ok()?;
        // SAFETY: a new private mapping at an address of the kernel's choice; it overlays nothing.
        let address =
            unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file.as_fd(), 0).ok()? };
        let address = NonNull::new(address)?;
        // SAFETY: the range was just mapped; the advice changes no content. Without it, reading is only slower.
        let _ = unsafe { madvise(address.as_ptr(), len, Advice::Random) };
        Some(Self { address, len })
    }

    /// Brings a part of the file into memory, so that looking at it later waits for no disk.
    pub fn bring(&self, part: Range<usize>) {
        let Some(bytes) = self.get(part).filter(|bytes| !bytes.is_empty()) else { return };
        let skip = bytes.as_ptr().addr() % rustix::param::page_size();
        for advice in [Advice::WillNeed, Advice::LinuxPopulateRead] {
            // SAFETY: whole pages of the mapping, which begins at one; neither advice changes content. If the kernel
            // does not know one, reading is only slower.
            let _ = unsafe { madvise(bytes.as_ptr().sub(skip).cast_mut().cast(), bytes.len() + skip, advice) };
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `address` is the start of a readable mapping of `len` bytes that lives as long as `self`. Executables
        // and libraries are replaced by renaming, not by truncating them in place, so their pages stay valid.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the range that `of` mapped; no slice of it outlives `self`.
        let _ = unsafe { munmap(self.address.as_ptr(), self.len) };
    }
}

// SAFETY: the mapping is read-only memory that belongs to nobody's thread; it is unmapped by whoever owns the value.
unsafe impl Send for Mapped {}
// SAFETY: as above: shared references only read.
unsafe impl Sync for Mapped {}

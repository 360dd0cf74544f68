//! The reads by io_uring: the kernel's own threads make the same call that [`crate::run::Engine::Fadvise`] makes.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::RawFd;

/// A call: of which file, from where, how much.
pub(crate) type Call = (RawFd, u64, u64);

/// Asks for all of these and waits until all have been asked for: what a program that is replaced by another one has
/// not yet begun is dropped.
pub(crate) fn ask(calls: &[Call]) -> io::Result<()> {
    const AT_ONCE: u32 = 256;
    if calls.is_empty() {
        return Ok(());
    }
    let mut ring = IoUring::new(AT_ONCE)?;
    for batch in calls.chunks(AT_ONCE as usize) {
        for (fd, offset, len) in batch {
            let advice = opcode::Fadvise::new(types::Fd(*fd), *len as libc::off_t, libc::POSIX_FADV_WILLNEED);
            let entry = advice.offset(*offset).build();
            // SAFETY: the entry holds numbers only; the caller keeps the files open until this function returns.
            unsafe { ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::OutOfMemory)?;
        }
        ring.submit_and_wait(batch.len())?;
        for done in ring.completion() {
            if done.result() < 0 {
                return Err(io::Error::from_raw_os_error(-done.result()));
            }
        }
    }
    Ok(())
}

//! What this process does with the memory that it no longer needs.

/// From this size on, a block is memory of its own.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 1 << 20;

/// From now on blocks of a megabyte and more go back to the system as soon as they are free. glibc begins so, too, but
/// each large block that was freed raises its limit, up to 32 MB: what comes next then lies in one heap with small
/// blocks that stay, and no page of it goes back.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers, and may be called at any time; what it does not know it refuses.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

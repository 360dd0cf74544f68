//! SQLite opens regular files only.
//!
//! It looks for a journal beside a recording by its name. Where another user may write, that may be a pipe, and opening
//! a pipe waits for somebody at its other end: for ever.

use rusqlite::ffi;
use std::ffi::{c_char, c_int};
use std::sync::Once;

/// Makes it so, for this process, once.
pub(crate) fn only_regular_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: without a name it gives the usual file system of SQLite, which lives as long as the process.
        let vfs = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        // SAFETY: null or valid; nobody uses SQLite yet who would read it at this moment.
        let Some(set) = (unsafe { vfs.as_ref() }).and_then(|vfs| vfs.xSetSystemCall) else { return };
        // SAFETY: it is called as the function that it is: SQLite declares "open" with these three arguments.
        let open = unsafe {
            std::mem::transmute::<unsafe extern "C" fn(*const c_char, c_int, c_int) -> c_int, unsafe extern "C" fn()>(
                open,
            )
        };
        // SAFETY: the file system is valid, the name ends with a zero.
        unsafe { set(vfs, c"open".as_ptr(), Some(open)) };
    });
}

/// As open(2), but what is no regular file is not opened: `EACCES`.
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: SQLite gives a path that ends with a zero.
    let opened = unsafe { libc::open(path, flags | libc::O_NONBLOCK | libc::O_NOCTTY, mode) };
    if opened < 0 {
        return opened;
    }
    // SAFETY: all zeros is a value of this plain structure.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the structure lives until the call returns.
    let known = unsafe { libc::fstat(opened, &raw mut about) };
    // Directories are opened to be synced.
    if known == 0 && matches!(about.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) {
        return opened;
    }
    // SAFETY: it is ours, and errno is this thread's.
    unsafe {
        libc::close(opened);
        *libc::__errno_location() = libc::EACCES;
    }
    -1
}

//! What is told of process images that have no stream: a table that all processes of a recording share, mapped before a
//! sandbox shuts.
//!
//! A forked child inherits the mapping. So one whose root directory or whose rights do not reach the recording any more
//! is told by itself, with the reason; and one that says nothing is missing in the count.

use crate::text::Text;
use crate::{desk, sys};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use heap_wire::desk::TABLE as TABLE_WANTED;
use heap_wire::missed::{BYTES, ENTRIES, Entry, FILE, Table, kind};

static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the table of the recording in this directory; nothing where there is none.
pub fn map(directory: &[u8]) {
    unmap();
    let mut path = Text::<{ sys::PATH_MAX }>::new();
    path.push(directory);
    path.push(b"/");
    path.push(FILE);
    let opened = match sys::open(path.with_zero(), sys::O_RDWR | sys::O_NOFOLLOW | sys::O_CLOEXEC, 0) {
        Err(errno) if desk::may_help(errno) => desk::ask(directory, TABLE_WANTED, 0, &[]).ok().and_then(|it| it.file),
        opened => opened.ok(),
    };
    let Some(fd) = opened else { return };
    // Touching a page beyond the file's end would be a SIGBUS.
    if sys::file_bytes(fd) == Ok(BYTES)
        && let Ok(at) = sys::mmap(BYTES, sys::PROT_RW, sys::MAP_SHARED, Some((fd, 0)))
    {
        TABLE.store(at.cast(), Release);
    }
    sys::close(fd);
}

/// Gives it back.
pub fn unmap() {
    let table = TABLE.swap(core::ptr::null_mut(), AcqRel);
    if !table.is_null() {
        // SAFETY: our own mapping; nobody is in a hook while a recording begins or ends.
        unsafe { sys::munmap(table.cast(), BYTES) };
    }
}

/// The guest has begun in a process image.
pub fn count_image() {
    let table = TABLE.load(Acquire);
    if !table.is_null() {
        // SAFETY: an aligned field of the mapped table, which other processes count too.
        unsafe { AtomicU64::from_ptr(&raw mut (*table).images) }.fetch_add(1, Relaxed);
    }
}

/// An entry that was written.
#[derive(Clone, Copy)]
pub struct Told(*mut Entry);

/// This image has no stream, because of this error; it was forked from the one with this stream.
pub fn tell_image(parent: &[u8], errno: u32) {
    tell(kind::IMAGE, errno, sys::pid(), parent, &[]);
}

/// A process executes this and could not note it, because of this error.
pub fn tell_exec(pid: u32, path: &[u8], errno: u32) -> Option<Told> {
    tell(kind::EXEC, errno, pid, &[], path)
}

/// That failed.
pub fn take_back(told: Told) {
    // SAFETY: an aligned field of an entry that is this process's alone.
    unsafe { AtomicU32::from_ptr(&raw mut (*told.0).kind) }.store(kind::TAKEN_BACK, Release);
}

fn tell(what: u32, errno: u32, pid: u32, parent: &[u8], path: &[u8]) -> Option<Told> {
    let table = TABLE.load(Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: fields of the mapped table; the number that was drawn makes the entry this caller's alone. Its kind makes
    // it exist.
    unsafe {
        let number = AtomicU64::from_ptr(&raw mut (*table).count).fetch_add(1, Relaxed) as usize;
        if number >= ENTRIES {
            return None;
        }
        let entry = (&raw mut (*table).entries).cast::<Entry>().add(number);
        let fields = &mut *entry;
        (fields.errno, fields.pid, fields.ticks) = (errno, pid, sys::ticks());
        let (last_parent, last_path) = (fields.parent.len() - 1, fields.path.len() - 1);
        for (place, byte) in fields.parent.iter_mut().take(last_parent).zip(parent) {
            *place = *byte;
        }
        for (place, byte) in fields.path.iter_mut().take(last_path).zip(path) {
            *place = *byte;
        }
        AtomicU32::from_ptr(&raw mut (*entry).kind).store(what, Release);
        Some(Told(entry))
    }
}

//! What is executed: each file is noted before, because a program that the dynamic linker does not serve leaves no word of its own.
//!
//! The notes of all processes go to one file of the recording, which thaw compares with the streams. A call that will fail mostly leaves none. Not for
//! programs that make the system call themselves.

use crate::real;
use crate::state::environment;
use crate::text::{self, Text};
use crate::{file, state, sys};
use core::ffi::{c_char, c_int};
use heap_wire::execs;

const PATH_MAX: usize = file::PATH_MAX;

/// A list of zero-terminated strings, ended by a null.
pub type Words = *const *const c_char;

/// The value of a variable.
///
/// # Safety
/// `words` is null or a list.
unsafe fn value_of<'a>(words: Words, name: &[u8]) -> Option<&'a [u8]> {
    let mut at = words;
    // SAFETY: the caller vouches for the list.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            if let Some(value) = text::of_c(*at).strip_prefix(name) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

/// # Safety
/// `words` is null or a list.
unsafe fn flags_of(words: Words) -> u64 {
    // SAFETY: the caller vouches.
    let passed = unsafe { value_of(words, b"THAW_HEAP=").is_some() && value_of(words, b"LD_PRELOAD=").is_some() };
    if passed { 0 } else { execs::BARE }
}

/// An absolute path, zero-terminated.
fn absolute(path: &[u8]) -> Text<PATH_MAX> {
    let mut whole = Text::new();
    if !path.starts_with(b"/") {
        whole.fill(sys::working_directory);
        whole.push(b"/");
    }
    whole.push(path);
    whole
}

/// Notes what the calling process is about to execute.
fn note(path: &[u8], flags: u64) -> bool {
    let mut whole = absolute(path);
    let possible = sys::may_execute(whole.with_zero());
    if possible {
        write(sys::pid(), sys::ticks(), flags, whole.bytes());
    }
    possible
}

fn write(pid: u32, ticks: u64, flags: u64, path: &[u8]) {
    let mut line = Text::<{ PATH_MAX + 64 }>::new();
    for number in [u64::from(pid), ticks, flags] {
        line.push_number(number);
        line.push(b" ");
    }
    line.push(path);
    line.push(b"\0");
    file::append(execs::FILE, line.bytes());
}

/// The first file of this name in the directories of PATH.
fn search(name: &[u8], flags: u64) {
    if name.contains(&b'/') {
        note(name, flags);
        return;
    }
    // SAFETY: the program's own list.
    let path = unsafe { value_of(environment(), b"PATH=") }.unwrap_or(b"/bin:/usr/bin");
    for directory in path.split(|byte| *byte == b':') {
        let mut whole = Text::<PATH_MAX>::new();
        whole.push(if directory.is_empty() { b"." } else { directory });
        whole.push(b"/");
        whole.push(name);
        if note(whole.bytes(), flags) {
            return;
        }
    }
}

/// What a descriptor stands for.
fn note_fd(fd: c_int, below: &[u8], flags: u64) {
    let mut link = Text::<48>::new();
    link.push(b"/proc/self/fd/");
    link.push_number(fd as u64);
    let mut path = Text::<PATH_MAX>::new();
    path.fill(|rest| sys::read_link(link.with_zero(), rest));
    if !below.is_empty() {
        path.push(b"/");
        path.push(below);
    }
    note(path.bytes(), flags);
}

pub unsafe extern "C" fn do_execve(path: *const c_char, _: Words, environment: Words) {
    if state::records() {
        // SAFETY: the program's own arguments.
        unsafe { note(text::of_c(path), flags_of(environment)) };
    }
}

/// `execv` and `execl`.
pub unsafe extern "C" fn do_execv(path: *const c_char) {
    // SAFETY: the program's own arguments.
    unsafe { do_execve(path, core::ptr::null(), environment()) };
}

/// `execle`: its environment comes after as many arguments as there are.
pub unsafe extern "C" fn do_execle(path: *const c_char) {
    if state::records() {
        // SAFETY: the program's own arguments.
        unsafe { note(text::of_c(path), 0) };
    }
}

/// `execvp` and `execlp`.
pub unsafe extern "C" fn do_execvp(name: *const c_char) {
    // SAFETY: the program's own arguments.
    unsafe { do_execvpe(name, core::ptr::null(), environment()) };
}

pub unsafe extern "C" fn do_execvpe(name: *const c_char, _: Words, environment: Words) {
    if state::records() {
        // SAFETY: the program's own arguments.
        unsafe { search(text::of_c(name), flags_of(environment)) };
    }
}

pub unsafe extern "C" fn do_fexecve(fd: c_int, _: Words, environment: Words) {
    if state::records() {
        // SAFETY: the program's own arguments.
        unsafe { note_fd(fd, b"", flags_of(environment)) };
    }
}

pub unsafe extern "C" fn do_execveat(fd: c_int, path: *const c_char, _: Words, environment: Words) {
    const AT_FDCWD: c_int = -100;
    if state::records() {
        // SAFETY: the program's own arguments.
        let (path, flags) = unsafe { (text::of_c(path), flags_of(environment)) };
        if path.starts_with(b"/") || fd == AT_FDCWD {
            note(path, flags);
        } else {
            note_fd(fd, path, flags);
        }
    }
}

type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_int, *const c_int, Words, Words) -> c_int;

pub unsafe extern "C" fn do_spawn(
    place: *mut c_int,
    path: *const c_char,
    actions: *const c_int,
    attributes: *const c_int,
    arguments: Words,
    environment: Words,
    _pc: u64,
    _sp: u64,
    _rbp: u64,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        spawned(
            &real::SPAWN,
            place,
            path,
            |real: Spawn, place| real(place, path, actions, attributes, arguments, environment),
            environment,
        )
    }
}

pub unsafe extern "C" fn do_spawnp(
    place: *mut c_int,
    path: *const c_char,
    actions: *const c_int,
    attributes: *const c_int,
    arguments: Words,
    environment: Words,
    _pc: u64,
    _sp: u64,
    _rbp: u64,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        spawned(
            &real::SPAWNP,
            place,
            path,
            |real: Spawn, place| real(place, path, actions, attributes, arguments, environment),
            environment,
        )
    }
}

/// When it returns, the file is being executed: the kernel says which.
///
/// # Safety
/// The arguments are those of the program's own call.
unsafe fn spawned(
    function: &real::Real,
    place: *mut c_int,
    path: *const c_char,
    call: impl FnOnce(Spawn, *mut c_int) -> c_int,
    environment: Words,
) -> c_int {
    const ENOSYS: c_int = 38;
    // SAFETY: both functions have this type.
    let Some(real) = (unsafe { function.get::<Spawn>() }) else { return ENOSYS };
    let (ticks, mut pid) = (sys::ticks(), 0);
    let place = if place.is_null() { &raw mut pid } else { place };
    let result = call(real, place);
    if result == 0 && state::records() {
        // SAFETY: on success it has the child's number; the rest is as the program passed it.
        let (pid, flags, path) = unsafe { (*place as u32, flags_of(environment), text::of_c(path)) };
        let mut link = Text::<48>::new();
        link.push(b"/proc/");
        link.push_number(u64::from(pid));
        link.push(b"/exe");
        let mut exe = Text::<PATH_MAX>::new();
        exe.fill(|rest| sys::read_link(link.with_zero(), rest));
        if exe.bytes().is_empty() {
            exe = absolute(path);
        }
        write(pid, ticks, flags, exe.bytes());
    }
    result
}

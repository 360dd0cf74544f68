//! Programs that the recorded one executes: they are recorded too, also where it clears their environment (`env -i`) or
//! sets an `LD_PRELOAD` of its own; and each is noted in the recording's directory (`executed`), so that one that
//! leaves no stream is known.
//!
//! Nothing is allocated: a changed environment is on the stack, as the C library's own lists of arguments are. In the
//! child of a `vfork` all of this happens in the parent's memory.

use crate::missed::{self, Told};
use crate::real::{self, Real};
use crate::text::{self, Text};
use crate::{desk, module, sys};
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::*};

type Words = *const *const c_char;
const OPTIONS: &[u8] = b"THAW_HEAP=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Longest list of arguments or variables that is passed on changed; longer ones go as they are.
const MOST_WORDS: usize = 16384;
const ENOSYS: c_int = 38;
const E2BIG: c_int = 7;

unsafe extern "C" {
    static environ: Words;
    fn __errno_location() -> *mut c_int;
}

/// What children must be given.
struct Own {
    /// `THAW_HEAP=...`, as this process was given it.
    options: Text<{ sys::PATH_MAX + 128 }>,
    /// This library, as the dynamic linker was told it.
    library: Text<{ sys::PATH_MAX }>,
}

struct Shared(UnsafeCell<Own>);
// SAFETY: written once, before the program's own code runs; `KNOWN` tells when it can be read.
unsafe impl Sync for Shared {}

static OWN: Shared = Shared(UnsafeCell::new(Own { options: Text::new(), library: Text::new() }));
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Remembers what children must be given. To be called once, before the program's own code.
///
/// # Safety
/// `environment` is a list of zero-terminated strings, ended by a null.
pub unsafe fn remember(environment: Words) {
    // SAFETY: nobody reads before `KNOWN` is set; the caller vouches for the list.
    unsafe {
        let own = &mut *OWN.0.get();
        let Some(options) = variable(environment, OPTIONS) else { return };
        own.options.push(text::of_c(*environment.add(options)));
        own.options.with_zero();
        own.library.push(module::name_at(remember as *const () as u64));
        own.library.with_zero();
        KNOWN.store(own.library.bytes().first() == Some(&b'/'), Release);
    }
}

fn own() -> Option<&'static Own> {
    // SAFETY: nobody writes any more.
    KNOWN.load(Acquire).then(|| unsafe { &*OWN.0.get() })
}

/// Where a variable is in a list.
///
/// # Safety
/// A list of zero-terminated strings, ended by a null, or null.
unsafe fn variable(list: Words, name: &[u8]) -> Option<usize> {
    // SAFETY: the caller vouches.
    unsafe { (0..length(list)).find(|index| text::of_c(*list.add(*index)).starts_with(name)) }
}

/// # Safety
/// As [`variable`].
unsafe fn length(list: Words) -> usize {
    let mut length = 0;
    // SAFETY: the caller vouches.
    while !list.is_null() && unsafe { !(*list.add(length)).is_null() } {
        length += 1;
    }
    length
}

/// Goes on with a stack array of at least so many words; `words` is at most [`MOST_WORDS`].
fn in_room<R>(words: usize, go: impl FnOnce(&mut [usize]) -> R) -> R {
    #[inline(never)]
    fn room<const N: usize, R>(go: impl FnOnce(&mut [usize]) -> R) -> R {
        go(&mut [0; N])
    }
    match words {
        0..=128 => room::<128, R>(go),
        129..=1024 => room::<1024, R>(go),
        _ => room::<MOST_WORDS, R>(go),
    }
}

/// Goes on with the environment as a child needs it.
///
/// # Safety
/// As [`variable`].
unsafe fn with_environment<R>(list: Words, go: impl FnOnce(Words) -> R) -> R {
    let Some(own) = own() else { return go(list) };
    // SAFETY: the caller vouches for the list.
    let (length, options, preload) = unsafe { (length(list), variable(list, OPTIONS), variable(list, PRELOAD)) };
    // SAFETY: below the list's length.
    let others = preload.map_or(&[][..], |index| unsafe { &text::of_c(*list.add(index))[PRELOAD.len()..] });
    let loaded = others.split(|byte| matches!(byte, b':' | b' ')).any(|path| path == own.library.bytes());
    let bytes = PRELOAD.len() + own.library.bytes().len() + 1 + others.len() + 1;
    let words = length + 3 + bytes.div_ceil(8);
    // Where the library cannot be reached (another root directory), the dynamic linker would only complain.
    if (loaded && options.is_some()) || words > MOST_WORDS || !sys::is_readable(own.library.with_its_zero()) {
        return go(list);
    }
    in_room(words, |room| {
        let (entries, text) = room.split_at_mut(length + 3);
        for (index, entry) in entries.iter_mut().enumerate().take(length) {
            // SAFETY: below the list's length.
            *entry = unsafe { *list.add(index) } as usize;
        }
        let mut end = length;
        let mut put = |at: Option<usize>, value: usize| {
            let at = at.unwrap_or_else(|| {
                end += 1;
                end - 1
            });
            if let Some(entry) = entries.get_mut(at) {
                *entry = value;
            }
        };
        if options.is_none() {
            put(None, own.options.with_its_zero().as_ptr() as usize);
        }
        if !loaded {
            put(preload, text.as_ptr() as usize);
            let between: &[u8] = if others.is_empty() { b"" } else { b":" };
            let pieces = [PRELOAD, own.library.bytes(), between, others];
            // SAFETY: room for these bytes and a zero was counted, and all of it is zero.
            let text = unsafe { core::slice::from_raw_parts_mut(text.as_mut_ptr().cast::<u8>(), text.len() * 8) };
            for (place, byte) in text.iter_mut().zip(pieces.into_iter().flatten()) {
                *place = *byte;
            }
        }
        go(entries.as_ptr().cast())
    })
}

/// Notes in the recording's directory that a process becomes a program, itself or at thaw's desk; where neither can be
/// reached, in the table of what is missed. `ticks` 0: it did not.
fn note(pid: u32, ticks: u64, path: &[u8]) -> Option<Told> {
    let own = own()?;
    let at = own.options.bytes().windows(4).position(|word| word == b"dir=")?;
    let directory = own.options.bytes().get(at + 4..).unwrap_or(&[]);
    let mut name = Text::<{ sys::PATH_MAX }>::new();
    name.push(directory);
    name.push(b"/");
    name.push(heap_wire::execs::FILE);
    let opened = sys::open(name.with_zero(), sys::O_WRONLY | sys::O_APPEND | sys::O_NOFOLLOW | sys::O_CLOEXEC, 0);
    if let Err(errno) = opened
        && !desk::may_help(errno)
    {
        return missed::tell_exec(pid, path, errno);
    }
    let mut line = Text::<{ sys::PATH_MAX + 64 }>::new();
    line.push_number(pid.into());
    line.push(b" ");
    line.push_number(ticks);
    line.push(b" ");
    if path.first() != Some(&b'/') && path.contains(&b'/') {
        line.fill(sys::working_directory);
        line.push(b"/");
    }
    line.push(path);
    // The zero ends it: paths may hold anything else. One call, so that lines of several processes do not mix.
    match opened {
        Ok(fd) => {
            sys::write(fd, line.with_zero());
            sys::close(fd);
            None
        }
        Err(_) => match desk::ask(directory, heap_wire::desk::NOTE, 0, line.with_zero()) {
            Ok(_) => None,
            Err(errno) => missed::tell_exec(pid, path, errno),
        },
    }
}

/// A call that ends in another program, or comes back because it failed.
///
/// # Safety
/// As [`variable`].
unsafe fn become_program(path: &[u8], environment: Words, call: impl FnOnce(Words) -> c_int) -> c_int {
    let pid = sys::pid();
    let told = note(pid, sys::ticks(), path);
    // SAFETY: the caller vouches.
    let failed = unsafe { with_environment(environment, call) };
    match told {
        Some(told) => missed::take_back(told),
        None => _ = note(pid, 0, path),
    }
    failed
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the calling thread's own errno.
    unsafe { *__errno_location() = error };
    -1
}

/// The path of an open file, or what names it below a directory.
fn path_at(fd: c_int, path: &[u8]) -> Text<{ sys::PATH_MAX }> {
    let mut found = Text::new();
    if !path.is_empty() {
        found.push(path);
        return found;
    }
    let mut link = Text::<32>::new();
    link.push(b"/proc/self/fd/");
    link.push_number(fd.unsigned_abs().into());
    found.fill(|buffer| sys::read_link(link.with_zero(), buffer));
    found
}

type Exec = unsafe extern "C" fn(*const c_char, Words, Words) -> c_int;
type ExecFd = unsafe extern "C" fn(c_int, Words, Words) -> c_int;
type ExecAt = unsafe extern "C" fn(c_int, *const c_char, Words, Words, c_int) -> c_int;
type Spawn = unsafe extern "C" fn(*mut c_int, *const c_char, *const c_void, *const c_void, Words, Words) -> c_int;

unsafe fn exec(real: &Real, path: *const c_char, arguments: Words, environment: Words) -> c_int {
    // SAFETY: the type of execve and execvpe; the program's own arguments.
    unsafe {
        let Some(real) = real.get::<Exec>() else { return fail(ENOSYS) };
        become_program(text::of_c(path), environment, |environment| real(path, arguments, environment))
    }
}

unsafe fn spawn(
    real: &Real,
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Words,
    environment: Words,
) -> c_int {
    let mut own = 0;
    let pid = if pid.is_null() { &raw mut own } else { pid };
    let ticks = sys::ticks();
    // SAFETY: the type of posix_spawn and posix_spawnp; the program's own arguments.
    unsafe {
        let Some(real) = real.get::<Spawn>() else { return ENOSYS };
        let failed =
            with_environment(environment, |environment| real(pid, path, actions, attributes, arguments, environment));
        if failed == 0 {
            note((*pid).unsigned_abs(), ticks, text::of_c(path));
        }
        failed
    }
}

/// Arguments as a function with `...` gets them: the first five in registers, the rest on the stack.
struct Listed {
    registers: *const [*const c_char; 5],
    stack: Words,
}

impl Listed {
    /// # Safety
    /// There is one, or all before were not null.
    unsafe fn get(&self, index: usize) -> *const c_char {
        // SAFETY: the caller vouches.
        unsafe {
            match (*self.registers).get(index) {
                Some(word) => *word,
                None => *self.stack.add(index - 5),
            }
        }
    }

    /// How many there are before the null.
    ///
    /// # Safety
    /// There is a null.
    unsafe fn length(&self) -> usize {
        let mut length = 0;
        // SAFETY: the caller vouches.
        while unsafe { !self.get(length).is_null() } {
            length += 1;
        }
        length
    }
}

/// # Safety
/// As `execl`; with `after`, `execle`.
unsafe fn exec_listed(real: &Real, path: *const c_char, listed: &Listed, environment: Words) -> c_int {
    // SAFETY: the list ends with a null, as `execl` demands.
    let length = unsafe { listed.length() };
    if length >= MOST_WORDS {
        return fail(E2BIG);
    }
    in_room(length + 1, |room| {
        for (index, place) in room.iter_mut().enumerate().take(length) {
            // SAFETY: below the length; the word behind stays null.
            *place = unsafe { listed.get(index) } as usize;
        }
        // SAFETY: the program's own arguments.
        unsafe { exec(real, path, room.as_ptr().cast(), environment) }
    })
}

unsafe extern "C" fn do_execl(path: *const c_char, registers: *const [*const c_char; 5], stack: Words) -> c_int {
    // SAFETY: the entry passes where the arguments are.
    unsafe { exec_listed(&real::EXECVE, path, &Listed { registers, stack }, environ) }
}

unsafe extern "C" fn do_execlp(path: *const c_char, registers: *const [*const c_char; 5], stack: Words) -> c_int {
    // SAFETY: as above.
    unsafe { exec_listed(&real::EXECVPE, path, &Listed { registers, stack }, environ) }
}

unsafe extern "C" fn do_execle(path: *const c_char, registers: *const [*const c_char; 5], stack: Words) -> c_int {
    let listed = Listed { registers, stack };
    // SAFETY: as above; the environment is behind the null.
    unsafe {
        let environment = listed.get(listed.length() + 1).cast();
        exec_listed(&real::EXECVE, path, &listed, environment)
    }
}

/// Functions with `...`: the words in registers go onto the stack, in order.
macro_rules! listed {
    ($($name:ident => $body:path;)*) => {$(
        /// Exported.
        ///
        /// # Safety
        /// As the function that it stands for.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "endbr64", "push r9", "push r8", "push rcx", "push rdx", "push rsi", "mov rsi, rsp", "lea rdx, [rsp + \
                    48]",
                "call {body}", "add rsp, 40", "ret", body = sym $body
            )
        }
    )*};
}

listed! {
    execl => do_execl;
    execlp => do_execlp;
    execle => do_execle;
}

/// The C library's functions of these names, seen before the dynamic linker's choice.
macro_rules! exported {
    ($($name:ident($($argument:ident: $kind:ty),*) => $body:expr;)*) => {$(
        /// Exported.
        ///
        /// # Safety
        /// As the function that it stands for.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { $body }
        }
    )*};
}

exported! {
    execve(path: *const c_char, arguments: Words, environment: Words) => exec(&real::EXECVE, path, arguments, environment);
    execv(path: *const c_char, arguments: Words) => exec(&real::EXECVE, path, arguments, environ);
    execvp(path: *const c_char, arguments: Words) => exec(&real::EXECVPE, path, arguments, environ);
    execvpe(path: *const c_char, arguments: Words, environment: Words) => exec(&real::EXECVPE, path, arguments, environment);
    fexecve(fd: c_int, arguments: Words, environment: Words) => {
        let Some(real) = real::FEXECVE.get::<ExecFd>() else { return fail(ENOSYS) };
        become_program(path_at(fd, b"").bytes(), environment, |environment| real(fd, arguments, environment))
    };
    execveat(directory: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int) => {
        let Some(real) = real::EXECVEAT.get::<ExecAt>() else { return fail(ENOSYS) };
        let named = path_at(directory, text::of_c(path));
        become_program(named.bytes(), environment, |environment| real(directory, path, arguments, environment, flags))
    };
    posix_spawn(
        pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Words, environment: Words
    ) => spawn(&real::SPAWN, pid, path, actions, attributes, arguments, environment);
    posix_spawnp(
        pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Words, environment: Words
    ) => spawn(&real::SPAWNP, pid, path, actions, attributes, arguments, environment);
}

//! The guest of `thaw heap`: lives in the recorded program, writes down every allocation and free, and is otherwise not
//! there.
//!
//! It may be inside malloc, in a signal handler, in a forked child, on a stack of 16 KiB. So: no std, no lock that can
//! be held when a process forks, no allocation but own mappings, no libc call that touches `errno`, no panic. What goes
//! wrong ends the recording with a reason in the stream's header and leaves the program alone.
//!
//! The story of an event: `hooks` gets the call and the caller's registers, `lane` is what the thread remembers (its
//! `head` is what others see of it, `arena` where all of them are), `unwind` takes the stack (rules from `cache`, made
//! by `cfi` for the object that `module` finds; `python` knows what an interpreter runs), `writer` writes the record
//! into a chunk of `file`. `state` sets it all up as `settings` say, `real` knows the functions behind, `sample`
//! chooses blocks, `objects` hooks what the dynamic linker's choice does not reach, with `detour`, `inner` what the
//! program brings under other names, `partition` what has none; `exec` hands the recording on to programs that it
//! executes; `desk` asks thaw for what the process may not open; `missed` tells of images that have no stream; `attach`
//! is for programs that run already.
//!
//! Modules import what lies below them: system calls and texts (`sys`, `text`, `tls`, `linker`), then what is known of
//! code, the file, the lanes, and the hooks on top. What must be called upwards is registered ([`state::when_loaded`]).
//! `kernel` stands for the system under Miri.
//!
//! Built as `libthaw_heap.so` by `dev/agent`. x86-64 only so far; elsewhere it is empty.
#![cfg_attr(not(test), no_std)]
#![allow(clippy::missing_safety_doc, reason = "private modules; each block says why it is sound")]

#[cfg(target_arch = "x86_64")]
mod arena;
#[cfg(target_arch = "x86_64")]
mod attach;
#[cfg(target_arch = "x86_64")]
mod cache;
#[cfg(target_arch = "x86_64")]
mod cfi;
#[cfg(target_arch = "x86_64")]
mod desk;
#[cfg(target_arch = "x86_64")]
mod detour;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "a test program hooks nothing"))]
mod exec;
#[cfg(target_arch = "x86_64")]
mod file;
#[cfg(target_arch = "x86_64")]
mod head;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "a test program does not export its hooks"))]
mod hooks;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "a test program hooks nothing"))]
mod inner;
#[cfg(miri)]
mod kernel;
#[cfg(target_arch = "x86_64")]
mod lane;
#[cfg(target_arch = "x86_64")]
mod linker;
#[cfg(target_arch = "x86_64")]
mod missed;
#[cfg(target_arch = "x86_64")]
mod module;
#[cfg(target_arch = "x86_64")]
mod objects;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "a test program hooks nothing"))]
mod partition;
#[cfg(target_arch = "x86_64")]
mod python;
#[cfg(target_arch = "x86_64")]
mod real;
#[cfg(target_arch = "x86_64")]
mod sample;
#[cfg(target_arch = "x86_64")]
mod settings;
#[cfg(target_arch = "x86_64")]
mod state;
#[cfg(target_arch = "x86_64")]
mod symbols;
#[cfg(target_arch = "x86_64")]
mod sys;
#[cfg(target_arch = "x86_64")]
mod text;
#[cfg(target_arch = "x86_64")]
mod tls;
#[cfg(target_arch = "x86_64")]
mod unwind;
#[cfg(target_arch = "x86_64")]
mod writer;

#[cfg(not(test))]
#[link(name = "c")]
unsafe extern "C" {}

/// Runs when the dynamic linker initialises the object. Miri has no dynamic linker.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(miri), used, unsafe(link_section = ".init_array"))]
static START: extern "C" fn(usize, usize, *const *const core::ffi::c_char) = start;

/// Runs when the process exits, before the destructors of the libraries that it is linked with: what these keep is
/// still theirs.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(miri), used, unsafe(link_section = ".fini_array"))]
static END: extern "C" fn() = end;

#[cfg(target_arch = "x86_64")]
extern "C" fn end() {
    if settings::checks_leaks() && state::ready() {
        file::leave();
    }
}

/// The C library's, of programs that leave by it (`_Exit` is the same).
///
/// # Safety
/// As the function of the C library.
#[cfg(all(target_arch = "x86_64", not(test)))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: core::ffi::c_int) -> ! {
    end();
    sys::exit(status)
}

/// See [`_exit`].
///
/// # Safety
/// As the function of the C library.
#[cfg(all(target_arch = "x86_64", not(test)))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: core::ffi::c_int) -> ! {
    end();
    sys::exit(status)
}

/// Of which thaw this is. Tests have no guest in them.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".note.thaw.heap")]
static IDENTITY: heap_wire::identity::Note = heap_wire::identity::NOTE;

#[cfg(target_arch = "x86_64")]
extern "C" fn start(_: usize, _: usize, environment: *const *const core::ffi::c_char) {
    let environment = state::set_environment(environment);
    state::when_loaded(objects::patch_all);
    if state::ready() {
        take_over();
    }
    // SAFETY: the list of variables, which the program has not changed yet.
    unsafe { exec::remember(environment) };
}

/// Does the program really reach our functions, and whose allocator is behind?
#[cfg(target_arch = "x86_64")]
fn take_over() {
    partition::take_over();
    objects::take_over();
    inner::take_over();
    file::note_allocator(module::name_at(real::MALLOC.address() as u64));
    // What came until now is known; only what comes later must be looked at.
    module::changes();
}

/// Nothing panics here; if something did, the process could not go on safely.
#[cfg(all(not(test), panic = "abort"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(target_arch = "x86_64")]
    sys::exit(70);
    #[cfg(not(target_arch = "x86_64"))]
    loop {}
}

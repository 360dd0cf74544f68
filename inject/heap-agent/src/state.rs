//! Whether and how this process is recorded. Set up at the first allocation, and anew in a forked child.

use crate::symbols::{self, Which};
use crate::text::{self, Text};
use crate::{arena, cache, file, module, real, settings, sys, tls};
use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use heap_wire::{origin, tier};

const NEW: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const OFF: u32 = 3;
/// A forked child that could not make its stream; a child of its own is counted all the same.
const ABSENT: u32 = 4;

static PHASE: AtomicU32 = AtomicU32::new(NEW);
/// One word that the kernel wipes in a forked child.
static EPOCH: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// What is to be done with objects that were loaded: see [`when_loaded`].
static WHEN_LOADED: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// When fork was called; inherited by the child. 0: it was not, so a child was made past the C library.
pub static FORK_TICKS: AtomicU64 = AtomicU64::new(0);

/// The environment that the dynamic linker passed: the C library may not have its own yet.
static ENVIRONMENT: AtomicPtr<*const c_char> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Whether events are to be recorded; sets up what is missing. Cheap only where it is rarely called.
pub fn ready() -> bool {
    match PHASE.load(Acquire) {
        phase @ (READY | ABSENT) => {
            // SAFETY: the page of the epoch, which stays mapped.
            let same = unsafe { (*EPOCH.load(Relaxed)).load(Relaxed) } == 1;
            if same { phase == READY } else { again(phase) }
        }
        NEW if PHASE.compare_exchange(NEW, BUSY, Acquire, Relaxed).is_ok() => {
            let ready = begin();
            PHASE.store(if ready { READY } else { OFF }, Release);
            ready
        }
        _ => false,
    }
}

/// Remembers and returns the environment: what a constructor gets; with musl, which passes nothing, the C library's,
/// which is ready by then.
pub fn set_environment(passed: *const *const c_char) -> *const *const c_char {
    let is_glibc = symbols::find(c"gnu_get_libc_version", Which::First) != 0;
    // SAFETY: the C library's variable.
    let environment = if is_glibc { passed } else { unsafe { environ } };
    ENVIRONMENT.store(environment.cast_mut(), Relaxed);
    environment
}

fn begin() -> bool {
    let began = sys::monotonic_ns();
    real::resolve();
    if real::MALLOC.address() == 0 {
        // Loaded into a running program, behind all others: [`attach`] decides.
        return false;
    }
    let mut directory = Text::<{ sys::PATH_MAX }>::new();
    if !configure(&mut directory) {
        return false;
    }
    if !look_around() || !file::create(&directory, origin::EXEC, sys::ticks()) {
        return false;
    }
    file::note_tier(tier::PRELOAD);
    file::set_up(began);
    true
}

/// Sets everything up anew in a running program, in which no thread is in a hook, and all lanes were wiped. `false`:
/// there is no stream, see [`file::errno`].
pub fn attach(directory: &[u8]) -> bool {
    let began = sys::monotonic_ns();
    PHASE.store(BUSY, Relaxed);
    cache::forget(cache::Ids::Restart);
    module::forget();
    let mut text = Text::new();
    text.push(directory);
    let ready = look_around() && file::create(&text, origin::ATTACH, sys::ticks());
    if ready {
        file::note_tier(tier::DETOUR);
        file::set_up(began);
    }
    PHASE.store(if ready { READY } else { OFF }, Release);
    ready
}

/// What stacks are read with.
fn look_around() -> bool {
    module::FIND.store(symbols::find(c"_dl_find_object", Which::First), Relaxed);
    let home = module::range_of(real::MALLOC.address() as u64).unwrap_or(0..0);
    real::find_usable(&home, Which::Next);
    let end = symbols::find(c"__libc_stack_end", Which::First) as *const u64;
    // SAFETY: the dynamic linker's variable of this name and type.
    tls::MAIN_TOP.store(if end.is_null() { u64::MAX } else { unsafe { *end } }, Relaxed);
    module::find_loader();
    mark_epoch()
}

/// This is a forked child: a stream of its own, and none of what the parent's stream knows.
#[cold]
fn again(phase: u32) -> bool {
    if PHASE.compare_exchange(phase, BUSY, Acquire, Relaxed).is_err() {
        return false;
    }
    let began = sys::monotonic_ns();
    arena::forget_all();
    cache::forget(cache::Ids::Restart);
    module::forget();
    let ready = mark_epoch() && file::create_for_child(FORK_TICKS.swap(0, Relaxed));
    if ready {
        file::set_up(began);
    }
    PHASE.store(if ready { READY } else { ABSENT }, Release);
    ready
}

/// Sets the word that a fork wipes.
fn mark_epoch() -> bool {
    let mut page = EPOCH.load(Relaxed);
    if page.is_null() {
        let Ok(at) = sys::mmap(4096, sys::PROT_RW, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, None) else { return false };
        if sys::madvise(at, 4096, sys::MADV_WIPEONFORK).is_err() {
            return false;
        }
        page = at.cast();
        EPOCH.store(page, Relaxed);
    }
    // SAFETY: own page.
    unsafe { (*page).store(1, Relaxed) };
    true
}

/// Reads `THAW_HEAP`, see [`settings::parse`]. `false`: nobody wants a recording.
fn configure(directory: &mut Text<{ sys::PATH_MAX }>) -> bool {
    const NAME: &[u8] = b"THAW_HEAP=";
    // SAFETY: the C library's list of zero-terminated strings, ended by a null; this early nobody changes it.
    unsafe {
        let mut at = ENVIRONMENT.load(Relaxed).cast_const();
        if at.is_null() {
            at = environ;
        }
        while !at.is_null() && !(*at).is_null() {
            if let Some(value) = text::of_c(*at).strip_prefix(NAME) {
                return settings::parse(value, directory);
            }
            at = at.add(1);
        }
    }
    false
}

/// Whether events are recorded; sets nothing up.
pub fn is_ready() -> bool {
    PHASE.load(Acquire) == READY
}

/// Says what is to be done with objects that are loaded from now on. Hooks are above this module, and this is called
/// from below them.
pub fn when_loaded(then: fn()) {
    WHEN_LOADED.store(then as *mut (), Release);
}

/// The loader has been at work.
#[cold]
#[inline(never)]
pub fn objects_changed() {
    if !is_ready() {
        return;
    }
    let changes = module::changes();
    if changes.removed {
        module::count_unloaded();
    }
    let then = WHEN_LOADED.load(Acquire);
    if changes.added && !then.is_null() {
        // SAFETY: only functions of this type are stored.
        unsafe { core::mem::transmute::<*mut (), fn()>(then)() };
    }
}

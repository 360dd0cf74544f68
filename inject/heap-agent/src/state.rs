//! Whether and how this process is recorded. Set up at the first allocation, and anew in a forked child.

use crate::lane;
use crate::module;
use crate::sample::Gap;
use crate::symbols::{self, Which};
use crate::text::{self, Text};
use crate::{cache, file, real, sys, tls};
use core::ffi::c_char;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use heap_wire::attach::Attach;
use heap_wire::{option, origin, tier};

const NEW: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;
const OFF: u32 = 3;
/// A forked child that could not make its stream; a child of its own is counted all the same.
const ABSENT: u32 = 4;

static PHASE: AtomicU32 = AtomicU32::new(NEW);
/// One word that the kernel wipes in a forked child.
static EPOCH: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static LANE: AtomicU32 = AtomicU32::new(0);
static DEPTH: AtomicUsize = AtomicUsize::new(64);
static OPTIONS: AtomicU32 = AtomicU32::new(0);
static SAMPLE_BYTES: AtomicU64 = AtomicU64::new(0);
/// What random numbers begin with; 0: with the time.
static SEED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU32 = AtomicU32::new(0);
static LOADER_START: AtomicU64 = AtomicU64::new(0);
static LOADER_BYTES: AtomicU64 = AtomicU64::new(0);
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

/// Remembers and returns the environment: what a constructor gets; with musl, which passes nothing, the C library's, which is ready by then.
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
    file::set_up(began, depth(), OPTIONS.load(Relaxed));
    true
}

/// Sets everything up anew in a running program, in which no thread is in a hook. `false`: there is no stream, see [`file::errno`].
pub fn attach(directory: &[u8], wanted: &Attach) -> bool {
    let began = sys::monotonic_ns();
    PHASE.store(BUSY, Relaxed);
    file::close();
    lane::wipe_all();
    cache::forget(cache::Ids::Restart);
    module::forget();
    LANE.store(0, Relaxed);
    DEPTH.store(wanted.depth.clamp(1, 127) as usize, Relaxed);
    OPTIONS.store(wanted.options, Relaxed);
    SAMPLE_BYTES.store(wanted.sample.min(1 << 40), Relaxed);
    SEED.store(wanted.seed, Relaxed);
    file::AHEAD_MOST.store(wanted.ahead, Relaxed);
    let mut text = Text::new();
    text.push(directory);
    let ready = look_around() && file::create(&text, origin::ATTACH, sys::ticks());
    if ready {
        file::note_tier(tier::DETOUR);
        file::set_up(began, depth(), wanted.options);
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
    let (start, bytes) = module::loader_range();
    LOADER_START.store(start, Relaxed);
    LOADER_BYTES.store(bytes, Relaxed);
    mark_epoch()
}

/// This is a forked child: a stream of its own, and none of what the parent's stream knows.
#[cold]
fn again(phase: u32) -> bool {
    if PHASE.compare_exchange(phase, BUSY, Acquire, Relaxed).is_err() {
        return false;
    }
    let began = sys::monotonic_ns();
    lane::forget_all();
    cache::forget(cache::Ids::Restart);
    module::forget();
    LANE.store(0, Relaxed);
    let ready = mark_epoch() && file::create_for_child(FORK_TICKS.swap(0, Relaxed));
    if ready {
        file::set_up(began, depth(), OPTIONS.load(Relaxed));
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

/// Reads `THAW_HEAP`: `depth=N;frees=1;sample=BYTES;seed=N;ahead=BYTES;dir=PATH`, the path last. `false`: nobody wants a recording.
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
                return parse(value, directory);
            }
            at = at.add(1);
        }
    }
    false
}

fn parse(value: &[u8], directory: &mut Text<{ sys::PATH_MAX }>) -> bool {
    let mut rest = value;
    loop {
        if let Some(path) = rest.strip_prefix(b"dir=") {
            directory.push(path);
            return !path.is_empty();
        }
        let Some(end) = rest.iter().position(|byte| *byte == b';') else { return false };
        let (word, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or(&[]);
        if let Some(digits) = word.strip_prefix(b"depth=") {
            DEPTH.store(text::number(digits).clamp(1, 127) as usize, Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"sample=") {
            SAMPLE_BYTES.store(text::number(digits).min(1 << 40), Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"ahead=") {
            file::AHEAD_MOST.store(text::number(digits), Relaxed);
        } else if let Some(digits) = word.strip_prefix(b"seed=") {
            SEED.store(text::number(digits), Relaxed);
        } else if word == b"frees=1" {
            OPTIONS.fetch_or(option::FREE_STACKS, Relaxed);
        }
    }
}

/// Depth limit of stacks.
pub fn depth() -> usize {
    DEPTH.load(Relaxed)
}

/// Whether frees are recorded with their stacks.
#[inline(always)]
pub fn free_stacks() -> bool {
    OPTIONS.load(Relaxed) & option::FREE_STACKS != 0
}

/// Mean bytes between recorded blocks; 0: all are recorded.
pub fn sample_bytes() -> u64 {
    SAMPLE_BYTES.load(Relaxed)
}

/// How a new lane chooses blocks.
pub fn gap(lane: u32) -> Gap {
    let seed = match SEED.load(Relaxed) {
        0 => sys::ticks() ^ u64::from(sys::tid()) << 40,
        seed => seed,
    };
    Gap::new(sample_bytes(), seed.wrapping_add(u64::from(lane) << 32))
}

/// Number of a new lane.
pub fn next_lane() -> u32 {
    LANE.fetch_add(1, Relaxed)
}

/// Where the dynamic linker's code is: start, length.
#[inline(always)]
pub fn loader() -> (u64, u64) {
    (LOADER_START.load(Relaxed), LOADER_BYTES.load(Relaxed))
}

/// How often objects were unloaded. What a lane remembers of a stack from before may be of other code by now.
#[inline(always)]
pub fn unloaded() -> u32 {
    UNLOADED.load(Relaxed)
}

/// The loader has been at work.
#[cold]
#[inline(never)]
pub fn objects_changed() {
    if PHASE.load(Acquire) != READY {
        return;
    }
    let changes = module::changes();
    if changes.removed {
        cache::forget(cache::Ids::Continue);
        module::forget();
        UNLOADED.fetch_add(1, Release);
    }
    if changes.added {
        crate::objects::patch_all();
    }
}

/// After the start: does the program really reach our functions, and whose allocator is behind?
pub fn check() {
    if PHASE.load(Acquire) != READY {
        return;
    }
    crate::partition::take_over();
    crate::objects::take_over();
    crate::inner::take_over();
    file::note_allocator(module::name_at(real::MALLOC.address() as u64));
    // What came until now is known; only what comes later must be looked at.
    module::changes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_comes_last_and_may_hold_anything() {
        let mut directory = Text::new();
        assert!(parse(b"depth=32;frees=1;sample=4096;dir=/a;b=c", &mut directory));
        assert_eq!(directory.bytes(), b"/a;b=c");
        assert_eq!((depth(), free_stacks(), sample_bytes()), (32, true, 4096));
        assert!(!parse(b"depth=32", &mut Text::new()));
        assert!(!parse(b"dir=", &mut Text::new()));
    }
}

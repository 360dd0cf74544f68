//! Into a running program: the dynamic linker loads this object last, so that nobody chooses its functions. All is done
//! by detours of the allocator itself, which every call reaches, however it was bound.
//!
//! thaw calls [`thaw_heap_attach`] on a thread of the program while the others run, then stops all of them and writes
//! the jumps, all at once. So recording begins for all functions and threads at the same moment. It ends when thaw puts
//! the code back: nothing of ours is reached any more then. This object stays loaded, and its copies of the replaced
//! code stay where threads may still be in them.

use crate::detour::{Island, Patch};
use crate::hooks::{self, Hook};
use crate::inner::{self, Told};
use crate::real::{self, Real};
use crate::symbols::{self, Which};
use crate::{desk, file, lane, missed, module, partition, settings, state};
use core::cell::UnsafeCell;
use heap_wire::attach::{Attach, BYTES, PLACES, Place, VERSION, answer};

/// What thaw writes and reads.
#[repr(transparent)]
pub struct Shared(UnsafeCell<Attach>);
// SAFETY: thaw writes it while the one thread that reads it is stopped; the guest writes it in [`thaw_heap_attach`]
// only.
unsafe impl Sync for Shared {}

/// See [`Attach`].
#[unsafe(no_mangle)]
pub static THAW_HEAP_ATTACH: Shared = Shared(UnsafeCell::new(Attach {
    version: VERSION,
    active: 0,
    depth: 0,
    options: 0,
    answer: answer::NONE,
    errno: 0,
    count: 0,
    reserved: 0,
    sample: 0,
    seed: 0,
    ahead: 0,
    directory: [0; 1024],
    places: [Place { at: 0, was: [0; 8], is: [0; 8] }; PLACES],
}));

/// What was hooked beside the allocator itself, for the head of each stream.
struct Beside(UnsafeCell<Told>);
// SAFETY: written once, by the one thread that is in [`thaw_heap_attach`].
unsafe impl Sync for Beside {}
static BESIDE: Beside = Beside(UnsafeCell::new(Told::new()));

/// Makes ready to record into the directory that thaw wrote down, and answers which code is to be replaced.
///
/// # Safety
/// No other thread is in a hook or in this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_heap_attach() {
    // SAFETY: the caller vouches.
    let shared = unsafe { &mut *THAW_HEAP_ATTACH.0.get() };
    shared.answer = begin(shared);
}

/// The recording is over, the code is as it was: gives back what the stream holds. Makes system calls only, so it can
/// be called from wherever a thread is, outside of this object.
///
/// # Safety
/// All other threads are stopped, and no hook is in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thaw_heap_detach() {
    // SAFETY: the caller vouches.
    let shared = unsafe { &mut *THAW_HEAP_ATTACH.0.get() };
    if !lane::is_quiet() {
        shared.answer = answer::BUSY;
        return;
    }
    lane::wipe_all();
    file::close();
    desk::close();
    missed::unmap();
    shared.answer = answer::NONE;
}

fn begin(shared: &mut Attach) -> u32 {
    if shared.active != 0 || !settings::is_attached() && real::MALLOC.address() != 0 {
        return answer::BUSY;
    }
    // What was prepared once is good for ever: allocators are not unloaded.
    if shared.count == 0
        && let Err(why) = prepare(shared)
    {
        real::ALL.iter().for_each(|real| real.set(0));
        return why;
    }
    settings::take(shared);
    file::close();
    lane::wipe_all();
    let length = shared.directory.iter().position(|byte| *byte == 0).unwrap_or(0);
    if !state::attach(shared.directory.get(..length).unwrap_or(&[])) {
        shared.errno = file::errno();
        return answer::FILE;
    }
    let allocator = meaning(&real::MALLOC) as u64;
    file::note_allocator(module::name_at(allocator));
    real::find_usable(&module::range_of(allocator).unwrap_or(0..0), Which::Other);
    // SAFETY: no other thread is in this function.
    let beside = unsafe { &*BESIDE.0.get() };
    file::note_detours(shared.count - beside.count());
    beside.note();
    // What came until now is known; only what comes later must be looked at.
    module::changes();
    answer::READY
}

/// What a name means to the program.
fn meaning(real: &Real) -> usize {
    symbols::find(real.name(), Which::Other)
}

/// Memory that is no heap, forks, objects that go, and thread names: functions of the C library.
static SYSTEM: [Hook; 9] = [
    Hook { real: &real::MMAP, entry: hooks::enter_mmap },
    Hook { real: &real::MUNMAP, entry: hooks::enter_munmap },
    Hook { real: &real::MREMAP, entry: hooks::enter_mremap },
    Hook { real: &real::SBRK, entry: hooks::enter_sbrk },
    Hook { real: &real::BRK, entry: hooks::enter_brk },
    Hook { real: &real::FORK, entry: hooks::enter_fork },
    Hook { real: &real::DLCLOSE, entry: hooks::enter_dlclose },
    Hook { real: &real::PRCTL, entry: hooks::enter_prctl },
    Hook { real: &real::SET_NAME, entry: hooks::enter_setname },
];

/// Without one of these a recording would not add up.
static ESSENTIAL: [&Real; 4] = [&real::MALLOC, &real::CALLOC, &real::REALLOC, &real::FREE];

/// Copies the beginnings of all functions, and notes where jumps are to be written.
fn prepare(shared: &mut Attach) -> Result<(), u32> {
    let home = module::range_of(meaning(&real::MALLOC) as u64).ok_or(answer::ALLOCATOR)?;
    let system = module::range_of(meaning(&real::FORK) as u64).ok_or(answer::ALLOCATOR)?;
    let foreign = home != system;
    let at_home = |real: &Real| home.contains(&(meaning(real) as u64));
    let operators = at_home(&real::NEW) && at_home(&real::DELETE);
    let beside = hooks::BESIDE
        .iter()
        .filter(|hook| if hook.real.name().to_bytes().starts_with(b"_Z") { operators } else { foreign });
    let mut count = 0;
    copy(hooks::ALLOCATOR.iter().chain(beside), &home, shared, &mut count)?;
    if ESSENTIAL.iter().any(|real| real.address() == 0) {
        return Err(answer::CODE);
    }
    copy(SYSTEM.iter(), &system, shared, &mut count)?;
    // SAFETY: no other thread is in this function.
    let beside = unsafe { &mut *BESIDE.0.get() };
    partition::prepare(Which::Other, beside, &mut |patch| note(patch, shared, &mut count));
    inner::prepare(beside, &mut |patch| note(patch, shared, &mut count));
    shared.count = count as u32;
    Ok(())
}

/// Prepares those functions of one object whose beginnings are understood.
fn copy<'a>(
    hooks: impl Iterator<Item = &'a Hook>,
    home: &core::ops::Range<u64>,
    shared: &mut Attach,
    count: &mut usize,
) -> Result<(), u32> {
    let mut island: Option<Island> = None;
    for hook in hooks {
        let function = meaning(hook.real);
        if !home.contains(&(function as u64)) {
            continue;
        }
        // Two names of one function: the copy is the same.
        let known = hooks::ALLOCATOR.iter().chain(&hooks::BESIDE).find(|other| {
            !core::ptr::eq(other.real, hook.real) && other.real.address() != 0 && meaning(other.real) == function
        });
        if let Some(known) = known {
            hook.real.set(known.real.address());
            continue;
        }
        if island.is_none() {
            island = Island::new(function);
        }
        let place = island.as_mut().ok_or(answer::PAGE)?;
        // SAFETY: a function of a loaded object.
        let Some(patch) = (unsafe { place.prepare(function, hook.entry as *const () as usize, 0) }) else { continue };
        if note(&patch, shared, count) {
            hook.real.set(patch.real);
        }
    }
    if island.is_some_and(|island| !island.seal()) {
        return Err(answer::PAGE);
    }
    Ok(())
}

/// Notes where a jump is to be written. `false`: there is one already, or no room.
fn note(patch: &Patch, shared: &mut Attach, count: &mut usize) -> bool {
    let (at, is) = patch.code();
    if shared.places.iter().take(*count).any(|place| place.at == at as u64) {
        return false;
    }
    let Some(slot) = shared.places.get_mut(*count) else { return false };
    slot.at = at as u64;
    // SAFETY: code that was just read.
    unsafe { core::ptr::copy_nonoverlapping(at as *const u8, slot.was.as_mut_ptr(), BYTES) };
    slot.is[..BYTES].copy_from_slice(&is);
    *count += 1;
    true
}

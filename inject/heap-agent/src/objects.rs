//! The other hook tiers: tables of addresses (GOT) of objects that were bound past ours.
//!
//! Only slots that hold the very address of a real function are changed, so that a program's own functions of the same
//! name stay.

use crate::detour::{Island, Patch};
use crate::hooks::{self, Hook};
use crate::linker::{PT_GNU_RELRO, PhdrInfo, dl_iterate_phdr};
use crate::real::{self, Real};
use crate::symbols::{self, Loaded, Symbol, Which};
use crate::{file, module, sys};
use core::ffi::{CStr, c_char, c_int, c_void};
use heap_wire::tier;

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    _addend: u64,
}

/// Changes the slots of all objects that lead past ours.
pub fn patch_all() {
    extern "C" fn each(info: *const PhdrInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader's record of a loaded object, and our counter.
        unsafe { *data.cast::<u32>() += patch(&*info) };
        0
    }
    let mut changed = 0u32;
    // SAFETY: the callback and its data are valid during the call.
    unsafe { dl_iterate_phdr(each, (&raw mut changed).cast()) };
    if changed > 0 {
        file::note_tier(tier::GOT);
    }
}

/// # Safety
/// `info` describes a loaded object.
unsafe fn patch(info: &PhdrInfo) -> u32 {
    let Some(object) = Loaded::of(info) else { return 0 };
    if object.is_own {
        return 0;
    }
    // SAFETY: the headers of a loaded object.
    let headers = unsafe { core::slice::from_raw_parts(info.headers, info.count as usize) };
    let sealed = headers.iter().find(|header| header.kind == PT_GNU_RELRO);
    let relro = sealed.map_or((0, 0), |header| {
        let at = info.bias.wrapping_add(header.address);
        (at & !4095, at.wrapping_add(header.bytes))
    });
    let found = object.dynamic;
    let mut changed = 0;
    for (table, bytes) in found.tables {
        for index in 0..bytes / size_of::<Relocation>() as u64 {
            // SAFETY: inside a relocation table of a loaded object; symbol and string tables are mapped with it.
            unsafe {
                let relocation = &*(table as *const Relocation).add(index as usize);
                let symbol = (relocation.info >> 32) as usize;
                // GLOB_DAT, JUMP_SLOT, 64.
                if symbol == 0 || !matches!(relocation.info as u32, 6 | 7 | 1) {
                    continue;
                }
                let symbol = &*(found.symbols as *const Symbol).add(symbol);
                if symbol.section != 0 {
                    continue;
                }
                let name = CStr::from_ptr((found.strings + u64::from(symbol.name)) as *const c_char);
                let slot = info.bias.wrapping_add(relocation.offset) as *mut u64;
                if let Some(hook) = wanted(name, *slot) {
                    changed += u32::from(replace(slot, hook.entry as *const () as u64, relro));
                }
            }
        }
    }
    changed
}

/// The hook of a slot that leads to a real function.
fn wanted(name: &CStr, value: u64) -> Option<&'static Hook> {
    hooks::ALLOCATOR.iter().find(|hook| hook.real.address() as u64 == value && value != 0 && hook.real.name() == name)
}

/// Writes a slot, also where it is read-only by now.
///
/// # Safety
/// `slot` is a slot of a loaded object; `relro` its read-only part.
unsafe fn replace(slot: *mut u64, value: u64, relro: (u64, u64)) -> bool {
    let page = slot as usize & !4095;
    let sealed = (relro.0..relro.1).contains(&(slot as u64));
    // SAFETY: the page is the loader's, which made it read-only after its own writing; it is so again afterwards.
    unsafe {
        if sealed && sys::mprotect(page, 4096, sys::PROT_RW).is_err() {
            return false;
        }
        core::sync::atomic::AtomicU64::from_ptr(slot).store(value, core::sync::atomic::Ordering::Release);
        if sealed {
            let _ = sys::mprotect(page, 4096, sys::PROT_R);
        }
    }
    true
}

/// `operator new` or `delete`, by its mangled name.
fn is_operator(real: &Real) -> bool {
    real.name().to_bytes().starts_with(b"_Z")
}

/// Hooks what the dynamic linker's choice does not reach: an allocator inside the program, which all calls go to, and
/// the `operator new` of an allocator that does not go through `malloc`.
pub fn take_over() {
    let meaning = |real: &Real| symbols::find(real.name(), Which::First);
    let chosen = meaning(&real::MALLOC);
    // Not compared with the exported function: inside of this object its name means the program's too.
    let own = module::range_of(take_over as *const () as u64).unwrap_or(0..0);
    let foreign = chosen != 0 && !own.contains(&(chosen as u64));
    let allocator = if foreign { chosen } else { real::MALLOC.address() };
    let Some(home) = module::range_of(allocator as u64) else { return };
    // Behind ours, if the dynamic linker chose ours.
    let which = if foreign { Which::First } else { Which::Next };
    let meaning = |real: &Real| symbols::find(real.name(), which);
    let at_home = |real: &Real| home.contains(&(meaning(real) as u64));
    let operators = at_home(&real::NEW) && at_home(&real::DELETE);
    let beside = hooks::BESIDE.iter().filter(|hook| if is_operator(hook.real) { operators } else { foreign });
    // C libraries have no operators; theirs come from libstdc++, which calls malloc. Where an allocator has, `delete`
    // may be another name of its `free`, which it calls itself: so all of it is hooked.
    let wanted = hooks::ALLOCATOR.iter().filter(|_| foreign || operators).chain(beside);
    let mut patches: [Option<(Patch, &Hook)>; 40] = [None; 40];
    let mut count = 0;
    let mut missed = 0;
    let mut island: Option<Island> = None;
    let mut seen = [0usize; 40];
    for hook in wanted {
        let function = meaning(hook.real);
        if !home.contains(&(function as u64)) {
            continue;
        }
        if let Some(index) = seen[..count].iter().position(|known| *known == function) {
            // Two names of one function: both have the same real one.
            if let Some((patch, _)) = patches[index] {
                hook.real.set(patch.real);
            }
            continue;
        }
        if island.is_none() {
            island = Island::new(function);
        }
        let Some(place) = island.as_mut() else { break };
        // SAFETY: a function of a loaded object.
        match unsafe { place.prepare(function, hook.entry as *const () as usize, 0) } {
            Some(patch) if count < patches.len() => {
                patches[count] = Some((patch, hook));
                seen[count] = function;
                count += 1;
            }
            _ => missed += 1,
        }
    }
    let Some(island) = island else {
        if foreign {
            file::note_doubt(b"the program has its own malloc, and no page near it could be made to hook it");
        }
        return;
    };
    let essential = [&real::MALLOC, &real::FREE];
    let has = |real: &Real| patches.iter().flatten().any(|(_, hook)| core::ptr::eq(hook.real, real));
    if foreign && !essential.iter().all(|real| has(real)) {
        file::note_doubt(
            b"the program has its own malloc, whose first instructions are not understood, so it is not hooked",
        );
        return;
    }
    if !island.seal() {
        file::note_doubt(b"the program has its own malloc, and this system allows no hook in it");
        return;
    }
    // All real functions first: a hook that is reached must find them.
    patches.iter().flatten().for_each(|(patch, hook)| hook.real.set(patch.real));
    if foreign {
        real::find_usable(&home, Which::First);
    }
    let mut done = 0;
    for (patch, _) in patches.iter().flatten() {
        // SAFETY: this runs while the dynamic linker initialises this object, before other threads exist.
        done += u32::from(unsafe { patch.apply() });
    }
    file::note_tier(tier::DETOUR);
    file::note_detours(done);
    if missed > 0 && foreign {
        file::note_doubt(
            b"some functions of the program's own allocator begin with instructions that are not \
            understood; they are not hooked",
        );
    }
}

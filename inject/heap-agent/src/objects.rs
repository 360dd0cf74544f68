//! The other hook tiers: tables of addresses (GOT) of objects that were bound past ours.
//!
//! Only slots that hold the very address of a real function are changed, so that a program's own functions of the same name stay.

use crate::hooks::{self, Hook};
use crate::{file, sys};
use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use heap_wire::tier;

#[repr(C)]
struct PhdrInfo {
    bias: u64,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    _flags: u32,
    _offset: u64,
    address: u64,
    _physical: u64,
    _file_bytes: u64,
    bytes: u64,
    _align: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    _addend: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    _info: u16,
    section: u16,
    _value: u64,
    _size: u64,
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;

unsafe extern "C" {
    fn dl_iterate_phdr(each: extern "C" fn(*const PhdrInfo, usize, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn getauxval(kind: c_ulong) -> c_ulong;
}

/// An address in the dynamic linker.
pub fn loader_base() -> Option<u64> {
    const AT_BASE: c_ulong = 7;
    // SAFETY: takes a number.
    let base = unsafe { getauxval(AT_BASE) };
    (base != 0).then_some(base)
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

/// What is needed of an object's dynamic section.
#[derive(Default)]
struct Dynamic {
    strings: u64,
    symbols: u64,
    tables: [(u64, u64); 2],
}

/// # Safety
/// `info` describes a loaded object.
unsafe fn patch(info: &PhdrInfo) -> u32 {
    // SAFETY: the headers of a loaded object.
    let headers = unsafe { core::slice::from_raw_parts(info.headers, info.count as usize) };
    let own = patch as *const () as u64;
    let (mut dynamic, mut relro, mut range) = (0, (0, 0), (u64::MAX, 0));
    for header in headers {
        let at = info.bias.wrapping_add(header.address);
        match header.kind {
            PT_DYNAMIC => dynamic = at,
            PT_GNU_RELRO => relro = (at & !4095, at.wrapping_add(header.bytes)),
            PT_LOAD => range = (range.0.min(at), range.1.max(at.wrapping_add(header.bytes))),
            _ => {}
        }
    }
    // The vdso's section is not relocated, and has nothing to change.
    // SAFETY: names are zero-terminated.
    let name = unsafe { crate::text::of_c(info.name) };
    if dynamic == 0 || (range.0..range.1).contains(&own) || name.starts_with(b"linux-vdso") {
        return 0;
    }
    // SAFETY: the dynamic section of a loaded object.
    let found = unsafe { read_dynamic(dynamic, info.bias) };
    if found.strings == 0 || found.symbols == 0 {
        return 0;
    }
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

/// # Safety
/// `at` is the dynamic section of an object loaded at `bias`.
unsafe fn read_dynamic(at: u64, bias: u64) -> Dynamic {
    let mut found = Dynamic::default();
    // The C library has relocated these addresses, other ones may not.
    let place = |value: u64| if value < bias { value.wrapping_add(bias) } else { value };
    let mut entry = at as *const [u64; 2];
    // SAFETY: the section ends with a zero entry.
    unsafe {
        while (*entry)[0] != 0 {
            let [tag, value] = *entry;
            match tag {
                5 => found.strings = place(value),
                6 => found.symbols = place(value),
                23 => found.tables[0].0 = place(value),
                2 => found.tables[0].1 = value,
                7 => found.tables[1].0 = place(value),
                8 => found.tables[1].1 = value,
                _ => {}
            }
            entry = entry.add(1);
        }
    }
    found
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

/// The program has an allocator of its own, at `chosen`: every call goes there and not to ours.
pub fn take_over(_chosen: u64) {
    file::note_doubt(b"the program has its own malloc, which is not reached by LD_PRELOAD");
}

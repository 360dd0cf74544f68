//! What the dynamic linker tells of loaded objects.

use core::ffi::{c_char, c_int, c_ulong, c_void};

/// The public head of the loader's record of an object.
#[repr(C)]
pub struct LinkMap {
    pub bias: u64,
    pub name: *const c_char,
    pub dynamic: *const [u64; 2],
    pub next: *const LinkMap,
    pub previous: *const LinkMap,
}

/// What `dl_iterate_phdr` passes.
#[repr(C)]
pub struct PhdrInfo {
    pub bias: u64,
    pub name: *const c_char,
    pub headers: *const ProgramHeader,
    pub count: u16,
    pub adds: u64,
    pub subs: u64,
}

/// An ELF program header.
#[repr(C)]
pub struct ProgramHeader {
    pub kind: u32,
    _flags: u32,
    _offset: u64,
    pub address: u64,
    _physical: u64,
    _file_bytes: u64,
    pub bytes: u64,
    _align: u64,
}

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;
pub const PT_NOTE: u32 = 4;
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
pub const PT_GNU_RELRO: u32 = 0x6474_e552;

unsafe extern "C" {
    fn getauxval(kind: c_ulong) -> c_ulong;

    /// The C library's.
    pub fn dl_iterate_phdr(
        each: extern "C" fn(*const PhdrInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// An address in the dynamic linker.
pub fn base() -> Option<u64> {
    const AT_BASE: c_ulong = 7;
    // SAFETY: takes a number.
    let base = unsafe { getauxval(AT_BASE) };
    (base != 0).then_some(base)
}

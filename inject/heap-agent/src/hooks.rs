//! The functions that a program reaches instead of its allocator's.
//!
//! Each has an entry in assembly that passes on where it was called from (return address, stack pointer, rbp) and
//! jumps: it leaves no frame. A free is recorded before the block is given back, an allocation after it was made: so no
//! order of threads shows a block twice. A `realloc` is both: the old block goes before the call, and comes back if the
//! call fails.

use crate::lane::{Entered, Event, enter};
use crate::real::{self, Real, Usable};
use crate::unwind::Caller;
use crate::{sample, settings, state, sys};
use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_long, c_void};
use heap_wire::{kind, map};

/// A block.
pub type Block = *mut c_void;

/// An entry that jumps to its body; exported under the name of the function that it stands for.
macro_rules! entry {
    ($($name:ident, $entry:ident => $body:path, [$($line:literal),*];)*) => {$(
        #[doc = concat!("Entry of `", stringify!($name), "`; also the target of detours, because the exported name \
            can be preempted.")]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $entry() {
            naked_asm!("endbr64", $($line,)* "jmp {body}", body = sym $body)
        }
        /// Exported.
        ///
        /// # Safety
        /// As the function that it stands for.
        #[cfg(not(test))]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!("endbr64", "jmp {entry}", entry = sym $entry)
        }
    )*};
}

/// The same for functions with up to six arguments: the caller's state goes onto the stack as the seventh and
/// following.
macro_rules! wide_entry {
    ($($name:ident, $entry:ident => $body:path;)*) => {$(
        #[doc = concat!("Entry of `", stringify!($name), "`.")]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $entry() {
            naked_asm!(
                "endbr64", "mov rax, [rsp]", "lea r11, [rsp + 8]", "push rbp", "push r11", "push rax", "call \
                    {body}", "add rsp, 24", "ret",
                body = sym $body
            )
        }
        /// Exported.
        ///
        /// # Safety
        /// As the function that it stands for.
        #[cfg(not(test))]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!("endbr64", "jmp {entry}", entry = sym $entry)
        }
    )*};
}

entry! {
    malloc, enter_malloc => do_malloc, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    calloc, enter_calloc => do_calloc, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    realloc, enter_realloc => do_realloc, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    reallocarray, enter_reallocarray => do_reallocarray, ["mov rcx, [rsp]", "lea r8, [rsp + 8]", "mov r9, rbp"];
    free, enter_free => do_free, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    cfree, enter_cfree => do_free, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    free_sized, enter_free_sized => do_free, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    free_aligned_sized, enter_free_aligned_sized => do_free, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    memalign, enter_memalign => do_memalign, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    aligned_alloc, enter_aligned_alloc => do_aligned_alloc, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    posix_memalign, enter_posix_memalign => do_posix_memalign, ["mov rcx, [rsp]", "lea r8, [rsp + 8]", "mov r9, rbp"];
    valloc, enter_valloc => do_valloc, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    pvalloc, enter_pvalloc => do_pvalloc, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    munmap, enter_munmap => do_munmap, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    sbrk, enter_sbrk => do_sbrk, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    brk, enter_brk => do_brk, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    dlclose, enter_dlclose => do_dlclose, [];
    fork, enter_fork => do_fork, ["mov rdi, [rsp]", "lea rsi, [rsp + 8]", "mov rdx, rbp"];
    thaw_pool_alloc, enter_pool_alloc => do_pool_alloc, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    thaw_pool_free, enter_pool_free => do_pool_free, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    pthread_setname_np, enter_setname => do_setname, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
}

wide_entry! {
    mmap, enter_mmap => do_mmap;
    mmap64, enter_mmap64 => do_mmap;
    mremap, enter_mremap => do_mremap;
    prctl, enter_prctl => do_prctl;
}

/// Entries of functions that are only reached by detours: nothing is exported.
macro_rules! inner_entry {
    ($($entry:ident => $body:path, [$($line:literal),*];)*) => {$(
        #[doc = concat!("Jumps to `", stringify!($body), "`.")]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $entry() {
            naked_asm!("endbr64", $($line,)* "jmp {body}", body = sym $body)
        }
    )*};
}

inner_entry! {
    enter_strdup => do_strdup, ["mov rsi, [rsp]", "lea rdx, [rsp + 8]", "mov rcx, rbp"];
    enter_strndup => do_strndup, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    enter_moz_malloc => do_moz_malloc, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    enter_moz_calloc => do_moz_calloc, ["mov rcx, [rsp]", "lea r8, [rsp + 8]", "mov r9, rbp"];
    enter_moz_realloc => do_moz_realloc, ["mov rcx, [rsp]", "lea r8, [rsp + 8]", "mov r9, rbp"];
    enter_moz_free => do_moz_free, ["mov rdx, [rsp]", "lea rcx, [rsp + 8]", "mov r8, rbp"];
    enter_moz_memalign => do_moz_memalign, ["mov rcx, [rsp]", "lea r8, [rsp + 8]", "mov r9, rbp"];
}

/// `operator delete` in all its forms: the pointer comes first, the real function gets all arguments.
macro_rules! delete_entry {
    ($($entry:ident => $real:ident;)*) => {$(
        /// Records the free and goes on with the real function. Nothing is nested in it that would be recorded again.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $entry() {
            naked_asm!(
                "endbr64", "mov rax, [rsp]", "lea r11, [rsp + 8]", "push rdi", "push rsi", "push rdx",
                "mov rsi, rax", "mov rdx, r11", "mov rcx, rbp", "call {body}",
                "pop rdx", "pop rsi", "pop rdi", "test al, al", "jnz 2f", "jmp qword ptr [rip + {real}]", "2:", "ret",
                body = sym do_delete, real = sym real::$real
            )
        }
    )*};
}

delete_entry! {
    enter_delete => DELETE; enter_delete_array => DELETE_ARRAY; enter_delete_sized => DELETE_SIZED;
    enter_delete_array_sized => DELETE_ARRAY_SIZED; enter_delete_aligned => DELETE_ALIGNED;
    enter_delete_array_aligned => DELETE_ARRAY_ALIGNED; enter_delete_sized_aligned => DELETE_SIZED_ALIGNED;
    enter_delete_array_sized_aligned => DELETE_ARRAY_SIZED_ALIGNED; enter_delete_nothrow => DELETE_NOTHROW;
    enter_delete_array_nothrow => DELETE_ARRAY_NOTHROW; enter_delete_aligned_nothrow => DELETE_ALIGNED_NOTHROW;
    enter_delete_array_aligned_nothrow => DELETE_ARRAY_ALIGNED_NOTHROW;
}

/// `operator new` in all its forms. The body asks the form that does not throw; where it gives nothing, the real one
/// throws without a frame of ours on the stack.
macro_rules! new_entry {
    ($($entry:ident => $real:ident, $quiet:ident, $body:path;)*) => {$(
        /// See [`new_entry`].
        #[unsafe(naked)]
        pub unsafe extern "C" fn $entry() {
            naked_asm!(
                "endbr64", "mov rax, [rsp]", "lea r11, [rsp + 8]", "push rdi", "push rsi", "push rdx",
                "mov rdx, rax", "mov rcx, r11", "mov r8, rbp", "lea r9, [rip + {quiet}]", "call {body}",
                "pop rdx", "pop rsi", "pop rdi", "test rax, rax", "jnz 2f", "jmp qword ptr [rip + {real}]", "2:", "ret",
                body = sym $body, real = sym real::$real, quiet = sym real::$quiet
            )
        }
    )*};
}

new_entry! {
    enter_new => NEW, NEW_NOTHROW, do_new; enter_new_array => NEW_ARRAY, NEW_ARRAY_NOTHROW, do_new;
    enter_new_nothrow => NEW_NOTHROW, NEW_NOTHROW, do_new; enter_new_array_nothrow => NEW_ARRAY_NOTHROW, NEW_ARRAY_NOTHROW, do_new;
    enter_new_aligned => NEW_ALIGNED, NEW_ALIGNED_NOTHROW, do_new_aligned;
    enter_new_array_aligned => NEW_ARRAY_ALIGNED, NEW_ARRAY_ALIGNED_NOTHROW, do_new_aligned;
    enter_new_aligned_nothrow => NEW_ALIGNED_NOTHROW, NEW_ALIGNED_NOTHROW, do_new_aligned;
    enter_new_array_aligned_nothrow => NEW_ARRAY_ALIGNED_NOTHROW, NEW_ARRAY_ALIGNED_NOTHROW, do_new_aligned;
}

/// A function that a detour or a changed table can lead to.
pub struct Hook {
    /// What it stands for.
    pub real: &'static Real,
    /// Its entry.
    pub entry: unsafe extern "C" fn(),
}

/// The allocator's functions: what detours and changed tables are about.
pub static ALLOCATOR: [Hook; 12] = [
    Hook { real: &real::MALLOC, entry: enter_malloc },
    Hook { real: &real::CALLOC, entry: enter_calloc },
    Hook { real: &real::REALLOC, entry: enter_realloc },
    Hook { real: &real::FREE, entry: enter_free },
    Hook { real: &real::MEMALIGN, entry: enter_memalign },
    Hook { real: &real::POSIX_MEMALIGN, entry: enter_posix_memalign },
    Hook { real: &real::ALIGNED_ALLOC, entry: enter_aligned_alloc },
    Hook { real: &real::VALLOC, entry: enter_valloc },
    Hook { real: &real::PVALLOC, entry: enter_pvalloc },
    Hook { real: &real::CFREE, entry: enter_cfree },
    Hook { real: &real::REALLOCARRAY, entry: enter_reallocarray },
    Hook { real: &real::FREE_SIZED, entry: enter_free_sized },
];

/// Functions of C++ and of Firefox: hooked by detours, where they belong to the same object as the allocator.
pub static BESIDE: [Hook; 27] = [
    Hook { real: &real::NEW_NOTHROW, entry: enter_new_nothrow },
    Hook { real: &real::NEW_ARRAY_NOTHROW, entry: enter_new_array_nothrow },
    Hook { real: &real::NEW_ALIGNED_NOTHROW, entry: enter_new_aligned_nothrow },
    Hook { real: &real::NEW_ARRAY_ALIGNED_NOTHROW, entry: enter_new_array_aligned_nothrow },
    Hook { real: &real::NEW, entry: enter_new },
    Hook { real: &real::NEW_ARRAY, entry: enter_new_array },
    Hook { real: &real::NEW_ALIGNED, entry: enter_new_aligned },
    Hook { real: &real::NEW_ARRAY_ALIGNED, entry: enter_new_array_aligned },
    Hook { real: &real::DELETE, entry: enter_delete },
    Hook { real: &real::DELETE_ARRAY, entry: enter_delete_array },
    Hook { real: &real::DELETE_SIZED, entry: enter_delete_sized },
    Hook { real: &real::DELETE_ARRAY_SIZED, entry: enter_delete_array_sized },
    Hook { real: &real::DELETE_ALIGNED, entry: enter_delete_aligned },
    Hook { real: &real::DELETE_ARRAY_ALIGNED, entry: enter_delete_array_aligned },
    Hook { real: &real::DELETE_SIZED_ALIGNED, entry: enter_delete_sized_aligned },
    Hook { real: &real::DELETE_ARRAY_SIZED_ALIGNED, entry: enter_delete_array_sized_aligned },
    Hook { real: &real::DELETE_NOTHROW, entry: enter_delete_nothrow },
    Hook { real: &real::DELETE_ARRAY_NOTHROW, entry: enter_delete_array_nothrow },
    Hook { real: &real::DELETE_ALIGNED_NOTHROW, entry: enter_delete_aligned_nothrow },
    Hook { real: &real::DELETE_ARRAY_ALIGNED_NOTHROW, entry: enter_delete_array_aligned_nothrow },
    Hook { real: &real::STRDUP, entry: enter_strdup },
    Hook { real: &real::STRNDUP, entry: enter_strndup },
    Hook { real: &real::MOZ_MALLOC, entry: enter_moz_malloc },
    Hook { real: &real::MOZ_CALLOC, entry: enter_moz_calloc },
    Hook { real: &real::MOZ_REALLOC, entry: enter_moz_realloc },
    Hook { real: &real::MOZ_FREE, entry: enter_moz_free },
    Hook { real: &real::MOZ_MEMALIGN, entry: enter_moz_memalign },
];

type Malloc = unsafe extern "C" fn(usize) -> Block;
type Calloc = unsafe extern "C" fn(usize, usize) -> Block;
type Realloc = unsafe extern "C" fn(Block, usize) -> Block;
type Free = unsafe extern "C" fn(Block);
type Memalign = unsafe extern "C" fn(usize, usize) -> Block;
type PosixMemalign = unsafe extern "C" fn(*mut Block, usize, usize) -> c_int;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

fn set_errno(value: c_int) {
    // SAFETY: the calling thread's own errno.
    unsafe { *__errno_location() = value };
}

/// Records an allocation, unless it failed.
#[inline(always)]
pub fn allocated(lane: Entered, caller: Caller, kind: u16, block: Block, size: usize, extra: u8, usable: &Usable) {
    if !block.is_null() {
        if lane.samples() && kind != kind::POOL_ALLOC && !(lane.ends_in(size) && sample::insert(block as u64)) {
            return;
        }
        // SAFETY: the block was just made, and no pool's. Some allocators set themselves up when they are asked.
        let slop = if kind == kind::POOL_ALLOC { 0 } else { lane.outside(|| unsafe { usable.slop(block, size) }) };
        let event = Event { kind, pointer: block as u64, size: size as u64, extra, slop };
        // SAFETY: the entry passed the true state of this thread.
        unsafe { lane.event_with_stack(event, caller) };
    }
}

unsafe extern "C" fn do_malloc(size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of malloc.
    let Some(real) = (unsafe { real::MALLOC.get::<Malloc>() }) else { return real::early(size, 16) };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(size) });
    allocated(lane, caller, kind::MALLOC, block, size, 0, &real::USABLE);
    lane.leave();
    block
}

unsafe extern "C" fn do_calloc(count: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of calloc.
    let Some(real) = (unsafe { real::CALLOC.get::<Calloc>() }) else {
        return count.checked_mul(size).map_or(core::ptr::null_mut(), |bytes| real::early(bytes, 16));
    };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(count, size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(count, size) });
    // The product did not overflow, else there would be no block.
    allocated(lane, caller, kind::CALLOC, block, count.wrapping_mul(size), 0, &real::USABLE);
    lane.leave();
    block
}

unsafe extern "C" fn do_realloc(old: Block, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    let caller = Caller { pc, sp, rbp };
    if real::is_early(old) {
        // SAFETY: as the program's own call; the early block stays valid.
        unsafe {
            let new = do_malloc(size, pc, sp, rbp);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(old.cast::<u8>(), new.cast(), size.min(real::early_size(old)));
            }
            return new;
        }
    }
    let lane = enter(&caller);
    // SAFETY: the type of realloc.
    let Some(real) = (unsafe { real::REALLOC.get::<Realloc>() }) else { return real::early(size, 16) };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(old, size) } };
    // SAFETY: as above.
    unsafe { reallocated(lane, caller, old, size, || real(old, size), &real::USABLE) }
}

/// The old block goes, the new one comes; or the old one is still there.
///
/// # Safety
/// `caller` is the true state of this thread.
#[inline(always)]
pub unsafe fn reallocated(
    lane: Entered,
    caller: Caller,
    old: Block,
    size: usize,
    call: impl FnOnce() -> Block,
    usable: &Usable,
) -> Block {
    // Where blocks are chosen, the new one is chosen anew, and the old one is told only if it was.
    let told = !old.is_null() && (!lane.watches() || sample::remove(old as u64) || !lane.samples());
    if told {
        lane.event(Event { kind: kind::REALLOC_OLD, pointer: old as u64, size: 0, extra: 0, slop: 0 });
    }
    let block = lane.outside(call);
    if !block.is_null() {
        let kind = if told || !lane.samples() { kind::REALLOC_NEW } else { kind::MALLOC };
        allocated(lane, caller, kind, block, size, 0, usable);
    } else if size != 0 && told {
        if lane.samples() {
            sample::insert(old as u64);
        }
        lane.event(Event { kind: kind::REALLOC_FAILED, pointer: old as u64, size: 0, extra: 0, slop: 0 });
    }
    lane.leave();
    block
}

unsafe extern "C" fn do_reallocarray(old: Block, count: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    match count.checked_mul(size) {
        // SAFETY: what the program asked for.
        Some(bytes) => unsafe { do_realloc(old, bytes, pc, sp, rbp) },
        None => {
            set_errno(sys::ENOMEM);
            core::ptr::null_mut()
        }
    }
}

/// A block is about to go.
///
/// # Safety
/// `caller` is the true state of this thread.
#[inline(always)]
pub unsafe fn freed(lane: Entered, caller: Caller, block: Block) {
    if lane.watches() && !sample::remove(block as u64) && lane.samples() {
        return;
    }
    let event = Event { kind: kind::FREE, pointer: block as u64, size: 0, extra: 0, slop: 0 };
    if settings::free_stacks() {
        // SAFETY: the caller vouches.
        unsafe { lane.event_with_stack(event, caller) };
    } else {
        lane.loader_calls(caller);
        lane.event(event);
    }
}

unsafe extern "C" fn do_free(block: Block, pc: u64, sp: u64, rbp: u64) {
    if block.is_null() || real::is_early(block) {
        return;
    }
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of free. Without it nothing was allocated that it could take.
    let Some(real) = (unsafe { real::FREE.get::<Free>() }) else { return };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(block) } };
    // SAFETY: the entry passed the true state of this thread.
    unsafe { freed(lane, caller, block) };
    // SAFETY: as above.
    lane.outside(|| unsafe { real(block) });
    lane.leave();
}

/// Of an alignment.
pub fn log2(align: usize) -> u8 {
    align.checked_ilog2().unwrap_or(0) as u8
}

/// `memalign` and `aligned_alloc`.
#[inline(always)]
unsafe fn aligned(function: &Real, align: usize, size: usize, caller: Caller) -> Block {
    let lane = enter(&caller);
    // SAFETY: both have this type.
    let Some(real) = (unsafe { function.get::<Memalign>() }) else { return real::early(size, align) };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(align, size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(align, size) });
    allocated(lane, caller, kind::ALIGNED, block, size, log2(align), function.usable());
    lane.leave();
    block
}

unsafe extern "C" fn do_memalign(align: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: the program's own call.
    unsafe { aligned(&real::MEMALIGN, align, size, Caller { pc, sp, rbp }) }
}

unsafe extern "C" fn do_aligned_alloc(align: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: the program's own call.
    unsafe { aligned(&real::ALIGNED_ALLOC, align, size, Caller { pc, sp, rbp }) }
}

unsafe extern "C" fn do_posix_memalign(
    place: *mut Block,
    align: usize,
    size: usize,
    pc: u64,
    sp: u64,
    rbp: u64,
) -> c_int {
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of posix_memalign.
    let Some(real) = (unsafe { real::POSIX_MEMALIGN.get::<PosixMemalign>() }) else { return sys::ENOMEM };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(place, align, size) } };
    // SAFETY: as above.
    let result = lane.outside(|| unsafe { real(place, align, size) });
    if result == 0 {
        // SAFETY: on success the block is there.
        allocated(lane, caller, kind::ALIGNED, unsafe { *place }, size, log2(align), real::POSIX_MEMALIGN.usable());
    }
    lane.leave();
    result
}

/// `valloc` and `pvalloc`.
#[inline(always)]
unsafe fn paged(function: &Real, size: usize, caller: Caller) -> Block {
    let lane = enter(&caller);
    // SAFETY: both have the type of malloc.
    let Some(real) = (unsafe { function.get::<Malloc>() }) else { return real::early(size, 4096) };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(size) });
    allocated(lane, caller, kind::ALIGNED, block, size, 12, function.usable());
    lane.leave();
    block
}

unsafe extern "C" fn do_valloc(size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: the program's own call.
    unsafe { paged(&real::VALLOC, size, Caller { pc, sp, rbp }) }
}

unsafe extern "C" fn do_pvalloc(size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: the program's own call.
    unsafe { paged(&real::PVALLOC, size, Caller { pc, sp, rbp }) }
}

/// The program tells that a pool handed a block out (`include/thaw_heap.h`).
unsafe extern "C" fn do_pool_alloc(block: Block, size: usize, pc: u64, sp: u64, rbp: u64) {
    let caller = Caller { pc, sp, rbp };
    let Some(lane) = enter(&caller) else { return };
    crate::file::note_tier(heap_wire::tier::POOL);
    allocated(lane, caller, kind::POOL_ALLOC, block, size, 0, &real::USABLE);
    lane.leave();
}

/// And that it came back.
unsafe extern "C" fn do_pool_free(block: Block, pc: u64, sp: u64, rbp: u64) {
    if block.is_null() {
        return;
    }
    let Some(lane) = enter(&Caller { pc, sp, rbp }) else { return };
    lane.event(Event { kind: kind::POOL_FREE, pointer: block as u64, size: 0, extra: 0, slop: 0 });
    lane.leave();
}

const FAILED: usize = usize::MAX;

unsafe extern "C" fn do_mmap(
    at: usize,
    length: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
    pc: u64,
    sp: u64,
    rbp: u64,
) -> usize {
    type Mmap = unsafe extern "C" fn(usize, usize, c_int, c_int, c_int, c_long) -> usize;
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of mmap. All that needs it is loaded after it.
    let Some(real) = (unsafe { real::MMAP.get::<Mmap>() }) else {
        let arguments = [at, length, prot as usize, flags as usize, fd as isize as usize, offset as usize];
        // SAFETY: the program's own call.
        return unsafe { sys::call(9, arguments) }.unwrap_or_else(|errno| {
            set_errno(errno as c_int);
            FAILED
        });
    };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(at, length, prot, flags, fd, offset) } };
    // SAFETY: as above.
    let place = lane.outside(|| unsafe { real(at, length, prot, flags, fd, offset) });
    if place != FAILED {
        let shared = if flags as usize & sys::MAP_SHARED != 0 { map::SHARED } else { 0 };
        let anonymous = if flags as usize & sys::MAP_ANONYMOUS != 0 { map::ANONYMOUS } else { 0 };
        mapped(lane, caller, place, length, prot as u8 & 7 | shared | anonymous);
    }
    lane.leave();
    place
}

fn mapped(lane: Entered, caller: Caller, place: usize, length: usize, flags: u8) {
    let event = Event { kind: kind::MAP, pointer: place as u64, size: length as u64, extra: flags, slop: 0 };
    // SAFETY: the entry passed the true state of this thread.
    unsafe { lane.event_with_stack(event, caller) };
}

fn unmapped(lane: Entered, place: usize, length: usize) {
    lane.event(Event { kind: kind::UNMAP, pointer: place as u64, size: length as u64, extra: 0, slop: 0 });
}

unsafe extern "C" fn do_munmap(at: usize, length: usize, pc: u64, sp: u64, rbp: u64) -> c_int {
    type Munmap = unsafe extern "C" fn(usize, usize) -> c_int;
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of munmap.
    let Some(real) = (unsafe { real::MUNMAP.get::<Munmap>() }) else { return 0 };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(at, length) } };
    unmapped(lane, at, length);
    // SAFETY: as above.
    let result = lane.outside(|| unsafe { real(at, length) });
    lane.leave();
    result
}

unsafe extern "C" fn do_mremap(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    at: usize,
    _f: usize,
    pc: u64,
    sp: u64,
    rbp: u64,
) -> usize {
    type Mremap = unsafe extern "C" fn(usize, usize, usize, c_int, usize) -> usize;
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of mremap; the fifth argument is read by it only where the flags say that there is one.
    let Some(real) = (unsafe { real::MREMAP.get::<Mremap>() }) else { return FAILED };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(old, old_length, length, flags, at) } };
    // SAFETY: as above.
    let place = lane.outside(|| unsafe { real(old, old_length, length, flags, at) });
    if place != FAILED {
        unmapped(lane, old, old_length);
        mapped(lane, caller, place, length, map::REMAP | map::ANONYMOUS | 3);
    }
    lane.leave();
    place
}

unsafe extern "C" fn do_sbrk(change: isize, pc: u64, sp: u64, rbp: u64) -> usize {
    type Sbrk = unsafe extern "C" fn(isize) -> usize;
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the type of sbrk.
    let Some(real) = (unsafe { real::SBRK.get::<Sbrk>() }) else { return FAILED };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(change) } };
    // SAFETY: as above.
    let before = lane.outside(|| unsafe { real(change) });
    if before != FAILED && change != 0 {
        broke(lane, caller, before, before.wrapping_add_signed(change));
    }
    lane.leave();
    before
}

fn broke(lane: Entered, caller: Caller, before: usize, after: usize) {
    if after > before {
        mapped(lane, caller, before, after - before, map::BREAK | map::ANONYMOUS | 3);
    } else if after < before {
        unmapped(lane, after, before - after);
    }
}

unsafe extern "C" fn do_brk(to: usize, pc: u64, sp: u64, rbp: u64) -> c_int {
    type Brk = unsafe extern "C" fn(usize) -> c_int;
    type Sbrk = unsafe extern "C" fn(isize) -> usize;
    let caller = Caller { pc, sp, rbp };
    let lane = enter(&caller);
    // SAFETY: the types of brk and sbrk.
    let (Some(real), Some(now)) = (unsafe { (real::BRK.get::<Brk>(), real::SBRK.get::<Sbrk>()) }) else { return -1 };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(to) } };
    // SAFETY: as above; sbrk(0) asks.
    let (before, result) = lane.outside(|| unsafe { (now(0), real(to)) });
    if result == 0 {
        broke(lane, caller, before, to);
    }
    lane.leave();
    result
}

unsafe extern "C" fn do_fork(pc: u64, sp: u64, rbp: u64) -> c_int {
    type Fork = unsafe extern "C" fn() -> c_int;
    // SAFETY: the type of fork.
    let Some(real) = (unsafe { real::FORK.get::<Fork>() }) else { return -1 };
    if let Some(lane) = enter(&Caller { pc, sp, rbp }) {
        lane.meta(heap_wire::meta::FORK, &[]);
        lane.leave();
    }
    state::FORK_TICKS.store(sys::ticks(), core::sync::atomic::Ordering::Relaxed);
    // SAFETY: what the program asked for. No gate is shut meanwhile.
    let pid = unsafe { real() };
    if pid == 0 {
        // A child that allocates nothing has a stream too.
        state::ready();
    }
    // A child that is made past the C library began later.
    state::FORK_TICKS.store(0, core::sync::atomic::Ordering::Relaxed);
    pid
}

/// Before another thread can load an object where this one was, what is known of its addresses must go.
unsafe extern "C" fn do_dlclose(handle: *mut c_void) -> c_int {
    type Close = unsafe extern "C" fn(*mut c_void) -> c_int;
    if real::DLCLOSE.address() == 0 {
        // Before glibc 2.34 it is in a library of its own, which may have come later.
        real::DLCLOSE.set(crate::symbols::find(real::DLCLOSE.name(), crate::symbols::Which::Other));
    }
    // SAFETY: the type of dlclose.
    let Some(real) = (unsafe { real::DLCLOSE.get::<Close>() }) else { return -1 };
    // SAFETY: what the program asked for.
    let result = unsafe { real(handle) };
    state::objects_changed();
    result
}

unsafe extern "C" fn do_setname(thread: usize, name: *const c_char, pc: u64, sp: u64, rbp: u64) -> c_int {
    type SetName = unsafe extern "C" fn(usize, *const c_char) -> c_int;
    unsafe extern "C" {
        fn pthread_self() -> usize;
    }
    // SAFETY: the type of pthread_setname_np.
    let Some(real) = (unsafe { real::SET_NAME.get::<SetName>() }) else { return sys::ENOMEM };
    // SAFETY: what the program asked for.
    let result = unsafe { real(thread, name) };
    // SAFETY: takes nothing.
    if result == 0 && thread == unsafe { pthread_self() } {
        // SAFETY: the program's zero-terminated name.
        named(Caller { pc, sp, rbp }, unsafe { crate::text::of_c(name) });
    }
    result
}

/// The calling thread has a new name.
fn named(caller: Caller, name: &[u8]) {
    if let Some(lane) = enter(&caller) {
        lane.tell_name(name);
        lane.leave();
    }
}

unsafe extern "C" fn do_prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    _f: usize,
    pc: u64,
    sp: u64,
    rbp: u64,
) -> c_int {
    type Prctl = unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int;
    const PR_SET_NAME: c_int = 15;
    // SAFETY: on x86-64 a variadic call passes integers as any other.
    let Some(real) = (unsafe { real::PRCTL.get::<Prctl>() }) else { return -1 };
    // SAFETY: what the program asked for.
    let result = unsafe { real(option, a, b, c, d) };
    if option == PR_SET_NAME && result == 0 {
        // SAFETY: the kernel has read a name there.
        named(Caller { pc, sp, rbp }, unsafe { crate::text::of_c(a as *const c_char) });
    }
    result
}

/// Returns null where nothing is recorded: then the real function is to be called.
unsafe extern "C" fn do_new(size: usize, _: usize, pc: u64, sp: u64, rbp: u64, quiet: &Real) -> Block {
    // SAFETY: the nothrow form takes a size and a tag that it does not read.
    unsafe {
        new(size, 0, Caller { pc, sp, rbp }, quiet, |real: unsafe extern "C" fn(usize, usize) -> Block| real(size, 0))
    }
}

unsafe extern "C" fn do_new_aligned(size: usize, align: usize, pc: u64, sp: u64, rbp: u64, quiet: &Real) -> Block {
    // SAFETY: as above, with the alignment.
    unsafe {
        let call = |real: unsafe extern "C" fn(usize, usize, usize) -> Block| real(size, align, 0);
        new(size, log2(align), Caller { pc, sp, rbp }, quiet, call)
    }
}

#[inline(always)]
unsafe fn new<F: Copy>(size: usize, align: u8, caller: Caller, quiet: &Real, call: impl FnOnce(F) -> Block) -> Block {
    // SAFETY: the caller passes the type of the function.
    let Some(real) = (unsafe { quiet.get::<F>() }) else { return core::ptr::null_mut() };
    let Some(lane) = enter(&caller) else { return core::ptr::null_mut() };
    let block = lane.outside(|| call(real));
    allocated(lane, caller, if align == 0 { kind::NEW } else { kind::ALIGNED }, block, size, align, &real::USABLE);
    lane.leave();
    block
}

/// Returns 0: go on with the real function, which must not be recorded as `free` again; 1: all is done.
unsafe extern "C" fn do_delete(block: Block, pc: u64, sp: u64, rbp: u64) -> u8 {
    if block.is_null() {
        return 0;
    }
    // The plain form does for all: sizes and alignments are hints. It is hooked together with all others or not at all.
    // SAFETY: its type.
    let Some(delete) = (unsafe { real::DELETE.get::<Free>() }) else { return 0 };
    let caller = Caller { pc, sp, rbp };
    let Some(lane) = enter(&caller) else { return 0 };
    // SAFETY: the entry passed the true state of this thread.
    unsafe { freed(lane, caller, block) };
    // SAFETY: the program's own block.
    lane.outside(|| unsafe { delete(block) });
    lane.leave();
    1
}

/// Allocators that bring a `strdup` of their own do not always call `malloc` in it.
unsafe extern "C" fn do_strdup(text: *const c_char, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::STRDUP.get::<unsafe extern "C" fn(*const c_char) -> Block>() }) else {
        return core::ptr::null_mut();
    };
    // SAFETY: what the program asked for.
    unsafe { duplicated(Caller { pc, sp, rbp }, || real(text)) }
}

unsafe extern "C" fn do_strndup(text: *const c_char, most: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::STRNDUP.get::<unsafe extern "C" fn(*const c_char, usize) -> Block>() }) else {
        return core::ptr::null_mut();
    };
    // SAFETY: what the program asked for.
    unsafe { duplicated(Caller { pc, sp, rbp }, || real(text, most)) }
}

/// # Safety
/// `call` returns null or a block with a zero-terminated text; `caller` is the true state of this thread.
unsafe fn duplicated(caller: Caller, call: impl FnOnce() -> Block) -> Block {
    let Some(lane) = enter(&caller) else { return call() };
    let block = lane.outside(call);
    // SAFETY: the caller vouches.
    let size = unsafe { crate::text::of_c(block.cast()) }.len() + 1;
    allocated(lane, caller, kind::MALLOC, block, size, 0, &real::USABLE);
    lane.leave();
    block
}

unsafe extern "C" fn do_moz_malloc(arena: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    let caller = Caller { pc, sp, rbp };
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::MOZ_MALLOC.get::<Calloc>() }) else { return core::ptr::null_mut() };
    // SAFETY: what the program asked for.
    let Some(lane) = enter(&caller) else { return unsafe { real(arena, size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(arena, size) });
    allocated(lane, caller, kind::MALLOC, block, size, 0, &real::USABLE);
    lane.leave();
    block
}

unsafe extern "C" fn do_moz_calloc(arena: usize, count: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    type MozCalloc = unsafe extern "C" fn(usize, usize, usize) -> Block;
    let caller = Caller { pc, sp, rbp };
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::MOZ_CALLOC.get::<MozCalloc>() }) else { return core::ptr::null_mut() };
    // SAFETY: what the program asked for.
    let Some(lane) = enter(&caller) else { return unsafe { real(arena, count, size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(arena, count, size) });
    allocated(lane, caller, kind::CALLOC, block, count.wrapping_mul(size), 0, &real::USABLE);
    lane.leave();
    block
}

unsafe extern "C" fn do_moz_realloc(arena: usize, old: Block, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    type MozRealloc = unsafe extern "C" fn(usize, Block, usize) -> Block;
    let caller = Caller { pc, sp, rbp };
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::MOZ_REALLOC.get::<MozRealloc>() }) else { return core::ptr::null_mut() };
    // SAFETY: what the program asked for.
    let Some(lane) = enter(&caller) else { return unsafe { real(arena, old, size) } };
    // SAFETY: as above.
    unsafe { reallocated(lane, caller, old, size, || real(arena, old, size), &real::USABLE) }
}

unsafe extern "C" fn do_moz_free(arena: usize, block: Block, pc: u64, sp: u64, rbp: u64) {
    type MozFree = unsafe extern "C" fn(usize, Block);
    let caller = Caller { pc, sp, rbp };
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::MOZ_FREE.get::<MozFree>() }) else { return };
    let lane = if block.is_null() { None } else { enter(&caller) };
    // SAFETY: what the program asked for.
    let Some(lane) = lane else { return unsafe { real(arena, block) } };
    // SAFETY: the entry passed the true state of this thread.
    unsafe { freed(lane, caller, block) };
    // SAFETY: as above.
    lane.outside(|| unsafe { real(arena, block) });
    lane.leave();
}

unsafe extern "C" fn do_moz_memalign(arena: usize, align: usize, size: usize, pc: u64, sp: u64, rbp: u64) -> Block {
    type MozMemalign = unsafe extern "C" fn(usize, usize, usize) -> Block;
    let caller = Caller { pc, sp, rbp };
    // SAFETY: only reached by the detour of this function, whose type this is.
    let Some(real) = (unsafe { real::MOZ_MEMALIGN.get::<MozMemalign>() }) else { return core::ptr::null_mut() };
    // SAFETY: what the program asked for.
    let Some(lane) = enter(&caller) else { return unsafe { real(arena, align, size) } };
    // SAFETY: as above.
    let block = lane.outside(|| unsafe { real(arena, align, size) });
    allocated(lane, caller, kind::ALIGNED, block, size, log2(align), &real::USABLE);
    lane.leave();
    block
}

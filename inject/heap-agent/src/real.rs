//! The functions behind ours, and a little memory for the time before they are known.

use crate::symbols::{self, Which};
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// A function that we stand in front of.
#[repr(C)]
pub struct Real {
    /// First, because assembly jumps through it.
    address: AtomicUsize,
    /// Its name.
    name: &'static core::ffi::CStr,
    /// Another object has it than `malloc`: its blocks are of another allocator.
    strange: AtomicBool,
}

macro_rules! reals {
    ($($id:ident = $name:literal;)*) => {
        $(pub static $id: Real = Real { address: AtomicUsize::new(0), name: $name, strange: AtomicBool::new(false) };)*
        /// All of them.
        pub static ALL: &[&Real] = &[$(&$id),*];
    };
}

reals! {
    MALLOC = c"malloc"; CALLOC = c"calloc"; REALLOC = c"realloc"; FREE = c"free"; MEMALIGN = c"memalign";
    POSIX_MEMALIGN = c"posix_memalign"; ALIGNED_ALLOC = c"aligned_alloc"; VALLOC = c"valloc"; PVALLOC = c"pvalloc"; CFREE = c"cfree";
    FREE_SIZED = c"free_sized"; FREE_ALIGNED_SIZED = c"free_aligned_sized"; REALLOCARRAY = c"reallocarray";
    MMAP = c"mmap"; MUNMAP = c"munmap"; MREMAP = c"mremap"; SBRK = c"sbrk"; BRK = c"brk"; FORK = c"fork"; DLCLOSE = c"dlclose"; PRCTL = c"prctl";
    SET_NAME = c"pthread_setname_np";
    EXECVE = c"execve"; EXECVPE = c"execvpe"; FEXECVE = c"fexecve"; EXECVEAT = c"execveat"; SPAWN = c"posix_spawn"; SPAWNP = c"posix_spawnp";
    NEW = c"_Znwm"; NEW_ARRAY = c"_Znam"; NEW_NOTHROW = c"_ZnwmRKSt9nothrow_t"; NEW_ARRAY_NOTHROW = c"_ZnamRKSt9nothrow_t";
    NEW_ALIGNED = c"_ZnwmSt11align_val_t"; NEW_ARRAY_ALIGNED = c"_ZnamSt11align_val_t";
    NEW_ALIGNED_NOTHROW = c"_ZnwmSt11align_val_tRKSt9nothrow_t"; NEW_ARRAY_ALIGNED_NOTHROW = c"_ZnamSt11align_val_tRKSt9nothrow_t";
    DELETE = c"_ZdlPv"; DELETE_ARRAY = c"_ZdaPv"; DELETE_SIZED = c"_ZdlPvm"; DELETE_ARRAY_SIZED = c"_ZdaPvm";
    DELETE_NOTHROW = c"_ZdlPvRKSt9nothrow_t"; DELETE_ARRAY_NOTHROW = c"_ZdaPvRKSt9nothrow_t";
    DELETE_ALIGNED = c"_ZdlPvSt11align_val_t"; DELETE_ARRAY_ALIGNED = c"_ZdaPvSt11align_val_t";
    STRDUP = c"strdup"; STRNDUP = c"strndup";
    MOZ_MALLOC = c"moz_arena_malloc"; MOZ_CALLOC = c"moz_arena_calloc"; MOZ_REALLOC = c"moz_arena_realloc"; MOZ_FREE = c"moz_arena_free";
    MOZ_MEMALIGN = c"moz_arena_memalign";
    DELETE_SIZED_ALIGNED = c"_ZdlPvmSt11align_val_t"; DELETE_ARRAY_SIZED_ALIGNED = c"_ZdaPvmSt11align_val_t";
    DELETE_ALIGNED_NOTHROW = c"_ZdlPvSt11align_val_tRKSt9nothrow_t"; DELETE_ARRAY_ALIGNED_NOTHROW = c"_ZdaPvSt11align_val_tRKSt9nothrow_t";
}

impl Real {
    /// Its address; 0: not known.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.address.load(Relaxed)
    }

    /// From now on this is the real one.
    pub fn set(&self, address: usize) {
        self.address.store(address, Relaxed);
    }

    /// Its name.
    pub fn name(&self) -> &'static core::ffi::CStr {
        self.name
    }

    /// What tells how large its blocks are.
    pub fn usable(&self) -> &'static Usable {
        static NONE: Usable = Usable::at(0);
        if self.strange.load(Relaxed) { &NONE } else { &USABLE }
    }

    /// As a function of type F.
    ///
    /// # Safety
    /// F is a function pointer of the real function's type.
    #[inline(always)]
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        let address = self.address();
        // SAFETY: a non-zero address is that of the named function, whose type the caller vouches for.
        (address != 0).then(|| unsafe { core::mem::transmute_copy(&address) })
    }
}

/// Looks all of them up behind ours.
pub fn resolve() {
    for real in ALL {
        if real.address() == 0 {
            real.set(symbols::find(real.name(), Which::Next));
        }
    }
}

/// The function that tells how large a block really is.
pub struct Usable(AtomicUsize);

/// The real allocator's.
pub static USABLE: Usable = Usable::at(0);

impl Usable {
    /// The function at this address; 0: there is none.
    pub const fn at(address: usize) -> Self {
        Self(AtomicUsize::new(address))
    }

    /// From now on it is this one.
    pub fn set(&self, address: usize) {
        self.0.store(address, Relaxed);
    }

    /// How many bytes a block has beyond its size, if the allocator tells.
    ///
    /// # Safety
    /// A live block of its allocator.
    #[inline(always)]
    pub unsafe fn slop(&self, block: *mut c_void, size: usize) -> u32 {
        let address = self.0.load(Relaxed);
        if address == 0 {
            return heap_wire::UNKNOWN_SLOP;
        }
        // SAFETY: all such functions have this type; the caller vouches for the block.
        let usable = unsafe { core::mem::transmute::<usize, extern "C" fn(*mut c_void) -> usize>(address) }(block);
        u32::try_from(usable.wrapping_sub(size)).unwrap_or(heap_wire::UNKNOWN_SLOP)
    }
}

/// Asks for usable sizes only the object that holds the allocator: another one's function would read what is not there.
pub fn find_usable(home: &core::ops::Range<u64>, which: Which) {
    let address = symbols::find(c"malloc_usable_size", which);
    USABLE.set(if home.contains(&(address as u64)) { address } else { 0 });
    // Not every allocator has all of them: then the C library's is reached.
    for real in [&MEMALIGN, &POSIX_MEMALIGN, &ALIGNED_ALLOC, &VALLOC, &PVALLOC] {
        real.strange.store(!home.contains(&(symbols::find(real.name, which) as u64)), Relaxed);
    }
}

/// Memory for calls that come before the real functions are known (dlsym allocates when it fails). Never given back.
struct Early(core::cell::UnsafeCell<[u128; EARLY_BYTES / 16]>);
// SAFETY: handed out in disjoint pieces by an atomic counter.
unsafe impl Sync for Early {}

const EARLY_BYTES: usize = 64 << 10;
static EARLY: Early = Early(core::cell::UnsafeCell::new([0; EARLY_BYTES / 16]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// A zeroed piece of it, aligned to `align` (a power of two up to 4096); null when it is used up.
pub fn early(size: usize, align: usize) -> *mut c_void {
    let align = align.clamp(16, 4096);
    // A header of 16 bytes holds the size, for realloc.
    let Some(want) = size.checked_add(align + 31) else { return core::ptr::null_mut() };
    let start = EARLY_USED.fetch_add(want & !15, Relaxed);
    if start.saturating_add(want) > EARLY_BYTES {
        return core::ptr::null_mut();
    }
    let base = EARLY.0.get() as usize;
    let at = (base + start + 16).next_multiple_of(align);
    // SAFETY: inside the piece that was just handed out, 16-aligned.
    unsafe { *((at - 16) as *mut usize) = size };
    at as *mut c_void
}

/// Whether a block came from [`early`].
#[inline(always)]
pub fn is_early(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_BYTES
}

/// Size of such a block.
pub fn early_size(block: *mut c_void) -> usize {
    // SAFETY: the header before a block of `early`.
    unsafe { *((block as usize - 16) as *const usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_blocks_are_aligned_apart_and_end() {
        let (a, b) = (early(10, 1), early(100, 256));
        assert!(is_early(a) && is_early(b) && b as usize >= a as usize + 10);
        assert_eq!((a as usize % 16, b as usize % 256, early_size(a), early_size(b)), (0, 0, 10, 100));
        assert!(early(EARLY_BYTES, 16).is_null() && early(usize::MAX, 16).is_null());
        assert!(!is_early(core::ptr::null_mut()));
    }
}

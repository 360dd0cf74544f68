//! Allocators under names of their own: jemalloc of Rust programs (`_rjem_`), `je_`, mimalloc (`mi_`), tcmalloc
//! (`tc_`), and what jemalloc has besides (`mallocx`).
//!
//! No dynamic linker is asked for those inside of the program, so they are found in the symbol table of its file; those
//! of libraries are found as the dynamic linker would. Both are hooked by detours. One entry serves
//! all: the detour passes along which function it is of. What such a function calls in turn is not recorded again.

use crate::detour::{self, Island, Patch};
use crate::hooks::{Block, allocated, freed, log2, reallocated};
use crate::lane::{self, Entered, enter};
use crate::linker::{PhdrInfo, dl_iterate_phdr};
use crate::real::Usable;
use crate::symbols::{self, Which};
use crate::text::Text;
use crate::unwind::Caller;
use crate::{file, module, sample, sys};
use core::arch::naked_asm;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use heap_wire::{kind, tier};

/// What a function does, and which of its arguments say so. Those of heaps have the heap before them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// (size), maybe zeroed.
    Size,
    Zeroed,
    /// (count, size)
    Count,
    /// (size, alignment)
    SizeAlign,
    /// (alignment, size)
    AlignSize,
    /// (size, flags): jemalloc's, the log2 of the alignment in the low six bits.
    Flags,
    /// (place, alignment, size)
    Place,
    /// (size ..), throws where there is no memory; the function of this name returns null then.
    Throws(&'static [u8]),
    ThrowsAligned(&'static [u8]),
    /// (count, size), the same.
    ThrowsCount(&'static [u8]),
    /// (old, size ..)
    Realloc,
    /// (old, count, size)
    ReallocCount,
    /// (count, size, alignment)
    CountAlign,
    /// (text ..): a copy.
    Text,
    /// (block, size ..): returns how large the block is then, at the same place.
    InPlace,
    /// (heap): all its blocks go.
    Destroy,
    /// (block ..)
    Free,
    /// The one that tells usable sizes: not hooked.
    Usable,
    /// Only called, not hooked.
    Helper,
}
use Shape::*;

/// Functions by what follows the prefix.
type Functions = &'static [(&'static [u8], Shape)];

const JEMALLOC: Functions = &[
    (b"malloc", Size),
    (b"free", Free),
    (b"calloc", Count),
    (b"realloc", Realloc),
    (b"memalign", AlignSize),
    (b"aligned_alloc", AlignSize),
    (b"posix_memalign", Place),
    (b"valloc", Size),
    (b"mallocx", Flags),
    (b"rallocx", Realloc),
    (b"xallocx", InPlace),
    (b"dallocx", Free),
    (b"sdallocx", Free),
    (b"malloc_usable_size", Usable),
];
/// What a jemalloc has that is the process's `malloc`.
const JEMALLOC_BESIDE: Functions = &[
    (b"mallocx", Flags),
    (b"rallocx", Realloc),
    (b"xallocx", InPlace),
    (b"dallocx", Free),
    (b"sdallocx", Free),
    (b"malloc_usable_size", Usable),
];
const TCMALLOC: Functions = &[
    (b"malloc", Size),
    (b"free", Free),
    (b"calloc", Count),
    (b"realloc", Realloc),
    (b"memalign", AlignSize),
    (b"posix_memalign", Place),
    (b"valloc", Size),
    (b"pvalloc", Size),
    (b"free_sized", Free),
    (b"cfree", Free),
    (b"malloc_skip_new_handler", Size),
    (b"new", Throws(b"new_nothrow")),
    (b"newarray", Throws(b"newarray_nothrow")),
    (b"new_nothrow", Size),
    (b"newarray_nothrow", Size),
    (b"new_aligned", ThrowsAligned(b"new_aligned_nothrow")),
    (b"newarray_aligned", ThrowsAligned(b"newarray_aligned_nothrow")),
    (b"new_aligned_nothrow", SizeAlign),
    (b"newarray_aligned_nothrow", SizeAlign),
    (b"delete", Free),
    (b"deletearray", Free),
    (b"delete_nothrow", Free),
    (b"deletearray_nothrow", Free),
    (b"delete_sized", Free),
    (b"deletearray_sized", Free),
    (b"delete_aligned", Free),
    (b"delete_aligned_nothrow", Free),
    (b"deletearray_aligned_nothrow", Free),
    (b"deletearray_aligned", Free),
    (b"delete_sized_aligned", Free),
    (b"deletearray_sized_aligned", Free),
    (b"malloc_size", Usable),
];
/// Without valloc, pvalloc, cfree and reallocarray: they call others of these.
const MIMALLOC: Functions = &[
    (b"malloc", Size),
    (b"free", Free),
    (b"malloc_small", Size),
    (b"zalloc", Zeroed),
    (b"zalloc_small", Zeroed),
    (b"calloc", Count),
    (b"mallocn", Count),
    (b"realloc", Realloc),
    (b"reallocf", Realloc),
    (b"rezalloc", Realloc),
    (b"reallocn", ReallocCount),
    (b"recalloc", ReallocCount),
    (b"malloc_aligned", SizeAlign),
    (b"zalloc_aligned", SizeAlign),
    (b"malloc_aligned_at", SizeAlign),
    (b"zalloc_aligned_at", SizeAlign),
    (b"calloc_aligned", CountAlign),
    (b"calloc_aligned_at", CountAlign),
    (b"realloc_aligned", Realloc),
    (b"realloc_aligned_at", Realloc),
    (b"rezalloc_aligned", Realloc),
    (b"rezalloc_aligned_at", Realloc),
    (b"recalloc_aligned", ReallocCount),
    (b"recalloc_aligned_at", ReallocCount),
    (b"expand", Realloc),
    (b"strdup", Text),
    (b"strndup", Text),
    (b"memalign", AlignSize),
    (b"aligned_alloc", AlignSize),
    (b"posix_memalign", Place),
    (b"free_size", Free),
    (b"free_aligned", Free),
    (b"free_size_aligned", Free),
    (b"new", Throws(b"malloc")),
    (b"new_nothrow", Size),
    (b"new_n", ThrowsCount(b"mallocn")),
    (b"new_realloc", Realloc),
    (b"new_reallocn", ReallocCount),
    (b"new_aligned", ThrowsAligned(b"malloc_aligned")),
    (b"new_aligned_nothrow", SizeAlign),
    (b"heap_malloc", Size),
    (b"heap_malloc_small", Size),
    (b"heap_zalloc", Zeroed),
    (b"heap_calloc", Count),
    (b"heap_mallocn", Count),
    (b"heap_malloc_aligned", SizeAlign),
    (b"heap_zalloc_aligned", SizeAlign),
    (b"heap_realloc", Realloc),
    (b"heap_reallocf", Realloc),
    (b"heap_rezalloc", Realloc),
    (b"heap_reallocn", ReallocCount),
    (b"heap_recalloc", ReallocCount),
    (b"heap_realloc_aligned", Realloc),
    (b"heap_malloc_aligned_at", SizeAlign),
    (b"heap_zalloc_aligned_at", SizeAlign),
    (b"heap_calloc_aligned", CountAlign),
    (b"heap_calloc_aligned_at", CountAlign),
    (b"heap_realloc_aligned_at", Realloc),
    (b"heap_rezalloc_aligned", Realloc),
    (b"heap_rezalloc_aligned_at", Realloc),
    (b"heap_recalloc_aligned", ReallocCount),
    (b"heap_recalloc_aligned_at", ReallocCount),
    (b"heap_strdup", Text),
    (b"heap_strndup", Text),
    (b"heap_alloc_new", Throws(b"heap_malloc")),
    (b"heap_alloc_new_n", ThrowsCount(b"heap_mallocn")),
    (VISIT, Helper),
    (BACKING, Helper),
    (COLLECT, Helper),
    (DESTROY, Destroy),
    (b"usable_size", Usable),
];

/// What mimalloc says of a heap that goes.
const VISIT: &[u8] = b"heap_visit_blocks";
const BACKING: &[u8] = b"heap_get_backing";
const COLLECT: &[u8] = b"heap_collect";
const DESTROY: &[u8] = b"heap_destroy";

/// Prefixes; the last one is of libraries only.
const FAMILIES: [(&[u8], Functions); 5] =
    [(b"_rjem_", JEMALLOC), (b"je_", JEMALLOC), (b"mi_", MIMALLOC), (b"tc_", TCMALLOC), (b"", JEMALLOC_BESIDE)];
/// Most functions of a family.
const MOST: usize = 80;
/// So many functions find place in an island.
const ISLAND: usize = 40;
const _: () = assert!(MIMALLOC.len() <= MOST && TCMALLOC.len() <= MOST && JEMALLOC.len() <= MOST);

/// A hooked function.
pub struct Own {
    real: AtomicUsize,
    /// For those that throw: what returns null instead.
    quiet: AtomicUsize,
    usable: &'static Usable,
    shape: Shape,
    /// Whether a heap comes before the arguments.
    heap: bool,
    /// Whether an alignment can be asked for.
    aligns: bool,
}

impl Own {
    /// One whose real function is not known yet.
    pub fn new(shape: Shape, usable: &'static Usable) -> Self {
        Self { real: AtomicUsize::new(0), quiet: AtomicUsize::new(0), usable, shape, heap: false, aligns: false }
    }

    /// Remembers where a block with an alignment begins: see [`sample::watch_marks`].
    fn mark(&self, lane: Entered, block: Block) {
        if !block.is_null() && lane.watches() && !lane.samples() {
            sample::insert(block as u64);
        }
    }

    /// What it stands in front of.
    pub fn set_real(&self, address: usize) {
        self.real.store(address, Relaxed);
    }
}

/// Where the program called a function, and which.
#[repr(C)]
struct Call {
    caller: Caller,
    own: &'static Own,
    /// The last argument of the largest.
    fifth: usize,
}

/// What a body says: return this, or (if it is not 0) jump there with the arguments of the call.
#[repr(C)]
struct Answer {
    value: usize,
    jump: usize,
}

/// The detour left the function's record in r11.
#[unsafe(naked)]
pub unsafe extern "C" fn enter_own() {
    naked_asm!(
        "endbr64", "mov rax, [rsp]", "lea r10, [rsp + 8]",
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r11", "push rbp", "push r10", "push rax",
        "mov r8, rsp", "call {body}",
        "mov r11, rdx", "add rsp, 32", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "test r11, r11", "jnz 2f", "ret", "2:", "jmp r11",
        body = sym do_own
    )
}

type Any = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> usize;

unsafe extern "C" fn do_own(a: usize, b: usize, c: usize, d: usize, call: &Call) -> Answer {
    let own = call.own;
    let real = own.real.load(Relaxed);
    let Some(lane) = enter(&call.caller) else { return Answer { value: 0, jump: real } };
    let address = match own.quiet.load(Relaxed) {
        0 => real,
        quiet => quiet,
    };
    // SAFETY: functions of up to five words; those that take fewer do not read the others.
    let function: Any = unsafe { core::mem::transmute(address) };
    // SAFETY: the program's own call.
    let made = || unsafe { function(a, b, c, d, call.fifth) };
    let (first, second, third) = if own.heap { (b, c, d) } else { (a, b, c) };
    let (kind, size, align) = match own.shape {
        Free if first != 0 => {
            // SAFETY: the entry passed the true state of this thread.
            unsafe { freed(lane, call.caller, first as Block) };
            let value = lane.outside(made);
            lane.leave();
            return Answer { value, jump: 0 };
        }
        Realloc | ReallocCount => {
            let size = if own.shape == Realloc { second } else { second.wrapping_mul(third) };
            // SAFETY: as above.
            let block = unsafe { reallocated(lane, call.caller, first as Block, size, || made() as Block, own.usable) };
            if own.aligns {
                own.mark(lane, block);
            }
            return Answer { value: block as usize, jump: 0 };
        }
        InPlace => {
            let mut value = 0;
            let resized = || {
                value = made();
                // Smaller: it could not grow to what was asked for, and is what it was.
                if value >= second { first as Block } else { core::ptr::null_mut() }
            };
            // SAFETY: as above.
            unsafe { reallocated(lane, call.caller, first as Block, second, resized, own.usable) };
            return Answer { value, jump: 0 };
        }
        Destroy => {
            empty(lane, call.caller, a);
            lane.leave();
            // It gives the heap itself back, which was made by functions that are hooked.
            return Answer { value: 0, jump: real };
        }
        Free | Usable | Helper => {
            lane.leave();
            return Answer { value: 0, jump: real };
        }
        // The size is known afterwards.
        Text => (kind::MALLOC, 0, 0),
        Size | Throws(_) => (kind::MALLOC, first, 0),
        ThrowsCount(_) => (kind::MALLOC, first.wrapping_mul(second), 0),
        CountAlign => (kind::ALIGNED, first.wrapping_mul(second), log2(third)),
        Zeroed => (kind::CALLOC, first, 0),
        Count => (kind::CALLOC, first.wrapping_mul(second), 0),
        SizeAlign | ThrowsAligned(_) => (kind::ALIGNED, first, log2(second)),
        AlignSize => (kind::ALIGNED, second, log2(first)),
        Flags => match second & 63 {
            0 => (kind::MALLOC, first, 0),
            align => (kind::ALIGNED, first, align as u8),
        },
        Place => (kind::ALIGNED, third, log2(second)),
    };
    let value = lane.outside(made);
    let block = match own.shape {
        // SAFETY: on success the block is in the place that the program named.
        Place if value as c_int == 0 => unsafe { *(first as *const Block) },
        Place => core::ptr::null_mut(),
        _ => value as Block,
    };
    // SAFETY: null, or a copy that ends with a zero.
    let size = if own.shape == Text { unsafe { crate::text::of_c(block.cast()) }.len() + 1 } else { size };
    allocated(lane, call.caller, kind, block, size, align, own.usable);
    if kind == kind::ALIGNED {
        own.mark(lane, block);
    }
    lane.leave();
    let throws = block.is_null() && matches!(own.shape, Throws(_) | ThrowsAligned(_) | ThrowsCount(_));
    Answer { value, jump: if throws { real } else { 0 } }
}

/// How mimalloc's heaps are looked into: see [`VISIT`], [`BACKING`], [`COLLECT`].
static HEAPS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// All blocks of a heap are about to go.
fn empty(lane: Entered, caller: Caller, heap: usize) {
    struct Visit {
        lane: Entered,
        caller: Caller,
    }
    extern "C" fn each(_: usize, _: usize, block: usize, bytes: usize, visit: &mut Visit) -> bool {
        if block != 0 {
            let block = sample::first_in(block as u64, bytes as u64).unwrap_or(block as u64);
            // SAFETY: the entry passed the true state of this thread.
            unsafe { freed(visit.lane, visit.caller, block as Block) };
        }
        true
    }
    type Visitor = extern "C" fn(usize, usize, usize, usize, &mut Visit) -> bool;
    let [visit, backing, collect] = HEAPS.each_ref().map(|place| place.load(Relaxed));
    if heap == 0 || visit == 0 {
        return;
    }
    // SAFETY: functions of these types, of the mimalloc that the heap is of; it is the calling thread's.
    unsafe {
        let backing = core::mem::transmute::<usize, extern "C" fn() -> usize>(backing);
        // A thread's first heap stays.
        if backing() != heap {
            // What other threads have freed is no block any more.
            core::mem::transmute::<usize, extern "C" fn(usize, bool)>(collect)(heap, false);
            let visit = core::mem::transmute::<usize, extern "C" fn(usize, bool, Visitor, &mut Visit) -> bool>(visit);
            visit(heap, true, each, &mut Visit { lane, caller });
        }
    }
}

/// The program's file, mapped: its symbol table, or that of the dynamic linker.
struct Symbols {
    file: *mut u8,
    bytes: usize,
    table: (usize, usize),
    strings: (usize, usize),
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    _other: u8,
    section: u16,
    value: u64,
    _size: u64,
}

impl Symbols {
    fn open() -> Option<Self> {
        let fd = sys::open(b"/proc/self/exe\0", sys::O_RDONLY | sys::O_CLOEXEC, 0).ok()?;
        let bytes = sys::file_bytes(fd).unwrap_or(0);
        let mapped = sys::mmap(bytes, sys::PROT_R, sys::MAP_PRIVATE, Some((fd, 0)));
        sys::close(fd);
        let mut found = Self { file: mapped.ok()?, bytes, table: (0, 0), strings: (0, 0) };
        found.locate()?;
        Some(found)
    }

    /// A value of the file.
    fn at<T: Copy>(&self, offset: usize) -> Option<T> {
        let inside = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes);
        // SAFETY: inside of the mapping; used for plain numbers only.
        inside.then(|| unsafe { self.file.add(offset).cast::<T>().read_unaligned() })
    }

    fn locate(&mut self) -> Option<()> {
        const SYMBOLS: u32 = 2;
        const DYNAMIC: u32 = 11;
        if self.at::<[u8; 5]>(0)? != *b"\x7fELF\x02" {
            return None;
        }
        let (sections, each, count) =
            (self.at::<u64>(40)? as usize, usize::from(self.at::<u16>(58)?), usize::from(self.at::<u16>(60)?));
        let section = |index: usize| sections.checked_add(index.checked_mul(each)?);
        let range = |section: usize| -> Option<(usize, usize)> {
            let (start, bytes) = (self.at::<u64>(section + 24)? as usize, self.at::<u64>(section + 32)? as usize);
            start.checked_add(bytes).filter(|end| *end <= self.bytes).map(|end| (start, end))
        };
        let mut best = None;
        for index in 0..count {
            let header = section(index)?;
            let kind = self.at::<u32>(header.checked_add(4)?)?;
            if kind == SYMBOLS || kind == DYNAMIC && best.is_none() {
                let strings = section(self.at::<u32>(header.checked_add(40)?)? as usize)?;
                if let (Some(table), Some(strings)) = (range(header), range(strings)) {
                    best = Some((table, strings));
                }
                if kind == SYMBOLS {
                    break;
                }
            }
        }
        (self.table, self.strings) = best?;
        Some(())
    }

    /// Visits defined functions by name and value.
    fn each(&self, mut visit: impl FnMut(&[u8], u64)) {
        const FUNCTION: u8 = 2;
        let (mut at, end) = self.table;
        while at + size_of::<Symbol>() <= end {
            // Whole tables were checked to be inside of the file.
            let Some(symbol) = self.at::<Symbol>(at) else { return };
            at += size_of::<Symbol>();
            let name = self.strings.0.wrapping_add(symbol.name as usize);
            if symbol.info & 15 != FUNCTION || symbol.section == 0 || name >= self.strings.1 {
                continue;
            }
            let room = (self.strings.1 - name).min(48);
            // SAFETY: inside of the table of strings.
            let text = unsafe { core::slice::from_raw_parts(self.file.add(name), room) };
            // All prefixes: _r, je, mi, tc.
            if !matches!(text, [b'_', b'r', ..] | [b'j', b'e', ..] | [b'm', b'i', ..] | [b't', b'c', ..]) {
                continue;
            }
            if let Some(length) = text.iter().position(|byte| *byte == 0) {
                visit(text.get(..length).unwrap_or(&[]), symbol.value);
            }
        }
    }
}

impl Drop for Symbols {
    fn drop(&mut self) {
        // SAFETY: own mapping; nothing of it is kept.
        unsafe { sys::munmap(self.file, self.bytes) };
    }
}

/// Addresses of the functions of all families.
type Found = [[usize; MOST]; FAMILIES.len()];

/// What was hooked, and what could not be: for the stream's header.
pub struct Told {
    hooked: Text<512>,
    doubt: Text<256>,
    count: u32,
}

impl Told {
    /// Nothing.
    pub const fn new() -> Self {
        Self { hooked: Text::new(), doubt: Text::new(), count: 0 }
    }

    /// How many functions.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A function is hooked.
    pub fn hooked(&mut self, prefix: &[u8], name: &[u8]) {
        if self.count > 0 {
            self.hooked.push(b" ");
        }
        self.hooked.push(prefix);
        self.hooked.push(name);
        self.count += 1;
    }

    /// Tells the stream.
    pub fn note(&self) {
        if self.count > 0 {
            file::note_tier(tier::DETOUR);
            file::note_detours(self.count);
            file::note_inside(self.hooked.bytes());
        }
        if !self.doubt.bytes().is_empty() {
            file::note_doubt(self.doubt.bytes());
        }
    }
}

/// Hooks what is there. To be called before other threads exist.
pub fn take_over() {
    let mut told = Told::new();
    // SAFETY: this runs while the dynamic linker initialises this object, before other threads exist.
    prepare(&mut told, &mut |patch| unsafe { patch.apply() });
    told.note();
}

/// Makes jumps to all that is there; `put` says whether it takes one.
pub fn prepare(told: &mut Told, put: &mut dyn FnMut(&Patch) -> bool) {
    let Some(bias) = program_bias() else { return };
    let mut found: Found = [[0; MOST]; FAMILIES.len()];
    if let Some(symbols) = Symbols::open() {
        symbols.each(|name, value| {
            for ((prefix, functions), found) in FAMILIES.iter().zip(&mut found) {
                let Some(rest) = name.strip_prefix(*prefix).filter(|_| !prefix.is_empty()) else { continue };
                if let Some(index) = functions.iter().position(|(name, _)| *name == rest) {
                    found[index] = bias.wrapping_add(value) as usize;
                }
            }
        });
    }
    for ((prefix, functions), found) in FAMILIES.iter().zip(&mut found).filter(|(_, found)| **found == [0; MOST]) {
        look_in_libraries(prefix, functions, found);
    }
    for ((prefix, functions), found) in FAMILIES.iter().zip(&found) {
        // Linkers leave out what is not called. One that only makes blocks or only frees them, or has no more than a
        // `new`, is something else of that name.
        let has = |wanted: fn(&[u8], Shape) -> bool| {
            functions.iter().zip(found).any(|((name, shape), address)| *address != 0 && wanted(name, *shape))
        };
        let makes = |name: &[u8], shape| {
            !matches!(shape, Free | Usable | Helper | Destroy) && name.windows(5).any(|part| part == b"alloc")
        };
        if has(makes) && has(|_, shape| shape == Free) {
            hook(prefix, functions, found, told, put);
        }
    }
}

/// Looks a family up as the dynamic linker would.
fn look_in_libraries(prefix: &[u8], functions: Functions, found: &mut [usize; MOST]) {
    let address = |name: &[u8]| {
        let mut whole = Text::<48>::new();
        whole.push(prefix);
        whole.push(name);
        CStr::from_bytes_until_nul(whole.with_zero()).map_or(0, |name| symbols::find(name, Which::Other))
    };
    // Most processes have none of them: the first one tells.
    let first = functions.first().map_or(0, |(name, _)| address(name));
    let home = module::range_of(first as u64).filter(|_| first != 0);
    if let Some(home) = home {
        for ((name, _), place) in functions.iter().zip(found) {
            *place = Some(address(name)).filter(|address| home.contains(&(*address as u64))).unwrap_or(0);
        }
    }
}

/// What the program's addresses are moved by.
fn program_bias() -> Option<u64> {
    extern "C" fn first(info: *const PhdrInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader's record of the program, which comes first, and our place.
        unsafe { *data.cast::<Option<u64>>() = Some((*info).bias) };
        1
    }
    let mut bias = None;
    // SAFETY: the callback and its data are valid during the call.
    unsafe { dl_iterate_phdr(first, (&raw mut bias).cast()) };
    bias
}

fn hook(
    prefix: &[u8],
    functions: Functions,
    found: &[usize; MOST],
    told: &mut Told,
    put: &mut dyn FnMut(&Patch) -> bool,
) {
    let mut doubt = Text::<256>::new();
    doubt.push(b"the program has an allocator of its own (");
    doubt.push(prefix);
    let refused = |told: &mut Told, mut doubt: Text<256>, why: &[u8]| {
        doubt.push(why);
        told.doubt = doubt;
    };
    let Some(first) = found.iter().copied().find(|address| *address != 0) else { return };
    let home = module::range_of(first as u64).unwrap_or(0..0);
    // One more place, for the function that tells usable sizes.
    let bytes = functions.len() * size_of::<Own>() + size_of::<Usable>();
    let place = sys::mmap(bytes, sys::PROT_RW, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, None);
    let (Some(mut island), Ok(place)) = (Island::new(first), place) else {
        return refused(told, doubt, b"*): no page near it could be made to hook it");
    };
    let owns = place.cast::<Own>();
    let usable = functions.iter().position(|(_, shape)| *shape == Usable).map_or(0, |index| found[index]);
    // SAFETY: the last place of the mapping, which stays.
    let usable = unsafe {
        let place = owns.add(functions.len()).cast::<Usable>();
        place.write(Usable::at(usable));
        &*place
    };
    let mut patches: [Option<Patch>; MOST] = [None; MOST];
    let mut missed = Text::<128>::new();
    let mut prepared = 0;
    for (index, (name, shape)) in functions.iter().enumerate() {
        let function = found[index];
        if matches!(shape, Usable | Helper) || !home.contains(&(function as u64)) {
            continue;
        }
        if prepared == ISLAND {
            // This one is full.
            if !island.seal() {
                return refused(told, doubt, b"*), and this system allows no hook in it");
            }
            let Some(next) = Island::new(first) else {
                return refused(told, doubt, b"*): no page near it could be made to hook it");
            };
            (island, prepared) = (next, 0);
        }
        prepared += 1;
        // Another name of the same one, or of one that is hooked as malloc itself.
        if found[..index].contains(&function) || detour::is_hooked(function) {
            continue;
        }
        let aligns = name.windows(7).any(|part| part == b"aligned");
        let own = Own { heap: name.starts_with(b"heap_"), aligns, ..Own::new(*shape, usable) };
        // SAFETY: a place of the mapping, which stays; a function of the program.
        patches[index] = unsafe {
            owns.add(index).write(own);
            island.prepare(function, enter_own as *const () as usize, owns.add(index) as usize)
        };
        if patches[index].is_none() {
            missed.push(b" ");
            missed.push(name);
        }
    }
    if !island.seal() {
        return refused(told, doubt, b"*), and this system allows no hook in it");
    }
    let real = |name: &[u8]| {
        let index = functions.iter().position(|(other, _)| *other == name)?;
        patches[index].map(|patch| patch.real).or(Some(found[index])).filter(|address| *address != 0)
    };
    for (index, (name, shape)) in functions.iter().enumerate() {
        let Some(patch) = patches[index] else { continue };
        // SAFETY: written above.
        let own = unsafe { &*owns.add(index) };
        own.set_real(patch.real);
        if *shape == Destroy {
            let helpers = [VISIT, BACKING, COLLECT].map(|name| real(name).unwrap_or(0));
            if helpers.contains(&0) {
                missed.push(b" ");
                missed.push(name);
                continue;
            }
            HEAPS.iter().zip(helpers).for_each(|(place, helper)| place.store(helper, Relaxed));
            sample::watch_marks();
            lane::watch_all();
        }
        if let Throws(quiet) | ThrowsAligned(quiet) | ThrowsCount(quiet) = shape {
            // Without one that does not throw it is left alone: an exception could not pass our frames.
            let Some(quiet) = real(quiet) else {
                missed.push(b" ");
                missed.push(name);
                continue;
            };
            own.quiet.store(quiet, Relaxed);
        }
        if put(&patch) {
            told.hooked(prefix, name);
        }
    }
    if !missed.bytes().is_empty() {
        doubt.push(b"*), of which these functions are not hooked:");
        doubt.push(missed.bytes());
        told.doubt = doubt;
    }
}

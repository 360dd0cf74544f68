//! What the allocator and the kernel know: usable sizes, whether a pointer can be a block, totals of the process.

use crate::{Kind, Report, Units};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

/// The part of `struct mallinfo2` of glibc that is used; all fields are `size_t`.
#[repr(C)]
struct Mallinfo2 {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// Which allocator `malloc` is.
enum Allocator {
    Glibc { mallinfo2: Option<unsafe extern "C" fn() -> Mallinfo2> },
    Jemalloc { mallctl: Mallctl },
    Other,
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero; RTLD_DEFAULT is the usual order of the program.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Whether `malloc` and `malloc_usable_size` are the C library's: programs and preloaded libraries may have their own.
/// The guest of `thaw heap` passes calls of malloc on to the allocator, and leaves the sizes to it.
fn is_glibc() -> bool {
    let of_libc = |file: &[u8]| file.starts_with(b"libc.so") || file.starts_with(b"libc-");
    let malloc = symbol(c"malloc").and_then(file_of);
    let sizes = symbol(c"malloc_usable_size").and_then(file_of);
    sizes.is_some_and(|file| of_libc(&file)) && malloc.is_some_and(|file| of_libc(&file) || file == b"libthaw_heap.so")
}

/// The name of the file that a function is in.
fn file_of(address: *mut c_void) -> Option<Vec<u8>> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is valid for writes, and zeroed bytes are a valid Dl_info.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeroed before, written by dladdr if it found something.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives the name of a loaded file, which stays loaded: it has a function that runs.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    name.to_bytes().rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec)
}

/// Finds out which allocator there is.
pub(crate) fn look_up() {
    allocator();
}

fn allocator() -> &'static Allocator {
    static FOUND: OnceLock<Allocator> = OnceLock::new();
    FOUND.get_or_init(|| {
        if is_glibc() {
            // SAFETY: glibc's mallinfo2 takes nothing and returns this struct (malloc.h, glibc 2.33).
            let mallinfo2 = symbol(c"mallinfo2").map(|address| unsafe { std::mem::transmute(address) });
            return Allocator::Glibc { mallinfo2 };
        }
        match symbol(c"mallctl") {
            Some(address) => {
                // SAFETY: jemalloc's mallctl has this signature (jemalloc.h).
                let mallctl = unsafe { std::mem::transmute::<*mut c_void, Mallctl>(address) };
                Allocator::Jemalloc { mallctl }
            }
            None => Allocator::Other,
        }
    })
}

/// Asks the allocator to give free pages back, if it is glibc's.
pub(crate) fn trim() {
    if let Allocator::Glibc { .. } = allocator() {
        // SAFETY: takes a number; may be called at any time.
        unsafe { libc::malloc_trim(0) };
    }
}

/// (bytes in blocks, bytes that the allocator holds besides), as far as it says.
fn heap_totals() -> (Option<usize>, Option<usize>) {
    match allocator() {
        Allocator::Glibc { mallinfo2: Some(mallinfo2) } => {
            // SAFETY: see where it was found.
            let info = unsafe { mallinfo2() };
            (Some(info.uordblks + info.hblkhd), Some(info.fordblks))
        }
        Allocator::Jemalloc { mallctl } => {
            let read = |name: &CStr| -> Option<usize> {
                let (mut value, mut length) = (0usize, size_of::<usize>());
                // SAFETY: the name ends in a zero; value and length are valid for writes and of the size that these
                // names have.
                let result = unsafe {
                    mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut length, std::ptr::null_mut(), 0)
                };
                (result == 0).then_some(value)
            };
            let mut epoch = 1u64;
            // SAFETY: as above; writing `epoch` (8 bytes) makes the figures new.
            unsafe {
                mallctl(c"epoch".as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), (&raw mut epoch).cast(), 8);
            }
            let (allocated, active) = (read(c"stats.allocated"), read(c"stats.active"));
            (allocated, allocated.zip(active).map(|(allocated, active)| active.saturating_sub(allocated)))
        }
        _ => (None, None),
    }
}

/// Memory in which blocks can lie.
pub(crate) struct Heap {
    /// (first, after the last), rising.
    ranges: Vec<(usize, usize)>,
}

impl Heap {
    /// The private writable mappings without a file; a heap has no others.
    pub(crate) fn look() -> Self {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self { ranges: text.lines().filter_map(range).collect() }
    }

    fn range_of(&self, address: usize) -> Option<(usize, usize)> {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        self.ranges.get(after.checked_sub(1)?).copied().filter(|(_, end)| address < *end)
    }

    /// Usable size of a block; `None`: no block begins there, as far as can be told. A small block that glibc keeps for
    /// the next allocation of this size looks like one that is in use.
    pub(crate) fn usable_size(&mut self, address: usize) -> Option<usize> {
        // The smallest alignment of any allocator; glibc has twice that.
        if !address.is_multiple_of(size_of::<usize>()) {
            return None;
        }
        let mut range = self.range_of(address);
        if range.is_none() {
            // The heap may have grown since.
            *self = Self::look();
            range = self.range_of(address);
        }
        let (start, end) = range?;
        if let Allocator::Glibc { .. } = allocator()
            && !glibc_block(address, start, end)
        {
            return None;
        }
        // SAFETY: the address is mapped, and for glibc what lies before it is a chunk head. Other allocators look their
        // own tables up.
        let size = unsafe { malloc_usable_size(address as *mut c_void) };
        (size > 0 && size <= end - address).then_some(size)
    }
}

/// Whether what lies before the address can be the head of a chunk (malloc.c: `struct malloc_chunk`): its size is a
/// multiple of the alignment, large enough, and ends inside of the mapping; a chunk of its own mapping begins and ends
/// with pages.
fn glibc_block(address: usize, start: usize, end: usize) -> bool {
    const WORD: usize = size_of::<usize>();
    const ALIGNMENT: usize = 2 * WORD;
    const PAGE: usize = 4096;
    const IS_MMAPPED: usize = 2;
    if !address.is_multiple_of(ALIGNMENT) || address - start < 2 * WORD {
        return false;
    }
    // SAFETY: two words before the address are in the same mapping, which is readable; a torn value is as good as any.
    let (previous, head) = unsafe {
        (((address - 2 * WORD) as *const usize).read_volatile(), ((address - WORD) as *const usize).read_volatile())
    };
    let size = head & !7;
    if size < 4 * WORD || !size.is_multiple_of(ALIGNMENT) {
        return false;
    }
    let chunk = address - 2 * WORD;
    if head & IS_MMAPPED != 0 {
        let whole = previous.checked_add(size);
        return previous <= chunk - start
            && (chunk - previous).is_multiple_of(PAGE)
            && whole.is_some_and(|it| it.is_multiple_of(PAGE));
    }
    // The head of the next chunk is read by malloc_usable_size.
    size <= end - chunk && end - chunk - size >= 2 * WORD
}

fn range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (permissions, inode) = (words.next()?, words.nth(2)?);
    let name = words.next().unwrap_or("");
    let is_heap =
        permissions.starts_with("rw") && permissions.ends_with('p') && inode == "0" && !name.starts_with("[stack");
    let number = |text| usize::from_str_radix(text, 16).ok();
    is_heap.then_some((number(start)?, number(end)?))
}

/// `name (pid 123)`
pub(crate) fn process_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    format!("{} (pid {})", name.trim_end(), std::process::id())
}

/// What can be said of any process.
pub(crate) fn process_reports() -> Vec<Report> {
    let mut reports = Vec::new();
    let mut add = |path: &str, kind, units, amount: Option<usize>, description: &str| {
        if let Some(amount) = amount.and_then(|amount| i64::try_from(amount).ok()) {
            reports.push(Report { path: path.into(), kind, units, amount, description: description.into() });
        }
    };
    let (allocated, held) = heap_totals();
    add(
        "heap-allocated",
        Kind::Other,
        Units::Bytes,
        allocated,
        "Memory in blocks of the heap, with what the allocator adds to them.",
    );
    add(
        "explicit/heap-overhead",
        Kind::NonHeap,
        Units::Bytes,
        held,
        "Memory that the allocator holds for blocks to come.",
    );
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = |key: &str| -> Option<usize> {
        let rest = rollup.lines().find_map(|line| line.strip_prefix(key))?;
        rest.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
    };
    let unique = line("Private_Clean:").zip(line("Private_Dirty:")).map(|(clean, dirty)| clean + dirty);
    let vsize = statm(0);
    add("resident", Kind::Other, Units::Bytes, line("Rss:"), "Pages of the process that are in memory.");
    add("resident-unique", Kind::Other, Units::Bytes, unique, "Pages in memory that no other process has.");
    add(
        "proportional",
        Kind::Other,
        Units::Bytes,
        line("Pss:"),
        "Pages in memory, each divided by the number of processes that have it.",
    );
    add("vsize", Kind::Other, Units::Bytes, vsize, "Address space that is in use.");
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes, and zeroed bytes are a valid rusage.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let faults = usize::try_from(usage.ru_majflt).ok();
    add("page-faults-hard", Kind::Other, Units::CountCumulative, faults, "Page faults that waited for a disk.");
    reports
}

/// Bytes in a field of `/proc/self/statm`: 0 is the address space, 1 what is resident.
pub(crate) fn statm(field: usize) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    // SAFETY: takes a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    text.split_ascii_whitespace().nth(field)?.parse::<usize>().ok()?.checked_mul(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_what_is_none() {
        let mut heap = Heap::look();
        let block = vec![1u8; 1000];
        let large = vec![1u8; 10_000_000];
        assert!(heap.usable_size(block.as_ptr() as usize).is_some_and(|size| (1000..2000).contains(&size)));
        assert!(heap.usable_size(large.as_ptr() as usize).is_some_and(|size| (10_000_000..10_010_000).contains(&size)));
        let local = 7u64;
        static GLOBAL: [u64; 4] = [1; 4];
        for none in [
            block.as_ptr() as usize + 1,
            block.as_ptr() as usize + 160,
            large.as_ptr() as usize + 4096,
            GLOBAL.as_ptr() as usize,
            &raw const *GLOBAL.last().unwrap() as usize,
            8,
            usize::MAX - 7,
        ] {
            assert_eq!(heap.usable_size(none), None, "{none:#x} {local}");
        }
    }

    #[test]
    fn only_anonymous_private_memory_is_heap() {
        assert_eq!(range("5600-5700 rw-p 00000000 00:00 0          [heap]"), Some((0x5600, 0x5700)));
        assert_eq!(range("5600-5700 rw-p 00000000 00:00 0"), Some((0x5600, 0x5700)));
        for line in [
            "5600-5700 r--p 00000000 00:00 0",
            "5600-5700 rw-p 00000000 08:01 77 /usr/lib/x.so",
            "5600-5700 rw-p 00000000 00:00 0 [stack]",
            "5600-5700 rw-s 00000000 00:00 0",
            "",
        ] {
            assert_eq!(range(line), None, "{line}");
        }
    }

    #[test]
    fn the_allocator_says_how_much_there_is() {
        let before = heap_totals().0;
        // More than the other tests of this process have; never touched.
        let block = Vec::<u8>::with_capacity(1 << 30);
        if let (Some(before), Some(after)) = (before, heap_totals().0) {
            assert!(after >= before + (1 << 29), "{before} {after} {}", block.capacity());
        }
    }
}

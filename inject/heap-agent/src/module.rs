//! Which loaded object an address is in, and what the stream must know of it.

use crate::cache::{self, Known};
use crate::cfi::{self, Rule};
use crate::linker::{self, LinkMap, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, PhdrInfo, ProgramHeader, dl_iterate_phdr};
use crate::text::Text;
use crate::writer::Writer;
use crate::{file, python, sys};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use heap_wire::meta;

/// What glibc 2.35 and later says about an address, without a lock.
#[repr(C)]
struct Found {
    flags: u64,
    start: *mut u8,
    end: *mut u8,
    link: *const LinkMap,
    header: *const u8,
    reserved: [u64; 7],
}

/// `_dl_find_object`, where there is one.
pub static FIND: AtomicUsize = AtomicUsize::new(0);
/// Objects whose description is in the stream, by their start.
static TOLD: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// The loader's counters when they were last looked at.
static ADDS: AtomicU64 = AtomicU64::new(0);
static SUBS: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU32 = AtomicU32::new(0);
static LOADER_START: AtomicU64 = AtomicU64::new(0);
static LOADER_BYTES: AtomicU64 = AtomicU64::new(0);

/// An object that an address is in.
#[derive(Clone, Copy)]
pub struct Object {
    start: u64,
    end: u64,
    bias: u64,
    /// Its `.eh_frame_hdr`, or null.
    header: *const u8,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: usize,
}

/// The object at an address.
fn find(pc: u64) -> Option<Object> {
    let find = FIND.load(Relaxed);
    if find == 0 {
        return slow_find(pc);
    }
    // SAFETY: the address of `_dl_find_object`, whose signature this is.
    let find: extern "C" fn(u64, *mut Found) -> c_int = unsafe { core::mem::transmute(find) };
    let mut found = Found {
        flags: 0,
        start: core::ptr::null_mut(),
        end: core::ptr::null_mut(),
        link: core::ptr::null(),
        header: core::ptr::null(),
        reserved: [0; 7],
    };
    if find(pc, &raw mut found) != 0 || found.link.is_null() {
        return None;
    }
    // SAFETY: the object holds the code that is being executed, so its record and its first page stay.
    unsafe {
        let link = &*found.link;
        let (headers, count) = program_headers(found.start);
        let object = Object {
            start: found.start as u64,
            end: found.end as u64,
            bias: link.bias,
            header: found.header,
            name: link.name,
            headers,
            count,
        };
        Some(object)
    }
}

/// The program headers of an object whose ELF header is mapped at `start`, or none.
///
/// # Safety
/// `start` is the first page of a loaded object.
unsafe fn program_headers(start: *const u8) -> (*const ProgramHeader, usize) {
    // SAFETY: the first page of an object is mapped; headers beyond it are not used.
    unsafe {
        if start.cast::<u32>().read_unaligned() != 0x464c_457f {
            return (core::ptr::null(), 0);
        }
        let offset = start.add(32).cast::<u64>().read_unaligned() as usize;
        let count = start.add(56).cast::<u16>().read_unaligned() as usize;
        if offset & 7 != 0 || offset.saturating_add(count * size_of::<ProgramHeader>()) > 4096 {
            return (core::ptr::null(), 0);
        }
        (start.add(offset).cast(), count)
    }
}

/// The same for older C libraries: takes the loader's lock, as their own unwinder does.
fn slow_find(pc: u64) -> Option<Object> {
    struct Search {
        pc: u64,
        found: Option<Object>,
    }
    extern "C" fn each(info: *const PhdrInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes its record and our pointer, both valid during the call.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        let (mut start, mut end, mut header) = (u64::MAX, 0, core::ptr::null());
        for index in 0..info.count as usize {
            // SAFETY: below the number of headers.
            let segment = unsafe { &*info.headers.add(index) };
            let at = info.bias.wrapping_add(segment.address);
            if segment.kind == PT_LOAD {
                start = start.min(at & !4095);
                end = end.max(at.wrapping_add(segment.bytes));
            } else if segment.kind == PT_GNU_EH_FRAME {
                header = at as *const u8;
            }
        }
        if !(start..end).contains(&search.pc) {
            return 0;
        }
        let (name, headers, count) = (info.name, info.headers, info.count as usize);
        search.found = Some(Object { start, end, bias: info.bias, header, name, headers, count });
        1
    }
    let mut search = Search { pc, found: None };
    // SAFETY: the callback and its data are valid during the call.
    unsafe { dl_iterate_phdr(each, (&raw mut search).cast()) };
    search.found
}

/// Finds out about a new return address, tells the stream, and remembers it. `None`: the stream is full.
#[cold]
#[inline(never)]
pub fn learn(writer: &mut Writer, pc: u64) -> Option<Known> {
    let object = find(pc);
    let rule = match object {
        Some(object) => {
            tell(writer, &object)?;
            // SAFETY: the header of an object that is being executed.
            let rule = if object.header.is_null() { Rule::GUESS } else { unsafe { cfi::rule(object.header, pc) } };
            // The dynamic linker's first instructions have no unwind information, and no caller.
            match rule {
                Rule::GUESS if object.start == loader().0 => Rule::END,
                rule if python::loops(pc) => rule.interpreting(),
                rule => rule,
            }
        }
        None => made_code(pc),
    };
    let known = Known { id: cache::new_id()?, rule };
    let mut payload = [0u8; 12];
    payload[..4].copy_from_slice(&known.id.to_le_bytes());
    payload[4..].copy_from_slice(&pc.to_le_bytes());
    if !writer.meta(meta::PC, &[&payload]) {
        return None;
    }
    cache::put(pc, known);
    Some(known)
}

/// The rule of code that no object has: made at run time, or no code at all.
fn made_code(pc: u64) -> Rule {
    const PAGE: u64 = 4096;
    let left = (PAGE - pc % PAGE).min(16) as usize;
    if pc < PAGE || !sys::is_there(pc) {
        return Rule::GUESS;
    }
    // SAFETY: the rest of a page that is there, eight bytes of it at least or up to its end.
    let code = unsafe { core::slice::from_raw_parts(pc as *const u8, left) };
    cfi::epilogue(code).unwrap_or(Rule::GUESS)
}

/// Whether the frame pointer that led from code without unwind information to this return address was not its own: the
/// call before it is of a function that has unwind information, so it is not the one that the code is in. Calls through
/// pointers and tables tell nothing.
pub fn is_of_another(ret: u64) -> bool {
    const CALL: u8 = 0xe8;
    let is_code = |at: u64, bytes: u64| find(at).filter(|object| at.saturating_add(bytes) <= object.end);
    if is_code(ret.wrapping_sub(5), 5).is_none() {
        return false;
    }
    // SAFETY: five bytes within a loaded object, before what was just found to be an address in it.
    let (call, distance) = unsafe { (*((ret - 5) as *const u8), ((ret - 4) as *const i32).read_unaligned()) };
    let target = ret.wrapping_add_signed(distance.into());
    let Some(object) = is_code(target, 16).filter(|object| call == CALL && !object.header.is_null()) else {
        return false;
    };
    // SAFETY: sixteen bytes within a loaded object.
    let code = unsafe { (target as *const [u8; 16]).read() };
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(&code);
    let code = code.strip_prefix(&[0xf2]).unwrap_or(code);
    // A jump through a table goes on to anywhere.
    let is_stub = code.starts_with(&[0xff, 0x25]);
    // SAFETY: the header of a loaded object.
    !is_stub && unsafe { cfi::covers(object.header, target) }
}

/// Describes an object once.
fn tell(writer: &mut Writer, object: &Object) -> Option<()> {
    for told in &TOLD {
        match told.load(Relaxed) {
            start if start == object.start => return Some(()),
            0 => {
                // Two threads may tell the same object: no harm.
                let mut place = [0u8; 25];
                place[..8].copy_from_slice(&object.bias.to_le_bytes());
                place[8..16].copy_from_slice(&object.start.to_le_bytes());
                place[16..24].copy_from_slice(&object.end.to_le_bytes());
                let id = build_id(object);
                place[24] = id.len() as u8;
                let mut exe = Text::<1024>::new();
                // SAFETY: the loader's names are zero-terminated.
                let mut name = unsafe { crate::text::of_c(object.name) };
                if name.is_empty() {
                    name = file::exe();
                } else if name.first() != Some(&b'/') && name.contains(&b'/') {
                    // dlopen("./plugin.so"), LD_LIBRARY_PATH=.: who reads the recording is somewhere else.
                    exe.fill(sys::working_directory);
                    exe.push(b"/");
                    exe.push(name.strip_prefix(b"./").unwrap_or(name));
                    name = exe.bytes();
                }
                if !writer.meta(meta::MODULE, &[&place, id, &name[..name.len().min(1000)]]) {
                    return None;
                }
                let (bias, count) = (object.bias, object.count as u16);
                let (name, headers) = (object.name, object.headers);
                python::meet(&PhdrInfo { bias, name, headers, count, adds: 0, subs: 0 }, writer);
                let _ = told.compare_exchange(0, object.start, Relaxed, Relaxed);
                return Some(());
            }
            _ => {}
        }
    }
    Some(())
}

/// The GNU build-id among the notes of an object.
fn build_id(object: &Object) -> &[u8] {
    for index in 0..object.count {
        // SAFETY: below the number of headers of a loaded object; its notes are mapped.
        unsafe {
            let segment = &*object.headers.add(index);
            if segment.kind != PT_NOTE {
                continue;
            }
            let mut at = object.bias.wrapping_add(segment.address);
            let end = at.wrapping_add(segment.bytes);
            while at.wrapping_add(16) <= end {
                let [name, bytes, kind] = (at as *const [u32; 3]).read_unaligned();
                let text = at + 12;
                let value = text + u64::from(name.next_multiple_of(4));
                if value.saturating_add(u64::from(bytes)) > end {
                    break;
                }
                if kind == 3 && name == 4 && *(text as *const [u8; 4]) == *b"GNU\0" && bytes <= 64 {
                    return core::slice::from_raw_parts(value as *const u8, bytes as usize);
                }
                at = value + u64::from(bytes.next_multiple_of(4));
            }
        }
    }
    &[]
}

/// What changed among the loaded objects since it was last asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    pub added: bool,
    pub removed: bool,
}

/// Asks the loader. To be called outside of the loader's own allocations.
pub fn changes() -> Changes {
    extern "C" fn first(info: *const PhdrInfo, size: usize, data: *mut c_void) -> c_int {
        if size >= size_of::<PhdrInfo>() {
            // SAFETY: the loader's record has the counters, as its size says; the data are ours.
            unsafe { *data.cast::<[u64; 2]>() = [(*info).adds, (*info).subs] };
        }
        1
    }
    let mut counters = [0u64; 2];
    // SAFETY: the callback and its data are valid during the call.
    unsafe { dl_iterate_phdr(first, (&raw mut counters).cast()) };
    let added = ADDS.swap(counters[0], Relaxed) != counters[0];
    let removed = SUBS.swap(counters[1], Relaxed) != counters[1];
    Changes { added, removed }
}

/// Objects went away, or there is a new stream: describe them anew.
pub fn forget() {
    python::forget();
    TOLD.iter().for_each(|told| told.store(0, Relaxed));
}

/// Finds out where the dynamic linker's own code is.
pub fn find_loader() {
    // Any function of it will do; the address of its debug hook is public.
    let loader = linker::base().and_then(|at| find(at).or_else(|| slow_find(at)));
    let (start, bytes) = loader.map_or((0, 0), |object| (object.start, object.end - object.start));
    LOADER_START.store(start, Relaxed);
    LOADER_BYTES.store(bytes, Relaxed);
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

/// Objects were unloaded: what is known of addresses goes.
pub fn count_unloaded() {
    cache::forget(cache::Ids::Continue);
    forget();
    UNLOADED.fetch_add(1, Release);
}

/// Path of the object at an address; empty for the program itself.
pub fn name_at(address: u64) -> &'static [u8] {
    // SAFETY: the loader's names are zero-terminated; the object holds the allocator, which stays.
    find(address).map_or(&[], |object| unsafe { crate::text::of_c(object.name) })
}

/// The addresses of the object that holds this one.
pub fn range_of(address: u64) -> Option<core::ops::Range<u64>> {
    find(address).map(|object| object.start..object.end)
}

//! The functions of Python programs, by CPython's own structures: which ones a native frame of its interpreter runs.
//!
//! Since 3.11 one activation of the interpreter's loop (`_PyEval_EvalFrameDefault`) runs a chain of Python functions.
//! Its head is found from the thread's own state: in 3.11 and 3.12 by a record on the native stack within the frame of
//! the loop, since 3.13 by a chain of all frames in which each activation has put an element of its own, which lies
//! there too. So nothing is ever said to run in a native frame that it does not run in.
//!
//! All that is followed belongs to the calling thread, which is inside of an allocation function: its frames stay as
//! they are. It need not hold the GIL. What looks half-made or taken apart is not followed further.
//!
//! Code objects die, and others come to their place: a function is known by what it is made of, never by its address
//! alone, and its names are written down when it is met first.

use crate::cache::{self, Known};
use crate::cfi::Rule;
use crate::linker::PhdrInfo;
use crate::settings;
use crate::symbols::Loaded;
use crate::text::Text;
use crate::writer::Writer;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use heap_wire::{FUNCTION_BYTES, INTERPRETED, NO_PYTHON, meta};

/// Where things are in the structures of one version, in bytes from their beginning.
#[derive(Clone, Copy)]
struct Layout {
    head: Head,
    /// Of a frame: its code object, who called it, the instruction that it is at.
    code: u64,
    previous: u64,
    instruction: u64,
    entry: Entry,
    /// Of a code object: texts, table of lines, first line, instructions.
    file: u64,
    name: u64,
    lines: u64,
    first_line: u64,
    bytecode: u64,
    /// Of a text: flags, letters of one that is ASCII, of another one.
    flags: u64,
    ascii: u64,
    wide: u64,
}

/// How the innermost frame is found from the state of the thread.
#[derive(Clone, Copy)]
enum Head {
    /// Each activation of the loop has a record on the native stack, which begins the chain of its frames.
    Record { of_thread: u64, frame: u64, previous: u64 },
    /// There is one chain.
    Chain { of_thread: u64 },
}

/// Which frame is the outermost one of an activation.
#[derive(Clone, Copy)]
enum Entry {
    /// It has a byte that says so.
    Flag(u64),
    /// The next one is the loop's own, which this byte says.
    Owner(u64),
}

/// The loop's own frames have this owner, or a higher one.
const OWNED_BY_LOOP: u8 = 3;

const V3_11: Layout = Layout {
    head: Head::Record { of_thread: 56, frame: 8, previous: 16 },
    code: 32,
    previous: 48,
    instruction: 56,
    entry: Entry::Flag(68),
    file: 112,
    name: 128,
    lines: 136,
    first_line: 72,
    bytecode: 184,
    flags: 32,
    ascii: 48,
    wide: 72,
};

const V3_12: Layout = Layout {
    head: Head::Record { of_thread: 56, frame: 0, previous: 8 },
    code: 0,
    previous: 8,
    instruction: 56,
    entry: Entry::Owner(70),
    file: 112,
    name: 128,
    lines: 136,
    first_line: 68,
    bytecode: 192,
    flags: 32,
    ascii: 40,
    wide: 56,
};

/// The interpreter tells where things are since 3.13: this, its version, whether it has no GIL, numbers.
const COOKIE: [u8; 8] = *b"xdebugpy";

/// From an object's beginning: its references, its type, its length.
const TYPE: u64 = 8;
const LENGTH: u64 = 16;
/// From the beginning of a bytes object to its bytes.
const BYTES: u64 = 32;

struct Shared(UnsafeCell<Layout>);
// SAFETY: written once, before `LAYOUT` leads there.
unsafe impl Sync for Shared {}
static MET: Shared = Shared(UnsafeCell::new(V3_11));
static CLAIMED: AtomicU64 = AtomicU64::new(0);
/// Null: there is no interpreter that is known.
static LAYOUT: AtomicPtr<Layout> = AtomicPtr::new(null_mut());

/// The loop's code.
static LOOP: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The type of code objects, and of texts.
static CODE_TYPE: AtomicU64 = AtomicU64::new(0);
static TEXT_TYPE: AtomicU64 = AtomicU64::new(0);
/// The interpreter's functions: the state of the calling thread; the line of an instruction. Neither allocates.
static STATE_OF_THREAD: AtomicUsize = AtomicUsize::new(0);
static LINE: AtomicUsize = AtomicUsize::new(0);

/// No chain is followed further.
const FURTHEST: usize = 1 << 14;

/// A word of memory that is known to be there.
///
/// # Safety
/// It is.
#[inline(always)]
unsafe fn word(at: u64) -> u64 {
    // SAFETY: the caller vouches.
    unsafe { (at as *const u64).read() }
}

/// Whether it may be the address of an object.
#[inline(always)]
fn is_pointer(value: u64) -> bool {
    value & 7 == 0 && (0x1_0000..1 << 47).contains(&value)
}

/// An object was loaded: is it a Python? If it is one that is not understood, the stream says why.
pub fn meet(info: &PhdrInfo, writer: &mut Writer) {
    let Some(object) = settings::interpreted().then(|| Loaded::of(info)).flatten() else { return };
    // SAFETY: an object whose code is being executed.
    unsafe {
        let Some(code) = object.place(c"_PyEval_EvalFrameDefault") else { return };
        let mut reason = Text::<128>::new();
        match understand(&object, &mut reason) {
            Some(layout) => {
                // A second interpreter of another version is not followed.
                let version = layout.ascii << 32 | layout.bytecode;
                match CLAIMED.compare_exchange(0, version, AcqRel, Acquire) {
                    Ok(_) => {
                        *MET.0.get() = layout;
                        LAYOUT.store(MET.0.get(), Release);
                    }
                    Err(other) if other == version => {}
                    Err(_) => return,
                }
                LOOP[0].store(code.start, Relaxed);
                LOOP[1].store(code.end, Relaxed);
            }
            None => _ = writer.meta(meta::NOTE, &[NO_PYTHON.as_bytes(), reason.bytes()]),
        }
    }
}

/// How an interpreter's structures are laid out, or why that is not known.
///
/// # Safety
/// The object stays loaded.
unsafe fn understand(object: &Loaded, reason: &mut Text<128>) -> Option<Layout> {
    // SAFETY: variables and functions of the interpreter, as its headers declare them.
    unsafe {
        let Some(version) = object.place(c"Py_Version").map(|at| word(at.start)) else {
            reason.push(b"a Python older than 3.11 is not understood");
            return None;
        };
        let layout = match version >> 16 {
            0x030b => Some(V3_11),
            0x030c => Some(V3_12),
            0x030d => object.place(c"_PyRuntime").and_then(|at| told(at.start, version)),
            _ => None,
        };
        let place = |name: &CStr| object.place(name).map(|at| at.start).unwrap_or(0);
        let functions = [place(c"PyGILState_GetThisThreadState"), place(c"PyCode_Addr2Line")];
        let types = [place(c"PyCode_Type"), place(c"PyUnicode_Type")];
        let (true, Some(layout)) = (!functions.contains(&0) && !types.contains(&0), layout) else {
            reason.push(b"this build of Python ");
            reason.push_number(version >> 24);
            reason.push(b".");
            reason.push_number(version >> 16 & 0xff);
            reason.push(b" is not understood");
            return None;
        };
        STATE_OF_THREAD.store(functions[0] as usize, Relaxed);
        LINE.store(functions[1] as usize, Relaxed);
        CODE_TYPE.store(types[0], Relaxed);
        TEXT_TYPE.store(types[1], Relaxed);
        Some(layout)
    }
}

/// What an interpreter since 3.13 tells of itself (`_Py_DebugOffsets`).
///
/// # Safety
/// `runtime` is its `_PyRuntime`.
unsafe fn told(runtime: u64, version: u64) -> Option<Layout> {
    // SAFETY: the structure begins with so many words.
    unsafe {
        let told = |index: u64| word(runtime + 8 * index);
        // Without a GIL frames have other instructions in each thread.
        if told(0) != u64::from_le_bytes(COOKIE) || told(1) != version || told(2) != 0 {
            return None;
        }
        let layout = Layout {
            head: Head::Chain { of_thread: told(23) },
            code: told(30),
            previous: told(29),
            instruction: told(31),
            entry: Entry::Owner(told(33)),
            file: told(35),
            name: told(37),
            lines: told(38),
            first_line: told(39),
            bytecode: told(43),
            flags: told(68),
            ascii: told(70),
            wide: told(70) + 16,
        };
        let sane = [layout.code, layout.previous, layout.instruction, layout.file, layout.name, layout.lines];
        let small = [layout.first_line, layout.bytecode, layout.flags, layout.ascii];
        (sane.iter().all(|at| at & 7 == 0 && *at < 4096) && small.iter().all(|at| *at < 4096)).then_some(layout)
    }
}

/// Whether a call was made by the interpreter's loop.
pub fn loops(pc: u64) -> bool {
    let [start, end] = LOOP.each_ref().map(|at| at.load(Relaxed));
    (start..end).contains(&pc.wrapping_sub(1))
}

/// Objects went away.
pub fn forget() {
    LOOP.iter().for_each(|at| at.store(0, Relaxed));
}

/// The innermost function that an activation of the loop runs.
pub struct Innermost {
    /// Its frame.
    pub frame: u64,
    /// A word of the loop's native frame: it leads to this frame as long as that is so.
    pub slot: u64,
    /// Or there is none, and that word leads to the frame that called the loop: see [`still`].
    pub is_chained: bool,
}

/// Where a walk is in the chain of a thread's frames.
#[derive(Default)]
pub struct Chain(u64);

/// What runs in the loop's native frame; `None`: nothing yet, or it is not known.
///
/// # Safety
/// `native` is a frame of the calling thread. Frames are asked for from the innermost one outwards.
#[inline(never)]
pub unsafe fn innermost(native: Range<u64>, chain: &mut Chain) -> Option<Innermost> {
    // SAFETY: written before it was published.
    let layout = unsafe { LAYOUT.load(Acquire).as_ref() }?;
    // SAFETY: it is published.
    let state = unsafe { state_of_thread() };
    if !is_pointer(state) {
        return None;
    }
    // SAFETY: the thread's own state, and what the interpreter keeps reachable from it while the thread runs.
    unsafe {
        match layout.head {
            Head::Record { of_thread, frame, previous } => {
                let mut record = word(state + of_thread);
                for _ in 0..FURTHEST {
                    if !is_pointer(record) || record >= native.end {
                        return None;
                    }
                    if record >= native.start {
                        let slot = record + frame;
                        let frame = Some(word(slot)).filter(|frame| is_pointer(*frame))?;
                        // The loop's own comes before the first one.
                        return (!is_of_loop(layout, frame)).then_some(Innermost { frame, slot, is_chained: false });
                    }
                    record = word(record + previous);
                }
            }
            Head::Chain { of_thread } => {
                let mut first = if chain.0 == 0 { word(state + of_thread) } else { chain.0 };
                let mut frame = first;
                for _ in 0..FURTHEST {
                    if !is_pointer(frame) {
                        return None;
                    }
                    let outer = word(frame + layout.previous);
                    if is_of_loop(layout, frame) {
                        if frame >= native.end {
                            return None;
                        }
                        // Nothing is at 1.
                        chain.0 = outer.max(1);
                        if frame >= native.start {
                            let slot = frame + layout.previous;
                            return (first != frame).then_some(Innermost { frame: first, slot, is_chained: true });
                        }
                        first = outer;
                    }
                    frame = outer;
                }
            }
        }
        None
    }
}

/// Whether a frame is still the innermost one of its activation of the loop, at this instruction, where there is one
/// chain of all: by what comes next in it. `slot` is the word that [`innermost`] told with it.
///
/// # Safety
/// As [`innermost`]; the slot is one of the calling thread's stack.
pub unsafe fn still(frame: u64, instruction: u64, slot: u64, chain: &mut Chain) -> bool {
    // SAFETY: there is a frame, so this was published. What the chain leads to is a frame that runs.
    unsafe {
        let layout = &*LAYOUT.load(Relaxed);
        let Head::Chain { of_thread } = layout.head else { return false };
        let next = match chain.0 {
            0 => match state_of_thread() {
                state if is_pointer(state) => word(state + of_thread),
                _ => return false,
            },
            next => next,
        };
        if next != frame || word(frame + layout.instruction) != instruction {
            return false;
        }
        chain.0 = word(slot).max(1);
        true
    }
}

/// The interpreter's state of the calling thread; 0: it has none.
///
/// # Safety
/// An interpreter was met.
unsafe fn state_of_thread() -> u64 {
    // SAFETY: the interpreter's function; it takes nothing, and looks up what belongs to the thread.
    unsafe { core::mem::transmute::<usize, extern "C" fn() -> u64>(STATE_OF_THREAD.load(Relaxed))() }
}

/// # Safety
/// It is a frame.
unsafe fn is_of_loop(layout: &Layout, frame: u64) -> bool {
    match layout.entry {
        // SAFETY: the caller vouches.
        Entry::Owner(owner) => unsafe { ((frame + owner) as *const u8).read() >= OWNED_BY_LOOP },
        Entry::Flag(_) => false,
    }
}

/// Where the instruction is that a frame is at.
pub fn instruction_of(frame: u64) -> u64 {
    // SAFETY: there is a frame, so this was published.
    frame + unsafe { (*LAYOUT.load(Relaxed)).instruction }
}

/// The frame that called this one in the same activation of the loop, and the word that leads to it; `None`: it is the
/// outermost one.
///
/// # Safety
/// `frame` is one that runs.
pub unsafe fn caller(frame: u64) -> Option<(u64, u64)> {
    // SAFETY: there is a frame, so this was published; the caller vouches for it.
    unsafe {
        let layout = &*LAYOUT.load(Relaxed);
        if let Entry::Flag(at) = layout.entry
            && ((frame + at) as *const u8).read() != 0
        {
            return None;
        }
        let slot = frame + layout.previous;
        let outer = word(slot);
        (is_pointer(outer) && !is_of_loop(layout, outer)).then_some((outer, slot))
    }
}

/// Why a frame has no number.
pub enum Nameless {
    /// It is half-made, or taken apart.
    Unclear,
    /// The stream is full.
    Full,
}

/// What a function is made of. Another one at the same address has another one.
struct Function {
    code: u64,
    file: u64,
    name: u64,
    identity: u64,
    /// The instruction, in bytes from the function's first; -2: it has not begun.
    at: i64,
}

/// The number of the line that a frame is at. What is met for the first time is told to the stream.
///
/// # Safety
/// `frame` is one of the calling thread that runs.
#[inline(never)]
pub unsafe fn identify(frame: u64, writer: &mut Writer) -> Result<u32, Nameless> {
    // SAFETY: there is a frame, so this was published; the caller vouches for the frame.
    unsafe {
        let layout = &*LAYOUT.load(Relaxed);
        let function = function(layout, frame).ok_or(Nameless::Unclear)?;
        // No address of code has these bits.
        let key = mix(function.identity, function.at as u64) | 3 << 62;
        match cache::get(key) {
            Some(known) => Ok(known.id),
            None => learn(layout, &function, key, writer).ok_or(Nameless::Full),
        }
    }
}

#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// # Safety
/// `frame` is one that runs.
#[inline(always)]
unsafe fn function(layout: &Layout, frame: u64) -> Option<Function> {
    let (of_code, of_text) = (CODE_TYPE.load(Relaxed), TEXT_TYPE.load(Relaxed));
    // SAFETY: a frame that runs keeps its code object, and that its texts. Each is believed to be one if it has its
    // type and is referred to; then it has what is read of it.
    unsafe {
        let is = |object: u64, kind: u64| is_pointer(object) && word(object + TYPE) == kind && word(object) != 0;
        let code = word(frame + layout.code);
        if !is(code, of_code) {
            return None;
        }
        let [file, name, lines] = [layout.file, layout.name, layout.lines].map(|at| word(code + at));
        if !is(file, of_text) || !is(name, of_text) || !is_pointer(lines) {
            return None;
        }
        let units = word(code + LENGTH);
        let at = word(frame + layout.instruction).wrapping_sub(code + layout.bytecode) as i64;
        // An instruction has two bytes.
        if units > 1 << 31 || !(-2..=2 * units as i64).contains(&at) || at & 1 != 0 {
            return None;
        }
        let first_line = ((code + layout.first_line) as *const u32).read();
        let lengths = [file, name, lines].map(|object| word(object + LENGTH));
        let ends = [file + layout.ascii, name + layout.ascii, lines + BYTES];
        let words = [code, file, name, lines, units << 32 | u64::from(first_line)];
        let mut identity = words.into_iter().fold(0, mix);
        for (length, begin) in lengths.into_iter().zip(ends) {
            // The last eight bytes; the first of what is shorter, and what is behind it in the same object.
            let last = begin + (length.min(1 << 30).saturating_sub(8));
            identity = mix(mix(identity, length), (last as *const u64).read_unaligned());
        }
        Some(Function { code, file, name, identity, at })
    }
}

/// Tells a line, and its function if that is new too. `None`: the stream is full.
///
/// # Safety
/// As [`function`].
#[cold]
#[inline(never)]
unsafe fn learn(layout: &Layout, function: &Function, key: u64, writer: &mut Writer) -> Option<u32> {
    let of_function = mix(function.identity, u64::MAX) >> 2 | 2 << 62;
    let number = match cache::get(of_function) {
        Some(known) => known.id,
        None => {
            let number = cache::new_id()?;
            let start = first(number);
            let mut place = [0u8; 25];
            place[..8].copy_from_slice(&start.to_le_bytes());
            place[8..16].copy_from_slice(&start.to_le_bytes());
            place[16..24].copy_from_slice(&(start + FUNCTION_BYTES).to_le_bytes());
            let (mut file, mut name) = (Text::<700>::new(), Text::<250>::new());
            // SAFETY: texts, as the caller vouches.
            unsafe {
                letters(layout, function.file, &mut file);
                letters(layout, function.name, &mut name);
            }
            if !writer.meta(meta::MODULE, &[&place, file.bytes(), &[0], name.bytes()]) {
                return None;
            }
            cache::put(of_function, Known { id: number, rule: Rule::FAIL });
            number
        }
    };
    let address = LINE.load(Relaxed);
    // SAFETY: the interpreter's function of this type; it only reads.
    let line = unsafe { core::mem::transmute::<usize, extern "C" fn(u64, c_int) -> c_int>(address) };
    let line = line(function.code, function.at as c_int);
    let line = u64::try_from(line).unwrap_or(0);
    let pc = first(number) + if line + 1 < FUNCTION_BYTES { line } else { 0 } + 1;
    let known = Known { id: cache::new_id()?, rule: Rule::FAIL };
    let mut payload = [0u8; 12];
    payload[..4].copy_from_slice(&known.id.to_le_bytes());
    payload[4..].copy_from_slice(&pc.to_le_bytes());
    if !writer.meta(meta::PC, &[&payload]) {
        return None;
    }
    cache::put(key, known);
    Some(known.id)
}

/// The first address of a function.
fn first(number: u32) -> u64 {
    INTERPRETED + u64::from(number) * FUNCTION_BYTES
}

/// A text's letters, as UTF-8; bytes of a file name that are none, as they are.
///
/// # Safety
/// It is a text.
unsafe fn letters<const N: usize>(layout: &Layout, text: u64, out: &mut Text<N>) {
    // SAFETY: the interpreter's flags say how many bytes each letter has, and where they are.
    unsafe {
        let flags = ((text + layout.flags) as *const u32).read();
        let (width, is_compact, is_ascii) = (flags >> 2 & 7, flags & 1 << 5 != 0, flags & 1 << 6 != 0);
        let begin = text + if is_ascii { layout.ascii } else { layout.wide };
        if !is_compact {
            return;
        }
        for index in 0..word(text + LENGTH).min(N as u64) {
            let letter = match width {
                1 => u32::from(((begin + index) as *const u8).read()),
                2 => u32::from(((begin + 2 * index) as *const u16).read()),
                4 => ((begin + 4 * index) as *const u32).read(),
                _ => return,
            };
            match char::from_u32(letter).filter(|letter| *letter != '\0') {
                Some(letter) => out.push(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                None if (0xdc80..0xdd00).contains(&letter) => out.push(&[letter as u8]),
                None => out.push(b"?"),
            }
        }
    }
}

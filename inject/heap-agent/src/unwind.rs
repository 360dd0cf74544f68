//! Taking a stack: verified incremental unwinding.
//!
//! The next frame is a pure function of (pc, sp, rbp) and of two words of the stack, the return address and the saved
//! rbp. A lane remembers its last stack with the places of these words. A new walk goes from the innermost frame
//! outwards by rules until it meets a remembered frame; then it compares the remaining words with what they were. If
//! they are equal, the rest of the stack is the same, proven without any rule. Where a word has changed the walk goes
//! on by rules from there, so the work stays linear.
//!
//! What an interpreter runs in a native frame follows that frame outwards, as frames whose pc is the instruction that
//! they are at and whose rbp is the interpreter's own frame: words of its structures lead from one to the next, and are
//! compared like those of the stack.

use crate::cfi::{Kind, Rule};
use crate::writer::Writer;
use crate::{cache, module, python};
use heap_wire::mark;

/// Room for remembered frames.
pub const FRAMES: usize = 256;
const FRAMES_BYTES: u64 = (FRAMES * size_of::<Frame>()) as u64;

/// Where the program called an allocation function: its return address, its stack pointer after the return, its rbp.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Caller {
    pub pc: u64,
    pub sp: u64,
    pub rbp: u64,
}

/// A remembered frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frame {
    pub at: Caller,
    /// Where the caller's pc was read; 0: nowhere, this is the outermost one.
    ret_slot: u64,
    /// Where the caller's rbp was read; after [`commit`] never 0.
    rbp_slot: u64,
    pub id: u32,
}

/// A walk: this many elements of the remembered stack stay (its mark counts), this many new frames are in `scratch`,
/// innermost first.
#[derive(Clone, Copy)]
pub struct Walk {
    pub keep: usize,
    pub new: usize,
    /// The mark, if nothing stays.
    pub mark: u32,
}

/// Never equal to a return address, nor to a frame pointer that was read: a link that is always walked anew.
static NEVER: u64 = 0;

/// The same, of a native frame from which the interpreter's own chain leads on: see [`python::still`].
static RUNS: u64 = 0;

/// The stack pointer of what an interpreter runs is that of the native frame that it runs in, and this.
const INTERPRETED: u64 = 1;

/// What a lane remembers of its last stack. Zeros are one that nothing was walked into.
#[repr(C)]
pub struct Stack {
    /// Where addresses that are met for the first time are told. Here, so that a walk needs one pointer: each more
    /// costs instructions at every event.
    pub writer: Writer,
    /// Elements of `frames` in use, the mark among them.
    pub depth: usize,
    /// Depth limit.
    pub limit: usize,
    /// Where the thread's stack begins (its highest address).
    pub top: u64,
    pub frames: [Frame; FRAMES],
    scratch: [Frame; FRAMES],
}

/// Makes the remembered stack an empty one.
pub fn forget(stack: &mut Stack) {
    stack.frames[0] = Frame { at: Caller { pc: 0, sp: u64::MAX, rbp: 0 }, ret_slot: 0, rbp_slot: 0, id: mark::ROOT };
    stack.depth = 1;
}

/// Walks from a caller outwards; addresses that are met for the first time are told to the stream.
///
/// # Safety
/// `caller` is the true state of the calling thread, whose lane this is of.
#[inline]
pub unsafe fn walk(stack: &mut Stack, caller: Caller) -> Walk {
    let frames = stack.frames.as_mut_ptr();
    // Places of words may be in the frames themselves: see `commit`.
    let _ = frames.expose_provenance();
    // `known` elements of the memory may still match: all frames beyond have been left.
    let mut known = stack.depth;
    let mut at = caller;
    let mut new = 0;
    let limit = stack.limit;
    let mut stop_at = limit;
    let mut chain = python::Chain::default();
    // SAFETY: `known` is 1..=depth, so all indexes are inside; frame 0 has the largest sp and ends the search. Slots
    // are words of this thread's stack above its present sp.
    unsafe {
        loop {
            while (*frames.add(known - 1)).at.sp < at.sp {
                known -= 1;
            }
            if at.sp & INTERPRETED != 0 {
                known = beside(stack, known, at);
            }
            if (*frames.add(known - 1)).at == at {
                let mut link = known - 1;
                while link >= 2
                    && (holds(&*frames.add(link), &*frames.add(link - 1))
                        || runs(&*frames.add(link), &*frames.add(link - 1), &mut chain))
                {
                    link -= 1;
                }
                let total = new + known - 1;
                let cut = (*frames).id == mark::DEPTH;
                if link == 1 && total <= 2 * limit && !(cut && total < limit) {
                    return Walk { keep: known, new, mark: mark::ROOT };
                }
                if link == 1 && total < limit {
                    // The cut has come too near: walk on beyond it, and some more, so that this is rare.
                    stop_at = limit + limit / 2;
                }
                // Frames down to the changed link are as they were; that one is walked anew.
                for index in (link + 1..known).rev() {
                    if new >= stop_at {
                        return Walk { keep: 0, new, mark: mark::DEPTH };
                    }
                    stack.scratch[new] = *frames.add(index);
                    new += 1;
                }
                at = (*frames.add(link)).at;
                known = link;
            }
            if new >= stop_at {
                return Walk { keep: 0, new, mark: mark::DEPTH };
            }
            if at.sp & INTERPRETED != 0 {
                match interpreted(stack, at, new) {
                    Ok(next) => (at, new) = (next, new + 1),
                    Err(mark) => return Walk { keep: 0, new, mark },
                }
                continue;
            }
            let Some(found) = cache::get(at.pc).or_else(|| module::learn(&mut stack.writer, at.pc)) else {
                return Walk { keep: 0, new, mark: mark::RULE };
            };
            let mut frame = Frame { at, ret_slot: 0, rbp_slot: 0, id: found.id };
            let end = step(found.rule, &mut frame, stack.top);
            *stack.scratch.get_unchecked_mut(new) = frame;
            new += 1;
            if let Ok(next) = end
                && found.rule == Rule::GUESS
                && module::is_of_another(next.pc)
            {
                let at = Caller { pc: mark::SKIPPED, ..next };
                if let Some(gap) = cache::get(at.pc).or_else(|| module::learn(&mut stack.writer, at.pc)) {
                    // Nothing leads through it, so that what is beyond is always walked anew.
                    let never = &raw const NEVER as u64;
                    stack.scratch[new] = Frame { at, ret_slot: never, rbp_slot: never, id: gap.id };
                    new += 1;
                }
            }
            if let Ok(next) = end
                && found.rule.interprets()
                && let Some(inner) = enter(stack, new - 1, next, &mut chain)
            {
                at = inner;
                continue;
            }
            match end {
                Ok(next) if next.pc >= 0x1000 => at = next,
                Ok(next) => {
                    // Nothing lies in the first page: a zero is the usual end of hand-made stacks.
                    stack.scratch[new - 1].ret_slot = 0;
                    return Walk { keep: 0, new, mark: if next.pc == 0 { mark::ROOT } else { mark::BOUNDS } };
                }
                Err(mark) => return Walk { keep: 0, new, mark },
            }
        }
    }
}

/// Whether the words that lead from a frame to its caller are what they were.
///
/// # Safety
/// The slots are mapped.
#[inline(always)]
unsafe fn holds(frame: &Frame, caller: &Frame) -> bool {
    // What an interpreter runs is there as long as something leads to it, which is the second word: it is read first.
    // SAFETY: the caller vouches.
    unsafe { *(frame.rbp_slot as *const u64) == caller.at.rbp && *(frame.ret_slot as *const u64) == caller.at.pc }
}

/// How many elements of the remembered stack may still match, where an interpreter's frame is looked for: all that run
/// in one native frame have the same place.
#[cold]
#[inline(never)]
fn beside(stack: &Stack, known: usize, at: Caller) -> usize {
    let frames = stack.frames.get(..known).unwrap_or(&[]);
    let beside = frames.iter().rev().take_while(|frame| frame.at.sp == at.sp);
    let skipped = beside.take_while(|frame| frame.at != at).count();
    match frames.get(known.wrapping_sub(skipped + 1)) {
        Some(frame) if frame.at == at => known - skipped,
        _ => known,
    }
}

/// Whether a native frame of an interpreter still runs what it ran, where no word of the stack says so.
///
/// # Safety
/// The frame is one of the calling thread's stack as it is; what is inside of it was walked or compared before.
#[inline(never)]
unsafe fn runs(native: &Frame, inner: &Frame, chain: &mut python::Chain) -> bool {
    native.ret_slot == &raw const RUNS as u64
        && inner.at.sp & INTERPRETED != 0
        // SAFETY: the caller vouches; the slot is a word of the native frame.
        && unsafe { python::still(inner.at.rbp, inner.at.pc, native.rbp_slot, chain) }
}

/// From a native frame of an interpreter's loop to the innermost function that it runs; `None`: it is not known.
///
/// # Safety
/// The frame, in `scratch`, is one of the calling thread's, and was just walked by its rule to `next`.
#[cold]
#[inline(never)]
unsafe fn enter(stack: &mut Stack, native: usize, next: Caller, chain: &mut python::Chain) -> Option<Caller> {
    // SAFETY: the caller vouches; a frame that runs has an instruction.
    unsafe {
        let native = stack.scratch.get_mut(native)?;
        let inner = python::innermost(native.at.sp..next.sp, chain)?;
        native.id = cache::get(mark::RUNS).or_else(|| module::learn(&mut stack.writer, mark::RUNS))?.id;
        let instruction = python::instruction_of(inner.frame);
        native.ret_slot = if inner.is_chained { &raw const RUNS as u64 } else { instruction };
        native.rbp_slot = inner.slot;
        let pc = *(instruction as *const u64);
        Some(Caller { pc, sp: native.at.sp | INTERPRETED, rbp: inner.frame })
    }
}

/// Takes a frame of an interpreter, `new` frames being in `scratch`, and returns its caller: another one, or that of
/// the native frame that they run in.
///
/// # Safety
/// The frame is one of the calling thread that runs.
#[cold]
#[inline(never)]
unsafe fn interpreted(stack: &mut Stack, at: Caller, new: usize) -> Result<Caller, u32> {
    // SAFETY: the caller vouches.
    unsafe {
        let outer = match python::identify(at.rbp, &mut stack.writer) {
            Ok(id) => Some((id, python::caller(at.rbp))),
            Err(python::Nameless::Unclear) => None,
            Err(python::Nameless::Full) => return Err(mark::RULE),
        };
        let (id, outer) = match outer {
            Some(known) => known,
            None => {
                let gap = cache::get(mark::SKIPPED).or_else(|| module::learn(&mut stack.writer, mark::SKIPPED));
                (gap.ok_or(mark::RULE)?.id, None)
            }
        };
        let (ret_slot, rbp_slot, next) = match outer {
            Some((frame, slot)) => {
                let instruction = python::instruction_of(frame);
                (instruction, slot, Caller { pc: *(instruction as *const u64), sp: at.sp, rbp: frame })
            }
            None => {
                let inner = stack.scratch.get(..new).unwrap_or(&[]);
                let native = inner.iter().rev().find(|frame| frame.at.sp == at.sp & !INTERPRETED).ok_or(mark::RULE)?;
                let mut native = Frame { at: native.at, ..*native };
                let known = cache::get(native.at.pc).ok_or(mark::RULE)?;
                let next = step(known.rule, &mut native, stack.top)?;
                (native.ret_slot, native.rbp_slot, next)
            }
        };
        let place = stack.scratch.get_mut(new).ok_or(mark::DEPTH)?;
        *place = Frame { at, ret_slot, rbp_slot, id };
        Ok(next)
    }
}

/// The caller of a frame; fills in where it was read.
///
/// # Safety
/// The frame is one of the calling thread's.
#[inline(always)]
unsafe fn step(rule: Rule, frame: &mut Frame, top: u64) -> Result<Caller, u32> {
    let Caller { sp, rbp, .. } = frame.at;
    // On a stack that is not the thread's own (a coroutine's, a signal's) there is no bound but the rule.
    let own = sp < top;
    let top = if own { top } else { u64::MAX };
    let inside = |address: u64| address >= sp && address <= top.wrapping_sub(8) && address & 7 == 0;
    let frame_end = match rule.kind() {
        Kind::Rsp => sp.wrapping_add(rule.offset()),
        Kind::Rbp => rbp.wrapping_add(rule.offset()),
        Kind::Deref => {
            let slot = rbp.wrapping_add(rule.offset());
            if !inside(slot) {
                return Err(mark::BOUNDS);
            }
            // SAFETY: an aligned word between sp and the end of the stack.
            unsafe { *(slot as *const u64) }
        }
        Kind::Guess if own && inside(rbp) => rbp.wrapping_add(16),
        Kind::Guess | Kind::Fail => return Err(mark::RULE),
        Kind::End => return Err(mark::ROOT),
        // SAFETY: sp is where the kernel put struct ucontext.
        Kind::Signal => return unsafe { Ok(interrupted(frame)) },
    };
    let ret_slot = frame_end.wrapping_sub(8);
    if !inside(ret_slot) {
        return Err(mark::BOUNDS);
    }
    let rbp_slot = match rule.kind() {
        Kind::Guess => rbp,
        Kind::Deref => rbp.wrapping_add(rule.saved()).wrapping_sub(8),
        _ if rule.saved() == 0 => 0,
        _ => frame_end.wrapping_add(rule.saved()),
    };
    if rbp_slot != 0 && !inside(rbp_slot) {
        return Err(mark::BOUNDS);
    }
    frame.ret_slot = ret_slot;
    frame.rbp_slot = rbp_slot;
    // SAFETY: both are aligned words between sp and the end of the stack, and the stack is mapped from sp upwards.
    unsafe {
        let rbp = if rbp_slot == 0 { rbp } else { *(rbp_slot as *const u64) };
        Ok(Caller { pc: *(ret_slot as *const u64), sp: frame_end, rbp })
    }
}

/// What a signal interrupted: rbp, rsp and rip of the machine context behind flags, link and stack of `ucontext`.
///
/// # Safety
/// `frame` is at the signal trampoline.
#[cold]
unsafe fn interrupted(frame: &mut Frame) -> Caller {
    frame.ret_slot = &raw const NEVER as u64;
    let context = frame.at.sp as *const u64;
    // SAFETY: the kernel's layout on x86-64; rip is exact, and all users take one off, hence the one more.
    unsafe { Caller { pc: (*context.add(21)).wrapping_add(1), sp: *context.add(20), rbp: *context.add(15) } }
}

/// Makes a walk the remembered stack.
#[inline]
pub fn commit(stack: &mut Stack, walk: Walk) {
    let mut depth = walk.keep;
    let first = stack.frames.as_ptr() as u64;
    if depth == 0 {
        forget(stack);
        stack.frames[0].id = walk.mark;
        depth = 1;
    }
    for index in (0..walk.new).rev() {
        // SAFETY: keep + new is at most 2 * limit + 1, which is below the length of both.
        unsafe {
            let frame = stack.frames.get_unchecked_mut(depth);
            *frame = *stack.scratch.get_unchecked(index);
            if frame.rbp_slot == 0 || (first..first + FRAMES_BYTES).contains(&frame.rbp_slot) {
                frame.rbp_slot = &raw const frame.at.rbp as u64;
            }
        }
        depth += 1;
    }
    stack.depth = depth;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::arch::naked_asm;
    #[cfg(feature = "times")]
    use std::time::Instant;

    /// Calls a function with the caller's state, as the hooks do.
    #[unsafe(naked)]
    extern "C" fn here(f: extern "C" fn(u64, u64, u64, usize), argument: usize) {
        naked_asm!("mov rax, rdi", "mov rcx, rsi", "mov rdi, [rsp]", "lea rsi, [rsp + 8]", "mov rdx, rbp", "jmp rax")
    }

    #[inline(never)]
    fn deep(depth: usize, f: extern "C" fn(u64, u64, u64, usize), argument: usize) -> usize {
        if depth == 0 {
            here(f, argument);
            return 1;
        }
        std::hint::black_box(deep(depth - 1, f, argument)) + 1
    }

    fn memory() -> Box<Stack> {
        crate::symbols::find(c"_dl_find_object", crate::symbols::Which::First);
        crate::tls::MAIN_TOP.store(u64::MAX, core::sync::atomic::Ordering::Relaxed);
        let layout = std::alloc::Layout::new::<Stack>();
        // SAFETY: zeros are valid for every field.
        let mut stack = unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast::<Stack>()) };
        (stack.limit, stack.top) = (64, crate::tls::stack_top());
        forget(&mut stack);
        stack.writer = crate::writer::for_tests();
        stack
    }

    extern "C" fn twice(pc: u64, sp: u64, rbp: u64, expected: usize) {
        let mut stack = memory();
        let at = Caller { pc, sp, rbp };
        // SAFETY: the true state of this thread.
        unsafe {
            let first = walk(&mut stack, at);
            assert!(first.keep == 0 && first.new >= expected, "{} of {expected}", first.new);
            commit(&mut stack, first);
            let second = walk(&mut stack, at);
            assert_eq!((second.keep, second.new), (stack.depth, 0), "all of it was there before");
            // A changed word ends what can be kept.
            let outer = stack.frames[stack.depth - 3].at;
            stack.frames[stack.depth - 3].at.pc += 1;
            let third = walk(&mut stack, at);
            assert!(third.keep < stack.depth - 2 && third.new >= 3);
            stack.frames[stack.depth - 3].at = outer;
        }
    }

    #[test]
    fn an_unchanged_stack_is_kept_and_a_changed_one_is_walked() {
        deep(30, twice, 30);
        deep(10, twice, 10);
    }

    #[cfg(feature = "times")]
    extern "C" fn timed(pc: u64, sp: u64, rbp: u64, _: usize) {
        let (mut stack, at) = (memory(), Caller { pc, sp, rbp });
        const TIMES: u32 = 200_000;
        // SAFETY: the true state of this thread.
        let ours = unsafe {
            let first = walk(&mut stack, at);
            commit(&mut stack, first);
            let began = Instant::now();
            for _ in 0..TIMES {
                std::hint::black_box(walk(&mut stack, std::hint::black_box(at)));
            }
            began.elapsed() / TIMES
        };
        // SAFETY: libunwind's function of this type, if it is installed.
        let theirs = unsafe {
            unsafe extern "C" {
                fn dlopen(path: *const core::ffi::c_char, flags: i32) -> *mut core::ffi::c_void;
                fn dlsym(handle: *mut core::ffi::c_void, name: *const core::ffi::c_char) -> *mut core::ffi::c_void;
            }
            let library = dlopen(c"libunwind.so.8".as_ptr(), 2);
            let function = if library.is_null() { library } else { dlsym(library, c"unw_backtrace".as_ptr()) };
            (!function.is_null()).then(|| {
                let backtrace: unsafe extern "C" fn(*mut usize, i32) -> i32 = core::mem::transmute(function);
                let mut buffer = [0; 64];
                let frames = backtrace(buffer.as_mut_ptr(), 64);
                let began = Instant::now();
                for _ in 0..TIMES {
                    std::hint::black_box(backtrace(buffer.as_mut_ptr(), 64));
                }
                (began.elapsed() / TIMES, frames)
            })
        };
        println!("{} frames: {ours:?} a stack; libunwind: {theirs:?}", stack.depth - 1);
    }

    /// Prints times, for `claims/heap/capture`.
    #[cfg(feature = "times")]
    #[test]
    fn times() {
        for depth in [10, 15, 30, 50] {
            deep(depth, timed, 0);
        }
    }
}

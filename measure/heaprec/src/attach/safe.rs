//! Where a thread may be borrowed for a call, and whether all may be held while code is replaced.
//!
//! The call loads the guest, so it needs the dynamic linker and the allocator. Other threads run meanwhile: what they
//! hold they give back. So only the borrowed thread must hold nothing: it is in code outside of the C library, or waits
//! in a system call that neither the allocator nor the dynamic linker makes, and none of its callers is one of these,
//! also not behind a signal handler.

use super::objects::{Objects, StackFrame, Still};
use super::target::Target;
use heap_wire::attach::BYTES;
use os::ptrace::{Memory, Registers, Replaced, Thread};
use std::ops::Range;

/// Functions of the C library that hold locks, or are about to change what is loaded or who runs. `malloc` to `pvalloc`
/// stand in one piece of code.
const HOLDERS: [&str; 12] = [
    "pthread_create",
    "fork",
    "_Fork",
    "vfork",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "pthread_exit",
    "pthread_atfork",
    "__cxa_finalize",
    "__libc_freeres",
];
/// The allocator's functions, whose code lies together.
const ALLOCATOR: [&str; 17] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "posix_memalign",
    "malloc_trim",
    "malloc_usable_size",
    "mallinfo",
    "mallinfo2",
    "mallopt",
    "malloc_stats",
    "malloc_info",
    "reallocarray",
];

/// Why a moment is not the right one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotNow {
    /// A thread is in the dynamic linker.
    Loader,
    /// The dynamic linker is changing the list of objects.
    Changing,
    /// A thread is still in the guest of an earlier recording.
    Guest,
    /// No thread could be borrowed; what the best one did.
    Busy(&'static str),
}

impl NotNow {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Self::Loader => "a thread was in the dynamic linker each time (a constructor that does not end?)".into(),
            Self::Changing => "the dynamic linker was changing the list of objects each time".into(),
            Self::Guest => "a thread was still in the guest of an earlier recording each time".into(),
            Self::Busy(what) => format!("no thread was at a place where it could be borrowed: each was {what}"),
        }
    }
}

/// What is known of the code of a process.
#[derive(Debug)]
pub struct Code {
    loader: Range<u64>,
    library: Range<u64>,
    guest: Range<u64>,
    /// The allocator in use is not the C library's: what its code looks like inside is not known.
    foreign: bool,
    /// No frame may be in one of these.
    holders: Vec<Range<u64>>,
    /// `_r_debug`.
    debug: Option<u64>,
}

impl Code {
    /// Looks functions up.
    pub fn of(target: &Target, guest: Range<u64>) -> Self {
        let objects = &target.objects;
        let range = |objects: &Objects, path| {
            objects.loaded.iter().find(|it| it.path == path).map_or(0..0, |it| it.range.clone())
        };
        let (loader, library) = (range(objects, target.loader.clone()), range(objects, target.library.clone()));
        let debug = objects.symbols(&target.loader, &["_r_debug"])[0].as_ref().map(|symbol| symbol.start);
        let mut holders: Vec<Range<u64>> = objects.symbols(&target.library, &HOLDERS).into_iter().flatten().collect();
        // The first object that defines malloc is the one whose allocator is in use.
        let paths: Vec<_> =
            objects.loaded.iter().map(|loaded| loaded.path.clone()).filter(|path| *path != target.library).collect();
        let mut foreign = false;
        let guest_path = objects.at(guest.start).map(|loaded| loaded.path.clone());
        for path in [target.library.clone()].into_iter().chain(paths) {
            let found: Vec<_> = objects.symbols(&path, &ALLOCATOR).into_iter().collect();
            if found[0].is_none() || path == target.loader || Some(&path) == guest_path.as_ref() {
                continue;
            }
            let (start, end) =
                (found.iter().flatten().map(|it| it.start).min(), found.iter().flatten().map(|it| it.end).max());
            if path == target.library {
                holders.push(start.unwrap_or(0)..end.unwrap_or(0));
            } else {
                holders.extend(found.into_iter().flatten());
                foreign = true;
            }
        }
        Self { loader, library, guest, foreign, holders, debug }
    }

    /// Whether the process may be changed now at all.
    pub fn is_quiet(&self, memory: &Still<'_>, stacks: &[(i32, Registers, Vec<StackFrame>)]) -> Result<(), NotNow> {
        // struct r_debug: version, list, function, state; 0: consistent.
        if self.debug.is_some_and(|at| memory.word(at + 24).is_some_and(|state| state & 0xffff_ffff != 0)) {
            return Err(NotNow::Changing);
        }
        for (_, _, frames) in stacks {
            if frames.iter().any(|frame| self.loader.contains(&frame.pc)) {
                return Err(NotNow::Loader);
            }
            if frames.iter().any(|frame| self.guest.contains(&frame.pc)) {
                return Err(NotNow::Guest);
            }
        }
        Ok(())
    }

    /// Whether a thread may be borrowed. `Ok`: how gladly; less is better.
    pub fn may_borrow(
        &self,
        thread: &Thread,
        registers: &Registers,
        frames: &[StackFrame],
        memory: &Still<'_>,
        keeps_errno: bool,
    ) -> Result<u8, NotNow> {
        if thread.has_signal() {
            return Err(NotNow::Busy("about to handle a signal"));
        }
        if frames.iter().any(|frame| self.holders.iter().any(|range| range.contains(&frame.pc))) {
            return Err(NotNow::Busy("in the allocator, or in a function of the C library that holds locks"));
        }
        for (depth, frame) in frames.iter().enumerate().filter(|(_, frame)| frame.interrupted) {
            let in_call = is_after_call(memory, frame.pc) && (depth > 0 || registers.orig_rax.cast_signed() >= 0);
            let waits = depth == 0 && in_call && waits(registers.orig_rax, self.foreign);
            let elsewhere = !self.foreign && !self.library.contains(&frame.pc);
            if !(waits || elsewhere) {
                return Err(NotNow::Busy(if in_call {
                    "in a system call that may hold locks"
                } else {
                    "within the C library"
                }));
            }
        }
        let in_call = registers.orig_rax.cast_signed() >= 0;
        if !in_call && (!keeps_errno || is_in_sequence(thread, registers, memory)) {
            return Err(NotNow::Busy("in a restartable sequence"));
        }
        Ok(u8::from(!in_call))
    }

    /// A thread that is, or was interrupted by a signal that it still handles, inside of the bytes that are to be
    /// replaced: its number and the address. `None`: the code may be replaced now.
    ///
    /// No call is among the instructions that the guest moves, so no return address can lie there; any other word of a
    /// stack that looks like such an address is left over or chance, and may stay for as long as its thread waits.
    pub fn within(memory: &Memory, threads: &[Thread], places: &[Replaced]) -> std::io::Result<Option<(i32, u64)>> {
        /// A signal handler's frame, and what it interrupted, is this near.
        const NEAR: usize = 64 << 10;
        let mut starts: Vec<u64> = places.iter().map(|place| place.address).collect();
        starts.sort_unstable();
        let inside = |pc: u64| {
            let before = starts.partition_point(|start| *start < pc);
            before > 0 && pc - starts[before - 1] < BYTES as u64
        };
        let mut stack = vec![0; NEAR];
        for thread in threads {
            let registers = thread.registers()?;
            let read = memory.read_mapped(registers.rsp, &mut stack);
            let words = stack[..read].chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
            let words: Vec<u64> = words.collect();
            // `struct sigcontext`: rip, eflags, then cs, gs, fs, ss of 16 bits each.
            let is_context = |words: &&[u64]| inside(words[0]) && words[2] & 0xffff == registers.cs & 0xffff;
            let interrupted = words.windows(3).find(is_context).map(|words| words[0]);
            if let Some(pc) = Some(registers.rip).filter(|pc| inside(*pc)).or(interrupted) {
                return Ok(Some((thread.tid, pc)));
            }
        }
        Ok(None)
    }
}

/// Whether a thread is in a restartable sequence, which the kernel would forget when the thread is taken out of it.
pub fn is_in_sequence(thread: &Thread, registers: &Registers, memory: &Still<'_>) -> bool {
    let in_call = registers.orig_rax.cast_signed() >= 0;
    !in_call && thread.rseq().is_some_and(|at| memory.word(at + 8).unwrap_or(1) != 0)
}

/// Whether an address is behind a `syscall` instruction.
fn is_after_call(memory: &Still<'_>, pc: u64) -> bool {
    let mut code = [0; 2];
    memory.read(pc.wrapping_sub(2), &mut code).is_some() && code == [0x0f, 0x05]
}

/// System calls in which a program waits for something. An allocator of its own may wait for its lock by futex.
fn waits(number: u64, foreign: bool) -> bool {
    match number {
        // futex
        202 => !foreign,
        // read, write, poll, pread, pwrite, readv, writev, select, pause, nanosleep, accept to recvmsg, wait4, flock,
        // fsync, fdatasync
        0 | 1 | 7 | 17..=20 | 23 | 34 | 35 | 42..=47 | 61 | 73..=75 => true,
        // semop, msgsnd, msgrcv, rt_sigtimedwait, rt_sigsuspend, io_getevents, semtimedop, clock_nanosleep, epoll_wait
        65 | 69 | 70 | 128 | 130 | 208 | 220 | 230 | 232 => true,
        // waitid, pselect6, ppoll, splice, epoll_pwait, accept4, preadv, pwritev, recvmmsg, sendmmsg, copy_file_range,
        // io_uring_enter, epoll_pwait2
        247 | 270 | 271 | 275 | 281 | 288 | 295 | 296 | 299 | 307 | 326 | 426 | 441 => true,
        _ => false,
    }
}

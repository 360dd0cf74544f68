//! How often the functions that a user chose were called: memory that all processes of a tree share, in which the stubs
//! of [`super::count_stub`] count. One for each file.
//!
//! In the memory lie, page by page: room for the code of the stubs, of which each process has a copy of its own, since
//! addresses stand in it; the number of cells in use; their list; what each function has for itself; the cells; the
//! calls that were noted one by one. Pages that nobody uses are not there.

use super::count_stub::{self, Call, Cell, Head, Own, READY, STUB_HEAD};
use super::displaced;
use super::shared::{Clock, Shared, is_free, memory_file};
use os::process::Mapping;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

const PAGE: u64 = model::PAGE;
/// What a stub takes, in lines of the cache.
const STUB: usize = (STUB_HEAD + displaced::MOST).next_multiple_of(64);
/// The cells of all functions of a file take so much at most, unless that leaves a function less than it needs.
const CELLS: usize = 16 << 20;
const CALLS: usize = 16 << 20;
/// Cells and noted calls of a function, as powers of two.
const CELL_BITS: std::ops::RangeInclusive<u32> = 5..=12;
const CALL_BITS: std::ops::RangeInclusive<u32> = 4..=10;
/// Set in the base of a cell whose thread is gone; the rest is its number then.
const GONE: u64 = 1 << 63;

/// Where everything lies in the memory: offsets, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    used: u64,
    list: u64,
    owns: u64,
    cells: u64,
    calls: u64,
    end: u64,
}

/// Calls of a function by one caller in one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Where they return to.
    pub back: u64,
    /// The number that the address space was given.
    pub space: u32,
    /// Who called.
    pub thread: Thread,
    /// How many.
    pub count: u64,
    /// CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// CLOCK_MONOTONIC.
    pub last_ns: u64,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// What its FS register held.
    Base(u64),
    /// Its number.
    Id(i32),
}

/// A call that was noted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Where it returns to.
    pub back: u64,
    /// What the thread's FS register held.
    pub base: u64,
    /// The number that the address space was given.
    pub space: u32,
}

/// All that is known of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// By caller and thread.
    pub counted: Vec<Counted>,
    /// Calls of whom nobody knows the caller and the thread.
    pub others: u64,
    /// The last of these, CLOCK_MONOTONIC.
    pub others_last_ns: Option<u64>,
    /// The first ones, one by one.
    pub noted: Vec<Noted>,
}

/// The memory, mapped here too.
#[derive(Debug)]
pub struct Tally {
    fd: OwnedFd,
    inode: (u64, u64),
    memory: Shared,
    functions: usize,
    cell_bits: u32,
    call_bits: u32,
    parts: Parts,
    clock: Clock,
}

impl Tally {
    /// For so many functions.
    ///
    /// # Errors
    /// No memory.
    pub fn of(functions: usize) -> io::Result<Self> {
        let share = |all: usize, one: usize, bits: std::ops::RangeInclusive<u32>| {
            (all / one / functions.max(1)).max(1).ilog2().clamp(*bits.start(), *bits.end())
        };
        let cell_bits = share(CELLS, size_of::<Cell>(), CELL_BITS);
        let call_bits = share(CALLS, size_of::<Call>(), CALL_BITS);
        let pages = |bytes: usize| (bytes as u64).next_multiple_of(PAGE);
        let used = pages(stubs_begin() + functions * STUB);
        let list = used + PAGE;
        let owns = list + pages((functions << cell_bits) * size_of::<u32>());
        let cells = owns + pages(functions * size_of::<Own>());
        let calls = cells + pages((functions << cell_bits) * size_of::<Cell>());
        let end = calls + pages((functions << call_bits) * size_of::<Call>());
        let (fd, inode) = memory_file("thaw-count", end)?;
        let memory = Shared::of(&fd, end as usize)?;
        let parts = Parts { used, list, owns, cells, calls, end };
        Ok(Self { fd, inode, memory, functions, cell_bits, call_bits, parts, clock: Clock::now() })
    }

    /// The memory as `/proc/PID/maps` names it.
    pub fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// A path by which a process of the same user can open it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Bytes of all of it, and of the code.
    pub fn len(&self) -> (u64, u64) {
        (self.parts.end, self.parts.used)
    }

    /// How many calls of a function are noted one by one.
    pub fn room(&self) -> usize {
        1 << self.call_bits
    }

    /// Where it fits in a process that has code from here to there, these mappings and what is taken since: so that a
    /// jump reaches all of both, but not next to the code, where a program maps what comes next.
    pub fn place(&self, (start, end): (u64, u64), maps: &[Mapping], taken: &[Range<u64>]) -> Option<u64> {
        const NEAR: u64 = 1 << 30;
        const FAR: u64 = (1 << 31) - (64 << 20);
        const STEP: u64 = 2 << 20;
        let len = self.parts.end;
        let ways = (NEAR..FAR).step_by(STEP as usize);
        let below = ways.clone().filter_map(|way| start.checked_sub(way)).map(|at| at / PAGE * PAGE);
        let above = ways.filter_map(|way| start.checked_add(way));
        let reaches = |at: &u64| at.max(&start).abs_diff(*at.min(&start)) < FAR && end.abs_diff(*at) + len < FAR;
        // The lowest pages are nobody's.
        below
            .filter(|at| *at >= 1 << 24)
            .chain(above)
            .filter(reaches)
            .find(|at| is_free(*at, len, maps) && taken.iter().all(|taken| taken.end <= *at || at + len <= taken.start))
    }

    /// Where the stub of a function begins in the memory.
    pub fn stub_at(&self, number: usize) -> usize {
        stubs_begin() + number * STUB
    }

    /// The code that all stubs of a process share, with the number of its address space.
    pub fn common(&self, space: u32) -> Vec<u8> {
        let Parts { used, list, owns, cells, calls, .. } = self.parts;
        let head = Head {
            cells: cells.cast_signed(),
            owns: owns.cast_signed(),
            calls: calls.cast_signed(),
            list: list.cast_signed(),
            used: used.cast_signed(),
            space,
            room: 1 << self.call_bits,
            hash: 64 - self.cell_bits,
            stride: self.cell_bits + size_of::<Cell>().ilog2(),
            mask: (1 << self.cell_bits) - 1,
            bits: self.cell_bits,
        };
        let mut code = count_stub::code().0.to_vec();
        super::shared::write(&mut code, 0, head);
        code
    }

    /// Where in that code the number of the address space stands.
    pub fn number_at() -> u64 {
        std::mem::offset_of!(Head, space) as u64
    }

    /// A thread has begun whose FS register holds what that of a thread before it held, which was this one: what that
    /// one has called is not the new one's.
    pub fn retire(&self, space: u32, base: u64, before: i32) {
        for at in self.cells_in_use() {
            let cell: Cell = self.memory.read(at);
            if (cell.space, cell.base, cell.state) == (space, base, READY) {
                let gone = GONE | u64::from(before.cast_unsigned());
                self.memory.set_u64(at + std::mem::offset_of!(Cell, base), gone);
            }
        }
    }

    fn cells_in_use(&self) -> impl Iterator<Item = usize> {
        let most = self.functions << self.cell_bits;
        let used = usize::try_from(self.memory.read::<u64>(self.parts.used as usize)).unwrap_or(most).min(most);
        (0..used).filter_map(move |place| {
            let number = self.memory.read::<u32>(self.parts.list as usize + place * size_of::<u32>()) as usize;
            // Programs can write there.
            let number = number.checked_sub(1).filter(|number| *number < most)?;
            Some(self.parts.cells as usize + number * size_of::<Cell>())
        })
    }

    /// What was counted until now, by function.
    pub fn totals(&self) -> Vec<Total> {
        let ns = self.clock.to_ns();
        let mut totals = vec![Total::default(); self.functions];
        for at in self.cells_in_use() {
            let cell: Cell = self.memory.read(at);
            let function = (at - self.parts.cells as usize) >> (self.cell_bits + size_of::<Cell>().ilog2());
            if cell.state == READY && cell.count > 0 {
                let thread = match cell.base & GONE {
                    0 => Thread::Base(cell.base),
                    _ => Thread::Id((cell.base as u32).cast_signed()),
                };
                totals[function].counted.push(Counted {
                    back: cell.back,
                    space: cell.space,
                    thread,
                    count: cell.count,
                    first_ns: ns(cell.first),
                    last_ns: ns(cell.last),
                });
            }
        }
        for (number, total) in totals.iter_mut().enumerate() {
            // A function without calls has no pages, and to read would make them.
            if total.counted.is_empty() {
                continue;
            }
            let own: Own = self.memory.read(self.parts.owns as usize + number * size_of::<Own>());
            total.others = own.others;
            total.others_last_ns = (own.others > 0).then(|| ns(own.last));
            let room = self.room();
            let noted = usize::try_from(own.noted).unwrap_or(room).min(room);
            let first = self.parts.calls as usize + number * room * size_of::<Call>();
            let calls = (0..noted).map(|place| self.memory.read::<Call>(first + place * size_of::<Call>()));
            total.noted = calls
                .filter(|call| call.at != 0)
                .map(|call| Noted { at_ns: ns(call.at), back: call.back, base: call.base, space: call.space as u32 })
                .collect();
            total.noted.sort_by_key(|call| call.at_ns);
        }
        totals
    }
}

fn stubs_begin() -> usize {
    count_stub::code().0.len().next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code as a process has it, here.
    struct Here {
        code: *mut u8,
        len: usize,
        tally: Tally,
    }

    impl Here {
        /// With stubs that only return, as functions.
        fn of(functions: usize) -> Self {
            use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};
            let tally = Tally::of(functions).unwrap();
            let len = tally.len().0 as usize;
            // SAFETY: a new mapping, of which nobody else knows; then code is written where room is for it.
            let code = unsafe {
                let all = ProtFlags::READ | ProtFlags::WRITE;
                let at = mmap(std::ptr::null_mut(), len, all, MapFlags::SHARED, &tally.fd, 0).unwrap();
                let code = tally.len().1 as usize;
                mmap(at, code, all, MapFlags::PRIVATE | MapFlags::FIXED, &tally.fd, 0).unwrap();
                let bytes = std::slice::from_raw_parts_mut(at.cast::<u8>(), code);
                let common = tally.common(7);
                bytes[..common.len()].copy_from_slice(&common);
                for number in 0..functions {
                    let from = tally.stub_at(number);
                    let stub = count_stub::stub(number, from, count_stub::code().1).unwrap();
                    bytes[from..from + STUB_HEAD].copy_from_slice(&stub);
                    bytes[from + STUB_HEAD] = 0xc3;
                }
                mprotect(at, code, MprotectFlags::READ | MprotectFlags::EXEC).unwrap();
                at
            };
            Self { code: code.cast(), len, tally }
        }

        fn function(&self, number: usize) -> usize {
            self.code as usize + self.tally.stub_at(number)
        }
    }

    impl Drop for Here {
        fn drop(&mut self) {
            // SAFETY: nobody runs there any more.
            let _ = unsafe { rustix::mm::munmap(self.code.cast(), self.len) };
        }
    }

    #[test]
    fn each_call_counts_in_any_number_of_threads_and_callers_without_cells_too() {
        let here = Here::of(3);
        let functions = [here.function(0), here.function(1)];
        let work = move |count: u64| {
            for _ in 0..count {
                // SAFETY: it only returns.
                unsafe { std::mem::transmute::<usize, extern "C" fn()>(functions[1])() };
            }
            // SAFETY: as above.
            unsafe { std::mem::transmute::<usize, extern "C" fn()>(functions[0])() };
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || work(10_000 + thread));
            }
        });
        let totals = here.tally.totals();
        let sum = |total: &Total| total.counted.iter().map(|cell| cell.count).sum::<u64>() + total.others;
        assert_eq!(totals.iter().map(sum).collect::<Vec<_>>(), [8, 80_028, 0]);
        assert_eq!(totals[1].noted.len(), here.tally.room());
        assert!(totals[1].noted.iter().all(|call| call.space == 7 && call.back != 0));
        assert!(totals[0].counted.iter().all(|cell| cell.first_ns <= cell.last_ns && cell.space == 7));
    }

    #[test]
    fn registers_flags_and_what_lies_below_the_stack_stay() {
        let here = Here::of(1);
        let function = here.function(0);
        for flags in [0x8d5_u64, 0, 0x800, 0x1, 0x40, 0x80, 0x4, 0x10] {
            let mut registers = [0_u64; 16];
            let (mut after, mut zone): (u64, u64);
            // SAFETY: all registers that change are named, and the stack is put back; what is called only returns.
            unsafe {
                std::arch::asm!(
                    "push rbx",
                    "push rbp",
                    "lea rsp, [rsp - 256]",
                    "mov rbx, {function}",
                    "push {flags}",
                    "popfq",
                    "mov rax, 101", "mov rcx, 102", "mov rdx, 103", "mov rsi, 104",
                    "mov r8, 106", "mov r9, 107", "mov r10, 108", "mov r11, 109",
                    "mov qword ptr [rsp - 8 - 8], 77",
                    "call rbx",
                    "mov [rdi], rax", "mov [rdi + 8], rcx", "mov [rdi + 16], rdx", "mov [rdi + 24], rsi",
                    "mov [rdi + 32], r8", "mov [rdi + 40], r9", "mov [rdi + 48], r10", "mov [rdi + 56], r11",
                    "mov r9, [rsp - 16]",
                    "pushfq",
                    "pop r8",
                    "lea rsp, [rsp + 256]",
                    "pop rbp",
                    "pop rbx",
                    function = in(reg) function,
                    flags = in(reg) flags | 0x202,
                    in("rdi") registers.as_mut_ptr(),
                    lateout("r8") after, lateout("r9") zone,
                    out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("r10") _, out("r11") _,
                );
            }
            assert_eq!(registers[..8], [101, 102, 103, 104, 106, 107, 108, 109]);
            assert_eq!((after & 0x8d5, zone), (flags & 0x8d5, 77), "{flags:#x}");
        }
        assert_eq!(here.tally.totals()[0].counted.iter().map(|cell| cell.count).sum::<u64>(), 8);
    }

    #[test]
    fn what_a_thread_has_called_is_not_the_next_ones() {
        let here = Here::of(1);
        let function = here.function(0);
        // SAFETY: it only returns.
        let call = || unsafe { std::mem::transmute::<usize, extern "C" fn()>(function)() };
        call();
        let Thread::Base(base) = here.tally.totals()[0].counted[0].thread else { panic!("a base") };
        here.tally.retire(7, base, 1234);
        here.tally.retire(8, base, 9);
        call();
        let threads: Vec<Thread> = here.tally.totals()[0].counted.iter().map(|cell| cell.thread).collect();
        assert_eq!(threads, [Thread::Id(1234), Thread::Base(base)]);
    }
}

//! The code that a counted entry jumps to. x86-64, independent of where it lies.
//!
//! Each entry has a stub of its own: it calls the common code, then runs the instructions that the jump replaced and
//! goes on behind them (see [`super::displaced`]). As the stubs of first calls it steps over the red zone, keeps
//! registers and flags, touches no vector register, makes no system call, and may be left in the middle by a signal
//! whose handler begins it anew. Nothing is written to code, so nothing has to be fetched again.
//!
//! Calls are counted in cells, one for each caller, thread and process that a function was called by: threads do not
//! wait for each other's. A cell is looked for from a place on that its key is hashed to. Who finds none left counts in
//! the function's own.

use super::stub::JUMP;

/// At the begin of the code, of each process by itself: distances from there, and how much there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Head {
    /// To the first [`Cell`].
    pub cells: i64,
    /// To the first [`Own`].
    pub owns: i64,
    /// To the first [`Call`].
    pub calls: i64,
    /// To the list of the cells in use: their numbers from 1 on, four bytes each.
    pub list: i64,
    /// To the length of that list.
    pub used: i64,
    /// Number of the address space.
    pub space: u32,
    /// How many calls of each function are noted one by one.
    pub room: u32,
    /// What is left of a hash after so many bits: which cell of a function.
    pub hash: u32,
    /// Bytes of a function's cells, as a power of two.
    pub stride: u32,
    /// Cells of a function, less one.
    pub mask: u32,
    /// Cells of a function, as a power of two.
    pub bits: u32,
}

/// Calls of one function by one caller, thread and process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Cell {
    /// Where they return to.
    pub back: u64,
    /// What the thread's FS register holds.
    pub base: u64,
    /// Number of the address space.
    pub space: u32,
    /// 0: free, 1: somebody is taking it, [`READY`].
    pub state: u32,
    /// How many.
    pub count: u64,
    /// Time stamp counter at the first one.
    pub first: u64,
    /// Time stamp counter at the last one.
    pub last: u64,
}

/// A cell that says whose it is.
pub const READY: u32 = 3;

/// Of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Own {
    /// How many calls were noted one by one, or tried to be.
    pub noted: u64,
    /// Calls that found no cell.
    pub others: u64,
    /// The last of these.
    pub last: u64,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// Time stamp counter; 0: it is not written yet.
    pub at: u64,
    /// Where it returns to.
    pub back: u64,
    /// What the thread's FS register holds.
    pub base: u64,
    /// Number of the address space.
    pub space: u64,
}

/// What a stub has in front of the displaced instructions.
pub const STUB_HEAD: usize = 23;

std::arch::global_asm!(
    ".pushsection .text.thaw_count, \"ax\", @progbits",
    ".balign 64",
    ".globl thaw_count_begin, thaw_count_common, thaw_count_end",
    ".hidden thaw_count_begin, thaw_count_common, thaw_count_end",
    "thaw_count_begin:",
    ".skip 64",
    // On the stack: where in the stub it returns to, the function's number, the red zone, the caller.
    "thaw_count_common:",
    "push rax",
    "lahf",
    "seto al",
    "push rax",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "lea rdi, [rip + thaw_count_begin]",
    "mov esi, [rsp + 88]",
    "mov r8, [rsp + 224]",
    "rdfsbase r9",
    "mov r11d, [rdi + 40]",
    // The function's cells.
    "mov edx, esi",
    "mov ecx, [rdi + 52]",
    "shl rdx, cl",
    "add rdx, [rdi]",
    "add rdx, rdi",
    // Which of them is first.
    "mov rax, r9",
    "rol rax, 27",
    "xor rax, r8",
    "add rax, r11",
    "movabs rcx, 0x9e3779b97f4a7c15",
    "imul rax, rcx",
    "mov ecx, [rdi + 48]",
    "shr rax, cl",
    // The function's own.
    "shl rsi, 6",
    "add rsi, [rdi + 8]",
    "add rsi, rdi",
    "mov ecx, 16",
    "2:",
    "mov r10, rax",
    "shl r10, 6",
    "add r10, rdx",
    "cmp dword ptr [r10 + 20], 3",
    "jne 4f",
    "cmp [r10], r8",
    "jne 3f",
    "cmp [r10 + 8], r9",
    "jne 3f",
    "cmp [r10 + 16], r11d",
    "je 5f",
    "3:",
    "inc eax",
    "and eax, [rdi + 56]",
    "dec ecx",
    "jnz 2b",
    "lock inc qword ptr [rsi + 8]",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rsi + 16], rax",
    "jmp 7f",
    // It is taken by who sets its lowest bit. Who was interrupted while taking it may be this thread: nobody waits.
    "4:",
    "lock bts dword ptr [r10 + 20], 0",
    "jc 3b",
    "mov [r10], r8",
    "mov [r10 + 8], r9",
    "mov [r10 + 16], r11d",
    "mov edx, [rsp + 88]",
    "mov ecx, [rdi + 60]",
    "shl rdx, cl",
    "add rdx, rax",
    "inc edx",
    "mov ecx, 1",
    "mov rax, [rdi + 32]",
    "add rax, rdi",
    "lock xadd [rax], rcx",
    "mov rax, [rdi + 24]",
    "add rax, rdi",
    "mov [rax + rcx * 4], edx",
    "mov dword ptr [r10 + 20], 3",
    "5:",
    "lock inc qword ptr [r10 + 24]",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "cmp qword ptr [r10 + 32], 0",
    "jne 6f",
    "mov [r10 + 32], rax",
    "6:",
    "mov [r10 + 40], rax",
    // The first calls are noted one by one.
    "7:",
    "mov ecx, [rdi + 44]",
    "cmp [rsi], rcx",
    "jae 8f",
    "mov edx, 1",
    "lock xadd [rsi], rdx",
    "cmp rdx, rcx",
    "jae 8f",
    "mov r10d, [rsp + 88]",
    "imul rcx, r10",
    "add rcx, rdx",
    "shl rcx, 5",
    "add rcx, [rdi + 16]",
    "add rcx, rdi",
    "mov [rcx + 8], r8",
    "mov [rcx + 16], r9",
    "mov [rcx + 24], r11",
    "mov [rcx], rax",
    "8:",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "add al, 127",
    "sahf",
    "pop rax",
    "ret",
    "thaw_count_end:",
    ".popsection",
);

unsafe extern "C" {
    static thaw_count_begin: u8;
    static thaw_count_common: u8;
    static thaw_count_end: u8;
}

/// The code with its head, and where in it a stub calls.
pub fn code() -> (&'static [u8], usize) {
    // SAFETY: the three name the begin, a middle and the end of one piece of this program's read-only code.
    unsafe {
        let (begin, end) = (&raw const thaw_count_begin, &raw const thaw_count_end);
        let len = end.offset_from_unsigned(begin);
        (std::slice::from_raw_parts(begin, len), (&raw const thaw_count_common).offset_from_unsigned(begin))
    }
}

/// `lea rsp, [rsp - 128]; push NUMBER; call COMMON; lea rsp, [rsp + 136]`, at an offset of the code. `None`: a number
/// or a way that is too large.
pub fn stub(number: usize, from: usize, common: usize) -> Option<[u8; STUB_HEAD]> {
    const CALL: usize = 10;
    let mut stub = [0; STUB_HEAD];
    stub[..6].copy_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0x80, 0x68]);
    stub[6..CALL].copy_from_slice(&i32::try_from(number).ok()?.to_le_bytes());
    let way = i32::try_from(common as i64 - (from + CALL + JUMP) as i64).ok()?;
    stub[CALL] = 0xe8;
    stub[CALL + 1..CALL + JUMP].copy_from_slice(&way.to_le_bytes());
    stub[CALL + JUMP..].copy_from_slice(&[0x48, 0x8d, 0xa4, 0x24, 0x88, 0, 0, 0]);
    Some(stub)
}

/// Whether a program may ask for its thread's FS register.
pub fn knows_base() -> bool {
    const FSGSBASE: u64 = 2;
    // SAFETY: it takes a number, and reads what the kernel told this process.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

//! The code that an armed entry jumps to ([`super::entries`] is what it finds and leaves in memory). x86-64,
//! independent of where it lies.
//!
//! It changes nothing that the function could see: it steps over the red zone (parts of functions that are jumped to
//! may use it), keeps flags and registers, touches no vector register, makes no system call, and may be left in the
//! middle by a signal whose handler begins it anew. It leaves by `iretq`, which serialises the processor: the bytes of
//! the entry were written at another address than the one they are run at, so that nothing less makes it fetch them
//! again.

/// Bytes of what an entry jumps to.
pub const STUB: usize = 16;
/// Bytes of a jump.
pub const JUMP: usize = 5;

std::arch::global_asm!(
    ".pushsection .text.thaw_touch, \"ax\", @progbits",
    ".balign 16",
    ".globl thaw_touch_begin, thaw_touch_common, thaw_touch_end",
    ".hidden thaw_touch_begin, thaw_touch_common, thaw_touch_end",
    "thaw_touch_begin:",
    ".skip 40",
    // On the stack: the entry's number. The function's own stack pointer is 136 above.
    "thaw_touch_common:",
    "push rax",
    "push rcx",
    "lea rax, [rsp + 152]",
    // What iretq takes: SS, RSP, RFLAGS, CS, RIP. Until here nothing has changed a flag.
    "mov ecx, ss",
    "push rcx",
    "push rax",
    "pushfq",
    "mov ecx, cs",
    "push rcx",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "lea rcx, [rip + thaw_touch_begin]",
    "mov eax, [rsp + 80]",
    "mov rdi, [rip + thaw_touch_begin + 8]",
    "add rdi, rcx",
    "shl rax, 4",
    "add rdi, rax",
    // The first who comes notes it.
    "mov eax, 1",
    "xchg [rdi + 4], eax",
    "test eax, eax",
    "jnz 2f",
    "mov rsi, [rip + thaw_touch_begin + 16]",
    "add rsi, rcx",
    "mov eax, 1",
    "lock xadd [rsi], rax",
    "cmp rax, [rsi + 8]",
    "jae 2f",
    "shl rax, 5",
    "lea rsi, [rsi + rax + 64]",
    "mov eax, [rsp + 80]",
    "mov [rsi + 8], eax",
    "mov rdx, [rip + thaw_touch_begin + 32]",
    "mov edx, [rcx + rdx]",
    "mov [rsi + 12], edx",
    "rdfsbase rdx",
    "mov [rsi + 16], rdx",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rsi], rax",
    // The five bytes are put back, with the three that follow as they are: a neighbour may be changing them.
    "2:",
    "mov esi, [rdi]",
    "mov rdx, [rip + thaw_touch_begin]",
    "add rdx, rcx",
    "add rdx, rsi",
    "mov rax, [rdx]",
    "3:",
    "mov rcx, rax",
    "shr rcx, 40",
    "shl rcx, 40",
    "or rcx, [rdi + 8]",
    "lock cmpxchg [rdx], rcx",
    "jne 3b",
    "lea rcx, [rip + thaw_touch_begin]",
    "add rcx, [rip + thaw_touch_begin + 24]",
    "add rcx, rsi",
    "mov [rsp + 24], rcx",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "mov rcx, [rsp + 40]",
    "mov rax, [rsp + 48]",
    "iretq",
    "thaw_touch_end:",
    ".popsection",
);

unsafe extern "C" {
    static thaw_touch_begin: u8;
    static thaw_touch_common: u8;
    static thaw_touch_end: u8;
}

/// The code with its head, and where in it a stub jumps to.
pub fn code() -> (&'static [u8], usize) {
    // SAFETY: the three name the begin, a middle and the end of one piece of this program's read-only code.
    unsafe {
        let (begin, end) = (&raw const thaw_touch_begin, &raw const thaw_touch_end);
        let len = end.offset_from_unsigned(begin);
        (std::slice::from_raw_parts(begin, len), (&raw const thaw_touch_common).offset_from_unsigned(begin))
    }
}

/// What an entry jumps to: `lea rsp, [rsp - 128]; push NUMBER; jmp COMMON`. `None`: a number or a way that is too
/// large.
pub fn stub(number: usize, from: usize, common: usize) -> Option<[u8; STUB]> {
    let mut stub = [0xcc; STUB];
    stub[..5].copy_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    stub[5] = 0x68;
    stub[6..10].copy_from_slice(&i32::try_from(number).ok()?.to_le_bytes());
    stub[10..15].copy_from_slice(&jump(i64::try_from(from).ok()? + 10, i64::try_from(common).ok()?)?);
    Some(stub)
}

/// `jmp` from one address to another; `None`: too far.
pub fn jump(from: i64, to: i64) -> Option<[u8; JUMP]> {
    let way = i32::try_from(to - (from + JUMP as i64)).ok()?;
    let [a, b, c, d] = way.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

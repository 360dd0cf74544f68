//! The code that an armed entry would jump to on AArch64, as bytes. No engine for AArch64 is there yet: nothing but
//! tests, which run these bytes in an emulator, uses this module. It runs anywhere, since it only makes bytes.
//!
//! The design is that of `super::stub`, with the same [entries](super::entries). What is different:
//!
//! - **An entry** is one instruction, `b` to a stub of its own, and is put back by one aligned store of four bytes. So
//!   neither short functions nor cache lines nor jumps behind the first byte are in the way. But `b` reaches 128 MiB:
//!   the stubs have to lie right beside the text, and an entry that is farther away keeps a breakpoint.
//! - **Landing pads.** A function that is called by a pointer may have to begin with `bti` or `paciasp`. These stay,
//!   and the instruction behind them is armed: it is also where the stub goes on, or a return address would be signed
//!   twice.
//! - **Leaving** is a `b` of the stub's own, not `br`: that would need a register, and in a guarded page a landing pad.
//! - **The stack** has no red zone, and a signal's frame begins below the stack pointer. So the stub takes its room by
//!   the very instruction that saves the first registers, and nothing of it ever lies below.
//! - **Flags** are never written: `cbnz` and `tbz` need none, so there is nothing to save.
//! - **Claims** are exclusive loads and stores, not `ldadd`, which processors before ARMv8.1 have not. A signal between
//!   the two makes the store fail, and the loop begins anew. Each entry is claimed once, so nobody waits for long.
//! - **Order.** Stores may be seen in another order than they were made: the time, which says that a record is written,
//!   is stored by `stlr`.
//! - **Fetching again.** Nothing serialises by itself: the data cache is cleaned to where instructions come from
//!   (`dc cvau`, by the address that was written), instructions of the place are dropped (`ic ivau`, by the address
//!   that is run), each is waited for, and `isb` makes this processor fetch anew. Other address spaces, and processors
//!   whose instruction caches know a place by its address, may meet the `b` once more: it leads into the stub again,
//!   where the entry is claimed already, and puts back what is there.
//! - **What the architecture does not promise**: a processor that fetches a word while another one replaces it sees the
//!   old or the new one for certain only if both are among `b`, `bl`, `brk`, `nop`, `svc` and a few more ("Concurrent
//!   modification and execution of instructions"). Where that is not enough, `original` of an entry can be a `b` to a
//!   copy of its first instruction: the code here is the same, and each later call costs two branches.

/// Bytes of an armed entry.
pub const JUMP: usize = 4;
/// Bytes of what an entry jumps to: as many as of an [entry](super::entries::Entry) of the table.
pub const STUB: usize = 16;
/// From the begin of the code, with its head, to the first stub.
pub const STUBS: usize = 256;

/// From the begin of the code to what all stubs call: behind the head.
const COMMON: usize = size_of::<super::entries::Head>();
/// So far `b` and `bl` reach, back and forth.
const REACH: i64 = 128 << 20;

/// What all stubs call, from [`COMMON`] on: as an assembler reads it, and as it is. On the stack lie the function's x30
/// and x0, and room for as much again three times; x30 says which stub called.
pub const CODE: [(&str, u32); 53] = [
    ("stp x1, x2, [sp, #16]", 0xa901_0be1),
    ("stp x3, x4, [sp, #32]", 0xa902_13e3),
    ("str x5, [sp, #48]", 0xf900_1be5),
    // The head; then the entry, which is as far behind the table's begin as the stub is behind the first.
    ("adr x1, . - 52", 0x10ff_fe61),
    ("ldr x2, [x1, #8]", 0xf940_0422),
    ("add x2, x2, x30", 0x8b1e_0042),
    ("sub x2, x2, #264", 0xd104_2042),
    // The first who comes notes it.
    ("add x3, x2, #4", 0x9100_1043),
    ("ldxr w4, [x3]", 0x885f_7c64),
    ("cbnz w4, . + 104", 0x3500_0344),
    ("mov w4, #1", 0x5280_0024),
    ("stxr w5, w4, [x3]", 0x8805_7c64),
    ("cbnz w5, . - 16", 0x35ff_ff85),
    // The next record, if there is room; else the log's head tells how many were lost.
    ("ldr x3, [x1, #16]", 0xf940_0823),
    ("add x3, x3, x1", 0x8b01_0063),
    ("ldxr x4, [x3]", 0xc85f_7c64),
    ("add x5, x4, #1", 0x9100_0485),
    ("stxr w0, x5, [x3]", 0xc800_7c65),
    ("cbnz w0, . - 12", 0x35ff_ffa0),
    ("ldr x5, [x3, #8]", 0xf940_0465),
    ("sub x5, x4, x5", 0xcb05_0085),
    ("tbz x5, #63, . + 56", 0xb6f8_01c5),
    ("add x3, x3, x4, lsl #5", 0x8b04_1463),
    ("sub x4, x30, x1", 0xcb01_03c4),
    ("sub x4, x4, #264", 0xd104_2084),
    ("lsr x4, x4, #4", 0xd344_fc84),
    ("str w4, [x3, #72]", 0xb900_4864),
    ("ldr x4, [x1, #32]", 0xf940_1024),
    ("ldr w4, [x1, x4]", 0xb864_6824),
    ("str w4, [x3, #76]", 0xb900_4c64),
    ("mrs x4, tpidr_el0", 0xd53b_d044),
    ("str x4, [x3, #80]", 0xf900_2864),
    ("mrs x4, cntvct_el0", 0xd53b_e044),
    ("add x3, x3, #64", 0x9101_0063),
    ("stlr x4, [x3]", 0xc89f_fc64),
    // What belongs there is put back.
    ("ldr w4, [x2]", 0xb940_0044),
    ("ldr w5, [x2, #8]", 0xb940_0845),
    ("ldr x3, [x1]", 0xf940_0023),
    ("add x3, x3, x1", 0x8b01_0063),
    ("str w5, [x3, x4]", 0xb824_6865),
    ("add x3, x3, x4", 0x8b04_0063),
    ("dc cvau, x3", 0xd50b_7b23),
    ("dsb ish", 0xd503_3b9f),
    ("ldr x3, [x1, #24]", 0xf940_0c23),
    ("add x3, x3, x1", 0x8b01_0063),
    ("add x3, x3, x4", 0x8b04_0063),
    ("ic ivau, x3", 0xd50b_7523),
    ("dsb ish", 0xd503_3b9f),
    ("isb", 0xd503_3fdf),
    ("ldp x1, x2, [sp, #16]", 0xa941_0be1),
    ("ldp x3, x4, [sp, #32]", 0xa942_13e3),
    ("ldr x5, [sp, #48]", 0xf940_1be5),
    ("ret", 0xd65f_03c0),
];

/// `stp x30, x0, [sp, #-64]!`: x0 is one more to work with, and x30 will say which stub it is.
const SAVE: u32 = 0xa9bc_03fe;
/// `ldp x30, x0, [sp], #64`
const RESTORE: u32 = 0xa8c4_03fe;

/// All that lies in front of the stubs: room for the head, and what they call.
pub fn code() -> [u8; STUBS] {
    let mut code = [0; STUBS];
    for (place, (_, word)) in code[COMMON..].chunks_exact_mut(JUMP).zip(CODE) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    code
}

/// The stub of this number, which goes on at an armed instruction; that is so far from the begin of the code. `None`:
/// too far.
pub fn stub(number: usize, armed: i64) -> Option<[u8; STUB]> {
    let at = i64::try_from(stub_at(number)).ok()?;
    let words = [SAVE, way(0x9400_0000, at + 4, COMMON as i64)?, RESTORE, way(0x1400_0000, at + 12, armed)?];
    let mut stub = [0; STUB];
    stub.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
    Some(stub)
}

/// From the begin of the code to a stub.
pub fn stub_at(number: usize) -> usize {
    STUBS.saturating_add(number.saturating_mul(STUB))
}

/// `b` from one address to another; `None`: too far, or no instruction is there.
pub fn jump(from: i64, to: i64) -> Option<[u8; JUMP]> {
    way(0x1400_0000, from, to).map(u32::to_le_bytes)
}

/// Which instruction of a function is armed, in bytes from its begin: the first, or the one behind its landing pad.
/// `None`: there is none.
pub fn armed(function: &[u8]) -> Option<usize> {
    let first = u32::from_le_bytes(*function.first_chunk()?);
    // bti, bti c, bti j, bti jc; paciasp, pacibsp: they are landing pads as well.
    let is_pad = matches!(first, 0xd503_241f | 0xd503_245f | 0xd503_249f | 0xd503_24df | 0xd503_233f | 0xd503_237f);
    let at = if is_pad { JUMP } else { 0 };
    (function.len() >= at + JUMP).then_some(at)
}

/// A branch with a way of 26 bits, in instructions.
fn way(branch: u32, from: i64, to: i64) -> Option<u32> {
    let way = to.checked_sub(from)?;
    let is_near = (-REACH..REACH).contains(&way) && way % JUMP as i64 == 0;
    is_near.then_some(branch | (way >> 2) as u32 & 0x03ff_ffff)
}

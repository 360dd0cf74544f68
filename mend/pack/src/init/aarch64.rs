//! The initialiser for AArch64, and the few instructions that it takes.

use super::Layout;
use super::assembler::{Code, Instruction, Place, Resolve, distance};
use model::Result;
use std::fmt;

/// A general register, 64 bits. x18 belongs to the platform, x19 to x30 to the caller: none of them is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct X(pub(super) u8);

/// What the instructions do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// The landing pad of an indirect call (`bti c`, a hint that older processors and assemblers skip).
    BtiC,
    Move(X, X),
    Set(X, u16),
    /// The page of 4 KiB that holds a place, within 4 GiB.
    PageOf(X, Place),
    /// Adds the place's offset in that page to the second register.
    AddInPage(X, X, Place),
    Add(X, X, X),
    AddNumber(X, X, u16),
    Subtract(X, X, X),
    And(X, X, X),
    Negate(X, X),
    ShiftLeft(X, X, u8),
    ShiftRight(X, X, u8),
    /// Against the number times 4096.
    ComparePages(X, u16),
    Compare(X, X),
    /// Against the number below zero.
    CompareMinus(X, u16),
    Load(X, X),
    /// Loads, then adds the number to the address register.
    LoadThenAdd(X, X, u8),
    Store(X, X),
    StoreThenAdd(X, X, u8),
    IfZero(X, Place),
    IfNotZero(X, Place),
    IfLowestClear(X, Place),
    IfLowestSet(X, Place),
    IfNotEqual(Place),
    IfLower(Place),
    IfLowerOrSame(Place),
    Jump(Place),
    /// To the address in the register. Only x16 and x17 may jump to a `bti c`.
    JumpTo(X),
    Kernel,
    Return,
    /// Stops the program: a breakpoint that no debugger set.
    Trap,
}

const READ: u16 = 1;
const READ_WRITE: u16 = 1 | 2;
const EINVAL: u16 = 22;

/// The whole initialiser.
pub(super) fn initialiser(layout: Layout) -> Code<Op> {
    use Op::*;
    use Place::{Image, Label, Original, Relro, RelroEnd, Table, TableEnd};

    let (entry, address, cursor) = (X(0), X(1), X(2));
    let (table, table_end, value) = (X(3), X(4), X(5));
    let call = X(8);
    let (first, second, third) = (X(9), X(10), X(11));
    let (base, relro, relro_end, page) = (X(12), X(13), X(14), X(15));
    let locate = |to, place| [PageOf(to, place), AddInPage(to, to, place)];
    // The kernel returns in x0 and keeps the rest; `relro_end` holds the length by then.
    let protect = |protection| [Move(X(0), relro), Move(X(1), relro_end), Set(X(2), protection), Kernel];

    let locked = layout.relro.is_some();
    let done = match layout.original {
        Some(_) => [locate(X(16), Original).as_slice(), &[JumpTo(X(16))]].concat(),
        None => vec![Return],
    };
    let mut code = Code::new("", layout);
    let mut block = |label, ops: &[&[Op]]| code.block(label, ops.concat());
    block("initialise", &[&[BtiC, Move(first, X(0)), Move(second, X(1)), Move(third, X(2))]]);
    if locked {
        block("unlock", &[&locate(relro, Relro), &locate(relro_end, RelroEnd), &[Set(page, 4096), Set(call, 226)]]);
        // Is this the size of a page? See the module's head.
        block("probe", &[&[Move(X(0), page), Set(X(1), 0), Set(X(2), 0), Kernel]]);
        block("answer", &[&[CompareMinus(X(0), EINVAL), IfNotEqual(Label("round"))]]);
        block("larger", &[&[ShiftLeft(page, page, 2), ComparePages(page, 16), IfLowerOrSame(Label("probe"))]]);
        block("stop", &[&[Trap]]);
        block("round", &[&[Negate(page, page), And(relro, relro, page), And(relro_end, relro_end, page)]]);
        block("length", &[&[Subtract(relro_end, relro_end, relro)]]);
        block("writable", &[&protect(READ_WRITE), &[IfNotZero(X(0), Label("stop"))]]);
    }
    // The base begins a page, as address 0 does.
    block("apply", &[&[PageOf(base, Image)], &locate(table, Table), &locate(table_end, TableEnd)]);
    block("fetch", &[&[LoadThenAdd(entry, table, 8), IfLowestSet(entry, Label("bitmap"))]]);
    // An even word is the address of a word to relocate.
    block("single", &[&[Add(address, base, entry), Load(value, address), Add(value, value, base)]]);
    block("store", &[&[StoreThenAdd(value, address, 8), Jump(Label("next"))]]);
    // An odd one holds, above its lowest bit, a bit for each of the words that follow the last one.
    block("bitmap", &[&[Move(cursor, address)]]);
    block("bit", &[&[ShiftRight(entry, entry, 1), IfZero(entry, Label("advance"))]]);
    block("set", &[&[IfLowestClear(entry, Label("clear")), Load(value, cursor), Add(value, value, base)]]);
    block("write", &[&[Store(value, cursor)]]);
    block("clear", &[&[AddNumber(cursor, cursor, 8), Jump(Label("bit"))]]);
    block("advance", &[&[AddNumber(address, address, 63 * 8)]]);
    block("next", &[&[Compare(table, table_end), IfLower(Label("fetch"))]]);
    if locked {
        block("lock", &[&protect(READ), &[IfNotZero(X(0), Label("stop"))]]);
    }
    block("finish", &[&[Move(X(0), first), Move(X(1), second), Move(X(2), third)], &done]);
    code
}

impl Instruction for Op {
    fn encode(&self, at: u64, resolve: &Resolve<'_>) -> Result<Vec<u8>> {
        // Rd in bits 0 to 4, Rn in 5 to 9, Rm in 16 to 20.
        let three =
            |opcode: u32, d: X, n: X, m: X| opcode | u32::from(m.0) << 16 | u32::from(n.0) << 5 | u32::from(d.0);
        let two = |opcode: u32, d: X, n: X| three(opcode, d, n, X(0));
        let zero = X(31);
        // A way of `bits` bits, in instructions, at `shift`.
        let way = |place: Place, bits: u32, shift: u32| -> Result<u32> {
            let way = distance(at, resolve(place)?, bits + 2)? >> 2;
            Ok((way as u32 & ((1 << bits) - 1)) << shift)
        };
        let word = match *self {
            Self::BtiC => 0xd503_245f,
            Self::Move(to, from) => three(0xaa00_0000, to, zero, from),
            Self::Set(to, number) => two(0xd280_0000, to, X(0)) | u32::from(number) << 5,
            Self::PageOf(to, place) => {
                let page = |address: u64| address & !0xfff;
                let pages = distance(page(at), page(resolve(place)?), 33)? >> 12;
                let pages = pages as u32;
                two(0x9000_0000, to, X(0)) | (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5
            }
            Self::AddInPage(to, from, place) => {
                let offset = (resolve(place)? & 0xfff) as u32;
                two(0x9100_0000, to, from) | offset << 10
            }
            Self::Add(to, left, right) => three(0x8b00_0000, to, left, right),
            Self::AddNumber(to, from, number) => two(0x9100_0000, to, from) | (u32::from(number) & 0xfff) << 10,
            Self::Subtract(to, left, right) => three(0xcb00_0000, to, left, right),
            Self::And(to, left, right) => three(0x8a00_0000, to, left, right),
            Self::Negate(to, from) => three(0xcb00_0000, to, zero, from),
            Self::ShiftLeft(to, from, by) => {
                let by = u32::from(by);
                two(0xd340_0000, to, from) | ((64 - by) % 64) << 16 | (63 - by) << 10
            }
            Self::ShiftRight(to, from, by) => two(0xd340_fc00, to, from) | u32::from(by) << 16,
            Self::ComparePages(left, pages) => two(0xf140_0000, zero, left) | (u32::from(pages) & 0xfff) << 10,
            Self::Compare(left, right) => three(0xeb00_0000, zero, left, right),
            Self::CompareMinus(left, number) => two(0xb100_0000, zero, left) | (u32::from(number) & 0xfff) << 10,
            Self::Load(to, address) => two(0xf940_0000, to, address),
            Self::LoadThenAdd(to, address, number) => two(0xf840_0400, to, address) | u32::from(number) << 12,
            Self::Store(from, address) => two(0xf900_0000, from, address),
            Self::StoreThenAdd(from, address, number) => two(0xf800_0400, from, address) | u32::from(number) << 12,
            Self::IfZero(reg, place) => two(0xb400_0000, reg, X(0)) | way(place, 19, 5)?,
            Self::IfNotZero(reg, place) => two(0xb500_0000, reg, X(0)) | way(place, 19, 5)?,
            Self::IfLowestClear(reg, place) => two(0x3600_0000, reg, X(0)) | way(place, 14, 5)?,
            Self::IfLowestSet(reg, place) => two(0x3700_0000, reg, X(0)) | way(place, 14, 5)?,
            Self::IfNotEqual(place) => 0x5400_0001 | way(place, 19, 5)?,
            Self::IfLower(place) => 0x5400_0003 | way(place, 19, 5)?,
            Self::IfLowerOrSame(place) => 0x5400_0009 | way(place, 19, 5)?,
            Self::Jump(place) => 0x1400_0000 | way(place, 26, 0)?,
            Self::JumpTo(reg) => two(0xd61f_0000, X(0), reg),
            Self::Kernel => 0xd400_0001,
            Self::Return => 0xd65f_03c0,
            Self::Trap => 0xd420_0020,
        };
        Ok(word.to_le_bytes().to_vec())
    }
}

impl fmt::Display for X {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "x{}", self.0)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BtiC => write!(out, "hint #34"),
            Self::Move(to, from) => write!(out, "mov {to}, {from}"),
            Self::Set(to, number) => write!(out, "movz {to}, #{number}"),
            Self::PageOf(to, place) => write!(out, "adrp {to}, {place}"),
            Self::AddInPage(to, from, place) => write!(out, "add {to}, {from}, :lo12:{place}"),
            Self::Add(to, left, right) => write!(out, "add {to}, {left}, {right}"),
            Self::AddNumber(to, from, number) => write!(out, "add {to}, {from}, #{number}"),
            Self::Subtract(to, left, right) => write!(out, "sub {to}, {left}, {right}"),
            Self::And(to, left, right) => write!(out, "and {to}, {left}, {right}"),
            Self::Negate(to, from) => write!(out, "neg {to}, {from}"),
            Self::ShiftLeft(to, from, by) => write!(out, "lsl {to}, {from}, #{by}"),
            Self::ShiftRight(to, from, by) => write!(out, "lsr {to}, {from}, #{by}"),
            Self::ComparePages(left, pages) => write!(out, "cmp {left}, #{pages}, lsl #12"),
            Self::Compare(left, right) => write!(out, "cmp {left}, {right}"),
            Self::CompareMinus(left, number) => write!(out, "cmn {left}, #{number}"),
            Self::Load(to, address) => write!(out, "ldr {to}, [{address}]"),
            Self::LoadThenAdd(to, address, number) => write!(out, "ldr {to}, [{address}], #{number}"),
            Self::Store(from, address) => write!(out, "str {from}, [{address}]"),
            Self::StoreThenAdd(from, address, number) => write!(out, "str {from}, [{address}], #{number}"),
            Self::IfZero(reg, place) => write!(out, "cbz {reg}, {place}"),
            Self::IfNotZero(reg, place) => write!(out, "cbnz {reg}, {place}"),
            Self::IfLowestClear(reg, place) => write!(out, "tbz {reg}, #0, {place}"),
            Self::IfLowestSet(reg, place) => write!(out, "tbnz {reg}, #0, {place}"),
            Self::IfNotEqual(place) => write!(out, "b.ne {place}"),
            Self::IfLower(place) => write!(out, "b.lo {place}"),
            Self::IfLowerOrSame(place) => write!(out, "b.ls {place}"),
            Self::Jump(place) => write!(out, "b {place}"),
            Self::JumpTo(reg) => write!(out, "br {reg}"),
            Self::Kernel => write!(out, "svc #0"),
            Self::Return => write!(out, "ret"),
            Self::Trap => write!(out, "brk #1"),
        }
    }
}

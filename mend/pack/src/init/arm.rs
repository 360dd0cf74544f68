//! The initialiser for 32-bit ARM (A32), and the few instructions that it takes.

use super::Layout;
use super::assembler::{Code, Instruction, Place, Resolve, distance};
use model::{Error, Result};
use std::fmt;

/// A general register: r13 is the stack pointer, r14 the link register, r15 the program counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct R(pub(super) u8);

/// Registers by number, lowest first in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Set(pub(super) u16);

/// When an instruction takes effect; the numbers are those of the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    Equal = 0,
    NotEqual = 1,
    Lower = 3,
    LowerOrSame = 9,
    Always = 14,
}

/// What the instructions do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Push(Set),
    Pop(Set),
    Move(R, R),
    Number(R, u32),
    /// The word in the code at a label.
    Literal(R, Place),
    /// Adds the program counter, which is this instruction's address plus 8, to a register.
    AddProgramCounter(R),
    Add(If, R, R, R),
    AddNumber(R, R, u32),
    Subtract(R, R, R),
    And(R, R, R),
    Negate(R, R),
    ShiftLeft(R, R, u8),
    /// By one; tells whether zero is left.
    ShiftRightOne(R, R),
    TestLowest(R),
    Compare(R, R),
    CompareNumber(R, u32),
    /// Against the number below zero.
    CompareMinus(R, u32),
    Load(If, R, R),
    /// Loads, then adds the number to the address register.
    LoadThenAdd(R, R, u8),
    Store(If, R, R),
    StoreThenAdd(R, R, u8),
    Jump(If, Place),
    /// To the address in the register, and to Thumb where its lowest bit is set.
    JumpTo(R),
    Kernel,
    /// Stops the program: an undefined instruction.
    Trap,
    /// Not an instruction: the linked address of a place.
    AddressOf(Place),
    /// Not an instruction: the way from 8 bytes after the label (second) to a place.
    WayTo(Place, Place),
}

const READ: u32 = 1;
const READ_WRITE: u32 = 1 | 2;
const EINVAL: u32 = 22;

/// The whole initialiser.
pub(super) fn initialiser(layout: Layout) -> Code<Op> {
    use If::{Always, Equal, Lower, LowerOrSame, NotEqual};
    use Op::*;
    use Place::{Image, Label, Original, Relro, RelroEnd, Table, TableEnd};

    let (entry, address, cursor, value, base) = (R(0), R(1), R(2), R(3), R(4));
    let (table, page, call) = (R(5), R(6), R(7));
    let table_end = page;
    let (relro, relro_end, original, link) = (R(8), R(9), R(12), R(14));
    // The arguments, what belongs to the caller, and the way back.
    let saved = Set(0b0100_0011_1111_0111);
    let locate = |to, literal| [Literal(to, Label(literal)), Add(Always, to, to, base)];
    // The kernel returns in r0 and keeps the rest; `relro_end` holds the length by then.
    let protect = |protection| {
        [Move(R(0), relro), Move(R(1), relro_end), Number(R(2), protection), Kernel, CompareNumber(R(0), 0)]
    };

    let locked = layout.relro.is_some();
    let initialised = layout.original.is_some();
    let mut code = Code::new(".arm\n.syntax unified\n", layout);
    let mut block = |label, ops: &[&[Op]]| code.block(label, ops.concat());
    block("initialise", &[&[Push(saved), Literal(base, Label("way_to_image"))]]);
    block("here", &[&[AddProgramCounter(base)]]);
    if locked {
        block("unlock", &[&locate(relro, "relro_start"), &locate(relro_end, "relro_stop")]);
        block("ask", &[&[Number(page, 4096), Number(call, 125)]]);
        // Is this the size of a page? See the module's head.
        block("probe", &[&[Move(R(0), page), Number(R(1), 0), Number(R(2), 0), Kernel, CompareMinus(R(0), EINVAL)]]);
        block("answer", &[&[Jump(NotEqual, Label("round")), ShiftLeft(page, page, 2), CompareNumber(page, 65_536)]]);
        block("larger", &[&[Jump(LowerOrSame, Label("probe"))]]);
        block("stop", &[&[Trap]]);
        block("round", &[&[Negate(page, page), And(relro, relro, page), And(relro_end, relro_end, page)]]);
        block("length", &[&[Subtract(relro_end, relro_end, relro)]]);
        block("writable", &[&protect(READ_WRITE), &[Jump(NotEqual, Label("stop"))]]);
    }
    block("apply", &[&locate(table, "table_start"), &locate(table_end, "table_stop")]);
    block("fetch", &[&[LoadThenAdd(entry, table, 4), TestLowest(entry), Jump(NotEqual, Label("bitmap"))]]);
    // An even word is the address of a word to relocate.
    block("single", &[&[Add(Always, address, base, entry), Load(Always, value, address)]]);
    block("store", &[&[Add(Always, value, value, base), StoreThenAdd(value, address, 4), Jump(Always, Label("next"))]]);
    // An odd one holds, above its lowest bit, a bit for each of the words that follow the last one.
    block("bitmap", &[&[Move(cursor, address)]]);
    block("bit", &[&[ShiftRightOne(entry, entry), Jump(Equal, Label("advance")), TestLowest(entry)]]);
    block(
        "set",
        &[&[Load(NotEqual, value, cursor), Add(NotEqual, value, value, base), Store(NotEqual, value, cursor)]],
    );
    block("clear", &[&[AddNumber(cursor, cursor, 4), Jump(Always, Label("bit"))]]);
    block("advance", &[&[AddNumber(address, address, 31 * 4)]]);
    block("next", &[&[Compare(table, table_end), Jump(Lower, Label("fetch"))]]);
    if locked {
        block("lock", &[&protect(READ), &[Jump(NotEqual, Label("stop"))]]);
    }
    if initialised {
        block("finish", &[&locate(original, "original_start"), &[Pop(saved), JumpTo(original)]]);
    } else {
        block("finish", &[&[Pop(saved), JumpTo(link)]]);
    }
    block("way_to_image", &[&[WayTo(Image, Label("here"))]]);
    block("table_start", &[&[AddressOf(Table)]]);
    block("table_stop", &[&[AddressOf(TableEnd)]]);
    if locked {
        block("relro_start", &[&[AddressOf(Relro)]]);
        block("relro_stop", &[&[AddressOf(RelroEnd)]]);
    }
    if initialised {
        block("original_start", &[&[AddressOf(Original)]]);
    }
    code
}

/// An immediate operand: eight bits, rotated right by twice the number in bits 8 to 11.
fn immediate(number: u32) -> Result<u32> {
    (0..16)
        .find_map(|turn| {
            let bits = number.rotate_left(turn * 2);
            (bits <= 0xff).then_some(turn << 8 | bits)
        })
        .ok_or_else(|| Error::bug(format!("{number:#x} is no immediate operand on ARM")))
}

impl Instruction for Op {
    fn encode(&self, at: u64, resolve: &Resolve<'_>) -> Result<Vec<u8>> {
        let always = If::Always;
        // The condition above bit 28, Rn in bits 16 to 19, Rd in 12 to 15, Rm in 0 to 3.
        let three = |when: If, opcode: u32, d: R, n: R, m: u32| {
            (when as u32) << 28 | opcode | u32::from(n.0) << 16 | u32::from(d.0) << 12 | m
        };
        let none = R(0);
        // The program counter reads as two instructions ahead.
        let ahead = at + 8;
        let address = |place: Place| -> Result<u32> {
            u32::try_from(resolve(place)?)
                .map_err(|_| Error::bug(format!("an address of a 32-bit object, `{place}`, has more than 32 bits")))
        };
        let word = match *self {
            Self::Push(set) => 0xe92d_0000 | u32::from(set.0),
            Self::Pop(set) => 0xe8bd_0000 | u32::from(set.0),
            Self::Move(to, from) => three(always, 0x01a0_0000, to, none, from.0.into()),
            Self::Number(to, number) => three(always, 0x03a0_0000, to, none, immediate(number)?),
            Self::Literal(to, place) => {
                // Up to 4095 bytes, either way.
                let way = distance(ahead, resolve(place)?, 13)?;
                let up = if way < 0 { 0 } else { 1 << 23 };
                three(always, 0x051f_0000 | up, to, none, way.unsigned_abs() as u32)
            }
            Self::AddProgramCounter(reg) => three(always, 0x0080_0000, reg, R(15), reg.0.into()),
            Self::Add(when, to, left, right) => three(when, 0x0080_0000, to, left, right.0.into()),
            Self::AddNumber(to, from, number) => three(always, 0x0280_0000, to, from, immediate(number)?),
            Self::Subtract(to, left, right) => three(always, 0x0040_0000, to, left, right.0.into()),
            Self::And(to, left, right) => three(always, 0, to, left, right.0.into()),
            Self::Negate(to, from) => three(always, 0x0260_0000, to, from, 0),
            Self::ShiftLeft(to, from, by) => three(always, 0x01a0_0000 | u32::from(by) << 7, to, none, from.0.into()),
            Self::ShiftRightOne(to, from) => three(always, 0x01b0_00a0, to, none, from.0.into()),
            Self::TestLowest(reg) => three(always, 0x0310_0000, none, reg, 1),
            Self::Compare(left, right) => three(always, 0x0150_0000, none, left, right.0.into()),
            Self::CompareNumber(left, number) => three(always, 0x0350_0000, none, left, immediate(number)?),
            Self::CompareMinus(left, number) => three(always, 0x0370_0000, none, left, immediate(number)?),
            Self::Load(when, to, from) => three(when, 0x0590_0000, to, from, 0),
            Self::LoadThenAdd(to, from, number) => three(always, 0x0490_0000, to, from, number.into()),
            Self::Store(when, from, to) => three(when, 0x0580_0000, from, to, 0),
            Self::StoreThenAdd(from, to, number) => three(always, 0x0480_0000, from, to, number.into()),
            Self::Jump(when, place) => {
                let way = distance(ahead, resolve(place)?, 26)? >> 2;
                (when as u32) << 28 | 0x0a00_0000 | (way as u32 & 0x00ff_ffff)
            }
            Self::JumpTo(reg) => 0xe12f_ff10 | u32::from(reg.0),
            Self::Kernel => 0xef00_0000,
            Self::Trap => 0xe7f0_00f0,
            Self::AddressOf(place) => address(place)?,
            Self::WayTo(place, from) => address(place)?.wrapping_sub(address(from)?).wrapping_sub(8),
        };
        Ok(word.to_le_bytes().to_vec())
    }
}

impl fmt::Display for R {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "r{}", self.0)
    }
}

impl fmt::Display for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = (0..16).filter(|bit| self.0 >> bit & 1 == 1).map(|bit| R(bit).to_string()).collect();
        write!(out, "{{{}}}", names.join(", "))
    }
}

impl fmt::Display for If {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Equal => "eq",
            Self::NotEqual => "ne",
            Self::Lower => "lo",
            Self::LowerOrSame => "ls",
            Self::Always => "",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(set) => write!(out, "push {set}"),
            Self::Pop(set) => write!(out, "pop {set}"),
            Self::Move(to, from) => write!(out, "mov {to}, {from}"),
            Self::Number(to, number) => write!(out, "mov {to}, #{number}"),
            Self::Literal(to, place) => write!(out, "ldr {to}, {place}"),
            Self::AddProgramCounter(reg) => write!(out, "add {reg}, pc, {reg}"),
            Self::Add(when, to, left, right) => write!(out, "add{when} {to}, {left}, {right}"),
            Self::AddNumber(to, from, number) => write!(out, "add {to}, {from}, #{number}"),
            Self::Subtract(to, left, right) => write!(out, "sub {to}, {left}, {right}"),
            Self::And(to, left, right) => write!(out, "and {to}, {left}, {right}"),
            Self::Negate(to, from) => write!(out, "rsb {to}, {from}, #0"),
            Self::ShiftLeft(to, from, by) => write!(out, "lsl {to}, {from}, #{by}"),
            Self::ShiftRightOne(to, from) => write!(out, "lsrs {to}, {from}, #1"),
            Self::TestLowest(reg) => write!(out, "tst {reg}, #1"),
            Self::Compare(left, right) => write!(out, "cmp {left}, {right}"),
            Self::CompareNumber(left, number) => write!(out, "cmp {left}, #{number}"),
            Self::CompareMinus(left, number) => write!(out, "cmn {left}, #{number}"),
            Self::Load(when, to, from) => write!(out, "ldr{when} {to}, [{from}]"),
            Self::LoadThenAdd(to, from, number) => write!(out, "ldr {to}, [{from}], #{number}"),
            Self::Store(when, from, to) => write!(out, "str{when} {from}, [{to}]"),
            Self::StoreThenAdd(from, to, number) => write!(out, "str {from}, [{to}], #{number}"),
            Self::Jump(when, place) => write!(out, "b{when} {place}"),
            Self::JumpTo(reg) => write!(out, "bx {reg}"),
            Self::Kernel => write!(out, "svc #0"),
            Self::Trap => write!(out, "udf #0"),
            Self::AddressOf(place) => write!(out, ".word {place}"),
            Self::WayTo(place, from) => write!(out, ".word {place} - ({from} + 8)"),
        }
    }
}

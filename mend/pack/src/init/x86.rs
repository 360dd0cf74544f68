//! The initialiser for x86-64 and 32-bit x86, and the few instructions that it takes.

use super::Layout;
use super::assembler::{Code, Instruction, Place, Resolve, distance};
use model::{Error, Result};
use std::fmt;
use std::ops::Range;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// x86-64.
    Long,
    /// i386.
    Protected,
}

/// General registers; the numbers are those of the encoding. `R8` and `R9` exist in long mode only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    Ax = 0,
    Cx = 1,
    Dx = 2,
    Bx = 3,
    Bp = 5,
    Si = 6,
    Di = 7,
    R8 = 8,
    R9 = 9,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Zero,
    NotZero,
    Below,
}

/// What the instructions do; register operands are as wide as a pointer where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// The landing pad of an indirect call.
    Endbr64,
    Push(Reg),
    Pop(Reg),
    /// 32 bits; long mode clears the upper half.
    Set(Reg, u32),
    Move(Reg, Reg),
    /// The word at the address in the second register.
    Load(Reg, Reg),
    /// `[register + small number]`, the address itself.
    Address(Reg, Reg, i8),
    /// The run-time address of a place: relative to the next instruction in long mode, to the base in `Bp` otherwise.
    Locate(Reg, Place),
    Add(Reg, Reg),
    AddNumber(Reg, i32),
    /// Adds the second register to the word at the address in the first.
    AddTo(Reg, Reg),
    /// Subtracts the linked address of a place (i386).
    SubtractPlace(Reg, Place),
    ShiftRightOne(Reg),
    /// The lowest bit of `Ax`.
    TestLowest,
    /// 32 bits against zero.
    TestHalf(Reg),
    Compare(Reg, Reg),
    /// To a label within 127 bytes.
    Jump(When, Place),
    /// To any place.
    JumpFar(Place),
    Call(Place),
    /// The system call of the mode.
    Kernel,
    Return,
    /// Stops the program: an undefined instruction.
    Trap,
}

/// An instruction in its mode.
pub(super) struct Instr(pub(super) Mode, pub(super) Op);

const READ: u32 = 1;
const READ_WRITE: u32 = 1 | 2;

/// The whole initialiser.
pub(super) fn initialiser(mode: Mode, layout: Layout) -> Code<Instr> {
    use Op::*;
    use Place::{Image, Label, Original, Relro, Table, TableEnd};
    use Reg::*;
    use When::*;

    let (saved, base, where_to, end): (&[Reg], _, _, _) = match mode {
        // The arguments of the initialiser; cx and r11, which system calls change, hold nothing then.
        Mode::Long => (&[Di, Si, Dx], R8, Di, R9),
        // The arguments lie on the stack; these registers belong to the caller.
        Mode::Protected => (&[Bx, Si, Di, Bp], Bp, Dx, Di),
    };
    let word: i8 = match mode {
        Mode::Long => 8,
        Mode::Protected => 4,
    };
    let bitmap_words = i32::from(word) * 8 - 1;
    let save: Vec<Op> = saved.iter().map(|reg| Push(*reg)).collect();
    let restore: Vec<Op> = saved.iter().rev().map(|reg| Pop(*reg)).collect();
    let protect = |relro: &Range<u64>, protection: u32| {
        let (call, address, length) = match mode {
            Mode::Long => (10, Di, Si),
            Mode::Protected => (125, Bx, Cx),
        };
        // Less than 2 GiB, or its end is out of reach of `Locate`.
        let bytes = (relro.end - relro.start) as u32;
        [Locate(address, Relro), Set(length, bytes), Set(Dx, protection), Set(Ax, call), Kernel, TestHalf(Ax)]
    };
    let relro = layout.relro.clone();
    let done = if layout.original.is_some() { JumpFar(Original) } else { Return };

    let preamble = match mode {
        Mode::Long => ".intel_syntax noprefix\n.code64\n",
        Mode::Protected => ".intel_syntax noprefix\n.code32\n",
    };
    let mut code = Code::new(preamble, layout);
    let mut block = |label, ops: &[&[Op]]| {
        code.block(label, ops.concat().into_iter().map(|op| Instr(mode, op)).collect());
    };
    match mode {
        Mode::Long => block("initialise", &[&[Endbr64], &save]),
        Mode::Protected => {
            // A call of the next instruction is the only way to read the program counter.
            block("initialise", &[&save, &[Call(Label("here"))]]);
            block("here", &[&[Pop(base), SubtractPlace(base, Label("here"))]]);
        }
    }
    if let Some(relro) = &relro {
        block("unlock", &[&protect(relro, READ_WRITE), &[Jump(Zero, Label("apply"))]]);
        block("stop", &[&[Trap]]);
    }
    let locate_base: &[Op] = if mode == Mode::Long { &[Locate(base, Image)] } else { &[] };
    block("apply", &[locate_base, &[Locate(Si, Table), Locate(end, TableEnd)]]);
    block("fetch", &[&[Load(Ax, Si), AddNumber(Si, word.into()), TestLowest, Jump(NotZero, Label("bitmap"))]]);
    // An even word is the address of a word to relocate.
    block("single", &[&[Add(Ax, base), AddTo(Ax, base), Address(where_to, Ax, word), Jump(Always, Label("next"))]]);
    // An odd one holds, above its lowest bit, a bit for each of the words that follow the last one.
    block("bitmap", &[&[Move(Cx, where_to)]]);
    block("bit", &[&[ShiftRightOne(Ax), Jump(Zero, Label("advance")), TestLowest, Jump(Zero, Label("clear"))]]);
    block("set", &[&[AddTo(Cx, base)]]);
    block("clear", &[&[AddNumber(Cx, word.into()), Jump(Always, Label("bit"))]]);
    block("advance", &[&[AddNumber(where_to, bitmap_words * i32::from(word))]]);
    block("next", &[&[Compare(Si, end), Jump(Below, Label("fetch"))]]);
    if let Some(relro) = &relro {
        block("lock", &[&protect(relro, READ), &[Jump(NotZero, Label("stop"))]]);
    }
    block("finish", &[&restore, &[done]]);
    code
}

impl Instruction for Instr {
    fn encode(&self, at: u64, resolve: &Resolve<'_>) -> Result<Vec<u8>> {
        let Self(mode, op) = *self;
        let long = mode == Mode::Long;
        // REX prefix: W makes the operands 64 bits wide, R and B are the fourth bits of the two registers.
        let rex = |wide: bool, reg: Reg, base: Reg| -> Vec<u8> {
            let bits = u8::from(wide) << 3 | (reg as u8 >> 3) << 2 | base as u8 >> 3;
            if long && bits != 0 { vec![0x40 | bits] } else { Vec::new() }
        };
        let modrm = |kind: u8, reg: u8, base: u8| kind << 6 | (reg & 7) << 3 | (base & 7);
        let both = |opcode: u8, reg: Reg, base: Reg| {
            let mut bytes = rex(true, reg, base);
            bytes.extend([opcode, modrm(3, reg as u8, base as u8)]);
            bytes
        };
        // An operand `[base]`; bp has no form without a displacement.
        let memory = |opcode: u8, reg: Reg, base: Reg| {
            let mut bytes = rex(true, reg, base);
            if base == Reg::Bp {
                bytes.extend([opcode, modrm(1, reg as u8, base as u8), 0]);
            } else {
                bytes.extend([opcode, modrm(0, reg as u8, base as u8)]);
            }
            bytes
        };
        let relative = |mut bytes: Vec<u8>, place: Place| -> Result<Vec<u8>> {
            let next = at + bytes.len() as u64 + 4;
            let way = distance(next, resolve(place)?, 32)?;
            bytes.extend(&way.to_le_bytes()[..4]);
            Ok(bytes)
        };
        let absolute = |mut bytes: Vec<u8>, place: Place| -> Result<Vec<u8>> {
            // 32 bits: addresses of an i386 object always fit.
            let address = u32::try_from(resolve(place)?)
                .map_err(|_| Error::bug(format!("an address of a 32-bit object, `{place}`, has more than 32 bits")))?;
            bytes.extend(address.to_le_bytes());
            Ok(bytes)
        };
        Ok(match op {
            Op::Endbr64 => vec![0xf3, 0x0f, 0x1e, 0xfa],
            Op::Push(reg) => [rex(false, Reg::Ax, reg), vec![0x50 | (reg as u8 & 7)]].concat(),
            Op::Pop(reg) => [rex(false, Reg::Ax, reg), vec![0x58 | (reg as u8 & 7)]].concat(),
            Op::Set(reg, number) => {
                let mut bytes = rex(false, Reg::Ax, reg);
                bytes.push(0xb8 | (reg as u8 & 7));
                bytes.extend(number.to_le_bytes());
                bytes
            }
            Op::Move(to, from) => both(0x89, from, to),
            Op::Load(to, from) => memory(0x8b, to, from),
            Op::Address(to, from, number) => {
                let mut bytes = rex(true, to, from);
                bytes.extend([0x8d, modrm(1, to as u8, from as u8)]);
                bytes.extend(number.to_le_bytes());
                bytes
            }
            Op::Locate(to, place) if long => {
                let mut bytes = rex(true, to, Reg::Ax);
                bytes.extend([0x8d, modrm(0, to as u8, 5)]);
                relative(bytes, place)?
            }
            Op::Locate(to, place) => absolute(vec![0x8d, modrm(2, to as u8, Reg::Bp as u8)], place)?,
            Op::Add(to, from) => both(0x01, from, to),
            Op::AddNumber(to, number) => {
                let mut bytes = rex(true, Reg::Ax, to);
                if let Ok(small) = i8::try_from(number) {
                    bytes.extend([0x83, modrm(3, 0, to as u8)]);
                    bytes.extend(small.to_le_bytes());
                } else if to == Reg::Ax {
                    bytes.push(0x05);
                    bytes.extend(number.to_le_bytes());
                } else {
                    bytes.extend([0x81, modrm(3, 0, to as u8)]);
                    bytes.extend(number.to_le_bytes());
                }
                bytes
            }
            Op::AddTo(address, from) => memory(0x01, from, address),
            Op::SubtractPlace(Reg::Ax, place) => absolute(vec![0x2d], place)?,
            Op::SubtractPlace(to, place) => absolute(vec![0x81, modrm(3, 5, to as u8)], place)?,
            Op::ShiftRightOne(reg) => {
                let mut bytes = rex(true, Reg::Ax, reg);
                bytes.extend([0xd1, modrm(3, 5, reg as u8)]);
                bytes
            }
            Op::TestLowest => vec![0xa8, 0x01],
            Op::TestHalf(reg) => {
                let mut bytes = rex(false, reg, reg);
                bytes.extend([0x85, modrm(3, reg as u8, reg as u8)]);
                bytes
            }
            Op::Compare(left, right) => both(0x39, right, left),
            Op::Jump(when, place) => {
                let opcode = match when {
                    When::Always => 0xeb,
                    When::Zero => 0x74,
                    When::NotZero => 0x75,
                    When::Below => 0x72,
                };
                vec![opcode, distance(at + 2, resolve(place)?, 8)?.to_le_bytes()[0]]
            }
            Op::JumpFar(place) => relative(vec![0xe9], place)?,
            Op::Call(place) => relative(vec![0xe8], place)?,
            Op::Kernel if long => vec![0x0f, 0x05],
            Op::Kernel => vec![0xcd, 0x80],
            Op::Return => vec![0xc3],
            Op::Trap => vec![0x0f, 0x0b],
        })
    }
}

impl fmt::Display for Instr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mode, op) = *self;
        let long = mode == Mode::Long;
        let half = |reg: Reg| match reg {
            Reg::Ax => "eax",
            Reg::Cx => "ecx",
            Reg::Dx => "edx",
            Reg::Bx => "ebx",
            Reg::Bp => "ebp",
            Reg::Si => "esi",
            Reg::Di => "edi",
            Reg::R8 => "r8d",
            Reg::R9 => "r9d",
        };
        let whole = |reg: Reg| match reg {
            Reg::R8 => "r8".to_owned(),
            Reg::R9 => "r9".to_owned(),
            _ if long => half(reg).replacen('e', "r", 1),
            _ => half(reg).to_owned(),
        };
        let size = if long { "QWORD" } else { "DWORD" };
        match op {
            Op::Endbr64 => write!(out, "endbr64"),
            Op::Push(reg) => write!(out, "push {}", whole(reg)),
            Op::Pop(reg) => write!(out, "pop {}", whole(reg)),
            Op::Set(reg, number) => write!(out, "mov {}, {number}", half(reg)),
            Op::Move(to, from) => write!(out, "mov {}, {}", whole(to), whole(from)),
            Op::Load(to, from) => write!(out, "mov {}, {size} PTR [{}]", whole(to), whole(from)),
            Op::Address(to, from, number) => write!(out, "lea {}, [{}{number:+}]", whole(to), whole(from)),
            Op::Locate(to, place) => {
                write!(out, "lea {}, [{}+{place}]", whole(to), if long { "rip" } else { "ebp" })
            }
            Op::Add(to, from) => write!(out, "add {}, {}", whole(to), whole(from)),
            Op::AddNumber(to, number) => write!(out, "add {}, {number}", whole(to)),
            Op::AddTo(address, from) => write!(out, "add {size} PTR [{}], {}", whole(address), whole(from)),
            Op::SubtractPlace(to, place) => write!(out, "sub {}, OFFSET {place}", whole(to)),
            Op::ShiftRightOne(reg) => write!(out, "shr {}, 1", whole(reg)),
            Op::TestLowest => write!(out, "test al, 1"),
            Op::TestHalf(reg) => write!(out, "test {0}, {0}", half(reg)),
            Op::Compare(left, right) => write!(out, "cmp {}, {}", whole(left), whole(right)),
            Op::Jump(When::Always, place) | Op::JumpFar(place) => write!(out, "jmp {place}"),
            Op::Jump(When::Zero, place) => write!(out, "jz {place}"),
            Op::Jump(When::NotZero, place) => write!(out, "jnz {place}"),
            Op::Jump(When::Below, place) => write!(out, "jb {place}"),
            Op::Call(place) => write!(out, "call {place}"),
            Op::Kernel if long => write!(out, "syscall"),
            Op::Kernel => write!(out, "int 0x80"),
            Op::Return => write!(out, "ret"),
            Op::Trap => write!(out, "ud2"),
        }
    }
}

//! Instructions of a function's entry, made anew at another address, so that the entry can stay a jump or a breakpoint.
//! x86-64. Pure, and for any bytes.
//!
//! A call among them is made a push of the address behind the call in the function itself and a jump: who is called
//! returns there, and nobody who unwinds the stack finds an address that no table knows.

use super::stub::JUMP;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    MemoryOperand, OpKind, Register,
};

/// So much of a function is looked at for its first instructions: a jump begins in the last byte of `endbr64` at the
/// latest, and the longest instruction has 15 bytes.
pub const HEAD: usize = 4 + JUMP + 15;
/// What processors with guarded indirect branches want at their targets.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// The most that one entry becomes.
pub const MOST: usize = 128;

/// Instructions of an entry that run elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the function in front of them, which stay.
    pub skipped: usize,
    /// Their bytes.
    pub len: usize,
    /// The last of them does not go on to the next.
    ends: bool,
}

impl Piece {
    /// Whether one of them is a call: then what is made of them holds an address of the function's.
    pub fn calls(&self, code: &[u8]) -> bool {
        let code = code.get(self.skipped..self.skipped + self.len).unwrap_or_default();
        let is_call = |it: Instruction| matches!(it.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        decoder(code, 0).into_iter().any(is_call)
    }
}

/// Which instructions have to go for a jump behind an `endbr64`, which stays. `code` is the function's begin, up to
/// [`HEAD`] bytes; so many of them belong to the function (0: nobody knows), and so many may be written.
///
/// # Errors
/// Why a jump does not fit, in words.
pub fn for_jump(code: &[u8], len: u64, room: u64) -> Result<Piece, &'static str> {
    let skipped = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    behind(skipped, code, len, room)
}

/// The same for a jump in the place of the very first bytes.
///
/// # Errors
/// Why a jump does not fit, in words.
pub fn for_jump_at_begin(code: &[u8], len: u64, room: u64) -> Result<Piece, &'static str> {
    behind(0, code, len, room)
}

fn behind(skipped: usize, code: &[u8], len: u64, room: u64) -> Result<Piece, &'static str> {
    const SHORT: &str = "it is too short for a jump";
    let end = skipped + JUMP;
    if room < end as u64 || code.len() < end {
        return Err(SHORT);
    }
    let mut decoder = decoder(code, 0);
    decoder.set_position(skipped).map_err(|_| SHORT)?;
    while decoder.position() < end {
        let instruction = decode(&mut decoder)?;
        let at = decoder.position();
        let is_last = at >= end;
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall if !is_last => {
                return Err("a call returns into what a jump would replace");
            }
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                // What lies behind it up to the next function fills up.
                if !is_last && !is_filler(&mut decoder, end) {
                    return Err("its code goes on behind a branch that a jump would replace");
                }
                return Ok(Piece { skipped, len: at - skipped, ends: true });
            }
            _ => {}
        }
        if len != 0 && at as u64 > len {
            return Err(SHORT);
        }
    }
    Ok(Piece { skipped, len: decoder.position() - skipped, ends: false })
}

/// The first instruction, over which a breakpoint lies.
///
/// # Errors
/// It is none.
pub fn for_trap(code: &[u8]) -> Result<Piece, &'static str> {
    let mut decoder = decoder(code, 0);
    let flow = decode(&mut decoder)?.flow_control();
    let ends = matches!(flow, FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch);
    Ok(Piece { skipped: 0, len: decoder.position(), ends })
}

/// A piece of the function that begins with `code` at `address`, for another address; behind it the function goes on.
/// `None`: it cannot be said from there.
pub fn moved(piece: &Piece, code: &[u8], address: u64, to: u64) -> Option<Vec<u8>> {
    let begin = address.checked_add(piece.skipped as u64)?;
    let mut decoder = decoder(code.get(piece.skipped..piece.skipped + piece.len)?, begin);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let mut instruction = decode(&mut decoder).ok()?;
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => {
                instructions.extend(called(instruction)?);
                // It is the last one.
                return encoded(&instructions, to);
            }
            _ => {
                // The encoder would take the function's own address for that of the instruction in its new place.
                instruction.set_ip(0);
                instructions.push(instruction);
            }
        }
    }
    if !piece.ends {
        instructions.push(Instruction::with_branch(Code::Jmp_rel32_64, begin + piece.len as u64).ok()?);
    }
    encoded(&instructions, to)
}

/// The first instructions of a function that begins with `code` at `address`, as a jump in their place would need them
/// at another one; `None`: no jump fits there.
pub fn moved_entry(code: &[u8], address: u64, to: u64) -> Option<Vec<u8>> {
    moved(&for_jump(code, 0, u64::MAX).ok()?, code, address, to)
}

/// A call that returns to where the instruction was.
fn called(call: Instruction) -> Option<[Instruction; 3]> {
    let back = call.next_ip();
    let on_top = MemoryOperand::with_base_displ(Register::RSP, 4);
    let jump = match call.code() {
        Code::Call_rel32_64 => Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch64()).ok()?,
        // What it finds by the stack pointer, or in it, lies elsewhere once something is pushed.
        Code::Call_rm64 if call.memory_base() != Register::RSP && call.op0_register() != Register::RSP => {
            let mut jump = call;
            jump.set_ip(0);
            jump.set_code(Code::Jmp_rm64);
            jump
        }
        _ => return None,
    };
    Some([
        // It is extended with its sign; the other half follows.
        Instruction::with1(Code::Pushq_imm32, back as i32).ok()?,
        Instruction::with2(Code::Mov_rm32_imm32, on_top, (back >> 32) as u32).ok()?,
        jump,
    ])
}

fn encoded(instructions: &[Instruction], to: u64) -> Option<Vec<u8>> {
    let block = InstructionBlock::new(instructions, to);
    let result = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?;
    (result.code_buffer.len() <= MOST).then_some(result.code_buffer)
}

fn decoder(code: &[u8], address: u64) -> Decoder<'_> {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE)
}

fn decode(decoder: &mut Decoder<'_>) -> Result<Instruction, &'static str> {
    let instruction = decoder.decode();
    // An `int3` in the middle of code is the program's own; ours are not in the file.
    match instruction.is_invalid() || instruction.code() == Code::Int3 {
        true => Err("its first instructions are none that are known"),
        false => Ok(instruction),
    }
}

fn is_filler(decoder: &mut Decoder<'_>, end: usize) -> bool {
    while decoder.position() < end {
        let instruction = decoder.decode();
        let is_nop = matches!(
            instruction.code(),
            Code::Nopw | Code::Nopd | Code::Nopq | Code::Nop_rm16 | Code::Nop_rm32 | Code::Nop_rm64 | Code::Int3
        );
        // A long one at the end of what was read is cut off: it is one all the same if it begins as one.
        let is_cut = instruction.is_invalid() && !decoder.can_decode();
        if !is_nop && !is_cut {
            return false;
        }
    }
    true
}

/// At which bytes of a function's code an instruction begins. `None`: they do not end where the code ends, or one of
/// its own branches leads between them.
pub fn instructions(code: &[u8]) -> Option<Vec<bool>> {
    let mut begins = vec![false; code.len()];
    let mut targets = Vec::new();
    let mut decoder = decoder(code, 0);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        begins[decoder.position()] = true;
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        if matches!(instruction.op0_kind(), OpKind::NearBranch64) {
            targets.extend(usize::try_from(instruction.near_branch64()));
        }
    }
    targets.iter().all(|target| begins.get(*target).is_none_or(|is_begin| *is_begin)).then_some(begins)
}

/// Whether a jump of a function leads to its own begin: a loop, or a call of itself that the compiler made one.
pub fn jumps_to_its_begin(code: &[u8]) -> bool {
    let begin = 1 << 40;
    decoder(code, begin).into_iter().any(|instruction| {
        let is_jump =
            matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
        is_jump && instruction.near_branch_target() == begin
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: u64 = 0x5555_0000_1000;
    const TO: u64 = AT - (1 << 30);

    fn read(code: &[u8]) -> Vec<Instruction> {
        decoder(code, TO).into_iter().collect()
    }

    fn jumped(code: &[u8]) -> (Piece, Vec<Instruction>) {
        let piece = for_jump(code, 0, 64).unwrap();
        let moved = moved(&piece, code, AT, TO).unwrap();
        (piece, read(&moved))
    }

    fn padded(code: &[u8]) -> Vec<u8> {
        let mut code = code.to_vec();
        code.resize(HEAD, 0x90);
        code
    }

    #[test]
    fn what_is_relative_leads_where_it_led() {
        // mov eax, [rip + 0x100]
        let (piece, moved) = jumped(&padded(&[0x8b, 0x05, 0x00, 0x01, 0, 0]));
        assert_eq!((piece.skipped, piece.len, moved.len()), (0, 6, 2));
        assert_eq!(moved[0].memory_displacement64(), AT + 6 + 0x100);
        assert_eq!(moved[1].near_branch_target(), AT + 6);
        // push r15; lea rax, [rip - 9]: the function's own address
        let (_, moved) = jumped(&padded(&[0x41, 0x57, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff]));
        assert_eq!(moved[1].memory_displacement64(), AT);
        // add rax, 1; jmp to the begin
        let (_, moved) = jumped(&padded(&[0x48, 0x83, 0xc0, 0x01, 0xeb, 0xfa]));
        assert_eq!(moved[1].near_branch_target(), AT);
        // test edi, edi; je +0x20; nop
        let (_, moved) = jumped(&padded(&[0x85, 0xff, 0x74, 0x20, 0x90]));
        assert_eq!(moved[1].near_branch_target(), AT + 4 + 0x20);
        // push rbp; jrcxz +8; push rax; nop
        let (_, moved) = jumped(&padded(&[0x55, 0xe3, 0x08, 0x50, 0x90]));
        assert!(moved.iter().any(|it| it.code() == Code::Jrcxz_rel8_64), "{moved:?}");
        assert!(moved.iter().any(|it| it.near_branch_target() == AT + 3 + 8), "{moved:?}");
    }

    #[test]
    fn a_call_returns_to_the_function_itself() {
        // sub rsp, 8; call +0x40
        let (piece, moved) = jumped(&padded(&[0x48, 0x83, 0xec, 0x08, 0xe8, 0x40, 0, 0, 0]));
        assert_eq!(piece.len, 9);
        let back = AT + 9;
        assert_eq!(moved[1].immediate32to64().cast_unsigned() as u32, back as u32);
        assert_eq!((moved[2].immediate32(), moved[2].memory_displacement64()), ((back >> 32) as u32, 4));
        assert_eq!((moved[3].code(), moved[3].near_branch_target()), (Code::Jmp_rel32_64, AT + 9 + 0x40));
        assert_eq!(moved.len(), 4);
        // call [rip + 0x20]
        let (_, moved) = jumped(&padded(&[0xff, 0x15, 0x20, 0, 0, 0]));
        assert_eq!((moved[2].code(), moved[2].memory_displacement64()), (Code::Jmp_rm64, AT + 6 + 0x20));
        // call rax; nop...: it returns into what is replaced.
        assert!(for_jump(&padded(&[0xff, 0xd0]), 0, 64).is_err());
        // call [rsp + 0x100]
        let code = padded(&[0xff, 0x94, 0x24, 0, 1, 0, 0]);
        assert_eq!(moved_of(&code), None);
    }

    fn moved_of(code: &[u8]) -> Option<Vec<u8>> {
        moved(&for_jump(code, 0, 64).unwrap(), code, AT, TO)
    }

    #[test]
    fn endbr64_stays_and_short_functions_use_what_fills_up() {
        let (piece, moved) = jumped(&padded(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x50]));
        assert_eq!((piece.skipped, piece.len), (4, 5));
        assert_eq!(moved.last().unwrap().near_branch_target(), AT + 9);
        // mov eax, edi; ret; nops
        let (piece, moved) = jumped(&padded(&[0x89, 0xf8, 0xc3]));
        assert_eq!((piece.len, moved.len()), (3, 2));
        // ret; then code of another kind
        assert!(for_jump(&padded(&[0xc3, 0x50]), 1, 64).is_err());
        // Five bytes of which two are the next function's.
        assert!(for_jump(&padded(&[0x89, 0xf8, 0xc3]), 3, 3).is_err());
        assert!(for_jump(&[0x55], 1, 64).is_err());
        assert!(for_jump(&padded(&[0x06]), 0, 64).is_err(), "no instruction of 64-bit code");
        assert_eq!(for_trap(&[0xc3]).unwrap(), Piece { skipped: 0, len: 1, ends: true });
    }

    #[test]
    fn loops_to_the_begin_are_known() {
        assert!(jumps_to_its_begin(&[0x85, 0xff, 0xeb, 0xfc]));
        assert!(!jumps_to_its_begin(&[0x85, 0xff, 0xeb, 0xfd]));
        // call to itself
        assert!(!jumps_to_its_begin(&[0xe8, 0xfb, 0xff, 0xff, 0xff]));
    }

    #[test]
    fn instructions_agree_with_length_and_branches_or_are_not_known() {
        assert_eq!(instructions(&[0x85, 0xff, 0xeb, 0xfc]), Some(vec![true, false, true, false]));
        // Into the middle of the first one; out of the function; cut off; none of 64-bit code.
        assert_eq!(instructions(&[0x85, 0xff, 0xeb, 0xfd]), None);
        assert!(instructions(&[0x85, 0xff, 0xeb, 0x7f]).is_some());
        assert_eq!(instructions(&[0x85, 0xff, 0xeb]), None);
        assert_eq!(instructions(&[0x06, 0xff]), None);
        assert_eq!(instructions(&[]), Some(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes(code in prop::collection::vec(any::<u8>(), 0..HEAD + 4), len in 0..40_u64, room in 0..40_u64) {
            for piece in [for_jump(&code, len, room), for_trap(&code)].into_iter().flatten() {
                prop_assert!(piece.skipped + piece.len <= code.len());
                if let Some(moved) = moved(&piece, &code, AT, TO) {
                    prop_assert!(moved.len() <= MOST && !moved.is_empty());
                }
            }
            instructions(&code);
            jumps_to_its_begin(&code);
        }
    }
}

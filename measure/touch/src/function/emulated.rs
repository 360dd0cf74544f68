//! First instructions of functions that the tracer runs itself, in place of a thread that stands at its breakpoint
//! there: so that the breakpoint need not be taken away, past which other threads would come unseen.

use iced_x86::{Code, Decoder, DecoderOptions, Register};
use os::tracee::Registers;

/// What an instruction did.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Registers behind it.
    pub registers: Registers,
    /// What it wrote where, and how many bytes of that.
    pub pushed: Option<(u64, u64, usize)>,
}

/// The instruction that `code` begins with, at an address; `None`: it is none of those that stand at the begin of most
/// functions.
pub fn emulated(code: &[u8], address: u64, registers: &Registers, is_32: bool) -> Option<Done> {
    let bits = if is_32 { 32 } else { 64 };
    let instruction = Decoder::with_ip(bits, code, address, DecoderOptions::NONE).decode();
    let mut after = *registers;
    after.rip = instruction.next_ip();
    let mut pushed = None;
    match instruction.code() {
        Code::Endbr64 | Code::Endbr32 | Code::Nopd | Code::Nop_rm16 | Code::Nop_rm32 | Code::Nop_rm64 => {}
        Code::Push_r64 | Code::Push_r32 => {
            let width = if is_32 { 4 } else { 8 };
            let value = *register(&mut after, instruction.op0_register())?;
            after.rsp = registers.rsp.checked_sub(width as u64)?;
            pushed = Some((after.rsp, value, width));
        }
        Code::Mov_r64_rm64 | Code::Mov_rm64_r64 if instruction.op1_register() != Register::None => {
            let to = Some(instruction.op0_register()).filter(|register| *register != Register::None)?;
            let value = *register(&mut after, instruction.op1_register())?;
            *register(&mut after, to)? = value;
        }
        Code::Lea_r64_m if !is_32 && !instruction.is_ip_rel_memory_operand() => {
            let mut address = instruction.memory_displacement64();
            for (part, scale) in
                [(instruction.memory_base(), 1), (instruction.memory_index(), instruction.memory_index_scale())]
            {
                // Of a half the rest does not count.
                if part.is_gpr32() {
                    return None;
                }
                if part != Register::None {
                    address = address.wrapping_add(register(&mut after, part)?.wrapping_mul(u64::from(scale)));
                }
            }
            *register(&mut after, instruction.op0_register())? = address;
        }
        Code::Mov_r32_imm32 => {
            *register(&mut after, instruction.op0_register().full_register())? = instruction.immediate32().into();
        }
        _ => return None,
    }
    Some(Done { registers: after, pushed })
}

fn register(registers: &mut Registers, which: Register) -> Option<&mut u64> {
    Some(match which {
        Register::RAX | Register::EAX => &mut registers.rax,
        Register::RBX | Register::EBX => &mut registers.rbx,
        Register::RCX | Register::ECX => &mut registers.rcx,
        Register::RDX | Register::EDX => &mut registers.rdx,
        Register::RSI | Register::ESI => &mut registers.rsi,
        Register::RDI | Register::EDI => &mut registers.rdi,
        Register::RBP | Register::EBP => &mut registers.rbp,
        Register::RSP | Register::ESP => &mut registers.rsp,
        Register::R8 => &mut registers.r8,
        Register::R9 => &mut registers.r9,
        Register::R10 => &mut registers.r10,
        Register::R11 => &mut registers.r11,
        Register::R12 => &mut registers.r12,
        Register::R13 => &mut registers.r13,
        Register::R14 => &mut registers.r14,
        Register::R15 => &mut registers.r15,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Registers {
        // SAFETY: it is made of integers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        (registers.rsp, registers.rbp, registers.r12, registers.rax) = (0x8000, 0xb0, 0x12, u64::MAX);
        registers
    }

    #[test]
    fn what_functions_begin_with() {
        let at = 0x1000;
        let run = |code: &[u8], is_32| emulated(code, at, &registers(), is_32);
        let done = run(&[0x55], false).unwrap();
        assert_eq!((done.registers.rip, done.registers.rsp, done.pushed), (at + 1, 0x7ff8, Some((0x7ff8, 0xb0, 8))));
        let done = run(&[0x41, 0x54], false).unwrap();
        assert_eq!((done.registers.rip, done.pushed), (at + 2, Some((0x7ff8, 0x12, 8))));
        assert_eq!(run(&[0x55], true).unwrap().pushed, Some((0x7ffc, 0xb0, 4)));
        assert_eq!(run(&[0xf3, 0x0f, 0x1e, 0xfa], false).unwrap().registers.rip, at + 4);
        // mov rbp, rsp
        assert_eq!(run(&[0x48, 0x89, 0xe5], false).unwrap().registers.rbp, 0x8000);
        // mov eax, 7
        assert_eq!(run(&[0xb8, 7, 0, 0, 0], false).unwrap().registers.rax, 7);
        // lea rax, [r12 + rbp * 2 + 1]; lea rsp, [rsp - 8]
        assert_eq!(run(&[0x49, 0x8d, 0x44, 0x6c, 0x01], false).unwrap().registers.rax, 0x12 + 0xb0 * 2 + 1);
        assert_eq!(run(&[0x48, 0x8d, 0x64, 0x24, 0xf8], false).unwrap().registers.rsp, 0x7ff8);
        assert!(run(&[0x48, 0x8d, 0x05, 0, 0, 0, 0], false).is_none(), "relative to the instruction");
        // mov rax, [rdi]; mov [rdi], rax; sub rsp, 8; a byte that is no instruction
        for code in [&[0x48, 0x8b, 0x07][..], &[0x48, 0x89, 0x07], &[0x48, 0x83, 0xec, 0x08], &[0x06]] {
            assert!(run(code, false).is_none(), "{code:x?}");
        }
    }
}

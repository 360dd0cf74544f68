//! Tests: the GNU assembler and linker make the same bytes of the same text.

use super::assembler::{Assembled, Code, Instruction, Place};
use super::{Layout, Machine, aarch64, arm, assemble, listing, size_limit, x86};
use std::path::Path;
use std::process::Command;

/// The bytes that GNU as and ld make of a listing; `None`, counted as skipped, without them.
fn gnu(machine: Machine, listing: &str, layout: &Layout) -> Option<Vec<u8>> {
    let (prefix, emulation) = match machine {
        Machine::X86_64 => ("x86_64-linux-gnu", "elf_x86_64"),
        Machine::I386 => ("i686-linux-gnu", "elf_i386"),
        Machine::Aarch64 => ("aarch64-linux-gnu", "aarch64linux"),
        Machine::Arm => ("arm-linux-gnueabihf", "armelf_linux_eabi"),
    };
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name);
    std::fs::write(path("code.s"), listing).unwrap();
    let run = |tool: &str, args: &[&str], files: &[&Path]| -> Option<()> {
        let tool = format!("{prefix}-{tool}");
        let Ok(output) = Command::new(&tool).args(args).args(files).output() else {
            testing::skip(&format!("needs {tool} (binutils)"));
            return None;
        };
        assert!(output.status.success(), "{tool}: {}\n{listing}", String::from_utf8_lossy(&output.stderr));
        Some(())
    };
    run("as", &["-o"], &[&path("code.o"), &path("code.s")])?;
    let mut places = vec![
        format!("-Ttext={:#x}", layout.code),
        "--defsym=image=0".to_owned(),
        format!("--defsym=table={:#x}", layout.table.start),
        format!("--defsym=table_end={:#x}", layout.table.end),
    ];
    if let Some(relro) = &layout.relro {
        let page = if matches!(machine, Machine::X86_64 | Machine::I386) { 4096 } else { 1 };
        places.push(format!("--defsym=relro={:#x}", relro.start / page * page));
        places.push(format!("--defsym=relro_end={:#x}", relro.end / page * page));
    }
    places.extend(layout.original.map(|original| format!("--defsym=original={original:#x}")));
    let mut args: Vec<&str> = vec!["-m", emulation, "-e", "0"];
    args.extend(places.iter().map(String::as_str));
    args.push("-o");
    run("ld", &args, &[&path("code"), &path("code.o")])?;
    run("objcopy", &["-O", "binary", "-j", ".text"], &[&path("code"), &path("code.bin")])?;
    Some(std::fs::read(path("code.bin")).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

/// Near and far, before and after the code, with and without each part.
fn layouts(machine: Machine) -> Vec<Layout> {
    let far = match machine {
        Machine::X86_64 | Machine::I386 => 0x7000_0000,
        Machine::Aarch64 => 0xf000_0000,
        Machine::Arm => 0xe000_0000,
    };
    let full =
        Layout { code: 0x12_3474, table: 0x1238..0x2340, relro: Some(0x20_0df0..0x24_1ff8), original: Some(0x3000) };
    let before = Layout { code: far, ..full.clone() };
    let after = Layout {
        code: 0x1000,
        table: far..far + 0x100,
        relro: Some(far + 0x1000..far + 0x9_1234),
        original: Some(far + 0x20_0001),
    };
    let bare = Layout { relro: None, original: None, ..full.clone() };
    let open = Layout { relro: None, ..full.clone() };
    let last = Layout { original: None, ..full.clone() };
    vec![full, before, after, bare, open, last]
}

#[test]
fn the_gnu_assembler_makes_the_same_initialiser() {
    for machine in Machine::ALL {
        for layout in layouts(machine) {
            let text = listing(machine, &layout).unwrap();
            let ours = assemble(machine, &layout).unwrap();
            let Some(theirs) = gnu(machine, &text, &layout) else { return };
            assert_eq!(hex(&ours), hex(&theirs), "{machine} at {layout:#x?}\n{text}");
        }
    }
}

#[test]
fn the_limit_is_the_size_of_the_fullest_one() {
    for machine in Machine::ALL {
        let sizes = layouts(machine).iter().map(|layout| assemble(machine, layout).unwrap().len()).collect::<Vec<_>>();
        let largest = *sizes.iter().max().unwrap();
        assert_eq!(largest.next_multiple_of(16), size_limit(machine), "{machine}: {sizes:?}");
    }
}

/// Every kind of instruction with every register, against GNU as.
fn sweep<I: Instruction>(machine: Machine, preamble: &'static str, instructions: Vec<I>) {
    let layout = layouts(machine).remove(0);
    let mut code = Code::new(preamble, layout.clone());
    code.block("first", instructions);
    let text = code.listing();
    if let Some(theirs) = gnu(machine, &text, &layout) {
        assert_eq!(hex(&code.bytes().unwrap()), hex(&theirs), "{text}");
    }
}

const FIRST: Place = Place::Label("first");

#[test]
fn every_x86_instruction_is_encoded_as_gnu_does() {
    use x86::{Instr, Mode, Op::*, Reg, When};
    let registers = [Reg::Ax, Reg::Cx, Reg::Dx, Reg::Bx, Reg::Bp, Reg::Si, Reg::Di, Reg::R8, Reg::R9];
    for (machine, mode, preamble, registers) in [
        (Machine::X86_64, Mode::Long, ".intel_syntax noprefix\n.code64\n", &registers[..]),
        (Machine::I386, Mode::Protected, ".intel_syntax noprefix\n.code32\n", &registers[..7]),
    ] {
        let jumps = [When::Always, When::Zero, When::NotZero, When::Below].map(|when| Jump(when, FIRST));
        let mut ops = [&jumps[..], &[TestLowest, Call(FIRST), JumpFar(Place::Original), Kernel, Return, Trap]].concat();
        for &a in registers {
            ops.extend([Push(a), Pop(a), Set(a, 10), Set(a, u32::MAX), ShiftRightOne(a), TestHalf(a)]);
            ops.extend([-129, -128, -1, 1, 127, 128, i32::MAX].map(|number| AddNumber(a, number)));
            ops.push(Locate(a, Place::Table));
            if mode == Mode::Protected {
                ops.push(SubtractPlace(a, FIRST));
            }
            for &b in registers {
                ops.extend([Move(a, b), Load(a, b), Add(a, b), AddTo(a, b), Compare(a, b)]);
                ops.extend([-128, 1, 127].map(|number| Address(a, b, number)));
            }
        }
        if mode == Mode::Long {
            ops.push(Endbr64);
        }
        sweep(machine, preamble, ops.into_iter().map(|op| Instr(mode, op)).collect());
    }
}

#[test]
fn every_aarch64_instruction_is_encoded_as_gnu_does() {
    use aarch64::{Op::*, X};
    let mut ops =
        vec![BtiC, IfNotEqual(FIRST), IfLower(FIRST), IfLowerOrSame(FIRST), Jump(FIRST), Kernel, Return, Trap];
    for a in (0..31).map(X) {
        ops.extend([Set(a, 0), Set(a, 4096), Set(a, u16::MAX), PageOf(a, Place::Image), PageOf(a, Place::TableEnd)]);
        ops.extend([ComparePages(a, 0), ComparePages(a, 16), ComparePages(a, 4095), JumpTo(a), CompareMinus(a, 22)]);
        ops.extend([IfZero(a, FIRST), IfNotZero(a, FIRST), IfLowestClear(a, FIRST), IfLowestSet(a, FIRST)]);
        for b in [0, 1, 2, 15, 16, 30].map(X) {
            ops.extend([Move(a, b), Negate(a, b), Compare(a, b), Load(a, b), Store(a, b)]);
            ops.extend([AddInPage(a, b, Place::Table), AddNumber(a, b, 1), AddNumber(a, b, 4095)]);
            ops.extend([ShiftLeft(a, b, 1), ShiftLeft(a, b, 63), ShiftRight(a, b, 1), ShiftRight(a, b, 63)]);
            ops.extend([Add(a, b, X(7)), Subtract(a, b, X(7)), And(a, b, X(7))]);
            // Loading the register that is moved on has no defined result.
            if a != b {
                ops.extend([LoadThenAdd(a, b, 8), StoreThenAdd(a, b, 255)]);
            }
        }
    }
    sweep(Machine::Aarch64, "", ops);
}

#[test]
fn every_arm_instruction_is_encoded_as_gnu_does() {
    use arm::{If, Op::*, R, Set};
    let conditions = [If::Equal, If::NotEqual, If::Lower, If::LowerOrSame, If::Always];
    let mut ops = vec![Literal(R(1), FIRST), Kernel, Trap, AddressOf(Place::Table), WayTo(Place::Image, FIRST)];
    ops.extend([0b11, 0b0100_0011_1111_0111, 0x5fff].map(|set| Push(Set(set))));
    ops.extend([0b11, 0b0100_0011_1111_0111, 0x9fff].map(|set| Pop(Set(set))));
    ops.extend(conditions.map(|when| Jump(when, FIRST)));
    for a in (0..13).map(R) {
        ops.extend([0, 1, 125, 255, 256, 4096, 65_536, 0xff00_0000, 0xf000_000f].map(|number| Number(a, number)));
        ops.extend([0, 65_536].into_iter().flat_map(|number| [CompareNumber(a, number), CompareMinus(a, number)]));
        ops.extend([AddProgramCounter(a), TestLowest(a), JumpTo(a)]);
        for b in (0..13).map(R) {
            ops.extend([Move(a, b), Negate(a, b), Compare(a, b), ShiftRightOne(a, b), ShiftLeft(a, b, 2)]);
            ops.extend([Subtract(a, b, R(7)), And(a, b, R(7)), AddNumber(a, b, 4), AddNumber(a, b, 4096)]);
            for when in conditions {
                ops.extend([Add(when, a, b, R(7)), Load(when, a, b), Store(when, a, b)]);
            }
            // Loading the register that is moved on has no defined result.
            if a != b {
                ops.extend([LoadThenAdd(a, b, 4), StoreThenAdd(a, b, 255)]);
            }
        }
    }
    sweep(Machine::Arm, ".arm\n.syntax unified\n", ops);
}

#[test]
fn what_is_out_of_reach_is_an_error() {
    for (machine, reach) in [(Machine::X86_64, 1_u64 << 31), (Machine::Aarch64, 1 << 32)] {
        let near = Layout { code: 0x1000, table: reach - 0x1000..reach - 0xff8, relro: None, original: None };
        let far = Layout { table: reach + 0x2000..reach + 0x2008, ..near.clone() };
        assert!(assemble(machine, &near).is_ok());
        let error = assemble(machine, &far).unwrap_err();
        assert_eq!(error.exit, model::Exit::Data);
        assert!(error.to_string().starts_with("the object is too large"), "{error}");
    }
}

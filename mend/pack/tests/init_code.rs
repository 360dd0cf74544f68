//! The initialiser's code at work: on this processor, and on AArch64 and ARM under qemu.

use elf::relr::{Word, encode};
use pack::init::{Layout, Machine, assemble, may_be_read_only};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// As in `init/harness.c`.
const DATA: u64 = 0x20000;
const RELRO: std::ops::Range<u64> = 0x20000..0x50000;
const END: u64 = 0x80000;
const TABLE: u64 = 0x1000;

/// A machine that the harness can be built for and run on.
struct Rig {
    machine: Machine,
    harness: PathBuf,
    qemu: Option<&'static str>,
    object: u64,
    original: u64,
    room: tempfile::TempDir,
}

/// `None`, counted as skipped, where the compiler or qemu is missing. `kind` are further flags of the compiler.
fn rig(machine: Machine, kind: &[&str]) -> Option<Rig> {
    let here = cfg!(target_arch = "x86_64");
    let (compiler, qemu) = match machine {
        Machine::X86_64 => ("x86_64-linux-gnu-gcc", (!here).then_some("qemu-x86_64")),
        Machine::I386 => ("i686-linux-gnu-gcc", (!here).then_some("qemu-i386")),
        Machine::Aarch64 => ("aarch64-linux-gnu-gcc", Some("qemu-aarch64")),
        Machine::Arm => ("arm-linux-gnueabihf-gcc", Some("qemu-arm")),
    };
    let room = tempfile::tempdir().unwrap();
    let harness = room.path().join("harness");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/init/harness.c");
    let built = Command::new(compiler)
        .args(["-O1", "-fno-omit-frame-pointer", "-static", "-no-pie", "-Wall", "-Werror"])
        .args(["-Wl,-Ttext-segment=0x10000000", "-Wl,--section-start=.object=0x1000000"])
        .args(kind)
        .arg("-o")
        .args([&harness, &source])
        .output();
    let Ok(built) = built else {
        testing::skip(&format!("needs {compiler}"));
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    if let Some(qemu) = qemu
        && Command::new(qemu).arg("--version").output().is_err()
    {
        testing::skip(&format!("needs {qemu}"));
        return None;
    }
    let mut rig = Rig { machine, harness, qemu, object: 0, original: 0, room };
    let places = String::from_utf8(rig.start(&[]).stdout).unwrap();
    let mut places = places.split_whitespace().map(|place| place.parse::<u64>().unwrap());
    rig.object = places.next().unwrap();
    rig.original = places.next().unwrap() - rig.object;
    Some(rig)
}

impl Rig {
    fn start(&self, args: &[&str]) -> Output {
        let mut command = match self.qemu {
            Some(qemu) => {
                let mut command = Command::new(qemu);
                command.arg(&self.harness);
                command
            }
            None => Command::new(&self.harness),
        };
        command.arg(if args.is_empty() { "places" } else { "run" }).args(args).output().unwrap()
    }

    fn word(&self) -> usize {
        self.machine.word() as usize
    }

    fn put(&self, words: &mut [u8], at: u64, value: u64) {
        let at = (at - DATA) as usize;
        words[at..at + self.word()].copy_from_slice(&value.to_le_bytes()[..self.word()]);
    }

    /// The code, with its table at `TABLE`, in one blob.
    fn blob(&self, addresses: &[u64], relro: Option<std::ops::Range<u64>>, original: Option<u64>) -> Vec<u8> {
        let word = if self.word() == 8 { Word::Eight } else { Word::Four };
        let table: Vec<u8> =
            encode(addresses, word).iter().flat_map(|entry| entry.to_le_bytes()[..self.word()].to_vec()).collect();
        let layout = Layout { code: 0, table: TABLE..TABLE + table.len() as u64, relro, original };
        let mut blob = assemble(self.machine, &layout).unwrap();
        blob.resize(TABLE as usize, 0xcc);
        blob.extend(table);
        blob
    }

    /// `kernel` are the arguments of the kernel that the harness plays; none for the real one.
    fn run(&self, blob: &[u8], words: &[u8], kernel: &[u64]) -> Output {
        let (code, data) = (self.room.path().join("code"), self.room.path().join("words"));
        std::fs::write(&code, blob).unwrap();
        std::fs::write(&data, words).unwrap();
        let kernel: Vec<String> = kernel.iter().map(u64::to_string).collect();
        let mut args = vec![code.to_str().unwrap(), data.to_str().unwrap()];
        args.extend(kernel.iter().map(String::as_str));
        self.start(&args)
    }
}

/// Dense and sparse addresses, on and beside the grid, with gaps around the reach of one bitmap, up to the last word.
fn addresses(machine: Machine) -> Vec<u64> {
    let word = machine.word();
    let reach = word * 8 - 1;
    let mut all = Vec::new();
    all.extend((0..1000).map(|index| DATA + index * word));
    all.extend((0..1000).filter(|index| index % 3 != 0).map(|index| DATA + 0x4000 + index * word));
    for gap in [1, reach - 1, reach, reach + 1, 2 * reach, 2 * reach + 1] {
        let last = *all.last().unwrap();
        all.extend([last + gap * word, last + (gap + 1) * word]);
    }
    let off_grid = DATA + 0xc002;
    all.extend((0..100).map(|index| off_grid + index * word));
    all.push(RELRO.end - word);
    all.extend((0..300).map(|index| RELRO.end + index * 5 * word));
    all.push(END - word);
    all
}

/// Linked words, and what they must be at run time. Words that the table does not speak of look like addresses too.
fn words(rig: &Rig, addresses: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let mut linked: Vec<u8> = (0..END - DATA).map(|index| (index * 37 % 251) as u8).collect();
    let mut moved = linked.clone();
    for (index, &address) in addresses.iter().enumerate() {
        let target = 0x1234 + index as u64 * 24;
        rig.put(&mut linked, address, target);
        rig.put(&mut moved, address, target + rig.object);
    }
    (linked, moved)
}

fn check(rig: &Rig, output: &Output, moved: &[u8], calls: usize) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {:?}: {told}", rig.machine, output.status);
    assert!(told.contains(&format!("calls {calls}\n")), "{}: {told}", rig.machine);
    if let Some(at) = output.stdout.iter().zip(moved).position(|(is, should)| is != should) {
        panic!("{}: the word at {:#x} is wrong", rig.machine, DATA + at as u64);
    }
    assert_eq!(output.stdout.len(), moved.len());
}

/// Every machine, on ARM with an original in A32 and in Thumb.
fn rigs() -> Vec<Rig> {
    let kinds = [
        (Machine::X86_64, &[][..]),
        (Machine::I386, &[]),
        (Machine::Aarch64, &[]),
        (Machine::Arm, &["-marm"]),
        (Machine::Arm, &["-mthumb"]),
    ];
    kinds.into_iter().filter_map(|(machine, kind)| rig(machine, kind)).collect()
}

#[test]
fn words_are_moved_and_the_original_goes_on() {
    for rig in rigs() {
        let addresses = addresses(rig.machine);
        let (linked, moved) = words(&rig, &addresses);
        // The range begins and ends inside a page, as linkers leave it.
        let relro = RELRO.start + 0x10..RELRO.end + 0xf30;
        let blob = rig.blob(&addresses, Some(relro), Some(rig.original));
        check(&rig, &rig.run(&blob, &linked, &[]), &moved, 1);
    }
}

#[test]
fn without_an_original_it_returns() {
    for rig in rigs() {
        let addresses = addresses(rig.machine);
        let (linked, moved) = words(&rig, &addresses);
        let blob = rig.blob(&addresses, Some(RELRO), None);
        check(&rig, &rig.run(&blob, &linked, &[]), &moved, 0);
    }
}

#[test]
fn words_outside_of_the_read_only_range_need_no_system_call() {
    for rig in rigs() {
        let addresses: Vec<u64> = addresses(rig.machine).into_iter().filter(|at| *at >= RELRO.end).collect();
        assert!(addresses.iter().all(|at| !may_be_read_only(rig.machine, &RELRO).contains(at)));
        let (linked, moved) = words(&rig, &addresses);
        for (original, calls) in [(Some(rig.original), 1), (None, 0)] {
            let blob = rig.blob(&addresses, None, original);
            check(&rig, &rig.run(&blob, &linked, &[]), &moved, calls);
        }
    }
}

/// Trapping instructions in place of the system calls, so that the harness can play a kernel.
fn played(rig: &Rig, blob: &[u8]) -> Vec<u8> {
    let (call, trap): (u32, u32) = match rig.machine {
        Machine::Aarch64 => (0xd400_0001, 0xd420_0000),
        _ => (0xef00_0000, 0xe7f1_00f0),
    };
    let mut blob = blob.to_vec();
    let mut found = 0;
    for word in blob[..TABLE as usize].chunks_exact_mut(4) {
        if word == call.to_le_bytes() {
            word.copy_from_slice(&trap.to_le_bytes());
            found += 1;
        }
    }
    assert_eq!(found, 3, "ask, unlock, lock");
    blob
}

#[test]
fn the_read_only_range_is_rounded_to_the_page_of_the_kernel() {
    for rig in rigs().into_iter().filter(|rig| matches!(rig.machine, Machine::Aarch64 | Machine::Arm)) {
        let relro = RELRO.start + 0x5010..RELRO.end + 0x5f30;
        let addresses: Vec<u64> = addresses(rig.machine).into_iter().filter(|at| *at >= relro.start).collect();
        let (linked, moved) = words(&rig, &addresses);
        let blob = played(&rig, &rig.blob(&addresses, Some(relro.clone()), Some(rig.original)));
        for (page, probes) in [(4096_u64, 1), (16_384, 2), (65_536, 3)] {
            let mut expected = String::new();
            for size in [4096, 16_384, 65_536].into_iter().take(probes) {
                writeln!(expected, "mprotect {size:#x} 0 0").unwrap();
            }
            let (start, end) = (relro.start / page * page, relro.end / page * page);
            for protection in [3, 1] {
                writeln!(expected, "mprotect {:#x} {:#x} {protection}", rig.object + start, end - start).unwrap();
            }
            let output = rig.run(&blob, &linked, &[page]);
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.starts_with(&expected), "{} with pages of {page}: {told}\n{expected}", rig.machine);
            check(&rig, &output, &moved, 1);
        }
    }
}

/// A call that fails stops the program: nothing is left half done.
#[test]
fn a_kernel_that_refuses_is_not_ignored() {
    for rig in rigs() {
        let addresses = addresses(rig.machine);
        let (linked, _) = words(&rig, &addresses);
        if matches!(rig.machine, Machine::X86_64 | Machine::I386) {
            // Nothing is mapped there.
            let blob = rig.blob(&addresses, Some(0x100_0000..0x200_0000), Some(rig.original));
            assert_eq!(rig.run(&blob, &linked, &[]).status.signal(), Some(libc::SIGILL), "{}", rig.machine);
            continue;
        }
        let blob = played(&rig, &rig.blob(&addresses, Some(RELRO), Some(rig.original)));
        // Pages larger than any; making writable; making read-only again.
        for (kernel, calls) in [(&[1 << 20][..], 3), (&[4096, 1], 2), (&[4096, 2], 3)] {
            let told = String::from_utf8(rig.run(&blob, &linked, kernel).stderr).unwrap();
            assert!(told.ends_with("harness: stopped by a trap\n"), "{} {kernel:?}: {told}", rig.machine);
            assert_eq!(told.matches("mprotect").count(), calls, "{} {kernel:?}: {told}", rig.machine);
        }
    }
}

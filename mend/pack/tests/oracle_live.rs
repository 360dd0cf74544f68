//! The oracle that lets the real loader load both files: it agrees where the files do, finds planted faults, says why a
//! file does not load, and leaves nothing behind.

mod common;

use common::view::View;
use common::{Linker, Machine, Programs, VARIANTS, Workshop, pack_parts, place};
use model::Exit;
use pack::{Options, Space, pack_bytes};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use verify::{Kind, LiveOptions, Stop, Verdict, live};

/// One test at a time, so that each can look for what it left behind.
static ALONE: Mutex<()> = Mutex::new(());

static X86_64: LazyLock<Built> = LazyLock::new(|| build(Machine::X86_64));
static I386: LazyLock<Built> = LazyLock::new(|| build(Machine::I386));

/// The corpus and its packed form; otherwise the reason for a skip.
type Built = Result<(Programs, Programs), String>;

fn build(machine: Machine) -> Built {
    let workshop = Workshop::new(machine, &place(&format!("live-{}", machine.triple())))?;
    let original = workshop.link(Linker::Bfd, &VARIANTS[0])?;
    let packed = original.beside("packed");
    pack_parts(&original, &packed, &Options::default(), &[])?;
    Ok((original, packed))
}

struct Ground {
    original: &'static Programs,
    packed: &'static Programs,
    _alone: MutexGuard<'static, ()>,
}

/// The corpus of a native machine, packed. `None`: the test is skipped with the reason.
fn ground(machine: Machine) -> Option<Ground> {
    if !machine.is_native() {
        testing::skip("the oracle that loads files runs on x86-64");
        return None;
    }
    // Compilers are children too.
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let built = if machine == Machine::I386 { &I386 } else { &X86_64 };
    let (original, packed) = built.as_ref().map_err(|reason| testing::skip(reason)).ok()?;
    Some(Ground { original, packed, _alone: alone })
}

impl Ground {
    fn options(&self) -> LiveOptions {
        let mut options = LiveOptions::default();
        options.environment.extend(self.original.libraries().map(|path| ("LD_LIBRARY_PATH".into(), path.into())));
        options
    }

    fn compare(&self, part: &str) -> Verdict {
        live(&self.original.path(part), &self.packed.path(part), &self.options()).expect("it loads")
    }

    /// A packed part with a fault.
    fn faulty(&self, part: &str, fault: impl FnOnce(&mut View)) -> PathBuf {
        let mut file = View::new(&std::fs::read(self.packed.path(part)).expect("a packed part"));
        fault(&mut file);
        let faulty = self.packed.beside("faulty");
        faulty.write(part, &file.bytes);
        faulty.path(part)
    }

    /// Nothing of what the oracle started or made is there any more.
    fn clean(&self) {
        let mark = format!("thaw-live.{}.", std::process::id());
        let left = std::fs::read_dir(std::env::temp_dir()).expect("a directory for temporary files");
        let left: Vec<_> =
            left.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&mark)).collect();
        assert!(left.is_empty(), "{left:?}");
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            // Only what it executes tells; a process that ends while we look has nothing.
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&command).contains(&mark), "{:?}", process.path());
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
            assert_ne!(parent, Some(std::process::id().to_string().as_str()), "a child is left: {stat}");
        }
    }
}

fn agrees(verdict: &Verdict) {
    assert!(verdict.agrees(), "{:#?}", verdict.differences);
    assert!(verdict.checked.bytes.0 > 50_000, "{:?}", verdict.checked);
}

#[test]
fn packed_files_load_as_their_originals() {
    for machine in [Machine::X86_64, Machine::I386] {
        let Some(ground) = ground(machine) else { continue };
        agrees(&ground.compare("program"));
        agrees(&ground.compare("libcorpus.so"));
        ground.clean();
    }
}

#[test]
fn at_the_entry_constructors_have_run() {
    let Some(ground) = ground(Machine::X86_64) else { return };
    let options = LiveOptions { stop: Stop::Entry, ..ground.options() };
    for part in ["program", "libcorpus.so"] {
        agrees(&live(&ground.original.path(part), &ground.packed.path(part), &options).expect("it loads"));
    }
    // A constructor of the library writes there; before it has run, the fault does not show.
    let faulty = ground.faulty("libcorpus.so", |file| {
        let place = file.section(".init_array").offset;
        file.swap(place, place + 8, 8);
    });
    let original = ground.original.path("libcorpus.so");
    let order =
        |verdict: Verdict| verdict.differences.iter().filter(|difference| difference.kind == Kind::Memory).count();
    let before = order(live(&original, &faulty, &ground.options()).expect("it loads"));
    let after = order(live(&original, &faulty, &options).expect("it loads"));
    assert!(before == 2 && after > before, "{before} words differ before the constructors, {after} after");
    ground.clean();
}

#[test]
fn faults_show_in_the_memory_of_a_process() {
    type Fault = (&'static str, Kind, fn(&mut View));
    let faults: [Fault; 7] = [
        ("an addend", Kind::Memory, |file| file.add(file.section(".data.rel.ro").offset + 800, 16)),
        ("a byte of the code", Kind::Memory, |file| file.flip(file.section(".text").offset + 40)),
        ("a RELR word lost", Kind::Memory, |file| file.add(file.value_place(35), 8_u64.wrapping_neg())),
        ("an addend of a symbolic relocation", Kind::Memory, |file| file.add(file.relocations(1)[0] + 16, 8)),
        ("RELRO gone", Kind::Protection, |file| file.set_u32(file.segment(0x6474_e552), 0)),
        ("writable code", Kind::Protection, |file| file.set_u32(file.load(5) + 4, 7)),
        ("a version that nobody has", Kind::Load, |file| {
            let need = file.version_need("GLIBC_ABI_DT_RELR");
            let name = file.table(5) + file.u32(need + 8) as usize;
            file.bytes[name] = b'X';
            file.set_u32(need, sysv_hash(b"XLIBC_ABI_DT_RELR"));
        }),
    ];
    let Some(ground) = ground(Machine::X86_64) else { return };
    for (name, kind, fault) in faults {
        for part in ["libcorpus.so", "program"] {
            let faulty = ground.faulty(part, fault);
            let verdict = live(&ground.original.path(part), &faulty, &ground.options()).expect("the original loads");
            assert!(verdict.differences.iter().any(|found| found.kind == kind), "{name} of {part}: {verdict:#?}");
        }
    }
    ground.clean();
}

/// Source: gABI, "Hash Table".
fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        (hash ^ ((hash & 0xf000_0000) >> 24)) & !(hash & 0xf000_0000)
    })
}

#[test]
fn what_does_not_load_here_is_said() {
    let Some(ground) = ground(Machine::X86_64) else { return };
    let packed = ground.packed.path("libcorpus.so");
    let error = |original: &Path| live(original, &packed, &ground.options()).expect_err("it does not load");

    let needs = ground.faulty("libcorpus.so", |file| {
        let place = file.table(5) + file.value(1) as usize;
        file.bytes[place] = b'X';
    });
    let missing = error(&needs);
    assert_eq!(missing.exit, Exit::Target);
    assert!(missing.to_string().contains("cannot open shared object file"), "{missing}");

    let foreign = ground.faulty("libcorpus.so", |file| file.set_u16(18, 183));
    assert_eq!(error(&foreign).exit, Exit::Machine);

    let text = place("live-text").join("text");
    std::fs::write(&text, "not a library").expect("a place for a file");
    assert_eq!(error(&text).exit, Exit::Data);
    assert_eq!(error(&text.with_file_name("nothing")).exit, Exit::Usage);

    // For the packed file the same is a difference.
    for faulty in [&needs, &text] {
        let verdict =
            live(&ground.original.path("libcorpus.so"), faulty, &ground.options()).expect("the original loads");
        assert!(!verdict.agrees());
    }
    ground.clean();
}

#[test]
fn a_file_that_keeps_its_offsets_loads_too() {
    let Some(ground) = ground(Machine::X86_64) else { return };
    let original = ground.original.path("program");
    let options = Options { space: Space::Keep, ..Options::default() };
    let (_, bytes) = pack_bytes(&std::fs::read(&original).expect("a part"), &options).expect("no error");
    let kept = ground.packed.beside("kept");
    kept.write("program", &bytes.expect("a packed part"));
    agrees(&live(&original, &kept.path("program"), &ground.options()).expect("it loads"));
    ground.clean();
}

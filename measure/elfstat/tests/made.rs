//! Files that are built so that every count is known: small C files, several linkers, several machines.

use elf::{Class, Image, Order};
use elfstat::report::{FileReport, Group, Initializer, Kind};
use elfstat::{Depth, analyze, look, summarize, survey};
use model::Bytes;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ten pointers to a function, two to a symbol of the file, three to one of another file, one call.
const TABLES: &str = "
    extern int other;
    extern int call(void);
    int mine = 1;
    static void here(void) {}
    void (*functions[10])(void) = { here, here, here, here, here, here, here, here, here, here };
    int *own[2] = { &mine, &mine };
    int *others[3] = { &other, &other, &other };
    int use(void) { return call(); }
";

/// What a linker makes of a C file with neither the C library nor its start files; `None` where it is missing.
fn built(folder: &Path, compiler: &[&str], source: &str, options: &[&str]) -> Option<PathBuf> {
    let (input, output) = (folder.join("source.c"), folder.join("out.so"));
    std::fs::write(&input, source).unwrap();
    let mut command = Command::new(compiler[0]);
    command.current_dir(folder).args(&compiler[1..]).args([
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-fno-asynchronous-unwind-tables",
    ]);
    command.args(["-ffreestanding", "-O1", "-o"]).arg(&output).args(options).arg("source.c");
    match command.output() {
        Err(error) => {
            testing::skip(&format!("needs {}: {error}", compiler[0]));
            None
        }
        Ok(said) if said.status.success() => Some(output),
        Ok(said) => {
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            let missing =
                ["cannot find 'ld'", "invalid linker name", "unrecognized command-line option", "unable to find"];
            assert!(missing.iter().any(|part| said.contains(part)), "{compiler:?} {options:?}: {said}");
            testing::skip(&format!("{} {options:?} is missing here", compiler[0]));
            None
        }
    }
}

fn count(groups: &[Group], name: &str) -> u64 {
    groups.iter().filter(|group| group.name == name).map(|group| group.count).sum()
}

#[test]
fn tables_of_pointers_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for linker in ["bfd", "gold", "lld", "mold"] {
        let option = format!("-fuse-ld={linker}");
        let Some(file) = built(folder.path(), &["gcc"], TABLES, &[&option]) else { continue };
        let report = look(&file).unwrap();
        let relocations = &report.relocations;
        assert_eq!(report.size, Bytes(file.metadata().unwrap().len()));
        assert_eq!((report.identity.kind, report.identity.class), (Kind::Library, Class::Elf64), "{linker}");
        assert_eq!(relocations.relative, 10, "{linker}");
        assert_eq!(count(&relocations.by_type, "R_X86_64_64"), 5, "{linker}");
        assert_eq!(count(&relocations.by_type, "R_X86_64_JUMP_SLOT"), 1, "{linker}");
        assert_eq!((relocations.count, relocations.entries, relocations.plt), (16, 16, 1), "{linker}");
        assert_eq!(relocations.entry_bytes, Bytes(16 * 24), "{linker}");
        assert_eq!(count(&relocations.by_table, ".rela.dyn"), 15, "{linker}");
        assert_eq!(count(&relocations.by_table, ".rela.plt"), 1, "{linker}");
        assert_eq!(count(&relocations.by_symbol, "other"), 3, "{linker}");
        assert_eq!(count(&relocations.by_symbol, "mine"), 2, "{linker}");
        assert_eq!(relocations.symbols, 3, "{linker}");
        assert_eq!(
            (relocations.adjacency.of, relocations.adjacency.runs, relocations.adjacency.longest_run),
            (15, 1, 10)
        );
        // The addend of every entry; three bytes of every type; no symbol in ten.
        let waste = &report.waste;
        assert_eq!(
            (waste.addend.bytes, waste.type_bits.bytes, waste.no_symbol.bytes),
            (Bytes(128), Bytes(48), Bytes(40))
        );
        assert_eq!((waste.total, waste.of), (Bytes(216), Bytes(384)));
        // An address and a bitmap; an offset and a count.
        let packing = &report.packing;
        assert_eq!((packing.packable, packing.now, packing.relr, packing.runs), (10, Bytes(240), Bytes(16), Bytes(8)));
        assert_eq!(packing.saves(), Bytes(224));
        let in_place = if linker == "lld" { 0 } else { 10 };
        assert_eq!(packing.addend_in_place, Some(in_place), "{linker}");
        let internal = &report.internal;
        assert_eq!((internal.load, internal.of, internal.preemptible), (2, 5, 2), "{linker}");
        assert_eq!((internal.plt, internal.of_plt, internal.data, internal.functions), (0, 1, 2, 0), "{linker}");
        let named = report.identity.linker.as_deref().unwrap_or_default().to_lowercase();
        assert!(linker == "bfd" || named.contains(linker), "{linker}: {named}");
        assert!(report.dynamic.unwrap().entries > 5 && report.dynamic.unwrap().writable, "{linker}");
        assert_eq!(report.initializers.count, 0, "{linker}");
        // A survey says the same.
        let found = survey(&[file], &|_| {});
        let [surveyed] = found.files.as_slice() else { panic!("{found:?}") };
        assert_eq!(surveyed.report.relocations.by_type, relocations.by_type, "{linker}");
        assert_eq!(surveyed.report.packing.saves(), packing.saves(), "{linker}");
        let sum = summarize(&found.files);
        assert_eq!((sum.files, sum.relocations, sum.relative, sum.waste), (1, 16, 10, *waste), "{linker}");
        let savings: Vec<(u64, u64)> = sum.savings.iter().map(|saving| (saving.files, saving.bytes.0)).collect();
        assert_eq!(savings, [(1, 224), (0, 0), (0, 0), (0, 0)], "{linker}");
    }
}

#[test]
fn other_machines_have_the_same_tables() {
    let folder = tempfile::tempdir().unwrap();
    let clang = |target: &'static str| vec!["clang", target, "-fuse-ld=lld"];
    // Compiler, machine, class, order, entries have addends, names of the types.
    let machines = [
        (vec!["i686-linux-gnu-gcc"], "i386", Class::Elf32, Order::Little, false, ["R_386_RELATIVE", "R_386_32"]),
        (vec!["arm-linux-gnueabihf-gcc"], "ARM", Class::Elf32, Order::Little, false, ["R_ARM_RELATIVE", "R_ARM_ABS32"]),
        (
            vec!["aarch64-linux-gnu-gcc"],
            "AArch64",
            Class::Elf64,
            Order::Little,
            true,
            ["R_AARCH64_RELATIVE", "R_AARCH64_ABS64"],
        ),
        (
            clang("--target=riscv64-linux-gnu"),
            "RISC-V",
            Class::Elf64,
            Order::Little,
            true,
            ["R_RISCV_RELATIVE", "R_RISCV_64"],
        ),
        (
            clang("--target=powerpc64-linux-gnu"),
            "PowerPC 64",
            Class::Elf64,
            Order::Big,
            true,
            ["R_PPC64_RELATIVE", "R_PPC64_ADDR64"],
        ),
        (
            clang("--target=powerpc-linux-gnu"),
            "PowerPC",
            Class::Elf32,
            Order::Big,
            true,
            ["R_PPC_RELATIVE", "R_PPC_ADDR32"],
        ),
    ];
    for (compiler, machine, class, order, with_addends, [relative, symbolic]) in machines {
        let Some(file) = built(folder.path(), &compiler, TABLES, &[]) else { continue };
        let report = look(&file).unwrap();
        let identity = &report.identity;
        assert_eq!((identity.machine.as_str(), identity.class, identity.order), (machine, class, order));
        let word = class.word().bytes();
        let entry = word * if with_addends { 3 } else { 2 };
        let relocations = &report.relocations;
        let targets: u64 =
            relocations.by_target.iter().filter(|group| !group.name.contains("got")).map(|group| group.count).sum();
        assert!(targets >= 15, "{machine}: {:?}", relocations.by_target);
        assert!(count(&relocations.by_type, relative) >= 10, "{machine}: {:?}", relocations.by_type);
        assert_eq!(count(&relocations.by_type, symbolic), 5, "{machine}: {:?}", relocations.by_type);
        assert_eq!(relocations.entry_bytes, Bytes(relocations.entries * entry), "{machine}");
        assert_eq!(report.packing.packable, relocations.relative, "{machine}");
        assert_eq!(report.packing.now, Bytes(relocations.relative * entry), "{machine}");
        assert!(report.packing.relr >= Bytes(2 * word) && report.packing.relr < report.packing.now, "{machine}");
        let waste = &report.waste;
        assert_eq!(waste.addend.bytes, Bytes(if with_addends { relocations.entries * word } else { 0 }), "{machine}");
        assert_eq!(waste.type_bits.entries, if class == Class::Elf64 { relocations.entries } else { 0 }, "{machine}");
        assert_eq!(waste.no_symbol.bytes, Bytes(waste.no_symbol.entries * if class == Class::Elf64 { 4 } else { 3 }));
        assert_eq!(waste.no_symbol.entries, relocations.relative, "{machine}");
        assert_eq!((report.internal.load, report.internal.data), (2, 2), "{machine}");
    }
}

#[test]
fn packed_relocations_are_unpacked_to_be_counted() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-Wl,-z,pack-relative-relocs"];
    let Some(file) = built(folder.path(), &["gcc"], TABLES, &options) else { return };
    let report = look(&file).unwrap();
    let relr = report.relocations.relr.expect("the linker knows the option");
    assert_eq!((relr.count, relr.bytes, relr.asks_for_abi), (10, Bytes(16), None));
    assert_eq!((report.relocations.relative, report.relocations.entries, report.relocations.count), (0, 6, 16));
    assert_eq!(count(&report.relocations.by_type, "RELR"), 10);
    assert_eq!(count(&report.relocations.by_table, ".relr.dyn"), 10);
    let targets: u64 = report.relocations.by_target.iter().map(|group| group.count).sum();
    assert_eq!(targets, 16);
    assert_eq!(report.packing.saves(), Bytes(0));
}

/// mold 1.10 packs and forgets the version; bfd asks for it.
#[test]
fn a_missing_version_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nstatic void here(void) {}\nvoid (*table[4])(void) = { here, here, here, here \
        };\nint main(void) { return puts(\"\"); }\n";
    std::fs::write(folder.path().join("main.c"), source).unwrap();
    for (linker, asks) in [("bfd", true), ("mold", false)] {
        let output = folder.path().join(linker);
        let said = Command::new("gcc")
            .current_dir(folder.path())
            .args([
                "-pie",
                "-fPIE",
                "-o",
                linker,
                &format!("-fuse-ld={linker}"),
                "-Wl,-z,pack-relative-relocs",
                "main.c",
            ])
            .output();
        if !said.is_ok_and(|said| said.status.success()) {
            testing::skip(&format!("needs gcc with {linker} that can pack"));
            continue;
        }
        let report = look(&output).unwrap();
        let relr = report.relocations.relr.expect("packed");
        // Later versions of mold ask for it too.
        if linker == "mold" && relr.asks_for_abi == Some(true) {
            testing::skip("this mold asks for the version");
            continue;
        }
        assert_eq!(relr.asks_for_abi, Some(asks), "{linker}");
        assert_eq!(report.warnings.len(), usize::from(!asks), "{linker}: {:?}", report.warnings);
        let sum = summarize(&survey(std::slice::from_ref(&output), &|_| {}).files);
        assert_eq!(sum.without_abi.len(), usize::from(!asks), "{linker}");
    }
}

const STARTS: &str = "
static int x;
static void first(void) { x = 1; }
static void second(void) { x = 2; }
__attribute__((constructor)) static void third(void) { x = 3; }
__attribute__((constructor)) static void fourth(void) { x = 4; }
__attribute__((section(\".ctors\"), used)) static void (*list[4])(void) = { (void *)-1, first, second, 0 };
int use(void) { return x; }
";

fn starts(report: &FileReport) -> Vec<(&str, u64, &str, &str)> {
    fn last(path: &str) -> &str {
        path.rsplit('/').next().unwrap()
    }
    let row = |function: &'_ Initializer| {
        let (symbol, source) =
            (function.symbol.clone().unwrap_or_default(), function.source.clone().unwrap_or_default());
        (function.list, function.entry, symbol, source)
    };
    let rows: Vec<_> = report.initializers.functions.iter().map(row).collect();
    rows.into_iter().map(|(list, entry, symbol, source)| (list, entry, &*symbol.leak(), last(source.leak()))).collect()
}

#[test]
fn what_runs_at_the_start_is_named_with_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let expected = [
        (".ctors", 2, "second", "source.c:4"),
        (".ctors", 1, "first", "source.c:3"),
        (".init_array", 0, "third", "source.c:5"),
        (".init_array", 1, "fourth", "source.c:6"),
    ];
    // bfd makes one list of both.
    let options = ["-g", "-fuse-ld=gold", "-Wl,--no-ctors-in-init-array"];
    let Some(file) = built(folder.path(), &["gcc"], STARTS, &options) else { return };
    let report = look(&file).unwrap();
    assert_eq!(report.initializers.count, 4);
    assert_eq!(starts(&report), expected);
    let found = survey(std::slice::from_ref(&file), &|_| {});
    assert_eq!(found.files[0].report.initializers.count, 4, "a survey counts them");

    // Compressed debug data, and debug data in a file of their own.
    let Some(file) = built(folder.path(), &["gcc"], STARTS, &[&options[..], &["-gz=zlib"]].concat()) else { return };
    assert_eq!(starts(&look(&file).unwrap()), expected, "compressed");
    let objcopy = |arguments: &[&str]| {
        let said = Command::new("objcopy").current_dir(folder.path()).args(arguments).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    objcopy(&["--only-keep-debug", "out.so", "out.debug"]);
    objcopy(&["--strip-debug", "--add-gnu-debuglink=out.debug", "out.so", "linked.so"]);
    let linked = folder.path().join("linked.so");
    assert_eq!(starts(&look(&linked).unwrap()), expected, "split off");
    let debug = look(&folder.path().join("out.debug")).unwrap();
    assert_eq!((debug.identity.kind, debug.relocations.count), (Kind::DebugData, 0));
    // A file of another build is not taken for it.
    std::fs::write(folder.path().join("out.debug"), std::fs::read("/bin/true").unwrap()).unwrap();
    assert!(look(&linked).unwrap().initializers.functions.iter().all(|function| function.source.is_none()));
}

#[test]
fn programs_of_every_kind_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.c"), "extern char **environ;\nint main(void) { return environ != 0; }\n")
        .unwrap();
    let kinds: [(&[&str], Kind); 5] = [
        (&["-pie", "-fPIE"], Kind::Pie),
        (&["-no-pie", "-fno-pie"], Kind::FixedProgram),
        (&["-static", "-no-pie"], Kind::Static),
        (&["-static-pie", "-fPIE"], Kind::StaticPie),
        (&["-c"], Kind::Object),
    ];
    for (options, kind) in kinds {
        let said = Command::new("gcc").current_dir(folder.path()).args(options).args(["-o", "out", "main.c"]).output();
        if !said.is_ok_and(|said| said.status.success()) {
            testing::skip(&format!("gcc {options:?} does not work here"));
            continue;
        }
        let report = look(&folder.path().join("out")).unwrap();
        assert_eq!(report.identity.kind, kind, "{options:?}");
        assert_eq!(report.dynamic.is_some(), kind.is_dynamic() || kind == Kind::StaticPie, "{options:?}");
        assert_eq!(report.initializers.count > 0, kind != Kind::Object, "{options:?}: frame_dummy");
        let copies = report.relocations.by_type.iter().any(|group| group.name == "R_X86_64_COPY");
        assert_eq!(copies, kind == Kind::FixedProgram || kind == Kind::Pie && copies, "{options:?}");
    }
}

#[test]
fn virtual_tables_are_found_by_their_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let source = "
        struct Shape { virtual int area() = 0; virtual int sides() = 0; virtual int name(); };
        struct Square : Shape { int area() override; int sides() override { return 4; } };
        int Shape::name() { return 1; }
        int Square::area() { return 1; }
        Shape *make() { static Square square; return &square; }
    ";
    std::fs::write(folder.path().join("shapes.cpp"), source).unwrap();
    let output = folder.path().join("shapes.so");
    let said = Command::new("g++")
        .current_dir(folder.path())
        .args(["-shared", "-fPIC", "-O0", "-fno-threadsafe-statics", "-nostdlib", "-o", "shapes.so", "shapes.cpp"])
        .output();
    if !said.is_ok_and(|said| said.status.success()) {
        testing::skip("needs g++");
        return;
    }
    for (depth, symbols) in [(Depth::Detail, 4), (Depth::Survey, 4)] {
        let bytes = std::fs::read(&output).unwrap();
        let report = analyze(&Image::of(&bytes[..]).unwrap(), depth).unwrap();
        let vtables = report.vtables;
        // _ZTV of both: type description and three functions each; _ZTI: class, name, and for Square its base.
        assert_eq!((vtables.symbols, vtables.in_symbols), (symbols, 4 + 4 + 2 + 3), "{depth:?}");
        assert_eq!(vtables.in_constant_data, vtables.in_symbols, "{depth:?}");
        assert_eq!((vtables.pure_virtual, vtables.pure_virtual_inside), (2, 0), "{depth:?}");
        assert_eq!(count(&report.relocations.by_symbol, "__cxa_pure_virtual"), 2, "{depth:?}");
    }
}

#[test]
fn the_end_of_the_data_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "char data[100] = { 1 }; char zeros[9000]; static int here; ";
    let Some(file) = built(folder.path(), &["gcc"], plain, &[]) else { return };
    let last = look(&file).unwrap().last_data_page.expect("a .bss");
    assert!(last.unused > Bytes(0) && (last.address + last.unused.0).is_multiple_of(4096), "{last:?}");
    let without = look(&built(folder.path(), &["gcc"], "int data = 1;", &[]).unwrap()).unwrap();
    assert_eq!(without.last_data_page, None);
    let pointer = format!("{plain} int *pointer = &here;");
    let with = look(&built(folder.path(), &["gcc"], &pointer, &[]).unwrap()).unwrap().last_data_page.unwrap();
    assert!(with.relocated);
}

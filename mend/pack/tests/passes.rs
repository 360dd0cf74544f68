//! The further passes: what they change, what they leave, and that programs go on as before.

use pack::passes::{ClosedSet, Edited, Hindrance, Later, Member, Outcome, Pass, Worth, run};
use pack::{Backend, DynamicPlace, Options, Passes, Rewritten, Space, rewrite};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes").join(name)
}

/// Compiles; `None`, counted as skipped, where the compiler or linker is missing.
fn compile(compiler: &str, args: &[&str], files: &[PathBuf], output: &Path) -> Option<()> {
    let Ok(done) =
        Command::new(compiler).args(["-O1", "-fno-plt"]).args(args).args(files).arg("-o").arg(output).output()
    else {
        testing::skip(&format!("needs {compiler}"));
        return None;
    };
    let told = String::from_utf8_lossy(&done.stderr);
    if told.contains("cannot find 'ld'") {
        testing::skip(&format!("{compiler} {args:?}: {told}"));
        return None;
    }
    assert!(done.status.success(), "{compiler} {args:?}: {told}");
    Some(())
}

fn written(room: &Path, name: &str, source: &str) -> PathBuf {
    let path = room.join(name);
    std::fs::write(&path, source).unwrap();
    path
}

/// Runs passes, and lets the oracle judge the result.
fn pass(original: &[u8], wanted: &[Pass], set: &ClosedSet<'_>) -> Edited {
    let edited = run(original, &BTreeSet::from_iter(wanted.iter().copied()), set).unwrap();
    let verdict = verify::offline_expecting(original, &edited.bytes, &edited.expected).unwrap();
    assert!(verdict.agrees(), "{wanted:?}: {:#?}", verdict.differences);
    edited
}

fn replace(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Files of a set, read.
struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    fn read(paths: &[PathBuf]) -> Self {
        Self(paths.iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect())
    }

    fn set(&self, later: Later) -> ClosedSet<'_> {
        let members = self.0.iter().map(|(label, bytes)| Member { label: label.clone(), bytes });
        ClosedSet::new(members.collect(), later).unwrap()
    }
}

/// A program and every library that the loader finds for it.
fn closure(program: &Path) -> Option<Vec<PathBuf>> {
    let Ok(listed) = Command::new("ldd").arg(program).output() else {
        testing::skip("needs ldd");
        return None;
    };
    let text = String::from_utf8(listed.stdout).unwrap();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    Some(paths.chain([program.to_owned()]).collect())
}

const COMPILER: &str = "x86_64-linux-gnu-g++";

/// `libown.so` and what keeps some of its symbols from being its own.
struct World {
    room: tempfile::TempDir,
    own: PathBuf,
    programs: Vec<PathBuf>,
}

fn world() -> Option<World> {
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name);
    let own = path("libown.so");
    compile(COMPILER, &["-shared", "-fPIC", "-Wl,-soname,libown.so"], &[fixture("own.cpp")], &own)?;
    let twice = written(room.path(), "twice.c", "int defined_twice() { return 33; }\n");
    let twice_so = path("libtwice.so");
    compile(COMPILER, &["-shared", "-fPIC", "-xc", "-Wl,-soname,libtwice.so"], &[twice], &twice_so)?;
    let fixed = written(
        room.path(),
        "fixed.c",
        "#include <stdio.h>\nextern int copied; int address_taken(void); int make(void);\n\
         const void *const *entry(int);\n\
         int main(void) { copied = 44; printf(\"%d %d %d %d %d %d\\n\", \n\
         *(int *)*entry(3), *entry(4) == (void *)address_taken,\n\
         ((int (*)(void))*entry(0))(), *(int *)*entry(1), ((int (*)(void))*entry(2))(), make()); return 0; }\n",
    );
    let program = path("fixed");
    let args = ["-no-pie", "-fno-pie", "-fplt", "-xc", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    // -xc holds for libraries too, if they come as files.
    let object = path("fixed.o");
    compile(COMPILER, &[&args[..4], &["-c"]].concat(), &[fixed], &object)?;
    compile(COMPILER, &["-no-pie", args[4], args[5]], &[object, twice_so, own.clone()], &program)?;
    let programs = vec![program];
    Some(World { room, own, programs })
}

fn why(edited: &Edited, symbol: &str) -> Option<(Hindrance, Option<String>)> {
    let withheld = edited.reports.iter().flat_map(|report| &report.withheld);
    let found = withheld.filter(|withheld| withheld.example.symbol == symbol).map(|withheld| {
        let file = withheld.example.file.as_ref();
        (withheld.why, file.map(|file| Path::new(file).file_name().unwrap().to_str().unwrap().to_owned()))
    });
    found.collect::<Vec<_>>().pop()
}

#[test]
fn relocations_become_relative_where_the_set_proves_it() {
    let Some(world) = world() else { return };
    let Some(members) = closure(&world.programs[0]) else { return };
    let files = Files::read(&members);
    let original = std::fs::read(&world.own).unwrap();
    let run_it = || Command::new(&world.programs[0]).output().unwrap();
    let before = run_it();
    assert_eq!(String::from_utf8_lossy(&before.stdout), "44 1 1 2 33 9\n");

    let edited = pass(&original, &[Pass::Symbolic], &files.set(Later::Anything));
    let Outcome::Done { saves, .. } = &edited.reports[0].outcome else { panic!("{:?}", edited.reports) };
    let file = |name: &str| Some(name.to_owned());
    assert_eq!(why(&edited, "defined_twice"), Some((Hindrance::DefinedElsewhere, file("libtwice.so"))));
    assert_eq!(why(&edited, "copied"), Some((Hindrance::Copied, file("fixed"))));
    assert_eq!(why(&edited, "address_taken"), Some((Hindrance::AddressInProgram, file("fixed"))));
    assert_eq!(why(&edited, "malloc_usable_size").map(|why| why.0), Some(Hindrance::Allocator));
    assert_eq!(why(&edited, "chosen").map(|why| why.0), Some(Hindrance::Indirect));
    assert_eq!(why(&edited, "_ZN6UniqueILi1EE5valueE").map(|why| why.0), Some(Hindrance::Unique));
    let types = |edited: &Edited| {
        edited.reports[0].withheld.iter().filter(|withheld| withheld.why == Hindrance::TypeInformation).count()
    };
    assert_eq!(types(&edited), 1);
    for own in ["plain", "plain_data", "weak_function", "weak_data"] {
        assert_eq!(why(&edited, own), None);
    }
    // `plain`, `plain_data` twice, the weak ones, and what the compiler makes of class Shared and of the GOT.
    assert!(saves.lookups >= 5, "{saves:?}");
    replace(&world.own, &edited.bytes);
    assert_eq!(run_it(), before);

    // With no library to come, type information is as good as anything else.
    let more = pass(&original, &[Pass::Symbolic], &files.set(Later::Nothing));
    assert_eq!(types(&more), 0);
    let Outcome::Done { saves: more_saves, .. } = &more.reports[0].outcome else { panic!("{:?}", more.reports) };
    assert!(more_saves.lookups > saves.lookups);
    replace(&world.own, &more.bytes);
    assert_eq!(run_it(), before);
    drop(world.room);
}

#[test]
fn a_set_that_is_not_closed_proves_nothing() {
    let Some(world) = world() else { return };
    let Some(members) = closure(&world.programs[0]) else { return };
    let original = std::fs::read(&world.own).unwrap();
    let refused = |members: &[PathBuf]| {
        let files = Files::read(members);
        let edited = pass(&original, &[Pass::Symbolic], &files.set(Later::Anything));
        assert_eq!(edited.bytes, original);
        match &edited.reports[0].outcome {
            Outcome::NotDone { sentence } => sentence.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&[]), "no closed set of programs and libraries was named");
    let without = |name: &str| -> Vec<PathBuf> {
        members.iter().filter(|path| !path.to_str().unwrap().contains(name)).cloned().collect()
    };
    assert_eq!(refused(&without("/fixed")), "there is no program in the closed set");
    let told = refused(&without("libtwice.so"));
    assert!(told.starts_with("the set is not closed: 'libtwice.so', which '") && told.contains("fixed'"), "{told}");
    assert!(refused(&without("libc.so.6")).contains("'libc.so.6'"));
    // The file itself need not be named.
    let files = Files::read(&without("libown.so"));
    let edited = pass(&original, &[Pass::Symbolic], &files.set(Later::Anything));
    assert!(matches!(edited.reports[0].outcome, Outcome::Done { .. }));
}

/// The figure of `LD_DEBUG=statistics`: symbols that were looked up at the start.
fn lookups(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains(" number of relocations:")).unwrap_or_else(|| panic!("{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn clang_looks_up_a_quarter_of_the_symbols_and_makes_the_same_object() {
    let clang = Path::new("/usr/bin/clang-14");
    if !clang.exists() {
        return testing::skip("needs clang-14");
    }
    let clang = clang.canonicalize().unwrap();
    let Some(members) = closure(&clang) else { return };
    let room = tempfile::tempdir().unwrap();
    let files = Files::read(&members);
    let set = files.set(Later::Nothing);
    for path in &members {
        let name = path.file_name().unwrap();
        if name.to_str().unwrap().starts_with("libLLVM-14") || name.to_str().unwrap().starts_with("libclang-cpp") {
            let original = std::fs::read(path).unwrap();
            let edited = pass(&original, &[Pass::PureVirtual, Pass::Symbolic], &set);
            std::fs::write(room.path().join(name), &edited.bytes).unwrap();
        }
    }
    let source =
        written(room.path(), "source.c", "int sum(int *a, int n) { int s = 0; while (n) s += a[--n]; return s; }\n");
    let start = |libraries: &Path, object: &str| {
        let object = room.path().join(object);
        let run = |args: &[&Path]| {
            let mut command = Command::new(&clang);
            command
                .env("LD_LIBRARY_PATH", libraries)
                .env("LD_DEBUG", "statistics")
                .args(["-O2", "-c", "-o"])
                .args(args);
            command.output().unwrap()
        };
        let output = run(&[&object, &source]);
        assert!(output.status.success(), "{output:?}");
        (lookups(&output), std::fs::read(object).unwrap())
    };
    let (before, object) = start(Path::new("/nonexistent"), "before.o");
    let (after, same) = start(room.path(), "after.o");
    assert!(object == same, "clang made another object");
    eprintln!("symbols looked up: {before} before, {after} after");
    assert!(after * 4 <= before + before / 10, "{before} before, {after} after");
}

const ABSTRACT: &str = "struct Abstract {\n\
    Abstract() { early(); }\n virtual ~Abstract() {}\n void early() { late(); }\n virtual void late() = 0;\n };\n\
    struct Concrete : Abstract { void late() override {} };\n\
    __attribute__((noinline)) void start(int pure) { if (pure) { Concrete once; (void)once; } }\n\
    int main(int argc, char **) { start(argc > 1); return 0; }\n";

#[test]
fn a_pure_call_ends_in_a_trap_of_the_file() {
    for (compiler, qemu, root, signal) in [
        ("x86_64-linux-gnu-g++", None, "", libc::SIGILL),
        ("i686-linux-gnu-g++", None, "", libc::SIGILL),
        ("aarch64-linux-gnu-g++", Some("qemu-aarch64"), "/usr/aarch64-linux-gnu", libc::SIGTRAP),
        ("arm-linux-gnueabihf-g++", Some("qemu-arm"), "/usr/arm-linux-gnueabihf", libc::SIGILL),
    ] {
        if let Some(qemu) = qemu
            && Command::new(qemu).arg("--version").output().is_err()
        {
            testing::skip(&format!("needs {qemu}"));
            continue;
        }
        let room = tempfile::tempdir().unwrap();
        let program = room.path().join("program");
        let source = written(room.path(), "abstract.cpp", ABSTRACT);
        let mut args = vec!["-O0", "-pie", "-fPIE"];
        if compiler.starts_with("i686") {
            args.extend([
                "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2",
                "-Wl,-rpath,/usr/i686-linux-gnu/lib",
                "-Wl,--disable-new-dtags",
            ]);
        }
        // Where data follows code in one segment, there may be no room behind code.
        args.push("-Wl,-z,separate-code");
        if compile(compiler, &args, &[source], &program).is_none() {
            continue;
        }
        let start = |argument: Option<&str>| {
            let mut command = match qemu {
                Some(qemu) => {
                    let mut command = Command::new(qemu);
                    command.args(["-L", root]).arg(&program);
                    command
                }
                None => Command::new(&program),
            };
            command.args(argument).output().unwrap().status
        };
        assert_eq!(start(Some("pure")).signal(), Some(libc::SIGABRT), "{compiler}");
        let original = std::fs::read(&program).unwrap();
        let edited = pass(&original, &[Pass::PureVirtual], &ClosedSet::default());
        let Outcome::Done { saves, .. } = edited.reports[0].outcome else { panic!("{compiler}: {:?}", edited.reports) };
        assert_eq!(saves, Worth { lookups: 1, ..Worth::default() });
        replace(&program, &edited.bytes);
        assert!(start(None).success(), "{compiler}");
        assert_eq!(start(Some("pure")).signal(), Some(signal), "{compiler}");
        // The trap survives tools that copy section by section.
        if Command::new("llvm-strip-14").arg(&program).output().is_ok() {
            assert_eq!(start(Some("pure")).signal(), Some(signal), "{compiler}");
        }
    }
}

#[test]
fn a_file_with_its_own_pure_virtual_keeps_it() {
    let room = tempfile::tempdir().unwrap();
    let own = "extern \"C\" void __cxa_pure_virtual() { __builtin_exit(42); }\n".to_owned() + ABSTRACT;
    let source = written(room.path(), "own.cpp", &own);
    let library = room.path().join("library.so");
    if compile(COMPILER, &["-O0", "-shared", "-fPIC"], &[source], &library).is_none() {
        return;
    }
    let original = std::fs::read(&library).unwrap();
    let edited = pass(&original, &[Pass::PureVirtual], &ClosedSet::default());
    assert!(matches!(&edited.reports[0].outcome, Outcome::NotDone { sentence } if sentence.contains("itself")));
    assert_eq!(edited.bytes, original);
}

/// A program whose start-up code is its own: .ctors from its end to its beginning, as GCC's did.
fn with_ctors(room: &Path, order: &[&str]) -> Option<PathBuf> {
    let begin =
        "typedef void (*fn)(void);\nfn ctors_begin[1] __attribute__((section(\".ctors\"), used)) = { (fn)-1 };\n";
    let end = "#include <stdio.h>\n typedef void (*fn)(void);\nextern fn ctors_begin[];\n\
        fn ctors_end[1] __attribute__((section(\".ctors\"), used)) = { 0 };\n\
        void walk(void) { for (fn *at = ctors_end - 1; *at != (fn)-1; at--) (*at)(); }\n\
        int main(void) { walk(); putchar('\\n'); return 0; }\n";
    let mut files = vec![written(room, "begin.c", begin)];
    for name in order {
        // Each in a page of its own, in the order of their names.
        let source = format!(
            "#include <stdio.h>\n__attribute__((section(\".text.{name}\"), aligned(4096)))\n\
             void make_{name}(void) {{ putchar('{name}'); }}\n\
             void (*entry_{name})(void) __attribute__((section(\".ctors\"), used)) = make_{name};\n"
        );
        files.push(written(room, &format!("{name}.c"), &source));
    }
    files.push(written(room, "end.c", end));
    let program = room.join("program");
    let args = ["-xc", "-pie", "-fPIE", "-fuse-ld=gold", "-Wl,--no-ctors-in-init-array"];
    compile(COMPILER, &args, &files, &program).map(|()| program)
}

fn says(program: &Path) -> String {
    String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap()
}

#[test]
fn constructors_run_in_the_order_of_their_addresses() {
    let room = tempfile::tempdir().unwrap();
    let Some(program) = with_ctors(room.path(), &["a", "b", "c", "d"]) else { return };
    assert_eq!(says(&program), "dcba\n");
    let original = std::fs::read(&program).unwrap();
    let edited = pass(&original, &[Pass::Ctors], &ClosedSet::default());
    let Outcome::Done { saves, .. } = edited.reports[0].outcome else { panic!("{:?}", edited.reports) };
    assert_eq!(saves.steps_back, 3);
    replace(&program, &edited.bytes);
    assert_eq!(says(&program), "abcd\n");
    // Once more, and it would be worse.
    let again = pass(&edited.bytes, &[Pass::Ctors], &ClosedSet::default());
    assert!(matches!(again.reports[0].outcome, Outcome::CostsMore { .. }), "{:?}", again.reports);
    assert_eq!(again.bytes, edited.bytes);
}

#[test]
fn a_file_without_old_lists_has_nothing_to_reverse() {
    let room = tempfile::tempdir().unwrap();
    let source = written(room.path(), "plain.c", "int main(void) { return 0; }\n");
    let program = room.path().join("program");
    if compile(COMPILER, &["-xc", "-pie", "-fPIE"], &[source], &program).is_none() {
        return;
    }
    let original = std::fs::read(&program).unwrap();
    let edited = pass(&original, &[Pass::Ctors], &ClosedSet::default());
    assert!(matches!(edited.reports[0].outcome, Outcome::NotDone { .. }));
}

/// A library with `words` plain words of data, then zeros; the first words are pointers.
fn with_bss(room: &Path, words: usize, flags: &[&str]) -> Option<PathBuf> {
    let source = format!(
        "#include <stdio.h>\nstatic int zeros[5000];\nint data[{words}] = {{1, 2, 3}};\n\
         int main(void) {{ for (int i = 0; i < 5000; i++) if (zeros[i]) return 1; zeros[3] = data[1];\n\
         printf(\"%d %d\\n\", zeros[3], data[{words} - 1]); return 0; }}\n"
    );
    let source = written(room, "bss.c", &source);
    let program = room.join("program");
    compile(COMPILER, &[&["-xc", "-pie", "-fPIE", "-fuse-ld=bfd"], flags].concat(), &[source], &program)
        .map(|()| program)
}

fn data_end(bytes: &[u8]) -> u64 {
    let image = elf::Image::of(bytes).unwrap();
    image.loads().filter(|load| load.is_writable()).map(|load| load.address + load.file_len).max().unwrap()
}

#[test]
fn bss_begins_with_a_page_where_that_costs_none() {
    let room = tempfile::tempdir().unwrap();
    let (mut done, mut costly) = (0, 0);
    // The length of what follows decides whether a page more is needed: some of these lengths do not need it.
    for words in (4000..5000).step_by(125) {
        let Some(program) = with_bss(room.path(), words, &[]) else { return };
        let before = says(&program);
        let original = std::fs::read(&program).unwrap();
        let edited = pass(&original, &[Pass::AlignBss], &ClosedSet::default());
        match &edited.reports[0].outcome {
            Outcome::Done { saves, .. } => {
                assert_eq!(saves.pages, 1);
                assert_eq!(data_end(&edited.bytes) % 4096, 0);
                assert_eq!(edited.bytes.len().div_ceil(4096), original.len().div_ceil(4096));
                done += 1;
            }
            Outcome::CostsMore { costs, .. } => {
                assert_eq!(costs.pages, 1);
                assert_eq!(edited.bytes, original);
                costly += 1;
            }
            other => panic!("{other:?}"),
        }
        replace(&program, &edited.bytes);
        assert_eq!(says(&program), before);
        if Command::new("strip").arg(&program).output().is_ok() {
            assert_eq!(says(&program), before);
        }
        std::fs::remove_file(&program).unwrap();
    }
    assert!(done > 0 && costly > 0, "{done} done, {costly} not");
}

#[test]
fn a_last_page_that_is_written_anyway_stays() {
    let room = tempfile::tempdir().unwrap();
    let Some(program) = with_bss(room.path(), 4, &[]) else { return };
    let original = std::fs::read(&program).unwrap();
    let edited = pass(&original, &[Pass::AlignBss], &ClosedSet::default());
    let Outcome::CostsMore { saves, sentence, .. } = &edited.reports[0].outcome else { panic!("{:?}", edited.reports) };
    assert_eq!(*saves, Worth::default());
    assert!(sentence.contains("relocations write to the last page"), "{sentence}");
}

#[test]
fn what_is_no_library_is_an_error() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n"] {
        assert!(run(bytes, &BTreeSet::from([Pass::Ctors]), &ClosedSet::default()).is_err());
    }
}

/// A library whose dynamic section lies beyond the first read. With `pointers` that are read-only after relocation it
/// shares its page with relocations, otherwise it has a page of its own.
fn with_far_dynamic(room: &Path, pointers: &str) -> Option<PathBuf> {
    let source = format!(
        "#define TEN(x) x, x, x, x, x, x, x, x, x, x\n\
         static int target = 7;\n{pointers}[1000] = {{ TEN(TEN(TEN(&target))) }};\n\
         const char filler[300000] = {{1}};\nint use(int at) {{ return *pointers[at] + filler[at]; }}\n"
    );
    let source = written(room, "far.c", &source);
    let library = room.join("libfar.so");
    let args = ["-xc", "-shared", "-fPIC", "-nostdlib", "-fuse-ld=bfd", "-Wl,-Bsymbolic", "-Wl,-soname,libfar.so"];
    compile(COMPILER, &args, &[source], &library).map(|()| library)
}

#[test]
fn the_dynamic_section_stays_where_its_pages_are_read_anyway() {
    let room = tempfile::tempdir().unwrap();
    let Some(library) = with_far_dynamic(room.path(), "int *const pointers") else { return };
    let original = std::fs::read(library).unwrap();
    let edited = pass(&original, &[Pass::DynamicFirst], &ClosedSet::default());
    let Outcome::CostsMore { sentence, .. } = &edited.reports[0].outcome else { panic!("{:?}", edited.reports) };
    assert!(sentence.contains("touch the pages of the dynamic section anyway"), "{sentence}");
}

#[test]
fn the_dynamic_section_moves_to_the_front_where_that_saves_a_page() {
    let room = tempfile::tempdir().unwrap();
    let Some(library) = with_far_dynamic(room.path(), "static int *volatile pointers") else { return };
    let main =
        "#include <stdio.h>\nint use(int);\nint main(void) { printf(\"%d %d\\n\", use(0), use(999)); return 0; }\n";
    let main = written(room.path(), "main.c", main);
    let (object, program) = (room.path().join("main.o"), room.path().join("main"));
    compile(COMPILER, &["-xc", "-c"], &[main], &object).unwrap();
    compile(COMPILER, &["-Wl,-rpath,$ORIGIN"], &[object, library.clone()], &program).unwrap();
    assert_eq!(says(&program), "8 7\n");
    let original = std::fs::read(&library).unwrap();
    for backend in [Backend::Relr, Backend::Init] {
        let passes = Passes { wanted: BTreeSet::from([Pass::DynamicFirst]), ..Passes::default() };
        let options = Options { backend, passes, ..Options::default() };
        let (outcome, rewritten) = rewrite(&original, &options).unwrap();
        let pack::Outcome::Packed(packed) = outcome else { panic!("{outcome:?}") };
        assert_eq!(packed.plan.dynamic_place, DynamicPlace::ReadOnly);
        let [report] = &packed.passes[..] else { panic!("{:?}", packed.passes) };
        assert!(matches!(report.outcome, Outcome::Done { saves: Worth { pages: 1, .. }, .. }), "{report:?}");
        let Rewritten { bytes, expected } = rewritten.unwrap();
        let verdict = verify::offline_expecting(&original, &bytes, &expected).unwrap();
        assert!(verdict.agrees(), "{:#?}", verdict.differences);
        replace(&library, &bytes);
        assert_eq!(says(&program), "8 7\n");
    }
}

/// Passes first, then packing: their new relative relocations are packed too, and the report tells both.
#[test]
fn what_passes_make_relative_is_packed() {
    let Some(world) = world() else { return };
    let Some(members) = closure(&world.programs[0]) else { return };
    let original = std::fs::read(&world.own).unwrap();
    let before = says(&world.programs[0]);
    let passes = Passes { wanted: BTreeSet::from([Pass::Symbolic]), closed_set: members, later: Later::Nothing };
    let pack_it = |passes: Passes| {
        let options = Options { space: Space::Keep, passes, ..Options::default() };
        let (outcome, rewritten) = rewrite(&original, &options).unwrap();
        let pack::Outcome::Packed(packed) = outcome else { panic!("{outcome:?}") };
        (packed, rewritten.unwrap())
    };
    let (plain, _) = pack_it(Passes::default());
    let (packed, Rewritten { bytes, expected }) = pack_it(passes);
    let Outcome::Done { saves, .. } = packed.passes[0].outcome else { panic!("{:?}", packed.passes) };
    assert_eq!(packed.relocations.packed, plain.relocations.packed + saves.lookups);
    let verdict = verify::offline_expecting(&original, &bytes, &expected).unwrap();
    assert!(verdict.agrees(), "{:#?}", verdict.differences);
    replace(&world.own, &bytes);
    assert_eq!(says(&world.programs[0]), before);
}

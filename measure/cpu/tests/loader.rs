//! The loader's share of real and of planted programs, against what ELF files, glibc and the programs themselves say.
#![cfg(target_arch = "x86_64")]

use cpu::loader::{Attached, Initialiser, Loaded, PhaseKind, Start, Statistics, Table, Until, Watched, watch};
use elf::Image;
use model::Nanos;
use object::elf::{
    DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, DT_RELACOUNT, R_X86_64_RELATIVE,
};
use os::spawn::{Launch, Stream, spawn_gated};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Only against a program that never ends: an hour.
const LONG: Duration = Duration::from_secs(3600);

/// Sources that become libraries and programs in a folder of their own.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// `false`: counted as skipped.
    fn compile(&self, compiler: &str, source: &str, target: &str, options: &[&str]) -> bool {
        let ending = if compiler.ends_with("++") { "cc" } else { "c" };
        let file = self.path(&format!("{target}.{ending}"));
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new(compiler);
        command.arg(file).arg("-o").arg(self.path(target)).args(options).current_dir(self.0.path());
        testing::compiled(&mut command)
    }

    fn library(&self, compiler: &str, source: &str, target: &str, options: &[&str]) -> bool {
        self.compile(compiler, source, target, &[&["-shared", "-fPIC"], options].concat())
    }

    /// A program that has these libraries of this folder.
    fn program(&self, source: &str, libraries: &[&str]) -> bool {
        let here = format!("-Wl,-rpath,{}", self.path("").display());
        let options = [&["-Wl,--no-as-needed", &*here, "-ldl", "-lpthread"], libraries].concat();
        self.compile("cc", source, "program", &options)
    }

    /// Watches a program of this folder to its end; what it printed too.
    fn watch(&self, name: &str) -> (Watched, String) {
        let output = self.path("output");
        let mut launch = Launch::new([self.path(name)]);
        launch.stdout = Stream::Fd(std::fs::File::create(&output).unwrap().into());
        let watched = watch(launch, Until::Enough(&|| false), LONG).unwrap();
        (watched, std::fs::read_to_string(output).unwrap())
    }
}

fn one(watched: &Watched) -> &Loaded {
    match watched.starts.as_slice() {
        [Start::Loaded(loaded)] => loaded,
        other => panic!("one program that was seen: {other:?}"),
    }
}

/// Those of an array in a file of this name.
fn of<'a>(loaded: &'a Loaded, name: &str) -> Vec<&'a Initialiser> {
    let is = |it: &&Initialiser| it.table == Table::InitArray && it.object.file_name() == Some(OsStr::new(name));
    loaded.initialisers.iter().filter(is).collect()
}

fn address_of(file: &Path, name: &str) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    let symbols = Image::of(bytes.as_slice()).unwrap().all_symbols().unwrap();
    let is = |found: &[u8]| found == name.as_bytes() || name == "_GLOBAL__sub_I" && found.starts_with(name.as_bytes());
    let mut found = symbols.iter().filter(|symbol| is(symbol.name));
    found.next().unwrap_or_else(|| panic!("{name} in {}", file.display())).address
}

#[test]
fn an_initialiser_that_computes_takes_as_long_as_it_says_itself() {
    let bench = Bench::new();
    let library = r#"
        #include <stdio.h>
        #include <time.h>
        static long now(void) {
            struct timespec at;
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
            return at.tv_sec * 1000000000L + at.tv_nsec;
        }
        long spun;
        __attribute__((constructor)) static void spin(void) {
            long began = now();
            while ((spun = now() - began) < 100000000L) {}
        }"#;
    let program = "#include <stdio.h>\nextern long spun;\nint main(void) { printf(\"%ld\\n\", spun); }";
    if !bench.library("cc", library, "libspin.so", &[]) || !bench.program(program, &["libspin.so"]) {
        return;
    }
    let (watched, output) = bench.watch("program");
    let spun: u64 = output.trim().parse().unwrap();
    let spin = address_of(&bench.path("libspin.so"), "spin");
    let loaded = one(&watched);
    let found = of(loaded, "libspin.so").into_iter().find(|it| it.address == spin).unwrap();
    let cpu = found.cpu.expect("the kernel counts CPU time").0;
    println!("it says {spun} ns of CPU time, the tracer {cpu} ns, {} ns of time", found.took.0);
    // The clock is read within the function: a call more or less, and the pages that it touches first.
    assert!(cpu.abs_diff(spun) * 20 < spun, "{cpu} ns, and it says {spun}");
    assert!(found.took.0 * 20 > spun * 19, "time is not less than CPU time: {found:?}");
    assert!(found.returned && found.began.0 > 0);
    let initialise = loaded.phases.iter().find(|phase| phase.kind == PhaseKind::Initialise).unwrap();
    assert!(initialise.took >= found.took && loaded.before_main.unwrap() > initialise.took);
    assert_eq!(watched.code, Some(0));
}

#[test]
fn constructors_are_seen_in_their_order() {
    let bench = Bench::new();
    let library = r#"
        #include <cstdio>
        struct Global { explicit Global(int number) { std::printf("%d\n", number); } };
        __attribute__((constructor(201))) void second() { std::puts("2"); }
        __attribute__((constructor(101))) void first() { std::puts("1"); }
        __attribute__((constructor)) void third() { std::puts("3"); }
        Global global(4);"#;
    let program = r#"
        #include <stdio.h>
        static void early(void) { puts("0"); }
        __attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = early;
        __attribute__((constructor)) static void own(void) { puts("5"); }
        int main(void) { puts("main"); own(); return 3; }"#;
    let built = bench.library("c++", library, "libthree.so", &[]);
    if !built || !bench.program(program, &["libthree.so"]) {
        return;
    }
    let (watched, output) = bench.watch("program");
    let loaded = one(&watched);
    let library = bench.path("libthree.so");
    let name = |name: &str| address_of(&library, name);
    let found: Vec<u64> = of(loaded, "libthree.so").iter().map(|it| it.address).collect();
    let expected = ["_Z5firstv", "_Z6secondv", "frame_dummy", "_Z5thirdv", "_GLOBAL__sub_I"].map(name);
    assert_eq!(found, expected, "{output}");
    assert_eq!(output, "0\n1\n2\n3\n4\n5\nmain\n5\n", "the call of main's own is none of the loader's");
    let first = &loaded.initialisers[0];
    assert_eq!((first.table, first.address), (Table::PreInit, address_of(&bench.path("program"), "early")));
    let own = address_of(&bench.path("program"), "own");
    assert_eq!(of(loaded, "program").iter().filter(|it| it.address == own).count(), 1);
    assert!(loaded.initialisers.is_sorted_by_key(|it| it.began));
    assert_eq!(watched.code, Some(3));
}

#[test]
fn a_library_with_many_relocations_takes_longest() {
    const MANY: usize = 30_000;
    let bench = Bench::new();
    let mut library: String = (0..MANY).map(|number| format!("int variable_{number};\n")).collect();
    let list = |of: &dyn Fn(usize) -> String| (0..MANY).map(of).collect::<Vec<_>>().join(",");
    library += &format!("static char own[{MANY}];\nchar *relative[] = {{{}}};\n", list(&|it| format!("&own[{it}]")));
    library += &format!("int *symbolic[] = {{{}}};\n", list(&|it| format!("&variable_{it}")));
    let built = bench.library("cc", &library, "libmany.so", &["-Wl,-z,nopack-relative-relocs"])
        && bench.library("cc", "int few;", "libfew.so", &[]);
    if !built || !bench.program("int main(void) { return 0; }", &["libfew.so", "libmany.so"]) {
        return;
    }
    let many = bench.path("libmany.so");
    let mut shares: Vec<(PathBuf, Vec<Nanos>)> = Vec::new();
    for _ in 0..5 {
        let (watched, _) = bench.watch("program");
        let loaded = one(&watched);
        let counts = loaded.relocated.iter().find(|it| it.path == many).unwrap().relocations;
        assert!(counts.relative >= MANY as u64 && counts.symbolic >= MANY as u64, "{counts:?}");
        assert_eq!(loaded.relocated.len(), 5, "both, the C library, the program, the loader: {:?}", loaded.relocated);
        if shares.is_empty() {
            shares = loaded.relocated.iter().map(|it| (it.path.clone(), Vec::new())).collect();
        }
        for ((path, took), this) in shares.iter_mut().zip(&loaded.relocated) {
            assert_eq!(*path, this.path, "the order is the same each time");
            took.push(this.took);
        }
        let relocate = loaded.phases.iter().find(|phase| phase.kind == PhaseKind::Relocate).unwrap();
        let sum: u64 = loaded.relocated.iter().map(|it| it.took.0).sum();
        assert_eq!(sum, relocate.took.0, "the phase is made of the objects");
    }
    // The median: a run whose stops were dearer or cheaper than measured before it moves nothing.
    let median = |took: &[Nanos]| {
        let mut took = took.to_vec();
        took.sort_unstable();
        took[took.len() / 2]
    };
    for (path, took) in &shares {
        println!("{:>9} ns {}: {took:?}", median(took).0, path.display());
    }
    let longest = shares.iter().max_by_key(|(_, took)| median(took)).unwrap();
    assert_eq!(longest.0, many);
    assert!(median(&longest.1) > Nanos(0));
}

/// Programs of this machine that are there.
fn real() -> Vec<Vec<&'static str>> {
    let all: [&[&str]; 5] = [
        &["/usr/bin/python3", "-c", "import socket"],
        &["/usr/bin/git", "--version"],
        &["/usr/lib/firefox-esr/firefox-esr", "--version"],
        &["/usr/bin/node", "--version"],
        &["/usr/bin/gdb", "--version"],
    ];
    let mut found = Vec::new();
    for command in all {
        match Path::new(command[0]).exists() {
            true => found.push(command.to_vec()),
            false => testing::skip(&format!("needs {}", command[0])),
        }
    }
    found
}

fn watch_real(command: &[&str], until: Until<'_>) -> Watched {
    let mut launch = Launch::new(command);
    launch.stdout = Stream::Null;
    watch(launch, until, LONG).unwrap()
}

/// What glibc writes about the first process of a command.
fn glibc_says(command: &[&str], what: &str) -> String {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut started = Command::new(command[0]);
    started.args(&command[1..]).env("LD_DEBUG", what).env("LD_DEBUG_OUTPUT", folder.path().join("said"));
    let mut child = started.stdout(std::process::Stdio::null()).spawn().unwrap();
    child.wait().unwrap();
    std::fs::read_to_string(folder.path().join(format!("said.{}", child.id()))).unwrap()
}

/// Addresses that a file lists, in the order in which they are to be called.
fn listed(path: &Path) -> Vec<(Table, u64)> {
    let bytes = std::fs::read(path).unwrap();
    let image = Image::of(bytes.as_slice()).unwrap();
    let dynamic = image.dynamic.as_ref().unwrap();
    let symbols = image.dynamic_symbols();
    let relocations: Vec<_> = image.relocations().unwrap().iter().flat_map(elf::Relocations::iter).collect();
    let entry = |address: u64| match relocations.iter().find(|it| it.offset == address) {
        Some(it) if it.kind == R_X86_64_RELATIVE.0 => it.addend as u64,
        Some(it) => symbols.unwrap().get(it.symbol as usize).unwrap().address.wrapping_add_signed(it.addend),
        None => image.word_at(address).unwrap(),
    };
    let array = |tag, len| -> Vec<u64> {
        let Some(address) = dynamic.value(tag) else { return Vec::new() };
        (0..dynamic.value(len).unwrap() / 8).map(|place| entry(address + 8 * place)).collect()
    };
    let mut found: Vec<(Table, u64)> =
        array(DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ).into_iter().map(|it| (Table::PreInit, it)).collect();
    found.extend(dynamic.value(DT_INIT).map(|it| (Table::Init, it)));
    found.extend(array(DT_INIT_ARRAY, DT_INIT_ARRAYSZ).into_iter().map(|it| (Table::InitArray, it)));
    found
}

#[test]
fn initialisers_are_those_of_the_files_in_the_order_of_glibc() {
    for command in real() {
        let watched = watch_real(&command, Until::Main);
        let loaded = one(&watched);
        let said = glibc_says(&command, "files");
        let before = said.split("transferring control").next().unwrap();
        let called = before.lines().filter_map(|line| Some(PathBuf::from(line.split_once("calling init: ")?.1)));
        let program = Path::new(command[0]).canonicalize().unwrap();
        let order = called.chain([program]).map(|path| path.canonicalize().unwrap());
        let expected: Vec<(PathBuf, Table, u64)> = order
            .flat_map(|path| listed(&path).into_iter().map(move |(table, at)| (path.clone(), table, at)))
            .collect();
        let found: Vec<(PathBuf, Table, u64)> =
            loaded.initialisers.iter().map(|it| (it.object.clone(), it.table, it.address)).collect();
        println!("{command:?}: {} initialisers of {} objects", found.len(), loaded.relocated.len());
        assert_eq!(found, expected, "{command:?}");
        assert!(loaded.initialisers.iter().all(|it| it.returned), "{:?}", loaded.initialisers);
    }
}

#[test]
fn totals_are_those_of_glibc() {
    for command in real() {
        let watched = watch_real(&command, Until::Main);
        let loaded = one(&watched);
        let said = Statistics::parse(&glibc_says(&command, "statistics"))[0];
        let took = |kind| loaded.phases.iter().find(|phase| phase.kind == kind).unwrap().took.0;
        let all: u64 = loaded.phases.iter().filter(|it| it.kind < PhaseKind::Initialise).map(|it| it.took.0).sum();
        let share = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
        println!(
            "{command:?}\n  ours:  relocation {:5.1} %, mapping {:5.1} % of {all} ns\n  glibc: relocation {:5.1} %, \
             mapping {:5.1} % of {} cycles",
            share(took(PhaseKind::Relocate), all),
            share(took(PhaseKind::Map), all),
            share(said.relocation_cycles, said.startup_cycles),
            share(said.load_cycles, said.startup_cycles),
            said.startup_cycles,
        );
        // glibc counts those that DT_RELACOUNT announces; RELR and its own are not among them.
        let mut relative = 0;
        for object in &loaded.relocated {
            let bytes = std::fs::read(&object.path).unwrap();
            let image = Image::of(bytes.as_slice()).unwrap();
            let announced = image.dynamic.as_ref().unwrap().value(DT_RELACOUNT).unwrap_or(0);
            assert!(announced <= object.relocations.relative, "{}", object.path.display());
            relative += announced;
        }
        assert_eq!(relative, said.relative, "{command:?}");
        let counts = loaded.relocated.iter().map(|it| it.relocations);
        let looked_up: u64 = counts.map(|it| it.symbolic + it.calls + it.thread_local + it.copies).sum();
        assert!(
            looked_up + 64 >= said.relocations,
            "{looked_up} in the files, and glibc looked {} up",
            said.relocations
        );
    }
}

#[test]
fn phases_follow_each_other_from_exec_to_main() {
    for command in real() {
        let watched = watch_real(&command, Until::Main);
        let loaded = one(&watched);
        let kinds: Vec<PhaseKind> = loaded.phases.iter().map(|phase| phase.kind).collect();
        use PhaseKind::{Bootstrap, Enter, Finish, Initialise, Map, Prepare, Relocate};
        assert_eq!(kinds, [Bootstrap, Map, Prepare, Relocate, Finish, Initialise, Enter]);
        let mut at = loaded.exec.unwrap().0;
        for phase in &loaded.phases {
            assert_eq!(phase.began.0, at, "{command:?}: {phase:?}");
            at += phase.took.0;
        }
        assert_eq!(at, loaded.before_main.unwrap().0);
        let objects = loaded.mapped.iter().filter(|it| it.is_object).count();
        // The program and the loader are mapped by the kernel.
        assert_eq!(objects + 2, loaded.relocated.len(), "{command:?}: {:?}", loaded.cannot);
        assert!(watched.cost.breakpoint.0 > 0 && watched.cost.call.0 > 0 && watched.cost.stops > 20);
        assert_eq!(watched.code, None, "it is killed at main");
    }
}

#[test]
fn children_and_threads_of_initialisers_meet_no_breakpoint() {
    let bench = Bench::new();
    // The child of fork runs the initialisers that follow, the thread runs beside them.
    let first = r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        #include <sys/wait.h>
        extern char **environ;
        int child, spawned;
        static void *beside(void *nothing) { return nothing; }
        __attribute__((constructor)) static void one(void) {
            pthread_t thread;
            if (pthread_create(&thread, 0, beside, 0) || pthread_join(thread, 0)) exit(90);
            int pid = vfork();
            if (pid == 0) { execl("/bin/sh", "sh", "-c", "exit 5", (char *)0); _exit(91); }
            waitpid(pid, &spawned, 0);
            child = fork();
        }"#;
    let second = "int ran; __attribute__((constructor)) static void two(void) { ran = 1; }";
    let program = r#"
        #include <sys/wait.h>
        extern int child, spawned, ran;
        int main(void) {
            if (child == 0) return ran ? 7 : 92;
            int status;
            if (waitpid(child, &status, 0) != child) return 93;
            if (!WIFEXITED(status)) return 94;
            return WEXITSTATUS(spawned) == 5 && ran ? WEXITSTATUS(status) : 95;
        }"#;
    let built = bench.library("cc", second, "libsecond.so", &[]) && bench.library("cc", first, "libfirst.so", &[]);
    // Those that come last on the command line are initialised first.
    if !built || !bench.program(program, &["libsecond.so", "libfirst.so"]) {
        return;
    }
    let (watched, _) = bench.watch("program");
    assert_eq!(watched.code, Some(7));
    let loaded = one(&watched);
    let two = address_of(&bench.path("libsecond.so"), "two");
    let names: Vec<_> = loaded.initialisers.iter().filter_map(|it| it.object.file_name()?.to_str()).collect();
    let place = |name| names.iter().position(|found| *found == name).unwrap();
    assert!(place("libfirst.so") < place("libsecond.so"), "the fork is before the other: {names:?}");
    assert!(of(loaded, "libsecond.so").iter().any(|it| it.address == two && it.returned));
}

#[test]
fn libraries_that_are_loaded_later_are_seen_too() {
    let bench = Bench::new();
    // The constructor is a symbol of its own, so that its entry is not relative.
    let inner = "int inner; __attribute__((constructor)) void begin_inner(void) { inner = 1; }";
    let outer = r#"
        #include <dlfcn.h>
        #include <stdlib.h>
        __attribute__((constructor)) static void begin_outer(void) {
            if (!dlopen(getenv("INNER"), RTLD_NOW)) exit(90);
        }
        __attribute__((constructor)) static void after(void) {}"#;
    let program = format!(
        "#include <dlfcn.h>\n#include <stdlib.h>\nint main(void) {{ setenv(\"INNER\", \"{}\", 1); \
         return dlopen(\"{}\", RTLD_NOW) ? 4 : 91; }}",
        bench.path("libinner.so").display(),
        bench.path("libouter.so").display()
    );
    let built = bench.library("cc", inner, "libinner.so", &[]) && bench.library("cc", outer, "libouter.so", &[]);
    if !built || !bench.program(&program, &[]) {
        return;
    }
    let (watched, _) = bench.watch("program");
    assert_eq!(watched.code, Some(4));
    let loaded = one(&watched);
    let find = |file: &str, name: &str| {
        let at = address_of(&bench.path(file), name);
        let is = |it: &Initialiser| it.address == at && it.object == bench.path(file);
        loaded.initialisers.iter().position(is).unwrap_or_else(|| panic!("{name}: {:?}", loaded.initialisers))
    };
    let (outer, inner, after) =
        (find("libouter.so", "begin_outer"), find("libinner.so", "begin_inner"), find("libouter.so", "after"));
    assert!(outer < inner && inner < after);
    let all = &loaded.initialisers;
    assert_eq!(all[inner].within, Some(outer as u32));
    assert_eq!((all[outer].within, all[after].within), (None, None));
    assert!(all[outer].took >= all[inner].took && all.iter().all(|it| it.returned));
    assert!(all[outer].began > loaded.before_main.unwrap());
}

#[test]
fn an_initialiser_that_does_not_come_back_is_said() {
    let bench = Bench::new();
    let library = "#include <stdlib.h>\n__attribute__((constructor)) static void leave(void) { exit(6); }";
    let built = bench.library("cc", library, "libleave.so", &[]);
    if !built || !bench.program("int main(void) { return 0; }", &["libleave.so"]) {
        return;
    }
    let (watched, _) = bench.watch("program");
    assert_eq!(watched.code, Some(6));
    let loaded = one(&watched);
    assert_eq!(loaded.before_main, None);
    let leave = address_of(&bench.path("libleave.so"), "leave");
    let found = of(loaded, "libleave.so").into_iter().find(|it| it.address == leave).unwrap();
    assert!(!found.returned && found.cpu.is_none(), "{found:?}");
}

#[test]
fn a_script_that_executes_another_program_is_two_starts() {
    let mut launch = Launch::new(["/bin/sh", "-c", "/bin/true; exec /bin/true"]);
    launch.stdout = Stream::Null;
    let watched = watch(launch, Until::Enough(&|| false), LONG).unwrap();
    let programs: Vec<PathBuf> = watched.loaded().map(|loaded| loaded.program.clone()).collect();
    let [shell, it] = ["/bin/sh", "/bin/true"].map(|path| Path::new(path).canonicalize().unwrap());
    assert_eq!(programs, [shell, it]);
    for loaded in watched.loaded() {
        assert!(loaded.exec.is_some_and(|exec| exec.0 > 0), "{:?}", loaded.cannot);
        assert!(loaded.before_main > loaded.exec);
    }
    assert_eq!(watched.code, Some(0));
}

fn refused(bench: &Bench, name: &str, why: &str) {
    let (watched, _) = bench.watch(name);
    match watched.starts.as_slice() {
        [Start::Unknown { program, because }] => {
            assert_eq!(program, &bench.path(name));
            assert!(because.contains(why), "{because}");
        }
        other => panic!("{name}: {other:?}"),
    }
    assert_eq!(watched.code, Some(0), "it ran all the same");
}

#[test]
fn what_another_loader_starts_is_refused_with_a_reason() {
    let bench = Bench::new();
    let nothing = "int main(void) { return 0; }";
    if bench.compile("cc", nothing, "static", &["-static"]) {
        refused(&bench, "static", "static");
    }
    if bench.compile("musl-gcc", nothing, "musl", &[]) {
        refused(&bench, "musl", "not glibc's");
    }
    if testing::root_or_skip() && bench.compile("cc", nothing, "other", &[]) {
        std::os::unix::fs::chown(bench.path("other"), Some(testing::SECOND_USER), None).unwrap();
        let folder = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bench.path(""), folder).unwrap();
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        std::fs::set_permissions(bench.path("other"), rights).unwrap();
        refused(&bench, "other", "other rights");
    }
}

#[test]
fn a_program_of_32_bits_is_refused_with_a_reason() {
    let bench = Bench::new();
    let source = ".globl _start\n_start: movl $1, %eax\nxorl %ebx, %ebx\nint $0x80\n";
    std::fs::write(bench.path("narrow.s"), source).unwrap();
    let assemble = ["--32", "narrow.s", "-o", "narrow.o"];
    let link = ["-m", "elf_i386", "narrow.o", "-o", "narrow"];
    let built = testing::compiled(Command::new("as").args(assemble).current_dir(bench.0.path()))
        && testing::compiled(Command::new("ld").args(link).current_dir(bench.0.path()));
    if !built {
        return;
    }
    if Command::new(bench.path("narrow")).status().is_err() {
        return testing::skip("needs a kernel that runs programs of 32 bits");
    }
    refused(&bench, "narrow", "32 bits");
}

#[test]
fn nothing_is_left_behind() {
    let bench = Bench::new();
    let program = r#"
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            int child = fork();
            if (child == 0) { setsid(); pause(); }
            printf("%d\n", child);
            fflush(stdout);
            pause();
        }"#;
    if !bench.program(program, &[]) {
        return;
    }
    let output = bench.path("output");
    let mut launch = Launch::new([bench.path("program")]);
    launch.stdout = Stream::Fd(std::fs::File::create(&output).unwrap().into());
    let said = || std::fs::read_to_string(&output).unwrap();
    let watched = watch(launch, Until::Enough(&|| said().ends_with('\n')), LONG).unwrap();
    assert_eq!((watched.code, watched.timed_out), (None, false));
    assert!(one(&watched).before_main.is_some());
    let child: u32 = said().trim().parse().unwrap();
    // Killed; whoever inherited it may not have taken note of its end.
    let lives = || os::process::stat(child).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    while lives() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let watched = watch(Launch::new([bench.path("program")]), Until::Enough(&|| false), Duration::ZERO).unwrap();
    assert_eq!((watched.code, watched.timed_out), (None, true));
}

#[test]
fn what_cannot_be_executed_says_why() {
    let bench = Bench::new();
    std::fs::write(bench.path("data"), "no program").unwrap();
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.path("data"), rights).unwrap();
    let error = watch(Launch::new([bench.path("data")]), Until::Main, LONG).unwrap_err();
    assert!(error.to_string().contains("neither a program nor a script"), "{error}");
}

/// As the lab starts programs: one thread starts it and looks after it, a tracer beside it.
#[test]
fn a_program_that_somebody_else_starts_and_waits_for_is_watched_until_it_is_ready() {
    let bench = Bench::new();
    let constructor = "__attribute__((constructor)) static void begin(void) {}";
    let program = r#"
        #include <dlfcn.h>
        #include <unistd.h>
        int main(void) {
            char byte;
            write(1, "r", 1);
            read(0, &byte, 1);
            return dlopen("./libafter.so", RTLD_NOW) ? 7 : 8;
        }"#;
    let built = bench.library("cc", constructor, "libbefore.so", &[])
        && bench.library("cc", constructor, "libafter.so", &[])
        && bench.program(program, &["libbefore.so"]);
    if !built {
        return;
    }
    let mut launch = Launch::new([bench.path("program")]);
    launch.cwd = Some(bench.path(""));
    let (stdin, mut go) = std::io::pipe().unwrap();
    let (mut ready, stdout) = std::io::pipe().unwrap();
    (launch.stdin, launch.stdout) = (Stream::Fd(stdin.into()), Stream::Fd(stdout.into()));
    let gated = spawn_gated(launch).unwrap();
    let attached = Attached::to(gated.pid()).unwrap();
    let mut running = gated.release().unwrap();
    // Who waits for the end is told of stops too, and must leave them to the tracer.
    assert_eq!(running.try_wait().unwrap(), None);
    ready.read_exact(&mut [0]).unwrap();
    attached.enough();
    go.write_all(b"g").unwrap();
    let ended = loop {
        if let Some(ended) = running.try_wait().unwrap() {
            break ended;
        }
    };
    assert_eq!(ended.code, Some(7), "it went on after it was ready, and ended by itself");
    let watched = attached.finish().unwrap();
    let loaded = one(&watched);
    assert!(of(loaded, "libbefore.so").iter().any(|it| it.returned));
    assert!(of(loaded, "libafter.so").is_empty(), "what it loaded after it was ready is of no interest");
    assert!(loaded.before_main.is_some() && watched.cost.stops > 0);
}

#[test]
fn a_program_that_is_killed_at_its_gate_is_no_program_and_one_that_is_gone_is_refused() {
    let gated = spawn_gated(Launch::new(["/bin/true"])).unwrap();
    let pid = gated.pid();
    let attached = Attached::to(pid).unwrap();
    drop(gated);
    assert!(attached.finish().unwrap().starts.is_empty());
    let error = Attached::to(pid).unwrap_err();
    assert!(error.to_string().contains(&format!("cannot watch the loader of process '{pid}'")), "{error}");
}

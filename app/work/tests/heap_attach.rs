//! Attaching to running programs: they must not notice, and what they do meanwhile must be seen.
#![cfg(target_arch = "x86_64")]

#[path = "heap_attach/browsers.rs"]
mod browsers;
#[path = "heap_attach/refused.rs"]
mod refused;

use heap::report::Report;
use heapfile::reader::Reader;
use heaprec::attach::{self, Plan};
use heaprec::record::{self, Existing, FreeStacks, Functions, Keep, Phase, Recording, Sample};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use work::heaps::conclude::{Early, Streams, conclude};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The guest, built once.
fn agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| {
        if let Some(built) = std::env::var_os(BUILT) {
            return built.into();
        }
        let output = Command::new(root().join("dev/agent")).env("CARGO", env!("CARGO")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        target.join("agent").join(record::AGENT)
    })
}

/// Names the guest to a process that this test starts: it must not build it again.
const BUILT: &str = "THAW_TEST_AGENT";

struct Bench(TempDir);

impl Bench {
    fn new() -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            testing::skip("needs a C compiler");
            return None;
        }
        agent();
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, name: &str, flags: &[&str]) -> PathBuf {
        let program = self.path(name);
        let source = root().join(format!("fixtures/heap/{name}.c"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-w", "-fno-builtin", "-o"]).arg(&program).arg(source).args(flags).arg("-lpthread");
        let output = cc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    fn plan(&self, pid: u32, seconds: f64) -> Plan {
        Plan {
            pid,
            output: self.path("out.heap"),
            existing: Existing::Replace,
            seconds: Some(seconds),
            depth: 64,
            frees: FreeStacks::Without,
            functions: Functions::Interpreted,
            sample: None,
            keep: Keep::Events,
            states: None,
            agent: agent().to_owned(),
        }
    }

    fn attach(&self, pid: u32, seconds: f64) -> (Recording, Report) {
        self.attach_and(pid, seconds, |_| {})
    }

    /// `then` is called when recording has begun.
    fn attach_and(&self, pid: u32, seconds: f64, mut then: impl FnMut(u32)) -> (Recording, Report) {
        let plan = self.plan(pid, seconds);
        let mut tell = |phase| {
            if let Phase::Running(pid) = phase {
                then(pid);
            }
        };
        // What a busy machine may refuse, with this very hint.
        let mut tries = 0;
        let recording = loop {
            tries += 1;
            match attach::run(&plan, "test", &mut tell) {
                Err(error) if tries < 5 && error.hint.as_deref() == Some("try again") => {}
                result => break result.unwrap(),
            }
        };
        let report = heap::report::report(&Reader::open(&plan.output).unwrap()).unwrap();
        for process in &report.processes {
            assert_eq!((process.inconsistencies, process.lost), (0, 0), "{process:#?}");
        }
        (recording, report)
    }
}

/// A program that has said "ready".
struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { stdin: child.stdin.take(), child, stdout }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn say(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Its last words, after stdin has ended.
    fn end(&mut self) -> String {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}, {rest}");
        rest.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn programs_that_allocate_hard_are_attached_to_again_and_again() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    for threads in ["1", "8"] {
        let mut running = Running::start(Command::new(&program).arg(threads));
        for round in 0..20 {
            if round % 5 != 4 {
                // Reading hundreds of thousands of events takes longer than all of attaching.
                let recording = attach::run(&bench.plan(running.pid(), 0.01), "test", &mut |_| {}).unwrap();
                assert_eq!(recording.running, [running.pid()]);
                continue;
            }
            let (recording, report) = bench.attach(running.pid(), 0.01);
            assert_eq!((recording.running.as_slice(), report.processes.len()), ([running.pid()].as_slice(), 1));
            let process = &report.processes[0];
            assert_eq!((process.origin, process.tiers.as_slice()), ("attach", ["detour"].as_slice()), "{process:#?}");
            assert!(process.allocations > 0, "{threads} threads, round {round}: {process:#?}");
            // What they had before is at most what they have at a time.
            let most = 64 * threads.parse::<u64>().unwrap();
            assert!(process.inherited_frees <= most && process.leaked_blocks <= most, "{process:#?}");
        }
        assert_eq!(running.end(), "whole");
    }
}

#[test]
fn a_system_call_that_waits_does_not_notice() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("waiting", &[]);
    // Result, error, and for those with a timeout, least time.
    let cases = [
        ("read", "2 0", None),
        ("epoll", "1 0", None),
        ("futex", "0 0", None),
        ("nanosleep", "0 0", Some(3.0)),
        ("poll", "0 0", Some(3.0)),
        ("epoll-timeout", "0 0", Some(3.0)),
        ("signal", "-1 11", Some(3.0)),
        ("semop", "-1 11", Some(3.0)),
        ("recv-timeout", "-1 11", Some(3.0)),
    ];
    let check = |what: &str, expected: &str, least: Option<f64>| {
        let bench = Bench(tempfile::tempdir().unwrap());
        let mut running = Running::start(Command::new(&program).arg(what));
        // Those with a timeout may be over before the last time.
        for _ in 0..if least.is_some() { 1 } else { 3 } {
            bench.attach(running.pid(), 0.01);
        }
        if least.is_none() {
            running.say("x\n");
        }
        let line = running.line();
        let (result, took) = line.rsplit_once(' ').unwrap();
        assert_eq!(result, expected, "{what}: {line}");
        assert!(least.is_none_or(|least| took.parse::<f64>().unwrap() >= least), "{what}: {line}");
        running.end();
    };
    // They do nothing but wait.
    std::thread::scope(|scope| {
        for (what, expected, least) in cases {
            scope.spawn(move || check(what, expected, least));
        }
    });
}

#[test]
fn registers_and_errno_of_a_thread_that_computes_stay() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("waiting", &[]);
    let mut running = Running::start(Command::new(&program).arg("compute"));
    for _ in 0..20 {
        bench.attach(running.pid(), 0.005);
    }
    // SAFETY: takes numbers.
    unsafe { libc::kill(running.pid().cast_signed(), libc::SIGUSR1) };
    let line = running.line();
    assert!(line.starts_with("0 0 "), "rounds with a wrong result, 0, time: {line}");
}

#[test]
fn leaks_forks_and_blocks_from_before_are_told_apart() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let pid = running.pid();
    let (_, report) = bench.attach_and(pid, 0.01, |_| {
        for what in ["l\n", "o\n", "f\n"] {
            running.say(what);
            assert_eq!(running.line(), "done");
        }
    });
    let main = report.processes.iter().find(|process| process.pid == pid).unwrap();
    let sizes: Vec<u64> =
        main.leaks.iter().map(|leak| leak.bytes.0).filter(|size| (7000..8000).contains(size)).collect();
    assert_eq!(sizes, [7003, 7001], "{main:#?}");
    assert_eq!(main.inherited_frees, 2, "one freed, one given to realloc: {main:#?}");
    let leak = main.leaks.iter().find(|leak| leak.bytes.0 == 7001).unwrap();
    let own = leak.stack.iter().filter(|frame| frame.module.as_deref().is_some_and(|module| module.ends_with("later")));
    assert!(own.count() >= 2, "leak and main: {leak:#?}");
    let child = report.processes.iter().find(|process| process.pid != pid).unwrap();
    assert_eq!((child.origin, child.forked_from), ("fork", Some(pid)));
    assert!(child.leaks.iter().any(|leak| leak.bytes.0 == 7002), "{child:#?}");
    assert_eq!(running.end(), "");
}

#[test]
fn what_is_attached_to_is_finished_while_it_is_recorded_and_goes_on() {
    let Some(bench) = Bench::new() else { return };
    let mut running = Running::start(&mut Command::new(bench.compile("later", &[])));
    let (plan, mut early) = (bench.plan(running.pid(), 0.5), Early::new());
    let mut tell = |phase| {
        if let Phase::Running(_) = phase {
            running.say("l\n");
            assert_eq!(running.line(), "done");
        }
    };
    attach::run_ahead(&plan, "test", Some(&mut early.ahead), &mut tell).unwrap();
    let done = conclude(&Reader::open(&plan.output).unwrap(), Streams::Finish(early), &mut |_| {}).unwrap();
    let counts = done.finished.unwrap();
    assert!(done.failed.is_none() && (counts.streams, counts.again) == (1, 0), "{:?} {counts:?}", done.failed);
    let leaks = &done.report.processes[0].leaks;
    assert!(leaks.iter().any(|leak| leak.bytes.0 == 7001), "{leaks:#?}");
    let names = std::fs::read_dir(&plan.output).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [&format!("{}-0.events", running.pid()), "names.json", "recording.json"]);
    assert_eq!(running.end(), "");
}

#[test]
fn another_program_is_not_recorded_and_not_changed() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let pid = running.pid();
    let (_, report) = bench.attach_and(pid, 0.1, |_| {
        running.say("e\n");
        assert_eq!(running.line(), "ready");
    });
    assert_eq!(report.processes.len(), 1);
    running.say("l\n");
    assert_eq!(running.line(), "done");
    bench.attach(pid, 0.01);
    assert_eq!(running.end(), "");
}

#[test]
fn an_allocator_of_the_program_is_recorded_too() {
    let Some(bench) = Bench::new() else { return };
    let allocator = bench.path("libown.so");
    let source = "#include <stddef.h>\n#include <string.h>\nstatic char pool[1 << 26]; static size_t used;\n\
        void *malloc(size_t n) { size_t at = __atomic_fetch_add(&used, (n + 31) & ~15ul, 5);\n\
            *(size_t *)(pool + at) = n; return pool + at + 16; }\n\
        void free(void *p) { if (p) *(volatile char *)p = 0; }\n\
        void *calloc(size_t a, size_t b) { return memset(malloc(a * b), 0, a * b); }\n\
        void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) {\n\
            size_t o = *(size_t *)((char *)p - 16); memcpy(q, p, o < n ? o : n); } return q; }\n";
    let text = bench.path("own.c");
    std::fs::write(&text, source).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-w", "-fno-builtin", "-shared", "-fPIC", "-o"])
        .arg(&allocator)
        .arg(&text)
        .status();
    assert!(built.unwrap().success());
    let program = bench.compile("later", &[]);
    let mut running = Running::start(Command::new(&program).env("LD_PRELOAD", &allocator));
    let pid = running.pid();
    let (_, report) = bench.attach_and(pid, 0.01, |_| {
        running.say("l\n");
        assert_eq!(running.line(), "done");
    });
    let process = &report.processes[0];
    assert!(process.allocator.ends_with("libown.so"), "{process:#?}");
    assert!(process.leaks.iter().any(|leak| leak.bytes.0 == 7001), "{process:#?}");
    assert_eq!(running.end(), "");
}

#[test]
fn python_goes_on() {
    let Some(bench) = Bench::new() else { return };
    // It maps its C library a second time, to read in it, as those do that name addresses.
    let script = "import sys, mmap, threading\nover = []\n\
        path = [line.split()[5] for line in open('/proc/self/maps') if '/libc' in line][0]\n\
        file = open(path, 'rb')\nkept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\nprint('ready', flush=True)\n\
        def work():\n  while not over:\n    [bytearray(n) for n in range(600, 900)]\n\
        t = threading.Thread(target=work)\nt.start()\nsys.stdin.read()\nover.append(1)\nt.join()\nprint('whole')\n";
    let mut python = Command::new("python3");
    python.args(["-c", script]);
    if Command::new("python3").arg("--version").output().is_err() {
        return testing::skip("needs python3");
    }
    let mut running = Running::start(&mut python);
    for _ in 0..5 {
        let (_, report) = bench.attach(running.pid(), 0.05);
        assert!(report.processes[0].allocations > 0);
    }
    assert_eq!(running.end(), "whole");
}

const VICTIM: &str = "THAW_TEST_ATTACH_TO";

/// Is killed from outside.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn attaches_and_waits() {
    let pid = std::env::var(VICTIM).unwrap().parse().unwrap();
    let output = std::env::var_os("THAW_TEST_OUTPUT").unwrap().into();
    let bench = Bench(tempfile::tempdir().unwrap());
    let plan = Plan { output, ..bench.plan(pid, 600.0) };
    os::interrupt::install().unwrap();
    println!("\nbegins");
    match attach::run(&plan, "test", &mut |phase| println!("\n{phase:?}")) {
        Ok(_) => println!("\nended"),
        Err(error) => println!("\nrefused: {error}, {}", error.hint.as_deref().unwrap_or("")),
    }
}

/// thaw in a process of its own, with what it says.
struct Thaw {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Thaw {
    fn command(pid: u32, output: &Path, state: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "attaches_and_waits", "--ignored", "--nocapture"])
            .env(VICTIM, pid.to_string())
            .env("THAW_TEST_OUTPUT", output)
            .env("THAW_STATE_DIR", state)
            .env(BUILT, agent())
            .stdout(Stdio::piped());
        // A shell without job control lets what it runs in the background ignore SIGINT, tests and what they start too.
        // SAFETY: only system calls that are safe after fork.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        command
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line that begins so.
    fn says(&mut self, what: &str) -> String {
        self.says_one_of(&[what])
    }

    /// That it records, or why it does not.
    fn began(&mut self) -> String {
        self.says_one_of(&["Running", "refused"])
    }

    fn says_one_of(&mut self, what: &[&str]) -> String {
        let mut all = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if what.iter().any(|what| line.starts_with(what)) {
                return line;
            }
            all.push(line);
        }
        panic!("it did not say {what:?}, but {all:?}")
    }
}

impl Drop for Thaw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_survives_that_thaw_is_killed_at_any_moment() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    let state = bench.path("state");
    for threads in ["1", "4"] {
        let mut running = Running::start(Command::new(&program).arg(threads));
        for round in 0..25_u64 {
            let mut thaw = Thaw::start(Thaw::command(running.pid(), &bench.path("killed.heap"), &state));
            thaw.says("begins");
            // Attaching takes some tens of milliseconds.
            std::thread::sleep(Duration::from_micros(500 + round * 7919 % 80_000));
            drop(thaw);
            assert!(running.child.try_wait().unwrap().is_none(), "{threads} threads, round {round}");
        }
        for leftover in os::journal::Journal::at(&state).leftovers().unwrap() {
            os::journal::mend(&leftover).unwrap();
        }
        let (_, report) = bench.attach(running.pid(), 0.01);
        assert!(report.processes[0].allocations > 0);
        assert_eq!(running.end(), "whole");
    }
}

#[test]
fn the_journal_takes_hooks_out() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let (state, output) = (bench.path("state"), bench.path("killed.heap"));
    let code = |running: &Running| code_of_malloc(running.pid());
    let before = code(&running);
    let mut thaw = Thaw::start(Thaw::command(running.pid(), &output, &state));
    thaw.says("Running");
    assert_ne!(code(&running), before);
    running.say("l\n");
    assert_eq!(running.line(), "done");
    drop(thaw);
    running.say("o\n");
    assert_eq!(running.line(), "done", "it goes on with its hooks");
    let leftovers = os::journal::Journal::at(&state).leftovers().unwrap();
    let said: Vec<String> = leftovers.iter().map(|leftover| leftover.undo.to_string()).collect();
    assert_eq!(said, [format!("take the hooks of a heap recording out of process {}", running.pid())]);
    leftovers.iter().for_each(|leftover| os::journal::mend(leftover).unwrap());
    assert_eq!(code(&running), before);
    // What was recorded until then can be read.
    let report = heap::report::report(&Reader::open(&output).unwrap()).unwrap();
    assert!(report.processes[0].leaks.iter().any(|leak| leak.bytes.0 == 7001), "{report:#?}");
    assert_eq!(running.end(), "");
}

/// The first bytes of malloc in the C library of a process.
fn code_of_malloc(pid: u32) -> [u8; 8] {
    // SAFETY: a name that the C library has. Only the address is taken; the library is the same file.
    let own = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) } as u64;
    // By its place in the file: other tests map the same file to read its symbols.
    let maps = os::process::maps(std::process::id()).unwrap();
    let mine = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&own)).unwrap();
    let offset = own - mine.start + mine.offset;
    let there = os::process::maps(pid).unwrap().into_iter().find(|mapping| {
        let code = mapping.permissions.contains('x') && (mapping.dev, mapping.ino) == (mine.dev, mine.ino);
        code && (mapping.offset..mapping.offset + (mapping.end - mapping.start)).contains(&offset)
    });
    let at = there.map(|mapping| mapping.start + (offset - mapping.offset)).unwrap();
    let mut bytes = [0; 8];
    let memory = os::ptrace::Memory::of(pid).unwrap();
    memory.read(at, &mut bytes).unwrap_or_else(|error| panic!("{error} at {at:#x}, own {own:#x}"));
    bytes
}

/// Mappings and descriptors of a recording's stream.
fn holds(pid: u32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mapped = maps.lines().filter(|line| line.contains(".stream")).map(str::to_owned);
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    mapped.chain(open.map(|path| path.display().to_string()).filter(|path| path.contains(".stream"))).collect()
}

#[test]
fn nothing_of_the_stream_stays_in_the_program() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    let mut running = Running::start(Command::new(&program).arg("4"));
    let mappings = |running: &Running| os::process::maps(running.pid()).unwrap().len();
    let mut most = 0;
    for round in 0..5 {
        let (recording, _) = bench.attach(running.pid(), 0.02);
        assert_eq!(holds(running.pid()), [""; 0], "round {round}");
        assert_eq!(os::ptrace::threads(running.pid()).unwrap().len(), 5);
        let stopped = recording.stopped.unwrap();
        assert!(stopped.threads == 5 && stopped.times >= 4 && stopped.longest_ns <= stopped.all_ns, "{stopped:?}");
        if round == 0 {
            most = mappings(&running);
        }
    }
    assert!(mappings(&running) <= most, "files that are mapped: the guest's, once");
    assert_eq!(running.end(), "whole");
}

#[test]
fn allocators_under_other_names_are_recorded_too() {
    let Some(bench) = Bench::new() else { return };
    for (prefix, flag) in [("_rjem_", "-pie"), ("je_", "-no-pie"), ("mi_", "-pie"), ("tc_", "-no-pie")] {
        let program = bench.compile("inner", &["-DBRING", &format!("-DPREFIX={prefix}"), flag]);
        let mut running = Running::start(Command::new(&program).arg("wait"));
        // The second time by what the first one has prepared.
        bench.attach(running.pid(), 0.01);
        let (recording, report) = bench.attach_and(running.pid(), 600.0, |_| running.say("x\n"));
        assert!(recording.running.is_empty());
        let process = &report.processes[0];
        for name in ["malloc", "free", "calloc", "realloc", "posix_memalign"] {
            assert!(process.inside.contains(&format!("{prefix}{name}")), "{name} is not in {:?}", process.inside);
        }
        let mut leaks: Vec<(u64, u64)> =
            process.leaks.iter().map(|leak| (leak.bytes.0, leak.blocks)).filter(|leak| leak.0 > 5000).collect();
        leaks.sort_unstable();
        assert_eq!(leaks, [(7002, 1), (8003, 1), (9004, 1), (5 * 6001, 5)], "{prefix}: {process:#?}");
        assert_eq!(process.reallocs, 31);
        running.end();
    }
}

#[test]
fn stacks_of_coroutines_are_not_written_to() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("coroutine", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    for _ in 0..20 {
        bench.attach(running.pid(), 0.005);
    }
    assert_eq!(running.end(), "whole");
}

#[test]
fn only_what_a_signal_interrupted_keeps_code_from_being_replaced() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("leftover", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let plan = bench.plan(running.pid(), 0.05);
    attach::run(&plan, "test", &mut |_| ()).unwrap();
    running.end();

    let program = bench.compile("leftover", &["-DCONTEXT"]);
    let mut running = Running::start(&mut Command::new(&program));
    let before = code_of_malloc(running.pid());
    let plan = bench.plan(running.pid(), 0.05);
    let error = attach::run(&plan, "test", &mut |_| ()).unwrap_err();
    assert!(error.cause.unwrap().to_string().contains("(the last time thread "));
    assert_eq!(code_of_malloc(running.pid()), before);
    // Nothing was written: there is nothing to put back.
    let of_it = format!("take the hooks of a heap recording out of process {}", running.pid());
    let left = os::journal::leftovers().unwrap();
    assert!(left.iter().all(|leftover| leftover.undo.to_string() != of_it), "{left:?}");
    running.end();
}

#[test]
fn the_end_of_the_program_ends_the_recording() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let (recording, report) = bench.attach_and(running.pid(), 600.0, |_| running.say("l\nx\n"));
    assert!(recording.finished && recording.running.is_empty());
    assert!(report.processes[0].leaks.iter().any(|leak| leak.bytes.0 == 7001), "{report:#?}");
    assert_eq!(running.child.wait().unwrap().code(), Some(7));
}

#[test]
fn ctrl_c_takes_the_hooks_out() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    let before = code_of_malloc(running.pid());
    let output = bench.path("interrupted.heap");
    let mut thaw = Thaw::start(Thaw::command(running.pid(), &output, &bench.path("state")));
    thaw.says("Running");
    running.say("l\n");
    assert_eq!(running.line(), "done");
    // SAFETY: takes numbers.
    unsafe { libc::kill(thaw.child.id().cast_signed(), libc::SIGINT) };
    thaw.says("ended");
    thaw.child.wait().unwrap();
    assert_eq!(code_of_malloc(running.pid()), before);
    let reader = Reader::open(&output).unwrap();
    assert!(reader.recording().finished);
    let report = heap::report::report(&reader).unwrap();
    assert!(report.processes[0].leaks.iter().any(|leak| leak.bytes.0 == 7001), "{report:#?}");
    assert_eq!(running.end(), "");
}

#[test]
fn a_thread_that_the_kernel_holds_is_waited_for() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut running = Running::start(&mut Command::new(&program));
    running.say("v\n");
    assert_eq!(running.line(), "waits");
    bench.attach(running.pid(), 0.01);
    assert_eq!(running.line(), "done");
    assert_eq!(running.end(), "");
}

/// A running program can be recorded by samples, by sums, and by sums of samples, one after the other.
#[test]
fn samples_and_sums_of_a_running_program() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    let mut running = Running::start(Command::new(&program).arg("1"));
    let sample = Some(Sample { bytes: 100_000, seed: Some(7) });
    let sums = Keep::Sums { ahead: Keep::AHEAD };
    for (sample, keep) in [(sample, Keep::Events), (None, sums), (sample, sums), (None, Keep::Events)] {
        let plan = Plan { sample, keep, ..bench.plan(running.pid(), 0.05) };
        attach::run(&plan, "test", &mut |_| {}).unwrap();
        let reader = Reader::open(&plan.output).unwrap();
        let report = heap::report::report(&reader).unwrap();
        let [process] = &report.processes[..] else { panic!("{report:#?}") };
        let rate = sample.map_or(0, |sample| sample.bytes);
        assert_eq!((process.sample_bytes.0, process.inconsistencies, process.lost), (rate, 0, 0), "{process:#?}");
        assert!(process.allocations > 0, "{process:#?}");
        assert_eq!(process.allocated_error_bytes.is_some(), sample.is_some());
        let summed = reader.processes()[0].file.extension().unwrap() == "sums";
        assert_eq!(summed, keep != Keep::Events);
        assert!(!plan.output.join("recorder").exists());
    }
    assert_eq!(running.end(), "whole");
}

//! What the tests with real programs share: the actor, one lab at a time, and a journal of their own.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use bench::conduct::{Host, Outcome};
use bench::record::{Lab, LabOptions, Program};
use model::{CacheState, RunKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// One lab at a time: orphans of all runs become children of this process.
static LAB: Mutex<()> = Mutex::new(());

/// Lets one test at a time go on, with a journal of its own.
pub fn alone() -> MutexGuard<'static, ()> {
    static STATE: OnceLock<()> = OnceLock::new();
    let guard = LAB.lock().unwrap_or_else(PoisonError::into_inner);
    STATE.get_or_init(|| {
        if std::env::var_os("THAW_STATE_DIR").is_none() {
            let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", binary()));
            // SAFETY: every test begins with `alone`, so no other thread of a test runs yet that could read the
            // environment.
            unsafe { std::env::set_var("THAW_STATE_DIR", state) };
        }
    });
    guard
}

/// Name of this test binary.
fn binary() -> String {
    let exe = std::env::current_exe().unwrap();
    let stem = exe.file_stem().unwrap().to_str().unwrap();
    // Without the hash that cargo adds.
    stem.rsplit_once('-').map_or(stem, |(name, _)| name).to_owned()
}

/// A directory on a disk (not on tmpfs) that goes with the test.
pub fn scratch(name: &str) -> tempfile::TempDir {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(place).unwrap();
    tempfile::Builder::new().prefix(name).tempdir_in(place).unwrap()
}

/// The actor's path; compiled once per test binary.
pub fn actor() -> &'static Path {
    static ACTOR: OnceLock<PathBuf> = OnceLock::new();
    ACTOR.get_or_init(|| {
        if let Some(made) = std::env::var_os("THAW_TEST_ACTOR") {
            return made.into();
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/actor.c");
        let exe = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("actor-{}", binary()));
        let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let built = Command::new(&cc).args(["-O1", "-w", "-o"]).arg(&exe).arg(&source).status();
        assert!(built.unwrap_or_else(|error| panic!("{cc}: {error}")).success(), "{cc} failed");
        exe
    })
}

/// A program that performs these acts, with a patience that only a hang uses up.
pub fn acts(acts: &[&str], ready: &[&str]) -> Program {
    let mut argv = vec![actor().as_os_str().to_owned()];
    argv.extend(acts.iter().map(std::ffi::OsString::from));
    let mut program = Program::new("actor", argv);
    program.ready = ready.iter().map(|word| word.parse().unwrap()).collect();
    program.timeout = Duration::from_secs(120);
    program
}

/// A lab for programs.
pub fn lab(programs: Vec<Program>) -> Lab {
    Lab::open(programs, LabOptions::default()).unwrap_or_else(|error| panic!("{error}")).0
}

/// Starts variant 0 once.
pub fn start(lab: &mut Lab) -> Outcome {
    try_start(lab).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, for starts that may fail.
pub fn try_start(lab: &mut Lab) -> model::Result<Outcome> {
    lab.start(0, CacheState::Hot, RunKind::Timed, None, &mut |_| {})
}

/// Starts a program in a lab of its own.
pub fn once(program: Program) -> Outcome {
    start(&mut lab(vec![program]))
}

/// When a milestone was reached, nanoseconds.
pub fn at(outcome: &Outcome, name: &str) -> u64 {
    let found = outcome.milestones.iter().find(|milestone| milestone.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {outcome:?}")).at_ns.0
}

/// A TCP port that nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Whether a program can be found.
pub fn has(program: &str) -> bool {
    os::spawn::resolve_program(program.as_ref()).is_ok()
}

/// This test binary, to run one of its ignored tests in a process of its own.
pub fn part(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Whether a process lives; one that ended and that nobody has reaped does not.
pub fn is_alive(pid: &str) -> bool {
    os::process::stat(pid.trim().parse().unwrap()).is_some_and(|stat| stat.state != 'Z')
}

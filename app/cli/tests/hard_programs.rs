//! Programs and manifests that are hard to watch, to order or to preload: what is seen of them, or a clear error; and
//! nothing is left running.

use crate::preload::manifest;
use crate::scratch::{Said, Scratch, alone};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLAIN: &str = r#"
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) void used(void) { printf("euid %d\n", (int)geteuid()); }
__attribute__((noinline)) void unused(void) { puts("unused"); }
int main(int argc, char **argv) { (void)argv; used(); if (argc > 5) unused(); return 0; }
"#;

/// Traces its child, and cannot do without.
const TRACES: &str = r#"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) == -1) { fprintf(stderr, "cannot trace: %s\n", strerror(errno)); _exit(9); }
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 0;
}
"#;

/// Takes two SIGTRAPs, an `int3` and one that it sends itself; with an argument it has no handler and dies of the
/// first.
const TRAPS: &str = r#"
#include <signal.h>
#include <stdio.h>
static volatile int caught;
static void on_trap(int signal) { (void)signal; caught++; }
__attribute__((noinline)) void after_both(void) { printf("caught %d\n", caught); }
int main(int argc, char **argv) {
    (void)argv;
    if (argc == 1) signal(SIGTRAP, on_trap);
    __asm__("int3");
    raise(SIGTRAP);
    after_both();
    return caught == 2 ? 0 : 7;
}
"#;

/// Compiles on a disk; `None`: the compiler cannot do that here.
fn compile(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let file = scratch.write(&format!("app/{name}.c"), source);
    let program = scratch.path(format!("app/{name}"));
    let built = Command::new("cc").arg("-O1").arg(&file).arg("-o").arg(&program).args(flags).output();
    if !built.is_ok_and(|built| built.status.success()) {
        testing::skip(&format!("needs a C compiler that takes {flags:?}"));
        return None;
    }
    Some(program)
}

/// Whether there are breakpoints for this processor.
fn functions_or_skip() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        testing::skip("the function engine is for x86-64");
    }
    cfg!(target_arch = "x86_64")
}

fn watch(scratch: &Scratch, recording: &str, program: &Path, words: &[&str]) -> Said {
    let program = program.to_str().unwrap();
    scratch.thaw([&["touch", "--engine", "function", "--force", "-o", recording, "--", program], words].concat())
}

fn functions(scratch: &Scratch, recording: &str, program: &Path) -> Value {
    let said = scratch.thaw(["touch", recording, "--file", program.to_str().unwrap(), "--json"]).exits(0);
    said.json()["programs"][0]["report"]["files"][0]["functions"].clone()
}

/// No process of this scratch folder is left.
#[track_caller]
fn nobody_left(scratch: &Scratch) {
    let folder = scratch.path("").canonicalize().unwrap();
    let of_ours = |pid: &u32| os::process::exe(*pid).is_some_and(|exe| exe.starts_with(&folder));
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    assert_eq!(pids.filter(of_ours).collect::<Vec<u32>>(), Vec::<u32>::new(), "left running");
    scratch.nothing_left();
}

#[test]
fn a_stripped_program_without_a_table_of_its_unwind_entries_is_watched_by_the_entries() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = compile(&scratch, "bare", PLAIN, &["-s", "-Wl,--no-eh-frame-hdr"]) else { return };
    watch(&scratch, "a.thaw", &program, &[]).exits(0).says("app/bare");
    let seen = functions(&scratch, "a.thaw", &program);
    assert_eq!(seen["starts"], "unwind");
    assert!(seen["called"].as_u64() >= Some(2) && seen["called"].as_u64() < seen["total"].as_u64(), "{seen}");
    scratch.thaw(["order", "a.thaw"]).exits(5).complains("no called function has a name").hints("--symbols");
    nobody_left(&scratch);
}

#[test]
fn a_program_that_tells_nothing_of_its_functions_is_named_and_runs_as_ever() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let flags = ["-Wl,--no-eh-frame-hdr", "-fno-asynchronous-unwind-tables"];
    let Some(program) = compile(&scratch, "mute", PLAIN, &flags) else { return };
    let bared = Command::new("strip").args(["--strip-all", "-R", ".eh_frame"]).arg(&program).status();
    if !bared.is_ok_and(|status| status.success()) {
        return testing::skip("needs strip");
    }
    watch(&scratch, "a.thaw", &program, &[]).exits(0).says("function cannot know: functions of");
    let json = scratch.thaw(["touch", "a.thaw", "--json"]).exits(0).json();
    let engines = json["programs"][0]["report"]["engines"].as_array().unwrap();
    let cannot: Vec<&str> = engines[0]["cannot"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let is_it = |note: &&str| note.contains("app/mute") && note.contains("no symbols and no unwind tables");
    assert_eq!(cannot.into_iter().filter(is_it).count(), 1, "{json:#}");
    scratch.thaw(["order", "a.thaw"]).exits(5).complains("no called function has a name");
    nobody_left(&scratch);
}

#[test]
fn a_setuid_program_is_watched_as_root_and_has_the_callers_rights_without() {
    if !functions_or_skip() || !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = compile(&scratch, "setuid", PLAIN, &[]) else { return };
    std::fs::set_permissions(scratch.path("app"), PermissionsExt::from_mode(0o755)).unwrap();
    // Somebody else's: root watches it, and it becomes nobody.
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    watch(&scratch, "root.thaw", &program, &[]).exits(0).says("app/setuid").says_not("with the rights of its owner");
    // Root's: nobody watches it, and it stays nobody.
    std::os::unix::fs::chown(&program, Some(0), None).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let path = program.to_str().unwrap();
    let Some(said) = scratch.thaw_as_nobody(["touch", "--engine", "function", "-o", "nobody.thaw", "--", path]) else {
        return;
    };
    said.exits(0).says("it has only yours").says("watch it as root");
    assert!(functions(&scratch, "nobody.thaw", &program)["called"].as_u64() >= Some(2));
    // Preloading is no watching: the program gets its rights.
    manifest(&scratch);
    let run = scratch.thaw_as_nobody(["preload", "run", "a.preload", "--", path]).unwrap();
    run.exits(0).says("euid 0");
    nobody_left(&scratch);
}

#[test]
fn a_static_program_is_watched_and_ordered() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = compile(&scratch, "static", PLAIN, &["-static"]) else { return };
    watch(&scratch, "a.thaw", &program, &[]).exits(0).says("app/static");
    let order = scratch.thaw(["order", "a.thaw"]).exits(0).out();
    let names: Vec<&str> = order.lines().collect();
    let place = |name: &str| names.iter().position(|other| *other == name);
    assert!(place("main").is_some() && place("main") < place("used") && place("unused").is_none(), "{names:?}");
    manifest(&scratch);
    let run = scratch.thaw(["preload", "run", "a.preload", "--", program.to_str().unwrap()]);
    run.exits(0).says("euid");
    // As on another machine: what was called has its names, what was not is not known.
    std::fs::remove_file(&program).unwrap();
    assert_eq!(scratch.thaw(["order", "a.thaw"]).exits(0).out(), order);
    scratch.thaw(["order", "a.thaw", "--list", "never"]).exits(5).complains("is not here").hints("--symbols");
    nobody_left(&scratch);
}

#[test]
fn a_program_that_traces_is_refused_it_and_the_error_says_so() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = compile(&scratch, "tracer", TRACES, &[]) else { return };
    assert!(Command::new(&program).status().unwrap().success(), "unwatched it works");
    let said = watch(&scratch, "a.thaw", &program, &[]).exits(4);
    said.complains("exit code 9").complains("cannot trace: Operation not permitted").hints("--engine page");
    assert!(!scratch.path("a.thaw").exists(), "a recording that says nothing is in the way");
    // What does not trace leaves it alone.
    let path = program.to_str().unwrap();
    scratch.thaw(["touch", "--engine", "probe", "-o", "b.thaw", "--", path]).exits(0).says("in memory");
    nobody_left(&scratch);
}

#[test]
fn a_programs_own_traps_are_its_own() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = compile(&scratch, "traps", TRAPS, &[]) else { return };
    watch(&scratch, "a.thaw", &program, &[]).exits(0);
    let calls = scratch.thaw(["touch", "a.thaw", "--file", program.to_str().unwrap(), "--json"]).exits(0).json();
    let calls = calls["programs"][0]["calls"].as_array().unwrap();
    for name in ["main", "on_trap", "after_both"] {
        assert_eq!(calls.iter().filter(|call| call["name"] == name).count(), 1, "{name} in {calls:?}");
    }
    // Without a handler it dies of it, as it does unwatched.
    watch(&scratch, "b.thaw", &program, &["die"]).exits(4).complains("signal");
    nobody_left(&scratch);
}

#[test]
fn a_program_that_copies_or_reads_its_own_code_is_told_of_the_breakpoints() {
    if !functions_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let source = include_str!("../../../measure/touch/tests/programs/copies.c");
    let Some(program) = compile(&scratch, "copies", source, &[]) else { return };
    let said = watch(&scratch, "a.thaw", &program, &["m"]).exits(4);
    let said = said.complains("SIGTRAP").complains("copied k01_copied (at 0x").complains("app/copies to 0x");
    said.hints("reads or copies its own code").hints("--engine page (as root), or byte");
    assert!(!scratch.path("a.thaw").exists(), "a recording that says nothing is in the way");
    // One that adds up its code sees them too, and says so in its own way.
    let sum = Command::new(&program).arg("c").output().unwrap().stdout;
    let sum = format!("-DSUM={}", String::from_utf8(sum).unwrap().trim());
    let Some(program) = compile(&scratch, "sums", source, &[&sum]) else { return };
    assert!(Command::new(&program).arg("s").status().unwrap().success(), "unwatched it works");
    let said = watch(&scratch, "b.thaw", &program, &["s"]).exits(4);
    said.complains("exit code 3").hints("may read its own code").hints("--timeout").hints("--engine page");
    nobody_left(&scratch);
}

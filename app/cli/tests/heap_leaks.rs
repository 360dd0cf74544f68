//! `thaw heap run --leak-check` on a program that leaks blocks in known ways.

use crate::heap::guest;
use crate::scratch::{Mortal, Scratch, root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn program(scratch: &Scratch) -> Option<PathBuf> {
    let (source, program) = (root().join("fixtures/heap/leaks.c"), scratch.path("leaks"));
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-o"]).arg(&program).arg(source).arg("-lpthread");
    (guest() && testing::compiled(&mut compiler)).then_some(program)
}

/// The summary of a run; what the last process that was looked at leaked.
fn checked(scratch: &Scratch, program: &str, words: &[&str]) -> Value {
    let run = ["heap", "run", "--leak-check", "--json", "--force", "-o", "leaks.heap", "--", program];
    let document = scratch.thaw(run.iter().chain(words)).exits(0).json();
    document["report"]["processes"].as_array().unwrap().last().unwrap().clone()
}

/// Bytes and blocks: lost, that only lost ones point to, possibly lost, still reachable.
fn found(process: &Value) -> [(u64, u64); 4] {
    let reached = &process["leak_check"]["reached"];
    ["lost", "indirect", "possible", "reachable"].map(|kind| {
        let held = &reached[kind];
        (held["bytes"].as_u64().unwrap(), held["blocks"].as_u64().unwrap())
    })
}

const NONE: (u64, u64) = (0, 0);
const ONE: (u64, u64) = (111, 1);

#[test]
fn leaks_are_told_apart_by_who_can_still_reach_them() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let program = program.to_str().unwrap();
    for (what, expected) in [
        ("lost", [ONE, NONE, NONE, NONE]),
        ("global", [NONE, NONE, NONE, ONE]),
        ("chain", [NONE, NONE, NONE, (256, 4)]),
        ("lost-chain", [(64, 1), (192, 3), NONE, NONE]),
        ("circle", [(64, 1), (64, 1), NONE, NONE]),
        ("middle", [NONE, NONE, ONE, NONE]),
        ("end", [(112, 1), NONE, NONE, NONE]),
        ("array", [NONE, NONE, NONE, (88, 1)]),
        ("tls", [NONE, NONE, NONE, ONE]),
        ("stack", [NONE, NONE, NONE, ONE]),
        ("mapping", [NONE, NONE, NONE, ONE]),
        ("unmapped", [ONE, NONE, NONE, NONE]),
        ("hidden", [ONE, NONE, NONE, NONE]),
        ("freed-keeps", [ONE, NONE, NONE, NONE]),
        ("large", [(1 << 20, 1), NONE, NONE, NONE]),
        ("large-global", [NONE, NONE, NONE, (1 << 20, 1)]),
        ("many", [(32 * 111, 32), NONE, NONE, (32 * 111, 32)]),
        ("realloc", [NONE, NONE, NONE, ONE]),
        ("aligned", [NONE, NONE, NONE, ONE]),
        // The child gave up what it inherited, which is its parent's to leak: nothing of its own is left.
        ("fork", [NONE, NONE, NONE, NONE]),
        ("_exit", [ONE, NONE, NONE, NONE]),
        // The child has its parent's memory, and is not the one that leaves.
        ("vfork", [NONE, NONE, NONE, ONE]),
    ] {
        let process = checked(&scratch, program, &[what]);
        assert_eq!(found(&process), expected, "{what}: {process}");
    }
    // The C library keeps a block for each thread: the table of its variables.
    for (what, lost) in [("other-tls", 0), ("other-stack", 0), ("key", 0), ("ended-stack", 111)] {
        let [lost_now, indirect, possible, reachable] = found(&checked(&scratch, program, &[what]));
        let table = reachable.0 - (111 - lost);
        assert_eq!((lost_now.0, indirect, possible), (lost, NONE, NONE), "{what}");
        assert!((100..1000).contains(&table), "{what}: {table}");
    }
}

#[test]
fn one_kind_of_leak_is_listed_and_known_ones_are_left_out() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let program = program.to_str().unwrap();
    let summary = scratch.thaw(["heap", "run", "--leak-check", "-o", "leaks.heap", "--", program, "lost-chain"]);
    let text = summary.exits(0).out();
    assert!(text.contains("64 B in 1 block: lost: nothing points to it"), "{text}");
    assert!(text.contains("lost 64 B in 1 block: make < chain < lost_chain < main"), "{text}");
    assert!(text.contains("thaw heap report leaks.heap --mode lost"), "{text}");
    let report = |more: &[&str]| {
        let words = ["heap", "report", "leaks.heap", "--json"];
        scratch.thaw(words.iter().chain(more)).exits(0).json()
    };
    for (mode, blocks) in [("lost", 1), ("indirectly-lost", 3), ("possibly-lost", 0), ("still-reachable", 0)] {
        let rows = &report(&["--mode", mode])["rows"];
        let rows = rows.as_array().unwrap().iter();
        assert_eq!(rows.map(|row| row["figures"]["end"]["blocks"].as_u64().unwrap()).max(), (blocks > 0).then_some(4));
    }
    assert_eq!(report(&["--mode", "indirectly-lost"])["total"]["reached"]["indirect"]["blocks"], 3);
    assert_eq!(report(&["--mode", "lost"])["measure"], "lost");
    std::fs::write(scratch.path("known.supp"), "# known\nleak:^lost_chain$\n").unwrap();
    std::fs::write(scratch.path("other.supp"), "leak:lost_chain_of_another\nrace:main\n").unwrap();
    let sites = |file: &str| report(&["--mode", "lost", "--suppressions", file])["sites"].as_u64();
    assert_eq!((sites("known.supp"), sites("other.supp")), (Some(0), Some(1)));
    let judged = |file: &str| {
        let words = ["heap", "report", "leaks.heap", "--mode", "lost", "--fail-if-any", "--suppressions", file];
        scratch.thaw(words).code()
    };
    assert_eq!((judged("known.supp"), judged("other.supp")), (Some(0), Some(1)));
    std::fs::write(scratch.path("bad.supp"), "leek:main\n").unwrap();
    let bad = scratch.thaw(["heap", "report", "leaks.heap", "--suppressions", "bad.supp"]).exits(5).err();
    assert!(bad.contains("line 1") && bad.contains("bad.supp"), "{bad}");
    scratch.thaw(["heap", "report", "leaks.heap", "--suppressions", "gone.supp"]).exits(2);
    // A page has no place for it.
    scratch.thaw(["heap", "report", "leaks.heap", "--mode", "lost", "--html", "lost.html"]).exits(2);
    assert!(!scratch.path("lost.html").exists());
    scratch.thaw(["heap", "report", "leaks.heap", "--mode", "lost", "--until", "1"]).exits(2);
    // A damaged file is named.
    let file = std::fs::read_dir(scratch.path("leaks.heap")).unwrap().flatten().map(|entry| entry.path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|it| it == "reach")).unwrap();
    std::fs::write(&file, b"THAWREAC").unwrap();
    let damaged = scratch.thaw(["heap", "report", "leaks.heap", "--mode", "lost"]).exits(5).err();
    assert!(damaged.contains(".reach"), "{damaged}");
}

#[test]
fn what_could_not_be_looked_at_is_unknown() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let program = program.to_str().unwrap();
    let run = ["heap", "run", "--leak-check", "--json", "-o", "leaks.heap", "--", program, "killed"];
    let process = &scratch.thaw(run).exits(4).json()["report"]["processes"][0];
    assert!(process["leak_check"]["unknown"].as_str().unwrap().contains("a signal"), "{process}");
    let report = scratch.thaw(["heap", "report", "leaks.heap", "--mode", "lost", "--json"]).exits(0).json();
    assert!(report["warnings"].to_string().contains("is unknown"), "{report}");
    // Nobody looked at all.
    scratch.thaw(["heap", "run", "--force", "-o", "leaks.heap", "--", program, "lost"]).exits(0);
    let refused = scratch.thaw(["heap", "report", "leaks.heap", "--mode", "lost"]).exits(2).err();
    assert!(refused.contains("--leak-check"), "{refused}");
    for other in [&["--sample", "4KiB"][..], &["--aggregate"]] {
        let words = ["heap", "run", "--leak-check", "-o", "other.heap"];
        scratch.thaw(words.iter().chain(other).chain(&["--", program, "lost"])).exits(2);
        assert!(!scratch.path("other.heap").exists());
    }
}

#[test]
fn a_program_that_runs_is_looked_at_when_somebody_asks() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    scratch.thaw(["heap", "check", "live.heap"]).exits(2);
    let mut command = scratch.command();
    command.args(["heap", "run", "-o", "live.heap", "--"]).arg(&program).arg("serve");
    let mut recorder = Mortal(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut out = BufReader::new(recorder.0.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Twice: nothing of the first look stays in the way.
    for _ in 0..2 {
        let document = scratch.thaw(["heap", "check", "live.heap", "--json"]).exits(0).json();
        let processes = document["report"]["processes"].as_array().unwrap();
        assert_eq!(processes.len(), 1);
        assert_eq!(found(&processes[0]), [(111 + 64, 2), (192, 3), NONE, NONE], "{document}");
    }
    let said = scratch.thaw(["heap", "check", "live.heap"]).exits(0);
    said.says("lost 111 B in 1 block: make < lose < main").says("stood still");
    scratch.thaw(["heap", "check", "live.heap", "--process", "1"]).exits(2).complains("no process 1 runs");
    // Another user may not have processes stopped.
    if let Some(said) = scratch.thaw_as_nobody(["heap", "check", "live.heap"]) {
        assert_ne!(said.code(), Some(0), "{}", said.framed());
    }
    assert!(Command::new("kill").arg(recorder.0.id().to_string()).status().unwrap().success());
    out.read_to_string(&mut line).unwrap();
    recorder.0.wait().unwrap();
    // What was found stays; the end by a signal takes nothing of it.
    let report = scratch.thaw(["heap", "report", "live.heap", "--mode", "lost", "--json"]).exits(0).json();
    assert_eq!(report["total"]["reached"]["lost"]["bytes"], 175, "{report}");
    scratch.thaw(["heap", "check", "live.heap"]).exits(2).complains("runs any more");
}

/// Blocks that were there before are not known, and lead to others all the same.
#[test]
fn a_program_that_was_attached_to_is_looked_at_too() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    if !testing::root_or_skip() {
        return;
    }
    let mut running = Command::new(&program);
    running.arg("later").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Mortal(running.spawn().unwrap());
    let mut command = scratch.command();
    command.args(["heap", "attach", "-o", "live.heap", &running.0.id().to_string()]).stdout(Stdio::null());
    let mut recorder = Mortal(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut told = BufReader::new(recorder.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.any(|line| line.contains("recording process")), "attaching failed");
    running.0.stdin.take().unwrap().write_all(b"x").unwrap();
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let document = scratch.thaw(["heap", "check", "live.heap", "--json"]).exits(0).json();
    let process = &document["report"]["processes"][0];
    assert_eq!(found(process), [(111 + 64, 2), (192, 3), NONE, (222, 1)], "{document:#}");
    assert!(process["leak_check"]["doubts"].to_string().contains("attached"), "{document:#}");
    drop(running);
    recorder.0.wait().unwrap();
}

//! `thaw why` on planted programs in other languages, and on a library that the loader has much to do with.

use crate::scratch::Scratch;
use crate::why::{Start, built, fixture, is_unasked, planted, runs, scene, waits_for};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The way goes over from this thread to that one, for as long as the first one waited.
#[track_caller]
fn leads(start: &Start, from: u64, to: u64, kind: &str, waited: f64) {
    let links = start.rows("links", |link| link["woken"]["tid"] == from && link["waker"]["tid"] == to);
    let found = links.iter().filter(|link| link["kind"] == kind).map(|link| link["ns"].as_f64().unwrap()).sum::<f64>();
    start.near(kind, found / 1e6, waited);
}

#[test]
fn cpp_has_an_object_that_is_made_before_main_and_a_condition() {
    let Some(scratch) = scene() else { return };
    let Some(program) = built(&scratch, "c++", "planted.cpp", "planted-cpp", &["-O1", "-pthread"]) else { return };
    let start = Start::of(&scratch, &[program]);
    let (object, worker, condition) = (start.truth("object"), start.truth("worker"), start.truth("condition"));
    start.ran_in(object.tid, "planted_spin", object.had_cpu());
    let made = start.rows("owners", |owner| owner["what"]["function"] == "planted_spin" && owner["phase"].is_object());
    assert_eq!(made[0]["phase"]["phase"], "initialisers", "{}", made[0]);
    assert_eq!(made[0]["phase"]["object"], "planted-cpp", "{}", made[0]);
    start.near("worker", start.does(worker.tid, runs), worker.had_cpu());
    leads(&start, condition.tid, worker.tid, "lock", condition.waited());
    let blocked = start.rows("blocked", |row| row["is_first"] == true && row["ended"]["name"] == "worker");
    let longest = blocked.iter().max_by_key(|row| row["ns"].as_u64()).unwrap();
    assert_eq!(longest["is_condition"], true, "{longest}");
    assert!(longest["callers"].to_string().contains("planted::Handed::wait"), "{longest}");
}

#[test]
fn rust_has_a_channel_whose_sender_sleeps_and_a_parked_thread() {
    let Some(scratch) = scene() else { return };
    let options = ["--edition=2024", "-Copt-level=1"];
    let Some(program) = built(&scratch, "rustc", "planted.rs", "planted-rs", &options) else { return };
    let start = Start::of(&scratch, &[program]);
    for (part, by) in [("channel", "sender"), ("park", "unparker")] {
        let (waits, sleeps) = (start.truth(part), start.truth(by));
        start.near(by, start.does(sleeps.tid, |what| waits_for(what, "sleep")), sleeps.waited());
        leads(&start, waits.tid, sleeps.tid, "lock", waits.waited());
    }
}

#[test]
fn python_has_a_module_that_sleeps_and_a_child_that_is_waited_for() {
    let Some(scratch) = scene() else { return };
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return testing::skip("needs /usr/bin/python3");
    }
    let Some(child) = planted(&scratch) else { return };
    let script = fixture("planted.py");
    let start = Start::of(&scratch, &[python.as_os_str(), script.as_os_str(), child.as_os_str(), "sleep".as_ref()]);
    let (import, child, sleep) = (start.truth("import"), start.truth("child"), start.truth("sleep"));
    assert_ne!(child.pid, sleep.pid);
    start.near("child's sleep", start.does(sleep.tid, |what| waits_for(what, "sleep")), sleep.waited());
    // The import waits for nothing else.
    start.near("import", start.does(import.tid, |what| waits_for(what, "sleep")), import.waited());
    let links = start.rows("links", |link| link["woken"]["tid"] == child.tid && link["waker"]["tid"] == sleep.tid);
    let kinds: Vec<&str> = links.iter().map(|link| link["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"child"), "{links:?}{}", start.told());
}

/// So often each variable is looked up: once takes too short a time for a clock of milliseconds.
const TIMES: usize = 20;

/// A library with so many variables, and tables of their addresses that the loader has to look up.
fn library(scratch: &Scratch, name: &str, count: usize) -> bool {
    let mut text = ".data\n".to_owned();
    for number in 0..count {
        text += &format!(".globl v_{name}_{number}\n.type v_{name}_{number}, @object\nv_{name}_{number}: .long 1\n");
    }
    text += ".balign 8\n";
    for _ in 0..TIMES {
        (0..count).for_each(|number| text += &format!(".quad v_{name}_{number}\n"));
    }
    text += ".section .note.GNU-stack,\"\",@progbits\n";
    let source = scratch.write(&format!("{name}.s"), text);
    let mut command = Command::new("cc");
    // Else the linker sorts them, and each name is looked up once.
    command.args(["-shared", "-Wl,-z,nocombreloc", "-o"]).arg(scratch.path(format!("lib{name}.so"))).arg(source);
    testing::compiled(&mut command)
}

/// For how long the loader works.
fn loader(start: &Start, tid: u64, phases: &[&str]) -> f64 {
    let in_phase = |owner: &Value| phases.iter().any(|phase| owner["phase"]["phase"] == *phase);
    start.time(|owner| owner["thread"]["tid"] == tid && runs(&owner["what"]) && in_phase(owner))
}

const LOADER: [&str; 3] = ["relocation", "mapping", "linker"];

#[test]
fn a_library_that_a_program_opens_costs_what_its_clock_says() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    if !library(&scratch, "many", 30_000) {
        return;
    }
    let opens = format!("PLANTED_OPENS={}", scratch.path("libmany.so").display());
    let start = Start::with(&scratch, &["--env", &opens], &[program.as_os_str(), "open".as_ref()]);
    let truth = start.truth("open");
    let (all, relocation) = (loader(&start, truth.tid, &LOADER), loader(&start, truth.tid, &["relocation"]));
    let unasked = start.does(truth.tid, is_unasked);
    println!("relocation {relocation:.3} ms of {all:.3}, and the program says {:.3} ms", truth.had_cpu());
    // What the loader did before main is among it; samples stand for a millisecond each.
    let before = start.truth("loaded").cpu;
    assert!(all <= truth.had_cpu() * 1.05 + before + 2.0, "{}", start.told());
    assert!(all + unasked >= truth.had_cpu() * 0.95 - 2.0 - start.untold(), "{}", start.told());
    assert!(relocation > all / 2.0, "{}", start.told());
}

#[test]
fn the_loaders_time_grows_with_what_it_has_to_look_up() {
    let Some(scratch) = scene() else { return };
    let here = format!("-Wl,-rpath,{}", scratch.path("").canonicalize().unwrap().display());
    let mut found = Vec::new();
    for (name, count) in [("few", 10), ("many", 30_000)] {
        if !library(&scratch, name, count) {
            return;
        }
        let library = scratch.path(format!("lib{name}.so"));
        let options = ["-O1", "-pthread", "-Wl,--no-as-needed", &here, library.to_str().unwrap()];
        let Some(program) = built(&scratch, "cc", "planted.c", name, &options) else { return };
        let start = Start::of(&scratch, &[program]);
        let loaded = start.truth("loaded");
        let all = loader(&start, loaded.tid, &LOADER);
        println!("{name}: the loader worked {all:.3} ms, and until main all took {:.3} ms of CPU time", loaded.cpu);
        assert!(all <= loaded.cpu * 1.05 + 3.0, "{}", start.told());
        found.push((all + start.untold(), loaded.cpu));
    }
    let [few, many] = found[..] else { unreachable!() };
    let (grew, more) = (many.0 - few.0, many.1 - few.1);
    assert!(grew >= more * 0.9 - 3.0, "it grew by {grew} ms, and CPU time until main by {more} ms");
}

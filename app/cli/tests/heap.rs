//! `thaw heap`: what a user sees. What the guest sees is tested in `app/work/tests`.

use crate::scratch::{Said, Scratch, root};
use std::process::{Command, Stdio};

/// Builds the guest; `false` (counted as skipped) on other machines.
pub fn guest() -> bool {
    if !cfg!(target_arch = "x86_64") {
        testing::skip("the guest of thaw heap is for x86-64");
        return false;
    }
    let built = Command::new(root().join("dev/agent")).env("CARGO", env!("CARGO")).status().unwrap();
    assert!(built.success());
    true
}

#[test]
fn a_program_is_recorded_and_summed_up() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let said = scratch
        .thaw(["heap", "run", "-o", "ls.heap", "--", "ls", "-l", "/"])
        .exits(0)
        .says("allocations")
        .says("largest resident set")
        .says("recorded in ls.heap")
        .says("thaw heap report ls.heap --mode leaks");
    assert!(said.out().contains("usr") || said.out().contains("etc"), "the program's own output is there");
    scratch.thaw(["heap", "run", "-o", "ls.heap", "--", "ls"]).exits(2).hints("--force");
    let json = scratch.thaw(["heap", "run", "--force", "--json", "-o", "ls.heap", "--", "true"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.heap-run/1");
    assert_eq!(json["recording"]["finished"], true);
    assert_eq!(json["report"]["processes"][0]["inconsistencies"], 0);
    // What the program prints is no part of the document.
    let echo = ["heap", "run", "--force", "--json", "-o", "ls.heap", "--", "echo", "not a document"];
    let said = scratch.thaw(echo).exits(0).complains("not a document");
    assert_eq!(said.json()["recording"]["code"], 0);
}

#[test]
fn a_program_that_runs_already_is_recorded_and_goes_on() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let source =
        "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { for (;;) { free(malloc(1000)); usleep(1000); } }\n";
    scratch.write("churn.c", source);
    let (program, source) = (scratch.path("churn"), scratch.path("churn.c"));
    if !testing::compiled(Command::new("cc").arg("-o").arg(&program).arg(&source)) {
        return;
    }
    let mut running = Command::new(&program).spawn().unwrap();
    let pid = running.id().to_string();
    for _ in 0..2 {
        let words = ["heap", "attach", "--force", "--seconds", "0.3", "--json", &pid];
        let said = scratch.thaw(words).exits(0).json();
        assert_eq!(said["recording"]["attached"], true);
        assert!(said["report"]["processes"][0]["allocations"].as_u64().unwrap() > 0, "{said}");
        // The program is out of its stream: that was rewritten as after `heap run`.
        let mut files = std::fs::read_dir(scratch.path("thaw.heap")).unwrap().map(|entry| entry.unwrap().path());
        assert!(files.all(|path| path.extension().is_none_or(|extension| extension != "stream")));
        assert!(running.try_wait().unwrap().is_none(), "it goes on");
    }
    scratch.thaw(["heap", "report"]).exits(0).says("churn");
    running.kill().unwrap();
    running.wait().unwrap();
    scratch.thaw(["heap", "attach", "-o", "none.heap", &pid]).exits(2).complains(&pid);
    assert!(!scratch.path("none.heap").exists());
}

#[test]
fn a_program_that_fails_is_recorded_too() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    scratch.thaw(["heap", "run", "--", "sh", "-c", "exit 3"]).exits(4).says("exited with 3");
    scratch
        .thaw(["heap", "run", "--force", "--", "sh", "-c", "kill -9 $$"])
        .exits(4)
        .says("ended by signal 9 (SIGKILL)");
    scratch.thaw(["heap", "run", "-o", "none.heap", "--", "no-such-program"]).exits(2).complains("no-such-program");
    assert!(!scratch.path("none.heap").exists());
}

#[test]
fn a_signal_to_thaw_is_passed_on_as_it_is() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let script = "trap 'exit 7' TERM; echo > ready; while :; do sleep 0.02; done";
    let thaw =
        scratch.command().args(["heap", "run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    while !scratch.path("ready").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-TERM", &thaw.id().to_string()]).status().unwrap().success());
    let said = thaw.wait_with_output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("exited with 7") && said.status.code() == Some(4), "{text}");
}

#[test]
fn what_is_no_heap_recording_is_told_with_what_reads_it() {
    let scratch = Scratch::new();
    scratch.write("a.thaw", b"SQLite format 3\0 and more");
    scratch.write("text", "text");
    for verb in ["report", "slop", "growth"] {
        scratch.thaw(["heap", verb, "a.thaw"]).exits(5).hints("it is a recording of starts: thaw report a.thaw");
        scratch.thaw(["heap", verb, "text"]).exits(5).complains("directories").hints("thaw heap run");
        scratch.thaw(["heap", verb, "missing"]).exits(2).complains("No such file").hints("thaw heap run");
    }
}

#[test]
fn a_recording_of_nothing_or_without_its_end_says_so_in_every_answer() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    scratch.thaw(["heap", "run", "--", "ls"]).exits(0).says_not("did not end");
    let head = scratch.path("thaw.heap/recording.json");
    let text = std::fs::read_to_string(&head).unwrap();
    std::fs::write(&head, text.replace("\"finished\": true", "\"finished\": false")).unwrap();
    for verb in ["report", "slop", "growth"] {
        scratch.thaw(["heap", verb]).exits(0).says("recording did not end").says_not("no process was recorded");
    }
    for file in scratch.names("thaw.heap").iter().filter(|name| name.ends_with(".events")) {
        std::fs::remove_file(scratch.path("thaw.heap").join(file)).unwrap();
    }
    for verb in ["report", "slop", "growth"] {
        scratch.thaw(["heap", verb]).exits(0).says("no process was recorded");
    }
    scratch.thaw(["heap", "slop", "--lines"]).exits(0).complains("no process was recorded");
}

#[test]
fn many_processes_are_counted() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do /bin/echo; done";
    scratch.thaw(["heap", "run", "--", "sh", "-c", script]).exits(0).says("that allocated less (--json)");
    scratch.thaw(["heap", "report"]).exits(0).says("that allocated less (--json)");
}

#[test]
fn small_processes_of_a_tree_are_one_line() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("large.c", "#include <stdlib.h>\nint main(void) { free(malloc(100 << 20)); return 0; }\n");
    let (program, source) = (scratch.path("large"), scratch.path("large.c"));
    if !testing::compiled(Command::new("cc").args(["-O0", "-o"]).arg(&program).arg(&source)) {
        return;
    }
    let script = format!("/bin/echo; /bin/echo; {}", program.display());
    let said = scratch.thaw(["heap", "run", "--", "sh", "-c", &script]).exits(0);
    let rows = said.out().lines().filter(|line| line.contains("/bin/echo") || line.contains("dash")).count();
    assert_eq!(rows, 0, "{}", said.out());
    said.says("large").says("processes that allocated less (--json): ");
}

#[test]
fn without_its_guest_thaw_says_how_to_get_it() {
    let scratch = Scratch::new();
    let mut command = scratch.command();
    command.args(["heap", "run", "--", "true"]).env("THAW_HEAP_AGENT", "/nowhere/libthaw_heap.so");
    Said::of(command).exits(3).complains("/nowhere/libthaw_heap.so").hints("dev/agent");
    scratch.write("file", "text");
    scratch.thaw(["heap", "run", "--depth", "500", "--", "true"]).exits(2).complains("--depth");
}

#[test]
fn a_guest_of_another_thaw_is_refused() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let own = std::fs::read(target.join("agent/libthaw_heap.so")).unwrap();
    let note = own.windows(8).position(|bytes| bytes == b"thaw\0\0\0\0").unwrap();
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    assert!(own[note + 16..].starts_with(version));
    let run = |guest: &std::path::Path| {
        let mut command = scratch.command();
        command.args(["heap", "run", "--", "true"]).env("THAW_HEAP_AGENT", guest);
        Said::of(command)
    };
    run(&scratch.write("same.so", &own)).exits(0);
    let mut other = own.clone();
    other[note + 16] = b'9';
    run(&scratch.write("other.so", &other))
        .exits(3)
        .complains("of another thaw")
        .complains("it is 9.")
        .hints("together");
    // The same version, but other streams.
    let mut other = own.clone();
    other[note + 8] += 1;
    run(&scratch.write("later.so", &other)).exits(3).complains("of another thaw");
    let mut command = scratch.command();
    command.args(["--version", "--verbose"]).env("THAW_HEAP_AGENT", scratch.path("other.so"));
    Said::of(command).exits(0).says("commit: ").says("other.so, guest 9.");
    let mut none = own;
    none[note] = b'T';
    run(&scratch.write("none.so", &none)).exits(3).complains("does not say").hints("together");
    run(std::path::Path::new("/dev/zero")).exits(3).complains("no file of a library");
}

#[test]
fn a_recording_is_finished_at_its_end_or_later() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let small = scratch.thaw(["heap", "run", "--json", "-o", "small.heap", "--", "true"]).exits(0).json();
    assert_eq!(small["time_resolution_ns"], 100_000);
    let files = |name: &str, extension: &str| {
        let entries = std::fs::read_dir(scratch.path(name)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|other| other == extension)).count()
    };
    assert_eq!((files("small.heap", "stream"), files("small.heap", "events")), (0, 1));
    scratch.thaw(["heap", "finish", "small.heap"]).exits(0).says("finished already");

    let raw = scratch.thaw(["heap", "run", "--raw", "--json", "--", "true"]).exits(0).json();
    assert_eq!(raw["time_resolution_ns"], 0);
    assert_eq!((files("thaw.heap", "stream"), files("thaw.heap", "events")), (1, 0));
    let before = scratch.thaw(["heap", "report", "--json"]).exits(0).json();
    let done = scratch.thaw(["heap", "finish", "--json"]).exits(0).json();
    assert_eq!((done["schema"].as_str(), done["streams"].as_u64()), (Some("thaw.heap-finish/1"), Some(1)));
    assert!(done["after_bytes"].as_u64().unwrap() * 4 < done["before_bytes"].as_u64().unwrap(), "{done}");
    let after = scratch.thaw(["heap", "report", "--json"]).exits(0).json();
    assert_eq!(before["total"]["made"], after["total"]["made"]);
    scratch.thaw(["heap", "finish", "no-such.heap"]).exits(2);

    let events = std::fs::read_dir(scratch.path("thaw.heap")).unwrap().map(|entry| entry.unwrap().path());
    let events = events.into_iter().find(|path| path.extension().is_some_and(|other| other == "events")).unwrap();
    let mut bytes = std::fs::read(&events).unwrap();
    let place = bytes.len() - 60;
    bytes[place] ^= 1;
    std::fs::write(&events, bytes).unwrap();
    scratch
        .thaw(["heap", "report"])
        .exits(5)
        .complains("is damaged")
        .complains(events.file_name().unwrap().to_str().unwrap());
}

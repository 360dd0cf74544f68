//! What a Rust program writes with `embed/events`, run as a program of its own.

use std::process::Command;
use timeline::{Phase, intervals, parse};

/// The example of the crate, where cargo built it.
fn example() -> Option<std::path::PathBuf> {
    let built = std::env::current_exe().unwrap().parent()?.parent()?.join("examples/handover");
    if !built.exists() {
        testing::skip("needs the example handover of embed/events: cargo build --examples -p thawlab-events");
        return None;
    }
    Some(built)
}

#[test]
fn a_rust_program_writes_the_same_format() {
    let Some(program) = example() else { return };
    for (options, times) in [("", 1000), (",ring=128K", 100_000), (",grow=64M", 100_000), (",filter=pool::*", 10)] {
        let events = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.arg(times.to_string()).env("THAW_EVENTS", format!("{}{options}", events.path().display()));
        assert!(command.status().unwrap().success());
        let path = std::fs::read_dir(events.path()).unwrap().next().unwrap().unwrap().path();
        let trace = parse(&std::fs::read(path).unwrap(), None).unwrap();
        let count = trace.events.len() as u64 + trace.lost.events + trace.lost.overwritten;
        assert_eq!((count, trace.damage.len()), (3 * times + 1, 0), "{options}: {:?}", trace.lost);
        assert!(trace.threads.iter().any(|thread| thread.name == "worker"), "{:?}", trace.threads);
        if trace.lost.overwritten == 0 {
            assert_eq!((trace.events[0].phase, trace.events[0].text.as_deref()), (Phase::Name, Some("the first job")));
            let (objects, all) = intervals(&trace);
            assert!(all.iter().all(|one| one.wait <= one.exec && one.done.is_some()), "none before its hand-over");
            assert_eq!((objects.len() as u64, all.len() as u64), (times, times));
        }
    }
}

#[test]
fn a_rust_program_without_events_is_what_it_was() {
    let Some(program) = example() else { return };
    let told = |command: &mut Command| command.arg("10").status().unwrap().success();
    assert!(told(Command::new(&program).env_remove("THAW_EVENTS")));
    assert!(told(Command::new(&program).env("THAW_EVENTS", "/nonexistent")));
}

//! What a Rust program writes with `embed/events`, run as a program of its own.

use std::process::Command;
use timeline::{Interval, Phase, Trace, intervals, parse};

/// An example of a crate, where cargo built it.
fn example(name: &str, of: &str) -> Option<std::path::PathBuf> {
    let built = std::env::current_exe().unwrap().parent()?.parent()?.join("examples").join(name);
    if !built.exists() {
        testing::skip(&format!("needs the example {name}: cargo build --examples -p {of}"));
        return None;
    }
    Some(built)
}

#[test]
fn a_rust_program_writes_the_same_format() {
    let Some(program) = example("handover", "thawlab-events") else { return };
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
    let Some(program) = example("handover", "thawlab-events") else { return };
    let told = |command: &mut Command| command.arg("10").status().unwrap().success();
    assert!(told(Command::new(&program).env_remove("THAW_EVENTS")));
    assert!(told(Command::new(&program).env("THAW_EVENTS", "/nonexistent")));
}

/// What the example of the layer for `tracing` leaves.
fn spans(options: &str) -> Option<Trace> {
    let program = example("spans", "thawlab-events-tracing")?;
    let events = tempfile::tempdir().unwrap();
    let said = format!("{}{options}", events.path().display());
    assert!(Command::new(program).env("THAW_EVENTS", said).status().unwrap().success());
    let path = std::fs::read_dir(events.path()).unwrap().next().unwrap().unwrap().path();
    Some(parse(&std::fs::read(path).unwrap(), None).unwrap())
}

#[test]
fn spans_of_the_crate_tracing_are_objects() {
    let Some(trace) = spans("") else { return };
    assert_eq!((trace.damage.len(), trace.lost.events), (0, 0));
    let (objects, all) = intervals(&trace);
    let of = |name: &str| {
        let is_it = |one: &&Interval| trace.type_name(one.type_id).ends_with(name);
        all.iter().filter(is_it).collect::<Vec<_>>()
    };
    let (connect, read) = (of("::connect"), of("::read"));
    assert_eq!((connect.len(), read.len(), of("::request").len()), (1, 2, 1));
    assert_eq!(objects.name(connect[0].object), Some("connect port=80"));
    assert!(connect[0].wait.is_some() && connect[0].exec.is_some() && connect[0].done.is_some());
    assert_eq!((read[0].wait.is_some(), read[1].wait.is_some()), (true, false), "a poll after the first did not wait");
    let of_type = trace.types.values().find(|of| of.name.ends_with("::connect")).unwrap();
    assert!(of_type.name.starts_with("spans::") && of_type.file.ends_with("spans.rs") && of_type.line > 0);
    let links: Vec<_> = trace.events.iter().filter(|event| event.phase == Phase::Link).collect();
    let (request, first) = (links[0].object, links[0].other.unwrap());
    assert_eq!((links.len(), links[1].object), (2, first), "what follows is linked to what it follows from");
    assert_ne!(request, first);
    let texts: Vec<_> = trace
        .events
        .iter()
        .filter(|event| event.phase == Phase::Arg)
        .map(|event| event.text.as_deref().unwrap())
        .collect();
    assert_eq!(texts, ["message=sent", "bytes=7", "status=200", "message=outside"]);
    let count = |phase| trace.events.iter().filter(|event| event.phase == phase).count();
    assert_eq!((count(Phase::Mark), count(Phase::Free)), (2, 3));
}

#[test]
fn spans_are_filtered_by_their_targets() {
    let Some(trace) = spans(",filter=spans::connect") else { return };
    let names: Vec<_> =
        trace.events.iter().filter_map(|event| event.type_id).map(|id| trace.type_name(Some(id))).collect();
    assert!(!names.is_empty() && names.iter().all(|name| *name == "spans::connect"), "{names:?}");
}

//! What resident memory consists of, of a program in which each kind has a size that is known.

use crate::heap::guest;
use crate::scratch::{Mortal, Scratch, root};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const MB: u64 = 1 << 20;

/// Bytes of a kind, and of those of its places that have this function or name.
fn of(process: &Value, kind: &str, name: &str) -> (u64, u64) {
    let parts = process["parts"].as_array().unwrap().iter();
    let Some(part) = parts.clone().find(|part| part["kind"] == kind) else { panic!("no {kind}: {process}") };
    let is_it =
        |of: &&Value| of["name"].as_str().is_some_and(|it| it.contains(name)) || of["frames"][0]["function"] == name;
    let all = part["of"].as_array().unwrap().iter();
    let bytes = all.filter(|of| !name.is_empty() && is_it(of)).map(|of| of["bytes"].as_u64().unwrap()).sum();
    (part["bytes"].as_u64().unwrap(), bytes)
}

#[test]
fn memory_is_told_by_who_made_it_and_pages_that_are_not_there_do_not_count() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("resident");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-w", "-fno-builtin", "-fno-optimize-sibling-calls", "-o"]).arg(&program);
    if !testing::compiled(compiler.arg(root().join("fixtures/heap/resident.c")).arg("-lpthread")) {
        return;
    }
    let mut command = scratch.command();
    command.args(["heap", "run", "-o", "memory.heap", "--"]).arg(&program).stderr(Stdio::null());
    let mut recorder = Mortal(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(recorder.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let document = scratch.thaw(["heap", "resident", "memory.heap", "--json"]).exits(0).json();
    let [process] = document["processes"].as_array().unwrap().as_slice() else { panic!("one process: {document}") };
    let (_, held) = of(process, "blocks", "holder");
    // The last page is there whole.
    assert!((15 * MB..15 * MB + 4096).contains(&held), "{held}");
    assert_eq!(of(process, "mapped", "mapper").1, 10 * MB);
    assert_eq!(of(process, "shared", "sharer").1, 4 * MB);
    assert_eq!(of(process, "blocks", "freer").1, 2000 * 1000);
    // What was freed is the allocator's, with the headers of what was not.
    let (allocator, _) = of(process, "allocator", "");
    assert!((2000 * 1000..2000 * 1000 + 600_000).contains(&allocator), "{allocator}");
    let (_, variables) = of(process, "files", "/resident");
    assert!((2 * MB..2 * MB + 200_000).contains(&variables), "{variables}");
    let (_, stack) = of(process, "stacks", "other threads'");
    assert!((MB..MB + 100_000).contains(&stack), "{stack}");
    let number = |name: &str| process[name].as_u64().unwrap();
    let parts: u64 = process["parts"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(parts, number("rss_bytes"), "each byte has one owner");
    assert!(number("explained_bytes") * 100 >= number("rss_bytes") * 95, "{process}");
    let said = scratch.thaw(["heap", "resident", "memory.heap", "--top", "1"]).exits(0).out();
    for part in ["live blocks", "holder < main", "of it explained"] {
        assert!(said.contains(part), "{said}");
    }
    scratch.thaw(["heap", "resident", "memory.heap", "--process", "1"]).exits(2).complains("has this number");

    drop(recorder.0.stdin.take());
    recorder.0.wait().unwrap();
    scratch.thaw(["heap", "resident", "memory.heap"]).exits(2).complains("cannot look at the memory of");
    scratch.thaw(["heap", "run", "--aggregate", "-o", "sums.heap", "--", "true"]).exits(0);
    scratch.thaw(["heap", "resident", "sums.heap"]).exits(2);
}

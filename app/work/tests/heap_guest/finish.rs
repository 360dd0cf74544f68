//! Finished recordings of real programs answer every question as their streams do.

use super::{Bench, words};
use heap::export::{Export, Format};
use heap::modes::{Measure, Window};
use heap::named::{Cut, Filter, Named, Wrappers};
use heap::{growth, report, slop};
use heapfile::reader::Reader;
use heaprec::finish::{self, QUANTUM};
use heaprec::record;
use heaprec::record::Existing;
use serde_json::{Value, json};
use std::path::Path;
use work::heaps::conclude::{Early, Streams, conclude};

/// All answers that are made of numbers.
fn answers(directory: &Path) -> Value {
    let reader = Reader::open(directory).unwrap();
    let named = |split| Named::read(&reader, Window::default(), split, &Filter::default()).unwrap();
    let by_stack = named(Format::Dhat.split());
    let whole = Cut { frames: 64, wrappers: Wrappers::Kept };
    let rows = |measure| serde_json::to_value(by_stack.rows(measure, whole, 0)).unwrap();
    let measures = [Measure::Made, Measure::End, Measure::Peak, Measure::Temporary].map(rows);
    let heaps = by_stack.heaps.iter().map(|heap| format!("{:?} {:?} {:?}", heap.peak, heap.threads, heap.warnings));
    json!({
        "report": report::report(&reader).unwrap(),
        "slop": sorted(slop::report(&reader, &slop::Options { model: None, frames: 4, top: usize::MAX }).unwrap()),
        "growth": sorted(growth::report(&reader, &growth::Options { frames: 4, top: usize::MAX }).unwrap()),
        "rows": measures,
        "total": by_stack.total(),
        "heaps": heaps.collect::<Vec<_>>(),
        "logalloc": exported(&reader, &by_stack, Format::LogAlloc),
        "dmd": exported(&reader, &named(Format::Dmd.split()), Format::Dmd),
    })
}

/// Rows that are equally large come in any order.
fn sorted(report: impl serde::Serialize) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(sort),
            Value::Array(rows) => {
                rows.iter_mut().for_each(sort);
                rows.sort_by_key(|row| row.to_string());
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(report).unwrap();
    sort(&mut value);
    value
}

fn exported(reader: &Reader, named: &Named, format: Format) -> Value {
    let file = tempfile::NamedTempFile::new().unwrap();
    Export { reader, named, measure: Measure::Made, window: Window::default() }
        .write(format, file.path(), Existing::Replace)
        .unwrap();
    String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).into_owned().into()
}

/// The same, but for times, which are the same to the resolution; `blocks` is how many of them a sum of times may have.
fn assert_same(path: &str, exact: &Value, finished: &Value, blocks: u64) {
    match (exact, finished) {
        (Value::Object(exact), Value::Object(finished)) => {
            assert_eq!(exact.keys().collect::<Vec<_>>(), finished.keys().collect::<Vec<_>>(), "{path}");
            let blocks = exact.get("made").and_then(|made| made["blocks"].as_u64()).unwrap_or(blocks);
            exact.iter().for_each(|(key, value)| assert_same(&format!("{path}.{key}"), value, &finished[key], blocks));
        }
        (Value::Array(exact), Value::Array(finished)) => {
            assert_eq!(exact.len(), finished.len(), "{path}");
            exact.iter().zip(finished).for_each(|(exact, finished)| assert_same(path, exact, finished, blocks));
        }
        _ if path.ends_with("_ns") => {
            let (exact, finished) = (exact.as_u64().unwrap(), finished.as_u64().unwrap());
            assert!(exact.abs_diff(finished) <= 2 * QUANTUM.0 * blocks.max(1), "{path}: {exact} {finished}");
        }
        _ => assert_eq!(exact, finished, "{path}"),
    }
}

#[test]
fn a_finished_recording_answers_as_its_streams_do() {
    let Some(bench) = Bench::new() else { return };
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("corrections", &[], &["kill"]),
        ("race", &[], &["5000"]),
        ("tree", &[], &[]),
        ("hard", &[], &["threads"]),
        ("modes", &[], &[]),
        ("pool", &["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/../../inject/heap-agent/include")], &[]),
    ];
    for (name, flags, arguments) in cases {
        let program = bench.compile(name, flags);
        for frees in [record::FreeStacks::Without, record::FreeStacks::With] {
            let command = words(&program, []).into_iter().chain(arguments.iter().map(Into::into)).collect();
            let plan = record::Plan { frees, ..bench.plan(command) };
            record::run(&plan, "test", &mut |_| {}).unwrap();
            let exact = answers(&plan.output);
            let done = finish::finish(&plan.output, &mut |_| {}).unwrap();
            assert!(done.streams > 0 && done.after < done.before, "{name}: {done:?}");
            assert_same(name, &exact, &answers(&plan.output), 1);
        }
    }
}

/// The streams of a recording, without what was made of them.
fn streams_of(recording: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(recording).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() != Some("events".as_ref()) {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn finishing_while_the_program_runs_gives_what_finishing_in_the_end_gives() {
    let Some(bench) = Bench::new() else { return };
    let compiled = |name| bench.compile(name, &[]).into_string().unwrap();
    let [churn, race, tree] = ["churn", "race", "tree"].map(compiled);
    for (number, script) in [
        // Threads in several processes, one after the other and at once; one that ends while others go on.
        format!("{race} 2000; {churn} 4 1000 & {churn} 1 1000; wait"),
        format!("{tree}; {churn} 4 1000; {race} 2000"),
        format!("{churn} 2 3000"),
    ]
    .into_iter()
    .enumerate()
    {
        let output = bench.path(&format!("{number}.heap"));
        // The program goes on until one of its processes that have ended is finished.
        let wait = format!("until set -- {}/*.events; [ -e \"$1\" ]; do sleep 0.3; done", output.display());
        let command = ["sh", "-c", &format!("{script}; {wait}")].map(Into::into).to_vec();
        let plan = record::Plan { output, ..bench.plan(command) };
        let mut early = Early::new();
        record::run_ahead(&plan, "test", Some(&mut early.ahead), &mut |_| {}).unwrap();
        let there = bench.path(&format!("{number}.there"));
        streams_of(&plan.output, &there);
        let exact = answers(&there);
        let done = conclude(&Reader::open(&plan.output).unwrap(), Streams::Finish(early), &mut |_| {}).unwrap();
        let counts = done.finished.unwrap();
        assert!(done.failed.is_none() && counts.ahead > 0, "{script}: {:?} {counts:?}", done.failed);
        assert_eq!(counts.streams as usize, done.report.processes.len(), "{script}");
        let finished = answers(&plan.output);
        assert_same(&script, &exact, &finished, 1);
        // What was said of them on the way, but for the names.
        let mut said = serde_json::to_value(&done.report).unwrap();
        said["processes"].as_array_mut().unwrap().iter_mut().for_each(|process| process["leaks"] = Value::Null);
        let mut exact = exact["report"].clone();
        exact["processes"].as_array_mut().unwrap().iter_mut().for_each(|process| process["leaks"] = Value::Null);
        assert_same(&script, &exact, &said, 1);
        assert_eq!(finish::finish(&there, &mut |_| {}).unwrap().events, counts.events, "{script}");
    }
}

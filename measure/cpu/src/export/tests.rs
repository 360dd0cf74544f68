//! Tests: exports of a drawn start, read as their formats say.

use super::*;
use crate::drawn::{self, ms};
use crate::flames::flames;
use model::Nanos;
use serde_json::Value;
use std::io::Read;
use wire::Fields;

const ABOUT: About<'_> = About { name: "main", started_unix_ns: 1_700_000_000_000_000_000 };

/// 10 ms: the first thread runs 3, makes a worker, waits 5 for it, runs 2 more.
fn start() -> Trace {
    let mut trace = drawn::trace(2, &["main|RRRRLLLLRR", "work|   RRRRRzz", "@3 main * work", "@8 work > main"]);
    let named = |name: &str| crate::Frame {
        function: Some(name.into()),
        object: "/bin/main".into(),
        source: Some("a;b.c:7".into()),
        ..crate::Frame::default()
    };
    let [parse, run] = ["parse;x\n", "run"].map(|name| trace.stacks.frame(named(name)));
    let stacks = [trace.stacks.stack(&[parse, run]), trace.stacks.stack(&[run])];
    for (at, tid, stack) in [(1, 10, 0), (2, 10, 1), (5, 11, 1), (6, 11, 0), (9, 10, 0)] {
        trace.samples.push(Sample { at: ms(at), tid, in_kernel: false, stack: stacks[stack] });
    }
    trace.samples.push(Sample { at: trace.ready + Nanos(1), tid: 10, in_kernel: false, stack: stacks[0] });
    trace
}

fn written(format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    export(&start(), &ABOUT, format, &mut out).unwrap();
    out
}

#[test]
fn folded_lines_have_the_thread_first_and_nanoseconds_last() {
    let text = String::from_utf8(written(Format::Folded)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        ["main;run 1000000", "main;run;parse:x  2000000", "work;run 1000000", "work;run;parse:x  1000000"]
    );
}

#[test]
fn speedscope_has_a_profile_for_each_thread() {
    let value: Value = serde_json::from_slice(&written(Format::Speedscope)).unwrap();
    let frames = value["shared"]["frames"].as_array().unwrap();
    let profiles = value["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 2);
    for profile in profiles {
        let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!(samples.len(), weights.len());
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
        let numbers = samples.iter().flat_map(|stack| stack.as_array().unwrap());
        assert!(numbers.into_iter().all(|number| (number.as_u64().unwrap() as usize) < frames.len()));
    }
    let first = profiles[0]["samples"][0].as_array().unwrap();
    let names: Vec<&str> =
        first.iter().map(|number| frames[number.as_u64().unwrap() as usize]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["run", "parse;x\n"], "outermost first");
    assert_eq!(profiles[0]["name"], "main (10)");
    assert!(frames.iter().any(|frame| frame["file"] == "a;b.c" && frame["line"].is_null()), "{frames:?}");
}

#[test]
fn a_profile_of_firefox_has_samples_waits_and_the_path() {
    let value: Value = serde_json::from_slice(&written(Format::Firefox)).unwrap();
    let threads = value["threads"].as_array().unwrap();
    let names: Vec<&str> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    let count = |name: &str, table: &str| {
        let thread = threads.iter().find(|thread| thread["name"] == name).unwrap();
        thread[table]["length"].as_u64().unwrap()
    };
    assert!(names.contains(&"main") && names.contains(&"work"), "{names:?}");
    assert_eq!((count("main", "samples"), count("work", "samples")), (3, 2));
    assert_eq!((count("main", "markers"), count("work", "markers")), (1, 1), "a lock, a sleep");
    assert!(count("the critical path", "markers") >= 3);
}

/// Numbers of a packed field.
fn varints(mut bytes: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (mut number, mut shift) = (0_u64, 0);
        while let [byte, rest @ ..] = bytes {
            bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        found.push(number);
    }
    found
}

#[test]
fn a_profile_of_pprof_has_the_sums_of_the_flames() {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&written(Format::Pprof)[..]).read_to_end(&mut bytes).unwrap();
    let fields: Vec<_> = Fields::of(&bytes).collect();
    let texts: Vec<String> = fields.iter().filter(|(field, _)| *field == 6).map(|(_, text)| text.text()).collect();
    assert_eq!(texts[0], "");
    let types = fields.iter().filter(|(field, _)| *field == 1).map(|(_, of)| {
        let (_, name) = Fields::of(of.bytes()).find(|(field, _)| *field == 1).unwrap();
        texts[name.number() as usize].as_str()
    });
    assert_eq!(types.collect::<Vec<_>>(), ["cpu", "path_cpu", "path_wait", "wait"]);
    let locations = fields.iter().filter(|(field, _)| *field == 4).count() as u64;
    let mut sums = [0; 4];
    for (_, sample) in fields.iter().filter(|(field, _)| *field == 2) {
        let part = |wanted: u64| Fields::of(sample.bytes()).find(|(field, _)| *field == wanted).unwrap().1.bytes();
        assert!(varints(part(1)).iter().all(|location| (1..=locations).contains(location)));
        for (sum, value) in sums.iter_mut().zip(varints(part(2))) {
            *sum += value;
        }
    }
    let flames = flames(&start());
    let sum = |times: &[u64]| times.iter().sum::<u64>();
    let wanted = [&flames.ran_ns, &flames.path_ran_ns, &flames.path_waited_ns, &flames.waited_ns].map(|all| sum(all));
    assert_eq!(sums, wanted);
    assert!(sums[0] > 0 && sums[1] > 0 && sums[3] > 0);
}

#[test]
fn a_trace_of_perfetto_has_switches_by_cpu_and_slices_that_end() {
    let bytes = written(Format::Perfetto);
    let mut fields = Fields::of(&bytes);
    let packets: Vec<_> = fields.by_ref().map(|(_, packet)| packet.bytes()).collect();
    assert_eq!(fields.rest(), 0);
    let parts = |wanted: u64| {
        packets.iter().flat_map(move |packet| Fields::of(packet).filter(move |(field, _)| *field == wanted))
    };
    let mut switches = 0;
    for (_, bundle) in parts(1) {
        let events = Fields::of(bundle.bytes()).filter(|(field, _)| *field == 2);
        let mut last = 0;
        for (_, event) in events {
            let (_, at) = Fields::of(event.bytes()).find(|(field, _)| *field == 1).unwrap();
            assert!(at.number() >= last, "events of a CPU are in order");
            last = at.number();
            switches += Fields::of(event.bytes()).filter(|(field, _)| *field == 4).count();
        }
    }
    assert_eq!(switches, start().switches.len());
    let kinds: Vec<u64> = parts(11)
        .map(|(_, event)| Fields::of(event.bytes()).find(|(field, _)| *field == 9).unwrap().1.number())
        .collect();
    assert!(kinds.len() >= 6 && kinds.chunks(2).all(|pair| pair == [1, 2]), "{kinds:?}");
    let threads = parts(2).flat_map(|(_, tree)| Fields::of(tree.bytes()).filter(|(field, _)| *field == 2));
    assert_eq!(threads.count(), 2);
}

#[test]
fn nothing_can_be_written_in_all_formats() {
    for format in [Format::Folded, Format::Speedscope, Format::Firefox, Format::Pprof, Format::Perfetto] {
        let mut out = Vec::new();
        export(&Trace::default(), &ABOUT, format, &mut out).unwrap();
    }
}

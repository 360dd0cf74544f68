//! Tests: whole reports.

use super::*;
use crate::drawn::{self, ms};
use crate::simulated::{self, Op};
use crate::trace::Sample;
use proptest::prelude::*;

const LINES: &[&str] = &[
    "main   |RRRRLLLLLRR.RR",
    "worker |  RRRRRRR..R..",
    "~stress|.........RRRRR",
    "@2 main * worker",
    "@9 worker > main",
];

fn report() -> Report {
    // Stress takes the CPU that worker had: from 11 on worker takes that of main.
    let mut trace = drawn::trace(2, LINES);
    trace.cannot.push("a sentence".into());
    trace.samples.push(Sample { at: ms(3), tid: 10, in_kernel: false, stack: None });
    analyze(&trace, 100)
}

#[test]
fn a_report_says_who_owns_what() {
    let report = report();
    assert_eq!((report.version, report.ready_ns, report.lost), (Report::VERSION, 14_000_000, 0));
    assert_eq!(report.explained_share, 1.0);
    assert_eq!(report.cannot, ["a sentence"]);
    let text = "waits for a CPU 1.0 ms, which its own thread 'worker' took";
    assert!(report.owners.iter().any(|owner| owner.text == text), "{:?}", report.owners);
    let texts: Vec<&str> = report.links.iter().map(|row| &row.text[..]).collect();
    assert_eq!(
        texts,
        [
            "thread 'main' waits 5.0 ms for a lock that thread 'worker' holds",
            "thread 'worker' is made by thread 'main'",
        ]
    );
    let steps: Vec<(u64, u32, LaneState)> =
        report.steps.iter().map(|step| (step.to_ns / 1_000_000, step.tid, step.state)).collect();
    let runs = LaneState::Runs;
    assert_eq!(steps, [(2, 10, runs), (9, 11, runs), (11, 10, runs), (12, 10, LaneState::LacksCpu), (14, 10, runs)]);
    let names: Vec<&str> = report.threads.iter().map(|lane| &lane.thread.name[..]).collect();
    assert_eq!(names, ["main", "worker"], "who is neither of the tree nor on the path has no lane");
    for lane in &report.threads {
        let sum: u64 = lane.pieces.iter().map(|piece| piece.to_ns - piece.from_ns).sum();
        assert_eq!(sum, lane.ran_ns + lane.lacked_cpu_ns + lane.waited_ns + lane.unknown_ns);
    }
    assert_eq!((report.threads[0].waited_ns, report.threads[0].path_ns), (5_000_000, 7_000_000));
}

#[test]
fn what_runs_beside_the_path_is_told_apart() {
    let report = report();
    let rows: Vec<(&str, u64, u64, u64)> = report
        .off_path
        .iter()
        .map(|row| (&row.thread.name[..], row.ran_ns / 1_000_000, row.samples, row.competes_ns / 1_000_000))
        .collect();
    assert_eq!(rows, [("main", 2, 1, 0), ("worker", 1, 0, 1)]);
    assert_eq!(report.competes_ns, 1_000_000, "worker took the CPU from main for a millisecond");
}

#[test]
fn samples_alone_still_say_how_long_threads_ran() {
    let mut trace = drawn::trace(2, &["main|RRRR", "aside|RRRR"]);
    trace.switches.clear();
    let sample = |at, tid| Sample { at: ms(at), tid, in_kernel: false, stack: None };
    trace.samples = vec![sample(1, 10), sample(1, 11), sample(2, 11), sample(3, 11)];
    let report = analyze(&trace, 10);
    assert_eq!(report.explained_share, 0.25, "of the thread that is followed");
    let [row] = &report.off_path[..] else { panic!("{report:?}") };
    assert_eq!((&row.thread.name[..], row.ran_ns, row.confidence), ("aside", 3_000_000, Confidence::Sampled));
}

#[test]
fn a_condition_is_told_from_a_lock() {
    let mut trace = drawn::trace(2, &["a|RRLLRR", "b|RRRRRR", "@4 b > a"]);
    let mut frames = vec![crate::trace::Frame { function: Some("pthread_cond_wait".into()), ..Default::default() }];
    frames.splice(0..0, trace.stacks.walk(trace.switches[0].stack).cloned().collect::<Vec<_>>());
    let numbers: Vec<_> = frames.into_iter().map(|frame| trace.stacks.frame(frame)).collect();
    trace.switches[0].stack = trace.stacks.stack(&numbers);
    assert_eq!(analyze(&trace, 9).links[0].text, "thread 'a' waits 2.0 ms for a condition that thread 'b' tells");
}

#[test]
fn an_empty_trace_has_a_report() {
    let report = analyze(&Trace::default(), 0);
    assert_eq!((report.explained_share, report.owners.len(), report.steps.len()), (1.0, 0, 0));
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u64..9).prop_map(Op::Work),
        1 => (1u64..9).prop_map(Op::Sleep),
        1 => (0usize..2).prop_map(Op::Lock),
        1 => (0usize..2).prop_map(Op::Unlock),
        1 => (1usize..4).prop_map(Op::Make),
    ]
}

proptest! {
    #[test]
    fn the_same_trace_gives_the_same_report(
        tree in prop::collection::vec(prop::collection::vec(op(), 1..20), 1..5),
        at in prop::collection::vec((0u64..300, 0u32..5), 0..30), most in 0usize..20,
    ) {
        let mut trace = simulated::run(2, 5, &tree, &[], 300).trace;
        trace.samples.extend(at.iter().map(|(at, tid)| {
            Sample { at: Nanos(*at), tid: 10 + tid, in_kernel: at % 2 == 0, stack: None }
        }));
        trace.samples.sort_by_key(|sample| sample.at);
        let report = analyze(&trace, most);
        prop_assert_eq!(&analyze(&trace, most), &report);
        prop_assert_eq!(report.owners.iter().map(|owner| owner.ns).sum::<u64>(), report.ready_ns);
        let unknown: u64 = report.unexplained.iter().map(|row| row.ns).sum();
        let explained = report.explained_share * report.ready_ns as f64;
        prop_assert!((explained + unknown as f64 - report.ready_ns as f64).abs() < 1e-6);
        // What ran on the path and beside it is all that ran.
        let on_path: u64 = report.steps.iter().filter(|step| step.state == LaneState::Runs)
            .map(|step| step.to_ns - step.from_ns).sum();
        let beside: u64 = report.off_path.iter().map(|row| row.ran_ns).sum();
        if !trace.switches.is_empty() {
            prop_assert_eq!(on_path + beside, report.threads.iter().map(|lane| lane.ran_ns).sum::<u64>());
        }
    }
}

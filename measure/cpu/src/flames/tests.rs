//! Tests: flames of drawn traces, as lines `thread;outer;inner`, and of simulated ones by their sums.

use super::*;
use crate::analyze::analyze;
use crate::drawn::{self, ms};
use crate::report::Does;
use crate::simulated::{self, Op};
use crate::trace::{Frame, Sample};
use proptest::prelude::*;

/// Innermost first, of one object.
fn stack(trace: &mut Trace, functions: &[&str]) -> Option<StackId> {
    let frame = |name: &&str| Frame {
        function: Some((*name).into()),
        object: "/bin/app".into(),
        source: Some(format!("{name}.c:{}", name.len())),
        ..Frame::default()
    };
    let frames: Vec<_> = functions.iter().map(|name| trace.stacks.frame(frame(name))).collect();
    trace.stacks.stack(&frames)
}

/// Milliseconds by stack.
fn lines(flames: &Flames, times: &[u64]) -> Vec<String> {
    let line = |(node, ns): (usize, &u64)| {
        let mut words: Vec<&str> = flames.walk(node as u32).collect();
        words.reverse();
        format!("{} {}", words.join(";"), *ns as f64 / 1e6)
    };
    let mut found: Vec<String> = times.iter().enumerate().filter(|(_, ns)| **ns > 0).map(line).collect();
    found.sort();
    found
}

fn sampled() -> Trace {
    let mut trace = drawn::trace(2, &["main|RRRRLLLLRR", "work|   RRRRRzz", "@3 main * work", "@8 work > main"]);
    let parse = stack(&mut trace, &["parse", "main"]);
    let run = stack(&mut trace, &["main"]);
    let deep = stack(&mut trace, &["deep", "work", "start"]);
    for (at, tid, stack) in [(1, 10, parse), (3, 10, run), (9, 10, parse), (4, 11, deep), (6, 11, deep)] {
        trace.samples.push(Sample { at: ms(at), tid, in_kernel: false, stack });
    }
    trace.samples.sort_by_key(|sample| sample.at);
    trace
}

#[test]
fn time_lies_on_the_stacks_that_samples_saw_and_on_those_of_waits() {
    let flames = flames(&sampled());
    assert_eq!(lines(&flames, &flames.path_ran_ns), ["main;main 1", "main;main;parse 4", "work;start;work;deep 5"]);
    assert_eq!(lines(&flames, &flames.ran_ns), ["main;main 2", "main;main;parse 4", "work;start;work;deep 5"]);
    let lock = "main;entry_SYSCALL_64_after_hwframe;__x64_sys_futex;__futex_wait;futex_do_wait;schedule 4";
    assert_eq!(lines(&flames, &flames.waited_ns)[0], lock);
    assert!(flames.path_waited_ns.iter().all(|ns| *ns == 0), "the path goes over to whom it waits for");
    let parse = flames.frames.iter().find(|frame| frame.function == "parse").unwrap();
    assert_eq!((parse.object.as_str(), parse.source.as_deref()), ("/bin/app", Some("parse.c")));
}

#[test]
fn a_function_is_one_whatever_its_line() {
    let mut trace = drawn::trace(1, &["main|RRRRzz"]);
    for (at, line) in [(1, 3), (3, 9)] {
        let source = Some(format!("main.c:{line}"));
        let frame = Frame { function: Some("main".into()), object: "/bin/app".into(), source, ..Frame::default() };
        let frame = trace.stacks.frame(frame);
        let stack = trace.stacks.stack(&[frame]);
        trace.samples.push(Sample { at: ms(at), tid: 10, in_kernel: false, stack });
    }
    let flames = flames(&trace);
    assert_eq!(flames.frames.iter().filter(|frame| frame.object == "/bin/app").count(), 1);
    assert_eq!(lines(&flames, &flames.ran_ns), ["main;main 4"]);
}

#[test]
fn without_switches_samples_stand_for_their_ticks() {
    let mut trace = sampled();
    trace.switches.clear();
    trace.wakes.clear();
    let flames = flames(&trace);
    assert_eq!(lines(&flames, &flames.ran_ns), ["main;main 1", "main;main;parse 2", "work;start;work;deep 2"]);
}

#[test]
fn nothing_has_no_flames() {
    let nothing = flames(&Trace::default());
    assert!(nothing.callers.is_empty() && nothing.frames.is_empty());
}

fn ops() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let op = prop_oneof![
        (1u64..40).prop_map(Op::Work),
        (1u64..40).prop_map(Op::Sleep),
        (1u64..40).prop_map(Op::Disk),
        Just(Op::Lock(0)),
        Just(Op::Unlock(0)),
        Just(Op::Send(0)),
        Just(Op::Recv(0)),
        Just(Op::Make(1)),
    ];
    prop::collection::vec(prop::collection::vec(op, 1..12), 2..3)
}

proptest! {
    /// All that runs is on the path or beside it, and the flames say as much as the report does.
    #[test]
    fn sums_are_those_of_the_report(tree in ops(), every in 3u64..30) {
        let mut trace = simulated::run(2, 20, &tree, &[], 500).trace;
        let here = stack(&mut trace, &["work", "main"]);
        let tids: Vec<u32> = trace.threads.iter().map(|thread| thread.tid).collect();
        for at in (0..trace.ready.0).step_by(every as usize) {
            let tid = tids[at as usize % tids.len()];
            trace.samples.push(Sample { at: Nanos(at), tid, in_kernel: at % 2 == 0, stack: here });
        }
        let (flames, report) = (flames(&trace), analyze(&trace, 100));
        let runs = |does: &Does| matches!(does, Does::User { .. } | Does::Kernel { .. } | Does::Runs);
        let owned = |wanted: &dyn Fn(&Does) -> bool| -> u64 {
            report.owners.iter().filter(|owner| wanted(&owner.what)).map(|owner| owner.ns).sum()
        };
        let sum = |times: &[u64]| times.iter().sum::<u64>();
        let lanes = |of: fn(&crate::report::Lane) -> u64| report.threads.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(&flames.path_ran_ns), owned(&runs));
        prop_assert_eq!(sum(&flames.path_waited_ns), owned(&|does| matches!(does, Does::Waits { .. })));
        prop_assert_eq!(sum(&flames.ran_ns), lanes(|lane| lane.ran_ns));
        prop_assert_eq!(sum(&flames.waited_ns), lanes(|lane| lane.waited_ns));
        for (node, caller) in flames.callers.iter().enumerate() {
            prop_assert!((*caller as usize) <= node, "callers come first");
        }
    }
}

//! Tests: paths drawn as text, and the truth of a simulated machine.

use super::*;
use crate::drawn::{self, ms};
use crate::simulated::{self, Does, Op, Outcome, Span};
use proptest::prelude::*;

fn walked(trace: &Trace) -> Vec<Step> {
    let steps = path(trace, &States::of(trace));
    assert_tiles(trace, &steps);
    steps
}

fn assert_tiles(trace: &Trace, steps: &[Step]) {
    let mut now = Nanos(0);
    for step in steps {
        assert_eq!(step.from, now, "no gap and no overlap: {steps:?}");
        assert!(step.from < step.to, "{step:?}");
        now = step.to;
    }
    assert_eq!(now, trace.ready, "{steps:?}");
}

fn expect(cpus: u32, lines: &[&str], path: &[&str]) -> Vec<Step> {
    let trace = drawn::trace(cpus, lines);
    let steps = walked(&trace);
    assert_eq!(drawn::drawn(&trace, &steps), path);
    steps
}

#[test]
fn a_thread_alone_owns_all_its_time() {
    expect(1, &["main|RRRRdddRRzzRffRyyyR"], &["main|RRRRdddRRzzRffRyyyR"]);
}

#[test]
fn a_wait_of_a_thread_that_has_ended_is_its_end() {
    let lines = ["main|RR??R??R", "~rcu|..RR..RR", "@4 rcu > main", "@7 rcu > main"];
    let mut trace = drawn::trace(2, &lines);
    trace.threads[0].end = Some(ms(5));
    let steps = walked(&trace);
    let kinds: Vec<Kind> = steps
        .iter()
        .filter_map(|step| if let Whose::Waits { kind, .. } = step.whose { Some(kind) } else { None })
        .collect();
    assert_eq!(kinds, [Kind::Exit], "what it waited for before is not: {steps:?}");
}

#[test]
fn what_passes_between_a_threads_end_and_thaws_look_has_a_reason_of_its_own() {
    let mut trace = drawn::trace(1, &["main|RRRR", "~late|....R"]);
    trace.threads[0].end = Some(ms(4));
    trace.ready = ms(6);
    let last = walked(&trace).pop().unwrap();
    assert_eq!((last.from, last.whose), (ms(4), Whose::Unexplained(READ_LATE)));
}

#[test]
fn who_holds_the_lock_owns_the_wait() {
    let steps = expect(
        2,
        &["main  |RRRRLLLLLRR", "worker|  RRRRRRRRR", "@2 main * worker", "@9 worker > main"],
        &["main|RR-------RR", "worker|--RRRRRRR--"],
    );
    let [made, held, free] = steps[..] else { panic!("{steps:?}") };
    assert_eq!(made.link.map(|link| (link.kind, link.woken, link.waker)), Some((Kind::New, 11, 10)));
    let link = held.link.unwrap();
    assert_eq!((link.kind, link.woken, link.waker, link.since, link.at), (Kind::Lock, 10, 11, ms(4), ms(9)));
    assert_eq!(free.link, None);
}

#[test]
fn a_chain_of_pipes_is_walked_back_through_all() {
    expect(
        3,
        &[
            "main|RRppppppRR",
            "a   | RppppRRRR",
            "b   |  RRRRRRRR",
            "@1 main * a",
            "@2 a * b",
            "@6 b > a",
            "@8 a > main",
        ],
        &["main|R-------RR", "a|-R----RR--", "b|--RRRR----"],
    );
}

#[test]
fn who_takes_the_cpu_is_named() {
    let lines = ["main   |RRR...RRzR", "~stress|...RRR..Rz", "@8 timer > main"];
    let steps = expect(1, &lines, &["main|RRR...RRzR", "~stress|----------"]);
    let cpu: Vec<Whose> = steps.iter().map(|step| step.whose).filter(|of| matches!(of, Whose::Cpu { .. })).collect();
    assert_eq!(cpu, [Whose::Cpu { ran: Ran::Thread(11), is_sure: true }]);
}

#[test]
fn a_cpu_is_shared_by_time() {
    let lines = ["main|RRz...RR", "~a  |  RRR...", "~b  |  ...R..", "@3 timer > main"];
    let trace = drawn::trace(1, &lines[..]);
    let steps = walked(&trace);
    let cpu = steps.iter().filter(|step| matches!(step.whose, Whose::Cpu { .. }));
    let ran: Vec<(Nanos, Nanos, Whose)> = cpu.map(|step| (step.from, step.to, step.whose)).collect();
    let by = |tid| Whose::Cpu { ran: Ran::Thread(tid), is_sure: false };
    assert_eq!(ran, [(ms(3), ms(5), by(11)), (ms(5), ms(6), by(12))]);
}

#[test]
fn an_idle_cpu_is_nobodys() {
    let steps = expect(1, &["main|RRz..RR", "@3 timer > main"], &["main|RRz..RR"]);
    assert!(steps.iter().any(|step| step.whose == Whose::Cpu { ran: Ran::Idle, is_sure: false }), "{steps:?}");
}

#[test]
fn another_program_is_followed_as_far_as_the_wait_goes() {
    expect(2, &["main|RRssssRR", "~X  |RRRRRRss", "@6 X > main"], &["main|RR----RR", "~X|--xxxx--"]);
    // It waited itself, for a disk, and began before it was asked.
    expect(2, &["main|RRRssssRR", "~X  |RddddRRss", "@7 X > main"], &["main|RRR----RR", "~X|---wwxx--"]);
}

#[test]
fn another_program_that_waits_for_a_third_one_leads_back_to_its_own_wait() {
    expect(
        3,
        &["main|RRsssssssR", "~X  |RRRRsssRss", "~Y  |RRRRRRRsss", "@7 Y > X", "@9 X > main"],
        &["main|RR-------R", "~X|--xx---x w-".replace(' ', "").as_str(), "~Y|----xxx---"],
    );
}

#[test]
fn through_another_program_the_path_comes_back_to_the_tree() {
    expect(
        3,
        &["main|RRRRssssR", "io  | RRRRRRRR", "~bus|ssssssRRs", "@1 main * io", "@6 io > bus", "@8 bus > main"],
        &["main|R-------R", "io|-RRRRR---", "~bus|------xx-"],
    );
}

#[test]
fn kernel_threads_that_end_io_are_the_disk() {
    let lines =
        ["main        |RRddddRyyyR", "~kworker/0:1|....RRRRRRR", "@6 kworker/0:1 > main", "@10 kworker/0:1 > main"];
    expect(2, &lines, &["main|RRddddRyyyR", "~kworker/0:1|-----------"]);
    // For a terminal or a pipe they work in others' names.
    let lines = ["main        |RRppppRR", "~kworker/0:1|..RRRRRR", "@6 kworker/0:1 > main"];
    expect(2, &lines, &["main|RR----RR", "~kworker/0:1|--xxxx--"]);
}

#[test]
fn a_page_that_another_program_reads_is_the_disk_and_one_that_the_tree_reads_is_its_own() {
    expect(2, &["main|RRddddRR", "~X  |RRRRRRRR", "@6 X > main"], &["main|RRddddRR", "~X|--------"]);
    let lines = ["main|RRddddRR", "b   | RRRRRRR", "@1 main * b", "@6 b > main"];
    expect(2, &lines, &["main|R-----RR", "b|-RRRRR--"]);
}

#[test]
fn a_timer_that_ends_a_wait_for_a_lock_makes_it_a_sleep() {
    let steps = expect(1, &["main|RRLLLRR"], &["main|RRzzzRR"]);
    assert!(matches!(steps[1].whose, Whose::Waits { kind: Kind::Sleep, is_sure: false, .. }));
    // What ended a poll is not known without the interrupt's functions.
    expect(1, &["main|RRoooRR"], &["main|RRoooRR"]);
    for (function, letter) in [("hrtimer_wakeup", 'z'), ("net_rx_action", 'n')] {
        let mut trace = drawn::trace(1, &["main|RRoooRR"]);
        let stack = drawn::kernel_stack(&mut trace, &["try_to_wake_up", function, "asm_common_interrupt"]);
        trace.wakes[0].stack = stack;
        let steps = walked(&trace);
        let expected: String = ["RR", &letter.to_string().repeat(3), "RR"].concat();
        assert_eq!(drawn::drawn(&trace, &steps), [format!("main|{expected}")]);
    }
}

#[test]
fn a_wait_that_was_not_seen_to_end_is_not_explained() {
    let mut trace = drawn::trace(1, &["main|RRpppRR"]);
    trace.wakes.clear();
    let steps = walked(&trace);
    assert_eq!(drawn::drawn(&trace, &steps), ["main|RR!!!RR"]);
}

#[test]
fn a_thread_whose_maker_is_not_known_ends_the_walk() {
    let lines = ["main|RRRRLLRR", "new | .RRRRRR", "@6 new > main"];
    let trace = drawn::trace(2, &lines);
    assert_eq!(
        drawn::drawn(&trace, &walked(&trace)),
        ["main|!-----RR", "new|-!RRRR--"].map(|line| {
            // What lies before its beginning is drawn on its own line: no other thread is known to have it.
            if line.starts_with("main") { "main|------RR" } else { "new|!!RRRR--" }
        })
    );
}

#[test]
fn without_records_nothing_is_explained() {
    let mut trace = drawn::trace(1, &["main|RRRR"]);
    let steps = walked(&trace);
    assert_eq!(steps.len(), 1);
    assert!(matches!(steps[0].whose, Whose::Unexplained(_)), "no switch of any CPU was seen");
    trace.threads.clear();
    assert!(matches!(walked(&trace)[..], [Step { whose: Whose::Unexplained(_), .. }]));
    trace.ready = Nanos(0);
    assert_eq!(walked(&trace), []);
}

#[test]
fn threads_that_wake_each_other_at_the_same_moment_end() {
    let lines = ["a|RRLLRR", "b|RRLLRR", "@4 a > b", "@4 b > a"];
    let trace = drawn::trace(2, &lines);
    let steps = walked(&trace);
    assert!(steps.iter().any(|step| matches!(step.whose, Whose::Unexplained(_))), "{steps:?}");
}

#[test]
fn a_wake_behind_the_moment_is_not_its_cause() {
    // By the records b waited when it woke main: what ended that wait came later.
    let lines = ["main|RRLLRR", "b   |RRpppR", "@4 b > main", "@5 main > b"];
    expect(2, &lines, &["main|----RR", "b|RRpp--"]);
}

#[test]
fn ready_may_lie_behind_the_end_of_its_thread() {
    let lines = ["main|RRzR  ", "b   |RRRRRR"];
    let trace = drawn::trace(2, &lines);
    assert_eq!(drawn::drawn(&trace, &walked(&trace)), ["main|RRzR!!", "b|------"]);
}

/// The path as the simulator tells it.
fn spans(steps: &[Step]) -> Vec<Span> {
    let letter = |wanted| drawn::WAITS.iter().find(|(.., kind)| *kind == wanted).map_or('_', |(letter, ..)| *letter);
    let span = |step: &Step| {
        let does = match step.whose {
            Whose::Running | Whose::Other(Doing::Runs) => Does::Runs,
            Whose::Cpu { .. } | Whose::Other(Doing::LacksCpu) => Does::LacksCpu,
            Whose::Waits { kind, .. } => Does::Waits(letter(kind)),
            Whose::Other(Doing::Waits) => Does::Waits('~'),
            Whose::Unexplained(why) => panic!("{why}: {step:?}"),
        };
        (step.from.0, step.to.0, step.thread, does)
    };
    simulated::joined(steps.iter().map(span).collect())
}

fn assert_true(outcome: &Outcome) {
    let trace = &outcome.trace;
    let steps = walked(trace);
    let outside = |tid: u32| trace.threads.iter().any(|thread| thread.tid == tid && !thread.of_tree);
    let truth = outcome.path.iter().map(|(from, to, tid, does)| match does {
        Does::Waits(_) if outside(*tid) => (*from, *to, *tid, Does::Waits('~')),
        _ => (*from, *to, *tid, *does),
    });
    let truth = simulated::joined(truth.collect());
    assert_eq!(spans(&steps), truth, "{:?} {:?}", trace.switches, trace.wakes);
    for step in &steps {
        let Whose::Cpu { ran: Ran::Thread(tid), .. } = step.whose else { continue };
        let (_, life) = outcome.lives.iter().find(|(of, _)| *of == tid).unwrap();
        let runs = |(from, to, _, does): &Span| *does == Does::Runs && *from <= step.from.0 && step.to.0 <= *to;
        assert!(life.iter().any(runs), "thread {tid} did not run: {step:?}");
    }
}

fn op(threads: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u64..40).prop_map(Op::Work),
        1 => (1u64..40).prop_map(Op::Sleep),
        1 => (1u64..40).prop_map(Op::Disk),
        2 => (0usize..3).prop_map(Op::Lock),
        2 => (0usize..3).prop_map(Op::Unlock),
        2 => (0usize..3).prop_map(Op::Send),
        1 => (0usize..3).prop_map(Op::Recv),
        2 => (1..threads).prop_map(Op::Make),
    ]
}

fn programs(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(op(5), 1..20), count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_path_is_the_truth_of_the_machine(
        cpus in 1usize..4, quantum in 3u64..50, tree in programs(1..6), most in 50u64..2000,
    ) {
        let outcome = simulated::run(cpus, quantum, &tree, &[], most);
        // Without any change of any CPU nothing was recorded.
        prop_assume!(!outcome.trace.switches.is_empty());
        assert_true(&outcome);
    }

    #[test]
    fn the_path_is_the_truth_with_other_programs(
        cpus in 1usize..4, quantum in 3u64..50, tree in programs(1..5), outside in programs(1..4), most in 50u64..2000,
    ) {
        let outcome = simulated::run(cpus, quantum, &tree, &outside, most);
        prop_assume!(!outcome.trace.switches.is_empty() && !outcome.trace.wakes.is_empty());
        assert_true(&outcome);
    }

    #[test]
    fn damaged_traces_have_a_path_too(
        tree in programs(1..5), outside in programs(0..3),
        drops in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
        moved in prop::collection::vec((any::<prop::sample::Index>(), 0u64..200), 0..5),
    ) {
        let mut trace = simulated::run(2, 20, &tree, &outside, 1000).trace;
        for drop in drops {
            if !trace.switches.is_empty() { trace.switches.remove(drop.index(trace.switches.len())); }
            if !trace.wakes.is_empty() { trace.wakes.remove(drop.index(trace.wakes.len())); }
            trace.lost_switches += 1;
        }
        for (which, at) in moved {
            let count = trace.wakes.len();
            if count > 0 { trace.wakes[which.index(count)].at = Nanos(at); }
        }
        trace.wakes.sort_by_key(|wake| wake.at);
        walked(&trace);
    }
}

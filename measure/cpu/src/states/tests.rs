//! Tests: drawn traces, and the truth of a simulated machine.

use super::*;
use crate::drawn::{self, ms};
use crate::simulated::{self, Does, Op, Outcome, Span};
use proptest::prelude::*;

fn told(life: &Life) -> Vec<Span> {
    let span = |piece: &Piece| {
        let does = match piece.state {
            State::Running { .. } => Does::Runs,
            State::Runnable { .. } => Does::LacksCpu,
            State::Waiting { .. } => Does::Waits('~'),
            State::Unknown(_) => Does::Waits('!'),
        };
        (piece.from.0, piece.to.0, life.thread.tid, does)
    };
    simulated::joined(life.pieces.iter().map(span).collect())
}

fn assert_fills(life: &Life) {
    let mut now = life.from;
    for piece in &life.pieces {
        assert_eq!(piece.from, now, "{life:?}");
        assert!(piece.from < piece.to, "{life:?}");
        now = piece.to;
    }
    assert_eq!(now, life.to, "{life:?}");
}

fn states(trace: &Trace) -> States {
    let states = States::of(trace);
    states.lives.iter().for_each(assert_fills);
    states
}

#[test]
fn a_thread_runs_waits_and_lacks_a_cpu() {
    let lines = ["main|RRzz.R..R", "~b  |  RRR RR ", "@4 timer > main"];
    let trace = drawn::trace(1, &lines);
    let life = &states(&trace).lives[0];
    let stack = trace.switches[0].stack;
    assert!(stack.is_some());
    let running = State::Running { cpu: Some(0) };
    let waiting = State::Waiting { went: Some(Went::Asleep), stack, wake: Some(0) };
    let woken = State::Runnable { since: Since::Woken(0), got: Some(0) };
    let preempted = State::Runnable { since: Since::Preempted(0), got: Some(0) };
    let expected =
        [(0, 2, running), (2, 4, waiting), (4, 5, woken), (5, 6, running), (6, 8, preempted), (8, 9, running)];
    let expected = expected.map(|(from, to, state)| Piece { from: ms(from), to: ms(to), state });
    assert_eq!(life.pieces, expected);
}

#[test]
fn a_new_thread_is_ready_from_its_making_on() {
    let trace = drawn::trace(1, &["main|RRRR...", "new |  ..RRR", "@2 main * new"]);
    let life = &states(&trace).lives[1];
    assert_eq!(life.from, ms(2));
    let ready = State::Runnable { since: Since::Woken(0), got: Some(0) };
    assert_eq!(life.pieces[0], Piece { from: ms(2), to: ms(4), state: ready });
    // It is known by the record of its beginning a little before its maker lets it run.
    let mut trace = trace;
    trace.threads[1].start = Nanos(1_900_000);
    let life = &states(&trace).lives[1];
    let made = State::Waiting { went: None, stack: None, wake: Some(0) };
    assert_eq!(life.pieces[0], Piece { from: Nanos(1_900_000), to: ms(2), state: made });
}

#[test]
fn a_wake_on_the_way_to_the_wait_counts() {
    let mut trace = drawn::trace(1, &["main|RRRz.RR", "~b  |...RR..", "@4 timer > main"]);
    trace.wakes[0].at = Nanos(3 * 1_000_000 - 50_000);
    let life = &states(&trace).lives[0];
    let woken = State::Runnable { since: Since::Woken(0), got: Some(0) };
    assert_eq!(life.pieces[1], Piece { from: ms(3), to: ms(5), state: woken });
    // Long before, it is of no wait.
    trace.wakes[0].at = ms(1);
    let life = &states(&trace).lives[0];
    assert_eq!(life.pieces[1], Piece { from: ms(3), to: ms(5), state: State::Unknown(NO_WAKE) });
}

#[test]
fn a_number_that_is_given_twice_has_two_lives() {
    let mut trace = drawn::trace(2, &["main|RRRRRRRR", "a   | RR     ", "b   |     RR ", "@1 main * a", "@5 main * b"]);
    trace.threads[2].tid = 11;
    for switch in &mut trace.switches {
        let same = |tid: u32| if tid == 12 { 11 } else { tid };
        (switch.from, switch.to) = (same(switch.from), same(switch.to));
    }
    trace.wakes[1].woken = 11;
    let states = states(&trace);
    assert_eq!((states.lives[1].from, states.lives[1].to), (ms(1), ms(3)));
    assert_eq!((states.lives[2].from, states.lives[2].to), (ms(5), ms(7)));
    assert_eq!(
        (states.life_at(11, ms(2)), states.life_at(11, ms(6)), states.life_at(99, ms(1))),
        (Some(1), Some(2), None)
    );
}

#[test]
fn a_cpus_turns_are_cut_and_what_is_lost_is_nobodys() {
    let mut trace = drawn::trace(1, &["main|RRzRRz", "~b  |  R  R", "@3 timer > main"]);
    let turn = |from, to, tid| Turn { from: ms(from), to: ms(to), tid };
    assert_eq!(
        states(&trace).turns(0, ms(1), ms(4)),
        [turn(1, 2, Some(10)), turn(2, 3, Some(11)), turn(3, 4, Some(10))]
    );
    assert_eq!(states(&trace).turns(7, ms(1), ms(4)), [turn(1, 4, None)]);
    trace.switches.remove(1);
    trace.lost_switches = 1;
    assert_eq!(states(&trace).turns(0, ms(1), ms(4)), [turn(1, 2, None), turn(2, 4, None)]);
}

#[test]
fn without_records_nothing_is_known() {
    let trace = drawn::trace(1, &["main|RRRR"]);
    assert_eq!(states(&trace).lives[0].pieces, [Piece { from: ms(0), to: ms(4), state: State::Unknown(NO_SWITCHES) }]);
    let trace = drawn::trace(2, &["main|RRRR", "~b  |RRzR"]);
    let running = State::Running { cpu: None };
    assert_eq!(states(&trace).lives[0].pieces, [Piece { from: ms(0), to: ms(4), state: running }]);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u64..40).prop_map(Op::Work),
        1 => (1u64..40).prop_map(Op::Sleep),
        1 => (0usize..2).prop_map(Op::Lock),
        1 => (0usize..2).prop_map(Op::Unlock),
        1 => (0usize..2).prop_map(Op::Send),
        1 => (0usize..2).prop_map(Op::Recv),
        1 => (1usize..4).prop_map(Op::Make),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let programs = |count| prop::collection::vec(prop::collection::vec(op(), 1..20), count);
    (1usize..4, 3u64..50, programs(1..5), programs(0..3), 20u64..800)
        .prop_map(|(cpus, quantum, tree, outside, most)| simulated::run(cpus, quantum, &tree, &outside, most))
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?} {:?}", self.trace, self.lives)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn states_are_those_of_the_machine(outcome in outcome()) {
        prop_assume!(!outcome.trace.switches.is_empty() && !outcome.trace.wakes.is_empty());
        for life in &states(&outcome.trace).lives {
            let (tid, truth) = outcome.lives.iter().find(|(tid, _)| *tid == life.thread.tid).unwrap();
            let waits = |span: &Span| if matches!(span.3, Does::Waits(_)) { Does::Waits('~') } else { span.3 };
            let truth: Vec<Span> = truth.iter().map(|span| (span.0, span.1, *tid, waits(span))).collect();
            // A program that has not had a CPU by the end is in no record.
            let is_seen = told(life).iter().any(|span| span.3 != Does::Waits('!'));
            if is_seen || life.thread.of_tree {
                prop_assert_eq!(told(life), truth);
            }
        }
    }

    #[test]
    fn who_is_said_to_run_does_even_if_records_are_lost(
        outcome in outcome(), drops in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut trace = outcome.trace.clone();
        // One of each CPU at most: what is lost in pairs can join again.
        let mut cpus = std::collections::HashSet::new();
        for drop in drops {
            if trace.switches.is_empty() { break; }
            let index = drop.index(trace.switches.len());
            if cpus.insert(trace.switches[index].cpu) { trace.switches.remove(index); }
        }
        trace.lost_switches = cpus.len() as u64;
        for life in &states(&trace).lives {
            let (_, truth) = outcome.lives.iter().find(|(tid, _)| *tid == life.thread.tid).unwrap();
            for (from, to, _, does) in told(life).iter().filter(|span| span.3 == Does::Runs) {
                let is_true = |span: &Span| span.3 == *does && span.0 <= *from && *to <= span.1;
                prop_assert!(truth.iter().any(is_true), "{} did not run from {} to {}", life.thread.tid, from, to);
            }
        }
    }
}

#[test]
fn where_records_are_lost_the_first_and_last_ones_of_a_cpu_tell_nothing_of_what_lies_beyond() {
    let mut trace = drawn::trace(2, &["main|RRzRR", "~b  |...RR", "@3 timer > main"]);
    let all = |trace: &Trace| states(trace).lives.iter().map(told).collect::<Vec<_>>();
    let whole = all(&trace);
    let span = |from, to, tid, does| (ms(from).0, ms(to).0, tid, does);
    let (waits, unknown) = (Does::Waits('~'), Does::Waits('!'));
    assert_eq!(whole[0], [span(0, 2, 10, Does::Runs), span(2, 3, 10, waits), span(3, 5, 10, Does::Runs)]);
    assert_eq!(whole[1], [span(0, 3, 11, Does::LacksCpu), span(3, 5, 11, Does::Runs)]);
    trace.lost_switches = 1;
    let some = all(&trace);
    assert_eq!(some[0], [span(0, 2, 10, unknown), span(2, 3, 10, waits), span(3, 5, 10, unknown)]);
    assert_eq!(some[1], [span(0, 5, 11, unknown)]);
}

#[test]
fn lost_samples_take_no_moment_away_and_switches_that_show_as_missing_take_only_theirs() {
    let mut trace = drawn::trace(1, &["main|RRzRRR...R", "~b  |......RRR.", "@3 timer > main"]);
    let whole: Vec<Vec<Span>> = states(&trace).lives.iter().map(told).collect();
    trace.lost = 7;
    assert_eq!(states(&trace).lives.iter().map(told).collect::<Vec<_>>(), whole);
    // The way from b to main is not told: nobody knows when b ended, but main ran at exec and was seen at the end.
    let hidden = trace.switches.iter().position(|switch| switch.from == 11).unwrap();
    trace.switches[hidden].from = 12;
    trace.lost_switches = 1;
    let span = |from, to, does| (ms(from).0, ms(to).0, 10, does);
    let main = told(&states(&trace).lives[0]);
    assert_eq!(main, whole[0], "{main:?}");
    assert_eq!((main[0], main[main.len() - 1]), (span(0, 2, Does::Runs), span(9, 10, Does::Runs)));
    assert!(told(&states(&trace).lives[1]).iter().all(|span| span.3 != Does::Runs), "it is not told when b ended");
    // One more, and it may be missing anywhere.
    trace.lost_switches = 2;
    let main = told(&states(&trace).lives[0]);
    let unknown = Does::Waits('!');
    assert_eq!((main[0], main[main.len() - 1]), (span(0, 2, unknown), span(9, 10, unknown)));
}

#[test]
fn a_thread_lives_until_its_end() {
    let mut trace = drawn::trace(3, &["main|RRRRRR", "b   | RR   ", "c   | RRR  ", "@1 main * b", "@1 main * c"]);
    // Its end is written down a little before it leaves its CPU for the last time.
    trace.threads[1].end = Some(Nanos(2_900_000));
    // The last change is not seen.
    trace.switches.retain(|switch| switch.from != 12);
    let found = states(&trace);
    assert_eq!((found.lives[1].to, found.lives[2].to), (ms(3), ms(4)));
}

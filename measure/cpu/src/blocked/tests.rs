//! Tests: the first thread's own account, of drawn traces and of simulated ones.

use super::*;
use crate::drawn;
use crate::path;
use crate::simulated::{self, Op};
use proptest::prelude::*;

fn found(trace: &Trace) -> Vec<BlockedRow> {
    let states = States::of(trace);
    blocked(trace, &states, &path::path(trace, &states))
}

fn texts(rows: &[BlockedRow]) -> Vec<&str> {
    rows.iter().map(|row| &row.text[..]).collect()
}

#[test]
fn who_holds_the_lock_is_told_though_the_path_runs_through_him() {
    let rows = found(&drawn::trace(
        2,
        &[
            "main  |RRRRLLLLLRRzzR",
            "holder|  RRRRppRRR.  ",
            "@2 main * holder",
            "@9 holder > main",
            "@8 timer > holder",
        ],
    ));
    assert_eq!(
        texts(&rows),
        [
            "thread 'main' waits 5.0 ms for a lock that process 'holder' holds in futex; meanwhile that one ran \
             3.0 ms, waited 2.0 ms",
            "thread 'main' sleeps 2.0 ms in clock_nanosleep",
            "thread 'holder' waits 2.0 ms for a pipe in read",
        ]
    );
    let lock = &rows[0];
    assert_eq!((lock.is_first, lock.count, lock.ns, lock.path_elsewhere_ns), (true, 1, 5_000_000, 5_000_000));
    assert_eq!((lock.ran_ns, lock.waited_ns, lock.lacked_cpu_ns), (3_000_000, 2_000_000, 0));
    assert_eq!(rows[1].path_elsewhere_ns, 0, "the path lies on the wait itself");
    assert!(!rows[2].is_first);
}

#[test]
fn waits_for_the_same_are_one_and_other_programs_have_their_names() {
    let rows = found(&drawn::trace(
        2,
        &["main|RssRsssRRdd", "~X  |RRRR..RRRR.", "@3 X > main", "@7 X > main", "~k  |..........."][..4],
    ));
    assert_eq!(
        texts(&rows),
        [
            "thread 'main' waits 2 times, 5.0 ms for a local socket, whose other end X, another program, has in \
             recvmsg; meanwhile that one ran 3.0 ms, had no CPU 2.0 ms",
            "thread 'main' waits 2.0 ms for the disk in read, until ready",
        ]
    );
    assert_eq!((rows[0].count, &rows[0].ended), (2, &EndedBy::Program { name: "X".into() }));
}

#[test]
fn the_first_threads_waits_beside_the_path_are_told_too() {
    // Worker is ready: nobody waits for main, which waits for a lock.
    let lines = ["main  |RRLLLLLL", "worker| RRRRRRR", "@1 main * worker"];
    let mut trace = drawn::trace(2, &lines);
    trace.ready_by = Some(11);
    let rows = found(&trace);
    assert_eq!(texts(&rows), ["thread 'main' waits 6.0 ms for a lock in futex, until ready"]);
    assert_eq!(rows[0].path_elsewhere_ns, 6_000_000);
    // A thread beside the path that is not the first one has no account.
    let lines = ["main  |RRRRRRRR", "worker| RRzzzRR", "@1 main * worker"];
    assert_eq!(found(&drawn::trace(2, &lines)), []);
}

#[test]
fn a_disk_that_a_thread_of_the_kernel_reports_is_ended_by_an_interrupt() {
    let lines = ["main        |RRddddRR", "~kworker/0:1|....RRRR", "@6 kworker/0:1 > main"];
    let rows = found(&drawn::trace(2, &lines));
    assert_eq!(
        (texts(&rows), &rows[0].ended),
        (vec!["thread 'main' waits 4.0 ms for the disk in read"], &EndedBy::Interrupt)
    );
    // Nobody released the lock: its time was up.
    assert_eq!(found(&drawn::trace(1, &["main|RRLLLRR"]))[0].kind, Kind::Sleep);
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u64..9).prop_map(Op::Work),
        1 => (1u64..9).prop_map(Op::Sleep),
        2 => (0usize..2).prop_map(Op::Lock),
        2 => (0usize..2).prop_map(Op::Unlock),
        2 => (1usize..4).prop_map(Op::Make),
    ]
}

proptest! {
    #[test]
    fn the_account_is_all_that_the_first_thread_waited(
        tree in prop::collection::vec(prop::collection::vec(op(), 1..20), 1..5), most in 20u64..400,
    ) {
        let trace = simulated::run(2, 5, &tree, &[], most).trace;
        prop_assume!(!trace.switches.is_empty());
        let states = States::of(&trace);
        let rows = found(&trace);
        let waits = |piece: &&Piece| matches!(piece.state, State::Waiting { .. });
        let waited: u64 = states.lives[0].pieces.iter().filter(waits).map(|piece| (piece.to - piece.from).0).sum();
        prop_assert_eq!(rows.iter().filter(|row| row.is_first).map(|row| row.ns).sum::<u64>(), waited);
        for row in rows {
            prop_assert!(row.path_elsewhere_ns <= row.ns && row.ran_ns + row.waited_ns + row.lacked_cpu_ns <= row.ns);
        }
    }
}

//! Tests: pictures say what reports say, piece by piece.

use super::*;
use crate::analyze::analyze;
use crate::drawn::{self, ms};
use crate::report::{Does, LaneState};
use crate::simulated::{self, Op};
use crate::trace::Frame;
use crate::trace::{Sample, StackId};
use model::Nanos;
use proptest::prelude::*;

fn stack(trace: &mut Trace, function: &str) -> Option<StackId> {
    let frame = Frame { function: Some(function.into()), object: "/bin/app".into(), ..Frame::default() };
    let frame = trace.stacks.frame(frame);
    trace.stacks.stack(&[frame])
}

/// A letter for each millisecond: u user, k kernel, r no sample, . no CPU, w waits, ! not known.
fn letters(spans: impl Iterator<Item = (u64, u64, Seen)>) -> String {
    let mut line = Vec::new();
    for (from, to, seen) in spans {
        let letter = match seen {
            Seen::User => 'u',
            Seen::Kernel => 'k',
            Seen::Runs => 'r',
            Seen::LacksCpu => '.',
            Seen::Waits(_) => 'w',
            Seen::Unknown => '!',
        };
        let (from, to) = ((from / 1_000_000) as usize, (to / 1_000_000) as usize);
        line.resize(line.len().max(to), ' ');
        line[from..to].fill(letter);
    }
    line.into_iter().collect()
}

#[test]
fn lanes_tell_the_program_from_the_kernel_and_the_path_lies_on_them() {
    let mut trace = drawn::trace(2, &["main|RRRRLLLLRR", "work|   .RRRRzz", "@3 main * work", "@8 work > main"]);
    let (run, read) = (stack(&mut trace, "run"), drawn::kernel_stack(&mut trace, &["vfs_read", "__x64_sys_read"]));
    for (at, tid, in_kernel, stack) in
        [(0, 10, false, run), (3, 10, true, read), (8, 10, false, run), (5, 11, false, run), (7, 11, true, read)]
    {
        trace.samples.push(Sample { at: ms(at) + Nanos(500_000), tid, in_kernel, stack });
    }
    trace.samples.sort_by_key(|sample| sample.at);
    let report = analyze(&trace, 100);
    let picture = picture(&trace, &report, 100);
    let lane = |lane: usize| letters(picture.lanes[lane].iter().map(|piece| (piece.from_ns, piece.to_ns, piece.seen)));
    assert_eq!(lane(0), "uukkwwwwuu");
    assert_eq!(lane(1), "   .uukkww");
    let on = |wanted: u32| {
        let own = picture.path.iter().filter(move |piece| piece.lane == Some(wanted));
        letters(own.map(|piece| (piece.from_ns, piece.to_ns, piece.seen)))
    };
    assert_eq!(on(0), "uuk     uu");
    assert_eq!(on(1), "   .uukk");
    let links: Vec<(u64, Kind)> = picture.path.iter().filter_map(|it| Some((it.to_ns / 1_000_000, it.link?))).collect();
    assert_eq!(links, [(3, Kind::New), (8, Kind::Lock)]);
    let labels: Vec<&str> = picture.flames.walk(picture.lanes[0][0].node.unwrap()).collect();
    assert_eq!(labels, ["run", "main"]);
}

/// Where changes were not recorded, samples own time of the path, and nobody knows which: what is drawn is not known.
#[test]
fn a_path_of_samples_alone_is_drawn_as_what_is_not_known() {
    let mut trace = drawn::trace(1, &["app|RRRRRRRRRR"]);
    let run = stack(&mut trace, "run");
    trace.switches.clear();
    for at in [2, 5] {
        trace.samples.push(Sample { at: ms(at), tid: 10, in_kernel: false, stack: run });
    }
    let report = analyze(&trace, 100);
    let picture = picture(&trace, &report, 100);
    let sampled = report.owners.iter().filter(|owner| owner.samples > 0).map(|owner| owner.ns).sum::<u64>();
    assert_eq!(sampled, 2 * trace.tick.0, "{:?}", report.owners);
    for piece in &picture.path {
        let owner = &report.owners[piece.owner.unwrap() as usize];
        assert!(matches!(owner.what, Does::Unexplained { .. }), "{owner:?}");
    }
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
    /// Each piece of the path has an owner of the report, and those of an owner add up to its time: so what a page
    /// highlights is what the table says.
    #[test]
    fn pieces_of_the_path_are_those_of_the_owners(
        tree in ops(),
        outside in ops(),
        every in 3u64..30,
        most in 1usize..20,
    ) {
        let mut trace = simulated::run(2, 20, &tree, &outside, 500).trace;
        let (here, there) = (stack(&mut trace, "here"), stack(&mut trace, "there"));
        let tids: Vec<u32> = trace.threads.iter().map(|thread| thread.tid).collect();
        for at in (0..trace.ready.0).step_by(every as usize) {
            let stack = [here, there, None][at as usize % 3];
            let tid = tids[at as usize % tids.len()];
            trace.samples.push(Sample { at: Nanos(at), tid, in_kernel: at % 4 == 0, stack });
        }
        let report = analyze(&trace, usize::MAX);
        let picture = picture(&trace, &report, most);
        let mut sums = vec![0; report.owners.len()];
        let mut now = 0;
        for piece in &picture.path {
            prop_assert_eq!(piece.from_ns, now);
            now = piece.to_ns;
            prop_assert!(piece.owner.is_some() && piece.lane.is_some(), "{:?}", piece);
            sums[piece.owner.unwrap() as usize] += piece.to_ns - piece.from_ns;
        }
        prop_assert_eq!(now, trace.ready.0);
        prop_assert_eq!(sums, report.owners.iter().map(|owner| owner.ns).collect::<Vec<_>>());
        prop_assert_eq!(picture.lanes.len(), report.threads.len());
        for (pieces, lane) in picture.lanes.iter().zip(&report.threads) {
            prop_assert!(pieces.len() <= most.max(1));
            prop_assert!(pieces.windows(2).all(|two| two[0].to_ns == two[1].from_ns));
            prop_assert_eq!(pieces.first().map(|it| it.from_ns), lane.pieces.first().map(|it| it.from_ns));
            prop_assert_eq!(pieces.last().map(|it| it.to_ns), lane.pieces.last().map(|it| it.to_ns));
        }
        // Unmerged, lanes are those of the report but for what runs.
        let whole = super::picture(&trace, &report, usize::MAX);
        for (pieces, lane) in whole.lanes.iter().zip(&report.threads) {
            let ran: u64 = pieces.iter().filter(|it| it.seen.runs()).map(|it| it.to_ns - it.from_ns).sum();
            prop_assert_eq!(ran, lane.ran_ns);
            for piece in &lane.pieces {
                if let LaneState::Waits(kind) = piece.state {
                    let seen = pieces.iter().find(|it| it.from_ns <= piece.from_ns && piece.from_ns < it.to_ns);
                    prop_assert_eq!(seen.map(|it| it.seen), Some(Seen::Waits(kind)));
                }
            }
        }
    }
}

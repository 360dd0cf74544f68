//! The power goes at any moment, the process dies at any moment: what is there is a state of the session between the
//! last flush and that moment.

mod common;

use common::{Whole, done, fill, flush, loaded, open, titled, whole};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thaw_log::memory::{Medium, Memory, Op, Random};
use thaw_session::{Edit, Id, New, Place, ROOT, Session, flag, kind};

type State = BTreeMap<Id, Whole>;

/// What an application does.
#[derive(Clone, Debug)]
enum Step {
    Insert {
        parent: usize,
        place: u8,
        kind: u8,
        flags: u32,
        bytes: usize,
    },
    Change {
        item: usize,
        title: Option<u16>,
        flags: Option<u32>,
        bytes: Option<usize>,
    },
    Move {
        item: usize,
        parent: usize,
        place: u8,
    },
    Remove {
        item: usize,
    },
    Flush,
    /// The process ends and another one begins.
    Again,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = || prop_oneof![Just(0), Just(flag::VISIBLE)];
    let step = prop_oneof![
        6 => (any::<usize>(), any::<u8>(), 1..4_u8, flags(), 0..600_usize)
            .prop_map(|(parent, place, kind, flags, bytes)| Step::Insert { parent, place, kind, flags, bytes }),
        5 => (any::<usize>(), any::<Option<u16>>(), prop::option::of(flags()), prop::option::of(0..600_usize))
            .prop_map(|(item, title, flags, bytes)| Step::Change { item, title, flags, bytes }),
        2 => (any::<usize>(), any::<usize>(), any::<u8>())
            .prop_map(|(item, parent, place)| Step::Move { item, parent, place }),
        1 => any::<usize>().prop_map(|item| Step::Remove { item }),
        4 => Just(Step::Flush),
        1 => Just(Step::Again),
    ];
    prop::collection::vec(step, 1..60)
}

/// All states there were, how many operations of the disk were done before each, and which was flushed by when.
struct Run {
    ops: Vec<Op>,
    states: Vec<State>,
    /// Operations of the disk, and the state that is on the medium after so many.
    sure: Vec<(usize, usize)>,
    /// Operations of the disk, and the last state that there was when so many had been done.
    most: Vec<(usize, usize)>,
}

/// Its payloads are all in memory: what the application gave.
fn given(session: &Session) -> State {
    whole(session)
}

fn run(steps: &[Step]) -> Run {
    let disk = Memory::new(HashMap::new());
    let mut session = open(&disk);
    loaded(&session);
    let mut run = Run { ops: Vec::new(), states: vec![State::new()], sure: vec![(0, 0)], most: Vec::new() };
    for step in steps {
        let ids: Vec<Id> = run.states.last().unwrap().keys().copied().collect();
        let any = |number: usize| ids.get(number % (ids.len() + 1)).copied().unwrap_or(ROOT);
        let place = |number: u8, parent: Id, session: &Session| match number % 3 {
            0 => Place::First,
            1 => Place::Last,
            _ => session.children(parent).get(number as usize / 3).map_or(Place::Last, |id| Place::After(*id)),
        };
        // What is refused changes nothing.
        match step {
            Step::Insert { parent, place: at, kind, flags, bytes } => {
                let (parent, payload) = (any(*parent), vec![*kind; *bytes]);
                let new = New { kind: *kind, flags: *flags, title: "new", payload: &payload, ..New::default() };
                let _ = session.insert(parent, place(*at, parent, &session), &new);
            }
            Step::Change { item, title, flags, bytes } => {
                let (title, payload) = (title.map(|title| title.to_string()), bytes.map(|bytes| vec![9; bytes]));
                let edit = Edit { title: title.as_deref(), flags: *flags, payload: payload.as_deref(), origin: None };
                let _ = session.change(any(*item), &edit);
            }
            Step::Move { item, parent, place: at } => {
                let parent = any(*parent);
                let _ = session.move_to(any(*item), parent, place(*at, parent, &session));
            }
            Step::Remove { item } => drop(session.remove(any(*item))),
            Step::Flush => {
                let ticket = session.flush();
                done(&session, ticket).unwrap();
                run.sure.push((disk.len(), run.states.len() - 1));
            }
            Step::Again => {
                session.close(false).unwrap();
                run.sure.push((disk.len(), run.states.len() - 1));
                session = open(&disk);
                loaded(&session);
            }
        }
        run.states.push(given(&session));
        run.most.push((disk.len(), run.states.len() - 1));
    }
    session.abandon();
    run.ops = disk.lock().ops.clone();
    run
}

/// What is on a disk is a state between the last flush and the moment of the cut.
fn check(run: &Run, at: usize, files: HashMap<String, Vec<u8>>) -> Result<(), String> {
    let sure = run.sure.iter().rfind(|sure| sure.0 <= at).unwrap().1;
    let most = run.most.iter().find(|most| most.0 > at).map_or(run.states.len() - 1, |most| most.1);
    let disk = Memory::new(files);
    let session = open(&disk);
    let missing = loaded(&session);
    let now = whole(&session);
    session.abandon();
    if missing != Default::default() {
        return Err(format!("at {at}: {missing:?}"));
    }
    if run.states[sure..=most].contains(&now) {
        return Ok(());
    }
    let which = run.states.iter().position(|state| *state == now);
    Err(format!("at {at}: {which:?} is none of {sure} to {most}: {now:?}\nsure {:?}", run.states[sure]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_at_a_random_moment_leaves_a_state_since_the_last_flush(
        steps in steps(), cut in any::<prop::sample::Index>(), seed in 1..u64::MAX,
    ) {
        let run = run(&steps);
        let at = cut.index(run.ops.len() + 1);
        let mut medium = Medium::default();
        run.ops[..at].iter().for_each(|op| medium.apply(op));
        let mut random = Random(seed);
        for files in [medium.all(), medium.none(), medium.some(&mut random), medium.some(&mut random)] {
            if let Err(why) = check(&run, at, files) {
                return Err(TestCaseError::fail(why));
            }
        }
    }
}

/// Windows, tabs, two processes, upgrades of the log to a new generation.
fn long_run() -> Run {
    let mut steps = Vec::new();
    for round in 0..80_usize {
        steps.push(Step::Insert { parent: round / 4, place: 1, kind: 1 + (round % 3) as u8, flags: 1, bytes: 50 });
        if round % 4 == 3 {
            steps.push(Step::Change { item: round, title: Some(round as u16), flags: Some(0), bytes: None });
            steps.push(Step::Flush);
        }
        if round % 10 == 9 {
            steps.push(Step::Move { item: 3, parent: round / 5, place: 0 });
            steps.push(Step::Remove { item: round / 2 });
            steps.push(Step::Again);
        }
    }
    run(&steps)
}

#[test]
fn a_power_cut_at_any_moment_leaves_a_state_since_the_last_flush() {
    let run = long_run();
    let (mut medium, mut random) = (Medium::default(), Random(11));
    for at in 0..=run.ops.len() {
        check(&run, at, medium.all()).unwrap();
        check(&run, at, medium.none()).unwrap();
        for _ in 0..20 {
            check(&run, at, medium.some(&mut random)).unwrap();
        }
        if let Some(op) = run.ops.get(at) {
            medium.apply(op);
        }
    }
    assert!(run.ops.len() > 50, "{}", run.ops.len());
}

#[test]
fn a_power_cut_during_a_clean_end_leaves_the_session() {
    let disk = Memory::new(HashMap::new());
    for round in 0..2 {
        let session = open(&disk);
        loaded(&session);
        if round == 0 {
            fill(&session, 5);
        }
        titled(&session, 1, &format!("round {round}"));
        flush(&session).unwrap();
        if round == 0 {
            session.close(false).unwrap();
            continue;
        }
        let new = New { kind: kind::TAB, flags: flag::CRASH_ONLY, title: "SECRET", ..New::default() };
        session.insert(1, Place::Last, &new).unwrap();
        flush(&session).unwrap();
        let before = disk.len();
        session.close(true).unwrap();
        let ops = disk.lock().ops.clone();
        let (mut medium, mut random) = (Medium::default(), Random(3));
        ops[..before].iter().for_each(|op| medium.apply(op));
        for at in before..=ops.len() {
            for cut in 0..20 {
                let files = match cut {
                    0 => medium.all(),
                    1 => medium.none(),
                    _ => medium.some(&mut random),
                };
                let left = Memory::new(files);
                let session = open(&left);
                assert_eq!(loaded(&session), Default::default());
                assert_eq!(&*session.get(1).unwrap().title, "round 1", "at {at} of {before}");
                assert!(session.len() == 21 || session.len() == 22);
                session.abandon();
            }
            if let Some(op) = ops.get(at) {
                medium.apply(op);
            }
        }
        assert!(ops.len() > before + 5);
    }
}

/// What waits for a save is lost when the process dies, and nothing else.
#[test]
fn an_end_without_a_save_is_the_state_of_the_last_one() {
    let disk: Arc<Memory> = Memory::new(HashMap::new());
    let session = open(&disk);
    loaded(&session);
    fill(&session, 4);
    flush(&session).unwrap();
    let before = whole(&session);
    titled(&session, 1, "not saved");
    session.abandon();
    let session = open(&disk);
    loaded(&session);
    assert_eq!(whole(&session), before);
}

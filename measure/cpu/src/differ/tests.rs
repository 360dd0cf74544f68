//! Tests: differences of starts whose owners are given, and of drawn ones.

use super::*;
use crate::analyze;
use crate::callers::Caller;
use crate::drawn;
use crate::path::Doing;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn owner(what: Does, ns: u64) -> Owner {
    Owner {
        what,
        thread: ThreadName { name: "app".into(), pid: 10, tid: 10 },
        phase: None,
        takers: Vec::new(),
        ns,
        share: 0.0,
        pieces: 1,
        samples: 3,
        low_ns: None,
        high_ns: None,
        confidence: Confidence::Measured,
        text: String::new(),
    }
}

fn runs(object: &str, function: &str, ns: u64) -> Owner {
    let source = Some(format!("{function}.c"));
    owner(Does::User { object: object.into(), function: Some(function.into()), source, caller: None }, ns)
}

fn initialises(object: &str, function: &str, ns: u64) -> Owner {
    let phase = Some(Phase::Initialisers { object: object.rsplit('/').next().unwrap().into() });
    Owner { phase, ..runs(object, function, ns) }
}

fn other(name: &str, doing: Doing, ns: u64) -> Owner {
    Owner { thread: ThreadName { name: name.into(), pid: 7, tid: 7 }, ..owner(Does::Other { doing }, ns) }
}

fn start(owners: Vec<Owner>) -> Report {
    Report { ready_ns: owners.iter().map(|owner| owner.ns).sum(), owners, ..Report::default() }
}

fn texts(rows: &[Changed]) -> Vec<(i64, &str)> {
    rows.iter().map(|row| (row.ns / MS as i64, &row.text[..])).collect()
}

#[test]
fn a_slower_start_has_its_causes_named_and_the_rest_is_said() {
    let at = |more: u64, jitter: u64| {
        let mut owners = vec![
            runs("/bin/app", "work", 100 * MS + jitter),
            initialises("/l/libfoo.so", "one", (1 + more * 20) * MS + jitter),
            initialises("/l/libfoo.so", "two", (1 + more * 11) * MS),
            other("dbus", Doing::Runs, (1 + more * 10) * MS),
            other("dbus", Doing::Waits, (1 + more * 2) * MS + jitter),
        ];
        if more > 0 {
            owners.push(owner(Does::Unexplained { why: "lost".into() }, 5 * MS));
        }
        start(owners)
    };
    let before: Vec<Report> = [0, 1000, 2000].map(|jitter| at(0, jitter)).into();
    let after: Vec<Report> = [500, 1500, 2500].map(|jitter| at(1, jitter)).into();
    let difference = differ(&before, &after).unwrap();
    let sentence = "+48.0 ms: 31.0 ms static initialisers of libfoo.so, 12.0 ms waiting for dbus, 5.0 ms not explained";
    assert_eq!(difference.text, sentence);
    assert_eq!((difference.before_ns, difference.after_ns), (104_003_000, 152_004_500));
    assert!(difference.low_ns.unwrap() < difference.ns && difference.ns < difference.high_ns.unwrap());
    assert_eq!(difference.not_explained_ns / MS as i64, 5);
    let owners = texts(&difference.owners);
    assert_eq!(owners[0], (20, "runs in one of libfoo.so (static initialisers of libfoo.so)"));
    assert_eq!(owners[1].0, 11);
    assert!(difference.owners.iter().map(|row| row.ns).sum::<i64>() == difference.ns);
    // The other way round it is faster.
    let faster = differ(&after, &before).unwrap();
    assert!(faster.text.starts_with("-48.0 ms: 31.0 ms static initialisers of libfoo.so, 12.0 ms"), "{}", faster.text);
}

#[test]
fn what_may_be_chance_is_not_named() {
    let at = |ns: u64| start(vec![runs("/bin/app", "noise", ns * MS), runs("/bin/app", "work", 50 * MS)]);
    let difference = differ(&[at(10), at(30), at(20)], &[at(15), at(40), at(23)]).unwrap();
    let noise = &difference.owners[0];
    assert!(noise.low_ns.unwrap() < 0 && noise.high_ns.unwrap() > 0, "{noise:?}");
    assert_eq!(difference.text, "+6.0 ms: 6.0 ms not explained");
}

#[test]
fn what_makes_up_for_something_has_its_sign() {
    let at = |a: u64, b: u64| start(vec![runs("/bin/app", "a", a * MS), runs("/bin/app", "b", b * MS)]);
    let difference = differ(&[at(10, 30), at(10, 30)], &[at(40, 10), at(40, 10)]).unwrap();
    assert_eq!(difference.text, "+10.0 ms: 30.0 ms runs in a of app, -20.0 ms runs in b of app");
}

#[test]
fn what_moved_is_the_same() {
    let called = |object: &str, line: u32| {
        let source = Some(format!("a.c:{line}"));
        let callers = vec![Caller { function: "load".into(), object: object.into(), source }];
        owner(Does::Waits { kind: Kind::Lock, call: None, function: None, callers }, 2 * MS)
    };
    let unnamed = |address: &str| {
        let caller = Caller { function: format!("libx.so.1+{address}"), object: "libx.so.1".into(), source: None };
        owner(Does::Waits { kind: Kind::Pipe, call: None, function: None, callers: vec![caller] }, MS)
    };
    let before = start(vec![
        runs("/usr/lib/libfoo.so.1.2.3", "parse", 9 * MS),
        called("libfoo.so.1.2.3", 7),
        unnamed("0x10"),
        initialises("/usr/lib/libbar-2.31.so", "init", MS),
        other("kworker/0:1", Doing::Runs, MS),
    ]);
    let after = start(vec![
        runs("/opt/lib/libfoo.so.2", "parse", 9 * MS),
        called("libfoo.so.2", 9),
        unnamed("0x20"),
        initialises("/usr/lib/libbar.so", "init", MS),
        other("kworker/3:0H", Doing::Runs, MS),
    ]);
    let difference = differ(&[before], &[after]).unwrap();
    assert!(difference.owners.iter().chain(&difference.causes).all(|row| row.ns == 0), "{difference:#?}");
    assert_eq!(difference.owners.len(), 5);
    for (path, name) in [("/l/libc.so.6", "libc.so"), ("libstdc++.so.6.0.30", "libstdc++.so"), ("/bin/app-2", "app-2")]
    {
        assert_eq!(unversioned(path), name);
    }
    assert_eq!(unversioned("/p/mod.cpython-311-x86_64-linux-gnu.so"), "mod.cpython-311-x86_64-linux-gnu.so");
    assert_eq!(unversioned("a.sound"), "a.sound");
    assert_eq!(unversioned("/lib64/ld-linux-x86-64.so.2"), "ld-linux-x86-64.so", "that is no version");
}

#[test]
fn single_starts_have_the_interval_of_their_samples_alone() {
    let sampled = |ns: u64, low: u64, high: u64| Owner {
        low_ns: Some(low * MS),
        high_ns: Some(high * MS),
        ..runs("/bin/app", "work", ns * MS)
    };
    let sleeps = |ns| owner(Does::Waits { kind: Kind::Sleep, call: None, function: None, callers: vec![] }, ns * MS);
    let difference =
        differ(&[start(vec![sampled(10, 6, 14), sleeps(5)])], &[start(vec![sampled(30, 27, 33), sleeps(6)])]).unwrap();
    // 20 ± √(3² + 4²)
    assert_eq!((difference.owners[0].low_ns, difference.owners[0].high_ns), (Some(15_000_000), Some(25_000_000)));
    assert_eq!((difference.owners[1].ns, difference.owners[1].low_ns), (1_000_000, None), "starts may differ by more");
    assert_eq!(difference.low_ns, None);
    let two = [start(vec![sleeps(5)]), start(vec![sleeps(5)])];
    assert_eq!(differ(&two, &[start(vec![sleeps(9)])]).unwrap().owners[0].low_ns, None);
    assert_eq!(differ(&[], &two), None);
}

#[test]
fn analyzed_starts_differ_by_what_was_drawn() {
    let starts = |lines: &[&str]| vec![analyze(&drawn::trace(2, lines), 10)];
    let before = starts(&["main|RRzzzRR"]);
    let after = starts(&["main|RRzzzzzzRddR"]);
    let difference = differ(&before, &after).unwrap();
    assert_eq!(difference.text, "+5.0 ms: 3.0 ms sleeps in clock_nanosleep, 2.0 ms waits for the disk in read");
    assert_eq!((difference.before_ns, difference.after_ns, difference.ns), (7_000_000, 12_000_000, 5_000_000));
}

proptest! {
    #[test]
    fn differences_add_up_exactly(
        before in prop::collection::vec(prop::collection::vec((0u8..6, 0u64..1000), 0..8), 1..5),
        after in prop::collection::vec(prop::collection::vec((0u8..6, 0u64..1000), 0..8), 1..5),
    ) {
        let report = |owners: &Vec<(u8, u64)>| {
            let one = |(what, ns): &(u8, u64)| match what {
                0 => runs("/bin/app", "f", *ns),
                1 => initialises("/l/liba.so", "f", *ns),
                2 => initialises("/l/liba.so", "g", *ns),
                3 => other("X", Doing::Runs, *ns),
                4 => owner(Does::Unexplained { why: "w".into() }, *ns),
                _ => owner(Does::CpuOfOthers, *ns),
            };
            start(owners.iter().map(one).collect())
        };
        let [old, new] = [&before, &after].map(|starts| starts.iter().map(report).collect::<Vec<_>>());
        let difference = differ(&old, &new).unwrap();
        let mean = |starts: &[Report]| starts.iter().map(|it| it.ready_ns).sum::<u64>() as f64 / starts.len() as f64;
        prop_assert!((difference.ns as f64 - (mean(&new) - mean(&old))).abs() <= 0.500_001);
        prop_assert_eq!(difference.owners.iter().map(|row| row.ns).sum::<i64>(), difference.ns);
        prop_assert_eq!(difference.causes.iter().map(|row| row.ns).sum::<i64>(), difference.ns);
        for row in &difference.owners {
            prop_assert!((row.ns - (row.after_ns as i64 - row.before_ns as i64)).abs() <= 2, "{:?}", row);
        }
    }
}

//! What a path must be, on traces by hand and on any.

use super::*;
use crate::trace::{Builder, Clock, Form, Phase, Wake};
use crate::waits::waits;
use Phase::{Done, Exec, Free, Mark, Wait};
use proptest::prelude::*;

/// A trace by hand: times in microseconds, objects and threads by number.
struct Scene(Builder);

impl Scene {
    fn new() -> Self {
        let mut builder = Builder::new(Form::Events, Clock { is_calibrated: true, ..Clock::default() });
        let process = builder.process(1, "scene");
        (0..4).for_each(|tid| {
            builder.thread(process, 100 + tid, "");
        });
        Self(builder)
    }

    fn says(mut self, us: u64, thread: u32, phase: Phase, object: u64, of: &str) -> Self {
        let of = self.0.type_of(of, "", 0);
        self.0.says(phase, us * 1000, thread, object, Some(of));
        self
    }

    fn shared(mut self, us: u64, thread: u32, phase: Phase, object: u64, of: &str) -> Self {
        let type_id = Some(self.0.type_of(of, "", 0));
        self.0.event(crate::trace::Event {
            at_ns: us * 1000,
            thread,
            phase,
            is_shared: true,
            object,
            type_id,
            other: None,
            text: None,
        });
        self
    }

    fn link(mut self, us: u64, thread: u32, from: u64, to: u64) -> Self {
        self.0.link(us * 1000, thread, from, to, None);
        self
    }

    fn name(mut self, object: u64, name: &str) -> Self {
        self.0.name(0, 0, object, name);
        self
    }

    /// Begin, end, object, type and class of each step, in microseconds.
    fn path(self, ends: Ends) -> (Vec<(u64, u64, String, Class)>, Path) {
        let path = path(&self.0.build(), ends).unwrap();
        holds(&path);
        (seen(&path), path)
    }
}

fn seen(path: &Path) -> Vec<(u64, u64, String, Class)> {
    let step = |step: &Step| {
        (step.at_ns / 1000, (step.at_ns + step.ns) / 1000, format!("{} {}", step.object, step.name), step.class)
    };
    path.steps.iter().map(step).collect()
}

/// Every nanosecond has one owner, and the sums say so.
fn holds(path: &Path) {
    let mut at = path.from_ns;
    for step in &path.steps {
        assert_eq!(step.at_ns, at);
        assert!(step.ns > 0);
        at += step.ns;
    }
    assert_eq!((at, path.to_ns - path.from_ns), (path.to_ns, path.span_ns));
    assert_eq!(path.classes.iter().map(|row| row.ns).sum::<u64>(), path.span_ns);
    assert_eq!(path.owners.iter().map(|owner| owner.work_ns + owner.wait_ns).sum::<u64>(), path.span_ns);
}

fn step(from: u64, to: u64, who: &str, class: Class) -> (u64, u64, String, Class) {
    (from, to, who.to_owned(), class)
}

#[test]
fn a_link_within_a_wait_says_who_released_it() {
    let (steps, path) = Scene::new()
        .says(0, 0, Exec, 1, "main")
        .says(10, 0, Wait, 2, "answer")
        .says(20, 1, Exec, 3, "server")
        .says(70, 1, Mark, 9, "x")
        .link(80, 1, 3, 2)
        .says(82, 1, Done, 3, "server")
        .says(90, 0, Exec, 2, "answer")
        .says(95, 0, Done, 2, "answer")
        .says(100, 0, Done, 1, "main")
        .path(Ends::default());
    assert_eq!(
        steps,
        [
            step(0, 20, "0x3 server", Class::Unexplained),
            step(20, 80, "0x3 server", Class::Work),
            step(80, 90, "0x2 answer", Class::Linked),
            step(90, 95, "0x2 answer", Class::Work),
            step(95, 100, "0x1 main", Class::Work),
        ]
    );
    assert_eq!(path.steps[2].via, Via::Nested);
    assert_eq!(path.steps[1].via, Via::Linked);
}

#[test]
fn clocks_of_two_threads_may_differ_by_two_hundred_nanoseconds() {
    let is_unexplained = |link_ns: u64| {
        let mut scene = Scene::new()
            .says(0, 1, Exec, 3, "server")
            .says(10, 0, Wait, 2, "answer")
            .says(90, 0, Exec, 2, "answer")
            .says(100, 0, Done, 2, "answer")
            .says(100, 1, Done, 3, "server");
        scene.0.link(link_ns, 1, 3, 2, None);
        let (steps, _) = scene.path(Ends { from: None, to: Some("answer") });
        steps.iter().any(|step| step.1 == 90 && step.3 == Class::Unexplained)
    };
    // At the beginning of the wait a link is what brought it about, behind its end it is of something else.
    let links = [10_150, 10_250, 90_000, 90_190, 90_250];
    assert_eq!(links.map(is_unexplained), [true, false, false, false, true]);
}

#[test]
fn who_held_the_connection_before_is_what_the_next_user_waited_for() {
    let (steps, path) = Scene::new()
        .name(7, "socket 1")
        .says(0, 0, Exec, 1, "request")
        .says(0, 0, Exec, 7, "pool::in_use")
        .link(1, 0, 7, 1)
        .says(5, 1, Exec, 2, "request")
        .says(5, 1, Wait, 2, "pool")
        .says(60, 0, Done, 7, "pool::in_use")
        .says(62, 1, Exec, 2, "pool")
        .says(62, 1, Exec, 7, "pool::in_use")
        .link(62, 1, 7, 2)
        .says(62, 1, Done, 2, "pool")
        .says(90, 0, Done, 1, "request")
        .says(100, 1, Done, 7, "pool::in_use")
        .says(100, 1, Done, 2, "request")
        .path(Ends::default());
    assert_eq!(
        steps,
        [
            step(0, 60, "0x1 request", Class::Work),
            step(60, 62, "0x2 pool", Class::Resource),
            step(62, 100, "0x2 request", Class::Work),
        ]
    );
    assert_eq!(path.steps[0].through, "socket 1");
}

#[test]
fn a_lock_is_a_resource_of_several_threads() {
    let (steps, _) = Scene::new()
        .says(0, 0, Exec, 1, "a")
        .shared(2, 0, Exec, 5, "lock")
        .says(1, 1, Exec, 2, "b")
        .shared(4, 1, Wait, 5, "lock")
        .shared(50, 0, Done, 5, "lock")
        .shared(51, 1, Exec, 5, "lock")
        .shared(60, 1, Done, 5, "lock")
        .says(55, 0, Done, 1, "a")
        .says(80, 1, Done, 2, "b")
        .path(Ends::default());
    assert_eq!(
        steps,
        [
            step(0, 2, "0x1 a", Class::Work),
            step(2, 50, "0x5 lock", Class::Work),
            step(50, 51, "0x5 lock", Class::Resource),
            step(51, 60, "0x5 lock", Class::Work),
            step(60, 80, "0x2 b", Class::Work),
        ]
    );
}

#[test]
fn what_a_thread_ran_between_post_and_run_is_what_the_task_waited_for() {
    let scene = || {
        Scene::new()
            .says(0, 0, Exec, 9, "main")
            .says(1, 0, Wait, 1, "task")
            .says(2, 0, Wait, 2, "task")
            .says(4, 0, Done, 9, "main")
            .says(3, 1, Exec, 1, "task")
            .says(50, 1, Done, 1, "task")
            .says(51, 1, Exec, 2, "task")
            .says(70, 1, Done, 2, "task")
    };
    let (steps, path) = scene().path(Ends::default());
    assert_eq!(
        steps,
        [
            step(0, 1, "0x9 main", Class::Work),
            step(1, 3, "0x1 task", Class::Unexplained),
            step(3, 50, "0x1 task", Class::Work),
            step(50, 51, "0x2 task", Class::Queue),
            step(51, 70, "0x2 task", Class::Work),
        ]
    );
    assert_eq!(path.steps[2].via, Via::Queue);
    let (steps, _) = scene().path(Ends { from: Some("5us"), to: Some("60us") });
    assert_eq!(steps[0], step(5, 50, "0x1 task", Class::Work));
    // A thread that had nothing to do for most of the wait explains nothing.
    let (steps, _) = Scene::new()
        .says(0, 1, Exec, 1, "task")
        .says(1, 0, Wait, 2, "task")
        .says(10, 1, Done, 1, "task")
        .says(100, 1, Exec, 2, "task")
        .says(110, 1, Done, 2, "task")
        .path(Ends::default());
    assert_eq!(steps[steps.len() - 2], step(0, 100, "0x2 task", Class::Unexplained));
}

#[test]
fn what_an_object_caused_is_a_guess_and_says_so() {
    let (steps, _) = Scene::new()
        .says(0, 0, Wait, 1, "parent")
        .says(5, 1, Exec, 2, "child")
        .link(5, 1, 1, 2)
        .says(40, 1, Done, 2, "child")
        .says(45, 2, Exec, 1, "parent")
        .says(60, 2, Done, 1, "parent")
        .path(Ends::default());
    assert_eq!(
        steps[steps.len() - 3..],
        [
            step(5, 40, "0x2 child", Class::Work),
            step(40, 45, "0x1 parent", Class::Heuristic),
            step(45, 60, "0x1 parent", Class::Work),
        ]
    );
}

#[test]
fn sockets_of_a_net_log_are_handed_over_though_all_is_written_by_one_thread_in_whole_milliseconds() {
    let clock = Clock { step_ns: 1_000_000, ..Clock::default() };
    let mut builder = Builder::new(Form::NetLog, clock);
    let process = builder.process(1, "browser");
    let thread = builder.thread(process, 1, "");
    let mut of = |name| Some(builder.type_of(name, "", 0));
    let (request, pool, in_use) = (of("REQUEST"), of("SOCKET_POOL"), of("SOCKET_IN_USE"));
    let ms = |ms: u64| ms * 1_000_000;
    for number in 1..4 {
        builder.says(Exec, 0, thread, number, request);
        builder.says(Wait, 0, thread, number, pool);
    }
    for (number, (from, to)) in [(5, 25), (25, 50), (50, 80)].into_iter().enumerate() {
        let number = number as u64 + 1;
        builder.says(Done, ms(from), thread, number, pool);
        builder.link(ms(from), thread, 9, number, None);
        builder.says(Exec, ms(from), thread, 9, in_use);
        builder.says(Done, ms(to), thread, 9, in_use);
        builder.says(Done, ms(to), thread, number, request);
    }
    let trace = builder.build();
    let path = path(&trace, Ends::default()).unwrap();
    holds(&path);
    let steps: Vec<_> =
        path.steps.iter().map(|step| (step.ns / 1_000_000, step.address, step.class, step.via)).collect();
    assert_eq!(
        steps,
        [
            (5, 1, Class::Unexplained, Via::Same),
            (20, 1, Class::Work, Via::Resource),
            (25, 2, Class::Work, Via::Resource),
            (30, 3, Class::Work, Via::End),
        ]
    );
    assert_eq!((path.contended[0].resource.as_str(), path.contended[0].handed_over), ("SOCKET_IN_USE", 2));
    assert_eq!(path.contended[0].ns, ms(45));
    let more = crate::replay::Change::Resource { name: "SOCKET_IN_USE".into(), capacity: 3 };
    let more = crate::replay::whatif(&trace, Ends::default(), &[more]).unwrap();
    assert_eq!((more.error, more.predicted_ns / 1_000_000), (0.0, 35));
}

#[test]
fn the_kernel_is_asked_where_the_events_do_not_tell() {
    let mut trace = Scene::new()
        .says(0, 1, Exec, 2, "writer")
        .says(5, 0, Wait, 1, "reader")
        .says(50, 0, Exec, 1, "reader")
        .says(60, 0, Done, 1, "reader")
        .says(55, 1, Done, 2, "writer")
        .0
        .build();
    let at = |us: u64| us * 1000;
    // One before the wait is nobody's.
    let wakes = [
        Wake { at_ns: at(4), thread: 0, by: Some(1), what: "early".into() },
        Wake { at_ns: at(49), thread: 0, by: Some(1), what: "writer's thread".into() },
    ];
    let before = waits(&trace, 10);
    trace.wakes = wakes.into();
    let path = path(&trace, Ends::default()).unwrap();
    holds(&path);
    assert_eq!(
        seen(&path),
        [
            step(0, 49, "0x2 writer", Class::Work),
            step(49, 50, "0x1 reader", Class::Kernel),
            step(50, 60, "0x1 reader", Class::Work),
        ]
    );
    assert_eq!(path.steps[0].through, "writer's thread");
    // An interrupt has nobody to go on with.
    trace.wakes[1] = Wake { by: None, what: "disk: /usr/lib/x".into(), ..trace.wakes[1].clone() };
    let path = crate::path(&trace, Ends::default()).unwrap();
    holds(&path);
    assert_eq!(seen(&path)[1..], [step(5, 50, "0x1 reader", Class::Kernel), step(50, 60, "0x1 reader", Class::Work)]);
    assert_eq!(path.steps[1].through, "disk: /usr/lib/x");
    let sums = waits(&trace, 10);
    // Nor has one of which nothing is known anything to say, nor lets it an earlier one speak.
    let mut unknown = trace.clone();
    unknown.wakes[0].at_ns = at(20);
    unknown.wakes[1].what = "".into();
    let path = crate::path(&unknown, Ends::default()).unwrap();
    holds(&path);
    assert!(path.steps.iter().all(|step| step.class != Class::Kernel && step.through.is_empty()), "{path:#?}");
    assert_ne!(format!("{before:?}"), format!("{sums:?}"));
    assert!(format!("{sums:?}").contains("disk: /usr/lib/x"), "{sums:?}");
}

#[test]
fn waits_in_a_circle_end_and_are_named() {
    // Two threads take two locks in two orders.
    let (_, path) = Scene::new()
        .name(5, "lock a")
        .name(6, "lock b")
        .shared(0, 0, Exec, 5, "lock")
        .shared(1, 1, Exec, 6, "lock")
        .shared(10, 0, Wait, 6, "lock")
        .shared(11, 1, Wait, 5, "lock")
        .says(100, 2, Mark, 9, "the end")
        .path(Ends { from: None, to: Some("lock a") });
    assert_eq!(path.circles.len(), 1, "{path:#?}");
    let mut circle = path.circles[0].clone();
    circle.sort();
    assert_eq!(circle, ["lock a", "lock b"]);
    assert_eq!(path.open, 4);
    // Links in a circle.
    let (_, path) = Scene::new()
        .says(0, 0, Wait, 1, "x")
        .says(0, 1, Wait, 2, "x")
        .link(50, 0, 1, 2)
        .link(50, 1, 2, 1)
        .says(100, 0, Exec, 1, "x")
        .says(110, 0, Done, 1, "x")
        .path(Ends::default());
    assert_eq!(path.circles, [["0x2", "0x1"]], "{path:#?}");
}

#[test]
fn an_address_that_was_freed_does_not_carry_over_what_the_former_object_did() {
    let (steps, _) = Scene::new()
        .says(0, 0, Exec, 5, "old")
        .says(10, 0, Done, 5, "old")
        .says(10, 0, Free, 5, "")
        .says(30, 1, Exec, 5, "new")
        .says(40, 1, Done, 5, "new")
        .path(Ends::default());
    assert_eq!(steps, [step(0, 30, "0x5 new", Class::Unexplained), step(30, 40, "0x5 new", Class::Work)]);
    // Without the word that it is gone it is one object.
    let (steps, _) = Scene::new()
        .says(0, 0, Exec, 5, "old")
        .says(10, 0, Done, 5, "old")
        .says(30, 1, Exec, 5, "new")
        .says(40, 1, Done, 5, "new")
        .path(Ends::default());
    assert_eq!(steps[1], step(10, 30, "0x5 new", Class::Heuristic));
}

#[test]
fn works_that_lie_across_one_another_block_no_queue() {
    // One thread tells of many requests at once: it is a track, and explains nothing.
    let (steps, _) = Scene::new()
        .says(0, 0, Exec, 1, "request")
        .says(10, 0, Exec, 2, "request")
        .says(50, 0, Done, 1, "request")
        .says(20, 0, Wait, 3, "request")
        .says(60, 0, Exec, 3, "request")
        .says(70, 0, Done, 2, "request")
        .says(90, 0, Done, 3, "request")
        .path(Ends::default());
    assert_eq!(steps[0].3, Class::Unexplained, "{steps:?}");
    assert_eq!(steps.last(), Some(&step(60, 90, "0x3 request", Class::Work)));
}

#[test]
fn ends_that_are_not_there_or_the_wrong_way_round_are_errors() {
    let trace = Scene::new().says(0, 0, Exec, 1, "a::b").says(9, 0, Done, 1, "a::b").0.build();
    for (from, to) in [(None, Some("c")), (Some("9us"), Some("a::b")), (Some("a::b"), Some("0ms"))] {
        assert!(path(&trace, Ends { from, to }).is_err(), "{from:?} {to:?}");
    }
    assert!(path(&trace, Ends { from: Some("a::"), to: Some("0x1") }).is_ok());
    assert!(path(&Trace::default(), Ends::default()).is_err());
}

/// How often the walk asked, of how many intervals.
fn asked(trace: &Trace) -> (u64, u64) {
    let model = Model::of(trace);
    let (from, to) = moments(&model, Ends::default()).unwrap();
    let walked = walk(&model, from, to);
    holds(&told(&model, from, to.at, &walked));
    (walked.steps, model.all().len() as u64)
}

#[test]
fn a_walk_asks_a_few_times_for_each_interval_whatever_the_trace() {
    let mut lane = Scene::new();
    for number in 0..350_000 {
        let thread = (number % 2) as u32;
        lane = lane.says(3 * number, thread, Wait, 7, "job").says(3 * number + 1, 2, Exec, 7, "job");
        lane = lane.says(3 * number + 2, 2, Done, 7, "job");
    }
    let (steps, intervals) = asked(&lane.0.build());
    assert!(intervals == 350_000 && steps < 4 * intervals, "{steps}");
    // All posted at once, one thread, one object; links in heaps at one moment.
    let mut heap = Scene::new();
    for number in 0..50_000 {
        heap = heap.says(0, 0, Wait, 7, "job").link(1, 0, 8 + number % 3, 7).link(1, 0, 7, 8 + number % 3);
    }
    for number in 0..50_000 {
        heap = heap.says(10 + number, 2, Exec, 7, "job").says(11 + number, 2, Done, 7, "job");
    }
    let (steps, intervals) = asked(&heap.0.build());
    assert!(intervals == 50_000 && steps < 8 * intervals, "{steps}");
}

#[test]
fn five_thousand_threads_and_seventy_thousand_types_are_walked() {
    let mut builder = Builder::new(Form::Events, Clock::default());
    let process = builder.process(1, "many");
    for number in 0..70_000_u64 {
        let thread = builder.thread(process, (number % 5000) as u32, "");
        let of = builder.type_of(&format!("a::{number}"), "", 0);
        builder.says(Wait, 10 * number, thread, number, Some(of));
        builder.link(10 * number + 1000, thread, number.wrapping_sub(1), number, Some(of));
        builder.says(Exec, 10 * number + 1000, thread, number, Some(of));
        builder.says(Done, 10 * number + 2000, thread, number, Some(of));
    }
    let (steps, intervals) = asked(&builder.build());
    assert!(intervals == 70_000 && steps < 4 * intervals, "{steps}");
}

prop_compose! {
    fn events()(all in prop::collection::vec(
        (0..400_u64, 0..3_u32, 0..7_u8, 1..6_u64, 0..4_u32, 1..6_u64, any::<bool>()),
        1..80,
    ), step in prop::sample::select(vec![1, 100, u64::MAX / 400])) -> Trace {
        let mut builder = Builder::new(Form::Events, Clock::default());
        let process = builder.process(1, "any");
        (0..3).for_each(|tid| { builder.thread(process, tid, ""); });
        let types = ["a", "b::in_use", "c", "d"].map(|name| builder.type_of(name, "", 0));
        for (at, thread, kind, object, of, other, is_shared) in all {
            let phase = [Mark, Wait, Exec, Done, Phase::Link, Free, Exec][usize::from(kind)];
            builder.event(crate::trace::Event {
                at_ns: at * step,
                thread,
                phase,
                is_shared,
                object,
                type_id: Some(types[of as usize]),
                other: (phase == Phase::Link).then_some(other),
                text: None,
            });
        }
        builder.build()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_nanosecond_has_exactly_one_owner_in_any_trace(trace in events()) {
        for to in [None, Some("a"), Some("c"), Some("20us"), Some("0x2")] {
            if let Ok(path) = path(&trace, Ends { from: None, to }) {
                holds(&path);
            }
        }
        crate::waits::waits(&trace, 10);
        let changes = [
            crate::replay::Change::Faster { name: "*".into(), factor: 2.0 },
            crate::replay::Change::Without { name: "a".into() },
        ];
        for changes in [&changes[..], &changes[..1], &[]] {
            // A replay may come to a standstill; it may not say something that is none.
            if let Ok(it) = crate::replay::whatif(&trace, Ends::default(), changes) {
                prop_assert!(it.error.is_finite() && it.median_error.is_finite());
            }
        }
    }
}

//! From what was taken down to names, with recordings made by hand and stacks of a real program.

mod stopped;

use cpu::{
    Context, Frame, Given, Raw, RawMapping, RawSample, RawSwitch, RawTask, RawWake, StackId, Tick, Trace, UserState,
    Waker, Went, What, resolve,
};
use model::Nanos;
use std::collections::HashMap;
use std::path::Path;
use stopped::{built, functions_in, named, stopped};
use symbols::{Kernel, PerfMap};

const KERNEL: &[u8] = b"ffffffff81000000 T schedule\nffffffff81000100 t futex_wait\n\
    ffffffff81000200 T try_to_wake_up\nffffffff81000300 D data\nffffffff81000400 T handle_softirqs\n\
    ffffffff81000500 T __x64_sys_sendto\nffffffff81000600 T asm_sysvec_apic_timer_interrupt\n\
    ffffffff81000700 T last\nffffffffc0100000 t of_module\t[virtio]\n";
const SCHEDULE: u64 = 0xffff_ffff_8100_0010;
/// Where `futex_wait` is returned to: its end, which is the beginning of the next function.
const FUTEX_WAIT: u64 = 0xffff_ffff_8100_0200;
const WAKE_UP: u64 = 0xffff_ffff_8100_0210;
const OF_MODULE: u64 = 0xffff_ffff_c010_0040;

fn task(at: u64, pid: u32, tid: u32, what: What) -> RawTask {
    RawTask { at: Nanos(at), pid, tid, what }
}

fn began(at: u64, pid: u32, tid: u32, parent_pid: u32, parent_tid: u32) -> RawTask {
    task(at, pid, tid, What::Began { parent_pid, parent_tid })
}

fn switch(at: u64, (from, from_name): (u32, &str), state: u64, (to, to_name): (u32, &str)) -> RawSwitch {
    let (from_name, to_name) = (from_name.to_owned(), to_name.to_owned());
    RawSwitch { at: Nanos(at), cpu: 1, from, from_name, state, to, to_name }
}

fn wake(at: u64, by: u32, context: Context, woken: u32, new: bool) -> RawWake {
    RawWake { at: Nanos(at), cpu: 0, by, context, woken, new }
}

fn sample(at: u64, tid: u32, tick: Tick, kernel: &[u64], ip: Option<u64>) -> RawSample {
    let user = ip.map(|ip| UserState { ip, ..UserState::default() });
    RawSample { at: Nanos(at), pid: 100, tid, cpu: 0, tick, kernel: kernel.to_vec(), user }
}

/// With the kernel and the code above.
fn resolved(raw: &Raw) -> Trace {
    let kernel = Kernel::parse(KERNEL);
    let made = HashMap::from([(100, PerfMap::parse(b"7000 100 made one\n"))]);
    let root = Path::new("/");
    resolve(raw, &Given { ready: Nanos(90_000), ready_by: Some(100), cpus: 2, root, kernel: &kernel, made: &made })
}

fn labels(trace: &Trace, stack: Option<StackId>) -> Vec<String> {
    trace.stacks.walk(stack).map(Frame::label).collect()
}

#[test]
fn threads_are_those_of_the_tree_and_those_that_cpus_went_over_to() {
    let raw = Raw {
        root: 100,
        tasks: vec![
            began(0, 100, 100, 50, 50),
            task(1, 100, 100, What::Named("sh".into())),
            began(10, 100, 101, 100, 100),
            task(11, 100, 101, What::Named("worker".into())),
            began(20, 102, 102, 100, 101),
            task(25, 102, 102, What::Executed),
            task(26, 102, 102, What::Named("child".into())),
            task(30, 102, 102, What::Ended),
            began(40, 100, 103, 100, 100),
        ],
        switches: vec![
            switch(5, (100, "sh"), 1, (7, "kworker/0:1")),
            switch(6, (7, "kworker/0:1-x"), 0x80, (0, "swapper/0")),
            switch(50, (8, "other"), 32, (100, "renamed")),
        ],
        wakes: vec![wake(45, 8, Context::Thread, 9, true), wake(46, 0, Context::Interrupt, 100, false)],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    let told: Vec<_> = trace
        .threads
        .iter()
        .map(|it| (it.tid, it.pid, &*it.name, it.of_tree, it.made_by, it.start.0, it.end.map(|end| end.0)))
        .collect();
    assert_eq!(
        told,
        [
            (100, 100, "sh", true, None, 0, None),
            (7, 7, "kworker/0:1-x", false, None, 0, None),
            (8, 8, "other", false, None, 0, Some(50)),
            (101, 100, "worker", true, Some(100), 10, None),
            (102, 102, "child", true, Some(101), 20, Some(30)),
            (103, 100, "sh", true, Some(100), 40, None),
            (9, 9, "", false, Some(8), 45, None),
        ]
    );
    let went: Vec<Went> = trace.switches.iter().map(|switch| switch.went).collect();
    assert_eq!(went, [Went::Asleep, Went::Held, Went::Ended]);
    assert_eq!((trace.root, trace.ready, trace.ready_by, trace.cpus), (100, Nanos(90_000), Some(100), 2));
}

#[test]
fn a_switch_has_the_stack_that_was_taken_down_behind_it() {
    let leaves = |at, tid| sample(at, tid, Tick::Leaves, &[SCHEDULE, FUTEX_WAIT], Some(0x7010));
    let raw = Raw {
        root: 100,
        tasks: vec![began(0, 100, 100, 50, 50), began(1, 100, 101, 100, 100)],
        switches: vec![
            switch(10_000, (100, "a"), 1, (0, "")),
            switch(10_500, (101, "b"), 1, (0, "")),
            switch(12_000, (100, "a"), 1, (0, "")),
            switch(90_000, (100, "a"), 1, (0, "")),
            switch(95_000, (100, "a"), 1, (0, "")),
            switch(190_000, (100, "a"), 1, (0, "")),
            switch(191_000, (0, ""), 0, (100, "a")),
            switch(199_000, (6, "other"), 1, (0, "")),
            switch(200_000, (100, "a"), 1, (0, "")),
        ],
        samples: vec![
            sample(9_000, 100, Tick::Clock, &[], Some(0x7010)),
            leaves(10_004, 100),
            leaves(39_999, 100),
            leaves(95_001, 100),
            leaves(192_000, 100),
            leaves(199_000, 6),
            leaves(900_000, 100),
        ],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    let known: Vec<bool> = trace.switches.iter().map(|switch| switch.stack.is_some()).collect();
    // The kernel tells of a switch before it counts it. Another thread's; a little behind it; none before the next one;
    // at once; the thread was back before; to it; none of the tree; long behind it, for the host had stopped the CPU.
    assert_eq!(known, [true, false, true, false, true, false, false, false, true]);
    assert_eq!(labels(&trace, trace.switches[0].stack), ["schedule", "futex_wait", "made one"]);
    assert_eq!(trace.samples.len(), 1, "only the clock's are samples");
}

#[test]
fn a_wake_has_the_stack_of_who_woke() {
    let wakes = |at, woken| sample(at, 100, Tick::Wakes(woken), &[WAKE_UP, OF_MODULE], Some(0x7010));
    let raw = Raw {
        root: 100,
        tasks: vec![began(0, 100, 100, 50, 50)],
        wakes: vec![
            wake(1_000, 100, Context::Thread, 7, false),
            wake(1_001, 100, Context::Thread, 8, false),
            wake(2_000, 100, Context::Interrupt, 7, false),
            wake(3_000, 100, Context::Thread, 9, true),
        ],
        samples: vec![wakes(990, 7), wakes(995, 8), wakes(1_990, 7)],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    let told: Vec<_> = trace.wakes.iter().map(|wake| (wake.by, wake.woken, labels(&trace, wake.stack))).collect();
    let all = ["try_to_wake_up", "of_module [virtio]", "made one"].map(str::to_owned);
    assert_eq!(told[0], (Waker::Thread(100), 7, all.to_vec()));
    assert_eq!(told[1], (Waker::Thread(100), 8, all.to_vec()));
    assert_eq!(told[2], (Waker::Interrupt, 7, all[..2].to_vec()), "what it interrupted is not the reason");
    assert_eq!(told[3], (Waker::Thread(100), 9, vec![]));
    assert!(trace.wakes[3].new);
}

#[test]
fn what_a_thread_does_in_a_soft_interrupt_of_its_own_system_call_it_does_itself() {
    const SOFT: u64 = 0xffff_ffff_8100_0410;
    const SENDTO: u64 = 0xffff_ffff_8100_0510;
    const TIMER: u64 = 0xffff_ffff_8100_0610;
    let wakes = |at, kernel: &[u64]| sample(at, 100, Tick::Wakes(7), kernel, Some(0x7010));
    let by_interrupt = |at| wake(at, 100, Context::Interrupt, 7, false);
    let raw = Raw {
        root: 100,
        tasks: vec![began(0, 100, 100, 50, 50)],
        wakes: [100_000, 200_000, 300_000, 400_000, 500_000].map(by_interrupt).to_vec(),
        samples: vec![
            wakes(100_000, &[WAKE_UP, SOFT, SENDTO]),
            // A device interrupted the system call; the program; the system call's soft interrupt.
            wakes(200_000, &[WAKE_UP, SOFT, TIMER, SENDTO]),
            wakes(300_000, &[WAKE_UP, SOFT]),
            wakes(400_000, &[WAKE_UP, TIMER, SOFT, SENDTO]),
        ],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    let by: Vec<Waker> = trace.wakes.iter().map(|wake| wake.by).collect();
    let interrupt = Waker::Interrupt;
    assert_eq!(by, [Waker::Thread(100), interrupt, interrupt, interrupt, interrupt]);
    let all = ["try_to_wake_up", "handle_softirqs", "__x64_sys_sendto", "made one"];
    assert_eq!(labels(&trace, trace.wakes[0].stack), all);
    assert_eq!(labels(&trace, trace.wakes[2].stack), all[..2], "what it interrupted is not the reason");
}

#[test]
fn what_nothing_names_has_an_address() {
    let raw = Raw {
        root: 100,
        samples: vec![
            sample(1, 100, Tick::Clock, &[0xffff_ffff_8100_0310], None),
            sample(2, 100, Tick::Clock, &[], Some(0x7100)),
            sample(3, 100, Tick::Clock, &[], Some(0x7000)),
        ],
        cannot: vec!["known before".into()],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    let frame = |index: usize| trace.stacks.walk(trace.samples[index].stack).next().unwrap().clone();
    let kernel = Frame { object: Frame::KERNEL.into(), address: 0xffff_ffff_8100_0310, ..Frame::default() };
    assert_eq!(frame(0), kernel);
    assert_eq!(frame(1), Frame { address: 0x7100, ..Frame::default() });
    assert_eq!(frame(2), Frame { function: Some("made one".into()), ..Frame::default() });
    assert_eq!(trace.samples.iter().map(|it| it.in_kernel).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(trace.cannot.first().unwrap(), "known before");
    // Without the kernel's list it says so once, and only if somebody asks.
    let asked = named(&raw);
    assert_eq!(asked.cannot.iter().filter(|it| *it == "not asked").count(), 1);
    let not_asked = named(&Raw { samples: raw.samples[1..].to_vec(), ..raw });
    assert!(!not_asked.cannot.contains(&"not asked".to_owned()));
}

#[test]
fn what_is_mapped_depends_on_the_time() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = built(&["cc", "-O2", "-fno-optimize-sibling-calls"], "deep.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let mut raw = stopped.raw();
    let pid = stopped.pid;
    let child = pid + 1;
    let sample = raw.samples[0].clone();
    let at = |at, pid| RawSample { at: Nanos(at), pid, tid: pid, ..sample.clone() };
    raw.mappings.iter_mut().for_each(|mapping| mapping.at = Nanos(10));
    let again: Vec<RawMapping> = raw.mappings.iter().map(|it| RawMapping { at: Nanos(50), ..it.clone() }).collect();
    raw.mappings.extend(again);
    raw.tasks = vec![
        began(0, pid, pid, 1, 1),
        task(5, pid, pid, What::Executed),
        began(30, child, child, pid, pid),
        task(35, child, child, What::Executed),
        task(40, pid, pid, What::Executed),
    ];
    raw.samples = vec![at(9, pid), at(10, pid), at(30, child), at(35, child), at(41, pid), at(50, pid)];
    let trace = named(&raw);
    let one = |index: usize| {
        let samples = vec![trace.samples[index].clone()];
        functions_in(&Trace { samples, ..trace.clone() }, &[&program]).len()
    };
    let counts: Vec<usize> = (0..6).map(one).collect();
    assert_eq!(counts, [0, 45, 45, 0, 0, 45]);
    // One file, opened once: each function is a frame once.
    let frames = trace.stacks.frames().iter().filter(|it| it.function.as_deref() == Some("main"));
    assert_eq!(frames.count(), 1);
}

#[test]
fn a_recording_that_makes_no_sense_is_resolved_too() {
    let raw = Raw {
        root: 1,
        tasks: vec![task(5, 2, 3, What::Ended), began(4, 9, 9, 9, 9), task(1, 1, 1, What::Executed)],
        mappings: vec![RawMapping {
            at: Nanos(7),
            pid: 100,
            addresses: std::ops::Range { start: u64::MAX - 1, end: 3 },
            offset: u64::MAX,
            dev: 0,
            ino: 5,
            path: "/proc/self/exe".into(),
        }],
        switches: vec![switch(9, (0, ""), 0xffff, (0, "")), switch(1, (3, "x"), 0, (0, ""))],
        wakes: vec![wake(9, 0, Context::Thread, 0, true)],
        samples: vec![RawSample {
            user: Some(UserState { ip: 0, sp: u64::MAX, bp: 1, bx: 1, stack: 5..10_000 }),
            ..sample(9, 100, Tick::Leaves, &[0, u64::MAX], None)
        }],
        ..Raw::default()
    };
    let trace = resolved(&raw);
    assert_eq!(trace.threads.iter().map(|it| it.tid).collect::<Vec<_>>(), [1, 3, 9]);
    assert!(trace.threads.iter().all(|thread| thread.tid != 0));
}

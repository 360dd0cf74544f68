//! A made-up start whose times are all round: a program reads, makes a helper process and a thread, waits for the
//! thread's lock, and loses its CPU to another program.

use cpu::{Frame, Sample, StackId, Switch, Thread, Trace, Wake, Waker, Went};
use model::Nanos;

const MAIN: u32 = 100;
const WORKER: u32 = 101;
const HELPER: u32 = 200;
const OTHER: u32 = 900;

fn ms(count: u64) -> Nanos {
    Nanos(count * 1_000_000)
}

/// Functions of one object, innermost first, below those of the kernel.
fn stack(trace: &mut Trace, kernel: &[&str], object: &str, functions: &[&str]) -> Option<StackId> {
    let named = |name: &&str, object: &str| Frame {
        function: Some((*name).to_owned()),
        object: object.to_owned(),
        source: (object != Frame::KERNEL).then(|| format!("{name}.c:12")),
        ..Frame::default()
    };
    let kernel = kernel.iter().map(|name| named(name, Frame::KERNEL));
    let frames: Vec<Frame> = kernel.chain(functions.iter().map(|name| named(name, object))).collect();
    let numbers: Vec<_> = frames.into_iter().map(|frame| trace.stacks.frame(frame)).collect();
    trace.stacks.stack(&numbers)
}

fn thread(tid: u32, pid: u32, name: &str, start: u64, end: Option<u64>) -> Thread {
    let made_by = (tid != MAIN && tid != OTHER).then_some(MAIN);
    Thread { tid, pid, name: name.to_owned(), of_tree: tid != OTHER, made_by, start: ms(start), end: end.map(ms) }
}

/// 100 ms: 25 ms of the program and 5 ms of the kernel in its first thread, 20 ms of the disk, 30 ms of its worker
/// that holds a lock, 5 ms twice of a CPU that another one has; a helper runs 27 ms beside that.
pub fn start() -> Trace {
    let mut trace =
        Trace { root: MAIN, ready: ms(100), ready_by: Some(MAIN), cpus: 2, tick: ms(5), ..Trace::default() };
    trace.threads = vec![
        thread(MAIN, 100, "app", 0, None),
        thread(OTHER, 900, "make", 0, None),
        thread(HELPER, 200, "helper", 32, Some(60)),
        thread(WORKER, 100, "worker", 35, None),
    ];
    let app = "/usr/bin/app";
    let entry = "entry_SYSCALL_64_after_hwframe";
    let read = ["schedule", "io_schedule", "folio_wait_bit_common", "filemap_read", "__x64_sys_read", entry];
    let disk = stack(&mut trace, &read, app, &["load", "main"]);
    let futex = ["schedule", "futex_do_wait", "__futex_wait", "__x64_sys_futex", entry];
    let lock = stack(&mut trace, &futex, app, &["take", "show", "main"]);
    let nanosleep = ["schedule", "do_nanosleep", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep", entry];
    let sleep = stack(&mut trace, &nanosleep, app, &["idle", "work"]);
    let mut switch = |at, cpu, from, went, to, stack| {
        trace.switches.push(Switch { at: ms(at), cpu, from, went, to, stack });
    };
    switch(10, 0, MAIN, Went::Held, 0, disk);
    switch(30, 0, 0, Went::Preempted, MAIN, None);
    switch(33, 1, 0, Went::Preempted, HELPER, None);
    switch(40, 0, MAIN, Went::Asleep, WORKER, lock);
    switch(60, 1, HELPER, Went::Ended, 0, None);
    switch(70, 0, WORKER, Went::Asleep, MAIN, sleep);
    switch(75, 0, MAIN, Went::Preempted, OTHER, None);
    switch(80, 0, OTHER, Went::Preempted, MAIN, None);
    for (at, by, woken, new) in [
        (30, Waker::Interrupt, MAIN, false),
        (32, Waker::Thread(MAIN), HELPER, true),
        (35, Waker::Thread(MAIN), WORKER, true),
        (70, Waker::Thread(WORKER), MAIN, false),
    ] {
        trace.wakes.push(Wake { at: ms(at), by, woken, new, stack: None });
    }
    sampled(&mut trace, app, entry);
    trace
}

fn sampled(trace: &mut Trace, app: &str, entry: &str) {
    let parse = stack(trace, &[], app, &["parse", "load", "main"]);
    let draw = stack(trace, &[], app, &["draw", "show", "main"]);
    let open = stack(trace, &["link_path_walk", "do_sys_openat2", "__x64_sys_openat", entry], app, &["load", "main"]);
    let work = stack(trace, &[], "/usr/lib/libimage.so.6", &["decode", "work"]);
    let help = stack(trace, &[], "/usr/libexec/helper", &["count", "main"]);
    let samples = [
        (2, MAIN, parse),
        (7, MAIN, parse),
        (32, MAIN, open),
        (37, MAIN, parse),
        (72, MAIN, draw),
        (82, MAIN, draw),
        (87, MAIN, draw),
        (92, MAIN, draw),
        (97, MAIN, draw),
        (42, WORKER, work),
        (47, WORKER, work),
        (52, WORKER, work),
        (57, WORKER, work),
        (62, WORKER, work),
        (67, WORKER, work),
        (35, HELPER, help),
        (40, HELPER, help),
        (45, HELPER, help),
        (50, HELPER, help),
        (55, HELPER, help),
    ];
    for (at, tid, stack) in samples {
        let at = ms(at) + Nanos(500_000);
        trace.samples.push(Sample { at, tid, in_kernel: stack == open, stack });
    }
    trace.samples.sort_by_key(|sample| sample.at);
}

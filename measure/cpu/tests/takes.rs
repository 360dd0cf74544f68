//! Starts that are taken down for real: what the programs do is known.

use cpu::{Context, Options, Raw, RawSample, RawSwitch, RawWake, Recorder, Tick, What};
use model::{Bytes, Nanos};
use os::cgroup::RunCgroup;
use os::spawn::{Launch, Stream, spawn_gated};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Spins for 300 ms of CPU time in `spin`, which asks for the time so rarely that nearly all of it is its own.
const SPIN: &str = r"
#include <time.h>
static long used(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
__attribute__((noinline)) void spin(long until) {
    volatile long count = 0;
    do { for (int i = 0; i < 100000; i++) count++; } while (used() < until);
}
int main(void) { spin(used() + 300000000L); return 0; }
";

/// Two threads that hand a number to and fro, 300 times each, by a futex.
const HAND: &str = r"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
static _Atomic int turn;
static void *play(void *of) {
    int mine = (int)(long)of;
    for (int i = 0; i < 300; i++) {
        int other;
        while ((other = turn) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, other, 0, 0, 0);
        turn = 1 - mine;
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
    return 0;
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, play, (void *)1);
    play((void *)0);
    pthread_join(other, 0);
    return 0;
}
";

/// Asleep: a signal would end it.
const S: u64 = 1;

/// One at a time: they look for what others leave behind.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recorder that may do everything; `None`, counted as skipped: not here.
fn recorder(options: &Options) -> Option<Recorder> {
    if !testing::root_or_skip() {
        return None;
    }
    let (recorder, warnings) = Recorder::open(options).map_err(|error| testing::skip(&error.to_string())).ok()?;
    if let Some(warning) = warnings.first() {
        testing::skip(&warning.text);
        return None;
    }
    Some(recorder)
}

fn take(recorder: &mut Recorder, argv: &[OsString]) -> Raw {
    take_in(recorder, argv, None)
}

/// In a control group, as starts are that thaw measures.
fn take_in(recorder: &mut Recorder, argv: &[OsString], group: Option<&RunCgroup>) -> Raw {
    let mut launch = Launch::new(argv);
    launch.stdout = Stream::Null;
    launch.cgroups = group.map(|group| group.enter_fds().unwrap()).unwrap_or_default();
    let gated = spawn_gated(launch).unwrap();
    let pid = gated.pid();
    recorder.attach(pid).unwrap();
    let mut running = gated.release().unwrap();
    assert_eq!(running.wait().unwrap().code, Some(0));
    let raw = recorder.stop(running.t0_ns()).unwrap();
    assert_eq!(raw.root, pid);
    raw
}

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).to_vec()
}

/// A program where its addresses are those that `nm` says, with frame pointers.
fn built(home: &Path, source: &str) -> Option<PathBuf> {
    let (text, program) = (home.join("a.c"), home.join("a"));
    std::fs::write(&text, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-fno-omit-frame-pointer", "-no-pie", "-pthread", "-o"]).args([&program, &text]);
    testing::compiled(&mut compiler).then_some(program)
}

/// Where a function is.
fn place(program: &Path, function: &str) -> std::ops::Range<u64> {
    let said = String::from_utf8(Command::new("nm").arg("-S").arg(program).output().unwrap().stdout).unwrap();
    let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = words.filter(|words| words.last() == Some(&function)).find(|words| words.len() == 4).unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    number(found[0])..number(found[0]) + number(found[1])
}

/// The threads of the tree.
fn tree(raw: &Raw) -> BTreeSet<u32> {
    let began = raw.tasks.iter().filter(|task| matches!(task.what, What::Began { .. }));
    began.map(|task| task.tid).chain([raw.root]).collect()
}

/// The word at an address of the stack of a sample, if it was taken.
fn word(raw: &Raw, sample: &RawSample, address: u64) -> Option<u64> {
    let user = sample.user.as_ref()?;
    let stack = &raw.stacks[user.stack.clone()];
    let at = usize::try_from(address.checked_sub(user.sp)?).ok()?;
    Some(u64::from_ne_bytes(stack.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The switches away from a thread, each with the next one to it.
fn absences(raw: &Raw, tid: u32) -> Vec<(&RawSwitch, Option<&RawSwitch>)> {
    let of_it = raw.switches.iter().filter(|switch| switch.from == tid || switch.to == tid).collect::<Vec<_>>();
    let pairs = of_it.iter().enumerate().filter(|(_, switch)| switch.from == tid);
    pairs.map(|(index, switch)| (*switch, of_it.get(index + 1).copied())).collect()
}

/// Whether the switch before it on its CPU, if there is one, went to another thread than the one that this one leaves.
fn comes_from_nowhere(raw: &Raw, switch: &RawSwitch) -> bool {
    let before = raw.switches.iter().rev().skip_while(|other| *other != switch).skip(1);
    before.clone().find(|other| other.cpu == switch.cpu).is_none_or(|other| other.to != switch.from)
}

/// What the machine allows to know, but for threads that it tells nothing of.
fn cannot(raw: &Raw) -> Vec<&String> {
    raw.cannot.iter().filter(|sentence| !sentence.contains("which thread a CPU ran")).collect()
}

/// What holds of everything that is taken down.
fn is_sound(raw: &Raw) {
    assert_eq!(raw.lost, 0, "nothing that follows could be sure");
    assert!(raw.samples.is_sorted_by_key(|sample| sample.at) && raw.tasks.is_sorted_by_key(|task| task.at));
    assert!(raw.switches.is_sorted_by_key(|switch| switch.at) && raw.wakes.is_sorted_by_key(|wake| wake.at));
    let tree = tree(raw);
    let alien = raw.samples.iter().find(|sample| !tree.contains(&sample.tid));
    assert!(alien.is_none(), "samples are of the tree {tree:?}: {alien:?}");
    for tid in &tree {
        let of_it = raw.switches.iter().filter(|switch| switch.from == *tid || switch.to == *tid).collect::<Vec<_>>();
        for two in of_it.windows(2) {
            // It goes and comes in turn, or how it came was not told, and that this is so is said.
            let untold = two.iter().all(|switch| switch.from == *tid) && comes_from_nowhere(raw, two[1]);
            assert!((two[0].to == *tid) != (two[1].to == *tid) || untold, "thread {tid}: {two:?}");
            assert!(!untold || raw.cannot.iter().any(|sentence| sentence.contains("which thread a CPU ran")));
        }
    }
    // Where it left is told by a sample right after each switch away from it; not when it has ended and is still in
    // the kernel.
    for tid in &tree {
        let end = raw.tasks.iter().find(|task| task.tid == *tid && task.what == What::Ended).map(|task| task.at);
        let samples: Vec<&RawSample> =
            raw.samples.iter().filter(|sample| sample.tid == *tid && sample.tick == Tick::Leaves).collect();
        let left = absences(raw, *tid).into_iter().filter_map(|(left, back)| Some((left, back?)));
        let left: Vec<_> = left.filter(|(left, _)| end.is_none_or(|end| left.at < end)).collect();
        for (left, back) in &left {
            let within = samples.iter().filter(|sample| (left.at..back.at).contains(&sample.at));
            assert_eq!(within.filter(|sample| sample.cpu == left.cpu).count(), 1, "thread {tid} at {:?}", left.at);
        }
        assert!(samples.len() >= left.len() && samples.len() <= left.len() + 1, "thread {tid}");
    }
}

#[test]
fn a_program_that_spins_is_seen_in_its_function_as_often_as_its_clock_ticks() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options::default()) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(program) = built(home.path(), SPIN) else { return };
    // With a clock of its thread, and with those of the CPUs.
    is_seen_as_often_as_it_ticks(&take(&mut recorder, &[program.clone().into()]), &program, false);
    match RunCgroup::create("test-takes") {
        Ok(group) => {
            let raw = take_in(&mut recorder, &[program.clone().into()], Some(&group));
            is_seen_as_often_as_it_ticks(&raw, &program, true);
        }
        Err(error) => testing::skip(&error.to_string()),
    }
}

fn is_seen_as_often_as_it_ticks(raw: &Raw, program: &Path, by_cpu: bool) {
    is_sound(raw);
    let clock: Vec<_> = raw.samples.iter().filter(|sample| sample.tick == Tick::Clock).collect();
    let (spin, main) = (place(program, "spin"), place(program, "main"));
    let inside: Vec<_> =
        clock.iter().filter(|sample| sample.user.as_ref().is_some_and(|user| spin.contains(&user.ip))).collect();
    // More ticks than there are, nobody sees, but one more in each turn by a CPU's clock, which goes on while others
    // run; a virtual machine that is stopped for several of them sees one.
    let ticks = 300_000_000 / raw.tick.0 as usize;
    let turns = if by_cpu { raw.switches.iter().filter(|switch| switch.to == raw.root).count() } else { 0 };
    assert!(inside.len() <= ticks + 2 + turns && inside.len() > ticks / 8, "{} of {ticks}", inside.len());
    assert!(inside.iter().all(|sample| sample.tid == raw.root && sample.pid == raw.root));
    let callers = inside.iter().filter(|sample| {
        let bp = sample.user.as_ref().map_or(0, |user| user.bp);
        word(raw, sample, bp + 8).is_some_and(|caller| main.contains(&caller))
    });
    assert!(callers.count() * 10 > inside.len() * 9, "the frame pointer leads to main");
    let own = raw.mappings.iter().find(|mapping| mapping.path.ends_with("a") && mapping.pid == raw.root).unwrap();
    assert!(own.addresses.contains(&spin.start) && own.ino > 0);
    assert!(raw.own > Nanos(0) && cannot(raw).is_empty());
    let asked = Options::default().period.0;
    assert!((asked * 97 / 100..=asked * 103 / 100).contains(&raw.tick.0));
}

#[test]
fn who_hands_over_to_whom_is_told_with_each_sleep_and_each_wake() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options { wake_stacks: true, ..Options::default() }) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(program) = built(home.path(), HAND) else { return };
    let raw = take(&mut recorder, &[program.clone().into()]);
    is_sound(&raw);
    let both: Vec<u32> = tree(&raw).into_iter().collect();
    let [one, two] = both[..] else { panic!("{both:?}") };
    let mut sleeps = 0;
    for (tid, other) in [(one, two), (two, one)] {
        for (left, back) in absences(&raw, tid) {
            let Some(back) = back.filter(|_| left.state == S) else { continue };
            sleeps += 1;
            // Who wakes a thread that is about to leave says so before it has left.
            let came = raw.switches.iter().rev().find(|switch| switch.to == tid && switch.at < left.at);
            let came = came.map_or(Nanos(0), |switch| switch.at);
            let woke = raw.wakes.iter().filter(|wake| (came..=back.at).contains(&wake.at) && wake.woken == tid);
            let woke: Vec<_> = woke.map(|wake| (wake.by, wake.context)).collect();
            assert_eq!(woke.last(), Some(&(other, Context::Thread)), "at {:?}", left.at);
        }
    }
    assert!(sleeps > 0, "they never waited for each other");
    // The kernel tells both threads of a wake; it is one.
    let count = |by, woken| {
        // What it does when it has ended and is still in the kernel has no sample.
        let ended = raw.tasks.iter().find(|task| task.tid == by && task.what == What::Ended).unwrap().at;
        let wakes = raw.wakes.iter().filter(|wake| !wake.new && (wake.by, wake.woken) == (by, woken));
        let wakes = wakes.filter(|wake| wake.context == Context::Thread && wake.at < ended).count();
        (wakes, raw.samples.iter().filter(|sample| sample.tid == by && sample.tick == Tick::Wakes(woken)).count())
    };
    let counts = [count(one, two), count(two, one)];
    assert!(counts.iter().any(|(wakes, _)| *wakes > 0) && counts.iter().all(|(wakes, samples)| wakes == samples));
    let told = |sample: &&RawSample| matches!(sample.tick, Tick::Wakes(_) | Tick::Leaves);
    assert!(raw.samples.iter().filter(told).all(|sample| !sample.kernel.is_empty()), "it is in the kernel then");
    let has_registers = |sample: &&RawSample| sample.user.as_ref().is_some_and(|user| user.ip > 0);
    assert!(raw.samples.iter().filter(told).any(|sample| has_registers(&sample)), "registers are there");
    for tid in both {
        // A thread that ends has no registers any more, once it has let go of its memory.
        let of_it = raw.samples.iter().filter(|sample| sample.tid == tid).filter(told);
        let mut last = of_it.skip_while(has_registers);
        assert!(last.all(|sample| sample.user.is_none()), "registers are there until it ends");
    }
    let began = raw.tasks.iter().find(|task| task.tid != raw.root).unwrap();
    assert_eq!(began.what, What::Began { parent_pid: raw.root, parent_tid: raw.root });
    assert!(raw.wakes.iter().any(|wake| wake.new && wake.woken == began.tid && wake.by == raw.root));
}

/// A thread that reads 20 bytes by TCP, one by one, and one that sends each when its reader waits.
const SEND: &str = r"
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
static int ends[2];
static void *reads(void *nothing) {
    char byte;
    for (int i = 0; i < 20; i++) if (read(ends[1], &byte, 1) != 1) _exit(2);
    return nothing;
}
int main(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int listens = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listens, (void *)&at, size) || listen(listens, 1)) return 3;
    if (getsockname(listens, (void *)&at, &size)) return 4;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (void *)&at, size) || (ends[1] = accept(listens, 0, 0)) < 0) return 5;
    pthread_t reader;
    pthread_create(&reader, 0, reads, 0);
    for (int i = 0; i < 20; i++) {
        usleep(2000);
        if (write(ends[0], &i, 1) != 1) return 6;
    }
    pthread_join(reader, 0);
    return 0;
}
";

#[test]
fn who_sends_by_tcp_is_known_though_a_soft_interrupt_wakes() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options::default()) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(program) = built(home.path(), SEND) else { return };
    let raw = take(&mut recorder, &[program.into_os_string()]);
    let began = |task: &&cpu::RawTask| task.tid != raw.root && matches!(task.what, What::Began { .. });
    let reader = raw.tasks.iter().find(began).unwrap().tid;
    let of_it = |wake: &&cpu::RawWake| (wake.by, wake.woken) == (raw.root, reader) && !wake.new;
    if raw.wakes.iter().filter(of_it).all(|wake| wake.context == Context::Thread) {
        return testing::skip("this kernel delivers packets without soft interrupts");
    }
    let given = cpu::Given {
        ready: Nanos(u64::MAX),
        ready_by: None,
        cpus: 1,
        root: Path::new("/"),
        kernel: &symbols::Kernel::running(),
        made: &std::collections::HashMap::new(),
    };
    if given.kernel.is_err() {
        return testing::skip("the kernel's functions are not to be had");
    }
    let trace = cpu::resolve(&raw, &given);
    let by = |by| trace.wakes.iter().filter(|wake| wake.woken == reader && !wake.new && wake.by == by).count();
    // The timer of the sender may have woken it late: then some were read at once.
    assert!(by(cpu::Waker::Thread(raw.root)) > 0, "{:?}", trace.wakes);
}

#[test]
fn a_timer_wakes_from_an_interrupt() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options::default()) else { return };
    let raw = take(&mut recorder, &["sleep", "0.02"].map(OsString::from));
    is_sound(&raw);
    let long = absences(&raw, raw.root).into_iter().filter_map(|(left, back)| Some((left, back?)));
    let long: Vec<_> = long.filter(|(left, back)| left.state == S && back.at - left.at >= Nanos(20_000_000)).collect();
    let [(left, back)] = long[..] else { panic!("{long:?}") };
    let woke = raw.wakes.iter().filter(|wake| (left.at..=back.at).contains(&wake.at) && wake.woken == raw.root);
    assert_eq!(woke.map(|wake| wake.context).collect::<Vec<_>>(), [Context::Interrupt]);
    assert_eq!(left.from_name, "sleep");
}

#[test]
fn children_and_what_they_execute_are_in_the_tasks() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options::default()) else { return };
    let raw = take(&mut recorder, &shell("/bin/cat /dev/null; exit 0"));
    is_sound(&raw);
    let of = |pid| raw.tasks.iter().filter(move |task| task.pid == pid).map(|task| &task.what).collect::<Vec<_>>();
    let [child] = tree(&raw).into_iter().filter(|tid| *tid != raw.root).collect::<Vec<_>>()[..] else { panic!() };
    let began = What::Began { parent_pid: raw.root, parent_tid: raw.root };
    let named = |name: &str| What::Named(name.into());
    assert_eq!(of(child), [&began, &What::Executed, &named("cat"), &What::Ended]);
    assert_eq!(of(raw.root), [&What::Executed, &named("sh"), &What::Ended]);
    for (pid, name) in [(raw.root, "libc.so.6"), (child, "cat"), (child, "libc.so.6")] {
        let has = raw.mappings.iter().any(|mapping| mapping.pid == pid && mapping.path.ends_with(name));
        assert!(has, "{name} of {pid}: {:?}", raw.mappings);
    }
    let executed = raw.tasks.iter().find(|task| (task.pid, &task.what) == (child, &What::Executed)).unwrap();
    let mapped = raw.mappings.iter().filter(|mapping| mapping.pid == child && mapping.path.ends_with("cat"));
    assert!(mapped.clone().count() > 0 && mapped.clone().all(|mapping| mapping.at >= executed.at));
}

#[test]
fn what_does_not_fit_is_counted() {
    let _alone = alone();
    let options = Options { ring: Bytes(4096), ..Options::default() };
    let Some(mut recorder) = recorder(&options) else { return };
    let raw = take(&mut recorder, &shell("for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exit 0"));
    // A stack of 4 KiB and its record do not fit into a ring of 4 KiB.
    let left = tree(&raw).into_iter().flat_map(|tid| absences(&raw, tid)).filter(|(_, back)| back.is_some()).count();
    let told = raw.samples.iter().filter(|sample| sample.tick == Tick::Leaves).count();
    assert!(left > told, "{left} {told}");
    // What is lost of children is told by the next record that fits: of the last losses there is none.
    assert!(raw.lost >= (left - told) as u64 / 2, "{} of {left}", raw.lost);
}

#[test]
fn without_rights_the_program_alone_is_seen_and_the_rest_is_said() {
    let _alone = alone();
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim() != "2" {
        return testing::skip(&format!("perf_event_paranoid is {}", paranoid.trim()));
    }
    let busy = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 0");
    let (raw, warnings) = testing::as_ordinary_user(|| {
        // A process that changed its user is nobody's to look at, nor are its children before their exec.
        // SAFETY: this prctl takes plain numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }, 0);
        let (mut recorder, warnings) = Recorder::open(&Options { wake_stacks: true, ..Options::default() }).unwrap();
        (take(&mut recorder, &busy), warnings)
    });
    assert!(!raw.samples.is_empty());
    assert!(raw.samples.iter().all(|sample| sample.kernel.is_empty() && sample.tick == Tick::Clock));
    assert!(raw.samples.iter().all(|sample| sample.user.as_ref().is_some_and(|user| !user.stack.is_empty())));
    assert!(raw.switches.is_empty() && raw.wakes.is_empty());
    assert!(raw.tasks.iter().any(|task| task.what == What::Executed) && !raw.mappings.is_empty());
    for what in ["what the kernel did", "went to sleep", "when threads ran and waited", "woke others"] {
        assert!(raw.cannot.iter().any(|sentence| sentence.contains(what)), "{what}: {:?}", raw.cannot);
    }
    assert!(warnings.len() == raw.cannot.len() && warnings.iter().all(|warning| !warning.text.is_empty()));
}

#[test]
fn wakers_without_stacks_are_still_known() {
    let _alone = alone();
    let Some(mut recorder) = recorder(&Options::default()) else { return };
    let raw = take(&mut recorder, &shell("/bin/true; exit 0"));
    is_sound(&raw);
    // Of wakes by interrupts they are taken all the same.
    let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
    for sample in &raw.samples {
        if let Tick::Wakes(woken) = sample.tick {
            *taken.entry(woken).or_default() += 1;
        }
    }
    for (woken, times) in taken {
        let is_its = |wake: &&RawWake| wake.woken == woken && wake.context == Context::Interrupt;
        assert!(times <= raw.wakes.iter().filter(is_its).count(), "thread {woken}: {times} stacks");
    }
    let tree = tree(&raw);
    assert!(raw.wakes.iter().any(|wake| tree.contains(&wake.by) && tree.contains(&wake.woken)));
}

/// Trace buffers and threads of ours.
fn left() -> Option<BTreeMap<String, usize>> {
    let script = "mount -t tracefs tracefs /sys/kernel/tracing && ls /sys/kernel/tracing/instances";
    let said = Command::new("unshare").args(["-m", "sh", "-c", script]).output().ok()?;
    if !said.status.success() {
        testing::skip(&String::from_utf8_lossy(&said.stderr));
        return None;
    }
    let mine = format!("thaw-sched-{}-", std::process::id());
    let buffers = String::from_utf8_lossy(&said.stdout).lines().filter(|name| name.starts_with(&mine)).count();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let threads = names.filter(|name| ["thaw-perf", "thaw-tracefs"].contains(&name.trim())).count();
    Some(BTreeMap::from([("buffers".into(), buffers), ("threads".into(), threads)]))
}

#[test]
fn a_recorder_that_is_dropped_or_stopped_leaves_nothing() {
    let _alone = alone();
    let Some(mut first) = recorder(&Options::default()) else { return };
    let gated = spawn_gated(Launch::new(["true"])).unwrap();
    first.attach(gated.pid()).unwrap();
    let Some(running) = left() else { return };
    assert_eq!(running, BTreeMap::from([("buffers".into(), 1), ("threads".into(), 2)]));
    drop(first);
    let nothing = BTreeMap::from([("buffers".to_owned(), 0), ("threads".into(), 0)]);
    assert_eq!(left().unwrap(), nothing);
    let Some(mut second) = recorder(&Options::default()) else { return };
    take(&mut second, &shell("exit 0"));
    assert_eq!(left().unwrap(), nothing);
    assert!(second.stop(0).is_err(), "it is not attached");
}

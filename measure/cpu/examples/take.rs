//! Takes down one start of a command and says how much of each kind there is, what was lost, and what it cost. With
//! `rounds N` it compares the CPU time of a command (all its processes) with and without, in turn; with `cold 1` the
//! machine's caches are dropped before each start; with `group 0` the command is in no control group of its own.
//!
//! ```sh
//! cargo run --release -p cpu --example take -- [period-us N] [stack N] [sleep-stack N] [wake-stacks 0] [rounds N] \
//!     [cold 1] [group 0] -- true
//! ```

use cpu::{Given, Options, Raw, Recorder, Tick, What};
use model::{Bytes, Error, Exit, Nanos, Result};
use os::cgroup::RunCgroup;
use os::spawn::{Launch, Stream, become_subreaper, spawn_gated, wait_for_descendants};
use std::collections::HashMap;
use std::path::Path;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::new(Exit::Usage, "this is no use of it:", "[period-us N] … -- COMMAND");
    let end = words.iter().position(|word| word == "--").ok_or_else(usage)?;
    let (mut options, mut rounds, mut cold, mut grouped) = (Options::default(), 0, false, true);
    for pair in words[..end].chunks(2) {
        let [name, number] = pair else { return Err(usage()) };
        let number: u64 = number.parse().map_err(|_| usage())?;
        match name.as_str() {
            "period-us" => options.period = Nanos(number * 1000),
            "stack" => options.stack = Bytes(number),
            "sleep-stack" => options.sleep_stack = Bytes(number),
            "wake-stacks" => options.wake_stacks = number > 0,
            "rounds" => rounds = number,
            "cold" => cold = number > 0,
            "group" => grouped = number > 0,
            _ => return Err(usage()),
        }
    }
    become_subreaper()?;
    // As thaw does it, where it may.
    let group = RunCgroup::create("take").ok().filter(|_| grouped);
    let group = group.as_ref();
    let argv = &words[end + 1..];
    let (mut recorder, warnings) = Recorder::open(&options)?;
    warnings.iter().for_each(|warning| println!("warning: {}", warning.text));
    if rounds == 0 {
        let (raw, used, wall) = run(Some(&mut recorder), argv, group, cold)?;
        say(&raw.ok_or_else(usage)?);
        println!("CPU of the program {used}, wall {wall}");
        return Ok(());
    }
    let mut both = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let (_, plain, wall_plain) = run(None, argv, group, cold)?;
        let (raw, taken, wall) = run(Some(&mut recorder), argv, group, cold)?;
        let raw = raw.ok_or_else(usage)?;
        let lost = format!("lost {}, lost switches {}", raw.lost, raw.lost_switches);
        println!("{round}: without {plain} (wall {wall_plain}), with {taken} (wall {wall}), own {}, {lost}", raw.own);
        both[0].push(plain);
        both[1].push(taken);
    }
    let [plain, taken] = both.map(|mut all| {
        all.sort();
        [all[0], all[all.len() / 2]]
    });
    let more = |plain: Nanos, taken: Nanos| (taken.seconds() / plain.seconds() - 1.0) * 100.0;
    let ([least_plain, plain], [least_taken, taken]) = (plain, taken);
    println!("medians: {plain} -> {taken}, {:+.1} %", more(plain, taken));
    println!("least: {least_plain} -> {least_taken}, {:+.1} %", more(least_plain, least_taken));
    Ok(())
}

/// One start: what was taken down, CPU time of all its processes, time to its end.
fn run(
    recorder: Option<&mut Recorder>,
    argv: &[String],
    group: Option<&RunCgroup>,
    cold: bool,
) -> Result<(Option<Raw>, Nanos, Nanos)> {
    if cold {
        drop_caches()?;
    }
    let before = children_used();
    let mut launch = Launch::new(argv);
    (launch.stdout, launch.stderr) = (Stream::Null, Stream::Null);
    launch.cgroups = group.map(RunCgroup::enter_fds).transpose()?.unwrap_or_default();
    let gated = spawn_gated(launch)?;
    let mut recorder = recorder;
    if let Some(recorder) = &mut recorder {
        recorder.attach(gated.pid())?;
    }
    let mut running = gated.release()?;
    let ended = running.wait()?;
    let raw = recorder.map(|recorder| recorder.stop(running.t0_ns())).transpose()?;
    wait_for_descendants(|_| ());
    Ok((raw, children_used() - before, Nanos(ended.at_ns - running.t0_ns())))
}

fn drop_caches() -> Result<()> {
    const FILE: &str = "/proc/sys/vm/drop_caches";
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::sync() };
    std::fs::write(FILE, "3").map_err(|cause| Error::new(Exit::Machine, "cannot drop the caches", FILE).because(cause))
}

/// CPU time of all processes that we reaped.
fn children_used() -> Nanos {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes during the call; all zero bytes are a valid structure.
    let used = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, used.as_mut_ptr());
        used.assume_init()
    };
    let time = |time: libc::timeval| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000);
    time(used.ru_utime) + time(used.ru_stime)
}

fn say(raw: &Raw) {
    let ticks = |wanted: fn(&Tick) -> bool| raw.samples.iter().filter(|sample| wanted(&sample.tick)).count();
    println!(
        "clock {} (every {}), leaves {}, wakes another {}; with registers {}",
        ticks(|tick| *tick == Tick::Clock),
        raw.tick,
        ticks(|tick| *tick == Tick::Leaves),
        ticks(|tick| matches!(tick, Tick::Wakes(_))),
        raw.samples.iter().filter(|sample| sample.user.is_some()).count()
    );
    let executed = raw.tasks.iter().filter(|task| task.what == What::Executed).count();
    println!("tasks {} (executed {executed}), mappings {}", raw.tasks.len(), raw.mappings.len());
    println!("switches {}, wakes {} of the machine", raw.switches.len(), raw.wakes.len());
    println!(
        "stacks {}, lost {}, lost switches {}, own CPU {}",
        Bytes(raw.stacks.len() as u64),
        raw.lost,
        raw.lost_switches,
        raw.own
    );
    // Also how many stacks are told in part: what more of them would tell.
    let given = Given {
        ready: Nanos(u64::MAX),
        ready_by: None,
        cpus: os::cpu::online(),
        root: Path::new("/"),
        kernel: &symbols::Kernel::running(),
        made: &HashMap::new(),
    };
    cpu::resolve(raw, &given).cannot.iter().for_each(|sentence| println!("cannot: {sentence}"));
}

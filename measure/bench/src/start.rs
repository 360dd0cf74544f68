//! One start: from the launch to the last reaped process.
//!
//! The clock runs from just before exec until the first probe fires. What a start costs (CPU time, I/O, instructions)
//! is read at that moment; page faults and the largest resident set are known only when a process is reaped, so they
//! are of its whole life. The kernel's figure of the largest resident set goes back to before exec: it is never below
//! what thaw itself had at the fork.

use crate::conduct::{Outcome, Tracer, blank_row};
use crate::drain::Drain;
use crate::meters::Reading;
use crate::program::{Program, Success};
use crate::ready::{self, Fired, Output, Probe, Tree, View};
use crate::states::Beat;
use model::{CacheState, Error, Milestone, Nanos, Result, RunKind, RunRow, Warning, WarningKind};
use os::cgroup::RunCgroup;
use os::covers::Covers;
use os::perf::{Count, Counter};
use os::spawn::{Ended, Launch, Running, Usage};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// How often to see whether the last process is gone, when there is nothing that would wake us.
const GONE_INTERVAL: Duration = Duration::from_millis(5);

/// Longest sleep: the progress goes on.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Which run this is.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    pub variant: u32,
    pub state: CacheState,
    pub kind: RunKind,
}

/// Starts a program once.
pub(crate) fn start(
    program: &Program,
    which: Which,
    cgroup: Option<&Rc<RunCgroup>>,
    drain: Option<&Drain>,
    mut tracer: Option<&mut dyn Tracer>,
    beat: &mut Beat<'_>,
) -> Result<Outcome> {
    // Orphans of an earlier run that took their time.
    os::spawn::reap_all();
    let mut launch = launch(program, cgroup)?;
    if let Some(tracer) = &mut tracer {
        launch.env.extend(tracer.environment()?.into_iter().map(|(name, value)| (name, Some(value))));
    }
    let mut output = Output::prepare(program.output, &program.ready, &mut launch)?;
    let mut probes = ready::probes(&program.ready);
    for probe in &mut probes {
        probe.prepare(&mut launch)?;
    }
    let before = Tree::children_of_thaw(cgroup);
    let gated = os::spawn::spawn_gated(launch)?;
    let tree = Tree::new(gated.pid(), cgroup.cloned(), before);
    let counters = Counters::open(tree.main);
    for probe in &mut probes {
        probe.arm(&tree)?;
    }
    if let Some(tracer) = &mut tracer {
        tracer.attach(tree.main)?;
    }
    let _draining = drain.map(Drain::empty).transpose()?;
    drain.map_or(Ok(()), Drain::is_left)?;
    let faults_before = faults(tree.main);
    let started_unix_ns = unix_ns();
    let first = Reading::now(cgroup.map(Rc::as_ref));
    let mut alive = Alive { running: gated.release()?, tree: &tree, over: false };
    let mut watch = Watch::new(program, &tree, &mut output, probes, &counters);
    let watched = watch.until_ready(&mut alive.running, beat);
    let Watch { fired, at_clock, ended, .. } = watch;
    let detached = tracer.map_or(Ok(()), |tracer| tracer.detach(alive.running.t0_ns()));
    let stop = watched?;
    let (last, usage) = alive.end(program.grace, &mut output, beat)?;
    detached?;
    let mut row = blank_row(which.variant, which.state, which.kind, started_unix_ns);
    let t0_ns = alive.running.t0_ns();
    fill_usage(&mut row, usage, faults_before);
    fill_meters(&mut row, &first, at_clock);
    fill_times(&mut row, program, t0_ns, &fired, ended.as_ref());
    row.rejected_because = refuse(program, stop, &row, ended.as_ref());
    row.accepted = row.rejected_because.is_none();
    let milestones =
        fired.into_iter().map(|fired| Milestone { name: fired.name, at_ns: Nanos(fired.at_ns.saturating_sub(t0_ns)) });
    let mut milestones: Vec<Milestone> = milestones.collect();
    milestones.sort_by_key(|milestone| milestone.at_ns);
    let warnings = warnings(program, stop, &row, &milestones, last);
    Ok(Outcome { row, milestones, disturbed: None, output_tail: output.tail(), warnings })
}

fn launch(program: &Program, cgroup: Option<&Rc<RunCgroup>>) -> Result<Launch> {
    let mut launch = Launch::new(program.argv.iter().cloned());
    launch.env = program.env.clone();
    launch.cwd = program.cwd.clone();
    launch.user = program.user.clone();
    launch.covers = Covers::new(program.covers.iter().map(|(seen, place)| (&**seen, &**place)))?;
    if let Some(group) = cgroup {
        launch.cgroups = group.enter_fds()?;
    }
    Ok(launch)
}

/// Hardware counters, where the machine has them.
struct Counters {
    instructions: Option<Counter>,
    cycles: Option<Counter>,
}

impl Counters {
    fn open(pid: u32) -> Self {
        let open = |count| Counter::open(count, pid).ok().flatten();
        Self { instructions: open(Count::Instructions), cycles: open(Count::Cycles) }
    }
}

/// What the clock's stop found.
struct AtClock {
    reading: Reading,
    instructions: Option<u64>,
    cycles: Option<u64>,
}

/// Why the watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Every probe fired.
    Ready,
    /// No process is left.
    Gone,
    /// The time was over.
    Timeout,
}

/// Waits for the probes.
struct Watch<'a> {
    program: &'a Program,
    tree: &'a Tree,
    output: &'a mut Output,
    probes: Vec<Awaited>,
    counters: &'a Counters,
    /// Milestones that are awaited; the first stops the clock.
    names: Vec<String>,
    fired: Vec<Fired>,
    at_clock: Option<AtClock>,
    ended: Option<Ended>,
}

struct Awaited {
    probe: Box<dyn Probe>,
    /// When to look at the latest.
    due: Option<Instant>,
}

impl Awaited {
    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        self.probe.look(view, fired)?;
        self.due = self.probe.interval().map(|interval| Instant::now() + interval);
        Ok(())
    }
}

impl<'a> Watch<'a> {
    fn new(
        program: &'a Program,
        tree: &'a Tree,
        output: &'a mut Output,
        probes: Vec<Box<dyn Probe>>,
        counters: &'a Counters,
    ) -> Self {
        let names = ready::milestones(&program.ready);
        let probes = probes.into_iter().map(|probe| Awaited { probe, due: None }).collect();
        Self { program, tree, output, probes, counters, names, fired: Vec::new(), at_clock: None, ended: None }
    }

    fn until_ready(&mut self, running: &mut Running, beat: &mut Beat<'_>) -> Result<Stop> {
        let until = Instant::now() + self.program.timeout;
        self.look(running, None)?;
        loop {
            if self.names.iter().all(|name| self.has_fired(name)) {
                return Ok(Stop::Ready);
            }
            if self.ended.is_some() && self.tree.is_gone() {
                // What it did last may not have been seen yet.
                self.look(running, None)?;
                return Ok(if self.has_fired(&self.names[0]) { Stop::Ready } else { Stop::Gone });
            }
            if Instant::now() >= until {
                return Ok(Stop::Timeout);
            }
            let woken = self.sleep(running, until, beat.listens())?;
            self.look(running, Some(&woken))?;
            beat.beat()?;
        }
    }

    fn has_fired(&self, name: &str) -> bool {
        self.fired.iter().any(|fired| fired.name == name)
    }

    /// Sleeps until something happens, Ctrl-C too if that is heard; says which probes were woken.
    fn sleep(&self, running: &Running, until: Instant, listens: bool) -> Result<Vec<bool>> {
        let mut fds = Vec::new();
        let mut owners = Vec::new();
        for (index, awaited) in self.probes.iter().enumerate() {
            for (fd, flags) in awaited.probe.wakers() {
                fds.push(PollFd::from_borrowed_fd(fd, flags));
                owners.push(index);
            }
        }
        fds.extend(self.output.wakers().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        fds.extend(os::interrupt::fd().filter(|_| listens).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if self.ended.is_none() {
            fds.push(PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN));
        }
        let mut wake = until.min(Instant::now() + LONGEST_SLEEP);
        if self.ended.is_some() {
            wake = wake.min(Instant::now() + GONE_INTERVAL);
        }
        wake = self.probes.iter().filter_map(|awaited| awaited.due).fold(wake, Instant::min);
        poll(&mut fds, wake)?;
        let mut woken = vec![false; self.probes.len()];
        for (fd, owner) in fds.iter().zip(owners) {
            woken[owner] |= !fd.revents().is_empty();
        }
        Ok(woken)
    }

    /// Looks at everything that was woken or is due; at everything without `woken`.
    fn look(&mut self, running: &mut Running, woken: Option<&[bool]>) -> Result<()> {
        let mut all = woken.is_none();
        if self.ended.is_none() {
            self.ended = running.try_wait()?;
            all |= self.ended.is_some();
        }
        let mut fired = Vec::new();
        let view = View { tree: self.tree, exit_at_ns: self.ended.map(|ended| ended.at_ns) };
        for (index, awaited) in self.probes.iter_mut().enumerate() {
            let is_due = awaited.due.is_some_and(|due| due <= Instant::now());
            if all || is_due || woken.is_some_and(|woken| woken[index]) {
                awaited.look(&view, &mut fired)?;
            }
        }
        self.output.look(&mut fired);
        for fired in fired {
            if !self.has_fired(&fired.name) {
                self.fired.push(fired);
            }
        }
        if self.at_clock.is_none() && self.has_fired(&self.names[0]) {
            self.at_clock = Some(AtClock {
                reading: Reading::now(self.tree.cgroup.as_deref()),
                instructions: self.counters.instructions.as_ref().and_then(|counter| counter.read().ok()),
                cycles: self.counters.cycles.as_ref().and_then(|counter| counter.read().ok()),
            });
        }
        Ok(())
    }
}

/// Sleeps until a descriptor is ready or it is time.
pub(crate) fn poll(fds: &mut [PollFd<'_>], wake: Instant) -> Result<()> {
    let left = wake.saturating_duration_since(Instant::now());
    let timeout = rustix::time::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match rustix::event::poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::bug("cannot wait for descriptors").because(std::io::Error::from(error))),
    }
}

/// A run's processes. Whatever happens, nobody outlives it.
struct Alive<'a> {
    running: Running,
    tree: &'a Tree,
    over: bool,
}

impl Alive<'_> {
    /// SIGTERM to the first process's group, its time to end, SIGKILL for everybody who is left. Returns how many had
    /// to be killed, and what all reaped processes used.
    fn end(&mut self, grace: Duration, output: &mut Output, beat: &mut Beat<'_>) -> Result<(usize, Usage)> {
        let mut used = Used::default();
        let until = Instant::now() + grace;
        if !self.is_gone(&mut used)? && !grace.is_zero() {
            self.ask_to_end();
            while Instant::now() < until && !self.is_gone(&mut used)? {
                // It may have something to say before it ends, and must not wait for us.
                let mut fds: Vec<_> = output.wakers().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
                poll(&mut fds, until.min(Instant::now() + GONE_INTERVAL))?;
                output.look(&mut Vec::new());
                // Ctrl-C does not cut the grace short: this run is measured and will be kept.
                let _ = beat.beat();
            }
        }
        let killed = self.kill(&mut used)?;
        output.look(&mut Vec::new());
        Ok((killed, used.0))
    }

    fn is_gone(&mut self, used: &mut Used) -> Result<bool> {
        if let (false, Some(ended)) = (self.over, self.running.try_wait()?) {
            self.over = true;
            used.add(&ended.usage);
        }
        used.reap();
        Ok(self.over && self.tree.is_gone())
    }

    /// The group of the first process, as a terminal or a service manager does it; if nobody of it is left, everybody.
    fn ask_to_end(&self) {
        let pids: Vec<Pid> = self.tree.pids().into_iter().filter_map(|pid| Pid::from_raw(pid as i32)).collect();
        let Some(main) = Pid::from_raw(self.tree.main as i32) else { return };
        let has_group = pids.iter().any(|&pid| rustix::process::getpgid(Some(pid)).is_ok_and(|group| group == main));
        if has_group {
            // A process that is gone meanwhile is what was wanted.
            let _ = rustix::process::kill_process_group(main, Signal::TERM);
            return;
        }
        for pid in pids {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }

    /// Ends everybody now.
    fn kill(&mut self, used: &mut Used) -> Result<usize> {
        let mut killed = 0;
        if !self.over {
            // A descendant of ours that is no member (yet) of the group dies with this.
            self.running
                .signal(libc::SIGKILL)
                .or_else(|error| if self.tree.cgroup.is_some() { Ok(()) } else { Err(error) })?;
        }
        match &self.tree.cgroup {
            Some(group) => killed += group.kill_all(Duration::ZERO)?,
            None => {
                while !self.tree.is_gone() {
                    for pid in self.tree.pids() {
                        killed += usize::from(
                            Pid::from_raw(pid as i32)
                                .is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok()),
                        );
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    used.reap();
                }
            }
        }
        if !self.over {
            self.over = true;
            used.add(&self.running.wait()?.usage);
        }
        used.reap();
        Ok(killed)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        // After an error or an interrupt. After `end` there is nobody left.
        let _ = self.kill(&mut Used::default());
    }
}

/// What reaped processes used, summed; the resident set is the largest of one process.
#[derive(Default)]
struct Used(Usage);

impl Used {
    fn add(&mut self, more: &Usage) {
        self.0.user += more.user;
        self.0.system += more.system;
        self.0.max_rss = self.0.max_rss.max(more.max_rss);
        self.0.minor_faults += more.minor_faults;
        self.0.major_faults += more.major_faults;
    }

    fn reap(&mut self) {
        for (_, ended) in os::spawn::reap_all() {
            self.add(&ended.usage);
        }
    }
}

/// Minor and major faults of a process until now: those that our side of the fork cost.
fn faults(pid: u32) -> (u64, u64) {
    os::process::stat(pid).map_or((0, 0), |stat| (stat.minor_faults, stat.major_faults))
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

fn fill_usage(row: &mut RunRow, usage: Usage, before: (u64, u64)) {
    row.user_ns = usage.user;
    row.system_ns = usage.system;
    row.max_rss = usage.max_rss;
    row.minor_faults = usage.minor_faults.saturating_sub(before.0);
    row.major_faults = usage.major_faults.saturating_sub(before.1);
}

fn fill_meters(row: &mut RunRow, first: &Reading, at_clock: Option<AtClock>) {
    let Some(AtClock { reading, instructions, cycles }) = at_clock else { return };
    if let Some((user, system)) = reading.cpu_since(first) {
        row.user_ns = user;
        row.system_ns = system;
    }
    if let Some(io) = reading.io_since(first) {
        row.read_bytes = Some(io.read_bytes);
        row.read_requests = Some(io.read_requests);
        row.written_bytes = Some(io.written_bytes);
    }
    row.instructions = instructions;
    row.cycles = cycles;
    row.others_cpu_share = reading.others_cpu_share(first);
    row.others_io_pressure = reading.others_io_pressure(first);
}

/// Times and how the first process ended, if it ended by itself.
fn fill_times(row: &mut RunRow, program: &Program, t0_ns: u64, fired: &[Fired], ended: Option<&Ended>) {
    let clock = ready::milestones(&program.ready).into_iter().next();
    let at_ns = fired.iter().find(|fired| Some(&fired.name) == clock.as_ref()).map(|fired| fired.at_ns);
    row.wall_ns = at_ns.map(|at_ns| Nanos(at_ns.saturating_sub(t0_ns)));
    row.exit_ns = ended.map(|ended| Nanos(ended.at_ns.saturating_sub(t0_ns)));
    row.exit_code = ended.and_then(|ended| ended.code);
    row.exit_signal = ended.and_then(|ended| ended.signal);
}

/// Why a run does not count.
fn refuse(program: &Program, stop: Stop, row: &RunRow, ended: Option<&Ended>) -> Option<String> {
    let clock = program.ready.first().map(ToString::to_string).unwrap_or_default();
    let how = match (row.exit_code, row.exit_signal) {
        (_, Some(signal)) => format!("was ended by signal {signal} ({})", signal_name(signal)),
        (Some(code), _) => format!("ended with exit code {code}"),
        _ => "ended".to_owned(),
    };
    if row.wall_ns.is_none() {
        return Some(match stop {
            Stop::Timeout => format!("it was not ready ({clock}) within {:?}", program.timeout),
            _ => format!("it {how} before it was ready ({clock})"),
        });
    }
    let fine = match (&program.success, ended) {
        (Success::Any, _) | (_, None) => true,
        (Success::Codes(codes), Some(ended)) => ended.code.is_some_and(|code| codes.contains(&code)),
    };
    (!fine).then(|| format!("it {how}"))
}

fn signal_name(signal: i32) -> String {
    os::process::signal_name(signal).map_or_else(|| format!("SIG{signal}"), str::to_owned)
}

fn warnings(program: &Program, stop: Stop, row: &RunRow, milestones: &[Milestone], killed: usize) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if row.accepted {
        let missing = ready::milestones(&program.ready);
        let missing: Vec<_> = missing.iter().filter(|name| !milestones.iter().any(|has| has.name == **name)).collect();
        if let Some(name) = missing.first() {
            let text = match stop {
                Stop::Timeout => format!(
                    "{} never got to {name} within {:?}: every run takes that long",
                    program.name, program.timeout
                ),
                _ => format!("{} ended without {name}", program.name),
            };
            warnings
                .push(Warning::new(WarningKind::Note, text).hint("leave that --ready out, or set a shorter --timeout"));
        }
    }
    if killed > 0 && !program.grace.is_zero() {
        let text = format!("{} did not end within {:?} after SIGTERM and was killed", program.name, program.grace);
        warnings.push(
            Warning::new(WarningKind::Note, text)
                .hint("its files may be as after a crash: --restore DIR puts them back"),
        );
    }
    warnings
}

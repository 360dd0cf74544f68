//! One watched run: what happens to the program, stop by stop.

mod calibrate;
mod current;

use super::points::{Points, Want};
use super::program;
use super::{Cost, Loaded, Start};
use calibrate::Costs;
use current::Current;
use model::Nanos;
use os::awake::Awake;
use os::ptrace::{Memory, Registers};
use os::spawn::monotonic_ns;
use os::tracee::{Tracee, same_memory};
use os::tracer::{Event, Resume, Tracer, Way, What};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIGTRAP: i32 = 5;
/// Numbers of system calls.
const EXECVE: u64 = 59;
const EXECVEAT: u64 = 322;
/// CPU time between two stops is long if it is so many times what a stop costs: single stops differ by as much as that
/// cost, and a lower bound of times that are not much longer would make their sum too long.
const LONG: i64 = 10;

/// The clock of a thread: nanoseconds since exec without what we took, and without waits for a CPU, which there are
/// after each stop as soon as others want it. Signed, so that a stop that was cheaper than usual takes back what one
/// that was dearer gave.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    now: i64,
    /// The largest that it was, and later with each stop: the order of what is told is the order in which it was seen.
    told: i64,
    /// When it went on, CLOCK_MONOTONIC; `None`: it is stopped.
    resumed: Option<u64>,
    /// How long it had waited for a CPU then.
    waited: u64,
    /// Its CPU time when it was last stopped.
    cpu: Option<Nanos>,
    /// How often it was stopped.
    stops: u64,
}

impl Clock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.told).unwrap_or(0))
    }

    /// It is stopped, and is later by this. By the time it is told to be later at least what it computed, if that was
    /// long: stops that were cheaper than measured may take their difference off times of their own size alone.
    fn stop(&mut self, later: i64, cpu: Option<Nanos>, costs: Option<Costs>) {
        let spent = cpu.zip(self.cpu).map_or(0, |(now, before)| now.0.saturating_sub(before.0).cast_signed());
        let computed = costs.map_or(0, |costs| spent - costs.cpu_of(1));
        let is_long = costs.is_some_and(|costs| computed > LONG * costs.of(&What::Stopped));
        self.now += later;
        self.told = self.now.max(self.told + if is_long { computed } else { 1 });
        self.cpu = cpu;
        self.stops += 1;
    }

    /// How much too early it is for sure: stops were taken off as dearer than they were.
    fn behind(self) -> i64 {
        self.told.max(0) - self.now
    }
}

/// What to say of a clock that is so much behind at the end, if it is more than a twentieth.
fn doubt(behind: i64, end: Nanos) -> Option<String> {
    let behind = u64::try_from(behind).ok().filter(|behind| behind.saturating_mul(20) > end.0)?;
    let by = behind as f64 / 1e6;
    Some(format!(
        "how long its phases took exactly: our stops were cheaper than measured before, by {by:.1} ms or more"
    ))
}

/// So many stops are answered between two looks at where the program runs.
const LOOK: u64 = 4;

/// How to go on after a stop.
enum Next {
    Resume(i32),
    Listen,
    /// It is not ours any more, or goes on already.
    Nothing,
    /// Enough was seen.
    Done,
}

/// A run.
pub(super) struct Session {
    tracer: Tracer,
    awake: Awake,
    root: i32,
    memory: Memory,
    points: Points,
    clocks: HashMap<i32, Clock>,
    /// Children that stopped before their parent said that it made them.
    early: HashSet<i32>,
    costs: Option<Costs>,
    cost: Cost,
    /// When threads called exec, on their clocks.
    calling: HashMap<i32, i64>,
    /// The first exec is still to come: each system call stops the process.
    waiting: bool,
    current: Option<Current>,
    starts: Vec<Start>,
    /// Processes that were let go, and when they began: a number may be given again.
    let_go: Vec<(u32, Option<u64>)>,
    until_main: bool,
    /// Whether initialisers that begin now are of no interest any more.
    enough: Arc<AtomicBool>,
}

impl Session {
    /// Of a process that waits for its exec.
    ///
    /// # Errors
    /// It cannot be traced.
    pub fn of(pid: u32, until_main: bool) -> io::Result<Self> {
        let mut tracer = Tracer::of(pid)?;
        let first = tracer.go_first();
        let root = pid.cast_signed();
        Ok(Self {
            tracer,
            awake: Awake::default(),
            root,
            memory: Memory::of(pid)?,
            points: Points::default(),
            clocks: HashMap::from([(root, Clock { resumed: Some(monotonic_ns()), ..Clock::default() })]),
            early: HashSet::new(),
            costs: None,
            cost: Cost { first, ..Cost::default() },
            calling: HashMap::new(),
            waiting: true,
            current: None,
            starts: Vec::new(),
            let_go: Vec::new(),
            until_main,
            enough: Arc::default(),
        })
    }

    /// Until this is set; the program is followed further.
    pub fn until(self, enough: Arc<AtomicBool>) -> Self {
        Self { enough, ..self }
    }

    /// Follows it to its end, or to main.
    ///
    /// # Errors
    /// The kernel does not allow something.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            let Some(event) = self.tracer.wait()? else { return Ok(()) };
            if event.tid == self.root && event.what == What::Ended {
                return Ok(());
            }
            if !self.clocks.contains_key(&event.tid) {
                if event.what == What::Stopped {
                    self.early.insert(event.tid);
                }
                continue;
            }
            self.arrive(&event);
            let done = self.handle(&event).and_then(|next| self.go_on(event.tid, &next));
            match done {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Killed meanwhile, which a file of it in /proc says in a way of its own: its end is told later.
                Err(error) if os::tracer::is_gone(&error) || self.is_killed(event.tid) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A thread that was stopped is not any more, though nobody let it go on.
    fn is_killed(&self, tid: i32) -> bool {
        self.tracer.registers(tid).is_err_and(|error| os::tracer::is_gone(&error))
    }

    /// What was seen.
    pub fn finish(mut self) -> (Vec<Start>, Cost) {
        self.close(None);
        if let Some(costs) = self.costs {
            (self.cost.breakpoint, self.cost.call) = (costs.breakpoint(), costs.call());
        }
        (self.starts, self.cost)
    }

    fn let_go(&mut self, child: i32) -> io::Result<()> {
        let pid = child.cast_unsigned();
        self.let_go.push((pid, os::process::start_ticks(pid)));
        self.tracer.let_go(child, 0)
    }

    /// Kills the program, and what it made: also what it made while it was being killed, which nobody could find below
    /// it any more.
    pub fn kill(&self) {
        os::tracer::kill_with_descendants(self.root.cast_unsigned());
        for (pid, began) in &self.let_go {
            if began.is_some() && os::process::start_ticks(*pid) == *began {
                os::tracer::kill_with_descendants(*pid);
            }
        }
    }

    /// The thread's clock is stopped; what the stop costs is taken off.
    fn arrive(&mut self, event: &Event) {
        let cost = self.costs.map_or(0, |costs| costs.of(&event.what));
        let cpu = self.tracer.cpu_time(event.tid);
        let Some(clock) = self.clocks.get_mut(&event.tid) else { return };
        if let Some(resumed) = clock.resumed.take() {
            let ran = event.at_ns.saturating_sub(resumed);
            let waited = event.waited.0.saturating_sub(clock.waited).min(ran);
            clock.stop((ran - waited).cast_signed() - cost, cpu, self.costs);
            self.cost.waited.0 += waited;
            self.cost.stops += 1;
            self.cost.subtracted.0 += cost.cast_unsigned();
            // Its end is added when it goes on.
            self.cost.stopped.0 = self.cost.stopped.0.wrapping_sub(event.at_ns);
        }
    }

    fn go_on(&mut self, tid: i32, next: &Next) -> io::Result<bool> {
        if self.cost.stops.is_multiple_of(LOOK) {
            self.awake.follow(Tracee(tid));
        }
        let waited = self.tracer.waited(tid).0;
        let now = monotonic_ns();
        self.cost.stopped.0 = self.cost.stopped.0.wrapping_add(now);
        match next {
            Next::Done => return Ok(true),
            Next::Nothing => {}
            Next::Listen | Next::Resume(_) => {
                if let Some(clock) = self.clocks.get_mut(&tid) {
                    (clock.resumed, clock.waited) = (Some(now), waited);
                }
            }
        }
        match next {
            Next::Listen => self.tracer.listen(tid)?,
            Next::Resume(signal) => self.tracer.resume(tid, self.mode(tid), *signal)?,
            _ => {}
        }
        Ok(false)
    }

    fn mode(&self, tid: i32) -> Resume {
        let calls = self.waiting || self.current.as_ref().is_some_and(Current::is_loading);
        if calls && tid == self.root { Resume::ToSystemCall } else { Resume::Continue }
    }

    fn now(&self, tid: i32) -> Nanos {
        self.clocks.get(&tid).copied().unwrap_or_default().now()
    }

    fn handle(&mut self, event: &Event) -> io::Result<Next> {
        let tid = event.tid;
        match event.what {
            What::Signal(SIGTRAP) => self.trap(tid),
            What::Signal(signal) => Ok(Next::Resume(signal)),
            What::Stopped => Ok(Next::Resume(0)),
            What::Paused => Ok(Next::Listen),
            What::Made(child, way) => self.made(tid, child, way),
            What::Exec(former) => self.executed(tid, former),
            What::Call(number, arguments) => {
                if self.waiting && matches!(number, EXECVE | EXECVEAT) {
                    self.clocks.insert(tid, Clock::default());
                    self.calling.insert(tid, 0);
                }
                let now = self.now(tid);
                if let Some(current) = &mut self.current {
                    current.begins(self.root, now, number, arguments);
                }
                Ok(Next::Resume(0))
            }
            What::Returned(_) => {
                let now = self.now(tid);
                if let Some(current) = &mut self.current {
                    current.ends(now);
                }
                Ok(Next::Resume(0))
            }
            What::Ended => {
                self.clocks.remove(&tid);
                self.tracer.count_no_more(tid);
                Ok(Next::Nothing)
            }
        }
    }

    /// A new thread is followed. A process with the same memory is, until it has its own: it could meet our
    /// breakpoints. One with a copy of the memory gets it clean, and goes its way.
    fn made(&mut self, tid: i32, child: i32, way: Way) -> io::Result<Next> {
        while !self.early.remove(&child) {
            match self.tracer.wait_for(child)?.what {
                What::Stopped => break,
                What::Ended => return Ok(Next::Resume(0)),
                _ => self.tracer.resume(child, Resume::Continue, 0)?,
            }
        }
        let shares = way == Way::Vfork || same_memory(Tracee(self.root), Tracee(child)).unwrap_or(way == Way::Clone);
        if shares {
            let now = self.clocks.get(&tid).map_or(0, |clock| clock.now);
            // A thread of the program, or of a process of its own.
            for pid in [child, self.root] {
                self.tracer.count(pid.cast_unsigned(), child);
            }
            let waited = self.tracer.waited(child).0;
            let from = Clock { now, told: now, resumed: Some(monotonic_ns()), waited, ..Clock::default() };
            self.clocks.insert(child, from);
            self.tracer.resume(child, Resume::Continue, 0)?;
        } else {
            self.points.clean(&self.tracer, child)?;
            self.let_go(child)?;
        }
        Ok(Next::Resume(0))
    }

    fn executed(&mut self, tid: i32, former: i32) -> io::Result<Next> {
        if tid != self.root {
            self.clocks.remove(&tid);
            self.tracer.count_no_more(tid);
            self.let_go(tid)?;
            return Ok(Next::Nothing);
        }
        let before = self.clocks.get(&former).or_else(|| self.clocks.get(&tid)).copied().unwrap_or_default();
        let called = self.calling.remove(&former);
        // The leader was stopped by the event, another thread that called exec was still running.
        let ran = self.clocks.get(&tid).map_or(0, |clock| clock.now);
        self.close(Some(ran));
        self.waiting = false;
        self.points.forget();
        self.calling.clear();
        let known = called.filter(|_| former == tid);
        let pid = tid.cast_unsigned();
        let now = known.map_or(0, |called| before.now - called);
        self.clocks = HashMap::from([(tid, Clock { now, told: now, stops: before.stops, ..Clock::default() })]);
        self.tracer.count(pid, tid);
        self.memory = Memory::of(pid)?;
        match program::look(pid) {
            Ok(found) => {
                self.points.plant(&self.tracer, tid, found.loader_entry, Want::LoaderEntry)?;
                self.current = Some(Current::of(found, known.is_some()));
            }
            Err(because) => self.starts.push(Start::Unknown { program: program::executed(pid), because }),
        }
        Ok(Next::Resume(0))
    }

    /// A SIGTRAP: a breakpoint of ours, or the program's own.
    fn trap(&mut self, tid: i32) -> io::Result<Next> {
        let mut registers = self.tracer.registers(tid)?;
        let address = registers.rip.wrapping_sub(1);
        let wants = self.points.at(address);
        if wants.is_empty() {
            return Ok(Next::Resume(SIGTRAP));
        }
        registers.rip = address;
        for want in wants {
            if self.wanted(tid, address, want, &registers)? {
                return Ok(Next::Done);
            }
        }
        if self.points.at(address).is_empty() {
            self.tracer.set_registers(tid, &registers)?;
            return Ok(Next::Resume(0));
        }
        self.points.pass(&mut self.tracer, &self.memory, tid, address, registers).map(Next::Resume)
    }

    /// A breakpoint was met; `true`: enough was seen.
    fn wanted(&mut self, tid: i32, address: u64, want: Want, registers: &Registers) -> io::Result<bool> {
        if want == Want::LoaderEntry {
            self.loader_entry(tid, registers)?;
            return self.points.remove(&self.tracer, tid, address, want).map(|()| false);
        }
        if want == Want::Execve {
            let now = self.clocks.get(&tid).map_or(0, |clock| clock.now);
            self.calling.insert(tid, now);
            return Ok(false);
        }
        let now = self.now(tid);
        let clock = self.clocks.get(&tid).copied().unwrap_or_default();
        let Some(current) = &mut self.current else { return Ok(false) };
        let (pid, costs) = (self.root.cast_unsigned(), self.costs);
        let cpu = self.tracer.cpu_time(tid);
        let cpu = || Some(cpu?.0.cast_signed() - costs?.cpu_of(clock.stops));
        let mut hands =
            current::Hands { tracer: &self.tracer, memory: &self.memory, points: &mut self.points, pid, tid };
        match want {
            Want::DebugState => current.debug_state(&mut hands, now)?,
            Want::Initialiser if self.enough.load(Ordering::Relaxed) => {}
            Want::Initialiser => current.initialiser(&mut hands, now, cpu(), registers)?,
            Want::Return => current.returned(&mut hands, now, cpu(), registers)?,
            Want::Entry => current.moments.entry = Some(now),
            Want::StartMain => current.start_main(&mut hands, registers)?,
            Want::Main => current.moments.main = Some(now),
            Want::LoaderEntry | Want::Execve => {}
        }
        if matches!(want, Want::Entry | Want::StartMain | Want::Main) {
            self.points.remove(&self.tracer, tid, address, want)?;
        }
        Ok(want == Want::Main && self.until_main)
    }

    /// The loader begins. What stops cost is measured here, once: the program has made nothing of its own yet.
    fn loader_entry(&mut self, tid: i32, registers: &Registers) -> io::Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if self.costs.is_none() {
            let syscall = current.program.syscall;
            let costs = calibrate::measure(&mut self.tracer, &mut self.awake, self.root, syscall, registers)?;
            // Exec itself was two stops.
            let already = 2 * costs.of(&What::Signal(SIGTRAP));
            if let (Some(clock), Some(_)) = (self.clocks.get_mut(&tid), current.exec) {
                clock.now -= already;
                clock.told = clock.now;
                self.cost.subtracted.0 += already.cast_unsigned();
            }
            let cpu = self.tracer.cpu_time(tid);
            if let Some(clock) = self.clocks.get_mut(&tid) {
                (clock.stops, clock.cpu) = (0, cpu);
            }
            self.costs = Some(costs);
        }
        let now = self.clocks.get(&tid).copied().unwrap_or_default().now();
        current.begin(now);
        self.points.plant(&self.tracer, tid, current.program.debug_state, Want::DebugState)
    }

    /// A program has ended, or executes another one at this time of its clock.
    fn close(&mut self, at: Option<i64>) {
        let Some(current) = self.current.take() else { return };
        let last = self.clocks.values().map(|clock| clock.now).max();
        let end = Nanos(at.or(last).and_then(|end| u64::try_from(end).ok()).unwrap_or(0));
        let behind = self.clocks.values().map(|clock| clock.behind()).max().unwrap_or(0);
        let mut loaded: Loaded = current.loaded(end);
        loaded.cannot.extend(doubt(behind, end));
        self.starts.push(Start::Loaded(Box::new(loaded)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_is_said() {
        let clock = |now, told| Clock { now, told, ..Clock::default() };
        assert_eq!(doubt(clock(95, 99).behind(), Nanos(99)), None);
        assert!(doubt(clock(1_500_000, 2_500_000).behind(), Nanos(2_500_000)).unwrap().contains("by 1.0 ms"));
        assert!(doubt(clock(-700_000, -500_000).behind(), Nanos(0)).unwrap().contains("by 0.7 ms"));
    }

    #[test]
    fn what_was_taken_off_too_much_is_not_taken_off_what_was_computed_later() {
        let costs = Some(Costs::new(50_000, 10_000));
        let mut clock = Clock { now: -5_000_000, told: 1_000_000, cpu: Some(Nanos(0)), ..Clock::default() };
        clock.stop(100_000_000, Some(Nanos(100_010_000)), costs);
        assert_eq!(clock.now(), Nanos(101_000_000), "not less than its CPU time");
        clock.stop(100_000, Some(Nanos(100_120_000)), costs);
        assert_eq!(clock.now(), Nanos(101_000_001), "a stop may be cheaper by as much as this");
        clock.stop(8_000_000, None, costs);
        assert_eq!(clock.now(), Nanos(103_100_000), "it was found again");
    }
}

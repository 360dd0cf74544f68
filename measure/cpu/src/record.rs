//! Takes starts down: where threads were, from perf events of the process tree; which thread each CPU ran and who woke
//! whom, from a trace buffer of our own.
//!
//! The latter is about the whole machine, so that also those who are waited for and are not of the tree are known. It
//! does not come from perf, which was seen (Linux 6.18) to lose hits in idle tasks without counting them.
//!
//! What this machine does not allow is said in words ([`Raw::cannot`]); without the clock there is no recorder.

mod decode;

use crate::raw::Raw;
use decode::{Fields, Seen};
use model::{Bytes, Error, Exit, Nanos, Result, Warning, WarningKind};
use os::perf::{GroupFilter, Log, Mappings, Moment, Sampler, SamplerOptions, Scope, StackEvent};
use os::roots;
use os::tracefs::{Instance, InstanceLog, Tracefs};
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

/// The ring for records about tasks and mappings, per CPU: a thousand libraries. Small, so that a user without rights
/// has what he may lock left for stacks.
const TASK_RING: Bytes = Bytes(256 << 10);
/// With a shorter period the clock costs more than it shows.
const SHORTEST_PERIOD: Nanos = Nanos(50_000);
/// The period of a start differs from the one that was asked for by at most so many parts of a thousand, so that
/// several starts are not looked at in the same places.
const SCATTER: u64 = 30;

/// So many frames of the kernel tell what a thread went to sleep for, from the scheduler to the system call.
const SLEEP_FRAMES: u16 = 16;
/// So many tell by what a thread woke another one: a futex, a pipe, a socket.
const WAKE_FRAMES: u16 = 6;
/// So many lead from a wake in a soft interrupt to the system call that it is of: through all that sends a packet.
const SOFT_FRAMES: u16 = 64;
/// `common_flags` of what happens in a soft interrupt: [`crate::Flags::SOFT`]. Of one that comes while a CPU is idle no
/// thread can be the cause.
const SOFT: &str = "common_flags & 16 && common_pid != 0";
const NOT_SOFT: &str = "!(common_flags & 16)";

/// How a start is taken down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// So much CPU time is between two ticks of a clock; at least 50 us. Each start has one that differs
    /// by up to 3 % ([`Raw::tick`]). Default 1 ms.
    pub period: Nanos,
    /// So much of the stack is taken when the clock ticks. Default 16 KiB.
    pub stack: Bytes,
    /// So much of the stack is taken when a thread leaves its CPU or wakes another one. Default 4 KiB.
    pub sleep_stack: Bytes,
    /// Whether it is also taken where a thread wakes another one; who woke whom is known without, and for wakes in soft
    /// interrupts, of which it tells whose they are, it is taken anyway. About a third of what
    /// a start is slowed down is for this. Default: no.
    pub wake_stacks: bool,
    /// The ring for stacks of each CPU. Default 16 MiB.
    pub ring: Bytes,
    /// The trace buffer of each CPU for switches and wakes. Default 16 MiB: 200,000 of them.
    pub buffer: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            period: Nanos(1_000_000),
            stack: Bytes(16 << 10),
            sleep_stack: Bytes(4 << 10),
            wake_stacks: false,
            ring: Bytes(16 << 20),
            buffer: Bytes(16 << 20),
        }
    }
}

/// Takes down one start after the other. Dropping it stops and gives everything back.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    /// Whether the kernel's part of the clock may be looked at.
    kernel: bool,
    /// Whether threads that leave their CPU may be.
    leaves: bool,
    /// Whether threads that wake others may be.
    wakes: bool,
    /// Whether those may be that wake others in a soft interrupt.
    soft_wakes: bool,
    sched: Option<Sched>,
    cannot: Vec<String>,
    running: Option<Running>,
}

/// The tracepoints of the scheduler.
#[derive(Debug)]
struct Sched {
    tracefs: Tracefs,
    fields: Fields,
}

/// A start that is being taken down.
#[derive(Debug)]
struct Running {
    pid: u32,
    tick: Nanos,
    seen: Vec<Seen>,
    sampler: Sampler,
    sched: Option<Instance>,
    /// Sees processes that end before the start is taken down; `None`: the start has no control group of its own.
    watch: Option<roots::Watch>,
    /// Why there is no trace buffer, if there should be one.
    no_buffer: Option<String>,
}

impl Recorder {
    /// Finds out what this machine allows; what it does not is a warning each.
    ///
    /// # Errors
    /// It allows no user to look where his own programs are; a period that is too short.
    pub fn open(options: &Options) -> Result<(Self, Vec<Warning>)> {
        if options.period < SHORTEST_PERIOD {
            return Err(Error::new(Exit::Usage, "the clock cannot tick so often:", options.period)
                .hint(format!("every {SHORTEST_PERIOD} at most")));
        }
        let mut missing = Missing::default();
        let tree = Scope::Tree;
        let stack = options.stack;
        let event = |moment, kernel| StackEvent { moment, stack, frames: 0, kernel, filter: None, scope: tree };
        let clock = Moment::Clock(options.period);
        let kernel = event(clock, true).check();
        if kernel.is_err() {
            event(clock, false).check()?;
        }
        let kernel = missing.unless(kernel, "what the kernel did for the program while it had CPU time").is_some();
        let leaves = event(Moment::Leaves, true).check();
        let leaves = missing.unless(leaves, "where threads went to sleep").is_some();
        let sched = missing.unless(Sched::find(), "when threads ran and waited, and who woke them");
        let soft = sched.as_ref().map(|sched| {
            StackEvent { scope: Scope::System, ..event(Moment::Point(sched.fields.waking.id), true) }.check()
        });
        let soft = soft.and_then(|soft| missing.unless(soft, "who woke threads by the network of this machine"));
        let soft_wakes = soft.is_some();
        let mut wakes = false;
        if options.wake_stacks {
            let point = sched.as_ref().map(|sched| Moment::Point(sched.fields.waking.id));
            let woke = match point {
                Some(point) => event(point, true).check(),
                None => Err(Error::new(Exit::Machine, "the tracepoint sched:sched_waking cannot be found", "")),
            };
            wakes = missing.unless(woke, "where threads were that woke others").is_some();
        }
        let Missing { cannot, warnings } = missing;
        let recorder =
            Self { options: options.clone(), kernel, leaves, wakes, soft_wakes, sched, cannot, running: None };
        Ok((recorder, warnings))
    }

    /// What cannot be known on this machine, one sentence each.
    pub fn cannot(&self) -> &[String] {
        &self.cannot
    }

    /// Begins with a process that waits at its gate; what it starts is taken down, too.
    ///
    /// # Errors
    /// No such process; not enough file descriptors or locked memory.
    pub fn attach(&mut self, pid: u32) -> Result<()> {
        let tick = scattered(self.options.period, std::hash::RandomState::new().hash_one(pid));
        let group = self.group(pid);
        let (seen, stacks): (Vec<Seen>, Vec<StackEvent>) = self.events(tick, group.is_some()).into_iter().unzip();
        let (mut sched, mut no_buffer) = (None, None);
        if let Some(points) = &self.sched {
            let started = points.start(pid, self.options.buffer);
            no_buffer =
                started.as_ref().err().map(|why| format!("when threads ran and waited, and who woke them: {why}"));
            sched = started.ok();
        }
        let options = SamplerOptions {
            ring: TASK_RING,
            mappings: Mappings::Code,
            stacks,
            group,
            stack_ring: self.options.ring,
            ..SamplerOptions::default()
        };
        let sampler = Sampler::start(pid, &options)?;
        let members = os::cgroup::run_group(pid).map(|group| move || os::cgroup::processes(&group));
        let watch = members.and_then(|members| roots::Watch::start(members).ok());
        self.running = Some(Running { pid, tick, seen, sampler, sched, watch, no_buffer });
        Ok(())
    }

    /// Lets the clocks of CPUs tick for the control group that thaw made for the start; `None`: there is none, or it is
    /// not allowed here. Then each thread has its clock, which tells the same and costs more.
    fn group(&self, pid: u32) -> Option<Arc<GroupFilter>> {
        let clock = self.clock(self.options.period, Scope::System);
        let group = os::cgroup::run_group(pid).filter(|_| clock.kernel && clock.check().is_ok())?;
        Some(Arc::new(GroupFilter::load(&group).ok()?))
    }

    fn clock(&self, tick: Nanos, scope: Scope) -> StackEvent {
        let (moment, stack) = (Moment::Clock(tick), self.options.stack);
        StackEvent { moment, stack, frames: 0, kernel: self.kernel, filter: None, scope }
    }

    fn events(&self, tick: Nanos, has_group: bool) -> Vec<(Seen, StackEvent)> {
        let stack = self.options.sleep_stack;
        let clock = self.clock(tick, if has_group { Scope::System } else { Scope::Tree });
        let mut events = vec![(Seen::Clock, clock)];
        let event = |moment, frames, filter, scope| StackEvent { moment, stack, frames, kernel: true, filter, scope };
        if self.leaves {
            events.push((Seen::Leaves, event(Moment::Leaves, SLEEP_FRAMES, None, Scope::Tree)));
        }
        if let Some(sched) = &self.sched {
            let waking = Moment::Point(sched.fields.waking.id);
            if self.wakes {
                events.push((Seen::Wakes, event(waking, WAKE_FRAMES, Some(NOT_SOFT), Scope::Tree)));
            }
            // There are few, and an event of the tree would cost each thread more than all of them.
            if self.soft_wakes {
                events.push((Seen::Wakes, event(waking, SOFT_FRAMES, Some(SOFT), Scope::System)));
            }
        }
        events
    }

    /// Stops and hands over what was taken down, with times since `t0_monotonic_ns` (CLOCK_MONOTONIC); what came
    /// before is dropped.
    ///
    /// # Errors
    /// The kernel refused to stop; nothing was attached.
    pub fn stop(&mut self, t0_monotonic_ns: u64) -> Result<Raw> {
        let running = self.running.take().ok_or_else(|| Error::bug("a recorder was stopped that was not attached"))?;
        let log: Log = running.sampler.stop()?;
        let sched = running.sched.map_or_else(|| Ok(InstanceLog::default()), Instance::stop)?;
        let (mut roots, own) = running.watch.map(roots::Watch::finish).unwrap_or_default();
        let fields = self.sched.as_ref().map(|sched| &sched.fields);
        let mut raw = decode::decode(running.pid, t0_monotonic_ns, &log, &running.seen, &sched, fields);
        roots.look(raw.tasks.iter().map(|task| task.pid).chain([raw.root]).collect::<BTreeSet<_>>());
        raw.roots = Arc::new(roots);
        raw.tick = running.tick;
        raw.own = log.own + sched.own + own;
        raw.cannot.splice(0..0, self.cannot.iter().cloned().chain(running.no_buffer));
        Ok(raw)
    }
}

/// What this machine does not allow.
#[derive(Default)]
struct Missing {
    cannot: Vec<String>,
    warnings: Vec<Warning>,
}

impl Missing {
    /// What there is; if it is not, `what` cannot be told.
    fn unless<T>(&mut self, there: Result<T>, what: &str) -> Option<T> {
        let why = match there {
            Ok(there) => return Some(there),
            Err(why) => why,
        };
        let text = format!("{what}: {why}");
        let warning = Warning::new(WarningKind::Engine, format!("it cannot be known {text}"));
        self.warnings.push(why.hint.iter().fold(warning, |warning, hint| warning.hint(hint.clone())));
        self.cannot.push(text);
        None
    }
}

impl Sched {
    fn find() -> Result<Self> {
        let tracefs = Tracefs::open()?;
        let fields = Fields::find(&tracefs)?;
        Ok(Self { tracefs, fields })
    }

    fn start(&self, pid: u32, buffer: Bytes) -> Result<Instance> {
        Instance::start(&self.tracefs, "sched", pid, (&[], buffer), (&self.fields.formats(), buffer))
    }
}

/// A period near the one that is wanted.
fn scattered(period: Nanos, random: u64) -> Nanos {
    let thousandth = period.0 / 1000;
    Nanos(period.0 - thousandth * SCATTER + random % (2 * thousandth * SCATTER + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_differ_and_are_near_the_one_that_was_asked_for() {
        let period = Nanos(1_000_000);
        assert_eq!(scattered(period, 0), Nanos(970_000));
        assert_eq!(scattered(period, 60_000), Nanos(1_030_000));
        assert_eq!(scattered(period, 60_001), Nanos(970_000));
    }

    #[test]
    fn a_clock_that_ticks_too_often_is_refused() {
        let options = Options { period: Nanos(10), ..Options::default() };
        assert_eq!(Recorder::open(&options).unwrap_err().exit, Exit::Usage);
    }
}

//! From what was taken down to names: addresses become functions, states become words, and each switch and wake gets
//! the stack that was taken down with it.
//!
//! All addresses of an object are looked up together, after the walk through time that says what was mapped when.

mod bridge;
mod names;
mod threads;

use crate::raw::{Context, Raw, RawSample, RawTask, Tick, What};
use crate::trace::{Sample, StackId, Stacks, Switch, Trace, Wake, Waker, Went};
use crate::unwind::{Located, Unwinder};
use model::Nanos;
use names::{Key, Keys};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use symbols::{Kernel, PerfMap};
use threads::Threads;

/// The stack of who wakes is taken down at the moment of the wake: so far from it at most.
const APART: Nanos = Nanos(50_000);

/// What is known beside what was taken down.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// When the program was ready.
    pub ready: Nanos,
    /// The thread that made it ready, where that is known.
    pub ready_by: Option<u32>,
    /// How many CPUs there are.
    pub cpus: u32,
    /// What the processes saw as `/`.
    pub root: &'a Path,
    /// The functions of the kernel, or why they are not known.
    pub kernel: &'a Result<Kernel, String>,
    /// What processes wrote about code that they made themselves.
    pub made: &'a HashMap<u32, PerfMap>,
}

/// Gives names to a start.
pub fn resolve(raw: &Raw, given: &Given<'_>) -> Trace {
    let mut cannot = raw.cannot.clone();
    let walk = Walk::through(raw, given);
    let (stacks, found) = walk.name(given, &mut cannot);
    let threads = Threads::of(raw);
    let samples = walk.samples.iter().zip(&found).filter(|(it, _)| it.tick == Tick::Clock).map(|(it, stack)| Sample {
        at: it.at,
        tid: it.tid,
        in_kernel: !it.kernel.is_empty(),
        stack: stack.all,
    });
    let mut trace = Trace {
        root: raw.root,
        ready: given.ready,
        ready_by: given.ready_by,
        cpus: given.cpus,
        samples: samples.collect(),
        switches: switches(raw, &threads, &Taken::of(&walk.samples, &found)),
        wakes: wakes(raw, Taken::of(&walk.samples, &found), &stacks),
        threads: threads.into_threads(),
        stacks,
        tick: raw.tick,
        lost: raw.lost,
        lost_switches: raw.lost_switches,
        own: raw.own,
        cannot,
    };
    bridge::bridge(&mut trace, &walk.samples);
    trace
}

/// The samples by time, each with its addresses, innermost first.
struct Walk<'a> {
    samples: Vec<&'a RawSample>,
    /// Of each sample: all addresses, and how many of them are the kernel's.
    addresses: Vec<(Vec<u32>, usize)>,
    keys: Keys,
    unwinder: Unwinder,
    /// Stacks of programs that were taken down, and those of them that are told to their end.
    told: (u64, u64),
}

impl<'a> Walk<'a> {
    fn through(raw: &'a Raw, given: &Given<'_>) -> Self {
        let mut samples: Vec<&RawSample> = raw.samples.iter().collect();
        samples.sort_by_key(|sample| sample.at);
        let mut walk = Self {
            samples,
            addresses: Vec::new(),
            keys: Keys::default(),
            unwinder: Unwinder::among(given.root, Arc::clone(&raw.roots)),
            told: (0, 0),
        };
        let (mut tasks, mut mappings) = (raw.tasks.iter().peekable(), raw.mappings.iter().peekable());
        for index in 0..walk.samples.len() {
            let sample = walk.samples[index];
            // What happened at the same moment happened before: a process is made, executes, maps, runs.
            loop {
                let task = tasks.peek().map(|task| task.at).filter(|at| *at <= sample.at);
                let mapping = mappings.peek().map(|mapping| mapping.at).filter(|at| *at <= sample.at);
                match (task, mapping) {
                    (None, None) => break,
                    (Some(task), Some(mapping)) if mapping < task => walk.unwinder.map(mappings.next().unwrap()),
                    (Some(_), _) => walk.begin(tasks.next().unwrap()),
                    (None, Some(_)) => walk.unwinder.map(mappings.next().unwrap()),
                }
            }
            let addresses = walk.look_at(raw, sample, given);
            walk.addresses.push(addresses);
        }
        walk
    }

    /// What becomes of a process changes what is mapped.
    fn begin(&mut self, task: &RawTask) {
        match task.what {
            What::Began { parent_pid, .. } if parent_pid != task.pid => self.unwinder.fork(parent_pid, task.pid),
            What::Executed => self.unwinder.executed(task.pid),
            _ => {}
        }
    }

    fn look_at(&mut self, raw: &Raw, sample: &RawSample, given: &Given<'_>) -> (Vec<u32>, usize) {
        let mut numbers = Vec::new();
        for (index, address) in sample.kernel.iter().enumerate() {
            // The first is where it was; the others are where calls return to.
            let inside = if index == 0 { *address } else { address.wrapping_sub(1) };
            numbers.push(self.keys.number(Key::Kernel(inside)));
        }
        let of_kernel = numbers.len();
        let Some(state) = &sample.user else { return (numbers, of_kernel) };
        let stack = raw.stacks.get(state.stack.clone()).unwrap_or_default();
        let walked = self.unwinder.unwind(sample.pid, state, stack);
        self.told.0 += 1;
        self.told.1 += u64::from(walked.whole);
        for place in walked.places {
            let address = place.inside();
            let is_made = || given.made.get(&sample.pid).is_some_and(|made| made.name(address).is_some());
            let key = match self.unwinder.locate(sample.pid, address) {
                Located::Object(object, stated) => Key::Object(object, stated),
                Located::Unread(object, offset) if !is_made() => Key::Unread(object, offset),
                _ => Key::Outside(sample.pid, address),
            };
            numbers.push(self.keys.number(key));
        }
        (numbers, of_kernel)
    }

    /// Names all addresses, and makes stacks of them.
    fn name(&self, given: &Given<'_>, cannot: &mut Vec<String>) -> (Stacks, Vec<Found>) {
        let mut stacks = Stacks::default();
        let named = self.keys.name(&self.unwinder, given, &mut stacks, cannot);
        let mut stack = |numbers: &[u32]| {
            let frames: Vec<_> = numbers.iter().flat_map(|number| &named[*number as usize]).copied().collect();
            stacks.stack(&frames)
        };
        let found = self
            .addresses
            .iter()
            .map(|(numbers, of_kernel)| Found { all: stack(numbers), kernel: stack(&numbers[..*of_kernel]) });
        let found = found.collect();
        cannot.extend(self.unwinder.cannot());
        let (stacks_taken, whole) = self.told;
        if whole < stacks_taken {
            cannot.push(format!(
                "{} of {stacks_taken} stacks of the program are told in part: their outermost functions are not known",
                stacks_taken - whole
            ));
        }
        (stacks, found)
    }
}

/// The stack of a sample.
#[derive(Clone, Copy)]
struct Found {
    all: Option<StackId>,
    /// What the kernel did alone.
    kernel: Option<StackId>,
}

/// A thread, and whom it wakes; nobody: it leaves its CPU.
type Doing = (u32, Option<u32>);

/// Stacks that were taken down for something, each for one thing only.
struct Taken {
    /// By time.
    by: HashMap<Doing, Vec<(Nanos, Found)>>,
    /// How many of them are behind us.
    passed: HashMap<Doing, usize>,
}

impl Taken {
    fn of(samples: &[&RawSample], found: &[Found]) -> Self {
        let mut by: HashMap<Doing, Vec<_>> = HashMap::new();
        for (sample, found) in samples.iter().zip(found) {
            let wakes = match sample.tick {
                Tick::Clock => continue,
                Tick::Leaves => None,
                Tick::Wakes(woken) => Some(woken),
            };
            by.entry((sample.tid, wakes)).or_default().push((sample.at, *found));
        }
        Self { by, passed: HashMap::new() }
    }

    /// The one nearest to this moment that nothing else has taken. Moments rise.
    fn take(&mut self, thread: u32, wakes: Option<u32>, at: Nanos) -> Option<Found> {
        let list = self.by.get(&(thread, wakes))?;
        let passed = self.passed.entry((thread, wakes)).or_default();
        let from = list.partition_point(|(taken, _)| *taken + APART < at).max(*passed);
        let behind = list.partition_point(|(taken, _)| *taken <= at + APART);
        let near = (from..behind).min_by_key(|index| list[*index].0.0.abs_diff(at.0))?;
        *passed = near + 1;
        Some(list[near].1)
    }

    /// Where a thread was that left its CPU at this moment and was seen again at `back`: the kernel tells of a switch
    /// first and then counts it, which takes the stack down. A host that stops the CPU in between makes that late.
    fn left(&self, thread: u32, at: Nanos, back: Option<Nanos>) -> Option<Found> {
        let list = self.by.get(&(thread, None))?;
        let (taken, found) = list.get(list.partition_point(|(taken, _)| *taken < at))?;
        back.is_none_or(|back| *taken < back).then_some(*found)
    }
}

fn switches(raw: &Raw, threads: &Threads, taken: &Taken) -> Vec<Switch> {
    let of_tree: HashSet<u32> = threads.of_tree().collect();
    // From the last on, it is known of each thread when a switch names it next.
    let mut next: HashMap<u32, Nanos> = HashMap::new();
    let made = raw.switches.iter().rev().map(|switch| {
        let back = next.insert(switch.from, switch.at);
        next.insert(switch.to, switch.at);
        let is_ours = of_tree.contains(&switch.from);
        Switch {
            at: switch.at,
            cpu: switch.cpu,
            from: switch.from,
            went: went(switch.state),
            to: switch.to,
            stack: taken.left(switch.from, switch.at, back).filter(|_| is_ours).and_then(|found| found.all),
        }
    });
    let mut made: Vec<Switch> = made.collect();
    made.reverse();
    made
}

/// Whether the thread itself does what its kernel does in a soft interrupt: it began that on its system call, as who
/// sends by TCP to this machine delivers the packet, too. No device interrupted it.
fn is_own(stacks: &Stacks, stack: Option<StackId>) -> bool {
    let kernel = stacks.walk(stack).take_while(|frame| frame.is_kernel()).filter_map(|it| it.function.as_deref());
    let names: Vec<&str> = kernel.collect();
    let soft = ["do_softirq", "__do_softirq", "__local_bh_enable_ip", "handle_softirqs"];
    let Some(begun) = names.iter().rposition(|name| soft.iter().any(|soft| name.starts_with(soft))) else {
        return false;
    };
    let devices = ["asm_common_interrupt", "asm_sysvec_", "common_interrupt", "sysvec_"];
    let is_interrupted = names.iter().any(|name| devices.iter().any(|device| name.starts_with(device)));
    !is_interrupted
        && names[begun..].iter().any(|name| name.starts_with("__x64_sys_") || name.starts_with("do_syscall_"))
}

fn wakes(raw: &Raw, mut taken: Taken, stacks: &Stacks) -> Vec<Wake> {
    let made = raw.wakes.iter().map(|wake| {
        let found = taken.take(wake.by, Some(wake.woken), wake.at);
        let (by, stack) = match wake.context {
            Context::Thread => (Waker::Thread(wake.by), found.and_then(|found| found.all)),
            Context::Interrupt if wake.by != 0 && found.is_some_and(|found| is_own(stacks, found.all)) => {
                (Waker::Thread(wake.by), found.and_then(|found| found.all))
            }
            // What the thread did that it interrupted has nothing to do with it.
            Context::Interrupt => (Waker::Interrupt, found.and_then(|found| found.kernel)),
        };
        Wake { at: wake.at, by, woken: wake.woken, new: wake.new, stack }
    });
    made.collect()
}

/// How a thread left its CPU, from the state that the kernel writes.
pub(crate) fn went(state: u64) -> Went {
    /// It was to run on, whatever it was about to do.
    const PREEMPTED: u64 = 0x100;
    const SLEEPS: u64 = 1;
    const DEAD: u64 = 16 | 32;
    if state == 0 || state & PREEMPTED != 0 {
        Went::Preempted
    } else if state & DEAD != 0 {
        Went::Ended
    } else if state & SLEEPS != 0 {
        Went::Asleep
    } else {
        Went::Held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_words() {
        for (state, expected) in [
            (0, Went::Preempted),
            (0x100, Went::Preempted),
            (1, Went::Asleep),
            (2, Went::Held),
            (0x40, Went::Held),
            (0x80, Went::Held),
            (4, Went::Held),
            (16, Went::Ended),
            (32, Went::Ended),
            (48, Went::Ended),
        ] {
            assert_eq!(went(state), expected, "{state:#x}");
        }
    }
}

//! What a stop costs, measured on the program itself: stops with nothing between them.

use model::Nanos;
use os::awake::Awake;
use os::ptrace::Registers;
use os::spawn::monotonic_ns;
use os::tracee::Tracee;
use os::tracer::{Resume, Tracer, What};
use std::io;

/// Stops of each kind in a batch, and batches. Times of stops are added up, so that it is their mean that counts: of a
/// batch without its dearest stops, which something else on the machine held up. The median of the batches does not
/// mind some while the machine was busy.
const ROUNDS: usize = 31;
const BATCHES: usize = 15;
const DEAREST: usize = ROUNDS / 10;
/// How long the program stands still before it goes on, as it does where a stop is looked into.
const STILL: u64 = 100_000;
const SIGTRAP: i32 = 5;
const GETPID: u64 = 39;

/// What stops cost, nanoseconds between going on and the end of the wait, without waits of the program for a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    breakpoint: i64,
    call: i64,
    returned: i64,
    /// CPU time of the program per breakpoint; the kernel may not count it.
    cpu: Option<i64>,
}

impl Costs {
    /// All kinds of stops take so long, of it so much CPU time.
    #[cfg(test)]
    pub fn new(stop: i64, cpu: i64) -> Self {
        Self { breakpoint: stop, call: stop, returned: stop, cpu: Some(cpu) }
    }

    /// Of a stop of this kind.
    pub fn of(&self, what: &What) -> i64 {
        match what {
            What::Call(..) => self.call,
            What::Returned(_) => self.returned,
            _ => self.breakpoint,
        }
    }

    /// Of a breakpoint.
    pub fn breakpoint(&self) -> Nanos {
        Nanos(self.breakpoint.cast_unsigned())
    }

    /// Of both stops of a system call.
    pub fn call(&self) -> Nanos {
        Nanos((self.call + self.returned).cast_unsigned())
    }

    /// CPU time that so many stops took of a thread. Those of system calls count as breakpoints: from initialisers on
    /// there are none.
    pub fn cpu_of(&self, stops: u64) -> i64 {
        self.cpu.unwrap_or(0).saturating_mul(i64::try_from(stops).unwrap_or(i64::MAX))
    }
}

/// `registers` stand on a breakpoint, `syscall` is an instruction of that kind. Both are met again and again; at the
/// end all is as it was.
pub(super) fn measure(
    tracer: &mut Tracer,
    awake: &mut Awake,
    root: i32,
    syscall: Option<u64>,
    registers: &Registers,
) -> io::Result<Costs> {
    let mut tries = Tries { tracer, awake, root, signals: Vec::new() };
    let mut batches = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        batches.push(tries.batch(syscall, registers)?);
    }
    restore(tries, registers)?;
    let middle = |of: fn(&Costs) -> i64| median(batches.iter().map(of).collect()).unwrap_or(0);
    Ok(Costs {
        breakpoint: middle(|batch| batch.breakpoint),
        call: middle(|batch| batch.call),
        returned: middle(|batch| batch.returned),
        cpu: median(batches.iter().filter_map(|batch| batch.cpu).collect()),
    })
}

/// Registers are as they were; signals that came meanwhile come again.
fn restore(tries: Tries<'_>, registers: &Registers) -> io::Result<()> {
    tries.tracer.set_registers(tries.root, registers)?;
    tries.signals.into_iter().try_for_each(|signal| os::tracer::send(tries.root, signal))
}

/// The stopped program.
struct Tries<'a> {
    tracer: &'a mut Tracer,
    awake: &'a mut Awake,
    root: i32,
    /// Kept for later.
    signals: Vec<i32>,
}

impl Tries<'_> {
    fn batch(&mut self, syscall: Option<u64>, registers: &Registers) -> io::Result<Costs> {
        let root = self.root;
        self.awake.follow(Tracee(root));
        let before = self.tracer.cpu_time(root);
        let mut breakpoints = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            self.tracer.set_registers(root, registers)?;
            breakpoints.push(self.one(Resume::Continue, |what| *what == What::Signal(SIGTRAP))?);
        }
        // Reading them waits until the thread has left its CPU, after which its time is exact.
        self.tracer.registers(root)?;
        let spent = before
            .zip(self.tracer.cpu_time(root))
            .map(|(before, after)| after.0.cast_signed() - before.0.cast_signed());
        let (mut calls, mut returns) = (Vec::new(), Vec::new());
        for address in std::iter::repeat_n(syscall, ROUNDS).flatten() {
            let mut there = *registers;
            (there.rip, there.rax) = (address, GETPID);
            self.tracer.set_registers(root, &there)?;
            calls.push(self.one(Resume::ToSystemCall, |what| matches!(what, What::Call(..)))?);
            returns.push(self.one(Resume::ToSystemCall, |what| matches!(what, What::Returned(_)))?);
        }
        let breakpoint = mean(breakpoints).unwrap_or(0);
        Ok(Costs {
            breakpoint,
            // Without an instruction to try, both are taken for breakpoints.
            call: mean(calls).unwrap_or(breakpoint),
            returned: mean(returns).unwrap_or(breakpoint),
            cpu: spent.map(|spent| spent / ROUNDS as i64),
        })
    }

    /// One stop of the expected kind.
    fn one(&mut self, mode: Resume, expected: impl Fn(&What) -> bool) -> io::Result<i64> {
        loop {
            let stopped = monotonic_ns();
            while monotonic_ns() < stopped + STILL {
                // Which goes through the kernel, as looking into a program does.
                self.tracer.waited(self.root);
            }
            let before = self.tracer.waited(self.root);
            let began = monotonic_ns();
            self.tracer.resume(self.root, mode, 0)?;
            let event = self.tracer.wait_for(self.root)?;
            match event.what {
                what if expected(&what) => {
                    let took = event.at_ns.cast_signed() - began.cast_signed();
                    let waited = event.waited.0.saturating_sub(before.0).cast_signed();
                    return Ok(took - waited.min(took));
                }
                What::Signal(signal) => self.signals.push(signal),
                // Its end is told again; the caller finds it gone.
                What::Ended => return Err(os::tracer::gone()),
                _ => {}
            }
        }
    }
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Of all but the dearest.
fn mean(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    values.truncate(values.len() - DEAREST.min(values.len()));
    values.iter().sum::<i64>().checked_div(i64::try_from(values.len()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_mind_one_that_waited() {
        assert_eq!(median(vec![5, 4, 1_000_000, 6, 5]), Some(5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn the_mean_counts_what_is_dear_and_leaves_out_what_was_held_up() {
        assert_eq!(mean(vec![4, 8, 1_000_000, 1_000_000, 1_000_000]), Some(6));
        assert_eq!(mean(vec![1_000_000; DEAREST]), None);
        assert_eq!(mean(Vec::new()), None);
    }
}

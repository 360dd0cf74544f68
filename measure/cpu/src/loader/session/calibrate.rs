//! What a stop costs, measured on the program itself: stops with nothing between them.

use model::Nanos;
use os::ptrace::Registers;
use os::spawn::monotonic_ns;
use os::tracer::{Resume, Tracer, What};
use std::io;

/// Stops of each kind in a batch, and batches. The median of a batch does not mind a stop that waited for the CPU; the
/// smallest of the medians does not mind a batch while the machine was busy with something else.
const ROUNDS: usize = 31;
const BATCHES: usize = 7;
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
    root: i32,
    syscall: Option<u64>,
    registers: &Registers,
) -> io::Result<Costs> {
    let mut tries = Tries { tracer, root, signals: Vec::new() };
    let mut batches = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        batches.push(tries.batch(syscall, registers)?);
    }
    restore(tries, registers)?;
    let least = |of: fn(&Costs) -> i64| batches.iter().map(of).min().unwrap_or(0);
    Ok(Costs {
        breakpoint: least(|batch| batch.breakpoint),
        call: least(|batch| batch.call),
        returned: least(|batch| batch.returned),
        cpu: batches.iter().filter_map(|batch| batch.cpu).min(),
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
    root: i32,
    /// Kept for later.
    signals: Vec<i32>,
}

impl Tries<'_> {
    fn batch(&mut self, syscall: Option<u64>, registers: &Registers) -> io::Result<Costs> {
        let root = self.root;
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
        let breakpoint = median(breakpoints).unwrap_or(0);
        Ok(Costs {
            breakpoint,
            // Without an instruction to try, both are taken for breakpoints.
            call: median(calls).unwrap_or(breakpoint),
            returned: median(returns).unwrap_or(breakpoint),
            cpu: spent.map(|spent| spent / ROUNDS as i64),
        })
    }

    /// One stop of the expected kind.
    fn one(&mut self, mode: Resume, expected: impl Fn(&What) -> bool) -> io::Result<i64> {
        loop {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_mind_one_that_waited() {
        assert_eq!(median(vec![5, 4, 1_000_000, 6, 5]), Some(5));
        assert_eq!(median(Vec::new()), None);
    }
}

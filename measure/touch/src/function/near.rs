//! Keeps the tracer on the CPU on which the threads run that it answers.
//!
//! A stop is two wake-ups: the tracer's, and after its answer the thread's. On one CPU each is a switch from one to the
//! other. From one CPU to another it is an interrupt, and on a virtual machine a slow one; but a scheduler that knows
//! nothing of the two gives each a CPU of its own. Only the tracer is moved: where the program's threads run, and what
//! they see of it, stays as it is.

use os::tracee::Tracee;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// So many stops are answered between two looks at where the program runs: a look takes as long as an answer.
const STOPS: u32 = 32;

/// Where the tracer runs.
#[derive(Debug, Default)]
pub struct Near {
    /// Where it may run, as it was begun; `None`: it was not moved yet.
    anywhere: Option<CpuSet>,
    /// The only CPU that it may run on now.
    at: Option<usize>,
    stops: u32,
}

impl Near {
    /// The calling thread answers a stop of this one. A failure means that it stays where it is.
    pub fn to(&mut self, tracee: Tracee) {
        self.stops += 1;
        if self.stops < STOPS {
            return;
        }
        self.stops = 0;
        let cpu = tracee.last_cpu().filter(|cpu| *cpu < CpuSet::MAX_CPU);
        if let Some(cpu) = cpu.filter(|_| cpu != self.at)
            && let Some(anywhere) = self.anywhere.or_else(|| sched_getaffinity(None).ok())
        {
            self.anywhere = Some(anywhere);
            let mut only = CpuSet::new();
            only.set(cpu);
            if anywhere.is_set(cpu) && sched_setaffinity(None, &only).is_ok() {
                self.at = Some(cpu);
            }
        }
    }

    /// The calling thread may run where it wants, as may the threads that it begins.
    pub fn let_go(&mut self) {
        if let (Some(_), Some(anywhere)) = (self.at.take(), &self.anywhere) {
            let _ = sched_setaffinity(None, anywhere);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn the_tracer_goes_where_the_program_is_and_is_let_go() {
        let anywhere = sched_getaffinity(None).unwrap();
        let mut near = Near::default();
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| anywhere.is_set(*cpu)) {
            let mut only = CpuSet::new();
            only.set(cpu);
            let mut command = std::process::Command::new("sleep");
            // SAFETY: a single system call, which is async-signal-safe.
            unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) };
            let mut child = command.arg("1000").spawn().unwrap();
            let tracee = Tracee(child.id().cast_signed());
            (0..STOPS).for_each(|_| near.to(tracee));
            let ours = sched_getaffinity(None).unwrap();
            near.let_go();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(ours, only);
            assert_eq!(sched_getaffinity(None).unwrap(), anywhere);
        }
    }
}

//! Keeps two CPUs from going to sleep: the one on which a traced thread runs, and its tracer's.
//!
//! A stop is two wake-ups. What one takes depends on how deep the CPU was asleep, and on a virtual machine on whether
//! the host still looked for work for it: 5 or 50 µs, by what happened before. Two threads that spin on these CPUs make
//! it one figure. They run when nothing else wants to (SCHED_IDLE), and a CPU that has only them counts as free where
//! the kernel looks for one.

use crate::tracee::Tracee;
use rustix::thread::{CpuSet, Pid, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Until it is dropped.
#[derive(Debug, Default)]
pub struct Awake {
    traced: Option<Spinner>,
    tracer: Option<Spinner>,
}

impl Awake {
    /// The calling thread is about to let this one go on, which may run on another CPU than before. Where no thread can
    /// be started, CPUs sleep as they do. Takes about as long as a stop.
    pub fn follow(&mut self, tracee: Tracee) {
        place(&mut self.traced, tracee.last_cpu());
        place(&mut self.tracer, Some(sched_getcpu()));
    }
}

/// A spinner runs there from now on.
fn place(spinner: &mut Option<Spinner>, cpu: Option<usize>) {
    let Some(cpu) = cpu.filter(|cpu| *cpu < CpuSet::MAX_CPU) else { return };
    if spinner.as_ref().is_none_or(|spinner| spinner.cpu != cpu) {
        let moved = spinner.take().or_else(Spinner::start);
        *spinner = moved.and_then(|mut it| it.go_to(cpu).then_some(it));
    }
}

#[derive(Debug)]
struct Spinner {
    tid: Pid,
    cpu: usize,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    fn start() -> Option<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let over = Arc::clone(&is_over);
        let spin = move || {
            if only_when_idle() && tell.send(rustix::thread::gettid()).is_ok() {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let thread = std::thread::Builder::new().name("awake".into()).spawn(spin).ok()?;
        Some(Self { tid: told.recv().ok()?, cpu: CpuSet::MAX_CPU, is_over, thread: Some(thread) })
    }

    /// `false`: this one may not run there.
    fn go_to(&mut self, cpu: usize) -> bool {
        let mut only = CpuSet::new();
        only.set(cpu);
        self.cpu = cpu;
        sched_setaffinity(Some(self.tid), &only).is_ok()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The calling thread runs when nothing else wants to.
fn only_when_idle() -> bool {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid for reads; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spinners() -> Vec<(usize, i32)> {
        let of = |task: std::fs::DirEntry| {
            let tid: u32 = task.file_name().to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let cpu = crate::process::thread_stat(std::process::id(), tid)?.last_cpu? as usize;
            // SAFETY: asks for a number.
            let policy = unsafe { libc::sched_getscheduler(tid.cast_signed()) };
            (name.trim() == "awake").then_some((cpu, policy))
        };
        std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| of(task.ok()?)).collect()
    }

    #[test]
    fn the_cpus_of_both_are_kept_awake_until_the_end() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tracee = Tracee(child.id().cast_signed());
        let mut awake = Awake::default();
        awake.follow(tracee);
        let (kept, of_child) = (spinners(), crate::process::thread_stat(child.id(), child.id()).unwrap().last_cpu);
        awake.follow(tracee);
        assert_eq!(spinners().len(), 2);
        drop(awake);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(spinners(), []);
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|(_, policy)| *policy == libc::SCHED_IDLE), "{kept:?}");
        assert!(kept.iter().any(|(cpu, _)| Some(*cpu) == of_child.map(|cpu| cpu as usize)), "{kept:?}, {of_child:?}");
    }
}

//! Where the time of traced starts goes: the recorder of the room `cpu`, for who starts and for who stores.

use cpu::{Given, Options, Raw, Recorder, Trace, What};
use model::{Nanos, Result, Warning};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use symbols::{Kernel, PerfMap, PerfMapPlace};

/// Takes down one start after the other.
pub struct CpuTracer {
    recorder: Recorder,
    kernel: std::result::Result<Kernel, String>,
}

/// A start as it was taken down, and what will be gone when it is given names.
pub struct Taken {
    raw: Raw,
    /// The thread that waits for readiness: ours.
    observer: u32,
    /// Where processes that lived when it was ready would list code that they made.
    maps: Vec<(u32, PerfMapPlace)>,
}

impl CpuTracer {
    /// Finds out what this machine allows.
    ///
    /// # Errors
    /// As [`Recorder::open`].
    pub fn open() -> Result<(Self, Vec<Warning>)> {
        let (recorder, warnings) = Recorder::open(&Options::default())?;
        Ok((Self { recorder, kernel: Kernel::running() }, warnings))
    }

    /// Begins with a process that waits at its gate.
    ///
    /// # Errors
    /// As [`Recorder::attach`].
    pub fn attach(&mut self, pid: u32) -> Result<()> {
        self.recorder.attach(pid)
    }

    /// Ends; by the thread that waited for readiness.
    ///
    /// # Errors
    /// As [`Recorder::stop`].
    pub fn stop(&mut self, t0_ns: u64) -> Result<Taken> {
        let raw = self.recorder.stop(t0_ns)?;
        let began = raw.tasks.iter().filter(|task| task.what != What::Ended).map(|task| task.pid);
        let processes: BTreeSet<u32> = began.chain([raw.root]).collect();
        let maps = processes.into_iter().filter_map(|pid| Some((pid, PerfMapPlace::of(pid).ok()?))).collect();
        Ok(Taken { raw, observer: os::threads::own(), maps })
    }

    /// Gives names to a start that was ready at this time.
    pub fn name(&self, taken: Taken, ready: Nanos) -> Trace {
        let mut cannot = Vec::new();
        let mut made: HashMap<u32, PerfMap> = HashMap::new();
        for (pid, place) in taken.maps {
            match place.read() {
                Ok(Some(map)) => drop(made.insert(pid, map)),
                Ok(None) => {}
                Err(why) => cannot.push(format!("what code is that process {pid} made at run time: {why}")),
            }
        }
        let given = Given {
            ready,
            ready_by: None,
            cpus: os::cpu::online(),
            root: Path::new("/"),
            kernel: &self.kernel,
            made: &made,
        };
        let mut trace = cpu::resolve(&taken.raw, &given);
        trace.cannot.extend(cannot);
        cpu::noticed_by(&mut trace, taken.observer);
        trace
    }
}

//! The thread that empties the rings into memory.

use super::Events;
use super::ring::Ring;
use model::Nanos;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What the thread took out.
#[derive(Debug)]
pub(super) struct Drained {
    /// The bytes of each ring, in the order of the rings.
    pub(super) logs: Vec<Vec<u8>>,
    /// CPU time that this took until it was to end; taking out what was left then is not in it.
    pub(super) own: Nanos,
}

/// The running thread.
#[derive(Debug)]
pub(super) struct Drain {
    stop: Arc<OwnedFd>,
    thread: JoinHandle<Drained>,
}

impl Drain {
    pub(super) fn start(events: &Arc<Events>, rings: Vec<Ring>) -> io::Result<Self> {
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let (stopped, events) = (Arc::clone(&stop), Arc::clone(events));
        let thread = std::thread::Builder::new().name("thaw-perf".to_owned()).spawn(move || {
            if events.plain < events.owners.len() {
                hurry();
            }
            drain_until(&stopped, &events.owners, rings)
        })?;
        Ok(Self { stop, thread })
    }

    /// Takes out what is left, and ends; `None`: it died.
    pub(super) fn finish(self) -> Option<Drained> {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        self.thread.join().ok()
    }
}

/// Runs before others: samples with stacks fill a ring in the time that a busy machine lets a thread wait. Without
/// rights it stays as it is; what is lost then is counted.
fn hurry() {
    const FIRST: libc::c_int = -20;
    // SAFETY: changes the calling thread alone, and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, FIRST) };
}

fn drain_until(stop: &OwnedFd, owners: &[OwnedFd], mut rings: Vec<Ring>) -> Drained {
    let mut logs = vec![Vec::new(); rings.len()];
    // An event whose processes are all gone is "hung up" for ever; others may still write into its ring.
    let mut alive = vec![true; owners.len()];
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
        let polled: Vec<usize> = (0..owners.len()).filter(|index| alive[*index]).collect();
        fds.extend(polled.iter().map(|index| PollFd::new(&owners[*index], PollFlags::IN)));
        let every = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let result = rustix::event::poll(&mut fds, Some(&every));
        let stopped = !fds[0].revents().is_empty() || result.is_err_and(|cause| cause != rustix::io::Errno::INTR);
        for (index, fd) in polled.iter().zip(&fds[1..]) {
            alive[*index] = !fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        }
        let own = crate::threads::own_cpu_time();
        // What is little may wait for the end, when nothing is measured any more.
        for (ring, log) in rings.iter_mut().zip(&mut logs).filter(|(ring, _)| stopped || ring.is_due()) {
            ring.drain(log);
        }
        if stopped {
            return Drained { logs, own };
        }
    }
}

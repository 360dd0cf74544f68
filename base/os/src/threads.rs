//! Work on several threads, where the system gives them; the time that a thread had. Not for a thread with a task of
//! its own: that is `std::thread::Builder`, whose error is an answer, where `std::thread::spawn` ends the program.

use model::Nanos;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The number of the calling thread.
pub fn own() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

/// From now on the calling thread takes little more than what others leave of the CPU: nice 19, a seventieth of a CPU
/// that is busy. It cannot come back, unless it is root's.
///
/// Not SCHED_IDLE, which gets a fifth of that: a thread that is kept from running while it holds a lock of the file
/// system holds up whoever writes there, and who joins it waits, too.
pub fn step_back() {
    const LAST: libc::c_int = 19;
    // SAFETY: changes the calling thread alone, and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LAST) };
}

/// CPU time that the calling thread had so far.
pub fn own_cpu_time() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Does work whose parallel parts (rayon's) run on as many threads as the machine has CPUs; if no more can be started,
/// on the calling one. Rayon's own pool panics then.
pub fn with_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match pool() {
        Some(pool) => pool.install(work),
        // This thread is in such a pool already.
        None => work(),
    }
}

fn pool() -> Option<ThreadPool> {
    let alone = || ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    ThreadPoolBuilder::new().build().or_else(|_| alone()).ok()
}

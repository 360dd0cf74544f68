//! Work on several threads, where the system gives them. Not for a thread with a task of its own: that is
//! `std::thread::Builder`, whose error is an answer, where `std::thread::spawn` ends the program.

use rayon::{ThreadPool, ThreadPoolBuilder};

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

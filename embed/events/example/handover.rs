//! Two threads that hand work to one another: `THAW_EVENTS=DIRECTORY handover [TIMES]`.

use std::sync::mpsc::channel;

fn main() {
    let times = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000_u64);
    let (to, from) = channel::<u64>();
    let worker = std::thread::spawn(move || {
        thaw_events::thread_name("worker");
        for job in from {
            thaw_events::exec_posted!(job, "pool::job");
            thaw_events::done!(job, "pool::job");
        }
    });
    for job in 1..=times {
        if job == 1 {
            thaw_events::name(job, "the first job");
        }
        thaw_events::wait!(job, "pool::job");
        to.send(job).expect("the worker waits");
    }
    drop(to);
    worker.join().expect("the worker ends");
}

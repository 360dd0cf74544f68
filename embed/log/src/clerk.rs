//! One thread that does jobs by their priority, and what is due by time between them.

use crate::queue::{Level, Queue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Whose jobs they are: it lives on the thread, and alone touches the disk.
pub trait Desk: Send + 'static {
    /// What it is given to do.
    type Job: Send + 'static;
    /// Does a job, or a step of one: what is returned is done next of its level, unless a higher one has come.
    fn work(&mut self, job: Self::Job) -> Option<Self::Job>;
    /// Does what is due by now, and says when it wants to be asked again at the latest.
    fn due(&mut self, now: Instant) -> Option<Instant>;
    /// Readable when [`Desk::noticed`] has something to do.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// What it watches is readable.
    fn noticed(&mut self) {}
    /// The last call: no job is left.
    fn end(&mut self) {}
}

struct Waiting<J> {
    queue: Queue,
    jobs: HashMap<u64, J>,
    last: u64,
    ends: bool,
}

struct Shared<J> {
    waiting: Mutex<Waiting<J>>,
    wake: OwnedFd,
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It can fail only when the count is at its end: then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// The thread. Dropped, it does what it was given and ends.
pub struct Clerk<J: Send + 'static> {
    shared: Arc<Shared<J>>,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static> Clerk<J> {
    /// Starts it.
    ///
    /// # Errors
    /// The process has too many threads or descriptors.
    pub fn new<D: Desk<Job = J>>(name: &str, desk: D) -> io::Result<Clerk<J>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let waiting = Waiting { queue: Queue::default(), jobs: HashMap::new(), last: 0, ends: false };
        let shared = Arc::new(Shared { waiting: Mutex::new(waiting), wake });
        let its = shared.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&its, desk))?;
        Ok(Clerk { shared, thread: Some(thread) })
    }

    /// Gives it a job.
    pub fn give(&self, level: Level, job: J) -> u64 {
        let mut waiting = self.shared.lock();
        waiting.last += 1;
        let id = waiting.last;
        waiting.jobs.insert(id, job);
        waiting.queue.place(level, (0, 0), id);
        drop(waiting);
        self.shared.wake();
        id
    }

    /// Gives a job that waits another level. `false`: it is under way or done.
    pub fn raise(&self, id: u64, level: Level) -> bool {
        self.shared.lock().queue.raise(id, level)
    }

    /// Takes a job back that waits.
    pub fn cancel(&self, id: u64) -> Option<J> {
        let mut waiting = self.shared.lock();
        waiting.queue.take(id);
        waiting.jobs.remove(&id)
    }

    /// Something is due earlier than the desk said.
    pub fn wake(&self) {
        self.shared.wake();
    }
}

impl<J: Send + 'static> Drop for Clerk<J> {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<D: Desk>(shared: &Shared<D::Job>, mut desk: D) {
    loop {
        let next = desk.due(Instant::now());
        let (job, ends) = {
            let mut waiting = shared.lock();
            let job = waiting.queue.pop().and_then(|(level, id)| Some((level, id, waiting.jobs.remove(&id)?)));
            (job, waiting.ends)
        };
        match job {
            Some((level, id, job)) => {
                if let Some(rest) = desk.work(job) {
                    let mut waiting = shared.lock();
                    waiting.jobs.insert(id, rest);
                    waiting.queue.place(level, (0, 0), id);
                }
                continue;
            }
            None if ends => break,
            None => {}
        }
        let noticed = {
            let mut polled = vec![PollFd::new(&shared.wake, PollFlags::IN)];
            polled.extend(desk.watched().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            // Interrupted or out of memory: it is asked again.
            let _ = poll(&mut polled, left.as_ref());
            polled.get(1).is_some_and(|watched| !watched.revents().is_empty())
        };
        let _ = rustix::io::read(shared.wake.as_fd(), &mut [0; 8]);
        if noticed {
            desk.noticed();
        }
    }
    desk.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    struct Notes(Sender<u32>, Receiver<()>);

    impl Desk for Notes {
        type Job = u32;
        fn work(&mut self, job: u32) -> Option<u32> {
            self.0.send(job).unwrap();
            let _ = self.1.recv();
            (job > 100).then(|| job - 100)
        }
        fn due(&mut self, _: Instant) -> Option<Instant> {
            None
        }
        fn end(&mut self) {
            self.0.send(0).unwrap();
        }
    }

    #[test]
    fn jobs_are_done_by_level_in_steps_and_all_before_the_end() {
        let ((say, said), (let_go, go)) = (channel(), channel());
        let clerk = Clerk::new("test", Notes(say, go)).unwrap();
        clerk.give(Level::Write, 1);
        assert_eq!(said.recv(), Ok(1));
        // It stands inside the first.
        let later = clerk.give(Level::Write, 2);
        let gone = clerk.give(Level::Write, 3);
        clerk.give(Level::Read, 204);
        assert_eq!(clerk.cancel(gone), Some(3));
        assert!(clerk.raise(later, Level::UrgentRead) && !clerk.raise(gone, Level::Read));
        (0..9).for_each(|_| let_go.send(()).unwrap());
        drop(clerk);
        assert_eq!(said.iter().collect::<Vec<_>>(), [2, 204, 104, 4, 0]);
    }

    struct Clock(Sender<Instant>, Option<Instant>);

    impl Desk for Clock {
        type Job = Instant;
        fn work(&mut self, job: Instant) -> Option<Instant> {
            self.1 = Some(job);
            None
        }
        fn due(&mut self, now: Instant) -> Option<Instant> {
            if self.1.is_some_and(|at| at <= now) {
                self.0.send(now).unwrap();
                self.1 = None;
            }
            self.1
        }
    }

    #[test]
    fn what_is_due_is_done_in_time_and_never_before() {
        let (say, said) = channel();
        let clerk = Clerk::new("test", Clock(say, None)).unwrap();
        let at = Instant::now() + Duration::from_millis(30);
        clerk.give(Level::Manage, at);
        assert!(said.recv().unwrap() >= at);
    }
}

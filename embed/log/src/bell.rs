//! News for a program's own event loop: a queue, and a descriptor that is readable while it is not empty.

use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// The queue.
pub struct Bell<E> {
    news: Mutex<VecDeque<E>>,
    fd: OwnedFd,
}

impl<E> Bell<E> {
    /// An empty one.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn new() -> io::Result<Bell<E>> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { news: Mutex::default(), fd })
    }

    /// Adds to the news.
    pub fn ring(&self, news: impl IntoIterator<Item = E>) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = all.is_empty();
        all.extend(news);
        if silent && !all.is_empty() {
            // It can fail only when the count is at its end: then the descriptor is readable already.
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }

    /// Looks at the news that wait; nobody can add or take any meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&VecDeque<E>) -> T) -> T {
        look(&self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the first of the news; the descriptor is readable while there are more.
    pub fn next(&self) -> Option<E> {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let first = all.pop_front()?;
        if all.is_empty() {
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
        Some(first)
    }

    /// Takes all news; the descriptor is not readable then.
    pub fn take(&self) -> VecDeque<E> {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.is_empty() {
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
        std::mem::take(&mut all)
    }
}

impl<E> AsFd for Bell<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(bell: &Bell<u8>) -> bool {
        poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn it_is_readable_while_there_are_news() {
        let bell = Bell::new().unwrap();
        bell.ring([]);
        assert!(!readable(&bell));
        bell.ring([1, 2]);
        bell.ring([3]);
        assert!(readable(&bell));
        assert_eq!(bell.look(VecDeque::len), 3);
        assert_eq!(bell.take(), [1, 2, 3]);
        assert!(!readable(&bell) && bell.take().is_empty());
        bell.ring([4, 5]);
        assert!(bell.next() == Some(4) && readable(&bell));
        assert!(bell.next() == Some(5) && !readable(&bell) && bell.next().is_none());
    }
}

//! What a program is told, and what of it waits to be taken: of other processes' changes only so many, then one word
//! for all of an area's.

use crate::cell::Changed;
use crate::place::Place;
use crate::text::Text;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thaw_log::bell::Bell;

/// What a program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// This area or table can be used.
    Loaded(Arc<Place>),
    /// It cannot be read; this is tried again, and told once.
    Unreadable(Arc<Place>, String),
    /// Another process has changed a key.
    Changed {
        /// Where.
        place: Arc<Place>,
        /// The key; of a table, its bytes.
        key: Text,
        /// What it had here.
        old: Option<Text>,
        /// What it has now; `None`: it is gone.
        new: Option<Text>,
    },
    /// Other processes have changed more of this area than was taken from the news: what came behind the changes that
    /// were told is not told. Its content has to be looked at again.
    Missed(Arc<Place>),
    /// All that was done before this flush was asked for is on the medium.
    Flushed(u64),
    /// A part of a file was not readable. What is before it is loaded, the rest is kept under this name.
    Damaged(Arc<Place>, String),
    /// What was changed here cannot be written. It stays in memory and is tried again; told once.
    Trouble(Arc<Place>, String),
    /// It has been written.
    Recovered(Arc<Place>),
}

/// How many changes of others may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// So many.
    pub changes: usize,
    /// With so many bytes of keys and values, old and new.
    pub bytes: u64,
}

/// Changes that wait.
#[derive(Default)]
struct Waiting {
    changes: usize,
    bytes: u64,
    /// Areas with [`News::Missed`] among the news.
    missed: HashSet<Arc<Place>>,
}

/// The news.
pub struct Feed {
    bell: Bell<News>,
    most: Most,
    /// Taken before the news are.
    waiting: Mutex<Waiting>,
}

fn bytes(news: &News) -> Option<u64> {
    let News::Changed { key, old, new, .. } = news else { return None };
    Some([Some(key), old.as_ref(), new.as_ref()].into_iter().flatten().map(|text| text.0.len() as u64).sum())
}

impl Feed {
    /// Without news.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn new(most: Most) -> io::Result<Feed> {
        Ok(Feed { bell: Bell::new()?, most, waiting: Mutex::default() })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the news what is no change of others.
    pub fn ring(&self, news: impl IntoIterator<Item = News>) {
        self.bell.ring(news);
    }

    /// Adds changes of others, as long as there is room; then the word that some are missing, once until it is taken.
    pub fn tell(&self, place: &Arc<Place>, changed: Vec<Changed>) {
        let mut waiting = self.waiting();
        for Changed { key, old, new } in changed {
            // What is read after that word was taken has these too.
            if waiting.missed.contains(place) {
                return;
            }
            let (place, key, old, new) = (place.clone(), Text(key), old.map(Text), new.map(Text));
            let news = News::Changed { place: place.clone(), key, old, new };
            let more = waiting.bytes + bytes(&news).unwrap_or(0);
            if waiting.changes >= self.most.changes || more > self.most.bytes {
                waiting.missed.insert(place.clone());
                self.bell.ring([News::Missed(place)]);
                return;
            }
            (waiting.changes, waiting.bytes) = (waiting.changes + 1, more);
            self.bell.ring([news]);
        }
    }

    /// Takes the news.
    pub fn take(&self) -> VecDeque<News> {
        let mut waiting = self.waiting();
        *waiting = Waiting::default();
        self.bell.take()
    }

    /// Takes the first of them.
    pub fn next(&self) -> Option<News> {
        let mut waiting = self.waiting();
        let news = self.bell.next()?;
        if let Some(bytes) = bytes(&news) {
            (waiting.changes, waiting.bytes) = (waiting.changes - 1, waiting.bytes - bytes);
        } else if let News::Missed(place) = &news {
            waiting.missed.remove(place);
        }
        Some(news)
    }

    /// Keys and values that wait to be taken.
    #[cfg(feature = "memreport")]
    pub fn texts(&self) -> Vec<Text> {
        self.bell.look(|news| {
            let changed = news.iter().filter_map(|news| match news {
                News::Changed { key, old, new, .. } => Some([Some(key.clone()), old.clone(), new.clone()]),
                _ => None,
            });
            changed.flatten().flatten().collect()
        })
    }

    /// Changes that wait, and bytes of their keys and values.
    pub fn waits(&self) -> (u64, u64) {
        let waiting = self.waiting();
        (waiting.changes as u64, waiting.bytes)
    }
}

impl AsFd for Feed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(origin: &str) -> Arc<Place> {
        Arc::new(Place::area("", origin).unwrap())
    }

    /// A change of this many bytes.
    fn change(bytes: usize) -> Changed {
        Changed { key: vec![0; bytes - 2].into(), old: Some([0].into()), new: Some([0].into()) }
    }

    fn told(news: &VecDeque<News>) -> Vec<(&str, bool)> {
        let each = news.iter().map(|news| match news {
            News::Changed { place, .. } => (&*place.origin, false),
            News::Missed(place) => (&*place.origin, true),
            other => panic!("{other:?}"),
        });
        each.collect()
    }

    #[test]
    fn changes_that_nobody_takes_become_one_word_for_each_area() {
        let (a, b) = (place("https://a.example"), place("https://b.example"));
        for most in [Most { changes: 3, bytes: 1_000 }, Most { changes: 1_000, bytes: 30 }] {
            let feed = Feed::new(most).unwrap();
            for _ in 0..100 {
                feed.tell(&a, vec![change(10), change(10)]);
            }
            assert_eq!(feed.waits(), (3, 30), "{most:?}");
            for _ in 0..100 {
                feed.tell(&b, vec![change(10)]);
            }
            feed.ring([News::Flushed(1)]);
            assert_eq!(feed.waits(), (3, 30));
            let mut news = feed.take();
            assert_eq!(news.pop_back(), Some(News::Flushed(1)), "others are never missed");
            let (a, b) = (&*a.origin, &*b.origin);
            assert_eq!(told(&news), [(a, false), (a, false), (a, false), (a, true), (b, true)], "{most:?}");
            assert_eq!(feed.waits(), (0, 0));
        }
    }

    #[test]
    fn whoever_takes_them_one_by_one_is_told_again() {
        let a = place("https://a.example");
        let feed = Feed::new(Most { changes: 2, bytes: 1_000 }).unwrap();
        feed.tell(&a, vec![change(10), change(20), change(30)]);
        assert!(matches!(feed.next(), Some(News::Changed { .. })));
        assert_eq!(feed.waits(), (1, 20));
        // There is room, but what comes has to be behind what is missing.
        feed.tell(&a, vec![change(5)]);
        assert!(matches!(feed.next(), Some(News::Changed { .. })));
        assert_eq!(feed.next(), Some(News::Missed(a.clone())));
        assert_eq!((feed.next(), feed.waits()), (None, (0, 0)));
        feed.tell(&a, vec![change(5)]);
        assert!(matches!(feed.next(), Some(News::Changed { .. })));
    }
}

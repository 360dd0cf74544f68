//! Events that came into the stream too late: their thread was kept from running between looking at the clock and
//! writing for longer than readers wait. What does not fit waits for the event that explains it.

use heapfile::books::Books;
use heapfile::event::{Event, Freer, Maker, Pointer, What};
use std::collections::HashMap;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Frees of blocks that nobody has made so far.
    frees: HashMap<Pointer, Event>,
    /// Blocks made where one is live so far.
    allocations: HashMap<Pointer, Event>,
    /// Events that were put right.
    pub count: u64,
}

impl Late {
    /// Enters an event, or keeps it.
    pub(super) fn enter(&mut self, event: &Event, books: &mut Books) {
        match event.what {
            What::Alloc { ptr, maker, .. } if maker != Maker::Pool => {
                if let Some(free) = self.frees.remove(&ptr) {
                    if event.ticks < free.ticks {
                        self.count += 1;
                        books.enter(event);
                        books.enter(&free);
                        return;
                    }
                    books.enter(&free);
                }
                if !books.ledger.holds(ptr) {
                    books.enter(event);
                } else if let Some(before) = self.allocations.insert(ptr, *event) {
                    books.enter(&before);
                }
            }
            What::Free { ptr, by: Freer::Free | Freer::Realloc } => match self.allocations.remove(&ptr) {
                Some(made) if event.ticks < made.ticks => {
                    self.count += 1;
                    books.enter(event);
                    books.enter(&made);
                }
                Some(made) => {
                    books.enter(&made);
                    books.enter(event);
                }
                None if books.ledger.holds(ptr) || books.ledger.inherits() => {
                    books.enter(event);
                }
                None => {
                    if let Some(before) = self.frees.insert(ptr, *event) {
                        books.enter(&before);
                    }
                }
            },
            _ => {
                books.enter(event);
            }
        }
    }

    /// Enters what has waited since before this moment: it cannot be explained, and is counted as wrong.
    pub(super) fn settle(&mut self, before: u64, books: &mut Books) {
        for waiting in [&mut self.frees, &mut self.allocations] {
            let mut old: Vec<Event> =
                waiting.extract_if(|_, event| event.ticks <= before).map(|(_, event)| event).collect();
            old.sort_by_key(|event| event.ticks);
            for event in &old {
                books.enter(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapfile::event::{Origin, ThreadId};
    use heapfile::figures::{Split, Window};
    use model::Nanos;
    use proptest::prelude::*;

    fn event(at: u64, thread: u32, what: What) -> Event {
        Event { at: Nanos(at), ticks: at, thread: ThreadId(thread), stack: None, what }
    }

    fn alloc(at: u64, thread: u32, ptr: u64) -> Event {
        let what = What::Alloc { ptr: Pointer(ptr), size: 8, maker: Maker::Malloc, usable: None, count: 1 };
        event(at, thread, what)
    }

    fn free(at: u64, thread: u32, ptr: u64) -> Event {
        event(at, thread, What::Free { ptr: Pointer(ptr), by: Freer::Free })
    }

    fn books_of(events: &[Event]) -> (Books, Late) {
        let mut books = Books::new(Origin::Exec, Nanos(0), Window::default(), Split::Size);
        let mut late = Late::default();
        events.iter().for_each(|event| late.enter(event, &mut books));
        late.settle(u64::MAX, &mut books);
        (books, late)
    }

    #[test]
    fn what_cannot_be_explained_is_counted() {
        let (books, late) = books_of(&[free(1, 1, 16), alloc(2, 1, 32), alloc(3, 1, 32)]);
        let totals = books.ledger.totals();
        assert_eq!((totals.frees_of_unknown, totals.allocs_over_live, late.count), (1, 1, 0));
        assert_eq!((totals.allocations, totals.live_blocks), (2, 1));
    }

    proptest! {
        /// Two threads hand one block on; one of them is late by one event: the books are the same.
        #[test]
        fn one_late_event_makes_no_difference(rounds in 1u64..20, late in 0usize..40) {
            let mut events: Vec<Event> = (0..rounds)
                .flat_map(|round| [alloc(2 * round + 1, 1, 16), free(2 * round + 2, 2, 16)])
                .collect();
            let at = late % events.len();
            if at + 1 < events.len() {
                events.swap(at, at + 1);
            }
            let (books, _) = books_of(&events);
            let totals = books.ledger.totals();
            prop_assert_eq!(totals.inconsistencies(), 0);
            prop_assert_eq!((totals.allocations, totals.frees, totals.live_blocks), (rounds, rounds, 0));
        }
    }
}

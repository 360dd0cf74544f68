//! The books of a process by site, entered event by event: what each site made, and what of it was live at the end and
//! at the peak.

use crate::check::Blocks;
use crate::event::{Event, Freer, Origin, ThreadId, What};
use crate::figures::{Figures, Held, Site, Split, Timeline, Window};
use crate::ledger::{Block, Change, Inconsistency, Ledger};
use crate::stack::Quick;
use model::Nanos;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// What a thread did last.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// It made this block.
    Made(u64),
    /// It gave a block back, for `realloc`, at this time.
    Replaced(Nanos),
}

/// Stack, part, and what was given.
type Key = (u32, u64, u64);

/// The books while events come in.
pub struct Books {
    /// What is live, and the sums.
    pub ledger: Ledger,
    split: Split,
    /// Whether a thread's next event may be missing: then nothing is known to be temporary.
    pub sampled: bool,
    since: Nanos,
    until: Option<Nanos>,
    sites: Vec<Site>,
    index: HashMap<Key, u32, BuildHasherDefault<Quick>>,
    doing: HashMap<ThreadId, Last, BuildHasherDefault<Quick>>,
    peaks: u64,
    /// Most bytes live at a time within the window.
    pub peak: Held,
    /// When that was, since the process began.
    pub peak_at: Nanos,
    /// The last event within the window, since the process began.
    pub last: Nanos,
    /// What was live over time.
    pub timeline: Timeline,
}

impl Books {
    /// Empty ones of a process that began at `start`, since the recording began.
    pub fn new(origin: Origin, start: Nanos, window: Window, split: Split) -> Self {
        Self {
            ledger: Ledger::new(origin),
            split,
            sampled: false,
            since: window.since_ns - start,
            until: window.until_ns.map(|until| until - start),
            sites: Vec::new(),
            index: HashMap::default(),
            doing: HashMap::default(),
            peaks: 0,
            peak: Held::default(),
            peak_at: Nanos(0),
            last: Nanos(0),
            timeline: Timeline::default(),
        }
    }

    /// Enters an event; `false`: it is behind the window.
    pub fn enter(&mut self, event: &Event) -> bool {
        if self.until.is_some_and(|until| event.at > until) {
            return false;
        }
        self.last = event.at;
        let covered = self.ledger.covered_by(event);
        let before = self.doing.remove(&event.thread);
        let change = self.ledger.enter(event);
        if let Some(block) = covered {
            self.goes(&block, |_| {});
        }
        match change {
            Change::Came(ptr, block) => {
                let restored = matches!(event.what, What::Restored { .. });
                self.comes(&block, restored, before);
                if !restored {
                    self.doing.insert(event.thread, Last::Made(ptr.0));
                }
            }
            Change::Went(ptr, block) => {
                let by = match event.what {
                    What::Free { by, .. } => by,
                    _ => Freer::Free,
                };
                let held = block.held();
                let temporary =
                    !self.sampled && by != Freer::Realloc && matches!(before, Some(Last::Made(made)) if made == ptr.0);
                let handed_over = block.thread != event.thread;
                let lived = event.at - block.at;
                self.goes(&block, |figures| {
                    figures.lives(lived, block.count);
                    if temporary {
                        figures.temporary.add(held);
                    }
                    if handed_over {
                        figures.handed_over.add(held);
                    }
                });
                if by == Freer::Realloc {
                    self.doing.insert(event.thread, Last::Replaced(event.at));
                }
            }
            Change::Wrong(Inconsistency::AllocOverLive) => {
                if let Some(block) = Block::made_by(event) {
                    self.comes(&block, false, None);
                }
            }
            // A pool's blocks lie in blocks that are counted.
            Change::PoolCame(..) | Change::PoolWent(..) | Change::Nothing | Change::Wrong(_) => return true,
        }
        let totals = self.ledger.totals();
        let live = Held { bytes: totals.live.0, blocks: totals.live_blocks };
        if event.at >= self.since && live.bytes > self.peak.bytes {
            (self.peak, self.peak_at) = (live, event.at);
            self.peaks += 1;
        }
        self.timeline.enter(event.at, live, totals.allocated.0, totals.allocations);
        true
    }

    /// The site of a block, brought to the last peak; `None`: the block is not of the window.
    fn site(&mut self, block: &Block) -> Option<&mut Site> {
        if block.at < self.since {
            return None;
        }
        let fresh = self.sites.len() as u32;
        let key = self.key(block);
        let at = *self.index.entry(key).or_insert(fresh);
        if at == fresh {
            let figures = Figures::default();
            let usable = block.usable.filter(|_| self.split == Split::Size);
            self.sites.push(Site { stack: block.stack, part: key.1, usable, figures, seen: self.peaks });
        }
        let site = &mut self.sites[at as usize];
        if site.seen < self.peaks {
            // Nothing happened here since the last peak, so what is live now was live then.
            site.figures.peak = site.figures.end;
            site.seen = self.peaks;
        }
        Some(site)
    }

    fn comes(&mut self, block: &Block, restored: bool, before: Option<Last>) {
        let held = block.held();
        let Some(site) = self.site(block) else { return };
        let figures = &mut site.figures;
        if !restored {
            figures.made.add(held);
        } else if let Some(Last::Replaced(at)) = before {
            figures.lifetime_ns = figures.lifetime_ns - Nanos((at - block.at).0.saturating_mul(block.count));
        }
        figures.end.add(held);
        if figures.end.bytes > figures.max.bytes {
            figures.max = figures.end;
        }
    }

    fn goes(&mut self, block: &Block, note: impl FnOnce(&mut Figures)) {
        let Some(site) = self.site(block) else { return };
        site.figures.end.remove(block.held());
        note(&mut site.figures);
    }

    /// The sites as they are after the last event so far.
    pub fn sites(&mut self) -> Vec<Site> {
        let peaks = self.peaks;
        for site in &mut self.sites {
            if site.seen < peaks {
                site.figures.peak = site.figures.end;
                site.seen = peaks;
            }
        }
        let mut sites = self.sites.clone();
        for (_, block) in self.ledger.live().filter(|(_, block)| block.at >= self.since) {
            if let Some(site) = self.index.get(&self.key(block)).and_then(|at| sites.get_mut(*at as usize)) {
                site.figures.lives(self.last - block.at, block.count);
            }
        }
        sites
    }

    /// Enters into these sites what a check knew of the blocks that are live now; the time since the process began.
    pub fn reach(&self, sites: &mut [Site], check: &Blocks, checked: Nanos) {
        let known = |block: &Block| block.at >= self.since && block.at <= checked;
        for (ptr, block) in self.ledger.live().filter(|(_, block)| known(block)) {
            if let Some(site) = self.index.get(&self.key(block)).and_then(|at| sites.get_mut(*at as usize)) {
                site.figures.reached.enter(check.reach(ptr.0), block.held());
            }
        }
    }

    fn key(&self, block: &Block) -> Key {
        let part = match self.split {
            Split::Stack => 0,
            Split::Thread => u64::from(block.thread.0),
            Split::Size => block.size,
        };
        let usable = block.usable.filter(|_| self.split == Split::Size);
        (block.stack.map_or(u32::MAX, |stack| stack.0), part, usable.map_or(u64::MAX, |usable| usable.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Maker, Pointer};
    use crate::stack::StackId;
    use proptest::prelude::*;

    fn event(at: u64, thread: u32, stack: u32, what: What) -> Event {
        Event { at: Nanos(at), ticks: at, thread: ThreadId(thread), stack: Some(StackId(stack)), what }
    }

    fn alloc(at: u64, stack: u32, ptr: u64, size: u64) -> Event {
        event(at, 1, stack, What::Alloc { ptr: Pointer(ptr), size, maker: Maker::Malloc, usable: None, count: 1 })
    }

    fn free(at: u64, thread: u32, ptr: u64, by: Freer) -> Event {
        event(at, thread, 0, What::Free { ptr: Pointer(ptr), by })
    }

    fn books(events: &[Event], window: Window, split: Split) -> Books {
        let mut books = Books::new(Origin::Exec, Nanos(0), window, split);
        for event in events {
            if !books.enter(event) {
                break;
            }
        }
        books.sites = books.sites();
        books
    }

    fn held(bytes: u64, blocks: u64) -> Held {
        Held { bytes, blocks }
    }

    #[test]
    fn the_peak_of_a_site_is_what_it_had_at_the_peak_of_all() {
        let events = [
            alloc(1, 10, 16, 100),
            alloc(2, 20, 32, 50),
            free(3, 1, 16, Freer::Free),
            alloc(4, 20, 48, 70), // 120 live: less than before
            alloc(5, 30, 64, 60), // 180: the peak
            free(6, 1, 32, Freer::Free),
            free(7, 2, 48, Freer::Free),
        ];
        let books = books(&events, Window::default(), Split::Stack);
        let figures: Vec<_> = books.sites.iter().map(|site| site.figures).collect();
        assert_eq!((books.peak, books.peak_at), (held(180, 3), Nanos(5)));
        assert_eq!(figures.iter().map(|it| it.peak).collect::<Vec<_>>(), [held(0, 0), held(120, 2), held(60, 1)]);
        assert_eq!(figures.iter().map(|it| it.end).collect::<Vec<_>>(), [held(0, 0), held(0, 0), held(60, 1)]);
        assert_eq!(figures.iter().map(|it| it.lifetime_ns.0).collect::<Vec<_>>(), [2, 4 + 3, 2]);
        assert_eq!(figures[1].handed_over, held(70, 1));
        assert_eq!(figures[0].temporary, held(0, 0));
    }

    #[test]
    fn a_realloc_that_failed_made_nothing() {
        let restored = event(3, 1, 0, What::Restored { ptr: Pointer(16) });
        let events = [alloc(1, 10, 16, 100), free(2, 1, 16, Freer::Realloc), restored, free(9, 1, 16, Freer::Free)];
        let figures = books(&events, Window::default(), Split::Stack).sites[0].figures;
        assert_eq!((figures.made, figures.end, figures.lifetime_ns), (held(100, 1), held(0, 0), Nanos(8)));
        assert_eq!(figures.temporary, held(0, 0));
    }

    #[test]
    fn a_window_counts_what_was_made_in_it() {
        let events = [alloc(1, 10, 16, 1), alloc(5, 10, 32, 2), free(6, 1, 16, Freer::Free), alloc(9, 10, 48, 4)];
        let window = Window { since_ns: Nanos(5), until_ns: Some(Nanos(8)) };
        let books = books(&events, window, Split::Size);
        assert_eq!(books.sites.len(), 1);
        assert_eq!((books.sites[0].part, books.sites[0].figures.made, books.last), (2, held(2, 1), Nanos(6)));
    }

    proptest! {
        /// Whatever happens, the sites add up to the books of the process, at the end and at the peak.
        #[test]
        fn sites_add_up(steps in prop::collection::vec((0u32..4, 0u64..6, 0u64..50, 0u8..4), 0..80)) {
            let events: Vec<Event> = steps.iter().zip(1..).map(|((stack, ptr, size, kind), at)| match kind {
                0 | 1 => alloc(at, *stack, *ptr, *size),
                2 => free(at, stack % 2, *ptr, Freer::Free),
                _ => free(at, 1, *ptr, Freer::Realloc),
            }).collect();
            let books = books(&events, Window::default(), Split::Stack);
            let mut sum = Figures::default();
            books.sites.iter().for_each(|site| sum.add(&site.figures));
            let totals = books.ledger.totals();
            prop_assert_eq!(sum.end, held(totals.live.0, totals.live_blocks));
            prop_assert_eq!(sum.made, held(totals.allocated.0, totals.allocations));
            prop_assert_eq!(sum.peak, books.peak);
        }
    }
}

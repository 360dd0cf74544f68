//! What a process allocated, by stack: all blocks ever made, and those that were live at a moment. One pass over the events.
//!
//! Memory grows with live blocks and with different stacks, never with the number of events. Not for names: [`crate::symbols`] gives them.

mod timeline;

pub use timeline::{Point, Timeline};

use crate::aggregate::{self, Sums};
use crate::ledger::{Block, Change, Inconsistency, Ledger, Totals};
use crate::stack::Quick;
use crate::stream::{Event, Freer, Module, Origin, Process, ProcessId, Reader, StackId, Stacks, ThreadId, What};
use model::{Bytes, Nanos, Result, Warning};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Held {
    /// Bytes asked for.
    pub bytes: u64,
    /// How many.
    pub blocks: u64,
}

impl Held {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }

    fn of(block: &Block) -> Self {
        Self { bytes: block.bytes(), blocks: block.count }
    }

    fn remove(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.blocks = self.blocks.saturating_sub(other.blocks);
    }
}

/// What the blocks of one site add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Figures {
    /// Blocks made in the window.
    pub made: Held,
    /// Of these, live at the window's end.
    pub end: Held,
    /// Of these, live when the process had the most bytes live.
    pub peak: Held,
    /// Most bytes of this site live at a time, and how many blocks these were.
    pub max: Held,
    /// Of those made, freed by their thread's next event: they were needed for nothing else.
    pub temporary: Held,
    /// Of those made, freed by another thread than their maker.
    pub handed_over: Held,
    /// Sum over the blocks made: from making to freeing, or to the window's end.
    pub lifetime_ns: Nanos,
}

impl Figures {
    /// Adds those of other blocks. The most bytes at a time become an upper bound.
    pub fn add(&mut self, other: &Self) {
        self.made.add(other.made);
        self.end.add(other.end);
        self.peak.add(other.peak);
        self.max.add(other.max);
        self.temporary.add(other.temporary);
        self.handed_over.add(other.handed_over);
        self.lives(other.lifetime_ns, 1);
    }

    fn lives(&mut self, time: Nanos, blocks: u64) {
        self.lifetime_ns = Nanos(self.lifetime_ns.0.saturating_add(time.0.saturating_mul(blocks)));
    }
}

/// Which of the figures is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// All blocks made.
    Made,
    /// Those live at the end of the window.
    End,
    /// Those live at the peak.
    Peak,
    /// Temporary ones.
    Temporary,
}

impl Measure {
    /// It, of these figures.
    pub fn of(self, figures: &Figures) -> Held {
        match self {
            Self::Made => figures.made,
            Self::End => figures.end,
            Self::Peak => figures.peak,
            Self::Temporary => figures.temporary,
        }
    }
}

/// A part of the time of a recording, counted from its beginning. Only blocks made in it are counted; what is live is so at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Window {
    /// First moment.
    pub since_ns: Nanos,
    /// Last moment; `None`: the end of the recording.
    pub until_ns: Option<Nanos>,
}

/// What makes two blocks of one stack different sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Nothing.
    Stack,
    /// The thread that made them.
    Thread,
    /// Their size, and what the allocator gave for it.
    Size,
}

/// Blocks that were made by the same stack (and thread, or size: see [`Split`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Where they were made; `None`: no stack was taken.
    pub stack: Option<StackId>,
    /// Thread or size.
    pub part: u64,
    /// Split by size: what the allocator gave for it, if that was recorded.
    pub usable: Option<Bytes>,
    /// What they add up to.
    pub figures: Figures,
    /// How many peaks there had been when the site changed last.
    #[serde(skip)]
    seen: u64,
}

/// One process, by site.
#[derive(Debug)]
pub struct Heap {
    /// Which.
    pub process: ProcessId,
    /// Its sites, in the order of their first blocks.
    pub sites: Vec<Site>,
    /// Their stacks.
    pub stacks: Stacks,
    /// The objects of their addresses.
    pub modules: Vec<Module>,
    /// Sums over all events up to the window's end.
    pub totals: Totals,
    /// Most bytes live at a time within the window, all blocks counted.
    pub peak: Held,
    /// When that was, since the process began.
    pub peak_at: Nanos,
    /// The last event within the window, since the process began.
    pub last: Nanos,
    /// What was live over time.
    pub timeline: Timeline,
    /// Last names of threads.
    pub threads: HashMap<ThreadId, String>,
    /// Damage that was met.
    pub warnings: Vec<Warning>,
}

impl Heap {
    /// Nothing but stacks, for naming them.
    pub(crate) fn of_stacks(
        process: ProcessId,
        stacks: Stacks,
        modules: Vec<Module>,
        used: impl Iterator<Item = Option<StackId>>,
    ) -> Self {
        let mut heap = Self {
            process,
            sites: Vec::new(),
            stacks,
            modules,
            totals: Totals::default(),
            peak: Held::default(),
            peak_at: Nanos(0),
            last: Nanos(0),
            timeline: Timeline::default(),
            threads: HashMap::new(),
            warnings: Vec::new(),
        };
        heap.also_name(used);
        heap
    }

    /// Adds sites without blocks: so their stacks get names.
    pub(crate) fn also_name(&mut self, stacks: impl Iterator<Item = Option<StackId>>) {
        let stacks: HashSet<StackId> = stacks.flatten().collect();
        let site = |stack| Site { stack: Some(stack), part: 0, usable: None, figures: Figures::default(), seen: 0 };
        self.sites.extend(stacks.into_iter().map(site));
    }
}

/// Reads a process's events, or its sums.
///
/// # Errors
/// The file cannot be read; it has sums only, which know nothing of windows and threads.
pub fn analyze(reader: &Reader, process: &Process, window: Window, split: Split) -> Result<Heap> {
    if process.is_summed() {
        return of_sums(reader, process, window, split);
    }
    let mut events = reader.events(process.id)?;
    let mut books = Books::new(process.origin, process.start, window, split);
    books.sampled = process.sample_bytes > 0;
    let mut threads = HashMap::new();
    while let Some(event) = events.next()? {
        if event.what == What::ThreadNamed
            && let Some(name) = events.thread_name(event.thread)
        {
            threads.insert(event.thread, name.to_owned());
        }
        if !books.enter(&event) {
            break;
        }
    }
    let warnings = events.warnings().to_vec();
    let (stacks, modules) = events.into_parts();
    let sites = books.sites();
    Ok(Heap {
        process: process.id,
        sites,
        stacks,
        modules,
        totals: *books.ledger.totals(),
        peak: books.peak,
        peak_at: books.peak_at,
        last: books.last,
        timeline: books.timeline,
        threads,
        warnings,
    })
}

/// What was added up while the process ran. The most of a site at a time is an upper bound where sizes are put together.
fn of_sums(reader: &Reader, process: &Process, window: Window, split: Split) -> Result<Heap> {
    if window != Window::default() {
        return Err(aggregate::no_events(reader.directory(), "moments and marks are not known"));
    }
    if split == Split::Thread {
        return Err(aggregate::no_events(reader.directory(), "threads are not told apart"));
    }
    let sums = Sums::read(&process.file)?;
    let (stacks, modules) = sums.places();
    let mut sites = sums.sites;
    if split == Split::Stack {
        let mut index: HashMap<Option<StackId>, usize> = HashMap::new();
        let mut whole: Vec<Site> = Vec::new();
        for site in sites {
            let at = *index.entry(site.stack).or_insert(whole.len());
            match whole.get_mut(at) {
                Some(same) => same.figures.add(&site.figures),
                None => whole.push(Site { part: 0, usable: None, ..site }),
            }
        }
        sites = whole;
    }
    Ok(Heap {
        process: process.id,
        sites,
        stacks,
        modules,
        totals: sums.totals,
        peak: sums.peak,
        peak_at: sums.peak_at,
        last: sums.last,
        timeline: sums.timeline,
        threads: HashMap::new(),
        warnings: sums.warnings,
    })
}

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
pub(crate) struct Books {
    pub(crate) ledger: Ledger,
    split: Split,
    /// Whether a thread's next event may be missing: then nothing is known to be temporary.
    pub(crate) sampled: bool,
    since: Nanos,
    until: Option<Nanos>,
    sites: Vec<Site>,
    index: HashMap<Key, u32, BuildHasherDefault<Quick>>,
    doing: HashMap<ThreadId, Last, BuildHasherDefault<Quick>>,
    peaks: u64,
    pub(crate) peak: Held,
    pub(crate) peak_at: Nanos,
    pub(crate) last: Nanos,
    pub(crate) timeline: Timeline,
}

impl Books {
    pub(crate) fn new(origin: Origin, start: Nanos, window: Window, split: Split) -> Self {
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
    pub(crate) fn enter(&mut self, event: &Event) -> bool {
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
                let held = Held::of(&block);
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
        let held = Held::of(block);
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
        site.figures.end.remove(Held::of(block));
        note(&mut site.figures);
    }

    /// The sites as they are after the last event so far.
    pub(crate) fn sites(&mut self) -> Vec<Site> {
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
    use crate::stream::{Maker, Pointer};
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

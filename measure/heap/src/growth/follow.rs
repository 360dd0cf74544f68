//! From events to chains: which block became which.

use super::{Chain, How, Step};
use crate::site::SiteId;
use crate::slop::Model;
use heapfile::event::{Event, Freer, Maker, Pointer, ThreadId, What};
use heapfile::stack::Quick;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

/// A buffer whose growth is over.
pub(super) struct Grown {
    pub chain: Chain,
    /// Where the last growth was asked for.
    pub site: SiteId,
    pub how: How,
}

/// A buffer that `realloc` made smaller, and what came after.
pub(super) struct Turning {
    /// Where the last growth was asked for; before there is one, where it became smaller.
    pub site: SiteId,
    /// Times that it grew after it had become smaller.
    pub turns: u64,
    pub calls: u64,
    /// Bytes that the calls asked for.
    pub allocated: u64,
    pub copied: u64,
    pub least: u64,
    pub most: u64,
    /// The last change.
    last: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Smaller,
    Larger,
}

impl Turning {
    fn call(&mut self, (old, new): (u64, u64), site: SiteId, step: Step) {
        let turn = match new.cmp(&old) {
            Ordering::Less => Turn::Smaller,
            Ordering::Greater => Turn::Larger,
            Ordering::Equal => self.last,
        };
        if turn == Turn::Larger {
            self.turns += u64::from(self.last == Turn::Smaller);
            self.site = site;
        }
        self.last = turn;
        self.calls += 1;
        self.allocated = self.allocated.saturating_add(new);
        if step == Step::Moved {
            self.copied = self.copied.saturating_add(old.min(new));
        }
        (self.least, self.most) = (self.least.min(new), self.most.max(new));
    }
}

/// What is over when a buffer ends, or begins anew.
pub(super) enum Over<'a> {
    Grown(&'a Grown),
    Turned(&'a Turning),
}

/// A live block.
struct Live {
    size: u64,
    site: SiteId,
    /// Blocks that were made before have smaller ones.
    serial: u64,
    /// If it grew.
    grown: Option<Box<Grown>>,
    /// If it became smaller.
    turning: Option<Box<Turning>>,
}

/// A block that may take an older one's place.
struct Recent {
    ptr: Pointer,
    serial: u64,
    /// Events of the thread before it.
    at: u64,
}

/// What a thread did last.
#[derive(Default)]
struct Thread {
    events: u64,
    recent: VecDeque<Recent>,
    /// What `realloc` is about to replace.
    replaced: Option<(Pointer, Live)>,
}

/// A copied block is freed within so many events of its thread.
const SOON: u64 = 64;
/// Blocks of a thread that may be the larger one.
const RECENT: usize = 16;

/// Follows the blocks of a process.
pub(super) struct Follower {
    live: HashMap<Pointer, Live, BuildHasherDefault<Quick>>,
    threads: HashMap<ThreadId, Thread>,
    serial: u64,
    allocated: u64,
    model: Model,
}

type Sink<'a> = &'a mut dyn FnMut(Over);

impl Follower {
    pub fn new(model: Model) -> Self {
        Self { live: HashMap::default(), threads: HashMap::new(), serial: 0, allocated: 0, model }
    }

    /// Bytes asked for so far.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Enters an event; `site` is where, for those that make blocks.
    pub fn enter(&mut self, event: &Event, site: SiteId, over: Sink) {
        let thread = self.threads.entry(event.thread).or_default();
        thread.events += 1;
        match event.what {
            // Blocks of pools lie in blocks of the heap, maybe at their very beginning.
            What::Alloc { maker: Maker::Pool, .. } | What::Free { by: Freer::Pool, .. } => {}
            What::Alloc { ptr, size, maker, .. } => {
                self.allocated = self.allocated.saturating_add(size);
                self.serial += 1;
                let old = match maker {
                    Maker::Realloc(Some(old)) => thread.replaced.take().filter(|(ptr, _)| *ptr == old),
                    _ => None,
                };
                let mut live = Live { size, site, serial: self.serial, grown: None, turning: None };
                match old {
                    Some((old, mut block)) => {
                        let step = if old == ptr { Step::InPlace } else { Step::Moved };
                        live.turning = block.turn(size, site, step);
                        live.grown = block.become_larger(size, site, step, How::Realloc, self.model, over);
                    }
                    None => {
                        if thread.recent.len() == RECENT {
                            thread.recent.pop_front();
                        }
                        thread.recent.push_back(Recent { ptr, serial: self.serial, at: thread.events });
                    }
                }
                if let Some(covered) = self.live.insert(ptr, live) {
                    covered.ends(over);
                }
            }
            What::Free { ptr, by } => {
                let Some(block) = self.live.remove(&ptr) else { return };
                if by == Freer::Realloc {
                    // One that is still here was freed by realloc(p, 0).
                    if let Some((_, freed)) = thread.replaced.replace((ptr, block)) {
                        freed.ends(over);
                    }
                    return;
                }
                let now = thread.events;
                let heir = thread.recent.iter().rev().take_while(|recent| now - recent.at <= SOON).find_map(|recent| {
                    let larger = self.live.get(&recent.ptr).filter(|larger| larger.serial == recent.serial)?;
                    let takes = larger.serial > block.serial
                        && larger.site == block.site
                        && larger.size > block.size
                        && larger.grown.is_none();
                    takes.then_some((recent.ptr, larger.size, larger.site))
                });
                match heir {
                    Some((heir, size, site)) => {
                        let grown = block.become_larger(size, site, Step::Moved, How::CopyAndFree, self.model, over);
                        if let Some(heir) = self.live.get_mut(&heir) {
                            heir.grown = grown;
                        }
                    }
                    None => block.ends(over),
                }
            }
            What::Restored { ptr } => {
                if let Some((_, block)) = thread.replaced.take().filter(|(old, _)| *old == ptr) {
                    self.live.insert(ptr, block);
                }
            }
            What::Map { .. } | What::Unmap { .. } | What::Fork | What::ThreadBegins | What::ThreadNamed => {}
        }
    }

    /// The process is over: so is all growth.
    pub fn end(self, over: Sink) {
        let replaced = self.threads.into_values().filter_map(|thread| thread.replaced).map(|(_, block)| block);
        self.live.into_values().chain(replaced).for_each(|block| block.ends(over));
    }
}

impl Live {
    /// The growth so far with one more step. A block that did not become larger begins anew.
    fn become_larger(
        self,
        size: u64,
        site: SiteId,
        step: Step,
        how: How,
        model: Model,
        over: Sink,
    ) -> Option<Box<Grown>> {
        if size < self.size {
            self.ends(over);
            return None;
        }
        // A copy is another buffer to `realloc`.
        self.turned(over);
        let new = || Box::new(Grown { chain: Chain::new(self.size, model), site, how });
        let mut grown = self.grown.unwrap_or_else(new);
        grown.chain.grow(size, step);
        grown.site = site;
        // One guess makes the whole chain a guess.
        grown.how = grown.how.max(how);
        Some(grown)
    }

    /// What `realloc` makes of its turns, if it becomes smaller or has done so before.
    fn turn(&mut self, size: u64, site: SiteId, step: Step) -> Option<Box<Turning>> {
        let first = || {
            let (least, most, last) = (self.size, self.size, Turn::Larger);
            Box::new(Turning { site, turns: 0, calls: 0, allocated: 0, copied: 0, least, most, last })
        };
        let mut turning = self.turning.take().or_else(|| (size < self.size).then(first))?;
        turning.call((self.size, size), site, step);
        Some(turning)
    }

    fn turned(&self, over: &mut dyn FnMut(Over)) {
        if let Some(turning) = &self.turning {
            over(Over::Turned(turning));
        }
    }

    fn ends(self, over: Sink) {
        self.turned(over);
        if let Some(grown) = &self.grown {
            over(Over::Grown(grown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::Shape;
    use model::Nanos;

    #[derive(Default)]
    struct Story {
        events: Vec<(Event, SiteId)>,
        next: u64,
    }

    impl Story {
        fn event(&mut self, thread: u32, site: u32, what: What) {
            let event = Event { at: Nanos(0), ticks: 0, thread: ThreadId(thread), stack: None, what };
            self.events.push((event, SiteId(site)));
        }
        fn alloc(&mut self, site: u32, size: u64) -> Pointer {
            self.made(1, site, size, Maker::Malloc)
        }
        fn made(&mut self, thread: u32, site: u32, size: u64, maker: Maker) -> Pointer {
            self.next += 16;
            let ptr = Pointer(self.next);
            self.event(thread, site, What::Alloc { ptr, size, maker, usable: None, count: 1 });
            ptr
        }
        fn free(&mut self, thread: u32, ptr: Pointer) {
            self.event(thread, 0, What::Free { ptr, by: Freer::Free });
        }
        fn realloc(&mut self, site: u32, ptr: Pointer, size: u64) -> Pointer {
            self.event(1, site, What::Free { ptr, by: Freer::Realloc });
            self.made(1, site, size, Maker::Realloc(Some(ptr)))
        }
        fn grown(&self) -> Vec<Grown> {
            let mut grown = Vec::new();
            let mut follower = Follower::new(Model::Glibc);
            let mut sink = |over: Over| {
                if let Over::Grown(Grown { chain, site, how }) = over {
                    grown.push(Grown { chain: chain.clone(), site: *site, how: *how });
                }
            };
            for (event, site) in &self.events {
                follower.enter(event, *site, &mut sink);
            }
            follower.end(&mut sink);
            grown
        }
    }

    #[test]
    fn realloc_tells_which_block_became_which() {
        let mut story = Story::default();
        let mut ptr = story.made(1, 1, 100, Maker::Realloc(None));
        for step in 2..=10 {
            ptr = story.realloc(1, ptr, 100 * step);
        }
        story.realloc(2, ptr, 10);
        let grown = story.grown();
        assert_eq!(grown.len(), 1);
        let Grown { chain, site, how } = &grown[0];
        assert_eq!((chain.steps(), chain.last(), *site, *how), (9, 1000, SiteId(1), How::Realloc));
        assert_eq!((chain.allocated(), chain.copied()), (5500, 4500));
    }

    #[test]
    fn a_realloc_that_fails_or_frees_is_no_growth() {
        let mut story = Story::default();
        let ptr = story.alloc(1, 100);
        story.event(1, 1, What::Free { ptr, by: Freer::Realloc });
        story.event(1, 1, What::Restored { ptr });
        let ptr = story.realloc(1, ptr, 200);
        story.event(1, 1, What::Free { ptr, by: Freer::Realloc });
        let grown = story.grown();
        assert_eq!((grown.len(), grown[0].chain.steps()), (1, 1));
    }

    #[test]
    fn allocating_and_freeing_is_followed() {
        let mut story = Story::default();
        let mut ptr = story.alloc(1, 64);
        for step in 2..=12 {
            let larger = story.alloc(1, 64 * step);
            let other = story.alloc(2, 5000);
            story.free(1, ptr);
            story.free(1, other);
            ptr = larger;
        }
        let grown = story.grown();
        assert_eq!(grown.len(), 1);
        let Grown { chain, how, .. } = &grown[0];
        assert_eq!((chain.steps(), *how, chain.shape()), (11, How::CopyAndFree, Shape::Linear));
    }

    #[test]
    fn turns_are_counted_and_copies_of_what_both_sizes_have() {
        let mut story = Story::default();
        let mut ptr = story.alloc(1, 1000);
        for _ in 0..3 {
            ptr = story.realloc(2, ptr, 400);
            ptr = story.realloc(3, ptr, 700);
            ptr = story.realloc(3, ptr, 1000);
        }
        story.free(1, ptr);
        let (mut follower, mut seen) = (Follower::new(Model::Glibc), Vec::new());
        let mut sink = |over: Over| {
            if let Over::Turned(it) = over {
                seen.push((it.site, it.turns, it.calls, it.allocated, it.copied, it.least, it.most));
            }
        };
        for (event, site) in &story.events {
            follower.enter(event, *site, &mut sink);
        }
        follower.end(&mut sink);
        assert_eq!(seen, [(SiteId(3), 3, 9, 3 * 2100, 3 * (400 + 400 + 700), 400, 1000)]);
    }

    #[test]
    fn a_pool_in_a_block_is_not_the_block() {
        let mut story = Story::default();
        let ptr = story.alloc(1, 100);
        story.event(1, 1, What::Alloc { ptr, size: 8, maker: Maker::Pool, usable: None, count: 1 });
        story.event(1, 1, What::Free { ptr, by: Freer::Pool });
        story.realloc(1, ptr, 200);
        let grown = story.grown();
        assert_eq!((grown.len(), grown[0].chain.allocated()), (1, 300));
    }

    #[test]
    fn other_threads_places_and_late_frees_are_no_growth() {
        let mut story = Story::default();
        let small = story.alloc(1, 64);
        story.made(2, 1, 128, Maker::Malloc);
        story.free(1, small);
        let small = story.alloc(1, 64);
        story.alloc(2, 128);
        story.free(1, small);
        let small = story.alloc(1, 64);
        story.alloc(1, 128);
        for _ in 0..SOON {
            story.alloc(3, 1);
        }
        story.free(1, small);
        assert!(story.grown().is_empty());
    }
}

//! What a process has live, from its stream and, if it was forked, from those of the processes that it was forked from.

use super::mark::Block;
use heapfile::event::{Freer, Origin, Process, ThreadId, What};
use heapfile::ledger::{Change, Inconsistency, Ledger};
use heapfile::reader::{Events, Image};
use model::Result;
use std::collections::HashMap;
use std::ops::Range;

/// What a process has.
#[derive(Debug, Default)]
pub struct Live {
    /// Live blocks.
    blocks: Vec<Block>,
    /// Those that it inherited and has not given back: sizes by address.
    inherited: HashMap<u64, u64>,
    /// Blocks that `realloc` is about to replace, or copies at this moment.
    replaced: Vec<Block>,
    /// Whether it has blocks that are not known: it was attached to, or comes from a process that was.
    pub has_others: bool,
    /// Blocks that it made, as [`heapfile::live::LiveId::serial`] counts them.
    pub serial: u64,
    /// Mappings that it made itself: lengths by address.
    mapped: HashMap<u64, u64>,
}

impl Live {
    /// Reads it: events before this time of the time stamp counter.
    ///
    /// # Errors
    /// A file of events cannot be read.
    pub fn of(image: &Image, until: u64) -> Result<Self> {
        let mut live = Self { has_others: image.process.origin == Origin::Attach, ..Self::default() };
        if image.process.origin == Origin::Fork {
            let parent = image.parent.as_deref().map(Image::of).transpose()?.flatten();
            let parent = parent.map(|parent| Self::of(&parent, image.process.start_ticks)).transpose()?;
            live.has_others = parent.as_ref().is_none_or(|parent| parent.has_others);
            let parent = parent.unwrap_or_default();
            live.inherited = parent.blocks().into_iter().map(|block| (block.start, block.size)).collect();
            live.mapped = parent.mapped;
        }
        live.add(&image.process, until)?;
        Ok(live)
    }

    fn add(&mut self, process: &Process, until: u64) -> Result<()> {
        self.serial = 0;
        let mut events = Events::of(process)?;
        let mut ledger = Ledger::new(process.origin);
        let mut replacing: HashMap<ThreadId, Block> = HashMap::new();
        while let Some(event) = events.next()? {
            if event.ticks >= until {
                break;
            }
            let change = ledger.enter(&event);
            replacing.remove(&event.thread);
            let came = matches!(event.what, What::Alloc { .. })
                || matches!(event.what, What::Restored { .. }) && change != Change::Nothing;
            self.serial += u64::from(came);
            if let (Change::Went(ptr, block), What::Free { by: Freer::Realloc, .. }) = (change, event.what) {
                replacing.insert(event.thread, Block { start: ptr.0, size: block.size });
            }
            match (change, event.what) {
                // What was inherited goes.
                (Change::Nothing | Change::Wrong(Inconsistency::FreeOfUnknown), What::Free { ptr, by })
                    if by != Freer::Pool =>
                {
                    self.inherited.remove(&ptr.0);
                }
                (_, What::Map { at, size, flags }) if !flags.is_break() => {
                    self.mapped.insert(at.0, size);
                }
                (_, What::Unmap { at, size }) => self.unmap(at.0..at.0.saturating_add(size)),
                _ => {}
            }
        }
        self.replaced = replacing.into_values().collect();
        self.blocks.extend(ledger.live().map(|(ptr, block)| Block { start: ptr.0, size: block.size }));
        Ok(())
    }

    /// A part of a mapping goes, or several.
    fn unmap(&mut self, gone: Range<u64>) {
        let met = |(at, size): (&u64, &u64)| *at < gone.end && at.saturating_add(*size) > gone.start;
        let hit: Vec<(u64, u64)> =
            self.mapped.iter().filter(|(at, size)| met((at, size))).map(|(at, size)| (*at, *size)).collect();
        for (at, size) in hit {
            self.mapped.remove(&at);
            if at < gone.start {
                self.mapped.insert(at, gone.start - at);
            }
            if at.saturating_add(size) > gone.end {
                self.mapped.insert(gone.end, at.saturating_add(size) - gone.end);
            }
        }
    }

    /// The blocks, in the order of their addresses.
    pub fn blocks(&self) -> Vec<Block> {
        let inherited = self.inherited.iter().map(|(start, size)| Block { start: *start, size: *size });
        let mut blocks: Vec<Block> =
            self.blocks.iter().copied().chain(self.replaced.iter().copied()).chain(inherited).collect();
        blocks.sort_unstable();
        // The same place may be given out again meanwhile.
        blocks.dedup_by_key(|block| block.start);
        blocks
    }

    /// What it mapped itself.
    pub fn mapped(&self) -> Vec<Range<u64>> {
        self.mapped.iter().map(|(at, size)| *at..at.saturating_add(*size)).collect()
    }
}

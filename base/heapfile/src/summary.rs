//! The sums of a process while its events pass: what its report says in the end. Who rewrites a stream adds it up on
//! the way, so that it is read once. Not for words: a report has them.

use crate::event::{self, Brief, Deed, Origin, Process};
use crate::figures::{MissingFrames, Totals};
use crate::live::{Effect, Live};
use crate::reader::{Events, Reader};
use crate::stack::{StackId, Stacks};
use crate::sums::Sums;
use model::Result;
use std::collections::HashSet;

/// The sums of a process while its events pass.
#[derive(Debug)]
pub struct Summary {
    live: Live,
    /// Of the events that were entered.
    pub totals: Totals,
    /// Blocks may have been made before the stream began.
    inherits: bool,
    sample_bytes: u64,
    /// Ticks of the last event.
    pub last: Option<u64>,
    /// Ticks at which most was live.
    pub peak_at: Option<u64>,
    /// Allocations whose stacks lack frames.
    pub missing: MissingFrames,
    /// Variance of the bytes allocated, where they are an estimate; square bytes.
    pub variance: f64,
    /// In the place of events, where these were added up while the program ran.
    pub sums: Option<Sums>,
}

impl Summary {
    /// Nothing yet.
    pub fn new(process: &Process) -> Self {
        Self {
            live: Live::default(),
            totals: Totals::default(),
            inherits: process.origin != Origin::Exec,
            sample_bytes: process.sample_bytes,
            last: None,
            peak_at: None,
            missing: MissingFrames::default(),
            variance: 0.0,
            sums: None,
        }
    }

    /// The live blocks.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// These events will be entered now.
    pub fn begin(&mut self, batch: &[Brief]) {
        self.last = batch.last().map(|event| event.ticks).or(self.last);
        self.live.prefetch(batch);
    }

    /// Enters an event; what it did.
    #[inline(always)]
    pub fn enter(&mut self, event: &Brief, stacks: &Stacks) -> Effect {
        let step = self.live.enter(event, stacks);
        let sums = |live: &Live, held| {
            let class = live.class_of(held);
            (class.count, class.bytes())
        };
        match (step, event.deed) {
            (Effect::Made { held, over, .. }, deed) => {
                let class = self.live.class_of(held);
                self.missing.add(class.end, class.skips, class.count);
                if deed == Deed::PoolAlloc {
                    self.totals.pool_made(event.size);
                    return step;
                }
                if self.sample_bytes > 0 {
                    self.variance += event::variance(event.size, self.sample_bytes);
                }
                let made = (class.count, class.bytes());
                if deed == Deed::Realloc {
                    self.totals.replaced(made.0);
                }
                self.totals.made(event.stack(), made.0, made.1);
                if self.totals.came(made, over.map(|over| sums(&self.live, over))) {
                    self.peak_at = Some(event.ticks);
                }
            }
            (_, Deed::PoolFree) => {}
            (Effect::Went(held), _) => {
                let (count, bytes) = sums(&self.live, held);
                self.totals.freed(count, bytes);
            }
            (_, Deed::Free | Deed::ReallocOld) => self.totals.unknown(self.inherits),
            (Effect::Back { held, over }, _) => {
                let back = sums(&self.live, held);
                self.totals.back(back.0);
                if self.totals.came(back, over.map(|over| sums(&self.live, over))) {
                    self.peak_at = Some(event.ticks);
                }
            }
            (_, Deed::Map) => self.totals.mapped(event.size),
            _ => {}
        }
        step
    }

    /// The stacks of what was not given back, which are all that a summary says of stacks.
    pub fn leaking(&self) -> HashSet<StackId> {
        let of_events = self.live.held().filter_map(|held| self.live.class_of(held).stack());
        let sites = self.sums.iter().flat_map(|sums| &sums.sites);
        let of_sums = sites.filter(|site| site.figures.end.blocks > 0).filter_map(|site| site.stack);
        of_events.chain(of_sums).collect()
    }

    /// What was entered, or added up in its place.
    pub fn totals(&self) -> &Totals {
        self.sums.as_ref().map_or(&self.totals, |sums| &sums.totals)
    }

    /// Reads the events of a process, or what they were added up to; also what gave them.
    ///
    /// # Errors
    /// The file of the process cannot be read; it has more blocks than can be told apart.
    pub fn read(reader: &Reader, process: &Process) -> Result<(Self, Events)> {
        let (mut summary, mut events) = (Self::new(process), reader.places(process.id)?);
        if process.is_summed() {
            summary.sums = Some(Sums::read(&process.file)?);
        }
        let mut batch = Vec::new();
        while events.next_few(&mut batch)? {
            summary.begin(&batch);
            batch.iter().for_each(|event| _ = summary.enter(event, events.stacks()));
        }
        if summary.live.is_full() {
            return Err(summary.live.full(&process.file));
        }
        Ok((summary, events))
    }
}

//! What allocators round up: bytes that were given and not asked for, by allocator, size class and place, and the
//! places that could ask for less.
//!
//! A stream has what was asked for and what was given, as the allocator said it (`malloc_usable_size`). What others
//! would give follows from a [`Model`]; so does what was given, where it was not recorded.

mod clownshoes;
mod models;

pub use clownshoes::{Cause, Certainty, Clownshoes, Shoe};
pub use models::{Category, Model};

use crate::modes::{self, Heap, Split, Window};
use crate::site::{self, Answer, Placed, SiteId, Sites};
use crate::symbols::Frame;
use heapfile::event::{Event, Maker, Process, What};
use heapfile::ledger::{self, Block, Change, Inconsistency, Ledger};
use heapfile::reader::{Events, Reader};
use heapfile::stack::Quick;
use model::{Bytes, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use std::io::{self, Write};

/// How much is said of a recording's slop.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The allocator of the tables; `None`: what was recorded, or else the model of the process's allocator.
    pub model: Option<Model>,
    /// Frames that tell places apart.
    pub frames: usize,
    /// Places to describe for each process.
    pub top: usize,
}

/// Slop of a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "SlopReport"))]
pub struct Report {
    /// Each process that allocated.
    pub processes: Vec<ProcessSlop>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Slop of a process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct ProcessSlop {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// The object that holds the allocator.
    pub allocator: String,
    /// The model of that allocator, if there is one.
    pub allocator_model: Option<Model>,
    /// Where the sizes of blocks in the tables of classes and places come from.
    pub given: Given,
    /// The model of these tables; with recorded sizes, that of their categories, and of the blocks whose size was not
    /// told.
    pub model: Model,
    /// Blocks made.
    pub blocks: u64,
    /// Bytes asked for, all blocks.
    pub requested_bytes: Bytes,
    /// Most bytes asked for at a time.
    pub peak_requested_bytes: Bytes,
    /// Given and not asked for, as recorded; `None`: it was not.
    pub recorded: Option<Slop>,
    /// What each allocator would give for it.
    pub what_if: Vec<WhatIf>,
    /// By size class, most slop first.
    pub classes: Vec<ClassSlop>,
    /// By place, most slop first; as many as were asked for.
    pub sites: Vec<SiteSlop>,
    /// Places that ask for a little more than a power of two, most waste first; as many as were asked for.
    pub clownshoes: Vec<Clownshoes>,
}

/// Where the sizes of blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename = "SlopSource"))]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// The allocator said them.
    Recorded,
    /// They follow from a model.
    Modelled,
}

/// Bytes given and not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Slop {
    /// Of all blocks.
    pub slop_bytes: Bytes,
    /// Of what was live when most was asked for.
    pub peak_slop_bytes: Bytes,
}

/// The same requests given to an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct WhatIf {
    /// The allocator that is modelled.
    pub model: Model,
    /// What it would waste.
    #[serde(flatten)]
    pub slop: Slop,
}

/// Blocks of a size class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct ClassSlop {
    /// How such requests are treated.
    pub category: Category,
    /// Bytes that the allocator gives for a block of the class.
    pub usable: u64,
    /// Blocks made.
    pub blocks: u64,
    /// Bytes asked for.
    pub requested_bytes: Bytes,
    /// Bytes given and not asked for.
    pub slop_bytes: Bytes,
}

/// Blocks of a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct SiteSlop {
    /// Blocks made.
    pub blocks: u64,
    /// Bytes asked for.
    pub requested_bytes: Bytes,
    /// Bytes given and not asked for.
    pub slop_bytes: Bytes,
    /// Different sizes asked for.
    pub sizes: u64,
    /// Where, innermost first.
    pub site: Vec<Frame>,
}

/// Requests of one size from one place.
#[derive(Clone, Debug)]
struct Row {
    usable: [u64; Model::ALL.len()],
    blocks: u64,
    live: u64,
    most_live: u64,
    /// Sizes of the blocks given for them, and how many: mostly one.
    given: Vec<(u64, u64)>,
}

type Rows = HashMap<(SiteId, u64), Row, BuildHasherDefault<Quick>>;

/// For the tables of an allocator without a model.
pub const ELSE: Model = Model::Jemalloc5;

/// Reads a recording.
///
/// # Errors
/// A file that cannot be read.
pub fn report(reader: &Reader, options: &Options) -> Result<Report> {
    let (processes, mut warnings) = site::by_process(reader, options.frames, |process, events, sites| {
        let added = if process.is_summed() {
            let heap = modes::analyze(reader, process, Window::default(), Split::Size)?;
            of_sums(process, &heap, sites, options)
        } else {
            of_events(process, events, sites, options)?
        };
        Ok(of_process(process, added, options))
    })?;
    warnings.extend(guessed(&processes, options));
    Ok(Report { processes, warnings })
}

/// A warning, if a model stands for an allocator that has none.
pub(crate) fn guessed(processes: &[ProcessSlop], options: &Options) -> Option<Warning> {
    let guessed = |process: &&ProcessSlop| process.given == Given::Modelled && process.allocator_model.is_none();
    let unknown = processes.iter().filter(|process| guessed(process) && options.model.is_none());
    let unknown: BTreeSet<&str> = unknown.map(|process| process.exe.as_str()).collect();
    if unknown.is_empty() {
        return None;
    }
    let programs = Vec::from_iter(unknown).join(", ");
    let text =
        format!("thaw has no model of the allocator in {programs}; its tables are what {} would give", ELSE.name());
    Some(Warning::new(WarningKind::Note, text).hint("choose another: --model"))
}

/// One line for each block, process by process in the order of time ([`Model::line`]): by what the allocator gave,
/// where that was recorded, or by a model. Ends at the first error of `out`, which is the inner result.
///
/// # Errors
/// A file that cannot be read.
pub fn lines(reader: &Reader, chosen: Option<Model>, out: &mut dyn Write) -> Result<io::Result<()>> {
    requests(reader, |process, size, usable| {
        let model = chosen.or_else(|| Model::of(&process.allocator, &process.exe)).unwrap_or(ELSE);
        let usable = usable.filter(|_| chosen.is_none());
        writeln!(out, "{}", model.line(size, usable.map(|usable| usable.0)))
    })
}

/// Every block, process by process in the order of time: what was asked for and what was given, if that was recorded.
/// Ends at the first error of `each`, which is the inner result.
///
/// # Errors
/// A file that cannot be read.
pub fn requests<E>(
    reader: &Reader,
    mut each: impl FnMut(&Process, u64, Option<Bytes>) -> std::result::Result<(), E>,
) -> Result<std::result::Result<(), E>> {
    for process in reader.processes() {
        let mut events = reader.events(process.id)?;
        while let Some(event) = events.next()? {
            let What::Alloc { size, maker, usable, count, .. } = event.what else { continue };
            if maker == Maker::Pool {
                continue;
            }
            for _ in 0..count {
                if let Err(error) = each(process, size, usable) {
                    return Ok(Err(error));
                }
            }
        }
    }
    Ok(Ok(()))
}

impl Placed for ProcessSlop {
    fn places(&mut self) -> impl Iterator<Item = &mut Vec<Frame>> {
        let sites = self.sites.iter_mut().map(|slop| &mut slop.site);
        sites.chain(self.clownshoes.iter_mut().map(|shoes| &mut shoes.site))
    }
}

/// What a process adds up to.
pub(crate) struct Added {
    rows: Rows,
    totals: ledger::Totals,
    /// Most bytes live, and what was given for these.
    peak: Bytes,
    at_peak: LiveBytes,
    /// Whether usable sizes were recorded.
    recorded: bool,
}

/// The model of the tables.
pub(crate) fn model_of(process: &Process, options: &Options) -> Model {
    options.model.or_else(|| Model::of(&process.allocator, &process.exe)).unwrap_or(ELSE)
}

/// As many blocks of a place are an upper bound of those that were live at a time.
/// `heap` is told apart by size.
pub(crate) fn of_sums(process: &Process, heap: &Heap, sites: &mut Sites, options: &Options) -> Added {
    let model = model_of(process, options);
    let (mut rows, mut at_peak, mut recorded) = (Rows::default(), LiveBytes::default(), false);
    for site in &heap.sites {
        let (figures, size) = (site.figures, site.part);
        recorded |= site.usable.is_some();
        let given = site.usable.map_or_else(|| model.usable(size), |usable| usable.0.max(size));
        let place = sites.of(site.stack, &heap.stacks, &heap.modules);
        let row = rows.entry((place, size)).or_insert_with(|| Row::new(size));
        row.came(given, figures.made.blocks);
        row.most_live += figures.max.blocks;
        at_peak.given = at_peak.given.saturating_add(given.saturating_mul(figures.peak.blocks));
        for (live, usable) in at_peak.models.iter_mut().zip(row.usable) {
            *live = live.saturating_add(usable.saturating_mul(figures.peak.blocks));
        }
    }
    Added { rows, totals: heap.totals, peak: Bytes(heap.peak.bytes), at_peak, recorded }
}

fn of_events(process: &Process, events: &mut Events, sites: &mut Sites, options: &Options) -> Result<Added> {
    let model = model_of(process, options);
    let mut ledger = Ledger::new(process.origin);
    let mut adding = Adding::new(model);
    while let Some(event) = events.next()? {
        let (block, came) = match (ledger.enter(&event), event.what) {
            (Change::Came(_, block), _) => (block, Came::of(&event)),
            // It came all the same; the free of the one that it covers was missed.
            (Change::Wrong(Inconsistency::AllocOverLive), _) => match Block::made_by(&event) {
                Some(block) => (block, Came::New),
                None => continue,
            },
            (Change::Went(_, block), _) => {
                adding.went(&block, sites.of(block.stack, events.stacks(), events.modules()));
                continue;
            }
            _ => continue,
        };
        let site = sites.of(block.stack, events.stacks(), events.modules());
        adding.came(&block, came, site, ledger.totals().live);
    }
    Ok(adding.added(*ledger.totals()))
}

/// How a block came to be live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A call of the allocator made it.
    New,
    /// A `realloc` that failed left it.
    Back,
}

impl Came {
    pub(crate) fn of(event: &Event) -> Self {
        if matches!(event.what, What::Restored { .. }) { Self::Back } else { Self::New }
    }
}

/// Sums while blocks come and go.
pub(crate) struct Adding {
    model: Model,
    rows: Rows,
    live: LiveBytes,
    /// Most bytes live, and what was given for these.
    peak: Bytes,
    at_peak: LiveBytes,
    recorded: bool,
}

impl Adding {
    pub(crate) fn new(model: Model) -> Self {
        let (rows, live, peak) = (Rows::default(), LiveBytes::default(), Bytes(0));
        Self { model, rows, live, peak, at_peak: live, recorded: false }
    }

    /// A block came; `live` are the bytes that are live with it.
    pub(crate) fn came(&mut self, block: &Block, came: Came, site: SiteId, live: Bytes) {
        self.recorded |= block.usable.is_some();
        let row = self.rows.entry((site, block.size)).or_insert_with(|| Row::new(block.size));
        if came == Came::New {
            row.came(given(block, self.model), block.count);
        }
        row.live = row.live.saturating_add(block.count);
        row.most_live = row.most_live.max(row.live);
        self.live.change(block, row, self.model, u64::saturating_add);
        if live > self.peak {
            (self.peak, self.at_peak) = (live, self.live);
        }
    }

    pub(crate) fn went(&mut self, block: &Block, site: SiteId) {
        let row = self.rows.entry((site, block.size)).or_insert_with(|| Row::new(block.size));
        row.live = row.live.saturating_sub(block.count);
        self.live.change(block, row, self.model, u64::saturating_sub);
    }

    /// With the sums of the whole process.
    pub(crate) fn added(self, totals: ledger::Totals) -> Added {
        let Self { rows, peak, at_peak, recorded, .. } = self;
        Added { rows, totals, peak, at_peak, recorded }
    }
}

pub(crate) fn of_process(process: &Process, added: Added, options: &Options) -> Answer<ProcessSlop> {
    let Added { rows, totals, peak, at_peak, recorded } = added;
    let allocator_model = Model::of(&process.allocator, &process.exe);
    let model = model_of(process, options);
    if totals.allocations == 0 {
        return None;
    }
    let waste = |given: &dyn Fn(&Row) -> u64, at_peak: u64| {
        let requested = |size: &u64, row: &Row| size.saturating_mul(row.blocks);
        let slop = rows.iter().map(|((_, size), row)| given(row).saturating_sub(requested(size, row)));
        Slop { slop_bytes: sum(slop), peak_slop_bytes: Bytes(at_peak.saturating_sub(peak.0)) }
    };
    let what_if = |(index, model): (usize, Model)| {
        let slop = waste(&|row| row.usable[index].saturating_mul(row.blocks), at_peak.models[index]);
        WhatIf { model, slop }
    };
    let given = if recorded && options.model.is_none() { Given::Recorded } else { Given::Modelled };
    let mut wasting = by_site(&rows, given, model);
    wasting.truncate(options.top);
    let mut clownshoes = clownshoes::find(&rows);
    clownshoes.truncate(options.top);
    let places = wasting.iter().map(|(site, _)| *site).chain(clownshoes.iter().map(|(site, _)| *site)).collect();
    let answer = ProcessSlop {
        pid: process.pid,
        exe: shown(&process.exe),
        allocator: shown(&process.allocator),
        allocator_model,
        given,
        model,
        blocks: totals.allocations,
        requested_bytes: totals.allocated,
        peak_requested_bytes: totals.peak,
        recorded: recorded.then(|| waste(&Row::given_bytes, at_peak.given)),
        what_if: Model::ALL.into_iter().enumerate().map(what_if).collect(),
        classes: by_class(&rows, given, model),
        sites: wasting.into_iter().map(|(_, slop)| slop).collect(),
        clownshoes: clownshoes.into_iter().map(|(_, shoes)| shoes).collect(),
    };
    Some((answer, places))
}

/// What the allocator gave for a block: as recorded, else as the model says.
fn given(block: &Block, model: Model) -> u64 {
    block.usable.map_or_else(|| model.usable(block.size), |usable| usable.0.max(block.size))
}

/// Bytes that are live, as recorded or modelled and under each model.
#[derive(Clone, Copy, Default)]
struct LiveBytes {
    given: u64,
    models: [u64; Model::ALL.len()],
}

impl LiveBytes {
    fn change(&mut self, block: &Block, row: &Row, model: Model, by: fn(u64, u64) -> u64) {
        self.given = by(self.given, given(block, model).saturating_mul(block.count));
        for (live, usable) in self.models.iter_mut().zip(row.usable) {
            *live = by(*live, usable.saturating_mul(block.count));
        }
    }
}

impl Row {
    fn new(size: u64) -> Self {
        let usable = Model::ALL.map(|model| model.usable(size));
        Self { usable, blocks: 0, live: 0, most_live: 0, given: Vec::new() }
    }

    fn came(&mut self, usable: u64, count: u64) {
        self.blocks = self.blocks.saturating_add(count);
        match self.given.iter_mut().find(|(given, _)| *given == usable) {
            Some((_, blocks)) => *blocks = blocks.saturating_add(count),
            None => self.given.push((usable, count)),
        }
    }

    fn given_bytes(&self) -> u64 {
        sum(self.given.iter().map(|(usable, blocks)| usable.saturating_mul(*blocks))).0
    }
}

fn sum(bytes: impl Iterator<Item = u64>) -> Bytes {
    Bytes(bytes.fold(0, u64::saturating_add))
}

/// Sizes of the blocks given for requests of `size`, and how many.
fn given_for(size: u64, row: &Row, given: Given, model: Model) -> Vec<(u64, u64)> {
    match given {
        Given::Recorded => row.given.clone(),
        Given::Modelled => vec![(model.usable(size), row.blocks)],
    }
}

fn by_class(rows: &Rows, given: Given, model: Model) -> Vec<ClassSlop> {
    // Requests of one category may get blocks as large as those of another one.
    let mut classes: BTreeMap<(u64, Category), ClassSlop> = BTreeMap::new();
    for ((_, size), row) in rows {
        for (usable, blocks) in given_for(*size, row, given, model) {
            let category = model.category(*size);
            let empty = ClassSlop { category, usable, blocks: 0, requested_bytes: Bytes(0), slop_bytes: Bytes(0) };
            let class = classes.entry((usable, category)).or_insert(empty);
            class.blocks = class.blocks.saturating_add(blocks);
            class.requested_bytes.0 = class.requested_bytes.0.saturating_add(size.saturating_mul(blocks));
            class.slop_bytes.0 = class.slop_bytes.0.saturating_add((usable - size).saturating_mul(blocks));
        }
    }
    let mut classes: Vec<_> = classes.into_values().collect();
    classes.sort_by_key(|class| (std::cmp::Reverse(class.slop_bytes), class.usable, class.category));
    classes
}

fn by_site(rows: &Rows, given: Given, model: Model) -> Vec<(SiteId, SiteSlop)> {
    let mut sites: BTreeMap<SiteId, SiteSlop> = BTreeMap::new();
    let empty = SiteSlop { blocks: 0, requested_bytes: Bytes(0), slop_bytes: Bytes(0), sizes: 0, site: Vec::new() };
    for ((site, size), row) in rows {
        let slop = sites.entry(*site).or_insert_with(|| empty.clone());
        slop.blocks = slop.blocks.saturating_add(row.blocks);
        slop.sizes += 1;
        slop.requested_bytes.0 = slop.requested_bytes.0.saturating_add(size.saturating_mul(row.blocks));
        for (usable, blocks) in given_for(*size, row, given, model) {
            slop.slop_bytes.0 = slop.slop_bytes.0.saturating_add((usable - size).saturating_mul(blocks));
        }
    }
    let mut sites: Vec<_> = sites.into_iter().collect();
    sites.sort_by_key(|(site, slop)| (std::cmp::Reverse(slop.slop_bytes), *site));
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_one_category() {
        // Small and large by the model, but the allocator gave the same.
        let mut rows = Rows::default();
        for (site, size) in [(1, 100), (2, 3000), (3, 200)] {
            let mut row = Row::new(size);
            row.came(4096, 2);
            rows.insert((SiteId(site), size), row);
        }
        let classes = by_class(&rows, Given::Recorded, Model::Moz2011);
        let found: Vec<_> = classes.iter().map(|class| (class.category, class.usable, class.blocks)).collect();
        assert_eq!(found, [(Category::Small, 4096, 4), (Category::Large, 4096, 2)]);
    }
}

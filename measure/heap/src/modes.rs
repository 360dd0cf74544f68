//! What a process allocated, by stack: all blocks ever made, and those that were live at a moment. One pass over the
//! events.
//!
//! Memory grows with live blocks and with different stacks, never with the number of events. Not for names:
//! [`crate::symbols`] gives them.

pub use heapfile::figures::{Figures, Held, Measure, Point, Reach, Reached, Site, Split, Timeline, Totals, Window};

use crate::reached;
use heapfile::books::Books;
use heapfile::event::{Process, ProcessId, ThreadId, What};
use heapfile::module::Module;
use heapfile::reader::Reader;
use heapfile::stack::{StackId, Stacks};
use heapfile::sums::{self, Sums};
use model::{Nanos, Result, Warning, WarningKind};
use std::collections::{HashMap, HashSet};

/// One process, by site.
#[derive(Debug)]
pub struct Heap {
    /// The process that it is of.
    pub process: ProcessId,
    /// Its sites, in the order of their first blocks.
    pub sites: Vec<Site>,
    /// The stacks of the sites, as a tree.
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

    /// Sites that are told apart by size become one by stack.
    pub(crate) fn join_sizes(&mut self) {
        let mut index: HashMap<Option<StackId>, usize> = HashMap::new();
        let mut whole: Vec<Site> = Vec::new();
        for site in std::mem::take(&mut self.sites) {
            let at = *index.entry(site.stack).or_insert(whole.len());
            match whole.get_mut(at) {
                Some(same) => same.figures.add(&site.figures),
                None => whole.push(Site { part: 0, usable: None, ..site }),
            }
        }
        self.sites = whole;
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
    let mut sites = books.sites();
    let mut warnings = events.warnings().to_vec();
    warnings.extend(events.remarks(process));
    warnings.extend(reached::enter(reader, process, window, &books, &events, &mut sites)?);
    let (stacks, modules) = events.into_parts();
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

/// The sums of a part of the time, by the last states before its ends that were kept (`--every`).
fn sums_of(reader: &Reader, process: &Process, window: Window) -> Result<Sums> {
    if window == Window::default() {
        return Sums::read(&process.file);
    }
    let states = sums::states(&process.file)?;
    let Some((known, first)) = states.first() else {
        return Err(sums::no_events(reader.directory(), "moments and marks are not known"));
    };
    let note = |text| Warning::new(WarningKind::Note, format!("of process {} {text}", process.pid));
    let last = |moment: Nanos| states.iter().rev().find(|(at, _)| *at <= moment);
    let (mut sums, until) = match window.until_ns.map(|moment| (moment, last(moment))) {
        None => (Sums::read(&process.file)?, "the end".to_owned()),
        Some((_, Some((at, path)))) => (Sums::read(path)?, format!("{:.1} s", at.seconds())),
        Some((moment, None)) => {
            let mut nothing = Sums::read(first)?.before_all();
            let began = process.start <= moment;
            let text = format!("nothing is known before {:.1} s, its first state that was kept", known.seconds());
            nothing.warnings.extend(began.then(|| note(text)));
            return Ok(nothing);
        }
    };
    let mut since = "its beginning".to_owned();
    if let Some((at, path)) = last(window.since_ns) {
        sums.since(&Sums::read(path)?);
        since = format!("{:.1} s", at.seconds());
    }
    let text = format!("there are sums from {since} until {until}: states are kept every so often");
    sums.warnings.push(note(text));
    Ok(sums)
}

/// What was added up while the process ran. The most of a site at a time is an upper bound where sizes are put
/// together.
fn of_sums(reader: &Reader, process: &Process, window: Window, split: Split) -> Result<Heap> {
    if split == Split::Thread {
        return Err(sums::no_events(reader.directory(), "threads are not told apart"));
    }
    let sums = sums_of(reader, process, window)?;
    let (stacks, modules) = sums.places();
    let mut heap = Heap {
        process: process.id,
        sites: sums.sites,
        stacks,
        modules,
        totals: sums.totals,
        peak: sums.peak,
        peak_at: sums.peak_at,
        last: sums.last,
        timeline: sums.timeline,
        threads: HashMap::new(),
        warnings: sums.warnings,
    };
    if split == Split::Stack {
        heap.join_sizes();
    }
    Ok(heap)
}

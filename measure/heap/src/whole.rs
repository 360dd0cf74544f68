//! All that a page says of a recording, from one reading of its events: sums by stack, what each stack held over time,
//! slop, growth.
//!
//! Memory grows with live blocks, different stacks and sizes, and with what stacks held over time up to a bound, never
//! with the number of events. Where there are sums in the place of events, what stacks held is known of the moments of
//! which a state was kept, and of the last one; growth is not known.

mod moments;

pub use moments::{Moments, Step};

use crate::growth::{self, ELSEWHERE, Growing, ProcessGrowth};
use crate::modes::{self, Heap, Split, Window};
use crate::named::{self, Filter, Named};
use crate::reached;
use crate::site::{self, Answer, Placed, Sites};
use crate::slop::{self, Adding, Came, ProcessSlop};
use crate::symbols::{self, Names};
use heapfile::books::Books;
use heapfile::event::{Event, Freer, Maker, Pointer, Process, ThreadId, What};
use heapfile::figures::{Held, Site};
use heapfile::ledger::{Block, Ledger};
use heapfile::reader::Reader;
use heapfile::stack::StackId;
use heapfile::sums::{self, Sums};
use model::{Error, Exit, Nanos, Result, Warning, WarningKind};
use std::collections::{BTreeSet, HashMap};

/// How much is said of slop and growth.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Frames that tell places of slop and growth apart.
    pub frames: usize,
    /// Places of these to describe for each process.
    pub top: usize,
}

/// A recording, read once.
#[derive(Debug)]
pub struct Whole {
    /// All sites, with names.
    pub named: Named,
    /// What each of them held over time, by process.
    pub moments: Vec<Moments>,
    /// Rounding, of whole processes.
    pub slop: slop::Report,
    /// Growth, of whole processes.
    pub growth: growth::Report,
}

/// What is said of a process.
struct Of {
    heap: Heap,
    moments: Moments,
    sites: Sites,
    slop: Answer<ProcessSlop>,
    growth: Answer<ProcessGrowth>,
    warnings: Vec<Warning>,
}

/// Reads a recording, those processes that are wanted. Slop and growth know no doubts about names: these are in
/// `named`.
///
/// # Errors
/// A file that cannot be read; a part of the time, of sums.
pub fn read(reader: &Reader, window: Window, filter: &Filter, options: &Options) -> Result<Whole> {
    let split = if filter.threads.is_empty() { Split::Stack } else { Split::Thread };
    let rounding = slop::Options { model: None, frames: options.frames, top: options.top };
    let growing = growth::Options { frames: options.frames, top: options.top };
    let mut unnamed = named::Unnamed::of(reader);
    let doubts: Vec<Warning> = reader.warnings().iter().cloned().chain(reader.sampled()).collect();
    let mut slop = slop::Report { processes: Vec::new(), warnings: doubts.clone() };
    let mut growth = growth::Report { processes: Vec::new(), warnings: doubts };
    let (mut moments, mut slop_places, mut growth_places) = (Vec::new(), Vec::new(), Vec::new());
    for (index, process) in reader.processes().iter().filter(|process| filter.wants(process)).enumerate() {
        let of = of_process(reader, process, window, split, &rounding, &growing)?;
        moments.push(of.moments);
        for warnings in [&mut slop.warnings, &mut growth.warnings] {
            warnings.extend(of.warnings.iter().cloned().chain(site::lost(process)));
        }
        if let Some((answer, places)) = of.slop {
            slop_places.push((index, site::UnnamedPlaces::of(process.id, &of.sites, &places)));
            slop.processes.push(answer);
        }
        if let Some((answer, places)) = of.growth {
            growth_places.push((index, site::UnnamedPlaces::of(process.id, &of.sites, &places)));
            growth.processes.push(answer);
        }
        unnamed.add(process, of.heap, filter);
    }
    slop.warnings.extend(slop::guessed(&slop.processes, &rounding));
    let places = slop_places.iter().chain(&growth_places);
    let places = places.flat_map(|(index, places)| places.addresses(&unnamed.heaps[*index].modules));
    let names = Names::with(&unnamed.heaps, places, &symbols::recall(reader.directory())?);
    name(&mut slop.processes, &slop_places, &names);
    name(&mut growth.processes, &growth_places, &names);
    Ok(Whole { named: unnamed.named(names, filter), moments, slop, growth })
}

fn name(answers: &mut [impl Placed], places: &[(usize, site::UnnamedPlaces)], names: &Names) {
    for (answer, (_, places)) in answers.iter_mut().zip(places) {
        places.name(answer, names);
    }
}

fn of_process(
    reader: &Reader,
    process: &Process,
    window: Window,
    split: Split,
    rounding: &slop::Options,
    growing: &growth::Options,
) -> Result<Of> {
    if process.is_summed() {
        return of_sums(reader, process, window, split, rounding);
    }
    let mut events = reader.events(process.id)?;
    let mut sites = Sites::new(rounding.frames);
    let mut slop = Adding::new(slop::model_of(process, rounding));
    let mut growth = Growing::new(process);
    let mut moments = Moments::new(split);
    let mut books = Books::new(process.origin, process.start, window, split);
    books.sampled = process.sample_bytes > 0;
    let since = window.since_ns - process.start;
    let mut threads: HashMap<ThreadId, String> = HashMap::new();
    // The window ends before the events do: what the books say of it.
    let mut closed = None;
    while let Some(event) = events.next()? {
        let before = Before::of(&books.ledger, &event);
        if closed.is_none() {
            if event.what == What::ThreadNamed
                && let Some(name) = events.thread_name(event.thread)
            {
                threads.insert(event.thread, name.to_owned());
            }
            if !books.enter(&event) {
                closed = Some((books.sites(), *books.ledger.totals()));
            }
        }
        let inside = closed.is_none();
        if !inside {
            books.ledger.enter(&event);
        }
        let moved = before.and_then(|before| before.moved(&books.ledger, &event));
        let site = match moved {
            Some(Moved::Went(block)) => {
                slop.went(&block, sites.of(block.stack, events.stacks(), events.modules()));
                ELSEWHERE
            }
            Some(Moved::Came { block, how, .. }) => {
                let site = sites.of(block.stack, events.stacks(), events.modules());
                slop.came(&block, how, site, books.ledger.totals().live);
                site
            }
            // A block of a pool.
            None => match event.what {
                What::Alloc { .. } => sites.of(event.stack, events.stacks(), events.modules()),
                _ => ELSEWHERE,
            },
        };
        growth.enter(&event, site);
        if let Some(moved) = moved.filter(|_| inside) {
            let (went, came) = match moved {
                Moved::Went(block) => (Some(block), None),
                Moved::Came { block, covered, .. } => (covered, Some(block)),
            };
            for block in went.iter().filter(|block| block.at >= since) {
                moments.goes(block, event.at);
            }
            for block in came.iter().filter(|block| block.at >= since) {
                moments.comes(block, event.at);
            }
        }
    }
    let whole = *books.ledger.totals();
    let (mut blocks, totals) = closed.unwrap_or_else(|| (books.sites(), whole));
    let mut warnings = events.warnings().to_vec();
    warnings.extend(events.remarks(process));
    warnings.extend(reached::enter(reader, process, window, &books, &events, &mut blocks)?);
    let (stacks, modules) = events.into_parts();
    let heap = Heap {
        process: process.id,
        sites: blocks,
        stacks,
        modules,
        totals,
        peak: books.peak,
        peak_at: books.peak_at,
        last: books.last,
        timeline: books.timeline,
        threads,
        warnings: warnings.clone(),
    };
    let slop = slop::of_process(process, slop.added(whole), rounding);
    Ok(Of { heap, moments, sites, slop, growth: growth.ended(process, growing), warnings })
}

/// As [`of_process`], of what was added up while the process ran.
fn of_sums(reader: &Reader, process: &Process, window: Window, split: Split, rounding: &slop::Options) -> Result<Of> {
    if window != Window::default() {
        let why = "a page shows the whole time of a recording that has sums in the place of events";
        return Err(Error::on(Exit::Usage, "cannot show a part of the time of", reader.directory())
            .because(why)
            .hint("without --html, --since and --until are answered by the states that --every kept"));
    }
    // By thread is refused there.
    let by_size = if split == Split::Stack { Split::Size } else { split };
    let mut heap = modes::analyze(reader, process, window, by_size)?;
    let mut sites = Sites::new(rounding.frames);
    let slop = slop::of_process(process, slop::of_sums(process, &heap, &mut sites, rounding), rounding);
    heap.join_sizes();
    let moments = moments_of(process, &heap)?;
    let text =
        format!("process {}: how sizes grow is not known, because there are sums in the place of events", process.pid);
    heap.warnings.push(Warning::new(WarningKind::Note, text));
    let warnings = heap.warnings.clone();
    Ok(Of { heap, moments, sites, slop, growth: None, warnings })
}

/// States that are read for a page at most: a day has some 1,400.
const MOST_STATES: usize = 250;

/// What each stack held when a state was kept, and at the end.
fn moments_of(process: &Process, heap: &Heap) -> Result<Moments> {
    let mut moments = Moments::new(Split::Stack);
    let (mut held, mut latest): (HashMap<Option<StackId>, Held>, _) = (HashMap::new(), Nanos(0));
    let mut enter = |at: Nanos, sites: &[Site]| {
        // A state may be younger than the last event.
        latest = at.max(latest);
        let mut holds: HashMap<Option<StackId>, Held> = HashMap::new();
        for site in sites.iter().filter(|site| site.figures.end.blocks > 0) {
            holds.entry(site.stack).or_default().add(site.figures.end);
        }
        for stack in held.keys().chain(holds.keys()).copied().collect::<BTreeSet<_>>() {
            let of = |at: &HashMap<_, Held>| at.get(&stack).copied().unwrap_or_default();
            moments.changes(stack, latest, (of(&held), of(&holds)));
        }
        held = holds;
    };
    let states = sums::states(&process.file)?;
    for (at, path) in states.iter().step_by(states.len().div_ceil(MOST_STATES).max(1)) {
        // An old state goes while it is looked at, if the program still runs.
        let Ok(state) = Sums::read(path) else { continue };
        enter(*at - process.start, &state.sites);
    }
    enter(heap.last, &heap.sites);
    Ok(moments)
}

/// What the books held before an event, where that tells what it does.
#[derive(Clone, Copy)]
enum Before {
    /// A block is made, maybe where one is.
    Covers(Option<Block>),
    /// This block is given back.
    Holds(Block),
    /// A `realloc` failed, and nothing is where its block was.
    Lacks(Pointer),
}

/// What an event did to the heap.
#[derive(Clone, Copy)]
enum Moved {
    /// A block came; the one that it covers went unseen.
    Came { block: Block, how: Came, covered: Option<Block> },
    /// A block went.
    Went(Block),
}

impl Before {
    fn of(ledger: &Ledger, event: &Event) -> Option<Self> {
        match event.what {
            What::Alloc { maker: Maker::Pool, .. } | What::Free { by: Freer::Pool, .. } => None,
            What::Alloc { .. } => Some(Self::Covers(ledger.covered_by(event))),
            What::Free { ptr, .. } => ledger.at(ptr).map(Self::Holds),
            What::Restored { ptr } => (!ledger.holds(ptr)).then_some(Self::Lacks(ptr)),
            What::Map { .. } | What::Unmap { .. } | What::Fork | What::ThreadBegins | What::ThreadNamed => None,
        }
    }

    /// `ledger` has the event by now.
    fn moved(self, ledger: &Ledger, event: &Event) -> Option<Moved> {
        match self {
            Self::Covers(covered) => Block::made_by(event).map(|block| Moved::Came { block, how: Came::New, covered }),
            Self::Holds(block) => Some(Moved::Went(block)),
            Self::Lacks(ptr) => {
                let block = ledger.at(ptr)?;
                Some(Moved::Came { block, how: Came::Back, covered: None })
            }
        }
    }
}

//! A recording, added up and named: what reports, trees, differences and exports are made from.

use crate::modes::{self, Figures, Heap, Measure, Site, Split, Window};
use crate::suppressions::Suppressions;
use crate::symbols::{self, Frame, FrameId, Names};
use heapfile::event::{Process, ProcessId, ThreadId};
use heapfile::reader::Reader;
use model::{Result, Warning, WarningKind};
use serde::Serialize;
use std::collections::HashMap;

/// Which sites are wanted; what is empty lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A part of the path of an object that has a frame in the stack.
    pub modules: Vec<String>,
    /// A part of the name of a function in the stack.
    pub functions: Vec<String>,
    /// The number or a name of the thread that made the blocks.
    pub threads: Vec<String>,
    /// Numbers of processes.
    pub processes: Vec<u32>,
    /// Least bytes of a row.
    pub min_bytes: u64,
    /// Stacks that are known and not wanted.
    pub suppressions: Suppressions,
}

/// Whether functions that only hand memory on, such as `operator new`, are frames of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrappers {
    /// No: a site begins with who wanted the memory.
    Skipped,
    /// Yes.
    Kept,
}

/// How much of a stack tells sites apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Innermost frames.
    pub frames: usize,
    /// Whether these begin at the allocator's caller or at who wanted the memory.
    pub wrappers: Wrappers,
}

impl Cut {
    /// This part of a stack.
    pub fn of<'a>(self, names: &Names, stack: &'a [FrameId]) -> &'a [FrameId] {
        let from = match self.wrappers {
            Wrappers::Skipped => names.wanting(stack),
            Wrappers::Kept => stack,
        };
        &from[..from.len().min(self.frames)]
    }
}

/// A recording, added up and named.
#[derive(Debug)]
pub struct Named {
    /// Its processes, those that are wanted.
    pub heaps: Vec<Heap>,
    /// What the recording says of them.
    pub processes: Vec<Process>,
    /// The names of their frames.
    pub names: Names,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Blocks of stacks that agree in their innermost frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What they add up to.
    pub figures: Figures,
    /// Number of different whole stacks that are in it.
    pub stacks: u64,
    /// The frames, innermost first.
    pub frames: Vec<Frame>,
}

impl Named {
    /// Reads, adds up and names. Sites that the filter keeps out are dropped; it says nothing about rows yet.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(reader: &Reader, window: Window, split: Split, filter: &Filter) -> Result<Self> {
        let split = if filter.threads.is_empty() { split } else { Split::Thread };
        let mut unnamed = Unnamed::of(reader);
        for process in reader.processes().iter().filter(|process| filter.wants(process)) {
            unnamed.add(process, modes::analyze(reader, process, window, split)?, filter);
        }
        let names = Names::of(&unnamed.heaps, &symbols::recall(reader.directory())?);
        Ok(unnamed.named(names, filter))
    }

    /// Every site with its process and its frames, innermost first.
    pub fn sites(&self) -> impl Iterator<Item = (&Heap, &Site, Vec<FrameId>)> {
        let sites = self.heaps.iter().flat_map(|heap| heap.sites.iter().map(move |site| (heap, site)));
        sites.map(|(heap, site)| (heap, site, self.names.stack(heap, site.stack)))
    }

    /// Everything added up.
    pub fn total(&self) -> Figures {
        let mut total = Figures::default();
        self.heaps.iter().flat_map(|heap| &heap.sites).for_each(|site| total.add(&site.figures));
        total
    }

    /// What the recording says of a process; `None`: the filter keeps it out.
    pub fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.iter().find(|process| process.id == id)
    }

    /// Sites that agree in this part of their stacks, most first; only those with anything of the measure, and with at
    /// least `min_bytes` of it.
    pub fn rows(&self, measure: Measure, cut: Cut, min_bytes: u64) -> Vec<Row> {
        let mut rows: HashMap<Vec<FrameId>, (Figures, u64)> = HashMap::new();
        for (_, site, stack) in self.sites() {
            let (figures, stacks) = rows.entry(cut.of(&self.names, &stack).to_vec()).or_default();
            figures.add(&site.figures);
            *stacks += 1;
        }
        let kept = |figures: &Figures| measure.of(figures).blocks > 0 && measure.of(figures).bytes >= min_bytes;
        let mut rows: Vec<_> = rows.into_iter().filter(|(_, (figures, _))| kept(figures)).collect();
        rows.sort_by_cached_key(|(stack, (figures, _))| (std::cmp::Reverse(measure.of(figures)), stack.clone()));
        rows.into_iter()
            .map(|(stack, (figures, stacks))| Row { figures, stacks, frames: self.frames(&stack) })
            .collect()
    }

    fn frames(&self, stack: &[FrameId]) -> Vec<Frame> {
        stack.iter().map(|frame| self.names.frame(*frame).clone()).collect()
    }
}

/// A recording whose frames have no names yet.
pub(crate) struct Unnamed {
    pub(crate) heaps: Vec<Heap>,
    processes: Vec<Process>,
    warnings: Vec<Warning>,
}

impl Unnamed {
    /// Of no process yet.
    pub(crate) fn of(reader: &Reader) -> Self {
        let warnings = reader.warnings().iter().cloned().chain(reader.sampled()).collect();
        Self { heaps: Vec::new(), processes: Vec::new(), warnings }
    }

    /// Adds a process, without sites of threads that are not wanted.
    pub(crate) fn add(&mut self, process: &Process, mut heap: Heap, filter: &Filter) {
        self.warnings.append(&mut heap.warnings);
        if !filter.threads.is_empty() {
            let threads = std::mem::take(&mut heap.threads);
            heap.sites.retain(|site| thread_fits(filter, &threads, site));
            heap.threads = threads;
        }
        if process.lost > 0 {
            let text = format!("process {} lost {} events: the figures are too small", process.pid, process.lost);
            self.warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        self.heaps.push(heap);
        self.processes.push(process.clone());
    }

    /// With the names of all addresses, and without sites that are not wanted.
    pub(crate) fn named(self, mut names: Names, filter: &Filter) -> Named {
        let Self { mut heaps, processes, mut warnings } = self;
        warnings.append(&mut names.warnings);
        if !(filter.modules.is_empty() && filter.functions.is_empty() && filter.suppressions.is_empty()) {
            for heap in &mut heaps {
                let mut sites = std::mem::take(&mut heap.sites);
                sites.retain(|site| stack_fits(filter, &names, &names.stack(heap, site.stack)));
                heap.sites = sites;
            }
        }
        Named { heaps, processes, names, warnings }
    }
}

impl Filter {
    /// Whether a process is wanted.
    pub(crate) fn wants(&self, process: &Process) -> bool {
        self.processes.is_empty() || self.processes.contains(&process.pid)
    }
}

fn thread_fits(filter: &Filter, threads: &HashMap<ThreadId, String>, site: &Site) -> bool {
    let name = u32::try_from(site.part).ok().and_then(|thread| threads.get(&ThreadId(thread)));
    filter.threads.iter().any(|wanted| wanted.parse() == Ok(site.part) || name == Some(wanted))
}

fn stack_fits(filter: &Filter, names: &Names, stack: &[FrameId]) -> bool {
    let any = |wanted: &[String], of: fn(&Frame) -> &str| {
        wanted.is_empty()
            || stack.iter().any(|frame| wanted.iter().any(|part| of(names.frame(*frame)).contains(part.as_str())))
    };
    !filter.suppressions.fit(names, stack)
        && any(&filter.modules, |frame| &frame.module)
        && any(&filter.functions, |frame| frame.function.as_deref().unwrap_or_default())
}

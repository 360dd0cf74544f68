//! Dark matter: which blocks no memory reporter spoke of, which were reported more than once, and which reports are of
//! no block.
//!
//! Two things are joined, by address and by the time stamp counter: what reporters measured in a program ([`Marks`],
//! from `embed/memreport`), and a recording of the same process, which knows every live block of that moment with the
//! stack that made it.
//!
//! [`rules`] and [`explicit`] do without reporters: a file of rules says by the stack what a block is for.

mod blocks;
pub mod explicit;
mod marks;
pub mod rules;

pub use blocks::{Blocks, Reported, blocks};
pub use marks::{Amounts, Marks, ReportedAs, Reporter};

use crate::modes::Heap;
use crate::named::Cut;
use crate::slop::Model;
use crate::symbols::{self, Frame, FrameId, Names};
use heapfile::event::{Event, Origin, Process, What};
use heapfile::ledger::{Block, Change, Inconsistency, Ledger};
use heapfile::module::Module;
use heapfile::reader::Reader;
use heapfile::stack::{StackId, Stacks};
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How much is said of dark matter.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much of a stack tells rows apart.
    pub cut: Cut,
    /// Rows of each section.
    pub top: usize,
}

/// What blocks add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Sum {
    /// Bytes that the allocator gave.
    pub usable_bytes: u64,
    /// Bytes that the program asked for.
    pub requested_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

impl Sum {
    /// A recorded block, that of a sampled recording with all that it stands for.
    fn of(block: &Block, usable: u64) -> Self {
        Self { usable_bytes: usable.saturating_mul(block.count), requested_bytes: block.bytes(), blocks: block.count }
    }

    fn join(&mut self, other: &Self) {
        self.usable_bytes = self.usable_bytes.saturating_add(other.usable_bytes);
        self.requested_bytes = self.requested_bytes.saturating_add(other.requested_bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }

    /// Given and not asked for.
    pub fn slop_bytes(&self) -> u64 {
        self.usable_bytes.saturating_sub(self.requested_bytes)
    }
}

/// Blocks of the same kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// All of them.
    pub sum: Sum,
    /// How many rows there are.
    pub sites: u64,
    /// The first of them, most bytes first.
    pub rows: Vec<Row>,
}

/// Blocks that were made by stacks that agree, and reported by the same reporters in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What they add up to.
    pub sum: Sum,
    /// Sizes that were asked for, most blocks first.
    pub sizes: Vec<Sized>,
    /// Each report; nothing for blocks that were not reported.
    pub reports: Vec<ReportedAs>,
    /// Where they were made, innermost first.
    pub frames: Vec<Frame>,
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sized {
    /// Bytes that the program asked for, for each of them.
    pub requested_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// What is wrong with a pointer that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It points into a live block, behind its beginning.
    Interior,
    /// Its block was freed before.
    Freed,
    /// Its block was freed, by the word of the program, and another one is there now.
    Reused,
    /// No block was ever there: the stack, a global, nowhere.
    NoBlock,
    /// It is a block from before the recording, or of the process that this one was forked from.
    NotRecorded,
}

/// Pointers that were measured and are not the beginning of a recorded live block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wrong {
    /// What is wrong with them.
    pub why: Why,
    /// Who measured them, and for which path.
    pub report: ReportedAs,
    /// Number of pointers, each counted as often as it was measured.
    pub pointers: u64,
    /// One of them.
    pub example: u64,
    /// How far that one is behind the beginning of its block.
    pub example_offset: u64,
    /// Where the blocks were made that they point into, or that were freed, innermost first.
    pub frames: Vec<Frame>,
}

/// What `heap-unclassified` of the report is made of. The parts add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unclassified {
    /// `heap-allocated`, without all heap reports below `explicit`.
    pub bytes: i64,
    /// Blocks that nobody reported.
    pub unreported_bytes: i64,
    /// Blocks that were reported more than once: their bytes were taken off more than once. Negative.
    pub reported_again_bytes: i64,
    /// Reporters that report another sum than they measured: what they report less, without what they report more.
    pub misreported_bytes: i64,
    /// What the allocator adds to blocks, and what came, went, or was there before the recording.
    pub rest_bytes: i64,
}

/// Dark matter of one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dark {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// When the reporters were asked, since the recording began.
    pub at_ns: Nanos,
    /// How long they took.
    pub took_ns: Nanos,
    /// All recorded blocks that were live then.
    pub heap: Sum,
    /// Blocks that nobody reported.
    pub unreported: Section,
    /// Blocks that were reported more than once.
    pub reported_again: Section,
    /// Blocks that were reported once.
    pub reported_once: Section,
    /// Blocks that nobody reported and that were freed while the reporters were asked: they are in no section.
    pub went_meanwhile: Sum,
    /// Measured pointers that are no live block, most first.
    pub wrong_pointers: Vec<Wrong>,
    /// What each reporter measured and reported.
    pub reporters: Vec<Reporter>,
    /// What `heap-unclassified` is made of; `None`: the report does not say what is allocated.
    pub unclassified: Option<Unclassified>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// A recording up to the moment of a report, joined with it.
struct Read<'a> {
    process: &'a Process,
    joined: Joined,
    stacks: Stacks,
    modules: Vec<Module>,
    warnings: Vec<Warning>,
}

fn read<'a>(reader: &'a Reader, marks: &Marks) -> Result<Read<'a>> {
    // After an exec the number is another image's.
    let images = reader.processes().iter().filter(|process| process.pid == marks.pid);
    let image =
        images.filter(|process| process.start_ticks <= marks.began_ticks).max_by_key(|process| process.start_ticks);
    let Some(process) = image else {
        return Err(Error::on(Exit::Usage, format!("the recording has no process {}", marks.pid), reader.directory())
            .because("the report is of another process, or of a time before the recording")
            .hint(
                "record and report the same process: thaw heap run -- PROGRAM, then thaw memory show --pid PID \
            --blocks",
            ));
    };
    let mut events = reader.events(process.id)?;
    let mut state = State::new(process, marks, (process.resolution.0 as f64 * reader.rate() / 1e9) as u64);
    while let Some(event) = events.next()? {
        if !state.enter(&event) {
            break;
        }
    }
    let mut warnings = events.warnings().to_vec();
    if process.lost > 0 {
        let text =
            format!("process {} lost {} events: blocks are missing, or were freed long ago", process.pid, process.lost);
        warnings.push(Warning::new(WarningKind::LostRecords, text));
    }
    if process.sample_bytes > 0 {
        let text = "the recording is sampled: sums of blocks are estimates, and pointers to blocks that were not \
        sampled are not judged";
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    let (stacks, modules) = events.into_parts();
    let joined = state.join(Model::of(&process.allocator, &process.exe), process);
    Ok(Read { process, joined, stacks, modules, warnings })
}

/// Joins what was measured in a process with the recording.
///
/// # Errors
/// The process is not in the recording; a file cannot be read.
pub fn analyze(reader: &Reader, marks: &Marks, options: &Options) -> Result<Dark> {
    let Read { process, joined, stacks, modules, mut warnings } = read(reader, marks)?;
    let heap = Heap::of_stacks(process.id, stacks, modules, joined.stacks());
    let mut names = Names::of(std::slice::from_ref(&heap), &symbols::recall(reader.directory())?);
    warnings.append(&mut names.warnings);
    let rate = reader.rate();
    let since = |from: u64, to: u64| Nanos((to.saturating_sub(from) as f64 * 1e9 / rate) as u64);
    let naming = Naming { names: &names, heap: &heap, marks, options };
    let [unreported, reported_once, reported_again] = naming.sections(&joined.blocks);
    let unclassified = marks.amounts.map(|amounts| unclassified(marks, amounts, &unreported, &joined));
    Ok(Dark {
        pid: process.pid,
        exe: shown(&process.exe),
        at_ns: process.start + since(process.start_ticks, marks.began_ticks),
        took_ns: since(marks.began_ticks, marks.ended_ticks),
        heap: joined.heap,
        unreported,
        reported_again,
        reported_once,
        went_meanwhile: joined.went,
        wrong_pointers: naming.wrong(&joined.wrong),
        reporters: marks.reporters.clone(),
        unclassified,
        warnings,
    })
}

/// The books at the moment of the report.
struct State<'a> {
    marks: &'a Marks,
    /// An event may be so much later than the recording says.
    resolution_ticks: u64,
    ledger: Ledger,
    /// Addresses that were measured, rising.
    asked: Vec<u64>,
    /// By place in `asked`: the last block that held the address and was freed.
    freed: Vec<Option<(u64, Block)>>,
    /// Made while the reporters were asked.
    came: HashSet<u64>,
    /// Freed while the reporters were asked, of what was live before.
    went: HashMap<u64, Block>,
}

/// A live block, and the number of its set of reports.
struct Judged {
    stack: Option<StackId>,
    size: u64,
    sum: Sum,
    set: Option<usize>,
}

struct WrongMark {
    why: Why,
    address: u64,
    offset: u64,
    stack: Option<StackId>,
    set: usize,
}

struct Joined {
    heap: Sum,
    blocks: Vec<Judged>,
    wrong: Vec<WrongMark>,
    went: Sum,
}

impl<'a> State<'a> {
    fn new(process: &Process, marks: &'a Marks, resolution_ticks: u64) -> Self {
        let mut asked: Vec<u64> = marks.marks.iter().map(|mark| mark.address).collect();
        asked.sort_unstable();
        asked.dedup();
        Self {
            marks,
            resolution_ticks,
            ledger: Ledger::new(process.origin),
            freed: vec![None; asked.len()],
            asked,
            came: HashSet::new(),
            went: HashMap::new(),
        }
    }

    /// Enters an event; `false`: it is behind the report.
    fn enter(&mut self, event: &Event) -> bool {
        if event.ticks > self.marks.ended_ticks {
            return false;
        }
        let meanwhile = event.ticks.saturating_add(self.resolution_ticks) > self.marks.began_ticks;
        match self.ledger.enter(event) {
            Change::Came(ptr, _) if meanwhile => {
                // A realloc that failed, or that left the block where it was, brings nothing new.
                if matches!(event.what, What::Restored { .. }) {
                    self.went.remove(&ptr.0);
                } else {
                    self.came.insert(ptr.0);
                }
            }
            Change::Went(ptr, block) => {
                let end = ptr.0.saturating_add(block.size.max(1));
                let from = self.asked.partition_point(|address| *address < ptr.0);
                let inside = self.asked[from..].iter().take_while(|address| **address < end).count();
                self.freed[from..from + inside].fill(Some((ptr.0, block)));
                if meanwhile && !self.came.contains(&ptr.0) {
                    self.went.insert(ptr.0, block);
                }
            }
            Change::Wrong(Inconsistency::AllocOverLive) if meanwhile => {
                self.came.insert(event_ptr(event));
            }
            _ => {}
        }
        true
    }

    fn join(self, model: Option<Model>, process: &Process) -> Joined {
        let (origin, sampled) = (process.origin, process.sample_bytes > 0);
        let came = |ptr: u64| self.came.contains(&ptr);
        let stayed = self.ledger.live().filter(|(ptr, _)| !came(ptr.0)).map(|(ptr, block)| (ptr.0, *block));
        let then: BTreeMap<u64, Block> = stayed.chain(self.went.iter().map(|(ptr, block)| (*ptr, *block))).collect();
        let mut reported: HashMap<u64, (u64, usize)> = HashMap::new();
        let mut wrong = Vec::new();
        for mark in &self.marks.marks {
            let at = then.get(&mark.address);
            if mark.usable > 0 && at.is_some() {
                reported.insert(mark.address, (mark.usable, mark.set));
                continue;
            }
            if mark.usable > 0 && came(mark.address) {
                continue;
            }
            let before = then.range(..mark.address).next_back();
            let around = before.filter(|(ptr, block)| mark.address - *ptr < block.size);
            let freed = self.asked.binary_search(&mark.address).ok().and_then(|index| self.freed[index]);
            let (why, block) = match (at, around, freed) {
                (Some(block), _, _) => (Why::Reused, Some((mark.address, *block))),
                (None, Some((ptr, block)), _) => (Why::Interior, Some((*ptr, *block))),
                (None, None, Some(freed)) => (Why::Freed, Some(freed)),
                // A block that was not sampled is none of ours.
                (None, None, None) if mark.usable > 0 && sampled => continue,
                (None, None, None) if mark.usable > 0 && origin != Origin::Exec => (Why::NotRecorded, None),
                (None, None, None) => (Why::NoBlock, None),
            };
            let offset = block.map_or(0, |(ptr, _)| mark.address - ptr);
            let stack = block.and_then(|(_, block)| block.stack);
            wrong.push(WrongMark { why, address: mark.address, offset, stack, set: mark.set });
        }
        let (mut heap, mut went) = (Sum::default(), Sum::default());
        let mut blocks = Vec::with_capacity(then.len());
        for (ptr, block) in &then {
            let found = reported.get(ptr);
            let given = || block.usable.map(|usable| usable.0).or_else(|| Some(model?.usable(block.size)));
            let usable = found.map(|(usable, _)| *usable).or_else(given).unwrap_or(block.size);
            let sum = Sum::of(block, usable);
            heap.join(&sum);
            if found.is_none() && self.went.contains_key(ptr) {
                went.join(&sum);
                continue;
            }
            blocks.push(Judged { stack: block.stack, size: block.size, sum, set: found.map(|(_, set)| *set) });
        }
        Joined { heap, blocks, wrong, went }
    }
}

fn event_ptr(event: &Event) -> u64 {
    match event.what {
        What::Alloc { ptr, .. } => ptr.0,
        _ => 0,
    }
}

impl Joined {
    fn stacks(&self) -> impl Iterator<Item = Option<StackId>> {
        self.blocks.iter().map(|block| block.stack).chain(self.wrong.iter().map(|wrong| wrong.stack))
    }
}

fn unclassified(marks: &Marks, amounts: Amounts, unreported: &Section, joined: &Joined) -> Unclassified {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let bytes = amounts.heap_allocated.saturating_sub(amounts.reported);
    let again = joined.blocks.iter().filter_map(|block| {
        let more = marks.sets[block.set?].len() as u64 - 1;
        Some(block.sum.usable_bytes.saturating_mul(more))
    });
    let again = again.fold(0u64, u64::saturating_add);
    let less = marks
        .reporters
        .iter()
        .map(|reporter| signed(reporter.measured_bytes).saturating_sub(reporter.reported_heap_bytes));
    let misreported_bytes = less.fold(0i64, i64::saturating_add);
    let (unreported_bytes, reported_again_bytes) = (signed(unreported.sum.usable_bytes), -signed(again));
    let known = unreported_bytes.saturating_add(reported_again_bytes).saturating_add(misreported_bytes);
    let rest_bytes = bytes.saturating_sub(known);
    Unclassified { bytes, unreported_bytes, reported_again_bytes, misreported_bytes, rest_bytes }
}

/// Turns numbers into names.
struct Naming<'a> {
    names: &'a Names,
    heap: &'a Heap,
    marks: &'a Marks,
    options: &'a Options,
}

/// Number of a set of reports, and frames.
type Key = (Option<usize>, Vec<FrameId>);
/// What blocks add up to, and how many there are of each size.
type Group = (Sum, BTreeMap<u64, u64>);

impl Naming<'_> {
    fn stack(&self, stack: Option<StackId>, known: &mut HashMap<Option<StackId>, Vec<FrameId>>) -> Vec<FrameId> {
        let named = || {
            let frames = self.names.stack(self.heap, stack);
            self.options.cut.of(self.names, &frames).to_vec()
        };
        known.entry(stack).or_insert_with(named).clone()
    }

    fn frames(&self, frames: &[FrameId]) -> Vec<Frame> {
        frames.iter().map(|frame| self.names.frame(*frame).clone()).collect()
    }

    /// Unreported, reported once, reported more than once.
    fn sections(&self, blocks: &[Judged]) -> [Section; 3] {
        let mut known = HashMap::new();
        let mut groups: [BTreeMap<Key, Group>; 3] = Default::default();
        for block in blocks {
            let reports = block.set.map_or(0, |set| self.marks.sets[set].len());
            let key = (block.set, self.stack(block.stack, &mut known));
            let (sum, sizes) = groups[reports.min(2)].entry(key).or_default();
            sum.join(&block.sum);
            *sizes.entry(block.size).or_default() += block.sum.blocks;
        }
        groups.map(|group| {
            let mut section = Section { sites: group.len() as u64, ..Section::default() };
            let mut rows: Vec<_> = group.into_iter().collect();
            for (_, (sum, _)) in &rows {
                section.sum.join(sum);
            }
            rows.sort_by_key(|(_, (sum, _))| Reverse(*sum));
            rows.truncate(self.options.top);
            section.rows = rows
                .into_iter()
                .map(|((set, stack), (sum, sizes))| {
                    let mut sizes: Vec<_> =
                        sizes.into_iter().map(|(requested_bytes, blocks)| Sized { requested_bytes, blocks }).collect();
                    sizes.sort_by_key(|size| Reverse((size.blocks, size.requested_bytes)));
                    let reports = set.map_or_else(Vec::new, |set| self.marks.sets[set].clone());
                    Row { sum, sizes, reports, frames: self.frames(&stack) }
                })
                .collect();
            section
        })
    }

    fn wrong(&self, wrong: &[WrongMark]) -> Vec<Wrong> {
        let mut known = HashMap::new();
        let mut groups: BTreeMap<(usize, Why, Vec<FrameId>), Wrong> = BTreeMap::new();
        for mark in wrong {
            let stack = self.stack(mark.stack, &mut known);
            // What is no block has one report.
            for report in &self.marks.sets[mark.set] {
                let group = groups.entry((mark.set, mark.why, stack.clone())).or_insert_with(|| Wrong {
                    why: mark.why,
                    report: report.clone(),
                    pointers: 0,
                    example: mark.address,
                    example_offset: mark.offset,
                    frames: self.frames(&stack),
                });
                group.pointers += 1;
            }
        }
        let mut wrong: Vec<Wrong> = groups.into_values().collect();
        wrong.sort_by_key(|wrong| Reverse(wrong.pointers));
        wrong
    }
}

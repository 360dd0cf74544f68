//! An explicit tree of a program that knows nothing of reporters: its blocks and mappings at a moment, put under paths
//! by [`rules`](super::rules).

use super::Sum;
use super::rules::{Region, Rule, Rules};
use crate::maps::Maps;
use crate::modes::{self, Heap, Measure, Split, Window};
use crate::slop::Model;
use crate::symbols::{self, FrameId, Names};
use heapfile::event::{MapFlags, Process};
use heapfile::reader::Reader;
use heapfile::stack::StackId;
use model::{Nanos, Result, Warning, WarningKind, shown};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Which moment of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When a process had the most bytes live; its own moment for each.
    Peak,
    /// The end of the recording.
    End,
    /// So long after the beginning of the recording.
    At(Nanos),
}

/// What lies under a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The path.
    pub path: String,
    /// Whether it is of the allocator or mapped.
    pub place: Region,
    /// What the memory is: a sentence of the rule.
    pub description: String,
    /// Bytes and blocks.
    pub sum: Sum,
}

/// What a rule caught.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caught {
    /// The file of the rule.
    pub file: String,
    /// The line in it where the rule begins, from 1.
    pub line: usize,
    /// Its path, as it is written.
    pub path: String,
    /// Bytes and blocks.
    pub sum: Sum,
}

/// One process at its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explicit {
    /// The number of the process, in its own namespace.
    pub pid: u32,
    /// The program.
    pub exe: String,
    /// When, since the recording began.
    pub at_ns: Nanos,
    /// All live blocks.
    pub heap: Sum,
    /// Private writable mappings without a file that no rule fits, without those of the allocator.
    pub unclassified_non_heap: Sum,
    /// What lies under each path.
    pub leaves: Vec<Leaf>,
    /// What each rule caught.
    pub caught: Vec<Caught>,
}

/// The processes of a recording that had anything at their moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    /// By beginning.
    pub processes: Vec<Explicit>,
    /// All doubts.
    pub warnings: Vec<Warning>,
}

/// Puts all that is live under paths. Earlier sets of rules go before later ones.
///
/// # Errors
/// The recording cannot be read.
pub fn explicit(reader: &Reader, moment: Moment, sets: &[Rules]) -> Result<Trees> {
    let until_ns = match moment {
        Moment::At(at) => Some(at),
        Moment::Peak | Moment::End => None,
    };
    let window = Window { since_ns: Nanos(0), until_ns };
    let memory = symbols::recall(reader.directory())?;
    let mut trees = Trees { processes: Vec::new(), warnings: reader.warnings().to_vec() };
    for process in reader.processes() {
        if until_ns.is_some_and(|until| until < process.start) {
            continue;
        }
        let mut heap = modes::analyze(reader, process, window, Split::Size)?;
        trees.warnings.append(&mut heap.warnings);
        if process.lost > 0 {
            let text = format!("process {} lost {} events: the figures are too small", process.pid, process.lost);
            trees.warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        let (measure, then) = match moment {
            Moment::Peak => (Measure::Peak, heap.peak_at),
            Moment::End => (Measure::End, heap.last),
            Moment::At(at) => (Measure::End, at - process.start),
        };
        let maps = mapped(reader, process, then)?;
        // Their stacks are to be named too.
        heap.also_name(maps.live().map(|(_, mapping)| mapping.stack));
        let mut names = Names::of(std::slice::from_ref(&heap), &memory);
        trees.warnings.append(&mut names.warnings);
        let mut tree = Tree::new(process, sets.iter().map(|rules| rules.fit(names.frames())).collect(), &names);
        let model = Model::of(&process.allocator, &process.exe);
        let (mut heap_sum, mut is_known) = (Sum::default(), true);
        for site in &heap.sites {
            let held = measure.of(&site.figures);
            if held.blocks == 0 {
                continue;
            }
            // Sites are split by size.
            let given = site.usable.map(|usable| usable.0).or_else(|| Some(model?.usable(site.part)));
            is_known &= given.is_some();
            let usable_bytes = given.unwrap_or(site.part).saturating_mul(held.blocks);
            let sum = Sum { usable_bytes, requested_bytes: held.bytes, blocks: held.blocks };
            heap_sum.join(&sum);
            tree.put(tree.stack(&heap, site.stack), site.part, Region::Heap, &sum);
        }
        let mut unclassified = Sum::default();
        for (bytes, mapping) in maps.live() {
            let stack = tree.stack(&heap, mapping.stack);
            if !is_private_memory(mapping.flags) || tree.is_of_allocator(&stack) {
                continue;
            }
            let sum = Sum { usable_bytes: bytes, requested_bytes: bytes, blocks: 1 };
            if !tree.put(stack, bytes, Region::NonHeap, &sum) {
                unclassified.join(&sum);
            }
        }
        if heap_sum.blocks == 0 && unclassified.blocks == 0 && tree.leaves.is_empty() {
            continue;
        }
        if !is_known {
            let text = format!(
                "the allocator of process {} does not tell what it gives: blocks count with what was requested",
                process.pid
            );
            trees.warnings.push(Warning::new(WarningKind::Note, text));
        }
        trees.processes.push(Explicit {
            pid: process.pid,
            exe: shown(&process.exe),
            at_ns: process.start + then,
            heap: heap_sum,
            unclassified_non_heap: unclassified,
            leaves: tree.leaves(),
            caught: tree.caught(),
        });
    }
    Ok(trees)
}

/// The mappings at a moment, since the process began.
fn mapped(reader: &Reader, process: &Process, then: Nanos) -> Result<Maps> {
    let mut events = reader.events(process.id)?;
    let mut maps = Maps::default();
    while let Some(event) = events.next()?.filter(|event| event.at <= then) {
        maps.enter(&event);
    }
    Ok(maps)
}

/// What a program keeps data in: others are files, memory that is shared, code, or only reserved.
fn is_private_memory(flags: MapFlags) -> bool {
    const WRITE: u8 = 2;
    flags.anonymous() && !flags.shared() && flags.protection() & WRITE != 0
}

/// A tree that is being filled.
struct Tree<'a> {
    /// Path of the object that holds the allocator.
    allocator: String,
    is_own_allocator: bool,
    fitted: Vec<super::rules::Fitted<'a>>,
    names: &'a Names,
    leaves: BTreeMap<(String, Region), (String, Sum)>,
    caught: BTreeMap<(&'a str, usize), (&'a Rule, Sum)>,
    paths: HashMap<(*const Rule, FrameId), String>,
}

impl<'a> Tree<'a> {
    fn new(process: &Process, fitted: Vec<super::rules::Fitted<'a>>, names: &'a Names) -> Self {
        let (leaves, caught, paths) = Default::default();
        let is_own_allocator = process.allocator.as_os_str().is_empty();
        let allocator = shown(if is_own_allocator { &process.exe } else { &process.allocator });
        Self { allocator, is_own_allocator, fitted, names, leaves, caught, paths }
    }

    fn stack(&self, heap: &Heap, stack: Option<StackId>) -> Vec<FrameId> {
        self.names.stack(heap, stack)
    }

    /// Whether the allocator made a mapping, to make blocks of it.
    fn is_of_allocator(&self, stack: &[FrameId]) -> bool {
        let innermost = stack.first().map(|frame| self.names.frame(*frame).module.as_str());
        !self.is_own_allocator && innermost == Some(&self.allocator)
    }

    /// `false`: no rule fits.
    fn put(&mut self, stack: Vec<FrameId>, size: u64, place: Region, sum: &Sum) -> bool {
        let found = self.fitted.iter().find_map(|fitted| fitted.of(&stack, size, place, &self.allocator));
        let Some((rule, frame)) = found else { return false };
        let path = self.paths.entry((std::ptr::from_ref(rule), frame));
        let path = path.or_insert_with(|| rule.path_at(self.names.frame(frame)));
        let leaf = self.leaves.entry((path.clone(), place));
        leaf.or_insert_with(|| (rule.description.clone(), Sum::default())).1.join(sum);
        self.caught.entry((&rule.file, rule.line)).or_insert((rule, Sum::default())).1.join(sum);
        true
    }

    fn leaves(&self) -> Vec<Leaf> {
        let leaves = self.leaves.iter().map(|((path, place), (description, sum))| Leaf {
            path: path.clone(),
            place: *place,
            description: description.clone(),
            sum: *sum,
        });
        leaves.collect()
    }

    fn caught(&self) -> Vec<Caught> {
        let caught = self.caught.values().map(|(rule, sum)| Caught {
            file: rule.file.clone(),
            line: rule.line,
            path: rule.path.clone(),
            sum: *sum,
        });
        caught.collect()
    }
}

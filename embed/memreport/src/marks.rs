//! The table of measured blocks: who reported each of them as what, and which pointers are none.

use crate::{Collected, Moment, Report, Reporter, Shared, WrongPointers, allocator};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Name of the reporter of blocks that were marked when they were made.
pub(crate) const ON_ALLOC: &str = "(on alloc)";

/// A null pointer, or that of an empty vector of Rust, which is its alignment. Nobody maps the first page.
pub(crate) fn is_nothing(address: usize) -> bool {
    address == 0 || address <= 4096 && address.is_power_of_two()
}

const INTERIOR: &str = "it points into a block that was measured too";
const FREED: &str = "the program said that it was freed";
const NONE: &str = "no block begins there";

/// A path of the table; its text may come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct NameId(u32);

type Mark = (NameId, PathId);

struct Block {
    size: usize,
    marks: Vec<Mark>,
}

/// All marks of one collection.
pub(crate) struct Marks {
    blocks: BTreeMap<usize, Block>,
    wrong: BTreeMap<(Mark, &'static str), (u64, usize)>,
    /// The same, one by one.
    no_blocks: Vec<(usize, Mark)>,
    names: Vec<String>,
    paths: Vec<String>,
    path_ids: HashMap<String, PathId>,
    freed: HashMap<usize, Vec<Arc<str>>>,
    /// Marks of blocks at addresses that were freed: whether they are wrong is known when their path is.
    suspects: Vec<(usize, Mark)>,
    heap: allocator::Heap,
}

/// (name, heap bytes, paths) of each reporter.
pub(crate) type Reported = Vec<(String, i64, HashSet<String>)>;

impl Marks {
    pub(crate) fn new(freed: HashMap<usize, Vec<Arc<str>>>) -> Self {
        Self {
            blocks: BTreeMap::new(),
            wrong: BTreeMap::new(),
            no_blocks: Vec::new(),
            names: Vec::new(),
            paths: Vec::new(),
            path_ids: HashMap::new(),
            freed,
            suspects: Vec::new(),
            heap: allocator::Heap::look(),
        }
    }

    /// A path that is not known yet: blocks are measured before their sum is reported.
    pub(crate) fn new_path(&mut self) -> PathId {
        self.paths.push(String::new());
        PathId(self.paths.len() as u32 - 1)
    }

    pub(crate) fn name_path(&mut self, id: PathId, path: &str) {
        path.clone_into(&mut self.paths[id.0 as usize]);
    }

    pub(crate) fn path(&mut self, path: &str) -> PathId {
        if let Some(id) = self.path_ids.get(path) {
            return *id;
        }
        let id = self.new_path();
        self.name_path(id, path);
        self.path_ids.insert(path.to_owned(), id);
        id
    }

    fn name(&mut self, name: &str) -> NameId {
        // The reporter that speaks is the last one.
        let known = self.names.iter().rposition(|known| known == name);
        NameId(known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u32)
    }

    /// Usable size of a block; 0 if it is none.
    pub(crate) fn measure(&mut self, address: usize, reporter: &str, path: PathId) -> usize {
        if is_nothing(address) {
            return 0;
        }
        let mark = (self.name(reporter), path);
        if self.freed.contains_key(&address) {
            self.suspects.push((address, mark));
        }
        if let Some(block) = self.blocks.get_mut(&address) {
            block.marks.push(mark);
            return block.size;
        }
        let before = self.blocks.range(..address).next_back();
        let why = if before.is_some_and(|(start, block)| address - start < block.size) {
            INTERIOR
        } else {
            match self.heap.usable_size(address) {
                None => NONE,
                Some(size) => {
                    self.insert(address, size, mark);
                    return size;
                }
            }
        };
        self.blame(mark, why, address);
        0
    }

    fn insert(&mut self, address: usize, size: usize, mark: Mark) {
        // What begins inside of this block passed for a block until now.
        let inside: Vec<usize> =
            self.blocks.range(address..address.saturating_add(size)).map(|(start, _)| *start).collect();
        for start in inside {
            let block = self.blocks.remove(&start);
            for mark in block.into_iter().flat_map(|block| block.marks) {
                self.blame(mark, INTERIOR, start);
            }
        }
        self.blocks.insert(address, Block { size, marks: vec![mark] });
    }

    fn blame(&mut self, mark: Mark, why: &'static str, address: usize) {
        self.wrong.entry((mark, why)).or_insert((0, address)).0 += 1;
        self.no_blocks.push((address, mark));
    }

    /// Takes out the marks of blocks that were freed, by the word of those who had marked them for the same path.
    fn convict(&mut self) {
        for (address, mark) in std::mem::take(&mut self.suspects) {
            let path = &self.paths[mark.1.0 as usize];
            if !self.freed[&address].iter().any(|freed| **freed == **path) {
                continue;
            }
            let Some(block) = self.blocks.get_mut(&address) else { continue };
            if let Some(at) = block.marks.iter().position(|known| *known == mark) {
                block.marks.remove(at);
                if block.marks.is_empty() {
                    self.blocks.remove(&address);
                }
                self.blame(mark, FREED, address);
            }
        }
    }

    fn texts(&self, (name, path): Mark) -> (String, String) {
        let path = &self.paths[path.0 as usize];
        let path = if path.is_empty() { "(measured, but not reported)" } else { path };
        (self.names[name.0 as usize].clone(), path.to_owned())
    }

    /// What the marks say about the reporters.
    pub(crate) fn judge(
        mut self,
        reason: &str,
        reports: Vec<Report>,
        reported: Reported,
        broken_rules: Vec<String>,
        (began, ended): (Moment, Moment),
    ) -> Collected {
        self.convict();
        let (blocks, report_sets) = self.list();
        let mut measured: BTreeMap<Mark, u64> = BTreeMap::new();
        let mut shared: BTreeMap<Vec<Mark>, (u64, u64)> = BTreeMap::new();
        let mut measured_bytes = 0u64;
        for block in self.blocks.values() {
            measured_bytes += block.size as u64;
            for mark in &block.marks {
                *measured.entry(*mark).or_default() += block.size as u64;
            }
            if block.marks.len() > 1 {
                let mut marks = block.marks.clone();
                marks.sort_unstable();
                let entry = shared.entry(marks).or_default();
                *entry = (entry.0 + 1, entry.1 + block.size as u64);
            }
        }
        let mut reporters: Vec<Reporter> = reported
            .iter()
            .map(|(name, bytes, _)| Reporter { name: name.clone(), measured_bytes: 0, reported_heap_bytes: *bytes })
            .collect();
        for (mark, bytes) in measured {
            let (name, path) = self.texts(mark);
            // A mark of report_on_alloc belongs to the reporter that reports its path.
            let owner = match name.as_str() {
                ON_ALLOC => reported.iter().position(|(_, _, paths)| paths.contains(&path)),
                _ => reported.iter().position(|(known, _, _)| *known == name),
            };
            match owner {
                Some(owner) => reporters[owner].measured_bytes += bytes,
                None => reporters.push(Reporter {
                    name: format!("{name} {path}"),
                    measured_bytes: bytes,
                    reported_heap_bytes: 0,
                }),
            }
        }
        let mut shared: Vec<Shared> = shared
            .into_iter()
            .map(|(marks, (blocks, bytes))| Shared {
                reports: marks.into_iter().map(|mark| self.texts(mark)).collect(),
                blocks,
                bytes,
            })
            .collect();
        shared.sort_by_key(|shared| std::cmp::Reverse(shared.bytes));
        let wrong = self.wrong.iter().map(|((mark, why), (count, example))| {
            let (reporter, path) = self.texts(*mark);
            WrongPointers { reporter, path, why, count: *count, example: *example }
        });
        Collected {
            process: allocator::process_name(),
            reason: reason.to_owned(),
            measured_blocks: self.blocks.len() as u64,
            measured_bytes,
            reporters,
            shared,
            wrong_pointers: wrong.collect(),
            broken_rules,
            reports,
            blocks,
            report_sets,
            began,
            ended,
        }
    }

    /// All that was measured, with different sets of marks told once.
    fn list(&self) -> (Vec<crate::Block>, Vec<Vec<(String, String)>>) {
        let mut sets: Vec<Vec<(String, String)>> = Vec::new();
        // Marks of one text are many numbers: a path is new with every report. So sets are first found by number, then
        // by text.
        let mut by_marks: HashMap<Vec<Mark>, usize> = HashMap::new();
        let mut by_text: HashMap<Vec<(String, String)>, usize> = HashMap::new();
        let mut number = |marks: Vec<Mark>| {
            if let Some(number) = by_marks.get(&marks) {
                return *number;
            }
            let mut texts: Vec<(String, String)> = marks.iter().map(|mark| self.texts(*mark)).collect();
            texts.sort_unstable();
            let number = *by_text.entry(texts).or_insert_with_key(|texts| {
                sets.push(texts.clone());
                sets.len() - 1
            });
            by_marks.insert(marks, number);
            number
        };
        let blocks = self.blocks.iter().map(|(address, block)| (*address, block.size, block.marks.clone()));
        let wrong = self.no_blocks.iter().map(|(address, mark)| (*address, 0, vec![*mark]));
        let list = blocks.chain(wrong).map(|(address, usable_bytes, marks)| crate::Block {
            address,
            usable_bytes,
            report_set: number(marks),
        });
        let list = list.collect();
        (list, sets)
    }
}

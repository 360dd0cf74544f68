//! Time by stacks, as one tree of functions: what flame graphs are drawn of. Pure.
//!
//! Functions of one object are the same in whatever line they were; below each outermost function stands its thread,
//! those of one name together.

use crate::cuts::{Cut, Cutter, Seen};
use crate::path::{self, Step, Whose};
use crate::states::States;
use crate::trace::{StackId, Trace};
use model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A function in a flame graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlameFrame {
    /// Its name, or object and address.
    pub function: String,
    /// The object's path; `[kernel]`; empty: code made at run time.
    pub object: String,
    /// The source file, where debug data tell.
    pub source: Option<String>,
}

/// Time by stacks. Lists of nodes are of one length; a node's caller stands before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flames {
    /// The functions, by number.
    pub frames: Vec<FlameFrame>,
    /// Names of threads, by number.
    pub threads: Vec<String>,
    /// By node: its caller's number plus 1; 0: it is a thread.
    pub callers: Vec<u32>,
    /// By node: number of its function; of a thread its number plus the count of functions.
    pub what: Vec<u32>,
    /// By node: how long exactly this stack ran on the path, in nanoseconds.
    pub path_ran_ns: Vec<u64>,
    /// By node: how long it ran, in all threads of the tree.
    pub ran_ns: Vec<u64>,
    /// By node: how long the path waited, having begun to wait here.
    pub path_waited_ns: Vec<u64>,
    /// By node: how long threads of the tree waited.
    pub waited_ns: Vec<u64>,
}

impl Flames {
    /// The nodes from this one to its thread: labels, innermost first.
    pub fn walk(&self, node: u32) -> impl Iterator<Item = &str> {
        let mut at = Some(node as usize);
        std::iter::from_fn(move || {
            let here = at?;
            at = (self.callers[here] as usize).checked_sub(1);
            let what = self.what[here] as usize;
            let frame = self.frames.get(what).map(|frame| &frame.function[..]);
            Some(frame.unwrap_or_else(|| &self.threads[what - self.frames.len()]))
        })
    }
}

/// Where times are put.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    path_ran: Nanos,
    ran: Nanos,
    path_waited: Nanos,
    waited: Nanos,
}

/// A number of a function or of a thread, while functions are still being found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Thread(u32),
    Frame(u32),
}

/// A tree of functions in the making.
pub struct Grower<'a> {
    trace: &'a Trace,
    frames: Vec<FlameFrame>,
    frame_numbers: HashMap<FlameFrame, u32>,
    /// By the number of a frame of the trace.
    of_frame: HashMap<u32, u32>,
    threads: Vec<String>,
    nodes: Vec<(Option<u32>, What, Times)>,
    numbers: HashMap<(Option<u32>, What), u32>,
    /// By the node of the thread.
    of_stack: HashMap<(u32, StackId), u32>,
}

impl<'a> Grower<'a> {
    /// Of the stacks of a trace; without times at first.
    pub fn of(trace: &'a Trace) -> Self {
        Self {
            trace,
            frames: Vec::new(),
            frame_numbers: HashMap::new(),
            of_frame: HashMap::new(),
            threads: Vec::new(),
            nodes: Vec::new(),
            numbers: HashMap::new(),
            of_stack: HashMap::new(),
        }
    }

    fn put(&mut self, caller: Option<u32>, what: What) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.numbers.entry((caller, what)).or_insert(next);
        if number == next {
            self.nodes.push((caller, what, Times::default()));
        }
        number
    }

    /// The node of a stack of a thread with this name; of no stack: the thread's.
    pub fn node(&mut self, thread: &str, stack: Option<StackId>) -> u32 {
        let number = self.threads.iter().position(|name| name == thread).unwrap_or_else(|| {
            self.threads.push(thread.to_owned());
            self.threads.len() - 1
        });
        let root = self.put(None, What::Thread(number as u32));
        let trace = self.trace;
        let mut above: Vec<StackId> = Vec::new();
        let (mut at, mut node) = (stack, root);
        while let Some(here) = at {
            if let Some(known) = self.of_stack.get(&(root, here)) {
                node = *known;
                break;
            }
            above.push(here);
            at = trace.stacks.nodes()[here.0 as usize].0;
        }
        for here in above.into_iter().rev() {
            let frame = self.frame(trace.stacks.nodes()[here.0 as usize].1.0);
            node = self.put(Some(node), What::Frame(frame));
            self.of_stack.insert((root, here), node);
        }
        node
    }

    fn frame(&mut self, number: u32) -> u32 {
        if let Some(known) = self.of_frame.get(&number) {
            return *known;
        }
        let frame = &self.trace.stacks.frames()[number as usize];
        let told = FlameFrame {
            function: frame.label(),
            object: frame.object.clone(),
            source: frame.file().map(str::to_owned),
        };
        let next = self.frames.len() as u32;
        let found = *self.frame_numbers.entry(told.clone()).or_insert(next);
        if found == next {
            self.frames.push(told);
        }
        self.of_frame.insert(number, found);
        found
    }

    /// Adds what was done on the path.
    pub fn on_path(&mut self, thread: &str, step: &Step, cut: &Cut) {
        let node = self.node(thread, cut.stack) as usize;
        let times = &mut self.nodes[node].2;
        match step.whose {
            Whose::Running => times.path_ran += cut.to - cut.from,
            Whose::Waits { .. } => times.path_waited += cut.to - cut.from,
            Whose::Cpu { .. } | Whose::Other(_) | Whose::Unexplained(_) => {}
        }
    }

    /// Adds what a thread of the tree did.
    pub fn in_tree(&mut self, thread: &str, cut: &Cut) {
        let is_wait = matches!(cut.seen, Seen::Waits(_));
        if !is_wait && !cut.seen.runs() {
            return;
        }
        let node = self.node(thread, cut.stack) as usize;
        let times = &mut self.nodes[node].2;
        match is_wait {
            true => times.waited += cut.to - cut.from,
            false => times.ran += cut.to - cut.from,
        }
    }

    /// Adds the samples themselves, each for a tick: for traces that do not tell who ran when.
    fn samples(&mut self, states: &States) {
        for sample in self.trace.samples.iter().filter(|sample| sample.at <= self.trace.ready) {
            let Some(life) = states.life_at(sample.tid, sample.at).map(|life| &states.lives[life]) else { continue };
            if life.thread.of_tree {
                let node = self.node(&life.thread.name, sample.stack) as usize;
                self.nodes[node].2.ran += self.trace.tick;
            }
        }
    }

    /// The tree as it has become.
    pub fn grown(self) -> Flames {
        let functions = self.frames.len() as u32;
        let number = |what| match what {
            What::Frame(frame) => frame,
            What::Thread(thread) => functions + thread,
        };
        let time = |of: fn(&Times) -> Nanos| self.nodes.iter().map(|(.., times)| of(times).0).collect();
        Flames {
            callers: self.nodes.iter().map(|(caller, ..)| caller.map_or(0, |caller| caller + 1)).collect(),
            what: self.nodes.iter().map(|(_, what, _)| number(*what)).collect(),
            path_ran_ns: time(|times| times.path_ran),
            ran_ns: time(|times| times.ran),
            path_waited_ns: time(|times| times.path_waited),
            waited_ns: time(|times| times.waited),
            frames: self.frames,
            threads: self.threads,
        }
    }
}

/// The times of a start by stacks.
pub fn flames(trace: &Trace) -> Flames {
    let states = States::of(trace);
    let steps = path::path(trace, &states);
    let mut grower = Grower::of(trace);
    let mut cutter = Cutter::of(trace, &states);
    grow(trace, &states, &steps, &mut cutter, &mut grower);
    grower.grown()
}

/// Adds all times of a start.
pub fn grow<'a>(
    trace: &'a Trace,
    states: &'a States,
    steps: &[Step],
    cutter: &mut Cutter<'a>,
    grower: &mut Grower<'a>,
) {
    for step in steps {
        let Some(life) = states.life_at(step.thread, step.to) else { continue };
        let name = &states.lives[life].thread.name;
        cutter.step(step).iter().for_each(|cut| grower.on_path(name, step, cut));
    }
    for (index, life) in states.lives.iter().enumerate().filter(|(_, life)| life.thread.of_tree) {
        cutter.life(index).iter().for_each(|cut| grower.in_tree(&life.thread.name, cut));
    }
    if trace.switches.is_empty() {
        grower.samples(states);
    }
}

#[cfg(test)]
mod tests;

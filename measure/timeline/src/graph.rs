//! What has to happen before what, of all intervals of a trace: what a replay goes by. Pure.

use crate::explain::{Class, Model, Used, Via};
use crate::lanes::NONE;
use std::collections::{BTreeSet, HashMap};

/// The beginning, the work or the end of an interval: three numbers for each.
pub type Node = u32;

/// One node comes after another, and so much later at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: Node,
    pub to: Node,
    pub lag: u64,
    /// Whose time the lag is, or [`NONE`]: nobody's that could be faster.
    pub owner: u32,
}

/// Something that only so many can have at once.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    pub name: String,
    /// How many had it at once at most.
    pub capacity: usize,
    /// Of threads: when each first said something. It does no task before.
    pub starts: Vec<u64>,
    /// How long it took who got it at once, and who had to wait until another gave it back: medians.
    pub at_once: u64,
    pub handed_over: u64,
}

/// All of a trace.
#[derive(Debug, Default)]
pub struct Graph {
    /// When each node was; `None`: it was not.
    pub at: Vec<Option<u64>>,
    pub edges: Vec<Edge>,
    /// As it was measured: who gave to whom.
    pub handed: Vec<Edge>,
    pub resources: Vec<Resource>,
    /// What a node has to get before it happens, in this order.
    pub takes: HashMap<Node, Vec<u32>>,
    /// What a node gives back.
    pub gives: HashMap<Node, Vec<u32>>,
}

/// Nodes of one thread or object, in their order.
type Row = Vec<(u64, Node)>;

struct Builder<'m, 'a> {
    model: &'m Model<'a>,
    graph: Graph,
    threads: Vec<Row>,
    objects: Vec<Row>,
    resources: HashMap<String, u32>,
    /// When each thread first said something.
    first: Vec<u64>,
    /// How long each resource took those who got it at once, and the others.
    times: Vec<(Vec<u64>, Vec<u64>)>,
    /// Links that told the end of a wait.
    taken: Vec<bool>,
    /// The use that a wait ended with, and the wait's end.
    acquired: HashMap<u32, Node>,
}

/// Where an interval waited for the end of, was worked on, or was done.
pub fn interval_of(node: Node) -> u32 {
    node / 3
}

fn begin_of(model: &Model, index: u32) -> Node {
    3 * index + u32::from(model.one(index).wait.is_none())
}

/// The node at which a wait ends; `None`: it did not.
fn wait_end(model: &Model, index: u32) -> Option<Node> {
    let one = model.one(index);
    one.wait?;
    one.exec.map(|_| 3 * index + 1).or_else(|| one.done.map(|_| 3 * index + 2))
}

impl Graph {
    /// What the model tells of its trace.
    pub fn of(model: &Model) -> Self {
        let all = model.all();
        let mut builder = Builder {
            model,
            graph: Self { at: vec![None; all.len() * 3], ..Self::default() },
            threads: vec![Row::new(); model.lanes.threads.len()],
            objects: vec![Row::new(); model.folded.objects.len()],
            resources: HashMap::new(),
            first: first_events(model),
            times: Vec::new(),
            taken: vec![false; model.folded.links.len()],
            acquired: HashMap::new(),
        };
        builder.nodes();
        builder.locks();
        for index in 0..all.len() as u32 {
            builder.interval(index);
        }
        builder.uses();
        builder.tasks();
        builder.medians();
        builder.capacities();
        builder.graph
    }
}

fn first_events(model: &Model) -> Vec<u64> {
    let mut first = vec![u64::MAX; model.lanes.threads.len()];
    for event in &model.trace.events {
        let at = &mut first[event.thread as usize];
        *at = event.at_ns.min(*at);
    }
    first
}

/// The lower median; sorts them.
pub fn median(all: &mut [u64]) -> u64 {
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

impl Builder<'_, '_> {
    fn nodes(&mut self) {
        for (index, one) in self.model.all().iter().enumerate() {
            let done = one.done.zip(self.model.folded.manners[index].ended_on);
            for (kind, moment) in [one.wait, one.exec, done].into_iter().enumerate() {
                let Some((at, thread)) = moment else { continue };
                let node = (3 * index + kind) as Node;
                self.graph.at[node as usize] = Some(at);
                self.threads[thread as usize].push((at, node));
                if !self.model.folded.manners[index].is_shared && !self.model.is_use[index] {
                    self.objects[one.object.0 as usize].push((at, node));
                }
            }
        }
        self.threads.iter_mut().chain(&mut self.objects).for_each(|row| row.sort_unstable());
    }

    fn at(&self, node: Node) -> u64 {
        self.graph.at[node as usize].unwrap_or_default()
    }

    fn resource(&mut self, name: String) -> u32 {
        let next = self.graph.resources.len() as u32;
        let number = *self.resources.entry(name.clone()).or_insert(next);
        if number == next {
            self.graph.resources.push(Resource { name, ..Resource::default() });
            self.times.push((Vec::new(), Vec::new()));
        }
        number
    }

    /// An edge, if it goes forward in the order of nodes: so there is no circle.
    fn edge(&mut self, from: Node, to: Node, lag: u64, owner: u32) {
        if (self.at(from), from) < (self.at(to), to) {
            let lag = lag.min(self.at(to) - self.at(from));
            self.graph.edges.push(Edge { from, to, lag, owner });
        }
    }

    /// The last node of a row before a node and up to a moment.
    fn last(row: &Row, up_to: u64, before: (u64, Node)) -> Option<Node> {
        let after = row.partition_point(|entry| entry.0 <= up_to && *entry < before);
        after.checked_sub(1).map(|place| row[place].1)
    }

    /// An edge from what an interval was in the midst of at a moment.
    fn edge_from(&mut self, interval: u32, moment: u64, to: Node, more: u64) {
        let (model, key) = (self.model, (self.at(to), to));
        let one = model.one(interval);
        let is_blocked = model.folded.manners[interval as usize].is_blocking && model.wait_end(interval) >= moment;
        let on_thread = model.lanes.occupies[interval as usize] || is_blocked;
        let row = match (on_thread, one.exec.filter(|_| !is_blocked).or(one.wait)) {
            (true, Some((_, thread))) => &self.threads[thread as usize],
            _ => &self.objects[one.object.0 as usize],
        };
        let begin = begin_of(model, interval);
        let from = Self::last(row, moment, key).unwrap_or(begin);
        let lag = moment.saturating_sub(self.at(from));
        // What comes behind the owner's own time is nobody's; one edge has one owner, and this is the greater part.
        let owner = if lag >= more { interval } else { NONE };
        self.edge(from, to, lag.saturating_add(more), owner);
    }

    /// Whose objects are locks: one waited for another that had the same object.
    fn locks(&mut self) {
        for index in 0..self.model.all().len() as u32 {
            let Some(node) = wait_end(self.model, index) else { continue };
            let Some((_, held, _)) = self.model.holder(index, self.at(node)) else { continue };
            if !self.model.is_use[held as usize] {
                let name = self.model.held_name(held);
                self.resource(name);
            }
        }
    }

    fn interval(&mut self, index: u32) {
        let model = self.model;
        let end = wait_end(model, index);
        let begin = begin_of(model, index);
        for kind in 0..3 {
            let node = 3 * index + kind;
            if self.graph.at[node as usize].is_none() {
                continue;
            }
            if Some(node) == end {
                self.wait(index, node);
            } else {
                self.context(index, node, node == begin);
            }
        }
        // A lock that was free is taken as well.
        let one = model.one(index);
        if let (Some(lock), Some(_)) = (self.lock(index), one.exec) {
            self.gate(3 * index + 1, 3 * index + 2, lock);
        }
    }

    /// The lock that an interval is of.
    fn lock(&self, index: u32) -> Option<u32> {
        if self.model.is_use[index as usize] {
            return None;
        }
        self.resources.get(&self.model.held_name(index)).copied()
    }

    fn gate(&mut self, takes: Node, gives: Node, resource: u32) {
        self.graph.takes.entry(takes).or_default().push(resource);
        if self.graph.at[gives as usize].is_some() {
            self.graph.gives.entry(gives).or_default().push(resource);
        }
    }

    /// A node that no wait ends with: its thread or its object came to it.
    fn context(&mut self, index: u32, node: Node, is_begin: bool) {
        let model = self.model;
        let one = model.one(index);
        let at = self.at(node);
        let thread = match node % 3 {
            0 => one.wait.map(|(_, thread)| thread),
            1 => one.exec.map(|(_, thread)| thread),
            _ => model.folded.manners[index as usize].ended_on,
        };
        let Some(thread) = thread else { return };
        let part = model.lanes.threads[thread as usize].before(at, 0);
        let before = Self::last(&self.threads[thread as usize], at, (at, node));
        if let (Some(part), Some(before)) = (part, before) {
            let lag = at - self.at(before);
            return self.edge(before, node, lag, part.interval);
        }
        if !is_begin {
            let before = Self::last(&self.objects[one.object.0 as usize], at, (at, node));
            let before = before.unwrap_or_else(|| begin_of(model, index));
            let lag = at - self.at(before);
            return self.edge(before, node, lag, index);
        }
        if let Some(hop) = model.beginning(index, &mut Used::default()).filter(|hop| hop.to != index) {
            self.edge_from(hop.to, hop.at, node, at - hop.at.min(at));
        }
    }

    /// The node at which a wait ends.
    fn wait(&mut self, index: u32, node: Node) {
        let model = self.model;
        let one = model.one(index);
        let (begin, end) = (one.begin(), self.at(node));
        self.edge(3 * index, node, 0, NONE);
        let holder = model.holder(index, end);
        if let Some((done, held, _)) = holder {
            let lag = end.saturating_sub(done);
            let edge = Edge { from: 3 * held + 2, to: node, lag, owner: NONE };
            if model.one(held).done.is_some() && self.at(edge.from) <= end {
                self.graph.handed.push(edge);
            }
        }
        let acquired = model.acquired(index, end).filter(|of| !self.acquired.contains_key(of));
        let lock = self.lock(index);
        if let Some(of) = acquired {
            self.acquired.insert(of, node);
            let resource = self.resource(model.type_name(of).to_owned());
            self.gate(node, 3 * of + 2, resource);
            self.took(resource, holder.map(|(done, ..)| done), begin, end);
        } else if let Some(lock) = lock {
            self.took(lock, holder.map(|(done, ..)| done), begin, end);
        } else {
            self.released(index, node, begin, end);
        }
    }

    fn took(&mut self, resource: u32, done: Option<u64>, begin: u64, end: u64) {
        let times = &mut self.times[resource as usize];
        match done {
            Some(done) => times.1.push(end.saturating_sub(done)),
            None => times.0.push(end - begin),
        }
    }

    fn released(&mut self, index: u32, node: Node, begin: u64, end: u64) {
        let model = self.model;
        let Some(hop) = model.release(index, end, &mut Used::default()).filter(|hop| hop.to != index) else {
            // What its thread was not there for is not its own time.
            let thread = model.one(index).exec.map(|(_, thread)| self.first[thread as usize]);
            let is_first = self.is_posted(index) && thread == Some(end);
            return self.edge(3 * index, node, if is_first { 0 } else { end - begin }, index);
        };
        match hop.via {
            Via::Queue => {
                let edge = Edge { from: 3 * hop.to + 2, to: node, lag: end - hop.at, owner: NONE };
                self.graph.handed.push(edge);
                let gap = if hop.gap == Class::Unexplained { 0 } else { end - hop.at };
                let name = self.model.threads_of(index);
                let resource = self.resource(name);
                self.times[resource as usize].1.push(gap);
            }
            Via::Linked => self.linked(index, node, begin, end),
            _ => self.edge_from(hop.to, hop.at, node, end - hop.at),
        }
    }

    /// All links in a wait are of things that had to happen; the last one came when it was over.
    fn linked(&mut self, index: u32, node: Node, begin: u64, end: u64) {
        let model = self.model;
        let slack = model.slack_of(model.one(index).object);
        let (after, up_to) = (begin.saturating_add(slack), end.saturating_add(slack));
        let links = model.links_between(model.one(index).object, after, up_to);
        let mut rest = None;
        for place in links.iter().rev() {
            let link = model.folded.links[*place as usize];
            let is_taken = std::mem::replace(&mut self.taken[*place as usize], true);
            let at = link.at_ns.min(end);
            if let Some((to, when, _)) = model.doing(link.from, at, link.thread).filter(|(to, ..)| *to != index) {
                let rest = *rest.get_or_insert(end - at);
                self.edge_from(to, when, node, (at - when) + rest);
            }
            if is_taken {
                break;
            }
        }
        if rest.is_none() {
            self.edge(3 * index, node, end - begin, index);
        }
    }

    /// Uses of resources that nobody waited for take one all the same.
    fn uses(&mut self) {
        for index in 0..self.model.all().len() as u32 {
            let begin = begin_of(self.model, index);
            if self.model.is_use[index as usize] && !self.acquired.contains_key(&index) {
                let resource = self.resource(self.model.type_name(index).to_owned());
                self.gate(begin, 3 * index + 2, resource);
            }
        }
    }

    /// Whether it is a task that waits for a thread.
    fn is_posted(&self, index: u32) -> bool {
        let model = self.model;
        model.is_top(index) && model.one(index).wait.is_some() && !model.folded.manners[index as usize].is_blocking
    }

    /// Tasks that were posted take one of the threads that do such.
    fn tasks(&mut self) {
        let model = self.model;
        let all = 0..model.all().len() as u32;
        let mut threads = BTreeSet::new();
        let posted: Vec<u32> = all.clone().filter(|index| self.is_posted(*index)).collect();
        for index in posted {
            let name = self.model.threads_of(index);
            let resource = self.resource(name);
            self.gate(3 * index + 1, 3 * index + 2, resource);
            threads.extend(model.one(index).exec.map(|(_, thread)| (resource, thread)));
        }
        for (resource, thread) in threads {
            self.graph.resources[resource as usize].starts.push(self.first[thread as usize]);
        }
        self.graph.resources.iter_mut().for_each(|resource| resource.starts.sort_unstable());
        // What else runs there keeps the thread as well.
        let others: Vec<u32> = all.filter(|index| model.is_top(*index) && !self.is_posted(*index)).collect();
        for index in others {
            let resource = self.resources.get(&self.model.threads_of(index)).copied();
            if let (Some(resource), Some(_)) = (resource, self.graph.at[3 * index as usize + 2]) {
                self.gate(3 * index + 1, 3 * index + 2, resource);
            }
        }
    }

    fn medians(&mut self) {
        for (resource, (at_once, handed_over)) in self.graph.resources.iter_mut().zip(&mut self.times) {
            resource.at_once = median(at_once);
            resource.handed_over = median(handed_over);
        }
    }

    /// How many had each resource at once at most.
    fn capacities(&mut self) {
        let mut changes: Vec<Vec<(u64, i32)>> = vec![Vec::new(); self.graph.resources.len()];
        for (node, all) in &self.graph.takes {
            all.iter().for_each(|of| changes[*of as usize].push((self.at(*node), 1)));
        }
        for (node, all) in &self.graph.gives {
            all.iter().for_each(|of| changes[*of as usize].push((self.at(*node), -1)));
        }
        for (resource, mut changes) in self.graph.resources.iter_mut().zip(changes) {
            changes.sort_unstable();
            let (mut now, mut most) = (0, 0);
            for (_, change) in changes {
                now += change;
                most = most.max(now);
            }
            resource.capacity = usize::try_from(most).unwrap_or(0).max(1).max(resource.starts.len());
        }
    }
}

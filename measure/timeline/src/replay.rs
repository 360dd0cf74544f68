//! What if: the dependencies of a trace gone through again, with something changed. Pure.

use crate::explain::Model;
use crate::graph::{Edge, Graph, Node, Resource, interval_of};
use crate::lanes::NONE;
use crate::path::{Ends, moments};
use crate::trace::Trace;
use model::{Error, Exit, Result};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Something to change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// So many can have a resource at once: of a type that ends in `in_use`, a lock, the threads of a name.
    Resource {
        /// Its name.
        name: String,
        /// How many.
        capacity: usize,
    },
    /// All work and all unexplained waits of a type take a fraction of their time. `a::*` is all of a namespace.
    Faster {
        /// The type.
        name: String,
        /// How many times as fast.
        factor: f64,
    },
    /// An object, or all of a type, is not there, nor what its thread did in its midst.
    Without {
        /// The object or the type.
        name: String,
    },
}

/// A resource as the replay takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceRow {
    /// What `--resource` calls it.
    pub name: String,
    /// How many had it at once at most.
    pub capacity: usize,
    /// How often it was taken.
    pub taken: u64,
}

/// What a replay says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// What was changed.
    pub changes: Vec<Change>,
    /// How long it took, in nanoseconds.
    pub measured_ns: u64,
    /// How long the replay of the unchanged trace says that it takes.
    pub replayed_ns: u64,
    /// How far that is from what was measured, as a share of it: the error of this replay.
    pub error: f64,
    /// How far the ends of all intervals are from what was measured, as a share of the whole: the median.
    pub median_error: f64,
    /// How long it would take with the changes: the replay of the changed trace, times measured by replayed.
    pub predicted_ns: u64,
    /// The resources that were found, most often taken first.
    pub resources: Vec<ResourceRow>,
}

/// `thaw.timeline-whatif/1`
#[derive(Serialize)]
pub struct WhatIfDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The files whose events it was made of, on one clock.
    pub paths: Vec<String>,
    /// What the replay says.
    #[serde(flatten)]
    pub whatif: WhatIf,
}

fn is_called(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem),
        None => name == pattern,
    }
}

/// What is changed, by interval.
struct Changed {
    /// By what to divide the time of each.
    faster: Vec<f64>,
    is_gone: Vec<bool>,
    capacities: Vec<usize>,
}

impl Changed {
    fn nothing(model: &Model, graph: &Graph) -> Self {
        let all = model.all().len();
        let capacities = graph.resources.iter().map(|resource| resource.capacity).collect();
        Self { faster: vec![1.0; all], is_gone: vec![false; all], capacities }
    }

    fn of(model: &Model, graph: &Graph, changes: &[Change]) -> Result<Self> {
        let mut changed = Self::nothing(model, graph);
        for change in changes {
            match change {
                Change::Resource { name, capacity } => changed.resource(graph, name, *capacity)?,
                Change::Faster { name, factor } => changed.faster(model, name, *factor)?,
                Change::Without { name } => changed.without(model, name)?,
            }
        }
        Ok(changed)
    }

    fn resource(&mut self, graph: &Graph, name: &str, capacity: usize) -> Result<()> {
        let place = graph.resources.iter().position(|resource| resource.name == name);
        let place = place.ok_or_else(|| {
            let names: Vec<&str> = graph.resources.iter().map(|resource| resource.name.as_str()).collect();
            Error::new(Exit::Usage, "no resource is called", name).hint(match names.is_empty() {
                true => "nothing was handed over in this trace".to_owned(),
                false => format!("there are: {}", names.join(", ")),
            })
        })?;
        self.capacities[place] = capacity.max(1);
        Ok(())
    }

    fn faster(&mut self, model: &Model, name: &str, factor: f64) -> Result<()> {
        let mut found = false;
        for (index, by) in self.faster.iter_mut().enumerate() {
            if is_called(name, model.type_name(index as u32)) {
                (*by, found) = (*by * factor, true);
            }
        }
        found.then_some(()).ok_or_else(|| {
            Error::new(Exit::Usage, "no type is called", name).hint("`thaw timeline report FILE --all` lists the types")
        })
    }

    fn without(&mut self, model: &Model, name: &str) -> Result<()> {
        let mut found = false;
        for index in 0..model.all().len() as u32 {
            let one = model.one(index);
            let is_named =
                is_called(name, model.type_name(index)) || model.folded.objects.name(one.object) == Some(name);
            found |= is_named;
            self.is_gone[index as usize] |= is_named || self.is_gone[around(model, index) as usize];
        }
        found.then_some(()).ok_or_else(|| {
            Error::new(Exit::Usage, "no object and no type is called", name)
                .hint("`thaw timeline report FILE --all` lists the types")
        })
    }

    fn lag(&self, edge: &Edge) -> u64 {
        match self.faster.get(edge.owner as usize) {
            _ if edge.owner == NONE => edge.lag,
            Some(_) if self.is_gone[edge.owner as usize] => 0,
            Some(by) => (edge.lag as f64 / by) as u64,
            None => edge.lag,
        }
    }
}

/// What an interval lies in on its thread: its end too; itself: in nothing.
fn around(model: &Model, index: u32) -> u32 {
    let (one, manner) = (model.one(index), model.folded.manners[index as usize]);
    if !(model.lanes.occupies[index as usize] || manner.is_blocking || model.is_use[index as usize]) {
        return index;
    }
    let Some((at, thread)) = one.wait.or(one.exec) else { return index };
    let part = model.lanes.threads[thread as usize].before(at, 0);
    // One that began at the same moment is not seen before it.
    let nested = Some(model.lanes.around[index as usize]).filter(|around| *around != NONE);
    let found = part.map(|part| part.interval).or(nested).unwrap_or(index);
    if found < index && (model.end_of(found) >= model.end_of(index) || model.is_use[index as usize]) {
        found
    } else {
        index
    }
}

/// When each node happens; `None`: never, since what it waits for does not.
fn times(graph: &Graph, model: &Model, changed: &Changed, origin: u64) -> Vec<Option<u64>> {
    let nodes = graph.at.len();
    let mut starts = vec![0_u32; nodes + 1];
    let mut missing = vec![0_u32; nodes];
    for edge in &graph.edges {
        starts[edge.from as usize + 1] += 1;
        missing[edge.to as usize] += 1;
    }
    (0..nodes).for_each(|node| starts[node + 1] += starts[node]);
    let (mut next, mut order) = (starts.clone(), vec![0_u32; graph.edges.len()]);
    for (place, edge) in graph.edges.iter().enumerate() {
        order[next[edge.from as usize] as usize] = place as u32;
        next[edge.from as usize] += 1;
    }
    // Threads are there from their first word on; those that are added, when half of the others were.
    let threads = |of: usize| !graph.resources[of].starts.is_empty();
    let mut free: Vec<usize> =
        changed.capacities.iter().enumerate().map(|(of, count)| if threads(of) { 0 } else { *count }).collect();
    let mut queues: Vec<VecDeque<(Node, usize)>> = vec![VecDeque::new(); free.len()];
    let mut ready = vec![0_u64; nodes];
    let mut found: Vec<Option<u64>> = vec![None; nodes];
    let mut heap = BinaryHeap::new();
    for (node, at) in graph.at.iter().enumerate() {
        if let (Some(at), 0) = (at, missing[node]) {
            // Nothing tells what it began from: it begins when it did.
            heap.push(Reverse((at - origin.min(*at), node as Node, 0_usize)));
        }
    }
    for (of, resource) in graph.resources.iter().enumerate().filter(|(_, resource)| !resource.starts.is_empty()) {
        let middle = resource.starts[resource.starts.len() / 2];
        for place in 0..changed.capacities[of] {
            let at = resource.starts.get(place).copied().unwrap_or(middle);
            heap.push(Reverse((at.saturating_sub(origin), NONE, of)));
        }
    }
    let none = Vec::new();
    let of = |all: &std::collections::HashMap<Node, Vec<u32>>, node: Node| match changed.is_gone
        [interval_of(node) as usize]
    {
        true => none.clone(),
        false => all.get(&node).cloned().unwrap_or_default(),
    };
    debug_assert_eq!(changed.is_gone.len(), model.all().len());
    while let Some(Reverse((at, node, stage))) = heap.pop() {
        if node == NONE {
            match queues[stage].pop_front() {
                Some((waiting, next)) => heap.push(Reverse((at, waiting, next + 1))),
                None => free[stage] += 1,
            }
            continue;
        }
        let takes = of(&graph.takes, node);
        if let Some(resource) = takes.get(stage).map(|of| *of as usize) {
            if free[resource] > 0 {
                free[resource] -= 1;
                heap.push(Reverse((at.saturating_add(graph.resources[resource].at_once), node, stage + 1)));
            } else {
                queues[resource].push_back((node, stage));
            }
            continue;
        }
        found[node as usize] = Some(at);
        for resource in of(&graph.gives, node).into_iter().map(|of| of as usize) {
            match queues[resource].pop_front() {
                Some((waiting, stage)) => {
                    heap.push(Reverse((at.saturating_add(graph.resources[resource].handed_over), waiting, stage + 1)));
                }
                None => free[resource] += 1,
            }
        }
        for place in &order[starts[node as usize] as usize..starts[node as usize + 1] as usize] {
            let edge = &graph.edges[*place as usize];
            let to = edge.to as usize;
            ready[to] = ready[to].max(at.saturating_add(changed.lag(edge)));
            missing[to] -= 1;
            if missing[to] == 0 {
                heap.push(Reverse((ready[to], edge.to, 0)));
            }
        }
    }
    found
}

/// Replays a trace, unchanged and changed.
///
/// # Errors
/// As of a path; nothing is called so; or the replay comes to a standstill.
pub fn whatif(trace: &Trace, ends: Ends, changes: &[Change]) -> Result<WhatIf> {
    let model = Model::of(trace);
    let (from, to) = moments(&model, ends)?;
    let graph = Graph::of(&model);
    let origin = crate::select::origin(&model);
    let last = to.interval.and_then(|interval| {
        (0..3).rev().map(|kind| 3 * interval + kind).find(|node| graph.at[*node as usize].is_some_and(|at| at <= to.at))
    });
    let last = last.ok_or_else(|| Error::new(Exit::Data, "no replay", "its end is in the midst of an interval"))?;
    // A path that begins later begins at a node too: the last one before it.
    let start = (0..graph.at.len())
        .filter(|node| graph.at[*node].is_some_and(|at| at <= from))
        .max_by_key(|node| graph.at[*node]);
    // Unless an end was named, it is what ends last of what is there: with a change, that may be something else.
    let ends_at = |times: &[Option<u64>], changed: &Changed| {
        if ends.to.is_some() || graph.at[last as usize + 2 - last as usize % 3].is_none() {
            return times[last as usize];
        }
        let done = (2..graph.at.len()).step_by(3).filter(|node| graph.at[*node].is_some());
        let there = done.filter(|node| !model.is_use[node / 3] && !changed.is_gone[node / 3]);
        there.map(|node| times[node]).try_fold(0, |last, at| Some(at?.max(last)))
    };
    let span = |times: &[Option<u64>], changed: &Changed| {
        let begin = if from == origin { 0 } else { times[start?]? };
        Some(ends_at(times, changed)?.saturating_sub(begin))
    };
    let stands_still = |what: &str| {
        Error::new(
            Exit::Data,
            "no replay",
            format!("{what} comes to a standstill: everything left waits for something else"),
        )
        .hint("resources that are taken in different orders, or too few of one, do that")
    };
    let nothing = Changed::nothing(&model, &graph);
    let unchanged = times(&graph, &model, &nothing, origin);
    let replayed_ns = span(&unchanged, &nothing).ok_or_else(|| stands_still("the replay of the unchanged trace"))?;
    let changed = Changed::of(&model, &graph, changes)?;
    let changed_ns = span(&times(&graph, &model, &changed, origin), &changed)
        .ok_or_else(|| stands_still("the replay of the changed trace"))?;
    let measured: Vec<Option<u64>> = graph.at.iter().map(|at| at.map(|at| at.saturating_sub(origin))).collect();
    let measured_ns = span(&measured, &nothing).unwrap_or(to.at - from);
    let share = |a: u64, b: u64| a.abs_diff(b) as f64 / measured_ns.max(1) as f64;
    let mut errors: Vec<f64> = (2..graph.at.len())
        .step_by(3)
        .filter_map(|node| Some(share(unchanged[node]?, graph.at[node]?.saturating_sub(origin))))
        .collect();
    errors.sort_by(f64::total_cmp);
    let scale = measured_ns as f64 / replayed_ns.max(1) as f64;
    let mut taken = vec![0_u64; graph.resources.len()];
    graph.takes.values().flatten().for_each(|of| taken[*of as usize] += 1);
    let row = |(resource, taken): (&Resource, u64)| ResourceRow {
        name: resource.name.clone(),
        capacity: resource.capacity,
        taken,
    };
    let mut resources: Vec<ResourceRow> = graph.resources.iter().zip(taken).map(row).collect();
    resources.sort_by(|a, b| (Reverse(a.taken), &a.name).cmp(&(Reverse(b.taken), &b.name)));
    Ok(WhatIf {
        changes: changes.to_vec(),
        measured_ns,
        replayed_ns,
        error: share(replayed_ns, measured_ns),
        median_error: errors.get(errors.len().saturating_sub(1) / 2).copied().unwrap_or(0.0),
        predicted_ns: (changed_ns as f64 * scale) as u64,
        resources,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Builder, Clock, Form, Phase};
    use Phase::{Done, Exec, Wait};
    use proptest::prelude::*;

    /// Moments in microseconds, threads, phases, objects and types.
    fn trace(all: &[(u64, u32, Phase, u64, &str)], links: &[(u64, u32, u64, u64)]) -> Trace {
        let mut builder = Builder::new(Form::Events, Clock::default());
        let process = builder.process(1, "p");
        for (tid, name) in ["main", "pool 1", "pool 2", "other"].into_iter().enumerate() {
            builder.thread(process, tid as u32, name);
        }
        for (at, thread, phase, object, of) in all {
            let of = builder.type_of(of, "", 0);
            builder.says(*phase, at * 1000, *thread, *object, Some(of));
        }
        links.iter().for_each(|(at, thread, from, to)| builder.link(at * 1000, *thread, *from, *to, None));
        builder.build()
    }

    fn predicted(trace: &Trace, change: Change) -> u64 {
        let it = whatif(trace, Ends::default(), &[change]).unwrap();
        assert!(it.error < 0.001, "{it:?}");
        (it.predicted_ns + 500) / 1000
    }

    fn resource(name: &str, capacity: usize) -> Change {
        Change::Resource { name: name.into(), capacity }
    }

    fn faster(name: &str, factor: f64) -> Change {
        Change::Faster { name: name.into(), factor }
    }

    fn without(name: &str) -> Change {
        Change::Without { name: name.into() }
    }

    #[test]
    fn tasks_in_a_row_on_one_thread_are_side_by_side_on_two() {
        let all = [
            (0, 0, Exec, 9, "post"),
            (1, 0, Wait, 1, "task"),
            (2, 0, Wait, 2, "task"),
            (3, 0, Wait, 3, "task"),
            (4, 0, Done, 9, "post"),
            (1, 1, Exec, 1, "task"),
            (101, 1, Done, 1, "task"),
            (101, 1, Exec, 2, "task"),
            (201, 1, Done, 2, "task"),
            (201, 1, Exec, 3, "task"),
            (301, 1, Done, 3, "task"),
        ];
        let trace = trace(&all, &[]);
        assert_eq!(predicted(&trace, resource("pool", 2)), 201);
        assert_eq!(predicted(&trace, resource("pool", 3)), 103);
        assert_eq!(predicted(&trace, resource("pool", 1)), 301);
        assert_eq!(predicted(&trace, faster("task", 2.0)), 151);
        assert_eq!(predicted(&trace, without("task")), 4, "what is left is the post");
    }

    #[test]
    fn what_was_not_on_the_path_holds_the_end_when_the_path_is_faster() {
        // The wait ends with the later of two links.
        let all = [
            (0, 0, Wait, 1, "both"),
            (0, 1, Exec, 2, "long"),
            (0, 2, Exec, 3, "short"),
            (60, 2, Done, 3, "short"),
            (100, 1, Done, 2, "long"),
            (100, 0, Exec, 1, "both"),
            (110, 0, Done, 1, "both"),
        ];
        let trace = trace(&all, &[(60, 2, 3, 1), (100, 1, 2, 1)]);
        assert_eq!(predicted(&trace, faster("long", 10.0)), 70);
        assert_eq!(predicted(&trace, faster("short", 10.0)), 110);
        assert_eq!(predicted(&trace, without("long")), 70);
    }

    #[test]
    fn what_lies_in_something_that_is_gone_is_gone_with_it() {
        let all = [
            (0, 0, Exec, 1, "all"),
            (10, 0, Exec, 2, "part"),
            (20, 0, Wait, 3, "disk"),
            (80, 0, Exec, 3, "disk"),
            (90, 0, Done, 3, "disk"),
            (95, 0, Done, 2, "part"),
            (100, 0, Done, 1, "all"),
        ];
        let trace = trace(&all, &[]);
        assert_eq!(predicted(&trace, without("part")), 15);
        assert_eq!(predicted(&trace, without("disk")), 30);
        assert_eq!(predicted(&trace, faster("disk", 7.0)), 40);
    }

    #[test]
    fn what_was_given_back_before_anybody_waits_is_there_for_the_next() {
        let all = [
            (0, 0, Exec, 1, "use"),
            (0, 0, Exec, 9, "pool::in_use"),
            (10, 0, Done, 9, "pool::in_use"),
            (50, 0, Exec, 9, "pool::in_use"),
            (60, 0, Done, 9, "pool::in_use"),
            (70, 0, Done, 1, "use"),
        ];
        assert_eq!(predicted(&trace(&all, &[]), resource("pool::in_use", 1)), 70);
    }

    #[test]
    fn a_link_told_right_behind_the_end_of_a_wait_ends_no_other_that_ended_just_before() {
        let mut builder = Builder::new(Form::Events, Clock::default());
        let process = builder.process(1, "p");
        let thread = builder.thread(process, 1, "worker");
        let mut of = |name| Some(builder.type_of(name, "", 0));
        let (task, pool, in_use) = (of("task"), of("pool"), of("pool::in_use"));
        builder.says(Wait, 0, thread, 1, task);
        builder.says(Exec, 5000, thread, 1, task);
        builder.says(Wait, 5010, thread, 1, pool);
        builder.says(Done, 5030, thread, 1, pool);
        builder.link(5040, thread, 9, 1, None);
        builder.says(Exec, 5050, thread, 9, in_use);
        builder.says(Done, 9000, thread, 9, in_use);
        builder.says(Done, 9500, thread, 1, task);
        let trace = builder.build();
        let model = Model::of(&trace);
        let acquired = |name: &str| {
            let index = (0..3).find(|index| model.type_name(*index) == name).unwrap();
            model.acquired(index, model.wait_end(index)).map(|of| model.type_name(of))
        };
        assert_eq!((acquired("task"), acquired("pool")), (None, Some("pool::in_use")));
    }

    prop_compose! {
        fn chains()(all in prop::collection::vec(
            (0..300_u64, 0..4_u32, 0..4_u8, 1..7_u64, 0..3_usize, 1..7_u64),
            1..60,
        )) -> Trace {
            let (mut events, mut links) = (Vec::new(), Vec::new());
            for (at, thread, kind, object, of, other) in all {
                match [Wait, Exec, Done].get(usize::from(kind)) {
                    Some(phase) => events.push((at, thread, *phase, object, ["a", "b", "c"][of])),
                    None => links.push((at, thread, object, other)),
                }
            }
            trace(&events, &links)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn where_nothing_is_handed_over_a_replay_is_what_was_measured(trace in chains()) {
            let model = Model::of(&trace);
            let graph = Graph::of(&model);
            let origin = crate::select::origin(&model);
            if graph.takes.is_empty() {
                let found = times(&graph, &model, &Changed::nothing(&model, &graph), origin);
                let measured: Vec<_> = graph.at.iter().map(|at| at.map(|at| at - origin)).collect();
                prop_assert_eq!(found, measured);
            }
        }

        #[test]
        fn a_path_never_takes_longer_when_its_types_are_faster(trace in chains()) {
            if let Ok(it) = whatif(&trace, Ends::default(), &[faster("*", 1000.0)]) {
                let free = it.resources.is_empty();
                prop_assert!(!free || it.predicted_ns <= it.measured_ns, "{:?}", it);
            }
        }
    }
}

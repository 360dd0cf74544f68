//! How much later what is not on the path could have been done. Pure.

use crate::explain::Model;
use crate::graph::{Edge, Graph};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// All intervals of an object and type that is not on the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slack {
    /// The object's name, or its address.
    pub object: String,
    /// The type.
    pub name: String,
    /// So much later it could have been done, in nanoseconds, and the path would end when it did: the least of its
    /// intervals.
    pub slack_ns: u64,
    /// How long it worked and waited, in nanoseconds.
    pub ns: u64,
}

/// The slack of all whose objects have nothing of the path, least first; for a path that ends at `to`.
pub fn slack(model: &Model, to: u64, on_path: &BTreeSet<u32>, most: usize) -> Vec<Slack> {
    let graph = Graph::of(model);
    let key = |node: u32| (graph.at[node as usize].unwrap_or_default(), node);
    let mut late: Vec<u64> =
        graph.at.iter().map(|at| if at.is_some_and(|at| at > to) { u64::MAX } else { to }).collect();
    let mut edges: Vec<&Edge> =
        graph.edges.iter().chain(&graph.handed).filter(|edge| key(edge.from) < key(edge.to)).collect();
    edges.sort_unstable_by_key(|edge| Reverse(key(edge.from)));
    for edge in edges {
        let (from, to) = (edge.from as usize, edge.to as usize);
        late[from] = late[from].min(late[to].saturating_sub(edge.lag));
    }
    let objects: BTreeSet<u32> = on_path.iter().map(|index| model.one(*index).object.0).collect();
    let mut rows: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (index, one) in model.all().iter().enumerate() {
        let Some(done) = one.done.filter(|done| *done <= to) else { continue };
        if objects.contains(&one.object.0) || model.is_use[index] {
            continue;
        }
        let row = rows.entry((one.object.0, model.types[index])).or_insert((u64::MAX, 0));
        row.0 = row.0.min(late[3 * index + 2].saturating_sub(done));
        row.1 = row.1.saturating_add(done - one.begin());
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(key, (slack, ns))| (*slack, Reverse(*ns), *key));
    let told = |((object, of), (slack_ns, ns)): ((u32, u32), (u64, u64))| Slack {
        object: model.called(crate::intervals::Object(object)),
        name: model.type_names[of as usize].to_owned(),
        slack_ns,
        ns,
    };
    rows.into_iter().take(most).map(told).collect()
}

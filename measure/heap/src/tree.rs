//! Sites as a tree: from the outermost function in, from the allocating function out, or by object. Functions that only
//! hand memory on, such as `operator new`, are left out ([`Names::wanting`]).

use crate::modes::{Heap, Held, Measure};
use crate::named::Named;
use crate::symbols::{FrameId, Names};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Which way a tree goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// From the outermost frame to the innermost: who uses memory through whom.
    Down,
    /// From the allocating function to its callers.
    Up,
    /// The object of the allocating function, then the function.
    Module,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Function, or object.
    pub label: String,
    /// The object of a function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Of everything below it.
    pub total: Held,
    /// Of itself alone.
    pub own: Held,
    /// Most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// A node while the tree grows: object first, so that equal names of two objects are two.
type Key = (Option<String>, String);

#[derive(Default)]
struct Growing {
    total: Held,
    own: Held,
    children: BTreeMap<Key, Growing>,
}

/// The tree of a recording: see [`of`].
pub fn tree(named: &Named, measure: Measure, shape: Shape, least: u64) -> Node {
    of(&named.names, &named.heaps, measure, shape, least)
}

/// The tree of a measure; nodes with less than `least` bytes are left out. The root is everything.
pub fn of<'a>(
    names: &Names,
    heaps: impl IntoIterator<Item = &'a Heap>,
    measure: Measure,
    shape: Shape,
    least: u64,
) -> Node {
    let mut keys: HashMap<FrameId, Key> = HashMap::new();
    let mut key = |id: FrameId| {
        let frame = names.frame(id);
        keys.entry(id).or_insert_with(|| (Some(frame.object().to_owned()), frame.label())).clone()
    };
    let mut root = Growing::default();
    let sites = heaps.into_iter().flat_map(|heap| heap.sites.iter().map(move |site| (heap, site)));
    for (heap, site) in sites {
        let held = measure.of(&site.figures);
        if held.blocks == 0 {
            continue;
        }
        let stack = names.stack(heap, site.stack);
        let stack = names.wanting(&stack);
        let path: Vec<Key> = match shape {
            Shape::Down => stack.iter().rev().map(|frame| key(*frame)).collect(),
            Shape::Up => stack.iter().map(|frame| key(*frame)).collect(),
            Shape::Module => stack.first().map_or_else(Vec::new, |frame| {
                let (object, label) = key(*frame);
                vec![(None, object.clone().unwrap_or_default()), (object, label)]
            }),
        };
        let unknown = [(None, "(no stack)".to_owned())];
        let path = if path.is_empty() { &unknown[..] } else { &path };
        root.total.add(held);
        let mut at = &mut root;
        for step in path {
            at = at.children.entry(step.clone()).or_default();
            at.total.add(held);
        }
        at.own.add(held);
    }
    finish((None, "all".into()), root, least)
}

fn finish((object, label): Key, node: Growing, least: u64) -> Node {
    let mut children: Vec<Node> = node
        .children
        .into_iter()
        .filter(|(_, child)| child.total.bytes >= least)
        .map(|(key, child)| finish(key, child, least))
        .collect();
    children.sort_by_key(|child| std::cmp::Reverse(child.total));
    Node { label, object, total: node.total, own: node.own, children }
}

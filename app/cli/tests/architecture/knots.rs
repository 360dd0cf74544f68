//! Circles in a graph of modules: which modules lie in one, and which cut opens it.

use crate::architecture::modules::{Graph, Name};
use crate::scratch::root;
use std::collections::{BTreeMap, BTreeSet};

/// Modules of which each reaches each; two or more, by name.
pub type Knot = Vec<Name>;

/// All knots, the greatest first.
pub fn knots(graph: &Graph) -> Vec<Knot> {
    let edges = |from: &Name| graph.uses.get(from).into_iter().flat_map(|uses| uses.keys().cloned()).collect();
    within(&graph.files.keys().cloned().collect(), &edges)
}

/// The knots among these modules, along these edges.
fn within(modules: &BTreeSet<Name>, edges: &dyn Fn(&Name) -> Vec<Name>) -> Vec<Knot> {
    let reach: BTreeMap<&Name, BTreeSet<Name>> = modules
        .iter()
        .map(|start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start.clone()]);
            while let Some(at) = open.pop() {
                open.extend(edges(&at).into_iter().filter(|to| modules.contains(to) && seen.insert(to.clone())));
            }
            (start, seen)
        })
        .collect();
    let mut knots = BTreeSet::new();
    for (own, reached) in &reach {
        let knot: Knot = reached.iter().filter(|other| reach[*other].contains(*own)).cloned().collect();
        if knot.len() > 1 {
            knots.insert(knot);
        }
    }
    let mut knots: Vec<Knot> = knots.into_iter().collect();
    knots.sort_by_key(|knot| std::cmp::Reverse(knot.len()));
    knots
}

/// What to do about a knot: the imports whose end opens it most, and of these those with the fewest names.
pub fn cure(graph: &Graph, knot: &Knot) -> String {
    let members: BTreeSet<Name> = knot.iter().cloned().collect();
    let inside = |from: &Name| -> Vec<Name> {
        let uses = graph.uses.get(from).into_iter().flat_map(|uses| uses.keys());
        uses.filter(|to| members.contains(*to)).cloned().collect()
    };
    let mut cuts = Vec::new();
    for from in knot {
        for to in inside(from) {
            let left = within(&members, &|own| {
                let mut edges = inside(own);
                edges.retain(|other| own != from || *other != to);
                edges
            });
            let left = left.first().map_or(0, Vec::len);
            cuts.push((left, graph.uses[from][&to].len(), from, to));
        }
    }
    cuts.sort();
    let shown = |name: &Name| name.join("::");
    let members: Vec<String> = knot.iter().map(shown).collect();
    let mut text = format!("{} modules name each other in a circle: {}", knot.len(), members.join(", "));
    for (left, _, from, to) in cuts.iter().take(3) {
        let file = graph.files[*from].strip_prefix(root()).unwrap().display();
        let names: Vec<&str> = graph.uses[*from][to].iter().map(String::as_str).collect();
        let left = if *left == 0 { "none".to_owned() } else { format!("{left} modules") };
        let (to, names) = (shown(to), names.join(", "));
        text.push_str(&format!(
            "\n    {file} takes {names} of {to}: move that into a module below both, or hand it over as a value or a \
             function; a circle of {left} is left then"
        ));
    }
    text
}

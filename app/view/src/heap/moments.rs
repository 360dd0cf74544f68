//! What each node held over time, in steps of equal length, so that a page can say what was live at any of them. Pure.

use crate::columns::Column;
use crate::events::Table;
use ::heap::modes::Heap;
use ::heap::whole;
use std::collections::BTreeMap;

/// Most steps of a process.
const MOST_STEPS: u64 = 128;

/// What came to a node in a step, less what went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    step: u64,
    bytes: i64,
    blocks: i64,
}

/// What came and went, of all nodes of a process.
#[derive(Debug)]
pub(super) struct Moments {
    /// Nanoseconds of a step; the first begins with the process.
    pub step_ns: u64,
    /// From the first to that of the last event.
    pub steps: u64,
    /// The changes of each node, by step.
    nodes: Vec<Vec<Step>>,
}

/// The moments of a process. `node_of_site` is by site of `heap`. With more than `most` changes, steps become twice as
/// long, and so on.
pub(super) fn of(known: &whole::Moments, heap: &Heap, node_of_site: &[u32], most: usize) -> Moments {
    let mut moments = Moments::new(known.step_ns().0, heap.last.0 / known.step_ns().0 + 1, node_of_site);
    let joined = moments.step_ns / known.step_ns().0;
    for (site, node) in heap.sites.iter().zip(node_of_site) {
        let steps = known.of(site.stack, site.part);
        moments.nodes[*node as usize].extend(steps.map(|it| Step {
            step: it.step / joined,
            bytes: it.bytes,
            blocks: it.blocks,
        }));
    }
    for steps in &mut moments.nodes {
        steps.sort_unstable_by_key(|step| step.step);
        join(steps);
        steps.shrink_to_fit();
    }
    moments.shorten(most);
    moments
}

/// Puts changes of one step together.
fn join(steps: &mut Vec<Step>) {
    steps.dedup_by(|next, kept| {
        let same = next.step == kept.step;
        if same {
            kept.bytes = kept.bytes.saturating_add(next.bytes);
            kept.blocks = kept.blocks.saturating_add(next.blocks);
        }
        same
    });
}

impl Moments {
    /// Nothing yet; of so many steps of this length as many are put together as must be.
    fn new(step_ns: u64, steps: u64, node_of_site: &[u32]) -> Self {
        let nodes = node_of_site.iter().max().map_or(0, |node| *node as usize + 1);
        let joined = steps.div_ceil(MOST_STEPS);
        Self { step_ns: step_ns.saturating_mul(joined), steps: steps.div_ceil(joined), nodes: vec![Vec::new(); nodes] }
    }

    fn shorten(&mut self, most: usize) {
        loop {
            let mut count = 0;
            for steps in &mut self.nodes {
                steps.retain(|step| step.bytes != 0 || step.blocks != 0);
                count += steps.len();
            }
            if count <= most || self.steps == 1 {
                return;
            }
            self.step_ns = self.step_ns.saturating_mul(2);
            self.steps = self.steps.div_ceil(2);
            for steps in &mut self.nodes {
                steps.iter_mut().for_each(|step| step.step /= 2);
                join(steps);
            }
        }
    }

    /// The changes, by node, then by step.
    pub(super) fn table(&self) -> Table {
        let each = || (0u64..).zip(&self.nodes).flat_map(|(node, steps)| steps.iter().map(move |step| (node, *step)));
        let (bytes, blocks): (Vec<i64>, Vec<i64>) = each().map(|(_, step)| (step.bytes, step.blocks)).unzip();
        Table {
            count: bytes.len(),
            columns: BTreeMap::from([
                ("node", Column::delta(&each().map(|(node, _)| node).collect::<Vec<_>>())),
                ("step", Column::delta(&each().map(|(_, step)| step.step).collect::<Vec<_>>())),
                ("bytes", Column::signed(&bytes)),
                ("blocks", Column::signed(&blocks)),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_make_longer_steps() {
        let nodes: Vec<u32> = (0..4000).collect();
        let mut moments = Moments::new(10, 1000, &nodes);
        assert_eq!((moments.step_ns, moments.steps), (80, 125));
        let every = |step| Step { step, bytes: 24, blocks: 8 };
        moments.nodes.fill((0..125).map(every).collect());
        moments.shorten(300_000);
        assert_eq!((moments.step_ns, moments.steps), (160, 63));
        assert!(moments.nodes.iter().all(|steps| steps.iter().map(|step| step.bytes).sum::<i64>() == 24 * 125));
        assert_eq!(moments.nodes[7][1], Step { step: 1, bytes: 48, blocks: 16 });
    }

    #[test]
    fn what_comes_and_goes_in_a_step_is_no_change() {
        let mut moments = Moments::new(1, 1, &[2]);
        let step = |bytes| Step { step: 0, bytes, blocks: bytes.signum() };
        moments.nodes[2] = vec![step(8), step(-8)];
        join(&mut moments.nodes[2]);
        moments.shorten(0);
        assert!(moments.nodes.iter().all(Vec::is_empty));
        assert_eq!(Moments::new(5, 128, &[]).steps, 128);
    }
}

//! What each stack held over time: one more pass over the events, in steps of equal length, so that a page can say what was live at any of them.

use crate::columns::Column;
use crate::events::Table;
use ::heap::ledger::{Block, Change, Inconsistency, Ledger};
use ::heap::modes::{Heap, Window};
use ::heap::stream::{Process, Reader};
use model::{Nanos, Result};
use std::collections::{BTreeMap, HashMap};

/// Most steps of a process.
const MOST_STEPS: u64 = 128;

/// What came to a node in a step, less what went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    step: u64,
    bytes: i64,
    blocks: i64,
}

/// Of all nodes.
#[derive(Debug)]
pub(super) struct Moments {
    /// Length of a step; the first begins with the process.
    pub step_ns: u64,
    /// How many.
    pub steps: u64,
    /// By node, steps ascending.
    nodes: Vec<Vec<Step>>,
}

/// Reads a process. `node_of_site` is by site of `heap`. With more than `most` changes, steps become twice as long, and so on.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn read(
    reader: &Reader,
    process: &Process,
    heap: &Heap,
    window: Window,
    node_of_site: &[u32],
    most: usize,
) -> Result<Moments> {
    let mut moments = Moments::new(heap.last, node_of_site);
    // Sites may be split by thread: all parts of a stack that are wanted count.
    let parts: HashMap<(Option<u32>, u64), u32> = heap
        .sites
        .iter()
        .zip(node_of_site)
        .map(|(site, node)| ((site.stack.map(|stack| stack.0), site.part), *node))
        .collect();
    let by_thread = heap.sites.iter().any(|site| site.part != 0);
    let since = window.since_ns - process.start;
    let node = |block: &Block| {
        let part = if by_thread { u64::from(block.thread.0) } else { 0 };
        let node = parts.get(&(block.stack.map(|stack| stack.0), part));
        node.copied().filter(|_| block.at >= since)
    };
    let mut ledger = Ledger::new(process.origin);
    let mut events = reader.events(process.id)?;
    while let Some(event) = events.next()? {
        if event.at > heap.last {
            break;
        }
        let covered = ledger.covered_by(&event);
        let change = ledger.enter(&event);
        let came = match change {
            Change::Came(_, block) => Some(block),
            Change::Wrong(Inconsistency::AllocOverLive) => Block::made_by(&event),
            _ => None,
        };
        let went = match change {
            Change::Went(_, block) => Some(block),
            _ => covered,
        };
        if let Some((node, block)) = went.and_then(|block| Some((node(&block)?, block))) {
            moments.add(node, event.at, -signed(block.bytes()), -signed(block.count));
        }
        if let Some((node, block)) = came.and_then(|block| Some((node(&block)?, block))) {
            moments.add(node, event.at, signed(block.bytes()), signed(block.count));
        }
    }
    moments.shorten(most);
    Ok(moments)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Moments {
    fn new(last: Nanos, node_of_site: &[u32]) -> Self {
        let nodes = node_of_site.iter().max().map_or(0, |node| *node as usize + 1);
        let step_ns = (last.0 / MOST_STEPS).saturating_add(1);
        Self { step_ns, steps: last.0 / step_ns + 1, nodes: vec![Vec::new(); nodes] }
    }

    fn add(&mut self, node: u32, at: Nanos, bytes: i64, blocks: i64) {
        let step = at.0 / self.step_ns;
        let steps = &mut self.nodes[node as usize];
        match steps.last_mut().filter(|last| last.step == step) {
            Some(last) => {
                last.bytes = last.bytes.saturating_add(bytes);
                last.blocks = last.blocks.saturating_add(blocks);
            }
            None => steps.push(Step { step, bytes, blocks }),
        }
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
                steps.dedup_by(|next, kept| {
                    let same = next.step == kept.step;
                    if same {
                        kept.bytes = kept.bytes.saturating_add(next.bytes);
                        kept.blocks = kept.blocks.saturating_add(next.blocks);
                    }
                    same
                });
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
        let mut moments = Moments::new(Nanos(1279), &nodes);
        assert_eq!((moments.step_ns, moments.steps), (10, 128));
        for at in 0..1280 {
            for node in 0..4000 {
                moments.add(node, Nanos(at), 3, 1);
            }
        }
        moments.shorten(300_000);
        assert_eq!((moments.step_ns, moments.steps), (20, 64));
        assert!(moments.nodes.iter().all(|steps| steps.iter().map(|step| step.bytes).sum::<i64>() == 3 * 1280));
        assert_eq!(moments.nodes[7][1], Step { step: 1, bytes: 60, blocks: 20 });
    }

    #[test]
    fn what_comes_and_goes_in_a_step_is_no_change() {
        let mut moments = Moments::new(Nanos(1000), &[2]);
        moments.add(2, Nanos(500), 8, 1);
        moments.add(2, Nanos(501), -8, -1);
        moments.shorten(0);
        assert!(moments.nodes.iter().all(Vec::is_empty));
        assert_eq!(Moments::new(Nanos(0), &[]).steps, 1);
    }
}

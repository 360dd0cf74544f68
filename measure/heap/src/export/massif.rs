//! Massif's snapshots, as `ms_print` reads them: what was live over time, and a tree of callers at the peak. Time is in
//! milliseconds.

use super::{Export, command};
use crate::modes::{Heap, Measure};
use crate::tree::{self, Node, Shape};
use heapfile::event::Process;
use std::io::{self, Write};

/// Most snapshots beside the peak: ms_print draws them in 72 columns.
const SNAPSHOTS: usize = 100;
/// Nodes below this share of the peak are summed up, as massif does.
const THRESHOLD: u64 = 100;

pub fn write(export: &Export, (process, heap): (&Process, &Heap), out: &mut dyn Write) -> io::Result<()> {
    let command = command(process);
    writeln!(out, "desc: recorded by thaw heap\ncmd: {command}\ntime_unit: ms")?;
    let timeline = &heap.timeline;
    let every = timeline.points.len().div_ceil(SNAPSHOTS).max(1);
    let peak_ms = heap.peak_at.0 / 1_000_000;
    let mut number = 0;
    let mut peak_is_due = heap.peak.blocks > 0;
    for (step, part) in timeline.points.chunks(every).enumerate() {
        let last = step * every + part.len() - 1;
        let ended = timeline.end_of(last);
        if peak_is_due && heap.peak_at < ended {
            snapshot(out, number, peak_ms, heap.peak.bytes)?;
            writeln!(out, "heap_tree=peak")?;
            let least = heap.peak.bytes / THRESHOLD;
            node(&tree::of(&export.named.names, [heap], Measure::Peak, Shape::Up, least), 0, out)?;
            number += 1;
            peak_is_due = false;
        }
        snapshot(out, number, ended.0.min(heap.last.0) / 1_000_000, part[part.len() - 1].live.bytes)?;
        writeln!(out, "heap_tree=empty")?;
        number += 1;
    }
    Ok(())
}

fn snapshot(out: &mut dyn Write, number: usize, ms: u64, bytes: u64) -> io::Result<()> {
    writeln!(out, "#-----------\nsnapshot={number}\n#-----------")?;
    writeln!(out, "time={ms}\nmem_heap_B={bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0")
}

fn node(node: &Node, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    let shown = node.children.iter().fold(node.own.bytes, |sum, child| sum.saturating_add(child.total.bytes));
    // What the children left out, unless it is the node's own.
    let rest = node.total.bytes.saturating_sub(shown);
    let kids = node.children.len() + usize::from(rest > 0 && !node.children.is_empty());
    let indent = " ".repeat(depth);
    if depth == 0 {
        writeln!(
            out,
            "n{kids}: {} (heap allocation functions) malloc, calloc, realloc, operator new",
            node.total.bytes
        )?;
    } else {
        let object = node.object.as_deref().unwrap_or_default();
        let label = node.label.replace('\n', " ");
        writeln!(out, "{indent}n{kids}: {} 0x0: {label} (in {object})", node.total.bytes)?;
    }
    for child in &node.children {
        self::node(child, depth + 1, out)?;
    }
    if kids > node.children.len() {
        writeln!(out, "{indent} n0: {rest} in places that are all below thaw's threshold (1.00%)")?;
    }
    Ok(())
}

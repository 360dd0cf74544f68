//! DHAT's JSON, version 2, as `dh_view.html` reads it: sums, lifetimes, maxima, and what was live at the peak and at
//! the end. Time is in microseconds. No accesses: they are not recorded.

use super::{Export, command, described, json};
use crate::modes::{Figures, Heap};
use heapfile::event::Process;
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};

/// Blocks that live shorter are called short-lived, microseconds.
const SHORT: u64 = 500;

pub fn write(export: &Export, (process, heap): (&Process, &Heap), out: &mut dyn Write) -> io::Result<()> {
    let head = json!({
        "dhatFileVersion": 2,
        "mode": "thaw-heap",
        "verb": "Allocated",
        "bklt": true,
        "bkacc": false,
        "tu": "µs",
        "Mtu": "s",
        "tuth": SHORT,
        "cmd": command(process),
        "pid": process.pid,
        "te": heap.last.0 / 1000,
        "tg": heap.peak_at.0 / 1000,
    });
    let head = head.to_string();
    write!(out, "{},\n\"pps\": [", head.trim_end_matches('}'))?;
    // Stacks whose frames have the same names are one: the viewer refuses a second one.
    let mut numbers: HashMap<Vec<u32>, usize> = HashMap::new();
    let mut points: Vec<(Vec<u32>, Figures)> = Vec::new();
    for site in heap.sites.iter().filter(|site| site.figures.made.blocks > 0) {
        // Frame 0 is the root; frame 1 stands for stacks that were not taken.
        let mut frames: Vec<u32> = export.named.names.stack(heap, site.stack).iter().map(|frame| frame.0 + 2).collect();
        if frames.is_empty() {
            frames.push(1);
        }
        let number = *numbers.entry(frames.clone()).or_insert_with(|| {
            points.push((frames, Figures::default()));
            points.len() - 1
        });
        points[number].1.add(&site.figures);
    }
    for (number, (frames, figures)) in points.iter().enumerate() {
        let point = json!({
            "tb": figures.made.bytes, "tbk": figures.made.blocks, "tl": figures.lifetime_ns.0 / 1000,
            "mb": figures.max.bytes, "mbk": figures.max.blocks,
            "gb": figures.peak.bytes, "gbk": figures.peak.blocks,
            "eb": figures.end.bytes, "ebk": figures.end.blocks,
            "fs": frames,
        });
        write!(out, "{}\n{point}", if number == 0 { "" } else { "," })?;
    }
    write!(out, "\n],\n\"ftbl\": [\"[root]\",\"(no stack)\"")?;
    for frame in export.named.names.frames() {
        writeln!(out, ",")?;
        json(out, &format!("{:#x}: {}", frame.address, described(frame)))?;
    }
    writeln!(out, "\n]}}")
}

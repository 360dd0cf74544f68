//! DMD's JSON, version 5, as Mozilla's `dmd.py --no-fix-stacks` reads it: one entry for all blocks of a stack and a size.
//!
//! Rounding (`slop`) is what the allocator gave beyond, as recorded; where it is not recorded, what the allocator's model says, if there is one. Which of
//! them it is stands in `dmdEnvVar`, which `dmd.py` prints and nobody reads.

use super::{Export, json};
use crate::modes::Measure;
use crate::slop::Model;
use crate::symbols::{Frame, FrameId};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};

pub fn write(export: &Export, out: &mut dyn Write) -> io::Result<()> {
    let mode = match export.measure {
        Measure::Made | Measure::Temporary => "cumulative",
        Measure::End | Measure::Peak => "live",
    };
    let mut traces: HashMap<Vec<FrameId>, usize> = HashMap::new();
    let recorded = export.named.heaps.iter().flat_map(|heap| &heap.sites).any(|site| site.usable.is_some());
    let from = if recorded { "recorded" } else { "modelled" };
    let invocation =
        json!({ "dmdEnvVar": format!("--mode={mode} --stacks=full (slop: {from} by thaw heap)"), "mode": mode });
    write!(out, "{{\n\"version\": 5,\n\"invocation\": {invocation},\n\"blockList\": [")?;
    let mut first = true;
    for (heap, site, stack) in export.named.sites() {
        let blocks = export.measure.of(&site.figures).blocks;
        if blocks == 0 {
            continue;
        }
        let modelled = || {
            let process = export.named.process(heap.process)?;
            Some(Model::of(&process.allocator, &process.exe)?.usable(site.part))
        };
        let usable = site.usable.map(|usable| usable.0).or_else(modelled).unwrap_or(0);
        let mut block = json!({ "req": site.part });
        if usable > site.part {
            block["slop"] = (usable - site.part).into();
        }
        if blocks > 1 {
            block["num"] = blocks.into();
        }
        if !stack.is_empty() {
            let fresh = traces.len();
            block["alloc"] = format!("t{}", traces.entry(stack).or_insert(fresh)).into();
        }
        write!(out, "{}\n{block}", if first { "" } else { "," })?;
        first = false;
    }
    let mut traces: Vec<_> = traces.into_iter().collect();
    traces.sort_by_key(|(_, number)| *number);
    write!(out, "\n],\n\"traceTable\": {{")?;
    for (stack, number) in &traces {
        let frames: Vec<String> = stack.iter().map(|frame| format!("f{}", frame.0)).collect();
        write!(out, "{}\n\"t{number}\": ", if *number == 0 { "" } else { "," })?;
        json(out, &frames)?;
    }
    write!(out, "\n}},\n\"frameTable\": {{")?;
    for (number, frame) in export.named.names.frames().iter().enumerate() {
        write!(out, "{}\n\"f{number}\": ", if number == 0 { "" } else { "," })?;
        json(out, &described(frame))?;
    }
    writeln!(out, "\n}}\n}}")
}

/// The number of a frame is always 00: dmd.py puts the right one in.
fn described(frame: &Frame) -> String {
    match (&frame.function, frame.source()) {
        (Some(function), Some(source)) => format!("#00: {function} ({source})"),
        (Some(function), None) => format!("#00: {function} ({})", frame.object()),
        (None, _) => format!("#00: ???[{} +{:#x}]", frame.object(), frame.address),
    }
}

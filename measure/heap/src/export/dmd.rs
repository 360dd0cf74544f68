//! DMD's JSON, version 5, as Mozilla's `dmd.py --no-fix-stacks` reads it: one entry for all blocks of a stack and a
//! size.
//!
//! Rounding (`slop`) is what the allocator gave beyond, as recorded; where it is not recorded, what the allocator's
//! model says, if there is one. Which of them it is stands in `dmdEnvVar`, which `dmd.py` prints and nobody reads.
//!
//! In the mode `dark-matter` an entry is of the same reports too, and lists a stack for each (`reps`); one without
//! reports has no list. The stack of a report is one frame, its path and reporter: where in the program it was made
//! nobody tells.

use super::{Export, json};
use crate::dark::{Blocks, ReportedAs};
use crate::modes::Measure;
use crate::slop::Model;
use crate::symbols::{Frame, FrameId, Names};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};

pub fn write(export: &Export, out: &mut dyn Write) -> io::Result<()> {
    let mode = match export.measure {
        Measure::Made | Measure::Temporary => "cumulative",
        Measure::End | Measure::Peak | Measure::Reached(_) => "live",
    };
    let recorded = export.named.heaps.iter().flat_map(|heap| &heap.sites).any(|site| site.usable.is_some());
    let mut file = Dmd::begin(out, mode, if recorded { "recorded" } else { "modelled" })?;
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
        file.blocks(blocks, (site.part, usable), stack, &[])?;
    }
    file.end(&export.named.names)
}

/// The mode `dark-matter`.
pub fn dark_matter(blocks: &Blocks, out: &mut dyn Write) -> io::Result<()> {
    let mut file = Dmd::begin(out, "dark-matter", "measured, recorded or modelled")?;
    for (block, number) in &blocks.blocks {
        file.blocks(*number, (block.requested, block.usable), block.stack.clone(), &block.reports)?;
    }
    file.end(&blocks.names)
}

/// A file that is being written: blocks first, then the stacks that they have named.
struct Dmd<'a> {
    out: &'a mut dyn Write,
    separator: &'static str,
    traces: HashMap<Vec<FrameId>, usize>,
    reports: HashMap<ReportedAs, usize>,
}

/// In the order of their numbers.
fn listed<T>(numbers: HashMap<T, usize>) -> Vec<(T, usize)> {
    let mut list: Vec<_> = numbers.into_iter().collect();
    list.sort_by_key(|(_, number)| *number);
    list
}

impl<'a> Dmd<'a> {
    fn begin(out: &'a mut dyn Write, mode: &str, slop: &str) -> io::Result<Self> {
        let invocation =
            json!({ "dmdEnvVar": format!("--mode={mode} --stacks=full (slop: {slop} by thaw heap)"), "mode": mode });
        write!(out, "{{\n\"version\": 5,\n\"invocation\": {invocation},\n\"blockList\": [")?;
        Ok(Self { out, separator: "", traces: HashMap::new(), reports: HashMap::new() })
    }

    /// So many blocks that agree in what was asked for, what was given (less: not known), stack and reports.
    fn blocks(
        &mut self,
        number: u64,
        (requested, usable): (u64, u64),
        stack: Vec<FrameId>,
        reports: &[ReportedAs],
    ) -> io::Result<()> {
        let mut block = json!({ "req": requested });
        if usable > requested {
            block["slop"] = (usable - requested).into();
        }
        if number > 1 {
            block["num"] = number.into();
        }
        if !stack.is_empty() {
            let fresh = self.traces.len();
            block["alloc"] = format!("t{}", self.traces.entry(stack).or_insert(fresh)).into();
        }
        if !reports.is_empty() {
            let mut trace = |report: &ReportedAs| {
                let fresh = self.reports.len();
                format!("r{}", self.reports.entry(report.clone()).or_insert(fresh))
            };
            block["reps"] = reports.iter().map(&mut trace).collect();
        }
        write!(self.out, "{}\n{block}", self.separator)?;
        self.separator = ",";
        Ok(())
    }

    fn line(&mut self, key: &str, value: &impl serde::Serialize) -> io::Result<()> {
        write!(self.out, "{}\n\"{key}\": ", self.separator)?;
        self.separator = ",";
        json(self.out, value)
    }

    fn end(mut self, names: &Names) -> io::Result<()> {
        let (traces, reports) = (listed(std::mem::take(&mut self.traces)), listed(std::mem::take(&mut self.reports)));
        write!(self.out, "\n],\n\"traceTable\": {{")?;
        self.separator = "";
        for (stack, number) in &traces {
            let frames: Vec<String> = stack.iter().map(|frame| format!("f{}", frame.0)).collect();
            self.line(&format!("t{number}"), &frames)?;
        }
        for (_, number) in &reports {
            self.line(&format!("r{number}"), &[format!("p{number}")])?;
        }
        write!(self.out, "\n}},\n\"frameTable\": {{")?;
        self.separator = "";
        for (number, frame) in names.frames().iter().enumerate() {
            self.line(&format!("f{number}"), &described(frame))?;
        }
        for (report, number) in &reports {
            self.line(&format!("p{number}"), &format!("#00: {} (reporter {})", report.path, report.reporter))?;
        }
        writeln!(self.out, "\n}}\n}}")
    }
}

/// The number of a frame is always 00: dmd.py puts the right one in.
fn described(frame: &Frame) -> String {
    match (&frame.function, frame.source()) {
        (Some(function), Some(source)) => format!("#00: {function} ({source})"),
        (Some(function), None) => format!("#00: {function} ({})", frame.object()),
        (None, _) => format!("#00: ???[{} +{:#x}]", frame.object(), frame.address),
    }
}

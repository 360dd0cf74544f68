//! Stacks with a weight: folded lines and speedscope.

use super::{Export, command, json};
use crate::modes::Measure;
use crate::named::Named;
use crate::symbols::FrameId;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// `outer;inner bytes`, one line for each different text, in the order of the texts.
pub fn folded(named: &Named, measure: Measure, out: &mut dyn Write) -> io::Result<()> {
    let labels: Vec<String> = named.names.frames().iter().map(|frame| one_word(&frame.label())).collect();
    let mut lines: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for (_, site, stack) in named.sites() {
        let bytes = measure.of(&site.figures).bytes;
        let mut words: Vec<&str> = stack.iter().rev().map(|frame| labels[frame.0 as usize].as_str()).collect();
        if words.is_empty() {
            words.push("(no stack)");
        }
        let sum = lines.entry(words).or_default();
        *sum = sum.saturating_add(bytes);
    }
    for (words, bytes) in lines.into_iter().filter(|(_, bytes)| *bytes > 0) {
        writeln!(out, "{} {bytes}", words.join(";"))?;
    }
    Ok(())
}

/// Without what separates frames and lines.
fn one_word(label: &str) -> String {
    label.replace(';', ":").replace(['\n', '\r'], " ")
}

/// One sampled profile for each process; weights are bytes.
pub fn speedscope(export: &Export, out: &mut dyn Write) -> io::Result<()> {
    let frames = export.named.names.frames().iter().map(|frame| {
        let mut value = json!({ "name": frame.label() });
        if let Some(file) = &frame.file {
            value["file"] = file.as_str().into();
        }
        if let Some(line) = frame.line {
            value["line"] = line.into();
        }
        value
    });
    let frames: Vec<_> = frames.collect();
    let name = format!("thaw heap: {}", export.reader.recording().command.join(" "));
    write!(
        out,
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"thaw\",\"name\":"
    )?;
    json(out, &name)?;
    write!(out, ",\"shared\":{{\"frames\":")?;
    json(out, &frames)?;
    write!(out, "}},\"profiles\":[")?;
    for (number, (process, heap)) in export.named.processes.iter().zip(&export.named.heaps).enumerate() {
        let held = |site: &&crate::modes::Site| export.measure.of(&site.figures).bytes > 0;
        let weights: Vec<u64> =
            heap.sites.iter().filter(held).map(|site| export.measure.of(&site.figures).bytes).collect();
        let end = weights.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        write!(out, "{}{{\"type\":\"sampled\",\"name\":", if number == 0 { "" } else { "," })?;
        json(out, &format!("{} ({})", process.pid, command(process)))?;
        write!(out, ",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":{end},\"samples\":[")?;
        for (number, site) in heap.sites.iter().filter(held).enumerate() {
            let stack: Vec<u32> =
                export.named.names.stack(heap, site.stack).iter().rev().map(|FrameId(frame)| *frame).collect();
            write!(out, "{}", if number == 0 { "" } else { "," })?;
            json(out, &stack)?;
        }
        write!(out, "],\"weights\":")?;
        json(out, &weights)?;
        write!(out, "}}")?;
    }
    writeln!(out, "]}}")
}

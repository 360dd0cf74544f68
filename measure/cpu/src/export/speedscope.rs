//! speedscope's JSON: a sampled profile for each thread of the tree. It knows no waits.

use super::{About, sampled};
use crate::trace::{Frame, FrameId, StackId, Trace};
use serde_json::{Value, json};
use std::io::{self, Write};

pub fn write(trace: &Trace, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let frames: Vec<Value> = trace.stacks.frames().iter().map(frame).collect();
    let profiles: Vec<Value> = sampled(trace)
        .into_iter()
        .filter(|(_, samples)| !samples.is_empty())
        .map(|(thread, samples)| {
            json!({
                "type": "sampled",
                "name": format!("{} ({})", thread.name, thread.tid),
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": samples.len() as u64 * trace.tick.0,
                "samples": samples.iter().map(|sample| outermost_first(trace, sample.stack)).collect::<Vec<_>>(),
                "weights": vec![trace.tick.0; samples.len()],
            })
        })
        .collect();
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "thaw",
        "name": format!("thaw why: {}", about.name),
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    serde_json::to_writer(out, &document).map_err(io::Error::from)
}

/// Without its line: a function is one, wherever in it a sample was.
fn frame(frame: &Frame) -> Value {
    let mut value = json!({ "name": frame.label() });
    if let Some(file) = frame.file() {
        value["file"] = file.into();
    }
    value
}

fn outermost_first(trace: &Trace, stack: Option<StackId>) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut at = stack;
    while let Some(here) = at {
        let (caller, FrameId(frame)) = trace.stacks.nodes()[here.0 as usize];
        numbers.push(frame);
        at = caller;
    }
    numbers.reverse();
    numbers
}

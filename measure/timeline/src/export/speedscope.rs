//! speedscope's JSON: what each thread worked on, as frames that open and close. It knows no waits and no links.
//!
//! There what opens last closes first. Where an outer one ends before an inner one, the inner one closes and opens
//! again at that moment.

use crate::intervals::intervals;
use crate::trace::Trace;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let (_, all) = intervals(trace);
    let (first, last) = (trace.clock.origin_ns, trace.events.last().map_or(0, |event| event.at_ns));
    let first = first.min(trace.events.first().map_or(0, |event| event.at_ns));
    let mut frames: Vec<Value> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut threads: BTreeMap<u32, Vec<(u64, u64, usize)>> = BTreeMap::new();
    for one in &all {
        let Some((begin, thread)) = one.exec else { continue };
        let name = trace.type_name(one.type_id);
        let frame = *known.entry(name).or_insert_with(|| {
            let of = one.type_id.and_then(|id| trace.types.get(&id)).filter(|of| !of.file.is_empty());
            frames.push(match of {
                Some(of) => json!({ "name": name, "file": of.file, "line": of.line }),
                None => json!({ "name": name }),
            });
            frames.len() - 1
        });
        let end = one.done.unwrap_or(last).max(begin);
        threads.entry(thread).or_default().push((begin, end, frame));
    }
    let profiles: Vec<Value> = threads
        .into_iter()
        .map(|(thread, slices)| {
            let of = trace.threads.get(thread as usize);
            let (name, tid) = of.map_or(("", 0), |of| (of.name.as_str(), of.tid));
            let name = if name.is_empty() { format!("thread {tid}") } else { format!("{name} ({tid})") };
            let end = slices.iter().map(|slice| slice.1).max().unwrap_or(last);
            json!({ "type": "evented", "name": name, "unit": "nanoseconds", "startValue": 0,
                "endValue": end - first, "events": in_turn(slices, first) })
        })
        .collect();
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "thaw",
        "name": trace.processes.first().map_or("events", |of| of.program.as_str()),
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    serde_json::to_writer(out, &document).map_err(io::Error::from)
}

fn in_turn(mut slices: Vec<(u64, u64, usize)>, first: u64) -> Vec<Value> {
    slices.sort_by_key(|&(begin, end, _)| (begin, std::cmp::Reverse(end)));
    let mut events = Vec::new();
    let mut stack: Vec<(u64, usize)> = Vec::new();
    let mut say =
        |kind: &str, at: u64, frame: usize| events.push(json!({ "type": kind, "at": at - first, "frame": frame }));
    let close = |stack: &mut Vec<(u64, usize)>, until: u64, say: &mut dyn FnMut(&str, u64, usize)| {
        while let Some(end) = stack.iter().map(|(end, _)| *end).min().filter(|end| *end <= until) {
            // The outermost one that ends now, and all that is on top of it.
            let place = stack.iter().position(|(of, _)| *of == end).unwrap_or(0);
            let above = stack.split_off(place);
            above.iter().rev().for_each(|(_, frame)| say("C", end, *frame));
            for (of, frame) in above.into_iter().filter(|(of, _)| *of > end) {
                say("O", end, frame);
                stack.push((of, frame));
            }
        }
    };
    for (begin, end, frame) in slices {
        close(&mut stack, begin, &mut say);
        say("O", begin, frame);
        stack.push((end, frame));
    }
    close(&mut stack, u64::MAX, &mut say);
    events
}

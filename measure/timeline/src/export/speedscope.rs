//! speedscope's JSON: what each thread worked on, as frames that open and close. It knows no waits and no links.
//!
//! There what opens last closes first. Where an outer one ends before an inner one, the inner one closes and opens
//! again at that moment.

use crate::intervals::intervals;
use crate::trace::Trace;
use serde::Serialize;
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
    let profiles = threads
        .into_iter()
        .map(|(thread, slices)| {
            let of = trace.threads.get(thread as usize);
            let (name, tid) = of.map_or(("", 0), |of| (of.name.as_str(), of.tid));
            let name = if name.is_empty() { format!("thread {tid}") } else { format!("{name} ({tid})") };
            let end = slices.iter().map(|slice| slice.1).max().unwrap_or(last);
            let (kind, unit) = ("evented", "nanoseconds");
            Profile { kind, name, unit, start_value: 0, end_value: end - first, events: in_turn(slices, first) }
        })
        .collect();
    let document = Document {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: "thaw",
        name: trace.processes.first().map_or("events", |of| of.program.as_str()),
        shared: Shared { frames },
        profiles,
    };
    serde_json::to_writer(out, &document).map_err(io::Error::from)
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    events: Vec<Turn>,
}

#[derive(Serialize)]
struct Turn {
    #[serde(rename = "type")]
    kind: &'static str,
    at: u64,
    frame: usize,
}

fn in_turn(mut slices: Vec<(u64, u64, usize)>, first: u64) -> Vec<Turn> {
    slices.sort_by_key(|&(begin, end, _)| (begin, std::cmp::Reverse(end)));
    let mut open = Stack { all: Vec::new(), next_end: u64::MAX, turns: Vec::new(), first };
    for (begin, end, frame) in slices {
        open.close(begin);
        open.open(begin, end, frame);
    }
    open.close(u64::MAX);
    open.turns
}

/// What is open on a thread: when each ends, and its frame.
struct Stack {
    all: Vec<(u64, usize)>,
    /// When the first of them ends.
    next_end: u64,
    turns: Vec<Turn>,
    first: u64,
}

impl Stack {
    fn open(&mut self, at: u64, end: u64, frame: usize) {
        self.turns.push(Turn { kind: "O", at: at - self.first, frame });
        self.all.push((end, frame));
        self.next_end = self.next_end.min(end);
    }

    /// Closes what ends until a moment.
    fn close(&mut self, until: u64) {
        // Where nothing is open, nothing ends, not even at the end of time.
        while !self.all.is_empty() && self.next_end <= until {
            let end = self.next_end;
            // The outermost one that ends now, and all that is on top of it.
            let place = self.all.iter().position(|(of, _)| *of == end).unwrap_or(0);
            let above = self.all.split_off(place);
            let closed = above.iter().rev().map(|(_, frame)| Turn { kind: "C", at: end - self.first, frame: *frame });
            self.turns.extend(closed);
            self.next_end = self.all.iter().map(|(of, _)| *of).min().unwrap_or(u64::MAX);
            for (of, frame) in above.into_iter().filter(|(of, _)| *of > end) {
                self.open(end, of, frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_at_the_end_of_time_ends_there() {
        let turns = in_turn(vec![(u64::MAX, u64::MAX, 1), (5, u64::MAX, 0)], 5);
        let said: Vec<_> = turns.iter().map(|turn| (turn.kind, turn.frame)).collect();
        assert_eq!(said, [("O", 0), ("C", 0), ("O", 1), ("C", 1)]);
        assert!(in_turn(Vec::new(), 0).is_empty());
    }
}

//! Writes a trace as the files that its processes would have left, had they written events themselves:
//! `docs/events-format.md`, times in nanoseconds. Pure.

use super::{CHUNK_HEAD, CLOCK_MONOTONIC, HEADER, MAGIC, MORE, NO_TYPE, SHARED, SLOT, TEXT, VERSION};
use crate::trace::{Event, Phase, Trace};
use std::collections::BTreeMap;

const CHUNK: usize = 65536;
/// Longest text, as `embed/events` has it.
const TEXT_MOST: usize = 16384;
const KIND_TYPE: u32 = 1;
const KIND_THREAD: u32 = 2;
const LEFT: u32 = 2;

/// The file of one process (by its place) of a trace. Numbers of objects lose what tells processes apart; more than
/// 65,534 types are counted as lost.
pub fn file_of(trace: &Trace, process: u32) -> Vec<u8> {
    let threads: Vec<u32> =
        (0..trace.threads.len() as u32).filter(|of| trace.threads[*of as usize].process == process).collect();
    let (tables, types, lost) = tables(trace, &threads);
    let mut chunks = Chunks { types, bytes: Vec::new(), number: 0, texts_cut: 0 };
    for thread in threads {
        let tid = trace.threads[thread as usize].tid;
        chunks.thread(tid, trace.events.iter().filter(|event| event.thread == thread));
    }
    let mut head = vec![0; HEADER];
    let whose = trace.processes.get(process as usize);
    let count = chunks.number;
    put32(&mut head, &[(8, VERSION), (12, HEADER as u32), (16, whose.map_or(0, |of| of.pid)), (20, CHUNK as u32)]);
    put32(&mut head, &[(24, count as u32), (28, tables.len() as u32), (40, CLOCK_MONOTONIC)]);
    let (first, last) = (trace.clock.origin_ns, trace.events.last().map_or(0, |event| event.at_ns));
    put64(&mut head, &[(32, trace.clock.realtime_ns), (48, first), (56, first), (72, last), (80, last)]);
    let before = trace.lost;
    put64(&mut head, &[(192, count), (256, before.events), (264, before.overwritten), (272, before.types + lost)]);
    put64(&mut head, &[(280, before.texts_cut + chunks.texts_cut), (320, tables.len() as u64)]);
    put_text(&mut head, 96..128, &trace.clock.boot);
    put_text(&mut head, 1536..HEADER - 1, whose.map_or("", |of| &of.program));
    head[..8].copy_from_slice(MAGIC);
    [head, tables, chunks.bytes].concat()
}

fn put32(bytes: &mut [u8], words: &[(usize, u32)]) {
    words.iter().for_each(|(at, word)| bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes()));
}

fn put64(bytes: &mut [u8], words: &[(usize, u64)]) {
    words.iter().for_each(|(at, word)| bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes()));
}

fn put_text(bytes: &mut [u8], at: std::ops::Range<usize>, text: &str) {
    bytes[at].iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
}

/// The tables; the number of each type in them; how many found no number.
fn tables(trace: &Trace, threads: &[u32]) -> (Vec<u8>, BTreeMap<u32, u16>, u64) {
    let (mut bytes, mut types, mut lost) = (Vec::new(), BTreeMap::new(), 0);
    for (id, of) in &trace.types {
        let number = types.len() as u32 + 1;
        if number >= u32::from(NO_TYPE) {
            lost += 1;
            continue;
        }
        types.insert(*id, number as u16);
        entry(&mut bytes, [KIND_TYPE, number, of.line], [&of.name, &of.file]);
    }
    for thread in threads.iter().map(|thread| &trace.threads[*thread as usize]).filter(|of| !of.name.is_empty()) {
        entry(&mut bytes, [KIND_THREAD, thread.tid, 0], [&thread.name, ""]);
    }
    (bytes, types, lost)
}

fn entry(bytes: &mut Vec<u8>, words: [u32; 3], texts: [&str; 2]) {
    let texts = texts.map(until_zero);
    let length = (16 + texts[0].len() + texts[1].len() + 2).next_multiple_of(8);
    let end = bytes.len() + length;
    bytes.extend((length as u32).to_le_bytes());
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    texts.iter().for_each(|text| bytes.extend([text, &b"\0"[..]].concat()));
    bytes.resize(end, 0);
}

fn until_zero(text: &str) -> &[u8] {
    text.as_bytes().split(|byte| *byte == 0).next().unwrap_or_default()
}

struct Chunks {
    types: BTreeMap<u32, u16>,
    bytes: Vec<u8>,
    number: u64,
    texts_cut: u64,
}

impl Chunks {
    fn thread<'e>(&mut self, tid: u32, events: impl Iterator<Item = &'e Event>) {
        let mut chunk: Vec<u8> = Vec::new();
        for event in events {
            let record = self.record(event);
            if !chunk.is_empty() && chunk.len() + record.len() > CHUNK {
                self.leave(&mut chunk);
            }
            if chunk.is_empty() {
                self.number += 1;
                chunk.resize(CHUNK_HEAD, 0);
                put32(&mut chunk, &[(0, LEFT), (4, tid)]);
                put64(&mut chunk, &[(8, self.number), (16, event.at_ns), (24, event.at_ns)]);
            }
            chunk.extend(record);
        }
        if !chunk.is_empty() {
            self.leave(&mut chunk);
        }
    }

    fn leave(&mut self, chunk: &mut Vec<u8>) {
        let used = chunk.len() as u32;
        put32(chunk, &[(40, used)]);
        chunk.resize(CHUNK, 0);
        self.bytes.append(chunk);
    }

    /// The record and what stands behind it.
    fn record(&mut self, event: &Event) -> Vec<u8> {
        let kind = match event.phase {
            Phase::Name => 1,
            Phase::Mark => 2,
            Phase::Wait => 3,
            Phase::Exec => 4,
            Phase::Done => 5,
            Phase::Link => 6,
            Phase::Arg => 7,
            Phase::Free => 8,
        };
        let kind = kind | if event.is_shared { SHARED } else { 0 };
        let type_id = event.type_id.map_or(0, |id| self.types.get(&id).copied().unwrap_or(NO_TYPE));
        let body = Trace::address(event.object) << 16 | u64::from(type_id);
        let mut bytes = Vec::with_capacity(2 * SLOT);
        bytes.extend((event.at_ns << 8 | u64::from(kind)).to_le_bytes());
        bytes.extend(body.to_le_bytes());
        if let (Phase::Link, Some(other)) = (event.phase, event.other) {
            bytes.extend(u64::from(MORE).to_le_bytes());
            bytes.extend((Trace::address(other) << 16).to_le_bytes());
        }
        if let (Phase::Name | Phase::Arg, Some(text)) = (event.phase, &event.text) {
            let mut text = until_zero(text);
            if text.len() >= TEXT_MOST {
                self.texts_cut += 1;
                text = &text[..TEXT_MOST - 1];
            }
            // The text ends with a zero, so that one of just fifteen bytes has a slot more.
            for part in [text, b"\0"].concat().chunks(SLOT - 1) {
                let at = bytes.len();
                bytes.resize(at + SLOT, 0);
                bytes[at] = TEXT;
                bytes[at + 1..at + 1 + part.len()].copy_from_slice(part);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::parse;
    use crate::trace::{Builder, Clock, Form};
    use proptest::prelude::*;

    #[test]
    fn a_trace_that_is_written_is_read_again() {
        let clock = Clock { is_monotonic: true, is_calibrated: true, origin_ns: 5, step_ns: 1, ..Clock::default() };
        let mut builder = Builder::new(Form::Events, clock);
        let process = builder.process(77, "/bin/a");
        let (one, two) = (builder.thread(process, 77, "main"), builder.thread(process, 78, ""));
        let of = builder.type_of("a::b", "a.c", 9);
        for at in 0..9000 {
            let phase = [Phase::Wait, Phase::Exec, Phase::Done][at % 3];
            builder.says(phase, 10 + at as u64, if at % 2 == 0 { one } else { two }, 1 << 40 | at as u64, Some(of));
        }
        builder.name(20_000, one, 4, "fifteen letters");
        builder.arg(20_001, two, 4, "x", &"long ".repeat(2000));
        builder.link(20_002, two, 4, 5, Some(of));
        let trace = builder.build();
        let again = parse(&file_of(&trace, 0), None).unwrap();
        assert_eq!((again.damage.as_slice(), again.lost), (&[][..], trace.lost));
        assert_eq!((&again.processes, &again.types, &again.threads), (&trace.processes, &trace.types, &trace.threads));
        assert_eq!(again.clock, trace.clock);
        assert!(again.events == trace.events);
    }

    proptest! {
        #[test]
        fn what_is_parsed_can_be_written_and_parsed_again(noise in proptest::collection::vec(any::<u8>(), 0..4000)) {
            let mut builder = Builder::new(Form::Events, Clock::default());
            let process = builder.process(1, "a");
            let thread = builder.thread(process, 2, "");
            builder.name(1, thread, 3, "name");
            let mut bytes = file_of(&builder.build(), 0);
            for (place, byte) in bytes.iter_mut().skip(4096 + 64).zip(&noise) {
                *place ^= byte;
            }
            let trace = parse(&bytes, None).unwrap();
            let again = parse(&file_of(&trace, 0), None).unwrap();
            prop_assert_eq!(again.events.len(), trace.events.len());
        }
    }
}

//! Perfetto's protobuf: track events. Whole, or cut short.
//!
//! A track is an object on which its slices are work and its instants marks. A flow is an object that waits from the
//! event that begins it to each one that continues it, with links from and to the tracks of those. What our own export
//! wrote as waits is so again. Everything else in a trace (ftrace, counters, heaps) is left out.

use super::numbers::{Flows, Slices};
use crate::trace::{Builder, Clock, Form, Phase, Trace};
use ::wire::{Fields, Value};
use std::collections::{HashMap, HashSet};

/// Ends of names that tell our own waits.
const WAITS: &str = " (waits)";

const BOOT_TIME: u64 = 6;
const MONOTONIC: u64 = 3;

/// Whether bytes begin as such a trace does: packets of known fields.
pub fn is_trace(bytes: &[u8]) -> bool {
    let mut packets = Fields::of(bytes);
    let is_packet = |(number, value): (u64, Value<'_>)| number == 1 && matches!(value, Value::Bytes(_));
    match packets.next() {
        Some(first) if is_packet(first) => {
            let mut fields = Fields::of(first.1.bytes());
            fields.by_ref().all(|(number, _)| number < 2000)
                && fields.rest() == 0
                && packets.next().is_none_or(is_packet)
        }
        _ => false,
    }
}

/// Reads a trace.
pub fn read(bytes: &[u8]) -> Trace {
    let clock = Clock { is_calibrated: true, step_ns: 1, ..Clock::default() };
    let mut perfetto = Perfetto {
        builder: Builder::new(Form::Perfetto, clock),
        tracks: HashMap::new(),
        sequences: HashMap::new(),
        boot_minus_monotonic: None,
        slices: Slices::default(),
        steps: Vec::new(),
        waits: HashMap::new(),
        links: HashMap::new(),
        is_monotonic: false,
        objects: 0,
        others: 0,
        untimed: 0,
    };
    // Tracks may be described after what happens on them.
    Fields::of(bytes).filter(|(number, _)| *number == 1).for_each(|(_, packet)| perfetto.describe(packet.bytes()));
    let mut packets = Fields::of(bytes);
    for (number, value) in packets.by_ref() {
        if number == 1 {
            perfetto.packet(value.bytes());
        }
    }
    let rest = packets.rest();
    if rest > 0 {
        perfetto.builder.damage(format!("the last {rest} bytes are no whole packet: the trace is cut"));
    }
    perfetto.build()
}

/// A line of events.
#[derive(Clone, Debug, Default)]
struct Track {
    name: String,
    parent: Option<u64>,
    process: Option<(u32, String)>,
    thread: Option<(u32, u32, String)>,
    /// Place of its thread and number of its object, once it was needed.
    place: Option<(u32, u64)>,
}

/// What a writer of packets said before: names by number, and clocks.
#[derive(Debug, Default)]
struct Sequence {
    names: HashMap<u64, String>,
    categories: HashMap<u64, String>,
    track: Option<u64>,
    clock: Option<u64>,
    /// Of a clock of its own: what it read last, its unit, whether times are from the last one on, and what is to be
    /// added for the trace's clock.
    clocks: HashMap<u64, (u64, u64, bool, i128)>,
}

struct Step {
    at_ns: u64,
    place: (u32, u64),
    flow: u64,
    type_id: u32,
    is_last: bool,
}

struct Perfetto {
    builder: Builder,
    tracks: HashMap<u64, Track>,
    sequences: HashMap<u64, Sequence>,
    boot_minus_monotonic: Option<i128>,
    slices: Slices,
    steps: Vec<Step>,
    /// Open waits of tracks of ours.
    waits: HashMap<u64, Vec<(u32, bool)>>,
    /// Objects from which links of ours go.
    links: HashMap<u64, u64>,
    is_monotonic: bool,
    objects: u64,
    others: u64,
    untimed: u64,
}

impl Perfetto {
    fn describe(&mut self, packet: &[u8]) {
        for (number, value) in Fields::of(packet) {
            match number {
                60 => self.descriptor(value.bytes()),
                6 => {
                    let read: HashMap<u64, u64> = snapshot(value.bytes()).map(|(id, time, ..)| (id, time)).collect();
                    let primary = Fields::of(value.bytes()).find(|(number, _)| *number == 2);
                    self.is_monotonic |= primary.is_some_and(|(_, clock)| clock.number() == MONOTONIC);
                    if let (Some(boot), Some(monotonic)) = (read.get(&BOOT_TIME), read.get(&MONOTONIC)) {
                        self.boot_minus_monotonic.get_or_insert(i128::from(*boot) - i128::from(*monotonic));
                    }
                }
                _ => {}
            }
        }
    }

    fn descriptor(&mut self, descriptor: &[u8]) {
        let (mut uuid, mut track) = (0, Track::default());
        for (number, value) in Fields::of(descriptor) {
            match number {
                1 => uuid = value.number(),
                2 | 10 => track.name = value.text(),
                5 => track.parent = Some(value.number()),
                3 => {
                    let (mut pid, mut name) = (0, String::new());
                    for (number, value) in Fields::of(value.bytes()) {
                        match number {
                            1 => pid = value.number() as u32,
                            6 => name = value.text(),
                            2 if name.is_empty() => name = value.text(),
                            _ => {}
                        }
                    }
                    track.process = Some((pid, name));
                }
                4 => {
                    let (mut pid, mut tid, mut name) = (0, 0, String::new());
                    for (number, value) in Fields::of(value.bytes()) {
                        match number {
                            1 => pid = value.number() as u32,
                            2 => tid = value.number() as u32,
                            5 => name = value.text(),
                            _ => {}
                        }
                    }
                    track.thread = Some((pid, tid, name));
                }
                _ => {}
            }
        }
        // A track may be described again, with less.
        let known = self.tracks.entry(uuid).or_default();
        if !track.name.is_empty() {
            known.name = track.name;
        }
        known.parent = track.parent.or(known.parent);
        known.process = track.process.or(known.process.take());
        known.thread = track.thread.or(known.thread.take());
    }

    /// The thread of a track, its own or that of the nearest track around it, and its object.
    fn place(&mut self, uuid: u64, at_ns: u64) -> (u32, u64) {
        if let Some(place) = self.tracks.get(&uuid).and_then(|track| track.place) {
            return place;
        }
        let (mut thread, mut process, mut around, mut seen) = (None, None, Some(uuid), HashSet::new());
        while let Some(track) = around.filter(|uuid| seen.insert(*uuid)).and_then(|uuid| self.tracks.get(&uuid)) {
            thread = thread.or_else(|| track.thread.clone());
            process = process.or_else(|| track.process.clone());
            around = track.parent;
        }
        let pid = thread.as_ref().map(|of| of.0).or(process.as_ref().map(|of| of.0)).unwrap_or(0);
        let program = process.map_or(String::new(), |(_, name)| name);
        let owner = self.builder.process(pid, &program);
        let (tid, name) = thread.map_or((0, String::new()), |(_, tid, name)| (tid, name));
        let place = self.builder.thread(owner, tid, &name);
        self.objects += 1;
        let object = self.objects;
        let track = self.tracks.entry(uuid).or_default();
        track.place = Some((place, object));
        let own = track.name.clone();
        let called = if own.is_empty() { name } else { own };
        if !called.is_empty() {
            self.builder.name(at_ns, place, object, &called);
        }
        (place, object)
    }

    fn packet(&mut self, packet: &[u8]) {
        let (mut time, mut clock, mut sequence_id, mut event, mut is_cleared) = (None, None, 0, None, false);
        let (mut interned, mut defaults, mut snapshots, mut is_other) = (Vec::new(), None, Vec::new(), false);
        for (number, value) in Fields::of(packet) {
            match number {
                8 => time = Some(value.number()),
                58 => clock = Some(value.number()),
                10 => sequence_id = value.number(),
                11 => event = Some(value.bytes()),
                12 => interned.push(value.bytes()),
                13 => is_cleared |= value.number() & 1 != 0,
                41 => is_cleared |= value.number() != 0,
                59 => defaults = Some(value.bytes()),
                6 => snapshots.push(value.bytes()),
                60 | 42 | 87 | 3 | 79 | 36 | 33 | 34 | 35 => {}
                _ => is_other = true,
            }
        }
        self.others += u64::from(is_other && event.is_none());
        let sequence = self.sequences.entry(sequence_id).or_default();
        if is_cleared {
            *sequence = Sequence::default();
        }
        for interned in interned {
            for (number, value) in Fields::of(interned) {
                let (mut id, mut name) = (0, String::new());
                for (number, value) in Fields::of(value.bytes()) {
                    match number {
                        1 => id = value.number(),
                        2 => name = value.text(),
                        _ => {}
                    }
                }
                match number {
                    1 => sequence.categories.insert(id, name),
                    2 => sequence.names.insert(id, name),
                    _ => None,
                };
            }
        }
        if let Some(defaults) = defaults {
            for (number, value) in Fields::of(defaults) {
                match number {
                    58 => sequence.clock = Some(value.number()),
                    11 => {
                        let track = Fields::of(value.bytes()).find(|(number, _)| *number == 11);
                        sequence.track = track.map(|(_, value)| value.number()).or(sequence.track);
                    }
                    _ => {}
                }
            }
        }
        for snapshot in snapshots {
            self.clocks(sequence_id, snapshot);
        }
        let Some(event) = event else { return };
        let Some(at_ns) = self.time(sequence_id, time, clock) else {
            self.untimed += 1;
            return;
        };
        self.event(at_ns, sequence_id, event);
    }

    /// Clocks of a sequence's own, held against one that is known.
    fn clocks(&mut self, sequence_id: u64, bytes: &[u8]) {
        let read: Vec<_> = snapshot(bytes).collect();
        let known =
            read.iter().find(|(id, ..)| *id == BOOT_TIME).or_else(|| read.iter().find(|(id, ..)| *id == MONOTONIC));
        let Some(&(known, now, ..)) = known else { return };
        let now = i128::from(now) - if known == BOOT_TIME { self.boot_minus_monotonic.unwrap_or(0) } else { 0 };
        let Some(sequence) = self.sequences.get_mut(&sequence_id) else { return };
        for &(id, time, unit, is_incremental) in read.iter().filter(|(id, ..)| *id >= 64) {
            let own = i128::from(time) * i128::from(unit);
            sequence.clocks.insert(id, (time, unit, is_incremental, now - own));
        }
    }

    /// A packet's time on CLOCK_MONOTONIC, or on the clock that the trace has.
    fn time(&mut self, sequence_id: u64, time: Option<u64>, clock: Option<u64>) -> Option<u64> {
        let sequence = self.sequences.get_mut(&sequence_id)?;
        let time = time?;
        let clock = clock.or(sequence.clock).unwrap_or(BOOT_TIME);
        let ns = match sequence.clocks.get_mut(&clock) {
            Some((last, unit, is_incremental, add)) => {
                let own = if *is_incremental { last.saturating_add(time) } else { time };
                *last = own;
                i128::from(own) * i128::from(*unit) + *add
            }
            None if clock == BOOT_TIME => i128::from(time) - self.boot_minus_monotonic.unwrap_or(0),
            None if clock < 64 => i128::from(time),
            None => return None,
        };
        Some(u64::try_from(ns).unwrap_or(0))
    }

    fn event(&mut self, at_ns: u64, sequence_id: u64, event: &[u8]) {
        let Some(sequence) = self.sequences.get(&sequence_id) else { return };
        let (mut kind, mut track, mut name, mut category) = (0, sequence.track.unwrap_or(0), None, None);
        let (mut flows, mut last, mut own) = (Vec::new(), Vec::new(), None);
        let mut annotation = None;
        for (number, value) in Fields::of(event) {
            match number {
                9 => kind = value.number(),
                11 => track = value.number(),
                23 => name = Some(value.text()),
                10 => name = sequence.names.get(&value.number()).cloned(),
                22 if category.is_none() => category = Some(value.text()),
                3 if category.is_none() => category = sequence.categories.get(&value.number()).cloned(),
                36 | 47 => flows.push(value.number()),
                42 | 48 => last.push(value.number()),
                16 => own = Some(value.number()),
                4 => annotation = annotation.or_else(|| state(value.bytes())),
                _ => {}
            }
        }
        let at_ns = own.map_or(at_ns, |us| us.saturating_mul(1000));
        let (thread, object) = self.place(track, at_ns);
        let is_ours = category.as_deref() == Some("thaw");
        let name = name.unwrap_or_default();
        let full = match category.as_deref() {
            Some(category) if !is_ours && !category.is_empty() => format!("{category}::{name}"),
            _ => name.strip_suffix(WAITS).filter(|_| is_ours).unwrap_or(&name).to_owned(),
        };
        let type_id = self.builder.type_of(&full, "", 0);
        match kind {
            1 if is_ours => {
                // Our waits end when their work begins, on the same track.
                let is_wait = name.ends_with(WAITS);
                let phase = if is_wait { Phase::Wait } else { Phase::Exec };
                self.waits.entry(track).or_default().push((type_id, is_wait));
                self.builder.says(phase, at_ns, thread, object, Some(type_id));
            }
            2 if self.waits.get(&track).is_some_and(|open| !open.is_empty()) => {
                let began = self.waits.get_mut(&track).and_then(Vec::pop);
                if let Some((type_id, is_wait)) = began
                    && (!is_wait || annotation.as_deref() == Some("only"))
                {
                    self.builder.says(Phase::Done, at_ns, thread, object, Some(type_id));
                }
            }
            1 => self.slices.begin(thread, object, at_ns, type_id),
            2 => {
                self.slices.end(thread, object, at_ns, None);
            }
            3 if is_ours && !(flows.is_empty() && last.is_empty()) => {
                for flow in flows {
                    self.links.insert(flow, object);
                }
                for flow in last {
                    if let Some(from) = self.links.remove(&flow) {
                        self.builder.link(at_ns, thread, from, object, Some(type_id));
                    }
                }
                return;
            }
            3 => self.builder.says(Phase::Mark, at_ns, thread, object, Some(type_id)),
            _ => {}
        }
        let step = |flow, is_last| Step { at_ns, place: (thread, object), flow, type_id, is_last };
        self.steps.extend(flows.into_iter().map(|flow| step(flow, false)));
        self.steps.extend(last.into_iter().map(|flow| step(flow, true)));
    }

    fn build(mut self) -> Trace {
        let mut flows = Flows::default();
        self.steps.sort_by_key(|step| step.at_ns);
        let mut later = HashSet::new();
        let is_continued: Vec<bool> =
            self.steps.iter().rev().map(|step| !later.insert(step.flow) && !step.is_last).collect();
        for (step, is_continued) in self.steps.iter().zip(is_continued.iter().rev()) {
            let key = step.flow.to_string();
            if flows.is_posted(&key) {
                flows.run(&mut self.builder, step.at_ns, step.place, &key, step.type_id);
            }
            if *is_continued {
                flows.posted(&mut self.builder, step.at_ns, step.place, &key, step.type_id);
            } else {
                flows.over(&key);
            }
        }
        self.slices.write(&mut self.builder);
        if self.untimed > 0 {
            self.builder.damage(format!("{} events have a clock that the trace does not explain", self.untimed));
        }
        if self.others > 0 {
            self.builder.damage(format!("{} packets are no track events, and are left out", self.others));
        }
        let mut trace = self.builder.build();
        trace.clock.is_monotonic = self.is_monotonic || self.boot_minus_monotonic.is_some();
        trace
    }
}

/// Clock, its time, its unit in nanoseconds, and whether times count from the last one on.
fn snapshot(bytes: &[u8]) -> impl Iterator<Item = (u64, u64, u64, bool)> {
    Fields::of(bytes).filter(|(number, _)| *number == 1).map(|(_, clock)| {
        let mut read = (0, 0, 1, false);
        for (number, value) in Fields::of(clock.bytes()) {
            match number {
                1 => read.0 = value.number(),
                2 => read.1 = value.number(),
                3 => read.3 = value.number() != 0,
                4 => read.2 = value.number().max(1),
                _ => {}
            }
        }
        read
    })
}

/// The text of an annotation of ours, `state`.
fn state(annotation: &[u8]) -> Option<String> {
    let find = |wanted| Fields::of(annotation).find(|(number, _)| *number == wanted).map(|(_, value)| value.text());
    (find(10).as_deref() == Some("state")).then(|| find(6)).flatten()
}

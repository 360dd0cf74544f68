//! From a log of hits to a trace.

use super::{Chosen, Role};
use crate::trace::{Builder, Clock, Event, Form, Phase, Trace};
use os::perf::{Body, Log, Record};
use os::tracefs::Format;
use std::collections::HashMap;

/// What was logged, as a trace. `places` with their formats; `program` is what was started.
pub fn decode(log: &Log, places: &[(Chosen, &Format)], program: &str, boot: String) -> Trace {
    let clock = Clock { is_monotonic: true, boot, is_calibrated: true, step_ns: 1, ..Clock::default() };
    let by_id: HashMap<u64, &(Chosen, &Format)> = places.iter().map(|place| (place.1.id, place)).collect();
    let mut decoder = Decoder { builder: Builder::new(Form::Events, clock), ..Decoder::default() };
    for record in log.records() {
        match record.body {
            Body::Sample { point, raw } => {
                if let Some((chosen, format)) = by_id.get(&u64::from(point)) {
                    decoder.hit(&record, raw, chosen, format, program);
                }
            }
            Body::Comm { pid, tid, comm, exec } => {
                decoder.names.insert((pid, tid), String::from_utf8_lossy(comm).into_owned());
                if exec {
                    // What the program before had open ends with it.
                    decoder.open.retain(|(of, _), _| *of != tid);
                }
            }
            _ => {}
        }
    }
    let mut trace = decoder.finish();
    trace.lost.events = log.lost;
    trace
}

#[derive(Default)]
struct Decoder {
    builder: Builder,
    names: HashMap<(u32, u32), String>,
    threads: HashMap<(u32, u32), u32>,
    objects: HashMap<(String, String), u64>,
    /// What is not ended, by thread and type; the latest last.
    open: HashMap<(u32, u32), Vec<u64>>,
}

impl Decoder {
    fn hit(&mut self, record: &Record<'_>, raw: &[u8], chosen: &Chosen, format: &Format, program: &str) {
        let (pid, tid, at_ns) = (record.stamp.pid, record.stamp.tid, record.stamp.time_ns);
        let process = self.builder.process(pid, program);
        let thread = self.builder.thread(process, tid, "");
        self.threads.insert((pid, tid), thread);
        let of = self.builder.type_of(&chosen.type_name, &chosen.place.path.to_string_lossy(), 0);
        let says = |phase, object| Event {
            at_ns,
            thread,
            phase,
            is_shared: true,
            object,
            type_id: Some(of),
            other: None,
            text: None,
        };
        let open = self.open.entry((tid, of)).or_default();
        if chosen.role == Role::End {
            // One that began before we listened has no beginning here.
            if let Some(object) = open.pop() {
                self.builder.event(says(Phase::Done, object));
            }
            return;
        }
        let called = called(raw, chosen, format);
        let next = self.objects.len() as u64 + 1;
        let object = *self.objects.entry((chosen.type_name.clone(), called.clone())).or_insert(next);
        if object == next {
            self.builder.name(at_ns, thread, object, &called);
        }
        let phase = match chosen.role {
            Role::Wait => Phase::Wait,
            Role::Mark => Phase::Mark,
            Role::Begin | Role::End => Phase::Exec,
        };
        if chosen.role != Role::Mark {
            open.push(object);
        }
        self.builder.event(says(phase, object));
    }

    fn finish(mut self) -> Trace {
        let names = &self.names;
        let mut trace = self.builder.build();
        for ((pid, tid), thread) in self.threads.drain() {
            let name = names.get(&(pid, tid)).or_else(|| names.get(&(pid, pid)));
            trace.threads[thread as usize].name = name.cloned().unwrap_or_default();
        }
        trace
    }
}

/// What an object is called: its text, or all numbers that the probe tells.
fn called(raw: &[u8], chosen: &Chosen, format: &Format) -> String {
    let field = |number: usize| format.fields.get(&format!("arg{number}"));
    if let Some(number) = chosen.text {
        let text = field(number).and_then(|field| field.text(raw)).filter(|text| !text.is_empty());
        return text.map_or_else(|| "text not readable".to_owned(), |text| String::from_utf8_lossy(text).into_owned());
    }
    let number = |number: usize| match field(number).and_then(|field| Some((field.signed, field.get(raw)?))) {
        Some((true, value)) => value.cast_signed().to_string(),
        Some((false, value)) => value.to_string(),
        None => "?".to_owned(),
    };
    (0..chosen.arguments).map(number).collect::<Vec<_>>().join(" ")
}

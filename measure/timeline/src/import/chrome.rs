//! Chrome's trace event JSON, as an array or in `traceEvents`, whole or cut short: of Chromium, of DevTools, of our own
//! export, and of other programs.
//!
//! Each thread is an object on which its slices (B, E, X) are work; an id is an object on which asynchronous ones (b,
//! e, S, F) are. A flow (s, t, f) is an object that waits from where it is posted until it is run, with links from
//! the thread that posted it and to the one that runs it. A request of DevTools' (`ResourceSendRequest`) is an object
//! that waits for its response, with a link from the request of the document or script that initiated it.

use super::json::{self, Piece};
use super::numbers::{Flows, Numbers, Slices};
use crate::trace::{Builder, Clock, Form, Phase, Trace};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

const MICROSECOND: f64 = 1000.0;
/// The category of what thaw exports.
const OWN: &str = "thaw";

#[derive(Deserialize)]
struct Logged {
    ph: String,
    #[serde(default)]
    cat: Value,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    id2: Value,
    #[serde(default)]
    bind_id: Value,
    #[serde(default)]
    flow_in: bool,
    #[serde(default)]
    flow_out: bool,
    #[serde(default)]
    args: Value,
}

/// Reads a trace.
pub fn read(file: Piece<'_>) -> Trace {
    let events = if file.bytes.starts_with(b"[") { Some(file) } else { file.member("traceEvents") };
    let member = |name: &str| file.member(name);
    let domain = member("metadata").and_then(|it| it.member("clock-domain")).and_then(Piece::text);
    let own = member("otherData").and_then(|it| it.member("clock")).and_then(Piece::text);
    let is_monotonic =
        domain.is_some_and(|of| of == "LINUX_CLOCK_MONOTONIC") || own.is_some_and(|of| of == "monotonic");
    let boot = member("otherData").and_then(|it| it.member("boot")).and_then(Piece::text).unwrap_or_default();
    let step = member("otherData").and_then(|it| it.member("step_ns")).and_then(Piece::number);
    let step_ns = step.map_or(1000, |ns| ns as u64);
    let clock = Clock { is_monotonic, boot, is_calibrated: true, step_ns, ..Clock::default() };
    let mut builder = Builder::new(Form::Chrome, clock);
    let command_line = member("metadata").and_then(|it| it.member("command_line")).and_then(Piece::text);
    builder.written_by(command_line.unwrap_or_default());
    let mut chrome = Chrome {
        builder,
        processes: HashMap::new(),
        threads: HashMap::new(),
        numbers: Numbers::default(),
        slices: Slices::default(),
        flows: Flows::default(),
        open: HashMap::new(),
        first: HashMap::new(),
        names: HashMap::new(),
        requests: HashMap::new(),
    };
    match events {
        None => chrome.builder.damage("the trace ends before its first event".to_owned()),
        Some(events) => {
            let mut is_cut = false;
            for (number, piece) in events.items().enumerate() {
                is_cut = !piece.is_whole;
                match piece.read::<Logged>() {
                    Some(event) => chrome.event(number, &event),
                    None if is_cut => chrome.builder.damage(format!("the trace ends within event {number}")),
                    None => chrome.builder.damage(format!("event {number} is no event of a trace")),
                }
            }
            // An array without its end is allowed, so that programs can die.
            if !file.is_closed() && !is_cut {
                chrome.builder.damage("the trace was not closed: its program was killed, or it is cut".to_owned());
            }
        }
    }
    chrome.build()
}

struct Chrome {
    builder: Builder,
    /// By number.
    processes: HashMap<u32, u32>,
    /// Place and object.
    threads: HashMap<(u32, u32), (u32, u64)>,
    numbers: Numbers,
    slices: Slices,
    flows: Flows,
    /// Types of what began on an object and did not end.
    open: HashMap<u64, Vec<u32>>,
    /// When each object is first told of, on which thread.
    first: HashMap<u64, (u64, u32)>,
    names: HashMap<u64, String>,
    /// The request that last had a URL.
    requests: HashMap<String, u64>,
}

impl Chrome {
    fn event(&mut self, number: usize, event: &Logged) {
        let id = |value: &Value| json::whole(value).unwrap_or(0) as u32;
        let (pid, tid) = (id(&event.pid), id(&event.tid));
        let name = json::text(&event.name).unwrap_or_default();
        if event.ph == "M" {
            return self.metadata(pid, tid, &name, &event.args);
        }
        let Some(ts) = json::number(&event.ts) else {
            return self.builder.damage(format!("event {number} has no time"));
        };
        let at = json::nanoseconds(ts, MICROSECOND);
        let (thread, own) = self.thread(pid, tid);
        let category = json::text(&event.cat).unwrap_or_default();
        if category == OWN && event.args.get("state").is_some() {
            return self.of_thaw(at, thread, event);
        }
        let category = category.split(',').next().unwrap_or_default();
        let full = if category.is_empty() { name.clone() } else { format!("{category}::{name}") };
        let type_id = self.builder.type_of(&full, "", 0);
        match event.ph.as_str() {
            "X" => {
                let lasted = json::number(&event.dur).unwrap_or(0.0);
                let end = at.saturating_add(json::nanoseconds(lasted, MICROSECOND));
                self.told(own, at, thread);
                self.slices.whole(thread, own, at, end, type_id);
                self.bound(at, (thread, own), event, type_id);
            }
            "B" => {
                self.told(own, at, thread);
                self.slices.begin(thread, own, at, type_id);
                self.bound(at, (thread, own), event, type_id);
            }
            "E" => {
                let of = (!name.is_empty()).then_some(type_id);
                if !self.slices.end(thread, own, at, of) && !self.slices.end(thread, own, at, None) {
                    self.builder.damage(format!("event {number} ends what did not begin"));
                }
            }
            "b" | "S" | "e" | "F" | "n" | "T" | "p" => self.asynchronous(at, thread, category, event, pid, type_id),
            "s" | "t" | "f" => self.flow(at, (thread, own), event, &full, type_id),
            "i" | "I" | "R" => self.instant(at, (thread, own), &name, type_id, event, pid),
            // Counters, samples, objects, dumps: nothing waits or works in them.
            "C" | "P" | "N" | "O" | "D" | "V" | "v" | "c" | "(" | ")" | "=" => {}
            other => self.builder.damage(format!("event {number} is of phase {other:?}")),
        }
    }

    fn thread(&mut self, pid: u32, tid: u32) -> (u32, u64) {
        if let Some(known) = self.threads.get(&(pid, tid)) {
            return *known;
        }
        let process = self.process(pid);
        let object = self.numbers.of(&format!("thread {pid} {tid}")).0;
        let place = (self.builder.thread(process, tid, ""), object);
        self.threads.insert((pid, tid), place);
        place
    }

    fn process(&mut self, pid: u32) -> u32 {
        let builder = &mut self.builder;
        *self.processes.entry(pid).or_insert_with(|| builder.process(pid, ""))
    }

    fn metadata(&mut self, pid: u32, tid: u32, what: &str, args: &Value) {
        let Some(name) = args.get("name").and_then(json::text) else { return };
        match what {
            "process_name" => {
                self.process(pid);
                self.builder.process(pid, &name);
            }
            "thread_name" => {
                let process = self.process(pid);
                let object = self.thread(pid, tid).1;
                self.builder.thread(process, tid, &name);
                self.names.insert(object, format!("{name} ({tid})"));
            }
            _ => {}
        }
    }

    /// An object is told of.
    fn told(&mut self, object: u64, at: u64, thread: u32) {
        let first = self.first.entry(object).or_insert((at, thread));
        if at < first.0 {
            *first = (at, thread);
        }
    }

    fn asynchronous(&mut self, at: u64, thread: u32, category: &str, event: &Logged, pid: u32, type_id: u32) {
        let local = |id: &Value| json::text(id).map(|id| format!("id {category} {pid} {id}"));
        let global = |id: &Value| json::text(id).map(|id| format!("id {category} {id}"));
        let of_2 = event.id2.get("local").and_then(local).or_else(|| event.id2.get("global").and_then(global));
        let Some(key) = of_2.or_else(|| global(&event.id)) else {
            return self.builder.damage(format!("an event of phase {:?} has no id", event.ph));
        };
        let object = self.numbers.of(&key).0;
        self.told(object, at, thread);
        if let Some(url) = [event.args.get("url"), event.args.get("data").and_then(|data| data.get("url"))]
            .into_iter()
            .flatten()
            .find_map(Value::as_str)
        {
            self.names.insert(object, url.to_owned());
        }
        match event.ph.as_str() {
            "b" | "S" => {
                self.open.entry(object).or_default().push(type_id);
                self.builder.says(Phase::Exec, at, thread, object, Some(type_id));
            }
            "e" | "F" => {
                let open = self.open.entry(object).or_default();
                let place = open.iter().rposition(|of| *of == type_id).or_else(|| open.len().checked_sub(1));
                let Some(place) = place else { return };
                let type_id = open.remove(place);
                self.builder.says(Phase::Done, at, thread, object, Some(type_id));
            }
            _ => self.builder.says(Phase::Mark, at, thread, object, Some(type_id)),
        }
    }

    fn flow(&mut self, at: u64, place: (u32, u64), event: &Logged, full: &str, type_id: u32) {
        let Some(id) = json::text(&event.id).or_else(|| event.id2.get("global").and_then(json::text)) else {
            return self.builder.damage(format!("an event of phase {:?} has no id", event.ph));
        };
        let key = format!("{full} {id}");
        self.told(place.1, at, place.0);
        match event.ph.as_str() {
            "s" => {
                // Ids are used again.
                self.flows.over(&key);
                self.flows.posted(&mut self.builder, at, place, &key, type_id);
            }
            "t" => {
                self.flows.run(&mut self.builder, at, place, &key, type_id);
                self.flows.posted(&mut self.builder, at, place, &key, type_id);
            }
            _ => self.flows.run(&mut self.builder, at, place, &key, type_id),
        }
    }

    /// The second form of flows: a slice says by itself which ones it takes and gives.
    fn bound(&mut self, at: u64, place: (u32, u64), event: &Logged, type_id: u32) {
        let Some(id) = json::text(&event.bind_id) else { return };
        let key = format!("bound {id}");
        if event.flow_in {
            self.flows.run(&mut self.builder, at, place, &key, type_id);
        }
        if event.flow_out {
            self.flows.posted(&mut self.builder, at, place, &key, type_id);
        }
    }

    fn instant(&mut self, at: u64, place: (u32, u64), name: &str, type_id: u32, event: &Logged, pid: u32) {
        let (thread, own) = place;
        self.told(own, at, thread);
        self.builder.says(Phase::Mark, at, thread, own, Some(type_id));
        let Some(data) = event.args.get("data") else { return };
        let Some(id) = data.get("requestId").and_then(json::text) else { return };
        // Documents have ids of the whole browser, and are asked for by it.
        let key = if id.contains('.') { format!("request {pid} {id}") } else { format!("request {id}") };
        let request = Some(self.builder.type_of("devtools::request", "", 0));
        match name {
            // What loads a document says so in the browser before its page does.
            "ResourceWillSendRequest" | "ResourceSendRequest" => {
                let (object, is_new) = self.numbers.of(&key);
                self.told(object, at, thread);
                if is_new {
                    let initiator = data.get("initiator").and_then(|of| of.get("url")).and_then(Value::as_str);
                    if let Some(by) = initiator.and_then(|url| self.requests.get(url)) {
                        self.builder.link(at, thread, *by, object, request);
                    }
                    self.builder.link(at, thread, own, object, request);
                    // One that is redirected is sent again, and waits still.
                    self.builder.says(Phase::Wait, at, thread, object, request);
                }
                if let Some(url) = data.get("url").and_then(Value::as_str) {
                    self.names.insert(object, url.to_owned());
                    self.requests.insert(url.to_owned(), object);
                }
            }
            "ResourceReceiveResponse" | "ResourceReceivedData" | "ResourceFinish" => {
                let Some(object) = self.numbers.get(&key) else { return };
                match name {
                    "ResourceReceiveResponse" => self.builder.says(Phase::Exec, at, thread, object, request),
                    "ResourceFinish" => self.builder.says(Phase::Done, at, thread, object, request),
                    _ => {}
                }
                self.builder.link(at, thread, object, own, request);
            }
            _ => {}
        }
    }

    /// What thaw exported: the events themselves.
    fn of_thaw(&mut self, at: u64, thread: u32, event: &Logged) {
        let says = |what: &str| event.args.get(what).and_then(Value::as_str);
        // Behind the object's number is that of the line which it takes where it does several things at once.
        let own = json::text(&event.id).map(|id| id.split('.').next().unwrap_or_default().to_owned());
        let Some(from) = says("from").map(str::to_owned).or(own) else { return };
        let file = says("file").unwrap_or_default();
        let line = event.args.get("line").and_then(json::whole).unwrap_or(0) as u32;
        let type_id = says("type").map(|name| self.builder.type_of(name, file, line));
        let phase = match (event.ph.as_str(), says("state").unwrap_or_default()) {
            ("b", "wait") => Phase::Wait,
            ("b", _) => Phase::Exec,
            ("n", _) => Phase::Mark,
            // A wait that goes over into work.
            ("e", "wait") => return,
            ("e", _) => Phase::Done,
            ("s", _) => {
                let Some(to) = says("to") else { return };
                let (from, to) = (self.numbers.of(&format!("thaw {from}")).0, self.numbers.of(&format!("thaw {to}")).0);
                return self.builder.link(at, thread, from, to, type_id);
            }
            _ => return,
        };
        let object = self.numbers.of(&format!("thaw {from}")).0;
        if let Some(called) = says("object") {
            self.told(object, at, thread);
            self.names.insert(object, called.to_owned());
        }
        self.builder.says(phase, at, thread, object, type_id);
    }

    fn build(mut self) -> Trace {
        self.slices.write(&mut self.builder);
        for (object, name) in &self.names {
            if let Some((at, thread)) = self.first.get(object) {
                self.builder.name(*at, *thread, *object, name);
            }
        }
        self.builder.build()
    }
}

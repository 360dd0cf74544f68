//! Firefox's profiler: gecko format (what the browser writes, a profile of each process inside its parent's) and
//! processed format (what the profiler's page saves), whole or cut short.
//!
//! Each thread is an object; an instant marker is a mark on it, one with a beginning and an end is work. A network
//! request is an object with the waits that its marker tells. A flow is an object that waits from the marker that
//! begins it to each marker that continues it, with links from and to the objects of those.

use super::json::{self, Piece, nanoseconds};
use super::numbers::{Flows, Numbers, Slices};
use crate::trace::{Builder, Clock, Form, Phase, Trace};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const MILLISECOND: f64 = 1e6;
/// Profiles inside profiles.
const DEEPEST: usize = 8;

/// Reads a profile.
pub fn read(file: Piece<'_>) -> Trace {
    let meta = file.member("meta");
    let of_meta = |name: &str| meta.and_then(|meta| meta.member(name)).and_then(Piece::number);
    let boot_ns = of_meta("startTimeAsClockMonotonicNanosecondsSinceBoot");
    let start_ms = of_meta("startTime").unwrap_or(0.0);
    let clock = Clock { is_monotonic: boot_ns.is_some(), is_calibrated: true, step_ns: 1, ..Clock::default() };
    let zero_ns = boot_ns.unwrap_or(0.0) as u64;
    let mut profile = Profile {
        builder: Builder::new(Form::Firefox, clock),
        numbers: Numbers::default(),
        tids: Numbers::default(),
        slices: Slices::default(),
        flows: Vec::new(),
        requests: HashMap::new(),
        unopened: 0,
        threads: 0,
    };
    profile.process(file, zero_ns, start_ms, 0);
    let mut trace = profile.build(!file.is_closed());
    let since = trace.clock.origin_ns.saturating_sub(zero_ns);
    trace.clock.realtime_ns = if start_ms > 0.0 { nanoseconds(start_ms, MILLISECOND).saturating_add(since) } else { 0 };
    trace
}

/// Something of a flow, to be told in the order of time.
struct Step {
    at_ns: u64,
    place: (u32, u64),
    id: String,
    type_id: u32,
    is_last: bool,
}

/// Fields of a type of marker that name flows, and whether they end them.
type FlowFields = HashMap<String, Vec<(String, bool)>>;

struct Profile {
    builder: Builder,
    numbers: Numbers,
    tids: Numbers,
    slices: Slices,
    flows: Vec<Step>,
    /// When each request's first marker began.
    requests: HashMap<u64, u64>,
    /// Ends of what did not begin.
    unopened: u64,
    threads: u64,
}

/// A marker of either format.
struct Marker<'a> {
    name: &'a str,
    start_ms: Option<f64>,
    end_ms: Option<f64>,
    phase: u64,
    category: &'a str,
    data: &'a Value,
}

/// What a process says of its markers.
struct Context<'a> {
    zero_ns: u64,
    categories: &'a [String],
    flows: &'a FlowFields,
    /// The texts of a processed profile of all threads.
    shared: Option<&'a [Value]>,
}

impl Profile {
    fn process(&mut self, profile: Piece<'_>, zero_ns: u64, start_ms: f64, depth: usize) {
        let meta = profile.member("meta");
        let own_ms = meta.and_then(|meta| meta.member("startTime")).and_then(Piece::number).unwrap_or(start_ms);
        let own_boot = meta.and_then(|meta| meta.member("startTimeAsClockMonotonicNanosecondsSinceBoot"));
        let own_boot = own_boot.and_then(Piece::number).map(|ns| ns as u64);
        let of_start = nanoseconds(own_ms - start_ms, MILLISECOND);
        let zero_ns = own_boot.unwrap_or_else(|| zero_ns.saturating_add(of_start));
        let list = |name: &str| -> Vec<Value> {
            meta.and_then(|meta| meta.member(name))
                .map_or(Vec::new(), |it| it.items().filter_map(Piece::read).collect())
        };
        let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let categories: Vec<String> = list("categories").iter().map(name).collect();
        let flows: FlowFields = list("markerSchema").iter().map(|schema| (name(schema), flow_fields(schema))).collect();
        let shared: Option<Vec<Value>> = profile
            .member("shared")
            .and_then(|shared| shared.member("stringArray"))
            .map(|texts| texts.items().map(|text| text.read().unwrap_or_default()).collect());
        let context = Context { zero_ns, categories: &categories, flows: &flows, shared: shared.as_deref() };
        for thread in profile.member("threads").into_iter().flat_map(Piece::items) {
            self.thread(thread, &context);
        }
        if depth < DEEPEST {
            for inner in profile.member("processes").into_iter().flat_map(Piece::items) {
                self.process(inner, context.zero_ns, own_ms, depth + 1);
            }
        } else if profile.member("processes").is_some_and(|all| all.items().next().is_some()) {
            self.builder.damage(format!("profiles inside each other more than {DEEPEST} deep are left out"));
        }
    }

    fn thread(&mut self, piece: Piece<'_>, context: &Context<'_>) {
        self.threads += 1;
        let mut members: HashMap<&[u8], Piece<'_>> = HashMap::new();
        for (key, value) in piece.members() {
            members.entry(key).or_insert(value);
        }
        let text = |name: &str| members.get(name.as_bytes()).copied().and_then(Piece::text).unwrap_or_default();
        let pid = text("pid").split('.').next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        let name = text("name");
        let process = match text("processName") {
            name if !name.is_empty() => name,
            _ => text("processType"),
        };
        let process = self.builder.process(pid, &process);
        let tid = text("tid").parse().unwrap_or_else(|_| {
            // A processed profile may number threads by texts; a file that is cut may have no number.
            self.tids.of(&format!("{pid} {} {name}", text("tid"))).0 as u32
        });
        let thread = self.builder.thread(process, tid, &name);
        let texts: Option<Vec<Value>> = ["stringTable", "stringArray"]
            .iter()
            .find_map(|name| members.get(name.as_bytes()))
            .map(|texts| texts.items().map(|text| text.read().unwrap_or_default()).collect());
        let texts = texts.as_deref().or(context.shared);
        let Some(markers) = members.get(&b"markers"[..]).copied() else { return };
        let object = self.numbers.of(&format!("thread {process} {tid}")).0;
        let mut first = None;
        let mut one = |profile: &mut Self, marker: &Marker<'_>| {
            if let Some(at) = profile.marker((thread, object), pid, marker, texts, context) {
                first = Some(first.map_or(at, |known: u64| known.min(at)));
            }
        };
        if markers.member("schema").is_some() {
            gecko(markers, texts, context, |marker| one(self, marker));
        } else {
            processed(markers, texts, context, |marker| one(self, marker));
        }
        if let Some(at) = first {
            self.builder.name(at, thread, object, &format!("{name} ({tid})"));
        }
        if texts.is_none() {
            self.builder.damage(format!("the texts of thread {} are not in the file", self.threads));
        }
    }

    /// A marker; when it began.
    fn marker(
        &mut self,
        place: (u32, u64),
        pid: u32,
        marker: &Marker<'_>,
        texts: Option<&[Value]>,
        context: &Context<'_>,
    ) -> Option<u64> {
        let (thread, object) = place;
        let at = |ms: f64| context.zero_ns.saturating_add(nanoseconds(ms, MILLISECOND));
        let kind = marker.data.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "Network" && self.request(place, pid, marker.data, &at) {
            return marker.start_ms.map(at);
        }
        let name = if marker.name.is_empty() { kind } else { marker.name };
        let name = if name.is_empty() { "(name not told)" } else { name };
        let full = if marker.category.is_empty() { name.to_owned() } else { format!("{}::{name}", marker.category) };
        let type_id = self.builder.type_of(&full, "", 0);
        let moment = match marker.phase {
            0 => {
                let begin = at(marker.start_ms?);
                self.builder.says(Phase::Mark, begin, thread, object, Some(type_id));
                begin
            }
            1 => {
                let (begin, end) = (at(marker.start_ms?), at(marker.end_ms?));
                self.slices.whole(thread, object, begin, end, type_id);
                begin
            }
            2 => {
                let begin = at(marker.start_ms?);
                self.slices.begin(thread, object, begin, type_id);
                begin
            }
            _ => {
                let end = at(marker.end_ms.or(marker.start_ms)?);
                self.unopened += u64::from(!self.slices.end(thread, object, end, Some(type_id)));
                return Some(end);
            }
        };
        if matches!(kind, "Text" | "UserTiming" | "DOMEvent" | "Log")
            && let Some(said) =
                ["name", "eventType"].iter().find_map(|key| marker.data.get(key)).and_then(Value::as_str)
        {
            self.builder.arg(moment, thread, object, "text", said);
        }
        for (key, is_last) in context.flows.get(kind).map_or(&[][..], Vec::as_slice) {
            let id = match marker.data.get(key) {
                Some(Value::Number(index)) => {
                    index.as_u64().and_then(|index| texts?.get(usize::try_from(index).ok()?)?.as_str())
                }
                Some(Value::String(id)) => Some(id.as_str()),
                _ => None,
            };
            if let Some(id) = id {
                self.flows.push(Step { at_ns: moment, place, id: id.to_owned(), type_id, is_last: *is_last });
            }
        }
        Some(moment)
    }

    /// A request of the network. `false`: the marker tells none.
    fn request(&mut self, place: (u32, u64), pid: u32, data: &Value, at: &impl Fn(f64) -> u64) -> bool {
        let (thread, by) = place;
        let time = |key: &str| data.get(key).and_then(json::number);
        let Some(id) = data.get("id").and_then(json::text) else { return false };
        let Some(start) = time("startTime") else { return false };
        let (object, _) = self.numbers.of(&format!("request {pid} {id}"));
        let whole = Some(self.builder.type_of("network::request", "", 0));
        let text = |key: &str| data.get(key).and_then(json::text).filter(|text| !text.is_empty());
        let begin = at(start);
        if self.requests.insert(object, begin).is_none() {
            if let Some(url) = text("URI") {
                self.builder.name(begin, thread, object, &url);
            }
            self.builder.link(begin, thread, by, object, whole);
            self.builder.says(Phase::Exec, begin, thread, object, whole);
        }
        let status = text("status").unwrap_or_default();
        if status == "STATUS_START" {
            return true;
        }
        if status == "STATUS_REDIRECT" {
            let redirect = Some(self.builder.type_of("network::redirect", "", 0));
            self.builder.says(Phase::Mark, at(time("endTime").unwrap_or(start)), thread, object, redirect);
            return true;
        }
        for key in ["requestMethod", "cache", "contentType", "httpVersion", "responseStatus", "requestStatus", "count"]
        {
            if let Some(text) = text(key) {
                self.builder.arg(begin, thread, object, key, &text);
            }
        }
        let sent = ["domainLookupStart", "connectStart", "requestStart"].iter().find_map(|key| time(key));
        let encrypted = time("secureConnectionStart").filter(|start| *start > 0.0);
        let parts = [
            ("queue", Phase::Wait, Some(start), sent),
            ("dns", Phase::Wait, time("domainLookupStart"), time("domainLookupEnd")),
            ("connect", Phase::Wait, time("connectStart"), encrypted.or_else(|| time("connectEnd"))),
            ("tls", Phase::Wait, encrypted, time("connectEnd")),
            ("first_byte", Phase::Wait, time("requestStart"), time("responseStart")),
            ("receive", Phase::Exec, time("responseStart"), time("responseEnd")),
        ];
        for (name, phase, from, to) in parts {
            let (Some(from), Some(to)) = (from, to) else { continue };
            if to <= from {
                continue;
            }
            let type_id = Some(self.builder.type_of(&format!("network::{name}"), "", 0));
            self.builder.says(phase, at(from), thread, object, type_id);
            if phase == Phase::Wait {
                self.builder.says(Phase::Exec, at(to), thread, object, type_id);
            }
            self.builder.says(Phase::Done, at(to), thread, object, type_id);
        }
        let end = at(time("endTime").or_else(|| time("responseEnd")).unwrap_or(start));
        self.builder.says(Phase::Done, end, thread, object, whole);
        self.builder.link(end, thread, object, by, whole);
        true
    }

    fn build(mut self, is_cut: bool) -> Trace {
        let mut flows = Flows::default();
        self.flows.sort_by_key(|step| step.at_ns);
        // A flow that nobody continues waits for nothing.
        let mut later = HashSet::new();
        let is_continued: Vec<bool> =
            self.flows.iter().rev().map(|step| !later.insert(step.id.as_str()) && !step.is_last).collect();
        for (step, is_continued) in self.flows.iter().zip(is_continued.iter().rev()) {
            if flows.is_posted(&step.id) {
                flows.run(&mut self.builder, step.at_ns, step.place, &step.id, step.type_id);
            }
            if *is_continued {
                flows.posted(&mut self.builder, step.at_ns, step.place, &step.id, step.type_id);
            } else {
                flows.over(&step.id);
            }
        }
        self.slices.write(&mut self.builder);
        if self.unopened > 0 {
            self.builder.damage(format!("{} markers end what did not begin in the profile", self.unopened));
        }
        if is_cut || self.threads == 0 {
            self.builder.damage("the profile is cut".to_owned());
        }
        self.builder.build()
    }
}

fn flow_fields(schema: &Value) -> Vec<(String, bool)> {
    let fields = schema.get("fields").or_else(|| schema.get("data")).and_then(Value::as_array);
    let flow = |field: &Value| {
        let is_last = match field.get("format").and_then(Value::as_str)? {
            "flow-id" => false,
            "terminating-flow-id" => true,
            _ => return None,
        };
        Some((field.get("key").and_then(Value::as_str)?.to_owned(), is_last))
    };
    fields.map_or(Vec::new(), |fields| fields.iter().filter_map(flow).collect())
}

fn text_of<'a>(texts: Option<&'a [Value]>, index: Option<&Value>) -> &'a str {
    let index = index.and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| texts?.get(index)?.as_str()).unwrap_or_default()
}

fn category<'a>(context: &Context<'a>, index: Option<&Value>) -> &'a str {
    let index = index.and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| context.categories.get(index)).map_or("", String::as_str)
}

/// Markers as rows.
fn gecko(markers: Piece<'_>, texts: Option<&[Value]>, context: &Context<'_>, mut one: impl FnMut(&Marker<'_>)) {
    let schema: HashMap<String, usize> = markers.member("schema").and_then(Piece::read).unwrap_or_default();
    let place = |name: &str, usual| schema.get(name).copied().unwrap_or(usual);
    let [name, start, end, phase, of, data] =
        [("name", 0), ("startTime", 1), ("endTime", 2), ("phase", 3), ("category", 4), ("data", 5)]
            .map(|(name, usual)| place(name, usual));
    for row in markers.member("data").into_iter().flat_map(Piece::items) {
        let Some(row) = row.read::<Vec<Value>>() else { continue };
        one(&Marker {
            name: text_of(texts, row.get(name)),
            start_ms: row.get(start).and_then(json::number),
            end_ms: row.get(end).and_then(json::number),
            phase: row.get(phase).and_then(Value::as_u64).unwrap_or(0),
            category: category(context, row.get(of)),
            data: row.get(data).unwrap_or(&Value::Null),
        });
    }
}

/// Markers as columns.
fn processed(markers: Piece<'_>, texts: Option<&[Value]>, context: &Context<'_>, mut one: impl FnMut(&Marker<'_>)) {
    let column = |name: &str| -> Vec<Value> {
        let items = markers.member(name).into_iter().flat_map(Piece::items);
        items.map(|item| item.read().unwrap_or_default()).collect()
    };
    let [names, starts, ends, phases, categories] = ["name", "startTime", "endTime", "phase", "category"].map(column);
    let mut data = markers.member("data").into_iter().flat_map(Piece::items);
    for (row, name) in names.iter().enumerate() {
        let data = data.next().and_then(Piece::read).unwrap_or(Value::Null);
        one(&Marker {
            name: text_of(texts, Some(name)),
            start_ms: starts.get(row).and_then(json::number),
            end_ms: ends.get(row).and_then(json::number),
            phase: phases.get(row).and_then(Value::as_u64).unwrap_or(0),
            category: category(context, categories.get(row)),
            data: &data,
        });
    }
}

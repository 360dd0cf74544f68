//! Firefox's profiler: gecko format (what the browser writes, a profile of each process inside its parent's) and
//! processed format (what the profiler's page saves), whole or cut short.
//!
//! Each thread is an object; an instant marker is a mark on it, one with a beginning and an end is work, unless its
//! thread slept in it or it lies across what is on the stack: then it tells how long something took, and is a mark at
//! its end. What no marker tells is the thread's sleep, or what its samples show (`row`). Messages between threads end
//! waits (`messages`). A network
//! request is an object with the waits that its marker tells. A flow is an object that waits from the marker that
//! begins it to each marker that continues it, with links from and to the objects of those.

mod messages;
mod row;
mod samples;

use super::json::{self, Piece, nanoseconds};
use super::numbers::{Flows, Numbers, Slices};
use crate::trace::{Builder, Clock, Concluded, Form, Phase, Trace};
use messages::{Handed, Messages, Place, followed, wakes};
use row::{Row, Sampled, Settled, Span, Types};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

const MILLISECOND: f64 = 1e6;
/// The profiler began with a thread if it registered it at most so much before, in milliseconds.
const REGISTERED: f64 = 1000.0;
/// One profiler ends and the other one begins: the time between them is in neither.
const HANDOVER: &str = "Profilers handover";
/// Markers from a cause in the past to this moment: nobody's work.
const MEASURES: [&str; 8] = [
    "DocumentLoad",
    "FirstContentfulComposite",
    "FirstContentfulPaint",
    "FirstNonBlankPaint",
    "LargestContentfulPaint",
    "LongIdleTask",
    "LongTask",
    "TimeToFirstInteractive (TTFI)",
];
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
        rows: BTreeMap::new(),
        measures: HashSet::new(),
        messages: Messages::default(),
        flows: Vec::new(),
        requested: HashMap::new(),
        finished: Vec::new(),
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
    /// By object.
    rows: BTreeMap<u64, Row>,
    /// Types of markers that are nobody's work.
    measures: HashSet<u32>,
    messages: Messages,
    flows: Vec<Step>,
    /// When each request's first marker began.
    requested: HashMap<u64, u64>,
    /// Requests that have ended: when, the thread that says so, the request, the thread's object.
    finished: Vec<(u64, u32, u64, u64)>,
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
    /// Types of markers that lie on the stack.
    stacks: &'a HashSet<String>,
    interval_ms: f64,
    /// When the profiler began, in milliseconds of the process.
    profiling_ms: Option<f64>,
    /// Whether its zero is the process's own beginning.
    has_start: bool,
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
        let schemas = list("markerSchema");
        let flows: FlowFields = schemas.iter().map(|schema| (name(schema), flow_fields(schema))).collect();
        let is_stack = |schema: &&Value| schema.get("isStackBased") == Some(&Value::Bool(true));
        let stacks: HashSet<String> = schemas.iter().filter(is_stack).map(name).collect();
        let of_meta = |name: &str| meta.and_then(|meta| meta.member(name)).and_then(Piece::number);
        let shared: Option<Vec<Value>> = profile
            .member("shared")
            .and_then(|shared| shared.member("stringArray"))
            .map(|texts| texts.items().map(|text| text.read().unwrap_or_default()).collect());
        let context = Context {
            zero_ns,
            categories: &categories,
            flows: &flows,
            stacks: &stacks,
            interval_ms: of_meta("interval").unwrap_or(1.0),
            profiling_ms: of_meta("profilingStartTime"),
            has_start: depth == 0,
            shared: shared.as_deref(),
        };
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
        let object = self.row((thread, process), pid, tid);
        self.sampled(object, samples::samples(&members, texts, context.categories, context.interval_ms), context);
        let number = |name: &str| members.get(name.as_bytes()).copied().and_then(Piece::number);
        let with_it = number("registerTime").zip(context.profiling_ms);
        let is_trunk = context.has_start && tid == pid && text("processType") == "default";
        self.rows.entry(object).or_default().is_trunk = is_trunk;
        if is_trunk && with_it.is_some_and(|(registered, profiling)| profiling - registered <= REGISTERED) {
            self.rows.entry(object).or_default().started = Some(context.zero_ns);
        }
        let Some(markers) = members.get(&b"markers"[..]).copied() else { return };
        let one = |profile: &mut Self, marker: &Marker<'_>| {
            if let Some(at) = profile.marker((thread, object), pid, marker, texts, context) {
                let first = &mut profile.rows.entry(object).or_default().first;
                *first = Some(first.map_or(at, |known: u64| known.min(at)));
            }
        };
        if markers.member("schema").is_some() {
            gecko(markers, texts, context, |marker| one(self, marker));
        } else {
            processed(markers, texts, context, |marker| one(self, marker));
        }
        self.rows.entry(object).or_default().name = format!("{name} ({tid})");
        if texts.is_none() {
            self.builder.damage(format!("the texts of thread {} are not in the file", self.threads));
        }
    }

    /// The object of a thread.
    fn row(&mut self, place: (u32, u32), pid: u32, tid: u32) -> u64 {
        let (thread, process) = place;
        let object = self.numbers.of(&format!("thread {process} {tid}")).0;
        let name = format!("thread {tid}");
        let row = || Row { thread, object, process, pid, is_main: tid == pid, name, ..Row::default() };
        self.rows.entry(object).or_insert_with(row);
        object
    }

    fn sampled(&mut self, object: u64, samples: Vec<samples::Sample>, context: &Context<'_>) {
        let at = |ms: f64| context.zero_ns.saturating_add(nanoseconds(ms, MILLISECOND));
        for one in samples {
            let name = one.label.map(|label| format!("sampled::{label}"));
            let type_id = name.map(|name| self.builder.concluded(&name, Concluded::Likely));
            let sampled = Sampled { from: at(one.from_ms), to: at(one.to_ms), type_id };
            self.rows.entry(object).or_default().samples.push(sampled);
        }
    }

    /// The thread that did what a marker tells, if it was not the one that wrote it down.
    fn other(&mut self, data: &Value, place: Place, pid: u32) -> Place {
        // Those of timers name the thread that a timer will run on.
        let is_deed = matches!(data.get("type").and_then(Value::as_str), Some("FileIO" | "IPC"));
        let tid = data.get("threadId").filter(|_| is_deed).and_then(json::number);
        let Some(tid) = tid.map(|tid| tid as u32) else { return place };
        let process = self.rows.get(&place.1).map_or(0, |row| row.process);
        let thread = self.builder.thread(process, tid, "");
        (thread, self.row((thread, process), pid, tid))
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
        let place = self.other(marker.data, place, pid);
        let (thread, object) = place;
        let at = |ms: f64| context.zero_ns.saturating_add(nanoseconds(ms, MILLISECOND));
        let kind = marker.data.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "Network" && self.request(place, pid, marker.data, &at) {
            return marker.start_ms.map(at);
        }
        if kind == "Awake" {
            return self.awake(object, marker, &at);
        }
        let name = if marker.name.is_empty() { kind } else { marker.name };
        let name = if name.is_empty() { "(name not told)" } else { name };
        let full = if marker.category.is_empty() { name.to_owned() } else { format!("{}::{name}", marker.category) };
        let type_id = match name {
            HANDOVER => self.builder.concluded(&full, Concluded::Unknown),
            _ => self.builder.type_of(&full, "", 0),
        };
        if MEASURES.contains(&name) || kind == "Timer" {
            self.measures.insert(type_id);
        }
        if kind == "IPC"
            && let Some(sent) = marker.start_ms
        {
            self.messages.marker(marker.data, pid, at(sent), place);
        }
        let is_stack = context.stacks.contains(kind);
        let row = self.rows.entry(object).or_default();
        let moment = match marker.phase {
            0 => {
                let begin = at(marker.start_ms?);
                row.marks.push((begin, type_id));
                begin
            }
            1 => {
                let (begin, end) = (at(marker.start_ms?), at(marker.end_ms?));
                row.spans.push(Span { from: begin, to: end.max(begin), type_id, is_stack });
                begin
            }
            2 => {
                let begin = at(marker.start_ms?);
                row.open.push((begin, type_id, is_stack));
                begin
            }
            _ => {
                let end = at(marker.end_ms.or(marker.start_ms)?);
                self.unopened += u64::from(!row.ends(end, type_id));
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

    /// When a thread was awake: between two of these it slept.
    fn awake(&mut self, object: u64, marker: &Marker<'_>, at: &impl Fn(f64) -> u64) -> Option<u64> {
        let edges = &mut self.rows.entry(object).or_default().edges;
        let begin = marker.start_ms.filter(|_| matches!(marker.phase, 1 | 2)).map(at);
        let end = marker.end_ms.filter(|_| matches!(marker.phase, 1 | 3)).map(at);
        edges.extend(begin.map(|at| (at, true)));
        edges.extend(end.map(|at| (at, false)));
        begin.or(end)
    }

    /// A request of the network. `false`: the marker tells none.
    fn request(&mut self, place: (u32, u64), pid: u32, data: &Value, at: &impl Fn(f64) -> u64) -> bool {
        let (thread, by) = place;
        let time = |key: &str| data.get(key).and_then(json::number);
        let Some(id) = data.get("id").and_then(json::text) else { return false };
        let Some(start) = time("startTime") else { return false };
        let (object, _) = self.numbers.of(&format!("request {pid} {id}"));
        // Its thread does other things meanwhile, and does not wait for it.
        let track = self.builder.thread(self.rows.get(&by).map_or(0, |row| row.process), 0, "requests");
        let whole = Some(self.builder.type_of("network::request", "", 0));
        let text = |key: &str| data.get(key).and_then(json::text).filter(|text| !text.is_empty());
        let begin = at(start);
        if self.requested.insert(object, begin).is_none() {
            if let Some(url) = text("URI") {
                self.builder.name(begin, thread, object, &url);
            }
            self.builder.link(begin, thread, by, object, whole);
            self.builder.says(Phase::Exec, begin, track, object, whole);
        }
        let status = text("status").unwrap_or_default();
        if status == "STATUS_START" {
            return true;
        }
        if status == "STATUS_REDIRECT" {
            let redirect = Some(self.builder.type_of("network::redirect", "", 0));
            self.builder.says(Phase::Mark, at(time("endTime").unwrap_or(start)), track, object, redirect);
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
            self.builder.says(phase, at(from), track, object, type_id);
            if phase == Phase::Wait {
                self.builder.says(Phase::Exec, at(to), track, object, type_id);
            }
            self.builder.says(Phase::Done, at(to), track, object, type_id);
        }
        let end = at(time("endTime").or_else(|| time("responseEnd")).unwrap_or(start));
        self.builder.says(Phase::Done, end, track, object, whole);
        self.finished.push((end, thread, object, by));
        true
    }

    fn build(mut self, is_cut: bool) -> Trace {
        let types = Types {
            asleep: self.builder.type_of("thread::asleep", "", 0),
            off: self.builder.concluded("sampled::(no processor used)", Concluded::Likely),
            untold: self.builder.concluded("thread::nothing_told", Concluded::Unknown),
        };
        self.starts();
        let mut rows = std::mem::take(&mut self.rows);
        let settled = rows.iter_mut().map(|(object, row)| (*object, self.settle(row, &types))).collect();
        self.requests(&settled);
        let mut handed = self.messages(&settled);
        self.flows(&settled, &mut handed);
        let mut slices = Slices::default();
        self.wakes(&settled, handed, &rows);
        for (object, of) in &settled {
            // Behind what it posted at the same moments: so it does not look as if it did nothing until that was over.
            self.write(&rows[object], of, &mut slices);
        }
        slices.write(&mut self.builder);
        if self.unopened > 0 {
            self.builder.damage(format!("{} markers end what did not begin in the profile", self.unopened));
        }
        if is_cut || self.threads == 0 {
            self.builder.damage("the profile is cut".to_owned());
        }
        self.builder.build()
    }

    /// Other processes began at the latest when they were first sent something.
    fn starts(&mut self) {
        let likely = self.builder.concluded("process start", Concluded::Likely);
        for row in self.rows.values_mut().filter(|row| row.is_main && row.started.is_none()) {
            let known = row.known().map_or(0, |(first, _)| first);
            let Some((at, (thread, by))) = self.messages.first_to(row.pid, row.object) else { continue };
            if at < known {
                row.started = Some(at);
                self.builder.link(at, thread, by, row.object, Some(likely));
            }
        }
    }

    fn settle(&mut self, row: &mut Row, types: &Types) -> Settled {
        let known = row.known();
        let mut settled = row.settle(types, |type_id| self.measures.contains(&type_id));
        let Some((first, last)) = known else { return settled };
        if !(row.samples.is_empty() && row.edges.is_empty()) {
            row.fill(&mut settled, types, first, last);
        }
        if let Some(from) = row.started.filter(|from| *from < first) {
            let name = "process start to the first event of its profiler";
            let type_id = self.builder.concluded(name, Concluded::Unknown);
            settled.fills.push(Span { from, to: first, type_id, is_stack: true });
        }
        settled
    }

    fn write(&mut self, row: &Row, of: &Settled, slices: &mut Slices) {
        let (thread, object) = (row.thread, row.object);
        let works = || of.works.iter().chain(&of.fills);
        let begins = works().chain(&of.waits).chain(&of.measures).map(|span| span.from);
        if let Some(at) = begins.chain(row.first).min() {
            self.builder.name(at, thread, object, &row.name);
        }
        works().for_each(|span| slices.whole(thread, object, span.from, span.to, span.type_id));
        of.waits.iter().for_each(|span| slices.wait(thread, object, span.from, span.to, span.type_id));
        row.open.iter().for_each(|(at, type_id, _)| slices.begin(thread, object, *at, *type_id));
        for (at, type_id) in &row.marks {
            self.builder.says(Phase::Mark, *at, thread, object, Some(*type_id));
        }
        for span in &of.measures {
            self.builder.says(Phase::Mark, span.to, thread, object, Some(span.type_id));
            self.builder.arg(span.to, thread, object, "took_ns", &(span.to - span.from).to_string());
        }
    }

    /// A thread goes on with a request that has ended. Where it is known when it waited, its flows tell it better.
    fn requests(&mut self, settled: &BTreeMap<u64, Settled>) {
        let whole = Some(self.builder.type_of("network::request", "", 0));
        for (end, thread, object, by) in std::mem::take(&mut self.finished) {
            if !has_waits(settled, by) {
                self.builder.link(end, thread, object, by, whole);
            }
        }
    }

    /// Messages as objects that wait from one end to the other; what each thread was handed by them.
    fn messages(&mut self, settled: &BTreeMap<u64, Settled>) -> HashMap<u64, Vec<Handed>> {
        let mut handed: HashMap<u64, Vec<Handed>> = HashMap::new();
        for (number, one) in std::mem::take(&mut self.messages).tied().into_iter().enumerate() {
            let object = self.numbers.of(&format!("message {number}")).0;
            let type_id = self.builder.type_of(&format!("ipc::{}", one.kind), "", 0);
            let ((sent, (by_thread, by)), (received, (thread, to))) = (one.sent, one.received);
            self.builder.name(sent, by_thread, object, &format!("{} {} to {}", one.kind, one.from_pid, one.to_pid));
            self.builder.link(sent, by_thread, by, object, Some(type_id));
            self.builder.says(Phase::Wait, sent, by_thread, object, Some(type_id));
            self.builder.says(Phase::Exec, received, thread, object, Some(type_id));
            self.builder.says(Phase::Done, received, thread, object, Some(type_id));
            if !has_waits(settled, to) {
                self.builder.link(received, thread, object, to, Some(type_id));
            }
            let (posted, is_sure) = (one.sent, one.is_sure);
            handed.entry(to).or_default().push(Handed { at: received, posted, type_id, is_sure });
        }
        handed
    }

    fn flows(&mut self, settled: &BTreeMap<u64, Settled>, handed: &mut HashMap<u64, Vec<Handed>>) {
        let mut flows = Flows::default();
        let mut posts: HashMap<&str, (u64, Place)> = HashMap::new();
        self.flows.sort_by_key(|step| step.at_ns);
        // A flow that nobody continues waits for nothing.
        let mut later = HashSet::new();
        let is_continued: Vec<bool> =
            self.flows.iter().rev().map(|step| !later.insert(step.id.as_str()) && !step.is_last).collect();
        for (step, is_continued) in self.flows.iter().zip(is_continued.iter().rev()) {
            let (at, type_id) = (step.at_ns, step.type_id);
            if let Some(posted) = posts.remove(step.id.as_str()) {
                // Where it is known when the thread waited, only what ended a wait released it.
                if has_waits(settled, step.place.1) {
                    flows.taken(&mut self.builder, at, step.place.0, &step.id);
                    if posted.1 != step.place {
                        let one = Handed { at, posted, type_id, is_sure: true };
                        handed.entry(step.place.1).or_default().push(one);
                    }
                } else {
                    flows.run(&mut self.builder, at, step.place, &step.id, type_id);
                }
            }
            if *is_continued {
                flows.posted(&mut self.builder, at, step.place, &step.id, type_id);
                posts.insert(&step.id, (at, step.place));
            } else {
                flows.over(&step.id);
            }
        }
    }

    /// Links to threads from whom ended their waits.
    fn wakes(
        &mut self,
        settled: &BTreeMap<u64, Settled>,
        mut handed: HashMap<u64, Vec<Handed>>,
        rows: &BTreeMap<u64, Row>,
    ) {
        let mut all = Vec::new();
        for (object, of) in settled {
            let mut handed = handed.remove(object).unwrap_or_default();
            handed.sort_by_key(|one| one.at);
            all.extend(wakes(*object, of, &handed));
        }
        let is_known = |object: u64, has_waited: bool| {
            rows.get(&object).is_some_and(|row| row.is_trunk || (row.started.is_some() && !has_waited))
        };
        for wake in followed(all, settled, is_known) {
            let (at, (thread, by)) = wake.by.posted;
            let type_id = match wake.by.is_sure {
                true => wake.by.type_id,
                false => self.builder.concluded("thread::likely_woken", Concluded::Likely),
            };
            self.builder.link(at, thread, by, wake.object, Some(type_id));
        }
    }
}

/// Whether it is known when a thread waited.
fn has_waits(settled: &BTreeMap<u64, Settled>, object: u64) -> bool {
    settled.get(&object).is_some_and(|of| !of.waits.is_empty())
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

//! Chromium's `--log-net-log`, whole or cut short by a browser that was killed.
//!
//! A source is an object, with its number. An event with a beginning and an end is a wait where the source has nothing
//! to do but wait for somebody ([`WAITS`]), two marks where it only says how long something was there ([`LIVES`]), else
//! work; one without an end is a mark. `SOCKET_IN_USE` is work of the socket, so
//! that who waits for a connection finds who held it. `source_dependency` is a link, in the direction in which the
//! cause goes ([`Direction`]). A socket is handed to a job when the job's `SOCKET_POOL` ends; its `SOCKET_IN_USE`
//! begins some milliseconds later, when the job is told. The log tells no threads: all is on one of number 0.

use super::json::{self, Piece};
use crate::trace::{Builder, Clock, Concluded, Event, Form, INFERRED, Phase, Trace};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const MILLISECOND: u64 = 1_000_000;

/// Events during which their source waits for another one, the disk, the network or a decision of somebody else.
const WAITS: &[&str] = &[
    "CERT_VERIFIER_REQUEST",
    "COOKIE_PERSISTENT_STORE_LOAD",
    "CORS_PREFLIGHT",
    "DNS_TRANSACTION_QUERY",
    "HOST_RESOLVER_MANAGER_REQUEST",
    "HTTP_CACHE_ADD_TO_ENTRY",
    "HTTP_CACHE_CREATE_ENTRY",
    "HTTP_CACHE_DOOM_ENTRY",
    "HTTP_CACHE_GET_BACKEND",
    "HTTP_CACHE_OPEN_ENTRY",
    "HTTP_CACHE_OPEN_OR_CREATE_ENTRY",
    "HTTP_CACHE_READ_DATA",
    "HTTP_CACHE_READ_INFO",
    "HTTP_CACHE_WRITE_DATA",
    "HTTP_CACHE_WRITE_INFO",
    "HTTP_SERVER_PROPERTIES_INITIALIZATION",
    "HTTP_STREAM_JOB_WAITING",
    "HTTP_STREAM_REQUEST",
    "HTTP_TRANSACTION_DRAIN_BODY_FOR_AUTH_RESTART",
    "HTTP_TRANSACTION_READ_BODY",
    "HTTP_TRANSACTION_READ_HEADERS",
    "NETWORK_DELEGATE_BEFORE_START_TRANSACTION",
    "NETWORK_DELEGATE_BEFORE_URL_REQUEST",
    "NETWORK_DELEGATE_HEADERS_RECEIVED",
    "PROXY_RESOLUTION_SERVICE",
    "PROXY_RESOLUTION_SERVICE_WAITING_FOR_INIT_PAC",
    "SOCKET_POOL",
    "SSL_CONNECT",
    "SSL_HANDSHAKE_MESSAGE",
    "TCP_CONNECT",
    "TCP_CONNECT_ATTEMPT",
    "THROTTLED",
    "URL_REQUEST_DELEGATE_CONNECTED",
    "URL_REQUEST_DELEGATE_RECEIVED_REDIRECT",
    "URL_REQUEST_DELEGATE_RESPONSE_STARTED",
];

/// How long something was there, which is no work of it: two marks. A request is there while it is worked on.
const LIVES: &[&str] = &[
    "COOKIE_STORE_ALIVE",
    "HTTP2_SESSION",
    "HTTP_STREAM_JOB_CONTROLLER",
    "QUIC_SESSION",
    "SIMPLE_CACHE_ENTRY",
    "SOCKET_ALIVE",
];

/// Beginnings of the names of events that become a namespace.
const NAMESPACES: &[&str] = &[
    "CERT_VERIFIER",
    "CERT_VERIFY_PROC",
    "CONNECT_JOB",
    "COOKIE_PERSISTENT_STORE",
    "COOKIE_STORE",
    "CORS",
    "DISK_CACHE",
    "DNS_TRANSACTION",
    "HOST_RESOLVER",
    "HTTP2_SESSION",
    "HTTP2_STREAM",
    "HTTP_AUTH",
    "HTTP_CACHE",
    "HTTP_PROXY_CONNECT_JOB",
    "HTTP_SERVER_PROPERTIES",
    "HTTP_STREAM_JOB",
    "HTTP_STREAM_JOB_CONTROLLER",
    "HTTP_STREAM_PARSER",
    "HTTP_STREAM_REQUEST",
    "HTTP_TRANSACTION",
    "NETWORK_DELEGATE",
    "PROXY_RESOLUTION_SERVICE",
    "QUIC_SESSION",
    "QUIC_SESSION_POOL",
    "QUIC_STREAM",
    "RESOURCE_SCHEDULER",
    "SIMPLE_CACHE_ENTRY",
    "SOCKET",
    "SOCKET_POOL",
    "SOCKS_CONNECT_JOB",
    "SSL",
    "SSL_CONNECT_JOB",
    "TCP",
    "TCP_CONNECT_JOB",
    "TRANSPORT_CONNECT_JOB",
    "UDP",
    "URL_REQUEST",
    "URL_REQUEST_DELEGATE",
    "WEBSOCKET",
];

/// What an entry of the disk cache does in three steps, of which each is told by an event of its own: it is called, and
/// waits for what the entry does before; it begins; it ends.
const CACHE_STEPS: [(&str, Phase); 3] = [("_CALL", Phase::Wait), ("_BEGIN", Phase::Exec), ("_END", Phase::Done)];
const CACHE_WORK: [&str; 7] = ["CLOSE", "CREATE", "DOOM", "OPEN", "OPEN_OR_CREATE", "READ", "WRITE"];

/// Waits of a request for the entry of the disk cache that has its URL.
const CACHE_WAITS: [&str; 7] = [
    "HTTP_CACHE_CREATE_ENTRY",
    "HTTP_CACHE_OPEN_ENTRY",
    "HTTP_CACHE_OPEN_OR_CREATE_ENTRY",
    "HTTP_CACHE_READ_DATA",
    "HTTP_CACHE_READ_INFO",
    "HTTP_CACHE_WRITE_DATA",
    "HTTP_CACHE_WRITE_INFO",
];

/// Events that hand a socket over to a job.
const SOCKET_LINKS: [&str; 2] = ["SOCKET_IN_USE", "SOCKET_POOL_BOUND_TO_SOCKET"];

/// Values worth keeping of an event, as arguments of its object.
const ARGUMENTS: &[&str] = &[
    "byte_count",
    "delegate_blocked_by",
    "idle_ms",
    "method",
    "net_error",
    "os_error",
    "priority",
    "reason",
    "request_type",
    "result",
    "should_wait",
    "trigger",
];

/// Which of an event's source and the one that it depends on caused, released or fed the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// What the event depends on, to its source: a beginning names what began it, other events whom they have from.
    ToSource,
    /// The source, to what it depends on: it starts it, hands itself over to it, or its result.
    FromSource,
}

fn direction(event: &str, source: &str, dependency: &str) -> Direction {
    match event {
        // The socket goes to its user, and the result of a job to its request.
        "SOCKET_IN_USE" | "HTTP_STREAM_JOB_BOUND_TO_REQUEST" | "HOST_RESOLVER_MANAGER_JOB_REQUEST_DETACH" => {
            Direction::FromSource
        }
        // Who starts something, or has something of its own begin.
        "HTTP_STREAM_REQUEST_STARTED_JOB"
        | "SOCKET_POOL_BOUND_TO_CONNECT_JOB"
        | "HOST_RESOLVER_MANAGER_CREATE_JOB"
        | "HOST_RESOLVER_MANAGER_JOB_ATTACH"
        | "TCP_CONNECT_JOB_CONNECTOR_CONNECT_START"
        | "DNS_TRANSACTION_ATTEMPT"
        | "BOUND_TO_QUIC_SESSION_POOL_JOB" => Direction::FromSource,
        "DNS_TRANSACTION" if source == "HOST_RESOLVER_IMPL_JOB" => Direction::FromSource,
        "HTTP_STREAM_JOB_CONTROLLER_BOUND" if dependency == "HTTP_STREAM_JOB_CONTROLLER" => Direction::FromSource,
        _ => Direction::ToSource,
    }
}

/// The work of an entry of the disk cache that an event is a step of, and what the step is.
fn cache_step(event: &str) -> Option<(&str, Phase)> {
    let step = event.strip_prefix("SIMPLE_CACHE_ENTRY_")?;
    let (work, phase) = CACHE_STEPS.iter().find_map(|(end, phase)| Some((step.strip_suffix(end)?, *phase)))?;
    CACHE_WORK.contains(&work).then_some((work, phase))
}

/// The name of an event's type: `net::http_cache::OPEN_OR_CREATE_ENTRY`.
fn type_name(event: &str) -> String {
    if matches!(event, "SOCKET_IN_USE" | "SOCKET_ALIVE") {
        return format!("net::socket::{event}");
    }
    if event == "REQUEST_ALIVE" {
        return "net::url_request::REQUEST_ALIVE".to_owned();
    }
    let namespace = |of: &&&str| event.strip_prefix(**of).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    match NAMESPACES.iter().filter(namespace).max_by_key(|of| of.len()) {
        Some(of) => match event.strip_prefix(of).and_then(|rest| rest.strip_prefix('_')) {
            Some(rest) => format!("net::{}::{rest}", of.to_lowercase()),
            None => format!("net::{}", of.to_lowercase()),
        },
        None => format!("net::{event}"),
    }
}

#[derive(Deserialize)]
struct Logged {
    #[serde(default)]
    params: Value,
    #[serde(default)]
    phase: u64,
    source: Source,
    time: Value,
    r#type: u64,
}

#[derive(Deserialize)]
struct Source {
    /// Of 32 bits, the upper half of which is written as negative.
    id: i64,
    r#type: u64,
}

fn number(id: i64) -> u64 {
    id.cast_unsigned() & u64::from(u32::MAX)
}

/// What the numbers of the log mean.
#[derive(Default)]
struct Constants {
    events: HashMap<u64, String>,
    sources: HashMap<u64, String>,
    begin: u64,
    end: u64,
    /// From its ticks to milliseconds of 1970.
    tick_offset_ms: i64,
    /// Name and version.
    program: String,
    command_line: String,
    is_linux: bool,
}

impl Constants {
    fn read(piece: Option<Piece<'_>>) -> Self {
        let member = |name: &str| piece.and_then(|piece| piece.member(name));
        let numbers = |name: &str| -> HashMap<u64, String> {
            let names: HashMap<String, u64> = member(name).and_then(Piece::read).unwrap_or_default();
            names.into_iter().map(|(name, number)| (number, name)).collect()
        };
        let phases = numbers("logEventPhase");
        let phase = |name: &str, usual| phases.iter().find(|(_, of)| *of == name).map_or(usual, |(number, _)| *number);
        let client = |name: &str| member("clientInfo").and_then(|it| it.member(name)).and_then(Piece::text);
        let told = [client("name"), client("version")].into_iter().flatten().collect::<Vec<_>>().join(" ");
        Self {
            events: numbers("logEventTypes"),
            sources: numbers("logSourceType"),
            begin: phase("PHASE_BEGIN", 1),
            end: phase("PHASE_END", 2),
            tick_offset_ms: member("timeTickOffset").and_then(Piece::text).and_then(|it| it.parse().ok()).unwrap_or(0),
            command_line: client("command_line").unwrap_or_default(),
            program: if told.is_empty() { "Chromium".to_owned() } else { told },
            // Its ticks are CLOCK_MONOTONIC there.
            is_linux: client("os_type").is_some_and(|os| os.starts_with("Linux") || os.starts_with("Android")),
        }
    }
}

/// Reads a log.
pub fn read(file: Piece<'_>) -> Trace {
    let constants = Constants::read(file.member("constants"));
    let clock = Clock {
        is_monotonic: constants.is_linux,
        is_calibrated: true,
        step_ns: MILLISECOND,
        is_ordered: true,
        ..Clock::default()
    };
    let mut builder = Builder::new(Form::NetLog, clock);
    builder.written_by(constants.command_line.clone());
    let process = builder.process(0, &constants.program);
    let thread = builder.thread(process, 0, "");
    let mut log = Log {
        thread,
        types: HashMap::new(),
        sources: HashMap::new(),
        open: HashMap::new(),
        links: HashSet::new(),
        controllers: HashMap::new(),
        jobs: HashMap::new(),
        urls: HashMap::new(),
        entries: HashMap::new(),
        callers: HashMap::new(),
        last: (0, 0),
        ended: None,
        asked: HashMap::new(),
        cache_work: HashMap::new(),
        builder,
        constants,
    };
    match file.member("events") {
        None => log.builder.damage("the log ends before its first event".to_owned()),
        Some(events) => {
            for (number, piece) in events.items().enumerate() {
                match piece.read::<Logged>() {
                    Some(event) => log.event(&event),
                    None if piece.is_whole => log.builder.damage(format!("event {number} is no event of a net-log")),
                    None => log.builder.damage(format!("the log ends within event {number}")),
                }
            }
            if !events.is_whole {
                log.builder.damage("the log was not closed: its browser was killed, or it is cut".to_owned());
            }
        }
    }
    let offset = log.constants.tick_offset_ms;
    let mut trace = log.builder.build();
    if offset > 0 {
        let realtime = offset.saturating_mul(MILLISECOND as i64).saturating_add(trace.clock.origin_ns as i64);
        trace.clock.realtime_ns = u64::try_from(realtime).unwrap_or(0);
    }
    trace
}

struct Log {
    builder: Builder,
    constants: Constants,
    thread: u32,
    /// By event, and what blocks it where an event is of many kinds.
    types: HashMap<(u64, Option<String>), u32>,
    /// How well each source is named.
    sources: HashMap<u64, usize>,
    /// Types of what began, by source and event; whether they wait.
    open: HashMap<(u64, u64), Vec<(u32, bool)>>,
    links: HashSet<(u64, u64, u64)>,
    /// For which request each controller of jobs acts.
    controllers: HashMap<u64, u64>,
    /// For which request each job opens a stream.
    jobs: HashMap<u64, u64>,
    /// Of requests, and of entries of the disk cache.
    urls: HashMap<u64, String>,
    /// The last entry of the disk cache for each URL.
    entries: HashMap<String, u64>,
    /// The request that last asked the cache for each URL.
    callers: HashMap<String, u64>,
    /// The last millisecond, and how many events of it came.
    last: (u64, u64),
    /// The request of which something ended last.
    ended: Option<u64>,
    /// The job that last asked for a socket of each group.
    asked: HashMap<String, u64>,
    /// When what an entry of the disk cache does began, and its type.
    cache_work: HashMap<u64, (u64, u32)>,
}

impl Log {
    /// Events of one millisecond are a nanosecond apart, so that their order, which the log has, is not lost.
    fn moment(&mut self, at_ns: u64) -> u64 {
        let (now, behind) = self.last;
        self.last = if at_ns > now { (at_ns, 0) } else { (now, (behind + 1).min(MILLISECOND - 1)) };
        at_ns + self.last.1
    }

    fn event(&mut self, event: &Logged) {
        let Some(time) = json::whole(&event.time) else {
            return self.builder.damage(format!("an event of source {} has no time", event.source.id));
        };
        let (at, thread) = (self.moment(time.saturating_mul(MILLISECOND)), self.thread);
        let object = number(event.source.id);
        let name = self.constants.events.get(&event.r#type).cloned();
        let name = name.unwrap_or_else(|| format!("EVENT_{}", event.r#type));
        self.name(at, object, event);
        let delegate = event.params.get("delegate_blocked_by").filter(|_| name == "DELEGATE_INFO").and_then(json::text);
        let is_wait = delegate.is_some() || WAITS.binary_search(&name.as_str()).is_ok();
        let step = cache_step(&name);
        let type_id = match step {
            Some((work, _)) => self.builder.type_of(&format!("net::simple_cache_entry::{work}"), "", 0),
            None => self.type_of(event.r#type, &name, delegate),
        };
        let is_life = LIVES.binary_search(&name.as_str()).is_ok();
        if is_life {
            self.builder.says(Phase::Mark, at, thread, object, Some(type_id));
        } else if event.phase == self.constants.begin {
            self.open.entry((object, event.r#type)).or_default().push((type_id, is_wait));
            if let Some(url) = self.urls.get(&object).filter(|_| CACHE_WAITS.contains(&name.as_str())) {
                self.callers.insert(url.clone(), object);
            }
            self.builder.says(if is_wait { Phase::Wait } else { Phase::Exec }, at, thread, object, Some(type_id));
        }
        if event.phase == self.constants.end && self.is_request(event) {
            self.ended = Some(object);
        }
        self.inferred(at, object, &name, event);
        // What is linked at an end is so before it: the one that ends it comes first.
        self.link(at, object, &name, event, type_id);
        if is_life {
            if name == "SIMPLE_CACHE_ENTRY" && event.phase == self.constants.end {
                self.ends_at_once(object);
            }
        } else if event.phase == self.constants.end {
            if let Some(entry) = self.urls.get(&object).and_then(|url| self.entries.get(url))
                && CACHE_WAITS.contains(&name.as_str())
            {
                self.builder.link(at, thread, *entry, object, Some(type_id));
            }
            let began = self.open.get_mut(&(object, event.r#type)).and_then(Vec::pop);
            let (type_id, is_wait) = began.unwrap_or((type_id, false));
            if is_wait {
                self.builder.says(Phase::Exec, at, thread, object, Some(type_id));
            }
            self.builder.says(Phase::Done, at, thread, object, Some(type_id));
        } else if event.phase != self.constants.begin {
            let phase = step.map_or(Phase::Mark, |(_, phase)| phase);
            match phase {
                Phase::Wait => {
                    if let Some(caller) = self.urls.get(&object).and_then(|url| self.callers.get(url)) {
                        self.builder.link(at, thread, *caller, object, Some(type_id));
                    }
                }
                Phase::Exec => {
                    self.ends_at_once(object);
                    self.cache_work.insert(object, (at, type_id));
                }
                Phase::Done => drop(self.cache_work.remove(&object)),
                _ => {}
            }
            self.builder.says(phase, at, thread, object, Some(type_id));
        }
        self.arguments(at, object, &event.params);
    }

    /// An entry of the disk cache does one thing at a time, and tells no end of what memory answered at once: where the
    /// next one begins, or the entry ends, the one before ended as it began.
    fn ends_at_once(&mut self, object: u64) {
        if let Some((at, type_id)) = self.cache_work.remove(&object) {
            self.builder.says(Phase::Done, at, self.thread, object, Some(type_id));
        }
    }

    fn type_of(&mut self, number: u64, name: &str, delegate: Option<String>) -> u32 {
        let key = (number, delegate);
        if let Some(known) = self.types.get(&key) {
            return *known;
        }
        let full = match &key.1 {
            Some(delegate) => format!("net::delegate::{delegate}"),
            None => type_name(name),
        };
        let type_id = self.builder.type_of(&full, "", 0);
        self.types.insert(key, type_id);
        type_id
    }

    /// Names the source by the best that it has told so far: a URL, else whom it speaks to, else what it is.
    fn name(&mut self, at_ns: u64, object: u64, event: &Logged) {
        const KEYS: [&str; 8] =
            ["url", "key", "destination", "group_id", "hostname", "host", "remote_address", "address"];
        let known = self.sources.get(&object).copied();
        // A request that is redirected goes on under another URL.
        let is_redirected = || {
            let url = event.params.get("url").and_then(Value::as_str);
            self.is_request(event) && url.is_some_and(|url| self.urls.get(&object).is_some_and(|known| known != url))
        };
        let ranks = if known == Some(0) && is_redirected() { 1 } else { known.unwrap_or(KEYS.len()) };
        let better = KEYS.iter().enumerate().take(ranks);
        let found =
            better.filter_map(|(rank, key)| Some((rank, event.params.get(key).and_then(Value::as_str)?))).next();
        let source = self.constants.sources.get(&event.source.r#type).cloned();
        let source = source.unwrap_or_else(|| format!("SOURCE_{}", event.source.r#type));
        let (rank, text) = match (found, known) {
            (Some((rank, text)), _) => {
                let text = self.called(object, &source, text);
                let text = match source.as_str() {
                    "URL_REQUEST" => {
                        self.urls.insert(object, text.clone());
                        text
                    }
                    "DISK_CACHE_ENTRY" => {
                        self.entries.insert(text.clone(), object);
                        self.urls.insert(object, text.clone());
                        // Not the name of the request, which has the same URL.
                        format!("cache entry {text}")
                    }
                    _ => text,
                };
                (rank, text)
            }
            (None, None) => (KEYS.len(), format!("{source} {object}")),
            (None, Some(_)) => return,
        };
        self.sources.insert(object, rank);
        let type_id = Some(self.builder.type_of(&format!("netlog::{source}"), "", 0));
        let (thread, phase, text) = (self.thread, Phase::Name, Some(text.into()));
        self.builder.event(Event { at_ns, thread, phase, is_shared: false, object, type_id, other: None, text });
    }

    fn called(&self, object: u64, source: &str, text: &str) -> String {
        match source {
            // Several to one address are told apart by their number.
            "SOCKET" | "UDP_SOCKET" | "UDP_CLIENT_SOCKET" | "HTTP2_SESSION" | "QUIC_SESSION" => {
                format!("{text} ({source} {object})")
            }
            // The site for which an entry of the cache is kept stands before its URL.
            "DISK_CACHE_ENTRY" => match text.rsplit_once(' ') {
                Some((_, url)) if url.contains("://") => url.to_owned(),
                _ => text.to_owned(),
            },
            _ => text.to_owned(),
        }
    }

    fn link(&mut self, at_ns: u64, object: u64, name: &str, event: &Logged, type_id: u32) {
        let Some(other) = event.params.get("source_dependency").and_then(Value::as_object) else { return };
        let Some(id) = other.get("id").and_then(Value::as_i64) else { return };
        let other_type = other.get("type").and_then(Value::as_u64).and_then(|it| self.constants.sources.get(&it));
        let source_type = self.constants.sources.get(&event.source.r#type);
        let kind = |of: Option<&String>| of.map_or(String::new(), Clone::clone);
        let mut other = number(id);
        // A controller of jobs only stands between the request and its jobs: it acts for the request, and what a job
        // hands over it hands over again.
        let controls = |of: Option<&String>| of.is_some_and(|of| of == "HTTP_STREAM_JOB_CONTROLLER");
        let (by_controller, to_controller) = (controls(source_type), controls(other_type));
        if name == "HTTP_STREAM_JOB_CONTROLLER_BOUND" && by_controller != to_controller {
            let (controller, request) = if by_controller { (object, other) } else { (other, object) };
            self.controllers.insert(controller, request);
            return;
        }
        if by_controller && name == "HTTP_STREAM_JOB_BOUND_TO_REQUEST" {
            return;
        }
        let object = self.controllers.get(&object).copied().filter(|_| by_controller).unwrap_or(object);
        if to_controller {
            other = self.controllers.get(&other).copied().unwrap_or(other);
        }
        let (from, to) = match direction(name, &kind(source_type), &kind(other_type)) {
            Direction::ToSource => (other, object),
            Direction::FromSource => (object, other),
        };
        if name == "HTTP_STREAM_JOB" {
            self.jobs.insert(object, other);
        }
        self.linked(at_ns, from, to, type_id);
        // What a job gets is used by its request, when the job is long over.
        if let Some(request) = self.jobs.get(&to).copied().filter(|_| SOCKET_LINKS.contains(&name)) {
            self.linked(at_ns, from, request, type_id);
        }
    }

    fn is_request(&self, event: &Logged) -> bool {
        self.constants.sources.get(&event.source.r#type).is_some_and(|of| of == "URL_REQUEST")
    }

    /// What the log says by its order alone. The scheduler starts a request because another one is complete, in the
    /// midst of that one's end. A job asks for a socket, and right behind a connection of that group is begun.
    fn inferred(&mut self, at_ns: u64, object: u64, name: &str, event: &Logged) {
        let says = |key: &str| event.params.get(key).and_then(Value::as_str).unwrap_or_default();
        let by = match name {
            "RESOURCE_SCHEDULER_REQUEST_STARTED" if says("trigger").starts_with("COMPLETION") => self.ended,
            "SOCKET_POOL_CONNECT_JOB_CREATED"
                if event.params.get("backup_job").and_then(Value::as_bool) != Some(true) =>
            {
                self.asked.get(says("group_id")).copied()
            }
            "TCP_CLIENT_SOCKET_POOL_REQUESTED_SOCKET" => {
                self.asked.insert(says("group_id").to_owned(), object);
                None
            }
            _ => None,
        };
        if let Some(by) = by.filter(|by| *by != object) {
            let inferred = self.builder.concluded(INFERRED, Concluded::Likely);
            self.builder.link(at_ns, self.thread, by, object, Some(inferred));
        }
    }

    fn linked(&mut self, at_ns: u64, from: u64, to: u64, type_id: u32) {
        // Both sides tell it.
        if from != to && self.links.insert((at_ns / MILLISECOND, from, to)) {
            self.builder.link(at_ns, self.thread, from, to, Some(type_id));
        }
    }

    fn arguments(&mut self, at_ns: u64, object: u64, params: &Value) {
        let Some(params) = params.as_object() else { return };
        for (key, value) in params {
            if ARGUMENTS.binary_search(&key.as_str()).is_ok()
                && let Some(text) = json::text(value)
            {
                self.builder.arg(at_ns, self.thread, object, key, &text);
            }
        }
        let status = params.get("headers").and_then(|it| it.get(0)).and_then(Value::as_str);
        if let Some(status) = status.filter(|line| line.starts_with("HTTP/")) {
            self.builder.arg(at_ns, self.thread, object, "status", status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::intervals;
    use proptest::prelude::*;

    const HEAD: &str = r#"{"constants":{"clientInfo":{"name":"Chromium","version":"1","os_type":"Linux: 6"},
        "logEventPhase":{"PHASE_BEGIN":1,"PHASE_END":2,"PHASE_NONE":0},"timeTickOffset":1000000,
        "logSourceType":{"NONE":0,"URL_REQUEST":1,"HTTP_STREAM_JOB":2,"SOCKET":3},
        "logEventTypes":{"REQUEST_ALIVE":1,"SOCKET_POOL":2,"SOCKET_IN_USE":3,"DELEGATE_INFO":4,
        "SOCKET_POOL_BOUND_TO_SOCKET":5,"HTTP_STREAM_JOB_BOUND_TO_REQUEST":6,"HTTP_CACHE_READ_INFO":7}},
        "events": ["#;

    const EVENTS: &str = r#"
{"params":{"url":"http://a/\"x\""},"phase":1,"source":{"id":11,"start_time":"5","type":1},"time":"5","type":1},
{"params":{"delegate_blocked_by":"ResourceScheduler"},"phase":1,"source":{"id":11,"type":1},"time":"6","type":4},
{"phase":2,"source":{"id":11,"type":1},"time":"9","type":4},
{"params":{"destination":"http://a"},"phase":1,"source":{"id":12,"type":2},"time":"10","type":2},
{"params":{"source_dependency":{"id":12,"type":2}},"phase":1,"source":{"id":-3,"type":3},"time":"20","type":3},
{"params":{"source_dependency":{"id":-3,"type":3}},"phase":0,"source":{"id":12,"type":2},"time":"20","type":5},
{"phase":2,"source":{"id":12,"type":2},"time":"20","type":2},
{"params":{"source_dependency":{"id":11,"type":1}},"phase":0,"source":{"id":12,"type":2},"time":"20","type":6},
{"phase":2,"source":{"id":-3,"type":3},"time":"30","type":3},
{"params":{"net_error":-3},"phase":2,"source":{"id":11,"type":1},"time":31,"type":1}]}"#;

    fn parse(text: &str) -> Trace {
        read(Piece::of_file(text.as_bytes()))
    }

    #[test]
    fn tables_are_in_order_for_their_searches() {
        assert!(WAITS.is_sorted() && ARGUMENTS.is_sorted() && LIVES.is_sorted());
    }

    #[test]
    fn waits_work_and_hand_overs_are_told_apart() {
        let trace = parse(&format!("{HEAD}{EVENTS}"));
        assert_eq!(trace.damage, [] as [&str; 0]);
        let (objects, all) = intervals(&trace);
        let ms = |at: u64| at / MILLISECOND;
        let seen: Vec<_> = all
            .iter()
            .map(|one| {
                (
                    objects.name(one.object).unwrap(),
                    trace.type_name(one.type_id),
                    one.wait.map(|(at, _)| ms(at)),
                    one.exec.map(|(at, _)| ms(at)),
                    one.done.map(ms),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("http://a/\"x\"", "net::url_request::REQUEST_ALIVE", None, Some(5), Some(31)),
                ("http://a/\"x\"", "net::delegate::ResourceScheduler", Some(6), Some(9), Some(9)),
                ("http://a", "net::socket_pool", Some(10), Some(20), Some(20)),
                ("SOCKET 4294967293", "net::socket::SOCKET_IN_USE", None, Some(20), Some(30)),
            ]
        );
        let links: Vec<_> = trace.events.iter().filter_map(|it| Some((ms(it.at_ns), it.object, it.other?))).collect();
        assert_eq!(
            links,
            [(20, 0xffff_fffd, 12), (20, 12, 11)],
            "the socket to its user, the job's result to the request"
        );
        let clock = &trace.clock;
        assert_eq!((clock.is_monotonic, clock.step_ns, clock.origin_ns), (true, MILLISECOND, 5 * MILLISECOND));
        assert_eq!(clock.realtime_ns, 1_000_005 * MILLISECOND);
        let arguments: Vec<_> = trace.events.iter().filter(|it| it.phase == Phase::Arg).collect();
        assert_eq!(arguments.last().unwrap().text.as_deref(), Some("net_error=-3"));
    }

    #[test]
    fn types_have_the_longest_namespace_that_fits() {
        assert_eq!(type_name("HTTP_CACHE_OPEN_OR_CREATE_ENTRY"), "net::http_cache::OPEN_OR_CREATE_ENTRY");
        assert_eq!(type_name("HTTP_STREAM_JOB_CONTROLLER_BOUND"), "net::http_stream_job_controller::BOUND");
        assert_eq!(type_name("SOCKET_POOL"), "net::socket_pool");
        assert_eq!(type_name("SOCKETS"), "net::SOCKETS");
    }

    #[test]
    fn a_cache_entry_waits_works_and_hands_itself_to_the_request_of_its_url() {
        let head = HEAD.replace("\"SOCKET\":3}", "\"DISK_CACHE_ENTRY\":4}").replace(
            "\"HTTP_CACHE_READ_INFO\":7",
            "\"SIMPLE_CACHE_ENTRY_SET_KEY\":8,\"SIMPLE_CACHE_ENTRY_READ_CALL\":9,\"HTTP_CACHE_READ_INFO\":7,\
             \"SIMPLE_CACHE_ENTRY_READ_BEGIN\":10,\"SIMPLE_CACHE_ENTRY_READ_END\":11",
        );
        let trace = parse(&format!(
            "{head}{}]}}",
            [
                r#"{"params":{"url":"http://a/x"},"phase":1,"source":{"id":1,"type":1},"time":"5","type":1}"#,
                r#"{"params":{"key":"1/0/_dk_s s http://a/x"},"source":{"id":2,"type":4},"time":"6","type":8}"#,
                r#"{"phase":1,"source":{"id":1,"type":1},"time":"7","type":7}"#,
                r#"{"source":{"id":2,"type":4},"time":"6","type":9}"#,
                r#"{"source":{"id":2,"type":4},"time":"6","type":10}"#,
                r#"{"source":{"id":2,"type":4},"time":"7","type":9}"#,
                r#"{"source":{"id":2,"type":4},"time":"9","type":10}"#,
                r#"{"source":{"id":2,"type":4},"time":"12","type":11}"#,
                r#"{"phase":2,"source":{"id":1,"type":1},"time":"12","type":7}"#,
            ]
            .join(",\n")
        ));
        assert_eq!(trace.damage, [] as [&str; 0]);
        let (_, all) = intervals(&trace);
        let ms = |at: u64| at / MILLISECOND;
        let reads: Vec<_> = all
            .iter()
            .filter(|one| trace.type_name(one.type_id) == "net::simple_cache_entry::READ")
            .map(|one| (ms(one.wait.unwrap().0), ms(one.exec.unwrap().0), ms(one.done.unwrap())))
            .collect();
        assert_eq!(reads, [(6, 6, 6), (7, 9, 12)], "the first one was answered from memory");
        let links: Vec<_> = trace.events.iter().filter_map(|it| Some((ms(it.at_ns), it.object, it.other?))).collect();
        assert_eq!(links, [(6, 1, 2), (7, 1, 2), (12, 2, 1)], "who calls the entry, and the entry to whom it served");
    }

    #[test]
    fn a_request_that_is_redirected_is_called_by_the_url_that_it_went_on_with() {
        let again = r#"{"params":{"url":"http://b/y"},"phase":1,"source":{"id":11,"type":1},"time":"6","type":4},"#;
        let trace = parse(&format!("{HEAD}{}", EVENTS.replacen("},\n", &format!("}},\n{again}\n"), 1)));
        let names = trace.events.iter().filter(|event| event.phase == Phase::Name && event.object == 11);
        let names: Vec<_> = names.map(|event| event.text.as_deref().unwrap()).collect();
        assert_eq!((names, trace.damage.len()), (vec!["http://a/\"x\"", "http://b/y"], 0));
    }

    #[test]
    fn what_the_scheduler_starts_when_another_is_complete_is_linked_to_it_as_inferred() {
        let head = HEAD.replace("\"HTTP_CACHE_READ_INFO\":7", "\"RESOURCE_SCHEDULER_REQUEST_STARTED\":7");
        let trace = parse(&format!(
            "{head}{}]}}",
            [
                r#"{"params":{"url":"http://a/x"},"phase":1,"source":{"id":1,"type":1},"time":"5","type":1}"#,
                r#"{"params":{"url":"http://a/y"},"phase":1,"source":{"id":2,"type":1},"time":"5","type":1}"#,
                r#"{"phase":2,"source":{"id":1,"type":1},"time":"7","type":1}"#,
                r#"{"params":{"trigger":"COMPLETION_POST_BODY"},"source":{"id":2,"type":1},"time":"7","type":7}"#,
                r#"{"params":{"trigger":"NONE"},"source":{"id":2,"type":1},"time":"8","type":7}"#,
            ]
            .join(",\n")
        ));
        let links: Vec<_> =
            trace.events.iter().filter_map(|it| Some((it.object, it.other?, trace.type_name(it.type_id)))).collect();
        assert_eq!(links, [(1, 2, INFERRED)]);
    }

    #[test]
    fn a_connection_is_begun_for_the_job_that_requested_one_of_its_group_right_before() {
        let head = HEAD.replace(
            "\"HTTP_CACHE_READ_INFO\":7",
            "\"TCP_CLIENT_SOCKET_POOL_REQUESTED_SOCKET\":7,\"CONNECT_JOB\":8,\"SOCKET_POOL_CONNECT_JOB_CREATED\":9",
        );
        let created = r#"{"params":{"backup_job":IS,"group_id":"g"},"source":{"id":ID,"type":0},"time":"5","type":9}"#;
        let trace = parse(&format!(
            "{head}{}]}}",
            [
                r#"{"params":{"group_id":"g"},"source":{"id":1,"type":2},"time":"5","type":7}"#,
                r#"{"params":{"group_id":"h"},"source":{"id":2,"type":2},"time":"5","type":7}"#,
                r#"{"phase":1,"source":{"id":3,"type":0},"time":"5","type":8}"#,
                &created.replace("IS", "false").replace("ID", "3"),
                &created.replace("IS", "true").replace("ID", "4"),
            ]
            .join(",\n")
        ));
        let links = crate::intervals::folded(&trace).links;
        let begin = intervals(&trace).1[0].begin();
        assert_eq!(links.iter().map(|link| (link.at_ns, link.is_concluded)).collect::<Vec<_>>(), [(begin, true)]);
    }

    #[test]
    fn a_line_that_is_none_is_named_and_the_rest_is_kept() {
        let trace = parse(&format!("{HEAD}{}", EVENTS.replace("\"phase\":2,\"source\":{\"id\":-3", "\"phase\":2,{")));
        assert_eq!(trace.damage, ["event 8 is no event of a net-log"]);
        assert!(trace.events.iter().any(|event| event.at_ns == 31 * MILLISECOND));
    }

    proptest! {
        #[test]
        fn cut_anywhere_what_is_whole_is_kept(at in 0..HEAD.len() + EVENTS.len()) {
            let whole = format!("{HEAD}{EVENTS}");
            let trace = parse(&whole[..at]);
            let lines = whole[..at].get(HEAD.len()..).map_or(0, |events| events.matches("},\n").count());
            let marked = trace.events.iter().filter(|it| matches!(it.phase, Phase::Name)).count();
            prop_assert!(trace.events.len() >= lines && (marked >= 1 || lines == 0));
            // Without the last brace all is there.
            prop_assert!(!trace.damage.is_empty() || at + 1 == whole.len());
        }
    }
}

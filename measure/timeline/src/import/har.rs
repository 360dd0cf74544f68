//! HTTP archives. An entry is an object that waits (blocked, DNS, connect, TLS, first byte) and works (send, receive);
//! the log says neither who asked for it nor which connection it waited for, so there are no links.

use super::date::unix_ns;
use super::json::{self, Piece};
use crate::trace::{Builder, Clock, Form, Phase, Trace};
use serde::Deserialize;
use serde_json::Value;

const MILLISECOND: f64 = 1e6;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    #[serde(default)]
    time: Value,
    #[serde(default)]
    request: Value,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    timings: Value,
    #[serde(default)]
    connection: Value,
    #[serde(default, rename = "_initiator")]
    initiator: Value,
}

/// Parts of an entry in their order, and whether it waits in them.
const PARTS: [(&str, Phase); 7] = [
    ("blocked", Phase::Wait),
    ("dns", Phase::Wait),
    ("connect", Phase::Wait),
    ("ssl", Phase::Wait),
    ("send", Phase::Exec),
    ("wait", Phase::Wait),
    ("receive", Phase::Exec),
];

/// Reads an archive.
pub fn read(file: Piece<'_>) -> Trace {
    let clock = Clock { is_calibrated: true, step_ns: 1_000_000, ..Clock::default() };
    let mut builder = Builder::new(Form::Har, clock);
    let log = file.member("log");
    let creator = log.and_then(|log| log.member("browser").or_else(|| log.member("creator")));
    let program = creator.and_then(|of| of.member("name")).and_then(Piece::text).unwrap_or_default();
    let process = builder.process(0, &program);
    let thread = builder.thread(process, 0, "");
    match log.and_then(|log| log.member("entries")) {
        None => builder.damage("the archive ends before its first entry".to_owned()),
        Some(entries) => {
            let mut requests = Vec::new();
            for (number, piece) in entries.items().enumerate() {
                match piece.read::<Entry>() {
                    Some(entry) => one(&mut builder, thread, number as u64 + 1, &entry, &mut requests),
                    None if piece.is_whole => builder.damage(format!("entry {number} is none of an archive")),
                    None => builder.damage(format!("the archive ends within entry {number}")),
                }
            }
            initiators(&mut builder, thread, &requests);
            if !file.is_closed() {
                builder.damage("the archive is cut".to_owned());
            }
        }
    }
    let mut trace = builder.build();
    trace.clock.realtime_ns = trace.clock.origin_ns;
    trace
}

/// A request: its object, its URL, when it began, and the URL of what Chromium says initiated it.
struct Request {
    object: u64,
    url: String,
    at_ns: u64,
    initiator: Option<String>,
}

fn one(builder: &mut Builder, thread: u32, object: u64, entry: &Entry, requests: &mut Vec<Request>) {
    let Some(begin) = unix_ns(&entry.started_date_time) else {
        return builder.damage(format!("entry {object} began at {:?}, which is no time", entry.started_date_time));
    };
    let url = entry.request.get("url").and_then(Value::as_str).unwrap_or_default();
    builder.name(begin, thread, object, url);
    let stack = entry.initiator.get("stack").and_then(|of| of.get("callFrames")).and_then(|of| of.get(0));
    let by = entry.initiator.get("url").or_else(|| stack.and_then(|frame| frame.get("url"))).and_then(Value::as_str);
    requests.push(Request { object, url: url.to_owned(), at_ns: begin, initiator: by.map(str::to_owned) });
    for (key, value) in [
        ("method", entry.request.get("method")),
        ("status", entry.response.get("status")),
        ("connection", Some(&entry.connection)),
    ] {
        if let Some(text) = value.and_then(json::text).filter(|text| !text.is_empty()) {
            builder.arg(begin, thread, object, key, &text);
        }
    }
    let whole = builder.type_of("har::entry", "", 0);
    builder.says(Phase::Exec, begin, thread, object, Some(whole));
    let part = |name: &str| entry.timings.get(name).and_then(json::number).filter(|lasted| *lasted >= 0.0);
    let mut at_ms = 0.0;
    for (name, phase) in PARTS {
        let Some(mut lasted) = part(name) else { continue };
        if name == "connect" {
            // It contains the time of TLS, where that is told.
            lasted = (lasted - part("ssl").unwrap_or(0.0)).max(0.0);
        }
        let from = begin.saturating_add(json::nanoseconds(at_ms, MILLISECOND));
        at_ms += lasted;
        let to = begin.saturating_add(json::nanoseconds(at_ms, MILLISECOND));
        if from == to {
            continue;
        }
        let type_id = Some(builder.type_of(&format!("har::{name}"), "", 0));
        builder.says(phase, from, thread, object, type_id);
        if phase == Phase::Wait {
            builder.says(Phase::Exec, to, thread, object, type_id);
        }
        builder.says(Phase::Done, to, thread, object, type_id);
    }
    let end = json::number(&entry.time).unwrap_or(0.0).max(at_ms);
    builder.says(Phase::Done, begin.saturating_add(json::nanoseconds(end, MILLISECOND)), thread, object, Some(whole));
}

/// Links from what Chromium says initiated a request: the last one of that URL that had begun.
fn initiators(builder: &mut Builder, thread: u32, requests: &[Request]) {
    let mut by_time: Vec<&Request> = requests.iter().collect();
    by_time.sort_by_key(|request| request.at_ns);
    let mut last = std::collections::HashMap::new();
    let type_id = Some(builder.type_of("har::initiator", "", 0));
    for request in by_time {
        if let Some(by) = request.initiator.as_deref().and_then(|url| last.get(url)) {
            builder.link(request.at_ns, thread, *by, request.object, type_id);
        }
        last.insert(request.url.as_str(), request.object);
    }
}

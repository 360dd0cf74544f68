//! Chrome's trace event JSON. An interval is an asynchronous pair (b, e) for its wait and one for its work; ids are
//! objects. A link is a flow (s, f). What we need to read it again stands in `args`.

use super::steps::{Step, pids, steps};
use crate::intervals::Object;
use crate::trace::{Thread, Trace};
use serde_json::{Value, json};
use std::io::{self, Write};

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let (objects, told) = steps(trace);
    let pids = pids(trace);
    let clock = &trace.clock;
    let about = json!({
        "clock": if clock.is_monotonic { "monotonic" } else { "own" },
        "boot": clock.boot,
        "step_ns": clock.step_ns,
        "writer": "thaw",
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
    let mut is_first = true;
    let mut line = |value: Value| -> io::Result<()> {
        out.write_all(if std::mem::take(&mut is_first) { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, &value).map_err(io::Error::from)
    };
    for (process, pid) in trace.processes.iter().zip(&pids) {
        line(json!({ "ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": { "name": process.program } }))?;
    }
    let place = |thread: u32| -> (u32, u32) {
        let of = trace.threads.get(thread as usize);
        let pid = of.and_then(|of| pids.get(of.process as usize)).copied().unwrap_or(0);
        (pid, of.map_or(0, |of| of.tid))
    };
    for (number, Thread { name, .. }) in trace.threads.iter().enumerate().filter(|(_, of)| !of.name.is_empty()) {
        let (pid, tid) = place(number as u32);
        line(json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": name } }))?;
    }
    let mut flows = 0_u64;
    for one in &told {
        let (pid, tid) = place(one.event.thread);
        let kind = one.type_id.and_then(|id| trace.types.get(&id));
        let name = trace.type_name(one.type_id);
        let at = one.event.at_ns;
        let id = |object: Object| format!("{:#x}", object.0 + 1);
        let say = |ph: &str, state: &str| {
            let mut args = json!({ "state": state });
            if let Some(called) = objects.name(one.object) {
                args["object"] = called.into();
            }
            if let Some(kind) = kind {
                args["type"] = kind.name.as_str().into();
                if !kind.file.is_empty() {
                    args["file"] = kind.file.as_str().into();
                    args["line"] = kind.line.into();
                }
            }
            let shown = if state == "wait" || state == "only" { format!("{name} (waits)") } else { name.to_owned() };
            let id = format!("{}.{}", id(one.object), one.lane);
            json!({ "ph": ph, "cat": "thaw", "name": shown, "id": id, "pid": pid, "tid": tid, "ts": ts(at),
                "args": args })
        };
        match one.step {
            Step::Wait => line(say("b", "wait"))?,
            Step::Work { has_waited } => {
                if has_waited {
                    line(say("e", "wait"))?;
                }
                line(say("b", "work"))?;
            }
            Step::Done { was_work } => line(say("e", if was_work { "work" } else { "only" }))?,
            Step::Mark => line(say("n", "mark"))?,
            Step::Link(to) => {
                flows += 1;
                let mut start = say("s", "link");
                start["id"] = flows.into();
                start["args"]["from"] = id(one.object).into();
                start["args"]["to"] = id(to).into();
                line(start)?;
                line(json!({ "ph": "f", "bp": "e", "cat": "thaw", "name": name, "id": flows, "pid": pid, "tid": tid,
                    "ts": ts(at), "args": { "state": "link" } }))?;
            }
        }
    }
    out.write_all(b"\n]}\n")
}

/// Microseconds, with the nanoseconds behind the point.
fn ts(ns: u64) -> Value {
    // A double holds them exactly for 104 days.
    if ns.is_multiple_of(1000) { (ns / 1000).into() } else { (ns as f64 / 1000.0).into() }
}

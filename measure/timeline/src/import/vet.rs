//! What Firefox's Visual Event Tracer wrote: `{"version":1,"records":[{"thread":…,"log":[{e,t,f,i,n}]}]}`.
//!
//! It put names into its texts as they were, quotes and all, and cut a record at 2048 bytes; so records are found by
//! how they begin, and a name ends where its record does. Times are milliseconds since it was started.

use super::json;
use super::numbers::Numbers;
use crate::trace::{Builder, Clock, Event, Form, Phase, Trace};
use memchr::memmem;
use serde_json::Value;

const RECORD: &[u8] = b"{\"e\":\"";
const THREAD: &[u8] = b"{\"thread\":\"";
/// Several threads work on the object at once.
const THREADSAFE: u64 = 1;

/// Reads a log.
pub fn read(bytes: &[u8]) -> Trace {
    let clock = Clock { is_calibrated: true, step_ns: 1000, ..Clock::default() };
    let mut builder = Builder::new(Form::VisualEventTracer, clock);
    let process = builder.process(0, "Firefox");
    let mut threads = Numbers::default();
    let mut thread = builder.thread(process, 0, "");
    let (mut at, mut number) = (0, 0_usize);
    while let Some((begin, is_record)) = next(bytes, at) {
        let end = next(bytes, begin + 1).map_or(bytes.len(), |(end, _)| end);
        let text = String::from_utf8_lossy(&bytes[begin..end]);
        if is_record {
            number += 1;
            let is_last = end == bytes.len();
            if !record(&mut builder, thread, &text) {
                builder.damage(match is_last {
                    true => format!("the log ends within record {number}"),
                    false => format!("record {number} is cut"),
                });
            }
        } else {
            let name = text[THREAD.len()..].split("\",\"log\"").next().unwrap_or_default();
            // Threads have no numbers; one of a name is one thread.
            let (tid, _) = threads.of(name);
            thread = builder.thread(process, tid as u32, name);
        }
        at = end;
    }
    let end: Vec<u8> = bytes.iter().rev().filter(|byte| !byte.is_ascii_whitespace()).take(4).copied().collect();
    if number == 0 {
        builder.damage("the log ends before its first record".to_owned());
    } else if end != b"}]}]" {
        builder.damage("the log was not closed: its program was killed, or it is cut".to_owned());
    }
    builder.build()
}

/// Where the next record or thread begins, and whether it is a record.
fn next(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    memmem::find_iter(bytes.get(at..)?, b"{\"").find_map(|found| {
        let rest = &bytes[at + found..];
        let is_record = rest.starts_with(RECORD);
        (is_record || rest.starts_with(THREAD)).then_some((at + found, is_record))
    })
}

fn record(builder: &mut Builder, thread: u32, text: &str) -> bool {
    try_record(builder, thread, text).is_some()
}

fn try_record(builder: &mut Builder, thread: u32, text: &str) -> Option<()> {
    let letter = text.as_bytes().get(RECORD.len())?;
    let rest = text.get(RECORD.len() + 1..)?.strip_prefix("\",\"t\":")?;
    let (time, rest) = rest.split_once(",\"f\":")?;
    let (flags, rest) = rest.split_once(",\"i\":\"")?;
    let (object, rest) = rest.split_once("\",\"n\":\"")?;
    // A name may hold the end of a record; the last one is its end. A record that was cut has none.
    let (name, is_whole) = match rest.rfind("\"}") {
        Some(end) => (&rest[..end], true),
        None => (rest.trim_end_matches(['\n', ',']), false),
    };
    let at_ns = json::nanoseconds(time.trim().parse().ok().filter(|ms: &f64| ms.is_finite())?, 1e6);
    let flags: u64 = flags.trim().parse().ok()?;
    let object = match object.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => json::whole(&Value::String(format!("0x{object}")))?,
    } & ((1 << 48) - 1);
    let phase = match letter {
        b'N' => {
            builder.name(at_ns, thread, object, name);
            return is_whole.then_some(());
        }
        b'S' => Phase::Mark,
        b'W' => Phase::Wait,
        b'E' => Phase::Exec,
        b'D' => Phase::Done,
        _ => return None,
    };
    let type_id = Some(builder.type_of(name, "", 0));
    let is_shared = flags & THREADSAFE != 0;
    builder.event(Event { at_ns, thread, phase, is_shared, object, type_id, other: None, text: None });
    is_whole.then_some(())
}

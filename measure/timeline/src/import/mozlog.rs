//! Firefox's `MOZ_LOG`, with rules that say which lines mean what: `docs/timeline-imports.md`.
//!
//! A pointer is an object of its process until a rule frees it. Lines that no rule knows are nothing.

mod rules;

pub use rules::Rules;

use super::date::unix_ns;
use super::json;
use super::numbers::Numbers;
use crate::trace::{Builder, Clock, Form, Phase, Trace};
use rules::{Act, Slot, Values};
use std::collections::HashMap;

/// A line's parts.
struct Line<'a> {
    /// `None`: the log was made without `timestamp`.
    at_ns: Option<u64>,
    process: &'a str,
    pid: u32,
    thread: &'a str,
    module: &'a str,
    text: &'a str,
}

/// Whether a line is one of such a log.
pub fn is_line(line: &str) -> bool {
    split(line).is_some()
}

/// `2026-11-25 02:44:04.476264 UTC - [Parent 21541: Main Thread]: D/nsHttp text`
fn split(line: &str) -> Option<Line<'_>> {
    let (head, rest) = line.split_once(": ").and_then(|_| line.split_once("]: "))?;
    let (stamp, who) = head.split_once('[')?;
    let at_ns = stamp.strip_suffix(" - ").and_then(unix_ns);
    if at_ns.is_none() && !stamp.is_empty() {
        return None;
    }
    let (who, thread) = who.split_once(": ").unwrap_or(("", who));
    let (process, pid) = who.rsplit_once(' ').unwrap_or((who, ""));
    let (level, rest) = rest.split_at_checked(1)?;
    let (module, text) = rest.strip_prefix('/')?.split_once(' ').unwrap_or((rest.strip_prefix('/')?, ""));
    let is_level = matches!(level, "E" | "W" | "I" | "D" | "V");
    let is_module = !module.is_empty() && !module.contains(|letter: char| letter.is_whitespace());
    (is_level && is_module).then(|| Line { at_ns, process, pid: pid.parse().unwrap_or(0), thread, module, text })
}

/// Reads a log by these rules.
pub fn read(bytes: &[u8], rules: &Rules) -> Trace {
    let clock = Clock { is_calibrated: true, step_ns: 1000, ..Clock::default() };
    let mut log = Log {
        builder: Builder::new(Form::MozLog, clock),
        threads: HashMap::new(),
        numbers: Numbers::default(),
        kept: HashMap::new(),
        names: HashMap::new(),
    };
    let (mut without_time, mut is_open) = (0_u64, false);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        is_open = line.last() != Some(&b'\n');
        let line = String::from_utf8_lossy(line);
        // The others are further lines of a text.
        let Some(line) = split(line.trim_end_matches(['\n', '\r'])) else { continue };
        match line.at_ns {
            Some(at_ns) => log.line(at_ns, &line, rules),
            None => without_time += 1,
        }
    }
    if without_time > 0 {
        log.builder.damage(format!("{without_time} lines have no time: log with MOZ_LOG=timestamp,…"));
    }
    if is_open {
        log.builder.damage("the log ends within a line".to_owned());
    }
    let mut trace = log.builder.build();
    trace.clock.realtime_ns = trace.clock.origin_ns;
    trace
}

struct Log {
    builder: Builder,
    /// Place of a thread, and of its process.
    threads: HashMap<(u32, String), (u32, u32)>,
    numbers: Numbers,
    /// What rules keep for later lines of the thread.
    kept: HashMap<u32, Values>,
    names: HashMap<u64, String>,
}

impl Log {
    fn line(&mut self, at_ns: u64, line: &Line<'_>, rules: &Rules) {
        let key = (line.pid, line.thread.to_owned());
        let (thread, process) = match self.threads.get(&key) {
            Some(known) => *known,
            None => {
                let process = self.builder.process(line.pid, line.process);
                // Threads are told by name; the first one of a process has its number.
                let (number, _) = self.numbers.of(&format!("{} {}", line.pid, line.thread));
                let tid = if line.thread == "Main Thread" { line.pid } else { number as u32 };
                let place = (self.builder.thread(process, tid, line.thread), process);
                self.threads.insert(key, place);
                place
            }
        };
        for (acts, values) in rules.of(line.module, line.text) {
            for act in acts {
                self.act(at_ns, (thread, process), act, &values);
            }
        }
    }

    fn act(&mut self, at_ns: u64, place: (u32, u32), act: &Act, values: &Values) {
        let (thread, process) = place;
        let kept = self.kept.get(&thread);
        let value = |slot: &Slot| slot.fill(|name| values.get(name).or_else(|| kept.and_then(|kept| kept.get(name))));
        let object = |slot: &Slot| value(slot).and_then(|text| number(&text, process));
        match act {
            Act::Keep(name, slot) => {
                if let Some(text) = value(slot) {
                    self.kept.entry(thread).or_default().insert(name.clone(), text);
                }
            }
            Act::Says(phase, of, name) => {
                let Some(object) = object(of) else { return };
                let type_id = name.as_ref().map(|name| self.builder.type_of(name, "", 0));
                self.builder.says(*phase, at_ns, thread, object, type_id);
                if *phase == Phase::Free {
                    self.names.remove(&object);
                }
            }
            Act::Link(from, to, name) => {
                let (Some(from), Some(to)) = (object(from), object(to)) else { return };
                let type_id = Some(self.builder.type_of(name, "", 0));
                self.builder.link(at_ns, thread, from, to, type_id);
            }
            Act::Name(of, text) => {
                let (Some(object), Some(text)) = (object(of), value(text)) else { return };
                self.builder.name(at_ns, thread, object, &text);
                self.names.insert(object, text);
            }
            Act::Called(of, like) => {
                let (Some(object), Some(like)) = (object(of), object(like)) else { return };
                let Some(name) = self.names.get(&like).cloned() else { return };
                self.builder.name(at_ns, thread, object, &name);
                self.names.insert(object, name);
            }
            Act::Arg(of, key, text) => {
                let (Some(object), Some(text)) = (object(of), value(text)) else { return };
                self.builder.arg(at_ns, thread, object, key, &text);
            }
        }
    }
}

/// The object that a pointer of a process is; `None`: it is no pointer, or null.
fn number(text: &str, process: u32) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_pointer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = json::whole(&serde_json::Value::String(format!("0x{digits}"))).filter(|_| is_pointer)?;
    (address != 0).then_some((address & ((1 << 48) - 1)) | u64::from(process) << 48)
}

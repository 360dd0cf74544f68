//! What a trace amounts to: by type, and the longest waits. Pure.

use crate::intervals::{Interval, Objects, intervals};
use crate::trace::{Clock, Form, Lost, Phase, Process, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// All intervals of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TypeRow {
    /// Its name; places of the source with the same name are one type.
    pub name: String,
    /// Where the source first has it: file and line.
    pub source: String,
    /// Intervals.
    pub intervals: u64,
    /// Marks.
    pub marks: u64,
    /// How long they waited, all added up, in nanoseconds.
    pub waited_ns: u64,
    /// The longest wait, in nanoseconds.
    pub longest_wait_ns: u64,
    /// How long they were worked on, all added up, in nanoseconds.
    pub worked_ns: u64,
    /// How many had not ended when the file did.
    pub open: u64,
}

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// What waited, as its program calls it; empty: it has no name.
    pub object: String,
    /// Its address or number.
    pub address: u64,
    /// Its type.
    pub name: String,
    /// When it began, in nanoseconds from the beginning of the file.
    pub at_ns: u64,
    /// How long it waited, in nanoseconds.
    pub waited_ns: u64,
    /// How long it was worked on afterwards, in nanoseconds; `None`: nobody did.
    pub worked_ns: Option<u64>,
    /// Whether the wait, or the work behind it, had not ended when the file did.
    pub is_open: bool,
    /// The thread that had it wait.
    pub posted_by: u32,
    /// The thread that worked on it; `None`: nobody did.
    pub worked_by: Option<u32>,
}

/// What a file of events amounts to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What it was read from.
    pub form: Form,
    /// What its times are.
    pub clock: Clock,
    /// Who it happened in.
    pub processes: Vec<Process>,
    /// Events that are in the file.
    pub events: u64,
    /// Objects that they speak of.
    pub objects: u64,
    /// Threads that wrote them.
    pub threads: u64,
    /// From its first event to its last one, in nanoseconds.
    pub span_ns: u64,
    /// By how long they waited, then by how long they worked.
    pub types: Vec<TypeRow>,
    /// The longest waits, longest first.
    pub waits: Vec<WaitRow>,
    /// What is not in the file.
    pub lost: Lost,
    /// What could not be understood.
    pub damage: Vec<String>,
}

/// Adds a trace up; with its `most` longest waits.
pub fn report(trace: &Trace, most: usize) -> Report {
    let (objects, all) = intervals(trace);
    let first = trace.events.first().map_or(0, |event| event.at_ns);
    let last = trace.events.last().map_or(0, |event| event.at_ns);
    let mut types: BTreeMap<String, TypeRow> = BTreeMap::new();
    for one in &all {
        let row = row_of(&mut types, trace, one.type_id);
        row.intervals += 1;
        row.waited_ns = row.waited_ns.saturating_add(one.waited(last));
        row.longest_wait_ns = row.longest_wait_ns.max(one.waited(last));
        row.worked_ns = row.worked_ns.saturating_add(one.worked(last));
        row.open += u64::from(one.done.is_none());
    }
    for event in trace.events.iter().filter(|event| event.phase == Phase::Mark) {
        row_of(&mut types, trace, event.type_id).marks += 1;
    }
    let mut types: Vec<TypeRow> = types.into_values().collect();
    types.sort_by_key(|row| std::cmp::Reverse((row.waited_ns, row.worked_ns, row.marks)));
    let mut waits: Vec<&Interval> = all.iter().filter(|one| one.waited(last) > 0).collect();
    waits.sort_by_key(|one| (std::cmp::Reverse(one.waited(last)), one.begin()));
    let waits = waits.iter().take(most).map(|one| wait(trace, &objects, one, last)).collect();
    Report {
        form: trace.form,
        clock: trace.clock.clone(),
        processes: trace.processes.clone(),
        events: trace.events.len() as u64,
        objects: objects.len() as u64,
        threads: trace.events.iter().map(|event| event.thread).collect::<BTreeSet<_>>().len() as u64,
        span_ns: last - first,
        types,
        waits,
        lost: trace.lost,
        damage: trace.damage.clone(),
    }
}

fn row_of<'a>(types: &'a mut BTreeMap<String, TypeRow>, trace: &Trace, id: Option<u32>) -> &'a mut TypeRow {
    let (name, source) = named(trace, id);
    types.entry(name.clone()).or_insert_with(|| TypeRow { name, source, ..TypeRow::default() })
}

fn wait(trace: &Trace, objects: &Objects, one: &Interval, last: u64) -> WaitRow {
    WaitRow {
        object: objects.name(one.object).unwrap_or_default().to_owned(),
        address: objects.address(one.object),
        name: named(trace, one.type_id).0,
        at_ns: one.begin().saturating_sub(trace.clock.origin_ns),
        waited_ns: one.waited(last),
        worked_ns: one.exec.map(|_| one.worked(last)),
        is_open: one.done.is_none(),
        posted_by: one.wait.map_or(0, |(_, thread)| tid(trace, thread)),
        worked_by: one.exec.map(|(_, thread)| tid(trace, thread)),
    }
}

fn tid(trace: &Trace, thread: u32) -> u32 {
    trace.threads.get(thread as usize).map_or(0, |of| of.tid)
}

/// The name of a type, and where it stands in the source.
fn named(trace: &Trace, id: Option<u32>) -> (String, String) {
    match id.and_then(|id| trace.types.get(&id)) {
        Some(one) if one.file.is_empty() => (one.name.clone(), String::new()),
        Some(one) if one.line == 0 => (one.name.clone(), one.file.clone()),
        Some(one) => (one.name.clone(), format!("{}:{}", one.file, one.line)),
        None => ("(type not told)".to_owned(), String::new()),
    }
}

/// `thaw.timeline/2`
#[derive(Serialize)]
pub struct Document {
    /// Name and version of this document.
    pub schema: &'static str,
    /// One of each process.
    pub files: Vec<FileReport>,
}

/// The events of a process.
#[derive(Serialize)]
pub struct FileReport {
    /// Where they are.
    pub path: String,
    /// What they amount to.
    #[serde(flatten)]
    pub report: Report,
}

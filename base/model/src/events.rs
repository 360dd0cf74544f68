//! Events as programs told them, for `timeline` (which reads them) and `recording` (which keeps them).

use crate::units::Nanos;
use serde::Serialize;
use std::path::PathBuf;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is called so from here on.
    Name,
    /// Something happened at this moment.
    Mark,
    /// It begins to wait.
    Wait,
    /// It is worked on.
    Exec,
    /// It is done.
    Done,
    /// It released, or caused, the other object.
    Link,
    /// Something to know of it, `key=value`.
    Arg,
    /// It is gone: its number may come to mean another object.
    Free,
}

/// The form that a trace was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// What `embed/events` writes.
    #[default]
    Events,
    /// Chromium's `--log-net-log`.
    NetLog,
    /// Chrome's trace event JSON.
    Chrome,
    /// HTTP archive.
    Har,
    /// Firefox's profiler, as it writes (gecko) or as its page saves (processed).
    Firefox,
    /// Firefox's `MOZ_LOG`.
    MozLog,
    /// The JSON of Firefox's Visual Event Tracer.
    VisualEventTracer,
    /// Perfetto's protobuf.
    Perfetto,
    /// The Common Trace Format of LTTng.
    Ctf,
}

/// How a type of intervals or links is known that no event of a program tells, only a rule of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Concluded {
    /// By order, place or samples.
    Likely,
    /// Not at all: there was such a time, and nothing tells what it went into.
    Unknown,
}

/// What is not among the events, counted by the program that wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Events for which there was no room, or that a signal brought in the middle of another.
    pub events: u64,
    /// Events that later ones took the place of.
    pub overwritten: u64,
    /// Types that did not fit into the tables.
    pub types: u64,
    /// Texts that were longer than 16 KiB.
    pub texts_cut: u64,
}

/// A file that events of a run were read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSourceRow {
    /// Its name when it was read.
    pub path: PathBuf,
    /// What it was read as.
    pub form: Form,
    /// Number of its first process; the next source begins with the next one.
    pub process: u32,
    /// The step of its times, in nanoseconds.
    pub step_ns: u64,
    /// Whether events of one step are a nanosecond apart, in their order.
    pub is_ordered: bool,
    /// The command line of the browser that wrote it; empty: not known.
    pub command_line: String,
}

/// A process that events tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventProcessRow {
    /// Its number in the system; 0: not known.
    pub pid: u32,
    /// The path of its program, or what the source calls it.
    pub program: String,
    /// Which types it wrote; empty: all.
    pub filter: String,
}

/// A thread that events tell of, or what a source has in its place (a track).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventThreadRow {
    /// Number of its process.
    pub process: u32,
    /// Its number in the system.
    pub tid: u32,
    /// What it is called; empty: not known.
    pub name: String,
    /// Of a track whose thread another source tells of: the number of that thread.
    pub writer: Option<u32>,
}

/// A type of objects at one place of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTypeRow {
    /// Its number.
    pub type_id: u32,
    /// With namespaces: `net::http::transaction`.
    pub name: String,
    /// The file of the source; empty: not known.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// How it is known, if no event of a program tells.
    pub concluded: Option<Concluded>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// When, since just before exec.
    pub at_ns: Nanos,
    /// Number of its thread.
    pub thread: u32,
    /// What happened.
    pub phase: Phase,
    /// Whether several threads work on the object at once.
    pub is_shared: bool,
    /// The object: any number that means one object in the whole run.
    pub object: u64,
    /// Number of its type, if it has one.
    pub type_id: Option<u32>,
    /// Of a link: the object that was released or caused.
    pub other: Option<u64>,
    /// Of a name or an argument.
    pub text: Option<Box<str>>,
}

/// All events of a run. Processes and threads are numbered by their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRows {
    /// Where they were read.
    pub sources: Vec<EventSourceRow>,
    /// Their processes.
    pub processes: Vec<EventProcessRow>,
    /// Their threads.
    pub threads: Vec<EventThreadRow>,
    /// Their types.
    pub types: Vec<EventTypeRow>,
    /// They themselves, by time.
    pub events: Vec<EventRow>,
    /// What is missing.
    pub lost: Lost,
}

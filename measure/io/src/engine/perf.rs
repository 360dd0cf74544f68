//! The best engine: perf events. Tracepoints of the process tree in one ring per CPU (children inherit
//! them), and perf's own records for processes and mappings.
//!
//! Block requests (and syncs) of the whole machine come from a trace buffer of our own instead: a request often
//! completes while its CPU is idle, and perf was seen (Linux 6.18) to count hits in the idle task of all CPUs but the
//! first without writing a record or counting a loss. On a quiet machine that would be most of the completions.
//! Only where no trace buffer can be had, perf logs them too.

use super::{
    Engine, EngineOptions,
    decode::Decoder,
    opens::OpenWatch,
    points::{Points, Role, Scope, Tasks, disk_file_systems},
};
use crate::raw::{Inode, RawMmap, RawTrace, Sees};
use model::{Bytes, Error, Exit, Result};
use os::{
    mounts::Mounts,
    perf::{Body, Count, Counter, Point, Record, Sampler, SamplerOptions},
    tracefs::{Instance, InstanceLog, Tracefs},
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

/// Trace buffer per CPU for block requests; two events of less than 100 bytes each.
const BUFFER: Bytes = Bytes(2 << 20);

/// Executable mapping.
const PROT_EXEC: u32 = libc::PROT_EXEC as u32;

/// perf events on this machine.
pub(super) struct PerfEngine {
    tracefs: Tracefs,
    points: Points,
    mounts: Mounts,
    opens: std::result::Result<(), String>,
    /// Why there is no trace buffer for block requests, if there is none.
    no_buffer: Option<String>,
    running: Option<Running>,
}

/// A trace that is being taken.
struct Running {
    pid: u32,
    sampler: Sampler,
    requests: Option<Instance>,
    opens: Option<OpenWatch>,
}

impl PerfEngine {
    /// Finds out whether this machine allows it.
    pub(super) fn open(options: &EngineOptions) -> Result<Self> {
        let mounts = Mounts::load()?;
        let tracefs = Tracefs::open()?;
        let points = Points::find(&tracefs, Tasks::FromRecords, &disk_file_systems(&mounts), options.wakes)?;
        let fill = points.sources.iter().find(|source| source.role == Role::Fill).map_or(0, |source| source.format.id);
        if Counter::open(Count::Tracepoint(fill), std::process::id())?.is_none() {
            return Err(Error::new(Exit::Machine, "perf events with tracepoints are not allowed here", "")
                .hint("run as root, or look without rights: `--engine probe`"));
        }
        let opens = OpenWatch::check(&mounts).map_err(|error| error.to_string());
        Ok(Self { tracefs, points, mounts, opens, no_buffer: None, running: None })
    }

    /// A trace buffer for block requests; `None`, and the reason in `no_buffer`, if it cannot be had.
    fn watch_requests(&mut self, pid: u32) -> Option<Instance> {
        let system = self.points.formats(Scope::System);
        if system.is_empty() {
            return None;
        }
        let started = Instance::start(&self.tracefs, "requests", pid, &[], &system, BUFFER);
        self.no_buffer = started.as_ref().err().map(|error| error.to_string());
        started.ok()
    }

    fn options(&self) -> SamplerOptions {
        let point = |scope: Scope| move |format: os::tracefs::Format| Point { id: format.id, scope, filter: None };
        let mut points: Vec<Point> = self.points.formats(Scope::Tree).into_iter().map(point(Scope::Tree)).collect();
        if self.no_buffer.is_some() {
            points.extend(self.points.formats(Scope::System).into_iter().map(point(Scope::System)));
        }
        SamplerOptions { points, ..SamplerOptions::default() }
    }
}

impl Engine for PerfEngine {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn cannot(&self) -> Vec<String> {
        let mut cannot = self.points.cannot.clone();
        cannot.push("which of the pages that were mapped around a fault was touched".into());
        match &self.opens {
            Ok(()) => {
                cannot.push("how often a file was opened exactly: opens right after each other count as one".into())
            }
            Err(why) => cannot.push(format!("how often files were opened: {why}")),
        }
        if let Some(why) = &self.no_buffer {
            cannot.push(format!("when a request was done that ended while its CPU was idle: {why}"));
        }
        cannot
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        let opens = match self.opens {
            Ok(()) => Some(OpenWatch::start(&self.mounts)?),
            Err(_) => None,
        };
        let requests = self.watch_requests(pid);
        let sampler = Sampler::start(pid, &self.options())?;
        self.running = Some(Running { pid, sampler, requests, opens });
        Ok(())
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<RawTrace> {
        let running =
            self.running.take().ok_or_else(|| Error::bug("the perf engine was stopped without being attached"))?;
        let log = running.sampler.stop()?;
        let requests = running.requests.map_or_else(|| Ok(InstanceLog::default()), Instance::stop)?;
        let mut decoder = Decoder::new(&self.points, running.pid, t0_monotonic_ns)?;
        decode(&mut decoder, log.records(), &requests);
        let mut raw = decoder.finish();
        raw.info.lost = log.lost + requests.lost;
        raw.info.bytes = log.bytes + requests.bytes;
        if let Some(opens) = running.opens {
            opens.finish(&mut raw)?;
        }
        raw.info.engine = self.name().into();
        raw.info.cannot = self.cannot();
        raw.sees = self.points.sees();
        Ok(raw)
    }
}

impl Points {
    /// Which kinds of events these tracepoints show.
    pub(super) fn sees(&self) -> Sees {
        Sees {
            asks: self.has(Role::Read) && self.has(Role::Fault),
            blocks: self.has(Role::Issue) && self.has(Role::Complete),
        }
    }
}

/// Takes the records of the rings and of the trace buffer in, by time.
fn decode(decoder: &mut Decoder, records: Vec<Record<'_>>, requests: &InstanceLog) {
    let mut requests = requests.events.iter().peekable();
    for record in records {
        while let Some(event) = requests.next_if(|event| event.stamp.time_ns <= record.stamp.time_ns) {
            decoder.tracepoint(event.stamp, event.point, &event.raw);
        }
        take_in(decoder, &record);
    }
    for event in requests {
        decoder.tracepoint(event.stamp, event.point, &event.raw);
    }
}

/// Takes one of perf's records in.
fn take_in(decoder: &mut Decoder, record: &Record<'_>) {
    let at = decoder.at(record.stamp);
    match record.body {
        Body::Sample { point, raw } => return decoder.tracepoint(record.stamp, point, raw),
        Body::Mmap2 { len, offset, dev, ino, prot, path, .. } => {
            let map = RawMmap {
                at,
                pid: record.stamp.pid,
                inode: Inode { dev, ino },
                path: PathBuf::from(OsStr::from_bytes(path)),
                offset,
                len: Bytes(len),
                exec: prot & PROT_EXEC != 0,
            };
            decoder.mmap(record.stamp, map);
        }
        Body::Comm { pid, tid, comm, exec } => {
            if exec {
                decoder.executes(pid, b"");
            }
            decoder.name(pid, tid, comm);
        }
        Body::Fork { pid, tid, parent, .. } => decoder.begin(pid, tid, parent, at),
        Body::Exit { pid, tid } => decoder.exit(pid, tid, at),
        Body::Lost { .. } | Body::Other(_) => return,
    }
    decoder.count();
}

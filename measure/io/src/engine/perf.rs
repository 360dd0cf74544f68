//! The best engine: perf's own records for processes and mappings of the tree, tracepoints in trace buffers of our own.
//!
//! A tracepoint costs the program more by perf than in a trace buffer, and each of perf's events that follows a tree is
//! made and ended anew with every thread, and goes on and off the CPU with it: Firefox's cold start took 12 % more CPU
//! time with all of it by perf, so perf's records are everybody's and those of others are left out here. Besides, a
//! block request often completes while its CPU is idle, and perf was seen (Linux 6.18) to count hits in the idle task
//! of all CPUs but the first without writing a record or counting a loss. On a quiet machine that would be most of the
//! completions. Only where no trace buffer can be had, perf logs the tracepoints too.

use super::{
    Engine, EngineOptions,
    decode::Decoder,
    opens::OpenWatch,
    points::{Points, Role, SYSTEM_BUFFER, Scope, TREE_BUFFER, Tasks, WORKERS, disk_file_systems},
};
use crate::raw::{Inode, RawMmap, RawTrace, Sees};
use model::{Bytes, Error, Exit, Result};
use os::{
    mounts::Mounts,
    perf::{Body, Count, Counter, Point, Record, Sampler, SamplerOptions},
    tracefs::{Instance, InstanceLog, Tracefs},
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

/// Executable mapping.
const PROT_EXEC: u32 = libc::PROT_EXEC as u32;

/// perf events on this machine.
pub(super) struct PerfEngine {
    tracefs: Tracefs,
    points: Points,
    mounts: Mounts,
    opens: std::result::Result<(), String>,
    /// Why there is no trace buffer, if there is none.
    no_buffer: Option<String>,
    running: Option<Running>,
}

/// A trace that is being taken.
struct Running {
    pid: u32,
    sampler: Sampler,
    buffers: Option<Instance>,
    opens: Option<OpenWatch>,
}

impl PerfEngine {
    /// Finds out whether this machine allows it.
    pub(super) fn open(options: &EngineOptions) -> Result<Self> {
        let mounts = Mounts::load()?;
        let tracefs = Tracefs::open().map_err(|error| {
            error.hint(
                "run thaw as root; where that does not help, the unprivileged engine still works: `--engine probe`",
            )
        })?;
        let points = Points::find(&tracefs, Tasks::FromRecords, &disk_file_systems(&mounts), options.wakes)?;
        let fill = points.sources.iter().find(|source| source.role == Role::Fill).map_or(0, |source| source.format.id);
        if Counter::open(Count::Tracepoint(fill), std::process::id())?.is_none() {
            return Err(Error::new(Exit::Machine, "perf events with tracepoints are not allowed here", "")
                .hint("run as root, or look without rights: `--engine probe`"));
        }
        let opens = OpenWatch::check(&mounts).map_err(|error| error.to_string());
        Ok(Self { tracefs, points, mounts, opens, no_buffer: None, running: None })
    }

    /// Trace buffers; `None`, and the reason in `no_buffer`, if they cannot be had.
    fn buffers(&mut self, pid: u32) -> Option<Instance> {
        let (tree, system) = (self.points.formats(Scope::Tree), self.points.formats(Scope::System));
        let (tree, system) = ((&*tree, TREE_BUFFER), (&*system, SYSTEM_BUFFER));
        let started = Instance::start(&self.tracefs, "start", pid, tree, system);
        self.no_buffer = started.as_ref().err().map(|error| error.to_string());
        started.ok()
    }

    fn options(&self) -> SamplerOptions {
        let scopes = [Scope::Tree, Scope::System].into_iter().filter(|_| self.no_buffer.is_some());
        let of = |scope: Scope| {
            let formats = self.points.formats(scope).into_iter();
            formats.map(move |format| Point { id: format.id, scope, filter: None })
        };
        let points = scopes.flat_map(of).collect();
        SamplerOptions { points, records: Scope::System, ..SamplerOptions::default() }
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
        let buffers = self.buffers(pid);
        let sampler = Sampler::start(pid, &self.options())?;
        self.running = Some(Running { pid, sampler, buffers, opens });
        Ok(())
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<RawTrace> {
        let running =
            self.running.take().ok_or_else(|| Error::bug("the perf engine was stopped without being attached"))?;
        let log = running.sampler.stop()?;
        let hits = running.buffers.map_or_else(|| Ok(InstanceLog::default()), Instance::stop)?;
        let mut decoder = Decoder::new(&self.points, running.pid, t0_monotonic_ns)?;
        decode(&mut decoder, log.records(), &hits);
        let unfollowed = decoder.workers && self.no_buffer.is_none();
        let mut raw = decoder.finish();
        raw.info.lost = log.lost + hits.lost;
        raw.info.bytes = log.bytes + hits.bytes;
        if let Some(opens) = running.opens {
            opens.finish(&mut raw)?;
        }
        raw.info.engine = self.name().into();
        raw.info.cannot = self.cannot();
        raw.info.cannot.extend(unfollowed.then(|| WORKERS.to_owned()));
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

/// Takes the records of the rings and of the trace buffers in, by time.
fn decode(decoder: &mut Decoder, records: Vec<Record<'_>>, hits: &InstanceLog) {
    let mut hits = hits.events.iter().peekable();
    for record in records {
        while let Some(event) = hits.next_if(|event| event.stamp.time_ns <= record.stamp.time_ns) {
            decoder.tracepoint(event.stamp, event.point, &event.raw);
        }
        take_in(decoder, &record);
    }
    for event in hits {
        decoder.tracepoint(event.stamp, event.point, &event.raw);
    }
}

/// Takes one of perf's records in.
fn take_in(decoder: &mut Decoder, record: &Record<'_>) {
    let at = decoder.at(record.stamp);
    let whose = match record.body {
        Body::Sample { point, raw } => return decoder.tracepoint(record.stamp, point, raw),
        Body::Mmap2 { .. } => record.stamp.pid,
        Body::Comm { pid, .. } | Body::Exit { pid, .. } => pid,
        // Whoever is of the tree makes what is of the tree.
        Body::Fork { parent, .. } => parent,
        Body::Lost { .. } | Body::Other(_) => return,
    };
    if !decoder.is_ours(whose) {
        return;
    }
    match record.body {
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
        Body::Sample { .. } | Body::Lost { .. } | Body::Other(_) => {}
    }
    decoder.count();
}

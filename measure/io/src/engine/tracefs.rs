//! The fall-back where perf events are not allowed: the same tracepoints in trace buffers of our own.
//! Processes and names come from tracepoints too; mappings are not seen.

use super::{
    Engine, EngineOptions,
    decode::Decoder,
    opens::OpenWatch,
    points::{Points, SYSTEM_BUFFER, Scope, TREE_BUFFER, Tasks, WORKERS, disk_file_systems},
};
use crate::raw::RawTrace;
use model::{Error, Result};
use os::{
    mounts::Mounts,
    tracefs::{Instance, Tracefs},
};

/// A tracefs instance.
pub(super) struct TracefsEngine {
    tracefs: Tracefs,
    points: Points,
    mounts: Mounts,
    opens: std::result::Result<(), String>,
    running: Option<(u32, Instance, Option<OpenWatch>)>,
}

impl TracefsEngine {
    /// Finds out whether this machine allows it.
    pub(super) fn open(options: &EngineOptions) -> Result<Self> {
        let mounts = Mounts::load()?;
        let tracefs = Tracefs::open()?;
        let points = Points::find(&tracefs, Tasks::FromTracepoints, &disk_file_systems(&mounts), options.wakes)?;
        let opens = OpenWatch::check(&mounts).map_err(|error| error.to_string());
        Ok(Self { tracefs, points, mounts, opens, running: None })
    }
}

impl Engine for TracefsEngine {
    fn name(&self) -> &'static str {
        "tracefs"
    }

    fn cannot(&self) -> Vec<String> {
        let mut cannot = self.points.cannot.clone();
        cannot.push("which files were mapped where".into());
        cannot.push("which of the pages that were mapped around a fault was touched".into());
        match &self.opens {
            Ok(()) => {
                cannot.push("how often a file was opened exactly: opens right after each other count as one".into())
            }
            Err(why) => cannot.push(format!("how often files were opened: {why}")),
        }
        cannot
    }

    fn attach(&mut self, pid: u32) -> Result<()> {
        let opens = match self.opens {
            Ok(()) => Some(OpenWatch::start(&self.mounts)?),
            Err(_) => None,
        };
        let (tree, system) = (self.points.formats(Scope::Tree), self.points.formats(Scope::System));
        let instance = Instance::start(&self.tracefs, "trace", pid, (&tree, TREE_BUFFER), (&system, SYSTEM_BUFFER))?;
        self.running = Some((pid, instance, opens));
        Ok(())
    }

    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<RawTrace> {
        let (pid, instance, opens) =
            self.running.take().ok_or_else(|| Error::bug("the tracefs engine was stopped without being attached"))?;
        let log = instance.stop()?;
        let mut decoder = Decoder::new(&self.points, pid, t0_monotonic_ns)?;
        for event in &log.events {
            decoder.tracepoint(event.stamp, event.point, &event.raw);
        }
        let unfollowed = decoder.workers;
        let mut raw = decoder.finish();
        if let Some(opens) = opens {
            opens.finish(&mut raw)?;
        }
        raw.info.engine = self.name().into();
        raw.info.cannot = self.cannot();
        raw.info.cannot.extend(unfollowed.then(|| WORKERS.to_owned()));
        raw.info.lost = log.lost;
        raw.info.bytes = log.bytes;
        raw.sees = self.points.sees();
        Ok(raw)
    }
}

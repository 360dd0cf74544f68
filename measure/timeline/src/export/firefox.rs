//! A processed profile of the Firefox Profiler: waits, work and marks as markers of their threads, with the object that
//! they are of. The version of the format that we write has no arrows: a link is a marker with both of its ends.

use super::steps::{Step, Told, pids, steps};
use crate::intervals::Object;
use crate::trace::Trace;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, Profile, SamplingInterval,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

struct Marker {
    name: StringHandle,
    category: CategoryHandle,
    object: StringHandle,
    to: StringHandle,
}

impl StaticSchemaMarker for Marker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "thaw";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.object}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.object} {marker.data.to}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "object",
            label: "Object",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
        StaticSchemaMarkerField {
            key: "to",
            label: "Released or caused",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        if field == 0 { self.object } else { self.to }
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}

/// A wait, or work, that has begun.
struct Begun {
    from: u64,
    thread: u32,
    type_id: Option<u32>,
    is_work: bool,
    has_waited: bool,
}

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let (objects, told) = steps(trace);
    let pids = pids(trace);
    let origin = trace.clock.origin_ns.min(trace.events.first().map_or(u64::MAX, |event| event.at_ns));
    let created = UNIX_EPOCH + Duration::from_nanos(trace.clock.realtime_ns);
    let name = trace.processes.first().map_or("events", |of| of.program.as_str());
    let mut profile = Profile::new(&format!("thaw: {name}"), created.into(), SamplingInterval::from_millis(1));
    let waits = profile.add_category("Waits", CategoryColor::Orange);
    let works = profile.add_category("Works", CategoryColor::Green);
    let links = profile.add_category("Links", CategoryColor::Purple);
    let start = Timestamp::from_nanos_since_reference(0);
    let mut processes = Vec::new();
    for (process, pid) in trace.processes.iter().zip(&pids) {
        processes.push(profile.add_process(&process.program, *pid, start));
    }
    let mut threads: Vec<Option<ThreadHandle>> = Vec::new();
    for thread in &trace.threads {
        let process = processes.get(thread.process as usize);
        threads.push(process.map(|process| {
            let is_main = trace.processes[thread.process as usize].pid == thread.tid;
            let handle = profile.add_thread(*process, thread.tid, start, is_main);
            profile.set_thread_name(handle, &thread.name);
            handle
        }));
    }
    let at = |ns: u64| Timestamp::from_nanos_since_reference(ns.saturating_sub(origin));
    // When the wait or the work on a lane of an object began, and on which thread.
    let mut began: HashMap<(Object, usize), Begun> = HashMap::new();
    let mark = |profile: &mut Profile, thread: u32, timing, category, type_id, object: Object, to: Option<Object>| {
        let Some(Some(handle)) = threads.get(thread as usize) else { return };
        let marker = Marker {
            name: profile.intern_string(trace.type_name(type_id)),
            category,
            object: profile.intern_string(&objects.called(object)),
            to: profile.intern_string(&to.map_or(String::new(), |to| objects.called(to))),
        };
        profile.add_marker(*handle, timing, marker);
    };
    for one in &told {
        let &Told { event, type_id, object, lane, step } = one;
        let here = (object, lane);
        let begun = |is_work, has_waited| {
            let (from, thread) = (event.at_ns, event.thread);
            Begun { from, thread, type_id, is_work, has_waited }
        };
        let end = |profile: &mut Profile, began: &mut HashMap<_, Begun>| {
            let Some(Begun { from, thread, type_id, is_work, has_waited }) = began.remove(&here) else { return };
            // The work behind a wait that is only a wait.
            if is_work && has_waited && from == event.at_ns {
                return;
            }
            let timing = MarkerTiming::Interval(at(from), at(event.at_ns));
            mark(profile, thread, timing, if is_work { works } else { waits }, type_id, object, None);
        };
        match step {
            Step::Wait => {
                began.insert(here, begun(false, false));
            }
            Step::Work { has_waited } => {
                end(&mut profile, &mut began);
                began.insert(here, begun(true, has_waited));
            }
            Step::Done { .. } => end(&mut profile, &mut began),
            Step::Mark => {
                let timing = MarkerTiming::Instant(at(event.at_ns));
                mark(&mut profile, event.thread, timing, works, type_id, object, None);
            }
            Step::Link(to) => {
                let timing = MarkerTiming::Instant(at(event.at_ns));
                mark(&mut profile, event.thread, timing, links, type_id, object, Some(to));
            }
        }
    }
    let mut never: Vec<_> = began.into_iter().collect();
    never.sort_by_key(|((object, lane), one)| (one.from, *object, *lane));
    for ((object, _), Begun { from, thread, type_id, is_work, .. }) in never {
        let category = if is_work { works } else { waits };
        mark(&mut profile, thread, MarkerTiming::IntervalStart(at(from)), category, type_id, object, None);
    }
    serde_json::to_writer(out, &profile).map_err(io::Error::from)
}

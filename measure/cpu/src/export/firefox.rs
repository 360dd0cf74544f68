//! A processed profile of the Firefox Profiler: samples of each thread, what it waited for as markers with the function
//! that began to wait, and a thread of its own for the path.

use super::{About, sampled};
use crate::cuts::{Cutter, Seen};
use crate::path;
use crate::states::States;
use crate::trace::{Frame, StackId, Thread, Trace};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming,
    ProcessHandle, Profile, SamplingInterval, StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle,
    ThreadHandle, Timestamp,
};
use model::Nanos;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

struct Marker {
    name: StringHandle,
    category: CategoryHandle,
    place: StringHandle,
}

impl StaticSchemaMarker for Marker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "thaw-why";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.place}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "place",
        label: "Where",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.place
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}

fn at(ns: Nanos) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns.0)
}

/// What is added to a profile.
struct Adder<'a> {
    trace: &'a Trace,
    profile: Profile,
    user: CategoryHandle,
    kernel: CategoryHandle,
    waits: CategoryHandle,
    lacks: CategoryHandle,
    labels: Vec<StringHandle>,
}

pub fn write(trace: &Trace, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let started = UNIX_EPOCH + Duration::from_nanos(about.started_unix_ns);
    let tick = SamplingInterval::from_nanos(trace.tick.0.max(1));
    let mut profile = Profile::new(&format!("thaw why: {}", about.name), started.into(), tick);
    profile.set_symbolicated(true);
    let user = profile.add_category("User", CategoryColor::Yellow);
    let kernel = profile.add_category("Kernel", CategoryColor::Orange);
    let waits = profile.add_category("Waits", CategoryColor::Blue);
    let lacks = profile.add_category("Lacks a CPU", CategoryColor::Red);
    let labels = trace.stacks.frames().iter().map(|frame| profile.intern_string(&described(frame))).collect();
    let mut adder = Adder { trace, profile, user, kernel, waits, lacks, labels };
    let mut processes: BTreeMap<u32, ProcessHandle> = BTreeMap::new();
    let mut handles: HashMap<(u32, Nanos), ThreadHandle> = HashMap::new();
    for (thread, samples) in sampled(trace) {
        let handle = adder.thread(thread, &mut processes);
        handles.insert((thread.tid, thread.start), handle);
        for sample in samples {
            let stack = adder.stack(handle, sample.stack);
            let delta = CpuDelta::from(Duration::from_nanos(trace.tick.0));
            adder.profile.add_sample(handle, at(sample.at), stack, delta, 1);
        }
    }
    adder.waits(&handles);
    if let Some(root) = processes.get(&trace.root) {
        adder.path(*root);
    }
    serde_json::to_writer(out, &adder.profile).map_err(io::Error::from)
}

/// `function (in object)`, without its line: a function is one, wherever in it a sample was.
fn described(frame: &Frame) -> String {
    format!("{} (in {})", frame.label(), frame.object_name())
}

impl Adder<'_> {
    fn thread(&mut self, thread: &Thread, processes: &mut BTreeMap<u32, ProcessHandle>) -> ThreadHandle {
        let profile = &mut self.profile;
        let process = *processes
            .entry(thread.pid)
            .or_insert_with(|| profile.add_process(&thread.name, thread.pid, at(thread.start)));
        let handle = profile.add_thread(process, thread.tid, at(thread.start), thread.tid == thread.pid);
        profile.set_thread_name(handle, &thread.name);
        if let Some(end) = thread.end {
            profile.set_thread_end_time(handle, at(end));
        }
        handle
    }

    fn stack(&mut self, thread: ThreadHandle, stack: Option<StackId>) -> Option<StackHandle> {
        let mut frames = Vec::new();
        let mut here = stack;
        while let Some(node) = here {
            let (caller, frame) = self.trace.stacks.nodes()[node.0 as usize];
            let category = if self.trace.stacks.get(frame).is_kernel() { self.kernel } else { self.user };
            frames.push(FrameInfo {
                frame: fxprof_processed_profile::Frame::Label(self.labels[frame.0 as usize]),
                category_pair: category.into(),
                flags: FrameFlags::empty(),
            });
            here = caller;
        }
        self.profile.intern_stack_frames(thread, frames.into_iter().rev())
    }

    fn mark(&mut self, thread: ThreadHandle, from: Nanos, to: Nanos, seen: Seen, stack: Option<StackId>) {
        let (text, category) = match seen {
            Seen::User => ("runs the program".to_owned(), self.user),
            Seen::Kernel => ("runs in the kernel".to_owned(), self.kernel),
            Seen::Runs => ("runs".to_owned(), self.user),
            Seen::LacksCpu => ("lacks a CPU".to_owned(), self.lacks),
            Seen::Waits(kind) => (format!("waits {}", kind.phrase()), self.waits),
            Seen::Unknown => ("not known".to_owned(), CategoryHandle::OTHER),
        };
        let mut program = self.trace.stacks.walk(stack).filter(|frame| !frame.is_kernel());
        let place = program.next().map_or(String::new(), described);
        let marker =
            Marker { name: self.profile.intern_string(&text), category, place: self.profile.intern_string(&place) };
        self.profile.add_marker(thread, MarkerTiming::Interval(at(from), at(to)), marker);
    }

    /// What threads of the tree waited for, a CPU among it.
    fn waits(&mut self, handles: &HashMap<(u32, Nanos), ThreadHandle>) {
        let states = States::of(self.trace);
        let mut cutter = Cutter::of(self.trace, &states);
        for (index, life) in states.lives.iter().enumerate() {
            let Some(handle) = handles.get(&(life.thread.tid, life.thread.start)) else { continue };
            for cut in cutter.life(index).iter().filter(|cut| !cut.seen.runs()) {
                self.mark(*handle, cut.from, cut.to, cut.seen, cut.stack);
            }
        }
    }

    /// The path as a thread that is none.
    fn path(&mut self, root: ProcessHandle) {
        let states = States::of(self.trace);
        let mut cutter = Cutter::of(self.trace, &states);
        let thread = self.profile.add_thread(root, 0, at(Nanos(0)), false);
        self.profile.set_thread_name(thread, "the critical path");
        for step in path::path(self.trace, &states) {
            let mut cuts = cutter.step(&step).into_iter().peekable();
            // Neighbours in one function are one marker.
            while let Some(mut cut) = cuts.next() {
                while let Some(next) = cuts.next_if(|next| (next.seen, next.stack) == (cut.seen, cut.stack)) {
                    cut.to = next.to;
                }
                self.mark(thread, cut.from, cut.to, cut.seen, cut.stack);
            }
        }
    }
}

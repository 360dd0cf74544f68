//! What every source of events amounts to, own file or import: objects, types, threads and what happened. Pure.

pub use model::{Concluded, Form, Lost, Phase};
use serde::Serialize;
use std::collections::BTreeMap;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// In nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// The thread that it happened on: its place in [`Trace::threads`].
    pub thread: u32,
    /// What happened.
    pub phase: Phase,
    /// Whether several threads work on the object at once: each thread's events belong together.
    pub is_shared: bool,
    /// The object: any number that means one object in the whole trace. [`Trace::address`] is what its program calls
    /// it.
    pub object: u64,
    /// Number of its type, if it has one.
    pub type_id: Option<u32>,
    /// Of a link: the object that was released or caused.
    pub other: Option<u64>,
    /// Of a name or an argument.
    pub text: Option<Box<str>>,
}

/// A type at one place of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Type {
    /// With namespaces: `net::http::transaction`.
    pub name: String,
    /// The file of the source; empty: not known.
    pub file: String,
    /// The line in it.
    pub line: u32,
}

/// A thread, or what a source has in its place (a track).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its number in its process.
    pub tid: u32,
    /// What it is called; empty: not known.
    pub name: String,
    /// Whose it is: its place in [`Trace::processes`].
    pub process: u32,
}

/// Who it happened in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its number; 0: not known.
    pub pid: u32,
    /// The path of its program, or what the source calls it.
    pub program: String,
    /// Which types it wrote; empty: all.
    pub filter: String,
}

/// What the times of a trace are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Whether they are `CLOCK_MONOTONIC` of the boot; else they count from an origin of their own.
    pub is_monotonic: bool,
    /// The kernel's `boot_id` without dashes; empty: not known. Monotonic times of one boot can be held against each
    /// other.
    pub boot: String,
    /// Whether their rate is known; if not, times are ticks of a counter.
    pub is_calibrated: bool,
    /// `CLOCK_REALTIME` in nanoseconds at [`Clock::origin_ns`]; 0: not known.
    pub realtime_ns: u64,
    /// When the trace begins, on its own clock.
    pub origin_ns: u64,
    /// The step of the times, in nanoseconds: 1,000,000 of a source that writes milliseconds.
    pub step_ns: u64,
    /// Whether events of one step are a nanosecond apart, in their order.
    pub is_ordered: bool,
}

/// Clocks of two threads may differ by so much, in nanoseconds.
const SKEW_NS: u64 = 200;

/// One of the files that a trace was joined of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its first process: its place in [`Trace::processes`]. The next source begins with the next one.
    pub process: u32,
    /// What it was read from.
    pub form: Form,
    /// The step of its times, in nanoseconds.
    pub step_ns: u64,
    /// [`Clock::is_ordered`].
    pub is_ordered: bool,
    /// The command line of the browser that wrote it; empty: not known.
    pub command_line: String,
}

/// Events of one or several processes on one clock.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trace {
    /// What it was read from.
    pub form: Form,
    /// What its times are.
    pub clock: Clock,
    /// The files, in the order of their processes; of a trace that was put together event by event there is none.
    pub sources: Vec<Source>,
    /// Who it happened in.
    pub processes: Vec<Process>,
    /// Their threads.
    pub threads: Vec<Thread>,
    /// By number. Several numbers may have one name: they are one type at several places of the source.
    pub types: BTreeMap<u32, Type>,
    /// Types of what was concluded.
    pub concluded: BTreeMap<u32, Concluded>,
    /// In the order of time.
    pub events: Vec<Event>,
    /// Of tracks whose thread another file tells of: the track and the thread that wrote it, by their places.
    pub writers: BTreeMap<u32, u32>,
    /// Who woke whom, by the kernel, in the order of time; empty: nobody looked.
    pub wakes: Vec<Wake>,
    /// What is not here.
    pub lost: Lost,
    /// What could not be understood, with its place.
    pub damage: Vec<String>,
    /// What two files tell of the same, and could not be brought together, with the reason.
    pub not_joined: Vec<String>,
}

/// A thread was woken: what it had slept for was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wake {
    /// When, in nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// The thread: its place in [`Trace::threads`].
    pub thread: u32,
    /// The thread that woke it; `None`: one that no event tells of, or an interrupt.
    pub by: Option<u32>,
    /// What it was that woke it, in words: a thread's name, a request of a disk. Empty: an interrupt of which nothing
    /// else is known.
    pub what: Box<str>,
}

/// Type of links that a rule found, and no file tells.
pub const INFERRED: &str = "thaw::inferred";

/// Bits of an object's number that are its program's own; those above tell processes apart.
const OWN_BITS: u32 = 48;

impl Trace {
    /// The address or number by which an object's own program knows it.
    pub fn address(object: u64) -> u64 {
        object & ((1 << OWN_BITS) - 1)
    }

    /// Which process an object is of, by its place in [`Trace::processes`], in a trace of joined files.
    pub fn process(object: u64) -> u64 {
        object >> OWN_BITS
    }

    /// The form that a process is told in, and by how much the times of its events may be off; by the process's place.
    pub fn told_in(&self, process: u32) -> (Form, u64) {
        let after = self.sources.partition_point(|source| source.process <= process);
        let source = after.checked_sub(1).map(|place| &self.sources[place]);
        let clock = (self.form, self.clock.step_ns, self.clock.is_ordered);
        let (form, step, is_ordered) = source.map_or(clock, |source| (source.form, source.step_ns, source.is_ordered));
        (form, if is_ordered { 0 } else { step.max(SKEW_NS) })
    }

    /// All of it as one file.
    pub fn whole(&self) -> Source {
        let (step_ns, is_ordered) = (self.clock.step_ns, self.clock.is_ordered);
        Source { process: 0, form: self.form, step_ns, is_ordered, command_line: String::new() }
    }

    /// The name of a type, and where it stands in the source.
    pub fn type_name(&self, id: Option<u32>) -> &str {
        id.and_then(|id| self.types.get(&id)).map_or("(type not told)", |of| of.name.as_str())
    }

    /// Puts its times on another clock, by the wall clock's time of both. `false`: one of them does not know that time.
    pub fn put_on(&mut self, clock: &Clock) -> bool {
        if self.events.is_empty() {
            self.clock = clock.clone();
            return true;
        }
        if self.clock.realtime_ns == 0 || clock.realtime_ns == 0 {
            return false;
        }
        let own = i128::from(self.clock.realtime_ns) - i128::from(self.clock.origin_ns);
        let its = i128::from(clock.realtime_ns) - i128::from(clock.origin_ns);
        let moved = |at: u64| u64::try_from((i128::from(at) + own - its).max(0)).unwrap_or(u64::MAX);
        self.events.iter_mut().for_each(|event| event.at_ns = moved(event.at_ns));
        self.wakes.iter_mut().for_each(|wake| wake.at_ns = moved(wake.at_ns));
        let origin_ns = moved(self.clock.origin_ns);
        let (realtime_ns, step_ns) = (self.clock.realtime_ns, self.clock.step_ns);
        self.clock = Clock { origin_ns, realtime_ns, step_ns, ..clock.clone() };
        true
    }

    /// Adds the processes of another trace of the same clock. Their objects, types and threads stay their own.
    pub fn join(&mut self, other: Self) {
        let (processes, threads) = (self.processes.len() as u32, self.threads.len() as u32);
        let types = self.types.last_key_value().map_or(0, |(last, _)| last + 1);
        let own = |object: u64| object.wrapping_add(u64::from(processes) << OWN_BITS);
        if self.sources.is_empty() {
            self.sources.push(self.whole());
        }
        let others = if other.sources.is_empty() { vec![other.whole()] } else { other.sources };
        self.sources.extend(others.into_iter().map(|of| Source { process: of.process + processes, ..of }));
        self.processes.extend(other.processes);
        self.threads
            .extend(other.threads.into_iter().map(|thread| Thread { process: thread.process + processes, ..thread }));
        self.types.extend(other.types.into_iter().map(|(id, of)| (id + types, of)));
        self.concluded.extend(other.concluded.into_iter().map(|(id, how)| (id + types, how)));
        self.events.extend(other.events.into_iter().map(|event| Event {
            thread: event.thread + threads,
            object: own(event.object),
            other: event.other.map(own),
            type_id: event.type_id.map(|id| id + types),
            ..event
        }));
        self.events.sort_by_key(|event| event.at_ns);
        self.wakes.extend(other.wakes.into_iter().map(|wake| Wake {
            thread: wake.thread + threads,
            by: wake.by.map(|by| by + threads),
            ..wake
        }));
        self.wakes.sort_by_key(|wake| wake.at_ns);
        self.lost.events += other.lost.events;
        self.lost.overwritten += other.lost.overwritten;
        self.lost.types += other.lost.types;
        self.lost.texts_cut += other.lost.texts_cut;
        self.damage.extend(other.damage);
        self.not_joined.extend(other.not_joined);
        self.writers.extend(other.writers.into_iter().map(|(track, thread)| (track + threads, thread + threads)));
        self.clock.origin_ns = self.clock.origin_ns.min(other.clock.origin_ns);
    }
}

/// Puts a trace together event by event: what an import says of its source.
#[derive(Debug, Default)]
pub struct Builder {
    trace: Trace,
    types: BTreeMap<(String, String, u32), u32>,
    threads: BTreeMap<(u32, u32), u32>,
}

impl Builder {
    /// Of this form, on this clock.
    pub fn new(form: Form, clock: Clock) -> Self {
        Self { trace: Trace { form, clock, ..Trace::default() }, ..Self::default() }
    }

    /// The command line of the browser that wrote it.
    pub fn written_by(&mut self, command_line: String) {
        let whole = self.trace.whole();
        self.trace.sources = vec![Source { command_line, ..whole }];
    }

    /// A process; its place.
    pub fn process(&mut self, pid: u32, program: &str) -> u32 {
        let known = self.trace.processes.iter().position(|of| of.pid == pid);
        let place = known.unwrap_or(self.trace.processes.len());
        match known {
            Some(place) if !program.is_empty() => program.clone_into(&mut self.trace.processes[place].program),
            Some(_) => {}
            None => self.trace.processes.push(Process { pid, program: program.to_owned(), filter: String::new() }),
        }
        place as u32
    }

    /// A thread of a process (by its place); its place. A name that is not empty takes the place of the one before.
    pub fn thread(&mut self, process: u32, tid: u32, name: &str) -> u32 {
        let place = *self.threads.entry((process, tid)).or_insert_with(|| {
            self.trace.threads.push(Thread { tid, name: String::new(), process });
            self.trace.threads.len() as u32 - 1
        });
        if !name.is_empty() {
            name.clone_into(&mut self.trace.threads[place as usize].name);
        }
        place
    }

    /// The number of a type; of several calls with one name, file and line the same one.
    pub fn type_of(&mut self, name: &str, file: &str, line: u32) -> u32 {
        let next = self.types.len() as u32 + 1;
        let key = (name.to_owned(), file.to_owned(), line);
        *self.types.entry(key).or_insert_with(|| {
            self.trace.types.insert(next, Type { name: name.to_owned(), file: file.to_owned(), line });
            next
        })
    }

    /// The number of a type of what no event tells.
    pub fn concluded(&mut self, name: &str, how: Concluded) -> u32 {
        let type_id = self.type_of(name, "", 0);
        self.trace.concluded.insert(type_id, how);
        type_id
    }

    /// An event, in any order of time.
    pub fn event(&mut self, event: Event) {
        self.trace.events.push(event);
    }

    /// WAIT, EXEC, DONE, MARK or FREE.
    pub fn says(&mut self, phase: Phase, at_ns: u64, thread: u32, object: u64, type_id: Option<u32>) {
        self.event(Event { at_ns, thread, phase, is_shared: false, object, type_id, other: None, text: None });
    }

    /// `from` released, or caused, `to`.
    pub fn link(&mut self, at_ns: u64, thread: u32, from: u64, to: u64, type_id: Option<u32>) {
        let (phase, other) = (Phase::Link, Some(to));
        self.event(Event { at_ns, thread, phase, is_shared: false, object: from, type_id, other, text: None });
    }

    /// The object is called so from here on.
    pub fn name(&mut self, at_ns: u64, thread: u32, object: u64, text: &str) {
        self.text(Phase::Name, at_ns, thread, object, text.into());
    }

    /// Something to know of the object.
    pub fn arg(&mut self, at_ns: u64, thread: u32, object: u64, key: &str, value: &str) {
        self.text(Phase::Arg, at_ns, thread, object, format!("{key}={value}").into());
    }

    fn text(&mut self, phase: Phase, at_ns: u64, thread: u32, object: u64, text: Box<str>) {
        let text = Some(text);
        self.event(Event { at_ns, thread, phase, is_shared: false, object, type_id: None, other: None, text });
    }

    /// Something that could not be understood; after a hundred it is enough.
    pub fn damage(&mut self, what: String) {
        if self.trace.damage.len() < 100 {
            self.trace.damage.push(what);
        }
    }

    /// The trace. Events of one moment stay in the order in which they came.
    pub fn build(mut self) -> Trace {
        self.trace.events.sort_by_key(|event| event.at_ns);
        if self.trace.clock.origin_ns == 0 {
            self.trace.clock.origin_ns = self.trace.events.first().map_or(0, |event| event.at_ns);
        }
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_to_another_clock_by_the_wall_clock_if_both_know_it() {
        let clock = |origin_ns, realtime_ns| Clock { is_monotonic: true, origin_ns, realtime_ns, ..Clock::default() };
        let mut log = Builder::new(Form::MozLog, Clock { realtime_ns: 900, origin_ns: 900, ..Clock::default() });
        log.says(Phase::Mark, 905, 0, 1, None);
        let mut log = log.build();
        assert!(!log.put_on(&clock(10, 0)) && log.put_on(&clock(10, 880)));
        assert_eq!((log.events[0].at_ns, log.clock.origin_ns, log.clock.is_monotonic), (35, 30, true));
        let mut empty = Trace { form: Form::MozLog, ..Trace::default() };
        assert!(empty.put_on(&clock(10, 880)), "it has no times");
        assert_eq!(empty.clock.origin_ns, 10);
    }

    #[test]
    fn joined_traces_keep_their_objects_types_and_threads_apart() {
        let one = |pid| {
            let mut builder = Builder::new(Form::Events, Clock::default());
            let process = builder.process(pid, "a");
            let thread = builder.thread(process, pid, "main");
            let of = builder.type_of("x", "", 0);
            builder.says(Phase::Mark, u64::from(pid), thread, 5, Some(of));
            builder.link(u64::from(pid), thread, 5, 6, Some(of));
            builder.build()
        };
        let mut all = one(9);
        all.join(one(7));
        let seen: Vec<_> = all.events.iter().map(|event| (event.at_ns, event.thread, event.object >> 48)).collect();
        assert_eq!(seen, [(7, 1, 1), (7, 1, 1), (9, 0, 0), (9, 0, 0)]);
        assert_eq!(all.events[1].other.map(Trace::address), Some(6));
        assert_eq!((all.threads[1].process, all.processes[1].pid, all.clock.origin_ns), (1, 7, 7));
        assert_ne!(all.events[0].type_id, all.events[2].type_id);
    }
}

//! What becomes of events: pairs are work, everything else is a mark.

use super::layout::Metadata;
use super::streams::{Happened, Held, Whose};
use crate::import::numbers::{Numbers, Slices};
use crate::trace::{Builder, Clock, Event, Form, Phase, Trace};
use std::collections::{HashMap, HashSet};

/// How names end of which the one begins what the other one ends.
const PAIRS: [(&str, &str); 3] = [("begin", "end"), ("entry", "exit"), ("start", "stop")];
/// How the kernel's events begin that enter and leave system calls.
const SYSTEM_CALL: (&str, &str) = ("syscall_entry_", "syscall_exit_");

/// The kernel's requests of disks, which another thread's interrupt may complete, and the fields that tell them apart.
const REQUEST: (&str, &str) = ("block_rq_issue", "block_rq_complete");
const OF_REQUEST: [&str; 2] = ["dev", "sector"];
/// In the place of a thread, for what may end on any.
const ANY_THREAD: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Begin,
    End,
    Mark,
}

/// What a class of events means.
#[derive(Clone, Debug)]
struct Meaning {
    role: Role,
    type_id: u32,
    /// It may end on another thread than it began on.
    is_request: bool,
}

/// The trace of what streams held.
pub fn trace(metadata: &Metadata, held: Held) -> Trace {
    let mut builder = Builder::new(Form::Ctf, Clock { is_calibrated: true, step_ns: 1, ..Clock::default() });
    let meanings = meanings(metadata, &mut builder);
    held.damage.into_iter().for_each(|what| builder.damage(what));
    let mut events = held.events;
    events.sort_by_key(|event| event.at_ns);
    let mut telling = Telling {
        metadata,
        builder,
        slices: Slices::default(),
        numbers: Numbers::default(),
        open: HashMap::new(),
        unbegun: 0,
        homeless: 0,
        later: Vec::new(),
    };
    for event in events {
        telling.event(event, &meanings);
    }
    let mut trace = telling.build();
    trace.lost.events = held.discarded;
    set_clock(&mut trace, metadata);
    trace
}

/// LTTng's clock is `CLOCK_MONOTONIC`, and its UUID is that of the boot.
fn set_clock(trace: &mut Trace, metadata: &Metadata) {
    let Some(clock) = metadata.clocks.first() else { return };
    trace.clock.is_monotonic = &*clock.name == "monotonic";
    if trace.clock.is_monotonic {
        trace.clock.boot = clock.uuid.replace('-', "");
    }
    let realtime = clock.offset_ns() + i128::from(trace.clock.origin_ns);
    trace.clock.realtime_ns = u64::try_from(realtime).unwrap_or(0);
    trace.clock.step_ns = (1_000_000_000 / clock.frequency).max(1);
}

fn meanings(metadata: &Metadata, builder: &mut Builder) -> Vec<Meaning> {
    let names: HashSet<&str> = metadata.events.iter().map(|class| &*class.name).collect();
    let mut all = Vec::with_capacity(metadata.events.len());
    for class in &metadata.events {
        let (role, name) = role(&class.name, &names);
        let is_request = [REQUEST.0, REQUEST.1].contains(&&*class.name);
        all.push(Meaning { role, type_id: builder.type_of(&name.replace(':', "::"), "", 0), is_request });
    }
    all
}

/// What an event of this name does, and the name of what it does that to. One without its other half is a mark.
fn role(name: &str, names: &HashSet<&str>) -> (Role, String) {
    let has = |other: &str| names.contains(other);
    for (own, other, role) in both(SYSTEM_CALL) {
        if let Some(call) = name.strip_prefix(own)
            && has(&format!("{other}{call}"))
        {
            return (role, format!("syscall:{call}"));
        }
    }
    for (own, other, role) in both(REQUEST) {
        if name == own && has(other) {
            return (role, "block:request".to_owned());
        }
    }
    for (own, other, role) in PAIRS.into_iter().flat_map(both) {
        if let Some(stem) = name.strip_suffix(own)
            && stem.ends_with(['_', ':'])
            && has(&format!("{stem}{other}"))
        {
            return (role, stem[..stem.len() - 1].to_owned());
        }
    }
    (Role::Mark, name.to_owned())
}

/// Each half of a pair with the other one.
fn both((begin, end): (&'static str, &'static str)) -> [(&'static str, &'static str, Role); 2] {
    [(begin, end, Role::Begin), (end, begin, Role::End)]
}

/// Where something happens: a thread, and the object that is worked on.
type Place = (u32, u64);

/// Something that began on a thread: its type and the fields that tell it from others of the type.
type Key = (u32, u32, String);

struct Telling<'a> {
    metadata: &'a Metadata,
    builder: Builder,
    slices: Slices,
    numbers: Numbers,
    /// What began and has not ended, innermost last.
    open: HashMap<Key, Vec<(u64, Place)>>,
    unbegun: u64,
    homeless: u64,
    /// Marks and arguments: said when the work is, so that they come behind it in their moment.
    later: Vec<Said>,
}

/// What is said of a moment beside its work.
struct Said {
    at_ns: u64,
    place: Place,
    mark: Option<u32>,
    args: Vec<Box<str>>,
}

impl Telling<'_> {
    fn event(&mut self, event: Happened, meanings: &[Meaning]) {
        let Some(meaning) = meanings.get(event.class) else { return };
        let (at_ns, type_id) = (event.at_ns, meaning.type_id);
        let (thread, is_known) = self.thread(&event.whose, event.cpu);
        let own = self.own_object(at_ns, thread, &event);
        let is_half = meaning.role != Role::Mark;
        let is_paired = is_half && (is_known || meaning.is_request);
        self.homeless += u64::from(is_half && !is_paired);
        let id = if is_paired { identity(&event.args, meaning.is_request) } else { String::new() };
        let key = (if meaning.is_request { ANY_THREAD } else { thread }, type_id, id);
        let (place, mark) = match meaning.role {
            Role::Begin if is_paired => {
                let place = (thread, self.worked_on(at_ns, (thread, own), &key));
                self.open.entry(key).or_default().push((at_ns, place));
                (place, None)
            }
            Role::End if is_paired => match self.open.get_mut(&key).and_then(Vec::pop) {
                Some((begin, place)) => {
                    self.slices.whole(place.0, place.1, begin, at_ns, type_id);
                    (place, None)
                }
                None => {
                    self.unbegun += 1;
                    ((thread, own), Some(type_id))
                }
            },
            _ => ((thread, own), Some(type_id)),
        };
        self.later.push(Said { at_ns, place, mark, args: event.args });
    }

    /// Its place, and whether it is told; without that, the CPU has the place of a thread.
    fn thread(&mut self, whose: &Whose, cpu: u32) -> (u32, bool) {
        let env = |name: &str| self.metadata.env.get(name);
        let pid = whose.pid.or_else(|| env("vpid").and_then(|pid| pid.parse().ok())).unwrap_or(0);
        let name = whose.name.as_deref().unwrap_or_default();
        // What its first thread is called, or the first that is seen.
        let program = match (env("procname"), whose.tid) {
            (Some(program), _) => program.clone(),
            (None, Some(tid)) if tid == pid => name.to_owned(),
            _ => String::new(),
        };
        let process = self.builder.process(pid, &program);
        match whose.tid {
            Some(tid) => (self.builder.thread(process, tid, name), true),
            None => (self.builder.thread(process, cpu, &format!("CPU {cpu}")), false),
        }
    }

    /// The object that a thread is.
    fn own_object(&mut self, at_ns: u64, thread: u32, event: &Happened) -> u64 {
        let (object, is_new) = self.numbers.of(&thread.to_string());
        if is_new {
            let name = event.whose.name.as_deref().unwrap_or("thread");
            let tid = event.whose.tid.map(|tid| format!("{name} {tid}"));
            self.builder.name(at_ns, thread, object, &tid.unwrap_or_else(|| format!("CPU {}", event.cpu)));
        }
        object
    }

    /// What has an identity is an object of its own: it may be under way while others of its type are.
    fn worked_on(&mut self, at_ns: u64, (on, own): Place, key: &Key) -> u64 {
        let (thread, type_id, id) = key;
        if id.is_empty() {
            return own;
        }
        let (object, is_new) = self.numbers.of(&format!("{thread} {type_id} {id}"));
        if is_new {
            self.builder.name(at_ns, on, object, id);
        }
        object
    }

    fn build(mut self) -> Trace {
        for ((_, type_id, _), open) in self.open {
            for (begin, place) in open {
                self.slices.begin(place.0, place.1, begin, type_id);
            }
        }
        self.slices.write(&mut self.builder);
        for said in self.later {
            let (thread, object) = said.place;
            if let Some(type_id) = said.mark {
                self.builder.says(Phase::Mark, said.at_ns, thread, object, Some(type_id));
            }
            for text in said.args {
                let (phase, text) = (Phase::Arg, Some(text));
                let at_ns = said.at_ns;
                let (type_id, other, is_shared) = (None, None, false);
                self.builder.event(Event { at_ns, thread, phase, is_shared, object, type_id, other, text });
            }
        }
        if self.unbegun > 0 {
            self.builder.damage(format!("{} ends did not begin in the trace: they are marks", self.unbegun));
        }
        if self.homeless > 0 {
            let what =
                "beginnings and ends tell no thread: they are marks (`lttng add-context --userspace --type vtid`)";
            self.builder.damage(format!("{} {what}", self.homeless));
        }
        self.builder.build()
    }
}

/// The fields that tell one from another: `id`, and what ends in `_id`; of a request its own.
fn identity(args: &[Box<str>], is_request: bool) -> String {
    let is_key = |key: &str| if is_request { OF_REQUEST.contains(&key) } else { key == "id" || key.ends_with("_id") };
    let is_id = |arg: &&str| arg.split_once('=').is_some_and(|(key, _)| is_key(key));
    args.iter().map(|arg| &**arg).filter(is_id).collect::<Vec<_>>().join(" ")
}

//! Numbers for objects that their source calls by texts, and slices of threads in the order that intervals need.

use crate::trace::{Builder, Phase};
use std::collections::{BTreeMap, HashMap};

/// Gives each key a number of its own, from 1.
#[derive(Debug, Default)]
pub struct Numbers {
    known: HashMap<String, u64>,
    /// How often a key began to mean another object.
    anew: u64,
}

impl Numbers {
    /// The number of a key, and whether it is new.
    pub fn of(&mut self, key: &str) -> (u64, bool) {
        if let Some(known) = self.known.get(key) {
            return (*known, false);
        }
        let number = self.known.len() as u64 + self.anew + 1;
        self.known.insert(key.to_owned(), number);
        (number, true)
    }

    /// The number of a key that may have been told before.
    pub fn get(&self, key: &str) -> Option<u64> {
        self.known.get(key).copied()
    }

    /// From here on the key means another object.
    pub fn free(&mut self, key: &str) {
        self.anew += u64::from(self.known.remove(key).is_some());
    }
}

/// What a thread did from a moment to another one, on top of what it did already.
#[derive(Clone, Copy, Debug)]
struct Slice {
    begin_ns: u64,
    /// `None`: it did not end.
    end_ns: Option<u64>,
    type_id: u32,
    /// Whether the thread waited.
    waits: bool,
}

/// Slices of threads, in any order of time.
#[derive(Debug, Default)]
pub struct Slices {
    all: BTreeMap<(u32, u64), Vec<Slice>>,
    open: BTreeMap<(u32, u64), Vec<(u64, u32)>>,
}

impl Slices {
    /// A whole one, of a thread and its object.
    pub fn whole(&mut self, thread: u32, object: u64, begin_ns: u64, end_ns: u64, type_id: u32) {
        let end_ns = Some(end_ns.max(begin_ns));
        self.all.entry((thread, object)).or_default().push(Slice { begin_ns, end_ns, type_id, waits: false });
    }

    /// A whole one in which the thread waited.
    pub fn wait(&mut self, thread: u32, object: u64, begin_ns: u64, end_ns: u64, type_id: u32) {
        let end_ns = Some(end_ns.max(begin_ns));
        self.all.entry((thread, object)).or_default().push(Slice { begin_ns, end_ns, type_id, waits: true });
    }

    /// The beginning of one.
    pub fn begin(&mut self, thread: u32, object: u64, at_ns: u64, type_id: u32) {
        self.open.entry((thread, object)).or_default().push((at_ns, type_id));
    }

    /// The end of the one that began last (of this type, if that is told). `false`: none did.
    pub fn end(&mut self, thread: u32, object: u64, at_ns: u64, type_id: Option<u32>) -> bool {
        let Some(open) = self.open.get_mut(&(thread, object)) else { return false };
        let last = open.iter().rposition(|(_, of)| type_id.is_none_or(|wanted| wanted == *of));
        let Some((begin_ns, type_id)) = last.map(|place| open.remove(place)) else { return false };
        self.whole(thread, object, begin_ns, at_ns, type_id);
        true
    }

    /// Writes them, so that what ends at a moment does so before what begins then, and inner ones before outer ones.
    pub fn write(self, builder: &mut Builder) {
        let mut all = self.all;
        for (key, open) in self.open {
            let never = open.iter().map(|&(begin_ns, type_id)| Slice { begin_ns, end_ns: None, type_id, waits: false });
            all.entry(key).or_default().extend(never);
        }
        for ((thread, object), mut slices) in all {
            slices.sort_by_key(|slice| (slice.begin_ns, std::cmp::Reverse(slice.end_ns.unwrap_or(u64::MAX))));
            let mut stack: Vec<(u64, u32, bool)> = Vec::new();
            let done = |builder: &mut Builder, stack: &mut Vec<(u64, u32, bool)>, until: u64| {
                while let Some(&(end, type_id, waits)) = stack.last().filter(|(end, ..)| *end <= until) {
                    if waits {
                        builder.says(Phase::Exec, end, thread, object, Some(type_id));
                    }
                    builder.says(Phase::Done, end, thread, object, Some(type_id));
                    stack.pop();
                }
            };
            for slice in slices {
                done(builder, &mut stack, slice.begin_ns);
                let phase = if slice.waits { Phase::Wait } else { Phase::Exec };
                builder.says(phase, slice.begin_ns, thread, object, Some(slice.type_id));
                if let Some(end) = slice.end_ns {
                    stack.push((end, slice.type_id, slice.waits));
                }
            }
            done(builder, &mut stack, u64::MAX);
        }
    }
}

/// Something that is posted at one place and run at another (a task, a message): an object that waits in between.
#[derive(Debug, Default)]
pub struct Flows {
    numbers: Numbers,
    waiting: HashMap<u64, u32>,
}

impl Flows {
    /// Object `by` posts it, or posts it again.
    pub fn posted(&mut self, builder: &mut Builder, at_ns: u64, place: (u32, u64), key: &str, type_id: u32) {
        let (thread, by) = place;
        let flow = self.numbers.of(key).0 | FLOW;
        builder.link(at_ns, thread, by, flow, Some(type_id));
        if self.waiting.insert(flow, type_id).is_none() {
            builder.says(Phase::Wait, at_ns, thread, flow, Some(type_id));
        }
    }

    /// Object `by` runs it. What was posted by nobody that is told waited for nothing.
    pub fn run(&mut self, builder: &mut Builder, at_ns: u64, place: (u32, u64), key: &str, type_id: u32) {
        let (thread, by) = place;
        self.taken(builder, at_ns, thread, key);
        builder.link(at_ns, thread, self.numbers.of(key).0 | FLOW, by, Some(type_id));
    }

    /// Its wait is over, and whom that released is told in another way.
    pub fn taken(&mut self, builder: &mut Builder, at_ns: u64, thread: u32, key: &str) {
        let flow = self.numbers.of(key).0 | FLOW;
        if let Some(type_id) = self.waiting.remove(&flow) {
            builder.says(Phase::Exec, at_ns, thread, flow, Some(type_id));
            builder.says(Phase::Done, at_ns, thread, flow, Some(type_id));
        }
    }

    /// It is over: its key may come to mean another one.
    pub fn over(&mut self, key: &str) {
        self.numbers.free(key);
    }

    /// Whether somebody posted it.
    pub fn is_posted(&self, key: &str) -> bool {
        self.numbers.get(key).is_some()
    }
}

/// Numbers of flows are told apart from those of other objects by this bit.
const FLOW: u64 = 1 << 46;

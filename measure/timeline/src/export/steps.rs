//! Events as steps of intervals: which wait goes over into work, what ends. The same rules as `intervals`, told in the
//! order of time.

use crate::trace::{Event, Phase, Trace};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A wait begins.
    Wait,
    /// Work begins; whether a wait ends with it.
    Work {
        has_waited: bool,
    },
    /// Work ends; else a wait that had none.
    Done {
        was_work: bool,
    },
    Mark,
    /// To the object of this place.
    Link(usize),
}

/// A step, of an object by its place, on the lane of the object that it takes: what goes on at once is on several.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub event: &'a Event,
    /// The type that its interval began with.
    pub type_id: Option<u32>,
    pub object: usize,
    pub lane: usize,
    pub step: Step,
}

/// All objects: number in the program, and name.
#[derive(Debug, Default)]
pub struct Things {
    pub all: Vec<(u64, Option<Box<str>>)>,
    now: HashMap<u64, usize>,
}

impl Things {
    fn at(&mut self, number: u64) -> usize {
        *self.now.entry(number).or_insert_with(|| {
            self.all.push((Trace::address(number), None));
            self.all.len() - 1
        })
    }

    pub fn name(&self, object: usize) -> Option<&str> {
        self.all[object].1.as_deref()
    }
}

/// What has begun: lanes and types of those that wait, the first in front, and of those that are worked on.
#[derive(Default)]
struct Open {
    waiting: VecDeque<(usize, Option<u32>)>,
    working: Vec<(usize, Option<u32>)>,
}

/// Lanes of an object.
#[derive(Default)]
struct Lanes {
    free: BinaryHeap<Reverse<usize>>,
    all: usize,
}

impl Lanes {
    fn take(&mut self) -> usize {
        self.free.pop().map_or_else(
            || {
                self.all += 1;
                self.all - 1
            },
            |Reverse(lane)| lane,
        )
    }
}

/// What belongs together: object, type, and for objects of several threads the thread.
type Key<'a> = (usize, Option<&'a str>, Option<u32>);

/// All objects, and the steps in the order of time.
pub fn steps(trace: &Trace) -> (Things, Vec<Told<'_>>) {
    let (mut things, mut told) = (Things::default(), Vec::new());
    let mut open: HashMap<Key<'_>, Open> = HashMap::new();
    let mut lanes: HashMap<usize, Lanes> = HashMap::new();
    for event in &trace.events {
        let object = things.at(event.object);
        let name = event.type_id.and_then(|id| trace.types.get(&id)).map(|of| of.name.as_str());
        let open = open.entry((object, name, event.is_shared.then_some(event.thread))).or_default();
        let lanes = lanes.entry(object).or_default();
        let mut say = |type_id, lane, step| told.push(Told { event, type_id, object, lane, step });
        match event.phase {
            Phase::Name => things.all[object].1.clone_from(&event.text),
            Phase::Wait => {
                let one = (lanes.take(), event.type_id);
                open.waiting.push_back(one);
                say(one.1, one.0, Step::Wait);
            }
            Phase::Exec => {
                let waited = open.waiting.pop_front();
                let one = waited.unwrap_or_else(|| (lanes.take(), event.type_id));
                open.working.push(one);
                say(one.1, one.0, Step::Work { has_waited: waited.is_some() });
            }
            Phase::Done => {
                let working = open.working.pop();
                let was_work = working.is_some();
                if let Some((lane, type_id)) = working.or_else(|| open.waiting.pop_front()) {
                    lanes.free.push(Reverse(lane));
                    say(type_id, lane, Step::Done { was_work });
                }
            }
            Phase::Mark => say(event.type_id, 0, Step::Mark),
            Phase::Link => {
                if let Some(other) = event.other {
                    let to = things.at(other);
                    say(event.type_id, 0, Step::Link(to));
                }
            }
            Phase::Free => {
                things.now.remove(&event.object);
            }
            Phase::Arg => {}
        }
    }
    (things, told)
}

/// Numbers that tell processes apart, by place: their own, where no other one has it.
pub fn pids(trace: &Trace) -> Vec<u32> {
    let mut pids: Vec<u32> = Vec::new();
    for process in &trace.processes {
        let mut pid = process.pid;
        while pids.contains(&pid) {
            pid = pid.wrapping_add(1 << 22 | 1);
        }
        pids.push(pid);
    }
    pids
}

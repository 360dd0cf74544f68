//! Events as steps of intervals: which wait goes over into work, what ends. By the rules of `intervals`, told in the
//! order of time.

use crate::intervals::{Object, Objects, Open};
use crate::trace::{Event, Phase, Trace};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

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
    /// To this object.
    Link(Object),
}

/// A step of an object, on the lane of the object that it takes: what goes on at once is on several.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub event: &'a Event,
    /// The type that its interval began with.
    pub type_id: Option<u32>,
    pub object: Object,
    pub lane: usize,
    pub step: Step,
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
type Key<'a> = (Object, Option<&'a str>, Option<u32>);

/// All objects, and the steps in the order of time.
pub fn steps(trace: &Trace) -> (Objects, Vec<Told<'_>>) {
    let (mut objects, mut told) = (Objects::default(), Vec::new());
    let mut open: HashMap<Key<'_>, Open<(usize, Option<u32>)>> = HashMap::new();
    let mut lanes: HashMap<Object, Lanes> = HashMap::new();
    for event in &trace.events {
        let object = objects.at(event.object);
        let name = event.type_id.and_then(|id| trace.types.get(&id)).map(|of| of.name.as_str());
        let open = open.entry((object, name, event.is_shared.then_some(event.thread))).or_default();
        let lanes = lanes.entry(object).or_default();
        let mut say = |type_id, lane, step| told.push(Told { event, type_id, object, lane, step });
        match event.phase {
            Phase::Name => objects.call(object, event.text.as_deref()),
            Phase::Wait => {
                let one = (lanes.take(), event.type_id);
                open.waits(one);
                say(one.1, one.0, Step::Wait);
            }
            Phase::Exec => {
                let ((lane, type_id), has_waited) = open.works(|| (lanes.take(), event.type_id));
                say(type_id, lane, Step::Work { has_waited });
            }
            Phase::Done => {
                if let Some(((lane, type_id), was_work)) = open.ends() {
                    lanes.free.push(Reverse(lane));
                    say(type_id, lane, Step::Done { was_work });
                }
            }
            Phase::Mark => say(event.type_id, 0, Step::Mark),
            Phase::Link => {
                if let Some(other) = event.other {
                    let to = objects.at(other);
                    say(event.type_id, 0, Step::Link(to));
                }
            }
            Phase::Free => objects.free(event.object),
            Phase::Arg => {}
        }
    }
    (objects, told)
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

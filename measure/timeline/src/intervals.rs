//! Events put together: from WAIT or EXEC to DONE of one object and type is an interval. Pure.

use crate::trace::{INFERRED, Phase, Trace};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Number of an object in [`Objects`]: an address that was freed and used again is another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Object(pub u32);

/// All objects, in the order of their first event.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Address, and the last name that it was given.
    all: Vec<(u64, Option<Box<str>>)>,
    now: HashMap<u64, Object>,
}

impl Objects {
    /// The object of an address just now; a new one where there is none.
    pub(crate) fn at(&mut self, address: u64) -> Object {
        *self.now.entry(address).or_insert_with(|| {
            self.all.push((address, None));
            Object(self.all.len() as u32 - 1)
        })
    }

    /// It is called so from here on.
    pub(crate) fn call(&mut self, object: Object, name: Option<&str>) {
        self.all[object.0 as usize].1 = name.map(Into::into);
    }

    /// The address is no object's any more.
    pub(crate) fn free(&mut self, address: u64) {
        self.now.remove(&address);
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Its address, or the number that its program gave it.
    pub fn address(&self, object: Object) -> u64 {
        Trace::address(self.all[object.0 as usize].0)
    }

    /// Whose it is: its place in [`Trace::processes`].
    pub fn process(&self, object: Object) -> u64 {
        Trace::process(self.all[object.0 as usize].0)
    }

    /// What it is called, if its program said so.
    pub fn name(&self, object: Object) -> Option<&str> {
        self.all[object.0 as usize].1.as_deref()
    }

    /// What it is called; its address where it has no name, or an empty one.
    pub fn called(&self, object: Object) -> String {
        let name = self.name(object).filter(|name| !name.is_empty());
        name.map_or_else(|| format!("{:#x}", self.address(object)), str::to_owned)
    }
}

/// Something that waited, was worked on, or both. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// On which object.
    pub object: Object,
    /// Of which type.
    pub type_id: Option<u32>,
    /// When it began to wait, and on which thread (its place in [`Trace::threads`]) that was said; `None`: it did not
    /// wait.
    pub wait: Option<(u64, u32)>,
    /// When work began, and on which thread; `None`: it was done, or its program ended, while it waited.
    pub exec: Option<(u64, u32)>,
    /// When it was done; `None`: it was not.
    pub done: Option<u64>,
}

impl Interval {
    /// When it began.
    pub fn begin(&self) -> u64 {
        let (wait, exec) = (self.wait.map(|(at, _)| at), self.exec.map(|(at, _)| at));
        wait.or(exec).or(self.done).unwrap_or_default()
    }

    /// How long it waited, in nanoseconds; of what is not done, until `end`.
    pub fn waited(&self, end: u64) -> u64 {
        let Some((from, _)) = self.wait else { return 0 };
        self.exec.map_or_else(|| self.done.unwrap_or(end), |(at, _)| at).saturating_sub(from)
    }

    /// How long it was worked on, in nanoseconds; of what is not done, until `end`.
    pub fn worked(&self, end: u64) -> u64 {
        self.exec.map_or(0, |(from, _)| self.done.unwrap_or(end).saturating_sub(from))
    }
}

/// `from` released, or caused, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// When. A link that its thread tells right behind the wait, the execution or the end of `to` is of that moment.
    pub at_ns: u64,
    /// The thread that said so.
    pub thread: u32,
    /// Who released.
    pub from: Object,
    /// Who was released.
    pub to: Object,
    /// Whether its thread told it right behind an event of `to`: the moment is exact.
    pub is_exact: bool,
    /// Whether a rule found it, and no file tells it.
    pub is_inferred: bool,
}

/// Something happened at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at_ns: u64,
    /// On which thread.
    pub thread: u32,
    /// To which object.
    pub object: Object,
    /// Of which type.
    pub type_id: Option<u32>,
}

/// What more is known of an interval than its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// The thread that said it was done.
    pub ended_on: Option<u32>,
    /// Whether several threads work on its object at once.
    pub is_shared: bool,
    /// Whether the thread that said it waits did nothing else until the wait was over.
    pub is_blocking: bool,
}

/// A trace put together.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// All objects.
    pub objects: Objects,
    /// In the order of their beginnings.
    pub intervals: Vec<Interval>,
    /// Of each interval.
    pub manners: Vec<Manner>,
    /// In the order of time.
    pub links: Vec<Link>,
    /// In the order of time.
    pub marks: Vec<Mark>,
}

/// What belongs together: object, type, and for objects of several threads the thread.
type Key = (Object, Option<u32>, Option<u32>);

/// What of a key has not ended, as whoever folds knows it. Which wait goes over into work and what an end ends is
/// decided here, for all.
#[derive(Debug)]
pub(crate) struct Open<T> {
    /// What waits, first come first.
    waiting: VecDeque<T>,
    /// What is worked on, innermost last.
    working: Vec<T>,
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), working: Vec::new() }
    }
}

impl<T: Copy> Open<T> {
    /// It begins to wait.
    pub fn waits(&mut self, one: T) {
        self.waiting.push_back(one);
    }

    /// Work begins: on what waits first, else on what `new` gives. What it is, and whether it waited.
    pub fn works(&mut self, new: impl FnOnce() -> T) -> (T, bool) {
        let waited = self.waiting.pop_front();
        let one = waited.unwrap_or_else(new);
        self.working.push(one);
        (one, waited.is_some())
    }

    /// An end: what is worked on ends before what still waits; of nested ones the inner one. What it is, and whether it
    /// was worked on; `None`: nothing is open.
    pub fn ends(&mut self) -> Option<(T, bool)> {
        let working = self.working.pop().map(|one| (one, true));
        working.or_else(|| self.waiting.pop_front().map(|one| (one, false)))
    }
}

/// What a thread said last, and how much it has said, names, arguments and links left out.
#[derive(Clone, Copy, Default)]
struct Said {
    last: Option<(Phase, Object, u64)>,
    count: u64,
}

/// Puts the events of a trace together. Intervals come in the order of their beginnings.
pub fn intervals(trace: &Trace) -> (Objects, Vec<Interval>) {
    let folded = folded(trace);
    (folded.objects, folded.intervals)
}

/// Puts the events of a trace together, with what links them.
pub fn folded(trace: &Trace) -> Folded {
    let mut objects = Objects::default();
    let mut said: HashMap<u32, Said> = HashMap::new();
    // Of each interval that waits: what its thread had said by then.
    let mut before: Vec<u64> = Vec::new();
    let mut manners: Vec<Manner> = Vec::new();
    let (mut links, mut marks) = (Vec::new(), Vec::new());
    let mut open: HashMap<Key, Open<usize>> = HashMap::new();
    let mut all: Vec<Interval> = Vec::new();
    let same = same_names(trace);
    for event in &trace.events {
        let object = objects.at(event.object);
        let type_id = event.type_id.map(|id| same.get(&id).copied().unwrap_or(id));
        let key = (object, type_id, event.is_shared.then_some(event.thread));
        let begun = |wait, exec| Interval { object, type_id: event.type_id, wait, exec, done: None };
        let here = (event.at_ns, event.thread);
        let is_shared = event.is_shared;
        let thread = said.entry(event.thread).or_default();
        if !matches!(event.phase, Phase::Name | Phase::Arg | Phase::Link) {
            *thread = Said { last: Some((event.phase, object, event.at_ns)), count: thread.count + 1 };
        }
        let thread = *thread;
        let blocked =
            |one: &Interval, before: u64| one.wait.is_some_and(|(_, on)| on == here.1) && thread.count == before + 1;
        match event.phase {
            Phase::Name => objects.call(object, event.text.as_deref()),
            Phase::Wait => {
                open.entry(key).or_default().waits(all.len());
                all.push(begun(Some(here), None));
                before.push(thread.count);
                manners.push(Manner { is_shared, ..Manner::default() });
            }
            Phase::Exec => {
                let (index, has_waited) = open.entry(key).or_default().works(|| all.len());
                if has_waited {
                    manners[index].is_blocking = blocked(&all[index], before[index]);
                    all[index].exec = Some(here);
                } else {
                    all.push(begun(None, Some(here)));
                    before.push(thread.count);
                    manners.push(Manner { is_shared, ..Manner::default() });
                }
            }
            Phase::Done => {
                let Some((index, was_work)) = open.get_mut(&key).and_then(Open::ends) else { continue };
                if !was_work {
                    manners[index].is_blocking = blocked(&all[index], before[index]);
                }
                manners[index].ended_on = Some(event.thread);
                all[index].done = Some(event.at_ns);
            }
            Phase::Free => objects.free(event.object),
            Phase::Mark => {
                marks.push(Mark { at_ns: event.at_ns, thread: event.thread, object, type_id: event.type_id });
            }
            Phase::Link => {
                let Some(other) = event.other else { continue };
                let to = objects.at(other);
                let of_it =
                    |of: &(Phase, Object, u64)| of.1 == to && matches!(of.0, Phase::Wait | Phase::Exec | Phase::Done);
                let last = thread.last.filter(of_it);
                let (at_ns, is_exact) = (last.map_or(event.at_ns, |(_, _, at)| at), last.is_some());
                let is_inferred = trace.type_name(event.type_id) == INFERRED;
                links.push(Link { at_ns, thread: event.thread, from: object, to, is_exact, is_inferred });
            }
            Phase::Arg => {}
        }
    }
    for (index, one) in all.iter().enumerate().filter(|(_, one)| one.exec.is_none() && one.done.is_none()) {
        let Some((_, thread)) = one.wait else { continue };
        manners[index].is_blocking = said.get(&thread).is_some_and(|thread| thread.count == before[index]);
    }
    links.sort_by_key(|link| link.at_ns);
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|index| all[*index].begin());
    Folded {
        objects,
        intervals: order.iter().map(|index| all[*index].clone()).collect(),
        manners: order.iter().map(|index| manners[*index]).collect(),
        links,
        marks,
    }
}

/// Places of the source that give a type the same name mean the same: each number with the first one of that name.
fn same_names(trace: &Trace) -> HashMap<u32, u32> {
    let mut first: HashMap<&str, u32> = HashMap::new();
    trace.types.iter().map(|(id, one)| (*id, *first.entry(&one.name).or_insert(*id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Type};
    use std::collections::BTreeMap;

    fn trace(events: &[(u64, u32, Phase, u64, u32)]) -> Trace {
        let of_name = |name: &str, line| Type { name: name.into(), file: "a.c".into(), line };
        let event = |&(at_ns, thread, phase, object, id): &(u64, u32, Phase, u64, u32)| Event {
            at_ns,
            thread,
            phase,
            is_shared: id == 9,
            object,
            type_id: Some(id),
            other: None,
            text: (phase == Phase::Name).then(|| "a name".into()),
        };
        Trace {
            types: BTreeMap::from([(1, of_name("x", 1)), (2, of_name("x", 2)), (3, of_name("y", 3))]),
            events: events.iter().map(event).collect(),
            ..Trace::default()
        }
    }

    /// Object, and when it waited, was worked on and was done.
    type Times = (u32, Option<u64>, Option<u64>, Option<u64>);

    fn times(events: &[(u64, u32, Phase, u64, u32)]) -> Vec<Times> {
        let time = |at: Option<(u64, u32)>| at.map(|(at, _)| at);
        let (_, all) = intervals(&trace(events));
        all.iter().map(|one| (one.object.0, time(one.wait), time(one.exec), one.done)).collect()
    }

    #[test]
    fn a_wait_an_execution_and_its_end_are_one_interval_on_any_threads_and_lines() {
        use Phase::{Done, Exec, Wait};
        assert_eq!(
            times(&[
                (1, 7, Wait, 5, 1),
                (3, 8, Exec, 5, 2),
                (4, 8, Exec, 5, 3),
                (6, 8, Done, 5, 3),
                (9, 9, Done, 5, 1)
            ]),
            [(0, Some(1), Some(3), Some(9)), (0, None, Some(4), Some(6))]
        );
    }

    #[test]
    fn waits_of_one_object_are_worked_on_in_their_order_and_nested_work_ends_inside_out() {
        use Phase::{Done, Exec, Wait};
        assert_eq!(
            times(&[
                (1, 7, Wait, 5, 1),
                (2, 7, Wait, 5, 1),
                (3, 8, Exec, 5, 1),
                (4, 8, Done, 5, 1),
                (6, 8, Done, 5, 1)
            ]),
            [(0, Some(1), Some(3), Some(4)), (0, Some(2), None, Some(6))]
        );
        assert_eq!(
            times(&[
                (1, 7, Exec, 5, 1),
                (2, 7, Exec, 5, 1),
                (3, 7, Done, 5, 1),
                (4, 7, Done, 5, 1),
                (5, 7, Done, 5, 1)
            ]),
            [(0, None, Some(1), Some(4)), (0, None, Some(2), Some(3))],
            "an end of nothing is none"
        );
    }

    #[test]
    fn an_address_that_is_used_again_is_another_object_without_the_name() {
        use Phase::{Done, Exec, Free, Name};
        let trace = trace(&[
            (1, 7, Name, 5, 0),
            (2, 7, Exec, 5, 1),
            (3, 7, Free, 5, 0),
            (4, 7, Exec, 5, 1),
            (5, 7, Done, 5, 1),
        ]);
        let (objects, all) = intervals(&trace);
        assert_eq!(all.iter().map(|one| (one.object.0, one.done)).collect::<Vec<_>>(), [(0, None), (1, Some(5))]);
        assert_eq!((objects.name(Object(0)), objects.name(Object(1))), (Some("a name"), None));
        assert_eq!((objects.address(Object(1)), objects.len()), (5, 2));
    }

    #[test]
    fn threads_that_share_an_object_end_their_own_work() {
        use Phase::{Done, Exec};
        assert_eq!(
            times(&[(1, 7, Exec, 5, 9), (2, 8, Exec, 5, 9), (3, 7, Done, 5, 9), (6, 8, Done, 5, 9)]),
            [(0, None, Some(1), Some(3)), (0, None, Some(2), Some(6))]
        );
    }

    #[test]
    fn what_never_ends_lasts_until_the_end_of_the_file() {
        let (_, all) = intervals(&trace(&[(1, 7, Phase::Wait, 5, 1), (4, 7, Phase::Exec, 6, 3)]));
        assert_eq!((all[0].waited(10), all[0].worked(10), all[1].worked(10)), (9, 0, 6));
    }
}

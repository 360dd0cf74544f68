//! What ended a wait, and what an interval began from: the evidence, asked in a fixed order. Pure.

use crate::intervals::{Folded, Interval, Link, Object, folded};
use crate::lanes::{Lanes, NONE, Part};
use crate::trace::{Concluded, Form, Trace};
use serde::Serialize;
use std::collections::HashMap;

/// What is known of a piece of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Its owner worked, by its own word.
    Work,
    /// Its owner waited; who released or caused it is told by a link.
    Linked,
    /// Its owner waited for a resource; who held it before is known.
    Resource,
    /// Its owner waited for its thread; what ran there meanwhile is known.
    Queue,
    /// The kernel tells what it waited for.
    Kernel,
    /// Likely by order and place alone.
    Heuristic,
    /// Nothing in the events tells what it waited for.
    Unexplained,
}

/// By which evidence the path goes on from one interval to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The path ends with it.
    End,
    /// The same thread did it in the midst of the other.
    Nested,
    /// It was said on a thread that was in the midst of the other.
    Posted,
    /// The same object, around the other.
    Same,
    /// A link.
    Linked,
    /// It held the resource before.
    Resource,
    /// Its thread was busy with the other.
    Queue,
    /// The kernel woke it.
    Kernel,
    /// Order and place alone.
    Heuristic,
}

impl Via {
    /// What is known of a wait that ended so.
    pub fn class(self) -> Class {
        match self {
            Self::End | Self::Nested | Self::Posted | Self::Same => Class::Work,
            Self::Linked => Class::Linked,
            Self::Resource => Class::Resource,
            Self::Queue => Class::Queue,
            Self::Kernel => Class::Kernel,
            Self::Heuristic => Class::Heuristic,
        }
    }
}

/// What a wait was ended by, beside an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// A resource that was handed over.
    Resource(Object),
    /// The kernel woke the thread: a place in [`Trace::wakes`].
    Wake(u32),
}

/// Where the path goes on, and what is known of the time in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interval; nothing after `at` is of interest.
    pub to: u32,
    pub at: u64,
    pub via: Via,
    pub gap: Class,
    /// What was handed over, or woke the thread.
    pub through: Option<Through>,
    /// The interval that had the resource, or the thread, before.
    pub held: Option<u32>,
}

/// Links that were followed once and are not again, so that every walk ends.
#[derive(Debug, Default)]
pub struct Used {
    before: HashMap<u32, u32>,
    /// Whether one was left out since this was last set to `false`.
    pub left_out: bool,
}

impl Used {
    /// The last place up to this one that is free; `None`: none is.
    fn free(&mut self, place: u32) -> Option<u32> {
        let mut root = place;
        while let Some(next) = self.before.get(&root) {
            root = *next;
        }
        let mut at = place;
        while at != root {
            at = self.before.insert(at, root).unwrap_or(root);
        }
        self.left_out |= root != place;
        (root != NONE).then_some(root)
    }

    fn take(&mut self, place: u32) {
        self.before.insert(place, place.checked_sub(1).unwrap_or(NONE));
    }
}

/// Things by object, each object's in their order.
#[derive(Debug, Default)]
struct ByObject {
    starts: Vec<u32>,
    places: Vec<u32>,
}

impl ByObject {
    fn of(objects: usize, all: impl Iterator<Item = (Object, u32)> + Clone) -> Self {
        let mut starts = vec![0_u32; objects + 1];
        all.clone().for_each(|(object, _)| starts[object.0 as usize + 1] += 1);
        (0..objects).for_each(|index| starts[index + 1] += starts[index]);
        let (mut next, mut places) = (starts.clone(), vec![0; starts[objects] as usize]);
        for (object, place) in all {
            places[next[object.0 as usize] as usize] = place;
            next[object.0 as usize] += 1;
        }
        Self { starts, places }
    }

    fn range(&self, object: Object) -> std::ops::Range<usize> {
        self.starts[object.0 as usize] as usize..self.starts[object.0 as usize + 1] as usize
    }

    fn get(&self, object: Object) -> &[u32] {
        &self.places[self.range(object)]
    }
}

/// A trace with all that tells what waited for what.
pub struct Model<'a> {
    pub trace: &'a Trace,
    pub folded: Folded,
    pub lanes: Lanes,
    /// When the trace ends: what has not ended lasts until then.
    pub end: u64,
    /// Clocks of two threads may differ by so much; of each object and each thread, by the file that tells of it.
    object_slack: Vec<u64>,
    thread_slack: Vec<u64>,
    /// Of each interval: its type, the same for all places of the source that give it one name.
    pub types: Vec<u32>,
    /// Of each such type.
    pub type_names: Vec<&'a str>,
    /// Of each interval: whether it says that its object, a resource, is in use.
    pub is_use: Vec<bool>,
    links_to: ByObject,
    links_from: ByObject,
    uses: ByObject,
    /// Of each thread: when uses begin on it, and which.
    uses_on: Vec<Vec<(u64, u32)>>,
    /// Of each object and type: when work ends, and when it begins.
    ended: HashMap<(Object, u32), Vec<(u64, u32)>>,
    begun: HashMap<(Object, u32), Vec<(u64, u32)>>,
    /// Of each object: when what it caused ended.
    caused: Vec<Vec<(u64, u32)>>,
    /// Of each thread, when it was woken: places in [`Trace::wakes`].
    woken: Vec<Vec<u32>>,
}

/// What a link makes known: no more than the rule does that found it.
fn known_by(link: Link, gap: Class) -> (Via, Class) {
    if link.is_concluded { (Via::Heuristic, Class::Heuristic) } else { (Via::Linked, gap) }
}

fn last_up_to(all: &[(u64, u32)], at: u64) -> Option<(u64, u32)> {
    all.partition_point(|(time, _)| *time <= at).checked_sub(1).map(|index| all[index])
}

/// Whether a type says of its object, a resource, that it is in use.
fn is_in_use(name: &str) -> bool {
    let tail = name.len().saturating_sub("in_use".len());
    name.get(tail..).is_some_and(|tail| tail.eq_ignore_ascii_case("in_use"))
}

impl<'a> Model<'a> {
    /// All of a trace.
    pub fn of(trace: &'a Trace) -> Self {
        let folded = folded(trace);
        let (objects, all) = (folded.objects.len(), &folded.intervals);
        let end = trace.events.last().map_or(0, |event| event.at_ns);
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut type_names = Vec::new();
        let types: Vec<u32> = all
            .iter()
            .map(|one| {
                let name = trace.type_name(one.type_id);
                *numbers.entry(name).or_insert_with(|| {
                    type_names.push(name);
                    type_names.len() as u32 - 1
                })
            })
            .collect();
        let uses_by_type: Vec<bool> = type_names.iter().map(|name| is_in_use(name)).collect();
        let is_use: Vec<bool> = types.iter().map(|of| uses_by_type[*of as usize]).collect();
        let threads = trace.events.iter().map(|event| event.thread as usize + 1).max().unwrap_or(0);
        // What these tell of a thread is who wrote it down, not who did it.
        let process_of = |thread: usize| trace.threads.get(thread).map_or(0, |of| of.process);
        let is_track = |thread: usize| matches!(trace.told_in(process_of(thread)).0, Form::NetLog | Form::Har);
        let threads = threads.max(trace.threads.len());
        let lanes = Lanes::of(&folded, threads, &is_track, end, &|index| is_use[index as usize]);
        let numbered = |links: &[Link], to: bool| {
            let all: Vec<_> = links
                .iter()
                .enumerate()
                .map(|(place, link)| (if to { link.to } else { link.from }, place as u32))
                .collect();
            ByObject::of(objects, all.iter().copied())
        };
        let (links_to, links_from) = (numbered(&folded.links, true), numbered(&folded.links, false));
        let used = all.iter().enumerate().filter(|(index, _)| is_use[*index]);
        let uses = ByObject::of(objects, used.clone().map(|(index, one)| (one.object, index as u32)));
        let mut uses_on: Vec<Vec<(u64, u32)>> = vec![Vec::new(); lanes.threads.len()];
        for (index, one) in used {
            let Some((at, thread)) = one.exec.or(one.wait) else { continue };
            uses_on[thread as usize].push((at, index as u32));
        }
        uses_on.iter_mut().for_each(|all| all.sort_unstable());
        let mut ended: HashMap<(Object, u32), Vec<(u64, u32)>> = HashMap::new();
        let mut begun: HashMap<(Object, u32), Vec<(u64, u32)>> = HashMap::new();
        for (index, one) in all.iter().enumerate() {
            let Some((at, _)) = one.exec else { continue };
            begun.entry((one.object, types[index])).or_default().push((at, index as u32));
            let Some(done) = one.done else { continue };
            ended.entry((one.object, types[index])).or_default().push((done, index as u32));
        }
        ended.values_mut().chain(begun.values_mut()).for_each(|all| all.sort_unstable());
        let slack = |process: u32| trace.told_in(process).1;
        let object_slack =
            (0..objects as u32).map(|index| slack(folded.objects.process(Object(index)) as u32)).collect();
        let thread_slack = (0..threads).map(|thread| slack(process_of(thread))).collect();
        let mut woken = vec![Vec::new(); threads];
        for (place, wake) in trace.wakes.iter().enumerate() {
            woken[wake.thread as usize].push(place as u32);
        }
        let mut model = Self {
            trace,
            lanes,
            end,
            object_slack,
            thread_slack,
            types,
            type_names,
            is_use,
            links_to,
            links_from,
            uses,
            uses_on,
            ended,
            begun,
            caused: Vec::new(),
            woken,
            folded,
        };
        model.caused = model.ends_of_caused(objects);
        model
    }

    /// Of each link: when the first interval ended that its object had from then on.
    fn ends_of_caused(&self, objects: usize) -> Vec<Vec<(u64, u32)>> {
        let own = self.all().iter().enumerate().filter(|(index, _)| !self.is_use[*index]);
        let by_object = ByObject::of(objects, own.map(|(index, one)| (one.object, index as u32)));
        let mut caused = vec![Vec::new(); objects];
        for link in self.folded.links.iter().filter(|link| link.from != link.to) {
            let own = by_object.get(link.to);
            let after = own
                .partition_point(|index| self.one(*index).begin() <= link.at_ns.saturating_add(self.slack_of(link.to)));
            let running =
                after.checked_sub(1).map(|place| own[place]).filter(|index| self.end_of(*index) >= link.at_ns);
            let Some(index) = running.or_else(|| own.get(after).copied()) else { continue };
            let one = self.one(index);
            // What was only handed on has not been worked on.
            let is_handed_on = one.wait.is_some() && one.exec.map(|(at, _)| at) == one.done;
            if let Some(done) = one.done.filter(|_| !is_handed_on) {
                caused[link.from.0 as usize].push((done, index));
            }
        }
        caused.iter_mut().for_each(|all: &mut Vec<(u64, u32)>| all.sort_unstable());
        caused
    }

    /// By how much what is told of an object may be off.
    pub fn slack_of(&self, object: Object) -> u64 {
        self.object_slack[object.0 as usize]
    }

    fn slack_on(&self, thread: u32) -> u64 {
        self.thread_slack.get(thread as usize).copied().unwrap_or_default()
    }

    pub fn all(&self) -> &[Interval] {
        &self.folded.intervals
    }

    pub fn one(&self, index: u32) -> &Interval {
        &self.folded.intervals[index as usize]
    }

    pub fn end_of(&self, index: u32) -> u64 {
        self.one(index).done.unwrap_or(self.end)
    }

    /// What is known of an interval's own time that no event tells; `None`: one does.
    pub fn concluded(&self, index: u32) -> Option<Class> {
        Some(match self.trace.concluded.get(&self.one(index).type_id?)? {
            Concluded::Likely => Class::Heuristic,
            Concluded::Unknown => Class::Unexplained,
        })
    }

    /// When its wait ended, or it did.
    pub fn wait_end(&self, index: u32) -> u64 {
        self.one(index).exec.map_or_else(|| self.end_of(index), |(at, _)| at)
    }

    /// What an object is called: its name, or its address.
    pub fn called(&self, object: Object) -> String {
        self.folded.objects.called(object)
    }

    pub fn type_name(&self, index: u32) -> &'a str {
        self.type_names[self.types[index as usize] as usize]
    }

    /// What an interval holds while it is worked on: what `--resource` calls it.
    pub fn held_name(&self, index: u32) -> String {
        match self.is_use[index as usize] {
            true => self.type_name(index).to_owned(),
            false => format!("{} {}", self.called(self.one(index).object), self.type_name(index)),
        }
    }

    /// What ended a wait, in words.
    pub fn through_name(&self, through: Option<Through>) -> String {
        match through {
            Some(Through::Resource(object)) => self.called(object),
            Some(Through::Wake(place)) => self.trace.wakes[place as usize].what.to_string(),
            None => String::new(),
        }
    }

    /// The threads that could do a task: those of one process whose names differ in a number at the end only.
    pub fn threads_of(&self, index: u32) -> String {
        let place = self.one(index).exec.map_or(0, |(_, thread)| thread);
        let Some(thread) = self.trace.threads.get(place as usize) else { return format!("thread {place}") };
        let stem = thread.name.trim_end_matches(|letter: char| letter.is_ascii_digit() || " -_#:".contains(letter));
        let process = if thread.process == 0 { String::new() } else { format!(" of process {}", thread.process) };
        if stem.is_empty() { format!("thread {}{process}", thread.tid) } else { format!("{stem}{process}") }
    }

    /// Whether it keeps its thread and lies in nothing else there: a task of its own.
    pub fn is_top(&self, index: u32) -> bool {
        self.lanes.occupies[index as usize] && self.lanes.around[index as usize] == NONE
    }

    /// The last link to an object after `from` and up to `to` that is not used.
    fn link(&self, object: Object, from: u64, to: u64, used: &mut Used, fits: &dyn Fn(u32) -> bool) -> Option<u32> {
        let range = self.links_to.range(object);
        let places = self.links_to.get(object);
        let mut after = places.partition_point(|link| self.folded.links[*link as usize].at_ns <= to);
        for _ in 0..LINKS_ASKED {
            let place = used.free((range.start + after.checked_sub(1)?) as u32)? as usize;
            let link = self.links_to.places[place.max(range.start)];
            if place < range.start || self.folded.links[link as usize].at_ns <= from {
                return None;
            }
            if self.folded.links[link as usize].from != object && fits(link) {
                return Some(place as u32);
            }
            after = place - range.start;
        }
        None
    }

    /// All links that tell the end of a wait, for replay: to an object, after `from` and up to `to`.
    pub fn links_between(&self, object: Object, from: u64, to: u64) -> &[u32] {
        let places = self.links_to.get(object);
        let at = |link: &u32| self.folded.links[*link as usize].at_ns;
        &places[places.partition_point(|link| at(link) <= from)..places.partition_point(|link| at(link) <= to)]
    }

    /// What an object, or the thread that speaks for it, was in the midst of at a moment, or did last before.
    pub fn doing(&self, object: Object, at: u64, thread: u32) -> Option<(u32, u64, Class)> {
        let on_thread = self.lanes.threads.get(thread as usize);
        let of_object = &self.lanes.objects[object.0 as usize];
        let now = on_thread.and_then(|lane| lane.before(at, self.slack_on(thread)));
        let cut = |part: Part, class: Class| (part.interval, part.to.min(at), class);
        let is_own = |part: &Part| self.one(part.interval).object == object;
        now.filter(is_own)
            .or_else(|| of_object.before(at, self.slack_of(object)))
            .or(now)
            .map(|part| cut(part, Class::Linked))
            .or_else(|| of_object.last_before(at).map(|part| cut(part, Class::Heuristic)))
            .or_else(|| self.thread_before(thread, at).map(|part| cut(part, Class::Heuristic)))
    }

    /// What a thread did last before a moment; a track tells nothing.
    fn thread_before(&self, thread: u32, at: u64) -> Option<Part> {
        let lane = self.lanes.threads.get(thread as usize).filter(|_| !self.lanes.is_track[thread as usize])?;
        lane.last_before(at)
    }

    fn is_resource(&self, object: Object) -> bool {
        !self.uses.get(object).is_empty()
    }

    /// The use of a resource that was handed over by a link.
    fn use_at(&self, resource: Object, at: u64) -> Option<u32> {
        let uses = self.uses.get(resource);
        let after =
            uses.partition_point(|index| self.one(*index).begin() <= at.saturating_add(self.slack_of(resource)));
        let now = after.checked_sub(1).map(|place| uses[place]);
        now.filter(|index| self.end_of(*index) > at).or_else(|| uses.get(after).copied()).or(now)
    }

    /// Who uses a resource: by its last link between the use before and this one, else by its first link in this one.
    pub fn user(&self, of: u32) -> Option<Object> {
        let one = self.one(of);
        let slack = self.slack_of(one.object);
        let links = self.links_from.get(one.object);
        let at = |link: u32| self.folded.links[link as usize].at_ns;
        let before = self.use_before(of).map_or(0, |before| self.end_of(before));
        let after = links.partition_point(|link| at(*link) <= one.begin().saturating_add(slack));
        let last = after.checked_sub(1).map(|place| links[place]);
        let last = last.filter(|link| at(*link).saturating_add(slack) >= before);
        let first = || links.get(after).copied().filter(|link| at(*link) <= self.end_of(of));
        last.or_else(first).map(|link| self.folded.links[link as usize].to)
    }

    /// The use of a resource that a wait ended with: by a link, or because it began then on the same thread.
    pub fn acquired(&self, index: u32, at: u64) -> Option<u32> {
        let one = self.one(index);
        let slack = self.slack_of(one.object);
        let (from, _) = one.wait?;
        let thread = one.exec.map(|(_, thread)| thread).or(self.folded.manners[index as usize].ended_on)?;
        let up_to = at.saturating_add(slack);
        let by_link = self.links_between(one.object, from, up_to).iter().rev().take(LINKS_ASKED).find_map(|link| {
            let link = self.folded.links[*link as usize];
            let fits = self.is_resource(link.from) && (link.at_ns <= at || !link.is_exact);
            fits.then(|| self.use_at(link.from, link.at_ns)).flatten()
        });
        by_link.or_else(|| {
            let (began, found) = last_up_to(&self.uses_on[thread as usize], up_to)?;
            (began.saturating_add(slack) >= at && self.user(found).is_none()).then_some(found)
        })
    }

    /// The use of a resource before this one, if there was one.
    fn use_before(&self, index: u32) -> Option<u32> {
        let uses = self.uses.get(self.one(index).object);
        let place = uses.binary_search(&index).ok()?;
        place.checked_sub(1).map(|place| uses[place])
    }

    /// Who held what an interval waited for, when it was handed over: `(when, the interval that held it)`.
    pub fn holder(&self, index: u32, at: u64) -> Option<(u64, u32, Object)> {
        let one = self.one(index);
        let slack = self.slack_of(one.object);
        let (from, _) = one.wait?;
        if let Some(acquired) = self.acquired(index, at) {
            let before = self.use_before(acquired)?;
            let done = self.one(before).done.filter(|done| *done > from && *done <= at.saturating_add(slack))?;
            return Some((done, before, self.one(before).object));
        }
        let key = (one.object, self.types[index as usize]);
        if one.exec.is_none() && at >= self.end {
            // It waits still: for whoever has it still.
            let (_, held) = last_up_to(self.begun.get(&key)?, at)?;
            return (held != index && self.one(held).done.is_none()).then_some((at, held, one.object));
        }
        one.exec?;
        let (done, held) = last_up_to(self.ended.get(&key)?, at.saturating_add(slack))?;
        (done > from && held != index).then_some((done, held, one.object))
    }

    /// What ended the wait of an interval, of which everything after `at` is known.
    pub fn release(&self, index: u32, at: u64, used: &mut Used) -> Option<Hop> {
        let one = self.one(index);
        let slack = self.slack_of(one.object);
        let (from, _) = one.wait?;
        let is_end = at.saturating_add(slack) >= self.wait_end(index);
        let is_in_time = |link: u32| {
            let link = self.folded.links[link as usize];
            link.at_ns <= at || !link.is_exact
        };
        let fits = |link: u32| is_in_time(link) && !self.is_resource(self.folded.links[link as usize].from);
        let link = self.link(one.object, from.saturating_add(slack), at.saturating_add(slack), used, &fits);
        let held = is_end.then(|| self.holder(index, at)).flatten();
        let linked_at = |place: u32| self.folded.links[self.links_to.places[place as usize] as usize].at_ns;
        // What came last was what it waited for; of the same moment, the link.
        let link_is_late = |link: u32| held.is_none_or(|(done, ..)| linked_at(link).saturating_add(slack) >= done);
        if let Some(place) = link.filter(|link| link_is_late(*link)) {
            used.take(place);
            return Some(self.linked(place, index, at, None));
        }
        if let Some((done, held, resource)) = held {
            return Some(self.handed_over(done, held, resource, at));
        }
        // A resource that nobody had before: new.
        let any = |link: u32| is_in_time(link) && self.is_resource(self.folded.links[link as usize].from);
        let link = self.link(one.object, from.saturating_add(slack), at.saturating_add(slack), used, &any);
        if let Some(place) = link {
            let resource = self.folded.links[self.links_to.places[place as usize] as usize].from;
            let is_new = self.use_at(resource, linked_at(place)).is_none_or(|of| self.use_before(of).is_none());
            if is_new && self.lanes.objects[resource.0 as usize].last_before(at).is_some_and(|part| part.to > from) {
                used.take(place);
                return Some(self.linked(place, index, at, Some(resource)));
            }
        }
        is_end
            .then(|| self.queue(index, from, at).or_else(|| self.kernel_says(index, from, at)))
            .flatten()
            .or_else(|| self.inside(index, from, at))
            .or_else(|| is_end.then(|| self.writer_busy(index, from, at)).flatten())
            .or_else(|| is_end.then(|| self.guess(index, from, at)).flatten())
    }

    /// What the object itself did in the midst of its wait is what it waited for.
    fn inside(&self, index: u32, from: u64, at: u64) -> Option<Hop> {
        let lane = &self.lanes.objects[self.one(index).object.0 as usize];
        let part = lane.last_before(at).filter(|part| part.from > from)?;
        let hop = |at, gap| Some(Hop { to: part.interval, at, via: Via::Same, gap, through: None, held: None });
        match part.interval == index {
            // Behind the last that it did.
            true => hop(part.from, Class::Unexplained),
            false => (self.end_of(part.interval) <= self.wait_end(index)).then(|| hop(at, Class::Work))?,
        }
    }

    /// What a track tells of is told, and done, by a thread of another file. If that did something for at least half of
    /// a wait, the wait was for its turn.
    fn writer_busy(&self, index: u32, from: u64, at: u64) -> Option<Hop> {
        let writer = *self.trace.writers.get(&self.one(index).exec?.1)?;
        let lane = self.lanes.threads.get(writer as usize)?;
        // The step of the track's clock is no wait.
        if at - from <= self.slack_of(self.one(index).object) || lane.busy(from, at).saturating_mul(2) < at - from {
            return None;
        }
        Some(Hop { to: index, at: from, via: Via::Queue, gap: Class::Queue, through: None, held: None })
    }

    fn linked(&self, place: u32, index: u32, at: u64, through: Option<Object>) -> Hop {
        let link = self.folded.links[self.links_to.places[place as usize] as usize];
        let moment = link.at_ns.min(at);
        let doing = self.doing(link.from, moment, link.thread).filter(|(to, when, _)| *to != index || *when < at);
        // Where there is none, nothing else is known of who released it.
        let (to, at, gap) = doing.unwrap_or((index, moment, Class::Linked));
        let (via, gap) = known_by(link, gap);
        Hop { to, at, via, gap, through: through.map(Through::Resource), held: None }
    }

    fn handed_over(&self, done: u64, held: u32, resource: Object, at: u64) -> Hop {
        let moment = done.min(at);
        let through = Some(Through::Resource(resource));
        let hop = |to, at, gap| Hop { to, at, via: Via::Resource, gap, through, held: Some(held) };
        if !self.is_use[held as usize] {
            return hop(held, moment, Class::Resource);
        }
        let thread = self.folded.manners[held as usize].ended_on.unwrap_or(NONE);
        let on_thread = || self.lanes.threads.get(thread as usize)?.before(moment, self.slack_on(thread));
        let user = self.user(held).and_then(|user| self.doing(user, moment, thread));
        match user.or_else(|| on_thread().map(|part| (part.interval, part.to.min(moment), Class::Resource))) {
            Some((to, when, Class::Heuristic)) => hop(to, when, Class::Heuristic),
            Some((to, when, _)) => hop(to, when, Class::Resource),
            None => hop(held, moment, Class::Resource),
        }
    }

    /// What the thread did between the moment at which an interval was ready and its work. It explains the wait if the
    /// thread was busy for at least half of it.
    pub fn queue(&self, index: u32, from: u64, at: u64) -> Option<Hop> {
        let (_, thread) = self.one(index).exec?;
        if !self.is_top(index) || self.folded.manners[index as usize].is_blocking {
            return None;
        }
        let lane = &self.lanes.threads[thread as usize];
        if lane.busy(from, at).saturating_mul(2) < at - from {
            return None;
        }
        let part = lane.last_before(at).filter(|part| part.to > from && part.to <= at)?;
        let gap = if (at - part.to) <= (at - from) / 10 { Class::Queue } else { Class::Unexplained };
        Some(Hop { to: part.interval, at: part.to, via: Via::Queue, gap, through: None, held: Some(part.interval) })
    }

    fn kernel_says(&self, index: u32, from: u64, at: u64) -> Option<Hop> {
        let thread = self.one(index).exec.or(self.one(index).wait)?.1;
        let all = self.woken.get(thread as usize)?;
        let after = all.partition_point(|place| self.trace.wakes[*place as usize].at_ns <= at);
        let place = *all[..after].last()?;
        let wake = &self.trace.wakes[place as usize];
        let moment = wake.at_ns;
        // An interrupt of which nothing is known explains nothing.
        if moment <= from || wake.what.is_empty() {
            return None;
        }
        let through = Some(Through::Wake(place));
        let hop = |to, at| Hop { to, at, via: Via::Kernel, gap: Class::Kernel, through, held: None };
        let part = wake.by.and_then(|by| self.lanes.threads.get(by as usize)?.before(moment, self.slack_on(by)));
        match part.filter(|part| part.interval != index) {
            Some(part) => Some(hop(part.interval, part.to.min(moment))),
            // Nothing tells what the one that woke it did.
            None => Some(hop(index, from)),
        }
    }

    /// What it caused ended in its wait, or its thread ended something right before it went on.
    fn guess(&self, index: u32, from: u64, at: u64) -> Option<Hop> {
        let one = self.one(index);
        let slack = self.slack_of(one.object);
        let hop = |to, at| Hop { to, at, via: Via::Heuristic, gap: Class::Heuristic, through: None, held: None };
        let caused = last_up_to(&self.caused[one.object.0 as usize], at.saturating_add(slack));
        if let Some((done, child)) = caused.filter(|(done, child)| *done > from && *child != index) {
            return Some(hop(child, done.min(at)));
        }
        let (_, thread) = one.exec?;
        let part = self.thread_before(thread, at)?;
        let is_near = part.to <= at && part.to > from && (at - part.to) <= (at - from) / 10;
        (is_near && part.interval != index).then(|| hop(part.interval, part.to))
    }

    /// What an interval began from.
    pub fn beginning(&self, index: u32, used: &mut Used) -> Option<Hop> {
        let one = self.one(index);
        let slack = self.slack_of(one.object);
        let at = one.begin();
        let (_, thread) = one.wait.or(one.exec)?;
        let of_object = self.lanes.objects[one.object.0 as usize].last_before(at);
        let on_thread = self.lanes.threads.get(thread as usize).and_then(|lane| lane.before(at, 0));
        let on_thread = on_thread.filter(|part| part.interval != index);
        let is_shared = self.folded.manners[index as usize].is_shared;
        let since = match of_object {
            _ if is_shared => at.saturating_sub(slack),
            Some(part) if part.to < at => part.to,
            // Its thread worked on it until then, and needed nobody else for what it did next.
            Some(part) if on_thread == Some(part) => at.saturating_sub(slack),
            Some(part) => part.from,
            None => 0,
        };
        let hop = |to, at, via, gap| Some(Hop { to, at, via, gap, through: None, held: None });
        // A resource does not cause that somebody wants it.
        let fits = |link: u32| !self.is_resource(self.folded.links[link as usize].from);
        let link = self.link(one.object, since, at.saturating_add(slack), used, &fits);
        if let Some(place) = link {
            let link = self.folded.links[self.links_to.places[place as usize] as usize];
            let same_thread = on_thread.filter(|_| link.thread == thread).map(|part| (part.interval, at));
            let found = same_thread.map(|(to, when)| (to, when, Class::Linked));
            let found = found.or_else(|| self.doing(link.from, link.at_ns.min(at), link.thread));
            if let Some((to, when, gap)) = found.filter(|(to, when, _)| *to != index || *when < at) {
                used.take(place);
                let (via, gap) = known_by(link, gap);
                return hop(to, when, via, gap);
            }
        }
        if let Some(part) = on_thread {
            let is_around = self.lanes.around[index as usize] == part.interval && one.wait.is_none();
            return hop(part.interval, at, if is_around { Via::Nested } else { Via::Posted }, Class::Work);
        }
        if let Some(part) = of_object.filter(|part| part.to >= at && part.interval != index && !is_shared) {
            return hop(part.interval, at, Via::Same, Class::Work);
        }
        self.previous(index)
    }

    /// What the object, or the thread on which an interval began, did last before.
    pub fn previous(&self, index: u32) -> Option<Hop> {
        let one = self.one(index);
        let at = one.begin();
        let (_, thread) = one.wait.or(one.exec)?;
        let of_object = self.lanes.objects[one.object.0 as usize].last_before(at);
        let best = [of_object, self.thread_before(thread, at)]
            .into_iter()
            .flatten()
            .filter(|part| part.interval != index)
            .max_by_key(|part| part.to.min(at))?;
        let (to, at, via) = (best.interval, best.to.min(at), Via::Heuristic);
        Some(Hop { to, at, via, gap: Class::Heuristic, through: None, held: None })
    }
}

/// So many links of an object are looked at for one that fits.
const LINKS_ASKED: usize = 64;

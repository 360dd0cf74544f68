//! The critical path: from an event back in time, from hand-over to hand-over. Pure.

use crate::explain::{Class, Hop, Model, Through, Used, Via};
use crate::intervals::Object;
use crate::select::{self, Moment};
use crate::slack::{Slack, slack};
use crate::trace::Trace;
use model::{Error, Exit, Result};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A piece of the path: one owner, one class. The pieces of a path lie side by side and fill it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// When it begins, in nanoseconds from the beginning of the trace.
    pub at_ns: u64,
    /// How long it lasts, in nanoseconds.
    pub ns: u64,
    /// Whose it is, as [`crate::folded()`] numbers it.
    #[serde(skip)]
    pub whose: Object,
    /// Whose it is: the object's name, or its address.
    pub object: String,
    /// The object's address or number.
    pub address: u64,
    /// The type of its interval.
    pub name: String,
    /// The thread that it was worked on, or that had it wait.
    pub thread: u32,
    /// What is known of it.
    pub class: Class,
    /// By which evidence it is on the path: what leads from the step behind it to this one.
    pub via: Via,
    /// The resource that was handed over to the step behind it, or what the kernel says that woke its thread; empty:
    /// neither.
    pub through: String,
}

/// All steps of an object and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The object's name, or its address.
    pub object: String,
    /// The type.
    pub name: String,
    /// How long it works on the path, in nanoseconds.
    pub work_ns: u64,
    /// How long it waits on the path, in nanoseconds.
    pub wait_ns: u64,
    /// How many steps.
    pub steps: u64,
}

impl Owner {
    fn of(object: &str, name: &str) -> Self {
        Self { object: object.to_owned(), name: name.to_owned(), work_ns: 0, wait_ns: 0, steps: 0 }
    }

    fn add(&mut self, step: &Step) {
        *(if step.class == Class::Work { &mut self.work_ns } else { &mut self.wait_ns }) += step.ns;
        self.steps += 1;
    }
}

/// How much of the path is of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClassRow {
    /// The class.
    pub class: Class,
    /// How long, in nanoseconds.
    pub ns: u64,
    /// How many steps.
    pub steps: u64,
}

/// What the path stood in line for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contended {
    /// A type that ends in `in_use`, a lock, or the threads of a name.
    pub resource: String,
    /// How often it was handed over on the path.
    pub handed_over: u64,
    /// How much of the path others had it whom the path waited for, in nanoseconds.
    pub ns: u64,
}

/// The path between two moments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// When it begins, in nanoseconds from the beginning of the trace.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// How long it lasts: the sum of all steps.
    pub span_ns: u64,
    /// In the order of time.
    pub steps: Vec<Step>,
    /// By how long they are on the path.
    pub owners: Vec<Owner>,
    /// By type, longest first; its objects are empty.
    pub types: Vec<Owner>,
    /// What the path stood in line for, longest first.
    pub contended: Vec<Contended>,
    /// In a fixed order; those that are not on the path are left out.
    pub classes: Vec<ClassRow>,
    /// Circles of waits: each waits for the next one, the last for the first.
    pub circles: Vec<Vec<String>>,
    /// Intervals of the trace that had not ended.
    pub open: u64,
    /// What is not on the path, least slack first: where the path would go next.
    pub others: Vec<Slack>,
}

impl Path {
    /// Only the longest steps, still in the order of time; how many were left out.
    pub fn shorten(&mut self, most: usize) -> u64 {
        self.others.truncate(most);
        let all = self.steps.len();
        if all > most {
            let mut longest: Vec<u64> = self.steps.iter().map(|step| step.ns).collect();
            longest.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
            let least = longest.get(most.saturating_sub(1)).copied().unwrap_or(u64::MAX);
            let mut equal = most - longest.iter().take(most).filter(|ns| **ns > least).count();
            self.steps.retain(|step| {
                let takes = step.ns > least || (step.ns == least && equal > 0);
                equal -= usize::from(takes && step.ns == least);
                takes
            });
        }
        (all - self.steps.len()) as u64
    }
}

/// `thaw.timeline-path/1`
#[derive(Serialize)]
pub struct PathDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The files whose events it was made of, on one clock.
    pub paths: Vec<String>,
    /// The path.
    #[serde(flatten)]
    pub path: Path,
    /// Shorter steps, objects and types that are not listed; the sums have them.
    pub left_out: u64,
}

/// A piece before it is put into words.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub from: u64,
    pub to: u64,
    pub interval: u32,
    pub class: Class,
    pub via: Via,
    pub through: Option<Through>,
    pub held: Option<u32>,
}

/// What a walk finds.
#[derive(Debug, Default)]
pub struct Walked {
    /// From the last one back to the first.
    pub pieces: Vec<Piece>,
    /// Circles of waits.
    pub circles: Vec<Vec<Object>>,
    /// How often it asked for evidence.
    pub steps: u64,
}

struct Walk<'m, 'a> {
    model: &'m Model<'a>,
    first: u64,
    /// Everything after this moment has an owner.
    now: u64,
    interval: u32,
    via: Via,
    through: Option<Through>,
    held: Option<u32>,
    /// Whether the interval owns nothing yet.
    is_new: bool,
    used: Used,
    /// The intervals asked since `now` last changed, in their order, and where each stands.
    seen: HashMap<u32, usize>,
    trail: Vec<u32>,
    found: Walked,
}

/// Walks back from an interval at a moment to a moment before.
pub fn walk(model: &Model, first: u64, end: Moment) -> Walked {
    let Some(interval) = end.interval else { return Walked::default() };
    let now = end.at.max(first);
    let (via, through, used) = (Via::End, None, Used::default());
    let (seen, trail, found) = (HashMap::new(), Vec::new(), Walked::default());
    let (held, is_new) = (None, true);
    let mut walk = Walk { model, first, now, interval, via, through, held, is_new, used, seen, trail, found };
    let reached = model.end_of(interval);
    if reached < walk.now {
        walk.owns(reached, Class::Unexplained);
    }
    while walk.now > first {
        walk.step();
    }
    walk.found
}

impl Walk<'_, '_> {
    /// Everything back to a moment is the interval's.
    fn owns(&mut self, down_to: u64, class: Class) {
        let from = down_to.clamp(self.first, self.now);
        if from == self.now {
            return;
        }
        let class = Some(class).filter(|class| *class != Class::Work);
        let class = class.or_else(|| self.model.concluded(self.interval)).unwrap_or(Class::Work);
        let (to, interval, via, through, held) = (self.now, self.interval, self.via, self.through, self.held);
        self.is_new = false;
        match self.found.pieces.last_mut() {
            Some(last) if (last.interval, last.class) == (interval, class) => last.from = from,
            _ => self.found.pieces.push(Piece { from, to, interval, class, via, through, held }),
        }
        self.now = from;
        self.seen.clear();
        self.trail.clear();
    }

    fn goes(&mut self, hop: Hop) {
        if hop.to == self.interval {
            // What woke it says what this wait was for; what led here stays the evidence of what lies before.
            let led = self.through;
            self.through = hop.through.or(led);
            self.owns(hop.at, hop.gap);
            self.through = led;
            return;
        }
        self.owns(hop.at, hop.gap);
        // What led here through intervals that own nothing is the evidence, not that they lie in one another.
        let is_weak = matches!(hop.via, Via::Nested | Via::Posted | Via::Same);
        if !(self.is_new && is_weak && self.via != Via::End) {
            (self.via, self.through, self.held) = (hop.via, hop.through, hop.held);
        }
        (self.interval, self.is_new) = (hop.to, true);
    }

    fn step(&mut self) {
        self.found.steps += 1;
        let (model, index, now) = (self.model, self.interval, self.now);
        let one = model.one(index);
        if let Some(before) = self.seen.insert(index, self.trail.len()) {
            return self.circle(before);
        }
        self.trail.push(index);
        if let Some((exec, thread)) = one.exec.filter(|(exec, _)| *exec < now) {
            return self.worked(exec, thread);
        }
        if let Some((wait, _)) = one.wait.filter(|(wait, _)| *wait < now) {
            self.used.left_out = false;
            return match model.release(index, now, &mut self.used) {
                Some(hop) if hop.to != index || hop.at < now => self.goes(hop),
                // Who released it is known, and was released by it at the same moment.
                _ if self.used.left_out => self.circle(0),
                _ => self.owns(wait, Class::Unexplained),
            };
        }
        match model.beginning(index, &mut self.used) {
            Some(hop) => self.goes(hop),
            None => self.owns(self.first, Class::Unexplained),
        }
    }

    /// It worked; or what lies in its work did.
    fn worked(&mut self, exec: u64, thread: u32) {
        let (model, index) = (self.model, self.interval);
        let occupies = model.lanes.occupies[index as usize];
        let lane = match occupies {
            true => &model.lanes.threads[thread as usize],
            false => &model.lanes.objects[model.one(index).object.0 as usize],
        };
        let Some(part) = lane.before(self.now, 0) else { return self.owns(exec, Class::Work) };
        let inner = model.one(part.interval);
        let lies_in = inner.begin() >= exec && model.end_of(part.interval) <= model.end_of(index);
        if part.interval == index {
            self.owns(part.from.max(exec), Class::Work);
        } else if lies_in && (occupies || !model.folded.manners[index as usize].is_shared) {
            self.goes(Hop {
                to: part.interval,
                at: self.now,
                via: if occupies { Via::Nested } else { Via::Same },
                gap: Class::Work,
                through: None,
                held: None,
            });
        } else {
            self.owns(exec, Class::Work);
        }
    }

    /// All evidence leads back to an interval that was asked at this moment already.
    fn circle(&mut self, before: usize) {
        let (model, index) = (self.model, self.interval);
        let waits = self.trail[before..].iter().filter(|of| {
            let one = model.one(**of);
            one.wait.is_some() && model.wait_end(**of) >= self.now
        });
        let mut objects: Vec<Object> = waits.map(|of| model.one(*of).object).collect();
        objects.dedup();
        if objects.len() > 1 {
            self.found.circles.push(objects);
        }
        let one = model.one(index);
        let phase = one.exec.map(|(at, _)| at).filter(|at| *at < self.now).unwrap_or_else(|| one.begin());
        if phase < self.now {
            return self.owns(phase, Class::Unexplained);
        }
        match model.previous(index).filter(|hop| hop.at < self.now) {
            Some(hop) => {
                self.owns(hop.at, Class::Unexplained);
                self.goes(hop);
            }
            None => self.owns(self.first, Class::Unexplained),
        }
    }
}

/// From where to where.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends<'a> {
    /// A time, an object or a type; `None`: the first event.
    pub from: Option<&'a str>,
    /// A time, an object or a type; `None`: what ended last.
    pub to: Option<&'a str>,
}

/// The moments that are meant.
///
/// # Errors
/// Nothing is called so, they lie the wrong way round, or the trace holds no interval.
pub fn moments(model: &Model, ends: Ends) -> Result<(u64, Moment)> {
    let nothing = || {
        Error::new(Exit::Data, "no path", "the events hold no interval: nothing waits and nothing is worked on")
            .hint("a program says so with THAW_WAIT, THAW_EXEC and THAW_DONE")
    };
    let to = ends.to.map(|word| select::moment(model, word, true)).transpose()?;
    let to = to.or_else(|| select::last(model)).filter(|to| to.interval.is_some()).ok_or_else(nothing)?;
    let from = ends.from.map(|word| select::moment(model, word, false)).transpose()?;
    let from = from.map_or_else(|| select::origin(model), |from| from.at);
    if from >= to.at {
        let what = "its beginning is not before its end";
        return Err(Error::new(Exit::Usage, "no path", what).hint("name an earlier --from or a later --to"));
    }
    Ok((from, to))
}

/// The critical path of a trace.
///
/// # Errors
/// As [`moments`].
pub fn path(trace: &Trace, ends: Ends) -> Result<Path> {
    let model = Model::of(trace);
    let (from, to) = moments(&model, ends)?;
    Ok(told(&model, from, to.at, &walk(&model, from, to)))
}

/// What the path stood in line for: from each hand-over on, as long as the one before had it.
fn contended(model: &Model, walked: &Walked) -> Vec<Contended> {
    let mut all: BTreeMap<String, Contended> = BTreeMap::new();
    let mut now: Option<(String, u64, u64)> = None;
    for piece in &walked.pieces {
        if let Some(held) = piece.held.filter(|_| now.as_ref().is_none_or(|(_, _, done)| piece.to < *done)) {
            let one = model.one(held);
            let name = match piece.via {
                Via::Queue => model.threads_of(held),
                _ => model.held_name(held),
            };
            let row = all.entry(name.clone());
            row.or_insert_with(|| Contended { resource: name.clone(), handed_over: 0, ns: 0 }).handed_over += 1;
            now = Some((name, one.exec.map_or_else(|| one.begin(), |(at, _)| at), model.end_of(held)));
        }
        if let Some((row, from, to)) = now.as_ref().and_then(|(name, from, to)| Some((all.get_mut(name)?, *from, *to)))
        {
            row.ns += piece.to.min(to).saturating_sub(piece.from.max(from));
        }
    }
    let mut all: Vec<Contended> = all.into_values().collect();
    all.sort_by_key(|row| std::cmp::Reverse(row.ns));
    all
}

/// So many of those that are not on the path are told.
const OTHERS: usize = 1000;

/// A walk in words.
pub fn told(model: &Model, from: u64, to: u64, walked: &Walked) -> Path {
    let origin = select::origin(model);
    let steps: Vec<Step> = walked.pieces.iter().rev().map(|piece| step(model, origin, piece)).collect();
    let mut owners: BTreeMap<(&str, &str), Owner> = BTreeMap::new();
    let mut types: BTreeMap<&str, Owner> = BTreeMap::new();
    let mut classes: BTreeMap<Class, ClassRow> = BTreeMap::new();
    for step in &steps {
        owners.entry((&step.object, &step.name)).or_insert_with(|| Owner::of(&step.object, &step.name)).add(step);
        types.entry(&step.name).or_insert_with(|| Owner::of("", &step.name)).add(step);
        let row = classes.entry(step.class).or_insert(ClassRow { class: step.class, ns: 0, steps: 0 });
        (row.ns, row.steps) = (row.ns + step.ns, row.steps + 1);
    }
    let mut owners: Vec<Owner> = owners.into_values().collect();
    let mut types: Vec<Owner> = types.into_values().collect();
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.work_ns + owner.wait_ns));
    types.sort_by_key(|owner| std::cmp::Reverse(owner.work_ns + owner.wait_ns));
    let name = |circle: &Vec<Object>| circle.iter().map(|object| model.called(*object)).collect();
    let mut circles: Vec<Vec<String>> = walked.circles.iter().map(name).collect();
    circles.dedup();
    Path {
        from_ns: from - origin,
        to_ns: to - origin,
        span_ns: to - from,
        owners,
        types,
        contended: contended(model, walked),
        classes: classes.into_values().collect(),
        circles,
        open: model.all().iter().filter(|one| one.done.is_none()).count() as u64,
        others: slack(model, to, &walked.pieces.iter().map(|piece| piece.interval).collect(), OTHERS),
        steps,
    }
}

fn step(model: &Model, origin: u64, piece: &Piece) -> Step {
    let one = model.one(piece.interval);
    let thread = match piece.class {
        Class::Work => one.exec.or(one.wait),
        _ => one.wait.or(one.exec),
    };
    let thread = thread.and_then(|(_, thread)| model.trace.threads.get(thread as usize));
    Step {
        at_ns: piece.from - origin,
        ns: piece.to - piece.from,
        whose: one.object,
        object: model.called(one.object),
        address: model.folded.objects.address(one.object),
        name: model.type_name(piece.interval).to_owned(),
        thread: thread.map_or(0, |thread| thread.tid),
        class: piece.class,
        via: piece.via,
        through: model.through_name(piece.through),
    }
}

#[cfg(test)]
mod tests;

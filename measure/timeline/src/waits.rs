//! All waits added up: by type, by object, by what they were for. Pure.

use crate::explain::{Class, Model, Used, Via};
use crate::graph::median;
use crate::trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;

/// Waits that have something in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// What they have in common.
    pub name: String,
    /// How many.
    pub count: u64,
    /// All added up, in nanoseconds.
    pub waited_ns: u64,
    /// The median, in nanoseconds.
    pub median_ns: u64,
    /// The longest, in nanoseconds.
    pub longest_ns: u64,
    /// How many had not ended when the trace did; they count until then.
    pub open: u64,
}

/// Waits for one thing, known by one kind of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// How it is known.
    pub class: Class,
    /// Its type; empty: not known what it was.
    pub type_name: String,
    /// The resource that was handed over, if there was one.
    pub resource: String,
    /// The waits; their name is that of the object that was waited for.
    #[serde(flatten)]
    pub waits: Waits,
}

/// All waits of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitSums {
    /// All.
    pub all: Waits,
    /// By type of what waited; longest sum first.
    pub types: Vec<Waits>,
    /// By object that waited.
    pub objects: Vec<Waits>,
    /// By object that was waited for.
    pub blockers: Vec<Blocked>,
    /// By how it is known what was waited for.
    pub classes: Vec<Blocked>,
}

/// `thaw.timeline-waits/1`
#[derive(Serialize)]
pub struct WaitsDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The files whose events it was made of, on one clock.
    pub paths: Vec<String>,
    /// The sums.
    #[serde(flatten)]
    pub sums: WaitSums,
}

#[derive(Default)]
struct Sum {
    all: Vec<u64>,
    open: u64,
}

impl Sum {
    fn add(&mut self, ns: u64, is_open: bool) {
        self.all.push(ns);
        self.open += u64::from(is_open);
    }

    fn told(mut self, name: String) -> Waits {
        let median_ns = median(&mut self.all);
        Waits {
            name,
            count: self.all.len() as u64,
            waited_ns: self.all.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns)),
            median_ns,
            longest_ns: self.all.last().copied().unwrap_or(0),
            open: self.open,
        }
    }
}

/// Adds up all waits; of each table the first `most` rows.
pub fn waits(trace: &Trace, most: usize) -> WaitSums {
    let model = Model::of(trace);
    let mut all = Sum::default();
    let mut types: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut objects: BTreeMap<String, Sum> = BTreeMap::new();
    let mut blockers: BTreeMap<(Class, String, String, String), Sum> = BTreeMap::new();
    let mut classes: BTreeMap<Class, Sum> = BTreeMap::new();
    for index in 0..model.all().len() as u32 {
        let one = model.one(index);
        let (ns, is_open) = (one.waited(model.end), one.exec.is_none() && one.done.is_none());
        if ns == 0 || model.is_use[index as usize] {
            continue;
        }
        all.add(ns, is_open);
        types.entry(model.type_name(index)).or_default().add(ns, is_open);
        objects.entry(model.called(one.object)).or_default().add(ns, is_open);
        let (class, key) = blocker(&model, index);
        classes.entry(class).or_default().add(ns, is_open);
        blockers.entry(key).or_default().add(ns, is_open);
    }
    let blocked = |((class, type_name, resource, name), sum): ((Class, String, String, String), Sum)| Blocked {
        class,
        type_name,
        resource,
        waits: sum.told(name),
    };
    let of_class = |(class, sum): (Class, Sum)| Blocked {
        class,
        type_name: String::new(),
        resource: String::new(),
        waits: sum.told(String::new()),
    };
    let mut blockers: Vec<Blocked> = blockers.into_iter().map(blocked).collect();
    blockers.sort_by_key(|row| std::cmp::Reverse(row.waits.waited_ns));
    blockers.truncate(most);
    WaitSums {
        all: all.told(String::new()),
        types: longest(types.into_iter().map(|(name, sum)| sum.told(name.to_owned())), most),
        objects: longest(objects.into_iter().map(|(name, sum)| sum.told(name)), most),
        blockers,
        classes: classes.into_iter().map(of_class).collect(),
    }
}

fn longest(rows: impl Iterator<Item = Waits>, most: usize) -> Vec<Waits> {
    let mut rows: Vec<Waits> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.waited_ns));
    rows.truncate(most);
    rows
}

/// What a wait was for: how that is known; its type, the resource, its name.
fn blocker(model: &Model, index: u32) -> (Class, (Class, String, String, String)) {
    let release = model.release(index, model.wait_end(index), &mut Used::default());
    let woken = release.filter(|hop| hop.to == index && hop.via == Via::Kernel);
    let Some(hop) = release.filter(|hop| hop.to != index) else {
        let class = woken.map_or(Class::Unexplained, |hop| hop.gap);
        let what = model.through_name(woken.and_then(|hop| hop.through));
        return (class, (class, String::new(), what, String::new()));
    };
    let class = hop.via.class();
    let object = model.called(model.one(hop.to).object);
    let resource = model.through_name(hop.through);
    (class, (class, model.type_name(hop.to).to_owned(), resource, object))
}

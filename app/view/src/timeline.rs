//! The page of events that programs wrote: a tape for each object, its moments and links, and the path that somebody
//! worked out. What the document holds is in `docs/view-format.md`; `viewer/src/logic/timeline.ts` reads it.
//!
//! What belongs together (an interval, the object of an address) is what `measure/timeline` says.

use crate::columns::{Column, Texts};
use crate::events::Table;
use crate::html;
use ::timeline::{
    Class, Form, Interval, Lost, Moment, Object, Objects, Process, Thread, Trace, What, intervals, moments,
};
use model::Result;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Version of what a page holds of events.
pub const TIMELINE_SCHEMA: &str = "thaw.timeline-view/1";

/// Bits of the longest time that numbers of a page hold exactly.
const TIME_BITS: u32 = 52;

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct TimelineOf<'a> {
    /// Files that the events were read from, for the title.
    pub name: &'a str,
    /// The events; of several files of one clock, joined.
    pub trace: &'a Trace,
    /// The path between two events, by time; `None`: there is none.
    pub path: Option<&'a [PathStep]>,
}

/// A piece of time that a path gives to one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// In nanoseconds of the trace's clock.
    pub from_ns: u64,
    /// Not before it.
    pub to_ns: u64,
    /// Its owner, by the number of [`timeline::moments`]; `None`: nobody.
    pub object: Option<Object>,
    /// What is known of it.
    pub class: Class,
    /// For people: by which evidence it is on the path.
    pub why: String,
}

const CLASSES: [Class; 7] =
    [Class::Work, Class::Linked, Class::Resource, Class::Queue, Class::Kernel, Class::Heuristic, Class::Unexplained];

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    name: &'a str,
    form: Form,
    /// Whether the rate of the clock is known; if not, times are its ticks.
    is_calibrated: bool,
    /// Wall-clock time of the trace's first event, in nanoseconds since 1970; 0: not known.
    realtime_ns: u64,
    /// Nanoseconds of one step of all times; they count from the first event.
    step_ns: u64,
    /// Time of the last event.
    end: u64,
    /// Events of the trace.
    events: usize,
    lost: Lost,
    damage: &'a [String],
    processes: &'a [Process],
    threads: &'a [Thread],
    types: Types,
    /// Names and arguments, each once.
    texts: Texts,
    objects: Table,
    intervals: Table,
    moments: Table,
    path: Option<Path>,
}

#[derive(Debug, Serialize)]
struct Types {
    /// Each name once.
    names: Texts,
    files: Texts,
    /// Places of the source: a type is its place.
    places: Table,
}

#[derive(Debug, Serialize)]
struct Path {
    classes: &'static [Class],
    why: Texts,
    steps: Table,
}

/// The page of events.
///
/// # Errors
/// It cannot be written as JSON.
pub fn timeline_page(of: &TimelineOf<'_>) -> Result<String> {
    let title = format!("What {} waits for · thaw", of.name);
    html::single(&title, "thaw timeline report", "thaw-timeline", &document(of))
}

fn document<'a>(of: &TimelineOf<'a>) -> Document<'a> {
    let trace = of.trace;
    let time = Time::of(trace);
    let places = Places::of(trace);
    let mut texts = Numbers::default();
    let (_, mut intervals) = intervals(trace);
    let (objects, mut moments) = moments(trace);
    // Of each object together: its number takes no room then, and times are near each other.
    intervals.sort_by_key(|one| (one.object, one.begin()));
    moments.sort_by_key(|one| (one.object, one.at_ns));
    let intervals = packed_intervals(&intervals, &time, &places);
    let moments = packed_moments(&moments, &time, &places, &mut texts);
    let objects = packed_objects(&objects, trace, &mut texts);
    Document {
        schema: TIMELINE_SCHEMA,
        name: of.name,
        form: trace.form,
        is_calibrated: trace.clock.is_calibrated,
        realtime_ns: match trace.clock.realtime_ns {
            0 => 0,
            at => (at + time.from).saturating_sub(trace.clock.origin_ns),
        },
        step_ns: time.step,
        end: time.end,
        events: trace.events.len(),
        lost: trace.lost,
        damage: &trace.damage,
        processes: &trace.processes,
        threads: &trace.threads,
        types: places.packed,
        texts: texts.packed(),
        objects,
        intervals,
        moments,
        path: of.path.map(|steps| packed_path(steps, &time)),
    }
}

/// Times of the page.
struct Time {
    from: u64,
    step: u64,
    end: u64,
}

impl Time {
    fn of(trace: &Trace) -> Self {
        let from = trace.events.first().map_or(0, |event| event.at_ns);
        let span = trace.events.last().map_or(0, |event| event.at_ns.saturating_sub(from));
        let step = 1 << (u64::BITS - span.leading_zeros()).saturating_sub(TIME_BITS);
        Self { from, step, end: span / step }
    }

    fn at(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.from) / self.step
    }
}

/// Texts that are kept once, by number.
#[derive(Default)]
struct Numbers<'a> {
    all: Vec<&'a str>,
    known: HashMap<&'a str, u64>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, text: &'a str) -> u64 {
        let all = &mut self.all;
        *self.known.entry(text).or_insert_with(|| {
            all.push(text);
            all.len() as u64 - 1
        })
    }

    fn packed(&self) -> Texts {
        Texts::pack(self.all.iter().copied())
    }
}

/// Types by their places in the table.
struct Places {
    packed: Types,
    number: HashMap<u32, u64>,
}

impl Places {
    fn of(trace: &Trace) -> Self {
        let (mut names, mut files) = (Numbers::default(), Numbers::default());
        let [mut name, mut file, mut line] = [const { Vec::new() }; 3];
        let mut number = HashMap::new();
        for (place, (id, one)) in (0_u64..).zip(&trace.types) {
            number.insert(*id, place);
            name.push(names.of(&one.name));
            file.push(files.of(&one.file));
            line.push(u64::from(one.line));
        }
        let columns = BTreeMap::from([
            ("name", Column::delta(&name)),
            ("file", Column::delta(&file)),
            ("line", Column::delta(&line)),
        ]);
        let places = Table { count: name.len(), columns };
        Self { packed: Types { names: names.packed(), files: files.packed(), places }, number }
    }

    /// Plus 1; 0: it has none.
    fn number(&self, id: Option<u32>) -> u64 {
        id.and_then(|id| self.number.get(&id)).map_or(0, |place| place + 1)
    }
}

/// Bits of the column `state`.
const WAITED: u64 = 1;
const WORKED: u64 = 2;
const DONE: u64 = 4;

fn packed_intervals(all: &[Interval], time: &Time, places: &Places) -> Table {
    let number = |object: Object| u64::from(object.0);
    let object: Vec<u64> = all.iter().map(|one| number(one.object)).collect();
    let [mut state, mut waited, mut worked, mut poster, mut worker, mut of] = [const { Vec::new() }; 6];
    let mut begin = Vec::with_capacity(all.len());
    // Where the interval before of the same object ended, or where the first one of the object before began.
    let (mut last, mut end, mut first) = (None, 0, 0);
    for one in all {
        let from = time.at(one.begin());
        let exec = one.exec.map(|(at, _)| time.at(at));
        let done = one.done.map(|at| time.at(at));
        if last == Some(one.object) {
            begin.push(from as i64 - end as i64);
        } else {
            begin.push(from as i64 - first as i64);
            first = from;
        }
        last = Some(one.object);
        state.push(
            if one.wait.is_some() { WAITED } else { 0 }
                | if exec.is_some() { WORKED } else { 0 }
                | if done.is_some() { DONE } else { 0 },
        );
        // A length that is not known is 0.
        let wait = one.wait.and_then(|_| exec.or(done)).map_or(0, |to| to.saturating_sub(from));
        let work = exec.zip(done).map_or(0, |(exec, done)| done.saturating_sub(exec));
        waited.push(wait);
        worked.push(work);
        end = from + wait + work;
        poster.push(one.wait.map_or(0, |(_, thread)| u64::from(thread)));
        worker.push(one.exec.map_or(0, |(_, thread)| u64::from(thread)));
        of.push(places.number(one.type_id));
    }
    Table {
        count: all.len(),
        columns: BTreeMap::from([
            ("object", Column::delta(&object)),
            ("begin", Column::signed(&begin)),
            ("state", Column::plain(&state)),
            ("waited", Column::plain(&waited)),
            ("worked", Column::plain(&worked)),
            ("poster", Column::plain(&poster)),
            ("worker", Column::plain(&worker)),
            ("type", Column::plain(&of)),
        ]),
    }
}

fn packed_moments<'a>(all: &[Moment<'a>], time: &Time, places: &Places, texts: &mut Numbers<'a>) -> Table {
    let [mut object, mut what, mut thread, mut of, mut text] = [const { Vec::new() }; 5];
    let [mut at, mut other] = [const { Vec::new() }; 2];
    let (mut last, mut before, mut first) = (None, 0, 0);
    for one in all {
        let now = time.at(one.at_ns);
        if last != Some(one.object) {
            before = first;
            first = now;
        }
        at.push(now as i64 - before as i64);
        (last, before) = (Some(one.object), now);
        let (kind, words, target) = match one.what {
            What::Mark => (0, None, None),
            What::Name(words) => (1, Some(words), None),
            What::Arg(words) => (2, Some(words), None),
            What::Link(target) => (3, None, Some(target)),
            What::Free => (4, None, None),
        };
        object.push(u64::from(one.object.0));
        what.push(kind);
        thread.push(u64::from(one.thread));
        of.push(places.number(one.type_id));
        text.push(words.map_or(0, |words| texts.of(words) + 1));
        other.push(target.map_or(0, |target| i64::from(target.0) - i64::from(one.object.0)));
    }
    Table {
        count: all.len(),
        columns: BTreeMap::from([
            ("object", Column::delta(&object)),
            ("at", Column::signed(&at)),
            ("what", Column::plain(&what)),
            ("thread", Column::plain(&thread)),
            ("type", Column::plain(&of)),
            ("text", Column::delta(&text)),
            ("other", Column::signed(&other)),
        ]),
    }
}

fn packed_objects<'a>(objects: &'a Objects, trace: &Trace, texts: &mut Numbers<'a>) -> Table {
    let all = || (0..objects.len() as u32).map(Object);
    let name: Vec<u64> = all().map(|one| objects.name(one).map_or(0, |name| texts.of(name) + 1)).collect();
    let address: Vec<u64> = all().map(|one| objects.address(one)).collect();
    let processes = trace.processes.len() as u64;
    let process: Vec<u64> =
        all().map(|one| objects.process(one)).map(|place| if place < processes { place + 1 } else { 0 }).collect();
    Table {
        count: objects.len(),
        columns: BTreeMap::from([
            ("name", Column::delta(&name)),
            ("address", Column::delta(&address)),
            ("process", Column::plain(&process)),
        ]),
    }
}

fn packed_path(steps: &[PathStep], time: &Time) -> Path {
    let mut why = Numbers::default();
    let reasons: Vec<u64> = steps.iter().map(|step| why.of(&step.why)).collect();
    let column = |each: &dyn Fn(&PathStep) -> u64| steps.iter().map(each).collect::<Vec<u64>>();
    let class = |step: &PathStep| CLASSES.iter().position(|class| *class == step.class).unwrap_or_default() as u64;
    let took = |step: &PathStep| time.at(step.to_ns).saturating_sub(time.at(step.from_ns));
    let columns = BTreeMap::from([
        ("from", Column::delta(&column(&|step| time.at(step.from_ns)))),
        ("took", Column::plain(&column(&took))),
        ("object", Column::plain(&column(&|step| step.object.map_or(0, |object| u64::from(object.0) + 1)))),
        ("class", Column::plain(&column(&class))),
        ("why", Column::plain(&reasons)),
    ]);
    Path { classes: &CLASSES, why: why.packed(), steps: Table { count: steps.len(), columns } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_events::busy;
    use ::timeline::{Builder, Clock, Event, Phase};

    fn html(trace: &Trace) -> String {
        timeline_page(&TimelineOf { name: "a.events", trace, path: None }).unwrap()
    }

    #[test]
    fn an_event_takes_four_bytes_and_a_half_at_most() {
        // Each event on its own, whatever the viewer itself takes.
        let (trace, empty) = (busy(150_000), busy(0));
        let bytes = html(&trace).len() - html(&empty).len();
        let of_each = bytes as f64 / trace.events.len() as f64;
        assert!(of_each <= 4.5, "{of_each:.2} bytes an event");
    }

    #[test]
    fn times_that_are_too_long_for_the_page_are_counted_in_longer_steps() {
        let mut builder = Builder::new(Form::Chrome, Clock::default());
        builder.says(Phase::Mark, 0, 0, 1, None);
        builder.says(Phase::Mark, u64::MAX, 0, 1, None);
        let trace = builder.build();
        let time = Time::of(&trace);
        assert_eq!((time.step, time.end), (1 << 12, u64::MAX >> 12));
        assert!(html(&trace).contains("\"step_ns\":4096"));
        assert_eq!(Time::of(&Trace::default()).step, 1);
    }

    #[test]
    fn any_events_make_a_page() {
        let nothing = Trace::default();
        let none = document(&TimelineOf { name: "", trace: &nothing, path: Some(&[]) });
        assert_eq!((none.intervals.count, none.moments.count, none.objects.count), (0, 0, 0));
        // An end of nothing, a thread and a type that nobody named, a link to itself.
        let event = |phase| Event {
            at_ns: 5,
            thread: 9,
            phase,
            is_shared: false,
            object: u64::MAX,
            type_id: Some(77),
            other: Some(u64::MAX),
            text: Some("</script>\0\u{2028}".into()),
        };
        let all = [Phase::Done, Phase::Link, Phase::Name, Phase::Arg, Phase::Wait, Phase::Free, Phase::Exec];
        let trace = Trace { events: all.map(event).to_vec(), ..Trace::default() };
        let made = document(&TimelineOf { name: "", trace: &trace, path: None });
        assert_eq!((made.intervals.count, made.moments.count, made.objects.count), (2, 4, 2));
        assert_eq!(html(&trace).matches("</script>").count(), 2, "the data's and the viewer's");
    }

    #[test]
    fn a_path_has_its_classes_and_reasons() {
        let step =
            |from_ns, class| PathStep { from_ns, to_ns: from_ns + 4, object: Some(Object(0)), class, why: "x".into() };
        let path = [step(3, Class::Work), step(7, Class::Unexplained)];
        let nothing = Trace::default();
        let made = document(&TimelineOf { name: "", trace: &nothing, path: Some(&path) });
        let value = serde_json::to_value(&made).unwrap();
        assert_eq!(value["path"]["steps"]["count"], 2);
        assert_eq!(value["path"]["classes"][6], "unexplained");
        assert_eq!(value["path"]["why"]["count"], 1);
    }
}

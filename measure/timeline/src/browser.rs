//! Requests that a browser tells of twice: its net-log knows what each waited for in the network, its trace which task
//! asked for it and which one got what came. Brings the two together, in a trace that was joined of both. Pure.
//!
//! A request of the trace is that of the net-log which has its URL and began after it was sent and before it was over.
//! Where one alone fits, and fits nothing else, it is that one. Where a URL is asked for several times at once and both
//! tell of as many, the n-th is the n-th: a rule, so what follows of it is inferred. All others stay apart, and are
//! counted with the reason.

use crate::trace::{Concluded, Event, Form, INFERRED, Phase, Source, Trace, Type};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

const IN_NET_LOG: &str = "net::url_request::REQUEST_ALIVE";
const IN_TRACE: &str = "devtools::request";
/// What the thread of the network does with each request.
const STARTS: &str = "loading::CorsURLLoaderFactory::CreateLoaderAndStart";

/// A request as one of the two tells of it.
#[derive(Clone, Debug, Default)]
struct Request {
    object: u64,
    url: String,
    begin: u64,
    /// When it was over; `None`: it was not.
    end: Option<u64>,
}

/// What a request of the trace is in the net-log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tie {
    to: u64,
    is_inferred: bool,
}

/// Why requests stay apart.
#[derive(Debug, Default)]
struct Apart {
    unknown: u64,
    ambiguous: u64,
}

/// Brings the requests of net-logs and traces of one browser together.
pub fn tie(trace: &mut Trace) {
    let logs = of_form(trace, Form::NetLog);
    let traces = of_form(trace, Form::Chrome);
    for (log, other) in logs.iter().flat_map(|log| traces.iter().map(move |other| (log, other))) {
        if let Err(reason) = tie_files(trace, log, other) {
            trace.not_joined.push(reason);
        }
    }
}

/// A file of a trace: what it is, and the places of its processes.
type File = (Source, Range<u32>);

fn of_form(trace: &Trace, form: Form) -> Vec<File> {
    let begins = trace.sources.iter().map(|source| source.process);
    let ends = begins.clone().skip(1).chain([trace.processes.len() as u32]);
    let ranges = begins.zip(ends).map(|(from, to)| from..to);
    trace.sources.iter().cloned().zip(ranges).filter(|(source, _)| source.form == form).collect()
}

fn tie_files(trace: &mut Trace, log: &File, other: &File) -> Result<(), String> {
    let (step, lines) = (log.0.step_ns, [&log.0.command_line, &other.0.command_line]);
    if lines.iter().all(|line| !line.is_empty()) && lines[0] != lines[1] {
        return Err("the net-log and the trace are of two browsers: their command lines differ".to_owned());
    }
    let told = requests(trace, &other.1, IN_TRACE, "");
    if told.is_empty() {
        return Err("the trace tells of no request: record it with the category devtools.timeline".to_owned());
    }
    let (ties, apart) = ties(&requests(trace, &log.1, IN_NET_LOG, "method=OPTIONS"), &told, step);
    if ties.is_empty() {
        return Err("no request of the trace is in the net-log at its time: they are of two starts".to_owned());
    }
    refine(trace, &log.1, &ties, step);
    apply(trace, &ties, step);
    if let Some((track, thread)) = writer(trace, log, other) {
        trace.writers.insert(track, thread);
    }
    let mut reasons = Vec::new();
    if apart.unknown > 0 {
        reasons.push(format!("{} that the net-log has not at that time", apart.unknown));
    }
    if apart.ambiguous > 0 {
        reasons.push(format!("{} that may be several of the net-log", apart.ambiguous));
    }
    if reasons.is_empty() { Ok(()) } else { Err(format!("requests of the trace: {}", reasons.join(", "))) }
}

/// The track of a net-log, and the thread that wrote it: the one on which requests are started.
fn writer(trace: &Trace, log: &File, other: &File) -> Option<(u32, u32)> {
    let track = trace.threads.iter().position(|thread| log.1.contains(&thread.process))?;
    let mut starts: BTreeMap<u32, u64> = BTreeMap::new();
    for event in trace.events.iter().filter(|event| event.phase == Phase::Exec) {
        let process = trace.threads.get(event.thread as usize).map(|thread| thread.process);
        if process.is_some_and(|of| other.1.contains(&of)) && trace.type_name(event.type_id) == STARTS {
            *starts.entry(event.thread).or_default() += 1;
        }
    }
    let (thread, _) = starts.into_iter().max_by_key(|(_, starts)| *starts)?;
    Some((track as u32, thread))
}

/// All requests of a file, but those that have the argument `without`.
fn requests(trace: &Trace, processes: &Range<u32>, type_name: &str, without: &str) -> Vec<Request> {
    let mut all: BTreeMap<u64, Request> = BTreeMap::new();
    let mut names: HashMap<u64, &str> = HashMap::new();
    let is_of_file = |object: u64| processes.contains(&(Trace::process(object) as u32));
    for event in trace.events.iter().filter(|event| is_of_file(event.object)) {
        let object = event.object;
        match (event.phase, &event.text) {
            (Phase::Name, Some(name)) => drop(names.insert(object, name)),
            (Phase::Arg, Some(text)) if **text == *without => drop(all.remove(&object)),
            (Phase::Wait | Phase::Exec, _) if trace.type_name(event.type_id) == type_name => {
                all.entry(object).or_insert(Request { object, begin: event.at_ns, ..Request::default() });
            }
            (Phase::Done, _) if trace.type_name(event.type_id) == type_name => {
                if let Some(request) = all.get_mut(&object) {
                    request.end = Some(event.at_ns);
                }
            }
            _ => {}
        }
    }
    all.into_values()
        .filter_map(|request| {
            let url = names.get(&request.object)?.to_string();
            (url.starts_with("http:") || url.starts_with("https:")).then_some(Request { url, ..request })
        })
        .collect()
}

fn by_url(all: &[Request]) -> BTreeMap<&str, Vec<&Request>> {
    let mut by_url: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    all.iter().for_each(|request| by_url.entry(&request.url).or_default().push(request));
    by_url.values_mut().for_each(|same| same.sort_by_key(|request| request.begin));
    by_url
}

/// Which request of the trace is which of the net-log, whose times are of this step.
fn ties(logged: &[Request], told: &[Request], step: u64) -> (HashMap<u64, Tie>, Apart) {
    let (mut ties, mut apart) = (HashMap::new(), Apart::default());
    let logged = by_url(logged);
    for (url, told) in by_url(told) {
        let logged = logged.get(url).map_or(&[][..], Vec::as_slice);
        let fits: Vec<Range<usize>> = told.iter().map(|request| fitting(logged, request, step)).collect();
        let mut fitted = vec![0_usize; logged.len()];
        fits.iter().flat_map(Clone::clone).for_each(|place| fitted[place] += 1);
        let is_in_order = logged.len() == told.len() && fits.iter().enumerate().all(|(n, fits)| fits.contains(&n));
        for (n, (request, fits)) in told.iter().zip(fits).enumerate() {
            let alone = (fits.len() == 1 && fitted[fits.start] == 1).then_some(fits.start);
            match alone.or(is_in_order.then_some(n)) {
                Some(place) => {
                    let tie = Tie { to: logged[place].object, is_inferred: alone.is_none() };
                    ties.insert(request.object, tie);
                }
                None if fits.is_empty() => apart.unknown += 1,
                None => apart.ambiguous += 1,
            }
        }
    }
    (ties, apart)
}

/// Which of the net-log's requests of one URL began while the trace's was on its way.
fn fitting(logged: &[&Request], told: &Request, step: u64) -> Range<usize> {
    let from = logged.partition_point(|request| request.begin.saturating_add(step) <= told.begin);
    let to = logged.partition_point(|request| told.end.is_none_or(|end| request.begin <= end));
    from..to.max(from)
}

/// Takes the finer times of the trace: no event of the net-log was before one that comes before it in the log, and a
/// request did not begin before it was sent. None changes by a step of the log's times, and their order stays.
fn refine(trace: &mut Trace, log: &Range<u32>, ties: &HashMap<u64, Tie>, step: u64) {
    let mut sent: HashMap<u64, u64> = HashMap::new();
    for event in trace.events.iter().filter(|event| event.phase == Phase::Wait) {
        if let Some(tie) = ties.get(&event.object) {
            sent.entry(tie.to).or_insert(event.at_ns);
        }
    }
    let mut now = 0;
    let is_of_log = |event: &&mut Event| log.contains(&(Trace::process(event.object) as u32));
    for event in trace.events.iter_mut().filter(is_of_log) {
        let begun = (event.phase == Phase::Exec).then(|| sent.remove(&event.object)).flatten();
        let least = begun.filter(|sent| *sent < event.at_ns.saturating_add(step)).unwrap_or(0);
        now = event.at_ns.max(now).max(least);
        event.at_ns = now;
    }
    trace.events.sort_by_key(|event| event.at_ns);
}

/// What a thread did without a break: from and to.
type Tasks = Vec<(u64, u64)>;

/// Of each of these objects, which are threads: its tasks, whatever lies in them.
fn tasks(trace: &Trace, threads: &HashMap<u64, Tasks>) -> HashMap<u64, Tasks> {
    let mut depths: HashMap<u64, u32> = HashMap::new();
    let mut all = threads.clone();
    for event in &trace.events {
        let Some(tasks) = all.get_mut(&event.object) else { continue };
        let depth = depths.entry(event.object).or_default();
        match event.phase {
            Phase::Exec => {
                if *depth == 0 {
                    tasks.push((event.at_ns, u64::MAX));
                }
                *depth += 1;
            }
            Phase::Done if *depth > 0 => {
                *depth -= 1;
                if let Some(last) = tasks.last_mut().filter(|_| *depth == 0) {
                    last.1 = event.at_ns;
                }
            }
            _ => {}
        }
    }
    all
}

/// The request of the trace becomes that of the net-log: who asked for it, and who got what came, are linked to it.
fn apply(trace: &mut Trace, ties: &HashMap<u64, Tie>, step: u64) {
    let inferred = trace.types.last_key_value().map_or(0, |(last, _)| last + 1);
    trace.types.insert(inferred, Type { name: INFERRED.to_owned(), file: String::new(), line: 0 });
    trace.concluded.insert(inferred, Concluded::Likely);
    let deliveries = deliveries(trace, ties, step);
    for event in &mut trace.events {
        let from = ties.get(&event.object);
        let to = event.other.and_then(|other| ties.get(&other));
        if let Some(tie) = from {
            event.object = tie.to;
            if matches!(event.phase, Phase::Wait | Phase::Exec | Phase::Done) {
                event.phase = Phase::Mark;
            }
        }
        if let Some(tie) = to {
            event.other = Some(tie.to);
        }
        if [from, to].into_iter().flatten().any(|tie| tie.is_inferred) && event.phase == Phase::Link {
            event.type_id = Some(inferred);
        }
    }
    trace.events.extend(deliveries.into_iter().map(|(event, tie)| Event {
        object: tie.to,
        type_id: if tie.is_inferred { Some(inferred) } else { event.type_id },
        ..event
    }));
    trace.events.sort_by_key(|event| event.at_ns);
}

/// A task that got something of a request began for it, if its thread had nothing else to do when the request last told
/// of something.
fn deliveries(trace: &Trace, ties: &HashMap<u64, Tie>, step: u64) -> Vec<(Event, Tie)> {
    let links = || trace.events.iter().filter(|event| event.phase == Phase::Link && ties.contains_key(&event.object));
    let threads = links().filter_map(|event| Some((event.other?, Tasks::new()))).collect();
    let tasks = tasks(trace, &threads);
    let mut ends: HashMap<u64, Vec<u64>> = ties.values().map(|tie| (tie.to, Vec::new())).collect();
    for event in trace.events.iter().filter(|event| event.phase == Phase::Done) {
        if let Some(ends) = ends.get_mut(&event.object) {
            ends.push(event.at_ns);
        }
    }
    links()
        .filter_map(|event| {
            let (tie, tasks) = (ties[&event.object], tasks.get(&event.other?)?);
            let after = tasks.partition_point(|(from, _)| *from <= event.at_ns);
            let (begin, _) = tasks[after.checked_sub(1)?];
            let free = after.checked_sub(2).map_or(0, |before| tasks[before].1);
            let ends = &ends[&tie.to];
            let last = ends[ends.partition_point(|end| *end <= begin).checked_sub(1)?];
            (last.saturating_add(step) > free).then(|| (Event { at_ns: begin, ..event.clone() }, tie))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Class;
    use crate::path::{Ends, Path, path};
    use crate::trace::{Builder, Clock};

    const MS: u64 = 1_000_000;

    fn clock(step_ns: u64) -> Clock {
        Clock { is_monotonic: true, is_calibrated: true, step_ns, is_ordered: step_ns == MS, ..Clock::default() }
    }

    /// A net-log of these requests: URL, begin and end in milliseconds.
    fn log(command_line: &str, requests: &[(&str, u64, u64)]) -> Trace {
        let mut builder = Builder::new(Form::NetLog, clock(MS));
        builder.written_by(command_line.to_owned());
        let process = builder.process(0, "Chromium");
        let thread = builder.thread(process, 0, "");
        let alive = Some(builder.type_of(IN_NET_LOG, "", 0));
        for (object, (url, begin, end)) in (1..).zip(requests) {
            builder.name(begin * MS, thread, object, url);
            builder.says(Phase::Exec, begin * MS, thread, object, alive);
            builder.says(Phase::Done, end * MS, thread, object, alive);
        }
        builder.build()
    }

    /// A trace of a page whose first task, from 1 to 2 ms, sends these requests, each finished by a task of its own:
    /// URL, when it is sent in microseconds, begin and end of the other task in milliseconds.
    fn page(command_line: &str, requests: &[(&str, u64, u64, u64)]) -> Trace {
        let mut builder = Builder::new(Form::Chrome, clock(1000));
        builder.written_by(command_line.to_owned());
        let process = builder.process(9, "Renderer");
        let thread = builder.thread(process, 9, "CrRendererMain");
        let (task, request) =
            (Some(builder.type_of("toplevel::RunTask", "", 0)), Some(builder.type_of(IN_TRACE, "", 0)));
        let task_of = |builder: &mut Builder, from, to| {
            builder.says(Phase::Exec, from, thread, 1, task);
            builder.says(Phase::Done, to, thread, 1, task);
        };
        task_of(&mut builder, MS, 2 * MS);
        for (object, (url, sent_us, from, to)) in (2..).zip(requests) {
            builder.name(sent_us * 1000, thread, object, url);
            builder.link(sent_us * 1000, thread, 1, object, request);
            builder.says(Phase::Wait, sent_us * 1000, thread, object, request);
            task_of(&mut builder, from * MS, to * MS);
            builder.says(Phase::Exec, from * MS + 50_000, thread, object, request);
            builder.says(Phase::Done, from * MS + 50_000, thread, object, request);
            builder.link(from * MS + 50_000, thread, object, 1, request);
        }
        builder.build()
    }

    fn joined(mut log: Trace, page: Trace) -> Trace {
        log.join(page);
        tie(&mut log);
        log
    }

    /// Requests of the net-log, each with that of the trace that it is.
    fn tied(trace: &Trace) -> Vec<(u64, bool)> {
        let sent = trace.events.iter().filter(|event| event.phase == Phase::Link && Trace::process(event.object) == 1);
        let to = sent.filter_map(|event| Some((event.other?, trace.type_name(event.type_id) == INFERRED)));
        to.filter(|(to, _)| Trace::process(*to) == 0).collect()
    }

    fn classes(path: &Path) -> Vec<(Class, u64)> {
        path.classes.iter().map(|row| (row.class, row.ns)).collect()
    }

    #[test]
    fn a_request_is_asked_for_by_a_task_and_begins_the_one_that_gets_it() {
        let told = page("x", &[("http://a/i", 1_500, 9, 10)]);
        let trace = joined(log("x", &[("http://a/i", 1, 9)]), told.clone());
        assert_eq!((tied(&trace), trace.not_joined.len()), (vec![(1, false)], 0));
        let whole = path(&trace, Ends::default()).unwrap();
        let owners: Vec<_> = whole.steps.iter().map(|step| (step.name.as_str(), step.ns, step.class)).collect();
        let expected = [
            ("toplevel::RunTask", 500_000, Class::Work),
            (IN_NET_LOG, 7_500_000, Class::Work),
            ("toplevel::RunTask", MS, Class::Work),
        ];
        assert_eq!(owners, expected, "the request begins when it is sent, not at the millisecond before");
        let mut apart = log("x", &[("http://a/i", 1, 9)]);
        apart.join(told);
        let apart = path(&apart, Ends::default()).unwrap();
        assert!(apart.owners.iter().all(|owner| owner.name != IN_NET_LOG), "{:?}", apart.steps);
    }

    #[test]
    fn of_a_url_that_is_asked_for_several_times_at_once_the_nth_is_the_nth_by_rule() {
        let requests = [("http://a/i", 2, 5), ("http://a/i", 3, 8)];
        let told = [("http://a/i", 1_500, 5, 6), ("http://a/i", 1_600, 9, 10)];
        let trace = joined(log("x", &requests), page("x", &told));
        assert_eq!((tied(&trace), trace.not_joined.len()), (vec![(1, true), (2, true)], 0));
        let whole = path(&trace, Ends::default()).unwrap();
        assert_eq!(classes(&whole)[1], (Class::Heuristic, MS + 1_400_000), "what a rule found is no link");
        let one_after_another = [("http://a/i", 1_500, 2, 3), ("http://a/i", 3_500, 9, 10)];
        let trace = joined(log("x", &[("http://a/i", 1, 2), ("http://a/i", 4, 8)]), page("x", &one_after_another));
        assert_eq!(tied(&trace), [(1, false), (2, false)], "their times tell them apart");
    }

    #[test]
    fn what_may_be_several_and_what_the_log_has_not_stays_apart_with_the_reason() {
        let logged = log("x", &[("http://a/i", 2, 5), ("http://a/i", 3, 8), ("http://a/x", 2, 3)]);
        let told =
            page("x", &[("http://a/i", 1_500, 9, 10), ("http://a/none", 1_600, 11, 12), ("http://a/x", 1_700, 13, 14)]);
        let trace = joined(logged, told);
        assert_eq!(tied(&trace), [(3, false)]);
        let reason = "requests of the trace: 1 that the net-log has not at that time, \
                      1 that may be several of the net-log";
        assert_eq!(trace.not_joined, [reason]);
    }

    #[test]
    fn two_browsers_two_starts_and_a_trace_without_requests_are_not_joined() {
        let requests = [("http://a/i", 2, 5)];
        let reason = |log: Trace, page: Trace| {
            let events = log.events.len() + page.events.len();
            let trace = joined(log, page);
            assert_eq!((trace.events.len(), tied(&trace)), (events, vec![]), "nothing is added");
            trace.not_joined.join("; ")
        };
        let told = [("http://a/i", 1_500, 6, 7)];
        assert!(reason(log("a", &requests), page("b", &told)).contains("two browsers"));
        assert!(reason(log("a", &[("http://a/i", 50, 60)]), page("a", &told)).contains("two starts"));
        assert!(reason(log("a", &requests), page("a", &[])).contains("devtools.timeline"));
    }

    #[test]
    fn a_task_that_had_to_wait_for_its_thread_was_not_begun_by_what_it_got() {
        let told = [("http://a/i", 1_500, 10, 11), ("http://a/j", 1_600, 12, 14)];
        let trace = joined(log("x", &[("http://a/i", 2, 9), ("http://a/j", 2, 3)]), page("x", &told));
        let whole = path(&trace, Ends::default()).unwrap();
        assert!(whole.steps.iter().all(|step| step.object != "http://a/j"), "{:?}", whole.steps);
        assert!(whole.steps.iter().any(|step| step.object == "http://a/i"));
    }
}

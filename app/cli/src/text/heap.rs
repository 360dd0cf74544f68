//! `thaw heap` as text: what each process allocated, and what is missing.

pub mod dark;
pub mod look;
pub mod names;
pub mod resident;

use super::table::{Align, Table};
use super::{Page, harmless, units};
use heap::modes::{Held, Reach, Reached};
use heap::report::{Frame, Leak, LeakCheck, ProcessReport};
use heap::symbols;
use model::Bytes;
use std::collections::HashMap;
use work::heaps::{CheckDocument, FinishDocument, RunDocument};

/// Processes in the table.
const MOST: usize = 20;
/// A process with less than one part in so many of all that was allocated has no row.
const SMALL: u64 = 100;
/// Longest name of a function in a line of several.
const FUNCTION: usize = 40;
/// Functions of a stack in a line.
const FRAMES: usize = 4;
/// Processes whose leaks are printed.
const MOST_LEAKING: usize = 3;

/// `3 processes of the program still run (Ctrl-C does not wait for them)`.
pub fn waiting(left: u64) -> String {
    format!(
        "{} of the program still there (Ctrl-C does not wait for them)",
        units::plural(left, "process", "processes")
    )
}

/// `recording process 1234 (Ctrl-C lets it go)`
pub fn recording(pid: u32, seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) => format!("recording process {pid} for {seconds} s (Ctrl-C lets it go now)"),
        None => format!("recording process {pid} (Ctrl-C lets it go)"),
    }
}

/// `12.3M events`.
pub fn finishing(events: u64) -> String {
    format!("{} rewritten", units::plural(events, "event", "events"))
}

/// Which blocks processes that run could still reach.
pub fn check(document: &CheckDocument, leaks: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for process in &document.report.processes {
        leaked(&mut page, process, leaks);
        if let Some(check) = process.leak_check.as_ref().filter(|check| check.unknown.is_none()) {
            page.labelled("", "  ", &format!("it stood still for {}", units::nanos(check.stopped_ns)));
        }
    }
    let file = harmless(&model::shown(&document.file));
    page.gap();
    page.line(&format!("with whole stacks: thaw heap report {file} --mode lost"));
    page
}

/// What rewriting a recording did.
pub fn finished(document: &FinishDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let file = harmless(&model::shown(&document.file));
    if document.streams == 0 && document.sums == 0 {
        page.line(&format!("{file} is finished already"));
    }
    if document.streams > 0 {
        let streams = units::plural(document.streams, "process", "processes");
        let (before, after) = (units::bytes(document.before_bytes), units::bytes(document.after_bytes));
        let events = units::plural(document.events, "event", "events");
        page.line(&format!("{file}: {events} of {streams}, {before} before, {after} now"));
    }
    if document.sums > 0 {
        let sums = units::plural(document.sums, "process", "processes");
        let state = match document.cut {
            0 => "they are complete".to_owned(),
            _ => format!("those of {} do not have all events", document.cut),
        };
        page.line(&format!("{file}: sums of {sums} in the place of events, which stay as they are; {state}"));
        if document.left_out_bytes.0 > 0 {
            let left_out = units::bytes(document.left_out_bytes);
            page.line(&format!(
                "removed: {left_out} of events that were not added up before thaw was killed; without \
             what was before them they say nothing"
            ));
        }
        if document.cut > 0 {
            page.line(&format!("what is missing: thaw heap report {file}"));
        }
    }
    page
}

/// What is asked next, and the verb and options of `thaw heap` that answer it.
const NEXT: [(&str, &str, &str); 5] = [
    ("what was never freed", "report", " --mode leaks"),
    ("what was live at the peak", "report", " --mode live"),
    ("who allocates most", "report", ""),
    ("what is freed at once", "report", " --mode temporary"),
    ("what the allocator wastes", "slop", ""),
];
/// What only a leak check can answer.
const NEXT_OF_CHECK: (&str, &str, &str) = ("what was lost", "report", " --mode lost");
/// What only events can answer.
const NEXT_OF_EVENTS: (&str, &str, &str) = ("what grows too slowly", "growth", "");

/// The summary of a recording.
pub fn page(document: &RunDocument, leaks: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let report = &document.report;
    let (mut largest, small) = split(&report.processes);
    if !largest.is_empty() {
        page.table(&processes(&largest));
    }
    if !small.is_empty() {
        let sum = |of: fn(&ProcessReport) -> u64| small.iter().map(|process| of(process)).fold(0, u64::saturating_add);
        page.remark(&format!(
            "and {} that allocated less (--json): {} together, {} not freed",
            units::plural(small.len() as u64, "process", "processes"),
            units::bytes(Bytes(sum(|process| process.allocated_bytes.0))),
            units::bytes(Bytes(sum(|process| process.leaked_bytes.0))),
        ));
    }
    largest.sort_by_key(|process| std::cmp::Reverse((lost(process), process.leaked_bytes)));
    for process in largest.into_iter().take(MOST_LEAKING) {
        leaked(&mut page, process, leaks);
    }
    for process in &report.processes {
        if !process.inside.is_empty() {
            let names = harmless(&process.inside.join(", "));
            page.gap();
            page.labelled(&format!("hooked inside of process {}", process.pid), "  ", &names);
        }
    }
    look::warnings(&mut page, &report.warnings);
    page.gap();
    page.line(&ended(document));
    if let Some(stopped) = &document.recording.stopped {
        page.line(&format!(
            "stopped for it: {} together for {} ({}, {} at most), one of them for {}",
            units::plural(stopped.threads as u64, "thread", "threads"),
            units::nanos(stopped.all_ns),
            units::plural(stopped.times.into(), "time", "times"),
            units::nanos(stopped.longest_ns),
            units::nanos(stopped.borrowed_ns),
        ));
    }
    let file = harmless(&model::shown(&document.file));
    page.line(&format!("recorded in {file}"));
    if !report.processes.is_empty() {
        page.gap();
        let of_events = Some(NEXT_OF_EVENTS).filter(|_| !document.summed);
        let of_check = Some(NEXT_OF_CHECK).filter(|_| document.recording.leak_check);
        for (question, verb, options) in of_check.into_iter().chain(NEXT).chain(of_events) {
            page.line(&format!("{question:<25}  thaw heap {verb} {file}{options}"));
        }
    }
    page
}

/// What a leak check found to be lost.
fn lost(process: &ProcessReport) -> Held {
    process.leak_check.as_ref().map_or(Held::default(), |check| check.reached.unreached())
}

/// Those that have a row of their own, in the order of their beginnings, and those that are told in one line: helpers
/// of a process tree, which allocated little of all that was, and nothing of whose figures is in doubt.
fn split(processes: &[ProcessReport]) -> (Vec<&ProcessReport>, Vec<&ProcessReport>) {
    let all = processes.iter().fold(0u64, |sum, process| sum.saturating_add(process.allocated_bytes.0));
    let is_small = |process: &&ProcessReport| {
        process.allocated_bytes.0 < all / SMALL && process.inconsistencies == 0 && process.lost == 0
    };
    let (mut small, mut largest): (Vec<_>, Vec<_>) = processes.iter().partition(is_small);
    if largest.len() > MOST {
        largest.sort_by_key(|process| std::cmp::Reverse(process.allocated_bytes));
        small.extend(largest.drain(MOST..));
    }
    // A line for one is as long as its row.
    if small.len() == 1 {
        largest.append(&mut small);
    }
    (largest, small)
}

fn processes(processes: &[&ProcessReport]) -> Table {
    let columns = [
        ("process", Align::Right),
        ("allocations", Align::Right),
        ("frees", Align::Right),
        ("allocated", Align::Right),
        ("peak", Align::Right),
        ("not freed", Align::Right),
        ("blocks", Align::Right),
        ("threads", Align::Right),
        ("wrong", Align::Right),
        ("lost", Align::Right),
        ("program", Align::Elastic),
    ];
    let mut table = Table::new(columns);
    let if_any = |count: u64| if count == 0 { String::new() } else { units::count(count) };
    for process in processes {
        let forked = process.forked_from.map(|pid| format!(" (forked from {pid})")).unwrap_or_default();
        table.row([
            process.pid.to_string(),
            units::count(process.allocations),
            units::count(process.frees),
            give_or_take(process.allocated_bytes, process.allocated_error_bytes),
            units::bytes(process.peak_bytes),
            give_or_take(process.leaked_bytes, process.leaked_error_bytes),
            units::count(process.leaked_blocks),
            process.threads.to_string(),
            if_any(process.inconsistencies),
            if_any(process.lost),
            harmless(&format!("{}{forked}", process.exe)),
        ]);
    }
    table.without_empty_columns()
}

/// An estimate with its standard error.
fn give_or_take(bytes: Bytes, error: Option<Bytes>) -> String {
    match error {
        Some(error) => format!("{} ± {}", units::bytes(bytes), units::bytes(error)),
        None => units::bytes(bytes),
    }
}

fn leaked(page: &mut Page, process: &ProcessReport, most: usize) {
    if process.leaks.is_empty() || most == 0 {
        return;
    }
    page.gap();
    let program = process.exe.rsplit('/').next().unwrap_or(&process.exe);
    page.line(&format!(
        "Not freed by process {} ({}): {} in {} from {}",
        process.pid,
        harmless(program),
        units::bytes(process.leaked_bytes),
        units::plural(process.leaked_blocks, "block", "blocks"),
        units::plural(process.leaks.len() as u64, "stack", "stacks"),
    ));
    match &process.leak_check {
        Some(LeakCheck { unknown: None, reached, doubts, .. }) => return checked(page, process, reached, doubts, most),
        Some(LeakCheck { unknown: Some(why), .. }) => {
            page.labelled("", "  ", &format!("which of it can still be reached is unknown: {}", harmless(why)));
        }
        None => {}
    }
    let (kept, rest): (Vec<&Leak>, Vec<&Leak>) = process.leaks.iter().partition(|leak| is_kept(&leak.stack));
    places(page, "", sites(rest.into_iter().map(with_sum)), most);
    let sum = kept.into_iter().map(with_sum).fold(Sum::default(), |sum, (_, leak)| sum.plus(leak));
    if sum.blocks > 0 {
        let (bytes, blocks) = (units::bytes(sum.bytes), units::plural(sum.blocks, "block", "blocks"));
        page.labelled("", "  ", &format!("{bytes} in {blocks}: {KEPT}"));
    }
}

/// The first sites, and the others together; each line begins with `what` they are.
fn places(page: &mut Page, what: &str, mut sites: Vec<(Vec<String>, Sum)>, most: usize) {
    let others = sites.split_off(most.min(sites.len()));
    for (frames, held) in sites {
        let blocks = units::plural(held.blocks, "block", "blocks");
        let place = if frames.is_empty() { "(no stack)".to_owned() } else { frames.join(" < ") };
        page.labelled("", "  ", &format!("{what}{} in {blocks}: {place}", units::bytes(held.bytes)));
    }
    if !others.is_empty() {
        let sum = others.iter().fold(Sum::default(), |sum, (_, held)| sum.plus(*held));
        let places = units::plural(others.len() as u64, "other place", "other places");
        let blocks = units::plural(sum.blocks, "block", "blocks");
        page.labelled("", "  ", &format!("{what}{} in {blocks}: {places} (--leaks)", units::bytes(sum.bytes)));
    }
}

/// The same after a leak check: what is lost first.
fn checked(page: &mut Page, process: &ProcessReport, reached: &Reached, doubts: &[String], most: usize) {
    let known: [(&str, Held); 4] = [
        ("lost: nothing points to it", reached.lost),
        ("only lost blocks point to it", reached.indirect),
        ("possibly lost: something points into its middle", reached.possible),
        ("still reachable", reached.reachable),
    ];
    let sum = known.iter().fold(Sum::default(), |sum, (_, held)| sum.plus(Sum::of(*held)));
    // What was made after the process was looked at.
    let later = Sum {
        bytes: Bytes(process.leaked_bytes.0.saturating_sub(sum.bytes.0)),
        blocks: process.leaked_blocks.saturating_sub(sum.blocks),
    };
    let each = known.into_iter().map(|(what, held)| (what, Sum::of(held)));
    for (what, sum) in each.chain([("made after the process was looked at: unknown", later)]) {
        if sum.blocks > 0 {
            let blocks = units::plural(sum.blocks, "block", "blocks");
            page.labelled("", "  ", &format!("{} in {blocks}: {what}", units::bytes(sum.bytes)));
        }
    }
    for doubt in doubts {
        page.labelled("", "  ", &harmless(doubt));
    }
    for (what, of) in [("lost ", Reach::Lost), ("possibly lost ", Reach::Possible)] {
        let of_kind = |leak: &'_ Leak| Sum::of(leak.reached.of(of));
        let some = process.leaks.iter().map(|leak| (leak, of_kind(leak))).filter(|(_, sum)| sum.blocks > 0);
        places(page, what, sites(some), most);
    }
}

/// What is never given back to the very end, and is no leak.
const KEPT: &str = "kept on purpose by the C and C++ libraries (buffers of stdio, locales, the reserve for exceptions)";

/// Whether a stack is one of those that [`KEPT`] tells; valgrind lets the libraries give these back before it counts.
fn is_kept(stack: &[Frame]) -> bool {
    let object = |frame: &Frame| frame.module.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    let is = |frame: &Frame, names: &[&str]| {
        let plain =
            |function: &String| function.strip_prefix("__GI_").unwrap_or(function).trim_start_matches('_').to_owned();
        frame.functions.iter().any(|function| names.contains(&plain(function).as_str()))
    };
    let mut frames = stack.iter();
    // The functions of the libraries themselves; `malloc` of another allocator may be below.
    let first = frames.by_ref().find(|frame| !frame.functions.iter().any(|function| symbols::allocates(function)));
    let (Some(first), next) = (first, frames.next()) else { return false };
    match object(first).as_deref() {
        Some(object) if object.starts_with("libc.so") => {
            is(first, &["IO_file_doallocate"]) || stack.iter().any(|frame| is(frame, &["setlocale", "nl_find_locale"]))
        }
        // `(anonymous namespace)::pool::pool()`, which symbol tables do not name.
        Some(object) if object.starts_with("libstdc++.so") => next.is_some_and(|frame| is(frame, &["call_init"])),
        _ => false,
    }
}

/// What stacks that look the same in a line have together: most bytes first.
fn sites<'a>(leaks: impl Iterator<Item = (&'a Leak, Sum)>) -> Vec<(Vec<String>, Sum)> {
    let mut sites: Vec<(Vec<String>, Sum)> = Vec::new();
    let mut index: HashMap<Vec<String>, usize> = HashMap::new();
    for (leak, sum) in leaks {
        let frames = wanting(&leak.stack);
        let at = *index.entry(frames.clone()).or_insert_with(|| {
            sites.push((frames, Sum::default()));
            sites.len() - 1
        });
        sites[at].1 = sites[at].1.plus(sum);
    }
    // Of equal ones that which came first stays first.
    sites.sort_by_key(|(_, held)| std::cmp::Reverse((held.bytes, held.blocks)));
    sites
}

/// All of a leak.
fn with_sum(leak: &Leak) -> (&Leak, Sum) {
    (leak, Sum { bytes: leak.bytes, blocks: leak.blocks })
}

/// Blocks.
#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: Bytes,
    blocks: u64,
}

impl Sum {
    fn of(held: Held) -> Self {
        Self { bytes: Bytes(held.bytes), blocks: held.blocks }
    }

    fn plus(self, other: Self) -> Self {
        // As all sums of what files say: never more than fits.
        Self {
            bytes: Bytes(self.bytes.0.saturating_add(other.bytes.0)),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }
}

/// The innermost functions of a stack from who wanted the memory on, as `thaw heap report` has it; all, if every one
/// only hands it on.
fn wanting(stack: &[Frame]) -> Vec<String> {
    let named: Vec<(Option<&str>, String)> = stack.iter().flat_map(functions).collect();
    let inner = named.iter().map(|(function, _)| function.map(symbols::allocates));
    let inner = inner.take_while(|allocates| *allocates != Some(false)).enumerate();
    let handing = inner.filter(|(_, allocates)| allocates.is_some()).map(|(index, _)| index + 1).last().unwrap_or(0);
    let from = if handing == named.len() { 0 } else { handing };
    named.into_iter().skip(from).take(FRAMES).map(|(_, name)| name).collect()
}

/// What a frame is called, whole and in a line: several functions if some are inlined, object and address if nothing
/// names it.
fn functions(frame: &Frame) -> Vec<(Option<&str>, String)> {
    if frame.functions.is_empty() {
        let module = frame.module.as_deref().unwrap_or("(no file)");
        let name = module.rsplit('/').next().unwrap_or(module);
        return vec![(None, format!("{}+{:#x}", harmless(name), frame.address))];
    }
    let shorter = |function: &String| names::shorter(&harmless(function), FUNCTION);
    frame.functions.iter().map(|function| (Some(function.as_str()), shorter(function))).collect()
}

fn ended(document: &RunDocument) -> String {
    let recording = &document.recording;
    if recording.attached {
        return match recording.running.is_empty() {
            true => "the program has ended".into(),
            false => "the program goes on without its hooks; what it had before is not counted".into(),
        };
    }
    match (recording.code, recording.signal) {
        (Some(code), _) => format!("the program exited with {code}{}", used(recording)),
        (_, Some(signal)) => {
            let name = os::process::signal_name(signal).map(|name| format!(" ({name})")).unwrap_or_default();
            format!("the program was ended by signal {signal}{name}{}", used(recording))
        }
        _ => "the program's end was not seen".into(),
    }
}

/// `; 1.20 s of CPU, largest resident set 5.9 MB`, recording included.
fn used(recording: &heapfile::recording::Recording) -> String {
    match (recording.cpu_s, recording.max_rss_bytes) {
        (Some(cpu), Some(rss)) => {
            format!("; {} of CPU, largest resident set {}", units::seconds(cpu), units::bytes(Bytes(rss)))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_look_the_same_are_one_line_and_begin_with_who_wanted_the_memory() {
        let frame = |functions: &[&str], address| Frame {
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            module: Some("/lib/x.so".into()),
            address,
        };
        let leak = |bytes, address| Leak {
            blocks: 1,
            bytes: Bytes(bytes),
            reached: Reached::default(),
            stack: vec![
                frame(&[], 7),
                frame(&["operator new(unsigned long)"], 8),
                frame(&["std::allocator<int>::allocate(unsigned long)", "grow"], 9),
                frame(&["main"], address),
            ],
        };
        let other = Leak { blocks: 5, bytes: Bytes(25), reached: Reached::default(), stack: vec![frame(&[], 0x10)] };
        let none = Leak { blocks: 1, bytes: Bytes(1), reached: Reached::default(), stack: Vec::new() };
        let leaks = [other, leak(20, 1), leak(10, 2), none];
        let sites = sites(leaks.iter().map(with_sum));
        let sites: Vec<_> = sites.iter().map(|(frames, sum)| (frames.join(" < "), sum.bytes.0, sum.blocks)).collect();
        assert!(!is_kept(&[frame(&["grow"], 9), frame(&["setlocale"], 9)]), "not in the C library");
        let of = |object: &str, functions: &[&str]| Frame { module: Some(object.into()), ..frame(functions, 1) };
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        assert!(is_kept(&[of(libc, &["__GI__IO_file_doallocate"]), of(libc, &["puts"])]));
        assert!(is_kept(&[of(libc, &["malloc"]), of(libc, &["_nl_load_locale"]), of(libc, &["__GI_setlocale"])]));
        assert!(is_kept(&[of("/usr/lib/libstdc++.so.6", &[]), of("/lib64/ld-linux-x86-64.so.2", &["call_init"])]));
        assert!(!is_kept(&[of(libc, &["__strdup"]), of("/bin/x", &["main"])]) && !is_kept(&[]));
        let expected = [("grow < main", 30, 2), ("x.so+0x10", 25, 5), ("", 1, 1)];
        assert_eq!(sites, expected.map(|(frames, bytes, blocks)| (frames.to_owned(), bytes, blocks)));
    }
}

//! The path through a Firefox profile: on profiles of a few markers, a rule each, and on a real start.

use serde_json::{Value, json};
use std::path::Path as File;
use std::process::{Command, Stdio};
use timeline::{Class, Ends, Path, Phase, Step, Trace, Via, form_of, path, read};

/// Markers are `[name, start, end, phase, data]`, samples `[label, time, processor used]`.
fn thread(pid: u32, tid: u32, kind: &str, markers: &[Value], samples: &[Value]) -> Value {
    let mut texts: Vec<Value> = Vec::new();
    let mut text = |text: &Value| {
        texts.push(text.clone());
        texts.len() - 1
    };
    let markers: Vec<Value> = markers.iter().map(|it| json!([text(&it[0]), it[1], it[2], it[3], 0, it[4]])).collect();
    let frames: Vec<Value> = samples.iter().map(|it| json!([text(&it[0]), 1])).collect();
    let stacks: Vec<Value> = (0..frames.len()).map(|frame| json!([null, frame])).collect();
    let samples: Vec<Value> = samples.iter().enumerate().map(|(stack, it)| json!([stack, it[1], 0.0, it[2]])).collect();
    json!({
        "name": "GeckoMain", "processType": kind, "pid": pid, "tid": tid, "registerTime": 1.0, "stringTable": texts,
        "markers": {"schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "category": 4, "data": 5},
                    "data": markers},
        "samples": {"schema": {"stack": 0, "time": 1, "eventDelay": 2, "threadCPUDelta": 3}, "data": samples},
        "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": stacks},
        "frameTable": {"schema": {"location": 0, "category": 1}, "data": frames},
    })
}

fn process(threads: &[Value], others: &[Value]) -> Value {
    json!({
        "meta": {
            "version": 34, "interval": 1, "startTime": 1_795_593_198_564.0, "profilingStartTime": 1.5,
            "startTimeAsClockMonotonicNanosecondsSinceBoot": 1_000_000_000,
            "categories": [{"name": "Other"}, {"name": "Layout"}],
            "markerSchema": [{"name": "TextStack", "isStackBased": true}, {"name": "Text"}],
        },
        "threads": threads,
        "processes": others,
    })
}

fn trace(profile: &Value) -> Trace {
    let trace = read(profile.to_string().as_bytes(), None).unwrap();
    assert_eq!(trace.damage, [] as [&str; 0]);
    trace
}

fn path_of(profile: &Value, to: &str) -> Path {
    let path = path(&trace(profile), Ends { from: None, to: Some(to) }).unwrap();
    is_owned_once(&path);
    path
}

/// The steps lie side by side and fill the path, and each has an owner.
fn is_owned_once(path: &Path) {
    let mut at = path.from_ns;
    for step in &path.steps {
        assert_eq!(step.at_ns, at, "{step:?}");
        assert!(!step.object.is_empty() && !step.object.starts_with("0x") && !step.name.is_empty(), "{step:?}");
        at += step.ns;
    }
    assert_eq!(at, path.to_ns);
    let sum = |all: Vec<u64>| all.into_iter().sum::<u64>();
    assert_eq!(sum(path.owners.iter().map(|owner| owner.work_ns + owner.wait_ns).collect()), path.span_ns);
    assert_eq!(sum(path.classes.iter().map(|row| row.ns).collect()), path.span_ns);
}

/// Steps as from, to in microseconds, type, class.
fn told(path: &Path) -> Vec<(u64, u64, &str, Class)> {
    let one = |step: &Step| (step.at_ns / 1000, (step.at_ns + step.ns) / 1000, step.class);
    path.steps.iter().map(|step| (one(step).0, one(step).1, step.name.as_str(), one(step).2)).collect()
}

fn stack(name: &str, from: f64, to: f64) -> Value {
    json!([name, from, to, 1, {"type": "TextStack", "name": "of the stack"}])
}

fn awake(from: f64, to: f64) -> [Value; 2] {
    [json!(["Awake", from, 0, 2, {"type": "Awake"}]), json!(["Awake", 0, to, 3, {"type": "Awake"}])]
}

fn message(at: f64, other: u32, direction: &str) -> Value {
    let data = json!({"type": "IPC", "otherPid": other, "messageSeqno": 7, "messageType": "PContent::Msg_Go",
        "direction": direction, "phase": "endpoint"});
    json!(["IPC", at, at, 0, data])
}

const START: &str = "process start to the first event of its profiler";

#[test]
fn the_time_before_the_profiler_is_the_process_s_and_unexplained() {
    let one = |registered: f64| {
        let mut one = process(&[thread(9, 9, "default", &[stack("work", 5.0, 8.0)], &[])], &[]);
        one["threads"][0]["registerTime"] = json!(registered);
        one["meta"]["profilingStartTime"] = json!(4.0);
        one
    };
    let path = path_of(&one(3.9), "work");
    assert_eq!(told(&path), [(0, 5000, START, Class::Unexplained), (5000, 8000, "Other::work", Class::Work)]);
    // A profiler that was switched on later knows nothing of the process's start.
    let late = path_of(&one(-5000.0), "work");
    assert_eq!(told(&late), [(0, 3000, "Other::work", Class::Work)]);
}

#[test]
fn a_stretch_without_a_marker_is_of_what_its_samples_show_and_says_so() {
    let samples = [
        json!(["js::RunScript", 6.0, 800_000]),
        json!(["js::RunScript", 7.0, 900_000]),
        json!(["PollWrapper", 8.0, 0]),
        json!(["0x7f63057c4129", 30.0, 700_000]),
    ];
    let markers = [stack("early", 4.5, 5.0), stack("late", 31.0, 32.0)];
    let path = path_of(&process(&[thread(9, 9, "default", &markers, &samples)], &[]), "late");
    let told = told(&path);
    assert_eq!(
        told[2..],
        [
            (5000, 7000, "sampled::Layout: js::RunScript", Class::Heuristic),
            (7000, 8000, "sampled::(no processor used)", Class::Unexplained),
            // A sample speaks for ten intervals of the profiler at most.
            (8000, 20000, "thread::nothing_told", Class::Unexplained),
            (20000, 30000, "sampled::Layout: (no label)", Class::Heuristic),
            (30000, 31000, "thread::nothing_told", Class::Unexplained),
            (31000, 32000, "Other::late", Class::Work),
        ]
    );
}

#[test]
fn a_message_ends_the_sleep_of_who_woke_for_it() {
    let sender = |at| thread(9, 9, "default", &[stack("sends", 2.0, 20.0), message(at, 10, "sending")], &[]);
    let receiver = |between: &[Value]| {
        let mut markers = vec![stack("begins", 3.0, 9.0), message(15.5, 9, "receiving"), stack("paints", 15.6, 18.0)];
        markers.extend(awake(3.0, 9.0).into_iter().chain(awake(15.0, 19.0)).chain(between.iter().cloned()));
        thread(10, 10, "tab", &markers, &[json!(["PostedTask", 16.0, 1_000_000])])
    };
    let of = |at, between: &[Value]| path_of(&process(&[sender(at)], &[process(&[receiver(between)], &[])]), "paints");
    let sure = of(12.0, &[]);
    let [.., sends, waits, _, paints] = &sure.steps[..] else { panic!("{:?}", told(&sure)) };
    assert_eq!((sends.name.as_str(), sends.via, sends.class), ("Other::sends", Via::Linked, Class::Work));
    assert_eq!((waits.name.as_str(), waits.at_ns, waits.ns), ("thread::asleep", 12_000_000, 3_000_000));
    assert_eq!((waits.class, paints.name.as_str()), (Class::Linked, "Other::paints"));
    // What the thread did something else before is likely only.
    let likely = of(12.0, &[stack("other", 15.1, 15.4)]);
    let waits = likely.steps.iter().find(|step| step.name == "thread::asleep").unwrap();
    assert_eq!((waits.at_ns, waits.class), (12_000_000, Class::Heuristic));
    // What was sent before the thread fell asleep did not end its sleep.
    let early = of(8.0, &[]);
    let waits = early.steps.iter().find(|step| step.name == "thread::asleep").unwrap();
    assert_eq!((waits.at_ns, waits.ns, waits.class), (9_000_000, 6_000_000, Class::Unexplained));
    // Its process began, at the latest, when it was first sent something.
    let begun = of(2.5, &[]);
    let start = begun.steps.iter().find(|step| step.name == START && step.at_ns > 0).unwrap();
    assert_eq!((start.at_ns, start.ns, start.class), (2_500_000, 500_000, Class::Unexplained));
    assert!(begun.steps.iter().any(|step| step.name == "Other::sends" && step.via == Via::Heuristic));
}

#[test]
fn channels_that_count_alike_tie_likely_only() {
    let sends = [stack("sends", 2.0, 20.0), message(12.0, 10, "sending"), message(12.5, 10, "sending")];
    let mut markers = vec![stack("begins", 3.0, 9.0), message(15.5, 9, "receiving"), stack("paints", 15.6, 18.0)];
    markers.extend(awake(3.0, 9.0).into_iter().chain(awake(15.0, 19.0)));
    let [sender, receiver] = [thread(9, 9, "default", &sends, &[]), thread(10, 10, "tab", &markers, &[])];
    let path = path_of(&process(&[sender], &[process(&[receiver], &[])]), "paints");
    let waits = path.steps.iter().find(|step| step.name == "thread::asleep").unwrap();
    assert_eq!((waits.at_ns, waits.class), (12_000_000, Class::Heuristic));
}

fn flow(at: f64, kind: &str, id: &str) -> Value {
    json!([kind, at, at, 0, {"type": kind, "flow": id}])
}

/// The path to `runs`, with flows.
fn path_by_flows(threads: &[Value]) -> Path {
    let mut profile = process(threads, &[]);
    profile["meta"]["markerSchema"] = json!([
        {"name": "TextStack", "isStackBased": true},
        {"name": "Posts", "fields": [{"key": "flow", "format": "flow-id"}]},
        {"name": "Ends", "fields": [{"key": "flow", "format": "terminating-flow-id"}]},
    ]);
    path_of(&profile, "runs")
}

#[test]
fn a_flow_of_another_thread_ends_a_sleep_and_one_of_its_own_does_not() {
    let slept = [awake(3.0, 9.0), awake(15.0, 19.0)].concat();
    // `by`: the thread that posts.
    let of = |by: u32, slept_before: bool| {
        let runs = vec![stack("begins", 3.0, 9.0), stack("runs", 15.1, 18.0), flow(15.1, "Ends", "f1")];
        let mut runs = [runs, slept.clone()].concat();
        let posts = flow(if by == 11 { 8.0 } else { 12.0 }, "Posts", "f1");
        let mut main = vec![stack("posts", 2.0, 14.0)];
        let mut third = vec![stack("posts, too", 10.0, 14.0)];
        if slept_before {
            third.extend([awake(1.0, 3.0), awake(10.0, 14.0)].concat());
        }
        (if by == 11 {
            &mut runs
        } else if by == 9 {
            &mut main
        } else {
            &mut third
        })
        .push(posts);
        let threads = [(9, &main), (11, &runs), (12, &third)];
        let threads = threads.map(|(tid, markers)| thread(9, tid, "default", markers, &[]));
        let path = path_by_flows(&threads);
        let waits = path.steps.iter().find(|step| step.name == "thread::asleep").unwrap();
        (waits.at_ns, waits.class)
    };
    assert_eq!(of(9, false), (12_000_000, Class::Linked));
    assert_eq!(of(11, false), (9_000_000, Class::Unexplained));
    // Nobody knows why that one was there just then.
    assert_eq!(of(12, false), (9_000_000, Class::Unexplained));
    assert_eq!(of(12, true), (9_000_000, Class::Unexplained));
}

#[test]
fn what_a_thread_posted_itself_ended_no_wait_that_samples_show() {
    let sample = |at: u32| json!(["PollWrapper", f64::from(at), 0]);
    let samples: Vec<Value> = (10..=15).map(sample).collect();
    let runs = [
        stack("begins", 3.0, 9.0),
        flow(12.0, "Posts", "f1"),
        flow(15.1, "Ends", "f1"),
        flow(15.1, "Ends", "f2"),
        stack("runs", 15.1, 18.0),
    ];
    let main = thread(9, 9, "default", &[stack("posts", 2.0, 14.0), flow(12.5, "Posts", "f2")], &[]);
    let path = path_by_flows(&[main, thread(9, 11, "default", &runs, &samples)]);
    assert!(path.steps.iter().any(|step| step.name == "Other::posts" && step.via == Via::Linked), "{:?}", told(&path));
}

#[test]
fn what_only_tells_how_long_something_took_is_no_work() {
    let measure = |name: &str, from: f64, to: f64| json!([name, from, to, 1, {"type": "Text", "name": "of a page"}]);
    let mut markers = vec![
        stack("first", 2.0, 6.0),
        stack("second", 10.0, 20.0),
        measure("lies in it", 12.0, 14.0),
        measure("lies across", 19.5, 20.5),
        measure("slept in it", 6.5, 9.5),
        measure("FirstContentfulPaint", 13.0, 16.0),
        json!(["set until due", 18.0, 19.0, 1, {"type": "Timer", "threadId": 12}]),
    ];
    markers.extend(awake(2.0, 7.0).into_iter().chain(awake(9.0, 21.0)));
    let profile = process(&[thread(9, 9, "default", &markers, &[])], &[]);
    let marks: Vec<_> = {
        let trace = trace(&profile);
        let marks = trace.events.iter().filter(|event| event.phase == Phase::Mark);
        marks.map(|event| (event.at_ns / 1_000_000 - 1000, trace.type_name(event.type_id).to_owned())).collect()
    };
    let other = |at: u64, name: &str| (at, format!("Other::{name}"));
    let paint = [other(9, "slept in it"), other(16, "FirstContentfulPaint")];
    assert_eq!(marks, [&paint[..], &[other(19, "set until due"), other(20, "lies across")]].concat());
    let path = path_of(&profile, "FirstContentfulPaint");
    assert_eq!(path.to_ns, 16_000_000);
    let told = told(&path);
    assert_eq!(told.last(), Some(&(14000, 16000, "Other::second", Class::Work)));
    assert!(told.contains(&(12000, 14000, "Other::lies in it", Class::Work)), "{told:?}");
    assert!(told.contains(&(7000, 9000, "thread::asleep", Class::Unexplained)), "{told:?}");
}

#[test]
fn a_file_read_by_another_thread_is_that_thread_s_work() {
    let file = json!(["FileIO", 3.0, 5.0, 1, {"type": "FileIO", "operation": "read", "threadId": 12}]);
    let profile = process(&[thread(9, 9, "default", &[stack("work", 2.0, 8.0), file], &[])], &[]);
    let trace = trace(&profile);
    let read = trace.events.iter().find(|event| trace.type_name(event.type_id) == "Other::FileIO").unwrap();
    assert_eq!(trace.threads[read.thread as usize].tid, 12);
    assert_eq!(told(&path_of(&profile, "work")).last(), Some(&(2000, 8000, "Other::work", Class::Work)));
}

#[test]
fn the_time_between_both_profilers_is_in_neither() {
    let handover = |at: Value, end: Value, phase| json!(["Profilers handover", at, end, phase, {"type": "Text"}]);
    let markers = [
        stack("before", 2.0, 3.0),
        handover(json!(3.0), json!(0), 2),
        handover(json!(0), json!(7.0), 3),
        stack("after", 7.0, 8.0),
    ];
    let path = path_of(&process(&[thread(9, 9, "default", &markers, &[])], &[]), "after");
    assert_eq!(told(&path)[2], (3000, 7000, "Other::Profilers handover", Class::Unexplained));
}

/// A page that closes its window when it was painted, which ends the browser.
const PAGE: &str = "<!doctype html><title>thaw</title><h1>Painted</h1><script>
new PerformanceObserver(() => setTimeout(close, 500)).observe({type: 'paint', buffered: true})</script>";
/// What lets it do so, and keeps the first start from opening other pages.
const PREFERENCES: &str = "user_pref(\"dom.allow_scripts_to_close_windows\", true);
user_pref(\"browser.aboutwelcome.enabled\", false);
user_pref(\"browser.shell.checkDefaultBrowser\", false);
user_pref(\"datareporting.policy.dataSubmissionPolicyBypassNotification\", true);
user_pref(\"startup.homepage_welcome_url\", \"about:blank\");
";

/// Starts Firefox in a profile of its own, with profiler and log; whether it is there.
fn firefox(directory: &File) -> bool {
    std::fs::create_dir(directory.join("profile")).unwrap();
    std::fs::write(directory.join("profile/user.js"), PREFERENCES).unwrap();
    std::fs::write(directory.join("page.html"), PAGE).unwrap();
    let status = Command::new("firefox-esr")
        .args(["--headless", "--no-remote", "--profile"])
        .arg(directory.join("profile"))
        .arg(format!("file://{}", directory.join("page.html").display()))
        .env("HOME", directory)
        .env("MOZ_PROFILER_STARTUP", "1")
        .env("MOZ_PROFILER_STARTUP_FEATURES", "js,stackwalk,cpu,ipcmessages,flows,markersallthreads")
        .env("MOZ_PROFILER_STARTUP_FILTERS", "GeckoMain,Compositor,Renderer")
        .env("MOZ_PROFILER_SHUTDOWN", directory.join("profile.json"))
        .env("MOZ_LOG", "timestamp,sync,nsHttp:5")
        .env("MOZ_LOG_FILE", directory.join("moz.log"))
        .env("MOZ_CRASHREPORTER_DISABLE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => testing::skip(&format!("needs firefox-esr: {error}")),
    }
    directory.join("profile.json").exists()
}

#[test]
fn a_start_of_firefox_has_a_path_from_the_process_s_start_to_the_first_paint() {
    let directory = tempfile::tempdir().unwrap();
    if !firefox(directory.path()) {
        return;
    }
    let bytes = |name: &str| std::fs::read(directory.path().join(name)).unwrap();
    let mut trace = read(&bytes("profile.json"), None).unwrap();
    let log = bytes("moz.log.moz_log");
    assert_eq!(form_of(&log), Some(timeline::Form::MozLog));
    let mut log = read(&log, None).unwrap();
    assert!(log.put_on(&trace.clock), "both tell the wall clock's time");
    let span = |trace: &Trace| (trace.events[0].at_ns, trace.events.last().unwrap().at_ns);
    let (whole, of_log) = (span(&trace), span(&log));
    assert!(whole.0 < of_log.0 && of_log.1 < whole.1, "the log is within the start: {whole:?} {of_log:?}");
    trace.join(log);
    let ends = Ends { from: Some("process start"), to: Some("FirstContentfulPaint") };
    let path = path(&trace, ends).unwrap();
    is_owned_once(&path);
    assert_eq!(path.from_ns, 0);
    assert_eq!((path.steps[0].name.as_str(), path.steps[0].class), (START, Class::Unexplained));
    let processes: std::collections::BTreeSet<_> = path.steps.iter().map(|step| step.object.as_str()).collect();
    assert!(processes.iter().filter(|name| name.starts_with("GeckoMain")).count() > 1, "{processes:?}");
    for class in [Class::Work, Class::Linked, Class::Heuristic, Class::Unexplained] {
        let share = path.classes.iter().find(|row| row.class == class).map_or(0, |row| row.ns * 100 / path.span_ns);
        println!("{class:?}: {share} % of {:.3} s", path.span_ns as f64 / 1e9);
    }
    let is_sampled = |step: &&Step| step.name.starts_with("sampled::");
    assert!(path.steps.iter().filter(is_sampled).all(|step| step.class != Class::Work));
}

//! Why starts take another time than others, as `thaw why --compare`, `thaw compare` and `thaw gate` say it: of traced
//! starts whose owners are made, and of a planted program.

use crate::made::{self, Of};
use crate::scratch::Scratch;
use crate::why::{planted, scene};
use model::cpu::{Frame, Sample, StackId, Switch, Thread, Trace, Wake, Waker, Went};
use model::{CacheState, Nanos, RunKind, RunRow};
use recording::Writer;
use serde_json::{Value, json};

const COLD: [u64; 10] = [1210, 1195, 1203, 1198, 1207, 1201, 1196, 1204, 1199, 1202];
/// What makes up the difference of [`pair`].
const SENTENCE: &str = "+43.0 ms: 31.0 ms static initialisers of libfoo.so, 12.0 ms sleeps";
/// Milliseconds of a traced start before in an initialiser and asleep, and after.
const BEFORE: [(u64, u64); 3] = [(9, 20), (10, 21), (11, 22)];
const AFTER: [(u64, u64); 3] = [(40, 32), (41, 33), (42, 34)];

const KERNEL: &str = Frame::KERNEL;
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const MAIN: (&str, &str) = ("main", "/opt/app");
const INITIALISES: [(&str, &str); 3] =
    [("tables", "/usr/lib/libfoo.so.1"), ("call_init", LOADER), ("_dl_init", LOADER)];
const SLEEPS: [(&str, &str); 7] = [
    ("schedule", KERNEL),
    ("do_nanosleep", KERNEL),
    ("hrtimer_nanosleep", KERNEL),
    ("__x64_sys_clock_nanosleep", KERNEL),
    ("entry_SYSCALL_64_after_hwframe", KERNEL),
    ("nap", "/opt/app"),
    MAIN,
];

fn ms(count: u64) -> Nanos {
    Nanos(count * 1_000_000)
}

fn stack(trace: &mut Trace, frames: &[(&str, &str)]) -> Option<StackId> {
    let frame = |(function, object): &(&str, &str)| Frame {
        function: Some((*function).into()),
        object: (*object).into(),
        ..Frame::default()
    };
    let frames: Vec<_> = frames.iter().map(|it| trace.stacks.frame(frame(it))).collect();
    trace.stacks.stack(&frames)
}

/// A start of one thread: an initialiser of a library runs, the program sleeps, and runs for 5 ms until it is ready.
fn start((initialises, sleeps): (u64, u64)) -> Trace {
    const TID: u32 = 10;
    let (asleep, awake) = (initialises, initialises + sleeps);
    let ready = awake + 5;
    let mut trace =
        Trace { root: TID, ready: ms(ready), ready_by: Some(TID), cpus: 1, tick: ms(1), ..Trace::default() };
    let (name, start) = ("app".to_owned(), Nanos(0));
    trace.threads.push(Thread { tid: TID, pid: TID, name, of_tree: true, made_by: None, start, end: None });
    let (initialising, sleeping) = (stack(&mut trace, &INITIALISES), stack(&mut trace, &SLEEPS));
    let running = stack(&mut trace, &[("work", "/opt/app"), MAIN]);
    let switch = |at, from, went, to, stack| Switch { at: ms(at), cpu: 0, from, went, to, stack };
    trace.switches = vec![switch(asleep, TID, Went::Asleep, 0, sleeping), switch(awake, 0, Went::Preempted, TID, None)];
    trace.wakes.push(Wake { at: ms(awake), by: Waker::Interrupt, woken: TID, new: false, stack: None });
    let sample = |at: u64, stack| Sample { at: Nanos(at * 1_000_000 + 500_000), tid: TID, in_kernel: false, stack };
    trace.samples.extend((0..asleep).map(|at| sample(at, initialising)));
    trace.samples.extend((awake..ready).map(|at| sample(at, running)));
    trace
}

fn plan() -> Value {
    json!({ "runs": 10, "states": ["cold", "hot"], "ready": ["exit"] })
}

/// A recording whose cold starts take `factor` times as long as usual.
fn record(scratch: &Scratch, name: &str, factor: f64) {
    let times: Vec<u64> = COLD.iter().map(|ms| (*ms as f64 * factor) as u64).collect();
    made::of(&scratch.path(name), &Of { argv: &["app"], plan: plan(), facts: &[], cold_ms: &[("app", &times)] });
}

/// Adds traced cold starts of a variant to a recording.
fn add(scratch: &Scratch, name: &str, variant: u32, traces: impl IntoIterator<Item = Trace>) {
    let mut writer = Writer::open(scratch.path(name)).unwrap();
    for (block, trace) in (0..).zip(traces) {
        let row = made::run(CacheState::Cold, block, trace.ready.0 / 1_000_000);
        let run = writer.add_run(&RunRow { variant, kind: RunKind::Trace, ..row }, &[], &[]).unwrap();
        writer.add_cpu(run, &trace).unwrap();
    }
}

/// `before.thaw` and `after.thaw`, which is slower; both with the owners of three traced starts.
fn pair(scratch: &Scratch) {
    for (name, factor, starts) in [("before.thaw", 1.0, BEFORE), ("after.thaw", 1.2, AFTER)] {
        record(scratch, name, factor);
        add(scratch, name, 0, starts.map(start));
    }
}

fn read(scratch: &Scratch, name: &str) -> String {
    std::fs::read_to_string(scratch.path(name)).unwrap()
}

/// The text of the first start of a document's `why`.
fn sentence(why: &Value) -> &str {
    why["starts"][0]["difference"]["text"].as_str().unwrap_or_else(|| panic!("{why}"))
}

#[test]
fn three_verbs_say_the_same_of_the_same_recordings() {
    let scratch = Scratch::new();
    pair(&scratch);
    let why = scratch.thaw(["why", "--from", "after.thaw", "--compare", "before.thaw", "--json"]).exits(0).json();
    assert!(sentence(&why).starts_with(SENTENCE), "{}", sentence(&why));
    let compared = scratch.thaw(["compare", "before.thaw", "after.thaw", "--json"]).exits(0).json();
    let judged = scratch.thaw(["gate", "before.thaw", "after.thaw", "--json"]).exits(1).json();
    for document in [&compared, &judged] {
        assert_eq!(document["why"]["starts"], why["starts"]);
        assert_eq!(document["why"]["unknown"], Value::Null);
    }
    let difference = &why["starts"][0]["difference"];
    let sum = |rows: &Value| rows.as_array().unwrap().iter().map(|row| row["ns"].as_i64().unwrap()).sum::<i64>();
    assert_eq!((sum(&difference["causes"]), sum(&difference["owners"])), (43_000_000, 43_000_000));
    let words: [&[&str]; 3] = [
        &["why", "--from", "after.thaw", "--compare", "before.thaw"],
        &["compare", "before.thaw", "after.thaw"],
        &["gate", "before.thaw", "after.thaw"],
    ];
    for words in words {
        let said = scratch.thaw(words).says(&format!("app cold: {SENTENCE}"));
        let text = said.says("By cause").says("3 traced starts before").says("+38.47 ms and +47.53 ms").out();
        let cause = text.lines().find(|line| line.contains("+31.00 ms  static")).unwrap_or_else(|| panic!("{text}"));
        assert!(cause.contains("libfoo.so: 10.00 ms, now 41.00 ms [+28.73 ms, +33.27 ms]"), "{cause}");
    }
}

#[test]
fn two_variants_of_a_recording_are_explained() {
    let scratch = Scratch::new();
    let slow: Vec<u64> = COLD.iter().map(|ms| ms * 6 / 5).collect();
    let cells: [(&str, &[u64]); 2] = [("old", &COLD), ("new", &slow)];
    made::of(&scratch.path("both.thaw"), &Of { argv: &["app"], plan: plan(), facts: &[], cold_ms: &cells });
    add(&scratch, "both.thaw", 0, BEFORE.map(start));
    add(&scratch, "both.thaw", 1, AFTER.map(start));
    let said = scratch.thaw(["compare", "both.thaw", "--variants", "old,new"]).exits(0);
    said.says(&format!("old -> new cold: {SENTENCE}"));
    let said = scratch.thaw(["gate", "both.thaw", "--variants", "old,new", "--json"]).exits(1).json();
    assert!(sentence(&said["why"]).starts_with(SENTENCE), "{said}");
    assert_eq!((&said["why"]["starts"][0]["before_runs"][0], &said["passes"]), (&json!(21), &json!(false)));
    // The other way round nothing fails.
    let said = scratch.thaw(["gate", "both.thaw", "--variants", "new,old", "--json"]).exits(0).json();
    assert_eq!(said["why"], Value::Null);
}

#[test]
fn compare_is_silent_where_nobody_asked_and_says_who_lacks_owners() {
    let scratch = Scratch::new();
    record(&scratch, "before.thaw", 1.0);
    record(&scratch, "after.thaw", 1.2);
    let words = ["compare", "before.thaw", "after.thaw"];
    scratch.thaw(words).exits(0).says("slower after").says_not("hy ").says_not("--why");
    assert_eq!(scratch.thaw(words.iter().chain(&["--json"])).exits(0).json()["why"], Value::Null);
    add(&scratch, "after.thaw", 0, AFTER.map(start));
    let said = scratch.thaw(words).exits(0).says("slower after");
    said.says("Why the time differs is not known: before.thaw does not say whose it is;").says("thaw record --why");
    // Of another state.
    let mut writer = Writer::open(scratch.path("before.thaw")).unwrap();
    let row = RunRow { kind: RunKind::Trace, ..made::run(CacheState::Hot, 0, 40) };
    let run = writer.add_run(&row, &[], &[]).unwrap();
    writer.add_cpu(run, &start(BEFORE[0])).unwrap();
    drop(writer);
    scratch.thaw(words).exits(0).says("not known of app (cold): it has no traced start on one side; record both");
}

#[test]
fn gate_explains_what_fails_and_only_then() {
    let scratch = Scratch::new();
    pair(&scratch);
    let words = ["gate", "before.thaw", "after.thaw"];
    scratch.thaw(words.iter().chain(&["--max-regression", "30%"])).exits(0).says_not("traced").says_not("+43.0 ms");
    // Bytes are no time: why there are more is another question.
    scratch.write("bytes.toml", "schema = \"thaw.budgets/1\"\n[[budget]]\nbytes = \"1MB\"\ntime = \"9s\"\n");
    let said = scratch.thaw(words.iter().chain(&["--budgets", "bytes.toml", "--json"])).exits(1).json();
    assert_eq!(said["why"], Value::Null);
    // A budget for the time has something before it, too, if a recording is named.
    scratch.write("time.toml", "schema = \"thaw.budgets/1\"\n[[budget]]\ntime = \"1s\"\n\"milestone:exit\" = \"1s\"\n");
    scratch.thaw(words.iter().chain(&["--budgets", "time.toml"])).exits(1).says(SENTENCE);
    let said = scratch.thaw(["gate", "after.thaw", "--budgets", "time.toml"]).exits(1);
    said.says("Why the time differs is not known: there is nothing before; thaw why --from after.thaw shows");
    scratch.thaw(["gate", "before.thaw", "--baseline", "base.json", "--write-baseline"]).exits(0);
    let said = scratch.thaw(["gate", "after.thaw", "--baseline", "base.json"]).exits(1);
    said.says("Why the time differs is not known: base.json has figures alone; record both with thaw record --why");
}

#[test]
fn gate_says_how_to_get_owners_and_fails_whatever_becomes_of_them() {
    let scratch = Scratch::new();
    record(&scratch, "before.thaw", 1.0);
    record(&scratch, "after.thaw", 1.2);
    let words = ["gate", "before.thaw", "after.thaw"];
    let said = scratch.thaw(words).exits(1).says("The gate is not passed");
    said.says("Why the time differs is not known: neither recording says whose it is; record both with thaw record");
    add(&scratch, "before.thaw", 0, BEFORE.map(start));
    add(&scratch, "after.thaw", 0, AFTER.map(start));
    scratch.thaw(words).exits(1).says(SENTENCE);
    let connection = rusqlite::Connection::open(scratch.path("before.thaw")).unwrap();
    assert!(connection.execute("UPDATE samples SET stack = 4711", []).unwrap() > 0);
    drop(connection);
    let said = scratch.thaw(words).exits(1).says("The gate is not passed").says("FAIL");
    said.says("Why the time differs is not known: ").says("before.thaw").says_not(SENTENCE);
}

#[test]
fn the_forms_of_a_gate_have_the_sentence() {
    let scratch = Scratch::new();
    pair(&scratch);
    let files = ["--junit", "gate.xml", "--export-github-benchmark", "bench.json"];
    let words =
        ["gate", "before.thaw", "after.thaw", "--metric", "time,bytes", "--annotations", "github", "--markdown"];
    let said = scratch.thaw(words.iter().chain(&files)).exits(1);
    assert!(said.out().contains(&format!("allowed; traced starts: {SENTENCE}")), "{}", said.framed());
    let commands: Vec<String> = said.err().lines().filter(|line| line.starts_with("::")).map(str::to_owned).collect();
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(commands[0].starts_with("::error file=after.thaw,") && commands[0].contains(SENTENCE), "{commands:?}");
    let junit = read(&scratch, "gate.xml");
    let failure = junit.lines().find(|line| line.contains("<failure")).unwrap();
    assert_eq!(failure.matches(SENTENCE).count(), 2, "{failure}");
    assert_eq!(junit.matches(SENTENCE).count(), 2, "bytes pass: {junit}");
    let bench: Value = serde_json::from_str(&read(&scratch, "bench.json")).unwrap();
    assert!(bench[0]["extra"].as_str().unwrap().contains(SENTENCE), "{bench}");
}

#[test]
fn what_makes_it_uncertain_is_said_by_all_three() {
    let scratch = Scratch::new();
    for (name, factor, times) in [("before.thaw", 1.0, BEFORE[0]), ("after.thaw", 1.2, AFTER[0])] {
        let slow: Vec<u64> = COLD.iter().map(|ms| (*ms as f64 * factor) as u64).collect();
        let facts = [("cpu", "model", name)];
        made::of(&scratch.path(name), &Of { argv: &["app"], plan: plan(), facts: &facts, cold_ms: &[("app", &slow)] });
        let lost = Trace { lost_switches: 7, cannot: vec!["who wakes whom".into()], ..start(times) };
        add(&scratch, name, 0, [lost]);
    }
    let words: [&[&str]; 3] = [
        &["why", "--from", "after.thaw", "--compare", "before.thaw", "--verbose"],
        &["compare", "before.thaw", "after.thaw", "--verbose"],
        &["gate", "before.thaw", "after.thaw", "--allow", "machine", "--verbose"],
    ];
    for words in words {
        let text = scratch.thaw(words).out().split_whitespace().collect::<Vec<_>>().join(" ");
        for side in ["before.thaw", "after.thaw"] {
            for doubt in [
                "one traced start does not show how much starts differ by chance",
                "7 changes of CPUs, missing",
                "not known: who wakes whom",
            ] {
                let doubt = format!("warning: {side}, app (cold): {doubt}");
                assert!(text.contains(&doubt), "{words:?} lacks '{doubt}': {text}");
            }
        }
        assert!(text.contains("before.thaw before, after.thaw after"), "another machine: {words:?}: {text}");
    }
}

#[test]
fn a_planted_regression_is_named_when_the_gate_fails() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let program = program.to_str().unwrap();
    let record =
        ["record", "--why", "--no-loader", "--needed", "no", "--state", "hot", "--runs", "5", "--trace-runs", "3"];
    for (name, parts) in [("before.thaw", &["sleep"][..]), ("after.thaw", &["sleep", "cpu"])] {
        let own = ["--ready", "line:^ready", "-o", name, "--", program];
        scratch.thaw(record.iter().chain(&own).chain(parts)).exits(0);
    }
    let said = scratch.thaw(["gate", "before.thaw", "after.thaw", "--allow", "program", "--json"]).exits(1).json();
    let difference = &said["why"]["starts"][0]["difference"];
    let causes = difference["causes"].as_array().unwrap();
    // On a busy machine waits for a CPU may be longer, and are not named: they differ from start to start.
    let spins = |cause: &&Value| cause["text"] == "runs in planted_spin of planted";
    let cause = causes.iter().find(spins).unwrap_or_else(|| panic!("{difference}"));
    println!("{}: {cause}", difference["text"]);
    let spun = cause["ns"].as_f64().unwrap() / 1e6;
    // It spins for 90 ms of CPU time; what the kernel did not tell, or does for it, is missing.
    assert!(spun > 45.0 && spun < 95.0, "{difference}");
    assert!(difference["text"].as_str().unwrap().contains(" ms runs in planted_spin of planted"), "{difference}");
    let text = scratch.thaw(["gate", "before.thaw", "after.thaw", "--allow", "program"]).exits(1);
    text.says("The gate is not passed").says("runs in planted_spin of planted");
    scratch.thaw(["compare", "before.thaw", "after.thaw"]).exits(0).says("planted_spin of planted");
}

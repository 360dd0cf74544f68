//! Traces of LTTng (`fixtures/timeline/lttng`, and one that is recorded here), held against what babeltrace2 reads of
//! them; cut and damaged.

use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use timeline::{Form, Phase, Trace, ctf_traces_in, form_of, intervals, read, read_ctf, read_file, report};

const FIXTURES: [&str; 3] = ["fields", "discarded", "compact"];

fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/timeline/lttng")
}

/// The one trace that a directory holds.
fn of(directory: &Path) -> Trace {
    let found = ctf_traces_in(directory).unwrap();
    let [metadata] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(form_of(&std::fs::read(metadata).unwrap()), Some(Form::Ctf));
    read_file(metadata, None, None).unwrap()
}

/// An event as its tracer wrote it: time of the wall clock, name, thread, fields.
#[derive(Debug, PartialEq)]
struct Told {
    at_ns: u64,
    name: String,
    tid: u32,
    fields: Vec<(String, Field)>,
}

/// A number with a fraction is compared as far as babeltrace2 writes it.
#[derive(Debug)]
enum Field {
    Text(String),
    Float(f64),
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => (a - b).abs() <= 1e-5 * a.abs(),
            _ => false,
        }
    }
}

fn field(name: &str, text: String) -> (String, Field) {
    let field = if matches!(name, "f32" | "f64") { Field::Float(text.parse().unwrap()) } else { Field::Text(text) };
    (name.to_owned(), field)
}

/// The events of a trace of ours. Beginnings and ends have their types, and are given back the names of their events.
fn ours(trace: &Trace) -> Vec<Told> {
    let mut all: Vec<(u64, Told)> = Vec::new();
    for event in &trace.events {
        let name = trace.type_name(event.type_id).replace("::", ":");
        let (begin, end) = if name == "every:step" { ("entry", "exit") } else { ("begin", "end") };
        let name = match event.phase {
            Phase::Mark => name,
            Phase::Exec => format!("{name}_{begin}"),
            Phase::Done => format!("{name}_{end}"),
            Phase::Arg => {
                let (key, value) = event.text.as_deref().unwrap().split_once('=').unwrap();
                let (_, told) = all.iter_mut().rev().find(|(object, _)| *object == event.object).unwrap();
                told.fields.push(field(key, value.to_owned()));
                continue;
            }
            _ => continue,
        };
        let at_ns = event.at_ns - trace.clock.origin_ns + trace.clock.realtime_ns;
        let tid = trace.threads[event.thread as usize].tid;
        all.push((event.object, Told { at_ns, name, tid, fields: Vec::new() }));
    }
    all.into_iter().map(|(_, told)| told).collect()
}

/// The events that babeltrace2 reads; `None`, counted as skipped: it is not installed.
fn theirs(directory: &Path) -> Option<Vec<Told>> {
    let said = Command::new("babeltrace2")
        .args(["--clock-seconds", "--clock-gmt", "--no-delta", "--fields=all"])
        .arg(directory)
        .output();
    let Ok(said) = said else {
        testing::skip("needs babeltrace2");
        return None;
    };
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(String::from_utf8_lossy(&said.stdout).lines().map(line).collect())
}

/// `[seconds] source name: { cpu_id = 0 }, { vtid = 7, … }, { field = value, … }`
fn line(line: &str) -> Told {
    let (time, rest) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
    let (seconds, ns) = time.split_once('.').unwrap();
    let (name, rest) = rest.split_once(": { cpu_id").unwrap();
    let (_, rest) = rest.split_once(" }, ").unwrap();
    let mut rest = rest;
    let mut fields = members(&mut rest);
    rest = rest.strip_prefix(", ").unwrap();
    let of_thread = fields.iter().position(|(name, _)| name == "vtid").unwrap();
    let (_, Field::Text(tid)) = fields.swap_remove(of_thread) else { panic!("{line}") };
    fields.clear();
    fields.extend(members(&mut rest));
    assert_eq!(rest, "", "{line}");
    Told {
        at_ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap(),
        name: name.rsplit(' ').next().unwrap().to_owned(),
        tid: tid.parse().unwrap(),
        fields,
    }
}

fn past(rest: &mut &str, what: &str) -> bool {
    let is_there = rest.starts_with(what);
    *rest = rest.strip_prefix(what).unwrap_or(rest);
    is_there
}

fn members(rest: &mut &str) -> Vec<(String, Field)> {
    assert!(past(rest, "{ "), "{rest}");
    let mut all = Vec::new();
    while !past(rest, "}") {
        let (name, behind) = rest.split_once(" = ").unwrap();
        *rest = behind;
        all.push(field(name, value(rest)));
        past(rest, ", ");
        past(rest, " ");
    }
    all
}

/// A value as we write it.
fn value(rest: &mut &str) -> String {
    if past(rest, "\"") {
        return quoted(rest);
    }
    if past(rest, "[ ") {
        let mut all = Vec::new();
        while !past(rest, "]") {
            let (_, behind) = rest.split_once(" = ").unwrap();
            *rest = behind;
            all.push(value(rest));
            past(rest, ", ");
            past(rest, " ");
        }
        return format!("[{}]", all.join(", "));
    }
    if past(rest, "( \"") {
        let label = quoted(rest);
        let (number, behind) = rest.strip_prefix(" : container = ").unwrap().split_once(" )").unwrap();
        *rest = behind;
        return format!("{label} ({number})");
    }
    let end = rest.find([',', ' ']).unwrap();
    let (number, behind) = rest.split_at(end);
    *rest = behind;
    number.to_lowercase()
}

fn quoted(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next().unwrap() {
            '"' => break,
            '\\' => text.push(match chars.next().unwrap() {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => text.push(other),
        }
    }
    *rest = chars.as_str();
    text
}

fn is_the_same(directory: &Path) {
    let trace = of(directory);
    let Some(theirs) = theirs(directory) else { return };
    let ours = ours(&trace);
    assert!(!theirs.is_empty());
    for (one, other) in ours.iter().zip(&theirs) {
        assert_eq!(one, other, "{}", directory.display());
    }
    assert_eq!(ours.len(), theirs.len(), "{}", directory.display());
}

#[test]
fn every_event_has_the_time_the_name_and_the_fields_that_babeltrace_reads() {
    FIXTURES.iter().for_each(|name| is_the_same(&sources().join(name)));
}

#[test]
fn fields_have_the_values_that_the_program_gave_them() {
    let trace = of(&sources().join("fields"));
    let all = ours(&trace);
    for n in 0..5 {
        let told = &all[n];
        let text = |wanted: &str| match &told.fields.iter().find(|(name, _)| name == wanted).unwrap().1 {
            Field::Text(text) => text.clone(),
            Field::Float(number) => number.to_string(),
        };
        let real = n as f64 * 1.5 - 0.1;
        assert_eq!((text("f32"), text("f64")), ((real as f32).to_string(), (real / 3.0).to_string()));
        assert_eq!(text("i64"), (-5_000_000_000 * n as i64).to_string());
        assert_eq!(text("u64"), (u64::MAX - n as u64).to_string());
        assert_eq!(text("text"), ["plain", "", "tab\tquote\"back\\slash", "ä€", "line\nend"][n]);
        assert_eq!(text("colour"), ["red (0)", "blue (1)", "blue (2)", "blue (3)", "blue (4)"][n]);
        assert_eq!(text("some"), ["[]", "[1]", "[1, 500]", "[1, 500, 65535]", "[1, 500, 65535, 7]"][n]);
    }
    assert_eq!(all.last().unwrap().fields[1], field("msg", "said 42".to_owned()));
}

#[test]
fn pairs_of_a_thread_are_work_on_what_their_fields_tell_apart() {
    let trace = of(&sources().join("fields"));
    assert_eq!(trace.damage, [] as [&str; 0]);
    assert!(trace.clock.is_monotonic && trace.clock.boot.len() == 32);
    let (objects, all) = intervals(&trace);
    let mut jobs: Vec<&str> = Vec::new();
    for (name, first, outer) in [("every::job", 10, None), ("every::step", 110, Some("every::job"))] {
        let of_type = |name: &str| all.iter().filter(|it| trace.type_name(it.type_id) == name).collect::<Vec<_>>();
        let found = of_type(name);
        assert_eq!(found.len(), 6);
        for one in found {
            let (begin, thread) = one.exec.unwrap();
            assert!(one.done.unwrap() - begin >= 2_000_000, "{name} takes the two milliseconds of its pause");
            let id: i32 = objects.name(one.object).unwrap().strip_prefix("id=").unwrap().parse().unwrap();
            assert!((first..first + 3).contains(&id) || (first + 10..first + 13).contains(&id));
            assert_eq!(trace.threads[thread as usize].name, "every");
            if let Some(outer) = outer {
                let is_around = of_type(outer)
                    .into_iter()
                    .any(|job| job.exec.unwrap().1 == thread && job.begin() < begin && job.done > one.done);
                assert!(is_around, "a step is within its job");
            }
        }
        jobs.push(name);
    }
    let threads: std::collections::BTreeSet<u32> = all.iter().map(|one| one.exec.unwrap().1).collect();
    assert_eq!((threads.len(), trace.processes.len(), &*trace.processes[0].program), (2, 1, "every"));
}

#[test]
fn what_the_tracer_discarded_is_lost() {
    let trace = of(&sources().join("discarded"));
    assert_eq!(trace.lost.events, 217);
    // 5 with all fields, 24 of the jobs, 1 text, 400 more.
    assert_eq!(ours(&trace).len() as u64 + trace.lost.events, 430);
}

#[test]
fn short_times_go_on_where_their_clock_turned_over() {
    let trace = of(&sources().join("compact"));
    let (_, all) = intervals(&trace);
    // 27 bits of nanoseconds are 134 milliseconds: three steps of a hundred each.
    assert!(all.iter().all(|one| (100_000_000..400_000_000).contains(&one.worked(0))));
    let last = trace.events.last().unwrap().at_ns;
    assert!(last - trace.clock.origin_ns >= 300_000_000);
    assert_eq!((trace.processes.len(), &*trace.processes[0].program), (1, "every"), "told by the trace's environment");
}

/// A trace in memory: metadata and streams.
type Files = (Vec<u8>, Vec<(String, Vec<u8>)>);

fn files(name: &str) -> Files {
    let metadata = ctf_traces_in(&sources().join(name)).unwrap().remove(0);
    let streams = ["c_0", "c_1"].map(|name| (name.to_owned(), metadata.with_file_name(name)));
    let streams = streams.into_iter().filter_map(|(name, path)| Some((name, std::fs::read(path).ok()?)));
    (std::fs::read(&metadata).unwrap(), streams.collect())
}

fn parsed((metadata, streams): &Files) -> model::Result<Trace> {
    read_ctf("metadata", metadata, streams.iter().map(|(name, bytes)| Ok((name.clone(), bytes))))
}

fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

#[test]
fn a_stream_that_is_cut_is_read_as_far_as_it_goes_and_says_so() {
    let mut state = 3;
    for name in FIXTURES {
        let whole = files(name);
        let all = parsed(&whole).unwrap();
        for _ in 0..200 {
            let mut cut = whole.clone();
            let at = 1 + random(&mut state, cut.1[0].1.len() - 1);
            cut.1[0].1.truncate(at);
            let trace = parsed(&cut).unwrap();
            assert!(trace.events.len() <= all.events.len());
            // A packet that is whole may be the last one.
            let is_said = trace.damage.iter().any(|what| what.contains("stream c_0: its last packet"));
            assert!(is_said || at.is_multiple_of(4096), "{name} at {at}: {:?}", trace.damage);
            report(&trace, 3);
        }
        // A byte before the end there is but padding, or the last event.
        let mut cut = whole.clone();
        let size = cut.1[0].1.len();
        cut.1[0].1.truncate(size - 1);
        assert!(parsed(&cut).unwrap().events.len() + 30 >= all.events.len(), "{name}");
    }
}

#[test]
fn metadata_that_are_cut_describe_what_is_whole_of_them_or_name_the_line() {
    let (mut state, mut read) = (5, 0);
    let whole = files("fields");
    for _ in 0..200 {
        let mut cut = whole.clone();
        let at = random(&mut state, whole.0.len());
        cut.0.truncate(at);
        match parsed(&cut) {
            Ok(trace) => {
                read += 1;
                // Behind the text of the second packet there is padding.
                let is_said = trace.damage.iter().any(|what| what.contains("metadata"));
                assert!(is_said || at >= 6000, "{at}: {:?}", trace.damage);
            }
            Err(error) => assert!(error.to_string().contains("'metadata'"), "{error}"),
        }
    }
    assert!(read > 100, "{read}");
}

const HEAD: &str = "/* CTF 1.8 */\ntypealias integer { size = 8; } := byte;\ntrace { major = 1; minor = 8; \
                    byte_order = be; };\nstream { event.header := struct { byte id; }; };\n";

fn by_text(text: &str, stream: &[u8]) -> model::Result<Trace> {
    read_ctf("metadata", text.as_bytes(), std::iter::once(Ok(("s".to_owned(), stream))))
}

fn args(trace: &Trace) -> Vec<&str> {
    trace.events.iter().filter(|it| it.phase == Phase::Arg).filter_map(|it| it.text.as_deref()).collect()
}

#[test]
fn plain_metadata_with_every_type_of_the_language_are_read() {
    let text = format!(
        "{HEAD}typedef enum : byte {{ small, large = 7 ... 9, \"far\" = 200 }} size_kind;\n\
         struct point {{ integer {{ size = 4; signed = true; }} x; integer {{ size = 4; }} y; }};\n\
         variant either {{ byte small; struct {{ byte count; byte list[count][2]; }} large; }};\n\
         event {{ id = 3; name = \"a:b\"; fields := struct {{ // all of it\n\
           size_kind kind; variant either <kind> of; struct point at[2]; string word;\n\
           variant <event.fields.kind> {{ byte small; string large; }} again;\n\
           integer {{ size = 12; base = oct; byte_order = le; align = 4; }} odd; byte rest[at2.n]; }}; }};\n"
    );
    // A sequence whose length is nowhere is told with the place of its event.
    let stream = [3, 8, 1, 5, 6, 0xf2, 0x71, b'h', b'i', 0, b'x', 0, 0x34, 0x12];
    let trace = by_text(&text, &stream).unwrap();
    assert_eq!(args(&trace), [] as [&str; 0]);
    assert!(trace.damage[0].contains("the event at byte 0 has no length at2.n"), "{:?}", trace.damage);
    let trace = by_text(&text.replace(" byte rest[at2.n];", ""), &stream).unwrap();
    assert_eq!(
        args(&trace),
        [
            "kind=large (8)",
            "of={count=1, list=[[5, 6]]}",
            "at=[{x=-1, y=2}, {x=7, y=1}]",
            "word=hi",
            "again=x",
            "odd=01064"
        ]
    );
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    for (text, why) in [
        ("trace { byte_order = le; } ;\nevent { id = ; };", "line 2: a number"),
        ("trace {\nbyte_order = middle; };", "line 1: middle is no byte order"),
        ("\n\ntypealias nothing := x;", "line 3: no type is called nothing"),
        ("typealias integer { size = 65; } := x;", "integers of 65 bits"),
        ("struct s { integer { size = 8; align = 3; } x; };", "3 is no alignment"),
        ("trace { major = 2; byte_order = le; };", "other than 1.8"),
        ("\n#include", "line 2: '#' begins nothing"),
        ("env { x = 99999999999999999999; };", "is no number"),
        ("event { fields := integer { size = 8; }; };", "fields is no struct"),
    ] {
        let error = by_text(&format!("/* CTF 1.8 */{text}"), &[]).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("'metadata'"), "{text}: {error}");
    }
    let deep = format!("/* CTF 1.8 */{}byte x;", "struct { ".repeat(100_000));
    assert!(by_text(&deep, &[]).unwrap_err().to_string().contains("too deep"));
    let nested =
        format!("{HEAD}event {{ fields := {}byte x;{}; }};", "struct { ".repeat(60), " } s;".repeat(59) + " }");
    assert_eq!(
        args(&by_text(&nested, &[0, 9]).unwrap()),
        [format!("s={}x=9{}", "{s=".repeat(58) + "{", "}".repeat(59))]
    );
    let chain: String = (0..100).map(|n| format!("struct s{} {{ struct s{n} x; }};\n", n + 1)).collect();
    let error = by_text(&format!("/* CTF 1.8 */struct s0 {{}};\n{chain}"), &[]).unwrap_err();
    assert!(error.to_string().contains("too deep"), "{error}");
    assert!(read(b"/* CTF 1.8 */", None).unwrap_err().hint.unwrap().contains("directory"));
}

#[test]
fn lengths_and_sizes_that_are_made_up_end_a_packet_and_take_no_memory() {
    for (fields, why) in [
        ("integer { size = 64; } n; byte list[n];", "ends within an event"),
        ("integer { size = 64; } n; struct {} list[n];", "too many fields"),
        ("struct {} list[18446744073709551615];", "too many fields"),
    ] {
        let text = format!("{HEAD}event {{ id = 255; fields := struct {{ {fields} }}; }};");
        let trace = by_text(&text, &[255; 32]).unwrap();
        assert!(trace.damage[0].contains(why), "{fields}: {:?}", trace.damage);
    }
    let text = "/* CTF 1.8 */trace { byte_order = le; }; stream {}; event {};";
    assert!(by_text(text, &[0; 8]).unwrap().damage[0].contains("have no size"));
}

/// Events of a tracer that tells a thread by `context`; each has a time, a number and perhaps the thread's.
fn of_kernel(context: &str, stream: &[u8]) -> Trace {
    let events: String = ["syscall_entry_openat", "syscall_exit_openat", "syscall_entry_exit", "net:start", "net:stop"]
        .iter()
        .enumerate()
        .map(|(id, name)| format!("event {{ id = {id}; name = \"{name}\"; }};\n"))
        .collect();
    let text = format!(
        "/* CTF 1.8 */ trace {{ byte_order = le; }};\n\
         clock {{ name = monotonic; freq = 1000; offset_s = 5; offset = 7; }};\n\
         stream {{ event.header := struct {{ integer {{ size = 8; }} id; \
         integer {{ size = 8; map = clock.monotonic.value; }} t; }};\n\
         event.context := struct {{ {context} }}; }};\n{events}"
    );
    by_text(&text, stream).unwrap()
}

#[test]
fn system_calls_are_work_of_their_threads_where_those_are_told() {
    // Thread 7 and thread 8 are in calls at once; the time turns over.
    let stream = [0, 250, 7, 0, 252, 8, 1, 253, 7, 1, 1, 8, 3, 2, 8, 2, 3, 8, 4, 5, 8, 1, 6, 7];
    let trace = of_kernel("integer { size = 8; } tid;", &stream);
    let (_, all) = intervals(&trace);
    let seen: Vec<_> = all
        .iter()
        .map(|one| (trace.type_name(one.type_id), trace.threads[one.exec.unwrap().1 as usize].tid, one.worked(0)))
        .collect();
    let ms = 1_000_000;
    assert_eq!(seen, [("syscall::openat", 7, 3 * ms), ("syscall::openat", 8, 5 * ms), ("net", 8, 3 * ms)]);
    assert_eq!((trace.clock.origin_ns, trace.clock.step_ns), (250 * ms, ms));
    assert_eq!(trace.clock.realtime_ns, 5_257 * ms);
    assert_eq!(trace.damage, ["1 ends did not begin in the trace: they are marks"]);
    let without: Vec<u8> = stream.chunks(3).flat_map(|event| [event[0], event[1]]).collect();
    let trace = of_kernel("", &without);
    assert!(intervals(&trace).1.is_empty());
    assert!(trace.damage[0].contains("7 beginnings and ends tell no thread"), "{:?}", trace.damage);
}

#[test]
fn a_request_of_a_disk_ends_on_any_thread() {
    let event = |id, name| {
        format!("event {{ id = {id}; name = {name}; fields := struct {{ byte _dev; byte _sector; byte _more; }}; }};\n")
    };
    let issue_and_complete = event(0, "block_rq_issue") + &event(1, "block_rq_complete");
    let context = "stream { event.header := struct { byte id; }; event.context := struct { byte _tid; }; };\n";
    let text = format!("{}{context}{issue_and_complete}", HEAD.replace("struct { byte id; }; }", "struct {}; }"));
    // Two requests are under way at once, and end in the order in which they began, on thread 0 and on another one.
    let trace = by_text(&text, &[0, 7, 3, 1, 9, 0, 8, 3, 2, 9, 1, 0, 3, 1, 9, 1, 8, 3, 2, 9]).unwrap();
    assert_eq!(trace.damage, [] as [&str; 0]);
    let (objects, all) = intervals(&trace);
    let told = |one: &timeline::Interval| {
        let tid = trace.threads[one.exec.unwrap().1 as usize].tid;
        (trace.type_name(one.type_id), objects.name(one.object), tid, one.done.is_some())
    };
    let wanted = ["dev=3 sector=1", "dev=3 sector=2"];
    let wanted: Vec<_> =
        wanted.iter().zip([7, 8]).map(|(name, tid)| ("block::request", Some(*name), tid, true)).collect();
    assert_eq!(all.iter().map(told).collect::<Vec<_>>(), wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn bytes_that_are_changed_make_no_panic(
        which in 0_usize..FIXTURES.len(),
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        is_in_metadata: bool,
    ) {
        let mut files = files(FIXTURES[which]);
        let bytes = if is_in_metadata { &mut files.0 } else { &mut files.1[0].1 };
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] ^= byte;
        }
        if let Ok(trace) = parsed(&files) {
            report(&trace, 3);
            timeline::export(&trace, timeline::Format::Chrome, &mut std::io::sink()).unwrap();
        }
    }
}

/// LTTng's daemon, which ends with this.
struct Daemon<'a> {
    home: &'a Path,
}

impl<'a> Daemon<'a> {
    fn start(home: &'a Path) -> Self {
        let mut command = Command::new("lttng-sessiond");
        command.args(["--daemonize", "--no-kernel"]).env("LTTNG_HOME", home);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "lttng-sessiond: {status}");
        Self { home }
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) {
        let said = Command::new(&program).args(args).env("LTTNG_HOME", self.home).output().unwrap();
        assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let file = self.home.join(".lttng/lttng-sessiond.pid");
        let pid = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

/// The program that writes events of all kinds; `None`, counted as skipped: what it takes is not installed.
fn built(home: &Path) -> Option<PathBuf> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(missing) = ["lttng-sessiond", "lttng", "babeltrace2"].into_iter().find(|program| !has(program)) {
        testing::skip(&format!("needs {missing}"));
        return None;
    }
    let header = ["-fsyntax-only", "-include", "lttng/tracepoint.h", "-x", "c", "/dev/null"];
    if !Command::new("cc").args(header).output().is_ok_and(|said| said.status.success()) {
        testing::skip("needs a C compiler and liblttng-ust-dev");
        return None;
    }
    let program = home.join("every");
    let (main, probes) = (sources().join("every.c"), sources().join("probes.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-I"]).arg(sources()).args([main, probes]).arg("-o").arg(&program);
    testing::compiled(compiler.args(["-llttng-ust", "-lpthread", "-ldl"])).then_some(program)
}

fn records(program: &Path, home: &Path) {
    let daemon = Daemon::start(home);
    let output = home.join("trace");
    daemon.run("lttng", &["create", "every", &format!("--output={}", output.display())]);
    daemon.run("lttng", &["enable-event", "--userspace", "every:*,lttng_ust_tracef:*"]);
    daemon.run("lttng", &["add-context", "--userspace", "-t", "vtid", "-t", "vpid", "-t", "procname"]);
    daemon.run("lttng", &["start"]);
    daemon.run(program, &["3", "3000"]);
    daemon.run("lttng", &["destroy"]);
    drop(daemon);
    let trace = of(&output);
    assert_eq!((ours(&trace).len(), trace.lost.events), (5 + 24 + 1 + 3000, 0));
    assert_eq!(trace.clock.boot, timeline::now().unwrap().0);
    is_the_same(&output);
}

#[test]
fn what_lttng_records_here_is_read_as_babeltrace_reads_it() {
    // Below a directory that everybody may enter: what is counted, read and built here is this user's.
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let Some(program) = built(home.path()) else { return };
    // Root's daemon would be the machine's only one.
    testing::as_ordinary_user(|| records(&program, tempfile::tempdir().unwrap().path()));
}

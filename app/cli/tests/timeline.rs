//! timeline: from a program with events to an answer.

use crate::heap_peers::{Profiler, speedscope_opens};
use crate::scratch::{Mortal, Said, Scratch};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const PROGRAM: &str = r#"
#include "thaw_events.h"
#include <stdio.h>
int main(void)
{
	THAW_NAME(1, "http://host/\x1b[31m");
	THAW_WAIT(1, "net::http::transaction");
	usleep(20000);
	THAW_EXEC(1, "net::http::transaction");
	usleep(10000);
	THAW_DONE(1, "net::http::transaction");
	THAW_MARK(2, "net::reset");
	puts("ready");
	fflush(stdout);
	getchar();
	THAW_MARK(2, "net::reset");
	THAW_WAIT(3, "net::http::transaction");
	usleep(1000);
	THAW_MARK(2, "net::reset");
	return 0;
}
"#;

fn build(scratch: &Scratch) -> Option<PathBuf> {
    let source = scratch.write("app.c", PROGRAM);
    let mut cc = Command::new("cc");
    cc.arg("-I")
        .arg(crate::scratch::root().join("embed/events/include"))
        .arg("-o")
        .arg(scratch.path("app"))
        .arg(source);
    std::fs::create_dir(scratch.path("events")).unwrap();
    testing::compiled(&mut cc).then(|| scratch.path("app"))
}

fn run(scratch: &Scratch, program: &PathBuf, options: &str) {
    let events = format!("{}{options}", scratch.path("events").display());
    let mut command = Command::new(program);
    command.env("THAW_EVENTS", events).stdin(std::process::Stdio::null());
    Said::of(command).exits(0).says("ready");
}

#[test]
fn a_report_says_what_waited_and_worked_how_long_on_what() {
    let scratch = Scratch::new();
    let Some(program) = build(&scratch) else { return };
    run(&scratch, &program, "");
    let said = scratch.thaw(["timeline", "report", "events"]).exits(0);
    said.says("net::http::transaction")
        .says("The longest waits:")
        .says("http://host/")
        .says_not("\u{1b}[31m")
        .says("did not end");
    let json = scratch.thaw(["timeline", "report", "events", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.timeline/2");
    let file = &json["files"][0];
    let (first, wait) = (&file["types"][0], &file["waits"][0]);
    assert_eq!(
        (&first["name"], &first["intervals"], &first["open"]),
        (&"net::http::transaction".into(), &2.into(), &1.into())
    );
    assert!(first["source"].as_str().unwrap().ends_with("app.c:7"), "{first}");
    assert!(wait["waited_ns"].as_u64().unwrap() >= 20_000_000, "{wait}");
    assert!(wait["worked_ns"].as_u64().unwrap() >= 10_000_000, "{wait}");
    let open = file["waits"].as_array().unwrap().iter().find(|row| row["is_open"] == true).expect("the third wait");
    assert_eq!((&open["worked_ns"], &open["worked_by"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(file["types"][1]["marks"], 3);
    assert_eq!(file["clock"]["is_calibrated"], true);
}

#[test]
fn events_are_switched_on_and_off_from_outside() {
    let scratch = Scratch::new();
    let Some(program) = build(&scratch) else { return };
    for (options, verb, events, by_pid) in [("", "stop", 5, false), (",off", "start", 3, false), ("", "stop", 5, true)]
    {
        use std::io::{BufRead, Write};
        let mut child = Command::new(&program)
            .env("THAW_EVENTS", format!("{}{options}", scratch.path("events").display()))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = child.id().to_string();
        scratch.thaw(["timeline", verb, if by_pid { &pid } else { "events" }]).exits(0);
        scratch.thaw(["timeline", "snapshot", &pid, "-o", "now.events", "--force"]).exits(0);
        let mode = std::fs::metadata(scratch.path("now.events")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "as the file that it is a copy of");
        let json = scratch.thaw(["timeline", "report", "now.events", "--json"]).exits(0).json();
        assert_eq!(json["files"][0]["events"], if verb == "stop" { 5 } else { 0 }, "{verb}: {json:#}");
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
        let json = scratch.thaw(["timeline", "report", "events", "--json"]).exits(0).json();
        assert_eq!(json["files"][0]["events"], events, "{verb}: {json:#}");
        std::fs::remove_file(json["files"][0]["path"].as_str().map(|path| scratch.path(path)).unwrap()).unwrap();
    }
}

#[test]
fn what_holds_no_events_is_named() {
    let scratch = Scratch::new();
    scratch.write("text.events", "dear diary");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.thaw(["timeline", "report", "nothing"]).exits(2).complains("nothing");
    scratch
        .thaw(["timeline", "report", "empty"])
        .exits(2)
        .complains("no process has written events")
        .hints("THAW_EVENTS=empty");
    scratch
        .thaw(["timeline", "report", "text.events"])
        .exits(5)
        .complains("in no form that thaw knows")
        .hints("text.events");
    scratch.thaw(["timeline", "stop", "text.events"]).exits(5).complains("not a file of events");
    scratch.thaw(["timeline", "snapshot", "text.events", "-o", "b.events"]).exits(5).complains("not a file of events");
    scratch.thaw(["timeline", "snapshot", "4000000000", "-o", "b.events"]).exits(2).complains("process 4000000000");
    let own = std::process::id().to_string();
    scratch.thaw(["timeline", "snapshot", &own, "-o", "b.events"]).exits(2).hints("THAW_EVENTS=DIR");
    assert!(!scratch.path("b.events").exists());
    assert_eq!(std::fs::read(scratch.path("text.events")).unwrap(), b"dear diary");
}

fn fixture(name: &str) -> PathBuf {
    crate::scratch::root().join("fixtures/timeline").join(name)
}

#[test]
fn files_of_other_programs_are_reported() {
    let scratch = Scratch::new();
    for (name, form, says) in [
        ("net-log.json", "net-log", "net::socket_pool"),
        ("chrome-trace.json", "chrome", "devtools::request"),
        ("archive.har", "har", "har::wait"),
        ("firefox-gecko.json", "firefox", "network::queue"),
        ("moz-log.txt", "moz-log", "net::http::channel::cache_entry"),
        ("visual-event-tracer.json", "visual-event-tracer", "net::http::transaction"),
        ("chromium.pftrace", "perfetto", "loading::"),
        ("lttng/fields", "ctf", "lttng_ust_tracef::event"),
        ("lttng/fields/ust/uid/0/64-bit/metadata", "ctf", "every::job"),
    ] {
        let path = fixture(name);
        let path = path.to_str().unwrap();
        scratch.thaw(["timeline", "report", path, "--all"]).exits(0).says(says).says_not(":0");
        let json = scratch.thaw(["timeline", "report", path, "--json"]).exits(0).json();
        assert_eq!(json["files"][0]["form"], form, "{name}");
    }
    // Both are of one boot, and one is a directory deep below the one that is named.
    let said = scratch.thaw(["timeline", "path", fixture("lttng").to_str().unwrap()]).exits(0);
    said.says("every::step");
    let csv = ["--format", "csv", "-o", "lttng.csv"];
    scratch.thaw([&["timeline", "export", fixture("lttng/discarded").to_str().unwrap()][..], &csv].concat()).exits(0);
    assert_eq!(std::fs::read_to_string(scratch.path("lttng.csv")).unwrap().lines().count(), 13, "a pair a line");
}

#[test]
fn what_is_exported_to_chrome_is_reported_as_the_original() {
    let scratch = Scratch::new();
    let original = fixture("net-log.json");
    let original = original.to_str().unwrap();
    scratch.thaw(["timeline", "export", original, "--format", "chrome", "-o", "again.json"]).exits(0);
    let types = |path: &str| {
        scratch.thaw(["timeline", "report", path, "--all", "--json"]).exits(0).json()["files"][0]["types"].clone()
    };
    let (one, other) = (types(original), types("again.json"));
    assert!(one.as_array().unwrap().len() > 20);
    assert_eq!(one, other);
    scratch
        .thaw(["timeline", "export", original, "--format", "csv", "-o", "again.json"])
        .exits(2)
        .complains("again.json")
        .hints("--force");
    for format in ["perfetto", "firefox", "speedscope", "csv", "csv-events", "chrome"] {
        scratch.thaw(["timeline", "export", original, "--format", format, "-o", "again.json", "--force"]).exits(0);
        assert!(std::fs::metadata(scratch.path("again.json")).unwrap().len() > 1000, "{format}");
    }
    scratch.write("none.txt", "dear diary");
    let none = ["timeline", "export", "none.txt", "--format", "csv", "-o", "none.csv"];
    scratch.thaw(none).exits(5).complains("in no form that thaw knows");
    assert!(!scratch.path("none.csv").exists());
}

#[test]
fn what_is_imported_is_a_recording_that_tells_the_same() {
    let scratch = Scratch::new();
    for original in ["net-log.json", "chrome-trace.json", "firefox-gecko.json", "visual-event-tracer.json"] {
        let original = fixture(original);
        let original = original.to_str().unwrap();
        scratch.thaw(["timeline", "import", original, "-o", "x.thaw", "--force"]).exits(0);
        for verb in ["path", "waits"] {
            let told = |file: &str| {
                let mut json = scratch.thaw(["timeline", verb, file, "--all", "--json"]).exits(0).json();
                json["paths"].take();
                json
            };
            assert_eq!(told("x.thaw"), told(original), "{verb} {original}");
        }
        let count = "select count(*) from events where phase = 'link'";
        let links = scratch.thaw(["query", "x.thaw", count]).exits(0);
        scratch.thaw(["timeline", "export", original, "--format", "csv-events", "-o", "x.csv", "--force"]).exits(0);
        let lines = std::fs::read_to_string(scratch.path("x.csv")).unwrap();
        links.says(&lines.lines().filter(|line| line.contains(",link,")).count().to_string());
    }
    let [one, other] =
        ["net-log.json", "visual-event-tracer.json"].map(|name| fixture(name).to_str().unwrap().to_owned());
    let import = ["timeline", "import", &one, "-o", "x.thaw"];
    scratch.thaw(import).exits(2).complains("x.thaw").hints("--force");
    scratch.thaw(["timeline", "import", "x.thaw", "-o", "y.thaw"]).exits(2).complains("a recording already");
    scratch.thaw(["timeline", "import", &one, &other, "-o", "y.thaw"]).exits(2).complains("on one time axis");
    assert!(!scratch.path("y.thaw").exists());
    // Each counts from its own beginning.
    scratch.thaw(["timeline", "import", &one, "-o", "y.thaw"]).exits(0);
    scratch.thaw(["timeline", "path", "x.thaw", "y.thaw"]).exits(2).complains("on one time axis");
}

#[test]
fn rules_say_what_lines_of_a_log_mean() {
    let scratch = Scratch::new();
    let lines = ["5 UTC - [P 7: T]: D/mine open 0xab", "7 UTC - [P 7: T]: D/mine got 0xab", ""];
    let stamped = lines.map(|line| if line.is_empty() { String::new() } else { format!("2026-11-25 02:44:05.{line}") });
    scratch.write("log", stamped.join("\n"));
    let rules = "[[rule]]\nmodule = \"mine\"\nline = \"open {x}\"\nsays = [\"wait {x} mine::file\"]\n\
                 [[rule]]\nmodule = \"mine\"\nline = \"got {x}\"\nsays = [\"exec {x} mine::file\"]\n";
    scratch.write("rules.toml", rules);
    scratch.thaw(["timeline", "report", "log", "--rules", "rules.toml"]).exits(0).says("mine::file").says("200.0 ms");
    scratch.write("wrong.toml", "[[rule]]\nmodule = 7\n");
    let wrong = ["timeline", "report", "log", "--rules", "wrong.toml"];
    scratch.thaw(wrong).exits(5).complains("cannot read the rules").hints("timeline-imports.md");
    scratch.thaw(["timeline", "report", "log", "--rules", "missing.toml"]).exits(2).complains("missing.toml");
}

#[test]
fn the_firefox_profiler_reads_the_export_with_waits_and_work() {
    if Command::new("node").arg("--version").output().is_err() {
        return testing::skip("needs node");
    }
    let scratch = Scratch::new();
    let original = fixture("net-log.json");
    let export = ["timeline", "export", original.to_str().unwrap(), "--format", "firefox", "-o", "profile.json"];
    scratch.thaw(export).exits(0);
    let Some(profiler) = Profiler::load(&scratch, &scratch.path("profile.json")) else { return };
    let markers = profiler.ask(&["thread", "markers"]).to_string();
    assert!(markers.contains("net::socket_pool") && markers.contains("net::socket::SOCKET_IN_USE"), "{markers}");
}

#[test]
fn speedscope_reads_the_export() {
    let scratch = Scratch::new();
    let original = fixture("visual-event-tracer.json");
    let export = ["timeline", "export", original.to_str().unwrap(), "--format", "speedscope", "-o", "scope.json"];
    scratch.thaw(export).exits(0);
    speedscope_opens(&scratch, &std::fs::read_to_string(scratch.path("scope.json")).unwrap());
}

#[test]
fn the_parser_of_perfetto_reads_the_export() {
    let scratch = Scratch::new();
    let original = fixture("net-log.json");
    let export = ["timeline", "export", original.to_str().unwrap(), "--format", "perfetto", "-o", "x.pftrace"];
    scratch.thaw(export).exits(0);
    let script = "import sys\ntry:\n from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace\n\
                  except ImportError:\n sys.exit(77)\n\
                  t = trace.Trace(); t.ParseFromString(open('x.pftrace', 'rb').read())\n\
                  e = [p.track_event for p in t.packet if p.HasField('track_event')]\n\
                  d = {p.track_descriptor.uuid for p in t.packet if p.HasField('track_descriptor')}\n\
                  assert all(x.track_uuid in d for x in e)\n\
                  f = {i for x in e for i in x.flow_ids}\n\
                  assert f and f == {i for x in e for i in x.terminating_flow_ids}\n\
                  print(sum(x.type == 1 and x.name == 'net::socket_pool (waits)' for x in e), len(f))\n";
    let python = std::env::var_os("THAW_PERFETTO_PYTHON").unwrap_or_else(|| "python3".into());
    let Ok(said) = Command::new(python).args(["-c", script]).current_dir(scratch.path(".")).output() else {
        return testing::skip("needs python3");
    };
    if said.status.code() == Some(77) {
        return testing::skip("needs PyPI's perfetto: THAW_PERFETTO_PYTHON names a python that has it");
    }
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let numbers: Vec<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(numbers[0] == 12 && numbers[1] > 50, "{text}");
}

/// Two threads, one lock, a task in a queue.
const LOCKS: &str = r#"
#include "thaw_events.h"
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void hold(const char *who, int us)
{
	THAW_NAME(&lock, "the \x1b[31m lock");
	THAW_EXEC(who, "app::part");
	THAW_WAIT_SHARED(&lock, "app::lock");
	pthread_mutex_lock(&lock);
	THAW_EXEC_SHARED(&lock, "app::lock");
	usleep(us);
	THAW_DONE_SHARED(&lock, "app::lock");
	pthread_mutex_unlock(&lock);
	THAW_DONE(who, "app::part");
}
static void *other(void *one)
{
	usleep(20000);
	hold("second", 10000);
	return one;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, other, NULL);
	hold("first", 100000);
	pthread_join(thread, NULL);
	puts("ready");
	return 0;
}
"#;

/// Runs the program with the lock; its events lie in `events`.
fn with_a_lock(scratch: &Scratch) -> bool {
    let source = scratch.write("app.c", LOCKS);
    let mut cc = Command::new("cc");
    cc.args(["-pthread", "-I"]).arg(crate::scratch::root().join("embed/events/include"));
    cc.arg("-o").arg(scratch.path("app")).arg(source);
    std::fs::create_dir(scratch.path("events")).unwrap();
    let is_built = testing::compiled(&mut cc);
    if is_built {
        run(scratch, &scratch.path("app"), "");
    }
    is_built
}

#[test]
fn the_path_says_who_held_the_lock_and_owns_every_nanosecond() {
    let scratch = Scratch::new();
    if !with_a_lock(&scratch) {
        return;
    }
    let said = scratch.thaw(["timeline", "path", "events"]).exits(0);
    said.says("It stood in line for:").says("held it before").says_not("\u{1b}[31m");
    let json = scratch.thaw(["timeline", "path", "events", "--json", "--all"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.timeline-path/1");
    let steps = json["steps"].as_array().unwrap();
    let sum: u64 = steps.iter().map(|step| step["ns"].as_u64().unwrap()).sum();
    assert_eq!((Some(sum), &json["left_out"]), (json["span_ns"].as_u64(), &0.into()));
    let first = &json["contended"][0];
    assert!(first["resource"].as_str().unwrap().ends_with("lock app::lock"), "{first}");
    assert!(first["ns"].as_u64().unwrap() >= 60_000_000, "{first}");
    let two = scratch.thaw(["timeline", "path", "events", "--json", "--top", "2"]).exits(0).json();
    assert_eq!(two["steps"].as_array().map(Vec::len), Some(2));
    assert_eq!(two["left_out"].as_u64(), Some(steps.len() as u64 - 2));
    scratch
        .thaw(["timeline", "path", "events", "--to", "nobody"])
        .exits(2)
        .complains("no object and no type is called 'nobody'")
        .hints("12.5ms");
    let part = scratch.thaw(["timeline", "path", "events", "--from", "1ms", "--to", "50ms", "--json"]).exits(0).json();
    assert_eq!(part["span_ns"], 49_000_000);
    // Events of two processes on one clock are one trace.
    run(&scratch, &scratch.path("app"), "");
    let both = scratch.thaw(["timeline", "path", "events", "--json"]).exits(0).json();
    assert_eq!(both["paths"].as_array().map(Vec::len), Some(2));
    assert!(both["span_ns"].as_u64() > json["span_ns"].as_u64(), "{}", both["span_ns"]);
}

#[test]
fn waits_are_added_up_by_type_object_and_blocker() {
    let scratch = Scratch::new();
    if !with_a_lock(&scratch) {
        return;
    }
    scratch.thaw(["timeline", "waits", "events"]).exits(0).says("By type:").says("By what was waited for:");
    let json = scratch.thaw(["timeline", "waits", "events", "--json"]).exits(0).json();
    assert_eq!((&json["schema"], &json["all"]["count"]), (&"thaw.timeline-waits/1".into(), &2.into()));
    let first = &json["blockers"][0];
    assert_eq!((&first["class"], &first["type_name"]), (&"resource".into(), &"app::lock".into()));
    assert!(first["longest_ns"].as_u64().unwrap() >= 60_000_000, "{first}");
    scratch.thaw(["timeline", "waits", "events", "--html", "x.html"]).exits(2).complains("--html");
}

#[test]
fn a_replay_says_what_it_would_bring_and_how_far_it_is_off() {
    let scratch = Scratch::new();
    if !with_a_lock(&scratch) {
        return;
    }
    scratch.thaw(["timeline", "whatif", "events"]).exits(0).says("nothing is changed").says("Error:").says("app::lock");
    let json = scratch.thaw(["timeline", "whatif", "events", "--faster", "app::lock=2", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.timeline-whatif/1");
    let (measured, predicted) = (json["measured_ns"].as_u64().unwrap(), json["predicted_ns"].as_u64().unwrap());
    assert!(predicted < measured * 3 / 4 && json["error"].as_f64().unwrap() < 0.2, "{json:#}");
    for (option, value) in [("--faster", "app::lock=0"), ("--resource", "=4"), ("--resource", "lock=many")] {
        scratch.thaw(["timeline", "whatif", "events", option, value]).exits(2);
    }
    scratch
        .thaw(["timeline", "whatif", "events", "--resource", "nothing=3"])
        .exits(2)
        .complains("no resource is called 'nothing'")
        .hints("app::lock");
}

#[test]
fn two_paths_are_laid_side_by_side() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    if !(with_a_lock(&scratch) && with_a_lock(&other)) {
        return;
    }
    let after = other.path("events").display().to_string();
    scratch.thaw(["timeline", "compare", "events", &after]).exits(0).says("By type:").says("Step by step");
    let json = scratch.thaw(["timeline", "compare", "events", &after, "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.timeline-compare/1");
    let sum: u64 = json["steps"].as_array().unwrap().iter().map(|step| step["after_ns"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), json["after_ns"].as_u64());
    assert!(json["types"].as_array().unwrap().iter().any(|row| row["name"] == "app::lock" && row["place"] == "both"));
}

#[test]
fn a_page_holds_what_the_report_says() {
    let scratch = Scratch::new();
    let Some(program) = build(&scratch) else { return };
    run(&scratch, &program, "");
    run(&scratch, &program, "");
    scratch.thaw(["timeline", "report", "events", "--html", "both.html"]).exits(0);
    let html = std::fs::read_to_string(scratch.path("both.html")).unwrap();
    let begin = "<script type=\"application/json\" id=\"thaw-timeline\">";
    let text = &html[html.find(begin).unwrap() + begin.len()..];
    let page: serde_json::Value = serde_json::from_str(&text[..text.find("</script>").unwrap()]).unwrap();
    let report = scratch.thaw(["timeline", "report", "events", "--json"]).exits(0).json();
    let sum =
        |key: &str| report["files"].as_array().unwrap().iter().map(|file| file[key].as_u64().unwrap()).sum::<u64>();
    // Two processes on one time axis, their objects apart.
    assert_eq!((&page["schema"], &page["name"]), (&"thaw.timeline-view/1".into(), &"2 files".into()));
    assert_eq!(page["processes"].as_array().unwrap().len(), 2);
    assert_eq!(
        (page["events"].as_u64(), page["objects"]["count"].as_u64()),
        (Some(sum("events")), Some(sum("objects")))
    );
    assert_eq!((&page["intervals"]["count"], &page["moments"]["count"]), (&4.into(), &8.into()));
    // An existing file is replaced only when that is wanted.
    scratch.thaw(["timeline", "report", "events", "--html", "both.html"]).exits(2).hints("--force");
    scratch.thaw(["timeline", "report", "events", "--html", "both.html", "--force"]).exits(0);
    scratch.thaw(["timeline", "report", "events", "--html", "x.html", "--json"]).exits(2);
    scratch.thaw(["view", "events", "--since", "events", "--no-browser"]).exits(2).complains("what changed in events");
}

#[test]
fn every_verb_tells_what_it_does_itself() {
    let scratch = Scratch::new();
    scratch.thaw(["presets", "--timeline", "own.events"]).exits(0);
    let said = scratch.thaw(["timeline", "report", "own.events", "--json"]).exits(0).json();
    assert!(said.to_string().contains("thaw::verb"), "{said}");
    assert!(said.to_string().contains("presets --timeline own.events"), "{said}");

    let line = "--timeline record.events record -o a.thaw --state hot --runs 1 --needed no -- true";
    scratch.thaw(line.split(' ')).exits(0);
    let said = scratch.thaw(["timeline", "path", "record.events", "--json"]).exits(0).json();
    let types: Vec<&str> = said["types"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    for wanted in ["thaw::verb", "bench::conduct::prepare", "bench::conduct::start", "recording::writer::finish"] {
        assert!(types.contains(&wanted), "{wanted} is not in {types:?}");
    }
    // All of it is owned, and by thaw: the program that it started is not asked for events.
    let span = said["span_ns"].as_u64().unwrap();
    let owned: u64 = said["classes"].as_array().unwrap().iter().map(|class| class["ns"].as_u64().unwrap()).sum();
    assert_eq!(owned, span);

    // What is there stays; what cannot be made is named; nothing is done then.
    scratch.thaw(["presets", "--timeline", "own.events"]).exits(2).hints("--timeline FILE").complains("own.events");
    scratch.thaw(["presets", "--timeline", "none/own.events"]).exits(3).complains("none/own.events");
    assert!(!scratch.path("none").exists());
}

#[test]
fn events_of_a_verb_that_is_killed_stay() {
    let scratch = Scratch::new();
    scratch.thaw("record -o a.thaw --state hot --runs 1 --needed no -- true".split(' ')).exits(0);
    let endless = "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up) SELECT max(n) FROM up";
    let mut command = scratch.command();
    command.args(["query", "a.thaw", endless, "--timeline", "own.events"]).stdout(Stdio::null());
    let mut running = Mortal(command.spawn().unwrap());
    let events = || scratch.thaw(["timeline", "report", "own.events"]);
    while !scratch.path("own.events").exists() || !events().out().contains("reader::query") {
        assert!(running.0.try_wait().unwrap().is_none(), "it has ended");
    }
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    events().exits(0).says("thaw::verb").says("reader::query").says("did not end");
}

/// The program of the other tests, but it does not wait to be told to end, and a thread of it releases another.
const HANDS_OVER: &str = r#"
#include "thaw_events.h"
#include <pthread.h>
#include <semaphore.h>
static sem_t ready;
static void *worker(void *nothing)
{
	(void)nothing;
	THAW_EXEC(2, "worker");
	usleep(20000);
	sem_post(&ready);
	usleep(1000);
	THAW_DONE(2, "worker");
	return 0;
}
int main(void)
{
	pthread_t thread;
	sem_init(&ready, 0, 0);
	THAW_NAME(1, "the answer");
	THAW_WAIT(1, "net::transaction");
	pthread_create(&thread, 0, worker, 0);
	while (sem_wait(&ready) != 0) {}
	THAW_EXEC(1, "net::transaction");
	usleep(5000);
	THAW_DONE(1, "net::transaction");
	pthread_join(thread, 0);
	return 0;
}
"#;

#[test]
fn events_of_the_traced_start_are_in_the_recording_with_who_woke_whom() {
    let scratch = Scratch::new();
    let source = scratch.write("hands.c", HANDS_OVER);
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(crate::scratch::root().join("embed/events/include"));
    cc.arg("-pthread").arg("-o").arg(scratch.path("hands")).arg(source);
    if !testing::compiled(&mut cc) {
        return;
    }
    let program = scratch.path("hands");
    let record = ["record", "--state", "hot", "--runs", "2", "--trace-runs", "2", "--needed", "no", "--events", "-o"];
    let said =
        scratch.thaw(record.map(OsStr::new).into_iter().chain([OsStr::new("a.thaw"), "--".as_ref(), program.as_ref()]));
    let engine = said.exits(0);
    // Only the traced starts were told of, each by its own events. One that another program disturbed is taken again.
    let told = "select run, kind, accepted, run in (select run from events) as told from runs";
    let others = format!("{told} where told <> (kind = 'trace' and accepted)");
    scratch.thaw(["query", "--csv", "a.thaw", &others]).exits(0).says_not("1").says_not("0");
    scratch.thaw(["query", "a.thaw", "select type, name, state from v_intervals"]).exits(0).says("the answer");
    let wakes = scratch.thaw(["query", "--csv", "a.thaw", "select count(*) > 0 from wakes where by_tid not null"]);
    let knows_wakes = wakes.exits(0).out().lines().last() == Some("1");
    let path = scratch.thaw(["timeline", "path", "a.thaw"]).exits(0);
    let path = path.says("net::transaction");
    if knows_wakes {
        // Nothing in the events ties the two: the kernel does.
        path.says("kernel").says("worker");
    } else {
        testing::skip(&format!("who woke whom: {}", engine.out()));
    }
    let of_two = scratch.thaw(["timeline", "path", "a.thaw", "--run", "1"]).exits(2);
    of_two.complains("run 1 has no events in").complains("runs with events: ");
    scratch.thaw(["timeline", "report", "a.thaw", "--html", "a.html"]).exits(0);
    assert!(std::fs::read_to_string(scratch.path("a.html")).unwrap().contains("<html"));
    // Nothing is left behind.
    scratch.thaw(["doctor"]).exits(0).says_not("/events");
}

#[test]
fn a_file_that_the_start_did_not_write_is_not_its() {
    let scratch = Scratch::new();
    let log = r#"{"traceEvents": [{"name": "a", "ph": "X", "ts": 5, "dur": 9, "pid": 1, "tid": 1}]}"#;
    scratch.write("old.json", log);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(scratch.path("old.json")).unwrap().set_modified(old).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scratch.path("link.json")).unwrap();
    let record = "record --state hot --runs 2 --trace-runs 1 --needed no --events-of old.json --events-of link.json \
                  --events-of none.json -o a.thaw -- true";
    scratch.thaw(record.split_ascii_whitespace()).exits(0);
    let said = scratch.thaw(["query", "a.thaw", "select text from warnings where text like '%events%'"]).exits(0);
    said.says("old.json").says("from before this start").says("link.json").says("none.json");
    let said = scratch.thaw(["timeline", "report", "a.thaw"]).exits(2);
    said.complains("there are no events in").complains("thaw record --events");
}

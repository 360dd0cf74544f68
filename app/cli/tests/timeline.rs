//! timeline: from a program with events to an answer.

use crate::scratch::{Said, Scratch};
use std::path::PathBuf;
use std::process::Command;

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
    said.says("net::http::transaction").says("The longest waits:").says("http://host/").says_not("\u{1b}[31m");
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
    assert_eq!(file["types"][1]["marks"], 2);
    assert_eq!(file["clock"]["is_calibrated"], true);
}

#[test]
fn events_are_switched_on_and_off_from_outside() {
    let scratch = Scratch::new();
    let Some(program) = build(&scratch) else { return };
    for (options, verb, events) in [("", "stop", 5), (",off", "start", 2)] {
        use std::io::{BufRead, Write};
        let mut child = Command::new(&program)
            .env("THAW_EVENTS", format!("{}{options}", scratch.path("events").display()))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        scratch.thaw(["timeline", verb, "events"]).exits(0);
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
    assert_eq!(std::fs::read(scratch.path("text.events")).unwrap(), b"dear diary");
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
    assert_eq!((&page["intervals"]["count"], &page["moments"]["count"]), (&4.into(), &6.into()));
    // An existing file is replaced only when that is wanted.
    scratch.thaw(["timeline", "report", "events", "--html", "both.html"]).exits(2).hints("--force");
    scratch.thaw(["timeline", "report", "events", "--html", "both.html", "--force"]).exits(0);
    scratch.thaw(["timeline", "report", "events", "--html", "x.html", "--json"]).exits(2);
    scratch.thaw(["view", "events", "--since", "events", "--no-browser"]).exits(2).complains("what changed in events");
}

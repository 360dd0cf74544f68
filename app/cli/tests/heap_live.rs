//! A heap recording while it grows: what `thaw view --live` serves, and what it serves when the program has ended.

use crate::heap::guest;
use crate::pages::embedded;
use crate::scratch::{Mortal, Scratch};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Makes 100 blocks for each line, and ends with its input.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *hold(void) { return malloc(1000); }
int main(void) {
    char letter;
    while (read(0, &letter, 1) == 1)
        for (int i = 0; i < 100; i++) hold();
    return 0;
}";

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The only sample of a family.
fn sample(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Asks until it is so.
fn until(mut asked: impl FnMut() -> String, is_so: impl Fn(&str) -> bool) -> String {
    loop {
        let answer = asked();
        if is_so(&answer) {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_recording_is_shown_as_it_grows_and_as_it_was_in_the_end() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let (source, program) = (scratch.path("hold.c"), scratch.path("hold"));
    std::fs::write(&source, PROGRAM).unwrap();
    if !testing::compiled(Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(source)) {
        return;
    }
    let mut command = scratch.command();
    command.args(["heap", "run", "--aggregate", "--every", "0.2s", "-o", "live.heap", "--"]).arg(&program);
    let mut recorder =
        Mortal(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let mut input = recorder.0.stdin.take().unwrap();
    until(
        || if scratch.path("live.heap").exists() { scratch.names("live.heap").join(" ") } else { String::new() },
        |names| names.contains(".sums"),
    );
    let mut command = scratch.command();
    command.args(["view", "--live", "--no-browser", "live.heap"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Mortal(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_once("http://").and_then(|(_, rest)| rest.split(' ').next()).expect("an address");
    let (address, target) = url.split_once('/').unwrap();
    let metrics = || ask(address, &format!("metrics{target}"));
    for made in [100, 200] {
        input.write_all(b"\n").unwrap();
        let grown = until(metrics, |text| sample(text, "thaw_heap_allocations_total").is_some_and(|it| it >= made));
        assert!(
            grown.contains("Content-Type: application/openmetrics-text; version=1.0.0") && grown.ends_with("# EOF\n")
        );
        let (blocks, bytes) = (sample(&grown, "thaw_heap_live_blocks"), sample(&grown, "thaw_heap_live_bytes"));
        assert_eq!((blocks.map(|it| it / 100), bytes.map(|it| it / 100_000)), (Some(made / 100), Some(made / 100)));
    }
    let page = until(|| ask(address, target), |page| page.contains("<meta name=\"thaw-again\""));
    assert_eq!(embedded(&page, "thaw-heap")["recordings"][0]["finished"], false);
    assert!(ask(address, "metrics?token=0").starts_with("HTTP/1.1 403 "));

    drop(input);
    assert!(recorder.0.wait().unwrap().success());
    let page = until(|| ask(address, target), |page| !page.contains("<meta name=\"thaw-again\""));
    let recording = &embedded(&page, "thaw-heap")["recordings"][0];
    assert_eq!(
        (&recording["finished"], &recording["processes"][0]["figures"]["end"]["blocks"]),
        (&true.into(), &200.into())
    );
    // Of each state that was kept, and of the end: 200 blocks came in some of them.
    assert!(recording["processes"][0]["changes"]["count"].as_u64() > Some(1), "{recording}");
    let ended = until(metrics, |text| sample(text, "thaw_heap_live_blocks") == Some(200));
    scratch.thaw(["heap", "export", "live.heap", "--format", "openmetrics", "-o", "live.prom"]).exits(0);
    let exported = std::fs::read_to_string(scratch.path("live.prom")).unwrap();
    assert_eq!(ended.split_once("\r\n\r\n").unwrap().1, exported);
    let place = exported.lines().find(|line| line.starts_with("thaw_heap_place_live_bytes{")).unwrap();
    assert!(place.contains("place=\"hold") && place.ends_with("} 200000"), "{place}");

    std::fs::write(scratch.path("other"), "x").unwrap();
    scratch.thaw(["view", "--live", "--no-browser", "other"]).exits(2).complains("as they grow");
    scratch.thaw(["view", "--live", "--since", "live.heap", "live.heap"]).exits(2);
    scratch.thaw(["heap", "report", "live.heap", "--since", "0.1", "--html", "part.html"]).exits(2);
}

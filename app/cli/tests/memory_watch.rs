//! `thaw memory watch` where it is hard: killed, interrupted, on a full disk, in the background, with processes that
//! come and go.

use crate::bad_input::TinyDisk;
use crate::scratch::{Mortal, Scratch};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const A_MOMENT: Duration = Duration::from_millis(5);

fn sleeper() -> Mortal {
    Mortal(Command::new("sleep").arg("1000").spawn().unwrap())
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(A_MOMENT);
    }
}

fn lines(path: &Path) -> usize {
    std::fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

fn samples(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_watch_that_is_killed_is_read_and_marked_at_any_time() {
    let scratch = Scratch::new();
    let sleeper = sleeper();
    let pid = sleeper.0.id().to_string();
    for round in 1..=12 {
        let mut command = scratch.command();
        command.args(["memory", "watch", &pid, "-o", "w", "--force", "--interval", "0", "--quiet"]);
        let mut watch = Mortal(command.stdout(Stdio::null()).spawn().unwrap());
        wait_until(|| lines(&scratch.path("w")) > round);
        watch.0.kill().unwrap();
        watch.0.wait().unwrap();
        scratch.thaw(["memory", "show", "w"]).exits(0).says(" in w\n");
        // As if it had been killed in the middle of a line: the mark does not stand in it.
        let mut file = std::fs::OpenOptions::new().append(true).open(scratch.path("w")).unwrap();
        file.write_all(b"{\"at_ns\":12,\"proc").unwrap();
        scratch.thaw(["memory", "show", "w"]).exits(0).says_not("after");
        scratch.thaw(["memory", "mark", "after", "-f", "w"]).exits(0);
        scratch.thaw(["memory", "show", "w"]).exits(0).says("after");
        std::fs::remove_file(scratch.path("w")).unwrap();
    }
}

#[test]
fn a_program_goes_on_when_the_disk_of_its_watch_is_full() {
    let scratch = Scratch::new();
    let Some(_disk) = TinyDisk::new(scratch.path("full"), 64 << 10) else { return };
    let script = scratch.script(
        "program",
        "until [ $(wc -l < full/w) -gt 3 ]; do sleep 0.01; done
head -c 1000000 /dev/zero > full/filler 2> /dev/null
until grep -q 'No space left' said; do sleep 0.01; done
rm full/filler
lines=$(wc -l < full/w)
until [ $(wc -l < full/w) -gt $((lines + 3)) ]; do sleep 0.01; done
echo unharmed > done",
    );
    let mut command = scratch.command();
    command.args(["memory", "watch", "-o", "full/w", "--interval", "0", "--quiet", "--"]).arg(script);
    command.stderr(std::fs::File::create(scratch.path("said")).unwrap()).stdout(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(3));
    let said = std::fs::read_to_string(scratch.path("said")).unwrap();
    assert!(said.contains("missing: cannot write") && said.matches("No space left").count() == 2, "{said}");
    assert_eq!(std::fs::read_to_string(scratch.path("done")).unwrap(), "unharmed\n");
    assert!(samples(&scratch.path("full/w")).len() > 6);
    scratch.thaw(["memory", "show", "full/w"]).exits(0).says("samples in full/w");
}

#[test]
fn processes_come_and_go() {
    let scratch = Scratch::new();
    // The last one outlives its parents by far, and the first process.
    let script = scratch.script(
        "program",
        "for i in $(seq 150); do true & done
wait
for i in $(seq 20); do sleep 0.05 & done
(setsid sh -c 'sleep 0.5; echo late > late' &)",
    );
    let watch = ["memory", "watch", "-o", "w", "--interval", "0", "--json", "--quiet", "--"];
    let json = scratch.thaw(watch.iter().copied().chain([script.to_str().unwrap()])).exits(0).json();
    assert!(scratch.path("late").exists(), "it is watched until the last one has ended");
    let samples = samples(&scratch.path("w"));
    assert_eq!(json["samples"], samples.len());
    let counts: Vec<usize> = samples.iter().map(|sample| sample["processes"].as_array().map_or(0, Vec::len)).collect();
    assert!(counts.iter().max().unwrap() > &2, "{counts:?}");
    let rss = |sample: &Value| sample["processes"][0]["rss"].as_u64();
    assert!(samples.iter().filter_map(rss).all(|rss| rss > 0));
}

#[test]
fn a_process_that_has_ended_is_not_watched_for_ever() {
    let scratch = Scratch::new();
    // Its parent does not wait for it: it stays as a zombie.
    assert!(Command::new("mkfifo").arg(scratch.path("held")).status().unwrap().success());
    let mut parent = Command::new("sh");
    parent.args(["-c", "sh -c 'read x < held' & echo $!; exec sleep 1000"]).current_dir(scratch.path(""));
    let mut parent = Mortal(parent.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(parent.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut command = scratch.command();
    command.args(["memory", "watch", line.trim(), "-o", "w", "--interval", "1h", "--quiet"]).stdout(Stdio::null());
    let mut watch = command.spawn().unwrap();
    wait_until(|| lines(&scratch.path("w")) > 1);
    std::fs::write(scratch.path("held"), "\n").unwrap();
    // An hour would be the next look.
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let samples = samples(&scratch.path("w"));
    assert_eq!((samples.len(), &samples[1]["processes"]), (2, &Value::Array(Vec::new())));
}

#[test]
fn ctrl_c_ends_all_of_the_program() {
    let scratch = Scratch::new();
    // One does what it is asked, with a last word; one does not hear it.
    let script = scratch.script(
        "program",
        "sh -c 'trap \"\" TERM; echo $$ > deaf; while :; do sleep 1000; done' &
trap 'echo bye > last; exit 7' TERM
while :; do sleep 0.01; done",
    );
    let mut command = scratch.command();
    command.args(["memory", "watch", "-o", "w", "--interval", "20ms", "--quiet", "--"]).arg(script);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_until(|| lines(&scratch.path("w")) > 5 && lines(&scratch.path("deaf")) == 1);
    signal(watch.id(), "-INT");
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_to_string(scratch.path("last")).unwrap(), "bye\n");
    let deaf = std::fs::read_to_string(scratch.path("deaf")).unwrap();
    assert!(!Path::new("/proc").join(deaf.trim()).exists(), "it is killed when it does not end by itself");
    scratch.thaw(["memory", "show", "w"]).exits(0).says("samples in w");
}

#[test]
fn what_failed_before_the_end_of_the_watch_failed() {
    let scratch = Scratch::new();
    let watch = ["memory", "watch", "-o", "w", "--force", "--end", "1h", "--quiet", "--", "sh", "-c"];
    scratch.thaw(watch.iter().chain(&["exit 3"])).exits(4);
    scratch.thaw(watch.iter().chain(&["exit 0"])).exits(0);
}

/// What is typed into a terminal is a mark of a watch in its foreground, and none of the business of one in the
/// background.
#[test]
fn a_watch_in_the_background_leaves_the_terminal_alone() {
    if !Path::new("/usr/bin/script").exists() || !Path::new("/bin/bash").exists() {
        return testing::skip("needs script and bash");
    }
    let scratch = Scratch::new();
    let thaw = env!("CARGO_BIN_EXE_thaw");
    scratch.script("marked", "echo type; until grep -q '\"mark\"' front; do sleep 0.01; done");
    let shell = scratch.write(
        "shell",
        format!(
            "set -m
{thaw} memory watch -o behind --interval 10ms --quiet -- sh -c 'until [ -e enough ]; do sleep 0.01; done' &
until [ -s behind ]; do sleep 0.01; done
echo type
sleep 0.1
lines=$(wc -l < behind)
# The line waits in the terminal meanwhile.
until [ $(wc -l < behind) -gt $((lines + 10)) ]; do sleep 0.01; done
read typed
echo \"for the shell: $typed\"
touch enough
wait
{thaw} memory watch -o front --quiet -- ./marked
"
        ),
    );
    let mut command = Command::new("/usr/bin/script");
    command.args(["-qec", &format!("bash {}", shell.display()), "/dev/null"]).current_dir(scratch.path(""));
    let mut terminal = Mortal(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut keys = terminal.0.stdin.take().unwrap();
    let mut said = String::new();
    let mut words = ["first\n", "second\n"].iter();
    for line in BufReader::new(terminal.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.trim() == "type" {
            keys.write_all(words.next().unwrap().as_bytes()).unwrap();
        }
        said.push_str(&line);
    }
    assert!(terminal.0.wait().unwrap().success(), "{said}");
    assert!(said.contains("for the shell: first"), "{said}");
    let marks = |name: &str| -> Vec<Value> {
        let samples = samples(&scratch.path(name)).into_iter();
        samples.filter_map(|sample| sample.get("mark").cloned()).collect()
    };
    assert_eq!((marks("behind"), marks("front")), (vec![], vec![Value::from("second")]));
}

//! timeline: probes of programs that know nothing of thaw.

use crate::scratch::Scratch;
use std::process::{Command, Stdio};

/// Debian's, which has probes; not every Python does.
const PYTHON: &str = "/usr/bin/python3.11";

/// A directory, if this machine has a program with probes and a kernel that notes them.
fn scene() -> Option<Scratch> {
    let scratch = Scratch::new();
    if !testing::root_or_skip() {
        return None;
    }
    let said = Command::new("readelf").args(["--notes", PYTHON]).output();
    if !said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("import__find__load__start")) {
        testing::skip("no Python with probes");
        return None;
    }
    if !std::path::Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        testing::skip("this kernel has no uprobes");
        return None;
    }
    Some(scratch)
}

const IMPORTS: [&str; 7] = ["timeline", "record", "--usdt", "python:import*", "-o", "events", "--"];

#[test]
fn what_an_unmodified_python_imports_and_how_long_that_takes() {
    let Some(scratch) = scene() else { return };
    scratch.thaw(["timeline", "probes", PYTHON]).exits(0).says("python:import__find__load__start");
    let json = scratch.thaw(["timeline", "probes", PYTHON, "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.probes/1");
    let program = "import os, sys\nif os.fork() == 0:\n    import colorsys\nelse:\n    os.wait()";
    scratch.thaw([&IMPORTS[..], &[PYTHON, "-S", "-c", program]].concat()).exits(0).says("next: thaw timeline report");
    let json = scratch.thaw(["timeline", "report", "events", "--json"]).exits(0).json();
    let files = json["files"].as_array().unwrap();
    assert_eq!(files.len(), 2, "one for each process: {json}");
    for file in files {
        let of = &file["types"][0];
        assert_eq!((&of["name"], &of["open"]), (&"python::import-find-load".into(), &0.into()), "{file}");
        assert!(of["worked_ns"].as_u64().unwrap() > 0, "{file}");
    }
    scratch.thaw([&IMPORTS[..], &[PYTHON, "-c", "1"]].concat()).exits(0);
    assert!(std::fs::read_dir(scratch.path("events")).unwrap().count() >= 3, "others' files stay");
}

#[test]
fn it_runs_as_the_user_and_its_end_is_told() {
    let Some(scratch) = scene() else { return };
    let program = "import os; print('user', os.getuid()); os._exit(7)";
    let said = scratch.thaw([&IMPORTS[..6], &["--user", "nobody", "--", PYTHON, "-S", "-c", program]].concat());
    said.exits(4).says("user 65534");
}

#[test]
fn a_killed_recorder_leaves_probes_that_doctor_removes() {
    let Some(scratch) = scene() else { return };
    let wait = "import time; print('ready', flush=True); time.sleep(100)";
    let mut thaw = scratch.command();
    thaw.args(IMPORTS).args([PYTHON, "-c", wait]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut thaw = thaw.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(thaw.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    thaw.kill().unwrap();
    thaw.wait().unwrap();
    scratch.thaw(["doctor"]).says("remove the uprobes thaw_");
    scratch.thaw(["doctor", "--mend"]);
    scratch.thaw(["doctor"]).says_not("remove the uprobes");
}

#[test]
fn what_cannot_be_listened_to_is_said() {
    let Some(scratch) = scene() else { return };
    let record = |usdt: &str, rest: &[&str]| scratch.thaw([&["timeline", "record", "--usdt", usdt][..], rest].concat());
    record("python", &["--", PYTHON]).exits(2).complains("names no probes").hints("python:import*");
    record("python:no_such", &["--", PYTHON]).exits(2).complains(PYTHON).hints("thaw timeline probes");
    record("python:gc*", &["--", "/nonexistent"]).exits(2).complains("/nonexistent");
    scratch.write("text", "dear diary");
    record("python:gc*", &["--file", "text", "--", PYTHON]).exits(2).complains("not an ELF file");
    scratch.thaw(["timeline", "probes", "text"]).exits(2).complains("not an ELF file");
    let typed = ["timeline", "record", "--usdt", "python:gc*", "-o", "own", "--", PYTHON, "-c", "1"];
    let Some(said) = scratch.thaw_as_nobody(typed) else { return };
    said.exits(3).hints("root");
}

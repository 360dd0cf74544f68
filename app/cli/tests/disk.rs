//! record --disk NAME: starts from a simulated disk, and nothing of it afterwards, whatever happens.

use crate::machine::{interrupt, runs, until};
use crate::scratch::{Mortal, Scratch, alone};
use std::path::Path;

/// What a simulated disk needs.
fn can_simulate() -> bool {
    if !testing::root_or_skip() {
        return false;
    }
    for needed in ["/dev/fuse", "/dev/loop-control", "/usr/sbin/mkfs.ext4"] {
        if !Path::new(needed).exists() {
            testing::skip(&format!("no {needed}"));
            return false;
        }
    }
    true
}

/// A program with a library of 3 MiB beside it, in a directory of their own.
fn program(scratch: &Scratch, body: &str) -> String {
    let noise: Vec<u8> = (0..3_u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    scratch.write("app/library", noise);
    scratch.script("app/program", body).to_str().unwrap().to_owned()
}

/// Processes that serve a disk for this thaw.
fn servers(thaw: u32) -> Vec<String> {
    let serves = |pid: &u32| os::process::stat(*pid).is_some_and(|it| it.comm == "thaw-disk" && it.parent == thaw);
    os::process::all().iter().filter(|pid| serves(pid)).map(u32::to_string).collect()
}

#[test]
fn every_start_finds_the_same_disk_and_takes_as_long_as_that_disk_would() {
    let _machine = alone();
    if !can_simulate() {
        return;
    }
    let scratch = Scratch::new();
    // Cold starts find what was there at first: what an earlier one wrote would fail them.
    let body = "cat app/library > /dev/null; [ ! -e app/written ] || exit 3; echo x > app/written; sync app/written";
    let program = program(&scratch, body);
    let words =
        ["record", "-o", "x.thaw", "--disk", "laptop2010", "--state", "cold", "--runs", "3", "--trace-runs", "1"];
    let said = scratch.thaw(words.iter().copied().chain(["--", &program])).exits(0);
    let told = said.out().replace('\n', " ");
    assert!(
        told.starts_with("On a simulated laptop2010 (laptop disk of 2010: 2.5 inch, 5400 rpm, 30 MB/s) program"),
        "{told}"
    );
    assert!(told.contains("disk simulated, read-ahead 128 KiB"), "{told}");
    assert_eq!(scratch.names("app"), ["library", "program"], "the original was not touched");
    scratch.nothing_left();

    let json = scratch.thaw(["report", "x.thaw", "--json"]).exits(0).json();
    assert_eq!(json["asked"]["disk"], "laptop2010");
    let facts = &json["facts"]["disk:simulated"];
    assert_eq!((&facts["model rate_mb_s"], &facts["answers"]), (&"30.0".into(), &"as the model says".into()));
    assert!(facts["source rate_mb_s"].as_str().unwrap().contains("FOSDEM"), "{facts}");
    assert!(facts["late_requests"].is_string(), "{facts}");
    let cold = &json["statistics"]["cells"][0];
    assert_eq!((&cold["state"], &cold["runs"]), (&"cold".into(), &3.into()));
    for sample in cold["samples"].as_array().unwrap() {
        assert!(
            sample["wall_s"].as_f64().unwrap_or(1.0) > 3.0 * 1.048576 / 30.0,
            "no faster than the medium: {sample}"
        );
    }
    let trace = &json["traces"][0];
    let library = scratch.path("app/library").display().to_string();
    let files = trace["report"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == library.as_str()).unwrap_or_else(|| panic!("{files:?}"));
    assert_eq!((&file["owner"], &file["filled"]), (&"app".into(), &(3 << 20).into()), "by its original name");
    assert!(file["requests"].as_u64().unwrap() >= 12, "twice 128 KiB of read-ahead, as cat asks for: {file}");
    assert!(files.iter().all(|file| !file["path"].as_str().unwrap().contains("/state/disk/")), "{files:?}");
    assert_eq!(trace["disks"]["device"].to_string(), facts["used_dev"].as_str().unwrap(), "offsets are the disk's");
}

#[test]
fn all_four_states_are_reached_on_it() {
    let _machine = alone();
    if !can_simulate() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("profile/count", "1");
    // A hot start, too, finds the profile as it was at first.
    let body = "cat app/library > /dev/null; [ $(cat profile/count) = 1 ] || exit 3; echo 2 > profile/count";
    let program = program(&scratch, body);
    let mut words = vec!["record", "-o", "x.thaw", "--disk", "quick:desktop2010", "--state", "cold,boot,app,hot"];
    words.extend(["--runs", "2", "--trace-runs", "1", "--restore", "profile", "--", &program]);
    let said = scratch.thaw(words).exits(0);
    assert!(
        said.out().replace('\n', " ").contains("30 MB/s") || said.out().contains("that answers at once"),
        "{}",
        said.framed()
    );
    let json = scratch.thaw(["report", "x.thaw", "--json"]).exits(0).json();
    let cells = json["statistics"]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "{cells:?}");
    assert!(cells.iter().all(|cell| cell["runs"] == 2), "{cells:?}");
    let read = |state: &str| cells.iter().find(|cell| cell["state"] == state).unwrap()["read_bytes"].as_f64().unwrap();
    assert!(read("cold") >= 3e6 && read("app") >= 3e6 && read("hot") < 1e6, "{cells:?}");
    assert_eq!(std::fs::read_to_string(scratch.path("profile/count")).unwrap(), "1");
    scratch.nothing_left();
}

/// thaw with a program that is just now running on a simulated disk.
fn in_the_middle(scratch: &Scratch) -> (Mortal, String, String) {
    let program =
        program(scratch, "cat app/library > /dev/null; echo $$ > started.new; mv started.new started; sleep 600; :");
    let mut command = scratch.command();
    command.args([
        "record",
        "-o",
        "x.thaw",
        "--disk",
        "laptop2010",
        "--state",
        "cold",
        "--timeout",
        "500s",
        "--quiet",
        "--",
        &program,
    ]);
    let thaw = until(scratch, command, "started");
    let servers = servers(thaw.0.id());
    assert_eq!(servers.len(), 1, "{servers:?}");
    let started = std::fs::read_to_string(scratch.path("started")).unwrap();
    (thaw, servers[0].clone(), started)
}

#[test]
fn ctrl_c_and_sigterm_take_the_disk_away() {
    let _machine = alone();
    if !can_simulate() {
        return;
    }
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let scratch = Scratch::new();
        let (mut thaw, server, program) = in_the_middle(&scratch);
        match signal {
            rustix::process::Signal::INT => interrupt(&thaw.0),
            other => rustix::process::kill_process(rustix::process::Pid::from_child(&thaw.0), other).unwrap(),
        }
        assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
        assert!(!runs(&server) && !runs(&program), "nobody is left");
        scratch.nothing_left();
        scratch.thaw(["doctor"]).exits(0);
    }
}

#[test]
fn doctor_ends_a_disk_whose_thaw_was_killed() {
    let _machine = alone();
    if !can_simulate() {
        return;
    }
    let scratch = Scratch::new();
    let (mut thaw, server, program) = in_the_middle(&scratch);
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", program.trim())).unwrap();
    let covered = scratch.path("app").display().to_string();
    let mount = mounts.lines().find(|line| line.split(' ').nth(4) == Some(&covered)).unwrap();
    let device = mount.split_whitespace().find(|word| word.starts_with("/dev/loop")).unwrap();
    let device = Path::new("/sys/block").join(device.trim_start_matches("/dev/"));
    // Which use of the device it is; another program may take it as soon as it is free.
    let attached = || (device.join("loop/backing_file").exists(), std::fs::read_to_string(device.join("diskseq")).ok());
    let ours = attached();
    thaw.0.kill().unwrap();
    thaw.0.wait().unwrap();
    // The kernel kills the program with thaw, but not what that started.
    assert!(runs(&server), "sleep keeps the disk busy");
    scratch.thaw(["doctor"]).exits(1).says("end the simulated disk").says("remove the control group");
    scratch.thaw(["doctor", "--mend"]).exits(0);
    assert!(!runs(&program) && !runs(&server));
    assert!(ours.0);
    // The kernel unmounts and detaches when the last user is gone, in its own time.
    while attached() == ours {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&covered));
    assert_eq!(scratch.names("app"), ["library", "program"]);
    scratch.nothing_left();
}

#[test]
fn what_makes_no_sense_on_a_disk_is_said_before_anything_runs() {
    let scratch = Scratch::new();
    let program = program(&scratch, ":");
    let words = |options: &[&str]| {
        let mut words = vec!["record".to_owned(), "--disk".into(), "laptop2010".into(), "--state".into(), "hot".into()];
        words.extend(options.iter().map(|word| (*word).to_owned()));
        words.extend(["--".into(), program.clone()]);
        words
    };
    let here = scratch.path("app/x.thaw").display().to_string();
    scratch
        .thaw(words(&["-o", &here]))
        .exits(2)
        .complains("the recording would lie on the simulated disk")
        .hints("-o FILE");
    scratch.thaw(words(&["--disk-include", "/"])).exits(if rustix::process::geteuid().is_root() { 2 } else { 3 });
    let Some(said) = scratch.thaw_as_nobody(words(&["-o", "run/x.thaw"])) else { return };
    said.exits(3).complains("needs root").hints("thaw io model");
    scratch.nothing_left();
}

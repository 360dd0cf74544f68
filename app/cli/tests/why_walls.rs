//! `thaw why` where something is missing: rights, a recording that was made for it, time to its end.

use crate::machine::{interrupt, runs, until};
use crate::scratch::{Scratch, alone};
use crate::why::{planted, scene};
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_user_is_told_what_is_missing_and_who_needs_the_cpu() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let words = ["why", "--json", "--runs", "1", "--trace-runs", "1", "--ready", "line:^ready", "--"];
    let said = scratch.thaw_as_nobody([&words[..], &[program.to_str().unwrap(), "cpu", "sleep"]].concat());
    let Some(said) = said else { return };
    let said = said.exits(0);
    let document = said.json();
    let starts = document["starts"].as_array().unwrap();
    let report = &starts.iter().find(|start| start["state"] == "hot").unwrap()["report"];
    let cannot = report["cannot"].to_string();
    assert!(cannot.contains("when threads ran and waited"), "{}", said.framed());
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("not known"), "{warnings}");
    // 90 ms of CPU in a function, by ticks of a clock alone; the sleep is nobody's that is known.
    let owners = report["owners"].as_array().unwrap();
    let time = |is: &dyn Fn(&serde_json::Value) -> bool| -> f64 {
        owners.iter().filter(|owner| is(owner)).map(|owner| owner["ns"].as_f64().unwrap() / 1e6).sum()
    };
    let spun = time(&|owner| owner["what"]["function"] == "planted_spin");
    let unexplained = time(&|owner| owner["what"]["does"] == "unexplained");
    println!("spun {spun} ms, not explained {unexplained} ms");
    // A virtual machine that is stopped for several ticks sees one.
    assert!(spun > 10.0, "{}", said.framed());
    assert!(time(&|owner| owner["what"]["kind"] == "sleep") == 0.0 && unexplained > 70.0, "{}", said.framed());
    let text = scratch.thaw_as_nobody(["why", "--from", "thaw.thaw"]).unwrap().exits(0);
    assert!(text.out().contains("planted_spin") && text.out().contains("not explained"), "{}", text.framed());
    scratch.nothing_left();
}

#[test]
fn a_program_with_other_rights_is_roots_alone_to_see() {
    let Some(scratch) = scene() else { return };
    let newgrp = "/usr/bin/newgrp";
    if !Path::new(newgrp).exists() {
        return testing::skip("needs newgrp, which is set-user-ID");
    }
    let words = ["why", "--force", "--state", "hot", "--runs", "1", "--trace-runs", "1", "--ok-exit", "0,1", "--"];
    let words = [&words[..], &[newgrp, "--help"]].concat();
    let Some(said) = scratch.thaw_as_nobody(&words) else { return };
    let said = said.exits(0);
    let out = said.out().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains("it runs with other rights than its caller's, which root alone may see"), "{out}");
    assert!(out.contains("not known: it runs with other rights than its caller's (setuid"), "its loader: {out}");
    let said = scratch.thaw(&words).exits(0);
    assert!(!said.out().contains("other rights"), "root sees it: {}", said.framed());
    scratch.nothing_left();
}

/// What a program needs to run below this directory, as `/inside`.
fn furnish(root: &Path, program: &Path) {
    let copy = |path: &Path, name: &Path| {
        let to = root.join(name.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(path, to).unwrap();
    };
    copy(program, Path::new("/inside"));
    let needs = std::process::Command::new("ldd").arg(program).output().unwrap();
    let needs = String::from_utf8(needs.stdout).unwrap();
    needs.split_whitespace().filter(|word| word.starts_with('/')).for_each(|path| copy(path.as_ref(), path.as_ref()));
}

#[test]
fn what_lies_in_another_root_directory_has_its_names() {
    let Some(scratch) = scene() else { return };
    let Some(program) = planted(&scratch) else { return };
    let root = scratch.path("root");
    furnish(&root, &program);
    let words = ["why", "--json", "--no-loader", "--force", "--state", "hot", "--runs", "1", "--trace-runs", "1", "--"];
    std::fs::create_dir(root.join("proc")).unwrap();
    let enter = |mount: &str| {
        let root = root.display();
        format!("{mount} mount -t proc thaw {root}/proc && exec chroot {root} /inside cpu")
    };
    // A file system that is mounted there alone goes with the last process that sees it.
    let kept = scratch.path("root.kept");
    assert!(std::process::Command::new("cp").arg("-a").args([&root, &kept]).status().unwrap().success());
    let hidden = format!("mount -t tmpfs thaw {0} && cp -a {1}/. {0} &&", root.display(), kept.display());
    for script in [enter(""), enter(&hidden)] {
        let said = scratch.thaw([&words[..], &["unshare", "--mount", "sh", "-c", &script]].concat()).exits(0);
        let document = said.json();
        let owners = document["starts"][0]["report"]["owners"].as_array().unwrap();
        let spun = owners.iter().filter(|owner| owner["what"]["function"] == "planted_spin");
        let spun: f64 = spun.map(|owner| owner["ns"].as_f64().unwrap() / 1e6).sum();
        assert!(spun > 40.0, "{}", said.framed());
        assert!(!document["warnings"].to_string().contains("/inside"), "{}", document["warnings"]);
    }
    scratch.nothing_left();
}

#[test]
fn what_is_gone_from_another_root_directory_is_said() {
    let Some(scratch) = scene() else { return };
    let root = scratch.path("root");
    furnish(&root, &Path::new("/bin/sleep").canonicalize().unwrap());
    let enter =
        format!("cp {0}/inside {0}/gone; chroot {0} /gone 0.08 & sleep 0.04; rm {0}/gone; wait", root.display());
    let words = ["why", "--json", "--no-loader", "--state", "hot", "--runs", "1", "--trace-runs", "1", "--"];
    let said = scratch.thaw([&words[..], &["sh", "-c", &enter]].concat()).exits(0);
    let document = said.json();
    // Its time is owned all the same: waits are the kernel's to tell.
    let report = &document["starts"][0]["report"];
    let owners = report["owners"].as_array().unwrap();
    let slept = owners.iter().filter(|owner| owner["what"]["kind"] == "sleep");
    let slept: f64 = slept.map(|owner| owner["ns"].as_f64().unwrap() / 1e6).sum();
    assert!(slept > 70.0, "{}", said.framed());
    assert!(document["warnings"].to_string().contains("/gone is not looked into"), "{}", document["warnings"]);
    scratch.nothing_left();
}

#[test]
fn what_is_no_recording_of_it_is_refused() {
    let scratch = Scratch::new();
    scratch.thaw(["why", "--from", "none.thaw"]).exits(2).complains("none.thaw");
    scratch.write("text", "dear diary");
    scratch.thaw(["why", "--from", "text"]).exits(5).complains("text");
    let program = scratch.script("program", ":");
    let program = program.to_str().unwrap();
    let plain = ["record", "--state", "hot", "--runs", "1", "--needed", "no", "-o", "plain.thaw", "--", program];
    scratch.thaw(plain).exits(0);
    scratch.thaw(["why", "--from", "plain.thaw"]).exits(5).complains("plain.thaw").hints("thaw record --why");
    scratch.thaw(["why", "--from", "plain.thaw", "--", program]).exits(2).complains("--from");
    for most in ["0", "1001", "-1", "x"] {
        scratch.thaw(["why", &format!("--most={most}"), "--from", "plain.thaw"]).exits(2).complains("--most");
    }
    for verb in ["why", "record"] {
        scratch.thaw([verb]).exits(2).hints(&format!("thaw {verb} -- PROGRAM ARGS, or thaw {verb} --app NAME"));
    }
    scratch.nothing_left();
}

#[test]
fn a_program_that_is_not_there_or_fails_is_told() {
    let scratch = Scratch::new();
    scratch.thaw(["why", "--", "/nonexistent/program"]).exits(2).complains("/nonexistent/program");
    let fails = scratch.script("fails", "exit 7");
    scratch.thaw(["why", "--runs", "1", "--trace-runs", "1", "--", fails.to_str().unwrap()]).exits(4).complains("7");
    scratch.nothing_left();
}

#[test]
fn ctrl_c_in_a_traced_start_leaves_nothing() {
    let Some(scratch) = scene() else { return };
    let _machine = alone();
    // The first start is the one that is not measured, the second one is traced.
    let body = "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count
        [ $n -lt 1 ] || { echo $$ > started; mv started long; sleep 600; }; echo ready";
    let program = scratch.script("program", body);
    let mut command = scratch.command();
    command.args(["why", "--quiet", "-o", "half.thaw", "--runs", "1", "--trace-runs", "3"]);
    command.args(["--ready", "line:^ready", "--"]).arg(program).stdout(Stdio::null());
    let mut thaw = until(&scratch, command, "long");
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    let pid = std::fs::read_to_string(scratch.path("long")).unwrap();
    assert!(!runs(&pid), "no child is left");
    // A trace buffer that is left is in the journal.
    scratch.nothing_left();
    scratch.thaw(["doctor"]).exits(0);
}

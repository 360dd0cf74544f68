//! Whose the files of a recorded start are, and by which rule: on programs of this machine's packages.

use crate::scratch::{Scratch, alone};
use serde_json::Value;
use std::path::Path;

/// Path, owner, rule and what the rule found, of the first trace.
const OWNERS: &str = "select path, owner, rule, what from owners join files using (run, file) \
                      where run = (select min(run) from traces) order by path";

/// The traced start of these words, which is cold, and its files with their owners.
fn recorded(scratch: &Scratch, options: &[&str], command: &[&str]) -> Vec<[String; 4]> {
    let mut words = vec!["record", "-o", "own.thaw", "--force", "--state", "hot", "--runs", "1", "--trace-runs", "1"];
    words.extend(["--needed", "no"].iter().chain(options).chain(&["--"]).chain(command));
    scratch.thaw(words).exits(0);
    let json = scratch.thaw(["query", "own.thaw", OWNERS, "--json"]).exits(0).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = json["rows"].as_array().unwrap();
    rows.iter().map(|row| [0, 1, 2, 3].map(|column| text(&row[column]))).collect()
}

#[test]
fn packages_tell_whose_a_file_is() {
    let python = Path::new("/usr/bin/python3").canonicalize().unwrap_or_default();
    if !testing::root_or_skip() {
        return;
    }
    if os::packages::Packages::load().is_none_or(|packages| packages.manager != "dpkg") || !python.exists() {
        return testing::skip("needs dpkg and its python3");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let rows = recorded(&scratch, &[], &["/usr/bin/python3", "-c", "import json, email.message"]);
    let of = |end: &str| rows.iter().find(|row| row[0].contains(end)).unwrap_or_else(|| panic!("no {end}: {rows:#?}"));
    assert_eq!(of(python.to_str().unwrap())[1..3], ["app", "program"]);
    // The standard library is in packages of their own, built from the same source; what it was compiled to is in no
    // list.
    let module = of("/json/");
    assert_eq!((module[1].as_str(), module[2].as_str()), ("app", "package"), "{module:?}");
    assert!(module[3].contains("python3"), "{module:?}");
    let libc = of("libc.so");
    assert_eq!(libc[1..], ["system", "package", "libc6"]);
    let metadata = rows.iter().find(|row| row[2] == "metadata");
    assert!(metadata.is_some_and(|row| row[1] == "system"), "{rows:#?}");
    let text = scratch.thaw(["report", "own.thaw"]).exits(0).says("its own by: ").out();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("built from python3"), "{text}");
    let json = scratch.thaw(["report", "own.thaw", "--json"]).exits(0).json();
    let own = &json["traces"][0]["report"]["by_owner"][0];
    assert!(own["rules"].as_array().unwrap().iter().any(|rule| rule["by"]["rule"] == "package"), "{own:#}");
}

#[test]
fn what_is_named_on_the_command_line_is_its_own() {
    if !testing::root_or_skip() {
        return;
    }
    let (release, message) = ("/usr/lib/os-release", "/usr/share/base-files/motd");
    if ![release, message].iter().all(|path| Path::new(path).exists()) {
        return testing::skip("needs Debian's base-files");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let command = format!("cat {release} {message}");
    let shell = ["/bin/sh", "-c", &command];
    let owner = |rows: &[[String; 4]], path: &str| rows.iter().find(|row| row[0] == path).cloned().unwrap_or_default();
    let without = recorded(&scratch, &[], &shell);
    assert_eq!(owner(&without, release)[1..3], ["system", "package"], "{without:#?}");
    let with = recorded(&scratch, &["--own", release, "--own", "/usr/share/base-files"], &shell);
    assert_eq!(owner(&with, release)[1..3], ["app", "option"], "{with:#?}");
    assert_eq!(owner(&with, message)[1..], ["app", "option", "/usr/share/base-files"], "{with:#?}");
    let argument = recorded(&scratch, &[], &["/bin/cat", message]);
    assert_eq!(owner(&argument, message)[1..3], ["app", "argument"], "{argument:#?}");
}

#[test]
fn an_ordinary_user_learns_which_files_any_program_opens_however_shortly() {
    let _alone = alone();
    let scratch = Scratch::new();
    let data: Vec<_> = (0..40).map(|number| scratch.write(&format!("elsewhere/{number}"), [b'\n'; 9000])).collect();
    let program = scratch.script("app/start", "for file in ../elsewhere/*; do read line < $file; done; exit 0");
    let text = std::fs::read_to_string(&program)
        .unwrap()
        .replace("../elsewhere", &scratch.path("elsewhere").display().to_string());
    std::fs::write(&program, text).unwrap();
    for path in data.iter().chain([&scratch.path("elsewhere"), &scratch.path("app"), &program]) {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    // Dirty pages cannot be thrown out.
    rustix::fs::sync();
    let path = program.to_str().unwrap();
    let words = ["record", "-o", "run/own.thaw", "--state", "app,hot", "--runs", "2", "--", path];
    let Some(said) = scratch.thaw_as_nobody(words) else { return };
    said.exits(0);
    let known = "select count(distinct path) from files join fills using (run, file) join owners using (run, file) \
                 where path like '%/elsewhere/%' and files.owner = 'app' and rule = 'temporary'";
    let json = scratch.thaw(["query", "run/own.thaw", known, "--json"]).exits(0).json();
    assert_eq!(json["rows"][0][0], 40, "each is open for a moment only: {json}");
}

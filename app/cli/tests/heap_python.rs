//! The functions of Python programs in the stacks of heap recordings.

use crate::heap::guest;
use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::process::Command;

/// The Pythons of this machine, one of each minor version: the system's, and those that pyenv built.
fn pythons() -> Vec<(PathBuf, u32)> {
    let versions = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv/versions"));
    let built = versions.and_then(|versions| std::fs::read_dir(versions).ok()).into_iter().flatten().flatten();
    let mut programs: Vec<PathBuf> = built.map(|version| version.path().join("bin/python3")).collect();
    programs.sort();
    programs.insert(0, "/usr/bin/python3".into());
    let version = |program: &PathBuf| {
        let says = Command::new(program).args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
        String::from_utf8(says.stdout).ok()?.trim().parse().ok()
    };
    let mut pythons: Vec<_> =
        programs.into_iter().filter_map(|program| version(&program).map(|version| (program, version))).collect();
    pythons.sort_by_key(|(_, minor)| *minor);
    pythons.dedup_by_key(|(_, minor)| *minor);
    pythons
}

type Chain = Vec<(String, String, u64)>;

/// What a script says of itself is what its recording says: functions, files and lines, from the innermost to the
/// outermost one, through generators, callbacks of C, exceptions, destructors, threads without the lock.
#[test]
fn a_python_program_is_told_by_its_functions() {
    if !guest() {
        return;
    }
    let pythons = pythons();
    if !pythons.iter().any(|(_, minor)| (11..=13).contains(minor)) {
        return testing::skip("needs Python 3.11 to 3.13");
    }
    let scratch = Scratch::new();
    let script = root().join("fixtures/heap/chains.py");
    let (script, file) = (script.to_str().unwrap(), scratch.path("expected.json"));
    let file = file.to_str().unwrap();
    for (number, (python, minor)) in pythons.into_iter().filter(|(_, minor)| *minor > 10).enumerate() {
        let alone = Command::new(&python).args([script, "1", file]).output().unwrap();
        let run = |more: &[&str]| {
            let words = ["heap", "run", "--force", "--depth", "127", "-o", "py.heap"];
            let program = ["--", python.to_str().unwrap(), script, "1", file];
            let said = scratch.thaw(words.iter().chain(more).chain(&program)).exits(0);
            said.says(String::from_utf8_lossy(&alone.stdout).trim())
        };
        if minor > 13 {
            run(&[]).says("Python functions are not in stacks");
            continue;
        }
        // One of them in all ways: what happens behind the guest is the same.
        let ways: &[&[&str]] = if number == 0 { &[&[], &["--aggregate"]] } else { &[&[]] };
        for more in ways {
            run(more);
            let expected: BTreeMap<String, u64> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            let expected: BTreeMap<Chain, u64> =
                expected.iter().map(|(chain, bytes)| (serde_json::from_str(chain).unwrap(), *bytes)).collect();
            let files: HashSet<&str> = expected.keys().flatten().map(|(_, file, _)| file.as_str()).collect();
            let words = ["heap", "report", "py.heap", "--json", "--top", "1000000", "--frames", "255"];
            let report = scratch.thaw(words).exits(0).json();
            let mut found: BTreeMap<Chain, u64> = BTreeMap::new();
            for row in report["rows"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let frames = row["frames"].as_array().unwrap().iter();
                let frames = frames.filter(|frame| files.contains(text(&frame["file"]).as_str()));
                let line = |frame: &Value| frame["line"].as_u64().unwrap();
                let chain: Chain =
                    frames.map(|frame| (text(&frame["function"]), text(&frame["file"]), line(frame))).collect();
                if chain.first().is_some_and(|(function, ..)| function == "leaf") {
                    *found.entry(chain).or_default() += row["figures"]["made"]["bytes"].as_u64().unwrap();
                }
            }
            let differ = |(chain, bytes): &(&Chain, &u64)| found.get(*chain) != Some(*bytes);
            let missing: Vec<_> = expected.iter().filter(differ).take(3).collect();
            assert!(missing.is_empty(), "{python:?} {more:?}: {missing:#?}");
            let unexpected: Vec<_> = found.keys().filter(|chain| !expected.contains_key(*chain)).take(3).collect();
            assert!(unexpected.is_empty(), "{python:?} {more:?}: {unexpected:#?}");
        }
        if number > 0 {
            continue;
        }
        run(&["--native-stacks"]);
        let report = scratch.thaw(["heap", "report", "py.heap", "--json", "--function", "leaf"]).exits(0).json();
        assert!(report["rows"].as_array().unwrap().is_empty(), "{report:#}");
    }
}

/// What is made for `perf` is not told twice; a Python that is too old is said to be.
#[test]
fn a_python_that_is_not_understood_is_named() {
    if !guest() {
        return;
    }
    let pythons = pythons();
    let scratch = Scratch::new();
    let run = |python: &PathBuf, options: &[&str]| {
        let script = "def outer():\n    return bytearray(50021)\nkept = outer()";
        let words = ["heap", "run", "--force", "-o", "py.heap", "--", python.to_str().unwrap()];
        scratch.thaw(words.iter().chain(options).chain(&["-c", script])).exits(0)
    };
    match pythons.iter().find(|(_, minor)| (6..11).contains(minor)) {
        Some((python, _)) => {
            run(python, &[]).says("Python functions are not in stacks");
            let report = scratch.thaw(["heap", "report", "py.heap", "--json"]).exits(0).json();
            assert!(report["warnings"].to_string().contains("a Python older than 3.11"), "{}", report["warnings"]);
        }
        None => testing::skip("needs a Python older than 3.11"),
    }
    let Some((python, _)) = pythons.iter().find(|(_, minor)| (12..14).contains(minor)) else {
        return testing::skip("needs Python 3.12 or 3.13");
    };
    run(python, &["-X", "perf"]);
    let words = ["heap", "report", "py.heap", "--json", "--frames", "100", "--function", "outer"];
    let report = scratch.thaw(words).exits(0).json();
    let frames = report["rows"][0]["frames"].as_array().unwrap();
    assert_eq!(frames.iter().filter(|frame| frame["function"] == "outer").count(), 1, "{frames:#?}");
    assert!(frames.iter().all(|frame| frame["function"] != "_PyEval_EvalFrameDefault"), "{frames:#?}");
}

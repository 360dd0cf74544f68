//! The shell parts of the recipes in docs/gates.md and of docs/tutorial.md, run as plain shell.

use crate::history::git;
use crate::scratch::{Scratch, alone, root};
use std::process::{Command, Output};

/// The lines of each block that begins with `mark` in the recipe under this heading.
fn blocks(heading: &str, mark: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/gates.md")).unwrap();
    let section = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let yaml = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let mut found = Vec::new();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        let depth = |line: &str| line.len() - line.trim_start().len();
        if line.trim() != mark {
            continue;
        }
        let mut block = String::new();
        while let Some(inner) = lines.next_if(|inner| depth(inner) > depth(line)) {
            block.push_str(inner.trim_start());
            block.push('\n');
        }
        found.push(block);
    }
    found
}

fn shell(scratch: &Scratch, script: &str, variables: &[(&str, &str)]) -> Output {
    let _machine = alone();
    let thaw = std::path::Path::new(env!("CARGO_BIN_EXE_thaw")).parent().unwrap();
    let path = format!("{}:{}", thaw.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(scratch.path("repo")).env("PATH", path);
    command.env("THAW_STATE_DIR", scratch.path("state")).env("THAW_RUN_DIR", scratch.path("run"));
    command.env("GITHUB_STEP_SUMMARY", scratch.path("summary.md")).envs(variables.iter().copied());
    command.output().unwrap()
}

/// A small program in a repository; the first commit, and one that does `turns` turns of a loop.
fn repository(scratch: &Scratch, turns: u32) -> String {
    std::fs::create_dir(scratch.path("repo")).unwrap();
    git(scratch, "repo", &["init", "--quiet", "-b", "main"]);
    let build = "{ echo '#!/bin/sh'; cat app.in; } > app\nchmod +x app\n";
    scratch.write("repo/build.sh", build);
    let commit = |turns: u32| {
        scratch.write("repo/app.in", format!("i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done\n"));
        git(scratch, "repo", &["add", "build.sh", "app.in"]);
        git(scratch, "repo", &["commit", "--quiet", "-m", &format!("{turns} turns")]);
        git(scratch, "repo", &["rev-parse", "HEAD"])
    };
    let base = commit(20_000);
    commit(turns);
    base
}

#[test]
fn the_recipe_for_github_lets_good_changes_in_and_bad_ones_not() {
    for (turns, code, word) in [(20_001, 0, "passed"), (200_000, 1, "NOT passed")] {
        let scratch = Scratch::new();
        let base = repository(&scratch, turns);
        let steps = blocks("## GitHub", "run: |");
        assert_eq!(steps.len(), 3);
        let mut last = None;
        for step in &steps {
            last = Some(shell(&scratch, step, &[("BASE_SHA", &base)]));
        }
        let last = last.unwrap();
        let said = String::from_utf8_lossy(&last.stderr).into_owned();
        assert_eq!(last.status.code(), Some(code), "{said}");
        let summary = std::fs::read_to_string(scratch.path("summary.md")).unwrap();
        assert!(summary.contains(&format!("### Start-up: {word}")), "{summary}");
        assert!(std::fs::read_to_string(scratch.path("repo/gate.xml")).unwrap().contains("<testsuites"));
        assert_eq!(said.contains("::error "), code == 1, "{said}");
    }
}

#[test]
fn the_recipe_for_gitlab_keeps_a_history_of_its_main_branch() {
    let scratch = Scratch::new();
    repository(&scratch, 20_001);
    let script = blocks("## GitLab", "- |").concat();
    let run = |branch: &str| shell(&scratch, &script, &[("CI_COMMIT_BRANCH", branch), ("CI_DEFAULT_BRANCH", "main")]);
    let well = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(well(run("main")).contains("added"), "the first run has nothing to be judged against");
    assert!(well(run("main")).contains("The gate is passed"));
    // A branch is judged, and not kept.
    scratch.write("repo/app.in", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done\n");
    git(&scratch, "repo", &["commit", "--quiet", "-am", "slow"]);
    let slow = run("topic");
    assert_eq!(slow.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&slow.stdout).contains("FAIL"));
    let rows = scratch.thaw(["history", "list", "--history", "repo/perf.thawdb", "--json"]).exits(0).json();
    assert_eq!(rows["recordings"].as_array().unwrap().len(), 2);
}

/// Blocks of commands, each with what its output must hold: the words behind `text` of the block that follows.
fn steps(document: &str) -> Vec<(String, Option<String>)> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let (kind, lines) = block.split_once('\n').unwrap();
        match kind.split_once(' ').unwrap_or((kind, "")) {
            ("sh", _) => found.push((lines.to_owned(), None)),
            ("text", words) => found.last_mut().unwrap().1 = Some(words.to_owned()),
            _ => panic!("neither commands nor what they print: {kind}"),
        }
    }
    found
}

#[test]
fn the_tutorial_ends_with_a_proven_gain() {
    if !testing::root_or_skip() {
        return;
    }
    if !std::path::Path::new("/usr/bin/gdb").exists() {
        return testing::skip("needs gdb");
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("repo")).unwrap();
    let steps = steps("docs/tutorial.md");
    let (prepares, asks): (Vec<_>, Vec<_>) = steps.iter().partition(|(commands, _)| commands.contains("sudo"));
    assert_eq!((prepares.len(), asks.len()), (1, 8), "{steps:?}");
    for (commands, expected) in asks {
        let output = shell(&scratch, commands, &[]);
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(output.status.code(), Some(0), "{commands}{out}{err}");
        assert!(expected.as_ref().is_none_or(|words| out.contains(words)), "{expected:?} in what this prints:\n{out}");
    }
}

//! `thaw bisect` in repositories that are made here, with a cost planted in CPU time that no noise hides.

use crate::history::git;
use crate::scratch::{Mortal, Scratch};
use std::path::Path;

/// A program that is *built*: `make.sh` writes it. Work is counted in turns of a loop of the shell.
const MAKE: &str = "test ! -e broken || { echo 'cannot compile'; exit 2; }
{ echo '#!/bin/sh'; echo 'i=0'; echo \"while [ \\$i -lt $(cat turns) ]; do i=\\$((i+1)); done\"; } > app.new
chmod +x app.new && mv app.new app
";

/// 64 commits: from `slow` on the program does six times the work; `broken` ones do not build.
fn repository(scratch: &Scratch, slow: usize, broken: &[usize]) -> Vec<String> {
    std::fs::create_dir(scratch.path("repo")).unwrap();
    git(scratch, "repo", &["init", "--quiet"]);
    scratch.write("repo/make.sh", MAKE);
    (0..64)
        .map(|number| {
            scratch.write("repo/turns", if number < slow { "20000" } else { "120000" });
            scratch.write("repo/log", number.to_string());
            let mark = scratch.path("repo/broken");
            match broken.contains(&number) {
                true => drop(scratch.write("repo/broken", "")),
                false => drop(std::fs::remove_file(mark)),
            }
            git(scratch, "repo", &["add", "--all"]);
            git(scratch, "repo", &["commit", "--quiet", "-m", &format!("change {number}")]);
            git(scratch, "repo", &["rev-parse", "HEAD"])
        })
        .collect()
}

fn bisect(good: &str) -> Vec<String> {
    let words = ["bisect", "--quiet", "--repo", "repo", "--good", good, "--build", "sh make.sh", "--metric", "cpu"];
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Nothing of a bisection is left: no worktree, no mark, the tree as it was.
fn untouched(scratch: &Scratch, head: &str, status: &str) {
    assert_eq!(git(scratch, "repo", &["rev-parse", "HEAD"]), head);
    assert_eq!(git(scratch, "repo", &["status", "--porcelain"]), status);
    assert_eq!(git(scratch, "repo", &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(scratch, "repo", &["for-each-ref", "refs/bisect"]), "");
    assert!(!Path::new(&scratch.path("repo/.git/worktrees")).exists());
    assert_eq!(scratch.names("tmp"), Vec::<String>::new());
    scratch.nothing_left();
}

fn thaw(scratch: &Scratch, words: &[String], program: &[&str]) -> crate::scratch::Said {
    let mut command = scratch.command();
    command.args(words).arg("--").args(program).env("TMPDIR", scratch.path("tmp"));
    crate::scratch::Said::of(command)
}

#[test]
fn a_planted_regression_is_found_among_64_commits() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    // 31 is what git proposes first.
    let commits = repository(&scratch, 41, &[31, 32, 47]);
    scratch.write("repo/log", "what the user is just writing");
    let mut words = bisect(&commits[0]);
    words.push("--json".into());
    let json = thaw(&scratch, &words, &["./app"]).exits(0).json();
    assert_eq!(
        (&json["schema"], &json["first_bad"]["commit"]["id"]),
        (&"thaw.bisect/1".into(), &commits[41].as_str().into())
    );
    let figure = &json["first_bad"]["figures"][0];
    assert!(figure["ratio"]["interval"]["low"].as_f64().unwrap() > 1.5, "{figure}");
    let looked = json["looked"].as_array().unwrap();
    let skipped: Vec<&str> =
        looked.iter().filter(|it| it["mark"] == "skip").map(|it| it["because"].as_str().unwrap()).collect();
    assert!(!skipped.is_empty() && skipped.iter().all(|why| why.contains("cannot compile")), "{skipped:?}");
    assert!(looked.len() <= 9, "{} commits were looked at", looked.len());
    untouched(&scratch, &commits[63], " M log");
}

#[test]
fn what_cannot_be_found_is_said() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    // The first slow one and its neighbours do not build.
    let commits = repository(&scratch, 60, &[58, 59, 60]);
    let mut words = bisect(&commits[56]);
    let said = thaw(&scratch, &words, &["./app"]).exits(1);
    said.says("of 4 commits is the first bad one").says(&commits[61]).says("cannot compile");
    // No difference between the ends.
    words.extend(["--bad".into(), commits[57].clone(), "--budget".into(), "0s".into(), "--max-regression=50%".into()]);
    thaw(&scratch, &words, &["./app"]).exits(1).says("do not differ for certain");
    // Ends in the wrong order, an end that does not build.
    words = bisect(&commits[3]);
    words.extend(["--bad".into(), commits[2].clone()]);
    thaw(&scratch, &words, &["./app"]).exits(2).complains("no ancestor");
    words = bisect(&commits[3]);
    words.extend(["--bad".into(), commits[59].clone()]);
    thaw(&scratch, &words, &["./app"]).exits(4).complains("does not build").complains("cannot compile");
    thaw(&scratch, &bisect(&commits[3]), &["./nowhere"]).complains("nowhere");
    untouched(&scratch, &commits[63], "");
}

#[test]
fn an_interrupt_ends_the_build_and_leaves_nothing() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tmp")).unwrap();
    let commits = repository(&scratch, 41, &[]);
    let mut command = scratch.command();
    let build = "sleep 1000 & echo $! > ../../building.new && mv ../../building.new ../../building; wait";
    command.args(["bisect", "--repo", "repo", "--good", &commits[0], "--build", build, "--", "./app"]);
    let mut child = Mortal(command.env("TMPDIR", scratch.path("tmp")).spawn().unwrap());
    let building = scratch.path("tmp/building");
    while !building.exists() {
        assert!(child.0.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let sleeper = std::fs::read_to_string(&building).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the build goes on: {stat}");
    std::fs::remove_file(building).unwrap();
    untouched(&scratch, &commits[63], "");
}

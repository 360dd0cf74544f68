//! Commands around the starts: their order, who gets which, what a failure and Ctrl-C leave.

use crate::machine::{interrupt, until};
use crate::scratch::{Scratch, alone};

/// The options of a quick recording of hot starts.
const QUICK: [&str; 10] = ["record", "-o", "a.thaw", "--state", "hot", "--runs", "2", "--needed", "no", "--quiet"];

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().copied().chain(more.iter().copied()).collect()
}

fn log(scratch: &Scratch) -> Vec<String> {
    std::fs::read_to_string(scratch.path("log")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn every_start_is_between_its_two_commands_and_all_are_between_the_other_two() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("program", "echo start >> log");
    let (before, after) = (
        ["--setup", "echo setup >> log", "--prepare", "echo prepare >> log"],
        ["--conclude", "echo conclude >> log", "--cleanup", "echo cleanup >> log; cat > /dev/null"],
    );
    let more: Vec<&str> = before.into_iter().chain(after).chain(["--", program.to_str().unwrap()]).collect();
    scratch.thaw(words(&more)).exits(0);
    let log = log(&scratch);
    assert_eq!((log.first().unwrap().as_str(), log.last().unwrap().as_str()), ("setup", "cleanup"), "{log:?}");
    let between = &log[1..log.len() - 1];
    // Two timed, the first one, and traced ones where that is possible.
    assert!(between.len() >= 9, "{log:?}");
    assert!(between.chunks(3).all(|three| three == ["prepare", "start", "conclude"]), "{log:?}");
}

#[test]
fn a_command_that_fails_is_named_and_what_was_set_up_is_cleaned_up() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("program", "echo start >> log");
    for (option, starts) in [("--setup", 0), ("--prepare", 0), ("--conclude", 1)] {
        let more = [option, "echo no such world; exit 3", "--cleanup", "echo cleanup >> log", "--"];
        let said = scratch.thaw(words(&more).into_iter().chain([program.to_str().unwrap()])).exits(4);
        let said = said.complains(&format!("the command of {option} for program failed"));
        said.complains("no such world").complains("exit code 3");
        let log = log(&scratch);
        assert_eq!(log.iter().filter(|line| *line == "start").count(), starts, "{option}: {log:?}");
        assert_eq!(log.last().unwrap(), "cleanup");
        assert!(!scratch.path("a.thaw").exists(), "nothing was measured");
        std::fs::remove_file(scratch.path("log")).unwrap();
    }
    // What cannot be cleaned up does not cost the recording.
    let more = ["--cleanup", "exit 3", "--", program.to_str().unwrap()];
    scratch.thaw(words(&more)).exits(0).says("the command of --cleanup for program failed");
}

#[test]
fn ctrl_c_cleans_up() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("program", "echo start >> log; : > long; sleep 600");
    let mut command = scratch.command();
    command.args(words(&["--conclude", "echo conclude >> log", "--cleanup", "echo cleanup >> log", "--"])).arg(program);
    let mut thaw = until(&scratch, command, "long");
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    assert_eq!(log(&scratch), ["start", "conclude", "cleanup"]);
    scratch.nothing_left();
}

#[test]
fn programs_have_commands_of_their_own_and_parameters_are_filled_in() {
    let _machine = alone();
    let scratch = Scratch::new();
    let program = scratch.script("program", "echo $1 $(cat world) >> log");
    let program = program.to_str().unwrap();
    let variant = format!("two={program} two");
    let both =
        ["--variant", &variant, "--prepare", "echo A > world", "--prepare", "echo B > world", "--", program, "one"];
    scratch.thaw(words(&both)).exits(0);
    let mut lines = log(&scratch);
    lines.sort();
    lines.dedup();
    assert_eq!(lines, ["one A", "two B"]);
    std::fs::remove_file(scratch.path("log")).unwrap();
    let scan = ["--force", "--parameter", "n=1,2", "--prepare", "echo {n} > world", "--", program, "it-is-{n}"];
    scratch.thaw(words(&scan)).exits(0);
    let mut lines = log(&scratch);
    lines.sort();
    lines.dedup();
    assert_eq!(lines, ["it-is-1 1", "it-is-2 2"]);
    let three = ["--prepare", "true", "--prepare", "true", "--", "true"];
    scratch.thaw(words(&three)).exits(2).complains("neither once nor once for each program: '--prepare'");
}

#[test]
fn a_line_for_a_shell_warm_ups_and_the_most_runs_are_what_they_say() {
    let _machine = alone();
    let scratch = Scratch::new();
    let line = "echo start | cat >> log";
    scratch.thaw(words(&["--shell", "/bin/sh", "--warmup", "3", "--", line])).exits(0);
    assert!(log(&scratch).len() >= 5);
    let count = |what: &str| {
        let sql = format!("select count(*) from runs where kind = '{what}'");
        scratch.thaw(["query", "a.thaw", &sql, "--json"]).exits(0).json()["rows"][0][0].as_u64().unwrap()
    };
    assert!(count("warmup") >= 3);
    assert_eq!(count("timed"), 2);
    scratch
        .thaw(words(&["--force", "--precision", "0.0001%", "--max-runs", "7", "--shell", "/bin/sh", "--", "true"]))
        .exits(0);
    assert_eq!(count("timed"), 7);
    scratch.thaw(words(&["--force", "--max-runs", "7", "--", "true"])).exits(2).complains("--precision");
}

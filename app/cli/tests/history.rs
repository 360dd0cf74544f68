//! `thaw history`: recordings of a repository whose commits have known figures.

use crate::made::{self, Of};
use crate::scratch::{Mortal, Scratch};
use serde_json::json;
use std::process::Command;

/// Ten starts around 1.2 s.
const TIMES: [u64; 10] = [1210, 1195, 1203, 1198, 1207, 1201, 1196, 1204, 1199, 1202];

/// git in a folder, as somebody, whatever the machine is set to.
pub fn git(scratch: &Scratch, folder: &str, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(scratch.path(folder)).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c"]);
    command.args(["commit.gpgsign=false", "-c", "init.defaultBranch=main"]).args(words);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A repository with as many commits; their names, the first one first.
pub fn repository(scratch: &Scratch, commits: usize) -> Vec<String> {
    std::fs::create_dir(scratch.path("repo")).unwrap();
    git(scratch, "repo", &["init", "--quiet"]);
    (0..commits)
        .map(|number| {
            scratch.write("repo/file", number.to_string());
            git(scratch, "repo", &["add", "file"]);
            git(scratch, "repo", &["commit", "--quiet", "-m", &format!("change {number}")]);
            git(scratch, "repo", &["rev-parse", "HEAD"])
        })
        .collect()
}

/// A recording whose starts take `factor` times as long, on this CPU.
fn record(scratch: &Scratch, name: &str, factor: f64, cpu: &str, shift: usize) {
    let mut times: Vec<u64> = TIMES.iter().map(|ms| (*ms as f64 * factor) as u64).collect();
    times.rotate_left(shift % 10);
    // The same file twice would be the same recording: its number of runs makes it another.
    times[0] += shift as u64;
    let facts = [("cpu", "model", cpu), ("machine", "boot_id", name)];
    let plan = json!({ "runs": 10, "states": ["cold"], "ready": ["exit"] });
    made::at(
        &scratch.path(name),
        &Of { argv: &["/bin/app"], plan, facts: &facts, cold_ms: &[("app", &times)] },
        1_700_000_000_000_000_000 + shift as u64,
    );
}

/// Twenty commits, the last eight of them 10 % slower.
fn twenty(scratch: &Scratch) -> Vec<String> {
    let commits = repository(scratch, 20);
    // In another order than that of the commits.
    for number in (0..20).rev() {
        let name = format!("{number}.thaw");
        record(scratch, &name, if number < 12 { 1.0 } else { 1.1 }, "A", number);
        scratch.thaw(["history", "add", &name, "--repo", "repo", "--commit", &commits[number]]).exits(0).says("added");
    }
    commits
}

#[test]
fn the_commit_that_made_it_slower_is_named() {
    let scratch = Scratch::new();
    let commits = twenty(&scratch);
    scratch.thaw(["history", "show"]).exits(0).says("20 commits").says("change 12").says("+10.");
    let json = scratch.thaw(["history", "show", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.history/1");
    let series = &json["series"][0];
    assert_eq!(series["points"].as_array().unwrap().len(), 20);
    assert_eq!(series["points"][7]["commit"]["id"], commits[7].as_str(), "in the order of the commits");
    let step = &series["steps"][0];
    assert_eq!((series["steps"].as_array().unwrap().len(), &step["commit"]["id"]), (1, &commits[12].as_str().into()));
    let ratio = &step["ratio"];
    assert!((ratio["value"].as_f64().unwrap() - 1.1).abs() < 0.01, "{ratio}");
    assert!(ratio["interval"]["low"].as_f64().unwrap() > 1.08 && step["p"].as_f64().unwrap() <= 0.006);

    let blame = scratch.thaw(["history", "blame", "--metric", "time"]).exits(0);
    blame.says(&commits[12]).says("change 12").says("written 20").says_not("p = p");
    let blame = scratch.thaw(["history", "blame", "--json"]).exits(0).json();
    assert_eq!((&blame["schema"], &blame["steps"][0]["until"]), (&"thaw.blame/1".into(), &commits[12].as_str().into()));
    // One wild commit before the step cannot be told from the first of the new level, so one more is in the range.
    let after = blame["steps"][0]["after"].as_str().unwrap();
    assert!(commits[9..12].iter().any(|commit| commit == after), "{after}");

    scratch.thaw(["history", "show", "--html", "page.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("page.html")).unwrap();
    assert_eq!((page.matches("<circle").count(), page.matches("class=\"step\"").count()), (20, 1));
    scratch.thaw(["history", "show", "--html", "page.html"]).exits(2);
    scratch.thaw(["history", "show", "--html", "page.html", "--force"]).exits(0);
    scratch.thaw(["history", "show", "--metric", "bytes"]).exits(0).says("No step.");
    scratch.thaw(["history", "show", "--state", "warm"]).exits(2).hints("the states cold");
    scratch.thaw(["history", "list"]).exits(0).says("change 19").says("Machines and set-ups");
}

#[test]
fn the_gate_judges_against_the_level_since_the_last_step() {
    let scratch = Scratch::new();
    let commits = twenty(&scratch);
    // As slow as now, which is 10 % slower than ever before.
    record(&scratch, "now.thaw", 1.1, "A", 30);
    scratch.thaw(["gate", "now.thaw", "--against", "history"]).exits(0).says("The gate is passed");
    record(&scratch, "slow.thaw", 1.2, "A", 31);
    scratch.thaw(["gate", "slow.thaw", "--against", "history:history.thawdb"]).exits(1).says("FAIL");
    // A recording that is in the history is not judged against itself.
    scratch.thaw(["history", "add", "slow.thaw", "--repo", "repo", "--commit", &commits[19]]).exits(0);
    let json = scratch.thaw(["gate", "slow.thaw", "--against", "history", "--json"]).exits(1).json();
    assert_eq!(json["verdict"]["figures"][0]["before_runs"], 80);
    record(&scratch, "other.thaw", 1.0, "B", 32);
    let said = scratch.thaw(["gate", "other.thaw", "--against", "history"]).exits(2);
    said.complains("nothing comparable is in the history").hints("thaw history list");
    scratch.thaw(["gate", "now.thaw", "--against", "histories"]).exits(2).complains("write history or history:FILE");
}

#[test]
fn other_machines_are_series_of_their_own_and_are_named() {
    let scratch = Scratch::new();
    repository(&scratch, 1);
    record(&scratch, "a.thaw", 1.0, "A", 0);
    record(&scratch, "b.thaw", 2.0, "B", 1);
    scratch.thaw(["history", "add", "a.thaw", "b.thaw", "--repo", "repo"]).exits(0);
    let json = scratch.thaw(["history", "show", "--json"]).exits(0).json();
    assert_eq!(json["series"].as_array().unwrap().len(), 2);
    assert_eq!(json["setups"][1]["differences"][0]["name"], "cpu model");
    scratch.thaw(["history", "list"]).exits(0).says("machine cpu model: A there, B here");
    let json = scratch.thaw(["history", "show", "--setup", "2", "--json"]).exits(0).json();
    assert_eq!(json["series"].as_array().unwrap().len(), 1);
}

#[test]
fn adding_twice_is_once_and_a_changed_tree_is_marked() {
    let scratch = Scratch::new();
    let commits = repository(&scratch, 2);
    record(&scratch, "a.thaw", 1.0, "A", 0);
    scratch.thaw(["history", "add", "a.thaw", "--repo", "repo"]).exits(0).says("added").says("change 1");
    scratch.thaw(["history", "add", "a.thaw", "--repo", "repo"]).exits(0).says("there already");
    let said = scratch.thaw(["history", "add", "a.thaw", "--repo", "repo", "--commit", &commits[0]]).exits(2);
    said.complains("of another commit already").hints(&format!("--commit {}", commits[1]));
    scratch.write("repo/file", "not committed");
    record(&scratch, "b.thaw", 1.0, "A", 1);
    scratch.thaw(["history", "add", "b.thaw", "--repo", "repo"]).exits(0).says("the tree has changes");
    let json = scratch.thaw(["history", "show", "--json"]).exits(0).json();
    assert_eq!((&json["series"][0]["dirty"], json["series"][0]["points"].as_array().unwrap().len()), (&1.into(), 1));
    scratch.thaw(["history", "list"]).exits(0).says("changed");
}

#[test]
fn bad_input_is_named_and_leaves_nothing() {
    let scratch = Scratch::new();
    repository(&scratch, 1);
    record(&scratch, "a.thaw", 1.0, "A", 0);
    let add = |words: &[&str]| scratch.thaw(["history", "add"].iter().chain(words));
    add(&["a.thaw", "--repo", "repo", "--commit", "nowhere"]).exits(2).complains("this is no commit: 'nowhere'");
    add(&["a.thaw", "--repo", "repo", "--commit=--all"]).exits(2).complains("this is no commit");
    add(&["a.thaw", "--repo", "/"]).exits(2).hints("--repo");
    add(&["none.thaw", "--repo", "repo"]).exits(2).complains("none.thaw");
    assert!(!scratch.path("history.thawdb").exists());
    scratch.thaw(["history", "show"]).exits(2).hints("thaw history add");
    scratch.write("text.thawdb", "no history");
    add(&["a.thaw", "--repo", "repo", "--history", "text.thawdb"]).exits(5).complains("text.thawdb");
    assert_eq!(std::fs::read(scratch.path("text.thawdb")).unwrap(), b"no history");
    let shallow =
        ["clone", "--quiet", "--depth", "1", &format!("file://{}", scratch.path("repo").display()), "shallow"];
    scratch.write("repo/file", "2");
    git(&scratch, "repo", &["commit", "--quiet", "-am", "second"]);
    git(&scratch, ".", &shallow);
    add(&["a.thaw", "--repo", "shallow"]).exits(2).complains("shallow").hints("git fetch --unshallow");
}

/// What a writer said that it wrote is there, whenever it is killed; and the file is whole.
#[test]
fn a_killed_writer_leaves_a_whole_history() {
    let scratch = Scratch::new();
    repository(&scratch, 1);
    let mut acknowledged = 0;
    for number in 0..12 {
        let name = format!("{number}.thaw");
        record(&scratch, &name, 1.0, "A", number);
        let mut command = scratch.command();
        command.args(["history", "add", &name, "--repo", "repo", "--json"]);
        let mut writer = Mortal(command.stdout(std::process::Stdio::null()).spawn().unwrap());
        // Sooner and later in its life; where it ends before, it has said that it is done.
        std::thread::sleep(std::time::Duration::from_millis(4 * number as u64));
        let _ = writer.0.kill();
        acknowledged += usize::from(writer.0.wait().unwrap().success());
        if scratch.path("history.thawdb").metadata().is_ok_and(|it| it.len() > 0) {
            let said = scratch.thaw(["history", "list", "--json"]);
            // The first writer may have been killed while it made the tables.
            if acknowledged == 0 && said.code() == Some(2) {
                said.complains("nothing was added yet to the history");
                continue;
            }
            let rows = said.exits(0).json();
            let count = rows["recordings"].as_array().unwrap().len();
            assert!((acknowledged..=number + 1).contains(&count), "{count} of {acknowledged} acknowledged");
        }
    }
    let connection = rusqlite::Connection::open(scratch.path("history.thawdb")).unwrap();
    let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

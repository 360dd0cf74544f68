//! `thaw memory course`: versions of a program through the steps of a scenario.

use crate::history::{git, repository};
use crate::pages::{embedded, page};
use crate::scratch::Scratch;
use pageload::drive::Kind;
use serde_json::{Value, json};
use std::path::Path;

/// A program that takes so many MiB, says so by a file, and gives them back when it is told.
const PROGRAM: &str = r#"
import mmap, os, signal, sys, time
block = bytearray(int(sys.argv[1]) << 20)
for at in range(0, len(block), 4096): block[at] = 1
def give_back(*_):
    global block
    block = None
    open(sys.argv[2] + "/gone", "w").close()
signal.signal(signal.SIGUSR1, give_back)
open(sys.argv[2] + "/ready", "w").close()
while True: time.sleep(0.05)
"#;

fn scenario(scratch: &Scratch, versions: &[(&str, &str)], steps: &str) {
    std::fs::write(scratch.path("app.py"), PROGRAM).unwrap();
    let (app, place) = (scratch.path("app.py"), scratch.path("."));
    let mut text = "schema = \"thaw.course/1\"\niterations = 3\ninterval = 0.05\n".to_owned();
    for (name, size) in versions {
        text.push_str(&format!(
            "[[version]]\nname = \"{name}\"\ncommand = [\"python3\", \"{}\", \"{size}\", \"{}\"]\n",
            app.display(),
            place.display()
        ));
    }
    std::fs::write(scratch.path("s.toml"), text + &steps.replace("DIR", &place.display().to_string())).unwrap();
}

const STEPS: &str = r#"
[[step]]
until = "test -e DIR/ready"
[[step]]
mark = "loaded"
[[step]]
wait = 0.3
[[step]]
shell = "rm DIR/ready; kill -USR1 $THAW_PID; until test -e DIR/gone; do sleep 0.01; done; rm DIR/gone"
[[step]]
mark = "closed"
"#;

fn median<'a>(document: &'a Value, checkpoint: &str, version: &str) -> &'a Value {
    size(document, checkpoint, version, "pss")
}

fn size<'a>(document: &'a Value, checkpoint: &str, version: &str, of: &str) -> &'a Value {
    let points = document["checkpoints"].as_array().unwrap();
    let point = points.iter().find(|point| point["name"] == checkpoint).unwrap();
    let versions = point["versions"].as_array().unwrap();
    &versions.iter().find(|it| it["version"] == version).unwrap()[of]
}

/// Whatever runs with this in its words.
fn running(word: &Path) -> usize {
    let word = word.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&word)).count()
}

#[test]
fn versions_are_driven_through_the_steps_and_compared() {
    let scratch = Scratch::new();
    scenario(&scratch, &[("small", "20"), ("large", "60")], STEPS);
    let line = ["memory", "course", "s.toml", "-o", "c", "--html", "c.html"];
    scratch.thaw(line).exits(0).says("loaded").says("closed").says("to the first");
    let document = scratch.thaw(["memory", "course", "c", "--json"]).exits(0).json();
    assert_eq!(document["schema"], "thaw.memory-course/1");
    // Not the PSS, which falls when another test starts a Python too.
    let value =
        |at: &str, version: &str| size(&document, at, version, "rss")["median"]["value"].as_f64().unwrap() / 1048576.0;
    for (version, mib) in [("small", 20.0), ("large", 60.0)] {
        assert_eq!(median(&document, "loaded", version)["runs"].as_array().unwrap().len(), 3);
        let freed = value("loaded", version) - value("closed", version);
        assert!((freed - mib).abs() < 1.0, "{version}: {freed} MiB were given back");
    }
    let change = median(&document, "loaded", "large")["to_first"].clone();
    assert!(change["value"].as_f64().unwrap() > 1.5 && change["interval"]["low"].as_f64().unwrap() > 1.5, "{change}");
    // The watches of both versions are what `memory diff` reads; at a mark there is what the kernel says of the memory.
    scratch.thaw(["memory", "diff", "c/small", "c/large"]).exits(0).says("loaded").says("3, 3");
    let differ = ["memory", "diff", "c/small/1.memory", "c/large/1.memory", "--at", "loaded"];
    scratch.thaw(differ).exits(0).says("pss").says("anonymous");
    let page = std::fs::read_to_string(scratch.path("c.html")).unwrap();
    assert!(page.contains("<html"), "a page");
    assert_eq!(running(&scratch.path("app.py")), 0);
    // What is there is never replaced.
    scratch.thaw(["memory", "course", "s.toml", "-o", "c"]).exits(2).complains("not empty");
}

/// What the page works out itself it takes from these: the figures of the document, and the trees of the run in the
/// middle at each mark.
#[test]
fn the_page_holds_each_version_at_each_checkpoint() {
    let scratch = Scratch::new();
    scenario(&scratch, &[("small", "2"), ("large", "9")], STEPS);
    scratch.thaw(["memory", "course", "s.toml", "-o", "c", "--html", "c.html"]).exits(0);
    let document = scratch.thaw(["memory", "course", "c", "--json"]).exits(0).json();
    let shown = embedded(&page(&scratch, "c.html"), "thaw-memory");
    assert_eq!(shown["course"]["checkpoints"], document["checkpoints"]);
    assert_eq!(shown["course"]["trees"], json!([[0, 1], [2, 3], [null, null], [null, null]]), "marks alone have trees");
    let names = shown["trees"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let expected = ["small at loaded", "large at loaded", "small at closed", "large at closed"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_course_is_kept_in_the_history_under_its_commit() {
    let scratch = Scratch::new();
    let commits = repository(&scratch, 2);
    scenario(&scratch, &[("small", "2"), ("large", "9")], STEPS);
    scratch.thaw(["memory", "course", "s.toml", "-o", "c"]).exits(0);
    // Each of three sizes at two marks, the peak and the end.
    scratch
        .thaw(["history", "add", "c", "--repo", "repo"])
        .exits(0)
        .says("c/large: 12 figures, added")
        .says("change 1");
    scratch.thaw(["history", "add", "c", "--repo", "repo"]).exits(0).says("there already");
    let earlier = ["history", "add", "c", "--repo", "repo", "--commit", &commits[0]];
    scratch.thaw(earlier).exits(2).complains("of another commit already");

    let document = scratch.thaw(["memory", "course", "c", "--json"]).exits(0).json();
    let kept = scratch.thaw(["history", "show", "--metric", "pss:loaded", "--json"]).exits(0).json();
    for series in kept["series"].as_array().unwrap() {
        let figure = median(&document, "loaded", series["variant"].as_str().unwrap());
        assert_eq!((&series["metric"], &series["state"]), (&"pss:loaded".into(), &"course".into()));
        assert_eq!(series["points"][0]["values"], figure["runs"], "bytes of each run");
        assert_eq!(series["points"][0]["commit"]["id"], commits[1].as_str());
    }
    assert_eq!(kept["series"].as_array().unwrap().len(), 2);
    let all = scratch.thaw(["history", "show", "--metric", "pss", "--variant", "small", "--json"]).exits(0).json();
    assert_eq!(all["series"].as_array().unwrap().len(), 4, "at all checkpoints");
    scratch.thaw(["history", "show", "--metric", "rss:loaded"]).exits(0).says("MB").says("small, course, rss:loaded");
    scratch.thaw(["history", "show"]).exits(2).hints("pss:loaded");
    scratch.thaw(["history", "show", "--metric", "pss:"]).exits(2).complains("pss:NAME");

    // Other steps are another series, and so is another machine.
    scenario(&scratch, &[("small", "2"), ("large", "9")], &STEPS.replace("wait = 0.3", "wait = 0.4"));
    scratch.thaw(["memory", "course", "s.toml", "-o", "d", "--iterations", "1"]).exits(0);
    scratch.thaw(["history", "add", "d", "--repo", "repo"]).exits(0);
    scratch.thaw(["history", "list"]).exits(0).says("setup steps");
    let machine = scratch.path("c/machine.json");
    std::fs::remove_file(&machine).unwrap();
    let said = scratch.thaw(["history", "add", "c", "--repo", "repo"]).exits(5);
    said.complains("not known on which machine").complains("machine.json").hints("run it again");
    std::fs::write(&machine, "{").unwrap();
    scratch.thaw(["history", "add", "c", "--repo", "repo"]).exits(5).complains("machine.json").hints("damaged");
    scratch.thaw(["history", "add", "repo", "--repo", "repo"]).complains("scenario.toml").hints("thaw memory course");
}

/// Sixteen versions by their revisions, of which the last eight take more: who made it larger is named.
#[test]
fn versions_that_are_revisions_are_one_series() {
    let scratch = Scratch::new();
    let commits = repository(&scratch, 16);
    let mut text = "schema = \"thaw.course/1\"\niterations = 1\n".to_owned();
    let place = scratch.path(".");
    for (number, commit) in commits.iter().enumerate() {
        std::fs::create_dir(scratch.path(format!("v{number}"))).unwrap();
        let size = if number < 8 { 4 } else { 24 };
        scratch.write(&format!("v{number}/app.py"), PROGRAM.replace("int(sys.argv[1])", &size.to_string()));
        let app = scratch.path(format!("v{number}/app.py"));
        text.push_str(&format!(
            "[[version]]\nname = \"v{number}\"\ncommand = [\"python3\", \"{}\", \"x\", \"{}\"]\n",
            app.display(),
            place.display()
        ));
        git(&scratch, "repo", &["tag", &format!("v{number}"), commit]);
    }
    let steps =
        "[[step]]\nuntil = \"test -e DIR/ready\"\n[[step]]\nmark = \"loaded\"\n[[step]]\nshell = \"rm DIR/ready\"\n";
    scratch.write("s.toml", text + &steps.replace("DIR", &place.display().to_string()));
    scratch.thaw(["memory", "course", "s.toml", "-o", "c"]).exits(0);
    scratch.thaw(["history", "add", "c", "--by-version", "--repo", "repo"]).exits(0).says("change 0").says("change 15");
    let kept = scratch.thaw(["history", "show", "--metric", "rss:loaded", "--json"]).exits(0).json();
    let [series] = kept["series"].as_array().unwrap().as_slice() else { panic!("one series: {kept:#}") };
    assert_eq!((&series["variant"], series["points"].as_array().unwrap().len()), (&"python3".into(), 16));
    // Memory is not quite the same each time: the commit is among those that it may be.
    scratch.thaw(["history", "blame", "--metric", "rss:loaded"]).exits(0).says(&commits[8][..10]);
    scratch.thaw(["history", "show", "--metric", "rss:loaded", "--html", "h.html"]).exits(0);
    let html = std::fs::read_to_string(scratch.path("h.html")).unwrap();
    assert_eq!((html.matches("class=\"mid\"").count(), html.matches("class=\"step\"").count()), (16, 1));

    git(&scratch, "repo", &["tag", "-d", "v3"]);
    let said = scratch.thaw(["history", "add", "c", "--by-version", "--repo", "repo", "--history", "new"]).exits(2);
    said.complains("v3").hints("--commit REV");
    assert!(!scratch.path("new").exists());
    scratch.write("none.thaw", "");
    scratch.thaw(["history", "add", "none.thaw", "--by-version", "--repo", "repo"]).exits(2).complains("no course");
}

#[test]
fn a_step_that_fails_is_named_and_nothing_is_left_running() {
    let scratch = Scratch::new();
    for (steps, why) in [
        ("[[step]]\nmark = \"a\"\n[[step]]\nshell = \"exit 3\"\n", "small, step 2 (shell exit 3)"),
        ("[[step]]\nshell = \"kill -9 $THAW_PID; sleep 0.2\"\n[[step]]\nmark = \"a\"\n", "small, step 1"),
        ("[[step]]\nminimise = true\n[[step]]\nmark = \"a\"\n", "small, step 1 (minimise)"),
    ] {
        scenario(&scratch, &[("small", "1")], steps);
        scratch.thaw(["memory", "course", "s.toml", "-o", "c"]).exits(4).complains(why);
        assert_eq!(running(&scratch.path("app.py")), 0, "{why}");
        std::fs::remove_dir_all(scratch.path("c")).unwrap();
    }
    let names = scratch.names("run");
    assert!(names.is_empty(), "{names:?} is left of the run directories");
}

#[test]
fn scenarios_that_cannot_be_run_are_refused_before_anything_starts() {
    let scratch = Scratch::new();
    scratch.thaw(["memory", "course", "none.toml"]).exits(2).complains("none.toml");
    std::fs::write(scratch.path("s.toml"), "schema = \"thaw.course/1\"\n").unwrap();
    scratch.thaw(["memory", "course", "s.toml"]).exits(5).complains("s.toml").hints("docs/memory.md");
    scenario(&scratch, &[("a", "1"), ("a", "2")], STEPS);
    scratch.thaw(["memory", "course", "s.toml"]).exits(5).complains("two versions are called 'a'");
    scenario(&scratch, &[("a", "1")], "[[step]]\nload = \"x\"\n[[step]]\nmark = \"m\"\n");
    scratch.thaw(["memory", "course", "s.toml"]).exits(5).complains("'a' is no browser");
    let text = "schema = \"thaw.course/1\"\n[[version]]\nname = \"a\"\ncommand = [\"no-such-program\"]\n\
                [[step]]\nmark = \"m\"\n";
    std::fs::write(scratch.path("s.toml"), text).unwrap();
    scratch.thaw(["memory", "course", "s.toml"]).complains("no-such-program");
    assert!(!scratch.path("thaw.course").exists(), "nothing was begun");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.thaw(["memory", "course", "empty"]).complains("scenario.toml").hints("thaw memory course");
}

#[test]
fn browsers_load_close_and_give_back() {
    for browser in ["firefox", "chromium"] {
        let kind = if browser == "firefox" { Kind::Firefox } else { Kind::Chromium };
        if kind.find().is_err() {
            testing::skip(&format!("no {browser} in PATH"));
            continue;
        }
        let scratch = Scratch::new();
        let script = "<script>keep = []; for (let n = 0; n < 300000; n++) keep.push({ n, text: 'x' + n });</script>";
        std::fs::write(scratch.path("page.html"), format!("<!doctype html><p>page</p>{script}")).unwrap();
        let page = format!("file://{}", scratch.path("page.html").display());
        let text = format!(
            "schema = \"thaw.course/1\"\niterations = 1\n[[version]]\nname = \"it\"\nbrowser = \"{browser}\"\n\
             [[step]]\nmark = \"start\"\n[[step]]\nload = [\"{page}\", \"{page}?2\"]\n[[step]]\nmark = \"loaded\"\n\
             [[step]]\nclose = \"tabs\"\n[[step]]\nminimise = true\n[[step]]\nmark = \"minimised\"\n"
        );
        std::fs::write(scratch.path("s.toml"), text).unwrap();
        scratch.thaw(["memory", "course", "s.toml", "-o", "c"]).exits(0);
        let document = scratch.thaw(["memory", "course", "c", "--json"]).exits(0).json();
        let value = |at: &str| median(&document, at, "it")["median"]["value"].as_f64().unwrap();
        assert!(value("loaded") > value("start") * 1.05, "{document:#}");
        assert!(value("minimised") < value("loaded"), "{document:#}");
        let shown = scratch.thaw(["memory", "diff", "c/it/1.memory", "c/it/1.memory", "--at", "loaded"]);
        shown.exits(0).says("Nothing has changed.");
        let watch = std::fs::read_to_string(scratch.path("c/it/1.memory")).unwrap();
        assert_eq!(
            watch.contains("\"explicit/"),
            browser == "firefox",
            "Firefox reports its memory, Chromium does not"
        );
        let left = running(&scratch.path("run"));
        assert_eq!(left, 0, "{browser} left {left} processes");
    }
}

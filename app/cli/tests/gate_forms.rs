//! The gate's verdict in the forms of other programs, parsed back by what their documents demand.

use crate::made::{self, Of};
use crate::scratch::Scratch;
use serde_json::{Value, json};

const TIMES: [u64; 10] = [1210, 1195, 1203, 1198, 1207, 1201, 1196, 1204, 1199, 1202];

/// A variant with a name that every form must escape: one that fails in time and passes in bytes.
const NAME: &str = "a<b> \"&\", 100%: x";

fn judged(scratch: &Scratch) {
    for (file, factor) in [("before.thaw", 1.0), ("after.thaw", 1.2)] {
        let times: Vec<u64> = TIMES.iter().map(|ms| (*ms as f64 * factor) as u64).collect();
        let plan = json!({ "runs": 10, "states": ["cold"], "ready": ["exit"] });
        made::of(&scratch.path(file), &Of { argv: &["app"], plan, facts: &[], cold_ms: &[(NAME, &times)] });
    }
}

fn gate(scratch: &Scratch, words: &[&str]) -> crate::scratch::Said {
    let first = ["gate", "before.thaw", "after.thaw", "--metric", "time,bytes=1%"];
    scratch.thaw(first.iter().chain(words)).exits(1)
}

fn read(scratch: &Scratch, name: &str) -> String {
    std::fs::read_to_string(scratch.path(name)).unwrap()
}

/// The value of an attribute, with its entities resolved.
fn attribute(line: &str, name: &str) -> String {
    let from = line.find(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name} in {line}")) + name.len() + 3;
    let value = &line[from..from + line[from..].find('"').unwrap()];
    assert!(!value.contains('<'), "{value}");
    value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

#[test]
fn junit_has_a_case_for_each_figure_and_counts_them() {
    let scratch = Scratch::new();
    judged(&scratch);
    gate(&scratch, &["--junit", "gate.xml"]);
    let text = read(&scratch, "gate.xml");
    let line = |part: &str| text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"));
    let suite = line("<testsuite ");
    assert_eq!(["tests", "failures", "errors", "skipped"].map(|name| attribute(suite, name)), ["2", "1", "0", "0"]);
    let failed = line("<failure");
    assert_eq!((attribute(failed, "classname").as_str(), attribute(failed, "name").as_str()), (NAME, "cold time"));
    assert!(attribute(failed, "message").contains("20.") && failed.ends_with("</failure></testcase>"), "{failed}");
    assert!(!line("cold bytes").contains("<failure"));
    for tag in ["testsuites", "testsuite", "testcase", "failure", "system-out"] {
        let opened = text.matches(&format!("<{tag} ")).count() + text.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// `::error file={name},title={title}::{message}`, of the toolkit's workflow commands.
#[test]
fn annotations_are_workflow_commands() {
    let scratch = Scratch::new();
    judged(&scratch);
    let said = gate(&scratch, &["--annotations", "github", "--markdown"]);
    assert!(said.out().starts_with("### Start-up"), "the summary has no annotations");
    let commands: Vec<String> = said.err().lines().filter(|line| line.starts_with("::")).map(str::to_owned).collect();
    assert_eq!(commands.len(), 1, "{commands:?}");
    let (properties, message) = commands[0].strip_prefix("::error ").unwrap().split_once("::").unwrap();
    let properties: Vec<(&str, &str)> = properties.split(',').map(|pair| pair.split_once('=').unwrap()).collect();
    assert_eq!(properties[0], ("file", "after.thaw"));
    let title = properties[1].1.replace("%3A", ":").replace("%2C", ",").replace("%25", "%");
    assert_eq!((properties.len(), properties[1].0, title), (2, "title", format!("{NAME} cold time")));
    assert!(message.contains("20.") && message.contains(" %25 slower"), "{message}");
}

/// <https://bencher.dev/bmf.json>
#[test]
fn bencher_gets_numbers_by_benchmark_and_measure() {
    let scratch = Scratch::new();
    judged(&scratch);
    gate(&scratch, &["--export-bencher", "bmf.json"]);
    let all: Value = serde_json::from_str(&read(&scratch, "bmf.json")).unwrap();
    let measures = all.as_object().unwrap()[&format!("{NAME}/cold")].as_object().unwrap();
    assert_eq!(measures.keys().collect::<Vec<_>>(), ["bytes-bytes", "time-seconds"]);
    for (name, metric) in measures {
        assert!(metric.as_object().unwrap().contains_key("value") && metric["value"].is_number(), "{name}");
        assert!(name.len() <= 64, "{name}");
    }
    assert!((measures["time-seconds"]["value"].as_f64().unwrap() - 1.4415).abs() < 0.01);
}

/// The README of benchmark-action/github-action-benchmark: name, unit and value for each, more if one likes.
#[test]
fn github_action_benchmark_gets_an_array() {
    let scratch = Scratch::new();
    judged(&scratch);
    gate(&scratch, &["--export-github-benchmark", "bench.json"]);
    let all: Value = serde_json::from_str(&read(&scratch, "bench.json")).unwrap();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 2);
    for entry in all {
        assert!(entry["name"].is_string() && entry["unit"].is_string() && entry["value"].is_number(), "{entry}");
        assert!(entry["extra"].is_string(), "{entry}");
    }
    assert_eq!((&all[1]["unit"], all[1]["value"].as_f64()), (&"bytes".into(), Some(135_200_000.0)));
}

/// treeherder/schemas/performance-artifact.json
#[test]
fn perfherder_gets_its_artifact_in_a_line() {
    let scratch = Scratch::new();
    judged(&scratch);
    gate(&scratch, &["--export-perfherder", "perfherder.log"]);
    let text = read(&scratch, "perfherder.log");
    let line = text.strip_prefix("PERFHERDER_DATA: ").unwrap();
    assert_eq!(line.lines().count(), 1);
    let all: Value = serde_json::from_str(line).unwrap();
    assert!(all["framework"]["name"].is_string());
    let suites = all["suites"].as_array().unwrap();
    assert_eq!(suites.len(), 1);
    assert!(suites[0]["name"].is_string() && suites[0]["lowerIsBetter"] == true);
    let subtests = suites[0]["subtests"].as_array().unwrap();
    assert_eq!(subtests.len(), 2);
    for subtest in subtests {
        assert!(subtest["name"].is_string() && subtest["value"].as_f64().unwrap().abs() <= 1e12);
        assert!((1..=20).contains(&subtest["unit"].as_str().unwrap().len()) && subtest["lowerIsBetter"] == true);
    }
}

#[test]
fn files_that_are_there_are_kept() {
    let scratch = Scratch::new();
    judged(&scratch);
    scratch.write("gate.xml", "mine");
    let words = ["gate", "before.thaw", "after.thaw", "--junit", "gate.xml"];
    scratch.thaw(words).exits(2).says_not("The gate").complains("gate.xml");
    assert_eq!(read(&scratch, "gate.xml"), "mine");
    scratch.thaw(words.iter().chain(&["--force"])).exits(1);
    assert!(read(&scratch, "gate.xml").contains("<testsuites"));
}

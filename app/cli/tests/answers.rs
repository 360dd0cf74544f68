//! What is said about recordings whose figures are known: report, compare, gate, query, exports.

use crate::made;
use crate::scratch::{Said, Scratch};
use std::io::Read;
use std::process::Stdio;

const COLD: [u64; 10] = [1210, 1195, 1203, 1198, 1207, 1201, 1196, 1204, 1199, 1202];
const HOT: [u64; 10] = [401, 399, 403, 400, 398, 402, 400, 401, 399, 402];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    made::recording(&scratch.path("app.thaw"), &COLD, &HOT);
    scratch
}

/// All times by this factor.
fn scaled(times: &[u64], factor: f64) -> Vec<u64> {
    times.iter().map(|ms| (*ms as f64 * factor) as u64).collect()
}

#[test]
fn the_report_answers_first_and_shows_its_tables() {
    let said = scratch().thaw(["report", "app.thaw"]).exits(0);
    let first = said.out().lines().next().unwrap().to_owned();
    assert!(first.starts_with("app starts in 1.202 s"), "{first}");
    said.says("3.00")
        .says("135.2 MB")
        .says("1,894")
        .says("/opt/app/libbig.so")
        .says("libbig.so")
        .says("read-ahead 128 KiB");
}

#[test]
fn the_answer_names_the_largest_lever_and_what_it_gains_at_most() {
    let said = scratch().thaw(["report", "app.thaw"]).exits(0);
    let out = said.out().replace('\n', " ");
    assert!(out.contains("What would help most is reading less of /opt/app/libbig.so"), "{out}");
    assert!(out.contains("only 25 % of the 41.9 MB that came into memory are known to have been requested"), "{out}");
    assert!(out.contains("at most 400.0 ms"), "{out}");
}

#[test]
fn no_difference_is_called_no_difference() {
    let scratch = Scratch::new();
    let times = [400, 410, 395, 405, 399, 401, 407, 398, 402, 404];
    let mixed = [402, 398, 408, 399, 404, 401, 396, 406, 403, 400];
    made::recording(&scratch.path("same.thaw"), &times, &mixed);
    let out = scratch.thaw(["report", "same.thaw"]).exits(0).says("no difference").out().replace('\n', " ");
    assert!(out.contains("reading less would not help"), "{out}");
}

#[test]
fn what_the_runs_cannot_tell_is_not_claimed() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("few.thaw"), &[400, 900, 350, 1000, 420], &[390, 500, 380, 1200, 405]);
    let out = scratch.thaw(["report", "few.thaw"]).exits(0).says_not("What would help most").out().replace('\n', " ");
    assert!(out.contains("5 pairs of runs are too few or too unlike to be sure"), "{out}");
    assert!(out.contains("record more runs"), "{out}");
}

#[test]
fn where_little_of_the_start_is_reading_less_work_is_the_lever() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("busy.thaw"), &scaled(&COLD, 1.0), &scaled(&HOT, 2.5));
    let out = scratch.thaw(["report", "busy.thaw"]).exits(0).out().replace('\n', " ");
    assert!(out.contains("less work, not less reading: 83 % of the 1.202 s remain"), "{out}");
}

/// What the answer says in one line.
fn answer(scratch: &Scratch, file: &str) -> String {
    let json = scratch.thaw(["report", file, "--json"]).exits(0).json();
    let sentences = json["answer"].as_array().unwrap();
    sentences.iter().map(|sentence| sentence.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn hot_starts_are_not_explained_by_a_cold_one() {
    let scratch = Scratch::new();
    made::recording(&scratch.path("hot.thaw"), &[], &HOT);
    let said = answer(&scratch, "hot.thaw");
    assert!(!said.contains("waited for the disk") && !said.contains("would help most"), "{said}");
    assert!(said.contains("is unknown: only hot starts were timed") && said.contains("--state cold,hot"), "{said}");
}

#[test]
fn the_median_traced_start_speaks_for_its_state() {
    let scratch = Scratch::new();
    let (odd, usual) = (made::trace_of(120), made::trace());
    let traces = [(7_000, &odd), (1_205, &usual), (1_190, &made::trace_of(30))];
    made::with_traces(&scratch.path("app.thaw"), &COLD, &HOT, &traces);
    let said = answer(&scratch, "app.thaw");
    assert!(said.contains("waited for the disk for 400.0 ms of its 1.205 s"), "{said}");
    assert!(!said.contains("untraced"), "{said}");
    let json = scratch.thaw(["report", "app.thaw", "--json"]).exits(0).json();
    assert_eq!((&json["traces"][0]["run"], &json["traces"][0]["traced_runs"]), (&2.into(), &3.into()));
}

#[test]
fn an_odd_traced_start_is_called_odd_and_gains_are_bounded_by_what_was_measured() {
    let scratch = Scratch::new();
    // The timed starts take 8 ms when cold and 2 when hot; the only traced one waited for 1.2 s.
    let small = |times: &[u64]| times.iter().map(|ms| ms % 3 + 1).collect::<Vec<u64>>();
    let cold: Vec<u64> = small(&COLD).iter().map(|ms| ms + 6).collect();
    made::with_traces(&scratch.path("odd.thaw"), &cold, &small(&HOT), &[(2_500, &made::trace_of(120))]);
    let said = answer(&scratch, "odd.thaw");
    assert!(said.contains("waited for the disk for 1.200 s of its 2.500 s"), "{said}");
    assert!(said.contains("it took longer than every untraced one, 2.500 s against 7.000 ms to 9.000 ms"), "{said}");
    assert!(said.contains("that can gain at most 6.000 ms"), "{said}");
}

#[test]
fn one_set_of_times_has_one_set_of_figures() {
    let scratch = Scratch::new();
    // Two hot starts are far quicker than the others: ratios in pairs are far from the ratio of the medians.
    let hot: Vec<u64> = (0..11).map(|block| if block % 5 == 1 { 100 } else { 922 } + block).collect();
    let cold: Vec<u64> = (0..11).map(|block| 1_184 + block * 3).collect();
    made::recording(&scratch.path("app.thaw"), &cold, &hot);
    made::recording(&scratch.path("again.thaw"), &cold, &hot);
    let json = scratch.thaw(["report", "app.thaw", "--json"]).exits(0).json();
    let compared = scratch.thaw(["compare", "app.thaw", "again.thaw", "--json"]).exits(0).json();
    for at in 0..2 {
        let cell = &json["statistics"]["cells"][at];
        assert_eq!(cell["median_s"], cell["milestones"][0]["median_s"]);
        assert_eq!(cell["median_s"], compared["comparison"]["states"][at]["before_s"]);
        for figure in ["mean_s", "median_s", "user_s", "system_s"] {
            assert!(cell[figure]["interval"]["low"].as_f64().unwrap() >= 0.0, "{cell}");
        }
    }
    let median = |at: usize| json["statistics"]["cells"][at]["median_s"]["value"].as_f64().unwrap();
    let contrast = &json["statistics"]["contrasts"][0];
    assert_eq!(
        contrast["ratio"]["value"].as_f64().unwrap(),
        median(1) / median(0),
        "the ratio of the two of the table"
    );
    let said = answer(&scratch, "app.thaw");
    let ratio = format!("cold takes {:.2} times", median(1) / median(0));
    assert!(said.contains(&ratio) && said.contains("the geometric mean of the ratios block by block is "), "{said}");
}

#[test]
fn the_report_document_is_versioned_and_in_base_units() {
    let json = scratch().thaw(["report", "app.thaw", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.report/1");
    let cells = json["statistics"]["cells"].as_array().unwrap();
    let cold = cells.iter().find(|cell| cell["state"] == "cold").unwrap();
    let median = cold["median_s"]["value"].as_f64().unwrap();
    assert!((median - 1.2015).abs() < 1e-9, "seconds, whatever the screen shows: {median}");
    assert_eq!(cold["samples"].as_array().unwrap().len(), COLD.len());
    assert_eq!(cold["read_bytes"], 135_200_000.0);
    assert_eq!(json["facts"]["disk:vda"]["read_ahead_kb"], "128");
    assert_eq!(json["asked"]["runs"], 10);
    let top = "answer asked binaries facts next recording schema statistics traces variants warnings";
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.join(" "), top, "a field of thaw.report/1 is never renamed or removed");
}

/// The made trace reads 40 MB in order: a disk of 30 MB/s needs 1.4 s for them, and no order is better.
#[test]
fn the_report_says_what_a_disk_of_2010_would_have_made_of_the_start() {
    let scratch = scratch();
    let json = scratch.thaw(["report", "app.thaw", "--json"]).exits(0).json();
    let disks = &json["traces"][0]["disks"];
    assert_eq!((&disks["requests"], &disks["bytes"]), (&40.into(), &41_943_040.into()));
    let laptop = &disks["disks"][0];
    assert_eq!(laptop["disk"], "laptop2010");
    let (as_is, sorted) = (laptop["as_is_ns"].as_u64().unwrap(), laptop["sorted_ns"].as_u64().unwrap());
    assert!((1_398_101_000..1_450_000_000).contains(&sorted), "{sorted}");
    assert!(as_is < sorted, "the drive reads ahead while the program thinks");
    assert_eq!(laptop["as_is"]["seeks"], 0);
    assert_eq!(disks["disks"][1]["disk"], "desktop2010");
    let out = scratch.thaw(["report", "app.thaw"]).exits(0).out().replace('\n', " ");
    assert!(out.contains("On laptop2010 (laptop disk of 2010: 2.5 inch, 5400 rpm, 30 MB/s) the requests"), "{out}");
}

#[test]
fn the_exports_are_what_other_tools_read() {
    let scratch = scratch();
    let exports = ["--export-json", "r.json", "--export-csv", "r.csv", "--export-markdown", "r.md"];
    scratch.thaw(["report", "app.thaw"].iter().chain(&exports)).exits(0);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(scratch.path("r.json")).unwrap()).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        for field in ["command", "mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(!result[field].is_null(), "hyperfine's {field}");
        }
        for array in ["times", "exit_codes", "memory_usage_byte", "user_times", "major_faults", "read_bytes", "runs"] {
            assert_eq!(result[array].as_array().unwrap().len(), 10, "{array} has one value per run");
        }
    }
    assert!(results.iter().any(|result| result["command"] == "app --fast [cold]"));
    let csv = std::fs::read_to_string(scratch.path("r.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 21, "a head and one line per run, the traced one too");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    let markdown = std::fs::read_to_string(scratch.path("r.md")).unwrap();
    assert!(markdown.contains("| app | cold | 10 | 1.202 s ["), "{markdown}");
}

#[test]
fn tables_are_exported_in_three_forms_with_ratios_to_a_reference() {
    let scratch = Scratch::new();
    let facts = [("machine", "kernel", "6.1")];
    let cells = [("a|b", &COLD[..]), ("half", &scaled(&COLD, 0.5)[..])];
    let plan = serde_json::json!({ "states": ["cold"] });
    made::of(&scratch.path("two.thaw"), &made::Of { argv: &["app"], plan, facts: &facts, cold_ms: &cells });
    let export = |words: &[&str]| {
        let forms = ["--export-markdown", "t.md", "--export-asciidoc", "t.adoc", "--export-orgmode", "t.org"];
        scratch.thaw(["report", "two.thaw", "--force"].iter().chain(&forms).chain(words)).exits(0);
        ["t.md", "t.adoc", "t.org"].map(|name| std::fs::read_to_string(scratch.path(name)).unwrap())
    };
    let [markdown, asciidoc, org] = export(&[]);
    let row = |text: &str, begins: &str| text.lines().find(|line| line.starts_with(begins)).unwrap().to_owned();
    assert!(row(&markdown, "| a\\|b | cold | 10 |").contains("| 2.00 [1."), "the fastest is 1: {markdown}");
    assert!(row(&markdown, "| half ").ends_with("| 1.00 |"), "{markdown}");
    assert!(asciidoc.starts_with("[cols=\"<,<,>,>") && asciidoc.contains("|===\n| Program\n| State\n"), "{asciidoc}");
    assert!(asciidoc.contains("\n| a\\|b\n| cold\n| 10\n") && asciidoc.ends_with("|===\n"), "{asciidoc}");
    assert!(row(&org, "| a\\vert{}b | cold | 10 |").contains("2.00") && org.contains("\n|--+--+"), "{org}");
    let [markdown, ..] = export(&["--reference", "a|b"]);
    assert!(row(&markdown, "| half ").contains("| 0.50 [0."), "{markdown}");
    let said = scratch.thaw(["report", "two.thaw", "--export-markdown", "o.md", "--reference", "other"]).exits(2);
    said.complains("there is no variant 'other'").hints("a|b, half");
}

#[test]
fn an_export_that_cannot_be_written_says_that_nothing_is_lost() {
    let scratch = scratch();
    let said = scratch.thaw(["report", "app.thaw", "--export-csv", "missing/r.csv"]).exits(2);
    said.complains("cannot write to 'missing/r.csv'").hints("the recording is safe").says("starts in");
}

fn compared(verb: &[&str], cold: f64, hot: f64) -> Said {
    let scratch = scratch();
    made::recording(&scratch.path("after.thaw"), &scaled(&COLD, cold), &scaled(&HOT, hot));
    let mut words = vec![verb[0], "app.thaw", "after.thaw"];
    words.extend(&verb[1..]);
    scratch.thaw(words)
}

#[test]
fn compare_says_which_state_became_faster() {
    let said = compared(&["compare"], 0.8, 1.0).exits(0);
    said.says("app cold: faster after, -20")
        .says("app hot: no difference")
        .says("What the change did to the cost of a cold cache");
}

#[test]
fn the_compare_document_is_versioned() {
    let json = compared(&["compare", "--json"], 0.8, 1.0).exits(0).json();
    assert_eq!(json["schema"], "thaw.compare/1");
    assert_eq!(json["comparison"]["states"].as_array().unwrap().len(), 2);
    assert_eq!(json["before"]["file"], "app.thaw");
}

#[test]
fn recordings_without_a_common_state_cannot_be_compared() {
    let scratch = scratch();
    made::recording(&scratch.path("hot.thaw"), &[], &HOT);
    made::recording(&scratch.path("cold.thaw"), &COLD, &[]);
    let said = scratch.thaw(["gate", "hot.thaw", "cold.thaw"]).exits(5);
    said.complains("nothing to compare").complains("hot.thaw has hot, cold.thaw has cold").hints("--state");
}

#[test]
fn query_answers_in_three_forms() {
    let scratch = scratch();
    let sql = "select count(*) as n, 'a,b' as t, null as z";
    let said = scratch.thaw(["query", "app.thaw", sql]).exits(0);
    assert_eq!(said.out(), "n  t    z\n1  a,b\n");
    assert_eq!(scratch.thaw(["query", "app.thaw", sql, "--csv"]).exits(0).out(), "n,t,z\n1,\"a,b\",\n");
    let json = scratch.thaw(["query", "app.thaw", sql, "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.query/1");
    assert_eq!(json["rows"], serde_json::json!([[1, "a,b", null]]));
}

#[test]
fn a_query_changes_nothing() {
    let scratch = scratch();
    let before = std::fs::read(scratch.path("app.thaw")).unwrap();
    let said = scratch.thaw(["query", "app.thaw", "delete from runs"]);
    assert!(said.err().starts_with("thaw: "), "{}", said.framed());
    scratch.thaw(["query", "app.thaw", "selekt"]).complains("syntax error").hints("");
    assert_eq!(std::fs::read(scratch.path("app.thaw")).unwrap(), before);
    assert!(scratch.names("").iter().all(|name| !name.starts_with("app.thaw-")), "no journal beside it");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = scratch();
    let sql = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) select i from n";
    let mut command = scratch.command();
    command.args(["query", "app.thaw", sql, "--csv"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let scratch = scratch();
    let mut command = scratch.command();
    command.args(["report", "app.thaw"]).stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    Said::of(command).exits(3).complains("cannot write the answer");
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let scratch = scratch();
    scratch.thaw(["report", "app.thaw"]).says_not("\x1b[");
    scratch.thaw(["report", "app.thaw", "--color", "always"]).says("\x1b[1m");
    let mut command = scratch.command();
    command.args(["report", "app.thaw"]).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    Said::of(command).says("\x1b[1m");
}

//! `thaw gate` and `thaw compare` on recordings whose figures are known: what passes, what fails, what is refused.

use crate::made::{self, Of};
use crate::scratch::{Said, Scratch, alone};
use recording::{Header, Reader, Replace, Writer};
use serde_json::{Value, json};

const COLD: [u64; 10] = [1210, 1195, 1203, 1198, 1207, 1201, 1196, 1204, 1199, 1202];
/// Ten starts that scatter by half of their time.
const WILD: [u64; 10] = [700, 1900, 1100, 2300, 800, 1500, 1000, 2100, 900, 1300];

fn scaled(times: &[u64], factor: f64) -> Vec<u64> {
    times.iter().map(|ms| (*ms as f64 * factor) as u64).collect()
}

fn plan() -> Value {
    json!({ "runs": 10, "states": ["cold"], "ready": ["exit"] })
}

/// A recording of `app --fast`, changed by `change`.
fn record(scratch: &Scratch, name: &str, times: &[u64], change: impl FnOnce(&mut Of<'_>)) {
    let cells = [("app", times)];
    let facts = [("cpu", "model", "A"), ("disk:vda", "model", "m"), ("machine", "boot_id", name)];
    let mut of = Of { argv: &["/old/bin/app", "--fast"], plan: plan(), facts: &facts, cold_ms: &cells };
    change(&mut of);
    made::of(&scratch.path(name), &of);
}

/// The verdict on a start that takes `factor` times as long.
fn judged(factor: f64, words: &[&str]) -> Said {
    between(&COLD, &scaled(&COLD, factor), words)
}

fn between(before: &[u64], after: &[u64], words: &[&str]) -> Said {
    let scratch = Scratch::new();
    record(&scratch, "before.thaw", before, |_| {});
    record(&scratch, "after.thaw", after, |of| of.argv = &["/new/bin/app", "--fast"]);
    scratch.thaw(["gate", "before.thaw", "after.thaw"].iter().chain(words))
}

#[test]
fn the_gate_fails_only_for_a_regression_that_is_certain() {
    judged(1.0, &[]).exits(0).says("The gate is passed");
    judged(1.2, &[]).exits(1).says("FAIL").says("not passed");
    judged(1.2, &["--max-regression", "30%"]).exits(0).says("The gate is passed (limit +30.0 %)");
}

#[test]
fn undecided_is_its_own_word_and_never_passed() {
    let wild = |words: &[&str]| between(&WILD, &scaled(&WILD, 1.1), words);
    wild(&[]).exits(1).says("The gate is undecided").says_not("is passed").says("runs of each would decide");
    wild(&["--undecided", "pass"]).exits(0).says("The gate is undecided").says_not("is passed");
    wild(&["--undecided", "warn"]).exits(0).complains("the gate is undecided");
    let json = wild(&["--json"]).exits(1).json();
    assert_eq!((&json["verdict"]["outcome"], &json["passes"]), (&"undecided".into(), &false.into()));
    wild(&["--markdown"]).exits(1).says("### Start-up: undecided");
    // What fails is no matter of taste.
    judged(1.2, &["--undecided", "pass"]).exits(1).says("FAIL");
}

#[test]
fn the_gate_speaks_json_and_markdown() {
    let json = judged(1.2, &["--json"]).exits(1).json();
    assert_eq!((&json["schema"], &json["passes"]), (&"thaw.gate/3".into(), &false.into()));
    let figure = &json["verdict"]["figures"][0];
    assert_eq!(
        (&figure["metric"], &figure["state"], &figure["outcome"]),
        (&"time".into(), &"cold".into(), &"fail".into())
    );
    assert!(figure["p_above_of_all"].as_f64().unwrap() < 0.001);
    judged(1.2, &["--markdown"]).exits(1).says("NOT passed").says("| app | cold | time | 1.202 s |").says("**FAIL**");
}

#[test]
fn a_share_is_never_taken_for_hundreds_of_percent() {
    let scratch = Scratch::new();
    record(&scratch, "a.thaw", &COLD, |_| {});
    let said = scratch.thaw(["gate", "a.thaw", "a.thaw", "--max-regression", "5"]).exits(2);
    said.complains("'5' would be 500 %; write 5%");
    scratch.thaw(["record", "--precision", "2", "--", "true"]).exits(2).complains("write 2%");
    scratch.thaw(["gate", "a.thaw", "a.thaw", "--max-regression", "0%"]).complains("");
    judged(0.9, &["--max-regression", "0%"]).exits(0).says("within the 0 %");
}

#[test]
fn other_programs_set_ups_and_machines_are_refused_by_name() {
    let scratch = Scratch::new();
    record(&scratch, "a.thaw", &COLD, |_| {});
    record(&scratch, "program.thaw", &COLD, |of| of.argv = &["/old/bin/other", "--fast"]);
    record(&scratch, "words.thaw", &COLD, |of| of.argv = &["/old/bin/app", "--slow"]);
    record(&scratch, "setup.thaw", &COLD, |of| of.plan["disk"] = "laptop2010".into());
    record(&scratch, "effort.thaw", &COLD, |of| of.plan["runs"] = 50.into());
    record(&scratch, "machine.thaw", &COLD, |of| of.facts = &[("cpu", "model", "B"), ("disk:vda", "model", "m")]);
    let refused = |other: &str, because: &str, kind: &str| {
        let said = scratch.thaw(["gate", "a.thaw", other]).exits(2).says_not("The gate").complains(because);
        said.hints(&format!("--allow {kind}"));
        let allowed = scratch.thaw(["gate", "a.thaw", other, "--allow", kind]).exits(0).says("The gate is passed");
        allowed.says("differs");
    };
    refused("program.thaw", "program: /old/bin/app --fast before, /old/bin/other --fast after", "program");
    refused("words.thaw", "/old/bin/app --slow after", "program");
    refused("setup.thaw", "disk: none before, laptop2010 after", "setup");
    refused("machine.thaw", "cpu model: A before, B after", "machine");
    scratch.thaw(["gate", "a.thaw", "effort.thaw"]).exits(0);
    // What the gate refuses, compare warns about.
    scratch.thaw(["compare", "a.thaw", "program.thaw"]).exits(0).says("the program differs");
}

#[test]
fn every_metric_can_be_judged_with_a_limit_of_its_own() {
    let said = judged(1.2, &["--metric", "time=30%,cpu,bytes=0%,requests,faults,major-faults,memory"]).exits(0);
    said.says("cold time: 20.0 % slower").says("time +30.0 %").says("bytes +0.0 %").says("cpu +5.0 %");
    judged(1.2, &["--metric", "milestone:exit"]).exits(1).says("cold milestone:exit: 20.0 % slower");
    judged(1.0, &["--metric", "instructions"]).exits(1).says("unknown, for no run before has this figure");
    judged(1.0, &["--metric", "speed"]).exits(2).complains("'speed' is no metric");
}

#[test]
fn budgets_need_nothing_to_compare_with() {
    let scratch = Scratch::new();
    record(&scratch, "a.thaw", &COLD, |_| {});
    record(&scratch, "slow.thaw", &scaled(&COLD, 1.2), |_| {});
    let judged = |budget: &str, words: &[&str]| {
        let text = format!("schema = \"thaw.budgets/1\"\n[[budget]]\n{budget}\n");
        std::fs::write(scratch.path("start.toml"), text).unwrap();
        scratch.thaw(["gate", "--budgets", "start.toml"].iter().chain(words))
    };
    judged("time = '1.3s'", &["a.thaw"]).exits(0).says("within the 1.30").says("The gate is passed (limit 1.300 s)");
    judged("time = '1.1s'", &["a.thaw"]).exits(1).says("FAIL").says("more than the 1.10").says("not passed");
    judged("time = '1201ms'", &["a.thaw"]).exits(1).says("The gate is undecided").says("cannot tell");
    let json = judged("time = '1.1s'\nrequests = 1000000", &["a.thaw", "--json"]).exits(1).json();
    let figures = json["verdict"]["figures"].as_array().unwrap();
    let of = |metric: &str| figures.iter().find(|figure| figure["metric"] == metric).unwrap();
    assert_eq!((&of("time")["limit"], &of("time")["outcome"]), (&json!({ "at_most": 1.1 }), &"fail".into()));
    assert_eq!((&of("requests")["outcome"], &json["before"]), (&"pass".into(), &Value::Null));
    judged("time = '1.1s'", &["a.thaw", "--markdown"]).exits(1).says("| at most 1.100 s | 1.202 s |");
    // Growth and a budget, in one verdict.
    let both = "time = '9s'\n[[budget]]\ntime = '+5%'";
    judged(both, &["a.thaw", "a.thaw"]).exits(0).says("limits: time +5.0 %, time 9.000 s");
    judged(both, &["a.thaw", "slow.thaw"]).exits(1).says("more than the 5 %").says("within the 9.000 s");
    judged(both, &["a.thaw"]).exits(2).complains("time may grow, and there is nothing to compare with");
    // What the recording has no runs of is never passed unseen.
    let said = judged("time = '9s'\n[[budget]]\nstate = 'hot'\ntime = '1s'", &["a.thaw"]).exits(5);
    said.complains("the limit of time is for hot; the runs are cold of app");
    judged("variant = 'new'\ntime = '1s'", &["a.thaw"]).exits(5).complains("is for new; the runs are cold of app");
    made::recording(&scratch.path("cold.thaw"), &COLD, &[]);
    made::recording(&scratch.path("both.thaw"), &COLD, &COLD);
    let grown = "time = '9s'\n[[budget]]\nstate = 'hot'\ncpu = '+5%'";
    judged(grown, &["both.thaw", "both.thaw"]).exits(0);
    let said = judged(grown, &["cold.thaw", "both.thaw"]).exits(5);
    said.complains("cold.thaw").complains("the limit of cpu is for hot; the runs are cold of app");
    judged("time = 400", &["a.thaw"]).exits(5).complains("budget 1: time: 400 has no unit");
    judged("time = '1s'", &["a.thaw", "--metric", "cpu"]).exits(2).complains("--metric");
    scratch.thaw(["gate", "a.thaw", "--budgets", "none.toml"]).exits(5).complains("cannot read the budgets");
}

#[test]
fn variants_of_one_recording_are_judged_pair_by_pair() {
    let scratch = Scratch::new();
    // Each block is slower than the one before, by far more than the variants differ.
    let old: Vec<u64> = (0..10).map(|block| 1000 + 300 * block).collect();
    let new: Vec<u64> =
        old.iter().zip([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]).map(|(ms, noise)| ms * 110 / 100 + noise).collect();
    record(&scratch, "both.thaw", &COLD, |of| of.cold_ms = &[]);
    made::of(
        &scratch.path("two.thaw"),
        &Of { argv: &["app"], plan: plan(), facts: &[], cold_ms: &[("old", &old), ("new", &new)] },
    );
    scratch.thaw(["gate", "two.thaw", "--variants", "old,new"]).exits(1).says("FAIL").says("slower");
    scratch.thaw(["gate", "two.thaw", "--variants", "new,old"]).exits(0).says("The gate is passed");
    scratch.thaw(["gate", "two.thaw", "--variants", "old,other"]).exits(2).hints("its variants: old, new");
    scratch.thaw(["gate", "two.thaw"]).exits(2);
    let said = scratch.thaw(["compare", "two.thaw", "--variants", "old,new"]).exits(0);
    said.says("old -> new cold").says("p = 0.00");
    scratch.thaw(["compare", "two.thaw"]).exits(2);
}

#[test]
fn a_baseline_in_a_repository_stands_for_its_recording() {
    let scratch = Scratch::new();
    record(&scratch, "a.thaw", &COLD, |_| {});
    record(&scratch, "slow.thaw", &scaled(&COLD, 1.2), |_| {});
    record(&scratch, "other.thaw", &COLD, |of| of.argv = &["other"]);
    let said = scratch.thaw(["gate", "a.thaw", "--baseline", "start.json", "--write-baseline"]).exits(0);
    said.says("start.json: the figures of 10 runs of a.thaw");
    let size = std::fs::metadata(scratch.path("start.json")).unwrap().len();
    assert!(size < 16_384, "{size} bytes for ten runs");
    scratch.thaw(["gate", "a.thaw", "--baseline", "start.json"]).exits(0).says("The gate is passed");
    scratch.thaw(["gate", "slow.thaw", "--baseline", "start.json"]).exits(1).says("FAIL");
    scratch.thaw(["gate", "other.thaw", "--baseline", "start.json"]).exits(2).hints("--allow program");
    // It may be written again; what is no baseline stays.
    scratch.thaw(["gate", "slow.thaw", "--baseline", "start.json", "--write-baseline"]).exits(0);
    scratch.thaw(["gate", "slow.thaw", "--baseline", "start.json"]).exits(0);
    scratch.write("notes.json", "{}");
    let said = scratch.thaw(["gate", "a.thaw", "--baseline", "notes.json", "--write-baseline"]).exits(2);
    said.complains("will not replace").complains("no baseline");
    scratch.thaw(["gate", "a.thaw", "--baseline", "notes.json"]).exits(5).hints("--write-baseline");
    assert_eq!(std::fs::read(scratch.path("notes.json")).unwrap(), b"{}");
}

#[test]
fn until_decided_adds_blocks_to_the_recording_and_no_look_costs_extra() {
    let _machine = alone();
    let scratch = Scratch::new();
    let quick = scratch.script("quick", "sleep 0.02");
    let slow = scratch.script("slow", "sleep 0.3");
    let variant = format!("slow={}", slow.display());
    let mut words = vec!["record", "-o", "two.thaw", "--state", "hot", "--runs", "3", "--needed", "no"];
    words.extend(["--variant", &variant, "--", quick.to_str().unwrap()]);
    scratch.thaw(&words).exits(0);
    let judge = ["gate", "two.thaw", "--variants", "quick,slow"];
    scratch.thaw(judge).exits(1).says("The gate is undecided").says("too few runs for a verdict");
    let said = scratch.thaw(judge.iter().chain(&["--until-decided", "--budget", "5m"])).exits(1);
    said.says("FAIL").says("The gate is not passed").says("3 looks while runs were added share the error of 5 %");
    // 3 pairs, then 3 more twice: 1/64 is not below 5 %/(2 * 3), 1/512 is below 5 %/(3 * 4).
    let count = "select count(distinct block), count(*) from runs where kind = 'timed' and accepted group by variant";
    assert_eq!(scratch.thaw(["query", "two.thaw", count, "--csv"]).exits(0).out().lines().nth(1), Some("9,9"));
    scratch.thaw(["gate", "two.thaw", "--variants", "slow,quick", "--until-decided"]).exits(0).says_not("looks");
    scratch.nothing_left();
}

#[test]
fn until_decided_follows_the_stored_plan_and_no_words() {
    let _machine = alone();
    let scratch = Scratch::new();
    let words = ["record", "-o", "typed.thaw", "--state", "hot", "--runs", "3", "--needed", "no", "--ok-exit", "0,3"];
    let program = ["--variant", "other=sh -c 'exit 3'", "--", "sh", "-c", ":"];
    scratch.thaw(words.iter().chain(&program)).exits(0);
    // The same recording, made by a command line that this thaw does not know.
    let reader = Reader::open(scratch.path("typed.thaw")).unwrap();
    let header = Header { command_line: vec!["thaw".into(), "begin".into()], ..reader.header().unwrap() };
    assert_eq!(header.plan["how"]["schema"], "thaw.plan/1");
    again(&scratch, "other.thaw", &reader, &header);
    adds_blocks(&scratch, "other.thaw", "hot");
    // In another form nothing is guessed.
    let mut header = header;
    header.plan["how"]["schema"] = "thaw.plan/2".into();
    again(&scratch, "later.thaw", &reader, &header);
    let refused = scratch.thaw(["gate", "later.thaw", "--variants", "sh,other", "--until-decided"]).exits(5);
    refused.complains("its form is 'thaw.plan/2'");
    scratch.nothing_left();
}

#[test]
fn a_recording_from_before_plans_were_stored_is_understood_by_its_words() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recording/plan-of-words.thaw");
    std::fs::copy(fixture, scratch.path("words.thaw")).unwrap();
    scratch.thaw(["report", "words.thaw"]).exits(0).says("What a traced cold start of sh read");
    adds_blocks(&scratch, "words.thaw", "cold");
    scratch.nothing_left();
}

/// The runs of a recording in one with another header.
fn again(scratch: &Scratch, name: &str, runs: &Reader, header: &Header) {
    let mut writer = Writer::create(scratch.path(name), header, Replace::Never).unwrap();
    runs.variants().unwrap().iter().for_each(|variant| writer.add_variant(variant).unwrap());
    for (row, milestones) in runs.runs().unwrap() {
        writer.add_run(&row, &milestones, &[]).unwrap();
    }
    writer.finish().unwrap();
}

/// Three blocks are too few for a verdict, so blocks are added: of the same programs, with exit code 3 as it was
/// recorded.
fn adds_blocks(scratch: &Scratch, recording: &str, state: &str) {
    let gate = ["gate", recording, "--variants", "sh,other", "--max-regression", "99%", "--until-decided"];
    // What so short starts say of each other is chance.
    scratch.thaw(gate.iter().chain(&["--budget", "1m"])).says("looks while runs were added");
    let count = format!(
        "select count(distinct block) > 3, min(exit_code), max(exit_code) from runs where kind = 'timed' and accepted \
         and state = '{state}'"
    );
    assert_eq!(scratch.thaw(["query", recording, &count, "--csv"]).exits(0).out().lines().nth(1), Some("1,0,3"));
}

/// The relocations that readelf counts in a file; of packed tables what their words stand for.
fn relocations_of(path: &str) -> u64 {
    let said = std::process::Command::new("readelf").args(["-rW", path]).env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let entries = text.lines().filter(|line| line.starts_with("Relocation section") && !line.contains("'.relr"));
    let entries = entries.map(|line| line.split_once("contains ").unwrap().1.split_once(' ').unwrap().0);
    let packed = text.lines().filter_map(|line| line.trim().strip_suffix(" offsets"));
    entries.chain(packed).map(|number| number.parse::<u64>().unwrap()).sum()
}

#[test]
fn relocations_are_those_of_the_files_that_a_start_maps() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    scratch.thaw(["record", "-o", "true.thaw", "--state", "hot", "--runs", "2", "--", "/bin/true"]).exits(0);
    let asked = "SELECT DISTINCT path FROM mmaps JOIN files USING (run, file) WHERE exec AND path LIKE '/%'";
    let json = scratch.thaw(["query", "true.thaw", asked, "--json"]).exits(0).json();
    let paths: Vec<&str> = json["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert!(paths.iter().any(|path| path.contains("libc.so")), "{paths:?}");
    let entries: u64 = paths.iter().map(|path| relocations_of(path)).sum();
    let judged = |most: u64| {
        let text = format!("schema = \"thaw.budgets/1\"\n[[budget]]\nrelocations = {most}\n");
        scratch.write("most.toml", text.into_bytes());
        scratch.thaw(["gate", "true.thaw", "--budgets", "most.toml"])
    };
    judged(entries).exits(0).says("hot relocations").says("within");
    judged(entries - 1).exits(1).says("hot relocations").says(&format!("more than the {}", entries - 1));
}

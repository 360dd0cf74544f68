//! `thaw heap report`, `diff` and `export` on a program whose allocations are known.

use crate::heap::guest;
use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records the fixture: `modes.heap`.
pub fn recorded(scratch: &Scratch, recording: &str, flags: &[&str]) -> bool {
    if !guest() {
        return false;
    }
    let source = root().join("fixtures/heap/modes.c");
    let program = scratch.path("modes");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-w", "-fno-builtin", "-fno-optimize-sibling-calls", "-o"]).arg(&program);
    if !testing::compiled(compiler.arg(source).args(flags).arg("-lpthread")) {
        return false;
    }
    scratch.thaw(["heap", "run", "--force", "-o", recording, "--", program.to_str().unwrap()]).exits(0);
    true
}

pub fn report(scratch: &Scratch, more: &[&str]) -> Value {
    let words = ["heap", "report", "modes.heap", "--json", "--top", "1000"];
    scratch.thaw(words.iter().chain(more)).exits(0).json()
}

/// Bytes and blocks of a measure, in all.
pub fn total(report: &Value, measure: &str) -> (u64, u64) {
    let held = &report["total"][measure];
    (held["bytes"].as_u64().unwrap(), held["blocks"].as_u64().unwrap())
}

#[test]
fn one_recording_answers_all_modes() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    // made, end, peak, temporary, handed over
    let none = (0, 0);
    for (function, made, end, peak, temporary, handed_over) in [
        ("leak", (10_000, 10), (10_000, 10), (10_000, 10), none, none),
        ("churn", (6400, 100), none, none, (6400, 100), none),
        ("hold", (100_000, 50), none, (100_000, 50), none, none),
        ("give", (1500, 5), none, none, none, (1500, 5)),
        ("inner", (1500, 5), none, none, none, (1500, 5)),
        ("grow", (5500, 10), none, none, (1000, 1), none),
    ] {
        let report = report(&scratch, &["--function", function]);
        let found = ["made", "end", "peak", "temporary", "handed_over"].map(|measure| total(&report, measure));
        assert_eq!(found, [made, end, peak, temporary, handed_over], "{function}");
    }
    let all = report(&scratch, &["--mode", "live"]);
    let process = &all["processes"][0];
    assert_eq!(process["peak"]["bytes"].as_u64(), Some(total(&all, "peak").0), "the sites add up to the peak");
    for more in [&[][..], &["--frames", "1"], &["--alloc-functions"]] {
        let report = report(&scratch, more);
        let rows = report["rows"].as_array().unwrap().iter();
        let made: u64 = rows.map(|row| row["figures"]["made"]["bytes"].as_u64().unwrap()).sum();
        assert_eq!(made, total(&report, "made").0, "the rows add up to all: {more:?}");
    }

    // The moment of the peak, asked for as a time.
    let peak_ns = process["peak_at_ns"].as_u64().unwrap();
    let at = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let then = report(&scratch, &["--mode", "live", "--at", &at(peak_ns)]);
    assert_eq!(total(&then, "end"), total(&all, "peak"));
    let before = report(&scratch, &["--until", &at(peak_ns), "--function", "give"]);
    let after = report(&scratch, &["--since", &at(peak_ns + 1), "--function", "give"]);
    assert_eq!((total(&before, "made"), total(&after, "made")), ((0, 0), (1500, 5)));
    assert_eq!(total(&report(&scratch, &["--since", &at(peak_ns + 1), "--function", "leak"]), "made"), (0, 0));

    // By thread: the number of the first thread is the process's.
    let pid = process["pid"].to_string();
    assert_eq!(total(&report(&scratch, &["--thread", &pid]), "made"), total(&all, "made"));
    assert_eq!(total(&report(&scratch, &["--thread", "1"]), "made"), (0, 0));
    scratch.thaw(["heap", "report", "modes.heap", "--process", "1"]).exits(2).complains("no process 1");
    scratch.thaw(["heap", "report", "modes.heap", "--at", "end"]).exits(2).hints("--mode live");
}

#[test]
fn what_nothing_fits_is_said() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let report = |words: &[&str]| scratch.thaw(["heap", "report", "modes.heap"].iter().chain(words));
    report(&["--module", "libnone"]).exits(0).says("no block fits --module libnone").says("--tree module");
    report(&["--function", "no_such", "--since", "100"]).exits(0).says("--function no_such, --since 100");
    report(&["--since", "100"]).exits(0).says("All blocks that were made after 100.0 s: 0 B");
    report(&["--mode", "live", "--at", "100"]).exits(0).says("Live after 100.0 s").says_not("no block fits");
    report(&["--min-bytes", "1GiB"]).exits(0).says("no site has as many bytes");
    report(&["--min-bytes", "50kB"]).exits(0).says("1. 100.0 kB in 50 blocks").says_not("\n2. ");
    for percent in ["nan", "101"] {
        report(&["--tree", "down", "--threshold", percent]).exits(2).complains("not between 0 and 100");
    }
}

#[test]
fn frames_have_names_lines_and_inlined_functions() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let report = report(&scratch, &["--function", "give", "--tree", "down", "--threshold", "0"]);
    let frames = report["rows"][0]["frames"].as_array().unwrap();
    let named = |frame: &Value| frame["function"].as_str().unwrap_or_default().to_owned();
    assert_eq!(frames[..3].iter().map(named).collect::<Vec<_>>(), ["inner", "give", "main"]);
    assert_eq!(frames[0]["inlined"], true);
    assert_eq!(frames[1]["inlined"], false);
    assert!(frames[0]["file"].as_str().unwrap().ends_with("modes.c"));
    assert!(frames[0]["line"].as_u64().unwrap() < frames[1]["line"].as_u64().unwrap());
    let mut node = &report["tree"];
    let mut path = Vec::new();
    while let Some(child) = node["children"].get(0) {
        assert_eq!(child["total"]["bytes"], 1500);
        path.push(child["label"].as_str().unwrap().to_owned());
        node = child;
    }
    assert_eq!(path[path.len() - 3..], ["main", "give", "inner"]);
    assert_eq!(node["own"]["bytes"], 1500);
    let text = scratch.thaw(["heap", "report", "modes.heap", "--tree", "module", "--mode", "leaks"]).exits(0);
    text.says("leak (modes)");

    // Without debug data, symbol tables name the functions; without any, addresses are left.
    let program = scratch.path("modes");
    for (strip, expected) in [("--strip-debug", "give"), ("--strip-all", "modes+0x")] {
        if !Command::new("strip").arg(strip).arg(&program).status().is_ok_and(|status| status.success()) {
            return testing::skip("needs strip");
        }
        let report = scratch.thaw(["heap", "report", "modes.heap", "--top", "100"]).exits(0);
        report.says(expected);
    }
    // Another file in its place: what was looked up right after the recording is used.
    std::fs::write(&program, "not a program any more").unwrap();
    scratch.thaw(["heap", "report", "modes.heap", "--top", "100"]).exits(0).says("give").says_not("have no names");
    std::fs::remove_file(scratch.path("modes.heap").join("names.json")).unwrap();
    scratch.thaw(["heap", "report", "modes.heap"]).exits(0).says("have no names");
}

#[test]
fn debug_data_are_found_where_they_were_split_off_to() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &["-Wl,--build-id=none"]) {
        return;
    }
    let objcopy = |words: &[&str]| {
        let mut command = Command::new("objcopy");
        let done = command.args(words).current_dir(scratch.path("")).status();
        done.is_ok_and(|status| status.success())
    };
    if !objcopy(&["--only-keep-debug", "modes", "modes.debug"]) {
        return testing::skip("needs objcopy");
    }
    assert!(objcopy(&["--strip-all", "--add-gnu-debuglink=modes.debug", "modes"]));
    std::fs::remove_file(scratch.path("modes.heap").join("names.json")).unwrap();
    let lines = |report: Value| report["rows"][0]["frames"][1]["function"] == "give";
    assert!(lines(report(&scratch, &["--min-bytes", "1500", "--function", "give"])));
    // A file that is not the one of the link is not believed.
    std::fs::write(scratch.path("modes.debug"), "another").unwrap();
    scratch.thaw(["heap", "report", "modes.heap", "--top", "100"]).exits(0).says_not("give");
}

#[test]
fn debug_data_packed_with_zstd_are_read_and_where_they_are_damaged_symbol_tables_name_the_functions() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let mut command = Command::new("objcopy");
    let packed = command.args(["--compress-debug-sections=zstd", "modes"]).current_dir(scratch.path("")).status();
    if !packed.is_ok_and(|status| status.success()) {
        return testing::skip("needs an objcopy that compresses with zstd");
    }
    std::fs::remove_file(scratch.path("modes.heap").join("names.json")).unwrap();
    let inlined = report(&scratch, &["--function", "inner"]);
    assert_eq!(total(&inlined, "made"), (1500, 5), "an inlined function is known from debug data alone");

    const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut bytes = std::fs::read(scratch.path("modes")).unwrap();
    let frames: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&FRAME)).collect();
    assert!(!frames.is_empty(), "nothing was packed");
    frames.into_iter().for_each(|at| bytes[at..at + 4].fill(0));
    std::fs::write(scratch.path("modes"), bytes).unwrap();
    let report = scratch.thaw(["heap", "report", "modes.heap", "--top", "100"]).exits(0);
    report.says("give").says_not("modes+0x").says("no lines and no inlined functions");
}

#[test]
fn split_dwarf_is_read() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &["-gsplit-dwarf"]) {
        return;
    }
    let report = report(&scratch, &["--function", "inner"]);
    assert_eq!(total(&report, "made"), (1500, 5), "an inlined function is known from debug data alone");
    assert!(report["rows"][0]["frames"][0]["line"].as_u64().is_some());
}

#[test]
fn a_difference_sees_what_changed_and_not_where_lines_went() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) || !recorded(&scratch, "more.heap", &["-DMORE"]) {
        return;
    }
    let difference = scratch.thaw(["heap", "diff", "modes.heap", "more.heap", "--json"]).exits(0).json();
    let changes = difference["difference"]["changes"].as_array().unwrap();
    let found: Vec<_> = changes
        .iter()
        .map(|change| {
            let held = |side: &str| (change[side]["bytes"].as_u64().unwrap(), change[side]["blocks"].as_u64().unwrap());
            (change["frames"][0].as_str().unwrap(), held("before"), held("after"))
        })
        .collect();
    assert_eq!(found, [("leak (modes)", (10_000, 10), (12_000, 12)), ("fresh (modes)", (0, 0), (777, 7))]);
    let text = scratch.thaw(["heap", "diff", "modes.heap", "more.heap", "--mode", "leaks"]).exits(0);
    text.says("+2.0 kB in +2 blocks").says("new");
    // The same program under another name is no other one.
    std::fs::copy(scratch.path("modes"), scratch.path("modes.new")).unwrap();
    let program = scratch.path("modes.new");
    scratch.thaw(["heap", "run", "-o", "renamed.heap", "--", program.to_str().unwrap()]).exits(0);
    let renamed = scratch.thaw(["heap", "diff", "more.heap", "renamed.heap", "--json"]).exits(0).json();
    assert_eq!(renamed["difference"]["changes"], serde_json::json!([]));
    scratch.thaw(["heap", "diff", "modes.heap", "modes.heap"]).exits(0).says("+0 B in +0 blocks");
}

/// Exports and returns the file.
pub fn exported(scratch: &Scratch, format: &str, more: &[&str]) -> PathBuf {
    let name = format!("out.{format}");
    let words = ["heap", "export", "modes.heap", "--force", "--format", format, "-o", &name];
    scratch.thaw(words.iter().chain(more)).exits(0).says(&name);
    scratch.path(name)
}

pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn dmd_folded_and_speedscope_have_the_sums_of_the_report() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let made = total(&report(&scratch, &[]), "made");
    let lines = text(&exported(&scratch, "folded", &[]));
    let sum: u64 = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, made.0);
    assert!(lines.lines().any(|line| line.ends_with(";main;give;inner 1500")), "{lines}");
    scratch.thaw(["heap", "report", "modes.heap", "--folded", "report.folded"]).exits(0);
    assert_eq!(text(&scratch.path("report.folded")), lines);

    let scope: Value = serde_json::from_str(&text(&exported(&scratch, "speedscope", &[]))).unwrap();
    let profile = &scope["profiles"][0];
    assert_eq!(
        (&profile["type"], &profile["unit"], &profile["endValue"]),
        (&"sampled".into(), &"bytes".into(), &made.0.into())
    );
    let [samples, weights] = ["samples", "weights"].map(|name| profile[name].as_array().unwrap());
    assert_eq!(samples.len(), weights.len());
    let frames = scope["shared"]["frames"].as_array().unwrap().len() as u64;
    assert!(samples.iter().flat_map(|stack| stack.as_array().unwrap()).all(|frame| frame.as_u64().unwrap() < frames));

    for (mode, measure, args) in [("cumulative", "made", vec![]), ("live", "end", vec!["--mode", "leaks"])] {
        let dmd: Value = serde_json::from_str(&text(&exported(&scratch, "dmd", &args))).unwrap();
        assert_eq!((&dmd["version"], &dmd["invocation"]["mode"]), (&5.into(), &mode.into()));
        let (mut bytes, mut blocks) = (0, 0);
        let mut of_leak = BTreeMap::new();
        for block in dmd["blockList"].as_array().unwrap() {
            let number = block["num"].as_u64().unwrap_or(1);
            bytes += block["req"].as_u64().unwrap() * number;
            blocks += number;
            let trace = &dmd["traceTable"][block["alloc"].as_str().unwrap()];
            let innermost = dmd["frameTable"][trace[0].as_str().unwrap()].as_str().unwrap();
            assert!(innermost.starts_with("#00: "), "{innermost}");
            if innermost.contains("leak (") {
                *of_leak.entry(block["req"].as_u64().unwrap()).or_default() += number;
            }
        }
        assert_eq!((bytes, blocks), total(&report(&scratch, &[]), measure));
        assert_eq!(of_leak, BTreeMap::from([(1000, 10)]));
    }
}

#[test]
fn logalloc_lines_can_be_replayed() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let mut live = BTreeMap::new();
    let mut made = 0;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    for line in text(&exported(&scratch, "logalloc", &[])).lines() {
        let call = line.splitn(3, ' ').nth(2).unwrap();
        let (name, rest) = call.split_once('(').unwrap();
        let (arguments, result) = rest.split_once(')').unwrap();
        let arguments: Vec<&str> = arguments.split(',').collect();
        if name == "free" || (name == "realloc" && arguments[0] != "0x0") {
            assert!(live.remove(&number(arguments[0])).is_some(), "{line}");
        }
        if let Some(result) = result.strip_prefix('=') {
            let size: u64 = arguments.last().unwrap().parse().unwrap();
            assert_eq!(live.insert(number(result), size), None, "{line}");
            made += 1;
        }
    }
    let export = ["heap", "export", "modes.heap", "--force", "--format", "logalloc", "-o", "out.logalloc"];
    scratch.thaw(export).exits(0).says("written as calloc(1,BYTES)");
    let report = report(&scratch, &[]);
    assert_eq!((live.values().sum(), live.len() as u64), total(&report, "end"));
    assert_eq!(made, total(&report, "made").1);
}

/// What a runtime made has the names that it tells.
#[test]
fn functions_of_scripts_have_names_where_their_runtime_tells_them() {
    if !guest() {
        return;
    }
    if !Command::new("node").arg("--version").output().is_ok_and(|node| node.status.success()) {
        return testing::skip("needs node");
    }
    let scratch = Scratch::new();
    let script = "const keep = [];\nfunction makeBuffers(n) {\n  for (let i = 0; i < n; i++) \
        keep.push(Buffer.allocUnsafeSlow(20011));\n}\nfunction outer() { makeBuffers(300); }\nouter();\n";
    std::fs::write(scratch.path("script.js"), script).unwrap();
    let run = |options: &[&str]| {
        let words = ["heap", "run", "--force", "--json", "-o", "node.heap", "--", "node"];
        let said = scratch.thaw(words.iter().chain(options).chain(&["script.js"])).exits(0);
        let document = said.json();
        for process in document["report"]["processes"].as_array().unwrap() {
            let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", process["pid"]));
        }
        document
    };
    run(&["--perf-basic-prof", "--interpreted-frames-native-stack"]);
    let words = ["heap", "report", "node.heap", "--json", "--frames", "100", "--top", "1", "--function", "makeBuffers"];
    let report = scratch.thaw(words).exits(0).json();
    let made = &report["total"]["made"];
    assert!(made["bytes"].as_u64().unwrap() >= 300 * 20011, "{made}");
    let frames = report["rows"][0]["frames"].as_array().unwrap();
    let line_of = |function: &str| {
        let frame = frames.iter().find(|frame| frame["function"] == function).unwrap_or_else(|| panic!("{frames:#?}"));
        assert!(frame["file"].as_str().unwrap().ends_with("script.js"), "{frame}");
        frame["line"].as_u64().unwrap()
    };
    assert_eq!((line_of("makeBuffers"), line_of("outer")), (2, 5));
    // It is said how they are had.
    let document = run(&[]);
    assert!(document["report"]["warnings"].to_string().contains("--perf-basic-prof"), "{document:#}");
}

const STEPS: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept[1000];
int main(void) {
    for (int step = 0; step < 10; step++) {
        for (int i = 0; i < 100; i++) kept[step * 100 + i] = malloc(1000);
        for (int i = 0; i < 100; i++) free(malloc(500));
        usleep(150000);
    }
    return 0;
}"#;

/// Moments of a long run, as far as states of its sums were kept.
#[test]
fn moments_of_a_long_run_are_those_whose_sums_were_kept() {
    if !guest() {
        return;
    }
    let scratch = Scratch::new();
    let (source, program) = (scratch.path("steps.c"), scratch.path("steps"));
    std::fs::write(&source, STEPS).unwrap();
    if !testing::compiled(Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(source)) {
        return;
    }
    let run = |every: &str, keep: &str| {
        let words =
            ["heap", "run", "--force", "--aggregate", "--every", every, "--keep", keep, "-o", "modes.heap", "--"];
        scratch.thaw(words.iter().copied().chain([program.to_str().unwrap()]))
    };
    let states = || {
        let names = scratch.names("modes.heap").into_iter();
        let mut moments: Vec<u64> =
            names.filter_map(|name| name.strip_suffix(".state")?.split_once('.')?.1.parse().ok()).collect();
        moments.sort_unstable();
        moments
    };
    run("0.2s", "1h").exits(0);
    let moments = states();
    assert!(moments.len() > 2, "{moments:?}");
    let seconds = |moment: u64| format!("{}.{:03}", moment / 1000, moment % 1000);
    let whole = report(&scratch, &[]);
    assert_eq!((total(&whole, "made").1 % 200, total(&whole, "end")), (0, (1_000_000, 1000)));
    let mut before = ((0, 0), (0, 0));
    for (moment, last) in moments.iter().copied().zip([0].into_iter().chain(moments.iter().copied())) {
        let until = report(&scratch, &["--mode", "live", "--at", &seconds(moment)]);
        let (made, end) = (total(&until, "made"), total(&until, "end"));
        assert!(end.0 >= before.1.0 && end.0 == end.1 * 1000, "{end:?} after {before:?}");
        let between = report(&scratch, &["--since", &seconds(last), "--until", &seconds(moment)]);
        assert_eq!(total(&between, "made"), (made.0 - before.0.0, made.1 - before.0.1), "{last} to {moment}");
        before = (made, end);
    }
    assert!(before.1.0 > 0, "something was live at the last of them");
    let refused = ["heap", "report", "modes.heap", "--mode", "live", "--since", &seconds(moments[0])];
    scratch.thaw(refused).exits(2).complains("is not known");
    run("0.1s", "0.3s").exits(0);
    let moments = states();
    assert!((1..7).contains(&moments.len()), "{moments:?}");
    // Before the first one that is there nothing is known, which is not nothing.
    let early = report(&scratch, &["--until", &seconds(moments[0] - 1)]);
    assert_eq!(total(&early, "made"), (0, 0));
    assert!(early["warnings"].to_string().contains("nothing is known before"), "{early}");
    run("1ms", "1h").exits(2).hints("--every");
    let alone = ["heap", "run", "--force", "--every", "1s", "-o", "modes.heap", "--", "true"];
    scratch.thaw(alone).exits(2);
}

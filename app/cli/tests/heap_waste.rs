//! `thaw heap slop` and `thaw heap growth` on programs whose waste is known, and on containers that waste nothing;
//! `thaw counts`.

use crate::heap::guest;
use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A compiled fixture, with the symbols of its functions; `None` (counted as skipped) without its compiler or library.
fn compiled(scratch: &Scratch, compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        testing::skip(&format!("needs {compiler}"));
        return None;
    }
    let program = scratch.path(format!("{source}.program"));
    let output = Command::new(compiler)
        .arg("-o")
        .arg(&program)
        .arg(root().join("fixtures/heap").join(source))
        .args(flags)
        .current_dir(scratch.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cannot find -l") {
        testing::skip(&format!("needs the library of {flags:?}"));
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program)
}

/// What the verbs say of a program that was recorded.
struct Answers {
    scratch: Scratch,
    slop: Value,
    growth: Value,
}

fn answers(compiler: &str, source: &str, flags: &[&str], words: &[&str]) -> Option<Answers> {
    if !guest() {
        return None;
    }
    let scratch = Scratch::new();
    let program = compiled(&scratch, compiler, source, flags)?;
    let run = ["heap", "run", "--", program.to_str().unwrap()];
    scratch.thaw(run.iter().chain(words)).exits(0);
    let process = |verb: &str, schema: &str| {
        let document = scratch.thaw(["heap", verb, "--json", "--top", "50"]).exits(0).json();
        assert_eq!(document["schema"], schema);
        assert_eq!(document["warnings"], Value::Array(Vec::new()), "{document:#}");
        document["processes"][0].clone()
    };
    let (slop, growth) = (process("slop", "thaw.heap-slop/1"), process("growth", "thaw.heap-growth/1"));
    Some(Answers { scratch, slop, growth })
}

impl Answers {
    /// Where the clownshoes are: functions, innermost.
    fn clownshoes(&self) -> Vec<&str> {
        places(&self.slop["clownshoes"])
    }

    fn growers(&self) -> Vec<&str> {
        places(&self.growth["findings"])
    }

    #[track_caller]
    fn shoes_of(&self, place: &str) -> &Value {
        found(&self.slop["clownshoes"], place)
    }

    #[track_caller]
    fn growth_of(&self, place: &str) -> &Value {
        found(&self.growth["findings"], place)
    }
}

fn functions(found: &Value) -> impl Iterator<Item = &str> {
    found["site"].as_array().unwrap().iter().map(|frame| frame["function"].as_str().unwrap_or("?"))
}

fn places(found: &Value) -> Vec<&str> {
    let mut places: Vec<&str> = found.as_array().unwrap().iter().map(|one| functions(one).next().unwrap()).collect();
    places.sort_unstable();
    places
}

#[track_caller]
fn found<'a>(all: &'a Value, place: &str) -> &'a Value {
    let mut all_found = all.as_array().unwrap().iter();
    all_found.find(|one| functions(one).any(|name| name == place)).unwrap_or_else(|| panic!("{place}: {all:#}"))
}

const C: &[&str] = &["-O1", "-fno-builtin", "-fno-optimize-sibling-calls"];

#[test]
fn clownshoes_are_found_with_their_cause() {
    let Some(answers) = answers("cc", "clownshoes.c", C, &[]) else { return };
    assert_eq!(
        answers.clownshoes(),
        ["arena_chunk", "recycled", "sized_block", "string_end", "two_byte_string", "two_words"]
    );
    for (place, cause, certainty) in [
        ("two_byte_string", "terminator", "strong"),
        ("arena_chunk", "header", "strong"),
        ("sized_block", "stored-word", "probable"),
        ("recycled", "stored-word", "probable"),
        ("string_end", "terminator", "probable"),
        ("two_words", "stored-word", "probable"),
    ] {
        let shoes = answers.shoes_of(place);
        let size = &shoes["shoes"][0];
        let [request, ask, payload, over] =
            ["request", "ask", "payload", "over"].map(|field| size[field].as_u64().unwrap());
        assert_eq!((ask + over, ask - over, ask.is_power_of_two()), (request, payload, true), "{place}");
        assert_eq!((shoes["cause"].as_str(), shoes["certainty"].as_str()), (Some(cause), Some(certainty)), "{place}");
    }
    let shoes = answers.shoes_of("arena_chunk");
    let sizes = &shoes["shoes"];
    assert_eq!((sizes[0]["request"].as_u64(), sizes[0]["ask"].as_u64()), (Some(4135), Some(4096)));
    assert_eq!((sizes[0]["payload"].as_u64(), sizes[0]["blocks"].as_u64()), (Some(4057), Some(100)));
    assert_eq!(sizes[0]["most_live"], 100, "they are never freed");
    let waste = shoes["waste"].as_array().unwrap().iter().find(|waste| waste["model"] == "moz2011").unwrap();
    assert_eq!(waste["bytes"], 100 * (4057 + 2009));
    // 24 chunks of 32 KiB and a word, each rounded up by a page, one live at a time.
    let waste = &answers.shoes_of("recycled")["waste"];
    let waste = waste.as_array().unwrap().iter().find(|waste| waste["model"] == "moz2011").unwrap();
    assert_eq!((waste["bytes"].as_u64(), waste["most_live_bytes"].as_u64()), (Some(24 * 4088), Some(4088)));
    assert_eq!(answers.slop["allocator_model"], "glibc");
    assert_eq!(answers.slop["model"], "glibc");
    assert_eq!(answers.slop["given"], "recorded");
    let wasted = |rows: &Value| rows.as_array().unwrap().iter().map(|row| row["slop_bytes"].as_u64().unwrap()).sum();
    let recorded: u64 = wasted(&answers.slop["classes"]);
    assert_eq!(answers.slop["recorded"]["slop_bytes"].as_u64(), Some(recorded), "all classes together");
    assert_eq!(wasted(&answers.slop["sites"]), recorded, "all places together");
    let modelled = answers.scratch.thaw(["heap", "slop", "--json", "--model", "moz2011"]).exits(0).json();
    assert_eq!(modelled["processes"][0]["given"], "modelled");
    answers.scratch.thaw(["heap", "slop"]).exits(0).says("libc.so.6 (in use, recorded)").says("a payload of 4,057");
}

#[test]
fn slow_growth_is_found_and_doubling_is_not() {
    let Some(answers) = answers("cc", "growth.c", C, &[]) else { return };
    assert_eq!(answers.growers(), ["by_bytes", "by_eighths", "by_pages", "by_tenths", "larger", "the_same_again"]);
    let pages = answers.growth_of("by_pages");
    assert_eq!((pages["how"].as_str(), pages["shape"].as_str()), (Some("realloc"), Some("linear")));
    assert_eq!((pages["allocated_bytes"].as_u64(), pages["steps"].as_u64()), (Some(134_742_016), Some(255)));
    assert_eq!((pages["typical_step"].as_f64(), pages["avoidable_calls"].as_u64()), (Some(4096.0), Some(247)));
    let bytes = answers.growth_of("by_bytes");
    assert_eq!((bytes["allocated_bytes"].as_u64(), bytes["typical_step"].as_f64()), (Some(5000 * 5001 / 2), Some(1.0)));
    let eighths = answers.growth_of("by_eighths");
    assert_eq!(eighths["shape"], "exponential");
    assert!((eighths["typical_step"].as_f64().unwrap() - 1.125).abs() < 0.001, "{eighths:#}");
    let copying = answers.growth_of("copies_linearly");
    assert_eq!((copying["how"].as_str(), copying["shape"].as_str()), (Some("copy-and-free"), Some("linear")));
    assert_eq!(
        (copying["steps"].as_u64(), copying["copied_bytes"].as_u64()),
        (Some(99), Some(1000 * (100 * 101 / 2 - 1)))
    );
    let tenths = answers.growth_of("by_tenths");
    assert_eq!((tenths["shape"].as_str(), tenths["typical_step"].as_f64()), (Some("linear"), Some(100_000.0)));
    let again = answers.growth_of("the_same_again");
    assert_eq!((again["buffers"].as_u64(), again["predictable"].as_bool()), (Some(25), Some(true)));
    assert_eq!(pages["predictable"], false, "one buffer tells nothing about others");
    let swings = answers.growth["swings"].as_array().unwrap();
    assert_eq!((swings.len(), functions(&swings[0]).next()), (1, Some("by_turns")));
    assert_eq!((swings[0]["turns"].as_u64(), swings[0]["calls"].as_u64()), (Some(50), Some(100)));
    assert_eq!((swings[0]["least_bytes"].as_u64(), swings[0]["most_bytes"].as_u64()), (Some(20_000), Some(60_000)));
    assert_eq!(swings[0]["allocated_bytes"], 50 * 80_000);
    let text = answers.scratch.thaw(["heap", "growth"]).exits(0);
    text.says("linear, by 4.1 kB a step").says("probable").says("smaller and larger by turns").says("reserve 54.0 kB");
    answers.scratch.thaw(["heap", "growth", "--frames", "0"]).exits(2).complains("--frames");
}

/// The three sums of the article on growing buffers, of buffers that really grew.
#[test]
fn a_mib_byte_by_byte_page_by_page_and_doubled() {
    let Some(answers) = answers("cc", "growth.c", C, &["article"]) else { return };
    assert_eq!(answers.growers(), ["by_bytes", "by_pages"]);
    for (place, bytes) in [("by_bytes", 549_756_338_176u64), ("by_pages", 134_742_016)] {
        assert_eq!(answers.growth_of(place)["allocated_bytes"], bytes, "{place}");
    }
    let doubled = answers.scratch.thaw(["heap", "report", "--json", "--function", "by_doubling"]).exits(0).json();
    assert_eq!(doubled["total"]["made"]["bytes"], 2_093_056);
    assert_eq!(answers.growth["allocated_bytes"], 549_756_338_176u64 + 134_742_016 + 2_093_056);
}

#[test]
fn the_containers_of_cpp_waste_nothing() {
    let Some(answers) = answers("c++", "containers.cpp", &["-O2"], &[]) else { return };
    assert!(answers.growth["grown_buffers"].as_u64().unwrap() >= 60, "vectors and strings were followed");
    assert_eq!((answers.clownshoes(), answers.growers()), (vec![], vec![]), "{:#}", answers.growth);
    assert_eq!(answers.growth["swings"], Value::Array(Vec::new()));
}

#[test]
fn a_vector_of_cpp_that_reserves_one_more_is_found() {
    let Some(answers) = answers("c++", "containers.cpp", &["-O2"], &["slowly"]) else { return };
    assert_eq!(answers.growers().len(), 1);
    let found = answers.growth_of("one_at_a_time()");
    assert_eq!((found["how"].as_str(), found["typical_step"].as_f64()), (Some("copy-and-free"), Some(8.0)));
}

#[test]
fn the_collections_of_rust_waste_nothing() {
    let Some(answers) = answers("rustc", "containers.rs", &["--edition=2024", "-O"], &[]) else { return };
    assert!(answers.growth["grown_buffers"].as_u64().unwrap() >= 60, "vectors and strings were followed");
    assert_eq!((answers.clownshoes(), answers.growers()), (vec![], vec![]), "{:#}", answers.growth);
    assert_eq!(answers.growth["swings"], Value::Array(Vec::new()));
}

#[test]
fn a_vector_of_rust_that_reserves_one_more_is_found() {
    let Some(answers) = answers("rustc", "containers.rs", &["--edition=2024", "-O"], &["slowly"]) else { return };
    assert_eq!(answers.growers().len(), 1);
    let found = &answers.growth["findings"][0];
    assert_eq!((found["how"].as_str(), found["typical_step"].as_f64()), (Some("realloc"), Some(8.0)));
    assert_eq!(found["most_last_bytes"], 24_000);
}

#[test]
fn the_arrays_of_glib_waste_nothing() {
    let Some(answers) = answers("cc", "glib.c", &["-O1", "-l:libglib-2.0.so.0"], &[]) else { return };
    assert!(answers.growth["grown_buffers"].as_u64().unwrap() >= 60, "arrays and strings were followed");
    assert_eq!((answers.clownshoes(), answers.growers()), (vec![], vec![]), "{:#}", answers.growth);
    assert_eq!(answers.growth["swings"], Value::Array(Vec::new()));
}

#[test]
fn every_allocation_is_a_line_that_counts_reads() {
    let Some(answers) = answers("cc", "clownshoes.c", C, &[]) else { return };
    let lines = answers.scratch.thaw(["heap", "slop", "--lines", "--model", "moz2011"]).exits(0).out();
    assert_eq!(lines.lines().count() as u64, answers.slop["blocks"].as_u64().unwrap());
    answers.scratch.write("lines", &lines);
    let counted = answers.scratch.thaw(["counts", "lines"]).exits(0);
    let said = counted.out();
    let row = said.lines().find(|line| line.ends_with("small:    680 ->   1024 (   344 )")).unwrap_or_default();
    assert!(row.contains("      100 ("), "{said}");
    answers.scratch.thaw(["heap", "slop", "--model", "libc"]).exits(2).complains("jemalloc5");
}

#[test]
fn counts_counts_files() {
    let scratch = Scratch::new();
    scratch.write("a", "x 1\nx 2\n");
    scratch.write("b", "x 1");
    scratch.thaw(["counts", "a", "b"]).exits(0).says("3 counts\n(  1)        2 (66.7%, 66.7%): x 1\n");
    scratch.thaw(["counts", "-w", "-e", "a", "b"]).exits(0).says("4 counts (weighted integral, erased)\n");
    scratch.thaw(["counts", "-i", "-f", "a"]).exits(0).says("3.0 counts (weighted fractional)\n");
    scratch.thaw(["counts"]).exits(0).says("0 counts\n");
    scratch.thaw(["counts", "a", "none"]).exits(2).complains("none");
    scratch.write("large", "x 99999999999999999999");
    scratch.thaw(["counts", "-i", "large"]).exits(5).complains("64 bits").hints("-f");
}

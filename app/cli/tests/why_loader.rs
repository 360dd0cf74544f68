//! `thaw why`: the loader's share, and what would help.

use crate::scratch::{Said, Scratch, alone};
use std::process::Command;

/// Takes 20 ms of CPU time before main, and needs the library whose initialiser that is.
const LIBRARY: &str = "
#include <time.h>
static long used(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}
__attribute__((constructor)) static void warm_up(void) { long began = used(); while (used() - began < 20000000L) {} }
";

fn compiled(scratch: &Scratch, source: &str, options: &[&str]) -> bool {
    scratch.write("source.c", source);
    let mut compiler = Command::new("gcc");
    testing::compiled(compiler.current_dir(scratch.path("")).args(["-g", "source.c"]).args(options))
}

fn why(scratch: &Scratch, options: &[&str], program: &str) -> Said {
    let words = ["why", "-o", "x.thaw", "--force", "--trace-runs", "1", "--runs", "1"];
    scratch.thaw(words.iter().chain(options).chain(&["--", program]))
}

#[test]
fn an_initialiser_that_takes_long_is_named_and_deferring_it_would_help() {
    let _machine = alone();
    let scratch = Scratch::new();
    let here = format!("-Wl,-rpath,{}", scratch.path("").display());
    let built = compiled(&scratch, LIBRARY, &["-shared", "-fPIC", "-o", "libwarm.so"])
        && compiled(&scratch, "int main(void) {}", &["-o", "app", "-Wl,--no-as-needed", "-L.", "-lwarm", &here]);
    if !built || !testing::root_or_skip() {
        return;
    }
    let said = why(&scratch, &[], "./app").exits(0);
    said.says("What the loader of app does before main").says("relocate").says("warm_up").says("What would help");
    let json = scratch.thaw(["why", "--from", "x.thaw", "--json"]).exits(0).json();
    let [share] = &json["loader"].as_array().unwrap()[..] else { panic!("{}", json["loader"]) };
    let program = &share["programs"][0];
    let rows = program["initialisers"].as_array().unwrap();
    let row = rows.iter().find(|row| row["function"] == "warm_up").unwrap();
    assert!(row["took_ns"].as_u64().unwrap() > 19_000_000, "{row}");
    assert!(row["source"].as_str().unwrap().contains("source.c:"), "{row}");
    assert!(program["before_main_ns"].as_u64().unwrap() > row["took_ns"].as_u64().unwrap());
    assert!(share["cost"]["stops"].as_u64().unwrap() > 0);
    let helps = json["starts"][0]["helps"].as_array().unwrap();
    let help = helps.iter().find(|help| help["what"].as_str().unwrap().contains("warm_up")).unwrap();
    assert_eq!(help["gain_ns"], row["took_ns"], "{help}");
    let gains: Vec<u64> = helps.iter().map(|help| help["gain_ns"].as_u64().unwrap()).collect();
    assert!(gains.is_sorted_by(|a, b| a >= b), "{gains:?}");
    // It is a run of its own, which no other figure is made of.
    let kinds = scratch.thaw(["query", "x.thaw", "SELECT kind FROM runs JOIN loader_runs USING (run)"]).exits(0);
    kinds.says("touch");
    scratch.thaw(["report", "x.thaw"]).exits(0);
    scratch.nothing_left();
}

#[test]
fn what_cannot_be_watched_has_a_reason_and_no_number() {
    let _machine = alone();
    let scratch = Scratch::new();
    if !compiled(&scratch, "int main(void) {}", &["-static", "-o", "static"]) || !testing::root_or_skip() {
        return;
    }
    why(&scratch, &[], "./static").exits(0).says("not known: it is static").says_not("bootstrap");
    let json = why(&scratch, &["--json"], "./static").exits(0).json();
    let program = &json["loader"][0]["programs"][0];
    assert!(program["because"].as_str().unwrap().contains("static") && program["before_main_ns"].is_null());
    assert!(program["phases"].as_array().unwrap().is_empty());

    // A program that lets nobody else trace it.
    let traced = "#include <sys/ptrace.h>\nint main(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0) ? 3 : 0; }";
    if compiled(&scratch, traced, &["-o", "alone"]) {
        let json = why(&scratch, &["--json"], "./alone").exits(0).json();
        assert!(json["loader"].as_array().unwrap().is_empty());
        let warnings = json["warnings"].to_string();
        assert!(warnings.contains("the loader's share is not known of alone"), "{warnings}");
        assert!(warnings.contains("exit code 3"), "{warnings}");
    }
}

#[test]
fn the_loader_is_left_alone_where_nobody_asks() {
    let _machine = alone();
    let scratch = Scratch::new();
    if !testing::root_or_skip() {
        return;
    }
    let json = why(&scratch, &["--no-loader", "--json"], "/bin/true").exits(0).json();
    assert!(json["loader"].as_array().unwrap().is_empty());
    let kinds = scratch.thaw(["query", "x.thaw", "SELECT count(*) FROM runs WHERE kind = 'touch'"]).exits(0);
    kinds.says("0");
}

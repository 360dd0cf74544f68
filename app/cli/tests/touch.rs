//! touch: what each engine sees of programs whose touches are known, and what is said when one cannot look.

use crate::scratch::{Scratch, alone};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Touches pages 0, 7 and 100 of a mapping and reads pages 300 to 302 of a file; calls `used_once` twice and `unused` never.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
volatile unsigned char sink;
__attribute__((noinline)) void used_once(const unsigned char *data, long page) { sink = data[page * 4096 + 5]; }
__attribute__((noinline)) void unused(void) { sink = 1; }
int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDONLY);
    unsigned char *data = mmap(0, 1 << 22, PROT_READ, MAP_PRIVATE, fd, 0);
    used_once(data, 0);
    used_once(data, 100);
    used_once(data, 7);
    static char buffer[3 * 4096];
    if (pread(fd, buffer, sizeof buffer, 300 * 4096) != sizeof buffer) return 1;
    if (argc > 2) unused();
    return 0;
}
"#;

/// The program and its data, on a disk; `None`: no compiler.
fn build(scratch: &Scratch, flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let source = scratch.write("app/known.c", PROGRAM);
    let data = scratch.write("app/data", vec![b'x'; 1 << 22]);
    let program = scratch.path("app/known");
    let built = Command::new("cc").arg("-O1").args(flags).arg(&source).arg("-o").arg(&program).status();
    if !built.is_ok_and(|status| status.success()) {
        testing::skip("needs a C compiler");
        return None;
    }
    Command::new("sync").arg("-f").arg(&data).status().unwrap();
    Some((program, data))
}

fn words<'a>(before: &[&'a str], program: &'a Path, data: &'a Path) -> Vec<&'a str> {
    let mut words = before.to_vec();
    words.extend(["--", program.to_str().unwrap(), data.to_str().unwrap()]);
    words
}

fn file<'a>(json: &'a Value, path: &Path) -> &'a Value {
    let files = json["programs"][0]["report"]["files"].as_array().unwrap();
    let path = path.canonicalize().unwrap();
    files
        .iter()
        .find(|file| file["path"] == path.to_str().unwrap())
        .unwrap_or_else(|| panic!("no {path:?} in {json:#}"))
}

#[test]
fn the_page_engine_sees_exactly_the_pages_that_are_touched() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some((program, data)) = build(&scratch, &[]) else { return };
    let said = scratch.thaw(words(&["touch", "--engine", "page", "-o", "p.thaw"], &program, &data)).exits(0);
    said.says("needs").says("read").says("exactly the pages");
    let json = scratch.thaw(["touch", "p.thaw", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.touch/1");
    assert_eq!(json["programs"][0]["report"]["version"], 1);
    assert_eq!(file(&json, &data)["needed"], 6 * 4096);
    assert!(file(&json, &data)["read"].as_u64().unwrap() > 6 * 4096, "read-ahead brings more");
    let sql = format!(
        "select offset_bytes / 4096 as page, length_bytes from touch join files using (run, file) \
         where engine = 'page' and path = '{}' order by position",
        data.display()
    );
    let rows = scratch.thaw(["query", "p.thaw", &sql, "--json"]).exits(0).json();
    let mut pages = Vec::new();
    for row in rows["rows"].as_array().unwrap() {
        let (first, len) = (row[0].as_u64().unwrap(), row[1].as_u64().unwrap() / 4096);
        pages.extend(first..first + len);
    }
    assert_eq!(pages, [0, 100, 7, 300, 301, 302], "in the order of the first touch");
    scratch.thaw(["report", "p.thaw", "-o", "p.html"]).exits(0);
    let page = std::fs::read_to_string(scratch.path("p.html")).unwrap();
    assert!(page.contains("thaw.touched/1") && page.contains("app/data"), "the page knows what was touched");
    // The same figures stand in the report of the recording.
    let report = scratch.thaw(["report", "p.thaw", "--json"]).exits(0).json();
    let files = report["traces"][0]["report"]["files"].as_array().unwrap();
    let known = files.iter().find(|file| file["path"] == data.canonicalize().unwrap().to_str().unwrap()).unwrap();
    assert_eq!(known["needed"], 6 * 4096);
    scratch.nothing_left();
}

#[test]
fn the_function_engine_names_what_was_called_and_runs_are_added() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some((program, data)) = build(&scratch, &[]) else { return };
    let look = ["touch", "--engine", "function", "-o", "f.thaw"];
    let said = scratch.thaw(words(&look, &program, &data)).exits(0);
    said.says("It calls").says("app/known");
    let path = program.to_str().unwrap();
    scratch.thaw(["touch", "f.thaw", "--file", path, "--top", "100"]).exits(0).says("used_once").says("main");
    let json = scratch.thaw(["touch", "f.thaw", "--file", path, "--json"]).exits(0).json();
    let calls = json["programs"][0]["calls"].as_array().unwrap();
    let names: Vec<&str> = calls.iter().filter_map(|call| call["name"].as_str()).collect();
    assert!(names.contains(&"main") && !names.contains(&"unused"), "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "used_once").count(), 1);
    let alone: u64 = calls.iter().map(|call| call["lonely_pages"].as_u64().unwrap()).sum();
    let functions = &file(&json, &program)["functions"];
    assert_eq!(functions["lonely_pages"], alone);
    assert!(calls.iter().all(|call| call["read"].is_null() && call["needed"].is_null()), "nobody looked");
    let said = scratch.thaw(["touch", "f.thaw"]).exits(0);
    said.says("side by side").says("lonely").says("a single one of them lies alone");
    assert_eq!(functions["starts"], "symbols");
    assert!(functions["called"].as_u64() < functions["total"].as_u64());
    scratch.thaw(words(&look, &program, &data)).exits(0);
    let runs = scratch.thaw(["query", "f.thaw", "select count(*) from runs where kind = 'touch'"]);
    runs.exits(0).says("2");
    scratch
        .thaw(["touch", "--engine", "function", "-o", "f.thaw", "--", "/bin/true"])
        .exits(2)
        .complains("known")
        .hints("-o");
    scratch.thaw(["touch", "--engine", "function", "-o", "f.thaw", "--force", "--", "/bin/true"]).exits(0).says("true");
    scratch.nothing_left();
}

#[test]
fn without_rights_pages_are_probed_and_functions_are_watched() {
    let scratch = Scratch::new();
    let Some((program, data)) = build(&scratch, &[]) else { return };
    let _machine = alone();
    let look = words(&["touch", "-o", "world.thaw"], &program, &data);
    let Some(said) = scratch.thaw_as_nobody(look) else { return };
    said.exits(0).says("After a start").says("cannot tell what was needed");
    let json = scratch.thaw(["touch", "world.thaw", "--json"]).exits(0).json();
    assert!(file(&json, &data)["resident"].as_u64().unwrap() >= 6 * 4096);
    assert!(file(&json, &data)["needed"].is_null());
    let order = scratch.thaw(["query", "world.thaw", "select count(position) from touch where engine = 'probe'"]);
    order.exits(0).says("0");
}

#[test]
fn what_cannot_be_watched_says_why() {
    let scratch = Scratch::new();
    scratch.thaw(["touch", "none.thaw"]).exits(5).complains("none.thaw");
    scratch.thaw(["touch", "--engine", "function", "--", "/no/such/program"]).exits(2);
    assert!(!scratch.path("thaw.thaw").exists());
    scratch.thaw(["touch", "--engine", "bytes", "--", "true"]).exits(2).complains("bytes");
    scratch.thaw(["touch", "x.thaw", "--", "true"]).exits(2);
    if cfg!(target_arch = "x86_64") {
        let failed =
            scratch.thaw(["touch", "--engine", "function", "-o", "failed.thaw", "--", "sh", "-c", "echo oh; exit 3"]);
        failed.exits(4).complains("oh");
        assert!(!scratch.path("failed.thaw").exists(), "a recording that says nothing is in the way");
        let Some((program, data)) = build(&scratch, &["-static", "-s"]) else { return };
        let said = scratch.thaw(words(&["touch", "--engine", "function"], &program, &data)).exits(0);
        said.says("linked statically");
    }
    scratch.thaw(["tracer"]).exits(2);
    let Some(said) = scratch.thaw_as_nobody(["touch", "--engine", "page", "-o", "no.thaw", "--", "true"]) else {
        return;
    };
    said.exits(3).hints("root");
    scratch.nothing_left();
}

/// Functions in an order that is not the one of their calls.
const TO_ORDER: &str = r#"
#include <stdlib.h>
volatile int sink;
#define F(name) __attribute__((noinline)) void name(void) { sink++; }
F(never_one) F(third) F(only_with_b) F(first) F(never_two) F(second) F(only_with_a)
int main(int argc, char **argv) {
    first(); second(); third();
    if (argc > 1 && argv[1][0] == 'a') only_with_a(); else only_with_b();
    return 0;
}
"#;

/// Names of functions by their address, of those that are asked for.
fn laid_out(program: &Path) -> Vec<String> {
    let said = Command::new("nm").arg("-n").arg(program).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(2));
    let ours = ["never", "first", "second", "third", "only", "main"];
    names.filter(|name| ours.iter().any(|our| name.starts_with(our))).map(String::from).collect()
}

#[test]
fn linkers_lay_functions_out_in_the_order_of_the_file() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let source = scratch.write("app.c", TO_ORDER);
    let compile = |linker: &[String], name: &str| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-ffunction-sections"]).arg(&source).arg("-o").arg(scratch.path(name)).args(linker);
        cc.output().is_ok_and(|said| said.status.success())
    };
    if !compile(&[], "app") {
        return testing::skip("needs a C compiler");
    }
    let app = scratch.path("app");
    let app = app.to_str().unwrap();
    for word in ["a", "b"] {
        let recording = format!("{word}.thaw");
        scratch.thaw(["touch", "--engine", "function", "-o", &recording, "--", app, word]).exits(0);
    }
    let both = ["first", "second", "third"];
    for (linker, fuse) in [("lld", "lld"), ("gold", "gold"), ("ld", "bfd")] {
        scratch
            .thaw(["order", "a.thaw", "b.thaw", "--for", linker, "-o", "order"])
            .exits(0)
            .says("2 workloads")
            .says(fuse);
        let order = scratch.path("order");
        let flag = match linker {
            "lld" => format!("-Wl,--symbol-ordering-file={}", order.display()),
            "gold" => format!("-Wl,--section-ordering-file={}", order.display()),
            _ => format!("-Wl,-T,{}", order.display()),
        };
        if !compile(&[format!("-fuse-ld={fuse}"), flag], "ordered") {
            testing::skip(&format!("needs {fuse}"));
            continue;
        }
        let laid = laid_out(&scratch.path("ordered"));
        let place =
            |name: &str| laid.iter().position(|other| other == name).unwrap_or_else(|| panic!("{name} in {laid:?}"));
        assert!(both.is_sorted_by_key(|name| place(name)), "{linker}: {laid:?}");
        assert!(place("third") < place("only_with_a") && place("third") < place("only_with_b"), "{linker}: {laid:?}");
        // gold puts what is not in the file first.
        let never = place("never_one").min(place("never_two"));
        assert!(linker == "gold" || place("only_with_b") < never, "{linker}: {laid:?}");
        assert!(Command::new(scratch.path("ordered")).arg("a").status().unwrap().success(), "{linker}: it still runs");
    }
    scratch.thaw(["order", "a.thaw", "b.thaw", "--list", "never"]).exits(0).says("never_one").says("never_two");
    let cold = scratch.thaw(["order", "a.thaw", "b.thaw", "--list", "cold"]).exits(0).says("only_with_a");
    assert!(!cold.out().contains("first"));
    let json = scratch.thaw(["order", "a.thaw", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.order/1");
    let names: Vec<&str> = json["order"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    let own: Vec<&&str> = names.iter().filter(|name| both.contains(name) || name.starts_with("only")).collect();
    assert_eq!(own, [&"first", &"second", &"third", &"only_with_a"], "one workload: the order of the calls");
    scratch.thaw(["order", "a.thaw", "--for", "mold"]).exits(2).hints("lld");

    // Stripped: the names come from a file of symbols, and only of the same build.
    Command::new("strip").arg("-o").arg(scratch.path("bare")).arg(app).status().unwrap();
    let bare = scratch.path("bare");
    scratch.thaw(["touch", "--engine", "function", "-o", "bare.thaw", "--", bare.to_str().unwrap(), "a"]).exits(0);
    scratch.thaw(["order", "bare.thaw"]).exits(5).hints("--symbols");
    let printed = scratch.thaw(["order", "bare.thaw", "--symbols", app]).exits(0).out();
    let lines: Vec<&str> = printed.lines().filter(|line| both.contains(line)).collect();
    assert_eq!(lines, both);
    Command::new("objcopy").arg("--only-keep-debug").arg(app).arg(scratch.path("app.debug")).status().unwrap();
    let by_debug = scratch.thaw(["order", "bare.thaw", "--symbols", "app.debug"]).exits(0).out();
    assert_eq!(by_debug, printed);
    assert!(compile(&["-Wl,--build-id=0x1234".to_owned()], "other"));
    scratch.thaw(["order", "bare.thaw", "--symbols", "other"]).exits(5).complains("another build");
    scratch.thaw(["order", "a.thaw", "bare.thaw"]).exits(2).complains("bare.thaw");
    scratch.nothing_left();
}

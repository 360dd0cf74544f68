//! touch: what each engine sees of programs whose touches are known, and what is said when one cannot look.

use crate::machine::{interrupt, until};
use crate::scratch::{Said, Scratch, alone, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Touches pages 0, 7 and 100 of a mapping and reads pages 300 to 302 of a file; calls `used_once` twice and `unused`
/// never.
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
    if !testing::compiled(Command::new("cc").arg("-O1").args(flags).arg(&source).arg("-o").arg(&program)) {
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
fn ctrl_c_at_the_second_engine_keeps_what_the_first_one_saw_and_says_so() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    // The function engine is a tracer; what comes after it is the other engine.
    let body = "if ! grep -q 'TracerPid:.*\\b0$' /proc/$$/status; then : > traced; \
                elif [ -e traced ]; then : > long; sleep 600; fi; :";
    let program = scratch.script("program", body);
    let mut command = scratch.command();
    command.args(["touch", "--engine", "auto", "-o", "t.thaw", "--quiet", "--"]).arg(program);
    command.stdout(std::fs::File::create(scratch.path("answer")).unwrap());
    let mut thaw = until(&scratch, command, "long");
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    let answer = std::fs::read_to_string(scratch.path("answer")).unwrap();
    assert!(answer.contains("functions"), "{answer}");
    scratch.thaw(["touch", "t.thaw"]).exits(0);
    scratch.nothing_left();
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
    said.says("It calls")
        .says("app/known")
        .says("thaw order f.thaw -o")
        .says_not("thaw preload make")
        .says_not(".rodata");
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
    let made = scratch.thaw(["preload", "make", "f.thaw", "-o", "f.preload"]).exits(2);
    made.complains("no traced, cold start").hints("--state cold");
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
    scratch.thaw(["touch", "none.thaw"]).exits(2).complains("none.thaw");
    scratch.thaw(["touch"]).exits(2).hints("thaw touch -o FILE -- PROGRAM");
    scratch.write("text", "no recording");
    scratch.thaw(["touch", "--engine", "function", "-o", "text", "--", "true"]).exits(5).hints("another file");
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

#[test]
fn calls_are_counted_and_what_is_wrong_with_a_pattern_or_the_program_is_said() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some((program, data)) = build(&scratch, &[]) else { return };
    let said = scratch.thaw(words(&["touch", "--calls", "used*", "--calls", "unused"], &program, &data)).exits(0);
    said.says("3 calls of 1 of the 2 functions")
        .says("used_once in known")
        .says("1 by main+0x")
        .says("Not called: unused.");
    assert!(!scratch.path("thaw.thaw").exists(), "no recording has them");
    let json = scratch.thaw(words(&["touch", "--json", "--calls", "used_once"], &program, &data)).exits(0).json();
    assert_eq!(json["schema"], "thaw.calls/1");
    let function = &json["functions"][0];
    assert_eq!((&function["calls"], &function["threads"], &function["stops"]), (&3.into(), &1.into(), &0.into()));
    let callers = function["callers"].as_array().unwrap();
    assert!(callers.len() == 3 && callers.iter().all(|caller| caller["function"] == "main" && caller["calls"] == 1));
    let times: Vec<u64> =
        function["noted"].as_array().unwrap().iter().map(|call| call["at_ns"].as_u64().unwrap()).collect();
    assert!(times.len() == 3 && times.is_sorted());
    assert_eq!((&function["first_ns"], &function["last_ns"]), (&times[0].into(), &times[2].into()));
    assert!(json["ready_ns"].as_u64().unwrap() >= times[2]);
    // One pattern that says nothing does not take the answer of the other away.
    let said = scratch.thaw(words(&["touch", "--calls", "used_once", "--calls", "used_one"], &program, &data)).exits(2);
    said.says("3 calls of 1").complains("matches 'used_one'").complains("no function of the");
    let failing = ["touch", "--calls", "used_once", "--", "sh", "-c", "\"$0\" \"$1\"; exit 3"];
    let said = scratch.thaw(failing.into_iter().chain([program.to_str().unwrap(), data.to_str().unwrap()])).exits(4);
    said.complains("exit code 3");
    scratch.thaw(["touch", "--calls", "x"]).exits(2).complains("no program is named");
    scratch.thaw(["touch", "--calls", "", "--", "true"]).exits(2);
    scratch.thaw(words(&["touch", "--calls", "x", "-o", "x.thaw"], &program, &data)).exits(2).complains("--output");
    scratch.nothing_left();
}

#[test]
fn ctrl_c_while_calls_are_counted_ends_the_program() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let body = "grep -q 'TracerPid:.*\\b0$' /proc/$$/status || { : > long; exec sleep 600; }";
    let program = scratch.script("program", body);
    let mut command = scratch.command();
    command.args(["touch", "--calls", "main", "--calls", "malloc", "--quiet", "--"]).arg(program);
    let mut thaw = until(&scratch, command, "long");
    interrupt(&thaw.0);
    assert_eq!(thaw.0.wait().unwrap().code(), Some(130));
    scratch.nothing_left();
}

/// Where `dev/icegrind` puts the byte engine's tool, built where needed; `None`: this machine cannot.
fn icegrind() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let said = Command::new(root().join("dev/icegrind")).output().unwrap();
    if said.status.code() == Some(3) {
        testing::skip("needs valgrind with its headers");
        return None;
    }
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    Some(target.join("icegrind"))
}

/// A program without any library, whose code does not depend on the processor and whose files nobody else uses. Its
/// functions lie on pages of their own; it touches some of a table, of its data and of a file.
const BARE: &str = r#"
#define PAGE 4096
#define ON_ITS_PAGE(name) __attribute__((noinline, aligned(PAGE), section(".text." #name)))
static long call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return number;
}
static const volatile unsigned char table[20 * PAGE] __attribute__((aligned(PAGE))) = { 1 };
static volatile unsigned char data[20 * PAGE] __attribute__((aligned(PAGE))) = { 1 };
static volatile unsigned char buffer[3 * PAGE];
ON_ITS_PAGE(a) int called(int page) { return table[page * PAGE + 9]; }
ON_ITS_PAGE(b) int never(int page) { return data[page * PAGE]; }
ON_ITS_PAGE(c) void stores(int page) { data[page * PAGE + 4095]++; }
__attribute__((used)) void start(long *stack) {
    const char **argv = (const char **)(stack + 1);
    int fd = call(2, (long)argv[1], 0, 0, 0, 0, 0);
    volatile unsigned char *file = (void *)call(9, 0, 1 << 22, 3, 2, fd, 0);
    int sum = called(3) + called(17) + file[0] + file[100 * PAGE + 5] + *(volatile long *)(file + 8 * PAGE - 3);
    stores(11);
    stores(12);
    file[500 * PAGE] = sum;
    call(17, fd, (long)buffer, sizeof buffer, 300 * PAGE, 0, 0);
    if (stack[0] > 9) sum = never(1);
    call(231, sum & 0, 0, 0, 0, 0, 0);
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start\n");
"#;

/// Pages of a file that an SQL condition on the touched rows finds, and those that were read and not mapped.
fn pages_of(scratch: &Scratch, recording: &str, path: &Path, engine: &str) -> BTreeSet<u64> {
    let path = path.canonicalize().unwrap();
    let ask = |table: &str, condition: &str| {
        let sql = format!(
            "select offset_bytes, length_bytes from {table} join files using (run, file) join runs using (run) \
             where path = '{}' and {condition}",
            path.display()
        );
        let json = scratch.thaw(["query", recording, &sql, "--json"]).exits(0).json();
        let rows = json["rows"].as_array().unwrap().clone();
        rows.into_iter().flat_map(|row| {
            let (from, len) = (row[0].as_u64().unwrap(), row[1].as_u64().unwrap());
            from / 4096..(from + len).div_ceil(4096)
        })
    };
    let mut pages: BTreeSet<u64> = ask("touch", &format!("engine = '{engine}'")).collect();
    if engine == "byte" {
        pages.extend(ask("reads", "run in (select run from touch where engine = 'byte')"));
    }
    pages
}

#[test]
fn the_byte_engine_sees_the_bytes_that_are_touched_and_the_page_engine_their_pages() {
    let Some(_) = icegrind() else { return };
    let _machine = alone();
    let scratch = Scratch::new();
    let Some((program, data)) = build(&scratch, &[]) else { return };
    let said = scratch.thaw(words(&["touch", "--engine", "byte", "-o", "b.thaw"], &program, &data)).exits(0);
    said.says("It touches").says("every byte of every mapped file");
    let json = scratch.thaw(["touch", "b.thaw", "--json"]).exits(0).json();
    assert_eq!(file(&json, &data)["touched"], serde_json::json!({ "bytes": 3, "pages": 3 }));
    assert!(file(&json, &data)["needed"].is_null());
    let sections = file(&json, &program)["sections"].as_array().unwrap();
    let text = sections.iter().find(|section| section["name"] == ".text").unwrap();
    assert!(text["touched"].as_u64().unwrap() > 100 && text["touched"].as_u64() < text["size"].as_u64());
    let sql = format!(
        "select offset_bytes, length_bytes, name from touch join files using (run, file) \
         where path = '{}' order by position",
        data.canonicalize().unwrap().display()
    );
    let rows = scratch.thaw(["query", "b.thaw", &sql, "--json"]).exits(0).json();
    let expected = [5, 100 * 4096 + 5, 7 * 4096 + 5].map(|at| serde_json::json!([at, 1, "read"]));
    assert_eq!(rows["rows"], serde_json::json!(expected));
    let path = program.to_str().unwrap();
    scratch.thaw(["touch", "b.thaw", "--file", path]).exits(0).says("of it").says(".text");
    scratch.nothing_left();
    if !testing::root_or_skip() {
        return;
    }
    let source = scratch.write("app/bare.c", BARE);
    let bare = scratch.path("app/bare");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"]).arg(source).arg("-o").arg(&bare);
    assert!(cc.status().unwrap().success());
    Command::new("sync").arg("-f").arg(&bare).status().unwrap();
    let both = ["touch", "--engine", "page,byte", "-o", "both.thaw"];
    scratch.thaw(words(&both, &bare, &data)).exits(0);
    let pages = |path: &Path, engine: &str| pages_of(&scratch, "both.thaw", path, engine);
    assert_eq!(pages(&data, "byte"), BTreeSet::from([0, 7, 8, 100, 300, 301, 302, 500]));
    assert_eq!(pages(&data, "page"), pages(&data, "byte"));
    // The kernel itself reads the head of the program. It also clears the rest of the page where .data ends and .bss
    // begins; here both end with their pages.
    let mut expected = pages(&bare, "byte");
    assert!(expected.insert(0) && expected.len() > 6, "{expected:?}");
    assert_eq!(pages(&bare, "page"), expected);
    let json = scratch.thaw(["touch", "both.thaw", "--json"]).exits(0).json();
    let engines = json["programs"][0]["report"]["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 2, "{engines:?}");
}

#[test]
fn programs_that_fail_or_cannot_be_watched_to_the_byte_say_why() {
    let scratch = Scratch::new();
    let byte = ["touch", "--engine", "byte", "-o", "x.thaw"];
    let missing = |words: &[&str]| {
        let mut command = scratch.command();
        command.args(words).env("THAW_ICEGRIND", scratch.path("nowhere"));
        Said::of(command)
    };
    missing(&[&byte[..], &["--", "true"]].concat()).exits(3).complains("icegrind").hints("make icegrind");
    let Some(tool) = icegrind() else { return };
    let _machine = alone();
    let thaw = |more: &[&str]| scratch.thaw([&byte[..], more].concat());
    let mut command = scratch.command();
    let no_valgrind = command.args(byte).args(["--", "/bin/true"]).env("PATH", scratch.path("nowhere"));
    no_valgrind.env("THAW_ICEGRIND", &tool);
    Said::of(command).exits(3).complains("valgrind").hints("install");
    thaw(&["--", "/no/such/program"]).exits(2);
    let with_rights = scratch.path("with-rights");
    testing::copy_program("/bin/true", &with_rights);
    std::fs::set_permissions(&with_rights, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    thaw(&["--", with_rights.to_str().unwrap()]).exits(3).complains("set-user-ID").hints("--engine page");
    assert!(!scratch.path("x.thaw").exists());
    // What a program touched until it failed is kept.
    thaw(&["--", "sh", "-c", "echo oh; kill -SEGV $$"]).exits(4).complains("oh").hints("thaw query");
    let kept = scratch.thaw(["query", "x.thaw", "select count(*) > 1000 from touch where engine = 'byte'", "--json"]);
    assert_eq!(kept.exits(0).json()["rows"][0][0], 1);
    scratch.nothing_left();
    let copy = scratch.path("tool");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&tool).unwrap().map(Result::unwrap) {
        testing::copy_program(entry.path(), copy.join(entry.file_name()));
    }
    std::fs::create_dir(scratch.path("libexec")).unwrap();
    std::fs::create_dir(scratch.path("bin")).unwrap();
    std::fs::rename(&copy, scratch.path("libexec/thaw")).unwrap();
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), scratch.path("bin/thaw"));
    let mut installed = scratch.command_of(&scratch.path("bin/thaw"));
    installed
        .args(["touch", "--engine", "byte", "-o", "installed.thaw", "--", "/bin/true"])
        .env_remove("THAW_ICEGRIND");
    Said::of(installed).exits(0).says("It touches");
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
fn static_functions_of_one_name_are_told_by_their_object_file() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let main = "int in_a(int), in_b(int), in_c(int);\n\
                int main(int argc, char **argv) { (void)argv; int sum = in_b(argc);\n\
                if (argc > 5) sum += in_a(argc) + in_c(argc); return sum == 0; }\n";
    scratch.write("main.c", main);
    for name in ["a", "b", "c"] {
        let text = format!(
            "static int __attribute__((noinline)) same(int n) {{ return n * 3 + '{name}'; }}\n\
             int __attribute__((noinline)) in_{name}(int n) {{ return same(n) + 1; }}\n"
        );
        scratch.write(&format!("{name}.c"), &text);
    }
    let sources = ["main", "a", "b", "c"];
    let cc = |arguments: &[&str]| {
        let said = Command::new("cc").arg("-O1").args(arguments).current_dir(scratch.path("")).output();
        said.is_ok_and(|said| said.status.success())
    };
    let compiled = sources.iter().all(|name| cc(&["-ffunction-sections", "-c", &format!("{name}.c")]));
    let objects = sources.map(|name| format!("{name}.o"));
    let [main, a, b, c] = objects.each_ref().map(String::as_str);
    if !compiled || !cc(&["-fuse-ld=bfd", main, a, b, c, "-o", "app"]) {
        return testing::skip("needs a C compiler and GNU ld");
    }
    let app = scratch.path("app");
    scratch.thaw(["touch", "--engine", "function", "-o", "a.thaw", "--", app.to_str().unwrap()]).exits(0);
    let page = scratch.thaw(["order", "a.thaw", "--for", "ld", "-o", "order"]).exits(0);
    page.says("1 called function shares its name with others: they are told by the object file");
    scratch.thaw(["order", "a.thaw", "-o", "lld.order"]).exits(0).says("--for ld");
    let json = scratch.thaw(["order", "a.thaw", "--json"]).exits(0).json();
    let same = json["order"].as_array().unwrap().iter().find(|function| function["name"] == "same").unwrap();
    assert_eq!((&same["source"], &json["shared"]), (&"b.c".into(), &1.into()));
    assert!(cc(&["-fuse-ld=bfd", "-Wl,-T,order", main, a, b, c, "-o", "ordered"]));
    assert!(Command::new(scratch.path("ordered")).status().unwrap().success(), "it still runs");
    // The called one is right behind its caller; the others are behind all that is called.
    let said = Command::new("nm").arg("-nS").arg(scratch.path("ordered")).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let all: Vec<usize> = (0..names.len()).filter(|at| names[*at] == "same").collect();
    assert_eq!((all.len(), all[0]), (3, place("in_b") + 1), "{names:?}");
    let bytes = std::fs::read(scratch.path("ordered")).unwrap();
    let known = touch::function::Names::of(&bytes);
    let starts = touch::function::function_starts(&bytes).unwrap().functions;
    let of_same = starts.iter().filter(|start| known.get(start.offset).as_deref() == Some("same"));
    let sources: Vec<_> = of_same.map(|start| known.source(start.offset).unwrap()).collect();
    assert_eq!(sources, ["b.c", "a.c", "c.c"]);
    scratch.nothing_left();
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
            .thaw(["order", "a.thaw", "b.thaw", "--for", linker, "-o", "order", "--force"])
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
    scratch.thaw(["order", "a.thaw", "--list", "cold"]).exits(0).says("No function.");
    // What the order is made from is not replaced by it.
    for source in ["a.thaw", app] {
        scratch.thaw(["order", "a.thaw", "-o", source]).exits(2).complains("made from").hints("another name");
    }
    let both_ways = scratch.thaw(["order", "a.thaw", "--json", "-o", "written"]).exits(0).json();
    assert_eq!(both_ways["schema"], "thaw.order/1");
    assert_eq!(std::fs::read(scratch.path("written")).unwrap(), scratch.thaw(["order", "a.thaw"]).out().into_bytes());
    scratch.thaw(["order", "a.thaw", "--list", "objects"]).exits(5).complains("no debug data").hints("-g");
    let json = scratch.thaw(["order", "a.thaw", "--json"]).exits(0).json();
    assert!(json["objects"].is_null(), "only if they are asked for");
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
    scratch.thaw(["order", "bare.thaw", "--symbols", "missing"]).exits(2).complains("No such file");
    scratch.thaw(["order", "a.thaw", "bare.thaw"]).exits(2).complains("bare.thaw");
    scratch.nothing_left();
}

#[test]
fn what_could_be_laid_together_without_a_linker_is_told_for_each_file() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let functions = (0..200).map(|number| {
        let steps = "sink = sink * 5 + x; ".repeat(20 + number % 9);
        format!("__attribute__((noinline)) void f{number}(int x) {{ {steps} }}\n")
    });
    let calls: String = (0..200).step_by(8).map(|number| format!("f{}(n); ", number * 7 % 200)).collect();
    let text =
        format!("volatile int sink;\n{}int main(int n) {{ {calls} return 0; }}\n", functions.collect::<String>());
    let source = scratch.write("app.c", text);
    let compile = |name: &str, linker: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-ffunction-sections"]).arg(&source).arg("-o").arg(scratch.path(name)).args(linker);
        cc.output().is_ok_and(|said| said.status.success())
    };
    if !compile("app", &["-Wl,--emit-relocs"]) {
        return testing::skip("needs a C compiler");
    }
    let app = scratch.path("app");
    scratch.thaw(["touch", "--engine", "function", "-o", "a.thaw", "--", app.to_str().unwrap()]).exits(0);
    let page = scratch.thaw(["touch", "a.thaw"]).exits(0).says("could be laid together without a linker");
    page.says("no relocations of the code were kept").says("thaw order");
    let json = scratch.thaw(["touch", "a.thaw", "--json"]).exits(0).json();
    let laid = json["programs"][0]["laid"].as_array().unwrap();
    let of = |path: &str| laid.iter().find(|it| it["file"].as_str().unwrap().contains(path)).unwrap();
    let (ours, libc) = (of("/app"), of("libc.so"));
    assert_eq!((&libc["movable"], &libc["stay"][0]["why"]), (&0.into(), &"no-relocations".into()));
    let then = ours["pages_then"].as_u64().unwrap();
    assert!(ours["called_movable"].as_u64().unwrap() >= 26 && then < ours["pages"].as_u64().unwrap(), "{ours:#}");
    let one = scratch.thaw(["touch", "a.thaw", "--file", app.to_str().unwrap()]).exits(0);
    one.says("Without a linker").says(&format!("would lie on {then} pages")).says("no unwind data tell where they end");
    scratch.thaw(["touch", "a.thaw", "--file", libc["file"].as_str().unwrap()]).exits(0).says("thaw order --file");

    // The linker lays them so, and as many pages are counted.
    scratch.thaw(["order", "a.thaw", "-o", "order"]).exits(0);
    let flag = format!("-Wl,--symbol-ordering-file={}", scratch.path("order").display());
    if compile("ordered", &["-fuse-ld=lld", &flag]) {
        let ordered = scratch.path("ordered");
        scratch.thaw(["touch", "--engine", "function", "-o", "b.thaw", "--", ordered.to_str().unwrap()]).exits(0);
        let json = scratch.thaw(["touch", "b.thaw", "--json"]).exits(0).json();
        let counted = file(&json, &ordered)["functions"]["pages"].as_u64().unwrap();
        assert!(counted.abs_diff(then) <= 1, "{counted} pages, {then} predicted");
    } else {
        testing::skip("needs lld");
    }

    // Of another build nothing is said.
    assert!(compile("app", &["-Wl,--emit-relocs", "-Wl,--build-id=0x1234"]));
    let json = scratch.thaw(["touch", "a.thaw", "--file", app.to_str().unwrap(), "--json"]).exits(0).json();
    let said = &json["programs"][0]["laid"][0];
    assert!(said["unknown"].as_str().unwrap().contains("not here") && said["movable"].is_null(), "{said:#}");
    scratch.nothing_left();
}

#[test]
fn object_files_are_told_by_the_first_call_into_each() {
    if cfg!(not(target_arch = "x86_64")) {
        return testing::skip("the function engine is for x86-64");
    }
    let _machine = alone();
    let scratch = Scratch::new();
    for (name, text) in [
        ("late.c", "int late(int x) { return x + 1; }\nint never(int x) { return x; }\n"),
        ("early.c", "int early(int x) { return x; }\n"),
        ("unused.c", "int unused(int x) { return x * 3; }\n"),
        ("main.c", "int early(int), late(int);\nint main(int n, char **v) { return late(early(0)) - 1; }\n"),
    ] {
        scratch.write(name, text);
    }
    let sources = ["late.c", "early.c", "unused.c", "main.c"].map(|name| scratch.path(name));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-inline"]).args(&sources).arg("-o").arg(scratch.path("app"));
    if !cc.output().is_ok_and(|said| said.status.success()) {
        return testing::skip("needs a C compiler");
    }
    let app = scratch.path("app");
    let app = app.to_str().unwrap();
    scratch.thaw(["touch", "--engine", "function", "-o", "a.thaw", "--", app]).exits(0);
    let json = scratch.thaw(["order", "a.thaw", "--list", "objects", "--json"]).exits(0).json();
    let own: Vec<(String, u64, u64)> = json["objects"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| {
            let source = it["source"].as_str()?.rsplit('/').next()?.to_owned();
            Some((source, it["called"].as_u64()?, it["functions"].as_u64()?))
        })
        .filter(|(source, ..)| sources.iter().any(|path| path.ends_with(source)))
        .collect();
    let expected = [("main.c", 1, 1), ("early.c", 1, 1), ("late.c", 1, 2), ("unused.c", 0, 1)];
    assert_eq!(own, expected.map(|(source, called, all)| (source.to_owned(), called, all)));
    scratch.thaw(["order", "a.thaw", "--list", "objects"]).exits(0).says("unused.c").says("no debug data");
    // Debug data that were split off are found by the program's build-id only where distributions put them; given, they
    // are taken.
    for words in [["--only-keep-debug", "app", "app.debug"], ["--strip-debug", "app", "app"]] {
        Command::new("objcopy").current_dir(scratch.path("")).args(words).status().unwrap();
    }
    scratch.thaw(["touch", "--engine", "function", "-o", "b.thaw", "--", app]).exits(0);
    scratch.thaw(["order", "b.thaw", "--list", "objects"]).exits(5).complains("no debug data");
    scratch.thaw(["order", "b.thaw", "--list", "objects", "--symbols", "app.debug"]).exits(0).says("unused.c");
}

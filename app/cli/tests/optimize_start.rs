//! optimize: what a program is started with, and caches that its start lacks.

use crate::optimize::{store, trace_of, whole};
use crate::scratch::{Said, Scratch, alone};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions that the program calls once each.
const CALLS: u64 = 2_000;

/// A program that calls so many functions of a library. `None` without a C compiler.
fn caller(scratch: &Scratch, name: &str, options: &[&str]) -> Option<PathBuf> {
    let functions: String = (0..CALLS).map(|number| format!("int f{number}(int x) {{ return x + 1; }}\n")).collect();
    let declared: String = (0..CALLS).map(|number| format!("int f{number}(int);\n")).collect();
    let calls: String = (0..CALLS).map(|number| format!("sum += f{number}(sum);\n")).collect();
    let library = scratch.write("calls.c", functions);
    let source = scratch.write(
        "main.c",
        format!("#include <stdio.h>\n{declared}int main(void) {{ int sum = 0;\n{calls} printf(\"%d\\n\", sum); }}"),
    );
    scratch.write("system/app/data", "");
    let shared = scratch.path("system/app/libcalls.so");
    let made = testing::compiled(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shared).arg(library));
    let program = scratch.path("system/app").join(name);
    let mut link = Command::new("cc");
    link.args(options).arg("-o").arg(&program).arg(source).arg(&shared).arg("-Wl,-rpath,$ORIGIN");
    (made && testing::compiled(&mut link)).then_some(program)
}

/// A program that takes 80 MiB from its allocator again and again, or once, and says on demand how
/// many pages it was given: what it prints must be the same with each remedy.
fn taker(scratch: &Scratch, rounds: u32) -> Option<PathBuf> {
    let source = scratch.write(
        "take.c",
        format!(
            r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(int argc, char **argv) {{
    char *blocks[5];
    for (int round = 0; round < {rounds}; round++) {{
        for (int i = 0; i < 5; i++) {{ blocks[i] = malloc(16 << 20); memset(blocks[i], round + 1, 16 << 20); }}
        for (int i = 0; i < 5; i++) free(blocks[i]);
    }}
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (argc > 1) fprintf(stderr, "%ld\n", used.ru_minflt);
    puts("done");
    return 0;
}}
"#
        ),
    );
    scratch.write("system/app/data", "");
    let program = scratch.path(format!("system/app/take{rounds}"));
    let made = testing::compiled(Command::new("cc").args(["-O1", "-fno-builtin", "-o"]).arg(&program).arg(source));
    made.then_some(program)
}

fn planned(scratch: &Scratch, program: &Path) -> Value {
    let name = program.with_extension("thaw");
    let name = name.file_name().unwrap().to_str().unwrap();
    let files = [program.to_owned(), program.with_file_name("libcalls.so")];
    let files: Vec<PathBuf> = files.into_iter().filter(|file| file.exists()).collect();
    let reads = [(0, 0, 4096, 0), (files.len() as u32 - 1, 4096, 4096, 1 << 32)];
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    store(scratch, name, &trace_of(program, &files, &reads), &words);
    scratch.thaw(["optimize", name, "--plan", "--json"]).exits(0).json()
}

fn with<'a>(plan: &'a Value, remedy: &str) -> Option<&'a Value> {
    plan["tried"].as_array().unwrap().iter().find(|tried| tried["set"] == json!([remedy]))
}

fn set(command: &mut Command, variables: &Value) {
    for variable in variables.as_array().unwrap() {
        command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
}

/// Relocations of a start: until main, and until its end.
fn relocations(program: &Path, variables: &Value) -> (u64, u64) {
    let mut command = Command::new(program);
    set(&mut command, variables);
    let said = command.env("LD_DEBUG", "statistics").output().unwrap();
    assert!(said.status.success());
    let text = String::from_utf8(said.stderr).unwrap();
    let of = |line: &str| {
        let line = text.lines().find(|it| it.contains(line)).unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    (of(" number of relocations:"), of("final number of relocations:"))
}

#[test]
fn functions_that_are_bound_at_their_first_calls_are_bound_at_once() {
    let scratch = Scratch::new();
    let Some(program) = caller(&scratch, "lazy", &["-Wl,-z,lazy"]) else { return };
    let plan = planned(&scratch, &program);
    let tried = with(&plan, "bind-now").unwrap_or_else(|| panic!("{plan:#}"));
    assert_eq!(tried["environment"], json!([{ "name": "LD_BIND_NOW", "value": "1" }]));
    assert!(tried["predicted"].is_null(), "nobody knows");
    let (begun, ended) = relocations(&program, &json!([]));
    assert!(ended >= begun + CALLS, "{begun} {ended}");
    let (begun, ended) = relocations(&program, &tried["environment"]);
    assert!(begun >= CALLS && ended < begun + CALLS / 10, "{begun} {ended}");
    // One that is linked so has nothing to gain.
    let now = caller(&scratch, "now", &["-Wl,-z,now"]).unwrap();
    assert!(with(&planned(&scratch, &now), "bind-now").is_none());
    let (begun, ended) = relocations(&now, &json!([]));
    assert!(ended < begun + CALLS / 10, "{begun} {ended}");
}

/// Pages that the program was given, by its last line.
fn faults(command: &mut Command) -> u64 {
    let said = command.arg("count").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "done\n");
    String::from_utf8(said.stderr).unwrap().trim().lines().last().unwrap().parse().unwrap()
}

#[test]
fn memory_that_is_taken_again_and_again_is_kept_measured_and_undone() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = taker(&scratch, 8) else { return };
    let before = whole(&scratch.path("system"));
    let record = ["record", "-q", "--state", "app", "--runs", "1", "--trace-runs", "1", "--needed", "no", "--"];
    scratch.thaw(record.into_iter().chain([program.to_str().unwrap()])).exits(0);
    let mut command = scratch.command();
    command.args(["-q", "optimize", "thaw.thaw", "-o", "fast", "--runs", "5", "--json"]);
    let manifest = Said::of(command).exits(0).json();
    let kept = with(&manifest, "keep-heap").unwrap_or_else(|| panic!("{manifest:#}"));
    // An eighth of the page faults is a matter of a hundred milliseconds.
    assert_eq!(kept["verdict"], "helps", "{manifest:#}");
    assert!(!manifest["environment"].as_array().unwrap().is_empty(), "{manifest:#}");
    let mut plain = Command::new(&program);
    plain.env_remove("GLIBC_TUNABLES");
    let plain = faults(&mut plain);
    let run = faults(&mut Command::new(scratch.path("fast/run")));
    assert!(run * 5 < plain, "{run} pages in place of {plain}");
    assert_eq!(whole(&scratch.path("system")), before);

    let said = scratch.thaw(["optimize", "--apply", "fast"]).exits(0).says("GLIBC_TUNABLES=").says("EnvironmentFile=");
    let file = said.out().split("EnvironmentFile=").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(std::fs::read_to_string(&file).unwrap().contains("GLIBC_TUNABLES=glibc.malloc."));
    scratch.thaw(["doctor"]).says("is what the program is to be started with");
    scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
    assert!(!Path::new(&file).exists());
    assert_eq!(scratch.names("state/optimized"), Vec::<String>::new());
    assert_eq!(whole(&scratch.path("system")), before);
}

#[test]
fn memory_that_is_taken_once_is_as_much_with_any_allocator() {
    let scratch = Scratch::new();
    let Some(program) = taker(&scratch, 1) else { return };
    let plan = planned(&scratch, &program);
    assert!(with(&plan, "keep-heap").is_none(), "the recording has no page faults: {plan:#}");
    let keep = json!([{ "name": "GLIBC_TUNABLES", "value": "glibc.malloc.trim_threshold=268435456" }]);
    let mut command = Command::new(&program);
    set(&mut command, &keep);
    let (plain, kept) = (faults(&mut Command::new(&program)), faults(&mut command));
    assert!(kept * 10 > plain * 9, "{kept} {plain}");
}

/// Modules of GIO that compute for a while when they are loaded, and are of no use.
fn modules(scratch: &Scratch, count: u32) -> Option<PathBuf> {
    let tools = ["gio", "gio-querymodules"];
    if tools.iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
        testing::skip("gio or gio-querymodules is not installed");
        return None;
    }
    let source = scratch.write(
        "module.c",
        r#"#include <stdlib.h>
#include <time.h>
extern void *g_malloc0(unsigned long), *g_strdup(const char *);
__attribute__((constructor)) static void begin(void) {
    struct timespec used;
    clock_t end = clock() + CLOCKS_PER_SEC / 20;
    while (clock() < end) clock_gettime(CLOCK_MONOTONIC, &used);
}
void g_io_module_load(void *module) {}
void g_io_module_unload(void *module) {}
char **g_io_module_query(void) {
    char **points = g_malloc0(2 * sizeof *points);
    points[0] = g_strdup("planted");
    return points;
}
"#,
    );
    scratch.write("system/gio/modules/README", "");
    let directory = scratch.path("system/gio/modules");
    for number in 0..count {
        let mut command = Command::new("cc");
        let module = directory.join(format!("libm{number}.so"));
        if !testing::compiled(command.args(["-shared", "-fPIC", "-o"]).arg(module).arg(&source)) {
            return None;
        }
    }
    Some(directory)
}

#[test]
fn a_cache_that_a_start_lacks_is_built_measured_applied_and_undone() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(directory) = modules(&scratch, 6) else { return };
    let program = Path::new("/usr/bin/gio").canonicalize().unwrap();
    let files: Vec<PathBuf> = (0..6).map(|number| directory.join(format!("libm{number}.so"))).collect();
    let files = std::iter::once(program.clone()).chain(files).collect::<Vec<_>>();
    let reads: Vec<_> = (0..7).map(|file| (file, 0, 4096, u64::from(file) << 32)).collect();
    let list = scratch.path("system");
    let words = ["thaw", "record", "--", "/usr/bin/gio", "list", list.to_str().unwrap()];
    store(&scratch, "gio.thaw", &trace_of(&program, &files, &reads), &words);
    let before = whole(&scratch.path("system"));
    let thaw = |words: &[&str]| {
        let mut command = scratch.command();
        command.args(words).env("GIO_MODULE_DIR", &directory);
        Said::of(command)
    };
    let disk = "throttle:iops=100000";
    let words = ["-q", "optimize", "gio.thaw", "-o", "fast", "--state", "app", "--disk", disk, "--runs", "4", "--json"];
    let manifest = thaw(&words).exits(0).json();
    // Six modules of 50 ms each are not loaded.
    let caches = with(&manifest, "caches").unwrap_or_else(|| panic!("{manifest:#}"));
    assert_eq!(caches["verdict"], "helps", "{manifest:#}");
    assert!(manifest["kept"].as_array().unwrap().contains(&json!("caches")), "{manifest:#}");
    let of = &manifest["directories"][0];
    assert_eq!((&of["path"], &of["files"][0]["before"]), (&json!(directory), &Value::Null));
    assert_eq!(of["files"][0]["name"], "giomodule.cache");
    assert_eq!(whole(&scratch.path("system")), before, "the originals are untouched");

    let cache = directory.join("giomodule.cache");
    thaw(&["optimize", "--apply", "fast"]).exits(0).says("giomodule.cache is a cache that was built");
    assert!(std::fs::read_to_string(&cache).unwrap().contains("libm0.so: planted"));
    let plan = thaw(&["optimize", "gio.thaw", "--plan", "--json"]).exits(0).json();
    assert!(with(&plan, "caches").is_none(), "it is fresh: {plan:#}");
    // Others have built another one since.
    let ours = std::fs::read(&cache).unwrap();
    std::fs::write(&cache, "theirs").unwrap();
    thaw(&["optimize", "--undo", "fast"]).exits(5).complains("changed since");
    std::fs::write(&cache, &ours).unwrap();
    thaw(&["optimize", "--undo", "fast"]).exits(0);
    assert_eq!(whole(&scratch.path("system")), before);
    scratch.thaw(["doctor"]).says_not("What is optimised");
}

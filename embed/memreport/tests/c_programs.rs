//! C programs with and without the library: what a user of the header sees.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with libthaw_memreport.so: cargo puts it beside the tests.
fn library() -> PathBuf {
    let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(directory.join("libthaw_memreport.so").exists(), "{}", directory.display());
    directory
}

enum Link {
    Without,
    Dynamic,
    Static,
}

/// Builds a program; `None` (counted as skipped): there is no C compiler.
fn build(home: &Path, source: &str, link: &Link) -> Option<PathBuf> {
    if Command::new("cc").arg("--version").output().is_err() {
        testing::skip("needs cc");
        return None;
    }
    let program = home.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-I"]).arg(here().join("include"));
    cc.arg(here().join(source)).arg("-o").arg(&program);
    match link {
        Link::Without => {}
        Link::Dynamic => {
            cc.arg("-L").arg(library()).args(["-Wl,--no-as-needed", "-lthaw_memreport"]);
        }
        Link::Static => {
            cc.arg("-DTHAW_MEMREPORT_REQUIRED").arg(library().join("libthaw_memreport.a")).args(["-lm", "-ldl"]);
        }
    }
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// A program that waits on its standard input.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(command: &mut Command, home: &Path) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).env("LD_LIBRARY_PATH", library());
        let mut child = command.env("XDG_RUNTIME_DIR", home).env_remove("THAW_MEMREPORT").spawn().unwrap();
        Self { stdin: child.stdin.take(), stdout: BufReader::new(child.stdout.take().unwrap()), child }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&self, home: &Path, words: &str) -> String {
        let socket = home.join(format!("thaw-memreport/{}.sock", self.child.id()));
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(words.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reporter(found: &Value, name: &str) -> (u64, i64) {
    let list = found["reporters"].as_array().unwrap();
    let one = list.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} in {found:#}"));
    (one["measured_bytes"].as_u64().unwrap(), one["reported_heap_bytes"].as_i64().unwrap())
}

fn amount(report: &Value, path: &str) -> i64 {
    let list = report["reports"].as_array().unwrap();
    let one = list.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("no {path}"));
    one["amount"].as_i64().unwrap()
}

#[test]
fn planted_mistakes_are_found() {
    for link in [Link::Dynamic, Link::Static] {
        let home = tempfile::tempdir().unwrap();
        let Some(program) = build(home.path(), "tests/planted.c", &link) else { return };
        let mut program = Program::start(Command::new(program).arg("socket"), home.path());
        assert_eq!(program.line(), "there");
        let socket = home.path().join(format!("thaw-memreport/{}.sock", program.child.id()));
        assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(socket.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        program.ask(home.path(), "report\n");
        let report: Value = serde_json::from_str(&program.ask(home.path(), "report\n")).unwrap();
        let found = &report["thaw"][0];
        // Sums: right, too small, too large, a counter that is right.
        let (measured, reported) = reporter(found, "honest");
        assert!(measured >= 20_000 + 100 * 24 && reported == measured as i64, "{measured} {reported}");
        assert!(amount(&report, "explicit/small/blocks") >= 2400);
        let (measured, reported) = reporter(found, "forgets");
        assert_eq!(reported, measured as i64 - 5000);
        let (measured, reported) = reporter(found, "boasts");
        assert_eq!(reported, measured as i64 + 7000);
        let (measured, _) = reporter(found, "counter");
        assert!((30_000..30_100).contains(&measured));
        assert!(found["reporters"].as_array().unwrap().iter().all(|one| one["name"] != "gone"));
        // The same block by three reporters.
        let shared = found["reported_more_than_once"].as_array().unwrap();
        assert_eq!(shared.len(), 1, "{shared:#?}");
        let by: Vec<_> =
            shared[0]["reports"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
        assert_eq!(
            (by, shared[0]["blocks"].as_u64()),
            (vec!["explicit/first", "explicit/second", "explicit/third"], Some(1))
        );
        // What is no block: two interior, one freed, three that lie elsewhere.
        let mut wrong: Vec<_> = found["wrong_pointers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let text = |key: &str| one[key].as_str().unwrap();
                (text("reporter"), text("path"), text("why"), one["count"].as_u64().unwrap())
            })
            .collect();
        wrong.sort_unstable();
        assert_eq!(
            wrong,
            [
                ("stale", "explicit/freed", "the program said that it was freed", 1),
                ("wrong", "explicit/wrong", "it points into a block that was measured too", 2),
                ("wrong", "explicit/wrong", "no block begins there", 3),
            ]
        );
        let (measured, reported) = reporter(found, "next");
        assert!(measured >= 3000 && measured as i64 == reported, "what lies there now is a block");
        assert_eq!(reporter(found, "wrong").0 as i64, amount(&report, "explicit/wrong"));
        let broken: Vec<_> =
            found["broken_rules"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
        assert_eq!(broken.len(), 6, "{broken:?}");
        assert!(broken[5].contains("fell from 10 to 9"), "{broken:?}");
        // What nobody reported is the difference.
        let heap: i64 = report["reports"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["kind"] == 1)
            .map(|one| one["amount"].as_i64().unwrap())
            .sum();
        let unclassified = amount(&report, "heap-allocated") - (heap - 50_000 * 2 - 7000 + 5000);
        assert!((400_000..800_000).contains(&unclassified), "{unclassified}");
        assert!(program.ask(home.path(), "gimme\n").starts_with("error"));
        program.end();
        assert!(!socket.exists(), "the socket goes with the program");
    }
}

#[test]
fn a_program_without_the_library_runs_and_can_get_it_later() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = build(home.path(), "tests/planted.c", &Link::Without) else { return };
    let mut without = Program::start(Command::new(&program).arg("socket"), home.path());
    assert_eq!(without.line(), "not there");
    without.end();
    assert!(!home.path().join("thaw-memreport").exists());
    let mut preloaded = Command::new(&program);
    preloaded.arg("socket").env("LD_PRELOAD", library().join("libthaw_memreport.so"));
    let mut preloaded = Program::start(&mut preloaded, home.path());
    assert_eq!(preloaded.line(), "there");
    assert!(preloaded.ask(home.path(), "report\n").contains("explicit/honest"));
    preloaded.end();
}

/// Waits for a file in a directory, which is written whole.
fn appears(directory: &Path) -> Value {
    loop {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                return serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_signal_the_end_and_a_threshold_write_files() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = build(home.path(), "tests/planted.c", &Link::Dynamic) else { return };
    for reason in ["signal", "exit", "rss"] {
        let files = home.path().join(reason);
        std::fs::create_dir(&files).unwrap();
        let option = if reason == "rss" { "rss=100K" } else { reason };
        let option = format!("{option},dir={}", files.display());
        let mut program = Program::start(Command::new(&program).arg(option), home.path());
        assert_eq!(program.line(), "there");
        match reason {
            "signal" => {
                let number = program.child.id().to_string();
                assert!(Command::new("kill").args(["-34", &number]).status().unwrap().success());
                assert_eq!(appears(&files)["thaw"][0]["reason"], "signal");
                program.end();
            }
            "exit" => {
                assert_eq!(std::fs::read_dir(&files).unwrap().count(), 0);
                program.end();
                assert_eq!(appears(&files)["thaw"][0]["reason"], "exit");
            }
            _ => {
                assert_eq!(appears(&files)["thaw"][0]["reason"], "rss");
                program.end();
            }
        }
    }
}

#[test]
fn the_example_gives_its_cache_back() {
    let home = tempfile::tempdir().unwrap();
    let Some(program) = build(home.path(), "example/cache.c", &Link::Dynamic) else { return };
    let mut program = Program::start(&mut Command::new(program), home.path());
    assert_eq!(program.line(), "reporting");
    let before: Value = serde_json::from_str(&program.ask(home.path(), "report\n")).unwrap();
    let after: Value = serde_json::from_str(&program.ask(home.path(), "minimize report\n")).unwrap();
    assert!((4_096_000..4_200_000).contains(&amount(&before, "explicit/cache/pages")));
    assert_eq!((amount(&before, "cache-pages"), amount(&after, "cache-pages")), (1000, 0));
    assert!(
        amount(&before, "heap-allocated") - amount(&after, "heap-allocated") >= 4_000_000,
        "but for what the library keeps"
    );
    program.end();
}

/// A block of docs/memory.md in this language, without what stands around it.
fn in_docs(language: &str) -> String {
    let docs = std::fs::read_to_string(here().join("../../docs/memory.md")).unwrap();
    let begin = docs.find(&format!("```{language}\n")).unwrap() + language.len() + 4;
    docs[begin..].split("```").next().unwrap().to_owned()
}

#[test]
fn the_programs_of_the_documentation_report_themselves() {
    let example = |name: &str| std::fs::read_to_string(here().join("example").join(name)).unwrap();
    assert!(example("pages.cpp").ends_with(&in_docs("cpp")) && example("pages.rs").ends_with(&in_docs("rust")));
    let home = tempfile::tempdir().unwrap();
    // Words as they stand there, but for the directory of the library.
    let session = in_docs("sh");
    let compile = session.split_once("c++ ").unwrap().1.split_once("\n./pages").unwrap().0;
    let compile = compile.replace("\\\n", " ").replace("$PWD/target/release", "DIR").replace("target/release", "DIR");
    let compile = compile.replace("-o pages", &format!("-o {}", home.path().join("pages").display()));
    let mut cpp = Command::new("c++");
    cpp.args(compile.replace("DIR", library().to_str().unwrap()).split_whitespace());
    let mut programs = vec![library().parent().unwrap().join("examples/pages")];
    if testing::compiled(cpp.args(["-Wall", "-Wextra", "-Werror", "-pthread"]).current_dir(here().join("../.."))) {
        programs.push(home.path().join("pages"));
    }
    for program in programs {
        let mut program = Program::start(&mut Command::new(program), home.path());
        assert_eq!(program.line(), "reporting");
        let report: Value = serde_json::from_str(&program.ask(home.path(), "report\n")).unwrap();
        assert!((4_096_000..4_200_000).contains(&amount(&report, "explicit/cache/pages")), "{report:#}");
        assert_eq!(amount(&report, "cache-pages"), 1000);
        let found = &report["thaw"][0];
        let (measured, reported) = reporter(found, "cache");
        assert_eq!(measured as i64, reported);
        for list in ["wrong_pointers", "broken_rules", "reported_more_than_once"] {
            assert_eq!(found[list], Value::Array(Vec::new()), "{list}");
        }
    }
    let mut without = Command::new("c++");
    without.arg("-I").arg(here().join("include")).arg(here().join("example/pages.cpp")).arg("-o");
    if testing::compiled(without.arg(home.path().join("pages")).arg("-pthread")) {
        let mut program = Program::start(&mut Command::new(home.path().join("pages")), home.path());
        assert_eq!(program.line(), "no library");
    }
}

/// Where the language of the header begins and ends, and every compiler that is here.
#[test]
fn the_header_is_that_of_all_languages() {
    let home = tempfile::tempdir().unwrap();
    let languages: [(&[&str], &str, &[&str]); 2] = [
        (&["cc", "gcc", "clang"], "c", &["c89", "gnu89", "c99", "c11", "c17", "c2x"]),
        (&["c++", "g++", "clang++"], "cc", &["c++98", "c++11", "c++14", "c++17", "c++20", "c++2b"]),
    ];
    let uses = "static void collect(thaw_collection *c, void *x) { thaw_report(c, \"a\", THAW_HEAP, THAW_BYTES, \
        (int64_t)thaw_measure(c, x), \"A.\"); }\n\
        int main(void) { return thaw_memreport_is_there() + thaw_reporter_register(\"a\", collect, NULL) + \
        (thaw_memreport_minimize != NULL); }\n";
    let mut tried = 0;
    for (compilers, suffix, standards) in languages {
        for (name, body) in [("unused", "int main(void) { return 0; }\n"), ("used", uses)] {
            let source = home.path().join(format!("{name}.{suffix}"));
            std::fs::write(&source, format!("#include \"thaw_memreport.h\"\n{body}")).unwrap();
            for (compiler, standard) in compilers.iter().flat_map(|one| standards.iter().map(move |other| (one, other)))
            {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fvisibility=hidden", "-O1", "-o"]);
                command
                    .arg(home.path().join("out"))
                    .arg(format!("-std={standard}"))
                    .arg("-I")
                    .arg(here().join("include"));
                let Ok(output) = command.arg(&source).output() else { continue };
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{compiler} {standard} {name}: {said}");
                assert_eq!(
                    Command::new(home.path().join("out")).status().unwrap().code(),
                    Some(0),
                    "without the library"
                );
                tried += 1;
            }
        }
    }
    if tried == 0 {
        testing::skip("needs a compiler for C or C++");
    }
}

/// Runs `tests/hard.c`; its file `name`, and what it says on stdout and stderr.
fn run_hard(home: &Path, words: &[&str]) -> Option<(std::process::ExitStatus, String)> {
    let program = build(home, "tests/hard.c", &Link::Dynamic)?;
    let mut command = Command::new(program);
    command.args(words).env("LD_LIBRARY_PATH", library()).env("TMPDIR", home).env_remove("THAW_MEMREPORT");
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status, String::from_utf8_lossy(&said).into_owned()))
}

fn saved(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn children_do_not_wait_for_threads_that_they_do_not_have() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    let Some((status, said)) = run_hard(home.path(), &["forks", file.to_str().unwrap()]) else { return };
    assert!(status.success() && said == "all children ended\n", "{status} {said}");
    assert_eq!(saved(&file)["version"], 1);
}

#[test]
fn a_reporter_that_waits_forever_does_not_keep_the_program_from_ending() {
    let home = tempfile::tempdir().unwrap();
    let Some((status, said)) = run_hard(home.path(), &["stuck"]) else { return };
    assert!(status.success() && said.contains("the reporter 'stuck one' has not returned"), "{status} {said}");
}

#[test]
fn a_library_that_was_unloaded_is_not_called() {
    let home = tempfile::tempdir().unwrap();
    let (plugin, file) = (home.path().join("plugin.so"), home.path().join("report.json"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-I"]).arg(here().join("include")).arg(here().join("tests/plugin.c"));
    match cc.arg("-o").arg(&plugin).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return testing::skip("needs cc"),
    }
    let words = ["unload", plugin.to_str().unwrap(), file.to_str().unwrap()];
    let Some((status, said)) = run_hard(home.path(), &words) else { return };
    assert!(status.success(), "{status} {said}");
    let broken = saved(&file)["thaw"][0]["broken_rules"].clone();
    assert_eq!(broken, serde_json::json!(["plugin is in a library that was unloaded: unregister it before"]));
}

#[test]
fn ten_thousand_reports_with_odd_names_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("report.json");
    let Some((status, said)) = run_hard(home.path(), &["many", file.to_str().unwrap()]) else { return };
    assert!(status.success(), "{status} {said}");
    let report = saved(&file);
    let many = report["reports"].as_array().unwrap().iter().filter(|one| {
        one["path"].as_str().is_some_and(|path| path.starts_with("explicit/many/") && path.ends_with("\u{fffd}\u{1}"))
    });
    assert_eq!(many.count(), 10_000);
}

/// A control group with little memory, whose pressure can be read; removed at the end.
struct Cramped {
    /// Where processes are put; the file `memory.pressure` is in the last one.
    groups: Vec<PathBuf>,
}

impl Cramped {
    /// `None` (counted as skipped): this machine has no such groups, or they are not for us to make.
    fn make() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let mounted = |kind: &str, option: &str| {
            let is = |line: &&str| {
                let words: Vec<&str> = line.split(' ').collect();
                words[2] == kind && (option.is_empty() || words[3].split(',').any(|one| one == option))
            };
            mounts.lines().find(is).map(|line| PathBuf::from(line.split(' ').nth(1).unwrap()))
        };
        let name = format!("thaw-memreport-test-{}", std::process::id());
        let mut made = Self { groups: Vec::new() };
        let mut enter = |mount: Option<PathBuf>, limit: &str| -> Option<()> {
            let group = mount?.join(&name);
            std::fs::create_dir(&group).ok()?;
            made.groups.push(group.clone());
            let limit = group.join(limit);
            if limit.exists() { std::fs::write(limit, "24M").ok() } else { None }
        };
        let version1 = enter(mounted("cgroup", "memory"), "memory.limit_in_bytes").is_some();
        let version2 = enter(mounted("cgroup2", ""), "memory.high").is_some();
        let told = made.groups.last().is_some_and(|group| group.join("memory.pressure").exists());
        if !(version1 || version2) || !told {
            testing::skip(
                "needs a control group with a limit of memory, and the kernel's memory.pressure (PSI) of a group",
            );
            return None;
        }
        Some(made)
    }

    fn pressure(&self) -> PathBuf {
        self.groups.last().unwrap().join("memory.pressure")
    }

    /// Microseconds for which something in the group has waited for memory.
    fn waited_us(&self) -> u64 {
        let text = std::fs::read_to_string(self.pressure()).unwrap();
        let total = text.lines().next().unwrap().rsplit_once("total=").unwrap().1;
        total.parse().unwrap()
    }

    fn enter(&self, pid: u32) {
        for group in &self.groups {
            std::fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }
}

impl Drop for Cramped {
    fn drop(&mut self) {
        for group in &self.groups {
            // A killed process leaves its group a moment later.
            while std::fs::remove_dir(group).is_err_and(|cause| cause.kind() == std::io::ErrorKind::ResourceBusy) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn memory_pressure_calls_the_minimise_functions() {
    let home = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    let Some(program) = build(home.path(), "example/cache.c", &Link::Dynamic) else { return };
    let Some(cramped) = Cramped::make() else { return };
    let option = format!("socket,pressure={}", cramped.pressure().display());
    let mut command = Command::new("/bin/sh");
    // The example says `socket` itself; the variable goes before.
    command.args(["-c", "THAW_MEMREPORT=$1 exec $2", "sh", &option]).arg(&program);
    let mut program = Program::start(&mut command, home.path());
    assert_eq!(program.line(), "reporting");
    let pages = || {
        let report: Value = serde_json::from_str(&program.ask(home.path(), "report\n")).unwrap();
        amount(&report, "cache-pages")
    };
    assert_eq!(pages(), 1000, "nothing is given back without need");
    cramped.enter(program.child.id());
    // Many read files that do not fit, again and again, until the kernel has seen enough; then the program has been
    // told. They make them themselves: pages count for the group of those who brought them in.
    let read = "read go; head -c 20000000 /dev/zero > $1; while :; do dd if=$1 of=/dev/null bs=256k 2> /dev/null; done";
    let readers: Vec<Reader> = (0..8)
        .map(|number| {
            let file = home.path().join(format!("large{number}"));
            let mut reader = Command::new("/bin/sh");
            let mut child = reader.args(["-c", read, "sh"]).arg(file).stdin(Stdio::piped()).spawn().unwrap();
            cramped.enter(child.id());
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
            Reader(child)
        })
        .collect();
    let mut windows = 0;
    while pages() > 0 {
        let before = cramped.waited_us();
        std::thread::sleep(std::time::Duration::from_secs(4));
        let waited = cramped.waited_us() - before;
        windows += 1;
        if waited < 1_500_000 && windows > 10 {
            drop(readers);
            return testing::skip("no memory pressure could be made here");
        }
        assert!(waited < 2_500_000 || pages() == 0, "{waited} us of waiting in 4 s, and nobody was told");
    }
}

/// Ends with the test.
struct Reader(Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! `thaw memory`: what a user sees, with reports that Firefox wrote.

use crate::scratch::{Mortal, Said, Scratch, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A report that Firefox wrote.
pub fn firefox(name: &str) -> String {
    root().join("fixtures/memory/firefox").join(name).to_string_lossy().into_owned()
}

#[test]
fn a_report_of_firefox_is_drawn_as_about_memory_draws_it() {
    let scratch = Scratch::new();
    let start = firefox("start.json.gz");
    let said =
        scratch.thaw(["memory", "show", &start]).exits(0).says("Explicit Allocations").says("Other Measurements");
    let out = said.out();
    assert!(out.starts_with("Total resident memory (approximate) -- 373.56 MiB\n\nMain Process (pid "), "{out}");
    assert!(out.find("\nRDD (pid").unwrap() > out.find("\nprealloc (pid").unwrap(), "the larger one is first");
    // Firefox breaks two of its own rules.
    let warnings: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    assert!(warnings.last().unwrap().contains("description that is no sentence"), "{warnings:?}");
    assert!(warnings.iter().all(|text| text.contains("no sentence") || text.contains("only leaves")), "{warnings:?}");
    for line in ["(100.0%) -- explicit", "── heap-unclassified", " tiny)", "│  ├──", "── resident\n"] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    // Every explicit tree is the sum of its kids, and the heap is all there.
    let json = scratch.thaw(["memory", "show", &start, "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.memory/1");
    for process in json["processes"].as_array().unwrap() {
        let explicit = &process["trees"][0];
        assert_eq!(explicit["name"], "explicit");
        let kids = explicit["kids"].as_array().unwrap();
        let sum: i64 = kids.iter().map(|kid| kid["amount"].as_i64().unwrap()).sum();
        assert_eq!(Some(sum), explicit["amount"].as_i64());
        let unclassified = kids.iter().find(|kid| kid["name"] == "heap-unclassified").unwrap();
        assert!(unclassified["amount"].as_i64().unwrap() > 0);
    }
    scratch.thaw(["memory", "show", &start, "--process", "RDD", "--verbose"]).exits(0).says(" B (").says_not("tiny");
    scratch.thaw(["memory", "show", &start, "--filter", "sqlite"]).exits(0).says("sqlite").says_not("js-main");
    let fits = |pattern: &str| scratch.thaw(["memory", "show", &start, "--verbose", "--regex", pattern]);
    fits("^explicit/(network|storage/sqlite)/")
        .exits(0)
        .says("sqlite")
        .says("network")
        .says_not("js-main")
        .says_not("Other");
    fits("(?i)^explicit/STORAGE/").exits(0).says("sqlite").says_not("network");
    fits("^storage").exits(1).complains("nothing in the report").hints("--regex");
    fits("(").exits(2).complains("unclosed group");
    let both =
        ["memory", "show", &start, "--verbose", "--filter", "storage", "--regex", "^explicit/[^/]+/sqlite/other$"];
    scratch.thaw(both).exits(0).says("storage/sqlite/other");
    scratch.thaw(["memory", "show", &start, "--process", "Thunderbird"]).exits(1).complains("nothing in the report");
}

#[test]
fn reports_are_saved_and_compared() {
    let scratch = Scratch::new();
    let (start, later) = (firefox("start.json.gz"), firefox("later.json.gz"));
    for copy in ["copy.json", "copy.json.gz"] {
        scratch.thaw(["memory", "show", &start, "-o", copy]).exits(0);
        scratch.thaw(["memory", "diff", &start, copy]).exits(0).says("Nothing has changed.");
    }
    // A pipe can be read once.
    let mut piped = scratch.command();
    piped.args(["memory", "show", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut piped = piped.spawn().unwrap();
    std::io::copy(&mut std::fs::File::open(scratch.path("copy.json")).unwrap(), &mut piped.stdin.take().unwrap())
        .unwrap();
    let shown = piped.wait_with_output().unwrap();
    assert!(shown.status.success() && shown.stdout.starts_with(b"Total resident memory"), "{shown:?}");
    let packed = std::fs::read(scratch.path("copy.json.gz")).unwrap();
    assert!(packed.starts_with(&[0x1f, 0x8b]));
    let said = scratch.thaw(["memory", "diff", &start, &later]).exits(0).says("Main Process (pid NNN)").says(" [-]");
    assert!(said.out().contains(" [+]") && said.out().contains("heap-unclassified"), "{}", said.framed());
    // There and back is the same with the other sign.
    let amounts = |first: &str, second: &str| -> BTreeMap<String, i64> {
        let json = scratch.thaw(["memory", "diff", first, second, "--json"]).exits(0).json();
        assert_eq!(json["difference"], true);
        let process = |process: &Value| {
            let name = process["name"].as_str().unwrap().to_owned();
            (name, process["trees"][0]["amount"].as_i64().unwrap())
        };
        json["processes"].as_array().unwrap().iter().map(process).collect()
    };
    let back: BTreeMap<_, _> = amounts(&later, &start).into_iter().map(|(name, amount)| (name, -amount)).collect();
    assert_eq!(amounts(&start, &later), back);
}

#[test]
fn a_difference_is_drawn() {
    let scratch = Scratch::new();
    let report = |path: &str, kind: u8, mib: f64| {
        let amount = (mib * 1_048_576.0) as i64;
        format!(
            r#"{{"process":"p (pid {kind})","path":"{path}","kind":{kind},"units":0,"amount":{amount},"description":"A."}}"#
        )
    };
    let file = |reports: &[String]| {
        let reports = reports.join(",").replace("p (pid 0)", "p (pid 2)").replace("p (pid 1)", "p (pid 2)");
        format!(r#"{{"version":1,"hasMozMallocUsableSize":true,"reports":[{reports}]}}"#)
    };
    let (kept, heap) = (|mib| report("explicit/kept", 1, mib), |mib| report("heap-allocated", 2, mib));
    scratch.write(
        "a",
        file(&[kept(10.0), heap(40.0), report("explicit/gone/pid 1", 0, 2.0), report("explicit/leaf", 1, 4.0)]),
    );
    scratch.write(
        "b",
        file(&[kept(13.0), heap(50.0), report("explicit/leaf/x", 1, 5.0), report("explicit/tiny", 1, 0.01)]),
    );
    let said = scratch.thaw(["memory", "diff", "a", "b"]).exits(0);
    let expected = "\
p (pid NNN)
Explicit Allocations

8.00 MiB (100.0%) -- explicit
├──5.99 MiB (74.88%) ── heap-unclassified
├──1.00 MiB (12.50%) -- leaf
│  ├──5.00 MiB (62.50%) ── x [+]
│  └──-4.00 MiB (-50.00%) ── (fake child) [!]
├──3.00 MiB (37.50%) ── kept
├──-2.00 MiB (-25.00%) ── gone/pid NNN [-]
└──0.01 MiB (00.12%) ── tiny [+]

Other Measurements

10.00 MiB ── heap-allocated
";
    assert_eq!(said.out().trim_end(), expected.trim_end(), "{}", said.framed());
}

/// Lines of a tree: without empty ones, and without what is drawn differently on purpose (docs/memory.md, Reading a
/// tree).
fn lines(text: &str) -> Vec<String> {
    let mut in_warning = false;
    let is_drawn = |line: &&str| {
        // A long warning goes on below, indented.
        in_warning = line.starts_with("warning: ") || in_warning && line.starts_with("         ");
        let left_out = ["[?!]: ", "Total resident memory (approximate) -- 0"];
        !in_warning && !line.trim().is_empty() && !left_out.iter().any(|start| line.starts_with(start))
    };
    let comparable = |line: &str| {
        let line = line.replace(" MiB", " MB").replace("(n/a)", "(100.0%)");
        let line = line.trim_end_matches(" [+]").trim_end_matches(" [-]");
        // Single figures stand below each other: the longer unit moves those without one.
        line.trim_start().to_owned()
    };
    text.lines().filter(is_drawn).map(comparable).collect()
}

#[test]
fn trees_are_those_of_about_memory_line_by_line() {
    let scratch = Scratch::new();
    let fixture = |name: &str| root().join("fixtures/memory/about-memory").join(name).to_string_lossy().into_owned();
    let (state, before, after) = (fixture("state.json"), fixture("before.json"), fixture("after.json"));
    let show = ["memory", "show", &state];
    let diff = ["memory", "diff", &before, &after];
    for (words, name) in [(&show[..], "state"), (&diff[..], "change")] {
        for (verbose, name) in [("--color=never", format!("{name}.txt")), ("--verbose", format!("{name}.verbose.txt"))]
        {
            let said = scratch.thaw(words.iter().chain([&verbose])).exits(0);
            let firefox = std::fs::read_to_string(fixture(&name)).unwrap();
            for (number, (ours, theirs)) in lines(&said.out()).iter().zip(lines(&firefox)).enumerate() {
                assert_eq!(*ours, theirs, "line {number} of {name}\n{}", said.framed());
            }
            assert_eq!(lines(&said.out()).len(), lines(&firefox).len(), "{name}");
        }
    }
}

#[test]
fn several_runs_of_two_versions_are_compared() {
    let scratch = Scratch::new();
    let head = r#"{"schema":"thaw.memory-watch/1","thaw_version":"","command":[],"whose":{"program":1},"start_ticks":1,"began_ns":0,"created_unix_ns":0}"#;
    for (version, sizes) in [("old", [100, 101, 99, 102]), ("new", [120, 121, 119, 122])] {
        for (run, size) in sizes.into_iter().enumerate() {
            let bytes = size * 1_000_000;
            let sample = format!(
                r#"{{"at_ns":1000000000,"processes":[{{"pid":1,"name":"x","rss":{bytes},"pss":{bytes},"uss":{bytes},"swap":0}}],"mark":"loaded"}}"#
            );
            scratch.write(&format!("{version}/{run}.memory"), format!("{head}\n{sample}\n"));
        }
        scratch.write(&format!("{version}/notes"), "no watch");
    }
    let said = scratch.thaw(["memory", "diff", "old", "new"]).exits(0).says("loaded").says("4, 4").says("100.5 MB");
    assert!(said.out().contains("+19.9 % ["), "{}", said.framed());
    let json = scratch.thaw(["memory", "diff", "old", "new", "--json"]).exits(0).json();
    assert_eq!(
        (json["schema"].as_str(), json["files"][0][3].as_str()),
        (Some("thaw.memory-runs/1"), Some("old/3.memory"))
    );
    assert_eq!(json["checkpoints"][0]["pss"]["after"].as_array().unwrap().len(), 4);
    scratch.thaw(["memory", "diff", "old", "new/0.memory"]).exits(0).says("4, 1");
    scratch.thaw(["memory", "diff", "old", "new", "--at", "loaded"]).exits(2).complains("--at");
    scratch.thaw(["memory", "show", "old"]).exits(2).complains("one watch");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    scratch.thaw(["memory", "diff", "old", "empty"]).exits(2).hints("one for each run");
    scratch.thaw(["memory", "diff", "old", &firefox("start.json.gz")]).exits(2).complains("cannot be compared");
}

#[test]
fn what_is_no_report_is_said_to_be_none() {
    let scratch = Scratch::new();
    scratch.write("text", "hello");
    scratch.write("cut.gz", &std::fs::read(firefox("later.json.gz")).unwrap()[..1000]);
    scratch.thaw(["memory", "show", "text"]).exits(5).complains("not a memory report").hints("about:memory");
    scratch.thaw(["memory", "show", "cut.gz"]).exits(5).complains("not a memory report");
    scratch.thaw(["memory", "show", "none"]).exits(2).complains("none");
    scratch.thaw(["memory", "show"]).exits(2);
    scratch
        .thaw(["memory", "show", "--pid", "1"])
        .exits(3)
        .complains("no memory reporters")
        .hints("thaw_memreport_start");
    scratch.thaw(["memory", "mark", "x"]).exits(2).hints("thaw memory watch");
}

#[test]
fn a_program_is_watched_marked_and_compared() {
    let scratch = Scratch::new();
    let thaw = env!("CARGO_BIN_EXE_thaw");
    let watch = |name: &str, megabytes: u32| {
        let script = scratch.script(
            &format!("{name}.sh"),
            &format!(
                "x=$(head -c {megabytes}000000 /dev/zero | tr '\\0' x)\n{thaw} memory mark loaded -f \
                {name}\nx=\n{thaw} memory mark closed -f {name}\necho done"
            ),
        );
        scratch.thaw(["memory", "watch", "-o", name, "--interval", "50ms", "--", script.to_str().unwrap()])
    };
    let said = watch("small", 5).exits(0).says("done").says("loaded").says("closed").says("peak").says("PSS");
    assert!(said.out().contains("samples in small"), "{}", said.framed());
    watch("large", 60).exits(0);
    let json = scratch.thaw(["memory", "diff", "small", "large", "--json"]).exits(0).json();
    assert_eq!(json["checkpoints"][0]["name"], "loaded");
    let pss = |which: &str| json["checkpoints"][0][which]["pss"].as_u64().unwrap();
    assert!(pss("second") > pss("first") + 40_000_000, "{json:#}");
    scratch.thaw(["memory", "diff", "small", "large"]).exits(0).says("PSS before").says("closed");
    scratch.thaw(["memory", "show", "large"]).exits(0).says("loaded");
    scratch.thaw(["memory", "show", "large", "--filter", "heap"]).exits(2).complains("have no parts");
    scratch.thaw(["memory", "diff", "small", "large", "--regex", "heap"]).exits(2).hints("--at NAME");
    scratch.thaw(["memory", "mark", "late", "-f", "large"]).exits(1).complains("has ended");
    scratch.thaw(["memory", "watch", "-o", "small", "--", "true"]).exits(2).hints("--force");
    scratch.thaw(["memory", "diff", "small", &firefox("start.json.gz")]).exits(2).complains("cannot be compared");
    scratch.thaw(["memory", "diff", "small", "large", "--at", "loaded"]).exits(5).complains("no trees");
    scratch.thaw(["memory", "diff", "small", "large", "--at", "later"]).exits(2).hints("loaded, closed, peak, last");
    scratch.thaw(["memory", "watch", "-o", "fails", "--", "sh", "-c", "exit 3"]).exits(4);
}

#[test]
fn a_process_that_runs_is_watched_for_a_while() {
    let scratch = Scratch::new();
    let sleeper = Mortal(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id().to_string();
    let json =
        scratch.thaw(["memory", "watch", &pid, "--end", "100ms", "--interval", "20ms", "--json"]).exits(0).json();
    assert_eq!(json["head"]["whose"]["program"].as_u64(), Some(sleeper.0.id().into()));
    assert_eq!(json["checkpoints"][0]["total"]["processes"], 1);
    assert!(Path::new("/proc").join(&pid).exists(), "it is left alone");
}

#[test]
fn a_process_of_somebody_else_is_not_watched_in_vain() {
    let nobody = 65534;
    let sleeper = Mortal(Command::new("sleep").arg("1000").spawn().unwrap());
    let mut thaw = Command::new(env!("CARGO_BIN_EXE_thaw"));
    thaw.args(["memory", "watch", &sleeper.0.id().to_string(), "--end", "1s"]).current_dir("/").uid(nobody);
    let Ok(output) = thaw.output() else {
        return testing::skip("needs root, and a build directory that others may read");
    };
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not for us to see") && said.contains("as root"), "{said}");
    assert!(!Path::new("/thaw.memory").exists());
}

/// A C program with `embed/memreport` in it, and where the library is; `None` (counted as skipped): no compiler, or the
/// library is not built.
pub fn reporting_program(scratch: &Scratch, source: &str) -> Option<(PathBuf, PathBuf)> {
    let target = Path::new(env!("CARGO_BIN_EXE_thaw")).parent().unwrap();
    let library = ["", "deps"]
        .map(|folder| target.join(folder))
        .into_iter()
        .find(|folder| folder.join("libthaw_memreport.so").exists());
    let Some(library) = library else {
        testing::skip("needs libthaw_memreport.so: cargo build -p thawlab-memreport");
        return None;
    };
    let program = scratch.path(Path::new(source).file_stem().unwrap());
    let embed = root().join("embed/memreport");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-pthread", "-I"])
        .arg(embed.join("include"))
        .arg(root().join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args(["-Wl,--no-as-needed", "-lthaw_memreport"]);
    testing::compiled(&mut cc).then_some((program, library))
}

#[test]
fn a_program_with_reporters_is_asked() {
    let scratch = Scratch::new();
    let Some((program, library)) = reporting_program(&scratch, "embed/memreport/example/cache.c") else { return };
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", &library).env("XDG_RUNTIME_DIR", scratch.path("run"));
    let mut program = Mortal(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "reporting\n");
    let pid = program.0.id().to_string();
    let thaw = |words: &[&str]| {
        let mut command = scratch.command();
        command.args(words).env("XDG_RUNTIME_DIR", scratch.path("run"));
        Said::of(command)
    };
    thaw(&["memory", "show", "--pid", &pid, "-o", "before.json.gz"])
        .exits(0)
        .says("cache/pages")
        .says("Reporters of cache");
    thaw(&["memory", "show", "--pid", &pid, "--minimize", "-o", "after.json"]).exits(0);
    thaw(&["memory", "diff", "before.json.gz", "after.json"])
        .exits(0)
        .says("cache/pages")
        .says("-1,000 ── cache-pages");
    thaw(&["memory", "watch", &pid, "--end", "10ms", "-o", "w"]).exits(0);
    thaw(&["memory", "mark", "now", "-f", "w"]).exits(0);
    thaw(&["memory", "diff", "w", "w", "--at", "now"]).exits(0).says("Nothing has changed.");
}

#[test]
fn firefox_writes_what_thaw_reads() {
    if !Path::new("/usr/bin/firefox-esr").exists() {
        testing::skip("no firefox-esr");
        return;
    }
    let scratch = Scratch::new();
    let directory = scratch.path("reports");
    // The fifo appears when Firefox listens for the signal too, which would end it before.
    let prefs = format!(
        "user_pref(\"memory_info_dumper.watch_fifo.enabled\", \
            true);\nuser_pref(\"memory_info_dumper.watch_fifo.directory\", {:?});\n",
        directory.to_str().unwrap()
    );
    scratch.write("profile/user.js", prefs);
    std::fs::create_dir(&directory).unwrap();
    let child = Command::new("/usr/bin/firefox-esr")
        .args(["--headless", "--no-remote", "--profile"])
        .arg(scratch.path("profile"))
        .arg("about:blank")
        .env("HOME", scratch.path(""))
        .env("TMPDIR", &directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut firefox = Mortal(child);
    let mut wait_for = |end: &str| loop {
        if let Some(name) =
            scratch.names("reports").into_iter().find(|name| name.ends_with(end) && !name.starts_with("incomplete"))
        {
            return name;
        }
        assert!(firefox.0.try_wait().unwrap().is_none(), "Firefox ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    wait_for("debug_info_trigger");
    let pid =
        std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let directory_variable = format!("TMPDIR={}", directory.display());
    // The first process is Firefox itself or the script that starts it.
    let is_main = |pid: &String| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
        String::from_utf8_lossy(&read("environ")).contains(&directory_variable)
            && words.contains("--headless")
            && !words.contains("-contentproc")
            && read("comm").starts_with(b"firefox")
    };
    let pid = pid.into_iter().filter(|name| name.parse::<u32>().is_ok()).find(is_main).unwrap();
    assert!(Command::new("kill").args(["-34", &pid]).status().unwrap().success());
    let name = wait_for(".json.gz");
    let file = format!("reports/{name}");
    scratch
        .thaw(["memory", "show", &file])
        .exits(0)
        .says(&format!("Main Process (pid {pid})"))
        .says("(100.0%) -- explicit")
        .says("heap-unclassified");
    scratch.thaw(["memory", "diff", &file, &file]).exits(0).says("Nothing has changed.");
}

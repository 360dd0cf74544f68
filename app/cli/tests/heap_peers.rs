//! Exported heap recordings, opened in the tools that they are for: `dev/peers` and Debian's packages supply them.

use crate::heap_look::{exported, recorded, report, text, total};
use crate::scratch::{Scratch, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

#[track_caller]
fn done(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A tool that `dev/peers` installs; otherwise the calling test is counted as skipped.
pub fn peer(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let path = target.join("peers").join(name);
    if path.exists() {
        return Some(path);
    }
    testing::skip(&format!("needs {} (dev/peers)", name.rsplit('/').next().unwrap()));
    None
}

/// Bytes of a measure, as the report has them.
fn bytes(scratch: &Scratch, measure: &str) -> u64 {
    total(&report(scratch, &[]), measure).0
}

#[test]
fn dmd_py_reads_and_compares_the_export() {
    let Some(script) = std::env::var_os("THAW_DMD_PY") else {
        return testing::skip("needs Mozilla's dmd.py, which no registry has: THAW_DMD_PY names it");
    };
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let dmd = |files: &[&Path]| {
        done(Command::new("python3").arg(&script).arg("--no-fix-stacks").args(files).output().unwrap())
    };
    for (args, mode) in [(vec![], "cumulative"), (vec!["--mode", "live"], "live")] {
        let file = exported(&scratch, "dmd", &args);
        let said = dmd(&[&file]);
        assert!(said.contains(&format!("Mode = '{mode}'")) && said.contains("slop: recorded by thaw heap"), "{said}");
    }
    let first = exported(&scratch, "dmd", &["--mode", "leaks", "--function", "leak"]);
    let said = dmd(&[&first]);
    // malloc(1000) has 1000 bytes and no more with glibc; an allocator with classes gives 1024.
    assert!(said.contains("bytes (10,000 requested / ") && said.contains("#01: leak ("), "{said}");
    std::fs::rename(&first, scratch.path("first")).unwrap();
    assert!(recorded(&scratch, "modes.heap", &["-DMORE"]));
    let second = exported(&scratch, "dmd", &["--mode", "leaks", "--function", "fresh"]);
    let said = dmd(&[&scratch.path("first"), &second]);
    assert!(said.contains("(-10,000 requested / ") && said.contains("(777 requested / "), "{said}");
    assert!(said.contains("bytes in -3 blocks"), "{said}");
}

#[test]
fn dh_view_reads_the_export() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "dhat", &[]);
    let dhat: Value = serde_json::from_str(&text(&file)).unwrap();
    let points = dhat["pps"].as_array().unwrap();
    let sum = |field: &str| points.iter().map(|point| point[field].as_u64().unwrap()).sum::<u64>();
    let report = report(&scratch, &[]);
    assert_eq!((sum("tb"), sum("tbk")), total(&report, "made"));
    assert_eq!((sum("gb"), sum("gbk")), total(&report, "peak"));
    assert_eq!((sum("eb"), sum("ebk")), total(&report, "end"));
    let viewers = ["/usr/libexec/valgrind/dh_view.js", "/usr/lib/valgrind/dh_view.js"];
    let Some(viewer) = viewers.iter().find(|path| Path::new(path).exists()) else {
        return testing::skip("needs valgrind's dh_view.js");
    };
    // The viewer's own code builds its tree; only the page around it is made up.
    let program = format!(
        "globalThis.document = {{}};\n{}\nconst read = require('fs').readFileSync;\ngSelect = {{ selectedIndex: 0, \
            childNodes: [] }};\n\
         gSelect.childNodes.push({{}});\ngData = JSON.parse(read(process.argv[2], 'utf8'));\nbuildTree();\n\
         console.log(gRoot._totalBytes, gRoot._totalBlocks, gRoot._atTGmaxBytes, gRoot._atTEndBytes);\n",
        text(Path::new(viewer))
    );
    let program = scratch.write("view.js", program);
    let Ok(output) = Command::new("node").arg(program).arg(&file).output() else {
        return testing::skip("needs node");
    };
    let words = [total(&report, "made").0, total(&report, "made").1, total(&report, "peak").0, total(&report, "end").0];
    assert_eq!(done(output).trim(), words.map(|word| word.to_string()).join(" "));
}

#[test]
fn heaptrack_reads_the_export() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "heaptrack", &[]);
    let lines = text(&file);
    let count = |sign: &str| lines.lines().filter(|line| line.starts_with(sign)).count() as u64;
    let report = report(&scratch, &[]);
    assert_eq!(count("+ "), total(&report, "made").1);
    assert_eq!(count("+ ") - count("- "), total(&report, "end").1);
    let Ok(output) = Command::new("heaptrack_print").arg(&file).output() else {
        return testing::skip("needs heaptrack_print");
    };
    let said = done(output);
    assert!(said.contains(&format!("calls to allocation functions: {}", total(&report, "made").1)), "{said}");
    assert!(said.contains("100 temporary allocations of 100 allocations in total (100.00%) from"), "{said}");
    scratch
        .thaw(["heap", "export", "modes.heap", "--format", "heaptrack", "-o", "x", "--function", "leak"])
        .exits(2)
        .complains("has all of them");
}

#[test]
fn ms_print_reads_the_export() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "massif", &[]);
    let peak = total(&report(&scratch, &[]), "peak").0;
    assert!(text(&file).contains(&format!("mem_heap_B={peak}\n")));
    let Ok(output) = Command::new("ms_print").arg(&file).output() else {
        return testing::skip("needs ms_print");
    };
    let said = done(output);
    assert!(said.contains("(peak)") && said.contains("hold (in modes)"), "{said}");
}

#[test]
fn pprof_reads_the_export() {
    let Some(pprof) = peer("pprof") else { return };
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "pprof", &[]);
    let pprof = |words: &[&str]| {
        let mut command = Command::new(&pprof);
        done(command.args(words).arg(&file).env("PPROF_TMPDIR", scratch.path("")).output().unwrap())
    };
    for (index, site, expected) in
        [("alloc_space", "hold", "100000B"), ("alloc_objects", "churn", "100B"), ("inuse_space", "leak", "10000B")]
    {
        // The unit is forced on counts too; otherwise bytes would be rounded.
        let top = pprof(&["-top", "-unit=B", "-nodefraction=0", "-sample_index", index]);
        assert!(top.starts_with("File: modes\n"), "{top}");
        let line = top.lines().find(|line| line.split_whitespace().last() == Some(site)).unwrap_or_default();
        assert_eq!(line.split_whitespace().next(), Some(expected), "{top}");
    }
    let raw = pprof(&["-raw"]);
    let samples = raw.lines().skip_while(|line| !line.starts_with("alloc_objects/count")).skip(1);
    let samples: Vec<Vec<u64>> = samples
        .map_while(|line| line.split_once(':'))
        .map_while(|(values, _)| values.split_whitespace().map(|value| value.parse().ok()).collect())
        .collect();
    let sums = [0, 1, 2, 3].map(|column| samples.iter().map(|sample| sample[column]).sum::<u64>());
    let report = report(&scratch, &[]);
    let [made, live] = ["made", "end"].map(|measure| total(&report, measure));
    assert_eq!(sums, [made.1, made.0, live.1, live.0], "{raw}");
}

/// A session of the Firefox Profiler's command line: the profiler's own code has loaded the profile and answers.
pub struct Profiler<'a> {
    program: PathBuf,
    scratch: &'a Scratch,
}

impl<'a> Profiler<'a> {
    /// Loads a profile; without the program the calling test is counted as skipped.
    pub fn load(scratch: &'a Scratch, profile: &Path) -> Option<Self> {
        let program = peer("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js")?;
        let profiler = Self { program, scratch };
        let loaded = profiler.command(&["load", "--session", "thaw"]).arg(profile).output().unwrap();
        // It gives up early on a busy machine, while what it started goes on loading.
        while !profiler.command(&["status", "--session", "thaw"]).output().unwrap().status.success() {
            let said = String::from_utf8_lossy(&loaded.stderr);
            assert!(loaded.status.success() || said.contains("did not become ready"), "{said}");
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(profiler)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("node");
        command.arg(&self.program).args(words).env("PROFILER_CLI_SESSION_DIR", self.scratch.path("sessions"));
        command
    }

    pub fn ask(&self, words: &[&str]) -> Value {
        let said = done(self.command(&[words, &["--session", "thaw", "--json"]].concat()).output().unwrap());
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Functions with the bytes that they allocated themselves, under a view.
    fn functions(&self, view: &str) -> Vec<(String, i64)> {
        assert_eq!(self.ask(&["strategy", view])["strategy"], view);
        let functions = self.ask(&["thread", "functions", "--limit", "0"])["functions"].as_array().unwrap().clone();
        let each = functions.iter().map(|it| {
            let name = it["name"].as_str().unwrap();
            (name.split(" (").next().unwrap().to_owned(), it["selfSamples"].as_i64().unwrap())
        });
        each.filter(|(_, bytes)| *bytes != 0).collect()
    }
}

impl Drop for Profiler<'_> {
    fn drop(&mut self) {
        let _ = self.command(&["stop", "thaw"]).output();
    }
}

#[test]
fn the_firefox_profiler_reads_the_export() {
    if peer("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js").is_none() {
        return;
    }
    if Command::new("node").arg("--version").output().is_err() {
        return testing::skip("needs node");
    }
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "firefox", &[]);
    let profile = scratch.path("profile.json");
    std::fs::copy(file, &profile).unwrap();
    let Some(profiler) = Profiler::load(&scratch, &profile) else { return };
    let report = report(&scratch, &[]);
    let [made, live] = ["made", "end"].map(|measure| total(&report, measure).0 as i64);
    let sum = |functions: &[(String, i64)]| functions.iter().map(|(_, bytes)| bytes).sum::<i64>();
    let all = profiler.functions("native-allocations");
    assert!(all.contains(&("hold".into(), 100_000)) && all.contains(&("churn".into(), 6400)), "{all:?}");
    assert_eq!(sum(&all), made, "{all:?}");
    let retained = profiler.functions("native-retained-allocations");
    assert_eq!((retained[0].clone(), sum(&retained)), (("leak".into(), 10_000), live), "{retained:?}");
    let freed = profiler.functions("native-deallocations-memory");
    assert_eq!(sum(&freed), live - made, "{freed:?}");
    let counter = profiler.ask(&["counter", "info", "c-0"]);
    assert_eq!((counter["category"].as_str(), counter["unit"].as_str()), (Some("Memory"), Some("bytes")));
    let range = counter["stats"].as_array().unwrap().iter().find(|stat| stat["source"] == "count-range").unwrap();
    assert_eq!(range["value"].as_u64(), Some(bytes(&scratch, "peak")), "from nothing to the peak");
}

#[test]
fn the_tables_of_the_firefox_profile_fit_together() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let profile: Value = serde_json::from_str(&text(&exported(&scratch, "firefox", &[]))).unwrap();
    assert!(profile["meta"]["preprocessedProfileVersion"].as_u64().unwrap() >= 50);
    assert_eq!(profile["meta"]["symbolicated"], true);
    let shared = &profile["shared"];
    let thread = &profile["threads"][0];
    let place = |name: &str| if thread[name].is_object() { &thread[name] } else { &shared[name] };
    let len = |name: &str| place(name)["length"].as_u64().unwrap();
    let texts = shared["stringArray"].as_array().or(thread["stringArray"].as_array()).unwrap().len() as u64;
    // Every column of a table is as long as the table says, and every index leads into its table.
    for (table, columns) in [
        ("frameTable", &[("func", "funcTable")][..]),
        ("stackTable", &[("frame", "frameTable"), ("prefix", "stackTable")]),
        ("funcTable", &[("name", "(texts)"), ("resource", "resourceTable")]),
        ("nativeAllocations", &[("stack", "stackTable")]),
    ] {
        let object = place(table).as_object().unwrap();
        for (name, column) in object.iter().filter(|(_, column)| column.is_array()) {
            assert_eq!(column.as_array().unwrap().len() as u64, len(table), "{table}.{name}");
        }
        for (column, target) in columns {
            let limit = if *target == "(texts)" { texts } else { len(target) };
            for (row, index) in object[*column].as_array().unwrap().iter().enumerate() {
                // -1 and null: none.
                let Some(index) = index.as_u64() else { continue };
                assert!(index < limit && !(*column == "prefix" && index >= row as u64), "{table}.{column}[{row}]");
            }
        }
    }
    let numbers = |table: &Value, name: &str| -> Vec<f64> {
        table[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let ascending = |times: &[f64]| times.windows(2).all(|pair| pair[0] <= pair[1]);
    assert!(ascending(&numbers(place("nativeAllocations"), "time")), "columns are cut at a time by halving");
    let counter = &profile["counters"][0];
    assert_eq!(counter["category"], "Memory");
    let samples =
        if counter["samples"].is_object() { &counter["samples"] } else { &counter["sampleGroups"][0]["samples"] };
    let times = match samples["time"].is_array() {
        true => numbers(samples, "time"),
        // Differences of times.
        false => numbers(samples, "timeDeltas"),
    };
    assert!(if samples["time"].is_array() { ascending(&times) } else { times.iter().all(|delta| *delta >= 0.0) });
    let live: f64 = numbers(samples, "count").iter().sum();
    assert_eq!(live as u64, bytes(&scratch, "end"), "the memory track ends with what is live");
}

#[test]
fn speedscope_reads_the_export() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    speedscope_opens(&scratch, &text(&exported(&scratch, "speedscope", &[])));
}

/// Opens a profile in speedscope in a browser; without one the calling test is counted as skipped.
pub fn speedscope_opens(scratch: &Scratch, file: &str) {
    let Some(page) = peer("node_modules/speedscope/dist/release/index.html") else { return };
    let scope: Value = serde_json::from_str(file).unwrap();
    // What its own program does, but for starting a browser in a window.
    let script = scratch.write("open.js", format!("speedscope.loadFileFromBase64('x.json', btoa({:?}))", ascii(file)));
    let address = format!("file://{}#localProfilePath={}", page.display(), script.display());
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--enable-unsafe-swiftshader", "--allow-file-access-from-files"]);
    browser
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", scratch.path("browser").display()));
    let Ok(output) = browser.arg(address).output() else {
        return testing::skip("needs chromium");
    };
    let dom = done(output);
    let name = scope["profiles"][0]["name"].as_str().unwrap();
    assert!(dom.contains(&format!("<title>{} - speedscope</title>", scope["name"].as_str().unwrap())), "{dom}");
    assert!(dom.contains(name) && dom.contains("Sandwich"), "{dom}");
}

/// JSON in ASCII alone, so that it can stand in a script.
fn ascii(json: &str) -> String {
    assert!(json.is_ascii(), "the fixture's names are");
    json.trim_end().to_owned()
}

#[test]
fn a_flame_graph_is_drawn_of_the_folded_stacks() {
    let scratch = Scratch::new();
    if !recorded(&scratch, "modes.heap", &[]) {
        return;
    }
    let file = exported(&scratch, "folded", &[]);
    let script = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl";
    if !Path::new(script).exists() {
        return testing::skip("needs flamegraph.pl (Debian: libdevel-nytprof-perl)");
    }
    let picture =
        done(Command::new("perl").args([script, "--countname=bytes", "--minwidth=0"]).arg(file).output().unwrap());
    let count = |bytes: u64| {
        let digits = bytes.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
        groups.join(",")
    };
    assert!(picture.contains(&format!("all ({} bytes, 100%)", count(bytes(&scratch, "made")))), "{picture}");
    assert!(picture.contains("<title>hold (100,000 bytes, "), "{picture}");
}

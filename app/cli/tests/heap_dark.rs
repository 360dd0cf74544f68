//! `thaw heap dark` on a program whose reporters are wrong in known ways, and `thaw memory show --from-heap` on
//! programs that report nothing.

use crate::heap::guest;
use crate::memory::reporting_program;
use crate::scratch::{Mortal, Said, Scratch};
use heap::dark::rules::Rules;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A recorded program with reporters that waits.
struct Recorded {
    thaw: Mortal,
    pid: String,
}

impl Recorded {
    /// `None` (counted as skipped): something is missing.
    fn start(scratch: &Scratch, options: &str) -> Option<Self> {
        if !guest() {
            return None;
        }
        let (program, library) = reporting_program(scratch, "fixtures/memory/dark.c")?;
        let mut command = scratch.command();
        command.args(["heap", "run", "-o", "dark.heap", "--"]).arg(program).arg(options);
        command
            .env("LD_LIBRARY_PATH", library)
            .env("XDG_RUNTIME_DIR", scratch.path("run"))
            .env("TMPDIR", scratch.path("state"));
        let mut thaw = Mortal(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut pid = String::new();
        BufReader::new(thaw.0.stdout.as_mut().unwrap()).read_line(&mut pid).unwrap();
        Some(Self { thaw, pid: pid.trim().to_owned() })
    }

    fn ask(&self, scratch: &Scratch, words: &[&str]) -> Said {
        let mut command = scratch.command();
        command.args(["memory", "show", "--pid", &self.pid]).args(words).env("XDG_RUNTIME_DIR", scratch.path("run"));
        Said::of(command)
    }

    fn end(mut self) {
        drop(self.thaw.0.stdin.take());
        assert!(self.thaw.0.wait().unwrap().success());
    }
}

/// (blocks, bytes asked for, usable bytes) of the rows of a section that were made by a function.
fn made_by(section: &Value, function: &str) -> (u64, u64, u64) {
    let rows = section["rows"].as_array().unwrap();
    let of =
        rows.iter().filter(|row| row["frames"].as_array().unwrap().iter().any(|frame| frame["function"] == function));
    of.fold((0, 0, 0), |(blocks, requested, usable), row| {
        let number = |key: &str| row["sum"][key].as_u64().unwrap();
        (blocks + number("blocks"), requested + number("requested_bytes"), usable + number("usable_bytes"))
    })
}

/// Who reported the blocks of a function, as what.
fn reports_of(section: &Value, function: &str) -> Vec<String> {
    let rows = section["rows"].as_array().unwrap();
    let row =
        rows.iter().find(|row| row["frames"].as_array().unwrap().iter().any(|frame| frame["function"] == function));
    let reports = row.unwrap()["reports"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    reports.iter().map(|report| format!("{} as {}", text(&report["reporter"]), text(&report["path"]))).collect()
}

fn planted(dark: &Value) {
    let process = &dark["processes"][0];
    let none = (0, 0, 0);
    // By function: unreported, once, more than once.
    for (function, unreported, once, again) in [
        ("make_cache", none, (20, 10_000, 20 * 504), none),
        ("make_shared", none, none, (3, 6000, 3 * 2008)),
        ("make_thrice", none, none, (1, 3000, 3000)),
        ("make_counted", none, (4, 2800, 4 * 712), none),
        ("make_forgotten", (15, 10_500, 10 * 1000 + 5 * 104), none, none),
        ("make_grown", (1, 4000, 4008), none, none),
        ("make_inside", (1, 6000, 6008), none, none),
        ("make_more", none, (1, 800, 808), none),
        ("make_less", none, (1, 1100, 1112), none),
        ("make_stale", none, none, none),
    ] {
        let found = ["unreported", "reported_once", "reported_again"].map(|key| made_by(&process[key], function));
        assert_eq!(found, [unreported, once, again], "{function}");
    }
    let again = &process["reported_again"];
    assert_eq!(reports_of(again, "make_shared"), ["first as explicit/first", "second as explicit/second"]);
    let three = ["first as explicit/first", "second as explicit/second", "third as explicit/again"];
    assert_eq!(reports_of(again, "make_thrice"), three);
    assert_eq!(reports_of(&process["reported_once"], "make_counted"), ["(on alloc) as explicit/counted"]);
    assert_eq!(again["sum"]["blocks"], 4);

    let wrong = process["wrong_pointers"].as_array().unwrap();
    let mut found: Vec<_> = wrong
        .iter()
        .map(|one| {
            let made = one["frames"][0]["function"].as_str().unwrap_or("nobody");
            (
                one["why"].as_str().unwrap(),
                made,
                one["pointers"].as_u64().unwrap(),
                one["report"]["path"].as_str().unwrap(),
            )
        })
        .collect();
    found.sort_unstable();
    let path = "explicit/wrong";
    let expected =
        [("freed", "make_stale", 1, path), ("interior", "make_inside", 2, path), ("no-block", "nobody", 1, path)];
    assert_eq!(found, expected);

    let reporters = process["reporters"].as_array().unwrap();
    let more: Vec<(&str, i64)> = reporters
        .iter()
        .map(|one| {
            let measured = one["measured_bytes"].as_i64().unwrap();
            (one["name"].as_str().unwrap(), one["reported_heap_bytes"].as_i64().unwrap() - measured)
        })
        .filter(|(_, more)| *more != 0)
        .collect();
    assert_eq!(more, [("boasts", 700), ("forgets", -300)]);

    // The parts of heap-unclassified add up, and each is what was planted.
    let part = |name: &str| process["unclassified"][name].as_i64().unwrap();
    assert_eq!(part("unreported_bytes"), process["unreported"]["sum"]["usable_bytes"].as_i64().unwrap());
    assert_eq!(part("reported_again_bytes"), -(3 * 2008 + 2 * 3000));
    assert_eq!(part("misreported_bytes"), 300 - 700);
    let sum: i64 =
        ["unreported_bytes", "reported_again_bytes", "misreported_bytes", "rest_bytes"].map(part).iter().sum();
    assert_eq!(sum, part("bytes"));
    // glibc adds a word to each block; besides, two wrong pointers were counted.
    let (blocks, counted) = (process["heap"]["blocks"].as_i64().unwrap(), 904 + 88);
    let rest = part("rest_bytes") + counted - 8 * blocks;
    assert!((0..20_000).contains(&rest), "{rest} of {process:#}");
}

#[test]
fn dark_matter_is_found_to_the_byte() {
    let scratch = Scratch::new();
    let Some(program) = Recorded::start(&scratch, "socket") else { return };
    program.ask(&scratch, &["--blocks", "-o", "now.json.gz"]).exits(0).says("heap-unclassified");
    program.ask(&scratch, &["-o", "figures.json"]).exits(0);
    let dark = || {
        let words = ["heap", "dark", "dark.heap", "--reported", "now.json.gz", "--top", "1000", "--json"];
        scratch.thaw(words).exits(0).json()
    };
    let while_it_runs = dark();
    assert_eq!(while_it_runs["schema"], "thaw.heap-dark/1");
    planted(&while_it_runs);
    program.end();
    let afterwards = dark();
    planted(&afterwards);
    // A finished recording is coarser in time: what the library itself did right before may be missing.
    let blocks = |dark: &Value| dark["processes"][0]["heap"]["blocks"].as_i64().unwrap();
    assert!((blocks(&afterwards) - blocks(&while_it_runs)).abs() < 20);

    exported(&scratch, &afterwards);

    let text = scratch.thaw(["heap", "dark", "dark.heap", "--reported", "now.json.gz"]).exits(0);
    text.says("Reported more than once: 9.0 kB (9.0 kB requested / 24 B slop) in 4 blocks")
        .says("1,000 x 10, 100 x 5")
        .says("third as explicit/again")
        .says("boasts: reports 700 B more than it measures")
        .says("blocks that nobody reported");
    // The list is in no other document, and is not needed for anything else.
    let json = scratch.thaw(["memory", "show", "now.json.gz", "--json"]).exits(0).json();
    assert!(json["reporters"][0]["blocks"].is_null() && json["reporters"][0]["measured_blocks"].as_u64().is_some());
    let figures = ["heap", "dark", "dark.heap", "--reported", "figures.json"];
    scratch.thaw(figures).exits(5).complains("does not list its blocks").hints("--blocks");
    scratch.thaw(["heap", "run", "-o", "other.heap", "--", "true"]).exits(0);
    let other = ["heap", "dark", "other.heap", "--reported", "now.json.gz"];
    scratch.thaw(other).exits(2).complains("no process").hints("same process");
}

/// The export for DMD has the fields that its format has, and the sums of the sections.
fn exported(scratch: &Scratch, dark: &Value) {
    let words = ["heap", "export", "dark.heap", "--reported", "now.json.gz", "-o", "dmd.json", "--format"];
    scratch.thaw(words.iter().chain(&["dmd"])).exits(0).says("written to dmd.json");
    scratch.thaw(words.iter().chain(&["pprof"])).exits(2).complains("only DMD's format").hints("--format dmd");
    scratch.thaw(words.iter().chain(&["dmd", "--at", "end"])).exits(2);
    scratch.thaw(words.iter().chain(&["dmd", "--process", "1"])).exits(2).complains("has no process 1");

    let dmd: Value = serde_json::from_str(&std::fs::read_to_string(scratch.path("dmd.json")).unwrap()).unwrap();
    assert_eq!((&dmd["version"], &dmd["invocation"]["mode"]), (&5.into(), &"dark-matter".into()));
    assert!(dmd["invocation"]["dmdEnvVar"].is_string());
    let frames = |trace: &Value| -> Vec<&str> {
        let frames = dmd["traceTable"][trace.as_str().unwrap()].as_array().expect("a stack of the table");
        frames.iter().map(|frame| dmd["frameTable"][frame.as_str().unwrap()].as_str().unwrap()).collect()
    };
    // By number of reports, as dmd.py adds it up: blocks, bytes asked for, bytes given.
    let mut sums = [(0, 0, 0); 3];
    let mut of_thrice = Vec::new();
    for block in dmd["blockList"].as_array().unwrap() {
        let known = ["req", "slop", "num", "alloc", "reps"];
        assert!(block.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{block}");
        let [requested, slop, number] = ["req", "slop", "num"].map(|key| block[key].as_u64());
        assert!(slop != Some(0) && number.is_none_or(|number| number > 1), "{block}");
        let (requested, slop, number) = (requested.unwrap(), slop.unwrap_or(0), number.unwrap_or(1));
        // dmd.py takes an empty list for a block that was reported twice.
        let reports = block.get("reps").map_or(0, |reports| reports.as_array().unwrap().len());
        assert!(reports > 0 || block.get("reps").is_none(), "{block}");
        let sum = &mut sums[reports.min(2)];
        *sum = (sum.0 + number, sum.1 + number * requested, sum.2 + number * (requested + slop));
        let stack = block.get("alloc").map(frames).unwrap_or_default();
        assert!(stack.iter().all(|frame| frame.starts_with("#00: ")), "{stack:?}");
        if stack.iter().any(|frame| frame.contains("make_thrice")) {
            of_thrice.extend(block["reps"].as_array().unwrap().iter().flat_map(frames));
        }
    }
    for (key, sum) in ["unreported", "reported_once", "reported_again"].into_iter().zip(sums) {
        let expected = &dark["processes"][0][key]["sum"];
        let expected = ["blocks", "requested_bytes", "usable_bytes"].map(|field| expected[field].as_u64().unwrap());
        assert_eq!([sum.0, sum.1, sum.2], expected, "{key}");
    }
    assert_eq!(
        of_thrice,
        [
            "#00: explicit/first (reporter first)",
            "#00: explicit/second (reporter second)",
            "#00: explicit/again (reporter third)"
        ]
    );

    let Some(script) = std::env::var_os("THAW_DMD_PY") else {
        return testing::skip("needs Mozilla's dmd.py, which no registry has: THAW_DMD_PY names it");
    };
    let output = Command::new("python3").arg(script).arg("--no-fix-stacks").arg(scratch.path("dmd.json")).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again = "#01: explicit/first (reporter first)\n  }\n  Reported again at {\n    #01: explicit/second (reporter \
        second)\n";
    assert!(said.contains("Mode = 'dark-matter'") && said.contains(again), "{said}");
    // Bytes without separators of thousands, as the summary has them.
    let summary = said[said.find("Summary {").unwrap()..].replace(',', "");
    for (name, (blocks, _, bytes)) in ["Unreported:", "Once-reported:", "Twice-reported:"].into_iter().zip(sums) {
        let line = summary.lines().find(|line| line.trim().starts_with(name)).unwrap();
        assert!(line.contains(&format!(" {bytes} bytes ")) && line.contains(&format!(" {blocks} blocks ")), "{line}");
    }
}

#[test]
fn a_report_at_the_end_has_its_blocks_too() {
    let scratch = Scratch::new();
    let Some(program) = Recorded::start(&scratch, "exit,blocks") else { return };
    program.end();
    let name = scratch.names("state").into_iter().find(|name| name.starts_with("memory-report-")).unwrap();
    let report = format!("state/{name}");
    let words = ["heap", "dark", "dark.heap", "--reported", &report, "--top", "1000", "--json"];
    planted(&scratch.thaw(words).exits(0).json());
}

/// Records a program; `false` (counted as skipped): it is not there.
fn record(scratch: &Scratch, name: &str, command: &[&str], input: &str) -> bool {
    if !Path::new(command[0]).exists() {
        testing::skip(&format!("needs {}", command[0]));
        return false;
    }
    let mut thaw = scratch.command();
    thaw.args(["heap", "run", "--force", "-o", name, "--"]).args(command).env("HOME", scratch.path("state"));
    thaw.stdin(std::fs::File::open(scratch.write("input", input)).unwrap());
    Said::of(thaw).exits(0);
    true
}

fn tree(scratch: &Scratch, name: &str, more: &[&str]) -> Value {
    let words = ["memory", "show", "--from-heap", name, "--json"];
    scratch.thaw(words.iter().chain(more)).exits(0).json()
}

/// Bytes of a path of the first process; 0: it is not there.
fn under(tree: &Value, path: &str) -> u64 {
    fn find(nodes: &Value, path: &str) -> Option<u64> {
        nodes.as_array()?.iter().find_map(|node| {
            let rest = path.strip_prefix(node["name"].as_str()?)?;
            if rest.is_empty() { node["amount"].as_u64() } else { find(&node["kids"], rest.strip_prefix('/')?) }
        })
    }
    find(&tree["processes"][0]["trees"], path).unwrap_or(0)
}

fn figure(tree: &Value, name: &str) -> u64 {
    let others = tree["processes"][0]["others"].as_array().unwrap();
    others.iter().find(|other| other["name"] == name).unwrap()["amount"].as_u64().unwrap()
}

/// Rules that caught something: file and line.
fn caught(tree: &Value) -> BTreeSet<(String, usize)> {
    let processes = tree["reporters"].as_array().unwrap();
    let rules = processes.iter().flat_map(|process| process["rules"].as_array().unwrap());
    rules.map(|rule| (rule["file"].as_str().unwrap().to_owned(), rule["line"].as_u64().unwrap() as usize)).collect()
}

const SQL: &str = "create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, 'text '||i, i*1.5 \
from n;
create index tb on t(b);
select count(*), sum(length(b)) from t where b like 'text 1%';
";

#[test]
fn unmodified_sqlite_has_an_explicit_tree_and_own_rules_go_first() {
    let scratch = Scratch::new();
    if !guest() || !record(&scratch, "sq.heap", &["/usr/bin/sqlite3", ":memory:"], SQL) {
        return;
    }
    let at_peak = tree(&scratch, "sq.heap", &[]);
    // What was asked for is what the report of the recording has at the peak.
    let report = scratch.thaw(["heap", "report", "sq.heap", "--mode", "live", "--json"]).exits(0).json();
    assert_eq!(figure(&at_peak, "heap-requested"), report["total"]["peak"]["bytes"].as_u64().unwrap());
    assert_eq!(figure(&at_peak, "heap-blocks"), report["total"]["peak"]["blocks"].as_u64().unwrap());
    // The tree is the heap: nothing is in two places, nothing is lost.
    let heap = figure(&at_peak, "heap-allocated");
    assert_eq!(under(&at_peak, "explicit"), heap);
    let sqlite = under(&at_peak, "explicit/sqlite");
    assert_eq!(sqlite + under(&at_peak, "explicit/heap-unclassified"), heap);
    assert!(sqlite * 10 > heap * 9, "{sqlite} of {heap}");
    let (pages, sorter) = (under(&at_peak, "explicit/sqlite/pages"), under(&at_peak, "explicit/sqlite/sorter"));
    assert!(pages > 500_000 && sorter > 500_000, "{pages} {sorter}");
    let at_end = tree(&scratch, "sq.heap", &["--at", "end"]);
    assert!(figure(&at_end, "heap-requested") < 100_000);

    scratch.write("own.toml", "[[rule]]\npath = 'explicit/mine/large'\nmodule = 'sqlite'\nsize = '100000..'\n");
    let own = tree(&scratch, "sq.heap", &["--rules", "own.toml"]);
    assert!(under(&own, "explicit/mine/large") > 500_000);
    assert!(caught(&own).contains(&("own.toml".into(), 1)));
    assert!(under(&own, "explicit/sqlite/sorter") < 100_000);
    scratch.write("bad.toml", "# mine\n\n[[rule]]\npath = 'explicit/x'\nfunction = '('\n");
    let bad = ["memory", "show", "--from-heap", "sq.heap", "--rules", "bad.toml"];
    scratch.thaw(bad).exits(5).complains("line 5 of the rules").complains("bad.toml").hints("docs/memory.md");
    scratch.thaw(["memory", "show", "--from-heap", "sq.heap", "--rules", "none"]).exits(2).complains("cannot read");

    // It can be saved, shown and compared as any other report.
    let text = scratch.thaw(["memory", "show", "--from-heap", "sq.heap", "-o", "peak.json.gz"]).exits(0);
    text.says("Explicit Allocations").says("sorter").says("heap-unclassified").says_not("Reporters of");
    scratch.thaw(["memory", "show", "--from-heap", "sq.heap", "--at", "end", "-o", "end.json.gz"]).exits(0);
    scratch.thaw(["memory", "diff", "peak.json.gz", "end.json.gz"]).exits(0).says("sorter [-]");
}

/// Every rule that is shipped catches something real; those of programs that are not here are counted as skipped.
#[test]
fn every_shipped_rule_is_good_for_something() {
    let scratch = Scratch::new();
    if !guest() {
        return;
    }
    let python = "import json; d={i:str(i)*3 for i in range(20000)}; l=list(range(9999)); b=[bytes(1000) for _ in \
        range(99)]; s=set(range(5000))\n\
        class C: pass\ndef f(n): return json.dumps(d) if n == 0 else f(n - 1)\nt=f(900)";
    let node =
        "const a=[];for(let i=0;i<20000;i++)a.push({i,s:'x'+i});console.log(a.length, Buffer.alloc(1e6).length);";
    let streams = "#include <fstream>\n#include <locale>\nint main() { std::locale l(\"C.UTF-8\"); std::ofstream \
        f(\"/dev/null\"); f << 1; std::string s(3000000, 'x'); return s.size() == 1; }\n";
    let program = scratch.path("streams");
    let source = scratch.write("streams.cpp", streams);
    let built = Command::new("c++").arg("-O1").arg(source).arg("-o").arg(&program).status();
    let own_python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let own_python =
        own_python.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let programs: [(&str, &[&str], &str, &[&str]); 6] = [
        ("sq.heap", &["/usr/bin/sqlite3", ":memory:"], SQL, &["sqlite.toml"]),
        ("py.heap", &[&own_python, "-c", python], "", &["cpython.toml"]),
        ("gio.heap", &["/usr/bin/gio", "list", "/usr/share/applications"], "", &["glib.toml"]),
        ("fc.heap", &["/usr/bin/fc-list"], "", &["fontconfig.toml"]),
        ("node.heap", &["/usr/bin/node", "-e", node], "", &["v8.toml"]),
        ("streams.heap", &[program.to_str().unwrap()], "", &["libstdcxx.toml"]),
    ];
    assert!(built.is_ok_and(|status| status.success()) || !program.exists());
    for (name, command, input, files) in programs {
        if record(&scratch, name, command, input) {
            all_catch_something(&scratch, name, files);
        }
    }
}

/// Every rule of these files catches something in the recording.
fn all_catch_something(scratch: &Scratch, recording: &str, files: &[&str]) {
    let mut seen = caught(&tree(scratch, recording, &[]));
    seen.extend(caught(&tree(scratch, recording, &["--at", "end"])));
    let rules = Rules::shipped().unwrap();
    let of_files = rules.iter().filter(|rule| files.contains(&rule.file.as_str()));
    let missing: Vec<_> =
        of_files.map(|rule| (rule.file.clone(), rule.line)).filter(|place| !seen.contains(place)).collect();
    assert!(missing.is_empty(), "these rules caught nothing: {missing:?}");
}

/// Widgets, text, models, scenes, pictures and JSON of Qt, without a screen.
const QT: &str = r#"
import os
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from PyQt5 import QtCore, QtGui, QtWidgets
app = QtWidgets.QApplication(["x"])
app.setStyleSheet("QPushButton { color: red; padding: 3px }")
window = QtWidgets.QWidget()
box = QtWidgets.QVBoxLayout(window)
for i in range(100):
    button = QtWidgets.QPushButton(f"button {i}", window)
    button.clicked.connect(window.close)
    box.addWidget(button)
text = QtWidgets.QTextEdit("<p>some <b>bold</b> text</p>" * 500, window)
model = QtGui.QStandardItemModel(300, 2)
for row in range(300):
    model.setItem(row, 0, QtGui.QStandardItem(f"row {row}"))
scene = QtWidgets.QGraphicsScene()
for i in range(300):
    scene.addRect(i, i, 5, 5)
json = QtCore.QJsonDocument.fromJson(b'[' + b'{"a": "text"},' * 999 + b'1]')
image = QtGui.QImage(800, 600, QtGui.QImage.Format_ARGB32)
painter = QtGui.QPainter(image)
path = QtGui.QPainterPath()
for i in range(500):
    path.cubicTo(i, 5, 600 - i, i * 3 % 500, i % 37, i)
painter.drawPath(path)
painter.drawText(10, 50, "text in a picture")
painter.end()
window.show()
app.processEvents()
window.grab()
"#;

#[test]
fn the_rules_of_qt_say_what_a_program_with_windows_has() {
    if !Path::new("/usr/lib/python3/dist-packages/PyQt5/QtWidgets.abi3.so").exists() {
        return testing::skip("needs python3-pyqt5");
    }
    let scratch = Scratch::new();
    if !guest() || !record(&scratch, "qt.heap", &["/usr/bin/python3", "-c", QT], "") {
        return;
    }
    all_catch_something(&scratch, "qt.heap", &["qt.toml"]);
    let tree = tree(&scratch, "qt.heap", &[]);
    // 800 x 600 pixels of four bytes, and as much again for the window.
    assert!(under(&tree, "explicit/qt/images") >= 1_920_000, "{tree:#}");
    // 300 items and their private parts.
    assert!(under(&tree, "explicit/qt/item-models") >= 300 * 100, "{tree:#}");
    // What Qt has fontconfig read stays fontconfig's.
    assert!(under(&tree, "explicit/fontconfig") > 10_000, "{tree:#}");
}

#[test]
fn the_rule_of_gecko_catches_what_its_library_allocates() {
    let scratch = Scratch::new();
    if !guest() || !record(&scratch, "firefox.heap", &["/usr/bin/firefox-esr", "--headless", "--help"], "") {
        return;
    }
    let tree = tree(&scratch, "firefox.heap", &[]);
    assert!(caught(&tree).iter().any(|(file, _)| file == "gecko.toml"), "{:?}", caught(&tree));
}

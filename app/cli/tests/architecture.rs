//! The house rules, kept: who may import whom, no circles of modules, no long lines, and that every file says what it
//! is for.

mod knots;
mod modules;

use crate::scratch::root;
use modules::Graph;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Floor -> floors that its crates may import. `app` may import all but `inject`.
const MAY_IMPORT: [(&str, &[&str]); 6] = [
    ("base", &["base"]),
    ("measure", &["base"]),
    ("mend", &["base"]),
    ("embed", &["embed"]),
    ("inject", &[]),
    ("app", &["base", "measure", "mend", "embed", "app"]),
];

/// Formats that a guest shares with others, with the floors of all: the room that serves it while it records, and what
/// reads its streams for all rooms. Tests may make streams.
const SHARED: [(&str, &[&str]); 1] = [("heap-wire", &["inject", "measure", "base"])];

/// Crates that read what another one records, and may be given to a page or a fuzzer: they start no program and go into
/// none.
const READERS: [&str; 3] = ["base/heapfile", "base/symbols", "measure/heap"];

/// How a program is started or gone into.
const STARTERS: [&str; 8] = [
    "os::spawn",
    "os::ptrace",
    "os::tracee",
    "os::tracer",
    "process::Command",
    "libc::fork",
    "libc::execv",
    "libc::ptrace",
];

/// Crates that only tests may import.
const FOR_TESTS: [&str; 1] = ["testing"];

/// A crate that proves what others of its floor have made: they may import it, so that nothing leaves them unproven. It
/// imports this and nothing else, other people's crates included: not the code by which its floor reads the same files.
struct Proof {
    name: &'static str,
    floor: &'static str,
    imports: &'static [&'static str],
}

const PROOFS: [Proof; 1] = [Proof { name: "verify", floor: "mend", imports: &["libc", "model", "rustix", "serde"] }];

/// Other people's crates that these of ours alone may import: programs of their own for that.
const ONLY_FOR: [(&str, &[&str]); 3] = [
    ("hyper", &["fleet", "proxy", "storage"]),
    ("hyper-util", &["fleet", "proxy", "storage"]),
    ("tokio", &["fleet", "proxy", "storage"]),
];

/// Crates of `app` that read what the others leave, and may import `base` alone.
const ALONE: [&str; 1] = ["fleet"];

/// Crates that still have circles of modules, and how many modules lie in the greatest. A crate may only leave this
/// list.
const CIRCLES: [(&str, usize); 0] = [];

/// The longest line of a Rust file, in letters: comments and texts too.
const LONGEST_LINE: usize = 120;

/// Crates that still have longer lines, and how many. A crate may only leave this list.
const LONG_LINES: [(&str, usize); 7] = [
    ("app/cli", 4),
    ("base/elf", 2),
    ("embed/memreport", 2),
    ("inject/heap-agent", 12),
    ("measure/disk", 7),
    ("measure/elfstat", 1),
    ("measure/touch", 1),
];

/// Where Rust files of ours lie.
const FLOORS: [&str; 6] = ["base", "measure", "mend", "embed", "inject", "app"];

/// The first folder below the root: the floor.
fn floor(path: &Path) -> String {
    inside(path).components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// A path from the root on.
fn inside(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or_else(|_| panic!("{} is outside", path.display()))
}

/// The crate of a file: the first two folders.
fn home(path: &Path) -> String {
    let parts = inside(path).components().take(2).map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.collect::<Vec<_>>().join("/")
}

/// What cargo knows of each crate of the house.
fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

#[test]
fn rooms_import_only_what_the_house_allows() {
    let wrong: Vec<String> = packages().iter().flat_map(wrong_imports).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_wall_refuses_what_it_is_for() {
    let at = |place: &str| root().join(place).join("Cargo.toml").display().to_string();
    let wrong = |place: &str, target: &str, path: Option<&str>| {
        let name = place.rsplit_once('/').unwrap().1;
        let path = path.map(|place| root().join(place).display().to_string());
        let dependencies = serde_json::json!([{ "name": target, "kind": null, "path": path }]);
        let package = serde_json::json!({ "name": name, "manifest_path": at(place), "dependencies": dependencies });
        wrong_imports(&package).join(" ")
    };
    for (place, target, path) in [
        ("measure/cpu", "io", Some("measure/io")),
        ("mend/pack", "layout", Some("mend/layout")),
        ("embed/entrystore", "os", Some("base/os")),
        ("base/stats", "bench", Some("measure/bench")),
        ("inject/heap-agent", "model", Some("base/model")),
        ("app/cli", "heap-agent", Some("inject/heap-agent")),
        ("app/fleet", "bench", Some("measure/bench")),
        ("measure/pageload", "hyper", None),
        ("app/cli", "testing", Some("base/testing")),
        ("mend/verify", "object", None),
    ] {
        assert!(!wrong(place, target, path).is_empty(), "{place} may import {target}");
    }
    for (place, target, path) in [
        ("measure/cpu", "model", Some("base/model")),
        ("embed/session", "entrystore", Some("embed/entrystore")),
        ("mend/pack", "verify", Some("mend/verify")),
        ("app/proxy", "hyper", None),
        ("app/proxy", "httpcache", Some("embed/httpcache")),
        ("app/fleet", "recording", Some("base/recording")),
    ] {
        assert_eq!(wrong(place, target, path), "", "{place} may not import {target}");
    }
}

#[test]
fn every_crate_has_a_row_in_the_architecture() {
    let house = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for package in packages() {
        let place = home(Path::new(text(&package, "manifest_path")));
        let row = |line: &str| line.starts_with('|') && line.contains(&format!("`{place}`"));
        assert!(house.lines().any(row), "ARCHITECTURE.md has no row for {place}: say what it is for");
    }
}

/// What a package imports against the rules, each with its cure.
fn wrong_imports(package: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = text(package, "name");
    let name = name.strip_prefix("thawlab-").unwrap_or(name);
    let from = floor(Path::new(text(package, "manifest_path")));
    let allowed = MAY_IMPORT.iter().find(|(floor, _)| *floor == from).map(|(_, allowed)| *allowed);
    let allowed = allowed.unwrap_or_else(|| panic!("{name} is on floor {from}/, which the table does not know"));
    let allowed = if ALONE.contains(&name) { &["base"] } else { allowed };
    for dependency in package["dependencies"].as_array().unwrap() {
        let target = text(dependency, "name");
        let only_tests = dependency["kind"] == "dev";
        let proof = PROOFS.iter().find(|proof| proof.name == name && !only_tests);
        if let Some(proof) = proof.filter(|proof| !proof.imports.contains(&target)) {
            wrong.push(format!(
                "{name} imports {target}, but what proves others' work imports only {:?}: write the few lines that \
                 it needs of {target} anew, so that both do not share a fault",
                proof.imports
            ));
        }
        if let Some((_, only)) =
            ONLY_FOR.iter().find(|(it, only)| *it == target && !only.contains(&name) && !only_tests)
        {
            wrong.push(format!(
                "{name} imports {target}, which only {} may: programs of their own for that",
                only.join(", ")
            ));
        }
        let Some(path) = dependency["path"].as_str() else { continue };
        let to = floor(Path::new(path));
        if FOR_TESTS.contains(&target) && !only_tests {
            wrong.push(format!("{name} imports {target}: move it to [dev-dependencies], it is for tests only"));
        } else if SHARED.iter().any(|(name, floors)| *name == target && (only_tests || floors.contains(&from.as_str())))
            || PROOFS.iter().any(|proof| proof.name == target && proof.floor == from)
        {
            continue;
        } else if !(allowed.contains(&to.as_str()) || (only_tests && to == "base")) {
            wrong.push(format!(
                "{name} ({from}/) imports {target} ({to}/), but {name} may import only {allowed:?}: let app/work \
                 introduce them by passing a value or a function, or move the shared noun down to base/model"
            ));
        }
    }
    wrong
}

/// Compares what is with a list of what is known to be wrong still, which may only get shorter.
fn only_known(found: &BTreeMap<String, (usize, String)>, known: &[(&str, usize)], list: &str) {
    let mut wrong = Vec::new();
    let allowed: BTreeMap<&str, usize> = known.iter().copied().collect();
    for (name, (count, how)) in found {
        match allowed.get(name.as_str()) {
            Some(most) if count <= most => {}
            _ => wrong.push(format!("{name}: {how}")),
        }
    }
    let gone = allowed.keys().filter(|name| !found.contains_key(**name));
    wrong.extend(gone.map(|name| format!("{name} is clean: take it off {list}")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn modules_do_not_name_each_other_in_circles() {
    let mut found = BTreeMap::new();
    for package in packages() {
        let crate_home = home(Path::new(text(&package, "manifest_path")));
        for target in package["targets"].as_array().unwrap() {
            let kinds = target["kind"].as_array().unwrap();
            if !kinds.iter().any(|kind| ["lib", "cdylib", "staticlib", "bin"].iter().any(|own| kind == own)) {
                continue;
            }
            let graph = Graph::of(Path::new(text(target, "src_path")));
            let knots = knots::knots(&graph);
            let Some(greatest) = knots.first() else { continue };
            let how: Vec<String> = knots.iter().map(|knot| knots::cure(&graph, knot)).collect();
            let entry = (greatest.len(), how.join("\n  "));
            let known: &mut (usize, String) = found.entry(crate_home.clone()).or_default();
            *known = known.clone().max(entry);
        }
    }
    only_known(&found, &CIRCLES, "CIRCLES");
}

/// A crate made of these files, its modules, and its knots as text.
fn knots_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir_in(root().join("target")).unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let graph = Graph::of(&folder.path().join("lib.rs"));
    let shown = |knot: &knots::Knot| knot.iter().map(|name| name.join("::")).collect::<Vec<_>>().join(" ");
    for knot in knots::knots(&graph) {
        assert!(knots::cure(&graph, &knot).contains("move that into a module below both"));
    }
    knots::knots(&graph).iter().map(shown).collect()
}

#[test]
fn circles_are_found_however_a_module_is_named() {
    let root = ("lib.rs", "mod a; mod b; pub use b::B; mod c { pub mod d { pub fn f() {} } }");
    let a = ("a.rs", "use crate::b::B; pub struct A(B);");
    for back in [
        "use crate::a::A; pub struct B;",
        "use super::{c, a::A as Other}; pub struct B;",
        "use super::a::*; pub struct B;",
        "pub struct B; fn f() { crate::a::f(); }",
        "pub struct B; impl B { fn f(x: super::a::A) {} }",
        "pub struct B; fn f() { println!(\"{}\", crate::a::f()); }",
        "pub struct B; mod inner { fn f() { super::super::a::f() } }  pub use inner::*; use crate::a;",
    ] {
        assert_eq!(knots_of(&[root, a, ("b.rs", back)]), ["a b"], "{back}");
    }
    // By what the root passes on.
    let by_root = ("a.rs", "use crate::B; pub struct A(B);");
    assert_eq!(knots_of(&[root, by_root, ("b.rs", "use crate::a::A; pub struct B;")]), ["a b"]);
    // Down and up again through a folder: the facade hides nothing.
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; pub use x::X;"),
        ("a/x.rs", "use crate::b::B; pub struct X;"),
    ];
    let knot = knots_of(&[files[0], files[1], files[2], ("b.rs", "use crate::a::X; pub struct B;")]);
    assert_eq!(knot, ["a::x b"]);
}

#[test]
fn what_is_no_circle_is_none() {
    let root = ("lib.rs", "mod a; mod b; pub use b::B; pub struct Own;");
    for (a, b) in [
        ("use crate::b::B;", "pub struct B; #[cfg(test)] mod tests { use crate::a; }"),
        ("use crate::b::B;", "pub struct B; #[cfg(all(test, unix))] use crate::a; #[test] fn f() { crate::a::g() }"),
        ("use crate::b::B;", "pub struct B; impl B { #[cfg(test)] fn f() { crate::a::f() } }"),
        // A module and what lies inside it are one thing; so is the root, and a word in a comment is none.
        ("use crate::b::B; mod inner { use super::*; } use inner::X;", "use crate::Own; pub struct B; // crate::a"),
        ("use crate::b::B;", "/// See [`crate::a`].\npub(in crate::b) struct B; use std::fmt;"),
    ] {
        assert_eq!(knots_of(&[root, ("a.rs", a), ("b.rs", b)]), [""; 0], "{a} {b}");
    }
}

#[test]
fn a_list_of_known_faults_only_gets_shorter() {
    let found = BTreeMap::from([("a/b".to_owned(), (3, "three of them".to_owned()))]);
    let fails = |known: &'static [(&'static str, usize)]| {
        let found = found.clone();
        let panic = std::panic::catch_unwind(move || only_known(&found, known, "LIST")).err()?;
        panic.downcast_ref::<String>().cloned()
    };
    assert_eq!(fails(&[("a/b", 3)]), None);
    assert_eq!(fails(&[("a/b", 4)]), None);
    assert!(fails(&[]).unwrap().contains("three of them"));
    assert!(fails(&[("a/b", 2)]).unwrap().contains("three of them"));
    assert!(fails(&[("a/b", 3), ("c/d", 1)]).unwrap().contains("c/d is clean: take it off LIST"));
}

#[test]
fn lines_end_where_a_window_ends() {
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    each_file_of_ours(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            let letters = line.chars().count();
            if letters > LONGEST_LINE {
                let (count, how) = found.entry(home(path)).or_default();
                *count += 1;
                // The first ones will do.
                if *count <= 5 {
                    let place = inside(path).display();
                    how.push_str(&format!("\n  {place}:{} has {letters} letters", number + 1));
                }
            }
        }
    });
    for (count, how) in found.values_mut() {
        *how = format!("{count} lines are longer than {LONGEST_LINE} columns: break them{how}");
    }
    only_known(&found, &LONG_LINES, "LONG_LINES");
}

#[test]
fn who_reads_recordings_starts_no_program() {
    let mut wrong = Vec::new();
    let mut looked_at = BTreeSet::new();
    each_file_of_ours(&mut |path, text| {
        let home = home(path);
        if !READERS.contains(&home.as_str()) || !inside(path).starts_with(format!("{home}/src")) {
            return;
        }
        for starter in STARTERS.iter().filter(|starter| text.contains(**starter)) {
            wrong.push(format!("{}: {starter}: move it to the crate that records", inside(path).display()));
        }
        looked_at.insert(home);
    });
    assert_eq!(looked_at.len(), READERS.len(), "a crate of READERS is not there: {looked_at:?}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_picture_of_the_house_is_true() {
    let Ok(output) = Command::new("python3").arg(root().join("dev/house")).arg("--check").output() else {
        return testing::skip("needs python3");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut silent = Vec::new();
    each_file_of_ours(&mut |path, text| {
        if !text.starts_with("//!") {
            silent.push(format!("{}: begin it with a `//!` line: what it is for, and what not", path.display()));
        }
    });
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
}

#[test]
fn nothing_is_left_for_later_in_a_comment() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat()];
    let mut found = Vec::new();
    each_file_of_ours(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark.as_str())) {
                found.push(format!("{}:{}: do it, or open an issue", path.display(), number + 1));
            }
        }
    });
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// Every Rust file of the house, by name.
fn each_file_of_ours(each: &mut impl FnMut(&Path, &str)) {
    let mut files = BTreeSet::new();
    FLOORS.iter().for_each(|floor| collect(&root().join(floor), &mut files));
    for path in files {
        each(&path, &std::fs::read_to_string(&path).unwrap());
    }
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && path.file_name().unwrap() != "target" {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(path);
        }
    }
}

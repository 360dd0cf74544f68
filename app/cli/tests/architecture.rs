//! The house rules, kept: who may import whom, and that every file says what it is for.

use crate::scratch::root;
use serde_json::Value;
use std::path::Path;
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

/// Formats that a guest and its room share, with the floors of both.
const SHARED: [(&str, [&str; 2]); 1] = [("heap-wire", ["inject", "measure"])];

/// Crates that only tests may import.
const FOR_TESTS: [&str; 1] = ["testing"];

/// The first folder below the root: the floor.
fn floor(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or_else(|_| panic!("{} is outside", path.display()));
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

#[test]
fn rooms_import_only_what_the_house_allows() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let from = floor(Path::new(package["manifest_path"].as_str().unwrap()));
        let allowed = MAY_IMPORT.iter().find(|(floor, _)| *floor == from).map(|(_, allowed)| *allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} is on floor {from}/, which the table does not know"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(path) = dependency["path"].as_str() else { continue };
            let (target, to) = (dependency["name"].as_str().unwrap(), floor(Path::new(path)));
            let only_tests = dependency["kind"] == "dev";
            if FOR_TESTS.contains(&target) && !only_tests {
                wrong.push(format!("{name} imports {target}: move it to [dev-dependencies], it is for tests only"));
            } else if SHARED.iter().any(|(name, floors)| *name == target && floors.contains(&from.as_str())) {
                continue;
            } else if !(allowed.contains(&to.as_str()) || (only_tests && to == "base")) {
                wrong.push(format!(
                    "{name} ({from}/) imports {target} ({to}/), but {from}/ may import only {allowed:?}: let app/cli introduce \
                     them by passing a value or a function, or move the shared noun down to base/model"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut silent = Vec::new();
    for folder in ["base", "measure", "mend", "embed", "inject", "app"] {
        each_rust_file(&root().join(folder), &mut |path| {
            let text = std::fs::read_to_string(path).unwrap();
            if !text.starts_with("//!") {
                silent.push(format!("{}: begin it with a `//!` line: what it is for, and what not", path.display()));
            }
        });
    }
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
}

#[test]
fn nothing_is_left_for_later_in_a_comment() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat()];
    let mut found = Vec::new();
    for folder in ["base", "measure", "mend", "embed", "inject", "app"] {
        each_rust_file(&root().join(folder), &mut |path| {
            let text = std::fs::read_to_string(path).unwrap();
            for (number, line) in text.lines().enumerate() {
                if marks.iter().any(|mark| line.contains(mark.as_str())) {
                    found.push(format!("{}:{}: do it, or open an issue", path.display(), number + 1));
                }
            }
        });
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn each_rust_file(folder: &Path, each: &mut impl FnMut(&Path)) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && path.file_name().unwrap() != "target" {
            each_rust_file(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path);
        }
    }
}

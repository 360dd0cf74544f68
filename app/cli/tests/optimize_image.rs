//! optimize: the program's directory as an image, where the disk limits and where it does not.

use crate::optimize::{store, trace_of, whole};
use crate::scratch::{Said, Scratch, alone};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// The pages of the data file that the program needs: four in a row, of sixteen. No multiple of 7919.
const NEEDED: u64 = 1_100;

/// A program that reads so many pages of a file beside it, out of order. `None`: counted as skipped.
fn reader(scratch: &Scratch) -> Option<PathBuf> {
    if !std::fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("\terofs\n") {
        testing::skip("needs a kernel with EROFS");
        return None;
    }
    let source = format!(
        r#"#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 8);
    if (len < 0) return 3;
    path[len] = 0;
    strcpy(strrchr(path, '/'), "/data");
    unsigned sum = 0;
    int file = open(path, O_RDONLY);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM)) return 3;
    for (long i = 0; i < {NEEDED}; i++) {{
        unsigned char byte;
        if (pread(file, &byte, 1, (i * 7919 % {NEEDED} / 4 * 16 + i * 7919 % {NEEDED} % 4) * 4096) != 1) return 4;
        sum += byte;
    }}
    printf("sum %u\n", sum);
    return 0;
}}
"#
    );
    let source = scratch.write("read.c", source);
    // No two pages are the same, and all become smaller.
    let page =
        |number: u64| format!("page {number} of what the program reads\n").repeat(200).into_bytes()[..4096].to_vec();
    scratch.write("system/app/data", (0..NEEDED * 4).flat_map(page).collect::<Vec<u8>>());
    let program = scratch.path("system/app/read");
    let made = testing::compiled(Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&source));
    assert!(Command::new("sync").status().unwrap().success());
    made.then_some(program)
}

fn sets(document: &Value) -> Vec<&Value> {
    document["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect()
}

#[test]
fn an_image_is_planned_for_a_disk_that_limits_and_for_a_fast_one_the_plan_says_that_it_does_not_help() {
    let scratch = Scratch::new();
    let Some(program) = reader(&scratch) else { return };
    let files = [program.clone(), program.with_file_name("data")];
    let place = |at: u64| (at * 7919 % NEEDED / 4 * 16 + at * 7919 % NEEDED % 4) * 4096;
    let data = (0..NEEDED).map(|at| (1, place(at), 4096, (1 << 32) + place(at)));
    let reads: Vec<_> = std::iter::once((0, 0, 4096, 0)).chain(data).collect();
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    store(&scratch, "read.thaw", &trace_of(&program, &files, &reads), &words);
    let before = whole(&scratch.path("system"));
    let plan = scratch.thaw(["optimize", "read.thaw", "--plan", "--json"]).exits(0).json();
    assert_eq!(sets(&plan), [&json!(["image"]), &json!(["preload"]), &json!(["image", "preload"])], "{plan:#}");
    let ratio = plan["tried"][0]["predicted"]["ratio"].as_f64().unwrap();
    let number = |name: &str| plan["image"][name].as_f64().unwrap();
    assert!(ratio < 0.5, "a thousand requests become few: {plan:#}");
    assert!(number("needed") >= 4096.0 * NEEDED as f64 && number("stretch") < number("needed") / 2.0, "{plan:#}");
    assert!(number("unpacked_in_a_second") > 1e6 && number("unpacking_s") > 0.0 && number("reading_s") > 0.0);
    assert!(plan["image"]["cost"].is_null() && plan["image"]["kept"].is_null(), "{plan:#}");
    scratch
        .thaw(["optimize", "read.thaw", "--plan"])
        .exits(0)
        .says("What image would change")
        .says("in a second, measured");
    // Where a request costs nothing, unpacking is all that is left of it.
    let fast = ["optimize", "read.thaw", "--plan", "--disk", "throttle:bps=100G", "--json"];
    let fast = scratch.thaw(fast).exits(0).json();
    assert!(!sets(&fast).contains(&&json!(["image"])), "{fast:#}");
    let notes = fast["notes"].to_string();
    assert!(notes.contains("no image is tried: it does not help: a start would take"), "{fast:#}");
    assert!(notes.contains("in a second, measured"), "{fast:#}");
    assert_eq!(whole(&scratch.path("system")), before);
    scratch.nothing_left();
}

#[test]
fn on_a_slow_disk_the_image_is_kept_and_the_program_starts_from_it_or_without_it() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = reader(&scratch) else { return };
    let before = whole(&scratch.path("system"));
    let record = ["record", "-q", "--state", "app", "--runs", "1", "--trace-runs", "1", "--needed", "no"];
    let disk = ["--disk", "throttle:iops=700,bps=20M", "--readahead", "128K", "--", program.to_str().unwrap()];
    scratch.thaw(record.into_iter().chain(disk)).exits(0);
    let mut command = scratch.command();
    command.args(["-q", "optimize", "thaw.thaw", "-o", "fast", "--runs", "3", "--json"]);
    let said = Said::of(command);
    let document = said.json();
    if document["notes"].to_string().contains("no image is tried") {
        return testing::skip(&format!("an image cannot be mounted here: {}", document["notes"]));
    }
    let said = said.exits(0);
    assert_eq!(said.err(), "");
    let alone = document["tried"].as_array().unwrap().iter().find(|tried| tried["set"] == json!(["image"])).unwrap();
    assert_eq!(alone["verdict"], "helps", "{document:#}");
    assert!(document["kept"].as_array().unwrap().contains(&json!("image")), "{document:#}");
    let cost = |name: &str| document["image"]["cost"][name].as_f64().unwrap_or_else(|| panic!("{name}: {document:#}"));
    assert!(cost("stretch") < cost("size") && cost("hot_with_s") > 0.0 && cost("hot_without_s") > 0.0, "{document:#}");
    let needed = (NEEDED * 4096) as f64;
    assert!(cost("memory_without") >= needed && cost("memory_files") >= needed, "{document:#}");
    assert!(cost("memory_image") >= cost("stretch") && cost("memory_image") <= cost("size"), "{document:#}");
    assert_eq!(whole(&scratch.path("system")), before, "the original is untouched");

    let plain = Command::new(&program).output().unwrap();
    let run = || Command::new(scratch.path("fast/run")).output().unwrap();
    let said = run();
    assert_eq!((said.stdout, &*String::from_utf8_lossy(&said.stderr)), (plain.stdout.clone(), ""), "from the image");
    let verified = scratch.thaw(["image", "verify", "fast/start.image", "--json"]).exits(0).json();
    assert_eq!(verified["replaced"], json!([]), "{verified:#}");
    // An image is never applied, and never silently left out.
    let applied = scratch.thaw(["optimize", "--apply", "fast"]);
    match document["kept"].as_array().unwrap().len() {
        1 => drop(applied.exits(1).complains("changes no file").hints("thaw image install")),
        _ => {
            applied.exits(0).says("is not applied");
            scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
        }
    }
    // Who cannot mount it, and who has another directory now, starts without it.
    std::fs::set_permissions(scratch.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if let Some(said) = scratch.thaw_as_nobody(["optimize", "--run", "fast"]) {
        said.exits(0).says("sum ").complains("not mounted");
    }
    std::fs::set_permissions(scratch.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    scratch.write("system/app/new", "of an upgrade");
    let said = run();
    assert_eq!(said.stdout, plain.stdout);
    let warned = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(warned.contains("its directory was changed") && warned.contains("new is new"), "{warned}");
    scratch.nothing_left();
}

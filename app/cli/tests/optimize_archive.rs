//! optimize: archives in the order of their use, and files in pieces.

use crate::optimize::{identity, optimized, store, trace_of, whole, write};
use crate::scratch::{Scratch, alone};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Entries of the archive, and of these the ones that the program reads: one in twenty, from all over it.
const ENTRIES: u64 = 400;
const USED: u64 = 20;

/// The numbers of the used entries in the order of their use.
fn used() -> impl Iterator<Item = u64> {
    (0..USED).map(|number| number * 7 % USED * (ENTRIES / USED))
}

/// A program that reads entries of the archive `app.jar` beside it, found through the directory at its end. `None`
/// without a C compiler.
fn program(scratch: &Scratch) -> Option<PathBuf> {
    let source = format!(
        r#"#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static unsigned word(const unsigned char *at) {{ return at[0] | at[1] << 8 | at[2] << 16 | (unsigned)at[3] << 24; }}
static unsigned half(const unsigned char *at) {{ return at[0] | at[1] << 8; }}
static unsigned char content[1 << 20];
int main(void) {{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 8);
    if (len < 0) return 3;
    path[len] = 0;
    strcpy(strrchr(path, '/'), "/app.jar");
    int file = open(path, O_RDONLY);
    if (file < 0) return 3;
    off_t size = lseek(file, 0, SEEK_END);
    unsigned char end[22], header[30];
    if (pread(file, end, 22, size - 22) != 22 || memcmp(end, "PK\5\6", 4)) return 4;
    unsigned records_len = word(end + 12);
    unsigned char *records = malloc(records_len);
    if (pread(file, records, records_len, word(end + 16)) != records_len) return 4;
    unsigned long sum = 0;
    for (unsigned number = 0; number < {USED}; number++) {{
        char name[16];
        sprintf(name, "%03u.js", number * 7 % {USED} * ({ENTRIES} / {USED}));
        unsigned char *at = records;
        while (at < records + records_len && (half(at + 28) != strlen(name) || memcmp(at + 46, name, strlen(name))))
            at += 46 + half(at + 28) + half(at + 30) + half(at + 32);
        if (at >= records + records_len) return 5;
        unsigned place = word(at + 42), bytes = word(at + 20);
        if (pread(file, header, 30, place) != 30) return 6;
        if (pread(file, content, bytes, place + 30 + half(header + 26) + half(header + 28)) != bytes) return 6;
        for (unsigned i = 0; i < bytes; i++) sum = sum * 31 + content[i];
    }}
    printf("sum %lu\n", sum);
    return 0;
}}
"#
    );
    let source = scratch.write("reader.c", source);
    for number in 0..ENTRIES {
        let line = format!("{number} {}\n", number * 2_654_435_761);
        scratch.write(&format!("content/{number:03}.js"), line.repeat(16_000 / line.len()));
    }
    let program = scratch.path("system/app/reader");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    if !testing::compiled(Command::new("cc").args(["-O1", "-no-pie", "-o"]).arg(&program).arg(&source)) {
        return None;
    }
    scratch.thaw(["archive", "pack", "content", "-o", "system/app/app.jar", "--store"]).exits(0);
    std::fs::set_permissions(jar(scratch), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Command::new("sync").status().unwrap().success());
    Some(program)
}

fn jar(scratch: &Scratch) -> PathBuf {
    scratch.path("system/app/app.jar")
}

/// The pages of used entries, of each three requests.
fn reads_of(scratch: &Scratch, file: u32, archive: &Path) -> Vec<(u32, u64, u64, u64)> {
    let stat = scratch.thaw(["archive", "stat", archive.to_str().unwrap(), "--json"]).exits(0).json();
    let list = stat["archive"]["list"].as_array().unwrap();
    let mut reads = Vec::new();
    for number in used() {
        let name = format!("{number:03}.js");
        let entry = list.iter().find(|entry| entry["name"] == name.as_str()).unwrap();
        let (offset, size) = (entry["offset"].as_u64().unwrap(), entry["size"].as_u64().unwrap());
        let (start, end) = (offset / 4096, (offset + size).div_ceil(4096));
        let third = (end - start) / 3;
        for (from, to) in [(start, start + third), (start + third, start + 2 * third), (start + 2 * third, end)] {
            reads.push((file, from * 4096, (to - from) * 4096, (u64::from(file) << 32) + from * 4096));
        }
    }
    reads
}

/// A recording of a start of the program that read its archive.
fn recording(scratch: &Scratch, program: &Path) {
    let files = [program.to_owned(), jar(scratch)];
    let rows = trace_of(program, &files, &reads_of(scratch, 1, &jar(scratch)));
    store(scratch, "reader.thaw", &rows, &["thaw", "record", "--", program.to_str().unwrap()]);
}

fn sets(plan: &Value) -> Vec<&Value> {
    plan["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect()
}

#[test]
fn an_archive_whose_used_entries_lie_apart_is_planned_and_others_are_listed_with_the_reason() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    // One that is in the order of its use, and one that nobody can read.
    scratch.write("names", used().map(|number| format!("{number:03}.js\n")).collect::<String>());
    let tidy = scratch.path("system/app/tidy.jar");
    scratch.thaw(["archive", "pack", "content", "-o", tidy.to_str().unwrap(), "--store", "--log", "names"]).exits(0);
    let mut bytes = std::fs::read(jar(&scratch)).unwrap();
    for at in 0..bytes.len() - 10 {
        match &bytes[at..at + 4] {
            b"PK\x03\x04" => bytes[at + 6] |= 1,
            b"PK\x01\x02" => bytes[at + 8] |= 1,
            _ => {}
        }
    }
    let secret = scratch.write("system/app/sub/secret.jar", &bytes);
    let mut reads = reads_of(&scratch, 1, &jar(&scratch));
    reads.extend(reads_of(&scratch, 2, &tidy));
    reads.extend([(3, 0, 65_536, 0)]);
    let files = [program.clone(), jar(&scratch), tidy, secret];
    let mut rows = trace_of(&program, &files, &reads);
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    store(&scratch, "reader.thaw", &rows, &words);
    let before = whole(&scratch.path("system"));
    let plan = scratch.thaw(["optimize", "reader.thaw", "--plan", "--json"]).exits(0).json();
    assert_eq!(sets(&plan), [&json!(["archive"]), &json!(["preload"]), &json!(["archive", "preload"])], "{plan:#}");
    let ratio = |index: usize| plan["tried"][index]["predicted"]["ratio"].as_f64().unwrap();
    assert!(ratio(0) < 0.9, "its sixty requests become few, the other sixty stay: {plan:#}");
    assert!(ratio(2) <= ratio(1), "what is read ahead lies together: {plan:#}");
    let changes = plan["tried"][0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{plan:#}");
    assert!(changes[0].as_str().unwrap().starts_with("app.jar: 20 of 400 entries come first; "), "{plan:#}");
    let notes = plan["notes"].to_string();
    assert!(
        notes.contains("not reordered (no gain predicted, its used entries lie together: 4 -> 4 requests"),
        "{notes}"
    );
    assert!(notes.contains("encrypted") && notes.contains(": sub/secret.jar"), "{notes}");
    let text = scratch.thaw(["optimize", "reader.thaw", "--plan"]).exits(0);
    text.says("archive+preload").says("What archive would change").says("tidy.jar");
    assert_eq!(whole(&scratch.path("system")), before);

    // Who cannot trace requests is told the model's figures alone.
    rows.blocks.clear();
    store(&scratch, "blind.thaw", &rows, &words);
    let plan = scratch.thaw(["optimize", "blind.thaw", "--plan", "--json"]).exits(0).json();
    assert_eq!((sets(&plan).len(), &plan["tried"][0]["predicted"]), (3, &Value::Null));
    scratch.nothing_left();
}

/// A result that keeps the archive in this order, made by hand.
fn result(scratch: &Scratch, program: &Path, place: &str) -> Value {
    recording(scratch, program);
    let mut manifest = scratch.thaw(["optimize", "reader.thaw", "--plan", "--json"]).exits(0).json();
    std::fs::create_dir_all(scratch.path("fast/tree")).unwrap();
    let (old, new) = (jar(scratch), "fast/tree/app.jar");
    let reorder = ["archive", "reorder", old.to_str().unwrap(), "--from", "reader.thaw", "--directory", place, "-o"];
    scratch.thaw(reorder.into_iter().chain([new])).exits(0);
    let (before, after) = (identity(&old), identity(&scratch.path(new)));
    assert_ne!(before, after);
    manifest["kept"] = json!(["archive"]);
    manifest["files"] = json!([{ "path": "app.jar", "by": "archive", "before": before, "after": after }]);
    write(scratch, &manifest);
    manifest
}

#[test]
fn an_archive_is_put_in_order_in_place_and_back_byte_for_byte() {
    for place in ["both", "end"] {
        let scratch = Scratch::new();
        let Some(program) = program(&scratch) else { return };
        if place == "end" {
            let old = jar(&scratch);
            std::fs::remove_file(&old).unwrap();
            let pack = ["archive", "pack", "content", "--directory", "end", "-o", old.to_str().unwrap()];
            scratch.thaw(pack.into_iter().chain(["--store"])).exits(0);
        }
        result(&scratch, &program, place);
        let said = Command::new(&program).output().unwrap();
        assert!(said.status.success());
        let before = whole(&scratch.path("system"));
        scratch.thaw(["optimize", "--apply", "fast"]).exits(0).says("app.jar is in the order of its use");
        let new = std::fs::read(jar(&scratch)).unwrap();
        assert!(new == std::fs::read(scratch.path("fast/tree/app.jar")).unwrap(), "{place}");
        assert_eq!(
            std::fs::metadata(jar(&scratch)).unwrap().mode() & 0o7777,
            if place == "both" { 0o640 } else { 0o644 }
        );
        assert_eq!(Command::new(&program).output().unwrap().stdout, said.stdout);
        scratch.thaw(["doctor"]).says("What is optimised").says("app.jar is in the order of its use");
        scratch.thaw(["optimize", "--apply", "fast"]).exits(2).complains("applied already");

        // Others have changed it: nothing is undone over that.
        std::fs::write(jar(&scratch), "upgraded").unwrap();
        scratch.thaw(["optimize", "--undo", "fast"]).exits(5).complains("changed since");
        std::fs::write(jar(&scratch), &new).unwrap();
        std::fs::remove_dir_all(scratch.path("fast")).unwrap();
        scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
        assert_eq!(whole(&scratch.path("system")), before, "{place}");
        assert_eq!(scratch.names("state/optimized"), Vec::<String>::new());
        scratch.nothing_left();
    }
}

#[test]
fn an_order_that_makes_another_archive_than_the_measured_one_is_not_applied() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let good = result(&scratch, &program, "both");
    let before = whole(&scratch.path("system"));
    let refused = |exit: i32, part: &str| {
        let said = scratch.thaw(["optimize", "--apply", "fast"]).exits(exit).complains(part);
        assert_eq!(whole(&scratch.path("system")), before, "what was begun is taken back");
        assert_eq!(scratch.names("state/optimized"), Vec::<String>::new());
        said
    };
    let copy = scratch.path("fast/tree/app.jar");
    let bytes = std::fs::read(&copy).unwrap();
    std::fs::copy(jar(&scratch), &copy).unwrap();
    refused(5, "another file than the one that was measured").hints("thaw optimize");
    std::fs::write(&copy, "dear diary").unwrap();
    refused(5, "another file than the one that was measured");
    std::fs::remove_file(&copy).unwrap();
    refused(3, "cannot read");
    std::fs::write(&copy, bytes).unwrap();
    let mut manifest = good.clone();
    manifest["files"][0]["before"]["crc32"] = json!(1);
    write(&scratch, &manifest);
    refused(5, "not the one that was measured");
    write(&scratch, &good);
    // As if the machine had stopped between the record and the archive.
    scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
    let kept = scratch.names("state/optimized").into_iter().find(|name| name.ends_with(".original")).unwrap();
    std::fs::rename(scratch.path(format!("state/optimized/{kept}")), jar(&scratch)).unwrap();
    scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
    assert_eq!(whole(&scratch.path("system")), before);
    // An original that was damaged is not put back.
    scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
    std::fs::write(scratch.path(format!("state/optimized/{kept}")), "rotten").unwrap();
    scratch.thaw(["optimize", "--undo", "fast"]).exits(5).complains("kept original");
    scratch.thaw(["doctor"]).says("app.jar is in the order of its use");
}

#[test]
fn files_in_pieces_are_told_with_the_command_that_puts_them_together() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    // Two files written in turn, each piece to the disk.
    let names = ["system/app/data", "other"];
    let files = names.map(|name| File::create(scratch.write(name, "")).unwrap());
    for turn in 0..12_u64 {
        for file in &files {
            file.write_all_at(&vec![turn as u8 + 1; 300_000], turn * 300_000).unwrap();
            file.sync_all().unwrap();
        }
    }
    let data = scratch.path(names[0]);
    let pieces = |path: &Path| {
        let seen = scratch.thaw(["frag", path.to_str().unwrap(), "--json"]).exits(0).json();
        seen["files"].as_array().unwrap().first().map(|file| file["pieces"].as_u64().unwrap())
    };
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    let plan = |reads: &[(u32, u64, u64, u64)]| {
        let rows = trace_of(&program, &[program.clone(), data.clone()], reads);
        let _ = std::fs::remove_file(scratch.path("reader.thaw"));
        store(&scratch, "reader.thaw", &rows, &words);
        scratch.thaw(["optimize", "reader.thaw", "--plan", "--disk", "laptop2010", "--json"]).exits(0).json()
    };
    // The program alone is read: a small file, in one piece.
    let alone = plan(&[(0, 0, 4096, 0)]);
    match pieces(&program) {
        Some(1) => assert!(alone["notes"].to_string().contains("in one piece each: 1 file of its own"), "{alone:#}"),
        _ => testing::skip("the file system does not tell where a small file is, or tore it apart"),
    }
    if pieces(&data).is_none_or(|pieces| pieces < 2) {
        testing::skip("the file system put a file that was written in turns in one piece");
        return;
    }
    // Each piece from another end of the disk; then as if the disk had them together.
    let far = |turn: u64| (turn * 7 % 12) << 34;
    let torn: Vec<_> = (0..12).map(|turn| (1, turn * 299_008, 131_072, far(turn))).collect();
    let told = plan(&torn);
    let advice = told["advice"].as_array().unwrap().iter().find(|it| it["command"].as_str().unwrap().contains("frag"));
    let advice = advice.unwrap_or_else(|| panic!("{told:#}"));
    assert_eq!(advice["command"], format!("thaw frag --fix {}", data.display()));
    assert!(
        advice["what"]
            .as_str()
            .unwrap()
            .starts_with("in pieces: 1 of 1 file of its own that the start reads (data in "),
        "{advice}"
    );
    assert!(advice["predicted"]["ratio"].as_f64().unwrap() < 0.95, "{advice}");
    let together: Vec<_> = (0..12).map(|turn| (1, turn * 299_008, 131_072, turn * 299_008)).collect();
    let told = plan(&together);
    assert!(told["notes"].to_string().contains("no gain predicted from putting them together"), "{told:#}");
    assert!(!told["advice"].to_string().contains("frag"), "{told:#}");
}

#[test]
fn copies_in_the_order_of_use_are_measured_and_kept_or_not() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let before = whole(&scratch.path("system"));
    let (said, manifest) = optimized(&scratch, &[program.to_str().unwrap()], 200);
    // Whether it helps on a machine that does other things meanwhile is not for a test to say.
    let kept = manifest["kept"].as_array().unwrap().clone();
    said.exits(if kept.is_empty() { 1 } else { 0 });
    let tried = manifest["tried"].as_array().unwrap();
    assert_eq!(tried[0]["set"], json!(["archive"]), "{manifest:#}");
    assert_eq!(tried.len(), 3, "{manifest:#}");
    for tried in tried {
        assert!(tried["measured"]["value"].as_f64().unwrap() > 0.0, "{tried:#}");
    }
    assert_eq!(whole(&scratch.path("system")), before, "the original is untouched");
    if !kept.is_empty() {
        let said = Command::new(scratch.path("fast/run")).output().unwrap();
        assert_eq!(said.stdout, Command::new(&program).output().unwrap().stdout);
    }
    if kept.contains(&json!("archive")) {
        assert_eq!(manifest["files"][0]["path"], json!(jar(&scratch)));
        scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
        assert_eq!(identity(&jar(&scratch)), manifest["files"][0]["after"]);
        scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
        assert_eq!(whole(&scratch.path("system")), before);
    }
    scratch.nothing_left();
}

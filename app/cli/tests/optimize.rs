//! optimize: from a recorded start to a copy that starts faster, and into the system and back.

use crate::scratch::{Mortal, Said, Scratch, alone};
use model::{
    BlockRow, Bytes, CacheState, Cause, DiskOffset, FileId, FileKind, FileOffset, FileRow, FillRow, Nanos, Owner,
    ProcessRow, RunKind, RunRow, SectionRow, Served, TraceInfo, TraceRows,
};
use recording::{Header, Replace, Variant, Writer};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The pages of the data file that the program needs, a page in nine.
const NEEDED: u64 = 300;

/// A program with a large table of relocations and a data file beside it. `None` without a C compiler.
pub fn program(scratch: &Scratch) -> Option<PathBuf> {
    linked(scratch, &["-fPIE", "-pie"])
}

fn linked(scratch: &Scratch, options: &[&str]) -> Option<PathBuf> {
    let table: Vec<String> = (0..40_000).map(|index| format!("text+{}", index % 3)).collect();
    let source = format!(
        r#"#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static const char text[] = "abc";
static const char *table[] = {{{}}};
int main(void) {{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 8);
    if (len < 0) return 3;
    path[len] = 0;
    strcpy(strrchr(path, '/'), "/data");
    unsigned sum = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i += 512) sum += table[i][0];
    int file = open(path, O_RDONLY);
    if (file < 0) return 3;
    for (long i = 0; i < {NEEDED}; i++) {{
        unsigned char byte;
        if (pread(file, &byte, 1, i * 7919 % {NEEDED} * 9 * 4096) != 1) return 4;
        sum += byte;
    }}
    printf("sum %u\n", sum);
    return 0;
}}
"#,
        table.join(",")
    );
    let source = scratch.write("big.c", source);
    let bytes: Vec<u8> = (0..NEEDED * 9 * 4096).map(|at| (at % 251) as u8).collect();
    scratch.write("system/app/data", bytes);
    let program = scratch.path("system/app/big");
    if !testing::compiled(Command::new("cc").arg("-O1").args(options).arg("-o").arg(&program).arg(&source)) {
        return None;
    }
    scratch.script("system/app/helper", "exit 0");
    std::fs::set_permissions(scratch.path("system/app/helper"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    std::os::unix::fs::symlink("big", scratch.path("system/app/link")).unwrap();
    assert!(Command::new("sync").status().unwrap().success());
    Some(program)
}

/// A recording of a start of this program that was made by hand: it reads itself and its data, page by page.
pub fn recording(scratch: &Scratch, name: &str, program: &Path, words: &[&str]) {
    store(scratch, name, &trace(program), words);
}

pub fn store(scratch: &Scratch, name: &str, rows: &TraceRows, words: &[&str]) {
    store_starts(scratch, name, std::slice::from_ref(rows), words);
}

/// A recording of several traced starts.
fn store_starts(scratch: &Scratch, name: &str, starts: &[TraceRows], words: &[&str]) {
    let mut writer = Writer::create(scratch.path(name), &header(scratch, words), Replace::Never).unwrap();
    let argv = words.iter().skip_while(|word| **word != "--").skip(1).map(Into::into).collect();
    writer.add_variant(&Variant { index: 0, name: "big".into(), argv }).unwrap();
    for rows in starts {
        let row = RunRow {
            kind: RunKind::Trace,
            wall_ns: Some(Nanos(2_000_000_000)),
            ..crate::made::run(CacheState::Cold, 0, 2_000)
        };
        let id = writer.add_run(&row, &[], &[]).unwrap();
        writer.add_trace(id, rows).unwrap();
    }
    writer.finish().unwrap();
}

fn header(scratch: &Scratch, words: &[&str]) -> Header {
    Header {
        thaw_version: "0.0.1".into(),
        created_unix_ns: 1_700_000_000_000_000_000,
        command_line: words.iter().map(Into::into).collect(),
        cwd: scratch.path(""),
        environment: Vec::new(),
        plan: json!({ "runs": 2, "states": ["cold"], "throttle_iops": 200 }),
        seed: 7,
    }
}

fn trace(program: &Path) -> TraceRows {
    let files = [program.to_owned(), program.with_file_name("data")];
    let size = std::fs::metadata(program).map_or(0, |meta| meta.len());
    let pieces = (0..size / 131_072).map(|at| (0, at * 131_072, 131_072));
    let pieces = pieces.chain((0..NEEDED).map(|at| (1, at * 9 * 4096, 4096)));
    let reads: Vec<_> =
        pieces.map(|(file, offset, len)| (file, offset, len, (u64::from(file) << 32) + offset)).collect();
    trace_of(program, &files, &reads)
}

/// A start of a program that was made by hand, and what it read: (file, offset, bytes, place on the disk).
pub fn trace_of(program: &Path, files: &[PathBuf], reads: &[(u32, u64, u64, u64)]) -> TraceRows {
    let row = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok();
        FileRow {
            path: path.to_owned(),
            kind: FileKind::Regular,
            owner: Owner::App,
            dev: 1,
            ino: meta.as_ref().map_or(1, MetadataExt::ino),
            size: Bytes(meta.as_ref().map_or(0, MetadataExt::size)),
            extents: None,
            build_id: None,
        }
    };
    let mut rows = TraceRows { files: files.iter().map(row).collect(), ..TraceRows::default() };
    rows.info = TraceInfo { engine: "perf".into(), ..TraceInfo::default() };
    rows.processes = vec![ProcessRow {
        pid: 7,
        parent: 1,
        comm: program.file_name().unwrap().to_string_lossy().into_owned(),
        exe: Some(program.to_owned()),
        start_ns: Nanos(0),
        end_ns: None,
    }];
    for (number, &(file, offset, len, disk)) in (0..).zip(reads) {
        let (file, offset, len) = (FileId(file), FileOffset(offset), Bytes(len));
        let at = Nanos(number * 5_000_000);
        rows.fills.push(FillRow { at_ns: at, pid: 7, tid: 7, file, offset, len, cause: Cause::Read });
        rows.blocks.push(BlockRow {
            start_ns: Nanos(at.0 + 4_800_000),
            done_ns: Some(Nanos(at.0 + 4_900_000)),
            pid: Some(7),
            dev: 1,
            disk: DiskOffset(disk),
            len,
            write: false,
            served: Served::File(file, offset),
            flags: "R".into(),
        });
    }
    rows
}

/// Everything below a directory: path, mode, owner; of files also date and bytes, as a checksum.
pub fn whole(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let mut line = format!("{} {:o} {}:{}", path.display(), meta.mode(), meta.uid(), meta.gid());
            if meta.is_file() {
                let sum = crc32(&std::fs::read(&path).unwrap());
                line.push_str(&format!(" {}.{:09} {} {sum:08x}", meta.mtime(), meta.mtime_nsec(), meta.size()));
            } else if meta.is_dir() {
                folders.push(path);
            }
            all.push(line);
        }
    }
    all.sort();
    all
}

/// CRC-32 as zip files have it.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

pub fn identity(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap();
    json!({ "size": bytes.len(), "crc32": crc32(&bytes) })
}

/// A result that keeps the packed program, made by hand: whether something helps is for measurements to say.
pub fn result(scratch: &Scratch, program: &Path) -> Value {
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    recording(scratch, "big.thaw", program, &words);
    let mut manifest = scratch.thaw(["optimize", "big.thaw", "--plan", "--json"]).exits(0).json();
    scratch.write("fast/tree/data", "");
    scratch.thaw(["elf", "pack", program.to_str().unwrap(), "-o", "fast/tree/big"]).exits(0);
    let (before, after) = (identity(program), identity(&scratch.path("fast/tree/big")));
    assert_ne!(before, after);
    manifest["kept"] = json!(["pack"]);
    manifest["files"] = json!([{ "path": "big", "by": "pack", "before": before, "after": after }]);
    write(scratch, &manifest);
    manifest
}

pub fn write(scratch: &Scratch, manifest: &Value) {
    scratch.write("fast/thaw-optimize.json", serde_json::to_vec(manifest).unwrap());
}

#[test]
fn a_recording_of_touch_is_planned_and_thaw_itself_is_no_part_of_the_start() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    // Between fork and exec the program is thaw, whose pages may be cold too.
    let own = env!("CARGO_BIN_EXE_thaw");
    let files = [program.clone(), program.with_file_name("data"), own.into()];
    let reads = [(0, 0, 131_072, 0), (1, 0, 4096, 1 << 32), (1, 9 * 4096, 4096, 2 << 32), (2, 0, 131_072, 3 << 32)];
    let mut rows = trace_of(&program, &files, &reads);
    let (offset, len) = (FileOffset(0), Bytes(1 << 20));
    rows.sections.push(SectionRow { file: FileId(2), name: ".rela.dyn".into(), offset, len });
    store(&scratch, "t.thaw", &rows, &["thaw", "touch", "-o", "t.thaw", "--", program.to_str().unwrap()]);
    let plan = scratch.thaw(["optimize", "t.thaw", "--plan", "--disk", "laptop2010"]).exits(0);
    plan.says("Build and measure it: thaw optimize").says_not("thaw elf pack --in-place");
    scratch.thaw(["preload", "make", "t.thaw", "-o", "t.preload"]).exits(0).says("thaw preload run t.preload");
    let manifest = String::from_utf8(std::fs::read(scratch.path("t.preload")).unwrap()).unwrap();
    assert!(manifest.contains("system/app/data") && !manifest.contains(own), "{manifest}");
}

#[test]
fn a_plan_tells_what_each_remedy_would_gain_and_writes_nothing() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", program.to_str().unwrap()]);
    let before = whole(&scratch.path("system"));
    let plan = scratch.thaw(["optimize", "big.thaw", "--plan", "--json"]).exits(0).json();
    assert_eq!(plan["schema"], "thaw.optimize/1");
    assert_eq!(plan["root"], json!(scratch.path("system/app")));
    assert_eq!(plan["disk"], "throttle:iops=200", "the disk of the recording");
    let sets: Vec<&Value> = plan["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect();
    assert_eq!(sets, [&json!(["pack"]), &json!(["preload"]), &json!(["pack", "preload"])]);
    let ratio = |index: usize| plan["tried"][index]["predicted"]["ratio"].as_f64().unwrap();
    assert!(ratio(0) < 1.0, "the table need not be read: {plan:#}");
    assert!(ratio(1) < 0.8, "three hundred requests become few: {plan:#}");
    assert!(ratio(2) <= ratio(1), "{plan:#}");
    let limit = |part: &str| plan["limit"][part].as_f64().unwrap();
    let needed = &plan["tried"][1]["reads"]["needed"];
    assert_eq!(&plan["limit"]["needed"], needed, "what preloading needs, without its gaps");
    let longer = limit("reading_s").max(limit("computing_s"));
    let after = plan["tried"][1]["predicted"]["after_s"].as_f64().unwrap();
    assert!(0.0 < longer && longer <= after && plan["kept_s"].is_null(), "{plan:#}");
    let text = scratch.thaw(["optimize", "big.thaw", "--plan", "--disk", "laptop2010"]).exits(0);
    text.says("pack+preload").says("on the disk laptop2010 (--disk names").says("What pack would change");
    let text = scratch.thaw(["optimize", "big.thaw", "--plan"]).exits(0);
    text.says("limit of what reading can gain: ").says_not("times that");
    assert_eq!(whole(&scratch.path("system")), before);
    scratch.nothing_left();
}

#[test]
fn what_several_starts_needed_is_counted_once_and_as_the_preload_plan_has_it() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let words = ["thaw", "record", "--", program.to_str().unwrap()];
    let files = [program.clone(), program.with_file_name("data")];
    // Two starts need the same page, and each another one, with a gap that is worth reading.
    let start = |other: u64| {
        let reads = [(1, 0, 4096, 1 << 32), (1, other * 4096, 4096, (1 << 32) + other * 4096)];
        trace_of(&program, &files, &reads)
    };
    store_starts(&scratch, "twice.thaw", &[start(4), start(6)], &words);
    let plan = scratch.thaw(["optimize", "twice.thaw", "--plan", "--json"]).exits(0).json();
    let made = scratch.thaw(["preload", "make", "twice.thaw", "-o", "x.preload", "--json"]).exits(0).json();
    assert_eq!((&made["needed"], &made["files"], &made["starts"]), (&json!(3 * 4096), &json!(1), &json!(2)));
    let text = scratch.thaw(["preload", "make", "twice.thaw", "-o", "y.preload"]).exits(0);
    text.says("by 2 recorded starts");
    let tried = plan["tried"].as_array().unwrap().iter().find(|tried| tried["set"] == json!(["preload"])).unwrap();
    assert_eq!(
        tried["reads"],
        json!({
            "bytes": made["bytes"], "needed": made["needed"], "files": made["files"], "reads": made["reads"],
            "starts": made["starts"],
        })
    );
    let bytes = made["bytes"].as_u64().unwrap() as f64 / 1e3;
    let change = tried["changes"][0].as_str().unwrap();
    assert!(change.contains(&format!("{bytes:.1} kB of 1 file")) && change.contains("2 recorded starts"), "{change}");
}

#[test]
fn a_program_that_cannot_be_packed_can_be_read_ahead() {
    let scratch = Scratch::new();
    let Some(program) = linked(&scratch, &["-no-pie"]) else { return };
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", program.to_str().unwrap()]);
    let plan = scratch.thaw(["optimize", "big.thaw", "--plan", "--json"]).exits(0).json();
    let sets: Vec<&Value> = plan["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect();
    assert_eq!(sets, [&json!(["preload"])]);
    assert!(plan["notes"].to_string().contains("not packed (not-shared"), "{plan:#}");
}

#[test]
fn a_program_of_two_names_is_not_packed_since_that_could_not_be_applied() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", program.to_str().unwrap()]);
    std::fs::hard_link(&program, scratch.path("another")).unwrap();
    let plan = scratch.thaw(["optimize", "big.thaw", "--plan", "--json"]).exits(0).json();
    let sets: Vec<&Value> = plan["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect();
    assert_eq!(sets, [&json!(["preload"])]);
    assert!(plan["notes"].to_string().contains("not packed (hard-links"), "{plan:#}");
}

#[test]
fn without_requests_nothing_is_predicted() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let rows = TraceRows { blocks: Vec::new(), ..trace(&program) };
    store(&scratch, "big.thaw", &rows, &["thaw", "record", "--", program.to_str().unwrap()]);
    let plan = scratch.thaw(["optimize", "big.thaw", "--plan", "--json"]).exits(0).json();
    assert!(plan["tried"].as_array().unwrap().iter().all(|tried| tried["predicted"].is_null()), "{plan:#}");
    assert!(plan["notes"].to_string().contains("nothing can be predicted"), "{plan:#}");
    assert!(plan["limit"].is_null(), "{plan:#}");
    scratch.thaw(["optimize", "big.thaw", "--plan"]).exits(0).says("pack+preload").says_not("predicted start");
}

#[test]
fn who_may_not_empty_the_caches_is_told_what_works_before_anything_is_copied() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", program.to_str().unwrap()]);
    // Recordings are for their owner alone.
    std::fs::set_permissions(scratch.path("big.thaw"), PermissionsExt::from_mode(0o644)).unwrap();
    let Some(said) = scratch.thaw_as_nobody(["optimize", "big.thaw", "-o", "fast"]) else { return };
    said.exits(3).complains("cannot reach the cache state 'cold'").hints("--state app");
    assert!(!scratch.names("").iter().any(|name| name.contains("fast.thaw")), "{:?}", scratch.names(""));
}

/// A start on a slow disk, recorded and optimized into `fast`: what that said, and its document.
pub fn optimized(scratch: &Scratch, program: &[&str], requests_per_second: u32) -> (Said, Value) {
    let disk = format!("throttle:iops={requests_per_second},bps=60M");
    let record = ["record", "-q", "--state", "app", "--runs", "1", "--trace-runs", "1", "--needed", "no"];
    let words = ["--disk", &disk, "--readahead", "128K", "--"];
    scratch.thaw(record.iter().chain(&words).chain(program).copied()).exits(0);
    let mut command = scratch.command();
    command.args(["-q", "optimize", "thaw.thaw", "-o", "fast", "--runs", "2", "--json"]);
    let said = Said::of(command);
    let document = said.json();
    (said, document)
}

#[test]
fn a_program_is_copied_measured_and_kept_or_not() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let before = whole(&scratch.path("system"));
    let (said, manifest) = optimized(&scratch, &[program.to_str().unwrap()], 400);
    // Whether it helps on a machine that does other things meanwhile is not for a test to say.
    let helped = manifest["kept"] != json!([]);
    let said = said.exits(if helped { 0 } else { 1 });
    assert_eq!(said.err(), "");
    for tried in manifest["tried"].as_array().unwrap() {
        assert!(tried["measured"]["value"].as_f64().unwrap() > 0.0, "{tried:#}");
        assert!(tried["verdict"].is_string(), "{tried:#}");
    }
    assert_eq!(manifest["tried"].as_array().unwrap().len(), 3);
    assert!(manifest["kept_s"].as_f64().unwrap() > 0.0 && manifest["limit"]["computing_s"].as_f64().unwrap() > 0.0);
    assert_eq!(whole(&scratch.path("system")), before, "the original is untouched");
    let stored: Value =
        serde_json::from_slice(&std::fs::read(scratch.path("fast/thaw-optimize.json")).unwrap()).unwrap();
    assert_eq!(stored, manifest);
    assert!(std::fs::read_to_string(scratch.path("fast/report.html")).unwrap().contains("pack+preload"));
    scratch.thaw(["report", "fast/comparison.thaw"]).exits(0).says("pack+preload");
    if helped {
        let said = Command::new(scratch.path("fast/run")).output().unwrap();
        assert_eq!(said.stdout, Command::new(&program).output().unwrap().stdout);
        assert_eq!(String::from_utf8_lossy(&said.stderr), "", "the moved manifest fits");
    }
    // What is there is replaced only if it is a result, and asked for.
    scratch.thaw(["optimize", "thaw.thaw", "-o", "fast"]).exits(2).complains("an earlier result").hints("--force");
    assert_eq!(scratch.names("").iter().filter(|name| name.contains("thaw-")).count(), 0, "{:?}", scratch.names(""));
    scratch.nothing_left();
}

#[test]
fn a_program_that_shares_its_directory_is_read_ahead() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    // An interpreter among the system's programs, its data elsewhere.
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    let files = [shell.clone(), program.with_file_name("data")];
    let reads = [(0, 0, 4096, 0), (1, 0, 4096, 1 << 32), (1, 90 * 4096, 4096, 2 << 32)];
    store(
        &scratch,
        "script.thaw",
        &trace_of(&shell, &files, &reads),
        &["thaw", "record", "--", "/bin/sh", "-c", "exit"],
    );
    let plan = scratch.thaw(["optimize", "script.thaw", "--plan", "--json"]).exits(0).json();
    let sets: Vec<&Value> = plan["tried"].as_array().unwrap().iter().map(|tried| &tried["set"]).collect();
    assert_eq!(sets, [&json!(["preload"])], "{plan:#}");
    assert_eq!((&plan["start"], &plan["root"]), (&json!("/bin/sh"), &json!(shell.parent().unwrap())));
}

#[test]
fn a_script_and_the_program_that_it_starts_elsewhere_are_measured_with_copies_over_their_files() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let before = whole(&scratch.path("system"));
    // The first process stays the shell, whose directory is everybody's.
    let script = format!("{}; exit 0", program.display());
    let (said, manifest) = optimized(&scratch, &["/bin/sh", "-c", &script], 400);
    let helped = manifest["kept"] != json!([]);
    said.exits(if helped { 0 } else { 1 });
    let tried = manifest["tried"].as_array().unwrap();
    assert_eq!(tried[0]["set"], json!(["pack"]), "{manifest:#}");
    let changes = tried[0]["changes"].as_array().unwrap();
    assert!(changes.len() == 1 && changes[0].as_str().unwrap().contains("system/app/big: "), "{manifest:#}");
    for tried in tried {
        assert!(tried["measured"]["value"].as_f64().unwrap() > 0.0, "{tried:#}");
    }
    assert_eq!(whole(&scratch.path("system")), before, "the originals are untouched");
    if helped {
        let said = Command::new(scratch.path("fast/run")).args(["-c", &script]).output().unwrap();
        assert_eq!(said.stdout, Command::new(&program).output().unwrap().stdout);
        assert_eq!(String::from_utf8_lossy(&said.stderr), "");
        scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
        scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
        assert_eq!(whole(&scratch.path("system")), before);
    }
    scratch.nothing_left();
}

#[test]
fn a_result_starts_its_program_with_copies_over_its_files_unless_these_were_upgraded() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let mut manifest = result(&scratch, &program);
    // A copy that can be told from its original.
    let (data, copy) = (scratch.write("data", "original"), scratch.write("fast/files/0-archive", "copy"));
    let mode =
        |path: &str, mode| std::fs::set_permissions(scratch.path(path), PermissionsExt::from_mode(mode)).unwrap();
    ["", "fast", "fast/files"].into_iter().for_each(|path| mode(path, 0o755));
    let meta = std::fs::metadata(&data).unwrap();
    let mtime_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    manifest["start"] = json!("/bin/cat");
    manifest["kept"] = json!(["archive"]);
    manifest["files"] = json!([{
        "path": data, "copy": "files/0-archive", "by": "archive", "before": identity(&data), "after": identity(&copy),
        "mtime_ns": mtime_ns,
    }]);
    write(&scratch, &manifest);
    let words = ["optimize", "--run", "fast", "--", data.to_str().unwrap()];
    let said = scratch.thaw(words).exits(0);
    let allowed = said.err().is_empty();
    assert_eq!(said.out(), if allowed { "copy" } else { "original" });
    assert!(allowed || std::fs::metadata("/proc/self").unwrap().uid() != 0, "root may always: {}", said.err());
    if let Some(said) = scratch.thaw_as_nobody(words) {
        let said = said.exits(0);
        match &*said.err() {
            "" => assert_eq!(said.out(), "copy"),
            why => assert!(why.contains("without the changed copies") && said.out() == "original", "{why}"),
        }
    }
    assert_eq!(std::fs::read(&data).unwrap(), b"original");
    // An upgrade that keeps the size.
    std::fs::write(&data, "upgraded").unwrap();
    let said = scratch.thaw(words).exits(0).complains("was changed since they were made").hints("record it again");
    assert_eq!(said.out(), "upgraded");
    // A damaged result is told, not started.
    manifest["files"][0]["copy"] = json!("../data");
    write(&scratch, &manifest);
    scratch.thaw(words).exits(5).complains("leads out");
    scratch.thaw(["optimize", "big.thaw", "--", "x"]).exits(2);
}

#[test]
fn places_and_recordings_that_make_no_sense_are_refused_before_anything_is_written() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let typed = program.to_str().unwrap();
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", typed]);
    scratch.write("full/letter", "dear diary");
    scratch.write("file", "");
    let before = whole(&scratch.path(""));
    let refused = |out: &str, part: &str| scratch.thaw(["optimize", "big.thaw", "-o", out]).exits(2).complains(part);
    refused("system/app/fast", "inside of the program's directory");
    refused("system", "lies inside of the place");
    refused("system/app", "inside of the program's directory");
    refused("full", "holds something else").hints("new or empty");
    refused("file", "no directory");
    refused("no/such/place", "cannot find the directory");
    let root = |root: &str| scratch.thaw(["optimize", "big.thaw", "--plan", "--root", root]).exits(2);
    root("missing").complains("cannot find the directory");
    scratch.thaw(["optimize", "big.thaw"]).exits(2).complains("--output");
    scratch.thaw(["optimize"]).exits(2);
    scratch.thaw(["optimize", "big.thaw", "--plan", "--state", "hot"]).exits(2).complains("cold or app");
    scratch.thaw(["optimize", "big.thaw", "--plan", "--disk", "quick:nvme"]).exits(2).complains("no gain");
    scratch.thaw(["optimize", "big.thaw", "--plan", "--disk", "floppy"]).exits(2).hints("laptop2010");
    scratch.thaw(["optimize", "big.thaw", "--plan", "--variant", "other"]).exits(2).hints("big");
    scratch.thaw(["optimize", "file", "--plan"]).exits(5);
    assert_eq!(whole(&scratch.path("")), before);

    recording(&scratch, "gone.thaw", Path::new("/opt/gone/app"), &["thaw", "record", "--", "/opt/gone/app"]);
    let said = scratch.thaw(["optimize", "gone.thaw", "--plan"]).exits(5);
    said.complains("not on this machine").hints("record the program here");
    recording(&scratch, "other.thaw", &program, &["thaw", "flush", typed]);
    scratch.thaw(["optimize", "other.thaw", "--plan"]).exits(5).complains("command line").hints("thaw record");
    let mut writer = Writer::create(scratch.path("empty.thaw"), &header(&scratch, &["thaw"]), Replace::Never).unwrap();
    writer.finish().unwrap();
    scratch.thaw(["optimize", "empty.thaw", "--plan"]).exits(5).complains("no program").hints("thaw record");
    crate::made::with_trace(&scratch.path("untraced.thaw"), &[900], &[300], None);
    scratch.thaw(["optimize", "untraced.thaw", "--plan"]).exits(5).complains("no traced cold start").hints("--state");
    scratch.nothing_left();
}

#[test]
fn what_is_applied_is_listed_and_undone_byte_for_byte() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    result(&scratch, &program);
    let before = whole(&scratch.path("system"));
    scratch.thaw(["optimize", "--undo", "fast"]).exits(2).complains("has not applied").hints("thaw doctor");

    scratch.thaw(["optimize", "--apply", "fast"]).exits(0).says("system/app/big is packed").says("--undo");
    let packed = std::fs::read(&program).unwrap();
    assert_eq!(packed, std::fs::read(scratch.path("fast/tree/big")).unwrap());
    assert!(Command::new(&program).output().unwrap().status.success());
    let listed = scratch.thaw(["doctor"]).says("What is optimised").says("thaw optimize --undo").out();
    assert!(listed.contains("system/app"), "{listed}");
    scratch.thaw(["optimize", "--apply", "fast"]).exits(2).complains("applied already").hints("--undo");

    // Others have changed it: nothing is undone over that.
    std::fs::write(&program, "upgraded").unwrap();
    let said = scratch.thaw(["optimize", "--undo", "fast"]).exits(5).complains("nothing is undone");
    said.complains("changed since");
    assert_eq!(std::fs::read(&program).unwrap(), b"upgraded");
    std::fs::write(&program, &packed).unwrap();

    // The copy is not needed for that.
    std::fs::remove_dir_all(scratch.path("fast")).unwrap();
    let undone = scratch.thaw(["optimize", "--undo", "fast", "--json"]).exits(0).json();
    assert_eq!(undone["applied"], false);
    assert_eq!(whole(&scratch.path("system")), before);
    scratch.thaw(["doctor"]).says_not("What is optimised").says_not("packed in place");
    assert_eq!(scratch.names("state/optimized"), Vec::<String>::new());
}

#[test]
fn what_is_read_ahead_is_applied_to_the_original_and_its_launcher() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let mut manifest = result(&scratch, &program);
    manifest["kept"] = json!(["pack", "preload"]);
    write(&scratch, &manifest);
    // As it is in a result: the paths are those of the copy, whose program is packed.
    let copy = scratch.path("fast/tree/big");
    let data = scratch.path("system/app/data");
    assert!(Command::new("cp").args(["-a"]).arg(&data).arg(scratch.path("fast/tree")).status().unwrap().success());
    recording(&scratch, "copy.thaw", &copy, &["thaw", "record", "--", copy.to_str().unwrap()]);
    scratch.thaw(["preload", "make", "copy.thaw", "-o", "fast/start.preload"]).exits(0);
    let entry = format!("[Desktop Entry]\nType=Application\nName=Big\nExec={} %u\n", program.display());
    scratch.write("share/applications/big.desktop", entry);
    let before = (whole(&scratch.path("system")), whole(&scratch.path("share")));
    let thaw = |words: &[&str]| {
        let mut command = scratch.command();
        command.args(words).env("XDG_DATA_HOME", scratch.path("home")).env("XDG_DATA_DIRS", scratch.path("share"));
        crate::scratch::Said::of(command)
    };
    thaw(&["optimize", "--apply", "fast", "--desktop", "missing.desktop"]).exits(2).complains("missing.desktop");
    assert_eq!(whole(&scratch.path("system")), before.0, "what was begun is taken back");
    thaw(&["preload", "install", "fast/start.preload", "--desktop", "big.desktop"]).exits(0);
    let said = thaw(&["optimize", "--apply", "fast", "--desktop", "big.desktop"]).exits(2);
    said.complains("reads something ahead already").hints("thaw preload uninstall");
    assert!(scratch.path("home/applications/big.desktop").exists(), "it is not ours to take away");
    thaw(&["preload", "uninstall", "--desktop", "big.desktop"]).exits(0);
    let said = thaw(&["optimize", "--apply", "fast", "--desktop", "big.desktop", "--json"]).exits(0).json();
    let applied = said["preload"]["manifest"].as_str().unwrap().to_owned();
    let status = thaw(&["preload", "status", &applied, "--json"]).exits(0).json();
    assert_eq!(status["report"]["stale"], json!([]), "it fits the program that is packed in place: {status:#}");
    let launcher = std::fs::read_to_string(scratch.path("home/applications/big.desktop")).unwrap();
    assert!(launcher.contains("thaw-preload"), "{launcher}");
    thaw(&["optimize", "--undo", "fast"]).exits(0).says("big.desktop");
    assert_eq!((whole(&scratch.path("system")), whole(&scratch.path("share"))), before);
    assert!(!scratch.path("home/applications/big.desktop").exists() && !Path::new(&applied).exists());
}

#[test]
fn what_was_upgraded_is_left_and_forgotten_when_that_is_asked_for() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    result(&scratch, &program);
    scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
    std::fs::write(&program, "upgraded").unwrap();
    scratch.thaw(["optimize", "--undo", "fast"]).exits(5).hints("--force");
    scratch.thaw(["optimize", "--undo", "fast", "--force"]).exits(1).says("system/app/big was changed by others");
    assert_eq!(std::fs::read(&program).unwrap(), b"upgraded");
    scratch.thaw(["doctor"]).says_not("What is optimised");
    scratch.thaw(["optimize", "--apply", "fast"]).exits(5).complains("not the one that was measured");
}

#[test]
fn an_apply_that_was_cut_short_is_undone_like_a_whole_one() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    result(&scratch, &program);
    let before = whole(&scratch.path("system"));
    scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
    // As if the machine had stopped between the record and the first file.
    scratch.thaw(["elf", "restore", program.to_str().unwrap()]).exits(0);
    scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
    assert_eq!(whole(&scratch.path("system")), before);
}

#[test]
fn a_result_of_another_machine_or_program_is_not_applied() {
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    let good = result(&scratch, &program);
    let before = whole(&scratch.path("system"));
    let wrong = |change: &dyn Fn(&mut Value), exit: i32, part: &str| {
        let mut manifest = good.clone();
        change(&mut manifest);
        write(&scratch, &manifest);
        scratch.thaw(["optimize", "--apply", "fast"]).exits(exit).complains(part)
    };
    wrong(&|it| it["machine"] = json!("elsewhere"), 5, "another machine").hints("record the program here");
    wrong(&|it| it["schema"] = json!("thaw.optimize/9"), 5, "thaw.optimize/9");
    wrong(&|it| it["files"][0]["path"] = json!("../../etc/passwd"), 5, "leads out");
    wrong(&|it| it["files"][0]["before"]["crc32"] = json!(1), 5, "not the one that was measured").hints("record");
    wrong(&|it| it["files"][0]["after"]["crc32"] = json!(1), 5, "another file than the one that was measured");
    wrong(&|it| it["kept"] = json!([]), 1, "nothing helped");
    wrong(&|it| it["root"] = json!("relative"), 5, "no directory of a program");
    scratch.write("fast/thaw-optimize.json", "dear diary");
    scratch.thaw(["optimize", "--apply", "fast"]).exits(5).complains("no manifest");
    std::fs::remove_file(scratch.path("fast/thaw-optimize.json")).unwrap();
    scratch.thaw(["optimize", "--apply", "fast"]).exits(5).hints("-o DIR");
    write(&scratch, &good);
    scratch.thaw(["optimize", "--apply", "fast", "--desktop", "x.desktop"]).exits(2).complains("nothing to read ahead");
    assert_eq!(whole(&scratch.path("system")), before, "what was begun is taken back");
    scratch.thaw(["doctor"]).says_not("What is optimised").says_not("packed in place");
}

#[test]
fn a_killed_run_leaves_no_result_and_the_doctor_removes_its_copies() {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    let Some(program) = program(&scratch) else { return };
    recording(&scratch, "big.thaw", &program, &["thaw", "record", "--", program.to_str().unwrap()]);
    let before = whole(&scratch.path("system"));
    let work = |scratch: &Scratch| scratch.names("").into_iter().find(|name| name.starts_with(".fast.thaw-"));
    for signal in ["TERM", "KILL"] {
        let mut command = scratch.command();
        command.args(["-q", "optimize", "big.thaw", "-o", "fast", "--runs", "100"]);
        let mut child = Mortal(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        // It is in the middle of its work when the last copy is there.
        while !work(&scratch).is_some_and(|name| scratch.path(name).join("pack+preload/profile").exists()) {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended before");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args(["-s", signal, &child.0.id().to_string()]).status().unwrap().success());
        let status = child.0.wait().unwrap();
        assert!(!scratch.path("fast").exists(), "nothing half-done has its name");
        if signal == "TERM" {
            assert_eq!(status.code(), Some(130));
            assert_eq!(work(&scratch), None);
        } else {
            let name = work(&scratch).expect("a killed run cannot clean up");
            // A recorder that it may have started ends by itself, or is ended.
            scratch.thaw(["doctor", "--mend"]);
            assert!(!scratch.path(&name).exists(), "{name} is left");
        }
        assert_eq!(whole(&scratch.path("system")), before);
        scratch.nothing_left();
    }
}

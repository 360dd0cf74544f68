//! A separate debug file goes on to match: debuggers find lines and symbols by it, and both have the new build ID.

#[allow(dead_code)]
mod fixture;

use fixture::{Linked, Objects, have, must};
use pack::{BuildId, Options, Outcome, Space, Target, pack_file};
use std::path::{Path, PathBuf};
use std::process::Command;

fn text(command: &mut Command) -> String {
    let output = must(command);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Takes the debug information of a program out of it, as distributions do.
fn split(program: &Path, tool: &str) -> PathBuf {
    let debug = program.with_extension("debug");
    if tool == "eu-strip" {
        must(Command::new("eu-strip").arg("-f").arg(&debug).arg(program));
        return debug;
    }
    must(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&debug));
    must(Command::new("strip").arg(program));
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    must(Command::new("objcopy").arg(link).arg(program));
    debug
}

fn build_id(path: &Path) -> String {
    let notes = text(Command::new("readelf").arg("-nW").arg(path));
    let (_, id) = notes.split_once("Build ID: ").unwrap();
    id.split_whitespace().next().unwrap().to_owned()
}

/// What gdb says of the program, with its debug file beside it.
fn gdb(linked: &Linked) -> String {
    let mut command = Command::new("gdb");
    command.args([
        "-nx",
        "-batch",
        "-iex",
        "set debuginfod enabled off",
        "-ex",
        "info line main",
        "-ex",
        "break main.cc:main",
    ]);
    command.args(["-ex", "run", "-ex", "bt", "-ex", "print words[5]", "-ex", "info symbol main"]);
    command.env("LD_LIBRARY_PATH", linked.library.parent().unwrap()).arg(&linked.program);
    let said = text(&mut command);
    let wanted =
        ["Line ", "main.cc", "Breakpoint 1,", "#0 ", "\"two\"", "main in section .text", "warning", "mismatch"];
    // Where the stack is and what the directory is called has nothing to do with it.
    let plain = |line: &str| match line.split_once("argv=") {
        Some((before, behind)) => format!("{before}{}", behind.trim_start_matches(|letter| letter != ')')),
        None => line.replace(linked.program.parent().unwrap().to_str().unwrap(), ""),
    };
    said.lines().filter(|line| wanted.iter().any(|part| line.contains(part))).map(|line| plain(line) + "\n").collect()
}

#[test]
fn a_debug_file_is_kept_in_step() {
    for tool in ["objcopy", "eu-strip", "gdb", "strip", "readelf"] {
        if !have(tool) {
            return testing::skip(&format!("needs {tool}"));
        }
    }
    let objects = Objects::compile();
    for (linker, splitter) in [("bfd", "objcopy"), ("bfd", "eu-strip"), ("lld", "objcopy"), ("lld", "eu-strip")] {
        if !have(&format!("ld.{linker}")) {
            testing::skip(&format!("needs ld.{linker}"));
            continue;
        }
        let linked = objects.link(&format!("{linker}-{splitter}"), &[&format!("-fuse-ld={linker}"), "-Wl,--build-id"]);
        let debug = split(&linked.program, splitter);
        let before = gdb(&linked);
        assert!(before.contains("Breakpoint 1,") && before.contains("\"two\""), "{before}");
        for space in [Space::Shrink, Space::Keep] {
            for build_id_choice in [BuildId::Keep, BuildId::New] {
                let name = format!("{linker}, {splitter}, {space:?}, {build_id_choice:?}");
                let home = tempfile::tempdir().unwrap();
                let new = Linked::at(home.path());
                std::fs::copy(&linked.library, &new.library).unwrap();
                let options =
                    Options { space, build_id: build_id_choice, debug_file: Some(debug.clone()), ..Options::default() };
                let done = pack_file(&linked.program, &Target::CopyOver(new.program.clone()), &options).unwrap();
                assert!(matches!(done, Outcome::Packed(_)), "{name}: {done:?}");
                let new_debug = home.path().join(debug.file_name().unwrap());
                assert_eq!(build_id(&new.program), build_id(&new_debug), "{name}");
                assert_eq!(
                    build_id(&new.program) == build_id(&linked.program),
                    build_id_choice == BuildId::Keep,
                    "{name}"
                );
                assert_eq!(new.output(), linked.output(), "{name}");
                assert_eq!(gdb(&new), before, "{name}");
                // Where the debug file had the program's own headers, offsets in the file lead to the same addresses.
                let loads = |path: &Path| {
                    let headers = text(Command::new("readelf").arg("-lW").arg(path));
                    let lines = headers.lines().filter(|line| line.trim().starts_with("LOAD"));
                    let skip = if splitter == "eu-strip" { 1 } else { 2 };
                    let columns = |line: &str| line.split_whitespace().skip(skip).take(2).collect::<Vec<_>>().join(" ");
                    lines.map(columns).collect::<Vec<_>>()
                };
                assert_eq!(loads(&new.program), loads(&new_debug), "{name}");
                let complaints = |path: &Path| must(Command::new("readelf").arg("-SlsW").arg(path)).stderr;
                assert_eq!(complaints(&new_debug), complaints(&debug), "{name}");
            }
        }
        // The debug file of something else.
        let options = Options { debug_file: Some(debug), ..Options::default() };
        let error = pack_file(&linked.library, &Target::PlanOnly, &options).unwrap_err();
        assert_eq!(error.exit, model::Exit::Data, "{error}");
    }
}

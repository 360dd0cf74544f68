//! The example in C, as C99 and as C++17, plain and under valgrind; the header declares what the library exports.

use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn room() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compiled(folder: &Path, compiler: &[&str]) -> Option<PathBuf> {
    let program = folder.join("program");
    testing::linked(compiler, room(), "example/tabs.c", "libthaw_session_c.a", &program).then_some(program)
}

fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    said
}

const TABS: &str =
    "tab changed\npayload scrolled to 7\nselected a tab\npayload scrolled to 7\ntab a tab\npayload scrolled to 7\n";

fn twice(program: &Path, start: &dyn Fn() -> Command) {
    let folder = program.with_file_name("session");
    let run = || {
        let mut command = start();
        command.arg(&folder);
        said(command)
    };
    assert_eq!(run(), format!("items 0\n{TABS}writes 1\n"));
    assert_eq!(run(), format!("items 4\n{TABS}writes 0\n"));
}

#[test]
fn the_example_runs_as_c99_and_as_cpp17() {
    for compiler in [&["cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L"][..], &["c++", "-std=c++17"]] {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled(folder.path(), compiler) else { continue };
        twice(&program, &|| Command::new(&program));
    }
}

#[test]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), &["cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L"]) else { return };
    if testing::valgrind(&program).is_some() {
        twice(&program, &|| testing::valgrind(&program).unwrap());
    }
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = std::fs::read_to_string(room().join("include/thaw_session.h")).unwrap();
    let declared = testing::declared(&header, &["thaw_session_"]);
    let library = std::fs::read(testing::library("libthaw_session_c.so")).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let exported: BTreeSet<String> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.starts_with("thaw_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(declared, exported);
    assert!(declared.len() > 15);
}

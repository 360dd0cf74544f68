//! `tests/edges.c`, plain and under valgrind; the header in C++.

use crate::programs::{compiled, room};
use std::process::Command;

#[test]
fn whatever_is_called_is_answered_by_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(&folder, "tests/edges.c", &[]) else { return };
    assert!(Command::new(&program).status().unwrap().success());
    let Some(mut command) = testing::valgrind(&program) else { return };
    assert!(command.status().unwrap().success());
}

#[test]
fn the_header_is_one_of_cpp_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("all.cpp");
    std::fs::write(&source, "#include \"thaw_cache.h\"\nthaw_cache_event event;\n").unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-std=c++11", "-fsyntax-only", "-I"]);
    testing::compiled(compiler.arg(room().join("include")).arg(source));
}

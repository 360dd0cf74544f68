//! Programs in C and C++ that a test links with a library of ours, and runs.

use crate::{compiled, skip};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that cargo has built beside this test, as `libthaw_cache.a`.
///
/// # Panics
/// It is not there.
pub fn library(name: &str) -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name(name);
    assert!(library.exists(), "no {}", library.display());
    library
}

/// Compiles a source of a room, with the room's `include` and its library, by a compiler and its options. `false`,
/// counted as skipped: the compiler is not installed.
///
/// # Panics
/// It fails, or warns.
pub fn linked(compiler: &[&str], room: &Path, source: &str, archive: &str, program: &Path) -> bool {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(room.join("include"));
    command.args(["-x", if compiler[0].ends_with("++") { "c++" } else { "c" }]).arg(room.join(source));
    command.args(["-x", "none"]).arg(library(archive)).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program);
    compiled(&mut command)
}

/// A program under valgrind: an error or a leak is its failure. `None`: counted as skipped, there is none.
pub fn valgrind(program: &Path) -> Option<Command> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skip("needs valgrind");
        return None;
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,possible"]);
    valgrind.arg(program);
    Some(valgrind)
}

/// The functions of these prefixes that a text of C declares. Comments name functions as well: they do not count.
pub fn declared(text: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let code: String = text.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let names = code.split('(').filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    let ours = names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    ours.map(str::to_owned).collect()
}

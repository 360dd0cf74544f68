//! Programs in C and C++ that use `thaw_webstorage.h`, plain and under valgrind; the header beside the library.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn room() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program with the library in it. `None`: counted as skipped, there is no compiler.
fn compiled(folder: &TempDir, compiler: &[&str], source: &str) -> Option<PathBuf> {
    let program = folder.path().join(format!("program-{}", compiler[0]));
    testing::linked(compiler, room(), source, "libthaw_webstorage_c.a", &program).then_some(program)
}

const C: [&str; 3] = ["cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L"];
const CPP: [&str; 2] = ["c++", "-std=c++17"];

#[test]
fn the_example_keeps_its_count_in_c_and_cpp_and_under_valgrind() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut starts = 0;
    for compiler in [&C[..], &CPP] {
        let Some(program) = compiled(&folder, compiler, "example/storage.c") else { continue };
        for mut command in [Some(Command::new(&program)), testing::valgrind(&program)].into_iter().flatten() {
            let said = command.arg(&store).output().unwrap();
            starts += 1;
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
            assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("started {starts} times\n"));
        }
        // In memory, it always begins anew.
        let said = Command::new(&program).output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), "started 1 times\n");
    }
}

#[test]
fn whatever_is_called_is_answered_by_a_code() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in [&C[..], &CPP] {
        let Some(program) = compiled(&folder, compiler, "tests/edges.c") else { continue };
        for mut command in [Some(Command::new(&program)), testing::valgrind(&program)].into_iter().flatten() {
            let store = tempfile::tempdir().unwrap();
            let said = command.arg(store.path()).output().unwrap();
            assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        }
    }
}

#[test]
fn the_header_declares_what_the_library_has() {
    let header = std::fs::read_to_string(room().join("include/thaw_webstorage.h")).unwrap();
    let of = |text: &str| testing::declared(text, &["thaw_webstorage_", "thaw_area_", "thaw_table_"]);
    let declared = of(&header);
    let defined = of(&std::fs::read_to_string(room().join("src/lib.rs")).unwrap());
    assert_eq!(declared, defined);
    assert!(declared.len() > 25, "{declared:?}");
}

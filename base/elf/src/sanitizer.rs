//! Programs that a compiler built with a run-time checker of its own allocator (`-fsanitize=...`).

use crate::dynamic::needed;
use object::{Object, ObjectSection, ObjectSymbol};

/// Libraries of GCC's and Clang's checkers, and the function that each defines where it is linked statically. That of
/// the address sanitizer comes before that of leaks, which it holds.
const ALL: [(&str, &[&str], &str); 5] = [
    ("AddressSanitizer", &["libasan.", "libclang_rt.asan"], "__asan_init"),
    ("HWAddressSanitizer", &["libhwasan.", "libclang_rt.hwasan"], "__hwasan_init"),
    ("ThreadSanitizer", &["libtsan.", "libclang_rt.tsan"], "__tsan_init"),
    ("MemorySanitizer", &["libclang_rt.msan"], "__msan_init"),
    ("LeakSanitizer", &["liblsan.", "libclang_rt.lsan"], "__lsan_init"),
];

/// The checker that a program brings and that replaces its allocator, by its usual name. `None` where it has none, and
/// for bytes that are not those of an ELF file. Go's race detector is none of them: it leaves the allocator alone.
pub fn sanitizer(bytes: &[u8]) -> Option<&'static str> {
    let libraries = needed(bytes);
    let by_library = ALL.iter().find(|(_, prefixes, _)| {
        libraries.iter().any(|library| prefixes.iter().any(|prefix| library.starts_with(prefix)))
    });
    if let Some((name, ..)) = by_library {
        return Some(name);
    }
    let file = object::File::parse(bytes).ok()?;
    if file.sections().any(|section| section.name() == Ok(".go.buildinfo")) {
        return None;
    }
    let mut symbols = file.dynamic_symbols().chain(file.symbols()).filter(|symbol| symbol.is_definition());
    let mut found = None;
    for symbol in symbols.by_ref() {
        let Ok(defined) = symbol.name() else { continue };
        let rank = ALL.iter().position(|(_, _, function)| defined == *function);
        found = found.into_iter().chain(rank).min();
    }
    found.map(|rank| ALL[rank].0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn built(folder: &Path, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
        std::fs::write(folder.join("a.c"), source).unwrap();
        let program = folder.join("a");
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&program).arg(folder.join("a.c")).args(flags);
        testing::compiled(&mut cc).then(|| std::fs::read(program).unwrap())
    }

    #[test]
    fn checkers_are_found_by_their_libraries_and_their_functions() {
        let folder = tempfile::tempdir().unwrap();
        let plain = "int main(void) { return 0; }\n";
        for (flags, expected) in [
            (&[][..], None),
            (&["-fsanitize=address"], Some("AddressSanitizer")),
            (&["-fsanitize=thread"], Some("ThreadSanitizer")),
            (&["-fsanitize=leak"], Some("LeakSanitizer")),
            (&["-fsanitize=undefined"], None),
        ] {
            if let Some(bytes) = built(folder.path(), plain, flags) {
                assert_eq!(sanitizer(&bytes), expected, "{flags:?}");
            }
        }
        // Linked statically, as Clang does.
        for (function, expected) in [("__asan_init", "AddressSanitizer"), ("__msan_init", "MemorySanitizer")] {
            let source = format!("void {function}(void) {{}}\n{plain}");
            if let Some(bytes) = built(folder.path(), &source, &[]) {
                assert_eq!(sanitizer(&bytes), Some(expected));
            }
        }
        let called = built(
            folder.path(),
            "void __asan_init(void) __attribute__((weak));\nint main(void) { return __asan_init != 0; }\n",
            &[],
        );
        assert!(called.is_none_or(|bytes| sanitizer(&bytes).is_none()), "asked for, not there");
        assert_eq!(sanitizer(b"#!/bin/sh\n"), None);
    }
}

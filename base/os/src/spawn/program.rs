//! Which file a program name means.

use crate::kind::{self, Kind};
use model::{Error, Exit, Result};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file that a program name means, by PATH; absolute.
///
/// # Errors
/// Unknown program (with similar names as the hint), or one that cannot be executed.
pub fn resolve(name: &OsStr) -> Result<PathBuf> {
    resolve_in(name, std::env::var_os("PATH").as_deref())
}

pub(super) fn resolve_in(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    let unknown = || Error::new(Exit::Usage, "unknown program", name.to_string_lossy());
    if name.is_empty() {
        return Err(unknown().hint("give the program after `--`"));
    }
    if name.as_bytes().contains(&b'/') {
        let path = std::path::absolute(name).map_err(|cause| unknown().because(cause))?;
        return match runnable(&path) {
            Ok(()) => Ok(path),
            Err(Unrunnable::Absent(cause)) => Err(unknown().because(cause).hint("there is no such file")),
            Err(Unrunnable::Other(error)) => Err(error),
        };
    }
    // The same default as the C library's execvp.
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut other = None;
    for directory in std::env::split_paths(path) {
        let candidate = std::path::absolute(directory.join(name)).map_err(|cause| unknown().because(cause))?;
        match runnable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(Unrunnable::Absent(_)) => {}
            Err(Unrunnable::Other(error)) => other = other.or(Some(error)),
        }
    }
    if let Some(error) = other {
        return Err(error);
    }
    let hint = match similar_programs(name, path).as_slice() {
        [] => "it is in no directory of PATH: install it, or give its path".to_owned(),
        names => format!("did you mean {}?", names.join(" or ")),
    };
    Err(unknown().hint(hint))
}

enum Unrunnable {
    Absent(io::Error),
    Other(Error),
}

fn runnable(path: &Path) -> std::result::Result<(), Unrunnable> {
    let meta = std::fs::metadata(path).map_err(Unrunnable::Absent)?;
    let usage = |what: &str| Error::on(Exit::Usage, what, path);
    if meta.is_dir() {
        return Err(Unrunnable::Other(usage("cannot run a directory").hint("give the program inside it")));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(Unrunnable::Other(usage("not an executable file").hint(why_not_executable(path))));
    }
    Ok(())
}

/// What to type for a file without the right to be executed: it may be a program all the same, or data.
fn why_not_executable(path: &Path) -> String {
    let shown = path.display();
    match kind::of(path) {
        Some(Kind::Elf | Kind::Script) => format!("`chmod +x {shown}`"),
        Some(Kind::Archive) if path.extension().is_some_and(|ending| ending == "jar") => {
            format!("it is an archive for Java: `-- java -jar {shown}`")
        }
        _ => "it is data, neither an ELF program nor a script with #!: name the program that opens it".to_owned(),
    }
}

/// Names in PATH that one or two typing errors turn into this one, the nearest first, three at most.
fn similar_programs(name: &OsStr, path: &OsStr) -> Vec<String> {
    let name = name.to_string_lossy();
    let limit = if name.chars().count() < 5 { 1 } else { 2 };
    let mut found = BTreeSet::new();
    for directory in std::env::split_paths(path) {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for other in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let begins = name.len() > 3 && other.starts_with(&format!("{name}-"));
            let distance = typing_errors(&name, &other);
            if begins || distance <= limit {
                found.insert((if begins { 1 } else { distance }, other));
            }
        }
    }
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Levenshtein distance in characters (insertions, deletions, replacements).
fn typing_errors(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_a_program_is_to_be_made_executable() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("it");
        for (content, hint) in [("#!/bin/sh\n", "chmod +x"), ("\x7fELF", "chmod +x"), ("root:x:0:0\n", "it is data")] {
            std::fs::write(&path, content).unwrap();
            let error = resolve(path.as_os_str()).unwrap_err();
            assert!(error.hint.as_deref().unwrap().contains(hint), "{content}: {error:?}");
        }
        std::fs::rename(&path, home.path().join("it.jar")).unwrap();
        std::fs::write(home.path().join("it.jar"), b"PK\x03\x04").unwrap();
        let error = resolve(home.path().join("it.jar").as_os_str()).unwrap_err();
        assert!(error.hint.as_deref().unwrap().contains("java -jar"), "{error:?}");
    }

    #[test]
    fn typing_errors_are_counted() {
        for (a, b, distance) in
            [("firefox", "firefox", 0), ("firefx", "firefox", 1), ("", "ab", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(typing_errors(a, b), distance, "{a} {b}");
        }
    }
}

//! Which files belong to packages: an upgrade replaces them. Only reads, by asking the package manager.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The packages that these files came with, by dpkg's database. Empty where there is no dpkg: then nobody was asked.
pub fn of(files: &[&Path]) -> BTreeSet<String> {
    if files.is_empty() {
        return BTreeSet::new();
    }
    // Where /lib is a link to /usr/lib, packages may name a file either way.
    let short = |path: &&Path| path.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
    let names: Vec<PathBuf> =
        files.iter().map(|path| path.to_path_buf()).chain(files.iter().filter_map(short)).collect();
    let mut command = Command::new("dpkg-query");
    command.arg("--search").args(names.iter().map(|name| pattern(name))).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(said) = command.output() else { return BTreeSet::new() };
    packages(&String::from_utf8_lossy(&said.stdout), &names)
}

/// dpkg takes names as patterns of the shell.
fn pattern(path: &Path) -> std::ffi::OsString {
    let mut out = Vec::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        if b"*?[\\".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    std::os::unix::ffi::OsStringExt::from_vec(out)
}

/// Of lines `PACKAGE[, PACKAGE]: FILE`.
fn packages(text: &str, files: &[PathBuf]) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let lines = lines.filter(|(names, _)| !names.starts_with("diversion by "));
    let ours = lines.filter(|(_, file)| files.iter().any(|known| known.as_os_str() == OsStr::new(file)));
    ours.flat_map(|(names, _)| names.split(", ").map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_read_and_patterns_are_none() {
        let files = ["/usr/bin/x".into(), "/usr/bin/y".into()];
        let text =
            "x:amd64: /usr/bin/x\ny, z: /usr/bin/y\nother: /usr/bin/xx\ndiversion by a from: /usr/bin/x\nnonsense\n";
        let found: Vec<_> = packages(text, &files).into_iter().collect();
        assert_eq!(found, ["x:amd64", "y", "z"]);
        assert_eq!(pattern(Path::new("/a*[b]")), "/a\\*\\[b]");
        assert_eq!(of(&[]), BTreeSet::new());
    }
}

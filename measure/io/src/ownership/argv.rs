//! What a command line says of a program's files: the program that a launcher starts, and the paths that arguments
//! name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Programs that only prepare the start of another one.
const LAUNCHERS: [&str; 17] = [
    "chrt",
    "dbus-launch",
    "dbus-run-session",
    "env",
    "gosu",
    "ionice",
    "nice",
    "nohup",
    "numactl",
    "runuser",
    "setpriv",
    "setsid",
    "stdbuf",
    "sudo",
    "taskset",
    "timeout",
    "xvfb-run",
];

/// The programs that launchers at the beginning of a command line start: `xvfb-run -a zenity` starts zenity. The
/// launcher itself is not among them.
pub fn launched(argv: &[OsString]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = argv;
    while let Some((program, words)) = rest.split_first().filter(|(program, _)| is_launcher(program)) {
        // Options of launchers may have values, which are no programs, and rarely have the name of one.
        let starts = |word: &OsString| {
            let bytes = word.as_bytes();
            let named = !bytes.starts_with(b"-") && !bytes.contains(&b'=') && word != program;
            named.then(|| os::spawn::resolve_program(word).ok()).flatten()
        };
        let Some((at, file)) = words.iter().enumerate().find_map(|(at, word)| Some((at, starts(word)?))) else { break };
        found.push(file);
        rest = &words[at..];
    }
    found
}

fn is_launcher(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default();
    LAUNCHERS.iter().any(|launcher| name == *launcher)
}

/// The files and directories that the arguments of a program name, links followed: `script.py`, `--data=/srv/data`,
/// `-cp a.jar:b.jar`, `file:///page.html`. Words that name nothing that is there are no paths.
pub fn named_paths(argv: &[OsString], cwd: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for word in argv.iter().skip(1) {
        for piece in pieces(word.as_bytes()) {
            let piece = piece.strip_prefix(b"file://").unwrap_or(piece);
            let real = cwd.join(OsStr::from_bytes(piece)).canonicalize().ok();
            let path = real.filter(|path| path.metadata().is_ok_and(|about| about.is_file() || about.is_dir()));
            found.extend(path.filter(|path| !piece.is_empty() && !found.contains(path)));
        }
    }
    found
}

/// The parts of a word that may be paths: the whole; behind the first `=`; between colons.
fn pieces(word: &[u8]) -> Vec<&[u8]> {
    let mut pieces = vec![word];
    if let Some(at) = word.iter().position(|byte| *byte == b'=') {
        pieces.push(&word[at + 1..]);
    }
    if word.contains(&b':') {
        pieces.extend(word.split(|byte| *byte == b':'));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn a_launcher_is_not_the_program() {
        let names = |line: &str| -> Vec<String> {
            let files = launched(&words(line));
            files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names("env LANG=C nice -n 5 sort /etc/passwd"), ["nice", "sort"]);
        assert_eq!(names("sort env"), Vec::<String>::new());
        assert_eq!(names("timeout 10s no-such-program-anywhere"), Vec::<String>::new());
    }

    #[test]
    fn arguments_name_files_that_are_there() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("data")).unwrap();
        for name in ["app.py", "a.jar", "b.jar", "page.html"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let line =
            format!("python app.py --data=data -cp a.jar:b.jar:gone.jar serve -v file://{}/page.html", root.display());
        let found = named_paths(&words(&line), &root);
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["app.py", "data", "a.jar", "b.jar", "page.html"]);
    }
}

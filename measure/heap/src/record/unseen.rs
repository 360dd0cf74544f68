//! Processes that were started and left no stream: which, what they executed, and why the guest is not in them.
//!
//! Every exec of a recorded process is noted by its guest ([`heap_wire::execs`]). What was executed and has no stream from then on was not recorded;
//! its file mostly says why. Not for what such processes execute in turn by system calls of their own.

use crate::stream::{Origin, Reader};
use heap_wire::execs::FILE;
use model::{Error, Exit, Result, Warning, WarningKind, shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A process that was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Its number.
    pub pid: u32,
    /// What it executed.
    pub file: String,
    /// Why it was not recorded.
    pub why: String,
}

/// Numbers that a warning names.
const NAMED: usize = 5;

/// What is said of them: those of one file and reason together.
pub(crate) fn warnings(unseen: &[Unseen]) -> Vec<Warning> {
    let mut alike: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for process in unseen {
        alike.entry(&process.why).or_default().push(process.pid.to_string());
    }
    let text = |(why, pids): (&str, Vec<String>)| {
        let named = pids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        match pids.len() {
            1 => format!("process {named} was not recorded: {why}"),
            count @ 2..=NAMED => format!("{count} processes ({named}) were not recorded: {why}"),
            count => format!("{count} processes ({named}, ...) were not recorded: {why}"),
        }
    };
    alike.into_iter().map(|alike| Warning::new(WarningKind::Note, text(alike))).collect()
}

/// Makes the file that guests note in; those of other users at the desk.
pub(super) fn begin(directory: &Path) -> Result<()> {
    let path = place(directory);
    os::file::create_private(&path).map(drop).map_err(|cause| cannot(&path, cause))
}

/// Notes the first process.
pub(super) fn note(directory: &Path, pid: u32, ticks: u64, program: &Path) -> Result<()> {
    let path = place(directory);
    let mut note = format!("{pid} {ticks} ").into_bytes();
    note.extend_from_slice(program.as_os_str().as_bytes());
    note.push(0);
    let file = File::options().append(true).open(&path);
    file.and_then(|mut file| file.write_all(&note)).map_err(|cause| cannot(&path, cause))
}

/// Compares the notes with the streams, and removes them, unless processes are running that go on noting.
pub(super) fn end(directory: &Path, running: &[u32]) -> Result<Vec<Unseen>> {
    let path = place(directory);
    let text = fs::read(&path).map_err(|cause| cannot(&path, cause))?;
    if running.is_empty() {
        fs::remove_file(&path).map_err(|cause| cannot(&path, cause))?;
    }
    let reader = Reader::open(directory)?;
    let mut unseen = Vec::new();
    for (pid, notes) in of_processes(&text) {
        let images = reader.processes().iter().filter(|process| process.pid == pid && process.origin == Origin::Exec);
        let starts: Vec<u64> = images.map(|process| process.start_ticks).collect();
        for (index, (ticks, file)) in notes.iter().enumerate() {
            let next = notes.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
            if !starts.iter().any(|start| (*ticks..next).contains(start)) {
                let file = found(file);
                unseen.extend(why(&file).map(|why| Unseen { pid, file: shown(&file), why }));
            }
        }
    }
    unseen.sort_by(|a, b| (a.pid, &a.file).cmp(&(b.pid, &b.file)));
    Ok(unseen)
}

fn place(directory: &Path) -> PathBuf {
    directory.join(OsStr::from_bytes(FILE))
}

fn cannot(path: &Path, cause: std::io::Error) -> Error {
    Error::on(Exit::Machine, "cannot note what is executed", path).because(cause)
}

/// What each process became and when, in the order of time. Processes may have written anything.
fn of_processes(text: &[u8]) -> HashMap<u32, Vec<(u64, &[u8])>> {
    let mut all: HashMap<u32, Vec<(u64, &[u8])>> = HashMap::new();
    for note in text.split(|byte| *byte == 0) {
        let mut words = note.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let (Some(pid), Some(ticks)) = (number().and_then(|pid| u32::try_from(pid).ok()), number()) else { continue };
        let Some(path) = words.next().filter(|path| !path.is_empty()) else { continue };
        let of_process = all.entry(pid).or_default();
        match ticks {
            0 => {
                of_process.pop();
            }
            ticks => of_process.push((ticks, path)),
        }
    }
    all.values_mut().for_each(|notes| notes.sort_unstable());
    all
}

/// A name without a directory is looked for as `execvp` does. Shells pass `./program` on; without the dot it is read more easily.
fn found(path: &[u8]) -> PathBuf {
    let path = OsStr::from_bytes(path);
    if path.as_bytes().contains(&b'/') {
        return Path::new(path).components().collect();
    }
    os::spawn::resolve_program(path).unwrap_or_else(|_| path.into())
}

/// Scripts whose interpreters are scripts: as many as the kernel follows.
const SCRIPTS: usize = 5;

/// Why the guest is not in a process that executed this file; `None`: nothing was executed, because it is neither a program nor a script.
pub(super) fn why(path: &Path) -> Option<String> {
    let (mut path, mut scripts) = (path.to_owned(), String::new());
    for _ in 0..SCRIPTS {
        let name = format!("{scripts}{}", shown(&path));
        let Ok(bytes) = fs::read(&path) else {
            return Some(format!("{name} cannot be read, so it cannot be said why"));
        };
        if let Some(interpreter) = interpreter_of(&bytes) {
            scripts = format!("{name} is a script, and ");
            path = interpreter;
            continue;
        }
        if !bytes.starts_with(b"\x7fELF") {
            return None;
        }
        return Some(format!("{name} {}", of_program(&path, &bytes)));
    }
    None
}

/// What the first line of a script names.
fn interpreter_of(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

fn of_program(path: &Path, bytes: &[u8]) -> &'static str {
    let mode = fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    let capable = rustix::fs::getxattr(path, c"security.capability", &mut [0u8; 64][..]).is_ok_and(|length| length > 0);
    if bytes.get(4) != Some(&2) || bytes.get(18..20) != Some(&[62, 0]) {
        "is no x86-64 program; the guest is one"
    } else if elf::interpreter(bytes).is_none() {
        "is statically linked: LD_PRELOAD does not reach it"
    } else if mode & 0o6000 != 0 {
        "is setuid or setgid: the dynamic linker ignores LD_PRELOAD there"
    } else if capable {
        "has capabilities: the dynamic linker ignores LD_PRELOAD there"
    } else {
        "was started, but the guest could not make its stream: it could not reach the recording's directory, the disk is full, it has another root directory, or was ended at once"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn notes_that_failed_or_are_damaged_are_none() {
        let notes =
            b"7 100 /bin/a\x007 200 /bin/b\x007 0 /bin/b\x00x\x008 5\x009 50 /with space\x009 40 rel\x00\xff 1 /x\x006 1 \x00";
        let notes = of_processes(notes);
        assert_eq!(notes[&7], [(100, &b"/bin/a"[..])]);
        assert_eq!(notes[&9], [(40, &b"rel"[..]), (50, &b"/with space"[..])]);
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn scripts_are_followed_to_their_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), format!("#! {} -x\nrest", path("b").display())).unwrap();
        fs::write(path("b"), format!("#!{}", path("c").display())).unwrap();
        assert!(why(&path("a")).unwrap().contains("cannot be read"));
        fs::write(path("c"), "no program").unwrap();
        assert_eq!(why(&path("a")), None);
        fs::write(path("c"), format!("#!{}", path("a").display())).unwrap();
        assert_eq!(why(&path("a")), None, "a ring ends");
        fs::write(path("c"), [&b"\x7fELF\x01\x01\x01"[..], &[0; 60]].concat()).unwrap();
        let said = why(&path("a")).unwrap();
        assert!(
            said.contains("is a script, and ") && said.ends_with("is no x86-64 program; the guest is one"),
            "{said}"
        );
    }

    #[test]
    fn those_alike_are_said_together() {
        let unseen = |pid, why: &str| Unseen { pid, file: "/x".into(), why: why.into() };
        let all: Vec<Unseen> = (1..=7).map(|pid| unseen(pid, "/x is b")).chain([unseen(9, "/x is a")]).collect();
        let texts: Vec<String> = warnings(&all).into_iter().map(|warning| warning.text).collect();
        assert_eq!(
            texts,
            ["process 9 was not recorded: /x is a", "7 processes (1, 2, 3, 4, 5, ...) were not recorded: /x is b"]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (of_processes(&bytes), interpreter_of(&bytes));
        }
    }
}

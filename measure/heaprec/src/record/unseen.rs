//! Processes that were started and left no stream: which, what they executed, and why the guest is not in them.
//!
//! Every exec of a recorded process is noted by its guest ([`heap_wire::execs`]). What was executed and has no stream
//! from then on was not recorded; its file mostly says why. A forked process without a stream tells itself
//! ([`super::missed`]); and all in which the guest began are counted. Not for what such processes execute in turn by
//! system calls of their own.

use super::missed::{self, Missed, Subject, Told};
use heap_wire::execs::FILE;
use heapfile::event::{Origin, Process};
use heapfile::form::form;
use heapfile::reader::Reader;
use heapfile::recording::Unseen;
use model::{Error, Exit, Result, shown};
use os::mapped::Mapped;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Makes the file that guests note in, and their table; those of other users come to both at the desk.
pub(crate) fn begin(directory: &Path) -> Result<()> {
    let path = place(directory);
    missed::begin(directory)?;
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

/// What has no stream.
#[derive(Debug, Default)]
pub(crate) struct Without {
    /// Processes that are known, with the reason.
    pub unseen: Vec<Unseen>,
    /// How many more began to be recorded and left nothing.
    pub missing: u64,
}

/// Compares the notes with the streams, and removes them, unless processes are running that go on noting.
pub(crate) fn end(directory: &Path, running: &[u32]) -> Result<Without> {
    let path = place(directory);
    let text = fs::read(&path).map_err(|cause| cannot(&path, cause))?;
    if running.is_empty() {
        fs::remove_file(&path).map_err(|cause| cannot(&path, cause))?;
    }
    let missed = missed::end(directory, running)?;
    let reader = Reader::open(directory)?;
    let mut unseen = executed(&text, &missed, reader.processes());
    let forked = missed.told.iter().filter_map(|told| forked(told, reader.processes()));
    unseen.extend(forked);
    unseen.sort_by(|a, b| (a.pid, &a.file).cmp(&(b.pid, &b.file)));
    let told = missed.told.iter().filter(|told| !matches!(told.what, Subject::Exec(_))).count() as u64;
    let missing = missed.images.saturating_sub(streams(directory)? + told);
    Ok(Without { unseen, missing })
}

/// Process images that have a file, with a beginning or without.
fn streams(directory: &Path) -> Result<u64> {
    let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
    let mut names = HashSet::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if form(&path).is_some() {
            names.extend(path.file_stem().map(OsStr::to_owned));
        }
    }
    Ok(names.len() as u64)
}

/// A process that was forked and could not make its stream.
fn forked(told: &Told, processes: &[Process]) -> Option<Unseen> {
    let Subject::Forked(parent) = &told.what else { return None };
    let stem = Path::new(OsStr::from_bytes(parent)).file_stem();
    let parent = processes.iter().find(|process| process.file.file_stem() == stem);
    let file = parent.map_or("an unknown program".into(), |parent| shown(&parent.exe));
    let by = parent.map_or("an unknown process".into(), |parent| format!("process {}", parent.pid));
    let why = format!("{file}, forked by {by}, could not make its stream: {}", missed::reason(told.errno));
    Some(Unseen { pid: told.pid, file, why })
}

/// Programs that were executed and have no stream from then on.
fn executed(text: &[u8], missed: &Missed, processes: &[Process]) -> Vec<Unseen> {
    let mut notes = of_processes(text);
    for told in &missed.told {
        if let Subject::Exec(path) = &told.what {
            notes.entry(told.pid).or_default().push((told.ticks, path));
        }
    }
    let (mut unseen, mut sanitized) = (Vec::new(), HashMap::new());
    for (pid, mut notes) in notes {
        notes.sort_unstable();
        let images = processes.iter().filter(|process| process.pid == pid && process.origin == Origin::Exec);
        let starts: Vec<u64> = images.map(|process| process.start_ticks).collect();
        for (index, (ticks, path)) in notes.iter().enumerate() {
            let next = notes.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
            if starts.iter().any(|start| (*ticks..next).contains(start)) {
                // Its checker ended it right after the guest began.
                let file = found(path);
                let why = sanitized.entry(file.clone()).or_insert_with(|| sanitized_by(&file));
                unseen.extend(why.clone().map(|why| Unseen { pid, file: shown(&file), why }));
                continue;
            }
            // What it said itself is more than what its file says; the file may be another one in its root directory.
            let told = missed.told.iter().find(|told| {
                told.pid == pid && (*ticks..next).contains(&told.ticks) && !matches!(told.what, Subject::Forked(_))
            });
            let file = if told.is_some() { PathBuf::from(OsStr::from_bytes(path)) } else { found(path) };
            let why = match told {
                Some(told) => {
                    Some(format!("{} could not make its stream: {}", shown(&file), missed::reason(told.errno)))
                }
                None => why(&file),
            };
            unseen.extend(why.map(|why| Unseen { pid, file: shown(&file), why }));
        }
    }
    unseen
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

/// A name without a directory is looked for as `execvp` does. Shells pass `./program` on; without the dot it is read
/// more easily.
fn found(path: &[u8]) -> PathBuf {
    let path = OsStr::from_bytes(path);
    if path.as_bytes().contains(&b'/') {
        return Path::new(path).components().collect();
    }
    os::spawn::resolve_program(path).unwrap_or_else(|_| path.into())
}

/// Scripts whose interpreters are scripts: as many as the kernel follows.
const SCRIPTS: usize = 5;

/// The program that the kernel starts for a file, its bytes, and the scripts before it (`A is a script, and `).
enum Program {
    Found {
        scripts: String,
        path: PathBuf,
        bytes: Mapped,
    },
    /// This one of them cannot be read.
    Hidden(String),
    /// Neither a program nor a script.
    None,
}

fn program_of(path: &Path) -> Program {
    let (mut path, mut scripts) = (path.to_owned(), String::new());
    for _ in 0..SCRIPTS {
        let Ok(file) = File::open(&path) else { return Program::Hidden(format!("{scripts}{}", shown(&path))) };
        // What is empty cannot be mapped.
        let Some(bytes) = Mapped::of(&file) else { return Program::None };
        if let Some(interpreter) = interpreter_of(&bytes) {
            scripts = format!("{scripts}{} is a script, and ", shown(&path));
            path = interpreter;
            continue;
        }
        let is_program = bytes.starts_with(b"\x7fELF");
        return if is_program { Program::Found { scripts, path, bytes } } else { Program::None };
    }
    Program::None
}

/// Why the guest is not in a process that executed this file; `None`: nothing was executed, because it is neither a
/// program nor a script.
pub(super) fn why(path: &Path) -> Option<String> {
    match program_of(path) {
        Program::Found { scripts, path, bytes } => {
            Some(format!("{scripts}{} {}", shown(&path), of_program(&path, &bytes)))
        }
        Program::Hidden(name) => Some(format!("{name} cannot be read, so it cannot be said why")),
        Program::None => None,
    }
}

/// What is said of a program that brings a checker with an allocator of its own.
fn sanitized_by(path: &Path) -> Option<String> {
    let Program::Found { scripts, path, bytes } = program_of(path) else { return None };
    let sanitizer = elf::sanitizer(&bytes)?;
    Some(format!("{scripts}{} is built with {sanitizer}, {ENDS}", shown(&path)))
}

/// What checkers do.
const ENDS: &str = "which ends at once where a library is preloaded";

/// Refuses a program that brings a checker with an allocator of its own: with the guest before it, it ends at once.
pub(super) fn refuse_sanitized(path: &Path) -> Result<()> {
    let Program::Found { path, bytes, .. } = program_of(path) else { return Ok(()) };
    let Some(sanitizer) = elf::sanitizer(&bytes) else { return Ok(()) };
    Err(Error::on(Exit::Usage, format!("cannot record a program that is built with {sanitizer}"), &path)
        .because(format!("{sanitizer} replaces the allocator, and must be loaded before anything that is preloaded"))
        .hint("record a build without -fsanitize=address, thread, memory, hwaddress or leak"))
}

/// What the first line of a script names.
fn interpreter_of(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

fn of_program(path: &Path, bytes: &[u8]) -> String {
    let mode = fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    let capable = rustix::fs::getxattr(path, c"security.capability", &mut [0u8; 64][..]).is_ok_and(|length| length > 0);
    let why = if bytes.get(4) != Some(&2) || bytes.get(18..20) != Some(&[62, 0]) {
        "is no x86-64 program; the guest is one"
    } else if elf::interpreter(bytes).is_none() {
        "is statically linked: LD_PRELOAD does not reach it"
    } else if mode & 0o6000 != 0 {
        "is setuid or setgid: the dynamic linker ignores LD_PRELOAD there"
    } else if capable {
        "has capabilities: the dynamic linker ignores LD_PRELOAD there"
    } else if let Some(sanitizer) = elf::sanitizer(bytes) {
        return format!("is built with {sanitizer}, {ENDS}");
    } else {
        "was started, but the guest could not make its stream: it could not reach the recording's directory, the disk \
        is full, it has another root directory, or was ended at once"
    };
    why.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn notes_that_failed_or_are_damaged_are_none() {
        let notes =
            b"7 100 /bin/a\x007 200 /bin/b\x007 0 /bin/b\x00x\x008 5\x009 50 /with space\x009 40 rel\x00\xff 1 /x\x006 \
            1 \x00";
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

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (of_processes(&bytes), interpreter_of(&bytes));
        }
    }
}

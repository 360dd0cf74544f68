//! The oracle with the machine's own loader: the original, the original once more, and the packed file are loaded each
//! in a process of its own, stopped at the same point, and their memory is compared. What differs between the two
//! originals is noise. Not for judging files of other machines: that is `offline`.

use crate::bytes::Format;
use crate::compare::movable;
use crate::expected::Expected;
use crate::file::Elf;
use crate::spec::{DT_NEEDED, DT_RPATH, DT_RUNPATH, PT_INTERP};
use crate::tables::Tables;
use crate::trace::{Mapping, Started, Tracee};
use crate::{Findings, Kind, Verdict, skipped};
use model::{Bytes, Error, Exit};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How [`live`] loads the files.
#[derive(Clone, Debug, Default)]
pub struct LiveOptions {
    /// Where the processes are stopped.
    pub stop: Stop,
    /// What may differ, as in [`offline_expecting`](crate::offline_expecting).
    pub expected: Expected,
    /// Loads a library; `None`: the usual glibc loader of the file's machine. A program names its own.
    pub loader: Option<PathBuf>,
    /// Variables for all processes, besides those of the caller.
    pub environment: Vec<(OsString, OsString)>,
    /// With [`Stop::Entry`], and for libraries that need no other, the program into which a library is preloaded;
    /// `None`: `/bin/true`.
    pub host: Option<PathBuf>,
}

/// Where the processes are stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// All objects are relocated, and no constructor has run.
    #[default]
    Relocated,
    /// At the program's entry: the constructors of libraries have run. For packed files that an injected constructor
    /// relocates.
    Entry,
}

/// Loads both files and compares their memory, byte by byte and page by page. Both run with the environment of the
/// caller and of `options`, at the same addresses, under the same path. Constructors run only with [`Stop::Entry`],
/// `main` never; a process never outlives the call.
///
/// Errors: this machine may not trace processes, or does not run such files ([`Exit::Machine`]); the original does not
/// load ([`Exit::Target`]) or is damaged ([`Exit::Data`]); a file cannot be read. That the packed file does not load is
/// a difference.
pub fn live(original: &Path, packed: &Path, options: &LiveOptions) -> model::Result<Verdict> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| Error::on(Exit::Usage, "cannot read", path).because(error));
    let (old_bytes, new_bytes) = (read(original)?, read(packed)?);
    let unusable = |reason: String| Error::on(Exit::Data, "cannot take as the original", original).because(reason);
    let old = Elf::parse(&old_bytes).map_err(unusable)?;
    let tables = Tables::read(&old).map_err(unusable)?;
    let mut findings = Findings::default();
    let new = match Elf::parse(&new_bytes) {
        Ok(new) => new,
        Err(reason) => {
            findings.add(Kind::Structure, None, || reason);
            return Ok(findings.verdict);
        }
    };
    let command = Command::new(&old, &tables, original, options)?;
    let stage = Stage::new(original)?;
    let start = |file: &Path, elf: &Elf| -> model::Result<Started<Loaded>> {
        stage.show(file)?;
        command.start(&stage.path, file, elf)
    };
    let failed = |message: String| {
        Error::on(Exit::Target, "the machine's loader does not load", original).because(message).hint(
            "look at `ldd -r` of it; LD_LIBRARY_PATH can say where its libraries lie, LD_PRELOAD who has its symbols",
        )
    };
    let first = start(original, &old)?.or_else(failed)?;
    let second = start(original, &old)?.or_else(failed)?;
    let third = match start(packed, &new)? {
        Started::Stopped(loaded) => loaded,
        Started::Ended(message) => {
            findings.add(Kind::Load, None, || message);
            return Ok(findings.verdict);
        }
    };
    let spans = skipped(&old, &movable(&old, &tables, &new), &options.expected);
    for load in old.loads() {
        for (from, to) in spans.outside(load.at, load.end()) {
            memory(&first, &second, &third, from, to, &mut findings)?;
            access(&first, &third, from, to, &mut findings);
        }
    }
    Ok(findings.verdict)
}

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// What to execute.
struct Command {
    format: Format,
    program: Option<PathBuf>,
    /// The loader, whose file tells where it can be stopped.
    loader: PathBuf,
    stop: Stop,
    variables: Vec<(OsString, OsString)>,
    preload: bool,
}

impl Command {
    fn new(elf: &Elf, tables: &Tables, original: &Path, options: &LiveOptions) -> model::Result<Self> {
        let interpreter = elf.segment(PT_INTERP).and_then(|segment| elf.in_file(segment.offset, segment.file_len));
        let interpreter = interpreter.map(|path| path.strip_suffix(b"\0").unwrap_or(path));
        let known = match (elf.machine.name, std::env::consts::ARCH) {
            ("x86-64", "x86_64") => "/lib64/ld-linux-x86-64.so.2",
            ("i386", "x86_64") => "/lib/ld-linux.so.2",
            (machine, here) => {
                return Err(Error::on(Exit::Machine, "cannot load here", original)
                    .because(format!("it is for {machine}, and this machine is {here}"))
                    .hint("the offline oracle judges files of every machine"));
            }
        };
        let loader = match (interpreter, &options.loader) {
            (Some(path), _) => PathBuf::from(OsStr::from_bytes(path)),
            (None, Some(loader)) => loader.clone(),
            (None, None) => PathBuf::from(known),
        };
        let loader = std::fs::canonicalize(&loader)
            .map_err(|error| Error::on(Exit::Machine, "cannot find the loader", &loader).because(error))?;
        // The loader alone crashes when the library brings no libc with it.
        let brings_libc = elf.dynamic.values(DT_NEEDED).next().is_some();
        let preload = interpreter.is_none() && (options.stop == Stop::Entry || !brings_libc);
        let program = match interpreter {
            Some(_) => None,
            None if preload => Some(options.host.clone().unwrap_or_else(|| "/bin/true".into())),
            None => Some(loader.clone()),
        };
        let mut variables = options.environment.clone();
        variables.push(("LD_BIND_NOW".into(), "1".into()));
        let own = variables.iter().rfind(|(name, _)| name == LIBRARY_PATH).map(|(_, value)| value.clone());
        let own = own.or_else(|| std::env::var_os(LIBRARY_PATH));
        if let Some(paths) = library_path(elf, tables, original, own) {
            variables.push((LIBRARY_PATH.into(), paths));
        }
        Ok(Self { format: elf.format, program, loader, stop: options.stop, variables, preload })
    }

    fn start(&self, shown: &Path, file: &Path, elf: &Elf) -> model::Result<Started<Loaded>> {
        let mut command = std::process::Command::new(self.program.as_deref().unwrap_or(shown));
        if self.preload {
            command.env("LD_PRELOAD", shown);
        } else if self.program.is_some() {
            command.arg(shown);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut tracee = Tracee::start(command, self.format)?;
        let reached = match self.stop {
            Stop::Relocated => tracee.run_until_relocated(&self.loader)?,
            Stop::Entry => tracee.run_until_entry()?,
        };
        if let Some(message) = reached {
            return Ok(Started::Ended(message));
        }
        let file =
            std::fs::canonicalize(file).map_err(|error| Error::on(Exit::Usage, "cannot find", file).because(error))?;
        let maps = tracee.maps()?;
        let own = maps.iter().find(|mapping| mapping.path == file.as_os_str());
        let first = elf.loads().next();
        let (Some(own), Some(first)) = (own, first) else {
            let errors = tracee.errors();
            return Ok(Started::Ended(format!("the loader did not load it: {errors}")));
        };
        let base = own.start.wrapping_sub(first.at / 4096 * 4096);
        Ok(Started::Stopped(Loaded { tracee, maps, base, file, format: self.format }))
    }
}

/// The directories that `$ORIGIN` of the original means, so that the packed file finds the same libraries from
/// anywhere.
fn library_path(elf: &Elf, tables: &Tables, original: &Path, own: Option<OsString>) -> Option<OsString> {
    let origin = std::fs::canonicalize(original).ok()?;
    let origin = origin.parent()?.as_os_str().as_bytes();
    let mut paths: Vec<Vec<u8>> = Vec::new();
    for value in elf.dynamic.values(DT_RUNPATH).chain(elf.dynamic.values(DT_RPATH)) {
        let list = crate::bytes::text(tables.strings, value)?;
        for entry in list.split(|byte| *byte == b':') {
            for name in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
                if let Some(at) = entry.windows(name.len()).position(|window| window == name) {
                    paths.push([&entry[..at], origin, &entry[at + name.len()..]].concat());
                }
            }
        }
    }
    if paths.is_empty() {
        return None;
    }
    paths.extend(own.map(|own| own.as_bytes().to_vec()));
    Some(OsStr::from_bytes(&paths.join(&b':')).to_owned())
}

/// A path that names the original and the packed file one after the other: a symbolic link in a directory of its own.
struct Stage {
    directory: PathBuf,
    path: PathBuf,
}

impl Stage {
    fn new(original: &Path) -> model::Result<Self> {
        let name = original.file_name().ok_or_else(|| Error::on(Exit::Usage, "not a file:", original))?;
        let root = std::env::temp_dir();
        for number in 0_u32.. {
            let directory = root.join(format!("thaw-live.{}.{number}", std::process::id()));
            match std::fs::create_dir(&directory) {
                Ok(()) => return Ok(Self { path: directory.join(name), directory }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Error::on(Exit::Machine, "cannot make the directory", &directory).because(error));
                }
            }
        }
        Err(Error::on(Exit::Machine, "cannot make a directory in", &root))
    }

    fn show(&self, file: &Path) -> model::Result<()> {
        let failed = |error| Error::on(Exit::Machine, "cannot link", file).because(error);
        let file = std::fs::canonicalize(file).map_err(failed)?;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        std::os::unix::fs::symlink(&file, &self.path).map_err(failed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A stopped process that has loaded the file.
struct Loaded {
    tracee: Tracee,
    maps: Vec<Mapping>,
    base: u64,
    file: PathBuf,
    format: Format,
}

impl Loaded {
    /// What an address belongs to, and how far it is from the beginning of that: the same in two processes although
    /// libraries lie elsewhere.
    fn meaning(&self, address: u64) -> Option<(&OsStr, u64)> {
        let index = self.maps.iter().position(|mapping| mapping.start <= address && address < mapping.end)?;
        // Zero-filled data lies behind the file's pages, without a name.
        let mut owner = index;
        while self.maps[owner].path.is_empty() && owner > 0 && self.maps[owner - 1].end == self.maps[owner].start {
            owner -= 1;
        }
        let path = &self.maps[owner].path;
        let first = self.maps.iter().find(|mapping| mapping.path == *path)?;
        // By name only: a DT_RPATH can lead each file to libraries of its own.
        let name = if *path == self.file { OsStr::new("") } else { Path::new(path).file_name().unwrap_or(path) };
        Some((name, address - first.start))
    }

    fn word(&self, raw: &[u8]) -> Option<u64> {
        self.format.word(raw, 0)
    }
}

fn memory(
    first: &Loaded,
    second: &Loaded,
    third: &Loaded,
    from: u64,
    to: u64,
    findings: &mut Findings,
) -> model::Result<()> {
    const CHUNK: u64 = 1 << 16;
    let mut buffers = [vec![0_u8; CHUNK as usize], vec![0; CHUNK as usize], vec![0; CHUNK as usize]];
    let mut at = from;
    while at < to {
        let end = (at / CHUNK * CHUNK).saturating_add(CHUNK).min(to);
        let len = (end - at) as usize;
        let [one, two, three] = &mut buffers;
        let (one, two, three) = (&mut one[..len], &mut two[..len], &mut three[..len]);
        let unreadable = |error: std::io::Error| {
            Error::new(Exit::Machine, "cannot read the memory of a traced process", "").because(error)
        };
        first.tracee.read(first.base.wrapping_add(at), one).map_err(unreadable)?;
        if third.tracee.read(third.base.wrapping_add(at), three).is_err() {
            findings.add(Kind::Memory, Some(at), || format!("{len} bytes cannot be read"));
        } else if one != three {
            second.tracee.read(second.base.wrapping_add(at), two).map_err(unreadable)?;
            words(first, second, third, at, [one, two, three], findings);
        }
        findings.verdict.checked.bytes += Bytes(len as u64);
        at = end;
    }
    Ok(())
}

/// Compares what is known to differ, word by word.
fn words(
    first: &Loaded,
    second: &Loaded,
    third: &Loaded,
    at: u64,
    [one, two, three]: [&[u8]; 3],
    findings: &mut Findings,
) {
    let word = first.format.word_len() as usize;
    let mut start = 0;
    while start < one.len() {
        let end = (start + word - (at as usize + start) % word).min(one.len());
        let (before, again, after) = (&one[start..end], &two[start..end], &three[start..end]);
        if before != after {
            let same = |here: &Loaded, raw: &[u8], there: &Loaded, other: &[u8]| {
                let pointers = here.word(raw).and_then(|value| here.meaning(value));
                pointers.is_some() && pointers == there.word(other).and_then(|value| there.meaning(value))
            };
            let noise = before != again && !same(first, before, second, again);
            if !noise && !same(first, before, third, after) {
                findings.add(Kind::Memory, Some(at + start as u64), || {
                    format!("{} became {}", crate::compare::hex(before), crate::compare::hex(after))
                });
            }
        }
        start = end;
    }
}

/// Access rights as the kernel has them.
fn access(first: &Loaded, third: &Loaded, from: u64, to: u64, findings: &mut Findings) {
    let rights = |loaded: &Loaded, at: u64| {
        let address = loaded.base.wrapping_add(at);
        let mapping = loaded.maps.iter().find(|mapping| mapping.start <= address && address < mapping.end);
        mapping.map_or(([b'?'; 3], at + 1), |mapping| (mapping.access, mapping.end.wrapping_sub(loaded.base)))
    };
    let mut at = from;
    while at < to {
        let (before, until) = rights(first, at);
        let (after, end) = rights(third, at);
        if before != after {
            findings.add(Kind::Protection, Some(at), || {
                format!("was {} and is {}", String::from_utf8_lossy(&before), String::from_utf8_lossy(&after))
            });
        }
        at = until.min(end).max(at + 1);
    }
}

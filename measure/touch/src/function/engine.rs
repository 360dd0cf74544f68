//! Thaw's side of the `function` engine: starts the tracing process, talks to it, and names what it saw.

use super::counts::{Counts, counts};
use super::seen::{Call, Copied, Seen, SeenFile};
use super::starts::Names;
use crate::engine::{Doubt, Engine, Trace};
use model::{Bytes, FileId, FileKind, FileOffset, FileRow, Nanos, Owner, ProcessRow, Result, SectionRow};
use model::{TouchEngine, TouchRow, TraceInfo, TraceRows, WatchedRow};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the engine cannot know whatever it watches, one sentence each.
const CANNOT: [&str; 6] = [
    "which part of a function ran: a function counts as touched whole",
    "code that is made while the program runs, and code that a program maps without its dynamic loader",
    "what a program does whose threads were made to escape a tracer (CLONE_UNTRACED)",
    "calls while SIGTRAP is blocked let a SIGTRAP that waits come early",
    "order between two CPUs closer than a stop takes, some microseconds",
    "what a program that reads or changes its own code would do: the text of large files is memory of thaw",
];

/// Engines that leave the code of a program as it is.
const WITHOUT_TRAPS: &str = "--engine page (as root), or byte";

/// A program that calls [`super::serve`] on its standard input: thaw itself with a hidden verb.
#[derive(Clone, Debug)]
pub struct Helper {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that it needs beside thaw's own.
    pub environment: Vec<(OsString, OsString)>,
}

/// The function engine. One per run.
#[derive(Debug)]
pub struct Functions {
    #[cfg(target_arch = "x86_64")]
    talk: talk::Talk,
    planting: Nanos,
    /// The code that was copied with a trap of ours in it; known after the run.
    copied: Option<String>,
    /// Whose calls are counted; none: first calls are noted.
    patterns: Vec<String>,
    counts: Option<Counts>,
}

impl Functions {
    /// Starts the tracing process. It has to be there before the program is: it is none of the program's processes.
    ///
    /// # Errors
    /// Machine: another processor than x86-64; the process cannot be started.
    #[cfg(target_arch = "x86_64")]
    pub fn new(helper: &Helper) -> Result<Self> {
        Ok(Self {
            talk: talk::Talk::start(helper)?,
            planting: Nanos(0),
            copied: None,
            patterns: Vec::new(),
            counts: None,
        })
    }

    /// The process that traces.
    #[cfg(target_arch = "x86_64")]
    pub fn helper(&self) -> u32 {
        self.talk.pid()
    }

    /// Looks into files that the program is likely to map, so that it does not wait for that: before [`Trace::attach`].
    /// Others are looked into when they are mapped.
    ///
    /// # Errors
    /// Machine: the tracing process is gone.
    #[cfg(target_arch = "x86_64")]
    pub fn prepare(&mut self, files: Vec<PathBuf>) -> Result<()> {
        self.talk.prepare(files)
    }

    /// Nothing, on a processor that has no such engine.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn prepare(&mut self, _files: Vec<PathBuf>) -> Result<()> {
        Ok(())
    }

    /// Counts each call of the functions whose names match a pattern, in place of the first calls of all: before
    /// [`Trace::attach`].
    ///
    /// # Errors
    /// Machine: the tracing process is gone.
    #[cfg(target_arch = "x86_64")]
    pub fn count(&mut self, patterns: Vec<String>) -> Result<()> {
        self.patterns.clone_from(&patterns);
        self.talk.count(patterns)
    }

    /// Nothing, on a processor that has no such engine.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn count(&mut self, patterns: Vec<String>) -> Result<()> {
        self.patterns = patterns;
        Ok(())
    }

    /// What was counted; known after the run.
    pub fn counts(&mut self) -> Option<Counts> {
        self.counts.take()
    }

    /// How long programs waited for their traps, all of them together; known after the run.
    pub fn planting(&self) -> Nanos {
        self.planting
    }

    /// Says that this processor has no such engine.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn new(_helper: &Helper) -> Result<Self> {
        Err(model::Error::new(
            model::Exit::Machine,
            "the function engine does not know this processor",
            std::env::consts::ARCH,
        )
        .hint("use `--engine page`: it needs root, and changes nothing in the program"))
    }
}

impl Engine for Functions {
    fn kind(&self) -> TouchEngine {
        TouchEngine::Function
    }
}

impl Trace for Functions {
    #[cfg(target_arch = "x86_64")]
    fn attach(&mut self, pid: u32) -> Result<()> {
        self.talk.attach(pid)
    }

    #[cfg(target_arch = "x86_64")]
    fn stop(&mut self, t0_monotonic_ns: u64) -> Result<TraceRows> {
        let seen = self.talk.stop()?;
        self.planting = Nanos(seen.planting_ns);
        let mut rows = rows(&seen, t0_monotonic_ns);
        if !self.patterns.is_empty() {
            self.counts = Some(counts(&seen, &self.patterns, t0_monotonic_ns));
        }
        self.copied = seen.copied.as_ref().map(|copied| in_words(copied, &seen));
        rows.info.cannot.extend(self.copied.iter().map(|copied| format!("calls of copies of code: {copied}")));
        Ok(rows)
    }

    fn doubt(&self) -> Option<Doubt> {
        Some(match &self.copied {
            Some(copied) => Doubt {
                because: Some(copied.clone()),
                hint: format!("what reads or copies its own code finds breakpoints of thaw in it: {WITHOUT_TRAPS}"),
            },
            None => Doubt {
                because: None,
                hint: format!(
                    "if it only takes longer: --timeout; if it works unwatched, it may read its own code, in which it \
                        finds \
                     breakpoints of thaw: {WITHOUT_TRAPS}"
                ),
            },
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn attach(&mut self, _pid: u32) -> Result<()> {
        Err(model::Error::bug("the function engine cannot be made here"))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn stop(&mut self, _t0_monotonic_ns: u64) -> Result<TraceRows> {
        Err(model::Error::bug("the function engine cannot be made here"))
    }
}

/// Which code was copied by whom, and where to.
fn in_words(copied: &Copied, seen: &Seen) -> String {
    let Copied { file, offset, address, comm } = copied;
    let path = seen.files.get(*file as usize).map(|file| file.path.clone()).unwrap_or_default();
    let bytes = std::fs::File::open(&path).ok().and_then(|file| os::mapped::Mapped::of(&file));
    let name = bytes.as_deref().and_then(|bytes| Names::of(bytes).get(*offset));
    let function =
        name.map_or_else(|| format!("the function at {offset:#x}"), |name| format!("{name} (at {offset:#x})"));
    let shown = model::shown(std::path::Path::new(&path));
    format!("{comm} copied {function} of {shown} to {address:#x} with the breakpoint of thaw in it, and ran it there")
}

/// What was seen as rows of the recording, with the names of the functions that were called.
fn rows(seen: &Seen, t0_ns: u64) -> TraceRows {
    let since = |at: u64| Nanos(at.saturating_sub(t0_ns));
    let mut rows = TraceRows {
        info: TraceInfo {
            engine: "ptrace".into(),
            records: seen.stops,
            lost: 0,
            bytes: Bytes(seen.planted_bytes),
            cannot: CANNOT.into_iter().map(String::from).chain(seen.notes.iter().cloned()).collect(),
        },
        ..TraceRows::default()
    };
    let mut names: HashMap<(u32, u64), String> = HashMap::new();
    for (number, file) in (0..).zip(&seen.files) {
        let id = FileId(number);
        let bytes = std::fs::File::open(&file.path).ok().and_then(|file| os::mapped::Mapped::of(&file));
        let bytes = bytes.as_deref().filter(|bytes| bytes.len() as u64 == file.size).unwrap_or_default();
        rows.files.push(file_row(file, bytes));
        rows.sections.extend(sections(id, bytes));
        if file.functions > 0 {
            let (functions, len, starts) = (file.functions, Bytes(file.bytes), file.from);
            rows.watched.push(WatchedRow { file: id, functions, len, starts });
        }
        let mut calls = seen.calls.iter().filter(|call| call.file == number).peekable();
        if calls.peek().is_some() {
            let known = Names::of(bytes);
            names.extend(calls.filter_map(|call| Some(((number, call.offset), known.get(call.offset)?))));
        }
    }
    let touch = |(order, call): (u32, &Call)| TouchRow {
        file: FileId(call.file),
        offset: FileOffset(call.offset),
        len: Bytes(call.len),
        order: Some(order),
        at_ns: Some(since(call.at_ns)),
        tid: Some(call.tid.cast_unsigned()),
        engine: TouchEngine::Function,
        name: names.get(&(call.file, call.offset)).cloned(),
    };
    rows.touches = (0..).zip(&seen.calls).map(touch).collect();
    rows.processes = seen
        .processes
        .iter()
        .map(|process| ProcessRow {
            pid: process.pid.cast_unsigned(),
            parent: process.parent.cast_unsigned(),
            comm: process.comm.clone(),
            exe: process.exe.clone().map(Into::into),
            start_ns: since(process.start_ns),
            end_ns: process.end_ns.map(since),
        })
        .collect();
    rows
}

fn file_row(file: &SeenFile, bytes: &[u8]) -> FileRow {
    FileRow {
        path: file.path.clone().into(),
        kind: FileKind::Regular,
        owner: Owner::System,
        dev: file.dev,
        ino: file.ino,
        size: Bytes(file.size),
        extents: None,
        build_id: elf::build_id(bytes),
    }
}

/// ELF sections of a file; none: it is no ELF file.
pub(crate) fn sections(file: FileId, bytes: &[u8]) -> Vec<SectionRow> {
    let row = |section: elf::Section| SectionRow { file, name: section.name, offset: section.offset, len: section.len };
    elf::sections(bytes).unwrap_or_default().into_iter().map(row).collect()
}

#[cfg(target_arch = "x86_64")]
mod talk {
    //! The socket to the tracing process.

    use super::super::helper::{Answer, Ask};
    use super::super::seen::Seen;
    use super::Helper;
    use model::{Error, Exit, Result};
    use std::io::{self, BufRead, BufReader, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    /// A tracing process. Dropping it ends the process and everybody whom it still traces.
    #[derive(Debug)]
    pub struct Talk {
        process: Child,
        socket: Option<BufReader<UnixStream>>,
    }

    impl Talk {
        pub fn start(helper: &Helper) -> Result<Self> {
            let failed = |cause: io::Error| {
                Error::on(Exit::Machine, "cannot start the tracing process", &helper.program).because(cause)
            };
            let (ours, theirs) = UnixStream::pair().map_err(failed)?;
            let process = Command::new(&helper.program)
                .args(&helper.arguments)
                .envs(helper.environment.iter().cloned())
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
                .map_err(failed)?;
            os::spawn::allow_tracer(process.id());
            Ok(Self { process, socket: Some(BufReader::new(ours)) })
        }

        pub fn pid(&self) -> u32 {
            self.process.id()
        }

        pub fn prepare(&mut self, files: Vec<PathBuf>) -> Result<()> {
            match self.ask(&Ask::Prepare(files))? {
                Answer::Prepared => Ok(()),
                other => Err(Error::bug(format!("the tracing process answered {other:?}"))),
            }
        }

        pub fn count(&mut self, patterns: Vec<String>) -> Result<()> {
            match self.ask(&Ask::Count(patterns))? {
                Answer::Prepared => Ok(()),
                other => Err(Error::bug(format!("the tracing process answered {other:?}"))),
            }
        }

        pub fn attach(&mut self, pid: u32) -> Result<()> {
            match self.ask(&Ask::Attach(pid.cast_signed()))? {
                Answer::Attached => Ok(()),
                Answer::Refused(errno) => Err(refused(pid, errno)),
                other => Err(Error::bug(format!("the tracing process answered {other:?}"))),
            }
        }

        pub fn stop(&mut self) -> Result<Seen> {
            match self.ask(&Ask::Stop)? {
                Answer::Seen(seen) => Ok(*seen),
                Answer::Failed(cause) => Err(Error::new(Exit::Machine, "the tracer failed", "").because(cause)),
                other => Err(Error::bug(format!("the tracing process answered {other:?}"))),
            }
        }

        fn ask(&mut self, ask: &Ask) -> Result<Answer> {
            let gone = |cause: io::Error| {
                Error::new(Exit::Machine, "the tracing process is gone", self.process.id()).because(cause)
            };
            let socket =
                self.socket.as_mut().ok_or_else(|| Error::bug("the tracing process was asked after its end"))?;
            let mut line = serde_json::to_vec(ask).map_err(|error| gone(error.into()))?;
            line.push(b'\n');
            socket.get_mut().write_all(&line).map_err(gone)?;
            let mut line = String::new();
            if socket.read_line(&mut line).map_err(gone)? == 0 {
                return Err(gone(io::ErrorKind::UnexpectedEof.into()));
            }
            serde_json::from_str(&line).map_err(|error| gone(error.into()))
        }
    }

    impl Drop for Talk {
        fn drop(&mut self) {
            // It ends when it hears that nobody listens. Who else reaps it (thaw reaps orphans) does not matter.
            self.socket = None;
            let _ = self.process.wait();
        }
    }

    fn refused(pid: u32, errno: i32) -> Error {
        let error = Error::new(Exit::Machine, "cannot watch the functions of process", pid)
            .because(io::Error::from_raw_os_error(errno));
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        match scope.trim() {
            "2" | "3" => error.hint("kernel.yama.ptrace_scope forbids it: run thaw as root, or with `--engine probe`"),
            _ => error.hint("a container may forbid ptrace: allow it (CAP_SYS_PTRACE), or use `--engine probe`"),
        }
    }
}

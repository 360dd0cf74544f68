//! What a recording tells about the program to optimise: its directory, how it was started, what its start read.

use crate::args::optimize::OptimizeArgs;
use crate::args::{Args, Verb};
use crate::document::{self, Loaded};
use crate::plan::{self, RecordPlan};
use crate::verbs::touch;
use bench::record::{Output, Program, Success};
use clap::Parser;
use model::{CacheState, Error, Exit, FileKind, Nanos, ProcessRow, Result, TraceRows, shown};
use optimize::tree;
use recording::{Header, Reader};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A recorded program.
pub struct Source {
    /// The recording; absolute.
    pub recording: PathBuf,
    /// Everything but the traces.
    pub loaded: Loaded,
    /// A traced start that was not hot.
    pub rows: TraceRows,
    /// A start that shows which pages are needed, if there is one.
    pub touched: Option<TraceRows>,
    /// Until it was ready.
    pub length: Nanos,
    /// The program's directory; without links.
    pub root: PathBuf,
    /// What is started, below it.
    pub program: PathBuf,
    /// The program as it was recorded, placeholders unfilled.
    pub recorded: Program,
    /// How it was recorded.
    pub plan: RecordPlan,
    /// The state to measure in.
    pub state: CacheState,
    /// Name of the recorded program.
    pub variant: String,
}

impl Source {
    /// Reads it. This process is where the recording was made from now on: relative paths of its command line are meant from there.
    ///
    /// # Errors
    /// No program or no traced start in it; the program is not there any more, is another one now, or has no directory of its own.
    pub fn read(recording: &Path, args: &OptimizeArgs) -> Result<Self> {
        let absolute = std::path::absolute(recording).unwrap_or_else(|_| recording.to_owned());
        let typed_root = args.root.as_deref().map(|root| std::path::absolute(root).unwrap_or_else(|_| root.to_owned()));
        let reader = Reader::open(recording)?;
        let loaded = Loaded::of(recording, &reader)?;
        let index = variant_index(recording, &loaded, args.variant.as_deref())?;
        let header = reader.header()?;
        let (rows, length) = trace(recording, &reader, &loaded, index)?;
        let touched = document::needed(&reader, &loaded.starts(&reader)?, index as u32)?;
        std::env::set_current_dir(&header.cwd).map_err(|cause| {
            Error::on(Exit::Data, "cannot go to where it was recorded:", &header.cwd)
                .because(cause)
                .hint("record it again")
        })?;
        let plan = planned(recording, &header)?;
        let recorded = plan.programs.get(index).cloned().ok_or_else(|| no_program(recording))?;
        let executed = executed(&rows, &recorded)?;
        let root = tree::root_of(&executed, typed_root.as_deref())?;
        let program = program_below(&root, &executed, &recorded)?;
        check_same(&loaded, &root.join(&program), &reader)?;
        let cold = loaded.asked.states.contains(&CacheState::Cold);
        let state = args.state.unwrap_or(if cold { CacheState::Cold } else { CacheState::App });
        let variant = loaded.names[index].clone();
        Ok(Self { recording: absolute, loaded, rows, touched, length, root, program, recorded, plan, state, variant })
    }

    /// The disk to predict for and to measure on, as it is typed; `None`: this machine's own.
    pub fn disk(&self, args: &OptimizeArgs) -> Option<String> {
        let asked = &self.loaded.asked;
        let simulated = || asked.disk.as_deref().map(|name| name.strip_prefix("quick:").unwrap_or(name).to_owned());
        let limit = || {
            let parts = [
                asked.throttle_iops.map(|iops| format!("iops={iops}")),
                asked.throttle_bps.map(|bps| format!("bps={bps}")),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("throttle:{}", parts.join(",")))
        };
        args.disk.clone().or_else(simulated).or_else(limit)
    }

    /// Why it is that one.
    pub fn disk_because(&self, args: &OptimizeArgs) -> &'static str {
        match (&args.disk, self.disk(args)) {
            (Some(_), _) => "--disk names it",
            (None, Some(_)) => "the recording was made on it",
            (None, None) => "it is as fast as the disk of the recording was; starts are measured on this machine's own",
        }
    }

    /// The options of `thaw record` that make the world in which the program was recorded; placeholders unfilled.
    pub fn world(&self) -> Vec<OsString> {
        let program = &self.recorded;
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: &OsStr| words.extend([name.into(), value.to_owned()]);
        for ready in &program.ready {
            option("--ready", ready.to_string().as_ref());
        }
        option("--timeout", format!("{}ms", program.timeout.as_millis()).as_ref());
        option("--grace", format!("{}ms", program.grace.as_millis()).as_ref());
        if let Success::Codes(codes) = &program.success {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            option("--ok-exit", codes.join(",").as_ref());
        }
        for (name, value) in &program.env {
            let mut change = name.clone();
            if let Some(value) = value {
                change.push("=");
                change.push(value);
            }
            option("--env", &change);
        }
        if let Some(cwd) = &program.cwd {
            option("--cwd", cwd.as_os_str());
        }
        match &program.user {
            Some(user) => option("--user", user.uid.to_string().as_ref()),
            None => words.push("--as-root".into()),
        }
        if program.output == Output::Pty {
            words.push("--pty".into());
        }
        words
    }
}

fn no_program(recording: &Path) -> Error {
    Error::on(Exit::Data, "there is no program in the recording", recording)
        .hint("record one: thaw record -- PROGRAM ARGS")
}

fn variant_index(recording: &Path, loaded: &Loaded, name: Option<&str>) -> Result<usize> {
    if loaded.names.is_empty() {
        return Err(no_program(recording));
    }
    let Some(name) = name else { return Ok(0) };
    loaded.names.iter().position(|known| known == name).ok_or_else(|| {
        Error::new(Exit::Usage, "the recording has no variant", name)
            .hint(format!("it has: {}", loaded.names.join(", ")))
    })
}

/// What was typed then, as it is understood now.
///
/// # Errors
/// It is not understood any more, or was another verb.
pub fn planned(recording: &Path, header: &Header) -> Result<RecordPlan> {
    let wrong = |cause: String| {
        Error::on(Exit::Data, "cannot understand the command line of the recording", recording)
            .because(cause)
            .hint("record the program with this thaw: thaw record -- PROGRAM ARGS")
    };
    let args = Args::try_parse_from(&header.command_line).map_err(|error| wrong(error.kind().to_string()))?;
    match args.verb {
        Verb::Record(args) => plan::record(*args),
        Verb::Touch(args) => plan::record(touch::as_record(*args)?),
        _ => Err(wrong("it is not one of `thaw record` or `thaw touch`".into())),
    }
}

fn trace(recording: &Path, reader: &Reader, loaded: &Loaded, variant: usize) -> Result<(TraceRows, Nanos)> {
    let starts = loaded.starts(reader)?;
    let row = starts.coldest(variant as u32).filter(|row| row.state != CacheState::Hot).ok_or_else(|| {
        Error::on(Exit::Data, "there is no traced cold start in the recording", recording)
            .hint("thaw record --state cold -- PROGRAM (as root), or --state app")
    })?;
    let rows = reader.trace(row.id)?;
    let length = document::length(&rows, row);
    Ok((rows, length))
}

/// The executable that the first process was at last: behind launch scripts and links.
fn executed(rows: &TraceRows, program: &Program) -> Result<PathBuf> {
    let is_first = |process: &&ProcessRow| !rows.processes.iter().any(|other| other.pid == process.parent);
    let seen = rows.processes.iter().find(is_first).and_then(|process| process.exe.clone());
    if let Some(exe) = seen.filter(|exe| exe.is_absolute() && exe.exists()) {
        return Ok(exe);
    }
    let typed = program.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let found = os::spawn::resolve_program(typed).map_err(|error| gone(Path::new(typed)).because(error.to_string()))?;
    found.canonicalize().map_err(|cause| gone(&found).because(cause))
}

fn gone(path: &Path) -> Error {
    Error::on(Exit::Data, "the recorded program is not on this machine:", path)
        .hint("a recording is of one machine: record the program here, then `thaw optimize`")
}

/// What is started in a copy: what was typed, if it lies in the tree (a launch script there), else what that started.
fn program_below(root: &Path, executed: &Path, recorded: &Program) -> Result<PathBuf> {
    let typed = recorded.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let typed = os::spawn::resolve_program(typed).ok().and_then(|path| path.canonicalize().ok());
    let executed = executed.canonicalize().unwrap_or_else(|_| executed.to_owned());
    let below = |path: &Path| path.strip_prefix(root).ok().map(Path::to_path_buf);
    typed.as_deref().and_then(below).or_else(|| below(&executed)).ok_or_else(|| {
        Error::on(Exit::Usage, "the program does not lie in the directory", root)
            .because(format!("it is {}", shown(&executed)))
            .hint("--root DIR names the directory that holds it")
    })
}

/// It is still the program that was recorded.
fn check_same(loaded: &Loaded, program: &Path, reader: &Reader) -> Result<()> {
    let binaries = reader.binaries()?;
    let Some(known) = binaries.iter().find(|binary| binary.path == program) else { return Ok(()) };
    let size = program.metadata().map_err(|cause| gone(program).because(cause))?.len();
    if size == known.size.0 {
        return Ok(());
    }
    Err(Error::on(Exit::Data, "the program is another one than in the recording:", program)
        .because(format!("it has {size} bytes now, and had {}", known.size.0))
        .hint(format!("record it again: {}", loaded.source.command_line.join(" "))))
}

/// Regular files of a trace below a directory.
pub fn files_below<'a>(rows: &'a TraceRows, root: &'a Path) -> impl Iterator<Item = (model::FileId, &'a Path)> {
    let files = rows
        .files
        .iter()
        .enumerate()
        .filter(move |(_, file)| file.kind == FileKind::Regular && file.path.starts_with(root));
    files.map(|(index, file)| (model::FileId(index as u32), &*file.path))
}

//! `thaw memory`: what programs say of their memory, and what the kernel says over time.

mod by_rules;
mod page;

use crate::args::memory::{DiffArgs, LookArgs, MarkArgs, MemoryArgs, MemoryVerb, ShowArgs, WatchArgs};
use crate::progress::Progress;
use crate::{output, text};
use memory::ask::{self, Detail, First};
use memory::file::{self, MemoryFile, Packed};
use memory::tree::{self, Meaning, Options, Process};
use memory::watch::{self, Checkpoint, Compared, Head, Pair, Whose};
use model::{Error, Exit, Result, Warning, shown};
use os::spawn::{Ended, Launch, Running, monotonic_ns};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// `thaw.memory/1`: trees.
#[derive(Debug, Serialize)]
pub struct TreesDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Whether amounts are changes.
    pub difference: bool,
    /// Bytes of all processes together, without what they share; no process says it: `None`.
    pub resident: Option<i64>,
    /// What each process says.
    pub processes: Vec<Process>,
    /// What was found out about the reporters, one value for each process.
    pub reporters: Vec<Value>,
    /// Broken rules.
    pub warnings: Vec<Warning>,
}

/// `thaw.memory-checkpoints/1`: one watch.
#[derive(Debug, Serialize)]
pub struct WatchDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// How it began.
    pub head: Head,
    /// Looks at the program.
    pub samples: usize,
    /// Processes that could not be looked at, at most.
    pub unseen: u32,
    /// Named moments, the peak and the end.
    pub checkpoints: Vec<Checkpoint>,
}

/// `thaw.memory-compare/1`: two watches.
#[derive(Debug, Serialize)]
pub struct CompareDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The files.
    pub files: [String; 2],
    /// The checkpoints side by side.
    pub checkpoints: Vec<Pair>,
}

/// `thaw.memory-runs/1`: several watches of each of two versions.
#[derive(Debug, Serialize)]
pub struct RunsDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The watches of each version.
    pub files: [Vec<String>; 2],
    /// The checkpoints side by side.
    pub checkpoints: Vec<Compared>,
}

/// Between SIGTERM and the end of our interest; the first process is killed then.
const PATIENCE: Duration = Duration::from_secs(5);

/// A watch and its file.
type NamedWatch = (String, watch::Watched);

/// What a file is.
enum Content {
    Report(MemoryFile),
    Watch(Box<watch::Watched>),
    /// A directory: a run each.
    Watches(Vec<NamedWatch>),
}

impl Content {
    /// Runs with their names, of what is a watch or several.
    fn runs(self, path: &Path) -> Option<Vec<NamedWatch>> {
        match self {
            Self::Report(_) => None,
            Self::Watch(watched) => Some(vec![(shown(path), *watched)]),
            Self::Watches(runs) => Some(runs),
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// Files that are no memory reports; programs that do not answer.
pub fn run(args: &MemoryArgs, quiet: bool) -> Result<Exit> {
    match &args.verb {
        MemoryVerb::Show(typed) => show(typed, quiet),
        MemoryVerb::Diff(typed) => diff(typed),
        MemoryVerb::Watch(typed) => watch(typed, quiet),
        MemoryVerb::Mark(typed) => mark(typed),
    }
}

fn show(args: &ShowArgs, quiet: bool) -> Result<Exit> {
    let content = match (&args.file, args.pid, &args.from_heap) {
        (Some(path), ..) => read(path)?,
        (None, Some(pid), _) => {
            let first = if args.minimize { First::Minimize } else { First::Nothing };
            Content::Report(ask::ask(pid, first, if args.blocks { Detail::Blocks } else { Detail::Figures })?)
        }
        (None, None, Some(recording)) => Content::Report(by_rules::report(recording, args, quiet)?),
        (None, None, None) => return Err(Error::bug("neither a file nor a process was asked for")),
    };
    match content {
        Content::Report(report) => {
            if let Some(path) = &args.output {
                os::file::write_whole(path, &file::write(&report, Packed::by_name(path))?)?;
            }
            let source = args.file.as_deref().or(args.from_heap.as_deref());
            let name = source.map_or_else(|| format!("process {}", args.pid.unwrap_or(0)), shown);
            match &args.look.html {
                Some(target) => write_page(target, page::of_report(&name, &report, &args.look)?),
                None => trees(&report, Meaning::State, &args.look),
            }
        }
        Content::Watches(_) => Err(Error::new(Exit::Usage, "one watch can be shown; several are for diff", "")),
        Content::Watch(_) if args.output.is_some() => {
            Err(Error::new(Exit::Usage, "a watch is no memory report; --output is not for it", ""))
        }
        Content::Watch(watched) => {
            let name = args.file.as_deref().map(shown).unwrap_or_default();
            if let Some(target) = &args.look.html {
                return write_page(target, page::of_watch(&name, &watched, &args.look)?);
            }
            refuse_parts(&args.look)?;
            checkpoints(name, &watched, args.look.json)
        }
    }
}

fn diff(args: &DiffArgs) -> Result<Exit> {
    match (read(&args.first)?, read(&args.second)?) {
        (Content::Report(first), Content::Report(second)) => {
            if args.at.is_some() {
                return Err(Error::new(Exit::Usage, "memory reports have no checkpoints; --at is for watches", ""));
            }
            match &args.look.html {
                Some(target) => {
                    let files = [(shown(&args.first), &first), (shown(&args.second), &second)];
                    write_page(target, page::of_reports(&files, &args.look)?)
                }
                None => trees(&memory::diff::diff(&first, &second), Meaning::Difference, &args.look),
            }
        }
        (Content::Watch(first), Content::Watch(second)) => {
            if let Some(target) = &args.look.html {
                let files = [(shown(&args.first), &*first), (shown(&args.second), &*second)];
                return write_page(target, page::of_watches(&files, &args.look)?);
            }
            let (before, after) = (first.checkpoints(), second.checkpoints());
            let Some(name) = &args.at else {
                refuse_parts(&args.look)?;
                let document = CompareDocument {
                    schema: "thaw.memory-compare/1",
                    files: [shown(&args.first), shown(&args.second)],
                    checkpoints: watch::pairs(&before, &after),
                };
                if args.look.json {
                    output::json(&document)?;
                } else {
                    output::page(&text::memory::compare(&document, text::width::of_terminal()))?;
                }
                return Ok(Exit::Done);
            };
            let find = |among: &[Checkpoint], path: &Path| {
                let Some(found) = among.iter().find(|checkpoint| checkpoint.name == *name) else {
                    let names: Vec<&str> = among.iter().map(|checkpoint| checkpoint.name.as_str()).collect();
                    return Err(Error::on(Exit::Usage, format!("there is no checkpoint '{name}' in"), path)
                        .hint(format!("it has {}", names.join(", "))));
                };
                found.reports.clone().ok_or_else(|| {
                    Error::on(Exit::Data, format!("there are no trees at '{name}' in"), path)
                        .hint("only marks have trees, and only if the program has thaw_memreport in it")
                })
            };
            let change = memory::diff::diff(&find(&before, &args.first)?, &find(&after, &args.second)?);
            trees(&change, Meaning::Difference, &args.look)
        }
        (first, second) => match (first.runs(&args.first), second.runs(&args.second)) {
            (Some(first), Some(second)) => compare_runs(first, second, args),
            _ => Err(Error::new(Exit::Usage, "a memory report and a watch cannot be compared", "")),
        },
    }
}

fn compare_runs(first: Vec<NamedWatch>, second: Vec<NamedWatch>, args: &DiffArgs) -> Result<Exit> {
    if args.at.is_some() || args.look.html.is_some() {
        return Err(Error::new(Exit::Usage, "--at and --html are for two watches, not for directories of them", ""));
    }
    refuse_parts(&args.look)?;
    let checkpoints = [&first, &second].map(|runs| runs.iter().map(|(_, run)| run.checkpoints()).collect::<Vec<_>>());
    let document = RunsDocument {
        schema: "thaw.memory-runs/1",
        files: [first, second].map(|runs| runs.into_iter().map(|(name, _)| name).collect()),
        checkpoints: watch::compare(&checkpoints[0], &checkpoints[1]),
    };
    if args.look.json {
        output::json(&document)?;
    } else {
        output::page(&text::memory::compare_runs(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// The page of a report or a watch, and what changed since another one.
///
/// # Errors
/// Files that are no memory reports, or two that are of different kinds.
pub fn whole_page(path: &Path, before: Option<&Path>) -> Result<String> {
    let look = LookArgs { verbose: false, process: None, filter: None, regex: None, json: false, html: None };
    let name = shown(path);
    match (read(path)?, before.map(|before| Ok((shown(before), read(before)?))).transpose()?) {
        (Content::Report(report), None) => page::of_report(&name, &report, &look),
        (Content::Watch(watched), None) => page::of_watch(&name, &watched, &look),
        (Content::Report(report), Some((before, Content::Report(first)))) => {
            page::of_reports(&[(before, &first), (name, &report)], &look)
        }
        (Content::Watch(watched), Some((before, Content::Watch(first)))) => {
            page::of_watches(&[(before, &*first), (name, &*watched)], &look)
        }
        _ => Err(Error::new(Exit::Usage, "a memory report and a watch cannot be compared", "")),
    }
}

fn write_page(target: &Path, page: String) -> Result<Exit> {
    os::file::write_whole(target, page.as_bytes())?;
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<Content> {
    if path.is_dir() {
        return watches(path);
    }
    let bytes = std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
    if bytes.starts_with(watch::BEGINNING) {
        return Ok(Content::Watch(Box::new(watch::parse(&bytes, &shown(path))?)));
    }
    Ok(Content::Report(file::parse(&bytes, &shown(path))?))
}

/// The watches in a directory, by name; other files are left alone.
fn watches(directory: &Path) -> Result<Content> {
    let cannot = |cause| Error::on(Exit::Usage, "cannot read", directory).because(cause);
    let entries =
        std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(cannot)?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let mut runs = Vec::new();
    for path in paths {
        let mut beginning = [0; watch::BEGINNING.len()];
        let is_watch = File::open(&path).and_then(|mut file| file.read_exact(&mut beginning)).is_ok();
        if is_watch
            && beginning == watch::BEGINNING
            && let Content::Watch(watched) = read(&path)?
        {
            runs.push((shown(&path), *watched));
        }
    }
    if runs.is_empty() {
        return Err(Error::on(Exit::Usage, "there are no memory watches in", directory)
            .hint("one for each run: thaw memory watch -o DIRECTORY/1.memory -- PROGRAM"));
    }
    Ok(Content::Watches(runs))
}

/// The trees of the processes and paths that were asked for.
fn wanted(report: &MemoryFile, meaning: Meaning, detail: tree::Detail, look: &LookArgs) -> Vec<Process> {
    let options = Options {
        detail,
        meaning,
        process: &|name| look.process.as_ref().is_none_or(|part| name.contains(part.as_str())),
        path: &|path| {
            look.filter.as_ref().is_none_or(|part| path.contains(part.as_str()))
                && look.regex.as_ref().is_none_or(|pattern| pattern.is_match(path))
        },
    };
    memory::tree::build(report, &options)
}

fn of_a_part(look: &LookArgs) -> bool {
    look.process.is_some() || look.filter.is_some() || look.regex.is_some()
}

/// Checkpoints are sums of all processes.
fn refuse_parts(look: &LookArgs) -> Result<()> {
    if of_a_part(look) {
        return Err(Error::new(Exit::Usage, "checkpoints have no parts; --process, --filter and --regex are for trees", "")
            .hint("compare the trees at a mark: thaw memory diff A B --at NAME"));
    }
    Ok(())
}

fn trees(report: &MemoryFile, meaning: Meaning, look: &LookArgs) -> Result<Exit> {
    let detail = if look.verbose || look.json { tree::Detail::All } else { tree::Detail::Significant };
    let document = TreesDocument {
        schema: "thaw.memory/1",
        difference: meaning == Meaning::Difference,
        resident: memory::tree::resident(report),
        processes: wanted(report, meaning, detail, look),
        reporters: report.thaw.iter().map(without_blocks).collect(),
        warnings: report.warnings.clone(),
    };
    if document.processes.is_empty() && of_a_part(look) && meaning == Meaning::State {
        return Err(Error::new(Exit::No, "nothing in the report is like that", "")
            .hint("try without --process, --filter and --regex"));
    }
    if look.json {
        output::json(&document)?;
    } else {
        let amounts = if look.verbose { text::memory::Amounts::Exact } else { text::memory::Amounts::Rounded };
        output::page(&text::memory::trees(&document, amounts, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// They are for `thaw heap dark`.
fn without_blocks(value: &Value) -> Value {
    let Some(object) = value.as_object() else { return value.clone() };
    let kept = object.iter().filter(|(key, _)| *key != "blocks");
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn checkpoints(file: String, watched: &watch::Watched, json: bool) -> Result<Exit> {
    let document = WatchDocument {
        schema: "thaw.memory-checkpoints/1",
        file,
        head: watched.head.clone(),
        samples: watched.samples.len(),
        unseen: watched.samples.iter().map(|sample| sample.unseen).max().unwrap_or(0),
        checkpoints: watched.checkpoints(),
    };
    if json {
        output::json(&document)?;
    } else {
        output::page(&text::memory::checkpoints(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// A program that is watched.
enum Watchee {
    Started(Running),
    Found { pid: u32, start_ticks: u64 },
}

impl Watchee {
    /// What was started waits at its gate until `ready` is done: a program may set a mark at once.
    fn start(args: &WatchArgs, ready: impl FnOnce(Whose) -> Result<()>) -> Result<Self> {
        if let Some(pid) = args.pid {
            let gone = || Error::new(Exit::Usage, "there is no process", pid);
            let start_ticks = os::process::start_ticks(pid).ok_or_else(gone)?;
            let first = watch::sample(Whose::Program(pid), 0);
            if first.processes.is_empty() && first.unseen > 0 {
                return Err(Error::new(Exit::Machine, "the memory of this process is not for us to see:", pid)
                    .hint("watch as root, or as the user that it runs as"));
            }
            ready(Whose::Program(pid))?;
            return Ok(Self::Found { pid, start_ticks });
        }
        os::spawn::become_subreaper()?;
        let mut launch = Launch::new(&args.command);
        if args.json {
            // The document has stdout for itself.
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            let stderr = stderr.map_err(|cause| Error::new(Exit::Machine, "cannot share stderr", "").because(cause))?;
            launch.stdout = os::spawn::Stream::Fd(stderr);
        }
        let gated = os::spawn::spawn_gated(launch)?;
        ready(Whose::ChildrenOf(std::process::id()))?;
        Ok(Self::Started(gated.release()?))
    }

    fn whose(&self) -> Whose {
        match self {
            Self::Started(_) => Whose::ChildrenOf(std::process::id()),
            Self::Found { pid, .. } => Whose::Program(*pid),
        }
    }

    fn ended(&mut self) -> Result<bool> {
        match self {
            Self::Started(running) => {
                let ended = running.try_wait()?.is_some();
                os::spawn::reap_all();
                Ok(ended && os::process::descendants(std::process::id()).is_empty())
            }
            Self::Found { pid, start_ticks } => Ok(os::process::start_ticks(*pid) != Some(*start_ticks)),
        }
    }

    /// Ends what was started, all of it; leaves alone what was found.
    fn end(&mut self) -> Result<Option<Ended>> {
        if !self.ended()? && matches!(self, Self::Started(_)) {
            for pid in os::process::descendants(std::process::id()) {
                let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
                // One that ended meanwhile, or changed its user, is not ours to end.
                let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
            }
        }
        match self {
            Self::Started(running) => running.wait_for(PATIENCE),
            Self::Found { .. } => Ok(None),
        }
    }
}

fn watch(args: &WatchArgs, quiet: bool) -> Result<Exit> {
    os::interrupt::install()?;
    let name = shown(&args.output);
    if args.output.exists() && !args.force {
        return Err(Error::on(Exit::Usage, "there is already a file", &args.output)
            .hint("--force replaces it, -o names another"));
    }
    let began_ns = monotonic_ns();
    let mut watchee = Watchee::start(args, |whose| {
        let (Whose::Program(root) | Whose::ChildrenOf(root)) = whose;
        let head = Head {
            schema: watch::SCHEMA.into(),
            thaw_version: env!("CARGO_PKG_VERSION").into(),
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            whose,
            start_ticks: os::process::start_ticks(root).unwrap_or(0),
            began_ns,
            created_unix_ns: os::machine::now_unix_ns(),
        };
        // Whole lines are appended by us and by `thaw memory mark`.
        os::file::write_whole(&args.output, b"")?;
        watch::append(&mut open_to_append(&args.output)?, &head, &name)
    })?;
    let whose = watchee.whose();
    let mut file = open_to_append(&args.output)?;
    let mut progress = Progress::new(quiet);
    let began = Instant::now();
    let mut typed = Vec::new();
    loop {
        let looked = Instant::now();
        let mut sample = watch::sample(whose, monotonic_ns());
        progress.note(&text::memory::now(&sample.total()), began.elapsed());
        if let Some(mark) = typed.pop() {
            add_trees(&mut sample, whose);
            sample.mark = Some(mark);
        }
        watch::append(&mut file, &sample, &name)?;
        let over = args.end.is_some_and(|end| began.elapsed() >= end);
        if watchee.ended()? || over || os::interrupt::requested() {
            break;
        }
        // The time that a look takes is a part of the interval.
        let left = args.interval.saturating_sub(looked.elapsed());
        let left = args.end.map_or(left, |end| left.min(end.saturating_sub(began.elapsed())));
        typed = wait(left, &watchee)?;
    }
    let ended = watchee.end()?;
    progress.done();
    let bytes = std::fs::read(&args.output)
        .map_err(|cause| Error::on(Exit::Machine, "cannot read", &args.output).because(cause))?;
    checkpoints(name.clone(), &watch::parse(&bytes, &name)?, args.json)?;
    let ended_itself = !os::interrupt::requested() && args.end.is_none();
    Ok(match ended {
        Some(ended) if ended_itself && ended.code != Some(0) => Exit::Target,
        _ => Exit::Done,
    })
}

/// Waits for the next look, the program's end, Ctrl-C, or a line that is typed: the name of a mark.
fn wait(at_most: Duration, watchee: &Watchee) -> Result<Vec<String>> {
    let stdin = std::io::stdin();
    let mut fds = Vec::new();
    if stdin.is_terminal() {
        fds.push(PollFd::new(&stdin, PollFlags::IN));
    }
    let typing = fds.len();
    if let Watchee::Started(running) = watchee {
        // A program that has ended while its children have not would wake us at once, again and again.
        if os::process::stat(running.pid()).is_some_and(|stat| stat.state != 'Z') {
            fds.push(PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN));
        }
    }
    fds.extend(os::interrupt::fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let timeout = rustix::time::Timespec::try_from(at_most).ok();
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(cause) => {
            return Err(
                Error::new(Exit::Machine, "cannot wait for the program", "").because(std::io::Error::from(cause))
            );
        }
    }
    if typing == 0 || !fds[0].revents().contains(PollFlags::IN) {
        return Ok(Vec::new());
    }
    let mut line = [0; 200];
    let length = std::io::stdin().lock().read(&mut line).unwrap_or(0);
    let name = String::from_utf8_lossy(&line[..length]).trim().to_owned();
    Ok(vec![if name.is_empty() { "mark".into() } else { name }])
}

fn add_trees(sample: &mut watch::Sample, whose: Whose) {
    for pid in watch::processes(whose) {
        if ask::socket(pid).is_none() {
            continue;
        }
        // A program may have ended since, or be stuck: its memory is in the sample all the same.
        match ask::ask(pid, First::Nothing, Detail::Figures) {
            Ok(report) => sample.reports.extend(report.reports),
            Err(error) => output::complain(&text::errors::error(&error)),
        }
    }
}

fn mark(args: &MarkArgs) -> Result<Exit> {
    let name = shown(&args.file);
    let bytes = std::fs::read(&args.file).map_err(|cause| {
        Error::on(Exit::Usage, "cannot read", &args.file).because(cause).hint("begin one: thaw memory watch -- PROGRAM")
    })?;
    let watched = watch::parse(&bytes, &name)?;
    let (Whose::Program(root) | Whose::ChildrenOf(root)) = watched.head.whose;
    if os::process::start_ticks(root) != Some(watched.head.start_ticks) {
        return Err(Error::on(Exit::No, "the watch has ended, or what it watched:", &args.file));
    }
    let mut sample = watch::sample(watched.head.whose, monotonic_ns());
    // A mark that the program sets itself is not a part of it.
    sample.processes.retain(|process| process.pid != std::process::id());
    add_trees(&mut sample, watched.head.whose);
    sample.mark = Some(args.name.clone());
    watch::append(&mut open_to_append(&args.file)?, &sample, &name)?;
    Ok(Exit::Done)
}

fn open_to_append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).open(path);
    file.map_err(|cause| Error::on(Exit::Machine, "cannot write", path).because(cause))
}

//! `thaw memory`: what programs say of their memory, and what the kernel says over time. Watching itself is `watching`'s.

mod by_rules;
mod page;
mod watching;

use crate::args::ForceArg;
use crate::args::memory::{DiffArgs, LookArgs, MemoryArgs, MemoryVerb, ShowArgs};
use crate::{output, text};
use memory::ask::{self, Detail, First};
use memory::file::{self, MemoryFile, Packed};
use memory::tree::{self, Meaning, Options, Process};
use memory::watch::{self, Checkpoint, Compared, Head, Pair};
use model::{Error, Exit, Result, Warning, shown};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

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
        MemoryVerb::Watch(typed) => watching::watch(typed, quiet),
        MemoryVerb::Mark(typed) => watching::mark(typed),
    }
}

fn show(args: &ShowArgs, quiet: bool) -> Result<Exit> {
    let pid = args.pid();
    let content = match (pid, &args.file, &args.from_heap) {
        (None, Some(path), _) => read(path)?,
        (Some(pid), ..) => {
            let first = if args.minimize { First::Minimize } else { First::Nothing };
            Content::Report(ask::ask(pid, first, if args.blocks { Detail::Blocks } else { Detail::Figures })?)
        }
        (None, None, Some(recording)) => Content::Report(by_rules::report(recording, args, quiet)?),
        (None, None, None) => return Err(Error::bug("neither a file nor a process was given")),
    };
    match content {
        Content::Report(report) => {
            if let Some(path) = &args.output {
                output::file(path, &file::write(&report, Packed::by_name(path))?, args.look.force.existing())?;
            }
            let source = args.file.as_deref().or(args.from_heap.as_deref());
            let name = match (pid, source) {
                (None, Some(source)) => shown(source),
                _ => format!("process {}", pid.unwrap_or(0)),
            };
            match &args.look.html {
                Some(target) => write_page(target, page::of_report(&name, &report, &args.look)?, &args.look),
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
                return write_page(target, page::of_watch(&name, &watched, &args.look)?, &args.look);
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
                    write_page(target, page::of_reports(&files, &args.look)?, &args.look)
                }
                None => trees(&memory::diff::diff(&first, &second), Meaning::Difference, &args.look),
            }
        }
        (Content::Watch(first), Content::Watch(second)) => {
            if let Some(target) = &args.look.html {
                let files = [(shown(&args.first), &*first), (shown(&args.second), &*second)];
                return write_page(target, page::of_watches(&files, &args.look)?, &args.look);
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
    let look = LookArgs {
        verbose: false,
        process: None,
        filter: None,
        regex: None,
        json: false,
        html: None,
        force: ForceArg::default(),
    };
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

fn write_page(target: &Path, page: String, look: &LookArgs) -> Result<Exit> {
    output::file(target, page.as_bytes(), look.force.existing())?;
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<Content> {
    if path.is_dir() {
        return watches(path);
    }
    let cannot = |cause| Error::on(Exit::Usage, "cannot read", path).because(cause);
    let mut file = File::open(path).map_err(cannot)?;
    // It may be a pipe: what was read of it is not there again.
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(watch::BEGINNING.len() as u64).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes == watch::BEGINNING {
        let whole = BufReader::new(watch::BEGINNING.chain(file));
        return Ok(Content::Watch(Box::new(watch::parse(whole, &shown(path))?)));
    }
    file.read_to_end(&mut bytes).map_err(cannot)?;
    Ok(Content::Report(file::parse(&bytes, &shown(path))?))
}

fn is_watch(path: &Path) -> bool {
    let mut beginning = [0; watch::BEGINNING.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == watch::BEGINNING
}

fn read_watch(path: &Path) -> Result<watch::Watched> {
    watch::parse(open_watch(path)?, &shown(path))
}

/// Only the head: a watch may be long.
fn read_head(path: &Path) -> Result<Head> {
    let mut line = Vec::new();
    let read = open_watch(path)?.read_until(b'\n', &mut line);
    read.map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
    Ok(watch::parse(&line[..], &shown(path))?.head)
}

fn open_watch(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|cause| {
        Error::on(Exit::Usage, "cannot read", path).because(cause).hint("begin one: thaw memory watch -- PROGRAM")
    })?;
    Ok(BufReader::new(file))
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
        if is_watch(&path) {
            runs.push((shown(&path), read_watch(&path)?));
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
        return Err(Error::new(
            Exit::Usage,
            "checkpoints have no parts; --process, --filter and --regex are for trees",
            "",
        )
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

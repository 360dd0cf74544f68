//! Memory reports and watches of memory: read, compared, and as pages; what a heap recording says in their place.

pub mod by_rules;
pub mod course;
pub mod page;
pub mod watching;

use memory::file::{self, MemoryFile};
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
pub type NamedWatch = (String, watch::Watched);

/// What a file is.
pub enum Content {
    /// A memory report.
    Report(MemoryFile),
    /// A watch.
    Watch(Box<watch::Watched>),
    /// A directory: a run each.
    Watches(Vec<NamedWatch>),
}

impl Content {
    /// Runs with their names, of what is a watch or several.
    pub fn runs(self, path: &Path) -> Option<Vec<NamedWatch>> {
        match self {
            Self::Report(_) => None,
            Self::Watch(watched) => Some(vec![(shown(path), *watched)]),
            Self::Watches(runs) => Some(runs),
        }
    }
}

/// Which part of the trees is shown.
#[derive(Clone, Copy, Default)]
pub struct Part<'a> {
    /// Processes whose name holds this.
    pub process: Option<&'a str>,
    /// Paths that hold this.
    pub filter: Option<&'a str>,
    /// Paths that fit a pattern.
    pub fits: Option<&'a dyn Fn(&str) -> bool>,
}

impl Part<'_> {
    /// Whether it is a part at all.
    pub fn is_given(&self) -> bool {
        self.process.is_some() || self.filter.is_some() || self.fits.is_some()
    }

    /// Checkpoints are sums of all processes.
    ///
    /// # Errors
    /// A part was asked for.
    pub fn refuse(&self) -> Result<()> {
        if self.is_given() {
            return Err(Error::new(
                Exit::Usage,
                "checkpoints have no parts; --process, --filter and --regex are for trees",
                "",
            )
            .hint("compare the trees at a mark: thaw memory diff A B --at NAME"));
        }
        Ok(())
    }
}

/// Two watches side by side.
pub fn compare(first: (&Path, &watch::Watched), second: (&Path, &watch::Watched)) -> CompareDocument {
    CompareDocument {
        schema: "thaw.memory-compare/1",
        files: [shown(first.0), shown(second.0)],
        checkpoints: watch::pairs(&first.1.checkpoints(), &second.1.checkpoints()),
    }
}

/// Several watches of each of two versions.
pub fn compare_runs(first: Vec<NamedWatch>, second: Vec<NamedWatch>) -> RunsDocument {
    let checkpoints = [&first, &second].map(|runs| runs.iter().map(|(_, run)| run.checkpoints()).collect::<Vec<_>>());
    RunsDocument {
        schema: "thaw.memory-runs/1",
        files: [first, second].map(|runs| runs.into_iter().map(|(name, _)| name).collect()),
        checkpoints: watch::compare(&checkpoints[0], &checkpoints[1]),
    }
}

/// The trees of a watch at a checkpoint.
///
/// # Errors
/// There is no such checkpoint, or it has no trees.
pub fn at(watched: &watch::Watched, name: &str, path: &Path) -> Result<MemoryFile> {
    let among = watched.checkpoints();
    let Some(found) = among.iter().find(|checkpoint| checkpoint.name == name) else {
        let names: Vec<&str> = among.iter().map(|checkpoint| checkpoint.name.as_str()).collect();
        return Err(Error::on(Exit::Usage, format!("there is no checkpoint '{name}' in"), path)
            .hint(format!("it has {}", names.join(", "))));
    };
    found.reports.clone().ok_or_else(|| {
        Error::on(Exit::Data, format!("there are no trees at '{name}' in"), path)
            .hint("only marks have trees, and only if the program has thaw_memreport in it")
    })
}

/// The page of a report or a watch, and what changed since another one.
///
/// # Errors
/// Files that are no memory reports, or two that are of different kinds.
pub fn whole_page(path: &Path, before: Option<&Path>) -> Result<String> {
    let look = Part::default();
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

/// Reads a memory report, a watch, or a directory of watches.
///
/// # Errors
/// It is none of them.
pub fn read(path: &Path) -> Result<Content> {
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
fn wanted(report: &MemoryFile, meaning: Meaning, detail: tree::Detail, part: &Part<'_>) -> Vec<Process> {
    let options = Options {
        detail,
        meaning,
        process: &|name| part.process.is_none_or(|part| name.contains(part)),
        path: &|path| part.filter.is_none_or(|part| path.contains(part)) && part.fits.is_none_or(|fits| fits(path)),
    };
    memory::tree::build(report, &options)
}

/// A report or a difference as trees.
///
/// # Errors
/// Nothing in a report is like that part.
pub fn trees(report: &MemoryFile, meaning: Meaning, detail: tree::Detail, part: &Part<'_>) -> Result<TreesDocument> {
    let document = TreesDocument {
        schema: "thaw.memory/1",
        difference: meaning == Meaning::Difference,
        resident: memory::tree::resident(report),
        processes: wanted(report, meaning, detail, part),
        reporters: report.thaw.iter().map(without_blocks).collect(),
        warnings: report.warnings.clone(),
    };
    if document.processes.is_empty() && part.is_given() && meaning == Meaning::State {
        return Err(Error::new(Exit::No, "nothing in the report is like that", "")
            .hint("try without --process, --filter and --regex"));
    }
    Ok(document)
}

/// They are for `thaw heap dark`.
fn without_blocks(value: &Value) -> Value {
    let Some(object) = value.as_object() else { return value.clone() };
    let kept = object.iter().filter(|(key, _)| *key != "blocks");
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// A watch with its checkpoints.
pub fn checkpoints(file: String, watched: &watch::Watched) -> WatchDocument {
    WatchDocument {
        schema: "thaw.memory-checkpoints/1",
        file,
        head: watched.head.clone(),
        samples: watched.samples.len(),
        unseen: watched.samples.iter().map(|sample| sample.unseen).max().unwrap_or(0),
        checkpoints: watched.checkpoints(),
    }
}

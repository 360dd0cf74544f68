//! `thaw timeline`: events of programs.

use crate::args::timeline::{ReportArgs, TimelineArgs, TimelineVerb};
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use std::path::{Path, PathBuf};
use timeline::{Document, FileReport, Switch, Trace, now, read, switch};

/// Does what was asked.
///
/// # Errors
/// A path that is not there or holds no events.
pub fn run(args: &TimelineArgs) -> Result<Exit> {
    match &args.verb {
        TimelineVerb::Report(args) => report(args),
        TimelineVerb::Start(args) => all(&args.paths, Switch::On),
        TimelineVerb::Stop(args) => all(&args.paths, Switch::Off),
    }
}

fn all(paths: &[PathBuf], to: Switch) -> Result<Exit> {
    files(paths)?.iter().try_for_each(|path| switch(path, to))?;
    Ok(Exit::Done)
}

fn report(args: &ReportArgs) -> Result<Exit> {
    if let Some(target) = &args.html {
        output::file(target, page(&args.paths)?.as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    let reports = traces(&args.paths)?
        .iter()
        .map(|(path, trace)| FileReport { path: shown(path), report: timeline::report(trace, args.rows.most()) })
        .collect();
    let document = Document { schema: "thaw.timeline/2", files: reports };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::timeline::page(&document, args.rows.most(), text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

/// The page of files, or of directories with such.
///
/// # Errors
/// As [`run`]; times of several clocks.
pub fn page(paths: &[PathBuf]) -> Result<String> {
    work::timelines::page(traces(paths)?)
}

/// Whether a directory holds a file of events.
pub fn has_events(directory: &Path) -> bool {
    directory.read_dir().is_ok_and(|entries| entries.flatten().any(|entry| is_of_events(&entry.path())))
}

/// What was read of each file.
fn traces(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Trace)>> {
    let clocks = now().ok();
    let clocks = clocks.as_ref().map(|(boot, pair)| (boot.as_str(), *pair));
    let trace = |path: PathBuf| {
        let bytes =
            std::fs::read(&path).map_err(|cause| Error::on(Exit::Usage, "cannot read", &path).because(cause))?;
        let trace = read(&bytes, clocks).map_err(|error| error.hint(format!("it is {}", shown(&path))))?;
        Ok((path, trace))
    };
    files(paths)?.into_iter().map(trace).collect()
}

/// The files themselves; of a directory those that end in `.events`.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let cannot = |cause| Error::on(Exit::Usage, "cannot read", path).because(cause);
        if !path.metadata().map_err(cannot)?.is_dir() {
            found.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in path.read_dir().map_err(cannot)? {
            inside.push(entry.map_err(cannot)?.path());
        }
        inside.retain(|path: &PathBuf| is_of_events(path));
        if inside.is_empty() {
            return Err(Error::on(Exit::Usage, "no process has written events in", path)
                .hint(format!("start the program with THAW_EVENTS={}", shown(path))));
        }
        inside.sort();
        found.extend(inside);
    }
    Ok(found)
}

fn is_of_events(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "events")
}

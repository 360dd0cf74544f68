//! `thaw timeline`: events of programs.

use crate::args::timeline::{CompareArgs, EndsArgs, PathArgs, ReportArgs, TimelineArgs, TimelineVerb, WhatIfArgs};
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use std::path::{Path, PathBuf};
use timeline::{
    Change, ComparisonDocument, Document, Ends, FileReport, PathDocument, Switch, Trace, WaitsDocument, WhatIfDocument,
    now, read, switch,
};

/// Does what was asked.
///
/// # Errors
/// A path that is not there or holds no events.
pub fn run(args: &TimelineArgs) -> Result<Exit> {
    match &args.verb {
        TimelineVerb::Report(args) => report(args),
        TimelineVerb::Path(args) => path(args),
        TimelineVerb::Waits(args) => waits(args),
        TimelineVerb::WhatIf(args) => whatif(args),
        TimelineVerb::Compare(args) => compare(args),
        TimelineVerb::Start(args) => all(&args.paths, Switch::On),
        TimelineVerb::Stop(args) => all(&args.paths, Switch::Off),
    }
}

fn all(paths: &[PathBuf], to: Switch) -> Result<Exit> {
    files(paths)?.iter().try_for_each(|path| switch(path, to))?;
    Ok(Exit::Done)
}

fn report(args: &ReportArgs) -> Result<Exit> {
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

fn ends(args: &EndsArgs) -> Ends<'_> {
    Ends { from: args.from.as_deref(), to: args.to.as_deref() }
}

fn path(args: &PathArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths)?;
    let mut path = timeline::path(&trace, ends(&args.ends))?;
    let left_out = path.shorten(args.rows.most());
    let document = PathDocument { schema: "thaw.timeline-path/1", paths, path, left_out };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::timeline_path::path(&document, args.rows.most(), text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

fn waits(args: &ReportArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths)?;
    let sums = timeline::waits(&trace, args.rows.most());
    let document = WaitsDocument { schema: "thaw.timeline-waits/1", paths, sums };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::timeline_path::waits(&document, text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

fn whatif(args: &WhatIfArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths)?;
    let resource = |(name, capacity): &(String, usize)| Change::Resource { name: name.clone(), capacity: *capacity };
    let faster = |(name, factor): &(String, f64)| Change::Faster { name: name.clone(), factor: *factor };
    let without = |name: &String| Change::Without { name: name.clone() };
    let changes: Vec<Change> = (args.resource.iter().map(resource))
        .chain(args.faster.iter().map(faster))
        .chain(args.without.iter().map(without))
        .collect();
    let whatif = timeline::whatif(&trace, ends(&args.ends), &changes)?;
    let document = WhatIfDocument { schema: "thaw.timeline-whatif/1", paths, whatif };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::timeline_path::whatif(&document, text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

fn compare(args: &CompareArgs) -> Result<Exit> {
    let (before, one) = joined(std::slice::from_ref(&args.before))?;
    let (after, other) = joined(std::slice::from_ref(&args.after))?;
    let ends = ends(&args.ends);
    let comparison = timeline::compare(&timeline::path(&one, ends)?, &timeline::path(&other, ends)?);
    let document = ComparisonDocument { schema: "thaw.timeline-compare/1", before, after, comparison };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::timeline_path::compare(&document, args.rows.most(), text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

/// What was read of all files, as one trace.
fn joined(paths: &[PathBuf]) -> Result<(Vec<String>, Trace)> {
    let all = traces(paths)?;
    let clocks = || all.iter().map(|(_, trace)| &trace.clock);
    let is_one = clocks().all(|of| of.is_monotonic && !of.boot.is_empty())
        && clocks().map(|of| &of.boot).collect::<std::collections::BTreeSet<_>>().len() == 1;
    if all.len() > 1 && !is_one {
        let what = "they are not on one clock";
        return Err(
            Error::new(Exit::Usage, "cannot join these files", what).hint("name one file, or files of one boot")
        );
    }
    let names = all.iter().map(|(path, _)| shown(path)).collect();
    let mut traces = all.into_iter().map(|(_, trace)| trace);
    let mut first = traces.next().unwrap_or_default();
    traces.for_each(|other| first.join(other));
    Ok((names, first))
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

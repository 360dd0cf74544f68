//! `thaw timeline`: events of programs.

use crate::args::timeline::{
    CompareArgs, EndsArgs, ExportArgs, ImportArgs, PathArgs, ProbesArgs, RecordArgs, ReportArgs, RulesArgs,
    SnapshotArgs, TimelineArgs, TimelineFormat, TimelineVerb, WaitsArgs, WhatIfArgs,
};
use crate::{output, text};
use model::{Error, Exit, Result, shown};
use os::kind::{self, Kind};
use os::replace::{self, Existing, Rights};
use recording::Replace;
use std::env;
use std::path::{Path, PathBuf};
use timeline::usdt::Wanted;
use timeline::usdt::record::{Plan, ProbesDocument};
use timeline::{
    Change, ComparisonDocument, Document, Ends, FileReport, Format, PathDocument, Rules, Switch, Trace, WaitsDocument,
    WhatIfDocument, ctf_traces_in, files_of, now, read_file, switch,
};
use work::timelines::stored;

/// Does what was asked.
///
/// # Errors
/// A path that is not there or holds no events.
pub fn run(args: &TimelineArgs) -> Result<Exit> {
    match &args.verb {
        TimelineVerb::Report(args) => report(args),
        TimelineVerb::Record(args) => record(args),
        TimelineVerb::Probes(args) => probes(args),
        TimelineVerb::Export(args) => export(args),
        TimelineVerb::Import(args) => import(args),
        TimelineVerb::Path(args) => path(args),
        TimelineVerb::Waits(args) => waits(args),
        TimelineVerb::WhatIf(args) => whatif(args),
        TimelineVerb::Compare(args) => compare(args),
        TimelineVerb::Start(args) => all(&args.paths, Switch::On),
        TimelineVerb::Stop(args) => all(&args.paths, Switch::Off),
        TimelineVerb::Snapshot(args) => take(args),
    }
}

fn all(words: &[PathBuf], to: Switch) -> Result<Exit> {
    for word in words {
        written(word)?.iter().try_for_each(|path| switch(path, to))?;
    }
    Ok(Exit::Done)
}

fn take(args: &SnapshotArgs) -> Result<Exit> {
    let existing = args.force.existing();
    replace::check(&args.output, existing)?;
    let path = match written(&args.path)?.as_slice() {
        [path] => path.clone(),
        several => {
            let names: Vec<String> = several.iter().map(|path| shown(path)).collect();
            return Err(Error::on(Exit::Usage, "there are several files of events:", &args.path)
                .because(names.join(", "))
                .hint("name one of the files"));
        }
    };
    // As the file that it is a copy of.
    replace::write_whole(&args.output, &timeline::snapshot(&path)?, Rights::Private, existing)?;
    work::start::head::hand_over(&args.output)?;
    Ok(Exit::Done)
}

/// The files that a word means: of a process, unless a file has that name; a file; those in a directory.
fn written(word: &PathBuf) -> Result<Vec<PathBuf>> {
    match word.to_str().and_then(|text| text.parse().ok()) {
        Some(pid) if !word.exists() => files_of(pid),
        _ => files(std::slice::from_ref(word)),
    }
}

fn report(args: &ReportArgs) -> Result<Exit> {
    if let Some(target) = &args.html {
        let page = work::timelines::page(traces(&args.paths, &args.rules, true)?)?;
        output::file(target, page.as_bytes(), args.force.existing())?;
        return Ok(Exit::Done);
    }
    let traces = traces(&args.paths, &args.rules, false)?;
    let reports = traces
        .iter()
        .map(|(path, trace)| FileReport { path: shown(path), report: timeline::report(trace, args.rows.most()) })
        .collect();
    let document = Document { schema: "thaw.timeline/2", files: reports };
    output::answer(args.json, &document, || {
        text::timeline::page(&document, args.rows.most(), text::width::of_terminal())
    })?;
    Ok(Exit::Done)
}

fn record(args: &RecordArgs) -> Result<Exit> {
    let plan = Plan {
        command: args.command.clone(),
        user: args.run_as.choice().account()?,
        wanted: args.usdt.iter().map(|typed| Wanted::of(typed)).collect::<Result<_>>()?,
        files: args.file.clone(),
    };
    let directory = &args.output;
    if !directory.is_dir() {
        os::file::create_private_directory(directory)
            .map_err(|cause| Error::on(Exit::Machine, "cannot make the directory", directory).because(cause))?;
    }
    let (trace, ended) = timeline::usdt::record::record(&plan)?;
    let paths = timeline::usdt::record::write(&trace, directory, Existing::forced(args.force))?;
    output::page(&text::timeline::recorded(&trace, &paths, directory, text::width::of_terminal()))?;
    Ok(if ended.code == Some(0) || os::interrupt::requested() { Exit::Done } else { Exit::Target })
}

fn probes(args: &ProbesArgs) -> Result<Exit> {
    let document = ProbesDocument::of(&args.files)?;
    output::answer(args.json, &document, || text::timeline::probes(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn ends(args: &EndsArgs) -> Ends<'_> {
    Ends { from: args.from.as_deref(), to: args.to.as_deref() }
}

fn path(args: &PathArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths, &args.ends.rules)?;
    let mut path = timeline::path(&trace, ends(&args.ends))?;
    let left_out = path.shorten(args.rows.most());
    let document = PathDocument { schema: "thaw.timeline-path/1", paths, path, left_out };
    output::answer(args.json, &document, || {
        text::timeline_path::path(&document, args.rows.most(), text::width::of_terminal())
    })?;
    Ok(Exit::Done)
}

fn export(args: &ExportArgs) -> Result<Exit> {
    let existing = args.force.existing();
    // Found out before the file is read, not after.
    replace::check(&args.output, existing)?;
    let format = match args.format {
        TimelineFormat::Chrome => Format::Chrome,
        TimelineFormat::Perfetto => Format::Perfetto,
        TimelineFormat::Firefox => Format::Firefox,
        TimelineFormat::Speedscope => Format::Speedscope,
        TimelineFormat::Csv => Format::Csv,
        TimelineFormat::CsvEvents => Format::CsvEvents,
    };
    let (_, trace) = joined(std::slice::from_ref(&args.path), &args.rules)?;
    for damage in &trace.damage {
        output::complain(&format!("damaged: {}: {}\n", shown(&args.path), text::harmless(damage)));
    }
    replace::write_by(&args.output, Rights::Usual, existing, |out| timeline::export(&trace, format, out))?;
    Ok(Exit::Done)
}

fn import(args: &ImportArgs) -> Result<Exit> {
    let read = RulesArgs { rules: args.rules.clone(), run: None };
    if let Some(path) = files(&args.paths)?.iter().find(|path| is_recording(path)) {
        return Err(Error::on(Exit::Usage, "cannot import", path).because("it is a recording already"));
    }
    let replace = if args.force { Replace::Recording } else { Replace::Never };
    for what in stored::import(traces(&args.paths, &read, false)?, &args.output, replace, env::args_os().collect())? {
        output::complain(&format!("events: {}\n", text::harmless(&what)));
    }
    Ok(Exit::Done)
}

fn rules(args: &RulesArgs) -> Result<Option<Rules>> {
    let read = |path: &Path| {
        let cannot = |cause: std::io::Error| {
            Error::on(Exit::of_unreadable(&cause), "cannot read the rules", path).because(cause)
        };
        let text = std::fs::read_to_string(path).map_err(cannot)?;
        Rules::parse(&text)
            .map_err(|error| error.hint(format!("it is {}; docs/timeline-imports.md says how", shown(path))))
    };
    args.rules.as_deref().map(read).transpose()
}

fn waits(args: &WaitsArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths, &args.rules)?;
    let sums = timeline::waits(&trace, args.rows.most());
    let document = WaitsDocument { schema: "thaw.timeline-waits/1", paths, sums };
    output::answer(args.json, &document, || text::timeline_path::waits(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn whatif(args: &WhatIfArgs) -> Result<Exit> {
    let (paths, trace) = joined(&args.paths, &args.ends.rules)?;
    let resource = |(name, capacity): &(String, usize)| Change::Resource { name: name.clone(), capacity: *capacity };
    let faster = |(name, factor): &(String, f64)| Change::Faster { name: name.clone(), factor: *factor };
    let without = |name: &String| Change::Without { name: name.clone() };
    let changes: Vec<Change> = (args.resource.iter().map(resource))
        .chain(args.faster.iter().map(faster))
        .chain(args.without.iter().map(without))
        .collect();
    let whatif = timeline::whatif(&trace, ends(&args.ends), &changes)?;
    let document = WhatIfDocument { schema: "thaw.timeline-whatif/1", paths, whatif };
    output::answer(args.json, &document, || text::timeline_path::whatif(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn compare(args: &CompareArgs) -> Result<Exit> {
    let (before, one) = joined(std::slice::from_ref(&args.before), &args.ends.rules)?;
    let (after, other) = joined(std::slice::from_ref(&args.after), &args.ends.rules)?;
    let ends = ends(&args.ends);
    let comparison = timeline::compare(&timeline::path(&one, ends)?, &timeline::path(&other, ends)?);
    let document = ComparisonDocument { schema: "thaw.timeline-compare/1", before, after, comparison };
    output::answer(args.json, &document, || {
        text::timeline_path::compare(&document, args.rows.most(), text::width::of_terminal())
    })?;
    Ok(Exit::Done)
}

/// What was read of all files, as one trace.
fn joined(paths: &[PathBuf], rules: &RulesArgs) -> Result<(Vec<String>, Trace)> {
    let all = traces(paths, rules, false)?;
    let names = all.iter().map(|(path, _)| shown(path)).collect();
    let trace = work::timelines::joined(all)?;
    for reason in &trace.not_joined {
        output::complain(&format!("not joined: {}\n", text::harmless(reason)));
    }
    Ok((names, trace))
}

/// The page of files, or of directories with such.
///
/// # Errors
/// As [`run`]; times of several clocks.
pub fn page(paths: &[PathBuf]) -> Result<String> {
    work::timelines::page(traces(paths, &RulesArgs { rules: None, run: None }, true)?)
}

/// Whether a directory holds a file of events, or a trace of LTTng.
pub fn has_events(directory: &Path) -> bool {
    directory.is_dir() && files(&[directory.to_owned()]).is_ok()
}

/// What was read of each file. `to_see`: for a page, which also shows what the kernel did while a recording was made.
fn traces(paths: &[PathBuf], rules: &RulesArgs, to_see: bool) -> Result<Vec<(PathBuf, Trace)>> {
    let read = reader(rules, to_see)?;
    files(paths)?.into_iter().map(|path| read(&path).map(|trace| (path, trace))).collect()
}

fn is_recording(path: &Path) -> bool {
    kind::of(path) == Some(Kind::Recording)
}

/// What reads a file of any form.
fn reader(args: &RulesArgs, to_see: bool) -> Result<impl Fn(&Path) -> Result<Trace>> {
    let (rules, clocks) = (rules(args)?, now().ok());
    let run = args.run;
    Ok(move |path: &Path| {
        if is_recording(path) {
            return stored::of_recording(path, run, to_see);
        }
        let clocks = clocks.as_ref().map(|(boot, pair)| (boot.as_str(), *pair));
        read_file(path, clocks, rules.as_ref())
    })
}

/// The files themselves; of a directory those that end in `.events`, or else the metadata of LTTng's traces in it.
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
            inside = ctf_traces_in(path)?;
        }
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

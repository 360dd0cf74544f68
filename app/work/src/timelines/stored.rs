//! Events as a recording keeps them: a trace put on the clock of its start, as rows, and back.

use crate::start::events::clock_of;
use model::{
    BlockRow, Cause, Error, EventProcessRow, EventRow, EventRows, EventSourceRow, EventThreadRow, EventTypeRow, Exit,
    FileId, Form, Nanos, Result, RunId, RunRow, Served, TraceRows, Warning, WarningKind, shown,
};
use recording::{Fact, Header, Reader, Replace, Writer};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use timeline::{Builder, Clock, Event, Phase, Process, Source, Thread, Trace, Type, Wake};

/// An interrupt that wakes a thread right behind the end of a request of its process brought what that was for: so
/// much later at most, in nanoseconds.
const BEHIND_REQUEST_NS: u64 = 200_000;

/// The fact that says when imported events began, in nanoseconds since 1970.
const SUBJECT: &str = "events";
const BEGAN: &str = "began_unix_ns";

/// Puts a trace on the clock of a start, from which it counts then.
///
/// # Errors
/// Why its times cannot be held against those of the start, or that all of it is of another one.
pub fn on_start(mut trace: Trace, run: &RunRow, t0_ns: u64) -> std::result::Result<Trace, String> {
    let clock = clock_of(run, t0_ns);
    let is_same = trace.clock.is_monotonic && trace.clock.is_calibrated && trace.clock.boot == clock.boot;
    if !is_same && !trace.put_on(&clock) {
        return Err("its times cannot be held against those of the start".into());
    }
    if trace.events.last().is_some_and(|last| last.at_ns < t0_ns) {
        return Err("all of it is from before this start".into());
    }
    Ok(trace)
}

/// Writes what was read of these files to a recording of its own, which has no starts: as that, it can be asked in SQL,
/// and links from one process to another stay. It counts from its first event.
///
/// # Errors
/// One of the files is a recording already; their times cannot be held against each other, or are ticks whose rate is
/// not known; what [`Writer::create`] says.
pub fn import(
    files: Vec<(PathBuf, Trace)>,
    target: &Path,
    replace: Replace,
    command_line: Vec<OsString>,
) -> Result<Vec<String>> {
    let files = super::in_order(files);
    let of = |(path, trace): &(PathBuf, Trace)| vec![path.clone(); trace.sources.len().max(1)];
    let paths: Vec<PathBuf> = files.iter().flat_map(of).collect();
    let trace = super::joined(files)?;
    if !trace.clock.is_calibrated {
        return Err(Error::on(Exit::Usage, "cannot import", &paths[0])
            .because("its times are ticks of a counter whose rate is not known")
            .hint("import it on the machine that wrote it, before that restarts"));
    }
    let header = Header {
        thaw_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_unix_ns: os::machine::now_unix_ns(),
        command_line,
        cwd: std::env::current_dir().unwrap_or_default(),
        environment: Vec::new(),
        plan: serde_json::json!({}),
        seed: 0,
    };
    let told: Vec<String> = trace.damage.iter().chain(&trace.not_joined).cloned().collect();
    let (began, origin) = (trace.clock.realtime_ns, trace.clock.origin_ns);
    let rows = rows(trace, &paths, origin);
    let mut writer = Writer::create(target, &header, replace)?;
    let mut write = || {
        if began != 0 {
            writer.add_facts(&[Fact { subject: SUBJECT.into(), key: BEGAN.into(), value: began.to_string() }])?;
        }
        let warning = |what| Warning::new(WarningKind::Note, format!("events: {what}"));
        told.iter().try_for_each(|what| writer.add_warning(&warning(what)))?;
        writer.add_events(RunId::OF_NO_START, &rows)?;
        writer.finish()?;
        crate::start::head::hand_over(target)
    };
    if let Err(error) = write() {
        // Half of what was asked for is of no use to anybody.
        let _ = std::fs::remove_file(target);
        return Err(error);
    }
    Ok(told)
}

/// Whether a recording holds events that were imported, and no starts.
///
/// # Errors
/// What [`Reader`] says.
pub fn is_imported(path: &Path) -> Result<bool> {
    Ok(Reader::open(path)?.event_runs()?.contains(&RunId::OF_NO_START))
}

/// A trace of a start, whose clock's origin is what [`clock_of`] says, as rows. `paths`: its files, in their order.
pub fn rows(trace: Trace, paths: &[PathBuf], t0_ns: u64) -> EventRows {
    let whole = [trace.whole()];
    let sources = if trace.sources.is_empty() { &whole[..] } else { &trace.sources };
    let sources = sources
        .iter()
        .zip(paths)
        .map(|(source, path)| EventSourceRow {
            path: path.clone(),
            form: source.form,
            process: source.process,
            step_ns: source.step_ns,
            is_ordered: source.is_ordered,
            command_line: source.command_line.clone(),
        })
        .collect();
    let process = |of: Process| EventProcessRow { pid: of.pid, program: of.program, filter: of.filter };
    let writers = trace.writers;
    let thread = |(place, of): (u32, Thread)| EventThreadRow {
        process: of.process,
        tid: of.tid,
        name: of.name,
        writer: writers.get(&place).copied(),
    };
    let concluded = trace.concluded;
    let of_type = |(type_id, of): (u32, Type)| EventTypeRow {
        type_id,
        name: of.name,
        file: of.file,
        line: of.line,
        concluded: concluded.get(&type_id).copied(),
    };
    let event = |of: Event| EventRow {
        at_ns: Nanos(of.at_ns.saturating_sub(t0_ns)),
        thread: of.thread,
        phase: of.phase,
        is_shared: of.is_shared,
        object: of.object,
        type_id: of.type_id,
        other: of.other,
        text: of.text,
    };
    EventRows {
        sources,
        processes: trace.processes.into_iter().map(process).collect(),
        threads: (0..).zip(trace.threads).map(thread).collect(),
        types: trace.types.into_iter().map(of_type).collect(),
        events: trace.events.into_iter().map(event).collect(),
        lost: trace.lost,
    }
}

/// The events of a recording's run as a trace that counts from just before exec, with what the kernel knows of its
/// waits. `run`: which one; `None`: the first that has events. `to_see`: with what the kernel did meanwhile, for a
/// page.
///
/// # Errors
/// It has none; it is damaged.
pub fn of_recording(path: &Path, run: Option<i64>, to_see: bool) -> Result<Trace> {
    let (reader, run) = opened(path, run)?;
    let rows = reader.events(run)?.ok_or_else(|| Error::bug("events of a run that has none"))?;
    let mut trace = trace(rows, began(&reader, run)?);
    let kernel = kernel(&reader, run)?;
    trace.wakes = wakes(&trace, &kernel);
    if to_see {
        add_kernel(&kernel, &mut trace);
    }
    Ok(trace)
}

/// Adds what the kernel did meanwhile, each as a type of its own: requests of disks, and pages that came into memory.
/// On a path they would own what they only happened in.
fn add_kernel(rows: &TraceRows, trace: &mut Trace) {
    let clock = Clock { is_monotonic: true, is_calibrated: true, step_ns: 1, is_ordered: true, ..Clock::default() };
    let mut builder = Builder::new(Form::Events, clock);
    let process = builder.process(0, "the kernel");
    let disk = builder.thread(process, 0, "requests of disks");
    let cache = builder.thread(process, 1, "page cache");
    let name = |file: FileId| shown(&rows.files[file.0 as usize].path);
    let end = trace.events.last().map_or(0, |event| event.at_ns);
    for (number, block) in (1..).zip(&rows.blocks) {
        let kind = if block.write { "kernel::disk::write" } else { "kernel::disk::read" };
        let type_id = Some(builder.type_of(kind, "", 0));
        let served = match block.served {
            Served::File(file, _) => name(file),
            Served::Metadata => "(metadata of a file system)".to_owned(),
            Served::Unknown => "(of no known file)".to_owned(),
        };
        builder.name(block.start_ns.0, disk, number, &served);
        builder.arg(block.start_ns.0, disk, number, "bytes", &block.len.0.to_string());
        builder.says(Phase::Exec, block.start_ns.0, disk, number, type_id);
        let done = block.done_ns.map_or(end, |done| done.0);
        builder.says(Phase::Done, done.max(block.start_ns.0), disk, number, type_id);
    }
    let first = rows.blocks.len() as u64 + 1;
    let mut is_named = HashSet::new();
    for fill in rows.fills.iter().filter(|fill| fill.cause != Cause::Write) {
        let type_id = Some(builder.type_of("kernel::page_cache::fill", "", 0));
        let object = first + u64::from(fill.file.0);
        if is_named.insert(fill.file) {
            builder.name(fill.at_ns.0, cache, object, &name(fill.file));
        }
        builder.says(Phase::Mark, fill.at_ns.0, cache, object, type_id);
    }
    trace.join(builder.build());
}

/// The wall clock's time from which a run's events count; 0: not known.
fn began(reader: &Reader, run: RunId) -> Result<u64> {
    if run == RunId::OF_NO_START {
        let facts = reader.facts()?;
        let fact = facts.iter().find(|fact| fact.subject == SUBJECT && fact.key == BEGAN);
        return Ok(fact.and_then(|fact| fact.value.parse().ok()).unwrap_or_default());
    }
    Ok(reader.runs()?.iter().find(|(row, _)| row.id == run).map_or(0, |(row, _)| row.started_unix_ns))
}

fn opened(path: &Path, run: Option<i64>) -> Result<(Reader, RunId)> {
    let reader = Reader::open(path)?;
    let all = reader.event_runs()?;
    let none = |what: &str| Error::on(Exit::Usage, format!("{what} no events in"), path);
    let Some(first) = all.first() else {
        return Err(none("there are").hint("record them: thaw record --events -- PROGRAM"));
    };
    let run = run.map_or(*first, RunId);
    if !all.contains(&run) {
        let numbers: Vec<String> = all.iter().map(|run| run.0.to_string()).collect();
        return Err(none(&format!("run {} has", run.0)).hint(format!("runs with events: {}", numbers.join(", "))));
    }
    Ok((reader, run))
}

/// What was traced of a run; nothing where nobody looked.
fn kernel(reader: &Reader, run: RunId) -> Result<TraceRows> {
    if reader.trace_runs()?.contains(&run) { reader.trace(run) } else { Ok(TraceRows::default()) }
}

fn trace(rows: EventRows, realtime_ns: u64) -> Trace {
    let source = |row: &EventSourceRow| Source {
        process: row.process,
        form: row.form,
        step_ns: row.step_ns,
        is_ordered: row.is_ordered,
        command_line: row.command_line.clone(),
    };
    let first = rows.sources.first();
    // Each counts from its own start: two recordings have no clock in common but the wall's.
    let clock = Clock {
        is_monotonic: false,
        is_calibrated: true,
        realtime_ns,
        step_ns: first.map_or(1, |row| row.step_ns),
        is_ordered: first.is_some_and(|row| row.is_ordered),
        ..Clock::default()
    };
    let writers = (0..).zip(&rows.threads).filter_map(|(place, row)| Some((place, row.writer?))).collect();
    let concluded = rows.types.iter().filter_map(|row| Some((row.type_id, row.concluded?))).collect();
    let event = |row: EventRow| Event {
        at_ns: row.at_ns.0,
        thread: row.thread,
        phase: row.phase,
        is_shared: row.is_shared,
        object: row.object,
        type_id: row.type_id,
        other: row.other,
        text: row.text,
    };
    Trace {
        form: first.map_or(Form::Events, |row| row.form),
        clock,
        sources: rows.sources.iter().map(source).collect(),
        processes: (rows.processes.into_iter())
            .map(|row| Process { pid: row.pid, program: row.program, filter: row.filter })
            .collect(),
        threads: (rows.threads.into_iter())
            .map(|row| Thread { tid: row.tid, name: row.name, process: row.process })
            .collect(),
        types: (rows.types.into_iter())
            .map(|row| (row.type_id, Type { name: row.name, file: row.file, line: row.line }))
            .collect(),
        concluded,
        events: rows.events.into_iter().map(event).collect(),
        writers,
        lost: rows.lost,
        ..Trace::default()
    }
}

/// Who woke the threads that events tell of.
fn wakes(trace: &Trace, kernel: &TraceRows) -> Vec<Wake> {
    // What these tell of a thread is who wrote it down.
    let is_track = |of: &Thread| matches!(trace.told_in(of.process).0, Form::NetLog | Form::Har);
    let threads: HashMap<u32, u32> =
        (0..).zip(&trace.threads).filter(|(_, of)| !is_track(of)).map(|(place, of)| (of.tid, place)).collect();
    let name = |tid: u32| {
        let told = threads.get(&tid).map(|place| trace.threads[*place as usize].name.as_str()).unwrap_or_default();
        let comm = || kernel.processes.iter().find(|row| row.pid == tid).map(|row| row.comm.as_str());
        match Some(told).filter(|name| !name.is_empty()).or_else(comm) {
            Some(name) => format!("woken by {name} ({tid})"),
            None => format!("woken by thread {tid}"),
        }
    };
    let mut ended: HashMap<u32, Vec<&BlockRow>> = HashMap::new();
    for block in kernel.blocks.iter().filter(|block| block.done_ns.is_some()) {
        ended.entry(block.pid.unwrap_or_default()).or_default().push(block);
    }
    ended.values_mut().for_each(|blocks| blocks.sort_by_key(|block| block.done_ns));
    let request = |pid: u32, at: Nanos| {
        let all = ended.get(&pid)?;
        let block = all[..all.partition_point(|block| block.done_ns <= Some(at))].last()?;
        (at.0 - block.done_ns?.0 <= BEHIND_REQUEST_NS).then(|| match block.served {
            Served::File(file, _) => format!("disk: {}", shown(&kernel.files[file.0 as usize].path)),
            Served::Metadata => "disk: metadata of the file system".to_owned(),
            Served::Unknown => "disk: a request of no known file".to_owned(),
        })
    };
    let woken = kernel.wakes.iter().filter_map(|row| {
        let thread = *threads.get(&row.tid)?;
        let what = match row.by_tid {
            Some(tid) => name(tid),
            None => request(row.pid, row.at_ns).unwrap_or_default(),
        };
        let by = row.by_tid.and_then(|tid| threads.get(&tid).copied());
        Some(Wake { at_ns: row.at_ns.0, thread, by, what: what.into() })
    });
    woken.collect()
}

//! The events of a trace as columns. Pure. What a column holds, and what it is predicted from, is in
//! `docs/view-format.md`; `viewer/src/logic/events.ts` predicts the same and adds what was missed.

use crate::columns::Column;
use crate::requests::{Request, requests};
use crate::{EVENTS_SCHEMA, TraceOf};
use model::{Cause, FileId, Nanos, ProcessRow, RunId, Served, TraceRows};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Times are kept in microseconds: a request takes tens of them at least.
const TIME_NS: u64 = 1000;

/// All events of a page.
#[derive(Debug, Serialize)]
pub struct Events {
    schema: &'static str,
    traces: Vec<Trace>,
}

/// The events of one traced run. File numbers are lines of the document's `report.files`, process numbers those of
/// `report.processes` plus one; 0 is somebody else.
#[derive(Debug, Serialize)]
struct Trace {
    run: RunId,
    /// Device numbers as people write them (`254:1`), by the numbers in `requests`.
    devices: Vec<String>,
    /// The kernel's flags of requests (`RA`), by the numbers in `requests`.
    flags: Vec<String>,
    /// Of ELF sections, by the numbers in `sections`.
    section_names: Vec<String>,
    extents: Table,
    sections: Table,
    requests: Table,
    fills: Table,
    asks: Table,
}

/// Columns by name, each with `count` numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub count: usize,
    pub columns: BTreeMap<&'static str, Column>,
}

/// Packs the events of all traces. `document` is the `thaw.report/1` that the page shows.
pub fn pack(document: &Value, traces: &[TraceOf<'_>]) -> Events {
    let _span = tracing::info_span!("pack events").entered();
    Events { schema: EVENTS_SCHEMA, traces: traces.iter().map(|trace| of_trace(document, trace)).collect() }
}

fn of_trace(document: &Value, trace: &TraceOf<'_>) -> Trace {
    let rows = trace.rows;
    let processes = Processes::of(&rows.processes);
    let lines = lines(document, trace.run);
    let requests = requests(rows, &lines);
    let mut devices = Names::default();
    let mut flags = Names::default();
    let mut section_names = Names::default();
    let sections = sections(rows, &mut section_names);
    let table = request_table(rows, &requests, &processes, &mut devices, &mut flags);
    Trace {
        run: trace.run,
        extents: extents(rows),
        sections,
        requests: table,
        fills: fills(rows, &processes),
        asks: asks(rows, &processes),
        devices: devices.list,
        flags: flags.list,
        section_names: section_names.list,
    }
}

/// The paths of the document's lines for a run; none if the document has no such trace.
fn lines(document: &Value, run: RunId) -> Vec<&str> {
    let traces = document["traces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(trace) = traces.iter().find(|trace| trace["run"].as_i64() == Some(run.0)) else { return Vec::new() };
    let files = trace["report"]["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().map(|file| file["path"].as_str().unwrap_or_default()).collect()
}

/// Different texts; each has the number of its place in `list`.
#[derive(Default)]
pub(crate) struct Names {
    pub list: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Names {
    pub fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.list.len() as u64;
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

fn device_name(dev: u64) -> String {
    format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev))
}

/// Numbers of processes; a process number that the kernel gave twice is told apart by time.
struct Processes {
    by_pid: HashMap<u32, Vec<(Nanos, u64)>>,
    unknown: u64,
}

impl Processes {
    fn of(rows: &[ProcessRow]) -> Self {
        let mut by_pid: HashMap<u32, Vec<(Nanos, u64)>> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            by_pid.entry(row.pid).or_default().push((row.start_ns, index as u64 + 1));
        }
        by_pid.values_mut().for_each(|list| list.sort_unstable());
        Self { by_pid, unknown: rows.len() as u64 + 1 }
    }

    /// The process that had this number then; one behind the last if no row is about it.
    fn number(&self, pid: u32, at: Nanos) -> u64 {
        let Some(list) = self.by_pid.get(&pid) else { return self.unknown };
        let begun = list.partition_point(|(start, _)| *start <= at);
        list[begun.saturating_sub(1)].1
    }
}

fn cause_number(cause: Cause) -> u64 {
    match cause {
        Cause::Read => 0,
        Cause::Fault => 1,
        Cause::ReadAhead => 2,
        Cause::Metadata => 3,
        Cause::Write => 4,
        Cause::Unknown => 5,
    }
}

pub(crate) fn micros(time: Nanos) -> u64 {
    time.0 / TIME_NS
}

/// What was missed by predicting `actual` to be `predicted`.
pub(crate) fn missed(actual: u64, predicted: u64) -> i64 {
    actual.wrapping_sub(predicted) as i64
}

fn extents(rows: &TraceRows) -> Table {
    let column = |each: &dyn Fn(&model::ExtentRow) -> u64| rows.extents.iter().map(each).collect::<Vec<u64>>();
    let mut behind: HashMap<u32, u64> = HashMap::new();
    let mut offsets = Vec::with_capacity(rows.extents.len());
    for extent in &rows.extents {
        let end = behind.insert(extent.file.0, extent.offset.0.saturating_add(extent.len.0)).unwrap_or(0);
        offsets.push(missed(extent.offset.0, end));
    }
    Table {
        count: rows.extents.len(),
        columns: BTreeMap::from([
            ("file", Column::delta(&column(&|extent| extent.file.0.into()))),
            ("offset", Column::signed(&offsets)),
            ("disk", Column::delta(&column(&|extent| extent.disk.0))),
            ("len", Column::plain(&column(&|extent| extent.len.0))),
        ]),
    }
}

fn sections(rows: &TraceRows, names: &mut Names) -> Table {
    let column = |each: &dyn Fn(&model::SectionRow) -> u64| rows.sections.iter().map(each).collect::<Vec<u64>>();
    let name: Vec<u64> = rows.sections.iter().map(|section| names.number(&section.name)).collect();
    Table {
        count: rows.sections.len(),
        columns: BTreeMap::from([
            ("file", Column::delta(&column(&|section| section.file.0.into()))),
            ("name", Column::plain(&name)),
            ("offset", Column::delta(&column(&|section| section.offset.0))),
            ("len", Column::plain(&column(&|section| section.len.0))),
        ]),
    }
}

/// Predicts the offset in a file from the place on disk.
struct Extents {
    /// By file and device: place on disk, offset in the file, length; sorted by place.
    by_file: HashMap<u32, Vec<(u64, u64, u64)>>,
}

impl Extents {
    fn of(rows: &TraceRows) -> Self {
        let mut by_file: HashMap<u32, Vec<(u64, u64, u64)>> = HashMap::new();
        for extent in &rows.extents {
            by_file.entry(extent.file.0).or_default().push((extent.disk.0, extent.offset.0, extent.len.0));
        }
        by_file.values_mut().for_each(|list| list.sort_unstable());
        Self { by_file }
    }

    /// The offset that lies at this place, if an extent of the file covers it.
    fn offset(&self, file: u32, disk: u64) -> Option<u64> {
        let list = self.by_file.get(&file)?;
        let (start, offset, len) = *list.get(list.partition_point(|(start, ..)| *start <= disk).checked_sub(1)?)?;
        (disk - start < len).then(|| offset + (disk - start))
    }
}

fn request_table(
    rows: &TraceRows,
    requests: &[Request<'_>],
    processes: &Processes,
    devices: &mut Names,
    flags: &mut Names,
) -> Table {
    let extents = Extents::of(rows);
    // Where the last request of a line ended on disk, and the last of all.
    let mut heads: HashMap<Option<usize>, u64> = HashMap::new();
    let mut head = 0;
    let mut ends: HashMap<u32, u64> = HashMap::new();
    let (mut disk, mut offset) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    let (mut device, mut flag) = (Vec::with_capacity(requests.len()), Vec::with_capacity(requests.len()));
    for request in requests {
        let block = request.block;
        disk.push(missed(block.disk.0, heads.get(&request.line).copied().unwrap_or(head)));
        head = block.disk.0.saturating_add(block.len.0);
        heads.insert(request.line, head);
        offset.push(match block.served {
            Served::File(FileId(file), at) => {
                let end = ends.insert(file, at.0.saturating_add(block.len.0)).unwrap_or(0);
                missed(at.0, extents.offset(file, block.disk.0).unwrap_or(end))
            }
            _ => 0,
        });
        device.push(devices.number(&device_name(block.dev)));
        flag.push(flags.number(&block.flags));
    }
    let column = |each: &dyn Fn(&Request<'_>) -> u64| requests.iter().map(each).collect::<Vec<u64>>();
    let took =
        |it: &Request<'_>| it.block.done_ns.map_or(0, |done| micros(done) - micros(it.block.start_ns.min(done)) + 1);
    let process = |it: &Request<'_>| it.block.pid.map_or(0, |pid| processes.number(pid, it.block.start_ns));
    Table {
        count: requests.len(),
        columns: BTreeMap::from([
            ("start", Column::delta(&column(&|it| micros(it.block.start_ns)))),
            ("queued", Column::plain(&column(&|it| micros(it.block.start_ns) - micros(it.from)))),
            ("took", Column::plain(&column(&took))),
            ("process", Column::plain(&column(&process))),
            ("file", Column::plain(&column(&|it| it.line.map_or(0, |line| line as u64 + 1)))),
            // 0: a file's, 1: metadata, 2: unknown; plus 3 for a write.
            ("kind", Column::plain(&column(&kind))),
            ("cause", Column::plain(&column(&|it| cause_number(it.cause)))),
            ("device", Column::plain(&device)),
            ("flags", Column::plain(&flag)),
            ("len", Column::plain(&column(&|it| it.block.len.0))),
            ("disk", Column::signed(&disk)),
            ("offset", Column::signed(&offset)),
        ]),
    }
}

fn kind(request: &Request<'_>) -> u64 {
    let served = match request.block.served {
        Served::File(..) => 0,
        Served::Metadata => 1,
        Served::Unknown => 2,
    };
    if request.block.write { served + 3 } else { served }
}

/// A range of a file at a time: what fills and asks have in common.
struct Touch {
    at: Nanos,
    pid: u32,
    file: u32,
    offset: u64,
    len: u64,
    /// Cause of a fill, kind of an ask.
    how: u64,
}

/// Offsets are predicted to go on where the last range of the same file ended.
fn touches(list: &[Touch], processes: &Processes, how: &'static str) -> Table {
    let mut ends: HashMap<u32, u64> = HashMap::new();
    let offset: Vec<i64> = list
        .iter()
        .map(|it| missed(it.offset, ends.insert(it.file, it.offset.saturating_add(it.len)).unwrap_or(0)))
        .collect();
    let column = |each: &dyn Fn(&Touch) -> u64| list.iter().map(each).collect::<Vec<u64>>();
    Table {
        count: list.len(),
        columns: BTreeMap::from([
            ("at", Column::delta(&column(&|it| micros(it.at)))),
            ("process", Column::plain(&column(&|it| processes.number(it.pid, it.at)))),
            ("file", Column::plain(&column(&|it| it.file.into()))),
            ("offset", Column::signed(&offset)),
            ("len", Column::plain(&column(&|it| it.len))),
            (how, Column::plain(&column(&|it| it.how))),
        ]),
    }
}

fn fills(rows: &TraceRows, processes: &Processes) -> Table {
    let touch = |fill: &model::FillRow| Touch {
        at: fill.at_ns,
        pid: fill.pid,
        file: fill.file.0,
        offset: fill.offset.0,
        len: fill.len.0,
        how: cause_number(fill.cause),
    };
    touches(&rows.fills.iter().map(touch).collect::<Vec<_>>(), processes, "cause")
}

/// Reads (0), faults that missed (1) and faults that found their pages in the cache (2), by time.
fn asks(rows: &TraceRows, processes: &Processes) -> Table {
    let reads = rows.reads.iter().map(|read| Touch {
        at: read.at_ns,
        pid: read.pid,
        file: read.file.0,
        offset: read.offset.0,
        len: read.len.0,
        how: 0,
    });
    let faults = rows.faults.iter().map(|fault| Touch {
        at: fault.at_ns,
        pid: fault.pid,
        file: fault.file.0,
        offset: fault.offset.0,
        len: fault.len.0,
        how: if fault.missed { 1 } else { 2 },
    });
    let mut list: Vec<Touch> = reads.chain(faults).collect();
    list.sort_by_key(|it| it.at);
    touches(&list, processes, "how")
}

//! The events of a trace as columns. Pure. What a column holds, and what it is predicted from, is in
//! `docs/view-format.md`; `viewer/src/logic/events.ts` predicts the same and adds what was missed.

use crate::columns::{Column, Rising, columns};
use crate::requests::{Line, Pages, Request};
use crate::{EVENTS_SCHEMA, TraceOf};
use model::{BlockRow, Cause, FaultRow, FileId, FillRow, Flow, Nanos, ProcessRow, ReadRow, RunId, Served, TraceRows};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Times are kept in microseconds: a request takes tens of them at least.
const TIME_NS: u64 = 1000;

/// All events of a page.
#[derive(Debug, Serialize)]
pub struct Events<'a> {
    schema: &'static str,
    traces: Vec<&'a PackedTrace>,
}

impl<'a> Events<'a> {
    pub fn of(traces: Vec<&'a PackedTrace>) -> Self {
        Self { schema: EVENTS_SCHEMA, traces }
    }
}

/// The events of one traced run. File numbers are lines of the document's `report.files`, process numbers those of
/// `report.processes` plus one; 0 is somebody else.
#[derive(Debug, Serialize)]
pub struct PackedTrace {
    pub(crate) run: RunId,
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

/// The events of a trace in the making: they are packed as they come ([`Flow`]).
pub struct Packing<'a> {
    rows: &'a TraceRows,
    processes: Processes,
    pages: Pages,
    requests: RisingRequests,
    fills: RisingTouches,
    asks: RisingTouches,
    /// Reads and faults until the last one came: they are packed by time.
    asked: Vec<Touch>,
}

impl<'a> Packing<'a> {
    /// Nothing has come yet. `rows` is what is known besides; of its fills, reads, faults and requests nothing is used.
    pub fn of(rows: &'a TraceRows) -> Self {
        Self {
            rows,
            processes: Processes::of(&rows.processes),
            pages: Pages::of(rows),
            requests: RisingRequests::of(rows),
            fills: RisingTouches::default(),
            asks: RisingTouches::default(),
            asked: Vec::new(),
        }
    }

    /// All have come. `lines` are the paths of the document's lines for this run: those behind the files of the trace
    /// hold what belongs to no file.
    pub fn finish(mut self, run: RunId, lines: &[&str]) -> PackedTrace {
        let _span = tracing::info_span!("pack events").entered();
        self.pack_asked();
        drop(self.pages);
        let mut section_names = Names::default();
        let sections = sections(self.rows, &mut section_names);
        let files = self.rows.files.len();
        let (devices, flags) =
            (std::mem::take(&mut self.requests.devices.list), std::mem::take(&mut self.requests.flag_names.list));
        PackedTrace {
            run,
            extents: extents(self.rows),
            sections,
            requests: self.requests.table(files, lines),
            fills: self.fills.table("cause"),
            asks: self.asks.table("how"),
            devices,
            flags,
            section_names: section_names.list,
        }
    }

    /// Reads (0), faults that missed (1) and faults that found their pages in the cache (2), by time.
    fn pack_asked(&mut self) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.sort_by_key(|it| it.at);
        asked.iter().for_each(|it| self.asks.push(it, &self.processes));
    }
}

impl Flow for Packing<'_> {
    fn read(&mut self, read: &ReadRow) {
        let (file, offset, len) = (read.file.0, read.offset.0, read.len.0);
        self.asked.push(Touch { at: read.at_ns, pid: read.pid, file, offset, len, how: 0 });
    }

    fn fault(&mut self, fault: &FaultRow) {
        let (file, offset, len) = (fault.file.0, fault.offset.0, fault.len.0);
        let how = if fault.missed { 1 } else { 2 };
        self.asked.push(Touch { at: fault.at_ns, pid: fault.pid, file, offset, len, how });
    }

    fn fill(&mut self, fill: &FillRow) {
        if !self.asked.is_empty() {
            self.pack_asked();
        }
        self.pages.fill(fill);
        let (file, offset, len) = (fill.file.0, fill.offset.0, fill.len.0);
        let how = cause_number(fill.cause);
        self.fills.push(&Touch { at: fill.at_ns, pid: fill.pid, file, offset, len, how }, &self.processes);
    }

    fn block(&mut self, block: &BlockRow) {
        let request = self.pages.request(block);
        self.requests.push(block, &request, &self.processes);
    }
}

/// The events of a trace whose rows are all there. `document` is the `thaw.report/1` that the page shows.
pub fn pack(document: &Value, trace: &TraceOf<'_>) -> PackedTrace {
    let mut packing = Packing::of(trace.rows);
    trace.rows.flow(&mut packing);
    packing.finish(trace.run, &lines(document, trace.run))
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

fn cause_number(cause: Cause) -> u8 {
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

/// Columns of requests in the making.
struct RisingRequests {
    extents: Extents,
    count: usize,
    devices: Names,
    flag_names: Names,
    /// The last request's device with its number: most requests are for the device of the one before.
    device: Option<(u64, u64)>,
    /// Different lines that are no files, by number.
    without: Vec<Line>,
    /// By file: where its last request ended in it.
    ends: HashMap<u32, u64>,
    start: Rising,
    queued: Rising,
    took: Rising,
    process: Rising,
    /// The file plus 1, or behind all files the number in `without`: its line is known in the end.
    line: Rising,
    kind: Rising,
    cause: Rising,
    devices_of: Rising,
    flags: Rising,
    len: Rising,
    /// The places themselves: what they are predicted from are lines.
    disk: Rising,
    offset: Rising,
    files: usize,
}

impl RisingRequests {
    fn of(rows: &TraceRows) -> Self {
        Self {
            extents: Extents::of(rows),
            count: 0,
            devices: Names::default(),
            flag_names: Names::default(),
            device: None,
            without: Vec::new(),
            ends: HashMap::new(),
            start: Rising::delta(),
            queued: Rising::plain(),
            took: Rising::plain(),
            process: Rising::plain(),
            line: Rising::plain(),
            kind: Rising::plain(),
            cause: Rising::plain(),
            devices_of: Rising::plain(),
            flags: Rising::plain(),
            len: Rising::plain(),
            disk: Rising::delta(),
            offset: Rising::signed(),
            files: rows.files.len(),
        }
    }

    fn push(&mut self, block: &BlockRow, request: &Request, processes: &Processes) {
        self.count += 1;
        self.start.push(micros(block.start_ns));
        self.queued.push(micros(block.start_ns) - micros(request.from));
        self.took.push(block.done_ns.map_or(0, |done| micros(done) - micros(block.start_ns.min(done)) + 1));
        self.process.push(block.pid.map_or(0, |pid| processes.number(pid, block.start_ns)));
        let line = match request.line {
            Line::File(file) => u64::from(file) + 1,
            line @ Line::Without { .. } => self.number_without(line) as u64 + self.files as u64 + 1,
        };
        self.line.push(line);
        // 0: a file's, 1: metadata, 2: unknown; plus 3 for a write.
        self.kind.push(kind(block));
        self.cause.push(cause_number(request.cause).into());
        let device = match self.device {
            Some((dev, number)) if dev == block.dev => number,
            _ => self.devices.number(&device_name(block.dev)),
        };
        self.device = Some((block.dev, device));
        self.devices_of.push(device);
        self.flags.push(self.flag_names.number(&block.flags));
        self.len.push(block.len.0);
        self.disk.push(block.disk.0);
        self.offset.push_signed(match block.served {
            Served::File(FileId(file), at) => {
                let end = self.ends.insert(file, at.0.saturating_add(block.len.0)).unwrap_or(0);
                missed(at.0, self.extents.offset(file, block.disk.0).unwrap_or(end))
            }
            _ => 0,
        });
    }

    fn number_without(&mut self, line: Line) -> usize {
        let known = self.without.iter().position(|other| *other == line);
        known.unwrap_or_else(|| {
            self.without.push(line);
            self.without.len() - 1
        })
    }

    fn table(self, files: usize, lines: &[&str]) -> Table {
        let behind: Vec<Option<usize>> = self.without.iter().map(|line| line.place(files, lines)).collect();
        let (mut file, mut disk) = (Rising::plain(), Rising::signed());
        // Where the last request of a line ended on disk, and the last of all.
        let mut heads: HashMap<Option<usize>, u64> = HashMap::new();
        let mut head = 0;
        for ((line, place), len) in self.line.numbers().zip(self.disk.numbers()).zip(self.len.numbers()) {
            let line = line as usize - 1;
            let line = if line < files { Some(line) } else { behind[line - files] };
            file.push(line.map_or(0, |line| line as u64 + 1));
            disk.push_signed(missed(place, heads.get(&line).copied().unwrap_or(head)));
            head = place.saturating_add(len);
            heads.insert(line, head);
        }
        let columns = columns(vec![
            ("start", self.start),
            ("queued", self.queued),
            ("took", self.took),
            ("process", self.process),
            ("file", file),
            ("kind", self.kind),
            ("cause", self.cause),
            ("device", self.devices_of),
            ("flags", self.flags),
            ("len", self.len),
            ("disk", disk),
            ("offset", self.offset),
        ]);
        Table { count: self.count, columns }
    }
}

fn kind(block: &BlockRow) -> u64 {
    let served = match block.served {
        Served::File(..) => 0,
        Served::Metadata => 1,
        Served::Unknown => 2,
    };
    if block.write { served + 3 } else { served }
}

/// A range of a file at a time: what fills and asks have in common.
struct Touch {
    at: Nanos,
    offset: u64,
    len: u64,
    pid: u32,
    file: u32,
    /// Cause of a fill, kind of an ask.
    how: u8,
}

/// Columns of ranges in the making. Offsets are predicted to go on where the last range of the same file ended.
struct RisingTouches {
    count: usize,
    ends: HashMap<u32, u64>,
    at: Rising,
    process: Rising,
    file: Rising,
    offset: Rising,
    len: Rising,
    how: Rising,
}

impl Default for RisingTouches {
    fn default() -> Self {
        Self {
            count: 0,
            ends: HashMap::new(),
            at: Rising::delta(),
            process: Rising::plain(),
            file: Rising::plain(),
            offset: Rising::signed(),
            len: Rising::plain(),
            how: Rising::plain(),
        }
    }
}

impl RisingTouches {
    fn push(&mut self, it: &Touch, processes: &Processes) {
        self.count += 1;
        self.at.push(micros(it.at));
        self.process.push(processes.number(it.pid, it.at));
        self.file.push(it.file.into());
        let end = self.ends.insert(it.file, it.offset.saturating_add(it.len)).unwrap_or(0);
        self.offset.push_signed(missed(it.offset, end));
        self.len.push(it.len);
        self.how.push(it.how.into());
    }

    fn table(self, how: &'static str) -> Table {
        let columns = columns(vec![
            ("at", self.at),
            ("process", self.process),
            ("file", self.file),
            ("offset", self.offset),
            ("len", self.len),
            (how, self.how),
        ]);
        Table { count: self.count, columns }
    }
}

//! From the rows of touch runs to the report. Pure.

use crate::report::*;
use model::{
    Bytes, Cause, FileId, FileKind, FileOffset, FileRow, PAGE, SectionRow, TouchEngine, TouchRow, TraceRows, WatchedRow,
};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Longer than any file, and far from overflowing a sum of two. Recordings may be damaged.
const LONGEST: u64 = 1 << 60;
/// No function is longer: 64 MiB.
const LONGEST_FUNCTION: u64 = 1 << 26;

/// What a recording has of one program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'a> {
    /// A traced cold start with the usual read-ahead.
    pub read: Option<&'a TraceRows>,
    /// Runs that saw what is touched; the last one of each engine counts.
    pub touched: &'a [TraceRows],
}

impl<'a> Input<'a> {
    fn of(&self, engine: TouchEngine) -> Option<&'a TraceRows> {
        self.touched.iter().rev().find(|rows| engine_of(rows) == Some(engine))
    }
}

/// The engine of a run; `None`: it saw nothing.
pub fn engine_of(rows: &TraceRows) -> Option<TouchEngine> {
    let watched = || (!rows.watched.is_empty()).then_some(TouchEngine::Function);
    rows.touches.first().map(|touch| touch.engine).or_else(watched)
}

/// Says what the rows mean. Files of different runs are the same if they have the same path.
pub fn report(input: &Input<'_>) -> Report {
    let mut files: BTreeMap<PathBuf, File<'_>> = BTreeMap::new();
    if let Some(rows) = input.read {
        let fills = rows.fills.iter().filter(|fill| fill.cause != Cause::Write);
        gather(&mut files, rows, fills.map(|fill| (fill.file, fill.offset, fill.len)), |file| &mut file.read);
    }
    let (page, probe) = (input.of(TouchEngine::Page), input.of(TouchEngine::Probe));
    let (function, byte) = (input.of(TouchEngine::Function), input.of(TouchEngine::Byte));
    if let Some(rows) = page {
        gather(&mut files, rows, places(rows), |file| &mut file.needed);
    }
    if let Some(rows) = probe {
        gather(&mut files, rows, places(rows), |file| &mut file.resident);
    }
    if let Some(rows) = byte {
        gather(&mut files, rows, places(rows), |file| &mut file.touched);
    }
    if let Some(rows) = function {
        functions(&mut files, rows);
    }
    let mut lines: Vec<FileReport> = files.iter().map(|(path, file)| file.line(path)).collect();
    let weight = |line: &FileReport| {
        let called = line.functions.map(|functions| functions.called_bytes);
        let touched = line.touched.map(|touched| touched.bytes);
        line.needed.or(line.read).or(line.resident).or(touched).or(called).unwrap_or_default()
    };
    lines.sort_by_key(|line| std::cmp::Reverse(weight(line)));
    let engines = [page, probe, function, byte].into_iter().flatten().filter_map(engine_line).collect();
    Report { version: REPORT_VERSION, engines, totals: totals(&lines, [input.read, page, probe, byte]), files: lines }
}

/// Functions of one file in the order of their first call.
pub fn calls(input: &Input<'_>, path: &str) -> Vec<CallReport> {
    let Some(rows) = input.of(TouchEngine::Function) else { return Vec::new() };
    let is_it =
        |touch: &&TouchRow| rows.files.get(touch.file.0 as usize).is_some_and(|file| model::shown(&file.path) == path);
    let line = |touch: &TouchRow| CallReport {
        order: touch.order.unwrap_or_default(),
        at_ns: touch.at_ns.unwrap_or_default(),
        offset: touch.offset.0,
        len: touch.len,
        name: touch.name.clone(),
    };
    rows.touches.iter().filter(is_it).map(line).collect()
}

/// What is known of a file, from all runs.
struct File<'a> {
    row: &'a FileRow,
    sections: Vec<&'a SectionRow>,
    read: Option<Ranges>,
    needed: Option<Ranges>,
    resident: Option<Ranges>,
    touched: Option<Ranges>,
    watched: Option<&'a WatchedRow>,
    calls: Vec<&'a TouchRow>,
}

/// Sorted, disjoint ranges (start, end).
type Ranges = Vec<(u64, u64)>;

impl<'a> File<'a> {
    fn new(row: &'a FileRow, sections: Vec<&'a SectionRow>) -> Self {
        Self {
            row,
            sections,
            read: None,
            needed: None,
            resident: None,
            touched: None,
            watched: None,
            calls: Vec::new(),
        }
    }

    fn line(&self, path: &Path) -> FileReport {
        FileReport {
            path: model::shown(path),
            owner: self.row.owner,
            kind: self.row.kind,
            size: self.row.size,
            read: self.read.as_ref().map(sum),
            needed: self.needed.as_ref().map(sum),
            resident: self.resident.as_ref().map(sum),
            touched: self.touched.as_ref().map(|ranges| ByteReport { bytes: sum(ranges), pages: pages(ranges) }),
            functions: self.watched.map(|watched| of_functions(watched, &self.calls)),
            sections: self.section_lines(),
        }
    }

    fn section_lines(&self) -> Vec<SectionReport> {
        let mut sections = self.sections.clone();
        sections.sort_by_key(|section| section.offset);
        let line = |section: &&SectionRow| {
            let (start, end) = (section.offset.0, section.offset.0.saturating_add(section.len.0));
            let inside = |ranges: &Ranges| cut(ranges, start, end);
            let called = || self.calls.iter().filter(|call| (start..end).contains(&call.offset.0)).count() as u64;
            SectionReport {
                name: section.name.clone(),
                size: section.len,
                read: self.read.as_ref().map(inside),
                needed: self.needed.as_ref().map(inside),
                touched: self.touched.as_ref().map(inside),
                called: self.watched.map(|_| called()),
            }
        };
        sections.iter().map(line).collect()
    }
}

/// Files of a run, by number.
fn known<'a, 'f>(
    files: &'f mut BTreeMap<PathBuf, File<'a>>,
    rows: &'a TraceRows,
    id: FileId,
) -> Option<&'f mut File<'a>> {
    let row = rows.files.get(id.0 as usize)?;
    let file = files.entry(row.path.clone()).or_insert_with(|| File::new(row, Vec::new()));
    if file.sections.is_empty() {
        file.sections = rows.sections.iter().filter(|section| section.file == id).collect();
    }
    Some(file)
}

/// Puts the places of a run into one field of its files.
fn gather<'a>(
    files: &mut BTreeMap<PathBuf, File<'a>>,
    rows: &'a TraceRows,
    places: impl Iterator<Item = (FileId, FileOffset, Bytes)>,
    field: impl for<'f> Fn(&'f mut File<'a>) -> &'f mut Option<Ranges>,
) {
    let mut by_file: HashMap<FileId, Ranges> = HashMap::new();
    for (id, offset, len) in places.filter(|(_, offset, len)| offset.0 < LONGEST && len.0 < LONGEST) {
        by_file.entry(id).or_default().push((offset.0, offset.0 + len.0));
    }
    for (id, file) in (0..).map(FileId).zip(&rows.files) {
        let on_disk = matches!(file.kind, FileKind::Regular | FileKind::Metadata);
        let ranges = by_file.remove(&id).map(joined).unwrap_or_default();
        // A file that a run only mapped or opened says nothing.
        if let Some(file) = known(files, rows, id).filter(|_| on_disk) {
            *field(file) = Some(ranges);
        }
    }
}

fn places(rows: &TraceRows) -> impl Iterator<Item = (FileId, FileOffset, Bytes)> {
    rows.touches.iter().map(|touch| (touch.file, touch.offset, touch.len))
}

fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.0 <= kept.1;
        if joins {
            kept.1 = kept.1.max(next.1);
        }
        joins
    });
    ranges
}

fn sum(ranges: &Ranges) -> Bytes {
    Bytes(ranges.iter().map(|(start, end)| end - start).sum())
}

/// Pages that ranges lie on.
fn pages(ranges: &Ranges) -> u64 {
    // Behind the last page that was counted.
    let mut behind = 0;
    let more = ranges.iter().map(|(start, end)| {
        let (first, last) = ((start / PAGE).max(behind), end.div_ceil(PAGE));
        behind = behind.max(last);
        last.saturating_sub(first)
    });
    more.sum()
}

/// Bytes of ranges between two places.
fn cut(ranges: &Ranges, start: u64, end: u64) -> Bytes {
    let first = ranges.partition_point(|(_, behind)| *behind <= start);
    let inside = ranges[first..].iter().take_while(|(from, _)| *from < end);
    Bytes(inside.map(|(from, behind)| (*behind).min(end) - (*from).max(start)).sum())
}

fn functions<'a>(files: &mut BTreeMap<PathBuf, File<'a>>, rows: &'a TraceRows) {
    let mut by_file: HashMap<FileId, Vec<&TouchRow>> = HashMap::new();
    for touch in rows.touches.iter().filter(|touch| touch.offset.0 < LONGEST && touch.len.0 < LONGEST_FUNCTION) {
        by_file.entry(touch.file).or_default().push(touch);
    }
    for watched in &rows.watched {
        if let Some(file) = known(files, rows, watched.file) {
            file.watched = Some(watched);
            file.calls = by_file.remove(&watched.file).unwrap_or_default();
        }
    }
}

fn of_functions(watched: &WatchedRow, calls: &[&TouchRow]) -> FunctionReport {
    let called_bytes: Bytes = calls.iter().map(|call| call.len).sum();
    // By page: how many called functions lie on it, and how many of its bytes they take.
    let mut pages: HashMap<u64, (u32, u64)> = HashMap::new();
    for call in calls {
        let (start, end) = (call.offset.0, call.offset.0 + call.len.0.max(1));
        for page in start / PAGE..end.div_ceil(PAGE) {
            let taken = end.min((page + 1) * PAGE) - start.max(page * PAGE);
            let entry = pages.entry(page).or_default();
            *entry = (entry.0 + 1, entry.1 + taken);
        }
    }
    FunctionReport {
        total: watched.functions,
        called: calls.len() as u64,
        bytes: watched.len,
        called_bytes,
        packed_pages: called_bytes.0.div_ceil(PAGE),
        pages: pages.len() as u64,
        lonely_pages: pages.values().filter(|(functions, taken)| *functions == 1 && *taken < PAGE).count() as u64,
        starts: Some(watched.starts),
    }
}

fn engine_line(rows: &TraceRows) -> Option<EngineReport> {
    let engine = engine_of(rows)?;
    Some(EngineReport {
        engine,
        precision: crate::engine::precision(engine).says.to_owned(),
        cannot: rows.info.cannot.clone(),
    })
}

/// The runs are those that say what is read, needed, resident and touched.
fn totals(files: &[FileReport], [read, page, probe, byte]: [Option<&TraceRows>; 4]) -> Totals {
    let sum = |field: fn(&FileReport) -> Option<Bytes>| files.iter().filter_map(field).sum::<Bytes>();
    let mut functions: Option<FunctionReport> = None;
    for part in files.iter().filter_map(|file| file.functions) {
        let all = functions.get_or_insert_default();
        // Numbers of a damaged recording may be anything.
        let add = |sum: &mut u64, part: u64| *sum = sum.saturating_add(part);
        add(&mut all.total, part.total);
        add(&mut all.called, part.called);
        add(&mut all.bytes.0, part.bytes.0);
        add(&mut all.called_bytes.0, part.called_bytes.0);
        add(&mut all.packed_pages, part.packed_pages);
        add(&mut all.pages, part.pages);
        add(&mut all.lonely_pages, part.lonely_pages);
    }
    let mut touched = ByteReport::default();
    for part in files.iter().filter_map(|file| file.touched) {
        touched.bytes.0 = touched.bytes.0.saturating_add(part.bytes.0);
        touched.pages = touched.pages.saturating_add(part.pages);
    }
    Totals {
        read: read.map(|_| sum(|file| file.read)),
        needed: page.map(|_| sum(|file| file.needed)),
        resident: probe.map(|_| sum(|file| file.resident)),
        touched: byte.map(|_| touched),
        functions,
    }
}

//! From the rows of touch runs to the report. Pure.

use crate::report::*;
use model::{
    Bytes, Cause, FileId, FileKind, FileOffset, FileRow, FillRow, PAGE, SectionRow, TouchEngine, TouchRow, TraceRows,
    WatchedRow,
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
    /// A traced cold start with the usual read-ahead; of its fills, places count alone (see [`Came`]).
    pub read: Option<&'a TraceRows>,
    /// Runs that saw what is touched; the last one of each engine counts.
    pub touched: &'a [TraceRows],
}

impl<'a> Input<'a> {
    fn of(&self, engine: TouchEngine) -> Option<&'a TraceRows> {
        self.touched.iter().rev().find(|rows| engine_of(rows) == Some(engine))
    }
}

/// What came into memory in a start, as it comes: only where it lies is kept, each page once. A trace may have millions
/// of fills, of one page each.
#[derive(Clone, Debug)]
pub struct Came {
    by_file: Vec<Ranges>,
}

impl Came {
    /// Nothing has come yet, of so many files.
    pub fn of(files: usize) -> Self {
        Self { by_file: vec![Ranges::new(); files] }
    }

    /// Adds a fill, unless the program wrote it.
    pub fn add(&mut self, fill: &FillRow) {
        if let Some((id, offset, len)) = read_from_disk(fill).filter(possible)
            && let Some(ranges) = self.by_file.get_mut(id.0 as usize)
        {
            ranges.push((offset.0, offset.0 + len.0));
        }
    }

    /// The places as fills of [`Input::read`], one for each piece. When each came is not known any more.
    pub fn fills(self) -> Vec<FillRow> {
        let fill = |(file, (start, end)): (u32, (u64, u64))| FillRow {
            at_ns: model::Nanos(0),
            pid: 0,
            tid: 0,
            file: FileId(file),
            offset: FileOffset(start),
            len: Bytes(end - start),
            cause: Cause::Unknown,
        };
        let pieces = (0_u32..).zip(self.by_file);
        pieces
            .flat_map(|(file, ranges)| model::joined(ranges).into_iter().map(move |range| fill((file, range))))
            .collect()
    }
}

fn read_from_disk(fill: &FillRow) -> Option<(FileId, FileOffset, Bytes)> {
    (fill.cause != Cause::Write).then_some((fill.file, fill.offset, fill.len))
}

fn possible((_, offset, len): &(FileId, FileOffset, Bytes)) -> bool {
    offset.0 < LONGEST && len.0 < LONGEST
}

/// The engine of a run; `None`: it saw nothing.
pub fn engine_of(rows: &TraceRows) -> Option<TouchEngine> {
    let watched = || (!rows.watched.is_empty()).then_some(TouchEngine::Function);
    rows.touches.first().map(|touch| touch.engine).or_else(watched)
}

/// Says what the rows mean. Files of different runs are the same if they have the same path.
pub fn report(input: &Input<'_>) -> Report {
    report_of(input, gathered(input).into_iter().map(|(line, _)| line).collect())
}

/// The same, with what the picture of each file is drawn of.
pub fn report_with_details<'a>(input: &Input<'a>) -> (Report, Vec<Detail<'a>>) {
    let (lines, files): (Vec<FileReport>, Vec<File<'a>>) = gathered(input).into_iter().unzip();
    (report_of(input, lines), details_of(files))
}

fn report_of(input: &Input<'_>, files: Vec<FileReport>) -> Report {
    let (page, probe) = (input.of(TouchEngine::Page), input.of(TouchEngine::Probe));
    let (function, byte) = (input.of(TouchEngine::Function), input.of(TouchEngine::Byte));
    let engines = [page, probe, function, byte].into_iter().flatten().filter_map(engine_line).collect();
    Report { version: REPORT_VERSION, engines, totals: totals(&files, [input.read, page, probe, byte]), files }
}

/// What the picture of each file is drawn of; files of which nothing is known but their names have none.
pub fn details<'a>(input: &Input<'a>) -> Vec<Detail<'a>> {
    details_of(gathered(input).into_iter().map(|(_, file)| file).collect())
}

fn details_of<'a>(files: Vec<File<'a>>) -> Vec<Detail<'a>> {
    let detail = |(line, file): (usize, File<'a>)| Detail {
        line,
        read: file.read.iter().flatten().map(|(start, end)| (FileOffset(*start), Bytes(end - start))).collect(),
        calls: file.call_lines(),
        touched: file.touches,
    };
    let says_something =
        |detail: &Detail<'_>| !(detail.read.is_empty() && detail.touched.is_empty() && detail.calls.is_empty());
    files.into_iter().enumerate().map(detail).filter(says_something).collect()
}

/// Functions of one file in the order of their first call.
pub fn calls(input: &Input<'_>, path: &str) -> Vec<CallReport> {
    let files = gathered(input);
    files.iter().find(|(line, _)| line.path == path).map(|(_, file)| file.call_lines()).unwrap_or_default()
}

/// All files with their lines, in the order of the report.
fn gathered<'a>(input: &Input<'a>) -> Vec<(FileReport, File<'a>)> {
    let mut files: BTreeMap<PathBuf, File<'a>> = BTreeMap::new();
    if let Some(rows) = input.read {
        gather(&mut files, rows, rows.fills.iter().filter_map(read_from_disk), |file| &mut file.read);
    }
    if let Some(rows) = input.of(TouchEngine::Page) {
        gather(&mut files, rows, places(rows), |file| &mut file.needed);
    }
    if let Some(rows) = input.of(TouchEngine::Probe) {
        gather(&mut files, rows, places(rows), |file| &mut file.resident);
    }
    if let Some(rows) = input.of(TouchEngine::Byte) {
        gather(&mut files, rows, places(rows), |file| &mut file.touched);
    }
    for engine in [TouchEngine::Page, TouchEngine::Probe, TouchEngine::Byte] {
        if let Some(rows) = input.of(engine) {
            touches(&mut files, rows);
        }
    }
    if let Some(rows) = input.of(TouchEngine::Function) {
        functions(&mut files, rows);
    }
    let line = |(path, file): (PathBuf, File<'a>)| (file.line(&path), file);
    let mut lines: Vec<(FileReport, File<'a>)> = files.into_iter().map(line).collect();
    let weight = |line: &FileReport| {
        let called = line.functions.map(|functions| functions.called_bytes);
        let touched = line.touched.map(|touched| touched.bytes);
        line.needed.or(line.read).or(line.resident).or(touched).or(called).unwrap_or_default()
    };
    lines.sort_by_key(|(line, _)| std::cmp::Reverse(weight(line)));
    lines
}

/// What is known of a file, from all runs.
struct File<'a> {
    row: &'a FileRow,
    sections: Vec<&'a SectionRow>,
    read: Option<Ranges>,
    needed: Option<Ranges>,
    resident: Option<Ranges>,
    touched: Option<Ranges>,
    /// The rows of the engines that see places, not functions.
    touches: Vec<&'a TouchRow>,
    watched: Option<&'a WatchedRow>,
    calls: Vec<&'a TouchRow>,
}

/// Sorted, disjoint ranges (start, end).
type Ranges = Vec<(u64, u64)>;

impl<'a> File<'a> {
    fn new(row: &'a FileRow, sections: Vec<&'a SectionRow>) -> Self {
        let (touches, calls) = (Vec::new(), Vec::new());
        Self { row, sections, read: None, needed: None, resident: None, touched: None, touches, watched: None, calls }
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
                offset: start,
                size: section.len,
                read: self.read.as_ref().map(inside),
                needed: self.needed.as_ref().map(inside),
                touched: self.touched.as_ref().map(inside),
                called: self.watched.map(|_| called()),
            }
        };
        sections.iter().map(line).collect()
    }

    fn call_lines(&self) -> Vec<CallReport> {
        let pages = pages_of(&self.calls);
        let lonely = |page: &u64| pages.get(page).is_some_and(is_lonely);
        let line = |call: &&TouchRow| {
            let (start, end) = (call.offset.0, call.offset.0 + call.len.0);
            let inside = |ranges: &Ranges| cut(ranges, start, end);
            CallReport {
                order: call.order.unwrap_or_default(),
                at_ns: call.at_ns.unwrap_or_default(),
                offset: start,
                len: call.len,
                name: call.name.clone(),
                read: self.read.as_ref().map(inside),
                needed: self.needed.as_ref().map(inside),
                lonely_pages: page_numbers(call).filter(lonely).count() as u64,
            }
        };
        self.calls.iter().map(line).collect()
    }
}

/// Sections of a run by file, in the order of its rows.
fn sections_of(rows: &TraceRows) -> HashMap<FileId, Vec<&SectionRow>> {
    let mut by_file: HashMap<FileId, Vec<&SectionRow>> = HashMap::new();
    for section in &rows.sections {
        by_file.entry(section.file).or_default().push(section);
    }
    by_file
}

/// Files of a run, by number.
fn known<'a, 'f>(
    files: &'f mut BTreeMap<PathBuf, File<'a>>,
    rows: &'a TraceRows,
    sections: &HashMap<FileId, Vec<&'a SectionRow>>,
    id: FileId,
) -> Option<&'f mut File<'a>> {
    let row = rows.files.get(id.0 as usize)?;
    let file = files.entry(row.path.clone()).or_insert_with(|| File::new(row, Vec::new()));
    if file.sections.is_empty() {
        file.sections = sections.get(&id).cloned().unwrap_or_default();
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
    let sections = sections_of(rows);
    let mut by_file: HashMap<FileId, Ranges> = HashMap::new();
    for (id, offset, len) in places.filter(possible) {
        by_file.entry(id).or_default().push((offset.0, offset.0 + len.0));
    }
    for (id, file) in (0..).map(FileId).zip(&rows.files) {
        let on_disk = matches!(file.kind, FileKind::Regular | FileKind::Metadata);
        let ranges = by_file.remove(&id).map(model::joined).unwrap_or_default();
        // A file that a run only mapped or opened says nothing.
        if let Some(file) = known(files, rows, &sections, id).filter(|_| on_disk) {
            *field(file) = Some(ranges);
        }
    }
}

fn places(rows: &TraceRows) -> impl Iterator<Item = (FileId, FileOffset, Bytes)> {
    rows.touches.iter().map(|touch| (touch.file, touch.offset, touch.len))
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

fn touches<'a>(files: &mut BTreeMap<PathBuf, File<'a>>, rows: &'a TraceRows) {
    let sections = sections_of(rows);
    let mut by_file: HashMap<FileId, Vec<&TouchRow>> = HashMap::new();
    for touch in rows.touches.iter().filter(|touch| touch.offset.0 < LONGEST && touch.len.0 < LONGEST) {
        by_file.entry(touch.file).or_default().push(touch);
    }
    for (id, touches) in by_file {
        if let Some(file) = known(files, rows, &sections, id) {
            file.touches.extend(touches);
        }
    }
}

fn functions<'a>(files: &mut BTreeMap<PathBuf, File<'a>>, rows: &'a TraceRows) {
    let sections = sections_of(rows);
    let mut by_file: HashMap<FileId, Vec<&TouchRow>> = HashMap::new();
    for touch in rows.touches.iter().filter(|touch| touch.offset.0 < LONGEST && touch.len.0 < LONGEST_FUNCTION) {
        by_file.entry(touch.file).or_default().push(touch);
    }
    for watched in &rows.watched {
        if let Some(file) = known(files, rows, &sections, watched.file) {
            file.watched = Some(watched);
            file.calls = by_file.remove(&watched.file).unwrap_or_default();
        }
    }
}

/// Pages that a function lies on; one whose size is not known lies on one.
fn page_numbers(call: &TouchRow) -> std::ops::Range<u64> {
    call.offset.0 / PAGE..(call.offset.0 + call.len.0.max(1)).div_ceil(PAGE)
}

/// By page: how many called functions lie on it, and how many of its bytes they take.
fn pages_of(calls: &[&TouchRow]) -> HashMap<u64, (u32, u64)> {
    let mut pages: HashMap<u64, (u32, u64)> = HashMap::new();
    for call in calls {
        let (start, end) = (call.offset.0, call.offset.0 + call.len.0.max(1));
        for page in page_numbers(call) {
            let taken = end.min((page + 1) * PAGE) - start.max(page * PAGE);
            let entry = pages.entry(page).or_default();
            *entry = (entry.0 + 1, entry.1 + taken);
        }
    }
    pages
}

/// One called function lies on the page and does not fill it.
fn is_lonely((functions, taken): &(u32, u64)) -> bool {
    *functions == 1 && *taken < PAGE
}

fn of_functions(watched: &WatchedRow, calls: &[&TouchRow]) -> FunctionReport {
    let called_bytes: Bytes = calls.iter().map(|call| call.len).sum();
    let pages = pages_of(calls);
    FunctionReport {
        total: watched.functions,
        called: calls.len() as u64,
        bytes: watched.len,
        called_bytes,
        packed_pages: called_bytes.0.div_ceil(PAGE),
        pages: pages.len() as u64,
        lonely_pages: pages.values().filter(|page| is_lonely(page)).count() as u64,
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Nanos, Owner, StartsFrom, TraceInfo};

    const K: u64 = PAGE;

    fn file(path: &str) -> FileRow {
        FileRow {
            path: path.into(),
            kind: FileKind::Regular,
            owner: Owner::App,
            dev: 1,
            ino: 1,
            size: Bytes(10 * K),
            extents: None,
            build_id: None,
        }
    }

    fn touch(engine: TouchEngine, file: u32, order: u32, offset: u64, len: u64) -> TouchRow {
        let (offset, len) = (FileOffset(offset), Bytes(len));
        let at_ns = Some(Nanos(u64::from(order) * 1000));
        TouchRow { file: FileId(file), offset, len, order: Some(order), at_ns, tid: Some(1), engine, name: None }
    }

    fn fill(file: u32, page: u64, pages: u64) -> model::FillRow {
        model::FillRow {
            at_ns: Nanos(1),
            pid: 1,
            tid: 1,
            file: FileId(file),
            offset: FileOffset(page * K),
            len: Bytes(pages * K),
            cause: Cause::Fault,
        }
    }

    /// Two files in all runs, under other numbers in the last. Of `/b` more is needed.
    fn runs() -> (TraceRows, Vec<TraceRows>) {
        let files = || vec![file("/a"), file("/b")];
        let text = SectionRow { file: FileId(1), name: ".text".into(), offset: FileOffset(K), len: Bytes(5 * K) };
        let read = TraceRows {
            files: files(),
            sections: vec![text],
            fills: vec![fill(1, 0, 4), fill(0, 2, 1)],
            ..TraceRows::default()
        };
        let page = |file, order, page| touch(TouchEngine::Page, file, order, page * K, K);
        let needed = TraceRows {
            files: files(),
            touches: vec![page(1, 0, 3), page(0, 1, 2), page(1, 2, 1)],
            ..TraceRows::default()
        };
        let call = |order, offset, len| touch(TouchEngine::Function, 0, order, offset, len);
        // Page 1: two functions; 2 and 3: one that goes over their border, and page 3 a further one; 4: one that fills
        // it.
        let touches = vec![
            call(0, 3 * K - 10, 20),
            call(1, K, 16),
            call(2, K + 16, 0),
            call(3, 4 * K, K),
            call(4, 3 * K + 100, 8),
        ];
        let watched =
            vec![WatchedRow { file: FileId(0), functions: 9, len: Bytes(9 * K), starts: StartsFrom::Symbols }];
        let called =
            TraceRows { files: vec![file("/b")], touches, watched, info: TraceInfo::default(), ..TraceRows::default() };
        (read, vec![needed, called])
    }

    #[test]
    fn a_call_says_what_was_read_and_needed_of_it_and_which_pages_it_alone_keeps() {
        let (read, touched) = runs();
        let input = Input { read: Some(&read), touched: &touched };
        let lines = calls(&input, "/b");
        let figures: Vec<_> = lines
            .iter()
            .map(|call| (call.order, call.read.unwrap().0, call.needed.unwrap().0, call.lonely_pages))
            .collect();
        assert_eq!(figures, [(0, 20, 10, 1), (1, 16, 16, 0), (2, 0, 0, 0), (3, 0, 0, 0), (4, 8, 8, 0)]);
        let functions = report(&input).totals.functions.unwrap();
        assert_eq!((functions.pages, functions.lonely_pages, functions.packed_pages), (4, 1, 2));
        assert_eq!(lines.iter().map(|call| call.lonely_pages).sum::<u64>(), functions.lonely_pages);
        assert!(calls(&input, "/a").is_empty());
        let alone = Input { read: None, touched: &touched[1..] };
        assert!(calls(&alone, "/b").iter().all(|call| call.read.is_none() && call.needed.is_none()));
    }

    #[test]
    fn details_stand_in_the_lines_of_the_report_and_add_up_to_its_figures() {
        let (read, touched) = runs();
        let input = Input { read: Some(&read), touched: &touched };
        let (report, details) = (report(&input), details(&input));
        assert_eq!(
            details.iter().map(|detail| report.files[detail.line].path.as_str()).collect::<Vec<_>>(),
            ["/b", "/a"]
        );
        for detail in &details {
            let line = &report.files[detail.line];
            assert_eq!(Some(detail.read.iter().map(|(_, len)| *len).sum()), line.read);
            assert_eq!(Some(detail.touched.iter().map(|row| row.len).sum()), line.needed);
            assert_eq!(detail.calls.len() as u64, line.functions.map_or(0, |functions| functions.called));
        }
        assert_eq!(details[0].read, [(FileOffset(0), Bytes(4 * K))]);
        assert_eq!(details[0].touched.iter().map(|row| row.order).collect::<Vec<_>>(), [Some(0), Some(2)]);
        let section = &report.files[0].sections[0];
        assert_eq!((section.offset, section.size, section.needed), (K, Bytes(5 * K), Some(Bytes(2 * K))));
    }

    #[test]
    fn damaged_rows_do_not_run_away() {
        let (mut read, mut touched) = runs();
        read.fills[0].len = Bytes(u64::MAX);
        touched[0].touches[0].offset = FileOffset(u64::MAX - 3);
        touched[0].touches[1].file = FileId(77);
        touched[1].touches[0].len = Bytes(u64::MAX);
        let input = Input { read: Some(&read), touched: &touched };
        let details = details(&input);
        assert_eq!(
            details.iter().map(|detail| (detail.touched.len(), detail.calls.len())).collect::<Vec<_>>(),
            [(1, 4), (0, 0)]
        );
    }
}

//! From rows to the report: sums over files, sections, processes, causes and owners.

use super::{asked::Asked, needed::Needed, sound, waiting, waiting::Flight};
use crate::{
    keyed::{NumberMap, page_key},
    report::*,
};
use model::{
    BlockRow, Bytes, Cause, FaultRow, FileId, FileKind, FileOffset, FillRow, Flow, Nanos, Owner, PAGE, ReadRow,
    SectionRow, Served, TraceRows, Warning, WarningKind, shown,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// Name of the engine that needs no rights.
const PROBE: &str = "probe";
/// Below this share of attributed requests the report warns.
const ENOUGH_ATTRIBUTED: f64 = 0.95;
/// [`Request::offset`] of what is no file's.
const NO_OFFSET: u64 = u64::MAX;

/// Of a read request of the program what is known before its share of the time is. There may be millions, so it is
/// small.
struct Request {
    /// Where in the file, if it is a file's.
    offset: u64,
    /// Line of the report that it counts for.
    line: u32,
    pid: u32,
    /// The kernel counts with 32 bits, too: longer ones make no sense.
    len: u32,
}

/// Says what the rows mean.
pub fn report(rows: &TraceRows) -> Report {
    summed(rows, None)
}

/// The same, held against what a start needs: `touched` is a run without read-ahead of the same program.
pub fn report_with_needed(rows: &TraceRows, touched: &TraceRows) -> Report {
    let _span = tracing::info_span!("report").entered();
    summed(rows, Some(touched))
}

fn summed(rows: &TraceRows, touched: Option<&TraceRows>) -> Report {
    let mut sums = Sums::of(rows, touched);
    rows.flow(&mut sums);
    sums.finish()
}

/// A report in the making. Fills, reads, faults and requests are summed up as they come ([`Flow`]), so that nobody
/// needs room for all of them.
pub struct Sums<'a> {
    /// The rows that make sense; without those that come.
    rows: Cow<'a, TraceRows>,
    /// Rows that make no sense and were left out.
    wrong: usize,
    needed: Option<Needed>,
    /// One line for each file, then for what belongs to none.
    files: Vec<FileReport>,
    asked: Asked,
    by_cause: BTreeMap<Cause, Bytes>,
    /// Brought into the cache, by process.
    filled_by: NumberMap<u32, Bytes>,
    /// By file: sections by place with their range, what came in, and their share of the time.
    sections: NumberMap<u32, Vec<Section>>,
    pages: PagesOnTheirWay,
    requests: Vec<Request>,
    /// From when to when each was in flight; nothing where its end was not seen.
    flights: Vec<Flight>,
    /// Where the head of each device stands.
    heads: NumberMap<u64, u64>,
    totals: Totals,
}

/// A section of a file, and what counts for it.
struct Section {
    /// Its place among the trace's.
    number: usize,
    start: u64,
    end: u64,
    filled: u64,
    share: f64,
}

impl<'a> Sums<'a> {
    /// Nothing has come yet. `rows` is what is known besides (of its fills, reads, faults and requests nothing is
    /// used); `touched` is a run without read-ahead of the same program, to hold against what came.
    pub fn of(rows: &'a TraceRows, touched: Option<&TraceRows>) -> Self {
        let (rows, wrong) = sound::sound_head(rows);
        let needed = touched.map(|touched| Needed::of(&rows, touched));
        Self {
            wrong,
            files: file_lines(&rows, needed.as_ref()),
            asked: Asked::of(rows.files.len()),
            by_cause: BTreeMap::new(),
            filled_by: NumberMap::default(),
            sections: sections(&rows.sections),
            pages: PagesOnTheirWay::of(&rows),
            requests: Vec::new(),
            flights: Vec::new(),
            heads: NumberMap::default(),
            totals: Totals::default(),
            needed,
            rows,
        }
    }

    /// What they mean, all together.
    pub fn finish(mut self) -> Report {
        for (file, asked) in self.files.iter_mut().zip(self.asked.bytes_by_file()) {
            file.asked = Bytes(asked);
        }
        let shares = waiting::fair_shares(&self.flights);
        self.totals.waiting = waiting::union(&self.flights);
        drop(self.flights);
        let mut waited = vec![0.0; self.files.len()];
        let mut by_process: NumberMap<u32, (u64, f64)> = NumberMap::default();
        for (request, share) in self.requests.iter().zip(shares) {
            waited[request.line as usize] += share;
            let sum = by_process.entry(request.pid).or_default();
            *sum = (sum.0 + 1, sum.1 + share);
            if request.offset == NO_OFFSET {
                continue;
            }
            if let Some(sections) = self.sections.get_mut(&request.line) {
                let per_byte = share / f64::from(request.len.max(1));
                overlaps(sections, FileOffset(request.offset), Bytes(request.len.into()), |section, bytes| {
                    section.share += per_byte * bytes as f64;
                });
            }
        }
        let (rows, needed) = (&self.rows, self.needed.as_ref());
        let mut files = self.files;
        files.iter_mut().zip(waited).for_each(|(file, share)| file.waiting = waiting::rounded(share));
        section_lines(rows, self.sections, needed, &mut files);
        // Of what lay in memory before (the system's files of an app-cold start) nothing had to be read.
        let came_in = files.iter().filter(|file| file.filled > Bytes(0));
        let (wanted, of): (Vec<Bytes>, Vec<Bytes>) =
            came_in.filter_map(|file| Some((file.needed?, file.filled))).unzip();
        let totals = Totals {
            requests: self.requests.len() as u64,
            attributed_share: 1.0 - self.totals.unattributed_requests as f64 / self.requests.len().max(1) as f64,
            needed: needed.map(|_| wanted.into_iter().sum()),
            needed_of: needed.map(|_| of.into_iter().sum()),
            need_unknown_files: files.iter().filter(|file| file.held_by.is_some()).count() as u64,
            ..self.totals
        };
        let mut warnings = warnings(rows, &totals);
        if self.wrong > 0 {
            let text = format!("{} rows of this trace make no sense and were left out", self.wrong);
            warnings.push(Warning::new(WarningKind::Note, text).hint("record again"));
        }
        Report {
            version: REPORT_VERSION,
            info: rows.info.clone(),
            by_cause: by_cause(self.by_cause),
            by_owner: by_owner(&files),
            processes: processes(rows, self.filled_by, by_process),
            fragmented: fragmented(&files),
            synced: synced(rows),
            opened_often: opened_often(rows),
            warnings,
            totals,
            files,
        }
    }

    fn touch(&mut self, file: FileId, at: Nanos) {
        touch(&mut self.files, file, at);
    }

    /// A read request of the program.
    fn request(&mut self, block: &BlockRow, pid: u32) {
        let (file, offset) = match block.served {
            Served::File(file, offset) => (Some(file.0), Some(offset)),
            Served::Metadata => (self.pages.metadata_file(block), None),
            Served::Unknown => (None, None),
        };
        let place = offset.map(|offset| offset.0).or_else(|| self.pages.metadata_offset(file?, block));
        let asked = file.zip(place).and_then(|(file, offset)| self.pages.asked(file, offset, block.len));
        let known = self.rows.files.len();
        let line = file.map_or_else(|| line_without_file(&mut self.files, known, block), |file| file as usize);
        let totals = &mut self.totals;
        totals.read_from_disk += block.len;
        totals.metadata_requests += u64::from(block.served == Served::Metadata);
        totals.unattributed_requests += u64::from(block.served == Served::Unknown);
        totals.unfinished_requests += u64::from(block.done_ns.is_none());
        let (start, end) = (block.disk.0, block.disk.0 + block.len.0);
        if let Some(head) = self.heads.insert(block.dev, end)
            && head != start
        {
            totals.seeks += 1;
            totals.seek_distance += Bytes(head.abs_diff(start));
        }
        self.files[line].requests += 1;
        self.files[line].bytes_from_disk += block.len;
        let nothing = Flight { from: Nanos(0), until: Nanos(0) };
        let from = asked.unwrap_or(block.start_ns).min(block.start_ns);
        self.flights.push(block.done_ns.map_or(nothing, |until| Flight { from, until }));
        self.requests.push(Request {
            offset: offset.map_or(NO_OFFSET, |offset| offset.0),
            line: line as u32,
            pid,
            len: block.len.0 as u32,
        });
    }
}

impl Flow for Sums<'_> {
    fn fill(&mut self, fill: &FillRow) {
        if !sound::is_fill(self.rows.files.len(), fill) {
            self.wrong += 1;
            return;
        }
        self.touch(fill.file, fill.at_ns);
        self.files[fill.file.0 as usize].filled += fill.len;
        self.totals.filled += fill.len;
        *self.by_cause.entry(fill.cause).or_default() += fill.len;
        *self.filled_by.entry(fill.pid).or_default() += fill.len;
        if let Some(sections) = self.sections.get_mut(&fill.file.0) {
            overlaps(sections, fill.offset, fill.len, |section, bytes| section.filled += bytes);
        }
        self.pages.fill(fill);
    }

    fn read(&mut self, read: &ReadRow) {
        if !sound::is_read(self.rows.files.len(), read) {
            self.wrong += 1;
            return;
        }
        self.touch(read.file, read.at_ns);
        self.asked.read(&self.rows.files, read);
    }

    fn fault(&mut self, fault: &FaultRow) {
        if !sound::is_fault(self.rows.files.len(), fault) {
            self.wrong += 1;
            return;
        }
        self.touch(fault.file, fault.at_ns);
        self.asked.fault(&self.rows.files, fault);
    }

    fn block(&mut self, block: &BlockRow) {
        if !sound::is_request(self.rows.files.len(), block) {
            self.wrong += 1;
            return;
        }
        match block.pid {
            None => self.totals.others_requests += 1,
            Some(_) if block.write => {
                self.totals.writes += 1;
                self.totals.written += block.len;
            }
            Some(pid) => self.request(block, pid),
        }
    }
}

/// One line per file with what is known before anything comes.
fn file_lines(rows: &TraceRows, needed: Option<&Needed>) -> Vec<FileReport> {
    let opens: HashMap<_, _> = rows.opens.iter().map(|open| (&open.path, open.count)).collect();
    let owned_by = owned_by(rows);
    let mut lines: Vec<FileReport> = (0..)
        .map(FileId)
        .zip(&rows.files)
        .map(|(id, file)| FileReport {
            path: shown(&file.path),
            size: file.size,
            needed: needed.and_then(|needed| needed.of_file(id)),
            held_by: needed.and_then(|needed| needed.held_by(id)).cloned(),
            extents: file.extents,
            opens: opens.get(&file.path).copied(),
            owned_by: owned_by[id.0 as usize].clone(),
            ..empty_line(file.owner, file.kind)
        })
        .collect();
    rows.mmaps.iter().for_each(|map| touch(&mut lines, map.file, map.at_ns));
    rows.syncs.iter().for_each(|sync| touch(&mut lines, sync.file, sync.at_ns));
    rows.direct.iter().for_each(|direct| touch(&mut lines, direct.file, direct.at_ns));
    for direct in rows.direct.iter().filter(|direct| !direct.write) {
        let line = &mut lines[direct.file.0 as usize];
        // The last read of a file asks for more than there is.
        let most = if line.kind == FileKind::Regular { line.size.0.saturating_sub(direct.offset.0) } else { u64::MAX };
        line.direct += Bytes(direct.len.0.min(most));
    }
    rows.syncs.iter().for_each(|sync| lines[sync.file.0 as usize].syncs += 1);
    lines
}

fn touch(lines: &mut [FileReport], file: FileId, at: Nanos) {
    let first = &mut lines[file.0 as usize].first_touch_ns;
    *first = Some(first.map_or(at, |known| known.min(at)));
}

/// How it is known whose each file is.
fn owned_by(rows: &TraceRows) -> Vec<Option<OwnedBy>> {
    let mut found = vec![None; rows.files.len()];
    for row in &rows.owners {
        if let Some(place) = found.get_mut(row.file.0 as usize) {
            *place = Some(OwnedBy { rule: row.rule, what: row.what.clone(), because: row.because.clone() });
        }
    }
    found
}

/// A line that says nothing yet.
fn empty_line(owner: Owner, kind: FileKind) -> FileReport {
    FileReport {
        path: String::new(),
        owner,
        owned_by: None,
        kind,
        first_touch_ns: None,
        filled: Bytes(0),
        size: Bytes(0),
        asked: Bytes(0),
        needed: None,
        held_by: None,
        requests: 0,
        bytes_from_disk: Bytes(0),
        direct: Bytes(0),
        waiting: Nanos(0),
        extents: None,
        opens: None,
        syncs: 0,
        sections: Vec::new(),
    }
}

/// The line for requests of metadata whose device is not among the files, or of nothing that is known.
fn line_without_file(files: &mut Vec<FileReport>, known: usize, block: &BlockRow) -> usize {
    let (major, minor) = (libc::major(block.dev), libc::minor(block.dev));
    let (path, kind) = match block.served {
        Served::Metadata => (format!("(metadata of device {major}:{minor})"), FileKind::Metadata),
        _ => (format!("(not attributed, device {major}:{minor})"), FileKind::Unnamed),
    };
    match files[known..].iter().position(|line| line.path == path) {
        Some(line) => known + line,
        None => {
            files.push(FileReport { path, ..empty_line(Owner::System, kind) });
            files.len() - 1
        }
    }
}

/// When pages that requests bring were asked for, and where metadata lies.
struct PagesOnTheirWay {
    fills: NumberMap<u64, Nanos>,
    /// Metadata files: number, device, first byte on disk, offset in the device, length.
    devices: Vec<(u32, u64, u64, u64, u64)>,
}

impl PagesOnTheirWay {
    fn of(rows: &TraceRows) -> Self {
        let place = |extent: &model::ExtentRow| {
            let file = rows.files.get(extent.file.0 as usize)?;
            (file.kind == FileKind::Metadata).then_some((
                extent.file.0,
                file.dev,
                extent.disk.0,
                extent.offset.0,
                extent.len.0,
            ))
        };
        Self { fills: NumberMap::default(), devices: rows.extents.iter().filter_map(place).collect() }
    }

    fn fill(&mut self, fill: &FillRow) {
        for page in fill.offset.0 / PAGE..(fill.offset.0 + fill.len.0).div_ceil(PAGE) {
            self.fills.insert(page_key(fill.file.0, page), fill.at_ns);
        }
    }

    /// Offset in a metadata device where a request begins.
    fn metadata_offset(&self, file: u32, block: &BlockRow) -> Option<u64> {
        let covers = |(known, _, disk, _, len): &&(u32, u64, u64, u64, u64)| {
            *known == file && (*disk..disk.saturating_add(*len)).contains(&block.disk.0)
        };
        self.devices.iter().find(covers).map(|(_, _, disk, offset, _)| block.disk.0 - disk + offset)
    }

    /// The metadata device that a request reads: the one whose page waits for it, else the one that lies there.
    fn metadata_file(&self, block: &BlockRow) -> Option<u32> {
        let places =
            || self.devices.iter().filter_map(|(file, dev, ..)| Some((file, dev, self.metadata_offset(*file, block)?)));
        let waits = |file: u32, offset: u64| self.fills.contains_key(&page_key(file, offset / PAGE));
        let by_page = places().find(|(file, _, offset)| waits(**file, *offset));
        let by_device = || places().find(|(_, dev, _)| **dev == block.dev);
        by_page.or_else(by_device).or_else(|| places().next()).map(|(file, ..)| *file)
    }

    /// When the last page of a range was put into the cache; its pages are then no longer on their way.
    fn asked(&mut self, file: u32, offset: u64, len: Bytes) -> Option<Nanos> {
        let pages = offset / PAGE..(offset + len.0).div_ceil(PAGE);
        pages.filter_map(|page| self.fills.remove(&page_key(file, page))).max()
    }
}

/// Sections that are not empty by file, each file's by place.
fn sections(all: &[SectionRow]) -> NumberMap<u32, Vec<Section>> {
    let mut by_file: NumberMap<u32, Vec<Section>> = NumberMap::default();
    for (number, section) in all.iter().enumerate().filter(|(_, section)| section.len.0 > 0) {
        let (start, end) = (section.offset.0, section.offset.0.saturating_add(section.len.0));
        by_file.entry(section.file.0).or_default().push(Section { number, start, end, filled: 0, share: 0.0 });
    }
    by_file.values_mut().for_each(|sections| sections.sort_by_key(|section| section.start));
    by_file
}

/// Lines for ELF sections that something came in of, or that were waited for.
fn section_lines(
    rows: &TraceRows,
    by_file: NumberMap<u32, Vec<Section>>,
    needed: Option<&Needed>,
    files: &mut [FileReport],
) {
    for (file, sections) in by_file {
        files[file as usize].sections = sections
            .into_iter()
            .filter(|section| section.filled > 0 || section.share > 0.0)
            .map(|section| {
                let row = &rows.sections[section.number];
                SectionReport {
                    name: row.name.clone(),
                    size: row.len,
                    filled: Bytes(section.filled),
                    needed: needed.and_then(|needed| needed.of_section(row)),
                    waiting: waiting::rounded(section.share),
                }
            })
            .collect();
    }
}

/// Calls `each` with the sections that a range overlaps and by how many bytes. Sections are sorted by offset.
fn overlaps(sections: &mut [Section], offset: FileOffset, len: Bytes, mut each: impl FnMut(&mut Section, u64)) {
    let (start, end) = (offset.0, offset.0.saturating_add(len.0));
    let behind = sections.partition_point(|section| section.start < end);
    // Sections do not overlap in a file that a linker wrote: walking back may stop at the first that ends before.
    for section in sections[..behind].iter_mut().rev() {
        if section.end <= start {
            break;
        }
        let bytes = section.end.min(end) - section.start.max(start);
        each(section, bytes);
    }
}

fn by_cause(sums: BTreeMap<Cause, Bytes>) -> Vec<CauseReport> {
    let mut list: Vec<_> = sums.into_iter().map(|(cause, filled)| CauseReport { cause, filled }).collect();
    list.sort_by_key(|line| std::cmp::Reverse(line.filled));
    list
}

fn by_owner(files: &[FileReport]) -> Vec<OwnerReport> {
    let sum = |owner| {
        let of = || files.iter().filter(move |file| file.owner == owner);
        OwnerReport {
            owner,
            files: of().count() as u64,
            filled: of().map(|file| file.filled).sum(),
            requests: of().map(|file| file.requests).sum(),
            bytes_from_disk: of().map(|file| file.bytes_from_disk).sum(),
            waiting: of().map(|file| file.waiting).sum(),
            rules: by_rule(of()),
        }
    };
    vec![sum(Owner::App), sum(Owner::System)]
}

fn by_rule<'a>(files: impl Iterator<Item = &'a FileReport>) -> Vec<RuleReport> {
    let mut sums = std::collections::BTreeMap::<&OwnedBy, (u64, Bytes)>::new();
    for (file, by) in files.filter_map(|file| Some((file, file.owned_by.as_ref()?))) {
        let sum = sums.entry(by).or_default();
        *sum = (sum.0 + 1, sum.1 + file.filled);
    }
    let line = |(by, (files, filled)): (&OwnedBy, (u64, Bytes))| RuleReport { by: by.clone(), files, filled };
    let mut list: Vec<RuleReport> = sums.into_iter().map(line).collect();
    list.sort_by_key(|line| std::cmp::Reverse((line.filled, line.files)));
    list
}

fn processes(
    rows: &TraceRows,
    mut filled_by: NumberMap<u32, Bytes>,
    mut requests_of: NumberMap<u32, (u64, f64)>,
) -> Vec<ProcessReport> {
    rows.processes
        .iter()
        .map(|process| {
            let filled = filled_by.remove(&process.pid).unwrap_or_default();
            let (requests, share) = requests_of.remove(&process.pid).unwrap_or_default();
            ProcessReport {
                pid: process.pid,
                parent: process.parent,
                comm: process.comm.clone(),
                exe: process.exe.clone(),
                start_ns: process.start_ns,
                end_ns: process.end_ns,
                filled,
                requests,
                waiting: waiting::rounded(share),
            }
        })
        .collect()
}

fn fragmented(files: &[FileReport]) -> Vec<FragmentReport> {
    let mut list: Vec<FragmentReport> = files
        .iter()
        .filter_map(|file| {
            let extents = file.extents.filter(|extents| *extents > 1 && file.kind == FileKind::Regular)?;
            Some(FragmentReport { path: file.path.clone(), extents, size: file.size })
        })
        .collect();
    list.sort_by_key(|file| std::cmp::Reverse(file.extents));
    list
}

fn synced(rows: &TraceRows) -> Vec<SyncReport> {
    let mut sums = std::collections::BTreeMap::<u32, (u64, Nanos)>::new();
    for sync in &rows.syncs {
        let sum = sums.entry(sync.file.0).or_default();
        sum.0 += 1;
        sum.1 += sync.took_ns.unwrap_or_default();
    }
    let line = |(file, (count, took)): (u32, (u64, Nanos))| SyncReport {
        path: shown(&rows.files[file as usize].path),
        count,
        took,
    };
    let mut list: Vec<SyncReport> = sums.into_iter().map(line).collect();
    list.sort_by_key(|file| std::cmp::Reverse(file.took));
    list
}

fn opened_often(rows: &TraceRows) -> Vec<OpenReport> {
    let often = rows.opens.iter().filter(|open| open.count >= OFTEN);
    let mut list: Vec<OpenReport> =
        often.map(|open| OpenReport { path: shown(&open.path), count: open.count }).collect();
    list.sort_by_key(|file| std::cmp::Reverse(file.count));
    list
}

fn warnings(rows: &TraceRows, totals: &Totals) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if rows.info.engine == PROBE {
        let text = "taken without rights: no order, times, causes, metadata or block requests are known";
        warnings.push(Warning::new(WarningKind::Engine, text).hint("run as root to see them"));
    }
    if rows.info.lost > 0 {
        let text = format!("the trace lost {} of {} records", rows.info.lost, rows.info.lost + rows.info.records);
        warnings.push(Warning::new(WarningKind::LostRecords, text).hint("trace again while the machine is less busy"));
    }
    if totals.attributed_share < ENOUGH_ATTRIBUTED {
        let text = format!(
            "{} of {} read requests could not be attributed to a file or to metadata",
            totals.unattributed_requests, totals.requests
        );
        let hint = "files on btrfs, overlay or network file systems, and files deleted during the run, have no known \
            place on disk";
        warnings.push(Warning::new(WarningKind::Unattributed, text).hint(hint));
    }
    if totals.unfinished_requests > 0 {
        let text = format!("{} read requests were still on their way when the trace ended", totals.unfinished_requests);
        warnings.push(Warning::new(WarningKind::Note, text));
    }
    warnings
}

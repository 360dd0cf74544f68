//! From rows to the report: sums over files, sections, processes, causes and owners.

use super::{asked, needed::Needed, sound::sound, waiting, waiting::Flight};
use crate::{
    keyed::{NumberMap, page_key},
    report::*,
};
use model::{
    BlockRow, Bytes, Cause, FileId, FileKind, FileOffset, Nanos, Owner, PAGE, SectionRow, Served, TraceRows, Warning,
    WarningKind, shown,
};

/// Name of the engine that needs no rights.
const PROBE: &str = "probe";
/// Below this share of attributed requests the report warns.
const ENOUGH_ATTRIBUTED: f64 = 0.95;

/// A read request of the program, with all that the sums need.
struct Request<'a> {
    block: &'a BlockRow,
    /// Line of the report that it counts for.
    line: usize,
    /// Offset in that file, if it is a file's.
    offset: Option<FileOffset>,
    flight: Option<Flight>,
    share: f64,
}

/// Says what the rows mean.
pub fn report(rows: &TraceRows) -> Report {
    report_of(rows, None)
}

/// The same, held against what a start needs: `touched` is a run without read-ahead of the same program.
pub fn report_with_needed(rows: &TraceRows, touched: &TraceRows) -> Report {
    let _span = tracing::info_span!("report").entered();
    report_of(rows, Some(touched))
}

fn report_of(rows: &TraceRows, touched: Option<&TraceRows>) -> Report {
    let (rows, wrong) = sound(rows);
    let needed = touched.map(|touched| Needed::of(&rows, touched));
    let mut report = summary(&rows, needed.as_ref());
    if wrong > 0 {
        let text = format!("{wrong} rows of this trace make no sense and were left out");
        report.warnings.push(Warning::new(WarningKind::Note, text).hint("record again"));
    }
    report
}

/// The report of rows that make sense.
fn summary(rows: &TraceRows, needed: Option<&Needed>) -> Report {
    let mut files = file_lines(rows, needed);
    let requests = requests(rows, &mut files);
    for request in &requests {
        let file = &mut files[request.line];
        file.requests += 1;
        file.bytes_from_disk += request.block.len;
    }
    let mut waited = vec![0.0; files.len()];
    requests.iter().for_each(|request| waited[request.line] += request.share);
    files.iter_mut().zip(waited).for_each(|(file, share)| file.waiting = waiting::rounded(share));
    sections(rows, &requests, needed, &mut files);
    let known = files.iter().filter(|file| file.needed.is_some());
    let totals = Totals {
        needed: needed.map(|needed| needed.total),
        needed_of: needed.map(|_| known.map(|file| file.filled).sum()),
        need_unknown_files: files.iter().filter(|file| file.held_by.is_some()).count() as u64,
        ..totals(rows, &requests)
    };
    Report {
        version: REPORT_VERSION,
        info: rows.info.clone(),
        by_cause: by_cause(rows),
        by_owner: by_owner(&files),
        processes: processes(rows, &requests),
        fragmented: fragmented(&files),
        synced: synced(rows),
        opened_often: opened_often(rows),
        warnings: warnings(rows, &totals),
        totals,
        files,
    }
}

/// One line per file with what needs no requests.
fn file_lines(rows: &TraceRows, needed: Option<&Needed>) -> Vec<FileReport> {
    let opens: std::collections::HashMap<_, _> = rows.opens.iter().map(|open| (&open.path, open.count)).collect();
    let owned_by = owned_by(rows);
    let mut lines: Vec<FileReport> = (0..)
        .map(FileId)
        .zip(&rows.files)
        .zip(asked::bytes_by_file(rows))
        .map(|((id, file), asked)| FileReport {
            path: shown(&file.path),
            size: file.size,
            asked: Bytes(asked),
            needed: needed.and_then(|needed| needed.of_file(id)),
            held_by: needed.and_then(|needed| needed.held_by(id)).cloned(),
            extents: file.extents,
            opens: opens.get(&file.path).copied(),
            owned_by: owned_by[id.0 as usize].clone(),
            ..empty_line(file.owner, file.kind)
        })
        .collect();
    let mut touch = |file: model::FileId, at: Nanos| {
        let first = &mut lines[file.0 as usize].first_touch_ns;
        *first = Some(first.map_or(at, |known| known.min(at)));
    };
    rows.fills.iter().for_each(|fill| touch(fill.file, fill.at_ns));
    rows.reads.iter().for_each(|read| touch(read.file, read.at_ns));
    rows.faults.iter().for_each(|fault| touch(fault.file, fault.at_ns));
    rows.mmaps.iter().for_each(|map| touch(map.file, map.at_ns));
    rows.syncs.iter().for_each(|sync| touch(sync.file, sync.at_ns));
    rows.direct.iter().for_each(|direct| touch(direct.file, direct.at_ns));
    for direct in rows.direct.iter().filter(|direct| !direct.write) {
        let line = &mut lines[direct.file.0 as usize];
        // The last read of a file asks for more than there is.
        let most = if line.kind == FileKind::Regular { line.size.0.saturating_sub(direct.offset.0) } else { u64::MAX };
        line.direct += Bytes(direct.len.0.min(most));
    }
    rows.fills.iter().for_each(|fill| lines[fill.file.0 as usize].filled += fill.len);
    rows.syncs.iter().for_each(|sync| lines[sync.file.0 as usize].syncs += 1);
    lines
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

/// The program's read requests by issue time; adds lines for those that belong to no file.
fn requests<'a>(rows: &'a TraceRows, files: &mut Vec<FileReport>) -> Vec<Request<'a>> {
    let mut pages = PagesOnTheirWay::new(rows);
    let mut requests = Vec::new();
    for block in &rows.blocks {
        pages.take_in(block.start_ns);
        if block.write || block.pid.is_none() {
            continue;
        }
        let (file, offset) = match block.served {
            Served::File(file, offset) => (Some(file.0), Some(offset)),
            Served::Metadata => (pages.metadata_file(block), None),
            Served::Unknown => (None, None),
        };
        let place = offset.map(|offset| offset.0).or_else(|| pages.metadata_offset(file?, block));
        let asked = file.zip(place).and_then(|(file, offset)| pages.asked(file, offset, block.len));
        let flight =
            block.done_ns.map(|until| Flight { from: asked.unwrap_or(block.start_ns).min(block.start_ns), until });
        let line = file.map_or_else(|| line_without_file(files, rows.files.len(), block), |file| file as usize);
        requests.push(Request { block, line, offset, flight, share: 0.0 });
    }
    let nothing = Flight { from: Nanos(0), until: Nanos(0) };
    let flights: Vec<Flight> = requests.iter().map(|request| request.flight.unwrap_or(nothing)).collect();
    for (request, share) in requests.iter_mut().zip(waiting::fair_shares(&flights)) {
        request.share = share;
    }
    requests
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
struct PagesOnTheirWay<'a> {
    rows: &'a TraceRows,
    next: usize,
    fills: NumberMap<u64, Nanos>,
    /// Metadata files: number, device, first byte on disk, offset in the device, length.
    devices: Vec<(u32, u64, u64, u64, u64)>,
}

impl<'a> PagesOnTheirWay<'a> {
    fn new(rows: &'a TraceRows) -> Self {
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
        Self { rows, next: 0, fills: NumberMap::default(), devices: rows.extents.iter().filter_map(place).collect() }
    }

    fn take_in(&mut self, until: Nanos) {
        while let Some(fill) = self.rows.fills.get(self.next)
            && fill.at_ns <= until
        {
            for page in fill.offset.0 / PAGE..(fill.offset.0 + fill.len.0).div_ceil(PAGE) {
                self.fills.insert(page_key(fill.file.0, page), fill.at_ns);
            }
            self.next += 1;
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

/// The sums.
fn totals(rows: &TraceRows, requests: &[Request<'_>]) -> Totals {
    let flights: Vec<Flight> = requests.iter().filter_map(|request| request.flight).collect();
    let unattributed = requests.iter().filter(|request| request.block.served == Served::Unknown).count() as u64;
    let mut totals = Totals {
        filled: rows.fills.iter().map(|fill| fill.len).sum(),
        read_from_disk: requests.iter().map(|request| request.block.len).sum(),
        requests: requests.len() as u64,
        metadata_requests: requests.iter().filter(|request| request.block.served == Served::Metadata).count() as u64,
        waiting: waiting::union(&flights),
        unattributed_requests: unattributed,
        attributed_share: 1.0 - unattributed as f64 / requests.len().max(1) as f64,
        others_requests: rows.blocks.iter().filter(|block| block.pid.is_none()).count() as u64,
        unfinished_requests: requests.iter().filter(|request| request.flight.is_none()).count() as u64,
        ..Totals::default()
    };
    for block in rows.blocks.iter().filter(|block| block.write && block.pid.is_some()) {
        totals.writes += 1;
        totals.written += block.len;
    }
    let mut heads: NumberMap<u64, u64> = NumberMap::default();
    for request in requests {
        let (start, end) = (request.block.disk.0, request.block.disk.0 + request.block.len.0);
        if let Some(head) = heads.insert(request.block.dev, end)
            && head != start
        {
            totals.seeks += 1;
            totals.seek_distance += Bytes(head.abs_diff(start));
        }
    }
    totals
}

/// Gives fills and waiting times to ELF sections, by bytes.
fn sections(rows: &TraceRows, requests: &[Request<'_>], needed: Option<&Needed>, files: &mut [FileReport]) {
    let mut by_file: NumberMap<u32, Vec<(&SectionRow, u64, f64)>> = NumberMap::default();
    for section in rows.sections.iter().filter(|section| section.len.0 > 0) {
        by_file.entry(section.file.0).or_default().push((section, 0, 0.0));
    }
    by_file.values_mut().for_each(|sections| sections.sort_by_key(|(section, ..)| section.offset));
    for fill in &rows.fills {
        if let Some(sections) = by_file.get_mut(&fill.file.0) {
            overlaps(sections, fill.offset, fill.len, |(_, filled, _), bytes| *filled += bytes);
        }
    }
    for request in requests {
        if let (Some(offset), Some(sections)) = (request.offset, by_file.get_mut(&(request.line as u32))) {
            let per_byte = request.share / request.block.len.0.max(1) as f64;
            overlaps(sections, offset, request.block.len, |(_, _, share), bytes| *share += per_byte * bytes as f64);
        }
    }
    for (file, sections) in by_file {
        files[file as usize].sections = sections
            .into_iter()
            .filter(|(_, filled, share)| *filled > 0 || *share > 0.0)
            .map(|(section, filled, share)| SectionReport {
                name: section.name.clone(),
                size: section.len,
                filled: Bytes(filled),
                needed: needed.and_then(|needed| needed.of_section(section)),
                waiting: waiting::rounded(share),
            })
            .collect();
    }
}

/// Calls `each` with the sections that a range overlaps and by how many bytes. Sections are sorted by offset.
fn overlaps<'a, 's>(
    sections: &'s mut [(&'a SectionRow, u64, f64)],
    offset: FileOffset,
    len: Bytes,
    mut each: impl FnMut(&'s mut (&'a SectionRow, u64, f64), u64),
) {
    let (start, end) = (offset.0, offset.0.saturating_add(len.0));
    let behind = sections.partition_point(|(section, ..)| section.offset.0 < end);
    // Sections do not overlap in a file that a linker wrote: walking back may stop at the first that ends before.
    for entry in sections[..behind].iter_mut().rev() {
        let section_end = entry.0.offset.0.saturating_add(entry.0.len.0);
        if section_end <= start {
            break;
        }
        let bytes = section_end.min(end) - entry.0.offset.0.max(start);
        each(entry, bytes);
    }
}

fn by_cause(rows: &TraceRows) -> Vec<CauseReport> {
    let mut sums = std::collections::BTreeMap::<Cause, Bytes>::new();
    rows.fills.iter().for_each(|fill| *sums.entry(fill.cause).or_default() += fill.len);
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

fn processes(rows: &TraceRows, requests: &[Request<'_>]) -> Vec<ProcessReport> {
    let mut sums: NumberMap<u32, (Bytes, u64, f64)> = NumberMap::default();
    rows.fills.iter().for_each(|fill| sums.entry(fill.pid).or_default().0 += fill.len);
    for request in requests {
        let sum = sums.entry(request.block.pid.unwrap_or_default()).or_default();
        sum.1 += 1;
        sum.2 += request.share;
    }
    rows.processes
        .iter()
        .map(|process| {
            let (filled, requests, share) = sums.remove(&process.pid).unwrap_or_default();
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

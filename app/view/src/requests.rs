//! Which line of the report a request counts for, since when its pages were waited for, and why it was made.
//!
//! `io::report` decides the same while it sums up; a test keeps both in step, so that sums over the events of the page
//! are the document's figures.

use model::{BlockRow, Cause, FileKind, FillRow, Nanos, PAGE, Served, TraceRows};
use std::collections::HashMap;

/// What a request counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A file of the trace.
    File(u32),
    /// No file: metadata of a device of which no file is known, or nobody knows what.
    Without { metadata: bool, dev: u64 },
}

impl Line {
    /// Its place among the document's lines, which are the files of the trace and then what belongs to none of them;
    /// `None`: it is in no line, because others made it.
    pub fn place(self, files: usize, lines: &[&str]) -> Option<usize> {
        match self {
            Self::File(file) => Some(file as usize),
            Self::Without { metadata, dev } => {
                let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
                let path = match metadata {
                    true => format!("(metadata of device {major}:{minor})"),
                    false => format!("(not attributed, device {major}:{minor})"),
                };
                lines.get(files..)?.iter().position(|line| *line == path).map(|place| files + place)
            }
        }
    }
}

/// What the page says about a request besides what the tracer saw.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it counts for.
    pub line: Line,
    /// When its pages were put into the cache, to wait for it; at the latest when it was issued.
    pub from: Nanos,
    /// Why it was made: for a read of a file by what its pages waited for.
    pub cause: Cause,
}

/// Pages that wait for a request.
pub struct Pages {
    waiting: HashMap<(u32, u64), (Nanos, Cause)>,
    metadata: Vec<Metadata>,
}

/// Where a metadata file lies on its disk.
struct Metadata {
    file: u32,
    dev: u64,
    disk: u64,
    offset: u64,
    len: u64,
}

impl Metadata {
    fn offset_of(&self, block: &BlockRow) -> Option<u64> {
        let covers = (self.disk..self.disk.saturating_add(self.len)).contains(&block.disk.0);
        covers.then(|| block.disk.0 - self.disk + self.offset)
    }
}

impl Pages {
    /// None waits yet. Of the rows, files and extents are used.
    pub fn of(rows: &TraceRows) -> Self {
        let place = |extent: &model::ExtentRow| {
            let file = rows.files.get(extent.file.0 as usize).filter(|file| file.kind == FileKind::Metadata)?;
            let (disk, offset) = (extent.disk.0, extent.offset.0);
            Some(Metadata { file: extent.file.0, dev: file.dev, disk, offset, len: extent.len.0 })
        };
        Self { waiting: HashMap::new(), metadata: rows.extents.iter().filter_map(place).collect() }
    }

    /// Says what the next request is about: by issue time, after the fills that came before its issue.
    pub fn request(&mut self, block: &BlockRow) -> Request {
        let place = match block.served {
            Served::File(file, offset) => Some((file.0, Some(offset.0))),
            Served::Metadata => self.metadata_place(block),
            Served::Unknown => None,
        };
        let without = Line::Without { metadata: block.served == Served::Metadata, dev: block.dev };
        let line = place.map_or(without, |(file, _)| Line::File(file));
        let counts = !block.write && block.pid.is_some();
        let found = match place {
            Some((file, Some(offset))) if counts => self.take_out(file, offset, block.len.0),
            _ => None,
        };
        let cause = match (block.write, block.served == Served::Metadata) {
            (true, _) => Cause::Write,
            (_, true) => Cause::Metadata,
            _ => found.map_or(Cause::Unknown, |(_, cause)| cause),
        };
        let from = found.map_or(block.start_ns, |(from, _)| from.min(block.start_ns));
        Request { line, from, cause }
    }

    /// Pages that came in wait from now on.
    pub fn fill(&mut self, fill: &FillRow) {
        for page in fill.offset.0 / PAGE..fill.offset.0.saturating_add(fill.len.0).div_ceil(PAGE) {
            self.waiting.insert((fill.file.0, page), (fill.at_ns, fill.cause));
        }
    }

    /// When the last page of a range began to wait, and why they do: an asked page says more than read-ahead around it.
    fn take_out(&mut self, file: u32, offset: u64, len: u64) -> Option<(Nanos, Cause)> {
        let mut found: Option<(Nanos, Cause)> = None;
        for page in offset / PAGE..offset.saturating_add(len).div_ceil(PAGE) {
            if let Some((at, cause)) = self.waiting.remove(&(file, page)) {
                found = Some(found.map_or((at, cause), |(last, best)| (last.max(at), asked_first(best, cause))));
            }
        }
        found
    }

    /// The metadata file that a request reads: the one whose page waits for it, else the one that lies there.
    fn metadata_place(&self, block: &BlockRow) -> Option<(u32, Option<u64>)> {
        let places = || self.metadata.iter().filter_map(|it| Some((it, it.offset_of(block)?)));
        let waits = |file: u32, offset: u64| self.waiting.contains_key(&(file, offset / PAGE));
        let by_page = places().find(|(it, offset)| waits(it.file, *offset));
        let by_device = || places().find(|(it, _)| it.dev == block.dev);
        by_page.or_else(by_device).or_else(|| places().next()).map(|(it, offset)| (it.file, Some(offset)))
    }
}

/// Of two causes the one that says more.
fn asked_first(a: Cause, b: Cause) -> Cause {
    let rank = |cause| match cause {
        Cause::Fault => 0,
        Cause::Read => 1,
        Cause::ReadAhead => 2,
        Cause::Metadata => 3,
        Cause::Write => 4,
        Cause::Unknown => 5,
    };
    if rank(b) < rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{LAPTOP, Wish, rows};

    /// All block requests by issue time.
    struct All<'a> {
        pages: Pages,
        files: usize,
        lines: &'a [&'a str],
        found: Vec<(Request, Option<usize>)>,
    }

    impl model::Flow for All<'_> {
        fn fill(&mut self, fill: &FillRow) {
            self.pages.fill(fill);
        }
        fn read(&mut self, _: &model::ReadRow) {}
        fn fault(&mut self, _: &model::FaultRow) {}
        fn block(&mut self, block: &BlockRow) {
            let request = self.pages.request(block);
            self.found.push((request, request.line.place(self.files, self.lines)));
        }
    }

    fn requests<'a>(rows: &'a TraceRows, lines: &[&str]) -> Vec<(&'a BlockRow, Request, Option<usize>)> {
        let mut all = All { pages: Pages::of(rows), files: rows.files.len(), lines, found: Vec::new() };
        rows.flow(&mut all);
        rows.blocks.iter().zip(all.found).map(|(block, (request, line))| (block, request, line)).collect()
    }

    /// What the document says about the same rows.
    fn lines(report: &io::Report) -> Vec<&str> {
        report.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn requests_count_for_the_lines_that_the_report_counts_them_for() {
        let rows = rows(Wish { events: 12_000, ..LAPTOP });
        let report = io::report(&rows);
        let mut sums = vec![(0, 0); report.files.len()];
        for (block, _, line) in requests(&rows, &lines(&report)) {
            if let Some(line) = line.filter(|_| !block.write && block.pid.is_some()) {
                sums[line] = (sums[line].0 + 1, sums[line].1 + block.len.0);
            }
        }
        let wanted: Vec<_> = report.files.iter().map(|file| (file.requests, file.bytes_from_disk.0)).collect();
        assert_eq!(sums, wanted);
        assert!(report.files.len() > rows.files.len(), "the rows hold requests that belong to no file");
    }

    #[test]
    fn a_request_waits_since_its_last_page_came_and_for_what_was_asked() {
        let rows = rows(Wish { events: 3_000, ..LAPTOP });
        let report = io::report(&rows);
        let all = requests(&rows, &lines(&report));
        assert_eq!(all.len(), rows.blocks.len());
        for (block, request, _) in &all {
            assert!(request.from <= block.start_ns);
            match (block.write, &block.served) {
                (true, _) => assert_eq!(request.cause, Cause::Write),
                (_, Served::Metadata) => assert_eq!(request.cause, Cause::Metadata),
                (_, Served::Unknown) => assert_eq!(request.cause, Cause::Unknown),
                (_, Served::File(..)) => {
                    assert!(matches!(request.cause, Cause::Read | Cause::Fault | Cause::ReadAhead))
                }
            }
        }
        for cause in [Cause::Read, Cause::Fault, Cause::ReadAhead] {
            assert!(all.iter().any(|(_, request, _)| request.cause == cause), "{cause:?}");
        }
    }

    #[test]
    fn without_the_documents_lines_requests_of_no_file_have_none() {
        let rows = rows(Wish { events: 3_000, ..LAPTOP });
        let unknown = requests(&rows, &[]).iter().filter(|(_, _, line)| line.is_none()).count();
        assert_eq!(unknown, rows.blocks.iter().filter(|block| block.served == Served::Unknown).count());
    }
}

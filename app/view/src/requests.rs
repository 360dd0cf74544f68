//! Which line of the report a request counts for, since when its pages were waited for, and why it was made.
//!
//! `io::report` decides the same while it sums up; a test keeps both in step, so that sums over the events of the page
//! are the document's figures.

use model::{BlockRow, Cause, FileKind, Nanos, PAGE, Served, TraceRows};
use std::collections::HashMap;

/// A request with what the page says about it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// As the tracer saw it.
    pub block: &'a BlockRow,
    /// Line of the document's `traces[].report.files`; `None`: it is in none, because others made it.
    pub line: Option<usize>,
    /// When its pages were put into the cache, to wait for it; at the latest when it was issued.
    pub from: Nanos,
    /// Why it was made: for a read of a file by what its pages waited for.
    pub cause: Cause,
}

/// All block requests by issue time. `lines` are the paths of the document's lines: those behind the files of the trace
/// hold what belongs to no file.
pub fn requests<'a>(rows: &'a TraceRows, lines: &[&str]) -> Vec<Request<'a>> {
    let mut pages = Pages::new(rows);
    rows.blocks.iter().map(|block| pages.request(block, lines)).collect()
}

/// Pages that wait for a request.
struct Pages<'a> {
    rows: &'a TraceRows,
    next: usize,
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

impl<'a> Pages<'a> {
    fn new(rows: &'a TraceRows) -> Self {
        let place = |extent: &model::ExtentRow| {
            let file = rows.files.get(extent.file.0 as usize).filter(|file| file.kind == FileKind::Metadata)?;
            let (disk, offset) = (extent.disk.0, extent.offset.0);
            Some(Metadata { file: extent.file.0, dev: file.dev, disk, offset, len: extent.len.0 })
        };
        Self { rows, next: 0, waiting: HashMap::new(), metadata: rows.extents.iter().filter_map(place).collect() }
    }

    fn request(&mut self, block: &'a BlockRow, lines: &[&str]) -> Request<'a> {
        self.take_in(block.start_ns);
        let place = match block.served {
            Served::File(file, offset) => Some((file.0, Some(offset.0))),
            Served::Metadata => self.metadata_place(block),
            Served::Unknown => None,
        };
        let line = place.map(|(file, _)| file as usize).or_else(|| self.line_without_file(block, lines));
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
        Request { block, line, from, cause }
    }

    fn take_in(&mut self, until: Nanos) {
        while let Some(fill) = self.rows.fills.get(self.next).filter(|fill| fill.at_ns <= until) {
            for page in fill.offset.0 / PAGE..fill.offset.0.saturating_add(fill.len.0).div_ceil(PAGE) {
                self.waiting.insert((fill.file.0, page), (fill.at_ns, fill.cause));
            }
            self.next += 1;
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

    /// The line of requests that belong to no file of the trace, as the document calls it.
    fn line_without_file(&self, block: &BlockRow, lines: &[&str]) -> Option<usize> {
        let (major, minor) = (rustix::fs::major(block.dev), rustix::fs::minor(block.dev));
        let path = match block.served {
            Served::Metadata => format!("(metadata of device {major}:{minor})"),
            _ => format!("(not attributed, device {major}:{minor})"),
        };
        let known = self.rows.files.len();
        lines.get(known..)?.iter().position(|line| *line == path).map(|place| known + place)
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

    /// What the document says about the same rows.
    fn lines(report: &io::Report) -> Vec<&str> {
        report.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn requests_count_for_the_lines_that_the_report_counts_them_for() {
        let rows = rows(Wish { events: 12_000, ..LAPTOP });
        let report = io::report(&rows);
        let mut sums = vec![(0, 0); report.files.len()];
        for request in requests(&rows, &lines(&report)) {
            if let Some(line) = request.line.filter(|_| !request.block.write && request.block.pid.is_some()) {
                sums[line] = (sums[line].0 + 1, sums[line].1 + request.block.len.0);
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
        for request in &all {
            assert!(request.from <= request.block.start_ns);
            match (request.block.write, &request.block.served) {
                (true, _) => assert_eq!(request.cause, Cause::Write),
                (_, Served::Metadata) => assert_eq!(request.cause, Cause::Metadata),
                (_, Served::Unknown) => assert_eq!(request.cause, Cause::Unknown),
                (_, Served::File(..)) => {
                    assert!(matches!(request.cause, Cause::Read | Cause::Fault | Cause::ReadAhead))
                }
            }
        }
        for cause in [Cause::Read, Cause::Fault, Cause::ReadAhead] {
            assert!(all.iter().any(|request| request.cause == cause), "{cause:?}");
        }
    }

    #[test]
    fn without_the_documents_lines_requests_of_no_file_have_none() {
        let rows = rows(Wish { events: 3_000, ..LAPTOP });
        let unknown = requests(&rows, &[]).iter().filter(|request| request.line.is_none()).count();
        assert_eq!(unknown, rows.blocks.iter().filter(|block| block.served == Served::Unknown).count());
    }
}

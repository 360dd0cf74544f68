//! Which pages the program really asked for, as far as the trace can tell.

use model::{FaultRow, FileKind, FileRow, PAGE, ReadRow};

/// What was asked for of each file.
///
/// Ranges of reads and faults on one page are exact. When a fault is served from the cache, the kernel maps up
/// to 16 pages around and does not say which one was touched: of such a window at least one page was asked
/// for. The fewest pages that put one into every window (and into no window that has an exact one) are found
/// by taking the last page of the window that ends first, then leaving out all windows that hold it.
pub(super) struct Asked {
    exact: Vec<Vec<(u64, u64)>>,
    windows: Vec<Vec<(u64, u64)>>,
}

impl Asked {
    pub(super) fn of(files: usize) -> Self {
        Self { exact: vec![Vec::new(); files], windows: vec![Vec::new(); files] }
    }

    pub(super) fn read(&mut self, files: &[FileRow], read: &ReadRow) {
        let ends = (read.offset.0, read.offset.0.saturating_add(read.len.0));
        let place = read.file.0 as usize;
        self.exact[place].push(clipped(&files[place], ends));
    }

    pub(super) fn fault(&mut self, files: &[FileRow], fault: &FaultRow) {
        let ends = (fault.offset.0, fault.offset.0.saturating_add(fault.len.0));
        let place = fault.file.0 as usize;
        let list = if fault.len.0 <= PAGE { &mut self.exact } else { &mut self.windows };
        list[place].push(clipped(&files[place], ends));
    }

    /// Per file: bytes of the pages that were asked for, at least.
    pub(super) fn bytes_by_file(self) -> Vec<u64> {
        let of_file = |(exact, windows)| bytes(model::joined(exact), windows);
        self.exact.into_iter().zip(self.windows).map(of_file).collect()
    }
}

/// The range inside the file: a read may ask for more than there is.
fn clipped(row: &FileRow, (start, end): (u64, u64)) -> (u64, u64) {
    match row.kind {
        FileKind::Regular => {
            let size = row.size.0.next_multiple_of(PAGE);
            (start.min(size), end.min(size))
        }
        _ => (start, end),
    }
}

/// Bytes of exact ranges and one page for each window that must have one.
fn bytes(exact: Vec<(u64, u64)>, mut windows: Vec<(u64, u64)>) -> u64 {
    let known: u64 = exact.iter().map(|(start, end)| end - start).sum();
    windows.retain(|(start, end)| start < end);
    windows.sort_unstable_by_key(|(_, end)| *end);
    let (mut touched, mut last) = (0, None);
    for (start, end) in windows {
        let holds_exact = exact.get(exact.partition_point(|range| range.1 <= start)).is_some_and(|range| range.0 < end);
        let holds_last = last.is_some_and(|last| start <= last);
        if !holds_exact && !holds_last {
            touched += 1;
            last = Some(end - 1);
        }
    }
    known + touched * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of ranges drawn as `#`, one line per range.
    fn ranges(picture: &str) -> Vec<(u64, u64)> {
        let lines = picture.lines().map(str::trim).filter(|line| line.contains('#'));
        let page = |at: Option<usize>| at.expect("the line has a #") as u64;
        lines.map(|line| (page(line.find('#')) * PAGE, (page(line.rfind('#')) + 1) * PAGE)).collect()
    }

    fn pages(exact: &str, windows: &str) -> u64 {
        bytes(model::joined(ranges(exact)), ranges(windows)) / PAGE
    }

    #[test]
    fn exact_pages_count_once() {
        assert_eq!(pages("##....\n.###..", ""), 4);
    }

    #[test]
    fn a_window_counts_as_one_page() {
        assert_eq!(pages("", "####............"), 1);
    }

    #[test]
    fn a_window_around_an_exact_page_adds_nothing() {
        assert_eq!(pages("..#.............", "####............"), 1);
        assert_eq!(pages("....#...........", "####............"), 2);
    }

    #[test]
    fn the_same_window_of_two_processes_is_one_page() {
        assert_eq!(pages("", "####....\n####...."), 1);
    }

    #[test]
    fn fewest_pages_for_overlapping_windows() {
        // One page for the first three, one for the last.
        assert_eq!(pages("", "####....\n..####..\n...##...\n......##"), 2);
    }
}

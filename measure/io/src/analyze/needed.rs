//! What a start needed of each file, told by another run of the same program: one that touched pages without read-ahead.

use crate::keyed::NumberMap;
use model::{Bytes, FileId, FileKind, FileRow, SectionRow, TouchEngine, TraceRows};
use std::collections::HashMap;
use std::path::Path;

/// Longer than any file, and far from overflowing a sum of two.
const LONGEST: u64 = 1 << 60;

/// The pages that were needed, by the files of the trace that they are held against.
pub(super) struct Needed {
    /// By file of the trace: sorted, disjoint ranges (start, end); `None`: nothing is read from a disk for it.
    ranges: Vec<Option<Vec<(u64, u64)>>>,
    /// In all files of the other run, also of those that the trace does not have.
    pub(super) total: Bytes,
}

impl Needed {
    /// Finds the files of the trace again in the other run: by device and inode, else by path.
    pub(super) fn of(rows: &TraceRows, touched: &TraceRows) -> Self {
        let mut by_file: NumberMap<u32, Vec<(u64, u64)>> = NumberMap::default();
        let pages = touched.touches.iter().filter(|row| row.engine == TouchEngine::Page);
        for row in pages.filter(|row| row.offset.0 < LONGEST && row.len.0 < LONGEST) {
            by_file.entry(row.file.0).or_default().push((row.offset.0, row.offset.0 + row.len.0));
        }
        let by_file: NumberMap<u32, Vec<(u64, u64)>> =
            by_file.into_iter().map(|(file, ranges)| (file, model::joined(ranges))).collect();
        let numbered = || (0_u32..).zip(&touched.files);
        let by_inode: HashMap<(u64, u64), u32> =
            numbered().map(|(number, file)| ((file.dev, file.ino), number)).collect();
        let by_path: HashMap<&Path, u32> = numbered().map(|(number, file)| (file.path.as_path(), number)).collect();
        let again = |file: &FileRow| by_inode.get(&(file.dev, file.ino)).or_else(|| by_path.get(file.path.as_path()));
        let ranges = |file: &FileRow| {
            let on_disk = matches!(file.kind, FileKind::Regular | FileKind::Metadata);
            on_disk.then(|| again(file).and_then(|number| by_file.get(number)).cloned().unwrap_or_default())
        };
        Self {
            ranges: rows.files.iter().map(ranges).collect(),
            total: by_file.values().map(|ranges| sum(ranges)).sum(),
        }
    }

    /// Bytes of a file.
    pub(super) fn of_file(&self, file: FileId) -> Option<Bytes> {
        self.ranges.get(file.0 as usize)?.as_deref().map(sum)
    }

    /// Bytes of a section; its first and last page are cut at its borders.
    pub(super) fn of_section(&self, section: &SectionRow) -> Option<Bytes> {
        let ranges = self.ranges.get(section.file.0 as usize)?.as_deref()?;
        let (start, end) = (section.offset.0, section.offset.0.saturating_add(section.len.0));
        let first = ranges.partition_point(|(_, behind)| *behind <= start);
        let inside = ranges[first..].iter().take_while(|(from, _)| *from < end);
        Some(Bytes(inside.map(|(from, behind)| (*behind).min(end) - (*from).max(start)).sum()))
    }
}

fn sum(ranges: &[(u64, u64)]) -> Bytes {
    Bytes(ranges.iter().map(|(start, end)| end - start).sum())
}

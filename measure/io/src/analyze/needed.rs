//! What a start needed of each file, told by another run of the same program: one that touched pages without
//! read-ahead.
//!
//! There are three answers: so much; nothing to tell (it lies in memory, or is the file system's metadata); and
//! unknown. Pages of a file that other processes map stay in memory when the caches are emptied, so they do not come in
//! though they are needed.

use crate::keyed::NumberMap;
use crate::report::HeldBy;
use model::{Bytes, FileId, FileKind, FileRow, HeldRow, SectionRow, TouchEngine, TraceRows};
use std::collections::HashMap;
use std::path::Path;

/// Longer than any file, and far from overflowing a sum of two.
const LONGEST: u64 = 1 << 60;

/// The pages that were needed, by the files of the trace that they are held against.
pub(super) struct Needed {
    /// By file of the trace: sorted, disjoint ranges (start, end); `None`: unknown, or nothing to tell.
    ranges: Vec<Option<Vec<(u64, u64)>>>,
    /// By file of the trace: who else mapped it in either run, where that leaves the need unknown.
    held: Vec<Option<HeldBy>>,
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
        let (here, there) = (held_by(rows), held_by(touched));
        let held = |(number, file): (u32, &FileRow)| {
            let then = again(file).and_then(|number| there.get(number));
            let most = here.get(&number).into_iter().chain(then).max_by_key(|held| held.processes);
            most.cloned().filter(|_| file.kind == FileKind::Regular)
        };
        let held: Vec<Option<HeldBy>> = (0_u32..).zip(&rows.files).map(held).collect();
        let ranges = |(file, held): (&FileRow, &Option<HeldBy>)| {
            let known = file.kind == FileKind::Regular && held.is_none();
            known.then(|| again(file).and_then(|number| by_file.get(number)).cloned().unwrap_or_default())
        };
        Self { ranges: rows.files.iter().zip(&held).map(ranges).collect(), held }
    }

    /// Who else mapped a file, where that leaves unknown what is needed of it.
    pub(super) fn held_by(&self, file: FileId) -> Option<&HeldBy> {
        self.held.get(file.0 as usize)?.as_ref()
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

/// Files of a run that others mapped.
fn held_by(rows: &TraceRows) -> NumberMap<u32, HeldBy> {
    let row = |row: &HeldRow| (row.file.0, HeldBy { processes: row.processes, example: row.example.clone() });
    rows.held.iter().map(row).collect()
}

fn sum(ranges: &[(u64, u64)]) -> Bytes {
    Bytes(ranges.iter().map(|(start, end)| end - start).sum())
}

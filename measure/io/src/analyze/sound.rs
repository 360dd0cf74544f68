//! Rows come from a recording that somebody else may have written or damaged: what makes no sense is left out
//! before anything is summed, so that no figure and no loop runs away.

use model::{BlockRow, Bytes, FaultRow, FileId, FileOffset, FillRow, ReadRow, Served, TraceRows};
use std::borrow::Cow;

/// Longer than any file or disk, and far from overflowing a sum of two.
const LONGEST: u64 = 1 << 60;
/// More than the page cache of any machine takes in at once of one file: each page of it is looked at.
const LARGEST_FILL: u64 = 1 << 36;
/// The kernel counts the bytes of a request with 32 bits (`struct bvec_iter`).
const LARGEST_REQUEST: u64 = u32::MAX as u64;

/// The rows that make sense, and how many did not.
pub(super) fn sound(rows: &TraceRows) -> (Cow<'_, TraceRows>, usize) {
    let files = rows.files.len();
    let fills = rows.fills.iter().filter(|row| !is_fill(files, row)).count();
    let reads = rows.reads.iter().filter(|row| !is_read(files, row)).count();
    let faults = rows.faults.iter().filter(|row| !is_fault(files, row)).count();
    let blocks = rows.blocks.iter().filter(|row| !is_request(files, row)).count();
    let wrong = count_wrong(rows) + fills + reads + faults + blocks;
    if wrong == 0 {
        return (Cow::Borrowed(rows), 0);
    }
    let mut kept = rows.clone();
    retain(&mut kept);
    kept.fills.retain(|row| is_fill(files, row));
    kept.reads.retain(|row| is_read(files, row));
    kept.faults.retain(|row| is_fault(files, row));
    kept.blocks.retain(|row| is_request(files, row));
    (Cow::Owned(kept), wrong)
}

/// The same of a trace whose fills, reads, faults and requests come one by one, and are looked at then.
pub(super) fn sound_head(rows: &TraceRows) -> (Cow<'_, TraceRows>, usize) {
    let wrong = count_wrong(rows);
    if wrong == 0 {
        return (Cow::Borrowed(rows), 0);
    }
    let mut kept = rows.clone();
    retain(&mut kept);
    (Cow::Owned(kept), wrong)
}

fn retain(kept: &mut TraceRows) {
    let files = kept.files.len();
    kept.sections.retain(|row| in_file(files, row.file, row.offset, row.len));
    kept.extents.retain(|row| in_file(files, row.file, row.offset, row.len) && row.disk.0 < LONGEST);
    kept.mmaps.retain(|row| row.file.0 < files as u32);
    kept.syncs.retain(|row| row.file.0 < files as u32);
    kept.direct.retain(|row| in_file(files, row.file, row.offset, row.len));
}

fn count_wrong(rows: &TraceRows) -> usize {
    let files = rows.files.len();
    let sections = rows.sections.iter().filter(|row| !in_file(files, row.file, row.offset, row.len)).count();
    let extents =
        rows.extents.iter().filter(|row| !in_file(files, row.file, row.offset, row.len) || row.disk.0 >= LONGEST);
    let mmaps = rows.mmaps.iter().filter(|row| row.file.0 >= files as u32).count();
    let syncs = rows.syncs.iter().filter(|row| row.file.0 >= files as u32).count();
    let direct = rows.direct.iter().filter(|row| !in_file(files, row.file, row.offset, row.len)).count();
    sections + extents.count() + mmaps + syncs + direct
}

pub(super) fn is_fill(files: usize, row: &FillRow) -> bool {
    in_file(files, row.file, row.offset, row.len) && row.len.0 <= LARGEST_FILL
}

pub(super) fn is_read(files: usize, row: &ReadRow) -> bool {
    in_file(files, row.file, row.offset, row.len)
}

pub(super) fn is_fault(files: usize, row: &FaultRow) -> bool {
    in_file(files, row.file, row.offset, row.len)
}

fn in_file(files: usize, file: FileId, offset: FileOffset, len: Bytes) -> bool {
    (file.0 as usize) < files && offset.0 < LONGEST && len.0 < LONGEST
}

pub(super) fn is_request(files: usize, row: &BlockRow) -> bool {
    let served = match row.served {
        Served::File(file, offset) => in_file(files, file, offset, row.len),
        Served::Metadata | Served::Unknown => true,
    };
    served && row.disk.0 < LONGEST && row.len.0 <= LARGEST_REQUEST
}

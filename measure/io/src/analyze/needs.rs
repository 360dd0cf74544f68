//! What a start needs: the ranges that a cold start brought into the cache.

use model::{Bytes, Cause, FileKind, FileOffset, Need, TraceRows};

/// Fills by file as sorted, disjoint ranges, in the order of first touch. Left out is what a cold start does not
/// read: what the program wrote, files in memory, files that are gone. The block device stands for its metadata.
pub fn needs(rows: &TraceRows) -> Vec<Need> {
    let (rows, _) = super::sound::sound(rows);
    let mut ranges: Vec<Vec<(u64, u64)>> = vec![Vec::new(); rows.files.len()];
    for fill in rows.fills.iter().filter(|fill| fill.cause != Cause::Write) {
        ranges[fill.file.0 as usize].push((fill.offset.0, fill.offset.0 + fill.len.0));
    }
    rows.files
        .iter()
        .zip(ranges)
        .filter(|(file, ranges)| matches!(file.kind, FileKind::Regular | FileKind::Metadata) && !ranges.is_empty())
        .map(|(file, ranges)| Need {
            path: file.path.clone(),
            kind: file.kind,
            owner: file.owner,
            ranges: model::joined(ranges)
                .into_iter()
                .map(|(start, end)| (FileOffset(start), Bytes(end - start)))
                .collect(),
        })
        .collect()
}

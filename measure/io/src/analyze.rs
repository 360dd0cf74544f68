//! Joins fills, reads, faults and block requests, and says what they mean. Pure: no file, no clock,
//! no environment; the same arguments always give the same rows.

mod asked;
mod blocks;
mod causes;
mod disk;
mod files;
mod needed;
mod needs;
mod sound;
mod summary;
mod waiting;

#[cfg(test)]
pub(crate) mod picture;
#[cfg(test)]
mod tests;

pub use needs::needs;
pub use summary::{Sums, report, report_with_needed};

use crate::{
    raw::{Inode, RawTrace, Span},
    resolve::Resolved,
};
use files::Files;
use model::{
    Bytes, Cause, DirectRow, ExtentRow, FaultRow, FileId, FileOffset, FillRow, HeldRow, MmapRow, OpenRow, PAGE,
    ProcessRow, ReadRow, RelocationRow, SectionRow, SyncRow, TraceRows, WakeRow,
};
use std::collections::{BTreeMap, BTreeSet};

/// Gives each fill its cause and each block request the file range that it served.
pub fn attribute(raw: &RawTrace, resolved: &Resolved) -> TraceRows {
    let _span = tracing::info_span!("attribute").entered();
    let files = Files::number(raw, resolved);
    let mut served = blocks::serve_reads(raw, &files);
    let causes = causes::of_fills(raw, &files, &served);
    let missed = causes::missed_faults(raw, &files, &served, &causes);
    blocks::serve_writes(raw, &files, &causes, &mut served);
    TraceRows {
        info: raw.info.clone(),
        files: files.all.iter().map(|file| file.row.clone()).collect(),
        sections: section_rows(&files),
        extents: extent_rows(&files),
        fills: fill_rows(raw, &files, &causes),
        reads: read_rows(raw, &files),
        faults: fault_rows(raw, &files, &missed),
        blocks: served.blocks,
        processes: process_rows(raw),
        mmaps: mmap_rows(raw, &files),
        opens: open_rows(raw, resolved),
        syncs: sync_rows(raw, &files),
        held: held_rows(resolved, &files),
        direct: direct_rows(raw, &files),
        wakes: (raw.wakes.iter())
            .map(|wake| WakeRow { at_ns: wake.at, pid: wake.pid, tid: wake.tid, by_tid: wake.by })
            .collect(),
        file_systems: resolved.file_systems.clone(),
        relocations: relocation_rows(raw, &files),
        ..TraceRows::default()
    }
}

/// Where a span begins in its file.
fn offset(span: Span) -> FileOffset {
    FileOffset(span.first.saturating_mul(PAGE))
}

/// How long a span is.
fn len(span: Span) -> Bytes {
    Bytes(span.pages.saturating_mul(PAGE))
}

/// Of each file whose code was mapped, once.
fn relocation_rows(raw: &RawTrace, files: &Files) -> Vec<RelocationRow> {
    let mapped: BTreeSet<FileId> = raw.mmaps.iter().filter(|map| map.exec).map(|map| files.id(map.inode)).collect();
    let row = |file: FileId| files.get(file.0).relocations.map(|entries| RelocationRow { file, entries });
    mapped.into_iter().filter_map(row).collect()
}

fn section_rows(files: &Files) -> Vec<SectionRow> {
    files
        .iter()
        .flat_map(|(file, known)| {
            known.sections.iter().map(move |section| SectionRow {
                file,
                name: section.name.clone(),
                offset: section.offset,
                len: section.len,
            })
        })
        .collect()
}

fn extent_rows(files: &Files) -> Vec<ExtentRow> {
    files
        .iter()
        .flat_map(|(file, known)| {
            known.extents.iter().map(move |extent| ExtentRow {
                file,
                offset: extent.offset,
                disk: extent.disk,
                len: extent.len,
            })
        })
        .collect()
}

fn fill_rows(raw: &RawTrace, files: &Files, causes: &[Cause]) -> Vec<FillRow> {
    raw.fills
        .iter()
        .zip(causes)
        .map(|(fill, cause)| FillRow {
            at_ns: fill.at,
            pid: fill.pid,
            tid: fill.tid,
            file: files.id(fill.inode),
            offset: offset(fill.span),
            len: len(fill.span),
            cause: *cause,
        })
        .collect()
}

fn read_rows(raw: &RawTrace, files: &Files) -> Vec<ReadRow> {
    raw.reads
        .iter()
        .map(|read| ReadRow {
            at_ns: read.at,
            pid: read.pid,
            tid: read.tid,
            file: files.id(read.inode),
            offset: offset(read.span),
            len: len(read.span),
        })
        .collect()
}

fn fault_rows(raw: &RawTrace, files: &Files, missed: &[bool]) -> Vec<FaultRow> {
    raw.faults
        .iter()
        .zip(missed)
        .map(|(fault, missed)| FaultRow {
            at_ns: fault.at,
            pid: fault.pid,
            tid: fault.tid,
            file: files.id(fault.inode),
            offset: offset(fault.span),
            len: len(fault.span),
            missed: *missed,
        })
        .collect()
}

fn process_rows(raw: &RawTrace) -> Vec<ProcessRow> {
    raw.processes
        .iter()
        .map(|process| ProcessRow {
            pid: process.pid,
            parent: process.parent,
            comm: process.comm.clone(),
            exe: process.exe.clone(),
            start_ns: process.start,
            end_ns: process.end,
        })
        .collect()
}

fn mmap_rows(raw: &RawTrace, files: &Files) -> Vec<MmapRow> {
    raw.mmaps
        .iter()
        .map(|map| MmapRow {
            at_ns: map.at,
            pid: map.pid,
            file: files.id(map.inode),
            offset: FileOffset(map.offset),
            len: map.len,
            exec: map.exec,
        })
        .collect()
}

fn sync_rows(raw: &RawTrace, files: &Files) -> Vec<SyncRow> {
    raw.syncs
        .iter()
        .map(|sync| SyncRow {
            at_ns: sync.at,
            pid: sync.pid,
            file: files.id(sync.inode.unwrap_or_default()),
            took_ns: sync.done.map(|done| done - sync.at),
        })
        .collect()
}

fn direct_rows(raw: &RawTrace, files: &Files) -> Vec<DirectRow> {
    raw.direct
        .iter()
        .map(|direct| DirectRow {
            at_ns: direct.at,
            pid: direct.pid,
            tid: direct.tid,
            file: files.id(direct.inode),
            offset: FileOffset(direct.offset),
            len: direct.len,
            write: direct.write,
        })
        .collect()
}

/// Files that others map, in the order of the files.
fn held_rows(resolved: &Resolved, files: &Files) -> Vec<HeldRow> {
    let row = |(inode, (processes, example)): (&Inode, &(u32, String))| {
        let file = files.number_of(*inode)?;
        Some(HeldRow { file, processes: *processes, example: example.clone() })
    };
    let mut rows: Vec<HeldRow> = resolved.held.iter().filter_map(row).collect();
    rows.sort_by_key(|row| row.file);
    rows
}

/// Opens by path, the most often opened first.
fn open_rows(raw: &RawTrace, resolved: &Resolved) -> Vec<OpenRow> {
    let mut counts = BTreeMap::new();
    for open in &raw.opens {
        let known = open.inode.and_then(|inode| resolved.files.get(&inode)).map(|file| file.row.path.clone());
        if let Some(path) = open.path.clone().or(known) {
            *counts.entry(path).or_insert(0) += open.count;
        }
    }
    let mut rows: Vec<OpenRow> = counts.into_iter().map(|(path, count)| OpenRow { path, count }).collect();
    rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.path.cmp(&b.path)));
    rows
}

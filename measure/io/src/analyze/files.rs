//! Numbers the files of a trace in the order of their first touch.

use crate::{
    keyed::NumberMap,
    raw::{Inode, RawTrace},
    resolve::{Resolved, ResolvedFile},
};
use model::{FileId, FileKind, Nanos};

/// All files that the process tree touched.
pub(super) struct Files {
    /// By number.
    pub(super) all: Vec<ResolvedFile>,
    numbers: NumberMap<Inode, u32>,
}

impl Files {
    /// Numbers all files of the trace.
    pub(super) fn number(raw: &RawTrace, resolved: &Resolved) -> Self {
        let first = first_touches(raw);
        let mut touched: Vec<(Nanos, Inode)> =
            first_of_each(&first, resolved).into_iter().map(|(inode, at)| (at, inode)).collect();
        touched.sort_unstable();
        let mut all = Vec::with_capacity(touched.len());
        let mut numbers = NumberMap::default();
        for (_, inode) in touched {
            numbers.insert(inode, all.len() as u32);
            all.push(resolved.files.get(&inode).cloned().unwrap_or_else(|| ResolvedFile::unknown(inode)));
        }
        for (inode, real) in resolved.stands_for.iter().filter(|(inode, _)| first.contains_key(*inode)) {
            let number = numbers.get(real).copied();
            numbers.extend(number.map(|number| (*inode, number)));
        }
        Self { all, numbers }
    }

    /// The number of a file.
    pub(super) fn id(&self, inode: Inode) -> FileId {
        FileId(self.index(inode))
    }

    /// The number of a file, if the trace has it.
    pub(super) fn number_of(&self, inode: Inode) -> Option<FileId> {
        self.numbers.get(&inode).map(|number| FileId(*number))
    }

    /// The same as a plain number.
    pub(super) fn index(&self, inode: Inode) -> u32 {
        self.numbers.get(&inode).copied().expect("every inode of the trace was numbered")
    }

    /// What is known of a file.
    pub(super) fn get(&self, index: u32) -> &ResolvedFile {
        &self.all[index as usize]
    }

    /// Whether it is the block device, that is: metadata.
    pub(super) fn is_metadata(&self, index: u32) -> bool {
        self.get(index).row.kind == FileKind::Metadata
    }

    /// All with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FileId, &ResolvedFile)> {
        self.all.iter().enumerate().map(|(index, file)| (FileId(index as u32), file))
    }
}

/// The same by file: an inode may stand for another one.
fn first_of_each(first: &NumberMap<Inode, Nanos>, resolved: &Resolved) -> NumberMap<Inode, Nanos> {
    let mut files: NumberMap<Inode, Nanos> = NumberMap::default();
    for (inode, at) in first {
        let file = resolved.stands_for.get(inode).unwrap_or(inode);
        files.entry(*file).and_modify(|known| *known = *at.min(known)).or_insert(*at);
    }
    files
}

/// When each file was first filled, read, faulted, mapped, read directly or synced.
fn first_touches(raw: &RawTrace) -> NumberMap<Inode, Nanos> {
    let mut first = NumberMap::default();
    let mut touch = |inode: Inode, at: Nanos| {
        first.entry(inode).and_modify(|known: &mut Nanos| *known = at.min(*known)).or_insert(at);
    };
    raw.fills.iter().for_each(|fill| touch(fill.inode, fill.at));
    raw.reads.iter().for_each(|read| touch(read.inode, read.at));
    raw.faults.iter().for_each(|fault| touch(fault.inode, fault.at));
    raw.mmaps.iter().for_each(|map| touch(map.inode, map.at));
    raw.direct.iter().for_each(|direct| touch(direct.inode, direct.at));
    raw.syncs.iter().for_each(|sync| touch(sync.inode.unwrap_or_default(), sync.at));
    first
}

//! Why a page came into the cache.
//!
//! The kernel's trace has no such field, but a thread does one thing at a time. It says "fault on page
//! p" *before* it fills, and "read of pages a to b" *after* it filled. So a fill was made for the last
//! fault before it or for the first read after it, if nothing else of that thread is in between. If the
//! filled pages are the asked ones, the cause is that fault or read; if not, they were read ahead around
//! them. Pages that came in with nobody asking are read-ahead too (`readahead(2)`, `madvise`) if the disk
//! was read for them, else the program wrote them.

use super::{blocks::ServedBlocks, files::Files};
use crate::{
    keyed::{NumberMap, page_key},
    raw::{Inode, RawFill, RawTrace, Span},
};
use model::{Cause, FileKind, Nanos, PAGE};

/// What a thread said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Before filling.
    Fault,
    /// After filling.
    Read,
    /// Neither: pages were mapped around.
    Around,
}

/// A fault or read of a thread.
#[derive(Clone, Copy, Debug)]
struct Ask {
    at: Nanos,
    kind: Kind,
    inode: Inode,
    span: Span,
    /// Index in the list of faults, for faults.
    fault: u32,
}

/// Asks of each thread by time.
fn asks(raw: &RawTrace) -> NumberMap<u32, Vec<Ask>> {
    let mut threads: NumberMap<u32, Vec<Ask>> = NumberMap::default();
    for (index, fault) in raw.faults.iter().enumerate() {
        let kind = if fault.around { Kind::Around } else { Kind::Fault };
        let ask = Ask { at: fault.at, kind, inode: fault.inode, span: fault.span, fault: index as u32 };
        threads.entry(fault.tid).or_default().push(ask);
    }
    for read in &raw.reads {
        let ask = Ask { at: read.at, kind: Kind::Read, inode: read.inode, span: read.span, fault: 0 };
        threads.entry(read.tid).or_default().push(ask);
    }
    for asks in threads.values_mut() {
        asks.sort_by_key(|ask| ask.at);
    }
    threads
}

/// The fault before a fill and the read after it, if they are of the same file.
fn around<'a>(asks: &'a NumberMap<u32, Vec<Ask>>, fill: &RawFill) -> (Option<&'a Ask>, Option<&'a Ask>) {
    let Some(asks) = asks.get(&fill.tid) else { return (None, None) };
    let behind = asks.partition_point(|ask| ask.at < fill.at);
    let of = |ask: &&Ask, kind| ask.kind == kind && ask.inode == fill.inode;
    let fault = behind.checked_sub(1).map(|index| &asks[index]).filter(|ask| of(ask, Kind::Fault));
    let read = asks.get(behind).filter(|ask| of(ask, Kind::Read));
    (fault, read)
}

/// For each fill: when its first page came in again.
fn came_again(raw: &RawTrace, files: &Files) -> Vec<Option<Nanos>> {
    let mut later: NumberMap<u64, Nanos> = NumberMap::default();
    let mut order: Vec<usize> = (0..raw.fills.len()).collect();
    order.sort_by_key(|index| raw.fills[*index].at);
    let mut again = vec![None; raw.fills.len()];
    for index in order.into_iter().rev() {
        let fill = &raw.fills[index];
        again[index] = later.insert(page_key(files.index(fill.inode), fill.span.first), fill.at);
    }
    again
}

/// The cause of each fill.
pub(super) fn of_fills(raw: &RawTrace, files: &Files, served: &ServedBlocks) -> Vec<Cause> {
    let asks = asks(raw);
    let again = came_again(raw, files);
    let cause = |((fill, from_disk), again): ((&RawFill, &bool), &Option<Nanos>)| {
        let file = files.get(files.index(fill.inode));
        match file.row.kind {
            FileKind::Metadata => return Cause::Metadata,
            FileKind::Memory => return Cause::Write,
            FileKind::Regular | FileKind::Unnamed => {}
        }
        let (fault, read) = around(&asks, fill);
        match (fault, read) {
            (Some(fault), _) if fault.span.overlaps(fill.span) => Cause::Fault,
            // What a program wrote, evicted and then read came in twice: the read is that of the second time.
            (_, Some(read)) if read.span.overlaps(fill.span) && again.is_none_or(|again| again > read.at) => {
                Cause::Read
            }
            _ if *from_disk && raw.sees.asks => Cause::ReadAhead,
            _ if *from_disk || !raw.sees.blocks => Cause::Unknown,
            // Its place on disk is known and was not read: the program wrote it, and it reached the disk later.
            _ if file.lies_on_disk(fill.span.first * PAGE) => Cause::Write,
            // Nor was a disk read for it, and the read asked for the second coming: a deleted file has no known place.
            (_, Some(read)) if read.span.overlaps(fill.span) && file.is_local() => Cause::Write,
            (None, None) if file.is_local() => Cause::Write,
            (None, None) => Cause::Unknown,
            _ => Cause::ReadAhead,
        }
    };
    raw.fills.iter().zip(&served.from_disk).zip(&again).map(cause).collect()
}

/// For each fault: whether its page was not there, because it came in for this fault or was still on its way.
pub(super) fn missed_faults(raw: &RawTrace, files: &Files, served: &ServedBlocks, causes: &[Cause]) -> Vec<bool> {
    let asks = asks(raw);
    let mut missed = vec![false; raw.faults.len()];
    for (fill, cause) in raw.fills.iter().zip(causes) {
        if let (Cause::Fault, (Some(ask), _)) = (cause, around(&asks, fill)) {
            missed[ask.fault as usize] = true;
        }
    }
    for (fault, missed) in raw.faults.iter().zip(&mut missed).filter(|(fault, _)| !fault.around) {
        let page = page_key(files.index(fault.inode), fault.span.first);
        if let Some((asked, done)) = served.arrivals.get(&page) {
            *missed |= *asked <= fault.at && fault.at < *done;
        }
    }
    missed
}

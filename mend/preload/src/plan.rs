//! Needed ranges become reads: merged over small gaps, cut to what the kernel takes at once, and put in order. Pure.
//!
//! A gap is worth reading where the bytes in it cost less than the request that is saved. What a request and a byte
//! cost is known to the caller alone, who says how long a disk takes for a list of reads ([`Cost`]); the gap with the
//! shortest time is taken.

pub use crate::manifest::{LONGEST, Order};

use crate::manifest::{About, Entry, FileIndex, Kind, Manifest, Read};
use model::{Bytes, DiskOffset, FileOffset, Nanos, PAGE};
use std::collections::BTreeMap;

/// Gaps that are tried, in pages: up to 1 MiB.
const GAPS: [u64; 25] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64, 96, 128, 256];

/// Which gaps are read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Up to this many bytes.
    UpTo(Bytes),
    /// As many as make it fastest on the disk.
    Fastest,
}

/// A range that a start needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From where; on a page boundary.
    pub offset: FileOffset,
    /// How much; whole pages.
    pub len: Bytes,
    /// When the start first needed it.
    pub first: Nanos,
}

/// A contiguous part of a file on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// From where in the file.
    pub offset: FileOffset,
    /// Where on the device.
    pub disk: DiskOffset,
    /// How many bytes.
    pub len: Bytes,
}

/// A file with what is needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The file as it is now.
    pub entry: Entry,
    /// What is needed, in any order; may overlap.
    pub pieces: Vec<Piece>,
    /// Where it lies, by file offset; empty if the file system does not tell.
    pub extents: Vec<Extent>,
    /// The disk that bears its device in the end: all reads of one disk wait for each other.
    pub disk: u64,
}

/// A read as a disk sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRead {
    /// From where on the device.
    pub disk: DiskOffset,
    /// How many bytes.
    pub len: Bytes,
}

/// How long a disk takes for reads that are all asked for at once, in this order.
pub type Cost<'a> = dyn Fn(&[DiskRead]) -> Nanos + 'a;

/// A plan, and what it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is read, in which order.
    pub manifest: Manifest,
    /// Bytes of the needed ranges alone.
    pub needed: Bytes,
    /// How long the disk takes for all of it.
    pub time: Nanos,
}

/// Plans the reads of these files. `about` is taken over but for gap and order.
pub fn plan(mut wanted: Vec<Wanted>, gap: Gap, order: Order, cost: &Cost<'_>, about: About) -> Plan {
    wanted.retain(|file| file.pieces.iter().any(|piece| piece.len.0 > 0));
    // Devices first: opening files needs the metadata on them.
    wanted.sort_by_key(|file| (file.entry.kind != Kind::Device, file.entry.dev, file.entry.ino));
    let placed: Vec<Vec<Placed>> = wanted.iter().map(place).collect();
    let request = if order == Order::FirstUse { request_in_bytes(cost) } else { Bytes(0) };
    let at = |gap: Bytes| along(ordered(&wanted, &placed, gap, order), request);
    let (gap, reads) = match gap {
        Gap::UpTo(gap) => (gap, at(gap)),
        Gap::Fastest => GAPS
            .into_iter()
            .map(|pages| (Bytes(pages * PAGE), at(Bytes(pages * PAGE))))
            // Of equal ones the first: it needs the least memory.
            .min_by_key(|(_, reads)| time(&wanted, reads, cost))
            .unwrap_or_default(),
    };
    let time = time(&wanted, &reads, cost);
    let mut by_rank: Vec<usize> = (0..reads.len()).collect();
    by_rank.sort_by_key(|index| reads[*index].first);
    let mut ranks = vec![0; reads.len()];
    for (rank, index) in (0..).zip(by_rank) {
        ranks[index] = rank;
    }
    let reads = reads
        .iter()
        .zip(ranks)
        .map(|(read, rank)| Read { file: read.file, offset: read.placed.offset, len: read.placed.len, rank })
        .collect();
    let files = wanted.into_iter().map(|file| file.entry).collect();
    let needed = placed.iter().flatten().map(|range| range.len).sum();
    Plan { manifest: Manifest { about: About { gap, order, ..about }, files, reads }, needed, time }
}

/// A part of a file with its place; `disk` is `None` where there is none or the file system does not tell.
#[derive(Clone, Copy, Debug)]
struct Placed {
    offset: FileOffset,
    len: Bytes,
    disk: Option<DiskOffset>,
    first: Nanos,
}

impl Placed {
    fn end(&self) -> u64 {
        self.offset.0 + self.len.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    file: FileIndex,
    placed: Placed,
    first: Nanos,
}

/// The pieces of a file, disjoint, by offset, cut where the file goes on elsewhere on the disk.
fn place(file: &Wanted) -> Vec<Placed> {
    // Beyond the end there is nothing to read, and nothing that overlaps is read twice.
    let end = file.entry.size.0.min(i64::MAX as u64 - PAGE).next_multiple_of(PAGE);
    let mut pieces: Vec<(u64, u64, Nanos)> = file
        .pieces
        .iter()
        .map(|piece| (piece.offset.0.min(end), piece.offset.0.saturating_add(piece.len.0).min(end), piece.first))
        .filter(|(start, end, _)| start < end)
        .collect();
    pieces.sort_unstable();
    let mut joined: Vec<(u64, u64, Nanos)> = Vec::new();
    for (start, end, first) in pieces {
        match joined.last_mut() {
            Some(last) if start <= last.1 => (last.1, last.2) = (last.1.max(end), last.2.min(first)),
            _ => joined.push((start, end, first)),
        }
    }
    let mut placed = Vec::new();
    for (start, end, first) in joined {
        let mut at = start;
        // Extents of a recording may be anything.
        let end_of = |extent: &Extent| extent.offset.0.saturating_add(extent.len.0);
        let mut extents = &file.extents[file.extents.partition_point(|extent| end_of(extent) <= start)..];
        while at < end {
            let (until, disk) = match extents.first() {
                Some(extent) if extent.offset.0 <= at => {
                    let disk = DiskOffset(extent.disk.0.saturating_add(at - extent.offset.0));
                    extents = &extents[1..];
                    (end_of(extent), Some(disk))
                }
                Some(extent) => (extent.offset.0, None),
                None => (end, None),
            };
            let until = until.min(end);
            if at < until {
                placed.push(Placed { offset: FileOffset(at), len: Bytes(until - at), disk, first });
                at = until;
            }
        }
    }
    placed
}

/// The reads of all files with this gap, in order.
fn ordered(wanted: &[Wanted], placed: &[Vec<Placed>], gap: Bytes, order: Order) -> Vec<Planned> {
    let mut reads: Vec<Planned> = Vec::new();
    for (file, placed) in (0..).map(FileIndex).zip(placed) {
        for whole in merge(placed, gap) {
            let mut at = 0;
            while at < whole.len.0 {
                let len = Bytes((whole.len.0 - at).min(LONGEST.0));
                let disk = whole.disk.map(|disk| DiskOffset(disk.0.saturating_add(at)));
                let part = Placed { offset: FileOffset(whole.offset.0 + at), len, disk, first: whole.first };
                reads.push(Planned { file, placed: part, first: first_use(placed, &part) });
                at += len.0;
            }
        }
    }
    let entry = |read: &Planned| &wanted[read.file.0 as usize].entry;
    // Metadata lies in few places: in any order its reads are best made in that of the disk.
    let is_data = |read: &Planned| entry(read).kind != Kind::Device;
    match order {
        Order::Disk => reads.sort_by_key(|read| {
            let place = (read.placed.disk.is_none(), entry(read).dev, read.placed.disk);
            (is_data(read), place, read.file, read.placed.offset)
        }),
        Order::FirstUse => {
            let first = |read: &Planned| if is_data(read) { read.first } else { Nanos(0) };
            reads.sort_by_key(|read| (is_data(read), first(read), read.file, read.placed.offset));
        }
    }
    reads
}

/// How many bytes a disk reads in the time that a request takes however short it is, where many wait.
fn request_in_bytes(cost: &Cost<'_>) -> Bytes {
    const MANY: u64 = 1000;
    let apart = |len: Bytes| (0..MANY).map(|at| DiskRead { disk: DiskOffset(at << 30), len }).collect::<Vec<_>>();
    let (short, long) = (Bytes(PAGE), LONGEST);
    let (of_short, of_long) = (cost(&apart(short)).0 as f64, cost(&apart(long)).0 as f64);
    Bytes((of_short / of_long.max(1.0) * long.0 as f64) as u64)
}

/// Lets short reads go along with long ones. A disk or volume that is limited in requests and in bytes a second saves
/// neither for later: beside long reads there are requests to spare, and the short ones that come later in one go would
/// wait for those. What is brought early is little. `request` is what a request weighs in bytes.
fn along(reads: Vec<Planned>, request: Bytes) -> Vec<Planned> {
    let weight = |read: &Planned| read.placed.len.0 as f64 / request.0.max(1) as f64;
    let (long, short): (Vec<_>, Vec<_>) = reads.into_iter().enumerate().partition(|(_, read)| weight(read) >= 1.0);
    let (mut long, mut short) = (long.into_iter().peekable(), short.into_iter().peekable());
    let mut mixed = Vec::new();
    let mut spare = 0.0_f64;
    loop {
        let is_short_next = match (long.peek(), short.peek()) {
            (_, Some(_)) if spare >= 1.0 => true,
            (Some((first, _)), Some((other, _))) => other < first,
            (long, short) => long.is_none() && short.is_some(),
        };
        let Some((_, read)) = (if is_short_next { short.next() } else { long.next() }) else { return mixed };
        spare = (spare + weight(&read) - 1.0).max(0.0);
        mixed.push(read);
    }
}

/// When the first of the needed ranges inside a read was needed.
fn first_use(needed: &[Placed], read: &Placed) -> Nanos {
    let from = needed.partition_point(|range| range.end() <= read.offset.0);
    let inside = needed[from..].iter().take_while(|range| range.offset.0 < read.end());
    // A cut may leave a read with nothing but gap.
    inside.map(|range| range.first).min().unwrap_or(read.first)
}

/// Joins ranges with gaps up to `gap` between them, where the file goes on on the disk as it does in the file.
fn merge(placed: &[Placed], gap: Bytes) -> Vec<Placed> {
    let mut merged: Vec<Placed> = Vec::new();
    for next in placed {
        match merged.last_mut() {
            Some(last) if next.offset.0 - last.end() <= gap.0 && goes_on(last, next) => {
                last.len = Bytes(next.end() - last.offset.0);
                last.first = last.first.min(next.first);
            }
            _ => merged.push(*next),
        }
    }
    merged
}

fn goes_on(last: &Placed, next: &Placed) -> bool {
    match (last.disk, next.disk) {
        (Some(last_disk), Some(next_disk)) => {
            next_disk.0.checked_sub(last_disk.0) == Some(next.offset.0 - last.offset.0)
        }
        (None, None) => true,
        _ => false,
    }
}

/// How long all disks together take: each has its own reads.
fn time(wanted: &[Wanted], reads: &[Planned], cost: &Cost<'_>) -> Nanos {
    let mut disks: BTreeMap<u64, Vec<DiskRead>> = BTreeMap::new();
    let mut devices: BTreeMap<u64, u64> = BTreeMap::new();
    for read in reads {
        let file = &wanted[read.file.0 as usize];
        // Devices on one disk lie far from each other; where the place is not told, each file from every other one.
        let next = devices.len() as u64;
        let device = *devices.entry(file.entry.dev).or_insert(next);
        let elsewhere = || DiskOffset((u64::from(read.file.0) << 40).saturating_add(read.placed.offset.0));
        let disk = DiskOffset((device << 48).saturating_add(read.placed.disk.unwrap_or_else(elsewhere).0));
        disks.entry(file.disk).or_default().push(DiskRead { disk, len: read.placed.len });
    }
    disks.values().map(|reads| cost(reads)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! Which file lies where on a disk: extents turned round, so that a block request finds its file.

use super::files::Files;
use crate::{
    keyed::NumberMap,
    raw::{RawBlock, RawTrace},
};
use model::FileKind;

/// A piece of a file that is contiguous on disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First byte on the disk.
    pub(super) start: u64,
    /// One behind its last byte on the disk.
    pub(super) end: u64,
    /// Number of the file.
    pub(super) file: u32,
    /// Offset in the file of its first byte.
    pub(super) offset: u64,
}

/// Pieces of one disk by their start. Pieces may overlap (reflinks, the metadata's device below all files).
#[derive(Default)]
struct Map {
    pieces: Vec<Piece>,
    /// The furthest end of all pieces up to here: says when to stop looking further back.
    reach: Vec<u64>,
}

impl Map {
    fn sort(&mut self) {
        self.pieces.sort_unstable_by_key(|piece| (piece.start, piece.end));
        let mut furthest = 0;
        self.reach = self
            .pieces
            .iter()
            .map(|piece| {
                furthest = piece.end.max(furthest);
                furthest
            })
            .collect();
    }

    /// The parts of all pieces that lie in `start..end`.
    fn cut(&self, start: u64, end: u64, into: &mut Vec<Piece>) {
        let mut index = self.pieces.partition_point(|piece| piece.start < end);
        while index > 0 && self.reach[index - 1] > start {
            index -= 1;
            let piece = self.pieces[index];
            if piece.end > start {
                let skipped = start.saturating_sub(piece.start);
                into.push(Piece {
                    start: piece.start + skipped,
                    end: piece.end.min(end),
                    offset: piece.offset + skipped,
                    ..piece
                });
            }
        }
    }
}

/// A stacked device's range and where it lies below.
#[derive(Clone, Copy)]
struct Step {
    start: u64,
    end: u64,
    above: u64,
    above_start: u64,
}

/// All disks of a trace.
pub(super) struct Disks {
    files: NumberMap<u64, Map>,
    devices: NumberMap<u64, Map>,
    steps: NumberMap<u64, Vec<Step>>,
}

impl Disks {
    /// Turns the extents of all files round.
    pub(super) fn of(raw: &RawTrace, files: &Files) -> Self {
        let mut disks =
            Self { files: NumberMap::default(), devices: NumberMap::default(), steps: NumberMap::default() };
        for (index, file) in files.all.iter().enumerate() {
            let maps = if file.row.kind == FileKind::Metadata { &mut disks.devices } else { &mut disks.files };
            for extent in &file.extents {
                maps.entry(extent.dev).or_default().pieces.push(Piece {
                    start: extent.disk.0,
                    end: extent.disk.0.saturating_add(extent.len.0),
                    file: index as u32,
                    offset: extent.offset.0,
                });
            }
        }
        disks.files.values_mut().chain(disks.devices.values_mut()).for_each(Map::sort);
        for remap in &raw.remaps {
            disks.steps.entry(remap.dev).or_default().push(Step {
                start: remap.disk.0,
                end: remap.disk.0.saturating_add(remap.len.0),
                above: remap.old_dev,
                above_start: remap.old_disk.0,
            });
        }
        disks.steps.values_mut().for_each(join_steps);
        disks
    }

    /// All pieces of files and of metadata that a request covers; in no order.
    pub(super) fn pieces(&self, request: &RawBlock, into: &mut Vec<Piece>) {
        into.clear();
        self.cut(request.dev, request.disk.0, request.disk.0.saturating_add(request.len.0), 4, into);
    }

    /// Looks on this device and, up to `depth` steps, on the devices that are stacked on it.
    fn cut(&self, dev: u64, start: u64, end: u64, depth: u32, into: &mut Vec<Piece>) {
        for maps in [&self.files, &self.devices] {
            if let Some(map) = maps.get(&dev) {
                map.cut(start, end, into);
            }
        }
        let (Some(steps), Some(depth)) = (self.steps.get(&dev), depth.checked_sub(1)) else { return };
        let mut at = start;
        while let Some(step) = steps[..steps.partition_point(|step| step.start <= at)].last()
            && step.end > at
            && at < end
        {
            let stop = step.end.min(end);
            let above = step.above_start + (at - step.start);
            self.cut(step.above, above, above + (stop - at), depth, into);
            at = stop;
        }
    }
}

/// Sorts steps and joins neighbours that shift by the same distance, also across ranges that nobody read:
/// a volume is made of few long pieces.
fn join_steps(steps: &mut Vec<Step>) {
    let shift = |step: &Step| (step.above, step.above_start.wrapping_sub(step.start));
    steps.sort_by_key(|step| step.start);
    steps.dedup_by(|next, kept| {
        let same = shift(next) == shift(kept);
        if same {
            kept.end = kept.end.max(next.end);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::RawRemap;
    use model::{Bytes, DiskOffset, Nanos};

    fn piece(start: u64, end: u64, file: u32, offset: u64) -> Piece {
        Piece { start, end, file, offset }
    }

    fn map(pieces: &[Piece]) -> Map {
        let mut map = Map { pieces: pieces.to_vec(), reach: Vec::new() };
        map.sort();
        map
    }

    fn cut(map: &Map, start: u64, end: u64) -> Vec<Piece> {
        let mut found = Vec::new();
        map.cut(start, end, &mut found);
        found.sort_by_key(|piece| (piece.start, piece.file));
        found
    }

    #[test]
    fn a_range_finds_the_parts_of_all_pieces_that_lie_in_it() {
        // Short pieces above a long one, in no order.
        let map = map(&[piece(30, 40, 2, 5), piece(0, 100, 0, 1000), piece(10, 20, 1, 0)]);
        assert_eq!(cut(&map, 20, 30), [piece(20, 30, 0, 1020)], "neither what ends there nor what begins there");
        assert_eq!(cut(&map, 15, 35), [piece(15, 35, 0, 1015), piece(15, 20, 1, 5), piece(30, 35, 2, 5)]);
        assert_eq!(cut(&map, 12, 14), [piece(12, 14, 0, 1012), piece(12, 14, 1, 2)]);
        assert_eq!(cut(&map, 90, 120), [piece(90, 100, 0, 1090)]);
        assert_eq!(cut(&map, 100, 120), []);
    }

    #[test]
    fn a_range_before_all_pieces_finds_none() {
        assert_eq!(cut(&map(&[piece(30, 40, 2, 5)]), 0, 30), []);
        assert_eq!(cut(&map(&[]), 0, 30), []);
    }

    fn step(start: u64, end: u64, above_start: u64) -> Step {
        Step { start, end, above: 2, above_start }
    }

    /// A disk (1) below a volume (2) with two files.
    fn stacked(steps: Vec<Step>) -> Disks {
        let files = map(&[piece(1000, 1100, 0, 0), piece(1990, 2100, 1, 500)]);
        Disks {
            files: NumberMap::from_iter([(2, files)]),
            devices: NumberMap::default(),
            steps: NumberMap::from_iter([(1, steps)]),
        }
    }

    fn above(disks: &Disks, start: u64, end: u64) -> Vec<Piece> {
        let mut found = Vec::new();
        disks.cut(1, start, end, 4, &mut found);
        found.sort_by_key(|piece| piece.start);
        found
    }

    #[test]
    fn a_range_below_a_volume_is_followed_step_by_step() {
        let disks = stacked(vec![step(0, 50, 1000), step(50, 80, 2000)]);
        assert_eq!(above(&disks, 40, 60), [piece(1040, 1050, 0, 40), piece(2000, 2010, 1, 510)]);
        assert_eq!(above(&disks, 40, 50), [piece(1040, 1050, 0, 40)]);
        assert_eq!(above(&disks, 50, 51), [piece(2000, 2001, 1, 510)]);
        assert_eq!(above(&disks, 70, 90), [piece(2020, 2030, 1, 530)], "nothing lies behind the last step");
        assert_eq!(above(&disks, 80, 90), []);
    }

    #[test]
    fn volumes_that_lie_on_each_other_are_followed_only_so_far() {
        let mut disks = stacked(vec![step(0, 50, 1000)]);
        disks.steps.insert(2, vec![Step { start: 1000, end: 1050, above: 1, above_start: 0 }]);
        // From 1 to 2, to 1, to 2, to 1: the file is met twice.
        assert_eq!(above(&disks, 0, 10), [piece(1000, 1010, 0, 0), piece(1000, 1010, 0, 0)]);
    }

    #[test]
    fn steps_by_the_same_distance_are_one_also_over_a_gap() {
        let remap = |disk: u64, len: u64, old: u64| RawRemap {
            at: Nanos(0),
            dev: 1,
            disk: DiskOffset(disk),
            len: Bytes(len),
            old_dev: 2,
            old_disk: DiskOffset(old),
        };
        let remaps = vec![remap(30, 10, 1030), remap(0, 10, 1000), remap(2, 5, 1002), remap(50, 10, 9050)];
        let raw = RawTrace { remaps, ..RawTrace::default() };
        let files = Files::number(&raw, &crate::resolve::Resolved::default());
        let disks = Disks::of(&raw, &files);
        let steps: Vec<_> = disks.steps[&1].iter().map(|step| (step.start, step.end, step.above_start)).collect();
        assert_eq!(steps, [(0, 40, 1000), (50, 60, 9050)]);
    }
}

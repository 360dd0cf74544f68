//! Commits: what makes the log last, as a list of steps, so that reads can go between them; and the snapshot of the
//! index, which lets a start know what the log holds.

use crate::format::{self, Snapshot};
use crate::index::Slot;
use crate::log::{Base, Log, Place, Segment, Stage, is_full};
use std::collections::{BTreeSet, VecDeque};
use std::io;

/// The snapshot of the index.
pub(crate) const INDEX: &str = "index";
/// The snapshot while it is written.
pub(crate) const INDEX_NEW: &str = "index.new";
/// In a snapshot's row of a segment: it is sealed.
const SEALED: u64 = 1 << 63;

/// Bytes written after which a commit writes a snapshot, however young the last one is.
const MUCH: u64 = 1 << 20;

/// A step of a commit. Between two of them other work may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    Sync(u32),
    /// After the sync of its segment alone.
    Footer(u32),
    Names,
    /// The snapshot: written, synced, put in place.
    Write,
    SyncIndex,
    Swap,
    Unlink(u32),
    Forget(u32),
    /// Who waits for this commit.
    Tell(Vec<u64>),
}

impl Log {
    /// What is to be done so that all that is written now lasts. Files of freed segments go last.
    pub fn commit(&mut self, snapshot: bool) -> VecDeque<Chore> {
        let graves: BTreeSet<u32> = self.graves.values().map(|place| place.0).collect();
        let whole = |one: &Segment| one.stage == Stage::Sealed || one.stage == Stage::Full && one.unread > 0;
        let dead = |number: &u32, one: &Segment| whole(one) && one.live == 0 && !graves.contains(number);
        let dead = self.segments.iter().filter(|(number, one)| self.owed.is_empty() && dead(number, one));
        let dead: Vec<u32> = dead.map(|(number, _)| *number).collect();
        dead.into_iter().for_each(|number| self.free(number));
        (self.failed, self.torn) = (false, false);
        let mut chores = VecDeque::new();
        for (number, segment) in &self.segments {
            if segment.dirty {
                chores.push_back(Chore::Sync(*number));
            }
            if segment.wants_footer() {
                chores.push_back(Chore::Footer(*number));
            }
        }
        if self.names_dirty {
            chores.push_back(Chore::Names);
        }
        if snapshot {
            chores.extend([Chore::Write, Chore::SyncIndex, Chore::Swap, Chore::Names]);
        }
        let freed = |one: &Segment| one.stage >= Stage::Freed && one.readers == 0;
        let mut freed: Vec<u32> =
            self.segments.iter().filter(|(_, one)| freed(one)).map(|(number, _)| *number).collect();
        if !self.owed.is_empty() {
            // A removal is not written yet: what it removes may lie below any segment but the oldest ones.
            let oldest = freed.iter().zip(self.segments.keys()).take_while(|(freed, one)| freed == one).count();
            freed.truncate(if oldest == 0 && self.no_space { freed.len() } else { oldest });
        }
        if !freed.is_empty() {
            chores.extend(freed.iter().map(|number| Chore::Unlink(*number)));
            chores.push_back(Chore::Names);
            chores.extend(freed.into_iter().map(Chore::Forget));
        }
        chores
    }

    /// Does a step of a commit. `false`: one of its syncs has failed.
    pub fn chore(&mut self, chore: &Chore) -> bool {
        match chore {
            Chore::Sync(number) => self.failed |= self.sync(*number).is_err(),
            // A footer that fails is tried again by the next commit.
            Chore::Footer(number) => self.no_space |= self.footer(*number).as_ref().is_err_and(is_full),
            Chore::Names => self.failed |= self.names().is_err(),
            Chore::Write => {
                (self.changed, self.news) = (false, 0);
                let bytes = self.snapshot().encode();
                let _ = self.disk.unlink(INDEX_NEW);
                self.torn |= self.disk.write(INDEX_NEW, 0, &[&bytes]).is_err();
            }
            Chore::SyncIndex if !self.torn => self.torn |= self.disk.sync(INDEX_NEW).is_err(),
            Chore::Swap if !self.torn => self.torn |= self.disk.rename(INDEX_NEW, INDEX).is_err(),
            Chore::SyncIndex | Chore::Swap => {
                self.changed = true;
                let _ = self.disk.unlink(INDEX_NEW);
            }
            Chore::Unlink(number) if !self.failed => self.failed |= self.unlink(*number).is_err(),
            Chore::Forget(number) if !self.failed => {
                let gone = |segment: &&mut Segment| segment.stage == Stage::Unlinked;
                if let Some(segment) = self.segments.get_mut(number).filter(gone) {
                    self.bytes -= segment.len;
                    self.segments.remove(number);
                    self.no_space = false;
                }
            }
            Chore::Unlink(_) | Chore::Forget(_) | Chore::Tell(_) => {}
        }
        !self.failed
    }

    fn sync(&mut self, number: u32) -> io::Result<()> {
        let name = self.name(number);
        let Some(segment) = self.segments.get_mut(&number).filter(|one| one.stage < Stage::Freed) else {
            return Ok(());
        };
        segment.dirty = false;
        let synced = self.disk.sync(&name);
        // What the kernel could not write once it calls clean afterwards.
        segment.distrusted |= synced.is_err();
        if !segment.distrusted {
            segment.synced = segment.len;
        }
        synced
    }

    fn footer(&mut self, number: u32) -> io::Result<()> {
        let name = self.name(number);
        let Some(segment) = self.segments.get_mut(&number).filter(|one| one.wants_footer() && !one.dirty) else {
            return Ok(());
        };
        let footer = format::footer(&segment.rows, segment.len);
        // What a write that failed left behind must not lie behind the footer.
        self.disk.truncate(&name, segment.len)?;
        self.disk.write(&name, segment.len, &[&footer])?;
        segment.rows = Vec::new();
        segment.len += footer.len() as u64;
        self.bytes += footer.len() as u64;
        (segment.stage, segment.dirty, self.changed) = (Stage::Sealed, true, true);
        Ok(())
    }

    fn names(&mut self) -> io::Result<()> {
        self.names_dirty = false;
        let synced = self.disk.sync_names();
        self.names_dirty |= synced.is_err();
        synced
    }

    fn unlink(&mut self, number: u32) -> io::Result<()> {
        let name = self.name(number);
        match self.disk.unlink(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => self.names_dirty = true,
        }
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.stage = Stage::Unlinked;
        }
        Ok(())
    }

    /// Whether so much was written since the last snapshot that a start after a crash would have much to read: the
    /// next commit writes one, and snapshots stay an eighth of what is written.
    pub fn is_old(&self) -> bool {
        self.news >= MUCH.max(8 * (self.shared.index().len() * format::SLOT) as u64)
    }

    fn snapshot(&self) -> Snapshot {
        let index = self.shared.index();
        // What is not on the medium yet, a start has to look at.
        let sealed = |one: &Segment| one.stage == Stage::Sealed && one.synced == one.len;
        let known = |one: &Segment| one.synced | if sealed(one) { SEALED } else { 0 };
        let segments = self.segments.iter().filter(|(_, one)| one.stage < Stage::Freed);
        let row = |hash: u64, (segment, offset): Place, size: u32| {
            let mut out = [0; format::SLOT];
            out[..8].copy_from_slice(&hash.to_le_bytes());
            out[12..16].copy_from_slice(&segment.to_le_bytes());
            out[16..20].copy_from_slice(&offset.to_le_bytes());
            out[20..].copy_from_slice(&size.to_le_bytes());
            out
        };
        let graves = self.graves.iter().map(|(hash, place)| row(*hash, *place, 0));
        let bases = self.bases.iter().map(|(hash, base)| row(*hash, base.place, base.size.max(1)));
        Snapshot {
            seed: self.seed,
            seq: self.seq,
            segments: segments.map(|(number, one)| (*number, known(one))).collect(),
            slots: index.iter().map(Slot::encode).chain(graves).chain(bases).collect(),
        }
    }
}

/// Takes a snapshot's row of a segment apart: bytes known, and whether it is sealed.
pub(crate) fn known(row: u64) -> (u64, bool) {
    (row & !SEALED, row & SEALED != 0)
}

/// Takes a snapshot's row without a segment apart: a grave, or the base of a side record.
pub(crate) fn extra(row: &[u8; format::SLOT]) -> (u64, Base) {
    let four = |at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
    let hash = u64::from(four(0)) | u64::from(four(4)) << 32;
    (hash, Base { place: (four(12), four(16)), size: four(20) })
}

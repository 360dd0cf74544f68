//! The log: segments, what is appended to them, and which record of the index lies where. What makes it last is
//! another module's.

use crate::disk::Disk;
use crate::format::{self, CHUNK, Head, Kind, OVERWRITES, PINNED, Row, SEGMENT_HEAD, Sums};
use crate::index::{self, Slot};
use crate::key::Key;
use crate::shared::Shared;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Segment and offset of a record.
pub(crate) type Place = (u32, u32);

/// How far a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Records are appended.
    Open,
    /// It waits for its sync and its footer.
    Full,
    /// It has its footer.
    Sealed,
    /// Nothing in it counts; its file goes with the next commit.
    Freed,
    /// Its file is gone, maybe not yet for sure.
    Unlinked,
}

/// A segment.
pub(crate) struct Segment {
    /// It holds one record, which is large.
    pub big: bool,
    /// Bytes of its file that count.
    pub len: u64,
    /// Bytes of records that count.
    pub live: u64,
    pub stage: Stage,
    /// Written since it was synced.
    pub dirty: bool,
    /// A sync failed: it never gets the footer that says its data is there.
    pub distrusted: bool,
    /// Bytes that a sync has brought to the medium.
    pub synced: u64,
    /// Up to here its records are known by the snapshot alone: their rows are not in `rows`.
    pub unread: u64,
    /// Its records; empty once it is sealed.
    pub rows: Vec<Row>,
    /// Reads under way.
    pub readers: u32,
}

impl Segment {
    /// Whether a commit gives it its footer. What an earlier process left is not read again for that: the snapshot
    /// knows it as well.
    pub fn wants_footer(&self) -> bool {
        self.stage == Stage::Full && !self.distrusted && self.unread == 0
    }
}

/// The body of an entry whose slot points to a side record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub place: Place,
    /// Bytes of the record, in units of 16.
    pub size: u32,
}

impl Base {
    pub fn new(place: Place, size: u64) -> Base {
        Base { place, size: size.div_ceil(16).min(u64::from(u32::MAX)) as u32 }
    }

    pub fn bytes(self) -> u64 {
        u64::from(self.size) * 16
    }
}

/// A record to be appended.
pub(crate) struct Draft {
    pub kind: Kind,
    pub key: Key,
    pub meta: Bytes,
    pub body: Bytes,
    pub flags: u8,
    pub group: u64,
    pub time: u32,
    /// Of a side record: where the body lies, its bytes, the bytes of its record.
    pub base: Option<(Place, u64, u64)>,
    /// Of a record that is moved.
    pub frecency: Option<u16>,
}

impl Draft {
    pub fn removal(key: Key) -> Draft {
        let (meta, body) = (Bytes::new(), Bytes::new());
        let time = now() as u32;
        Draft { kind: Kind::Remove, key, meta, body, flags: OVERWRITES, group: 0, time, base: None, frecency: None }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The name of a segment's file.
pub(crate) fn name(number: u32, big: bool) -> String {
    format!("{number:08x}.{}", if big { "big" } else { "seg" })
}

/// A large record while it is written: its head comes last, so that until then there is no record.
pub(crate) struct Big {
    pub number: u32,
    body_at: u64,
    body: u64,
    sums: Sums,
}

pub(crate) struct Log {
    pub disk: Arc<dyn Disk>,
    pub shared: Arc<Shared>,
    /// Bytes at which a segment is sealed.
    pub full: u64,
    pub seed: u64,
    pub seq: u64,
    pub next: u32,
    pub segments: BTreeMap<u32, Segment>,
    pub open: Option<u32>,
    /// Keys whose removal lies on disk, and where.
    pub graves: HashMap<u64, Place>,
    pub bases: HashMap<u64, Base>,
    /// Removals that could not be written; they go before the next record.
    pub owed: HashMap<u64, Key>,
    /// Bytes of all files.
    pub bytes: u64,
    pub names_dirty: bool,
    /// Something changed since the last snapshot.
    pub changed: bool,
    /// Bytes of records written since the last snapshot.
    pub news: u64,
    /// The disk said that it is full.
    pub no_space: bool,
    /// A sync of the commit under way failed: no file goes.
    pub failed: bool,
    /// So did a step of its snapshot: it does not come into its place.
    pub torn: bool,
}

impl Log {
    pub fn new(disk: Arc<dyn Disk>, shared: Arc<Shared>, full: u64) -> Log {
        Log {
            disk,
            shared,
            full,
            seed: 0,
            seq: 1,
            next: 1,
            segments: BTreeMap::new(),
            open: None,
            graves: HashMap::new(),
            bases: HashMap::new(),
            owed: HashMap::new(),
            bytes: 0,
            names_dirty: false,
            changed: false,
            news: 0,
            no_space: false,
            failed: false,
            torn: false,
        }
    }

    pub fn name(&self, number: u32) -> String {
        name(number, self.segments.get(&number).is_some_and(|segment| segment.big))
    }

    /// Takes a segment in.
    pub fn add(&mut self, number: u32, big: bool, len: u64, stage: Stage) {
        let (live, rows) = (0, Vec::new());
        let (synced, unread, readers) = (0, 0, 0);
        let (dirty, distrusted) = (false, false);
        let segment = Segment { big, len, live, stage, dirty, distrusted, synced, unread, rows, readers };
        self.bytes += len;
        self.segments.insert(number, segment);
    }

    fn live(&mut self, number: u32, more: u64, less: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.live = (segment.live + more).saturating_sub(less);
        }
    }

    /// The index, and what it counts, after this record.
    ///
    /// A record that was moved keeps its frecency; any other counts as a use.
    pub fn apply(&mut self, segment: u32, row: &Row, base: Option<Base>, frecency: Option<u16>) {
        let place = (segment, row.offset);
        self.changed = true;
        self.owed.remove(&row.hash);
        if row.kind == Kind::Remove {
            self.forget(row.hash);
            self.graves.insert(row.hash, place);
            return;
        }
        let (pinned, side) = (row.flags & PINNED != 0, row.kind == Kind::Side);
        let mut slot = Slot::new(row.hash, place, row.size.into(), pinned, side, row.partition);
        if let Some(base) = self.bases.remove(&row.hash) {
            self.live(base.place.0, 0, base.bytes());
        }
        let old = self.shared.index().get(row.hash).map_or(0, |old| old.frecency);
        slot.frecency = frecency.unwrap_or_else(|| index::touch(old, index::worth(row.time.into())));
        self.graves.remove(&row.hash);
        self.set(slot);
        if let Some(base) = base {
            self.live(base.place.0, base.bytes(), 0);
            self.bases.insert(row.hash, base);
        }
    }

    /// Puts a slot in.
    pub fn set(&mut self, slot: Slot) {
        // A larger table is made while others read the old one.
        let grown = { Some(self.shared.index()).filter(|index| index.is_full()).map(|index| index.grown()) };
        if let Some(grown) = grown {
            let old = std::mem::replace(&mut *self.shared.index_mut(), grown);
            drop(old);
        }
        self.live(slot.segment, slot.size(), 0);
        let old = self.shared.index_mut().set(slot);
        if let Some(old) = old {
            self.live(old.segment, 0, old.size());
        }
    }

    /// Takes a key out of the index.
    pub fn forget(&mut self, hash: u64) -> Option<Slot> {
        if let Some(base) = self.bases.remove(&hash) {
            self.live(base.place.0, 0, base.bytes());
        }
        let old = self.shared.index_mut().remove(hash)?;
        self.live(old.segment, 0, old.size());
        self.changed = true;
        Some(old)
    }

    /// Takes an entry out whose removal cannot be written yet.
    pub fn lose(&mut self, key: &Key) {
        let hash = key.hash(self.seed);
        if self.forget(hash).is_some() {
            self.owed.insert(hash, key.clone());
        }
    }

    /// Forgets all entries and lets go of all segments.
    pub fn forget_all(&mut self) {
        let old = std::mem::take(&mut *self.shared.index_mut());
        drop(old);
        self.graves = HashMap::new();
        self.bases = HashMap::new();
        self.owed = HashMap::new();
        self.changed = true;
        let all: Vec<u32> = self.segments.keys().copied().collect();
        for number in all {
            self.free(number);
            self.live(number, 0, u64::MAX);
        }
    }

    /// Appends records, in order; tells of each whether it is written, and then the index knows it.
    pub fn append(&mut self, drafts: Vec<Draft>) -> Vec<bool> {
        let skip = self.owed.len();
        let drafts: Vec<Draft> = self.owed.values().cloned().map(Draft::removal).chain(drafts).collect();
        let mut stored = vec![false; drafts.len()];
        let mut from = 0;
        while from < drafts.len() {
            match self.append_some(&drafts[from..]) {
                Ok(count) => {
                    stored[from..from + count].fill(true);
                    from += count;
                }
                Err(error) => {
                    self.no_space |= is_full(&error);
                    break;
                }
            }
        }
        stored.split_off(skip)
    }

    /// Appends as many as the open segment takes, one at least.
    fn append_some(&mut self, drafts: &[Draft]) -> io::Result<usize> {
        let length = |draft: &Draft| {
            let body = if draft.kind == Kind::Put { draft.body.len() } else { 0 };
            let table = 4 * body.div_ceil(CHUNK);
            (format::RECORD_HEAD + draft.key.bytes().len() + draft.meta.len() + body + table) as u64
        };
        let fits = |at: u64| at == SEGMENT_HEAD as u64 || at + length(&drafts[0]) <= self.full;
        let open = self.open.and_then(|open| Some((open, self.segments.get(&open)?.len)));
        let (number, begin) = match open.filter(|(_, len)| fits(*len)) {
            Some(open) => open,
            None => {
                self.close_open();
                self.next += 1;
                (self.next - 1, 0)
            }
        };
        let new = begin == 0;
        let start = format::segment_head(number, self.seed);
        let mut at = if new { SEGMENT_HEAD as u64 } else { begin };
        let (mut parts, mut rows): (Vec<Bytes>, Vec<(Row, Option<Base>)>) = (Vec::new(), Vec::new());
        if new {
            parts.push(Bytes::copy_from_slice(&start));
        }
        for draft in drafts {
            if !rows.is_empty() && at + length(draft) > self.full {
                break;
            }
            let hash = draft.key.hash(self.seed);
            let table = if draft.kind == Kind::Put { format::table([&draft.body[..]]) } else { Vec::new() };
            let known = self.graves.contains_key(&hash) || self.shared.index().get(hash).is_some();
            let twice = rows.iter().any(|(row, _): &(Row, _)| row.hash == hash);
            let older = known || twice || draft.kind != Kind::Put;
            let head = Head {
                kind: draft.kind,
                flags: draft.flags | if older { OVERWRITES } else { 0 },
                seq: self.seq,
                group: draft.group,
                body: draft.base.map_or(draft.body.len() as u64, |(_, body, _)| body),
                time: draft.time,
                base: draft.base.map_or((0, 0), |(place, _, _)| place),
                key: draft.key.clone(),
                meta: draft.meta.clone(),
                table: format::checksum(&table),
            };
            self.seq += 1;
            let row = row(&head, hash, at);
            at += head.record_len();
            rows.push((row, draft.base.map(|(place, _, size)| Base::new(place, size))));
            parts.push(head.encode(self.seed).into());
            if draft.kind == Kind::Put && !draft.body.is_empty() {
                parts.extend([draft.body.clone(), table.into()]);
            }
        }
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        self.names_dirty |= new;
        if let Err(error) = self.disk.write(&name(number, false), begin, &slices) {
            if new {
                let _ = self.disk.unlink(&name(number, false));
            }
            return Err(error);
        }
        if new {
            self.add(number, false, 0, Stage::Open);
            self.open = Some(number);
        }
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.len = at;
            segment.dirty = true;
            segment.rows.extend(rows.iter().map(|(row, _)| *row));
        }
        self.bytes += at - begin;
        self.news += at - begin;
        for ((row, base), draft) in rows.iter().zip(drafts) {
            self.apply(number, row, *base, draft.frecency);
        }
        Ok(rows.len())
    }

    /// Bytes of a file: all of them or nothing.
    pub fn read(&self, name: &str, at: u64, len: u64) -> Option<Bytes> {
        let mut buffer = vec![0; usize::try_from(len).ok()?];
        if buffer.len() > CHUNK {
            self.disk.will_need(name, at, len);
        }
        let filled = self.disk.read(name, at, &mut buffer).ok()?;
        (filled == buffer.len()).then(|| buffer.into())
    }

    /// The records of a segment from a place on, each checked to its last byte, up to the first that is not right, and
    /// where that is.
    pub fn records(&self, name: &str, from: u64, len: u64) -> (Vec<Row>, u64) {
        let (mut rows, mut at) = (Vec::new(), 0);
        let Some(bytes) = self.read(name, from, len) else { return (rows, from) };
        while let Some((head, _)) = format::record(&bytes.slice(at..), self.seed) {
            rows.push(row(&head, head.key.hash(self.seed), from + at as u64));
            at += head.record_len() as usize;
        }
        (rows, from + at as u64)
    }

    /// Reads the rows of records that the snapshot alone knew, about so many bytes of them. `true`: all are there.
    pub fn learn(&mut self, number: u32, most: u64) -> bool {
        let name = self.name(number);
        let Some((unread, from)) = self.segments.get(&number).map(|segment| {
            let last = segment.rows.iter().rfind(|row| u64::from(row.offset) < segment.unread);
            let from = last.map_or(SEGMENT_HEAD as u64, |row| u64::from(row.offset) + u64::from(row.size));
            (segment.unread, from)
        }) else {
            return true;
        };
        if from >= unread {
            return true;
        }
        let (mut rows, mut end) = self.records(&name, from, most.min(unread - from));
        if rows.is_empty() {
            // One that is longer, or none.
            (rows, end) = self.records(&name, from, unread - from);
        }
        let Some(segment) = self.segments.get_mut(&number) else { return true };
        let at = segment.rows.partition_point(|row| u64::from(row.offset) < unread);
        let none = rows.is_empty();
        segment.rows.splice(at..at, rows);
        none || end >= unread
    }

    /// Nothing more comes into the open segment.
    pub fn close_open(&mut self) {
        if let Some(segment) = self.open.take().and_then(|open| self.segments.get_mut(&open)) {
            segment.stage = Stage::Full;
        }
    }

    /// Begins a large record.
    pub fn big(&mut self, key: &Key, meta: &Bytes) -> io::Result<Big> {
        self.next += 1;
        let number = self.next - 1;
        self.names_dirty = true;
        self.disk.write(&name(number, true), 0, &[&format::segment_head(number, self.seed)])?;
        let body_at = (SEGMENT_HEAD + format::RECORD_HEAD + key.bytes().len() + meta.len()) as u64;
        Ok(Big { number, body_at, body: 0, sums: Sums::default() })
    }

    /// Adds to its body.
    pub fn big_more(&mut self, big: &mut Big, parts: &[Bytes]) -> io::Result<()> {
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let written = self.disk.write(&name(big.number, true), big.body_at + big.body, &slices);
        self.no_space |= written.as_ref().is_err_and(is_full);
        written?;
        for part in parts {
            big.sums.add(part);
            big.body += part.len() as u64;
        }
        Ok(())
    }

    /// Writes its table, then its head: now it is a record.
    pub fn big_end(&mut self, big: Big, draft: &Draft) -> io::Result<()> {
        let (file, table) = (name(big.number, true), big.sums.table());
        let hash = draft.key.hash(self.seed);
        let older = self.graves.contains_key(&hash) || self.shared.index().get(hash).is_some();
        let head = Head {
            kind: Kind::Put,
            flags: draft.flags | if older { OVERWRITES } else { 0 },
            seq: self.seq,
            group: draft.group,
            body: big.body,
            time: draft.time,
            base: (0, 0),
            key: draft.key.clone(),
            meta: draft.meta.clone(),
            table: format::checksum(&table),
        };
        self.seq += 1;
        self.disk.write(&file, big.body_at + big.body, &[&table])?;
        self.disk.write(&file, SEGMENT_HEAD as u64, &[&head.encode(self.seed)])?;
        let row = row(&head, hash, SEGMENT_HEAD as u64);
        self.news += head.record_len();
        self.add(big.number, true, SEGMENT_HEAD as u64 + head.record_len(), Stage::Full);
        if let Some(segment) = self.segments.get_mut(&big.number) {
            segment.dirty = true;
            segment.rows.push(row);
        }
        self.apply(big.number, &row, None, draft.frecency);
        Ok(())
    }

    /// Throws a large record away that is not whole.
    pub fn big_drop(&self, big: &Big) {
        self.drop_big(big.number);
    }

    /// The same, by its number.
    pub fn drop_big(&self, number: u32) {
        let _ = self.disk.unlink(&name(number, true));
    }

    /// Lets a segment go with the next commit.
    pub fn free(&mut self, number: u32) {
        if self.open == Some(number) {
            self.open = None;
        }
        if let Some(segment) = self.segments.get_mut(&number).filter(|segment| segment.stage != Stage::Unlinked) {
            segment.stage = Stage::Freed;
            segment.dirty = false;
        }
    }

    /// Bytes of files that nothing will free without eviction.
    pub fn held(&self) -> u64 {
        let freed: u64 = self.segments.values().filter(|one| one.stage >= Stage::Freed).map(|one| one.len).sum();
        self.bytes - freed
    }
}

fn row(head: &Head, hash: u64, at: u64) -> Row {
    Row {
        hash,
        seq: head.seq,
        offset: at as u32,
        size: head.record_len().min(u64::from(u32::MAX)) as u32,
        kind: head.kind,
        flags: head.flags,
        partition: head.key.tag(),
        time: head.time,
    }
}

/// Whether a disk said that it takes no more.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The row of a record that recovery found.
pub(crate) fn found(head: &Head, seed: u64, at: u64) -> Row {
    row(head, head.key.hash(seed), at)
}

//! How a store comes to know what lies on its disk: the snapshot of its index, and what is newer than that, told by
//! the footers of sealed segments and by the records of others. Newest first, so that what was found once stays, and
//! can be served before all is known.

use crate::commit::{self, INDEX, INDEX_NEW};
use crate::format::{self, CHUNK, Head, Kind, ROW, Row, SEGMENT_HEAD, SLOT, Snapshot, TRAILER};
use crate::index::{Index, Slot};
use crate::log::{self, Base, Log, Stage};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;

/// A segment to look through.
struct Todo {
    number: u32,
    big: bool,
    len: u64,
    /// Bytes that the snapshot knows, and that were on the medium before it was.
    known: u64,
}

/// Hashes need not be hashed again.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// What is left to find out.
pub(crate) struct Rebuild {
    /// Segments; the last one is the next.
    todo: Vec<Todo>,
    /// The snapshot's slots: older than all that is found.
    slots: Vec<[u8; SLOT]>,
    /// The number of the latest record found of each key.
    seen: HashMap<u64, u64, BuildHasherDefault<Plain>>,
    /// Records below this number are what the snapshot says, or gone.
    floor: u64,
}

/// Reads directory and snapshot.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn start(log: &mut Log) -> io::Result<Rebuild> {
    let mut files: Vec<(u32, bool, u64)> = Vec::new();
    let mut index = None;
    for (name, len) in log.disk.list()? {
        if name == INDEX {
            index = Some(len);
        } else if name == INDEX_NEW {
            let _ = log.disk.unlink(INDEX_NEW);
        } else if let Some((number, kind)) = name.split_once('.')
            && let (Ok(number), "seg" | "big") = (u32::from_str_radix(number, 16), kind)
            && log::name(number, kind == "big") == name
        {
            files.push((number, kind == "big", len));
        }
    }
    let snapshot = index.and_then(|len| Snapshot::parse(&log.read(INDEX, 0, len)?));
    let mut seed = snapshot.as_ref().map(|snapshot| snapshot.seed);
    let snapshot = snapshot.unwrap_or_default();
    let known: HashMap<u32, u64> = snapshot.segments.iter().copied().collect();
    let last = files.iter().map(|(number, ..)| *number).chain(known.keys().copied()).max();
    log.next = last.unwrap_or(0).saturating_add(1);
    log.seq = snapshot.seq.max(1);
    files.sort_unstable();
    let (mut small, mut todo) = (Vec::new(), Vec::new());
    for (number, big, len) in files {
        let (known, sealed) = known.get(&number).map_or((0, false), |row| commit::known(*row));
        if known == len && len > SEGMENT_HEAD as u64 {
            log.add(number, big, len, if sealed { Stage::Sealed } else { Stage::Full });
            if let Some(segment) = log.segments.get_mut(&number) {
                segment.synced = len;
                segment.unread = if sealed { 0 } else { len };
            }
            continue;
        }
        let name = log::name(number, big);
        let theirs = log.read(&name, 0, SEGMENT_HEAD as u64).and_then(|head| format::segment_seed(&head, number));
        match theirs.filter(|theirs| *theirs == *seed.get_or_insert(*theirs)) {
            Some(_) => if big { &mut todo } else { &mut small }.push(Todo { number, big, len, known }),
            // It never became a segment of this store.
            None => drop(log.disk.unlink(&name)),
        }
    }
    // Large ones first: their numbers do not tell how new they are.
    small.append(&mut todo);
    log.seed = seed.unwrap_or_else(|| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), log::now()));
    Ok(Rebuild { todo: small, slots: snapshot.slots, seen: HashMap::default(), floor: snapshot.seq })
}

impl Rebuild {
    /// Looks through one segment. `true`: all is known.
    pub fn step(&mut self, log: &mut Log) -> bool {
        if let Some(todo) = self.todo.pop() {
            self.look(log, &todo);
            return false;
        }
        self.end(log);
        true
    }

    /// Whether what the index holds now is what it will hold: nothing large is left to look at.
    pub fn is_settled(&self) -> bool {
        !self.todo.last().is_some_and(|todo| todo.big)
    }

    fn look(&mut self, log: &mut Log, todo: &Todo) {
        let name = log::name(todo.number, todo.big);
        if let Some((at, rows)) = footer(log, &name, todo.len) {
            // Its data is whole, or it would have no footer.
            log.add(todo.number, todo.big, at + (rows.len() * ROW + TRAILER) as u64, Stage::Sealed);
            if let Some(segment) = log.segments.get_mut(&todo.number) {
                // The footer itself may not be on the medium.
                segment.dirty = true;
            }
            return self.found(log, todo.number, &rows);
        }
        let known = if todo.known <= todo.len && !todo.big { todo.known } else { 0 };
        let (rows, end) = if todo.big {
            big(log, &name)
        } else {
            // One record may be longer than a segment, by its metadata.
            let most = log.full + (2 * format::MOST_META) as u64;
            let from = known.max(SEGMENT_HEAD as u64);
            log.records(&name, from, todo.len.min(most).saturating_sub(from))
        };
        log.add(todo.number, todo.big, end, Stage::Full);
        self.found(log, todo.number, &rows);
        if let Some(segment) = log.segments.get_mut(&todo.number) {
            // It may never have been synced; its footer waits for that.
            segment.dirty = true;
            (segment.synced, segment.unread) = (known, known);
            segment.rows = rows;
        }
        if end <= SEGMENT_HEAD as u64 {
            log.free(todo.number);
        }
    }

    /// Newer records of a segment.
    fn found(&mut self, log: &mut Log, segment: u32, rows: &[Row]) {
        for row in rows {
            log.seq = log.seq.max(row.seq + 1);
            let newer = self.seen.get(&row.hash).is_none_or(|seen| *seen < row.seq);
            if row.seq < self.floor || !newer {
                continue;
            }
            self.seen.insert(row.hash, row.seq);
            let base = if row.kind == Kind::Side { side(log, segment, row) } else { None };
            if row.kind == Kind::Side && base.is_none() {
                log.forget(row.hash);
                continue;
            }
            // The time it was written is all that is known of its use.
            log.apply(segment, row, base, None);
        }
    }

    fn end(&mut self, log: &mut Log) {
        let mut slots = std::mem::take(&mut self.slots);
        let (seen, segments) = (&self.seen, &log.segments);
        let known = |segment: u32| segments.get(&segment).is_some_and(|one| one.stage < Stage::Freed);
        let (mut graves, mut bases) = (Vec::new(), Vec::new());
        // In place: there may be millions.
        slots.retain(|bytes| {
            let slot = Slot::parse(bytes);
            if slot.segment == 0 {
                let (hash, base) = commit::extra(bytes);
                if !seen.contains_key(&hash) && known(base.place.0) {
                    if base.size == 0 { &mut graves } else { &mut bases }.push((hash, base));
                }
            }
            slot.segment != 0 && !seen.contains_key(&slot.hash) && known(slot.segment)
        });
        log.graves.extend(graves.into_iter().map(|(hash, base)| (hash, base.place)));
        log.bases.extend(bases);
        // A side record is nothing without its base.
        slots.retain(|bytes| {
            let slot = Slot::parse(bytes);
            !slot.side() || log.bases.contains_key(&slot.hash)
        });
        let newer: Vec<Slot> = log.shared.index().iter().copied().collect();
        let slot = |at: usize| slots.get(at).map_or_else(|| newer[at - slots.len()], Slot::parse);
        let index = Index::of((0..slots.len() + newer.len()).map(slot));
        drop((slots, newer));
        log.segments.values_mut().for_each(|segment| segment.live = 0);
        let mut live: HashMap<u32, u64> = HashMap::new();
        index.iter().for_each(|slot| *live.entry(slot.segment).or_default() += slot.size());
        log.bases.retain(|hash, _| index.get(*hash).is_some_and(|slot| slot.side()));
        log.bases.values().for_each(|base| *live.entry(base.place.0).or_default() += base.bytes());
        for (number, bytes) in live {
            if let Some(segment) = log.segments.get_mut(&number) {
                segment.live = bytes;
            }
        }
        *log.shared.index_mut() = index;
        self.seen = HashMap::default();
    }
}

/// The footer of a sealed segment: where it begins, and its rows.
pub(crate) fn footer(log: &Log, name: &str, len: u64) -> Option<(u64, Vec<Row>)> {
    let trailer = log.read(name, len.checked_sub(TRAILER as u64)?, TRAILER as u64)?;
    let (at, _) = format::trailer(&trailer, len)?;
    Some((at, format::rows(&log.read(name, at, len - at)?)?))
}

/// The record of a large segment that was not sealed, checked to its last byte.
fn big(log: &Log, name: &str) -> (Vec<Row>, u64) {
    let nothing = (Vec::new(), SEGMENT_HEAD as u64);
    let Some(head) = head(log, name, SEGMENT_HEAD as u64) else { return nothing };
    let body = SEGMENT_HEAD as u64 + head.head_len();
    let Some(table) = log.read(name, body + head.body, head.table_len()) else { return nothing };
    let mut chunks = (0..head.body).step_by(CHUNK).enumerate();
    let right = |(number, at): (usize, u64)| {
        let chunk = log.read(name, body + at, (head.body - at).min(CHUNK as u64));
        chunk.is_some_and(|chunk| format::chunk_is_right(&table, number, &chunk))
    };
    if format::checksum(&table) != head.table || !chunks.all(right) {
        return nothing;
    }
    (vec![log::found(&head, log.seed, SEGMENT_HEAD as u64)], SEGMENT_HEAD as u64 + head.record_len())
}

/// The head of the record at a place of a file.
pub(crate) fn head(log: &Log, name: &str, at: u64) -> Option<Head> {
    let mut buffer = vec![0; 4096];
    let filled = log.disk.read(name, at, &mut buffer).ok()?;
    buffer.truncate(filled);
    let len = format::head_len(&buffer)?;
    let bytes = if len <= filled { buffer.into() } else { log.read(name, at, len as u64)? };
    format::head(&bytes, log.seed)
}

/// The base that a side record names.
fn side(log: &Log, segment: u32, row: &Row) -> Option<Base> {
    let side = head(log, &log.name(segment), row.offset.into())?;
    let big = [true, false];
    let base = |big| head(log, &log::name(side.base.0, big), side.base.1.into());
    let base = big.into_iter().find_map(base).filter(|base| base.key == side.key && base.kind == Kind::Put)?;
    Some(Base::new(side.base, base.record_len()))
}

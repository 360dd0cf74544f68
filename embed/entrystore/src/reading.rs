//! Reads: finding an entry's record, its metadata first, then its body a chunk at a time, each checked before anybody
//! sees it.

use crate::ahead::Ahead;
use crate::burst;
use crate::format::{self, CHUNK, Kind};
use crate::index::Slot;
use crate::key::Key;
use crate::log::{Log, Place};
use crate::recover;
use crate::shared::{Event, Op, Phase, State};
use bytes::Bytes;
use std::collections::HashMap;
use thaw_log::queue::Level;

/// Bytes of a record that is read at once, whole.
const WHOLE: u64 = (CHUNK + (64 << 10)) as u64;
/// Bytes between two records that both are asked for, which are read rather than asked for twice.
const GAP: u64 = 64 << 10;
/// Bytes of a large body that are asked for at once.
const STRIDE: u64 = 1 << 20;

/// An entry whose body is being read.
struct Held {
    segment: u32,
    /// Where in it the body begins.
    body_at: u64,
    body: u64,
    table: Bytes,
}

/// Reads under way. Their segments stay on disk.
#[derive(Default)]
pub(crate) struct Readers {
    held: HashMap<u64, Held>,
    ahead: Ahead,
    /// The last ticket when a burst had come to its end.
    settled: u64,
}

/// What an index's slot led to.
enum Found {
    Whole(Bytes, Bytes),
    Long(Bytes, Held),
    /// The hash is another key's.
    Other,
    Broken,
}

fn body_place(segment: u32, at: u64) -> Place {
    (segment, at.min(u32::MAX.into()) as u32)
}

impl Readers {
    /// The next step of a read. A key: its record is not right.
    pub fn step(&mut self, log: &mut Log, id: u64) -> Option<Key> {
        let shared = log.shared.clone();
        let state = shared.lock();
        let reading = state.reads.get(&id)?;
        let (key, at, end, is_open) = (reading.key.clone(), reading.at, reading.end, reading.open);
        drop(state);
        if is_open { self.chunk(log, id, &key, at, end) } else { self.open(log, id, &key) }
    }

    /// Lets go of a read's segment.
    pub fn let_go(&mut self, log: &mut Log, id: u64) {
        if let Some(held) = self.held.remove(&id)
            && let Some(segment) = log.segments.get_mut(&held.segment)
        {
            segment.readers -= 1;
        }
    }

    fn open(&mut self, log: &mut Log, id: u64, key: &Key) -> Option<Key> {
        let shared = log.shared.clone();
        let hash = key.hash(log.seed);
        let slot = shared.index().get(hash);
        let slot = match slot {
            Some(slot) => slot,
            None => {
                // It went while the read waited; maybe because a newer one comes.
                shared.look(&mut shared.lock(), id);
                return None;
            }
        };
        let rebuilding = shared.lock().phase != Phase::Serving;
        let found = if rebuilding && log.segments.get(&slot.segment).is_some_and(|segment| segment.big) {
            let mut state = shared.lock();
            let reading = state.reads.get_mut(&id)?;
            reading.busy = false;
            let level = reading.level;
            // A segment that is not looked through yet may hold a newer one.
            state.parked.push((level, id));
            return None;
        } else {
            self.find(log, key, hash)
        };
        let mut guard = shared.lock();
        let state = &mut *guard;
        let cleared = state.clears.iter().any(|(_, clear)| clear.wants(key));
        let fresh = state.fresh.get(key).map(|fresh| &fresh.op);
        let found = if cleared || matches!(fresh, Some(Op::Remove)) { Found::Other } else { found };
        let newer = match fresh {
            Some(Op::Meta(meta)) => Some(meta.clone()),
            _ => None,
        };
        let clean = fresh.is_none();
        state.reads.get(&id)?;
        let (meta, body, held) = match found {
            Found::Whole(meta, body) => (meta, body.len() as u64, Ok(body)),
            Found::Long(meta, held) => (meta, held.body, Err(held)),
            Found::Other | Found::Broken => {
                let broken = matches!(found, Found::Broken);
                state.reads.remove(&id);
                state.counts.misses += 1;
                state.counts.broken += u64::from(broken);
                shared.tell(state, id, Event::Miss);
                return broken.then(|| key.clone());
            }
        };
        let meta_now = newer.unwrap_or_else(|| meta.clone());
        state.counts.disk_hits += 1;
        if clean {
            state.pool.put(key, meta, held.as_ref().ok().cloned(), body);
        }
        match held {
            Ok(whole) => shared.open(state, id, meta_now, Some(whole), body),
            Err(held) => {
                let reading = state.reads.get_mut(&id)?;
                reading.disk = true;
                reading.place = body_place(held.segment, held.body_at + reading.at.min(body));
                if let Some(segment) = log.segments.get_mut(&held.segment) {
                    segment.readers += 1;
                }
                self.held.insert(id, held);
                shared.open(state, id, meta_now, None, body);
            }
        }
        None
    }

    fn chunk(&mut self, log: &mut Log, id: u64, key: &Key, at: u64, end: u64) -> Option<Key> {
        let held = self.held.get(&id)?;
        let number = at / CHUNK as u64;
        let begin = number * CHUNK as u64;
        let mut buffer = log.shared.buffers.take((held.body - begin).min(CHUNK as u64) as usize);
        let name = log.name(held.segment);
        let place = held.body_at + begin;
        let filled = log.disk.read_resident(&name, place, &mut buffer) || {
            let upto = end.min((begin / STRIDE + 1) * STRIDE);
            log.disk.will_need(&name, place, upto.saturating_sub(begin).max(buffer.len() as u64));
            log.disk.read(&name, place, &mut buffer).is_ok_and(|filled| filled == buffer.len())
        };
        let right = filled && format::chunk_is_right(&held.table, number as usize, &buffer);
        let mut guard = log.shared.lock();
        let state = &mut *guard;
        let reading = state.reads.get_mut(&id)?;
        if !right {
            state.counts.broken += 1;
            log.shared.let_go(state, id);
            log.shared.tell(state, id, Event::Aborted);
            return Some(key.clone());
        }
        let upto = (begin + buffer.len() as u64).min(end);
        reading.held = log.shared.buffers.lend(buffer).slice((at - begin) as usize..(upto - begin) as usize);
        reading.busy = false;
        reading.place = body_place(held.segment, held.body_at + upto);
        log.shared.feed(state, id);
        None
    }

    fn find(&mut self, log: &Log, key: &Key, hash: u64) -> Found {
        let Some(slot) = log.shared.index().get(hash) else { return Found::Other };
        let (mut place, mut size, mut meta) = ((slot.segment, slot.offset), slot.size(), None);
        if slot.side() {
            let Some(side) = recover::head(log, &log.name(place.0), place.1.into()) else { return Found::Broken };
            let Some(base) = log.bases.get(&hash) else { return Found::Broken };
            if side.key != *key {
                return Found::Other;
            }
            (place, size, meta) = (base.place, base.bytes(), Some(side.meta));
        }
        let name = log.name(place.0);
        if size <= WHOLE {
            let mut buffer = log.shared.buffers.take(size as usize);
            let at = u64::from(place.1);
            let mut read = None;
            if !log.disk.read_resident(&name, at, &mut buffer) {
                self.settled = burst::settle(log, self.settled, Level::UrgentRead);
                let mut bytes = self.ahead.around(place.0, &(at..at + size));
                bytes.end = bytes.end.max(together(log, &log.shared.lock(), place, at + size));
                if bytes != (at..at + size) {
                    log.disk.will_need(&name, bytes.start, bytes.end - bytes.start);
                }
                let Ok(filled) = log.disk.read(&name, at, &mut buffer) else { return Found::Broken };
                buffer.truncate(filled);
                read = Some(bytes);
            }
            let record = format::record(&log.shared.buffers.lend(buffer), log.seed);
            if let (Some(bytes), Some((head, _))) = (read, &record) {
                self.ahead.read(place.0, bytes, head.group);
            }
            return match record {
                Some((head, _)) if head.key != *key => Found::Other,
                Some((head, body)) if head.kind == Kind::Put => Found::Whole(meta.unwrap_or(head.meta), body),
                _ => Found::Broken,
            };
        }
        let Some(head) = recover::head(log, &name, place.1.into()) else { return Found::Broken };
        if head.key != *key {
            return Found::Other;
        }
        let body_at = u64::from(place.1) + head.head_len();
        let table = log.read(&name, body_at + head.body, head.table_len());
        match table.filter(|table| format::checksum(table) == head.table && head.kind == Kind::Put) {
            Some(table) => {
                let held = Held { segment: place.0, body_at, body: head.body, table };
                Found::Long(meta.unwrap_or(head.meta), held)
            }
            None => Found::Broken,
        }
    }
}

/// Up to where the reads of a segment go on that wait behind a record, with it.
fn together(log: &Log, state: &State, place: Place, mut end: u64) -> u64 {
    let index = log.shared.index();
    let most = u64::from(place.1) + STRIDE;
    for level in [Level::UrgentRead, Level::Read] {
        for ((segment, at), job) in state.queue.behind(level, place) {
            let at = u64::from(at);
            if segment != place.0 || at > end + GAP || at >= most {
                break;
            }
            let slot = state.reads.get(&job).and_then(|reading| index.get(reading.key.hash(log.seed)));
            end = end.max(at + slot.as_ref().map_or(0, Slot::size).min(WHOLE));
        }
    }
    end
}

//! Eviction: frees a segment at a time. What is used often or lately moves to the head of the log, the rest is
//! forgotten; where an older record of a key may lie below, a removal stays, so that it never comes back.

use crate::format::{self, Head, Kind, OVERWRITES, PINNED, Row, SEGMENT_HEAD};
use crate::index::Slot;
use crate::log::{self, Draft, Log, Stage};
use crate::recover;
use std::collections::HashMap;

/// Bytes of records that one step looks at.
const STEP: u64 = 256 << 10;

/// A segment that is being freed.
pub(crate) struct Evict {
    number: u32,
    rows: Vec<Row>,
    at: usize,
    /// What is used more than that stays.
    line: u16,
    /// Bytes that may move yet.
    room: u64,
    /// No record with a lower number than those of this segment can lie in another one.
    lowest: bool,
    /// Its rows are to be read first, from its records.
    unread: bool,
}

/// What a step did.
#[derive(Default)]
pub(crate) struct Did {
    pub evicted: u64,
    pub moved: u64,
    /// The segment is freed.
    pub done: bool,
}

#[derive(Default, Clone, Copy)]
struct Heat {
    hot: u64,
    pinned: u64,
}

/// Begins to free the segment that gives the most, so that files take `target` bytes after some of them. `None`:
/// nothing can be freed.
pub(crate) fn begin(log: &mut Log, target: u64) -> Option<Evict> {
    let need = log.held().saturating_sub(target).max(1);
    let mut cold = vec![0_u64; 1 << 16];
    log.shared.index().iter().filter(|slot| !slot.pinned()).for_each(|slot| {
        cold[usize::from(slot.frecency)] += slot.size();
    });
    let mut sum = 0;
    let reaches = |bytes: &u64| {
        sum += bytes;
        sum >= need
    };
    let line = cold.iter().position(reaches).unwrap_or(usize::from(u16::MAX)) as u16;
    let mut heat: HashMap<u32, Heat> = HashMap::new();
    let mut warm = |segment: u32, size: u64, pinned: bool| {
        let heat = heat.entry(segment).or_default();
        heat.hot += size;
        heat.pinned += if pinned { size } else { 0 };
    };
    for slot in log.shared.index().iter().filter(|slot| slot.frecency > line || slot.pinned()) {
        warm(slot.segment, slot.size(), slot.pinned());
        if let Some(base) = log.bases.get(&slot.hash) {
            warm(base.place.0, base.bytes(), slot.pinned());
        }
    }
    if log.open.is_some() && log.segments.values().all(|one| one.stage == Stage::Open || one.stage >= Stage::Freed) {
        log.close_open();
    }
    let mut best: Option<(u64, u32)> = None;
    for (number, segment) in &log.segments {
        let heat = heat.get(number).copied().unwrap_or_default();
        let able = matches!(segment.stage, Stage::Full | Stage::Sealed);
        // A large record never moves, and nothing moves on a full disk. To move nearly all of one gains nothing.
        let stays = heat.pinned > 0 && (segment.big || log.no_space) || heat.pinned * 10 > segment.len * 9;
        if !able || stays {
            continue;
        }
        // In quarters, so that of much the same ones the oldest goes.
        let worth = heat.hot * 4 / segment.len.max(1);
        if log.no_space {
            // No removal can be written: only the oldest one leaves nothing older to come back.
            best = Some((0, *number));
            break;
        }
        if best.is_none_or(|(least, _)| worth < least) {
            best = Some((worth, *number));
        }
    }
    let (_, number) = best?;
    let segment = log.segments.get(&number)?;
    let unread = segment.unread > 0;
    let rows = match segment.stage {
        _ if unread => Some(Vec::new()),
        Stage::Sealed => recover::footer(log, &log.name(number), segment.len).map(|(_, rows)| rows),
        _ => Some(segment.rows.clone()),
    };
    let below = log.segments.range(..number).next().is_some();
    let beside = log.segments.range(number + 1..).next().is_some_and(|(_, next)| next.big);
    let lowest = !below && !beside && !segment.big;
    let room = if log.no_space { 0 } else { segment.len / 2 };
    let Some(rows) = rows else {
        // Nothing says what is in it: nothing of it counts.
        let inside: Vec<u64> =
            log.shared.index().iter().filter(|slot| slot.segment == number).map(|slot| slot.hash).collect();
        for hash in inside {
            log.forget(hash);
        }
        return Some(Evict { number, rows: Vec::new(), at: 0, line, room, lowest, unread });
    };
    Some(Evict { number, rows, at: 0, line, room, lowest, unread })
}

/// Takes out of the index what lies in a segment without a row: a record before it is not right any more, so that
/// nothing tells its key.
fn forget_others(log: &mut Log, number: u32, rows: &[Row]) {
    let known: HashMap<u64, u32> = rows.iter().map(|row| (row.hash, row.offset)).collect();
    let lost: Vec<u64> = {
        let index = log.shared.index();
        let inside = index.iter().filter(|slot| slot.segment == number && !known.contains_key(&slot.hash));
        inside.map(|slot| slot.hash).collect()
    };
    for hash in lost {
        log.forget(hash);
    }
}

/// The whole record of a row, if it is right.
fn whole(log: &Log, number: u32, row: &Row) -> Option<(Head, bytes::Bytes)> {
    let mut buffer = vec![0; row.size as usize];
    let filled = log.disk.read(&log.name(number), row.offset.into(), &mut buffer).ok()?;
    buffer.truncate(filled);
    format::record(&buffer.into(), log.seed)
}

impl Evict {
    /// Looks at some of its records.
    pub fn step(&mut self, log: &mut Log) -> Did {
        if self.unread {
            let Some(segment) = log.segments.get(&self.number) else { return Did { done: true, ..Did::default() } };
            if segment.big {
                // Its one record is never moved: the head is enough.
                let head = recover::head(log, &log.name(self.number), SEGMENT_HEAD as u64);
                self.rows = head.map(|head| log::found(&head, log.seed, SEGMENT_HEAD as u64)).into_iter().collect();
            } else if log.learn(self.number, 4 * STEP) {
                self.rows = log.segments.get(&self.number).map(|one| one.rows.clone()).unwrap_or_default();
            } else {
                return Did::default();
            }
            self.unread = false;
            forget_others(log, self.number, &self.rows);
            return Did::default();
        }
        let (mut did, mut drafts, mut looked) = (Did::default(), Vec::new(), 0);
        while let Some(row) = self.rows.get(self.at).copied().filter(|_| looked < STEP) {
            self.at += 1;
            looked += u64::from(row.size);
            self.row(log, &row, &mut drafts, &mut did);
        }
        let about: Vec<_> = drafts.iter().map(|draft: &Draft| (draft.kind, draft.flags, draft.key.clone())).collect();
        let stored = log.append(drafts);
        for ((kind, flags, key), stored) in about.into_iter().zip(stored) {
            if stored {
                continue;
            }
            did.evicted += u64::from(kind != Kind::Remove);
            let hash = key.hash(log.seed);
            log.forget(hash);
            if flags & OVERWRITES != 0 || kind != Kind::Put {
                log.owed.insert(hash, key);
            }
        }
        if self.at >= self.rows.len() {
            log.free(self.number);
            did.done = true;
        }
        did
    }

    fn row(&mut self, log: &mut Log, row: &Row, drafts: &mut Vec<Draft>, did: &mut Did) {
        let place = (self.number, row.offset);
        if row.kind == Kind::Remove {
            if log.graves.get(&row.hash) != Some(&place) {
                return;
            }
            if self.lowest {
                log.graves.remove(&row.hash);
            } else if let Some(head) = recover::head(log, &log.name(self.number), row.offset.into()) {
                drafts.push(Draft::removal(head.key));
            }
            return;
        }
        let Some(slot) = log.shared.index().get(row.hash) else { return };
        let direct = (slot.segment, slot.offset) == place;
        let base = log.bases.get(&row.hash).copied();
        // The body of a side record that lies in this segment too comes with that one.
        let below = !direct && slot.segment != self.number && base.is_some_and(|base| base.place == place);
        if !direct && !below {
            return;
        }
        let size = base.map_or(slot.size(), |base| base.bytes());
        let hot = slot.pinned() || slot.frecency > self.line && size <= self.room;
        let is_big = log.segments.get(&self.number).is_some_and(|segment| segment.big);
        if let Some(draft) = (hot && !is_big).then(|| self.moved(log, row, &slot)).flatten() {
            self.room = self.room.saturating_sub(size);
            did.moved += size;
            drafts.push(draft);
            return;
        }
        did.evicted += 1;
        let buried = slot.side() || row.flags & OVERWRITES != 0;
        if buried && !self.lowest {
            match recover::head(log, &log.name(self.number), row.offset.into()) {
                // The removal takes it out of the index.
                Some(head) if head.key.hash(log.seed) == row.hash => return drafts.push(Draft::removal(head.key)),
                _ => {}
            }
        }
        log.forget(row.hash);
    }

    /// The record as it goes on at the head of the log; a body and the metadata in a side record become one again.
    fn moved(&self, log: &Log, row: &Row, slot: &Slot) -> Option<Draft> {
        let base = log.bases.get(&row.hash).copied();
        let aside = match slot.side() {
            true => Some(recover::head(log, &log.name(slot.segment), slot.offset.into())?),
            false => None,
        };
        let flags = if slot.pinned() { PINNED } else { 0 } | row.flags & OVERWRITES;
        let frecency = Some(slot.frecency);
        if let (Some(base), Some(side)) = (base, &aside)
            && base.place.0 != self.number
        {
            let (key, meta, body) = (side.key.clone(), side.meta.clone(), bytes::Bytes::new());
            let base = Some((base.place, side.body, base.bytes()));
            let (kind, group, time) = (Kind::Side, side.group, side.time);
            return Some(Draft { kind, key, meta, body, flags, group, time, base, frecency });
        }
        let from = base.map_or(*row, |base| Row { offset: base.place.1, size: base.bytes() as u32, ..*row });
        let (head, body) = whole(log, self.number, &from)?;
        let meta = aside.as_ref().map_or(head.meta, |side| side.meta.clone());
        let same = head.key.hash(log.seed) == row.hash && head.kind == Kind::Put;
        let flags = flags | if aside.is_some() { OVERWRITES } else { 0 };
        let (kind, key, group, time) = (Kind::Put, head.key, head.group, head.time);
        same.then_some(Draft { kind, key, meta, body, flags, group, time, base: None, frecency })
    }
}

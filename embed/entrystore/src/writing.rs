//! Writes: many small entries with one call, large ones bit by bit. Whoever waits for an entry is told when the kernel
//! has it: nothing here waits for the medium.

use crate::burst;
use crate::format::{Kind, PINNED};
use crate::key::Key;
use crate::log::{self, Big, Draft, Log};
use crate::recover;
use crate::shared::{Event, Job, MOST_BUFFERED, Op, State, Stream};
use bytes::Bytes;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use thaw_log::queue::Level;

/// Bytes of changes that one call to the disk writes, about.
const BATCH: usize = 1 << 20;
/// And their number.
const MOST: usize = 256;

/// Large records under way.
#[derive(Default)]
pub(crate) struct Writers {
    bigs: HashMap<u64, Big>,
    /// The last write was of more than one change: callers do not wait for each.
    many: bool,
}

/// A change that is being written.
struct Change {
    id: u64,
    key: Key,
    op: Op,
    tickets: Vec<u64>,
    cost: usize,
}

fn take(state: &mut State, id: u64) -> Option<Change> {
    let Some(Job::Change(key)) = state.jobs.get(&id) else { return None };
    let key = key.clone();
    state.jobs.remove(&id);
    let fresh = state.fresh.get_mut(&key).filter(|fresh| fresh.job == id)?;
    let (tickets, cost) = (std::mem::take(&mut fresh.tickets), std::mem::take(&mut fresh.cost));
    Some(Change { id, op: fresh.op.clone(), key, tickets, cost })
}

impl Writers {
    /// The next step of a change, or of many. `full`: entries are dropped.
    pub fn step(&mut self, log: &mut Log, level: Level, id: u64, full: bool) {
        let shared = log.shared.clone();
        if shared.lock().streams.contains_key(&id) {
            return self.stream(log, level, id, full);
        }
        if self.many {
            // What is written in one go lies group by group.
            burst::settle(log, 0, level);
        }
        let mut state = shared.lock();
        let clear = state.clears.iter().map(|(clear, _)| *clear).min().unwrap_or(u64::MAX);
        let mut changes: Vec<Change> = take(&mut state, id).into_iter().collect();
        let mut cost = 0;
        while changes.len() < MOST && cost < BATCH {
            let Some(next) = state.queue.first(level) else { break };
            if next > clear || !matches!(state.jobs.get(&next), Some(Job::Change(_))) {
                state.queue.again(level, next);
                break;
            }
            let more = take(&mut state, next);
            cost += more.as_ref().map_or(0, |change| change.cost);
            changes.extend(more);
        }
        drop(state);
        self.many = changes.len() > 1;
        changes.sort_by_key(|change| match change.op {
            Op::Put { group, .. } => group,
            _ => 0,
        });
        write(log, changes, full);
    }

    /// A step of a large entry.
    fn stream(&mut self, log: &mut Log, level: Level, id: u64, full: bool) {
        let shared = log.shared.clone();
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(stream) = state.streams.get_mut(&id) else { return };
        stream.failed |= full || stream.total > state.most_body;
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while let Some(part) = stream.parts.front().filter(|_| bytes < BATCH || stream.failed) {
            bytes += part.len();
            parts.extend(stream.parts.pop_front());
        }
        stream.buffered -= bytes;
        state.pending -= bytes;
        let room = MOST_BUFFERED.saturating_sub(stream.buffered);
        let wants = std::mem::take(&mut stream.wants_room);
        let (failed, key, meta) = (stream.failed, stream.key.clone(), stream.meta.clone());
        if wants {
            shared.tell(state, id, Event::Room(room));
        }
        drop(guard);
        let written = !failed && self.more(log, id, &key, &meta, &parts);
        let mut guard = shared.lock();
        let state = &mut *guard;
        let Some(stream) = state.streams.get_mut(&id) else { return };
        stream.failed |= !written;
        if stream.failed {
            self.fail(log, state, id);
        } else if !stream.parts.is_empty() {
            state.queue.again(level, id);
        } else if stream.finished {
            let Some(stream) = state.streams.remove(&id) else { return };
            drop(guard);
            self.finish(log, id, stream);
        } else {
            stream.busy = false;
        }
    }

    fn more(&mut self, log: &mut Log, id: u64, key: &Key, meta: &Bytes, parts: &[Bytes]) -> bool {
        let big = match self.bigs.entry(id) {
            Entry::Occupied(big) => big.into_mut(),
            Entry::Vacant(place) => match log.big(key, meta) {
                Ok(big) => place.insert(big),
                Err(_) => return false,
            },
        };
        parts.is_empty() || log.big_more(big, parts).is_ok()
    }

    /// Gives a large entry up.
    fn fail(&mut self, log: &mut Log, state: &mut State, id: u64) {
        if let Some(big) = self.bigs.remove(&id) {
            log.big_drop(&big);
        }
        let Some(stream) = state.streams.get_mut(&id) else { return };
        stream.busy = false;
        state.pending -= std::mem::take(&mut stream.buffered);
        stream.parts.clear();
        let (finished, left, key) = (stream.finished, stream.left, stream.key.clone());
        if std::mem::take(&mut stream.wants_room) {
            log.shared.tell(state, id, Event::Room(MOST_BUFFERED));
        }
        if finished || left {
            state.streams.remove(&id);
        }
        if finished && state.fresh.get(&key).is_some_and(|fresh| fresh.job == id) {
            log.lose(&key);
            end(log, state, &key, id, false);
        }
    }

    /// The last of a large entry: from now on it counts, unless its key has been changed since.
    fn finish(&mut self, log: &mut Log, id: u64, stream: Stream) {
        let Some(big) = self.bigs.remove(&id) else { return };
        let shared = log.shared.clone();
        let current = shared.lock().fresh.get(&stream.key).is_some_and(|fresh| fresh.job == id);
        if !current {
            return log.big_drop(&big);
        }
        let draft = draft(&stream.key, stream.meta, Bytes::new(), stream.group, stream.pinned);
        let number = big.number;
        let good = log.big_end(big, &draft).is_ok();
        if !good {
            log.drop_big(number);
            log.lose(&stream.key);
        }
        let mut state = shared.lock();
        state.counts.stored += u64::from(good);
        end(log, &mut state, &stream.key, id, good);
    }

    /// Throws away what is not whole.
    pub fn close(&mut self, log: &Log) {
        self.bigs.drain().for_each(|(_, big)| log.big_drop(&big));
    }
}

/// Tells those who wait for a change that nobody has replaced.
fn end(log: &Log, state: &mut State, key: &Key, id: u64, good: bool) {
    let Some(fresh) = state.fresh.get(key).filter(|fresh| fresh.job == id) else { return };
    state.pending -= fresh.cost;
    let Some(fresh) = state.fresh.remove(key) else { return };
    if !good {
        state.pool.remove(key);
        state.counts.dropped += 1;
    }
    for ticket in fresh.tickets {
        log.shared.tell(state, ticket, Event::Done(good));
    }
}

fn draft(key: &Key, meta: Bytes, body: Bytes, group: u64, pinned: bool) -> Draft {
    let flags = if pinned { PINNED } else { 0 };
    let (kind, time) = (Kind::Put, log::now() as u32);
    Draft { kind, key: key.clone(), meta, body, flags, group, time, base: None, frecency: None }
}

/// A side record for an entry on disk.
fn side(log: &Log, key: &Key, meta: &Bytes) -> Option<Draft> {
    let hash = key.hash(log.seed);
    let slot = log.shared.index().get(hash)?;
    let old = recover::head(log, &log.name(slot.segment), slot.offset.into()).filter(|old| old.key == *key)?;
    let base = match slot.side() {
        true => log.bases.get(&hash).map(|base| (base.place, old.body, base.bytes()))?,
        false => ((slot.segment, slot.offset), old.body, old.record_len()),
    };
    let new = draft(key, meta.clone(), Bytes::new(), old.group, slot.pinned());
    Some(Draft { kind: Kind::Side, base: Some(base), ..new })
}

fn write(log: &mut Log, changes: Vec<Change>, full: bool) {
    let shared = log.shared.clone();
    let (mut drafts, mut which, mut good) = (Vec::new(), Vec::new(), vec![false; changes.len()]);
    for (at, change) in changes.iter().enumerate() {
        let draft = match &change.op {
            Op::Put { .. } if full => None,
            Op::Put { meta, body, group, pinned } => {
                Some(draft(&change.key, meta.clone(), body.clone(), *group, *pinned))
            }
            Op::Meta(meta) => side(log, &change.key, meta),
            Op::Remove => {
                let there = log.shared.index().get(change.key.hash(log.seed)).is_some();
                good[at] = !there;
                there.then(|| Draft::removal(change.key.clone()))
            }
            Op::Stream => None,
        };
        if let Some(draft) = draft {
            drafts.push(draft);
            which.push(at);
        }
    }
    let stored = if drafts.is_empty() { Vec::new() } else { log.append(drafts) };
    which.into_iter().zip(stored).for_each(|(at, stored)| good[at] = stored);
    for (change, good) in changes.iter().zip(&good) {
        if !good {
            // What it was is not true any more.
            log.lose(&change.key);
        }
    }
    let mut guard = shared.lock();
    let state = &mut *guard;
    for (change, good) in changes.into_iter().zip(good) {
        state.pending -= change.cost;
        state.counts.stored += u64::from(good && matches!(change.op, Op::Put { .. }));
        state.counts.dropped += u64::from(!good);
        if state.fresh.get(&change.key).is_some_and(|fresh| fresh.job == change.id) {
            if !good {
                state.pool.remove(&change.key);
            }
            state.fresh.remove(&change.key);
        }
        for ticket in change.tickets {
            shared.tell(state, ticket, Event::Done(good));
        }
    }
}

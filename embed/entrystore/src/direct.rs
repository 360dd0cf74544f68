//! Reads that need no disk: where the kernel has a short record in memory, the caller's own thread takes it, without
//! the store's lock and without waking the I/O thread.

use crate::format::{self, Kind};
use crate::index::Slot;
use crate::key::Key;
use crate::shared::{Entered, Phase, Shared, State};
use bytes::Bytes;

/// Bytes of a record up to which a caller copies and checks it itself: some ten microseconds.
const SHORT: u64 = 64 << 10;

/// What a record held.
pub(crate) struct Found {
    meta: Bytes,
    body: Bytes,
}

/// Where an entry lies, if its record is short, the latest, and needed: nothing waits to change it, nor has memory it.
fn place(shared: &Shared, state: &State, key: &Key, body: bool) -> Option<Slot> {
    let plain = state.phase == Phase::Serving
        && !state.fresh.contains_key(key)
        && !state.pool.has(key, body)
        && !state.clears.iter().any(|(_, clear)| clear.wants(key));
    let slot = if plain { shared.index().get(key.hash(state.seed)) } else { None };
    slot.filter(|slot| !slot.side() && slot.size() <= SHORT)
}

/// Takes the store's lock, and before it an entry that can be had at once. `body`: more than its metadata is wanted.
pub(crate) fn read<'s>(shared: &'s Shared, key: &Key, body: bool) -> (Entered<'s>, Option<Found>) {
    let state = shared.enter();
    let Some(slot) = place(shared, &state, key, body) else { return (state, None) };
    let seed = state.seed;
    drop(state);
    let mut buffer = shared.buffers.take(slot.size() as usize);
    let resident = shared.disk.read_resident(&crate::log::name(slot.segment, false), slot.offset.into(), &mut buffer);
    let bytes = shared.buffers.lend(buffer);
    let record = if resident { format::record(&bytes, seed) } else { None };
    let state = shared.enter();
    // It may have been changed meanwhile.
    let now = place(shared, &state, key, body).map(|now| (now.segment, now.offset));
    // What is not right, the I/O thread sees to.
    let right = |head: &format::Head| head.key == *key && head.kind == Kind::Put;
    let found = record
        .filter(|(head, _)| now == Some((slot.segment, slot.offset)) && right(head))
        .map(|(head, body)| Found { meta: head.meta, body });
    (state, found)
}

/// Answers a read with what was found.
pub(crate) fn answer(shared: &Shared, state: &mut State, id: u64, key: &Key, found: Found) {
    let Found { meta, body } = found;
    let length = body.len() as u64;
    state.pool.put(key, meta.clone(), Some(body.clone()), length);
    state.counts.disk_hits += 1;
    shared.touch(state, key.hash(state.seed));
    shared.open(state, id, meta, Some(body), length);
}

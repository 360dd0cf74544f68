//! From a return address to its id and rule: one table for all threads that is only ever added to.
//!
//! Readers take no lock: a slot's value is written before its key. The table doubles; the old one stays mapped because
//! somebody may still read it, which costs at most as much again. What gets lost while it doubles is found anew and has
//! two ids.

use crate::cfi::Rule;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

struct Slot {
    /// 0: free, 1: being filled, else a return address.
    key: AtomicU64,
    /// Rule in the low bits, id above.
    value: AtomicU64,
}

/// A table in its own mapping.
#[repr(C)]
struct Table {
    shift: u32,
    used: AtomicU32,
    limit: u32,
    _pad: u32,
}

/// What is known of a return address.
#[derive(Clone, Copy)]
pub struct Known {
    pub id: u32,
    pub rule: Rule,
}

const BUSY: u64 = 1;
/// 24 bits of id beside 40 bits of rule.
pub const IDS: u32 = 1 << 24;
const FIRST_BITS: u32 = 8;
const HEADER: usize = size_of::<Table>();

static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());
static GROWING: AtomicBool = AtomicBool::new(false);
static NEXT_ID: AtomicU32 = AtomicU32::new(heap_wire::mark::FIRST_PC);

fn make(bits: u32) -> *mut Table {
    let slots = 1usize << bits;
    let Ok(at) =
        sys::mmap(HEADER + slots * size_of::<Slot>(), sys::PROT_RW, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, None)
    else {
        return core::ptr::null_mut();
    };
    let table = at.cast::<Table>();
    // SAFETY: fresh memory of ours, page-aligned; zeros are free slots.
    unsafe {
        (*table).shift = 64 - bits;
        (*table).limit = (slots / 8 * 5) as u32;
    }
    table
}

/// # Safety
/// `table` was made by [`make`]; `index` is below its number of slots.
#[inline(always)]
unsafe fn slot<'a>(table: *mut Table, index: usize) -> &'a Slot {
    // SAFETY: the caller vouches; tables are never unmapped.
    unsafe { &*table.cast::<u8>().add(HEADER).cast::<Slot>().add(index) }
}

#[inline(always)]
fn hash(pc: u64) -> u64 {
    pc.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What is known of this return address.
#[inline(always)]
pub fn get(pc: u64) -> Option<Known> {
    let table = TABLE.load(Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: a published table; indexes are masked to its size. There are always free slots, so the walk ends.
    unsafe {
        let shift = (*table).shift & 63;
        let mask = (1usize << (64 - shift)) - 1;
        let mut index = (hash(pc) >> shift) as usize;
        loop {
            let slot = slot(table, index);
            match slot.key.load(Acquire) {
                key if key == pc => {
                    let value = slot.value.load(Relaxed);
                    return Some(Known {
                        id: (value >> Rule::BITS) as u32,
                        rule: Rule(value & ((1 << Rule::BITS) - 1)),
                    });
                }
                0 => return None,
                _ => index = (index + 1) & mask,
            }
        }
    }
}

/// A new id for a return address; `None` when there are no more.
pub fn new_id() -> Option<u32> {
    let id = NEXT_ID.fetch_add(1, Relaxed);
    if id >= IDS {
        NEXT_ID.store(IDS, Relaxed);
        return None;
    }
    Some(id)
}

/// Remembers what is known, unless the table cannot grow now: then it is found anew next time.
pub fn put(pc: u64, known: Known) {
    let mut table = TABLE.load(Acquire);
    // SAFETY: a published table.
    if table.is_null() || unsafe { (*table).used.load(Relaxed) >= (*table).limit } {
        grow(table);
        table = TABLE.load(Acquire);
        // SAFETY: as above.
        if table.is_null() || unsafe { (*table).used.load(Relaxed) >= (*table).limit } {
            return;
        }
    }
    // SAFETY: a published table with free slots.
    unsafe { insert(table, pc, u64::from(known.id) << Rule::BITS | known.rule.0) };
}

/// # Safety
/// `table` was made by [`make`].
unsafe fn insert(table: *mut Table, pc: u64, value: u64) {
    // SAFETY: indexes are masked.
    unsafe {
        let shift = (*table).shift & 63;
        let mask = (1usize << (64 - shift)) - 1;
        let mut index = (hash(pc) >> shift) as usize;
        for _ in 0..=mask {
            let slot = slot(table, index);
            match slot.key.compare_exchange(0, BUSY, Acquire, Relaxed) {
                Ok(_) => {
                    slot.value.store(value, Relaxed);
                    slot.key.store(pc, Release);
                    (*table).used.fetch_add(1, Relaxed);
                    return;
                }
                Err(key) if key == pc => return,
                Err(_) => index = (index + 1) & mask,
            }
        }
    }
}

fn grow(old: *mut Table) {
    if GROWING.swap(true, Acquire) {
        return;
    }
    if TABLE.load(Acquire) == old {
        // SAFETY: a published table, or none.
        let bits = if old.is_null() { FIRST_BITS } else { unsafe { 64 - ((*old).shift & 63) + 1 } };
        let table = make(bits.min(26));
        if !table.is_null() {
            if !old.is_null() {
                for index in 0..1usize << (bits - 1) {
                    // SAFETY: below the old table's number of slots.
                    let slot = unsafe { slot(old, index) };
                    let key = slot.key.load(Acquire);
                    if key > BUSY {
                        // SAFETY: the new table has twice the room.
                        unsafe { insert(table, key, slot.value.load(Relaxed)) };
                    }
                }
            }
            TABLE.store(table, Release);
        }
    }
    GROWING.store(false, Release);
}

/// Forgets everything: objects were unloaded, so that addresses may mean something else, or this is a forked child with
/// its own stream.
pub fn forget(ids: Ids) {
    if ids == Ids::Restart {
        NEXT_ID.store(heap_wire::mark::FIRST_PC, Relaxed);
        GROWING.store(false, Relaxed);
    }
    TABLE.store(core::ptr::null_mut(), Release);
}

/// Whether ids begin anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// They go on: the stream goes on.
    Continue,
    /// They begin anew: there is a new stream.
    Restart,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several threads learn the same addresses while the table grows: whoever finds one finds it whole.
    #[test]
    fn what_is_found_is_whole() {
        const ADDRESSES: u64 = if cfg!(miri) { 200 } else { 5000 };
        let address = |number: u64| 0x70_0000_0000 + 24 * number;
        let learn = |first: u64| {
            for number in (0..ADDRESSES).map(|number| (number + first) % ADDRESSES) {
                let pc = address(number);
                if get(pc).is_none() {
                    put(pc, Known { id: new_id().unwrap(), rule: Rule(number) });
                }
                if let Some(known) = get(pc) {
                    assert!(known.rule.0 == number && known.id >= heap_wire::mark::FIRST_PC);
                }
            }
        };
        std::thread::scope(|scope| {
            (0..3).for_each(|thread| _ = scope.spawn(move || learn(thread * ADDRESSES / 3)));
        });
        let missing = (0..ADDRESSES).filter(|number| get(address(*number)).is_none()).count();
        // What came while the table grew may be found anew.
        assert!(missing < ADDRESSES as usize / 2, "{missing}");
    }
}

//! A lane: what one thread remembers, and its place in the stream. No other thread touches it while its thread lives.
//!
//! Memory of lanes is never given back; a lane whose thread has ended is taken over by a new thread. In a forked child the kernel
//! wipes all lanes (MADV_WIPEONFORK), so that the gate is shut and the child notices.

use crate::sample::Gap;
use crate::unwind::{self, Caller, Frame, Walk};
use crate::{file, state, sys, tls};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*, compiler_fence};
use heap_wire::{ChunkHeader, DICTIONARY, DICTIONARY_FRAMES, USABLE_SIZES, kind, meta, stack};

/// Room for remembered frames.
const FRAMES: usize = 256;
/// Its size.
pub const FRAMES_BYTES: u64 = (FRAMES * size_of::<Frame>()) as u64;
/// Longest record: header, three numbers, a byte, a stack of four-byte ids, and the usable size before it; META records have up to 1.2 KB.
const RECORD_MAX: usize = 64 + 4 * FRAMES;
/// First chunk of a lane; later ones double.
const CHUNK_FIRST: usize = heap_wire::PAGE;

const IDLE: u64 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
struct Sequence {
    count: u32,
    ids: [u32; DICTIONARY_FRAMES],
}

/// See the module.
#[repr(C)]
pub struct Lane {
    /// 0: not ready (new, or wiped by a fork). 1: idle. Else: a hook runs; the stack pointer of its caller.
    gate: AtomicU64,
    /// Next byte to write, end of the chunk.
    at: *mut u8,
    end: *mut u8,
    /// Ticks and pointer of the last record.
    ticks: u64,
    pointer: u64,
    /// Elements of `frames` in use, the mark among them.
    pub depth: usize,
    /// Depth limit.
    pub limit: usize,
    /// Where this thread's stack begins (its highest address).
    pub top: u64,
    /// Address of `frames`.
    pub first_frame: u64,
    /// The real allocator runs: what it calls is its own business.
    in_real: u64,
    /// Which blocks are recorded.
    pub gap: Gap,
    /// The loader called an allocator last: objects may have come or gone.
    loader: u64,
    /// [`state::unloaded`] when the remembered stack was taken.
    unloaded: u32,
    chunk: *mut u8,
    chunk_bytes: usize,
    id: u32,
    sequence: u32,
    tid: AtomicU64,
    next: *mut Lane,
    /// For events of signal handlers that interrupt this lane's writing.
    inner: *mut Lane,
    pub frames: [Frame; FRAMES],
    pub scratch: [Frame; FRAMES],
    table: [Sequence; DICTIONARY],
    /// What the last block of a size had beyond it.
    slops: [Slop; USABLE_SIZES],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Slop {
    key: u64,
    bytes: u32,
}

static LANES: AtomicPtr<Lane> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicU64 = AtomicU64::new(0);
/// When there are this many lanes, ended threads are looked for.
static SEARCH_AT: AtomicU64 = AtomicU64::new(16);

/// One event on its way into the stream.
#[derive(Clone, Copy)]
pub struct Event {
    pub kind: u16,
    pub pointer: u64,
    pub size: u64,
    pub extra: u8,
    /// Bytes that the block has beyond its size.
    pub slop: u32,
}

/// The thread's lane, its gate shut behind; `None`: this call is not to be recorded.
#[inline(always)]
pub fn enter(caller: &Caller) -> Option<&'static mut Lane> {
    let lane = tls::get();
    // SAFETY: the thread's own lane, or null.
    unsafe {
        if !lane.is_null() && (*lane).gate.load(Relaxed) == IDLE {
            (*lane).gate.store(caller.sp, Relaxed);
            compiler_fence(SeqCst);
            return Some(&mut *lane);
        }
    }
    enter_slowly(caller, lane)
}

#[cold]
#[inline(never)]
fn enter_slowly(caller: &Caller, lane: *mut Lane) -> Option<&'static mut Lane> {
    if lane.is_null() {
        if !state::ready() {
            return None;
        }
        let lane = Lane::take()?;
        tls::set(lane);
        return enter(caller);
    }
    // SAFETY: the thread's own lane.
    let lane = unsafe { &mut *lane };
    match lane.gate.load(Relaxed) {
        0 => {
            // Wiped: this is a forked child, and this its first event. All lanes are free again.
            if !state::ready() {
                return None;
            }
            tls::set(Lane::take()?);
            enter(caller)
        }
        // The frame that shut the gate is gone: a signal handler jumped out of a hook. What a hook calls is below its caller.
        gate if caller.sp >= gate && caller.sp < lane.top => {
            lane.in_real = 0;
            lane.gate.store(caller.sp, Relaxed);
            unwind::forget(lane);
            lane.pointer = 0;
            lane.clear_table();
            lane.meta(meta::RESET, &[]);
            Some(lane)
        }
        _ if lane.in_real != 0 => {
            file::count_nested();
            None
        }
        // A signal handler while the lane is being written.
        _ => {
            if lane.inner.is_null() {
                lane.inner = Lane::take()?;
            }
            // SAFETY: an inner lane belongs to the same thread.
            let inner = unsafe { &mut *lane.inner };
            if inner.gate.load(Relaxed) != IDLE {
                file::count_lost();
                return None;
            }
            inner.gate.store(caller.sp, Relaxed);
            Some(inner)
        }
    }
}

impl Lane {
    /// Opens the gate again.
    #[inline(always)]
    pub fn leave(&mut self) {
        compiler_fence(SeqCst);
        self.gate.store(IDLE, Relaxed);
    }

    /// Calls the real allocator: what it calls in turn is not recorded.
    #[inline(always)]
    pub fn outside<T>(&mut self, call: impl FnOnce() -> T) -> T {
        // SAFETY: own fields; volatile because a signal handler on this thread looks at them.
        unsafe { (&raw mut self.in_real).write_volatile(1) };
        let value = call();
        // SAFETY: as above.
        unsafe { (&raw mut self.in_real).write_volatile(0) };
        value
    }

    /// A lane for the calling thread: one whose thread has ended, or a new one.
    fn take() -> Option<*mut Self> {
        let tid = sys::tid();
        let count = COUNT.load(Relaxed);
        let lane = if count >= SEARCH_AT.load(Relaxed) { Self::inherit(tid) } else { None };
        if let Some(lane) = lane {
            return Some(lane);
        }
        let at = from_arena()?;
        let lane = at.cast::<Self>();
        // SAFETY: fresh zeroed memory of ours; zeros are valid for every field.
        let fresh = unsafe { &mut *lane };
        fresh.begin();
        COUNT.fetch_add(1, Relaxed);
        fresh.join();
        Some(lane)
    }

    /// Puts the lane on the list, so that it can be inherited.
    fn join(&mut self) {
        let mut first = LANES.load(Relaxed);
        loop {
            self.next = first;
            match LANES.compare_exchange_weak(first, self, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes over the lane of a thread that has ended.
    fn inherit(tid: u32) -> Option<*mut Self> {
        let pid = sys::pid();
        let (mut alive, mut at, mut taken) = (0, LANES.load(Acquire), None);
        while !at.is_null() {
            // SAFETY: lanes stay mapped; only `tid`, which is atomic, and `next`, which does not change, are read until it is taken.
            let lane = unsafe { &mut *at };
            let owner = lane.tid.load(Relaxed);
            // A lane with this thread's own number is of a dead one too, unless it is this one's outer lane.
            let gone = if owner == u64::from(tid) { at != tls::get() } else { sys::is_gone(pid, owner as u32) };
            if gone && taken.is_none() && lane.tid.compare_exchange(owner, u64::from(tid), Acquire, Relaxed).is_ok() {
                taken = Some(at);
            }
            alive += u64::from(!gone);
            at = lane.next;
        }
        SEARCH_AT.store((2 * alive).max(16), Relaxed);
        let taken = taken?;
        // SAFETY: its thread is gone and nobody else won the exchange.
        let lane = unsafe { &mut *taken };
        lane.in_real = 0;
        lane.loader = 0;
        lane.inner = core::ptr::null_mut();
        lane.introduce(tid);
        lane.gate.store(IDLE, Relaxed);
        Some(taken)
    }

    /// Sets up a zeroed lane.
    fn begin(&mut self) {
        self.id = state::next_lane();
        self.limit = state::depth();
        self.gap = state::gap(self.id);
        self.first_frame = self.frames.as_ptr() as u64;
        let tid = sys::tid();
        self.tid.store(u64::from(tid), Relaxed);
        self.introduce(tid);
        self.gate.store(IDLE, Relaxed);
    }

    /// From here on the lane is the calling thread's.
    fn introduce(&mut self, tid: u32) {
        unwind::forget(self);
        self.clear_table();
        self.pointer = 0;
        self.top = tls::stack_top();
        self.meta(meta::THREAD, &[&tid.to_le_bytes()]);
    }

    fn clear_table(&mut self) {
        self.table.iter_mut().for_each(|entry| entry.count = 0);
        self.slops.fill(Slop { key: u64::MAX, bytes: 0 });
    }

    /// Makes room for a record; a new chunk if need be.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> bool {
        (self.end as usize).wrapping_sub(self.at as usize) >= bytes || self.next_chunk(bytes)
    }

    #[cold]
    #[inline(never)]
    fn next_chunk(&mut self, bytes: usize) -> bool {
        let size = match self.chunk_bytes {
            0 => CHUNK_FIRST,
            last => (last * 2).min(heap_wire::CHUNK_MAX),
        };
        let size = size.max((bytes + size_of::<ChunkHeader>()).next_multiple_of(heap_wire::PAGE));
        if !self.chunk.is_null() {
            // SAFETY: the lane's own finished chunk; nobody else knows it.
            unsafe { sys::munmap(self.chunk, self.chunk_bytes) };
            self.chunk = core::ptr::null_mut();
            (self.at, self.end) = (core::ptr::null_mut(), core::ptr::null_mut());
        }
        let Some(chunk) = file::extend(size) else { return false };
        let ticks = sys::ticks();
        let header =
            ChunkHeader { magic: 0, lane: self.id, sequence: self.sequence, bytes: size as u32, ticks, reserved: 0 };
        // SAFETY: a fresh mapping of `size` bytes. The magic goes last: a chunk without it is skipped by the reader.
        unsafe {
            let place = chunk.cast::<ChunkHeader>();
            place.write(header);
            compiler_fence(SeqCst);
            (&raw mut (*place).magic).write_volatile(heap_wire::CHUNK_MAGIC);
            self.at = chunk.add(size_of::<ChunkHeader>());
            self.end = chunk.add(size);
        }
        self.sequence += 1;
        self.chunk = chunk;
        self.chunk_bytes = size;
        self.ticks = ticks;
        true
    }

    /// Writes a META record; `false`: there was no room.
    pub fn meta(&mut self, what: u8, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if !self.room(length + 32) {
            return false;
        }
        let elapsed = self.elapsed(sys::ticks());
        let bytes = heap_wire::bytes_of(elapsed);
        // SAFETY: `room` made sure that all of it fits.
        unsafe {
            let header = self.at;
            let mut at = header.add(2);
            at.cast::<u64>().write_unaligned(elapsed);
            at = at.add(bytes);
            at.write(what);
            at.add(1).cast::<u16>().write_unaligned(length as u16);
            at = at.add(3);
            for part in parts {
                core::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
            // What the eight bytes of a number wrote beyond it must read as the end of the chunk.
            at.cast::<u16>().write_unaligned(0);
            self.publish(header, at, kind::META | ((bytes - 1) as u16) << 4);
        }
        true
    }

    /// Ticks since the last record.
    #[inline(always)]
    fn elapsed(&mut self, ticks: u64) -> u64 {
        let elapsed = ticks.saturating_sub(self.ticks);
        self.ticks += elapsed;
        elapsed
    }

    /// The record is complete: its header makes it exist.
    ///
    /// # Safety
    /// `header` and `at` are within the chunk.
    #[inline(always)]
    unsafe fn publish(&mut self, header: *mut u8, at: *mut u8, value: u16) {
        compiler_fence(SeqCst);
        // SAFETY: the caller vouches.
        unsafe { header.cast::<u16>().write_unaligned(value) };
        self.at = at;
    }

    /// Writes an event with the stack of its caller.
    ///
    /// # Safety
    /// `caller` is the true state of the calling thread.
    #[inline(always)]
    pub unsafe fn event_with_stack(&mut self, event: Event, caller: Caller) {
        // Before the walk: what is known of an address may be of an object that was there before.
        if !self.loader_calls(caller) && self.loader != 0 {
            self.loader = 0;
            state::objects_changed();
        }
        let unloaded = state::unloaded();
        if self.unloaded != unloaded {
            self.unloaded = unloaded;
            unwind::forget(self);
        }
        // SAFETY: the caller vouches.
        let walk = unsafe { unwind::walk(self, caller) };
        let ticks = sys::ticks_after();
        self.write(event, Some(walk), ticks);
    }

    /// Whether the dynamic linker calls; if so, objects may have come or gone.
    #[inline(always)]
    pub fn loader_calls(&mut self, caller: Caller) -> bool {
        let calls = caller.pc.wrapping_sub(state::loader().0) < state::loader().1;
        if calls {
            self.loader = 1;
        }
        calls
    }

    /// Writes an event alone, stamped with the present.
    #[inline(always)]
    pub fn event(&mut self, event: Event) {
        self.write(event, None, sys::ticks_after());
    }

    #[inline(always)]
    fn write(&mut self, event: Event, walk: Option<Walk>, ticks: u64) {
        if !self.room(RECORD_MAX) {
            // What the reader does not see must not be remembered either.
            unwind::forget(self);
            file::count_lost();
            return;
        }
        if kind::makes_block(event.kind) {
            self.tell_slop(event, ticks);
        }
        let elapsed = self.elapsed(ticks);
        let spread = heap_wire::spread(event.pointer);
        let difference = heap_wire::zigzag(spread.wrapping_sub(self.pointer));
        self.pointer = spread;
        let (time_bytes, pointer_bytes) = (heap_wire::bytes_of(elapsed), heap_wire::bytes_of(difference));
        let mut value = event.kind | ((time_bytes - 1) as u16) << 4 | ((pointer_bytes - 1) as u16) << 7;
        // SAFETY: `room` made sure that the longest record fits; numbers write up to seven bytes beyond themselves, which is within it too.
        unsafe {
            let header = self.at;
            let mut at = header.add(2);
            at.cast::<u64>().write_unaligned(elapsed);
            at = at.add(time_bytes);
            at.cast::<u64>().write_unaligned(difference);
            at = at.add(pointer_bytes);
            if kind::has_size(event.kind) {
                let bytes = heap_wire::bytes_of(event.size);
                value |= ((bytes - 1) as u16) << 10;
                at.cast::<u64>().write_unaligned(event.size);
                at = at.add(bytes);
            }
            if kind::has_extra(event.kind) {
                at.write(event.extra);
                at = at.add(1);
            }
            if let Some(walk) = walk {
                let (code, after) = self.write_stack(walk, at);
                value |= code << 13;
                at = after;
            }
            at.cast::<u64>().write_unaligned(0);
            self.publish(header, at, value);
        }
    }

    /// Writes what a block has beyond its size, where that is not expected. There is room for it.
    #[inline(always)]
    fn tell_slop(&mut self, event: Event, ticks: u64) {
        let key = heap_wire::usable_key(event.size, event.extra);
        // SAFETY: slots are below USABLE_SIZES.
        let known = unsafe { self.slops.get_unchecked_mut(heap_wire::usable_slot(key)) };
        let expected = if known.key == key { known.bytes } else { heap_wire::expected_slop(event.size) };
        if expected != event.slop {
            *known = Slop { key, bytes: event.slop };
            self.write_slop(event.slop, ticks);
        }
    }

    #[inline(never)]
    fn write_slop(&mut self, slop: u32, ticks: u64) {
        let elapsed = self.elapsed(ticks);
        let (time_bytes, bytes) = (heap_wire::bytes_of(elapsed), heap_wire::bytes_of(slop.into()));
        // SAFETY: `room` was made for this and for the record that follows.
        unsafe {
            let header = self.at;
            header.add(2).cast::<u64>().write_unaligned(elapsed);
            let at = header.add(2 + time_bytes);
            at.cast::<u64>().write_unaligned(slop.into());
            let at = at.add(bytes);
            at.cast::<u16>().write_unaligned(0);
            self.publish(header, at, kind::USABLE | ((time_bytes - 1) as u16) << 4 | ((bytes - 1) as u16) << 7);
        }
    }

    /// Writes a stack and remembers it.
    ///
    /// # Safety
    /// There is room for the longest at `at`.
    #[inline(always)]
    unsafe fn write_stack(&mut self, walk: Walk, at: *mut u8) -> (u16, *mut u8) {
        if walk.new == 0 && walk.keep == self.depth {
            return (stack::SAME, at);
        }
        // SAFETY: the caller vouches for the room.
        unsafe { self.write_difference(walk, at) }
    }

    /// # Safety
    /// As [`Lane::write_stack`].
    #[inline(never)]
    unsafe fn write_difference(&mut self, walk: Walk, mut at: *mut u8) -> (u16, *mut u8) {
        unwind::commit(self, walk);
        let first = if walk.keep == 0 { 0 } else { walk.keep };
        let count = self.depth - first;
        // SAFETY: `first..depth` are valid frames; `at` has room for 2 + 4 * FRAMES bytes; slots are below DICTIONARY.
        unsafe {
            let frame = |index: usize| self.frames.get_unchecked(first + index).id;
            at.write(first as u8);
            let (mut hash, mut largest) = (0, 0);
            for index in 0..count {
                hash = heap_wire::mix(hash, frame(index));
                largest |= frame(index);
            }
            if (1..=DICTIONARY_FRAMES).contains(&count) {
                let slot = heap_wire::slot_of(hash);
                let entry = self.table.as_mut_ptr().add(slot);
                if (*entry).count == count as u32
                    && (0..count).all(|index| *(*entry).ids.get_unchecked(index) == frame(index))
                {
                    at.add(1).write(slot as u8);
                    return (stack::KNOWN, at.add(2));
                }
                (*entry).count = count as u32;
                for index in 0..count {
                    *(*entry).ids.get_unchecked_mut(index) = frame(index);
                }
            }
            at.add(1).write(count as u8);
            at = at.add(2);
            if largest < 1 << 16 {
                for index in 0..count {
                    at.cast::<u16>().write_unaligned(frame(index) as u16);
                    at = at.add(2);
                }
                return (stack::NARROW, at);
            }
            for index in 0..count {
                at.cast::<u32>().write_unaligned(frame(index));
                at = at.add(4);
            }
            (stack::WIDE, at)
        }
    }

    /// Says the thread's name.
    pub fn tell_name(&mut self, name: &[u8]) {
        let tid = self.tid.load(Relaxed) as u32;
        self.meta(meta::NAME, &[&tid.to_le_bytes(), name.get(..name.len().min(15)).unwrap_or(&[])]);
    }
}

/// Room for many lanes at once: one mapping and one advice, made before a program locks system calls away. Its first page counts.
static ARENA: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
const ARENA_LANES: u64 = 256;
const LANE_BYTES: usize = size_of::<Lane>().next_multiple_of(4096);

/// A zeroed lane.
fn from_arena() -> Option<*mut u8> {
    loop {
        let arena = ARENA.load(Acquire);
        if !arena.is_null() {
            // SAFETY: the first page of an arena; the lane is inside of it.
            unsafe {
                let number = (*arena).fetch_add(1, Relaxed);
                if number < ARENA_LANES {
                    return Some(arena.cast::<u8>().add(4096 + number as usize * LANE_BYTES));
                }
            }
        }
        let bytes = 4096 + ARENA_LANES as usize * LANE_BYTES;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let fresh = sys::mmap(bytes, sys::PROT_RW, flags, None).ok()?;
        let usable = sys::madvise(fresh, bytes, sys::MADV_WIPEONFORK).is_ok();
        if !usable || ARENA.compare_exchange(arena, fresh.cast(), AcqRel, Relaxed).is_err() {
            // SAFETY: just mapped, known to nobody.
            unsafe { sys::munmap(fresh, bytes) };
        }
        if !usable {
            return None;
        }
    }
}

/// Lanes that are there look frees up in the map of samples from now on. To be called before other threads exist.
pub fn watch_all() {
    let mut at = LANES.load(Acquire);
    while !at.is_null() {
        // SAFETY: lanes stay mapped, and no other thread is in one.
        unsafe {
            (*at).gap.watch();
            at = (*at).next;
        }
    }
}

/// A forked child has no threads but its own: their lanes are gone. The arena stays, wiped with its count: a sandbox may allow no new one.
pub fn forget_all() {
    LANES.store(core::ptr::null_mut(), Relaxed);
    COUNT.store(0, Relaxed);
    SEARCH_AT.store(16, Relaxed);
}

/// Whether no thread is between the beginning and the end of an event. All but the calling thread are stopped.
pub fn is_quiet() -> bool {
    let mut at = LANES.load(Relaxed);
    while !at.is_null() {
        // SAFETY: lanes stay mapped, and nobody changes one now.
        let lane = unsafe { &*at };
        if lane.gate.load(Relaxed) > IDLE {
            return false;
        }
        at = lane.next;
    }
    true
}

/// There is a new stream, and no thread is in a hook: all lanes are as a fork leaves them. Those of ended threads are not used again.
pub fn wipe_all() {
    let mut at = LANES.swap(core::ptr::null_mut(), Relaxed);
    while !at.is_null() {
        // SAFETY: lanes stay mapped, and nobody is in one; zeros are valid for every field.
        unsafe {
            let next = (*at).next;
            if !(*at).chunk.is_null() {
                sys::munmap((*at).chunk, (*at).chunk_bytes);
            }
            core::ptr::write_bytes(at, 0, 1);
            at = next;
        }
    }
    COUNT.store(0, Relaxed);
    SEARCH_AT.store(16, Relaxed);
}

/// A lane without a stream: what is written into it goes to a buffer.
#[cfg(test)]
pub fn for_tests() -> &'static mut Lane {
    let layout = std::alloc::Layout::new::<Lane>();
    // SAFETY: zeros are valid for every field; the memory is never given back.
    let lane = unsafe { &mut *std::alloc::alloc_zeroed(layout).cast::<Lane>() };
    let buffer = Box::leak(vec![0u8; 1 << 20].into_boxed_slice());
    lane.limit = 64;
    lane.first_frame = lane.frames.as_ptr() as u64;
    lane.at = buffer.as_mut_ptr();
    lane.end = buffer.as_mut_ptr_range().end;
    lane.top = tls::stack_top();
    unwind::forget(lane);
    lane
}

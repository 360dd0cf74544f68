//! A lane: what one thread remembers, and its place in the stream: a head that others may see ([`crate::head`]), and a
//! body that is the thread's alone while it has shut the gate.

use crate::arena::{self, LANES};
use crate::head::{Gate, Head};
use crate::sample::Gap;
use crate::unwind::{self, Caller, FRAMES, Stack, Walk};
use crate::{file, module, settings, state, sys, tls};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ptr::NonNull;
use heap_wire::{DICTIONARY, DICTIONARY_FRAMES, USABLE_SIZES, kind, meta, stack};

/// Longest record: header, three numbers, a byte, a stack of four-byte ids, and the usable size before it; META records
/// have up to 1.2 KB.
const RECORD_MAX: usize = 64 + 4 * FRAMES;

#[derive(Clone, Copy)]
#[repr(C)]
struct Sequence {
    count: u32,
    ids: [u32; DICTIONARY_FRAMES],
}

/// See the module.
#[repr(C)]
struct Lane {
    /// First: what is at the lane's own address costs no further register in the hooks.
    body: UnsafeCell<Body>,
    head: Head,
}

/// The lane that a head is of; null for null.
///
/// # Safety
/// The head is one of a lane, or null.
unsafe fn of_head(head: *mut Head) -> *mut Lane {
    if head.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller vouches.
    unsafe { head.byte_sub(offset_of!(Lane, head)).cast() }
}

fn head_of(lane: NonNull<Lane>) -> *mut Head {
    // SAFETY: computes the address of a field; lanes stay mapped.
    unsafe { &raw mut (*lane.as_ptr()).head }
}

#[repr(C)]
struct Body {
    /// First, for the same reason: its place in the stream is the first thing in it.
    stack: Stack,
    /// Which blocks are recorded.
    gap: Gap,
    /// The loader called an allocator last: objects may have come or gone.
    loader: u64,
    /// [`module::unloaded`] when the remembered stack was taken.
    unloaded: u32,
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

/// The calling thread's lane, its gate shut. The body is borrowed within each function alone, none of which comes back
/// to its caller's code: so a signal handler that finds the gate shut, and a hook that was left by a jump, are never
/// beside a borrowed body that is used again.
#[derive(Clone, Copy)]
pub struct Entered(NonNull<Lane>);

/// The thread's lane, its gate shut behind; `None`: this call is not to be recorded.
#[inline(always)]
pub fn enter(caller: &Caller) -> Option<Entered> {
    if let Some(lane) = NonNull::new(tls::get::<Lane>())
        // SAFETY: the thread's own lane stays mapped; heads are shared.
        && unsafe { &(*lane.as_ptr()).head }.shut(caller.sp)
    {
        return Some(Entered(lane));
    }
    enter_slowly(caller)
}

#[cold]
#[inline(never)]
fn enter_slowly(caller: &Caller) -> Option<Entered> {
    let Some(lane) = NonNull::new(tls::get::<Lane>()) else { return begin(caller) };
    // SAFETY: the thread's own lane stays mapped; heads are shared.
    let head = unsafe { &(*lane.as_ptr()).head };
    match head.try_shut(caller.sp) {
        Gate::Entered => Some(Entered(lane)),
        // This is a forked child, and this its first event. All lanes are free again.
        Gate::Wiped => begin(caller),
        Gate::Left => {
            // SAFETY: the gate is this call's now, and whoever had the body will not come back.
            unsafe { Entered(lane).body() }.reset();
            Some(Entered(lane))
        }
        Gate::InReal => {
            file::count_nested();
            None
        }
        Gate::Writing => {
            if head.inner().is_null() {
                head.set_inner(head_of(take()?));
            }
            // SAFETY: a lane's head.
            let inner = NonNull::new(unsafe { of_head(head.inner()) })?;
            // SAFETY: an inner lane belongs to the same thread, and stays mapped.
            if !unsafe { &(*inner.as_ptr()).head }.shut(caller.sp) {
                file::count_lost();
                return None;
            }
            Some(Entered(inner))
        }
    }
}

/// The first event of a thread.
fn begin(caller: &Caller) -> Option<Entered> {
    if !state::ready() {
        return None;
    }
    tls::set(take()?.as_ptr());
    enter(caller)
}

/// A lane for the calling thread: one whose thread has ended, or a new one. Its gate is open.
fn take() -> Option<NonNull<Lane>> {
    const BYTES: usize = size_of::<Lane>().next_multiple_of(4096);
    let (tid, pid, outer) = (sys::tid(), sys::pid(), NonNull::new(tls::get::<Lane>()).map(head_of));
    // A lane with this thread's own number is of a dead one too, unless it is this one's outer lane.
    let is_gone = |at: *mut Head, owner: u32| if owner == tid { Some(at) != outer } else { sys::is_gone(pid, owner) };
    let inherited = LANES.inherit(tid, is_gone).and_then(|head| {
        // SAFETY: the list has heads of lanes.
        NonNull::new(unsafe { of_head(head) })
    });
    let lane = match inherited {
        Some(lane) => lane,
        None => NonNull::new(arena::room(BYTES)?.cast::<Lane>())?,
    };
    // SAFETY: fresh zeroed memory, valid for every field; or of a thread that is gone, whose number nobody else
    // exchanged.
    let (head, body) = unsafe { (&(*lane.as_ptr()).head, &mut *(*lane.as_ptr()).body.get()) };
    if inherited.is_none() {
        body.begin();
    }
    let top = tls::stack_top();
    head.introduce(tid, top);
    body.introduce(tid, top);
    if inherited.is_none() {
        // SAFETY: it stays, and is new.
        unsafe { LANES.join(head_of(lane)) };
    }
    head.open();
    Some(lane)
}

impl Entered {
    #[inline(always)]
    fn head<'a>(self) -> &'a Head {
        // SAFETY: lanes stay mapped; heads are shared.
        unsafe { &(*self.0.as_ptr()).head }
    }

    /// # Safety
    /// No other borrow of it is used while this one is.
    #[inline(always)]
    unsafe fn body<'a>(self) -> &'a mut Body {
        // SAFETY: the gate is this thread's; the caller vouches for the rest.
        unsafe { &mut *(*self.0.as_ptr()).body.get() }
    }

    /// Opens the gate again.
    #[inline(always)]
    pub fn leave(self) {
        self.head().open();
    }

    /// Calls the real allocator: what it calls in turn is not recorded.
    #[inline(always)]
    pub fn outside<T>(self, call: impl FnOnce() -> T) -> T {
        self.head().set_in_real(1);
        let value = call();
        self.head().set_in_real(0);
        value
    }

    /// Writes an event with the stack of its caller.
    ///
    /// # Safety
    /// `caller` is the true state of the calling thread.
    #[inline(always)]
    pub unsafe fn event_with_stack(self, event: Event, caller: Caller) {
        // SAFETY: borrowed by this call alone; the caller vouches for its state.
        unsafe { self.body().event_with_stack(event, caller) };
    }

    /// Writes an event alone, stamped with the present.
    #[inline(always)]
    pub fn event(self, event: Event) {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.event(event);
    }

    /// Whether the dynamic linker calls; if so, objects may have come or gone.
    #[inline(always)]
    pub fn loader_calls(self, caller: Caller) -> bool {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.loader_calls(caller)
    }

    /// Writes a META record; `false`: there was no room.
    pub fn meta(self, what: u8, parts: &[&[u8]]) -> bool {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.stack.writer.meta(what, parts)
    }

    /// Says the thread's name.
    pub fn tell_name(self, name: &[u8]) {
        let tid = self.head().tid();
        self.meta(meta::NAME, &[&tid.to_le_bytes(), name.get(..name.len().min(15)).unwrap_or(&[])]);
    }

    /// See [`Gap::samples`].
    #[inline(always)]
    pub fn samples(self) -> bool {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.gap.samples()
    }

    /// See [`Gap::watches`].
    #[inline(always)]
    pub fn watches(self) -> bool {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.gap.watches()
    }

    /// See [`Gap::ends_in`].
    #[inline(always)]
    pub fn ends_in(self, size: usize) -> bool {
        // SAFETY: borrowed by this call alone.
        unsafe { self.body() }.gap.ends_in(size)
    }
}

impl Body {
    /// Sets up a zeroed one.
    fn begin(&mut self) {
        self.stack.writer.id = arena::next_number();
        self.stack.limit = settings::depth();
        self.gap = settings::gap(self.stack.writer.id);
    }

    /// From here on it is this thread's.
    fn introduce(&mut self, tid: u32, top: u64) {
        self.loader = 0;
        self.forget();
        self.stack.top = top;
        self.stack.writer.meta(meta::THREAD, &[&tid.to_le_bytes()]);
    }

    /// A hook did not come to its end.
    fn reset(&mut self) {
        self.forget();
        self.stack.writer.meta(meta::RESET, &[]);
    }

    /// What later records are told as a difference from.
    fn forget(&mut self) {
        unwind::forget(&mut self.stack);
        self.stack.writer.pointer = 0;
        self.table.iter_mut().for_each(|entry| entry.count = 0);
        self.slops.fill(Slop { key: u64::MAX, bytes: 0 });
    }

    /// Writes an event with the stack of its caller.
    ///
    /// # Safety
    /// `caller` is the true state of the calling thread.
    #[inline(always)]
    unsafe fn event_with_stack(&mut self, event: Event, caller: Caller) {
        // Before the walk: what is known of an address may be of an object that was there before.
        if !self.loader_calls(caller) && self.loader != 0 {
            self.loader = 0;
            state::objects_changed();
        }
        let unloaded = module::unloaded();
        if self.unloaded != unloaded {
            self.unloaded = unloaded;
            unwind::forget(&mut self.stack);
        }
        // SAFETY: the caller vouches.
        let walk = unsafe { unwind::walk(&mut self.stack, caller) };
        let ticks = sys::ticks_after();
        self.write(event, Some(walk), ticks);
    }

    /// Whether the dynamic linker calls; if so, objects may have come or gone.
    #[inline(always)]
    fn loader_calls(&mut self, caller: Caller) -> bool {
        let calls = caller.pc.wrapping_sub(module::loader().0) < module::loader().1;
        if calls {
            self.loader = 1;
        }
        calls
    }

    /// Writes an event alone, stamped with the present.
    #[inline(always)]
    fn event(&mut self, event: Event) {
        self.write(event, None, sys::ticks_after());
    }

    #[inline(always)]
    fn write(&mut self, event: Event, walk: Option<Walk>, ticks: u64) {
        if !self.stack.writer.room(RECORD_MAX) {
            // What the reader does not see must not be remembered either.
            unwind::forget(&mut self.stack);
            file::count_lost();
            return;
        }
        if kind::makes_block(event.kind) {
            self.tell_slop(event, ticks);
        }
        let elapsed = self.stack.writer.elapsed(ticks);
        let spread = heap_wire::spread(event.pointer);
        let difference = heap_wire::zigzag(spread.wrapping_sub(self.stack.writer.pointer));
        self.stack.writer.pointer = spread;
        let (time_bytes, pointer_bytes) = (heap_wire::bytes_of(elapsed), heap_wire::bytes_of(difference));
        let mut value = event.kind | ((time_bytes - 1) as u16) << 4 | ((pointer_bytes - 1) as u16) << 7;
        // SAFETY: `room` made sure that the longest record fits; numbers write up to seven bytes beyond themselves,
        // which is within it too.
        unsafe {
            let header = self.stack.writer.at;
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
            self.stack.writer.publish(header, at, value);
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
        let elapsed = self.stack.writer.elapsed(ticks);
        let (time_bytes, bytes) = (heap_wire::bytes_of(elapsed), heap_wire::bytes_of(slop.into()));
        // SAFETY: `room` was made for this and for the record that follows.
        unsafe {
            let header = self.stack.writer.at;
            header.add(2).cast::<u64>().write_unaligned(elapsed);
            let at = header.add(2 + time_bytes);
            at.cast::<u64>().write_unaligned(slop.into());
            let at = at.add(bytes);
            at.cast::<u16>().write_unaligned(0);
            self.stack.writer.publish(
                header,
                at,
                kind::USABLE | ((time_bytes - 1) as u16) << 4 | ((bytes - 1) as u16) << 7,
            );
        }
    }

    /// Writes a stack and remembers it.
    ///
    /// # Safety
    /// There is room for the longest at `at`.
    #[inline(always)]
    unsafe fn write_stack(&mut self, walk: Walk, at: *mut u8) -> (u16, *mut u8) {
        if walk.new == 0 && walk.keep == self.stack.depth {
            return (stack::SAME, at);
        }
        // SAFETY: the caller vouches for the room.
        unsafe { self.write_difference(walk, at) }
    }

    /// # Safety
    /// As [`Body::write_stack`].
    #[inline(never)]
    unsafe fn write_difference(&mut self, walk: Walk, mut at: *mut u8) -> (u16, *mut u8) {
        unwind::commit(&mut self.stack, walk);
        let first = if walk.keep == 0 { 0 } else { walk.keep };
        let count = self.stack.depth - first;
        // SAFETY: `first..depth` are valid frames; `at` has room for 2 + 4 * FRAMES bytes; slots are below DICTIONARY.
        unsafe {
            let frame = |index: usize| self.stack.frames.get_unchecked(first + index).id;
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
}

/// Lanes that are there look frees up in the map of samples from now on. To be called before other threads exist,
/// outside of hooks.
pub fn watch_all() {
    LANES.find(|at| {
        // SAFETY: lanes stay mapped, and nobody is in one.
        unsafe { (*(*of_head(at)).body.get()).gap.watch() };
        None::<()>
    });
}

/// Whether no thread is between the beginning and the end of an event. All but the calling thread are stopped.
pub fn is_quiet() -> bool {
    // SAFETY: lanes stay mapped; heads are shared.
    LANES.find(|at| (!unsafe { &*at }.is_open()).then_some(())).is_none()
}

/// There is a new stream, and no thread is in a hook: all lanes are as a fork leaves them. Those of ended threads are
/// not used again.
pub fn wipe_all() {
    LANES.find(|at| {
        // SAFETY: lanes stay mapped, and nobody is in one; zeros are valid for every field.
        unsafe {
            let lane = of_head(at);
            (*(*lane).body.get()).stack.writer.end();
            core::ptr::write_bytes(lane, 0, 1);
        }
        None::<()>
    });
    arena::forget_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{self, Known};
    use crate::cfi::{Kind, Rule};

    /// Runs on a thread of its own, which has a lane.
    fn on_a_thread(run: impl FnOnce(NonNull<Lane>) + Send) {
        tls::MAIN_TOP.store(u64::MAX, core::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let lane = take().unwrap();
                tls::set(lane.as_ptr());
                run(lane);
            });
        });
    }

    fn freed(pointer: u64) -> Event {
        Event { kind: kind::FREE, pointer, size: 0, extra: 0, slop: 0 }
    }

    fn at(sp: u64) -> Caller {
        Caller { pc: 0x4000, sp, rbp: 0 }
    }

    /// What Miri sees besides: no borrow of a body is used after another one.
    #[test]
    fn calls_within_calls_are_told_apart() {
        on_a_thread(|lane| {
            let outer = enter(&at(1000)).unwrap();
            assert!(outer.0 == lane);
            outer.event(freed(1));
            outer.outside(|| assert!(enter(&at(900)).is_none(), "the allocator's own business"));
            outer.event(freed(2));
            // A signal handler while the body is written; and one within that.
            let inner = enter(&at(900)).unwrap();
            assert!(inner.0 != lane);
            inner.event(freed(3));
            assert!(enter(&at(800)).is_none(), "lost, and counted");
            inner.event(freed(4));
            inner.leave();
            outer.event(freed(5));
            // It jumps out of all of it, also while the allocator runs.
            let again = outer.outside(|| enter(&at(1000)).unwrap());
            assert!(again.0 == lane);
            again.event(freed(6));
            again.leave();
            let next = enter(&at(500)).unwrap();
            assert!(next.0 == lane && next.samples() == next.watches());
            next.event(freed(7));
            next.leave();
        });
    }

    #[test]
    fn stacks_are_walked_by_rules_and_kept() {
        on_a_thread(|lane| {
            let words: &mut [u64; 8] = Box::leak(Box::new([0, 0x5_1000, 7, 0x5_2000, 8, 9, 10, 11]));
            let sp = words.as_mut_ptr().expose_provenance() as u64;
            let rules = [Rule::new(Kind::Rsp, 16, 0), Rule::new(Kind::Rsp, 16, 0), Rule::END];
            for (pc, (id, rule)) in [0x5_0000, 0x5_1000, 0x5_2000].into_iter().zip((4..).zip(rules)) {
                cache::put(pc, Known { id, rule });
            }
            let caller = Caller { pc: 0x5_0000, sp, rbp: 0 };
            let made = Event { kind: kind::MALLOC, pointer: 64, size: 10, extra: 0, slop: 14 };
            for _ in 0..3 {
                let entered = enter(&caller).unwrap();
                // SAFETY: a stack as the rules say.
                let walk = unsafe { unwind::walk(&mut entered.body().stack, caller) };
                assert_eq!(walk.keep + walk.new, if walk.keep == 0 { 3 } else { 4 });
                // SAFETY: as above.
                unsafe { entered.event_with_stack(made, caller) };
                entered.leave();
            }
            // SAFETY: nobody else has it.
            let depth = unsafe { Entered(lane).body().stack.depth };
            // Without a stream nothing is remembered.
            assert!(depth == 4 || !cfg!(miri), "{depth}");
        });
    }

    /// All at once: whoever has a lane writes into its body without any lock.
    #[test]
    fn lanes_of_ended_threads_are_used_again() {
        const THREADS: u64 = if cfg!(miri) { 24 } else { 300 };
        let used = std::sync::Mutex::new(std::collections::HashSet::new());
        tls::MAIN_TOP.store(u64::MAX, core::sync::atomic::Ordering::Relaxed);
        let run = |number: u64| {
            on_a_thread(|lane| {
                used.lock().unwrap().insert(lane.as_ptr().addr());
                for round in 0..3 {
                    let entered = enter(&at(1000)).unwrap();
                    entered.event(freed(64 * number + round));
                    entered.outside(std::thread::yield_now);
                    entered.event(freed(64 * number + round + 1));
                    entered.leave();
                    // The recorder looks while others write.
                    is_quiet();
                }
            });
        };
        std::thread::scope(|scope| {
            for part in 0..3 {
                scope.spawn(move || (0..THREADS / 3).for_each(|number| run(part * THREADS + number)));
            }
        });
        let lanes = used.lock().unwrap().len() as u64;
        assert!(lanes < THREADS, "{lanes} lanes of {THREADS} threads");
    }
}

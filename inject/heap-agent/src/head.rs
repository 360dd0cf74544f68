//! The head of a lane: what other threads, and signal handlers on its own thread, see of it. Atomic words only, apart
//! from the body that one thread owns: so nobody has a reference to what another one changes.
//!
//! Who owns a body: the thread whose number is in the head, while it has shut the gate. A new thread gets the lane of
//! an ended one by exchanging the number. Threads do not share anything else, so all orders are relaxed but for the
//! list and that exchange.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*, compiler_fence};

/// The gate of a lane that no hook is in.
const IDLE: u64 = 1;

/// See the module. Zeros are a head that is not ready.
#[repr(C)]
pub struct Head {
    /// 0: not ready (new, or wiped by a fork). 1: idle. Else: a hook runs; the stack pointer of its caller.
    gate: AtomicU64,
    /// The real allocator runs: what it calls is its own business.
    in_real: AtomicU64,
    /// Where the thread's stack begins (its highest address).
    top: AtomicU64,
    tid: AtomicU64,
    next: AtomicPtr<Head>,
    /// For events of signal handlers that interrupt the writing of the body.
    inner: AtomicPtr<Head>,
}

/// What a thread may do that comes to its own lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// It was shut, and the body is the caller's.
    Entered,
    /// The head is not ready.
    Wiped,
    /// It was shut by a hook that is gone: a signal handler jumped out of it. The body is the caller's.
    Left,
    /// The real allocator of a hook calls.
    InReal,
    /// A signal handler interrupts the writing of the body.
    Writing,
}

impl Head {
    /// Shuts the gate of an idle lane behind the caller.
    #[inline(always)]
    pub fn shut(&self, sp: u64) -> bool {
        let idle = self.gate.load(Relaxed) == IDLE;
        if idle {
            self.gate.store(sp, Relaxed);
            compiler_fence(SeqCst);
        }
        idle
    }

    /// The same, and what is wrong where it is not idle.
    pub fn try_shut(&self, sp: u64) -> Gate {
        match self.gate.load(Relaxed) {
            _ if self.shut(sp) => Gate::Entered,
            0 => Gate::Wiped,
            // What a hook calls is below its caller.
            gate if sp >= gate && sp < self.top.load(Relaxed) => {
                self.in_real.store(0, Relaxed);
                self.gate.store(sp, Relaxed);
                compiler_fence(SeqCst);
                Gate::Left
            }
            _ if self.in_real.load(Relaxed) != 0 => Gate::InReal,
            _ => Gate::Writing,
        }
    }

    /// Opens the gate again.
    #[inline(always)]
    pub fn open(&self) {
        compiler_fence(SeqCst);
        self.gate.store(IDLE, Relaxed);
    }

    /// Whether no hook is in it.
    pub fn is_open(&self) -> bool {
        self.gate.load(Relaxed) <= IDLE
    }

    /// The real allocator begins or ends.
    #[inline(always)]
    pub fn set_in_real(&self, runs: u64) {
        self.in_real.store(runs, Relaxed);
    }

    /// From here on it is the lane of a thread whose stack begins there, and which has no inner lane.
    pub fn introduce(&self, tid: u32, top: u64) {
        self.tid.store(tid.into(), Relaxed);
        self.top.store(top, Relaxed);
        self.in_real.store(0, Relaxed);
        self.inner.store(core::ptr::null_mut(), Relaxed);
    }

    /// The thread.
    pub fn tid(&self) -> u32 {
        self.tid.load(Relaxed) as u32
    }

    /// The lane of the same thread for signal handlers, or null.
    pub fn inner(&self) -> *mut Self {
        self.inner.load(Relaxed)
    }

    /// Gives it one.
    pub fn set_inner(&self, inner: *mut Self) {
        self.inner.store(inner, Relaxed);
    }
}

/// All lanes of a process. Nothing is ever taken from it but by a fork, and by a recording that ends.
pub struct List {
    first: AtomicPtr<Head>,
    count: AtomicU64,
    /// When there are this many lanes, ended threads are looked for.
    search_at: AtomicU64,
}

/// [`List::search_at`] at least.
const SEARCH_LEAST: u64 = 16;

impl List {
    /// None.
    pub const fn new() -> Self {
        Self {
            first: AtomicPtr::new(core::ptr::null_mut()),
            count: AtomicU64::new(0),
            search_at: AtomicU64::new(SEARCH_LEAST),
        }
    }

    /// Puts a lane on it.
    ///
    /// # Safety
    /// It stays, and is on no list.
    pub unsafe fn join(&self, head: *mut Head) {
        self.count.fetch_add(1, Relaxed);
        let mut first = self.first.load(Relaxed);
        loop {
            // SAFETY: the caller vouches.
            unsafe { &*head }.next.store(first, Relaxed);
            match self.first.compare_exchange_weak(first, head, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Visits all until one answers with something.
    pub fn find<T>(&self, mut visit: impl FnMut(*mut Head) -> Option<T>) -> Option<T> {
        let mut at = self.first.load(Acquire);
        while !at.is_null() {
            // Before the visit: it may wipe the lane.
            // SAFETY: lanes stay mapped, and this word is atomic.
            let next = unsafe { &*at }.next.load(Relaxed);
            let found = visit(at);
            if found.is_some() {
                return found;
            }
            at = next;
        }
        None
    }

    /// Takes over the lane of a thread that has ended, if there are so many that it is worth looking.
    pub fn inherit(&self, tid: u32, is_gone: impl Fn(*mut Head, u32) -> bool) -> Option<*mut Head> {
        if self.count.load(Relaxed) < self.search_at.load(Relaxed) {
            return None;
        }
        let (mut alive, mut taken) = (0, None);
        self.find(|at| {
            // SAFETY: lanes stay mapped; this word is atomic.
            let owner = unsafe { &(*at).tid };
            let number = owner.load(Relaxed);
            let gone = is_gone(at, number as u32);
            if gone && taken.is_none() && owner.compare_exchange(number, tid.into(), Acquire, Relaxed).is_ok() {
                taken = Some(at);
            }
            alive += u64::from(!gone);
            None::<()>
        });
        self.search_at.store((2 * alive).max(SEARCH_LEAST), Relaxed);
        taken
    }

    /// Takes all off.
    pub fn clear(&self) {
        self.first.store(core::ptr::null_mut(), Relaxed);
        self.count.store(0, Relaxed);
        self.search_at.store(SEARCH_LEAST, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Mutex;

    fn new() -> *mut Head {
        let layout = std::alloc::Layout::new::<Head>();
        // SAFETY: zeros are a head; it is never given back.
        unsafe { std::alloc::alloc_zeroed(layout).cast() }
    }

    #[test]
    fn gates_tell_who_comes() {
        // SAFETY: a head that stays.
        let head = unsafe { &*new() };
        assert_eq!(head.try_shut(900), Gate::Wiped);
        head.introduce(7, 1000);
        head.open();
        assert_eq!((head.try_shut(900), head.is_open()), (Gate::Entered, false));
        assert_eq!(head.try_shut(800), Gate::Writing);
        head.set_in_real(1);
        assert_eq!(head.try_shut(800), Gate::InReal);
        assert_eq!(head.try_shut(2000), Gate::InReal, "a signal's own stack");
        assert_eq!(head.try_shut(900), Gate::Left);
        assert_eq!(head.try_shut(800), Gate::Writing, "that real allocator is gone too");
        head.open();
        assert!(head.is_open() && head.shut(900) && !head.shut(900));
    }

    /// Threads come and go, all at once: no lane is of two that live, and those of ended threads are used again.
    #[test]
    fn a_lane_is_never_of_two_threads() {
        static LIST: List = List::new();
        // Who has ended; the lock is what the kernel's answer is in earnest.
        static GONE: Mutex<Option<HashSet<u32>>> = Mutex::new(None);
        const ROUNDS: u32 = if cfg!(miri) { 6 } else { 400 };
        GONE.lock().unwrap().get_or_insert_default();
        let is_gone = |_: *mut Head, tid: u32| GONE.lock().unwrap().as_ref().unwrap().contains(&tid);
        // A word beside each head that only its owner writes, past all atomics: Miri and the count see two writers.
        #[repr(C)]
        struct Place {
            head: Head,
            uses: core::cell::UnsafeCell<u32>,
        }
        let live = |tid: u32| {
            let at = LIST.inherit(tid, is_gone).unwrap_or_else(|| {
                let layout = std::alloc::Layout::new::<Place>();
                // SAFETY: zeros are a place; it is never given back.
                unsafe {
                    let at = std::alloc::alloc_zeroed(layout).cast::<Head>();
                    (*at).introduce(tid, 1000);
                    LIST.join(at);
                    at
                }
            });
            // SAFETY: this thread's own lane.
            unsafe {
                assert_eq!((*at).tid(), tid);
                *(*at.cast::<Place>()).uses.get() += 1;
                assert_eq!((*at).tid(), tid, "nobody else took it");
            }
            GONE.lock().unwrap().as_mut().unwrap().insert(tid);
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..ROUNDS).for_each(|round| live(1 + thread * ROUNDS + round)));
            }
        });
        let (mut lanes, mut uses) = (0, 0);
        LIST.find(|at| {
            lanes += 1;
            // SAFETY: all threads have ended.
            uses += unsafe { *(*at.cast::<Place>()).uses.get() };
            None::<()>
        });
        assert_eq!(uses, 4 * ROUNDS);
        assert!((1..4 * ROUNDS).contains(&lanes), "{lanes} lanes for {uses} threads");
    }
}

//! Memory reporters for any program: each part of a program says what it has, block by block, and the library says what
//! nobody spoke of.
//!
//! A reporter is called when somebody asks (a socket, a signal, the end, a threshold). It walks its own data, calls
//! [`Collection::measure`] for each block and [`Collection::report`] for the sum. Measuring marks the block: so blocks
//! that are reported twice, sums that are too large or too small, and pointers that are no blocks are found. The result
//! is a memory report as Firefox saves it, which about:memory and `thaw memory show` read.
//!
//! ```
//! use thaw_memreport::{Kind, Units};
//! let cache: std::sync::Arc<Vec<u8>> = std::sync::Arc::new(vec![0; 100_000]);
//! let mine = cache.clone();
//! let id = thaw_memreport::register("cache", move |collection| {
//!     let bytes = collection.measure(mine.as_ptr().cast());
//!     collection.report("explicit/cache", Kind::Heap, Units::Bytes, bytes as i64, "Pages that were read.");
//! });
//! let report = thaw_memreport::collect("example").unwrap();
//! assert!(report.json().contains("explicit/cache"));
//! thaw_memreport::unregister(id);
//! ```
//!
//! Not for finding who allocates what nobody reports: that needs stacks, and `thaw heap dark` has them: it joins a heap
//! recording with a report that lists its blocks ([`Collected::json_with_blocks`]).

mod allocator;
mod capi;
mod json;
mod marks;
mod server;

pub use server::{StartError, dump, start};

use marks::Marks;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where the memory of a report lies. The numbers are those of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Not from the heap allocator.
    NonHeap = 0,
    /// From the heap allocator.
    Heap = 1,
    /// Totals, counts, memory that another report has too.
    Other = 2,
}

/// Unit of an amount. The numbers are those of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Units {
    /// Bytes.
    Bytes = 0,
    /// A number of things now.
    Count = 1,
    /// A number of things since the start; it never falls.
    CountCumulative = 2,
    /// Hundredths of a per cent.
    Percentage = 3,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `/`-separated; a slash inside a name is written `\`.
    pub path: String,
    /// Where the memory lies.
    pub kind: Kind,
    /// Unit of the amount.
    pub units: Units,
    /// How much.
    pub amount: i64,
    /// A sentence.
    pub description: String,
}

/// Names a reporter or a callback, for taking it out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub(crate) u32);

type Collect = Arc<dyn Fn(&mut Collection<'_>) + Send + Sync>;
type Minimize = Arc<dyn Fn() + Send + Sync>;

/// Freed pointers that are remembered: a reporter that holds a freed block is usually asked soon after.
const MOST_FREED: usize = 1 << 16;

#[derive(Default)]
struct State {
    last_id: u32,
    reporters: BTreeMap<Id, (String, Collect)>,
    minimizers: BTreeMap<Id, Minimize>,
    /// Blocks that were reported when they were made, with the path of each report.
    on_alloc: HashMap<usize, Vec<Arc<str>>>,
    /// Blocks that were marked when they were made and freed since, with the paths of their marks.
    freed: HashMap<usize, Vec<Arc<str>>>,
    freed_in_order: VecDeque<usize>,
    /// Last amounts of cumulative counts.
    counts: HashMap<String, i64>,
    /// The process of which a thread calls callbacks. A forked child has this too, but not the thread.
    turn: Option<u32>,
    /// The callback that runs.
    running: Option<Id>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// `turn` or `running` of the state have changed.
static CHANGED: Condvar = Condvar::new();

type Guard = MutexGuard<'static, Option<State>>;

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// The state, while this thread forks.
    static FORKING: RefCell<Option<Guard>> = const { RefCell::new(None) };
}

/// Called when the library is loaded: a child that is forked while another thread makes something at its first use
/// would wait forever for that thread, which is not there.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // The state too goes to children only while no other thread has it.
    // SAFETY: the functions neither unwind nor fork.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    allocator::look_up();
}

fn state() -> Guard {
    // Linkers leave out what nobody names.
    std::hint::black_box(&BEGIN);
    // A reporter of Rust that panicked must not end reporting.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn before_fork() {
    // A thread that is about to end has no place for it any more.
    let _ = FORKING.try_with(|held| *held.borrow_mut() = Some(STATE.lock().unwrap_or_else(PoisonError::into_inner)));
}

unsafe extern "C" fn after_fork() {
    let _ = FORKING.try_with(|held| held.borrow_mut().take());
}

fn with_state<T>(work: impl FnOnce(&mut State) -> T) -> T {
    work(state().get_or_insert_default())
}

/// Waits while this is so.
fn wait_while(mut condition: impl FnMut(&State) -> bool) -> Guard {
    let waited = CHANGED.wait_while(state(), |state| condition(state.get_or_insert_default()));
    waited.unwrap_or_else(PoisonError::into_inner)
}

/// Keeps callbacks to one thread at a time; `None`: this thread runs one already.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        if IN_CALLBACK.get() {
            return None;
        }
        let process = std::process::id();
        let mut state = wait_while(|state| state.turn == Some(process));
        state.get_or_insert_default().turn = Some(process);
        IN_CALLBACK.set(true);
        Some(Self)
    }

    /// Calls what `find` finds, if it is still there, and not after it was taken out. `Err`: it panicked; its hook has
    /// said so.
    fn call<T>(
        &self,
        id: Id,
        find: impl FnOnce(&State) -> Option<T>,
        call: impl FnOnce(&T),
    ) -> Option<std::thread::Result<()>> {
        let found = with_state(|state| {
            let found = find(state)?;
            state.running = Some(id);
            Some(found)
        })?;
        let result = catch_unwind(AssertUnwindSafe(|| call(&found)));
        drop(found);
        with_state(|state| state.running = None);
        CHANGED.notify_all();
        Some(result)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        with_state(|state| state.turn = None);
        CHANGED.notify_all();
        IN_CALLBACK.set(false);
    }
}

/// Name of the reporter that runs now.
pub(crate) fn running() -> Option<String> {
    with_state(|state| state.running.and_then(|id| state.reporters.get(&id)).map(|(name, _)| name.clone()))
}

/// Whether this thread is inside of a callback.
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}

impl State {
    fn id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }
}

/// Adds a reporter. It is called on another thread while the program runs: it must take the locks that its data needs.
pub fn register(name: &str, collect: impl Fn(&mut Collection<'_>) + Send + Sync + 'static) -> Id {
    with_state(|state| {
        let id = state.id();
        state.reporters.insert(id, (name.to_owned(), Arc::new(collect)));
        id
    })
}

/// Adds a callback that gives back what the program can do without.
pub fn on_minimize(minimize: impl Fn() + Send + Sync + 'static) -> Id {
    with_state(|state| {
        let id = state.id();
        state.minimizers.insert(id, Arc::new(minimize));
        id
    })
}

/// Takes out a reporter or a callback. When this returns it runs no more, unless it was called from a callback.
pub fn unregister(id: Id) {
    // What was registered is dropped outside of the lock.
    let _taken = with_state(|state| (state.reporters.remove(&id), state.minimizers.remove(&id)));
    if !IN_CALLBACK.get() {
        let process = std::process::id();
        drop(wait_while(|state| state.running == Some(id) && state.turn == Some(process)));
    }
}

/// Marks a block as reported under `path` until [`report_on_free`]: for reporters that only keep a counter. The counter
/// itself is reported by a reporter as usual. Not to be called from inside malloc.
pub fn report_on_alloc(block: *const c_void, path: &str) {
    if marks::is_nothing(block as usize) {
        return;
    }
    with_state(|state| {
        state.freed.remove(&(block as usize));
        state.on_alloc.entry(block as usize).or_default().push(path.into());
    });
}

/// Takes off the marks of a block that is about to be freed. A reporter that measures it later for one of their paths
/// is told on; for other paths it is somebody else's block by then, at the same address.
pub fn report_on_free(block: *const c_void) {
    with_state(|state| {
        let Some(paths) = state.on_alloc.remove(&(block as usize)) else { return };
        if state.freed.insert(block as usize, paths).is_some() {
            return;
        }
        state.freed_in_order.push_back(block as usize);
        if state.freed_in_order.len() > MOST_FREED
            && let Some(oldest) = state.freed_in_order.pop_front()
        {
            state.freed.remove(&oldest);
        }
    });
}

/// Calls the callbacks of [`on_minimize`], then asks the allocator to give free pages back.
/// `false`: called from inside a callback, nothing was done.
pub fn minimize() -> bool {
    let Some(turn) = Turn::take() else { return false };
    let ids: Vec<Id> = with_state(|state| state.minimizers.keys().copied().collect());
    for id in ids {
        // After one that panics the others are called all the same.
        turn.call(id, |state| state.minimizers.get(&id).cloned(), |minimize| minimize());
    }
    allocator::trim();
    true
}

/// What one reporter says, while it says it.
pub struct Collection<'a> {
    name: &'a str,
    marks: &'a mut Marks,
    reports: &'a mut Vec<Report>,
    broken: &'a mut Vec<String>,
    /// Path of the blocks that were measured since the last report: known when the next one comes.
    pending: Option<marks::PathId>,
    /// Sums of [`Collection::report_block`].
    sums: BTreeMap<String, usize>,
    reported_heap: i64,
}

impl Collection<'_> {
    /// Usable size of a block, which is marked as measured for the heap report that comes next. 0 for a null pointer,
    /// for that of an empty vector, and for what is no block: that is kept as a wrong pointer.
    pub fn measure(&mut self, block: *const c_void) -> usize {
        let path = *self.pending.get_or_insert_with(|| self.marks.new_path());
        self.marks.measure(block as usize, self.name, path)
    }

    /// The same for a report of this path: for reporters that add up several sums before they report one.
    pub fn measure_as(&mut self, block: *const c_void, path: &str) -> usize {
        let path = self.marks.path(path);
        self.marks.measure(block as usize, self.name, path)
    }

    /// Measures a block and adds it to the heap report of this path, which is made when the reporter has ended.
    pub fn report_block(&mut self, block: *const c_void, path: &str) {
        let bytes = self.measure_as(block, path);
        let sum = self.sums.entry(path.to_owned()).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Reports a figure. One that breaks the rules of the format is left out, and said to be broken.
    pub fn report(&mut self, path: &str, kind: Kind, units: Units, amount: i64, description: &str) {
        if let Err(rule) = check(path, kind, units, amount, description) {
            self.broken.push(format!("{} reports {path}: {rule}", self.name));
            return;
        }
        if kind == Kind::Heap {
            if let Some(pending) = self.pending.take() {
                self.marks.name_path(pending, path);
            }
            self.reported_heap = self.reported_heap.saturating_add(amount);
        }
        self.reports.push(Report { path: path.into(), kind, units, amount, description: description.into() });
    }

    /// Keeps a rule that was broken before a report could be made of it.
    pub(crate) fn broken(&mut self, rule: String) {
        self.broken.push(format!("{} {rule}", self.name));
    }
}

/// The rules of nsIMemoryReporter.
fn check(path: &str, kind: Kind, units: Units, amount: i64, description: &str) -> Result<(), String> {
    if path.is_empty() || path.split('/').any(str::is_empty) {
        return Err("a name in the path is empty".into());
    }
    if path.starts_with("explicit/") {
        if kind == Kind::Other || units != Units::Bytes {
            return Err("below explicit/ there are only bytes, of the heap or outside of it".into());
        }
        if !description.ends_with('.') {
            return Err(format!("the description is no sentence: {description:?}"));
        }
    } else if path == "explicit" {
        return Err("explicit is the root of a tree".into());
    }
    if units != Units::Percentage && amount < 0 {
        return Err(format!("the amount is negative: {amount}"));
    }
    Ok(())
}

/// What one reporter measured and what it reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Its name.
    pub name: String,
    /// Usable sizes of all that it measured, and of what was marked by [`report_on_alloc`] for its paths.
    pub measured_bytes: u64,
    /// Sum of its heap reports. Larger than measured: it counts what it did not measure, or twice. Smaller: it
    /// forgets.
    pub reported_heap_bytes: i64,
}

/// Blocks that were reported more than once, all by the same reporters in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// (reporter, path) of each report; two or more.
    pub reports: Vec<(String, String)>,
    /// Blocks.
    pub blocks: u64,
    /// Their usable size, once.
    pub bytes: u64,
}

/// Pointers that a reporter measured although they are no blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongPointers {
    /// The reporter.
    pub reporter: String,
    /// What it reported them as.
    pub path: String,
    /// What is wrong with them.
    pub why: &'static str,
    /// How many.
    pub count: u64,
    /// One of them.
    pub example: usize,
}

/// A pointer that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub address: usize,
    /// Usable size; 0: it is no block.
    pub usable_bytes: usize,
    /// Who reported it, and as what: index into [`Collected::report_sets`].
    pub report_set: usize,
}

/// A moment, on the clocks of recordings of the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Time stamp counter, where there is one.
    pub ticks: Option<u64>,
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
}

impl Moment {
    fn now() -> Self {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both instructions are in every x86-64 processor. The fence keeps the counter behind what came before.
        let ticks = Some(unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        });
        #[cfg(not(target_arch = "x86_64"))]
        let ticks = None;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes; this clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        Self { ticks, monotonic_ns: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
    }
}

/// A memory report, with what was found out about the reporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Name and number of the process.
    pub process: String,
    /// Why it was made: `socket`, `signal`, `exit`, `rss`, or what [`collect`] was told.
    pub reason: String,
    /// All figures: those of the reporters, and those of the library about the process.
    pub reports: Vec<Report>,
    /// Blocks that were measured, each once.
    pub measured_blocks: u64,
    /// Their usable size.
    pub measured_bytes: u64,
    /// In the order of registration; marks without a reporter at the end.
    pub reporters: Vec<Reporter>,
    /// The largest first.
    pub shared: Vec<Shared>,
    /// By reporter.
    pub wrong_pointers: Vec<WrongPointers>,
    /// Reports that were left out, and why.
    pub broken_rules: Vec<String>,
    /// Every pointer that was measured: blocks by address, then what is no block.
    pub blocks: Vec<Block>,
    /// Different sets of (reporter, path), each in order; one that says the same twice is in it twice.
    pub report_sets: Vec<Vec<(String, String)>>,
    /// Before the first reporter was asked.
    pub began: Moment,
    /// After the last one. What other threads did in between may or may not be in the figures.
    pub ended: Moment,
}

/// Asks all reporters. `None`: called from inside a callback.
pub fn collect(reason: &str) -> Option<Collected> {
    let turn = Turn::take()?;
    let began = Moment::now();
    // First: what the collection itself takes is no part of the program.
    let mut reports = allocator::process_reports();
    let (reporters, on_alloc, freed) = with_state(|state| {
        let reporters: Vec<(Id, String)> = state.reporters.iter().map(|(id, (name, _))| (*id, name.clone())).collect();
        (reporters, state.on_alloc.clone(), state.freed.clone())
    });
    let mut marks = Marks::new(freed);
    let mut broken = Vec::new();
    for (block, paths) in &on_alloc {
        for path in paths {
            let path = marks.path(path);
            marks.measure(*block, marks::ON_ALLOC, path);
        }
    }
    let mut reported = Vec::new();
    for (id, name) in &reporters {
        let first = reports.len();
        let mut collection = Collection {
            name,
            marks: &mut marks,
            reports: &mut reports,
            broken: &mut broken,
            pending: None,
            sums: BTreeMap::new(),
            reported_heap: 0,
        };
        let find = |state: &State| state.reporters.get(id).map(|(_, collect)| collect.clone());
        match turn.call(*id, find, |collect| collect(&mut collection)) {
            Some(Ok(())) => {}
            // It must not end the program, or the thread that answers.
            Some(Err(_)) => collection.broken("panicked".into()),
            None => continue,
        }
        for (path, bytes) in std::mem::take(&mut collection.sums) {
            collection.report(&path, Kind::Heap, Units::Bytes, bytes as i64, "Blocks of this kind.");
        }
        let reported_heap = collection.reported_heap;
        let paths: HashSet<String> = reports[first..].iter().map(|report| report.path.clone()).collect();
        reported.push((name.clone(), reported_heap, paths));
    }
    with_state(|state| {
        for report in reports.iter().filter(|report| report.units == Units::CountCumulative) {
            let last = state.counts.insert(report.path.clone(), report.amount).unwrap_or(0);
            if report.amount < last {
                broken.push(format!("{} is cumulative but fell from {last} to {}", report.path, report.amount));
            }
        }
    });
    Some(marks.judge(reason, reports, reported, broken, (began, Moment::now())))
}

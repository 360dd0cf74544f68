//! The file of this process: made when the first event asks for it, and anew in a forked child. Its chunks, its tables,
//! its end.
//!
//! Everything here may run in a signal handler or in a forked child: no allocation, no lock of the standard library.

use crate::form::{
    CHUNK, CHUNK_HEAD, Chunk, HEADER, Header, LEFT, META, META_THREAD, META_TYPE, NO_TYPE, Type, VERSION, WRITTEN,
};
use crate::lane::{Arena, Lane, exclusively, tid};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
use thaw_clock::counter::{self, nanoseconds, pair};

/// The word before the environment was asked.
pub const NOT_ASKED: u32 = 1;
static UNASKED: AtomicU32 = AtomicU32::new(NOT_ASKED);
static OFF: AtomicU32 = AtomicU32::new(0);
/// The word that says whether events are written: of the file, or one of those two.
static CONTROL: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNASKED).cast_mut());

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(ptr::null_mut());
static FILE: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
static MAPPED: AtomicUsize = AtomicUsize::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Chunks that have room on the disk.
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static GROWS: AtomicBool = AtomicBool::new(false);
static AGE_NS: AtomicU64 = AtomicU64::new(0);

/// The file that the program itself has named, with its zero; null: the environment says where files go.
static NAMED: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
/// A named file grows as far as this.
const NAMED_MOST: u64 = 1 << 30;

/// Names the file of this process, before its first event.
pub fn write_to(path: &CStr) -> bool {
    if path.count_bytes() >= 4000 || word() != NOT_ASKED {
        return false;
    }
    // It is read whenever a thread asks, also in a forked child: never freed.
    NAMED.store(path.to_owned().into_raw(), Release);
    ask()
}

/// What the lock of the arena guards.
struct Guarded {
    path: [u8; 4096],
    identity: (libc::dev_t, libc::ino_t),
    before: MaybeUninit<libc::sigaction>,
}
struct Guard(UnsafeCell<Guarded>);
// SAFETY: used under the arena's lock alone; `before` is written there once and read by the handler that is installed
// afterwards.
unsafe impl Sync for Guard {}
static GUARDED: Guard =
    Guard(UnsafeCell::new(Guarded { path: [0; 4096], identity: (0, 0), before: MaybeUninit::zeroed() }));

/// 0: off. Another number than before: types are asked again whether they pass.
#[inline]
pub fn word() -> u32 {
    // SAFETY: it points at a static, or into the file, whose mapping is left to zeros when it goes and unmapped after
    // this points elsewhere.
    unsafe { (*CONTROL.load(Relaxed)).load(Relaxed) }
}

fn stop() {
    CONTROL.store((&raw const OFF).cast_mut(), Release);
}

fn errno() -> i32 {
    // SAFETY: each thread's own.
    unsafe { *libc::__errno_location() }
}

fn set_errno(to: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = to }
}

/// The memory of the lanes, there once; null: it cannot be had.
pub fn arena() -> *mut Arena {
    let arena = ARENA.load(Acquire);
    if !arena.is_null() {
        return arena;
    }
    let (size, both) = (size_of::<Arena>(), libc::PROT_READ | libc::PROT_WRITE);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory of zeros, which is an arena without lanes; the one that is not needed has no users.
    unsafe {
        let made = libc::mmap(ptr::null_mut(), size, both, kind, -1, 0);
        if made == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let wiped = libc::madvise(made, size, libc::MADV_WIPEONFORK) == 0;
        if !wiped || ARENA.compare_exchange(ptr::null_mut(), made.cast(), AcqRel, Acquire).is_err() {
            libc::munmap(made, size);
        }
    }
    ARENA.load(Acquire)
}

/// Whether this process has its file; makes it where it is not asked for yet, or where this is a forked child.
pub fn ask() -> bool {
    let kept = errno();
    let arena = arena();
    if arena.is_null() {
        stop();
    } else {
        exclusively(arena, || {
            // SAFETY: as above: never unmapped.
            let alive = unsafe { &(*arena).alive };
            if alive.load(Acquire) == 0 {
                // Until it is known, other threads wait for the answer.
                CONTROL.store((&raw const UNASKED).cast_mut(), Release);
                let parents = FILE.swap(ptr::null_mut(), AcqRel);
                if !parents.is_null() {
                    // SAFETY: a child has one thread; nothing points there now.
                    unsafe { libc::munmap(parents.cast(), MAPPED.load(Relaxed)) };
                }
                open();
                if FILE.load(Relaxed).is_null() {
                    stop();
                }
                alive.store(1, Release);
            }
        });
    }
    set_errno(kept);
    word() > NOT_ASKED
}

/// Whether there is a file to write to; in a forked child it is made now.
pub fn is_open() -> bool {
    let arena = arena();
    // SAFETY: the arena is never unmapped.
    if arena.is_null() || unsafe { (*arena).alive.load(Acquire) } == 0 {
        ask();
    }
    !FILE.load(Acquire).is_null() && word() > NOT_ASKED
}

fn header() -> Option<&'static Header> {
    // SAFETY: mapped until the process ends, but for a child's parent's, which nobody has then.
    unsafe { FILE.load(Acquire).as_ref() }
}

/// Counts events for which there was no room.
pub fn lost(events: u64) {
    if let Some(header) = header() {
        header.lost.fetch_add(events, Relaxed);
    }
}

/// Counts a text that was too long.
pub fn text_cut() {
    if let Some(header) = header() {
        header.texts_cut.fetch_add(1, Relaxed);
    }
}

/// The words of the environment.
struct Words<'a> {
    directory: &'a [u8],
    ring: u64,
    grow: u64,
    age_ns: u64,
    filter: &'a [u8],
    is_off: bool,
}

fn size(word: &[u8]) -> u64 {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number =
        word[..digits].iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    match word.get(digits) {
        Some(b'G') => number.saturating_mul(1 << 30),
        Some(b'M') => number.saturating_mul(1 << 20),
        Some(b'K') => number.saturating_mul(1 << 10),
        _ => number,
    }
}

fn words(says: &[u8]) -> Option<Words<'_>> {
    let mut parts = says.split(|byte| *byte == b',');
    let directory = parts.next().filter(|directory| !directory.is_empty() && directory.len() < 4000)?;
    let mut words = Words { directory, ring: 16 << 20, grow: 0, age_ns: 0, filter: b"", is_off: false };
    for part in parts {
        match part.iter().position(|byte| *byte == b'=').map(|at| (&part[..at], &part[at + 1..])) {
            Some((b"ring", value)) => words.ring = size(value),
            Some((b"grow", value)) => words.grow = size(value),
            Some((b"age", value)) => words.age_ns = size(value).saturating_mul(1_000_000_000),
            Some((b"filter", value)) if value.len() < 1024 => words.filter = value,
            _ => words.is_off |= part == b"off",
        }
    }
    Some(words)
}

/// `DIRECTORY/PID.events`, or `PID.NUMBER.events` where a process of this number was there before; it ends with a zero.
fn path_of(path: &mut [u8; 4096], directory: &[u8], number: u32) -> Option<()> {
    // SAFETY: a plain system call.
    let pid = unsafe { libc::getpid() };
    let mut to = std::io::Cursor::new(&mut path[..]);
    to.write_all(directory).ok()?;
    match number {
        0 => write!(to, "/{pid}.events\0").ok(),
        _ => write!(to, "/{pid}.{number}.events\0").ok(),
    }
}

fn exactly(path: &mut [u8; 4096], named: &[u8]) -> Option<()> {
    path.get_mut(..named.len())?.copy_from_slice(named);
    path[named.len()] = 0;
    Some(())
}

/// Room on the disk for the bytes of a file from `from` to `end`: written to later, they cannot fail.
fn has_room(fd: i32, from: u64, end: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on a descriptor of ours; `limit` and `zeros` outlive them.
    unsafe {
        // Beyond it there would be a signal that ends the program.
        let limited = libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY;
        if limited && end > limit.rlim_cur {
            return false;
        }
        if libc::fallocate(fd, 0, from as i64, (end - from) as i64) == 0 {
            return true;
        }
        if !matches!(errno(), libc::EOPNOTSUPP | libc::ENOSYS) {
            return false;
        }
        let zeros = [0_u8; 4096];
        (from..end)
            .step_by(zeros.len())
            .all(|at| libc::pwrite(fd, zeros.as_ptr().cast(), zeros.len(), at as i64) == zeros.len() as isize)
    }
}

fn read_small(path: &CStr, into: &mut [u8]) -> usize {
    // SAFETY: plain system calls; `into` outlives them.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let got = libc::read(fd, into.as_mut_ptr().cast(), into.len());
        libc::close(fd);
        usize::try_from(got).unwrap_or(0)
    }
}

/// Makes this process's file from what the environment says. The lock is held.
fn open() {
    let named = NAMED.load(Acquire);
    // SAFETY: the environment's text, as C programs read it; nobody keeps it.
    let says = if named.is_null() { unsafe { libc::getenv(c"THAW_EVENTS".as_ptr()) } } else { named };
    if says.is_null() {
        return;
    }
    // SAFETY: as above, or a text that is never freed.
    let says = unsafe { CStr::from_ptr(says) }.to_bytes();
    let named = (!named.is_null()).then_some(says);
    let of_name = |_| Words { directory: b"", ring: 0, grow: NAMED_MOST, age_ns: 0, filter: b"", is_off: false };
    let Some(words) = named.map(of_name).or_else(|| words(says)) else { return };
    // SAFETY: under the lock.
    let guarded = unsafe { &mut *GUARDED.0.get() };
    let chunks = (if words.grow > 0 { words.grow } else { words.ring } / CHUNK as u64).clamp(1, 1 << 24);
    let first = if words.grow > 0 { 0 } else { chunks };
    let base = (HEADER + META) as u64;
    let mapped = base as usize + chunks as usize * CHUNK;
    let mut fd = -1;
    // A named file is one: a forked child finds it there, and writes none.
    for number in 0..if named.is_some() { 1 } else { 10_000 } {
        let placed = match named {
            Some(path) => exactly(&mut guarded.path, path),
            None => path_of(&mut guarded.path, words.directory, number),
        };
        if placed.is_none() {
            return;
        }
        let how = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: a path that ends with a zero.
        fd = unsafe { libc::open(guarded.path.as_ptr().cast(), how, 0o600) };
        if fd >= 0 || errno() != libc::EEXIST {
            break;
        }
    }
    if fd < 0 {
        return;
    }
    // SAFETY: plain system calls on our descriptor; `about` is a value of the call.
    let file = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        let mut file = libc::MAP_FAILED;
        if has_room(fd, 0, base + first * CHUNK as u64) && libc::fstat(fd, &raw mut about) == 0 {
            guarded.identity = (about.st_dev, about.st_ino);
            file = libc::mmap(ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0);
        }
        if file == libc::MAP_FAILED {
            libc::unlink(guarded.path.as_ptr().cast());
        } else {
            libc::madvise(file, mapped, libc::MADV_DONTDUMP);
        }
        // Not kept: a program that closes all descriptors may open another file under its number.
        libc::close(fd);
        file
    };
    if file == libc::MAP_FAILED {
        return;
    }
    let header = file.cast::<Header>();
    let generation = GENERATION.fetch_add(2, Relaxed) + 3;
    // SAFETY: a new mapping of at least a header, zeros, that nobody else knows.
    unsafe { fill(&mut *header, &words, chunks as u32, generation) };
    ALLOCATED.store(first, Relaxed);
    GROWS.store(words.grow > 0, Relaxed);
    AGE_NS.store(words.age_ns, Relaxed);
    MAPPED.store(mapped, Relaxed);
    FILE.store(header, Release);
    watch(guarded);
    // SAFETY: as above; it lives as long as the mapping.
    CONTROL.store(unsafe { &raw mut (*header).control }, Release);
}

fn fill(header: &mut Header, words: &Words<'_>, chunks: u32, generation: u32) {
    let mut text = [0_u8; 64];
    let got = read_small(c"/sys/devices/system/clocksource/clocksource0/current_clocksource", &mut text);
    header.clock = counter::choose(&text[..got]);
    header.version = VERSION;
    (header.header_size, header.meta_size, header.chunk_size) = (HEADER as u32, META as u32, CHUNK as u32);
    // SAFETY: a plain system call.
    header.pid = unsafe { libc::getpid() } as u32;
    header.chunks = chunks;
    header.realtime_ns = nanoseconds(libc::CLOCK_REALTIME);
    header.start = pair();
    header.end = header.start;
    let got = read_small(c"/proc/sys/kernel/random/boot_id", &mut text);
    let digits = text[..got].iter().filter(|byte| byte.is_ascii_hexdigit());
    header.boot.iter_mut().zip(digits).for_each(|(to, digit)| *to = *digit);
    header.filter[..words.filter.len()].copy_from_slice(words.filter);
    // SAFETY: the call writes at most as many bytes as it is told.
    unsafe {
        let most = header.program.len() - 1;
        libc::readlink(c"/proc/self/exe".as_ptr(), header.program.as_mut_ptr().cast(), most);
    }
    header.generation = generation;
    *header.next_type.get_mut() = 1;
    *header.control.get_mut() = if words.is_off { 0 } else { generation };
    // Last: who reads the file knows it as one now.
    fence(Release);
    header.magic = *b"thawevt\x01";
}

/// Somebody may cut the file under us; then what follows goes nowhere, and the program goes on.
fn watch(guarded: &mut Guarded) {
    let ours = cut as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    // SAFETY: the handler does what signals allow; what was there before is kept for it.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut now) != 0 || now.sa_sigaction == ours {
            return;
        }
        guarded.before.write(now);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

extern "C" fn cut(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let kept = errno();
    let (file, mapped) = (FILE.load(Acquire), MAPPED.load(Relaxed));
    // SAFETY: the kernel's own description of the signal.
    let at = unsafe { (*info).si_addr() }.addr();
    if !file.is_null() && (file.addr()..file.addr() + mapped).contains(&at) {
        stop();
        let kind = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: in the place of our own mapping, whose words all may be zeros.
        let made = unsafe { libc::mmap(file.cast(), mapped, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        if made != libc::MAP_FAILED {
            set_errno(kept);
            return;
        }
    }
    // SAFETY: written before this handler was installed; what the program itself had asked for is done.
    unsafe {
        let before = (*GUARDED.0.get()).before.assume_init_ref();
        match before.sa_sigaction {
            // The access is tried again, and is what it was without us.
            libc::SIG_DFL | libc::SIG_IGN => _ = libc::sigaction(signal, before, ptr::null_mut()),
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
    set_errno(kept);
}

fn chunk_at(header: &Header, number: u64) -> *mut Chunk {
    let base = ptr::from_ref(header).cast_mut().cast::<u8>();
    // SAFETY: below the number of chunks that are mapped.
    unsafe { base.add(HEADER + META + number as usize * CHUNK).cast() }
}

/// More room for a file that grows, by its name if that is still the same file. The lock is held.
fn grow(header: &Header) -> bool {
    let have = ALLOCATED.load(Acquire);
    let want = (have + 16).min(u64::from(header.chunks));
    let (base, chunk) = ((HEADER + META) as u64, CHUNK as u64);
    let kept = errno();
    // SAFETY: under the lock; plain system calls on a descriptor of ours.
    let done = unsafe {
        let guarded = &*GUARDED.0.get();
        let fd = libc::open(guarded.path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW);
        let mut about: libc::stat = std::mem::zeroed();
        let is_it = fd >= 0 && libc::fstat(fd, &raw mut about) == 0 && (about.st_dev, about.st_ino) == guarded.identity;
        let done = is_it && has_room(fd, base + have * chunk, base + want * chunk);
        if fd >= 0 {
            libc::close(fd);
        }
        done
    };
    if done {
        ALLOCATED.store(want, Release);
    }
    set_errno(kept);
    done
}

/// Gives the lane a chunk with nothing in it. `false`: there is none.
pub fn refill(lane: &mut Lane) -> bool {
    let Some(header) = header() else { return false };
    if !lane.chunk.is_null() {
        // SAFETY: the lane's own until it is left.
        unsafe {
            let used = lane.next.addr() - lane.chunk.addr();
            (*lane.chunk).used = used as u32;
            (*lane.chunk).events = ((used - CHUNK_HEAD) / 16) as u32 - lane.continued as u32;
            (*lane.chunk).state.store(LEFT, Release);
        }
        (lane.chunk, lane.next, lane.end) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    }
    let pair = pair();
    for _ in 0..header.chunks {
        let allocated = ALLOCATED.load(Acquire);
        let number = header.next.load(Relaxed);
        // The oldest one, while it is young and there is room for more, stays.
        if GROWS.load(Relaxed) && allocated < u64::from(header.chunks) && number >= allocated {
            let age = AGE_NS.load(Relaxed);
            let is_old = allocated > 0 && age > 0 && {
                // SAFETY: its time is a number, whoever writes it meanwhile.
                let began =
                    unsafe { (&raw const (*chunk_at(header, number % allocated)).pair.monotonic_ns).read_volatile() };
                began.saturating_add(age) < pair.monotonic_ns
            };
            if !is_old {
                let grown = exclusively(arena(), || ALLOCATED.load(Acquire) > allocated || grow(header));
                match grown {
                    Some(true) => continue,
                    // No more room: it is a ring of what it has.
                    Some(false) => GROWS.store(false, Relaxed),
                    None => {}
                }
            }
        }
        if allocated == 0 {
            return false;
        }
        let number = header.next.fetch_add(1, Relaxed);
        let chunk = chunk_at(header, number % allocated);
        // SAFETY: mapped; its state is atomic. Who makes it WRITTEN has the rest alone.
        unsafe {
            let state = &(*chunk).state;
            let was = state.load(Acquire);
            if was == WRITTEN || state.compare_exchange(was, WRITTEN, AcqRel, Relaxed).is_err() {
                continue;
            }
            let first = chunk.cast::<u8>().add(CHUNK_HEAD).cast::<u64>();
            if was == LEFT {
                header.overwritten.fetch_add(u64::from((*chunk).events), Relaxed);
                (*chunk).sequence.store(0, Release);
                ptr::write_bytes(first.cast::<u8>(), 0, CHUNK - CHUNK_HEAD);
            }
            (*chunk).tid = lane.tid;
            (*chunk).pair = pair;
            (*chunk).used = 0;
            (*chunk).sequence.store(number + 1, Release);
            lane.chunk = chunk;
            lane.continued = 0;
            lane.next = first;
            lane.end = chunk.cast::<u8>().add(CHUNK).cast();
        }
        return true;
    }
    false
}

/// Whether a name passes the filter: a part of it is the name, or a namespace of it with `*` behind.
fn is_wanted(filter: &[u8], name: &str) -> bool {
    let filter = filter.split(|byte| *byte == 0).next().unwrap_or_default();
    filter.is_empty()
        || filter.split(|byte| *byte == b'+').any(|part| match part.split_last() {
            Some((b'*', space)) => name.as_bytes().starts_with(space),
            _ => part == name.as_bytes(),
        })
}

/// Adds an entry to the file's tables: length, kind, number, line, and two texts that end with zeros. `false`: they are
/// full.
fn tell(header: &Header, kind: u32, id: u32, line: u32, texts: [&str; 2]) -> bool {
    let [first, second] = texts.map(|text| &text.as_bytes()[..text.len().min(4095)]);
    let length = (16 + first.len() + 1 + second.len() + 1).next_multiple_of(8);
    let at = header.meta_used.fetch_add(length as u64, Relaxed) as usize;
    if at + length > META {
        return false;
    }
    // SAFETY: these bytes of the mapping are this call's; their length, which says that they are whole, comes last.
    unsafe {
        let entry = ptr::from_ref(header).cast_mut().cast::<u8>().add(HEADER + at);
        let words = entry.cast::<u32>();
        words.add(1).write(kind);
        words.add(2).write(id);
        words.add(3).write(line);
        ptr::copy_nonoverlapping(first.as_ptr(), entry.add(16), first.len());
        ptr::copy_nonoverlapping(second.as_ptr(), entry.add(17 + first.len()), second.len());
        AtomicU32::from_ptr(words).store(length as u32, Release);
    }
    true
}

/// Whether this type is to be written under this control word; gives it its number in the file.
#[cold]
#[inline(never)]
pub fn ask_type(of: &Type, seen: u32) -> bool {
    let arena = arena();
    // SAFETY: the arena is never unmapped.
    let asks = seen == NOT_ASKED || arena.is_null() || unsafe { (*arena).alive.load(Acquire) } == 0;
    if asks && !ask() {
        return false;
    }
    let word = word();
    let Some(header) = header().filter(|_| word > NOT_ASKED && of.fails.load(Relaxed) != word) else { return false };
    if !is_wanted(&header.filter, of.name) {
        of.fails.store(word, Relaxed);
        return false;
    }
    let mut id = header.next_type.fetch_add(1, Relaxed);
    if id >= NO_TYPE || !tell(header, META_TYPE, id, of.line, [of.name, of.file]) {
        header.types_lost.fetch_add(1, Relaxed);
        id = NO_TYPE;
    }
    of.id.store(id, Relaxed);
    of.passes.store(word, Release);
    true
}

/// Names this thread.
pub fn tell_thread(name: &str) {
    if let Some(header) = header() {
        tell(header, META_THREAD, tid(), 0, [name, ""]);
    }
}

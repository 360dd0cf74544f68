//! The stream's file: made, grown by chunks that are mapped one by one, given up with a reason when it cannot grow.
//!
//! Blocks are allocated before they are mapped, so that a full disk is an error number and not SIGBUS; RLIMIT_FSIZE is
//! asked before, so that growing never brings SIGXFSZ. The descriptor is checked before each use, because programs
//! close what they do not know.

use crate::desk;
use crate::missed;
use crate::settings;
use crate::sys::{self, Fd, PATH_MAX};
use crate::text::Text;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use heap_wire::{FileHeader, PAGE, attach, follow, origin, stop};

/// Blocks are allocated this far ahead; what is not used is cut off when the recording is finished.
const AHEAD: u64 = 1 << 20;

/// A full disk has this much left when recording stops: the recording's own head must fit.
const MARGIN: u64 = 64 << 10;

static HEADER: AtomicPtr<FileHeader> = AtomicPtr::new(core::ptr::null_mut());
static FD: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicU32 = AtomicU32::new(stop::NO);
/// Why a stream could not be made.
static ERRNO: AtomicU32 = AtomicU32::new(0);
/// The recording's path leads nowhere from here: only the line to thaw does.
static IS_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Directory and path, zero-terminated. Written while no other thread records.
struct Paths {
    directory: [u8; PATH_MAX],
    directory_length: usize,
    path: [u8; PATH_MAX],
    /// Where the name begins in it, and its end.
    name: (usize, usize),
    /// The last number in the name.
    number: u32,
}

impl Paths {
    /// The path of this process's stream of a number.
    fn name_it(&mut self, number: u32) {
        let mut path = Text::<PATH_MAX>::new();
        path.push(self.directory.get(..self.directory_length).unwrap_or(&[]));
        path.push(b"/");
        self.name.0 = path.bytes().len();
        path.push_number(sys::pid().into());
        path.push(b"-");
        path.push_number(number.into());
        path.push(b".stream");
        (self.name.1, self.number) = (path.bytes().len(), number);
        let terminated = path.with_zero();
        if let Some(place) = self.path.get_mut(..terminated.len()) {
            place.copy_from_slice(terminated);
        }
    }

    /// Asks thaw for a stream.
    fn ask(&self, kind: u8) -> sys::Result<(Fd, u32)> {
        let directory = self.directory.get(..self.directory_length).unwrap_or(&[]);
        let answer = desk::ask(directory, kind, self.number, &[])?;
        answer.file.map(|file| (sys::move_high(file), answer.number)).ok_or(sys::EBADF)
    }
}

struct Shared(core::cell::UnsafeCell<Paths>);
// SAFETY: written only while `state` is being set up, by the one thread that does it; read afterwards.
unsafe impl Sync for Shared {}
static PATHS: Shared = Shared(core::cell::UnsafeCell::new(Paths {
    directory: [0; PATH_MAX],
    directory_length: 0,
    path: [0; PATH_MAX],
    name: (0, 0),
    number: 0,
}));

/// Makes the first stream of this process image.
pub fn create(directory: &Text<PATH_MAX>, from: u32, ticks: u64) -> bool {
    // SAFETY: called while the state is being set up.
    let paths = unsafe { &mut *PATHS.0.get() };
    let bytes = directory.bytes();
    if bytes.len() + 32 > PATH_MAX {
        return false;
    }
    paths.directory_length = bytes.len();
    if let Some(place) = paths.directory.get_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
    IS_ELSEWHERE.store(false, Relaxed);
    // Before a sandbox takes all paths away.
    desk::open(bytes);
    missed::map(bytes);
    missed::count_image();
    let made = make(from, ticks, &[], None);
    if !made {
        missed::tell_image(&[], errno());
    }
    made
}

/// Closes the stream of an earlier recording of this process.
pub fn close() {
    unmap(drop_file());
}

/// Gives a header back.
fn unmap(header: *mut FileHeader) {
    if !header.is_null() {
        // SAFETY: the mapped first page; nobody is in a hook, so nobody has it at hand.
        unsafe { sys::munmap(header.cast(), PAGE) };
    }
}

/// Closes the stream but for its header, which is returned.
fn drop_file() -> *mut FileHeader {
    let header = HEADER.swap(core::ptr::null_mut(), Relaxed);
    let fd = Fd(FD.swap(-1, Relaxed));
    if fd.0 >= 0 && is_ours(fd) {
        sys::close(fd);
    }
    header
}

/// Makes the stream of a forked child beside its parent's.
pub fn create_for_child(fork_ticks: u64) -> bool {
    // SAFETY: called while the state is being set up.
    let paths = unsafe { &*PATHS.0.get() };
    let mut parent = Text::<64>::new();
    parent.push(paths.path.get(paths.name.0..paths.name.1).unwrap_or(&[]));
    let header = drop_file();
    let ticks = if fork_ticks == 0 { sys::ticks() } else { fork_ticks };
    missed::count_image();
    // SAFETY: null, or the mapped first page of the parent's stream, which writes these fields once.
    let made = make(origin::FORK, ticks, parent.bytes(), unsafe { header.as_ref() });
    unmap(header);
    if !made {
        missed::tell_image(parent.bytes(), errno());
        // A child of this one is said to be of the last that has a stream.
        // SAFETY: called while the state is being set up.
        let paths = unsafe { &mut *PATHS.0.get() };
        paths.name.1 = paths.name.0 + parent.bytes().len();
        if let Some(place) = paths.path.get_mut(paths.name.0..paths.name.1) {
            place.copy_from_slice(parent.bytes());
        }
    }
    made
}

/// `name`: that of the parent's stream; `parent`: its header.
fn make(from: u32, ticks: u64, name: &[u8], parent: Option<&FileHeader>) -> bool {
    STOPPED.store(stop::NO, Relaxed);
    let pid = sys::pid();
    // SAFETY: called while the state is being set up.
    let paths = unsafe { &mut *PATHS.0.get() };
    let fd = match open_new(paths) {
        Ok(fd) => fd,
        Err(errno) => {
            ERRNO.store(errno, Relaxed);
            return false;
        }
    };
    FD.store(fd.0, Relaxed);
    let Ok((device, inode)) = sys::identity(fd) else { return false };
    DEVICE.store(device, Relaxed);
    INODE.store(inode, Relaxed);
    END.store(0, Relaxed);
    ALLOCATED.store(0, Relaxed);
    let Some(page) = extend(PAGE) else { return false };
    let header = page.cast::<FileHeader>();
    // SAFETY: a fresh page of zeros, which are valid for every field.
    let fields = unsafe { &mut *header };
    fields.version = heap_wire::VERSION;
    fields.origin = from;
    fields.pid = pid;
    fields.ppid = sys::parent_pid();
    fields.start_ticks = ticks;
    fields.start_mono_ns = sys::monotonic_ns();
    fields.last_ticks = sys::ticks();
    fields.last_mono_ns = fields.start_mono_ns;
    fields.ahead = settings::ahead();
    fields.own = sys::own::address();
    let last = fields.exe.len() - 1;
    sys::read_link(b"/proc/self/exe\0", fields.exe.get_mut(..last).unwrap_or(&mut []));
    sys::read_file(b"/proc/self/cmdline\0", &mut fields.cmdline);
    for (place, byte) in fields.parent.iter_mut().zip(name) {
        *place = *byte;
    }
    if let Some(parent) = parent {
        fields.allocator = parent.allocator;
        // Another root directory has no /proc.
        if fields.exe[0] == 0 {
            fields.exe = parent.exe;
        }
        if fields.cmdline[0] == 0 {
            fields.cmdline = parent.cmdline;
        }
    }
    fields.magic = heap_wire::MAGIC;
    HEADER.store(header, Release);
    true
}

/// A stream of the first number that is free; from thaw, where only thaw may make one.
fn open_new(paths: &mut Paths) -> sys::Result<Fd> {
    const FLAGS: usize = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW | sys::O_CLOEXEC;
    let mut number = 0;
    loop {
        paths.name_it(number);
        match sys::open(&paths.path, FLAGS, 0o600) {
            Ok(fd) => return Ok(sys::move_high(fd)),
            Err(sys::EEXIST) if number < 100_000 => number += 1,
            Err(errno) if desk::may_help(errno) || desk::is_elsewhere(errno) => {
                let (fd, number) = paths.ask(heap_wire::desk::STREAM)?;
                IS_ELSEWHERE.store(desk::is_elsewhere(errno), Relaxed);
                paths.name_it(number);
                return Ok(fd);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Why the last stream could not be made: an error number, or 0.
pub fn errno() -> u32 {
    ERRNO.load(Relaxed)
}

/// Completes the header when all is set up.
pub fn set_up(began_ns: u64) {
    with_header(|header| {
        header.depth = settings::depth() as u32;
        header.options = settings::options();
        header.sample_bytes = settings::sample_bytes();
        header.setup_ns = sys::monotonic_ns().wrapping_sub(began_ns);
    });
}

/// Hooks of this kind are in use.
pub fn note_tier(tier: u32) {
    with_header(|header| header.tiers |= tier);
}

/// The program's path as the stream says it; empty where there is none.
pub fn exe() -> &'static [u8] {
    let header = HEADER.load(Acquire);
    if header.is_null() {
        return &[];
    }
    // SAFETY: the mapped first page, which stays while events are recorded; this field is written once, and ends with a
    // zero.
    let exe = unsafe { &(*header).exe };
    exe.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// Says which object holds the real allocator.
pub fn note_allocator(name: &[u8]) {
    with_header(|header| {
        let last = header.allocator.len() - 1;
        for (place, byte) in header.allocator[..last].iter_mut().zip(name) {
            *place = *byte;
        }
    });
}

/// Says why nothing, or not all, may be seen.
pub fn note_doubt(text: &[u8]) {
    with_header(|header| {
        let last = header.doubt.len() - 1;
        for (place, byte) in header.doubt[..last].iter_mut().zip(text) {
            *place = *byte;
        }
    });
}

/// Says which functions of allocators inside of the program were hooked.
pub fn note_inside(names: &[u8]) {
    with_header(|header| {
        let last = header.inside.len() - 1;
        let used = header.inside.iter().position(|byte| *byte == 0).unwrap_or(last);
        let gap: &[u8] = if used == 0 { b"" } else { b" " };
        let free = header.inside.get_mut(used..last).unwrap_or_default();
        for (place, byte) in free.iter_mut().zip(gap.iter().chain(names)) {
            *place = *byte;
        }
    });
}

/// So many functions were hooked inside objects.
pub fn note_detours(count: u32) {
    with_header(|header| header.detours = header.detours.wrapping_add(count));
}

fn with_header(change: impl FnOnce(&mut FileHeader)) {
    let header = HEADER.load(Acquire);
    if !header.is_null() {
        // SAFETY: the mapped first page; its fields have one writer at a time but the counters, which are not changed
        // here.
        change(unsafe { &mut *header });
    }
}

fn counter(of: impl FnOnce(*mut FileHeader) -> *mut u64) {
    let header = HEADER.load(Acquire);
    if !header.is_null() {
        // SAFETY: an aligned field of the mapped first page.
        unsafe { AtomicU64::from_ptr(of(header)) }.fetch_add(1, Relaxed);
    }
}

/// An event could not be written.
#[cold]
pub fn count_lost() {
    // SAFETY: computes the address of a field.
    counter(|header| unsafe { &raw mut (*header).lost });
}

/// An allocator was called from within an allocator.
pub fn count_nested() {
    // SAFETY: computes the address of a field.
    counter(|header| unsafe { &raw mut (*header).nested });
}

/// The recording of this process ends here.
fn give_up(why: u32, errno: u32) -> Option<*mut u8> {
    if STOPPED.swap(why, Relaxed) == stop::NO {
        with_header(|header| (header.stopped, header.errno) = (why, errno));
    }
    None
}

fn is_ours(fd: Fd) -> bool {
    sys::identity(fd) == Ok((DEVICE.load(Relaxed), INODE.load(Relaxed)))
}

/// The descriptor, opened anew if the program has closed it.
fn descriptor() -> Option<Fd> {
    let fd = Fd(FD.load(Relaxed));
    if is_ours(fd) {
        return Some(fd);
    }
    // SAFETY: the paths do not change while events are recorded.
    let paths = unsafe { &*PATHS.0.get() };
    let fd = match sys::open(&paths.path, sys::O_RDWR | sys::O_NOFOLLOW | sys::O_CLOEXEC, 0) {
        Ok(fd) => sys::move_high(fd),
        Err(errno) if desk::may_help(errno) || desk::is_elsewhere(errno) => paths.ask(heap_wire::desk::AGAIN).ok()?.0,
        Err(_) => return None,
    };
    if !is_ours(fd) {
        sys::close(fd);
        return None;
    }
    FD.store(fd.0, Relaxed);
    Some(fd)
}

/// The path of another file of the recording.
fn beside(name: &[u8]) -> Text<PATH_MAX> {
    // SAFETY: the paths do not change while events are recorded.
    let paths = unsafe { &*PATHS.0.get() };
    let mut path = Text::new();
    path.push(paths.directory.get(..paths.directory_length).unwrap_or(&[]));
    path.push(b"/");
    path.push(name);
    path
}

/// What is known of the thaw that reads or ends this recording.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorder {
    /// It lives; a number that changes while it runs.
    There(u64),
    /// It was killed, or has ended: nobody would ever end this recording.
    Gone,
    /// This process may not look.
    Hidden,
}

fn recorder() -> Recorder {
    match sys::open(beside(attach::LOCK).with_zero(), sys::O_RDONLY | sys::O_CLOEXEC, 0) {
        Ok(fd) => {
            let locked = sys::is_locked(fd);
            let mut beats = [0; 8];
            sys::read(fd, &mut beats);
            sys::close(fd);
            if locked { Recorder::There(u64::from_le_bytes(beats)) } else { Recorder::Gone }
        }
        Err(_) if IS_ELSEWHERE.load(Relaxed) => {
            if desk::is_deserted() {
                Recorder::Gone
            } else {
                Recorder::Hidden
            }
        }
        Err(sys::ENOENT) => Recorder::Gone,
        Err(_) => Recorder::Hidden,
    }
}

/// Looks for the recorder after so many pauses.
const LOOK: u32 = 125;

/// Waits while the file is too far ahead of the thaw that reads it: at most [`follow::PAUSES`] pauses. Then it grows by
/// this piece if thaw runs, or may run. Counted are pauses, not time: no clock is needed, and signals only make it
/// shorter.
///
/// # Errors
/// Why the recording of this process ends: thaw is gone, or stood still all the time.
fn wait_for_reader(bytes: u64) -> Result<(), u32> {
    let header = HEADER.load(Acquire);
    if header.is_null() {
        return Ok(());
    }
    // SAFETY: aligned fields of the mapped first page, which thaw and other threads change.
    let (most, consumed, pauses) = unsafe {
        let field = |field| AtomicU64::from_ptr(field);
        (field(&raw mut (*header).ahead), field(&raw mut (*header).consumed), field(&raw mut (*header).pauses))
    };
    let most = most.load(Relaxed);
    let is_far = || END.load(Relaxed).saturating_add(bytes).saturating_sub(consumed.load(Relaxed)) > most;
    if most == 0 || !is_far() {
        return Ok(());
    }
    let (mut last, mut runs) = (None, false);
    for pause in 1..=follow::PAUSES {
        if let Err(errno) = sys::pause(follow::PAUSE_NS) {
            with_header(|header| header.restless = errno);
            return Ok(());
        }
        pauses.fetch_add(1, Relaxed);
        if !is_far() {
            return Ok(());
        }
        if pause % LOOK == 0 {
            match recorder() {
                Recorder::Gone => return Err(stop::LEFT),
                Recorder::Hidden => runs = true,
                now => {
                    runs |= last.is_some_and(|last| last != now);
                    last = Some(now);
                }
            }
        }
    }
    if runs { Ok(()) } else { Err(stop::BEHIND) }
}

/// The process is about to exit. Thaw may look at its memory now; it goes on when thaw has done that, or is gone.
pub fn leave() {
    let header = HEADER.load(Acquire);
    // A child of vfork has its parent's memory, which goes on.
    // SAFETY: the mapped first page, which stays while events are recorded; this field is written once.
    if header.is_null() || unsafe { (*header).pid } != sys::pid() {
        return;
    }
    // SAFETY: an aligned field of the mapped first page, which thaw changes.
    let looked = unsafe { AtomicU64::from_ptr(&raw mut (*header).looked) };
    // SAFETY: the paths do not change while events are recorded.
    let paths = unsafe { &*PATHS.0.get() };
    let directory = paths.directory.get(..paths.directory_length).unwrap_or(&[]);
    if looked.load(Relaxed) != 0 || desk::tell(directory, heap_wire::desk::LEAVES, paths.number).is_err() {
        return;
    }
    let mut pause = 0;
    while looked.load(Acquire) == 0 && sys::pause(follow::PAUSE_NS).is_ok() {
        pause += 1;
        if pause % LOOK == 0 && desk::is_deserted() {
            return;
        }
    }
}

/// A fresh piece of the file, mapped and zero. `None`: there is no more; the header says why.
pub fn extend(bytes: usize) -> Option<*mut u8> {
    if STOPPED.load(Relaxed) != stop::NO {
        return None;
    }
    if settings::is_attached() && recorder() == Recorder::Gone {
        return give_up(stop::LEFT, 0);
    }
    if let Err(why) = wait_for_reader(bytes as u64) {
        return give_up(why, 0);
    }
    // Another thread may have given up meanwhile.
    if STOPPED.load(Relaxed) != stop::NO {
        return None;
    }
    let Some(fd) = descriptor() else { return give_up(stop::CLOSED, sys::EBADF) };
    let start = END.fetch_add(bytes as u64, Relaxed);
    let end = start + bytes as u64;
    if end > ALLOCATED.load(Relaxed) {
        let limit = sys::file_size_limit();
        if end > limit {
            return give_up(stop::LIMIT, sys::EFBIG);
        }
        let ahead = (end + AHEAD).min(limit);
        let got = match sys::fallocate(fd, start, ahead - start) {
            Ok(_) => Ok(ahead),
            Err(_) => {
                let little = (end + MARGIN).min(limit);
                match sys::fallocate(fd, start, little - start) {
                    Ok(_) => Ok(little),
                    // Zeros are written where nobody else writes: what lies behind may be another thread's already, and
                    // what lies before is for its thread to fill.
                    Err(_) => fill(fd, start, end).map(|_| 0),
                }
            }
        };
        match got {
            Ok(reached) => ALLOCATED.fetch_max(reached, Relaxed),
            Err(errno) => return give_up(stop::SPACE, errno),
        };
    }
    // Large chunks belong to busy threads: all pages are wanted soon.
    let populate = if bytes >= 64 << 10 { sys::MAP_POPULATE } else { 0 };
    let at = match sys::mmap(bytes, sys::PROT_RW, sys::MAP_SHARED | populate, Some((fd, start))) {
        Ok(at) => at,
        Err(errno) => return give_up(stop::MAP, errno),
    };
    // A forked child inherits the mapping, but nothing that leads to it.
    with_header(|header| (header.last_ticks, header.last_mono_ns) = (sys::ticks(), sys::monotonic_ns()));
    Some(at)
}

/// Where there is no fallocate: zeros, written.
fn fill(fd: Fd, start: u64, end: u64) -> sys::Result<usize> {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    let mut at = start;
    while at < end {
        match sys::pwrite(fd, &ZEROS, at)? {
            0 => return Err(sys::EINVAL),
            written => at += written as u64,
        }
    }
    Ok(0)
}

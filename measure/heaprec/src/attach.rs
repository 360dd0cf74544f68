//! Recording a program that is running already.
//!
//! A thread of the program that holds nothing is borrowed to load the guest, while the others run; the guest prepares;
//! then all threads are stopped for a moment and the beginnings of the allocator's functions become jumps to the guest.
//! At the end they are put back the same way, and the program runs as before, with one more library in it. What is safe
//! is in `safe`, how a call is made in `call`, who is refused in `target`. x86-64 with glibc only.

mod call;
mod objects;
mod release;
mod safe;
mod target;

use crate::clock::Clock;
use crate::finish::Ahead;
use crate::record::{
    self, Asker, Beside, Desk, Existing, FreeStacks, Functions, Keep, Made, Pauses, Phase, Recording, Sample, States,
    unseen,
};
use call::{Borrowed, Failed};
use heap_wire::attach::{Attach, BYTES, LOCK, PLACES, Place, VERSION, answer};
use model::{Error, Exit, Nanos, Result, shown};
use objects::{StackFrame, Still};
use os::journal::{self, Undo};
use os::ptrace::{self, Memory, NotStopped, Registers, Replaced, Thread};
use safe::{Code, NotNow};
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use target::{Target, cannot, refused, terminated};

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The process.
    pub pid: u32,
    /// The directory to make.
    pub output: PathBuf,
    /// What to do if it is there.
    pub existing: Existing,
    /// How long; `None`: until it ends, or Ctrl-C.
    pub seconds: Option<f64>,
    /// A cut stack has at least so many frames: 1 to 127.
    pub depth: u32,
    /// Whether frees are recorded with their stacks.
    pub frees: FreeStacks,
    /// Whether functions of Python programs are in stacks.
    pub functions: Functions,
    /// Which blocks are recorded; `None`: all.
    pub sample: Option<Sample>,
    /// Whether every event is kept, or sums.
    pub keep: Keep,
    /// Which states of the sums stay, beside the last one; `None`: none.
    pub states: Option<States>,
    /// The guest.
    pub agent: PathBuf,
}

fn nanos(began: Instant) -> Nanos {
    Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// So long a right moment is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long all threads may take to stop.
const TO_STOP: Duration = Duration::from_secs(2);
const RTLD_NOW_NODELETE: u64 = 2 | 0x1000;

/// Records a running process until it ends, the time is over, or Ctrl-C.
///
/// # Errors
/// It cannot be attached to: then it is as it was, and there is no recording.
pub fn run(plan: &Plan, version: &str, progress: &mut dyn FnMut(Phase)) -> Result<Recording> {
    run_ahead(plan, version, None, progress)
}

/// The same; if wanted, the streams are finished while the program runs, and `ahead` has what was made of them.
///
/// # Errors
/// As [`run`].
pub fn run_ahead(
    plan: &Plan,
    version: &str,
    ahead: Option<&mut Ahead>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Recording> {
    record::check_sample(plan.sample)?;
    record::check_states(plan.states)?;
    let mut target = Target::of(plan.pid)?;
    let clock = Clock::start()?;
    let made = Made::new(&plan.output, plan.existing)?;
    recorded(plan, version, &made, &mut target, &clock, ahead, progress).map_err(|error| made.named(error))
}

fn recorded(
    plan: &Plan,
    version: &str,
    made: &Made,
    target: &mut Target,
    clock: &Clock,
    ahead: Option<&mut Ahead>,
    progress: &mut dyn FnMut(Phase),
) -> Result<Recording> {
    let (directory, real) = (made.path(), &made.real);
    let attached = (|| {
        target.sees(&plan.agent)?;
        target.sees(real)?;
        target.reaches(&plan.agent)?;
        target.reaches(&real.join(LOCK_NAME))?;
        // With sums its heart is the lock, and beats.
        let lock = if plan.keep == Keep::Events { Some(lock(directory)?) } else { None };
        let mut recording = Recording::begin(version, target.command.clone(), target.cwd.clone(), clock.ticks);
        recording.attached = true;
        recording.write(directory)?;
        unseen::begin(directory)?;
        let desk = Desk::open(made, Asker::Like(plan.pid))?;
        let beside = Beside::new(plan.keep, plan.states, directory, clock, ahead)?;
        let mut stopped = Pauses::default();
        let hooks = attach(plan, target, real, &mut stopped)?;
        Ok((lock, desk, beside, recording, hooks, stopped))
    })();
    let (lock, desk, mut beside, mut recording, hooks, mut stopped) = attached.inspect_err(|_| {
        // Nothing was recorded: leave no directory that looks like a recording.
        let _ = os::tree::remove(real);
    })?;
    progress(Phase::Running(plan.pid));
    let waited = wait(target, plan.seconds, &mut beside);
    progress(Phase::Finishing);
    let ended = hooks.remove(target, &mut stopped);
    let held = release::all(target, ended.as_deref().unwrap_or_default(), &mut stopped);
    drop(desk);
    let summed = beside.end(&held);
    if lock.is_some() {
        let _ = std::fs::remove_file(directory.join(LOCK_NAME));
    }
    waited?;
    recording.running = ended?;
    recording.stopped = Some(stopped);
    recording.finished = true;
    recording.ticks_per_second = Some(clock.rate());
    // A stream that a process still has mapped must not be cut.
    record::finish(directory, &held)?;
    let without = unseen::end(directory, &held)?;
    (recording.unseen, recording.missing) = (without.unseen, without.missing);
    recording.write(directory)?;
    record::close(directory);
    summed.map(|_| recording)
}

/// [`LOCK`] as a name.
const LOCK_NAME: &str = "recorder";
const _: () = assert!(matches!(LOCK, b"recorder"));

/// The guest looks whether this file is locked: nobody else would end the recording of a thaw that was killed.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK_NAME);
    let locked = File::create_new(&path).and_then(|file| {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        rustix::fs::flock(file.as_fd(), rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    });
    locked.map_err(|cause| Error::on(Exit::Machine, "cannot lock the recording", &path).because(cause))
}

/// Waits for the end. The process is not traced meanwhile.
fn wait(target: &Target, seconds: Option<f64>, beside: &mut Beside<'_>) -> Result<()> {
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    while !os::interrupt::requested() && until.is_none_or(|until| Instant::now() < until) {
        match os::process::stat(target.pid) {
            Some(stat) if stat.start_ticks == target.start_ticks && !matches!(stat.state, 'Z' | 'X') => {}
            _ => return Ok(()),
        }
        beside.poll();
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(())
}

/// Jumps that are in place.
struct Hooks {
    entry: journal::Entry,
    places: Vec<Replaced>,
    shared: u64,
}

impl Hooks {
    /// Takes them out of the process and of its children; returns which of these still run.
    fn remove(self, target: &Target, stopped: &mut Pauses) -> Result<Vec<u32>> {
        let mut running = vec![target.pid];
        running.extend(os::process::descendants(target.pid));
        let began = Instant::now();
        let undone = self.entry.undo();
        stopped.all(nanos(began));
        let mut had = Vec::new();
        for pid in running.into_iter().filter(|pid| *pid != std::process::id()) {
            let is_target = pid == target.pid && os::process::start_ticks(pid) == Some(target.start_ticks);
            // What runs another program by now has other code there, and is not touched.
            let changed = is_target || ptrace::put_back(pid, &self.places).is_ok_and(|places| places > 0);
            if changed && os::process::stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X')) {
                let active = 0_u32.to_le_bytes();
                let _ = Memory::of(pid)
                    .and_then(|memory| memory.write(self.shared + offset_of!(Attach, active) as u64, &active));
                had.push(pid);
            }
        }
        undone.map(|()| had)
    }
}

/// Loads the guest and replaces the code.
fn attach(plan: &Plan, target: &mut Target, directory: &Path, stopped: &mut Pauses) -> Result<Hooks> {
    if ptrace::apart(|| take_leftover_out(target))? {
        target.objects.look_again().map_err(|cause| refused(target.pid, &cause))?;
    }
    let until = Instant::now() + PATIENCE;
    let ways = Ways::of(target)?;
    let mut code = code_of(target);
    let mut why = NotNow::Busy("busy");
    let mut pause = Duration::from_millis(1);
    while Instant::now() < until {
        os::interrupt::check()?;
        match ptrace::apart(|| attempt(plan, target, directory, &code, &ways, stopped)) {
            Ok(hooks) => return Ok(hooks),
            Err(Attempt::Final(error)) => return Err(error),
            Err(Attempt::NotNow(reason)) => why = reason,
        }
        // Threads are in the guest for as long as another thaw records: one that began after the look above.
        let leftover = why == NotNow::Guest && ptrace::apart(|| take_leftover_out(target))?;
        if why == NotNow::Changing || leftover {
            target.objects.look_again().map_err(|cause| refused(target.pid, &cause))?;
            code = code_of(target);
        }
        std::thread::sleep(pause);
        // Not in step with what the program does.
        pause = (pause * 5 / 4 + Duration::from_micros(137)).min(Duration::from_millis(50));
    }
    Err(cannot(target.pid, why.text()).hint("try again, or record it from its start: thaw heap run"))
}

/// Why an attempt failed.
enum Attempt {
    /// Another moment may do.
    NotNow(NotNow),
    /// None will.
    Final(Error),
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// The guest that is in the process from an earlier recording, if one is.
fn loaded_guest(target: &Target) -> Option<(PathBuf, std::ops::Range<u64>)> {
    let found = target.objects.named(|name| name == record::AGENT)?;
    Some((found.path.clone(), found.range.clone()))
}

/// What is known of its code.
fn code_of(target: &Target) -> Code {
    Code::of(target, loaded_guest(target).map_or(0..0, |(_, range)| range))
}

/// Where the guest's words and its functions are.
struct Guest {
    shared: u64,
    attach: u64,
    detach: u64,
}

fn guest_symbols(target: &Target, path: &Path) -> Result<Guest> {
    let found = target.objects.symbols(path, &["THAW_HEAP_ATTACH", "thaw_heap_attach", "thaw_heap_detach"]);
    match found.as_slice() {
        [Some(shared), Some(attach), Some(detach)] => {
            Ok(Guest { shared: shared.start, attach: attach.start, detach: detach.start })
        }
        _ => Err(cannot(
            target.pid,
            format!("the guest that it has loaded, {}, is of another version of thaw", shown(path)),
        )
        .hint("it stays until the process ends: restart the process")),
    }
}

/// Hooks of a thaw that was killed go first. `true`: there were some.
fn take_leftover_out(target: &Target) -> Result<bool> {
    let Some((path, _)) = loaded_guest(target) else { return Ok(false) };
    let shared = guest_symbols(target, &path)?.shared;
    let memory = Memory::of(target.pid).map_err(|cause| refused(target.pid, &cause))?;
    let words = read_shared(&memory, shared).map_err(|cause| refused(target.pid, &cause))?;
    if words.active == 0 {
        return Ok(false);
    }
    let length = words.directory.iter().position(|byte| *byte == 0).unwrap_or(0);
    let directory = PathBuf::from(std::ffi::OsStr::from_bytes(&words.directory[..length]));
    let file = File::open(directory.join(LOCK_NAME));
    let held = file.is_ok_and(|file| {
        rustix::fs::flock(file.as_fd(), rustix::fs::FlockOperation::NonBlockingLockShared)
            == Err(rustix::io::Errno::WOULDBLOCK)
    });
    if held {
        return Err(cannot(target.pid, format!("it is being recorded already, into {}", shown(&directory)))
            .hint("end that recording first: Ctrl-C where thaw heap attach runs"));
    }
    let failed = |why| not_stopped(target.pid, why);
    ptrace::put_back(target.pid, &words.places).map_err(failed)?;
    memory
        .write(shared + offset_of!(Attach, active) as u64, &0_u32.to_le_bytes())
        .map_err(|cause| refused(target.pid, &cause))?;
    Ok(true)
}

fn not_stopped(pid: u32, why: NotStopped) -> Error {
    match why {
        NotStopped::Gone => cannot(pid, "it has ended"),
        NotStopped::Refused(cause) => refused(pid, &cause),
        NotStopped::Stuck(tid) => cannot(pid, format!("its thread {tid} does not stop: the kernel holds it (state D)")),
    }
}

/// What the guest wrote down.
struct Words {
    active: u32,
    answer: u32,
    errno: u32,
    directory: [u8; 1024],
    places: Vec<Replaced>,
}

fn read_shared(memory: &Memory, at: u64) -> std::io::Result<Words> {
    let mut bytes = vec![0; size_of::<Attach>()];
    memory.read(at, &mut bytes)?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if word(offset_of!(Attach, version)) != VERSION {
        return Err(std::io::Error::other(
            "the guest that it has loaded is of another version of thaw, and stays until the process ends",
        ));
    }
    let count = (word(offset_of!(Attach, count)) as usize).min(PLACES);
    let place = |index: usize| {
        let at = offset_of!(Attach, places) + index * size_of::<Place>();
        let code = |offset: usize| bytes[at + offset..at + offset + BYTES].to_vec();
        let address = bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        Replaced { address, was: code(offset_of!(Place, was)), is: code(offset_of!(Place, is)) }
    };
    let from = offset_of!(Attach, directory);
    Ok(Words {
        active: word(offset_of!(Attach, active)),
        answer: word(offset_of!(Attach, answer)),
        errno: word(offset_of!(Attach, errno)),
        directory: bytes[from..from + 1024].try_into().unwrap_or([0; 1024]),
        places: (0..count).map(place).collect(),
    })
}

/// Functions of the C library that calls need.
struct Ways {
    /// See [`call`].
    sigreturn: u64,
    load: u64,
    errno: Option<u64>,
}

impl Ways {
    fn of(target: &Target) -> Result<Self> {
        let pid = target.pid;
        let sigreturn = target.objects.code(&target.library, &call::SIGRETURN);
        let sigreturn = sigreturn.ok_or_else(|| cannot(pid, "its C library has no rt_sigreturn that is known"))?;
        let found = target.objects.symbols(&target.library, &["dlopen", "__libc_dlopen_mode", "__errno_location"]);
        let start = |index: usize| found[index].as_ref().map(|symbol: &std::ops::Range<u64>| symbol.start);
        let load = start(0).or(start(1)).ok_or_else(|| cannot(pid, "its C library has no dlopen"))?;
        Ok(Self { sigreturn, load, errno: start(2) })
    }
}

/// One attempt: all threads are stopped, looked at, and go on but for the one that is borrowed.
fn attempt(
    plan: &Plan,
    target: &mut Target,
    directory: &Path,
    code: &Code,
    ways: &Ways,
    stopped: &mut Pauses,
) -> std::result::Result<Hooks, Attempt> {
    let pid = target.pid;
    let kernel = |cause: std::io::Error| Attempt::Final(refused(pid, &cause));
    let memory = Memory::of(pid).map_err(kernel)?;
    let began = Instant::now();
    let mut threads = match ptrace::stop(pid, &[], TO_STOP) {
        Ok(threads) => threads,
        Err(NotStopped::Stuck(_)) => return Err(Attempt::NotNow(NotNow::Busy("held by the kernel (state D)"))),
        Err(why) => return Err(Attempt::Final(not_stopped(pid, why))),
    };
    stopped.threads = threads.len();
    let chosen = choose(code, target, &Still::new(&memory), &threads, ways.errno);
    let (mut thread, errno) = match chosen {
        Ok((index, errno)) => (threads.swap_remove(index), errno),
        Err(why) => {
            drop(threads);
            stopped.all(nanos(began));
            return Err(Attempt::NotNow(why));
        }
    };
    drop(threads);
    stopped.all(nanos(began));
    let mut borrowed = Borrowed::new(&mut thread, &memory, ways.sigreturn, errno)
        .map_err(|failed| Attempt::Final(why_failed(pid, &failed)))?;
    let hooks = with_thread(&mut borrowed, plan, target, directory, ways.load, &memory, stopped);
    match &hooks {
        // The thread finds its way back by itself.
        Err(Attempt::Final(_)) if borrowed.is_lost() => {}
        _ => borrowed.give_back().map_err(kernel)?,
    }
    stopped.borrowed_ns = Nanos(stopped.borrowed_ns.0 + nanos(began).0);
    hooks
}

/// The best thread to borrow, and where its errno is.
fn choose(
    code: &Code,
    target: &Target,
    memory: &Still<'_>,
    threads: &[Thread],
    errno_function: Option<u64>,
) -> std::result::Result<(usize, Option<u64>), NotNow> {
    let maps = std::fs::read(format!("/proc/{}/maps", target.pid)).unwrap_or_default();
    if !target.objects.are_all(&maps) {
        return Err(NotNow::Changing);
    }
    let mut stacks: Vec<(i32, Registers, Vec<StackFrame>)> = Vec::new();
    for thread in threads {
        let Ok(registers) = thread.registers() else { continue };
        let frames = target.objects.walk(memory, &registers);
        stacks.push((thread.tid, registers, frames));
    }
    code.is_quiet(memory, &stacks)?;
    let room = Room::of(target.pid, &maps);
    let mut best = Err(NotNow::Busy("ending"));
    let mut least = u8::MAX;
    for (index, thread) in threads.iter().enumerate() {
        let Some((_, registers, frames)) = stacks.iter().find(|(tid, _, _)| *tid == thread.tid) else { continue };
        if !room.is_enough(thread, registers, call::STACK) {
            if best.is_err() {
                best =
                    Err(NotNow::Busy("on a stack that is not its own (a coroutine, a signal handler's), or too small"));
            }
            continue;
        }
        let errno = errno_function.and_then(|at| errno_of(memory, at, registers.fs_base));
        // The first thread is often the one that answers the user.
        let first = u8::from(thread.tid.cast_unsigned() == target.pid);
        match code.may_borrow(thread, registers, frames, memory, errno.is_some()).map(|rank| 2 * rank + first) {
            Ok(rank) if rank < least => (best, least) = (Ok((index, errno)), rank),
            Ok(_) => {}
            Err(why) if best.is_err() => best = Err(why),
            Err(_) => {}
        }
    }
    best
}

/// Which memory can be written, for stacks.
struct Room {
    pid: u32,
    /// Start, end, whether it is the first thread's stack.
    places: Vec<(u64, u64, bool)>,
}

impl Room {
    /// By the text of the process's maps.
    fn of(pid: u32, maps: &[u8]) -> Self {
        let writable = os::process::regions(maps).filter(|region| region.permissions.starts_with("rw"));
        let places = writable.map(|region| (region.start, region.end, region.name == b"[stack]")).collect();
        Self { pid, places }
    }

    /// Whether so much is free below, on the thread's own stack. The first thread's grows by itself; the others have
    /// their control block at its end. Below the stack of a coroutine (a goroutine, a fiber) there may be anything.
    fn is_enough(&self, thread: &Thread, registers: &Registers, needed: u64) -> bool {
        /// That stack grows, but not beyond a limit.
        const GROWS: u64 = 16 << 10;
        let (sp, control) = (registers.rsp, registers.fs_base);
        self.places.iter().any(|(start, end, first)| {
            let place = *start..*end;
            let own =
                if *first { thread.tid.cast_unsigned() == self.pid } else { sp < control && place.contains(&control) };
            own && place.contains(&sp) && sp - start >= if *first { GROWS.min(needed) } else { needed }
        })
    }
}

/// Where a thread's errno is, if the C library's function is the usual one: `mov rax, [rip + n]; add rax, fs:0`.
fn errno_of(memory: &Still<'_>, function: u64, fs_base: u64) -> Option<u64> {
    let mut code = [0; 20];
    memory.read(function, &mut code)?;
    let skip = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    let code = &code[skip..];
    if !code.starts_with(&[0x48, 0x8b, 0x05]) || code[7..16] != [0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0] {
        return None;
    }
    let distance = i32::from_le_bytes(code[3..7].try_into().ok()?);
    let slot = (function + skip as u64 + 7).wrapping_add_signed(distance.into());
    Some(fs_base.wrapping_add(memory.word(slot)?))
}

fn why_failed(pid: u32, failed: &Failed) -> Error {
    match failed {
        Failed::Kernel(cause) => refused(pid, cause),
        Failed::Crashed(signal) => {
            cannot(pid, format!("the call that loads the guest crashed (signal {signal}); the process goes on"))
        }
        Failed::Hangs => cannot(
            pid,
            "the call that loads the guest waits for something that the process holds; it ends by itself when it gets \
            it",
        ),
    }
}

/// What is done with the borrowed thread.
fn with_thread(
    borrowed: &mut Borrowed<'_>,
    plan: &Plan,
    target: &mut Target,
    directory: &Path,
    load: u64,
    memory: &Memory,
    stopped: &mut Pauses,
) -> std::result::Result<Hooks, Attempt> {
    let pid = target.pid;
    let kernel = |cause: std::io::Error| Attempt::Final(refused(pid, &cause));
    let path = match loaded_guest(target) {
        Some((path, _)) => path,
        None => {
            let called = borrowed.call(load, &terminated(&plan.agent), RTLD_NOW_NODELETE);
            called.map_err(|failed| Attempt::Final(why_failed(pid, &failed)))?;
            target.objects.look_again().map_err(kernel)?;
            loaded_guest(target).ok_or_else(|| not_loaded(target, plan, borrowed.refusal))?.0
        }
    };
    let Guest { shared, attach: function, .. } = guest_symbols(target, &path)?;
    let words = read_shared(memory, shared).map_err(kernel)?;
    if words.active != 0 {
        return Err(cannot(pid, "it is being recorded already").into());
    }
    let mut name = directory.as_os_str().as_bytes().to_vec();
    name.resize(1024, 0);
    let frees = if plan.frees == FreeStacks::With { heap_wire::option::FREE_STACKS } else { 0 };
    let native = if plan.functions == Functions::Native { heap_wire::option::NATIVE_ONLY } else { 0 };
    let ahead = if let Keep::Sums { ahead } = plan.keep { ahead.0 } else { 0 };
    let (sample, seed) = plan.sample.map_or((0, 0), |sample| (sample.bytes, sample.seed.unwrap_or(0)));
    let fields: [(usize, Vec<u8>); 6] = [
        (offset_of!(Attach, sample), sample.to_le_bytes().to_vec()),
        (offset_of!(Attach, seed), seed.to_le_bytes().to_vec()),
        (offset_of!(Attach, ahead), ahead.to_le_bytes().to_vec()),
        (offset_of!(Attach, depth), plan.depth.to_le_bytes().to_vec()),
        (offset_of!(Attach, options), (frees | native).to_le_bytes().to_vec()),
        (offset_of!(Attach, directory), name),
    ];
    for (offset, bytes) in fields {
        memory.write(shared + offset as u64, &bytes).map_err(kernel)?;
    }
    borrowed.call(function, &[], 0).map_err(|failed| Attempt::Final(why_failed(pid, &failed)))?;
    let words = read_shared(memory, shared).map_err(kernel)?;
    if words.answer != answer::READY {
        return Err(not_ready(target, plan, &words).into());
    }
    let undo = Undo::PutBackCode { pid, start_ticks: target.start_ticks, places: words.places.clone() };
    let entry = journal::hold(undo, || write(borrowed, pid, memory, shared, &words.places, stopped))?;
    Ok(Hooks { entry, places: words.places, shared })
}

/// Stops all other threads and writes the jumps, when none is in the bytes that they replace.
fn write(
    borrowed: &Borrowed<'_>,
    pid: u32,
    memory: &Memory,
    shared: u64,
    places: &[Replaced],
    stopped: &mut Pauses,
) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    // A thread that waits for a processor goes on only if it gets one: on a busy machine that takes longer each time.
    let mut pause = Duration::from_micros(700);
    let mut last = None;
    while Instant::now() < until {
        let began = Instant::now();
        let others = ptrace::stop(pid, &[borrowed.tid()], TO_STOP).map_err(|why| not_stopped(pid, why))?;
        let kernel = |cause: std::io::Error| refused(pid, &cause);
        let within = Code::within(memory, &others, places).map_err(kernel)?;
        if within.is_none() {
            for place in places {
                borrowed.write_code(place.address, &place.is).map_err(kernel)?;
            }
            let written = memory.write(shared + offset_of!(Attach, active) as u64, &1_u32.to_le_bytes());
            drop(others);
            stopped.all(nanos(began));
            return written.map_err(kernel);
        }
        drop(others);
        stopped.all(nanos(began));
        last = within;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    let which = last.map_or_else(String::new, |(tid, pc)| format!(" (the last time thread {tid}, at {pc:#x})"));
    Err(cannot(pid, format!("a thread was each time within the instructions that were to be replaced{which}"))
        .hint("try again"))
}

/// dlopen returned, and the guest is not there.
fn not_loaded(target: &Target, plan: &Plan, refusal: Option<call::Refusal>) -> Error {
    let last = match refusal {
        Some((number, error)) => {
            format!(
                " (the last system call that failed: number {number}, {})",
                std::io::Error::from_raw_os_error(error)
            )
        }
        None => String::new(),
    };
    cannot(target.pid, format!("its dynamic linker does not load {}{last}", shown(&plan.agent)))
        .hint("may its user read the file, and is its file system mounted without noexec?")
}

fn not_ready(target: &Target, plan: &Plan, words: &Words) -> Error {
    let pid = target.pid;
    match words.answer {
        answer::BUSY => cannot(pid, "it was started by thaw heap run and is recorded already"),
        answer::CODE => cannot(pid, "its allocator's functions begin with instructions that are not understood")
            .hint("record it from its start: thaw heap run"),
        answer::PAGE => cannot(pid, "this system allows it no executable page of its own, which hooks need"),
        answer::ALLOCATOR => cannot(pid, "no malloc was found in it"),
        answer::FILE => {
            let cause = match words.errno {
                0 => "its stream cannot be mapped, or grow".to_owned(),
                errno => std::io::Error::from_raw_os_error(errno as i32).to_string(),
            };
            cannot(pid, format!("it cannot make its stream in {}: {cause}", shown(&plan.output)))
                .hint("record into a directory that the process's user can write: -o")
        }
        other => cannot(pid, format!("the guest did not answer ({other})")),
    }
}

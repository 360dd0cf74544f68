//! Following a program that we start ourselves, from before its exec: stops, steps, system calls, children. x86-64
//! only.
//!
//! Unlike [`crate::ptrace`], which looks at a process of somebody else's and lets it live, this one traces what dies
//! with it: PTRACE_O_EXITKILL is set, because a program with traps of ours in its code would die of them anyhow. A
//! tracer is a thread: everything here belongs to the one that called [`Tracer::of`], and nothing waits for children of
//! others.

pub use crate::tracee::Resume;
use crate::tracee::{EVENT_STOP, Registers, SystemCall, Tracee};
use model::Nanos;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;

/// Follows a process and, until they are let go, its threads and children.
#[derive(Debug)]
pub struct Tracer {
    /// Our own child, which another part of thaw reaps.
    root: i32,
    /// What the scheduler counts of threads.
    tallies: HashMap<i32, Tally>,
    /// The same of the calling thread, if it goes before all others.
    own: Option<Tally>,
    /// ptrace belongs to a thread.
    of_a_thread: PhantomData<*const ()>,
}

/// What a wait brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When the wait ended, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// [`Tracer::waited`] then. Later, more is counted that belongs to the stop: a thread may lose its CPU between
    /// telling that it stops and stopping.
    pub waited: Nanos,
    /// Which thread.
    pub tid: i32,
    /// What became of it. It is stopped, unless it has ended.
    pub what: What,
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It begins a system call: its number and arguments.
    Call(u64, [u64; 6]),
    /// It ends one, with this value.
    Returned(i64),
    /// It executes another program; it had this number before.
    Exec(i32),
    /// It made this thread or process.
    Made(i32, Way),
    /// It is to get this signal. Traps are SIGTRAP.
    Signal(i32),
    /// The stop of one that begins, or that was asked for.
    Stopped,
    /// A stop from the keyboard or of SIGSTOP: it stays so with [`Tracer::listen`].
    Paused,
    /// It has ended. One that is our own child is still to be reaped.
    Ended,
}

/// How a thread made another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// fork: with a copy of the memory.
    Fork,
    /// vfork: with the same memory, until it executes something.
    Vfork,
    /// clone: as it likes.
    Clone,
}

/// waitid(2), of what belongs to this thread.
fn waitid(which: libc::idtype_t, id: i32, flags: i32) -> io::Result<Option<libc::siginfo_t>> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        let flags = flags | libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the out-pointer is valid for writes during the call.
        if unsafe { libc::waitid(which, id.cast_unsigned(), info.as_mut_ptr(), flags) } == 0 {
            // SAFETY: zeroed before, and filled by the kernel if there is something.
            let info = unsafe { info.assume_init() };
            // SAFETY: si_pid is a plain number, 0 where nothing was found.
            return Ok((unsafe { info.si_pid() } != 0).then_some(info));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

impl Tracer {
    /// Attaches to a process with one thread and stops it: the next event is that.
    ///
    /// # Errors
    /// Not allowed, or it has ended.
    pub fn of(pid: u32) -> io::Result<Self> {
        let root = pid.cast_signed();
        Tracee(root).seize()?;
        Tracee(root).interrupt()?;
        let tallies = Tally::of(pid, root).map(|tally| (root, tally)).into_iter().collect();
        Ok(Self { root, tallies, own: None, of_a_thread: PhantomData })
    }

    /// Waits for the next thing that happens. That our own child has ended is told again and again until it is reaped.
    /// `None`: nobody is left.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn wait(&mut self) -> io::Result<Option<Event>> {
        match self.next(libc::P_ALL, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            event => event.map(Some),
        }
    }

    /// Waits for this thread alone; what others do is told by later waits.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn wait_for(&mut self, tid: i32) -> io::Result<Event> {
        self.next(libc::P_PID, tid)
    }

    /// Goes on, with a signal (0: none).
    ///
    /// # Errors
    /// It was killed (ESRCH).
    pub fn resume(&self, tid: i32, how: Resume, signal: i32) -> io::Result<()> {
        Tracee(tid).resume(how, signal)
    }

    /// Leaves it paused, until SIGCONT wakes it.
    ///
    /// # Errors
    /// It was killed.
    pub fn listen(&self, tid: i32) -> io::Result<()> {
        Tracee(tid).listen()
    }

    /// Lets it go, with a signal (0: none).
    ///
    /// # Errors
    /// It was killed.
    pub fn let_go(&self, tid: i32, signal: i32) -> io::Result<()> {
        Tracee(tid).detach(signal)
    }

    /// The general registers of a stopped thread.
    ///
    /// # Errors
    /// It was killed.
    pub fn registers(&self, tid: i32) -> io::Result<Registers> {
        Tracee(tid).registers()
    }

    /// Sets them.
    ///
    /// # Errors
    /// It was killed.
    pub fn set_registers(&self, tid: i32, registers: &Registers) -> io::Result<()> {
        Tracee(tid).set_registers(registers)
    }

    /// The eight bytes at an address, whatever its protection.
    ///
    /// # Errors
    /// Nothing is mapped there, or it was killed.
    pub fn peek(&self, tid: i32, address: u64) -> io::Result<[u8; 8]> {
        Tracee(tid).peek(address)
    }

    /// Writes one byte, whatever the protection; returns the one that was there.
    ///
    /// # Errors
    /// Nothing is mapped there, or it was killed.
    pub fn poke(&self, tid: i32, address: u64, byte: u8) -> io::Result<u8> {
        let place = address & !7;
        let mut word = self.peek(tid, place)?;
        let was = std::mem::replace(&mut word[(address - place) as usize], byte);
        Tracee(tid).poke(place, word)?;
        Ok(was)
    }

    /// The calling thread goes before all that are not real-time, so that a stop is noticed at once however busy the
    /// machine is; threads and processes that it makes do not. `false`: not allowed.
    pub fn go_first(&mut self) -> bool {
        let param = libc::sched_param { sched_priority: 1 };
        // SAFETY: the structure is valid for reads; 0 is the calling thread.
        let first =
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const param) == 0 };
        self.own = Tally::own().filter(|_| first);
        first
    }

    /// Begins to count for a thread of a process.
    pub fn count(&mut self, pid: u32, tid: i32) {
        self.tallies.extend(Tally::of(pid, tid).map(|tally| (tid, tally)));
    }

    /// Counts no more for a thread.
    pub fn count_no_more(&mut self, tid: i32) {
        self.tallies.remove(&tid);
    }

    /// How long a thread that is counted has waited for a CPU so far, and this one, if it goes first: its waits then
    /// lie between a stop and our knowing of it. (Else it may wait while the program runs, which tells nothing.)
    pub fn waited(&self, tid: i32) -> Nanos {
        let spent = [self.tallies.get(&tid), self.own.as_ref()].into_iter().flatten().filter_map(Tally::read);
        Nanos(spent.map(|spent| spent.waited.0).sum())
    }

    /// CPU time of a thread that is counted; exact if it is stopped and its registers were read since.
    pub fn cpu_time(&self, tid: i32) -> Option<Nanos> {
        self.tallies.get(&tid)?.read().map(|spent| spent.cpu)
    }

    /// Looks without taking away, so that nobody is reaped here whom another part of thaw will reap.
    fn next(&self, which: libc::idtype_t, id: i32) -> io::Result<Event> {
        loop {
            let all = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
            let info = waitid(which, id, all)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let at_ns = crate::spawn::monotonic_ns();
            // SAFETY: waitid filled it; both are plain numbers.
            let (tid, status) = unsafe { (info.si_pid(), info.si_status()) };
            if info.si_code != libc::CLD_TRAPPED && info.si_code != libc::CLD_STOPPED {
                if tid != self.root {
                    // A thread, or a child of a child: the kernel waits for nobody but us to take note.
                    waitid(libc::P_PID, tid, libc::WEXITED | libc::WNOHANG)?;
                }
                return Ok(Event { at_ns, waited: Nanos(0), tid, what: What::Ended });
            }
            let waited = self.waited(tid);
            // Takes the stop away. One that was killed meanwhile has none, and will be found as ended.
            if waitid(libc::P_PID, tid, libc::WSTOPPED | libc::WNOHANG)?.is_none() {
                continue;
            }
            match what(tid, status) {
                Ok(what) => return Ok(Event { at_ns, waited, tid, what }),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Sends a signal to a process that we started, in place of one that was kept from it.
///
/// # Errors
/// It has ended.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the scheduler counts of a thread.
#[derive(Debug)]
struct Tally(File);

/// What a thread had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    /// CPU time.
    cpu: Nanos,
    /// For so long it could have gone on, but had no CPU.
    waited: Nanos,
}

impl Tally {
    /// Of a thread; `None`: it has ended, or the kernel does not count.
    fn of(pid: u32, tid: i32) -> Option<Self> {
        File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok().map(Self)
    }

    /// Of the calling thread.
    fn own() -> Option<Self> {
        File::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    /// Now; `None`: it has ended.
    fn read(&self) -> Option<Spent> {
        let mut text = [0; 80];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..len]).ok()?.split_whitespace();
        let mut number = || numbers.next()?.parse().ok().map(Nanos);
        Some(Spent { cpu: number()?, waited: number()? })
    }
}

/// Kills a process that we started, its process group, and what it made that is still below it.
pub fn kill_with_descendants(pid: u32) {
    let below = crate::process::descendants(pid);
    // SAFETY: signals to numbers. The group is the child's own: it began a session.
    unsafe { libc::kill(-pid.cast_signed(), libc::SIGKILL) };
    for pid in below.into_iter().chain([pid]) {
        // SAFETY: as above; of processes below a child of ours.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
}

fn what(tid: i32, status: i32) -> io::Result<What> {
    let (signal, event) = (status & 0xff, status >> 8);
    let tracee = Tracee(tid);
    Ok(match event {
        EVENT_STOP if signal == libc::SIGTRAP => What::Stopped,
        EVENT_STOP => What::Paused,
        libc::PTRACE_EVENT_EXEC => What::Exec(tracee.event_message()?),
        libc::PTRACE_EVENT_FORK => What::Made(tracee.event_message()?, Way::Fork),
        libc::PTRACE_EVENT_VFORK => What::Made(tracee.event_message()?, Way::Vfork),
        libc::PTRACE_EVENT_CLONE => What::Made(tracee.event_message()?, Way::Clone),
        _ if signal == libc::SIGTRAP | 0x80 => match tracee.system_call()? {
            SystemCall::Entry { number, arguments, .. } => What::Call(number, arguments),
            SystemCall::Exit(value) => What::Returned(value),
            SystemCall::Neither => What::Returned(0),
        },
        _ => What::Signal(signal),
    })
}

/// What the kernel says of a thread that was killed while we held it: [`is_gone`].
pub fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

/// Whether a thread was killed while we held it.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// What the kernel says of an address where nothing is mapped.
pub fn is_unmapped(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::{Launch, Stream, spawn_gated};

    #[test]
    fn a_program_is_followed_from_its_exec_to_its_end_and_reaped_by_its_owner() {
        let mut launch = Launch::new(["/bin/sh", "-c", "/bin/true; exit 3"]);
        launch.stdout = Stream::Null;
        let ended = crate::ptrace::apart(|| {
            let gated = spawn_gated(launch).unwrap();
            let pid = gated.pid();
            let root = pid.cast_signed();
            let mut tracer = Tracer::of(pid).unwrap();
            std::thread::scope(|scope| {
                let release = scope.spawn(|| gated.release());
                let mut seen = Vec::new();
                while let Some(event) = tracer.wait().unwrap() {
                    seen.push(event);
                    match event.what {
                        What::Ended if event.tid == root => break,
                        What::Ended => {}
                        What::Signal(signal) => tracer.resume(event.tid, Resume::Continue, signal).unwrap(),
                        _ => tracer.resume(event.tid, Resume::Continue, 0).unwrap(),
                    }
                }
                let of_root = |what: fn(&What) -> bool| seen.iter().any(|it| it.tid == root && what(&it.what));
                assert!(of_root(|what| matches!(what, What::Exec(_))), "{seen:?}");
                assert!(of_root(|what| matches!(what, What::Made(..))), "{seen:?}");
                let executed = |it: &&Event| matches!(it.what, What::Exec(_));
                assert_eq!(seen.iter().filter(executed).count(), 2, "the shell, and what it started: {seen:?}");
                assert!(seen.is_sorted_by_key(|it| it.at_ns));
                release.join().unwrap().unwrap().wait().unwrap()
            })
        });
        assert_eq!(ended.code, Some(3));
    }

    #[test]
    fn a_thread_that_computes_has_cpu_time() {
        let mut tracer = Tracer { root: 0, tallies: HashMap::new(), own: None, of_a_thread: PhantomData };
        // SAFETY: gettid takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() };
        assert_eq!((tracer.cpu_time(tid), tracer.waited(tid)), (None, Nanos(0)));
        tracer.count(std::process::id(), tid);
        if tracer.cpu_time(tid).is_none() {
            return testing::skip("needs a kernel that counts CPU time of threads (CONFIG_SCHED_INFO)");
        }
        while tracer.cpu_time(tid) < Some(Nanos(1_000_000)) {}
        tracer.count_no_more(tid);
        assert_eq!(tracer.cpu_time(tid), None);
    }
}

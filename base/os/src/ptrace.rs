//! Stopping a running process for a moment, to look at it or to change a few bytes of it. x86-64 only.
//!
//! Nothing here kills: PTRACE_O_EXITKILL is never set, so a process outlives a thaw that dies at any moment. A stop is
//! not to be seen by the program: signals that arrive meanwhile are passed on, and system calls that the kernel would
//! end with EINTR are begun again. What a tracer of function calls needs (traps, forks, exec) is not here.

pub use crate::tracee::Registers;
use crate::tracee::{EVENT_STOP, Register, Resume, SystemCall, Tracee, ptrace};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const GETSIGMASK: i64 = 0x420a;
const SETSIGMASK: i64 = 0x420b;
const GET_RSEQ: i64 = 0x420f;
const GETREGSET: i64 = 0x4204;
const SETREGSET: i64 = 0x4205;
const NT_X86_XSTATE: i64 = 0x202;
/// The kernel's own: begin the system call again, unless a signal handler is to run first.
const ERESTARTNOHAND: i64 = 514;

/// Why a process was not stopped.
#[derive(Debug)]
pub enum NotStopped {
    /// It has ended.
    Gone,
    /// The kernel does not allow it.
    Refused(io::Error),
    /// A thread does not stop in time: the kernel holds it (state D).
    Stuck(i32),
}

/// What a wait for a thread brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It begins this system call.
    Call(u64),
    /// It ends one, with this value.
    Returned(i64),
    /// A signal is about to be delivered.
    Signal(i32),
    /// We, or a stop from the keyboard.
    Event,
    /// It has ended.
    Ended,
    /// Nothing happened in time.
    Nothing,
}

/// A thread that is stopped and traced by the calling thread. Dropping lets it go.
#[derive(Debug)]
pub struct Thread {
    /// The number of the thread.
    pub tid: i32,
    /// To be delivered when it goes on.
    signal: i32,
    gone: bool,
}

impl Thread {
    /// Attaches; it goes on running until [`Thread::settle`] has seen it stop.
    fn seize(tid: i32) -> io::Result<Self> {
        Tracee(tid).seize_alone()?;
        Tracee(tid).interrupt()?;
        Ok(Self { tid, signal: 0, gone: false })
    }

    fn tracee(&self) -> Tracee {
        Tracee(self.tid)
    }

    /// Waits for the stop that was asked for; `false`: not in time.
    fn settle(&mut self, until: Instant) -> bool {
        match self.wait(until) {
            Stop::Nothing => return false,
            Stop::Ended => self.gone = true,
            Stop::Signal(signal) => self.signal = signal,
            _ => {
                let _ = self.hide_interruption();
            }
        }
        true
    }

    /// Some system calls end with EINTR when a thread is merely stopped (signal(7)). Told so, the kernel begins them
    /// again, unless a handler runs.
    fn hide_interruption(&self) -> io::Result<()> {
        let registers = self.registers()?;
        if registers.rax.cast_signed() == -i64::from(libc::EINTR) && is_begun_again(registers.orig_rax.cast_signed()) {
            self.tracee().set_register(Register::Value, (-ERESTARTNOHAND).cast_unsigned())?;
        }
        Ok(())
    }

    /// Waits until it stops.
    pub fn wait(&mut self, until: Instant) -> Stop {
        let mut pause = Duration::from_micros(20);
        loop {
            let mut status = 0;
            // SAFETY: the out-pointer is valid for writes during the call.
            match unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
                0 if Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(1));
                }
                0 => return Stop::Nothing,
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => {
                    self.gone = true;
                    return Stop::Ended;
                }
                _ if libc::WIFSTOPPED(status) => return self.stop(status),
                _ => {
                    self.gone = true;
                    return Stop::Ended;
                }
            }
        }
    }

    fn stop(&self, status: i32) -> Stop {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if event == EVENT_STOP {
            return Stop::Event;
        }
        if signal != libc::SIGTRAP | 0x80 {
            return Stop::Signal(signal);
        }
        match self.tracee().system_call() {
            Ok(SystemCall::Entry { number, .. }) => Stop::Call(number),
            Ok(SystemCall::Exit(value)) => Stop::Returned(value),
            _ => Stop::Event,
        }
    }

    /// Goes on to the next system call, or signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn to_system_call(&self) -> io::Result<()> {
        self.tracee().resume(Resume::ToSystemCall, 0)
    }

    /// From the beginning of a system call into it, and to a stop there that the program does not notice: let go at its
    /// beginning, it would be interrupted.
    ///
    /// # Errors
    /// It has ended, or does not stop.
    pub fn into_system_call(&mut self, until: Instant) -> io::Result<()> {
        self.tracee().interrupt()?;
        self.tracee().resume(Resume::Continue, 0)?;
        if self.settle(until) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)) }
    }

    /// Whether a signal waits to be delivered to it.
    pub fn has_signal(&self) -> bool {
        self.signal != 0
    }

    /// Its registers.
    ///
    /// # Errors
    /// It has ended.
    pub fn registers(&self) -> io::Result<Registers> {
        self.tracee().registers()
    }

    /// Sets them, all at once.
    ///
    /// # Errors
    /// It has ended.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        self.tracee().set_registers(registers)
    }

    /// Floating point and vector registers, as XSAVE writes them.
    ///
    /// # Errors
    /// It has ended.
    pub fn vectors(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 16 << 10];
        let mut place = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        ptrace(GETREGSET, self.tid, NT_X86_XSTATE, (&raw mut place) as i64)?;
        bytes.truncate(place.iov_len);
        Ok(bytes)
    }

    /// Sets them.
    ///
    /// # Errors
    /// It has ended.
    pub fn set_vectors(&self, bytes: &[u8]) -> io::Result<()> {
        let mut place = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        ptrace(SETREGSET, self.tid, NT_X86_XSTATE, (&raw mut place) as i64).map(drop)
    }

    /// Its blocked signals.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        ptrace(GETSIGMASK, self.tid, 8, (&raw mut mask) as i64)?;
        Ok(mask)
    }

    /// Sets them.
    ///
    /// # Errors
    /// It has ended.
    pub fn set_signal_mask(&self, mask: u64) -> io::Result<()> {
        ptrace(SETSIGMASK, self.tid, 8, (&raw const mask) as i64).map(drop)
    }

    /// Where its restartable sequence is registered (`struct rseq`); `None`: nowhere, or the kernel does not say.
    pub fn rseq(&self) -> Option<u64> {
        let mut told = [0_u64; 3];
        ptrace(GET_RSEQ, self.tid, size_of_val(&told) as i64, told.as_mut_ptr() as i64).ok()?;
        (told[0] != 0).then_some(told[0])
    }

    /// Writes code, whatever its protection. Other threads must be stopped too.
    ///
    /// # Errors
    /// Nothing is mapped there, or it has ended.
    pub fn write_code(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let end = address + bytes.len() as u64;
        let mut at = address & !7;
        while at < end {
            let mut word = self.tracee().peek(at)?;
            for (place, byte) in (at..).zip(&mut word) {
                if let Some(new) = place.checked_sub(address).and_then(|index| bytes.get(index as usize)) {
                    *byte = *new;
                }
            }
            self.tracee().poke(at, word)?;
            at += 8;
        }
        Ok(())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.gone {
            // A thread that was killed meanwhile needs nothing.
            let _ = self.tracee().detach(self.signal);
        }
    }
}

/// Calls that the kernel ends with EINTR although no handler ran, and that can be begun again: epoll_wait, epoll_pwait,
/// epoll_pwait2, semop, semtimedop, msgsnd, msgrcv, rt_sigtimedwait, io_getevents, io_pgetevents, io_uring_enter;
/// sockets with a timeout.
fn is_begun_again(number: i64) -> bool {
    matches!(number, 232 | 281 | 441 | 65 | 220 | 69 | 70 | 128 | 208 | 333 | 426 | 42..=47 | 288 | 299 | 307)
}

/// Threads of a process that have not ended.
///
/// # Errors
/// The process has ended.
pub fn threads(pid: u32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let Some(tid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let stat = crate::proc::stat::thread_stat(pid, tid.cast_unsigned());
        if stat.is_some_and(|stat| !matches!(stat.state, 'Z' | 'X')) {
            found.push(tid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Does work that stops threads. A tracer is a thread: when this one ends, the kernel lets everything go that it still
/// held, also what did not stop in time.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// To be called within [`apart`]. Stops all threads of a process but those that are stopped already, for a moment: they
/// go on when they are dropped. New ones are found until there are none.
///
/// # Errors
/// Not all could be stopped; those that were go on.
pub fn stop(pid: u32, already: &[i32], patience: Duration) -> Result<Vec<Thread>, NotStopped> {
    let until = Instant::now() + patience;
    let mut stopped: Vec<Thread> = Vec::new();
    loop {
        let mut fresh = Vec::new();
        for tid in threads(pid).map_err(|_| NotStopped::Gone)? {
            if already.contains(&tid) || stopped.iter().any(|known| known.tid == tid) {
                continue;
            }
            match Thread::seize(tid) {
                Ok(thread) => fresh.push(thread),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(NotStopped::Refused(error)),
            }
        }
        if fresh.is_empty() {
            break;
        }
        for thread in &mut fresh {
            if !thread.settle(until) {
                return Err(NotStopped::Stuck(thread.tid));
            }
        }
        stopped.extend(fresh.into_iter().filter(|thread| !thread.gone));
    }
    if stopped.is_empty() && already.is_empty() { Err(NotStopped::Gone) } else { Ok(stopped) }
}

/// The memory of a process.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// Opens it.
    ///
    /// # Errors
    /// It has ended, or the kernel does not allow it.
    pub fn of(pid: u32) -> io::Result<Self> {
        File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Reads exactly so much.
    ///
    /// # Errors
    /// Not all of it is mapped.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, address)
    }

    /// Reads as much as is mapped from there on without a gap; returns how much.
    pub fn read_mapped(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], address.saturating_add(done as u64)) {
                Ok(read) if read > 0 => done += read,
                _ => break,
            }
        }
        done
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    /// They are not mapped.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Writes data.
    ///
    /// # Errors
    /// Not all of it is mapped.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

/// A few bytes of code that were replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The first address that was written to.
    pub address: u64,
    /// The bytes that were there before.
    pub was: Vec<u8>,
    /// What is there now: one instruction, so that no thread can be inside of it.
    pub is: Vec<u8>,
}

/// Puts code back where it is as it was left; a process that has ended, or runs another program, needs nothing. Returns
/// how many places.
///
/// # Errors
/// The process cannot be stopped or written.
pub fn put_back(pid: u32, places: &[Replaced]) -> Result<usize, NotStopped> {
    let mut tries = 0;
    loop {
        match apart(|| put_back_now(pid, places)) {
            Err(NotStopped::Gone) => return Ok(0),
            // A parent of vfork, for one, cannot be stopped until its child calls exec.
            Err(NotStopped::Stuck(_)) if tries < 10 => tries += 1,
            answer => return answer,
        }
    }
}

fn put_back_now(pid: u32, places: &[Replaced]) -> Result<usize, NotStopped> {
    let now = |memory: &Memory, place: &Replaced| {
        let mut now = vec![0; place.is.len()];
        memory.read(place.address, &mut now).map(|()| now)
    };
    // Where nothing was written nobody has to be stopped, and who holds the process already keeps nobody from knowing.
    let is_other = |memory: &Memory, place| now(memory, place).is_ok_and(|now| now != place.is);
    if Memory::of(pid).is_ok_and(|memory| places.iter().all(|place| is_other(&memory, place))) {
        return Ok(0);
    }
    let held = stop(pid, &[], Duration::from_secs(1))?;
    let memory = Memory::of(pid).map_err(NotStopped::Refused)?;
    let thread = held.first().ok_or(NotStopped::Gone)?;
    let mut done = 0;
    for place in places {
        if now(&memory, place).is_ok_and(|now| now == place.is) {
            thread.write_code(place.address, &place.was).map_err(NotStopped::Refused)?;
            done += 1;
        }
    }
    Ok(done)
}

//! The system calls of a tracer, each of them once. Names are those of ptrace(2). What a stop means, and what follows
//! from it, is for those who trace to say. Registers are those of x86-64.

use std::io;

/// The general registers of a thread, as ptrace(2) reads and sets them.
#[cfg(target_arch = "x86_64")]
pub type Registers = libc::user_regs_struct;

/// The one byte that stops a program: `int3`.
pub const TRAP: u8 = 0xcc;
/// Signal code of SIGTRAP: an `int3`.
pub const SI_KERNEL: i32 = 0x80;
/// Signal code of SIGTRAP: a breakpoint, as some kernels say it; also a system call that was stepped over.
pub const TRAP_BRKPT: i32 = 1;
/// Signal code of SIGTRAP: one instruction that was stepped over.
pub const TRAP_TRACE: i32 = 2;
/// An event without a parent: a new thread's first stop, one that was asked for, or a group-stop.
pub const EVENT_STOP: i32 = 128;

const PEEKDATA: i64 = 2;
const POKEDATA: i64 = 5;
const CONT: i64 = 7;
const SINGLESTEP: i64 = 9;
const DETACH: i64 = 17;
const SYSCALL: i64 = 24;
const GETEVENTMSG: i64 = 0x4201;
const GETSIGINFO: i64 = 0x4202;
const SEIZE: i64 = 0x4206;
const INTERRUPT: i64 = 0x4207;
const LISTEN: i64 = 0x4208;
const GET_SYSCALL_INFO: i64 = 0x420e;

/// Children and threads are attached as they are made, exec and system calls are told apart from signals.
const FOLLOWED: i32 = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD;

#[cfg(target_arch = "x86_64")]
const PEEKUSER: i64 = 3;
#[cfg(target_arch = "x86_64")]
const POKEUSER: i64 = 6;
#[cfg(target_arch = "x86_64")]
const GETREGS: i64 = 12;
#[cfg(target_arch = "x86_64")]
const SETREGS: i64 = 13;

/// A register by its place in `struct user`; the same for 32-bit programs, whose registers are the low halves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
#[repr(i64)]
pub enum Register {
    /// Where it executes.
    Ip = 16 * 8,
    /// The end of its stack.
    Sp = 19 * 8,
    /// First argument of a function of a 64-bit program.
    First = 14 * 8,
    /// Second argument of a function of a 64-bit program.
    Second = 13 * 8,
    /// The value of a system call or function.
    Value = 10 * 8,
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until something happens.
    Continue,
    /// Until the next system call begins or ends.
    ToSystemCall,
    /// For one instruction.
    Step,
}

/// A thread that we trace, by its number. All but [`Tracee::seize`], its like and [`Tracee::interrupt`] need it
/// stopped. Every call can say ESRCH: it was killed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tracee(pub i32);

/// A system call that begins or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// It begins.
    Entry {
        /// Audit number of the architecture.
        arch: u32,
        /// Number of the call there.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// It has ended, with this value.
    Exit(i64),
    /// The thread has not stopped for a system call.
    Neither,
}

/// ptrace(2) itself, for what only one tracer asks for.
pub(crate) fn ptrace(request: i64, tracee: i32, address: i64, data: i64) -> io::Result<i64> {
    // SAFETY: callers pass requests whose `data` is a number, or a pointer to memory of the size that the request
    // reads or writes; see each of them. The address is one in the tracee, which the kernel checks.
    match unsafe { libc::syscall(libc::SYS_ptrace, request, i64::from(tracee), address, data) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

impl Tracee {
    /// The CPU that it ran on last; `None`: it is gone.
    pub fn last_cpu(self) -> Option<usize> {
        let tid = self.0.cast_unsigned();
        Some(crate::process::thread_stat(tid, tid)?.last_cpu? as usize)
    }

    /// Attaches without stopping it. Its children and threads are attached as they are made, and it dies with the
    /// tracer.
    ///
    /// # Errors
    /// Not allowed, or it has ended.
    pub fn seize(self) -> io::Result<()> {
        ptrace(SEIZE, self.0, 0, (FOLLOWED | libc::PTRACE_O_EXITKILL).into()).map(drop)
    }

    /// The same, but it is let go when the tracer dies.
    ///
    /// # Errors
    /// Not allowed, or it has ended.
    pub fn seize_for_a_while(self) -> io::Result<()> {
        ptrace(SEIZE, self.0, 0, FOLLOWED.into()).map(drop)
    }

    /// Attaches to it alone, neither to threads nor to children that it makes, until the tracer dies.
    ///
    /// # Errors
    /// Not allowed, or it has ended.
    pub fn seize_alone(self) -> io::Result<()> {
        ptrace(SEIZE, self.0, 0, libc::PTRACE_O_TRACESYSGOOD.into()).map(drop)
    }

    /// Asks it to stop.
    ///
    /// # Errors
    /// It has ended, or is not traced by the calling thread.
    pub fn interrupt(self) -> io::Result<()> {
        ptrace(INTERRUPT, self.0, 0, 0).map(drop)
    }

    /// Goes on, with a signal (0: none).
    ///
    /// # Errors
    /// It was killed.
    pub fn resume(self, how: Resume, signal: i32) -> io::Result<()> {
        let request = match how {
            Resume::Continue => CONT,
            Resume::ToSystemCall => SYSCALL,
            Resume::Step => SINGLESTEP,
        };
        ptrace(request, self.0, 0, signal.into()).map(drop)
    }

    /// Leaves it in its group-stop, from which SIGCONT wakes it.
    ///
    /// # Errors
    /// It was killed, or is in none.
    pub fn listen(self) -> io::Result<()> {
        ptrace(LISTEN, self.0, 0, 0).map(drop)
    }

    /// Lets it go, with a signal (0: none).
    ///
    /// # Errors
    /// It was killed.
    pub fn detach(self, signal: i32) -> io::Result<()> {
        ptrace(DETACH, self.0, 0, signal.into()).map(drop)
    }

    /// The number that came with an event: a new thread, or the one that has called exec.
    ///
    /// # Errors
    /// It was killed.
    pub fn event_message(self) -> io::Result<i32> {
        let mut message = 0_u64;
        ptrace(GETEVENTMSG, self.0, 0, (&raw mut message) as i64)?;
        i32::try_from(message).map_err(io::Error::other)
    }

    /// The code of the signal that it has stopped for.
    ///
    /// # Errors
    /// It was killed, or is in a group-stop.
    pub fn signal_code(self) -> io::Result<i32> {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        ptrace(GETSIGINFO, self.0, 0, info.as_mut_ptr() as i64)?;
        // SAFETY: the kernel filled it, and all zero bytes are valid besides.
        Ok(unsafe { info.assume_init() }.si_code)
    }

    /// The eight bytes at an address, whatever its protection.
    ///
    /// # Errors
    /// Nothing is mapped there, or it was killed.
    pub fn peek(self, address: u64) -> io::Result<[u8; 8]> {
        let mut word = [0_u8; 8];
        ptrace(PEEKDATA, self.0, address.cast_signed(), word.as_mut_ptr() as i64)?;
        Ok(word)
    }

    /// Writes eight bytes, whatever the protection.
    ///
    /// # Errors
    /// Nothing is mapped there, or it was killed.
    pub fn poke(self, address: u64, word: [u8; 8]) -> io::Result<()> {
        ptrace(POKEDATA, self.0, address.cast_signed(), i64::from_ne_bytes(word)).map(drop)
    }

    /// The system call that it has stopped at.
    ///
    /// # Errors
    /// It was killed, or the kernel is older than 5.3.
    pub fn system_call(self) -> io::Result<SystemCall> {
        // struct ptrace_syscall_info: operation, padding, architecture, ip, sp, then number and arguments, or the
        // value.
        let mut info = [0_u64; 11];
        ptrace(GET_SYSCALL_INFO, self.0, size_of_val(&info) as i64, info.as_mut_ptr() as i64)?;
        let arguments = [info[4], info[5], info[6], info[7], info[8], info[9]];
        let (operation, arch) = (info[0] as u8, (info[0] >> 32) as u32);
        Ok(match operation {
            1 => SystemCall::Entry { arch, number: info[3], arguments },
            2 => SystemCall::Exit(info[3].cast_signed()),
            _ => SystemCall::Neither,
        })
    }
}

#[cfg(target_arch = "x86_64")]
impl Tracee {
    /// What a register holds.
    ///
    /// # Errors
    /// It was killed.
    pub fn register(self, register: Register) -> io::Result<u64> {
        let mut value = 0_u64;
        ptrace(PEEKUSER, self.0, register as i64, (&raw mut value) as i64)?;
        Ok(value)
    }

    /// Sets a register.
    ///
    /// # Errors
    /// It was killed.
    pub fn set_register(self, register: Register, value: u64) -> io::Result<()> {
        ptrace(POKEUSER, self.0, register as i64, value.cast_signed()).map(drop)
    }

    /// All registers of a 64-bit program.
    ///
    /// # Errors
    /// It was killed.
    pub fn registers(self) -> io::Result<Registers> {
        let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
        ptrace(GETREGS, self.0, 0, registers.as_mut_ptr() as i64)?;
        // SAFETY: the kernel filled it, and it is made of integers.
        Ok(unsafe { registers.assume_init() })
    }

    /// Sets all registers at once.
    ///
    /// # Errors
    /// It was killed.
    pub fn set_registers(self, registers: &Registers) -> io::Result<()> {
        ptrace(SETREGS, self.0, 0, std::ptr::from_ref(registers) as i64).map(drop)
    }
}

/// What a wait brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// This one's status, as waitpid(2) gives it.
    Status(Tracee, i32),
    /// A signal of our own came first.
    Interrupted,
    /// Nobody is left.
    Nobody,
}

/// Waits for any tracee or child of this process.
///
/// # Errors
/// The kernel does not tell.
pub fn wait() -> io::Result<Waited> {
    let mut status = 0;
    // SAFETY: the out-pointer is valid for writes during the call.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } {
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(Waited::Interrupted),
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Waited::Nobody),
            error => Err(error),
        },
        pid => Ok(Waited::Status(Tracee(pid), status)),
    }
}

/// Waits for one, whatever signals of our own come; its status, as waitpid(2) gives it.
///
/// # Errors
/// It is not there any more.
pub fn wait_for(tracee: Tracee) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the out-pointer is valid for writes during the call.
        match unsafe { libc::waitpid(tracee.0, &raw mut status, libc::__WALL) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
            _ => return Ok(status),
        }
    }
}

/// Whether two threads have the same memory; `None`: the kernel does not tell.
pub fn same_memory(one: Tracee, other: Tracee) -> Option<bool> {
    const KCMP_VM: i64 = 1;
    // SAFETY: kcmp takes numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, i64::from(one.0), i64::from(other.0), KCMP_VM, 0_i64, 0_i64) };
    (order >= 0).then_some(order == 0)
}

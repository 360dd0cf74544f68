//! The system calls of a tracer, x86-64 only. Names are those of ptrace(2).

use std::io;

/// The bytes that stop a program, and how many they are: `int3`.
pub const TRAP: u8 = 0xcc;
/// Signal codes of SIGTRAP: an `int3`, and one instruction that was stepped over.
pub const SI_KERNEL: i32 = 0x80;
pub const TRAP_BRKPT: i32 = 1;
pub const TRAP_TRACE: i32 = 2;

const SEIZE: i64 = 0x4206;
const LISTEN: i64 = 0x4208;
const GET_SYSCALL_INFO: i64 = 0x420e;
const GETREGS: i64 = 12;
const SETREGS: i64 = 13;
const PEEKDATA: i64 = 2;
const PEEKUSER: i64 = 3;
const POKEDATA: i64 = 5;
const POKEUSER: i64 = 6;
const CONT: i64 = 7;
const SINGLESTEP: i64 = 9;
const SYSCALL: i64 = 24;
const GETEVENTMSG: i64 = 0x4201;
const GETSIGINFO: i64 = 0x4202;

/// A register by its place in `struct user`; the same for 32-bit programs, whose registers are the low halves.
#[derive(Clone, Copy, Debug)]
#[repr(i64)]
pub enum Register {
    Ip = 16 * 8,
    Sp = 19 * 8,
    /// First and second argument of a function of a 64-bit program.
    First = 14 * 8,
    Second = 13 * 8,
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

/// A thread that is stopped and that we trace. Every call can say ESRCH: it was killed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tracee(pub i32);

/// A system call that begins or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// Audit number of the architecture, number of the call, its arguments.
    Entry { arch: u32, number: u64, arguments: [u64; 6] },
    /// It has ended.
    Exit,
}

fn ptrace(request: i64, tracee: i32, address: i64, data: i64) -> io::Result<i64> {
    // SAFETY: callers pass requests whose `data` is a number, or a pointer to memory of the size that the request
    // writes; see each of them. The address is one in the tracee, which the kernel checks.
    match unsafe { libc::syscall(libc::SYS_ptrace, request, i64::from(tracee), address, data) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

impl Tracee {
    /// Attaches without stopping it. Its children and threads are attached as they are made, and it dies with the
    /// tracer.
    pub fn seize(self) -> io::Result<()> {
        let options = libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC
            | libc::PTRACE_O_TRACESYSGOOD
            | libc::PTRACE_O_EXITKILL;
        ptrace(SEIZE, self.0, 0, options.into()).map(drop)
    }

    /// Goes on, with a signal (0: none).
    pub fn resume(self, how: Resume, signal: i32) -> io::Result<()> {
        let request = match how {
            Resume::Continue => CONT,
            Resume::ToSystemCall => SYSCALL,
            Resume::Step => SINGLESTEP,
        };
        ptrace(request, self.0, 0, signal.into()).map(drop)
    }

    /// Leaves it in its group-stop, from which SIGCONT wakes it.
    pub fn listen(self) -> io::Result<()> {
        ptrace(LISTEN, self.0, 0, 0).map(drop)
    }

    /// The number that came with an event: a new thread, or the one that has called exec.
    pub fn event_message(self) -> io::Result<i32> {
        let mut message = 0_u64;
        ptrace(GETEVENTMSG, self.0, 0, (&raw mut message) as i64)?;
        i32::try_from(message).map_err(io::Error::other)
    }

    /// The code of the signal that it has stopped for.
    pub fn signal_code(self) -> io::Result<i32> {
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        ptrace(GETSIGINFO, self.0, 0, info.as_mut_ptr() as i64)?;
        // SAFETY: the kernel filled it, and all zero bytes are valid besides.
        Ok(unsafe { info.assume_init() }.si_code)
    }

    /// What a register holds.
    pub fn register(self, register: Register) -> io::Result<u64> {
        let mut value = 0_u64;
        ptrace(PEEKUSER, self.0, register as i64, (&raw mut value) as i64)?;
        Ok(value)
    }

    /// Sets a register.
    pub fn set_register(self, register: Register, value: u64) -> io::Result<()> {
        ptrace(POKEUSER, self.0, register as i64, value.cast_signed()).map(drop)
    }

    /// All registers of a 64-bit program.
    pub fn registers(self) -> io::Result<libc::user_regs_struct> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        ptrace(GETREGS, self.0, 0, registers.as_mut_ptr() as i64)?;
        // SAFETY: the kernel filled it, and it is made of integers.
        Ok(unsafe { registers.assume_init() })
    }

    /// Sets all registers.
    pub fn set_registers(self, registers: &libc::user_regs_struct) -> io::Result<()> {
        ptrace(SETREGS, self.0, 0, std::ptr::from_ref(registers) as i64).map(drop)
    }

    /// The eight bytes at an address, whatever its protection.
    pub fn peek(self, address: u64) -> io::Result<[u8; 8]> {
        let mut word = [0_u8; 8];
        ptrace(PEEKDATA, self.0, address.cast_signed(), word.as_mut_ptr() as i64)?;
        Ok(word)
    }

    /// Writes eight bytes, whatever the protection.
    pub fn poke(self, address: u64, word: [u8; 8]) -> io::Result<()> {
        ptrace(POKEDATA, self.0, address.cast_signed(), i64::from_ne_bytes(word)).map(drop)
    }

    /// The system call that it has stopped at.
    pub fn system_call(self) -> io::Result<SystemCall> {
        // struct ptrace_syscall_info: operation, padding, architecture, ip, sp, then number and arguments.
        let mut info = [0_u64; 11];
        ptrace(GET_SYSCALL_INFO, self.0, size_of_val(&info) as i64, info.as_mut_ptr() as i64)?;
        let arguments = [info[4], info[5], info[6], info[7], info[8], info[9]];
        let (operation, arch) = (info[0] as u8, (info[0] >> 32) as u32);
        Ok(if operation == 1 { SystemCall::Entry { arch, number: info[3], arguments } } else { SystemCall::Exit })
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

/// Waits for any tracee.
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

/// Waits for one.
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
    const KCMP_VM: libc::c_long = 1;
    // SAFETY: kcmp takes numbers only.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            i64::from(one.0),
            i64::from(other.0),
            KCMP_VM,
            0 as libc::c_long,
            0 as libc::c_long,
        )
    };
    (order >= 0).then_some(order == 0)
}

//! System calls that a stopped thread makes for the tracer, one instruction each; then it is as it was.

use super::image::{Wanted, What};
use super::memory::Memory;
use os::tracee::{self, Registers, Resume, Tracee};
use std::io;

/// What a function may use below its stack pointer, and room for a path.
const BELOW: u64 = 128 + ROOM as u64;
const ROOM: usize = 64;

/// A thread that makes system calls for us, with an instruction of its own that does so.
pub struct Borrowed<'a> {
    tracee: Tracee,
    memory: &'a Memory,
    saved: Registers,
    instruction: u64,
    late: Vec<i32>,
}

impl<'a> Borrowed<'a> {
    /// A stopped thread of a 64-bit program, and the address of a `syscall`.
    ///
    /// # Errors
    /// It was killed.
    pub fn new(tracee: Tracee, memory: &'a Memory, instruction: u64) -> io::Result<Self> {
        Ok(Self { tracee, memory, saved: tracee.registers()?, instruction, late: Vec::new() })
    }

    fn call(&mut self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let (rip, rax) = (self.instruction, number.cast_unsigned());
        // No system call is to be restarted because of this one.
        let registers = Registers { rip, rax, rdi, rsi, rdx, r10, r8, r9, orig_rax: u64::MAX, ..self.saved };
        self.late.extend(step(self.tracee, &registers)?);
        let value = self.tracee.registers()?.rax;
        match value.cast_signed() {
            errno @ -4095..0 => Err(io::Error::from_raw_os_error(-errno as i32)),
            _ => Ok(value),
        }
    }

    /// Maps the file at a path as it is wanted, and writes the number of the address space where it belongs. Returns
    /// where that is; 0: nowhere.
    ///
    /// # Errors
    /// The kernel refuses the process one of the mappings: then no text is replaced, and nothing is left.
    pub fn map(&mut self, text: &str, wanted: &[Wanted], number: u32) -> io::Result<u64> {
        let path = self.saved.rsp.wrapping_sub(BELOW) & !15;
        let mut before = [0; ROOM];
        self.memory.read(self.tracee, path, &mut before)?;
        let mut name = [0; ROOM];
        // The last byte stays 0.
        name[..ROOM - 1].get_mut(..text.len()).ok_or(io::ErrorKind::InvalidFilename)?.copy_from_slice(text.as_bytes());
        self.memory.write(self.tracee, path, &name)?;
        let opened = self.open_both(path);
        self.memory.write(self.tracee, path, &before)?;
        let (to_write, to_run) = opened?;
        let mapped = self.map_all(wanted, to_write, to_run, number);
        for fd in [to_write, to_run] {
            self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        }
        mapped
    }

    fn open_both(&mut self, path: u64) -> io::Result<(u64, u64)> {
        let flags = |how: i32| (how | libc::O_CLOEXEC) as u64;
        let here = i64::from(libc::AT_FDCWD).cast_unsigned();
        let to_write = self.call(libc::SYS_openat, [here, path, flags(libc::O_RDWR), 0, 0, 0])?;
        match self.call(libc::SYS_openat, [here, path, flags(libc::O_RDONLY), 0, 0, 0]) {
            Ok(to_run) => Ok((to_write, to_run)),
            Err(error) => {
                self.call(libc::SYS_close, [to_write, 0, 0, 0, 0, 0])?;
                Err(error)
            }
        }
    }

    fn map_all(&mut self, wanted: &[Wanted], to_write: u64, to_run: u64, number: u32) -> io::Result<u64> {
        let (mut view, mut own) = (None, 0);
        for Wanted { address, len, what, offset } in wanted.iter().copied() {
            let read_write = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let run = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            let fixed = libc::MAP_FIXED as u64;
            let (protection, flags, fd) = match what {
                What::View => (read_write, (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64, to_write),
                What::Code => (run, libc::MAP_SHARED as u64 | fixed, to_run),
                What::Copy => (run, libc::MAP_PRIVATE as u64 | fixed, to_run),
                What::Own => (read_write, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64 | fixed, u64::MAX),
            };
            let mapped = self.call(libc::SYS_mmap, [address, len, protection, flags, fd, offset]);
            let mapped =
                mapped.and_then(|at| if at == address { Ok(()) } else { Err(io::ErrorKind::AddrInUse.into()) });
            if let Err(error) = mapped {
                // Nothing of the text was replaced yet, or what was can stay: it needs the view.
                if let Some((address, len)) = view.filter(|_| own == 0) {
                    self.call(libc::SYS_munmap, [address, len, 0, 0, 0, 0])?;
                }
                return Err(error);
            }
            match what {
                What::View => view = Some((address, len)),
                What::Own => {
                    own = address;
                    self.memory.write(self.tracee, address, &number.to_le_bytes())?;
                }
                What::Code | What::Copy => {}
            }
        }
        Ok(own)
    }

    /// Leaves the thread as it was. Signals that came meanwhile come again.
    ///
    /// # Errors
    /// It was killed.
    pub fn give_back(self) -> io::Result<()> {
        self.tracee.set_registers(&self.saved)?;
        send_again(self.tracee, self.late);
        Ok(())
    }
}

/// Sends a stopped thread the signals that came while it worked for us.
pub fn send_again(tracee: Tracee, signals: Vec<i32>) {
    for signal in signals {
        // SAFETY: tkill takes numbers only; the thread is stopped, so its number is its own.
        unsafe { libc::syscall(libc::SYS_tkill, i64::from(tracee.0), i64::from(signal)) };
    }
}

/// Runs one instruction of a stopped thread. Signals that came first are returned: they are still to be delivered.
///
/// # Errors
/// It was killed.
pub fn step(tracee: Tracee, registers: &Registers) -> io::Result<Vec<i32>> {
    let mut late = Vec::new();
    tracee.set_registers(registers)?;
    loop {
        tracee.resume(Resume::Step, 0)?;
        let status = tracee::wait_for(tracee)?;
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if signal == libc::SIGTRAP && event == 0 && is_step(tracee.signal_code()?) {
            return Ok(late);
        }
        if event == 0 {
            late.push(signal);
        }
    }
}

/// Whether a SIGTRAP says that one instruction was stepped over: a plain one, a system call, or into a signal's
/// handler.
pub fn is_step(code: i32) -> bool {
    matches!(code, tracee::TRAP_TRACE | tracee::TRAP_BRKPT | libc::SIGTRAP)
}

//! Calls of functions in a stopped thread of a running process.
//!
//! A call looks like a signal handler: what was interrupted is kept in a frame on the thread's stack, and the function
//! returns to rt_sigreturn, which the C library has. So the thread finds its way back by itself if thaw dies at any
//! moment. As long as thaw lives, it catches the thread there, puts everything back itself, and replaces rt_sigreturn
//! by the system call that was interrupted: this call is then not begun again but goes on, timeouts too. All signals
//! wait meanwhile.

use os::ptrace::{Memory, Registers, Stop, Thread};
use std::io;
use std::time::{Duration, Instant};

/// `mov rax, 15; syscall`.
pub const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
const SIGRETURN_NUMBER: u64 = 15;
const RESTART_NUMBER: u64 = 219;
/// Of the registers in a `ucontext`: after flags, link and stack.
pub const CONTEXT_REGISTERS: u64 = 40;
/// `ucontext` with the kernel's signal mask.
const CONTEXT_BYTES: usize = 304;
/// Below the stack pointer, what a function may use without moving it.
const RED_ZONE: u64 = 128;
/// The kernel's own error numbers of interrupted calls.
const ERESTART_FIRST: i64 = 512;
const ERESTART_LAST: i64 = 514;
const ERESTART_BLOCK: i64 = 516;
/// A call that takes longer is left to itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a call did not come back.
#[derive(Debug)]
pub enum Failed {
    /// The process has ended, or the kernel refuses.
    Kernel(io::Error),
    /// The function was ended by this signal; the thread is as it was before.
    Crashed(i32),
    /// It takes too long: something that it needs is held. It was left to itself and comes back when it can.
    Hangs,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

/// A system call that failed during the last call: number and error.
pub type Refusal = (u64, i32);

/// A thread that does calls for us.
#[derive(Debug)]
pub struct Borrowed<'a> {
    thread: &'a mut Thread,
    memory: &'a Memory,
    before: Registers,
    vectors: Vec<u8>,
    mask: u64,
    errno: Option<(u64, [u8; 4])>,
    /// Where the return address is.
    frame: u64,
    /// Where the data of calls are.
    data: u64,
    sigreturn: u64,
    /// The last system call that failed.
    pub refusal: Option<Refusal>,
    /// A call did not come back, and the thread with it.
    lost: bool,
}

/// Bytes that calls may pass.
pub const DATA: usize = 4096;
/// What must be free below the stack pointer: the frame, and what the dynamic linker uses.
pub const STACK: u64 = 96 << 10;

impl<'a> Borrowed<'a> {
    /// Makes the frame. The thread stands at a place where such calls are allowed.
    ///
    /// # Errors
    /// The thread was killed, or its stack cannot be written.
    pub fn new(thread: &'a mut Thread, memory: &'a Memory, sigreturn: u64, errno: Option<u64>) -> Result<Self, Failed> {
        let before = thread.registers()?;
        let (vectors, mask) = (thread.vectors()?, thread.signal_mask()?);
        let mut kept = [0; 4];
        let errno = match errno {
            Some(at) => memory.read(at, &mut kept).map(|()| Some((at, kept)))?,
            None => None,
        };
        let saved = as_signal_frame(&vectors);
        let vectors_at = (before.rsp - RED_ZONE - saved.len() as u64) & !63;
        let data = vectors_at - DATA as u64;
        // A function begins with the stack pointer eight bytes from a multiple of sixteen.
        let frame = ((data - CONTEXT_BYTES as u64 - 8) & !15) - 8;
        let mut bytes = sigreturn.to_le_bytes().to_vec();
        bytes.extend(context(&resumed(&before), mask, vectors_at));
        memory.write(vectors_at, &saved)?;
        memory.write(frame, &bytes)?;
        Ok(Self { thread, memory, before, vectors, mask, errno, frame, data, sigreturn, refusal: None, lost: false })
    }

    /// Calls a function: `data` are put onto the stack, their address and a number are its arguments. What it returns
    /// is not known.
    ///
    /// # Errors
    /// It did not come back.
    pub fn call(&mut self, function: u64, data: &[u8], number: u64) -> Result<(), Failed> {
        assert!(data.len() <= DATA, "data of a call");
        self.refusal = None;
        self.memory.write(self.data, data)?;
        self.memory.write(self.frame, &self.sigreturn.to_le_bytes())?;
        let mut registers = self.before;
        (registers.rip, registers.rsp, registers.rdi, registers.rsi) = (function, self.frame, self.data, number);
        (registers.rdx, registers.rcx, registers.rax) = (0, 0, 0);
        registers.orig_rax = u64::MAX;
        // Interrupts on, all else as the calling convention wants it.
        registers.eflags = 0x202;
        self.thread.set_registers(&registers)?;
        self.thread.set_signal_mask(u64::MAX)?;
        let until = Instant::now() + PATIENCE;
        let mut begun = 0;
        loop {
            self.thread.to_system_call()?;
            match self.thread.wait(until) {
                Stop::Call(SIGRETURN_NUMBER) => return Ok(()),
                Stop::Call(number) => begun = number,
                Stop::Returned(value) if (-4095..0).contains(&value) => self.refusal = Some((begun, -value as i32)),
                Stop::Returned(_) | Stop::Event => {}
                Stop::Signal(signal) => {
                    self.lost = true;
                    self.put_back(self.before)?;
                    return Err(Failed::Crashed(signal));
                }
                Stop::Ended => {
                    self.lost = true;
                    return Err(Failed::Kernel(io::Error::from_raw_os_error(libc::ESRCH)));
                }
                Stop::Nothing => {
                    self.lost = true;
                    return Err(Failed::Hangs);
                }
            }
        }
    }

    /// The thread's number.
    pub fn tid(&self) -> i32 {
        self.thread.tid
    }

    /// Whether the last call did not come back: then there is nothing to give back.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Writes code of the process; see [`Thread::write_code`].
    ///
    /// # Errors
    /// Nothing is mapped there.
    pub fn write_code(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.thread.write_code(address, bytes)
    }

    /// The thread is as it was; it goes on when it is let go.
    ///
    /// # Errors
    /// It was killed.
    pub fn give_back(self) -> io::Result<()> {
        self.put_back(continued(&self.before))?;
        self.thread.into_system_call(Instant::now() + PATIENCE)
    }

    /// The registers last, because they take the thread out of the frame that would put all back without us.
    fn put_back(&self, registers: Registers) -> io::Result<()> {
        if let Some((at, kept)) = self.errno {
            self.memory.write(at, &kept)?;
        }
        self.thread.set_vectors(&self.vectors)?;
        self.thread.set_signal_mask(self.mask)?;
        self.thread.set_registers(&registers)
    }
}

/// The error number that the kernel shows of an interrupted call.
fn interruption(registers: &Registers) -> Option<i64> {
    let error = -registers.rax.cast_signed();
    let known = (ERESTART_FIRST..=ERESTART_LAST).contains(&error) || error == ERESTART_BLOCK;
    (registers.orig_rax.cast_signed() >= 0 && known).then_some(error)
}

/// Registers with which a thread that begins a system call goes on as if it had never been interrupted.
fn continued(before: &Registers) -> Registers {
    let mut registers = *before;
    registers.orig_rax = match interruption(before) {
        // It knows how much of its time is left.
        Some(ERESTART_BLOCK) => RESTART_NUMBER,
        Some(_) => before.orig_rax,
        None => u64::MAX,
    };
    registers
}

/// Registers with which a thread goes on without the kernel's help: the instruction of the system call again.
fn resumed(before: &Registers) -> Registers {
    let mut registers = *before;
    if interruption(before).is_some() {
        registers.rax = before.orig_rax;
        registers.rip = before.rip.wrapping_sub(2);
    }
    registers.orig_rax = u64::MAX;
    registers
}

/// `struct ucontext` as the kernel reads it back.
fn context(registers: &Registers, mask: u64, vectors_at: u64) -> Vec<u8> {
    /// Vectors are in XSAVE's form; the stack segment is the one that is said.
    const FLAGS: u64 = 1 | 2 | 4;
    /// An alternative signal stack that is none: the thread's own stays.
    const NO_STACK: u64 = 0x10;
    let r = registers;
    let segments = (r.cs & 0xffff) | (r.ss & 0xffff) << 48;
    let words = [
        FLAGS, 0, 0, NO_STACK, 0, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx,
        r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags, segments, 0, 0, 0, 0, vectors_at, 0, 0, 0, 0, 0, 0, 0, 0, mask,
    ];
    const { assert!(38 * 8 == CONTEXT_BYTES) };
    words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

/// Vector registers with the kernel's marks, so that rt_sigreturn restores all of them.
fn as_signal_frame(vectors: &[u8]) -> Vec<u8> {
    const MARK: usize = 464;
    const HEADER: usize = 512;
    /// Tiles are only there for threads that asked for them, and the kernel wants no room for them otherwise.
    const TILES: u64 = 1 << 18;
    const TILES_AT: usize = 2816;
    let mut bytes = vectors.to_vec();
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    // Where the kernel says which parts there are.
    let mut features = word(&bytes, MARK);
    if features & TILES != 0 && word(&bytes, HEADER) & TILES == 0 {
        features &= !TILES;
        bytes.truncate(TILES_AT);
    }
    let size = bytes.len() as u32;
    if let Some(mark) = bytes.get_mut(MARK..MARK + 24) {
        mark[..4].copy_from_slice(&0x4650_5853_u32.to_le_bytes());
        mark[4..8].copy_from_slice(&(size + 4).to_le_bytes());
        mark[8..16].copy_from_slice(&features.to_le_bytes());
        mark[16..20].copy_from_slice(&size.to_le_bytes());
        mark[20..].fill(0);
    }
    bytes.extend_from_slice(&0x4650_5845_u32.to_le_bytes());
    bytes
}

//! System calls without libc: none of them touches `errno`, takes a lock or can be interposed.

pub mod own;

#[cfg(not(miri))]
use core::arch::asm;

/// Result of a call: the kernel's value, or an error number.
pub type Result<T> = core::result::Result<T, u32>;

/// Does a system call.
///
/// # Safety
/// As the system call itself.
#[cfg(not(miri))]
#[inline(always)]
pub unsafe fn call(number: usize, a: [usize; 6]) -> Result<usize> {
    let value: isize;
    // SAFETY: the caller vouches for the arguments; rcx and r11 are what the instruction destroys.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => value, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&value) { Err((-value) as u32) } else { Ok(value as usize) }
}

/// The same for Miri.
///
/// # Safety
/// As above.
#[cfg(miri)]
pub unsafe fn call(number: usize, a: [usize; 6]) -> Result<usize> {
    crate::kernel::call(number, a)
}

/// Longest path of a stream.
pub const PATH_MAX: usize = 1024;

pub const EPERM: u32 = 1;
pub const ENOENT: u32 = 2;
pub const EBADF: u32 = 9;
pub const EINVAL: u32 = 22;
pub const EEXIST: u32 = 17;
pub const ESRCH: u32 = 3;
pub const ETIMEDOUT: u32 = 110;
pub const EAGAIN: u32 = 11;
pub const EACCES: u32 = 13;
pub const EINTR: u32 = 4;
pub const ENOTDIR: u32 = 20;
pub const EFBIG: u32 = 27;
pub const EROFS: u32 = 30;
pub const ECONNREFUSED: u32 = 111;
pub const ENOMEM: i32 = 12;

pub const PROT_RW: usize = 3;
pub const PROT_RX: usize = 5;
pub const PROT_R: usize = 1;
pub const MAP_SHARED: usize = 1;
pub const MAP_PRIVATE: usize = 2;
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
pub const MAP_ANONYMOUS: usize = 0x20;
pub const MAP_NORESERVE: usize = 0x4000;
pub const MAP_POPULATE: usize = 0x8000;
pub const MADV_WIPEONFORK: usize = 18;
pub const O_RDONLY: usize = 0;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const O_CREAT: usize = 0o100;
pub const O_EXCL: usize = 0o200;
pub const O_APPEND: usize = 0o2000;
pub const O_DIRECTORY: usize = 0o200_000;
pub const O_NOFOLLOW: usize = 0o400_000;
pub const O_CLOEXEC: usize = 0o2_000_000;
pub const O_PATH: usize = 0o10_000_000;
const AT_FDCWD: usize = -100isize as usize;

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fd(pub i32);

/// New memory or a mapped file.
pub fn mmap(length: usize, protection: usize, flags: usize, file: Option<(Fd, u64)>) -> Result<*mut u8> {
    mmap_at(0, length, protection, flags, file)
}

/// The same with a wish for the address.
pub fn mmap_at(at: usize, length: usize, protection: usize, flags: usize, file: Option<(Fd, u64)>) -> Result<*mut u8> {
    let (fd, offset) = file.map_or((usize::MAX, 0), |(fd, offset)| (fd.0 as usize, offset as usize));
    // SAFETY: without MAP_FIXED a new mapping replaces nothing.
    let mapped = unsafe { call(9, [at, length, protection, flags, fd, offset]) }?;
    if file.is_none() {
        own::came(mapped, length);
    }
    Ok(mapped as *mut u8)
}

/// Gives memory back.
///
/// # Safety
/// Nobody uses the range any more.
pub unsafe fn munmap(at: *mut u8, length: usize) {
    own::went(at as usize);
    // SAFETY: the caller vouches. A failure leaves the range mapped, which harms nobody.
    let _ = unsafe { call(11, [at as usize, length, 0, 0, 0, 0]) };
}

/// Changes the protection of pages.
///
/// # Safety
/// The program can live with it.
pub unsafe fn mprotect(at: usize, length: usize, protection: usize) -> Result<usize> {
    // SAFETY: the caller vouches.
    unsafe { call(10, [at, length, protection, 0, 0, 0]) }
}

/// Advice about own memory.
pub fn madvise(at: *mut u8, length: usize, advice: usize) -> Result<usize> {
    // SAFETY: used with WIPEONFORK only, on ranges that this crate mapped.
    unsafe { call(28, [at as usize, length, advice, 0, 0, 0]) }
}

/// Whether eight bytes of memory can be read. By a system call that fails in any case (`rt_sigprocmask` of an unknown
/// kind), because it reads the set first; as libunwind asks, so that sandboxes know it.
pub fn is_there(address: u64) -> bool {
    const NO_KIND: usize = 99;
    // SAFETY: the kernel reads eight bytes there, or says that it cannot; it changes nothing.
    let answer = unsafe { call(14, [NO_KIND, address as usize, 0, 8, 0, 0]) };
    answer == Err(EINVAL)
}

/// Ends the process.
#[cfg(not(test))]
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: exit_group takes a number and does not return.
        let _ = unsafe { call(231, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Opens a zero-terminated path.
pub fn open(path: &[u8], flags: usize, mode: usize) -> Result<Fd> {
    debug_assert!(path.contains(&0));
    // SAFETY: every caller passes a zero-terminated path.
    unsafe { call(257, [AT_FDCWD, path.as_ptr() as usize, flags, mode, 0, 0]) }.map(|fd| Fd(fd as i32))
}

/// Closes a file of ours.
pub fn close(fd: Fd) {
    // SAFETY: takes a number.
    let _ = unsafe { call(3, [fd.0 as usize, 0, 0, 0, 0, 0]) };
}

/// Reads at the file position.
pub fn read(fd: Fd, buffer: &mut [u8]) -> usize {
    loop {
        // SAFETY: the buffer is valid for writes of its length.
        match unsafe { call(0, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) } {
            Ok(length) => return length.min(buffer.len()),
            Err(EINTR) => {}
            Err(_) => return 0,
        }
    }
}

/// A whole small file, as far as it fits.
pub fn read_file(path: &[u8], buffer: &mut [u8]) -> usize {
    let Ok(fd) = open(path, O_RDONLY | O_CLOEXEC, 0) else { return 0 };
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(fd, rest) {
            0 => break,
            length => filled += length,
        }
    }
    close(fd);
    filled
}

/// Writes at the end of a small file; what does not fit is lost.
pub fn write(fd: Fd, buffer: &[u8]) {
    // SAFETY: the buffer is valid for reads of its length.
    let _ = unsafe { call(1, [fd.0 as usize, buffer.as_ptr() as usize, buffer.len(), 0, 0, 0]) };
}

const AF_UNIX: usize = 1;
const SOL_SOCKET: usize = 1;
/// Descriptors beside a message.
const SCM_RIGHTS: usize = 1;

/// Waits so long at most to receive and to send.
fn be_patient(socket: Fd, seconds: u64) {
    let patience = [seconds, 0u64];
    // SO_RCVTIMEO and SO_SNDTIMEO.
    for option in [20, 21] {
        // SAFETY: the kernel reads a struct timeval.
        let _ = unsafe { call(54, [socket.0 as usize, SOL_SOCKET, option, patience.as_ptr() as usize, 16, 0]) };
    }
}

/// A socket of this machine for datagrams that waits for so long at most.
pub fn datagram_socket(seconds: u64) -> Result<Fd> {
    const DATAGRAM: usize = 2;
    // SAFETY: takes numbers.
    let socket = Fd(unsafe { call(41, [AF_UNIX, DATAGRAM | O_CLOEXEC, 0, 0, 0, 0]) }? as i32);
    be_patient(socket, seconds);
    Ok(socket)
}

/// Two sockets that are connected, keep messages apart and wait for so long at most.
pub fn socket_pair(seconds: u64) -> Result<(Fd, Fd)> {
    const SEQPACKET: usize = 5;
    let mut pair = [0i32; 2];
    // SAFETY: the buffer has room for two descriptors.
    unsafe { call(53, [AF_UNIX, SEQPACKET | O_CLOEXEC, 0, pair.as_mut_ptr() as usize, 0, 0]) }?;
    let (ours, theirs) = (Fd(pair[0]), Fd(pair[1]));
    be_patient(ours, seconds);
    Ok((ours, theirs))
}

/// Connects to a path of at most 100 bytes.
pub fn connect(socket: Fd, path: &[u8]) -> Result<usize> {
    let mut address = [0u8; 110];
    address[0] = 1;
    for (place, byte) in address[2..].iter_mut().zip(path) {
        *place = *byte;
    }
    // SAFETY: a struct sockaddr_un: family and zero-terminated path.
    unsafe { call(42, [socket.0 as usize, address.as_ptr() as usize, 3 + path.len().min(107), 0, 0, 0]) }
}

/// Sends one message, and maybe a descriptor beside it; a peer that is gone is an error, no signal.
pub fn send(socket: Fd, message: &[u8], beside: Option<Fd>) -> Result<usize> {
    const NOSIGNAL: usize = 0x4000;
    let part = [message.as_ptr() as usize, message.len()];
    // struct cmsghdr (length, level and type) and the descriptor.
    let bytes = if beside.is_some() { 24 } else { 0 };
    let beside = [20, SCM_RIGHTS << 32 | SOL_SOCKET, beside.map_or(0, |file| file.0 as usize)];
    let message = [0, 0, part.as_ptr() as usize, 1, beside.as_ptr() as usize, bytes, 0];
    // SAFETY: a struct msghdr without an address, whose parts are valid for reads.
    unsafe { call(46, [socket.0 as usize, message.as_ptr() as usize, NOSIGNAL, 0, 0, 0]) }
}

/// Sends one byte if that needs no waiting; a peer that is gone is an error, no signal.
pub fn send_at_once(socket: Fd, byte: u8) -> Result<usize> {
    const NOSIGNAL_DONTWAIT: usize = 0x4040;
    // SAFETY: the byte is valid for reads.
    unsafe { call(44, [socket.0 as usize, (&raw const byte) as usize, 1, NOSIGNAL_DONTWAIT, 0, 0]) }
}

/// Receives one message and the descriptor beside it, if there is one.
pub fn receive(socket: Fd, buffer: &mut [u8]) -> Result<(usize, Option<Fd>)> {
    const CLOEXEC: usize = 0x4000_0000;
    let part = [buffer.as_mut_ptr() as usize, buffer.len()];
    // struct cmsghdr (length, level and type) and room for one descriptor.
    let mut beside = [0usize; 3];
    let mut message = [0, 0, part.as_ptr() as usize, 1, beside.as_mut_ptr() as usize, size_of_val(&beside), 0];
    let length = loop {
        // SAFETY: a struct msghdr without an address, whose parts are valid for writes.
        match unsafe { call(47, [socket.0 as usize, message.as_mut_ptr() as usize, CLOEXEC, 0, 0, 0]) } {
            Err(EINTR) => {}
            result => break result?,
        }
    };
    let has_one = message[5] >= 20 && beside[0] >= 20 && beside[1] == SCM_RIGHTS << 32 | SOL_SOCKET;
    Ok((length, has_one.then_some(Fd(beside[2] as i32))))
}

/// Whether a zero-terminated path can be read.
pub fn is_readable(path: &[u8]) -> bool {
    const R_OK: usize = 4;
    debug_assert!(path.contains(&0));
    // SAFETY: every caller passes a zero-terminated path.
    unsafe { call(269, [AT_FDCWD, path.as_ptr() as usize, R_OK, 0, 0, 0]) }.is_ok()
}

/// The working directory; nothing where it has none.
pub fn working_directory(buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer is valid for writes of its length. The kernel counts the zero.
    let length = unsafe { call(79, [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0]) };
    length.map_or(0, |length| length.saturating_sub(1).min(buffer.len()))
}

/// Reads a symbolic link.
pub fn read_link(path: &[u8], buffer: &mut [u8]) -> usize {
    debug_assert!(path.contains(&0));
    // SAFETY: the path is zero-terminated, the buffer valid for writes of its length.
    unsafe { call(267, [AT_FDCWD, path.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0]) }
        .map_or(0, |length| length.min(buffer.len()))
}

/// Moves a descriptor to a high number, where programs rarely close or expect one.
pub fn move_high(fd: Fd) -> Fd {
    const F_DUPFD_CLOEXEC: usize = 1030;
    for least in [960, 200] {
        // SAFETY: takes numbers.
        if let Ok(high) = unsafe { call(72, [fd.0 as usize, F_DUPFD_CLOEXEC, least, 0, 0, 0]) } {
            close(fd);
            return Fd(high as i32);
        }
    }
    fd
}

/// Device and inode of an open file.
pub fn identity(fd: Fd) -> Result<(u64, u64)> {
    let mut stat = [0u64; 18];
    // SAFETY: struct stat has 144 bytes on x86-64 and begins with st_dev and st_ino.
    unsafe { call(5, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok((stat[0], stat[1]))
}

/// Size of an open file.
pub fn file_bytes(fd: Fd) -> Result<usize> {
    let mut stat = [0u64; 18];
    // SAFETY: as above; st_size is the seventh word.
    unsafe { call(5, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Ok(stat[6] as usize)
}

/// Makes the file's blocks in a range exist.
pub fn fallocate(fd: Fd, offset: u64, length: u64) -> Result<usize> {
    loop {
        // SAFETY: takes numbers.
        match unsafe { call(285, [fd.0 as usize, 0, offset as usize, length as usize, 0, 0]) } {
            Err(EINTR) => {}
            result => return result,
        }
    }
}

/// Writes at a place of a file.
pub fn pwrite(fd: Fd, buffer: &[u8], offset: u64) -> Result<usize> {
    loop {
        // SAFETY: the buffer is valid for reads of its length.
        match unsafe { call(18, [fd.0 as usize, buffer.as_ptr() as usize, buffer.len(), offset as usize, 0, 0]) } {
            Err(EINTR) => {}
            result => return result,
        }
    }
}

/// Whether somebody has a lock on the file.
pub fn is_locked(fd: Fd) -> bool {
    const LOCK_SH_NB: usize = 1 | 4;
    // SAFETY: takes numbers. A lock that is got goes when the file is closed.
    let asked = unsafe { call(73, [fd.0 as usize, LOCK_SH_NB, 0, 0, 0, 0]) };
    asked == Err(EAGAIN)
}

/// RLIMIT_FSIZE: growing a file beyond it brings SIGXFSZ.
pub fn file_size_limit() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    let mut limit = [u64::MAX; 2];
    // SAFETY: the buffer has room for struct rlimit.
    match unsafe { call(302, [0, RLIMIT_FSIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) } {
        Ok(_) => limit[0],
        Err(_) => u64::MAX,
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the buffer has room for struct timespec.
    let _ = unsafe { call(228, [1, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Sleeps, at most so long: a signal ends it. By the system call that every program with threads needs, so that
/// sandboxes allow it.
///
/// # Errors
/// It is forbidden.
pub fn pause(ns: u64) -> core::result::Result<(), u32> {
    const FUTEX_WAIT_PRIVATE: usize = 128;
    static NOBODY_WAKES: u32 = 0;
    let time = [0u64, ns];
    let word = &raw const NOBODY_WAKES;
    // SAFETY: an aligned word that stays 0, and a struct timespec.
    match unsafe { call(202, [word as usize, FUTEX_WAIT_PRIVATE, 0, time.as_ptr() as usize, 0, 0]) } {
        Ok(_) | Err(ETIMEDOUT | EINTR | EAGAIN) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Own process id.
pub fn pid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(39, [0; 6]) }.unwrap_or(0) as u32
}

/// The parent's process id.
pub fn parent_pid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(110, [0; 6]) }.unwrap_or(0) as u32
}

/// Own thread id.
pub fn tid() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(186, [0; 6]) }.unwrap_or(0) as u32
}

/// Whether a thread of this process is gone.
pub fn is_gone(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let asked = unsafe { call(234, [pid as usize, tid as usize, 0, 0, 0, 0]) };
    asked == Err(ESRCH)
}

/// The time stamp counter, not before all earlier instructions are done: an allocation is never stamped before the free
/// that made room for it, nor a free before the allocation of a block that another thread handed over. Without the
/// fence the counter is read while the hand-over still waits for its cache line: a quarter of all hand-overs between
/// two CPUs then went backwards.
#[cfg(not(miri))]
#[inline(always)]
pub fn ticks_after() -> u64 {
    // SAFETY: x86-64 has both instructions.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// The time stamp counter, for what no other thread's events are put in order with.
#[cfg(not(miri))]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(miri)]
pub use crate::kernel::{ticks, ticks as ticks_after};

//! The child between fork and exec: what it needs, prepared before, and what it does with it.
//!
//! The child shares no thread and no lock with thaw, so it may only make system calls. What it
//! reads lies in memory of its own ([`Arena`]), because it gives the rest of thaw's memory
//! back before the clock starts: a program's largest resident set would otherwise never be below thaw's own
//! (the kernel keeps the high-water mark across exec), and exec would spend measured time on freeing it.

use super::{Launch, Orphan, Stream, ours, reap};
use crate::covers::Covers;
use model::{Error, Exit};
use rustix::process::{Pid, PidfdFlags};
use std::cell::Cell;
use std::ffi::{OsString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// How far the child got; the first word of what it reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Stage {
    Ready = 1,
    Session,
    Cgroup,
    Covers,
    Terminal,
    Descriptors,
    User,
    Directory,
    Exec,
}

impl Stage {
    const ALL: [Self; 9] = [
        Self::Ready,
        Self::Session,
        Self::Cgroup,
        Self::Covers,
        Self::Terminal,
        Self::Descriptors,
        Self::User,
        Self::Directory,
        Self::Exec,
    ];
}

/// What a child says over its report pipe: eight bytes, never split by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) stage: Stage,
    errno: i32,
}

impl Report {
    /// Waits for a report; `None`: the pipe was closed, by exec or by death.
    pub(super) fn read(pipe: &OwnedFd) -> Option<Self> {
        let mut bytes = [0u8; 8];
        let len = loop {
            match rustix::io::read(pipe, &mut bytes) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result.ok()?,
            }
        };
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let stage = Stage::ALL.into_iter().find(|stage| *stage as u32 == word(0))?;
        (len == 8).then_some(Self { stage, errno: word(4) as i32 })
    }

    pub(super) fn error(self, program: &Path, cwd: &Path) -> Error {
        let cause = io::Error::from_raw_os_error(self.errno);
        let machine = |what: &str| Error::on(Exit::Machine, what, program);
        match self.stage {
            Stage::Exec => exec_error(self.errno, program),
            Stage::Directory => Error::on(Exit::Usage, "cannot start the program in the directory", cwd).because(cause),
            Stage::Cgroup => machine("cannot put into its control group").because(cause),
            Stage::Covers => machine("cannot put copies over the files of")
                .because(cause)
                .hint("this needs root, and mount namespaces in the kernel"),
            Stage::Terminal => machine("cannot give a terminal to").because(cause),
            Stage::User => machine("cannot change the user for").because(cause).hint("only root can do that"),
            Stage::Ready | Stage::Session | Stage::Descriptors => machine("cannot start").because(cause),
        }
    }
}

fn exec_error(errno: i32, program: &Path) -> Error {
    let cause = io::Error::from_raw_os_error(errno);
    let usage = |what: &str| Error::on(Exit::Usage, what, program);
    match errno {
        libc::ENOEXEC => usage("cannot run what is neither a program nor a script with a first line '#!'")
            .hint(format!("if it is a shell script, run `sh {}` or add the line '#!/bin/sh'", program.display())),
        // The program is there (PATH was searched before), so what is missing is what it asks for.
        libc::ENOENT => usage("cannot run: the interpreter or loader that it names is missing:")
            .because(cause)
            .hint("look at its first line if it is a script, or at `file` and `readelf -l` if it is a program"),
        libc::EACCES => usage("not permitted to run")
            .because(cause)
            .hint("`chmod +x` it, and look whether its file system is mounted noexec"),
        _ => Error::on(Exit::Target, "cannot run", program).because(cause),
    }
}

/// Memory that the child reads: its pages are shared over fork, so they are not among those it gives back.
pub(super) struct Arena {
    base: NonNull<u8>,
    len: usize,
    used: Cell<usize>,
}

impl Arena {
    fn new(len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(rustix::param::page_size());
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, rustix::mm::MapFlags::SHARED) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, used: Cell::new(0) })
    }

    /// Copies a list into the arena.
    fn put<T: Copy>(&self, items: &[T]) -> io::Result<&[T]> {
        let start = self.used.get().next_multiple_of(align_of::<T>());
        let end = start + size_of_val(items);
        if end > self.len {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.used.set(end);
        // SAFETY: the range is inside the mapping, aligned (the base is a page's), and given to nobody else;
        // it lives as long as the arena. `T: Copy` needs no drop.
        unsafe {
            let to = self.base.add(start).cast::<T>();
            std::ptr::copy_nonoverlapping(items.as_ptr(), to.as_ptr(), items.len());
            Ok(std::slice::from_raw_parts(to.as_ptr(), items.len()))
        }
    }

    /// Copies a string and ends it with a NUL.
    fn text(&self, text: &[u8]) -> io::Result<*const c_char> {
        if text.contains(&0) {
            return Err(invalid("an argument, a variable or a path holds a NUL byte"));
        }
        let bytes = self.put(text)?;
        self.put(b"\0")?;
        Ok(bytes.as_ptr().cast())
    }

    /// Copies strings and makes the list that exec takes.
    fn texts(&self, texts: &[Vec<u8>]) -> io::Result<*const *const c_char> {
        let mut pointers = texts.iter().map(|text| self.text(text)).collect::<io::Result<Vec<_>>>()?;
        pointers.push(std::ptr::null());
        Ok(self.put(&pointers)?.as_ptr())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; what was put into it borrows from `self`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.to_owned())
}

/// Everything that the child needs, made before fork; all of it in the arena or plain numbers.
pub(super) struct Prepared<'a> {
    parent: libc::pid_t,
    program: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    cwd: Option<*const c_char>,
    cgroups: &'a [RawFd],
    terminal: Option<RawFd>,
    /// (from, to) with all `from` above all `to`.
    moves: &'a [(RawFd, RawFd)],
    /// The lowest number above all `to`.
    floor: RawFd,
    /// User, group, further groups.
    user: Option<(u32, u32, &'a [u32])>,
    gate: RawFd,
    report: RawFd,
    /// (start, length) of memory that it gives back.
    spare: &'a [(usize, usize)],
    /// Who may attach although it is no ancestor; 0: nobody.
    tracer: u32,
    orphan: Orphan,
    /// Outside of the arena: needed before memory is given back.
    covers: &'a Covers,
}

/// An arena that is large enough for this launch.
pub(super) fn arena(launch: &Launch, program: &Path) -> io::Result<(Arena, Vec<Vec<u8>>)> {
    let environment = environment(&launch.env);
    let words = launch.argv.iter().map(|word| word.len()).chain(environment.iter().map(Vec::len));
    let words: usize = words.map(|len| len + 1 + size_of::<usize>()).sum();
    let cwd = launch.cwd.as_ref().map_or(0, |cwd| cwd.as_os_str().len());
    let lists = 16 * (launch.extra_fds.len() + launch.cgroups.len() + SPARE + 64);
    let groups = launch.user.as_ref().map_or(0, |user| 4 * user.groups.len());
    let arena = Arena::new(words + cwd + program.as_os_str().len() + lists + groups + (4 << 10))?;
    Ok((arena, environment))
}

/// `NAME=value` of each variable: ours, with the overrides.
fn environment(overrides: &[(OsString, Option<OsString>)]) -> Vec<Vec<u8>> {
    let mut all: std::collections::BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in overrides {
        match value {
            Some(value) => all.insert(name.clone(), value.clone()),
            None => all.remove(name),
        };
    }
    all.into_iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
}

/// Copies of descriptors whose numbers are above all those that the program gets.
pub(super) struct Lifted {
    floor: RawFd,
    fds: Vec<OwnedFd>,
}

impl Lifted {
    fn lift(&mut self, fd: BorrowedFd<'_>) -> io::Result<RawFd> {
        self.fds.push(rustix::io::fcntl_dupfd_cloexec(fd, self.floor)?);
        Ok(self.fds[self.fds.len() - 1].as_raw_fd())
    }
}

/// Fills the arena. The descriptors must live until the fork.
pub(super) fn prepare<'a>(
    launch: &'a Launch,
    program: &Path,
    (arena, environment): &'a (Arena, Vec<Vec<u8>>),
    gate: &OwnedFd,
    report: &OwnedFd,
) -> io::Result<(Prepared<'a>, Lifted)> {
    let floor = launch.extra_fds.iter().map(|(_, to)| *to).max().unwrap_or(2).max(2) + 1;
    let mut lifted = Lifted { floor, fds: Vec::new() };
    let (gate, report) = (lifted.lift(gate.as_fd())?, lifted.lift(report.as_fd())?);
    let terminal = launch.terminal.as_ref().map(|fd| lifted.lift(fd.as_fd())).transpose()?;
    let cgroups = launch.cgroups.iter().map(|fd| lifted.lift(fd.as_fd())).collect::<io::Result<Vec<_>>>()?;
    let mut moves = Vec::new();
    for (stream, to) in [(&launch.stdin, 0), (&launch.stdout, 1), (&launch.stderr, 2)] {
        match stream {
            Stream::Inherit => {}
            Stream::Fd(fd) => moves.push((lifted.lift(fd.as_fd())?, to)),
            Stream::Null => {
                let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
                moves.push((lifted.lift(null.as_fd())?, to));
            }
            Stream::Terminal => moves.push((terminal.ok_or_else(|| invalid("there is no terminal"))?, to)),
        }
    }
    for (fd, to) in &launch.extra_fds {
        if *to < 3 {
            return Err(invalid("the numbers 0, 1 and 2 are the standard streams"));
        }
        moves.push((lifted.lift(fd.as_fd())?, *to));
    }
    let argv: Vec<Vec<u8>> = launch.argv.iter().map(|word| word.as_bytes().to_vec()).collect();
    let user = match &launch.user {
        Some(user) => Some((user.uid, user.gid, arena.put(&user.groups)?)),
        None => None,
    };
    let prepared = Prepared {
        parent: std::process::id() as libc::pid_t,
        program: arena.text(program.as_os_str().as_bytes())?,
        argv: arena.texts(&argv)?,
        envp: arena.texts(environment)?,
        cwd: launch.cwd.as_ref().map(|cwd| arena.text(cwd.as_os_str().as_bytes())).transpose()?,
        cgroups: arena.put(&cgroups)?,
        terminal,
        moves: arena.put(&moves)?,
        floor,
        user,
        gate,
        report,
        spare: arena.put(&spare_memory())?,
        orphan: launch.orphan,
        covers: &launch.covers,
        tracer: super::TRACER.load(std::sync::atomic::Ordering::Acquire),
    };
    Ok((prepared, lifted))
}

/// At most so many pieces of memory are given back; the largest matter.
const SPARE: usize = 512;
/// Smaller pieces are not worth a system call.
const WORTH: usize = 128 << 10;
/// Of memory that is needed, so much is kept on both sides: whole pages, and more than the child's stack or a
/// thread's variables take.
const AROUND: usize = 1 << 20;

/// Memory of this process that the child can do without: (start, length).
fn spare_memory() -> Vec<(usize, usize)> {
    let here = 0u8;
    // SAFETY: the address of errno is that of a thread-local variable; it is not read.
    let keep = [(&raw const here).addr(), unsafe { libc::__errno_location() }.addr()];
    let keep = keep.map(|address| address & !(rustix::param::page_size() - 1));
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let mut spare = spare_in(&maps, keep);
    spare.sort_by_key(|(_, len)| std::cmp::Reverse(*len));
    spare.truncate(SPARE);
    spare
}

/// Large private writable memory without a file: heaps, arenas, stacks of other threads. Not what is around one of
/// the addresses `keep` (this thread's stack and its thread-local variables; the kernel joins neighbours, so they may
/// be inside a large piece), and not what directly follows a mapped file: these are a library's variables.
fn spare_in(maps: &[u8], mut keep: [usize; 2]) -> Vec<(usize, usize)> {
    keep.sort();
    let mut spare: Vec<(usize, usize)> = Vec::new();
    let mut file_end = None;
    for region in crate::proc::maps::regions(maps) {
        // Addresses of this process.
        let (start, end) = (region.start as usize, region.end as usize);
        let has_no_file = region.name.is_empty() || region.name == b"[heap]" || region.name.starts_with(b"[anon:");
        let anonymous = region.ino == 0 && has_no_file;
        if !anonymous {
            file_end = Some(end);
            continue;
        }
        if region.permissions != "rw-p" || file_end == Some(start) {
            continue;
        }
        let mut from = start;
        for kept in keep.into_iter().filter(|kept| (start..end).contains(kept)) {
            spare.push((from, kept.saturating_sub(AROUND)));
            from = from.max(kept.saturating_add(AROUND));
        }
        spare.push((from, end));
    }
    spare.retain(|(start, end)| *end >= start.saturating_add(WORTH));
    spare.into_iter().map(|(start, end)| (start, end - start)).collect()
}

/// Forks the child; it is registered as ours and waits at its gate, or reports why not.
pub(super) fn fork(prepared: &Prepared<'_>) -> io::Result<(u32, OwnedFd)> {
    // From fork to its registration, reap_all() must not see the child.
    let mut ours = ours();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the sets are valid for writes. With all signals blocked, none of our handlers can run in the child.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // SAFETY: the child runs only `child`, which makes system calls on prepared memory and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: we are the single thread of a fresh fork, and `prepared` is complete.
        unsafe { child(prepared) }
    }
    let failure = io::Error::last_os_error();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    if pid < 0 {
        return Err(failure);
    }
    let process = Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no process"))?;
    match rustix::process::pidfd_open(process, PidfdFlags::empty()) {
        Ok(pidfd) => {
            ours.insert(pid as u32);
            Ok((pid as u32, pidfd))
        }
        Err(cause) => {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            let _ = reap(pid as u32, 0);
            Err(cause.into())
        }
    }
}

/// What the child does between fork and exec.
///
/// # Safety
/// To be called only right after fork in the child: it must be the only thread. Everything in here is
/// async-signal-safe: system calls on memory that was prepared before; no allocation, no lock, no panic.
unsafe fn child(prepared: &Prepared<'_>) -> ! {
    // SAFETY: by the contract of this function; all pointers are to live, NUL-terminated or sized memory.
    unsafe {
        let die = |stage: Stage| -> ! {
            report(prepared.report, stage, *libc::__errno_location());
            libc::_exit(127)
        };
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != prepared.parent {
            libc::_exit(127);
        }
        if libc::setsid() < 0 {
            die(Stage::Session);
        }
        for &fd in prepared.cgroups {
            if libc::write(fd, c"0".as_ptr().cast(), 1) != 1 {
                die(Stage::Cgroup);
            }
        }
        if !prepared.covers.is_empty()
            && let Err(errno) = prepared.covers.enter()
        {
            *libc::__errno_location() = errno;
            die(Stage::Covers);
        }
        default_signals();
        if let Some(fd) = prepared.terminal
            && libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0
        {
            die(Stage::Terminal);
        }
        for &(from, to) in prepared.moves {
            if libc::dup2(from, to) < 0 {
                die(Stage::Descriptors);
            }
        }
        close_others(prepared);
        give_back(prepared.spare);
        if let Some((uid, gid, groups)) = prepared.user {
            change_user(uid, gid, groups).unwrap_or_else(|()| die(Stage::User));
            // Changing the user cleared it.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        }
        if let Some(cwd) = prepared.cwd
            && libc::chdir(cwd) < 0
        {
            die(Stage::Directory);
        }
        if prepared.tracer != 0 {
            // Matters only where Yama restricts ptrace to ancestors; elsewhere it is refused and does no harm.
            libc::prctl(libc::PR_SET_PTRACER, prepared.tracer as libc::c_ulong, 0, 0, 0);
        }
        report(prepared.report, Stage::Ready, 0);
        let mut byte = 0u8;
        loop {
            match libc::read(prepared.gate, (&raw mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                // thaw thought better of it.
                _ => libc::_exit(127),
            }
        }
        if prepared.orphan == Orphan::GoesOn {
            libc::prctl(libc::PR_SET_PDEATHSIG, 0, 0, 0, 0);
        }
        libc::execve(prepared.program, prepared.argv, prepared.envp);
        die(Stage::Exec)
    }
}

/// Closes what the program was not given: descriptors that thaw itself got from its caller, our ends of the
/// pipes, and those of programs that other threads start at this moment.
///
/// # Safety
/// As [`child`].
unsafe fn close_others(prepared: &Prepared<'_>) {
    let Prepared { floor, gate, report, .. } = *prepared;
    let (low, high) = (gate.min(report), gate.max(report));
    // SAFETY: the child owns its descriptors; nothing in it refers to one of those closed here.
    unsafe {
        for fd in 3..floor {
            if !prepared.moves.iter().any(|(_, to)| *to == fd) {
                libc::close(fd);
            }
        }
        for (first, last) in [(floor, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
            if first <= last {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
    }
}

/// Unmaps memory, and lets the high-water mark of the resident set start anew.
///
/// # Safety
/// As [`child`], and nothing that the child still uses lies in that memory.
unsafe fn give_back(spare: &[(usize, usize)]) {
    // SAFETY: by the contract; the path is a constant. Where /proc is missing, the mark stays as it is.
    unsafe {
        for &(start, len) in spare {
            libc::munmap(start as *mut libc::c_void, len);
        }
        let file = libc::open(c"/proc/self/clear_refs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, c"5".as_ptr().cast(), 1);
            libc::close(file);
        }
    }
}

/// # Safety
/// As [`child`].
unsafe fn report(pipe: RawFd, stage: Stage, errno: i32) {
    let words = [stage as u32, errno as u32];
    // SAFETY: the words live until the call is over.
    unsafe { libc::write(pipe, words.as_ptr().cast(), 8) };
}

/// No signal ignored, none blocked, none handled: as a login shell would start the program.
///
/// # Safety
/// As [`child`].
unsafe fn default_signals() {
    // The kernel's struct sigaction, all zero: SIG_DFL, no flags, nothing blocked. The C library's function
    // refuses the two real-time signals that it keeps for itself, which our caller may have ignored all the same.
    let action = [0u64; 8];
    let none = 0u64;
    // SAFETY: the kernel reads at most 32 bytes of `action` and 8 of `none`; SIGKILL and SIGSTOP just fail.
    unsafe {
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), std::ptr::null_mut::<()>(), 8usize);
        }
        let how = libc::SIG_SETMASK;
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const none, std::ptr::null_mut::<()>(), 8usize);
    }
}

/// # Safety
/// As [`child`].
unsafe fn change_user(uid: u32, gid: u32, groups: &[u32]) -> std::result::Result<(), ()> {
    // SAFETY: raw calls change this one thread and take no lock, unlike the C library's functions of these names.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    };
    if done {
        const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
        // Root's keys stay root's. Where the kernel has no keyrings there are none.
        // SAFETY: takes a number and a null pointer, which asks for a new one without a name.
        unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
    }
    done.then_some(()).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_is_what_neither_this_thread_nor_a_library_needs() {
        let maps = b"\
555000000000-555000010000 r-xp 00000000 fe:00 123 /usr/bin/thaw
555000010000-555000100000 rw-p 00010000 fe:00 123 /usr/bin/thaw
555000100000-555000200000 rw-p 00000000 00:00 0 
555000300000-555009000000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0008000000 rw-p 00000000 00:00 0 
7f0008000000-7f000c000000 ---p 00000000 00:00 0 
7f0010000000-7f0010200000 rw-p 00000000 00:00 0 
7f0020000000-7f0020001000 rw-p 00000000 00:00 0 
7f0030000000-7f0031000000 rw-s 00000000 00:01 99 /dev/zero (deleted)
7f0040000000-7f0041000000 rw-p 00000000 00:00 0 [anon:cache]
7f0050000000-7f0051000000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00800000 rw-p 00000000 00:00 0 [stack]
";
        let keep = [0x7f00_5040_0000, 0x7f00_1000_0000];
        let pieces: Vec<String> =
            spare_in(maps, keep).iter().map(|(start, len)| format!("{start:x} {len:x}")).collect();
        let around = ["7f0010100000 100000", "7f0050000000 300000", "7f0050500000 b00000"];
        assert_eq!(pieces[..3], ["555000300000 8d00000", "7f0000000000 8000000", around[0]]);
        assert_eq!(pieces[3..], ["7f0040000000 1000000", around[1], around[2]]);
        assert_eq!(spare_in(b"what is this\n-\nx-y rw-p 0 0 0\n", keep), []);
    }

    #[test]
    fn an_arena_keeps_what_is_put_into_it() {
        let arena = Arena::new(1).unwrap();
        let (bytes, longs) = (arena.put(b"abc").unwrap(), arena.put(&[1u64, 2]).unwrap());
        let text = arena.text(b"hello").unwrap();
        assert_eq!((bytes, longs), (&b"abc"[..], &[1u64, 2][..]));
        // SAFETY: the arena ended the text with a NUL.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(text) }, c"hello");
        assert!(arena.put(&[0u8; 1 << 20]).is_err() && arena.text(b"a\0b").is_err());
    }
}

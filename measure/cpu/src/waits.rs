//! What a wait is for, and in whose name the kernel works: by the functions of a stack. Pure.
//!
//! The innermost function that [`KERNEL`] knows decides; some of its answers become others by what lies around them: a
//! disk that a page fault or an fsync waits for, what all kinds of sockets wait in. Without the kernel's functions the
//! C library's say less, and [`Wait::is_sure`] says so.

use crate::callers::{Caller, callers, is_library};
use crate::trace::{Frame, StackId, Stacks};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bytes of a disk.
    DiskRead,
    /// Bytes of a file that is mapped, from a disk.
    PageFault,
    /// Bytes on their way to a disk.
    DiskWrite,
    /// Bytes that have to be on a disk.
    Fsync,
    /// A lock of the program's, or a condition.
    Lock,
    /// A lock of the kernel's.
    KernelLock,
    /// A lock on a file.
    FileLock,
    /// The other end of a pipe.
    Pipe,
    /// The other end of a socket of this machine.
    UnixSocket,
    /// The network.
    Network,
    /// One of several things.
    Poll,
    /// A process or a tracer.
    Child,
    /// A new process that has its maker's memory.
    Vfork,
    /// Time.
    Sleep,
    /// A signal.
    Signal,
    /// A terminal.
    Terminal,
    /// A file system that a program serves.
    FileServer,
    /// Memory that is to be freed.
    Memory,
    /// Another program that is to be executed.
    Exec,
    /// The end of the thread or its process.
    Exit,
    /// Requests of an io_uring.
    IoUring,
    /// Its maker, who is not done with it.
    New,
    /// Something else: [`Wait::function`].
    Other,
    /// Not known.
    Unknown,
}

impl Kind {
    /// Whether the kernel's own threads bring its end, in the name of who waits.
    pub fn is_device(self) -> bool {
        matches!(self, Self::DiskRead | Self::PageFault | Self::DiskWrite | Self::Fsync | Self::Memory)
    }

    /// For what: goes on behind "waits".
    pub fn phrase(self) -> &'static str {
        match self {
            Self::DiskRead => "for the disk",
            Self::PageFault => "for the disk: pages of a mapped file",
            Self::DiskWrite => "for the disk to take what is written",
            Self::Fsync => "until bytes are safe on the disk",
            Self::Lock => "for a lock",
            Self::KernelLock => "for a lock of the kernel",
            Self::FileLock => "for a lock on a file",
            Self::Pipe => "for a pipe",
            Self::UnixSocket => "for a local socket",
            Self::Network => "for the network",
            Self::Poll => "for one of several things (poll)",
            Self::Child => "for a process",
            Self::Vfork => "for the process that it made by vfork",
            Self::Sleep => "for time to pass",
            Self::Signal => "for a signal",
            Self::Terminal => "for a terminal",
            Self::FileServer => "for the program that serves a file system",
            Self::Memory => "for free memory",
            Self::Exec => "while it executes another program",
            Self::Exit => "while it ends",
            Self::IoUring => "for requests of an io_uring",
            Self::New => "for its maker to let it run",
            Self::Other => "in the kernel",
            Self::Unknown => "for something that is not known",
        }
    }
}

/// What a wait is for, as a stack tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What for.
    pub kind: Kind,
    /// The system call that waits, without prefix: `read`.
    pub call: Option<String>,
    /// The function that decided, or for [`Kind::Other`] the innermost one that is not of the scheduler.
    pub function: Option<String>,
    /// The program's innermost functions outside of the C library, innermost first.
    pub callers: Vec<Caller>,
    /// Whether the kernel's functions say so; else the C library's.
    pub is_sure: bool,
}

/// What the stacks of a trace wait for, each looked at once.
pub struct Waits<'a> {
    stacks: &'a Stacks,
    known: HashMap<Option<StackId>, Rc<Wait>>,
}

impl<'a> Waits<'a> {
    /// Of these stacks.
    pub fn of(stacks: &'a Stacks) -> Self {
        Self { stacks, known: HashMap::new() }
    }

    /// As [`wait`].
    pub fn wait(&mut self, stack: Option<StackId>) -> Rc<Wait> {
        self.known.entry(stack).or_insert_with(|| Rc::new(wait(self.stacks, stack))).clone()
    }
}

/// A row: a function's name, `*` at its end for any name that begins so; what it waits for; why that is so.
type Row = (&'static str, Kind, &'static str);

/// Functions of the kernel.
const KERNEL: &[Row] = &[
    ("folio_wait_bit*", Kind::DiskRead, "a page of the cache is locked until it is read"),
    ("__folio_lock*", Kind::DiskRead, "a page of the cache is locked until it is read"),
    ("folio_put_wait_locked", Kind::DiskRead, "a page of the cache is locked until it is read"),
    ("filemap_fault", Kind::DiskRead, "a page of a mapped file is read"),
    ("filemap_update_page", Kind::DiskRead, "a page of the cache is not up to date yet"),
    ("filemap_get_pages", Kind::DiskRead, "pages of the cache are read ahead"),
    ("io_schedule*", Kind::DiskRead, "the kernel counts this wait as one for I/O"),
    ("blk_io_schedule", Kind::DiskRead, "direct I/O waits for its end"),
    ("submit_bio_wait", Kind::DiskRead, "a request to a block device waits for its end"),
    ("bio_await", Kind::DiskRead, "a request to a block device waits for its end"),
    ("__wait_on_buffer", Kind::DiskRead, "a block of a file system's own data is read"),
    ("bit_wait_io*", Kind::DiskRead, "a block's bit is held until its I/O ends"),
    ("blk_mq_get_tag", Kind::DiskRead, "the queue of the block device is full"),
    ("rq_qos_wait", Kind::DiskRead, "the block device is throttled"),
    ("ext4_read_bh*", Kind::DiskRead, "ext4 reads its own data"),
    ("ext4_bread*", Kind::DiskRead, "ext4 reads its own data"),
    ("xfs_buf_iowait", Kind::DiskRead, "xfs reads its own data"),
    ("xfs_buf_read_map", Kind::DiskRead, "xfs reads its own data"),
    ("read_extent_buffer_pages*", Kind::DiskRead, "btrfs reads its own data"),
    ("btrfs_read_folio", Kind::DiskRead, "btrfs reads a page"),
    ("btrfs_readahead", Kind::DiskRead, "btrfs reads ahead"),
    ("iomap_dio_rw", Kind::DiskRead, "direct I/O waits for its end"),
    ("__iomap_dio_rw", Kind::DiskRead, "direct I/O waits for its end"),
    ("folio_wait_writeback*", Kind::DiskWrite, "a page is on its way to the disk"),
    ("folio_wait_stable", Kind::DiskWrite, "a page that is being written must not change"),
    ("balance_dirty_pages*", Kind::DiskWrite, "who writes too fast waits for the disk"),
    ("wait_transaction_locked", Kind::DiskWrite, "the journal closes its transaction"),
    ("add_transaction_credits", Kind::DiskWrite, "the journal has no room"),
    ("start_this_handle", Kind::DiskWrite, "the journal has no room"),
    ("jbd2_log_wait_commit", Kind::Fsync, "the journal writes its transaction"),
    ("jbd2_complete_transaction", Kind::Fsync, "the journal writes its transaction"),
    ("vfs_fsync*", Kind::Fsync, "fsync"),
    ("do_fsync", Kind::Fsync, "fsync"),
    ("ksys_sync", Kind::Fsync, "sync"),
    ("sync_filesystem", Kind::Fsync, "syncfs, or a file system that is taken away"),
    ("ksys_sync_file_range", Kind::Fsync, "sync_file_range"),
    ("xfs_log_force*", Kind::Fsync, "xfs writes its journal"),
    ("btrfs_sync_file", Kind::Fsync, "btrfs writes a file"),
    ("btrfs_commit_transaction", Kind::Fsync, "btrfs writes its transaction"),
    ("futex_wait*", Kind::Lock, "a lock or a condition of the program's"),
    ("__futex_wait", Kind::Lock, "a lock or a condition of the program's"),
    ("futex_do_wait", Kind::Lock, "a lock or a condition of the program's"),
    ("futex_lock_pi", Kind::Lock, "a lock of the program's with priorities"),
    (
        "rwsem_down_*",
        Kind::KernelLock,
        "a lock of the kernel that several may read under, such as a process's mappings",
    ),
    ("__mutex_lock*", Kind::KernelLock, "a mutex of the kernel"),
    ("__rt_mutex_*", Kind::KernelLock, "a mutex of the kernel with priorities"),
    ("percpu_rwsem_wait", Kind::KernelLock, "a lock of the kernel that is seldom written under"),
    ("__percpu_down_read", Kind::KernelLock, "a lock of the kernel that is seldom written under"),
    ("__down*", Kind::KernelLock, "a semaphore of the kernel"),
    ("synchronize_rcu*", Kind::KernelLock, "all readers of what is to be freed"),
    ("flock_lock_inode_wait", Kind::FileLock, "flock"),
    ("locks_lock_inode_wait", Kind::FileLock, "flock"),
    ("fcntl_setlk", Kind::FileLock, "a lock by fcntl"),
    ("do_lock_file_wait", Kind::FileLock, "a lock by fcntl"),
    ("pipe_read", Kind::Pipe, "the pipe is empty"),
    ("anon_pipe_read", Kind::Pipe, "the pipe is empty"),
    ("fifo_pipe_read", Kind::Pipe, "the pipe is empty"),
    ("pipe_write", Kind::Pipe, "the pipe is full"),
    ("anon_pipe_write", Kind::Pipe, "the pipe is full"),
    ("fifo_pipe_write", Kind::Pipe, "the pipe is full"),
    ("pipe_wait_readable", Kind::Pipe, "the pipe is empty"),
    ("pipe_wait_writable", Kind::Pipe, "the pipe is full"),
    ("wait_for_partner", Kind::Pipe, "nobody has opened the other end"),
    ("eventfd_read", Kind::Pipe, "nothing was written to the eventfd"),
    ("unix_stream_*", Kind::UnixSocket, "nothing to read, or no room"),
    ("unix_wait_for_peer", Kind::UnixSocket, "the other side has no room"),
    ("unix_dgram_*", Kind::UnixSocket, "nothing to read, or no room"),
    ("__unix_dgram_recvmsg", Kind::UnixSocket, "nothing to read"),
    ("unix_seqpacket_*", Kind::UnixSocket, "nothing to read, or no room"),
    ("unix_accept", Kind::UnixSocket, "nobody connects"),
    ("netlink_recvmsg", Kind::UnixSocket, "the kernel has no answer yet"),
    ("vsock_*", Kind::Network, "the other side of a virtual machine"),
    ("tcp_*", Kind::Network, "the other side of a TCP connection"),
    ("inet_*", Kind::Network, "the other side of a connection"),
    ("inet6_*", Kind::Network, "the other side of a connection"),
    ("udp_recvmsg", Kind::Network, "no packet"),
    ("udpv6_recvmsg", Kind::Network, "no packet"),
    ("__skb_wait_for_more_packets", Kind::Network, "no packet; local sockets have a row of their own further out"),
    ("sk_wait_data", Kind::Network, "nothing to read"),
    ("sk_stream_wait_*", Kind::Network, "no room, or not connected"),
    ("sock_alloc_send_pskb", Kind::Network, "no room; local sockets have a row of their own further out"),
    ("rpc_wait_bit_killable", Kind::Network, "the server of a file system"),
    ("do_sys_poll", Kind::Poll, "poll"),
    ("do_poll*", Kind::Poll, "poll"),
    ("poll_schedule_timeout*", Kind::Poll, "poll or select"),
    ("do_select", Kind::Poll, "select"),
    ("ep_poll", Kind::Poll, "epoll"),
    ("do_epoll_wait", Kind::Poll, "epoll"),
    ("do_wait", Kind::Child, "a child's end"),
    ("kernel_wait4", Kind::Child, "a child's end"),
    ("ptrace_stop", Kind::Child, "its tracer lets it go on"),
    ("ptrace_notify", Kind::Child, "its tracer lets it go on"),
    ("wait_for_vfork_done", Kind::Vfork, "the child has its maker's memory until it executes or ends"),
    ("kernel_clone", Kind::Vfork, "the same, where the compiler put the one into the other"),
    ("do_nanosleep", Kind::Sleep, "sleep"),
    ("hrtimer_nanosleep", Kind::Sleep, "sleep"),
    ("common_nsleep*", Kind::Sleep, "sleep"),
    ("msleep*", Kind::Sleep, "a driver sleeps"),
    ("usleep_range*", Kind::Sleep, "a driver sleeps"),
    ("do_sigtimedwait", Kind::Signal, "sigwait"),
    ("sigsuspend", Kind::Signal, "sigsuspend"),
    ("__do_sys_pause", Kind::Signal, "pause"),
    ("signalfd_dequeue", Kind::Signal, "signalfd"),
    ("signalfd_read_iter", Kind::Signal, "signalfd"),
    ("do_signal_stop", Kind::Signal, "stopped until SIGCONT"),
    ("timerfd_read*", Kind::Sleep, "timerfd"),
    ("n_tty_read", Kind::Terminal, "no line"),
    ("n_tty_write", Kind::Terminal, "the terminal is full"),
    ("request_wait_answer", Kind::FileServer, "FUSE"),
    ("fuse_*", Kind::FileServer, "FUSE"),
    ("p9_client_rpc", Kind::FileServer, "9P"),
    ("shrink_*", Kind::Memory, "pages are taken back"),
    ("try_to_free_pages", Kind::Memory, "pages are taken back"),
    ("try_to_free_mem_cgroup_pages", Kind::Memory, "pages are taken back from a control group"),
    ("mem_cgroup_handle_over_high", Kind::Memory, "the control group has used too much"),
    ("migration_entry_wait*", Kind::Memory, "a page is being moved"),
    ("io_cqring_wait", Kind::IoUring, "no request has ended"),
    ("__do_sys_io_uring_enter", Kind::IoUring, "no request has ended"),
    ("read_events", Kind::IoUring, "no request of an AIO context has ended"),
    ("begin_new_exec", Kind::Exec, "the other threads end"),
    ("do_execveat_common*", Kind::Exec, "exec"),
    ("bprm_execve*", Kind::Exec, "exec"),
    ("do_exit", Kind::Exit, "the thread ends"),
    ("do_group_exit", Kind::Exit, "the process ends"),
];

/// Functions of the C library, by which a wait is known where the kernel's functions are not to be had.
const LIBRARY: &[Row] = &[
    ("poll", Kind::Poll, "the name"),
    ("__poll*", Kind::Poll, "the name"),
    ("ppoll", Kind::Poll, "the name"),
    ("select", Kind::Poll, "the name"),
    ("__select*", Kind::Poll, "the name"),
    ("pselect", Kind::Poll, "the name"),
    ("epoll_wait", Kind::Poll, "the name"),
    ("epoll_pwait*", Kind::Poll, "the name"),
    ("pthread_cond_*", Kind::Lock, "the name"),
    ("__pthread_cond_*", Kind::Lock, "the name"),
    ("pthread_mutex_*", Kind::Lock, "the name"),
    ("___pthread_*", Kind::Lock, "the name"),
    ("__pthread_mutex_*", Kind::Lock, "the name"),
    ("pthread_rwlock_*", Kind::Lock, "the name"),
    ("pthread_join*", Kind::Lock, "a thread's end is a futex"),
    ("__pthread_clockjoin_ex", Kind::Lock, "a thread's end is a futex"),
    ("__lll_lock_wait*", Kind::Lock, "the name"),
    ("__futex_*", Kind::Lock, "the name"),
    ("futex_wait*", Kind::Lock, "the name"),
    ("sem_wait*", Kind::Lock, "the name"),
    ("__new_sem_wait*", Kind::Lock, "the name"),
    ("nanosleep", Kind::Sleep, "the name"),
    ("__nanosleep*", Kind::Sleep, "the name"),
    ("clock_nanosleep*", Kind::Sleep, "the name"),
    ("__clock_nanosleep*", Kind::Sleep, "the name"),
    ("usleep", Kind::Sleep, "the name"),
    ("sleep", Kind::Sleep, "the name"),
    ("wait4", Kind::Child, "the name"),
    ("__wait4*", Kind::Child, "the name"),
    ("waitpid", Kind::Child, "the name"),
    ("waitid", Kind::Child, "the name"),
    ("vfork", Kind::Vfork, "the name"),
    ("__vfork", Kind::Vfork, "the name"),
    ("fsync", Kind::Fsync, "the name"),
    ("fdatasync", Kind::Fsync, "the name"),
    ("flock", Kind::FileLock, "the name"),
    ("sigwait*", Kind::Signal, "the name"),
    ("sigsuspend", Kind::Signal, "the name"),
    ("pause", Kind::Signal, "the name"),
];

/// Functions through which every wait goes, and those of what takes the stacks down.
const SCHEDULER: &[&str] = &[
    "schedule",
    "schedule_*",
    "__schedule*",
    "preempt_schedule*",
    "prepare_task_switch",
    "finish_task_switch",
    "__traceiter_*",
    "trace_*",
    "perf_*",
    "__perf_*",
    "wait_woken",
    "wait_for_completion*",
    "__wait_for_common",
    "wait_for_common*",
    "__wait_on_bit*",
    "out_of_line_wait_on_bit*",
];

/// By which function the kernel is entered other than by a system call, as what.
const ENTRIES: &[(&str, &str)] = &[
    ("asm_exc_page_fault", "page fault"),
    ("exc_page_fault", "page fault"),
    ("asm_sysvec_*", "interrupt"),
    ("asm_common_interrupt", "interrupt"),
    ("common_interrupt", "interrupt"),
    ("asm_exc_*", "exception"),
    ("ret_from_fork*", "new thread"),
];

/// Which device an interrupt is of, by what it runs.
const INTERRUPTS: &[(&str, Interrupt)] = &[
    ("hrtimer_wakeup", Interrupt::Timer),
    ("process_timeout", Interrupt::Timer),
    ("posix_timer_fn", Interrupt::Timer),
    ("it_real_fn", Interrupt::Timer),
    ("timerfd_*", Interrupt::Timer),
    ("net_rx_action", Interrupt::Network),
    ("__netif_receive_skb*", Interrupt::Network),
    ("tcp_v4_rcv", Interrupt::Network),
    ("tcp_v6_rcv", Interrupt::Network),
    ("bio_endio", Interrupt::Disk),
    ("blk_mq_complete*", Interrupt::Disk),
    ("blk_mq_end_request*", Interrupt::Disk),
    ("blk_complete_reqs", Interrupt::Disk),
];

/// What an interrupt that ended a wait came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Time is up.
    Timer,
    /// A packet.
    Network,
    /// A disk.
    Disk,
    /// Not known.
    Unknown,
}

fn is_named(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begins) => name.starts_with(begins),
        None => name == pattern,
    }
}

/// Without what the compiler and the linker put behind a name: `.isra.0`, `@@GLIBC_2.2.5`.
fn plain(frame: &Frame) -> Option<&str> {
    let name = frame.function.as_deref()?;
    name.split(['.', '@']).next().filter(|name| !name.is_empty())
}

fn row(rows: &'static [Row], name: &str) -> Option<&'static Row> {
    rows.iter().find(|(pattern, ..)| is_named(pattern, name))
}

fn system_call(name: &str) -> Option<&str> {
    const BEFORE: [&str; 7] = [
        "__x64_sys_",
        "__se_sys_",
        "__do_sys_",
        "__ia32_sys_",
        "__arm64_sys_",
        "__ia32_compat_sys_",
        "__se_compat_sys_",
    ];
    BEFORE.iter().find_map(|before| name.strip_prefix(before)).filter(|rest| !rest.is_empty())
}

/// In whose name the kernel works: `read`, or `page fault`, `interrupt`; `None`: nothing tells. The innermost entry.
pub fn request(stacks: &Stacks, stack: Option<StackId>) -> Option<String> {
    stacks.walk(stack).take_while(|frame| frame.is_kernel()).filter_map(plain).find_map(|name| {
        let entry = || ENTRIES.iter().find(|(pattern, _)| is_named(pattern, name)).map(|(_, what)| (*what).to_owned());
        system_call(name).map(str::to_owned).or_else(entry)
    })
}

/// Where an interrupt that ended a wait came from, by the stack of the waker.
pub fn interrupt(stacks: &Stacks, stack: Option<StackId>) -> Interrupt {
    let found = stacks.walk(stack).take_while(|frame| frame.is_kernel()).filter_map(plain).find_map(|name| {
        INTERRUPTS.iter().find(|(pattern, _)| is_named(pattern, name)).map(|(_, interrupt)| *interrupt)
    });
    found.unwrap_or(Interrupt::Unknown)
}

/// What a wait is for whose thread was there when it left its CPU.
fn wait(stacks: &Stacks, stack: Option<StackId>) -> Wait {
    let kernel: Vec<&str> = stacks.walk(stack).take_while(|frame| frame.is_kernel()).filter_map(plain).collect();
    let callers = callers(stacks, stack);
    if kernel.is_empty() {
        return by_library(stacks, stack, callers);
    }
    let call = kernel.iter().rev().find_map(|name| system_call(name)).map(str::to_owned);
    let found = kernel.iter().find_map(|name| row(KERNEL, name).map(|row| (row.1, *name)));
    let Some((kind, function)) = found else {
        let inner = kernel.iter().find(|name| !SCHEDULER.iter().any(|pattern| is_named(pattern, name)));
        let function = inner.map(|name| (*name).to_owned());
        return Wait { kind: Kind::Other, call, function, callers, is_sure: true };
    };
    let says_more = |name: &&&str| !name.starts_with("io_schedule") && row(KERNEL, name).is_some();
    let function = kernel.iter().find(says_more).map_or(function, |name| *name).to_owned();
    Wait { kind: outer(kind, &kernel), call, function: Some(function), callers, is_sure: true }
}

/// Whether the program waited for a condition: only its own functions tell that from a lock.
pub fn is_condition(stacks: &Stacks, stack: Option<StackId>) -> bool {
    let names = stacks.walk(stack).filter_map(|frame| frame.function.as_deref());
    let mut program = names.take(16);
    program.any(|name| name.contains("cond_wait") || name.contains("cond_timedwait") || name.contains("cond_clockwait"))
}

/// What an answer becomes by the functions around it.
fn outer(kind: Kind, kernel: &[&str]) -> Kind {
    let has = |wanted: Kind| kernel.iter().any(|name| row(KERNEL, name).is_some_and(|row| row.1 == wanted));
    match kind {
        Kind::DiskRead | Kind::DiskWrite if has(Kind::Fsync) => Kind::Fsync,
        Kind::DiskRead if has(Kind::DiskWrite) => Kind::DiskWrite,
        Kind::DiskRead if has(Kind::Memory) => Kind::Memory,
        Kind::DiskRead if kernel.iter().any(|name| name.ends_with("exc_page_fault")) => Kind::PageFault,
        // What all kinds of sockets wait in.
        Kind::Network if has(Kind::UnixSocket) => Kind::UnixSocket,
        kind => kind,
    }
}

/// So many of the program's innermost functions may be the C library's way into a system call.
const WAY: usize = 4;

fn by_library(stacks: &Stacks, stack: Option<StackId>, callers: Vec<Caller>) -> Wait {
    let names = stacks.walk(stack).take(WAY).take_while(|frame| is_library(frame)).filter_map(plain);
    let found = names.filter_map(|name| row(LIBRARY, name).map(|row| (row.1, name.to_owned()))).next();
    let (kind, function) = found.map_or((Kind::Unknown, None), |(kind, name)| (kind, Some(name)));
    Wait { kind, call: None, function, callers, is_sure: false }
}

#[cfg(test)]
mod tests;

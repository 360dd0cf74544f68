//! Tests: stacks as the kernel has them.

use super::*;
use std::collections::HashSet;

/// Kernel functions innermost first, then `object!function` of the program.
fn stack(frames: &str) -> (Stacks, Option<StackId>) {
    let mut stacks = Stacks::default();
    let frame = |text: &str| {
        let (object, function) = text.split_once('!').unwrap_or((Frame::KERNEL, text));
        let (function, source) = function.split_once('@').unwrap_or((function, ""));
        let source = (!source.is_empty()).then(|| source.to_owned());
        Frame { object: object.to_owned(), function: Some(function.to_owned()), source, ..Frame::default() }
    };
    let numbers: Vec<_> = frames.split_whitespace().map(|text| stacks.frame(frame(text))).collect();
    let stack = stacks.stack(&numbers);
    (stacks, stack)
}

fn of(frames: &str) -> Wait {
    let (stacks, stack) = stack(frames);
    wait(&stacks, stack)
}

fn caller(found: &Wait) -> Option<String> {
    found.callers.first().map(ToString::to_string)
}

fn assert_kind(kind: Kind, call: &str, frames: &str) {
    let found = of(&format!("__schedule schedule {frames} do_syscall_64 entry_SYSCALL_64_after_hwframe"));
    assert_eq!((found.kind, found.call.as_deref(), found.is_sure), (kind, Some(call), true), "{frames}");
}

#[test]
fn kernel_stacks_say_what_for() {
    let disk =
        "io_schedule folio_wait_bit_common filemap_get_pages filemap_read ext4_file_read_iter vfs_read ksys_read";
    assert_kind(Kind::DiskRead, "read", &format!("{disk} __x64_sys_read"));
    assert_kind(Kind::DiskRead, "openat", "io_schedule bit_wait_io __wait_on_bit ext4_read_bh_lock __x64_sys_openat");
    assert_kind(Kind::DiskWrite, "write", "io_schedule folio_wait_bit_common folio_wait_writeback __x64_sys_write");
    let sync = "folio_wait_bit_common folio_wait_writeback __filemap_fdatawait_range ext4_sync_file vfs_fsync_range";
    assert_kind(Kind::Fsync, "fsync", &format!("io_schedule {sync} do_fsync __x64_sys_fsync"));
    assert_kind(Kind::Fsync, "fdatasync", "jbd2_log_wait_commit ext4_sync_file do_fsync __x64_sys_fdatasync");
    assert_kind(Kind::Lock, "futex", "futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex");
    assert_kind(
        Kind::KernelLock,
        "mmap",
        "schedule_preempt_disabled rwsem_down_write_slowpath down_write __x64_sys_mmap",
    );
    assert_kind(Kind::KernelLock, "read", "__mutex_lock.constprop.0 pipe_read vfs_read __x64_sys_read");
    assert_kind(Kind::Pipe, "read", "anon_pipe_read vfs_read ksys_read __x64_sys_read");
    assert_kind(
        Kind::UnixSocket,
        "recvmsg",
        "schedule_timeout unix_stream_read_generic unix_stream_recvmsg __x64_sys_recvmsg",
    );
    let packets = "schedule_timeout __skb_wait_for_more_packets __skb_recv_datagram";
    assert_kind(Kind::UnixSocket, "recvfrom", &format!("{packets} __unix_dgram_recvmsg __x64_sys_recvfrom"));
    assert_kind(Kind::Network, "recvfrom", &format!("{packets} udp_recvmsg inet_recvmsg __x64_sys_recvfrom"));
    assert_kind(Kind::Network, "accept4", "schedule_timeout inet_csk_accept inet_accept do_accept __x64_sys_accept4");
    assert_kind(Kind::Poll, "poll", "schedule_hrtimeout_range_clock do_poll.constprop.0 do_sys_poll __x64_sys_poll");
    assert_kind(Kind::Poll, "epoll_wait", "schedule_hrtimeout_range_clock ep_poll do_epoll_wait __x64_sys_epoll_wait");
    assert_kind(Kind::Child, "wait4", "do_wait kernel_wait4 __do_sys_wait4");
    assert_kind(Kind::Vfork, "vfork", "wait_for_completion_state wait_for_vfork_done kernel_clone __x64_sys_vfork");
    assert_kind(
        Kind::Sleep,
        "clock_nanosleep",
        "do_nanosleep hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep",
    );
    assert_kind(Kind::DiskRead, "execve", "io_schedule folio_wait_bit_common kernel_read bprm_execve __x64_sys_execve");
    assert_kind(Kind::IoUring, "io_uring_enter", "io_cqring_wait __do_sys_io_uring_enter");
}

#[test]
fn a_page_fault_on_a_file_is_told_from_a_read() {
    let found =
        of("schedule io_schedule folio_wait_bit_common filemap_fault __do_fault handle_mm_fault exc_page_fault \
                    asm_exc_page_fault /usr/lib/libbig.so!start@src/big.c:7 /usr/bin/app!main");
    assert_eq!((found.kind, found.call.as_deref()), (Kind::PageFault, None));
    assert_eq!(found.function.as_deref(), Some("folio_wait_bit_common"));
    assert_eq!(caller(&found).as_deref(), Some("start (big.c:7)"));
    // The lock of the process's mappings on the way there.
    let locked =
        of("rwsem_down_read_slowpath down_read lock_mm_and_find_vma exc_page_fault asm_exc_page_fault app!main");
    assert_eq!(locked.kind, Kind::KernelLock);
}

#[test]
fn what_no_row_knows_has_the_name_of_its_function() {
    let found = of("__schedule schedule schedule_timeout strange_device_wait vfs_ioctl __x64_sys_ioctl do_syscall_64");
    assert_eq!((found.kind, found.function.as_deref()), (Kind::Other, Some("strange_device_wait")));
    assert_eq!(found.call.as_deref(), Some("ioctl"));
}

#[test]
fn without_the_kernels_functions_the_librarys_say_less() {
    let found = of("/lib/libc.so.6!clock_nanosleep@@GLIBC_2.17 /lib/libc.so.6!__nanosleep /bin/app!warm_up@app.c:12");
    assert_eq!(
        (found.kind, found.is_sure, caller(&found).as_deref()),
        (Kind::Sleep, false, Some("warm_up (app.c:12)"))
    );
    let found = of("/lib/libc.so.6!__futex_abstimed_wait_common64 /lib/libc.so.6!pthread_cond_wait /bin/app!main");
    assert_eq!((found.kind, found.is_sure), (Kind::Lock, false));
    // The program's own functions may have any name.
    assert_eq!(of("/bin/app!poll /bin/app!main").kind, Kind::Unknown);
    // A read may be of anything.
    assert_eq!(of("/lib/libc.so.6!read /bin/app!main").kind, Kind::Unknown);
    assert_eq!(of("").kind, Kind::Unknown);
    assert!(!of("").is_sure);
}

#[test]
fn kernel_time_has_who_asked_for_it() {
    let asked = |frames: &str| {
        let (stacks, stack) = stack(frames);
        request(&stacks, stack)
    };
    assert_eq!(asked("clear_page do_syscall_64 app!x"), None);
    assert_eq!(asked("link_path_walk path_openat __x64_sys_openat do_syscall_64 app!x").as_deref(), Some("openat"));
    assert_eq!(asked("clear_page handle_mm_fault asm_exc_page_fault app!x").as_deref(), Some("page fault"));
    let within = "copy asm_exc_page_fault rep_movs filemap_read __x64_sys_read do_syscall_64 app!x";
    assert_eq!(asked(within).as_deref(), Some("page fault"));
    assert_eq!(asked("tick asm_sysvec_apic_timer_interrupt app!__x64_sys_read").as_deref(), Some("interrupt"));
}

#[test]
fn interrupts_are_known_by_what_they_run() {
    for (function, expected) in [
        ("hrtimer_wakeup", Interrupt::Timer),
        ("net_rx_action", Interrupt::Network),
        ("blk_mq_complete_request", Interrupt::Disk),
        ("strange_irq", Interrupt::Unknown),
    ] {
        let (stacks, stack) = stack(&format!("try_to_wake_up {function} common_interrupt"));
        assert_eq!(interrupt(&stacks, stack), expected, "{function}");
    }
}

#[test]
fn each_function_has_one_row_that_can_be_reached() {
    for rows in [KERNEL, LIBRARY] {
        let mut seen = HashSet::new();
        for (index, (pattern, _, why)) in rows.iter().enumerate() {
            assert!(seen.insert(*pattern), "{pattern} has two rows");
            assert!(!why.is_empty());
            let name = pattern.trim_end_matches('*');
            let first = rows.iter().position(|(before, ..)| is_named(before, name));
            assert_eq!(first, Some(index), "{pattern} is hidden by a row before it");
        }
    }
}

/// What `/proc/PID/stack` of Linux 6.18 has for programs that wait, without what is the same for all.
const OF_LINUX_6_18: &[(Kind, &str, &str)] = &[
    (Kind::Sleep, "clock_nanosleep", "hrtimer_nanosleep common_nsleep_timens __x64_sys_clock_nanosleep"),
    (Kind::Pipe, "", "anon_pipe_read vfs_read ksys_read"),
    (Kind::Pipe, "", "anon_pipe_write vfs_write ksys_write"),
    (Kind::Pipe, "openat", "wait_for_partner fifo_open do_dentry_open vfs_open path_openat __x64_sys_openat"),
    (Kind::Pipe, "", "do_wait_intr_irq eventfd_read vfs_read ksys_read"),
    (Kind::Poll, "poll", "poll_schedule_timeout.constprop.0 do_sys_poll __x64_sys_poll"),
    (Kind::Poll, "epoll_wait", "do_epoll_wait __x64_sys_epoll_wait"),
    (Kind::Poll, "pselect6", "poll_schedule_timeout.constprop.0 do_select core_sys_select __x64_sys_pselect6"),
    (Kind::Lock, "futex", "futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex"),
    (Kind::Child, "", "do_wait kernel_wait4"),
    (Kind::UnixSocket, "recvfrom", "unix_stream_read_generic unix_stream_recvmsg sock_recvmsg __x64_sys_recvfrom"),
    (Kind::UnixSocket, "recvfrom", "__skb_wait_for_more_packets __unix_dgram_recvmsg sock_recvmsg __x64_sys_recvfrom"),
    (Kind::UnixSocket, "accept4", "__skb_wait_for_more_packets __skb_recv_datagram unix_accept __x64_sys_accept4"),
    (Kind::UnixSocket, "sendto", "sock_alloc_send_pskb unix_stream_sendmsg __sys_sendto __x64_sys_sendto"),
    (Kind::Network, "accept4", "inet_csk_accept inet_accept do_accept __sys_accept4 __x64_sys_accept4"),
    (Kind::Network, "recvfrom", "__skb_wait_for_more_packets __skb_recv_udp udp_recvmsg __x64_sys_recvfrom"),
    (Kind::Network, "recvfrom", "wait_woken sk_wait_data tcp_recvmsg_locked tcp_recvmsg __x64_sys_recvfrom"),
    (Kind::Network, "sendto", "wait_woken sk_stream_wait_memory tcp_sendmsg_locked tcp_sendmsg __x64_sys_sendto"),
    (Kind::FileLock, "flock", "locks_lock_inode_wait __do_sys_flock"),
    (Kind::Signal, "rt_sigtimedwait", "do_sigtimedwait.isra.0 __x64_sys_rt_sigtimedwait"),
    (Kind::Signal, "pause", "__do_sys_pause"),
    (Kind::Terminal, "", "wait_woken n_tty_read tty_read vfs_read ksys_read"),
    (Kind::Sleep, "", "do_wait_intr_irq timerfd_read_iter vfs_read ksys_read"),
    (Kind::Other, "", "wait_woken inotify_read vfs_read ksys_read"),
];

#[test]
fn the_stacks_of_a_real_kernel_are_known() {
    for (kind, call, frames) in OF_LINUX_6_18 {
        let found = of(&format!("__schedule schedule {frames} do_syscall_64 entry_SYSCALL_64_after_hwframe app!main"));
        assert_eq!((found.kind, found.call.clone().unwrap_or_default()), (*kind, (*call).to_owned()), "{frames}");
        assert_eq!(caller(&found).as_deref(), Some("main"));
    }
    let other = of("__schedule schedule wait_woken inotify_read vfs_read ksys_read do_syscall_64");
    assert_eq!(other.function.as_deref(), Some("inotify_read"));
}

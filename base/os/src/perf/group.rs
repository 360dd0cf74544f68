//! A program for the kernel (BPF) that lets an event pass only while a process of a control group runs.
//!
//! Events of a CPU cost a program nothing when its threads begin, end, or leave the CPU; those that its threads inherit
//! do. With this filter the former tell as little of strangers as the latter.

use super::sys;
use model::{Error, Exit, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const MAP_TYPE_CGROUP_ARRAY: u32 = 8;
const PROG_TYPE_PERF_EVENT: u32 = 7;
/// The helper that says whether the running task is in a group of such a map or below it.
const CURRENT_TASK_UNDER_CGROUP: i32 = 37;

/// The loaded program.
#[derive(Debug)]
pub struct GroupFilter(OwnedFd);

#[repr(C)]
struct CreateMap {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct UpdateMap {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

impl GroupFilter {
    /// Loads it for a control group of version 2, by its directory.
    ///
    /// # Errors
    /// No such group, no rights, or a kernel without BPF.
    pub fn load(group: &Path) -> Result<Self> {
        let refused = |cause: io::Error| {
            Error::on(Exit::Machine, "cannot load a filter (BPF) for the control group", group).because(cause)
        };
        let directory = std::fs::File::open(group).map_err(refused)?;
        load(&directory.into()).map(Self).map_err(refused)
    }

    /// Lets an event that is no tracepoint pass for the group alone.
    pub(super) fn set(&self, event: &OwnedFd) -> io::Result<()> {
        sys::set_program(event, &self.0)
    }
}

fn load(group: &OwnedFd) -> io::Result<OwnedFd> {
    let word = size_of::<u32>() as u32;
    let map = CreateMap { map_type: MAP_TYPE_CGROUP_ARRAY, key_size: word, value_size: word, max_entries: 1 };
    // SAFETY: the structure holds no pointers.
    let map = unsafe { owned(MAP_CREATE, &map) }?;
    let (key, value) = (0u32, group.as_raw_fd() as u32);
    let (key_at, value_at) = ((&raw const key) as u64, (&raw const value) as u64);
    let update = UpdateMap { map: map.as_raw_fd() as u32, _padding: 0, key: key_at, value: value_at, flags: 0 };
    // SAFETY: both pointers are to words that live during the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &update) }?;
    let program = [
        // r1 = the map, in two words
        instruction(0x18, 1 | 1 << 4, 0, map.as_raw_fd()),
        0,
        // r2 = 0, its only entry
        instruction(0xb7, 2, 0, 0),
        instruction(0x85, 0, 0, CURRENT_TASK_UNDER_CGROUP),
        // r0 is 1: yes, 0: no, less: an error, which lets nothing pass
        instruction(0x15, 0, 1, 1),
        instruction(0xb7, 0, 0, 0),
        instruction(0x95, 0, 0, 0),
    ];
    let license = c"MIT";
    let program = LoadProgram {
        kind: PROG_TYPE_PERF_EVENT,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the pointers are to the instructions, as many as it says, and to a string that ends with a zero byte.
    unsafe { owned(PROG_LOAD, &program) }
}

/// `struct bpf_insn` of a machine that is little-endian, as all are that have [`sys::REGS_USER`].
const fn instruction(code: u8, registers: u8, offset: i16, number: i32) -> u64 {
    code as u64 | (registers as u64) << 8 | (offset as u16 as u64) << 16 | (number as u32 as u64) << 32
}

/// `bpf(2)`.
///
/// # Safety
/// Pointers in the argument must be to what the command reads, and live during the call.
unsafe fn bpf<T>(command: libc::c_int, argument: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads `size` bytes of the argument; what it points to is the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(argument), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

/// A command that makes a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn owned<T>(command: libc::c_int, argument: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the descriptor is a fresh one that nobody else owns, closed on exec by the kernel.
    unsafe { bpf(command, argument).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

//! `perf_event_open(2)`: the structure, the numbers and the system call, after `linux/perf_event.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(super) const TYPE_HARDWARE: u32 = 0;
pub(super) const TYPE_SOFTWARE: u32 = 1;
pub(super) const TYPE_TRACEPOINT: u32 = 2;

pub(super) const HW_CPU_CYCLES: u64 = 0;
pub(super) const HW_INSTRUCTIONS: u64 = 1;
pub(super) const SW_TASK_CLOCK: u64 = 1;
pub(super) const SW_PAGE_FAULTS: u64 = 2;
pub(super) const SW_CONTEXT_SWITCHES: u64 = 3;
pub(super) const SW_DUMMY: u64 = 9;

pub(super) const SAMPLE_TID: u64 = 1 << 1;
pub(super) const SAMPLE_TIME: u64 = 1 << 2;
pub(super) const SAMPLE_CALLCHAIN: u64 = 1 << 5;
pub(super) const SAMPLE_CPU: u64 = 1 << 7;
pub(super) const SAMPLE_STREAM_ID: u64 = 1 << 9;
pub(super) const SAMPLE_RAW: u64 = 1 << 10;
pub(super) const SAMPLE_REGS_USER: u64 = 1 << 12;
pub(super) const SAMPLE_STACK_USER: u64 = 1 << 13;
pub(super) const SAMPLE_IDENTIFIER: u64 = 1 << 16;

pub(super) const FORMAT_TIME_ENABLED: u64 = 1 << 0;
pub(super) const FORMAT_TIME_RUNNING: u64 = 1 << 1;
/// Asks for the number of lost records; Linux 6.0 and later know it.
pub(super) const FORMAT_LOST: u64 = 1 << 4;

pub(super) const DISABLED: u64 = 1 << 0;
pub(super) const INHERIT: u64 = 1 << 1;
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HV: u64 = 1 << 6;
pub(super) const MMAP: u64 = 1 << 8;
pub(super) const COMM: u64 = 1 << 9;
pub(super) const ENABLE_ON_EXEC: u64 = 1 << 12;
pub(super) const TASK: u64 = 1 << 13;
pub(super) const WATERMARK: u64 = 1 << 14;
pub(super) const MMAP_DATA: u64 = 1 << 17;
pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
pub(super) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
pub(super) const MMAP2: u64 = 1 << 23;
pub(super) const COMM_EXEC: u64 = 1 << 24;
pub(super) const USE_CLOCKID: u64 = 1 << 25;

/// `struct perf_event_attr` up to the fields of Linux 4.8 (PERF_ATTR_SIZE_VER5), which all later kernels accept.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attr {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_watermark: u32,
    pub(super) bp_type: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_regs_user: u64,
    pub(super) sample_stack_user: u32,
    pub(super) clockid: i32,
    pub(super) sample_regs_intr: u64,
    pub(super) aux_watermark: u32,
    pub(super) sample_max_stack: u16,
    pub(super) reserved: u16,
}

const ATTR_SIZE: u32 = 112;
const _: () = assert!(size_of::<Attr>() == ATTR_SIZE as usize);

/// Registers of the program in a sample, in the order of their bits: one that functions keep for their callers, frame
/// pointer, stack pointer, where it is (`asm/perf_regs.h`).
#[cfg(target_arch = "x86_64")]
pub(super) const REGS_USER: u64 = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8;
#[cfg(target_arch = "aarch64")]
pub(super) const REGS_USER: u64 = 1 << 19 | 1 << 29 | 1 << 31 | 1 << 32;

const FLAG_FD_CLOEXEC: u64 = 1 << 3;

/// Opens an event of a process (-1: everybody) on a CPU (-1: any).
pub(super) fn open(attr: &Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let attr = Attr { size: ATTR_SIZE, ..*attr };
    // SAFETY: the kernel reads `size` bytes of the structure, which is that long, during the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, -1, FLAG_FD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;
const IOC_SET_OUTPUT: u64 = 0x2405;
/// `_IOW('$', 6, char *)`
const IOC_SET_FILTER: u64 = 0x4008_2406;
/// `_IOW('$', 8, u32)`
const IOC_SET_BPF: u64 = 0x4004_2408;
/// `_IOR('$', 7, u64 *)`
const IOC_ID: u64 = 0x8008_2407;

fn control(event: &OwnedFd, request: u64, argument: u64) -> io::Result<()> {
    // SAFETY: the requests below take no pointers but the filter's and that of the number, which live during the call.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts an event and those that children inherited.
pub(super) fn enable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_ENABLE, 0)
}

/// Stops an event and those that children inherited.
pub(super) fn disable(event: &OwnedFd) -> io::Result<()> {
    control(event, IOC_DISABLE, 0)
}

/// Sends an event's records to the ring of another one.
pub(super) fn set_output(event: &OwnedFd, ring: &OwnedFd) -> io::Result<()> {
    control(event, IOC_SET_OUTPUT, ring.as_raw_fd() as u64)
}

/// Sets a filter on a tracepoint.
pub(super) fn set_filter(event: &OwnedFd, filter: &str) -> io::Result<()> {
    let filter = std::ffi::CString::new(filter)?;
    control(event, IOC_SET_FILTER, filter.as_ptr() as u64)
}

/// Sets a program of the kernel's (BPF) as a filter on an event that is no tracepoint.
pub(super) fn set_program(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    control(event, IOC_SET_BPF, program.as_raw_fd() as u64)
}

/// The identifier that an event's samples bear, also those of the events that children inherited.
pub(super) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    control(event, IOC_ID, (&raw mut id) as u64)?;
    Ok(id)
}

/// Reads the numbers that an event's `read_format` asks for; returns how many came.
pub(super) fn read_numbers(event: &OwnedFd, numbers: &mut [u64]) -> io::Result<usize> {
    let mut bytes = vec![0u8; numbers.len() * 8];
    let len = rustix::io::read(event, &mut bytes)?;
    let mut count = 0;
    for (number, bytes) in numbers.iter_mut().zip(bytes[..len].chunks_exact(8)) {
        *number = u64::from_ne_bytes(bytes.try_into().map_err(|_| io::ErrorKind::InvalidData)?);
        count += 1;
    }
    Ok(count)
}

/// CPUs that are online.
pub(super) fn online_cpus() -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_cpus(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "cannot read the list of CPUs"))
}

/// Numbers of CPUs as sysfs lists them: `0-3,8,10-11`.
fn parse_cpus(text: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_cpus("0\n"), Some(vec![0]));
        assert_eq!(parse_cpus(""), None);
        assert!(!online_cpus().unwrap().is_empty());
    }
}

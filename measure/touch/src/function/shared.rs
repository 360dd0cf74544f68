//! Memory that thaw shares with the programs that it watches: where it can lie in them, and the clock that they note
//! times by.

use object::Endianness;
use object::elf::{DF_TEXTREL, DT_FLAGS, DT_TEXTREL, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use os::process::Mapping;
use os::spawn::monotonic_ns;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const PAGE: u64 = model::PAGE;
/// A text with all that belongs to it lies within so much: a jump reaches 2 GiB.
pub const MOST: u64 = 800 << 20;
/// The writable view is looked for from so far away from the text on: what a program maps next lies next to its text.
pub const AWAY: u64 = 1 << 30;
const STEP: u64 = 32 << 20;
pub const REACH: u64 = (1 << 31) - MOST;

/// A file in memory, so long, and as `/proc/PID/maps` names it.
///
/// # Errors
/// No memory.
pub fn memory_file(name: &str, len: u64) -> io::Result<(OwnedFd, (u64, u64))> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        // Kernels before 6.3 have no such flag: there each such file may be run.
        .or_else(|_| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC))?;
    rustix::fs::ftruncate(&fd, len)?;
    let stat = rustix::fs::fstat(&fd)?;
    Ok((fd, (stat.st_dev, stat.st_ino)))
}

/// From a text to where its writable view can be: rather below, since what is above grows up.
pub fn away(start: u64, len: u64, maps: &[Mapping]) -> Option<i64> {
    let steps = (0..).map(|step| AWAY + step * STEP).take_while(|way| way + STEP < REACH);
    let below = steps.clone().filter_map(|way| start.checked_sub(way + len).map(|at| at / PAGE * PAGE));
    let above = steps.filter_map(|way| start.checked_add(way));
    // The lowest pages are nobody's.
    let place = below.filter(|at| *at >= 1 << 24).chain(above).find(|at| is_free(*at, len, maps))?;
    Some(place.cast_signed() - start.cast_signed())
}

/// Whether nothing is mapped there.
pub fn is_free(address: u64, len: u64, maps: &[Mapping]) -> bool {
    let end = address.saturating_add(len);
    end < 1 << 47 && maps.iter().all(|mapping| mapping.end <= address || end <= mapping.start)
}

/// Whether the time stamp counter goes on at one speed on all CPUs.
pub fn clock_is_constant() -> bool {
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    clock.is_ok_and(|clock| matches!(clock.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page"))
}

/// The time stamp counter and CLOCK_MONOTONIC at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock(u64, u64);

impl Clock {
    /// Now.
    pub fn now() -> Self {
        // SAFETY: it reads a counter.
        Self(unsafe { std::arch::x86_64::_rdtsc() }, monotonic_ns())
    }

    /// From the counter to CLOCK_MONOTONIC, for times between that moment and now. Programs can write into their logs:
    /// no time is outside of the run.
    pub fn to_ns(self) -> impl Fn(u64) -> u64 {
        let (Self(from, from_ns), Self(to, to_ns)) = (self, Self::now());
        let ticks = to.saturating_sub(from).max(1);
        move |at: u64| {
            let ticks_since = u128::from(at.clamp(from, to.max(from)) - from);
            from_ns + (ticks_since * u128::from(to_ns - from_ns) / u128::from(ticks)) as u64
        }
    }
}

/// Whether a library's loader writes into its text: each process has another one then.
pub fn writes_text(bytes: &[u8]) -> bool {
    let entries = || {
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let headers = header.program_headers(endian, bytes).ok()?;
        let entries =
            headers.iter().find_map(|header| header.dynamic(endian, bytes).ok().flatten()).unwrap_or_default();
        Some(entries.iter().any(|entry| {
            let tag = entry.tag(endian);
            tag == DT_TEXTREL || (tag == DT_FLAGS && entry.val(endian) & DF_TEXTREL.0 != 0)
        }))
    };
    entries().unwrap_or(true)
}

/// Memory that others write too.
#[derive(Debug)]
pub struct Shared {
    start: *mut u8,
    len: usize,
}

impl Shared {
    /// So much of a file.
    ///
    /// # Errors
    /// No memory.
    pub fn of(fd: impl AsFd, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of which nobody else knows.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0)? };
        Ok(Self { start: start.cast(), len })
    }

    /// Writes a byte that programs may run meanwhile.
    pub fn set(&self, at: usize, byte: u8) {
        assert!(at < self.len, "{at} of {}", self.len);
        // SAFETY: it is inside; programs that run there meanwhile see the one byte or the other.
        unsafe { self.start.add(at).write_volatile(byte) };
    }

    /// Writes a word that programs read meanwhile.
    pub fn set_u64(&self, at: usize, value: u64) {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "{at} of {}", self.len);
        // SAFETY: it is inside and aligned; programs see the one word or the other.
        unsafe { self.start.add(at).cast::<u64>().write_volatile(value) };
    }

    /// A structure of integers.
    pub fn read<T: Copy>(&self, at: usize) -> T {
        assert!(at + size_of::<T>() <= self.len, "{at} of {}", self.len);
        // SAFETY: it is inside, and any bytes are a value of the structures that are read here; of one that is being
        // written the time, which is written last, is 0.
        unsafe { self.start.add(at).cast::<T>().read_volatile() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
    }
}

/// Writes a structure of integers.
pub fn write<T: Copy>(bytes: &mut [u8], at: usize, value: T) {
    let place = &mut bytes[at..at + size_of::<T>()];
    // SAFETY: the place has its size, and nothing is aligned.
    unsafe { place.as_mut_ptr().cast::<T>().write_unaligned(value) };
}

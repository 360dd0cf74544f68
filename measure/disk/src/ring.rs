//! Reading a device through io_uring and O_DIRECT, so that neither the page cache nor a system call per read is in the
//! way.

use crate::model::{Ask, Direction};
use crate::simulate::cut;
use io_uring::{IoUring, opcode, types};
use model::{Bytes, DiskOffset, Error, Exit, Nanos, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// O_DIRECT wants offsets, lengths and memory aligned to the device's block; no device has a larger one.
const ALIGN: u64 = 4096;
/// Room for one read.
const ROOM: usize = 1 << 20;
/// Each read in flight has a room of its own.
const DEEPEST: u32 = 128;

/// A read that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) ask: Ask,
    pub(crate) issue: Nanos,
    pub(crate) done: Nanos,
}

/// A device or file open for direct reading.
pub(crate) struct Device {
    path: PathBuf,
    file: File,
    pub(crate) size: Bytes,
}

impl Device {
    /// Opens it for reading only.
    ///
    /// # Errors
    /// It is not there, may not be read, or its file system knows no O_DIRECT.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC).open(path);
        let file = file.map_err(|cause| {
            let hint = match cause.kind() {
                // Root is refused only where a container or control group forbids the device.
                io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
                    "this container may not read the device: run thaw outside of it, or on a machine of its own"
                }
                io::ErrorKind::PermissionDenied => {
                    "reading a block device needs root, or membership of the group that owns it (often 'disk')"
                }
                io::ErrorKind::InvalidInput => "its file system cannot read past the page cache (O_DIRECT)",
                _ => "name a block device of this machine, such as /dev/sda",
            };
            Error::on(Exit::Machine, "cannot open for direct reading", path).because(cause).hint(hint)
        })?;
        // Block devices have no length of their own; seeking to the end tells it for files as well.
        let size = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|cause| {
            Error::on(Exit::Machine, "cannot tell the size of", path).because(io::Error::from(cause))
        })?;
        Ok(Self { path: path.to_path_buf(), file, size: Bytes(size) })
    }

    /// The same range, aligned for O_DIRECT; the last block of a file reaches over its end. `None`: it lies behind the
    /// end.
    pub(crate) fn aligned(&self, ask: &Ask) -> Option<Ask> {
        let from = ask.disk.0 / ALIGN * ALIGN;
        let to = ask.end().min(self.size.0).div_ceil(ALIGN).saturating_mul(ALIGN);
        let len = to.checked_sub(from).filter(|len| *len > 0)?;
        Some(Ask { disk: DiskOffset(from), len: Bytes(len), direction: Direction::Read })
    }

    /// [`read`] of this device alone.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read(&self, asks: &[Ask], depth: u32) -> Result<Vec<Timed>> {
        let asks: Vec<(usize, Ask)> = asks.iter().map(|ask| (0, *ask)).collect();
        read(std::slice::from_ref(self), &asks, depth)
    }

    fn submit(&self, ring: &mut IoUring, memory: &Memory, slot: usize, ask: &Ask) -> Result<()> {
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::Read::new(fd, memory.room(slot), ask.len.0 as u32)
            .offset(ask.disk.0)
            .build()
            .user_data(slot as u64);
        // SAFETY: the buffer is this slot's own room of ROOM bytes (asks are cut to that), it and the file live until
        // the read is reaped: `read` frees the memory only when nothing is in flight any more.
        unsafe { ring.submission().push(&entry) }.map_err(|_| Error::bug("more reads than the ring has entries"))
    }

    fn check(&self, ask: &Ask, result: i32) -> Result<()> {
        match u64::try_from(result) {
            Ok(read) if read == ask.len.0.min(self.size.0.saturating_sub(ask.disk.0)) => Ok(()),
            Ok(_) => Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
            Err(_) => Err(self.failed(io::Error::from_raw_os_error(-result))),
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::on(Exit::Machine, "cannot read", &self.path).because(cause)
    }
}

/// Reads ranges of these devices (by index) in this order with at most `depth` (and 128) at the same time. Ranges
/// longer than 1 MiB are cut. Times are since the first read was issued; the order is that of the issue.
///
/// # Errors
/// io_uring is not to be had, or a read failed.
pub(crate) fn read(devices: &[Device], asks: &[(usize, Ask)], depth: u32) -> Result<Vec<Timed>> {
    let mut pieces = Vec::with_capacity(asks.len());
    for (device, ask) in asks {
        let aligned = devices.get(*device).and_then(|device| device.aligned(ask));
        pieces.extend(cut(aligned.as_slice()).into_iter().map(|piece| (*device, piece)));
    }
    let depth = depth.clamp(1, DEEPEST) as usize;
    let mut ring = IoUring::new(depth.next_power_of_two() as u32).map_err(|cause| {
        Error::new(Exit::Machine, "cannot set up io_uring", "")
            .because(cause)
            .hint("this kernel or container forbids it: see /proc/sys/kernel/io_uring_disabled")
    })?;
    let memory = Memory::new(depth);
    let mut in_flight = 0;
    let result = run(devices, &pieces, depth, &mut ring, &memory, &mut in_flight);
    if result.is_err() && !drained(&mut ring, in_flight) {
        // The kernel may still write into it.
        std::mem::forget(memory);
    }
    result
}

fn run(
    devices: &[Device],
    asks: &[(usize, Ask)],
    depth: usize,
    ring: &mut IoUring,
    memory: &Memory,
    in_flight: &mut usize,
) -> Result<Vec<Timed>> {
    let mut timed: Vec<Timed> = Vec::with_capacity(asks.len());
    let mut idle: Vec<usize> = (0..depth).collect();
    let mut slots = vec![0usize; depth];
    let began = Instant::now();
    let now = || Nanos(began.elapsed().as_nanos() as u64);
    while timed.len() < asks.len() || *in_flight > 0 {
        while let Some(slot) = (timed.len() < asks.len()).then(|| idle.pop()).flatten() {
            let (device, ask) = asks[timed.len()];
            slots[slot] = timed.len();
            devices[device].submit(ring, memory, slot, &ask)?;
            timed.push(Timed { ask, issue: now(), done: Nanos(0) });
            *in_flight += 1;
        }
        wait(ring)?;
        let finished = now();
        for done in ring.completion() {
            let slot = done.user_data() as usize;
            *in_flight -= 1;
            idle.push(slot);
            let read = &mut timed[slots[slot]];
            read.done = finished;
            devices[asks[slots[slot]].0].check(&read.ask, done.result())?;
        }
    }
    Ok(timed)
}

fn wait(ring: &IoUring) -> Result<()> {
    loop {
        match ring.submit_and_wait(1) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(Error::new(Exit::Machine, "cannot wait for reads", "").because(cause)),
            Ok(_) => return Ok(()),
        }
    }
}

/// Waits until the kernel writes nowhere any more; `false`: that cannot be known.
fn drained(ring: &mut IoUring, mut in_flight: usize) -> bool {
    loop {
        in_flight -= ring.completion().count().min(in_flight);
        if in_flight == 0 {
            return true;
        }
        if ring.submit_and_wait(1).is_err_and(|cause| cause.kind() != io::ErrorKind::Interrupted) {
            return false;
        }
    }
}

/// Aligned memory, one room for each read in flight.
struct Memory {
    start: *mut u8,
    layout: Layout,
}

impl Memory {
    fn new(rooms: usize) -> Self {
        let layout = Layout::from_size_align(ROOM * rooms, ALIGN as usize).expect("a few MiB have a layout");
        // SAFETY: the layout is not empty: there is at least one room.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Self { start, layout }
    }

    fn room(&self, slot: usize) -> *mut u8 {
        debug_assert!((slot + 1) * ROOM <= self.layout.size());
        self.start.wrapping_add(slot * ROOM)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`; nothing reads into it any more, see `Device::read`.
        unsafe { dealloc(self.start, self.layout) }
    }
}

//! The process that plays the disk: it answers each request when the model says that the disk would have.
//!
//! It is a process and not a thread of thaw, because a process that is being killed closes its files one after the
//! other: had thaw both the file system and the conversation with the kernel about the disk under it, closing the first
//! would wait for an answer that nobody gives, for ever. The server holds neither mount nor loop device. When thaw is
//! gone, the kernel unmounts what thaw alone had mounted; the server answers the last requests at once, and ends when
//! the kernel says that nobody has the disk any more.
//!
//! It is forked without exec, possibly from a process with threads: after the fork it allocates nothing, takes no lock,
//! and touches nothing but its own descriptors.

use super::protocol::{Answer, BUFFER, Call, IN_FLIGHT, LARGEST, MAJOR, OUT_HEADER, head, parse};
use crate::model::{Ask, Direction, Drive, How, Service};
use model::{Bytes, DiskOffset, Nanos};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// How the disk behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    /// As fast as it can, and nothing is written down: for setting up.
    Free = b'f',
    /// As fast as it can, written down.
    Logged = b'l',
    /// As the model says, written down.
    Timed = b't',
}

/// The answer to an order that could not be carried out.
const FAILED: u8 = b'!';

/// What thaw can ask for. One byte, answered by the same byte when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Behave like this from now on, with a disk at rest.
    Mode(Mode),
    /// From now on, remember what is overwritten.
    Keep,
    /// Put everything back as it was at [`Order::Keep`], and go on remembering.
    Restore,
}

impl Order {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Mode(mode) => mode as u8,
            Self::Keep => b'k',
            Self::Restore => b'r',
        }
    }

    fn of(byte: u8) -> Option<Self> {
        let modes = [Mode::Free, Mode::Logged, Mode::Timed].map(Self::Mode);
        modes.into_iter().chain([Self::Keep, Self::Restore]).find(|order| order.byte() == byte)
    }
}

/// What the server is given.
pub(super) struct Parts<'a> {
    pub(super) fuse: BorrowedFd<'a>,
    pub(super) image: BorrowedFd<'a>,
    /// Empty; takes what is overwritten in the image.
    pub(super) undo: BorrowedFd<'a>,
    pub(super) log: BorrowedFd<'a>,
    pub(super) control: BorrowedFd<'a>,
    pub(super) null: BorrowedFd<'a>,
    pub(super) size: u64,
    pub(super) drive: Drive,
}

/// A request in the log, as numbers; [`super::Record`] is the form for people.
pub(super) const FIELDS: usize = 12;
pub(super) const RECORD: usize = FIELDS * 8;

/// `linux/prctl.h`
const PR_SET_IO_FLUSHER: libc::c_int = 57;

const FUSE: RawFd = 3;
const IMAGE: RawFd = 4;
const LOG: RawFd = 5;
const CONTROL: RawFd = 6;
const UNDO: RawFd = 7;

/// Unit of what is remembered.
const BLOCK: usize = 4096;

/// A request that waits for its time.
#[derive(Clone, Copy)]
struct Pending {
    unique: u64,
    arrival: u64,
    due: u64,
    ask: Ask,
    service: Option<Service>,
}

struct Server {
    drive: Drive,
    size: u64,
    mode: Mode,
    connected: bool,
    keeping: bool,
    /// A bit for each block of the image that was overwritten since [`Order::Keep`].
    changed: Vec<u64>,
    /// Room for everything that the kernel may have in flight; never grows.
    pending: Vec<Pending>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

/// Forks the server; it waits for a byte on its control socket before it does anything, and ends if that is closed
/// instead. Returns its process id to the parent.
pub(super) fn fork(parts: Parts<'_>) -> std::io::Result<libc::pid_t> {
    let Parts { fuse, image, undo, log, control, null, size, drive } = parts;
    let mut server = Server {
        drive,
        size,
        mode: Mode::Free,
        connected: true,
        keeping: false,
        // Zeroed memory that nobody touched yet costs nothing, also for a large disk.
        changed: vec![0; (size as usize).div_ceil(64 * BLOCK)],
        pending: Vec::with_capacity(2 * IN_FLIGHT as usize),
        buffer: vec![0; BUFFER],
        out: vec![0; OUT_HEADER + LARGEST],
    };
    let fds = [fuse, image, log, control, undo].map(|fd| fd.as_raw_fd());
    // SAFETY: the child calls only system calls and code that neither allocates nor locks (everything it needs was made
    // above), and leaves by _exit, so it runs no destructor and no code of another thread.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                settle(fds, null.as_raw_fd()) && server.wait_for_start() && server.run()
            }));
            // SAFETY: ends the process at once; nothing of it is needed any more.
            unsafe { libc::_exit(if matches!(served, Ok(true)) { 0 } else { 70 }) }
        }
        child => Ok(child),
    }
}

/// Leaves the session, the terminal, the directory and all descriptors of thaw behind. A lock that thaw holds on a file
/// would otherwise outlive it here.
fn settle(fds: [RawFd; 5], null: RawFd) -> bool {
    // SAFETY: plain system calls on numbers of our own, on static strings and on local variables that outlive them.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"thaw-disk".as_ptr());
        // Sleeping must end when asked, not 50 us later.
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        // Memory reclaim must not wait for the disk that we are.
        libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        let priority = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &priority);
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        // First out of the way, then into place: a source may have the number of another one's place.
        let mut high = [0; 6];
        for (slot, fd) in high.iter_mut().zip(fds.into_iter().chain([null])) {
            *slot = libc::fcntl(fd, libc::F_DUPFD, 100);
            if *slot < 0 {
                return false;
            }
        }
        for (place, fd) in [FUSE, IMAGE, LOG, CONTROL, UNDO].into_iter().zip(high) {
            libc::dup2(fd, place);
        }
        for place in 0..3 {
            libc::dup2(high[5], place);
        }
        libc::syscall(libc::SYS_close_range, UNDO + 1, u32::MAX, 0) == 0
    }
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `Err` holds the error number.
fn read(fd: RawFd, into: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: writes into the slice at most.
    match unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) } {
        n if n >= 0 => Ok(n as usize),
        _ => Err(errno()),
    }
}

fn errno() -> i32 {
    // SAFETY: the address is that of this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn write(fd: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: reads the slice at most.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) == bytes.len() as isize }
}

impl Server {
    fn wait_for_start(&mut self) -> bool {
        let mut byte = [0];
        loop {
            match read(CONTROL, &mut byte) {
                Ok(1) => return write(CONTROL, &byte),
                Err(libc::EINTR) => {}
                _ => return false,
            }
        }
    }

    /// Serves until nobody has the disk any more.
    fn run(&mut self) -> bool {
        loop {
            self.answer_due();
            let due = self.pending.iter().map(|pending| pending.due).min();
            let mut polled = [(FUSE, true), (CONTROL, self.connected)].map(|(fd, wanted)| libc::pollfd {
                fd: if wanted { fd } else { -1 },
                events: libc::POLLIN,
                revents: 0,
            });
            let wait = due.map(|due| {
                let wait = due.saturating_sub(now());
                libc::timespec { tv_sec: (wait / 1_000_000_000) as _, tv_nsec: (wait % 1_000_000_000) as _ }
            });
            let wait = wait.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the array and the time live through the call; no signal mask is given.
            unsafe { libc::ppoll(polled.as_mut_ptr(), 2, wait, std::ptr::null()) };
            if polled[1].revents != 0 {
                self.control();
            }
            if polled[0].revents != 0 && !self.take() {
                return true;
            }
        }
    }

    /// A change of mode, or the end of thaw: what is left of the disk's life must not be slow.
    fn control(&mut self) {
        let mut byte = [0];
        match read(CONTROL, &mut byte) {
            Ok(1) => {
                match Order::of(byte[0]) {
                    Some(Order::Mode(mode)) => {
                        self.mode = mode;
                        self.drive.reset();
                    }
                    Some(Order::Keep) => self.keeping = true,
                    // A disk that is half as it was must not be used.
                    Some(Order::Restore) if !self.restore() => byte[0] = FAILED,
                    Some(Order::Restore) => {}
                    None => byte[0] = FAILED,
                }
                write(CONTROL, &byte);
            }
            Err(libc::EINTR | libc::EAGAIN) => return,
            _ => {
                self.connected = false;
                self.mode = Mode::Free;
            }
        }
        if self.mode == Mode::Free {
            self.pending.iter_mut().for_each(|pending| pending.due = 0);
        }
    }

    /// Takes what the kernel has for us; `false`: it has nothing any more, and never will.
    fn take(&mut self) -> bool {
        while self.pending.len() < self.pending.capacity() {
            match read(FUSE, &mut self.buffer) {
                Ok(len) => self.serve(len),
                Err(libc::ENODEV) => return false,
                Err(libc::EAGAIN) => break,
                // ENOENT: the request was taken back.
                Err(libc::EINTR | libc::ENOENT) => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn serve(&mut self, len: usize) {
        let arrival = now();
        let Some((unique, call)) = parse(&self.buffer[..len]) else { return };
        let reply = |mut answer: Answer| {
            write(FUSE, answer.bytes());
        };
        match call {
            Call::Init { major, .. } if major < MAJOR => reply(Answer::result(unique, libc::EPROTO)),
            Call::Init { flags, .. } => reply(Answer::init(unique, flags)),
            Call::Lookup { ours: true } => reply(Answer::entry(unique, self.size)),
            Call::Lookup { ours: false } => reply(Answer::result(unique, libc::ENOENT)),
            Call::Attributes { node } => reply(Answer::attributes_of(unique, node, self.size)),
            Call::Open { node } => reply(Answer::open(unique, node)),
            Call::Read { at, len } => self.queue(unique, arrival, at, len, Direction::Read),
            Call::Write { at, len, data } => {
                // At once: a read behind it in the queue must find it. Only the answer waits.
                let kept = !self.keeping || self.keep(at, len);
                match kept && store(at, &self.buffer[data..data + len as usize]) {
                    true => self.queue(unique, arrival, at, len, Direction::Write),
                    false => reply(Answer::result(unique, libc::EIO)),
                }
            }
            Call::Sync => self.queue(unique, arrival, 0, 0, Direction::Flush),
            Call::Nod => reply(Answer::result(unique, 0)),
            Call::Silent => {}
            Call::Unknown => reply(Answer::result(unique, libc::ENOSYS)),
        }
    }

    fn queue(&mut self, unique: u64, arrival: u64, at: u64, len: u32, direction: Direction) {
        let ask = Ask { disk: DiskOffset(at), len: Bytes(len.into()), direction };
        let service = (self.mode == Mode::Timed).then(|| self.drive.serve(Nanos(arrival), &ask));
        let due = service.map_or(0, |service| service.done.0);
        self.pending.push(Pending { unique, arrival, due, ask, service });
    }

    /// Remembers the blocks that are about to be overwritten for the first time.
    fn keep(&mut self, at: u64, len: u32) -> bool {
        let last = (at + u64::from(len)).div_ceil(BLOCK as u64).min(self.changed.len() as u64 * 64);
        for block in at / BLOCK as u64..last {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            if self.changed[word] & bit == 0 {
                if !copy_block(IMAGE, UNDO, block) {
                    return false;
                }
                self.changed[word] |= bit;
            }
        }
        true
    }

    fn restore(&mut self) -> bool {
        for (index, word) in self.changed.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
            for bit in (0..64).filter(|bit| *word >> bit & 1 == 1) {
                if !copy_block(UNDO, IMAGE, index as u64 * 64 + bit) {
                    return false;
                }
            }
            *word = 0;
        }
        // SAFETY: gives back the memory of our own file; takes numbers.
        unsafe { libc::ftruncate(UNDO, 0) == 0 }
    }

    fn answer_due(&mut self) {
        let mut index = 0;
        while index < self.pending.len() {
            if self.pending[index].due <= now() {
                let pending = self.pending.remove(index);
                self.answer(&pending);
            } else {
                index += 1;
            }
        }
    }

    fn answer(&mut self, pending: &Pending) {
        match pending.ask.direction {
            Direction::Read => self.answer_read(pending.unique, &pending.ask),
            Direction::Write => {
                write(FUSE, Answer::written(pending.unique, pending.ask.len.0 as u32).bytes());
            }
            Direction::Flush => {
                write(FUSE, Answer::result(pending.unique, 0).bytes());
            }
        }
        if self.mode != Mode::Free {
            note(pending);
        }
    }

    fn answer_read(&mut self, unique: u64, ask: &Ask) {
        let wanted = (ask.len.0 as usize).min(LARGEST);
        let room = &mut self.out[OUT_HEADER..OUT_HEADER + wanted];
        // SAFETY: writes into the slice at most.
        let read = unsafe { libc::pread(IMAGE, room.as_mut_ptr().cast(), room.len(), ask.disk.0 as libc::off_t) };
        let Ok(read) = usize::try_from(read) else {
            write(FUSE, Answer::result(unique, libc::EIO).bytes());
            return;
        };
        self.out[..OUT_HEADER].copy_from_slice(&head(unique, read));
        write(FUSE, &self.out[..OUT_HEADER + read]);
    }
}

fn copy_block(from: RawFd, to: RawFd, block: u64) -> bool {
    let mut bytes = [0u8; BLOCK];
    let at = block as libc::off_t * BLOCK as libc::off_t;
    // SAFETY: writes into and reads from the local array at most.
    unsafe {
        let read = libc::pread(from, bytes.as_mut_ptr().cast(), BLOCK, at);
        read > 0 && libc::pwrite(to, bytes.as_ptr().cast(), read as usize, at) == read
    }
}

fn store(at: u64, bytes: &[u8]) -> bool {
    // SAFETY: reads the slice at most.
    unsafe { libc::pwrite(IMAGE, bytes.as_ptr().cast(), bytes.len(), at as libc::off_t) == bytes.len() as isize }
}

/// Writes down how a request was served.
fn note(pending: &Pending) {
    let ask = &pending.ask;
    let free = Service {
        start: Nanos(pending.arrival),
        done: Nanos(pending.arrival),
        overhead: Nanos(0),
        seek: Nanos(0),
        latency: Nanos(0),
        transfer: Nanos(0),
        how: How::Buffer,
        travel: Bytes(0),
    };
    let service = pending.service.unwrap_or(free);
    let how = [How::Seek, How::ReadThrough, How::Buffer, How::Flash].iter().position(|how| *how == service.how);
    let direction = match ask.direction {
        Direction::Read => 0u64,
        Direction::Write => 1,
        Direction::Flush => 2,
    };
    let flags = direction | u64::from(pending.service.is_some()) << 4 | (how.unwrap_or(0) as u64) << 8;
    let fields: [u64; FIELDS] = [
        pending.arrival,
        now(),
        ask.disk.0,
        ask.len.0,
        service.start.0,
        service.done.0,
        service.overhead.0,
        service.seek.0,
        service.latency.0,
        service.transfer.0,
        service.travel.0,
        flags,
    ];
    let mut record = [0; RECORD];
    for (place, field) in record.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    write(LOG, &record);
}

/// The opposite of [`note`].
pub(super) fn noted(record: &[u8; RECORD]) -> super::Record {
    let mut fields = [0u64; FIELDS];
    for (field, place) in fields.iter_mut().zip(record.chunks_exact(8)) {
        *field = u64::from_ne_bytes(place.try_into().expect("chunks of eight bytes"));
    }
    let [arrival, replied, disk, len, start, done, overhead, seek, latency, transfer, travel, flags] = fields;
    let how = [How::Seek, How::ReadThrough, How::Buffer, How::Flash][(flags >> 8) as usize & 3];
    let service = Service {
        start: Nanos(start),
        done: Nanos(done),
        overhead: Nanos(overhead),
        seek: Nanos(seek),
        latency: Nanos(latency),
        transfer: Nanos(transfer),
        how,
        travel: Bytes(travel),
    };
    let direction = [Direction::Read, Direction::Write, Direction::Flush, Direction::Read][flags as usize & 3];
    super::Record {
        arrival: Nanos(arrival),
        replied: Nanos(replied),
        ask: Ask { disk: DiskOffset(disk), len: Bytes(len), direction },
        service: (flags & 16 == 16).then_some(service),
    }
}

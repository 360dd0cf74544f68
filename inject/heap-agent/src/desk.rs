//! Asking thaw for what this process may not or cannot open itself: it has another user than the recording's directory,
//! or another root directory.
//!
//! System calls only. The line to thaw is kept from the beginning, because a sandbox takes every path away before it
//! forks. It is a socket and not the directory itself: sandboxes refuse to begin while a directory is open. See
//! [`heap_wire::desk`].

use crate::sys::{self, Fd};
use crate::text::Text;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};
use heap_wire::desk::{NOTHING, SOCKET};

/// Longest request.
const LONGEST: usize = sys::PATH_MAX + 128;
/// A thaw that stands still must not hold the program for longer.
const SECONDS: u64 = 10;

/// The line: descriptor, device and inode of its socket, because programs close what they do not know.
static LINE: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// What thaw answered.
pub struct Answer {
    /// The stream.
    pub file: Option<Fd>,
    /// Its number among those of this process.
    pub number: u32,
}

/// Whether an error number says that another user's process, or one outside of a sandbox, may do it.
pub fn may_help(errno: u32) -> bool {
    matches!(errno, sys::EACCES | sys::EPERM | sys::EROFS)
}

/// Whether an error number says that the path leads nowhere: in another root directory, which may be one of a process
/// that is gone.
pub fn is_elsewhere(errno: u32) -> bool {
    matches!(errno, sys::ENOENT | sys::ENOTDIR | sys::ESRCH)
}

/// Connects to the desk of a recording's directory, if there is one, and keeps the line.
pub fn open(directory: &[u8]) {
    close();
    let _ = keep(directory);
}

/// Gives the line back.
pub fn close() {
    if let Some(line) = kept() {
        sys::close(line);
    }
    LINE.store(-1, Relaxed);
}

/// The line, if the program has not closed it.
fn kept() -> Option<Fd> {
    let line = Fd(LINE.load(Relaxed));
    let is_ours = line.0 >= 0 && sys::identity(line) == Ok((DEVICE.load(Relaxed), INODE.load(Relaxed)));
    is_ours.then_some(line)
}

fn keep(directory: &[u8]) -> sys::Result<Fd> {
    let line = sys::move_high(dial(directory)?);
    let (device, inode) = sys::identity(line).inspect_err(|_| sys::close(line))?;
    DEVICE.store(device, Relaxed);
    INODE.store(inode, Relaxed);
    LINE.store(line.0, Relaxed);
    Ok(line)
}

fn dial(directory: &[u8]) -> sys::Result<Fd> {
    let mut path = Text::<{ sys::PATH_MAX }>::new();
    path.push(directory);
    let above = sys::open(path.with_zero(), sys::O_PATH | sys::O_DIRECTORY | sys::O_CLOEXEC, 0)?;
    // However long the directory's path is, this one is short.
    let mut address = Text::<100>::new();
    address.push(b"/proc/self/fd/");
    address.push_number(above.0.unsigned_abs().into());
    address.push(b"/");
    address.push(SOCKET);
    let dialled = sys::datagram_socket(SECONDS).and_then(|line| {
        let connected = sys::connect(line, address.bytes()).inspect_err(|_| sys::close(line));
        connected.map(|_| line)
    });
    sys::close(above);
    dialled
}

/// Asks at the desk of a recording's directory.
///
/// # Errors
/// There is none, or what thaw says.
pub fn ask(directory: &[u8], kind: u8, number: u32, text: &[u8]) -> sys::Result<Answer> {
    let line = kept().map_or_else(|| keep(directory), Ok)?;
    let (ours, theirs) = sys::socket_pair(SECONDS)?;
    let sent = sys::send(line, request(kind, number, text).bytes(), Some(theirs));
    // Thaw has it. If it goes away before it answers, so does the last one who could.
    sys::close(theirs);
    let answer = sent.and_then(|_| answer(ours));
    sys::close(ours);
    answer
}

/// Tells something that is answered elsewhere.
///
/// # Errors
/// There is no desk.
pub fn tell(directory: &[u8], kind: u8, number: u32) -> sys::Result<()> {
    let line = kept().map_or_else(|| keep(directory), Ok)?;
    sys::send(line, request(kind, number, &[]).bytes(), None).map(|_| ())
}

fn request(kind: u8, number: u32, text: &[u8]) -> Text<LONGEST> {
    let mut request = Text::new();
    request.push(&[kind]);
    request.push(&sys::pid().to_le_bytes());
    request.push(&number.to_le_bytes());
    request.push(text);
    request
}

fn answer(socket: Fd) -> sys::Result<Answer> {
    let mut words = [0u8; 8];
    let (length, file) = sys::receive(socket, &mut words)?;
    let [a, b, c, d, e, f, g, h] = words;
    match (length, u32::from_le_bytes([a, b, c, d])) {
        (8, 0) => Ok(Answer { file, number: u32::from_le_bytes([e, f, g, h]) }),
        (8, errno) => Err(errno),
        _ => Err(sys::EINVAL),
    }
}

/// Whether thaw is known to be gone.
pub fn is_deserted() -> bool {
    kept().is_some_and(|line| sys::send_at_once(line, NOTHING) == Err(sys::ECONNREFUSED))
}

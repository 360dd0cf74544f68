//! Asking thaw for what this process may not open itself: it has another user than the recording's directory.
//!
//! System calls only; nothing is kept open. See [`heap_wire::desk`].

use crate::sys::{self, Fd};
use crate::text::Text;
use heap_wire::desk::SOCKET;

/// Longest request.
const LONGEST: usize = crate::file::PATH_MAX + 128;
/// A thaw that stands still must not hold the program for longer.
const SECONDS: u64 = 10;

/// What thaw answered.
pub struct Answer {
    /// The stream.
    pub file: Option<Fd>,
    /// Its number among those of this process.
    pub number: u32,
}

/// Whether an error number says that another user's process may do it.
pub fn may_help(errno: u32) -> bool {
    matches!(errno, sys::EACCES | sys::EPERM)
}

/// Asks at the desk of a recording's directory.
///
/// # Errors
/// There is none, or what thaw says.
pub fn ask(directory: &[u8], kind: u8, number: u32, text: &[u8]) -> sys::Result<Answer> {
    let mut path = Text::<{ crate::file::PATH_MAX }>::new();
    path.push(directory);
    let above = sys::open(path.with_zero(), sys::O_PATH | sys::O_DIRECTORY | sys::O_CLOEXEC, 0)?;
    let asked = sys::stream_socket(SECONDS).and_then(|socket| {
        let answer = talk(socket, above, kind, number, text);
        sys::close(socket);
        answer
    });
    sys::close(above);
    asked
}

fn talk(socket: Fd, above: Fd, kind: u8, number: u32, text: &[u8]) -> sys::Result<Answer> {
    // However long the directory's path is, this one is short.
    let mut address = Text::<100>::new();
    address.push(b"/proc/self/fd/");
    address.push_number(above.0.unsigned_abs().into());
    address.push(b"/");
    address.push(SOCKET);
    sys::connect(socket, address.bytes())?;
    let mut request = Text::<LONGEST>::new();
    request.push(&[kind]);
    request.push(&sys::pid().to_le_bytes());
    request.push(&number.to_le_bytes());
    request.push(text);
    sys::send(socket, request.bytes())?;
    let mut words = [0u8; 8];
    let (length, file) = sys::receive(socket, &mut words)?;
    let [a, b, c, d, e, f, g, h] = words;
    match (length, u32::from_le_bytes([a, b, c, d])) {
        (8, 0) => Ok(Answer { file, number: u32::from_le_bytes([e, f, g, h]) }),
        (8, errno) => Err(errno),
        _ => Err(sys::EINVAL),
    }
}

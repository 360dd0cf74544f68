//! Asking the thaw that records a process to look at it now: it may trace what descends from it, and nobody else may
//! write its recording.

use heap_wire::desk::{CHECK, SOCKET};
use heapfile::event::Process;
use heapfile::form::is_stream;
use model::{Error, Exit, Result};
use rustix::net::{self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Lets a process be looked at that is being recorded. The answer is in the recording then ([`heapfile::check`]).
/// `false`: it does not run any more.
///
/// # Errors
/// Nobody records, or not for this user.
pub fn look(directory: &Path, process: &Process) -> Result<bool> {
    let name = process.file.file_stem().and_then(OsStr::to_str).and_then(|name| name.split_once('-'));
    let Some(number) = name.and_then(|(_, number)| number.parse::<u32>().ok()).filter(|_| is_stream(&process.file))
    else {
        return Ok(false);
    };
    let cannot = |cause: io::Error| {
        let error = Error::on(Exit::Usage, "nobody records here any more", directory).because(cause);
        error.hint("thaw heap run --leak-check looks when processes exit")
    };
    match ask(directory, process.pid, number).map_err(cannot)? {
        0 => Ok(true),
        libc::ESRCH => Ok(false),
        libc::EACCES => Err(Error::on(Exit::Usage, "somebody else records here", directory)
            .hint("ask as the user that records, or as root")),
        errno => Err(Error::on(Exit::Machine, "the thaw that records does not look at processes", directory)
            .because(io::Error::from_raw_os_error(errno))),
    }
}

/// What the desk answers: an error number, or 0.
fn ask(directory: &Path, pid: u32, number: u32) -> io::Result<i32> {
    let line = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // However long the directory's path is, the one below its descriptor is short.
    let held = os::tree::open_directory(directory)?;
    let path = os::tree::of_descriptor(&held).join(OsStr::from_bytes(SOCKET));
    net::connect(&line, &SocketAddrUnix::new(path)?)?;
    let (ours, theirs) = net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut request = vec![CHECK];
    request.extend(pid.to_le_bytes());
    request.extend(number.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let files = [theirs.as_fd()];
    beside.push(SendAncillaryMessage::ScmRights(&files));
    net::sendmsg(&line, &[IoSlice::new(&request)], &mut beside, SendFlags::NOSIGNAL)?;
    drop(theirs);
    let mut answer = [0; 8];
    let (read, _) = net::recv(&ours, &mut answer[..], RecvFlags::empty())?;
    match answer.first_chunk() {
        Some(errno) if read == answer.len() => Ok(i32::from_le_bytes(*errno)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

//! Streams for processes of other users than thaw's: they get a descriptor, because nobody else may write the
//! recording's directory.
//!
//! A process that may not make its stream itself asks at a socket ([`heap_wire::desk`]). Whom thaw recorded is asked of
//! the kernel: the peer of the connection must be a descendant of the program, or, of a program that was running
//! already, have its user. All names in the directory are thaw's own.

use super::{Made, missed};
use model::{Error, Exit, Result};
use os::process::status_value;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most streams of one process number; guests have the same limit.
const MOST: u32 = 100_000;
/// Longest request: a note with a path.
const LONGEST: usize = 4096;
/// A peer that has connected says what it wants within this time: guests do both at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which processes get descriptors of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// Descendants of this process.
    Below(u32),
    /// This process, its descendants, and whoever else has its user.
    Like(u32),
}

/// The open desk; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Desk {
    path: PathBuf,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    /// Opens one in a recording's directory, if thaw is root: others have no processes of other users.
    ///
    /// # Errors
    /// No socket can be made there.
    pub(crate) fn open(made: &Made, asker: Asker) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = made.path().join(OsStr::from_bytes(heap_wire::desk::SOCKET));
        let open = || -> io::Result<Self> {
            let listener = listen(&path)?;
            let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            let mut clerk = Clerk { directory: made.path().to_owned(), asker, given: HashMap::new() };
            let thread =
                std::thread::Builder::new().name("desk".into()).spawn(move || clerk.serve(&listener, &stopped));
            Ok(Self { path: path.clone(), stop: Some(stop), thread: Some(thread?) })
        };
        open().map(Some).map_err(|cause| {
            Error::on(Exit::Machine, "cannot open a socket for processes of other users", &path).because(cause)
        })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket that every user may connect to. Its address is short: below a descriptor.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    let listener = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    net::bind(&listener, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    net::listen(&listener, 4096)?;
    Ok(listener)
}

/// What the desk's thread knows.
struct Clerk {
    directory: PathBuf,
    asker: Asker,
    /// Streams by name, and the process that has each.
    given: HashMap<String, u32>,
}

impl Clerk {
    fn serve(&mut self, listener: &OwnedFd, stopped: &OwnedFd) {
        loop {
            let mut events = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
            match poll(&mut events, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) if !events[1].revents().is_empty() => return,
                Ok(_) => {}
            }
            let Ok(peer) = net::accept_with(listener, SocketFlags::CLOEXEC) else { continue };
            // A peer that has gone meanwhile gets no answer.
            let _ = self.answer(&peer);
        }
    }

    fn answer(&mut self, peer: &OwnedFd) -> io::Result<()> {
        let who = sockopt::socket_peercred(peer)?;
        let pid = who.pid.as_raw_nonzero().get().cast_unsigned();
        if !self.may_ask(pid, who.uid.as_raw()) {
            return reply(peer, libc::EACCES, 0, None);
        }
        sockopt::set_socket_timeout(peer, sockopt::Timeout::Recv, Some(PATIENCE))?;
        sockopt::set_socket_timeout(peer, sockopt::Timeout::Send, Some(PATIENCE))?;
        let mut request = [0; LONGEST];
        let (length, _) = net::recv(peer, &mut request[..], RecvFlags::empty())?;
        let [kind, a, b, c, d, e, f, g, h, rest @ ..] = &request[..length] else {
            return reply(peer, libc::EINVAL, 0, None);
        };
        let (own, number) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
        // A process that calls itself by another's number would be counted as that one.
        if !is_called(pid, own) {
            return reply(peer, libc::EPERM, 0, None);
        }
        let done = match *kind {
            heap_wire::desk::STREAM => self.make(pid, own),
            heap_wire::desk::AGAIN => self.give_again(pid, own, number).map(|file| (number, Some(file))),
            heap_wire::desk::NOTE => self.note(rest).map(|()| (0, None)),
            heap_wire::desk::TABLE => missed::table_of(&self.directory, who.uid.as_raw()).map(|table| (0, Some(table))),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match done {
            Ok((number, file)) => reply(peer, 0, number, file.as_ref().map(AsFd::as_fd)),
            Err(cause) => reply(peer, cause.raw_os_error().unwrap_or(libc::EIO), 0, None),
        }
    }

    fn may_ask(&self, pid: u32, uid: u32) -> bool {
        let is_below = |top: u32| ancestors(pid).any(|above| above == top);
        match self.asker {
            Asker::Below(top) => is_below(top),
            Asker::Like(top) => pid == top || is_below(top) || user_of(top) == Some(uid),
        }
    }

    /// The first free name of this process, whose stream goes to nobody else.
    fn make(&mut self, pid: u32, own: u32) -> io::Result<(u32, Option<File>)> {
        for number in 0..MOST {
            let name = name(own, number);
            match os::file::create_private(&self.directory.join(&name)) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(cause),
                Ok(file) => {
                    self.given.insert(name, pid);
                    return Ok((number, Some(file)));
                }
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    fn give_again(&self, pid: u32, own: u32, number: u32) -> io::Result<File> {
        let name = name(own, number);
        if self.given.get(&name) != Some(&pid) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        os::file::open_unlinked(&self.directory.join(name), os::file::Access::Write)
    }

    fn note(&self, text: &[u8]) -> io::Result<()> {
        // One note at a time: a zero ends it.
        let [note @ .., 0] = text else { return Err(io::Error::from_raw_os_error(libc::EINVAL)) };
        if note.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let path = self.directory.join(OsStr::from_bytes(heap_wire::execs::FILE));
        File::options().append(true).open(path)?.write_all(text)
    }
}

fn name(own: u32, number: u32) -> String {
    format!("{own}-{number}.{}", crate::form::STREAM)
}

fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| status_value(*pid, "PPid")?.parse().ok().filter(|parent| *parent != 0);
    std::iter::successors(parent(&pid), parent)
}

/// The effective one.
fn user_of(pid: u32) -> Option<u32> {
    status_value(pid, "Uid")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a process has this number in its own namespace.
fn is_called(pid: u32, own: u32) -> bool {
    let numbers = status_value(pid, "NSpid").unwrap_or_else(|| pid.to_string());
    numbers.split_ascii_whitespace().next_back().and_then(|number| number.parse().ok()) == Some(own)
}

fn reply(peer: &OwnedFd, errno: i32, number: u32, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut words = [0; 8];
    words[..4].copy_from_slice(&errno.to_le_bytes());
    words[4..].copy_from_slice(&number.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let files = file.as_slice();
    if !files.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(files));
    }
    net::sendmsg(peer, &[IoSlice::new(&words)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

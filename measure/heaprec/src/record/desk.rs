//! Streams for processes of other users than thaw's and in other root directories: they get a descriptor, because
//! nobody else may write the recording's directory.
//!
//! A process that may not make its stream itself, or comes to no path any more (a sandbox's child), asks at a socket
//! ([`heap_wire::desk`]). Whom thaw recorded is asked of the kernel: who sent a datagram must be a descendant of the
//! program, or, of a program that was running already, have its user. All names in the directory are thaw's own.

use super::{Made, missed};
use model::{Error, Exit, Result};
use os::process::status_value;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Most streams of one process number; guests have the same limit.
const MOST: u32 = 100_000;
/// Longest request: a note with a path.
const LONGEST: usize = 4096;

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
    /// Opens one in a recording's directory.
    ///
    /// # Errors
    /// No socket can be made there.
    pub(crate) fn open(made: &Made, asker: Asker) -> Result<Self> {
        let path = made.path().join(OsStr::from_bytes(heap_wire::desk::SOCKET));
        let open = || -> io::Result<Self> {
            let listener = listen(&path)?;
            let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            let mut clerk =
                Clerk { directory: made.path().to_owned(), asker, looking: Arc::default(), given: HashMap::new() };
            let thread =
                std::thread::Builder::new().name("desk".into()).spawn(move || clerk.serve(&listener, &stopped));
            Ok(Self { path: path.clone(), stop: Some(stop), thread: Some(thread?) })
        };
        open().map_err(|cause| {
            Error::on(Exit::Machine, "cannot open a socket for processes of other users and in sandboxes", &path)
                .because(cause)
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

/// A socket that every user may send to. Its address is short: below a descriptor.
fn listen(path: &Path) -> io::Result<OwnedFd> {
    let desk = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // Who sends is the kernel's word, not the sender's.
    sockopt::set_socket_passcred(&desk, true)?;
    net::bind(&desk, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(desk)
}

/// One datagram.
struct Request {
    /// The process that sent it, and its user, as thaw's namespaces call them; 0: it has no number there.
    pid: u32,
    uid: u32,
    /// Where the answer goes; `None`: nowhere.
    peer: Option<OwnedFd>,
    bytes: Vec<u8>,
}

/// Room for one descriptor and for credentials, as the kernel lays them out.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

/// Takes one datagram. `None`: it is cut, or says not who sent it.
fn receive(desk: &OwnedFd) -> io::Result<Option<Request>> {
    let (mut bytes, mut beside) = (vec![0; LONGEST], Ancillary([0; 64]));
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeros are a msghdr without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut beside).cast(), size_of::<Ancillary>());
    // SAFETY: all parts are valid for writes of their lengths.
    let length = unsafe { libc::recvmsg(desk.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    bytes.truncate(length);
    let (mut who, mut files) = (None, Vec::new());
    // SAFETY: walks what the kernel wrote, by its own lengths; each descriptor there is new and nobody else's.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(found) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            let held = found.cmsg_len.saturating_sub(data.offset_from_unsigned(header.cast()));
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if held >= size_of::<libc::ucred>() => {
                    who = Some(data.cast::<libc::ucred>().read_unaligned());
                }
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let count = held / size_of::<RawFd>();
                    let file = |index| OwnedFd::from_raw_fd(data.cast::<RawFd>().add(index).read_unaligned());
                    files.extend((0..count).map(file));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let is_whole = message.msg_flags & libc::MSG_TRUNC == 0;
    let (Some(who), true) = (who, is_whole) else { return Ok(None) };
    Ok(Some(Request { pid: u32::try_from(who.pid).unwrap_or(0), uid: who.uid, peer: files.pop(), bytes }))
}

/// What the desk's thread knows.
struct Clerk {
    directory: PathBuf,
    asker: Asker,
    /// One process is looked at at a time: the table of its blocks is in memory.
    looking: Arc<Mutex<()>>,
    /// Streams by name, and the process that has each.
    given: HashMap<String, u32>,
}

impl Clerk {
    fn serve(&mut self, desk: &OwnedFd, stopped: &OwnedFd) {
        loop {
            let mut events = [PollFd::new(desk, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
            match poll(&mut events, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) if !events[1].revents().is_empty() => return,
                Ok(_) => {}
            }
            let Ok(Some(request)) = receive(desk) else { continue };
            // A peer that has gone meanwhile gets no answer.
            let _ = self.answer(&request);
        }
    }

    fn answer(&mut self, Request { pid, uid, peer, bytes }: &Request) -> io::Result<()> {
        let (pid, uid) = (*pid, *uid);
        let Some(peer) = peer else {
            return if self.may_ask(pid, uid) { self.hear(pid, bytes) } else { Ok(()) };
        };
        #[cfg(target_arch = "x86_64")]
        if let Some((heap_wire::desk::CHECK, own, number, [])) = parts(bytes) {
            let is_ours = uid == rustix::process::geteuid().as_raw() || uid == 0;
            return match self.writer(own, number).filter(|_| is_ours) {
                _ if !is_ours => reply(peer, libc::EACCES, 0, None),
                None => reply(peer, libc::ESRCH, 0, None),
                Some(pid) => self.look(pid, &name(own, number), Some(peer.try_clone()?)),
            };
        }
        if pid == 0 || !self.may_ask(pid, uid) {
            return reply(peer, libc::EACCES, 0, None);
        }
        let Some((kind, own, number, rest)) = parts(bytes) else {
            return reply(peer, libc::EINVAL, 0, None);
        };
        // A process that calls itself by another's number would be counted as that one.
        if !is_called(pid, own) {
            return reply(peer, libc::EPERM, 0, None);
        }
        let done = match kind {
            heap_wire::desk::STREAM => self.make(pid, own),
            heap_wire::desk::AGAIN => self.give_again(pid, own, number).map(|file| (number, Some(file))),
            heap_wire::desk::NOTE => self.note(rest).map(|()| (0, None)),
            heap_wire::desk::TABLE => missed::table_of(&self.directory, uid).map(|table| (0, Some(table))),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match done {
            Ok((number, file)) => reply(peer, 0, number, file.as_ref().map(AsFd::as_fd)),
            Err(cause) => reply(peer, cause.raw_os_error().unwrap_or(libc::EIO), 0, None),
        }
    }

    /// What wants no answer here.
    fn hear(&self, pid: u32, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_arch = "x86_64")]
        if let Some((heap_wire::desk::LEAVES, own, number, [])) = parts(bytes)
            && is_called(pid, own)
        {
            self.look(pid, &name(own, number), None)?;
        }
        Ok(())
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

    /// The process that writes a stream, as thaw's namespace calls it: forked children may still have it mapped.
    #[cfg(target_arch = "x86_64")]
    fn writer(&self, own: u32, number: u32) -> Option<u32> {
        let file = fs::metadata(self.directory.join(name(own, number))).ok()?.ino();
        let maps = |pid: u32| os::process::maps(pid).unwrap_or_default();
        let mut called = os::process::all().into_iter().filter(|pid| is_called(*pid, own));
        called.find(|pid| maps(*pid).iter().any(|mapping| mapping.ino == file))
    }

    /// Looks at a process, which waits for it, or another thaw does (`peer`): others are served meanwhile.
    #[cfg(target_arch = "x86_64")]
    fn look(&self, pid: u32, name: &str, peer: Option<OwnedFd>) -> io::Result<()> {
        let (stream, looking) = (self.directory.join(name), Arc::clone(&self.looking));
        let leaks = std::thread::Builder::new().name("leaks".into());
        leaks.spawn(move || {
            let _one = looking.lock().unwrap_or_else(PoisonError::into_inner);
            crate::leaks::check(pid, &stream);
            // Who waits may have been killed meanwhile.
            let _ = match peer {
                Some(peer) => reply(&peer, 0, 0, None),
                None => os::file::open_unlinked(&stream, os::file::Access::Write).and_then(|file| {
                    let place = std::mem::offset_of!(heap_wire::FileHeader, looked) as u64;
                    file.write_all_at(&1u64.to_le_bytes(), place)
                }),
            };
        })?;
        Ok(())
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

/// Kind, number of the process, number of the stream, text of a request.
fn parts(bytes: &[u8]) -> Option<(u8, u32, u32, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    let (own, bytes) = bytes.split_first_chunk()?;
    let (number, text) = bytes.split_first_chunk()?;
    Some((*kind, u32::from_le_bytes(*own), u32::from_le_bytes(*number), text))
}

fn name(own: u32, number: u32) -> String {
    format!("{own}-{number}.{}", heapfile::form::STREAM)
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
    // The peer is what somebody sent: it must not hold the desk.
    net::sendmsg(peer, &[IoSlice::new(&words)], &mut beside, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

//! `notify`: `READY=1` on the datagram socket `$NOTIFY_SOCKET`, the protocol of `sd_notify(3)`.
//!
//! The kernel says who sent a message. A living sender that is not of the run is not believed. A sender that is gone
//! already (`systemd-notify` is, most times) cannot be looked up; it is believed because the socket's
//! random name was only given to the run. The socket is abstract: nothing is left on disk, but a program in a network
//! namespace of its own does not reach it.

use super::{Fired, Probe, View};
use model::{Error, Exit, Result};
use os::spawn::{Launch, monotonic_ns};
use rustix::event::PollFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the file.
#[derive(Default)]
pub(super) struct Notify {
    socket: Option<OwnedFd>,
    fired: bool,
}

impl Probe for Notify {
    fn prepare(&mut self, launch: &mut Launch) -> Result<()> {
        // Keyed by the system's random source: a name that others cannot guess.
        let secret = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let name = format!("thaw-notify-{}-{secret:016x}", std::process::id());
        let socket = bind(&name).map_err(|error| {
            Error::new(Exit::Machine, "cannot make the socket of", "--ready notify")
                .because(std::io::Error::from(error))
        })?;
        launch.env.push((OsString::from("NOTIFY_SOCKET"), Some(OsString::from(format!("@{name}")))));
        self.socket = Some(socket);
        Ok(())
    }

    fn wakers(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        self.socket.iter().map(|socket| (socket.as_fd(), PollFlags::IN)).collect()
    }

    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        while let Some(socket) = &self.socket {
            let Some((text, sender)) = receive(socket) else { break };
            let at_ns = monotonic_ns();
            let says_ready = text.split(|&byte| byte == b'\n').any(|line| line == b"READY=1");
            // In this order: a sender that ends between the two looks is gone at the second one.
            let is_ours = |pid| view.tree.contains(pid) || os::process::stat(pid).is_none_or(|stat| stat.is_ending);
            // Later messages are taken too, so that nobody waits for a full socket.
            if says_ready && !self.fired && sender.is_some_and(is_ours) {
                self.fired = true;
                fired.push(Fired { name: "notify".to_owned(), at_ns });
            }
        }
        Ok(())
    }
}

fn bind(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::net::sockopt::set_socket_passcred(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// The next message and who sent it; `None`: there is none now.
fn receive(socket: &OwnedFd) -> Option<(Vec<u8>, Option<u32>)> {
    let mut text = [0u8; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1), ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, flags).ok()?;
    // Descriptors that came along are closed by dropping them.
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(who) => Some(who.pid.as_raw_nonzero().get() as u32),
        _ => None,
    });
    Some((text[..got.bytes].to_vec(), sender))
}

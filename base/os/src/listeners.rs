//! Who listens on TCP ports of this network namespace, asked of the kernel by sock_diag(7).
//!
//! `/proc/net/tcp` says it too, and takes milliseconds where the kernel has room for many connections: it walks all of
//! them (claims/ping).

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` of linux/netlink.h.
const REQUEST_DUMP: u16 = 0x301;
/// `NLMSG_ERROR` of linux/netlink.h.
const ERROR: u16 = 2;
/// `NLMSG_DONE` of linux/netlink.h.
const DONE: u16 = 3;
/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER: usize = 16;
/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, 48 bytes of a socket's identity.
const REQUEST: usize = 56;
/// Where `struct inet_diag_msg` has `idiag_sport` (big endian), and `idiag_inode`.
const PORT: usize = 4;
const INODE: usize = 68;
/// `1 << TCP_LISTEN`, of net/tcp_states.h.
const LISTENING: u32 = 1 << 10;

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its port.
    pub port: u16,
    /// Its number in `/proc/PID/fd`: `socket:[INODE]`.
    pub inode: u64,
}

/// Asks the kernel, again and again.
pub struct Asked {
    socket: OwnedFd,
    answer: Vec<u8>,
}

impl Asked {
    /// Needs no rights.
    ///
    /// # Errors
    /// This kernel does not tell; `/proc/net/tcp` and `tcp6` do.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(SOCK_DIAG))?;
        // The kernel fills at most 32 KiB of a dump at once (netlink_dump in net/netlink/af_netlink.c).
        Ok(Self { socket, answer: vec![0; 1 << 16] })
    }

    /// All TCP sockets that listen, on whatever address.
    ///
    /// # Errors
    /// As [`Asked::open`].
    pub fn tcp(&mut self) -> io::Result<Vec<Listener>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.ask(family as u8, &mut found)?;
        }
        Ok(found)
    }

    fn ask(&mut self, family: u8, found: &mut Vec<Listener>) -> io::Result<()> {
        let mut request = [0; HEADER + REQUEST];
        request[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
        request[HEADER] = family;
        request[HEADER + 1] = libc::IPPROTO_TCP as u8;
        request[HEADER + 4..HEADER + 8].copy_from_slice(&LISTENING.to_ne_bytes());
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        loop {
            let (length, _) = rustix::net::recv(&self.socket, self.answer.as_mut_slice(), RecvFlags::empty())?;
            if read(&self.answer[..length], found)? {
                return Ok(());
            }
        }
    }
}

/// Reads the messages of an answer; whether the last one was among them.
fn read(mut answer: &[u8], found: &mut Vec<Listener>) -> io::Result<bool> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer on sockets cannot be read");
    while !answer.is_empty() {
        let header = answer.get(..HEADER).ok_or_else(wrong)?;
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let body = answer.get(HEADER..length).ok_or_else(wrong)?;
        match u16::from_ne_bytes([header[4], header[5]]) {
            DONE => return Ok(true),
            ERROR => {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-code));
            }
            BY_FAMILY => {
                let port = body.get(PORT..).and_then(|at| at.first_chunk()).ok_or_else(wrong)?;
                let inode = body.get(INODE..).and_then(|at| at.first_chunk()).ok_or_else(wrong)?;
                let (port, inode) = (u16::from_be_bytes(*port), u32::from_ne_bytes(*inode));
                found.push(Listener { port, inode: inode.into() });
            }
            _ => {}
        }
        // Each begins at a multiple of 4.
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn those_that_listen_are_told_with_their_inodes_and_others_are_not() {
        let sockets = ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap());
        let client = std::net::TcpStream::connect(sockets[0].local_addr().unwrap()).unwrap();
        let mut asked = Asked::open().unwrap();
        let all = asked.tcp().unwrap();
        assert_eq!(asked.tcp().unwrap().len(), all.len(), "asked again");
        for socket in &sockets {
            let target = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
            let port = socket.local_addr().unwrap().port();
            let same: Vec<_> = all.iter().filter(|listener| listener.port == port).collect();
            assert!(same.iter().any(|it| target.as_os_str() == format!("socket:[{}]", it.inode).as_str()), "{same:?}");
        }
        let client = client.local_addr().unwrap().port();
        assert!(!all.iter().any(|listener| listener.port == client), "a connection does not listen");
    }

    #[test]
    fn an_answer_that_is_cut_or_an_error_is_no_list() {
        let mut found = Vec::new();
        let mut message = vec![0; HEADER + INODE + 4];
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        message[HEADER + PORT..][..2].copy_from_slice(&8080_u16.to_be_bytes());
        message[HEADER + INODE..][..4].copy_from_slice(&4711_u32.to_ne_bytes());
        assert!(!read(&message, &mut found).unwrap());
        assert_eq!(found, [Listener { port: 8080, inode: 4711 }]);
        for length in 1..message.len() {
            assert!(read(&message[..length], &mut found).is_err(), "{length} bytes");
        }
        // One that says it is shorter than its head.
        message[..4].copy_from_slice(&4_u32.to_ne_bytes());
        assert!(read(&message, &mut found).is_err());
        let mut refused = vec![0; HEADER + 4];
        refused[..4].copy_from_slice(&20_u32.to_ne_bytes());
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[HEADER..].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(read(&refused, &mut found).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}

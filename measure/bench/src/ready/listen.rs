//! `listen:PORT`: a process of the run listens on a TCP port, on whatever address.
//!
//! Looked for every [`INTERVAL`], so the time is late by up to that; the socket found must be open in a process of the
//! run. The kernel is asked for those that listen ([`os::listeners`]); where it does not tell, and of a program in a
//! network namespace of its own, `/proc/PID/net/tcp` and `tcp6` are read, which takes milliseconds.

use super::{Fired, Probe, Tree, View};
use model::{Error, Exit, Result};
use os::listeners::Asked;
use os::spawn::{Launch, monotonic_ns};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(2);

/// See the file.
pub(super) struct Listen {
    port: u16,
    fired: bool,
    /// `None`: the kernel does not tell.
    kernel: Option<Asked>,
}

impl Listen {
    pub(super) fn new(port: u16) -> Self {
        Self { port, fired: false, kernel: Asked::open().ok() }
    }
}

impl Probe for Listen {
    fn prepare(&mut self, _launch: &mut Launch) -> Result<()> {
        refuse_taken(self.port)
    }

    fn interval(&self) -> Option<Duration> {
        (!self.fired).then_some(INTERVAL)
    }

    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        if self.fired {
            return Ok(());
        }
        let mut sockets = listening_here(self.kernel.as_mut(), self.port);
        if sockets.is_empty() && is_elsewhere(view.tree.main) {
            sockets = listening(&PathBuf::from(format!("/proc/{}/net", view.tree.main)), self.port);
        }
        let at_ns = monotonic_ns();
        if !sockets.is_empty() && holds_any(view.tree, &sockets) {
            self.fired = true;
            fired.push(Fired { name: format!("listen:{}", self.port), at_ns });
        }
        Ok(())
    }
}

/// A port that somebody listens on already would be taken for the program's.
pub(super) fn refuse_taken(port: u16) -> Result<()> {
    if listening_here(Asked::open().ok().as_mut(), port).is_empty() {
        return Ok(());
    }
    Err(Error::new(Exit::Usage, "somebody listens already, before the program is started, on port", port)
        .hint(format!("see who with `ss -ltnp 'sport = :{port}'` and end it, or let the program use another port")))
}

/// Inodes of the sockets that listen on `port` in thaw's network namespace.
fn listening_here(kernel: Option<&mut Asked>, port: u16) -> Vec<u64> {
    match kernel.and_then(|kernel| kernel.tcp().ok()) {
        Some(all) => all.into_iter().filter(|it| it.port == port).map(|it| it.inode).collect(),
        None => listening(Path::new("/proc/self/net"), port),
    }
}

/// Whether a process is known to have a network namespace of its own.
fn is_elsewhere(pid: u32) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
    matches!((of(&pid.to_string()), of("self")), (Ok(its), Ok(ours)) if its != ours)
}

/// The same of a process's namespace, from its tables in `/proc`.
fn listening(net: &Path, port: u16) -> Vec<u64> {
    let tables = ["tcp", "tcp6"].map(|table| std::fs::read_to_string(net.join(table)).unwrap_or_default());
    tables.iter().flat_map(|table| parse(table, port)).collect()
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...`, addresses and state in hex; state 0A
/// is LISTEN.
fn parse(table: &str, port: u16) -> Vec<u64> {
    let inode_of = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        let wanted = local == port && *fields.get(3)? == "0A";
        if wanted { fields.get(9)?.parse().ok() } else { None }
    };
    table.lines().skip(1).filter_map(inode_of).collect()
}

/// Whether a process of the run has one of these sockets open.
fn holds_any(tree: &Tree, sockets: &[u64]) -> bool {
    let names: Vec<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    tree.pids().into_iter().any(|pid| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors.flatten().any(|descriptor| {
            let target = std::fs::read_link(descriptor.path());
            target.is_ok_and(|target| names.iter().any(|name| target.as_os_str() == name.as_str()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 \
   100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 \
   4 30 10 -1
   2: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
   00000000     0        0 4713 1
";

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        assert_eq!(parse(TABLE, 8080), [4711]);
        assert_eq!(parse(TABLE, 8081), [4713]);
        assert_eq!(parse(TABLE, 80), Vec::<u64>::new());
        assert_eq!(parse("", 80), Vec::<u64>::new());
        assert_eq!(parse("head\n garbage :x\n", 80), Vec::<u64>::new());
    }

    #[test]
    fn the_kernel_and_its_tables_say_the_same() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let here = listening_here(Asked::open().ok().as_mut(), port);
        assert_eq!(listening_here(None, port), here);
        assert_eq!((here.len(), &here), (1, &listening(Path::new("/proc/self/net"), port)));
    }

    #[test]
    fn a_port_that_is_taken_is_refused_by_name() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let error = refuse_taken(port).unwrap_err();
        assert!(error.to_string().contains(&port.to_string()) && error.hint.is_some(), "{error}");
        drop(socket);
        refuse_taken(port).unwrap();
    }
}

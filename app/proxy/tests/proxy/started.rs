//! A proxy that runs while its test does, and clients of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_thaw-proxy");

pub struct Proxy {
    child: Child,
    pub address: SocketAddr,
    /// Of `--tls-listen`.
    pub tls: Option<SocketAddr>,
    pub admin: SocketAddr,
}

impl Proxy {
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["--admin", "127.0.0.1:0"]).args(arguments);
        Self::run(command)
    }

    pub fn reverse(origin: SocketAddr, arguments: &[&str]) -> Self {
        let origin = format!("http://{origin}");
        Self::start(&[&["--reverse", &origin], arguments].concat())
    }

    pub fn run(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addresses: Vec<SocketAddr> = line.split_whitespace().map(|address| address.parse().unwrap()).collect();
        let (address, tls, admin) = match addresses[..] {
            [address, admin] => (address, None, admin),
            [address, tls, admin] => (address, Some(tls), admin),
            _ => panic!("no addresses: {line:?}"),
        };
        Self { child, address, tls, admin }
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Sends these bytes on a new connection, and reads until the proxy closes it.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut socket = self.connect();
        // The proxy may have refused it before the end.
        let _ = socket.write_all(bytes.as_ref());
        rest(&mut socket)
    }

    /// The value of a metric.
    pub fn metric(&self, name: &str) -> i64 {
        let mut socket = TcpStream::connect(self.admin).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let page = rest(&mut socket);
        assert!(page.ends_with("# EOF\n"), "{page}");
        let value = page.lines().find_map(|line| line.strip_prefix(&format!("thaw_proxy_{name} ")));
        value.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
    }

    /// Bytes of memory that it has.
    pub fn resident(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() << 10
    }

    /// Asks it to end, as systemd does.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All that comes until the end of the connection.
pub fn rest(socket: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer with a length: its head and its body.
pub fn one(socket: &mut TcpStream) -> (String, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    status.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

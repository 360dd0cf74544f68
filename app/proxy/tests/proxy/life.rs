//! How it starts, ends, and tells what it did.

use crate::origin::Origin;
use crate::started::{PROGRAM, Proxy, one, status};
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Mutex, mpsc};

#[test]
fn answers_under_way_end_before_it_does() {
    let (began, begins) = channel();
    let (go, goes) = channel::<()>();
    let goes = Mutex::new(goes);
    let origin = Origin::new(move |_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        began.send(()).unwrap();
        goes.lock().unwrap().recv().unwrap();
        socket.write_all(b"cd").is_ok()
    });
    let mut proxy = Proxy::reverse(origin.address, &[]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    begins.recv().unwrap();
    proxy.terminate();
    // It lets nobody in any more, and still waits for the origin.
    while std::net::TcpStream::connect(proxy.address).is_ok() {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    assert_eq!(one(&mut socket).1, "abcd");
    assert_eq!(proxy.ended(), Some(0));
}

#[test]
fn an_answer_that_never_ends_is_cut_at_the_bound() {
    let (_never, wait) = channel::<()>();
    let wait: Mutex<mpsc::Receiver<()>> = Mutex::new(wait);
    let (began, begins) = channel();
    let origin = Origin::new(move |_, socket| {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nab");
        began.send(()).unwrap();
        wait.lock().unwrap().recv().is_ok()
    });
    let mut proxy = Proxy::reverse(origin.address, &["--drain", "1"]);
    let mut socket = proxy.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    begins.recv().unwrap();
    proxy.terminate();
    assert_eq!(proxy.ended(), Some(0));
}

/// A proxy that is handed a listening socket, as systemd does it.
fn activated(listener: &TcpListener, origin: &Origin) -> Proxy {
    let mut command = Command::new("sh");
    let line = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --admin 127.0.0.1:0 --reverse \"http://$1\"";
    command.args(["-c", line, PROGRAM, &origin.address.to_string()]);
    let descriptor = listener.as_raw_fd();
    // SAFETY: dup2 is safe between fork and exec, and touches no memory.
    unsafe {
        command.pre_exec(move || match libc::dup2(descriptor, 3) {
            3 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    Proxy::run(command)
}

#[test]
fn a_restart_by_a_socket_that_stays_open_turns_nobody_away() {
    let origin = Origin::echo();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut first = activated(&listener, &origin);
    assert_eq!(first.address, address);
    let request = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&first.send(request)), 200);
    first.terminate();
    assert_eq!(first.ended(), Some(0));
    // Between the two, clients wait in the socket's queue.
    let waiting = std::thread::spawn(move || {
        let mut socket = std::net::TcpStream::connect(address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        one(&mut socket).1
    });
    let _second = activated(&listener, &origin);
    assert_eq!(waiting.join().unwrap(), "/x");
}

#[test]
fn the_log_tells_of_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let origin = Origin::echo();
    let mut proxy = Proxy::reverse(origin.address, &["--access-log", log.to_str().unwrap()]);
    proxy.send("GET /a\" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    proxy.send("GET /b HTTP/1.1\nHost: a\n\n");
    proxy.terminate();
    assert_eq!(proxy.ended(), Some(0));
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0][5..10], ["\"GET", "/a'", "HTTP/1.1\"", "200", "3"], "{text}");
    assert_eq!(lines[1][5..7], ["\"-\"", "400"], "{text}");
}

#[test]
fn what_cannot_be_is_said_at_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, code) in [
        (vec!["--listen", &taken], 3),
        (vec!["--ca", "/dev/null/none"], 3),
        (vec!["--access-log", "/dev/null/none"], 3),
        (vec!["--reverse", "ftp://a"], 2),
        (vec!["--reverse", "http://a/path"], 2),
        (vec!["--reverse", "http://user@a"], 2),
        (vec!["--admin", "0.0.0.0:0"], 2),
        (vec!["--connections", "0"], 2),
    ] {
        let output = Command::new(PROGRAM).args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_tunnel_that_nobody_uses_does_not_hold_up_the_end_and_one_in_use_goes_on() {
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = echo.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in echo.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || std::io::copy(&mut socket.try_clone().unwrap(), &mut socket));
        }
    });
    let mut proxy = Proxy::start(&["--drain", "60"]);
    let tunnel = || {
        let mut socket = proxy.connect();
        socket.write_all(format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(status(&one(&mut socket).0.to_ascii_uppercase()), 200);
        socket
    };
    let (mut used, mut unused) = (tunnel(), tunnel());
    let echoed = |socket: &mut std::net::TcpStream| {
        let mut byte = [0];
        socket.write_all(b"x").and_then(|()| std::io::Read::read_exact(socket, &mut byte)).is_ok()
    };
    assert!(echoed(&mut used) && echoed(&mut unused));
    proxy.terminate();
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        let _ = std::io::Read::read(&mut unused, &mut [0]);
        let _ = ended.send(());
    });
    while ends.recv_timeout(std::time::Duration::from_millis(100)).is_err() {
        assert!(echoed(&mut used), "the one in use ended first, or with it");
    }
    assert!(echoed(&mut used));
    drop(used);
    assert_eq!(proxy.ended(), Some(0));
}

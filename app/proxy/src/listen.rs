//! Sockets and the life of the proxy: where it listens, whom it lets in, and how it ends.

use crate::server::{Proxy, serve, turn_away};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

/// The sockets that systemd, or the proxy before this one, hands over (sd_listen_fds(3)): from descriptor 3 on. None
/// where LISTEN_PID names another process.
///
/// # Errors
/// They are no listening TCP sockets.
pub fn inherited() -> io::Result<Vec<std::net::TcpListener>> {
    const FIRST: RawFd = 3;
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let count = match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(process), Some(count)) if process == std::process::id() => count.min(64) as RawFd,
        _ => return Ok(Vec::new()),
    };
    (FIRST..FIRST + count)
        .map(|descriptor| {
            // SAFETY: plain calls on a number; they fail where no descriptor has it.
            if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor is open, and by the protocol ours alone; this is called once, before anything
            // else opens one.
            let listener = unsafe { std::net::TcpListener::from_raw_fd(descriptor) };
            listener.local_addr()?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .collect()
}

/// Serves until SIGTERM or SIGINT; then lets answers under way end, for so long. With each socket: whether clients
/// speak TLS there.
///
/// # Errors
/// Signals cannot be caught.
pub async fn run(
    proxy: Arc<Proxy>,
    listeners: Vec<(TcpListener, bool)>,
    admin: Option<TcpListener>,
    connections: u32,
    drain: Duration,
) -> io::Result<()> {
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let places = Arc::new(Semaphore::new(connections as usize));
    let (stop, stopped) = watch::channel(false);
    let mut tasks = tokio::task::JoinSet::new();
    for (listener, tls) in listeners {
        let (proxy, places, stopped) = (Arc::clone(&proxy), Arc::clone(&places), stopped.clone());
        tasks.spawn(async move {
            loop {
                let Some((socket, address)) = accepted(&listener).await else { continue };
                match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        tokio::spawn(serve(Arc::clone(&proxy), socket, address, place, stopped.clone(), tls));
                    }
                    Err(_) => {
                        crate::metrics::count(&proxy.metrics.turned_away);
                        // Before a handshake there is nothing that could be said.
                        if !tls {
                            turn_away(&socket);
                        }
                    }
                }
            }
        });
    }
    if let Some(listener) = admin {
        let metrics = Arc::clone(&proxy.metrics);
        tasks.spawn(async move {
            loop {
                let Some((socket, _)) = accepted(&listener).await else { continue };
                let metrics = Arc::clone(&metrics);
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(Duration::from_secs(10), tell(socket, &metrics)).await;
                });
            }
        });
    }
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    // The sockets close with their tasks: who starts now reaches the next proxy.
    tasks.shutdown().await;
    let _ = stop.send(true);
    // Every connection has a place until it ends.
    let _ = tokio::time::timeout(drain, places.acquire_many(connections)).await;
    Ok(())
}

/// The next connection. None after an error: of a client that is gone already, or because descriptors have run out,
/// after a pause.
async fn accepted(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None
        }
    }
}

/// Answers one request for the metrics.
async fn tell(mut socket: TcpStream, metrics: &crate::metrics::Metrics) -> io::Result<()> {
    let mut head = Vec::new();
    let mut ends = crate::head::Ends::default();
    let limits = crate::head::Limits { bytes: 16 << 10, fields: 100 };
    let end = loop {
        match ends.find(&head) {
            Ok(Some(end)) => break Some(end),
            Err(_) => break None,
            Ok(None) if head.len() > limits.bytes => break None,
            Ok(None) => {}
        }
        if socket.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let target = end.and_then(|end| crate::head::request(&head[..end], &limits).ok()).map(|head| head.target);
    let (status, body) = match target {
        Some(b"/metrics") => ("200 OK", metrics.text()),
        Some(_) => ("404 Not Found", "there is /metrics\n".to_owned()),
        None => ("400 Bad Request", String::new()),
    };
    let kind = match target {
        Some(b"/metrics") => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}

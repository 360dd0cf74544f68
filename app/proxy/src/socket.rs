//! A client's socket, whose end can be the end of an answer: to a client of HTTP/1.0 that was told no length. As long
//! as such an answer is on its way the socket is set to be reset where it is closed, by whom ever: by an error, by the
//! end of the process, by SIGKILL. What was cut off is never taken for whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether an answer is on its way that ends where its connection does.
#[derive(Clone, Debug, Default)]
pub struct Open(Arc<AtomicBool>);

impl Open {
    /// To be called before a byte of the answer is written; with `false` when all of it was handed over.
    pub fn set(&self, open: bool) {
        self.0.store(open, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The socket.
pub struct Socket {
    io: TcpStream,
    open: Open,
    /// It is set to be reset.
    resets: bool,
}

impl Socket {
    /// With what is told of the answers on it.
    pub fn new(io: TcpStream, open: Open) -> Self {
        Self { io, open, resets: false }
    }

    fn writes(&mut self) -> io::Result<()> {
        if self.open.get() && !self.resets {
            self.io.set_zero_linger()?;
            self.resets = true;
        }
        Ok(())
    }

    /// All that was handed over is written: the end may be one.
    #[expect(deprecated, reason = "what blocks is a time to linger, and this takes it away")]
    fn ends(&mut self) -> io::Result<()> {
        if self.open.get() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.resets {
            self.io.set_linger(None)?;
            self.resets = false;
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Where nothing was written yet: no answer is no empty one.
        let _ = self.writes();
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(context, out)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.writes()?;
        Pin::new(&mut this.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.writes()?;
        Pin::new(&mut this.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.ends()?;
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}

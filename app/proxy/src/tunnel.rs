//! Tunnels (RFC 9110, 9.3.6): bytes go both ways until one side has ended, and nothing is looked at.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// Once the proxy is to end, a tunnel in which nothing moved for so long is one that nobody uses: browsers leave theirs
/// open for minutes.
const QUIET: Duration = Duration::from_secs(2);

/// Counts what comes.
struct Watched<T> {
    io: T,
    moved: Arc<AtomicU64>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let polled = Pin::new(&mut this.io).poll_read(context, into);
        this.moved.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.io).poll_write(context, bytes);
        if let Poll::Ready(Ok(wrote)) = &polled {
            this.moved.fetch_add(*wrote as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}

/// Passes bytes on until both sides have ended, one has failed, or `stop` is true and nothing moves any more.
pub async fn run<A, B>(one: A, other: B, mut stop: watch::Receiver<bool>)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let moved = Arc::<AtomicU64>::default();
    let mut one = Watched { io: one, moved: Arc::clone(&moved) };
    let mut other = Watched { io: other, moved: Arc::clone(&moved) };
    let copying = pin!(tokio::io::copy_bidirectional(&mut one, &mut other));
    let quiet = async {
        let _ = stop.wait_for(|stop| *stop).await;
        loop {
            let before = moved.load(Ordering::Relaxed);
            tokio::time::sleep(QUIET).await;
            if moved.load(Ordering::Relaxed) == before {
                return;
            }
        }
    };
    tokio::select! {
        _ = copying => {}
        () = quiet => {}
    }
}

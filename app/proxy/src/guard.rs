//! A connection that hands on only what [`crate::head`] has understood: hyper reads through it and never sees a head
//! that could mean two things. It also keeps the clocks against slow peers, which a library cannot see from above.

use crate::head::{self, Chunks, Ends, Framing, Limits, Refusal};
use bytes::{Buf, BytesMut};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The method of the request that stands for a refused one: so its answer takes its turn behind those before it.
pub const REFUSED: &str = "THAW-REFUSED";

/// How long a peer may take.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Between two requests.
    pub idle: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two bytes of a body, or until the peer takes a byte of ours.
    pub stall: Duration,
}

/// What a connection and those who answer its requests tell each other.
#[derive(Debug, Default)]
pub struct Shared {
    refused: Mutex<Option<Refusal>>,
    /// Requests that are not answered yet: an idle clock does not run.
    pub under_way: AtomicUsize,
    /// Towards an origin: an answer is waited for.
    expected: AtomicBool,
    /// Towards an origin: the request was HEAD.
    to_head: AtomicBool,
}

impl Shared {
    /// Why the connection was refused, where it was.
    pub fn refusal(&self) -> Option<Refusal> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, why: Refusal) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// To be called before a request is sent to an origin: without it every byte of the origin is refused.
    pub fn expect(&self, to_head: bool) {
        self.to_head.store(to_head, Ordering::Release);
        self.expected.store(true, Ordering::Release);
    }
}

/// Whose heads are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client's requests.
    Client,
    /// An origin's answers.
    Origin,
}

#[derive(Debug)]
enum State {
    Head(Ends),
    Length(u64),
    Chunked(Chunks),
    /// Everything until the end: a tunnel, HTTP/2, a body without a length.
    Raw,
    /// Nothing more is read: what stands for the refused request is the last.
    Refused,
}

/// The connection.
#[derive(Debug)]
pub struct Guard<T> {
    io: T,
    side: Side,
    state: State,
    /// Read and not handed on.
    buffer: BytesMut,
    /// So many first bytes of it may be.
    ready: usize,
    limits: Limits,
    clocks: Clocks,
    shared: Arc<Shared>,
    reading: Option<(Pin<Box<Sleep>>, Phase)>,
    writing: Option<Pin<Box<Sleep>>>,
    /// Bytes thrown away after our last word, so that it is not lost in a reset.
    lingered: usize,
    shut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Body,
}

/// Bytes thrown away, and for how long, after the last answer to a client that still sends.
const LINGER: (usize, Duration) = (1 << 20, Duration::from_secs(2));

const READ: usize = 64 << 10;

impl<T: AsyncRead + AsyncWrite + Unpin> Guard<T> {
    /// `read`: what was read from it already. `raw`: it is not HTTP/1, only the clocks are kept.
    pub fn new(io: T, side: Side, read: BytesMut, raw: bool, limits: Limits, clocks: Clocks) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared::default());
        let state = if raw { State::Raw } else { State::Head(Ends::default()) };
        let guard = Self {
            io,
            side,
            state,
            ready: 0,
            buffer: read,
            limits,
            clocks,
            shared: Arc::clone(&shared),
            reading: None,
            writing: None,
            lingered: 0,
            shut: false,
        };
        (guard, shared)
    }

    /// Looks at what was read: may anything be handed on?
    fn examine(&mut self) -> io::Result<()> {
        let outcome = match &mut self.state {
            State::Raw => {
                self.ready = self.buffer.len();
                Ok(())
            }
            State::Refused => Ok(()),
            State::Length(left) => {
                self.ready = usize::try_from(*left).map_or(self.buffer.len(), |left| left.min(self.buffer.len()));
                *left -= self.ready as u64;
                Ok(())
            }
            State::Chunked(chunks) => chunks.feed(&self.buffer).map(|used| self.ready = used),
            State::Head(_) => return self.head(),
        };
        let ended = match &self.state {
            State::Length(0) => true,
            State::Chunked(chunks) => chunks.done(),
            _ => false,
        };
        if ended {
            self.state = State::Head(Ends::default());
            if self.side == Side::Origin && self.buffer.len() > self.ready {
                return Err(invalid(Refusal::bad("the origin sent more than its answer")));
            }
        }
        // A body that is broken cannot be answered in its turn: the reader of the body says so.
        outcome.map_err(|why| {
            self.shared.refuse(why);
            invalid(why)
        })
    }

    fn head(&mut self) -> io::Result<()> {
        let State::Head(ends) = &mut self.state else { return Ok(()) };
        if self.side == Side::Origin && !self.buffer.is_empty() && !self.shared.expected.load(Ordering::Acquire) {
            return Err(invalid(Refusal::bad("the origin answers what was not asked")));
        }
        let found = ends.find(&self.buffer);
        let large = found.as_ref().is_ok_and(|end| end.unwrap_or(self.buffer.len()) > self.limits.bytes);
        let read = match found {
            _ if large => Err(Refusal { status: 431, why: "a head too large" }),
            Err(why) => Err(why),
            Ok(None) => return Ok(()),
            Ok(Some(end)) => match self.side {
                Side::Client => head::request(&self.buffer[..end], &self.limits).map(|head| (end, Some(head.framing))),
                Side::Origin => {
                    let to_head = self.shared.to_head.load(Ordering::Acquire);
                    head::response(&self.buffer[..end], &self.limits, to_head).and_then(|head| match head.verb {
                        // Nothing is upgraded: we never ask for it.
                        b"101" => Err(Refusal::bad("the origin changes the protocol")),
                        [b'1', ..] => Ok((end, None)),
                        _ => Ok((end, Some(head.framing))),
                    })
                }
            },
        };
        match (read, self.side) {
            (Ok((end, framing)), side) => {
                self.ready = end;
                if side == Side::Origin && framing.is_some() {
                    self.shared.expected.store(false, Ordering::Release);
                }
                self.state = match framing {
                    None | Some(Framing::Length(0)) => State::Head(Ends::default()),
                    Some(Framing::Length(length)) => State::Length(length),
                    Some(Framing::Chunked) => State::Chunked(Chunks::new(self.limits.bytes)),
                    Some(Framing::UntilClose) => State::Raw,
                };
                let alone = framing == Some(Framing::Length(0)) && side == Side::Origin;
                match alone && self.buffer.len() > end {
                    true => Err(invalid(Refusal::bad("the origin sent more than its answer"))),
                    false => Ok(()),
                }
            }
            (Err(why), Side::Client) => {
                self.refuse(why);
                Ok(())
            }
            (Err(why), Side::Origin) => {
                self.shared.refuse(why);
                Err(invalid(why))
            }
        }
    }

    fn refuse(&mut self, why: Refusal) {
        self.shared.refuse(why);
        self.buffer.clear();
        self.buffer.extend_from_slice(REFUSED.as_bytes());
        self.buffer.extend_from_slice(b" / HTTP/1.1\r\nhost: refused\r\n\r\n");
        self.ready = self.buffer.len();
        self.state = State::Refused;
    }

    fn phase(&self) -> (Phase, Duration) {
        match &self.state {
            State::Head(_) if self.side == Side::Client && self.buffer.is_empty() => (Phase::Idle, self.clocks.idle),
            State::Head(_) if self.side == Side::Client => (Phase::Head, self.clocks.head),
            _ => (Phase::Body, self.clocks.stall),
        }
    }

    /// Whether the clock of what is waited for has run out. It runs on while a head arrives, and begins anew for each
    /// piece of a body.
    fn late(&mut self, context: &mut Context<'_>) -> bool {
        // A pooled connection and a tunnel have no clock here.
        if matches!((&self.state, self.side), (State::Head(_), Side::Origin) | (State::Raw, Side::Client)) {
            self.reading = None;
            return false;
        }
        let (phase, limit) = self.phase();
        if !self.reading.as_ref().is_some_and(|(_, of)| *of == phase) {
            self.reading = Some((Box::pin(tokio::time::sleep(limit)), phase));
        }
        let Some((sleep, _)) = &mut self.reading else { return false };
        while sleep.as_mut().poll(context).is_ready() {
            // Who waits for an answer is not late.
            if phase != Phase::Idle || self.shared.under_way.load(Ordering::Acquire) == 0 {
                return true;
            }
            sleep.as_mut().reset(Instant::now() + limit);
        }
        false
    }

    /// What a write came to; one that waits is watched by the clock.
    fn wrote(&mut self, context: &mut Context<'_>, done: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match done {
            Poll::Pending => self.stalled(context)?,
            Poll::Ready(_) => self.writing = None,
        }
        done
    }

    fn stalled(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let limit = self.clocks.stall;
        let sleep = self.writing.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")),
            Poll::Pending => Ok(()),
        }
    }
}

fn invalid(why: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.ready > 0 {
                let len = this.ready.min(out.remaining());
                out.put_slice(&this.buffer[..len]);
                this.buffer.advance(len);
                this.ready -= len;
                return Poll::Ready(Ok(()));
            }
            if matches!(this.state, State::Refused) {
                // Hyper closes after the answer; an end here would cut it off.
                return Poll::Pending;
            }
            if !this.buffer.is_empty() {
                this.examine()?;
                if this.ready > 0 {
                    continue;
                }
            }
            let read = {
                this.buffer.reserve(READ.min(this.limits.bytes.max(4096)));
                let mut into = ReadBuf::uninit(this.buffer.spare_capacity_mut());
                let polled = Pin::new(&mut this.io).poll_read(context, &mut into);
                polled.map_ok(|()| into.filled().len())
            };
            match read {
                Poll::Ready(Ok(0)) => {
                    let inside = match &this.state {
                        State::Length(_) | State::Chunked(_) => true,
                        State::Head(_) => !this.buffer.is_empty(),
                        State::Raw | State::Refused => false,
                    };
                    return Poll::Ready(match inside {
                        true => Err(io::ErrorKind::UnexpectedEof.into()),
                        false => Ok(()),
                    });
                }
                Poll::Ready(Ok(len)) => {
                    // SAFETY: `poll_read` filled so many bytes of the spare capacity, and ReadBuf counts only bytes
                    // that were initialised.
                    unsafe { this.buffer.set_len(this.buffer.len() + len) };
                    // A head's clock goes on; that of everything else begins anew.
                    if this.reading.as_ref().is_some_and(|(_, phase)| *phase != Phase::Head) {
                        this.reading = None;
                    }
                    this.examine()?;
                    if !matches!(this.state, State::Head(_)) {
                        this.reading = None;
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if !this.late(context) {
                        return Poll::Pending;
                    }
                    match this.phase().0 {
                        Phase::Idle => return Poll::Ready(Ok(())),
                        Phase::Head => this.refuse(Refusal { status: 408, why: "the head did not arrive in time" }),
                        Phase::Body => {
                            this.shared.refuse(Refusal { status: 408, why: "the body did not arrive in time" });
                            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer sends nothing")));
                        }
                    }
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.io).poll_write(context, bytes);
        this.wrote(context, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.io).poll_write_vectored(context, parts);
        this.wrote(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut {
            ready!(Pin::new(&mut this.io).poll_shutdown(context))?;
            this.shut = true;
            this.reading = Some((Box::pin(tokio::time::sleep(LINGER.1)), Phase::Body));
        }
        if this.side == Side::Origin || matches!(this.state, State::Raw) {
            return Poll::Ready(Ok(()));
        }
        // RFC 9112, 9.6: a socket that is closed with unread bytes is reset, and our last answer is lost with it.
        let mut waste = [0_u8; 4096];
        while this.lingered < LINGER.0 {
            let mut into = ReadBuf::new(&mut waste);
            match Pin::new(&mut this.io).poll_read(context, &mut into) {
                Poll::Ready(Ok(())) if !into.filled().is_empty() => this.lingered += into.filled().len(),
                Poll::Ready(_) => break,
                Poll::Pending => {
                    let Some((sleep, _)) = &mut this.reading else { break };
                    ready!(sleep.as_mut().poll(context));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Bytes that hyper's buffer has to hold, so that a head within the limits always fits.
pub fn buffer(limits: &Limits) -> usize {
    limits.bytes.max(8192) + READ
}

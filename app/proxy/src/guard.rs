//! A connection that hands on only what [`crate::head`] has understood: hyper reads through it and never sees a head
//! that could mean two things. It also keeps the clocks against slow peers, which a library cannot see from above.

use crate::head::{self, Chunks, Ends, Framing, Limits, Refusal};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
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
    /// Answers that were given to the end, or given up.
    pub answered: AtomicUsize,
    /// Towards an origin: an answer is waited for.
    expected: AtomicBool,
    /// Towards an origin: the request was HEAD.
    to_head: AtomicBool,
    /// Heads that were handed on and not asked for yet, where requests may be answered by them.
    heads: Mutex<VecDeque<Bytes>>,
}

/// Answers requests by the bytes of their heads alone.
pub trait Quick: Send + Sync {
    /// The answer, if there is one.
    fn answer(&self, head: &[u8]) -> Option<Sending>;
    /// It was sent, or the client was gone before all of it was.
    fn sent(&self, sending: &Sending);
}

/// An answer on its way to a client.
pub struct Sending {
    /// Head and body, what is left of them from `next` on.
    parts: Vec<Bytes>,
    next: usize,
    /// The head of its request.
    pub request: Bytes,
    /// Its status.
    pub status: u16,
    /// Bytes of its body.
    pub length: u64,
    /// When the request was there.
    pub began: std::time::Instant,
}

/// Slices of one write.
const SLICES: usize = 64;

impl Sending {
    /// `parts`: head and body.
    pub fn new(parts: Vec<Bytes>, request: Bytes, status: u16, length: u64) -> Self {
        Self { parts, next: 0, request, status, length, began: std::time::Instant::now() }
    }

    /// Whether all of it was sent.
    pub fn is_done(&self) -> bool {
        self.next == self.parts.len()
    }

    /// Bytes of the body that were not sent.
    pub fn left(&self) -> u64 {
        let left: usize = self.parts[self.next..].iter().map(Bytes::len).sum();
        self.length.min(left as u64)
    }

    fn poll<T: AsyncWrite + Unpin>(&mut self, io: &mut T, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_done() {
            let mut slices = [io::IoSlice::new(&[]); SLICES];
            let left = &self.parts[self.next..];
            let count = left.len().min(SLICES);
            for (slice, part) in slices.iter_mut().zip(left) {
                *slice = io::IoSlice::new(part);
            }
            let mut wrote = ready!(Pin::new(&mut *io).poll_write_vectored(context, &slices[..count]))?;
            if wrote == 0 && left.iter().any(|part| !part.is_empty()) {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            while let Some(part) = self.parts.get_mut(self.next).filter(|part| part.len() <= wrote) {
                wrote -= part.len();
                self.next += 1;
            }
            if wrote > 0 {
                self.parts[self.next].advance(wrote);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Shared {
    /// Why the connection was refused, where it was.
    pub fn refusal(&self) -> Option<Refusal> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of the next request that was not asked for yet, where such are kept: one for each request, in order.
    pub fn head(&self) -> Option<Bytes> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
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
    /// Answers by bytes alone, on the side of a client.
    quick: Option<Box<dyn Quick>>,
    /// The one that is sent.
    sending: Option<Sending>,
    /// Heads that were handed on, whose reader may look ahead.
    handed: usize,
    /// Not all of them are answered, or the answers not flushed: nobody else may write.
    busy: bool,
    reading: Option<(Pin<Box<Sleep>>, Phase)>,
    /// When what its clock runs for began.
    since: Instant,
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
            quick: None,
            sending: None,
            handed: 0,
            busy: false,
            reading: None,
            since: Instant::now(),
            writing: None,
            lingered: 0,
            shut: false,
        };
        (guard, shared)
    }

    /// Answers the requests that it knows by their bytes; the others are handed on.
    pub fn quick(mut self, quick: Option<Box<dyn Quick>>) -> Self {
        self.quick = quick;
        self
    }

    /// Sends what answers by bytes alone.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        match sending.poll(&mut self.io, context) {
            Poll::Pending => {
                self.stalled(context)?;
                Poll::Pending
            }
            Poll::Ready(done) => {
                self.writing = None;
                if let (Some(quick), Some(sending)) = (&self.quick, self.sending.take()) {
                    quick.sent(&sending);
                }
                Poll::Ready(done)
            }
        }
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
        if let (Ok(Some(end)), Some(quick), false) = (&found, &self.quick, self.busy) {
            self.sending = quick.answer(&self.buffer[..*end]);
            if self.sending.is_some() {
                self.buffer.advance(*end);
                self.state = State::Head(Ends::default());
                return Ok(());
            }
        }
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
                (self.handed, self.busy) = (self.handed + 1, true);
                if self.quick.is_some() {
                    let head = Bytes::copy_from_slice(&self.buffer[..end]);
                    self.shared.heads.lock().unwrap_or_else(PoisonError::into_inner).push_back(head);
                }
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
            self.since = Instant::now();
            self.reading = Some((Box::pin(tokio::time::sleep(limit)), phase));
        }
        let Some((sleep, _)) = &mut self.reading else { return false };
        while sleep.as_mut().poll(context).is_ready() {
            // A clock that begins anew is not set anew each time.
            if self.since + limit > Instant::now() {
                sleep.as_mut().reset(self.since + limit);
                continue;
            }
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

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        if let (Some(quick), Some(sending)) = (&self.quick, &self.sending) {
            quick.sent(sending);
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.send(context))?;
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
                if this.ready > 0 || this.sending.is_some() {
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
                        this.since = Instant::now();
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
        let this = self.get_mut();
        ready!(Pin::new(&mut this.io).poll_flush(context))?;
        // What hyper had buffered of an answer is written when it gets here.
        if this.shared.answered.load(Ordering::Acquire) == this.handed {
            this.busy = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.send(context))?;
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

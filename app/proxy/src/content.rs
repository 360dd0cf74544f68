//! The bytes of a stored response: kept in pieces, read by any number of clients, also while they still come.

use crate::upstream::Body;
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::sync::Notify;

/// So many pieces in a row are put together if they are small: an origin that sends single bytes costs no more memory
/// than another.
const RUN: usize = 256;

/// Pieces are not put together beyond this many bytes.
const LARGE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// More comes.
    Open,
    /// All is there.
    Whole,
    /// No more comes, though it should.
    Broken,
}

/// The bytes of one representation, or some of its ranges.
pub struct Content {
    state: Mutex<State>,
    /// Told when the client that the bytes are fetched for has gone, or has them all.
    left: Notify,
}

struct State {
    /// Sorted by offset, without overlaps.
    pieces: Vec<(u64, Bytes)>,
    /// Behind the last byte that the origin sent.
    written: u64,
    /// How many of the last pieces were not put together yet.
    loose: usize,
    end: End,
    trailers: Option<HeaderMap>,
    /// What the origin still sends where this is not kept: it goes to the one reader directly.
    rest: Option<Body>,
    waiting: Vec<Waker>,
}

impl Content {
    /// Nothing yet; what comes is added from `offset` on. `base`: what was there before.
    pub fn new(base: Option<&Self>, offset: u64) -> Arc<Self> {
        let pieces = base.map_or_else(Vec::new, |base| base.state().pieces.clone());
        let end = End::Open;
        let state = State { pieces, written: offset, loose: 0, end, trailers: None, rest: None, waiting: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), left: Notify::new() })
    }

    /// What is whole.
    pub fn whole(all: Vec<Bytes>, trailers: HeaderMap) -> Arc<Self> {
        let mut written = 0;
        let place = |piece: Bytes| {
            let at = written;
            written += piece.len() as u64;
            (at, piece)
        };
        let pieces = all.into_iter().map(place).collect();
        let trailers = (!trailers.is_empty()).then_some(trailers);
        let (loose, end, rest, waiting) = (0, End::Whole, None, Vec::new());
        Arc::new(Self {
            state: Mutex::new(State { pieces, written, loose, end, trailers, rest, waiting }),
            left: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what the origin sent next. It is copied: the buffer that it came in may be much larger.
    pub fn add(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.insert(Bytes::copy_from_slice(bytes));
        state.wake();
    }

    /// The origin has ended, or broken off. Only the first end counts.
    pub fn end(&self, whole: bool, trailers: Option<HeaderMap>) {
        let mut state = self.state();
        if state.end == End::Open {
            state.end = if whole { End::Whole } else { End::Broken };
            state.trailers = trailers;
            state.wake();
        }
    }

    /// This is not kept: the one reader takes what is here, then `rest` from the origin itself.
    pub fn hand_over(&self, rest: Body) {
        let mut state = self.state();
        state.rest = Some(rest);
        state.wake();
    }

    /// Returns when the client that the bytes are fetched for does not read any more.
    pub async fn left(&self) {
        self.left.notified().await;
    }

    /// These bytes. They may still be on their way.
    pub fn range(self: &Arc<Self>, range: Range<u64>) -> Reading {
        Reading { content: Arc::clone(self), at: range.start, until: Some(range.end), rest: None, done: false }
    }

    /// These bytes, if all of them are there.
    pub fn pieces(&self, range: Range<u64>) -> Option<Vec<Bytes>> {
        let state = self.state();
        let (mut at, mut pieces) = (range.start, Vec::new());
        while at < range.end {
            let piece = state.piece(at, range.end)?;
            at += piece.len() as u64;
            pieces.push(piece);
        }
        Some(pieces)
    }

    /// All from `at` to where the origin ends.
    pub fn tail(self: &Arc<Self>, at: u64) -> Reading {
        Reading { content: Arc::clone(self), at, until: None, rest: None, done: false }
    }
}

impl State {
    /// What is there already is not overwritten: it is the same by the validator.
    fn insert(&mut self, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let at = self.written;
            let index = self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= at);
            let room = match self.pieces.get(index) {
                Some((start, piece)) if *start <= at => {
                    let known = (start + piece.len() as u64 - at).min(bytes.len() as u64);
                    bytes.advance(known as usize);
                    self.written += known;
                    continue;
                }
                next => next.map_or(bytes.len() as u64, |(start, _)| (start - at).min(bytes.len() as u64)),
            };
            self.pieces.insert(index, (at, bytes.split_to(room as usize)));
            self.written += room;
            // Only a run at the end is put together; behind a hole there are few.
            self.loose = if index + 1 == self.pieces.len() { self.loose + 1 } else { 0 };
            if self.loose == RUN {
                self.put_together();
            }
        }
    }

    fn put_together(&mut self) {
        let from = self.pieces.len() - self.loose;
        self.loose = 0;
        let touching = self.pieces[from..].windows(2).all(|two| two[0].0 + two[0].1.len() as u64 == two[1].0);
        let sum: usize = self.pieces[from..].iter().map(|(_, piece)| piece.len()).sum();
        if !touching || sum > LARGE {
            return;
        }
        let start = self.pieces[from].0;
        let mut all = BytesMut::with_capacity(sum);
        for (_, piece) in self.pieces.drain(from..) {
            all.extend_from_slice(&piece);
        }
        self.pieces.push((start, all.freeze()));
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Bytes from `at` on, `until` at most.
    fn piece(&self, at: u64, until: u64) -> Option<Bytes> {
        let index = self.pieces.partition_point(|(start, piece)| start + piece.len() as u64 <= at);
        let (start, piece) = self.pieces.get(index).filter(|(start, _)| *start <= at && at < until)?;
        let from = (at - start) as usize;
        Some(piece.slice(from..piece.len().min(from + usize::try_from(until - at).unwrap_or(usize::MAX - from))))
    }
}

/// A client's way through the bytes.
pub struct Reading {
    content: Arc<Content>,
    at: u64,
    /// `None`: to where the origin ends.
    until: Option<u64>,
    rest: Option<Body>,
    done: bool,
}

impl http_body::Body for Reading {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if let Some(rest) = &mut this.rest {
            return Pin::new(rest).poll_frame(context);
        }
        if this.done {
            return Poll::Ready(None);
        }
        let mut state = this.content.state();
        let until = this.until.unwrap_or(state.written);
        if let Some(bytes) = state.piece(this.at, until) {
            this.at += bytes.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if this.until == Some(this.at) {
            this.done = true;
            return Poll::Ready(None);
        }
        if let Some(rest) = state.rest.take() {
            // Nobody else reads it.
            state.pieces = Vec::new();
            drop(state);
            let frame = ready!(Pin::new(this.rest.insert(rest)).poll_frame(context));
            return Poll::Ready(frame);
        }
        match (state.end, this.until) {
            (End::Open, _) => {
                if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
            (End::Whole, None) => {
                this.done = true;
                Poll::Ready(state.trailers.clone().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            _ => {
                this.done = true;
                Poll::Ready(Some(Err(io::Error::other("the origin's answer broke off"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            Some(rest) => rest.is_end_stream(),
            None => self.done || self.until == Some(self.at),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match (self.until, &self.rest) {
            (_, Some(rest)) => rest.size_hint(),
            (Some(until), None) => SizeHint::with_exact(until - self.at),
            (None, None) => SizeHint::default(),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.until.is_none() {
            self.content.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use http_body_util::BodyExt;

    /// What a reader of these bytes gets before it has to wait, and whether it came to an end.
    fn read(mut reading: Reading) -> (String, bool) {
        let mut text = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut reading).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => text.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Poll::Ready(None) => return (String::from_utf8(text).unwrap(), true),
                Poll::Ready(Some(Err(_))) | Poll::Pending => return (String::from_utf8(text).unwrap(), false),
            }
        }
    }

    #[test]
    fn parts_fill_holes_and_overwrite_nothing() {
        let first = Content::new(None, 2);
        first.add(b"cde");
        let second = Content::new(Some(&first), 8);
        second.add(b"ij");
        let all = Content::new(Some(&second), 0);
        all.add(b"abXX");
        all.add(b"XfghX");
        assert_eq!(read(all.range(0..10)), ("abcdefghij".into(), true));
        assert_eq!(read(all.range(3..9)), ("defghi".into(), true));
        // What was there before is not what the origin sends.
        assert_eq!(read(all.tail(5)), ("fghi".into(), false));
        all.end(true, None);
        assert_eq!(read(all.tail(5)), ("fghi".into(), true));
        assert_eq!(read(first.range(0..5)), (String::new(), false), "its beginning is not there");
    }

    #[test]
    fn single_bytes_are_put_together() {
        let content = Content::new(None, 0);
        for byte in 0..10_000 {
            content.add(&[b'a' + (byte % 26) as u8]);
        }
        assert!(content.state().pieces.len() < 2 * RUN);
        let (text, _) = read(content.range(0..10_000));
        assert!(text.len() == 10_000 && text.bytes().enumerate().all(|(at, byte)| byte == b'a' + (at % 26) as u8));
    }

    #[test]
    fn only_the_first_end_counts() {
        let content = Content::new(None, 0);
        content.add(b"a");
        content.end(false, None);
        content.end(true, None);
        assert_eq!(read(content.tail(0)), ("a".into(), false));
        assert_eq!(read(content.range(0..1)), ("a".into(), true));
    }

    #[test]
    fn the_rest_comes_from_the_origin() {
        let content = Content::new(None, 0);
        content.add(b"kept ");
        let rest = http_body_util::Full::new(Bytes::from_static(b"rest")).map_err(|never| match never {});
        content.hand_over(rest.boxed_unsync());
        assert_eq!(read(content.tail(0)), ("kept rest".into(), true));
    }
}

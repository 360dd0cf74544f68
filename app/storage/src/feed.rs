//! The body of an answer: bytes that are there, or messages as they come (Server-Sent Events).

use bytes::Bytes;
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// A body.
#[derive(Debug)]
pub enum Feed {
    /// What is there.
    Whole(Bytes),
    /// What comes, until nobody can send any more.
    Messages(Receiver<Bytes>),
}

impl http_body::Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Feed::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Feed::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Feed::Messages(messages) => messages.poll_recv(context).map(|bytes| bytes.map(|it| Ok(Frame::data(it)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Feed::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Feed::Whole(bytes) => http_body::SizeHint::with_exact(bytes.len() as u64),
            Feed::Messages(_) => http_body::SizeHint::default(),
        }
    }
}

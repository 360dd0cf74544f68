//! What is to be had by HTTP: pings go in, `/metrics` and `/healthz` come out. No address of a sender is kept.

use crate::batch::{self, Refusal, Unread};
use crate::counters::Counters;
use crate::programs::Programs;
use crate::tokens::Tokens;
use crate::writer::Job;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use ping::Day;
use serde::Serialize;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// KiB of bodies, and of what came out of them, in memory at once.
pub const ROOM: usize = 256 << 10;
/// Bytes that a request counts as at least.
const LEAST: usize = 4 << 10;

/// What all connections share.
pub struct Hall {
    /// Where batches go. Each connection has one under way at most.
    pub jobs: Sender<Job>,
    /// What was done.
    pub counters: Arc<Counters>,
    /// [`ROOM`].
    pub room: Semaphore,
    /// Whose pings are taken.
    pub programs: Programs,
    /// Who may send; `None`: everybody on this machine.
    pub tokens: Option<Tokens>,
    /// What is shown by TLS; `None`: plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// How long a client may take for the handshake, for the head of a request (or until there is one), and for its
    /// body.
    pub patience: Duration,
}

/// The answer to pings.
#[derive(Serialize)]
struct Answer {
    schema: &'static str,
    accepted: u64,
    duplicates: u64,
    refused: Vec<Refusal>,
}

/// What a request has of the room.
struct Share<'a> {
    room: &'a Semaphore,
    held: SemaphorePermit<'a>,
}

impl<'a> Share<'a> {
    fn new(room: &'a Semaphore) -> Option<Self> {
        Some(Self { room, held: room.try_acquire_many(permits(LEAST)).ok()? })
    }

    /// Has so many bytes then; `false`: so many are not free.
    fn set(&mut self, bytes: usize) -> bool {
        let (held, wanted) = (self.held.num_permits() as u32, permits(bytes.max(LEAST)));
        if wanted < held {
            drop(self.held.split((held - wanted) as usize));
        } else if wanted > held {
            let Ok(more) = self.room.try_acquire_many(wanted - held) else { return false };
            self.held.merge(more);
        }
        true
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// Serves a connection, until it ends or all is to end.
pub async fn serve(hall: Arc<Hall>, socket: TcpStream, place: OwnedSemaphorePermit, stop: watch::Receiver<bool>) {
    match hall.tls.clone() {
        None => talk(hall, socket, stop).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(hall.patience, tls.accept(socket)).await {
                talk(hall, stream, stop).await;
            }
        }
    }
    drop(place);
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(hall: Arc<Hall>, stream: S, mut stop: watch::Receiver<bool>) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(hall.patience).max_headers(64).max_buf_size(64 << 10);
    let service = hyper::service::service_fn(move |request| {
        let hall = Arc::clone(&hall);
        async move { Ok::<_, Infallible>(answer(&hall, request).await) }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let goes_on = tokio::select! {
        _ = connection.as_mut() => false,
        _ = async { stop.wait_for(|stop| *stop).await.is_ok() } => true,
    };
    if goes_on {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

fn reply(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::INSUFFICIENT_STORAGE) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
    }
    response
}

fn said(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", text.into() + "\n")
}

async fn answer(hall: &Hall, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if path != "/healthz" && hall.tokens.as_ref().is_some_and(|tokens| !tokens.admit(request.headers())) {
        hall.counters.unauthorized.fetch_add(1, Relaxed);
        let mut response = said(StatusCode::UNAUTHORIZED, "this needs a token: Authorization: Bearer TOKEN");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        // Nothing more is read of who has none.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    match (request.method(), path) {
        (&Method::POST, "/v1/pings") => take(hall, request).await,
        (&Method::GET, "/metrics") => {
            reply(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", hall.counters.text())
        }
        (&Method::GET, "/healthz") => said(StatusCode::OK, "ok"),
        (_, "/v1/pings" | "/metrics" | "/healthz") => said(StatusCode::METHOD_NOT_ALLOWED, "not so"),
        _ => said(StatusCode::NOT_FOUND, "there is no such thing"),
    }
}

/// Why a body is not there.
enum Missing {
    /// There are more bytes than may be.
    Large,
    /// Bodies of others fill the room.
    Crowded,
    /// The client has ended it, or its time is over.
    Torn,
}

/// The body, as it comes: what was announced and does not come takes no room from others.
async fn body(mut incoming: Incoming, share: &mut Share<'_>, patience: Duration) -> Result<Vec<u8>, Missing> {
    let come = async {
        let mut all = Vec::new();
        while let Some(frame) = incoming.frame().await {
            let Ok(piece) = frame.map_err(|_| Missing::Torn)?.into_data() else { continue };
            if all.len() + piece.len() > batch::MOST_BODY {
                return Err(Missing::Large);
            }
            if !share.set(all.len() + piece.len()) {
                return Err(Missing::Crowded);
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    };
    timeout(patience, come).await.unwrap_or(Err(Missing::Torn))
}

async fn take(hall: &Hall, request: Request<Incoming>) -> Response<Full<Bytes>> {
    // A page of a web site that is open in a browser here sends its origin: it has nothing to tell.
    if request.headers().contains_key(header::ORIGIN) {
        return said(StatusCode::FORBIDDEN, "pages of web sites send no pings");
    }
    let crowded = || said(StatusCode::SERVICE_UNAVAILABLE, "too much at once");
    let Some(mut share) = Share::new(&hall.room) else { return crowded() };
    let encoding = match request.headers().get(header::CONTENT_ENCODING).map(HeaderValue::to_str) {
        None => None,
        Some(Ok(name)) => Some(name.to_owned()),
        Some(Err(_)) => return unread(&Unread::Encoding),
    };
    let body = match body(request.into_body(), &mut share, hall.patience).await {
        Ok(body) => body,
        Err(Missing::Large) => return unread(&Unread::Large(format!("more than {} bytes", batch::MOST_BODY))),
        Err(Missing::Crowded) => return crowded(),
        Err(Missing::Torn) => return said(StatusCode::REQUEST_TIMEOUT, "the body did not come whole"),
    };
    if encoding.is_some() && !share.set(batch::MOST_UNPACKED) {
        return crowded();
    }
    let judged =
        batch::unpack(encoding.as_deref(), body).and_then(|bytes| batch::judge(&bytes, Day::today(), &hall.programs));
    let mut batch = match judged {
        Ok(batch) => batch,
        Err(why) => return unread(&why),
    };
    share.set(batch.lines.iter().map(|(_, line)| line.len()).sum());
    let refused = std::mem::take(&mut batch.refused);
    let (done, kept) = oneshot::channel();
    if hall.jobs.send(Job { batch, done }).is_err() {
        return said(StatusCode::SERVICE_UNAVAILABLE, "the thread that writes has ended");
    }
    match kept.await {
        Ok(Ok((accepted, duplicates))) => {
            refused.iter().for_each(|refusal| hall.counters.refuse(refusal.reason));
            let answer = Answer { schema: "thaw.fleet-answer/1", accepted, duplicates, refused };
            reply(StatusCode::OK, "application/json", serde_json::to_vec(&answer).expect("numbers and texts"))
        }
        Ok(Err(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) => {
            said(StatusCode::INSUFFICIENT_STORAGE, "the disk is full: nothing of this was kept")
        }
        _ => said(StatusCode::SERVICE_UNAVAILABLE, "the disk did not take it: nothing of this was kept"),
    }
}

fn unread(why: &Unread) -> Response<Full<Bytes>> {
    match why {
        Unread::Large(text) => said(StatusCode::PAYLOAD_TOO_LARGE, text),
        Unread::Broken(text) => said(StatusCode::BAD_REQUEST, format!("it cannot be unpacked: {text}")),
        Unread::Encoding => said(StatusCode::UNSUPPORTED_MEDIA_TYPE, "only identity, gzip and zstd"),
    }
}

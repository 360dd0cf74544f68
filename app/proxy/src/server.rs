//! Clients: who is let in, what is refused, and the way of a request to its answer.

use crate::again;
use crate::caching::{self, Caching, Did};
use crate::fields;
use crate::guard::{self, Clocks, Guard, Quick, Sending, Shared, Side};
use crate::head::{Limits, Refusal};
use crate::log::{Line, Log};
use crate::metrics::{Metrics, count};
use crate::origins::Origins;
use crate::store::Hit;
use crate::upstream::{Body, Failure, Origin, empty};
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// How an HTTP/2 connection of a client that knows begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What clients may do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one origin of a reverse proxy; none: a forward proxy.
    pub reverse: Option<Origin>,
    /// Of heads.
    pub limits: Limits,
    /// Against slow ones.
    pub clocks: Clocks,
    /// Bytes of a request's body.
    pub body: u64,
}

/// The proxy.
pub struct Proxy {
    /// What clients may do.
    pub settings: Settings,
    /// The way to them.
    pub origins: Arc<Origins>,
    /// The cache, if there is one.
    pub caching: Option<Arc<Caching>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The access log.
    pub log: Option<Log>,
}

/// A client's connection, which ends only with its last tunnel.
struct Client {
    address: SocketAddr,
    shared: Arc<Shared>,
    proxy: Arc<Proxy>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.proxy.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a client until its connection ends; once `stop` is true, until the answers under way have.
pub async fn serve(
    proxy: Arc<Proxy>,
    mut socket: TcpStream,
    address: SocketAddr,
    place: OwnedSemaphorePermit,
    mut stop: watch::Receiver<bool>,
) {
    let Settings { limits, clocks, .. } = proxy.settings;
    proxy.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let _ = socket.set_nodelay(true);
    let mut read = BytesMut::with_capacity(4096);
    let preface = tokio::time::timeout(clocks.head.max(clocks.idle), async {
        while PREFACE.starts_with(&read) {
            if read.len() == PREFACE.len() {
                return true;
            }
            if !matches!(socket.read_buf(&mut read).await, Ok(1..)) {
                return false;
            }
            if read.len() > PREFACE.len() {
                break;
            }
        }
        read.starts_with(PREFACE)
    });
    let two = preface.await.unwrap_or(false);
    let (guard, shared) = Guard::new(socket, Side::Client, read, two, limits, clocks);
    // HTTP/2 has no heads that are the same byte for byte.
    let quick = (!two && proxy.caching.is_some())
        .then(|| Box::new(Front { address: address.ip(), proxy: Arc::clone(&proxy) }) as Box<dyn Quick>);
    let guard = guard.quick(quick);
    let client = Arc::new(Client { address, shared, proxy, _place: place });
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(answer(client, request).await) }
    });
    let io = TokioIo::new(guard);
    // Errors are the client's: it is gone, or was too slow.
    if two {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(128)
            .max_header_list_size(u32::try_from(limits.bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(clocks.idle)
            .keep_alive_timeout(clocks.head);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(None);
        builder.max_headers(limits.fields).max_buf_size(guard::buffer(&limits));
        let mut connection = pin!(builder.serve_connection(io, service).with_upgrades());
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// Answers what comes again byte for byte.
struct Front {
    address: IpAddr,
    proxy: Arc<Proxy>,
}

impl Quick for Front {
    fn answer(&self, head: &[u8]) -> Option<Sending> {
        let sending = self.proxy.caching.as_ref()?.again.answer(head, SystemTime::now())?;
        // Before the client can have it.
        let metrics = &self.proxy.metrics;
        count(&metrics.requests);
        count(&metrics.cache_again);
        Did::Hit.count(metrics);
        Some(sending)
    }

    fn sent(&self, sending: &Sending) {
        let bytes = sending.length - sending.left();
        self.proxy.metrics.bytes.fetch_add(bytes, Ordering::Relaxed);
        let Some(log) = &self.proxy.log else { return };
        let line = sending.request.split(|byte| *byte == b'\r').find(|line| line.len() > 1).unwrap_or_default();
        let whole = sending.began.elapsed();
        log.tell(&Line {
            client: self.address,
            at: SystemTime::now() - whole,
            request: String::from_utf8_lossy(line).into_owned(),
            status: sending.status,
            bytes,
            first: Duration::ZERO,
            whole,
            complete: sending.is_done(),
            cache: Did::Hit.word(),
        });
    }
}

/// Says to a client that there are too many.
pub fn turn_away(socket: &TcpStream) {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
                          content-length: 0\r\n\r\n";
    // The buffer of a new socket holds it; nobody waits for a client that does not read.
    let _ = socket.try_write(BUSY);
}

/// What is known of a request while it is answered.
struct Course {
    began: Instant,
    line: Line,
}

/// Counts what a client is sent, tells the log at the end, and lets the connection's idle clock run again.
struct Counted {
    inner: Body,
    /// Bytes that its head announces.
    announced: Option<u64>,
    client: Arc<Client>,
    course: Course,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => this.course.line.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            None => this.course.line.complete = true,
            Some(Err(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let proxy = &self.client.proxy;
        let line = &mut self.course.line;
        line.whole = self.course.began.elapsed();
        // Who has read all that was announced asks for no end.
        line.complete |= self.inner.is_end_stream() || self.announced == Some(line.bytes);
        proxy.metrics.bytes.fetch_add(line.bytes, Ordering::Relaxed);
        if let Some(log) = &proxy.log {
            log.tell(line);
        }
        self.client.shared.answered.fetch_add(1, Ordering::AcqRel);
        self.client.shared.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn answer(client: Arc<Client>, request: Request<Incoming>) -> Response<Body> {
    client.shared.under_way.fetch_add(1, Ordering::AcqRel);
    count(&client.proxy.metrics.requests);
    let began = Instant::now();
    let version = request.version();
    let refused = request.method().as_str() == guard::REFUSED;
    let line = match refused {
        true => "-".to_owned(),
        false => format!("{} {} {version:?}", request.method(), request.uri()),
    };
    let head = client.shared.head().filter(|_| !refused && again::is_repeatable(&request));
    let outcome = match refused {
        true => Err(client.shared.refusal().unwrap_or(Refusal::bad("a method that is none")).into()),
        false => route(&client, request).await,
    };
    let answer = outcome.unwrap_or_else(|trouble| trouble.answer(&client, version));
    let mut answer = answer;
    if let (Some(caching), Some(hit), Some(head)) =
        (&client.proxy.caching, answer.extensions_mut().remove::<Hit>(), head)
    {
        caching.again.keep(head, &answer, hit);
    }
    let did = answer.extensions().get::<Did>().copied();
    if let Some(did) = did {
        did.count(&client.proxy.metrics);
    }
    let line = Line {
        client: client.address.ip(),
        at: SystemTime::now(),
        request: line,
        status: answer.status().as_u16(),
        bytes: 0,
        first: began.elapsed(),
        whole: Duration::ZERO,
        complete: false,
        cache: did.map_or("-", Did::word),
    };
    let course = Course { began, line };
    let announced = answer.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    answer.map(|inner| Counted { inner, announced, client, course }.boxed_unsync())
}

/// Why a request has no answer but ours.
enum Trouble {
    Refused(Refusal),
    Failed(Failure),
}

impl From<Refusal> for Trouble {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

impl From<Failure> for Trouble {
    fn from(why: Failure) -> Self {
        Self::Failed(why)
    }
}

impl Trouble {
    /// Our answer, which says why. What comes behind a refused request on its connection is not read.
    fn answer(&self, client: &Client, version: Version) -> Response<Body> {
        let metrics = &client.proxy.metrics;
        // Where the body of the request broke on its way, the client is to blame and not the origin.
        let (status, why) = match (self, &client.shared.refusal()) {
            (Self::Refused(why), _) | (Self::Failed(Failure::Broken(_)), Some(why)) => (why.status, why.to_string()),
            (Self::Failed(Failure::Broken(error)), _) if is_too_large(error) => (413, "a body too large".to_owned()),
            (Self::Failed(Failure::Late), _) => (504, Failure::Late.to_string()),
            (Self::Failed(failure), _) => (502, failure.to_string()),
        };
        let is_refused = status < 500 || matches!(self, Self::Refused(_));
        count(if is_refused { &metrics.refused } else { &metrics.errors });
        let mut answer = Response::new(text(format!("thaw proxy: {why}\n")));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let fields = answer.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if version != Version::HTTP_2 && is_refused {
            fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// The error of a body that is beyond the limit.
#[derive(Debug)]
struct TooLarge;

impl std::fmt::Display for TooLarge {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a body too large")
    }
}

impl std::error::Error for TooLarge {}

fn is_too_large(error: &hyper::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<TooLarge>() {
            return true;
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if inner.is_some_and(|inner| inner.is::<TooLarge>()) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The body of a request, up to a limit.
struct Bounded {
    inner: Incoming,
    left: u64,
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            let len = frame.data_ref().map_or(0, |data| data.len() as u64);
            match this.left.checked_sub(len) {
                Some(left) => this.left = left,
                None => return Poll::Ready(Some(Err(io::Error::other(TooLarge)))),
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Where a request goes, and asks there.
async fn route(client: &Arc<Client>, request: Request<Incoming>) -> Result<Response<Body>, Trouble> {
    let proxy = &client.proxy;
    if request.method() == Method::CONNECT {
        return tunnel(client, request).await;
    }
    if request.method() == Method::TRACE {
        // It would tell scripts what fields the proxies on the way have added.
        return Err(Refusal { status: 501, why: "TRACE is not passed on" }.into());
    }
    let host = fields::host(&request)?;
    let origin = match (&proxy.settings.reverse, request.uri().scheme_str()) {
        (Some(origin), _) => origin.clone(),
        (None, Some(scheme @ ("http" | "https"))) => Origin::new(scheme == "https", &host)?,
        (None, _) => return Err(Refusal::bad("this is a forward proxy: the target has to be a whole URL").into()),
    };
    if request.body().size_hint().lower() > proxy.settings.body {
        return Err(Refusal { status: 413, why: "a body too large" }.into());
    }
    let (mut parts, body) = request.into_parts();
    let expects = parts.headers.remove(header::EXPECT);
    if expects.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal { status: 417, why: "an expectation other than 100-continue" }.into());
    }
    fields::strip(&mut parts.headers)?;
    if fields::has_been_here(&parts.headers, &proxy.origins.pseudonym) {
        return Err(Refusal { status: 508, why: "the request came in a circle" }.into());
    }
    if let Some(answer) = last_stop(&mut parts)? {
        return Ok(answer);
    }
    fields::via(&mut parts.headers, parts.version, &proxy.origins.pseudonym);
    let version = parts.version;
    let host = HeaderValue::from_str(&host).map_err(|_| Refusal::bad("a host that is none"))?;
    parts.headers.insert(header::HOST, host);
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    parts.uri = Uri::from(path);
    parts.version = Version::HTTP_11;
    if version == Version::HTTP_2 {
        one_cookie(&mut parts.headers);
    }
    let body = (!body.is_end_stream()).then(|| Bounded { inner: body, left: proxy.settings.body }.boxed_unsync());
    Ok(match &proxy.caching {
        Some(caching) => caching::answer(&proxy.origins, caching, origin, parts, body).await?,
        None => proxy.origins.ask(&origin, parts, body).await?,
    })
}

/// RFC 9110, 7.6.2: OPTIONS goes so many steps, and is answered at the last.
fn last_stop(parts: &mut http::request::Parts) -> Result<Option<Response<Body>>, Refusal> {
    let Some(steps) = parts.headers.get(header::MAX_FORWARDS).filter(|_| parts.method == Method::OPTIONS) else {
        return Ok(None);
    };
    let steps = steps.to_str().ok().and_then(|steps| steps.parse::<u32>().ok());
    let steps = steps.ok_or(Refusal::bad("a Max-Forwards that is no number"))?;
    let Some(left) = steps.checked_sub(1) else {
        let mut answer = Response::new(empty());
        answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        return Ok(Some(answer));
    };
    parts.headers.insert(header::MAX_FORWARDS, HeaderValue::from(left));
    Ok(None)
}

/// RFC 9113, 8.2.3: the pieces of Cookie are one field again before they go where HTTP/1 is spoken.
fn one_cookie(fields: &mut http::HeaderMap) {
    let pieces: Vec<&[u8]> = fields.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() > 1
        && let Ok(value) = HeaderValue::from_bytes(&pieces.join(&b"; "[..]))
    {
        fields.insert(header::COOKIE, value);
    }
}

/// CONNECT (RFC 9110, 9.3.6): bytes go both ways until one side has ended, and nothing is looked at.
async fn tunnel(client: &Arc<Client>, request: Request<Incoming>) -> Result<Response<Body>, Trouble> {
    let proxy = &client.proxy;
    if proxy.settings.reverse.is_some() {
        return Err(Refusal { status: 405, why: "a reverse proxy makes no tunnels" }.into());
    }
    let authority = request.uri().authority().ok_or(Refusal::bad("CONNECT without a host"))?;
    if crate::head::authority(authority.as_str().as_bytes())?.1.is_none() {
        return Err(Refusal::bad("CONNECT without a port").into());
    }
    let origin = Origin::new(false, authority.as_str())?;
    let mut there = match proxy.origins.upstream.tcp(&origin).await {
        Ok(there) => there,
        // What the client sends behind its CONNECT is not for us: the connection ends with this answer.
        Err(failure) => {
            let mut answer = Trouble::from(failure).answer(client, request.version());
            if request.version() != Version::HTTP_2 {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            return Ok(answer);
        }
    };
    count(&proxy.metrics.tunnels);
    let client = Arc::clone(client);
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        // Its place among the connections is taken as long as the tunnel is.
        let _client = client;
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut there).await;
    });
    Ok(Response::new(empty()))
}

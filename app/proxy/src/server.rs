//! Clients: who is let in, what is refused, and the way of a request to its answer.

use crate::again;
use crate::caching::{self, Caching, Did};
use crate::fields;
use crate::guard::{self, Clocks, Guard, Quick, Sending, Shared, Side};
use crate::head::{Limits, Refusal};
use crate::log::{Line, Log};
use crate::metrics::{Metrics, count};
use crate::origins::Origins;
use crate::pace::{Pace, Verdict};
use crate::socket::{Open, Socket};
use crate::store::Hit;
use crate::tls::{As, Tls};
use crate::tunnel;
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
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

/// How an HTTP/2 connection of a client that knows begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP/2 (RFC 9113, 6.5.2): streams of one connection at once.
const STREAMS: u32 = 128;

/// Bytes that a client may send on one stream, and on all of a connection, before any of it is taken.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);

/// Bytes of the largest frame that is taken.
const FRAME: u32 = 64 << 10;

/// Bytes of an answer that wait in one stream for the client: enough for a fast one, and little to hold for one that
/// takes nothing.
const WAITING: usize = 512 << 10;

/// Streams that a client has reset before they were looked at (rapid reset, CVE-2023-44487), and those that were reset
/// here since they were malformed: beyond so many the connection ends.
const RESETS: (usize, usize) = (32, 64);

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
    /// TLS towards clients, where it is spoken.
    pub tls: Option<Arc<Tls>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The access log.
    pub log: Option<Log>,
}

/// A client's place among the connections, which it has until its last tunnel ends.
struct Place {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client that has come.
#[derive(Clone)]
struct Visit {
    proxy: Arc<Proxy>,
    address: SocketAddr,
    /// Inside a tunnel that is answered here: the origin that it was to lead to. All requests are for it.
    inside: Option<Arc<Origin>>,
    stop: watch::Receiver<bool>,
    /// Of the socket under it, where nothing but this goes over it.
    open: Open,
    _place: Arc<Place>,
}

/// A connection of a client.
struct Client {
    visit: Visit,
    shared: Arc<Shared>,
    /// Of HTTP/2.
    pace: Option<Arc<Pace>>,
}

/// A request, or a tunnel, while it lasts: the connection is not idle.
struct UnderWay(Arc<Client>);

impl UnderWay {
    fn new(client: &Arc<Client>) -> Self {
        client.shared.under_way.fetch_add(1, Ordering::AcqRel);
        client.moved();
        Self(Arc::clone(client))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.shared.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.moved();
    }
}

impl Client {
    fn moved(&self) {
        if let Some(pace) = &self.pace {
            pace.moved(Instant::now());
        }
    }
}

/// Serves a client until its connection ends; once `stop` is true, until the answers under way have. `tls`: it speaks
/// TLS, or is sent away.
pub async fn serve(
    proxy: Arc<Proxy>,
    socket: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    stop: watch::Receiver<bool>,
    tls: bool,
) {
    proxy.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let _ = socket.set_nodelay(true);
    let place = Arc::new(Place { metrics: Arc::clone(&proxy.metrics), _permit: permit });
    let open = Open::default();
    let visit = Visit { proxy, address, inside: None, stop, open: open.clone(), _place: place };
    let Ok(local) = socket.local_addr() else { return };
    let socket = Socket::new(socket, open);
    if !tls {
        return plain(visit, socket).await;
    }
    secured(visit, Box::new(socket), As::Proxy(local.ip())).await;
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A client that is to speak TLS.
async fn secured(visit: Visit, wire: Box<dyn Wire>, whom: As<'_>) {
    let proxy = &visit.proxy;
    let Some(tls) = &proxy.tls else { return };
    let stream = match tls.accept(wire, whom, proxy.settings.clocks.head).await {
        Ok(stream) => stream,
        Err(_) => return count(&proxy.metrics.tls_handshakes_failed),
    };
    count(&proxy.metrics.tls_handshakes);
    // What was agreed on is spoken, and nothing else.
    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    converse::<TlsStream<Box<dyn Wire>>>(visit, stream, BytesMut::new(), two).await;
}

/// What a tunnel that leads to this origin brings. A type with a name: it is part of what it is called by.
fn intercepted(visit: Visit, wire: Box<dyn Wire>, origin: Arc<Origin>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let visit = Visit { inside: Some(Arc::clone(&origin)), ..visit };
        secured(visit, wire, As::Host(origin.bare())).await;
    })
}

/// A client without TLS: by its first bytes it says what it speaks.
async fn plain(visit: Visit, mut socket: Socket) {
    let clocks = visit.proxy.settings.clocks;
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
    converse(visit, socket, read, two).await;
}

/// Answers the requests of a connection, `two`: of HTTP/2. `read` was read of it already.
async fn converse<T>(visit: Visit, io: T, read: BytesMut, two: bool)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Settings { limits, clocks, .. } = visit.proxy.settings;
    let (guard, shared) = Guard::new(io, Side::Client, read, two, limits, clocks);
    // HTTP/2 has no heads that are the same byte for byte.
    let quick = (!two && visit.proxy.caching.is_some()).then(|| Box::new(Front(visit.clone())) as Box<dyn Quick>);
    let guard = guard.quick(quick);
    let mut stop = visit.stop.clone();
    let pace = two.then(|| Arc::new(Pace::new(Instant::now())));
    let client = Arc::new(Client { visit, shared: Arc::clone(&shared), pace: pace.clone() });
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(answer(client, request).await) }
    });
    let io = TokioIo::new(guard);
    // Errors are the client's: it is gone, or was too slow.
    if let Some(pace) = pace {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .adaptive_window(false)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_frame_size(FRAME)
            .max_send_buf_size(WAITING)
            .max_pending_accept_reset_streams(RESETS.0)
            .max_local_error_reset_streams(RESETS.1)
            .max_header_list_size(u32::try_from(limits.bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(clocks.idle)
            .keep_alive_timeout(clocks.head);
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut look = tokio::time::interval(clocks.stall.min(clocks.idle) / 4);
        let mut ending: Option<Instant> = None;
        loop {
            let ends = tokio::select! {
                _ = connection.as_mut() => return,
                _ = stop.wait_for(|stop| *stop), if ending.is_none() => true,
                _ = look.tick() => {
                    let under_way = shared.under_way.load(Ordering::Acquire);
                    match pace.verdict(under_way, &clocks, Instant::now()) {
                        Verdict::Goes => false,
                        // The client does not take the rest of what was answered.
                        Verdict::Idle if ending.is_some_and(|since| since.elapsed() >= clocks.stall) => return,
                        Verdict::Idle => true,
                        Verdict::Stalled => return,
                    }
                }
            };
            if ends && ending.is_none() {
                connection.as_mut().graceful_shutdown();
                ending = Some(Instant::now());
            }
        }
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
struct Front(Visit);

impl Quick for Front {
    fn answer(&self, head: &[u8]) -> Option<Sending> {
        let Visit { proxy, inside, .. } = &self.0;
        let sending = proxy.caching.as_ref()?.again.answer(inside.as_deref(), head, SystemTime::now())?;
        // Before the client can have it.
        let metrics = &proxy.metrics;
        count(&metrics.requests);
        count(&metrics.cache_again);
        Did::Hit.count(metrics);
        Some(sending)
    }

    fn sent(&self, sending: &Sending) {
        let bytes = sending.length - sending.left();
        let Visit { proxy, address, inside, .. } = &self.0;
        proxy.metrics.bytes.fetch_add(bytes, Ordering::Relaxed);
        let Some(log) = &proxy.log else { return };
        let line = sending.request.split(|byte| *byte == b'\r').find(|line| line.len() > 1).unwrap_or_default();
        let whole = sending.began.elapsed();
        log.tell(&Line {
            client: address.ip(),
            at: SystemTime::now() - whole,
            request: whole_target(inside.as_deref(), String::from_utf8_lossy(line).into_owned()),
            status: sending.status,
            bytes,
            first: Duration::ZERO,
            whole,
            complete: sending.is_done(),
            cache: Did::Hit.word(),
        });
    }
}

/// A request line in which the target says for which origin it was, where the connection does.
fn whole_target(inside: Option<&Origin>, line: String) -> String {
    match (inside, line.split_once(' ')) {
        (Some(Origin { host, port: 443, .. }), Some((verb, rest))) if rest.starts_with('/') => {
            format!("{verb} https://{host}{rest}")
        }
        (Some(Origin { host, port, .. }), Some((verb, rest))) if rest.starts_with('/') => {
            format!("{verb} https://{host}:{port}{rest}")
        }
        _ => line,
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
    /// Its end is that of the connection.
    closes: bool,
    /// It has broken off, though it may say that nothing more comes.
    broke: bool,
    client: Arc<Client>,
    course: Course,
    /// Over HTTP/2: the client has to take a piece before the next one is asked for.
    owed: bool,
    _under_way: UnderWay,
}

impl Counted {
    fn owes(&mut self, owes: bool) {
        let Some(pace) = self.client.pace.as_ref().filter(|_| owes != self.owed) else { return };
        if owes {
            pace.given(Instant::now())
        } else {
            pace.taken()
        }
        self.owed = owes;
    }

    fn ended(&self) {
        if self.closes {
            self.client.visit.open.set(false);
        }
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        this.owes(false);
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        this.owes(matches!(frame, Some(Ok(_))));
        match &frame {
            Some(Ok(frame)) => this.course.line.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            None => {
                this.course.line.complete = true;
                this.ended();
            }
            Some(Err(_)) => this.broke = true,
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
        self.owes(false);
        let proxy = &self.client.visit.proxy;
        let line = &mut self.course.line;
        line.whole = self.course.began.elapsed();
        // Who has read all that was announced asks for no end.
        line.complete |= !self.broke && self.inner.is_end_stream() || self.announced == Some(line.bytes);
        proxy.metrics.bytes.fetch_add(line.bytes, Ordering::Relaxed);
        if let Some(log) = &proxy.log {
            log.tell(line);
        }
        if line.complete {
            self.ended();
        }
        self.client.shared.answered.fetch_add(1, Ordering::AcqRel);
    }
}

async fn answer(client: Arc<Client>, request: Request<Incoming>) -> Response<Body> {
    let under_way = UnderWay::new(&client);
    let Visit { proxy, address, inside, .. } = &client.visit;
    count(&proxy.metrics.requests);
    let began = Instant::now();
    let version = request.version();
    let refused = request.method().as_str() == guard::REFUSED;
    let line = match refused {
        true => "-".to_owned(),
        false => {
            let line = format!("{} {} {version:?}", request.method(), request.uri());
            whole_target(inside.as_deref(), line)
        }
    };
    let head = client.shared.head().filter(|_| !refused && again::is_repeatable(&request));
    let outcome = match refused {
        true => Err(client.shared.refusal().unwrap_or(Refusal::bad("a method that is none")).into()),
        false => route(&client, request).await,
    };
    let answer = outcome.unwrap_or_else(|trouble| trouble.answer(&client, version));
    let mut answer = answer;
    if let (Some(caching), Some(hit), Some(head)) = (&proxy.caching, answer.extensions_mut().remove::<Hit>(), head) {
        caching.again.keep(inside.as_ref(), head, &answer, hit);
    }
    let did = answer.extensions().get::<Did>().copied();
    if let Some(did) = did {
        did.count(&proxy.metrics);
    }
    let line = Line {
        client: address.ip(),
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
    let closes = version == Version::HTTP_10 && announced.is_none() && answer.body().size_hint().exact().is_none();
    if closes {
        client.visit.open.set(true);
    }
    answer.map(|inner| {
        let (broke, owed) = (false, false);
        Counted { inner, announced, closes, broke, client, course, owed, _under_way: under_way }.boxed_unsync()
    })
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
        let metrics = &client.visit.proxy.metrics;
        // Where the body of the request broke on its way, the client is to blame and not the origin.
        let broken = match self {
            Self::Failed(Failure::Broken(error)) => client.shared.refusal().or_else(|| unfit(error)),
            _ => None,
        };
        let (status, why) = match (self, broken) {
            (Self::Refused(why), _) => (why.status, why.to_string()),
            (_, Some(why)) => (why.status, why.to_string()),
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

/// The errors of a body that is beyond a limit.
const TOO_LARGE: Refusal = Refusal { status: 413, why: "a body too large" };
const TOO_SLOW: Refusal = Refusal { status: 408, why: "the body did not arrive in time" };

/// Why a body was given up here, if it was.
fn unfit(error: &hyper::Error) -> Option<Refusal> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let why = error.downcast_ref::<Refusal>().or_else(|| inner?.downcast_ref());
        if why.is_some() {
            return why.copied();
        }
        cause = error.source();
    }
    None
}

/// The body of a request, up to a limit.
struct Bounded {
    inner: Incoming,
    left: u64,
    /// Over HTTP/2, where the connection may move while a stream does not.
    pace: Option<(Arc<Pace>, Duration)>,
    late: Option<Pin<Box<Sleep>>>,
}

impl Bounded {
    /// Whether nothing came for too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some((_, stall)) = self.pace else { return false };
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        late.as_mut().poll(context).is_ready()
    }
}

impl http_body::Body for Bounded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            return match this.is_late(context) {
                true => Poll::Ready(Some(Err(io::Error::other(TOO_SLOW)))),
                false => Poll::Pending,
            };
        };
        this.late = None;
        if let Some((pace, _)) = &this.pace {
            pace.moved(Instant::now());
        }
        if let Some(Ok(frame)) = &frame {
            let len = frame.data_ref().map_or(0, |data| data.len() as u64);
            match this.left.checked_sub(len) {
                Some(left) => this.left = left,
                None => return Poll::Ready(Some(Err(io::Error::other(TOO_LARGE)))),
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
    let Visit { proxy, inside, .. } = &client.visit;
    if request.version() == Version::HTTP_2 {
        let uri = request.uri();
        let target = match request.method() == Method::CONNECT {
            true => uri.authority().map_or("", |authority| authority.as_str()),
            false => uri.path_and_query().map_or("", |path| path.as_str()),
        };
        if uri.scheme_str().is_some_and(|scheme| !["http", "https"].contains(&scheme)) {
            return Err(Refusal::bad("a scheme other than http and https").into());
        }
        let fields = request.headers().iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let limits = &proxy.settings.limits;
        crate::head::of_two(request.method().as_str().as_bytes(), target.as_bytes(), fields, limits)?;
    }
    if request.method() == Method::CONNECT {
        return connect(client, request).await;
    }
    if request.method() == Method::TRACE {
        // It would tell scripts what fields the proxies on the way have added.
        return Err(Refusal { status: 501, why: "TRACE is not passed on" }.into());
    }
    let host = fields::host(&request)?;
    let origin = match (inside, &proxy.settings.reverse, request.uri().scheme_str()) {
        (Some(inside), _, scheme) => {
            if scheme.is_some_and(|scheme| scheme != "https") || Origin::new(true, &host)? != **inside {
                return Err(Refusal { status: 421, why: "another origin than that of CONNECT" }.into());
            }
            Origin::clone(inside)
        }
        (None, Some(origin), _) => origin.clone(),
        (None, None, Some(scheme @ ("http" | "https"))) => Origin::new(scheme == "https", &host)?,
        (None, None, _) => return Err(Refusal::bad("this is a forward proxy: the target has to be a whole URL").into()),
    };
    if request.body().size_hint().lower() > proxy.settings.body {
        return Err(TOO_LARGE.into());
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
    let (left, stall) = (proxy.settings.body, proxy.settings.clocks.stall);
    let pace = client.pace.clone().map(|pace| (pace, stall));
    let body = (!body.is_end_stream()).then(|| Bounded { inner: body, left, pace, late: None }.boxed_unsync());
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

/// CONNECT: a tunnel, or what it brings is answered here, where that was asked for.
async fn connect(client: &Arc<Client>, request: Request<Incoming>) -> Result<Response<Body>, Trouble> {
    let Visit { proxy, inside, .. } = &client.visit;
    if inside.is_some() {
        return Err(Refusal { status: 405, why: "a tunnel inside one that is answered here" }.into());
    }
    if proxy.settings.reverse.is_some() {
        return Err(Refusal { status: 405, why: "a reverse proxy makes no tunnels" }.into());
    }
    let authority = request.uri().authority().ok_or(Refusal::bad("CONNECT without a host"))?;
    if crate::head::authority(authority.as_str().as_bytes())?.1.is_none() {
        return Err(Refusal::bad("CONNECT without a port").into());
    }
    let origin = Origin::new(false, authority.as_str())?;
    let under_way = UnderWay::new(client);
    if proxy.tls.as_ref().is_some_and(|tls| tls.intercepts(&origin.host, origin.port)) {
        count(&proxy.metrics.intercepted);
        let (mut visit, origin) = (client.visit.clone(), Arc::new(Origin { tls: true, ..origin }));
        if request.version() == Version::HTTP_2 {
            // There are others on the socket. An end without a word of TLS is none.
            visit.open = Open::default();
        }
        tokio::spawn(async move {
            let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
            let _under_way = under_way;
            intercepted(visit, Box::new(TokioIo::new(upgraded)), origin).await;
        });
        return Ok(Response::new(empty()));
    }
    let there = match proxy.origins.upstream.tcp(&origin).await {
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
    let stop = client.visit.stop.clone();
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
        // Its place among the connections is taken as long as the tunnel is.
        let _under_way = under_way;
        tunnel::run(TokioIo::new(upgraded), there, stop).await;
    });
    Ok(Response::new(empty()))
}

//! Connections to origins: made, kept for the next request, and read through the same strict reader as clients' are.

use crate::guard::{Clocks, Guard, Shared, Side};
use crate::head::{Limits, Refusal};
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A body on its way.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A body without a byte.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Name or address, IPv6 in brackets, lower case.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Origin {
    /// Of `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// It is no such text.
    pub fn new(tls: bool, authority: &str) -> Result<Self, Refusal> {
        let (host, port) = crate::head::authority(authority.as_bytes())?;
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        Ok(Self { tls, host, port: port.unwrap_or(if tls { 443 } else { 80 }) })
    }

    /// The host as the resolver wants it.
    pub fn bare(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// Why there is no answer of the origin.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be reached, or its certificate is wrong.
    Unreachable(io::Error),
    /// It did not answer in time.
    Late,
    /// What it sent is refused.
    Refused(Refusal),
    /// The connection broke, or the body of the request did.
    Broken(hyper::Error),
}

impl Failure {
    /// The same for another request that waited for the answer.
    pub fn shared(&self) -> Self {
        match self {
            Self::Unreachable(cause) => Self::Unreachable(io::Error::new(cause.kind(), cause.to_string())),
            Self::Late => Self::Late,
            Self::Refused(why) => Self::Refused(*why),
            // What is broken is one connection; whoever waited had none.
            Self::Broken(_) => Self::Unreachable(io::Error::other(self.to_string())),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(cause) => write!(out, "the origin cannot be reached: {cause}"),
            Self::Late => out.write_str("the origin does not answer in time"),
            Self::Refused(why) => write!(out, "the origin's answer is refused: {why}"),
            Self::Broken(cause) => write!(out, "the connection to the origin broke: {cause}"),
        }
    }
}

/// How origins are asked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of heads of answers.
    pub limits: Limits,
    /// `stall` bounds the pause between two bytes; `idle` how long a connection is kept.
    pub clocks: Clocks,
    /// Until a connection is there, TLS included.
    pub connect: Duration,
    /// From the whole request to the head of the answer.
    pub answer: Duration,
    /// Connections kept for each origin.
    pub kept: usize,
    /// More authorities than the system's, a PEM file.
    pub authorities: Option<std::path::PathBuf>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Connection {
    sender: SendRequest<Body>,
    shared: Arc<Shared>,
    since: Instant,
}

/// All origins.
pub struct Upstream {
    settings: Settings,
    idle: Mutex<HashMap<Origin, Vec<Connection>>>,
    believed: RootCertStore,
    tls: OnceCell<Arc<ClientConfig>>,
}

impl Upstream {
    /// No connection is made yet.
    ///
    /// # Errors
    /// The file of more authorities cannot be read.
    pub fn new(settings: Settings) -> io::Result<Arc<Self>> {
        let believed = settings.authorities.as_deref().map(authorities).transpose()?;
        let believed = believed.unwrap_or_else(RootCertStore::empty);
        Ok(Arc::new(Self { settings, idle: Mutex::default(), believed, tls: OnceCell::new() }))
    }

    /// Asks an origin. `parts` has a target in origin form, and Host. A request that can be repeated (RFC 9110, 9.2.2)
    /// and met a connection that the origin had just closed is sent again, once.
    ///
    /// # Errors
    /// There is no answer that can be trusted.
    pub async fn send(
        self: &Arc<Self>,
        origin: &Origin,
        parts: Parts,
        body: Option<Body>,
    ) -> Result<Response<Body>, Failure> {
        let again = body.is_none() && parts.method.is_idempotent();
        let mut body = body;
        if let Some(kept) = self.kept(origin) {
            // A body can be sent only once: it gets a connection that is surely open.
            if again {
                let copy = again_of(&parts);
                match self.exchange(origin, kept, Request::from_parts(parts, empty())).await {
                    Err(Failure::Broken(error)) if !error.is_timeout() => {
                        let fresh = self.connect(origin).await?;
                        return self.exchange(origin, fresh, copy).await;
                    }
                    done => return done,
                }
            }
        }
        let fresh = self.connect(origin).await?;
        let body = body.take().unwrap_or_else(empty);
        self.exchange(origin, fresh, Request::from_parts(parts, body)).await
    }

    async fn exchange(
        self: &Arc<Self>,
        origin: &Origin,
        mut connection: Connection,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        connection.shared.expect(request.method() == Method::HEAD);
        let answer = tokio::time::timeout(self.settings.answer, connection.sender.send_request(request)).await;
        let answer = match answer {
            Err(_) => return Err(Failure::Late),
            Ok(Err(error)) => {
                return Err(match connection.shared.refusal() {
                    Some(why) => Failure::Refused(why),
                    None => Failure::Broken(error),
                });
            }
            Ok(Ok(answer)) => answer,
        };
        let lease = Lease { upstream: Arc::clone(self), origin: origin.clone(), connection };
        Ok(answer.map(|incoming| Returning { incoming, lease: Some(lease) }.boxed_unsync()))
    }

    fn kept(&self, origin: &Origin) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(origin)?;
        kept.retain(|one| !one.sender.is_closed() && one.since.elapsed() < self.settings.clocks.idle);
        let last = kept.pop();
        if kept.is_empty() {
            idle.remove(origin);
        }
        last
    }

    fn keep(&self, origin: Origin, mut connection: Connection) {
        connection.since = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(origin).or_default();
        if kept.len() < self.settings.kept {
            kept.push(connection);
        }
    }

    /// A TCP connection, for tunnels too.
    ///
    /// # Errors
    /// No address of the origin answers in time.
    pub async fn tcp(&self, origin: &Origin) -> Result<TcpStream, Failure> {
        let reached = tokio::time::timeout(self.settings.connect, TcpStream::connect((origin.bare(), origin.port)));
        let tcp = reached.await.map_err(|_| Failure::Late)?.map_err(Failure::Unreachable)?;
        tcp.set_nodelay(true).map_err(Failure::Unreachable)?;
        Ok(tcp)
    }

    async fn connect(&self, origin: &Origin) -> Result<Connection, Failure> {
        let tcp = self.tcp(origin).await?;
        let io: Box<dyn Stream> = if origin.tls {
            let name = ServerName::try_from(origin.bare().to_owned())
                .map_err(|error| Failure::Unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
            let config = self.tls().await;
            let shaken = tokio::time::timeout(self.settings.connect, TlsConnector::from(config).connect(name, tcp));
            Box::new(shaken.await.map_err(|_| Failure::Late)?.map_err(Failure::Unreachable)?)
        } else {
            Box::new(tcp)
        };
        let Settings { limits, clocks, .. } = self.settings;
        let (guard, shared) = Guard::new(io, Side::Origin, BytesMut::new(), false, limits, clocks);
        let mut builder = http1::Builder::new();
        builder.max_headers(limits.fields).max_buf_size(crate::guard::buffer(&limits));
        let (sender, connection) = builder.handshake(TokioIo::new(guard)).await.map_err(Failure::Broken)?;
        // Its errors reach whoever waits for the answer.
        tokio::spawn(connection);
        Ok(Connection { sender, shared, since: Instant::now() })
    }

    /// By which origins are believed. The system's authorities are many files: they are read for the first origin with
    /// TLS, and not at the start, which would have to wait for them on a slow disk.
    async fn tls(&self) -> Arc<ClientConfig> {
        let read = || async {
            let mut roots = self.believed.clone();
            let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
            roots.add_parsable_certificates(system.map(|system| system.certs).unwrap_or_default());
            Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
        };
        Arc::clone(self.tls.get_or_init(read).await)
    }
}

/// The authorities of a PEM file.
fn authorities(file: &std::path::Path) -> io::Result<RootCertStore> {
    let wrong = |error: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    Ok(roots)
}

/// The same request without a body.
fn again_of(parts: &Parts) -> Request<Body> {
    let mut request = Request::new(empty());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    request
}

struct Lease {
    upstream: Arc<Upstream>,
    origin: Origin,
    connection: Connection,
}

/// The body of an answer, which gives its connection back at its end.
struct Returning {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl Returning {
    fn give_back(&mut self) {
        let Some(Lease { upstream, origin, mut connection }) = self.lease.take() else { return };
        tokio::spawn(async move {
            if connection.sender.ready().await.is_ok() {
                upstream.keep(origin, connection);
            }
        });
    }
}

impl http_body::Body for Returning {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(context));
        if frame.is_none() {
            this.give_back();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        // Who knows the length does not ask for an end.
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }
}

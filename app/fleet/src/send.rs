//! Sends the pings of a spool to a collector. What the collector has answered for is removed, and nothing else is.

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::batch::{MOST_BODY, MOST_PINGS};

/// How long a connection may take, and an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read.
const MOST_ANSWER: usize = 1 << 20;

/// Where pings go.
#[derive(Clone, Debug)]
pub struct Target {
    uri: Uri,
    tls: bool,
    host: String,
    port: u16,
}

impl Target {
    /// From a URL: `https://` anywhere, `http://` on this machine alone.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("'{text}' is no URL: {error}"))?;
        let (scheme, host) = (uri.scheme_str(), uri.host().filter(|host| !host.is_empty()));
        let Some(host) = host else { return Err(format!("'{text}' names no host")) };
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_here = bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let tls = match scheme {
            Some("https") => true,
            Some("http") if is_here => false,
            Some("http") => {
                return Err(format!("'{text}': pings go to other machines by https only, so that nobody reads along"));
            }
            _ => return Err(format!("'{text}' is neither https:// nor http://")),
        };
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { uri, tls, host: bare, port })
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Pings that the collector has, or never will.
    pub done: usize,
    /// Of those, what it refused.
    pub refused: usize,
}

/// Why not all was sent.
#[derive(Debug)]
pub enum Unsent {
    /// It may work later: nobody answers, or the collector has no room.
    Later(String),
    /// It will not: the collector, or the spool, is another than is expected.
    Never(String),
}

/// Sends all pings of a spool, below each program's directory.
///
/// # Errors
/// Not all was sent; what was is removed.
pub async fn send(spool: &Path, target: &Target, token: Option<&str>) -> Result<Sent, (Sent, Unsent)> {
    let mut sent = Sent::default();
    let files = ping::spool::all(spool)
        .map_err(|error| (sent, Unsent::Never(format!("cannot list the spool {}: {error}", spool.display()))))?;
    let mut left = &files[..];
    while !left.is_empty() {
        let (body, count) = batch(left);
        if count == 0 {
            return Err((sent, Unsent::Never(format!("{} cannot be read", left[0].display()))));
        }
        let refused = post(target, token, body).await.map_err(|unsent| (sent, unsent))?;
        for file in &left[..count] {
            // One that its user has thrown away meanwhile is as well.
            let _ = std::fs::remove_file(file);
        }
        sent.done += count;
        sent.refused += refused;
        left = &left[count..];
    }
    Ok(sent)
}

/// As many pings as one request takes; how many files those are. A file that cannot be read ends it.
fn batch(files: &[PathBuf]) -> (Vec<u8>, usize) {
    let mut body = Vec::new();
    for (index, file) in files.iter().take(MOST_PINGS).enumerate() {
        let Ok(line) = std::fs::read(file) else { return (body, index) };
        if body.len() + line.len() > MOST_BODY {
            return (body, index);
        }
        body.extend(line);
    }
    (body, files.len().min(MOST_PINGS))
}

/// How many were refused.
async fn post(target: &Target, token: Option<&str>, body: Vec<u8>) -> Result<usize, Unsent> {
    let later = |error: &dyn std::fmt::Display| Unsent::Later(format!("{}: {error}", target.uri));
    let late = |_| Unsent::Later(format!("{}: no answer in {} s", target.uri, PATIENCE.as_secs()));
    let tcp = timeout(PATIENCE, TcpStream::connect((target.host.as_str(), target.port)));
    let tcp = tcp.await.map_err(late)?.map_err(|error| later(&error))?;
    let request = Request::post("/v1/pings")
        .header(header::HOST, target.uri.authority().map_or("", |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/x-ndjson");
    let request = match token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    };
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|error| Unsent::Never(format!("no request can be made: {error}")))?;
    let answered = match target.tls {
        false => timeout(PATIENCE, talk(TokioIo::new(tcp), request)).await,
        true => {
            let name = ServerName::try_from(target.host.clone()).map_err(|error| Unsent::Never(error.to_string()))?;
            let shaken = timeout(PATIENCE, TlsConnector::from(believed()).connect(name, tcp));
            let tls = shaken.await.map_err(late)?.map_err(|error| later(&error))?;
            timeout(PATIENCE, talk(TokioIo::new(tls), request)).await
        }
    };
    let (status, text) = answered.map_err(late)?.map_err(|error| later(&error))?;
    let said = || format!("{} says {status}: {}", target.uri, text.trim());
    match status {
        StatusCode::OK => {
            let answer: serde_json::Value = serde_json::from_str(&text).map_err(|_| Unsent::Never(said()))?;
            // Another server would say 200 too, and pings would be gone.
            if answer["schema"] != "thaw.fleet-answer/1" {
                return Err(Unsent::Never(format!("{} is no collector of pings", target.uri)));
            }
            Ok(answer["refused"].as_array().map_or(0, Vec::len))
        }
        StatusCode::UNAUTHORIZED => {
            Err(Unsent::Never(format!("{}; --token-file FILE names the file of the token", said())))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(Unsent::Later(said())),
        status if status.is_server_error() => Err(Unsent::Later(said())),
        _ => Err(Unsent::Never(said())),
    }
}

/// One request on one connection.
async fn talk<S>(io: TokioIo<S>, request: Request<Full<Bytes>>) -> Result<(StatusCode, String), String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
    // Its errors reach whoever waits for the answer.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await.map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
}

/// The authorities of this machine.
fn believed() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_reached_by_https_alone() {
        for (text, tls, port) in [
            ("http://127.0.0.1:8400", false, 8400),
            ("http://localhost/", false, 80),
            ("http://[::1]:1/", false, 1),
            ("https://pings.example", true, 443),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.tls, target.port), (tls, port), "{text}");
        }
        for (text, why) in [
            ("http://pings.example/", "https only"),
            ("http://10.0.0.1/", "https only"),
            ("ftp://localhost/", "neither"),
            ("/x", "no host"),
            ("http://a b/", "no URL"),
        ] {
            assert!(Target::parse(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_batch_is_what_one_request_takes() {
        let room = tempfile::tempdir().unwrap();
        let file = |number: usize, bytes: usize| {
            let path = room.path().join(format!("{number:04}.ping"));
            std::fs::write(&path, vec![b'x'; bytes]).unwrap();
            path
        };
        let small: Vec<PathBuf> = (0..MOST_PINGS + 5).map(|number| file(number, 1)).collect();
        assert_eq!(batch(&small).1, MOST_PINGS);
        let large: Vec<PathBuf> = (0..5).map(|number| file(2000 + number, MOST_BODY / 2)).collect();
        assert_eq!(batch(&large).1, 2);
        std::fs::remove_file(&large[1]).unwrap();
        assert_eq!(batch(&large).1, 1);
    }
}

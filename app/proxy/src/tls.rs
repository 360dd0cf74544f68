//! TLS towards clients: which certificate a connection gets, and for which tunnels it is ended here.

use crate::authority::{Authority, LEAF_GOOD};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{Acceptor, ServerSessionMemoryCache, StoresServerSessions};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::server::TlsStream;

/// Certificates that are remembered. A client may ask for as many names as it likes.
const MOST: usize = 512;

/// TLS sessions that clients may go on with.
const SESSIONS: usize = 1024;

/// Which tunnels are no tunnels: what is inside them is answered here.
#[derive(Clone, Debug, Default)]
pub struct Intercept {
    /// Ports that CONNECT names.
    pub ports: Vec<u16>,
    /// Hosts that stay tunnels, with all below them.
    pub except: Vec<String>,
}

impl Intercept {
    /// Whether the tunnel to this host is one. `host` is in lower case.
    pub fn takes(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.');
        let stays = |name: &String| {
            let name = name.trim_start_matches("*.").trim_matches('.');
            let before = host.len().checked_sub(name.len()).filter(|at| host.is_char_boundary(*at));
            before
                .is_some_and(|at| host[at..].eq_ignore_ascii_case(name) && (at == 0 || host.as_bytes()[at - 1] == b'.'))
        };
        self.ports.contains(&port) && !self.except.iter().any(stays)
    }
}

/// Whom a client takes us for.
#[derive(Clone, Copy, Debug)]
pub enum As<'a> {
    /// This proxy, at one of its addresses.
    Proxy(IpAddr),
    /// The host that a tunnel leads to.
    Host(&'a str),
}

/// The certificates of clients' connections.
pub struct Tls {
    authority: Option<Authority>,
    /// The user's own one, for the proxy's addresses.
    own: Option<Arc<ServerConfig>>,
    intercept: Option<Intercept>,
    made: Mutex<HashMap<Vec<String>, Made>>,
    sessions: Arc<dyn StoresServerSessions>,
}

struct Made {
    config: Arc<ServerConfig>,
    at: Instant,
    used: Instant,
}

impl Tls {
    /// With an authority, the paths of a certificate and its key, or both. `intercept` needs the authority.
    ///
    /// # Errors
    /// The two files do not hold a certificate and its key, or others may read the key.
    pub fn new(
        authority: Option<Authority>,
        own: Option<(&Path, &Path)>,
        intercept: Option<Intercept>,
    ) -> io::Result<Self> {
        let sessions = ServerSessionMemoryCache::new(SESSIONS);
        let mut tls = Self { authority, own: None, intercept, made: Mutex::default(), sessions };
        if let Some((certificate, key)) = own {
            tls.own = Some(Arc::new(tls.common(::tls::server(certificate, key)?)));
        }
        Ok(tls)
    }

    /// Whether a tunnel to this host is answered here.
    pub fn intercepts(&self, host: &str, port: u16) -> bool {
        self.authority.is_some() && self.intercept.as_ref().is_some_and(|intercept| intercept.takes(host, port))
    }

    fn common(&self, mut config: ServerConfig) -> ServerConfig {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.session_storage = Arc::clone(&self.sessions);
        config
    }

    /// What a client that takes us for these names is to see.
    fn config(&self, names: Vec<String>) -> io::Result<Arc<ServerConfig>> {
        let Some(authority) = &self.authority else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no authority that makes certificates"));
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(known) = made.get_mut(&names)
            && known.at + LEAF_GOOD / 2 > now
        {
            known.used = now;
            return Ok(Arc::clone(&known.config));
        }
        let certificate = SingleCertAndKey::from(authority.sign(&names)?);
        let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(certificate));
        let config = Arc::new(self.common(config));
        if made.len() >= MOST
            && let Some(oldest) = made.iter().min_by_key(|(_, made)| made.used).map(|(names, _)| names.clone())
        {
            made.remove(&oldest);
        }
        made.insert(names, Made { config: Arc::clone(&config), at: now, used: now });
        Ok(config)
    }

    /// The handshake of a client, within this time.
    ///
    /// # Errors
    /// It is late, speaks something else, or does not believe the certificate.
    pub async fn accept<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: T,
        whom: As<'_>,
        limit: Duration,
    ) -> io::Result<TlsStream<T>> {
        let shaken = tokio::time::timeout(limit, async {
            let start = LazyConfigAcceptor::new(Acceptor::default(), io).await?;
            let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
            let config = match (whom, &self.own, name) {
                (As::Host(host), _, name) => {
                    let host = host.trim_end_matches('.');
                    if name.is_some_and(|name| name != host) {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, "another host than that of CONNECT"));
                    }
                    self.config(vec![host.to_owned()])?
                }
                (As::Proxy(_), Some(own), _) => Arc::clone(own),
                (As::Proxy(_), None, Some(name)) => self.config(vec![name])?,
                // Addresses are not told: whoever asks for one means the one that it came to.
                (As::Proxy(address), None, None) => {
                    let address = address.to_canonical().to_string();
                    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
                    if !names.contains(&address) {
                        names.push(address);
                    }
                    self.config(names)?
                }
            };
            start.into_stream(config).await
        });
        shaken.await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake is late")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_stay_tunnels_do_so_with_all_below_them() {
        let intercept = Intercept {
            ports: vec![443, 8443],
            except: ["bank.example", "*.Wide.example", ".dot.example", "10.0.0.1"].map(str::to_owned).to_vec(),
        };
        for host in ["bank.example", "www.bank.example", "bank.example.", "wide.example", "a.dot.example", "10.0.0.1"] {
            assert!(!intercept.takes(host, 443), "{host}");
        }
        for host in ["example", "notbank.example", "bank.example.org", "110.0.0.1", "\u{e9}bank.example"] {
            assert!(intercept.takes(host, 443) && intercept.takes(host, 8443) && !intercept.takes(host, 22), "{host}");
        }
    }

    #[test]
    fn certificates_are_remembered_and_no_more_than_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("ca");
        crate::authority::make(&directory).unwrap();
        let tls = Tls::new(Some(Authority::open(&directory).unwrap()), None, None).unwrap();
        let of = |name: String| tls.config(vec![name]).unwrap();
        let first = of("0.example".into());
        for number in 1..MOST {
            of(format!("{number}.example"));
        }
        assert!(Arc::ptr_eq(&first, &of("0.example".into())), "known");
        let second = of("1.example".into());
        of("another.example".into());
        assert_eq!(tls.made.lock().unwrap().len(), MOST);
        let made = tls.made.lock().unwrap();
        let known = |name: &str| made.contains_key(&vec![name.to_owned()]);
        assert!(known("0.example") && known("1.example") && !known("2.example"), "the one not used longest went");
        drop((made, second));
    }
}

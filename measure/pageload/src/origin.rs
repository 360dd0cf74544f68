//! The origin of the [`Site`]: a server on the loopback address that takes its time for each answer, and counts.
//!
//! HTTP/1.1, connections are kept, `If-None-Match` is answered with 304. Everything may be cached for a day. Each
//! answer has its `Date`, as RFC 9110, 6.6.1, wants of an origin: squid takes one without it for stale at once. Not a
//! web server: it knows GET and HEAD, and the names of one site.
//!
//! `/visit-N/NAME` is the same as `/NAME`: a cache that cannot be emptied has never seen a new number.

use crate::site::Site;
use model::{Error, Exit, Result};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest head of a request, in bytes.
const LONGEST_HEAD: u64 = 65_536;

/// What an origin did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests, also those for what is not there.
    pub requests: u64,
    /// Of these, answered with 304.
    pub not_modified: u64,
    /// Bytes of answers, heads included.
    pub bytes: u64,
}

impl Counts {
    /// What was done since an earlier moment.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            not_modified: self.not_modified - earlier.not_modified,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    address: SocketAddr,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    site: Site,
    latency: Duration,
    over: AtomicBool,
    requests: AtomicU64,
    not_modified: AtomicU64,
    bytes: AtomicU64,
    /// Connections, so that the end reaches those that wait for a request.
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origin {
    /// Serves from now on, at a free port of 127.0.0.1. Each answer begins `latency` after its request.
    ///
    /// # Errors
    /// No port or no thread is left.
    pub fn start(site: Site, latency: Duration) -> Result<Self> {
        let cannot =
            |cause: io::Error| Error::new(Exit::Machine, "cannot serve the page on", "127.0.0.1").because(cause);
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared {
            site,
            latency,
            over: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            not_modified: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let its = Arc::clone(&shared);
        let listening = std::thread::Builder::new().name("origin".into()).spawn(move || listen(&listener, &its));
        Ok(Self { shared, address, listening: Some(listening.map_err(cannot)?) })
    }

    /// Where the page is; another number is another page to every cache.
    pub fn page(&self, visit: u64) -> String {
        format!("http://{}/visit-{visit}/index.html", self.address)
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            requests: read(&self.shared.requests),
            not_modified: read(&self.shared.not_modified),
            bytes: read(&self.shared.bytes),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; if nobody accepts any more there is nobody to wake.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            // A panic in there was told already.
            let _ = listening.join();
        }
        // Clients that are there still notice.
        self.shared.open().values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        // A connection that was reset before it was accepted is the client's affair.
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        shared.open().insert(number, kept);
        let its = Arc::clone(shared);
        let serving = std::thread::Builder::new().name("origin's connection".into()).spawn(move || {
            // The client went away, or sent what is no request: either ends the connection.
            let _ = serve(&stream, &its);
            its.open().remove(&number);
        });
        if serving.is_err() {
            // No thread: the client sees a closed connection.
            shared.open().remove(&number);
        }
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader)? {
        std::thread::sleep(shared.latency);
        let answer = answer(&request, shared);
        // Counted before it is sent: who has the answer finds it counted.
        shared.requests.fetch_add(1, Ordering::SeqCst);
        shared.bytes.fetch_add(answer.len() as u64, Ordering::SeqCst);
        (&mut &*stream).write_all(&answer)?;
        if request.closes {
            break;
        }
    }
    Ok(())
}

/// The head and, but for HEAD, the body.
fn answer(request: &Request, shared: &Shared) -> Vec<u8> {
    let name = match request.path.strip_prefix("/visit-").and_then(|rest| rest.split_once('/')) {
        Some((_, name)) => name,
        None => request.path.trim_start_matches('/'),
    };
    let date = http_date(os::machine::now_unix_ns() / 1_000_000_000);
    let of_error =
        |status: &str| format!("HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n").into_bytes();
    if request.method != "GET" && request.method != "HEAD" {
        return of_error("405 Method Not Allowed");
    }
    let Some(resource) = shared.site.get(name.split('?').next().unwrap_or_default()) else {
        return of_error("404 Not Found");
    };
    let common = format!("Date: {date}\r\nETag: {}\r\nCache-Control: public, max-age=86400\r\n", resource.etag);
    if request.if_none_match.split(',').any(|tag| tag.trim().trim_start_matches("W/") == resource.etag) {
        shared.not_modified.fetch_add(1, Ordering::SeqCst);
        return format!("HTTP/1.1 304 Not Modified\r\n{common}\r\n").into_bytes();
    }
    let (kind, length) = (resource.kind, resource.body.len());
    let head = format!("HTTP/1.1 200 OK\r\n{common}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    let mut all = head.into_bytes();
    if request.method == "GET" {
        all.extend_from_slice(&resource.body);
    }
    all
}

/// Seconds since 1970 (UTC) as HTTP writes them: `Thu, 26 Nov 2026 13:05:31 GMT`.
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, days);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    let (weekday, month, day) = (DAYS[(days % 7) as usize], MONTHS[month], left + 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// What of a request matters here.
#[derive(Debug)]
pub(crate) struct Request {
    pub method: String,
    pub path: String,
    pub if_none_match: String,
    pub closes: bool,
}

impl Request {
    /// The next one; `None`: the client has no more.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut reader = reader.take(LONGEST_HEAD);
        let mut line = |text: &mut String| {
            text.clear();
            reader.read_line(text).map(|length| length > 0 && text.ends_with('\n'))
        };
        let mut text = String::new();
        if !line(&mut text)? {
            return Ok(None);
        }
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no request");
        let mut words = text.split_ascii_whitespace();
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
            return Err(wrong());
        };
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            if_none_match: String::new(),
            closes: version == "HTTP/1.0",
        };
        loop {
            if !line(&mut text)? {
                return Err(wrong());
            }
            let field = text.trim_end();
            if field.is_empty() {
                return Ok(Some(request));
            }
            let (name, value) = field.split_once(':').ok_or_else(wrong)?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "if-none-match" => value.clone_into(&mut request.if_none_match),
                "connection" => request.closes |= value.eq_ignore_ascii_case("close"),
                // A body would be taken for the next request.
                "transfer-encoding" => return Err(wrong()),
                "content-length" if value != "0" => return Err(wrong()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::SiteOptions;
    use std::time::Instant;

    fn origin(latency: Duration) -> Origin {
        Origin::start(Site::new(SiteOptions { images: 3, seed: 1 }), latency).unwrap()
    }

    /// Sends requests over one connection; all that comes back.
    fn ask(origin: &Origin, requests: &str) -> String {
        let mut stream = TcpStream::connect(origin.address).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn what_a_client_has_is_answered_with_304_and_counted() {
        let origin = origin(Duration::ZERO);
        let etag = origin.shared.site.get("style-0.css").unwrap().etag.clone();
        let said = ask(
            &origin,
            &format!(
                "GET /style-0.css HTTP/1.1\r\nHost: a\r\n\r\n\
                 GET /visit-5/style-0.css HTTP/1.1\r\nIf-None-Match: \"x\", W/{etag}\r\n\r\n\
                 HEAD /style-0.css HTTP/1.1\r\n\r\n\
                 GET /visit-5/none HTTP/1.1\r\n\r\n\
                 PUT /style-0.css HTTP/1.1\r\n\r\n"
            ),
        );
        let statuses: Vec<&str> = said.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(statuses, ["200", "304", "200", "404", "405"]);
        assert_eq!(said.matches(&etag).count(), 3, "each answer of it has its validator");
        assert_eq!(said.matches("\r\nDate: ").count(), 5, "without a date caches may take an answer for stale");
        let counts = origin.counts();
        assert_eq!(counts, Counts { requests: 5, not_modified: 1, bytes: said.len() as u64 });
        assert_eq!(counts.since(counts), Counts::default());
    }

    #[test]
    fn dates_are_those_of_http() {
        let dates = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ];
        for (seconds, text) in dates {
            assert_eq!(http_date(seconds), text);
        }
    }

    #[test]
    fn an_answer_takes_its_time() {
        let origin = origin(Duration::from_millis(30));
        let start = Instant::now();
        ask(&origin, "GET /style-0.css HTTP/1.1\r\n\r\nGET /style-1.css HTTP/1.0\r\n\r\n");
        assert!(start.elapsed() >= Duration::from_millis(60));
        assert_eq!(origin.counts().requests, 2);
    }

    #[test]
    fn noise_ends_the_connection_and_not_the_server() {
        let origin = origin(Duration::ZERO);
        for noise in ["\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nno field\r\n\r\n", "GET / HTTP/1.1\r\nA: b"] {
            assert_eq!(ask(&origin, noise), "");
        }
        assert_eq!(ask(&origin, "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), "");
        assert_eq!(origin.counts().requests, 0);
        assert!(ask(&origin, "GET /index.html HTTP/1.1\r\n\r\n").contains("</html>"));
    }

    #[test]
    fn the_end_reaches_clients_that_wait() {
        let origin = origin(Duration::ZERO);
        let mut stream = TcpStream::connect(origin.address).unwrap();
        stream.write_all(b"GET /style-0.css HTTP/1.1\r\n\r\n").unwrap();
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        drop(origin);
        stream.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Nearly requests.
    const NOISE: &str = "(GET|HEAD|[ -~]{0,4}) ?[ -~]{0,9} ?(HTTP/1.1)?(\r\n|\n|[ -~:]{0,20}){0,6}";

    proptest::proptest! {
        #[test]
        fn noise_is_requests_or_an_error(bytes in NOISE) {
            let mut reader = bytes.as_bytes();
            while let Ok(Some(request)) = Request::read(&mut reader) {
                proptest::prop_assert!(!request.method.is_empty() && !request.path.is_empty());
            }
        }
    }
}

//! An origin for tests. It reads requests by a reader of its own, stricter than any server, and records them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Request line.
    pub line: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// Chunks put together; none where it did not arrive whole.
    pub body: Option<Vec<u8>>,
}

impl Seen {
    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(its, _)| its == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// What the origin does with a request: it writes an answer, and says whether the connection goes on.
type Answer = dyn Fn(&Seen, &mut TcpStream) -> bool + Send + Sync;

pub struct Origin {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    pub fn new(answer: impl Fn(&Seen, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, wrong) = (Arc::default(), Arc::default());
        let (answer, of_threads): (Arc<Answer>, _) = (Arc::new(answer), (Arc::clone(&seen), Arc::clone(&wrong)));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (answer, (seen, wrong)) = (Arc::clone(&answer), of_threads.clone());
                std::thread::spawn(move || serve(socket.unwrap(), &*answer, &seen, &wrong));
            }
        });
        Self { address, seen, wrong }
    }

    /// One that answers `200` with the path as the body.
    pub fn echo() -> Self {
        Self::new(|seen, socket| {
            let body = seen.path();
            let head_only = seen.line.starts_with("HEAD ");
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let shown = if head_only { "" } else { body };
            socket.write_all(format!("{text}{shown}").as_bytes()).is_ok()
        })
    }

    /// One that answers each request with these bytes and closes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(move |_, socket| {
            let _ = socket.write_all(&bytes);
            false
        })
    }

    /// What arrived so far. Panics if anything was malformed.
    pub fn seen(&self) -> Vec<Seen> {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "the origin was sent {wrong:?}");
        self.seen.lock().unwrap().clone()
    }
}

fn serve(socket: TcpStream, answer: &Answer, seen: &Mutex<Vec<Seen>>, wrong: &Mutex<Vec<String>>) {
    let mut writer = socket.try_clone().unwrap();
    let mut reader = BufReader::new(socket);
    loop {
        let request = match read(&mut reader) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(why) => return wrong.lock().unwrap().push(why),
        };
        seen.lock().unwrap().push(request.clone());
        if request.body.is_none() || !answer(&request, &mut writer) {
            return;
        }
    }
}

fn line(reader: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    if reader.read_until(b'\n', &mut bytes).is_err() || bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(|error| format!("{error}"))?;
    let inner = text.strip_suffix("\r\n").ok_or_else(|| format!("a line that ends without CRLF: {text:?}"))?;
    match inner.contains(|letter: char| letter.is_ascii_control() && letter != '\t') {
        true => Err(format!("control characters: {inner:?}")),
        false => Ok(Some(inner.to_owned())),
    }
}

fn read(reader: &mut impl BufRead) -> Result<Option<Seen>, String> {
    let Some(first) = line(reader)? else { return Ok(None) };
    let words: Vec<&str> = first.split(' ').collect();
    if words.len() != 3 || words[2] != "HTTP/1.1" {
        return Err(format!("a request line: {first:?}"));
    }
    let mut fields = Vec::new();
    loop {
        let Some(text) = line(reader)? else { return Err(format!("a head without an end: {fields:?}")) };
        if text.is_empty() {
            break;
        }
        let (name, value) = text.split_once(':').ok_or_else(|| format!("no field: {text:?}"))?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("a name: {text:?}"));
        }
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut seen = Seen { line: first, fields, body: None };
    if seen.all("host").len() != 1 {
        return Err(format!("hosts: {seen:?}"));
    }
    let (lengths, codings) = (seen.all("content-length"), seen.all("transfer-encoding"));
    seen.body = match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Some(Vec::new()),
        ([length], []) => {
            let length: usize = length.parse().map_err(|_| format!("a length: {seen:?}"))?;
            let mut body = vec![0; length];
            reader.read_exact(&mut body).is_ok().then_some(body)
        }
        ([], ["chunked"]) => chunks(reader)?,
        _ => return Err(format!("framed twice: {seen:?}")),
    };
    Ok(Some(seen))
}

fn chunks(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut body = Vec::new();
    loop {
        let Some(size) = line(reader)? else { return Ok(None) };
        let size = usize::from_str_radix(&size, 16).map_err(|_| format!("a chunk size: {size:?}"))?;
        if size == 0 {
            while let Some(trailer) = line(reader)? {
                if trailer.is_empty() {
                    return Ok(Some(body));
                }
            }
            return Ok(None);
        }
        let mut chunk = vec![0; size];
        if reader.read_exact(&mut chunk).is_err() {
            return Ok(None);
        }
        body.append(&mut chunk);
        if line(reader)?.is_none_or(|end| !end.is_empty()) {
            return Ok(None);
        }
    }
}

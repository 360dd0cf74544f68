//! An origin: each request is answered by a function, and noted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its target.
    pub path: String,
    /// Its fields, names in lower case.
    pub fields: BTreeMap<String, String>,
}

impl Request {
    /// A field's value; empty where there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// An origin on a port of this machine. It goes with the test's process.
pub struct Origin {
    port: u16,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Origin {
    /// Answers with what `answer` makes of a request and of how many came before it; nothing: it hangs up.
    pub fn new(answer: impl Fn(&Request, usize) -> Vec<u8> + Send + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log: Arc<Mutex<Vec<Request>>> = Arc::default();
        let theirs = log.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = head(&stream) else { continue };
                let before = theirs.lock().unwrap().len();
                theirs.lock().unwrap().push(request.clone());
                // A client that was killed reads nothing.
                let _ = stream.write_all(&answer(&request, before));
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Origin { port, log }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub fn log(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

fn head(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next()?.ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = BTreeMap::new();
    loop {
        let line = lines.next()?.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        fields.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Some(Request { method, path, fields })
}

/// A response with a body.
pub fn response(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len()).into_bytes()
}

//! The client's end of a WebSocket (RFC 6455) on the loopback address: as much of it as a browser needs that we started
//! ourselves. No TLS, no extensions, and the answer to the key is not checked: there is no cache between the two.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// Longest message that is taken, in bytes.
const LONGEST: u64 = 256 << 20;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    stream: TcpStream,
    frames: Frames,
}

impl WebSocket {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// Nobody is there, or it is no WebSocket.
    pub fn connect(address: SocketAddr, path: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhhdyBwYWdlbG9hZCAwMQ==\r\n\r\n"
        )?;
        let mut head = Vec::new();
        // Byte by byte: what follows the head is not ours to read yet.
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
            if head.len() > 65_536 {
                break;
            }
        }
        if !head.starts_with(b"HTTP/1.1 101") {
            let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it answered '{line}'")));
        }
        Ok(Self { stream, frames: Frames::default() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(&frame(TEXT, text.as_bytes()))
    }

    /// The next message of those that were read. Pings among them are answered.
    ///
    /// # Errors
    /// The other end closed, or sends what is no frame.
    pub fn take(&mut self) -> io::Result<Option<String>> {
        while let Some((kind, body)) = self.frames.next()? {
            match kind {
                TEXT => {
                    let text = String::from_utf8(body);
                    return text.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
                }
                PING => self.stream.write_all(&frame(PONG, &body))?,
                CLOSE => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Reads once; waits if there is nothing.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn fill(&mut self) -> io::Result<()> {
        self.frames.fill(&mut self.stream)
    }

    /// Becomes readable when there is something to read.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// What a client's bodies are masked with. It protects caches in between, and there are none, so that any will do; but
/// Firefox takes a mask of zeros for none.
const MASK: [u8; 4] = *b"thaw";

/// One frame of a client.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match body.len() {
        length @ ..126 => frame.push(0x80 | length as u8),
        length @ ..65_536 => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&MASK);
    frame.extend(body.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Bytes that came, on their way to whole messages.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// The first frames of a message that has more, with its kind.
    begun: Option<(u8, Vec<u8>)>,
}

impl Frames {
    /// Reads once.
    ///
    /// # Errors
    /// It is the end, or cannot be read.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.resize(start + (1 << 16), 0);
        let read = from.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The next whole message, or control frame: its kind and its body.
    ///
    /// # Errors
    /// What came is no frame of a server.
    pub fn next(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        while let Some((first, body)) = self.frame()? {
            let (ends, kind) = (first & 0x80 != 0, first & 0x0f);
            if kind >= CLOSE {
                return Ok(Some((kind, body)));
            }
            let begun = self.begun.get_or_insert_with(|| (kind, Vec::new()));
            begun.1.extend_from_slice(&body);
            if ends {
                return Ok(self.begun.take());
            }
        }
        Ok(None)
    }

    /// The first byte and the body of the next frame, if all of it is there.
    fn frame(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
        let Some((&[first, second], rest)) = self.buffer.split_first_chunk() else { return Ok(None) };
        if second & 0x80 != 0 {
            return wrong("a server's frame is masked");
        }
        let (length, rest) = match second {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        if length > LONGEST {
            return wrong("a message is longer than 256 MiB");
        }
        let Some(body) = rest.get(..length as usize) else { return Ok(None) };
        let (body, used) = (body.to_vec(), self.buffer.len() - rest.len() + length as usize);
        self.buffer.drain(..used);
        Ok(Some((first, body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let long = "a".repeat(70_000);
        let mut bytes = vec![0x01, 2, b'h', b'e', 0x89, 0, 0x80, 3, b'l', b'l', b'o', 0x81, 126, 0, 200];
        bytes.extend_from_slice(&[b'b'; 200]);
        bytes.extend_from_slice(&[0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        bytes.extend_from_slice(long.as_bytes());
        for step in [7, 200, 100_000] {
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for mut piece in bytes.chunks(step) {
                while !piece.is_empty() {
                    frames.fill(&mut piece).unwrap();
                }
                while let Some((kind, body)) = frames.next().unwrap() {
                    got.push((kind, String::from_utf8(body).unwrap()));
                }
            }
            let texts = [(PING, String::new()), (TEXT, "hello".into()), (TEXT, "b".repeat(200)), (TEXT, long.clone())];
            assert_eq!(got, texts);
        }
    }

    #[test]
    fn a_server_that_does_not_keep_to_it_is_refused() {
        let mut masked = Frames { buffer: vec![0x81, 0x81, 0, 0, 0, 0, b'a'], begun: None };
        assert!(masked.next().is_err());
        let mut endless = Frames { buffer: vec![0x81, 127, 0xff, 0, 0, 0, 0, 0, 0, 0], begun: None };
        assert!(endless.next().is_err());
        assert!(Frames::default().fill(&mut io::empty()).is_err(), "the end");
    }

    #[test]
    fn frames_of_a_client_have_their_length_in_each_size() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let mut sent = frame(TEXT, &vec![b'x'; length]);
            assert_eq!(sent[1] & 0x80, 0x80, "a client masks");
            // As the other end sees it: the mask taken off.
            let mask = sent.len() - length - 4;
            sent.drain(mask..mask + 4);
            assert!(sent[mask..].iter().zip(MASK.iter().cycle()).all(|(byte, mask)| byte ^ mask == b'x'));
            sent[1] &= 0x7f;
            let mut frames = Frames { buffer: sent, begun: None };
            assert_eq!(frames.next().unwrap().map(|(kind, body)| (kind, body.len())), Some((TEXT, length)));
        }
    }

    proptest::proptest! {
        #[test]
        fn noise_is_messages_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let mut frames = Frames { buffer: bytes.clone(), begun: None };
            let mut taken = 0;
            while let Ok(Some((_, body))) = frames.next() {
                taken += body.len();
            }
            proptest::prop_assert!(taken <= bytes.len());
        }
    }
}

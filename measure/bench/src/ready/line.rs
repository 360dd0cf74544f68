//! What a program prints: always read, so that it never waits for us; its end is kept for error messages; and
//! `line:REGEX` looks at every line of it.
//!
//! A line is looked at when it is complete, and while it is the unfinished last one after every read, so that a prompt
//! counts. Times are taken when the read returns.

use super::{Fired, Ready};
use crate::program::Output as Kind;
use model::{Error, Exit, Result};
use os::spawn::{Launch, Stream, monotonic_ns};
use regex::bytes::Regex;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much of the end of the output is kept.
pub(crate) const TAIL: usize = 64 << 10;

/// A line is cut at this length: what comes after it counts as another line.
const LONGEST_LINE: usize = 64 << 10;

/// Read from one stream before others get their turn.
const TURN: usize = 1 << 20;

/// The program's standard output and standard error.
#[derive(Default)]
pub(crate) struct Output {
    streams: Vec<Source>,
    tail: Tail,
    /// Expressions that no line has matched yet.
    waiting: Vec<Regex>,
}

/// One of them.
struct Source {
    fd: OwnedFd,
    /// Which one it is for the tail.
    number: usize,
    /// The unfinished last line.
    line: Vec<u8>,
}

impl Output {
    /// Gives the program its standard streams.
    pub fn prepare(kind: Kind, ready: &[Ready], launch: &mut Launch) -> Result<Self> {
        let waiting = ready.iter().filter_map(|way| match way {
            Ready::Line(regex) => Some(regex.clone()),
            _ => None,
        });
        let mut output = Self { waiting: waiting.collect(), ..Self::default() };
        match kind {
            Kind::Pipe => {
                launch.stdout = Stream::Fd(output.add_pipe()?);
                launch.stderr = Stream::Fd(output.add_pipe()?);
            }
            Kind::Pty => {
                let pty = os::spawn::open_pty()?;
                output.add(pty.ours)?;
                launch.terminal = Some(pty.theirs);
                launch.stdin = Stream::Terminal;
                launch.stdout = Stream::Terminal;
                launch.stderr = Stream::Terminal;
            }
        }
        Ok(output)
    }

    fn add_pipe(&mut self) -> Result<OwnedFd> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| {
            Error::new(Exit::Machine, "cannot make a pipe for the program's output", "")
                .because(std::io::Error::from(error))
        })?;
        // A talkative program does not wait for us either. Refused when the user has many pipes: then it is smaller.
        let _ = rustix::pipe::fcntl_setpipe_size(&ours, TURN);
        self.add(ours)?;
        Ok(theirs)
    }

    fn add(&mut self, fd: OwnedFd) -> Result<()> {
        rustix::fs::fcntl_getfl(&fd)
            .and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK))
            .map_err(|error| Error::bug("cannot make a stream non-blocking").because(std::io::Error::from(error)))?;
        self.streams.push(Source { fd, number: self.tail.held.len(), line: Vec::new() });
        self.tail.held.push(0);
        Ok(())
    }

    /// What wakes it.
    pub fn wakers(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.streams.iter().map(|source| (source.fd.as_fd(), PollFlags::IN))
    }

    /// Reads what is there.
    pub fn look(&mut self, fired: &mut Vec<Fired>) {
        let (tail, waiting) = (&mut self.tail, &mut self.waiting);
        self.streams.retain_mut(|source| source.read(tail, waiting, fired));
    }

    /// The end of what was printed, on both streams in the order of arrival.
    pub fn tail(&self) -> String {
        String::from_utf8_lossy(&self.tail.bytes()).into_owned()
    }
}

/// The ends of what the streams brought, at most [`TAIL`] bytes. Each has as much room as the others, so that a flood
/// on one does not wash away the last words on another, which may be read before it.
#[derive(Default)]
struct Tail {
    /// In the order of arrival: which stream, and what it brought.
    pieces: VecDeque<(usize, Vec<u8>)>,
    /// Bytes that are held of each stream.
    held: Vec<usize>,
}

impl Tail {
    fn room(&self) -> usize {
        TAIL / self.held.len().max(1)
    }

    /// Takes what a stream brought; pieces go as wholes, so that a lot of output costs little.
    fn keep(&mut self, stream: usize, bytes: &[u8]) {
        let room = self.room();
        match self.pieces.back_mut() {
            Some((last, piece)) if *last == stream && piece.len() < room => piece.extend_from_slice(bytes),
            _ => self.pieces.push_back((stream, bytes.to_vec())),
        }
        self.held[stream] += bytes.len();
        while let Some(oldest) = self.pieces.iter().position(|(of, _)| *of == stream)
            && self.held[stream] - self.pieces[oldest].1.len() >= room
        {
            self.held[stream] -= self.pieces[oldest].1.len();
            self.pieces.remove(oldest);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut over: Vec<usize> = self.held.iter().map(|held| held.saturating_sub(self.room())).collect();
        let mut all = Vec::new();
        for (stream, piece) in &self.pieces {
            let cut = over[*stream].min(piece.len());
            over[*stream] -= cut;
            all.extend_from_slice(&piece[cut..]);
        }
        all
    }
}

impl Source {
    /// Reads what is there; `false`: nobody has the other end open any more.
    fn read(&mut self, tail: &mut Tail, waiting: &mut Vec<Regex>, fired: &mut Vec<Fired>) -> bool {
        let mut piece = vec![0u8; 64 << 10];
        let mut total = 0;
        while total < TURN {
            match rustix::io::read(&self.fd, &mut piece) {
                Ok(n) if n > 0 => {
                    let at_ns = monotonic_ns();
                    total += n;
                    tail.keep(self.number, &piece[..n]);
                    if !waiting.is_empty() {
                        self.match_lines(&piece[..n], at_ns, waiting, fired);
                    }
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                // A terminal whose other end is closed says EIO.
                _ => return false,
            }
        }
        true
    }

    fn match_lines(&mut self, piece: &[u8], at_ns: u64, waiting: &mut Vec<Regex>, fired: &mut Vec<Fired>) {
        let mut check = |line: &[u8]| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            waiting.retain(|regex| {
                let matches = regex.is_match(line);
                if matches {
                    fired.push(Fired { name: Ready::Line(regex.clone()).to_string(), at_ns });
                }
                !matches
            });
        };
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(part);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                check(line);
                self.line.clear();
            } else if self.line.len() >= LONGEST_LINE {
                check(&self.line);
                self.line.clear();
            }
        }
        if !self.line.is_empty() {
            check(&self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints these pieces and returns which expressions fired after how many pieces.
    fn print(pieces: &[&[u8]], expressions: &[&str]) -> (Vec<(String, usize)>, String) {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let waiting = expressions.iter().map(|expression| Regex::new(expression).unwrap()).collect();
        let mut output = Output { waiting, ..Output::default() };
        output.add(ours).unwrap();
        let mut order = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            rustix::io::write(&theirs, piece).unwrap();
            let mut fired = Vec::new();
            output.look(&mut fired);
            order.extend(fired.into_iter().map(|fired| (fired.name, index)));
        }
        drop(theirs);
        output.look(&mut Vec::new());
        assert_eq!(output.wakers().count(), 0, "a closed stream wakes nobody");
        (order, output.tail())
    }

    #[test]
    fn a_line_in_pieces_is_one_line() {
        let (order, tail) = print(&[b"Star", b"ted in 5", b" ms\nmore"], &["^Started in 5 ms$", "more", "never"]);
        assert_eq!(order, [("line:^Started in 5 ms$".to_owned(), 2), ("line:more".to_owned(), 2)]);
        assert_eq!(tail, "Started in 5 ms\nmore");
    }

    #[test]
    fn a_prompt_counts_before_its_line_ends() {
        assert_eq!(print(&[b"login: "], &["^login: $"]).0.len(), 1);
    }

    #[test]
    fn lines_of_a_terminal_and_bytes_that_are_no_text_are_matched() {
        assert_eq!(print(&[b"\xff\xfe\nready\r\n"], &["^ready$"]).0.len(), 1);
    }

    #[test]
    fn an_expression_fires_once() {
        assert_eq!(print(&[b"a\na\n", b"a\n"], &["a"]).0, [("line:a".to_owned(), 0)]);
    }

    #[test]
    fn only_the_end_of_a_flood_is_kept_and_all_of_it_is_read() {
        let mut tail = Tail { held: vec![0], ..Tail::default() };
        for n in 0..100_000 {
            tail.keep(0, format!("{n}\n").as_bytes());
        }
        assert!((TAIL..=2 * TAIL).contains(&tail.held[0]));
        let bytes = tail.bytes();
        assert_eq!(bytes.len(), TAIL);
        assert!(bytes.ends_with(b"\n99999\n"));
    }

    #[test]
    fn a_flood_on_one_stream_leaves_the_last_words_on_another() {
        let mut tail = Tail { held: vec![0, 0], ..Tail::default() };
        tail.keep(0, b"first\n");
        tail.keep(1, b"cannot open display\n");
        tail.keep(0, b"second\n");
        assert_eq!(tail.bytes(), b"first\ncannot open display\nsecond\n", "in the order of arrival");
        for _ in 0..100 {
            tail.keep(0, &[b'x'; 10_000]);
            tail.keep(1, b".");
        }
        let bytes = String::from_utf8(tail.bytes()).unwrap();
        assert!(bytes.contains("cannot open display\n") && !bytes.contains("second") && bytes.len() <= TAIL);
        assert_eq!(bytes.matches('x').count(), TAIL / 2);
        assert!(tail.pieces.len() < 300, "what is not held is gone: {}", tail.pieces.len());
    }
}

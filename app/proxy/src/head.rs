//! Heads and framing of HTTP/1 messages (RFC 9112), read strictly: what two readers could understand in two ways is
//! refused. Pure: bytes in, values out, no socket and no library of HTTP.
//!
//! Stricter than the RFC where leniency lets requests be smuggled: no bare CR or LF, no folded lines, no second
//! `Content-Length` even of the same value, no transfer coding but `chunked`, no lengths beside `Transfer-Encoding`.

use std::fmt;

/// Why a message is not read, and the status with which a server says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the answer: 400, 408, 413, 417, 431, 501 or 505.
    pub status: u16,
    /// What is wrong, for people; holds nothing of the message.
    pub why: &'static str,
}

impl Refusal {
    /// A message that is malformed or ambiguous.
    pub const fn bad(why: &'static str) -> Self {
        Self { status: 400, why }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.why)
    }
}

impl std::error::Error for Refusal {}

/// How much of a head is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a head, or of the trailers of a body.
    pub bytes: usize,
    /// Field lines of a head.
    pub fields: usize,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing, or so many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// All until the connection ends: an answer without a length, or the bytes of a tunnel.
    UntilClose,
}

/// Name and value of a field.
pub type Field<'b> = (&'b [u8], &'b [u8]);

/// A head that was read.
#[derive(Debug)]
pub struct Head<'b> {
    /// The method of a request; the status of an answer, three digits.
    pub verb: &'b [u8],
    /// The target of a request; the reason of an answer.
    pub target: &'b [u8],
    /// 0 or 1: HTTP/1.0 or 1.1.
    pub minor: u8,
    /// Names as they came, values without white space around them.
    pub fields: Vec<Field<'b>>,
    /// What follows.
    pub framing: Framing,
}

/// Looks for the end of a head in bytes that arrive piece by piece; each byte is looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    looked: usize,
    line: usize,
}

impl Ends {
    /// Bytes of the head with its empty line, once all are there. `bytes` begins with the message, and is what the call
    /// before got with more behind it. An empty line before the head belongs to it (RFC 9112, 2.2).
    ///
    /// # Errors
    /// A bare CR or LF, a NUL.
    pub fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        while let Some(&byte) = bytes.get(self.looked) {
            let at = self.looked;
            match byte {
                0 => return Err(Refusal::bad("a NUL in the head")),
                b'\r' => match bytes.get(at + 1) {
                    None => return Ok(None),
                    Some(b'\n') => {}
                    Some(_) => return Err(Refusal::bad("a CR without LF in the head")),
                },
                b'\n' => {
                    if at == 0 || bytes[at - 1] != b'\r' {
                        return Err(Refusal::bad("a LF without CR in the head"));
                    }
                    let empty = at - 1 == self.line;
                    self.line = at + 1;
                    if empty && at != 1 {
                        self.looked = at + 1;
                        return Ok(Some(at + 1));
                    }
                }
                _ => {}
            }
            self.looked += 1;
        }
        Ok(None)
    }
}

/// The head of a request, whole, as [`Ends::find`] cut it.
///
/// # Errors
/// It is malformed or ambiguous, or beyond the limits.
pub fn request<'b>(bytes: &'b [u8], limits: &Limits) -> Result<Head<'b>, Refusal> {
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let (line, rest) = line(bytes)?;
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(verb), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::bad("a request line is METHOD SP TARGET SP VERSION"));
    };
    if verb.is_empty() || verb.len() > 32 || !verb.iter().all(|byte| is_token(*byte)) {
        return Err(Refusal::bad("no method"));
    }
    let minor = version_of(version)?;
    let fields = fields(rest, limits)?;
    let host = host_of(&fields, minor)?;
    target_fits(verb, target, host)?;
    let framing = match length(&fields, minor)? {
        _ if verb == b"CONNECT" => {
            if fields.iter().any(|(name, _)| is(name, "content-length") || is(name, "transfer-encoding")) {
                return Err(Refusal::bad("CONNECT has no body"));
            }
            Framing::UntilClose
        }
        Framing::UntilClose => Framing::Length(0),
        other => other,
    };
    Ok(Head { verb, target, minor, fields, framing })
}

/// The head of an answer, whole, as [`Ends::find`] cut it. `to_head`: the request was HEAD.
///
/// # Errors
/// It is malformed or ambiguous, or beyond the limits.
pub fn response<'b>(bytes: &'b [u8], limits: &Limits, to_head: bool) -> Result<Head<'b>, Refusal> {
    let (line, rest) = line(bytes)?;
    let (version, line) = line.split_at_checked(8).ok_or(Refusal::bad("no status line"))?;
    let minor = version_of(version)?;
    let (verb, target) = line
        .strip_prefix(b" ")
        .and_then(|line| line.split_at_checked(3))
        .ok_or(Refusal::bad("a status line is VERSION SP STATUS SP REASON"))?;
    let reason = if target.is_empty() { Some(target) } else { target.strip_prefix(b" ") };
    let target = reason.ok_or(Refusal::bad("a status has three digits"))?;
    if !verb.iter().all(u8::is_ascii_digit) || !(b'1'..=b'5').contains(&verb[0]) {
        return Err(Refusal::bad("a status is 100 to 599"));
    }
    if !target.iter().all(|byte| is_value(*byte)) {
        return Err(Refusal::bad("a control character in the reason"));
    }
    let fields = fields(rest, limits)?;
    let framing = match length(&fields, minor)? {
        _ if to_head || verb[0] == b'1' || verb == b"204" || verb == b"304" => Framing::Length(0),
        other => other,
    };
    Ok(Head { verb, target, minor, fields, framing })
}

fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(Refusal::bad("a line without an end"))?;
    let line = bytes[..end].strip_suffix(b"\r").ok_or(Refusal::bad("a LF without CR in the head"))?;
    Ok((line, &bytes[end + 1..]))
}

fn version_of(version: &[u8]) -> Result<u8, Refusal> {
    match version {
        b"HTTP/1.1" => Ok(1),
        b"HTTP/1.0" => Ok(0),
        _ if version.starts_with(b"HTTP/") => {
            Err(Refusal { status: 505, why: "a version of HTTP other than 1.1 and 1.0" })
        }
        _ => Err(Refusal::bad("no version of HTTP")),
    }
}

fn fields<'b>(mut rest: &'b [u8], limits: &Limits) -> Result<Vec<Field<'b>>, Refusal> {
    let mut fields = Vec::new();
    loop {
        let (text, after) = line(rest)?;
        if text.is_empty() {
            return match after {
                [] => Ok(fields),
                _ => Err(Refusal::bad("bytes behind the head")),
            };
        }
        if fields.len() == limits.fields {
            return Err(Refusal { status: 431, why: "too many fields in the head" });
        }
        fields.push(field(text)?);
        rest = after;
    }
}

/// One field line without its CRLF: name and trimmed value.
///
/// # Errors
/// A folded line, a name that is no token (so also a space before the colon), a control character in the value.
pub fn field(line: &[u8]) -> Result<Field<'_>, Refusal> {
    if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(Refusal::bad("a folded line in the head"));
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Refusal::bad("a line without a colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err(Refusal::bad("a field name that is none"));
    }
    // Gateways that make variables of names see these as the fields that frame a message.
    if name.contains(&b'_') && ["content_length", "transfer_encoding"].iter().any(|twin| is(name, twin)) {
        return Err(Refusal::bad("a field that some take for one that frames the message"));
    }
    if !value.iter().all(|byte| is_value(*byte)) {
        return Err(Refusal::bad("a control character in a field"));
    }
    Ok((name, trimmed(value)))
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn is(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

fn is_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9112, 6.3, without its leniency.
fn length(fields: &[Field<'_>], minor: u8) -> Result<Framing, Refusal> {
    let values = |wanted| fields.iter().filter(move |(name, _)| is(name, wanted)).map(|(_, value)| *value);
    let (mut lengths, mut codings) = (values("content-length"), values("transfer-encoding"));
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::UntilClose),
        (Some(_), Some(_)) => Err(Refusal::bad("both Content-Length and Transfer-Encoding")),
        (Some(value), None) => {
            if lengths.next().is_some() {
                return Err(Refusal::bad("more than one Content-Length"));
            }
            decimal(value).map(Framing::Length).ok_or(Refusal::bad("a Content-Length that is no number"))
        }
        (None, Some(value)) => {
            if minor == 0 {
                return Err(Refusal::bad("Transfer-Encoding in HTTP/1.0"));
            }
            if codings.next().is_some() {
                return Err(Refusal::bad("more than one Transfer-Encoding"));
            }
            match value.eq_ignore_ascii_case(b"chunked") {
                true => Ok(Framing::Chunked),
                // RFC 9112, 6.1: a coding that is not understood is answered with 501.
                false if value.iter().all(|byte| is_token(*byte) || b", ".contains(byte)) => {
                    Err(Refusal { status: 501, why: "a transfer coding other than chunked" })
                }
                false => Err(Refusal::bad("a transfer coding that is none")),
            }
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Above 2^63 are no lengths, and signed readers would see negative ones.
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number <= i64::MAX as u64)
}

/// The value of Host: exactly one in HTTP/1.1 (RFC 9112, 3.2), at most one in 1.0.
fn host_of<'b>(fields: &[Field<'b>], minor: u8) -> Result<Option<&'b [u8]>, Refusal> {
    let mut hosts = fields.iter().filter(|(name, _)| is(name, "host")).map(|(_, value)| *value);
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Refusal::bad("more than one Host"));
    }
    match host {
        None if minor == 0 => Ok(None),
        None => Err(Refusal::bad("no Host")),
        Some(host) => authority(host).map(|_| Some(host)),
    }
}

/// What HTTP/2 brought, held to the rules of [`request`]: who reads it is looser, and it goes on as HTTP/1. `target` is
/// the path, or the authority of CONNECT.
///
/// # Errors
/// It would be malformed or ambiguous as HTTP/1, or is beyond the limits.
pub fn of_two<'b>(
    verb: &[u8],
    target: &[u8],
    fields: impl Iterator<Item = Field<'b>>,
    limits: &Limits,
) -> Result<(), Refusal> {
    if verb.len() > 32 {
        return Err(Refusal::bad("no method"));
    }
    if verb == b"CONNECT" || target.starts_with(b"/") || target == b"*" {
        target_fits(verb, target, None)?;
    } else {
        return Err(Refusal::bad("a path begins with a slash"));
    }
    let (mut count, mut lengths) = (0, 0);
    for (name, value) in fields {
        count += 1;
        if count > limits.fields {
            return Err(Refusal { status: 431, why: "too many fields in the head" });
        }
        if OF_HTTP1.iter().any(|other| is(name, other)) {
            return Err(Refusal::bad("a field of HTTP/1 connections in HTTP/2"));
        }
        if name.contains(&b'_') && ["content_length", "transfer_encoding"].iter().any(|twin| is(name, twin)) {
            return Err(Refusal::bad("a field that some take for one that frames the message"));
        }
        if !value.iter().all(|byte| is_value(*byte)) || trimmed(value).len() != value.len() {
            return Err(Refusal::bad("a control character in a field, or white space around it"));
        }
        if is(name, "content-length") {
            lengths += 1;
            if lengths > 1 {
                return Err(Refusal::bad("more than one Content-Length"));
            }
            if verb == b"CONNECT" {
                return Err(Refusal::bad("CONNECT has no body"));
            }
            decimal(value).ok_or(Refusal::bad("a Content-Length that is no number"))?;
        }
    }
    Ok(())
}

/// RFC 9113, 8.2.2: they mean nothing in HTTP/2.
const OF_HTTP1: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// `HOST` or `HOST:PORT` in its two parts.
///
/// # Errors
/// No host, user information, a port that is no number, letters that no host has.
pub fn authority(text: &[u8]) -> Result<(&[u8], Option<u16>), Refusal> {
    const WRONG: Refusal = Refusal::bad("a host that is none");
    let (host, after) = if text.first() == Some(&b'[') {
        let end = text.iter().position(|byte| *byte == b']').ok_or(WRONG)?;
        let inner = &text[1..end];
        let fits = inner.contains(&b':') && inner.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte));
        (fits.then_some(&text[..=end]).ok_or(WRONG)?, &text[end + 1..])
    } else {
        let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let host = &text[..end];
        let fits = host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte));
        ((fits && !host.is_empty()).then_some(host).ok_or(WRONG)?, &text[end..])
    };
    let port = match after {
        [] => None,
        [b':', digits @ ..] if digits.len() <= 5 => {
            Some(decimal(digits).and_then(|port| u16::try_from(port).ok()).ok_or(WRONG)?)
        }
        _ => return Err(WRONG),
    };
    Ok((host, port))
}

/// Whether two authorities are the same, where `default` is the port that may be left out.
fn same(one: &[u8], other: &[u8], default: Option<u16>) -> Result<bool, Refusal> {
    let ((host, port), (other_host, other_port)) = (authority(one)?, authority(other)?);
    Ok(host.eq_ignore_ascii_case(other_host) && port.or(default) == other_port.or(default))
}

/// RFC 9112, 3.2: the four forms of a target, and that Host says the same.
fn target_fits(verb: &[u8], target: &[u8], host: Option<&[u8]>) -> Result<(), Refusal> {
    const WRONG: Refusal = Refusal::bad("a target that is none");
    const DIFFERS: Refusal = Refusal::bad("Host and target name different hosts");
    if !target.iter().all(|byte| byte.is_ascii_graphic() && !b"#\\".contains(byte)) {
        return Err(WRONG);
    }
    if verb == b"CONNECT" {
        let (_, port) = authority(target)?;
        let default = Some(port.filter(|port| *port > 0).ok_or(Refusal::bad("CONNECT without a port"))?);
        return match host.map_or(Ok(true), |host| same(target, host, default))? {
            true => Ok(()),
            false => Err(DIFFERS),
        };
    }
    match target {
        [b'/', ..] => Ok(()),
        b"*" if verb == b"OPTIONS" => Ok(()),
        _ => {
            let scheme = target.iter().position(|byte| *byte == b':').ok_or(WRONG)?;
            let default = match target[..scheme].to_ascii_lowercase().as_slice() {
                b"http" => 80,
                b"https" => 443,
                _ => return Err(WRONG),
            };
            let rest = target[scheme..].strip_prefix(b"://").ok_or(WRONG)?;
            let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
            authority(&rest[..end])?;
            match host.map_or(Ok(true), |host| same(&rest[..end], host, Some(default)))? {
                true => Ok(()),
                false => Err(DIFFERS),
            }
        }
    }
}

/// Follows a chunked body (RFC 9112, 7.1) through bytes that arrive piece by piece, and says where it ends.
#[derive(Debug)]
pub struct Chunks {
    state: State,
    /// Bytes of the line that is read: of trailers, to look at them whole.
    line: Vec<u8>,
    /// Bytes of all trailers so far.
    trailers: usize,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a size: its value, and how many digits there were.
    Size(u64, u8),
    /// In an extension that is passed over: the size, and how many bytes it has.
    Extension(u64, u16),
    /// The LF behind a size.
    SizeEnd(u64),
    Data(u64),
    DataCr,
    DataLf,
    Trailer,
    TrailerLf,
    Done,
}

/// Bytes of a chunk's extensions; no known program sends any.
const EXTENSION: u16 = 256;

/// Fields that a trailer may not bring (RFC 9110, 6.5.1): they frame or route the message, or change who may see it.
const NO_TRAILERS: [&str; 10] = [
    "content-length",
    "transfer-encoding",
    "host",
    "trailer",
    "te",
    "connection",
    "authorization",
    "set-cookie",
    "cache-control",
    "content-encoding",
];

impl Chunks {
    /// Before the first chunk. `limit`: bytes of all trailers.
    pub fn new(limit: usize) -> Self {
        Self { state: State::Size(0, 0), line: Vec::new(), trailers: 0, limit }
    }

    /// Whether the body has ended.
    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Follows these bytes; how many of them belong to the body. Fewer than all only where it has ended.
    ///
    /// # Errors
    /// A size that is not hexadecimal digits, a chunk that does not end where its size says, a bare CR or LF, a
    /// malformed or forbidden trailer, one beyond the limit.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if let State::Data(left) = self.state {
                let here = left.min((bytes.len() - at) as u64);
                at += here as usize;
                self.state = if left == here { State::DataCr } else { State::Data(left - here) };
                continue;
            }
            self.state = self.step(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }

    fn step(&mut self, byte: u8) -> Result<State, Refusal> {
        const SIZE: Refusal = Refusal::bad("a chunk size that is none");
        const END: Refusal = Refusal::bad("a chunk that does not end where its size says");
        Ok(match (self.state, byte) {
            (State::Size(size, digits), _) if byte.is_ascii_hexdigit() => {
                let digit = u64::from((byte as char).to_digit(16).ok_or(SIZE)?);
                if digits == 16 || size > (i64::MAX as u64) >> 4 {
                    return Err(SIZE);
                }
                State::Size(size << 4 | digit, digits + 1)
            }
            (State::Size(size, 1..), b'\r') | (State::Extension(size, 1..), b'\r') => State::SizeEnd(size),
            (State::Size(size, 1..), b';') => State::Extension(size, 0),
            (State::Extension(size, len), _) if is_value(byte) && len < EXTENSION => State::Extension(size, len + 1),
            (State::SizeEnd(0), b'\n') => State::Trailer,
            (State::SizeEnd(size), b'\n') => State::Data(size),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size(0, 0),
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::Trailer, b'\n') => return Err(Refusal::bad("a LF without CR in the trailers")),
            (State::Trailer, _) => {
                self.trailers += 1;
                if self.trailers > self.limit {
                    return Err(Refusal { status: 431, why: "trailers too large" });
                }
                self.line.push(byte);
                State::Trailer
            }
            (State::TrailerLf, b'\n') if self.line.is_empty() => State::Done,
            (State::TrailerLf, b'\n') => {
                let (name, _) = field(&self.line)?;
                if NO_TRAILERS.iter().any(|forbidden| is(name, forbidden)) {
                    return Err(Refusal::bad("a trailer that belongs into the head"));
                }
                self.line.clear();
                State::Trailer
            }
            (State::TrailerLf, _) => return Err(Refusal::bad("a CR without LF in the trailers")),
            (State::DataCr | State::DataLf, _) => return Err(END),
            _ => return Err(SIZE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 1 << 16, fields: 100 };

    fn asked(text: &str) -> Result<Framing, Refusal> {
        let end = Ends::default().find(text.as_bytes())?.ok_or(Refusal::bad("incomplete"))?;
        request(&text.as_bytes()[..end], &LIMITS).map(|head| head.framing)
    }

    fn answered(text: &str) -> Result<Framing, Refusal> {
        let end = Ends::default().find(text.as_bytes())?.ok_or(Refusal::bad("incomplete"))?;
        response(&text.as_bytes()[..end], &LIMITS, false).map(|head| head.framing)
    }

    #[test]
    fn what_http2_brings_is_held_to_the_same_rules() {
        let two = |verb: &str, target: &str, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            of_two(verb.as_bytes(), target.as_bytes(), fields, &Limits { fields: 3, ..LIMITS })
        };
        for (verb, target) in [("GET", "/a?b"), ("OPTIONS", "*"), ("CONNECT", "a:443"), ("CONNECT", "[::1]:443")] {
            assert_eq!(two(verb, target, &[("te", "trailers"), ("x", ""), ("x", "y z")]), Ok(()), "{verb} {target}");
        }
        for (verb, target) in [
            ("GET", ""),
            ("GET", "a"),
            ("GET", "http://a/"),
            ("GET", "*"),
            ("GET", "/a b"),
            ("GET", "/a#b"),
            ("GET", "/a\\b"),
            ("GET", "/\u{e9}"),
            ("CONNECT", "a"),
            ("CONNECT", "/"),
            ("CONNECT", "a:0"),
            ("A-VERB-OF-MORE-THAN-32-LETTERS-IN-ALL", "/"),
        ] {
            assert!(two(verb, target, &[]).is_err(), "{verb} {target}");
        }
        for field in [
            ("connection", "x"),
            ("Transfer-Encoding", "chunked"),
            ("content_length", "1"),
            ("content-length", "+1"),
            ("x", " y"),
            ("x", "y\r\nz: z"),
            ("x", "\0"),
        ] {
            assert!(two("GET", "/", &[field]).is_err(), "{field:?}");
        }
        assert!(two("POST", "/", &[("content-length", "1"), ("content-length", "1")]).is_err());
        assert!(two("CONNECT", "a:1", &[("content-length", "0")]).is_err());
        assert_eq!(two("GET", "/", &[("x", "y"); 4]).map_err(|why| why.status), Err(431));
    }

    #[test]
    fn common_heads_are_read() {
        assert_eq!(asked("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(Framing::Length(0)));
        assert_eq!(asked("\r\nGET /?q=1 HTTP/1.0\r\n\r\n"), Ok(Framing::Length(0)));
        assert_eq!(asked("POST / HTTP/1.1\r\nHost:a:80 \r\nContent-Length: 12\r\n\r\n"), Ok(Framing::Length(12)));
        assert_eq!(asked("PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: Chunked\r\n\r\n"), Ok(Framing::Chunked));
        assert_eq!(asked("GET http://A.b/ HTTP/1.1\r\nHost: a.B:80\r\n\r\n"), Ok(Framing::Length(0)));
        assert_eq!(asked("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n"), Ok(Framing::UntilClose));
        assert_eq!(asked("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(Framing::Length(0)));
        assert_eq!(answered("HTTP/1.1 200 OK\r\n\r\n"), Ok(Framing::UntilClose));
        assert_eq!(answered("HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n"), Ok(Framing::Length(3)));
        assert_eq!(answered("HTTP/1.1 304 x\r\nContent-Length: 3\r\n\r\n"), Ok(Framing::Length(0)));
    }

    #[test]
    fn every_piece_is_found_byte_by_byte_as_at_once() {
        let text = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
        let mut ends = Ends::default();
        let found = (0..=text.len()).find_map(|len| ends.find(&text[..len]).unwrap());
        assert_eq!(found, Ends::default().find(text).unwrap());
        assert_eq!(found, Some(text.len() - 4));
    }

    #[test]
    fn chunks_end_where_they_say() {
        let body = b"4;a=b\r\nabcd\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET";
        for step in 1..=body.len() {
            let mut chunks = Chunks::new(100);
            let used: usize = body.chunks(step).map(|piece| chunks.feed(piece).unwrap()).sum();
            assert!(chunks.done());
            assert_eq!(used, body.len() - 3, "in steps of {step}");
        }
    }

    #[test]
    fn tricks_with_chunks_are_refused() {
        for body in [
            "\r\n",
            "+4\r\nabcd\r\n",
            "-1\r\n",
            "0x4\r\nabcd\r\n",
            " 4\r\nabcd\r\n",
            "4 \r\nabcd\r\n",
            "4\nabcd\r\n",
            "4\r\nabcde\r\n",
            "4\r\nabc\r\n0\r\n\r\n",
            "ffffffffffffffff\r\n",
            "10000000000000000\r\n",
            "00000000000000004\r\nabcd\r\n",
            "4\rabcd\r\n",
            "4;\nabcd\r\n",
            "4;a\rb\r\nabcd\r\n",
            "4;\r\nabcd\r\n",
            "4\r\nabcd\n0\r\n\r\n",
            "0\r\nContent-Length: 4\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\nX: y\n\r\n",
            "0\r\n X: y\r\n\r\n",
            "0\r\nX: \0\r\n\r\n",
            "0\r\nHost: b\r\n\r\n",
            "0\r\n\rX",
            "g\r\n",
            "4_\r\nabcd\r\n",
        ] {
            assert!(Chunks::new(100).feed(body.as_bytes()).is_err(), "{body:?}");
        }
        let long = format!("4;{}\r\nabcd\r\n", "x".repeat(1000));
        assert!(Chunks::new(100).feed(long.as_bytes()).is_err());
        let long = format!("0\r\nX: {}\r\n\r\n", "x".repeat(1000));
        assert!(Chunks::new(100).feed(long.as_bytes()).is_err());
    }
}

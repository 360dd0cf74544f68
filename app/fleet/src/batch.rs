//! What one request brings: its bytes unpacked within bounds, its lines judged one by one.

use crate::programs::Programs;
use ping::{Day, Ping, Reason};
use serde::Serialize;
use std::io::Read;

/// Bytes of a body as it comes.
pub const MOST_BODY: usize = 1 << 20;
/// Pings of a request.
pub const MOST_PINGS: usize = 1000;
/// Bytes of a body unpacked: so many pings of the greatest length.
pub const MOST_UNPACKED: usize = MOST_PINGS * (ping::MOST_BYTES + 1);

/// A line that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Its number, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
    /// The kind of reason.
    #[serde(skip)]
    pub reason: Reason,
}

/// Lines to be kept: the id of each, and it as it is written.
#[derive(Debug, Default)]
pub struct Batch {
    /// Good ones.
    pub lines: Vec<(u128, String)>,
    /// The others.
    pub refused: Vec<Refusal>,
}

/// Why a body is not looked at.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// Too many bytes, or too many lines.
    Large(String),
    /// It cannot be unpacked.
    Broken(String),
    /// Packed in a way that is not known here.
    Encoding,
}

/// Unpacks a body, never to more than [`MOST_UNPACKED`].
///
/// # Errors
/// It is larger, broken, or packed in another way than `gzip` and `zstd`.
pub fn unpack(encoding: Option<&str>, body: Vec<u8>) -> Result<Vec<u8>, Unread> {
    let mut out = Vec::new();
    let most = MOST_UNPACKED as u64 + 1;
    let packed = &body[..];
    let read = match encoding {
        None | Some("identity") => return Ok(body),
        Some("gzip") => flate2::read::MultiGzDecoder::new(packed).take(most).read_to_end(&mut out),
        Some("zstd") => zstd::stream::read::Decoder::new(packed).and_then(|mut decoder| {
            // 8 MiB: more than all that may come out.
            decoder.window_log_max(23)?;
            decoder.take(most).read_to_end(&mut out)
        }),
        Some(_) => return Err(Unread::Encoding),
    };
    match read {
        Err(error) => Err(Unread::Broken(error.to_string())),
        Ok(_) if out.len() > MOST_UNPACKED => {
            Err(Unread::Large(format!("it unpacks to more than {MOST_UNPACKED} bytes")))
        }
        Ok(_) => Ok(out),
    }
}

/// Judges each line; empty ones are none. `programs` says of which program a ping may be.
///
/// # Errors
/// There are more than [`MOST_PINGS`].
pub fn judge(bytes: &[u8], today: Day, programs: &Programs) -> Result<Batch, Unread> {
    let mut batch = Batch::default();
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    for (seen, (at, line)) in lines.enumerate() {
        if seen == MOST_PINGS {
            return Err(Unread::Large(format!("more than {MOST_PINGS} pings at once")));
        }
        let ping = Ping::parse(line, today);
        match ping.and_then(|ping| programs.admit(&ping.app, today).map(|()| ping)) {
            Ok(ping) => batch.lines.push((id(&ping), ping.to_line())),
            Err(refused) => batch.refused.push(Refusal { line: at + 1, why: refused.why, reason: refused.reason }),
        }
    }
    Ok(batch)
}

/// The id as a number: the reader has seen that it is 32 hexadecimal digits.
pub fn id(ping: &Ping) -> u128 {
    u128::from_str_radix(&ping.id, 16).expect("32 hexadecimal digits")
}

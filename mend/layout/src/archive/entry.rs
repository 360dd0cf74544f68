//! The content of entries: inflating, deflating, and what inflating costs on this machine.

use super::form::Method;
use super::zip::{Entry, Zip, slice};
use flate2::{Decompress, FlushDecompress, Status};
use model::{Error, Exit, Result};
use std::io::Read;
use std::time::Instant;

/// Bytes that are inflated at once.
const CHUNK: usize = 64 << 10;
/// As small as deflate can make zeros.
const MOST_RATIO: u64 = 1032;

fn damaged(entry: &Entry<'_>, why: &str) -> Error {
    Error::new(Exit::Data, format!("the archive is damaged: the entry '{}' {why}", entry.shown()), "")
}

/// Hands the content of an entry to `take`, piece by piece, and checks length and CRC.
///
/// # Errors
/// The data does not inflate to what the directory says.
pub(super) fn content(zip: &Zip<'_>, entry: &Entry<'_>, mut take: impl FnMut(&[u8])) -> Result<()> {
    let raw = slice(zip.bytes, &entry.data).unwrap_or_default();
    let mut crc = crc32fast::Hasher::new();
    let mut len = 0_u64;
    let mut piece = |bytes: &[u8]| {
        crc.update(bytes);
        len += bytes.len() as u64;
        take(bytes);
    };
    match entry.method {
        Method::Stored => piece(raw),
        Method::Deflated => inflate(raw, u64::from(entry.size), &mut piece).map_err(|why| damaged(entry, why))?,
        Method::Other(number) => return Err(damaged(entry, &format!("is compressed with method {number}"))),
    }
    if len != u64::from(entry.size) {
        return Err(damaged(entry, "has another length than the directory says"));
    }
    if crc.finalize() != entry.crc {
        return Err(damaged(entry, "has another checksum than the directory says"));
    }
    Ok(())
}

/// The whole content of an entry.
pub(super) fn whole(zip: &Zip<'_>, entry: &Entry<'_>) -> Result<Vec<u8>> {
    // No more than the data can hold, whatever the directory claims.
    let most = u64::from(entry.compressed).saturating_mul(MOST_RATIO);
    let mut bytes = Vec::with_capacity(u64::from(entry.size).min(most) as usize);
    content(zip, entry, |piece| bytes.extend_from_slice(piece))?;
    Ok(bytes)
}

fn inflate(raw: &[u8], size: u64, take: &mut impl FnMut(&[u8])) -> std::result::Result<(), &'static str> {
    let mut stream = Decompress::new(false);
    let mut out = vec![0_u8; CHUNK];
    loop {
        let (before_in, before_out) = (stream.total_in(), stream.total_out());
        let rest = raw.get(before_in as usize..).unwrap_or_default();
        let status = stream.decompress(rest, &mut out, FlushDecompress::None).map_err(|_| "does not inflate")?;
        let made = (stream.total_out() - before_out) as usize;
        take(&out[..made]);
        if stream.total_out() > size {
            return Err("inflates to more than the directory says");
        }
        match status {
            Status::StreamEnd if stream.total_in() == raw.len() as u64 => return Ok(()),
            Status::StreamEnd => return Err("has bytes behind its end"),
            _ if made == 0 && stream.total_in() == before_in => return Err("does not inflate: it is cut off"),
            _ => {}
        }
    }
}

/// Deflates as small as the library can.
pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = flate2::read::DeflateEncoder::new(bytes, flate2::Compression::best());
    // Reading from memory into memory cannot fail.
    encoder.read_to_end(&mut out).expect("memory");
    out
}

/// How fast this machine inflates what is in the archive, in bytes of content a second. Measured on up to 32 MiB of it,
/// the best of three; entries that are stored are deflated first. `None`: there is nothing to measure with.
///
/// # Errors
/// An entry does not inflate to what the directory says.
pub fn inflate_rate(zip: &Zip<'_>) -> Result<Option<f64>> {
    const ENOUGH: usize = 32 << 20;
    let mut samples: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut len = 0;
    for entry in zip.entries.iter().filter(|entry| entry.size >= 512) {
        let bytes = whole(zip, entry)?;
        let raw = match entry.method {
            Method::Deflated => slice(zip.bytes, &entry.data).unwrap_or_default().to_vec(),
            _ => deflate(&bytes),
        };
        len += bytes.len();
        samples.push((raw, bytes.len() as u64));
        if len >= ENOUGH {
            break;
        }
    }
    if len == 0 {
        return Ok(None);
    }
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        for (raw, size) in &samples {
            inflate(raw, *size, &mut |piece| {
                std::hint::black_box(piece);
            })
            .map_err(|why| Error::bug(format!("what was just deflated {why}")))?;
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(Some(len as f64 / best.max(1e-9)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_where_its_data_end_and_has_the_length_that_was_said() {
        let content = [b"abcdefgh".repeat(20_000), vec![7]].concat();
        let raw = deflate(&content);
        let size = content.len() as u64;
        let inflated = |raw: &[u8], size| {
            let mut out = Vec::new();
            inflate(raw, size, &mut |piece| out.extend_from_slice(piece)).map(|()| out)
        };
        assert_eq!(inflated(&raw, size).as_ref(), Ok(&content));
        assert_eq!(inflated(&[&raw[..], b"x"].concat(), size), Err("has bytes behind its end"));
        assert_eq!(inflated(&[&raw[..], &raw[..]].concat(), size), Err("has bytes behind its end"));
        assert_eq!(inflated(&raw[..raw.len() - 1], size), Err("does not inflate: it is cut off"));
        assert_eq!(inflated(&raw, size - 1), Err("inflates to more than the directory says"));
    }
}

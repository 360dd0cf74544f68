//! The new file as pieces: stretches of the original, new bytes, and zeros. Nothing of the original is copied until it
//! is written, so that a packed file costs little memory beyond its new tables.

use std::borrow::Cow;

/// A file made of pieces; what no piece covers is zero.
#[derive(Clone, Debug)]
pub struct Canvas<'a> {
    len: u64,
    /// By place, apart.
    pieces: Vec<Piece<'a>>,
}

/// What comes to an address.
#[derive(Clone, Debug)]
pub enum Fill {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many zeros.
    Zero(u64),
}

/// Bytes and their place.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// Where in the file.
    pub at: u64,
    /// What stands there: a stretch of the original, or new bytes.
    pub bytes: Cow<'a, [u8]>,
}

impl Piece<'_> {
    pub fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl<'a> Canvas<'a> {
    /// A file of this many bytes, all zero.
    pub fn blank(len: u64) -> Self {
        Self { len, pieces: Vec::new() }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn pieces(&self) -> &[Piece<'a>] {
        &self.pieces
    }

    /// Makes a stretch zero.
    pub fn erase(&mut self, at: u64, len: u64) {
        let end = at.saturating_add(len);
        let first = self.pieces.partition_point(|piece| piece.end() <= at);
        let last = self.pieces.partition_point(|piece| piece.at < end);
        let cut: Vec<Piece<'a>> = self.pieces.drain(first..last.max(first)).collect();
        let mut rest = Vec::new();
        for piece in cut {
            // Both cuts lie inside of the piece, because it meets the stretch.
            let head = at.saturating_sub(piece.at) as usize;
            let tail = piece.end().saturating_sub(end) as usize;
            let (start, len) = (piece.at, piece.bytes.len());
            let (front, back) = match piece.bytes {
                Cow::Borrowed(bytes) => (Cow::Borrowed(&bytes[..head]), Cow::Borrowed(&bytes[len - tail..])),
                Cow::Owned(mut bytes) => {
                    let back = bytes.split_off(len - tail);
                    bytes.truncate(head);
                    (Cow::Owned(bytes), Cow::Owned(back))
                }
            };
            rest.push(Piece { at: start, bytes: front });
            rest.push(Piece { at: start + (len - tail) as u64, bytes: back });
        }
        rest.retain(|piece| !piece.bytes.is_empty());
        self.pieces.splice(first..first, rest);
    }

    /// Puts bytes over what is there. What lies beyond the end makes the file longer.
    pub fn paint(&mut self, at: u64, bytes: impl Into<Cow<'a, [u8]>>) {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len() as u64;
        self.len = self.len.max(end);
        let index = self.pieces.partition_point(|piece| piece.end() <= at);
        if let Some(Piece { at: start, bytes: Cow::Owned(under) }) = self.pieces.get_mut(index)
            && *start <= at
            && end <= *start + under.len() as u64
        {
            let from = (at - *start) as usize;
            under[from..from + bytes.len()].copy_from_slice(&bytes);
            return;
        }
        self.erase(at, bytes.len() as u64);
        let index = self.pieces.partition_point(|piece| piece.at < at);
        self.pieces.insert(index, Piece { at, bytes });
    }

    /// The bytes of the whole file.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len as usize);
        for piece in &self.pieces {
            all.resize(piece.at as usize, 0);
            all.extend_from_slice(&piece.bytes);
        }
        all.resize(self.len as usize, 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn painting_is_painting(strokes in proptest::collection::vec((0..200u64, 0..60usize, 0..3u8), 0..40)) {
            let source: Vec<u8> = (0..100).map(|byte| byte + 100).collect();
            let mut plain = vec![0; 50];
            let mut canvas = Canvas::blank(50);
            for (index, (at, len, kind)) in strokes.into_iter().enumerate() {
                let bytes = match kind {
                    0 => vec![0; len],
                    1 => vec![index as u8 + 1; len],
                    _ => source[..len].to_vec(),
                };
                match kind {
                    0 => canvas.erase(at, len as u64),
                    1 => canvas.paint(at, bytes.clone()),
                    _ => canvas.paint(at, &source[..len]),
                }
                let end = at as usize + len;
                if kind != 0 && len != 0 && plain.len() < end {
                    plain.resize(end, 0);
                }
                for (offset, byte) in bytes.into_iter().enumerate() {
                    if let Some(place) = plain.get_mut(at as usize + offset) {
                        *place = byte;
                    }
                }
                prop_assert_eq!(canvas.to_vec(), plain.clone());
                prop_assert!(canvas.pieces().windows(2).all(|pair| pair[0].end() <= pair[1].at));
            }
        }
    }
}

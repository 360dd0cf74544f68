//! All whole variants of a key as one entry of a store: what is read is what was together.
//!
//! Metadata: a number that the body begins with too (8 bytes), then for each variant the length of its head (4), of its
//! body (8), and the head. Little endian. An entry of which that does not add up is none.

use crate::stored::Stored;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// Bytes of the number that metadata and body begin with.
pub const NUMBER: usize = 8;

/// A variant: its head, and its bytes in pieces.
pub type Variant = (Stored, Vec<Bytes>);

/// Metadata and body of these variants, each of them whole. `number`: another one each time, so that the metadata of
/// one time never goes with the body of another.
pub fn pack(number: u64, variants: &[Variant]) -> (Bytes, Bytes) {
    let bytes: usize = variants.iter().flat_map(|(_, pieces)| pieces).map(Bytes::len).sum();
    let (mut meta, mut body) = (BytesMut::new(), BytesMut::with_capacity(NUMBER + bytes));
    meta.put_u64_le(number);
    body.put_u64_le(number);
    for (stored, pieces) in variants {
        put_head(&mut meta, stored, pieces.iter().map(|piece| piece.len() as u64).sum());
        pieces.iter().for_each(|piece| body.put_slice(piece));
    }
    (meta.freeze(), body.freeze())
}

fn put_head(meta: &mut BytesMut, stored: &Stored, body: u64) {
    let head = stored.encode();
    meta.put_u32_le(head.len() as u32);
    meta.put_u64_le(body);
    meta.put_slice(&head);
}

/// The number that metadata, or a body, begin with. `None`: they are shorter.
pub fn number(mut bytes: &[u8]) -> Option<u64> {
    bytes.try_get_u64_le().ok()
}

/// Metadata for the body that is there: other heads of the same variants, in the same order, with the number that was
/// theirs before. `None`: one of them is not whole.
pub fn meta<'a>(number: u64, heads: impl IntoIterator<Item = &'a Stored>) -> Option<Bytes> {
    let mut meta = BytesMut::new();
    meta.put_u64_le(number);
    for stored in heads {
        put_head(&mut meta, stored, stored.length.filter(|_| stored.is_whole())?);
    }
    Some(meta.freeze())
}

/// The heads of an entry's variants, by its metadata alone. `None`: it is no such metadata.
pub fn heads(mut meta: Bytes) -> Option<Vec<Stored>> {
    meta.try_get_u64_le().ok()?;
    let mut heads = Vec::new();
    while meta.has_remaining() {
        let (length, body) = (meta.try_get_u32_le().ok()? as usize, meta.try_get_u64_le().ok()?);
        if meta.remaining() < length {
            return None;
        }
        let stored = Stored::decode(&meta.split_to(length)).ok().filter(Stored::is_whole)?;
        if stored.length != Some(body) {
            return None;
        }
        heads.push(stored);
    }
    Some(heads)
}

/// The variants of an entry; `parts` is its body. `None`: it is none.
pub fn unpack(meta: Bytes, parts: Vec<Bytes>) -> Option<Vec<Variant>> {
    let mut parts: VecDeque<Bytes> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let number = number(&meta)?;
    // Stores hand over larger pieces than the number.
    if parts.front_mut()?.try_get_u64_le().ok()? != number {
        return None;
    }
    let mut variants = Vec::new();
    for stored in heads(meta)? {
        let (mut left, mut pieces) = (stored.length?, Vec::new());
        while left > 0 {
            let part = parts.front_mut()?;
            let piece = part.split_to(part.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            left -= piece.len() as u64;
            if part.is_empty() {
                parts.pop_front();
            }
            if !piece.is_empty() {
                pieces.push(piece);
            }
        }
        variants.push((stored, pieces));
    }
    parts.iter().all(Bytes::is_empty).then_some(variants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use http::{HeaderMap, StatusCode};
    use proptest::prelude::*;
    use std::time::SystemTime;

    fn variant(body: &[u8], pieces: usize) -> Variant {
        let length = body.len() as u64;
        let stored = Stored {
            key: Key::of(&"http://a/b".parse().unwrap(), &HeaderMap::new(), ""),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
            selecting: Vec::new(),
            request_time: SystemTime::UNIX_EPOCH,
            response_time: SystemTime::UNIX_EPOCH,
            length: Some(length),
            held: std::iter::once(0..length).filter(|range| !range.is_empty()).collect(),
        };
        (stored, body.chunks(pieces).map(Bytes::copy_from_slice).collect())
    }

    #[test]
    fn variants_come_back_and_nothing_of_two_times_does() {
        let all = [variant(b"one body", 3), variant(b"", 1), variant(b"another", 100)];
        let (meta, body) = pack(7, &all);
        assert_eq!(heads(meta.clone()).unwrap(), all.each_ref().map(|(stored, _)| stored.clone()));
        for size in [8, 9, 13, 100] {
            let parts = body.chunks(size).map(Bytes::copy_from_slice).collect();
            let again = unpack(meta.clone(), parts).unwrap();
            let whole = |variant: &Variant| (variant.0.clone(), variant.1.concat());
            assert!(again.iter().map(whole).eq(all.iter().map(whole)), "{size}");
        }
        let (other, _) = pack(8, &all);
        assert!(unpack(other, vec![body.clone()]).is_none());
        assert!(unpack(meta.clone(), vec![body.slice(..body.len() - 1)]).is_none());
        assert!(unpack(meta, vec![body, Bytes::from_static(b"x")]).is_none());
    }

    #[test]
    fn other_heads_go_with_the_body_that_is_there() {
        let mut all = [variant(b"one", 3), variant(b"two", 1)];
        let (before, body) = pack(7, &all);
        assert_eq!((number(&before), number(&body), number(b"seven b")), (Some(7), Some(7), None));
        all[1].0.headers.insert("age", http::HeaderValue::from_static("5"));
        let after = meta(7, all.iter().map(|(stored, _)| stored)).unwrap();
        assert_eq!(unpack(after, vec![body.clone()]).unwrap()[1].0.headers["age"], "5");
        all[1].0.held.clear();
        assert!(meta(7, all.iter().map(|(stored, _)| stored)).is_none());
    }

    proptest! {
        #[test]
        fn noise_is_none(meta in proptest::collection::vec(any::<u8>(), 0..200), body: Vec<u8>) {
            prop_assume!(meta.len() != NUMBER);
            prop_assert!(unpack(meta.into(), vec![body.into()]).is_none());
        }
    }
}

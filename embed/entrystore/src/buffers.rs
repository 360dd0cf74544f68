//! Buffers that are read into: used again when whoever was handed their bytes has let them go, so that no page is
//! cleared, given back and taken anew for each read.

use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of buffers that wait for use, at most.
const MOST: usize = 4 << 20;

/// Buffers that wait for use, and their bytes.
#[derive(Clone, Default)]
pub(crate) struct Buffers(Arc<Mutex<(Vec<Vec<u8>>, usize)>>);

/// A buffer, until its bytes are let go.
struct Lent {
    bytes: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut waiting = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.1 + bytes.capacity() <= MOST {
            waiting.1 += bytes.capacity();
            waiting.0.push(bytes);
        }
    }
}

impl Buffers {
    /// A buffer of so many bytes. What is in it is anything.
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Not a much larger one: the bytes may stay in memory for long.
        let fits = |buffer: &Vec<u8>| (len..=len + len / 8).contains(&buffer.capacity());
        let last = waiting.0.iter().rposition(fits);
        let Some(at) = last else { return vec![0; len] };
        let mut buffer = waiting.0.swap_remove(at);
        waiting.1 -= buffer.capacity();
        drop(waiting);
        buffer.resize(len, 0);
        buffer
    }

    /// The bytes of a buffer, which comes back when nobody holds them.
    pub fn lend(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { bytes, home: self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_nobody_holds_its_bytes() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take(1000);
        buffer[999] = 7;
        let place = buffer.as_ptr();
        let bytes = buffers.lend(buffer);
        let part = bytes.slice(900..);
        drop(bytes);
        let other = buffers.take(1000);
        assert_ne!(other.as_ptr(), place);
        assert_eq!(part[99], 7);
        drop(part);
        let buffer = buffers.take(900);
        assert_eq!((buffer.as_ptr(), buffer.len()), (place, 900));
        let many: Vec<Bytes> = (0..20).map(|_| buffers.lend(vec![0; 1 << 20])).collect();
        drop(many);
        assert!(buffers.0.lock().unwrap().1 <= MOST);
    }
}

//! The stored form: what is written is read, anything else is refused.

use crate::world::{World, answers, get};
use proptest::prelude::*;
use thaw_httpcache::{Damaged, Stored};

fn sample() -> Stored {
    let mut world = World::new();
    let fields = [("cache-control", "max-age=60"), ("vary", "foo, bar"), ("set-cookie", "a=b"), ("set-cookie", "c=d")];
    world.send(&get(&[("foo", "1")]), answers(200, &fields, b"hello"));
    world.entries.remove(0).0
}

/// The module's format: every field comes back, no prefix and nothing longer is taken.
#[test]
fn what_is_written_is_read() {
    let stored = sample();
    let bytes = stored.encode();
    assert_eq!(Stored::decode(&bytes), Ok(stored));
    for end in 0..bytes.len() {
        assert_eq!(Stored::decode(&bytes[..end]), Err(Damaged), "{end}");
    }
    assert_eq!(Stored::decode(&[&*bytes, b"x"].concat()), Err(Damaged));
}

proptest! {
    /// Hostile bytes: no panic, and what is taken is written the same.
    #[test]
    fn damaged_bytes_are_refused_or_consistent(at in 0usize..400, to in any::<u8>(), cut in 0usize..400) {
        let mut bytes = sample().encode();
        let at = at % bytes.len();
        bytes[at] = to;
        bytes.truncate(bytes.len() - (cut % 3) / 2);
        if let Ok(stored) = Stored::decode(&bytes) {
            prop_assert_eq!(Stored::decode(&stored.encode()), Ok(stored));
        }
    }
}

/// RFC 9110 section 6.5: trailers of a whole body are kept apart, without those of the hop; of a broken one none are.
#[test]
fn trailers_are_kept_apart() {
    let trailers: http::HeaderMap = [("digest", "x"), ("te", "y")]
        .into_iter()
        .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse::<http::HeaderValue>().unwrap()))
        .collect();
    let mut stored = Stored { length: None, held: Vec::new(), ..sample() };
    assert!(!stored.clone().finish(0, 5, false, trailers.clone()));
    assert!(stored.finish(0, 5, true, trailers));
    assert_eq!((stored.trailers.len(), &stored.trailers["digest"] == "x", stored.is_whole()), (1, true, true));
    assert!(!stored.headers.contains_key("digest"));
    assert_eq!(Stored::decode(&stored.encode()), Ok(stored));
}

//! The parts of a cache of entries on disk: the format of its files, its index, the order of its I/O, its memory,
//! its disk.
//!
//! There is no store yet: nothing here starts a thread or keeps a promise about entries. What is here is pure, but for
//! [`disk::Folder`]. The format is docs/entrystore.md.
//!
//! ```
//! use thaw_entrystore::{Key, format::{self, Head, Kind}};
//! use bytes::Bytes;
//!
//! let (seed, body) = (7, b"the body");
//! let sums = format::table([&body[..]]);
//! let head = Head {
//!     kind: Kind::Put, flags: 0, seq: 1, group: 0, body: body.len() as u64, time: 0, base: (0, 0),
//!     key: Key::new(b"https://site.example", b"https://site.example/a.png").unwrap(),
//!     meta: Bytes::from_static(b"content-type: image/png"),
//!     table: format::checksum(&sums),
//! };
//! let mut bytes = head.encode(seed);
//! bytes.extend(body);
//! bytes.extend(sums);
//! assert_eq!(format::record(&bytes.clone().into(), seed), Some((head, Bytes::from_static(body))));
//! bytes[100] ^= 1;
//! assert_eq!(format::record(&bytes.into(), seed), None);
//! ```

pub mod disk;
pub mod format;
pub mod index;
mod key;
pub mod pool;
pub mod queue;

pub use key::Key;

//! A store of entries on disk that nobody waits for: a cache of responses, of compiled code, of decoded pictures.
//!
//! One thread owns the disk; what the kernel has in memory is read by whoever asks. Every call returns at once with a
//! [`Ticket`], and what comes of it is fetched by any event loop when [`Store::fd`] is readable. [`Blocking`] waits,
//! for tests and simple programs.
//!
//! ```
//! use thaw_entrystore::{Blocking, Key, Options, Put, Store};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let key = Key::new(b"https://site.example", b"https://site.example/a.png").unwrap();
//! let mut store = Blocking::new(Store::open(Options::new(folder.path())).unwrap());
//! let put = Put { meta: "content-type: image/png".into(), ..Put::default() };
//! assert!(store.put(&key, put, "the body".into()));
//! drop(store);
//! let mut store = Blocking::new(Store::open(Options::new(folder.path())).unwrap());
//! let (meta, body) = store.get(&key).unwrap();
//! assert_eq!((&meta[..], &body[..]), (&b"content-type: image/png"[..], &b"the body"[..]));
//! ```

mod ahead;
mod blocking;
mod buffers;
mod burst;
mod commit;
mod direct;
mod engine;
mod evict;
pub mod format;
pub mod index;
mod key;
mod log;
mod options;
pub mod pool;
mod reading;
mod recover;
mod shared;
mod store;
mod walk;
mod writing;

pub use blocking::Blocking;
pub use key::Key;
pub use options::Options;
pub use shared::{Clear, Counts, Event, Phase, Ticket, Urgency, Visited};
pub use store::{Get, Put, Stats, Store, Writer};
pub use thaw_log::disk;

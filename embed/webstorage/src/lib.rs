//! Web Storage, `localStorage` and `sessionStorage`, as a library that never waits for the disk. One thread owns the
//! files; calls touch memory alone, and what comes later is news, taken when a descriptor is readable.
//!
//! ```
//! use thaw_webstorage::{Options, Storage, Urgency};
//!
//! let folder = std::env::temp_dir().join(format!("webstorage-example-{}", std::process::id()));
//! let storage = Storage::open(&folder, Options::default()).unwrap();
//! let area = storage.area("https://top.example", "https://a.example", Urgency::Urgent).unwrap();
//! area.wait().unwrap(); // a program with an event loop waits for News::Loaded
//!
//! let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
//! area.set(&units("colour"), &units("green")).unwrap();
//! assert_eq!(area.get(&units("colour")).unwrap().unwrap().as_string().unwrap(), "green");
//! assert!(storage.flush_and_wait()); // on the medium
//!
//! storage.close().unwrap();
//! # std::fs::remove_dir_all(&folder).unwrap();
//! ```

mod area;
mod cell;
mod engine;
mod error;
mod feed;
mod handle;
mod map;
mod pending;
pub mod place;
pub mod record;
#[cfg(feature = "memreport")]
pub mod report;
mod shared;
mod sheet;
mod store;
mod text;

pub use area::{Area, Pair, Table};
pub use error::Error;
pub use feed::News;
pub use store::{Options, Stats, Storage, Unsaved, Urgency};
pub use text::Text;

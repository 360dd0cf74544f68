//! A store for large cookie jars that never waits for the disk. What it takes, keeps and sends is decided by RFC
//! 6265bis; its file is described in `docs/cookies.md`.

pub mod cookie;
pub mod date;
mod desk;
pub mod error;
pub mod jar;
pub mod netscape;
pub mod options;
pub mod parse;
pub mod record;
mod state;
mod store;

pub use cookie::{Context, Cookie, Key, SameSite};
pub use error::Wrong;
pub use jar::{Jar, Lookup, Stored};
pub use options::Options;
pub use state::{News, Ticket};
pub use store::{Limits, header};

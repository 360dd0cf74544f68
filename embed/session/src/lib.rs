//! A session store: which windows, tabs and entries are open.

pub mod counted;
mod desk;
pub mod error;
pub mod files;
mod generations;
pub mod item;
pub mod record;
pub mod session;
mod shared;
pub mod tree;

pub use counted::Counts;
pub use error::Error;
pub use files::Missing;
pub use item::{Id, Item, Payload, ROOT, flag, kind};
pub use session::{Options, Session};
pub use shared::{Event, Health, Ticket};
pub use tree::{Edit, New, Place};

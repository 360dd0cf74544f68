//! A session store: which windows, tabs and entries are open, saved by their changes. What is visible is loaded first,
//! however many tabs there are. No call waits for the disk: what comes later is an event, and a descriptor is readable
//! while there are some. Programs in other languages use `include/thaw_session.h`, whose functions are in [`c`].
//!
//! ```
//! use thaw_session::{Event, New, Options, Place, ROOT, Session, kind};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let session = Session::open(folder.path(), &Options::default()).unwrap();
//! let until = |found: &dyn Fn(&Event) -> bool| loop {
//!     // A program waits for the session's descriptor here, beside its others.
//!     if session.events().iter().any(found) {
//!         break;
//!     }
//! };
//! until(&|event| matches!(event, Event::Ready { .. }));
//! let new = New { kind: kind::WINDOW, title: "first", ..New::default() };
//! let window = session.insert(ROOT, Place::Last, &new).unwrap();
//! let ticket = session.flush();
//! until(&|event| *event == Event::Done(ticket, Ok(())));
//! assert_eq!(session.children(ROOT), [window]);
//! session.close(true).unwrap();
//! ```

pub mod c;
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
pub use desk::{Repaired, repair};
pub use error::Error;
pub use files::Missing;
pub use item::{Id, Item, Payload, ROOT, flag, kind};
pub use session::{Options, Session};
pub use shared::{Event, Health, Ticket};
pub use tree::{Edit, New, Place};

//! Zip archives whose entries lie in the order of their use.
//!
//! ```text
//! directory at the end:    entries ... | directory | end record
//! directory in front:      hint (4) | directory | end record | entries ... | end record
//! directory at both ends:  hint (4) | directory | end record | entries ... | directory | end record
//! ```
//!
//! The second is what Mozilla's packager writes, the third the same and right for everybody.
//!
//! The hint is a little-endian number: how many bytes from the start of the file a reader should ask the kernel for at
//! once. Firefox reads the directory at offset 4 if there is one (and wants an end record behind it). Every other
//! program begins at the end record at the end of the file; most of them want the directory right in front of it,
//! `unzip` and Python among them, so that the second form is not a clean archive for them.
//!
//! [`parse`] looks, [`used_by_pages`] and [`used_by_names`] say what is used, [`plan()`] decides, [`apply`] writes,
//! [`verify()`] proves. All but [`apply`] and the directory functions are pure.

mod apply;
mod directory;
mod entry;
mod form;
mod format;
mod plan;
mod reads;
mod stat;
mod usage;
mod verify;
mod zip;

pub use apply::{Target, apply, build};
pub use directory::{Packed, Unpacked, pack, unpack};
pub use entry::inflate_rate;
pub use form::{DirectoryPlace, Method, Signed};
pub use format::Format;
pub use plan::{Compression, Costs, Form, Options, Placed, Plan, plan};
pub use reads::{Reads, WINDOW, reads};
pub use stat::{Stat, StatEntry, Used, reads_now, reads_planned, stat};
pub use usage::{Touched, Uses, used_by_names, used_by_pages};
pub use verify::{Verified, verify};
pub use zip::{Entry, EntryId, Obstacle, ObstacleKind, Zip, parse};

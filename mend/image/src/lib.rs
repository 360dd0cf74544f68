//! A program's directory as one compressed, read-only image (EROFS) whose blocks lie in the order in which a recorded
//! start first touches them.
//!
//! - [`covered`]: what of the file system an image covers: one directory, or of several what starts need;
//! - [`tree`]: a directory as values: names, what each is, what is known of it;
//! - [`order`]: pure: which pages of which files are compressed together, and in which order these clusters lie;
//! - [`like`]: what starts need, told by an older image;
//! - [`mod@write`]: writes the image;
//! - [`mod@sample`]: what an image would be, and how fast it is unpacked, before it is written;
//! - [`about`]: what thaw adds behind it: of which directory it is, how much a start needs, sums;
//! - [`read`]: reads an image with code of its own, which shares nothing but numbers of the format with the writer;
//! - [`check`]: whether an image is whole, and what it holds differs from its directory or not;
//! - [`extract`]: the directory again;
//! - [`mount`]: puts an image over its directory for one program, and reads what its start needs;
//! - [`shared`]: mounts one for all users at a place of its own, from where each start takes it;
//! - [`install`]: launchers, services, and the unit that mounts an image: what is written for them.
//!
//! Not for finding out what a start needs (the recording says that), and not for images that others made: those of
//! `mkfs.erofs` may use parts of the format that are not read here, and are refused.

pub mod about;
pub mod check;
pub mod covered;
pub mod extract;
pub mod install;
pub mod like;
pub mod mount;
pub mod order;
pub mod read;
pub mod sample;
pub mod shared;
pub mod tree;
pub mod write;

mod format;
mod inodes;

pub use format::crc32c;

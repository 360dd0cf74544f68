//! Where bytes lie: entries in an archive, extents of a file on its disk.
//!
//! [`archive`] puts the entries of a zip archive into the order in which a start uses them and the directory in front
//! of them; [`frag`] says into how many pieces files are scattered on their disk and puts one together again. What a
//! start uses is found out elsewhere (`measure/touch`) and comes in as values. Not for tar, and not for what is inside
//! of entries.

pub mod archive;
pub mod frag;

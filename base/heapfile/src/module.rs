//! The objects (the program, its libraries) that are loaded into a recorded process.

use std::path::PathBuf;

/// A loaded object of a process: index into [`Events::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A loaded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its path in the process.
    pub path: PathBuf,
    /// GNU build-id.
    pub build_id: Vec<u8>,
    /// Added to addresses of the file to get those of the process.
    pub bias: u64,
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
}

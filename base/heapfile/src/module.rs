//! The objects (the program, its libraries) that are loaded into a recorded process, and the functions that an
//! interpreter runs in it.

use heap_wire::{FUNCTION_BYTES, INTERPRETED};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loaded object of a process: index into [`Events::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// A loaded object, or a function of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its path in the process; of a function see [`Module::function`].
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

/// A function of an interpreter, as the recorded process told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// The file of its source, as the interpreter names it.
    pub file: &'a Path,
    /// What it is called there.
    pub name: &'a OsStr,
}

impl Function<'_> {
    /// The line of a call by its address, told as one of an object: less what the function begins at, less one.
    pub fn line(inside: u64) -> Option<u32> {
        u32::try_from(inside % FUNCTION_BYTES).ok().filter(|line| *line > 0)
    }
}

impl Module {
    /// The function that it is, if it is no object.
    pub fn function(&self) -> Option<Function<'_>> {
        if self.start < INTERPRETED { None } else { function(&self.path) }
    }
}

/// The function that is told by a path: its file, a zero, its name. No file has such a path.
pub fn function(path: &Path) -> Option<Function<'_>> {
    let bytes = path.as_os_str().as_bytes();
    let (file, name) = bytes.split_at_checked(bytes.iter().position(|byte| *byte == 0)?)?;
    Some(Function { file: Path::new(OsStr::from_bytes(file)), name: OsStr::from_bytes(name.get(1..)?) })
}

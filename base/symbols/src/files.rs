//! The files that hold debug data, mapped once. They are read as hostile.

use elf::{Image, Order, debug};
use gimli::{EndianSlice, RunTimeEndian};
use os::mapped::Mapped;
use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use typed_arena::Arena;

pub type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Keeps what debug data refer to, as long as one object is looked at.
#[derive(Default)]
pub struct Store {
    files: Arena<Mapped>,
    sections: Arena<Vec<u8>>,
}

impl Store {
    /// Maps an ELF file.
    pub fn open(&self, path: &Path) -> Result<Image<&[u8]>, String> {
        // A recording may name anything: opening a pipe would wait for ever.
        if !path.metadata().map_err(|error| error.to_string())?.is_file() {
            return Err("it is no regular file".into());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mapped = Mapped::of(&file).ok_or("the file is empty or cannot be mapped")?;
        Image::of(&**self.files.alloc(mapped)).map_err(|miss| miss.to_string())
    }

    /// A section, decompressed; empty if there is none.
    pub fn section<'a>(&'a self, image: &Image<&'a [u8]>, name: &str) -> Result<Slice<'a>, String> {
        let endian = match image.order {
            Order::Little => RunTimeEndian::Little,
            Order::Big => RunTimeEndian::Big,
        };
        let bytes = match debug::section(image, name)? {
            Cow::Borrowed(bytes) => bytes,
            Cow::Owned(bytes) => self.sections.alloc(bytes),
        };
        Ok(EndianSlice::new(bytes, endian))
    }

    /// The file of debug data that belongs to an object without.
    pub fn split_off<'a>(&'a self, image: &Image<&'a [u8]>, path: &Path) -> Option<(PathBuf, Image<&'a [u8]>)> {
        debug::split_off(image, path, |path| {
            let image = self.open(path).ok()?;
            let build_id = image.build_id.clone();
            Some((image, build_id))
        })
    }

    /// What several files have in common may be in one more file (dwz).
    pub fn common<'a>(&'a self, image: &Image<&'a [u8]>, path: &Path) -> Option<Image<&'a [u8]>> {
        debug::common(image, path, |path| self.open(path).ok())
    }
}

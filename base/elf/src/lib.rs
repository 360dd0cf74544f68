//! Looks into ELF files: which section lies where in the file, which build it is, and what it asks the loader for.
//!
//! It reads bytes that the caller mapped or read, of either class and byte order, at any alignment. Whatever the bytes
//! are, it does not panic, and what it returns is bounded by the size of the file: a damaged file costs an answer, not
//! the program. Simple questions have functions of their own; [`Image`] is the whole file as the loader sees it:
//! segments, relocations, symbols. Not for changing files, and not for code.
//!
//! ```
//! let bytes = std::fs::read(std::env::current_exe()?)?;
//! let sections = elf::sections(&bytes).expect("a running program is an ELF file");
//! assert!(sections.iter().any(|section| section.name == ".text"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod class;
pub mod debug;
mod dynamic;
mod identity;
mod image;
mod names;
mod notes;
mod relocation;
pub mod relr;
mod sanitizer;
mod symbol;
pub mod usdt;
mod version;

pub use class::Class;
pub use dynamic::{RunPaths, interpreter, needed, run_paths};
pub use identity::Identity;
pub use image::{Dynamic, Image, Order, SectionHead, Segment};
pub use names::{Meaning, machine_name, meaning, relative_type, relocation_name};
pub use notes::build_id;
pub use relocation::{Relocation, Relocations, Role};
pub use sanitizer::sanitizer;
pub use symbol::{Symbol, SymbolTable};

use model::{Bytes, FileOffset};
use object::elf::{FileHeader32, FileHeader64, SHT_NOBITS, SHT_NULL};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadRef};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a file cannot be looked into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Miss {
    /// It is not an ELF file.
    NotElf,
    /// It begins as an ELF file, but this part of it is damaged.
    Damaged(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => out.write_str("not an ELF file"),
            Self::Damaged(part) => write!(out, "a damaged ELF file ({part})"),
        }
    }
}

impl std::error::Error for Miss {}

/// A section that takes room in the file, loaded or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// `.text`; `[7]` where section 7 has no name. At most 255 bytes.
    pub name: String,
    /// Where it begins in the file.
    pub offset: FileOffset,
    /// How much of the file it takes, at least one byte; cut off at the end of the file.
    pub len: Bytes,
}

/// Sections by offset. Those without bytes in the file (`.bss`) are left out; so is the room between sections: headers,
/// padding. Sections of a damaged file may overlap.
///
/// Errors: [`Miss::NotElf`]; [`Miss::Damaged`] where the section table itself cannot be read. A file without a section
/// table, which is allowed, has no sections.
pub fn sections(bytes: &[u8]) -> Result<Vec<Section>, Miss> {
    match class(bytes)? {
        Class::Elf32 => sections_of::<FileHeader32<Endianness>>(bytes),
        Class::Elf64 => sections_of::<FileHeader64<Endianness>>(bytes),
    }
}

fn sections_of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Vec<Section>, Miss> {
    let (header, endian) = head::<Elf, _>(bytes)?;
    let table = header.section_headers(endian, bytes).map_err(damaged)?;
    let names = section_names(header, endian, bytes, table);
    let end = bytes.len() as u64;
    let mut sections = Vec::new();
    for (index, section) in table.iter().enumerate() {
        if matches!(section.sh_type(endian), SHT_NULL | SHT_NOBITS) {
            continue;
        }
        let offset: u64 = section.sh_offset(endian).into();
        let size: u64 = section.sh_size(endian).into();
        let len = size.min(end.saturating_sub(offset));
        if len == 0 {
            continue;
        }
        let name = section_name(names, section.sh_name(endian), index);
        sections.push(Section { name, offset: FileOffset(offset), len: Bytes(len) });
    }
    sections.sort_by_key(|section| section.offset);
    Ok(sections)
}

/// The table of section names; empty where there is none.
fn section_names<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    header: &Elf,
    endian: Endianness,
    data: R,
    table: &[Elf::SectionHeader],
) -> &'data [u8] {
    let index = header.shstrndx(endian, data).ok().and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| table.get(index)).and_then(|section| section.data(endian, data).ok()).unwrap_or_default()
}

/// `.text`; `[7]` where section 7 has no name. At most 255 bytes.
fn section_name(names: &[u8], offset: u32, index: usize) -> String {
    match text_at(names, u64::from(offset), 255) {
        Some(name) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
        _ => format!("[{index}]"),
    }
}

/// The class, from the first five bytes.
fn class(bytes: &[u8]) -> Result<Class, Miss> {
    match bytes {
        [0x7f, b'E', b'L', b'F', 1, ..] => Ok(Class::Elf32),
        [0x7f, b'E', b'L', b'F', 2, ..] => Ok(Class::Elf64),
        [0x7f, b'E', b'L', b'F', ..] => Err(Miss::Damaged("its class is neither 32 nor 64 bits".to_owned())),
        _ => Err(Miss::NotElf),
    }
}

fn head<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    data: R,
) -> Result<(&'data Elf, Endianness), Miss> {
    let header = Elf::parse(data).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    Ok((header, endian))
}

fn damaged(error: object::Error) -> Miss {
    Miss::Damaged(error.to_string())
}

/// The text from `offset` to the next zero byte, or to `limit` bytes. Without the limit, a damaged table could make
/// each of a million names a million bytes long.
fn text_at(table: &[u8], offset: u64, limit: usize) -> Option<&[u8]> {
    let rest = table.get(usize::try_from(offset).ok()?..)?;
    let rest = &rest[..rest.len().min(limit)];
    Some(rest.iter().position(|byte| *byte == 0).map_or(rest, |end| &rest[..end]))
}

//! What a file asks the dynamic loader for: its interpreter, its libraries, and where to look for them.
//!
//! Everything is read through the program headers, as the loader does, so that files without a section table work too.

use crate::{Class, Miss, class, head, text_at};
use object::Endianness;
use object::elf::{DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest file name that the kernel takes.
const PATH_LIMIT: usize = 4096;
/// Longest list of directories that is read.
const PATHS_LIMIT: usize = 65_536;
/// Most libraries that are read; a large program has some hundreds.
const NEEDED_LIMIT: usize = 4096;

/// Where a file tells the loader to look for its libraries. `$ORIGIN` and the like stand as they are; an empty entry
/// means the working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPaths {
    /// DT_RPATH: searched first, also for the libraries' own libraries, unless there is a `runpath`.
    pub rpath: Vec<String>,
    /// DT_RUNPATH: searched after `LD_LIBRARY_PATH`, for the file's own libraries only.
    pub runpath: Vec<String>,
}

/// Names of the libraries that the file needs (DT_NEEDED), in its order. Empty for a static program, and where the
/// bytes are not those of an ELF file. Bytes that are not UTF-8 become U+FFFD.
pub fn needed(bytes: &[u8]) -> Vec<String> {
    dynamic(bytes).map(|dynamic| dynamic.needed).unwrap_or_default()
}

/// Where the file tells the loader to look (DT_RPATH, DT_RUNPATH).
pub fn run_paths(bytes: &[u8]) -> RunPaths {
    dynamic(bytes).map(|dynamic| dynamic.paths).unwrap_or_default()
}

/// The dynamic loader that the kernel starts for this program (PT_INTERP). `None` for libraries and static programs.
pub fn interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let path = match class(bytes).ok()? {
        Class::Elf32 => interpreter_of::<FileHeader32<Endianness>>(bytes),
        Class::Elf64 => interpreter_of::<FileHeader64<Endianness>>(bytes),
    }?;
    let known = !path.is_empty() && path.len() < PATH_LIMIT;
    known.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

fn interpreter_of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<&[u8]> {
    let (header, endian) = head::<Elf, _>(bytes).ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    segments.iter().find_map(|segment| segment.interpreter(endian, bytes).ok()?)
}

#[derive(Default)]
struct Dynamic {
    needed: Vec<String>,
    paths: RunPaths,
}

fn dynamic(bytes: &[u8]) -> Result<Dynamic, Miss> {
    Ok(match class(bytes)? {
        Class::Elf32 => dynamic_of::<FileHeader32<Endianness>>(bytes),
        Class::Elf64 => dynamic_of::<FileHeader64<Endianness>>(bytes),
    }
    .unwrap_or_default())
}

/// `None` where there is no dynamic segment, or it cannot be read.
fn dynamic_of<Elf: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Dynamic> {
    let (header, endian) = head::<Elf, _>(bytes).ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, bytes).ok()?)?;
    let entries = || {
        entries
            .iter()
            .map(|entry| (entry.d_tag(endian), entry.d_val(endian).into()))
            .take_while(|(tag, _)| *tag != DT_NULL)
    };
    // The loader keeps the last entry of a tag, but all of DT_NEEDED.
    let last = |wanted| entries().filter(|(tag, _)| *tag == wanted).last().map(|(_, value): (_, u64)| value);
    let address = last(DT_STRTAB)?;
    let from = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let skip = address.checked_sub(segment.p_vaddr(endian).into())?;
        segment.data(endian, bytes).ok()?.get(usize::try_from(skip).ok()?..)
    })?;
    let size = last(DT_STRSZ).and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
    let strings = &from[..from.len().min(size)];
    let paths = |tag| match last(tag).and_then(|offset| text_at(strings, offset, PATHS_LIMIT)) {
        Some(list) if !list.is_empty() => String::from_utf8_lossy(list).split(':').map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let needed = entries()
        .filter(|(tag, _)| *tag == DT_NEEDED)
        .take(NEEDED_LIMIT)
        .filter_map(|(_, offset)| text_at(strings, offset, PATH_LIMIT))
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    Some(Dynamic { needed, paths: RunPaths { rpath: paths(DT_RPATH), runpath: paths(DT_RUNPATH) } })
}

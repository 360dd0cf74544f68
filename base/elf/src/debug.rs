//! Debug data: where the file is that they were split off to, and their bytes out of compressed sections.
//!
//! Not for what they say. [`with_dwarf`] opens what it needs; who keeps files open in a way of its own finds and
//! decompresses with the rest.

use crate::{Image, Order};
use flate2::{Decompress, FlushDecompress, Status};
use gimli::{DwarfSections, EndianSlice, RunTimeEndian};
use object::elf::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD};
use object::{ReadCache, ReadRef};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where distributions put debug data that they split off.
const DEBUG_ROOT: &str = "/usr/lib/debug";
/// Most bytes of a link: a file name, padding and a build-id.
const LINK: u64 = 4096 + 64;
/// Most bytes that a section may unpack to: so many, and so many times its length. zlib makes nothing smaller than by
/// this factor; zstd does, but not debug data.
const UNPACKED_LEAST: u64 = 64 << 20;
const UNPACKED_TIMES: u64 = 1100;

/// Bytes of debug data.
pub type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// What `work` makes of the debug data of an ELF file: its own, or those that were split off from it. `None`: there are
/// none.
///
/// # Errors
/// They cannot be read, or what `work` says.
pub fn with_dwarf<'data, R: ReadRef<'data>, T>(
    image: &Image<R>,
    path: &Path,
    work: impl FnOnce(&gimli::Dwarf<Slice<'_>>) -> gimli::Result<T>,
) -> Result<Option<T>, String> {
    if image.section(".debug_info").is_some() {
        return lend(image, path, work).map(Some);
    }
    let opened = |path: &Path| {
        let cache = opened(path)?;
        let build_id = Image::of(&cache).ok()?.build_id;
        Some((cache, build_id))
    };
    let Some((file, cache)) = split_off(image, path, opened) else { return Ok(None) };
    let image = Image::of(&cache).map_err(|miss| miss.to_string())?;
    lend(&image, &file, work).map(Some)
}

fn lend<'data, R: ReadRef<'data>, T>(
    image: &Image<R>,
    path: &Path,
    work: impl FnOnce(&gimli::Dwarf<Slice<'_>>) -> gimli::Result<T>,
) -> Result<T, String> {
    let sections = DwarfSections::load(|id| section(image, id.name()))?;
    let common = common(image, path, opened);
    let common = match &common {
        Some(cache) => {
            let image = Image::of(cache).map_err(|miss| miss.to_string())?;
            Some(DwarfSections::load(|id| section(&image, id.name()))?)
        }
        None => None,
    };
    let endian = match image.order {
        Order::Little => RunTimeEndian::Little,
        Order::Big => RunTimeEndian::Big,
    };
    let dwarf = sections.borrow_with_sup(common.as_ref(), |section| EndianSlice::new(section, endian));
    work(&dwarf).map_err(|error| error.to_string())
}

fn opened(path: &Path) -> Option<ReadCache<File>> {
    // Opening a pipe would wait for ever.
    Some(ReadCache::new(File::open(Some(path).filter(|path| path.is_file())?).ok()?))
}

/// The file of debug data that belongs to an object: below `/usr/lib/debug` by build-id, or by `.gnu_debuglink` beside
/// it, in `.debug` and below `/usr/lib/debug`. `open` gives an ELF file and its build-id. The build-id decides whether
/// it is the right one; without one in the object, the link's checksum of the whole file.
pub fn split_off<'data, R: ReadRef<'data>, T>(
    image: &Image<R>,
    path: &Path,
    mut open: impl FnMut(&Path) -> Option<(T, Option<String>)>,
) -> Option<(PathBuf, T)> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let by_id = image.build_id.iter().filter_map(|id| by_build_id(id));
    let directory = path.parent().unwrap_or(Path::new("/"));
    let below = directory.strip_prefix("/").unwrap_or(directory);
    let link = link(image, ".gnu_debuglink");
    let linked = link.into_iter().flat_map(|(name, _)| {
        [directory.join(name), directory.join(".debug").join(name), Path::new(DEBUG_ROOT).join(below).join(name)]
    });
    by_id.chain(linked).filter(|candidate| *candidate != path).find_map(|candidate| {
        let (opened, id) = open(&candidate)?;
        let fits = match &image.build_id {
            Some(wanted) => id.as_ref() == Some(wanted),
            None => link
                .and_then(|(_, rest)| rest.last_chunk())
                .is_some_and(|sum| checksum(&candidate) == Some(image.order.word(*sum))),
        };
        fits.then_some((candidate, opened))
    })
}

/// The file of what the debug data of several objects have in common (dwz), which these name in `.gnu_debugaltlink`.
pub fn common<'data, R: ReadRef<'data>, T>(
    image: &Image<R>,
    path: &Path,
    open: impl FnMut(&Path) -> Option<T>,
) -> Option<T> {
    let (name, id) = link(image, ".gnu_debugaltlink")?;
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let beside = path.canonicalize().ok()?.parent()?.join(name);
    let mut open = open;
    [Some(beside), by_build_id(&id)].into_iter().flatten().find_map(|path| open(&path))
}

/// The bytes of a section, decompressed; empty if there is none.
///
/// # Errors
/// It is outside the file, damaged, or compressed with neither zlib nor zstd.
pub fn section<'data, R: ReadRef<'data>>(image: &Image<R>, name: &str) -> Result<Cow<'data, [u8]>, String> {
    let Some(section) = image.section(name).filter(|section| section.in_file()) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let Some((kind, len, bytes)) = image.compressed(section) else {
        return image.bytes_of(section).map(Cow::Borrowed).ok_or_else(|| format!("{name} is outside the file"));
    };
    if len > UNPACKED_LEAST.max((bytes.len() as u64).saturating_mul(UNPACKED_TIMES)) {
        return Err(format!("{name} claims to be larger than it can be"));
    }
    let whole = usize::try_from(len).map_err(|_| format!("{name} claims to be larger than it can be"))?;
    let mut out = Vec::new();
    // One byte more: a stream that is longer than it claims is noticed.
    out.try_reserve_exact(whole.saturating_add(1)).map_err(|_| format!("{name} does not fit into memory"))?;
    // In one piece: half of the work of a decoder that reads is copying.
    let is_read = match kind {
        ELFCOMPRESS_ZLIB => {
            let ended = Decompress::new(true).decompress_vec(bytes, &mut out, FlushDecompress::Finish);
            matches!(ended, Ok(Status::StreamEnd))
        }
        ELFCOMPRESS_ZSTD => zstd::bulk::Decompressor::new()
            .and_then(|mut decompressor| decompressor.decompress_to_buffer(bytes, &mut out))
            .is_ok(),
        _ => return Err(format!("{name} is compressed in a way that thaw does not know (neither zlib nor zstd)")),
    };
    match is_read && out.len() == whole {
        true => Ok(Cow::Owned(out)),
        false => Err(format!("{name} cannot be decompressed")),
    }
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(Path::new(DEBUG_ROOT).join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// A file name, and what stands behind it in the section.
fn link<'data, R: ReadRef<'data>>(image: &Image<R>, section: &str) -> Option<(&'data OsStr, &'data [u8])> {
    let section = image.section(section).filter(|section| section.len <= LINK)?;
    let bytes = image.bytes_of(section)?;
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    Some((OsStr::from_bytes(&bytes[..end]), &bytes[end + 1..]))
}

/// The checksum of a link: CRC-32 of the whole file.
fn checksum(path: &Path) -> Option<u32> {
    // Opening a pipe would wait for ever.
    let mut file = File::open(Some(path).filter(|path| path.is_file())?).ok()?;
    let (mut sum, mut buffer) = (flate2::Crc::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(sum.sum()),
            len => sum.update(&buffer[..len]),
        }
    }
}

//! Which source file an initializer comes from, by debug data: in the file, or split off and found by build-id or name.
//!
//! A file without debug data has initializers without sources. Not for inlined calls or demangled names.

use crate::report::FileReport;
use elf::{Image, Order};
use gimli::{EndianSlice, RunTimeEndian, SectionId};
use model::{Warning, WarningKind};
use object::elf::ELFCOMPRESS_ZLIB;
use object::{ReadCache, ReadRef};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where distributions put debug data that they split off.
const DEBUG_ROOT: &str = "/usr/lib/debug";
/// zlib makes nothing smaller than by this factor: what claims more is damaged.
const ZLIB_FACTOR: u64 = 1100;

/// Adds source and line to each initializer, as far as debug data tell.
pub(crate) fn add<'data, R: ReadRef<'data>>(image: &Image<R>, path: &Path, report: &mut FileReport) {
    let functions = &mut report.initializers.functions;
    let mut wanted: Vec<u64> = functions.iter().filter_map(|function| function.address).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return;
    }
    let found = if image.section(".debug_info").is_some() {
        located(image, path, &wanted)
    } else {
        match split_off(image, path) {
            Some((file, cache)) => {
                Image::of(&cache).map_err(|miss| miss.to_string()).and_then(|image| located(&image, &file, &wanted))
            }
            None => return,
        }
    };
    match found {
        Ok(found) => functions
            .iter_mut()
            .for_each(|function| function.source = function.address.and_then(|address| found.get(&address).cloned())),
        Err(why) => {
            report.warnings.push(Warning::new(WarningKind::Note, format!("its debug data cannot be read: {why}")))
        }
    }
}

/// The file of debug data that belongs to `image`.
fn split_off<'data, R: ReadRef<'data>>(image: &Image<R>, path: &Path) -> Option<(PathBuf, ReadCache<File>)> {
    let by_id = image.build_id.iter().filter_map(|id| by_build_id(id));
    let path = path.canonicalize().ok()?;
    let linked = link(image, ".gnu_debuglink").into_iter().flat_map(|(name, _)| {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let below = directory.strip_prefix("/").unwrap_or(directory);
        [directory.join(name), directory.join(".debug").join(name), Path::new(DEBUG_ROOT).join(below).join(name)]
    });
    by_id.chain(linked).filter(|candidate| *candidate != path).find_map(|candidate| {
        let cache = ReadCache::new(File::open(&candidate).ok()?);
        let fits = Image::of(&cache).is_ok_and(|debug| match (&image.build_id, &debug.build_id) {
            (Some(id), found) => found.as_ref() == Some(id),
            // Without a build-id, the link's checksum of the whole file decides.
            (None, _) => {
                link(image, ".gnu_debuglink").is_some_and(|(_, rest)| checksum_fits(image.order, rest, &candidate))
            }
        });
        fits.then_some((candidate, cache))
    })
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(Path::new(DEBUG_ROOT).join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// A file name, and what stands behind it in the section.
fn link<'data, R: ReadRef<'data>>(image: &Image<R>, section: &str) -> Option<(&'data OsStr, &'data [u8])> {
    let section = image.section(section).filter(|section| section.len <= 4096 + 64)?;
    let bytes = image.bytes_of(section)?;
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    Some((OsStr::from_bytes(&bytes[..end]), &bytes[end + 1..]))
}

/// The checksum stands in the last four bytes, at a multiple of four.
fn checksum_fits(order: Order, rest: &[u8], path: &Path) -> bool {
    let Some(wanted) = rest.last_chunk::<4>().map(|bytes| order.word(*bytes)) else { return false };
    let Ok(mut file) = File::open(path) else { return false };
    let (mut sum, mut buffer) = (flate2::Crc::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return sum.sum() == wanted,
            Ok(len) => sum.update(&buffer[..len]),
            Err(_) => return false,
        }
    }
}

/// Source and line of these addresses, which are sorted.
fn located<'data, R: ReadRef<'data>>(
    image: &Image<R>,
    path: &Path,
    wanted: &[u64],
) -> Result<BTreeMap<u64, String>, String> {
    let sections = gimli::DwarfSections::load(|id| section(image, id))?;
    // What several files have in common may be in one more file (dwz).
    let common = link(image, ".gnu_debugaltlink").and_then(|(name, id)| {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let beside = path.canonicalize().ok()?.parent()?.join(name);
        [Some(beside), by_build_id(&id)]
            .into_iter()
            .flatten()
            .find_map(|path| Some(ReadCache::new(File::open(path).ok()?)))
    });
    let common = match &common {
        Some(cache) => {
            let image = Image::of(cache).map_err(|miss| miss.to_string())?;
            Some(gimli::DwarfSections::load(|id| section(&image, id))?)
        }
        None => None,
    };
    let endian = match image.order {
        Order::Little => RunTimeEndian::Little,
        Order::Big => RunTimeEndian::Big,
    };
    let dwarf = sections.borrow_with_sup(common.as_ref(), |section| EndianSlice::new(section, endian));
    let mut found = BTreeMap::new();
    search(&dwarf, wanted, &mut found).map_err(|error| error.to_string())?;
    Ok(found)
}

/// A section of debug data, decompressed.
fn section<'data, R: ReadRef<'data>>(image: &Image<R>, id: SectionId) -> Result<Cow<'data, [u8]>, String> {
    let Some(section) = image.section(id.name()).filter(|section| section.in_file()) else {
        return Ok(Cow::Borrowed(&[]));
    };
    let wrong = |why: &str| format!("{} {why}", id.name());
    let Some((kind, len, bytes)) = image.compressed(section) else {
        return image.bytes_of(section).map(Cow::Borrowed).ok_or_else(|| wrong("is outside the file"));
    };
    if kind != ELFCOMPRESS_ZLIB {
        return Err(wrong("is compressed in a way that thaw does not know (not zlib)"));
    }
    if len > bytes.len() as u64 * ZLIB_FACTOR {
        return Err(wrong("claims to be larger than it can be"));
    }
    let mut out = Vec::new();
    let read = flate2::read::ZlibDecoder::new(bytes).take(len).read_to_end(&mut out);
    match read {
        Ok(read) if read as u64 == len => Ok(Cow::Owned(out)),
        _ => Err(wrong("cannot be decompressed")),
    }
}

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Goes through the compilation units until each address is found.
fn search(dwarf: &gimli::Dwarf<Reader>, wanted: &[u64], found: &mut BTreeMap<u64, String>) -> gimli::Result<()> {
    let mut headers = dwarf.units();
    while found.len() < wanted.len()
        && let Some(header) = headers.next()?
    {
        let unit = dwarf.unit(header)?;
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            let from = wanted.partition_point(|address| *address < range.begin);
            for address in wanted[from..].iter().take_while(|address| **address < range.end) {
                if !found.contains_key(address)
                    && let Some(source) = source_of(dwarf, &unit, *address)?
                {
                    found.insert(*address, source);
                }
            }
        }
    }
    Ok(())
}

/// `dir/file.cpp:12` by the unit's line table; without one, the unit's own name.
fn source_of(dwarf: &gimli::Dwarf<Reader>, unit: &gimli::Unit<Reader>, address: u64) -> gimli::Result<Option<String>> {
    let directory = unit.comp_dir.map(|directory| text(&directory));
    if let Some(program) = unit.line_program.clone() {
        let mut rows = program.rows();
        let mut before: Option<(u64, u64, Option<u64>)> = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some((start, file, line)) = before
                && (start..row.address()).contains(&address)
                && let Some(entry) = header.file(file)
            {
                let mut path = PathBuf::from(directory.unwrap_or_default());
                // The first directory is the one that the compiler ran in.
                if let Some(below) = entry.directory(header) {
                    let below = text(&dwarf.attr_string(unit, below)?);
                    if Path::new(&below) != path {
                        path.push(below);
                    }
                }
                path.push(text(&dwarf.attr_string(unit, entry.path_name())?));
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                return Ok(Some(format!("{}{line}", model::shown(&path))));
            }
            let line = row.line().map(std::num::NonZeroU64::get);
            before = (!row.end_sequence()).then_some((row.address(), row.file_index(), line));
        }
    }
    Ok(unit.name.map(|name| model::shown(&Path::new(&directory.unwrap_or_default()).join(text(&name)))))
}

fn text(reader: &Reader) -> String {
    String::from_utf8_lossy(reader.slice()).into_owned()
}

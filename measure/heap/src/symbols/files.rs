//! The files that hold debug data: mapped once, found by build-id, link or name. They are read as hostile.

use elf::{Image, Order, SectionHead};
use gimli::{EndianSlice, RunTimeEndian};
use object::elf::ELFCOMPRESS_ZLIB;
use os::mapped::Mapped;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use typed_arena::Arena;

/// Where distributions put debug data that they split off.
const DEBUG_ROOT: &str = "/usr/lib/debug";
/// zlib makes nothing smaller than by this factor: what claims more is damaged.
const ZLIB_FACTOR: u64 = 1100;

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
        let Some(section) = image.section(name).filter(|section| section.in_file()) else {
            return Ok(EndianSlice::new(&[], endian));
        };
        Ok(EndianSlice::new(self.bytes(image, section, name)?, endian))
    }

    fn bytes<'a>(&'a self, image: &Image<&'a [u8]>, section: &SectionHead, name: &str) -> Result<&'a [u8], String> {
        let Some((kind, len, bytes)) = image.compressed(section) else {
            return image.bytes_of(section).ok_or_else(|| format!("{name} is outside the file"));
        };
        if kind != ELFCOMPRESS_ZLIB {
            return Err(format!("{name} is compressed in a way that thaw does not know (not zlib)"));
        }
        if len > bytes.len() as u64 * ZLIB_FACTOR {
            return Err(format!("{name} claims to be larger than it can be"));
        }
        let mut out = Vec::new();
        match flate2::read::ZlibDecoder::new(bytes).take(len).read_to_end(&mut out) {
            Ok(read) if read as u64 == len => Ok(self.sections.alloc(out)),
            _ => Err(format!("{name} cannot be decompressed")),
        }
    }

    /// The file of debug data that belongs to an object without.
    pub fn split_off<'a>(&'a self, image: &Image<&'a [u8]>, path: &Path) -> Option<(PathBuf, Image<&'a [u8]>)> {
        let by_id = image.build_id.iter().filter_map(|id| by_build_id(id));
        let directory = path.parent().unwrap_or(Path::new("/"));
        let below = directory.strip_prefix("/").unwrap_or(directory);
        let linked = link(image, ".gnu_debuglink").into_iter().flat_map(|(name, _)| {
            [directory.join(name), directory.join(".debug").join(name), Path::new(DEBUG_ROOT).join(below).join(name)]
        });
        by_id.chain(linked).filter(|candidate| candidate != path).find_map(|candidate| {
            let debug = self.open(&candidate).ok()?;
            let fits = match &image.build_id {
                Some(id) => debug.build_id.as_ref() == Some(id),
                // Without a build-id, the link's checksum of the whole file decides.
                None => link(image, ".gnu_debuglink").is_some_and(|(_, rest)| {
                    rest.last_chunk::<4>().is_some_and(|sum| checksum(&candidate) == Some(image.order.word(*sum)))
                }),
            };
            fits.then_some((candidate, debug))
        })
    }

    /// What several files have in common may be in one more file (dwz).
    pub fn common<'a>(&'a self, image: &Image<&'a [u8]>, path: &Path) -> Option<Image<&'a [u8]>> {
        let (name, id) = link(image, ".gnu_debugaltlink")?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let beside = path.canonicalize().ok()?.parent()?.join(name);
        [Some(beside), by_build_id(&id)].into_iter().flatten().find_map(|path| self.open(&path).ok())
    }
}

fn by_build_id(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(Path::new(DEBUG_ROOT).join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// A file name, and what stands behind it in the section.
fn link<'a>(image: &Image<&'a [u8]>, section: &str) -> Option<(&'a OsStr, &'a [u8])> {
    let section = image.section(section).filter(|section| section.len <= 4096 + 64)?;
    let bytes = image.bytes_of(section)?;
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    Some((OsStr::from_bytes(&bytes[..end]), &bytes[end + 1..]))
}

fn checksum(path: &Path) -> Option<u32> {
    let mut file = File::open(Some(path).filter(|path| path.is_file())?).ok()?;
    let (mut sum, mut buffer) = (flate2::Crc::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(sum.sum()),
            len => sum.update(&buffer[..len]),
        }
    }
}

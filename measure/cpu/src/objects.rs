//! The files whose code was mapped: each is opened once, and believed only if it is the one that was mapped.
//!
//! Addresses in a file are those that it states itself; `bias` is what the loader added to them.

use elf::Image;
use model::shown;
use os::mapped::Mapped;
use os::process::{parse_maps, regions};
use os::roots::Roots;
use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::{Deref, Range};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use symbols::Looked;

/// What the kernel calls the code that it maps into every process.
const VDSO: &str = "[vdso]";

/// An object: index into [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId(u32);

/// All objects that were mapped.
#[derive(Debug)]
pub(crate) struct Objects {
    /// What the processes saw as `/`.
    root: PathBuf,
    /// Where else processes lived.
    roots: Arc<Roots>,
    numbers: HashMap<(PathBuf, u64, u64), ObjectId>,
    all: Vec<Object>,
}

/// A file that was mapped.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its path as the process saw it.
    pub(crate) path: PathBuf,
    /// What is in it, or why that is not known.
    pub(crate) content: Result<Content, String>,
    /// Where we opened it.
    place: PathBuf,
    /// Of a file in another root directory: what `place` leads to.
    _file: Option<File>,
}

/// What is in an object.
#[derive(Debug)]
pub(crate) struct Content {
    bytes: Bytes,
    build_id: Vec<u8>,
    /// What is loaded of it, executable parts first.
    loads: Vec<Load>,
    /// Its unwinding tables; `None`: it has none that we read.
    tables: Option<Sections>,
}

#[derive(Debug)]
enum Bytes {
    File(Mapped),
    Memory(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::File(mapped) => mapped,
            Self::Memory(bytes) => bytes,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Load {
    offset: u64,
    len: u64,
    address: u64,
}

/// Where the sections for unwinding are.
#[derive(Clone, Debug, Default)]
struct Sections {
    frames: Part,
    /// A sorted index of `frames`, where the file has one.
    index: Option<Part>,
    text: u64,
    got: u64,
}

#[derive(Clone, Debug, Default)]
struct Part {
    address: u64,
    bytes: Range<usize>,
}

/// Sections for unwinding, with their stated addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    /// `.eh_frame`
    pub(crate) frames: (u64, &'a [u8]),
    /// `.eh_frame_hdr`, where there is one.
    pub(crate) index: Option<(u64, &'a [u8])>,
    /// Address of `.text`, 0 without.
    pub(crate) text: u64,
    /// Address of `.got`, 0 without.
    pub(crate) got: u64,
}

impl Objects {
    /// None yet, of processes that saw this directory as `/`, or one of these.
    pub(crate) fn new(root: &Path, roots: Arc<Roots>) -> Self {
        Self { root: root.to_owned(), roots, numbers: HashMap::new(), all: Vec::new() }
    }

    /// The object of a mapping; `None`: it is of no file.
    pub(crate) fn of(&mut self, path: &Path, dev: u64, ino: u64) -> Option<ObjectId> {
        let is_vdso = path == Path::new(VDSO);
        if !is_vdso && (ino == 0 || !path.is_absolute() || path.as_os_str().as_encoded_bytes().starts_with(b"//")) {
            return None;
        }
        let key = (path.to_owned(), dev, ino);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        let number = ObjectId(u32::try_from(self.all.len()).ok()?);
        let mut place = self.root.join(path.strip_prefix("/").unwrap_or(path));
        let mut held = None;
        let bytes = if is_vdso {
            own_vdso().map(Bytes::Memory)
        } else {
            let own = open(&place).and_then(|file| is_it(&file, dev, ino));
            let mapped = own.or_else(|why| {
                let (mapped, file) = self.elsewhere(path, dev, ino).ok_or(why)?;
                place = os::tree::of_descriptor(&file);
                held = Some(file);
                Ok(mapped)
            });
            mapped.map(Bytes::File)
        };
        self.all.push(Object { path: path.to_owned(), content: bytes.and_then(Content::of), place, _file: held });
        self.numbers.insert(key, number);
        Some(number)
    }

    /// The file that was mapped, where it is in another root directory.
    fn elsewhere(&self, path: &Path, dev: u64, ino: u64) -> Option<(Mapped, File)> {
        self.roots.open(path).find_map(|file| Some((is_it(&file, dev, ino).ok()?, file)))
    }

    /// An object.
    pub(crate) fn get(&self, object: ObjectId) -> &Object {
        &self.all[object.0 as usize]
    }

    /// Why objects are not looked into, one sentence each.
    pub(crate) fn cannot(&self) -> impl Iterator<Item = String> {
        self.all.iter().filter_map(|object| {
            let why = object.content.as_ref().err()?;
            Some(format!("{} is not looked into: {why}", shown(&object.path)))
        })
    }
}

impl Object {
    /// What the loader added to this object's addresses, for a mapping of it.
    pub(crate) fn bias(&self, addresses: &Range<u64>, offset: u64) -> Option<u64> {
        let content = self.content.as_ref().ok()?;
        // The kernel's own is mapped from its beginning, whatever it says about that.
        let offset = if matches!(content.bytes, Bytes::Memory(_)) { 0 } else { offset };
        // The loader maps whole pages: a part may begin a little before the segment.
        let page = |address: u64| address & !0xfff;
        let load = content.loads.iter().find(|load| {
            let end = load.offset.saturating_add(load.len);
            (page(load.offset)..end).contains(&offset)
        })?;
        let stated = load.address.wrapping_add(offset.wrapping_sub(load.offset));
        Some(addresses.start.wrapping_sub(stated))
    }

    /// Its tables for unwinding.
    pub(crate) fn tables(&self) -> Option<Tables<'_>> {
        let content = self.content.as_ref().ok()?;
        let sections = content.tables.as_ref()?;
        let part = |part: &Part| Some((part.address, content.bytes.get(part.bytes.clone())?));
        Some(Tables {
            frames: part(&sections.frames)?,
            index: sections.index.as_ref().and_then(part),
            text: sections.text,
            got: sections.got,
        })
    }

    /// Looks up stated addresses.
    ///
    /// # Errors
    /// A sentence: the file is not there any more, or another one.
    pub(crate) fn look_up(&self, addresses: &[u64]) -> Result<Looked, String> {
        let content = self.content.as_ref().map_err(String::clone)?;
        match &content.bytes {
            Bytes::File(_) => symbols::look_up(&self.place, &content.build_id, addresses),
            Bytes::Memory(bytes) => symbols::look_up_bytes(bytes, addresses),
        }
    }
}

impl Content {
    fn of(bytes: Bytes) -> Result<Self, String> {
        let image = Image::of(&*bytes).map_err(|miss| miss.to_string())?;
        if image.machine != object::elf::EM_X86_64 || image.class != elf::Class::Elf64 {
            return Err("it is for another machine".into());
        }
        let mut segments: Vec<&elf::Segment> = image.segments.iter().filter(|segment| segment.is_load()).collect();
        segments.sort_by_key(|segment| !segment.is_executable());
        let load = |it: &&elf::Segment| Load { offset: it.offset, len: it.file_len, address: it.address };
        let loads = segments.iter().map(load).collect();
        let id = image.build_id.as_deref().unwrap_or_default();
        let pairs = id.as_bytes().chunks_exact(2).filter_map(|pair| std::str::from_utf8(pair).ok());
        let build_id = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
        let tables = Sections::of(&image);
        drop(image);
        Ok(Self { build_id, loads, tables, bytes })
    }
}

impl Sections {
    fn of(image: &Image<&[u8]>) -> Option<Self> {
        let address = |name| image.section(name).map_or(0, |section| section.address);
        let named = |name| {
            let section = image.section(name).filter(|section| section.in_file() && section.len > 0)?;
            Part::of(image, section.address, section.offset, section.len)
        };
        let mut sections = Self { text: address(".text"), got: address(".got"), ..Self::default() };
        sections.index = named(".eh_frame_hdr").or_else(|| {
            // A file whose section headers were stripped still tells the loader.
            let segment = image.segments.iter().find(|segment| segment.kind == object::elf::PT_GNU_EH_FRAME)?;
            Part::of(image, segment.address, segment.offset, segment.file_len)
        });
        sections.frames = named(".eh_frame").or_else(|| {
            let index = sections.index.as_ref()?;
            let head: [u8; 8] = image.data.get(index.bytes.clone())?.get(..8)?.try_into().ok()?;
            // Version 1, a distance from here in four bytes.
            let (1, 0x1b) = (head[0], head[1]) else { return None };
            let distance = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let address = index.address.wrapping_add(4).wrapping_add_signed(distance.into());
            let segment = image.segments.iter().find(|it| it.is_load() && it.backs(address, 1))?;
            let inside = address - segment.address;
            Part::of(image, address, segment.offset.checked_add(inside)?, segment.file_len - inside)
        })?;
        Some(sections)
    }
}

impl Part {
    fn of(image: &Image<&[u8]>, address: u64, offset: u64, len: u64) -> Option<Self> {
        let bytes = usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(len)?).ok()?;
        image.data.get(bytes.clone()).map(|_| Self { address, bytes })
    }
}

/// Opens a file that a process may have mapped: it may have mapped anything, and opening a pipe would wait for ever.
fn open(place: &Path) -> Result<File, String> {
    os::file::open_regular(place).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the file is not there any more".to_owned(),
        _ => error.to_string(),
    })
}

/// Maps a file, if it is the one that was mapped then.
fn is_it(file: &File, dev: u64, ino: u64) -> Result<Mapped, String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    let mapped = Mapped::of(file).ok_or("the file is empty or cannot be mapped")?;
    // Some file systems say another device in `stat` than of mappings: our own mapping tells as the recorded one did.
    if (about.dev(), about.ino()) != (dev, ino) && identity_of_mapping(&mapped) != Some((dev, ino)) {
        return Err("another file is at its path now".into());
    }
    Ok(mapped)
}

fn identity_of_mapping(mapped: &Mapped) -> Option<(u64, u64)> {
    let address = mapped.as_ptr().addr() as u64;
    let maps = parse_maps(&fs::read("/proc/self/maps").ok()?);
    let own = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    Some((own.dev, own.ino))
}

/// The kernel maps the same into every 64-bit process: we have it too.
fn own_vdso() -> Result<Vec<u8>, String> {
    let maps = fs::read("/proc/self/maps").map_err(|error| error.to_string())?;
    let region = regions(&maps).find(|region| region.name == VDSO.as_bytes());
    let region = region.ok_or("the kernel maps none into thaw")?;
    let mut bytes = vec![0; (region.end - region.start) as usize];
    let memory = File::open("/proc/self/mem").map_err(|error| error.to_string())?;
    memory.read_exact_at(&mut bytes, region.start).map_err(|error| error.to_string())?;
    Ok(bytes)
}

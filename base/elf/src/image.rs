//! A whole file, as the loader sees it: headers, segments, the dynamic table, and the bytes behind an address.
//!
//! It asks its source only for the parts that are needed, so that a file of gigabytes costs a few reads. The section
//! table is optional: where it is missing or damaged there are no sections, and everything that the loader uses still
//! works.

use crate::{Class, Miss, class, damaged, head, notes, text_at};
use object::elf::{
    CompressionType, DF_1_NOW, DF_BIND_NOW, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DynamicTag, EM_MIPS, FileHeader32,
    FileHeader64, FileType, Machine, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, ProgramFlags, ProgramType, SHF_ALLOC,
    SHF_COMPRESSED, SHF_EXECINSTR, SHF_TLS, SHF_WRITE, SHT_NOBITS, SectionFlags, SectionType,
};
use object::read::elf::{CompressionHeader, Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};
use serde::{Deserialize, Serialize};

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// The number of two bytes.
    pub fn half(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// The number of four bytes.
    pub fn word(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// The number of eight bytes.
    pub fn long(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The number of a word; `None` unless there are exactly as many bytes.
    pub fn address(self, bytes: &[u8]) -> Option<u64> {
        match bytes.len() {
            4 => Some(self.word(bytes.try_into().ok()?).into()),
            8 => Some(self.long(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// A program header. Addresses and lengths are as the file says; nothing is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// PT_LOAD, PT_DYNAMIC, ...
    pub kind: ProgramType,
    /// PF_R, PF_W, PF_X.
    pub flags: ProgramFlags,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// Where it is in memory, before the load bias.
    pub address: u64,
    /// p_paddr, which nothing reads but firmware: for those that write headers back.
    pub physical: u64,
    /// Its bytes in the file.
    pub file_len: u64,
    /// Its bytes in memory; those beyond `file_len` are zero.
    pub memory_len: u64,
    /// Alignment of the address and of the offset.
    pub align: u64,
}

impl Segment {
    /// It is mapped.
    pub fn is_load(&self) -> bool {
        self.kind == PT_LOAD
    }

    /// It is mapped for writing.
    pub fn is_writable(&self) -> bool {
        self.flags.contains(PF_W)
    }

    /// It is mapped for executing.
    pub fn is_executable(&self) -> bool {
        self.flags.contains(PF_X)
    }

    /// All bytes from `address` on are in it and come from the file.
    pub fn backs(&self, address: u64, len: u64) -> bool {
        let from = address.checked_sub(self.address);
        from.and_then(|from| from.checked_add(len)).is_some_and(|end| end <= self.file_len)
    }

    /// The address is in it, in the file or not.
    pub fn covers(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|from| from < self.memory_len)
    }
}

/// A section header. Addresses and lengths are as the file says; nothing is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionHead {
    /// `.text`; `[7]` where section 7 has no name. At most 255 bytes.
    pub name: String,
    /// Where its name is in the table of section names.
    pub name_at: u32,
    /// SHT_PROGBITS, SHT_NOBITS, ...
    pub kind: SectionType,
    /// SHF_ALLOC, ...
    pub flags: SectionFlags,
    /// Where it is in memory; 0 where it is not loaded.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Its bytes, in memory and (unless SHT_NOBITS) in the file.
    pub len: u64,
    /// The section that belongs to it: the names of a symbol table.
    pub link: u32,
    /// sh_info: the meaning depends on the kind.
    pub info: u32,
    /// Alignment of its address.
    pub align: u64,
    /// Bytes of an entry, for sections that are tables.
    pub entry_len: u64,
}

impl SectionHead {
    /// Its bytes are in the file.
    pub fn in_file(&self) -> bool {
        self.kind != SHT_NOBITS
    }

    /// It is loaded.
    pub fn is_loaded(&self) -> bool {
        self.flags.contains(SHF_ALLOC)
    }

    /// The program may write to it.
    pub fn is_writable(&self) -> bool {
        self.flags.contains(SHF_WRITE)
    }

    /// Every thread has its own copy.
    pub fn is_thread_local(&self) -> bool {
        self.flags.contains(SHF_TLS)
    }

    /// The address is in it.
    pub fn covers(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|from| from < self.len)
    }
}

/// The table that PT_DYNAMIC points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// Where it is in the file.
    pub offset: u64,
    /// Where it is in memory.
    pub address: u64,
    /// Its bytes in the file.
    pub len: u64,
    /// Entries before DT_NULL.
    pub entries: Vec<(DynamicTag, u64)>,
    /// Slots that are free: DT_NULL entries after the one that ends the table.
    pub spare: u64,
}

impl Dynamic {
    /// The value of a tag. The loader keeps the last one.
    pub fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.entries.iter().rev().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    /// Functions are looked up while it is loaded (`-z now`), not at their first calls.
    pub fn binds_at_once(&self) -> bool {
        let has = |tag, bit: u64| self.value(tag).is_some_and(|flags| flags & bit != 0);
        self.value(DT_BIND_NOW).is_some() || has(DT_FLAGS, DF_BIND_NOW.0) || has(DT_FLAGS_1, DF_1_NOW.0)
    }

    /// All values of a tag (DT_NEEDED).
    pub fn values(&self, tag: DynamicTag) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(move |(found, _)| *found == tag).map(|(_, value)| *value)
    }
}

/// A file, looked at through `R`: bytes in memory, or a file that is read piece by piece ([`object::ReadCache`]).
#[derive(Clone, Debug)]
pub struct Image<R> {
    /// Where the bytes come from.
    pub data: R,
    /// How many there are.
    pub len: u64,
    /// Pointer width.
    pub class: Class,
    /// Byte order.
    pub order: Order,
    /// EM_X86_64, ...
    pub machine: Machine,
    /// ET_DYN, ET_EXEC, ...
    pub kind: FileType,
    /// Where the program headers are in the file.
    pub segments_at: u64,
    /// Where the section headers are in the file; 0 where there are none.
    pub sections_at: u64,
    /// The section that holds the names of sections; 0 where there is none.
    pub names_index: u32,
    /// Program headers.
    pub segments: Vec<Segment>,
    /// Section headers; the first one, which is always empty, included. Empty without a section table.
    pub sections: Vec<SectionHead>,
    /// Why there are no sections although the file says there are some.
    pub sections_damaged: Option<Miss>,
    /// What the loader works through; `None` for object files and static programs.
    pub dynamic: Option<Dynamic>,
    /// GNU build-id in lower-case hex.
    pub build_id: Option<String>,
    /// Path of the dynamic loader.
    pub interpreter: Option<String>,
}

/// Longest path that the kernel takes.
const PATH_LIMIT: u64 = 4096;

impl<'data, R: ReadRef<'data>> Image<R> {
    /// Looks at the headers.
    ///
    /// # Errors
    /// [`Miss::NotElf`]; [`Miss::Damaged`] where the header, the program headers or the dynamic table cannot be read.
    pub fn of(data: R) -> Result<Self, Miss> {
        let ident = data.read_bytes_at(0, 5).map_err(|()| Miss::NotElf)?;
        match class(ident)? {
            Class::Elf32 => Self::of_class::<FileHeader32<Endianness>>(data, Class::Elf32),
            Class::Elf64 => Self::of_class::<FileHeader64<Endianness>>(data, Class::Elf64),
        }
    }

    fn of_class<Elf: FileHeader<Endian = Endianness>>(data: R, class: Class) -> Result<Self, Miss> {
        let (header, endian) = head::<Elf, R>(data)?;
        let headers = header.program_headers(endian, data).map_err(damaged)?;
        let segments: Vec<Segment> = headers.iter().map(|header| segment(header, endian)).collect();
        let (sections, sections_damaged) = match sections::<Elf, R>(header, endian, data) {
            Ok(sections) => (sections, None),
            Err(miss) => (Vec::new(), Some(miss)),
        };
        // In a file of debug data only, the segments point to bytes that were taken out. A template without bytes
        // (.tbss) takes no room in memory, so that the dynamic table may lie at its very address.
        let taken_out = |segment: &Segment| {
            sections.iter().any(|section| {
                let has_room = section.is_loaded() && !section.is_thread_local();
                has_room && !section.in_file() && section.covers(segment.address)
            })
        };
        let dynamic = match headers.iter().zip(&segments).find(|(_, segment)| segment.kind == PT_DYNAMIC) {
            Some((header, segment)) if !taken_out(segment) => Some(dynamic::<Elf, R>(header, endian, data)?),
            _ => None,
        };
        let interpreter = headers
            .iter()
            .filter(|header| header.p_filesz(endian).into() <= PATH_LIMIT)
            .find_map(|header| header.interpreter(endian, data).ok()?);
        Ok(Self {
            data,
            len: data.len().map_err(|()| Miss::Damaged("its length cannot be told".to_owned()))?,
            class,
            order: if header.is_little_endian() { Order::Little } else { Order::Big },
            machine: header.e_machine(endian),
            kind: header.e_type(endian),
            segments_at: header.e_phoff(endian).into(),
            sections_at: header.e_shoff(endian).into(),
            names_index: header.shstrndx(endian, data).unwrap_or_default(),
            build_id: notes::build_id_of::<Elf, R>(data, notes::NOTES_LIMIT).map(notes::hex),
            interpreter: interpreter.map(|path| String::from_utf8_lossy(path).into_owned()),
            segments,
            sections,
            sections_damaged,
            dynamic,
        })
    }

    /// It holds the debug data of another file, whose headers it has, and whose code and tables were taken out.
    pub fn is_debug_data(&self) -> bool {
        let emptied =
            |section: &SectionHead| section.is_loaded() && section.flags.contains(SHF_EXECINSTR) && !section.in_file();
        let has_dynamic = self.segments.iter().any(|segment| segment.kind == PT_DYNAMIC);
        self.sections.iter().any(emptied) || has_dynamic && self.dynamic.is_none()
    }

    /// Segments that are mapped.
    pub fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.is_load())
    }

    /// Sections that take room in memory. (`.tbss` is a template and takes none.)
    pub fn loaded_sections(&self) -> impl Iterator<Item = &SectionHead> {
        self.sections.iter().filter(|section| section.is_loaded() && (section.in_file() || !section.is_thread_local()))
    }

    /// The loaded section at an address.
    pub fn section_at(&self, address: u64) -> Option<&SectionHead> {
        self.loaded_sections().find(|section| section.covers(address))
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&SectionHead> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Where the bytes of an address are in the file.
    pub fn offset_of(&self, address: u64, len: u64) -> Option<u64> {
        let segment = self.loads().find(|segment| segment.backs(address, len))?;
        segment.offset.checked_add(address - segment.address)
    }

    /// The bytes at an address, if all of them come from the file.
    pub fn at(&self, address: u64, len: u64) -> Option<&'data [u8]> {
        self.data.read_bytes_at(self.offset_of(address, len)?, len).ok()
    }

    /// The word at an address.
    pub fn word_at(&self, address: u64) -> Option<u64> {
        self.order.address(self.at(address, self.class.word().bytes())?)
    }

    /// The bytes of a section as they are in the file; `None` for those that have none there.
    pub fn bytes_of(&self, section: &SectionHead) -> Option<&'data [u8]> {
        section.in_file().then(|| self.data.read_bytes_at(section.offset, section.len).ok())?
    }

    /// How a section is compressed, how long it is after decompression, and its compressed bytes. `None`: it is not, or
    /// its bytes are not in the file.
    pub fn compressed(&self, section: &SectionHead) -> Option<(CompressionType, u64, &'data [u8])> {
        fn split<Header: CompressionHeader<Endian = Endianness>>(
            bytes: &[u8],
            endian: Endianness,
        ) -> Option<(CompressionType, u64, &[u8])> {
            let (header, rest) = object::pod::from_bytes::<Header>(bytes).ok()?;
            Some((header.ch_type(endian), header.ch_size(endian).into(), rest))
        }
        if !section.flags.contains(SHF_COMPRESSED) {
            return None;
        }
        let bytes = self.bytes_of(section)?;
        match self.class {
            Class::Elf32 => split::<object::elf::CompressionHeader32<Endianness>>(bytes, self.endian()),
            Class::Elf64 => split::<object::elf::CompressionHeader64<Endianness>>(bytes, self.endian()),
        }
    }

    /// The text at an offset of the dynamic string table.
    pub fn string(&self, offset: u64) -> Option<&'data [u8]> {
        text_at(self.strings()?, offset, 4096)
    }

    /// The dynamic string table.
    pub fn strings(&self) -> Option<&'data [u8]> {
        let dynamic = self.dynamic.as_ref()?;
        self.at(dynamic.value(object::elf::DT_STRTAB)?, dynamic.value(object::elf::DT_STRSZ)?)
    }

    /// The byte order, for `object`.
    pub(crate) fn endian(&self) -> Endianness {
        match self.order {
            Order::Little => Endianness::Little,
            Order::Big => Endianness::Big,
        }
    }

    /// 64-bit little-endian MIPS has an order of its own inside `r_info`.
    pub(crate) fn is_mips64el(&self) -> bool {
        self.machine == EM_MIPS && self.class == Class::Elf64 && self.order == Order::Little
    }
}

fn segment<Header: ProgramHeader<Endian = Endianness>>(header: &Header, endian: Endianness) -> Segment {
    Segment {
        kind: header.p_type(endian),
        flags: header.p_flags(endian),
        offset: header.p_offset(endian).into(),
        address: header.p_vaddr(endian).into(),
        physical: header.p_paddr(endian).into(),
        file_len: header.p_filesz(endian).into(),
        memory_len: header.p_memsz(endian).into(),
        align: header.p_align(endian).into(),
    }
}

fn sections<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    header: &Elf,
    endian: Endianness,
    data: R,
) -> Result<Vec<SectionHead>, Miss> {
    let table = header.section_headers(endian, data).map_err(damaged)?;
    let names = crate::section_names(header, endian, data, table);
    let head = |(index, section): (usize, &Elf::SectionHeader)| SectionHead {
        name: crate::section_name(names, section.sh_name(endian), index),
        name_at: section.sh_name(endian),
        kind: section.sh_type(endian),
        flags: section.sh_flags(endian),
        address: section.sh_addr(endian).into(),
        offset: section.sh_offset(endian).into(),
        len: section.sh_size(endian).into(),
        link: section.sh_link(endian),
        info: section.sh_info(endian),
        align: section.sh_addralign(endian).into(),
        entry_len: section.sh_entsize(endian).into(),
    };
    Ok(table.iter().enumerate().map(head).collect())
}

fn dynamic<'data, Elf: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    header: &Elf::ProgramHeader,
    endian: Endianness,
    data: R,
) -> Result<Dynamic, Miss> {
    let table = header.dynamic(endian, data).map_err(damaged)?.unwrap_or_default();
    let is_end = |entry: &&Elf::Dyn| entry.d_tag(endian) == object::elf::DT_NULL;
    let entries: Vec<_> = table
        .iter()
        .take_while(|entry| !is_end(entry))
        .map(|entry| (entry.d_tag(endian), entry.d_val(endian).into()))
        .collect();
    let free = table.iter().skip(entries.len()).take_while(is_end).count() as u64;
    Ok(Dynamic {
        offset: header.p_offset(endian).into(),
        address: header.p_vaddr(endian).into(),
        len: header.p_filesz(endian).into(),
        entries,
        spare: free.saturating_sub(1),
    })
}

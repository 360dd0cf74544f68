//! The raw file: program headers and section headers in the form in which they are written back, and the bytes behind
//! an address. Headers are read by `elf`, as everywhere in thaw; numbers are written here, for both classes, little
//! endian. Decides only whether the headers are those of a file that may be packed.

use crate::report::Reason;
use crate::stop::{Stop, refuse};
use elf::relr::Word;
use elf::{Class, Miss, Order};
use object::elf::{
    EM_386, EM_AARCH64, EM_ARM, EM_X86_64, ET_CORE, ET_DYN, ET_EXEC, ET_REL, PF_W, PN_XNUM, PT_GNU_RELRO, PT_LOAD,
    R_386_RELATIVE, R_AARCH64_RELATIVE, R_ARM_RELATIVE, R_X86_64_RELATIVE, SHF_ALLOC, SHT_NOBITS, SHT_NULL,
};
use std::ops::Range;

/// A processor that thaw rewrites for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    I386,
    Aarch64,
    Arm,
}

impl Machine {
    /// The number of its relative relocation.
    pub fn relative(self) -> u32 {
        match self {
            Self::X86_64 => R_X86_64_RELATIVE.0,
            Self::I386 => R_386_RELATIVE.0,
            Self::Aarch64 => R_AARCH64_RELATIVE.0,
            Self::Arm => R_ARM_RELATIVE.0,
        }
    }

    /// Whether its pages are always of 4 KiB.
    pub fn has_fixed_pages(self) -> bool {
        matches!(self, Self::X86_64 | Self::I386)
    }
}

/// A program header: addresses, offsets and lengths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    pub paddr: u64,
    pub filesz: u64,
    pub memsz: u64,
    pub align: u64,
}

impl Segment {
    fn of(found: &elf::Segment) -> Self {
        Self {
            kind: found.kind.0,
            flags: found.flags.0,
            offset: found.offset,
            vaddr: found.address,
            paddr: found.physical,
            filesz: found.file_len,
            memsz: found.memory_len,
            align: found.align,
        }
    }
    pub fn is_load(&self) -> bool {
        self.kind == PT_LOAD.0
    }
    pub fn is_writable(&self) -> bool {
        self.flags & PF_W.0 != 0
    }
    /// Addresses with bytes in the file. Parsing has checked that the sums below do not overflow.
    pub fn in_file(&self) -> Range<u64> {
        self.vaddr..self.vaddr + self.filesz
    }
    /// Addresses in memory, zeros behind the bytes of the file included.
    pub fn in_memory(&self) -> Range<u64> {
        self.vaddr..self.vaddr + self.memsz
    }
    /// Its bytes in the file.
    pub fn file_range(&self) -> Range<u64> {
        self.offset..self.offset + self.filesz
    }
}

/// A section header: addresses, offsets and lengths in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    pub name_at: u32,
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entsize: u64,
}

impl Section {
    fn of(found: &elf::SectionHead) -> Self {
        Self {
            name_at: found.name_at,
            kind: found.kind.0,
            flags: found.flags.0,
            addr: found.address,
            offset: found.offset,
            size: found.len,
            link: found.link,
            info: found.info,
            align: found.align,
            entsize: found.entry_len,
        }
    }
    pub fn is_loaded(&self) -> bool {
        self.flags & SHF_ALLOC.0 != 0 && self.kind != SHT_NULL.0
    }
    /// It takes room in the file.
    pub fn has_bytes(&self) -> bool {
        !matches!(self.kind, kind if kind == SHT_NULL.0 || kind == SHT_NOBITS.0)
    }
    pub fn in_memory(&self) -> Range<u64> {
        self.addr..self.addr + self.size
    }
    /// Its bytes in the file. `None`: it has none, and its offset may be anything.
    pub fn in_file(&self) -> Option<Range<u64>> {
        self.has_bytes().then(|| self.offset..self.offset + self.size)
    }
}

/// The parts of the file header that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub phoff: u64,
    pub shoff: u64,
    pub shstrndx: u32,
}

/// A file.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    pub bytes: &'a [u8],
    pub word: Word,
    pub machine: Machine,
    pub header: Header,
    pub segments: Vec<Segment>,
    /// Empty where the file has no section table. The first is the null section.
    pub sections: Vec<Section>,
    /// Its code and tables were taken out.
    pub is_debug_data: bool,
    /// What PT_DYNAMIC holds.
    pub dynamic: Option<elf::Dynamic>,
}

/// Sizes of the on-disk structures.
pub fn segment_len(word: Word) -> u64 {
    by(word, 32, 56)
}
pub fn section_len(word: Word) -> u64 {
    by(word, 40, 64)
}
pub fn symbol_len(word: Word) -> u64 {
    by(word, 16, 24)
}

fn by<T>(word: Word, four: T, eight: T) -> T {
    match word {
        Word::Four => four,
        Word::Eight => eight,
    }
}

/// Part of `bytes`, if it is all there.
pub fn part(bytes: &[u8], offset: u64, len: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = usize::try_from(offset.checked_add(len)?).ok()?;
    bytes.get(start..end)
}

pub fn u16_at(bytes: &[u8], offset: u64) -> Option<u16> {
    Some(u16::from_le_bytes(part(bytes, offset, 2)?.try_into().ok()?))
}
pub fn u32_at(bytes: &[u8], offset: u64) -> Option<u32> {
    Some(u32::from_le_bytes(part(bytes, offset, 4)?.try_into().ok()?))
}
pub fn word_at(bytes: &[u8], offset: u64, word: Word) -> Option<u64> {
    match word {
        Word::Four => u32_at(bytes, offset).map(u64::from),
        Word::Eight => Some(u64::from_le_bytes(part(bytes, offset, 8)?.try_into().ok()?)),
    }
}

/// Two or three numbers as wide as the class, from bytes that hold them; zeros where they do not.
#[inline]
pub fn words_of(bytes: &[u8], word: Word) -> [u64; 3] {
    match word {
        Word::Four => numbers(bytes.as_chunks().0, |raw| u32::from_le_bytes(*raw).into()),
        Word::Eight => numbers(bytes.as_chunks().0, |raw| u64::from_le_bytes(*raw)),
    }
}

#[inline]
fn numbers<const LEN: usize>(raw: &[[u8; LEN]], number: impl Fn(&[u8; LEN]) -> u64) -> [u64; 3] {
    match raw {
        [one, two, three, ..] => [number(one), number(two), number(three)],
        [one, two] => [number(one), number(two), 0],
        _ => [0; 3],
    }
}

/// Appends a number as wide as the class. The value fits: it came from such a file, or was checked by the layout.
pub fn push_word(out: &mut Vec<u8>, value: u64, word: Word) {
    out.extend_from_slice(&value.to_le_bytes()[..word.bytes() as usize]);
}

/// Overwrites a number as wide as the class; `false` if there is no room.
pub fn set_word(bytes: &mut [u8], offset: u64, value: u64, word: Word) -> bool {
    // Of a length that is known: these are millions.
    match word {
        Word::Four => set_bytes(bytes, offset, &(value as u32).to_le_bytes()),
        Word::Eight => set_bytes(bytes, offset, &value.to_le_bytes()),
    }
}

/// Overwrites bytes; `false` if there is no room.
pub fn set_bytes(bytes: &mut [u8], offset: u64, with: &[u8]) -> bool {
    let Ok(start) = usize::try_from(offset) else { return false };
    match start.checked_add(with.len()).and_then(|end| bytes.get_mut(start..end)) {
        Some(place) => {
            place.copy_from_slice(with);
            true
        }
        None => false,
    }
}

/// A range of bytes as indices; empty where it cannot exist.
pub fn up(value: u64, align: u64) -> u64 {
    value.div_ceil(align.max(1)).saturating_mul(align.max(1))
}
pub fn down(value: u64, align: u64) -> u64 {
    value - value % align.max(1)
}

impl<'a> Image<'a> {
    /// Reads the headers of a file that may be packed: ranges do not overflow, PT_LOAD segments are sorted and apart,
    /// with all their bytes in the file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Stop> {
        let image = Self::read(bytes)?;
        if image.is_debug_data {
            return Err(refuse(Reason::DebugFile, "it holds the debug information of another file, and no code"));
        }
        check_segments(&image.segments, bytes.len() as u64, image.word)?;
        Ok(image)
    }

    /// Reads the headers. Sections have their bytes in the file; segments can be anything.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Stop> {
        let found = elf::Image::of(bytes).map_err(|miss| match miss {
            Miss::NotElf => refuse(Reason::NotElf, "it is not an ELF file"),
            Miss::Damaged(part) => damaged(&part),
        })?;
        if found.order != Order::Little {
            return Err(refuse(Reason::Class, "its byte order is big endian, which thaw does not rewrite"));
        }
        check_kind(&found)?;
        let machine = machine(&found)?;
        if found.segments.len() >= usize::from(PN_XNUM) {
            let sentence = "it has so many segments that they are counted elsewhere (PN_XNUM)";
            return Err(refuse(Reason::SegmentCount, sentence));
        }
        if found.segments.is_empty() {
            return Err(damaged("it has no program headers"));
        }
        if let Some(Miss::Damaged(part)) = &found.sections_damaged {
            return Err(damaged(part));
        }
        let sections: Vec<Section> = found.sections.iter().map(Section::of).collect();
        for (index, section) in sections.iter().enumerate() {
            let bounded = section.addr.checked_add(section.size).is_some()
                && (!section.has_bytes() || part(bytes, section.offset, section.size).is_some());
            if !bounded {
                return Err(damaged(&format!("section {index} ends outside the file")));
            }
        }
        if !sections.is_empty() && sections.get(found.names_index as usize).is_none() {
            return Err(damaged("its table of section names is missing"));
        }
        Ok(Self {
            bytes,
            word: found.class.word(),
            machine,
            header: Header { phoff: found.segments_at, shoff: found.sections_at, shstrndx: found.names_index },
            segments: found.segments.iter().map(Segment::of).collect(),
            sections,
            is_debug_data: found.is_debug_data(),
            dynamic: found.dynamic,
        })
    }

    pub fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.is_load())
    }

    /// The first program header of a kind.
    pub fn segment(&self, kind: object::elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind.0)
    }

    /// Where the byte of an address is in the file.
    pub fn offset_of(&self, vaddr: u64) -> Option<u64> {
        let load = self.loads().find(|load| load.in_file().contains(&vaddr))?;
        Some(load.offset + (vaddr - load.vaddr))
    }

    /// The bytes of a range of addresses, if all are in the file.
    pub fn at(&self, vaddr: u64, len: u64) -> Option<&'a [u8]> {
        let rest = self.from(vaddr)?;
        rest.get(..usize::try_from(len).ok()?)
    }

    /// The bytes from an address to the end of its segment in the file.
    pub fn from(&self, vaddr: u64) -> Option<&'a [u8]> {
        let load = self.loads().find(|load| load.in_file().contains(&vaddr))?;
        let skip = vaddr - load.vaddr;
        part(self.bytes, load.offset + skip, load.filesz - skip)
    }

    pub fn section_name(&self, section: &Section) -> &'a [u8] {
        let table = self.sections.get(self.header.shstrndx as usize).filter(|table| table.has_bytes());
        let names = table.and_then(|table| part(self.bytes, table.offset, table.size)).unwrap_or_default();
        text_at(names, u64::from(section.name_at)).unwrap_or_default()
    }

    /// The last address that a pointer of this class can hold.
    pub fn top(&self) -> u64 {
        by(self.word, u64::from(u32::MAX), u64::MAX)
    }

    /// The end of the table of program headers, in the file.
    pub fn headers_end(&self) -> u64 {
        self.header.phoff + self.segments.len() as u64 * segment_len(self.word)
    }
}

/// The text from an offset to the next zero byte, which must be there.
pub fn text_at(table: &[u8], offset: u64) -> Option<&[u8]> {
    let rest = table.get(usize::try_from(offset).ok()?..)?;
    rest.iter().position(|byte| *byte == 0).map(|end| &rest[..end])
}

fn damaged(part: &str) -> Stop {
    refuse(Reason::Damaged, format!("it is a damaged ELF file ({part})"))
}

/// Refuses what is neither a library nor a position-independent program.
fn check_kind(found: &elf::Image<&[u8]>) -> Result<(), Stop> {
    let is_module = || [".modinfo", ".gnu.linkonce.this_module"].iter().any(|name| found.section(name).is_some());
    let sentence = match found.kind {
        ET_DYN => return Ok(()),
        ET_EXEC => "it is an executable at a fixed address: it has no relative relocations",
        ET_REL if is_module() => return Err(refuse(Reason::KernelModule, "it is a module of the Linux kernel")),
        ET_REL => "it is an object file, not linked yet",
        ET_CORE => "it is a core dump",
        _ => "it is neither a library nor a position-independent executable",
    };
    Err(refuse(Reason::NotShared, sentence))
}

fn machine(found: &elf::Image<&[u8]>) -> Result<Machine, Stop> {
    match (found.machine, found.class) {
        (EM_X86_64, Class::Elf64) => Ok(Machine::X86_64),
        (EM_386, Class::Elf32) => Ok(Machine::I386),
        (EM_AARCH64, Class::Elf64) => Ok(Machine::Aarch64),
        (EM_ARM, Class::Elf32) => Ok(Machine::Arm),
        (machine, _) => {
            let sentence = format!("it is for processor {} (ELF e_machine), which thaw does not rewrite", machine.0);
            Err(refuse(Reason::Machine, sentence))
        }
    }
}

fn check_segments(segments: &[Segment], len: u64, word: Word) -> Result<(), Stop> {
    let mut end = 0;
    for segment in segments {
        let top = by(word, u64::from(u32::MAX), u64::MAX);
        let memory = segment.vaddr.checked_add(segment.memsz).filter(|end| *end <= top);
        let file = segment.offset.checked_add(segment.filesz);
        let (Some(memory), Some(file)) = (memory, file) else {
            return Err(refuse(Reason::Damaged, "a segment ends beyond the end of the address space"));
        };
        if !segment.is_load() {
            continue;
        }
        let align = segment.align.max(1);
        if file > len || segment.filesz > segment.memsz || memory.checked_add(align).is_none() {
            return Err(refuse(Reason::Damaged, format!("the segment at {:#x} is not all there", segment.vaddr)));
        }
        if !align.is_power_of_two() || segment.vaddr % align != segment.offset % align {
            let sentence = format!("the segment at {:#x} cannot be mapped: its offset does not fit", segment.vaddr);
            return Err(refuse(Reason::Damaged, sentence));
        }
        if segment.vaddr < end {
            return Err(refuse(Reason::SegmentOrder, "its segments overlap or are not sorted"));
        }
        end = memory;
    }
    if end == 0 {
        return Err(refuse(Reason::Damaged, "nothing of it is loaded"));
    }
    // What is loaded and named by another header must be at one place.
    let loads = || segments.iter().filter(|segment| segment.is_load());
    for segment in segments.iter().filter(|segment| !segment.is_load() && segment.filesz != 0) {
        let by_address = loads().find(|load| load.in_file().contains(&segment.vaddr));
        let by_offset = loads().find(|load| load.file_range().contains(&segment.offset));
        let fits = |load: &Segment| {
            // Only its addresses in memory count for RELRO. BOLT gives it bytes that the segment has not; mold gives it
            // the offset of its first section, which is 0 where that is .tbss.
            segment.kind == PT_GNU_RELRO.0
                || segment.offset.wrapping_sub(load.offset) == segment.vaddr.wrapping_sub(load.vaddr)
                    && segment.file_range().end <= load.file_range().end
        };
        if !by_address.or(by_offset).is_some_and(fits) {
            let sentence = format!("the program header of type {:#x} is not where its address says", segment.kind);
            return Err(refuse(Reason::Damaged, sentence));
        }
    }
    Ok(())
}

pub fn push_segment(out: &mut Vec<u8>, segment: &Segment, word: Word) {
    out.extend(segment.kind.to_le_bytes());
    if word == Word::Eight {
        out.extend(segment.flags.to_le_bytes());
    }
    for value in [segment.offset, segment.vaddr, segment.paddr, segment.filesz, segment.memsz] {
        push_word(out, value, word);
    }
    if word == Word::Four {
        out.extend(segment.flags.to_le_bytes());
    }
    push_word(out, segment.align, word);
}

pub fn push_section(out: &mut Vec<u8>, section: &Section, word: Word) {
    out.extend(section.name_at.to_le_bytes());
    out.extend(section.kind.to_le_bytes());
    for value in [section.flags, section.addr, section.offset, section.size] {
        push_word(out, value, word);
    }
    out.extend(section.link.to_le_bytes());
    out.extend(section.info.to_le_bytes());
    push_word(out, section.align, word);
    push_word(out, section.entsize, word);
}

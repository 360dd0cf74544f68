//! Headers of a file: what it says of itself before anything is loaded. Not for judging it: that is `lint` and
//! `compare`.

use crate::bytes::{Class, Format, Order, text};
use crate::spec::*;

/// One program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) at: u64,
    pub(crate) file_len: u64,
    pub(crate) mem_len: u64,
    pub(crate) align: u64,
}

impl Segment {
    /// End in memory; `parse` has checked that it does not wrap.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.mem_len
    }

    /// End of the part that comes from the file, in memory.
    pub(crate) fn file_end(&self) -> u64 {
        self.at + self.file_len
    }
}

/// One section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) at: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
    pub(crate) entry: u64,
}

impl Section<'_> {
    /// End in memory; a damaged header can name anything.
    pub(crate) fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }

    /// End in the file.
    pub(crate) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.flags & SHF_ALLOC != 0 && self.len > 0
    }

    /// `.tbss` has addresses that overlap what follows: it takes no room in the image.
    pub(crate) fn takes_memory(&self) -> bool {
        self.is_loaded() && !(self.kind == SHT_NOBITS && self.flags & SHF_TLS != 0)
    }

    pub(crate) fn in_file(&self) -> bool {
        self.kind != SHT_NOBITS && self.kind != SHT_NULL && self.len > 0
    }
}

/// A file of which all headers lie inside it.
pub(crate) struct Elf<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) format: Format,
    pub(crate) machine: Machine,
    /// e_ident.
    pub(crate) ident: [u8; 16],
    pub(crate) kind: u16,
    pub(crate) machine_number: u16,
    pub(crate) entry: u64,
    pub(crate) flags: u32,
    pub(crate) header_len: u64,
    pub(crate) segments_offset: u64,
    pub(crate) segments_len: u64,
    pub(crate) sections_offset: u64,
    pub(crate) sections_len: u64,
    pub(crate) names_index: usize,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section<'a>>,
    pub(crate) dynamic: Dynamic,
}

/// The dynamic table.
pub(crate) struct Dynamic {
    /// Its address.
    pub(crate) at: u64,
    /// Bytes that PT_DYNAMIC gives it.
    pub(crate) len: u64,
    /// Entries before the terminator.
    pub(crate) entries: Vec<(u64, u64)>,
    /// Whether DT_NULL comes inside `len`.
    pub(crate) terminated: bool,
}

impl Dynamic {
    /// The value that counts: a loader keeps the last entry of a tag.
    pub(crate) fn value(&self, tag: u64) -> Option<u64> {
        self.entries.iter().rev().find(|entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// All values of a tag, in order.
    pub(crate) fn values(&self, tag: u64) -> impl Iterator<Item = u64> {
        self.entries.iter().filter(move |entry| entry.0 == tag).map(|entry| entry.1)
    }
}

/// Why a file cannot be judged: a fragment for an error or a difference.
pub(crate) type Reason = String;

impl<'a> Elf<'a> {
    /// Reads the headers. Errors: the first thing that does not make sense.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Reason> {
        let ident: [u8; 16] = bytes.get(..16).and_then(|ident| ident.try_into().ok()).ok_or("not an ELF file")?;
        if ident[..4] != *b"\x7fELF" {
            return Err("not an ELF file".to_owned());
        }
        let class = match ident[4] {
            1 => Class::Elf32,
            2 => Class::Elf64,
            other => return Err(format!("its class is {other}, neither 32 nor 64 bits")),
        };
        let order = match ident[5] {
            1 => Order::Little,
            2 => Order::Big,
            other => return Err(format!("its byte order is {other}, neither little nor big")),
        };
        let format = Format { class, order };
        let cut = || "its header is cut off".to_owned();
        let half = |at: usize| format.u16(bytes, at).ok_or_else(cut);
        let word = |narrow: usize, wide: usize| format.word(bytes, format.pick(narrow, wide)).ok_or_else(cut);
        let number = half(18)?;
        let machine = machine(number).ok_or_else(|| format!("machine {number} is not one that the oracle knows"))?;
        // After the three addresses, both classes go on alike.
        let rest = format.pick(36, 48);
        let mut elf = Self {
            bytes,
            format,
            machine,
            ident,
            kind: half(16)?,
            machine_number: number,
            entry: word(24, 24)?,
            flags: format.u32(bytes, rest).ok_or_else(cut)?,
            header_len: half(rest + 4)?.into(),
            segments_offset: word(28, 32)?,
            segments_len: 0,
            sections_offset: word(32, 40)?,
            sections_len: 0,
            names_index: half(rest + 14)?.into(),
            segments: Vec::new(),
            sections: Vec::new(),
            dynamic: Dynamic { at: 0, len: 0, entries: Vec::new(), terminated: false },
        };
        if elf.kind != ET_DYN {
            return Err(format!("its type is {}, not ET_DYN", elf.kind));
        }
        elf.read_segments(half(rest + 6)?, half(rest + 8)?)?;
        elf.read_sections(half(rest + 10)?, half(rest + 12)?)?;
        elf.read_dynamic()?;
        Ok(elf)
    }

    fn read_segments(&mut self, entry_len: u16, count: u16) -> Result<(), Reason> {
        let format = self.format;
        if entry_len != format.pick(32, 56) {
            return Err(format!("its program headers are {entry_len} bytes long"));
        }
        if count == 0xffff {
            return Err("it has more than 65534 program headers".to_owned());
        }
        self.segments_len = u64::from(entry_len) * u64::from(count);
        let table =
            self.in_file(self.segments_offset, self.segments_len).ok_or("its program headers lie outside it")?;
        for (index, raw) in table.chunks_exact(entry_len.into()).enumerate() {
            let word = |narrow: usize, wide: usize| format.word(raw, format.pick(narrow, wide)).unwrap_or(0);
            let segment = Segment {
                kind: format.u32(raw, 0).unwrap_or(0),
                flags: format.u32(raw, format.pick(24, 4)).unwrap_or(0),
                offset: word(4, 8),
                at: word(8, 16),
                file_len: word(16, 32),
                mem_len: word(20, 40),
                align: word(28, 48),
            };
            let memory_ends = segment.at.checked_add(segment.mem_len).is_some_and(|end| end <= format.wrap(u64::MAX));
            if !memory_ends || segment.at.checked_add(segment.file_len).is_none() {
                return Err(format!("segment {index} ends outside the address space"));
            }
            if segment.kind == PT_LOAD {
                if self.in_file(segment.offset, segment.file_len).is_none() {
                    return Err(format!("segment {index} ends outside the file"));
                }
                if segment.file_len > segment.mem_len {
                    return Err(format!("segment {index} has more bytes in the file than in memory"));
                }
            }
            self.segments.push(segment);
        }
        if !self.loads().is_sorted_by(|first, second| first.end() <= second.at) {
            return Err("its PT_LOADs overlap or are not sorted by address".to_owned());
        }
        Ok(())
    }

    fn read_sections(&mut self, entry_len: u16, count: u16) -> Result<(), Reason> {
        let format = self.format;
        if self.sections_offset == 0 {
            return Ok(());
        }
        if entry_len != format.pick(40, 64) {
            return Err(format!("its section headers are {entry_len} bytes long"));
        }
        let long = u64::from(entry_len);
        let first = self.in_file(self.sections_offset, long).ok_or("its section headers lie outside it")?;
        // Counts that do not fit into the header are in the first section.
        let mut count = u64::from(count);
        if count == 0 {
            count = format.word(first, format.pick(20, 32)).unwrap_or(0);
        }
        if self.names_index == 0xffff {
            self.names_index = format.u32(first, format.pick(24, 40)).unwrap_or(0) as usize;
        }
        self.sections_len = count.checked_mul(long).ok_or("it has too many section headers")?;
        let table =
            self.in_file(self.sections_offset, self.sections_len).ok_or("its section headers lie outside it")?;
        for raw in table.chunks_exact(entry_len.into()) {
            let half = |narrow: usize, wide: usize| format.u32(raw, format.pick(narrow, wide)).unwrap_or(0);
            let word = |narrow: usize, wide: usize| format.word(raw, format.pick(narrow, wide)).unwrap_or(0);
            self.sections.push(Section {
                name: b"",
                kind: half(4, 4),
                flags: word(8, 8),
                at: word(12, 16),
                offset: word(16, 24),
                len: word(20, 32),
                link: half(24, 40),
                info: half(28, 44),
                align: word(32, 48),
                entry: word(36, 56),
            });
        }
        let names = self.sections.get(self.names_index).and_then(|names| self.in_file(names.offset, names.len));
        for (section, raw) in self.sections.iter_mut().zip(table.chunks_exact(entry_len.into())) {
            let name = u64::from(format.u32(raw, 0).unwrap_or(0));
            section.name = names.and_then(|names| text(names, name)).unwrap_or(b"");
        }
        Ok(())
    }

    fn read_dynamic(&mut self) -> Result<(), Reason> {
        let segment = *self.segment(PT_DYNAMIC).ok_or("it has no dynamic table")?;
        let table = self.rest(segment.at).ok_or("its dynamic table is not loaded from the file")?;
        let word = self.format.word_len() as usize;
        let (mut entries, mut terminated) = (Vec::new(), false);
        for (index, raw) in table.chunks_exact(2 * word).enumerate() {
            let number = |at: usize| self.format.word(raw, at).unwrap_or(0);
            if number(0) == DT_NULL {
                terminated = (index + 1) as u64 * 2 * word as u64 <= segment.mem_len;
                break;
            }
            entries.push((number(0), number(word)));
        }
        self.dynamic = Dynamic { at: segment.at, len: segment.mem_len, entries, terminated };
        Ok(())
    }

    /// The first segment of a kind.
    pub(crate) fn segment(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// Segments of a kind, in order.
    pub(crate) fn segments_of(&self, kind: u32) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.kind == kind)
    }

    /// PT_LOADs that take memory, by address.
    pub(crate) fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.segments_of(PT_LOAD).filter(|segment| segment.mem_len > 0)
    }

    /// The PT_LOAD that holds an address.
    pub(crate) fn load_at(&self, at: u64) -> Option<&Segment> {
        self.loads().find(|load| load.at <= at && at < load.end())
    }

    /// The PT_LOAD that holds all of a non-empty range.
    pub(crate) fn load_of(&self, at: u64, len: u64) -> Option<&Segment> {
        self.load_at(at).filter(|load| at.checked_add(len).is_some_and(|end| end <= load.end()))
    }

    /// Bytes of the file.
    pub(crate) fn in_file(&self, offset: u64, len: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    /// Loaded bytes of the file from an address to the end of what its segment has in the file.
    pub(crate) fn rest(&self, at: u64) -> Option<&'a [u8]> {
        let load = self.load_at(at)?;
        let skipped = at - load.at;
        self.in_file(load.offset.checked_add(skipped)?, load.file_len.checked_sub(skipped)?)
    }

    /// Loaded bytes of the file.
    pub(crate) fn slice(&self, at: u64, len: u64) -> Option<&'a [u8]> {
        self.rest(at)?.get(..usize::try_from(len).ok()?)
    }

    /// Where a byte of the file is loaded.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let load = self.loads().find(|load| load.offset <= offset && offset - load.offset < load.file_len)?;
        Some(load.at + (offset - load.offset))
    }

    /// Sections that take memory, by address.
    pub(crate) fn loaded_sections(&self) -> impl Iterator<Item = &Section<'a>> {
        self.sections.iter().filter(|section| section.takes_memory())
    }
}

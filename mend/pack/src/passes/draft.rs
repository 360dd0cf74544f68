//! A copy of the file that passes write to, while they read the original. Everything that a pass may do to a file is a
//! method here; nothing here decides.

use elf::{Class, Image, Order, Relocation, Relocations, Role};
use object::elf::{
    EM_386, EM_AARCH64, EM_ARM, EM_X86_64, ET_DYN, Machine, R_386_32, R_386_GLOB_DAT, R_AARCH64_ABS64,
    R_AARCH64_GLOB_DAT, R_ARM_ABS32, R_ARM_GLOB_DAT, R_X86_64_64, R_X86_64_GLOB_DAT,
};
use std::ops::Range;
use verify::{Allowed, Word};

/// The original, and what it is becoming.
pub struct Draft<'a> {
    pub image: &'a Image<&'a [u8]>,
    /// DT_RELA or DT_REL; none where there is none.
    pub table: Option<Relocations<'a>>,
    bytes: Vec<u8>,
    allowed: Vec<Allowed>,
}

/// One relocation of the table, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub relocation: Relocation,
    index: u64,
}

/// What the loader puts into the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// The symbol's address plus the addend.
    SymbolAndAddend,
    /// The symbol's address alone.
    Symbol,
}

impl<'a> Draft<'a> {
    /// Refuses, with a reason, what no pass can work on.
    pub fn of(image: &'a Image<&'a [u8]>) -> Result<Self, String> {
        if image.kind != ET_DYN || image.order != Order::Little || image.dynamic.is_none() {
            return Err("it is not a little-endian library or position-independent program".to_owned());
        }
        if !matches!(image.machine, EM_X86_64 | EM_386 | EM_AARCH64 | EM_ARM) {
            return Err(format!("it is for {}", elf::machine_name(image.machine)));
        }
        let tables = image.relocations().map_err(|miss| miss.to_string())?;
        let table = tables.into_iter().find(|table| table.role == Role::Load);
        Ok(Self { image, table, bytes: image.data.to_vec(), allowed: Vec::new() })
    }

    pub fn finish(self) -> (Vec<u8>, Vec<Allowed>) {
        (self.bytes, self.allowed)
    }

    /// The relocations that the loader works through at load time, without those of the PLT.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let all = self.table.clone().into_iter().flat_map(|table| table.iter());
        all.zip(0..).map(|(relocation, index)| Entry { relocation, index })
    }

    /// Every address that the loader writes to.
    pub fn targets(&self) -> Result<impl Iterator<Item = u64> + use<'a>, String> {
        let tables = self.image.relocations().map_err(|miss| miss.to_string())?;
        let packed = self.image.relr().map_err(|miss| miss.to_string())?.map(|(_, words)| words).unwrap_or_default();
        let packed = elf::relr::decode(&packed, self.image.class.word()).map_err(|miss| miss.to_string())?;
        Ok(tables.into_iter().flat_map(|table| table.iter()).map(|relocation| relocation.offset).chain(packed))
    }

    /// The addend of an entry; `None` where it should be in the word, and the word is not in the file.
    pub fn addend(&self, entry: &Entry) -> Option<u64> {
        match self.table.as_ref()?.with_addends {
            true => Some(entry.relocation.addend.cast_unsigned()),
            false => self.image.word_at(entry.relocation.offset),
        }
    }

    /// Makes an entry a relative one, to `value`. `false`, and nothing is changed, where its word is not in the file.
    #[must_use]
    pub fn make_relative(&mut self, entry: &Entry, value: u64) -> bool {
        let Some(kind) = elf::relative_type(self.image.machine) else { return false };
        if !self.point(entry, value) {
            return false;
        }
        let word = self.image.class.word().bytes();
        // r_info: no symbol. `point` has found the entry in the file.
        if let Some(at) = self.entry_offset(entry) {
            self.put(at + word, &u64::from(kind).to_le_bytes()[..word as usize]);
        }
        self.allowed.push(Allowed::Relative { at: entry.relocation.offset, value });
        true
    }

    /// Lets a relative entry point to `value`. `false`, and nothing is changed, where its word is not in the file.
    #[must_use]
    pub fn move_relative(&mut self, entry: &Entry, value: u64) -> bool {
        let moved = self.point(entry, value);
        if moved {
            self.allowed.push(Allowed::Word { at: entry.relocation.offset, value: Word::Address(value) });
        }
        moved
    }

    /// Writes the target into the entry, and into the word: packers want it there, and the loader does not mind.
    fn point(&mut self, entry: &Entry, value: u64) -> bool {
        let word = self.image.class.word().bytes();
        let value = &value.to_le_bytes()[..word as usize];
        let Some(target) = self.image.offset_of(entry.relocation.offset, word) else { return false };
        let Some(at) = self.entry_offset(entry) else { return false };
        if self.table.as_ref().is_some_and(|table| table.with_addends) {
            self.put(at + 2 * word, value);
        }
        self.put(target, value);
        true
    }

    /// A sum as the machine computes it.
    pub fn wrapped(&self, sum: u64) -> u64 {
        match self.image.class {
            Class::Elf32 => sum & u64::from(u32::MAX),
            Class::Elf64 => sum,
        }
    }

    fn entry_offset(&self, entry: &Entry) -> Option<u64> {
        let table = self.table.as_ref()?;
        Some(self.image.offset_of(table.address, table.len())? + entry.index * table.entry_len())
    }

    /// Puts code where nothing was.
    pub fn add_code(&mut self, offset: u64, address: u64, code: &[u8]) {
        self.put(offset, code);
        self.allowed.push(Allowed::New { at: address, len: code.len() as u64 });
    }

    /// Sets how much of the file, and of memory, a segment takes.
    pub fn set_segment_len(&mut self, index: usize, file_len: u64, memory_len: u64) {
        let (table, entry, field) = by(self.image.class, (28, 32, 16), (32, 56, 32));
        self.set_header_words(table, entry, index, field, &[file_len, memory_len]);
    }

    /// Sets the length of a section.
    pub fn set_section_len(&mut self, index: usize, len: u64) {
        let (table, entry, field) = by(self.image.class, (32, 40, 20), (40, 64, 32));
        self.set_header_words(table, entry, index, field, &[len]);
    }

    /// Shifts everything from `offset` on, which no segment loads, by `len` zero bytes.
    pub fn insert(&mut self, offset: u64, len: u64) {
        let shifted = |at: u64| at + if at >= offset { len } else { 0 };
        // Headers first, while they are where the original has them.
        let (table, entry, field) = by(self.image.class, (32, 40, 16), (40, 64, 24));
        for (index, section) in self.image.sections.iter().enumerate().skip(1) {
            self.set_header_words(table, entry, index, field, &[shifted(section.offset)]);
        }
        let word = self.image.class.word().bytes();
        let headers = self.header_word(table);
        if headers != 0 {
            self.put(table, &shifted(headers).to_le_bytes()[..word as usize]);
        }
        let at = offset as usize;
        self.bytes.splice(at..at, std::iter::repeat_n(0, len as usize));
    }

    /// Where the program headers are in the file.
    pub fn program_headers(&self) -> Range<u64> {
        let (table, entry) = by(self.image.class, (28, 32), (32, 56));
        let start = self.header_word(table);
        start..start.saturating_add(self.image.segments.len() as u64 * entry)
    }

    /// Where the section headers are in the file; at its end where there are none.
    pub fn section_headers(&self) -> Range<u64> {
        let (table, entry) = by(self.image.class, (32, 40), (40, 64));
        match self.header_word(table) {
            0 => self.image.len..self.image.len,
            start => start..start.saturating_add(self.image.sections.len() as u64 * entry),
        }
    }

    /// The word of the file header at an offset: where a table of headers is.
    fn header_word(&self, at: u64) -> u64 {
        let word = self.image.class.word().bytes();
        let bytes = &self.image.data[at as usize..(at + word) as usize];
        self.image.order.address(bytes).unwrap_or_default()
    }

    /// Writes words into entry `index` of the table of headers whose place stands at `table` in the file header. The
    /// image was read from that table, so that it is there.
    fn set_header_words(&mut self, table: u64, entry: u64, index: usize, field: u64, words: &[u64]) {
        let word = self.image.class.word().bytes();
        let mut at = self.header_word(table) + index as u64 * entry + field;
        for value in words {
            self.put(at, &value.to_le_bytes()[..word as usize]);
            at += word;
        }
    }

    /// Overwrites bytes of the file. Callers have found the place in the file.
    fn put(&mut self, offset: u64, with: &[u8]) {
        let place = offset as usize..offset as usize + with.len();
        self.bytes[place].copy_from_slice(with);
    }
}

fn by<T>(class: Class, narrow: T, wide: T) -> T {
    match class {
        Class::Elf32 => narrow,
        Class::Elf64 => wide,
    }
}

/// What a symbolic relocation of a whole word means; `None` for all others. Source: the processor supplements of the
/// ABI and glibc's `elf_machine_rela` and `elf_machine_rel`.
pub fn formula(machine: Machine, kind: u32) -> Option<Formula> {
    let (with_addend, alone) = match machine {
        EM_X86_64 => (R_X86_64_64.0, R_X86_64_GLOB_DAT.0),
        EM_386 => (R_386_32.0, R_386_GLOB_DAT.0),
        EM_AARCH64 => (R_AARCH64_ABS64.0, R_AARCH64_GLOB_DAT.0),
        EM_ARM => (R_ARM_ABS32.0, R_ARM_GLOB_DAT.0),
        _ => return None,
    };
    match kind {
        kind if kind == with_addend => Some(Formula::SymbolAndAddend),
        // With addends, glibc adds that of R_*_GLOB_DAT too; linkers write 0.
        kind if kind == alone && matches!(machine, EM_X86_64 | EM_AARCH64) => Some(Formula::SymbolAndAddend),
        kind if kind == alone => Some(Formula::Symbol),
        _ => None,
    }
}

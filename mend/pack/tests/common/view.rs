//! Finds the fields of a 64-bit little-endian ELF file, for planting faults into it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

/// A file whose fields can be read and changed.
#[derive(Clone)]
pub struct View {
    pub bytes: Vec<u8>,
}

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;

/// Where a field of a program header lies in it.
#[derive(Clone, Copy)]
pub enum Field {
    Flags = 4,
    Offset = 8,
    Address = 16,
    FileLen = 32,
    MemLen = 40,
    Align = 48,
}

/// A section header that was found.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Where its header lies in the file.
    pub header: usize,
    pub kind: u32,
    pub address: u64,
    pub offset: usize,
    pub len: usize,
}

impl View {
    pub fn new(bytes: &[u8]) -> Self {
        assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "a 64-bit little-endian file");
        Self { bytes: bytes.to_vec() }
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes[at..at + 2].try_into().unwrap())
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub fn set_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    pub fn set_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn set_u64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Adds to a word.
    pub fn add(&mut self, at: usize, value: u64) {
        self.set_u64(at, self.u64(at).wrapping_add(value));
    }

    pub fn xor(&mut self, at: usize, bits: u8) {
        self.bytes[at] ^= bits;
    }

    pub fn flip(&mut self, at: usize) {
        self.xor(at, 0x10);
    }

    pub fn swap(&mut self, one: usize, other: usize, len: usize) {
        for index in 0..len {
            self.bytes.swap(one + index, other + index);
        }
    }

    /// Places of the program headers of a kind in the file.
    pub fn segments(&self, kind: u32) -> Vec<usize> {
        let table = self.u64(32) as usize;
        let all = (0..usize::from(self.u16(56))).map(|index| table + 56 * index);
        all.filter(|at| self.u32(*at) == kind).collect()
    }

    pub fn segment(&self, kind: u32) -> usize {
        *self.segments(kind).first().unwrap_or_else(|| panic!("no program header {kind:#x}"))
    }

    /// Where a field of a segment lies in the file.
    pub fn field(&self, segment: usize, field: Field) -> usize {
        segment + field as usize
    }

    /// The PT_LOAD with these flags.
    pub fn load(&self, flags: u32) -> usize {
        let mut loads = self.segments(PT_LOAD).into_iter();
        loads.find(|at| self.u32(at + 4) == flags).unwrap_or_else(|| panic!("no PT_LOAD with flags {flags}"))
    }

    /// The place in the file of an address.
    pub fn offset(&self, address: u64) -> usize {
        let load = self.segments(PT_LOAD).into_iter().find(|at| {
            let start = self.u64(at + 16);
            start <= address && address < start + self.u64(at + 32)
        });
        let load = load.unwrap_or_else(|| panic!("{address:#x} is not loaded"));
        (address - self.u64(load + 16) + self.u64(load + 8)) as usize
    }

    /// Places of the dynamic table's entries in the file, with the terminator.
    pub fn dynamic(&self) -> Vec<usize> {
        let start = self.offset(self.u64(self.segment(PT_DYNAMIC) + 16));
        let mut entries = vec![start];
        while self.u64(entries[entries.len() - 1]) != 0 {
            entries.push(entries[entries.len() - 1] + 16);
        }
        entries
    }

    /// Place of the entry with a tag.
    pub fn tag(&self, tag: u64) -> Option<usize> {
        self.dynamic().into_iter().find(|at| self.u64(*at) == tag)
    }

    /// Place of the value of a tag.
    pub fn value_place(&self, tag: u64) -> usize {
        self.tag(tag).unwrap_or_else(|| panic!("no dynamic tag {tag:#x}")) + 8
    }

    pub fn value(&self, tag: u64) -> u64 {
        self.u64(self.value_place(tag))
    }

    /// Place of the table that a tag leads to.
    pub fn table(&self, tag: u64) -> usize {
        self.offset(self.value(tag))
    }

    pub fn find_section(&self, name: &str) -> Option<Section> {
        let table = self.u64(40) as usize;
        let section = |index: usize| {
            let header = table + 64 * index;
            Section {
                header,
                kind: self.u32(header + 4),
                address: self.u64(header + 16),
                offset: self.u64(header + 24) as usize,
                len: self.u64(header + 32) as usize,
            }
        };
        let names = section(usize::from(self.u16(62)));
        (0..usize::from(self.u16(60))).map(section).find(|found| {
            let at = names.offset + self.u32(found.header) as usize;
            self.bytes[at..].starts_with(name.as_bytes()) && self.bytes[at + name.len()] == 0
        })
    }

    pub fn section(&self, name: &str) -> Section {
        self.find_section(name).unwrap_or_else(|| panic!("no section {name}"))
    }

    /// Index of a dynamic symbol.
    pub fn symbol(&self, name: &str) -> usize {
        let strings = self.table(5);
        let symbols = self.section(".dynsym");
        let found = (0..symbols.len / 24).find(|index| {
            let at = strings + self.u32(symbols.offset + 24 * index) as usize;
            self.bytes[at..].starts_with(name.as_bytes()) && self.bytes[at + name.len()] == 0
        });
        found.unwrap_or_else(|| panic!("no symbol {name}"))
    }

    /// Place of a dynamic symbol's entry.
    pub fn symbol_place(&self, name: &str) -> usize {
        self.section(".dynsym").offset + 24 * self.symbol(name)
    }

    /// Places of the entries of DT_RELA of a type.
    pub fn relocations(&self, kind: u32) -> Vec<usize> {
        let table = self.table(7);
        let len = self.value(8) as usize;
        (table..table + len).step_by(24).filter(|at| self.u32(at + 8) == kind).collect()
    }

    /// The first auxiliary version need with a name.
    pub fn version_need(&self, name: &str) -> usize {
        let strings = self.table(5);
        let mut need = self.table(0x6fff_fffe);
        loop {
            let mut aux = need + self.u32(need + 8) as usize;
            for _ in 0..self.u16(need + 2) {
                if self.bytes[strings + self.u32(aux + 8) as usize..].starts_with(name.as_bytes()) {
                    return aux;
                }
                aux += self.u32(aux + 12) as usize;
            }
            let next = self.u32(need + 12) as usize;
            assert!(next != 0, "no version need {name}");
            need += next;
        }
    }
}

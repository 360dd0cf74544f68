//! The bytes of a finished file: sections with checksums, columns in them, numbers in these.

use crc32fast::Hasher;
use std::io;

/// First bytes of a finished file.
pub const MAGIC: [u8; 8] = *b"THAWDONE";
/// Version of the format.
pub const VERSION: u32 = 2;
/// Events after which a block ends; at most twice as many are in one.
pub const BLOCK: u32 = 1 << 18;
/// A section is not larger, nor are the columns of a block when they are unpacked.
pub const SECTION_MAX: usize = 1 << 28;
/// Bytes before a section's content: kind, length, checksum.
pub const SECTION_HEAD: usize = 9;

/// What a section is.
pub mod section {
    /// The first: quantum of time, then the first page of the stream.
    pub const HEAD: u8 = 1;
    /// Events.
    pub const BLOCK: u8 = 2;
    /// The last: number of events, warnings.
    pub const END: u8 = 3;
}

/// The columns of a block.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// One byte for each event: [`super::op`].
    Ops,
    /// For each allocation: number of its class, u32.
    Classes,
    /// New classes: size, count, usable - size + 1 (0: unknown), stack + 1 (0: none).
    NewClasses,
    /// For each block that goes, a byte: [`super::predict::gone`].
    Gone,
    /// What these bytes refer to.
    GoneFar,
    /// For each allocation, a byte: [`super::predict::told`].
    Told,
    /// The differences among these.
    Differences,
    /// Quanta of time that have events: number of events, twice, plus one if quanta before it have none; then how many
    /// it is after the last.
    Times,
    /// Runs of events of one thread: how many.
    Runs,
    /// The number of its thread; a new one's tid.
    Threads,
    /// Mappings, alignments, thread names, what is rare.
    Rest,
    /// Stacks of events that are no allocations: stack + 1, u32.
    Stacks,
    /// New nodes of the tree of stacks: how much lower the parent is.
    Parents,
    /// Number of the node's address, relative to that of the last child of the parent's address.
    Children,
    /// New addresses: difference to the last, object + 1.
    Addresses,
    /// New objects, new notes.
    Texts,
}

/// How many there are.
pub const COLUMNS: usize = Column::Texts as usize + 1;

/// How the bytes of a column are stored.
mod stored {
    pub const PLAIN: u8 = 0;
    pub const ZSTD: u8 = 1;
    /// Words of four bytes: all first bytes, all second ones, and so on.
    pub const PLANES: u8 = 2;
}

/// Appends a number, seven bits a byte.
#[inline]
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends bytes and their length.
#[inline]
pub fn put_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

/// Numbers being read; `None` behind their end.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    bytes: Vec<u8>,
    at: usize,
}

impl Numbers {
    /// These bytes, from the first on.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Four bytes.
    pub fn word(&mut self) -> Option<u32> {
        let word = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        word.try_into().ok().map(u32::from_le_bytes)
    }

    /// A number of seven bits a byte.
    pub fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 || shift == 63 && byte & 126 != 0 {
                return None;
            }
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// Bytes with their length before them.
    pub fn text(&mut self) -> Option<&[u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(text)
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// Packs the columns of blocks.
pub struct Packer {
    zstd: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    planes: Vec<u8>,
    /// Whether the last columns of words were smaller in planes.
    better: [Option<u8>; COLUMNS],
    blocks: u32,
}

/// Blocks between two trials of how a column of words is smaller.
const TRIAL: u32 = 8;

impl Packer {
    /// One with a level of zstd.
    pub fn new(level: i32) -> io::Result<Self> {
        let zstd = zstd::bulk::Compressor::new(level)?;
        Ok(Self { zstd, packed: Vec::new(), planes: Vec::new(), better: [None; COLUMNS], blocks: 0 })
    }

    fn zstd(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.zstd.compress_to_buffer(bytes, &mut self.packed)?;
        Ok(&self.packed)
    }

    /// Appends a block's columns, packed, and empties them.
    pub fn pack(&mut self, columns: &mut [Vec<u8>; COLUMNS], out: &mut Vec<u8>) -> io::Result<()> {
        for (index, column) in columns.iter_mut().enumerate() {
            put(out, column.len() as u64);
            if column.is_empty() {
                continue;
            }
            let words = index == Column::Classes as usize || index == Column::Stacks as usize;
            let from = out.len();
            let trial = self.blocks.is_multiple_of(TRIAL);
            let how = if words { self.better[index].filter(|_| !trial) } else { Some(stored::ZSTD) };
            if how != Some(stored::PLANES) {
                let packed = self.zstd(column)?;
                store(out, stored::ZSTD, packed);
            }
            if how != Some(stored::ZSTD) {
                self.planes.clear();
                for plane in 0..4 {
                    self.planes.extend(column.chunks_exact(4).map(|word| word[plane]));
                }
                let planes = std::mem::take(&mut self.planes);
                let smaller = how.is_some() || self.zstd(&planes)?.len() < out.len() - from;
                if how.is_some() {
                    self.zstd(&planes)?;
                }
                self.planes = planes;
                if smaller {
                    out.truncate(from);
                    store(out, stored::PLANES, &self.packed);
                }
                self.better[index] = Some(if smaller { stored::PLANES } else { stored::ZSTD });
            }
            if out.len() - from > column.len() + 8 {
                out.truncate(from);
                store(out, stored::PLAIN, column);
            }
            column.clear();
        }
        self.blocks = self.blocks.wrapping_add(1);
        Ok(())
    }
}

fn store(out: &mut Vec<u8>, how: u8, packed: &[u8]) {
    out.push(how);
    put_bytes(out, packed);
}

/// Unpacks the columns of a block; `None`: they are damaged.
pub fn unpack(block: &mut Numbers) -> Option<[Numbers; COLUMNS]> {
    let mut columns: [Numbers; COLUMNS] = Default::default();
    let mut left = SECTION_MAX;
    for column in &mut columns {
        let length = usize::try_from(block.number()?).ok()?;
        if length == 0 {
            continue;
        }
        left = left.checked_sub(length)?;
        let how = block.byte()?;
        let packed = block.text()?;
        let bytes = match how {
            stored::PLAIN => packed.to_vec(),
            stored::ZSTD => zstd::bulk::decompress(packed, length).ok()?,
            stored::PLANES => {
                let planes = zstd::bulk::decompress(packed, length).ok()?;
                let rows = planes.len() / 4;
                let word =
                    |row: usize| [planes[row], planes[rows + row], planes[2 * rows + row], planes[3 * rows + row]];
                (0..rows).flat_map(word).collect()
            }
            _ => return None,
        };
        if bytes.len() != length {
            return None;
        }
        *column = Numbers::new(bytes);
    }
    block.is_empty().then_some(columns)
}

/// The bytes before a section's content.
pub fn section_head(kind: u8, content: &[u8]) -> [u8; SECTION_HEAD] {
    let mut head = [kind; SECTION_HEAD];
    head[1..5].copy_from_slice(&(content.len() as u32).to_le_bytes());
    head[5..].copy_from_slice(&checksum(kind, content).to_le_bytes());
    head
}

/// The checksum of a section.
pub fn checksum(kind: u8, content: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&[kind]);
    hasher.update(content);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put(&mut bytes, *number >> (number % 64)));
            let mut read = Numbers::new(bytes);
            for number in &numbers {
                prop_assert_eq!(read.number(), Some(*number >> (number % 64)));
            }
            prop_assert!(read.is_empty() && read.number().is_none());
        }

        #[test]
        fn columns_come_back(
            words in prop::collection::vec(0u32..100_000, 0..3000), texts in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut columns: [Vec<u8>; COLUMNS] = Default::default();
            columns[Column::Classes as usize] = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            columns[Column::Texts as usize] = texts.clone();
            let mut packer = Packer::new(1).unwrap();
            for _ in 0..2 {
                let mut out = Vec::new();
                packer.pack(&mut columns.clone(), &mut out).unwrap();
                let mut read = unpack(&mut Numbers::new(out.clone())).unwrap();
                for word in &words {
                    prop_assert_eq!(read[Column::Classes as usize].word(), Some(*word));
                }
                prop_assert_eq!(&read[Column::Texts as usize].bytes, &texts);
                out.pop();
                prop_assert!(unpack(&mut Numbers::new(out)).is_none());
            }
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&mut Numbers::new(bytes));
        }
    }

    #[test]
    fn numbers_that_are_too_large_are_refused() {
        assert_eq!(Numbers::new(vec![255; 10]).number(), None);
        assert_eq!(Numbers::new([vec![255; 9], vec![1]].concat()).number(), Some(u64::MAX));
        assert_eq!(Numbers::new([vec![255; 9], vec![2]].concat()).number(), None);
    }
}

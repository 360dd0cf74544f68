//! Archives made by hand: right ones, and ones that are wrong in one way.

use std::io::Read;

/// An entry on its way into an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    pub content: Vec<u8>,
    pub deflated: bool,
    /// Sizes and checksum behind the data, as programs that write to a pipe do.
    pub descriptor: bool,
    pub extra: Vec<u8>,
    pub comment: Vec<u8>,
    /// Set in both headers.
    pub flags: u16,
    /// Instead of the right one, in both headers.
    pub method: Option<u16>,
    /// Added to the size in the directory alone.
    pub lie: u32,
}

impl Entry {
    pub fn new(name: &str, content: &[u8]) -> Self {
        Self {
            name: name.into(),
            content: content.into(),
            deflated: false,
            descriptor: false,
            extra: Vec::new(),
            comment: Vec::new(),
            flags: 0,
            method: None,
            lie: 0,
        }
    }

    pub fn deflated(self) -> Self {
        Self { deflated: true, ..self }
    }
}

/// The bytes of an archive with the directory at its end.
pub fn archive(entries: &[Entry], comment: &[u8]) -> Vec<u8> {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = bytes.len() as u32;
        let data = if entry.deflated { deflate(&entry.content) } else { entry.content.clone() };
        let flags = entry.flags | if entry.descriptor { 8 } else { 0 };
        let method = entry.method.unwrap_or(if entry.deflated { 8 } else { 0 });
        let sums = [crc32fast::hash(&entry.content), data.len() as u32, entry.content.len() as u32];
        let head = |sums: [u32; 3]| {
            let mut head = Vec::new();
            for half in [20, flags, method, 0x6543, 0x2543] {
                head.extend(u16::to_le_bytes(half));
            }
            sums.iter().for_each(|sum| head.extend(sum.to_le_bytes()));
            head.extend((entry.name.len() as u16).to_le_bytes());
            head.extend((entry.extra.len() as u16).to_le_bytes());
            head
        };
        bytes.extend(b"PK\x03\x04");
        bytes.extend(head(if entry.descriptor { [0; 3] } else { sums }));
        bytes.extend(&entry.name);
        bytes.extend(&entry.extra);
        bytes.extend(&data);
        if entry.descriptor {
            bytes.extend(b"PK\x07\x08");
            sums.iter().for_each(|sum| bytes.extend(sum.to_le_bytes()));
        }
        records.extend(b"PK\x01\x02\x14\x03");
        records.extend(head([sums[0], sums[1], sums[2] + entry.lie]));
        records.extend((entry.comment.len() as u16).to_le_bytes());
        records.extend([0, 0, 1, 0]);
        records.extend((0o100_640_u32 << 16).to_le_bytes());
        records.extend(offset.to_le_bytes());
        records.extend(&entry.name);
        records.extend(&entry.extra);
        records.extend(&entry.comment);
    }
    let start = bytes.len() as u32;
    bytes.extend(&records);
    bytes.extend(end(entries.len() as u16, records.len() as u32, start, comment));
    bytes
}

/// An end record.
pub fn end(count: u16, size: u32, start: u32, comment: &[u8]) -> Vec<u8> {
    let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
    end.extend(count.to_le_bytes());
    end.extend(count.to_le_bytes());
    end.extend(size.to_le_bytes());
    end.extend(start.to_le_bytes());
    end.extend((comment.len() as u16).to_le_bytes());
    end.extend(comment);
    end
}

pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::DeflateEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut out).unwrap();
    out
}

/// Bytes that deflate makes smaller, but not to nothing.
pub fn text(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        b"etaoin shrdlu"[state as usize % 13]
    };
    (0..len).map(|_| next()).collect()
}

//! The bytes on disk, version 1 (docs/entrystore.md): segments, records, footers, the snapshot of the index. Pure: no
//! I/O, and whatever the bytes are, a parser returns something that is checked, or nothing.

use crate::key::Key;
use bytes::Bytes;

/// Bytes of a body under one checksum.
pub const CHUNK: usize = 256 << 10;
/// Bytes before the first record of a segment.
pub const SEGMENT_HEAD: usize = 24;
/// Bytes of a record before its key.
pub const RECORD_HEAD: usize = 72;
/// Bytes of a footer's row.
pub const ROW: usize = 32;
/// Bytes at the end of a sealed segment.
pub const TRAILER: usize = 24;
/// Bytes of a slot of the index.
pub const SLOT: usize = 24;
/// The longest metadata of an entry, bytes.
pub const MOST_META: usize = 1 << 20;

const SEGMENT: u32 = u32::from_le_bytes(*b"TSEG");
const RECORD: u32 = u32::from_le_bytes(*b"TREC");
const FOOTER: u32 = u32::from_le_bytes(*b"TFTR");
const INDEX: u32 = u32::from_le_bytes(*b"TIDX");
const VERSION: u8 = 1;

/// A record's flag: an older record of the same key may lie on disk, so its end must leave a removal behind.
pub const OVERWRITES: u8 = 1;
/// A record's flag: never evicted.
pub const PINNED: u8 = 2;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole entry.
    Put,
    /// New metadata of an entry whose body lies in another record.
    Side,
    /// The entry is gone.
    Remove,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Put, Kind::Side, Kind::Remove].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The head of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is.
    pub kind: Kind,
    /// [`OVERWRITES`] and [`PINNED`].
    pub flags: u8,
    /// The order of all records of a store: of one key the highest counts.
    pub seq: u64,
    /// The group of the entry; 0: none.
    pub group: u64,
    /// Bytes of the body; of a side record, those of the body it points to.
    pub body: u64,
    /// When it was written, seconds since 1970.
    pub time: u32,
    /// Of a side record: segment and offset of the record with the body.
    pub base: (u32, u32),
    /// The whole key.
    pub key: Key,
    /// Metadata.
    pub meta: Bytes,
    /// The checksum of the table of checksums.
    pub table: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

impl Head {
    /// Bytes of the head with key and metadata, which the body follows.
    pub fn head_len(&self) -> u64 {
        (RECORD_HEAD + self.key.bytes().len() + self.meta.len()) as u64
    }

    /// Bytes of the table of checksums behind the body.
    pub fn table_len(&self) -> u64 {
        if self.kind == Kind::Put { 4 * self.body.div_ceil(CHUNK as u64) } else { 0 }
    }

    /// Bytes of the whole record.
    pub fn record_len(&self) -> u64 {
        let body = if self.kind == Kind::Put { self.body } else { 0 };
        self.head_len().saturating_add(body).saturating_add(self.table_len())
    }

    /// The head's bytes, with key and metadata.
    pub fn encode(&self, seed: u64) -> Vec<u8> {
        let key = self.key.bytes();
        let mut out = Vec::with_capacity(self.head_len() as usize);
        out.extend(RECORD.to_le_bytes());
        out.extend([VERSION, self.kind as u8, self.flags, 0]);
        out.extend(self.seq.to_le_bytes());
        out.extend(self.key.hash(seed).to_le_bytes());
        out.extend(self.group.to_le_bytes());
        out.extend(self.body.to_le_bytes());
        out.extend((key.len() as u32).to_le_bytes());
        out.extend((self.meta.len() as u32).to_le_bytes());
        out.extend(self.table.to_le_bytes());
        out.extend(self.time.to_le_bytes());
        out.extend(self.base.0.to_le_bytes());
        out.extend(self.base.1.to_le_bytes());
        out.extend(crc32fast::hash(&self.meta).to_le_bytes());
        let mut check = crc32fast::Hasher::new();
        check.update(&out);
        check.update(key);
        out.extend(check.finalize().to_le_bytes());
        out.extend(key);
        out.extend(&self.meta);
        out
    }
}

/// How many bytes of a record [`head`] needs, by its first [`RECORD_HEAD`] bytes; `None`: no record begins here.
pub fn head_len(bytes: &[u8]) -> Option<usize> {
    let (key, meta) = (u32_at(bytes, 40)? as usize, u32_at(bytes, 44)? as usize);
    let good = u32_at(bytes, 0)? == RECORD && bytes[4] == VERSION && key <= Key::MOST && meta <= MOST_META;
    good.then_some(RECORD_HEAD + key + meta)
}

/// The head of the record that begins with `bytes`, checked against both of its checksums and the hash of its key.
pub fn head(bytes: &Bytes, seed: u64) -> Option<Head> {
    let len = head_len(bytes)?;
    let key_len = u32_at(bytes, 40)? as usize;
    let key = bytes.get(RECORD_HEAD..RECORD_HEAD + key_len)?;
    bytes.get(..len)?;
    let mut check = crc32fast::Hasher::new();
    check.update(&bytes[..68]);
    check.update(key);
    let meta = bytes.slice(RECORD_HEAD + key_len..len);
    if check.finalize() != u32_at(bytes, 68)? || crc32fast::hash(&meta) != u32_at(bytes, 64)? {
        return None;
    }
    let key = Key::parse(key)?;
    let kind = Kind::of(bytes[5])?;
    let head = Head {
        kind,
        flags: bytes[6],
        seq: u64_at(bytes, 8)?,
        group: u64_at(bytes, 24)?,
        body: u64_at(bytes, 32)?,
        time: u32_at(bytes, 52)?,
        base: (u32_at(bytes, 56)?, u32_at(bytes, 60)?),
        meta,
        table: u32_at(bytes, 48)?,
        key,
    };
    (head.key.hash(seed) == u64_at(bytes, 16)?).then_some(head)
}

/// The table of checksums of a body that comes in parts.
#[derive(Default)]
pub struct Sums {
    out: Vec<u8>,
    check: crc32fast::Hasher,
    filled: usize,
}

impl Sums {
    /// The next part.
    pub fn add(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            let (now, rest) = part.split_at(part.len().min(CHUNK - self.filled));
            self.check.update(now);
            self.filled += now.len();
            part = rest;
            if self.filled == CHUNK {
                self.out.extend(std::mem::take(&mut self.check).finalize().to_le_bytes());
                self.filled = 0;
            }
        }
    }

    /// The table of all parts.
    pub fn table(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.out.extend(self.check.finalize().to_le_bytes());
        }
        self.out
    }
}

/// The checksums of a body, one for each [`CHUNK`], as they stand behind it.
pub fn table<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> Vec<u8> {
    let mut sums = Sums::default();
    parts.into_iter().for_each(|part| sums.add(part));
    sums.table()
}

/// The checksum that [`Head::table`] holds of a table.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Whether the chunk of this number is what the table says.
pub fn chunk_is_right(table: &[u8], number: usize, chunk: &[u8]) -> bool {
    number.checked_mul(4).and_then(|at| u32_at(table, at)) == Some(crc32fast::hash(chunk))
}

/// The whole record that `bytes` begin with: head and body, all checked.
pub fn record(bytes: &Bytes, seed: u64) -> Option<(Head, Bytes)> {
    let head = head(bytes, seed)?;
    if head.kind != Kind::Put {
        return Some((head, Bytes::new()));
    }
    let begin = head.head_len() as usize;
    let end = begin.checked_add(usize::try_from(head.body).ok()?)?;
    let sums = bytes.get(end..end.checked_add(head.table_len() as usize)?)?;
    let body = bytes.slice(begin..end);
    let right = crc32fast::hash(sums) == head.table
        && body.chunks(CHUNK).enumerate().all(|(number, chunk)| chunk_is_right(sums, number, chunk));
    right.then_some((head, body))
}

/// The first bytes of a segment.
pub fn segment_head(number: u32, seed: u64) -> [u8; SEGMENT_HEAD] {
    let mut out = [0; SEGMENT_HEAD];
    out[..4].copy_from_slice(&SEGMENT.to_le_bytes());
    out[4] = VERSION;
    out[8..12].copy_from_slice(&number.to_le_bytes());
    out[12..20].copy_from_slice(&seed.to_le_bytes());
    let check = crc32fast::hash(&out[..20]);
    out[20..].copy_from_slice(&check.to_le_bytes());
    out
}

/// The seed of the segment of this number that begins with `bytes`.
pub fn segment_seed(bytes: &[u8], number: u32) -> Option<u64> {
    let bytes = bytes.get(..SEGMENT_HEAD)?;
    let right = u32_at(bytes, 0)? == SEGMENT
        && bytes[4] == VERSION
        && u32_at(bytes, 8)? == number
        && u32_at(bytes, 20)? == crc32fast::hash(&bytes[..20]);
    if right { u64_at(bytes, 12) } else { None }
}

/// A row of a footer: one record of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Hash of the key.
    pub hash: u64,
    /// As in the record.
    pub seq: u64,
    /// Where in the segment it begins.
    pub offset: u32,
    /// Its bytes, at most `u32::MAX`.
    pub size: u32,
    /// What it is.
    pub kind: Kind,
    /// Flags of the record.
    pub flags: u8,
    /// The tag of its partition.
    pub partition: u16,
    /// Seconds since 1970.
    pub time: u32,
}

/// The footer of a segment whose records end at `at`.
pub fn footer(rows: &[Row], at: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len() * ROW + TRAILER);
    for row in rows {
        out.extend(row.hash.to_le_bytes());
        out.extend(row.seq.to_le_bytes());
        out.extend(row.offset.to_le_bytes());
        out.extend(row.size.to_le_bytes());
        out.extend([row.kind as u8, row.flags]);
        out.extend(row.partition.to_le_bytes());
        out.extend(row.time.to_le_bytes());
    }
    let rows_check = crc32fast::hash(&out);
    let begin = out.len();
    out.extend(FOOTER.to_le_bytes());
    out.extend((rows.len() as u32).to_le_bytes());
    out.extend(rows_check.to_le_bytes());
    out.extend(at.to_le_bytes());
    let check = crc32fast::hash(&out[begin..]);
    out.extend(check.to_le_bytes());
    out
}

/// Where the rows of a sealed segment begin, and their number, by the last [`TRAILER`] bytes of a file of `len` bytes.
pub fn trailer(bytes: &[u8], len: u64) -> Option<(u64, usize)> {
    let (rows, at) = (u32_at(bytes, 4)? as usize, u64_at(bytes, 12)?);
    let right = u32_at(bytes, 0)? == FOOTER && u32_at(bytes, 20)? == crc32fast::hash(&bytes[..20]);
    let fits = at.checked_add((rows * ROW + TRAILER) as u64) == Some(len) && at >= SEGMENT_HEAD as u64;
    (right && fits).then_some((at, rows))
}

/// The rows of a footer, by its bytes, the trailer among them.
pub fn rows(bytes: &[u8]) -> Option<Vec<Row>> {
    let split = bytes.len().checked_sub(TRAILER)?;
    let (table, end) = bytes.split_at(split);
    if table.len() % ROW != 0 || u32_at(end, 8)? != crc32fast::hash(table) {
        return None;
    }
    let row = |row: &[u8]| {
        Some(Row {
            hash: u64_at(row, 0)?,
            seq: u64_at(row, 8)?,
            offset: u32_at(row, 16)?,
            size: u32_at(row, 20)?,
            kind: Kind::of(row[24])?,
            flags: row[25],
            partition: u16::from_le_bytes([row[26], row[27]]),
            time: u32_at(row, 28)?,
        })
    };
    table.chunks_exact(ROW).map(row).collect()
}

/// What the snapshot of an index says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The seed of all hashes.
    pub seed: u64,
    /// The next record's number.
    pub seq: u64,
    /// Segments, and how many bytes of each the snapshot knows.
    pub segments: Vec<(u32, u64)>,
    /// The slots in use, as the index lays them out.
    pub slots: Vec<[u8; SLOT]>,
}

impl Snapshot {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(36 + self.segments.len() * 12 + self.slots.len() * SLOT);
        out.extend(INDEX.to_le_bytes());
        out.extend(u32::from(VERSION).to_le_bytes());
        out.extend(self.seed.to_le_bytes());
        out.extend(self.seq.to_le_bytes());
        out.extend((self.segments.len() as u32).to_le_bytes());
        out.extend((self.slots.len() as u32).to_le_bytes());
        for (number, known) in &self.segments {
            out.extend(number.to_le_bytes());
            out.extend(known.to_le_bytes());
        }
        out.extend(self.slots.iter().flatten());
        let check = crc32fast::hash(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// What `bytes` say, if they are whole.
    pub fn parse(bytes: &[u8]) -> Option<Snapshot> {
        let split = bytes.len().checked_sub(4)?;
        let (bytes, check) = bytes.split_at(split);
        let (segments, slots) = (u32_at(bytes, 24)? as usize, u32_at(bytes, 28)? as usize);
        let right = u32_at(bytes, 0)? == INDEX
            && u32_at(bytes, 4)? == u32::from(VERSION)
            && bytes.len() == 32 + segments * 12 + slots * SLOT
            && u32_at(check, 0)? == crc32fast::hash(bytes);
        if !right {
            return None;
        }
        let (rows, table) = bytes[32..].split_at(segments * 12);
        let row = |row: &[u8]| Some((u32_at(row, 0)?, u64_at(row, 4)?));
        Some(Snapshot {
            seed: u64_at(bytes, 8)?,
            seq: u64_at(bytes, 16)?,
            segments: rows.chunks_exact(12).map(row).collect::<Option<_>>()?,
            slots: table.as_chunks::<SLOT>().0.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(body: &[u8], meta: &[u8], kind: Kind) -> (Head, Vec<u8>) {
        let sums = table(body.chunks(1000));
        let head = Head {
            kind,
            flags: OVERWRITES,
            seq: 77,
            group: 5,
            body: body.len() as u64,
            time: 1_700_000_000,
            base: (3, 24),
            key: Key::new(b"site", b"name").unwrap(),
            meta: Bytes::copy_from_slice(meta),
            table: checksum(&sums),
        };
        let mut bytes = head.encode(9);
        if kind == Kind::Put {
            bytes.extend(body);
            bytes.extend(sums);
        }
        assert_eq!(bytes.len() as u64, head.record_len());
        (head, bytes)
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(len)
        .collect()
    }

    #[test]
    fn records_of_all_kinds_and_sizes_come_back() {
        for len in [0, 1, 16_384, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let body = noise(len);
            let (head, mut bytes) = sample(&body, b"meta", Kind::Put);
            bytes.extend(b"what follows");
            assert_eq!(record(&bytes.into(), 9), Some((head, body.into())));
        }
        for kind in [Kind::Side, Kind::Remove] {
            let (head, bytes) = sample(b"body of another record", b"meta", kind);
            assert_eq!(record(&bytes.into(), 9), Some((head, Bytes::new())));
        }
    }

    #[test]
    fn no_changed_bit_and_no_cut_passes() {
        let (_, bytes) = sample(&noise(300), b"some metadata", Kind::Put);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(record(&bytes.into(), 9), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(record(&Bytes::copy_from_slice(&bytes[..len]), 9), None, "cut at {len}");
        }
        assert_eq!(record(&bytes.into(), 8), None, "of a store of another seed");
    }

    #[test]
    fn a_zeroed_chunk_in_the_middle_does_not_pass() {
        let (head, mut bytes) = sample(&noise(3 * CHUNK), b"", Kind::Put);
        let at = head.head_len() as usize + CHUNK;
        bytes[at..at + 4096].fill(0);
        assert_eq!(record(&bytes.into(), 9), None);
    }

    #[test]
    fn a_footer_is_found_from_the_end_of_its_file() {
        let row = |number: u32| Row {
            hash: u64::from(number) << 40,
            seq: number.into(),
            offset: number,
            size: 9,
            kind: Kind::Side,
            flags: PINNED,
            partition: 4,
            time: 5,
        };
        for count in [0, 1, 500] {
            let all: Vec<Row> = (0..count).map(row).collect();
            let bytes = footer(&all, 1000);
            let len = 1000 + bytes.len() as u64;
            assert_eq!(trailer(&bytes[bytes.len() - TRAILER..], len), Some((1000, all.len())));
            assert_eq!(trailer(&bytes[bytes.len() - TRAILER..], len + 1), None, "more was written behind it");
            assert_eq!(rows(&bytes), Some(all));
            for at in 0..bytes.len() - TRAILER {
                let mut bytes = bytes.clone();
                bytes[at] ^= 4;
                assert_eq!(rows(&bytes), None, "byte {at}");
            }
        }
    }

    #[test]
    fn snapshots_and_segment_heads_are_whole_or_nothing() {
        let one = Snapshot { seed: 1, seq: 2, segments: vec![(1, 2), (3, 4)], slots: vec![[7; SLOT]; 3] };
        let bytes = one.encode();
        assert_eq!(Snapshot::parse(&bytes), Some(one));
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(Snapshot::parse(&bytes).is_none() && Snapshot::parse(&bytes[..at]).is_none(), "byte {at}");
        }
        let head = segment_head(12, 34);
        assert_eq!((segment_seed(&head, 12), segment_seed(&head, 13)), (Some(34), None));
        (0..SEGMENT_HEAD).for_each(|len| assert_eq!(segment_seed(&head[..len], 12), None));
    }
}

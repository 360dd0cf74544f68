//! The version need GLIBC_ABI_DT_RELR, by which a glibc that does not know DT_RELR refuses a file instead of running it
//! with words that nobody relocated, and without which a newer one refuses it too.

use crate::dynamic::Dynamic;
use crate::image::{Image, part, set_bytes, text_at, u16_at, u32_at};
use crate::report::Reason;
use crate::stop::{Stop, refuse};
use object::elf::{DT_STRSZ, DT_STRTAB, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM};

/// The name of the need.
pub const NAME: &[u8] = b"GLIBC_ABI_DT_RELR";

/// Length of a record, and of the entries of a record.
const RECORD: u64 = 16;

/// Highest version index; the bit above hides a symbol.
const MAX_INDEX: u16 = 0x7fff;

/// What to change so that a file needs [`NAME`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The whole new table.
    pub table: Vec<u8>,
    /// How many records the new table has (DT_VERNEEDNUM).
    pub records: u64,
    /// What is appended to the string table.
    pub strings: Vec<u8>,
    /// A new record for libc had to be made.
    pub new_record: bool,
}

/// Whether a file needs [`NAME`] of libc, and how to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The file needs it already.
    Has,
    /// glibc does not ask for it here: there are no version needs, or no libc.
    NotAsked,
    /// It does not, and this makes it.
    Lacks(Need),
}

/// The length of the table of version needs (DT_VERNEED), or of version definitions (DT_VERDEF): to the end of its last
/// record or entry.
pub fn table_len(image: &Image<'_>, dynamic: &Dynamic, kind: Kind) -> Option<u64> {
    Some(walk(image, dynamic, kind)?.1)
}

/// Which table of versions: what the file needs of others, or what it defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Need,
    Definition,
}

/// A record of version needs, or of a definition.
struct Record {
    at: u64,
    /// Name of the file in the string table (needs only).
    file: u32,
    /// Index of the version (definitions only).
    index: u16,
    entries: Vec<Entry>,
}

struct Entry {
    at: u64,
    name: u32,
    /// Index of the version (needs only).
    index: u16,
}

/// All records, and the length of the table. `None` where there is no table, or it leaves its segment.
fn walk(image: &Image<'_>, dynamic: &Dynamic, kind: Kind) -> Option<(Vec<Record>, u64)> {
    let (table, number) = match kind {
        Kind::Need => (DT_VERNEED, DT_VERNEEDNUM),
        Kind::Definition => (DT_VERDEF, DT_VERDEFNUM),
    };
    let (vaddr, count) = dynamic.get(table).zip(dynamic.get(number))?;
    let raw = image.from(vaddr)?;
    // A record of a definition has four more bytes in front of its two last fields; its entries have eight.
    let (record_len, entry_len, first_entry) = match kind {
        Kind::Need => (RECORD, RECORD, 8),
        Kind::Definition => (20, 8, 12),
    };
    let (mut records, mut at, mut end) = (Vec::new(), 0_u64, 0);
    // Hostile records could share their entries; no table has more entries than bytes.
    let mut budget = raw.len();
    for left in (0..count.min(raw.len() as u64)).rev() {
        part(raw, at, record_len)?;
        end = end.max(at + record_len);
        let (entries, index) = match kind {
            Kind::Need => (u16_at(raw, at + 2)?, 0),
            Kind::Definition => (u16_at(raw, at + 6)?, u16_at(raw, at + 4)?),
        };
        let mut record = Record { at, file: u32_at(raw, at + 4)?, index, entries: Vec::new() };
        let mut entry = at.checked_add(u64::from(u32_at(raw, at + first_entry)?))?;
        for left in (0..entries).rev() {
            budget = budget.checked_sub(1)?;
            part(raw, entry, entry_len)?;
            end = end.max(entry + entry_len);
            let (name, index, next) = match kind {
                Kind::Need => (u32_at(raw, entry + 8)?, u16_at(raw, entry + 6)?, u32_at(raw, entry + 12)?),
                Kind::Definition => (u32_at(raw, entry)?, 0, u32_at(raw, entry + 4)?),
            };
            record.entries.push(Entry { at: entry, name, index });
            match next {
                0 if left == 0 => {}
                0 => return None,
                next => entry = entry.checked_add(u64::from(next))?,
            }
        }
        let next = u32_at(raw, at + first_entry + 4)?;
        records.push(record);
        match next {
            0 if left == 0 => {}
            0 => return None,
            next => at = at.checked_add(u64::from(next))?,
        }
    }
    Some((records, end))
}

/// Whether the file needs [`NAME`].
pub fn needs(image: &Image<'_>, dynamic: &Dynamic) -> Result<Needs, Stop> {
    let libc = dynamic.needed.iter().find(|(name, _)| name.starts_with(b"libc.so."));
    let (Some((_, libc_at)), Some(vaddr)) = (libc, dynamic.get(DT_VERNEED)) else { return Ok(Needs::NotAsked) };
    let damaged = || refuse(Reason::Damaged, "its table of version needs cannot be right");
    let (records, len) = walk(image, dynamic, Kind::Need).ok_or_else(damaged)?;
    let strings = dynamic.get(DT_STRTAB).zip(dynamic.get(DT_STRSZ)).and_then(|(at, len)| image.at(at, len));
    let strings = strings.ok_or_else(damaged)?;
    let text = |at: u32| text_at(strings, at.into()).unwrap_or_default();
    if records.iter().flat_map(|record| &record.entries).any(|entry| text(entry.name) == NAME) {
        return Ok(Needs::Has);
    }

    let defined = dynamic.get(DT_VERDEF).is_some();
    let definitions = walk(image, dynamic, Kind::Definition).map(|(records, _)| records);
    if defined && definitions.is_none() {
        return Err(refuse(Reason::Damaged, "its table of version definitions cannot be right"));
    }
    let needed = records.iter().flat_map(|record| &record.entries).map(|entry| entry.index & MAX_INDEX);
    let defined = definitions.iter().flatten().map(|record| record.index & MAX_INDEX);
    // 0 and 1 mean "local" and "without version".
    let index = needed.chain(defined).max().unwrap_or(1).max(1) + 1;
    if index > MAX_INDEX {
        return Err(refuse(Reason::Damaged, "its version needs use up all numbers"));
    }

    let name_at = u32::try_from(strings.len()).map_err(|_| damaged())?;
    let mut table = image.at(vaddr, len).ok_or_else(damaged)?.to_vec();
    let grown = |at: u64, from: u64| u32::try_from(at - from).map_err(|_| damaged());
    let mut set = |at: u64, value: &[u8]| if set_bytes(&mut table, at, value) { Ok(()) } else { Err(damaged()) };
    let record = records.iter().find(|record| text(record.file).starts_with(b"libc.so."));
    // Records and entries are chained by distances forward, so that the end of the table is as good a place as any.
    let end = len.next_multiple_of(4);
    let mut tail = Vec::new();
    match record {
        Some(record) => {
            let count = u16::try_from(record.entries.len() + 1).map_err(|_| damaged())?;
            set(record.at + 2, &count.to_le_bytes())?;
            match record.entries.last() {
                Some(last) => set(last.at + 12, &grown(end, last.at)?.to_le_bytes())?,
                None => set(record.at + 8, &grown(end, record.at)?.to_le_bytes())?,
            }
        }
        None => {
            let last = records.last().ok_or_else(damaged)?;
            set(last.at + 12, &grown(end, last.at)?.to_le_bytes())?;
            tail.extend(1_u16.to_le_bytes());
            tail.extend(1_u16.to_le_bytes());
            tail.extend(u32::try_from(*libc_at).map_err(|_| damaged())?.to_le_bytes());
            tail.extend((RECORD as u32).to_le_bytes());
            tail.extend(0_u32.to_le_bytes());
        }
    }
    tail.extend(hash(NAME).to_le_bytes());
    tail.extend(0_u16.to_le_bytes());
    tail.extend(index.to_le_bytes());
    tail.extend(name_at.to_le_bytes());
    tail.extend(0_u32.to_le_bytes());
    table.resize(end as usize, 0);
    table.extend(tail);
    let mut appended = NAME.to_vec();
    appended.push(0);
    Ok(Needs::Lacks(Need {
        table,
        records: records.len() as u64 + u64::from(record.is_none()),
        strings: appended,
        new_record: record.is_none(),
    }))
}

/// The System V hash of a name. Source: gABI, "Hash Table".
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_the_loader_hashes_them() {
        // As `readelf -V` and glibc's sources have them.
        assert_eq!(hash(b"GLIBC_2.2.5"), 0x0969_1a75);
        assert_eq!(hash(NAME), 0x0fd_0e42);
    }
}

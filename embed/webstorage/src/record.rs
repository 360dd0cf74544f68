//! What is in the records of a file: changes of keys, one batch in one record. Pure. The bytes: `docs/webstorage.md`.

use crate::map::{Bytes, Map};
use crate::text::{self, Text};

/// Whose files they are.
pub const KIND: [u8; 4] = *b"WEBS";
/// What a record begins with: the version of this form.
pub const VERSION: u8 = 1;
/// The longest key and the longest value, in bytes as they are kept: both go into one record with others.
pub const LONGEST: usize = 64 << 20;
const SET: u8 = 1;
const REMOVE: u8 = 2;
const ANEW: u8 = 3;
const CLEAR: u8 = 4;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value. If it is there it keeps its place, else it is the last.
    Set(&'a [u8], &'a [u8]),
    /// The key is gone.
    Remove(&'a [u8]),
    /// The key has this value and is the last: it was gone in between, or is new.
    Anew(&'a [u8], &'a [u8]),
    /// All keys are gone.
    Clear,
}

/// Appends a change to a record. One that is empty gets its beginning first.
pub fn write(out: &mut Vec<u8>, change: Change<'_>) {
    if out.is_empty() {
        out.push(VERSION);
    }
    match change {
        Change::Set(key, value) | Change::Anew(key, value) => {
            let kind = if matches!(change, Change::Set(..)) { SET } else { ANEW };
            out.push(kind);
            part(out, key);
            part(out, value);
        }
        Change::Remove(key) => {
            out.push(REMOVE);
            part(out, key);
        }
        Change::Clear => out.push(CLEAR),
    }
}

fn part(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// Bytes that a key and its value take in a file.
pub fn size(key: &[u8], value: &[u8]) -> u64 {
    (9 + key.len() + value.len()) as u64
}

/// Reads the changes of a record. `None`: it is none of this version, or of an area where a table's is wanted, or the
/// other way round.
pub fn parse(mut bytes: &[u8], table: bool) -> Option<Vec<Change<'_>>> {
    fn take<'a>(bytes: &mut &'a [u8], table: bool) -> Option<&'a [u8]> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        *bytes = rest;
        text::is_valid(part, table).then_some(part)
    }
    let (first, rest) = bytes.split_first()?;
    (*first == VERSION).then_some(())?;
    bytes = rest;
    let mut changes = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        bytes = rest;
        changes.push(match *kind {
            SET => Change::Set(take(&mut bytes, table)?, take(&mut bytes, table)?),
            REMOVE => Change::Remove(take(&mut bytes, table)?),
            ANEW => Change::Anew(take(&mut bytes, table)?, take(&mut bytes, table)?),
            CLEAR => Change::Clear,
            _ => return None,
        });
    }
    Some(changes)
}

/// Makes a change to a map.
pub fn apply(map: &mut Map<Bytes>, change: Change<'_>) {
    match change {
        Change::Set(key, value) => match map.get_mut(key) {
            Some(old) => *old = value.into(),
            None => drop(map.set(&key.into(), value.into())),
        },
        Change::Remove(key) => drop(map.remove(key)),
        Change::Anew(key, value) => {
            map.remove(key);
            map.set(&key.into(), value.into());
        }
        Change::Clear => *map = Map::default(),
    }
}

/// What records come to, one after the other: keys and values in order, and how many of the records are none of this
/// version.
pub fn replayed<'a>(records: impl Iterator<Item = &'a [u8]>, table: bool) -> (Vec<(Text, Text)>, u64) {
    let (mut map, mut unread) = (Map::default(), 0);
    for record in records {
        match parse(record, table) {
            Some(changes) => changes.into_iter().for_each(|change| apply(&mut map, change)),
            None => unread += 1,
        }
    }
    (map.iter().map(|(key, value)| (Text(key.clone()), Text(value.clone()))).collect(), unread)
}

/// All of a map in records of about this many bytes each.
pub fn snapshot<'a>(all: impl Iterator<Item = (&'a Bytes, &'a Bytes)>, most: usize) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    for (key, value) in all {
        if !record.is_empty() && record.len() as u64 + size(key, value) > most as u64 {
            records.push(std::mem::take(&mut record));
        }
        write(&mut record, Change::Set(key, value));
    }
    records.extend((!record.is_empty()).then_some(record));
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHANGES: [Change<'static>; 4] = [
        Change::Clear,
        Change::Set(b"\0key", b"\0value"),
        Change::Anew(b"\x01\0\x01", b"\0"),
        Change::Remove(b"\0other"),
    ];

    #[test]
    fn changes_come_back_and_every_cut_is_no_record_or_fewer_changes() {
        let (mut bytes, mut ends) = (Vec::new(), vec![1]);
        for change in CHANGES {
            write(&mut bytes, change);
            ends.push(bytes.len());
        }
        assert_eq!(parse(&bytes, false).unwrap(), CHANGES);
        for len in 0..bytes.len() {
            let whole = ends.iter().position(|end| *end == len);
            assert_eq!(parse(&bytes[..len], false), whole.map(|count| CHANGES[..count].to_vec()), "{len}");
        }
        assert_eq!(parse(&bytes, true), None, "an area's record is no table's");
        bytes[0] = 2;
        assert_eq!(parse(&bytes, false), None, "of a later version");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            table: bool,
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Some(changes) = parse(&bytes, table) {
                let mut again = vec![VERSION];
                changes.into_iter().for_each(|change| write(&mut again, change));
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn a_snapshot_is_cut_into_records_and_replays_in_order() {
        let mut map = Map::default();
        for number in 0..1000_u32 {
            let key = [&[0], number.to_string().as_bytes()].concat();
            map.set(&Bytes::from(key), Bytes::from([0; 90].as_slice()));
        }
        let records = snapshot(map.iter(), 4096);
        assert!(records.len() > 20 && records.iter().all(|record| record.len() <= 4096));
        let mut again = Map::default();
        for record in &records {
            parse(record, false).unwrap().into_iter().for_each(|change| apply(&mut again, change));
        }
        assert!(map.iter().eq(again.iter()));
    }
}

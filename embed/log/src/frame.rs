//! The records of a file: each numbered, and checked by itself. Pure. The bytes: `docs/log.md`.
//!
//! What a record holds is not ours: a web page chooses its values. So that bytes in it are never taken for a record,
//! when one before them is damaged, all sums of a file begin from a number that no page knows: the salt in its head.

use std::ops::Range;

/// What a record begins with.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLOG");
/// Bytes before a record's content.
pub const HEAD: usize = 24;
/// Bytes of the first record's content before the label.
pub const FIXED: usize = 28;
/// Where the salt lies among them.
pub const SALT: Range<usize> = 24..28;
/// The longest content.
pub const LONGEST: usize = 256 << 20;
/// The version of the format, in the first record of each file.
pub const VERSION: u16 = 1;

/// What the first record of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which store's file it is: four letters.
    pub kind: [u8; 4],
    /// How often the file has been written anew.
    pub generation: u64,
    /// When that was, in milliseconds since 1970.
    pub made_ms: u64,
    /// From which the sums of all other records of the file begin.
    pub salt: u32,
    /// What the store wants to be known of the file before all else: an origin, a program's version.
    pub label: Vec<u8>,
}

impl Head {
    /// The content of the first record.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + self.label.len());
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.kind);
        out.extend(self.generation.to_le_bytes());
        out.extend(self.made_ms.to_le_bytes());
        out.extend(self.salt.to_le_bytes());
        out.extend(&self.label);
        out
    }

    /// Reads that. `None`: it is none of this version.
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let (fixed, label) = bytes.split_at_checked(FIXED)?;
        let number = |at: usize| Some(u64::from_le_bytes(fixed.get(at..at + 8)?.try_into().ok()?));
        (fixed[..2] == VERSION.to_le_bytes()).then_some(())?;
        let (kind, salt) = (fixed[4..8].try_into().ok()?, u32::from_le_bytes(fixed[SALT].try_into().ok()?));
        Some(Head { kind, generation: number(8)?, made_ms: number(16)?, salt, label: label.to_vec() })
    }
}

/// Appends a record to `out`. The first one of a file has the salt 0.
pub fn write(out: &mut Vec<u8>, salt: u32, number: u64, content: &[u8]) {
    debug_assert!(content.len() <= LONGEST);
    let from = out.len();
    out.extend(MAGIC.to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(number.to_le_bytes());
    let head = checksum(salt, &out[from..]);
    out.extend(head.to_le_bytes());
    out.extend(checksum(head, content).to_le_bytes());
    out.extend(content);
}

fn checksum(from: u32, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new_with_initial(from);
    sum.update(bytes);
    sum.finalize()
}

/// A record among bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number.
    pub number: u64,
    /// Where its content lies.
    pub content: Range<usize>,
}

impl Frame {
    /// Where it begins.
    pub fn from(&self) -> usize {
        self.content.start - HEAD
    }
}

/// The length of the record that these bytes begin with, if they do; nothing of it is checked.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let len = bytes.get(..HEAD)?.get(4..8)?.try_into().ok().map(u32::from_le_bytes)? as usize;
    (bytes.starts_with(&MAGIC.to_le_bytes()) && len <= LONGEST).then_some(HEAD + len)
}

/// The record that begins at `at`, if it is whole and right.
pub fn at(bytes: &[u8], at: usize, salt: u32) -> Option<Frame> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?;
    let word = |from: usize| u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
    let len = word(4) as usize;
    if word(0) != MAGIC || len > LONGEST || checksum(salt, &head[..16]) != word(16) {
        return None;
    }
    let content = at + HEAD..(at + HEAD).checked_add(len)?;
    let number = u64::from_le_bytes(head[8..16].try_into().ok()?);
    (checksum(word(16), bytes.get(content.clone())?) == word(20)).then_some(Frame { number, content })
}

/// Reads a whole file: its head, and all records with it. `None`: it does not begin with a head of this version.
pub fn open(bytes: &[u8]) -> Option<(Head, Found)> {
    let first = at(bytes, 0, 0).filter(|first| first.number == 0)?;
    let head = Head::read(&bytes[first.content.clone()])?;
    let mut found = scan(bytes, first.content.end, 1, head.salt);
    found.frames.insert(0, first);
    found.prefix += 1;
    Some((head, found))
}

/// What was found among bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All that is readable, in the order of the bytes.
    pub frames: Vec<Frame>,
    /// How many of these follow one another without a gap from the first byte on.
    pub prefix: usize,
    /// The bytes of that prefix.
    pub len: usize,
    /// Bytes that are no record, though records lie behind them.
    pub damage: Vec<Range<usize>>,
}

impl Found {
    /// Of so many bytes, those at the end that are no record: what was being written when the power failed, most
    /// likely.
    pub fn torn(&self, len: usize) -> usize {
        len - self.frames.last().map_or(self.len, |last| last.content.end)
    }
}

/// Reads records from `here` on, of which the first has the number `next`. Behind damage it looks for one more.
pub fn scan(bytes: &[u8], mut here: usize, mut next: u64, salt: u32) -> Found {
    let mut found = Found { len: here, ..Found::default() };
    let mut whole = true;
    while here < bytes.len() {
        let frame =
            at(bytes, here, salt).filter(|frame| if whole { frame.number == next } else { frame.number >= next });
        if let Some(frame) = frame {
            (here, next) = (frame.content.end, frame.number.saturating_add(1));
            found.frames.push(frame);
            if whole {
                (found.prefix, found.len) = (found.frames.len(), here);
            }
            continue;
        }
        whole = false;
        // A number can be wrong only of a record that was put there by something else.
        match (here + 1..bytes.len()).find(|from| {
            bytes[*from..].starts_with(&MAGIC.to_le_bytes())
                && at(bytes, *from, salt).is_some_and(|frame| frame.number >= next)
        }) {
            Some(from) => {
                found.damage.push(here..from);
                here = from;
            }
            None => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u32 = 0x5EED;

    fn three() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for (number, content) in [(5, &b"one"[..]), (6, b""), (7, b"TLOGTLOG and three")] {
            write(&mut bytes, SALT, number, content);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn what_was_written_is_found() {
        let (bytes, _) = three();
        let found = scan(&bytes, 0, 5, SALT);
        let contents: Vec<&[u8]> = found.frames.iter().map(|frame| &bytes[frame.content.clone()]).collect();
        assert_eq!(contents, [&b"one"[..], b"", b"TLOGTLOG and three"]);
        assert_eq!((found.prefix, found.len, found.torn(bytes.len())), (3, bytes.len(), 0));
        assert_eq!(scan(&bytes, 0, 4, SALT).prefix, 0);
    }

    #[test]
    fn every_cut_keeps_the_prefix() {
        let (bytes, ends) = three();
        for len in 0..bytes.len() {
            let found = scan(&bytes[..len], 0, 5, SALT);
            let whole = ends.iter().filter(|end| **end <= len).count() - 1;
            assert_eq!((found.prefix, found.frames.len(), found.len), (whole, whole, ends[whole]), "{len}");
            assert!(found.damage.is_empty() && found.torn(len) == len - ends[whole]);
        }
    }

    #[test]
    fn every_flipped_bit_costs_one_record() {
        let (bytes, ends) = three();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let hit = ends.iter().filter(|end| **end <= bit / 8).count() - 1;
            let found = scan(&wrong, 0, 5, SALT);
            assert_eq!((found.prefix, found.frames.len(), found.len), (hit, 2, ends[hit]), "bit {bit}");
            assert_eq!(found.damage.len(), usize::from(hit < 2));
        }
    }

    #[test]
    fn heads_are_read_back_and_others_refused() {
        let head =
            Head { kind: *b"WEBS", generation: 7, made_ms: 1 << 41, salt: SALT, label: b"https://a.example".to_vec() };
        assert_eq!(Head::read(&head.bytes()), Some(head.clone()));
        let mut other = head.bytes();
        other[0] = 9;
        assert!(Head::read(&other).is_none() && Head::read(&head.bytes()[..27]).is_none());
    }

    #[test]
    fn a_record_inside_a_value_is_never_taken_for_one() {
        let (mut forged, mut bytes) = (Vec::new(), Vec::new());
        write(&mut forged, 0, 3, b"forged");
        write(&mut bytes, SALT, 1, &forged);
        write(&mut bytes, SALT, 2, b"last");
        bytes[0] ^= 1;
        let found = scan(&bytes, 0, 1, SALT);
        assert_eq!(found.frames.iter().map(|frame| frame.number).collect::<Vec<_>>(), [2]);
    }
}

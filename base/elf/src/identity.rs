//! Whether a file is the one that was seen before, without reading all of it: for hints, not for proofs.
//!
//! An ELF file is known by its build-id, wherever the note lies (tools such as `patchelf` move it behind everything
//! else). Any other file is known by a checksum of its length and of four blocks of 4 KiB, spread evenly from its first
//! to its last byte; files up to 16 KiB are summed whole.

use crate::notes::{NOTES_LIMIT, build_id_of, hex};
use crate::{Class, class};
use flate2::Crc;
use object::elf::{FileHeader32, FileHeader64};
use object::{Endianness, ReadCache, ReadRef};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::str::FromStr;

/// Blocks that are looked at.
const BLOCKS: u64 = 4;
/// Bytes of each: a page.
const BLOCK: u64 = 4096;
/// What stands before a checksum in texts; no build-id begins so.
const SAMPLE: &str = "sample-";

/// What a file is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// GNU build-id in lower-case hex.
    BuildId(String),
    /// CRC-32 of the length and of the sampled blocks.
    Sample(u32),
}

impl Identity {
    /// Of a regular file as it is now: a few reads of a page each.
    ///
    /// # Errors
    /// It cannot be read, or becomes shorter meanwhile.
    pub fn of(file: &File) -> io::Result<Self> {
        match build_id(&ReadCache::new(file)) {
            Some(id) => Ok(Self::BuildId(id)),
            None => sample(file).map(Self::Sample),
        }
    }
}

fn build_id<'data, R: ReadRef<'data>>(data: R) -> Option<String> {
    let id = match class(data.read_bytes_at(0, 5).ok()?).ok()? {
        Class::Elf32 => build_id_of::<FileHeader32<Endianness>, _>(data, NOTES_LIMIT),
        Class::Elf64 => build_id_of::<FileHeader64<Endianness>, _>(data, NOTES_LIMIT),
    };
    id.map(hex)
}

fn sample(file: &File) -> io::Result<u32> {
    let len = file.metadata()?.len();
    let mut sum = Crc::new();
    sum.update(&len.to_le_bytes());
    let last = len.saturating_sub(BLOCK);
    let mut block = [0; BLOCK as usize];
    let mut end = 0;
    for number in 0..BLOCKS {
        // Up to four blocks they touch each other, so that nothing is left out.
        let from = if len <= BLOCKS * BLOCK { number * BLOCK } else { last / (BLOCKS - 1) * number };
        let from = if number == BLOCKS - 1 { from.max(last) } else { from }.max(end).min(len);
        end = (from + BLOCK).min(len);
        let part = &mut block[..(end - from) as usize];
        file.read_exact_at(part, from)?;
        sum.update(part);
    }
    Ok(sum.sum())
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuildId(id) => out.write_str(id),
            Self::Sample(sum) => write!(out, "{SAMPLE}{sum:08x}"),
        }
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.strip_prefix(SAMPLE) {
            Some(sum) => u32::from_str_radix(sum, 16).map(Self::Sample).map_err(|_| ()),
            None if !text.is_empty() && !text.contains(' ') => Ok(Self::BuildId(text.to_owned())),
            None => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Identity {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        Identity::of(&File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn any_byte_of_a_small_file_counts_and_the_ends_of_a_large_one() {
        for len in [1, 4096, 4097, 12_289, 16_384] {
            let bytes = vec![3; len];
            for at in [0, len / 3, len / 2, len - 1] {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_ne!(of(&bytes), of(&other), "{len} bytes, byte {at}");
            }
        }
        for len in [16_385_usize, 20_000, 1 << 20, (1 << 20) + 1] {
            let bytes = vec![3; len];
            assert_eq!(of(&bytes), of(&bytes));
            for at in [0, 4095, len - 4096, len - 1] {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_ne!(of(&bytes), of(&other), "{len} bytes, byte {at}");
            }
        }
        assert_ne!(of(&[0; 8]), of(&[0; 9]), "the length counts");
        assert_eq!(of(b""), of(b""));
        assert!(matches!(of(b"\x7fELF\x02 and nothing of the kind"), Identity::Sample(_)));
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        for identity in [Identity::BuildId("ab12".into()), Identity::Sample(0), Identity::Sample(u32::MAX)] {
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
        for wrong in ["", "sample-", "sample-xyz", "a b"] {
            assert_eq!(wrong.parse::<Identity>(), Err(()));
        }
    }
}

//! What files of sums and of leak checks have in common: a mark, a version and a checksum before what zstd has packed.
//!
//! ```text
//! 8 bytes mark, u32 version, u32 CRC-32 of the rest; zstd
//! ```

use model::{Error, Exit, Result};
use std::io::{self, Read};
use std::path::Path;

/// Bytes before the packed part.
const HEAD: usize = 16;
/// Most bytes that the packed part may unpack to: so many, and so many times its length.
const UNPACKED_LEAST: u64 = 64 << 20;
const UNPACKED_TIMES: u64 = 256;
/// Of zstd.
pub const LEVEL: i32 = 3;

/// A kind of such files.
pub struct Kind {
    /// What they begin with.
    pub magic: [u8; 8],
    /// A reader refuses others.
    pub version: u32,
    /// What they are of, for people.
    pub of: &'static str,
}

impl Kind {
    /// A file's bytes around what is packed.
    pub fn seal(&self, packed: &[u8]) -> Vec<u8> {
        [&self.magic[..], &self.version.to_le_bytes(), &crc32fast::hash(packed).to_le_bytes(), packed].concat()
    }

    /// What is packed in a file, whatever its checksum says.
    ///
    /// # Errors
    /// It is cut off, another file, or of another version.
    pub fn packed<'a>(&self, bytes: &'a [u8], path: &Path) -> Result<&'a [u8]> {
        let of = self.of;
        let (Some(head), Some(packed)) = (bytes.get(..HEAD), bytes.get(HEAD..)) else {
            return Err(Error::on(Exit::Data, format!("a file of {of} is cut off"), path));
        };
        if head[..8] != self.magic || head[8..12] != self.version.to_le_bytes() {
            return Err(Error::on(Exit::Data, format!("no file of {of}, or of another version"), path)
                .hint("record it again with this thaw"));
        }
        Ok(packed)
    }

    /// What was packed in a file.
    ///
    /// # Errors
    /// As [`Kind::packed`]; its checksum is wrong.
    pub fn open<'a>(&self, bytes: &'a [u8], path: &Path) -> Result<impl Read + use<'a>> {
        let packed = self.packed(bytes, path)?;
        if bytes[12..HEAD] != crc32fast::hash(packed).to_le_bytes() {
            return Err(self.damaged(path, "its checksum is wrong"));
        }
        unpack(packed).map_err(|cause| self.damaged(path, cause))
    }

    /// A file of this kind is damaged.
    pub fn damaged(&self, path: &Path, cause: impl ToString) -> Error {
        Error::on(Exit::Data, format!("a file of {} is damaged", self.of), path).because(cause.to_string())
    }
}

/// Unpacks, within bounds.
///
/// # Errors
/// There is no memory for it.
pub fn unpack(packed: &[u8]) -> io::Result<impl Read> {
    Ok(zstd::Decoder::new(packed)?.take(UNPACKED_LEAST + UNPACKED_TIMES * packed.len() as u64))
}

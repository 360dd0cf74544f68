//! What thaw adds behind an image, where no file system looks: of which directory it is, how much of it a start needs,
//! and sums. A text of JSON behind the last block and the names of inodes, and at the very end of the file where that
//! text is.

use crate::format::BLOCK;
use model::{Bytes, DiskOffset, Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;

/// Says that the file is an image of thaw's.
const MARK: &[u8; 8] = b"THAWIMG1";
/// The mark, the length of the text, the sum of all that is behind the image.
const END: usize = 8 + 8 + 32;
/// A text of an image's is far smaller; what is larger is damaged.
const MOST: u64 = 1 << 24;
/// No more is read of a disk because an image says that a directory lies there.
pub(crate) const MOST_PLACES: Bytes = Bytes(256 << 20);

/// A SHA-256 sum, written in hex.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sum(pub [u8; 32]);

impl From<[u8; 32]> for Sum {
    fn from(sum: [u8; 32]) -> Self {
        Self(sum)
    }
}

impl From<Sum> for String {
    fn from(sum: Sum) -> Self {
        sum.to_string()
    }
}

impl TryFrom<String> for Sum {
    type Error = &'static str;

    fn try_from(text: String) -> std::result::Result<Self, Self::Error> {
        let mut sum = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err("a sum has 64 digits");
        }
        for (byte, at) in sum.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| "a sum has hexadecimal digits")?;
        }
        Ok(Self(sum))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The directory, without links on the way.
    pub directory: String,
    /// The recordings that say what a start needs.
    pub recordings: Vec<String>,
    /// How exactly they know it.
    pub source: String,
    /// How many starts they hold.
    pub starts: u64,
    /// Other directories of which it holds what starts need, without links on the way. If there are any, the image's
    /// own names are below the root of the file system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<String>,
    /// Files of which it holds a changed copy: other bytes than the directory has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
}

impl Origin {
    /// The directories that the image is laid over.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        [&self.directory].into_iter().chain(&self.trees).map(Path::new)
    }
}

/// What is known of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// How it is compressed.
    pub compression: String,
    /// Regular files in it.
    pub files: u64,
    /// Directories in it.
    pub directories: u64,
    /// Bytes of the files.
    pub content: Bytes,
    /// Bytes of the image, without this.
    pub image: Bytes,
    /// Of those, its metadata and small files: they are in front.
    pub metadata: Bytes,
    /// From its beginning to behind what all recorded starts need.
    pub by_all: Bytes,
    /// From its beginning to behind what any recorded start needs.
    pub start: Bytes,
    /// Content that lies in the image once and stands in files more often.
    pub shared: Bytes,
    /// Content that would not become smaller.
    pub stored: Bytes,
    /// Of the directory's names, sizes and times: see [`crate::tree::Tree::sum`].
    pub tree_sum: Sum,
    /// Bytes behind the image that name the directory's inodes ([`crate::inodes`]), in whole blocks; 0: its file system
    /// has no such names.
    pub inodes: Bytes,
    /// Of these.
    pub inodes_sum: Sum,
    /// Where on its disk the directory's own blocks lie, so that looking at it reads them in few stretches
    /// ([`crate::inodes::places`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(DiskOffset, Bytes)>,
    /// Of the metadata.
    pub metadata_sum: Sum,
    /// Of what is behind them.
    pub data_sum: Sum,
}

impl About {
    /// What stands at the end of the file: whole blocks.
    ///
    /// # Errors
    /// A bug.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(self).map_err(|cause| Error::bug(format!("cannot make JSON: {cause}")))?;
        let len = text.len();
        let mut bytes = text;
        bytes.resize((len + END).next_multiple_of(BLOCK as usize) - END, 0);
        bytes.extend(MARK);
        bytes.extend((len as u64).to_le_bytes());
        bytes.extend(Sha256::digest(&bytes));
        Ok(bytes)
    }

    /// Reads it back from a file of this length.
    ///
    /// # Errors
    /// Why this is no image of thaw's, or none that is whole.
    pub fn decode(
        len: u64,
        read: &mut dyn FnMut(u64, &mut [u8]) -> std::io::Result<()>,
    ) -> std::result::Result<Self, String> {
        let cut = || "it is no image of thaw's, or it was cut off".to_owned();
        let failed = |cause: std::io::Error| cause.to_string();
        let end_at = len.checked_sub(END as u64).ok_or_else(cut)?;
        let mut end = [0; END];
        read(end_at, &mut end).map_err(failed)?;
        let text_len = u64::from_le_bytes(end[8..16].try_into().unwrap_or_default());
        if end[..8] != *MARK || text_len > MOST {
            return Err(cut());
        }
        let behind = (text_len + END as u64).next_multiple_of(BLOCK);
        let text_at = len.checked_sub(behind).ok_or_else(cut)?;
        let mut text = vec![0; behind as usize];
        read(text_at, &mut text).map_err(failed)?;
        let (summed, sum) = text.split_at(text.len() - 32);
        if Sha256::digest(summed)[..] != *sum {
            return Err("what thaw wrote behind it was changed".to_owned());
        }
        let about: Self = serde_json::from_slice(&text[..text_len as usize])
            .map_err(|cause| format!("another version wrote it: {cause}"))?;
        let [metadata, by_all, start] = [about.metadata, about.by_all, about.start].map(|bytes| bytes.0);
        let is_ordered = metadata > 0 && metadata <= by_all && by_all <= start && start <= about.image.0;
        let behind = about.image.0.checked_add(about.inodes.0);
        let places = about.places.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(len.0));
        if behind != Some(text_at) || !is_ordered || metadata % BLOCK != 0 {
            return Err("its length is not the one that it had".to_owned());
        }
        match places <= MOST_PLACES.0 {
            true => Ok(about),
            false => Err("it names more of the disk than is read for a start".to_owned()),
        }
    }
}

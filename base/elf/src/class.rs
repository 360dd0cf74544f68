//! Files of 32 and of 64 bits.

use crate::relr::Word;
use serde::{Deserialize, Serialize};

/// Pointer width of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Four bytes.
    Elf32,
    /// Eight bytes.
    Elf64,
}

impl Class {
    /// Width of an address in the file.
    pub const fn word(self) -> Word {
        match self {
            Self::Elf32 => Word::Four,
            Self::Elf64 => Word::Eight,
        }
    }
}

//! Words for what an archive is like and what is wanted of it: shared by those who read archives and those who plan
//! them.

use serde::Serialize;

/// How an entry is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Not at all.
    Stored,
    /// Deflate.
    Deflated,
    /// By something that thaw does not know.
    Other(u16),
}

impl Method {
    pub(super) fn of(number: u16) -> Self {
        match number {
            0 => Self::Stored,
            8 => Self::Deflated,
            other => Self::Other(other),
        }
    }

    pub(super) fn number(self) -> u16 {
        match self {
            Self::Stored => 0,
            Self::Deflated => 8,
            Self::Other(number) => number,
        }
    }
}

/// Where the directory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectoryPlace {
    /// At the end only, as in every zip archive.
    End,
    /// In front only, as Mozilla's packager writes it. `unzip` warns, Python refuses it.
    Front,
    /// In front for Firefox and at the end for everybody.
    #[default]
    Both,
}

/// What to do with a signed archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signed {
    /// Leave it alone.
    #[default]
    Refuse,
    /// Rewrite it: signatures of single entries stay valid.
    Accept,
}

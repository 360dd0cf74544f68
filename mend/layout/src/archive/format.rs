//! What kind of archive it is, as far as its readers ask for more than a zip archive promises: which entries must come
//! first, whether a directory may lie in front, and how stored data are aligned. Pure.

use super::form::Method;
use super::zip::{EntryId, Zip};
use serde::Serialize;

/// A format that is made of a zip archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// OpenDocument and EPUB: `mimetype` comes first, stored, without an extra field, so that `file` and mail programs
    /// find the type at a fixed place.
    Mimetype,
    /// Java: JarInputStream takes the manifest only as the first entry, or the second behind `META-INF/`.
    Jar,
    /// Android: stored data are mapped, at multiples of 4 bytes and libraries at multiples of a page.
    Apk,
    /// Everything else, Firefox's omni.ja included.
    Plain,
}

const MIMETYPE: &[u8] = b"mimetype";
const MANIFEST: &[u8] = b"META-INF/MANIFEST.MF";

impl Format {
    /// Told by the names of its entries.
    pub fn of(zip: &Zip<'_>) -> Self {
        let has = |name: &[u8]| zip.entries.iter().any(|entry| entry.name == name);
        match () {
            () if has(MIMETYPE) => Self::Mimetype,
            () if has(b"AndroidManifest.xml") => Self::Apk,
            () if has(MANIFEST) => Self::Jar,
            () => Self::Plain,
        }
    }

    /// Whether its readers bear a directory in front: who reads from the beginning wants an entry there.
    pub fn bears_front(self) -> bool {
        self == Self::Plain
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mimetype => "OpenDocument or EPUB file",
            Self::Jar => "Java archive",
            Self::Apk => "Android package",
            Self::Plain => "zip archive",
        }
    }

    /// Entries that come first, whatever is used.
    pub(super) fn leading(self, zip: &Zip<'_>) -> Vec<EntryId> {
        let named = |name: &[u8]| zip.ids().filter(|id| zip.entry(*id).name == name).collect::<Vec<_>>();
        match self {
            Self::Mimetype => named(MIMETYPE),
            Self::Jar => {
                let mut leading = [named(b"META-INF/"), named(MANIFEST)].concat();
                // Signatures are checked while the rest streams by.
                leading.extend(zip.ids().filter(|id| is_signature(zip.entry(*id).name)));
                leading
            }
            Self::Apk | Self::Plain => Vec::new(),
        }
    }

    /// Whether an entry is written as it is: not compressed anew, nothing added to its header.
    pub(super) fn is_fixed(self, name: &[u8]) -> bool {
        self == Self::Mimetype && name == MIMETYPE
    }
}

/// Files by which a Java archive is signed.
fn is_signature(name: &[u8]) -> bool {
    let Some(file) = name.strip_prefix(b"META-INF/").filter(|file| !file.contains(&b'/')) else { return false };
    [&b".SF"[..], b".RSA", b".DSA", b".EC"].iter().any(|ending| file.ends_with(ending))
}

/// The largest alignment that is kept: a page of the largest that Android uses.
const ALIGN_MOST: u64 = 16_384;

/// What the data of stored entries are aligned to, libraries and others: whoever wrote the archive meant it if all are.
/// 1 where there is nothing to tell by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    libraries: u16,
    others: u16,
}

impl Alignment {
    pub(super) fn of(zip: &Zip<'_>, format: Format) -> Self {
        let common = |libraries: bool| {
            let stored = zip.entries.iter().filter(|entry| {
                let is_meant = entry.method == Method::Stored && entry.size > 0 && !format.is_fixed(entry.name);
                is_meant && is_library(entry.name) == libraries
            });
            let (mut count, mut common) = (0, ALIGN_MOST);
            for entry in stored {
                count += 1;
                common = common.min(1 << entry.data.start.trailing_zeros().min(14));
            }
            // One or two may lie there by chance; a format that asks for it means it.
            let is_meant = count > 2 && common >= 4 || count > 0 && format == Format::Apk;
            if is_meant { common as u16 } else { 1 }
        };
        Self { libraries: common(true), others: common(false) }
    }

    /// For an entry, where at least `least` was asked for.
    pub(super) fn for_entry(self, name: &[u8], least: u16) -> u16 {
        least.max(if is_library(name) { self.libraries } else { self.others }).max(1)
    }
}

fn is_library(name: &[u8]) -> bool {
    name.ends_with(b".so")
}

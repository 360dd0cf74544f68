//! What packing has to say, without logic. Text and JSON are made from these values.

use crate::options::{Backend, Space};
use crate::passes;
use model::{Bytes, FileOffset};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How packing ended when nothing went wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was (or, with a plan only, would be) packed.
    Packed(Box<Packed>),
    /// It was not, and nothing was written.
    Refused(Refusal),
}

/// Why a file is not packed. The kebab-case name is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Not an ELF file.
    NotElf,
    /// An ELF file whose tables contradict themselves.
    Damaged,
    /// A byte order or class that thaw does not rewrite.
    Class,
    /// A processor that thaw does not rewrite for.
    Machine,
    /// Not position independent: an executable at a fixed address, an object file, a core.
    NotShared,
    /// A separate debug file.
    DebugFile,
    /// A module of the Linux kernel.
    KernelModule,
    /// No dynamic section: a static program.
    Static,
    /// A static program that relocates itself.
    StaticPie,
    /// The dynamic loader itself.
    Loader,
    /// Its loader is none that is known to read packed tables.
    UnknownLoader,
    /// The loader where it will run does not read packed tables, or nobody knows whether it does.
    OldLoader,
    /// It relocates its code.
    TextRelocations,
    /// It has DT_RELR.
    AlreadyRelr,
    /// It was packed by elfhack, relrhack, the Android linker or thaw.
    AlreadyPacked,
    /// It was prelinked.
    Prelinked,
    /// It has relocations with and without addends.
    MixedRelocations,
    /// Its relocation table is split over several sections, or lies where it cannot be rewritten.
    RelocationLayout,
    /// Data points into the loader's tables.
    PointerIntoTables,
    /// Its segments overlap or are not sorted.
    SegmentOrder,
    /// It has so many segments that they are counted elsewhere (PN_XNUM).
    SegmentCount,
    /// There is no room for one more program header.
    NoHeaderSlot,
    /// There is no room for the dynamic section.
    NoDynamicSlot,
    /// Something lies behind the ELF file, or between its parts, that may be found by its offset.
    Payload,
    /// fs-verity, IMA or EVM vouch for its bytes.
    Signed,
    /// A file beside it, or the program itself, checks its bytes (NSS, FIPS).
    Checksummed,
    /// It runs with rights of its own.
    Setuid,
    /// It has other names (hard links).
    HardLinks,
    /// The oracle does not find the packed file equivalent, and nothing in the file that contradicts itself.
    NotProven,
    /// It chooses functions while it is relocated (IFUNC), when the table is not applied yet ([`Backend::Init`] only).
    Indirect,
    /// It is an allocator, which is called before its initialiser ([`Backend::Init`] only).
    Allocator,
    /// It is started as a program and loaded as a library: no initialiser is called both ways ([`Backend::Init`] only).
    ProgramAndLibrary,
    /// It has functions that run before all initialisers (DT_PREINIT_ARRAY; [`Backend::Init`] only).
    PreinitArray,
    /// There is no room for the initialiser's code ([`Backend::Init`] only).
    NoCodeRoom,
    /// It has no relative relocation that could be packed.
    NothingToPack,
    /// The file would not get smaller by a page.
    NoGain,
}

impl Reason {
    /// Its name in JSON.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// A file that is not packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, for scripts.
    pub reason: Reason,
    /// One sentence with the object, for people.
    pub sentence: String,
    /// What to type instead, if there is something.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

/// A packed file, and what was done to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Packed {
    /// Who applies the table.
    pub backend: Backend,
    /// What happened with the free room.
    pub space: Space,
    /// Length of the file before.
    pub size_before: Bytes,
    /// Length of the file after. With [`Space::Punch`] this is the apparent size.
    pub size_after: Bytes,
    /// Bytes that became free inside the file and hold zero now ([`Space::Keep`], [`Space::Punch`]).
    pub freed: Bytes,
    /// Which loader it is for.
    pub loader: Loader,
    /// What was done so that a loader without DT_RELR refuses the file instead of crashing it.
    pub version_need: VersionNeed,
    /// Relocations before and after.
    pub relocations: Relocations,
    /// What moved, in memory and in the file.
    pub plan: Plan,
    /// What the further passes have to say.
    pub passes: Vec<passes::Report>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Whose loader will load the file, told by its interpreter and the libraries it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// glibc; reads DT_RELR from 2.36.
    Glibc,
    /// musl; reads DT_RELR from 1.2.4.
    Musl,
    /// A library that needs no C library: either.
    Either,
}

/// The version need GLIBC_ABI_DT_RELR, with which glibc marks files that need DT_RELR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionNeed {
    /// Added to what the file needs from libc.
    Added,
    /// Added, with a new record for libc, of which no versions were needed.
    AddedRecord,
    /// Not needed: musl, or a file without version needs or without libc. Older loaders will not refuse it.
    NotNeeded,
}

/// Relocations of a file before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocations {
    /// How many relative relocations the table held before.
    pub relative: u64,
    /// How many of these are in the packed table now.
    pub packed: u64,
    /// How many of these stayed as they were, by reason.
    pub kept: Vec<Kept>,
    /// Length of the table (DT_RELA or DT_REL) before, without that of the PLT.
    pub table_before: Bytes,
    /// Length of the same table after.
    pub table_after: Bytes,
    /// Length of the packed table (DT_RELR).
    pub relr: Bytes,
}

/// Relative relocations that were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Why these could not be packed.
    pub why: Why,
    /// How many relocations stayed for this reason.
    pub count: u64,
}

/// Why a relative relocation is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Its address is odd: the format has no place for it.
    OddAddress,
    /// Its word has no bytes in the file (.bss), or lies outside.
    NotInFile,
    /// Its word cannot be written while loading.
    ReadOnly,
    /// Another relocation touches the same word.
    Overlap,
    /// It names a symbol.
    Symbol,
    /// Its word is in the template of thread-local data, which the loader copies before any initialiser runs
    /// ([`Backend::Init`] only).
    ThreadLocal,
    /// Its word is in an object that programs may copy before any initialiser runs ([`Backend::Init`] only).
    MayBeCopied,
}

/// What moves. Printable, and all there is to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The loader's tables.
    pub blobs: Vec<BlobMove>,
    /// Loaded segments, by address.
    pub segments: Vec<SegmentMove>,
    /// Where the program headers for new segments come from; empty if there are none.
    pub header_slots: Vec<HeaderSlot>,
    /// Where the dynamic section goes.
    pub dynamic_place: DynamicPlace,
    /// Entries of the dynamic section that change.
    pub dynamic: Vec<DynamicEdit>,
}

/// One of the loader's tables and its new place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobMove {
    /// `.dynstr`.
    pub name: String,
    /// Its address before, without the load bias; none for a new one.
    pub from: Option<u64>,
    /// Its address after, without the load bias.
    pub to: u64,
    /// Its length in memory before.
    pub len_before: Bytes,
    /// Its length in memory after; 0 if it is gone.
    pub len_after: Bytes,
}

/// A loaded segment and its new place in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentMove {
    /// Its address. Addresses do not change, but a segment may be split in two.
    pub address: u64,
    /// Where its first byte was in the file; none for a new segment.
    pub from: Option<FileOffset>,
    /// Where it is now.
    pub to: FileOffset,
    /// Bytes in the file after.
    pub len: Bytes,
}

/// Where the program header for a new segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderSlot {
    /// A PT_NULL entry is used.
    Unused,
    /// PT_PHDR is dropped: nothing reads it in a library.
    DropsPhdr,
    /// There is room behind the table.
    Room,
    /// Two writable segments become one.
    MergesSegments,
    /// What lies behind the table (.interp, notes, tables of the loader) moves away.
    MovesNeighbours,
}

/// Where the dynamic section goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DynamicPlace {
    /// It stays: there are spare entries.
    #[default]
    Stays,
    /// Behind the last byte of its segment.
    SegmentTail,
    /// Before the first byte of its segment.
    SegmentHead,
    /// In a new writable segment.
    NewSegment,
    /// Among the loader's tables, read-only.
    ReadOnly,
}

/// One entry of the dynamic section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicEdit {
    /// The number of the tag (DT_*).
    pub tag: u64,
    /// Its name, `DT_STRTAB`.
    pub name: String,
    /// The value or address before; none for a new entry.
    pub from: Option<u64>,
    /// The value or address after; none if the entry is dropped.
    pub to: Option<u64>,
}

/// A file whose original was put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Where the file is, as it was named.
    pub path: PathBuf,
    /// Its length while it was packed.
    pub size_packed: Bytes,
    /// Its length now, which is that of the original.
    pub size: Bytes,
}

/// A file that was packed in place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Where the file is, as it was named.
    pub path: PathBuf,
    /// Length of the original file.
    pub size_before: Bytes,
    /// Length of the packed file.
    pub size_after: Bytes,
    /// When, in nanoseconds since 1970.
    pub packed_unix_ns: u64,
    /// What the file is now.
    pub standing: Standing,
    /// Where the original is kept.
    pub original: PathBuf,
}

/// What a file that was packed in place is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The packed file: it can be restored.
    Packed,
    /// The original: packing or restoring was cut short, or it was put back by other hands. Only the kept copy is left
    /// to forget.
    Original,
    /// Something else, say after an upgrade. Restoring would undo that.
    Changed,
    /// It is gone.
    Gone,
}

/// What [`fix_relr_bytes`](crate::fix_relr_bytes) found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fixed {
    /// The version need was missing and is there now.
    Added {
        /// Length of the file before.
        size_before: Bytes,
        /// Length of the file after.
        size_after: Bytes,
        /// What moved to make room for it.
        plan: Box<Plan>,
    },
    /// Nothing is missing.
    Sound {
        /// One sentence: why not.
        sentence: String,
    },
    /// It cannot be added.
    Refused(Refusal),
}

//! What is known about one file, and about many: values only, in bytes and counts. JSON is made of them as they are.
//!
//! "Relocations" are those that the dynamic loader applies, never those of object files.

use elf::{Class, Order};
use model::{Bytes, FileOffset, Warning};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// What one file holds that costs time and bytes at a start.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// What kind of file it is.
    pub identity: Identity,
    /// Its size.
    pub size: Bytes,
    /// Its relocations.
    pub relocations: Relocations,
    /// Bytes of the relocation tables that say nothing, or say it twice.
    pub waste: Waste,
    /// What other forms of the relative relocations would take.
    pub packing: Packing,
    /// How many relocations are for virtual tables.
    pub vtables: Vtables,
    /// Symbolic relocations that name a symbol of the file itself.
    pub internal: Internal,
    /// Code that runs before `main`, or when the library is loaded.
    pub initializers: Initializers,
    /// The last page of the data segment; `None` where no segment has a `.bss` behind its data.
    pub last_data_page: Option<LastDataPage>,
    /// Where the dynamic table lies; `None` for static programs and object files.
    pub dynamic: Option<DynamicPlace>,
    /// Doubts about the file and the figures.
    pub warnings: Vec<Warning>,
}

/// What kind of file it is.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// Pointer width.
    pub class: Class,
    /// Byte order.
    pub order: Order,
    /// `x86-64`
    pub machine: String,
    /// Program, library, ...
    pub kind: Kind,
    /// The linker, if it left its name (lld and mold in `.comment`, gold in a section of its own; bfd leaves none).
    pub linker: Option<String>,
    /// The compilers that `.comment` names.
    pub compilers: Vec<String>,
    /// GNU build-id in hex.
    pub build_id: Option<String>,
    /// Path of the dynamic loader.
    pub interpreter: Option<String>,
    /// It has a full symbol table (`.symtab`).
    pub has_symbols: bool,
}

/// What a file is to the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program that may lie anywhere.
    Pie,
    /// A program at a fixed address.
    FixedProgram,
    /// A shared library.
    Library,
    /// A program without a dynamic loader, at a fixed address.
    Static,
    /// The same, anywhere.
    StaticPie,
    /// An object file or a kernel module.
    Object,
    /// A memory dump.
    Core,
    /// Debug data that were split off.
    DebugData,
    /// Something else.
    Other,
}

impl Kind {
    /// The dynamic loader works on it.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::Pie | Self::FixedProgram | Self::Library)
    }
}

/// Relocations, counted in several ways.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Relocations {
    /// All of them: those of the tables and those that RELR holds.
    pub count: u64,
    /// Bytes of all tables, RELR included.
    pub bytes: Bytes,
    /// Entries of the tables with one entry per relocation (REL, RELA).
    pub entries: u64,
    /// Bytes of these tables.
    pub entry_bytes: Bytes,
    /// Relative ones among the entries.
    pub relative: u64,
    /// By type, RELR as a type of its own; most first.
    pub by_type: Vec<Group>,
    /// By the section that holds the table; most first.
    pub by_table: Vec<Group>,
    /// By the section that is relocated; most first.
    pub by_target: Vec<Group>,
    /// By symbol; most first, the first ones only.
    pub by_symbol: Vec<Group>,
    /// How many symbols are named.
    pub symbols: u64,
    /// Entries for the PLT.
    pub plt: u64,
    /// How they follow each other.
    pub adjacency: Adjacency,
    /// What is already packed.
    pub relr: Option<Relr>,
}

/// How many relocations have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// What they have in common: a type, a section, a symbol.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Bytes that they take in tables with one entry each; for the type and the table of RELR, in its table.
    pub bytes: Bytes,
}

/// How relocations follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Adjacency {
    /// Entries for load time whose word follows that of the entry before.
    pub following: u64,
    /// Entries for load time.
    pub of: u64,
    /// Runs of consecutive words among the relative ones, by address.
    pub runs: u64,
    /// Words of the longest run.
    pub longest_run: u64,
}

/// A table of packed relative relocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Relr {
    /// Relocations in it.
    pub count: u64,
    /// Its bytes.
    pub bytes: Bytes,
    /// The file asks for the version GLIBC_ABI_DT_RELR; `None` where glibc does not insist (no libc, no versions).
    pub asks_for_abi: Option<bool>,
}

/// Bytes of REL and RELA entries that say nothing, or say it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waste {
    /// The addend, which could be in the word that is relocated: RELA entries.
    pub addend: WasteRow,
    /// The type has 32 bits in a 64-bit file and needs 8.
    pub type_bits: WasteRow,
    /// The symbol of an entry that names none.
    pub no_symbol: WasteRow,
    /// All of it.
    pub total: Bytes,
    /// Bytes of the entries: what the share is of.
    pub of: Bytes,
}

/// One kind of waste.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WasteRow {
    /// Entries that have it.
    pub entries: u64,
    /// Bytes of all of them.
    pub bytes: Bytes,
}

/// What other forms of the relative relocations would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// Relative relocations that RELR can hold.
    pub packable: u64,
    /// Those that it cannot: odd addresses.
    pub odd: u64,
    /// ... words that are not in the file or not writable.
    pub not_in_writable_data: u64,
    /// ... words that overlap with another relocation.
    pub overlapping: u64,
    /// Bytes that the packable ones take now.
    pub now: Bytes,
    /// Bytes that they would take as RELR.
    pub relr: Bytes,
    /// Bytes that they would take as pairs of offset and count, eight bytes each, as in 2010.
    pub runs: Bytes,
    /// Words of packable ones whose value in the file is the addend already; counted where the file is looked at in
    /// detail.
    pub addend_in_place: Option<u64>,
}

impl Packing {
    /// What RELR would save.
    pub fn saves(&self) -> Bytes {
        self.now - self.relr
    }

    /// What runs would save.
    pub fn runs_save(&self) -> Bytes {
        self.now - self.runs
    }
}

/// Relocations that fill virtual tables and type information of C++.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Vtables {
    /// Relocations inside of symbols `_ZTV`, `_ZTC`, `_ZTT` and `_ZTI`.
    pub in_symbols: u64,
    /// How many such symbols are known. Without `.symtab` only the exported ones are.
    pub symbols: u64,
    /// Relocations inside of `.data.rel.ro`, where virtual tables are among other constants: never fewer than in its
    /// tables.
    pub in_constant_data: u64,
    /// Relocations to `__cxa_pure_virtual`: by its name, ...
    pub pure_virtual: u64,
    /// ... and relative ones to a copy of it inside the file; known with a symbol that says where it is.
    pub pure_virtual_inside: u64,
}

/// Symbolic relocations that name a symbol which the file itself defines. In a library another file may still win
/// (the symbol is preemptible); bound inside, as `-Bsymbolic` does, they would be relative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Internal {
    /// Entries for load time, COPY and thread-local ones left out.
    pub load: u64,
    /// Entries for the PLT.
    pub plt: u64,
    /// Entries for load time that another file may redirect.
    pub preemptible: u64,
    /// Of `load`: functions.
    pub functions: u64,
    /// ... data.
    pub data: u64,
    /// ... weak symbols.
    pub weak: u64,
    /// Symbolic entries for load time, these and others.
    pub of: u64,
    /// Symbolic entries for the PLT.
    pub of_plt: u64,
    /// The file is linked so that its own symbols win (DF_SYMBOLIC).
    pub bound_inside: bool,
}

/// Code that runs before `main`, or when a library is loaded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Initializers {
    /// How many functions.
    pub count: u64,
    /// Each one, in the order in which the loader calls them. Empty for surveys.
    pub functions: Vec<Initializer>,
}

/// One function that runs at the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Initializer {
    /// Which list names it: `DT_INIT`, `.preinit_array`, `.init_array`, `.ctors`.
    pub list: &'static str,
    /// Its place in the list, from 0.
    pub entry: u64,
    /// Where it is, before the load bias; `None` where the loader looks for a symbol.
    pub address: Option<u64>,
    /// Its name, if a symbol table tells.
    pub symbol: Option<String>,
    /// Its source file and line, if debug data tell.
    pub source: Option<String>,
}

/// The page in which the data of the file end and `.bss` begins: the loader reads it to clear its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LastDataPage {
    /// Where the data end, in memory.
    pub address: u64,
    /// Bytes of the page behind the data: read, and cleared. 0: the data end with the page.
    pub unused: Bytes,
    /// The page holds words that are relocated: it would be written to in any case.
    pub relocated: bool,
}

/// Where the dynamic table lies: it is among the first things that are read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DynamicPlace {
    /// In the file.
    pub offset: FileOffset,
    /// In memory.
    pub address: u64,
    /// Entries in use.
    pub entries: u64,
    /// Free slots: further tags would need no room.
    pub spare: u64,
    /// It is in a writable segment: the loader puts addresses into it, and tools rely on that.
    pub writable: bool,
}

/// What was seen below some paths.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Survey {
    /// ELF files, by path.
    pub files: Vec<Surveyed>,
    /// What was not seen.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

/// What was not seen below some paths.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeftOut {
    /// Files and directories that could not be read.
    pub unreadable: Vec<Unreadable>,
    /// What is not looked at.
    pub skipped: Skipped,
    /// Ctrl-C came: the rest was not looked at.
    pub interrupted: bool,
}

/// One file of a survey.
#[derive(Clone, Debug, Serialize)]
pub struct Surveyed {
    /// Its path, as it was found first.
    #[serde(serialize_with = "as_shown")]
    pub path: PathBuf,
    /// What it holds.
    #[serde(flatten)]
    pub report: FileReport,
}

/// A file or directory that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct Unreadable {
    /// Its path.
    #[serde(serialize_with = "as_shown")]
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// JSON has no bytes: those of a path that are not UTF-8 become U+FFFD.
fn as_shown<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&model::shown(path))
}

/// What a survey does not look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Regular files that are no ELF files.
    pub not_elf: u64,
    /// Symbolic links inside of directories.
    pub symlinks: u64,
    /// Further names of files already seen.
    pub hard_links: u64,
    /// Devices, pipes, sockets.
    pub special: u64,
    /// Directories on which another file system is mounted.
    pub mount_points: u64,
}

/// Sums over the files of a survey.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// ELF files.
    pub files: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Files that the dynamic loader works on.
    pub dynamic: u64,
    /// Relocations.
    pub relocations: u64,
    /// Bytes of the REL and RELA tables.
    pub entry_bytes: Bytes,
    /// Relative ones among the entries of these tables.
    pub relative: u64,
    /// Files with at least one of them.
    pub files_with_relative: u64,
    /// By type; most first.
    pub by_type: Vec<Group>,
    /// Waste in the tables.
    pub waste: Waste,
    /// What packing would do.
    pub packing: Packing,
    /// Files of which packing would save at least this many bytes, and what it would save there.
    pub savings: Vec<Saving>,
    /// Entries for load time that follow the one before.
    pub following: u64,
    /// Entries for load time.
    pub load_entries: u64,
    /// Files that have RELR already.
    pub with_relr: u64,
    /// Bytes of their RELR tables.
    pub relr_bytes: Bytes,
    /// Of these, files without the version that glibc insists on.
    pub without_abi: Vec<String>,
    /// Virtual tables.
    pub vtables: Vtables,
    /// Symbolic relocations to symbols of the file itself.
    pub internal: Internal,
    /// Functions that run at the start.
    pub initializers: u64,
    /// Files whose data do not end with a page before `.bss`.
    pub unaligned_bss: u64,
    /// Of these, those whose last data page holds no relocated word.
    pub unaligned_bss_clean: u64,
    /// Files with at least one COPY relocation.
    pub with_copy: u64,
}

/// What packing would save in the files where it saves at least a given number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Saving {
    /// At least so much in each.
    pub at_least: Bytes,
    /// Files.
    pub files: u64,
    /// Bytes in all of them.
    pub bytes: Bytes,
}

//! `thaw elf`: what was typed, for each of its verbs.

use super::ForceArg;
use super::RowsArgs;
use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw elf`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct ElfArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ElfVerb,
}

/// The verbs of `thaw elf`.
#[derive(Debug, Subcommand)]
pub enum ElfVerb {
    /// What do ELF files hold that costs time and bytes at a start, and what could be saved?
    #[command(long_about = STAT_ABOUT)]
    Stat(StatArgs),
    /// Can this file be rewritten so that it starts faster?
    #[command(long_about = PACK_ABOUT)]
    Pack(PackArgs),
    /// Can the original of a file that was packed in place be put back?
    #[command(long_about = RESTORE_ABOUT)]
    Restore(RestoreArgs),
    /// Does this file have packed relocations that glibc refuses to load?
    #[command(long_about = FIX_RELR_ABOUT)]
    FixRelr(FixRelrArgs),
    /// Does a packed file still mean what its original means?
    #[command(long_about = VERIFY_ABOUT)]
    Verify(VerifyArgs),
}

/// Arguments of `thaw elf stat`.
#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct StatArgs {
    /// One file: all about it. Several files, or directories with everything below on one file system: a table and a
    /// summary
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// What the files are sorted by
    #[arg(long, value_name = "KEY", default_value = "saved")]
    pub sort: SortKey,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text; it has all files
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw elf pack`.
#[derive(Debug, Args)]
#[command(after_help = PACK_EXAMPLES)]
#[command(group = ArgGroup::new("target").required(true).args(["output", "in_place", "plan"]))]
pub struct PackArgs {
    /// Programs and libraries; directories with all that are below on one file system
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Where the packed file goes; a directory for several files, which keep their places below it
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Replace each file; the original is kept for `thaw elf restore`
    #[arg(long)]
    pub in_place: bool,
    /// Only say what would be done
    #[arg(long)]
    pub plan: bool,
    #[command(flatten)]
    pub rewrite: RewriteArgs,
    /// The system that the file will run on, whose loader decides whether it can be packed; this machine without it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// The C library that the file will run under, if no system is at hand: glibc:2.36, musl:1.2.4, or any (not
    /// checked)
    #[arg(long = "for", value_name = "LIBC", conflicts_with = "root")]
    pub home: Option<pack::Home>,
    /// Also pack programs with rights of their own (set-user-id, set-group-id, file capabilities); they keep them
    #[arg(long)]
    pub setuid: bool,
    /// A separate debug file to keep in step; for one FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub debug_file: Option<PathBuf>,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text; it has all files
    #[arg(long)]
    pub json: bool,
}

/// What is rewritten, and how: chosen by `thaw elf pack`, and told to `thaw elf verify`.
#[derive(Debug, Args)]
pub struct RewriteArgs {
    /// Who applies the packed table: relr (the loader; glibc 2.36, musl 1.2.4) or init (code put into the file)
    #[arg(long, value_name = "WHO", default_value = "relr", hide_possible_values = true)]
    pub backend: Backend,
    /// Nothing moves in the file; bytes that become free are zeroed
    #[arg(long)]
    pub no_shrink: bool,
    /// As --no-shrink, and the free blocks are given back to the file system
    #[arg(long, conflicts_with = "no_shrink")]
    pub punch_holes: bool,
    /// With --backend init: no program copies exported data of the libraries (R_*_COPY), so that it is packed too
    #[arg(long)]
    pub no_copies: bool,
    /// Fill the last page of data in the file, so that .bss begins with a page of its own
    #[arg(long)]
    pub align_bss: bool,
    /// Move the dynamic section of libraries to the front of the file, read-only
    #[arg(long)]
    pub dynamic_first: bool,
    /// Reverse .ctors and .dtors, so that constructors run in the order of their addresses
    #[arg(long)]
    pub ctors: bool,
    /// Let slots of pure virtual functions point to a trap in the file instead of __cxa_pure_virtual
    #[arg(long)]
    pub pure_virtual: bool,
    /// Make relocations against symbols of the file itself relative, where --closed-set proves that nothing replaces
    /// them
    #[arg(long, requires = "closed_set")]
    pub symbolic: bool,
    /// A program or library that may share a process with the file, or a directory of them; may be repeated
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath, requires = "symbolic")]
    pub closed_set: Vec<PathBuf>,
    /// No library from outside of the closed set is ever loaded, so that type information is made relative too
    #[arg(long, requires = "symbolic")]
    pub nothing_later: bool,
    /// Give the packed file a new build-id; without it, caches by build-id that hold the old file are stale
    #[arg(long)]
    pub new_build_id: bool,
    /// Type of the packed table's section: relr, or progbits for old tools that stop at a type they do not know
    #[arg(long, value_name = "TYPE", default_value = "relr", hide_possible_values = true)]
    pub section_type: SectionType,
}

/// Who applies the packed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The loader
    Relr,
    /// Code put into the file
    Init,
}

/// Type of the packed table's section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SectionType {
    /// SHT_RELR
    Relr,
    /// SHT_PROGBITS
    Progbits,
}

/// Arguments of `thaw elf restore`.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// Files that were packed in place
    #[arg(required_unless_present = "all", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub paths: Vec<PathBuf>,
    /// All that were packed in place; `thaw doctor` lists them
    #[arg(long, conflicts_with = "paths")]
    pub all: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw elf fix-relr`.
#[derive(Debug, Args)]
#[command(after_help = FIX_RELR_EXAMPLES, group = ArgGroup::new("target").required(true).args(["output", "in_place"]))]
pub struct FixRelrArgs {
    /// A program or library with packed relocations
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
    /// Where the mended file goes
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Replace the file; the original is kept for `thaw elf restore`
    #[arg(long)]
    pub in_place: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw elf verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArgs {
    /// The file as it was
    #[arg(value_name = "ORIGINAL", value_hint = ValueHint::FilePath)]
    pub original: PathBuf,
    /// The file as it is
    #[arg(value_name = "PACKED", value_hint = ValueHint::FilePath)]
    pub packed: PathBuf,
    /// Also load both with this machine's loader and compare the memory of the two processes
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub rewrite: RewriteArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// What a table of files is sorted by; most first, names from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Bytes that packing the relative relocations would save
    Saved,
    /// Size of the file
    Size,
    /// Relocations, packed ones too
    Relocations,
    /// Bytes of the relocation tables
    Tables,
    /// Relocations that look up a symbol which the file has itself
    Internal,
    /// Functions that run at the start
    Initializers,
    /// Path
    Name,
}

pub(super) const LONG_ABOUT: &str = "\
What do my ELF files cost at a start, and can they cost less?

Looks into programs and libraries: relocations that the dynamic loader reads and applies before `main`, initializers, \
the layout of tables and data. Packs the relocations of files that are already linked, proves that the packed file \
means the same, and puts originals back.";

const EXAMPLES: &str = "\
Examples:
  thaw elf stat /usr/lib /usr/bin
  thaw elf pack /usr/lib/chromium/chromium -o chromium.packed
  thaw elf verify /usr/lib/chromium/chromium chromium.packed";

const STAT_ABOUT: &str = "\
What do ELF files hold that costs time and bytes at a start, and what could be saved?

Of one file: relocations by type, table, section and symbol, the bytes of their tables that say nothing or say it \
twice, what packed forms would take, virtual tables, symbols that the file looks up although it has them, each \
initializer with its symbol and source file, where data and dynamic table lie. Of many: a table, and what could be \
saved in all of them. Symbolic links inside of directories are not followed, and a file with several names counts \
once. Changes nothing.";

const STAT_EXAMPLES: &str = "\
Examples:
  thaw elf stat /usr/lib/chromium/chromium
  thaw elf stat /usr/lib /usr/bin /usr/libexec --sort internal --top 50
  thaw elf stat /opt/app --json | jq '.summary.packing'";

const PACK_ABOUT: &str = "\
Can this file be rewritten so that it starts faster?

Relative relocations, most of what the loader reads of a large program before `main`, go into the packed table that \
loaders since 2022 understand (DT_RELR), and the file gets smaller by what they took. Code and data keep their \
addresses. Every packed file is compared with its original before it is written; a new file is written beside its \
place and renamed. Files that cannot be packed without doubt are refused, with the reason. Exit code 1 if nothing was \
packed.";

const PACK_EXAMPLES: &str = "\
Examples:
  thaw elf pack /usr/lib/chromium/chromium -o chromium.packed
  thaw elf pack /opt/app/lib --in-place
  thaw elf pack /usr/lib /usr/bin --plan --json | jq '.summary'";

const RESTORE_ABOUT: &str = "\
Can the original of a file that was packed in place be put back?

Puts it back byte for byte, with mode, owner, attributes and times. A file that was changed since it was packed, say \
by an upgrade, is left alone. Exit code 1 if there is nothing to restore.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  thaw elf restore /opt/app/lib/libbig.so
  thaw elf restore --all
  thaw elf restore --all --json | jq '.restored[].path'";

const FIX_RELR_ABOUT: &str = "\
Does this file have packed relocations that glibc refuses to load?

glibc loads a file with DT_RELR only if it asks for the version GLIBC_ABI_DT_RELR. Old versions of mold and some \
vendors' libraries do not. Adds what is missing. Exit code 1 if it cannot be added.";

const FIX_RELR_EXAMPLES: &str = "\
Examples:
  thaw elf fix-relr libvendor.so -o libvendor.fixed.so
  thaw elf fix-relr ./app --in-place
  thaw elf fix-relr ./app -o app.fixed --json | jq '.outcome'";

const VERIFY_ABOUT: &str = "\
Does a packed file still mean what its original means?

Relocates both in memory, as the loader would at any address, and compares every byte of memory and everything that \
the loader and other tools read: relocations by name and version, symbols, versions, notes, sections, protections. \
Exit code 1 if anything differs but the form of the relative relocations.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  thaw elf verify /usr/lib/chromium/chromium chromium.packed
  thaw elf verify libbig.so libbig.packed.so --live
  thaw elf verify libbig.so libbig.init.so --backend init     # options that it was packed with";

//! `thaw elf`: what was typed, for each of its verbs.

use clap::{Args, Subcommand, ValueEnum, ValueHint};
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
}

/// Arguments of `thaw elf stat`.
#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct StatArgs {
    /// One file: all about it. Several files, or directories with everything below on one file system: a table and a summary
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// What the files are sorted by
    #[arg(long, value_name = "KEY", default_value = "saved")]
    pub sort: SortKey,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "all")]
    pub top: usize,
    /// All rows of each table
    #[arg(long)]
    pub all: bool,
    /// Print one JSON document instead of text; it has all files
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

Looks into programs and libraries: relocations that the dynamic loader reads and applies before `main`, initializers, the \
layout of tables and data.";

const EXAMPLES: &str = "\
Examples:
  thaw elf stat /usr/lib/chromium/chromium
  thaw elf stat /usr/lib /usr/bin
  thaw elf stat target/release/app --json | jq '.files[0].packing'";

const STAT_ABOUT: &str = "\
What do ELF files hold that costs time and bytes at a start, and what could be saved?

Of one file: relocations by type, table, section and symbol, the bytes of their tables that say nothing or say it twice, \
what packed forms would take, virtual tables, symbols that the file looks up although it has them, each initializer with \
its symbol and source file, where data and dynamic table lie. Of many: a table, and what could be saved in all of them. \
Symbolic links inside of directories are not followed, and a file with several names counts once. Changes nothing.";

const STAT_EXAMPLES: &str = "\
Examples:
  thaw elf stat /usr/lib/chromium/chromium
  thaw elf stat /usr/lib /usr/bin /usr/libexec --sort internal --top 50
  thaw elf stat /opt/app --json | jq '.summary.packing'";

//! `thaw flush` and `thaw resident`: what was typed.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw flush`.
#[derive(Debug, Args)]
#[command(after_help = FLUSH_EXAMPLES)]
pub struct FlushArgs {
    /// Files and directories; directories with everything below, on one file system
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw resident`.
#[derive(Debug, Args)]
#[command(after_help = RESIDENT_EXAMPLES)]
pub struct ResidentArgs {
    /// Files and directories; directories with everything below, on one file system
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON document instead of a list
    #[arg(long)]
    pub json: bool,
}

pub(super) const FLUSH_ABOUT: &str = "\
Can these files be evicted from the page cache, and if not, why?

Evicts the data of files and says for each one that stays who maps or locks it. Needs no root for files that \
you may open. A file's metadata stays; the app state of `thaw record` evicts that too. Exit code 1 if something \
stayed.";

const FLUSH_EXAMPLES: &str = "\
Examples:
  thaw flush /usr/lib/firefox-esr
  thaw flush ~/.mozilla ~/.cache/mozilla
  thaw flush /usr/lib/x86_64-linux-gnu/libc.so.6    # it stays: every process maps it";

pub(super) const RESIDENT_ABOUT: &str = "\
Which files are in the page cache now?

Lists each file of which something is in memory: resident bytes, size and path. The list is a base list for \
`thaw record --base`: made in a session without the program, it says what the boot state warms.";

const RESIDENT_EXAMPLES: &str = "\
Examples:
  thaw resident /usr/lib/firefox-esr
  thaw resident /usr /lib /etc > base.list
  thaw resident ~/.mozilla --json | jq '.resident_bytes'";

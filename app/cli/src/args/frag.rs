//! `thaw frag`: what was typed.

use super::RowsArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw frag`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FragArgs {
    /// Files and directories; directories with everything below, on one file system
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// The disk whose seeks are counted (see `thaw io model --list`)
    #[arg(long, value_name = "NAME", default_value = "laptop2010")]
    pub disk: String,
    /// Rewrite each scattered file into fewer pieces; files that are in use are left alone
    #[arg(long)]
    pub fix: bool,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text; it has all files
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
In how many pieces do my files lie on the disk, and what lies between them?

Asks the file system where each file is (FIEMAP) and says what jumping from piece to piece costs when it is read on a \
given disk, and which files lie between. --fix puts a file together: ext4 exchanges its blocks with a contiguous \
stretch, elsewhere a copy takes its name. A file that somebody has open, that has holes or shared blocks, or would not \
gain is left as it is, with the reason; no file is ever half-written. Exit code 1 if --fix may not rewrite a scattered \
file.";

const EXAMPLES: &str = "\
Examples:
  thaw frag /usr/lib/firefox-esr
  thaw frag ~/.mozilla --disk desktop2010 --json
  thaw frag --fix ~/.mozilla/firefox/*/places.sqlite";

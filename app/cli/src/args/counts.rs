//! `thaw counts`: what was typed.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw counts`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CountsArgs {
    /// Texts; none: stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// A line weighs the last integer in it
    #[arg(short, long, short_alias = 'w', overrides_with = "fractional")]
    pub integral: bool,
    /// A line weighs the last number in it: mm or mm.nn
    #[arg(short, long, overrides_with = "integral")]
    pub fractional: bool,
    /// Count lines that differ only in their weight as one; the weight becomes NNN
    #[arg(short, long)]
    pub erase: bool,
}

pub(super) const LONG_ABOUT: &str = "\
Which lines does a text consist of, and how often does each occur?

Counts equal lines, heaviest first, with their share and the share of all down to there. Print a line from any place \
of a program, run it, count.";

const EXAMPLES: &str = "\
Examples:
  thaw heap slop thaw.heap --lines | thaw counts | head
  thaw counts -i -e allocations.log
  strace -f ls 2>&1 >/dev/null | thaw counts -e -i";

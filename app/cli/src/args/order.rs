//! `thaw order`: what was typed.

use super::ForceArg;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Who reads the order file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Linker {
    /// lld: --symbol-ordering-file=FILE
    Lld,
    /// gold: --section-ordering-file=FILE (compile with -ffunction-sections)
    Gold,
    /// GNU ld: -T FILE (compile with -ffunction-sections)
    Ld,
    /// mold has no option for it
    Mold,
}

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum List {
    /// Called by every workload.
    Hot,
    /// Called by some workloads.
    Cold,
    /// Called by none: candidates of dead code.
    Never,
    /// Object files by the first call into each, with how much of them is called (needs debug data)
    Objects,
}

/// Arguments of `thaw order`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OrderArgs {
    /// Recordings with a run of `thaw touch --engine function`; each is a workload
    #[arg(required = true, value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recordings: Vec<PathBuf>,
    /// Program or library to order [default: the program that was started]
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Where its symbols are, if it is stripped: an unstripped copy or a .debug file of the same build
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub symbols: Option<PathBuf>,
    /// For which linker
    #[arg(long = "for", value_name = "LINKER", default_value = "lld")]
    pub linker: Linker,
    /// Write the order file here and print what it would bring; without it the order file is printed
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print a list of functions or object files instead, with their sizes
    #[arg(long, value_name = "WHICH", conflicts_with = "output")]
    pub list: Option<List>,
    /// Print one JSON document instead of text; it has all functions
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
In which order should the linker lay my functions out?

From the first calls that `thaw touch --engine function` saw: functions that every workload calls come first, in the \
order of their first call, then those of some workloads, neighbours with neighbours. A start then touches few pages of \
code. Names are those of the symbol table; a stripped program needs the file that its symbols are in. Also lists what \
is called by all, by some and by none, and which object files that is in.";

const EXAMPLES: &str = "\
Examples:
  thaw order start.thaw -o app.order    # then link with -Wl,--symbol-ordering-file=app.order (lld)
  thaw order first.thaw second.thaw --for ld -o order.ld
  thaw order ff.thaw --file /usr/lib/firefox-esr/libxul.so --symbols libxul.so.debug --list never";

//! `thaw optimize`: what was typed.

use super::values::{self, DiskChoice};
use clap::{Args, ValueHint};
use model::{Bytes, CacheState};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `thaw optimize`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct OptimizeArgs {
    /// A recording of the program with a traced cold start
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present_any = ["apply", "undo", "run"])]
    pub recording: Option<PathBuf>,
    /// Where the result goes: a new or empty directory, best on the program's disk
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(required_unless_present_any = ["apply", "undo", "plan", "run"])]
    pub output: Option<PathBuf>,
    /// Replace an earlier result (other directories are never replaced); with --undo: leave what was changed since
    #[arg(long)]
    pub force: bool,
    /// Only say what would be done, and what it would gain
    #[arg(long)]
    pub plan: bool,
    /// The program's own directory, if it is not the one where its executable was installed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// Which of the recorded programs [default: the first]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Compare what this command prints and how it ends, instead of the recorded program; {root} is the program's
    /// directory
    #[arg(long, value_name = "COMMANDLINE")]
    pub check: Option<String>,

    /// Cache state to measure in: cold or app [default: cold if it was recorded, else app]
    #[arg(long, value_name = "STATE", value_parser = state, help_heading = "The measurement")]
    pub state: Option<CacheState>,
    /// Runs of each set of remedies, in random blocks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(help_heading = "The measurement")]
    pub runs: u32,
    /// The disk to predict for and to measure on: a name (see `thaw io model --list`), or throttle:iops=200,bps=30M
    /// [default: the disk of the recording]
    #[arg(long, value_name = "DISK", value_parser = disk, help_heading = "The measurement")]
    pub disk: Option<String>,
    /// Read-ahead of the disk while measuring [default: as in the recording]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "The measurement")]
    pub readahead: Option<Bytes>,

    /// Start the program with what helped: changed copies lie over its files for it alone, and what it needs is read
    /// before; words after `--` are its arguments
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["recording", "output", "apply", "undo"])]
    #[arg(help_heading = "The system")]
    pub run: Option<PathBuf>,
    /// Arguments of the program that --run starts
    #[arg(last = true, value_name = "ARGS", requires = "run", value_hint = ValueHint::Other)]
    pub words: Vec<OsString>,
    /// Change the program's files themselves as in the result; what is changed is kept for --undo
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["recording", "undo", "output"])]
    #[arg(help_heading = "The system")]
    pub apply: Option<PathBuf>,
    /// Put everything back that --apply changed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["recording", "output"])]
    #[arg(help_heading = "The system")]
    pub undo: Option<PathBuf>,
    /// With --apply: this desktop entry starts the program with its preload manifest
    #[arg(long, value_name = "NAME.desktop", requires = "apply", help_heading = "The system")]
    pub desktop: Option<String>,
    /// With --desktop: for all users instead of this one; needs root
    #[arg(long, requires = "desktop", help_heading = "The system")]
    pub system: bool,

    /// Print one JSON document instead of text
    #[arg(long, help_heading = "The answer")]
    pub json: bool,
}

fn state(word: &str) -> Result<CacheState, String> {
    match word.parse()? {
        state @ (CacheState::Cold | CacheState::App) => Ok(state),
        _ => Err(format!("nothing is read in the state {word}; write cold or app")),
    }
}

fn disk(word: &str) -> Result<String, String> {
    match values::disk_choice(word)? {
        DiskChoice::Quick(name) => Err(format!("a disk without its delays shows no gain; write {name}")),
        DiskChoice::Limit(_) | DiskChoice::Simulated(_) => Ok(word.to_owned()),
    }
}

const USAGE: &str = "\
thaw optimize [OPTIONS] RECORDING -o DIR
       thaw optimize --run DIR [-- ARGS...]
       thaw optimize --apply DIR
       thaw optimize --undo DIR";

pub(super) const LONG_ABOUT: &str = "\
Which remedies make this program start faster, and by how much?

Plans from a recording what may help (packed relocations, zip archives in the order of their use, caches of fonts, \
icons and the like, the environment of the loader and of the allocator, an image of the program's directory, reading \
ahead of the start), predicts what \
each remedy gains on the disk, makes changed copies of the files, measures starts in which they lie over the \
originals, for the program alone, against starts with unchanged copies, interleaved, and keeps in DIR the simplest set \
that no other is proven to beat. The originals are only read. \
Exit code 1: nothing helped.";

const EXAMPLES: &str = "\
Examples:
  thaw optimize ff.thaw -o ~/ff-fast
  thaw optimize ff.thaw --plan --disk laptop2010
  thaw optimize --apply ~/ff-fast --desktop firefox-esr.desktop";

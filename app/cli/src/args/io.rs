//! `thaw io`: what was typed.

use super::ForceArg;
use super::values;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw io`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct IoArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: IoVerb,
}

/// What can be done with the requests of a start.
#[derive(Debug, Subcommand)]
pub enum IoVerb {
    /// What would the start have cost on another disk, as its requests came and sorted?
    #[command(long_about = MODEL_ABOUT)]
    Model(ModelArgs),
    /// What does this disk gain when a start's requests come sorted?
    #[command(long_about = REPLAY_ABOUT)]
    Replay(ReplayArgs),
}

/// Arguments of `thaw io model`.
#[derive(Debug, Args)]
#[command(after_help = MODEL_EXAMPLES)]
pub struct ModelArgs {
    /// The recording
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath, required_unless_present = "list")]
    pub recording: Option<PathBuf>,
    /// A disk by name; `this` is measured [default: all that are known]
    #[arg(long, value_name = "NAME")]
    pub disk: Vec<String>,
    /// More disks: a file like the one that --list prints
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub disks_file: Option<PathBuf>,
    /// What to measure for the disk `this`: a block device, or a file of a few GiB on it [default: the recording's
    /// device]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub this: Option<PathBuf>,
    /// The traced start of this run [default: the first of each program]
    #[arg(long, value_name = "N")]
    pub run: Option<i64>,
    /// Print the disks with the source of every figure, as a file for --disks-file
    #[arg(long, conflicts_with_all = ["recording", "run", "this"])]
    pub list: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw io replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayArgs {
    /// The recording
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recording: PathBuf,
    /// Passes in each order
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Reads in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub depth: u32,
    /// Read the device, or the files that lie on it [default: the files if the device may not be read]
    #[arg(long, value_name = "WHAT")]
    pub through: Option<values::Through>,
    /// The traced start of this run [default: the first]
    #[arg(long, value_name = "N")]
    pub run: Option<i64>,
    /// Seed of the random order [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Read nothing: write the requests as a log for fio
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["runs", "depth", "seed"])]
    pub fio: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Version of the log: 3 has a time in every line (fio 3.31 and newer), 2 is for older ones
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    #[arg(requires = "fio")]
    pub fio_version: u8,
    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "fio")]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What would another disk, or another order, make of a start?

Both verbs take the requests of a traced start from a recording. `model` computes what they would cost on disks that \
are not here; `replay` really reads the same ranges again.";

const EXAMPLES: &str = "\
Examples:
  thaw io model ff.thaw --disk laptop2010
  thaw io model --list
  thaw io replay ff.thaw";

const MODEL_ABOUT: &str = "\
What would the start have cost on another disk, as its requests came and sorted?

Replays the requests of a traced start in models of disks: seek curve, rotation, throughput, the drive's own \
read-ahead and write cache. \"As it came\" keeps the program's own time between the requests; \"sorted\" reads \
everything in the order of the \
disk first, as a perfect prefetch would. `start` is the whole start, disk and program.";

const MODEL_EXAMPLES: &str = "\
Examples:
  thaw io model ff.thaw
  thaw io model ff.thaw --disk laptop2010 --disk this --json
  thaw io model --list > disks.toml";

const REPLAY_ABOUT: &str = "\
What does this disk gain when a start's requests come sorted?

Reads the same ranges again, past the page cache (O_DIRECT, io_uring), in the order in which they came and in the \
order of the disk, in turn. Nothing is written. Where the device itself may not be read, the ranges are read through \
their files, and the file system's metadata is left out. What the drive, or the host of a virtual machine, has in a \
cache of its own stays there.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  thaw io replay ff.thaw --runs 10
  thaw io replay ff.thaw --depth 32 --through files --json
  thaw io replay ff.thaw --fio ff.iolog";

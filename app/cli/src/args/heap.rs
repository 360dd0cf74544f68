//! `thaw heap`: what was typed.

use clap::{Args, Subcommand, ValueHint};
use heap::slop::Model;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `thaw heap`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HeapArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: HeapVerb,
}

/// What can be done with a heap.
#[derive(Debug, Subcommand)]
pub enum HeapVerb {
    /// What does my program allocate, and what does it never free?
    #[command(long_about = RUN_ABOUT)]
    Run(Box<RunArgs>),
    /// How many bytes does the allocator give that nobody asked for, and who could ask for fewer?
    #[command(long_about = SLOP_ABOUT)]
    Slop(SlopArgs),
    /// Which buffers grow too slowly, and what does that cost?
    #[command(long_about = GROWTH_ABOUT)]
    Growth(GrowthArgs),
}

/// Arguments of `thaw heap run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// Directory to make
    #[arg(short, long, value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Replace a recording that is there
    #[arg(long)]
    pub force: bool,
    /// Frames of a stack that are always there; deeper ones may be cut
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=127))]
    pub depth: u32,
    /// Record the stacks of frees too
    #[arg(long)]
    pub free_stacks: bool,
    /// Sites of leaks to print for each process
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub leaks: usize,
    /// Print one JSON document instead of text; it has all leaks
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap slop`.
#[derive(Debug, Args)]
#[command(after_help = SLOP_EXAMPLES)]
pub struct SlopArgs {
    /// A heap recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// The allocator of the tables: glibc, moz2011, moz, jemalloc5, mimalloc, tcmalloc [default: that of the process]
    #[arg(long, value_name = "ALLOCATOR")]
    pub model: Option<Model>,
    /// Frames that tell places apart
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    pub frames: u8,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print one line for each allocation instead, for thaw counts
    #[arg(long, conflicts_with = "json")]
    pub lines: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap growth`.
#[derive(Debug, Args)]
#[command(after_help = GROWTH_EXAMPLES)]
pub struct GrowthArgs {
    /// A heap recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Frames that tell places apart
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    pub frames: u8,
    /// Places to print for each process
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What does my program allocate, and what does it never free?

Records every allocation and every free of a program and of all its children, with stack, thread and time, and keeps them in a directory \
that can be asked about any moment afterwards.";

const RUN_ABOUT: &str = "\
What does my program allocate, and what does it never free?

Starts the program with a small library in it that writes down every allocation and free, in its children too, until all of them have ended; \
Ctrl-C is passed on. Then prints a summary. What a killed or crashed process did is there up to its last event.";

const SLOP_ABOUT: &str = "\
How many bytes does the allocator give that nobody asked for, and who could ask for fewer?

Rounds every request of a recording as the allocator of the process does, and as five others would. Lists size classes and places by what they waste, and \
places that ask for a little more than a power of two, with the probable cause and the size to ask for instead.";

const SLOP_EXAMPLES: &str = "\
Examples:
  thaw heap slop thaw.heap
  thaw heap slop --model jemalloc5 --top 30 ff.heap
  thaw heap slop --model moz2011 --lines thaw.heap | thaw counts | head";

const GROWTH_ABOUT: &str = "\
Which buffers grow too slowly, and what does that cost?

Follows each buffer of a recording through its sizes: by realloc, or by allocating a larger block, copying and freeing the old one (probable: seen from the \
order of events alone). Lists places that grow by a constant number of bytes, or by a small factor, with what doubling would avoid.";

const GROWTH_EXAMPLES: &str = "\
Examples:
  thaw heap growth thaw.heap
  thaw heap growth --frames 8 --top 30 ff.heap
  thaw heap growth --json thaw.heap | jq '.processes[].findings[0]'";

const EXAMPLES: &str = "\
Examples:
  thaw heap run -- python3 -c 'import json'
  thaw heap run -o build.heap -- make
  thaw heap run --free-stacks -- ./server --port 8080";

const RUN_EXAMPLES: &str = "\
Examples:
  thaw heap run -- python3 -c 'import json'
  thaw heap run -o ff.heap --force -- firefox-esr --headless --screenshot about:blank
  thaw heap run --depth 100 --json -- ./server > heap.json";

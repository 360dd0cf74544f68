//! `thaw heap`: what was typed.

use clap::{Args, Subcommand, ValueHint};
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

pub(super) const LONG_ABOUT: &str = "\
What does my program allocate, and what does it never free?

Records every allocation and every free of a program and of all its children, with stack, thread and time, and keeps them in a directory \
that can be asked about any moment afterwards.";

const RUN_ABOUT: &str = "\
What does my program allocate, and what does it never free?

Starts the program with a small library in it that writes down every allocation and free, in its children too, until all of them have ended; \
Ctrl-C is passed on. Then prints a summary. What a killed or crashed process did is there up to its last event.";

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

//! `thaw touch`: what was typed.

use super::record::app_parser;
use super::user::UserArgs;
use super::values::{self, EnvChange};
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TouchEngine {
    /// All that work here: function, and page (or, without root, probe).
    Auto,
    /// A traced cold start without read-ahead: exactly the pages that are asked for (root).
    Page,
    /// The first call of every function, by breakpoints (x86-64).
    Function,
    /// Which pages are in the cache after a start (no rights needed).
    Probe,
    /// Every byte of every mapped file, by Valgrind: takes minutes for a browser (x86-64, no rights needed).
    Byte,
}

/// Arguments of `thaw touch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct TouchArgs {
    /// The recording to show
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["command", "app", "output"])]
    pub recording: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// How to look; several with commas
    #[arg(
        long,
        value_name = "ENGINES",
        default_value = "auto",
        value_delimiter = ',',
        help_heading = "What to look at"
    )]
    pub engine: Vec<TouchEngine>,
    /// Count each call of the functions with this name and say who calls them, in place of all that: `*` stands for
    /// anything, C++ and Rust names have no parameters; once for each name
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    #[arg(help_heading = "What to look at")]
    #[arg(conflicts_with_all = ["recording", "output", "force", "file", "engine"])]
    pub calls: Vec<String>,
    /// The recording to add to, or to make [default: thaw.thaw]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "What to look at")]
    pub output: Option<PathBuf>,
    /// Replace an existing recording instead of adding to it
    #[arg(long, help_heading = "What to look at")]
    pub force: bool,
    /// Start a program that thaw knows (see `thaw presets`); words after `--` are added to its arguments
    #[arg(long, value_name = "NAME", value_parser = app_parser(), hide_possible_values = true)]
    #[arg(help_heading = "What to look at")]
    pub app: Option<String>,

    /// When has it started? As `thaw record --ready` [default: exit]
    #[arg(long, value_name = "PROBE", help_heading = "The program")]
    pub ready: Vec<String>,
    /// A run that is not ready after this time has failed
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = values::duration)]
    #[arg(help_heading = "The program")]
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL once it is ready
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    #[arg(help_heading = "The program")]
    pub grace: Duration,
    /// Put this directory back to its first state before every run (a profile)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "The program")]
    pub restore: Vec<PathBuf>,
    /// Set a variable for the program; NAME alone removes it
    #[arg(long, value_name = "NAME=VALUE", value_parser = env_parser(), help_heading = "The program")]
    pub env: Vec<EnvChange>,
    /// Directory to start in
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "The program")]
    pub cwd: Option<PathBuf>,
    #[command(flatten)]
    pub run_as: UserArgs,

    /// Show one file: all its sections, and its functions in the order of their first call
    #[arg(long, value_name = "PATH", help_heading = "The answer")]
    pub file: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 15, help_heading = "The answer")]
    pub top: usize,
    /// Print one JSON document instead of text
    #[arg(long, help_heading = "The answer")]
    pub json: bool,
}

fn env_parser() -> impl TypedValueParser<Value = EnvChange> {
    OsStringValueParser::new().try_map(values::env_change)
}

pub(super) const LONG_ABOUT: &str = "\
Which bytes does a start really need, and which functions does it call?

With a program: starts it once for each engine and adds what was seen to a recording. With a recording: shows what it \
says. `page` is a cold start without read-ahead, exact by page, and changes nothing in the program; `function` plants \
a breakpoint at every function of the program and its libraries, stripped ones too, and notes each first call; `byte` \
runs the program in Valgrind, some fifty times slower, and notes each byte; `probe` needs no rights and cannot tell \
what was needed from what was read ahead. Each engine says what it cannot know.

With --calls: starts it once and says how often the functions with these names are called, when first and last, in \
how many threads and by whom. Nothing is written into a recording.";

const USAGE: &str = "\
thaw touch [OPTIONS] [-o FILE] -- PROGRAM ARGS...
       thaw touch [OPTIONS] [-o FILE] --app NAME [-- ARGS...]
       thaw touch [OPTIONS] --calls PATTERN -- PROGRAM ARGS...
       thaw touch [OPTIONS] RECORDING";

const EXAMPLES: &str = "\
Examples:
  thaw touch -- gimp --no-interface --batch '(gimp-quit 0)'
  thaw touch --calls 'nsJAR::*' --calls malloc --app firefox-esr
  thaw touch ff.thaw --file /usr/lib/firefox-esr/libxul.so";

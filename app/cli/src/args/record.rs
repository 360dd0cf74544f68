//! `thaw record`: what was typed.

use super::around::AroundArgs;
use super::completed::completed;
use super::user::UserArgs;
use super::values::{self, DiskChoice, EnvChange, NamedCommand, NamedList, Parameter};
use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use model::{Bytes, CacheState};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// A list of cache states as one value.
#[derive(Clone, Debug)]
pub struct States(pub Vec<CacheState>);

/// A list of exit codes as one value.
#[derive(Clone, Debug)]
pub struct ExitCodes(pub Vec<RangeInclusive<i32>>);

/// What to trace with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The best that works here; each fall-back is a warning.
    Auto,
    /// perf events.
    Perf,
    /// A tracefs instance.
    Tracefs,
    /// No rights needed: which pages are in the cache after a start.
    Probe,
}

/// Whether a start without read-ahead is taken, which tells what a start needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Needed {
    /// Where root can empty the caches and trace; what goes wrong is a warning.
    #[default]
    Auto,
    /// Yes; what goes wrong is an error.
    Yes,
    /// No.
    No,
}

/// What is done to the CPUs while recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cpu {
    /// Governor `performance`, no deep idle states; put back afterwards.
    Steady,
    /// Nothing.
    AsIs,
}

/// Arguments of `thaw record`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct RecordArgs {
    /// The verb that was typed: others than `record` take its arguments, too.
    #[arg(skip = "record")]
    pub verb: &'static str,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    /// Where the recording goes
    #[arg(short, long, value_name = "FILE", default_value = "thaw.thaw", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "What to record")]
    pub output: PathBuf,
    /// Replace an existing recording; other files are never replaced
    #[arg(long, help_heading = "What to record")]
    pub force: bool,
    /// Start a program that thaw knows (see `thaw presets`); words after `--` are added to its arguments
    #[arg(long, value_name = "NAME", value_parser = app_parser(), hide_possible_values = true)]
    #[arg(help_heading = "What to record")]
    pub app: Option<String>,
    /// Cache states to start in: cold, boot, app, hot
    #[arg(long, alias = "states", value_name = "STATES", default_value = "cold,hot", value_parser = states_parser())]
    #[arg(hide_possible_values = true, help_heading = "What to record")]
    pub state: States,
    /// Runs of each state and variant, in random blocks; with --precision at least these
    #[arg(long, short, alias = "min-runs", value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(help_heading = "What to record")]
    pub runs: u32,
    /// Go on until the 95 % interval of each median is this narrow (half width), or the budget ends
    #[arg(long, value_name = "SHARE", value_parser = values::positive_share, help_heading = "What to record")]
    pub precision: Option<f64>,
    /// With --precision: at most this many runs of each state and variant [default: 1000]
    #[arg(long, value_name = "N", requires = "precision", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[arg(help_heading = "What to record")]
    pub max_runs: Option<u32>,
    /// How often the program is started before its first run that counts, and before a hot run that finds its files
    /// thrown out
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "What to record")]
    pub warmup: u32,
    /// Start no new run after this time [default with --precision: 10m]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "What to record")]
    pub budget: Option<Duration>,
    /// Another command line to measure beside the first, in the same random blocks
    #[arg(long, value_name = "NAME=COMMANDLINE", value_parser = values::named_command, help_heading = "What to record")]
    pub variant: Vec<NamedCommand>,
    /// Name of the program after -- in the report [default: the name of its file]
    #[arg(long, value_name = "NAME", help_heading = "What to record")]
    pub name: Option<String>,
    /// One variant for each value of a parameter, in the place of {NAME} in the program's words: threads=1..8,
    /// theme=dark,light; given again: all combinations
    #[arg(long, alias = "parameter-scan", alias = "parameter-list", value_name = "NAME=VALUES")]
    #[arg(value_parser = values::parameter, conflicts_with = "aa", help_heading = "What to record")]
    pub parameter: Vec<Parameter>,
    /// Measure the program against itself: the noise floor of this machine
    #[arg(long, conflicts_with = "variant", help_heading = "What to record")]
    pub aa: bool,
    /// Seed of the random order [default: from the clock; it is recorded]
    #[arg(long, value_name = "N", help_heading = "What to record")]
    pub seed: Option<u64>,

    /// When has it started? exit, line:REGEX, notify, listen:PORT, http:URL, file:PATH, fd, x11, beacon, settled;
    /// the first one given stops the clock, the others are milestones [default: exit]
    #[arg(long, value_name = "PROBE", help_heading = "When has it started")]
    pub ready: Vec<String>,
    /// A run that is not ready after this time has failed
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = values::duration)]
    #[arg(help_heading = "When has it started")]
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL once it is ready
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    #[arg(help_heading = "When has it started")]
    pub grace: Duration,
    /// Exit codes that are a success, such as 0,3 or 0-2
    #[arg(long, value_name = "CODES", default_value = "0", value_parser = parse_exit_codes)]
    #[arg(help_heading = "When has it started")]
    pub ok_exit: ExitCodes,

    /// Put this directory back to its first state before every run (a profile)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "The program's world")]
    pub restore: Vec<PathBuf>,
    /// This directory or file is the program's own: the states app and boot keep it out of memory (docs/ownership.md)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath, help_heading = "The program's world")]
    pub own: Vec<PathBuf>,
    /// Set a variable for the program; NAME alone removes it
    #[arg(long, value_name = "NAME=VALUE", value_parser = env_parser(), help_heading = "The program's world")]
    pub env: Vec<EnvChange>,
    /// Directory to start in
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "The program's world")]
    pub cwd: Option<PathBuf>,
    /// Give it a terminal instead of pipes
    #[arg(long, help_heading = "The program's world")]
    pub pty: bool,
    #[command(flatten)]
    pub run_as: UserArgs,
    #[command(flatten)]
    pub around: AroundArgs,

    /// Read-ahead of the disk while recording, such as 128K; put back afterwards [default of a simulated disk: 128K]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "The machine")]
    pub readahead: Option<Bytes>,
    /// Hold the CPUs steady while recording: governor and idle states; put back afterwards
    #[arg(long, value_name = "HOW", default_value = "as-is", help_heading = "The machine")]
    pub cpu: Cpu,
    /// How long to wait for other recordings that need the machine otherwise: another read-ahead, or an emptied page
    /// cache; 0 refuses at once
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = values::duration)]
    #[arg(help_heading = "The machine")]
    pub wait: Duration,
    /// Files that the boot state warms (made by `thaw resident`); given again: each program is measured after each of
    /// them, in the same random blocks: gnome=gnome.list kde=kde.list [default: the system's libraries that it needs]
    #[arg(long, value_name = "[NAME=]FILE", value_hint = ValueHint::FilePath, value_parser = base_parser())]
    #[arg(help_heading = "The machine")]
    pub base: Vec<NamedList>,

    /// Start from a simulated disk, such as laptop2010 (see `thaw io model --list`; quick:laptop2010 is the same
    /// without delays), or slow the machine's own down: throttle:iops=200,bps=30M
    #[arg(long, value_name = "DISK", value_parser = disk_parser(), hide_possible_values = true)]
    #[arg(help_heading = "The disk")]
    pub disk: Option<DiskChoice>,
    /// More disks to choose from: a file like the one of `thaw io model --list`
    #[arg(long, value_name = "FILE", requires = "disk", value_hint = ValueHint::FilePath, help_heading = "The disk")]
    pub disks_file: Option<PathBuf>,
    /// Have this file or directory on the simulated disk, too: a library, a profile [default: the program's
    /// directories]
    #[arg(long, value_name = "PATH", requires = "disk", value_hint = ValueHint::AnyPath, help_heading = "The disk")]
    pub disk_include: Vec<PathBuf>,
    /// Keep the simulated disk's bytes in a file in this directory [default: in memory]
    #[arg(long, value_name = "DIR", requires = "disk", value_hint = ValueHint::DirPath, help_heading = "The disk")]
    pub disk_image: Option<PathBuf>,

    /// What to trace with; a fall-back is a warning
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "The trace")]
    pub engine: Engine,
    /// Traced starts of each variant in the coldest state; beside the timed ones they show the tracer's own cost
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "The trace")]
    pub trace_runs: u32,
    /// One more traced cold start of each variant, without read-ahead: tells which of the pages read a start needs
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "The trace")]
    pub needed: Needed,
    /// Also record the events that the program writes in its traced starts (with `embed/events`), and who woke its
    /// threads: `thaw timeline path FILE` says what waited for what
    #[arg(long, help_heading = "The trace")]
    pub events: bool,
    /// The same, with the events of a file that the program writes, in any form that `thaw timeline` reads:
    /// {profile}/net.json of `chromium --log-net-log={profile}/net.json`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The trace")]
    pub events_of: Vec<PathBuf>,
    /// Also take down where the time of the traced starts goes: `thaw why FILE` says who owns each millisecond
    #[arg(long, help_heading = "The trace")]
    pub why: bool,
    /// With --why: leave out the start of each variant in which the loader is watched (with ptrace)
    #[arg(long, help_heading = "The trace")]
    pub no_loader: bool,

    /// Print one JSON document instead of text
    #[arg(long, help_heading = "The answer")]
    pub json: bool,
    #[command(flatten)]
    pub export: ExportArgs,
}

/// The export options that `record` and `report` share.
#[derive(Clone, Debug, Default, Args)]
pub struct ExportArgs {
    /// Also write JSON as hyperfine does, with more arrays
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub export_json: Option<PathBuf>,
    /// Also write one line of CSV per run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub export_csv: Option<PathBuf>,
    /// Also write a table in Markdown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub export_markdown: Option<PathBuf>,
    /// Also write the table in AsciiDoc
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub export_asciidoc: Option<PathBuf>,
    /// Also write the table for Emacs' Org mode
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub export_orgmode: Option<PathBuf>,
    /// In the exported tables, ratios are to this variant in the same state [default: to the fastest row]
    #[arg(long, value_name = "NAME", help_heading = "The answer")]
    pub reference: Option<String>,
}

impl RecordArgs {
    /// What `thaw record` does when nothing is typed; for verbs that start programs as it does.
    ///
    /// # Errors
    /// A default that does not parse: a bug.
    pub fn usual() -> model::Result<Self> {
        use clap::FromArgMatches;
        let matches = Self::augment_args(clap::Command::new("record")).try_get_matches_from(["record"]);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| model::Error::bug(format!("the defaults of record: {error}")))
    }
}

/// Cache states, for every verb that starts programs in them.
pub fn states_parser() -> impl TypedValueParser<Value = States> {
    let parser = StringValueParser::new().try_map(|text| values::states(&text).map(States));
    completed(parser, super::completed::states)
}

/// The name of a preset.
pub fn app_parser() -> impl TypedValueParser<Value = String> {
    completed(StringValueParser::new(), super::completed::apps)
}

pub(super) fn disk_parser() -> impl TypedValueParser<Value = DiskChoice> {
    let parser = StringValueParser::new().try_map(|text| values::disk_choice(&text));
    completed(parser, super::completed::disks)
}

fn parse_exit_codes(text: &str) -> Result<ExitCodes, String> {
    values::exit_codes(text).map(ExitCodes)
}

fn env_parser() -> impl TypedValueParser<Value = EnvChange> {
    OsStringValueParser::new().try_map(values::env_change)
}

fn base_parser() -> impl TypedValueParser<Value = NamedList> {
    OsStringValueParser::new().try_map(values::named_list)
}

pub(super) const LONG_ABOUT: &str = "\
How long does my program take to start, cold and hot, and what does it wait for?

Starts the program in each cache state (cold: nothing in memory; boot: only the base system; app: everything but the \
program's own files; hot: everything), in random order, and proves the state before each run. Traced starts, apart \
from the timed ones, tell which files were read and what the program waited for. Everything goes into one file; the \
answer is printed. With --disk NAME the program's own files are copied to a simulated disk that takes as long for each \
request as that disk would. Needs root for cold, boot and --disk; without, it says what still works.";

const USAGE: &str = "\
thaw record [OPTIONS] -- PROGRAM ARGS...
       thaw record [OPTIONS] --app NAME [-- ARGS...]";

const EXAMPLES: &str = "\
Examples:
  thaw record -o ff.thaw --app firefox-esr
      Firefox from Debian's packages with a fresh profile: 10 cold and 10 hot starts.
  thaw record --state cold,boot,app,hot --disk laptop2010 -- gimp -n
      Four states, with gimp's files on a laptop's disk of 2010.
  thaw record --ready line:Listening --variant lazy='./server --lazy' --precision 1% -- ./server
      Two ways of starting, interleaved, until each median is known to 1 %; the clock stops at the line.";

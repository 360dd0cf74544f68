//! `thaw timeline`: what was typed.

use super::{ForceArg, RowsArgs};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `thaw timeline`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TimelineArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: TimelineVerb,
}

/// What to do with events.
#[derive(Debug, Subcommand)]
pub enum TimelineVerb {
    /// What waited longest, and which types of objects wait most?
    #[command(long_about = REPORT_ABOUT, after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// What does an unmodified program wait for, by the probes that it offers?
    #[command(long_about = RECORD_ABOUT, after_help = RECORD_EXAMPLES)]
    Record(RecordArgs),
    /// Which probes does a program or library offer?
    #[command(long_about = PROBES_ABOUT, after_help = PROBES_EXAMPLES)]
    Probes(ProbesArgs),
    /// How do I look at events with the tool that I know?
    #[command(long_about = EXPORT_ABOUT, after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Switch events of running programs on
    #[command(long_about = START_ABOUT, after_help = START_EXAMPLES)]
    Start(SwitchArgs),
    /// Switch events of running programs off; their files stay
    #[command(long_about = STOP_ABOUT, after_help = STOP_EXAMPLES)]
    Stop(SwitchArgs),
}

/// Arguments of `thaw timeline report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of events, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// What the lines of a MOZ_LOG mean, beside the built-in rules (docs/timeline-imports.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Probes to listen to, PROVIDER:NAME; `*` stands for anything
    #[arg(long, required = true, value_name = "PROBES", value_delimiter = ',')]
    pub usdt: Vec<String>,
    /// A library or another program that has some of them, beside the program itself
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Vec<PathBuf>,
    /// Directory to write to, one file of events for each process
    #[arg(short, long, value_name = "DIR", default_value = "thaw.events", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub run_as: super::user::UserArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Arguments of `thaw timeline probes`.
#[derive(Debug, Args)]
pub struct ProbesArgs {
    /// Programs or libraries
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// File of events, of any form that thaw reads
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: TimelineFormat,
    /// File to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What the lines of a MOZ_LOG mean, beside the built-in rules (docs/timeline-imports.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
}

/// Formats of `thaw timeline export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineFormat {
    /// Chrome's trace event JSON: DevTools, ui.perfetto.dev
    Chrome,
    /// Perfetto's protobuf, with links as flows: ui.perfetto.dev, trace_processor
    Perfetto,
    /// Processed profile: profiler.firefox.com
    Firefox,
    /// Work of each thread: speedscope.app
    Speedscope,
    /// An interval a line
    Csv,
    /// An event a line, as it was read
    CsvEvents,
}

/// Arguments of `thaw timeline start` and `stop`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Files that running programs write, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

pub(super) const LONG_ABOUT: &str = "\
What waits for what, by the events that a program writes?

A program that includes thaw_events.h, or uses the crate thawlab-events, says when an object begins to wait, is \
worked on and is done. It does so when the environment variable THAW_EVENTS names a directory: each process makes one \
file there, which outlives it.";

const EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline stop /tmp/events";

const REPORT_ABOUT: &str = "\
What waited longest, and which types of objects wait most?

Puts the events of each process together: from the moment an object begins to wait, or is worked on, until it is \
done. Says what the file lost. Reads what other programs write too: Chromium's net-log, Chrome traces, HTTP archives, \
profiles and MOZ_LOG of Firefox, Perfetto's traces.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline report net-log.json --all
  thaw timeline report /tmp/events --json";

const RECORD_ABOUT: &str = "\
What does an unmodified program wait for, by the probes that it offers?

Many programs and runtimes have places that tracers may listen to (USDT, as sys/sdt.h makes them): Python says what it \
imports, PostgreSQL which lock it waits for. Starts the program with the kernel noting each hit of the wanted probes, \
at all places that the compiler made of them, and writes what they say as a program would that has events of its own. \
Pairs such as X__start and X__done are an interval; a pair whose name ends in wait is a wait. Needs root; a hit costs \
the program about a fifth of a microsecond.";

const RECORD_EXAMPLES: &str = "\
Examples:
  thaw timeline record --usdt 'python:import*' -- /usr/bin/python3.11 -c 'import json'
  thaw timeline record --usdt 'postgresql:*wait*' --user postgres -- postgres -D DATA
  thaw timeline record --usdt 'libstdcxx:throw' --file libstdc++.so.6 -- ./program";

const PROBES_ABOUT: &str = "\
Which probes does a program or library offer?

Lists what the notes of the file say (.note.stapsdt): provider, name, how many places the compiler made of it, and how \
many arguments can be read.";

const PROBES_EXAMPLES: &str = "\
Examples:
  thaw timeline probes /usr/bin/python3.11
  thaw timeline probes /usr/lib/postgresql/15/bin/postgres --json";

const EXPORT_ABOUT: &str = "\
How do I look at events with the tool that I know?

Reads a file of any form and writes it in another one, with waits and work told apart where the format can.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline export /tmp/events/4711.events --format perfetto -o start.pftrace
  thaw timeline export net-log.json --format csv -o net-log.csv";

const START_ABOUT: &str = "\
Which running programs shall write events from now on?

Switches on those that were started with THAW_EVENTS=DIR,off, or were stopped; each obeys at its next event.";

const START_EXAMPLES: &str = "\
Examples:
  thaw timeline start /tmp/events
  thaw timeline start /tmp/events/4711.events";

const STOP_ABOUT: &str = "\
Which running programs shall write no more events?

What they wrote stays; `thaw timeline start` lets them go on.";

const STOP_EXAMPLES: &str = "\
Examples:
  thaw timeline stop /tmp/events
  thaw timeline stop /tmp/events/4711.events";

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
    /// How do I ask in SQL what waited, in events of any form?
    #[command(long_about = IMPORT_ABOUT, after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// What has to be faster for the whole to be faster? (the critical path)
    #[command(long_about = PATH_ABOUT, after_help = PATH_EXAMPLES)]
    Path(PathArgs),
    /// What is waited for, all waits added up?
    #[command(long_about = WAITS_ABOUT, after_help = WAITS_EXAMPLES)]
    Waits(WaitsArgs),
    /// What would it bring? (more of a resource, something faster, something gone)
    #[command(name = "whatif", long_about = WHATIF_ABOUT, after_help = WHATIF_EXAMPLES)]
    WhatIf(WhatIfArgs),
    /// What has changed on the critical path from one trace to another?
    #[command(long_about = COMPARE_ABOUT, after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Switch events of running programs on
    #[command(long_about = START_ABOUT, after_help = START_EXAMPLES)]
    Start(SwitchArgs),
    /// Switch events of running programs off; their files stay
    #[command(long_about = STOP_ABOUT, after_help = STOP_EXAMPLES)]
    Stop(SwitchArgs),
    /// What did a program that still runs do until now?
    #[command(long_about = SNAPSHOT_ABOUT, after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotArgs),
}

/// Arguments of `thaw timeline report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files of events, or directories with such files
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Write a page for the browser instead: a tape for each object, its links, everything about one object
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
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

/// What is read of a file, and how.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What the lines of a MOZ_LOG mean, beside the built-in rules (docs/timeline-imports.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// Of a recording (`thaw record --events`): the run whose events are meant [default: its first with events]
    #[arg(long, value_name = "N")]
    pub run: Option<i64>,
}

/// Arguments of `thaw timeline waits`.
#[derive(Debug, Args)]
pub struct WaitsArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Between which moments.
#[derive(Debug, Args)]
pub struct EndsArgs {
    /// Where the path begins: a time from the beginning (12.5ms), an object's name or a type [default: the first event]
    #[arg(long, value_name = "TIME|NAME|TYPE")]
    pub from: Option<String>,
    /// Where it ends: a time, an object's name or a type [default: what ended last]
    #[arg(long, value_name = "TIME|NAME|TYPE")]
    pub to: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub rules: RulesArgs,
}

/// Arguments of `thaw timeline path`.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub ends: EndsArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
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
    #[command(flatten)]
    #[allow(missing_docs)]
    pub rules: RulesArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
}

/// Arguments of `thaw timeline import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Recording to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What the lines of a MOZ_LOG mean, beside the built-in rules (docs/timeline-imports.md)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// Replace a recording that is there
    #[arg(long)]
    pub force: bool,
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

/// Arguments of `thaw timeline whatif`.
#[derive(Debug, Args)]
pub struct WhatIfArgs {
    /// Files of events, or directories with such files; several are joined if they are on one clock
    #[arg(required = true, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// So many can have this resource at once; without any change, the resources are listed
    #[arg(long, value_name = "NAME=N", value_parser = resource)]
    pub resource: Vec<(String, usize)>,
    /// Work and unexplained waits of this type (a::* is all of a namespace) are so many times as fast
    #[arg(long, value_name = "TYPE=FACTOR", value_parser = faster)]
    pub faster: Vec<(String, f64)>,
    /// This object, or all of this type, is not there
    #[arg(long, value_name = "OBJECT|TYPE")]
    pub without: Vec<String>,
    #[command(flatten)]
    pub ends: EndsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw timeline compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The file of events, or the directory with such files, from before
    #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
    pub before: PathBuf,
    /// The one from after
    #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
    pub after: PathBuf,
    #[command(flatten)]
    pub ends: EndsArgs,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// A name and what follows its last equals sign.
fn named(word: &str) -> Result<(String, &str), String> {
    let (name, value) = word.rsplit_once('=').ok_or("there is no =")?;
    if name.is_empty() { Err("there is no name before the =".into()) } else { Ok((name.to_owned(), value)) }
}

fn resource(word: &str) -> Result<(String, usize), String> {
    let (name, count) = named(word)?;
    let count = count.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    Ok((name, count.ok_or("the count is a whole number from 1 to 1000000")?))
}

fn faster(word: &str) -> Result<(String, f64), String> {
    let (name, factor) = named(word)?;
    let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
    Ok((name, factor.ok_or("the factor is a number above 0")?))
}

/// Arguments of `thaw timeline start` and `stop`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// Running programs, files that they write, or directories with such files
    #[arg(required = true, value_name = "PID|FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
}

/// Arguments of `thaw timeline snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// The running program, or the file that it writes
    #[arg(value_name = "PID|FILE", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
}

pub(super) const LONG_ABOUT: &str = "\
What waits for what, by the events that a program writes?

A program that includes thaw_events.h, or uses the crate thawlab-events, says when an object begins to wait, is \
worked on and is done. It does so when the environment variable THAW_EVENTS names a directory: each process makes one \
file there, which outlives it.";

const EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline path /tmp/events
  thaw timeline stop /tmp/events";

const REPORT_ABOUT: &str = "\
What waited longest, and which types of objects wait most?

Puts the events of each process together: from the moment an object begins to wait, or is worked on, until it is \
done. Says what the file lost. Reads what other programs write too: Chromium's net-log, Chrome traces, HTTP archives, \
profiles and MOZ_LOG of Firefox, Perfetto's traces, directories of LTTng. --html writes a page instead, with all \
files on one time axis.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline report /tmp/events
  thaw timeline report net-log.json --all
  thaw timeline report /tmp/events --html events.html";

const RECORD_ABOUT: &str = "\
What does an unmodified program wait for, by the probes that it offers?

Many programs and runtimes have places that tracers may listen to (USDT, as sys/sdt.h makes them): Python says what it \
imports, PostgreSQL which lock it waits for. Starts the program with the kernel noting each hit of the wanted probes, \
at all places that the compiler made of them, and writes what they say as a program would that has events of its own. \
Pairs such as X__start and X__done are an interval; a pair whose name ends in wait is a wait. Needs root; a \
hit is a trap into the kernel.";

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

const IMPORT_ABOUT: &str = "\
How do I ask in SQL what waited, in events of any form?

Reads files of events and writes what they tell as tables of a recording without starts, links between processes and \
all. Every verb of thaw timeline reads that recording as it reads the files, thaw view shows it, thaw query answers \
questions (docs/recording.md has the tables).";

const IMPORT_EXAMPLES: &str = "\
Examples:
  thaw timeline import net-log.json -o net-log.thaw
  thaw query net-log.thaw \"select type, sum(took_s) from v_intervals group by type\"";

const PATH_ABOUT: &str = "\
What has to be faster for the whole to be faster?

Walks back in time from what ended last (or from --to), from hand-over to hand-over: at the end of each wait it looks \
for a link, then for who held the resource before, then for what the thread ran meanwhile. Every nanosecond has one \
owner and a class that says how it is known; what nothing tells is unexplained.";

const PATH_EXAMPLES: &str = "\
Examples:
  thaw timeline path /tmp/events
  thaw timeline path /tmp/events --from net::open --to 'first paint'
  thaw timeline path /tmp/events --to 350ms --json";

const WAITS_ABOUT: &str = "\
What is waited for, all waits added up?

By type, by object, and by what was waited for: who released it, who held the resource, what its thread ran.";

const WAITS_EXAMPLES: &str = "\
Examples:
  thaw timeline waits /tmp/events
  thaw timeline waits /tmp/events --top 5 --json";

const WHATIF_ABOUT: &str = "\
What would it bring to have more of a resource, something faster, or something gone?

Goes through all intervals again by what had to happen before what, with the changes and with so many of each \
resource. It first replays the trace unchanged: how far that is from what was measured is the error, which is printed \
with the answer.";

const WHATIF_EXAMPLES: &str = "\
Examples:
  thaw timeline whatif /tmp/events --resource pool::in_use=12
  thaw timeline whatif /tmp/events --faster 'disk::*=4' --without http://localhost/slow.js
  thaw timeline whatif /tmp/events";

const COMPARE_ABOUT: &str = "\
What has changed on the critical path from one trace to another?

Steps of the same object and type are laid side by side in their order; the others are new or gone. Objects are known \
by their names.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  thaw timeline compare before/ after/
  thaw timeline compare before.events after.events --to 'first paint' --json";

const START_ABOUT: &str = "\
Which running programs shall write events from now on?

Switches on those that were started with THAW_EVENTS=DIR,off, or were stopped; each obeys at its next event.";

const START_EXAMPLES: &str = "\
Examples:
  thaw timeline start /tmp/events
  thaw timeline start 4711";

const STOP_ABOUT: &str = "\
Which running programs shall write no more events?

What they wrote stays; `thaw timeline start` lets them go on.";

const STOP_EXAMPLES: &str = "\
Examples:
  thaw timeline stop /tmp/events
  thaw timeline stop 4711";

const SNAPSHOT_ABOUT: &str = "\
What did a program that still runs do until now?

Copies what is in its ring, or in the file that grows, while it goes on writing: of each thread all events between the \
first and the last one that are copied. Keep a ring in a program that runs for weeks, and take it when something odd \
has happened.";

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  thaw timeline snapshot 4711 -o odd.events
  thaw timeline snapshot /tmp/events/4711.events -o odd.events --force";

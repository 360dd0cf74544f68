//! `thaw memory`: what was typed.

use super::ForceArg;
use super::heap::Moment;
use super::values;
use clap::{ArgGroup, Args, Subcommand, ValueHint};
use regex::Regex;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `thaw memory`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct MemoryArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: MemoryVerb,
}

/// What can be done with memory reports.
#[derive(Debug, Subcommand)]
pub enum MemoryVerb {
    /// What does a program use its memory for, by its own account?
    #[command(long_about = SHOW_ABOUT)]
    Show(ShowArgs),
    /// What has changed between two memory reports, or between two watches?
    #[command(long_about = DIFF_ABOUT)]
    Diff(DiffArgs),
    /// How much memory does a program have over time?
    #[command(long_about = WATCH_ABOUT)]
    Watch(WatchArgs),
    /// Where in a watch is the moment that I want to compare?
    #[command(long_about = MARK_ABOUT)]
    Mark(MarkArgs),
    /// How much memory do versions of a program have after each step of a scenario?
    #[command(long_about = COURSE_ABOUT)]
    Course(CourseArgs),
}

/// Which part of a report is shown, and how.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// All nodes in bytes, not only those with 1 % of their tree
    #[arg(long, short)]
    pub verbose: bool,
    /// Only processes whose name holds this
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Only paths that hold this
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Only paths that this regular expression fits somewhere
    #[arg(long, value_name = "PATTERN")]
    pub regex: Option<Regex>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
    /// Write a page for the browser instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["json", "verbose"])]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
}

/// Arguments of `thaw memory show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES, group = ArgGroup::new("source").required(true))]
pub struct ShowArgs {
    /// A saved memory report (also .gz, also of Firefox), or a watch; a number that names no file is a process
    #[arg(value_name = "FILE", group = "source", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Ask this running program; it has thaw_memreport in it
    #[arg(long, value_name = "PID", group = "source")]
    pub pid: Option<u32>,
    /// Let the program give back what it can do without first
    #[arg(long, requires = "pid")]
    pub minimize: bool,
    /// Let it list the blocks that its reporters measured, for thaw heap dark
    #[arg(long, requires = "pid", requires = "output")]
    pub blocks: bool,
    /// Make a tree of a heap recording, by rules: for programs that report nothing
    #[arg(long, value_name = "DIRECTORY", group = "source", value_hint = ValueHint::DirPath)]
    pub from_heap: Option<PathBuf>,
    /// Rules that go before those of thaw: what a block is for, by its stack (docs/memory.md)
    #[arg(long, value_name = "FILE", requires = "from_heap", value_hint = ValueHint::FilePath)]
    pub rules: Vec<PathBuf>,
    /// Of a heap recording: peak (if nothing is said), end, or seconds since it began
    #[arg(long, value_name = "MOMENT", requires = "from_heap")]
    pub at: Option<Moment>,
    /// Save the report too, packed if the name ends in .gz; about:memory of Firefox can load it
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub look: LookArgs,
}

impl ShowArgs {
    /// The program to ask, if there is no file to read.
    pub fn pid(&self) -> Option<u32> {
        let number = || {
            let file = self.file.as_deref().filter(|file| !file.exists())?;
            file.to_str()?.parse().ok()
        };
        self.pid.or_else(number)
    }
}

/// Arguments of `thaw memory diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// Before: a memory report, a watch, or a directory with the watches of several runs
    #[arg(value_name = "FIRST", value_hint = ValueHint::FilePath)]
    pub first: PathBuf,
    /// After: the same kind of file
    #[arg(value_name = "SECOND", value_hint = ValueHint::FilePath)]
    pub second: PathBuf,
    /// Of two watches: the trees at this checkpoint
    #[arg(long, value_name = "NAME")]
    pub at: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub look: LookArgs,
}

/// Arguments of `thaw memory watch`.
#[derive(Debug, Args)]
#[command(after_help = WATCH_EXAMPLES, group = ArgGroup::new("program").required(true))]
pub struct WatchArgs {
    /// A process that runs; it and all below it are watched
    #[arg(value_name = "PID", group = "program")]
    pid: Option<u32>,
    /// The same; as --pid of other verbs
    #[arg(long = "pid", value_name = "PID", group = "program")]
    pid_option: Option<u32>,
    /// Program and arguments
    #[arg(last = true, value_name = "PROGRAM", group = "program", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "thaw.memory", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    pub interval: Duration,
    /// End the watch after so long, and the program with it if it was started
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub end: Option<Duration>,
    #[command(flatten)]
    pub run_as: super::user::UserArgs,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

impl WatchArgs {
    /// The process, if none is to be started.
    pub fn pid(&self) -> Option<u32> {
        self.pid.or(self.pid_option)
    }
}

/// Arguments of `thaw memory mark`.
#[derive(Debug, Args)]
#[command(after_help = MARK_EXAMPLES)]
pub struct MarkArgs {
    /// Name of the checkpoint
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The watch
    #[arg(long, short, value_name = "FILE", default_value = "thaw.memory", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Arguments of `thaw memory course`.
#[derive(Debug, Args)]
#[command(after_help = COURSE_EXAMPLES)]
pub struct CourseArgs {
    /// The scenario (docs/memory.md); or the directory of a course that was run, which is shown again
    #[arg(value_name = "SCENARIO", value_hint = ValueHint::AnyPath)]
    pub scenario: PathBuf,
    /// Where the watches go: a new or empty directory
    #[arg(short, long, value_name = "DIR", default_value = "thaw.course", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// How often each version goes through the steps, in the place of what the scenario says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub iterations: Option<u32>,
    /// Seed of the order in which the versions take their turns [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write a page for the browser: a chart by version, trees at each checkpoint, what changed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What does a program use its memory for, and how does that change?

Shows what a program says about its own memory, as about:memory does: Firefox, or any program with thaw_memreport in \
it. Compares two such reports, and watches the resident memory of any program over time.";

const SHOW_ABOUT: &str = "\
What does a program use its memory for, by its own account?

Prints the explicit tree, what nobody reported of the heap (heap-unclassified), and the other measurements. Reads what \
Firefox saves (about:memory, or kill -34 PID), plain or packed. Of a program with thaw_memreport it also says which \
reporters count too much, too little, twice, or blocks that are none. Of a watch it shows the checkpoints. Of a \
program that reports nothing, a heap recording and rules make such a tree.";

const DIFF_ABOUT: &str = "\
What has changed between two memory reports, or between two watches?

Numbers of processes and threads, addresses and what else is different in each run are taken out of the names first. \
[+] is only in the second, [-] only in the first. Of two watches it compares the checkpoints of the same name, the \
peaks and the ends; of two directories of watches their medians.";

const WATCH_ABOUT: &str = "\
How much memory does a program have over time?

Writes down RSS, PSS and USS of all its processes, once per interval, until it ends or Ctrl-C. Checkpoints are set by \
`thaw memory mark`, or by pressing Enter (a name may be typed before it); programs with thaw_memreport report their \
trees there. Every line of the file is complete at once.";

const MARK_ABOUT: &str = "\
Where in a watch is the moment that I want to compare?

Looks at the program that is being watched now, and adds a checkpoint with this name to the watch.";

const COURSE_ABOUT: &str = "\
How much memory do versions of a program have after each step of a scenario?

Drives each version through the steps of a file (pages loaded in a browser, waits, commands, tabs closed), in turns, \
five times if nothing is said, and looks at each checkpoint: RSS, PSS, USS, what the memory lies in by the kernel's \
account, and what the program itself reports. The medians of the versions stand side by side, with intervals. Each run \
leaves a watch: `thaw memory diff DIR/v1 DIR/v2` compares two versions, --at NAME the trees of two runs.";

const COURSE_EXAMPLES: &str = "\
Examples:
  thaw memory course scenario.toml -o course --html course.html
  thaw memory course course                        # again, of what was run
  thaw memory diff course/v1/3.memory course/v2/3.memory --at loaded";

const EXAMPLES: &str = "\
Examples:
  thaw memory show memory-report.json.gz
  thaw memory watch -- firefox-esr
  thaw memory diff old.json.gz new.json.gz";

const SHOW_EXAMPLES: &str = "\
Examples:
  thaw memory show --pid 4711 -o now.json.gz
  thaw memory show unified-memory-report.json.gz --process Main --verbose
  thaw memory show --from-heap thaw.heap --at peak";

const DIFF_EXAMPLES: &str = "\
Examples:
  thaw memory diff before.json.gz after.json.gz
  thaw memory diff v1.memory v2.memory --at loaded --verbose
  thaw memory diff runs-of-v1 runs-of-v2";

const WATCH_EXAMPLES: &str = "\
Examples:
  thaw memory watch -o v1.memory -- firefox-esr
  thaw memory watch 4711 --interval 100ms --end 30s
  thaw memory watch --json -- ./server > summary.json";

const MARK_EXAMPLES: &str = "\
Examples:
  thaw memory mark loaded
  sleep 30; thaw memory mark '+30 s'
  thaw memory mark closed --file v1.memory";

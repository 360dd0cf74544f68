//! `thaw heap`: what was typed.

use super::ForceArg;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use heap::modes::{Measure, Reach, Window};
use heap::slop::Model;
use heaprec::record::States;
use model::{Bytes, Error, Exit, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

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
    /// What does a program allocate that is running already?
    #[command(long_about = ATTACH_ABOUT)]
    Attach(AttachArgs),
    /// Which blocks can a program that is being recorded no longer reach?
    #[command(long_about = CHECK_ABOUT)]
    Check(CheckArgs),
    /// What does the resident memory of a program that is being recorded consist of, and who made it?
    #[command(long_about = RESIDENT_ABOUT)]
    Resident(ResidentArgs),
    /// How do I make a recording small whose thaw was killed, or that was made with --raw?
    #[command(long_about = FINISH_ABOUT)]
    Finish(FinishArgs),
    /// How many bytes does the allocator give that nobody requested, and who could request fewer?
    #[command(long_about = SLOP_ABOUT)]
    Slop(SlopArgs),
    /// Which buffers grow too slowly, and what does that cost?
    #[command(long_about = GROWTH_ABOUT)]
    Growth(GrowthArgs),
    /// Which code allocated it, and what was live when?
    #[command(long_about = REPORT_ABOUT)]
    Report(Box<ReportArgs>),
    /// Which blocks does no memory reporter of the program know, or more than one?
    #[command(long_about = DARK_ABOUT)]
    Dark(DarkArgs),
    /// What does the second recording allocate that the first did not?
    #[command(long_about = DIFF_ABOUT)]
    Diff(Box<DiffArgs>),
    /// How do I look at a recording with the tool that I know?
    #[command(long_about = EXPORT_ABOUT)]
    Export(Box<ExportArgs>),
}

/// Which blocks are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// All blocks that were made
    Cumulative,
    /// Blocks that are live at a moment
    Live,
    /// Blocks that are live at the end
    Leaks,
    /// Leaks that nothing points to (after --leak-check)
    Lost,
    /// Leaks that only lost blocks point to (after --leak-check)
    IndirectlyLost,
    /// Leaks whose middle something points to (after --leak-check)
    PossiblyLost,
    /// Blocks that the program could still reach when it exited (after --leak-check)
    StillReachable,
    /// Blocks that were freed by the next thing that their thread did
    Temporary,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// When a process had the most bytes live.
    Peak,
    /// The end.
    End,
    /// Seconds since the beginning of the recording.
    At(f64),
}

impl std::str::FromStr for Moment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "peak" => Ok(Self::Peak),
            "end" => Ok(Self::End),
            number => seconds(number).map(Self::At),
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('s').parse().map_err(|_| "not a number of seconds")?;
    (0.0..1e9).contains(&number).then_some(number).ok_or_else(|| "not a time within a recording".into())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().map_err(|_| "not a number of percent")?;
    (0.0..=100.0).contains(&number).then_some(number).ok_or_else(|| "not between 0 and 100".into())
}

/// What of a recording is looked at.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// Which blocks
    #[arg(long, value_enum, value_name = "MODE", default_value = "cumulative")]
    pub mode: Mode,
    /// With --mode live: peak (if nothing is said), end, or seconds since the recording began
    #[arg(long, value_name = "MOMENT")]
    pub at: Option<Moment>,
    /// Only blocks made after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub since: Option<f64>,
    /// Look at the recording as if it had ended after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub until: Option<f64>,
    /// Only stacks with a frame in an object whose path has this text (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub module: Vec<String>,
    /// Only stacks with a function whose name has this text (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub function: Vec<String>,
    /// Only blocks that this thread made: number or name (repeatable)
    #[arg(long, value_name = "THREAD")]
    pub thread: Vec<String>,
    /// Only this process (repeatable)
    #[arg(long, value_name = "PID")]
    pub process: Vec<u32>,
    /// Only sites with at least so many bytes
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = super::values::size)]
    pub min_bytes: Bytes,
    /// Without stacks that this file lists, as LeakSanitizer reads it: lines leak:FUNCTION, FILE or OBJECT (repeatable)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub suppressions: Vec<PathBuf>,
}

impl LookArgs {
    /// Which blocks of which time; all that were ever made if nothing was typed.
    ///
    /// # Errors
    /// What was typed contradicts itself.
    pub fn meant(&self) -> model::Result<(Measure, Window)> {
        let ns = |seconds: f64| Nanos((seconds * 1e9).round() as u64);
        let mut until = self.until;
        if self.at.is_some() && self.mode != Mode::Live {
            return Err(Error::new(Exit::Usage, "a moment is for what is live", "--at").hint("add --mode live"));
        }
        let measure = match (self.mode, self.at) {
            (Mode::Cumulative, _) => Measure::Made,
            (Mode::Temporary, _) => Measure::Temporary,
            (Mode::Leaks, _) | (Mode::Live, Some(Moment::End)) => Measure::End,
            (Mode::Lost, _) => Measure::Reached(Reach::Lost),
            (Mode::IndirectlyLost, _) => Measure::Reached(Reach::Indirect),
            (Mode::PossiblyLost, _) => Measure::Reached(Reach::Possible),
            (Mode::StillReachable, _) => Measure::Reached(Reach::Reachable),
            (Mode::Live, None | Some(Moment::Peak)) => Measure::Peak,
            (Mode::Live, Some(Moment::At(seconds))) => {
                if until.is_some() {
                    return Err(Error::new(Exit::Usage, "a moment was given twice", "--at, --until")
                        .hint("--at SECONDS already looks at the recording as if it had ended then"));
                }
                until = Some(seconds);
                Measure::End
            }
        };
        let window = Window { since_ns: ns(self.since.unwrap_or(0.0)), until_ns: until.map(ns) };
        if window.until_ns.is_some_and(|until| until < window.since_ns) {
            return Err(Error::new(Exit::Usage, "the time ends before it begins", "--since"));
        }
        Ok((measure, window))
    }
}

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TreeShape {
    /// From the outermost function in
    Down,
    /// From the allocating function to its callers
    Up,
    /// By object, then function
    Module,
}

/// Arguments of `thaw heap report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// The recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// What is looked at.
    #[command(flatten)]
    pub look: LookArgs,
    /// Print a tree instead of sites
    #[arg(long, value_enum, value_name = "SHAPE")]
    pub tree: Option<TreeShape>,
    /// Sites to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Stacks that agree in so many innermost frames are one site
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: u16,
    /// Show functions that only hand memory on, such as operator new, malloc wrappers and allocators; sites begin with
    /// who wanted it otherwise
    #[arg(long)]
    pub alloc_functions: bool,
    /// Nodes of a tree with less than this share of all bytes are left out
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub threshold: f64,
    /// Exit code 1 if there is a site: for CI, with --mode lost
    #[arg(long, conflicts_with = "html")]
    pub fail_if_any: bool,
    /// Write folded stacks, as flame graph tools read them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub folded: Option<PathBuf>,
    /// Write a page for the browser instead: memory over time, trees, flame graph, slop, growth
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["json", "tree", "folded"])]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap dark`.
#[derive(Debug, Args)]
#[command(after_help = DARK_EXAMPLES)]
pub struct DarkArgs {
    /// The recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// A memory report of the same process with its blocks: thaw memory show --pid PID --blocks -o FILE
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub reported: PathBuf,
    /// Rows of each section
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Stacks that agree in so many innermost frames are one row
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: u16,
    /// Show functions that only hand memory on, such as operator new, malloc wrappers and allocators; rows begin with
    /// who wanted it otherwise
    #[arg(long)]
    pub alloc_functions: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// The first recording
    #[arg(value_name = "BEFORE", value_hint = ValueHint::DirPath)]
    pub before: PathBuf,
    /// The second one
    #[arg(value_name = "AFTER", value_hint = ValueHint::DirPath)]
    pub after: PathBuf,
    /// What is looked at.
    #[command(flatten)]
    pub look: LookArgs,
    /// Changes to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Stacks that agree in so many innermost frames are one site
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: u16,
    /// Show functions that only hand memory on, such as operator new, malloc wrappers and allocators; sites begin with
    /// who wanted it otherwise
    #[arg(long)]
    pub alloc_functions: bool,
    /// Write a page for the browser instead: the difference as a tree, and both recordings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print one JSON document instead of text; it has all changes
    #[arg(long)]
    pub json: bool,
}

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// DMD's JSON, version 5: dmd.py
    Dmd,
    /// DHAT's JSON, version 2: dh_view.html
    Dhat,
    /// pprof's protocol buffer, gzipped: pprof
    Pprof,
    /// A processed profile of the Firefox Profiler
    Firefox,
    /// heaptrack's events, version 3: heaptrack_print, heaptrack_gui
    Heaptrack,
    /// Massif's snapshots: ms_print
    Massif,
    /// Folded stacks: flame graph tools
    Folded,
    /// speedscope's JSON
    Speedscope,
    /// LogAlloc's lines: logalloc-replay
    Logalloc,
    /// OpenMetrics' text, of the live blocks: Prometheus, node_exporter's textfile collector
    Openmetrics,
}

/// Arguments of `thaw heap export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// The recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Format,
    /// File to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// With --format dmd: DMD's dark matter, at the moment of this memory report, which lists its blocks (thaw memory
    /// show --blocks)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["mode", "at", "since", "until", "module", "function", "thread", "min_bytes"],
        conflicts_with = "suppressions")]
    pub reported: Option<PathBuf>,
    /// What is looked at.
    #[command(flatten)]
    pub look: LookArgs,
}

/// Which states of the sums of a long run stay.
#[derive(Debug, Args)]
pub struct StatesArgs {
    /// With --aggregate: keep a state of the sums every so many seconds (or 5m, 1h), so that --at, --since and --until
    /// can be asked for
    #[arg(long, value_name = "TIME", requires = "aggregate", value_parser = super::values::duration)]
    every: Option<Duration>,
    /// With --every: for how long each is kept
    #[arg(long, value_name = "TIME", requires = "every", default_value = "24h", value_parser = super::values::duration)]
    keep: Duration,
}

impl StatesArgs {
    /// What was typed.
    pub fn states(&self) -> Option<States> {
        self.every.map(|every| States { every, keep: self.keep })
    }
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
    /// Leave the functions of Python programs out: stacks are those of native code
    #[arg(long)]
    pub native_stacks: bool,
    /// Leave the events as the program wrote them: exact times, many times the space
    #[arg(long)]
    pub raw: bool,
    /// Record one block for about so many bytes, for long runs: 512KiB. Sums are estimates then; see docs/heap.md
    #[arg(long, value_name = "BYTES", value_parser = super::values::size)]
    pub sample: Option<Bytes>,
    /// Add events up while the program runs and keep sums only, for long runs: disk use stays small; moments, marks,
    /// threads, growth and logs of events cannot be asked for afterwards
    #[arg(long, conflicts_with = "raw")]
    pub aggregate: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub states: StatesArgs,
    /// Stop each process when it exits, and tell leaks that it can still reach from those that are lost
    #[arg(long, conflicts_with_all = ["sample", "aggregate"])]
    pub leak_check: bool,
    /// Sites of leaks to print for each process
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub leaks: usize,
    /// Print one JSON document instead of text; it has all leaks
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub run_as: super::user::UserArgs,
}

impl AttachArgs {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid.or(self.pid_option).expect("the parser wants one of them")
    }
}

/// Arguments of `thaw heap attach`.
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub struct AttachArgs {
    /// The process
    #[arg(value_name = "PID", required_unless_present = "pid_option", conflicts_with = "pid_option")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// The process; as --pid of other verbs
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid_option: Option<u32>,
    /// Directory to make
    #[arg(short, long, value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Replace a recording that is there
    #[arg(long)]
    pub force: bool,
    /// Let it go after this many seconds [default: when it ends, or Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Frames of a stack that are always there; deeper ones may be cut
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=127))]
    pub depth: u32,
    /// Record the stacks of frees too
    #[arg(long)]
    pub free_stacks: bool,
    /// Leave the functions of Python programs out: stacks are those of native code
    #[arg(long)]
    pub native_stacks: bool,
    /// Record one block for about so many bytes, for long runs: 512KiB. Sums are estimates then; see docs/heap.md
    #[arg(long, value_name = "BYTES", value_parser = super::values::size)]
    pub sample: Option<Bytes>,
    /// Add events up while the program runs and keep sums only, for long runs: see thaw heap run
    #[arg(long)]
    pub aggregate: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub states: StatesArgs,
    /// Sites of leaks to print for each process
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub leaks: usize,
    /// Print one JSON document instead of text; it has all leaks
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// The recording, which is still being made
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Only this process (repeatable) [default: all that run]
    #[arg(long, value_name = "PID")]
    pub process: Vec<u32>,
    /// Sites of leaks to print for each process
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub leaks: usize,
    /// Print one JSON document instead of text; it has all leaks
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap resident`.
#[derive(Debug, Args)]
#[command(after_help = RESIDENT_EXAMPLES)]
pub struct ResidentArgs {
    /// The recording, which is still being made
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Only this process (repeatable) [default: all that run]
    #[arg(long, value_name = "PID")]
    pub process: Vec<u32>,
    /// Places, files and names of each kind to print
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub top: usize,
    /// Innermost frames that tell places apart
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub frames: u16,
    /// Print one JSON document instead of text; it has all of them
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw heap finish`.
#[derive(Debug, Args)]
#[command(after_help = FINISH_EXAMPLES)]
pub struct FinishArgs {
    /// The recording
    #[arg(value_name = "DIRECTORY", default_value = "thaw.heap", value_hint = ValueHint::DirPath)]
    pub recording: PathBuf,
    /// Print one JSON document instead of text
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
    /// The allocator of the tables: glibc, moz2011, moz, jemalloc5, mimalloc, tcmalloc [default: what was recorded]
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

Records every allocation and every free of a program and of all its children, with stack, thread and time, and keeps \
them in a directory that can be asked about any moment afterwards.";

const RUN_ABOUT: &str = "\
What does my program allocate, and what does it never free?

Starts the program with a small library in it that writes down every allocation and free, in its children too, until \
all of them have ended; Ctrl-C and SIGTERM are passed on. Then prints a summary. What a killed or crashed process did \
is there up to its last event.";

const ATTACH_ABOUT: &str = "\
What does a program allocate that is running already?

Loads a small library into the process at a moment when that is safe, and records every allocation and free from then \
on, in children too that it forks. Ends with the program, after --seconds or with Ctrl-C; then the program goes on as \
before. Says for how long it was stopped. Blocks from before are not known; that they are freed is counted. Needs the \
right to trace the process (root, or the same user where the system allows it). Programs with a dynamic linker and \
glibc only.";

const ATTACH_EXAMPLES: &str = "\
Examples:
  thaw heap attach 1234
  thaw heap attach --seconds 30 -o /tmp/server.heap $(pidof server)
  thaw heap attach --free-stacks --json 1234 > heap.json";

const CHECK_ABOUT: &str = "\
Which blocks can a program that is being recorded no longer reach?

Asks the thaw that records it (heap run or attach) to stop the process for a moment and to search its memory for \
pointers to the blocks that are live. Blocks that nothing points to are lost: the program cannot free them any more. \
What was found stays in the recording; a later look replaces it. thaw heap run --leak-check looks at each process \
when it exits.";

const CHECK_EXAMPLES: &str = "\
Examples:
  thaw heap run -o server.heap -- ./server & sleep 60; thaw heap check server.heap
  thaw heap check server.heap --process 1234 --leaks 20
  thaw heap report server.heap --mode lost";

const RESIDENT_ABOUT: &str = "\
What does the resident memory of a program that is being recorded consist of, and who made it?

Of each page that is in memory: live blocks and mappings by the stacks that made them, what the allocator keeps beside \
them, files, shared memory, devices, stacks of threads, the recorder's own; what nobody was seen to map is unknown. \
The program is not stopped. Needs the rights to look at its memory: yours, or root.";

const RESIDENT_EXAMPLES: &str = "\
Examples:
  thaw heap run -o server.heap -- ./server & sleep 60; thaw heap resident server.heap
  thaw heap resident server.heap --process 1234 --top 20
  thaw heap attach 1234 -o 1234.heap & sleep 10; thaw heap resident 1234.heap --json";

const FINISH_ABOUT: &str = "\
How do I make a recording small whose thaw was killed, or that was made with --raw?

Rewrites the events of each process, as thaw heap run does at its end: their order, addresses, sizes and stacks stay, \
times are kept to 0.1 ms. Killed in between, it leaves each process as it was or finished, and can be called again.";

const FINISH_EXAMPLES: &str = "\
Examples:
  thaw heap finish
  thaw heap finish ff.heap
  thaw heap finish --json ff.heap | jq .after_bytes";

const SLOP_ABOUT: &str = "\
How many bytes does the allocator give that nobody requested, and who could request fewer?

Takes what the allocator said that it gave, and rounds every request as five other allocators would. Lists sizes of \
blocks and places by what they waste, and places that ask for a little more than a power of two, with the probable \
cause and the size to ask for instead.";

const SLOP_EXAMPLES: &str = "\
Examples:
  thaw heap slop thaw.heap
  thaw heap slop --model jemalloc5 --top 30 ff.heap
  thaw heap slop --model moz2011 --lines thaw.heap | thaw counts | head";

const GROWTH_ABOUT: &str = "\
Which buffers grow too slowly, and what does that cost?

Follows each buffer of a recording through its sizes: by realloc, or by allocating a larger block, copying and freeing \
the old one (probable: seen from the order of events alone). Lists places that grow by a constant number of bytes, or \
by a small factor, with what doubling would avoid, and places that make buffers smaller and larger by turns.";

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
  thaw heap run --leak-check -- ./my-tests
  thaw heap run --aggregate --sample 512KiB --every 1m -o week.heap -- ./server --port 8080";

const REPORT_ABOUT: &str = "\
Which code allocated it, and what was live when?

One recording answers all modes: every block that was made, those that were live at any moment, those that were never \
freed, those that were freed at once. Functions are named from debug data, or from symbol tables where there are none.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw heap report
  thaw heap report build.heap --mode live --at peak --tree down
  thaw heap report tests.heap --mode lost --suppressions lsan.supp --fail-if-any";

const DARK_ABOUT: &str = "\
Which blocks does no memory reporter of the program know, or more than one?

Joins a recording with a memory report of the same process (embed/memreport) that lists the blocks that were measured. \
Says by stack what nobody reported, what was reported more than once and by whom, which reports are of freed blocks or \
of the middle of one, and what heap-unclassified is made of. As dmd.py does in its dark-matter mode.";

const DARK_EXAMPLES: &str = "\
Examples:
  thaw heap run -- ./app & sleep 9; thaw memory show --pid $(pidof app) --blocks -o now.json.gz
  thaw heap dark --reported now.json.gz
  thaw heap dark app.heap --reported now.json.gz --top 30 --frames 4";

const DIFF_ABOUT: &str = "\
What does the second recording allocate that the first did not?

Stacks are the same if their functions and objects are, so that shifted lines and random addresses make no difference.";

const DIFF_EXAMPLES: &str = "\
Examples:
  thaw heap diff before.heap after.heap
  thaw heap diff before.heap after.heap --mode live --at end
  thaw heap diff before.heap after.heap --frames 3 --min-bytes 100000 --json";

const EXPORT_ABOUT: &str = "\
How do I look at a recording with the tool that I know?

Writes a recording in the format of another tool. What a format cannot tell (threads, lifetimes, times) is left out. \
Formats of one process take the one that allocated most, unless --process names another.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  thaw heap export --format dhat -o dhat.json
  thaw heap export ff.heap --format dmd --reported now.json.gz -o dmd.json
  thaw heap export --format pprof -o heap.pb.gz";

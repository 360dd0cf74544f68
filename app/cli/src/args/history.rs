//! `thaw history` and `thaw bisect`: what was typed.

use super::ForceArg;
use super::record::{States, states_parser};
use super::values;
use bench::gate::Metric;
use clap::{Args, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use work::histories::metric;

/// Arguments of `thaw history`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HistoryArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: HistoryVerb,
}

/// What to do with a history.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// How do I keep the figures of a commit?
    #[command(long_about = ADD_ABOUT, after_help = ADD_EXAMPLES)]
    Add(AddArgs),
    /// Which recordings, machines and set-ups are in it?
    #[command(long_about = LIST_ABOUT, after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// How did a figure change from commit to commit?
    #[command(long_about = SHOW_ABOUT, after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Which commit made it slower, most probably?
    #[command(long_about = BLAME_ABOUT, after_help = BLAME_EXAMPLES)]
    Blame(BlameArgs),
}

/// Which history.
#[derive(Debug, Args)]
pub struct FileArg {
    /// File of the history
    #[arg(long, value_name = "FILE", default_value = "history.thawdb", value_hint = ValueHint::FilePath)]
    pub history: PathBuf,
}

/// Arguments of `thaw history add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Recordings of one commit; directories of memory courses
    #[arg(value_name = "RECORDING", required = true, value_hint = ValueHint::AnyPath)]
    pub recordings: Vec<PathBuf>,
    /// What was recorded [default: HEAD; then changes in the tree that are in no commit are noted]
    #[arg(long, value_name = "REV")]
    pub commit: Option<String>,
    /// The versions of a course are named by revisions: each is of its own
    #[arg(long, conflicts_with = "commit")]
    pub by_version: bool,
    /// A directory of the repository
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub repo: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub file: FileArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw history list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub file: FileArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Which series.
#[derive(Debug, Args)]
pub struct SeriesArgs {
    /// Only this cache state
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Only this machine and set-up, by its number in thaw history list
    #[arg(long, value_name = "N")]
    pub setup: Option<i64>,
}

/// Arguments of `thaw history show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Which figure: as thaw gate has them, or pss, uss, rss of memory courses, pss:NAME at one checkpoint
    #[arg(long, value_name = "METRIC", default_value = "time", value_parser = metric)]
    pub metric: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub series: SeriesArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub file: FileArg,
    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Write a page with charts instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
}

/// Arguments of `thaw history blame`.
#[derive(Debug, Args)]
pub struct BlameArgs {
    /// Only this figure [default: all]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    pub metric: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub series: SeriesArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub file: FileArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw bisect`.
#[derive(Debug, Args)]
#[command(after_help = BISECT_EXAMPLES)]
pub struct BisectArgs {
    /// The program and its arguments; {tree} is the built tree, and a relative name with a slash is in it
    #[arg(last = true, required = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// A commit that is fast enough
    #[arg(long, value_name = "REV")]
    pub good: String,
    /// A later one that is not
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    pub bad: String,
    /// Shell command that builds the tree that it is started in; where it fails, the commit is skipped
    #[arg(long, value_name = "COMMAND")]
    pub build: Option<OsString>,
    /// A directory of the repository
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub repo: PathBuf,
    /// What to judge, each with a limit of its own if need be, as thaw gate has them
    #[arg(long, value_name = "METRIC[=SHARE]", value_delimiter = ',', default_value = "time")]
    #[arg(value_parser = values::metric)]
    pub metric: Vec<(Metric, Option<f64>)>,
    /// How much a figure may grow over the good commit [default: half of what it grew between the two ends]
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    pub max_regression: Option<f64>,
    /// Cache state to start in: one of cold, boot, app, hot
    #[arg(long, value_name = "STATE", default_value = "hot", value_parser = states_parser())]
    #[arg(hide_possible_values = true)]
    pub state: States,
    /// Blocks before the first look at a commit; a block has one run of it and one of the good commit
    #[arg(long, short, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Add no more blocks for one commit after this time; then it is skipped
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::duration)]
    pub budget: Duration,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
Since which commit does my program start slower?

A history keeps the figures of recordings by commit, in one file that is only added to. Recordings of other machines, \
programs and set-ups are series of their own and never mixed. In each series the steps are found: with the commit that \
most probably made each, the interval of its place and of its size, and the chance of it. How, and how often that is \
wrong: docs/history.md.";

const EXAMPLES: &str = "\
Examples:
  thaw history add thaw.thaw
  thaw history show --metric time --state cold
  thaw history blame";

const ADD_ABOUT: &str = "\
How do I keep the figures of a commit?

Adds what recordings say to a history, under the commit that was recorded: HEAD, or --commit. The same recording twice \
is there once; one to which runs were added counts as it is now. A recording of a tree with changes that are in no \
commit is kept and marked, and is a point of no series. Of a memory course each version is kept: its PSS, USS and RSS \
at each checkpoint.";

const ADD_EXAMPLES: &str = "\
Examples:
  thaw history add cold.thaw hot.thaw --commit v1.2 --repo ~/src/app
  thaw history add course --by-version                     # versions named v1.2, v1.3 and so on
  thaw history add thaw.thaw --history /srv/perf/app.thawdb --json";

const LIST_ABOUT: &str = "\
Which recordings, machines and set-ups are in it?

Each recording with its commit; each machine and set-up by its number, and where it differs from the one before it.";

const LIST_EXAMPLES: &str = "\
Examples:
  thaw history list
  thaw history list --json | jq '.setups'";

const SHOW_ABOUT: &str = "\
How did a figure change from commit to commit?

The median of each commit with the range of its runs, in the order of the commits, and the steps between levels.";

const SHOW_EXAMPLES: &str = "\
Examples:
  thaw history show
  thaw history show --metric pss:loaded --json
  thaw history show --html history.html";

const BLAME_ABOUT: &str = "\
Which commit made it slower, most probably?

The steps of all series, the largest first: the commit, the range that it lies in with 95 % probability, its size with \
interval, its subject and the date on which it was written.";

const BLAME_EXAMPLES: &str = "\
Examples:
  thaw history blame
  thaw history blame --metric time --state cold
  thaw history blame --json | jq '.steps[0].step.commit'";

pub(super) const BISECT_ABOUT: &str = "\
Which commit made my program start slower?

Bisects between a good and a bad commit in a worktree of its own; your tree is not touched. The good commit is built \
once and kept aside; each commit that git proposes is built, and both are started in the same random blocks until the \
gate decides. A commit that does not build, or that the runs cannot judge within --budget, is skipped. Exit code 0: \
found. 1: the ends do not differ, or skipped commits are in the way.";

const BISECT_EXAMPLES: &str = "\
Examples:
  thaw bisect --good v1.0 --build 'make -j2' -- ./app --version
  thaw bisect --good HEAD~64 --bad HEAD --metric cpu -- ./start.sh
  thaw bisect --good v1.0 --bad v1.1 --max-regression 10% --state cold --json -- sh {tree}/run.sh";

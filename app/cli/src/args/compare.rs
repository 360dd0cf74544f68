//! `thaw compare` and `thaw gate`: what was typed.

use super::values;
use bench::gate::Metric;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `thaw compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES, override_usage = COMPARE_USAGE)]
pub struct CompareArgs {
    /// The recording made before the change, or the only one with --variants
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The recording made after it
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath, required_unless_present = "variants")]
    #[arg(conflicts_with = "variants")]
    pub after: Option<PathBuf>,
    /// Compare two variants of one recording, pair by pair
    #[arg(long, value_name = "OLD,NEW", value_parser = values::two_names)]
    pub variants: Option<(String, String)>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// What the gate does when the runs cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Undecided {
    /// Exit code 1, as for a failure.
    Fail,
    /// Exit code 0, and a warning on stderr.
    Warn,
    /// Exit code 0.
    Pass,
}

/// A difference between two recordings that the gate is told to overlook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Another program, or other arguments.
    Program,
    /// Other states, readiness, disk, user, settings.
    Setup,
    /// Another machine, or other software on it.
    Machine,
}

/// Who reads annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Annotations {
    /// GitHub Actions: ::error file=...::
    Github,
}

/// Arguments of `thaw gate`.
#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES, override_usage = GATE_USAGE)]
pub struct GateArgs {
    /// The recording to compare with; alone, the one to judge
    #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// The recording to judge
    #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present_any = ["variants", "baseline", "against", "budgets"])]
    #[arg(conflicts_with_all = ["variants", "baseline", "against"])]
    pub after: Option<PathBuf>,
    /// Judge a variant against another one of the same recording, pair by pair
    #[arg(long, value_name = "OLD,NEW", value_parser = values::two_names, conflicts_with = "baseline")]
    pub variants: Option<(String, String)>,
    /// Judge against this file, kept in the program's repository
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Judge against the runs since the last step in a history: history (the file history.thawdb) or history:FILE
    #[arg(long, value_name = "history[:FILE]", value_parser = values::history)]
    #[arg(conflicts_with_all = ["variants", "baseline"])]
    pub against: Option<PathBuf>,
    /// Write the recording's figures into the file of --baseline instead of judging
    #[arg(long, requires = "baseline")]
    pub write_baseline: bool,
    /// What each figure may be at most, or by how much it may grow: a TOML file, docs/gates.md. Alone, it needs nothing
    /// to compare with
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["metric", "max_regression", "write_baseline"])]
    pub budgets: Option<PathBuf>,
    /// How much a figure may grow; -20%: it must have shrunk by a fifth at least, so that the gate proves a gain
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = values::growth, allow_hyphen_values = true)]
    pub max_regression: f64,
    /// What to judge, each with a limit of its own if need be: time, cpu, bytes, requests, faults, major-faults,
    /// instructions, memory, relocations, milestone:NAME
    #[arg(long, value_name = "METRIC[=SHARE]", value_delimiter = ',', default_value = "time")]
    #[arg(value_parser = values::metric)]
    pub metric: Vec<(Metric, Option<f64>)>,
    /// What to do when the runs cannot tell
    #[arg(long, value_name = "HOW", default_value = "fail")]
    pub undecided: Undecided,
    /// While undecided, add more blocks to the recording, made as it was recorded; each look shares the 5 % of error
    #[arg(long, requires = "variants")]
    pub until_decided: bool,
    /// Begin no more blocks after this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration)]
    #[arg(requires = "until_decided")]
    pub budget: Duration,
    /// Compare although these differ
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub allow: Vec<Allow>,
    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for a CI summary
    #[arg(long)]
    pub markdown: bool,
    /// Print a line on stderr for each figure that does not pass, too, as a CI server shows it beside the change
    #[arg(long, value_name = "HOW", conflicts_with = "json")]
    pub annotations: Option<Annotations>,
    /// Write the verdict as JUnit, too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Write the judged medians for Bencher, too (Bencher Metric Format)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_bencher: Option<PathBuf>,
    /// Write them for github-action-benchmark, too (customSmallerIsBetter)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_github_benchmark: Option<PathBuf>,
    /// Write them for Perfherder, too (PERFHERDER_DATA)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_perfherder: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: super::ForceArg,
}

const COMPARE_USAGE: &str = "\
thaw compare [OPTIONS] BEFORE AFTER
       thaw compare [OPTIONS] --variants OLD,NEW RECORDING";

const GATE_USAGE: &str = "\
thaw gate [OPTIONS] BEFORE AFTER
       thaw gate [OPTIONS] --variants OLD,NEW [--until-decided] RECORDING
       thaw gate [OPTIONS] --baseline FILE [--write-baseline] RECORDING
       thaw gate [OPTIONS] --against history[:FILE] RECORDING
       thaw gate [OPTIONS] --budgets FILE RECORDING";

pub(super) const COMPARE_ABOUT: &str = "\
Is one recording faster than another?

For each cache state: both medians with their 95 % intervals, the ratio with its interval, and the probability of such \
a difference by chance. Then the difference of differences: what the change did to the part of the start that is spent \
on the disk. Warns where the two machines, disks or read-aheads differ. Where both were recorded with --why, it says \
whose the additional time is: initialisers, locks, other programs (docs/why.md).";

const COMPARE_EXAMPLES: &str = "\
Examples:
  thaw compare before.thaw after.thaw
  thaw compare both.thaw --variants old,new
  thaw compare before.thaw after.thaw --json | jq '.comparison'";

pub(super) const GATE_ABOUT: &str = "\
Did my change make the start slower?

Two one-sided tests for each figure of each state: does it lie above its limit, does it lie below? The gate fails \
(exit code 1) if a figure lies above: by chance once in twenty at most, over all states and metrics together. It \
passes if all lie below. Else it is undecided, which is exit code 1 too, unless --undecided says otherwise. Recordings \
of different programs, made in different ways or on different machines, are refused (exit code 2) unless --allow names \
the difference. The tests and how often they are wrong: docs/statistics.md. If the time of a start fails, it says \
whose the additional time is, where both were recorded with --why (docs/why.md).";

const GATE_EXAMPLES: &str = "\
Examples:
  thaw gate main.thaw branch.thaw --metric time,cpu,bytes=1% --markdown >> \"$GITHUB_STEP_SUMMARY\"
  thaw gate both.thaw --variants old,new --until-decided --budget 20m
  thaw gate branch.thaw --budgets start.toml --junit gate.xml";

//! `thaw why`: what was typed.

use super::record::RecordArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw why`: those of `thaw record`, or a recording.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(mut_arg("state", |arg| arg.default_value("hot")), mut_arg("needed", |arg| arg.default_value("no")))]
#[command(mut_arg("trace_runs", |arg| arg.default_value("5")), mut_arg("runs", |arg| arg.default_value("5")))]
pub struct WhyArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub record: RecordArgs,
    /// Record nothing: answer from this recording of `thaw why`, or of `thaw record --why`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    #[arg(conflicts_with_all = ["command", "app", "variant", "output"])]
    pub from: Option<PathBuf>,
    /// Say why these starts take another time than those of this earlier recording
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub compare: Option<PathBuf>,
    /// So many owners, and so many things that would help, in the text; --json has all
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "The answer")]
    pub most: u32,
    /// Write a page for the browser: a waterfall of all threads with the path over them, its owners, flame graphs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub other: OtherArgs,
}

/// One start for other tools.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "One start for other tools")]
pub struct OtherArgs {
    /// CPU time by stacks, a line each: flamegraph.pl, inferno
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_folded: Option<PathBuf>,
    /// Samples of each thread: speedscope.app
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_speedscope: Option<PathBuf>,
    /// Samples, waits as markers, the path: profiler.firefox.com
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_firefox: Option<PathBuf>,
    /// Time by stacks, on the path and in all threads, running and waiting: pprof
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_pprof: Option<PathBuf>,
    /// What the scheduler did, and the path: ui.perfetto.dev, trace_processor
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub export_perfetto: Option<PathBuf>,
    /// The run that is exported [default: the one whose time is the middle one, of the first program and state]
    #[arg(long, value_name = "RUN")]
    pub export_run: Option<i64>,
}

pub(super) const LONG_ABOUT: &str = "\
Where does the time of a start go: who computes, who waits for whom, and who holds it all up?

Starts the program a few times while its threads are watched: where they run, when they wait, who wakes whom. Goes \
back from the moment of readiness to exec along what was waited for, so that every millisecond has one owner: a \
function, the kernel on a system call, the disk, a lock, a sleep, another process, a CPU that somebody else had. What \
is not known is said. What ran beside that way costs no time, and is listed apart. One more start shows what the \
loader does before main. From both comes what would help, and by how much. Takes all options of `thaw record`.";

const USAGE: &str = "\
thaw why [OPTIONS] -- PROGRAM ARGS...
       thaw why [OPTIONS] --app NAME
       thaw why --from FILE [--compare BEFORE]";

const EXAMPLES: &str = "\
Examples:
  thaw why -- python3 -c 'import json'
  thaw why --app firefox-esr --ready beacon --state cold --html why.html
  thaw why --from after.thaw --compare before.thaw";
